// A table of any length, of which only the visible rows are in the page. It paints after an arrival, a scroll or a request,
// and never because it has painted. The cells, the filter, the facets and the opened row have modules of their own.

import { connect } from "../ui/connection.js";
import { announcer, doer, keepKeys, make, write } from "../ui/elements.js";
import { family, glyphOf } from "../ui/families.js";
import { FAMILIES } from "../ui/family_table.js";
import { groupDigits } from "../ui/text.js";
import { ANSWERS, CONTEXT, FROM, KIND, SEQ, TIME, VERDICT, WHAT, answersOf, cellsOf, fitting } from "./cells.js";
import { detailPane } from "./detail.js";
import { SLOT, SLOTS, facet } from "./facets.js";
import { compileFilter } from "./filter.js";

const HEIGHT = 24, AROUND = 6, MOST_SELECTED = 2000;

function render({ model, el }) {
  const root = make("section", { class: "mew mew-feed", "aria-label": "Feed" });
  const title = make("span", { class: "mew-title" });
  const pause = make("button", { type: "button", "aria-pressed": "false", text: "pause", onclick: () => setPaused(!paused) });
  const save = doer("⤓ save", async () => {
    const done = await link.act("save");
    if (done) link.notice(done.said, "status");
  }, { title: "Writes the whole log to a file in the kernel's folder" });
  const follow = make("button", { type: "button", class: "mew-follow", text: "▾ follow", onclick: () => { setPaused(false); following = true; unseen = 0; paintSoon(); } });
  const filter = make("input", { type: "search", placeholder: "filter", maxlength: 500, "aria-label": "Filter by text", title: 'words, -word, "two words", from:x to:x kind:x context:x verdict:x', oninput: () => refilter() });
  const clear = make("button", { type: "button", class: "mew-clear", text: "clear", title: "Shows every row again", onclick: () => { unfilter(); filter.focus(); } });
  const reason = make("div", { class: "mew-reason", role: "alert", hidden: true });
  const body = make("tbody");
  const widths = make("colgroup"), heads = make("tr", { "aria-rowindex": 1 });
  const table = make("table", { role: "grid", tabindex: 0, "aria-label": "Envelopes", "aria-readonly": "true", "aria-multiselectable": "true", "aria-keyshortcuts": "Enter Space ArrowLeft ArrowRight" }, widths, make("thead", {}, heads), body);
  const spacer = make("div", { class: "mew-spacer" }, table);
  const scroller = make("div", { class: "mew-scroller" }, spacer);
  const empty = make("div", { class: "mew-empty" });
  const hint = make("div", { class: "mew-hint", role: "status", hidden: true });
  const note = make("span", { class: "mew-note" });

  const families = facet({ label: "Kinds", key: (row) => family(row[KIND]).name, all: true, order: FAMILIES.map((entry) => entry.name), changed: refilter,
    look: (name) => ({ glyph: glyphOf(name), css: `mew-is-${name}` }) });
  const plain = (name) => ({ glyph: name.length > 28 ? `${name.slice(0, 14)}…${name.slice(-12)}` : name, css: "mew-is-plain" });
  const senders = facet({ label: "From", key: (row) => row[FROM], look: plain, changed: refilter });
  const contexts = facet({ label: "Context", key: (row) => row[CONTEXT], look: plain, changed: refilter });
  const facets = [families, senders, contexts];
  const openers = [["from", senders], ["context", contexts]].map(([name, group]) => opener(name, group));

  const pane = detailPane({ jump, whole: (seq) => ask(seq, true), shut: closeDetail, act: (name, choices) => link.act(name, choices) });
  root.append(
    make("div", { class: "mew-head" }, title, make("span", { class: "mew-gap" }), pause, save),
    make("div", { class: "mew-tools" }, families.group, ...openers.map((opener) => opener.button), make("span", { class: "mew-gap" }), make("span", { class: "mew-box" }, filter, clear)),
    reason, ...openers.map((opener) => opener.panel), scroller, empty, make("div", { class: "mew-foot" }, note, make("span", { class: "mew-gap" }), follow), hint, pane.node);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  let rows = [], shown = rows, held = [], ring = 20000, last = 0, began = null, head = { space: "", members: 0 };
  let following = true, paused = false, unseen = 0, frame = 0, paints = 0, painted = 0, quiet = null;
  let placed = 0, asking = 0, oldest = 1, meant = null, columns = [], fitted = { key: null }, offset = 0;
  let selected = 0, wanted = 0, anchor = 0, picked = new Set(), telling = null, renewing = null, pointing = null;
  const lines = new Map(), arrivals = [], followed = new Map();
  const cells = cellsOf({ followed, jump });

  const sizes = new ResizeObserver(() => paintSoon());
  const link = connect(model, root, {
    from: () => last,
    item(item) {
      if (item.t === "snapshot") {
        asking = 0;
        ring = item.ring;
        began = item.began ?? began;
        offset = item.now - Date.now() / 1000;
        head = item;
        setColumns(item.columns);
        // The held rows stay: they arrive again, and are ignored. A new log, or a gap, starts over.
        if (!(rows.length || held.length) || item.last < last || item.start > last) restart(item.start);
        oldest = rows[0]?.[SEQ] ?? item.oldest;
        if (wanted && wanted !== pane.seq) ask(wanted);
      } else if (item.t === "rows") take(item);
      else if (item.t === "earlier") precede(item.rows);
      else if (item.t === "head") head = item;
      else if (item.t === "columns") setColumns(item.columns);
      else if (item.view !== link.view) return;
      else if (item.t === "raw") showDetail(item);
      else if (item.t === "why") lines.get(item.seq)?.querySelector(".mew-verdict")?.setAttribute("title", item.text);
    },
    done: paintSoon,
  });

  // The panel of a choice among many, and the button that shows it.
  function opener(name, group) {
    const panel = make("div", { class: "mew-panel", hidden: true }, make("span", { class: "mew-small", "aria-hidden": true, text: name }), group.group);
    const button = make("button", { type: "button", class: "mew-opener", "aria-expanded": "false", text: `${name} ▾`, onclick: () => {
      panel.hidden = !panel.hidden;
      button.setAttribute("aria-expanded", String(!panel.hidden));
      group.rank();
      group.paint(slotNow());
    } });
    return { name, facet: group, panel, button };
  }

  function slotNow() {
    return Math.floor((Date.now() / 1000 + offset) / SLOT);
  }

  function restart(at) {
    rows = [];
    held = [];
    followed.clear();
    for (const facet of facets) facet.clear();
    last = at;
    oldest = at + 1;
    unseen = 0;
    sift();
  }

  function take(item) {
    if (item.after > last) {
      // A message was lost: all rows after the last one arrive again.
      if (performance.now() - asking > 1000) {
        asking = performance.now();
        link.ask();
      }
      return;
    }
    const fresh = item.rows.filter((row) => row[SEQ] > last);
    if (!fresh.length) return;
    // Rows between are no longer held: the table would have a gap, so it starts over.
    if (last && fresh[0][SEQ] > last + 1) restart(fresh[0][SEQ] - 1);
    began ??= fresh[0][TIME];
    last = fresh.at(-1)[SEQ];
    arrivals.push([performance.now(), fresh.length]);
    clearTimeout(quiet);
    quiet = setTimeout(paintSlowly, 1000);
    for (const row of fresh) if (row[KIND] === "mcp/proposal" || row[KIND] === "system/error") announce(`${row[FROM]}: ${row[KIND]} ${row[WHAT]}`);
    if (paused) {
      held.push(...fresh);
      if (held.length > ring) held.splice(0, held.length - ring);
    } else admit(fresh);
  }

  function admit(fresh) {
    let more = 0;
    for (const row of fresh) {
      rows.push(row);
      for (const facet of facets) facet.add(row);
      if (row[ANSWERS] || row[10]) noteAnswer(row);
      if (shown === rows) more += 1;
      else if (matches(row)) { shown.push(row); more += 1; }
    }
    if (!following) unseen += more;
    // Dropped in steps, so that a full table does not shift by one for each row.
    if (rows.length > ring + 500) drop(rows.length - ring);
  }

  // Adds rows before the first one of this view. Rows that arrive twice, or leave a gap, are ignored.
  function precede(older) {
    const first = rows[0]?.[SEQ];
    if (first === undefined || older.at(-1)[SEQ] < first - 1) return;
    const fresh = older.filter((row) => row[SEQ] < first).slice(-Math.max(0, ring - rows.length));
    if (!fresh.length) return;
    for (const facet of facets) for (const row of fresh) facet.add(row);
    const more = shown === rows ? fresh : fresh.filter(matches);
    if (shown !== rows) shown.unshift(...more);
    rows.unshift(...fresh);
    for (const row of fresh) if (row[ANSWERS] || row[10]) noteAnswer(row);
    if (following) return;
    spacer.style.height = `${(shown.length + 1) * HEIGHT}px`;
    place(scroller.scrollTop + more.length * HEIGHT);
  }

  function noteAnswer(row) {
    for (const seq of answersOf(row)) {
      if (seq < oldest) continue;
      const answers = followed.get(seq) ?? [];
      const later = answers.findIndex((answer) => answer > row[SEQ]);
      answers.splice(later < 0 ? answers.length : later, 0, row[SEQ]);
      followed.set(seq, answers);
      const cell = lines.get(seq)?.querySelector(".mew-follows");
      if (cell) cells.follows(cell, seq);
    }
    if (pane.concerns(row)) renewing ??= setTimeout(() => { renewing = null; refreshDetail(); }, 250);
  }

  function drop(n) {
    for (const row of rows.slice(0, n)) {
      for (const facet of facets) facet.remove(row);
      followed.delete(row[SEQ]);
    }
    const before = shown.length;
    rows.splice(0, n);
    oldest = rows[0][SEQ];
    if (shown !== rows) {
      const first = rows[0][SEQ];
      const gone = shown.findIndex((row) => row[SEQ] >= first);
      shown.splice(0, gone < 0 ? shown.length : gone);
    }
    // The visible rows stay visible.
    if (!following) place(scroller.scrollTop - (before - shown.length) * HEIGHT);
  }

  function isFiltered() {
    return meant !== null || facets.some((facet) => facet.chosen.size);
  }

  function matches(row) {
    return facets.every((facet) => facet.has(row)) && (meant === null || meant(row));
  }

  function sift() {
    shown = isFiltered() ? rows.filter(matches) : rows;
    wipe();
  }

  function refilter() {
    const text = filter.value.trim();
    let reasonText = "";
    try {
      meant = text ? compileFilter(text) : null;
    } catch (error) {
      meant = null;
      reasonText = `${error.message} Nothing is filtered by it.`;
    }
    filter.setAttribute("aria-invalid", String(Boolean(reasonText)));
    write(reason, reasonText);
    reason.hidden = !reasonText;
    hint.hidden = true;
    for (const { name, facet: opener, button } of openers) {
      const names = [...opener.chosen];
      write(button, names.length ? `${name}: ${names[0].slice(0, 24)}${names.length > 1 ? ` +${names.length - 1}` : ""} ▾` : `${name} ▾`);
      button.classList.toggle("mew-chosen", names.length > 0);
    }
    sift();
    paintSoon();
  }

  function unfilter() {
    filter.value = "";
    for (const facet of facets) facet.unchoose();
    refilter();
  }

  function setPaused(on) {
    if (paused === on) return;
    paused = on;
    pause.setAttribute("aria-pressed", String(on));
    pause.textContent = on ? "resume" : "pause";
    if (!on) {
      const waiting = held;
      held = [];
      admit(waiting);
    }
    paintSoon();
  }

  function paintSlowly() {
    const now = Date.now() / 1000 + offset;
    // The last minute passes even without arrivals.
    quiet = rate() || (rows.length && now - rows.at(-1)[TIME] < (SLOTS + 1) * SLOT) ? setTimeout(paintSlowly, 1000) : null;
    paintHead();
    paintFacets();
  }

  function rate() {
    const since = performance.now() - 2000;
    while (arrivals.length && arrivals[0][0] < since) arrivals.shift();
    return arrivals.reduce((sum, arrival) => sum + arrival[1], 0) / 2;
  }

  function paintSoon() {
    frame ||= requestAnimationFrame(paint);
  }

  // A position that was set here is no scroll of the reader.
  function place(top) {
    scroller.scrollTop = top;
    placed = scroller.scrollTop;
  }

  function setColumns(wanted) {
    if (JSON.stringify(wanted) === JSON.stringify(columns)) return;
    columns = wanted;
    fitted = { key: null };
    paintSoon();
  }

  // Rows are drawn anew when other columns fit.
  function fitColumns() {
    const fit = fitting(columns, scroller.clientWidth);
    if (fit.key === fitted.key) return;
    fitted = fit;
    widths.replaceChildren(...fit.cols());
    heads.replaceChildren(...fit.heads());
    table.style.minWidth = `${fit.least}px`;
    wipe();
  }

  // Removes the lines that are not kept. The table takes over the focus of a removed line.
  function wipe(keep = null) {
    const at = document.activeElement?.closest("tr");
    for (const [seq, line] of lines) {
      if (keep?.has(seq)) continue;
      if (line === at) table.focus({ preventScroll: true });
      line.remove();
      lines.delete(seq);
    }
  }

  function paint() {
    frame = 0;
    if (!scroller.clientHeight) {
      // The view may be out of the layout (a theme change, a hidden tab): a new observation reports when it is back.
      sizes.unobserve(scroller);
      sizes.observe(scroller);
      return;
    }
    root.dataset.paints = String(++paints);
    root.dataset.last = String(last);
    root.dataset.rows = String(rows.length);
    fitColumns();
    spacer.style.height = `${(shown.length + 1) * HEIGHT}px`;
    if (following && !paused) place(spacer.offsetHeight);
    const room = scroller.clientHeight, from = Math.max(0, Math.floor(scroller.scrollTop / HEIGHT) - AROUND);
    const to = Math.min(shown.length, from + Math.ceil(room / HEIGHT) + 2 * AROUND);
    table.style.top = `${from * HEIGHT}px`;
    table.setAttribute("aria-rowcount", String(shown.length + 1));
    const keep = new Set();
    for (let n = from; n < to; n++) keep.add(shown[n][SEQ]);
    wipe(keep);
    let next = body.firstChild;
    for (let n = from; n < to; n++) {
      const row = shown[n];
      let line = lines.get(row[SEQ]);
      if (!line) {
        line = draw(row);
        lines.set(row[SEQ], line);
      }
      const index = String(n + 2);
      if (line.getAttribute("aria-rowindex") !== index) line.setAttribute("aria-rowindex", index);
      if (line === next) next = next.nextSibling;
      else body.insertBefore(line, next);
    }
    painted = Math.max(painted, last);
    empty.hidden = shown.length > 0;
    write(empty, rows.length ? `None of ${groupDigits(rows.length)} rows matches. Clear the filter to see them.` : 'No messages yet. lab.chat("hello") sends one.');
    paintHead();
    paintFacets();
  }

  function paintFacets() {
    const now = slotNow();
    families.paint(now);
    for (const { facet: opener, panel } of openers) if (!panel.hidden) opener.paint(now);
  }

  function paintHead() {
    const perSecond = rate();
    write(title, `${head.space} · ${head.members} ${head.members === 1 ? "member" : "members"} · ${groupDigits(last)} envelopes · ${perSecond < 10 ? Math.round(perSecond * 10) / 10 : groupDigits(Math.round(perSecond))}/s`);
    const waiting = paused ? held.length : unseen;
    follow.classList.toggle("mew-away", following && !paused);
    write(follow, waiting ? `${groupDigits(waiting)} new ▾ follow` : "▾ follow");
    clear.classList.toggle("mew-away", !filter.value && !isFiltered());
    const parts = [];
    if (isFiltered()) parts.push(`${groupDigits(shown.length)} of ${groupDigits(rows.length)} rows`);
    if (picked.size > 1) parts.push(`${groupDigits(picked.size)} selected: lab.view.feed.selection`);
    if (rows.length && rows[0][SEQ] > 1) parts.push(`rows before ${groupDigits(rows[0][SEQ])}: lab.log.df`);
    write(note, parts.join(" · "));
  }

  function draw(row) {
    const { name } = family(row[KIND]);
    const refused = row[VERDICT].startsWith("✗");
    const line = make("tr", { id: `${link.view}-${row[SEQ]}`, "data-seq": row[SEQ], "aria-selected": String(picked.has(row[SEQ])), class: `mew-is-${name}${refused ? " mew-refused" : ""}${following && row[SEQ] > painted ? " mew-new" : ""}${row[SEQ] === selected ? " mew-active" : ""}` });
    cells.fill(line, row, fitted, began);
    line.addEventListener("click", (event) => {
      if (event.shiftKey) select(row[SEQ], "range");
      else if (event.ctrlKey || event.metaKey) select(row[SEQ], "toggle");
      else choose(row[SEQ], true);
    });
    return line;
  }

  function indexOf(seq) {
    return shown.findIndex((row) => row[SEQ] === seq);
  }

  function select(seq, how) {
    if (how === "toggle") {
      if (!picked.delete(seq)) picked.add(seq);
      anchor = seq;
    } else if (how === "range") {
      const a = indexOf(anchor), b = indexOf(seq);
      const [from, to] = a < 0 ? [b, b] : [Math.min(a, b), Math.max(a, b)];
      picked = new Set(shown.slice(from, to + 1).map((row) => row[SEQ]));
    } else {
      picked = new Set([seq]);
      anchor = seq;
    }
    if (picked.size > MOST_SELECTED) {
      picked = new Set([...picked].slice(0, MOST_SELECTED));
      link.notice(`At most ${groupDigits(MOST_SELECTED)} rows can be selected: the first of them are.`, "status");
    }
    lines.get(selected)?.classList.remove("mew-active");
    selected = seq;
    lines.get(selected)?.classList.add("mew-active");
    for (const [seq, line] of lines) line.setAttribute("aria-selected", String(picked.has(seq)));
    table.setAttribute("aria-activedescendant", `${link.view}-${seq}`);
    telling ??= setTimeout(() => { telling = null; link.send({ t: "select", view: link.view, seqs: [...picked] }); }, 100);
    paintSoon();
  }

  function choose(seq, open = false, how = "one") {
    const n = indexOf(seq);
    if (n < 0) return;
    hint.hidden = true;
    select(seq, how);
    const top = n * HEIGHT, room = scroller.clientHeight - 2 * HEIGHT;
    if (top < scroller.scrollTop) { following = false; place(top); }
    else if (top > scroller.scrollTop + room) place(top - room);
    if (n < shown.length - 1) following = false;
    if (open || pane.open) ask(seq);
  }

  // Goes to a row; where it is not in the table, the hint says why, and offers a remedy.
  function jump(seq) {
    if (indexOf(seq) >= 0) {
      choose(seq, pane.open);
      return table.focus({ preventScroll: true });
    }
    const waits = held.some((row) => row[SEQ] === seq), hidden = rows.some((row) => row[SEQ] === seq);
    const [sentence, does, act] = waits ? [`Row ${seq} waits until you resume.`, "resume and go there", () => setPaused(false)]
      : hidden ? [`Row ${seq} is filtered out.`, "clear the filter and go there", unfilter]
      : [`Row ${seq} is no longer held in this view; lab.log.df has it.`];
    hint.replaceChildren(make("span", { text: sentence }));
    if (does) hint.append(make("button", { type: "button", text: does, onclick: () => { act(); if (indexOf(seq) < 0) unfilter(); choose(seq, pane.open); table.focus({ preventScroll: true }); } }));
    hint.hidden = false;
  }

  function ask(seq, all = false) {
    wanted = seq;
    link.send({ t: "raw", view: link.view, seq, all });
  }

  // Updates the opened row after a new answer, unless another row was requested.
  function refreshDetail() {
    if (pane.open && wanted === pane.seq) link.send({ t: "raw", view: link.view, seq: wanted, all: false });
  }

  function showDetail(item) {
    // Another row was requested since, or the pane was closed before its text arrived.
    if (item.seq !== wanted) return;
    const row = rows.find((row) => row[SEQ] === item.seq);
    pane.show({ ...item, row, of: row ? answersOf(row) : [] });
  }

  function closeDetail() {
    wanted = 0;
    pane.shut();
    table.focus({ preventScroll: true });
  }

  // The reason of a verdict is requested when the mouse rests on it.
  body.addEventListener("mouseover", (event) => {
    const cell = event.target.closest?.(".mew-verdict");
    clearTimeout(pointing);
    if (cell && !cell.title) pointing = setTimeout(() => link.send({ t: "why", view: link.view, seq: Number(cell.parentNode.dataset.seq) }), 120);
  });

  scroller.addEventListener("scroll", () => {
    if (Math.abs(scroller.scrollTop - placed) < 1) return;
    placed = -1;
    following = scroller.scrollTop + scroller.clientHeight >= spacer.offsetHeight - 2;
    if (following) unseen = 0;
    paintSoon();
  });

  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && (pane.open || wanted)) return closeDetail();
    if (event.target !== table) return;
    const now = indexOf(selected), end = shown.length - 1;
    const page = Math.max(1, Math.floor(scroller.clientHeight / HEIGHT) - 2);
    const to = { ArrowDown: now + 1, ArrowUp: now < 0 ? end : now - 1, PageDown: now + page, PageUp: now - page, Home: 0, End: end }[event.key];
    if (event.key === "Enter" && now >= 0) ask(selected);
    // The arrow keys go to the row that this one answers, and to its answer.
    const [named] = now < 0 ? [] : event.key === "ArrowLeft" ? answersOf(shown[now]) : event.key === "ArrowRight" ? followed.get(selected) ?? [] : [];
    if (named) {
      event.preventDefault();
      return jump(named);
    }
    if (event.key === " " && now >= 0) {
      event.preventDefault();
      select(selected, "toggle");
    }
    if (to === undefined || end < 0) return;
    event.preventDefault();
    choose(shown[Math.min(end, Math.max(0, to))][SEQ], false, event.shiftKey ? "range" : "one");
  });

  sizes.observe(scroller);
  return () => {
    sizes.disconnect();
    for (const timer of [quiet, telling, renewing, pointing]) clearTimeout(timer);
    cancelAnimationFrame(frame);
    link.end();
  };
}

export default { render };
