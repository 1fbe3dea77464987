"use strict";
// The page of a group: a grid of rollouts by their turns, lines or parts, coloured by weight, and the same grid coloured by
// GRPO's flat advantage.
barl.group = (() => {
  const { el, number, signed } = barl;

  // A grid of cells. The tab key stops at it once; the arrow keys move inside.
  function grid(title, note, lines, bound, go) {
    const columns = Math.max(1, ...lines.map((line) => line.cells.length));
    const body = lines.map((line, r) => el("tr", {},
      el("th", { scope: "row" }, el("a", { href: line.href, tabindex: "-1" }, line.name)),
      line.cells.map((value, t) => barl.shaded(el("td", {
        tabindex: r || t ? "-1" : "0", "data-r": r, "data-t": t, class: line.at === t ? "at" : null,
        "aria-label": `${line.name}, ${line.unit} ${t + 1}: ${signed(value)}`, title: `${line.unit} ${t + 1}: ${signed(value)}`,
      }, columns <= 12 ? signed(value, 1) : ""), value, bound)),
      Array.from({ length: columns - line.cells.length }, () => el("td", { class: "void" }))));
    const table = el("table", { class: columns <= 12 ? "heat" : "heat dense", role: "grid", "aria-label": title },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "rollout"),
        Array.from({ length: columns }, (_, t) => el("th", { scope: "col" }, columns <= 12 || (t + 1) % 5 === 0 ? String(t + 1) : "")))),
      el("tbody", {}, body));
    const open = (cell) => go(lines[cell.dataset.r].state, Number(cell.dataset.t));
    table.addEventListener("click", (event) => {
      const cell = event.target.closest("td[data-t]");
      if (cell) open(cell);
    });
    table.addEventListener("keydown", (event) => {
      const cell = event.target.closest("td[data-t]");
      if (!cell) return;
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(cell); return; }
      const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!by) return;
      event.preventDefault();
      const next = table.querySelector(`td[data-r="${Number(cell.dataset.r) + by[0]}"][data-t="${Number(cell.dataset.t) + by[1]}"]`);
      if (!next) return;
      cell.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    return el("figure", { class: "matrix" }, el("figcaption", {}, el("strong", {}, title), el("span", {}, note)),
      barl.scroller(table));
  }

  const spanOf = (weights) => weights.length ? Math.max(...weights) - Math.min(...weights) : 0;

  // What a step is called in a group: a turn, if it is one in any rollout.
  const unitOf = ({ rollouts }) => (rollouts.find(({ unit }) => unit === "turn") || rollouts[0]).unit;

  function titleOf(group) {
    const unit = unitOf(group);
    const spread = spanOf(group.rollouts.flatMap((rollout) => rollout.weights));
    const inside = Math.max(...group.rollouts.map((rollout) => spanOf(rollout.weights)));
    const totals = new Set(group.rollouts.map((rollout) => rollout.total ?? rollout.outcome));
    const right = group.rollouts.filter((rollout) => rollout.kinds & (1 << barl.store.bit("right"))).length;
    const many = group.rollouts.length;
    const [, verdict] = barl.store.verdict(group.rollouts[0].kinds);
    const known = ["right", "wrong"].includes(verdict) ? `${right} of ${many} are right.` : group.solution === null ? "The prompt has no true answer." : "Nothing compares the answers with the truth.";
    if (totals.size === 1 && totals.has(null)) {
      return `${known} No outcome is known, so GRPO teaches nothing here; ${unit} weights span ${number(spread, 2)}.`;
    }
    if (totals.size === 1) {
      return `All ${many} ${barl.store.compared()}s are equal, so GRPO teaches nothing here; ${unit} weights ${spread > 0.05
        ? `still span ${number(spread, 2)}` : "say nothing either"}.`;
    }
    return `${known} GRPO gives every ${unit} of a rollout the same number; ${unit} weights differ inside a rollout`
      + ` by up to ${number(inside, 2)}.`;
  }

  function lines(group, state, cells, runAt) {
    return group.rollouts.map((rollout) => {
      const at = { ...state, rollout: rollout.rollout, t: null };
      return { name: `${barl.store.verdict(rollout.kinds)[0]} ${rollout.rollout}`, href: barl.store.address(at), state: at, unit: rollout.unit,
        cells: cells(rollout), at: state.rollout === rollout.rollout ? runAt : null };
    });
  }

  // GRPO's advantage of a rollout.
  const flat = ({ advantage, methods }) => advantage ?? (methods.grpo || [null])[0];

  function matrices(group, state, go) {
    const run = barl.store.runs[0];
    const title = `weight of each ${unitOf(group)}`;
    return [grid(run.settings.credit ? `${run.settings.credit}: ${title}` : title, "what the policy gradient multiplies", lines(group, state, (r) => r.weights, state.t), run.bound, go),
      grid("GRPO: flat advantage", "the same rollouts, the same scale", lines(group, state, (r) => r.weights.map(() => flat(r)), state.t), run.bound, go)];
  }

  // The grid of the rollouts of the second run that are paired with those of a group.
  async function partners(number, group, state, go) {
    const { runs, joined } = barl.store;
    if (!joined) return null;
    const first = runs[0].starts[number];
    const pairs = await Promise.all(group.rollouts.map((_, n) => barl.store.partner(first + n)));
    const other = { rollouts: group.rollouts.map((rollout, n) => ({ ...rollout,
      kinds: pairs[n] ? pairs[n].rollout.kinds : rollout.kinds, weights: pairs[n] ? pairs[n].rollout.weights : [] })) };
    return grid(`${runs[1].name}: weight of each ${unitOf(group)}`, "the run that is compared, the same scale",
      lines(other, state, (r) => r.weights, state.t), runs[0].bound, go);
  }

  // What the grader found, in words; the reason of a grader of one's own is shown as it is.
  const COMPARED = { __proto__: null, "equal strings": "text", "different strings": "text", numbers: "number", bases: "number", parser: "formula", choices: "choice", words: "wording", times: "time" };
  function why({ reason, kinds }) {
    if (reason === null) return "–";
    const [, verdict] = barl.store.verdict(kinds);
    const same = { right: ["the same", "as"], wrong: ["another", "than"] }[verdict];
    if (COMPARED[reason] && same) return `${same[0]} ${COMPARED[reason]} ${same[1]} the truth`;
    return { __proto__: null, timeout: "the grader ran out of time", crash: "the grader crashed" }[reason] || barl.visible(barl.cut(reason, 120));
  }

  // Whether an answer without dollars is a formula as a whole: "bare", else "text".
  const bare = (text) => /^[^\s$]*\\[^$]*$/.test(text || "") ? "bare" : "text";

  function prompt(group) {
    const text = barl.visible(barl.cut(group.prompt, 4000));
    return el("div", { class: "prompt" },
      el("details", { open: group.prompt.length < 600 }, el("summary", {}, "Prompt"), el("p", { class: "text", "data-math": "text" }, text)),
      group.solution === null && !barl.store.runs[0].hasTruth ? null : el("p", {}, "Truth: ", el("bdi", { class: "truth", "data-math": bare(group.solution) }, group.solution === null ? "–" : barl.visible(barl.cut(group.solution, 400)))));
  }

  async function show(state, go) {
    const number = barl.store.runs[0].places.get(`${state.step}/${state.group}`);
    if (number === undefined) return [el("h1", {}, `Group ${state.group}`), el("p", {}, "The run has no such group.")];
    const group = await barl.store.group(number);
    const isGraded = group.rollouts.some(({ reason }) => reason !== null);
    const { hasOutcome, rewarded } = barl.store.runs[0];
    return [
      el("h1", {}, `Training step ${state.step}, group ${state.group}`),
      el("p", { class: "lead" }, titleOf(group)),
      prompt(group),
      barl.legend(barl.store.runs[0].bound, "blamed to praised"),
      el("div", { class: "matrices" }, matrices(group, state, go), await partners(number, group, state, go)),
      barl.overview.table("Rollouts of the group", ["rollout", "answer", ...(hasOutcome ? ["outcome"] : []), ...(rewarded ? ["return"] : []), "GRPO", "mean weight", "tokens", ...(isGraded ? ["why right or wrong"] : [])],
        group.rollouts.map((rollout, n) => {
          const row = barl.store.runs[0].starts[number] + n;
          return [barl.overview.link({ ...state, rollout: rollout.rollout, t: null }, `rollout ${rollout.rollout}`),
            el("bdi", { class: "clip" }, rollout.answer === null ? barl.store.noAnswer(rollout.kinds, "–") : barl.visible(barl.cut(rollout.answer, 80))),
            ...(hasOutcome ? [barl.number(rollout.outcome, 2)] : []), ...(rewarded ? [barl.number(rollout.total, 2)] : []), signed(rollout.advantage), signed(barl.store.runs[0].rows.mean[row]),
            barl.whole(rollout.tokens.length), ...(isGraded ? [el("bdi", {}, why(rollout))] : [])];
        })),
    ];
  }

  return { show, prompt, bare, flat, why };
})();
