// The streams of a space as a table, in the order in which they were opened or requested, and one opened stream below it.

import { connect } from "../ui/connection.js";
import {
  activeOf,
  announcer,
  atHand,
  doer,
  holdsFocus,
  isOff,
  keepKeys,
  make,
  onEscape,
  placeByKey,
  setOptions,
  ticker,
  turnOff,
  write,
} from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { makeHeader } from "../ui/header.js";
import { keyedRows, makeTable } from "../ui/tables.js";
import { amount, clockHover, clockTime, countOf, elapsedTime, groupDigits } from "../ui/text.js";
import { hexViewer, jsonViewer, pictureViewer, textViewer } from "./bytes.js";
import { plot } from "./plot.js";

const VIEWERS = { text: textViewer, json: jsonViewer, hex: hexViewer, numbers: plot, image: pictureViewer };
const KIND_NAMES = [
  ["text", "text"],
  ["json", "JSON lines"],
  ["hex", "hex"],
  ["numbers", "numbers"],
  ["image", "image"],
];
const HEADS = [
  ["Description", ""],
  ["Owner", "mew-owner"],
  ["Writers", "mew-writers"],
  ["To", "mew-to"],
  ["Type", "mew-type"],
  ["State", "mew-state"],
  ["Frames", "mew-num mew-frames"],
  ["Bytes", "mew-num mew-bytes"],
  ["B/s", "mew-num mew-rate"],
  ["Age", "mew-num mew-age"],
];
const STATES = { requested: "◌", open: "●", closed: "■", refused: "✗" };
const KEYS = [
  ["↑ ↓ Home End", "Move in the list"],
  ["Enter", "Open or hide a stream"],
  ["← → Home End", "Read a value, on a plot"],
  ["Esc", "Close the form"],
];
const TYPES = [
  "text/plain",
  "text/x-numbers",
  "application/x-ndjson",
  "application/octet-stream",
  "image/png",
];

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-streams", "aria-label": "Streams" });
  const header = makeHeader({ title: "Streams", keys: KEYS });
  const opener = make("button", {
    text: "Open a stream…",
    "aria-expanded": "false",
    onclick: () => showForm(form.hidden),
  });
  const form = make("form", { class: "mew-opening", hidden: true, "aria-label": "Open a stream" });
  const body = make("tbody");
  const table = makeTable(
    HEADS.map(([text, css]) => ({ class: css, text })),
    body,
    { "aria-label": "Streams of the space" },
  );
  const scroller = make("div", { class: "mew-scroller" }, table);
  const empty = make("div", { class: "mew-empty" });
  const left = make("div", { class: "mew-empty", hidden: true });
  const detail = make("div", {
    class: "mew-detail",
    hidden: true,
    role: "region",
    "aria-label": "The chosen stream",
  });
  header.actions.append(opener);
  root.append(header.node, form, scroller, empty, left, detail);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  const lines = keyedRows(body, {
    keyOf: ({ key }) => key,
    build: buildLine,
    fill: fillLine,
    left: (line, focused) => focused && opener.focus(),
  });
  const rows = new Map(),
    counts = new Map(),
    countedAt = new Map(),
    dirty = new Set();
  let head = { open: 0, requested: 0, ended: 0, leftOut: 0, others: [], mayRequest: true },
    ready = false;
  let chosen = 0,
    kind = "text",
    viewer = null,
    parts = null,
    paused = false,
    skipped = 0,
    frame = 0;

  const sizes = new ResizeObserver(() => paintSoon());
  const link = connect(adapter, root, {
    from: () => 0,
    items: {
      snapshot: begin,
      rows: ({ rows }) => rows.forEach(put),
      gone: ({ keys }) => keys.forEach(drop),
      counts: ({ counts }) => counts.forEach(count),
      head: (item) => (head = item),
      shown(item) {
        if (item.key === chosen && item.kind === kind) show(item);
      },
    },
    done: paintSoon,
  });

  function begin(item) {
    head = item;
    empty.replaceChildren(emptyState(item.empty, { code: item.code }));
    const now = new Set(item.rows.map((row) => row.key));
    for (const key of rows.keys()) if (!now.has(key)) drop(key);
    item.rows.forEach(put);
    item.counts.forEach(count);
    ready = true;
    // Python may have forgotten the stream of this view: the kernel was away too long, or the table overflowed.
    if (chosen) look(chosen, kind);
  }

  function put(row) {
    const before = rows.get(row.key);
    rows.set(row.key, row);
    dirty.add(row.key);
    if (ready && before?.state !== row.state)
      announce(`${row.id || "A stream"} of ${row.owner}: ${row.state}${row.reason ? `, ${row.reason}` : ""}`);
  }

  function drop(key) {
    rows.delete(key);
    counts.delete(key);
    lines.drop(key);
    if (key === chosen) choose(0);
  }

  function count([key, frames, bytes, rate]) {
    counts.set(key, { frames, bytes, rate });
    countedAt.set(key, performance.now());
    dirty.add(key);
  }

  // --- the table ---

  function paintSoon() {
    frame ||= requestAnimationFrame(paint);
  }

  function paint() {
    frame = 0;
    if (!root.clientHeight) {
      sizes.unobserve(root);
      sizes.observe(root);
      return;
    }
    const atEnd = scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 4;
    for (const key of dirty) if (rows.has(key)) paintLine(rows.get(key));
    dirty.clear();
    if (atEnd && !holdsFocus(scroller)) scroller.scrollTop = scroller.scrollHeight;
    empty.hidden = rows.size > 0;
    scroller.hidden = rows.size === 0;
    left.hidden = !head.leftOut;
    write(
      left,
      `${groupDigits(head.leftOut)} more are not in this list. lab.me.participant.streams.active has all open streams.`,
    );
    const why = head.mayRequest ? "" : "You don't have permission to open a stream (stream/request).";
    turnOff(opener, why, why);
    rove();
    tick();
    offerParticipants();
    viewer?.paint();
  }

  function purposeOf(row) {
    return row.description || nameOf(row);
  }

  function nameOf(row) {
    return row.id || (row.state === "refused" ? "(none)" : "(requested)");
  }

  // Rows arrive in their order; a row that was left out for a while returns to its place.
  function paintLine(row) {
    const isNew = !lines.rows.has(row.key);
    lines.put(row, isNew ? [...body.rows].find((next) => Number(next.dataset.key) > row.key) : null);
  }

  function buildLine(row) {
    const node = make("tr", {
      "data-key": row.key,
      onclick: (event) => {
        if (!event.target.closest("button")) choose(row.key);
      },
    });
    const button = make(
      "button",
      {
        class: "mew-link",
        tabindex: -1,
        onclick: () => choose(chosen === row.key ? 0 : row.key),
        onfocus: () => rove(button),
      },
      make("bdi", { class: "mew-purpose" }),
      " ",
      make("span", { class: "mew-id mew-code", dir: "ltr" }),
    );
    node.append(
      make("th", { scope: "row" }, button),
      ...HEADS.slice(1).map(([, css]) => make("td", { class: css })),
    );
    for (const n of [1, 2, 3, 4]) node.cells[n].classList.add("mew-code");
    for (const cell of [...node.cells].slice(1, 6)) cell.append(make("bdi"));
    return { node, data: row };
  }

  function fillLine({ node, data: row }) {
    const button = node.cells[0].firstChild,
      people = (names) => names.join(", ");
    write(button.firstChild, purposeOf(row));
    write(button.lastChild, row.description ? nameOf(row) : "");
    if (button.title !== `${purposeOf(row)} (${nameOf(row)})`)
      button.title = `${purposeOf(row)} (${nameOf(row)})`;
    button.setAttribute("aria-expanded", String(row.key === chosen));
    node.className = `mew-is-${row.state}${row.key === chosen ? " mew-chosen" : ""}`;
    const label = `${STATES[row.state]} ${row.state}${row.reason ? `: ${row.reason}` : ""}`;
    const texts = [
      row.mine ? `${row.owner} (you)` : row.owner,
      people(row.writers),
      row.target.length ? people(row.target) : "everybody",
      [row.type, row.format].filter(Boolean).join(" "),
      label,
    ];
    texts.forEach((text, n) => write(node.cells[n + 1].firstChild, text, text));
    const { frames, bytes } = counts.get(row.key) ?? { frames: 0, bytes: 0 };
    write(
      node.cells[6],
      row.reaches ? groupDigits(frames) : "–",
      row.reaches ? "" : "Its frames are sent to other participants only.",
    );
    write(node.cells[7], row.reaches ? amount(bytes) : "–", countOf(bytes, "byte"));
    if (row.key === chosen) showFacts(row);
  }

  const buttonOf = (key) => lines.rows.get(key)?.node.cells[0].firstChild;

  // One button of the table is a stop for the Tab key; the arrow keys go from row to row.
  function rove(here) {
    const buttons = [...body.rows].map((row) => row.cells[0].firstChild);
    const stop =
      here ??
      buttons.find((button) => button === activeOf(root)) ??
      buttonOf(chosen) ??
      buttons.find((button) => button.tabIndex === 0) ??
      buttons[0];
    for (const button of buttons) {
      const wanted = button === stop ? 0 : -1;
      if (button.tabIndex !== wanted) button.tabIndex = wanted;
    }
  }

  function rateOf(key) {
    const count = counts.get(key);
    return count && performance.now() - countedAt.get(key) < 2500 ? count.rate : 0;
  }

  // The cells that change with time alone.
  function tick() {
    if (!root.clientHeight) return;
    let bytes = 0,
      all = 0;
    for (const row of rows.values()) {
      const node = lines.rows.get(row.key)?.node,
        speed = row.state === "open" ? rateOf(row.key) : 0;
      bytes += counts.get(row.key)?.bytes ?? 0;
      all += speed;
      if (!node) continue;
      write(node.cells[8], speed ? amount(speed) : row.state === "open" && row.reaches ? "0 B" : "–");
      write(
        node.cells[9],
        row.since ? elapsedTime((row.until ?? link.now()) - row.since) : "",
        row.since
          ? `since ${clockTime(row.since)} (${clockHover(row.since)})${row.until ? `, until ${clockTime(row.until)} (${clockHover(row.until)})` : ""}`
          : "",
      );
    }
    header.setCounts([
      { text: `${groupDigits(head.open)} open` },
      { text: head.requested ? `${groupDigits(head.requested)} requested` : "", tone: "wait" },
      { text: `${groupDigits(head.ended)} closed` },
      { text: bytes ? amount(bytes) : "", hover: "Received in all" },
      { text: all ? `${amount(all)}/s` : "", hover: "Received now" },
    ]);
  }
  const tickEachSecond = ticker(tick);
  tickEachSecond(true);

  // --- one stream ---

  function choose(key) {
    const before = chosen;
    chosen = rows.has(key) ? key : 0;
    for (const key of [before, chosen]) if (rows.has(key)) paintLine(rows.get(key));
    detail.hidden = !chosen;
    viewer?.end();
    viewer = parts = null;
    detail.replaceChildren();
    if (!chosen) {
      link.send({ t: "look", view: link.view, key: 0 });
      return;
    }
    const row = rows.get(chosen);
    build(row);
    look(chosen, row.kind);
    paintSoon();
    if (row.kind === "text") findNumbers(row.key);
  }

  // A text that has only numbers so far is shown as a curve, unless the reader has chosen another kind by then.
  async function findNumbers(key) {
    const done = await link.act("kind", { key });
    if (done?.value.kind === "numbers" && chosen === key && kind === "text" && !parts.byHand)
      look(key, "numbers");
  }

  function look(key, wanted) {
    kind = wanted;
    paused = false;
    skipped = 0;
    viewer?.end();
    viewer = VIEWERS[kind]();
    parts.content.replaceChildren(viewer.node);
    parts.special.replaceChildren(...(viewer.tools ?? []));
    write(parts.note, "");
    for (const button of parts.kinds.children)
      button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    showPause();
    link.send({ t: "look", view: link.view, key, kind });
  }

  function show(item) {
    if (item.before) write(parts.note, `${amount(item.before)} came before the part that is shown here.`);
    if (item.skipped) {
      skipped = item.skipped;
      write(
        parts.note,
        `${countOf(skipped, "byte")} skipped: more than 256 KiB a second came. “Save to file” writes all held bytes.`,
      );
      announce(`${countOf(skipped, "byte")} skipped`);
    }
    viewer.add(item);
  }

  function showPause() {
    write(parts.pause, paused ? "Resume" : "Pause");
    parts.pause.setAttribute("aria-pressed", String(paused));
    // What was held back can be read after the end, too.
    const hides = parts.ended && !paused;
    if (hides && activeOf(root) === parts.pause) parts.save.focus();
    parts.pause.hidden = hides;
  }

  function build(row) {
    parts = /** @type {Record<string, any>} */ ({});
    parts.name = make("span", { class: "mew-id mew-code" });
    parts.about = make("bdi", { class: "mew-about" });
    parts.facts = make("dl", { class: "mew-facts" });
    parts.kinds = make(
      "div",
      { class: "mew-kinds", role: "group", "aria-label": "Show it as" },
      ...KIND_NAMES.map(([name, text]) =>
        make("button", {
          "data-kind": name,
          "aria-pressed": "false",
          text,
          onclick: () => {
            parts.byHand = true;
            look(chosen, name);
          },
        }),
      ),
    );
    parts.special = make("span");
    parts.pause = make("button", {
      text: "Pause",
      "aria-pressed": "false",
      onclick: () => {
        paused = !paused;
        link.send({ t: "pause", view: link.view, on: paused });
        showPause();
      },
    });
    parts.save = doer("Save to file", () => act("save", { key: row.key, kind }));
    parts.who = make("select", { "aria-label": "Participant" });
    const about = () => ({ key: row.key, participant: parts.who.value });
    parts.grant = doer("Allow writing", () => act("grant", about()));
    parts.revoke = doer("Revoke writing", () => act("revoke", about()));
    parts.transfer = doer("Transfer", () => act("transfer", about()));
    parts.close = doer("Close stream", () => act("close", { key: row.key }));
    parts.note = make("div", { class: "mew-dim mew-note", role: "status" });
    parts.content = make("div", { class: "mew-content" });
    parts.others = "";
    parts.owning = make(
      "div",
      { class: "mew-toolbar mew-owning", role: "group", "aria-label": "Actions of its owner" },
      parts.who,
      parts.grant,
      parts.revoke,
      parts.transfer,
      make("span", { class: "mew-gap" }),
      parts.close,
    );
    parts.why = make("div", { class: "mew-dim mew-why" });
    detail.append(
      make(
        "div",
        { class: "mew-head" },
        make("span", { class: "mew-name" }, parts.about, " ", parts.name),
        make("button", {
          text: "Hide",
          onclick: () => {
            const button = buttonOf(chosen);
            choose(0);
            button?.focus();
          },
        }),
      ),
      parts.facts,
      parts.owning,
      parts.why,
      make(
        "div",
        { class: "mew-toolbar" },
        parts.kinds,
        parts.special,
        make("span", { class: "mew-gap" }),
        parts.pause,
        parts.save,
      ),
      parts.note,
      parts.content,
    );
    showFacts(row);
    offerParticipants();
  }

  function showFacts(row) {
    if (!parts) return;
    write(parts.name, nameOf(row));
    write(parts.about, row.description);
    // A closed stream brings nothing more to pause.
    parts.ended = row.state !== "open";
    showPause();
    const list = [
      ["Owner", row.mine ? `${row.owner} (you)` : row.owner],
      ["Writers", row.writers.join(", ")],
      ["To", row.target.length ? row.target.join(", ") : "everybody"],
      ["Direction", row.direction],
      ["Type", [row.type, row.format, row.encoding && `encoding ${row.encoding}`].filter(Boolean).join(", ")],
    ];
    if (row.expected !== null) list.push(["Expected", amount(row.expected)]);
    if (row.late) list.push(["Opened", "before you joined"]);
    if (row.state !== "open") list.push(["State", `${row.state}${row.reason ? `: ${row.reason}` : ""}`]);
    const texts = list.filter(([, text]) => text);
    if (parts.shown !== JSON.stringify(texts)) {
      parts.shown = JSON.stringify(texts);
      parts.facts.replaceChildren(
        ...texts.map(([name, text]) =>
          make(
            "div",
            {},
            make("dt", { text: name }),
            make("dd", { class: "mew-code" }, make("bdi", { text })),
          ),
        ),
      );
    }
    const why =
      row.state === "requested"
        ? "Waiting for the gateway to open it."
        : row.state === "refused"
          ? "Refused: nothing can be read."
          : row.state !== "open"
            ? "Closed: read-only."
            : !row.mine
              ? `Only the owner (${row.owner}) can close, share or transfer it.`
              : "";
    write(
      parts.why,
      [why, row.reaches ? "" : "Its frames are sent to other participants only, so none are shown here."]
        .filter(Boolean)
        .join(" "),
    );
    for (const [action, button] of [
      ["close", parts.close],
      ["grant-write", parts.grant],
      ["revoke-write", parts.revoke],
      ["transfer-ownership", parts.transfer],
    ]) {
      const against = row.may.includes(action)
        ? ""
        : why || `You don't have permission for this (stream/${action}).`;
      turnOff(button, against, against);
    }
    parts.owning.hidden = row.state !== "open" || !row.mine;
  }

  async function act(name, choices) {
    const done = await link.act(name, choices);
    if (!done) return null;
    if (name === "save") link.notice(done.said, "status");
    announce(done.said);
    return done;
  }

  // --- participants, and the form for a new stream ---

  function offerParticipants() {
    setOptions(fields.target, [["", "everybody"], ...head.others]);
    if (parts) setOptions(parts.who, [["", "choose a participant"], ...head.others]);
  }

  const fields = {
    description: make("input", { type: "text", maxlength: 1000, placeholder: "What it is for" }),
    direction: make(
      "select",
      {},
      make("option", { value: "upload", text: "upload: you write" }),
      make("option", { value: "download", text: "download: others write once you grant it" }),
    ),
    content_type: make("input", {
      type: "text",
      maxlength: 200,
      placeholder: "text/plain",
      list: `${link.view}-types`,
    }),
    format: make("input", { type: "text", maxlength: 200, placeholder: "jsonl, numbers …" }),
    target: make("select"),
  };
  const names = {
    description: "Description",
    direction: "Direction",
    content_type: "Content type",
    format: "Format",
    target: "To",
  };
  form.append(
    ...Object.entries(fields).map(([name, field]) =>
      make("label", {}, make("span", { text: names[name] }), field),
    ),
    make("datalist", { id: `${link.view}-types` }, ...TYPES.map((value) => make("option", { value }))),
  );
  form.append(
    make(
      "span",
      { class: "mew-buttons" },
      make("button", { text: "Cancel", onclick: () => showForm(false) }),
      doer("Open", start, { class: "mew-primary" }),
    ),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.tagName === "INPUT" && event.isTrusted && !event.repeat)
      start();
  });

  let opening = false;
  async function start() {
    if (opening) return;
    opening = true;
    try {
      const choices = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.value]));
      const done = await act("open", choices);
      if (!done) return;
      showForm(false);
      if (rows.has(done.value.key)) choose(done.value.key);
    } finally {
      opening = false;
    }
  }

  function showForm(on) {
    if (on && isOff(opener)) return;
    const focused = on || atHand(form);
    form.hidden = !on;
    opener.setAttribute("aria-expanded", String(on));
    if (on) fields.description.focus();
    else {
      fields.description.value = "";
      if (focused) opener.focus();
    }
  }

  onEscape(form, () => showForm(false));
  body.addEventListener("keydown", (event) => {
    const all = [...body.rows],
      to = placeByKey(event, all.indexOf(event.target.closest("tr")), all.length);
    if (to === undefined) return;
    event.preventDefault();
    all[Math.min(all.length - 1, Math.max(0, to))]?.cells[0].firstChild.focus();
  });

  sizes.observe(root);
  paintSoon();
  return () => {
    tickEachSecond(false);
    cancelAnimationFrame(frame);
    sizes.disconnect();
    viewer?.end();
    link.end();
  };
}

export default { render };
