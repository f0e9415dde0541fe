// A table of any length of which only what is in sight is in the page. It paints when something arrived, moved or was
// asked for, and never because it has painted.

const HEIGHT = 24, AROUND = 6;
const [SEQ, TIME, FROM, TO, KIND, WHAT, CONTEXT, ANSWERS, VERDICT, SIZE] = Array.from({ length: 10 }, (_, n) => n);
const COLUMNS = [["#", "mew-num"], ["+s", "mew-num"], ["from", ""], ["to", ""], ["kind", ""], ["what", ""], ["↳", "mew-num"], ["verdict", ""]];

function render({ model, el }) {
  const root = make("section", { class: "mew mew-feed", "aria-label": "Feed" });
  const title = make("span", { class: "mew-title" });
  const pause = make("button", { type: "button", "aria-pressed": "false", text: "pause", onclick: () => setPaused(!paused) });
  const follow = make("button", { type: "button", class: "mew-follow", text: "▾ follow", onclick: () => { setPaused(false); following = true; unseen = 0; paintSoon(); } });
  const chips = make("div", { class: "mew-chips", role: "group", "aria-label": "Kinds" });
  const filter = make("input", { type: "search", placeholder: "filter", "aria-label": "Filter by text", oninput: () => refilter() });
  const body = make("tbody");
  const columns = make("tr", { "aria-rowindex": 1 }, ...COLUMNS.map(([name, css]) => make("th", { scope: "col", class: css, text: name, title: name === "↳" ? "the row that this one answers" : null })));
  const table = make("table", { role: "grid", tabindex: 0, "aria-label": "Envelopes", "aria-readonly": "true" }, make("thead", {}, columns), body);
  const spacer = make("div", { class: "mew-spacer" }, table);
  const scroller = make("div", { class: "mew-scroller" }, spacer);
  const empty = make("div", { class: "mew-empty" });
  const detail = make("div", { class: "mew-detail", hidden: true });
  root.append(
    make("div", { class: "mew-head" }, title, make("span", { class: "mew-gap" }), follow, pause),
    make("div", { class: "mew-tools" }, chips, make("span", { class: "mew-gap" }), filter), scroller, empty, detail);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  let rows = [], shown = rows, held = [], ring = 20000, last = 0, began = null, head = { space: "", members: 0 };
  let following = true, paused = false, unseen = 0, selected = 0, wanted = "", frame = 0, paints = 0, painted = 0, quiet = null;
  let placed = 0, asking = 0;
  const counts = new Map(), chosen = new Set(), lines = new Map(), arrivals = [];

  const sizes = new ResizeObserver(() => paintSoon());
  const link = connect(model, root, {
    from: () => last,
    item(item) {
      if (item.t === "snapshot") {
        asking = 0;
        ring = item.ring;
        began = item.began ?? began;
        head = item;
        if (item.start < last) restart(item.start);
      } else if (item.t === "rows") take(item);
      else if (item.t === "head") head = item;
      else if (item.t === "raw" && item.view === link.view) openRaw(item);
    },
    done: paintSoon,
  });

  function restart(at) {
    rows = [];
    held = [];
    counts.clear();
    last = at;
    unseen = 0;
    sift();
  }

  function take(item) {
    if (item.after > last) {
      // Something was lost on the way: everything after the last row comes again.
      if (performance.now() - asking > 1000) {
        asking = performance.now();
        link.ask();
      }
      return;
    }
    const fresh = item.rows.filter((row) => row[SEQ] > last);
    if (!fresh.length) return;
    // Rows between that are not held any more: what is shown would have a hole, so it begins anew.
    if (last && fresh[0][SEQ] > last + 1) restart(fresh[0][SEQ] - 1);
    began ??= fresh[0][TIME];
    last = fresh.at(-1)[SEQ];
    const now = performance.now();
    arrivals.push([now, fresh.length]);
    clearTimeout(quiet);
    quiet = setTimeout(slow, 1000);
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
      const name = family(row[KIND]).name;
      counts.set(name, (counts.get(name) ?? 0) + 1);
      if (shown === rows) more += 1;
      else if (matches(row)) { shown.push(row); more += 1; }
    }
    if (!following) unseen += more;
    // Dropped in steps, so that a full table does not shift by one for each row.
    if (rows.length > ring + 500) drop(rows.length - ring);
  }

  function drop(n) {
    for (const row of rows.slice(0, n)) counts.set(family(row[KIND]).name, counts.get(family(row[KIND]).name) - 1);
    const before = shown.length;
    rows.splice(0, n);
    if (shown !== rows) {
      const first = rows[0][SEQ];
      const gone = shown.findIndex((row) => row[SEQ] >= first);
      shown.splice(0, gone < 0 ? shown.length : gone);
    }
    // What is in sight stays in sight.
    if (!following) place(scroller.scrollTop - (before - shown.length) * HEIGHT);
  }

  function matches(row) {
    if (chosen.size && !chosen.has(family(row[KIND]).name)) return false;
    if (!wanted) return true;
    return `${row[SEQ]} ${row[FROM]} ${row[TO]} ${row[KIND]} ${row[WHAT]} ${row[CONTEXT]} ${row[VERDICT]}`.toLowerCase().includes(wanted);
  }

  function sift() {
    shown = wanted || chosen.size ? rows.filter(matches) : rows;
    for (const line of lines.values()) line.remove();
    lines.clear();
  }

  function refilter() {
    wanted = filter.value.trim().toLowerCase();
    sift();
    paintSoon();
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

  function slow() {
    quiet = rate() ? setTimeout(slow, 1000) : null;
    paintHead();
  }

  function rate() {
    const since = performance.now() - 2000;
    while (arrivals.length && arrivals[0][0] < since) arrivals.shift();
    return arrivals.reduce((sum, one) => sum + one[1], 0) / 2;
  }

  function paintSoon() {
    frame ||= requestAnimationFrame(paint);
  }

  // Where we put the scroller ourselves is no wish of the reader.
  function place(top) {
    scroller.scrollTop = top;
    placed = scroller.scrollTop;
  }

  function paint() {
    frame = 0;
    if (!scroller.clientHeight) {
      // Out of the layout just now (a theme is being changed, a tab lies behind): observed anew, it tells when it is back.
      sizes.unobserve(scroller);
      sizes.observe(scroller);
      return;
    }
    root.dataset.paints = String(++paints);
    root.dataset.last = String(last);
    root.dataset.rows = String(rows.length);
    spacer.style.height = `${(shown.length + 1) * HEIGHT}px`;
    if (following && !paused) place(spacer.offsetHeight);
    const room = scroller.clientHeight, from = Math.max(0, Math.floor(scroller.scrollTop / HEIGHT) - AROUND);
    const to = Math.min(shown.length, from + Math.ceil(room / HEIGHT) + 2 * AROUND);
    table.style.top = `${from * HEIGHT}px`;
    table.setAttribute("aria-rowcount", String(shown.length + 1));
    const keep = new Set();
    for (let n = from; n < to; n++) keep.add(shown[n][SEQ]);
    for (const [seq, line] of lines) if (!keep.has(seq)) { line.remove(); lines.delete(seq); }
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
    empty.textContent = rows.length ? `None of ${grouped(rows.length)} rows matches. Clear the filter to see them.` : 'Nothing was said yet. lab.chat("hello") fills this.';
    paintHead();
    paintChips();
  }

  function write(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  function paintHead() {
    const perSecond = rate();
    write(title, `${head.space} · ${head.members} members · ${grouped(last)} envelopes · ${perSecond < 10 ? Math.round(perSecond * 10) / 10 : grouped(Math.round(perSecond))}/s`);
    const waiting = paused ? held.length : unseen;
    follow.hidden = following && !paused;
    write(follow, waiting ? `${grouped(waiting)} new ▾ follow` : "▾ follow");
  }

  function paintChips() {
    for (const [name, count] of counts) {
      let chip = chips.querySelector(`[data-family="${name}"]`);
      if (!chip) {
        const glyph = MEW_FAMILIES.find((one) => one[2] === name)?.[1] ?? "SY";
        chip = make("button", { type: "button", class: `mew-chip mew-is-${name}`, "data-family": name, "aria-pressed": "false", title: `${name}: how many of the rows held here`, onclick: () => {
          if (!chosen.delete(name)) chosen.add(name);
          chip.setAttribute("aria-pressed", String(chosen.has(name)));
          refilter();
        } }, make("span", { class: "mew-glyph mew-code", text: glyph }), make("span", { class: "mew-count mew-num" }));
        const order = Array.from(MEW_FAMILIES, (one) => one[2]).indexOf(name);
        const after = [...chips.children].find((one) => Array.from(MEW_FAMILIES, (f) => f[2]).indexOf(one.dataset.family) > order);
        chips.insertBefore(chip, after ?? null);
      }
      write(chip.lastChild, grouped(count));
    }
  }

  function draw(row) {
    const { glyph, name } = family(row[KIND]);
    const refused = row[VERDICT].startsWith("✗");
    const line = make("tr", { id: `${link.view}-${row[SEQ]}`, "data-seq": row[SEQ], "aria-selected": String(row[SEQ] === selected), class: `mew-is-${name}${refused ? " mew-refused" : ""}${following && row[SEQ] > painted ? " mew-new" : ""}` });
    const cell = (css, text, hover) => line.appendChild(make("td", { class: css, text, title: hover ?? null }));
    cell("mew-num mew-seq", row[SEQ]);
    cell("mew-num", Math.max(0, row[TIME] - began).toFixed(2), `${new Date(row[TIME] * 1000).toLocaleString()} · ${grouped(row[SIZE])} bytes`);
    cell("mew-code", row[FROM], row[FROM]);
    cell("mew-code", row[TO], row[TO]);
    line.append(make("td", { class: "mew-code mew-kind", title: row[KIND] }, make("span", { class: "mew-glyph", "aria-hidden": true, text: glyph }), row[KIND]));
    const what = cell("mew-what", "", row[WHAT]);
    if (row[CONTEXT]) for (const _ of row[CONTEXT].split("/").slice(0, 6)) what.append(make("span", { class: "mew-level", "aria-hidden": true, title: `context ${row[CONTEXT]}` }));
    what.append(make("bdi", { text: row[WHAT] }));
    const answers = cell("mew-num", "");
    if (row[ANSWERS]) answers.append(make("button", { type: "button", class: "mew-link", tabindex: -1, text: `⇠${row[ANSWERS]}`, "aria-label": `Go to row ${row[ANSWERS]}, which this one answers`, onclick: (event) => { event.stopPropagation(); choose(row[ANSWERS]); } }));
    cell("mew-code mew-verdict", row[VERDICT], row[VERDICT]);
    line.addEventListener("click", () => choose(row[SEQ], true));
    return line;
  }

  function choose(seq, open = false) {
    const n = shown.findIndex((row) => row[SEQ] === seq);
    if (n < 0) return;
    lines.get(selected)?.setAttribute("aria-selected", "false");
    selected = seq;
    lines.get(seq)?.setAttribute("aria-selected", "true");
    table.setAttribute("aria-activedescendant", `${link.view}-${seq}`);
    const top = n * HEIGHT, room = scroller.clientHeight - 2 * HEIGHT;
    if (top < scroller.scrollTop) { following = false; place(top); }
    else if (top > scroller.scrollTop + room) place(top - room);
    if (n < shown.length - 1) following = false;
    if (open || !detail.hidden) ask(seq);
    paintSoon();
  }

  function ask(seq, all = false) {
    link.send({ t: "raw", view: link.view, seq, all });
  }

  function openRaw(item) {
    const text = make("pre", { class: "mew-code", dir: "ltr", tabindex: 0, text: item.text });
    const bar = make("div", { class: "mew-head" }, make("span", { text: `${item.seq} ▸ exact text` }), make("span", { class: "mew-gap" }));
    if (item.more) bar.append(make("button", { type: "button", text: `show the rest, ${grouped(item.more)} characters`, onclick: () => ask(item.seq, true) }));
    bar.append(make("button", { type: "button", text: "close", onclick: shut }));
    detail.replaceChildren(bar, text);
    detail.hidden = false;
  }

  function shut() {
    detail.hidden = true;
    detail.replaceChildren();
    table.focus({ preventScroll: true });
  }

  scroller.addEventListener("scroll", () => {
    if (Math.abs(scroller.scrollTop - placed) < 1) return;
    placed = -1;
    following = scroller.scrollTop + scroller.clientHeight >= spacer.offsetHeight - 2;
    if (following) unseen = 0;
    paintSoon();
  });

  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !detail.hidden) return shut();
    if (event.target !== table) return;
    const now = shown.findIndex((row) => row[SEQ] === selected), end = shown.length - 1;
    const page = Math.max(1, Math.floor(scroller.clientHeight / HEIGHT) - 2);
    const to = { ArrowDown: now + 1, ArrowUp: now < 0 ? end : now - 1, PageDown: now + page, PageUp: now - page, Home: 0, End: end }[event.key];
    if (event.key === "Enter" && now >= 0) ask(selected);
    if (to === undefined || end < 0) return;
    event.preventDefault();
    choose(shown[Math.min(end, Math.max(0, to))][SEQ]);
  });

  sizes.observe(scroller);
  return () => {
    sizes.disconnect();
    clearTimeout(quiet);
    cancelAnimationFrame(frame);
    link.end();
  };
}

export default { render };
