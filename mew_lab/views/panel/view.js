// Places the parts. Each part draws itself; this module gives it a place, and the tabs their counts.

import { connect } from "../ui/connection.js";
import { announcer, make } from "../ui/elements.js";

function render({ model, el, host, signal }) {
  const root = make("section", { class: "mew mew-panel", "aria-label": "Control room" });
  const places = {
    top: make("div", { class: "mew-place mew-place-top" }),
    left: make("div", { class: "mew-place mew-place-left" }),
    middle: make("div", { class: "mew-place mew-place-middle" }),
  };
  const tabs = make("div", { class: "mew-tabs", role: "tablist", "aria-label": "Other parts" });
  const sheets = make("div", { class: "mew-sheets" });
  const tabbed = make("div", { class: "mew-place mew-place-tabs" }, tabs, sheets);
  const room = make("div", { class: "mew-room" }, places.top, places.left, places.middle, tabbed);
  root.append(room);
  el.replaceChildren(root);
  const announce = announcer(root);
  const drawn = new Map(), buttons = new Map();
  let chosen = "";

  const link = connect(model, root, {
    from: () => 0,
    item(item) {
      if (item.t === "snapshot") build(item);
      else if (item.t === "badges") count(item.badges);
    },
  });

  function build(item) {
    root.setAttribute("aria-label", `Control room of ${item.space}`);
    for (const part of item.parts) {
      if (drawn.has(part.name)) continue;
      if (part.place === "tab") addTab(part);
      else {
        drawn.set(part.name, part);
        draw(part, places[part.place]);
      }
    }
    tabbed.hidden = !buttons.size;
    count(item.badges);
    if (!chosen && buttons.size) choose(buttons.keys().next().value);
  }

  async function draw(part, place) {
    const box = make("div", { class: "mew-part" });
    place.append(box);
    try {
      const widget = await host.getWidget(part.ref);
      await widget.render({ el: box, signal });
    } catch (error) {
      box.append(make("div", { class: "mew-empty", text: `The part “${part.name}” is not in this page. Run the cell of the panel again.` }));
    }
    root.dataset.drawn = String(Number(root.dataset.drawn ?? 0) + 1);
  }

  function addTab(part) {
    const sheet = make("div", { class: "mew-sheet", role: "tabpanel", id: `${link.view}-${part.name}`, hidden: true });
    const button = make("button", {
      type: "button", role: "tab", id: `${link.view}-tab-${part.name}`, class: "mew-tab", "aria-selected": "false", tabindex: -1,
      "aria-controls": sheet.id, onclick: () => choose(part.name),
    }, make("span", { text: part.name }), make("span", { class: "mew-badge mew-num", hidden: true }));
    sheet.setAttribute("aria-labelledby", button.id);
    drawn.set(part.name, part);
    buttons.set(part.name, { button, sheet, part, begun: false });
    tabs.append(button);
    sheets.append(sheet);
  }

  function choose(name) {
    chosen = name;
    for (const [button, tab] of buttons) {
      const on = button === name;
      tab.button.setAttribute("aria-selected", String(on));
      tab.button.tabIndex = on ? 0 : -1;
      tab.sheet.hidden = !on;
      if (on && !tab.begun) {
        tab.begun = true;
        draw(tab.part, tab.sheet);
      }
    }
  }

  function count(badges) {
    for (const [name, { button }] of buttons) {
      const badge = button.lastChild, text = badges[name] ?? "";
      badge.hidden = !text;
      if (badge.textContent !== text) badge.textContent = text;
    }
    if (badges.approvals && badges.approvals !== root.dataset.waiting) announce(`approvals: ${badges.approvals}`);
    root.dataset.waiting = badges.approvals ?? "";
  }

  tabs.addEventListener("keydown", (event) => {
    const names = [...buttons.keys()], now = names.indexOf(chosen), end = names.length - 1;
    const to = { ArrowRight: now === end ? 0 : now + 1, ArrowLeft: now === 0 ? end : now - 1, Home: 0, End: end }[event.key];
    event.stopPropagation();
    if (to === undefined) return;
    event.preventDefault();
    choose(names[to]);
    buttons.get(names[to]).button.focus();
  });
  root.setAttribute("data-lm-suppress-shortcuts", "true");

  return () => link.end();
}

export default { render };
