// Records which parts of a card were in sight. A part counts once all of it was inside the window and inside everything that
// clips it, uncovered, with the tab in front, at two looks in a row. The visible ranges of a part that is taller than its
// window add up; a new layout half-way starts over. A long text is cut into parts, so that each of its lines must be seen.

import { make } from "./elements.js";
import { groupDigits, shorten } from "./text.js";

const PARTS = 8000;
const PIECE = 200;
const BLOCK = 100;

export function meet(a, b) {
  return {
    left: Math.max(a.left, b.left),
    top: Math.max(a.top, b.top),
    right: Math.min(a.right, b.right),
    bottom: Math.min(a.bottom, b.bottom),
  };
}

// The part of the window that a person sees, in the page's coordinates; zoomed in by two fingers it is less than the window.
function pane() {
  const zoomed = window.visualViewport,
    left = zoomed?.offsetLeft ?? 0,
    top = zoomed?.offsetTop ?? 0;
  return {
    left,
    top,
    right: left + (zoomed?.width ?? innerWidth),
    bottom: top + (zoomed?.height ?? innerHeight),
  };
}

function clips(style) {
  return (
    style.overflowX !== "visible" ||
    style.overflowY !== "visible" ||
    style.clipPath !== "none" ||
    /paint|strict|content/.test(style.contain)
  );
}

// The area to which the ancestors of a node clip it. `known` is a cache for one look, during which nothing moves.
function clipOf(node, known) {
  const up = node.parentElement ?? node.getRootNode().host;
  if (!up || up === document.body || up === document.documentElement) return known.get("pane") ?? pane();
  let clip = known.get(up);
  if (!clip) {
    clip = clipOf(up, known);
    if (clips(getComputedStyle(up))) {
      const box = up.getBoundingClientRect(),
        left = box.left + up.clientLeft,
        top = box.top + up.clientTop;
      clip = meet(clip, { left, top, right: left + up.clientWidth, bottom: top + up.clientHeight });
    }
    known.set(up, clip);
  }
  return clip;
}

// Some front ends put the output into a frame of its full height: only the browser knows which part of it is in sight.
export function frameWatch(root) {
  if (window === window.top || !window.IntersectionObserver) return { pane, end() {} };
  let last = { left: 0, top: 0, right: 0, bottom: 0 };
  const observer = new IntersectionObserver((entries) => {
    last = entries.at(-1).intersectionRect;
  });
  const again = setInterval(() => {
    observer.unobserve(root);
    observer.observe(root);
  }, 100);
  return {
    pane: () => meet(pane(), last),
    end() {
      clearInterval(again);
      observer.disconnect();
    },
  };
}

function uncovered(box, around) {
  const x = (box.left + box.right) / 2,
    high = box.bottom - box.top,
    steps = Math.min(24, Math.ceil(high / 40));
  for (let n = 0; n < steps; n += 1) {
    const hit = around.getRootNode().elementFromPoint(x, box.top + (high * (n + 0.5)) / steps);
    if (!hit || !around.contains(hit)) return false;
  }
  return true;
}

// `wide` is the element that must be in sight from side to side: the whole column of a wrapped text, for a space at the end
// of a line may overflow it.
export function partOf(node, wide = node) {
  let from = null,
    to = null,
    shape = "",
    before = null;
  const part = {
    node,
    done: false,
    look(known, around) {
      if (part.done) return;
      const box = node.getBoundingClientRect(),
        clip = clipOf(node, known);
      const across = wide === node ? box : wide.getBoundingClientRect(),
        sides = wide === node ? clip : clipOf(wide, known);
      if (!box.height || across.left < sides.left - 1 || across.right > sides.right + 1) return;
      const here = {
        left: Math.max(box.left, clip.left),
        right: Math.min(box.right, clip.right),
        top: Math.max(box.top, clip.top),
        bottom: Math.min(box.bottom, clip.bottom),
      };
      if (
        here.bottom - here.top < Math.min(box.height, 2) - 1 ||
        here.bottom <= here.top ||
        !uncovered(here, around)
      )
        return;
      const now = `${Math.round(box.width)},${Math.round(box.height)}`,
        last = before;
      before = { no: known.get("no"), shape: now, a: here.top - box.top, b: here.bottom - box.top };
      // A range that rushes by, as at a press of the End key, was not in sight.
      if (last?.no !== before.no - 1 || last.shape !== now) return;
      const a = Math.max(last.a, before.a),
        b = Math.min(last.b, before.b);
      if (a >= b) return;
      if (now !== shape || from === null || a > to + 1 || b < from - 1) [from, to] = [a, b];
      else [from, to] = [Math.min(from, a), Math.max(to, b)];
      shape = now;
      part.done = from <= 1 && to >= box.height - 1;
    },
  };
  return part;
}

