"use strict";
// The whole page: it shows what the address says, and handles keys, search and theme.
(() => {
  const { store, el } = barl;
  const by = (id) => document.getElementById(id);
  const main = by("main");
  const view = { maths: false, about: false };
  const ABOUT = {
    run: ["A run is one training. At each training step the model answers some prompts, each of them several times. One answer with its reasoning is a rollout; the rollouts of one prompt are a group.",
      "Every token of a rollout has a weight. Above 0 it is praised: it becomes likelier. Below 0 it is blamed. GRPO gives all tokens of a rollout one weight; a credit gives each turn of an agent, and each line or part of a text, its own.",
      "The curves show how many rollouts of a training step are of a kind, and how long they are. Click a curve or a line of the table to see the groups of that step. The list has all rollouts."],
    step: ["A training step is one batch of rollouts. Each line of the table is a group: the rollouts of one prompt.",
      "Where all outcomes of a group are equal, GRPO teaches nothing. The last column is the largest weight in a rollout minus the smallest, of the rollout where this is most. Above 0, the credit still tells the turns, lines or parts apart."],
    group: ["A group is the rollouts of one prompt. In the pictures each row is a rollout, ✓ right or ✗ wrong, and each cell is one of its turns, lines or parts, from the first to the last. The number is the weight of its tokens: blue is praised, orange is blamed.",
      "The first picture has the weights of the run. The second has GRPO's advantage, one number for all of a rollout. Click a cell to see that place in the rollout."],
    rollout: ["A rollout is one answer to the prompt, with its reasoning. It is divided into turns (what an agent writes before it gets an answer), lines or parts of the text, counted from 1. The colours show which of them are praised (blue) or blamed (orange).",
      "The chart below the text shows the belief: how likely each of some answers, the hypotheses, is to be the truth, judged by what was read so far.",
      "Point at a token to see its numbers. Click it to see, at the bottom, its weight, and the belief that it comes from or is compared with."],
  };
  let shown = "";
  let drawing = 0;

  // Goes to a state, as a new entry of the history or in place of the present entry.
  function go(state, replaces) {
    const address = store.address(state);
    if (address === location.hash) return;
    if (replaces) {
      history.replaceState(null, "", address);
      show();
    } else location.hash = address;
  }
  const open = (state, t) => go({ ...state, t: t === undefined ? null : t });

  function crumbs(state) {
    const levels = [["run", store.runs[0].name, { step: null, group: null, rollout: null }]];
    if (state.step !== null) levels.push(["step", `step ${state.step}`, { group: null, rollout: null }]);
    if (state.group !== null && levels.length === 2) levels.push(["group", `group ${state.group}`, { rollout: null }]);
    if (state.rollout !== null && levels.length === 3) levels.push(["rollout", `rollout ${state.rollout}`, {}]);
    by("crumbs").replaceChildren(el("ol", {}, levels.map(([, name, change], n) => el("li", {},
      n === levels.length - 1 ? el("span", { "aria-current": "page" }, barl.visible(name))
        : el("a", { href: store.address({ ...state, t: null, ...change }) }, barl.visible(name))))));
    document.body.dataset.level = levels.at(-1)[0];
    document.title = `${levels.map(([, name]) => name).reverse().join(" · ")} · barl inspect`;
    return levels;
  }

  function controls(state) {
    if (by("filter").options.length === 0) {
      by("filter").append(...store.filters().map((filter) => el("option", { value: filter.id, title: filter.help }, filter.label)));
      by("sort").append(...store.SORTS.map(([value, label]) => el("option", { value }, label)));
    }
    const steps = [...store.runs[0].steps.keys()];
    if (by("in-step").options.length !== steps.length + 1) {
      by("in-step").replaceChildren(el("option", { value: "" }, "all training steps"), ...steps.map((step) => el("option", { value: step }, `step ${step}`)));
    }
    by("filter").value = state.f;
    by("sort").value = state.sort;
    by("in-step").value = state.s;
    if (document.activeElement !== by("search")) by("search").value = state.q;
  }

  async function show() {
    const state = normal(store.parse());
    barl.text.hideTip();
    crumbs(state);
    controls(state);
    const selection = store.select(state);
    by("count").textContent = `${barl.whole(selection.length)} of ${barl.plural(store.runs[0].rows.group.length, "rollout")}`;
    barl.list.show(selection, store.rowOf(state), store.rowsOf(state));
    const place = [state.step, state.group, state.rollout, state.color, view.maths, state.rollout === null ? [state.f, state.s, state.q, state.sort] : ""].join("|");
    if (place === shown) {
      if (state.rollout !== null) barl.rollout.choose(state.t, true);
      return;
    }
    const turn = ++drawing;
    const drawn = await draw(state);
    if (turn !== drawing) return;
    const isPlace = place.split("|").slice(0, 3).join() !== shown.split("|").slice(0, 3).join();
    const kept = document.activeElement && document.activeElement.id && main.contains(document.activeElement) ? document.activeElement.id
      : document.activeElement && document.activeElement.dataset.mode ? document.activeElement.dataset.mode : null;
    shown = place;
    const [title, lead, ...others] = drawn.nodes.flat().filter(Boolean);
    main.replaceChildren(title, lead, about(), ...others);
    if (drawn.after) drawn.after();
    if (view.maths) formulas();
    if (isPlace) { window.scrollTo(0, 0); document.body.classList.remove("with-list"); by("show-list").setAttribute("aria-expanded", "false"); }
    if (kept) (by(kept) || main.querySelector(`[data-mode="${CSS.escape(kept)}"]`) || main).focus();
    document.documentElement.dataset.shown = place;
  }

  // What the view shows, in words. It stays open from view to view.
  function about() {
    const level = document.body.dataset.level;
    return el("details", { class: "about", id: "about", open: view.about, ontoggle: (event) => { view.about = event.target.open; } },
      el("summary", {}, "What am I looking at?"), ABOUT[level].map((text) => el("p", {}, text.replace("outcomes", `${store.compared()}s`))));
  }

  // The state without a group that has no step, and without a rollout that has no group.
  function normal(state) {
    if (state.step === null) return { ...state, group: null, rollout: null };
    return state.group === null ? { ...state, rollout: null } : state;
  }

  async function draw(state) {
    if (state.rollout !== null) { barl.overview.clear(); return barl.rollout.show(state, go, { ...view, toggleMaths }); }
    if (state.group !== null) { barl.overview.clear(); return { nodes: await barl.group.show(state, open) }; }
    const nodes = state.step === null ? barl.overview.run(state, jump) : barl.overview.step(state);
    return { nodes, after: barl.overview.draw };
  }
  const jump = (change) => go({ ...store.parse(), group: null, rollout: null, t: null, ...change });

  async function toggleMaths() {
    view.maths = !view.maths;
    if (view.maths && typeof katex === "undefined") await barl.unpack("katex");
    show();
  }
  function formulas() {
    for (const element of main.querySelectorAll("[data-math]")) {
      const text = element.textContent;
      element.replaceChildren();
      if (element.dataset.math === "bare") element.append(barl.text.formula(text, text, false));
      else barl.text.render(element, { text });
    }
  }

  function theme(next) {
    const root = document.documentElement;
    if (next === "system") delete root.dataset.theme; else root.dataset.theme = next;
    by("theme").textContent = `Theme: ${next}`;
    try { localStorage.setItem("barl-theme", next); } catch { /* not kept where storage is off */ }
    shown = "";
    if (store.runs.length) show();
  }
  const themeNow = () => document.documentElement.dataset.theme || "system";
  const nextTheme = () => theme({ system: "light", light: "dark", dark: "system" }[themeNow()]);

  function setting(change) { go({ ...store.parse(), ...change }, true); }

  let typed = 0;
  by("search").addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => setting({ q: by("search").value }), 120);
  });
  by("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") { event.preventDefault(); setting({ q: by("search").value }); by("list").focus(); }
  });
  by("filter").addEventListener("change", () => setting({ f: by("filter").value }));
  by("sort").addEventListener("change", () => setting({ sort: by("sort").value }));
  by("in-step").addEventListener("change", () => setting({ s: by("in-step").value }));
  by("theme").addEventListener("click", nextTheme);
  by("help").addEventListener("click", () => by("keys").showModal());
  by("show-list").addEventListener("click", () => {
    const isOpen = document.body.classList.toggle("with-list");
    by("show-list").setAttribute("aria-expanded", String(isOpen));
  });
  by("export").addEventListener("click", () => barl.exporter.save(store.select(normal(store.parse())), "rollouts.jsonl"));
  barl.list.onOpen((row) => go({ ...store.parse(), ...store.placeOf(row), t: null }));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || by("keys").open) return;
    if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
    const state = normal(store.parse());
    const up = { rollout: { rollout: null }, group: { group: null }, step: { step: null } };
    const actions = {
      __proto__: null,
      j: () => barl.list.move(1), k: () => barl.list.move(-1), "/": () => by("search").focus(),
      "]": () => barl.rollout.move(1), "[": () => barl.rollout.move(-1), t: nextTheme, "?": () => by("keys").showModal(),
      u: () => { const level = document.body.dataset.level; if (up[level]) go({ ...state, t: null, ...up[level] }); },
    };
    ["weight", "entropy", "truth", "ratio"].forEach((color, n) => {
      actions[n + 1] = () => { if (state.rollout !== null) go({ ...state, color }, true); };
    });
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });
  window.addEventListener("hashchange", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { shown = ""; show(); });

  async function begin() {
    let kept = "system";
    try { kept = localStorage.getItem("barl-theme") || "system"; } catch { /* storage is off */ }
    theme(["light", "dark"].includes(kept) ? kept : "system");
    await store.open();
    await show();
    performance.mark("listed");
  }
  begin().catch((error) => { main.replaceChildren(el("h1", {}, "The page cannot be shown"), el("p", {}, String(error))); });
})();
