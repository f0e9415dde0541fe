// Open cards that differ only in values and proposers, as one table: each row is a proposal, decided by its own digest.
// What has a warning, or writes a file, stays a card. Later proposals join while no row was seen, afterwards on request.
// A row can be unticked: then it is not decided and need not be read. The button arms when every cell of the ticked rows
// was in sight, and every folded value was opened and wholly in sight.

import { isOff, make, write } from "../ui/elements.js";
import { countOf, shorten } from "../ui/text.js";
import {
  aboutOf,
  againButton,
  arm,
  briefLineOf,
  decider,
  expandButton,
  faceOf,
  foldButton,
  insists,
  isOpen,
  isRoutine,
  lookAt,
  nameCell,
  rearm,
  rejecter,
  showWhole,
  titleFolds,
  titleOf,
  watchNode,
  whomOf,
} from "./cards.js";

const ALIKE = 3;

// What differs, in few words: `litres 10 – 43`, `bed: 3 values`.
/** @type {(argument: Pick<import("./cards.js").Argument, "name" | "text" | "key">[]) => string} */
export function describeRange(values) {
  const name = shorten(values[0].name, 24);
  if (!values.every(({ text }) => NUMBER.test(text)))
    return `${name}: ${countOf(new Set(values.map(({ key }) => key)).size, "value")}`;
  const sorted = values.map(({ text }) => text).sort((a, b) => Number(a) - Number(b));
  return `${name} ${sorted[0]} – ${sorted.at(-1)}`;
}

// What was decided on calls like these, in one line. A card may lack it; the line must not tell which one does, so it is that
// of each proposer, and there is none where one of them has none.
/** @type {(cards: { proposer: string, history?: string }[]) => string} */
export function describeHistory(cards) {
  const told = new Map();
  for (const { proposer, history } of cards) if (!told.get(proposer)) told.set(proposer, history ?? "");
  const lines = new Set(told.values());
  if (lines.has("")) return "";
  if (told.size === 1) return [...lines][0];
  const named = [...told].slice(0, HISTORIES).map(([proposer, line]) => `${proposer}, ${line}`),
    more = told.size - named.length;
  return [...named, ...(more ? [`and ${countOf(more, "more participant")}`] : [])].join("; ");
}
const HISTORIES = 2; // that are told of

const NUMBER = /^-?\d{1,15}(\.\d{1,15})?$/;
const RANGES = 3; // that are told of

