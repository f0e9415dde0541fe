// The control room: a header, the participants in a strip, the messages and the other parts in tabs, the approvals at the
// side. Each part draws itself; this module gives it a place, and the tabs their counts.

import { hostWords } from "../ui/adapter.js";
import { setDesktop } from "../ui/attention.js";
import { connect } from "../ui/connection.js";
import { announcer, choiceRow, doer, make } from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { makeHeader } from "../ui/header.js";
import { menuButton } from "../ui/menu.js";
import { makeSplitter } from "../ui/splitter.js";
import { countOf } from "../ui/text.js";
import { makeToaster } from "../ui/toast.js";

const PANEL_KEYS = [
  ["← →", "Move between tabs, when a tab has the focus; also moves a splitter"],
  ["Home, End", "First and last tab"],
  ["Esc", "Close a menu; end the full-window view"],
];
const REVEAL_WAIT = 5000;
const TABS_PADDING = 16; // view.css

function render({ adapter, el, signal }) {
  const root = make("section", { class: "mew mew-panel", "aria-label": "Control room" });
  const header = makeHeader({ title: "", label: "Control room", keys: PANEL_KEYS });
  const side = make("div", { class: "mew-place mew-place-side" });
  const strip = make("div", { class: "mew-place mew-place-strip" });
  const tabs = make("div", { class: "mew-tabs", role: "tablist", "aria-label": "Parts" });
  const sheets = make("div", { class: "mew-sheets" });
  // Tabs for which there is no room are in a menu at the end of the line.
  const others = menuButton("More", () => listOthers(), { class: "mew-quiet mew-other-tabs", hidden: true });
  const line = make("div", { class: "mew-tab-line" }, tabs, others);
  const main = make("div", { class: "mew-place mew-place-main" }, line, sheets);
  const room = make("div", { class: "mew-room" }, side, strip, main);
  root.append(header.node, room);
  el.replaceChildren(root);
  const announce = announcer(root),
    toast = makeToaster(root);
  const markTab = choiceRow(tabs, "aria-selected"),
    drawn = new Map(),
    tabOf = new Map();
  /** @type {import("../ui/connection.js").Settings} */
  let settings = { splitters: {} };
  let chosen = "",
    counts = { participants: 0, messages: 0, waiting: 0 };

  const splitters = [
    makeSplitter({
      label: "Width of the participants",
      min: 56,
      max: 400,
      start: 56,
      place: strip,
      direction: 1,
      changed: (px) => setWidth("strip", px),
    }),
    makeSplitter({
      label: "Width of the approvals",
      min: 300,
      max: 900,
      start: 440,
      place: side,
      direction: -1,
      changed: (px) => setWidth("side", px),
    }),
  ];
  splitters[0].node.classList.add("mew-splitter-left");
  splitters[1].node.classList.add("mew-splitter-right");
  strip.after(splitters[0].node);
  main.after(splitters[1].node);
  function setWidth(name, px) {
    settings.splitters = { ...settings.splitters, [name]: px };
    link.setSetting("splitters", settings.splitters);
  }

  const link = connect(adapter, root, {
    from: () => 0,
    items: { snapshot: build, head: count },
    settings(values) {
      settings = { ...values };
      splitters[0].set(values.splitters?.strip);
      splitters[1].set(values.splitters?.side);
    },
  });

  const pause = doer(
    "Pause agents",
    async () => {
      const done = await link.act(pause.dataset.paused ? "resume" : "pause");
      if (done) toast(done.said);
    },
    { class: "mew-pause-all", "data-icon": "pause", hidden: true },
  );
  const report = menuButton(
    "Export",
    () => [
      {
        text: "Report as HTML",
        about: "One file without scripts: decisions, messages, results.",
        run: () => save("report"),
      },
      { text: "Messages as JSON lines", about: "The log, as it is.", run: () => save("save") },
    ],
    { "data-icon": "export", title: "Export", hidden: true },
  );
  const popOut = menuButton(
    "Pop out",
    () => [
      {
        text: root.matches(":popover-open") ? "Back to the notebook" : "Fill the window",
        about: "Esc ends it.",
        key: "Esc",
        run: fillWindow,
      },
      // Another front end has no such command in the menu of an output.
      ...(root.closest(".jp-LabShell")
        ? [
            {
              text: "Beside the notebook",
              about: "Opens the menu of this output: choose “Create New View for Cell Output” there.",
              run: dock,
            },
          ]
        : []),
    ],
    { "data-icon": "pop-out", title: "Pop out" },
  );
  const options = menuButton(
    "Settings",
    () => [
      {
        text: "Compact rows",
        checked: settings.density === "compact",
        run: () => link.setSetting("density", settings.density === "compact" ? "comfortable" : "compact"),
      },
      {
        text: "Times in UTC",
        checked: settings.time === "utc",
        run: () => link.setSetting("time", settings.time === "utc" ? "local" : "utc"),
      },
      {
        text: "Desktop notifications",
        checked: Boolean(settings.desktop),
        about: "Tell that something waits while another window is in front: the space and how many.",
        run: () => setDesktop(link, !settings.desktop),
      },
      {
        text: "Hide plumbing",
        checked: settings.hidePlumbing,
        about: "Joins, lists of tools and other messages that keep a space going.",
        run: () => link.setSetting("hidePlumbing", !settings.hidePlumbing),
      },
    ],
    { "data-icon": "settings", title: "Settings" },
  );
  const stop = doer("Stop", () => link.stop(), {
    class: "mew-danger mew-stop",
    title: "Stop everything at once: nothing is approved, calls are cancelled, agents paused (Ctrl-.)",
    hidden: true,
  });
  header.actions.append(
    stop,
    pause,
    report,
    ...(adapter.get("host") === "notebook" ? [popOut] : []),
    options,
  );

  async function save(act) {
    const done = await link.act(act);
    if (done) toast(done.said);
  }

  function fillWindow() {
    if (root.matches(":popover-open")) return leaveWindow();
    root.setAttribute("popover", "manual");
    root.showPopover();
    root.classList.add("mew-full");
    root.focus();
  }
  function leaveWindow() {
    root.classList.remove("mew-full");
    root.hidePopover();
    root.removeAttribute("popover");
    root.scrollIntoView({ block: "nearest" });
  }
  root.tabIndex = -1;
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && root.classList.contains("mew-full"))
      leaveWindow();
  });

  // JupyterLab has a command for it, which a page reaches only through the menu of the output.
  function dock() {
    if (root.classList.contains("mew-full")) leaveWindow();
    const box = root.getBoundingClientRect();
    const at = {
      bubbles: true,
      cancelable: true,
      clientX: box.left + 40,
      clientY: Math.max(box.top, 0) + 20,
    };
    root.dispatchEvent(new MouseEvent("contextmenu", at));
  }

  function build(item) {
    root.setAttribute("aria-label", `Control room of ${item.space}`);
    header.heading.textContent = item.space;
    pause.hidden = !item.acts.includes("pause");
    stop.hidden = item.stopped === undefined;
    report.hidden = !item.acts.includes("report");
    // The page of a log has parts in tabs alone.
    for (const [place, name, splitter] of [
      [strip, "strip", splitters[0]],
      [side, "side", splitters[1]],
    ]) {
      place.hidden = splitter.node.hidden = !item.parts.some((part) => part.place === name);
    }
    for (const part of item.parts) {
      if (drawn.has(part.name)) continue;
      if (part.place === "tab") addTab(part);
      else drawn.set(part.name, draw(part, part.place === "side" ? side : strip));
    }
    count(item);
    if (!chosen && tabOf.size) choose(tabOf.keys().next().value);
  }

  async function draw(part, place) {
    const box = make("div", { class: "mew-part" });
    place.append(box);
    try {
      await adapter.get("parts")[part.name]({ el: box, signal });
    } catch (error) {
      box.append(emptyState(`“${part.title}” is not in this page. ${hostWords.again}`));
    }
    root.dataset.drawn = String(Number(root.dataset.drawn ?? 0) + 1);
    return box;
  }

  function addTab(part) {
    const sheet = make("div", {
      class: "mew-sheet",
      role: "tabpanel",
      "data-part": part.name,
      id: `${link.view}-${part.name}`,
      hidden: true,
    });
    const button = make(
      "button",
      {
        role: "tab",
        id: `${link.view}-tab-${part.name}`,
        class: "mew-tab",
        "aria-selected": "false",
        tabindex: -1,
        "data-part": part.name,
        "aria-controls": sheet.id,
        onclick: () => choose(part.name),
      },
      make("span", { text: part.title }),
      make("span", { class: "mew-badge mew-num", hidden: true }),
    );
    sheet.setAttribute("aria-labelledby", button.id);
    drawn.set(part.name, null);
    tabOf.set(part.name, { button, sheet, part });
    tabs.append(button);
    sheets.append(sheet);
  }

  const fitTabs = () => {
    const wanted = [...tabs.children].reduce((sum, tab) => sum + tab.offsetWidth, TABS_PADDING);
    others.hidden = wanted <= line.clientWidth;
  };

  function listOthers() {
    const sight = tabs.getBoundingClientRect();
    return [...tabOf]
      .filter(([, { button }]) => {
        const box = button.getBoundingClientRect();
        return box.left < sight.left - 1 || box.right > sight.right + 1;
      })
      .map(([name, { button, part }]) => ({
        text: part.title,
        about: button.lastChild.textContent,
        run: () => {
          choose(name);
          button.focus();
        },
      }));
  }

  function choose(name) {
    chosen = name;
    markTab(tabOf.get(name).button);
    for (const [key, tab] of tabOf) {
      const on = key === name;
      tab.sheet.hidden = !on;
      if (on && !drawn.get(key)) drawn.set(key, draw(tab.part, tab.sheet));
    }
    tabOf.get(name).button.scrollIntoView?.({ block: "nearest", inline: "nearest" });
  }

  // Shows a part for a link; done when it is drawn and has its first snapshot, or after some seconds.
  root.mewReveal = async (name) => {
    if (tabOf.has(name)) choose(name);
    const box = await drawn.get(name);
    const section = box?.querySelector("section.mew");
    const until = performance.now() + REVEAL_WAIT;
    while (section && section.dataset.link === "waiting" && performance.now() < until)
      await new Promise((done) => setTimeout(done, 50));
  };

  function count(item) {
    for (const [name, { button }] of tabOf) {
      const badge = button.lastChild,
        text = item.badges[name] ?? "";
      badge.hidden = !text;
      if (badge.textContent !== text) badge.textContent = text;
    }
    fitTabs();
    const before = counts.waiting;
    counts = item.counts;
    header.setCounts([
      { text: countOf(counts.participants, "participant") },
      { text: countOf(counts.messages, "message") },
      {
        text: counts.waiting
          ? `${counts.waiting} ${counts.waiting === 1 ? "needs" : "need"} your approval`
          : "",
        tone: "wait",
      },
    ]);
    if (item.paused !== undefined) {
      pause.textContent = pause.title = item.paused ? "Resume agents" : "Pause agents";
      if (item.paused) pause.dataset.paused = "1";
      else delete pause.dataset.paused;
    }
    if (counts.waiting > before) announce(`${countOf(counts.waiting, "request")} to approve`);
  }

  tabs.addEventListener("keydown", (event) => event.stopPropagation());
  root.setAttribute("data-lm-suppress-shortcuts", "true");

  const lines = new ResizeObserver(fitTabs);
  lines.observe(line);

  // In a window of its own (a new view of the output) the panel is as high as the window.
  const docked = new ResizeObserver(([{ contentRect }]) =>
    root.style.setProperty("--mew-tall", `${Math.max(320, Math.floor(contentRect.height) - 16)}px`),
  );
  const outer = el.closest(".jp-LinkedOutputView, .jp-MainAreaWidget > .jp-OutputArea");
  if (outer && !el.closest(".jp-Notebook")) docked.observe(outer);
  return () => {
    docked.disconnect();
    lines.disconnect();
    delete root.mewReveal;
    link.end();
  };
}

export default { render };
