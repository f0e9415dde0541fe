// One card with its faces: the proposal, the form for its arguments, an edit, a grant. The content of a face never changes,
// and an approval carries the digest of that content. The button of a face arms when it stood still and in sight, all folded
// values were opened, all of the content was in sight, and the kernel has confirmed since when.

import { hostWords } from "../ui/adapter.js";
import { copyButton } from "../ui/copy.js";
import {
  ARMING,
  activeOf,
  doer,
  holdsFocus,
  isOff,
  make,
  onEscape,
  sureDoer,
  turnOff,
  write,
} from "../ui/elements.js";
import { schemaForm } from "../ui/form.js";
import { openIn } from "../ui/links.js";
import { menuButton } from "../ui/menu.js";
import {
  PATTERN_HELP,
  capitalize,
  clockHover,
  clockTime,
  countOf,
  groupDigits,
  shorten,
} from "../ui/text.js";
import { foundOut } from "./found_out.js";
import { markRange, partOf, readerOf } from "../ui/reading.js";

const SHORT = 40;
const ALL_THE_SAME = "Approve all the same";
const UNSAID = "disagree"; // the reason of a rejection without words
const SIGNS = {
  fulfilled: "◌",
  rejected: "✕",
  withdrawn: "–",
  done: "✓",
  unknown: "?",
  resolved: "✓",
  lapsed: "–",
};

/**
 * An argument as a row, from `argument` of model.py. `folded` is the size of a value whose text is only its beginning, `last`
 * the comparison with the last call, and `how` that of an edit with the proposal.
 * @typedef {{ pointer: string, name: string, text: string, key: string, routine: boolean, what?: string, folded?: string, inside?: string, last?: [how: string, value: string], how?: string }} Argument
 */
/**
 * The permission of an agent, from `permission_data` of model.py; without options nothing of it can be chosen. `about` says
 * what a choice means, `rejection` what a rejection means.
 * @typedef {{ id: string, name: string, about: string, tone: string, isDefault: boolean }} Option
 * @typedef {{ question: string, options: Option[], rejection: string, foot: string }} Permission
 */
/**
 * A card as the kernel gives it, from `card_data` of model.py.
 * @typedef {object} CardData
 * @property {string} id sent back with a decision, as is `digest`
 * @property {number} seq
 * @property {string} digest
 * @property {string} short the digest, shortened
 * @property {string} name the id, shortened
 * @property {string} proposer
 * @property {string} from the whole id of the proposer
 * @property {string[]} to
 * @property {string} method
 * @property {string} tool
 * @property {Argument[]} arguments
 * @property {string[]} gone arguments of the last call that this one does not have
 * @property {number} unmet how many requests for it were refused for lack of a quorum; each makes a new card
 * @property {string} shape equal for similar calls
 * @property {any[]} warnings
 * @property {string} refusal
 * @property {string[]} notices sentences about the card as a whole, which change while it is open
 * @property {string} review who else looks at it and who said yes, while it is open
 * @property {boolean} cancelled whether its client has cancelled it, so that it cannot be approved now
 * @property {string} rejected who rejected it, while it is not withdrawn and was read; then a second press approves it, also where it is decided
 * @property {{ path: string, why: string, stated: string } | null} [file] the file that the call would write, why its old content is not known, and who states its change
 * @property {string} why
 * @property {number} since
 * @property {string} state "reading", "open", "deciding", or what was decided
 * @property {string} about
 * @property {string[]} hints
 * @property {string} readOnly
 * @property {string} [history] what was decided on calls like it
 * @property {string} decision
 * @property {string} by
 * @property {number | null} at
 * @property {number | null} onScreen
 * @property {string} outcome
 * @property {import("../ui/kept.js").Kept | null} [kept] the result, where it was too large for a message
 * @property {boolean} failed
 * @property {string} sent
 * @property {string} call
 * @property {Permission | null} [permission]
 * @property {{sha256: string, name: string, text: string} | null} [rule] the rule that approved it
 * @property {CardData} [decided] what a rejected card is, while this page shows it in full once more
 */

/** @type {(data: CardData) => boolean} */
export function isOpen(data) {
  return data.state === "open" || data.state === "deciding";
}

// The addressees, as the kernel gives them: shortened and counted. A row has all of them.
/** @type {(data: Pick<CardData, "to">) => string} */
export function whomOf(data) {
  return data.to.length ? data.to.join(", ") : "anybody";
}

/** @type {(data: Pick<CardData, "proposer" | "to" | "tool" | "method" | "permission">) => string} */
export function sentence(data) {
  if (data.permission) return `${data.proposer} asks for permission: ${data.permission.question}`;
  return `${data.proposer} wants to run ${data.tool || data.method} on ${whomOf(data)}`;
}

/** @type {(data: CardData) => HTMLElement} */
export function titleOf(data) {
  const line = make("span", { class: "mew-says" });
  if (data.permission) {
    line.append(
      make("bdi", { class: "mew-who", text: data.proposer }),
      " asks for permission: ",
      make("bdi", { text: data.permission.question }),
    );
    return line;
  }
  line.append(
    make("bdi", { class: "mew-who", text: data.proposer }),
    " wants to run ",
    make("bdi", { class: "mew-tool mew-code", text: data.tool || data.method }),
  );
  if (data.tool && data.method !== "tools/call")
    line.append(make("span", { class: "mew-dim", text: ` (${data.method})` }));
  return line;
}

// The second line: where it runs, what the tool says of itself, and `more`.
/** @type {(data: CardData, ...more: (Node | string)[]) => HTMLElement} */
export function aboutOf(data, ...more) {
  const line = make("div", { class: "mew-sub" });
  if (!data.permission)
    line.append(make("span", {}, "on ", make("bdi", { class: "mew-target-name", text: whomOf(data) })));
  if (data.about)
    line.append(
      make("bdi", { class: "mew-about", title: "How the tool describes itself", text: `“${data.about}”` }),
    );
  for (const hint of data.hints ?? [])
    line.append(
      make("span", {
        class: `mew-hint-${hint.split(" ")[0]} mew-tag`,
        title: "By the tool's own word (annotations)",
        text: hint,
      }),
    );
  line.append(...more);
  return line;
}

// A long name of a proposer is cut in the title and is in no row, so it must be opened here.
/** @type {(data: CardData, face: any) => HTMLElement[]} */
export function titleFolds(data, face) {
  if ([...data.from].length <= SHORT) return [];
  const text = make("div", { class: "mew-text mew-code", hidden: true });
  face.closed.add("proposer");
  const open = make("button", {
    class: "mew-open",
    text: `Expand the proposer's name (${groupDigits(data.from.length)} characters) to approve`,
    onclick: () => {
      text.hidden = false;
      face.closed.delete("proposer");
      showWhole(face, text, data.from, open, "proposer");
    },
  });
  return [make("div", { class: "mew-fold" }, text, open)];
}

function place(node) {
  const box = node.getBoundingClientRect();
  return `${Math.round(box.left)},${Math.round(box.top)}`;
}

function inSight(node, around) {
  if (document.hidden) return false;
  const box = node.getBoundingClientRect();
  if (!box.width) return false;
  // A page knows of a shadow tree its host alone.
  const tree = /** @type {Document | ShadowRoot} */ (around.getRootNode());
  const hit = tree.elementFromPoint?.(box.left + box.width / 2, box.top + box.height / 2);
  return around.contains(hit ?? null);
}

