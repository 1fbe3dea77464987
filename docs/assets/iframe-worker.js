// Browsers start no worker from a disk: there the site's search runs in a frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.deliver(structuredClone(data));
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href).href;
      this.isReady = new Promise((done) => script.addEventListener("load", done));
      inside.document.documentElement.append(script);
    }
    deliver(data) {
      setTimeout(() => {
        const event = new MessageEvent("message", { data });
        this.onmessage?.(event);
        this.dispatchEvent(event);
      });
    }
    postMessage(data) {
      const inside = this.frame.contentWindow;
      const copy = structuredClone(data);
      const send = () => inside.dispatchEvent(new inside.MessageEvent("message", { data: copy }));
      this.isReady.then(() => setTimeout(send));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
