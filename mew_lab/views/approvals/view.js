// The cards in order of arrival. The content of a card never changes, and a card never moves except by scrolling. A decision
// is sent with the id and the digest of the shown content, and the nonce of the live kernel; never with a payload.

import { connect } from "../ui/connection.js";
import { announcer, keepKeys, make, write } from "../ui/elements.js";
import { clockTime, elapsedTime } from "../ui/text.js";
import { arm, cardOf, collapse, isOff, isOpen, locateButton, lookAt, openIn, settle, whomOf } from "./cards.js";
import { findAlike, groupOf } from "./groups.js";
import { frameWatch } from "./reading.js";

const KEPT = 200;
const UNTOLD = "its outcome was lost";

function render({ model, el }) {
  const root = make("section", { class: "mew mew-approvals", "aria-label": "Approvals" });
  const counts = make("span", { class: "mew-counts" });
  const risky = make("button", { type: "button", class: "mew-risky", hidden: true, onclick: () => jump() });
  const together = make("button", { type: "button", class: "mew-together", hidden: true, onclick: (event) => { if (event.isTrusted) fold(); } });
  const past = make("button", { type: "button", class: "mew-history", "aria-expanded": "false", hidden: true, onclick: () => { showHistory = !showHistory; history(); } });
  const ledger = make("div", { class: "mew-ledger", hidden: true, role: "region", tabindex: 0, "aria-label": "Decisions so far" });
  const banner = make("div", { class: "mew-banner", role: "note", hidden: true });
  const hurry = make("div", { class: "mew-banner mew-hurry", role: "status", hidden: true });
  const earlier = make("button", { type: "button", class: "mew-earlier", hidden: true, onclick: () => {
    showAll = true;
    const first = [...cards.values()].find((card) => card.node.hidden && !card.group);
    tidy();
    first?.node.focus();
  } });
  const list = make("ul", { class: "mew-cards", role: "list" });
  const empty = make("div", { class: "mew-empty" });
  const notices = make("div", { class: "mew-notices" });
  root.append(make("div", { class: "mew-head" }, make("b", { text: "Approvals" }), counts, risky, together, make("span", { class: "mew-gap" }), past), banner, hurry, ledger, earlier, list, empty, notices);
  empty.append("Nothing to approve. When a participant that may only propose calls a tool, a card appears here: ",
    make("code", { text: 'bot.call("git/git_log", {"repo_path": repo})' }));
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  const cards = new Map(), groups = new Set(), unfolded = new Set();
  let nonce = null, known = { targets: [], reasons: [], limits: [], more: 0 }, offset = 0, showAll = false, showHistory = false, watch = null, ticks = null, pings = null, looks = 0;

  const frame = frameWatch(root);
  const link = connect(model, root, {
    from: () => 0,
    off: () => {
      if (root.contains(document.activeElement)) document.activeElement.closest(".mew-card")?.focus();
      tidy();
    },
    item(item) {
      if (item.t === "snapshot") {
        nonce = item.nonce;
        offset = item.now - Date.now() / 1000;
        head(item);
        for (const card of item.cards) put(card);
        const ids = new Set(item.cards.map((card) => card.id));
        // These were decided, and dropped since, while messages were lost.
        for (const { data } of [...cards.values()]) if (isOpen(data) && !ids.has(data.id)) put({ ...data, state: "lapsed", decision: "over", at: item.now, by: "", onScreen: null, outcome: UNTOLD, past: `over: ${UNTOLD}` });
      } else if (item.t === "card") put(item.card);
      else if (item.t === "head") head(item);
      else if (item.t === "value") openValue(item);
      else if (item.t === "shown") confirmShown(item);
      else if (item.t === "notice") notice(item);
    },
    done: tidy,
  });

  const desk = {
    link, announce, say,
    isOff: () => link.isOff(),
    reasons: () => known.reasons,
    limits: () => known.limits,
    more: () => known.limits.length > 0,
    act: (card, name, choices) => link.act(name, choices, (text) => (isOpen(card.data) ? say(card, text) : link.notice(text))),
    offer(picker) {
      const wanted = ["", ...known.targets.map((pair) => pair[0])];
      if (Array.from(picker.options, (option) => option.value).join("\n") === wanted.join("\n")) return;
      const chosen = picker.value;
      picker.replaceChildren(make("option", { value: "", text: "choose who runs it" }), ...known.targets.map(([id, shown]) => make("option", { value: id, text: shown })));
      picker.value = wanted.includes(chosen) ? chosen : "";
    },
    // The kernel measures from the message that a face is shown; without that message a face decides nothing.
    saw(card, face) {
      card.seen = true;
      if (face.reported || link.isOff()) return;
      face.reported = performance.now();
      link.send({ t: "seen", view: link.view, id: card.data.id, digest: face.digest });
    },
    decide(card, decision, more = {}) {
      const message = { t: "decide", id: card.data.id, digest: card.data.digest, decision, nonce, view: link.view, ...more };
      if (decision === "reject") message.reason = card.words.value.trim() || card.reason.value;
      else if (card.picker) message.target = card.picker.value;
      if (!link.send(message)) return;
      card.sent = performance.now();
      card.notice.hidden = true;
      arm(card.face);
    },
    unfold(group) {
      const first = [...group.rows.keys()][0];
      unfolded.add(first.data.shape);
      groups.delete(group);
      group.leave();
      tidy();
      first.node.focus();
    },
  };

  function head(item) {
    known = item;
    banner.hidden = !item.banner;
    write(banner, item.banner);
    hurry.hidden = !item.hurry;
    write(hurry, item.hurry ? `${item.hurry} Read the next one twice.` : "");
    for (const card of cards.values()) if (card.picker) desk.offer(card.picker);
    clearInterval(pings);
    pings = item.waiting ? setInterval(() => link.send({ t: "ping", view: link.view }), 1000) : null;
    if (item.waiting) link.send({ t: "ping", view: link.view });
  }

  // A proposal whose id was taken by another one gets another id; its card keeps its place.
  function moveCard(data) {
    const old = [...cards.values()].find((card) => card.data.seq === data.seq && card.data.digest === data.digest);
    if (!old) return undefined;
    cards.delete(old.data.id);
    cards.set(data.id, old);
    return old;
  }

  function put(data) {
    const old = cards.get(data.id) ?? moveCard(data);
    if (!old) {
      const card = cardOf(data, desk);
      cards.set(data.id, card);
      list.append(card.node);
      if (isOpen(data)) announce(`${card.says}, waits for your decision`);
      return;
    }
    if (old.data.digest !== data.digest || old.data.seq !== data.seq) {
      say(old, "The kernel now shows other content under this id. Run the cell of this view again.");
      old.spoilt = true;
      return;
    }
    const was = old.data;
    old.data = { ...data, arguments: was.arguments, gone: was.gone };
    if (isOpen(data)) return settle(old, data.state === "deciding");
    if (isOpen(was)) announce(`${old.says}: ${data.past}`);
    collapse(old);
    if (old.group && !old.group.changed(old)) {
      const group = old.group, focused = group.node.contains(document.activeElement);
      groups.delete(group);
      group.leave();
      if (focused) old.node.focus();
    }
  }

  function openValue(item) {
    const card = cards.get(item.proposal);
    if (!card || !isOpen(card.data)) return;
    for (const face of new Set([card.front, card.face])) if (face.digest === item.digest) openIn(face, item.index, item.text);
    if (card.face.name === "grant") card.face.closed.delete(item.index);
    for (const whole of card.whole ?? []) if (whole.index === item.index && item.digest === card.data.digest) whole.show(item.text);
  }

  function confirmShown(item) {
    const card = cards.get(item.id);
    if (item.view !== link.view || !card?.front) return;
    for (const face of new Set([card.front, card.face])) if (face.digest === item.digest) face.since = performance.now();
  }

  function say(card, text) {
    if (!card.notice?.isConnected) return void notice({ text });
    card.notice.hidden = !text;
    card.notice.textContent = text;
  }

  function notice(item) {
    const card = cards.get(item.proposal);
    if (item.again) for (const face of card?.front ? new Set([card.front, card.face]) : []) face.reported = face.since = null;
    if (card && isOpen(card.data) && !card.group) {
      say(card, item.text);
      return settle(card, false);
    }
    link.notice(item.text);
  }

  function age(card) {
    if (card.age) write(card.age, `waiting ${elapsedTime(Date.now() / 1000 + offset - card.data.since)}`);
  }

  // Cards that were not seen yet are grouped at once, others on request, so that nothing moves by itself.
  function gather() {
    for (const [shape, members] of findAlike(cards.values())) {
      const fresh = members.filter((card) => !card.seen);
      if (fresh.length === members.length && !unfolded.has(shape)) groups.add(groupOf(members, desk));
    }
    const [similar] = findAlike(cards.values());
    together.hidden = !similar;
    if (similar) write(together, `${similar[1].length} alike ▸ one table`);
  }

  function fold() {
    const [similar] = findAlike(cards.values());
    if (!similar) return;
    unfolded.delete(similar[0]);
    const group = groupOf(similar[1], desk);
    groups.add(group);
    tidy();
    group.node.focus();
  }

  function jump() {
    const risks = [...cards.values()].filter((card) => isOpen(card.data) && card.data.warnings.length);
    const all = [...new Set(risks.map((card) => (card.group ? card.group.node : card.node)))];
    const here = all.findIndex((node) => node.contains(document.activeElement) || node.dataset.here);
    for (const node of all) delete node.dataset.here;
    const next = all[(here + 1) % all.length];
    next.dataset.here = "1";
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  function history() {
    past.setAttribute("aria-expanded", String(showHistory));
    write(past, `History ${decidedCards().length} ${showHistory ? "▾" : "▸"}`);
    ledger.hidden = !showHistory;
    if (!showHistory) return;
    const columns = ["at", "call", "from", "decision", "by", "on screen", "outcome"];
    const rows = decidedCards().map((card) => card.data).reverse();
    const body = rows.slice(0, 200).map((data) => make("tr", {},
      make("td", { class: "mew-num", text: data.at === null ? "" : clockTime(data.at) }), make("th", { scope: "row", class: "mew-code", dir: "ltr", text: `${whomOf(data)}/${data.tool || data.method}` }),
      make("td", {}, make("bdi", { text: data.proposer })), make("td", { text: data.decision }), make("td", {}, make("bdi", { text: data.by })),
      make("td", { class: "mew-num", text: data.onScreen === null ? "–" : `${data.onScreen.toFixed(1)} s` }), make("td", {}, make("bdi", { text: data.outcome }))));
    ledger.replaceChildren(make("table", { class: "mew-arguments", "aria-label": "Decisions" }, make("thead", {}, make("tr", {}, ...columns.map((name) => make("th", { scope: "col", text: name })))), make("tbody", {}, ...body)));
  }

  // In the order of deciding, which is not that of arrival.
  function decidedCards() {
    return [...cards.values()].filter((card) => !isOpen(card.data)).sort((a, b) => (a.data.at ?? 0) - (b.data.at ?? 0));
  }

  // Keeps as many decided cards as the kernel does; the earliest decisions go first.
  function forget() {
    const done = decidedCards().filter((card) => !card.group && !card.node.contains(document.activeElement));
    for (const card of done.slice(0, Math.max(0, done.length - KEPT))) {
      cards.delete(card.data.id);
      card.node.remove();
    }
  }

  function tidy() {
    gather();
    forget();
    const all = [...cards.values()], open = all.filter((card) => isOpen(card.data)), done = decidedCards();
    const more = known.more ? ` · ${known.more} more are not shown yet` : "";
    write(counts, `${open.length} open${more} · ${known.shares || `${done.length} decided`}`);
    const dangerous = open.filter((card) => card.data.warnings.length).length;
    risky.hidden = !dangerous;
    write(risky, `⚠ ${dangerous} with warnings ▸ next`);
    past.hidden = !done.length;
    history();
    empty.hidden = open.length > 0;
    done.forEach((card, n) => { card.node.hidden = (!showAll && n < done.length - 12) || Boolean(card.group); });
    earlier.hidden = showAll || done.length <= 12;
    write(earlier, `${done.length - 12} earlier decisions ▸ show`);
    root.dataset.open = open.length;
    for (const card of open) if (card.age && !card.age.textContent) age(card);
    if (link.isOff()) stop();
    else if (open.length && !watch) {
      watch = setInterval(look, 100);
      ticks = setInterval(() => { for (const card of cards.values()) if (isOpen(card.data)) age(card); }, 1000);
    } else if (!open.length) stop();
  }

  function look() {
    if (!root.clientHeight) return;
    // All cards are measured before anything is written: a new layout for each card would block the page.
    looks += 1;
    const known = new Map([["pane", frame.pane()], ["no", looks]]), items = [];
    for (const card of cards.values()) {
      if (!isOpen(card.data) || card.group) continue;
      lookAt(card.face, known);
      items.push([card, locateButton(card.face)]);
    }
    for (const [card, seen] of items) {
      if (card.head.done) desk.saw(card, card.face.primary && !card.face.base ? card.face : card.front);
      arm(card.face, seen);
    }
    for (const group of groups) group.arm(known);
  }

  function stop() {
    clearInterval(watch);
    clearInterval(ticks);
    watch = ticks = null;
  }

  // A held key decides nothing: it may have been pressed for something else.
  root.addEventListener("keydown", (event) => {
    const writing = ["INPUT", "TEXTAREA"].includes(event.target.tagName);
    if (event.repeat && ["Enter", " ", "a", "r"].includes(event.key) && !writing) return event.preventDefault();
    if (event.key === "Escape") {
      const around = event.target.closest(".mew-card");
      if (around && around !== event.target) around.focus();
      else event.target.blur();
    }
    const decision = { a: "approve", r: "reject" }[event.key];
    if (!decision || event.ctrlKey || event.metaKey || event.altKey || !event.isTrusted) return;
    const group = [...groups].find((group) => group.node === event.target);
    if (group) group.press(decision);
    const card = [...cards.values()].find((card) => card.node === event.target);
    if (!card || !isOpen(card.data) || card.face !== card.front) return;
    event.preventDefault();
    arm(card.front);
    if (!isOff(decision === "approve" ? card.front.primary : card.front.reject)) desk.decide(card, decision);
  });

  tidy();
  return () => {
    stop();
    clearInterval(pings);
    frame.end();
    link.end();
  };
}

export default { render };
