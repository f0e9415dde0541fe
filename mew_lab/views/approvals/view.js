// Open cards in the order of order.js, decided ones in a list below, which in a panel is one line at the bottom edge until it
// is opened; the open cards scroll above it. The content of a card never changes. A decision is sent
// with the id and the digest of the shown content, and the nonce of the live kernel; never with a payload.

import { hostWords } from "../ui/adapter.js";
import { attention, isInSight, setDesktop } from "../ui/attention.js";
import { connect } from "../ui/connection.js";
import {
  activeOf,
  announcer,
  doer,
  goBack,
  holdsFocus,
  isOff,
  keepKeys,
  make,
  setOptions,
  ticker,
  write,
} from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { makeHeader } from "../ui/header.js";
import { keptResults } from "../ui/kept.js";
import { onOpen } from "../ui/links.js";
import { makeTable, placeNodes } from "../ui/tables.js";
import { clockHover, clockTime, countOf, elapsedTime, groupDigits, shorten } from "../ui/text.js";
import { makeToaster } from "../ui/toast.js";
import {
  arm,
  cardOf,
  collapse,
  expandValue,
  insists,
  isOpen,
  isSame,
  locateButton,
  lookAt,
  setBrief,
  sentence,
  settle,
  showAnew,
  tellReview,
  unfold,
  whomOf,
} from "./cards.js";
import { findAlike, groupOf, isUnseen, isWhole } from "./groups.js";
import { chooseFull, placeEntries, sortEntries } from "./order.js";
import { questionList } from "./questions.js";
import { frameWatch } from "../ui/reading.js";
import { runningList, runningNote } from "./running.js";

