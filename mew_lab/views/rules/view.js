// The rules of a person, by their state, each with its evidence; the words that she reads before she adopts one; and a field
// for a sentence of her own, which the kernel reads while it is written.

import { connect } from "../ui/connection.js";
import {
  announcer,
  atHand,
  doer,
  holdsFocus,
  keepKeys,
  make,
  onEscape,
  setAttribute,
  turnOff,
  write,
} from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { makeHeader } from "../ui/header.js";
import { openIn } from "../ui/links.js";
import { keyedRows, makeTable } from "../ui/tables.js";
import { capitalize, clockHover, clockTime } from "../ui/text.js";
import { makeToaster } from "../ui/toast.js";
import { makeReadCard } from "./read_card.js";

const SECTIONS = {
  active: [
    "Active",
    "These approve calls. Some of the calls that they cover wait for you all the same, unannounced.",
  ],
  paused: ["Paused", "Another participant decided otherwise. These approve nothing until you look."],
  suspended: ["Suspended", "These approve nothing until you adopt them again."],
  expired: ["Expired", "These approve nothing until you adopt them again."],
  shadow: ["Judging in silence", "These approve nothing. It is counted how often you decide as they would."],
  candidate: ["Suggested", "Nothing acts by these."],
};
const EXAMPLE = "When coder asks files to run read_file with path below docs/, and nothing else: approve";
const CONDITIONS =
  "Conditions: path docs/a.md or docs/b.md · path below docs/ · path below docs/ ending in .md · path ending in .md · url in domain example.org · to at example.org · bytes from 1 to 2000 · note a text of at most 300 characters · query any text · limit any number. No argument: with nothing: approve";
const WRITE_PAUSE = 250; // ms

/**
 * A rule as a row, from widget.py, or the heading of those of a state.
 * @typedef {object} RuleData
 * @property {string} key
 * @property {string} state
 * @property {number} [number]
 * @property {string} [word] the state in words
 * @property {number} [rank]
 * @property {string} [text]
 * @property {string} [why]
 * @property {string} [about]
 * @property {boolean} [heading]
 */
