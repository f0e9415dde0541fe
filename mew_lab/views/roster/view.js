// The participants. A row is built once and then changed in place, so that nothing moves and the keyboard focus stays.

import { connect } from "../ui/connection.js";
import { announcer, atHand, doer, keepKeys, make, write } from "../ui/elements.js";
import { clockTime, groupDigits, elapsedTime } from "../ui/text.js";

const PRESENCE = { here: "●", paused: "‖", "shut down": "■", left: "○", removed: "×", invited: "◌" };
const ARMING = 500, PAGE = 200, GONE = new Set(["left", "removed"]);
const VERBS = { status: "Request status", pause: "Pause…", resume: "Resume", forget: "Forget…", compact: "Compact…", clear: "Clear…", restart: "Restart…", shutdown: "Shut down…", kick: "Remove…" };
const ASKS = {
  clear: ["Erase the whole context of", "Clear"], restart: ["Reset to its baseline:", "Restart"],
  shutdown: ["End all activity of", "Shut down"], kick: ["Remove, and invalidate its tokens:", "Remove"],
};
let MEW_ROSTERS = 0;

function render({ model, el }) {
  const own = `mew-roster-${MEW_ROSTERS++}-`;
  const root = make("section", { class: "mew mew-roster", "aria-label": "Roster" });
  const title = make("span", { class: "mew-title" });
  const inviter = make("button", { type: "button", class: "mew-invite", text: "Invite…", "aria-expanded": "false", onclick: () => openInvite() });
  const form = make("div", { class: "mew-form-place" });
  const invited = make("ul", { class: "mew-invited", "aria-label": "Invitations" });
  const list = make("ul", { class: "mew-rows", "aria-label": "Participants" });
  const empty = make("div", { class: "mew-empty", text: 'No participant is here yet. lab.join("helper") adds one.' });
  const more = make("button", { type: "button", class: "mew-more", hidden: true, onclick: () => showMore() });
  root.append(make("div", { class: "mew-head" }, title, make("span", { class: "mew-gap" }), inviter), form, invited, list, empty, more);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  const rows = new Map(), invitations = new Map();
  let head = { counts: [], total: 0, invited: [] }, deeds = [], profiles = [], offset = 0, ticks = null, ids = 0;
  const link = connect(model, root, {
    from: () => 0,
    item(item) {
      if (item.t === "snapshot") {
        offset = item.now - Date.now() / 1000;
        deeds = item.deeds;
        profiles = item.profiles;
        const kept = new Set(item.rows.map((row) => row.id));
        for (const [id, row] of rows) if (!kept.has(id)) { row.node.remove(); rows.delete(id); }
        for (const row of item.rows) put(row);
        setHead(item);
      } else if (item.t === "rows") for (const row of item.rows) put(row, makeRoom);
      else if (item.t === "told") for (const [id, status] of item.told) setStatus(id, status);
      else if (item.t === "head") setHead(item);
    },
    done: paint,
  });

  const now = () => Date.now() / 1000 + offset;
  const set = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };

  function setHead(item) {
    head = item;
    set(inviter, "aria-disabled", item.barred ? "true" : "false");
    inviter.title = item.barred || "Invite a new participant";
    if (item.barred) inviter.setAttribute("aria-description", item.barred);
    else inviter.removeAttribute("aria-description");
    for (const invited of item.invited) showInvitation(invited);
    for (const [id, node] of invitations) if (!item.invited.some((invited) => invited.id === id)) { node.remove(); invitations.delete(id); }
  }

  async function showMore() {
    const done = await link.act("more", { after: rows.size });
    for (const row of done?.value ?? []) put(row);
    paint();
  }

  // Rows.

  // In a full page a new participant replaces the first one that is gone; returns whether there is room.
  function makeRoom(data) {
    if (rows.size < PAGE) return true;
    if (GONE.has(data.presence)) return false;
    const [id, row] = [...rows].find(([, row]) => GONE.has(row.data.presence) && !row.place.firstChild && !row.node.contains(document.activeElement)) ?? [];
    if (!row) return false;
    row.node.remove();
    rows.delete(id);
    return true;
  }

  function put(data, admit = () => true) {
    const row = rows.get(data.id) ?? (admit(data) ? build(data) : null);
    if (!row) return;
    const before = row.data?.presence;
    row.data = data;
    if (before && before !== data.presence) announce(`${data.name}: ${data.presence}`);
    fill(row);
  }

  function setStatus(id, lastStatus) {
    const row = rows.get(id);
    if (!row) return;
    row.data.told = lastStatus;
    showStatus(row);
  }

  function build(data) {
    const row = { node: make("li", { class: "mew-row" }) };
    const drawer = `${own}${ids++}`;
    row.dot = make("span", { class: "mew-dot", "aria-hidden": "true" });
    row.word = make("span", { class: "mew-word" });
    row.name = make("bdi", { class: "mew-name mew-code" });
    row.you = make("span", { class: "mew-you", text: " (you)", hidden: true });
    row.what = make("bdi", { class: "mew-what" });
    row.may = make("button", { type: "button", class: "mew-may", "aria-expanded": "false", "aria-controls": drawer, onclick: () => toggleMay(row) });
    row.words = make("bdi");
    row.may.append(make("span", { class: "mew-twist", "aria-hidden": "true", text: "▸" }), row.words);
    row.ring = make("span", { class: "mew-ring", "aria-hidden": "true" });
    row.left = make("span", { class: "mew-left-time" });
    row.why = make("bdi", { class: "mew-dim" });
    row.held = make("div", { class: "mew-held", hidden: true }, row.ring, row.left, " ", row.why);
    row.status = make("div", { class: "mew-status" });
    row.menu = make("button", { type: "button", class: "mew-menu-button", text: "⋯", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => openMenu(row) });
    row.patterns = make("div", { class: "mew-patterns", id: drawer, hidden: true });
    row.place = make("div", { class: "mew-place" });
    row.said = make("div", { class: "mew-said", hidden: true });
    row.node.append(
      make("div", { class: "mew-who" }, row.dot, make("span", { class: "mew-names" }, row.name, row.you, make("span", { class: "mew-sub" }, row.word, " · ", row.what))),
      make("div", { class: "mew-can" }, row.may, row.held), row.status, row.menu, row.patterns, row.place, row.said);
    rows.set(data.id, row);
    list.append(row.node);
    return row;
  }

  function fill(row) {
    const data = row.data;
    set(row.node, "data-id", data.name);
    set(row.node, "data-presence", data.presence);
    write(row.dot, PRESENCE[data.presence] ?? "●");
    write(row.word, data.presence);
    row.word.title = data.since ? `since ${clockTime(data.since)}` : "";
    write(row.name, data.name);
    row.name.title = [data.whole, ...data.ids.map((id) => `connected as ${id}`)].join("\n");
    row.you.hidden = !data.you;
    write(row.what, data.what);
    write(row.words, data.sentence);
    row.may.title = data.sentence;
    set(row.may, "aria-label", `${data.name} ${data.sentence}. Patterns`);
    set(row.menu, "aria-label", `Actions on ${data.name}`);
    if (!row.patterns.hidden) showPatterns(row);
    showStatus(row);
    showPause(row);
    if (row.items) for (const [deed, item] of row.items) setObstacle(row, deed, item);
  }

  function showPatterns(row) {
    const data = row.data;
    const items = data.patterns.map((text) => make("li", {}, make("code", { dir: "ltr", text })));
    if (data.left) items.push(make("li", { text: `and ${data.left} more` }));
    if (!items.length) items.push(make("li", { text: "no capability is held" }));
    row.patterns.replaceChildren(make("div", { class: "mew-full" }, make("bdi", { text: data.sentence })), make("ul", { "aria-label": `Patterns of ${data.name}` }, ...items));
  }

  function toggleMay(row) {
    const open = row.patterns.hidden;
    row.patterns.hidden = !open;
    set(row.may, "aria-expanded", String(open));
    write(row.may.firstChild, open ? "▾" : "▸");
    if (open) showPatterns(row);
  }

  // The last status of a participant.

  function showStatus(row) {
    const lastStatus = row.data.told;
    row.aged = null;
    if (!lastStatus) {
      row.status.replaceChildren();
      return;
    }
    const parts = [];
    if (lastStatus.usage !== null) {
      const part = Math.min(lastStatus.usage, 1), percent = `${Math.floor(lastStatus.usage * 100)} %`;
      const text = `${groupDigits(lastStatus.tokens)} of ${groupDigits(lastStatus.max_tokens)} tokens, ${percent}`;
      const fill = make("span", { class: "mew-fill" });
      fill.style.width = `${part * 100}%`;
      parts.push(make("div", { class: lastStatus.near_limit ? "mew-meter mew-near" : "mew-meter", role: "meter", "aria-label": "context used", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(part * 100), "aria-valuetext": text, title: text }, fill));
      parts.push(make("span", { class: "mew-figure", text: `${lastStatus.near_limit ? "⚠ " : ""}${groupDigits(lastStatus.tokens)} / ${groupDigits(lastStatus.max_tokens)} tokens` }));
    } else if (lastStatus.tokens !== null) parts.push(make("span", { class: "mew-figure", text: `${groupDigits(lastStatus.tokens)} tokens` }));
    if (lastStatus.messages !== null) parts.push(make("span", { class: "mew-figure", text: `${groupDigits(lastStatus.messages)} messages` }));
    if (lastStatus.latency_ms !== null) parts.push(make("span", { class: "mew-figure", text: `${groupDigits(Math.round(lastStatus.latency_ms))} ms` }));
    if (lastStatus.status) parts.push(make("bdi", { class: "mew-state", text: lastStatus.status }));
    row.aged = make("span", { class: "mew-dim mew-aged", title: `reported at ${clockTime(lastStatus.at)}` });
    const rest = lastStatus.more.map(([name, value]) => `${name}: ${value}`).join("\n");
    row.status.title = rest;
    row.status.replaceChildren(...parts, row.aged);
    showAge(row);
  }

  function showAge(row) {
    if (!row.aged) return;
    const seconds = Math.max(0, now() - row.data.told.at);
    write(row.aged, seconds < 60 ? `as of ${Math.floor(seconds)} s ago` : seconds < 3600 ? `as of ${Math.floor(seconds / 60)} min ago` : `as of ${clockTime(row.data.told.at)}`);
  }

  function showPause(row) {
    const paused = row.data.paused;
    row.held.hidden = !paused;
    if (!paused) return;
    write(row.why, `by ${paused.by}${paused.reason ? `: ${paused.reason}` : ""}`);
    row.ring.hidden = paused.until === null;
    const left = paused.until === null ? null : Math.max(0, paused.until - now());
    write(row.left, left === null ? "paused until resumed" : `resumes in ${elapsedTime(Math.ceil(left))}`);
    row.left.title = paused.until === null ? "" : `until ${clockTime(paused.until)}`;
    if (left !== null && paused.since !== null) row.ring.style.setProperty("--mew-part", String(Math.min(1, left / Math.max(0.001, paused.until - paused.since))));
  }

  // The menu of a row opens below it, so that nothing can cover it.

  function openMenu(row) {
    if (row.items) return closePlace(row, true);
    closePlace(row, false);
    const menu = make("div", { class: "mew-menu", role: "menu", "aria-label": `Actions on ${row.data.name}` });
    row.items = new Map();
    for (const [deed, about, grave] of deeds) {
      if (grave && !menu.querySelector("[role=separator]")) menu.append(make("span", { role: "separator", class: "mew-separator" }));
      const item = make("button", { type: "button", role: "menuitem", tabindex: -1, class: grave ? "mew-grave" : null, text: VERBS[deed] ?? deed, "data-deed": deed, onclick: (event) => choose(row, deed, about, grave, event) });
      item.dataset.about = about;
      row.items.set(deed, item);
      setObstacle(row, deed, item);
      menu.append(item);
    }
    const about = make("div", { class: "mew-about" });
    const tell = (event) => { if (event.target.dataset?.deed) write(about, event.target.title); };
    menu.addEventListener("focusin", tell);
    menu.addEventListener("pointerover", tell);
    menu.addEventListener("keydown", (event) => moveInMenu(event, row, menu));
    row.place.replaceChildren(menu, about);
    set(row.menu, "aria-expanded", "true");
    menu.querySelector("button").focus();
  }

  function setObstacle(row, deed, item) {
    const why = row.data.against[deed] ?? "";
    set(item, "aria-disabled", why ? "true" : "false");
    item.title = why || item.dataset.about;
    set(item, "aria-description", item.title);
  }

  function moveInMenu(event, row, menu) {
    const items = [...menu.querySelectorAll("button")], at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      items[(to + items.length) % items.length].focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      if (event.key === "Escape") event.preventDefault();
      closePlace(row, event.key === "Escape");
    }
  }

  function closePlace(row, back) {
    row.items = null;
    clearTimeout(row.arming);
    row.place.replaceChildren();
    set(row.menu, "aria-expanded", "false");
    if (back) row.menu.focus();
  }

  function choose(row, deed, about, grave, event) {
    if (!event.isTrusted || event.currentTarget.getAttribute("aria-disabled") === "true") return;
    if (deed === "status" || deed === "resume") {
      closePlace(row, true);
      return void perform(row, deed, {});
    }
    ask(row, deed, about, grave);
  }

  function ask(row, deed, about, grave) {
    row.items = null;
    const fields = [], collect = {};
    const field = (name, label, attributes, number) => {
      const input = make("input", { "aria-label": label, ...attributes });
      collect[name] = () => (number ? (input.value.trim() === "" ? null : Number(input.value)) : input.value.trim());
      fields.push(make("label", {}, `${label} `, input));
      return input;
    };
    if (deed === "pause") field("timeout_seconds", "for seconds", { type: "number", min: 1, step: "any", value: 60, placeholder: "until resumed" }, true);
    if (deed === "forget") {
      const which = make("select", { "aria-label": "which end" }, make("option", { text: "oldest" }), make("option", { text: "newest" }));
      collect.direction = () => which.value;
      fields.push(make("label", {}, "the ", which));
      field("entries", "entries", { type: "number", min: 1, step: 1, placeholder: "its choice" }, true);
    }
    if (deed === "compact") field("target_tokens", "to tokens", { type: "number", min: 1, step: 1, placeholder: "its choice" }, true);
    if (deed !== "forget") field("reason", "reason", { type: "text", maxlength: 300 });
    const [asks, verb] = grave ? ASKS[deed] : [VERBS[deed].replace("…", ""), VERBS[deed].replace("…", "")];
    const cancel = make("button", { type: "button", text: "Cancel", onclick: () => closePlace(row, true) });
    const go = async () => {
      const choices = Object.fromEntries(Object.entries(collect).map(([name, read]) => [name, read()]));
      closePlace(row, true);
      await perform(row, deed, choices);
    };
    const sure = doer(verb, go, { class: grave ? "mew-sure mew-grave" : "mew-sure", "aria-label": `${verb} ${row.data.name}` });
    const question = make("div", { class: "mew-question" }, `${asks} `, make("bdi", { class: "mew-code", text: row.data.name }), grave ? "?" : "");
    const box = make("div", { class: "mew-ask", role: "group", "aria-label": `${verb} ${row.data.name}: ${about}` }, question, ...fields, make("span", { class: "mew-gap" }), make("span", { class: "mew-pair" }, cancel, sure));
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") closePlace(row, true);
      else if (event.key === "Enter" && event.target.tagName === "INPUT" && !grave && event.isTrusted && !event.repeat) go();
      else return;
      event.preventDefault();
    });
    row.place.replaceChildren(box);
    if (grave) {
      sure.setAttribute("aria-disabled", "true");
      row.arming = setTimeout(() => sure.setAttribute("aria-disabled", "false"), ARMING);
      cancel.focus();
    } else {
      const first = box.querySelector("input, select") ?? cancel;
      first.focus();
      first.select?.();
    }
  }

  async function perform(row, deed, choices) {
    report(row, `${(VERBS[deed] ?? deed).replace("…", "")}: requested at ${clockTime(now())}, waiting for the answer`);
    const done = await link.act("do", { deed, target: row.data.id, ...choices });
    report(row, done ? `${done.said} · ${clockTime(now())}` : "");
    if (done) announce(done.said);
  }

  function report(row, text) {
    row.said.hidden = !text;
    row.said.replaceChildren(make("bdi", { text }));
  }

  // Invitations.

  function openInvite() {
    if (inviter.getAttribute("aria-disabled") === "true") return void link.notice(head.barred);
    if (form.firstChild) return closeInvite();
    const name = make("input", { type: "text", maxlength: 64, "aria-label": "id of the new participant", placeholder: "its id, such as reviewer" });
    const can = make("select", { "aria-label": "what it may do" }, make("option", { value: "starter", text: "starter: the restricted profile" }),
      ...profiles.map(([profile]) => make("option", { value: profile, text: profile })), make("option", { value: "patterns", text: "patterns of your own" }));
    const rights = make("div", { class: "mew-dim" });
    const patterns = make("textarea", { rows: 3, class: "mew-code", "aria-label": "capability patterns, a JSON list", hidden: true, spellcheck: "false", text: '[{"kind": "chat"}]' });
    const tell = () => {
      patterns.hidden = can.value !== "patterns";
      write(rights, can.value === "starter" ? "may propose; withdraw; answer; chat; report its status" : profiles.find(([profile]) => profile === can.value)?.[1] ?? "what your patterns allow");
    };
    can.addEventListener("change", tell);
    tell();
    const reason = make("input", { type: "text", maxlength: 300, "aria-label": "reason", placeholder: "reason (everybody sees it)" });
    const send = doer("Invite", async () => {
      const done = await link.act("invite", { name: name.value, can: can.value, patterns: patterns.value, reason: reason.value });
      if (done) { announce(done.said); closeInvite(); }
    });
    const cancel = make("button", { type: "button", text: "Cancel", onclick: closeInvite });
    const box = make("div", { class: "mew-ask", role: "group", "aria-label": "Invite" }, name, can, reason, make("span", { class: "mew-gap" }), make("span", { class: "mew-pair" }, cancel, send), rights, patterns);
    box.addEventListener("keydown", (event) => { if (event.key === "Escape") closeInvite(); });
    form.replaceChildren(box);
    set(inviter, "aria-expanded", "true");
    name.focus();
  }

  function closeInvite() {
    const focused = atHand(form);
    form.replaceChildren();
    set(inviter, "aria-expanded", "false");
    if (focused) inviter.focus();
  }

  function showInvitation(invitee) {
    let node = invitations.get(invitee.id);
    if (!node) {
      node = make("li", { class: "mew-invitation" });
      invitations.set(invitee.id, node);
      invited.append(node);
    }
    // A shown token stays until it is hidden, because it is sent only once. A button that is in use is not made again.
    const state = String(invitee.shown ?? "");
    if (node.dataset.open || node.dataset.state === state) return;
    node.dataset.state = state;
    const label = make("span", {}, "token for ", make("bdi", { class: "mew-code", text: invitee.name }), invitee.shown ? ` was shown at ${clockTime(invitee.shown)}` : " ready: it is shown once");
    const button = doer("Show the token", () => reveal(invitee, node), { "aria-label": `Show the token of ${invitee.name}, once` });
    node.replaceChildren(label, make("span", { class: "mew-gap" }), ...(invitee.shown ? [] : [button]));
  }

  async function reveal(invited, node) {
    const done = await link.act("reveal", { id: invited.id });
    if (!done) return;
    node.dataset.open = "1";
    const focused = atHand(node);
    const secret = make("code", { class: "mew-secret", dir: "ltr", text: done.value.token });
    const copy = make("button", { type: "button", text: "Copy", onclick: async () => {
      try { await navigator.clipboard.writeText(done.value.token); copy.textContent = "Copied"; } catch (error) { getSelection().selectAllChildren(secret); }
    } });
    const hide = make("button", { type: "button", text: "Hide for good", onclick: () => {
      delete node.dataset.open;
      delete node.dataset.state;
      showInvitation({ ...invited, shown: head.invited.find((other) => other.id === invited.id)?.shown ?? now() });
      inviter.focus();
    } });
    node.replaceChildren(
      make("div", { class: "mew-token" }, make("span", {}, "token of ", make("bdi", { class: "mew-code", text: invited.name }), " – hand it over through a private channel:"), secret),
      make("div", { class: "mew-dim" }, "Its holder joins with MEW_TOKEN set: ", make("code", { dir: "ltr", text: done.value.line })),
      make("span", { class: "mew-gap" }), copy, hide);
    if (focused) hide.focus();
  }

  // The header, and the changes of time.

  function paint() {
    const numbers = head.counts.map(([presence, n]) => `${groupDigits(n)} ${presence}`).join(" · ");
    write(title, `${head.space ?? ""}${numbers ? ` · ${numbers}` : ""}`);
    empty.hidden = rows.size > 0;
    more.hidden = rows.size >= head.total;
    write(more, `${groupDigits(head.total - rows.size)} more participants ▸ show ${Math.min(PAGE, head.total - rows.size)}`);
    invited.hidden = !invitations.size;
    root.dataset.rows = String(rows.size);
    const moving = [...rows.values()].some((row) => row.aged || row.data.paused);
    if (moving && !ticks) ticks = setInterval(tick, 1000);
    else if (!moving) { clearInterval(ticks); ticks = null; }
  }

  function tick() {
    if (!root.clientHeight) return;
    for (const row of rows.values()) {
      showAge(row);
      if (row.data.paused) showPause(row);
    }
  }

  return () => {
    clearInterval(ticks);
    for (const row of rows.values()) clearTimeout(row.arming);
    link.end();
  };
}

export default { render };
