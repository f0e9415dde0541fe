// Results that were too large for a message: what a participant keeps, and a button that loads and draws it. What was
// loaded stays in the page alone, so a saved notebook holds no more than these lines.

import { hostWords } from "./adapter.js";
import { blockBox, blockViewer } from "./blocks.js";
import { doer, holdsFocus, make, write } from "./elements.js";
import { clockHover, clockTime } from "./text.js";

/** @typedef {{ size: string, bytes: number, by: string, holds: string[], expires: number | null }} Kept as ui/kept.py packs it */

const SHOWN_KEPT = 20;
const NEVER = 2147483647; // milliseconds: the longest that a timer takes

// "until 14:05:00", or that this time is over: then only its participant knows whether it is still there.
/** @type {(kept: Kept, now: number) => string} */
export function keptText(kept, now) {
  const until =
    kept.expires === null
      ? ""
      : kept.expires > now
        ? ` until ${clockTime(kept.expires)}`
        : `, and expired at ${clockTime(kept.expires)}`;
  const holds = kept.holds.length ? `: ${kept.holds.join("; ")}` : "";
  return `This result has ${kept.size}, too large for a message. ${kept.by} keeps it${until}${holds}`;
}

// Writes that into an element, and once more when the time is over; returns the function that ends this.
/** @type {(about: HTMLElement, kept: Kept) => () => void} */
export function tellKept(about, kept) {
  let timer = null;
  const tell = () => {
    const now = Date.now() / 1000;
    write(about, keptText(kept, now));
    // A timer may come a moment early, and one that is set for longer than it takes comes at once.
    if (kept.expires > now) timer = setTimeout(tell, Math.min(Math.ceil((kept.expires - now) * 1000), NEVER));
  };
  tell();
  return () => clearTimeout(timer);
}

// The same where nothing can load it; such a line is drawn anew whenever its message is opened.
/** @type {(kept: Kept) => HTMLElement} */
export function keptLine(kept) {
  return make(
    "div",
    { class: "mew-kept" },
    make("bdi", { class: "mew-kept-about", text: keptText(kept, Date.now() / 1000) }),
  );
}

// `show(name, kept, names)` returns the element of a result; `names` tells the kernel which one it is. An element stays
// the same for its name and what is told of it: a peer may take an id anew, and its ids may be long, so messages have a key.
// `item(item)` gets the reports of what has come; `off()` is for a kernel that falls silent.
export function keptResults(link) {
  const shown = new Map();
  let made = 0;

  function element(kept, names) {
    made += 1;
    const key = `${link.view} ${made}`;
    const about = make("bdi", {
      class: "mew-kept-about",
      title: kept.expires === null ? "" : clockHover(kept.expires),
    });
    const said = make("bdi", { class: "mew-kept-said", role: "status" });
    const bar = make("progress", {
      max: kept.bytes,
      value: 0,
      hidden: true,
      "aria-label": `Loading the result of ${kept.size}`,
    });
    const blocks = blockBox({ tabindex: -1, role: "group", "aria-label": `The result of ${kept.by}` }),
      viewer = blockViewer();
    const load = doer("Load", begin, {
      class: "mew-kept-load",
      "aria-label": `Load the result of ${kept.size}`,
    });
    const stop = doer("Cancel", () => link.act("stop_load", { key }, (text) => write(said, text)), {
      class: "mew-kept-stop mew-quiet",
      hidden: true,
      "aria-label": "Cancel loading",
    });
    const node = make(
      "div",
      { class: "mew-kept", role: "group", "aria-label": "A result that is too large for a message" },
      make("div", { class: "mew-kept-line" }, about, load, bar, stop, said),
      blocks,
    );
    const endTelling = tellKept(about, kept);
    let loads = 0;

    function settle(text) {
      if (holdsFocus(stop)) load.focus();
      bar.hidden = stop.hidden = true;
      write(said, text);
    }

    async function begin() {
      if (link.isOff()) return settle(`${hostWords.off}, so this cannot be loaded now.`);
      loads += 1;
      const mine = loads;
      bar.value = 0;
      bar.hidden = stop.hidden = false;
      write(said, "Loading…");
      let why = "";
      const ended = link.act(
        "load",
        { ...names, key },
        (text) => {
          why = text;
        },
        NEVER,
      );
      const done = await Promise.race([
        ended,
        new Promise((resolve) => {
          entry.leave = () => resolve(null);
        }),
      ]);
      if (mine !== loads) return;
      settle(done ? done.said : why || `${hostWords.off}, so this cannot be loaded now.`);
      if (!done) return;
      const focused = holdsFocus(load);
      load.hidden = true;
      blocks.replaceChildren(...viewer.show(done.value));
      if (focused) blocks.focus();
    }

    const entry = {
      key,
      node,
      end() {
        endTelling();
        viewer.end();
      },
      leave: () => {},
      report(item) {
        if (bar.hidden) return;
        bar.value = item.bytes;
        write(said, `${item.text} of ${kept.size}`);
      },
    };
    return entry;
  }

  return {
    show(name, kept, names) {
      const place = JSON.stringify([name, kept]),
        entry = shown.get(place) ?? element(kept, names);
      shown.delete(place);
      shown.set(place, entry);
      for (const [old, { node, end }] of shown) {
        if (shown.size <= SHOWN_KEPT) break;
        if (node.isConnected) continue;
        end();
        shown.delete(old);
      }
      return entry.node;
    },
    item(item) {
      [...shown.values()].find((entry) => entry.key === item.key)?.report(item);
    },
    off() {
      if (link.isOff()) for (const { leave } of shown.values()) leave();
    },
    end() {
      for (const { end } of shown.values()) end();
    },
  };
}
