// A table of any length, of which only the visible rows are in the page. It paints after an arrival, a scroll or a request,
// and never because it has painted. The cells, the columns, the order, the filter, the search, the facets and the opened row
// have modules of their own.

import { cancelButton } from "../ui/cancel.js";
import { connect } from "../ui/connection.js";
import {
  activeOf,
  announcer,
  doer,
  holdsFocus,
  keepKeys,
  make,
  setAttribute,
  write,
} from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { family, familyLabel } from "../ui/families.js";
import { FAMILIES } from "../ui/family_table.js";
import { makeHeader } from "../ui/header.js";
import { keptResults } from "../ui/kept.js";
import { onOpen, openIn } from "../ui/links.js";
import { menuButton, openMenu } from "../ui/menu.js";
import { showPopover } from "../ui/popover.js";
import { clockHover, clockTime, countOf, groupDigits, rateText } from "../ui/text.js";
import {
  ANSWERS,
  CALL,
  CONTEXT,
  FROM,
  ID,
  KIND,
  SEQ,
  TIME,
  TOOL,
  WHAT,
  answersOf,
  cellsOf,
  isDenied,
  isFailure,
  isPlumbing,
  rankOf,
  setRank,
} from "./cells.js";
import { columnSet } from "./column_set.js";
import { copyPlace } from "./copying.js";
import { detailPane } from "./detail.js";
import { SLOT, SLOTS, facet } from "./facets.js";
import { compileFilter, completeFilter, isExpression, joinFilters } from "./filter.js";
import { isNatural, sortRows } from "./order.js";
import { findRows, nextMatch } from "./search.js";

const HEIGHTS = { comfortable: 28, compact: 24 };
const AROUND = 6;
const STILL = 500; // milliseconds
const KEYS = [
  ["/", "Filter"],
  ["F", "Find"],
  ["Enter", "Open the selected message"],
  ["Escape", "Close it"],
  ["↑ ↓", "Previous or next message"],
  ["←", "The message that this one answers"],
  ["→", "Its answer"],
  ["Space", "Add to the selection, or take out of it"],
  ["Menu", "Filter by a cell (or press the right button on it)"],
];

