// A bar between two places that changes the width of one of them, by mouse and by keyboard.

import { make } from "./elements.js";

const SPLITTER_STEP = 16;

// `place` is the element whose width, `--mew-width`, changes, in pixels between `min` and `max`. `direction` is 1 where the
// place is before the bar, else -1. `changed(px)` is called once at the end of a change. A double click sets `start` again.
export function makeSplitter({ label, min, max, start, place, direction, changed }) {
  const node = make("div", {
    class: "mew-splitter",
    role: "separator",
    tabindex: 0,
    "aria-orientation": "vertical",
    "aria-label": label,
    "aria-valuemin": min,
    "aria-valuemax": max,
  });
  let width = start,
    from = null;
  function set(px) {
    width = Math.round(Math.max(min, Math.min(max, Number.isFinite(px) ? px : start)));
    place.style.setProperty("--mew-width", `${width}px`);
    node.setAttribute("aria-valuenow", String(width));
  }
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    from = { x: event.clientX, width };
    node.setPointerCapture(event.pointerId);
    event.preventDefault();
    node.focus();
  });
  node.addEventListener("pointermove", (event) => {
    if (from) set(from.width + (event.clientX - from.x) * direction);
  });
  const finish = () => {
    if (from && from.width !== width) changed(width);
    from = null;
  };
  node.addEventListener("pointerup", finish);
  node.addEventListener("pointercancel", finish);
  node.addEventListener("dblclick", () => {
    set(start);
    changed(width);
  });
  node.addEventListener("keydown", (event) => {
    const to = {
      ArrowLeft: width - SPLITTER_STEP * direction,
      ArrowRight: width + SPLITTER_STEP * direction,
      Home: min,
      End: max,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    set(to);
    changed(width);
  });
  set(start);
  return { node, set };
}