/**
 * The nodes of a row; of a heading the first two alone. `open` is what its drawer holds.
 * @typedef {{ node: HTMLElement, data: RuleData, name?: HTMLElement, text?: HTMLElement, about?: HTMLElement, why?: HTMLElement, acts?: HTMLElement,
 *   look?: HTMLButtonElement, drawer?: HTMLElement, open?: string, end?: () => void }} RuleRow
 */

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-rules", "aria-label": "Rules" });
  const header = makeHeader({
    title: "Rules",
    keys: [["Esc", "Close the words of a rule, its evidence, or the field for a sentence"]],
  });
  const opener = make("button", {
    class: "mew-new",
    text: "Write a rule…",
    "aria-expanded": "false",
    onclick: () => (form ? closeForm() : openForm()),
  });
  header.actions.append(opener);
  const notes = make("div", { class: "mew-rule-notes", role: "status" });
  const place = make("div", { class: "mew-form-place" });
  const list = make("div", {
    class: "mew-rule-list",
    role: "region",
    tabindex: 0,
    "aria-label": "The rules",
  });
  const empty = emptyState("", { action: { text: "Write a rule…", run: () => openForm() } });
  root.append(header.node, notes, place, list, empty);
  list.hidden = empty.hidden = true;
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root),
    toast = makeToaster(root);

  /** @type {Map<string, RuleData>} */
  const known = new Map();
  const listed = keyedRows(list, {
    keyOf: (/** @type {RuleData} */ { key }) => key,
    build,
    fill,
    left(row, focused) {
      row.end?.();
      if (focused) opener.focus();
    },
  });
  let head = { space: "", counts: [], total: 0, notes: [], ready: false },
    most = 4000,
    checks = 0,
    timer = null;
  /** @type {ReturnType<typeof makeForm> | null} */
  let form = null;
  const link = connect(adapter, root, {
    from: () => 0,
    items: {
      snapshot(item) {
        most = item.most;
        known.clear();
        for (const data of item.rows) known.set(data.key, data);
        setHead(item);
        arrange();
      },
      rows(item) {
        for (const key of item.gone) known.delete(key);
        for (const data of item.rows) known.set(data.key, data);
        arrange();
      },
      head: setHead,
    },
    done: paint,
  });

  function setHead({ space, counts, total, notes, ready }) {
    head = { space, counts, total, notes, ready };
  }

  // The rows in their order, those of each state below its heading.
  function arrange() {
    const sorted = [...known.values()].sort((a, b) => a.rank - b.rank || a.number - b.number);
    const shown = sorted.flatMap((data, n) =>
      data.state === sorted[n - 1]?.state
        ? [data]
        : [{ key: `the ${data.state} ones`, state: data.state, heading: true }, data],
    );
    listed.show(shown);
  }

  /** @type {(data: RuleData) => RuleRow} */
  function build(data) {
    if (data.heading) {
      const [title, about] = SECTIONS[data.state];
      const node = make(
        "div",
        { class: "mew-rule-section" },
        make("div", { class: "mew-rule-title", role: "heading", "aria-level": 3, text: title }),
        make("div", { class: "mew-dim", text: about }),
      );
      return { node, data };
    }
    const row = /** @type {RuleRow} */ ({
      name: make("span", { class: "mew-rule-number mew-num" }),
      text: make("bdi", { class: "mew-rule-text" }),
      about: make("bdi", { class: "mew-rule-about mew-dim" }),
      why: make("bdi", { class: "mew-rule-why" }),
      acts: make("div", { class: "mew-rule-acts" }),
      drawer: make("div", { class: "mew-rule-drawer" }),
      open: "",
    });
    row.look = doer("Evidence ▸", () => turnEvidence(row), {
      class: "mew-quiet mew-rule-evidence",
      "aria-expanded": "false",
    });
    row.node = make(
      "article",
      { class: "mew-rule", tabindex: -1 },
      make("div", { class: "mew-rule-line" }, row.name, row.text, row.acts),
      make("div", { class: "mew-rule-line" }, row.why, row.about, row.look),
      row.drawer,
    );
    onEscape(row.drawer, () => shut(row));
    return row;
  }

  /** @type {(row: RuleRow, was: RuleData | undefined) => void} */
  function fill(row, was) {
    const { data } = row;
    if (data.heading) return;
    write(row.name, `Rule ${data.number}`);
    write(row.text, data.text, data.text);
    write(row.about, data.about);
    write(row.why, data.why ? `${data.why}.` : "");
    row.why.hidden = !data.why;
    setAttribute(row.node, "data-state", data.state);
    setAttribute(row.node, "aria-label", `Rule ${data.number}, ${data.word}: ${data.text}`);
    setAttribute(row.look, "aria-label", `Evidence of rule ${data.number}`);
    if (was?.state === data.state) {
      if (row.open === "evidence" && was.about !== data.about && !holdsFocus(row.drawer)) showEvidence(row);
      return;
    }
    // What can be done with it is another thing now: its words or its evidence were those of before.
    const focused = holdsFocus(row.node);
    if (row.open) shut(row, false);
    row.acts.replaceChildren(...actsOf(row));
    if (focused && !holdsFocus(row.node)) row.node.focus({ preventScroll: true });
  }

  // The buttons of a row. What stops comes first where something acts.
  /** @type {(row: RuleRow) => HTMLElement[]} */
  function actsOf(row) {
    const { key, number, state } = row.data;
    const named = (text, run, more = {}) =>
      doer(text, run, { "aria-label": `${text} Rule ${number}`, ...more });
    const stop = (text) =>
      named(text, () => perform(row, "stop", key), {
        class: "mew-rule-stop",
        "aria-label": `${text}: rule ${number}`,
      });
    const attempt = () =>
      named("Try", () => perform(row, "try", key), { title: "It judges in silence and approves nothing." });
    const adopt = (text) => named(text, () => openWords(row, "adopted"), { class: "mew-rule-adopt" });
    const edit = () =>
      make("button", {
        class: "mew-quiet",
        text: "Edit…",
        "aria-label": `Edit rule ${number}`,
        onclick: () => openForm(row.data),
      });
    if (state === "active") return [stop("Stop this rule")];
    if (state === "paused") return [named("Look…", () => openWords(row, "looked")), stop("Stop this rule")];
    if (state === "shadow") return [stop("Stop trying"), adopt("Adopt…")];
    if (state === "candidate") return [edit(), attempt(), adopt("Adopt…")];
    return [edit(), attempt(), adopt("Adopt again…")];
  }

  async function perform(row, act, rule) {
    const done = act === "try" ? await link.act("try", { rule }) : await link.act("stop", { rule });
    if (done) toast(done.said);
  }

  // --- the drawer of a row: its evidence, or its words ---

  /** @type {(row: RuleRow, back?: boolean) => void} */
  function shut(row, back = true) {
    const opened = row.open,
      focused = atHand(row.drawer);
    row.end?.();
    row.end = undefined;
    row.open = "";
    row.drawer.replaceChildren();
    write(row.look, "Evidence ▸");
    setAttribute(row.look, "aria-expanded", "false");
    if (!focused || !back) return;
    const act = row.acts.querySelector(".mew-rule-adopt") ?? row.acts.querySelector("button");
    const to = opened === "evidence" ? row.look : act;
    /** @type {HTMLElement} */ (to ?? row.node).focus({ preventScroll: true });
  }

  async function turnEvidence(row) {
    if (row.open === "evidence") return shut(row);
    if (row.open) shut(row, false);
    await showEvidence(row);
  }

  async function showEvidence(row) {
    const done = await link.act("evidence", { rule: row.data.key });
    if (!done || !row.node.isConnected || row.open === "words") return;
    const { rows, more, sign } = done.value;
    row.open = "evidence";
    write(row.look, "Evidence ▾");
    setAttribute(row.look, "aria-expanded", "true");
    row.drawer.replaceChildren(
      rows.length
        ? decisionTable(rows, sign, { label: `Evidence of rule ${row.data.number}`, more })
        : make("div", { class: "mew-dim", text: "No decision on such a call is in this log." }),
    );
    announce(done.said);
  }

  function decisionTable(rows, sign, { label, more }) {
    const body = make(
      "tbody",
      {},
      ...rows.map((one) =>
        make(
          "tr",
          one.against ? { class: "mew-against" } : {},
          make(
            "td",
            { class: "mew-num" },
            make("button", {
              class: "mew-to-row",
              text: `${sign}${one.seq}`,
              "aria-label": `Show ${sign}${one.seq} in the messages`,
              onclick: () => showInFeed({ seq: one.seq }),
            }),
          ),
          make("td", { class: "mew-num", text: clockTime(one.t), title: clockHover(one.t) }),
          make("td", { text: `${one.against ? "✕ " : ""}${one.what}` }),
          make("td", { class: "mew-code", dir: "ltr" }, make("bdi", { text: one.values })),
        ),
      ),
    );
    const all = make("button", {
      class: "mew-quiet mew-rule-in-feed",
      text: "Show in the messages",
      onclick: () => showInFeed({ filter: `seq in (${rows.map((one) => one.seq).join(", ")})` }),
    });
    return make(
      "div",
      { class: "mew-rule-past" },
      make(
        "div",
        { class: "mew-rule-scroll", role: "region", tabindex: 0, "aria-label": label },
        makeTable(["#", "Time", "Decision", "Arguments"], body, { "aria-label": label }),
      ),
      make(
        "div",
        { class: "mew-rule-line" },
        all,
        ...(more ? [make("span", { class: "mew-dim", text: `and ${more} more` })] : []),
      ),
    );
  }

  async function showInFeed(target) {
    if (!(await openIn(root, "feed", target)))
      link.notice("No list of messages on this page shows these messages; lab.view.feed is one.", "status");
  }

  /** @type {(row: RuleRow, step: "adopted" | "looked") => Promise<void>} */
  async function openWords(row, step) {
    if (row.open) shut(row, false);
    const card = await readWords(row.data.key, step, {
      close: () => shut(row),
      // The row moves when its new state arrives.
      done: () => row.node.focus({ preventScroll: true }),
    });
    if (!card || !row.node.isConnected) return card?.end();
    row.open = "words";
    row.end = card.end;
    row.drawer.replaceChildren(card.node);
    card.focus();
  }

  // The words of a rule as a card; null where the kernel has none.
  async function readWords(rule, step, { close, done }) {
    const read = await link.act("read", { view: link.view, rule });
    if (!read) return null;
    return makeReadCard({
      words: read.value,
      step,
      root,
      table: decisionTable,
      isOff: link.isOff,
      announce,
      close,
      tellSeen: (digest) => link.act("in_sight", { view: link.view, rule, digest }),
      async read() {
        const again = await link.act("read", { view: link.view, rule });
        return again?.value ?? null;
      },
      async confirm(digest, tell) {
        const told = await link.act("confirm", { step, view: link.view, rule, digest }, tell);
        if (!told) return false;
        toast(told.said);
        done();
        close();
        return true;
      },
    });
  }

  // --- a sentence of one's own ---

  function makeForm(base) {
    const label = base ? `Edit rule ${base.number}` : "Write a rule";
    const text = make("textarea", {
      rows: 3,
      class: "mew-code",
      "aria-label": "The rule as a sentence",
      spellcheck: "false",
      dir: "ltr",
      maxlength: most,
      placeholder: EXAMPLE,
      oninput: () => check(WRITE_PAUSE),
    });
    text.value = base?.text ?? "";
    const answer = make("div", { class: "mew-answer", "aria-live": "polite" }),
      drawer = make("div", { class: "mew-rule-drawer" });
    const attempt = doer("Try", () => tryWritten(), { class: "mew-rule-try" });
    const adopt = doer("Adopt…", () => adoptWritten(), { class: "mew-rule-adopt" });
    const box = make(
      "div",
      { class: "mew-ask", role: "group", "aria-label": label },
      make("div", { class: "mew-rule-title", text: label }),
      text,
      answer,
      make("div", { class: "mew-dim", text: CONDITIONS }),
      make(
        "div",
        { class: "mew-rule-line" },
        make("span", { class: "mew-gap" }),
        make("button", { text: "Cancel", onclick: () => closeForm() }),
        attempt,
        adopt,
      ),
      drawer,
    );
    onEscape(box, () => (form?.end ? shutWords() : closeForm()));
    return {
      base,
      box,
      text,
      answer,
      drawer,
      attempt,
      adopt,
      rule: "",
      end: /** @type {(() => void) | null} */ (null),
    };
  }

  /** @type {(base?: RuleData) => void} */
  function openForm(base) {
    form?.end?.();
    form = makeForm(base);
    place.replaceChildren(form.box);
    setAttribute(opener, "aria-expanded", "true");
    paint();
    check(0);
    form.text.focus();
  }

  function closeForm() {
    clearTimeout(timer);
    checks += 1;
    const { base } = form,
      focused = atHand(place);
    form.end?.();
    form = null;
    place.replaceChildren();
    setAttribute(opener, "aria-expanded", "false");
    paint();
    if (focused) (listed.rows.get(base?.key)?.node ?? opener).focus();
  }

  function check(after) {
    clearTimeout(timer);
    checks += 1;
    form.rule = "";
    turnOff(form.attempt, true);
    turnOff(form.adopt, true);
    if (form.end) shutWords(false);
    if (form.text.value.trim()) timer = setTimeout(showChecked, after);
    else form.answer.replaceChildren();
  }

  async function showChecked() {
    const mine = checks,
      text = form.text.value;
    const done = form.base
      ? await link.act("check", { text, base: form.base.key })
      : await link.act("check", { text });
    if (mine !== checks || !form || !done?.value) return;
    const { fault, rule, tested, beyond, remark, state, bound, tries, adopts } = done.value;
    if (fault)
      return form.answer.replaceChildren(make("div", { class: "mew-no" }, make("bdi", { text: fault })));
    const lines = [
      make("div", { class: "mew-says", text: `Understood. In this log: ${tested}.` }),
      ...(beyond
        ? [
            make("div", {
              class: "mew-no",
              text: `It covers more than rule ${form.base.number}: ${beyond} beside those.`,
            }),
          ]
        : []),
      ...(remark ? [make("div", { class: "mew-no" }, make("bdi", { text: `${capitalize(remark)}.` }))] : []),
      ...(bound
        ? []
        : [
            make("div", {
              class: "mew-no",
              text: "Its tool is not listed here, so it cannot be tried; lab.tools() asks for the tools.",
            }),
          ]),
      ...(state ? [make("div", { class: "mew-dim", text: `There is this rule already: ${state}.` })] : []),
    ];
    form.answer.replaceChildren(...lines);
    form.rule = rule;
    turnOff(form.attempt, !tries);
    turnOff(form.adopt, !adopts);
  }

  async function tryWritten() {
    const done = form.rule && (await link.act("try", { rule: form.rule }));
    if (!done) return;
    toast(done.said);
    if (form) closeForm();
  }

  async function adoptWritten() {
    const { rule } = form;
    if (!rule) return;
    if (form.end) shutWords(false);
    const card = await readWords(rule, "adopted", { close: () => shutWords(), done: () => closeForm() });
    if (!card || !form || form.rule !== rule) return card?.end();
    form.end = card.end;
    form.drawer.replaceChildren(card.node);
    card.focus();
  }

  function shutWords(back = true) {
    if (!form) return;
    const focused = atHand(form.drawer);
    form.end?.();
    form.end = null;
    form.drawer.replaceChildren();
    if (focused && back) form.adopt.focus();
  }

  function paint() {
    header.setCounts([
      { text: head.space },
      ...head.counts
        .filter(([, n]) => n)
        .map(([state, n, word]) => ({
          text: `${n} ${word}`,
          hover: SECTIONS[state][1],
          tone: state === "active" ? "good" : state === "paused" || state === "suspended" ? "wait" : "",
        })),
    ]);
    notes.replaceChildren(
      ...head.notes.map((text) => make("div", { class: "mew-no" }, make("bdi", { text }))),
    );
    notes.hidden = !head.notes.length;
    empty.hidden = known.size > 0 || form !== null;
    list.hidden = !known.size;
    write(
      empty.querySelector(".mew-empty-text"),
      head.ready
        ? "No rule is suggested yet. Decide some calls that are alike, or write one by hand."
        : "Learning from what you have decided…",
    );
    root.dataset.rows = String(known.size);
  }

  return () => {
    clearTimeout(timer);
    form?.end?.();
    for (const row of listed.rows.values()) row.end?.();
    link.end();
  };
}

export default { render };