const COPIES = [
  ["jsonl", "JSONL", "One record a line, as a saved log has them"],
  ["markdown", "Markdown", "For a reader or a language model"],
  ["mermaid", "Mermaid", "A sequence diagram"],
  ["python", "Python", "Code that sends the same messages again"],
];
const PART_NAMES = { timeline: "timeline", approvals: "card", reasoning: "reasoning" };

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-feed", "aria-label": "Messages" });
  const header = makeHeader({ title: "Messages", keys: KEYS });
  const pause = make("button", {
    class: "mew-quiet",
    "aria-pressed": "false",
    text: "Pause",
    title: "Holds new messages back, so that the list stands still",
    onclick: () => setPaused(!paused),
  });
  const save = doer(
    "Save log",
    async () => {
      const done = await link.act("save");
      if (done) link.notice(done.said, "status");
    },
    { class: "mew-quiet", title: "Writes the whole log to a file in the kernel's folder" },
  );
  const follow = make("button", {
    class: "mew-follow",
    text: "Newest ▾",
    onclick: () => {
      setPaused(false);
      if (order().by !== "seq") columns.setOrder("seq", false);
      following = true;
      unseen = 0;
      paintSoon();
    },
  });
  const filter = make("input", {
    type: "search",
    placeholder: "Filter: from:bot tool:git_log",
    maxlength: 500,
    "aria-label": "Filter by text",
    autocomplete: "off",
    title:
      'words, -word, "two words", from:x to:x kind:x tool:x id:x context:x verdict:x since:5m, or conditions: kind ~ "mcp/*" and latency > 2s',
    oninput: () => {
      suggest();
      refilter();
    },
  });
  const known = make("datalist");
  const clear = make("button", {
    class: "mew-clear mew-quiet",
    text: "Clear",
    title: "Shows every message again",
    onclick: () => {
      unfilter();
      filter.focus();
    },
  });
  const reason = make("div", { class: "mew-reason", role: "alert", hidden: true });
  const find = make("input", {
    type: "search",
    placeholder: "Find",
    maxlength: 200,
    "aria-label": "Find in the messages",
    autocomplete: "off",
    title: "Enter goes to the next match, Shift+Enter to the previous one",
    oninput: () => search(),
  });
  const findCount = make("span", { class: "mew-found mew-num", role: "status" });
  const [previous, next] = [
    ["‹", "Previous match", true],
    ["›", "Next match", false],
  ].map(([text, label, back]) =>
    make("button", {
      class: "mew-quiet",
      text,
      title: label,
      "aria-label": label,
      onclick: () => goToMatch(back),
    }),
  );
  const findBox = make("span", { class: "mew-find" }, find, findCount, previous, next);
  const plumbing = make("button", {
    class: "mew-plumbing",
    "aria-pressed": "true",
    title:
      "Plumbing keeps the space running: welcomes, presence, status, acknowledgements, and requests for lists. Errors, denials and proposals are always shown.",
    onclick: () => setPlumbing(!hidesPlumbing, true),
  });
  const span = make("span", { class: "mew-span", hidden: true });
  const body = make("tbody");
  const table = make("table", {
    role: "grid",
    tabindex: 0,
    "aria-label": "Messages",
    "aria-readonly": "true",
    "aria-multiselectable": "true",
    "aria-keyshortcuts": "Enter Space ArrowLeft ArrowRight",
  });
  const spacer = make("div", { class: "mew-spacer" }, table);
  const empty = make("div", { class: "mew-empty" });
  const scroller = make("div", { class: "mew-scroller" }, spacer, empty);
  const hint = make("div", { class: "mew-hint", role: "status", hidden: true });
  const note = make("span", { class: "mew-note" });
  const copied = copyPlace();
  const copyAs = menuButton(
    "Copy as ▾",
    () => COPIES.map(([form, text, about]) => ({ text, about, run: () => copySelected(form) })),
    { class: "mew-quiet mew-away", title: "Copies the selected messages" },
  );

  const families = facet({
    label: "Kinds",
    key: (row) => family(row[KIND]).name,
    all: true,
    order: FAMILIES.map((entry) => entry.name),
    changed: refilter,
    look: (name) => ({ text: familyLabel(name), about: familyLabel(name), css: `mew-is-${name}` }),
  });
  const plain = (name) => ({
    text: name.length > 28 ? `${name.slice(0, 14)}…${name.slice(-12)}` : name,
    css: "mew-is-plain",
  });
  const senders = facet({ label: "From", key: (row) => row[FROM], look: plain, changed: refilter });
  const contexts = facet({ label: "Context", key: (row) => row[CONTEXT], look: plain, changed: refilter });
  const facets = [families, senders, contexts];
  const openers = [
    ["Kind", families],
    ["From", senders],
    ["Context", contexts],
  ].map(([name, group]) => opener(name, group));
  const columns = columnSet({
    table,
    room: () => scroller.clientWidth,
    longest: () => nameOf(last).length,
    changed: (what) => reorder(what),
    keep: (kept) => link.setSetting("feedColumns", kept),
    empty: ["finding"],
  });
  table.append(columns.widths, make("thead", {}, columns.heads), body);
  const order = () => columns.order;

  header.filter.append(
    make("span", { class: "mew-box" }, filter, known, clear),
    findBox,
    make("span", { class: "mew-toolbar" }, ...openers.map((opener) => opener.button), plumbing),
    span,
  );
  header.actions.append(columns.menu, pause, save);
  root.append(
    header.node,
    reason,
    scroller,
    make("div", { class: "mew-foot" }, note, make("span", { class: "mew-gap" }), copyAs, follow),
    hint,
    copied.node,
  );
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  /** @type {import("./cells.js").Row[]} */
  let rows = [],
    shown = rows,
    held = [];
  /** @type {import("./filter.js").RowFilter | null} */
  let meant = null;
  // All rows behind `floor` are here, or are not sent at all: `earlier` of them. `total` counts the messages of the log.
  let floor = 0,
    earlier = 0,
    total = 0,
    sign = "#";
  let ring = 20000,
    log = "lab.log",
    last = 0,
    began = null,
    head = { space: "", members: 0 };
  let following = true,
    paused = false,
    unseen = 0,
    frame = 0,
    paints = 0,
    painted = 0,
    quiet = null;
  let placed = 0,
    moved = 0,
    asking = 0,
    oldest = 1,
    height = HEIGHTS.comfortable;
  let selected = 0,
    wanted = 0,
    anchor = 0,
    picked = new Set(),
    telling = null,
    renewing = null,
    pointing = null,
    sorting = null;
  // The filter that the kernel evaluates: its text and number, and the rows that pass it.
  let fields = [],
    expressed = "",
    expression = 0,
    passing = new Set();
  let hidesPlumbing = true,
    plumbings = 0,
    findings = 0,
    period = null,
    needle = "",
    found = [],
    searching = null,
    me = "";
  /** @type {Pick<import("./cells.js").Fit, "key" | "list">} */
  let fitted = { key: "", list: [] };
  /** @type {Map<number, HTMLTableRowElement>} */
  const lines = new Map();
  /** @type {Map<number, number[]>} */
  const followed = new Map();
  /** @type {[at: number, rows: number][]} */
  const arrivals = [];
  /** @type {Map<number, import("../ui/cancel.js").RunningData>} */
  const running = new Map();
  const cells = cellsOf({
    followed,
    jump,
    look: () => ({ began, me, you, words: needle ? [needle] : [], sign, stop: stopInRow }),
  });

  const sizes = new ResizeObserver(() => paintSoon());
  const link = connect(adapter, root, {
    from: () => last,
    items: {
      snapshot(item) {
        asking = 0;
        ring = item.ring;
        log = item.log ?? log;
        // Nothing arrives in a log of files, and it is saved already.
        for (const button of [pause, save]) button.hidden = item.live === false;
        began = item.began ?? began;
        head = item;
        me = item.me;
        fields = item.fields;
        columns.take(item);
        // The held rows stay: they arrive again, and are ignored. A new log, or a gap, starts over.
        sign = item.sign ?? sign;
        earlier = item.earlier ?? 0;
        if (!(rows.length || held.length) || item.last < last || item.start > last) {
          restart(item.start);
          total = item.count ?? 0;
        } else if (rows.length < ring && floor >= item.oldest)
          link.send({ t: "earlier", view: link.view, upto: floor }); // some were lost
        oldest = rows[0]?.[SEQ] ?? item.oldest;
        takeCalls(item.calls);
        takeFindings(item.findings);
        takeRunning(item.running);
        if (filter.value.trim()) {
          expressed = ""; // the kernel may be another one
          refilter();
        }
        if (wanted && wanted !== pane.seq) ask(wanted);
      },
      rows: take,
      earlier: precede,
      calls: ({ calls }) => takeCalls(calls),
      findings: ({ findings }) => takeFindings(findings),
      running: ({ calls }) => takeRunning(calls),
      head: (item) => (head = item),
      columns: (item) => columns.take(item),
      loading: (item) => kept.item(item),
      raw: showDetail,
      passed(item) {
        if (item.n === expression) takePassed(item);
      },
      unfit(item) {
        if (item.n === expression) refuseFilter(item);
      },
      suggested({ n, texts }) {
        if (n === expression) known.replaceChildren(...texts.map((value) => make("option", { value })));
      },
      finding: (item) => explain(item, ".mew-severity"),
      why: (item) => explain(item, ".mew-verdict, .mew-prefix"),
    },
    settings(settings) {
      const tall = HEIGHTS[settings.density] ?? HEIGHTS.comfortable;
      if (tall !== height) height = tall;
      setPlumbing(settings.hidePlumbing !== false);
      columns.restore(settings.feedColumns ?? {});
      wipe();
      paintSoon();
    },
    done: paintSoon,
    off: () => kept.off(),
  });
  const kept = keptResults(link);
  const pane = detailPane({
    kept: (seq, told) => kept.show(seq, told, { seq }),
    stop: (seq) => stopOf(seq),
    jump,
    nameOf,
    copied,
    key: link.view,
    whole: (seq) => ask(seq, true),
    shut: closeDetail,
    act: (name, choices) => link.act(name, choices),
    idOf: (seq) => rowOf(seq)?.[ID] ?? "",
    async open(part, target) {
      if (!(await openIn(root, part, target)))
        link.notice(`No ${PART_NAMES[part]} on this page shows this message.`, "status");
    },
  });
  root.append(pane.node);
  known.id = `${link.view}-known`;
  filter.setAttribute("list", known.id);

  // Gives the parts of a row that `parts` selects their tooltip.
  function explain({ seq, text }, parts) {
    for (const node of lines.get(seq)?.querySelectorAll(parts) ?? []) node.setAttribute("title", text);
  }

  // A button that names the chosen values of a facet, and shows all of them above the list.
  function opener(name, group) {
    const panel = make("div", { class: "mew-facet-panel", role: "dialog", "aria-label": name }, group.group);
    const value = make("span", { class: "mew-opener-value", text: ": all" });
    const button = make(
      "button",
      {
        class: "mew-opener",
        "aria-label": `${name}: all`,
        "aria-haspopup": "dialog",
        "aria-expanded": "false",
        onclick: () => {
          if (button.mewClosePopover) return void button.mewClosePopover(true);
          group.rank();
          group.paint(slotNow());
          showPopover(panel, button);
        },
      },
      make("span", { text: name }),
      value,
      make("span", { class: "mew-opener-mark", text: " ▾" }),
    );
    return { facet: group, panel, button, value };
  }

  // The name of a participant as the reader knows it. A participant that is called "you" or "gateway" would be taken for
  // the reader, or for the gateway.
  function you(name) {
    const short = name === me ? "you" : name === "system:gateway" ? "gateway" : "";
    return short && !senders.tallies.has(short) ? short : name;
  }

  // The numbers of the rows rise, and have gaps: those of the records between that hold no message.
  function rowOf(seq) {
    let from = 0,
      to = rows.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (rows[middle][SEQ] < seq) from = middle + 1;
      else to = middle;
    }
    return rows[from]?.[SEQ] === seq ? rows[from] : undefined;
  }

  function nameOf(seq) {
    return `${sign}${seq}`;
  }

  function slotNow() {
    return Math.floor(link.now() / SLOT);
  }

  function restart(at) {
    rows = [];
    held = [];
    followed.clear();
    plumbings = findings = 0;
    for (const facet of facets) facet.clear();
    last = floor = at;
    oldest = at + 1;
    unseen = 0;
    sift();
  }

  function take(item) {
    if (item.after > last) {
      // A message was lost: all rows after the last one arrive again.
      if (performance.now() - asking > 1000) {
        asking = performance.now();
        link.ask();
      }
      return;
    }
    const fresh = item.rows.filter((row) => row[SEQ] > last);
    if (!fresh.length) return;
    // Rows between are no longer held: the table would have a gap, so it starts over.
    if (last && item.gap && fresh.length === item.rows.length) restart(fresh[0][SEQ] - 1);
    total = item.count ?? total + fresh.length;
    began ??= fresh[0][TIME];
    last = fresh.at(-1)[SEQ];
    arrivals.push([performance.now(), fresh.length]);
    clearTimeout(quiet);
    quiet = setTimeout(paintSlowly, 1000);
    for (const row of fresh)
      if (row[KIND] === "mcp/proposal" || row[KIND] === "system/error")
        announce(`${row[FROM]}: ${family(row[KIND]).label}: ${row[WHAT]}`);
    if (paused) {
      held.push(...fresh);
      if (held.length > ring) held.splice(0, held.length - ring);
    } else admit(fresh);
  }

  function count(row, by) {
    if (isPlumbing(row)) plumbings += by;
    if (rankOf(row)) findings += by;
    columns.setVacant("finding", !findings);
  }

  function admit(fresh) {
    let more = 0;
    const natural = isNatural(order());
    for (const row of fresh) {
      rows.push(row);
      count(row, 1);
      for (const facet of facets) facet.add(row);
      if (row[ANSWERS] || row[10]?.length) noteAnswer(row);
      if (shown === rows) more += 1;
      else if (matches(row)) {
        if (natural) shown.push(row);
        more += 1;
      }
    }
    if (more && !natural) sortSoon();
    if (more && needle) searchSoon();
    if (!following) unseen += more;
    // Dropped in steps, so that a full table does not shift by one for each row.
    if (rows.length > ring + 500) drop(rows.length - ring);
  }

  // Adds rows before the first one of this view. Rows that arrive twice, or leave a gap, are ignored.
  function precede({ rows: older, after, upto }) {
    if (upto < floor || after >= floor) return;
    const before = floor,
      room = Math.max(0, ring - rows.length);
    const fresh = older.filter((row) => row[SEQ] <= before).slice(room ? -room : older.length);
    floor =
      fresh.length < older.filter((row) => row[SEQ] <= before).length
        ? (fresh[0]?.[SEQ] ?? before + 1) - 1
        : after;
    if (!fresh.length) return;
    for (const row of fresh) {
      count(row, 1);
      for (const facet of facets) facet.add(row);
    }
    const more = shown === rows ? fresh : fresh.filter(matches);
    if (!isNatural(order())) sortSoon();
    else if (shown !== rows) shown.unshift(...more);
    rows.unshift(...fresh);
    for (const row of fresh) if (row[ANSWERS] || row[10]?.length) noteAnswer(row);
    if (needle) searchSoon();
    if (following || !isNatural(order())) return;
    spacer.style.height = `${(shown.length + 1) * height}px`;
    place(scroller.scrollTop + more.length * height);
  }

  function noteAnswer(row) {
    for (const seq of answersOf(row)) {
      if (seq < oldest) continue;
      const answers = followed.get(seq) ?? [];
      const later = answers.findIndex((answer) => answer > row[SEQ]);
      answers.splice(later < 0 ? answers.length : later, 0, row[SEQ]);
      followed.set(seq, answers);
      const cell = lines.get(seq)?.querySelector(".mew-follows");
      if (cell) cells.follows(cell, seq);
    }
    if (pane.concerns(row))
      renewing ??= setTimeout(() => {
        renewing = null;
        refreshDetail();
      }, 250);
  }

  // What became of calls. A row that is not here yet arrives with the state of its call.
  function takeCalls(calls) {
    for (const [seq, ...call] of calls) {
      const row = rowOf(seq) ?? held.find((waiting) => waiting[SEQ] === seq);
      if (!row) continue;
      row[CALL] = call;
      const line = lines.get(seq);
      if (line) refreshLine(line, row);
    }
    if (calls.length && order().by === "took") sortSoon();
  }

  // The calls that run: a row of one has a button that cancels it, where this person may.
  function takeRunning(calls) {
    const before = new Map(running);
    running.clear();
    for (const call of calls) if (call.seq && call.cancel) running.set(call.seq, call);
    for (const seq of new Set([...before.keys(), ...running.keys()])) {
      if (before.get(seq)?.id === running.get(seq)?.id) continue;
      const row = rowOf(seq),
        line = lines.get(seq);
      if (line && row) refreshLine(line, row);
      if (seq === pane.seq) pane.renewStop();
    }
  }

  function stopOf(seq, attributes = {}, ready = () => true) {
    const call = running.get(seq);
    return call
      ? cancelButton(link, call, (sentence) => link.notice(sentence, "status"), attributes, ready)
      : null;
  }

  // New messages move the rows, and a press that was meant for another call cancels none.
  function stopInRow(seq) {
    const button = stopOf(seq, { tabindex: -1, class: "mew-link mew-danger mew-cancel-call" }, () => {
      if (performance.now() - moved >= STILL) return true;
      link.notice(
        "The rows have just moved, so nothing was cancelled. Press Pause first, or open the message.",
        "status",
      );
      return false;
    });
    button?.addEventListener("click", (event) => event.stopPropagation());
    return button;
  }

  // Draws the changing cells of a row anew. The table takes over the focus of what goes with them.
  function refreshLine(line, row) {
    if (holdsFocus(line)) table.focus({ preventScroll: true });
    cells.refresh(line, row, fitted);
  }

  // What the diagnosis finds about rows. A row that is not here yet arrives with its severity.
  function takeFindings(ranks) {
    let kept = 0;
    for (const [seq, rank] of ranks) {
      const here = rowOf(seq),
        row = here ?? held.find((waiting) => waiting[SEQ] === seq);
      if (!row) continue;
      const was = isPlumbing(row);
      if (here) findings += Number(rank > 0) - Number(rankOf(row) > 0);
      setRank(row, rank);
      // A row with which something is wrong is no plumbing any more.
      if (here && was && !isPlumbing(row)) {
        plumbings -= 1;
        kept += 1;
      }
      const line = lines.get(seq);
      if (line) refreshLine(line, row);
      if (seq === pane.seq) refreshDetail();
    }
    columns.setVacant("finding", !findings);
    if (kept && hidesPlumbing) sift();
    if (ranks.length && order().by === "finding") sortSoon();
    if (ranks.length) paintSoon();
  }

  function drop(n) {
    for (const row of rows.slice(0, n)) {
      count(row, -1);
      for (const facet of facets) facet.remove(row);
      followed.delete(row[SEQ]);
      passing.delete(row[SEQ]);
    }
    const before = shown.length;
    rows.splice(0, n);
    oldest = rows[0][SEQ];
    floor = oldest - 1;
    earlier += n;
    if (shown !== rows && !isNatural(order())) shown = shown.filter((row) => row[SEQ] >= oldest);
    else if (shown !== rows) {
      const gone = shown.findIndex((row) => row[SEQ] >= oldest);
      shown.splice(0, gone < 0 ? shown.length : gone);
    }
    // The visible rows stay visible.
    if (!following && isNatural(order())) place(scroller.scrollTop - (before - shown.length) * height);
  }

  // Whether the reader has narrowed the rows; plumbing is hidden besides.
  function isFiltered() {
    return meant !== null || period !== null || facets.some((facet) => facet.chosen.size);
  }

  function passes(row) {
    return (
      facets.every((facet) => facet.has(row)) &&
      (meant === null || meant(row)) &&
      (period === null || (row[TIME] >= period.since && row[TIME] < period.until))
    );
  }

  // Plumbing that the reader asks for is shown: by a word or a kind in the filter, or by its kind in the menu.
  function asksFor(row) {
    return (meant?.asks ?? false) || (families.chosen.size > 0 && !row[KIND].startsWith("mcp/"));
  }

  function matches(row) {
    return (!hidesPlumbing || !isPlumbing(row) || asksFor(row)) && passes(row);
  }

  function sift() {
    moved = performance.now();
    const some = isFiltered() || hidesPlumbing ? rows.filter(matches) : rows;
    shown = isNatural(order()) ? some : sortRows(some, order(), followed);
    wipe();
    if (needle) searchSoon();
  }

  // Sorting is done a few times a second at most. The rows in sight stay where they are.
  function sortSoon() {
    sorting ??= setTimeout(() => {
      sorting = null;
      if (isNatural(order())) return;
      const top = shown[Math.floor(scroller.scrollTop / height)],
        away = scroller.scrollTop % height;
      sift();
      const at = top && !following ? indexOf(top[SEQ]) : -1;
      spacer.style.height = `${(shown.length + 1) * height}px`;
      if (at >= 0) place(at * height + away);
      paintSoon();
    }, 300);
  }

  // The columns have changed: their order, their choice, or their widths.
  function reorder(what) {
    if (what === "order") {
      following = isNatural(order()) || order().by === "seq";
      sift();
      if (!isNatural(order())) place(0);
      const at = selected ? indexOf(selected) : -1;
      if (!following && at >= 0) place(at * height);
    }
    // The lines in the page keep their columns until they are drawn anew.
    fitted = { ...fitted, key: "" };
    paintSoon();
  }

  function suggest() {
    if (isExpression(filter.value, fields)) return;
    const values = {
      from: senders.tallies.keys(),
      to: senders.tallies.keys(),
      kind: new Set(rows.slice(-2000).map((row) => row[KIND])),
      tool: new Set(
        rows
          .slice(-2000)
          .map((row) => row[TOOL])
          .filter(Boolean),
      ),
    };
    known.replaceChildren(...completeFilter(filter.value, values).map((value) => make("option", { value })));
  }

  function refilter() {
    const text = filter.value.trim();
    let reasonText = "";
    if (isExpression(text, fields)) return express(text);
    endExpression();
    try {
      meant = text
        ? compileFilter(text, { now: link.now(), zone: -60 * new Date().getTimezoneOffset() })
        : null;
    } catch (error) {
      meant = null;
      reasonText = `${error.message} Nothing is filtered by it.`;
    }
    filter.setAttribute("aria-invalid", String(Boolean(reasonText)));
    write(reason, reasonText);
    reason.hidden = !reasonText;
    showChoices();
  }

  // Asks the kernel to evaluate a filter. What was filtered before stays until its answer comes.
  function express(text) {
    if (text !== expressed) {
      expressed = text;
      expression += 1;
      link.send({
        t: "filter",
        view: link.view,
        n: expression,
        text,
        zone: -60 * new Date().getTimezoneOffset(),
      });
    }
    showChoices();
  }

  function endExpression() {
    if (!expressed) return;
    expressed = "";
    expression += 1;
    link.send({ t: "filter", view: link.view, n: expression, text: "", zone: 0 });
  }

  // Some rows that pass the filter of the kernel; the first answer to a filter takes the place of the one before.
  function takePassed({ seqs, failed, first }) {
    if (first) {
      passing = new Set();
      const own = passing;
      meant = Object.assign((row) => own.has(row[SEQ]), { asks: true });
      filter.setAttribute("aria-invalid", "false");
      write(reason, "");
      reason.hidden = true;
    }
    for (const seq of failed) passing.delete(seq);
    for (const seq of seqs) passing.add(seq);
    const end = shown.at(-1)?.[SEQ] ?? 0;
    if (!first && !failed.length && isNatural(order()) && seqs.every((seq) => seq > end)) {
      const fresh = seqs.map(rowOf).filter((row) => row && matches(row));
      shown.push(...fresh);
      if (!following) unseen += fresh.length;
      if (fresh.length && needle) searchSoon();
    } else if (first || failed.length || seqs.length) sift();
    paintSoon();
  }

  function refuseFilter({ sentence, start, end }) {
    meant = null;
    const text = [...expressed],
      part = (from, to) => text.slice(from, to).join("");
    filter.setAttribute("aria-invalid", "true");
    reason.replaceChildren(`${sentence} Nothing is filtered by it.`);
    if (end > start)
      reason.append(
        make(
          "bdi",
          { class: "mew-code mew-fault" },
          part(0, start),
          make("mark", { text: part(start, end) }),
          part(end),
        ),
      );
    reason.hidden = false;
    sift();
    paintSoon();
  }

  function showChoices() {
    hint.hidden = true;
    for (const { facet: group, button, value } of openers) {
      const names = [...group.chosen].map(group.nameOf);
      write(
        value,
        names.length ? `: ${names[0]}${names.length > 1 ? ` +${names.length - 1}` : ""}` : ": all",
      );
      button.title = names.join(", ");
      button.setAttribute("aria-label", button.textContent.replace(" ▾", ""));
      button.classList.toggle("mew-chosen", names.length > 0);
    }
    sift();
    paintSoon();
  }

  function unfilter() {
    filter.value = "";
    for (const facet of facets) facet.unchoose();
    setPeriod(null);
    refilter();
  }

  // The time that was chosen in the timeline, as a chip that removes it.
  function setPeriod(chosen) {
    period = chosen;
    span.hidden = !chosen;
    span.replaceChildren();
    if (!chosen) return;
    const text = `${clockTime(chosen.since)} – ${clockTime(chosen.until)}`;
    span.append(
      make("button", {
        class: "mew-chip mew-is-plain",
        text: `${text} ×`,
        title: `${clockHover(chosen.since)} – ${clockHover(chosen.until)}`,
        "aria-label": `Remove the time ${text}`,
        onclick: () => {
          setPeriod(null);
          refilter();
          table.focus({ preventScroll: true });
        },
      }),
    );
  }

  function setPlumbing(hide, keep = false) {
    if (keep) link.setSetting("hidePlumbing", hide);
    if (hide === hidesPlumbing) return;
    hidesPlumbing = hide;
    hint.hidden = true;
    sift();
    paintSoon();
  }

  function setPaused(on) {
    if (paused === on) return;
    paused = on;
    pause.setAttribute("aria-pressed", String(on));
    pause.textContent = on ? "Resume" : "Pause";
    if (!on) {
      const waiting = held;
      held = [];
      admit(waiting);
    }
    paintSoon();
  }

  // --- search ---

  function search() {
    needle = find.value.trim().toLowerCase();
    found = findRows(shown, needle);
    wipe();
    paintSoon();
  }

  function searchSoon() {
    searching ??= setTimeout(() => {
      searching = null;
      found = findRows(shown, needle);
      paintSoon();
    }, 300);
  }

  function goToMatch(back) {
    if (searching) found = findRows(shown, needle);
    const seq = nextMatch(shown, found, selected, back);
    if (seq === null) return;
    following = false;
    choose(seq, pane.open);
  }

  function paintFound() {
    const at = found.indexOf(selected);
    write(
      findCount,
      !needle
        ? ""
        : !found.length
          ? "No match"
          : at < 0
            ? `${groupDigits(found.length)} found`
            : `${groupDigits(at + 1)} of ${groupDigits(found.length)}`,
    );
    for (const button of [previous, next]) button.disabled = !found.length;
    findBox.classList.toggle("mew-searching", Boolean(needle));
  }

  function paintSlowly() {
    // The last minute passes even without arrivals.
    quiet =
      rate() || (rows.length && link.now() - rows.at(-1)[TIME] < (SLOTS + 1) * SLOT)
        ? setTimeout(paintSlowly, 1000)
        : null;
    paintHead();
    paintFacets();
  }

  function rate() {
    const since = performance.now() - 2000;
    while (arrivals.length && arrivals[0][0] < since) arrivals.shift();
    return arrivals.reduce((sum, arrival) => sum + arrival[1], 0) / 2;
  }

  function paintSoon() {
    frame ||= requestAnimationFrame(paint);
  }

  // A position that was set here is no scroll of the reader.
  function place(top) {
    const before = scroller.scrollTop;
    scroller.scrollTop = top;
    placed = scroller.scrollTop;
    if (placed !== before) moved = performance.now();
  }

  // Rows are drawn anew when other columns are shown; widths alone change nothing in them.
  function fitColumns() {
    const fit = columns.fit();
    if (fit.key === fitted.key) return;
    fitted = fit;
    wipe();
  }

  // Removes the lines that are not kept. The table takes over the focus of a removed line.
  function wipe(keep = null) {
    const at = activeOf(root)?.closest("tr");
    for (const [seq, line] of lines) {
      if (keep?.has(seq)) continue;
      if (line === at) table.focus({ preventScroll: true });
      line.remove();
      lines.delete(seq);
    }
  }

  function paint() {
    frame = 0;
    if (!scroller.clientHeight) {
      // The view may be out of the layout (a theme change, a hidden tab): a new observation reports when it is back.
      sizes.unobserve(scroller);
      sizes.observe(scroller);
      return;
    }
    root.dataset.paints = String(++paints);
    root.dataset.last = String(last);
    root.dataset.rows = String(rows.length);
    fitColumns();
    spacer.style.height = `${(shown.length + 1) * height}px`;
    if (following && !paused) place(isNatural(order()) ? spacer.offsetHeight : 0);
    const room = scroller.clientHeight,
      from = Math.max(0, Math.floor(scroller.scrollTop / height) - AROUND);
    const to = Math.min(shown.length, from + Math.ceil(room / height) + 2 * AROUND);
    table.style.top = `${from * height}px`;
    table.setAttribute("aria-rowcount", String(shown.length + 1));
    const keep = new Set();
    for (let n = from; n < to; n++) keep.add(shown[n][SEQ]);
    wipe(keep);
    let next = body.firstChild;
    for (let n = from; n < to; n++) {
      const row = shown[n];
      let line = lines.get(row[SEQ]);
      if (!line) {
        line = draw(row);
        lines.set(row[SEQ], line);
      }
      setAttribute(line, "aria-rowindex", n + 2);
      if (line === next) next = next.nextSibling;
      else body.insertBefore(line, next);
    }
    painted = Math.max(painted, last);
    paintEmpty();
    paintHead();
    paintFacets();
  }

  function paintFacets() {
    for (const { facet: group, panel } of openers) if (panel.isConnected) group.paint(slotNow());
  }

  let emptiness = "";
  function paintEmpty() {
    const only = rows.length > 0 && !isFiltered();
    const now = shown.length ? "" : !rows.length ? "nothing" : only ? `plumbing ${plumbings}` : "filtered";
    empty.hidden = !now;
    if (now === emptiness) return;
    emptiness = now;
    if (now === "nothing")
      empty.replaceChildren(
        emptyState("No messages yet. Everything that participants say appears here.", {
          code: 'lab.chat("hello")',
        }),
      );
    else if (only)
      empty.replaceChildren(
        emptyState(`Nothing but plumbing yet: ${countOf(plumbings, "message")} hidden.`, {
          action: { text: "Show them", run: () => setPlumbing(false, true) },
        }),
      );
    else if (now)
      empty.replaceChildren(
        emptyState("No message matches the filter.", {
          action: {
            text: "Clear the filter",
            run: () => {
              unfilter();
              filter.focus();
            },
          },
        }),
      );
  }

  function paintHead() {
    header.setCounts([
      { text: head.space },
      { text: countOf(head.members, "participant") },
      { text: countOf(total, "message") },
      { text: rateText(rate()), hover: "Messages per second" },
    ]);
    const waiting = paused ? held.length : unseen;
    follow.classList.toggle("mew-away", following && !paused);
    write(follow, waiting ? `${groupDigits(waiting)} new ▾` : "Newest ▾");
    copyAs.classList.toggle("mew-away", !picked.size);
    clear.classList.toggle("mew-away", !filter.value && !isFiltered());
    write(plumbing, `${hidesPlumbing ? "✓ " : ""}Hide plumbing (${groupDigits(plumbings)})`);
    plumbing.setAttribute("aria-pressed", String(hidesPlumbing));
    const parts = [];
    if (isFiltered()) parts.push(`${groupDigits(shown.length)} of ${countOf(rows.length, "message")}`);
    if (picked.size > 1)
      parts.push(`${groupDigits(picked.size)} selected: ${log.replace(/\.log$/, "")}.view.feed.selection`);
    if (rows.length && (floor || earlier))
      parts.push(`Messages before ${nameOf(rows[0][SEQ])}: ${log}.df, ${log}.filter(…)`);
    write(note, parts.join(" · "));
    paintFound();
  }

  function draw(row) {
    const { name } = family(row[KIND]);
    const line = make("tr", {
      id: `${link.view}-${row[SEQ]}`,
      "data-seq": row[SEQ],
      "aria-selected": String(picked.has(row[SEQ])),
      class: `mew-is-${name}${isDenied(row) ? " mew-denied" : ""}${isFailure(row) ? " mew-failed" : ""}${following && row[SEQ] > painted ? " mew-new" : ""}${row[SEQ] === selected ? " mew-active" : ""}`,
    });
    cells.fill(line, row, fitted);
    line.addEventListener("click", (event) => {
      if (event.shiftKey) select(row[SEQ], "range");
      else if (event.ctrlKey || event.metaKey) select(row[SEQ], "toggle");
      else choose(row[SEQ], true);
    });
    return line;
  }

  function indexOf(seq) {
    return shown.findIndex((row) => row[SEQ] === seq);
  }

  function select(seq, how) {
    if (how === "toggle") {
      if (!picked.delete(seq)) picked.add(seq);
      anchor = seq;
    } else if (how === "range") {
      const a = indexOf(anchor),
        b = indexOf(seq);
      const [from, to] = a < 0 ? [b, b] : [Math.min(a, b), Math.max(a, b)];
      picked = new Set(shown.slice(from, to + 1).map((row) => row[SEQ]));
    } else {
      picked = new Set([seq]);
      anchor = seq;
    }
    lines.get(selected)?.classList.remove("mew-active");
    selected = seq;
    lines.get(selected)?.classList.add("mew-active");
    for (const [seq, line] of lines) line.setAttribute("aria-selected", String(picked.has(seq)));
    table.setAttribute("aria-activedescendant", `${link.view}-${seq}`);
    telling ??= setTimeout(() => {
      telling = null;
      link.send({ t: "select", view: link.view, seqs: [...picked] });
    }, 100);
    paintSoon();
  }

  function choose(seq, open = false, how = "one") {
    const n = indexOf(seq);
    if (n < 0) return;
    hint.hidden = true;
    select(seq, how);
    bringIntoSight(n);
    if (n < shown.length - 1 && isNatural(order())) following = false;
    if (open || pane.open) ask(seq);
  }

  function bringIntoSight(n) {
    const top = n * height,
      room = scroller.clientHeight - 2 * height;
    if (top < scroller.scrollTop) {
      following = false;
      place(top);
    } else if (top > scroller.scrollTop + room) place(top - room);
  }

  // Goes to a row; where it is not in the table, the hint says why, and offers a remedy.
  function jump(seq) {
    if (indexOf(seq) >= 0) {
      choose(seq, pane.open);
      return table.focus({ preventScroll: true });
    }
    const waits = held.some((row) => row[SEQ] === seq),
      hidden = rowOf(seq);
    const [sentence, does, act] = waits
      ? [`${nameOf(seq)} waits until you resume.`, "Resume and go there", () => setPaused(false)]
      : hidden && passes(hidden)
        ? [
            `${nameOf(seq)} is hidden as plumbing.`,
            "Show plumbing and go there",
            () => setPlumbing(false, true),
          ]
        : hidden
          ? [`${nameOf(seq)} is filtered out.`, "Clear the filter and go there", unfilter]
          : [`${nameOf(seq)} is no longer held in this view; lab.log.df has it.`];
    hint.replaceChildren(make("span", { text: sentence }));
    if (does)
      hint.append(
        make("button", {
          text: does,
          onclick: () => {
            act();
            reach(seq);
            choose(seq, pane.open);
            table.focus({ preventScroll: true });
          },
        }),
      );
    hint.hidden = false;
  }

  // Clears what hides a row; returns a sentence about it, or nothing.
  function reach(seq) {
    const row = rowOf(seq),
      cleared = [];
    if (!row || indexOf(seq) >= 0) return "";
    if (!passes(row)) {
      unfilter();
      cleared.push("The filter was cleared");
    }
    if (indexOf(seq) < 0) {
      setPlumbing(false);
      cleared.push("Plumbing is shown");
    }
    return `${cleared.join(" and ")}, so that ${nameOf(seq)} is in sight.`;
  }

  // A link from another part: to a message by its id or number, to the messages of a time, or to those of a filter.
  function showTarget({ id, seq = 0, since, until, filter: wanted }) {
    if (wanted !== undefined) {
      unfilter();
      filter.value = wanted;
      refilter();
      table.focus({ preventScroll: true });
      return true;
    }
    if (since !== undefined) {
      unfilter();
      setPeriod({ since, until });
      refilter();
      following = false;
      place(0);
      return true;
    }
    if (paused && held.some((row) => row[ID] === id || row[SEQ] === seq)) setPaused(false);
    const row = rows.find((row) => (id ? row[ID] === id : row[SEQ] === seq));
    if (!row) return false;
    const sentence = reach(row[SEQ]);
    if (root.getClientRects().length) paint();
    choose(row[SEQ], true);
    table.focus({ preventScroll: true });
    hint.replaceChildren(make("span", { text: sentence }));
    hint.hidden = !sentence;
    return true;
  }
  const endOffer = onOpen(root, "feed", showTarget);

  async function copySelected(form) {
    const done = await link.act("copy", { form, seqs: [...picked] });
    if (done) await copied.copy(done.value, done.said, copyAs);
  }

  function ask(seq, all = false) {
    wanted = seq;
    link.send({ t: "raw", view: link.view, seq, all });
  }

  // Updates the opened row after a new answer, unless another row was requested.
  function refreshDetail() {
    if (pane.open && wanted === pane.seq) link.send({ t: "raw", view: link.view, seq: wanted, all: false });
  }

  function showDetail(item) {
    // Another row was requested since, or the pane was closed before its text arrived.
    if (item.seq !== wanted) return;
    const row = rowOf(item.seq),
      opens = !pane.open;
    pane.show({ ...item, row, of: row ? answersOf(row) : [] });
    // The pane takes room from the table, and must not hide the row that it is about.
    if (opens && indexOf(item.seq) >= 0) bringIntoSight(indexOf(item.seq));
  }

  function closeDetail() {
    wanted = 0;
    pane.shut();
    table.focus({ preventScroll: true });
  }

  // The menu of a cell: its value as a filter. With Shift the browser shows its own menu.
  async function takeCondition(seq, column, join) {
    const before = filter.value;
    const done = await link.act("condition", { seq, column });
    // What was typed since the click is newer than the answer.
    if (!done?.value || filter.value !== before) return;
    filter.value = join(done.value);
    refilter();
    table.focus({ preventScroll: true });
  }

  function showCellMenu(line, cell, column) {
    const seq = Number(line.dataset.seq),
      at = cell.getBoundingClientRect(),
      within = root.getBoundingClientRect();
    const anchor = make("span", {
      class: "mew-menu-anchor",
      role: "button",
      "aria-label": `Filter by ${column.title}`,
    });
    anchor.style.left = `${at.left - within.left}px`;
    anchor.style.top = `${at.bottom - within.top}px`;
    root.append(anchor);
    const text = filter.value.trim();
    openMenu(
      anchor,
      [
        {
          text: "Apply as filter",
          about: `Only messages with this value: ${column.title}`,
          run: () => takeCondition(seq, column.name, (condition) => condition),
        },
        ...(text
          ? [
              {
                text: "Add to the filter",
                about: "Of the messages that pass now, those with this value",
                run: () => takeCondition(seq, column.name, (condition) => joinFilters(text, condition)),
              },
            ]
          : []),
        {
          text: "Exclude",
          about: "Leaves out the messages with this value",
          run: () => takeCondition(seq, column.name, (condition) => joinFilters(text, `not (${condition})`)),
        },
      ],
      { back: table, closed: () => anchor.remove() },
    );
  }

  table.addEventListener("contextmenu", (event) => {
    if (event.shiftKey) return;
    // The key of the menu has no cell: it means what the selected message says.
    const target = /** @type {HTMLElement} */ (event.target),
      byKey = target === table;
    const line = byKey
      ? lines.get(selected)
      : /** @type {HTMLTableRowElement | null} */ (target.closest("tbody tr"));
    const cell = byKey ? (line?.querySelector(".mew-what") ?? line?.cells[0]) : target.closest("td");
    const column =
      line && cell && fitted.list[[...line.cells].indexOf(/** @type {HTMLTableCellElement} */ (cell))];
    if (!column) return;
    event.preventDefault();
    event.stopPropagation();
    showCellMenu(line, cell, column);
  });

  // The reason of a verdict, or the sentence of a finding, is requested when the mouse rests on it.
  body.addEventListener("mouseover", (event) => {
    const cell = event.target.closest?.(".mew-verdict, .mew-prefix, .mew-severity");
    clearTimeout(pointing);
    if (cell && !cell.title)
      pointing = setTimeout(
        () =>
          link.send({
            t: cell.matches(".mew-severity") ? "finding" : "why",
            view: link.view,
            seq: Number(cell.closest("tr").dataset.seq),
          }),
        120,
      );
  });

  scroller.addEventListener("scroll", () => {
    if (Math.abs(scroller.scrollTop - placed) < 1) return;
    placed = -1;
    following = isNatural(order())
      ? scroller.scrollTop + scroller.clientHeight >= spacer.offsetHeight - 2
      : order().by === "seq" && scroller.scrollTop <= 2;
    if (following) unseen = 0;
    paintSoon();
  });

  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && (pane.open || wanted)) {
      event.preventDefault();
      return closeDetail();
    }
    if (event.target === find && event.key === "Enter") return goToMatch(event.shiftKey);
    if (event.target !== table) return;
    const box = { "/": filter, f: find }[event.key];
    if (box && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      return box.focus();
    }
    const at = indexOf(selected),
      end = shown.length - 1;
    const page = Math.max(1, Math.floor(scroller.clientHeight / height) - 2);
    const to = {
      ArrowDown: at + 1,
      ArrowUp: at < 0 ? end : at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: end,
    }[event.key];
    if (event.key === "Enter" && at >= 0) ask(selected);
    // The arrow keys go to the row that this one answers, and to its answer.
    const [named] =
      at < 0
        ? []
        : event.key === "ArrowLeft"
          ? answersOf(shown[at])
          : event.key === "ArrowRight"
            ? (followed.get(selected) ?? [])
            : [];
    if (named) {
      event.preventDefault();
      return jump(named);
    }
    if (event.key === " " && at >= 0) {
      event.preventDefault();
      select(selected, "toggle");
    }
    if (to === undefined || end < 0) return;
    event.preventDefault();
    choose(shown[Math.min(end, Math.max(0, to))][SEQ], false, event.shiftKey ? "range" : "one");
  });

  sizes.observe(scroller);
  return () => {
    sizes.disconnect();
    for (const timer of [quiet, telling, renewing, pointing, sorting, searching]) clearTimeout(timer);
    cancelAnimationFrame(frame);
    endOffer();
    kept.end();
    link.end();
  };
}

export default { render };
