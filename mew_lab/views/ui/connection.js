// Connects a view with its Python side: requests a snapshot until one arrives, passes on each item of each message, and
// sends `bye` at the end. `on.item(item)` gets every item except the snapshots of other views. `on.from()` returns the
// number of the last item that the view has.
// `act(name, choices, tell)` performs an act in Python. Its promise gives {said, value}, or null after a failure. The view
// shows the failure until it is dismissed, or `tell(text)` shows it in a better place. An act that takes long by nature
// says how many milliseconds it may take before the kernel is said to be busy. After the loss of a message a
// snapshot is requested, and the acts that have no answer by then count as failed.
// `on.settings(settings)` gets the settings of the user with each snapshot and at each change; `setSetting(name, value)`
// changes one. `on.off()` is called when the kernel falls silent or the space ends, and when the kernel answers again; `isOff()` says
// which.

import { make } from "./elements.js";
import { setClockUtc } from "./text.js";

/**
 * anywidget's model of a view, as far as it is used here. `widget_manager.kernel` is JupyterLab's object of the kernel.
 * @typedef {object} Model
 * @property {(message: object) => void} send
 * @property {(name: string, receive: (message: any) => void) => void} on
 * @property {(name: string, receive: (message: any) => void) => void} off
 * @property {{ kernel?: any }} [widget_manager]
 */
/**
 * The settings of the user, as preferences.py keeps them.
 * @typedef {object} Settings
 * @property {"comfortable" | "compact"} [density]
 * @property {"local" | "utc"} [time]
 * @property {boolean} [hidePlumbing]
 * @property {import("../feed/column_set.js").KeptColumns} [feedColumns]
 * @property {{ strip?: number, side?: number }} [splitters]
 */
/**
 * What a view does with what arrives. `item` gets the items that messages.py of the part declares.
 * @typedef {object} Handlers
 * @property {() => number} from
 * @property {(item: any) => void} item
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
 * @property {(message: object) => boolean} send returns whether the message was sent
 * @property {() => void} ask requests a snapshot
 * @property {(name: string, choices?: object, tell?: (text: string) => void, patience?: number) => Promise<Answer | null>} act
 * @property {(text: string, kind?: "alert" | "status") => void} notice
 * @property {() => boolean} isOff
 * @property {(name: keyof Settings, value: unknown) => boolean} setSetting
 * @property {() => void} end
 */

const KERNEL_GONE = "The kernel of this view is gone. Run the cell again.";
const KERNEL_QUIET =
  "The kernel does not answer. The view continues when the running cell has ended; if no cell runs, run this cell again.";
const KERNEL_SILENT = 2500;
const LINK_WORDS = { waiting: "Connecting", connected: "Connected", gone: "Disconnected", over: "Stopped" };
const KERNEL_ENDED = ["restarting", "autorestarting", "dead", "terminating"];

// JupyterLab's object for the kernel of a view; null in a front end without one.
/** @type {(model: Model) => any} */
function kernelOf(model) {
  try {
    return model.widget_manager?.kernel ?? null;
  } catch (error) {
    return null;
  }
}
const LOST =
  "A message of the kernel was lost, so it is not known whether this was done. Check what is shown now before you try again.";

