// The questions of MCP servers, above the cards: a form, an address to open, or what would be sent to a model. Accepting arms
// when all of a question was in sight and the kernel has confirmed since when. Nothing is opened by itself: an address is text.

import { holdsFocus, make, write } from "../ui/elements.js";
import { schemaForm } from "../ui/form.js";
import { shorten } from "../ui/text.js";
import { readerBar } from "./cards.js";
import { partOf, readerOf } from "./reading.js";

const ANY_CLICK = 500; // milliseconds on screen before any click counts
const LONG = { lines: 16, characters: 1500 }; // above which a text has a scroller of its own
const ACCEPT = { form: "Send answer", url: "I have opened it", sampling: "Let the model reply" };
const ENDS = { accepted: "Answered", declined: "Declined", cancelled: "Dismissed", ended: "Ended" };

/**
 * A question as the kernel gives it, from `question_data` of question_cards.py.
 * @typedef {{ id: string, digest: string, kind: "form" | "url" | "sampling", state: string, title: string, calls: string[], warnings: string[], message: string, url: string, host: string, prompt: [string, string][], plan: any, sent: string, outcome: string, since: number }} QuestionData
 */

// The list; `tools` has `link`, `announce`, `isHeld()`, whether the list below must not move now, and `moveOn()`, which gives
// the focus to what is open still.
export function questionList({ link, announce, isHeld, moveOn }) {
  const node = make("ul", { class: "mew-questions", role: "list", "aria-label": "Questions of servers", hidden: true });
  const questions = new Map();

  function put(data) {
    const old = questions.get(data.id);
    if (!old) {
      if (data.state !== "open") return;
      const made = questionOf(data, link);
      questions.set(data.id, made);
      announce(`${data.title}, waiting for your answer`);
    } else if (data.state !== "open") {
      const focused = holdsFocus(old.node);
      old.end(`${ENDS[data.state] ?? data.state}${data.outcome ? `: ${data.outcome}` : ""}`);
      announce(`${data.title}: ${ENDS[data.state] ?? data.state}`);
      if (focused) moveOn();
    }
  }

  return {
    node, put,
    // Only the open ones of a snapshot are open; the others ended while messages were lost.
    keep(ids) { for (const [id, one] of questions) if (one.isOpen() && !ids.has(id)) one.end("Ended"); },
    get open() { return [...questions.values()].filter((one) => one.isOpen()).length; },
    get nodes() { return [...questions.values()].filter((one) => one.isOpen() && one.node.isConnected).map((one) => one.node); },
    // Adds and removes while nothing is held that would move.
    update() {
      if (isHeld()) return;
      for (const [id, one] of questions) {
        if (one.isOpen() && !one.node.isConnected) node.append(one.node);
        else if (!one.isOpen() && !one.node.matches(":hover") && !holdsFocus(one.node)) {
          questions.delete(id);
          one.node.remove();
        }
      }
      node.hidden = !node.children.length;
    },
    look(known) { for (const one of questions.values()) if (one.isOpen() && one.node.isConnected) one.look(known); },
  };
}

