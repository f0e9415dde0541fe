// Keeps a list at its newest entry until the reader scrolls away; then the button shows the number of new entries. `back`
// is called when the list follows again.

import { groupDigits } from "./text.js";

export function follower(scroller, button, back = () => {}) {
  let following = true,
    unseen = 0,
    placed = -1;
  function showNews() {
    button.hidden = following;
    const text = unseen ? `${groupDigits(unseen)} new ▾ follow` : "▾ follow";
    if (button.textContent !== text) button.textContent = text;
  }
  function atEnd() {
    return scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 4;
  }
  function end() {
    scroller.scrollTop = scroller.scrollHeight;
    placed = scroller.scrollTop;
  }
  scroller.addEventListener("scroll", () => {
    if (!scroller.clientHeight || Math.abs(scroller.scrollTop - placed) < 1) return;
    placed = -1;
    following = atEnd();
    if (following) unseen = 0;
    showNews();
    if (following) back();
  });
  button.addEventListener("click", () => {
    following = true;
    unseen = 0;
    end();
    showNews();
    scroller.focus({ preventScroll: true });
    back();
  });
  // The list may be out of the layout (a theme change, a hidden tab): it keeps its position until it is back.
  const sizes = new ResizeObserver(() => {
    if (following && scroller.clientHeight) end();
  });
  sizes.observe(scroller);
  showNews();
  return {
    follows: () => following,
    arrived(n) {
      if (!following) unseen += n;
      showNews();
    },
    settle() {
      if (following && scroller.clientHeight) end();
    },
    hold() {
      following = atEnd();
      showNews();
    },
    stop() {
      sizes.disconnect();
    },
  };
}