// Cuts a long text at the end of each line, and within a long line.
export function pieces(text) {
  const rows = text.split("\n").length,
    size = Math.max(PIECE, Math.ceil(text.length / PARTS)),
    most = Math.ceil(rows / PARTS);
  const rects = [];
  for (let at = 0, next = -1; at < text.length;) {
    let end = at,
      lines = 0;
    while (lines < most && end - at < size && end < text.length) {
      if (next < end) next = (text.indexOf("\n", end) + 1 || Infinity) - 1;
      if (next - at >= size) end = Math.min(text.length, at + size);
      else [end, lines] = [next + 1, lines + 1];
    }
    if (/[\ud800-\udbff]/.test(text[end - 1]) && end < text.length) end += 1;
    rects.push({ text: text.slice(at, end), lines });
    at = end;
  }
  return rects;
}

// To find the element at a point, a browser goes through all lines of a block, so a long text has smaller blocks.
function blocksOf(parts) {
  if (parts.length <= 2 * BLOCK) return parts.map((part) => part.node);
  const blocks = [];
  let ends = true;
  for (const part of parts) {
    if (ends) blocks.push(make("div", { class: "mew-block" }));
    blocks.at(-1).append(part.node);
    ends =
      part.node.textContent.endsWith("\n") && (part.lines > 1 || blocks.at(-1).childNodes.length >= BLOCK);
  }
  return blocks;
}

// A text of which all must be seen; `name` is its name in the sentence about the unseen rest. `tagOf` gives the element for a
// line by its first character.
export function readerOf(node, name, text = node.textContent, tagOf = (_) => "span") {
  const rows = text.split("\n").length;
  let parts = null,
    first = 0;
  const seen = () => {
    const done = (parts ?? []).filter((part) => part.done);
    if (rows <= 6)
      return `${groupDigits(done.reduce((sum, part) => sum + part.size, 0))} of ${groupDigits(text.length)} characters`;
    const lines = done.reduce((sum, part) => sum + part.lines, 0),
      count = Math.min(rows, lines + (parts?.at(-1)?.done ? 1 : 0));
    // What was seen from the first line on, without a gap, is named by its lines.
    const whole = first > 0 && first === done.length;
    return `${whole ? `lines 1–${groupDigits(count)}` : groupDigits(count)} of ${groupDigits(rows)}${whole ? "" : " lines"}`;
  };
  const reader = {
    node,
    done: false,
    cut() {
      let tag = "span",
        begins = true;
      parts = pieces(text).map((piece) => {
        if (begins) tag = tagOf(piece.text[0]);
        begins = piece.text.endsWith("\n");
        return Object.assign(partOf(make(tag, { text: piece.text }), node), {
          lines: piece.lines,
          size: piece.text.length,
        });
      });
      node.replaceChildren(...blocksOf(parts));
    },
    look(known, around) {
      // It is cut when it is first shown, so that hidden texts cost nothing.
      if (reader.done || !node.getClientRects().length) return;
      if (!parts) {
        const marked = node.querySelector("mark") !== null;
        reader.cut();
        if (marked) reader.remark?.();
      }
      const clip = clipOf(parts[0].node, known);
      let low = 0,
        high = parts.length;
      while (low < high) {
        const half = (low + high) >> 1;
        if (parts[half].node.getBoundingClientRect().bottom > clip.top) high = half;
        else low = half + 1;
      }
      for (; low < parts.length && parts[low].node.getBoundingClientRect().top < clip.bottom; low += 1)
        parts[low].look(known, around);
      while (first < parts.length && parts[first].done) first += 1;
      reader.done = first === parts.length;
      reader.onProgress?.(reader.done ? "All of it was in sight" : `${seen()} seen`, reader.done);
    },
    says() {
      const done = parts?.at(-1)?.done,
        line = (parts ?? []).slice(0, first).reduce((sum, part) => sum + part.lines, 1);
      const way = done ? `Scroll back to line ${groupDigits(line)} of` : "Scroll to the end of";
      return `${way} “${shorten(name, 24)}” (${seen()} seen)`;
    },
    next() {
      (parts?.[first]?.node ?? node).scrollIntoView({ block: "start" });
    },
  };
  return reader;
}

// Marks the characters from `start` to `end` of a node's text, and nothing else in its view; returns the first mark.
/** @type {(node: HTMLElement, start: number, end: number) => HTMLElement | null} */
export function markRange(node, start, end) {
  for (const old of (node.closest(".mew") ?? node).querySelectorAll("mark")) {
    const around = old.parentNode;
    old.replaceWith(...old.childNodes);
    around.normalize();
  }
  const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  /** @type {{ text: Text, from: number, to: number }[]} */
  const hits = [];
  for (let at = 0; at < end && walk.nextNode();) {
    const text = /** @type {Text} */ (walk.currentNode);
    const from = Math.max(0, start - at),
      to = Math.min(text.length, end - at);
    if (from < to) hits.push({ text, from, to });
    at += text.length;
  }
  const marks = hits.map(({ text, from, to }) => {
    const middle = text.splitText(from),
      mark = make("mark", { class: "mew-mark" });
    middle.splitText(to - from);
    middle.replaceWith(mark);
    mark.append(middle);
    return mark;
  });
  return marks[0] ?? null;
}
