"use strict";
// The arithmetic of a step's value, and what other credits give the step.
barl.arithmetic = (() => {
  const { el, number, signed, visible } = barl;

  function sum(rollout, t) {
    const last = rollout.p.length - 1;
    const rows = rollout.hypotheses.map((answer, i) => el("tr", { class: rollout.w[t][i] < 0.01 ? "out" : null },
      el("th", { scope: "row" }, el("bdi", { class: "clip" }, visible(barl.cut(answer, 60))), i ? null : el("span", { class: "tag" }, "truth")),
      [rollout.p[t][i], rollout.p[last][i], rollout.v[i], rollout.q[t][i], rollout.w[t][i],
        rollout.w[t][i] ? rollout.w[t][i] * rollout.q[t][i] : 0].map((value) => el("td", {}, number(value)))));
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Sum over hypotheses" }, el("table", { class: "sum" },
      el("thead", {}, el("tr", {}, ["hypothesis", `p(${t})`, `p(${last})`, "v", `Q(${t})`, `w(${t})`, "w · Q"]
        .map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows),
      el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, `V(${t})`), ["", "", "", "", ""].map((blank) => el("td", {}, blank)),
        el("td", { class: "total" }, number(rollout.values[t]))))));
  }

  function methods(rollout, t, run) {
    const unit = barl.text.unit(rollout);
    const { likelihoods } = barl.store.index;
    const { credit, answer_likelihood: used } = run.settings;
    const names = Object.keys(rollout.methods);
    const isOther = (name) => !["grpo", "rloo", credit].includes(name) && likelihoods[name] !== used;
    const rows = names.map((name) => {
      const values = rollout.methods[name];
      const bound = Math.max(1e-9, ...values.map(Math.abs));
      return el("tr", { class: name === credit ? "own" : null },
        el("th", { scope: "row" }, name, name === credit ? el("span", { class: "tag" }, "this run") : null,
          isOther(name) ? el("abbr", { title: `defined on the ${likelihoods[name]} of token log-probabilities; this run has the ${used}` }, " *") : null),
        el("td", {}, signed(values[t], 3)),
        el("td", { class: "strip-cell" }, el("span", { class: "strip", role: "img", "aria-label": `all ${unit}s: ${values.slice(0, 40).map((v) => signed(v)).join(", ")}` },
          values.slice(0, 400).map((value, k) => barl.shaded(el("span", { class: k === t ? "at" : null }), value, bound)))));
    });
    return [el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Other credits" }, el("table", { class: "methods" },
      el("thead", {}, el("tr", {}, ["credit", barl.text.named(rollout, t), `all ${unit}s, on its own scale`].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows))),
    names.some(isOther) ? el("p", { class: "note" }, "* takes the likelihood of an answer otherwise than this run did; read from this run's.") : null];
  }

  // The recorded value of step t, and what was done with it.
  function recorded(rollout, t, { settings }) {
    if (!rollout.step_values) return ".";
    const { credit_baseline: baseline, value_normalization: normalization } = settings;
    const how = [baseline && baseline !== "none" ? `less the baseline "${baseline}"` : null,
      normalization && normalization !== "none" ? "before whitening" : null].filter(Boolean);
    return `, from the recorded step value ${number(rollout.step_values[t])}${how.length ? ` (${how.join(", ")})` : ""}.`;
  }

  // The panel on step t of a rollout.
  function panel(rollout, t, run) {
    const steps = rollout.step_ends.length;
    const unit = barl.text.unit(rollout);
    if (t === null) return el("p", { class: "hint" }, `Choose a ${unit}, in the text or in the river, to see its arithmetic.`);
    if (t >= steps) {
      return el("p", {}, `The tokens after the last ${unit} get the closing weight ${signed(rollout.closing, 3)}: nothing is left to gain but the outcome.`);
    }
    const from = t ? rollout.step_ends[t - 1] : 0;
    return el("div", {},
      el("h3", {}, `${unit === "turn" ? `Turn ${t + 1} (t = ${t})` : `Step ${t}`}: tokens ${from} to ${rollout.step_ends[t] - 1}`),
      rollout.difference === null ? null : el("p", { class: "wrong" },
        `The recorded step values differ by up to ${number(rollout.difference)} from those that this page computes with the `
        + "run's settings: what it computes may not be what the run did."),
      el("p", { class: "equation" }, rollout.values
        ? `V(${t}) = Σ w(${t}) · Q(${t}) = ${number(rollout.values[t])}, where Q(${t}) = p(${steps}) − p(${t}) + v`
        : rollout.w ? `This rollout has no outcome: its ${unit}s have no values.` : "This rollout was not scored: it has no beliefs."),
      el("p", {}, `Weight in the policy gradient: ${signed(rollout.weights[t], 3)}${recorded(rollout, t, run)}`),
      rollout.values ? sum(rollout, t) : null,
      Object.keys(rollout.methods).length ? [el("h3", {}, "What other credits give it"), ...methods(rollout, t, run)] : null);
  }

  return { panel };
})();