// Whether the kernel says that a row needs no reading. Such a row is sent like every other, and is shown on request.
/** @type {(argument: Argument) => boolean} */
export function isRoutine(argument) {
  return Boolean(argument.routine && (argument.how ?? "same") === "same");
}

// What such a row is, in words, before its place in the request.
/** @type {(argument: Argument) => string} */
function routineName(argument) {
  return make(
    "th",
    { scope: "row" },
    `${argument.what} `,
    make("span", { class: "mew-code mew-dim", dir: "ltr", text: argument.name }),
  );
}

function routineFold(routine, names) {
  if (!names.length) return [];
  return [foldButton(`Also sent: ${names.join(", ")}`, () => !(routine.hidden = !routine.hidden))];
}

// A button that shows or hides something: `turn()` does it, and returns whether it is shown now.
/** @type {(text: string, turn: () => boolean, more?: string) => HTMLButtonElement} */
export function foldButton(text, turn, more = "") {
  const button = make("button", {
    class: `mew-routine ${more}`.trim(),
    "aria-expanded": "false",
    text: `${text} ▸`,
    onclick: () => {
      const on = turn();
      button.setAttribute("aria-expanded", String(on));
      write(button, `${text} ${on ? "▾" : "▸"}`);
    },
  });
  return button;
}

// The reason why the button is not armed yet; it describes the button for screen readers.
let hints = 0;
function hintOf() {
  hints += 1;
  return make("span", { class: "mew-hint", id: `mew-hint-${hints}-${Math.floor(performance.now())}` });
}

export function faceOf(card, name, digest) {
  const node = make("div", { class: `mew-face mew-face-${name}` });
  return {
    card,
    name,
    digest,
    node,
    closed: new Set(),
    cells: new Map(),
    others: [],
    watch: [],
    reported: null,
    since: null,
    hint: hintOf(),
    still: performance.now(),
    rect: null,
  };
}

// The parts that must have been in sight before an approval: the title, the content of the face and of its base.
function requiredParts(face) {
  return [...(face.card.top?.watch ?? []), ...(face.base?.watch ?? []), ...face.watch];
}

export function lookAt(face, known) {
  if (document.hidden) return;
  const around = face.card.node,
    box = around.getBoundingClientRect(),
    clip = known.get("pane");
  if (
    !box.width ||
    box.bottom < clip.top ||
    box.top > clip.bottom ||
    around.checkVisibility?.({ opacityProperty: true, visibilityProperty: true }) === false
  )
    return;
  // A card that is drawn at less than half its size cannot be read.
  if (box.width < around.offsetWidth / 2 || (around.currentCSSZoom ?? 1) < 0.5) return;
  for (const part of requiredParts(face)) if (!part.done) part.look(known, around);
}

// The parts that were not in sight yet, as a sentence; empty when there are none.
function describeUnseen(face) {
  const all = requiredParts(face),
    left = all.filter((part) => !part.done);
  if (!left.length) return "";
  const long = left.find((part) => part.says);
  return long
    ? long.says()
    : `Scroll to review all of it (${all.length - left.length} of ${countOf(all.length, "part")} seen)`;
}

function describeClosed(face) {
  const names = [...face.closed].map((index) => face.cells.get(index)?.name).filter(Boolean);
  const what = names.length ? `“${shorten(names[0], 24)}”` : "what is cut",
    more = face.closed.size + (face.card.top?.closed.size ?? 0) - 1;
  return `Expand ${what}${more > 0 ? ` and ${more} more` : ""} to approve`;
}

// The buttons that approve: one, or one for each option.
function approvers(face) {
  return face.options ?? (face.primary ? [face.primary] : []);
}

// The place of the first approving button, and whether one of them is in sight.
export function locateButton(face) {
  const [first = face.card.node, ...more] = approvers(face);
  return { here: place(first), seen: [first, ...more].some((node) => inSight(node, face.card.node)) };
}

// Arms the button when it stood still and in sight for half a second, so that a click hits what the reader saw, and when
// the kernel says that it may be approved: a further card takes the time to read it. Meanwhile the button fills.
export function arm(face, { here, seen } = locateButton(face)) {
  const buttons = approvers(face);
  if (!buttons.length && !face.others.length) return;
  const card = face.card,
    now = performance.now(),
    base = face.base ?? face;
  if (here !== face.rect || !seen) {
    face.rect = here;
    face.still = now;
  }
  const still_ = ARMING - (now - Math.max(face.still, base.since ?? now)),
    left = Math.max(still_, (base.ready ?? 0) - now);
  let hint = "",
    still = "";
  if (card.desk?.isOff()) hint = hostWords.off;
  else if (card.spoilt) hint = "Cannot be decided here";
  else if (card.sent) hint = now - card.sent < 3000 ? "Sending…" : hostWords.sent;
  else if (card.data?.refusal) hint = "Cannot be approved";
  else if (card.data?.cancelled) hint = "Cancelled by its client";
  else if (face.closed.size || card.top?.closed.size) hint = describeClosed(face);
  else if ((still = face.needs?.() || describeUnseen(face))) hint = still;
  else if (left > 0 && !base.since && base.reported && now - base.reported > 1000) hint = hostWords.confirms;
  write(face.hint, hint);
  face.hint.title = hint;
  fill(face, hint ? 0 : left, now);
  // Announced where the keyboard focus is, and not for each tenth of a second.
  if (still !== face.said && holdsFocus(card.node)) card.desk.announce(still || "All of it was in sight.");
  face.said = still;
  for (const button of face.others)
    turnOff(button, still_ > 0 || card.sent || card.spoilt || card.desk?.isOff());
  for (const button of buttons) turnOff(button, hint !== "" || left > 0);
}

// The button fills while it arms; its tooltip tells a longer time.
function fill(face, left, now) {
  if (left <= 0) face.filling = null;
  else face.filling ??= { from: now, until: now + left };
  if (face.filling) face.filling.until = now + left;
  const part = face.filling
      ? (now - face.filling.from) / Math.max(1, face.filling.until - face.filling.from)
      : 0,
    shown = `${Math.round(Math.min(1, part) * 100)}%`;
  const says = left > 600 ? `Ready in ${Math.ceil(left / 1000)} s: the time to read what is new` : "";
  for (const button of approvers(face)) {
    if (button.style.getPropertyValue("--mew-armed") !== shown)
      button.style.setProperty("--mew-armed", shown);
    if (button.title !== says) button.title = says;
  }
}

export function rearm(face) {
  face.still = performance.now();
  arm(face);
}

// A button that decides. It needs a real press while it is armed, and must not have moved since the press began.
export function decider(face, text, run, attributes) {
  const { key, ...rest } = attributes;
  const button = make("button", { text, "aria-disabled": "true", "aria-describedby": face.hint.id, ...rest });
  if (key) button.append(" ", make("kbd", { "aria-hidden": true, "data-key": key }));
  let pressed = null;
  button.addEventListener("pointerdown", () => {
    pressed = place(button);
  });
  button.addEventListener("click", (event) => {
    const moved = event.detail > 0 && pressed !== place(button);
    arm(face);
    if (!event.isTrusted || moved || isOff(button)) return;
    run();
  });
  return button;
}