/** @type {(data: QuestionData, link: any) => any} */
function questionOf(data, link) {
  const parts = [], watch = (part) => { parts.push(part); return part.node; };
  // A long text is scrolled in a window of its own, with a button that leads to what was not in sight yet.
  function text(name, value, kind = "") {
    const read = readerOf(make("div", { class: `${kind} mew-asked-text`.trim(), dir: "auto", text: value }), name);
    const shown = watch(read);
    if (value.length <= LONG.characters && value.split("\n").length <= LONG.lines) return shown;
    shown.classList.add("mew-whole");
    shown.tabIndex = 0;
    shown.setAttribute("role", "region");
    shown.setAttribute("aria-label", `All of ${shorten(name)}`);
    return make("div", {}, shown, readerBar(shown, read));
  }
  const title = watch(partOf(make("div", { class: "mew-says", text: data.title })));
  const node = make("li", { class: "mew-card mew-question", tabindex: 0, "aria-label": data.title }, title);
  for (const call of data.calls) node.append(make("div", { class: "mew-why" }, "For ", make("bdi", { text: call })));
  for (const warning of data.warnings) node.append(watch(partOf(make("div", { class: "mew-warning" }, make("span", { "aria-hidden": "true", text: "⚠" }), make("bdi", { text: warning })))));
  if (data.message) node.append(text("the question", data.message));
  let form = null;
  if (data.kind === "form") {
    form = schemaForm(data.plan, { changed() {} });
    node.append(form.node, make("div", { class: "mew-why", text: data.sent }));
  } else if (data.kind === "url") {
    node.append(
      make("div", { class: "mew-why" }, "Host ", make("b", {}, watch(partOf(make("bdi", { class: "mew-code mew-asked-host", text: data.host }))))),
      watch(readerOf(make("div", { class: "mew-code mew-asked-text mew-asked-url", dir: "ltr", text: data.url }), "the address")),
      make("div", { class: "mew-why", text: "Nothing is opened here. Open it yourself if you trust it." }));
  } else {
    for (const [role, value] of data.prompt) node.append(make("div", { class: "mew-why", text: role }), text(role, value, "mew-code"));
    node.append(make("div", { class: "mew-why", text: "This is sent to the model, and its reply to the server." }));
  }
  const notice = make("div", { class: "mew-notice", role: "alert", hidden: true });
  const hint = make("span", { class: "mew-hint mew-why" });
  const button = (action, label, kind) => make("button", { type: "button", class: kind, text: label, "aria-disabled": "false", onclick: (event) => { if (event.isTrusted) answer(action); } });
  const accept = button("accept", ACCEPT[data.kind], "mew-accept"), decline = button("decline", "Decline", "mew-decline"), dismiss = button("cancel", "Dismiss", "mew-dismiss mew-quiet");
  const buttons = make("div", { class: "mew-buttons" }, accept, hint, make("span", { class: "mew-gap" }), dismiss, decline);
  node.append(notice, buttons);
  let isOpen = true, sending = false, asked = false, ready = Infinity, shown = Infinity;

  function say(words) {
    notice.hidden = !words;
    write(notice, words);
  }

  function arm() {
    const unseen = parts.find((part) => !part.done);
    const off = !isOpen || sending || link.isOff() || Boolean(unseen) || performance.now() < ready;
    accept.setAttribute("aria-disabled", String(off));
    for (const other of [decline, dismiss]) other.setAttribute("aria-disabled", String(!isOpen || sending || performance.now() < shown || link.isOff()));
    write(hint, isOpen && unseen?.says ? unseen.says() : "");
  }

  async function see() {
    asked = true;
    const done = await link.act("see_question", { id: data.id, digest: data.digest, view: link.view }, say);
    if (!done) return void (asked = false);
    ready = performance.now() + 1000 * done.value;
    shown = performance.now() + ANY_CLICK;
  }

  async function answer(action) {
    const pressed = { accept, decline, cancel: dismiss }[action];
    if (pressed.getAttribute("aria-disabled") === "true") return;
    const choices = { id: data.id, digest: data.digest, view: link.view, action };
    if (action === "accept" && form) {
      const values = form.text();
      if (values === null) return say("Correct the marked fields first.");
      choices.values = values;
    }
    sending = true;
    arm();
    say("");
    await link.act("answer_question", choices, say);
    sending = false;
    arm();
  }

  arm();
  return {
    node,
    isOpen: () => isOpen,
    look(known) {
      for (const part of parts) part.look(known, node);
      if (parts[0].done && !asked && !link.isOff()) see();
      arm();
    },
    end(words) {
      isOpen = false;
      arm();
      buttons.replaceChildren(make("span", { class: "mew-why", text: words }));
    },
  };
}
