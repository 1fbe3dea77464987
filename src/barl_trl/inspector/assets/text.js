"use strict";
// The coloured text of a rollout, and the numbers of the token under the pointer.
barl.text = (() => {
  const { el, number, signed, visible, cut } = barl;
  const WINDOW = 3000;
  const LONGEST = 20000;
  const tip = document.getElementById("tip");
  const FORMULA = /\$\$([^$]+)\$\$|\$([^$\n]+)\$|\\\(([\s\S]+?)\\\)|\\\[([\s\S]+?)\\\]|(\\boxed\{(?:[^{}]|\{[^{}]*\})*\})/g;

  const MODES = {
    __proto__: null, // no name from the address is a key that every object has
    weight: { label: "step weight", title: "blamed to praised", bound: () => barl.store.runs[0].bound },
    entropy: { label: "entropy", title: "entropy of the belief after the step", bound: () => 1, sequential: true },
    truth: { label: "truth mass", title: "belief in the truth after the step", bound: () => 1, sequential: true },
    ratio: { label: "importance ratio", title: "log of the importance ratio", bound: () => Math.log(2) },
  };

  function stepOf(rollout, token) {
    let low = 0;
    let high = rollout.step_ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rollout.step_ends[middle] <= token) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Turns of a rollout in which others wrote, too. The model wrote up to `answered`, and an observation
  // follows up to `stop`. The state `after` stands behind it.
  // A rollout of a single turn has one if its turns have rewards.
  function turnsOf({ unit, tokens, turn_ends: ends, own_tokens: own, observed_tools: tools, step_ends: steps }) {
    if (!ends && unit === "turn") return [{ n: 0, start: 0, answered: tokens.length, stop: tokens.length, tools: [], before: 0, after: steps.length }];
    const stateAt = (token) => steps.filter((end) => end <= token).length;
    return (ends || []).map((stop, n) => {
      const start = n ? ends[n - 1] : 0;
      let answered = stop;
      while (answered > start && !own[answered - 1]) answered -= 1;
      return { n, start, answered, stop, tools: tools[n], before: stateAt(start), after: stateAt(stop) };
    });
  }
  // What step t of a rollout is called: turns, lines and parts are counted from 1.
  const named = ({ unit }, t) => `${unit} ${t + 1}`;

  // The number that colours a token of step t. The belief after step t is that at state t + 1.
  function valueOf(rollout, mode, token, t) {
    if (rollout.own_tokens && !rollout.own_tokens[token]) return null;
    const isStep = t < rollout.step_ends.length;
    if (mode === "weight") {
      if (rollout.token_weights) return rollout.token_weights[token];
      return isStep ? rollout.weights[t] : rollout.closing;
    }
    if (mode === "entropy") return rollout.entropy && isStep ? rollout.entropy[t + 1] : null;
    if (mode === "truth") return rollout.w && rollout.has_truth && isStep ? rollout.w[t + 1][0] : null;
    const ratio = rollout.ratios ? rollout.ratios[token] : null;
    return ratio === null || ratio <= 0 ? null : Math.log(ratio);
  }

  function has(rollout, mode) {
    if (!(mode in MODES) || (mode === "truth" && !rollout.has_truth)) return false;
    return mode === "weight" || (mode === "ratio" ? Boolean(rollout.ratios) : Boolean(rollout.w));
  }

  // Ranges of tokens that are thoughts: [first token, token after the last]. No observation is one.
  function thoughts({ tokens, own_tokens: own, ...rollout }) {
    if (!own) return thoughtsOf(tokens);
    return turnsOf({ own_tokens: own, ...rollout }).flatMap(({ start, answered }) =>
      thoughtsOf(tokens.slice(start, answered).map((text, k) => own[start + k] ? text : ""))
        .map(([first, end]) => [start + first, start + end]));
  }
  function thoughtsOf(tokens) {
    const joined = tokens.join("");
    const ranges = [];
    for (let from = joined.indexOf("<think>"); from >= 0; from = joined.indexOf("<think>", from + 7)) {
      const end = joined.indexOf("</think>", from);
      ranges.push([from, end < 0 ? joined.length : end + 8]);
      if (end < 0) break;
      from = end;
    }
    if (!ranges.length && joined.includes("</think>")) ranges.push([0, joined.indexOf("</think>") + 8]);
    return inTokens(tokens, ranges);
  }

  function inTokens(tokens, ranges) {
    const ends = [];
    let at = 0;
    let k = 0;
    for (const [from, to] of ranges) {
      while (k < tokens.length && at + tokens[k].length <= from) { at += tokens[k].length; k += 1; }
      const first = k;
      while (k < tokens.length && at < to) { at += tokens[k].length; k += 1; }
      if (k > first && (!ends.length || first >= ends.at(-1)[1])) ends.push([first, k]);
    }
    return ends;
  }

  function describe(rollout, token) {
    const t = stepOf(rollout, token);
    const isStep = t < rollout.step_ends.length;
    const parts = [["token", visible(JSON.stringify(barl.cut(rollout.tokens[token], 60)))], ["id", rollout.token_ids[token]]];
    const logp = rollout.logps ? rollout.logps[token] : null;
    if (logp !== null) parts.push(["log-prob", `${number(logp)} (p ${number(Math.exp(logp))})`]);
    if (rollout.ratios) parts.push(["ratio", number(rollout.ratios[token])]);
    parts.push(["weight", signed(valueOf(rollout, "weight", token, t), 3)], [rollout.unit, isStep ? t + 1 : "after the last"]);
    const reward = rollout.turn_rewards && isStep ? rollout.turn_rewards[t] : null;
    if (reward !== null) parts.push(["reward", number(reward)]);
    if (rollout.p && isStep) {
      rollout.hypotheses.slice(0, 8).forEach((answer, i) => parts.push([
        `${rollout.belief === "task" ? "b" : "p"}(${visible(barl.cut(answer, 24))})${i || !rollout.has_truth ? "" : " truth"}`,
        `${number(rollout.p[t][i])} → ${number(rollout.p[t + 1][i])}`]));
    }
    return parts;
  }

  function showTip(rollout, token, target) {
    tip.replaceChildren(el("dl", {}, describe(rollout, token).map(([name, value]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, el("bdi", {}, String(value)))))));
    tip.hidden = false;
    const box = target.getBoundingClientRect();
    const left = Math.min(window.innerWidth - tip.offsetWidth - 8, Math.max(8, box.left));
    const below = box.bottom + 6 + tip.offsetHeight < window.innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(8, below ? box.bottom + 6 : box.top - tip.offsetHeight - 6)}px`;
  }
  const hideTip = () => { tip.hidden = true; };

  function piece(text) {
    if (text.length <= LONGEST) return visible(text);
    return `${visible(text.slice(0, LONGEST))} … ${barl.whole(text.length - LONGEST)} more characters, which the export has`;
  }

  // The line above a turn: the weights of its steps, if it has any, beside GRPO's.
  function head(rollout, { n, before, after }) {
    const chip = (value) => barl.shaded(el("span", { class: "chip" }, signed(value)), value, MODES.weight.bound());
    const own = rollout.step_values || rollout.token_weights || rollout.closing !== null
      ? [" weight ", ...rollout.weights.slice(before, Math.min(after, before + 20)).flatMap((value) => [chip(value), el("wbr")])] : null;
    const told = rollout.turn_rewards ? rollout.turn_rewards.slice(before, after) : [];
    const reward = told.some((r) => r !== null) ? ` reward ${number(told.reduce((sum, r) => sum + (r || 0), 0))}` : null;
    return el("div", { class: "turn" }, el("strong", {}, `Turn ${n + 1}`), reward, own, " GRPO ", chip(barl.group.flat(rollout)));
  }
  // Beliefs below this are shown as none: 1 %, of many hypotheses a tenth of their equal share.
  const eliminated = ({ size }) => Math.min(0.01, 0.1 / size);
  const digitsOf = ({ rest }) => rest ? 3 : 2;
  // Entropy of the belief at each state, in nats.
  const nats = ({ entropy, size }) => entropy.map((share) => share * Math.log(Math.max(2, size)));

  // What the observations of the steps from `before` on rule out, and what that does to the entropy.
  function ruledOut(rollout, { before, after }) {
    const steps = rollout.ruled_out.slice(before, after);
    const count = steps.reduce((sum, step) => sum + step[0], 0);
    const names = steps.flatMap((step) => step[2]).slice(0, 6);
    const [from, to] = [before, after].map((state) => number(nats(rollout)[state], 2));
    const entropy = from === to ? `entropy stays ${from}` : `entropy ${from} → ${to}`;
    if (!count) return [entropy];
    return [`rules out ${barl.whole(count)} of ${barl.whole(steps[0][1])}: `,
      ...names.flatMap((name, n) => [n ? ", " : null, el("bdi", {}, visible(cut(name, 40)))]), `${count > names.length ? ", …" : ""}; ${entropy}`];
  }
  // The line below a turn: what it and its observation changed. With one hypothesis, that is plausibility.
  function change(rollout, { before, after }) {
    const { hypotheses, w, p, size, rest } = rollout;
    if (!w || after === before) return null;
    const [states, of, digits] = size > 1 ? [w, "belief in", digitsOf(rollout)] : [p, "plausibility of", 3];
    const moved = hypotheses.map((_, i) => states[after][i] - states[before][i]);
    const isTold = rollout.ruled_out && rollout.ruled_out.slice(before, after).some((step) => step[0]);
    const least = Math.max(0.005, rest ? rest.most : 0); // none of the rest moved more
    const told = (by, i) => isTold || Math.abs(moved[i]) < least ? null : [by, el("bdi", {}, visible(cut(hypotheses[i], 40))), ` ${signed(moved[i], digitsOf(rollout))}`];
    const lost = moved.indexOf(Math.min(...moved)), gained = moved.indexOf(Math.max(...moved));
    const parts = [
      rollout.has_truth ? [`${of} the truth ${number(states[before][0], digits)} → ${number(states[after][0], digits)}`] : null,
      rollout.ruled_out && size > 1 ? ruledOut(rollout, { before, after }) : null,
      moved[gained] > 0 ? told("most gained: ", gained) : null, moved[lost] < 0 ? told("most lost: ", lost) : null,
    ].filter(Boolean);
    return parts.length ? el("div", { class: "change" }, parts.flatMap((part, n) => n ? [" · ", ...part] : part)) : null;
  }
  // The same below a step of a text, if the task says what the step showed and that says anything.
  function shownBy(rollout, t) {
    const [before, after] = rollout.ruled_out && rollout.w ? nats(rollout).slice(t, t + 2) : [0, 0];
    return Math.abs(before - after) < 0.005 ? null : change(rollout, { before: t, after: t + 1 });
  }

  // Elements of the tokens from `from` to `to`: a span for each step, thoughts in `details`. Each turn
  // has a line above and below it, and its observation stands apart.
  function spans(rollout, mode, from, to, maths) {
    const { sequential, bound } = MODES[mode];
    const limit = bound();
    const folds = thoughts(rollout);
    const turns = turnsOf(rollout);
    const formulas = maths ? inFormulas(rollout.tokens) : new Map();
    const out = [];
    let run = null;
    let box = null;
    let within = null;
    let k = from;
    while (k < to) {
      const turn = turns.find(({ stop }) => k < stop);
      const isObserved = Boolean(turn) && k >= turn.answered;
      if (turn && (k === from || k === turn.start)) { out.push(head(rollout, turn)); within = null; }
      const fold = folds.find(([first, end]) => first <= k && k < end);
      const place = fold || (isObserved ? turn : out);
      const t = stepOf(rollout, k);
      if (place !== within) {
        within = place;
        run = null;
        box = fold ? el("details", { open: true, class: "thought" }, el("summary", {}, `thought, ${barl.plural(fold[1] - fold[0], "token")}`))
          : isObserved ? el("div", { class: "observation" }, el("span", { class: "label" }, visible(cut(turn.tools.join(", "), 200)) || "observation")) : null;
        if (box) out.push(box);
      }
      if (!run || Number(run.dataset.t) !== t) {
        run = el("span", { class: "step", "data-t": t });
        if (box) box.append(run); else out.push(run);
      }
      const formulaHere = formulas.get(k);
      const isOther = rollout.own_tokens && !rollout.own_tokens[k];
      const token = el("span", { class: isOther ? "token other" : "token", "data-k": k });
      barl.shaded(token, valueOf(rollout, mode, k, t), limit, sequential);
      const edge = !turn ? to : isObserved ? turn.stop : turn.answered;
      if (formulaHere && formulaHere.end <= Math.min(to, edge)) {
        render(token, formulaHere);
        k = formulaHere.end;
      } else {
        token.textContent = piece(rollout.tokens[k]);
        k += 1;
      }
      run.append(token);
      if (turn && k === turn.stop) out.push(change(rollout, turn));
      if (!turn && t < rollout.step_ends.length && stepOf(rollout, k) !== t) {
        const line = shownBy(rollout, t);
        if (line && box) box.append(line); else out.push(line);
      }
    }
    return out.filter(Boolean);
  }

  function inFormulas(tokens) {
    const joined = tokens.join("");
    if (joined.length > 200000) return new Map();
    const matches = [...joined.matchAll(FORMULA)].filter((m) => m[0].length < 2000);
    const formulas = new Map();
    inTokens(tokens, matches.map((m) => [m.index, m.index + m[0].length])).forEach(([first, end]) => {
      formulas.set(first, { end, text: tokens.slice(first, end).join("") });
    });
    return formulas;
  }

  // A formula as MathML elements, which KaTeX makes without markup; its text where KaTeX fails.
  function formula(source, text, isBlock) {
    const drawn = el("span", { class: source.startsWith("\\boxed") ? "formula boxed" : "formula" });
    try {
      katex.render(source, drawn, { output: "mathml", strict: "ignore", trust: false, maxExpand: 200, maxSize: 20, displayMode: isBlock });
    } catch {
      drawn.replaceChildren(visible(text));
    }
    return drawn;
  }

  function render(parent, { text }) {
    let at = 0;
    for (const match of text.matchAll(FORMULA)) {
      const source = match.slice(1).find((part) => part !== undefined);
      parent.append(visible(text.slice(at, match.index)), formula(source, match[0], Boolean(match[1] || match[4])));
      at = match.index + match[0].length;
    }
    parent.append(visible(text.slice(at)));
  }

  // The panel with the text. `onStep` is called with the step that is pointed at or chosen.
  function panel(rollout, options) {
    const { mode, maths, onPoint, onChoose, label } = options;
    const box = el("div", { class: "text tokens", tabindex: "0", role: "group", "aria-label": label });
    let from = 0;
    let cursor = -1;

    function windowEnd() {
      let to = from;
      for (let size = 0; to < rollout.tokens.length && to - from < WINDOW && size < 3 * LONGEST; to++) {
        size += Math.min(LONGEST, rollout.tokens[to].length);
      }
      return to;
    }
    function draw() {
      const to = windowEnd();
      const jump = (text, place) => el("button", { type: "button", class: "window", onclick: () => { from = place; draw(); box.scrollTop = 0; } }, text);
      box.replaceChildren(
        ...(from ? [jump(`Earlier tokens (${barl.whole(from)})`, Math.max(0, from - WINDOW))] : []),
        ...spans(rollout, mode, from, to, maths),
        ...(to < rollout.tokens.length ? [jump(`Later tokens (${barl.whole(rollout.tokens.length - to)})`, to)] : []),
        ...(rollout.tokens.length ? [] : [el("em", {}, "The completion is empty.")]));
    }
    function reveal(t) {
      const begin = t ? rollout.step_ends[t - 1] : 0;
      if (begin < from || begin >= windowEnd()) { from = Math.max(0, begin - 20); draw(); }
    }
    function mark(t, scroll) {
      if (scroll && t !== null) reveal(t);
      let first = null;
      for (const step of box.querySelectorAll(".step")) {
        const isAt = Number(step.dataset.t) === t;
        step.classList.toggle("at", isAt);
        if (isAt && !first) first = step;
      }
      if (scroll && first) {
        const top = first.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop;
        if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - 60) box.scrollTop = top - 40;
      }
    }
    const tokenOf = (event) => event.target.closest(".token");
    box.addEventListener("pointerover", (event) => {
      const token = tokenOf(event);
      if (!token) { hideTip(); return; }
      const k = Number(token.dataset.k);
      showTip(rollout, k, token);
      onPoint(stepOf(rollout, k));
    });
    box.addEventListener("pointerleave", () => { hideTip(); onPoint(null); });
    box.addEventListener("click", (event) => {
      const token = tokenOf(event);
      if (token) onChoose(stepOf(rollout, Number(token.dataset.k)));
    });
    box.addEventListener("blur", hideTip);
    box.addEventListener("keydown", (event) => {
      if (event.target !== box || !["ArrowLeft", "ArrowRight", "Enter"].includes(event.key) || !rollout.tokens.length) return;
      event.preventDefault();
      if (event.key === "Enter") { if (cursor >= 0) onChoose(stepOf(rollout, cursor)); return; }
      cursor = Math.min(rollout.tokens.length - 1, Math.max(0, cursor + (event.key === "ArrowRight" ? 1 : -1)));
      reveal(stepOf(rollout, cursor));
      box.querySelectorAll(".cursor").forEach((token) => token.classList.remove("cursor"));
      const token = box.querySelector(`[data-k="${cursor}"]`);
      if (!token) return;
      token.classList.add("cursor");
      token.scrollIntoView({ block: "nearest" });
      showTip(rollout, cursor, token);
      onPoint(stepOf(rollout, cursor));
      barl.say(describe(rollout, cursor).map(([name, value]) => `${name} ${value}`).join(", "));
    });
    draw();
    return { element: box, mark };
  }

  return { MODES, panel, has, stepOf, named, render, formula, hideTip, thoughts, nats, eliminated, digitsOf };
})();
