// Connects a view with its Python side: requests a snapshot until one arrives, passes on each item of each message, and
// sends `bye` at the end. `on.items` has a function for each kind of item, which is all that the view reads of it; what is
// for another view does not come. `on.from()` returns the number of the last item that the view has.
// `act(name, choices, tell)` performs an act in Python. Its promise gives {said, value}, or null after a failure. The view
// shows the failure until it is dismissed, or `tell(text)` shows it in a better place. An act that takes long by nature
// says how many milliseconds it may take before the kernel is said to be busy. After the loss of a message a
// snapshot is requested, and the acts that have no answer by then count as failed.
// `on.settings(settings)` gets the settings of the user with each snapshot and at each change; `setSetting(name, value)`
// changes one. `on.off()` is called when the kernel falls silent or the space ends, and when the kernel answers again; `isOff()` says
// which. The kernel is whatever process is at the other end of the adapter.

import { hostWords } from "./adapter.js";
import { make } from "./elements.js";
import { resumeButton } from "./resume.js";
import { makeStopLine } from "./stop.js";
import { setClockUtc } from "./text.js";

/**
 * The settings of the user, as preferences.py keeps them.
 * @typedef {object} Settings
 * @property {"comfortable" | "compact"} [density]
 * @property {"local" | "utc"} [time]
 * @property {boolean} [hidePlumbing]
 * @property {boolean} [desktop] whether what waits is also told by the desktop
 * @property {import("../feed/column_set.js").KeptColumns} [feedColumns]
 * @property {{ strip?: number, side?: number }} [splitters]
 */
/**
 * What a view does with what arrives. `items` takes the items by their kind, `t`.
 * @typedef {object} Handlers
 * @property {() => number} from
 * @property {Record<string, (item: any) => void>} items
 * @property {() => void} [done] called after each message with items
 * @property {(settings: Settings) => void} [settings]
 * @property {() => void} [off]
 * @property {boolean} [rests] whether the view ignores what arrives while it is out of the layout
 */
/**
 * The answer of an act: a sentence, and a value for the view.
 * @typedef {{ said: string, value: any }} Answer
 */
/**
 * @typedef {object} Link
 * @property {string} view the id of this view
 * @property {string} kernel the id of its kernel; empty where the front end does not tell it
 * @property {(message: object) => boolean} send returns whether the message was sent
 * @property {() => void} ask requests a snapshot
 * @property {(name: string, choices?: object, tell?: (text: string) => void, patience?: number) => Promise<Answer | null>} act
 * @property {(text: string, kind?: "alert" | "status") => void} notice
 * @property {() => Promise<void>} stop stops everything that the lab of this view sets going
 * @property {() => boolean} isOff
 * @property {() => number} now the time of the kernel, in seconds of the epoch
 * @property {(name: keyof Settings, value: unknown) => boolean} setSetting
 * @property {() => void} end
 */

const KERNEL_SILENT = 2500;
const LINK_WORDS = { waiting: "Connecting", connected: "Connected", gone: "Disconnected", over: "Stopped" };

