// The one stop of a lab, in each of its views: Ctrl-. stops everything, and a line at the top says who stopped it and when.
// Its button lists what going on undoes, and pressed again does it. In a panel the line stands once, in the panel.

import { activeOf, doer, holdsFocus, make, write } from "./elements.js";

export const STOP_KEY = [
  "Ctrl-.",
  "Stop everything at once: nothing is approved, calls are cancelled, agents paused",
];
const STOP = "stop everything";
const GO_ON = "go on";

/** @typedef {{ done: boolean, lines: string[] }} StopTold what was seen, or what going on would undo */

// Adds the line to a view. `act` performs an act in Python; `keys` is where the key is pressed. Returns `show(text)`, which
// takes who stopped the lab and when, empty while it is not stopped, `stop()` for a button that does the same, and `end()`.
/** @type {(root: HTMLElement, keys: EventTarget, view: string, act: import("./connection.js").Link["act"]) => { stop: () => Promise<void>, show: (text: string | undefined) => void, end: () => void }} */
export function makeStopLine(root, keys, view, act) {
  const said = make("b", {});
  const list = make("ul", { class: "mew-stop-list", hidden: true });
  const go = doer("Go on", () => goOn());
  const line = make("div", { class: "mew-stopped", role: "status", hidden: true }, said, go, list);
  root.prepend(line);

  /** @type {(lines: string[]) => void} */
  function tell(lines) {
    list.hidden = !lines.length;
    list.replaceChildren(...lines.map((text) => make("li", {}, make("bdi", { text }))));
  }
  /** @type {HTMLElement | null} */
  let from = null; // what had the focus when the key was pressed
  async function stop() {
    const done = await act(STOP);
    if (done) tell(/** @type {StopTold} */ (done.value).lines);
  }
  async function goOn() {
    const done = await act(GO_ON, { page: view });
    if (!done) return;
    const told = /** @type {StopTold} */ (done.value);
    tell(told.done ? [] : told.lines);
    write(go, told.done ? "Go on" : "Go on now");
  }
  // When the line goes, the focus goes back, or to the first button that takes it.
  function rest() {
    const buttons = /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("button:enabled"));
    for (const place of root.contains(from) ? [from, ...buttons] : buttons) {
      if (line.contains(place)) continue;
      place.focus({ preventScroll: true });
      if (holdsFocus(place)) return;
    }
  }
  /** @type {(event: Event) => void} */
  function press(event) {
    const key = /** @type {KeyboardEvent} */ (event);
    if (key.key !== "." || !key.ctrlKey || key.altKey || key.metaKey || key.repeat || key.defaultPrevented)
      return;
    if (root.parentElement?.closest(".mew-panel")) return; // the panel takes it, and shows what was seen
    key.preventDefault();
    key.stopPropagation();
    from = activeOf(root);
    stop();
  }
  // Before the parts of a view, which keep the keys that they see from what is around them.
  keys.addEventListener("keydown", press, true);
  return {
    stop,
    show(text) {
      if (said.textContent !== (text ?? "")) tell([]);
      if (!text) write(go, "Go on");
      write(said, text ?? "");
      const focused = holdsFocus(line);
      line.hidden = !text;
      if (focused && !text) rest();
    },
    end: () => keys.removeEventListener("keydown", press, true),
  };
}
