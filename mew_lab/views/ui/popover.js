// Shows an element above everything else, beside the element that opened it. The top layer of the page keeps it whole
// where its part scrolls or clips; a browser without the popover API shows it below its opener.

import { holdsFocus } from "./elements.js";

const OPENER_ABSENT = 500; // milliseconds without its opener, after which it closes

/** @typedef {HTMLElement & { mewClosePopover?: (focusBack: boolean) => void }} Opener an element that opens a popover */

// Returns `close(focusBack)`. It closes by itself with Escape, a press elsewhere, and when its opener is gone. `back` gets
// the focus then; `closed()` is called once.
/** @type {(node: HTMLElement, anchor: Opener, choices?: { back?: HTMLElement, closed?: () => void }) => (focusBack: boolean) => void} */
export function showPopover(node, anchor, { back = anchor, closed = () => {} } = {}) {
  anchor.mewClosePopover?.(false);
  node.classList.add("mew-popover");
  const layered = "popover" in HTMLElement.prototype;
  if (layered) node.setAttribute("popover", "manual");
  anchor.after(node);
  anchor.setAttribute("aria-expanded", "true");
  if (layered) {
    node.showPopover();
    placeBeside(node, anchor);
  }
  let open = true;
  function close(focusBack) {
    if (!open) return;
    open = false;
    delete anchor.mewClosePopover;
    for (const [target, kind, run] of listeners) target.removeEventListener(kind, run, true);
    const held = holdsFocus(node);
    node.remove();
    anchor.setAttribute("aria-expanded", "false");
    if (focusBack && (held || document.activeElement === document.body)) back.focus({ preventScroll: true });
    closed();
  }
  // The target of a press in a shadow tree is its host, so the whole path tells where it was.
  const away = (event) => {
    if (![node, anchor].some((own) => event.composedPath().includes(own))) close(false);
  };
  const key = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    close(true);
  };
  // Its opener moves when the page scrolls and when a row above it wraps anew, which no event tells. A notebook may take a
  // cell out of the page for a moment.
  let stood = "",
    gone = 0;
  const follow = () => {
    if (!open) return;
    requestAnimationFrame(follow);
    if (!anchor.isConnected || !anchor.getClientRects().length) {
      gone ||= performance.now();
      if (performance.now() - gone > OPENER_ABSENT) close(false);
      return;
    }
    gone = 0;
    const at = anchor.getBoundingClientRect(),
      stands = [at.left, at.top, innerWidth, innerHeight].join(" ");
    if (layered && stands !== stood) placeBeside(node, anchor);
    stood = stands;
  };
  /** @type {[EventTarget, string, EventListener][]} */
  const listeners = [
    [document, "pointerdown", away],
    [node, "keydown", key],
  ];
  for (const [target, kind, run] of listeners) target.addEventListener(kind, run, true);
  follow();
  anchor.mewClosePopover = close;
  /** @type {HTMLElement} */
  const first =
    node.querySelector("[autofocus]") ??
    node.querySelector("button, input, select, textarea, [tabindex]") ??
    node;
  first.focus({ preventScroll: true });
  return close;
}

// Below its opener where there is room, else above it; within the window in any case. It is fixed at the edge that faces its
// opener, so that it never covers it when it grows.
function placeBeside(node, anchor) {
  const at = anchor.getBoundingClientRect(),
    box = node.getBoundingClientRect(),
    gap = 4;
  const below = innerHeight - at.bottom - gap,
    above = at.top - gap;
  const up = box.height > below && above > below;
  const left = Math.max(gap, Math.min(at.left, innerWidth - box.width - gap));
  node.style.left = `${left}px`;
  node.style.maxHeight = `${Math.max(80, (up ? above : below) - gap)}px`;
  node.style.top = up ? "auto" : `${at.bottom + gap}px`;
  node.style.bottom = up ? `${innerHeight - at.top + gap}px` : "auto";
}