/** @type {(adapter: import("./adapter.js").Adapter, root: HTMLElement, on: Handlers) => Link} */
export function connect(adapter, root, on) {
  Object.assign(hostWords, adapter.get("words"));
  const view = Array.from(crypto.getRandomValues(new Uint32Array(3)), (n) => n.toString(36)).join("");
  const silence = make("div", { class: "mew-silence", role: "status", hidden: true });
  const notices = make("div", { class: "mew-notices" });
  const banner = make("div", { class: "mew-gone", role: "alert", hidden: true });
  // On a page of its own nothing else takes the key, wherever the focus is.
  const stopLine = makeStopLine(root, adapter.get("host") === "page" ? document : root, view, act);
  root.prepend(banner);
  root.append(silence, notices);
  const jobs = new Map(),
    doubtful = new Set(),
    early = new Set(); // what begins the acts that wait for the first snapshot
  let answered = false,
    attempts = 0,
    timer = null,
    nonce = null,
    offset = 0,
    job = 0,
    missed = false,
    number = null,
    resume = "";
  const sight = new ResizeObserver(() => {
    if (!missed || !root.getClientRects().length) return;
    missed = false;
    ask();
  });
  if (on.rests) sight.observe(root);

  function send(message) {
    try {
      adapter.send(message);
      return true;
    } catch (error) {
      setOff(hostWords.gone);
      return false;
    }
  }
  function say(text) {
    silence.hidden = !text;
    silence.textContent = text;
  }
  function ask() {
    clearTimeout(timer);
    answered = false;
    if (!send({ t: "snapshot", view, from: on.from() })) return;
    attempts += 1;
    timer = setTimeout(
      () => {
        if (answered) return;
        say(hostWords.waiting);
        ask();
      },
      Math.min(1500 * attempts, 6000),
    );
  }
  function notice(text, kind = "alert") {
    const line = make("div", { class: "mew-notice", role: kind }, make("bdi", { text }));
    line.append(make("button", { text: "Dismiss", onclick: () => line.remove() }));
    notices.append(line);
    while (notices.children.length > 5) notices.firstChild.remove();
  }
  function act(name, choices = {}, tell = notice, patience = 3000) {
    // Before the first snapshot the kernel does not know this view, which a link may have opened just now.
    if (nonce === null)
      return new Promise((resolve) => {
        const late = setTimeout(() => begin(false), patience);
        function begin(known = true) {
          clearTimeout(late);
          early.delete(begin);
          if (!known) tell(hostWords.waiting);
          resolve(known ? act(name, choices, tell, patience) : null);
        }
        early.add(begin);
      });
    job += 1;
    const mine = job;
    if (!send({ t: "act", view, job: mine, nonce, act: name, with: choices })) return Promise.resolve(null);
    return new Promise((resolve) => {
      const slow = setTimeout(() => say(hostWords.slow), patience);
      jobs.set(mine, {
        tell,
        end(item) {
          clearTimeout(slow);
          say("");
          resolve(item ? { said: item.said, value: item.value } : null);
        },
      });
    });
  }
  function finishAct(item) {
    const job = jobs.get(item.job),
      failed = item.t === "failed";
    jobs.delete(item.job);
    // The answer of an act that counted as failed: its outcome is shown after all.
    if (!job)
      return void (doubtful.delete(item.job) && item.said && notice(item.said, failed ? "alert" : "status"));
    if (failed) job.tell(item.said);
    job.end(failed ? null : item);
  }
  function failOpenActs() {
    const open = [...jobs];
    jobs.clear();
    for (const tell of new Set(open.map(([, job]) => job.tell))) tell(hostWords.lost);
    for (const [mine, job] of open) {
      doubtful.add(mine);
      job.end(null);
    }
  }
  function receive(message) {
    if (!message || message.t !== "batch") return;
    lastBeat = performance.now();
    if (!over) setOff("");
    // A message without items repeats the number of the last one.
    const hasItems = message.items.length > 0,
      lost = number !== null && message.no !== number + (hasItems ? 1 : 0);
    number = message.no;
    const away = on.rests && !root.getClientRects().length;
    let whole = false;
    for (const item of message.items) {
      if (item.view !== undefined && item.view !== view) continue;
      const isWhole = item.t === "snapshot";
      if (isWhole) answered = whole = true;
      if (common[item.t]) common[item.t](item);
      else if (away) missed = true;
      else on.items[item.t]?.(item);
      if (isWhole) on.items.snapshot?.(item);
    }
    showLink();
    if (hasItems) on.done?.();
    if (nonce !== null) for (const begin of early) begin();
    if (!lost) return;
    failOpenActs();
    if (whole || !answered) return;
    if (away) missed = true;
    else ask();
  }
  const common = {
    snapshot(item) {
      root.dataset.met = "";
      attempts = 0;
      nonce = item.nonce ?? null;
      offset = item.now - Date.now() / 1000;
      resume = item.resume;
      say("");
      applySettings(item.settings);
      if (item.beat) startPings(item.beat);
      stopLine.show(item.stopped);
      end(item.over);
    },
    settings: ({ settings }) => applySettings(settings),
    over: ({ text }) => end(text),
    stopped: ({ text }) => stopLine.show(text),
    done: finishAct,
    failed: finishAct,
  };
  function applySettings(settings) {
    setClockUtc(settings.time === "utc");
    root.dataset.density = settings.density === "compact" ? "compact" : "comfortable";
    on.settings?.(settings);
  }
  // The pill in the header of this view, not that of a part within it.
  function showLink() {
    const state = over ? "over" : why ? "gone" : answered ? "connected" : "waiting";
    if (root.dataset.link === state) return;
    root.dataset.link = state;
    /** @type {HTMLElement | null} */
    const pill = root.querySelector(".mew-connection");
    if (pill?.closest(".mew") !== root) return;
    pill.dataset.state = state;
    pill.setAttribute("aria-label", LINK_WORDS[state]);
    pill.title = why || LINK_WORDS[state];
  }
  // Whether a kernel is at the other end. The kernel sends a beat a second as long as it receives pings now and then. What
  // the host reports counts at once.
  let why = "",
    over = "",
    stood = null, // the time of the clocks while nothing goes on
    lastBeat = performance.now(),
    looked = lastBeat,
    pulse = null,
    state = adapter.get("state");
  const stopState = adapter.on("state", () => {
    const before = state;
    state = adapter.get("state");
    if (state === "gone") return setOff(hostWords.gone);
    if (before !== "gone") return;
    // The other end may have forgotten this view, and numbers its messages anew.
    number = -1;
    ask();
  });
  function setOff(text) {
    if (over && why) return;
    if (why === text) return;
    stood = text ? (stood ?? now()) : null;
    why = text;
    banner.hidden = !text;
    const isGone = text === hostWords.gone;
    if (isGone && resume && hostWords.resumes)
      banner.replaceChildren(`${text} ${hostWords.resumes}`, resumeButton(root, resume));
    else banner.textContent = isGone ? `${text} ${hostWords.back}` : text;
    if (text) root.dataset.off = over ? "over" : "gone";
    else delete root.dataset.off;
    showLink();
    Promise.resolve().then(() => on.off?.());
  }
  function now() {
    return stood ?? Date.now() / 1000 + offset;
  }
  function end(text) {
    if (!text || over) return;
    why = "";
    over = text;
    setOff(text);
  }
  function startPings(every) {
    clearInterval(pulse);
    pulse = setInterval(() => {
      if (!over) ping();
    }, every * 1000);
  }
  function ping() {
    if (!document.hidden || !why) send({ t: "ping", view });
  }
  function check() {
    const now = performance.now();
    // A page that stood still has received nothing meanwhile.
    if (now - looked > 1500) lastBeat = Math.max(lastBeat, now - 1000);
    looked = now;
    state = adapter.get("state");
    if (state === "gone") setOff(hostWords.gone);
    else if (pulse && !document.hidden && now - lastBeat > KERNEL_SILENT)
      setOff(state === "ready" ? hostWords.gone : hostWords.quiet);
  }
  const checks = setInterval(check, 250);
  const back = () => {
    if (document.hidden || !pulse) return;
    lastBeat = Math.max(lastBeat, performance.now() - 1000);
    ping();
  };
  document.addEventListener("visibilitychange", back);
  const stopMessages = adapter.on("message", receive);
  ask();
  return {
    view,
    kernel: adapter.get("kernel"),
    send,
    ask,
    act,
    notice,
    stop: stopLine.stop,
    isOff: () => why !== "",
    now,
    setSetting(name, value) {
      try {
        adapter.set(name, value);
        return true;
      } catch (error) {
        setOff(hostWords.gone);
        return false;
      }
    },
    end() {
      clearTimeout(timer);
      stopLine.end();
      clearInterval(checks);
      clearInterval(pulse);
      stopState();
      document.removeEventListener("visibilitychange", back);
      sight.disconnect();
      stopMessages();
      try {
        adapter.send({ t: "bye", view });
      } catch (error) {
        /* the kernel has gone, so there is nothing to end */
      }
    },
  };
}
