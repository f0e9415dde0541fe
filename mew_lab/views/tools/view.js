// Tools, resources and prompts as tabs: the list on the left, the form of the chosen one on the right, the last calls above.
// Python makes every text of a peer visible. The view sends the name of the chosen one and the JSON text of the form, once
// for each press.

import { blockBox, blockViewer } from "../ui/blocks.js";
import { connect } from "../ui/connection.js";
import {
  activeOf,
  announcer,
  atHand,
  choiceRow,
  doer,
  holdsFocus,
  isOff,
  keepKeys,
  make,
  placeByKey,
  ticker,
  turnOff,
  write,
} from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { schemaForm } from "../ui/form.js";
import { makeHeader } from "../ui/header.js";
import { keptResults } from "../ui/kept.js";
import { openIn } from "../ui/links.js";
import { markText, wordsOf } from "../ui/mark.js";
import { keyedRows, makeTable } from "../ui/tables.js";
import { countOf, elapsedTime, groupDigits } from "../ui/text.js";
import { progressBar } from "./progress.js";

const WAITING = 150;
const TABS = [
  ["tools", "Tools", "tool"],
  ["resources", "Resources", "resource"],
  ["prompts", "Prompts", "prompt"],
];
const STATES = {
  unknown: "not requested yet",
  asking: "requested",
  failed: "did not list its ",
  none: "has none",
  propose: "you may only propose to list its ",
  forbidden: "you may not list its ",
};
const SIGN = {
  answered: "✓",
  failed: "✕",
  unknown: "?",
  running: "●",
  rejected: "✕",
  withdrawn: "–",
  open: "●",
  fulfilled: "●",
};
const VERBS = {
  tool: ["Call", "Propose"],
  resource: ["Read", "Propose to read"],
  template: ["Read", "Propose to read"],
  prompt: ["Fill in", "Propose to fill in"],
};
const KEYS = [
  ["/", "Search"],
  ["↑ ↓ Home End", "Move in the list"],
  ["Enter", "Open what has the focus"],
  ["Ctrl+Enter", "Call it; propose it where you may only propose"],
  ["Esc", "Back from the form to the list"],
  ["← →", "Change the tab, on a tab"],
];

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-tools", "aria-label": "Tools" });
  const header = makeHeader({ title: "Tools", keys: KEYS });
  const refresh = doer("Refresh", () => link.act("ask", tab === "tools" ? {} : { tab }), {
    title: "Requests the lists of all participants again",
  });
  const people = make("ul", { class: "mew-people", role: "list" });
  const search = make("input", {
    type: "search",
    placeholder: "Search name, argument, description",
    "aria-label": "Search tools",
    autocomplete: "off",
    spellcheck: "false",
  });
  const tabs = make("div", { class: "mew-kinds", role: "radiogroup", "aria-label": "What to list" });
  const count = make("div", { class: "mew-found mew-dim", role: "status" });
  const list = make("ul", { class: "mew-list", role: "list", "aria-label": "Tools found" });
  const more = doer("Show more", () => find(rows.length), { class: "mew-more", hidden: true });
  const empty = make("div", { class: "mew-empty", hidden: true });
  const pane = make("div", { class: "mew-pane", role: "region", "aria-label": "Chosen tool" });
  const calls = make("tbody");
  const callsTable = makeTable(
    [
      { text: "Call", class: "mew-num" },
      "Target",
      "Arguments",
      "Result",
      { text: " ", "aria-label": "actions" },
    ],
    calls,
    { class: "mew-calls", "aria-label": "Your last calls" },
  );
  const callsBox = make(
    "div",
    { class: "mew-calls-box", hidden: true, role: "region", tabindex: 0, "aria-label": "Last calls" },
    callsTable,
  );
  const sheet = make(
    "div",
    { class: "mew-body" },
    make("div", { class: "mew-left" }, count, list, more, empty),
    pane,
  );
  header.filter.append(search);
  header.actions.append(refresh);
  root.append(header.node, make("div", { class: "mew-bar" }, tabs), people, callsBox, sheet);
  el.replaceChildren(root);
  const startsRun = (event) =>
    event.key === "Enter" && (event.ctrlKey || event.metaKey) && chosen?.form && pane.contains(event.target);
  keepKeys(root, startsRun);
  const announce = announcer(root);

  let version = "",
    sign = "#",
    rows = [],
    words = [],
    searches = 0,
    chosen = null,
    shownRun = 0,
    searching = null,
    due = null;
  let tab = "tools",
    catalogue = null;
  const peopleLines = keyedRows(people, { keyOf: JSON.stringify, build: personLine });
  // An entry that reads otherwise is another one, so that each that stays is the same element.
  const listed = keyedRows(list, { keyOf: (row) => JSON.stringify([row, words]), build: listItem });
  const callRows = keyedRows(calls, { keyOf: ({ number }) => number, build: buildCall, fill: fillCall });
  const tickEachSecond = ticker(tick);
  const runs = new Map(),
    results = new Map(),
    offers = new Map(),
    blocks = blockViewer();

  const link = connect(adapter, root, {
    from: () => 0,
    items: {
      snapshot(item) {
        sign = item.sign;
        runs.clear();
        for (const run of item.runs) runs.set(run.number, run);
        version = "";
        for (const [name, listed] of Object.entries(item.offers)) offers.set(name, listed);
        setCatalogue(item);
      },
      catalogue: setCatalogue,
      offers(item) {
        offers.set(item.tab, item);
        paintCatalogue();
      },
      // Each row tells what may be done with it, and so does the form.
      rights() {
        version = "";
        if (chosen?.form) checkSoon(chosen, 0);
        paintCatalogue();
      },
      run({ run }) {
        const old = runs.get(run.number);
        runs.set(run.number, run);
        while (runs.size > 20) runs.delete(Math.min(...runs.keys()));
        if (old?.waits && !run.waits) announce(`${run.target}: ${run.said}`);
      },
      loading: (item) => kept.item(item),
    },
    done: paintRuns,
    off: () => kept.off(),
  });
  const kept = keptResults(link);

  // --- the tabs, the participants and what they offer ---

  const tabButtons = new Map(
    TABS.map(([name, text]) => {
      const button = make(
        "button",
        { role: "radio", class: "mew-tab", onclick: () => showTab(name) },
        make("span", { text }),
        " ",
        make("span", { class: "mew-tab-count mew-num" }),
      );
      tabs.append(button);
      return [name, button];
    }),
  );
  const markTab = choiceRow(tabs, "aria-checked");
  markTab(tabButtons.get(tab));

  function showTab(name) {
    if (name === tab) return;
    tab = name;
    markTab(tabButtons.get(tab));
    search.setAttribute("aria-label", `Search ${tab}`);
    list.setAttribute("aria-label", `${TABS.find(([other]) => other === tab)[1]} found`);
    rows = [];
    version = "";
    if (tab !== "tools" && !offers.get(tab)?.asked) link.act("ask", { tab });
    paintCatalogue();
  }

  function setCatalogue(item) {
    catalogue = item;
    paintCatalogue();
  }

  function paintCatalogue() {
    if (!catalogue) return;
    const noun = TABS.find(([name]) => name === tab)[2];
    const shown =
      tab === "tools"
        ? catalogue
        : (offers.get(tab) ?? { version: 0, total: 0, ready: 0, people: [], more_people: 0, asked: false });
    for (const [name, button] of tabButtons) {
      const number =
        name === "tools" ? catalogue.total : offers.get(name)?.asked ? offers.get(name).total : null;
      write(button.lastChild, number === null ? "" : groupDigits(number));
    }
    const mark = `${tab} ${shown.version}`;
    if (mark === version) return;
    version = mark;
    header.setCounts([
      { text: countOf(shown.total, noun), hover: `of ${countOf(shown.ready, "participant")}` },
      { text: countOf(shown.ready, "participant"), hover: `that list ${tab}` },
      {
        text: shown.left_out ? `${groupDigits(shown.left_out)} not listed` : "",
        hover: "More than this list holds; lab.tools() has all.",
        tone: "wait",
      },
    ]);
    const inState = (of) => shown.people.filter(([, , state]) => state === of);
    // Many of whom the same is to be said are one line.
    const together = ["none", ...["unknown", "asking"].filter((state) => inState(state).length > 3)];
    const quiet = shown.people.filter(([, , state]) => state !== "ready" && !together.includes(state));
    const inOneLine = (state, said) => {
      const names = together.includes(state) ? inState(state).map(([, label]) => label) : [];
      const rest = names.length > 8 ? ` and ${names.length - 8} more` : "";
      return names.length ? `${said}: ${names.slice(0, 8).join(", ")}${rest}` : "";
    };
    const lines = quiet.slice(0, 8).map((person) => ({ of: tab, person }));
    const told = [
      quiet.length > 8 ? `and ${groupDigits(quiet.length - 8 + shown.more_people)} more` : "",
      inOneLine("unknown", "Not requested yet (Refresh requests all)"),
      inOneLine("asking", "Requested"),
      inOneLine("none", `No ${tab}`),
    ];
    const from = holdsFocus(people) ? activeOf(root).closest("li").dataset.who : null;
    peopleLines.show([...lines, ...told.filter(Boolean)]);
    // The focus stays in the line of the participant whose button was pressed, while there is such a line.
    if (from !== null && !holdsFocus(people)) {
      const line = [...people.children].find((line) => line.dataset.who === from);
      (line?.querySelector("button") ?? line ?? refresh).focus();
    }
    announce(`${countOf(shown.total, noun)} of ${countOf(shown.ready, "participant")}`);
    find(0, Math.max(rows.length, 1));
  }

  // A line about a participant whose list is not there: one of `shown.people`, or a sentence.
  function personLine(about) {
    if (typeof about === "string")
      return { node: make("li", { class: "mew-person mew-dim" }, make("bdi", { text: about })) };
    const {
      of: listed,
      person: [name, label, state, known, error],
    } = about;
    const said = STATES[state].endsWith(" ") ? STATES[state] + listed : STATES[state];
    const line = make(
      "li",
      { class: `mew-person mew-person-${state}`, tabindex: -1, "data-who": name },
      make("bdi", { class: "mew-code", text: label }),
      ` ${said}`,
      known ? ` (${known} from before)` : "",
    );
    if (error) line.append(": ", make("bdi", { class: "mew-dim", text: error }));
    const of = listed === "tools" ? {} : { tab: listed };
    if (state === "propose")
      line.append(
        doer("Propose", () => link.act("propose-list", { participant: name, tab: of.tab }), {
          class: "mew-small",
          "aria-label": `Propose to list the ${listed} of ${label}`,
        }),
      );
    else if (state !== "asking" && state !== "forbidden")
      line.append(
        doer("Request", () => link.act("ask", { participant: name, ...of }), {
          class: "mew-small",
          "aria-label": `Request the ${listed} of ${label}`,
        }),
      );
    return { node: line };
  }

  async function find(start, atLeast = 1) {
    searches += 1;
    const mine = searches,
      query = search.value;
    const done = await link.act("find", tab === "tools" ? { query, start } : { query, start, tab });
    if (!done || mine !== searches) return;
    rows = start ? [...rows.slice(0, start), ...done.value.rows] : done.value.rows;
    if (rows.length < Math.min(atLeast, done.value.total) && done.value.rows.length)
      return find(rows.length, atLeast);
    paintList(query, done.value.total);
  }

  const highlight = (text) => markText(make("bdi"), text, words);

  function mark(button) {
    const pressed = button.dataset.target === chosen?.target && button.dataset.what === chosen.what;
    button.setAttribute("aria-pressed", String(pressed));
    button.tabIndex = pressed ? 0 : -1;
  }

  function listItem(row) {
    const button = make("button", {
      class: "mew-tool",
      tabindex: -1,
      onclick: () => choose(row.target, row.what),
    });
    button.dataset.target = row.target;
    button.dataset.what = row.what;
    const who = make("span", { class: "mew-of mew-code" });
    who.append(highlight(row.participant), "/");
    const name = make("span", { class: "mew-tool-name mew-code", dir: "ltr" }, who, highlight(row.name));
    const line = make(
      "span",
      { class: "mew-tool-line" },
      name,
      " ",
      ...row.badges.flatMap((text) => [badge(text), " "]),
    );
    if (row.address && row.address !== row.name)
      line.append(make("span", { class: "mew-address mew-code", dir: "ltr" }, highlight(row.address)));
    if (row.may !== "call")
      line.append(
        make("span", {
          class: "mew-badge mew-badge-may",
          text: row.may === "propose" ? "propose only" : "not permitted",
        }),
      );
    const about = make("span", { class: "mew-tool-about" }, highlight(row.about || "No description."));
    const hit = words.length
      ? row.arguments.filter(([argument]) => words.some((word) => argument.toLowerCase().includes(word)))
      : [];
    if (hit.length)
      about.prepend(
        make("span", { class: "mew-code" }, highlight(hit.map(([name]) => name).join(", "))),
        " · ",
      );
    button.append(line, about);
    return { node: make("li", {}, button) };
  }

  function paintList(query, total) {
    words = wordsOf(query);
    const focused = holdsFocus(list) ? activeOf(root).getAttribute("data-target") : null;
    listed.show(rows);
    const buttons = [...list.querySelectorAll("button")];
    buttons.forEach(mark);
    const here =
      buttons.find((button) => button.dataset.target === (focused ?? chosen?.target)) ?? buttons[0];
    if (here) here.tabIndex = 0;
    if (focused && here?.dataset.target === focused) here.focus();
    count.textContent = query.trim() ? `${groupDigits(total)} found` : "";
    more.hidden = rows.length >= total;
    more.textContent = `Show more (${groupDigits(total - rows.length)} left)`;
    list.hidden = !rows.length;
    empty.hidden = rows.length > 0;
    empty.replaceChildren(
      query.trim() ? emptyState(`No ${tab.slice(0, -1)} matches all of these words.`) : emptyList(),
    );
    if (!chosen && !rows.length) showEmptyPane();
  }

  function emptyList() {
    if (tab === "tools")
      return emptyState("No participant lists a tool. Connect an MCP server:", {
        code: 'lab.bridge("git", ["python", "-m", "mcp_server_git"])',
      });
    if (!offers.get(tab)?.asked) return emptyState("Waiting for the participants…");
    return emptyState(`No participant lists ${tab}. An MCP server may offer some.`, {
      action: { text: "Request again", run: () => link.act("ask", { tab }) },
    });
  }

  function badge(text) {
    return make("span", {
      class: `mew-badge mew-badge-${/^[a-z-]+/.exec(text)?.[0] ?? "other"}`,
      title: "As its participant describes it",
      text,
    });
  }

  search.addEventListener("input", () => {
    clearTimeout(searching);
    searching = setTimeout(() => find(0), WAITING);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && rows.length) {
      event.preventDefault();
      list.querySelector("button")?.focus();
    }
  });
  list.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")],
      at = buttons.indexOf(activeOf(root)),
      to = placeByKey(event, at, buttons.length);
    if (to === undefined || at < 0) return;
    event.preventDefault();
    if (to < 0) return search.focus();
    const next = buttons[Math.min(to, buttons.length - 1)];
    for (const button of buttons) button.tabIndex = button === next ? 0 : -1;
    next.focus();
  });

  // --- the form of the chosen tool ---

  function showEmptyPane() {
    pane.replaceChildren(make("div", { class: "mew-empty", text: "Choose an entry of the list." }));
  }

  async function choose(target, what = "tool", text = null) {
    const done = await link.act("form", { tool: target, what });
    if (!done) return false;
    const tool = done.value;
    const note = make("div", { class: "mew-may mew-dim" });
    const notes = make("div", { class: "mew-dim mew-notes" });
    const preview = make(
      "div",
      { class: "mew-preview", hidden: true },
      make("div", { class: "mew-subhead", text: "The filled prompt" }),
      make("pre", { class: "mew-code", tabindex: 0, "aria-label": "The filled prompt" }),
    );
    const reason = make("span", { class: "mew-reason", id: `mew-reason-${link.view}` });
    const [verb, proposal] = VERBS[what] ?? VERBS.tool;
    const call = doer(verb, () => start("call"), {
      class: "mew-call mew-primary",
      "aria-describedby": reason.id,
    });
    const propose = doer(proposal, () => start("propose"), {
      class: "mew-propose",
      "aria-describedby": reason.id,
    });
    // A press on a button that waits for an argument leads to the field of that argument.
    for (const button of [call, propose])
      button.addEventListener("click", (event) => {
        if (event.isTrusted && isOff(button) && mine.missing) mine.form.reveal(mine.faults);
      });
    const result = make("div", { class: "mew-result" });
    chosen = {
      target,
      what,
      tool,
      missing: false,
      faults: [],
      note,
      notes,
      preview,
      reason,
      call,
      propose,
      result,
      checks: 0,
      form: null,
    };
    const mine = chosen;
    for (const button of list.querySelectorAll("button")) mark(button);
    if (!list.querySelector("button[tabindex='0']"))
      list.querySelector("button")?.setAttribute("tabindex", 0);
    mine.form = schemaForm(tool.plan, {
      changed: () => {
        if (mine === chosen) checkSoon(mine);
      },
    });
    const arrow = make("span", { class: "mew-of mew-code", text: `${tool.participant}/` });
    pane.replaceChildren(
      make(
        "div",
        { class: "mew-pane-head" },
        make(
          "span",
          { class: "mew-pane-name mew-code", dir: "ltr" },
          arrow,
          make("bdi", { text: tool.name }),
        ),
        ...tool.badges.map((label) => badge(label)),
      ),
      make("div", { class: "mew-pane-about", dir: "auto", text: tool.about || "No description." }),
      note,
      mine.form.node,
      notes,
      preview,
      make("div", { class: "mew-buttons" }, call, propose, reason),
      result,
    );
    if (tool.address)
      note.before(make("div", { class: "mew-pane-address mew-code", dir: "ltr", text: tool.address }));
    if (text !== null) {
      try {
        mine.form.set(text);
      } catch (error) {
        link.notice(`These arguments cannot be filled in: ${error.message}`);
      }
    }
    setReason(mine, "The arguments are being checked…");
    checkSoon(mine, 0);
    const last = [...runs.values()]
      .filter((run) => run.target === target && run.what === what)
      .map((run) => run.number);
    if (!fits(runs.get(shownRun), mine)) shownRun = last.length ? Math.max(...last) : 0;
    paintRuns();
    if (atHand(root) && activeOf(root) !== search) mine.form.focus();
    return true;
  }

  const fits = (run, pane) => run?.target === pane?.target && run?.what === pane?.what;

  // What is no longer known has no form, but its earlier results can be read.
  function showFormless(target, what) {
    chosen = { target, what, form: null, result: make("div", { class: "mew-result" }) };
    pane.replaceChildren(
      make(
        "div",
        { class: "mew-pane-head" },
        make("bdi", { class: "mew-pane-name mew-code", text: target }),
        make("span", { class: "mew-dim", text: what === "list" ? "" : "is no longer known" }),
      ),
      chosen.result,
    );
  }

  function checkSoon(pane, after = WAITING) {
    clearTimeout(due);
    if (pane.form.asJson && pane.form.text() === null)
      return refuseInput(pane, "The JSON cannot be read yet.");
    // A check is under way: a press now would use the result of the previous one.
    turnOff(pane.call, true);
    turnOff(pane.propose, true);
    due = setTimeout(() => check(pane), after);
  }

  async function check(pane) {
    pane.checks += 1;
    const mine = pane.checks,
      text = pane.form.text(),
      part = text === null ? pane.form.part() : null;
    const json = text ?? part.text;
    if (json === null) return refuseInput(pane, `Not complete yet: ${part.unread.slice(0, 4).join(", ")}.`);
    const done = await link.act("check", { tool: pane.target, what: pane.what, text: json });
    // A newer check is under way, or another tool was chosen.
    if (mine !== pane.checks || pane !== chosen || !done || pane.form.text() !== text) return;
    showCheck(pane, done.value, text);
    if (part) refuseInput(pane, `Not complete yet: ${[...new Set(part.unread)].slice(0, 4).join(", ")}.`);
  }

  function refuseInput(pane, why) {
    pane.text = null;
    pane.missing = false;
    setReason(pane, why);
  }

  function showCheck(pane, checked, text) {
    pane.form.show(checked.faults);
    pane.text = checked.faults.length ? null : text;
    pane.may = { call: checked.call, propose: checked.propose };
    write(
      pane.note,
      checked.call
        ? ""
        : checked.propose
          ? `You may only propose it. ${checked.why}`
          : `You may neither request nor propose it. ${checked.why}`,
    );
    pane.note.hidden = !pane.note.textContent;
    write(pane.notes, checked.notes.join(" "));
    pane.notes.hidden = !checked.notes.length;
    pane.preview.hidden = !checked.preview;
    write(pane.preview.querySelector("pre"), checked.preview);
    const missing = checked.faults
      .filter((fault) => fault.said === "is required")
      .map((fault) => fault.shown.join(" › "));
    const wrong = checked.faults.length - missing.length;
    pane.faults = checked.faults;
    pane.missing = missing.length > 0;
    const quoted =
      missing
        .slice(0, 4)
        .map((name) => `“${name}”`)
        .join(", ") + (missing.length > 4 ? ` and ${missing.length - 4} more` : "");
    const why = [
      missing.length ? `${quoted} ${missing.length === 1 ? "is" : "are"} required.` : "",
      wrong ? `${wrong} field${wrong === 1 ? " does" : "s do"} not fit.` : "",
    ]
      .filter(Boolean)
      .join(" ");
    setReason(pane, why);
  }

  function setReason(pane, why) {
    write(pane.reason, why);
    turnOff(pane.call, Boolean(why) || !pane.may?.call);
    turnOff(pane.propose, Boolean(why) || !pane.may?.propose);
    pane.call.hidden = pane.may ? !pane.may.call : false;
    const only = Boolean(pane.may && !pane.may.call);
    pane.propose.classList.toggle("mew-primary", only);
    pane.propose.classList.toggle("mew-quiet", !only);
  }

  async function start(how) {
    const pane = chosen,
      text = pane.form.text();
    // Only arguments that were checked, and have not changed since, are sent.
    if (text === null || text !== pane.text) return checkSoon(pane, 0);
    if (pane.sending) return;
    pane.sending = true;
    write(pane.reason, "Sending…");
    const done = await link.act("start", { tool: pane.target, what: pane.what, text, how });
    pane.sending = false;
    write(pane.reason, "");
    if (!done) return;
    shownRun = done.value.run;
    announce(done.said);
    paintRuns();
    // `doer` enables the button again, so the check follows it.
    setTimeout(() => checkSoon(pane, 0));
  }

  // --- the calls and their results ---

  function stateText(run) {
    if (!run.waits) return run.said;
    const since = run.state === "fulfilled" && run.decided ? run.decided : run.began;
    return `${run.said} ${elapsedTime(link.now() - since)}`;
  }

  function paintRuns() {
    const all = [...runs.values()].sort((a, b) => b.number - a.number);
    callsBox.hidden = !all.length;
    callRows.show(all);
    tick();
    tickEachSecond(all.some((run) => run.waits));
    const run = runs.get(shownRun);
    if (run && fits(run, chosen)) showResult(run);
  }

  // What may have changed of a call, such as its button: a proposal that nobody has decided about is withdrawn, what runs is
  // cancelled.
  function fillCall({ node, stop, progress, data: run }, was) {
    if (run === was) return;
    if (!run.stop && holdsFocus(stop))
      node.querySelector(".mew-do button:not([hidden], .mew-stop-row)")?.focus();
    stop.hidden = !run.stop;
    write(stop, run.stop);
    stop.setAttribute("aria-label", `${run.stop} call ${run.number}`);
    progress.show(run.progress);
  }

  function buildCall(run) {
    const again = doer(
      "Use again",
      async () => {
        const done = await link.act("again", { run: run.number });
        if (done) await choose(done.value.tool, done.value.what, done.value.text);
      },
      {
        class: "mew-small mew-quiet",
        "aria-label": `Use the arguments of call ${run.number} again`,
        title: "Fills its arguments into the form",
      },
    );
    const rerun = doer(
      "Run again",
      async () => {
        const done = await link.act("again", { run: run.number });
        if (!done) return;
        const started = await link.act("start", { ...done.value, how: run.proposed ? "propose" : "call" });
        if (!started) return;
        shownRun = started.value.run;
        announce(started.said);
        if (chosen?.target !== done.value.tool || chosen.what !== done.value.what)
          await choose(done.value.tool, done.value.what, done.value.text);
        paintRuns();
      },
      {
        class: "mew-small mew-quiet",
        "aria-label": `Run call ${run.number} again`,
        title: "Sends the same arguments again",
      },
    );
    const show = make("button", {
      class: "mew-small mew-quiet",
      text: "Show",
      "aria-label": `Show the result of call ${run.number}`,
      onclick: () => reveal(run.number),
    });
    const stop = doer("Cancel", () => link.act("stop", { run: run.number }), {
      class: "mew-small mew-danger mew-stop-row",
      hidden: true,
    });
    if (run.what === "list") again.hidden = rerun.hidden = true;
    const progress = progressBar(run.target);
    const node = make(
      "tr",
      { "data-number": run.number },
      make("td", { class: "mew-num", text: run.number }),
      make("th", { scope: "row", class: "mew-code", dir: "ltr" }, make("bdi", { text: run.target })),
      make(
        "td",
        { class: "mew-code mew-brief", dir: "ltr", title: run.brief },
        make("bdi", { text: run.brief }),
      ),
      make("td", { class: "mew-became" }, make("span", { class: "mew-became-text" }), progress.node),
      make("td", { class: "mew-do" }, stop, show, again, rerun),
    );
    return { node, stop, progress, data: undefined };
  }

  async function reveal(number) {
    const run = runs.get(number);
    if (!run) return;
    shownRun = number;
    if (run.what === "list") showFormless(run.target, "list");
    else if (!fits(run, chosen) && !(await choose(run.target, run.what))) showFormless(run.target, run.what);
    showResult(runs.get(number) ?? run, atHand(root));
  }

  function tick() {
    for (const { node, data: run } of callRows.rows.values()) {
      const cell = node.children[3];
      write(
        cell.firstChild,
        `${SIGN[run.state] ?? "•"} ${run.proposed ? "proposed, " : ""}${stateText(run)}`,
      );
      cell.className = `mew-became mew-became-${run.state}`;
    }
    const shown = runs.get(shownRun);
    if (shown?.waits && chosen?.line) write(chosen.line, stateText(shown));
  }

  function showResult(run, focus = false) {
    const pane = chosen;
    if (pane.shown === run) return focus ? pane.result.querySelector(".mew-result-head")?.focus() : undefined;
    pane.shown = run;
    pane.line = make("span", { class: "mew-standing", text: stateText(run) });
    const rowsOf = [run.seq ? `${sign}${run.seq}` : "", run.answer ? `answer ${sign}${run.answer}` : ""]
      .filter(Boolean)
      .join(", ");
    const messages = make("button", {
      class: "mew-quiet mew-small mew-to-messages",
      text: "Open in Messages",
      title: rowsOf,
      hidden: !rowsOf,
      onclick: async () => {
        if (!(await openIn(root, "feed", { id: run.id })))
          announce("No view of the messages is open in this page: %mew feed shows one.");
      },
    });
    const head = make(
      "div",
      { class: `mew-result-head mew-became-${run.state}`, tabindex: -1 },
      make("span", { "aria-hidden": true, class: "mew-sign", text: SIGN[run.state] ?? "•" }),
      make("span", { text: `Call ${run.number} ` }),
      make("bdi", { class: "mew-code", text: run.target }),
      pane.line,
      messages,
    );
    if (run.stop)
      head.append(
        doer(`${run.stop} call`, () => link.act("stop", { run: run.number }), {
          class: "mew-stop mew-danger",
        }),
      );
    const bar = progressBar(run.target);
    bar.show(run.progress);
    head.append(bar.node);
    const parts = blockBox();
    const focused = holdsFocus(pane.result);
    pane.result.replaceChildren(head, parts);
    if (run.error)
      head.after(make("div", { class: "mew-error-text", role: "note" }, make("bdi", { text: run.error })));
    if (run.has_result) showBlocks(run, parts);
    else if (!run.waits && run.state === "answered")
      parts.append(make("div", { class: "mew-dim", text: "The result is empty." }));
    if (focus || focused) head.focus({ preventScroll: focused });
  }

  async function showBlocks(run, parts) {
    if (!results.has(run.number)) {
      const done = await link.act("result", { run: run.number });
      if (!done) return;
      results.set(run.number, done.value);
      while (results.size > 20) results.delete(results.keys().next().value);
    }
    const found = results.get(run.number);
    parts.replaceChildren(
      ...blocks.show(found.blocks),
      ...(found.kept ? [kept.show(run.id, found.kept, { run: run.number })] : []),
    );
  }

  root.addEventListener("keydown", (event) => {
    const writing = event.target.matches("input, textarea, select");
    if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
    } else if (startsRun(event) && event.isTrusted && !event.repeat) {
      event.preventDefault();
      const button = chosen.may?.call ? chosen.call : chosen.propose;
      if (!isOff(button)) start(chosen.may?.call ? "call" : "propose");
      else if (chosen.missing) chosen.form.reveal(chosen.faults);
    } else if (event.key === "Escape" && pane.contains(event.target) && !event.defaultPrevented) {
      event.preventDefault();
      (list.querySelector("button[tabindex='0']") ?? search).focus();
    }
  });

  showEmptyPane();
  return () => {
    tickEachSecond(false);
    clearTimeout(searching);
    clearTimeout(due);
    blocks.end();
    kept.end();
    link.end();
  };
}

export default { render };
