// The values of a column as buttons. Each shows the number of held rows with that value, and their arrivals within the last
// minute. A button keeps its place; the choice of values is made again when the reader opens the list.

import { make } from "../ui/elements.js";
import { groupDigits } from "../ui/text.js";

export const SLOTS = 20;
export const SLOT = 3;
export const MOST_CHIPS = 12;
export const MOST_LISTED = 200;

export class Tally {
  constructor() {
    this.count = 0;
    this.newest = -Infinity;
    this.slots = new Uint32Array(SLOTS);
  }
  add(t) {
    this.count += 1;
    const slot = Math.floor(t / SLOT);
    if (slot > this.newest) {
      for (let s = Math.max(this.newest + 1, slot - SLOTS + 1); s <= slot; s++) this.slots[s % SLOTS] = 0;
      this.newest = slot;
    }
    if (slot > this.newest - SLOTS) this.slots[slot % SLOTS] += 1;
  }
  last(now) {
    return Array.from({ length: SLOTS }, (_, n) => {
      const slot = now - SLOTS + 1 + n;
      return slot <= this.newest && slot > this.newest - SLOTS ? this.slots[slot % SLOTS] : 0;
    });
  }
}

// The outline of the bars; the colour is the style sheet's, so it follows the theme.
/** @type {(bars: number[]) => string} */
export function outline(bars) {
  const most = Math.max(1, ...bars),
    points = ["0 100%"];
  bars.forEach((bar, n) => {
    const top = `${Math.round(100 - (bar ? 12 + (88 * bar) / most : 0))}%`;
    points.push(
      `${((100 * n) / SLOTS).toFixed(1)}% ${top}`,
      `${((100 * (n + 1)) / SLOTS).toFixed(1)}% ${top}`,
    );
  });
  return `polygon(${points.join(", ")}, 100% 100%)`;
}

// `label` names the group, `key` returns the value of a row (empty: none), `order` is the fixed order of the buttons, if any.
/**
 * @param {object} choices
 * @param {string} choices.label
 * @param {(row: import("./cells.js").Row) => string} choices.key
 * @param {boolean} [choices.all] whether every value has a button, also one without rows
 * @param {string[] | null} [choices.order]
 * @param {(name: string) => { text: string, about?: string, css: string }} choices.look
 * @param {() => void} choices.changed
 */
export function facet({ label, key, all = false, order = null, look, changed }) {
  /** @type {Map<string, Tally>} */
  const tallies = new Map();
  /** @type {Set<string>} */
  const chosen = new Set();
  /** @type {Map<string, HTMLButtonElement>} */
  const buttons = new Map();
  const group = make("div", { class: "mew-chips", role: "group", "aria-label": label });
  const more = make("button", {
    class: "mew-more",
    "aria-expanded": "false",
    hidden: true,
    onclick: () => {
      wide = !wide;
      rank();
      paint(drawn);
      more.focus();
    },
  });
  group.append(more);
  /** @type {string[]} */
  let standing = [];
  let wide = false,
    drawn = 0;

  function names() {
    return [...tallies.keys()].sort(
      (a, b) => tallies.get(b).count - tallies.get(a).count || (a < b ? -1 : 1),
    );
  }
  function rank() {
    const listed = wide ? names().slice(0, MOST_LISTED) : names().slice(0, all ? MOST_LISTED : MOST_CHIPS);
    standing = [...listed, ...[...chosen].filter((name) => !listed.includes(name))];
    if (order) standing.sort((a, b) => order.indexOf(a) - order.indexOf(b));
    for (const [name, button] of buttons)
      if (!standing.includes(name)) {
        button.remove();
        buttons.delete(name);
      }
    more.remove();
    for (const name of standing) group.append(buttonOf(name));
    group.append(more);
  }
  function buttonOf(name) {
    let button = buttons.get(name);
    if (button) return button;
    const { text, css } = look(name);
    button = make("button", {
      class: `mew-chip ${css}`,
      "data-value": name,
      "aria-pressed": String(chosen.has(name)),
      onclick: () => {
        if (!chosen.delete(name)) chosen.add(name);
        button.setAttribute("aria-pressed", String(chosen.has(name)));
        changed();
      },
    });
    button.append(
      make("bdi", { class: "mew-value", text }),
      " ",
      make("span", { class: "mew-count mew-num" }),
      make("span", { class: "mew-spark", "aria-hidden": true }),
    );
    buttons.set(name, button);
    return button;
  }
  function paint(now) {
    const moved = now !== drawn;
    drawn = now;
    for (const [name, button] of buttons) {
      const tally = tallies.get(name),
        text = groupDigits(tally?.count ?? 0);
      const count = button.children[1];
      const fresh = count.textContent !== text;
      if (fresh) {
        count.textContent = text;
        button.title = `${look(name).about ?? name}: ${text} of the messages held here, ${groupDigits(tally ? tally.last(now).reduce((a, b) => a + b, 0) : 0)} within a minute`;
        button.setAttribute(
          "aria-label",
          `${button.firstChild.textContent} ${text}, ${label}${look(name).about ? `: ${look(name).about}` : ""}`,
        );
      }
      if (moved || fresh) {
        const shape = outline(tally ? tally.last(now) : []);
        const spark = /** @type {HTMLElement} */ (button.children[2]);
        if (spark.dataset.shape !== shape) {
          spark.dataset.shape = shape;
          spark.style.clipPath = shape;
        }
      }
    }
    const hidden = tallies.size - standing.filter((name) => tallies.has(name)).length;
    more.hidden = !hidden && !wide;
    more.setAttribute("aria-expanded", String(wide));
    const moreLabel = wide
      ? hidden
        ? `fewer (the filter finds ${groupDigits(hidden)} more)`
        : "fewer"
      : `more… (${groupDigits(hidden)})`;
    if (more.textContent !== moreLabel) more.textContent = moreLabel;
  }
  return {
    group,
    chosen,
    tallies,
    add(row) {
      const value = key(row);
      if (!value) return;
      let tally = tallies.get(value);
      if (!tally) {
        tallies.set(value, (tally = new Tally()));
        if (!standing.includes(value) && (all || standing.length < MOST_CHIPS)) {
          standing.push(value);
          // What is in sight keeps its place: a new value goes to its own one when the list is opened anew.
          const later =
            order &&
            !group.isConnected &&
            [...group.children].find((child) => order.indexOf(child.dataset.value) > order.indexOf(value));
          group.insertBefore(buttonOf(value), later || more);
        }
      }
      tally.add(row[1]);
    },
    remove(row) {
      const tally = tallies.get(key(row));
      if (tally && (tally.count -= 1) <= 0 && !all) tallies.delete(key(row));
    },
    clear() {
      tallies.clear();
      if (!all) {
        standing = [];
        rank();
      }
    },
    unchoose() {
      chosen.clear();
      for (const button of buttons.values()) button.setAttribute("aria-pressed", "false");
    },
    nameOf: (name) => look(name).text,
    has: (row) => !chosen.size || chosen.has(key(row)),
    rank,
    paint,
  };
}