// Whether this press is the second one, which approves what somebody has rejected; the first one says what the next does.
// `card` is a card or a table of them, `button` the one that was pressed.
export function insists(card, button = card.face.primary) {
  const face = card.face;
  if (face.asked === button) return true;
  unask(face); // of another option
  const was = { text: button.firstChild.textContent, label: button.getAttribute("aria-label") };
  // Another rejection, or other rows: what was asked about is not what would be sent.
  face.forgetAsked = () => {
    face.asked = null;
    button.firstChild.textContent = was.text;
    if (was.label) button.setAttribute("aria-label", was.label);
    else button.removeAttribute("aria-label");
  };
  face.asked = button;
  const all = face.options ? `${was.text} all the same` : ALL_THE_SAME;
  button.firstChild.textContent = all;
  button.setAttribute("aria-label", `${all}: ${card.says}`);
  card.desk.announce(`Not approved yet: ${card.says}. A second press approves it all the same.`);
  rearm(face);
  return false;
}

function unask(face) {
  if (face.asked) face.forgetAsked();
}

// A form for the reason: a field with the focus, and the usual reasons beneath it. Enter, or a press on a reason, rejects at
// once; the second press of a double click does not. A click opens it once the button is armed, the key at any time: what is
// typed next must not be taken for keys that decide. `run` gets the reason.
export function rejecter(face, text, reasons, run, attributes) {
  const field = make("input", {
    type: "text",
    maxlength: 500,
    placeholder: "Why, or what to do instead",
    "aria-label": "Why it is rejected, or what to do instead",
  });
  const reject = (event, reason) => {
    if (event.isTrusted && !isBarred()) run(reason);
  };
  const isBarred = () => Boolean(face.card.sent || face.card.spoilt || face.card.desk.isOff());
  const send = make("button", {
    class: "mew-danger mew-reject-words",
    text: "Reject",
    onclick: (event) => !isOff(send) && reject(event, field.value.trim() || UNSAID),
  });
  const turn = (on) => {
    place.hidden = !on;
    button.setAttribute("aria-expanded", String(on));
    (on ? field : button).focus();
  };
  const chips = make("div", { class: "mew-chips", role: "group", "aria-label": "Usual reasons" });
  const cancel = make("button", { class: "mew-quiet", text: "Cancel", onclick: () => turn(false) });
  const place = make("div", { class: "mew-words", hidden: true }, field, send, cancel, chips);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.repeat || event.isComposing) return;
    event.preventDefault();
    reject(event, field.value.trim() || UNSAID);
  });
  onEscape(place, () => turn(false));
  const open = () => {
    if (isBarred()) return;
    turnOff(send, true);
    setTimeout(() => turnOff(send, false), ARMING);
    chips.replaceChildren(
      ...describeReasons(reasons()).map(({ code, text, about }) =>
        sureDoer(text, (event) => reject(event, code), { title: about }),
      ),
    );
    turn(true);
  };
  const button = make("button", {
    text,
    "aria-disabled": "true",
    "aria-expanded": "false",
    "aria-describedby": face.hint.id,
    ...attributes,
    onclick: (event) => {
      arm(face);
      if (!event.isTrusted) return;
      if (!place.hidden) turn(false);
      else if (!isOff(button)) open();
    },
  });
  button.append("…", make("kbd", { "aria-hidden": true, "data-key": "R" }));
  return { button, place, open };
}

// The usual reasons in words, each with its meaning.
/** @type {(reasons: [code: string, meaning: string][]) => { code: string, text: string, about: string }[]} */
export function describeReasons(reasons) {
  return reasons
    .filter(([code]) => code !== "other")
    .map(([code, meaning]) => ({ code, text: capitalize(code.replaceAll("_", " ")), about: meaning }));
}

// What the line of a decided card leaves out: the addressees, and the digest of what was decided.
/** @type {(data: Pick<CardData, "proposer" | "to" | "tool" | "method" | "permission" | "digest">) => string} */
export function describePast(data) {
  return `${sentence(data)}\nDigest: sha-256 ${data.digest}`;
}

// The warnings as elements; a warning with a place is a button that calls `go`.
export function warnings(list, go) {
  return list.map((warning) => {
    const sentence = make("bdi", { text: capitalize(warning.text) });
    const what =
      warning.row === undefined
        ? sentence
        : make(
            "button",
            { class: "mew-goto", title: "Show the place in the text", onclick: () => go(warning) },
            sentence,
          );
    return make("div", { class: "mew-warning" }, make("span", { "aria-hidden": true, text: "⚠ " }), what);
  });
}

// The gravest warning as a box that leads to its place, and all others as one line, which opens.
export function warningBox(face, list) {
  const go = goIn(face),
    [box] = warnings(list.slice(0, 1), go),
    more = list.slice(1);
  if (!box) return [];
  watchNode(face, box);
  if (!more.length) return [box];
  const kinds = [...new Set(more.map(({ kind }) => kind))].join(", "),
    lines = make(
      "div",
      { hidden: true },
      ...warnings(more, go).map((line) => {
        line.className = "mew-hintline";
        line.firstChild.remove();
        return line;
      }),
    ),
    opener = foldButton(`${countOf(more.length, "hint")}: ${kinds}`, () => !(lines.hidden = !lines.hidden));
  watchNode(face, opener);
  return [box, make("div", { class: "mew-hints" }, opener, lines)];
}

export function spot(cell, warning) {
  const hit = warning.end > warning.start ? markRange(cell.text, warning.start, warning.end) : null;
  if (cell.reader) cell.reader.remark = () => markRange(cell.text, warning.start, warning.end);
  cell.text.tabIndex = cell.text.classList.contains("mew-whole") ? 0 : -1;
  (hit ?? cell.text).scrollIntoView({ block: "center" });
  cell.text.focus({ preventScroll: true });
}

// Goes to the place of a warning; a folded value is opened first, and the place is shown when its text has arrived.
export function goIn(face) {
  return (warning) => {
    const cell = face.cells.get(warning.row);
    if (!cell) return;
    if (!cell.open) return spot(cell, warning);
    cell.goal = warning;
    cell.open.click();
  };
}

export function watchNode(face, node) {
  face.watch.push(partOf(node));
  return node;
}

export function nameCell(face, name) {
  return make(
    "th",
    { scope: "row", class: "mew-code", dir: "ltr" },
    watchNode(face, make("span", { class: "mew-name", text: name })),
  );
}

// The button that asks for all of a folded value.
/** @type {(argument: Argument, ask: () => void) => HTMLButtonElement} */
export function expandButton(argument, ask) {
  const text = `Expand all ${argument.folded} to approve`;
  const button = make("button", {
    class: "mew-open",
    text,
    "aria-label": `${text}: ${shorten(argument.name)}`,
    onclick: () => {
      button.textContent = "Loading…";
      ask();
    },
  });
  return button;
}

// The value of an argument. A folded value is requested when the reader opens it, which an approval requires.
function valueParts(face, argument, index, routine = isRoutine(argument)) {
  const text = make("div", { class: "mew-text", text: argument.text });
  const cell = { text, open: null, name: argument.name, reader: null, goal: null };
  const parts = [text];
  if (argument.folded) {
    face.closed.add(index);
    cell.open = expandButton(argument, () =>
      face.card.desk.link.send({ t: "value", id: face.card.data.id, digest: face.digest, index }),
    );
    parts.push(cell.open);
  } else if (!routine) watchNode(face, text);
  face.cells.set(index, cell);
  if (!argument.folded && face.name === "front") parts.push(copyButton(() => text.textContent, "Copy", text));
  return parts;
}

