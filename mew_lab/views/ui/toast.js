// A line at the bottom of a part that tells what was done, with an action such as "Undo". It has room of its own, so that it
// covers no button at the end of the part. It goes after some seconds, but not while it is pointed at or holds the focus; its
// room goes once no view is pointed at, so that no button moves under a pointer.

import { make } from "./elements.js";

/**
 * Shows a line, and returns the function that takes it away.
 * @typedef {(text: string, choices?: { action?: { text: string, run: () => void } | null, seconds?: number, tone?: string }) => () => void} Toast
 */

const ROOM_CHECK = 500; // ms

// Returns `toast(text, { action: { text, run }, seconds, tone })`; a new one takes the place of the last one.
/** @type {(root: HTMLElement) => Toast} */
export function makeToaster(root) {
  const place = make("div", { class: "mew-toasts", role: "status", "aria-live": "polite" });
  root.append(place);
  let timer = null;
  return (text, { action = null, seconds = 8, tone = "" } = {}) => {
    clearTimeout(timer);
    const line = make("div", { class: "mew-toast", "data-tone": tone }, make("bdi", { text }));
    const close = () => {
      if (line.isConnected && !line.inert) leave();
    };
    const leave = () => {
      clearTimeout(timer);
      line.inert = true;
      if (/** @type {Document | ShadowRoot} */ (root.getRootNode()).querySelector(".mew:hover"))
        timer = setTimeout(leave, ROOM_CHECK);
      else line.remove();
    };
    const wait = () => {
      if (line.inert) return;
      clearTimeout(timer);
      timer = setTimeout(close, seconds * 1000);
    };
    if (action)
      line.append(
        make("button", {
          text: action.text,
          onclick: (event) => {
            if (event.isTrusted) {
              close();
              action.run();
            }
          },
        }),
      );
    line.append(make("button", { class: "mew-quiet", text: "Dismiss", onclick: close }));
    for (const kind of ["pointerenter", "focusin"])
      line.addEventListener(kind, () => {
        if (!line.inert) clearTimeout(timer);
      });
    for (const kind of ["pointerleave", "focusout"])
      line.addEventListener(kind, () => {
        if (!line.matches(":hover, :focus-within")) wait();
      });
    place.replaceChildren(line);
    wait();
    return close;
  };
}
