// The calls that run, above the cards: each with its seconds, its progress and a button that cancels it. A call shows once
// it has run for a second.

import { cancelButton } from "../ui/cancel.js";
import { holdsFocus, make, write } from "../ui/elements.js";
import { elapsedTime } from "../ui/text.js";

const SHOWN_AFTER = 1; // seconds

// "git/push runs, 0:03 · 2 of 4 · downloading"
export function runningText(call, now) {
  return [`${call.text} runs, ${elapsedTime(now - call.since)}`, call.progress].filter(Boolean).join(" · ");
}

// The list; `now()` is the time of the kernel in seconds of the epoch. `moveOn()` takes over the focus of the last call.
export function runningList({ link, now, toast, moveOn }) {
  const node = make("ul", { class: "mew-running", role: "list", "aria-label": "Calls that run", hidden: true });
  /** @type {Map<string, { call: import("../ui/cancel.js").RunningData, line: HTMLElement, text: HTMLElement, stop: HTMLElement }>} */
  const rows = new Map();
  let ticks = null;

  function rowOf(call) {
    const text = make("bdi", {});
    const stop = cancelButton(link, call, toast);
    return { call, line: make("li", { class: "mew-running-call" }, text, make("span", { class: "mew-gap" }), stop), text, stop };
  }

  function tick() {
    if (link.isOff()) return;
    const time = now();
    for (const { call, line, text } of rows.values()) {
      write(text, runningText(call, time));
      if (!line.isConnected && time - call.since >= SHOWN_AFTER) node.append(line);
    }
    node.hidden = !node.children.length;
  }

  return {
    node,
    put(calls) {
      const ids = new Set(calls.map((call) => call.id)), focused = holdsFocus(node);
      for (const [id, { line }] of rows) if (!ids.has(id)) { line.remove(); rows.delete(id); }
      for (const call of calls) {
        const row = rows.get(call.id) ?? rowOf(call);
        row.call = call;
        row.stop.hidden = !call.cancel;
        rows.set(call.id, row);
      }
      tick();
      if (focused && !holdsFocus(node)) {
        const next = [...rows.values()].find(({ line, stop }) => line.isConnected && !stop.hidden);
        if (next) next.stop.focus({ preventScroll: true });
        else moveOn();
      }
      if (rows.size) ticks ??= setInterval(tick, 1000);
      else { clearInterval(ticks); ticks = null; }
    },
    end() { clearInterval(ticks); },
  };
}
