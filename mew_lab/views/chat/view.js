// The messages with their acknowledgements, the newest at the bottom, and below them the box for the next message. Markdown
// arrives as a tree that Python made; only elements of MARKS are made of it.

import { connect } from "../ui/connection.js";
import { announcer, atHand, doer, holdsFocus, keepKeys, make, newId, ticker, write } from "../ui/elements.js";
import { copyButton } from "../ui/copy.js";
import { emptyState } from "../ui/empty.js";
import { follower } from "../ui/follower.js";
import { makeHeader } from "../ui/header.js";
import { keyedRows } from "../ui/tables.js";
import { onOpen, openIn } from "../ui/links.js";
import { menuButton } from "../ui/menu.js";
import { whyForm } from "../ui/reason_form.js";
import { clockHover, clockTime, countOf, groupDigits } from "../ui/text.js";
import { makeReader } from "./reading.js";

const MARKS = new Set([
  "p",
  "strong",
  "em",
  "s",
  "code",
  "pre",
  "ul",
  "ol",
  "li",
  "blockquote",
  "hr",
  "br",
  "a",
  "table",
  "thead",
  "tbody",
  "tr",
  "th",
  "td",
]);
const HELD = 600;

function grow(nodes, into) {
  for (const node of nodes) {
    if (typeof node === "string") {
      into.append(node);
      continue;
    }
    const [tag, attributes, ...children] = node;
    if (!MARKS.has(tag)) {
      grow(children, into);
      continue;
    }
    const made = make(tag);
    if (tag === "a" && /^(https?|mailto):/i.test(attributes.href ?? ""))
      for (const [name, value] of [
        ["href", attributes.href],
        ["title", describeAddress(attributes.href)],
        ["target", "_blank"],
        ["rel", "noopener noreferrer nofollow"],
        ["referrerpolicy", "no-referrer"],
      ])
        made.setAttribute(name, value);
    if (tag === "ol" && /^\d{1,9}$/.test(attributes.start ?? ""))
      made.setAttribute("start", attributes.start);
    grow(children, made);
    into.append(made);
  }
  return into;
}

// The host as the browser reads it, so that a letter of another alphabet shows, and the whole address.
function describeAddress(href) {
  try {
    const { host } = new URL(href);
    return host ? `${host}\n${href}` : href;
  } catch (error) {
    return href;
  }
}

