// The tools on the left, the form of the chosen tool on the right, the calls below. Python makes every text of a tool visible.
// The view sends the name of the tool and the JSON text of the form, once for each press.

import { connect } from "../ui/connection.js";
import { announcer, atHand, doer, keepKeys, make, write } from "../ui/elements.js";
import { schemaForm } from "../ui/form.js";
import { groupDigits, elapsedTime } from "../ui/text.js";

const WAITING = 150;
const STATES = { unknown: "not requested yet", asking: "requested", failed: "did not list its tools", none: "has none" };
const SIGN = { answered: "✓", failed: "✕", rejected: "✕", withdrawn: "–", open: "●", fulfilled: "●" };

function render({ model, el }) {
  const root = make("section", { class: "mew mew-tools", "aria-label": "Tools" });
  const counts = make("span", { class: "mew-counts" });
  const refresh = doer("Ask again", () => link.act("ask", {}), { title: "Requests the tools of every participant now" });
  const people = make("ul", { class: "mew-people", role: "list" });
  const search = make("input", { type: "search", placeholder: "search name, argument, description", "aria-label": "Search tools", autocomplete: "off", spellcheck: "false" });
  const count = make("div", { class: "mew-found mew-dim", role: "status" });
  const list = make("ul", { class: "mew-list", role: "list", "aria-label": "Tools found" });
  const more = doer("Show more", () => find(rows.length), { class: "mew-more", hidden: true });
  const empty = make("div", { class: "mew-empty", hidden: true });
  const pane = make("div", { class: "mew-pane", role: "region", "aria-label": "Chosen tool" });
  const calls = make("tbody");
  const callsTable = make("table", { class: "mew-calls", "aria-label": "Your calls" }, make("thead", {}, make("tr", {},
    ...["#", "tool", "arguments", "became", ""].map((text) => make("th", { scope: "col", text: text || " ", class: text === "#" ? "mew-num" : "" })))), calls);
  callsTable.querySelector("th:last-child").setAttribute("aria-label", "actions");
  const callsBox = make("div", { class: "mew-calls-box", hidden: true }, make("div", { class: "mew-subhead", text: "Your calls" }), callsTable);
  root.append(
    make("div", { class: "mew-head" }, make("b", { text: "Tools" }), counts, make("span", { class: "mew-gap" }), refresh), people,
    make("div", { class: "mew-body" }, make("div", { class: "mew-left" }, search, count, list, more, empty), pane), callsBox);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  let version = -1, offset = 0, rows = [], lines = new Map(), searches = 0, chosen = null, shownRun = 0, searching = null, ticks = null, due = null;
  const runs = new Map(), results = new Map();

  const link = connect(model, root, {
    from: () => 0,
    item(item) {
      if (item.t === "snapshot") {
        offset = item.now - Date.now() / 1000;
        runs.clear();
        for (const run of item.runs) runs.set(run.number, run);
        version = -1;
      }
      if (item.t === "snapshot" || item.t === "catalogue") paintCatalogue(item);
      if (item.t === "run") {
        const old = runs.get(item.run.number);
        runs.set(item.run.number, item.run);
        while (runs.size > 20) runs.delete(Math.min(...runs.keys()));
        if (old?.waits && !item.run.waits) announce(`${item.run.target}: ${item.run.said}`);
      }
    },
    done: paintRuns,
  });

  // --- the participants and their tools ---

  function paintCatalogue(item) {
    if (item.version === version) return;
    version = item.version;
    counts.textContent = `${groupDigits(item.total)} tool${item.total === 1 ? "" : "s"} of ${item.ready} participant${item.ready === 1 ? "" : "s"}`
      + (item.left_out ? ` · ${groupDigits(item.left_out)} more are not listed` : "");
    const quiet = item.people.filter(([, , state]) => state !== "ready" && state !== "none");
    const none = item.people.filter(([, , state]) => state === "none").map(([, shown]) => shown);
    const before = new Map(Array.from(people.children, (line) => [line.dataset.about, line]));
    const lines = quiet.slice(0, 8).map(([name, shown, state, known, error]) => {
      const about = JSON.stringify([name, shown, state, known, error]);
      if (before.has(about)) return before.get(about);
      const line = make("li", { class: `mew-person mew-person-${state}`, tabindex: -1, "data-who": name }, make("bdi", { class: "mew-code", text: shown }), ` ${STATES[state]}`,
        known ? ` (${known} from before)` : "");
      if (error) line.append(": ", make("bdi", { class: "mew-dim", text: error }));
      if (state !== "asking") line.append(doer("Ask", () => link.act("ask", { participant: name }), { class: "mew-small", "aria-label": `Ask ${shown} for its tools` }));
      line.dataset.about = about;
      return line;
    });
    if (quiet.length > 8) lines.push(make("li", { class: "mew-person mew-dim", text: `and ${quiet.length - 8} more` }));
    if (none.length) lines.push(make("li", { class: "mew-person mew-dim" }, make("bdi", { text: `No tools: ${none.slice(0, 8).join(", ")}${none.length > 8 ? ` and ${none.length - 8} more` : ""}` })));
    const from = people.contains(document.activeElement) ? document.activeElement.closest("li").dataset.who : null;
    if (lines.length !== people.children.length || lines.some((line, n) => line !== people.children[n])) people.replaceChildren(...lines);
    // The focus stays in the line of the participant whose button was pressed, while there is such a line.
    if (from !== null && !people.contains(document.activeElement)) {
      const line = lines.find((line) => line.dataset.who === from);
      (line?.querySelector("button") ?? line ?? refresh).focus();
    }
    announce(counts.textContent);
    find(0, Math.max(rows.length, 1));
  }

  async function find(start, atLeast = 1) {
    searches += 1;
    const mine = searches, query = search.value;
    const done = await link.act("find", { query, start });
    if (!done || mine !== searches) return;
    rows = start ? [...rows.slice(0, start), ...done.value.rows] : done.value.rows;
    if (rows.length < Math.min(atLeast, done.value.total) && done.value.rows.length) return find(rows.length, atLeast);
    paintList(query, done.value.total);
  }

  function highlight(text, words) {
    const node = make("bdi"), low = text.toLowerCase();
    let at = 0;
    while (at < text.length) {
      let first = -1, length = 0;
      for (const word of words) {
        const n = low.indexOf(word, at);
        if (n >= 0 && (first < 0 || n < first)) [first, length] = [n, word.length];
      }
      if (first < 0 || low.length !== text.length) break;
      node.append(text.slice(at, first), make("mark", { text: text.slice(first, first + length) }));
      at = first + length;
    }
    node.append(text.slice(at));
    return node;
  }

  function mark(button) {
    const pressed = button.dataset.target === chosen?.target;
    button.setAttribute("aria-pressed", String(pressed));
    button.tabIndex = pressed ? 0 : -1;
  }

  function listItem(row, words) {
    const button = make("button", { type: "button", class: "mew-tool", tabindex: -1, onclick: () => choose(row.target) });
    button.dataset.target = row.target;
    const who = make("span", { class: "mew-of mew-code" });
    who.append(highlight(row.participant, words), "/");
    const name = make("span", { class: "mew-tool-name mew-code", dir: "ltr" }, who, highlight(row.name, words));
    const line = make("span", { class: "mew-tool-line" }, name, " ", ...row.badges.flatMap((text) => [badge(text), " "]));
    if (row.may !== "call") line.append(make("span", { class: "mew-badge mew-badge-may", text: row.may === "propose" ? "propose only" : "not allowed" }));
    const about = make("span", { class: "mew-tool-about" }, highlight(row.about || "It has no description.", words));
    const hit = words.length ? row.arguments.filter(([argument]) => words.some((word) => argument.toLowerCase().includes(word))) : [];
    if (hit.length) about.prepend(make("span", { class: "mew-code" }, highlight(hit.map(([name]) => name).join(", "), words)), " · ");
    button.append(line, about);
    return make("li", {}, button);
  }

  function paintList(query, total) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8);
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.target : null;
    // An unchanged line stays the same node, so that a press on it is not lost.
    const before = lines;
    lines = new Map();
    for (const row of rows) {
      const content = JSON.stringify([row, words]);
      const line = before.get(row.target)?.content === content ? before.get(row.target) : { content, node: listItem(row, words) };
      lines.set(row.target, line);
    }
    const nodes = [...lines.values()].map((line) => line.node);
    if (nodes.length !== list.children.length || nodes.some((node, n) => node !== list.children[n])) list.replaceChildren(...nodes);
    for (const node of nodes) mark(node.firstChild);
    const buttons = [...list.querySelectorAll("button")];
    const here = buttons.find((button) => button.dataset.target === (focused ?? chosen?.target)) ?? buttons[0];
    if (here) here.tabIndex = 0;
    if (focused && here?.dataset.target === focused) here.focus();
    count.textContent = query.trim() ? `${groupDigits(total)} found` : "";
    more.hidden = rows.length >= total;
    more.textContent = `Show more (${groupDigits(total - rows.length)} left)`;
    list.hidden = !rows.length;
    empty.hidden = rows.length > 0;
    empty.replaceChildren(...(query.trim() ? ["No tool matches all of these words."]
      : ["No participant lists a tool yet. An MCP server brings some: ", make("code", { text: 'lab.bridge("git", ["python", "-m", "mcp_server_git"])' }), ", a function of yours becomes one: ", make("code", { text: "@lab.tool" })]));
    if (!chosen && !rows.length) showEmptyPane();
  }

  function badge(text) {
    return make("span", { class: `mew-badge mew-badge-${text.split(" ")[0]}`, title: "an annotation of the tool", text });
  }

  search.addEventListener("input", () => {
    clearTimeout(searching);
    searching = setTimeout(() => find(0), WAITING);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && rows.length) { event.preventDefault(); list.querySelector("button")?.focus(); }
  });
  list.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")], at = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    if (to < 0) return search.focus();
    const next = buttons[Math.min(to, buttons.length - 1)];
    for (const button of buttons) button.tabIndex = button === next ? 0 : -1;
    next.focus();
  });

  // --- the form of the chosen tool ---

  function showEmptyPane() {
    pane.replaceChildren(make("div", { class: "mew-empty", text: "Choose a tool to fill in its arguments." }));
  }

  async function choose(target, text = null) {
    const done = await link.act("form", { tool: target });
    if (!done) return false;
    const tool = done.value;
    const note = make("div", { class: "mew-may mew-dim" });
    const notes = make("div", { class: "mew-dim mew-notes" });
    const preview = make("div", { class: "mew-preview", hidden: true }, make("div", { class: "mew-subhead", text: "The filled prompt" }), make("pre", { class: "mew-code", tabindex: 0, "aria-label": "The filled prompt" }));
    const reason = make("span", { class: "mew-reason", id: `mew-reason-${link.view}` });
    const call = doer("Call", () => start("call"), { class: "mew-call", "aria-describedby": reason.id });
    const propose = doer("Propose", () => start("propose"), { class: "mew-propose", "aria-describedby": reason.id });
    const result = make("div", { class: "mew-result" });
    chosen = { target, tool, note, notes, preview, reason, call, propose, result, checks: 0, form: null };
    const mine = chosen;
    for (const button of list.querySelectorAll("button")) mark(button);
    if (!list.querySelector("button[tabindex='0']")) list.querySelector("button")?.setAttribute("tabindex", 0);
    mine.form = schemaForm(tool.plan, { changed: () => { if (mine === chosen) checkSoon(mine); } });
    const arrow = make("span", { class: "mew-of mew-code", text: `${tool.participant}/` });
    pane.replaceChildren(
      make("div", { class: "mew-pane-head" }, make("span", { class: "mew-pane-name mew-code", dir: "ltr" }, arrow, make("bdi", { text: tool.name })), ...tool.badges.map((label) => badge(label))),
      make("div", { class: "mew-pane-about", dir: "auto", text: tool.about || "It has no description." }), note, mine.form.node, notes, preview,
      make("div", { class: "mew-buttons" }, propose, call, reason), result);
    if (text !== null) {
      try { mine.form.set(text); } catch (error) { link.notice(`These arguments cannot be filled in: ${error.message}`); }
    }
    setReason(mine, "The arguments are being checked…");
    checkSoon(mine, 0);
    const last = [...runs.values()].filter((run) => run.target === target).map((run) => run.number);
    if (runs.get(shownRun)?.target !== target) shownRun = last.length ? Math.max(...last) : 0;
    paintRuns();
    if (atHand(root) && document.activeElement !== search) mine.form.focus();
    return true;
  }

  // A tool that is no longer known has no form, but its earlier results can be read.
  function showFormless(target) {
    chosen = { target, form: null, result: make("div", { class: "mew-result" }) };
    pane.replaceChildren(make("div", { class: "mew-pane-head" }, make("bdi", { class: "mew-pane-name mew-code", text: target }), make("span", { class: "mew-dim", text: "is no longer known" })), chosen.result);
  }

  function checkSoon(pane, after = WAITING) {
    clearTimeout(due);
    if (pane.form.asJson && pane.form.text() === null) return refuseInput(pane, "The JSON cannot be read yet.");
    // A check is under way: a press now would use the result of the previous one.
    setDisabled(pane.call, true);
    setDisabled(pane.propose, true);
    due = setTimeout(() => check(pane), after);
  }

  async function check(pane) {
    pane.checks += 1;
    const mine = pane.checks, text = pane.form.text(), part = text === null ? pane.form.part() : null;
    const json = text ?? part.text;
    if (json === null) return refuseInput(pane, `Not complete yet: ${part.unread.slice(0, 4).join(", ")}.`);
    const done = await link.act("check", { tool: pane.target, text: json });
    // A newer check is under way, or another tool was chosen.
    if (mine !== pane.checks || pane !== chosen || !done || pane.form.text() !== text) return;
    showCheck(pane, done.value, text);
    if (part) refuseInput(pane, `Not complete yet: ${[...new Set(part.unread)].slice(0, 4).join(", ")}.`);
  }

  function refuseInput(pane, why) {
    pane.text = null;
    setReason(pane, why);
  }

  function showCheck(pane, checked, text) {
    pane.form.show(checked.faults);
    pane.text = checked.faults.length ? null : text;
    pane.may = { call: checked.call, propose: checked.propose };
    write(pane.note, checked.call ? "" : checked.propose ? `You may only propose it. ${checked.why}` : `You may neither call nor propose it. ${checked.why}`);
    pane.note.hidden = !pane.note.textContent;
    write(pane.notes, checked.notes.join(" "));
    pane.notes.hidden = !checked.notes.length;
    pane.preview.hidden = !checked.preview;
    write(pane.preview.querySelector("pre"), checked.preview);
    const missing = checked.faults.filter((fault) => fault.said === "is required").map((fault) => fault.shown.join(" › "));
    const wrong = checked.faults.length - missing.length;
    const why = [missing.length ? `Still needed: ${missing.slice(0, 4).join(", ")}${missing.length > 4 ? ` and ${missing.length - 4} more` : ""}.` : "",
      wrong ? `${wrong} field${wrong === 1 ? " does" : "s do"} not fit the schema.` : ""].filter(Boolean).join(" ");
    setReason(pane, why);
  }

  function setReason(pane, why) {
    write(pane.reason, why);
    setDisabled(pane.call, Boolean(why) || !pane.may?.call);
    setDisabled(pane.propose, Boolean(why) || !pane.may?.propose);
    pane.call.hidden = pane.may ? !pane.may.call : false;
    pane.propose.classList.toggle("mew-only", Boolean(pane.may && !pane.may.call));
  }

  function setDisabled(button, value) {
    const text = value ? "true" : "false";
    if (button.getAttribute("aria-disabled") !== text) button.setAttribute("aria-disabled", text);
  }

  async function start(how) {
    const pane = chosen, text = pane.form.text();
    // Only arguments that were checked, and have not changed since, are sent.
    if (text === null || text !== pane.text) return checkSoon(pane, 0);
    write(pane.reason, "sending…");
    const done = await link.act("start", { tool: pane.target, text, how });
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
    return `${run.said} ${elapsedTime(Date.now() / 1000 + offset - since)}`;
  }

  function paintRuns() {
    const all = [...runs.values()].sort((a, b) => b.number - a.number);
    callsBox.hidden = !all.length;
    const wanted = new Set(all.map((run) => String(run.number)));
    for (const row of [...calls.children]) if (!wanted.has(row.dataset.number)) row.remove();
    for (const run of [...all].reverse()) {
      const old = [...calls.children].find((row) => row.dataset.number === String(run.number));
      if (old?.mewRun === run) continue;
      const row = callRow(run, old);
      if (!old) calls.prepend(row);
    }
    tick();
    const wait = all.some((run) => run.waits);
    if (wait && !ticks) ticks = setInterval(tick, 1000);
    if (!wait) { clearInterval(ticks); ticks = null; }
    const run = runs.get(shownRun);
    if (run && chosen?.target === run.target) showResult(run);
  }

  function callRow(run, old) {
    const row = old ?? make("tr");
    row.dataset.number = run.number;
    row.mewRun = run;
    if (!old) {
      const again = doer("Use again", async () => {
        const done = await link.act("again", { run: run.number });
        if (done) await choose(done.value.tool, done.value.text);
      }, { class: "mew-small", "aria-label": `Use the arguments of call ${run.number} again` });
      const show = make("button", { type: "button", class: "mew-small", text: "Show", "aria-label": `Show the result of call ${run.number}`, onclick: () => reveal(run.number) });
      row.append(make("td", { class: "mew-num", text: run.number }), make("th", { scope: "row", class: "mew-code", dir: "ltr" }, make("bdi", { text: run.target })),
        make("td", { class: "mew-code mew-brief", dir: "ltr", title: run.brief }, make("bdi", { text: run.brief })), make("td", { class: "mew-became" }), make("td", { class: "mew-do" }, show, again));
    }
    return row;
  }

  async function reveal(number) {
    const run = runs.get(number);
    if (!run) return;
    shownRun = number;
    if (chosen?.target !== run.target && !await choose(run.target)) showFormless(run.target);
    showResult(runs.get(number) ?? run, atHand(root));
  }

  function tick() {
    for (const row of calls.children) {
      const run = row.mewRun;
      const cell = row.children[3];
      const text = `${SIGN[run.state] ?? "•"} ${run.proposed ? "proposed, " : ""}${stateText(run)}`;
      write(cell, text);
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
    const rowsOf = [run.seq ? `row ${run.seq}` : "", run.answer ? `answer row ${run.answer}` : ""].filter(Boolean).join(", ");
    const head = make("div", { class: `mew-result-head mew-became-${run.state}`, tabindex: -1 }, make("span", { "aria-hidden": true, class: "mew-sign", text: SIGN[run.state] ?? "•" }),
      make("span", { text: `Call ${run.number} ` }), make("bdi", { class: "mew-code", text: run.target }), pane.line, make("span", { class: "mew-dim", title: "its rows in lab.view.feed", text: rowsOf ? `feed ${rowsOf}` : "" }));
    if (run.waits) head.append(doer(run.proposed && run.state !== "fulfilled" ? "Withdraw" : "Stop waiting", () => link.act("stop", { run: run.number }), { class: "mew-stop" }));
    const parts = make("div", { class: "mew-blocks" });
    const focused = pane.result.contains(document.activeElement);
    pane.result.replaceChildren(head, parts);
    if (run.error) head.after(make("div", { class: "mew-error-text", role: "note" }, make("bdi", { text: run.error })));
    if (run.has_result) showBlocks(run, parts);
    else if (!run.waits && run.state === "answered") parts.append(make("div", { class: "mew-dim", text: "The answer has no content." }));
    if (focus || focused) head.focus({ preventScroll: focused });
  }

  async function showBlocks(run, parts) {
    if (!results.has(run.number)) {
      const done = await link.act("result", { run: run.number });
      if (!done) return;
      results.set(run.number, done.value);
      while (results.size > 20) results.delete(results.keys().next().value);
    }
    parts.replaceChildren(...results.get(run.number).map((block) => {
      if (block.kind === "image") return image(block);
      if (block.kind === "note") return make("div", { class: "mew-dim", dir: "auto", text: block.text });
      return make("pre", { class: "mew-code mew-block", tabindex: 0, dir: "ltr", "aria-label": block.kind === "json" ? "Result as JSON" : "Result", text: block.text });
    }));
  }

  const addresses = [];
  function image(block) {
    const bytes = Uint8Array.from(atob(block.text), (c) => c.charCodeAt(0));
    const address = URL.createObjectURL(new Blob([bytes], { type: block.mime }));
    addresses.push(address);
    while (addresses.length > 40) URL.revokeObjectURL(addresses.shift());
    return make("img", { class: "mew-picture", src: address, alt: `a picture from the tool (${block.mime})` });
  }

  showEmptyPane();
  return () => {
    clearInterval(ticks);
    clearTimeout(searching);
    clearTimeout(due);
    for (const address of addresses) URL.revokeObjectURL(address);
    link.end();
  };
}

export default { render };
