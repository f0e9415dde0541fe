// The capabilities of the participants, and a form for a new grant. The choices in the form become the pattern that it shows.

import { connect } from "../ui/connection.js";
import { announcer, atHand, doer, keepKeys, make, write } from "../ui/elements.js";
import { clockTime, groupDigits } from "../ui/text.js";

const ORIGINS = { configured: "configured", everybody: "everybody holds it", told: "as it joined" };
const METHODS = ["tools/call", "tools/list", "resources/read", "resources/list", "prompts/get", "prompts/list"];
const ARMING = 500, PAGE = 200, PAUSE = 250;
let MEW_EDITORS = 0;

function render({ model, el }) {
  const own = `mew-grants-${MEW_EDITORS++}-`;
  const root = make("section", { class: "mew mew-grants", "aria-label": "Grants" });
  const title = make("span", { class: "mew-title" });
  const whose = make("select", { "aria-label": "Whose capabilities", onchange: () => narrow() });
  const opener = make("button", { type: "button", class: "mew-new", text: "Grant…", "aria-expanded": "false", onclick: () => toggleForm() });
  const body = make("tbody");
  const table = make("table", { "aria-label": "Capabilities" }, make("thead", {}, make("tr", {}, ...["holder", "may", "from", "since", "take back"].map((text) => make("th", { scope: "col", text })))), body);
  const empty = make("div", { class: "mew-empty", text: 'No participant holds a capability yet. lab.join("helper") adds a participant.' });
  const less = make("div", { class: "mew-dim mew-less", hidden: true });
  const sentence = make("div", { class: "mew-said", hidden: true });
  const place = make("div", { class: "mew-form-place" });
  root.append(make("div", { class: "mew-head" }, title, make("span", { class: "mew-gap" }), make("label", { class: "mew-whose" }, "of ", whose), opener), place, sentence, make("div", { class: "mew-scroller", role: "region", tabindex: 0, "aria-label": "Table of capabilities" }, table), empty, less);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  const rows = new Map();
  let head = { holders: [], total: 0, granted: 0 }, choices = [], tools = [], form = null, probes = 0, timer = null, ids = 0;
  const link = connect(model, root, {
    from: () => 0,
    item(item) {
      if (item.t === "snapshot") {
        choices = item.choices;
        fill(item.rows);
        setHead(item);
        if (whose.value) narrow();
      } else if (item.t === "rows") change(item);
      else if (item.t === "head") setHead(item);
    },
    done: paint,
  });

  const set = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };

  function setHead(item) {
    head = item;
    setOptions(whose, [["", "everybody"], ...item.holders]);
    if (form) setOptions(form.to, [["", "choose who gets it"], ...item.holders]);
  }

  function setOptions(select, options) {
    if (Array.from(select.options, (option) => option.value).join("\n") === options.map((option) => option[0]).join("\n")) return;
    const chosen = select.value;
    select.replaceChildren(...options.map(([value, text]) => make("option", { value, text })));
    select.value = options.some((option) => option[0] === chosen) ? chosen : "";
  }

  // The table.

  function fill(all) {
    const kept = new Set(all.map((row) => row.key));
    for (const key of [...rows.keys()]) if (!kept.has(key)) drop(key);
    let before = null;
    for (const data of all) {
      put(data, before, true);
      before = rows.get(data.key).node;
    }
  }

  function change(item) {
    for (const key of item.gone) drop(key);
    for (const data of item.rows) {
      const fits = !whose.value || whose.value === data.who;
      if (fits || rows.has(data.key)) put(data, rows.get(data.after)?.node ?? (whose.value ? body.lastChild : null), rows.size < PAGE && fits);
    }
  }

  function put(data, before, admit) {
    let row = rows.get(data.key);
    if (!row && !admit) return;
    if (!row) {
      row = build(data);
      rows.set(data.key, row);
      if (before) before.after(row.node);
      else body.prepend(row.node);
    }
    row.data = data;
    write(row.holder, data.holder);
    row.holder.title = data.who === data.holder ? "" : data.holder;
    write(row.words, data.phrase);
    set(row.may, "aria-label", `${data.holder} may ${data.phrase}. Pattern`);
    row.may.title = data.pattern;
    write(row.code, data.pattern);
    row.from.replaceChildren(...(data.origin === "granted"
      ? [make("bdi", { class: "mew-code", text: data.granter }), " ", make("bdi", { class: "mew-dim mew-code", text: data.grant, title: data.whole }), ...(data.ends ? [make("span", { class: "mew-ends", text: ` ${data.ends}` })] : [])]
      : [make("span", { class: "mew-dim", text: ORIGINS[data.origin] })]));
    write(row.since, data.since === null ? "" : clockTime(data.since));
    set(row.node, "data-origin", data.origin);
    set(row.node, "data-who", data.holder);
    if (row.revoke) {
      set(row.revoke, "aria-disabled", data.against ? "true" : "false");
      set(row.revoke, "aria-label", `Revoke: ${data.holder} may ${data.phrase}`);
      row.revoke.title = data.against || (data.grant ? "revokes this grant" : "revokes all that this pattern matches, until the space ends");
      set(row.revoke, "aria-description", row.revoke.title);
    }
  }

  function build(data) {
    const id = `${own}${ids++}`;
    const row = { holder: make("bdi", { class: "mew-code" }), words: make("bdi"), code: make("code", { dir: "ltr" }), from: make("td", { class: "mew-from" }), since: make("td", { class: "mew-since mew-num" }) };
    row.drawer = make("div", { class: "mew-pattern", id, hidden: true }, row.code);
    row.twist = make("span", { class: "mew-twist", "aria-hidden": "true", text: "▸" });
    row.may = make("button", { type: "button", class: "mew-may", "aria-expanded": "false", "aria-controls": id, onclick: () => {
      row.drawer.hidden = !row.drawer.hidden;
      set(row.may, "aria-expanded", String(!row.drawer.hidden));
      write(row.twist, row.drawer.hidden ? "▸" : "▾");
    } }, row.twist, row.words);
    row.cell = make("td", { class: "mew-take" });
    row.node = make("tr", {}, make("th", { scope: "row", class: "mew-holder" }, row.holder), make("td", { class: "mew-can" }, row.may, row.drawer), row.from, row.since, row.cell);
    offerRevoke(row);
    return row;
  }

  function offerRevoke(row) {
    row.revoke = make("button", { type: "button", text: "Revoke…", onclick: () => { if (row.revoke.getAttribute("aria-disabled") !== "true") confirm(row); } });
    row.cell.replaceChildren(row.revoke);
  }

  function confirm(row) {
    const back = () => {
      const focused = atHand(row.cell);
      offerRevoke(row);
      put(row.data);
      if (focused) row.revoke.focus();
    };
    const keep = make("button", { type: "button", text: "Keep", onclick: back });
    const sure = doer("Revoke", async () => {
      const done = await link.act("revoke", { key: row.data.key });
      if (done) report(done.said);
      if (row.node.isConnected) back();
      else if (atHand(row.node)) opener.focus();
    }, { class: "mew-grave", "aria-label": `Revoke now: ${row.data.holder} may ${row.data.phrase}`, "aria-disabled": "true" });
    sure.setAttribute("aria-disabled", "true");
    setTimeout(() => sure.setAttribute("aria-disabled", "false"), ARMING);
    row.revoke = null;
    row.cell.replaceChildren(keep, " ", sure);
    row.cell.onkeydown = (event) => { if (event.key === "Escape" && !row.revoke) back(); };
    keep.focus();
  }

  function drop(key) {
    const row = rows.get(key);
    if (!row) return;
    const focused = row.node.contains(document.activeElement);
    row.node.remove();
    rows.delete(key);
    if (focused) opener.focus();
  }

  async function narrow() {
    const holder = whose.value;
    const done = await link.act("of", { holder });
    if (done && holder === whose.value) fill(done.value);
    paint();
  }

  function report(text) {
    sentence.hidden = !text;
    sentence.replaceChildren(make("bdi", { text: `${text} · ${clockTime(Date.now() / 1000)}` }));
    announce(text);
  }

  // The form.

  function toggleForm() {
    if (form) return closeForm();
    form = { probed: null };
    form.to = make("select", { "aria-label": "who gets it", onchange: () => probe(0) });
    setOptions(form.to, [["", "choose who gets it"], ...head.holders]);
    form.choice = make("select", { "aria-label": "a pattern of a profile", onchange: () => { if (form.choice.value) take(JSON.parse(form.choice.value)); } },
      make("option", { value: "", text: "a pattern of a profile…" }), ...choices.map(([text, phrase, profiles]) => make("option", { value: text, text: `${phrase} (${profiles.join(", ")})`.slice(0, 110) })));
    form.method = make("select", { "aria-label": "MCP method", onchange: compose }, make("option", { value: "", text: "or an MCP request…" }), ...METHODS.map((text) => make("option", { text })));
    form.tool = make("input", { type: "text", maxlength: 128, "aria-label": "tool", placeholder: "tool, * for any", list: `${own}tools`, oninput: compose });
    form.known = make("datalist", { id: `${own}tools` });
    form.target = make("select", { "aria-label": "of whom", onchange: compose });
    setOptions(form.target, [["", "of anybody"], ...head.holders]);
    form.look = doer("Look up tools", lookUp);
    form.text = make("textarea", { rows: 3, class: "mew-code", "aria-label": "pattern, as JSON", spellcheck: "false", dir: "ltr", placeholder: '{"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "git_log"}}}', oninput: () => probe(PAUSE) });
    form.answer = make("div", { class: "mew-answer" }, make("span", { class: "mew-dim", text: "Choose a participant and a pattern: the effect of the grant appears here." }));
    form.until = make("select", { "aria-label": "for how long" }, ...[["", "until revoked"], ["m10", "for 10 minutes"], ["m60", "for 1 hour"], ["u1", "for 1 use"], ["u10", "for 10 uses"]].map(([value, text]) => make("option", { value, text })));
    form.send = doer("Grant", sendGrant, { class: "mew-give" });
    set(form.send, "aria-disabled", "true");
    form.box = make("div", { class: "mew-ask", role: "group", "aria-label": "Grant" },
      make("div", { class: "mew-line" }, form.to, form.choice), make("div", { class: "mew-line" }, form.method, form.tool, form.known, form.target, form.look),
      form.text, form.answer, make("div", { class: "mew-line" }, make("span", { class: "mew-gap" }), make("button", { type: "button", text: "Cancel", onclick: closeForm }), form.until, form.send));
    form.box.addEventListener("keydown", (event) => { if (event.key === "Escape") closeForm(); });
    place.replaceChildren(form.box);
    setTools();
    compose();
    set(opener, "aria-expanded", "true");
    form.to.focus();
  }

  function closeForm() {
    clearTimeout(timer);
    form = null;
    probes += 1;
    const focused = atHand(place);
    place.replaceChildren();
    set(opener, "aria-expanded", "false");
    if (focused) opener.focus();
  }

  function take(pattern) {
    form.text.value = JSON.stringify(pattern);
    probe(0);
  }

  function compose(event) {
    const method = form.method.value, calls = method === "tools/call";
    form.tool.hidden = form.look.hidden = !calls;
    form.target.hidden = !method;
    if (!event || !method) return;
    const name = form.tool.value.trim(), payload = { method };
    if (calls && name && name !== "*") payload.params = { name };
    take({ kind: "mcp/request", payload, ...(form.target.value ? { to: form.target.value } : {}) });
  }

  async function lookUp() {
    const done = await link.act("tools", {});
    if (!done) return;
    tools = done.value;
    if (form) setTools();
    announce(done.said);
    if (form && atHand(form.look)) form.tool.focus();
  }

  function setTools() {
    form.known.replaceChildren(...tools.map(([, name, shown]) => make("option", { value: name, text: shown })));
  }

  function probe(after) {
    clearTimeout(timer);
    set(form.send, "aria-disabled", "true");
    form.probed = null;
    probes += 1;
    if (!form.to.value || !form.text.value.trim()) return;
    timer = setTimeout(showProbe, after);
  }

  async function showProbe() {
    const mine = probes, to = form.to.value, pattern = form.text.value;
    const slow = setTimeout(() => { if (mine === probes) form.answer.replaceChildren(make("span", { class: "mew-dim", text: "searching the log…" })); }, 400);
    const done = await link.act("probe", { to, pattern });
    clearTimeout(slow);
    if (mine !== probes || !form || !done) return;
    const probe = done.value, parts = [];
    if (probe.fault) parts.push(make("div", { class: "mew-no" }, make("bdi", { text: probe.fault })));
    else {
      parts.push(make("div", { class: "mew-says" }, make("bdi", { class: "mew-code", text: head.holders.find((holder) => holder[0] === to)?.[1] ?? "" }), " may then ", make("bdi", { text: probe.phrase }), "."));
      if (probe.barred) parts.push(make("div", { class: "mew-no" }, make("bdi", { text: probe.barred })));
      for (const text of probe.warnings) parts.push(make("div", { class: "mew-no" }, make("bdi", { text })));
      for (const text of probe.lines) parts.push(make("div", {}, make("bdi", { text })));
      if (probe.examples.length) parts.push(make("ul", { "aria-label": "Examples" }, ...probe.examples.map(([at, kind, names, what]) => make("li", {}, make("span", { class: "mew-dim", text: `${at} ` }), make("bdi", { class: "mew-code", text: kind }), " to ", make("bdi", { class: "mew-code", text: names || "everybody" }), " ", make("bdi", { text: what })))));
      if (probe.smallest) parts.push(make("div", {}, "The smallest message that would be newly allowed: ", make("code", { dir: "ltr", text: probe.smallest })));
      else if (probe.adds) parts.push(make("div", { class: "mew-dim", text: "No message was found that would be newly allowed." }));
      announce([probe.barred, ...probe.lines].filter(Boolean).join(" "));
    }
    form.answer.replaceChildren(...parts);
    form.probed = probe.fault || probe.barred ? null : { to, pattern };
    set(form.send, "aria-disabled", form.probed ? "false" : "true");
    form.send.title = probe.barred ?? "";
  }

  async function sendGrant() {
    const chosen = form.probed;
    if (!chosen) return;
    const limit = form.until.value, amount = Number(limit.slice(1));
    const done = await link.act("grant", { ...chosen, minutes: limit[0] === "m" ? amount : null, uses: limit[0] === "u" ? amount : null });
    if (!done) return;
    report(done.said);
    if (form) closeForm();
  }

  function paint() {
    write(title, `${head.space ?? ""} · ${groupDigits(head.total)} capabilities · ${groupDigits(head.granted)} granted`);
    empty.hidden = head.total > 0;
    table.hidden = !rows.size;
    const shown = whose.value ? rows.size : head.total;
    less.hidden = rows.size >= shown;
    write(less, `${groupDigits(shown - rows.size)} more are not shown: choose one participant to see its capabilities.`);
    root.dataset.rows = String(rows.size);
    // The rows of one holder are together; its name is shown once.
    let last = null;
    for (const line of body.rows) {
      const name = line.dataset.who;
      line.classList.toggle("mew-again", name === last);
      last = name;
    }
  }

  return () => {
    clearTimeout(timer);
    link.end();
  };
}

export default { render };