const CHAT_KEYS = [
  ["Enter", "Send the message"],
  ["Shift+Enter", "Begin a new line"],
  ["@", "Mention a participant"],
  ["Enter, Shift+Enter", "Next and previous match, in the search"],
];

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-chat", "aria-label": "Chat" });
  const header = makeHeader({ title: "Chat", keys: CHAT_KEYS });
  const follow = make("button", { class: "mew-follow", hidden: true });
  const all = doer(
    "Mark all as read",
    () => perform("acknowledge all", { status: "received", until: last }),
    { class: "mew-quiet", hidden: true },
  );
  const needle = make("input", {
    type: "search",
    class: "mew-search",
    "aria-label": "Search in the messages",
    placeholder: "Search",
  });
  const matches = make("span", { class: "mew-dim mew-num", role: "status" });
  header.filter.append(needle, matches);
  header.actions.append(follow, all);
  const earlier = doer("Show earlier messages", showEarlier, { class: "mew-earlier", hidden: true });
  const list = make("ol", { class: "mew-said", role: "list", "aria-label": "Messages" });
  const empty = emptyState("No messages yet. Write one below.", { code: 'lab.chat("hello")' });
  const scroller = make(
    "div",
    { class: "mew-talk", tabindex: 0, role: "region", "aria-label": "Conversation" },
    earlier,
    empty,
    list,
  );
  root.append(header.node, scroller);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);
  const tail = follower(scroller, follow, () => {
    if (!behind) return;
    behind = false;
    last = 0;
    link.ask();
  });
  const messages = new Map();
  // Whether messages came faster than they can be shown, while the reader had scrolled away.
  let behind = false;
  let last = 0,
    head = null,
    reasons = [],
    statuses = [],
    found = -1,
    noEarlier = false;

  // What was in sight is acknowledged as read. What could not be sent is not tried again, and stays unread.
  const reader = makeReader(
    (node) => isWhole(messages.get(Number(node.dataset.n))),
    (nodes) => {
      const ns = nodes.map((node) => Number(node.dataset.n)).filter((n) => messages.get(n)?.data.awaits);
      if (ns.length && !link.isOff()) link.act("read", { numbers: ns }, () => {});
    },
  );
  const leave = onOpen(root, "chat", ({ id }) => {
    const message = [...messages.values()].find((message) => message.data.id === id);
    if (message) go(message.data.n);
    return Boolean(message);
  });

  const compose = composer();
  root.append(compose.node);

  const link = connect(adapter, root, {
    rests: true,
    from: () => last,
    items: {
      snapshot(item) {
        reasons = item.reasons;
        statuses = item.statuses;
        if (item.last !== last || !messages.size) restart(item.messages, item.last);
        else setStates(item.messages);
        setHead(item);
      },
      said: append,
      states: ({ states }) => setStates(states),
      head: setHead,
    },
    done: tidy,
  });

  async function perform(name, choices) {
    const done = await link.act(name, choices);
    if (done) announce(done.said);
    return done;
  }

  // Whether the keyboard focus or an open form is in that message; such a message is kept.
  function isInUse(message) {
    return holdsFocus(message.node) || message.node.querySelector(".mew-why-form") !== null;
  }

  function drop(message) {
    reader.leave(message.node);
    messages.delete(message.data.n);
    message.node.remove();
  }

  // Whether all of a message is in its box: not folded, and not cut.
  function isWhole(message) {
    return (
      Boolean(message) &&
      !message.body.classList.contains("mew-folded") &&
      !message.node.querySelector(".mew-rest")
    );
  }

  function restart(shown, newest) {
    for (const message of [...messages.values()]) {
      if (isInUse(message)) continue;
      drop(message);
    }
    last = newest;
    for (const item of shown) add(item);
  }

  function append(item) {
    if (item.after > last) return link.ask();
    const news = item.messages.filter((message) => message.n > last);
    if (!news.length) return;
    behind ||= item.skipped > 0 && !tail.follows();
    // Messages that came too fast were not sent: the list starts over, and the earlier ones are sent on request.
    if (behind) tail.arrived(item.skipped);
    else if (item.skipped) restart(news, news.at(-1).n);
    else for (const message of news) add(message);
    last = news.at(-1).n;
    const other = news.filter((message) => !message.mine);
    if (other.length)
      announce(
        other.length === 1
          ? `${other[0].from} says: ${(other[0].text || "a formatted message").slice(0, 200)}`
          : `${other.length} new messages`,
      );
    tail.arrived(other.length);
  }

  function add(data) {
    if (messages.has(data.n)) return setStates([data]);
    const message = build(data),
      numberOf = (node) => Number(node?.dataset.n ?? 0);
    const later =
      numberOf(list.lastElementChild) < data.n
        ? null
        : [...list.children].find((node) => numberOf(node) > data.n);
    messages.set(data.n, message);
    list.insertBefore(message.node, later ?? null);
  }

  // The number of the first message from which none is missing up to the newest one.
  function firstHeld() {
    let n = Number(list.lastElementChild?.dataset.n ?? last + 1);
    while (messages.has(n - 1)) n -= 1;
    return n;
  }

  function setStates(changed) {
    for (const item of changed) {
      const message = messages.get(item.n);
      if (!message) continue;
      Object.assign(message.data, item);
      drawFoot(message);
    }
  }

  function setHead(item) {
    const may = item.may["chat/acknowledge"];
    if (may && !head?.may["chat/acknowledge"])
      for (const message of messages.values()) if (message.data.awaits) reader.follow(message.node);
    head = item;
    compose.people(item);
  }

  function build(data) {
    const node = make("li", {
      class: `mew-message${data.mine ? " mew-mine" : ""}${data.addressed ? " mew-to-me" : ""}`,
      tabindex: -1,
      "data-n": data.n,
    });
    const line = make(
      "div",
      { class: "mew-line" },
      make("bdi", { class: "mew-who", dir: "ltr", text: data.from }),
    );
    if (data.mine) line.append(make("span", { class: "mew-dim", text: "(you)" }));
    const to = make("span", { class: "mew-to" });
    if (data.to.length) {
      to.append("to ");
      data.to.forEach((name, n) =>
        to.append(n ? ", " : "", make("bdi", { class: "mew-code", dir: "ltr", text: name })),
      );
      if (data.others) to.append(` and ${data.others} more`);
    }
    line.append(to);
    if (data.answers) {
      const answered = messages.get(data.answers)?.data;
      const text = answered
        ? `answers ${answered.mine ? "you" : answered.from}`
        : "answers an earlier message";
      line.append(make("button", { class: "mew-link", text: `⇠ ${text}`, onclick: () => go(data.answers) }));
    }
    if (data.context)
      line.append(
        make("span", {
          class: "mew-dim mew-code",
          dir: "ltr",
          title: `context ${data.context}`,
          text: `in ${data.context}`,
        }),
      );
    line.append(
      make("span", { class: "mew-gap" }),
      make("time", {
        class: "mew-dim mew-num",
        datetime: new Date(data.t * 1000).toISOString(),
        title: clockHover(data.t),
        text: clockTime(data.t),
      }),
    );
    const body = make("div", { class: "mew-body", dir: data.nodes ? "auto" : "ltr" });
    if (data.nodes) grow(data.nodes, body).classList.add("mew-marked");
    else if (data.links) grow(data.links, body);
    else body.textContent = data.text;
    const foot = make("div", { class: "mew-foot" });
    const message = { data, node, body, foot };
    line.append(
      make(
        "span",
        { class: "mew-toolbar" },
        copyButton(() => body.textContent, "Copy", body),
        menuButton("⋯", () => getItems(message), {
          class: "mew-quiet mew-message-menu",
          "aria-label": `Actions on ${describe(data)}`,
        }),
      ),
    );
    node.append(line, body);
    if (data.unformatted)
      node.append(
        make("div", {
          class: "mew-dim",
          text: "The author asks for Markdown, but the message is too long or too deeply nested, so its source is shown.",
        }),
      );
    if (
      data.text.length > 1500 ||
      data.text.split("\n").length > 16 ||
      (data.nodes && JSON.stringify(data.nodes).length > 3000)
    )
      fold(message);
    else if (data.more) node.append(rest(message));
    node.append(foot);
    drawFoot(message);
    return message;
  }

  function describe(data) {
    return data.mine
      ? `your message${data.to.length ? ` to ${data.to.join(", ")}` : ""}`
      : `the message of ${data.from}`;
  }

  function getItems(message) {
    const { data, node } = message,
      items = [];
    const opener = node.querySelector(".mew-message-menu");
    if (!data.mine && data.sender)
      items.push({ text: "Reply", about: `writes to ${data.from}`, run: () => compose.reply(data.sender) });
    if (data.id)
      items.push({
        text: "Show in Messages",
        about: "the exact text, and what came of it",
        run: () => openIn(root, "feed", { id: data.id }),
      });
    if (data.awaits && head.may["chat/acknowledge"])
      for (const [code, meaning] of statuses)
        items.push({
          text: `Mark as ${code}`,
          about: `tells ${data.from}: ${meaning}`,
          run: () => perform("acknowledge", { n: data.n, status: code }),
        });
    // One may call off one's own message for all, and set aside what one was asked oneself. Others' talk is theirs.
    if (!data.cancelled && data.first && head.may["chat/cancel"] && (data.mine || data.addressed))
      items.push({
        text: data.mine ? "Cancel…" : "Dismiss…",
        about: data.mine ? "withdraws it for everybody" : `tells ${data.from} that you do not handle it`,
        danger: data.mine,
        run: () => {
          whyForm(opener, node, reasons, data.mine ? "Cancel the message" : "Dismiss the message", (reason) =>
            perform("cancel", { n: data.n, reason }),
          );
          node.scrollIntoView({ block: "nearest" });
        },
      });
    return items;
  }

  function fold(message) {
    const { data, body, node } = message;
    body.classList.add("mew-folded");
    const lines = data.nodes ? "all of it" : `all ${groupDigits(data.text.split("\n").length)} lines`;
    message.turn = (folded) => {
      body.classList.toggle("mew-folded", folded);
      button.textContent = folded ? `▸ show ${lines}` : "▾ fold";
      button.setAttribute("aria-expanded", String(!folded));
      reader.restart(node);
      tail.hold();
    };
    const button = make("button", {
      class: "mew-link",
      "aria-expanded": "false",
      text: `▸ show ${lines}`,
      onclick: () => message.turn(!body.classList.contains("mew-folded")),
    });
    node.append(button);
    if (data.more) node.append(rest(message));
  }

  function rest(message) {
    const button = doer(
      `Show the rest, ${countOf(message.data.more, "character")}`,
      async () => {
        const done = await link.act("whole", { n: message.data.n });
        if (!done) return;
        message.body.textContent = done.value.text;
        const focused = atHand(button);
        button.remove();
        if (focused) message.node.focus({ preventScroll: true });
        reader.restart(message.node);
        message.turn ? message.turn(false) : tail.hold();
      },
      { class: "mew-link mew-rest" },
    );
    return button;
  }

  // Draws the state of a message and its buttons. A button that stays is the same element.
  function drawFoot(message) {
    const { data, node, foot } = message;
    node.classList.toggle("mew-awaits", data.awaits);
    node.classList.toggle("mew-cancelled", data.cancelled !== "");
    message.marks ??= make("span", { class: "mew-marks" });
    if (!message.marks.isConnected) foot.append(message.marks);
    const marks = data.seen.map(([by, how, t]) => mark(message, `✓ ${by}: ${how || "acknowledged"}`, t));
    if (data.seen_by > data.seen.length)
      marks.push(make("span", { text: `and ${data.seen_by - data.seen.length} more` }));
    if (data.missing.length && !data.cancelled)
      marks.push(make("span", { text: `not read yet by ${data.missing.join(", ")}` }));
    if (data.cancelled)
      marks.push(
        make("span", {
          class: "mew-off",
          text: `cancelled by ${data.cancelled}${data.reason ? `: ${data.reason.replaceAll("_", " ")}` : ""}`,
        }),
      );
    for (const name of data.claims)
      marks.push(
        make("span", { class: "mew-off", text: `${name} tried to cancel it, but only its author can` }),
      );
    message.marks.replaceChildren(...marks.flatMap((mark, n) => (n ? [" · ", mark] : [mark])));
    if (data.awaits && head?.may["chat/acknowledge"]) reader.follow(node);
    else if (!data.awaits) reader.leave(node);
    // What is read by being in sight needs no button.
    message.long ||= !isWhole(message);
    offer(
      message,
      "acknowledge",
      data.awaits && data.first && message.long && head?.may["chat/acknowledge"] !== false,
      () =>
        doer(
          "Mark as read",
          () =>
            perform("acknowledge", { n: data.n, status: "read" }).then((done) => {
              if (done && atHand(node)) node.focus({ preventScroll: true });
            }),
          { "aria-label": `Mark ${describe(data)} as read`, class: "mew-quiet" },
        ),
    );
  }

  function offer(message, name, wanted, makeButton) {
    if (!wanted) {
      message[name]?.remove();
      message[name] = null;
    } else if (!message[name]) {
      message[name] = makeButton();
      message.foot.append(message[name]);
    }
  }

  function mark(message, text, t) {
    const node = make("bdi", {
      class: "mew-mark",
      dir: "ltr",
      "data-t": t,
      "data-text": text,
      title: clockHover(t),
    });
    drawAge(node);
    return node;
  }

  function drawAge(node) {
    const t = Number(node.dataset.t),
      since = link.now() - t;
    write(
      node,
      `${node.dataset.text} · ${since < 60 ? `${Math.max(0, Math.floor(since))} s` : clockTime(t)}`,
    );
    node.classList.toggle("mew-young", since < 60);
  }

  async function showEarlier() {
    const done = await link.act("earlier", { before: firstHeld() });
    if (!done) return;
    const height = scroller.scrollHeight,
      focused = atHand(earlier);
    for (const message of [...done.value.messages].reverse()) add(message);
    scroller.scrollTop += scroller.scrollHeight - height;
    noEarlier = !done.value.more;
    tidy();
    tail.hold();
    if (focused) messages.get(done.value.messages.at(-1)?.n)?.node.focus({ preventScroll: true });
  }

  function go(n) {
    const message = messages.get(n);
    if (!message) return announce("That message is not shown here; show earlier ones first.");
    message.node.scrollIntoView({ block: "nearest" });
    message.node.focus({ preventScroll: true });
  }

  function tidy() {
    if (!head) return;
    let over = messages.size - HELD;
    for (const message of over > 0 ? [...messages.values()].sort((a, b) => a.data.n - b.data.n) : []) {
      if (over-- <= 0) break;
      if (isInUse(message)) continue;
      drop(message);
      noEarlier = false;
    }
    earlier.hidden = !messages.size || firstHeld() <= 1 || noEarlier;
    empty.hidden = messages.size > 0;
    root.dataset.last = String(last);
    root.dataset.waiting = String(head.waiting);
    header.setCounts([
      { text: last ? countOf(last, "message") : "" },
      {
        text: head.waiting ? `${groupDigits(head.waiting)} unread` : "",
        hover: head.addressed ? `${groupDigits(head.addressed)} addressed to you` : "",
        tone: "wait",
      },
    ]);
    all.hidden = head.waiting === 0 || !head.may["chat/acknowledge"];
    tail.settle();
    tickEachSecond(true);
  }

  const tickEachSecond = ticker(() => {
    if (root.clientHeight) for (const node of list.querySelectorAll(".mew-young")) drawAge(node);
  });

  // Search in what the list holds.

  function seek(step) {
    const wanted = needle.value.trim().toLowerCase();
    const hits = wanted
      ? [...list.children].filter((node) => node.textContent.toLowerCase().includes(wanted))
      : [];
    for (const node of list.querySelectorAll(".mew-found")) node.classList.remove("mew-found");
    if (!hits.length) {
      found = -1;
      return write(matches, wanted ? "No match" : "");
    }
    // The newest match first.
    const at = hits.findIndex((node) => Number(node.dataset.n) === found);
    const to = at < 0 ? hits.length - 1 : (at - step + hits.length) % hits.length;
    found = Number(hits[to].dataset.n);
    hits[to].classList.add("mew-found");
    messages.get(found)?.turn?.(false);
    hits[to].scrollIntoView({ block: "nearest" });
    tail.hold();
    write(matches, `${groupDigits(hits.length - to)} of ${groupDigits(hits.length)}`);
  }
  needle.addEventListener("input", () => {
    found = -1;
    seek(1);
  });
  needle.addEventListener("keydown", (event) => {
    if (event.key === "Enter") seek(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      needle.value = "";
      seek(1);
    } else return;
    event.preventDefault();
  });

  // The box for the next message: its text, its recipients, its format.
  function composer() {
    const chosen = new Set();
    let people = [],
      may = true,
      active = -1,
      sending = false;
    const id = newId();
    const text = make("textarea", {
      rows: 2,
      "aria-label": "Message",
      placeholder: "Message (@ to mention)",
      dir: "auto",
      "aria-autocomplete": "list",
      "aria-controls": `${id}-names`,
    });
    const names = make("div", {
      class: "mew-names",
      role: "listbox",
      id: `${id}-names`,
      "aria-label": "Participants",
      hidden: true,
    });
    const ticks = make("div", { class: "mew-ticks" }),
      nobody = make("span", { class: "mew-dim", text: "No other participant is here." });
    const boxes = make(
      "fieldset",
      { class: "mew-recipients", id: `${id}-to`, hidden: true },
      make("legend", { text: "Recipients (none selected: everybody)" }),
      ticks,
      nobody,
    );
    const whom = make("button", {
      class: "mew-whom",
      "aria-expanded": "false",
      "aria-controls": `${id}-to`,
      onclick: () => {
        boxes.hidden = !boxes.hidden;
        whom.setAttribute("aria-expanded", String(!boxes.hidden));
      },
    });
    const markdown = make("input", { type: "checkbox" });
    const say = doer("Send", send, { class: "mew-say mew-primary", title: "Enter" });
    const hint = make("span", { class: "mew-dim" });
    const node = make(
      "div",
      { class: "mew-compose" },
      text,
      names,
      boxes,
      make(
        "div",
        { class: "mew-buttons" },
        whom,
        make("label", { class: "mew-dim" }, markdown, " Markdown"),
        hint,
        make("span", { class: "mew-gap" }),
        say,
      ),
    );

    async function send() {
      if (sending || !may) return;
      if (!text.value.trim()) return void text.focus();
      sending = true;
      const written = text.value;
      const done = await perform("say", { text: written, to: [...chosen], markdown: markdown.checked });
      sending = false;
      if (done && text.value === written) text.value = "";
    }

    // One check box for each participant, in their order.
    const labels = keyedRows(ticks, {
      keyOf: ([id]) => id,
      build: ([id, shown]) => ({
        node: make(
          "label",
          {},
          make("input", {
            type: "checkbox",
            value: id,
            onchange: (event) => {
              if (event.target.checked) chosen.add(id);
              else chosen.delete(id);
              drawLabels();
            },
          }),
          " ",
          make("bdi", { class: "mew-code", dir: "ltr", text: shown }),
        ),
      }),
    });

    function drawLabels() {
      const shown = [...chosen].map(
        (id) => people.find((pair) => pair[0] === id)?.[1] ?? `${id.slice(0, 40)} (has left)`,
      );
      write(
        whom,
        `to: ${shown.length ? shown.slice(0, 3).join(", ") + (shown.length > 3 ? ` and ${shown.length - 3} more` : "") : "everybody"} ▾`,
      );
      for (const box of boxes.querySelectorAll("input")) box.checked = chosen.has(box.value);
    }

    function typedName() {
      const before = text.value.slice(0, text.selectionStart);
      return text.selectionStart === text.selectionEnd
        ? (before.match(/(?:^|\s)@([\w.-]*)$/)?.[1] ?? null)
        : null;
    }

    function suggest() {
      const typed = typedName();
      const matches =
        typed === null
          ? []
          : people.filter(([id]) => id.toLowerCase().startsWith(typed.toLowerCase())).slice(0, 6);
      names.hidden = !matches.length;
      active = matches.length ? 0 : -1;
      names.replaceChildren(
        ...matches.map(([id, shown], n) =>
          make("div", {
            role: "option",
            id: `${names.id}-${n}`,
            "aria-selected": String(n === 0),
            "data-id": id,
            text: shown,
            onmousedown: (event) => {
              event.preventDefault();
              take(id);
            },
          }),
        ),
      );
      if (active < 0) text.removeAttribute("aria-activedescendant");
      else text.setAttribute("aria-activedescendant", `${names.id}-0`);
    }

    function take(id) {
      const at = text.selectionStart,
        typed = typedName() ?? "";
      text.setRangeText(`${id} `, at - typed.length, at, "end");
      chosen.add(id);
      names.hidden = true;
      text.removeAttribute("aria-activedescendant");
      drawLabels();
    }

    text.addEventListener("input", suggest);
    text.addEventListener("blur", () => {
      names.hidden = true;
    });
    text.addEventListener("keydown", (event) => {
      // While an input method composes a word, Enter takes the word.
      if (event.isComposing) return;
      const chooses = !names.hidden && !event.ctrlKey && !event.metaKey;
      if (event.key === "Enter" && !event.shiftKey && !chooses) {
        event.preventDefault();
        if (event.isTrusted && !event.repeat) send();
        return;
      }
      if (names.hidden || (event.key === "Enter" && event.shiftKey)) return;
      const options = [...names.children];
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        active = (active + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length;
        options.forEach((option, n) => option.setAttribute("aria-selected", String(n === active)));
        text.setAttribute("aria-activedescendant", options[active].id);
      } else if (event.key === "Enter" || event.key === "Tab") take(options[active].dataset.id);
      else if (event.key === "Escape") names.hidden = true;
      else return;
      event.preventDefault();
    });
    return {
      node,
      reply(id) {
        chosen.clear();
        chosen.add(id);
        drawLabels();
        text.focus();
      },
      people(item) {
        may = item.may.chat;
        for (const control of [text, say, whom, markdown]) control.disabled = !may;
        write(hint, may ? "" : "You don't have permission to chat in this space.");
        const wanted = JSON.stringify(item.people);
        if (boxes.dataset.people !== wanted) {
          boxes.dataset.people = wanted;
          people = item.people;
          labels.show(people);
          nobody.hidden = people.length > 0;
        }
        drawLabels();
      },
    };
  }

  return () => {
    tickEachSecond(false);
    tail.stop();
    reader.end();
    leave();
    link.end();
  };
}

export default { render };