/** @type {(model: Model, root: HTMLElement, on: Handlers) => Link} */
export function connect(model, root, on) {
  const view = Array.from(crypto.getRandomValues(new Uint32Array(3)), (n) => n.toString(36)).join("");
  const silence = make("div", { class: "mew-silence", role: "status", hidden: true });
  const notices = make("div", { class: "mew-notices" });
  const banner = make("div", { class: "mew-gone", role: "alert", hidden: true });
  root.prepend(banner);
  root.append(silence, notices);
  const jobs = new Map(),
    doubtful = new Set();
  let answered = false,
    attempts = 0,
    timer = null,
    nonce = null,
    job = 0,
    missed = false,
    number = null;
  const sight = new ResizeObserver(() => {
    if (!missed || !root.getClientRects().length) return;
    missed = false;
    ask();
  });
  if (on.rests) sight.observe(root);

  function send(message) {
    try {
      model.send(message);
      return true;
    } catch (error) {
      setOff(KERNEL_GONE);
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
        say("Waiting for the kernel: a running cell may keep it busy, or it has ended.");
        ask();
      },
      Math.min(1500 * attempts, 6000),
    );
  }
  function notice(text, kind = "alert") {
    const line = make("div", { class: "mew-notice", role: kind }, make("bdi", { text }));
    line.append(make("button", { type: "button", text: "Dismiss", onclick: () => line.remove() }));
    notices.append(line);
    while (notices.children.length > 5) notices.firstChild.remove();
  }
  function act(name, choices = {}, tell = notice, patience = 3000) {
    job += 1;
    const mine = job;
    if (!send({ t: "act", view, job: mine, nonce, act: name, with: choices })) return Promise.resolve(null);
    return new Promise((resolve) => {
      const slow = setTimeout(
        () => say("The kernel has not answered yet: a running cell may block it."),
        patience,
      );
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
    if (item.view !== view) return;
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
    for (const tell of new Set(open.map(([, job]) => job.tell))) tell(LOST);
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
      if (item.t === "snapshot") {
        if (item.view !== view) continue;
        answered = whole = true;
        root.dataset.met = "";
        attempts = 0;
        nonce = item.nonce ?? null;
        say("");
        applySettings(item.settings ?? {});
        if (item.beat) startPings(item.beat);
        end(item.over);
      }
      if (item.t === "settings") {
        applySettings(item.settings);
        continue;
      }
      if (item.t === "over") {
        end(item.text);
        continue;
      }
      if (item.t === "done" || item.t === "failed") {
        finishAct(item);
        continue;
      }
      if (away && item.t !== "snapshot") missed = true;
      else on.item(item);
    }
    showLink();
    if (hasItems) on.done?.();
    if (!lost) return;
    failOpenActs();
    if (whole || !answered) return;
    if (away) missed = true;
    else ask();
  }
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
  // Whether a kernel is at the other end. The kernel sends a beat a second as long as it receives pings now and then. The
  // kernel status that the front end reports counts at once.
  let why = "",
    over = "",
    lastBeat = performance.now(),
    looked = lastBeat,
    pulse = null;
  const kernel = kernelOf(model);
  const status = (_, now) => {
    if (KERNEL_ENDED.includes(now)) setOff(KERNEL_GONE);
  };
  kernel?.statusChanged?.connect(status);
  function setOff(text) {
    if (over && why) return;
    if (why === text) return;
    why = text;
    banner.hidden = !text;
    banner.textContent = text;
    if (text) root.dataset.off = over ? "over" : "gone";
    else delete root.dataset.off;
    showLink();
    Promise.resolve().then(() => on.off?.());
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
    if (kernel?.isDisposed || KERNEL_ENDED.includes(kernel?.status)) setOff(KERNEL_GONE);
    else if (pulse && !document.hidden && now - lastBeat > KERNEL_SILENT)
      setOff(
        kernel && kernel.status !== "busy" && kernel.connectionStatus !== "connecting"
          ? KERNEL_GONE
          : KERNEL_QUIET,
      );
  }
  const checks = setInterval(check, 250);
  const back = () => {
    if (document.hidden || !pulse) return;
    lastBeat = Math.max(lastBeat, performance.now() - 1000);
    ping();
  };
  document.addEventListener("visibilitychange", back);
  model.on("msg:custom", receive);
  ask();
  return {
    view,
    send,
    ask,
    act,
    notice,
    isOff: () => why !== "",
    setSetting: (name, value) => send({ t: "setting", view, name, value }),
    end() {
      clearTimeout(timer);
      clearInterval(checks);
      clearInterval(pulse);
      kernel?.statusChanged?.disconnect(status);
      document.removeEventListener("visibilitychange", back);
      sight.disconnect();
      model.off("msg:custom", receive);
      try {
        model.send({ t: "bye", view });
      } catch (error) {
        /* the kernel has gone, so there is nothing to end */
      }
    },
  };
}
