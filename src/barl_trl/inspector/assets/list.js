"use strict";
// The list of selected rollouts. Only the lines in sight are elements of the page, so that it can have
// a hundred thousand.
barl.list = (() => {
  const HEIGHT = 50;
  const box = document.getElementById("list");
  const rowsBox = document.getElementById("rows");
  let selection = [];
  let active = -1;
  let here = [-1, -1]; // the first row of what is open, and the one behind the last
  let open = () => {};

  function line(place) {
    const row = selection[place];
    const { rows } = barl.store.runs[0];
    const at = barl.store.placeOf(row);
    const [mark, verdict] = barl.store.verdict(rows.kinds[row]);
    const answer = rows.answer[row];
    const total = mark !== "·" || rows.return[row] === null ? null : `return ${barl.number(rows.return[row], 2)}`;
    const weight = barl.shaded(barl.el("span", { class: "chip" }, barl.signed(rows.mean[row])),
      rows.mean[row], barl.store.runs[0].bound);
    return barl.el("div", {
      class: row >= here[0] && row < here[1] ? "row opened" : "row", id: `row-${row}`, role: "option", "aria-selected": String(place === active),
      "aria-setsize": selection.length, "aria-posinset": place + 1, "data-place": place,
      style: { top: `${place * HEIGHT}px` },
    },
    barl.el("span", { class: "where" }, `step ${at.step} · group ${at.group} · rollout ${at.rollout}`),
    weight,
    barl.el("span", { class: ["right", "wrong"].includes(verdict) ? `answer ${verdict}` : "answer" },
      `${mark} ${[total, answer === null ? barl.store.noAnswer(rows.kinds[row], total ? null : "–") : `${total ? "answers " : ""}${barl.visible(barl.cut(answer, 40))}`].filter(Boolean).join(", ")}`),
    barl.el("span", { class: "length" }, `${barl.whole(rows.tokens[row])} tokens`));
  }

  function draw() {
    const first = Math.max(0, Math.floor(box.scrollTop / HEIGHT) - 4);
    const last = Math.min(selection.length, first + Math.ceil(box.clientHeight / HEIGHT) + 8);
    const lines = [];
    for (let place = first; place < last; place++) lines.push(line(place));
    rowsBox.replaceChildren(...lines);
    if (active >= first && active < last) {
      box.setAttribute("aria-activedescendant", `row-${selection[active]}`);
    } else box.removeAttribute("aria-activedescendant");
  }

  const opened = () => selection.findIndex((row) => row >= here[0] && row < here[1]);

  // Shows the selected rows. The list follows what is open: a rollout, or the rows of a group or step.
  function show(rows, row, opens) {
    const isNew = rows !== selection;
    const isElsewhere = isNew || opens.join() !== here.join();
    selection = rows;
    here = opens;
    rowsBox.style.height = `${selection.length * HEIGHT}px`;
    active = row < 0 ? -1 : selection.indexOf(row);
    const place = active < 0 && isElsewhere ? opened() : active;
    const top = place * HEIGHT;
    if (active < 0 && (place >= 0 || isNew)) box.scrollTop = top;
    else if (place >= 0 && (top < box.scrollTop || top + HEIGHT > box.scrollTop + box.clientHeight)) {
      box.scrollTop = top - box.clientHeight / 2;
    }
    draw();
  }

  function move(by) {
    if (!selection.length) return;
    const first = opened();
    active = active < 0 ? (by > 0 ? Math.max(0, first) : (first > 0 ? first : selection.length) - 1)
      : Math.min(selection.length - 1, Math.max(0, active + by));
    open(selection[active]); // it is shown later, perhaps after the next key
  }

  let waits = false;
  box.addEventListener("scroll", () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; draw(); });
  });
  new ResizeObserver(() => { if (box.clientHeight) draw(); }).observe(box);
  box.addEventListener("click", (event) => {
    const line = event.target.closest(".row");
    if (line) open(selection[Number(line.dataset.place)]);
  });
  box.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(box.clientHeight / HEIGHT) - 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (!by) return;
    event.preventDefault();
    move(by);
  });

  return { show, move, onOpen(call) { open = call; } };
})();
