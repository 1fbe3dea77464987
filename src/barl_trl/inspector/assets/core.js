"use strict";
// Functions that all parts of the page use, on shards, elements, numbers and colours. Texts of models
// and data enter the page as text nodes only.
const barl = (() => {
  const nonce = document.currentScript.nonce;
  const received = new Map();
  const waiting = new Map();
  const KEPT = 60;

  // A shard's script calls this.
  function receive(name, value) {
    received.set(name, value);
    if (received.size > KEPT) {
      for (const old of received.keys()) {
        if (received.size <= KEPT) break;
        if (/^[ab]-\d/.test(old)) received.delete(old);
      }
    }
  }

  function script(source) {
    return new Promise((done, failed) => {
      const element = document.createElement("script");
      element.nonce = nonce;
      element.src = source;
      element.onload = () => { element.remove(); done(); };
      element.onerror = () => { element.remove(); failed(new Error(`${source} is missing.`)); };
      document.head.append(element);
    });
  }

  // The value of a shard, which is loaded if it was not received yet.
  function load(name) {
    if (received.has(name)) return Promise.resolve(received.get(name));
    const inline = document.getElementById(`shard-${name}`);
    if (inline) {
      receive(name, JSON.parse(inline.textContent));
      return Promise.resolve(received.get(name));
    }
    if (!waiting.has(name)) {
      const loaded = script(`data/${name}.js`).then(() => received.get(name));
      waiting.set(name, loaded.finally(() => waiting.delete(name)));
    }
    return waiting.get(name);
  }

  // Runs a script that a shard holds in compressed form.
  async function unpack(name) {
    const bytes = Uint8Array.from(atob(await load(name)), (c) => c.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const element = document.createElement("script");
    element.nonce = nonce;
    element.textContent = await new Response(unpacked).text();
    document.head.append(element);
  }

  function put(element, properties, children) {
    for (const [name, value] of Object.entries(properties || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "style") {
        for (const [key, set] of Object.entries(value)) element.style.setProperty(key, set);
      } else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  const el = (tag, properties, ...children) =>
    put(document.createElement(tag), properties, children);
  const svg = (tag, properties, ...children) =>
    put(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

  // Characters that would reorder or hide what stands around them are shown by their number.
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u3164\ufeff\u{e0000}-\u{e007f}]/gu;
  const visible = (text) => text.replace(HIDDEN, (c) =>
    `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
  const cut = (text, most) => text.length <= most ? text : `${text.slice(0, most)}…`;

  // What is rounded to zero has no sign.
  const number = (value, digits = 3) => value === null || value === undefined ? "–"
    : value.toFixed(digits).replace(/^-([0.]+)$/, "$1").replace("-", "−");
  const signed = (value, digits = 2) => number(value, digits).replace(/^(?=\d*\.?\d*[1-9])/, "+");
  const whole = (value) => value === null || value === undefined ? "–"
    : Math.round(value).toLocaleString("en");
  const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

  // A colour is a class and a share, so that a change of the theme needs no drawing.
  function shaded(element, value, bound, sequential) {
    if (value === null || value === undefined) return element;
    element.classList.add(value < 0 ? "neg" : sequential ? "seq" : "pos");
    element.style.setProperty("--x", `${Math.round(100 * Math.min(1, Math.abs(value) / bound))}%`);
    return element;
  }

  function legend(bound, title, sequential) {
    const bar = el("span", { class: sequential ? "bar seq-bar" : "bar", "aria-hidden": "true" });
    const [low, high] = sequential ? ["0", number(bound, bound < 1 ? 2 : 0)]
      : [signed(-bound, 1), signed(bound, 1)];
    return el("span", { class: "legend" }, title, el("span", { class: "low" }, low), bar,
      el("span", { class: "high" }, high));
  }

  // A box that scrolls sideways, and shows where what it holds goes on behind its right edge.
  const edges = new ResizeObserver((entries) => entries.forEach(({ target }) => markEdge(target.closest(".scroll"))));
  function markEdge(box) {
    box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
    box.classList.toggle("goes-on", box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  }
  function scroller(table, label) {
    const box = el("div", { class: "scroll", onscroll: () => markEdge(box),
      ...(label ? { tabindex: "0", role: "region", "aria-label": label } : {}) }, table);
    for (const element of [box, table]) edges.observe(element);
    return box;
  }

  function say(text) { document.getElementById("say").textContent = text; }

  return { receive, load, unpack, el, svg, visible, cut, number, signed, whole, plural,
    shaded, legend, scroller, say };
})();