// Shows the whole text in place of its beginning; the focus of its button moves there. All of it must be seen.
export function showWhole(face, text, whole, open, name) {
  const focused = holdsFocus(open);
  const read = readerOf(text, name, whole);
  if (text.getClientRects().length) read.cut();
  else write(text, whole);
  text.classList.add("mew-whole");
  text.tabIndex = 0;
  text.setAttribute("role", "region");
  text.setAttribute("aria-label", `All of ${shorten(name)}`);
  if (!text.clientHeight || text.scrollHeight > text.clientHeight + 1) text.after(readerBar(text, read));
  open?.remove();
  face.watch.push(read);
  if (focused) text.focus({ preventScroll: true });
  return read;
}

// The buttons under a long text: the next part that was not in sight yet, and the view at full height.
export function readerBar(text, read) {
  const tall = make("button", {
    class: "mew-height",
    "aria-expanded": "false",
    text: "Open full view",
    onclick: () => {
      const now = text.classList.toggle("mew-tall");
      tall.setAttribute("aria-expanded", String(now));
      write(tall, now ? "Close full view" : "Open full view");
      text.scrollIntoView({ block: "nearest" });
    },
  });
  const next = make("button", { class: "mew-next", text: "Next unseen part", onclick: () => read.next() }),
    count = make("span", { class: "mew-num" });
  read.onProgress = (text, done) => {
    write(count, text);
    turnOff(next, done);
  };
  return make(
    "div",
    { class: "mew-readbar" },
    count,
    tall,
    next,
    copyButton(() => text.textContent, "Copy", text),
  );
}

export function expandValue(face, index, text) {
  const cell = face.cells.get(index);
  if (!cell || cell.reader) return;
  cell.reader = showWhole(face, cell.text, text, cell.open, cell.name);
  if (cell.covered) face.watch = face.watch.filter((part) => part !== cell.reader);
  cell.open = null;
  face.closed.delete(index);
  if (cell.goal) spot(cell, cell.goal);
  rearm(face);
}

function lastValueCell(argument) {
  const [how, was] = argument.last;
  if (how === "same") return make("td", { class: "mew-last mew-dim", text: "= last time" });
  if (how === "new") return make("td", { class: "mew-last", text: "≠ not there last time" });
  return make(
    "td",
    { class: "mew-last" },
    "≠ last time: ",
    make("bdi", { class: "mew-code", dir: "ltr", text: was }),
  );
}

function frontFace(card) {
  const { data, desk } = card,
    face = faceOf(card, "front", data.digest);
  const body = make("tbody"),
    routine = make("tbody"),
    warned = new Set(data.warnings.map((warning) => warning.row));
  data.arguments.forEach((argument, index) => {
    // What a warning is about stands in sight.
    const usual = isRoutine(argument) && !warned.has(index);
    const row = make(
      "tr",
      {},
      usual ? routineName(argument) : nameCell(face, argument.name),
      make("td", { class: "mew-value mew-code", dir: "ltr" }, ...valueParts(face, argument, index, usual)),
    );
    if (argument.inside)
      row.lastChild.append(
        make("span", {
          class: "mew-inside",
          title: "A folder that you gave to its server",
          text: argument.inside,
        }),
      );
    if (argument.last) row.append(lastValueCell(argument));
    if (!usual && !warned.has(index)) face.cells.get(index).row = row;
    (usual ? routine : body).append(row);
  });
  face.node.append(...warningBox(face, data.warnings));
  if (!body.childNodes.length && !data.permission)
    face.node.append(make("div", { class: "mew-dim", text: "no arguments" }));
  face.node.append(make("table", { class: "mew-arguments", "aria-label": "Arguments" }, body));
  for (const gone of data.gone)
    face.node.append(
      make("div", { class: "mew-why" }, "last time also: ", make("bdi", { class: "mew-code", text: gone })),
    );
  if (data.file) face.node.append(fileNode(card, face));
  if (data.history)
    face.node.append(watchNode(face, make("div", { class: "mew-why" }, make("bdi", { text: data.history }))));
  if (data.why)
    face.node.append(
      watchNode(face, make("div", { class: "mew-why" }, "why: ", make("bdi", { text: data.why }))),
    );
  if (data.permission) return permissionParts(card, face, routine);
  const reject = rejecterOf(card, face);
  face.primary = decider(face, "Approve", () => desk.decide(card, "approve", { digest: data.digest }), {
    class: "mew-approve mew-primary",
    key: "A",
    "aria-label": `Approve: ${card.says}`,
  });
  const line = (face.line = make("div", { class: "mew-buttons" }, reject?.button ?? leaver(card)));
  if (desk.more())
    line.append(
      make("button", {
        class: "mew-edit mew-quiet",
        text: "Edit",
        "aria-label": `Edit before approving: ${card.says}`,
        onclick: (event) => event.isTrusted && editFace(card),
      }),
    );
  if (!data.to.length) {
    card.picker = make("select", {
      class: "mew-target",
      "aria-label": "Who runs it",
      onchange: () => rearm(face),
    });
    const needs = face.needs;
    face.needs = () => (card.picker.value ? (needs?.() ?? "") : "Choose who runs it");
    desk.offer(card.picker);
  }
  line.append(make("span", { class: "mew-gap" }));
  if (card.picker) line.append(card.picker);
  const split = make("span", { class: "mew-split" }, face.primary);
  if (desk.more()) {
    face.allow = menuButton("▾", () => allowItems(card), {
      class: "mew-allow mew-primary",
      "aria-label": `Approve and allow: ${card.says}`,
      title: "Approve and allow…",
      hidden: Boolean(data.rejected),
    });
    split.append(face.allow);
  }
  line.append(split);
  face.node.append(detailsOf(card, routine, face.hint), ...(reject ? [reject.place] : []), line);
  return face;
}

// The rejection of a card; null where it was rejected already.
function rejecterOf(card, face) {
  const { data, desk } = card;
  card.rejecter = data.decided
    ? null
    : rejecter(face, "Reject", desk.reasons, (reason) => desk.decide(card, "reject", { reason }), {
        class: "mew-reject mew-danger",
        "aria-label": `Reject: ${card.says}`,
      });
  face.others = card.rejecter ? [card.rejecter.button] : [];
  return card.rejecter;
}

function leaver(card) {
  return make("button", {
    class: "mew-leave",
    text: "Leave it rejected",
    "aria-label": `Leave it rejected: ${card.says}`,
    onclick: () => card.desk.leave(card),
  });
}

// The end of the card of an agent that asks: a button for each of its options, in its words and its order, each with what
// a choice means. The key A presses the only one that allows it once, and none where there is no such one.
function permissionParts(card, face, routine) {
  const { data, desk } = card,
    { options, rejection, foot } = data.permission,
    says = (option) => `${option.name}: ${card.says}`;
  const group = make("div", {
    class: "mew-options",
    role: "group",
    tabindex: -1,
    "aria-label": `Options of ${data.proposer}, in its words`,
  });
  face.options = options.map((option) => {
    const about = hintOf();
    about.className = "mew-option-about";
    write(about, option.about);
    const button = decider(
      face,
      option.name,
      () => desk.decide(card, "approve", { option: option.id, button }),
      {
        class: `mew-option mew-option-${option.tone}${option.isDefault ? " mew-primary" : ""}`,
        dir: "auto",
        ...(option.isDefault ? { key: "A" } : {}),
        "aria-label": says(option),
        "aria-describedby": `${about.id} ${face.hint.id}`,
      },
    );
    group.append(make("div", { class: "mew-option-row" }, watchNode(face, button), watchNode(face, about)));
    return button;
  });
  // Where no button is the one of the key, it leads to all of them.
  face.press = () => {
    const at = options.findIndex((option) => option.isDefault);
    if (at >= 0)
      return isOff(face.options[at])
        ? undefined
        : desk.decide(card, "approve", { option: options[at].id, button: face.options[at] });
    if (!options.length) return desk.announce("Nothing of it can be chosen; it can be rejected.");
    group.focus();
    desk.announce(`Choose one of its ${options.length} options: no single one of them allows it once.`);
  };
  const reject = rejecterOf(card, face);
  face.line = make("div", { class: "mew-buttons" }, reject?.button ?? leaver(card));
  face.line.append(watchNode(face, make("span", { class: "mew-dim", text: `Reject: ${rejection}` })));
  face.node.append(
    ...(options.length ? [group] : []),
    watchNode(face, make("div", { class: "mew-foot mew-why" }, make("bdi", { text: foot }))),
    detailsOf(card, routine, face.hint),
    ...(reject ? [reject.place] : []),
    face.line,
  );
  return face;
}