export function groupOf(cards, desk) {
  const sorted = [...cards].sort((a, b) => a.data.seq - b.data.seq);
  const first = sorted[0],
    valuesOf = (card) => new Map(card.data.arguments.map((argument) => [argument.pointer, argument]));
  // An argument is left out only where it is routine in all of them.
  const names = first.data.arguments
    .map((argument) => argument.pointer)
    .filter((at) => sorted.some((card) => !isRoutine(valuesOf(card).get(at))));
  const differ = names.filter((at) => new Set(sorted.map((card) => valuesOf(card).get(at).key)).size > 1);
  const equal = names.filter((at) => !differ.includes(at));
  const nameOf = (at) => valuesOf(first).get(at).name;
  const proposers = new Set(sorted.map((card) => card.data.from)).size,
    tool = first.data.tool || first.data.method,
    ranges = differ.slice(0, RANGES).map((at) => describeRange(sorted.map((card) => valuesOf(card).get(at)))),
    among = [`${proposers} participants`, ...ranges].join(", ");
  const says =
    proposers > 1
      ? `${tool} ×${sorted.length} on ${whomOf(first.data)}, ${among}`
      : `${sorted.length} similar requests: ${first.says}`;
  const node = make("li", { class: "mew-card mew-group", tabindex: 0, "aria-label": says });
  const group = { node, says, rows: new Map(), data: first.data, desk, sent: null };
  const face = faceOf({ node, desk, top: { watch: [], closed: new Set() } }, "group", "");
  group.face = face;
  // What was asked about is not what would be sent: other rows, or a row that somebody has rejected since.
  const unask = () => {
    if (face.asked) face.forgetAsked();
  };

  const count = make("span", { class: "mew-tool" });
  const title =
    proposers > 1
      ? make("bdi", { class: "mew-says", text: among })
      : make(
          "span",
          { class: "mew-says" },
          titleOf(first.data),
          make("bdi", { class: "mew-dim", text: ranges.map((text) => ` · ${text}`).join("") }),
        );
  const toBe = watchNode(face, make("div", { class: "mew-line" }, count, title)),
    about = watchNode(face, aboutOf(first.data));
  const same = make("tbody");
  const table = make("table", {
    class: sorted.some((card) => card.data.notices.length || card.data.why)
      ? "mew-arguments mew-rows"
      : "mew-arguments mew-rows mew-nowarning",
    "aria-label": "Proposals",
  });
  const head = make(
    "tr",
    {},
    make("th", { scope: "col", "aria-label": "Included" }),
    make("th", { scope: "col", text: "#" }),
    ...(proposers > 1 ? [make("th", { scope: "col", text: "From" })] : []),
    ...differ.map((at) =>
      make(
        "th",
        { scope: "col", class: "mew-code", dir: "ltr" },
        watchNode(face, make("span", { class: "mew-name", text: nameOf(at) })),
      ),
    ),
    make("th", { scope: "col", class: "mew-rowwarnings", text: "Notes" }),
    make("th", { scope: "col", class: "mew-rowdigest", text: "Digest" }),
  );
  const body = make("tbody");
  table.append(make("thead", {}, head), body);

  // A value that is opened here counts as opened for each card, under the card's own digest. The first answer for one of
  // the cards that share the value shows it. Until then it counts as closed, even if it was opened elsewhere.
  const unshown = new Set();
  function cell(members, at, row) {
    const argument = valuesOf(members[0]).get(at);
    const text = make("div", { class: "mew-text", text: argument.text }),
      parts = [text];
    const part = { open: null, reader: null };
    if (argument.folded) {
      part.open = expandButton(argument, () => {
        for (const { data } of members.filter(({ data }) => isOpen(data)))
          desk.link.send({ t: "value", id: data.id, digest: data.digest, index: indexOf({ data }, at) });
      });
      parts.push(part.open);
      unshown.add(members);
      const show = (whole) => {
        unshown.delete(members);
        if (part.reader) return;
        part.reader = showWhole(row ?? face, text, whole, part.open, argument.name);
        part.open = null;
      };
      for (const card of members) card.whole = [...(card.whole ?? []), { index: indexOf(card, at), show }];
    } else watchNode(row ?? face, text);
    return parts;
  }
  const indexOf = (card, at) => card.data.arguments.findIndex((argument) => argument.pointer === at);

  for (const at of equal)
    same.append(
      make(
        "tr",
        {},
        nameCell(face, nameOf(at)),
        make("td", { class: "mew-value mew-code", dir: "ltr" }, ...cell(sorted, at)),
      ),
    );
  const rowsByValue = new Map();
  sorted.forEach((card, n) => {
    const tick = make("input", {
      type: "checkbox",
      checked: true,
      "aria-label": `Include row ${n + 1}`,
      onchange: () => {
        line.classList.toggle("mew-rowoff", !tick.checked);
        unask();
        retitle();
        rearm(face);
      },
    });
    const number = make("td", { class: "mew-num", text: String(n + 1) }),
      line = make("tr", {}, make("td", {}, tick), number);
    const row = { line, watch: [], tick, number: n + 1, told: null };
    const values = differ.map((at) => valuesOf(card).get(at).key).join(" ");
    if (rowsByValue.has(values))
      number.append(make("div", { class: "mew-same", text: `same as ${rowsByValue.get(values)}` }));
    else rowsByValue.set(values, n + 1);
    if (proposers > 1) {
      const who = make(
        "td",
        { class: "mew-from" },
        make("bdi", { class: "mew-who", text: card.top.closed.size ? card.data.from : card.data.proposer }),
      );
      line.append(who);
      watchNode(row, who.firstChild);
    }
    for (const at of differ)
      line.append(make("td", { class: "mew-value mew-code", dir: "ltr" }, ...cell([card], at, row)));
    const state = (row.state = make("td", { class: "mew-rowwarnings" }));
    if (card.data.why)
      state.append(
        watchNode(row, make("div", { class: "mew-why" }, "why: ", make("bdi", { text: card.data.why }))),
      );
    watchNode(row, number);
    tellRow(card, row);
    line.append(
      state,
      make("td", {
        class: "mew-digest mew-code mew-rowdigest",
        title: `sha-256 ${card.data.digest}`,
        text: card.data.short,
      }),
    );
    body.append(line);
    group.rows.set(card, row);
    card.group = group;
    card.node.hidden = true;
  });

  const rejecting = rejecter(face, "", desk.reasons, (reason) => send("reject", reason), {
      class: "mew-reject-all mew-danger",
    }),
    reject = rejecting.button;
  const rejectText = document.createTextNode("");
  reject.prepend(rejectText);
  face.primary = decider(face, "", () => send("approve"), { class: "mew-approve-all mew-primary", key: "A" });
  const approveText = document.createTextNode("");
  face.primary.prepend(approveText);
  face.others = [reject];
  const unfold = make("button", {
    class: "mew-unfold mew-quiet",
    text: "Show as cards",
    onclick: () => desk.unfold(group),
  });
  const details = foldButton("Details", () => table.classList.toggle("mew-digests"), "mew-details-open");
  group.notice = make("div", { class: "mew-notice", role: "alert", hidden: true });
  group.briefLine = briefLineOf(
    proposers > 1 ? { ...first.data, proposer: `${proposers} participants` } : first.data,
    [`${tool} ×${sorted.length} similar`, ...ranges].join(", "),
    0,
    `Review ${sorted.length}`,
    group,
  );
  node.append(group.briefLine, toBe, about, ...(proposers > 1 ? [] : titleFolds(first.data, face.card.top)));
  if (equal.length)
    node.append(make("table", { class: "mew-arguments", "aria-label": "What is equal in all" }, same));
  const history = describeHistory(sorted.map((card) => card.data));
  if (history)
    node.append(watchNode(face, make("div", { class: "mew-why" }, make("bdi", { text: history }))));
  node.append(
    make(
      "div",
      { class: "mew-scroll", role: "region", tabindex: 0, "aria-label": "The proposals, a row each" },
      table,
    ),
    make("div", { class: "mew-more" }, details, face.hint),
    group.notice,
    rejecting.place,
    make("div", { class: "mew-buttons" }, reject, unfold, make("span", { class: "mew-gap" }), face.primary),
  );

  const open = () => [...group.rows.keys()].filter((card) => isOpen(card.data)),
    ticked = () => open().filter((card) => group.rows.get(card).tick.checked);
  face.needs = () => {
    if (!ticked().length) return "Tick at least one row";
    const cancelled = ticked().find((card) => card.data.cancelled);
    if (cancelled) return `Row ${group.rows.get(cancelled).number} was cancelled by its client; untick it`;
    const rows = ticked().map((card) => group.rows.get(card)),
      left = rows.filter((row) => row.watch.some((part) => !part.done));
    const long = left
      .flatMap((row) => row.watch)
      .find((part) => !part.done && part.says && part.node.getClientRects().length);
    if (long && left.length === 1) return long.says();
    return left.length
      ? `Scroll to review all ${countOf(rows.length, "row")} (${rows.length - left.length} seen)${long ? `: ${long.says()}` : ""}`
      : "";
  };

  group.press = (decision) => {
    group.arm();
    if (decision === "reject") rejecting.open();
    else if (!isOff(face.primary)) send(decision);
  };
  async function send(decision, reason) {
    const wanted = ticked().map((card) => [card.data.id, card.data.digest]);
    if (!wanted.length) return;
    const despite =
      decision === "approve" && ticked().some((card) => card.data.rejected) ? { despite: "rejected" } : {};
    if (despite.despite && !insists(group)) return;
    group.own = decision;
    desk.hold();
    face.card.sent = performance.now();
    arm(face);
    const choices = {
      view: desk.link.view,
      cards: wanted,
      decision,
      ...despite,
      ...(decision === "reject" ? { reason } : {}),
    };
    const done = await desk.link.act("decide_all", choices, (text) => {
      group.notice.hidden = false;
      group.notice.textContent = text;
    });
    face.card.sent = null;
    if (done) desk.announce(done.said);
  }

  group.arm = (known) => {
    const wanted = ticked(),
      names = new Map();
    for (const card of wanted)
      for (const index of card.front.closed)
        names.set(`${card.data.id} ${index}`, { name: card.data.arguments[index]?.name });
    for (const members of unshown)
      if (members.some((card) => wanted.includes(card))) names.set(members, { name: "the value" });
    face.closed = new Set(names.keys());
    face.cells = names;
    if (known) {
      lookAt(face, known);
      for (const card of open()) {
        const row = group.rows.get(card);
        for (const part of row.watch) if (!part.done) part.look(known, node);
        if (row.watch.every((part) => part.done)) desk.saw(card, card.front);
      }
    }
    const since = wanted.map((card) => card.front.since);
    face.reported ??= performance.now();
    face.since = since.every(Boolean) ? Math.max(...since) : null;
    face.ready = Math.max(0, ...wanted.map((card) => card.front.ready ?? 0));
    arm(face);
  };
  // A member was decided, here or elsewhere: its row shows the outcome. The group ends with its last open card.
  group.changed = (card) => {
    const row = group.rows.get(card);
    if (row) {
      row.state.replaceChildren(
        make("bdi", { text: card.past }),
        ...(card.data.rejected && !card.data.refusal ? [" ", againButton(card)] : []),
      );
      row.tick.disabled = true;
      row.line.classList.add("mew-rowpast");
      table.classList.remove("mew-nowarning");
    }
    unask();
    retitle();
    rearm(face);
    return open().length;
  };
  group.showAnew = (card) => {
    unask();
    tellRow(card, group.rows.get(card));
    if (card.data.notices.length) table.classList.remove("mew-nowarning");
    rearm(face);
  };
  // A row that is shown as a card once more leaves the table.
  group.release = (card) => {
    group.rows.get(card).line.remove();
    group.rows.delete(card);
    card.group = card.whole = null;
  };
  group.leave = () => {
    for (const card of group.rows.keys()) {
      card.group = card.whole = null;
      card.node.hidden = false;
    }
    node.remove();
  };
  // What is told about a row beside its warnings; it must be in sight, too.
  function tellRow(card, row) {
    row.told?.remove();
    row.watch = row.watch.filter((part) => part !== row.toldPart);
    row.told = row.toldPart = null;
    const { notices } = card.data;
    if (!notices.length) return;
    row.told = make(
      "div",
      { class: "mew-rowtold" },
      ...notices.map((text) => make("div", {}, make("bdi", { text }))),
    );
    row.state.append(row.told);
    watchNode(row, row.told);
    row.toldPart = row.watch.at(-1);
  }
  function retitle() {
    const left = open().length,
      chosen = ticked().length;
    write(count, proposers > 1 ? `${tool} ×${left},` : `${left} similar:`);
    approveText.data = chosen === left ? `Approve all ${left}` : `Approve ${chosen}`;
    rejectText.data = chosen === left ? `Reject all ${left}` : `Reject ${chosen}`;
  }
  retitle();
  return group;
}

// A table in which nothing was decided, unticked or asked yet: nothing is lost where its rows join others.
export const isWhole = (group) =>
  !group.ended &&
  !group.face.asked &&
  !group.face.card.sent &&
  [...group.rows].every(([card, row]) => isOpen(card.data) && !card.data.decided && row.tick.checked);

// The same, of which the person saw no row.
export const isUnseen = (group) => isWhole(group) && ![...group.rows.keys()].some((card) => card.seen);

// Sets of at least three open cards of one shape that are in no table, or in several, of those that may give theirs up.
export function findAlike(cards, mayGive) {
  const shapes = new Map();
  for (const card of cards) {
    if (!isOpen(card.data) || card.data.decided || card.picker || card.face !== card.front) continue;
    if (card.group && !mayGive(card.group)) continue;
    // A file is compared by itself, and an option is chosen by itself.
    if (card.data.warnings.length || card.data.file || card.data.permission) continue;
    const key = card.data.shape;
    shapes.set(key, [...(shapes.get(key) ?? []), card]);
  }
  return [...shapes.entries()].filter(
    ([, members]) =>
      members.length >= ALIKE &&
      (!members[0].group || members.some((card) => card.group !== members[0].group)),
  );
}
