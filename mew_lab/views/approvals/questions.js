// The questions of MCP servers, above the cards: a form, an address to open, or what would be sent to a model. A question is
// a face like those of cards.js, so that one gate arms both: when all of it was in sight, each text of its form too, and the
// kernel has confirmed since when. Nothing is opened by itself: an address is text.

import { holdsFocus, isOff, make, write } from "../ui/elements.js";
import { schemaForm } from "../ui/form.js";
import { shorten } from "../ui/text.js";
import { arm, decider, faceOf, lookAt, readerBar, rearm, watchNode } from "./cards.js";
import { readerOf } from "../ui/reading.js";

const LONG = { lines: 16, characters: 1500 }; // above which a text has a scroller of its own
const ACCEPT = {
  form: "Send answer",
  url: "I have opened it",
  sampling: "Let the model reply",
  start: "Allow and start",
};
const ENDS = { accepted: "Answered", declined: "Declined", cancelled: "Dismissed", ended: "Ended" };

/**
 * A question as the kernel gives it, from `question_data` of question_cards.py.
 * @typedef {{ id: string, digest: string, kind: "form" | "url" | "sampling" | "start", state: string, title: string, calls: string[], warnings: string[], message: string, form: string[], url: string, host: string, prompt: [string, string][], plan: any, more: [string, string][], sent: string, outcome: string, since: number }} QuestionData
 */

// The list; `tools` has `link`, `announce`, `isHeld()`, whether the list below must not move now, and `moveOn()`, which gives
// the focus to what is open still.
export function questionList({ link, announce, isHeld, moveOn }) {
  const node = make("ul", {
    class: "mew-questions",
    role: "list",
    "aria-label": "Questions of servers",
    hidden: true,
  });
  const questions = new Map();

  function put(data) {
    const old = questions.get(data.id);
    if (!old) {
      if (data.state !== "open") return;
      const made = questionOf(data, link, announce);
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
    node,
    put,
    // Only the open ones of a snapshot are open; the others ended while messages were lost.
    keep(ids) {
      for (const [id, one] of questions) if (one.isOpen() && !ids.has(id)) one.end("Ended");
    },
    get open() {
      return [...questions.values()].filter((one) => one.isOpen()).length;
    },
    get nodes() {
      return [...questions.values()]
        .filter((one) => one.isOpen() && one.node.isConnected)
        .map((one) => one.node);
    },
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
    look(known) {
      for (const one of questions.values()) if (one.isOpen() && one.node.isConnected) one.look(known);
    },
  };
}

/** @type {(data: QuestionData, link: any, announce: (words: string) => void) => any} */
function questionOf(data, link, announce) {
  const node = make("li", { class: "mew-card mew-question", tabindex: 0, "aria-label": data.title });
  // What the gate of cards.js reads of a card.
  const card = {
    node,
    data: {},
    desk: { isOff: () => link.isOff(), announce },
    top: { watch: [], closed: new Set() },
    sent: null,
    spoilt: false,
  };
  const face = faceOf(card, "question", data.digest);
  const part = (made) => watchNode(face, made);
  // A long text is scrolled in a window of its own, with a button that leads to what was not in sight yet.
  function reading(shown, name) {
    const value = shown.textContent,
      read = readerOf(shown, name);
    face.watch.push(read);
    if (value.length <= LONG.characters && value.split("\n").length <= LONG.lines) return shown;
    shown.classList.add("mew-whole");
    shown.tabIndex = 0;
    shown.setAttribute("role", "region");
    shown.setAttribute("aria-label", `All of ${shorten(name)}`);
    return make("div", { class: "mew-long" }, shown, readerBar(shown, read));
  }
  const text = (name, value, kind = "") =>
    reading(make("div", { class: `${kind} mew-asked-text`.trim(), dir: "auto", text: value }), name);
  const title = part(make("div", { class: "mew-says", text: data.title })),
    head = face.watch[0];
  node.append(title);
  for (const call of data.calls)
    node.append(make("div", { class: "mew-why" }, "For ", make("bdi", { text: call })));
  for (const warning of data.warnings)
    node.append(
      part(
        make(
          "div",
          { class: "mew-warning" },
          make("span", { "aria-hidden": "true", text: "⚠" }),
          make("bdi", { text: warning }),
        ),
      ),
    );
  if (data.message) node.append(text("the question", data.message, data.kind === "start" ? "mew-code" : ""));
  for (const value of data.form) node.append(text("the form", value));
  let form = null;
  if (data.kind === "form") {
    form = schemaForm(data.plan, { changed() {}, watch: reading });
    node.append(form.node, part(make("div", { class: "mew-why", text: data.sent })));
  } else if (data.kind === "start") node.append(part(make("div", { class: "mew-why", text: data.sent })));
  else if (data.kind === "url") {
    node.append(
      make(
        "div",
        { class: "mew-why" },
        "Host ",
        make("b", {}, part(make("bdi", { class: "mew-code mew-asked-host", text: data.host }))),
      ),
      reading(
        make("div", { class: "mew-code mew-asked-text mew-asked-url", dir: "ltr", text: data.url }),
        "the address",
      ),
      make("div", { class: "mew-why", text: "Nothing is opened here. Open it yourself if you trust it." }),
    );
  } else {
    for (const [role, value] of data.prompt)
      node.append(make("div", { class: "mew-why", text: role }), text(role, value, "mew-code"));
    node.append(
      make("div", { class: "mew-why", text: "This is sent to the model, and its reply to the server." }),
    );
  }
  for (const [name, value] of data.more)
    node.append(text(name, `Also in the question: ${name} ${value}`, "mew-why"));
  const notice = make("div", { class: "mew-notice", role: "alert", hidden: true });
  const other = (action, label, kind) => {
    const button = make("button", {
      class: kind,
      text: label,
      "aria-disabled": "true",
      onclick: (event) => {
        arm(face);
        if (event.isTrusted && !isOff(button)) answer(action);
      },
    });
    return button;
  };
  const decline = other("decline", "Decline", "mew-decline"),
    dismiss = other("cancel", "Dismiss", "mew-dismiss mew-quiet");
  face.primary = decider(face, ACCEPT[data.kind], () => answer("accept"), {
    class: "mew-accept mew-primary",
  });
  face.others = [decline, dismiss];
  const buttons = make("div", { class: "mew-buttons" }, face.primary, face.hint, dismiss, decline);
  node.append(notice, buttons);
  let isOpen = true,
    asked = false;

  function say(words) {
    notice.hidden = !words;
    write(notice, words);
  }

  async function see() {
    asked = true;
    face.reported = performance.now();
    const done = await link.act("see_question", { id: data.id, digest: data.digest, view: link.view }, say);
    if (!done) return void (asked = false);
    face.since = performance.now();
    face.ready = face.since + 1000 * done.value;
  }

  async function answer(action) {
    const choices = { id: data.id, digest: data.digest, view: link.view, action };
    if (action === "accept" && form) {
      const values = form.text();
      if (values === null) return say("Correct the marked fields first.");
      choices.values = values;
    }
    card.sent = performance.now();
    arm(face);
    say("");
    await link.act("answer_question", choices, say);
    card.sent = null;
    rearm(face);
  }

  return {
    node,
    isOpen: () => isOpen,
    look(known) {
      // The items of a list may have been taken away.
      face.watch = face.watch.filter((one) => node.contains(one.node));
      lookAt(face, known);
      if (head.done && !asked && !link.isOff()) see();
      arm(face);
    },
    end(words) {
      isOpen = false;
      face.primary = null;
      buttons.replaceChildren(make("span", { class: "mew-why", text: words }));
    },
  };
}