const LINES = { "-": "del", "+": "ins", "…": "i" };

// What the call would change in a file. It is asked for when the card is first shown in full, and anew when the file was
// changed since; nothing of it is kept. The value that it shows whole need not be opened.
function fileNode(card, face) {
  const { path, why, stated } = card.data.file,
    head = make("div", { class: "mew-filehead" }, "writes ", make("bdi", { class: "mew-code", text: path })),
    node = make("div", { class: "mew-file", role: "group", "aria-label": "The file" }, head);
  if (why) {
    head.append(make("span", { class: "mew-dim", text: ` · ${why}` }));
    watchNode(face, head);
    return node;
  }
  let state = "new",
    watched = [],
    unfold = () => {};
  const body = make("div", { class: "mew-filebody" });
  node.append(body);
  const tell = (text, ...more) => body.replaceChildren(make("span", { class: "mew-dim", text }), ...more);
  const watch = (part) => {
    face.watch.push(part);
    watched.push(part);
  };
  if (stated) head.append(make("span", { class: "mew-dim", text: ` · ${stated}` }));
  tell("Its content is not compared yet.");
  face.needs = () => (state === "done" ? "" : "Wait for what would change in the file");
  face.file = {
    async ask() {
      if (state !== "new") return;
      state = "asked";
      tell(stated ? "Comparing what it states…" : "Comparing with the file as it is now…");
      const { id, digest } = card.data,
        answer = await card.desk.act(card, "old_file", { id, digest, view: card.desk.link.view });
      if (card.front !== face || state !== "asked") return;
      if (!answer) {
        tell(
          "It was not compared. ",
          doer("Compare again", () => face.file.renew(), { class: "mew-compare" }),
        );
        state = "failed";
      } else draw(answer.value);
      rearm(face);
    },
    renew() {
      unfold();
      face.watch = face.watch.filter((part) => !watched.includes(part));
      watched = [];
      state = "new";
      return face.file.ask();
    },
  };
  function draw({ files, covers }) {
    state = "done";
    body.replaceChildren();
    head.hidden = true;
    for (const file of files) drawFile(file);
    const cells = [];
    for (const index of covers) {
      face.closed.delete(index);
      const cell = face.cells.get(index);
      if (cell?.open) write(cell.open, cell.open.textContent.replace(/ to approve$/, ""));
      if (cell?.row) cells.push(cell);
    }
    if (cells.length) fold(cells);
  }
  // The difference stands in the place of the values that it shows whole: they are folded below it, and need not be seen.
  function fold(cells) {
    const rows = make("tbody"),
      table = make("table", { class: "mew-arguments", "aria-label": "Shown above" }, rows),
      names = cells.map(({ name }) => shorten(name)).join(", "),
      folded = make(
        "details",
        { class: "mew-covered" },
        make("summary", { text: `${names} as sent` }),
        table,
      ),
      left = face.watch.filter((part) => cells.some(({ row }) => row.contains(part.node)));
    for (const cell of cells) cell.covered = true;
    // Where the file is compared anew, they come back until that is done.
    const places = cells.map(({ row }) => {
      const place = document.createComment("");
      row.replaceWith(place);
      rows.append(row);
      return () => place.replaceWith(row);
    });
    face.watch = face.watch.filter((part) => !left.includes(part));
    node.append(folded);
    unfold = () => {
      for (const back of places) back();
      folded.remove();
      face.watch.push(...left);
      for (const cell of cells) {
        cell.covered = false;
        if (cell.reader && !left.includes(cell.reader)) face.watch.push(cell.reader);
      }
      unfold = () => {};
    };
  }
  function drawFile({ place, counts, rows, why, about }) {
    const line = make(
      "div",
      { class: "mew-filehead" },
      "writes ",
      make("bdi", { class: "mew-code", text: place }),
      ...counts.map((text) => make("b", { class: "mew-num", text })),
    );
    body.append(line);
    watch(partOf(line));
    const same = counts.length && !rows.length && !why ? "Nothing would change in it." : why;
    if (same) {
      body.append(make("div", { class: "mew-filewhy", text: capitalize(same) }));
      watch(partOf(body.lastChild));
    }
    if (rows.length) {
      const text = make("div", {
          class: "mew-text mew-code mew-whole mew-filediff",
          dir: "ltr",
          tabindex: 0,
          role: "region",
          "aria-label": `What would change in ${shorten(place)}`,
        }),
        lines = rows.map(([sign, line]) => `${sign} ${line}`).join("\n"),
        read = readerOf(text, place, lines, (sign) => LINES[sign] ?? "span");
      read.cut();
      body.append(text);
      if (rows.length > 16) text.after(readerBar(text, read));
      watch(read);
    }
    const lock = make("div", { class: "mew-filelock", text: capitalize(about) });
    body.append(lock);
    watch(partOf(lock));
  }
  return node;
}

// Ways to approve that also allow later requests. Each shows first what it would allow.
function allowItems(card) {
  const tool = card.data.tool || card.data.method,
    items = [
      {
        text: "Approve alike calls for this session",
        about: `${card.data.proposer} may run ${tool} with these arguments and no others until the lab goes down`,
        run: () => grantFace(card, { scope: "values", limit: "this session" }),
      },
      {
        text: "Approve and allow for this session",
        about: `${card.data.proposer} may run ${tool} with any arguments until the lab goes down`,
        run: () => grantFace(card, { scope: "any", limit: "this session" }),
      },
    ];
  if (card.data.readOnly)
    items.push({
      text: `Always allow read-only tools of ${card.data.readOnly}`,
      about: "for 1 h, unless you choose another limit",
      run: () => grantFace(card, { scope: "read-only", limit: "1 h" }),
    });
  items.push({
    text: "Approve and allow…",
    about: "choose what, how often and for how long",
    run: () => grantFace(card),
  });
  return items;
}

