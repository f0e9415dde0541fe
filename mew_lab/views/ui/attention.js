// Calls the person to what waits in a part and is not in sight: a number before the title of the page, and once a line in
// the page, or what the front end has for it; on request a notification of the desktop, too.
//
// Several parts of a page may show the same requests, so they meet at the page: each tells how many wait and whether they are
// in sight. Each change is an event of the page, ATTENTION. A front end that calls by itself, as labextension/ does in
// JupyterLab, prevents its default where it has a `text`; the line of the page is left out then.

import { make } from "./elements.js";
import { countOf } from "./text.js";

const ATTENTION = "mew-attention";
const TITLE_MARK = /^\(\d+\)\s*/;
const CALL_AFTER = 1500; // ms: a cell that waits shows its card within a second
const LOOK_EVERY = 500; // ms, whether what was called for is in sight now

/**
 * A part that shows what waits. `group` is its kernel: the parts of one kernel show the same requests.
 * @typedef {{ root: HTMLElement, group: string, space: string, count: number, shown: () => boolean, show: () => void }} Host
 */
/**
 * What the event tells: how many wait in this page; where a person is called now, in which words; whether what was called
 * for has come into sight; the part that has the first, and what brings it into sight there.
 * @typedef {{ waiting: number, text: string, seen: boolean, node?: HTMLElement, show?: () => void }} Call
 */
/** @typedef {Document & { mewHosts?: Map<Host, Host>, mewTold?: Map<string, number> }} HostPage */

// `shown()` tells whether what waits is in sight, `show()` brings it there.
/** @type {(on: { root: HTMLElement, group: string, shown: () => boolean, show: () => void }) => { set(waiting: number, space: string): void, desktop(wanted: boolean): void, end(): void }} */
export function attention({ root, group, shown, show }) {
  const page = /** @type {HostPage} */ (document);
  const hosts = (page.mewHosts ??= new Map()),
    told = (page.mewTold ??= new Map());
  const host = { root, group, space: "", count: 0, shown, show };
  hosts.set(host, host);
  let line = null,
    timer = null,
    wanted = false;

  const inGroup = () => [...hosts.values()].filter((other) => other.group === group);
  const mostOf = (some) => Math.max(0, ...some.map((other) => other.count));
  function total() {
    const groups = new Set([...hosts.values()].map((other) => other.group));
    return [...groups]
      .map((name) => mostOf([...hosts.values()].filter((other) => other.group === name)))
      .reduce((sum, count) => sum + count, 0);
  }
  /** @type {(parts: Host[]) => Host | undefined} the first that waits, one that is laid out before the others */
  function firstOf(parts) {
    const waits = parts.filter((part) => part.count).reverse();
    return waits.find((part) => part.root.getClientRects().length) ?? waits[0];
  }
  // Returns whether the front end calls by itself.
  function tell({ text = "", seen = false, to = firstOf([...hosts.values()]) } = {}) {
    /** @type {Call} */
    const detail = { waiting: total(), text, seen, node: to?.root, show: to?.show };
    return !document.dispatchEvent(new CustomEvent(ATTENTION, { detail, cancelable: true }));
  }

  function mark() {
    const most = total();
    const rest = document.title.replace(TITLE_MARK, "");
    // A title never ends with a blank: one that did would be set again for ever.
    const title = [...(most ? [`(${most})`] : []), ...(rest ? [rest] : [])].join(" ");
    if (document.title !== title) document.title = title;
  }

  function set(waiting, space) {
    host.space = space;
    if (host.count === waiting || !hosts.has(host)) return;
    host.count = waiting;
    changed();
    const most = mostOf(inGroup());
    if (most > (told.get(group) ?? 0)) setTimeout(call, CALL_AFTER);
  }
  function changed() {
    mark();
    tell();
    const most = mostOf(inGroup());
    if (most < (told.get(group) ?? 0)) told.set(group, most);
  }

  function call() {
    const parts = inGroup(),
      most = mostOf(parts);
    if (most <= (told.get(group) ?? 0)) return;
    told.set(group, most);
    if (parts.some((part) => part.count && part.shown())) return;
    const to = firstOf(parts),
      text = callText(most, to.space);
    if (wanted) notifyDesktop(text, to);
    leave();
    if (!tell({ text, to })) showLine(text, to);
    timer = setInterval(() => {
      const now = inGroup();
      if (mostOf(now) && !now.some((part) => part.count && part.shown())) return;
      leave();
      tell({ seen: true });
    }, LOOK_EVERY);
  }
  function showLine(text, to) {
    line = lineOf(text, leave, () => {
      leave();
      to.show();
    });
    const tree = root.getRootNode();
    (tree instanceof ShadowRoot ? tree : document.body).append(line);
    line.showPopover();
  }
  function leave() {
    clearInterval(timer);
    line?.remove();
    line = null;
  }

  // The front end writes the title anew, as when another notebook comes to the front.
  const titles = new MutationObserver(mark);
  const node = document.querySelector("title");
  if (node) titles.observe(node, { childList: true });
  return {
    set,
    desktop(on) {
      wanted = on;
    },
    end() {
      titles.disconnect();
      leave();
      hosts.delete(host);
      changed();
    },
  };
}

