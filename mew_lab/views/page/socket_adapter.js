// The one socket of a page, and the adapters of its views: each frame names the part whose view it is for. A socket that is
// lost is opened anew, as long as the session is known at the other end.

const PAGE_WORDS = {
  gone: "The server of this page does not answer.",
  back: "What is shown may be out of date; the page goes on when the server is back.",
  resumes: "",
  quiet: "The server of this page does not answer now. The page goes on by itself when it does.",
  waiting: "Waiting for the server of this page.",
  slow: "The server has not answered yet.",
  lost: "The connection was lost, so it is not known whether this was done. Check what is shown now before you try again.",
  off: "The server does not answer",
  sent: "Sent; waiting for the server",
  confirms: "Waiting for the server to confirm that this is shown",
  again: "Load this page anew.",
};
const NOT_SIGNED_IN = 4401;
const FIRST_RETRY = 500;
const LAST_RETRY = 10000;

/**
 * @typedef {object} PageSocket
 * @property {(part: string) => import("../ui/adapter.js").Adapter} adapterOf
 * @property {(name: string) => import("../ui/adapter.js").DrawPart} draw
 */

// `on.ready(space)` is called when the session was first taken, `on.over()` when it is over.
/** @type {(secret: string, on: { ready: (space: string) => void, over: () => void }) => PageSocket} */
export function openSocket(secret, on) {
  /** @type {Map<string, Set<(message: any) => void>>} */
  const takers = new Map(),
    /** @type {Set<() => void>} */
    watchers = new Set();
  /** @type {WebSocket | null} */
  let socket = null;
  let isReady = false,
    wasReady = false,
    isOver = false,
    wait = FIRST_RETRY,
    retry = null;

  function open() {
    clearTimeout(retry);
    if (isOver || socket) return;
    const mine = (socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ui/ws`));
    mine.addEventListener("open", () => mine.send(JSON.stringify({ session: secret })));
    mine.addEventListener("message", ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.welcome === undefined) {
        for (const take of [...(takers.get(frame.part) ?? [])]) take(frame.message);
        return;
      }
      wait = FIRST_RETRY;
      setReady(true);
      if (!wasReady) on.ready(frame.welcome);
      wasReady = true;
    });
    mine.addEventListener("close", ({ code }) => {
      socket = null;
      setReady(false);
      if (code === NOT_SIGNED_IN) {
        isOver = true;
        return on.over();
      }
      retry = setTimeout(open, wait);
      wait = Math.min(wait * 2, LAST_RETRY);
    });
  }
  function setReady(on) {
    if (isReady === on) return;
    isReady = on;
    for (const changed of [...watchers]) changed();
  }
  const soon = () => {
    if (!document.hidden) open();
  };
  document.addEventListener("visibilitychange", soon);
  window.addEventListener("online", soon);

  /** @type {(name: string) => import("../ui/adapter.js").DrawPart} */
  const draw = (name) => async (at) => {
    await loadStyle(`/ui/${name}.css`);
    const { default: view } = await import(`/ui/${name}.js`);
    return view.render({ adapter: adapterOf(name), ...at });
  };
  const parts = new Proxy(/** @type {any} */ ({}), { get: (_, name) => draw(String(name)) });

  function adapterOf(part) {
    const send = (message) => {
      if (!isReady || !socket) throw new Error(PAGE_WORDS.gone);
      socket.send(JSON.stringify({ part, message }));
    };
    const known = {
      host: () => "page",
      words: () => PAGE_WORDS,
      parts: () => parts,
      kernel: () => "page",
      state: () => (isReady ? "ready" : "gone"),
    };
    return {
      get: (name) => known[name](),
      set: (name, value) => send({ t: "setting", name, value }),
      send,
      on(name, take) {
        if (name === "state") {
          watchers.add(take);
          return () => watchers.delete(take);
        }
        if (!takers.has(part)) takers.set(part, new Set());
        takers.get(part).add(take);
        return () => takers.get(part).delete(take);
      },
    };
  }
  open();
  return { adapterOf, draw };
}

const styles = new Map();

// Done when the style sheet is there, or cannot be.
function loadStyle(href) {
  if (!styles.has(href))
    styles.set(
      href,
      new Promise((done) => {
        const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
        link.addEventListener("load", done);
        link.addEventListener("error", done);
        document.head.append(link);
      }),
    );
  return styles.get(href);
}