// What is rarely needed: what else is sent, the digest, the id, and the ways to other parts. The hint of the card stands
// beside the button, in room that is there anyway.
function detailsOf(card, routine, hint) {
  const { data } = card,
    digest = make("span", {
      class: "mew-digest mew-code",
      title: `sha-256 ${data.digest}`,
      text: data.short,
    });
  const go = (part, target, text) =>
    make("button", {
      class: "mew-quiet mew-link-to",
      text,
      onclick: async () => {
        if (!(await openIn(card.node.closest(".mew"), part, target)))
          card.desk.say(
            card,
            `No view in this page shows it. When no cell waits, %mew ${part} in a new one does.`,
          );
      },
    });
  const also = routine.childNodes.length
    ? [
        make("div", { text: "Also sent:" }),
        make("table", { class: "mew-arguments mew-also", "aria-label": "Also sent" }, routine),
      ]
    : [];
  const body = make(
    "div",
    { class: "mew-details", hidden: true },
    ...also,
    make(
      "div",
      {},
      "Digest ",
      digest,
      copyButton(() => data.digest, "Copy digest", digest),
    ),
    make(
      "div",
      {},
      "Proposal ",
      make("span", { class: "mew-code", text: data.name }),
      copyButton(() => data.id, "Copy id"),
    ),
    make(
      "div",
      { class: "mew-links" },
      go("feed", { id: data.id }, "Show in messages"),
      go("timeline", { id: data.id }, "Show in timeline"),
      go("reasoning", { id: data.id }, "Show its reasoning"),
    ),
  );
  const open = foldButton("Details", () => !(body.hidden = !body.hidden), "mew-details-open");
  return make("div", { class: "mew-more" }, open, hint, body);
}

function show(card, face) {
  const focused = holdsFocus(card.node);
  if (card.face !== card.front) card.face.node.remove();
  card.face = face;
  // A grant approves the proposal too, so the proposal stays in sight.
  card.front.node.hidden = face !== card.front && face.base !== card.front;
  card.front.line.hidden = card.front.hint.hidden = face !== card.front;
  if (face !== card.front) card.notice.before(face.node);
  card.notice.hidden = true;
  rearm(face);
  if (!focused) return;
  if (face === card.front) card.node.focus();
  else (face.first ?? face.head).focus();
}

function addHeading(face, text, ...more) {
  face.head = make(
    "div",
    { class: "mew-facehead", role: "heading", "aria-level": 3, tabindex: -1 },
    make("b", { text }),
    ...more,
  );
  face.node.append(face.head);
}

function back(card) {
  return make("button", { class: "mew-back", text: "Back", onclick: () => show(card, card.front) });
}

function requireRunner(card) {
  if (!card.picker || card.picker.value) return false;
  card.desk.say(card, "Choose who runs it first.");
  return true;
}

async function editFace(card) {
  if (requireRunner(card) || card.sent) return;
  // A form that was left keeps its values.
  if (card.form) return show(card, card.form);
  const answer = await card.desk.act(card, "form", { id: card.data.id });
  if (!answer || !isOpen(card.data)) return;
  const face = faceOf(card, "edit", ""),
    fields = [];
  card.form = face;
  addHeading(face, "Change the arguments");
  if (answer.value.plan) return showSchemaForm(card, face, answer.value);
  for (const [index, field] of answer.value.fields.entries()) {
    const area = make("textarea", {
      class: "mew-code",
      dir: "ltr",
      spellcheck: "false",
      "aria-label": `${field.name}${field.isText ? ", text" : ", JSON"}`,
      rows: Math.min(10, Math.max(1, field.text.split("\n").length)),
    });
    area.value = field.text;
    const argument = { index, isText: field.isText, area, was: area.value, removed: false };
    const drop = make("button", {
      text: "Remove",
      "aria-label": `Remove ${field.name}`,
      onclick: () => {
        argument.removed = !argument.removed;
        write(drop, argument.removed ? "Keep" : "Remove");
        drop.setAttribute("aria-label", `${drop.textContent} ${field.name}`);
        area.disabled = argument.removed;
      },
    });
    fields.push(argument);
    const hint = [
      field.isText ? "text" : "JSON",
      field.isText ? field.hint.replace(/^string(, )?/, "") : field.hint,
    ]
      .filter(Boolean)
      .join(" · ");
    face.node.append(
      make(
        "div",
        { class: "mew-field" },
        make(
          "div",
          { class: "mew-fieldname" },
          make("bdi", { class: "mew-code", dir: "ltr", text: field.name }),
          make("span", { class: "mew-dim", text: hint }),
        ),
        area,
        drop,
      ),
    );
  }
  const added = [];
  const add = make("button", {
    class: "mew-add",
    text: "Add an argument",
    onclick: () => {
      const name = make("input", {
        type: "text",
        class: "mew-code",
        maxlength: 200,
        placeholder: "name",
        "aria-label": "Name of the new argument",
      });
      const area = make("textarea", {
        class: "mew-code",
        dir: "ltr",
        rows: 1,
        spellcheck: "false",
        placeholder: 'JSON, such as "text" or 3',
        "aria-label": "JSON value of the new argument",
      });
      added.push({ name, area });
      add.before(make("div", { class: "mew-field" }, name, area));
      name.focus();
    },
  });
  const review = doer(
    "Review changes",
    async () => {
      const changes = [];
      for (const field of fields) {
        if (field.removed) changes.push({ index: field.index, remove: true });
        else if (field.area.value !== field.was)
          changes.push({ index: field.index, [field.isText ? "text" : "json"]: field.area.value });
      }
      for (const argument of added)
        if (argument.name.value) changes.push({ name: argument.name.value, json: argument.area.value });
      if (!changes.length) return card.desk.say(card, "There are no changes yet.");
      const made = await card.desk.act(card, "review", { id: card.data.id, changes });
      if (made && isOpen(card.data)) reviewFace(card, made.value, face);
    },
    { class: "mew-review" },
  );
  face.node.append(
    add,
    make("div", { class: "mew-buttons" }, back(card), make("span", { class: "mew-gap" }), review),
  );
  face.first = fields[0]?.area ?? add;
  show(card, face);
}

// The form of Tools, from the tool's own description of its arguments.
function showSchemaForm(card, face, { plan, value }) {
  const form = schemaForm(plan, { changed() {} });
  form.set(value);
  const review = doer(
    "Review changes",
    async () => {
      const text = form.text();
      if (text === null) return card.desk.say(card, "Correct the marked fields first.");
      const made = await card.desk.act(card, "review", { id: card.data.id, arguments: text });
      if (made && isOpen(card.data)) reviewFace(card, made.value, face);
    },
    { class: "mew-review" },
  );
  face.node.append(
    form.node,
    make("div", { class: "mew-buttons" }, back(card), make("span", { class: "mew-gap" }), review),
  );
  face.first = form.node.querySelector("textarea, input, select, button");
  show(card, face);
}

function reviewFace(card, made, form) {
  const face = faceOf(card, "review", made.digest),
    body = make("tbody"),
    routine = make("tbody", { hidden: true }),
    names = [];
  addHeading(
    face,
    "This would be sent",
    make("span", {
      class: "mew-digest mew-code",
      title: `sha-256 ${made.digest}`,
      text: `digest ${made.short}`,
    }),
  );
  face.node.append(...warningBox(face, made.warnings));
  const words = { same: "as proposed", added: "added", removed: "removed", changed: "changed" };
  for (const line of made.lines) {
    const value = make("td", { class: "mew-value mew-code", dir: "ltr" });
    if (line.how === "removed")
      value.append(watchNode(face, make("del", { class: "mew-text", text: line.was })));
    else if (line.how === "changed" && line.lines.length && !line.folded) {
      for (const [sign, text] of line.lines) {
        const tag = { "-": "del", "+": "ins" }[sign] ?? "span";
        value.append(watchNode(face, make("div", { class: "mew-diff" })));
        value.lastChild.append(
          make("span", { class: "mew-diffsign", text: `${sign} ` }),
          make(tag, { class: sign === "…" ? "mew-dim" : "", text }),
        );
      }
    } else {
      if (line.how === "changed") value.append(make("del", { class: "mew-text", text: line.was }));
      value.append(...valueParts(face, line, line.index));
    }
    if (isRoutine(line)) names.push(line.what);
    (isRoutine(line) ? routine : body).append(
      make(
        "tr",
        { class: `mew-how-${line.how}` },
        isRoutine(line) ? routineName(line) : nameCell(face, line.name),
        value,
        make("td", { class: "mew-last", text: words[line.how] }),
      ),
    );
  }
  face.node.append(
    make("table", { class: "mew-arguments", "aria-label": "What would be sent" }, body, routine),
    ...routineFold(routine, names),
  );
  if (card.picker)
    face.node.append(
      make(
        "div",
        { class: "mew-why" },
        "run by ",
        make("bdi", { text: card.picker.selectedOptions[0].textContent }),
      ),
    );
  face.node.append(
    make(
      "div",
      { class: "mew-why" },
      "The request is marked as edited, and ",
      make("bdi", { text: card.data.proposer }),
      " will be informed of your changes.",
    ),
  );
  face.primary = decider(
    face,
    "Approve as edited",
    () => card.desk.decide(card, "approve", { digest: made.digest }),
    { class: "mew-confirm mew-primary", "aria-label": `Approve as edited: ${card.says}` },
  );
  const again = make("button", { text: "Change again", onclick: () => show(card, form) });
  face.node.append(make("div", { class: "mew-buttons" }, back(card), again, face.hint, face.primary));
  show(card, face);
}

