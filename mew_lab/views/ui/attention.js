// Tells a reader who looks elsewhere that something waits: a number before the title of the page, and a line in the part.

import { countOf } from "./text.js";

const TITLE_MARK = /^\(\d+\)\s*/;

// `shown()` tells whether what waits is in sight, `show()` brings it there. Several views in a page share its title, so each
// keeps its count in the page.
/** @type {(on: { shown: () => boolean, show: () => void, toast: import("./toast.js").Toast }) => { set(waiting: number): void, end(): void }} */
export function attention({ shown, show, toast }) {
  const page = /** @type {Document & { mewWaiting?: Map<object, number> }} */ (document);
  const key = {},
    counts = (page.mewWaiting ??= new Map());
  let told = 0;
  function set(waiting) {
    counts.set(key, waiting);
    mark();
    if (waiting > told && !shown())
      toast(`${countOf(waiting, "request")} ${waiting === 1 ? "needs" : "need"} your approval.`, {
        tone: "wait",
        seconds: 30,
        action: { text: "Show", run: show },
      });
    told = waiting;
  }
  function mark() {
    const most = Math.max(0, ...counts.values());
    const rest = document.title.replace(TITLE_MARK, "");
    // A title never ends with a blank: one that did would be set again for ever.
    const title = [...(most ? [`(${most})`] : []), ...(rest ? [rest] : [])].join(" ");
    if (document.title !== title) document.title = title;
  }
  // The front end writes the title anew, as when another notebook comes to the front.
  const titles = new MutationObserver(mark);
  const node = document.querySelector("title");
  if (node) titles.observe(node, { childList: true });
  return {
    set,
    end() {
      titles.disconnect();
      counts.delete(key);
      mark();
    },
  };
}
