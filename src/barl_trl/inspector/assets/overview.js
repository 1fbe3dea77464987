"use strict";
// The page of a run, with curves of the kinds of its rollouts and its steps, and the page of a step,
// with its groups.
barl.overview = (() => {
  const { el, whole, number, signed, plural } = barl;
  let charts = [];
  let waiting = [];

  function clear() {
    for (const chart of charts) chart.destroy();
    charts = [];
    waiting = [];
  }

  // Draws the curves. Their elements must be in the page by then, so that they have a width.
  function draw() {
    for (const call of waiting) call();
    waiting = [];
  }

  // For every step: number of groups and rollouts, sums of numbers, and counts by filter.
  function summaries(run) {
    const { rows, heads, steps, starts } = run;
    return [...steps].map(([step, groups]) => {
      const summary = { step, groups: groups.length, rollouts: 0, outcome: 0, judged: 0, total: 0, totals: 0, tokens: 0, cost: 0,
        counts: barl.store.index.filters.map(() => 0) };
      for (const g of groups) {
        for (let row = starts[g]; row < starts[g + 1]; row++) {
          summary.rollouts += 1;
          if (rows.outcome[row] !== null) { summary.outcome += rows.outcome[row]; summary.judged += 1; }
          const total = rows.return[row] ?? rows.outcome[row];
          if (total !== null) { summary.total += total; summary.totals += 1; }
          summary.tokens += rows.tokens[row];
          summary.cost += rows.cost[row] || 0;
          for (let b = 0; b < summary.counts.length; b++) summary.counts[b] += (rows.kinds[row] >> b) & 1;
        }
      }
      return summary;
    });
  }

  function facts(pairs) {
    return el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
  }

  // A colour of the present theme as a value, for uPlot does not resolve CSS variables.
  function color(name) {
    const probe = el("span", { style: { color: `var(${name})` } });
    document.body.append(probe);
    const computed = getComputedStyle(probe).color;
    probe.remove();
    return computed;
  }

  function curve(title, help, summary, value, unit, go) {
    const holder = el("div", { class: "plot" });
    const x = summary.map((item) => item.step);
    const y = summary.map(value);
    const last = y.at(-1);
    const text = `${title}: from ${show(y[0])} at step ${x[0]} to ${show(last)} at step ${x.at(-1)}.`;
    const figure = el("figure", { class: "curve", role: "group", "aria-label": text },
      el("figcaption", { title: help || null }, title, el("output", {}, told(x.length - 1))), holder);
    function told(at) { return `step ${x[at]}: ${show(y[at])}`; }
    function show(share) { return share === null ? "–" : unit === "%" ? `${number(100 * share, 1)} %` : unit ? number(share) : whole(share); }
    function tick(v) { return unit === "%" ? `${Math.round(v * 1000) / 10}%` : Math.abs(v) >= 1000 ? `${v / 1000}k` : `${Math.round(v * 1000) / 1000}`.replace("-", "−"); }
    waiting.push(() => {
      const [muted, grid, accent] = ["--muted", "--line", "--accent"].map(color);
      const chart = new uPlot({
        width: Math.max(150, holder.clientWidth), height: 102, legend: { show: false },
        padding: [6, Math.max(6, 4 * String(x.at(-1)).length), 0, 0], // half of the last step's number stands behind the curve
        cursor: { y: false, sync: { key: "steps" }, points: { size: 6 } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, unit === "reward" ? low || 0 : 0), Math.max(high || 0, unit ? 0.01 : 1)] } },
        axes: [
          { size: 22, stroke: muted, grid: { show: false }, ticks: { show: false }, font: "11px system-ui", space: 60,
            values: (_, ticks) => ticks.map((v) => Number.isInteger(v) ? v : ""), label: "training step", labelSize: 18, labelGap: 0, labelFont: "11px system-ui" },
          { size: unit === "reward" ? 48 : 40, stroke: muted, grid: { stroke: grid, width: 1 }, ticks: { show: false },
            font: "11px system-ui", space: 18, values: (_, ticks) => ticks.map(tick) },
        ],
        series: [{}, { stroke: accent, width: 1.6, points: { show: x.length < 30, size: 4 } }],
        hooks: { setCursor: [(plot) => {
          const at = plot.cursor.idx;
          figure.querySelector("output").textContent = told(at ?? x.length - 1);
        }] },
      }, [x, y], holder);
      chart.over.addEventListener("click", () => {
        if (chart.cursor.idx !== null && chart.cursor.idx !== undefined) go({ step: x[chart.cursor.idx] });
      });
      charts.push(chart);
    });
    return figure;
  }

  function table(caption, columns, rows) {
    const side = columns.map((_, n) => rows.every((cells) => /^[+−]?[\d.,]*$|^–$/.test(cells[n])) ? null : "words");
    return barl.scroller(el("table", {}, el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, columns.map((name, n) => el("th", { scope: "col", class: side[n] }, name)))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, n) =>
        el(n ? "td" : "th", n ? { class: side[n] } : { scope: "row" }, cell)))))), caption);
  }

  const link = (state, text) => el("a", { href: barl.store.address(state) }, text);

  function comparison() {
    const { runs, joined } = barl.store;
    if (!joined) return null;
    const { rows } = runs[0];
    let equal = 0, prompt = 0, flips = 0;
    const ours = [], theirs = [];
    joined.other.forEach((other, row) => {
      if (other < 0) return;
      if (joined.same[row]) equal += 1; else prompt += 1;
      for (const [values, total] of [[ours, barl.store.totalOf(row)], [theirs, barl.store.totalOf(other, 1)]]) {
        if (total !== null) values.push(total);
      }
      if (rows.mean[row] * runs[1].rows.mean[other] < 0) flips += 1;
    });
    const pairs = equal + prompt;
    const mean = (values) => (values.length ? number(values.reduce((a, b) => a + b) / values.length) : "–");
    return el("section", {}, el("h2", {}, `${runs[0].name} beside ${runs[1].name}`),
      facts([["same completions", whole(equal)], ["same prompts, other completions", whole(prompt)],
        ["without a partner", whole(rows.group.length - pairs)],
        [`mean ${barl.store.compared()}, ${runs[0].name}`, mean(ours)],
        [`mean ${barl.store.compared()}, ${runs[1].name}`, mean(theirs)],
        ["praised by one, blamed by the other", whole(flips)]]));
  }

  function lead({ isJudged, rewarded }, rollouts, praised, tied) {
    const first = !isJudged ? `${barl.store.why()}, so no rollout is right or wrong`
      : praised ? `${whole(praised)} of ${plural(rollouts, "rollout")} are wrong but praised` : "No wrong rollout is praised";
    const equal = `equal ${barl.store.compared()}s`;
    if (tied) return `${first}. ${whole(tied)} are in groups of ${equal}, where GRPO teaches nothing, yet their weights differ.`;
    return isJudged ? `${first}, and no group of ${equal} has weights apart.` : rewarded ? `${first}. No group of ${equal} has weights apart.` : `${first}.`;
  }

  const mean = (item) => item.totals ? item.total / item.totals : null;
  const meanOutcome = (item) => item.judged ? item.outcome / item.judged : null;
  // Kinds that say nothing where no rollout is right or wrong.
  const VERDICTS = ["wrong_praised", "right_blamed", "right", "wrong", "no_truth"];

  function run(state, go) {
    clear();
    const listed = barl.store.runs[0];
    const summary = summaries(listed);
    const total = (value) => summary.reduce((sum, item) => sum + value(item), 0);
    const rollouts = total((item) => item.rollouts);
    const { index } = barl.store;
    const { settings, hasOutcome, rewarded, isJudged } = listed;
    const all = index.filters.map((filter, b) => [filter, total((item) => item.counts[b])]);
    const isSaid = ({ id }, count) => isJudged || !(VERDICTS.includes(id) || (id === "no_answer" && rewarded && !count));
    const counts = all.filter((pair) => isSaid(...pair));
    const nothing = counts.filter(([, count]) => !count).map(([filter]) => filter.label);
    const praised = all[0][1], tied = all[2][1];
    const areMany = summary.length > 1;
    const curves = areMany ? counts.flatMap(([filter, count]) => count && filter.id !== "wrong" ? [curve(filter.label, filter.help, summary,
      (item) => item.counts[barl.store.bit(filter.id)] / item.rollouts, "%", go)] : []) : [];
    const rewards = areMany && rewarded ? [curve("mean return", "of the outcome and the rewards of all turns", summary, mean, "reward", go),
      ...(hasOutcome ? [curve("mean outcome", "", summary, meanOutcome, "reward", go)] : [])] : [];
    const sizes = areMany ? [["tokens", "tokens that were written"], ["cost", "tokens read to score the answers"]].flatMap(([name, title]) =>
      total((item) => item[name]) ? [curve(title, "", summary, (item) => item[name] / item.rollouts, "", go)] : []) : [];
    const columns = [
      ["training step", (item) => link({ ...state, step: item.step, group: null, rollout: null, t: null }, `step ${item.step}`)],
      ["groups", (item) => whole(item.groups)], ["rollouts", (item) => whole(item.rollouts)],
      ...(hasOutcome ? [["mean outcome", (item) => number(meanOutcome(item))]] : []),
      ...(rewarded ? [["mean return", (item) => number(mean(item))]] : []),
      ["mean tokens", (item) => whole(item.tokens / item.rollouts)],
      ...(isJudged ? [["wrong but praised", (item) => whole(item.counts[0])], ["right but blamed", (item) => whole(item.counts[1])]] : []),
      [rewarded ? index.filters[2].label : "equal outcomes", (item) => whole(item.counts[2])],
    ];
    return [
      el("h1", {}, listed.name),
      el("p", { class: "lead" }, lead(listed, rollouts, praised, tied)),
      facts([["rollouts", whole(rollouts)], ["prompt groups", whole(listed.heads.length)],
        ["training steps", whole(summary.length)], ["credit", settings.credit], ["model", listed.model],
        ["consistency beta", settings.consistency_beta],
        ["mean outcome", !hasOutcome ? null : total((i) => i.judged) ? number(total((i) => i.outcome) / total((i) => i.judged)) : "–"],
        ["mean return", rewarded ? number(total((i) => i.total) / total((i) => i.totals)) : null]]),
      comparison(),
      rewards.length ? el("section", {}, el("h2", {}, "Return of a rollout: its outcome and the rewards of its turns"), el("div", { class: "curves" }, rewards)) : null,
      el("section", {}, el("h2", {}, areMany ? "Share of rollouts of each kind" : "Rollouts of each kind"),
        areMany ? [el("div", { class: "curves" }, curves), nothing.length ? el("p", { class: "note" }, `None: ${nothing.join("; ")}.`) : null]
          : table("Rollouts of each kind", ["kind", "rollouts", "what it says"], counts.map(([filter, count]) =>
            [link({ ...state, f: filter.id }, filter.label), whole(count), filter.help]))),
      sizes.length ? el("section", {}, el("h2", {}, "Mean length of a rollout, in tokens"), el("div", { class: "curves" }, sizes)) : null,
      el("section", {}, el("h2", {}, "Training steps"), table("Training steps of the run", columns.map(([name]) => name),
        summary.map((item) => columns.map(([, cell]) => cell(item))))),
    ];
  }

  function step(state) {
    clear();
    const { rows, starts, heads, steps, rewarded, isJudged: hasVerdicts } = barl.store.runs[0];
    const groups = steps.get(state.step);
    if (!groups) return [el("h1", {}, `Training step ${state.step}`), el("p", {}, "The run has no rollouts of this training step.")];
    const lines = groups.map((g) => {
      const members = Array.from({ length: starts[g + 1] - starts[g] }, (_, n) => starts[g] + n);
      const totals = members.map((row) => barl.store.totalOf(row));
      const spread = Math.max(...members.map((row) => rows.spread[row]));
      const isKnown = totals.some((total) => total !== null);
      const equal = isKnown && new Set(totals).size === 1;
      const isJudged = members.some((row) => barl.store.verdict(rows.kinds[row])[0] !== "·");
      const right = members.filter((row) => rows.kinds[row] & (1 << barl.store.bit("right"))).length;
      return { equal, cells: [link({ ...state, group: heads[g].group, rollout: null, t: null }, `group ${heads[g].group}`),
        el("bdi", { class: "clip" }, barl.visible(heads[g].text)), ...(hasVerdicts ? [isJudged ? `${right}\u00a0of\u00a0${members.length}` : "–"] : []),
        ...(rewarded ? [number(totals.reduce((a, b) => a + b) / totals.length)] : []), equal ? "equal" : isKnown ? "differ" : "–", number(spread, 2)] };
    });
    const equal = lines.filter((item) => item.equal).length;
    return [
      el("h1", {}, `Training step ${state.step}`),
      el("p", { class: "lead" }, `In ${equal} of ${plural(lines.length, "group")} all ${barl.store.compared()}s are equal: `
        + "GRPO gives these rollouts 0. The last column says how far apart the weights inside a rollout are."),
      table("Groups of the step", ["group", "prompt", ...(hasVerdicts ? ["right"] : []), ...(rewarded ? ["mean return"] : []), `${barl.store.compared()}s`, "widest spread of weights"],
        lines.map((item) => item.cells)),
    ];
  }

  return { run, step, facts, table, link, clear, draw };
})();
