// Cards in order of arrival; a card never changes what it shows and never moves but by scrolling. It says yes or no with
// the id and the digest of what it shows, the decision, and the nonce that a live kernel gave; never with a payload.

const ARMING = 500;
const SIGNS = { fulfilled: "✓", rejected: "✕", withdrawn: "–", done: "✓", open: "●", deciding: "●" };

function render({ model, el }) {
  const root = make("section", { class: "mew mew-approvals", "aria-label": "Approvals" });
  const counts = make("span", { class: "mew-counts" });
  const banner = make("div", { class: "mew-banner", role: "note", hidden: true });
  const earlier = make("button", { type: "button", class: "mew-earlier", hidden: true, onclick: () => { showAll = true; tidy(); } });
  const list = make("ul", { class: "mew-cards", role: "list" });
  const empty = make("div", { class: "mew-empty" });
  const notices = make("div", { class: "mew-notices" });
  root.append(make("div", { class: "mew-head" }, make("b", { text: "Approvals" }), counts), banner, earlier, list, empty, notices);
  empty.append("Nothing waits for you. When a participant that may only propose calls a tool, a card appears here: ",
    make("code", { text: 'bot.call("git/git_log", {"repo_path": repo})' }));
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  const cards = new Map();
  let nonce = null, targets = [], reasons = [], offset = 0, showAll = false, watch = null, ticks = null, pings = null;

  const link = connect(model, root, {
    from: () => 0,
    item(item) {
      if (item.t === "snapshot") {
        nonce = item.nonce;
        offset = item.now - Date.now() / 1000;
        head(item);
        for (const card of item.cards) put(card);
      } else if (item.t === "card") put(item.card);
      else if (item.t === "head") head(item);
      else if (item.t === "value") opened(item);
      else if (item.t === "notice") notice(item);
    },
    done: tidy,
  });

  function head(item) {
    banner.hidden = !item.banner;
    banner.textContent = item.banner;
    targets = item.targets;
    reasons = item.reasons;
    for (const card of cards.values()) if (card.picker) offer(card.picker);
    clearInterval(pings);
    pings = item.waiting ? setInterval(() => link.send({ t: "ping", view: link.view }), 1000) : null;
    if (item.waiting) link.send({ t: "ping", view: link.view });
  }

  function put(data) {
    const old = cards.get(data.id);
    if (!old) {
      const card = build(data);
      cards.set(data.id, card);
      list.append(card.node);
      if (isOpen(data)) announce(`${card.says}, waits for your decision`);
      return;
    }
    if (old.data.digest !== data.digest) {
      say(old, "The kernel now shows other content under this id. Run the cell of this view again.");
      old.spoilt = true;
      return;
    }
    const was = old.data;
    old.data = { ...data, arguments: was.arguments };
    if (!isOpen(data)) collapse(old);
    else settle(old, data.state === "deciding");
  }

  function isOpen(data) {
    return data.state === "open" || data.state === "deciding";
  }

  function sentence(data) {
    const whom = data.to.length ? data.to.join(", ") : "anybody";
    return `${data.proposer} asks ${whom} to run ${data.tool || data.method}`;
  }

  function title(data) {
    const line = make("span", { class: "mew-says" });
    const whom = data.to.length ? data.to.join(", ") : "anybody";
    line.append(make("bdi", { class: "mew-who", text: data.proposer }), " asks ", make("bdi", { class: "mew-who", text: whom }),
      " to run ", make("bdi", { class: "mew-tool mew-code", text: data.tool || data.method }));
    if (data.tool && data.method !== "tools/call") line.append(make("span", { class: "mew-dim", text: ` (${data.method})` }));
    return line;
  }

  function build(data) {
    const says = sentence(data);
    const node = make("li", { class: "mew-card", tabindex: 0, "aria-label": says });
    const card = { data, node, says, closed: new Set(), still: performance.now(), rect: null, armed: false, sent: null };
    if (!isOpen(data)) {
      collapse(card);
      return card;
    }
    card.age = make("span", { class: "mew-age mew-num" });
    const digest = make("span", { class: "mew-digest mew-code", title: `sha-256 ${data.digest}`, text: `digest ${data.short}` });
    node.append(make("div", { class: "mew-line" }, make("span", { class: "mew-dot", "aria-hidden": true, text: "●" }), title(data), card.age, digest));
    for (const warning of data.warnings) node.append(make("div", { class: "mew-warning" }, make("span", { "aria-hidden": true, text: "⚠ " }), make("bdi", { text: warning })));
    node.append(table(card));
    if (data.why) node.append(make("div", { class: "mew-why" }, "why: ", make("bdi", { text: data.why })));
    card.notice = make("div", { class: "mew-notice", role: "alert", hidden: true });
    node.append(card.notice, buttons(card));
    settle(card, data.state === "deciding");
    age(card);
    return card;
  }

  function table(card) {
    const body = make("tbody");
    card.data.arguments.forEach((argument, index) => {
      const value = make("td", { class: "mew-value mew-code", dir: "ltr" });
      const text = make("div", { class: "mew-text", text: argument.text });
      value.append(text);
      if (argument.folded) {
        card.closed.add(index);
        value.append(make("button", {
          type: "button", class: "mew-open", text: `${argument.folded} ▸ show all (required before approving)`,
          "aria-label": `Show all of ${argument.name}, ${argument.folded}; required before approving`,
          onclick: (event) => {
            event.currentTarget.textContent = "asking the kernel for it…";
            link.send({ t: "value", id: card.data.id, index });
          },
        }));
      }
      body.append(make("tr", {}, make("th", { scope: "row", class: "mew-code", dir: "ltr", text: argument.name }), value));
    });
    if (!card.data.arguments.length) return make("div", { class: "mew-dim", text: "no arguments" });
    card.values = body;
    return make("table", { class: "mew-arguments", "aria-label": "Arguments" }, body);
  }

  function opened(item) {
    const card = cards.get(item.proposal);
    if (!card || !card.values || !isOpen(card.data)) return;
    const cell = card.values.rows[item.index].cells[1];
    cell.querySelector(".mew-text").textContent = item.text;
    cell.querySelector(".mew-text").classList.add("mew-whole");
    cell.querySelector(".mew-open")?.remove();
    card.closed.delete(item.index);
    rearm(card);
  }

  function buttons(card) {
    card.reason = make("select", { "aria-label": "Reason for rejecting" });
    for (const [code, meaning] of reasons) card.reason.append(make("option", { value: code, text: code.replaceAll("_", " "), title: meaning }));
    card.words = make("input", { type: "text", maxlength: 500, placeholder: "or in your own words", "aria-label": "Reason in your own words" });
    card.reject = make("button", { type: "button", class: "mew-reject", text: "Reject", "aria-label": `Reject: ${card.says}`, onclick: (e) => press(e, card, "reject") });
    card.approve = make("button", { type: "button", class: "mew-approve", text: "Approve", "aria-label": `Approve: ${card.says}`, onclick: (e) => press(e, card, "approve") });
    for (const button of [card.reject, card.approve]) button.addEventListener("pointerdown", () => { card.pressed = place(card); });
    card.hint = make("span", { class: "mew-hint" });
    const line = make("div", { class: "mew-buttons" }, card.reject, card.reason, card.words);
    if (!card.data.to.length) {
      card.picker = make("select", { class: "mew-target", "aria-label": "Who runs it", onchange: () => rearm(card) });
      offer(card.picker);
    }
    line.append(make("span", { class: "mew-gap" }), card.hint);
    if (card.picker) line.append(card.picker);
    line.append(card.approve);
    return line;
  }

  function offer(picker) {
    const wanted = ["", ...targets.map((pair) => pair[0])];
    if (Array.from(picker.options, (option) => option.value).join("\n") === wanted.join("\n")) return;
    const chosen = picker.value;
    picker.replaceChildren(make("option", { value: "", text: "choose who runs it" }), ...targets.map(([id, shown]) => make("option", { value: id, text: shown })));
    picker.value = wanted.includes(chosen) ? chosen : "";
  }

  function place(card) {
    const box = card.approve.getBoundingClientRect();
    return `${Math.round(box.left)},${Math.round(box.top)}`;
  }

  function inSight(card) {
    if (document.hidden) return false;
    const box = card.approve.getBoundingClientRect();
    const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    return box.width > 0 && hit !== null && card.node.contains(hit);
  }

  function rearm(card) {
    card.still = performance.now();
    arm(card);
  }

  // Arms when the buttons stood still and in sight for half a second: what is clicked is what was seen there.
  function arm(card) {
    const now = performance.now(), here = place(card);
    if (here !== card.rect || !inSight(card)) {
      card.rect = here;
      card.still = now;
    }
    const left = ARMING - (now - card.still);
    card.armed = left <= 0;
    let hint = "";
    if (card.spoilt) hint = "cannot be decided here";
    else if (card.sent) hint = performance.now() - card.sent < 3000 ? "sending…" : "The kernel has not taken it yet: a running cell may hold it.";
    else if (card.closed.size) hint = "open what is folded first";
    else if (card.picker && !card.picker.value) hint = "choose who runs it first";
    else if (!card.armed) hint = `arms in ${(Math.max(left, 100) / 1000).toFixed(1)} s`;
    write(card.hint, hint);
    toggle(card.reject, !card.armed || card.sent || card.spoilt);
    toggle(card.approve, hint !== "");
  }

  function write(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  // aria-disabled rather than disabled: a button that has the keyboard must not lose it for half a second.
  function toggle(button, off) {
    const value = off ? "true" : "false";
    if (button.getAttribute("aria-disabled") !== value) button.setAttribute("aria-disabled", value);
  }

  function press(event, card, decision) {
    const moved = event.detail > 0 && card.pressed !== place(card);
    arm(card);
    const button = decision === "approve" ? card.approve : card.reject;
    if (!event.isTrusted || moved || button.getAttribute("aria-disabled") === "true") return;
    decide(card, decision);
  }

  function decide(card, decision) {
    const message = { t: "decide", id: card.data.id, digest: card.data.digest, decision, nonce };
    if (decision === "reject") message.reason = card.words.value.trim() || card.reason.value;
    else if (card.picker) message.target = card.picker.value;
    if (!link.send(message)) return;
    card.sent = performance.now();
    card.notice.hidden = true;
    arm(card);
  }

  function settle(card, deciding) {
    card.node.classList.toggle("mew-deciding", deciding);
    card.sent = deciding ? (card.sent ?? performance.now()) : null;
    if (card.approve?.isConnected) arm(card);
  }

  function collapse(card) {
    const had = card.node.contains(document.activeElement);
    const data = card.data;
    card.node.className = "mew-card mew-past";
    card.node.setAttribute("aria-label", `${card.says}: ${data.past}`);
    card.node.replaceChildren(
      make("span", { class: `mew-sign mew-sign-${data.state}`, "aria-hidden": true, text: SIGNS[data.state] ?? "•" }), title(data),
      make("bdi", { class: "mew-outcome", text: data.past, title: data.past }),
      make("span", { class: "mew-digest mew-code", title: `sha-256 ${data.digest}`, text: data.short }));
    card.approve = card.reject = card.picker = card.age = null;
    if (had) card.node.focus();
    announce(`${card.says}: ${data.past}`);
  }

  function say(card, text) {
    if (!card.notice?.isConnected) return void notice({ text });
    card.notice.hidden = !text;
    card.notice.textContent = text;
  }

  function notice(item) {
    const card = cards.get(item.proposal);
    if (card && isOpen(card.data)) {
      say(card, item.text);
      return settle(card, false);
    }
    const line = make("div", { class: "mew-notice", role: "alert" }, make("span", { text: item.text }));
    line.append(make("button", { type: "button", text: "Dismiss", onclick: () => line.remove() }));
    notices.append(line);
    while (notices.children.length > 5) notices.firstChild.remove();
  }

  function age(card) {
    if (card.age) write(card.age, `waiting ${waited(Date.now() / 1000 + offset - card.data.since)}`);
  }

  function tidy() {
    const all = [...cards.values()], open = all.filter((card) => isOpen(card.data)), past = all.filter((card) => !isOpen(card.data));
    write(counts, `${open.length} open · ${past.length} decided`);
    empty.hidden = open.length > 0;
    past.forEach((card, n) => { card.node.hidden = !showAll && n < past.length - 12; });
    earlier.hidden = showAll || past.length <= 12;
    write(earlier, `${past.length - 12} earlier decisions ▸ show`);
    root.dataset.open = open.length;
    if (open.length && !watch) {
      watch = setInterval(() => { for (const card of cards.values()) if (isOpen(card.data)) arm(card); }, 100);
      ticks = setInterval(() => { for (const card of cards.values()) if (isOpen(card.data)) age(card); }, 1000);
    } else if (!open.length) stop();
  }

  function stop() {
    clearInterval(watch);
    clearInterval(ticks);
    watch = ticks = null;
  }

  // A key that is held down decides nothing: it may have been pressed for something else.
  root.addEventListener("keydown", (event) => {
    if (event.repeat && ["Enter", " ", "a", "r"].includes(event.key) && event.target.tagName !== "INPUT") return event.preventDefault();
    const card = [...cards.values()].find((one) => one.node === event.target);
    if (event.key === "Escape") {
      const around = event.target.closest(".mew-card");
      if (around && around !== event.target) around.focus();
      else event.target.blur();
    }
    if (!card || !isOpen(card.data) || event.ctrlKey || event.metaKey || event.altKey || !event.isTrusted) return;
    const decision = { a: "approve", r: "reject" }[event.key];
    if (!decision) return;
    event.preventDefault();
    arm(card);
    const button = decision === "approve" ? card.approve : card.reject;
    if (button.getAttribute("aria-disabled") === "false") decide(card, decision);
  });

  tidy();
  return () => {
    stop();
    clearInterval(pings);
    link.end();
  };
}

export default { render };
