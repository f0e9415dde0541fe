// What the views of talk and of thought share: a list that grows at its end, a form that asks why, times that grow.

// A list follows its newest entry unless the reader has gone elsewhere; then the button tells how many came. `back` is
// called when it follows again.
function follower(scroller, button, back = () => {}) {
  let following = true, unseen = 0, placed = -1;
  function told() {
    button.hidden = following;
    const text = unseen ? `${grouped(unseen)} new ▾ follow` : "▾ follow";
    if (button.textContent !== text) button.textContent = text;
  }
  function atEnd() {
    return scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 4;
  }
  function end() {
    scroller.scrollTop = scroller.scrollHeight;
    placed = scroller.scrollTop;
  }
  scroller.addEventListener("scroll", () => {
    if (!scroller.clientHeight || Math.abs(scroller.scrollTop - placed) < 1) return;
    placed = -1;
    following = atEnd();
    if (following) unseen = 0;
    told();
    if (following) back();
  });
  button.addEventListener("click", () => {
    following = true;
    unseen = 0;
    end();
    told();
    scroller.focus({ preventScroll: true });
    back();
  });
  // Out of the layout just now (a theme is being changed, a tab lies behind): it goes on where it was when it is back.
  const sizes = new ResizeObserver(() => { if (following && scroller.clientHeight) end(); });
  sizes.observe(scroller);
  told();
  return {
    follows: () => following,
    arrived(n) { if (!following) unseen += n; told(); },
    settle() { if (following && scroller.clientHeight) end(); },
    hold() { following = atEnd(); told(); },
    stop() { sizes.disconnect(); },
  };
}

// Asks for a reason below what it is about; `run(reason)` says whether it was done. One that is open is shut first.
function whyForm(opener, host, reasons, label, run) {
  const open = host.querySelector(".mew-why-form");
  if (open) {
    open.remove();
    opener.setAttribute("aria-expanded", "false");
    return;
  }
  const select = make("select", { "aria-label": "Reason" },
    ...reasons.map(([code, meaning]) => make("option", { value: code, text: code.replaceAll("_", " "), title: meaning })));
  const words = make("input", { type: "text", maxlength: 80, placeholder: "or in your own words", "aria-label": "Reason in your own words" });
  const shut = (to) => {
    const had = atHand(form);
    form.remove();
    opener.setAttribute("aria-expanded", "false");
    if (had && to.isConnected) to.focus({ preventScroll: true });
  };
  const form = make("div", { class: "mew-why-form", role: "group", "aria-label": label }, select, words,
    make("button", { type: "button", text: "Keep", onclick: () => shut(opener) }),
    doer(label, async () => { if (await run(words.value.trim() || select.value)) shut(host); }));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.stopPropagation(); shut(opener); }
  });
  opener.setAttribute("aria-expanded", "true");
  host.append(form);
  select.focus({ preventScroll: true });
}

// "3.2 s" below ten seconds, "41 s" below a minute, then minutes and hours.
function lasted(seconds) {
  const s = Math.max(0, seconds);
  return s < 9.95 ? `${s.toFixed(1)} s` : s < 60 ? `${Math.round(s)} s` : waited(s);
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