// "2 requests in demo wait for you."
export function callText(count, space) {
  return `${countOf(count, "request")}${space ? ` in ${space}` : ""} ${count === 1 ? "waits" : "wait"} for you.`;
}

// The line has a place of its own above all else, at the corner of the window. One that answers a press leads nowhere.
/** @type {(text: string, dismiss: () => void, show?: () => void) => HTMLElement} */
export function lineOf(text, dismiss, show) {
  return make(
    "div",
    {
      class: "mew mew-attention-line",
      role: show ? "alert" : "status",
      popover: "manual",
      "data-lm-suppress-shortcuts": "true",
    },
    make("bdi", { text }),
    ...(show ? [make("button", { text: "Show", onclick: (event) => event.isTrusted && show() })] : []),
    make("button", { class: "mew-quiet", text: "Dismiss", onclick: dismiss }),
  );
}

// For a person that looks at another window: the space and the count, and nothing of a request.
function notifyDesktop(text, to) {
  if (!globalThis.Notification || Notification.permission !== "granted" || document.hasFocus()) return;
  const shown = new Notification("mew_lab", { body: text, tag: `mew-${to.group}` });
  shown.onclick = () => {
    window.focus();
    to.show();
    shown.close();
  };
}

// After a press: whether the desktop tells, too. The browser is asked first; the setting is that of the user's views.
/** @type {(link: import("./connection.js").Link, on: boolean) => Promise<void>} */
export async function setDesktop(link, on) {
  const ask = globalThis.Notification;
  if (on && !ask) return link.notice("This browser has no notifications for this page.");
  if (on && (await ask.requestPermission()) !== "granted")
    return link.notice(
      "The browser does not let this page notify you. Its settings for this site can allow it.",
    );
  link.setSetting("desktop", on);
}

// Whether a person can see it: not scrolled away, nor covered by anything but the line that calls for it.
/** @type {(node: HTMLElement) => boolean} */
export function isInSight(node) {
  const box = node.getBoundingClientRect();
  const [left, right] = [Math.max(0, box.left), Math.min(innerWidth, box.right)],
    [top, bottom] = [Math.max(0, box.top), Math.min(innerHeight, box.bottom)];
  if (document.hidden || right <= left || bottom <= top) return false;
  const tree = /** @type {Document | ShadowRoot} */ (node.getRootNode());
  const hits = tree.elementsFromPoint((left + right) / 2, (top + bottom) / 2);
  return node.contains(hits.find((hit) => !hit.closest(".mew-attention-line")) ?? null);
}
