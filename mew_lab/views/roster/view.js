// The participants, one line each. A row is built once and then changed in place, so that nothing moves and the keyboard
// focus stays. Where the view is narrow, the permissions are behind the avatars; in a strip only the avatars are in sight, and a
// press on one opens its row beside it.

import { connect } from "../ui/connection.js";
import {
  announcer,
  atHand,
  doer,
  holdsFocus,
  isOff,
  keepKeys,
  make,
  newId,
  onEscape,
  setAttribute,
  sureDoer,
  ticker,
  turnOff,
  write,
} from "../ui/elements.js";
import { copyButton } from "../ui/copy.js";
import { emptyState } from "../ui/empty.js";
import { makeHeader } from "../ui/header.js";
import { onOpen, openIn } from "../ui/links.js";
import { menuButton } from "../ui/menu.js";
import { showPopover } from "../ui/popover.js";
import { keyedRows } from "../ui/tables.js";
import { PATTERN_HELP, clockHover, clockTime, countOf, groupDigits, elapsedTime } from "../ui/text.js";
import { makeToaster } from "../ui/toast.js";
import { KIND_ICONS, KIND_WORDS, describeState, initials, isMoving } from "./person.js";

const PAGE = 200;
const CHIPS = 3;
const STRIP = 72;
const SMALL = 641;
const GONE = new Set(["left", "removed"]);
const VERBS = {
  status: "Request status",
  pause: "Pause…",
  resume: "Resume",
  cancel_reasoning: "Cancel reasoning…",
  forget: "Shorten context…",
  compact: "Compact context…",
  clear: "Clear context…",
  restart: "Restart…",
  shutdown: "Shut down…",
  kick: "Remove…",
};
const ASKS = {
  clear: ["Erase the whole context of", "Clear"],
  restart: ["Reset to its initial state:", "Restart"],
  shutdown: ["End all activity of", "Shut down"],
  kick: ["Remove, and invalidate its tokens:", "Remove"],
};

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-roster", "aria-label": "Participants" });
  const header = makeHeader({
    title: "Participants",
    keys: [
      ["↑ ↓", "Move through a menu"],
      ["Esc", "Close a menu or a form"],
    ],
  });
  const pauser = doer("Pause agents", () => pauseAgents(), { class: "mew-pause-all", hidden: true });
  const inviter = make("button", {
    class: "mew-invite",
    text: "Invite…",
    "aria-expanded": "false",
    onclick: () => openInvite(),
  });
  header.actions.append(pauser, inviter);
  const form = make("div", { class: "mew-form-place" });
  const invited = make("ul", { class: "mew-invited", "aria-label": "Invitations" });
  const inviting = make("div", { class: "mew-inviting" }, form, invited);
  const list = make("ul", { class: "mew-rows", "aria-label": "Participants" });
  const empty = emptyState("No participants yet.", { code: 'lab.join("helper")' });
  const more = make("button", { class: "mew-more", hidden: true, onclick: () => showMore() });
  const plus = make("button", {
    class: "mew-plus",
    text: "+",
    title: "Invite a participant",
    "aria-label": "Invite a participant",
    "aria-expanded": "false",
    onclick: () => openInviteBeside(),
  });
  root.append(header.node, inviting, list, empty, more, plus);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root),
    toast = makeToaster(root);

  const participants = keyedRows(list, { keyOf: ({ id }) => id, build, fill }),
    rows = participants.rows;
  const invitations = keyedRows(invited, {
    keyOf: ({ id }) => id,
    build: () => ({ node: make("li", { class: "mew-invitation" }) }),
    fill: showInvitation,
  });
  let head = { space: "", counts: [], total: 0, invited: [], agents: [0, 0], may: {} },
    deeds = [],
    profiles = [],
    strip = false,
    small = false;
  const link = connect(adapter, root, {
    from: () => 0,
    items: {
      snapshot(item) {
        deeds = item.deeds;
        profiles = item.profiles;
        participants.keep(item.rows);
        for (const row of item.rows) put(row);
        setHead(item);
      },
      rows({ rows }) {
        for (const row of rows) put(row, makeRoom);
      },
      told({ told }) {
        for (const [id, status, doing] of told) setStatus(id, status, doing);
      },
      head: setHead,
    },
    done: paint,
  });
  const leave = onOpen(root, "roster", ({ id }) => {
    const row = rows.get(id);
    if (row) (small ? row.avatar : row.chips).focus();
    return Boolean(row);
  });
  const width = new ResizeObserver(() => {
    if (!root.clientWidth) return;
    strip = root.clientWidth < STRIP;
    small = root.clientWidth < SMALL;
    for (const row of rows.values()) row.avatar.tabIndex = small ? 0 : -1;
  });
  width.observe(root);

  const tickEachSecond = ticker(tick);

  function setHead(item) {
    head = item;
    // What needs a permission that is not held is not offered at all.
    inviter.hidden = plus.hidden = !item.may.invite;
    for (const button of [inviter, plus]) turnOff(button, item.barred, item.barred || "Invite a participant");
    invitations.show(item.invited);
    const [running, paused] = item.agents;
    pauser.hidden = !item.may.pause || !(running || paused);
    write(
      pauser,
      running ? "Pause agents" : "Resume agents",
      running
        ? `${countOf(running, "agent")} running; tools and people go on`
        : `${countOf(paused, "agent")} paused by you`,
    );
  }

  async function pauseAgents() {
    const stops = head.agents[0] > 0;
    const done = await link.act(stops ? "pause all" : "resume all", {});
    if (done) toast(done.said, stops ? { action: { text: "Resume", run: () => pauseAgents() } } : {});
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
    const row = [...rows.values()].find(
      (row) => GONE.has(row.data.presence) && !row.place.firstChild && !holdsFocus(row.node),
    );
    if (row) participants.drop(row.data.id);
    return Boolean(row);
  }

  /** @type {(data: any, admit?: (data: any) => boolean) => void} */
  function put(data, admit = () => true) {
    if (rows.has(data.id) || admit(data)) participants.put(data);
  }

  function setStatus(id, lastStatus, doing) {
    const row = rows.get(id);
    if (!row) return;
    row.data.told = lastStatus;
    row.data.doing = doing;
    showStatus(row);
    showState(row);
  }

  function build() {
    const row = /** @type {any} */ ({ node: make("li", { class: "mew-row" }) }),
      drawer = newId();
    row.letters = make("span", { class: "mew-letters", "aria-hidden": "true" });
    row.avatar = make(
      "button",
      {
        class: "mew-avatar",
        tabindex: small ? 0 : -1,
        "aria-expanded": "false",
        onclick: () => (strip ? openBeside(row) : toggleDetails(row)),
      },
      row.letters,
      make("span", { class: "mew-dot", "aria-hidden": "true" }),
    );
    row.name = make("bdi", { class: "mew-name" });
    row.icon = make("span", { class: "mew-kind", role: "img" });
    row.state = make("bdi", { class: "mew-state" });
    row.chips = make("button", {
      class: "mew-chips",
      "aria-expanded": "false",
      "aria-controls": drawer,
      onclick: () => toggleDetails(row),
    });
    row.usage = make("div", { class: "mew-usage" });
    row.menu = menuButton("⋯", () => getItems(row), { class: "mew-menu-button mew-quiet" });
    row.ring = make("span", { class: "mew-ring", "aria-hidden": "true" });
    row.left = make("span", { class: "mew-left-time" });
    row.why = make("bdi", { class: "mew-dim" });
    row.held = make("div", { class: "mew-held", hidden: true }, row.ring, row.left, " ", row.why);
    row.status = make("div", { class: "mew-status" });
    row.patterns = make("div", { class: "mew-patterns" });
    row.details = make(
      "div",
      { class: "mew-details", id: drawer, hidden: true },
      row.held,
      row.status,
      row.patterns,
    );
    row.place = make("div", { class: "mew-place" });
    row.said = make("div", { class: "mew-said", hidden: true });
    row.cells = make(
      "div",
      { class: "mew-cells" },
      make("div", { class: "mew-who" }, row.name, row.icon),
      row.state,
      row.chips,
      row.usage,
      row.menu,
      row.details,
      row.place,
      row.said,
    );
    row.node.append(row.avatar, row.cells);
    return row;
  }

  function fill(row, was) {
    const data = row.data;
    if (was && was.presence !== data.presence) announce(`${data.name}: ${data.presence}`);
    setAttribute(row.node, "data-id", data.name);
    setAttribute(row.node, "data-presence", data.presence);
    setAttribute(row.node, "data-kind", data.kind);
    setAttribute(row.letters, "data-letters", initials(data.name, data.you));
    setAttribute(row.node, "data-hue", String(data.hue));
    write(
      row.name,
      data.name,
      [data.whole, data.what, ...data.ids.map((id) => `connected as ${id}`)].join("\n"),
    );
    write(row.icon, KIND_ICONS[data.kind] ?? "○", KIND_WORDS[data.kind] ?? "");
    setAttribute(row.icon, "aria-label", KIND_WORDS[data.kind] ?? "");
    const rest = data.chips.length - CHIPS;
    row.chips.replaceChildren(
      ...data.chips.slice(0, CHIPS).flatMap((text) => [make("span", { class: "mew-tag", text }), " "]),
      ...(rest > 0 ? [make("span", { class: "mew-dim", text: `+${rest}` })] : []),
      ...(data.chips.length ? [] : [make("span", { class: "mew-dim", text: "No permissions" })]),
    );
    row.chips.title = data.sentence;
    setAttribute(
      row.chips,
      "aria-label",
      `${row.chips.textContent.trim()}: permissions of ${data.name}, details`,
    );
    setAttribute(row.menu, "aria-label", `Actions on ${data.name}`);
    if (!row.details.hidden) showPatterns(row);
    showStatus(row);
    showState(row);
  }

  function showState(row) {
    const state = describeState(row.data, link.now());
    write(row.state, state.text, state.hover || state.text);
    setAttribute(row.node, "data-tone", state.tone);
    row.moving = isMoving(row.data);
    const whole = [row.data.name, KIND_WORDS[row.data.kind], state.text].join(", ");
    setAttribute(row.avatar, "aria-label", whole);
    row.avatar.title = state.hover ? `${whole}\n${state.hover}` : whole;
    showPause(row);
  }

  function showPatterns(row) {
    const data = row.data;
    const items = data.patterns.map((text) => make("li", {}, make("code", { dir: "ltr", text })));
    if (data.left) items.push(make("li", { text: `and ${data.left} more` }));
    if (!items.length) items.push(make("li", { text: "It holds no permission." }));
    const others = data.ids.length
      ? [
          make(
            "div",
            { class: "mew-dim" },
            "Connected as ",
            ...data.ids.flatMap((id, n) => [n ? ", " : "", make("bdi", { class: "mew-code", text: id })]),
          ),
        ]
      : [];
    row.patterns.replaceChildren(
      make("div", { class: "mew-full" }, make("bdi", { text: data.sentence })),
      ...others,
      make("ul", { "aria-label": `Permissions of ${data.name}` }, ...items),
    );
  }

  function toggleDetails(row, open = row.details.hidden) {
    row.details.hidden = !open;
    for (const button of [row.chips, row.avatar]) setAttribute(button, "aria-expanded", String(open));
    if (open) showPatterns(row);
  }

  // In the strip, the cells of a row are shown beside its avatar, and go back when that is closed.
  function openBeside(row) {
    if (row.avatar.mewClosePopover) return void row.avatar.mewClosePopover(true);
    toggleDetails(row, true);
    const box = make("div", { class: "mew-flyout", role: "dialog", "aria-label": row.data.name }, row.cells);
    showPopover(box, row.avatar, {
      closed() {
        closePlace(row, false);
        toggleDetails(row, false);
        row.node.append(row.cells);
      },
    });
  }

  // The last status of a participant.

  function showStatus(row) {
    const lastStatus = row.data.told;
    row.aged = null;
    if (!lastStatus) {
      row.status.replaceChildren();
      row.usage.replaceChildren();
      return;
    }
    const parts = [];
    if (lastStatus.usage !== null) {
      const part = Math.min(lastStatus.usage, 1),
        percent = `${Math.floor(lastStatus.usage * 100)} %`;
      const text = `${groupDigits(lastStatus.tokens)} of ${groupDigits(lastStatus.max_tokens)} tokens, ${percent}`;
      const fill = make("span", { class: "mew-fill" });
      fill.style.width = `${part * 100}%`;
      row.usage.replaceChildren(
        make(
          "div",
          {
            class: lastStatus.near_limit ? "mew-meter mew-near" : "mew-meter",
            role: "meter",
            "aria-label": "context used",
            "aria-valuemin": 0,
            "aria-valuemax": 100,
            "aria-valuenow": Math.round(part * 100),
            "aria-valuetext": text,
            title: `Context: ${text}`,
          },
          fill,
        ),
        make("span", { class: "mew-num", text: `${lastStatus.near_limit ? "⚠ " : ""}${percent}` }),
      );
      parts.push(
        make("span", {
          class: "mew-figure",
          text: `${groupDigits(lastStatus.tokens)} / ${groupDigits(lastStatus.max_tokens)} tokens`,
        }),
      );
    } else {
      row.usage.replaceChildren();
      if (lastStatus.tokens !== null)
        parts.push(make("span", { class: "mew-figure", text: countOf(lastStatus.tokens, "token") }));
    }
    if (lastStatus.messages !== null)
      parts.push(make("span", { class: "mew-figure", text: countOf(lastStatus.messages, "message") }));
    if (lastStatus.latency_ms !== null)
      parts.push(
        make("span", { class: "mew-figure", text: `${groupDigits(Math.round(lastStatus.latency_ms))} ms` }),
      );
    if (lastStatus.status) parts.push(make("bdi", { class: "mew-reported", text: lastStatus.status }));
    for (const [name, value] of lastStatus.more)
      parts.push(
        make("bdi", { class: name === "warning" ? "mew-warned" : "mew-dim", text: `${name}: ${value}` }),
      );
    row.aged = make("span", {
      class: "mew-dim mew-aged",
      title: `reported at ${clockTime(lastStatus.at)}, ${clockHover(lastStatus.at)}`,
    });
    row.status.replaceChildren(...parts, row.aged);
    showAge(row);
  }

  function showAge(row) {
    if (!row.aged) return;
    const seconds = Math.max(0, link.now() - row.data.told.at);
    write(
      row.aged,
      seconds < 60
        ? `${Math.floor(seconds)} s ago`
        : seconds < 3600
          ? `${Math.floor(seconds / 60)} min ago`
          : `at ${clockTime(row.data.told.at)}`,
    );
  }

  function showPause(row) {
    const paused = row.data.paused;
    row.held.hidden = !paused;
    if (!paused) return;
    write(row.why, `by ${paused.by}${paused.reason ? `: ${paused.reason}` : ""}`);
    row.ring.hidden = paused.until === null;
    const left = paused.until === null ? null : Math.max(0, paused.until - link.now());
    write(row.left, left === null ? "Paused until resumed" : `Resumes in ${elapsedTime(Math.ceil(left))}`);
    row.left.title = paused.until === null ? "" : `until ${clockTime(paused.until)}`;
    if (left !== null && paused.since !== null)
      row.ring.style.setProperty(
        "--mew-part",
        String(Math.min(1, left / Math.max(0.001, paused.until - paused.since))),
      );
  }

  // The menu of a row, and the form that a choice of it needs.

  function getItems(row) {
    const offered = deeds.filter(([deed]) => deed !== "kick" || head.may.kick);
    return [
      { text: "Show messages", about: "opens Messages with what it sent", run: () => showMessages(row) },
      ...offered.map(([deed, about, grave]) => ({
        text: VERBS[deed] ?? deed,
        about,
        disabled: row.data.against[deed] ?? "",
        danger: grave,
        run: (event) => choose(row, deed, about, grave, event),
      })),
    ];
  }

  async function showMessages(row) {
    const { id } = row.data,
      filter = `from:${/\s/.test(id) ? `"${id}"` : id}`;
    if (!(await openIn(root, "feed", { filter })))
      toast("No view of the messages is on this page: lab.view.feed shows them.");
  }

  function closePlace(row, back) {
    row.place.replaceChildren();
    if (back) row.menu.focus();
  }

  function choose(row, deed, about, grave, event) {
    if (deed === "status" || deed === "resume") {
      if (event.isTrusted) perform(row, deed, {});
      return;
    }
    ask(row, deed, about, grave);
  }

  function ask(row, deed, about, grave) {
    const fields = [],
      collect = {};
    const field = (name, label, attributes, number) => {
      const input = make("input", { "aria-label": label, ...attributes });
      collect[name] = () =>
        number ? (input.value.trim() === "" ? null : Number(input.value)) : input.value.trim();
      fields.push(make("label", {}, `${label} `, input));
      return input;
    };
    if (deed === "pause")
      field(
        "timeout_seconds",
        "for seconds",
        { type: "number", min: 1, step: "any", value: 60, placeholder: "until resumed" },
        true,
      );
    if (deed === "forget") {
      const which = make(
        "select",
        { "aria-label": "which end" },
        make("option", { text: "oldest" }),
        make("option", { text: "newest" }),
      );
      collect.direction = () => which.value;
      fields.push(make("label", {}, "the ", which));
      field("entries", "entries", { type: "number", min: 1, step: 1, placeholder: "it decides" }, true);
    }
    if (deed === "compact")
      field(
        "target_tokens",
        "to tokens",
        { type: "number", min: 1, step: 1, placeholder: "it decides" },
        true,
      );
    if (deed !== "forget") field("reason", "reason", { type: "text", maxlength: 300 });
    const [asks, verb] = grave ? ASKS[deed] : [VERBS[deed].replace("…", ""), VERBS[deed].replace("…", "")];
    const of = !grave && asks.includes(" ") ? "of " : ""; // "Compact context of helper"
    // Beside a button that cancels something, another word for leaving it.
    const keep = deed === "cancel_reasoning" ? "Keep" : "Cancel";
    const cancel = make("button", { text: keep, onclick: () => closePlace(row, true) });
    const go = async () => {
      const choices = Object.fromEntries(Object.entries(collect).map(([name, read]) => [name, read()]));
      closePlace(row, true);
      await perform(row, deed, choices);
    };
    const sure = (!grave ? doer : sureDoer)(verb, go, {
      class: grave ? "mew-sure mew-danger" : "mew-sure mew-primary",
      "aria-label": `${verb} ${of}${row.data.name}`,
    });
    const question = make(
      "div",
      { class: "mew-question" },
      `${asks} ${of}`,
      make("bdi", { class: "mew-code", text: row.data.name }),
      grave ? "?" : "",
    );
    if (grave)
      question.append(make("div", { class: "mew-dim", text: `${about[0].toUpperCase()}${about.slice(1)}.` }));
    const box = make(
      "div",
      { class: "mew-ask", role: "group", "aria-label": `${verb} ${of}${row.data.name}: ${about}` },
      question,
      ...fields,
      make("span", { class: "mew-gap" }),
      make("span", { class: "mew-pair" }, cancel, sure),
    );
    onEscape(box, () => closePlace(row, true));
    box.addEventListener("keydown", (event) => {
      const isField = /** @type {HTMLElement} */ (event.target).tagName === "INPUT";
      if (event.key !== "Enter" || !isField || grave || !event.isTrusted || event.repeat) return;
      event.preventDefault();
      go();
    });
    row.place.replaceChildren(box);
    if (grave) cancel.focus();
    else {
      const first = box.querySelector("input, select") ?? cancel;
      first.focus();
      first.select?.();
    }
  }

  async function perform(row, deed, choices) {
    report(
      row,
      `${(VERBS[deed] ?? deed).replace("…", "")}: asked for at ${clockTime(link.now())}, waiting for the answer`,
    );
    // In a strip there is no room for a notice: the row beside the avatar says what failed.
    const tell = strip
      ? (text) => {
          report(row, text);
          toast(text, { tone: "bad", seconds: 20 });
        }
      : undefined;
    const done = await link.act("do", { deed, target: row.data.id, ...choices }, tell);
    if (!done && tell) return;
    report(row, done ? `${done.said} · ${clockTime(link.now())}` : "");
    if (done) announce(done.said);
  }

  function report(row, text) {
    row.said.hidden = !text;
    row.said.replaceChildren(make("bdi", { text }));
  }

  // Invitations.

  function openInviteBeside() {
    if (isOff(plus)) return void link.notice(head.barred);
    if (plus.mewClosePopover) return void plus.mewClosePopover(true);
    if (!form.firstChild) openInvite();
    showPopover(
      make("div", { class: "mew-flyout", role: "dialog", "aria-label": "Invite a participant" }, inviting),
      plus,
      {
        closed() {
          closeInvite();
          header.node.after(inviting);
        },
      },
    );
  }

  function openInvite() {
    if (isOff(inviter)) return void link.notice(head.barred);
    if (form.firstChild) return closeInvite();
    const name = make("input", {
      type: "text",
      maxlength: 64,
      "aria-label": "id of the new participant",
      placeholder: "Name, such as reviewer",
    });
    const can = make(
      "select",
      { "aria-label": "what it may do" },
      make("option", { value: "starter", text: "starter (restricted)" }),
      ...profiles.map(([profile]) => make("option", { value: profile, text: profile })),
      make("option", { value: "patterns", text: "own list (JSON)" }),
    );
    const rights = make("div", { class: "mew-dim" });
    const patterns = make("textarea", {
      rows: 3,
      class: "mew-code",
      "aria-label": "permissions, a JSON list",
      hidden: true,
      spellcheck: "false",
      text: '[{"kind": "chat"}]',
    });
    const tell = () => {
      patterns.hidden = can.value !== "patterns";
      write(
        rights,
        can.value === "starter"
          ? "may propose; withdraw; answer; chat; report its status"
          : (profiles.find(([profile]) => profile === can.value)?.[1] ??
              `may do what the list allows. ${PATTERN_HELP}`),
      );
    };
    can.addEventListener("change", tell);
    tell();
    const reason = make("input", {
      type: "text",
      maxlength: 300,
      "aria-label": "reason",
      placeholder: "Reason (everybody sees it)",
    });
    const send = doer(
      "Invite",
      async () => {
        if (!name.value.trim()) return void name.focus();
        const tell = strip ? (text) => problem.replaceChildren(make("bdi", { text })) : undefined;
        const done = await link.act(
          "invite",
          { name: name.value, can: can.value, patterns: patterns.value, reason: reason.value },
          tell,
        );
        if (done) {
          announce(done.said);
          closeInvite();
        }
      },
      { class: "mew-primary" },
    );
    const problem = make("div", { class: "mew-problem", role: "alert" });
    const cancel = make("button", { text: "Cancel", onclick: () => closeInvite() });
    const box = make(
      "div",
      { class: "mew-ask", role: "group", "aria-label": "Invite" },
      name,
      can,
      reason,
      make("span", { class: "mew-gap" }),
      make("span", { class: "mew-pair" }, cancel, send),
      rights,
      patterns,
      problem,
    );
    onEscape(box, closeInvite);
    form.replaceChildren(box);
    setAttribute(inviter, "aria-expanded", "true");
    name.focus();
  }

  function closeInvite() {
    const focused = atHand(form);
    form.replaceChildren();
    setAttribute(inviter, "aria-expanded", "false");
    if (focused && !strip) inviter.focus();
  }

  function showInvitation({ node, data: invitee }) {
    // A shown token stays until it is hidden, because it is sent only once. A button that is in use is not made again.
    const state = String(invitee.shown ?? "");
    if (node.dataset.open || node.dataset.state === state) return;
    node.dataset.state = state;
    const label = make(
      "span",
      {},
      "Token for ",
      make("bdi", { class: "mew-code", text: invitee.name }),
      invitee.shown ? ` was shown at ${clockTime(invitee.shown)}` : " is ready. It is shown once.",
    );
    const button = doer("Show token", () => reveal(invitee, node), {
      "aria-label": `Show the token of ${invitee.name}, once`,
    });
    node.replaceChildren(label, make("span", { class: "mew-gap" }), ...(invitee.shown ? [] : [button]));
  }

  async function reveal(invited, node) {
    const done = await link.act("reveal", { id: invited.id });
    if (!done) return;
    node.dataset.open = "1";
    const focused = atHand(node),
      stored = () => head.invited.find((other) => other.id === invited.id);
    const secret = make("code", { class: "mew-secret", dir: "ltr", text: done.value.token });
    const copy = copyButton(() => done.value.token, "Copy", secret);
    const hide = make("button", {
      text: "Hide for good",
      onclick: () => {
        delete node.dataset.open;
        delete node.dataset.state;
        showInvitation({ node, data: { ...invited, shown: stored()?.shown ?? link.now() } });
        inviter.focus();
      },
    });
    node.replaceChildren(
      make(
        "div",
        { class: "mew-token" },
        make(
          "span",
          {},
          "Token of ",
          make("bdi", { class: "mew-code", text: invited.name }),
          ". Hand it over through a private channel:",
        ),
        secret,
      ),
      make(
        "div",
        { class: "mew-dim" },
        "To join with MEW_TOKEN set: ",
        make("code", { dir: "ltr", text: done.value.line }),
      ),
      make("span", { class: "mew-gap" }),
      copy,
      hide,
    );
    if (focused) hide.focus();
  }

  // The header, and the changes of time.

  function paint() {
    const of = (presence) => head.counts.find(([name]) => name === presence)?.[1] ?? 0;
    const all = [...rows.values()],
      waiting = all.filter((row) => row.data.presence === "here" && row.data.doing[0] === "waiting").length;
    const failed = all.filter((row) => row.data.presence === "here" && row.data.doing[0] === "failed").length;
    const hover = head.counts.map(([presence, n]) => `${groupDigits(n)} ${presence}`).join(" · ");
    header.setCounts([
      { text: head.space },
      { text: head.total ? countOf(head.total, "participant") : "", hover },
      { text: waiting ? `${waiting} waiting for you` : "", tone: "wait" },
      { text: of("paused") ? `${groupDigits(of("paused"))} paused` : "", tone: "wait" },
      { text: failed ? `${failed} failed` : "", hover: "whose last call failed", tone: "bad" },
    ]);
    empty.hidden = rows.size > 0;
    more.hidden = rows.size >= head.total;
    write(
      more,
      `Show ${Math.min(PAGE, head.total - rows.size)} of ${countOf(head.total - rows.size, "more participant")}`,
    );
    invited.hidden = !invitations.rows.size;
    const ready = head.invited.filter((invitee) => !invitee.shown).length;
    setAttribute(plus, "data-ready", String(ready));
    setAttribute(
      plus,
      "aria-label",
      ready ? `Invite a participant; ${countOf(ready, "token")} ready` : "Invite a participant",
    );
    root.dataset.rows = String(rows.size);
    tickEachSecond(all.some((row) => row.aged || row.data.paused || row.moving));
  }

  function tick() {
    if (!root.clientHeight || link.isOff()) return;
    for (const row of rows.values()) {
      showAge(row);
      if (row.moving) showState(row);
      else if (row.data.paused) showPause(row);
    }
  }

  return () => {
    tickEachSecond(false);
    width.disconnect();
    leave();
    link.end();
  };
}

export default { render };