const KEPT = 200;
const RECENT = 5;
const SETTLE = 300;
const ASKABLE = 10_000; // milliseconds after a rejection in which its row offers to ask for the proposal again
const UNTOLD = "its outcome was lost";
const KEYS = [
  ["A", "Approve the focused card, once its button is armed; of an agent that asks, its only “allow once”"],
  ["R", "Reject the focused card: a field for the reason, which Enter sends"],
  ["J", "Next open card or question"],
  ["K", "Previous open card or question"],
  ["Enter", "Review the focused card in full"],
  ["Esc", "Back to the card"],
];

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-approvals", "aria-label": "Approvals" });
  const header = makeHeader({ title: "Approvals", keys: KEYS });
  const counts = make("span", { class: "mew-counts" });
  const risky = make("button", { class: "mew-risky", hidden: true, onclick: () => jump() });
  const together = make("button", {
    class: "mew-together",
    hidden: true,
    onclick: (event) => {
      if (event.isTrusted) fold();
    },
  });
  const past = make("button", {
    class: "mew-history mew-quiet",
    "aria-expanded": "false",
    hidden: true,
    onclick: () => toggleHistory(!showHistory),
  });
  const ledger = make("div", {
    class: "mew-ledger",
    hidden: true,
    role: "region",
    tabindex: 0,
    "aria-label": "Decisions so far",
  });
  const banner = make("div", { class: "mew-banner", role: "note", hidden: true });
  const hurry = make("div", { class: "mew-banner mew-hurry", role: "status", hidden: true });
  const list = make("ul", { class: "mew-cards", role: "list", "aria-label": "Open requests" });
  const readings = make("ul", {
    class: "mew-cards",
    role: "list",
    "aria-label": "Requests that are being read",
    hidden: true,
  });
  const empty = emptyState("Nothing to approve. Requests that need you appear here.");
  const all = make("button", { class: "mew-earlier mew-quiet", onclick: () => toggleHistory(true) });
  const decided = make("ul", { class: "mew-decided", role: "list", "aria-label": "Recent decisions" });
  const latest = make("span", { class: "mew-past mew-latest" });
  const toggle = make(
    "button",
    { class: "mew-recent-toggle mew-quiet", onclick: () => showDecided(!showRecent) },
    make("b", { text: "Recent" }),
    counts,
    latest,
  );
  const suggestion = make("div", { class: "mew-suggestion mew-why", hidden: true });
  const recent = make(
    "section",
    { class: "mew-recent mew-none", "aria-label": "Decided requests" },
    make("div", { class: "mew-recent-head" }, toggle, all),
    suggestion,
    decided,
    ledger,
  );
  const notices = make("div", { class: "mew-notices" }),
    state = make("span", { role: "status" });
  const keys = make("span", {
    class: "mew-keys-hint",
    text: "Click or Tab here for keys",
    onclick: () => reveal({ first: true }),
  });
  const seconds = make("span", { class: "mew-num" }); // beside the status, which would be read aloud each second
  const thinking = make("span", { class: "mew-thinking" }); // a button for each reasoning that the cell waits for
  const waits = make(
    "div",
    { class: "mew-waits", hidden: true },
    make("span", {}, state, seconds),
    thinking,
    keys,
  );
  const notify = make("button", {
    class: "mew-notify mew-quiet",
    "aria-pressed": "false",
    text: "Notify me",
    title:
      "Also tells by a notification of the desktop that something waits, while another window is in front",
    onclick: (event) => event.isTrusted && setDesktop(link, notify.getAttribute("aria-pressed") !== "true"),
  });
  header.filter.append(risky, together);
  header.actions.append(notify, past);
  const body = make("div", { class: "mew-body" }, waits, banner, hurry, list, readings, empty);
  root.append(header.node, body, recent, notices);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root),
    toast = makeToaster(root);

  const cards = new Map(),
    groups = new Set(),
    unfolded = new Set(),
    unread = new Map();
  let nonce = null,
    known = { targets: [], reasons: [], limits: [], closed: true, more: 0 },
    inLedger = [],
    showHistory = false,
    showRecent = !root.closest(".mew-panel"),
    runs = [],
    looks = 0,
    later = null,
    moves = false;

  const frame = frameWatch(root);
  const link = connect(adapter, root, {
    from: () => 0,
    off: () => {
      if (holdsFocus(root)) /** @type {HTMLElement | null} */ (activeOf(root).closest(".mew-card"))?.focus();
      kept.off();
      tidy();
    },
    settings(values) {
      called.desktop(Boolean(values.desktop));
      notify.setAttribute("aria-pressed", String(Boolean(values.desktop)));
    },
    items: {
      snapshot(item) {
        nonce = item.nonce;
        head(item);
        for (const card of item.cards) put(card);
        runs = item.running;
        for (const question of item.questions) questions.put(question);
        questions.keep(new Set(item.questions.map((question) => question.id)));
        const ids = new Set(item.cards.map((card) => card.id));
        for (const id of [...unread.keys()]) if (!ids.has(id)) dropUnread(id);
        // These were decided, and dropped since, while messages were lost.
        for (const { data } of [...cards.values()])
          if (isOpen(data) && !ids.has(data.id))
            put({
              ...data,
              state: "lapsed",
              decision: "Expired",
              at: link.now(),
              by: "",
              onScreen: null,
              outcome: UNTOLD,
              failed: false,
              call: "",
            });
      },
      card: ({ card }) => put(card),
      question: ({ question }) => questions.put(question),
      running({ calls }) {
        runs = calls;
      },
      head,
      value: openValue,
      shown: confirmShown,
      granted,
      notice,
      loading: (item) => kept.item(item),
    },
    done: tidy,
  });
  const kept = keptResults(link);
  const called = attention({
    root,
    group: link.kernel,
    shown: () => [...questions.nodes, ...entriesOf().map((entry) => entry.node)].some(isInSight),
    show: () => reveal({ first: true }),
  });

  const questions = questionList({
    link,
    announce,
    isHeld: () => heldNode() !== null,
    moveOn: () => moveOn(null, null),
  });
  const running = runningList({
    link,
    toast,
    now: link.now,
    isHeld: mayBePressed,
    moveOn: () => moveOn(null, null),
  });
  body.insertBefore(running.node, list);
  body.insertBefore(questions.node, list);
  questions.node.addEventListener("pointerleave", release);
  questions.node.addEventListener("focusout", release);

  const desk = {
    link,
    announce,
    say,
    isOff: () => link.isOff(),
    kept: (data) => kept.show(data.id, data.kept, { id: data.id }),
    reasons: () => known.reasons,
    limits: () => known.limits,
    knowsClosed: () => known.closed,
    more: () => known.limits.length > 0,
    act: (card, name, choices) =>
      link.act(name, choices, (text) => (isOpen(card.data) ? say(card, text) : link.notice(text))),
    offer: (picker) => setOptions(picker, [["", "Choose who runs it"], ...known.targets]),
    // The kernel measures from the message that a face is shown; without that message a face decides nothing.
    saw(card, face) {
      card.seen = true;
      if (face.reported || link.isOff()) return;
      face.reported = performance.now();
      link.send({ t: "seen", view: link.view, id: card.data.id, digest: face.digest });
    },
    decide(card, decision, { button = undefined, ...more } = {}) {
      const again = decision === "approve" && card.data.rejected ? { despite: "rejected" } : {};
      if (again.despite && !insists(card, button)) return;
      const target = decision !== "reject" && card.picker ? { target: card.picker.value } : {};
      const message = {
        t: "decide",
        id: card.data.id,
        digest: card.data.digest,
        decision,
        nonce,
        view: link.view,
        ...more,
        ...again,
        ...target,
      };
      if (!link.send(message)) return;
      desk.hold();
      card.sent = performance.now();
      card.own = decision;
      card.notice.hidden = true;
      arm(card.face);
    },
    // After a decision the kernel tells anew from when each card may be approved; until then none is.
    hold() {
      for (const { front, face } of cards.values())
        for (const one of front ? new Set([front, face]) : [])
          one.ready = Math.max(one.ready ?? 0, performance.now() + 1000);
    },
    // What was rejected and not withdrawn is shown in full once more, in this page alone; a decision of anybody ends that.
    async again(card) {
      const done = await link.act("again", { id: card.data.id, digest: card.data.digest });
      if (!done || isOpen(card.data) || cards.get(card.data.id) !== card) return;
      card.group?.release(card);
      card.data = { ...done.value, decided: card.data };
      card.own = card.kept = card.asked = false;
      card.seen = true;
      card.node.hidden = false;
      unfold(card);
      card.node.focus({ preventScroll: true });
      tidy();
      setBrief(card, false);
      card.node.focus({ preventScroll: true });
      card.node.scrollIntoView({ block: "nearest" });
      announce(`${card.says}, shown once more`);
    },
    asked(card, said) {
      endAsking(card);
      desk.tell(said);
    },
    tell(said) {
      announce(said);
      toast(said);
    },
    leave(card) {
      put(card.data.decided);
      tidy();
      (showRecent ? card.node : toggle).focus({ preventScroll: true });
    },
    review(card) {
      setBrief(card, false);
      card.node.focus({ preventScroll: true });
      card.node.scrollIntoView({ block: "nearest" });
    },
    unfold(group) {
      const first = [...group.rows.keys()][0];
      unfolded.add(first.data.shape);
      groups.delete(group);
      group.leave();
      for (const card of group.rows.keys()) setBrief(card, false);
      tidy();
      first.node.focus();
    },
  };
  const ping = () => link.send({ t: "ping", view: link.view });
  const pingEachSecond = ticker(ping),
    lookOften = ticker(look, 100),
    ageEachSecond = ticker(() => {
      for (const card of cards.values()) if (isOpen(card.data)) age(card);
    });
  const storyEachSecond = ticker(tellStory),
    tellRunsEachSecond = ticker(tellRuns);
  const endLink = onOpen(root, "approvals", reveal);

  function head(item) {
    known = item;
    // The card of one proposal, in the cell that waits for it.
    root.classList.toggle("mew-one", Boolean(item.only));
    header.node.hidden = Boolean(item.only);
    for (const card of cards.values()) if (card.picker) desk.offer(card.picker);
    tellStory();
    offerCancels(item.story?.thinking ?? []);
    storyEachSecond(item.story?.text && !item.story.over);
    pingEachSecond(item.waiting);
    if (item.waiting) ping();
  }

  // What a cell waits for: an approval before all else.
  function tellStory() {
    if (link.isOff()) return;
    const open = [...cards.values()].some(({ data }) => isOpen(data) && !data.decided),
      { text = "", time = 0, over = false } = known.story ?? {};
    write(
      state,
      open
        ? "Waiting for approval."
        : unread.size
          ? "Being read before you can approve it."
          : text && `${over ? "✓" : "◌"} ${text}`,
    );
    const told = state.textContent.endsWith(text) && text;
    write(seconds, told ? `, ${elapsedTime(over ? time : link.now() - time)}` : "");
  }

  // A cell that waits for an answer cancels the reasoning that leads to it, of each participant by a button (§3.5.5).
  function offerCancels(sequences) {
    const keys = new Set(sequences.map(({ key }) => String(key)));
    for (const button of [...thinking.children]) {
      if (keys.has(button.getAttribute("data-key"))) continue;
      const focused = holdsFocus(button);
      button.remove();
      if (focused) moveOn(null, null);
    }
    for (const { key, owner } of sequences) {
      let button = [...thinking.children].find((one) => one.getAttribute("data-key") === String(key));
      button ??= thinking.appendChild(
        doer("Cancel reasoning", () => cancelThinking(key), {
          class: "mew-small mew-danger",
          "data-key": key,
          "aria-label": `Cancel reasoning of ${owner}`,
          title: `Cancel reasoning of ${owner}`,
        }),
      );
      write(button, sequences.length > 1 ? `Cancel reasoning of ${owner}` : "Cancel reasoning");
    }
  }

  // Below Recent, where nothing moves that waits to be decided.
  function suggest() {
    const offered = known.suggestion;
    suggestion.hidden = !offered;
    if (!offered || suggestion.getAttribute("data-rule") === offered.sha256) return;
    suggestion.setAttribute("data-rule", offered.sha256);
    const rule = offered.sha256;
    const tell = (done) => done && desk.tell(done.said);
    suggestion.replaceChildren(
      make("bdi", { text: offered.text, title: offered.rule }),
      doer("Try it", async () => tell(await link.act("try_rule", { rule })), {
        class: "mew-small mew-quiet",
        "aria-label": `Try this rule: ${offered.rule}`,
        title: `${offered.rule}\nIt judges in silence and approves nothing.`,
      }),
      doer("Not now", async () => tell(await link.act("dismiss_rule", { rule })), {
        class: "mew-small mew-quiet",
      }),
    );
  }

  async function cancelThinking(key) {
    const done = await link.act("cancel_thinking", { key });
    if (done) toast(done.said);
  }

  // A proposal whose id was taken by another one gets another id; its card keeps its place.
  function moveCard(data) {
    const found = [...cards].find(([, card]) => isSame(card.data, data) && card.data.digest === data.digest);
    if (!found) return undefined;
    cards.delete(found[0]);
    cards.set(data.id, found[1]);
    return found[1];
  }

  function put(data) {
    if (data.state === "reading") return putUnread(data);
    const line = unread.get(data.id),
      focused = Boolean(line && holdsFocus(line));
    dropUnread(data.id);
    putRead(data);
    if (focused) {
      place();
      cards.get(data.id)?.node.focus({ preventScroll: true });
    }
  }

  // A proposal that is being read: a line that decides nothing, until its card comes.
  function putUnread(data) {
    const says = sentence(data),
      told = data.notices.map((text) => make("div", {}, make("bdi", { text })));
    const line =
      unread.get(data.id) ??
      make("li", { class: "mew-card", tabindex: 0, "aria-label": `${says}: being read` });
    line.replaceChildren(
      make("div", { class: "mew-line" }, make("bdi", { text: says })),
      make("div", { class: "mew-told" }, ...told),
    );
    if (!unread.has(data.id)) announce(`${says}, being read`);
    unread.set(data.id, line);
    readings.append(line);
    readings.hidden = false;
  }

  function dropUnread(id) {
    unread.get(id)?.remove();
    unread.delete(id);
    readings.hidden = !unread.size;
  }

  function putRead(data) {
    let old = cards.get(data.id);
    if (old && old.data.seq === data.seq && !isSame(old.data, data)) {
      // its executor refused it for lack of a quorum, and it is asked for again: the line of before gets another id
      cards.delete(data.id);
      cards.set(`${data.id} ${old.data.unmet}`, old);
      old = undefined;
    }
    old ??= moveCard(data);
    if (old && !old.data.digest && data.digest) {
      // it ended while it was being read, and was read since
      old.node.remove();
      old = undefined;
    }
    if (!old) {
      const card = cardOf(data, desk);
      cards.set(data.id, card);
      if (isOpen(data)) announce(`${card.says}, waiting for your decision`);
      return;
    }
    if (old.data.digest !== data.digest || old.data.seq !== data.seq) {
      say(old, `There is other content under this id now. ${hostWords.again}`);
      old.spoilt = true;
      return;
    }
    const was = old.data;
    // A line of what was decided stays one until the next decision: another page, or a command, approves it all the same.
    if (isOpen(data) && !old.front) return;
    old.data = {
      ...data,
      arguments: was.arguments,
      gone: was.gone,
      ...(isOpen(data) && was.decided ? { decided: was.decided } : {}),
    };
    if (isOpen(data) && data.notices.join("\n") !== was.notices.join("\n")) {
      showAnew(old);
      announce(`${old.says}: ${data.notices.join("; ") || "its client asks again"}`);
    }
    if (isOpen(data) && data.review !== was.review) tellReview(old);
    if (isOpen(data)) return settle(old, data.state === "deciding");
    if (isOpen(was)) finish(old);
    else collapse(old);
  }

  // A card that was decided goes to the list below. Where another person decided it, above what is held or on it, its line
  // stays in its place and at its height until nothing is held any more.
  function finish(card) {
    const group = card.group,
      held = heldNode(),
      node = group?.node ?? card.node,
      focused = holdsFocus(node);
    const stays = !(group ?? card).own && isHeld(node, held),
      height = node.getBoundingClientRect().height;
    moves ||= Boolean((group ?? card).own);
    const next = focused && !stays ? (node.nextElementSibling ?? node.previousElementSibling) : null;
    const isOwn = card.data.state === "rejected" && (group ?? card).own === "reject";
    if (isOwn) offerToAsk(card);
    collapse(card);
    announce(`${card.says}: ${card.past}`);
    if (isOwn) {
      const who = shorten(card.data.proposer);
      toast(
        card.data.rejected
          ? `Rejected. Its line can approve it all the same until ${who} withdraws it.`
          : `Rejected. This cannot be undone, but ${who} may propose it again.`,
        {
          // Its row offers this, where that is in sight.
          action: !showRecent && {
            text: "Ask the proposer again",
            run: async () => {
              const { id, digest } = card.data,
                done = await link.act("ask_again", { id, digest });
              if (done) desk.asked(card, done.said);
            },
          },
          seconds: ASKABLE / 1000,
        },
      );
    }
    const ends = group && !group.changed(card);
    if (ends && stays) group.ended = true;
    else if (ends) {
      groups.delete(group);
      group.leave();
      if (focused) moveOn(next, card);
    } else if (!group && stays) {
      card.kept = true;
      card.node.style.minHeight = `${height}px`;
      card.node.style.marginBottom = "8px";
    } else if (!group) {
      decided.prepend(card.node);
      if (focused) moveOn(next, card);
    }
  }

  function offerToAsk(card) {
    card.askable = true;
    setTimeout(() => endAsking(card), ASKABLE);
  }

  function endAsking(card) {
    card.askable = false;
    const button = card.node.querySelector(".mew-ask-again");
    if (button && holdsFocus(button)) card.node.focus({ preventScroll: true });
    const around = button?.parentElement;
    button?.remove();
    if (around && !around.childElementCount) around.remove();
  }

  // The keyboard goes on to what is open; after the last of it back to the notebook, which can be run on. Elsewhere it goes
  // to the line of the decided card, or to the line that opens the list of them.
  function moveOn(next, card) {
    const open = next ?? questions.nodes[0] ?? entriesOf().find((entry) => entry.node.isConnected)?.node;
    if (open) open.focus({ preventScroll: true });
    else if (!goBack(root)) (card && showRecent ? card.node : toggle).focus({ preventScroll: true });
  }

  function showDecided(on) {
    showRecent = on;
    if (!on) showHistory = false;
    history();
  }

  // The last entry in the list that the pointer or the focus is on.
  function heldNode() {
    return [...list.children].filter((node) => node.matches(":hover") || holdsFocus(node)).at(-1) ?? null;
  }

  // Whether the pointer or the focus is on what can still be decided, or the pointer on `above`, which stands above that.
  function mayBePressed(above) {
    const open = [...questions.nodes, ...entriesOf().map((entry) => entry.node)];
    return (
      open.some((node) => node.matches(":hover") || holdsFocus(node)) ||
      (open.length > 0 && above.matches(":hover"))
    );
  }

  function isHeld(node, held) {
    return Boolean(
      held && (held === node || held.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_PRECEDING),
    );
  }

  // An entry is a table of cards, or a card that is in none.
  function entriesOf() {
    const open = [...cards.values()].filter((card) => isOpen(card.data) && !card.group);
    return sortEntries([
      ...open.map((card) => ({
        node: card.node,
        card,
        warnings: card.data.warnings.length,
        seq: card.data.seq,
        brief: card.brief,
      })),
      ...[...groups]
        .filter((group) => !group.ended)
        .map((group) => ({
          node: group.node,
          card: group,
          brief: group.brief,
          warnings: Math.max(...[...group.rows.keys()].map((card) => card.data.warnings.length)),
          seq: group.data.seq,
        })),
    ]);
  }

  function place() {
    const entries = entriesOf(),
      held = heldNode();
    for (const card of cards.values()) {
      if (!card.kept || isHeld(card.node, held)) continue;
      card.kept = false;
      card.node.style.minHeight = card.node.style.marginBottom = "";
      decided.prepend(card.node);
    }
    for (const group of groups) {
      if (!group.ended || isHeld(group.node, held)) continue;
      groups.delete(group);
      group.leave();
    }
    const wanted = entries.map((entry) => entry.node),
      now = [...list.children];
    const order = placeEntries(now, wanted, held);
    // A text that moves in the page would lose the place to which it is scrolled.
    const scrolled = [...list.querySelectorAll(".mew-whole")].map((node) => [node, node.scrollTop]);
    placeNodes(list, order);
    for (const [node, top] of scrolled) if (node.scrollTop !== top) node.scrollTop = top;
    const at = held ? order.indexOf(held) : -1,
      full = chooseFull(entries, (entry) => order.indexOf(entry.node) >= at);
    for (const entry of entries) setBrief(entry.card, !full.has(entry));
  }

  // What stands above the list keeps its height while something is held, unless the person's own decision moves the list
  // in any case: then a banner comes or goes, and the header takes the height that it needs.
  function holdAbove() {
    const held = heldNode() && !moves;
    moves = false;
    header.node.style.height = held ? `${header.node.offsetHeight}px` : "";
    header.node.style.overflow = held ? "hidden" : "";
    if (held) return;
    banner.hidden = !known.banner;
    write(banner, known.banner ?? "");
    hurry.hidden = !known.hurry;
    write(hurry, known.hurry ? `${known.hurry} Read the next one twice.` : "");
  }

  function release() {
    clearTimeout(later);
    later = setTimeout(tidy, SETTLE);
  }
  for (const kind of ["pointerleave", "focusout"]) list.addEventListener(kind, release);

  /**
   * Another part asks for a card, by the id of its proposal or of a request for it; or for the first open one.
   * @param {{ id?: string, first?: boolean }} asked
   */
  function reveal({ id, first }) {
    if (first) {
      const [entry] = entriesOf(),
        [question] = questions.nodes;
      if (question) {
        question.focus({ preventScroll: true });
        question.scrollIntoView({ block: "nearest" });
        return true;
      }
      if (!entry) return false;
      setBrief(entry.card, false);
      entry.node.focus({ preventScroll: true });
      entry.node.scrollIntoView({ block: "nearest" });
      return true;
    }
    const card = cards.get(id) ?? [...cards.values()].find(({ data }) => data.sent && data.sent === id);
    if (!card) return false;
    if (!isOpen(card.data)) {
      showDecided(true);
      card.node.hidden = false;
      card.asked = true;
    } else setBrief(card.group ?? card, false);
    const node = card.group?.node ?? card.node;
    node.scrollIntoView({ block: "nearest" });
    node.focus({ preventScroll: true });
    return true;
  }

  function granted(item) {
    toast(item.text, {
      action: {
        text: "Undo",
        run: async () => {
          const done = await link.act("take_back", { grant: item.grant });
          if (done) toast(done.said);
        },
      },
    });
  }

  function openValue(item) {
    const card = cards.get(item.proposal);
    if (!card || !isOpen(card.data)) return;
    for (const face of new Set([card.front, card.face]))
      if (face.digest === item.digest) expandValue(face, item.index, item.text);
    if (card.face.name === "grant") card.face.closed.delete(item.index);
    for (const whole of card.whole ?? [])
      if (whole.index === item.index && item.digest === card.data.digest) whole.show(item.text);
  }

  function confirmShown(item) {
    const card = cards.get(item.id);
    if (!card?.front) return;
    for (const face of new Set([card.front, card.face])) {
      if (face.digest !== item.digest) continue;
      face.since ??= performance.now();
      face.ready = performance.now() + 1000 * item.left;
    }
  }

  function say(card, text) {
    if (!card.notice?.isConnected) return void notice({ text });
    card.notice.hidden = !text;
    card.notice.textContent = text;
  }

  function notice(item) {
    const card = cards.get(item.proposal);
    if (item.again)
      for (const face of card?.front ? new Set([card.front, card.face]) : [])
        face.reported = face.since = null;
    if (card && isOpen(card.data) && !card.group) {
      say(card, item.text);
      return settle(card, false);
    }
    link.notice(item.text);
  }

  function age(card) {
    if (card.age) write(card.age, `waiting ${elapsedTime(link.now() - card.data.since)}`);
  }

  // Cards that were not seen yet are grouped at once, others on request, so that nothing moves by itself. A table of which
  // no row was seen yet takes in what came after it.
  function gather() {
    const held = heldNode();
    const unseen = (group) => group.node !== held && isUnseen(group);
    for (const [shape, members] of findAlike(cards.values(), unseen))
      if (!members.some((card) => card.seen) && !unfolded.has(shape)) join(members);
    const [similar] = findAlike(cards.values(), isWhole);
    together.hidden = !similar;
    if (similar) write(together, `Show ${similar[1].length} similar as a table`);
  }

  function join(members) {
    for (const group of new Set(members.map((card) => card.group).filter(Boolean))) {
      groups.delete(group);
      group.leave();
    }
    const group = groupOf(members, desk);
    groups.add(group);
    return group;
  }

  function fold() {
    const [similar] = findAlike(cards.values(), isWhole);
    if (!similar) return;
    unfolded.delete(similar[0]);
    const group = join(similar[1]);
    setBrief(group, false);
    tidy();
    group.node.focus();
  }

  function jump() {
    const risks = entriesOf().filter((entry) => entry.warnings);
    const nodes = risks.map((entry) => entry.node),
      here = nodes.findIndex((node) => holdsFocus(node) || node.dataset.here);
    for (const node of nodes) delete node.dataset.here;
    const next = risks[(here + 1) % risks.length];
    setBrief(next.card, false);
    next.node.dataset.here = "1";
    next.node.focus();
    next.node.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const nodes = entriesOf().map((entry) => entry.node),
      shown = [...list.children].filter((node) => nodes.includes(node));
    shown.unshift(...questions.nodes);
    const here = shown.findIndex((node) => holdsFocus(node));
    const next = shown[here < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, here + by))];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
  }

  function toggleHistory(on) {
    showHistory = on;
    history();
    if (on) ledger.scrollIntoView({ block: "nearest" });
  }

  function history() {
    const done = decidedCards();
    past.setAttribute("aria-expanded", String(showHistory));
    write(past, `History (${done.length})`);
    write(all, `Show all ${done.length}`);
    all.hidden = done.length <= RECENT || showHistory || !showRecent;
    ledger.hidden = !showHistory;
    decided.hidden = !showRecent;
    toggle.setAttribute("aria-expanded", String(showRecent));
    toggle.title = showRecent ? "Hides the decided requests" : "Shows the decided requests";
    counts.hidden = !showRecent;
    latest.hidden = showRecent || !done.length;
    if (!latest.hidden) {
      latest.replaceChildren(
        ...[...done.at(-1).node.children]
          .filter((node) => !node.matches(".mew-found, .mew-kept, .mew-past-rejection"))
          .map((node) => node.cloneNode(true)),
      );
      latest.classList.toggle("mew-failed", done.at(-1).data.failed);
    }
    if (!showHistory) return;
    const columns = ["Time", "Request", "From", "Decision", "Result"],
      listed = done.reverse().slice(0, KEPT);
    // Not made anew while it is the same: a press that has begun on one of its buttons would be lost.
    if (listed.length === inLedger.length && listed.every((card, n) => card.data === inLedger[n])) return;
    inLedger = listed.map((card) => card.data);
    // The way to the line of a card that has a button.
    const opener = (card) =>
      make("button", {
        class: "mew-to-line mew-quiet",
        text: "Open…",
        "aria-label": `Open: ${card.says}`,
        onclick: () => {
          toggleHistory(false);
          reveal({ id: card.data.id });
        },
      });
    const body = listed
      .map((card) => [card, card.data])
      .map(([card, data]) =>
        make(
          "tr",
          { class: data.failed ? "mew-failed" : "" },
          make("td", {
            class: "mew-num",
            title: data.at === null ? "" : clockHover(data.at),
            text: data.at === null ? "" : clockTime(data.at),
          }),
          make("th", {
            scope: "row",
            class: "mew-code",
            dir: "ltr",
            text: `${whomOf(data)}/${data.call || data.tool || data.method}`,
          }),
          make("td", {}, make("bdi", { text: data.proposer })),
          make("td", {}, make("bdi", { text: data.decision })),
          make(
            "td",
            { class: "mew-result" },
            make("bdi", {
              text: data.failed
                ? `tool failed: ${data.outcome}`
                : data.state === "unknown"
                  ? `not known whether it took effect: ${data.outcome}`
                  : data.outcome,
            }),
            ...(card.node.querySelector(".mew-found, .mew-kept, .mew-again") ? [" ", opener(card)] : []),
          ),
        ),
      );
    ledger.replaceChildren(
      makeTable(columns, make("tbody", {}, ...body), { class: "mew-arguments", "aria-label": "Decisions" }),
    );
  }

  // In the order of deciding.
  function decidedCards() {
    return [...cards.values()]
      .filter((card) => !isOpen(card.data))
      .sort((a, b) => (a.data.at ?? 0) - (b.data.at ?? 0));
  }

  // Keeps as many decided cards as the kernel does; the earliest decisions go first.
  function forget() {
    const done = decidedCards().filter((card) => !card.group && !holdsFocus(card.node));
    for (const card of done.slice(0, Math.max(0, done.length - KEPT))) {
      cards.delete(card.data.id);
      card.node.remove();
    }
  }

  // A call that runs is told in the line of its card, where that is to be seen, else above the cards.
  function placeRuns() {
    const lines = new Map();
    for (const call of runs) {
      const card = (call.fulfils ?? []).map((id) => cards.get(id)).find((card) => card && !isOpen(card.data));
      if (card && showRecent && !card.group && !call.end) lines.set(card, call);
    }
    for (const card of cards.values()) {
      const call = lines.get(card);
      if (call && card.run?.call.id === call.id) card.run.put(call);
      else if (call) {
        card.run?.node.remove();
        card.run = runningNote(link, call, toast);
      } else if (card.run) {
        const focused = holdsFocus(card.run.node);
        card.run.node.remove();
        card.run = null;
        if (focused) moveOn(null, card);
      }
      if (card.run && !card.node.contains(card.run.node))
        card.node.insertBefore(card.run.node, card.node.querySelector(".mew-when"));
    }
    tellRuns();
    tellRunsEachSecond(lines.size);
    running.put(runs.filter((call) => ![...lines.values()].includes(call)));
  }
  function tellRuns() {
    if (link.isOff()) return;
    for (const { run } of cards.values()) run?.tell(link.now());
  }

  function tidy() {
    holdAbove();
    gather();
    forget();
    place();
    questions.update();
    const shown = [...cards.values()].filter((card) => isOpen(card.data)),
      done = decidedCards(),
      open = shown.filter((card) => !card.data.decided);
    const dangerous = open.filter((card) => card.data.warnings.length).length;
    header.setCounts([
      { text: open.length ? `${groupDigits(open.length + (known.more || 0))} open` : "", tone: "wait" },
      { text: unread.size ? `${groupDigits(unread.size)} being read` : "" },
      { text: known.more ? `${groupDigits(known.more)} of them not shown yet` : "" },
      { text: questions.open ? countOf(questions.open, "question") : "", tone: "wait" },
    ]);
    write(counts, known.shares || (done.length ? `${done.length} decided` : ""));
    risky.hidden = !dangerous;
    write(risky, `${countOf(dangerous, "with a warning", "with warnings")} · Next`);
    past.hidden = !done.length;
    recent.classList.toggle("mew-none", !done.length);
    suggest();
    history();
    empty.hidden = shown.length > 0 || unread.size > 0 || questions.open > 0 || known.only;
    waits.hidden = !known.only;
    tellStory();
    keys.hidden = !shown.length;
    placeRuns();
    const last = done.reverse();
    last.forEach((card, n) => {
      card.node.hidden =
        Boolean(card.group) ||
        (n >= RECENT && !card.asked && !card.kept && !card.run && !holdsFocus(card.node));
      if (!card.kept && !card.group && decided.children[n] !== card.node && !holdsFocus(card.node))
        decided.insertBefore(card.node, decided.children[n] ?? null);
    });
    root.dataset.open = open.length;
    called.set(link.isOff() ? 0 : open.length + (known.more || 0) + questions.open, known.space ?? "");
    for (const card of shown) if (card.age && !card.age.textContent) age(card);
    for (const run of [lookOften, ageEachSecond]) run(!link.isOff() && (shown.length || questions.open));
  }

  function look() {
    if (!root.clientHeight) return;
    // All cards are measured before anything is written: a new layout for each card would block the page.
    looks += 1;
    /** @type {Map<unknown, any>} */
    const measured = new Map();
    measured.set("pane", frame.pane());
    measured.set("no", looks);
    const items = [];
    for (const card of cards.values()) {
      if (!isOpen(card.data) || card.group || card.brief) continue;
      card.front.file?.ask();
      lookAt(card.face, measured);
      items.push([card, locateButton(card.face)]);
    }
    for (const [card, seen] of items) {
      if (card.head.done) desk.saw(card, card.face.primary && !card.face.base ? card.face : card.front);
      arm(card.face, seen);
    }
    for (const group of groups) group.arm(measured);
    questions.look(measured);
  }

  // A held key decides nothing: it may have been pressed for something else.
  root.addEventListener("keydown", (event) => {
    const writing = ["INPUT", "TEXTAREA"].includes(event.target.tagName);
    if (event.repeat && ["Enter", " ", "a", "r"].includes(event.key) && !writing)
      return event.preventDefault();
    if (event.key === "Escape") {
      const around = event.target.closest(".mew-card");
      if (around && around !== event.target) {
        event.preventDefault();
        around.focus();
      } else if (!goBack(root)) event.target.blur();
    }
    if (
      !writing &&
      event.target.tagName !== "SELECT" &&
      !event.ctrlKey &&
      !event.metaKey &&
      !event.altKey &&
      !event.target.closest("[role=menu]")
    ) {
      if (event.key === "j") step(1);
      if (event.key === "k") step(-1);
    }
    const decision = { a: "approve", r: "reject" }[event.key];
    if (!decision || event.ctrlKey || event.metaKey || event.altKey || !event.isTrusted) return;
    const group = [...groups].find((group) => group.node === event.target);
    if (group) {
      event.preventDefault();
      if (group.brief) desk.review(group);
      group.press(decision);
    }
    const card = [...cards.values()].find((card) => card.node === event.target);
    if (!card || !isOpen(card.data) || card.face !== card.front) return;
    event.preventDefault();
    arm(card.front);
    if (decision === "reject" && card.brief) desk.review(card);
    if (decision === "reject") card.rejecter?.open();
    else if (card.front.press) card.front.press();
    else if (!isOff(card.front.primary)) desk.decide(card, decision);
  });
  root.addEventListener("keydown", (event) => {
    const card = [...groups, ...cards.values()].find((card) => card.node === event.target);
    if (event.key === "Enter" && !event.repeat && card?.brief) desk.review(card);
  });

  tidy();
  return () => {
    for (const run of [lookOften, ageEachSecond, pingEachSecond, storyEachSecond, tellRunsEachSecond])
      run(false);
    clearTimeout(later);
    endLink();
    frame.end();
    called.end();
    kept.end();
    running.end();
    link.end();
  };
}

export default { render };
