"use strict";
// The state of the page: the list of all rollouts in columns, the address, and the selected rollouts.
barl.store = (() => {
  const SORTS = [
    ["order", "order of the run"], ["tokens", "longest"], ["cost", "dearest to score"],
    ["praised", "most praised"], ["blamed", "most blamed"], ["spread", "widest spread of weights"],
  ];
  const BY = { __proto__: null, tokens: "tokens", cost: "cost", praised: "mean", blamed: "mean", spread: "spread" };
  const runs = [];
  let index = null;
  let joined = null;
  let selection = [];
  let selected = "";

  // Reads the index and the lists of the runs.
  async function open() {
    index = await barl.load("index");
    for (const [k, run] of index.runs.entries()) {
      const listed = columns(await barl.load(`${run.letter}-list`));
      runs[k] = { ...run, ...listed, hasOutcome: !listed.rewarded || run.reward_names.length > 1 };
    }
    for (const filter of runs[0].rewarded ? index.filters : []) {
      for (const name of ["label", "help"]) filter[name] = filter[name].replace("outcomes", "returns");
    }
    joined = index.runs.length > 1 ? await barl.load("pairs") : null;
    selected = "";
  }

  // `rewarded` is a run whose turns have rewards: GRPO compares the returns of its rollouts, not the outcomes.
  function columns({ heads: listed, ...rows }) {
    const heads = listed
      .map(([step, group, prompt, text, solution, shard]) => ({ step, group, prompt, text, solution, shard }));
    const starts = new Int32Array(heads.length + 1);
    for (const group of rows.group) starts[group + 1] += 1;
    for (let g = 0; g < heads.length; g++) starts[g + 1] += starts[g];
    const places = new Map(heads.map((head, g) => [`${head.step}/${head.group}`, g]));
    const steps = new Map();
    heads.forEach((head, g) => {
      if (!steps.has(head.step)) steps.set(head.step, []);
      steps.get(head.step).push(g);
    });
    const needles = heads.map((h) => `${h.prompt} ${h.text} ${h.solution}`.toLowerCase());
    return { rows, heads, starts, places, steps, needles, rewarded: rows.return.some((total) => total !== null),
      hasTruth: heads.some(({ solution }) => solution), isJudged: rows.kinds.some((kinds) => verdict(kinds)[0] !== "·") };
  }

  // Reads an address such as
  // #/step/5/group/3/rollout/2?t=1&color=entropy&f=wrong_praised&s=5&sort=tokens&q=text
  function parse(hash = location.hash) {
    const [path, query] = hash.replace(/^#\/?/, "").split("?");
    const state = { step: null, group: null, rollout: null, t: null, color: "weight", f: "all",
      s: "", sort: "order", q: "" };
    const parts = path.split("/");
    for (let k = 0; k + 1 < parts.length; k += 2) {
      if (["step", "group", "rollout"].includes(parts[k]) && /^\d+$/.test(parts[k + 1])) {
        state[parts[k]] = Number(parts[k + 1]);
      }
    }
    for (const [name, value] of new URLSearchParams(query || "")) {
      if (name === "t") state.t = /^\d+$/.test(value) ? Number(value) : null;
      else if (["color", "f", "s", "sort", "q"].includes(name)) state[name] = value;
    }
    return state;
  }

  function address(state) {
    let path = "#/";
    for (const name of ["step", "group", "rollout"]) {
      if (state[name] === null || state[name] === undefined) break;
      path += `${path.endsWith("/") ? "" : "/"}${name}/${state[name]}`;
    }
    const query = new URLSearchParams();
    if (state.t !== null && state.t !== undefined) query.set("t", state.t);
    if (state.color !== "weight") query.set("color", state.color);
    if (state.f !== "all") query.set("f", state.f);
    if (state.s !== "") query.set("s", state.s);
    if (state.sort !== "order") query.set("sort", state.sort);
    if (state.q) query.set("q", state.q);
    return query.size ? `${path}?${query}` : path;
  }

  const bit = (name) => index.filters.findIndex((filter) => filter.id === name);

  // The mark and the name of what is known of a rollout of some kinds: right, wrong, or without a truth.
  const verdict = (kinds) => [["✓", "right"], ["✗", "wrong"]].find(([, name]) => kinds & (1 << bit(name))) || ["·", "no truth known"];

  // What GRPO compares of a rollout, and what it is called in the first run.
  const totalOf = (row, run = 0) => runs[run].rows.return[row] ?? runs[run].rows.outcome[row];
  const compared = () => runs[0].rewarded ? "return" : "outcome";
  // Without a truth no rollout is right or wrong.
  const why = () => runs[0].hasTruth ? "Nothing compares the answers with the truth" : "No prompt of this run has a true answer";
  // What stands for an answer that there is not; nothing where none was asked for.
  const noAnswer = (kinds, otherwise) => kinds & (1 << bit("no_answer")) ? "no answer" : otherwise;

  // The rows that filter, step and search of a state leave, in the order of the state.
  function select(state) {
    const key = [state.f, state.s, state.q, state.sort].join("\n");
    if (key === selected) return selection;
    const { rows, heads, needles, starts } = runs[0];
    const mask = 1 << bit(state.f);
    const needle = state.q.trim().toLowerCase();
    const kept = [];
    for (let g = 0; g < heads.length; g++) {
      if (state.s !== "" && heads[g].step !== Number(state.s)) continue;
      const all = !needle || needles[g].includes(needle);
      for (let row = starts[g]; row < starts[g + 1]; row++) {
        if (!keeps(row, state.f, mask)) continue;
        if (all || (rows.answer[row] || "").toLowerCase().includes(needle)) kept.push(row);
      }
    }
    const by = rows[BY[state.sort]];
    const sign = state.sort === "blamed" ? 1 : -1;
    if (by) kept.sort((a, b) => sign * ((by[a] || 0) - (by[b] || 0)) || a - b);
    selection = kept;
    selected = key;
    return kept;
  }

  function keeps(row, filter, mask) {
    if (filter === "all") return true;
    if (filter !== "differ") return (runs[0].rows.kinds[row] & mask) !== 0;
    const other = joined ? joined.other[row] : -1;
    return other >= 0 && runs[0].rows.mean[row] * runs[1].rows.mean[other] < 0;
  }

  const filters = () => [
    { id: "all", label: "all rollouts", help: "" }, ...index.filters,
    ...(joined ? [{ id: "differ", label: "praised by one run, blamed by the other", help: "" }] : []),
  ];

  function placeOf(row, run = 0) {
    const { rows, heads } = runs[run];
    const head = heads[rows.group[row]];
    return { step: head.step, group: head.group, rollout: rows.rollout[row] };
  }

  // The rows of a step, a group or a rollout: the first, and the one behind the last.
  function rowsOf(state) {
    const { starts, steps, places } = runs[0];
    const row = rowOf(state);
    if (state.rollout !== null) return [row, row + 1];
    const group = places.get(`${state.step}/${state.group}`);
    const groups = state.group === null ? steps.get(state.step) || [] : group === undefined ? [] : [group];
    return groups.length ? [starts[groups[0]], starts[groups.at(-1) + 1]] : [-1, -1];
  }

  function rowOf(state) {
    const group = runs[0].places.get(`${state.step}/${state.group}`);
    if (group === undefined || state.rollout === null) return -1;
    const { rows, starts } = runs[0];
    for (let row = starts[group]; row < starts[group + 1]; row++) {
      if (rows.rollout[row] === state.rollout) return row;
    }
    return -1;
  }

  // The details of a group of a run.
  async function group(number, run = 0) {
    const shard = await barl.load(runs[run].heads[number].shard);
    return shard.groups[number - shard.first];
  }

  async function rollout(row, run = 0) {
    const number = runs[run].rows.group[row];
    const rowGroup = await group(number, run);
    return { group: rowGroup, rollout: rowGroup.rollouts[row - runs[run].starts[number]] };
  }

  // The rollout of the second run that is paired with a row of the first.
  async function partner(row) {
    const other = joined ? joined.other[row] : -1;
    if (other < 0) return null;
    return { ...await rollout(other, 1), row: other, same: joined.same[row] === 1 };
  }

  return { SORTS, runs, open, parse, address, select, filters, bit, verdict, totalOf, compared, why, noAnswer, placeOf, rowOf, rowsOf, group, rollout,
    partner, get index() { return index; }, get joined() { return joined; } };
})();
