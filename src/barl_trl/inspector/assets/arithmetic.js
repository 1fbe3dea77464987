"use strict";
// The arithmetic of a step's value, and what other credits give the step.
barl.arithmetic = (() => {
  const { el, number, signed, visible } = barl;

  // A table with a row for each hypothesis that the page has, one for the sums over the others, and a total.
  function table(rollout, columns, cells, rest, isOut, [total, value]) {
    const blanks = columns.slice(0, -1).map(() => el("td", {}));
    const rows = rollout.hypotheses.map((answer, i) => el("tr", { class: isOut(i) ? "out" : null },
      el("th", { scope: "row" }, el("bdi", { class: "clip" }, visible(barl.cut(answer, 60))),
        i || !rollout.has_truth ? null : el("span", { class: "tag" }, "truth"),
        i === rollout.member ? el("span", { class: "tag" }, "its answer") : null),
      cells(i).map((cell) => el("td", {}, number(cell)))));
    if (rollout.rest) {
      rows.push(el("tr", { class: "rest" }, el("th", { scope: "row" }, `${barl.whole(rollout.rest.number)} others, summed`),
        rest.map((cell) => el("td", {}, cell === null ? "" : number(cell)))));
    }
    return barl.scroller(el("table", { class: "sum" },
      el("thead", {}, el("tr", {}, ["hypothesis", ...columns].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows),
      el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, total), blanks, el("td", { class: "total" }, number(value))))), "Sum over hypotheses");
  }

  // The paper's value. Under the task's belief alone, what is believed is also what is plausible.
  function sum(rollout, t) {
    const last = rollout.p.length - 1;
    const { p, w, q, v, rest, predicts } = rollout;
    const isTask = rollout.belief === "task";
    const letter = isTask ? "b" : "p";
    const from = predicts ? [`Σ r from ${barl.text.named(rollout, t)}`] : [`${letter}(${t})`, `${letter}(${last})`];
    const weight = isTask && !predicts ? [] : [`${isTask ? "b" : "w"}(${t})`];
    const cells = (i) => [...(predicts ? [q[t][i] - v[i]] : [p[t][i], p[last][i]]), v[i], q[t][i],
      ...(weight.length ? [w[t][i]] : []), w[t][i] ? w[t][i] * q[t][i] : 0];
    const others = rest ? [...(predicts ? [null] : isTask ? [rest.w[t], rest.w[last]] : [null, null]), null, null,
      ...(weight.length ? [rest.w[t]] : []), rest.wq[t]] : [];
    return table(rollout, [...from, "v", "Q", ...weight, `${isTask ? "b" : "w"} · Q`], cells, others,
      (i) => w[t][i] < barl.text.eliminated(rollout), ["V", rollout.values[t]]);
  }
  function equation(rollout, t, last, credit) {
    const isTask = rollout.belief === "task";
    const [w, p] = isTask ? ["b", "b"] : ["w", "p"];
    const q = rollout.predicts ? "Σ r + v, summed from here on" : `${p}(${last}) − ${p}(${t}) + v`;
    const notes = [
      when(rollout, t, last),
      rollout.belief === "both" ? "p is how likely the model finds each answer, and w that times what the task says of it. " : "",
      isTask ? "b is what the task says of each hypothesis: no answer was scored. " : "",
      rollout.predicts ? "r is the reward that each hypothesis predicts. " : "",
    ].join("");
    const isOwn = !credit || ["barl", "progress"].includes(credit);
    return [isOwn ? null : el("p", { class: "note" }, `BARL's value, for comparison. The weight comes from this run's credit, ${credit}.`),
      el("p", { class: "equation" }, `V = Σ ${w}(${t}) · Q = ${number(rollout.values[t])}, where Q = ${q}`),
      el("p", { class: "note" }, notes.trim())];
  }
  // Which state a number in brackets means.
  const when = (rollout, t, last) => `(${t}) is ${t ? `after ${barl.text.named(rollout, t - 1)}` : `before ${barl.text.named(rollout, 0)}`}, and (${last}) is at the end. `;

  // The value of the credit `bayes`: what is expected at the end, and the information that was gained.
  function bayes(rollout, t, { information_weight: c }) {
    const last = rollout.w.length - 1;
    const { w, v, rest, cost, expected, size } = rollout;
    const nats = barl.text.nats(rollout);
    const b = `b(${last})`;
    const gained = c * (rollout.entropy[t] - rollout.entropy[last]);
    const sumOf = expected - (cost || 0);
    const signs = (value) => value < 0 ? `(${number(value)})` : number(value);
    const terms = [[`Σ ${b} · v`, number(sumOf)], cost === null ? null : ["costs", signs(cost)],
      c ? [`c · (H(${t}) − H(${last})) / log ${size}`, signs(gained)] : null].filter(Boolean);
    const side = (k) => terms.map((term) => term[k]).join(" + ");
    const right = terms.length > 1 ? `${side(1)} = ${number(rollout.values[t])}` : number(rollout.values[t]);
    return [
      el("p", { class: "equation" }, `V = ${side(0)} = ${right}`),
      el("p", { class: "note" }, when(rollout, t, last) + `b is the belief, and v the outcome if the hypothesis were true. H is the entropy of b: H(${t}) = ${number(nats[t])} and `
        + `H(${last}) = ${number(nats[last])}, with ${barl.plural(size, "hypothes").replace(/s$/, size === 1 ? "is" : "es")} (log ${size} = ${number(Math.log(Math.max(2, size)))}). `
        + (c ? `The weight of the information is c = ${c}.` : `The weight of the information is c = 0, so every ${rollout.unit} has the same value.`)),
      table(rollout, [`b(${t})`, b, "v", `${b} · v`], (i) => [w[t][i], w[last][i], v[i], w[last][i] * v[i]],
        rest ? [rest.w[t], rest.w[last], null, rest.wv] : [], (i) => Math.max(w[t][i], w[last][i]) < barl.text.eliminated(rollout), [`Σ ${b} · v`, sumOf]),
    ];
  }

  function methods(rollout, t, run) {
    const { unit } = rollout;
    const { likelihoods } = barl.store.index;
    const { credit, answer_likelihood: used, belief } = run.settings;
    const names = Object.keys(rollout.methods);
    const isOther = (name) => belief !== "task" && !["grpo", "rloo", credit].includes(name) && Object.hasOwn(likelihoods, name) && likelihoods[name] !== used;
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
    return [barl.scroller(el("table", { class: "methods" },
      el("thead", {}, el("tr", {}, ["credit", barl.text.named(rollout, t), `all ${unit}s, on its own scale`].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows)), "Other credits"),
    names.some(isOther) ? el("p", { class: "note" }, "* takes the likelihood of an answer otherwise than this run did; read from this run's.") : null];
  }

  // The recorded value of step t, and what was done with it.
  function recorded(rollout, t, { settings }) {
    if (!rollout.step_values) return ".";
    const { credit_baseline: baseline, value_normalization: normalization } = settings;
    const how = [baseline && baseline !== "none" ? `less the baseline "${baseline}"` : null,
      normalization && normalization !== "none" ? "before whitening" : null].filter(Boolean);
    return `, from the recorded value ${number(rollout.step_values[t])}${how.length ? ` (${how.join(", ")})` : ""}.`;
  }

  // What step t earned, and all steps from it on.
  function earned({ turn_rewards: rewards, unit }, t) {
    if (!rewards) return null;
    const toGo = rewards.slice(t).reduce((sum, r) => sum + (r || 0), 0);
    const own = rewards[t] === null ? `This ${unit} has no reward` : `Reward of this ${unit}: r = ${number(rewards[t])}`;
    return el("p", {}, `${own}; from it on the rewards add up to ${number(toGo)}.`);
  }

  // The panel on step t of a rollout.
  function panel(rollout, t, run) {
    const steps = rollout.step_ends.length;
    const { unit } = rollout;
    if (t === null) return el("p", { class: "hint" }, `Choose a ${unit}, in the text or in the chart, to see its arithmetic.`);
    if (t >= steps) {
      const left = run.settings.credit === "bayes" ? " but the outcome that is expected at the end" : run.hasOutcome ? " but the outcome" : "";
      return el("p", {}, `The tokens after the last ${unit} get the closing weight ${signed(rollout.closing, 3)}: nothing is left to gain${left}.`);
    }
    const isBayes = run.settings.credit === "bayes";
    const why = !rollout.w ? "This rollout was not scored: it has no beliefs."
      : `${rollout.has_truth ? "This rollout has no outcome" : "The prompt has no true answer"}: its ${unit}s have no values.`;
    const from = t ? rollout.step_ends[t - 1] : 0;
    return el("div", {},
      el("h3", {}, `${unit[0].toUpperCase()}${unit.slice(1)} ${t + 1}: tokens ${from + 1} to ${rollout.step_ends[t]}`),
      rollout.difference === null ? null : el("p", { class: "wrong" },
        `The recorded values differ by up to ${number(rollout.difference)} from those that this page computes with the `
        + "run's settings: what it computes may not be what the run did."),
      !rollout.values ? rollout.turn_rewards ? null : el("p", { class: "equation" }, why)
        : isBayes ? bayes(rollout, t, run.settings) : equation(rollout, t, steps, run.settings.credit),
      earned(rollout, t),
      el("p", {}, `Weight in the policy gradient: ${signed(rollout.weights[t], 3)}${recorded(rollout, t, run)}`),
      rollout.values && !isBayes ? sum(rollout, t) : null,
      Object.keys(rollout.methods).length ? [el("h3", {}, "What other credits give it"), ...methods(rollout, t, run)] : null);
  }

  return { panel };
})();
