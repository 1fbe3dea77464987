"use strict";
// The page of a rollout: its text, the belief below the text, and the arithmetic of a step. The paired
// rollout of the run that is compared stands beside it.
barl.rollout = (() => {
  const { el, number, signed, visible } = barl;
  let current = null;

  function headline(rollout) {
    const [mark, verdict] = barl.store.verdict(rollout.kinds);
    const kinds = barl.store.index.filters.filter((filter, b) => (rollout.kinds >> b) & 1 && !["right", "wrong", "no_truth"].includes(filter.id));
    const answer = rollout.answer === null ? barl.store.noAnswer(rollout.kinds, null)
      : el("span", {}, "answers ", el("bdi", { "data-math": barl.group.bare(rollout.answer) }, visible(barl.cut(rollout.answer, 200))));
    return el("p", { class: "lead" },
      el("span", { class: verdict.replaceAll(" ", "-") }, mark !== "·" ? `${mark} ${verdict}` : rollout.total === null ? verdict : `return ${number(rollout.total, 2)}`),
      answer === null ? null : ", ", answer,
      kinds.flatMap((kind) => [el("wbr"), el("span", { class: "tag kind", title: kind.help }, kind.label)]));
  }

  function facts(group, rollout, mean) {
    const rewards = (rollout.rewards || []).map((value, n) => `${group.reward_names[n] || `reward ${n}`} ${number(value, 2)}`);
    const told = rollout.turn_rewards || [];
    const earned = told.length > 8 ? `${number(told.reduce((sum, r) => sum + (r || 0), 0), 2)} in all` : told.map((r) => number(r, 2)).join(", ");
    return barl.overview.facts([["outcome", barl.store.runs[0].hasOutcome ? number(rollout.outcome, 2) : null],
      [`${rollout.unit} reward${told.length === 1 ? "" : "s"}`, earned || null], ["return", rollout.total === null ? null : number(rollout.total, 2)], ["rewards", rewards.length > 1 ? rewards.join(", ") : null],
      ["GRPO's advantage", signed(rollout.advantage)], ["mean weight", signed(mean)],
      ["tokens", barl.whole(rollout.tokens.length)], ["turns", rollout.turn_ends ? barl.whole(rollout.turn_ends.length) : rollout.unit === "turn" ? "1" : null],
      [`${rollout.unit}s`, rollout.unit === "turn" ? null : barl.whole(rollout.step_ends.length)],
      ["tokens read to score", rollout.scored_tokens === null ? null : barl.whole(rollout.scored_tokens)],
      ["grader", rollout.reason === null ? null : barl.group.why(rollout)],
      ["ended", rollout.is_cut_off ? "cut off" : rollout.ended_by_tool ? "by a tool" : "by itself"]]);
  }

  // Text and river of a rollout of one run. Each shows the step that is marked in the other.
  function side(rollout, run, state, name, view) {
    let pointed = null;
    let chosen = state.t;
    const parts = [];
    const mark = (scrollText) => {
      const t = pointed === null ? chosen : pointed;
      for (const part of parts) part.mark(t, scrollText && part === parts[0]);
    };
    const mode = barl.text.has(rollout, state.color) ? state.color : "weight";
    const text = barl.text.panel(rollout, { mode, maths: view.maths, label: `Text of ${name}`,
      onPoint: (t) => { pointed = t; mark(false); }, onChoose: view.choose });
    parts.push(text);
    let river = null;
    if (rollout.w) {
      river = barl.river.panel(rollout, { onPoint: (t) => { pointed = t; mark(t !== null); }, onChoose: view.choose });
      parts.push(river);
    }
    const arithmetic = el("div", { class: "arithmetic", "aria-live": "off" });
    const choose = (t, scroll) => {
      chosen = t;
      pointed = null;
      mark(scroll);
      arithmetic.replaceChildren(barl.arithmetic.panel(rollout, t, run));
    };
    const element = el("div", { class: "side" }, view.isPair ? el("h2", { class: "run-name" }, name) : null,
      text.element,
      river ? el("section", {}, el("h2", {}, barl.river.titleOf(rollout)), el("p", { class: "note" }, barl.river.noteOf(rollout)), river.element)
        : el("p", { class: "hint" }, "No beliefs were scored of this rollout."),
      el("section", {}, arithmetic));
    return { element, choose };
  }

  function toolbar(rollout, state, view) {
    const named = (text) => text.replace("step", rollout.unit);
    const modes = Object.entries(barl.text.MODES).map(([name, mode], n) => el("button", {
      type: "button", "data-mode": name, "aria-pressed": String(name === view.mode), disabled: !barl.text.has(rollout, name),
      title: barl.text.has(rollout, name) ? `key ${n + 1}` : "was not recorded",
      onclick: () => view.go({ ...state, color: name }, true),
    }, named(mode.label)));
    const mode = barl.text.MODES[view.mode];
    const key = view.mode === "ratio" ? el("span", { class: "legend" }, "importance ratio", el("span", { class: "low" }, "½"),
      el("span", { class: "bar", "aria-hidden": "true" }), el("span", { class: "high" }, "2")) : barl.legend(mode.bound(), named(mode.title), mode.sequential);
    return el("div", { class: "toolbar" }, el("div", { class: "modes", role: "group", "aria-label": "Colour the text by" }, modes),
      key,
      el("button", { type: "button", id: "maths", "aria-pressed": String(view.maths), onclick: () => view.toggleMaths() }, "Formulas"),
      barl.text.thoughts(rollout).length ? el("button", { type: "button", id: "fold", onclick: foldAll }, "Fold thoughts") : null);
  }

  function foldAll() {
    const folds = [...document.querySelectorAll(".thought")];
    const open = folds.some((thought) => thought.open);
    for (const thought of folds) thought.open = !open;
  }

  async function show(state, go, view) {
    const row = barl.store.rowOf(state);
    if (row < 0) return { nodes: [el("h1", {}, `Rollout ${state.rollout}`), el("p", {}, "The run has no such rollout.")] };
    const [{ group, rollout }, partner] = await Promise.all([barl.store.rollout(row), barl.store.partner(row)]);
    const mode = barl.text.has(rollout, state.color) ? state.color : "weight";
    const sides = [];
    const choose = (t) => {
      if (t === null) return;
      go({ ...barl.store.parse(), t }, true);
    };
    const sideView = { ...view, choose, isPair: Boolean(partner) };
    const { runs } = barl.store;
    sides.push(side(rollout, runs[0], state, runs[0].name, sideView));
    if (partner) {
      const name = partner.same ? runs[1].name : `${runs[1].name} (another completion)`;
      sides.push(side(partner.rollout, runs[1], state, name, sideView));
    }
    const nodes = [
      el("h1", {}, `Training step ${state.step}, group ${state.group}, rollout ${state.rollout}`),
      headline(rollout), facts(group, rollout, runs[0].rows.mean[row]), barl.group.prompt(group),
      runs.length > 1 && !partner ? el("p", { class: "hint" }, `${runs[1].name} has no rollout to this prompt.`) : null,
      toolbar(rollout, state, { ...view, go, mode }),
      el("div", { class: partner ? "sides pair" : "sides" }, sides.map((item) => item.element)),
    ];
    current = { row, sides, steps: rollout.step_ends.length, choose };
    return { nodes, after: () => sides.forEach((item) => item.choose(state.t, true)) };
  }

  // Marks another step of the rollout that is open.
  function choose(t, scroll) {
    if (current) current.sides.forEach((item) => item.choose(t, scroll));
  }
  function move(by) {
    if (!current || !current.steps) return;
    const { t } = barl.store.parse();
    current.choose(Math.min(current.steps - 1, Math.max(0, (t === null ? -1 : t) + by)));
  }

  return { show, choose, move };
})();
