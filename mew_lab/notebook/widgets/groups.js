// Open cards that differ in nothing but values, as one table: a row a proposal, each decided by its own digest. Who comes
// later does not join. Its button arms when every row was in sight and what is folded was opened.

const ALIKE = 3;

function groupOf(cards, desk) {
  const sorted = [...cards].sort((a, b) => b.data.warnings.length - a.data.warnings.length || a.data.seq - b.data.seq);
  const first = sorted[0], names = first.data.arguments.map((one) => one.name);
  const valuesOf = (card) => new Map(card.data.arguments.map((one) => [one.name, one]));
  const differ = names.filter((name) => new Set(sorted.map((card) => valuesOf(card).get(name)?.key)).size > 1);
  const equal = names.filter((name) => !differ.includes(name));
  const says = `${sorted.length} alike: ${first.says}`;
  const node = make("li", { class: "mew-card mew-group", tabindex: 0, "aria-label": says });
  const group = { node, says, rows: new Map(), data: first.data, desk, sent: null };
  const face = { card: { node }, name: "group", closed: new Set(), others: [], still: performance.now(), rect: null };
  group.face = face;

  const count = make("span", { class: "mew-tool" });
  const toBe = make("div", { class: "mew-line" }, make("span", { class: "mew-dot", "aria-hidden": true, text: "●" }), count, titled(first.data));
  const same = make("tbody");
  const table = make("table", { class: "mew-arguments mew-rows", "aria-label": "Proposals" });
  const head = make("tr", {}, make("th", { scope: "col", text: "#" }), ...differ.map((name) => make("th", { scope: "col", class: "mew-code", dir: "ltr", text: name })), make("th", { scope: "col", text: "warnings" }), make("th", { scope: "col", text: "digest" }));
  const body = make("tbody");
  table.append(make("thead", {}, head), body);

  // What is opened here is opened for the card, under the card's own digest. The answer for any of those that share the
  // value shows it; until one has, it counts as closed, whatever was opened elsewhere.
  const unshown = new Set();
  function cell(members, name) {
    const argument = valuesOf(members[0]).get(name);
    const text = make("div", { class: "mew-text", text: argument.text }), parts = [text];
    if (argument.folded) {
      const open = make("button", { type: "button", class: "mew-open", text: `${argument.folded} ▸ show all (required)`, "aria-label": `Show all of ${argument.name}, ${argument.folded}; required before approving`, onclick: () => {
        open.textContent = "asking the kernel for it…";
        for (const card of members) if (isOpen(card.data)) desk.link.send({ t: "value", id: card.data.id, digest: card.data.digest, index: indexOf(card, name) });
      } });
      parts.push(open);
      unshown.add(members);
      const show = (whole) => {
        showWhole(text, whole, open);
        unshown.delete(members);
      };
      for (const card of members) card.whole = [...(card.whole ?? []), { index: indexOf(card, name), show }];
    }
    return parts;
  }
  const indexOf = (card, name) => card.data.arguments.findIndex((one) => one.name === name);

  for (const name of equal) same.append(make("tr", {}, make("th", { scope: "row", class: "mew-code", dir: "ltr", text: name }), make("td", { class: "mew-value mew-code", dir: "ltr" }, ...cell(sorted, name))));
  sorted.forEach((card, n) => {
    const line = make("tr", {}, make("td", { class: "mew-num", text: String(n + 1) }));
    for (const name of differ) line.append(make("td", { class: "mew-value mew-code", dir: "ltr" }, ...cell([card], name)));
    const state = make("td", { class: "mew-rowwarnings" }, ...warnings(card.data.warnings));
    line.append(state, make("td", { class: "mew-digest mew-code", title: `sha-256 ${card.data.digest}`, text: card.data.short }));
    body.append(line);
    group.rows.set(card, { line, state, seen: false });
    card.group = group;
    card.node.hidden = true;
  });

  const reason = make("select", { "aria-label": "Reason for rejecting all" });
  for (const [code, meaning] of desk.reasons()) reason.append(make("option", { value: code, text: code.replaceAll("_", " "), title: meaning }));
  const reject = decider(face, "Reject all", () => send("reject"), { class: "mew-reject-all" });
  face.primary = decider(face, "Approve all", () => send("approve"), { class: "mew-approve-all" });
  face.others = [reject];
  face.hint = make("span", { class: "mew-hint" });
  const unfold = make("button", { type: "button", class: "mew-unfold", text: "Show as cards", onclick: () => desk.unfold(group) });
  group.notice = make("div", { class: "mew-notice", role: "alert", hidden: true });
  node.append(toBe);
  if (equal.length) node.append(make("table", { class: "mew-arguments", "aria-label": "What is equal in all" }, same));
  node.append(make("div", { class: "mew-scroll", role: "region", tabindex: 0, "aria-label": "The proposals, a row each" }, table), group.notice,
    make("div", { class: "mew-buttons" }, make("span", { class: "mew-no" }, reject, reason), unfold, make("span", { class: "mew-gap" }), face.hint, face.primary));

  const open = () => [...group.rows.keys()].filter((card) => isOpen(card.data));
  face.needs = () => {
    const unseen = open().filter((card) => !group.rows.get(card).seen).length;
    return unseen ? `${unseen} of ${open().length} rows not seen yet` : "";
  };

  group.press = (decision) => {
    group.arm();
    if (!isOff(decision === "approve" ? face.primary : reject)) send(decision);
  };
  async function send(decision) {
    const wanted = open().map((card) => [card.data.id, card.data.digest]);
    face.card.sent = performance.now();
    arm(face);
    const given = { cards: wanted, decision, ...(decision === "reject" ? { reason: reason.value } : {}) };
    const done = await desk.link.act("decide_all", given, (text) => { group.notice.hidden = false; group.notice.textContent = text; });
    face.card.sent = null;
    if (done) desk.announce(done.said);
  }

  group.arm = () => {
    face.closed = new Set(open().flatMap((card) => [...card.front.closed].map((index) => `${card.data.id} ${index}`)));
    for (const members of unshown) if (members.some((card) => isOpen(card.data))) face.closed.add(members);
    for (const card of open()) {
      const row = group.rows.get(card);
      if (!row.seen && inSight(row.line.cells[0], row.line)) {
        row.seen = true;
        desk.saw(card);
      }
    }
    arm(face);
  };
  // A member was decided, here or elsewhere: its row says so; the group ends with its last open one.
  group.changed = (card) => {
    const row = group.rows.get(card);
    if (row) row.state.replaceChildren(make("bdi", { text: card.data.past }));
    if (row) row.line.classList.add("mew-rowpast");
    retitle();
    rearm(face);
    return open().length;
  };
  group.leave = () => {
    for (const card of group.rows.keys()) {
      card.group = card.whole = null;
      card.node.hidden = false;
    }
    node.remove();
  };
  function retitle() {
    const left = open().length;
    write(count, `${left} alike`);
    write(face.primary, `Approve all ${left}`);
    write(reject, `Reject all ${left}`);
  }
  retitle();
  sorted.reduce((a, b) => (a.data.seq < b.data.seq ? a : b)).node.before(node);
  return group;
}

// Sets of at least three open cards of one shape that are in no group yet.
function alike(cards) {
  const shapes = new Map();
  for (const card of cards) {
    if (!isOpen(card.data) || card.group || card.picker || card.face !== card.front) continue;
    const key = card.data.shape;
    shapes.set(key, [...(shapes.get(key) ?? []), card]);
  }
  return [...shapes.entries()].filter(([, members]) => members.length >= ALIKE);
}
