"use strict";
// The drawing of the belief along the text, with a band for each hypothesis and the truth at the bottom.
barl.river = (() => {
  const { el, svg, number, visible } = barl;
  const WIDTH = 1000;
  const HEIGHT = 200;

  // Bands of the hypotheses that the page has of a rollout, the truth first; the others share one band.
  function bandsOf({ w, hypotheses, has_truth: hasTruth, member, rest }) {
    const most = hypotheses.map((_, i) => Math.max(...w.map((row) => row[i])));
    const order = hypotheses.map((_, i) => i).slice(hasTruth ? 1 : 0).sort((a, b) => most[b] - most[a]);
    const bands = (hasTruth ? [0, ...order] : order).map((i, n) => ({ color: `h${hasTruth ? n : n + 1}`, name: hypotheses[i],
      isTruth: hasTruth && i === 0, isOwn: i === member, values: w.map((row) => row[i]) }));
    if (rest) {
      bands.push({ color: "h-rest", name: `the other ${barl.whole(rest.number)}`, isTruth: false, isOwn: false, values: rest.w });
    }
    return bands;
  }

  // The panel. `onPoint` and `onChoose` are called with steps; `mark` shows a step.
  function panel(rollout, { onPoint, onChoose }) {
    const bands = bandsOf(rollout);
    const digits = barl.text.digitsOf(rollout);
    const total = rollout.tokens.length;
    const places = [0, ...rollout.step_ends, total]; // behind the last state the belief stays
    const x = (state) => (places[state] / Math.max(1, total)) * WIDTH;
    const states = places.length - 1;
    const level = new Array(states).fill(0);
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    for (const band of bands) {
      const low = [...level];
      band.values.forEach((value, t) => { level[t] += value; });
      const at = (t, share) => `${x(t).toFixed(1)},${(HEIGHT * (1 - Math.min(1, share))).toFixed(2)}`;
      const upper = [...level, level.at(-1)].map((share, t) => at(t, share));
      const lower = [...low, low.at(-1)].map((share, t) => at(t, share)).reverse();
      band.path = svg("path", { d: `M${upper.join("L")}L${lower.join("L")}Z`, class: `band ${band.color}` });
      band.path.append(svg("title", {}, visible(barl.cut(band.name, 80))));
      drawing.append(band.path);
    }
    for (let t = 1; t < states; t++) {
      drawing.append(svg("line", { x1: x(t), x2: x(t), y1: 0, y2: HEIGHT, class: "boundary" }));
    }
    const here = svg("rect", { x: 0, y: 0, width: 0, height: HEIGHT, class: "here" });
    drawing.append(here);
    const legend = el("ul", { class: "hypotheses" }, bands.map((band) => {
      band.value = el("span", { class: "value" });
      band.item = el("li", {}, el("span", { class: `swatch ${band.color}`, "aria-hidden": "true" }),
        el("bdi", { class: "clip" }, visible(barl.cut(band.name, 60))),
        band.isTruth ? el("span", { class: "tag" }, "truth") : null,
        band.isOwn ? el("span", { class: "tag" }, "its answer") : null, band.value);
      return band.item;
    }));
    const slider = el("div", { class: "river", role: "slider", tabindex: "0", "aria-label": `Belief along the text, by ${rollout.unit}`,
      "aria-valuemin": 0, "aria-valuemax": Math.max(0, states - 2), "aria-valuenow": 0 }, drawing);
    let marked = null;

    // Shows the belief after step t; if t is null, the belief at the end.
    function mark(t) {
      marked = t;
      const isStep = t !== null && t < states - 1;
      const state = isStep ? t + 1 : states - 1;
      here.setAttribute("x", isStep ? x(t) : 0);
      here.setAttribute("width", isStep ? x(t + 1) - x(t) : 0);
      for (const band of bands) {
        const before = isStep ? `${number(band.values[state - 1], digits)} → ` : "";
        band.value.textContent = `${before}${number(band.values[state], digits)}`;
        band.item.classList.toggle("out", isStep && band.values[state] < barl.text.eliminated(rollout));
      }
      slider.setAttribute("aria-valuenow", isStep ? t : Math.max(0, states - 2));
      slider.setAttribute("aria-valuetext", `${isStep ? `after ${barl.text.named(rollout, t)}` : "at the end"}: `
        + bands.map((band) => `${visible(barl.cut(band.name, 20))}${band.isTruth ? ", the truth," : ""} ${number(band.values[state], 2)}`).join("; "));
    }
    function stepAt(event) {
      const box = slider.getBoundingClientRect();
      const token = ((event.clientX - box.left) / box.width) * total;
      return Math.min(states - 2, Math.max(0, barl.text.stepOf(rollout, Math.max(0, token))));
    }
    if (states > 1) {
      slider.addEventListener("pointermove", (event) => onPoint(stepAt(event)));
      slider.addEventListener("pointerleave", () => onPoint(null));
      slider.addEventListener("click", (event) => onChoose(stepAt(event)));
      slider.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -Infinity, End: Infinity }[event.key];
        if (!by) return;
        event.preventDefault();
        onChoose(Math.min(states - 2, Math.max(0, (marked === null ? -1 : marked) + by)));
      });
    }
    mark(null);
    const axis = (name, ...labels) => el("div", { class: name, "aria-hidden": "true" }, labels.map((label) => el("span", {}, label)));
    return { element: el("div", { class: "belief" }, el("div", { class: "plane" }, axis("levels", "1", "belief", "0"), slider,
      axis("axis", "prompt", barl.plural(total, "token"))), legend), mark };
  }

  // A sentence that says what the drawing is.
  const noteOf = ({ unit, has_truth: hasTruth }) => "From left to right the text is read. At each place the height of a band is the belief in one answer"
    + `${hasTruth ? "; the lowest band, in blue, is the truth" : ""}. A thin upright stroke ends each ${unit}.`;

  // A sentence on the belief in the truth, or without one on the entropy: its beginning, its end and its
  // greatest change.
  function titleOf(rollout) {
    const unit = rollout.unit;
    const digits = rollout.has_truth ? barl.text.digitsOf(rollout) : 2;
    const values = rollout.has_truth ? rollout.w.map((row) => row[0]) : barl.text.nats(rollout);
    const changes = values.slice(1).map((value, t) => value - values[t]);
    const greatest = changes.reduce((best, change, t) => Math.abs(change) > Math.abs(changes[best] || 0) ? t : best, 0);
    const path = `${rollout.has_truth ? "Belief in the truth" : "Entropy of the belief"} goes from ${number(values[0], digits)} to ${number(values.at(-1), digits)}`;
    if (!changes.length || Math.abs(changes[greatest]) < 0.02) return `${path}; no ${unit} moves it.`;
    return `${path}; ${barl.text.named(rollout, greatest)} moves it most (${barl.signed(changes[greatest])}).`;
  }

  return { panel, titleOf, noteOf };
})();