function grantFace(card, { scope = null, limit: wanted = null } = {}) {
  if (requireRunner(card) || card.sent) return;
  const face = Object.assign(faceOf(card, "grant", ""), { base: card.front }),
    shown = make("div", { class: "mew-offer" });
  addHeading(face, "Approve, and allow it from now on");
  let chosen = scope ?? "values",
    offer = null,
    requests = 0;
  const name = `mew-values-${card.data.digest.slice(0, 12)}-${Math.floor(performance.now())}`;
  const choice = (text, value) =>
    make(
      "label",
      {},
      make("input", {
        type: "radio",
        name,
        checked: chosen === value,
        onchange: () => {
          chosen = value;
          ask();
        },
      }),
      ` ${text}`,
    );
  const limit = make(
    "select",
    { "aria-label": "How long, or how often", onchange: () => ask() },
    ...card.desk
      .limits()
      .map((name) => make("option", { value: name, text: name, selected: name === wanted })),
  );
  const choices = make(
    "div",
    { class: "mew-choices", role: "group", "aria-label": "What is allowed" },
    ...(card.desk.knowsClosed()
      ? [choice("only these values, nothing else", "values")]
      : [
          choice("approve alike calls in this lab", "values"),
          choice("only these values, and any others beside them", "open"),
        ]),
    choice("any arguments", "any"),
  );
  if (card.data.readOnly) choices.append(choice(`all read-only tools of ${card.data.readOnly}`, "read-only"));
  choices.append(limit);
  async function ask(aware = false) {
    offer = null;
    requests += 1;
    const mine = requests;
    face.watch = [];
    shown.replaceChildren(make("div", { class: "mew-dim", text: "Computing what this would allow…" }));
    rearm(face);
    const target = card.picker ? card.picker.value : "";
    const made = await card.desk.act(card, "offer", {
      id: card.data.id,
      values: chosen === "values" || chosen === "open",
      read_only: chosen === "read-only",
      opened: chosen === "open",
      aware,
      limit: limit.value,
      target,
    });
    if (mine !== requests || !isOpen(card.data)) return;
    if (!made)
      return shown.replaceChildren(
        make("div", {
          class: "mew-dim",
          text: "This cannot be allowed. Choose other options, or approve the proposal alone.",
        }),
      );
    offer = made.value;
    // An offer with a question cannot be taken: the press on the question asks for one that can.
    const question = offer.ask
      ? [make("button", { class: "mew-aware", text: offer.ask, onclick: () => ask(true) })]
      : [];
    const does = offer.here
      ? ` may have these calls approved in this lab (${offer.limit}):`
      : ` may send by itself (${offer.limit}):`;
    const matches =
      offer.count === 1 ? "1 call or proposal" : `${groupDigits(offer.count)} calls and proposals`;
    shown.replaceChildren(
      make("div", {}, make("bdi", { class: "mew-who", text: offer.to }), does),
      make("pre", {
        class: "mew-code mew-pattern",
        dir: "ltr",
        tabindex: 0,
        "aria-label": "The permission that is given",
        title: PATTERN_HELP,
        text: offer.pattern,
      }),
      make(
        "div",
        { class: "mew-why" },
        `Of the last ${countOf(offer.of, "message")} it matches ${matches} of `,
        make("bdi", { text: offer.to }),
        offer.examples.length ? "; the last:" : ".",
      ),
      ...offer.examples.map((text) => make("div", { class: "mew-example mew-code" }, make("bdi", { text }))),
      ...offer.remarks.map((text) => make("div", { class: "mew-why", text })),
      ...question,
    );
    if (offer.ask) return rearm(face);
    face.watch = [
      readerOf(shown.querySelector("pre"), "what is allowed"),
      ...Array.from(shown.children, (child) => (child.matches("pre") ? null : partOf(child))).filter(Boolean),
    ];
    rearm(face);
  }
  for (const argument of card.data.arguments.keys())
    if (card.front.closed.has(argument)) face.closed.add(argument);
  face.needs = () =>
    !offer
      ? "Wait for what this would allow"
      : offer.ask
        ? `Confirm first: ${offer.ask}`
        : (card.front.needs?.() ?? "");
  face.primary = decider(
    face,
    "Approve and allow",
    () => card.desk.decide(card, "approve", { digest: card.data.digest, offer: offer.digest }),
    { class: "mew-confirm mew-primary", "aria-label": `Approve and allow: ${card.says}` },
  );
  face.node.append(
    choices,
    shown,
    make("div", { class: "mew-buttons" }, back(card), face.hint, face.primary),
  );
  show(card, face);
  ask();
}

/** @param {CardData} data */
export function cardOf(data, desk) {
  const says = sentence(data);
  const node = make("li", { class: "mew-card", tabindex: 0, "aria-label": says });
  const card = { data, desk, node, says, sent: null, seen: false };
  if (isOpen(data)) unfold(card);
  else collapse(card);
  return card;
}

// Makes the content of a card in full, from its data: when it arrives, or when what was rejected is to be decided again.
export function unfold(card) {
  const { data, node } = card;
  card.top = { watch: [], closed: new Set() };
  card.sent = card.brief = null;
  node.className = "mew-card";
  node.setAttribute("aria-label", card.says);
  node.replaceChildren();
  card.age = make("span", { class: "mew-age mew-num", title: clockHover(data.since) });
  card.notice = make("div", { class: "mew-notice", role: "alert", hidden: true });
  card.briefLine = briefLine(card);
  card.told = make("div", { class: "mew-told", role: "status" });
  card.review = make("div", { class: "mew-reviewers" });
  tellNotices(card);
  tellReview(card);
  card.front = card.face = frontFace(card);
  const line = make("div", { class: "mew-line" }, titleOf(data)),
    about = aboutOf(data, card.age);
  card.top.watch.push(partOf(line), partOf(about));
  // The kernel measures from when its title was in sight.
  const title = card.top.watch.slice();
  card.head = {
    get done() {
      return title.every((part) => part.done);
    },
  };
  node.append(
    card.briefLine,
    line,
    about,
    card.told,
    card.review,
    ...titleFolds(data, card.top),
    card.front.node,
    card.notice,
  );
  settle(card, data.state === "deciding");
}

