// A slider over the places of a log, and the state of the space at the chosen one as tables. The kernel answers the newest
// request of this view alone; what was shown before stays until its answer comes.

import { connect } from "../ui/connection.js";
import { activeOf, announcer, holdsFocus, keepKeys, make, write } from "../ui/elements.js";
import { makeHeader } from "../ui/header.js";
import { makeTable } from "../ui/tables.js";
import { clockHover, clockTime, groupDigits } from "../ui/text.js";

const PAUSE = 80; // milliseconds after which a place that the slider passes is asked for
const KEYS = [
  ["← →", "Previous or next record, on the slider"],
  ["Page Up/Down", "A tenth of the log further"],
  ["[ ]", "Previous or next change of the state"],
  ["Home End", "The beginning or the end of the log"],
];

/** @typedef {{ name: string, title: string, columns: string[], rows: string[][], more: string }} StateTable */

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-moments", "aria-label": "Moments" });
  const header = makeHeader({ title: "Moments", keys: KEYS });
  const slider = make("input", {
    type: "range",
    class: "mew-place",
    min: 0,
    max: 0,
    value: 0,
    step: 1,
    disabled: true,
    "aria-label": "Place in the log",
    oninput: () => {
      place = Number(slider.value);
      paintPlace();
      askSoon();
    },
  });
  const number = make("input", {
    type: "number",
    class: "mew-number",
    min: 0,
    max: 0,
    disabled: true,
    "aria-label": "Number of the record",
    onchange: () => goTo(Number(number.value)),
  });
  const previous = make("button", {
    text: "‹ Change",
    title: "The last place before this one at which the state changed",
    "aria-label": "Previous change",
    onclick: () => ask(place, "previous"),
  });
  const next = make("button", {
    text: "Change ›",
    title: "The next place at which the state changes",
    "aria-label": "Next change",
    onclick: () => ask(place, "next"),
  });
  const newest = make("button", {
    class: "mew-quiet",
    text: "Newest",
    title: "The end of the log, as it is now",
    onclick: () => ask(null),
  });
  const what = make("bdi", { class: "mew-what-record" });
  const reason = make("div", { class: "mew-reason", role: "alert", hidden: true });
  const tables = make("div", { class: "mew-tables" });
  header.actions.append(newest);
  root.append(
    header.node,
    make("div", { class: "mew-slide" }, previous, slider, next, number),
    make("div", { class: "mew-record" }, what),
    reason,
    tables,
  );
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  let place = 0,
    last = 0,
    asked = 0,
    timer = null,
    space = "",
    time = null;

  const link = connect(adapter, root, {
    from: () => 0,
    items: {
      snapshot(item) {
        space = item.space;
        ask(time === null ? null : place);
      },
      moment(item) {
        if (item.n === asked) show(item);
      },
      unfit({ n, sentence }) {
        if (n === asked) refuse(sentence);
      },
    },
  });

  function ask(seq, way = "") {
    clearTimeout(timer);
    timer = null;
    asked += 1;
    root.dataset.asked = String(asked);
    link.send({ t: "at", view: link.view, n: asked, seq, way });
  }

  // While the slider moves, the place that it has after a moment is asked for, and at last the one where it stops.
  function askSoon() {
    timer ??= setTimeout(() => {
      timer = null;
      ask(place);
    }, PAUSE);
  }

  function goTo(seq) {
    place = Math.min(Math.max(Math.round(seq) || 0, Number(slider.min)), last);
    paintPlace();
    ask(place);
  }

  function show(item) {
    last = item.last;
    time = item.time;
    for (const box of [slider, number]) {
      box.min = String(item.first);
      box.max = String(item.last);
      box.disabled = false;
    }
    // The slider may have moved on since: its place is asked for, and this one is only on the way.
    if (timer === null) place = item.seq;
    reason.hidden = true;
    write(what, `#${item.seq} · ${clockTime(item.time)} · ${item.what}`, clockHover(item.time));
    drawTables(item);
    paintPlace(item.what);
    root.dataset.answered = String(asked);
    root.dataset.seq = String(item.seq);
    announce(`#${item.seq}: ${item.what}`);
  }

  function refuse(sentence) {
    write(reason, sentence);
    reason.hidden = false;
    tables.replaceChildren();
  }

  function paintPlace(said = "") {
    slider.value = String(place);
    if (activeOf(number) !== number) number.value = String(place);
    slider.setAttribute("aria-valuetext", `Record ${place} of ${last}${said ? `, ${said}` : ""}`);
    header.setCounts([{ text: space }, { text: `#${place} of #${last}` }]);
    previous.disabled = place <= Number(slider.min);
    next.disabled = place >= last;
  }

  function drawTables(item) {
    const parts = /** @type {StateTable[]} */ (item.tables).map((table) => {
      const head = make(
        "h3",
        { id: `${link.view}-${table.name}`, text: `${table.title} ` },
        make("span", { class: "mew-size", text: groupDigits(table.rows.length) }),
      );
      const part = make(
        "section",
        { class: `mew-state mew-of-${table.name}`, "aria-labelledby": head.id },
        head,
      );
      if (!table.rows.length) part.append(make("div", { class: "mew-none", text: "None" }));
      else
        part.append(
          make(
            "div",
            { class: "mew-scroll", tabindex: 0, role: "region", "aria-labelledby": head.id },
            makeTable(
              table.columns,
              make(
                "tbody",
                {},
                ...table.rows.map((row) =>
                  make(
                    "tr",
                    {},
                    ...row.map((text, n) =>
                      make(
                        "td",
                        { class: table.columns[n] === "Permission" ? "mew-code" : null },
                        make("bdi", { text }),
                      ),
                    ),
                  ),
                ),
              ),
            ),
          ),
        );
      if (table.more) part.append(make("div", { class: "mew-none", text: table.more }));
      return part;
    });
    if (item.reading)
      parts.splice(
        1,
        0,
        make(
          "section",
          { class: "mew-state" },
          make("h3", { text: "Open proposals" }),
          make("div", { class: "mew-none", text: "Reading the log …" }),
        ),
      );
    const scrolled = new Map(
      [...tables.querySelectorAll(".mew-scroll")].map((node) => [
        node.getAttribute("aria-labelledby"),
        node.scrollTop,
      ]),
    );
    const focused = holdsFocus(tables) ? activeOf(root).getAttribute("aria-labelledby") : null;
    tables.replaceChildren(...parts);
    for (const node of tables.querySelectorAll(".mew-scroll")) {
      node.scrollTop = scrolled.get(node.getAttribute("aria-labelledby")) ?? 0;
      if (focused && node.getAttribute("aria-labelledby") === focused)
        /** @type {HTMLElement} */ (node).focus({ preventScroll: true });
    }
  }

  root.addEventListener("keydown", (event) => {
    const way = { "[": "previous", "]": "next" }[event.key];
    if (!way || event.target === number || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    ask(place, way);
  });

  return () => {
    clearTimeout(timer);
    link.end();
  };
}

export default { render };
