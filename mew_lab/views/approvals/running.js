// The calls that run, above the cards: each with its seconds, its progress and a button that cancels it. A call shows once
// it has run for a second. What stands below keeps its place while a person may be about to press something there.

import { cancelButton } from "../ui/cancel.js";
import { holdsFocus, make, ticker, write } from "../ui/elements.js";
import { elapsedTime } from "../ui/text.js";

const SHOWN_AFTER = 1; // seconds

// "git/push runs, 0:03 · 2 of 4 · downloading"
export function runningText(call, now) {
  return [`${call.text} runs, ${elapsedTime(now - call.since)}`, call.progress].filter(Boolean).join(" · ");
}

// What the line of a decided card has while its call runs: "0:03 · 2 of 4 · downloading", and the button.
export function runningNote(link, call, toast) {
  const text = make("bdi", { class: "mew-num" }),
    stop = cancelButton(link, call, toast);
  const note = {
    node: make("span", { class: "mew-run" }, text, stop),
    call,
    put(call) {
      note.call = call;
      stop.hidden = !call.cancel;
    },
    tell(now) {
      write(text, [elapsedTime(now - note.call.since), note.call.progress].filter(Boolean).join(" · "));
    },
  };
  return note;
}

// "git/push ran, 0:12"
export function endedText(call) {
  return `${call.text} ${call.end.text}, ${elapsedTime(call.end.at - call.since)}`;
}
const END_SIGNS = { done: "✓", failed: "✗", unknown: "?" };

// The list; `now()` is the time of the kernel in seconds of the epoch, `isHeld(node)` whether what stands below must not
// move now, where `node` stands above it, and `moveOn()` gives the focus to what is open there.
export function runningList({ link, now, toast, isHeld, moveOn }) {
  const node = make("ul", {
    class: "mew-running",
    role: "list",
    "aria-label": "Calls that run",
    hidden: true,
  });
  /** @type {Map<string, { call: import("../ui/cancel.js").RunningData, line: HTMLElement, sign: HTMLElement, text: HTMLElement, stop: HTMLElement, over: boolean }>} */
  const rows = new Map();
  const tickEachSecond = ticker(tick);

  function rowOf(call) {
    const sign = make("span", { class: "mew-sign", "aria-hidden": "true", text: "◌" });
    const text = make("bdi", {});
    const stop = cancelButton(link, call, toast);
    return {
      call,
      line: make("li", { class: "mew-running-call" }, sign, text, make("span", { class: "mew-gap" }), stop),
      sign,
      text,
      stop,
      over: false,
    };
  }

  // While it is held, the row of a call that has ended stays, and so does the height of the list.
  function tick() {
    if (link.isOff()) return;
    const time = now(),
      held = isHeld(node) || (node.children.length > 1 && node.matches(":hover"));
    if (!held) node.style.height = "";
    else if (!node.style.height) node.style.height = `${node.offsetHeight}px`;
    node.style.overflow = held ? "hidden" : "";
    for (const [id, { call, line, sign, text, over }] of rows) {
      if (over && !(held && line.isConnected)) {
        line.remove();
        rows.delete(id);
        continue;
      }
      write(text, call.end ? endedText(call) : over ? `${call.text} runs no more` : runningText(call, time));
      write(sign, call.end ? END_SIGNS[call.end.how] : "◌");
      sign.className = `mew-sign mew-sign-${call.end ? call.end.how : "runs"}`;
      if (!held && !line.isConnected && time - call.since >= SHOWN_AFTER) node.append(line);
    }
    if (!held) node.hidden = !node.children.length;
    tickEachSecond([...rows.values()].some((row) => !row.call.end));
  }

  function finish(row) {
    const focused = holdsFocus(row.line);
    row.over = true;
    row.stop.style.visibility = "hidden";
    if (!focused) return;
    const next = [...rows.values()].find(
      (other) => !other.over && !other.stop.hidden && other.line.isConnected,
    );
    if (next) next.stop.focus({ preventScroll: true });
    else moveOn();
  }

  return {
    node,
    put(calls) {
      const ids = new Set(calls.map((call) => call.id));
      for (const [id, row] of rows) if (!ids.has(id) && !row.over) finish(row);
      for (const call of calls) {
        const row = rows.get(call.id) ?? rowOf(call);
        if (call.end && !row.call.end && holdsFocus(row.line)) moveOn();
        row.call = call;
        row.stop.hidden = !call.cancel;
        rows.set(call.id, row);
      }
      tick();
    },
    end() {
      tickEachSecond(false);
    },
  };
}