// Whether two states are of one card.
export const isSame = (a, b) => a.seq === b.seq && a.unmet === b.unmet;

// Shows the notices of an open card, which may change.
export function tellNotices(card) {
  card.told.hidden = !card.data.notices.length;
  card.told.replaceChildren(...card.data.notices.map((text) => make("div", {}, make("bdi", { text }))));
}

// Says who else looks at an open card and who said yes. Its changes arm nothing anew: others make them as they please.
export function tellReview(card) {
  card.review.hidden = !card.data.review;
  card.review.replaceChildren(make("bdi", { text: card.data.review }));
}

// After a change of its notices a card is shown anew before it may be approved.
export function showAnew(card) {
  tellNotices(card);
  // What somebody rejected is approved alone, without a permission.
  if (card.front.allow) card.front.allow.hidden = Boolean(card.data.rejected);
  if (card.data.rejected && card.face.name === "grant") show(card, card.front);
  card.front.file?.renew();
  for (const face of new Set([card.front, card.face])) {
    unask(face);
    face.reported = face.since = null;
    rearm(face);
  }
  card.group?.showAnew(card);
}

// What an open card shows while another one is reviewed.
function briefLine(card) {
  const { data } = card,
    first = (argument) => {
      const [line, ...more] = argument.text.split("\n");
      return more.length || argument.folded ? `${line}…` : line;
    };
  const values = data.arguments
    .filter((argument) => !isRoutine(argument))
    .map(first)
    .join(", ");
  return briefLineOf(
    data,
    data.permission ? data.permission.question : `${data.tool || data.method}(${shorten(values, 120)})`,
    data.warnings.length,
    "Review",
    card,
  );
}

/** @type {(data: CardData, text: string, risks: number, review: string, card: any) => HTMLElement} */
export function briefLineOf(data, text, risks, review, card) {
  const line = make(
    "div",
    { class: "mew-brief-line", hidden: true },
    make("bdi", { class: "mew-who", text: data.proposer }),
    make("bdi", { class: "mew-brief-call mew-code", dir: "ltr", text }),
  );
  if (risks) line.append(make("span", { class: "mew-brief-warning", text: countOf(risks, "warning") }));
  line.append(
    make("button", {
      class: "mew-review-open",
      text: review,
      "aria-label": `Review: ${card.says}`,
      onclick: () => card.desk.review(card),
    }),
  );
  return line;
}

export function setBrief(card, brief) {
  if (card.brief === brief || !card.briefLine) return;
  card.brief = brief;
  card.node.classList.toggle("mew-brief", brief);
  card.briefLine.hidden = !brief;
  rearm(card.front ?? card.face);
}

export function settle(card, deciding) {
  card.node.classList.toggle("mew-deciding", deciding);
  card.sent = deciding ? (card.sent ?? performance.now()) : null;
  if (card.face) arm(card.face);
}

// What became of a decided card: "ran", "tool failed" and so on, with the result.
/** @type {(data: CardData) => string} */
function resultOf(data) {
  if (data.failed) return `tool failed: ${data.outcome}`;
  if (data.state === "unknown") return `not known whether it took effect: ${data.outcome}`;
  if (data.permission) return data.outcome; // its agent was told, and nothing ran here
  if (data.state === "done") return data.outcome ? `ran: ${data.outcome}` : "ran";
  if (data.state === "fulfilled") return data.outcome || "runs";
  return data.outcome;
}

// The way past a rejection: it shows the whole card once more, whose button then asks for two presses.
export function againButton(card) {
  return doer(`${ALL_THE_SAME}…`, () => card.desk.again(card), {
    class: "mew-again",
    "aria-label": `${ALL_THE_SAME}…: ${card.says}`,
    title: `${capitalize(card.data.rejected)}. Shows it in full once more.`,
  });
}

// For some seconds after a person's own rejection: asks the proposer to propose it once more.
function askAgain(card) {
  const { proposer } = card.data;
  return doer(
    "Ask the proposer again",
    async () => {
      const done = await card.desk.act(card, "ask_again", { id: card.data.id, digest: card.data.digest });
      if (done) card.desk.asked(card, done.said);
    },
    {
      class: "mew-ask-again",
      "aria-label": `Ask ${shorten(proposer)} again: ${card.says}`,
      title: `Sends ${shorten(proposer)} a chat message with the digest, and asks for the proposal once more`,
    },
  );
}

// Stops the rule that approved the call; what it approved stands.
function stopRule(card) {
  const { rule } = card.data;
  return doer(
    "Stop this rule",
    async () => {
      const done = await card.desk.act(card, "stop_rule", { rule: rule.sha256 });
      if (done) card.desk.tell(done.said);
    },
    {
      class: "mew-stop-rule",
      "aria-label": `Stop ${rule.name}, which approved this: ${card.says}`,
      title: `${rule.name}: ${rule.text}`,
    },
  );
}

// A decided card is one line: the call, the decision and its author, and the result, which is another thing.
export function collapse(card) {
  const focused = holdsFocus(card.node),
    data = card.data,
    result = resultOf(data);
  // A form in which somebody writes what she found out stays while the outcome does.
  const found =
    data.state !== "unknown"
      ? null
      : (card.node.querySelector(".mew-found") ??
        foundOut(`What happened? ${card.says}`, (happened, note) =>
          card.desk.act(card, "found_out", { id: data.id, happened, note }),
        ));
  const held = found && holdsFocus(found) ? activeOf(card.node) : null;
  const again = data.rejected && !data.refusal ? againButton(card) : null;
  const when = data.at === null ? "" : clockTime(data.at),
    failed = data.failed;
  card.past = [data.decision, result].filter(Boolean).join(" · ");
  card.node.className = `mew-card mew-past${failed ? " mew-failed" : ""}`;
  card.node.setAttribute("aria-label", `${card.says}: ${card.past}`);
  const outcome = make(
    "span",
    {
      class: "mew-outcome",
      title: [card.past, data.at === null ? "" : clockHover(data.at)].filter(Boolean).join("\n"),
    },
    make("bdi", { text: data.decision }),
  );
  if (result) outcome.append(make("bdi", { class: "mew-result", text: ` · ${result}` }));
  card.node.replaceChildren(
    make("span", {
      class: `mew-sign mew-sign-${failed ? "failed" : data.state}`,
      "aria-hidden": true,
      text: failed ? "!" : (SIGNS[data.state] ?? "•"),
    }),
    make(
      "span",
      { class: "mew-says", title: describePast(data) },
      make("bdi", { class: "mew-who", text: data.proposer }),
      " · ",
      data.permission
        ? make("bdi", { text: data.permission.question })
        : make("bdi", { class: "mew-tool mew-code", text: data.tool || data.method }),
    ),
    outcome,
    make("span", {
      class: "mew-when mew-num",
      title: data.at === null ? "" : clockHover(data.at),
      text: when,
    }),
    ...(found ? [found] : []),
    ...(data.kept ? [card.desk.kept(data)] : []),
    ...(data.rule ? [stopRule(card)] : []),
    ...(again || card.askable
      ? [
          make(
            "span",
            { class: "mew-past-rejection" },
            ...(card.askable ? [askAgain(card)] : []),
            ...(again ? [again] : []),
          ),
        ]
      : []),
  );
  card.top =
    card.head =
    card.face =
    card.front =
    card.form =
    card.picker =
    card.age =
    card.told =
    card.review =
    card.notice =
    card.briefLine =
    card.rejecter =
      null;
  if (focused) (held ?? card.node).focus();
}
