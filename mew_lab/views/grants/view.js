// The capabilities of the participants, and a form for a new grant. The choices in the form become the pattern that it shows.

import { connect } from "../ui/connection.js";
import {
  announcer,
  atHand,
  doer,
  isOff,
  keepKeys,
  make,
  newId,
  onEscape,
  optionsOf,
  setAttribute,
  setOptions,
  sureDoer,
  turnOff,
  write,
} from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { makeHeader } from "../ui/header.js";
import { openIn } from "../ui/links.js";
import { keyedRows, makeTable } from "../ui/tables.js";
import { PATTERN_HELP, clockHover, clockTime, countOf, groupDigits } from "../ui/text.js";
import { makeToaster } from "../ui/toast.js";
import { LIMITS, METHOD_WORDS, composePattern, readLimit, suggestTools } from "./pattern.js";
import { makePlayground } from "./playground.js";

const ORIGINS = {
  configured: "From configuration",
  everybody: "Default for everyone",
  told: "Held when it joined",
};
const GROUP_WORDS = {
  mine: "Granted by you",
  granted: "Granted by others",
  configured: "From configuration",
  everybody: "Default for everyone",
  told: "Held when they joined",
  "": "All",
};
const PAGE = 200;
const PAUSE = 250;
const OWN_PATTERN = "own";

/**
 * A permission as a row of the table, from model.py. `after` is the key of the row that stands before it.
 * @typedef {object} Permission
 * @property {string} key
 * @property {string} who
 * @property {string} holder
 * @property {string} phrase
 * @property {string} pattern
 * @property {string} origin
 * @property {string} group
 * @property {string} granter
 * @property {string} grant
 * @property {string} whole
 * @property {string} ends
 * @property {number | null} since
 * @property {string} against why it cannot be revoked, or nothing
 * @property {boolean} undoable
 * @property {string | null} [after]
 */
/**
 * The nodes of a row. `revoke` is null while the reader is asked whether to revoke.
 * @typedef {{ node: HTMLTableRowElement, data: Permission, holder: HTMLElement, words: HTMLElement, code: HTMLElement, from: HTMLElement, since: HTMLElement,
 *   drawer: HTMLElement, twist: HTMLElement, may: HTMLButtonElement, cell: HTMLTableCellElement, revoke: HTMLButtonElement | null }} PermissionRow
 */

function render({ adapter, el }) {
  const toolsId = newId();
  const root = make("section", { class: "mew mew-grants", "aria-label": "Permissions" });
  const header = makeHeader({
    title: "Permissions",
    keys: [["Esc", "Close the form, or keep a permission"]],
  });
  const group = make("select", { "aria-label": "Which permissions", onchange: () => narrow() });
  const whose = make("select", { "aria-label": "Whose permissions", onchange: () => narrow() });
  const opener = make("button", {
    class: "mew-new",
    text: "Allow…",
    "aria-expanded": "false",
    onclick: () => toggleForm(),
  });
  header.filter.append(group, whose);
  const supposer = make("button", {
    class: "mew-quiet mew-suppose",
    text: "What if…",
    title: "Which messages would other permissions have allowed or denied?",
    "aria-expanded": "false",
    onclick: () => togglePlayground(),
  });
  header.actions.append(supposer, opener);
  const body = make("tbody");
  const table = makeTable(["Participant", "May", "From", "Since", "Revoke"], body, {
    "aria-label": "Permissions",
  });
  const empty = emptyState("You have granted no permission yet.", {
    action: { text: "Allow…", run: () => toggleForm() },
  });
  const less = make("div", { class: "mew-dim mew-less", hidden: true });
  const place = make("div", { class: "mew-form-place" });
  const scroller = make(
    "div",
    { class: "mew-scroller", role: "region", tabindex: 0, "aria-label": "Table of permissions" },
    table,
  );
  root.append(header.node, place, scroller, empty, less);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root),
    toast = makeToaster(root);

  const permissions = keyedRows(body, {
    keyOf: ({ key }) => key,
    build,
    fill,
    left: (row, focused) => focused && opener.focus(),
  });
  const rows = permissions.rows;
  let head = { space: "", holders: [], total: 0, groups: [] },
    choices = [],
    profiles = [],
    tools = [],
    probes = 0,
    timer = null,
    looked = false;
  /** @type {ReturnType<typeof makeForm> | null} */
  let form = null;
  /** @type {ReturnType<typeof makePlayground> | null} */
  let playground = null;
  const link = connect(adapter, root, {
    from: () => 0,
    items: {
      snapshot(item) {
        choices = item.choices;
        profiles = item.profiles;
        setHead(item);
        permissions.show(item.rows.filter(fits));
        if (whose.value || group.value !== "mine") narrow();
      },
      rows: change,
      head: setHead,
    },
    done: paint,
  });

  function setHead(item) {
    head = item;
    setOptions(whose, [["", "of everybody"], ...item.holders.map(([name, shown]) => [name, `of ${shown}`])]);
    const counts = [
      ...item.groups.filter(([name, n]) => n || name === "mine" || name === group.value),
      ["", item.total],
    ];
    setOptions(
      group,
      counts.map(([name, n]) => [name, `${GROUP_WORDS[name]} (${groupDigits(n)})`]),
      "mine",
    );
    if (form) setOptions(form.to, [["", "participant"], ...item.holders]);
  }

  function fits(data) {
    return (!whose.value || whose.value === data.who) && (!group.value || group.value === data.group);
  }

  // The table.

  function change(item) {
    item.gone.forEach(permissions.drop);
    for (const data of item.rows) {
      const all = !whose.value && !group.value,
        before = rows.get(data.after)?.node;
      if (rows.has(data.key) || (rows.size < PAGE && fits(data)))
        permissions.put(data, before ? before.nextSibling : all ? body.firstChild : null);
    }
  }

  /** @type {(row: PermissionRow) => void} */
  function fill(row) {
    const { data } = row;
    write(row.holder, data.holder);
    row.holder.title = data.who === data.holder ? "" : data.holder;
    write(row.words, data.phrase);
    setAttribute(row.may, "aria-label", `${data.holder} may ${data.phrase}. Pattern as JSON`);
    row.may.title = data.pattern;
    write(row.code, data.pattern);
    row.from.replaceChildren(
      ...(data.origin === "granted"
        ? [
            data.group === "mine"
              ? make("span", { text: "You" })
              : make("bdi", { class: "mew-code", text: data.granter }),
            " ",
            make("bdi", { class: "mew-dim mew-code", text: data.grant, title: data.whole }),
            ...(data.ends ? [make("span", { class: "mew-ends", text: ` ${data.ends}` })] : []),
          ]
        : [make("span", { class: "mew-dim", text: ORIGINS[data.origin] })]),
    );
    write(
      row.since,
      data.since === null ? "" : clockTime(data.since),
      data.since === null ? "" : clockHover(data.since),
    );
    setAttribute(row.node, "data-origin", data.origin);
    setAttribute(row.node, "data-who", data.holder);
    if (row.revoke) {
      setAttribute(row.revoke, "aria-label", `Revoke: ${data.holder} may ${data.phrase}`);
      turnOff(
        row.revoke,
        data.against,
        data.against ||
          (data.grant
            ? "Revokes this permission"
            : "Revokes all that this pattern matches, until the space ends"),
      );
      setAttribute(row.revoke, "aria-description", row.revoke.title);
    }
  }

  /** @type {(data: Permission) => PermissionRow} */
  function build() {
    const id = newId();
    const row = /** @type {PermissionRow} */ ({
      holder: make("bdi", { class: "mew-code" }),
      words: make("bdi"),
      code: make("code", { dir: "ltr" }),
      from: make("td", { class: "mew-from" }),
      since: make("td", { class: "mew-since mew-num" }),
    });
    row.drawer = make("div", { class: "mew-pattern", id, hidden: true }, row.code);
    row.twist = make("span", { class: "mew-twist", "aria-hidden": "true", text: "▸" });
    row.may = make(
      "button",
      {
        class: "mew-may",
        "aria-expanded": "false",
        "aria-controls": id,
        onclick: () => {
          row.drawer.hidden = !row.drawer.hidden;
          setAttribute(row.may, "aria-expanded", String(!row.drawer.hidden));
          write(row.twist, row.drawer.hidden ? "▸" : "▾");
        },
      },
      row.twist,
      row.words,
    );
    row.cell = make("td", { class: "mew-take" });
    row.node = make(
      "tr",
      {},
      make("th", { scope: "row", class: "mew-holder" }, row.holder),
      make("td", { class: "mew-can" }, row.may, row.drawer),
      row.from,
      row.since,
      row.cell,
    );
    offerRevoke(row);
    return row;
  }

  function offerRevoke(row) {
    row.revoke = make("button", {
      text: "Revoke…",
      onclick: () => {
        if (!isOff(row.revoke)) confirm(row);
      },
    });
    row.cell.replaceChildren(row.revoke);
  }

  function confirm(row) {
    const back = () => {
      const focused = atHand(row.cell);
      offerRevoke(row);
      fill(row);
      if (focused) row.revoke.focus();
    };
    const keep = make("button", { text: "Keep", onclick: back });
    const sure = sureDoer(
      "Revoke",
      async () => {
        const { key, undoable } = row.data,
          done = await link.act("revoke", { key });
        if (done) report(done.said, undoable ? () => restore(key) : null);
        if (row.node.isConnected) back();
        else if (atHand(row.node)) opener.focus();
      },
      { class: "mew-danger", "aria-label": `Revoke now: ${row.data.holder} may ${row.data.phrase}` },
    );
    row.revoke = null;
    row.cell.replaceChildren(keep, " ", sure);
    row.cell.onkeydown = (event) => {
      if (event.key !== "Escape" || row.revoke) return;
      event.preventDefault();
      back();
    };
    keep.focus();
  }

  async function narrow() {
    const holder = whose.value,
      chosen = group.value;
    const done = await link.act("of", { holder, group: chosen });
    if (done && holder === whose.value && chosen === group.value) permissions.show(done.value);
    paint();
  }

  async function restore(key) {
    const done = await link.act("restore", { key });
    if (done) report(done.said);
  }

  // Tells what was done; `undo` takes it back.
  function report(text, undo = null) {
    toast(text, undo ? { action: { text: "Undo", run: undo }, seconds: 12 } : {});
  }

  // The form is one sentence. Its choices write the pattern, which "Advanced" shows and lets a person write.

  // The parts of the form. `probed` is the permission whose effect is shown; another one is not sent.
  function makeForm() {
    const to = make("select", { "aria-label": "Who is allowed", onchange: () => probe(0) });
    setOptions(to, [["", "participant"], ...head.holders]);
    const what = make(
      "select",
      { "aria-label": "What is allowed", onchange: () => choose() },
      ...optionsOf(METHOD_WORDS),
      make(
        "optgroup",
        { label: "Other permissions" },
        ...choices.map(([text, phrase, profiles]) =>
          make("option", { value: text, text: `${phrase} (${profiles.join(", ")})`.slice(0, 110) }),
        ),
      ),
      make("option", { value: OWN_PATTERN, text: "a pattern of your own" }),
    );
    const tool = make("input", {
      type: "text",
      maxlength: 200,
      "aria-label": "Tool",
      placeholder: "participant/tool, or any",
      list: toolsId,
      oninput: () => compose(PAUSE),
    });
    const known = make("datalist", { id: toolsId });
    const look = doer("Refresh", lookUp, {
      class: "mew-quiet",
      title: "Asks every participant for its tools",
      "aria-label": "Refresh the list of tools",
    });
    const which = make(
      "select",
      { "aria-label": "Which arguments", onchange: () => compose(0) },
      ...optionsOf([
        ["any", "any arguments"],
        ["only", "these arguments only"],
        ["these", "these arguments and any others"],
      ]),
    );
    const fixed = make("input", {
      type: "text",
      class: "mew-code",
      maxlength: 2000,
      "aria-label": "Arguments as JSON",
      placeholder: '{"repo_path": "."}',
      dir: "ltr",
      spellcheck: "false",
      hidden: true,
      oninput: () => compose(PAUSE),
    });
    const until = make("select", { "aria-label": "For how long" }, ...optionsOf(LIMITS));
    until.value = "u10";
    const text = make("textarea", {
      rows: 3,
      class: "mew-code",
      "aria-label": "Pattern as JSON",
      spellcheck: "false",
      dir: "ltr",
      placeholder:
        '{"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "git_log"}}}',
      oninput: () => {
        what.value = OWN_PATTERN;
        showChoices();
        probe(PAUSE);
      },
    });
    const advanced = make(
      "details",
      { class: "mew-advanced" },
      make("summary", { text: "Advanced" }),
      text,
      make("div", { class: "mew-dim", text: PATTERN_HELP }),
    );
    const answer = make(
      "div",
      { class: "mew-answer" },
      make("span", { class: "mew-dim", text: "Pick a participant and a permission to preview the effect." }),
    );
    const send = doer("Allow", sendGrant, { class: "mew-give mew-primary" });
    turnOff(send, true);
    const tools = make("span", { class: "mew-piece" }, tool, known, look);
    const args = make("span", { class: "mew-piece" }, "with ", which, fixed);
    const box = make(
      "div",
      { class: "mew-ask", role: "group", "aria-label": "Allow" },
      make(
        "div",
        { class: "mew-sentence" },
        make("span", { class: "mew-piece" }, "Allow ", to),
        make("span", { class: "mew-piece" }, " to ", what),
        tools,
        args,
        make("span", { class: "mew-piece" }, " for ", until),
      ),
      answer,
      advanced,
      make(
        "div",
        { class: "mew-line" },
        make("span", { class: "mew-gap" }),
        make("button", { text: "Cancel", onclick: closeForm }),
        send,
      ),
    );
    onEscape(box, closeForm);
    return {
      probed: /** @type {{ to: string, pattern: string } | null} */ (null),
      box,
      to,
      what,
      tool,
      known,
      tools,
      which,
      fixed,
      args,
      until,
      text,
      advanced,
      answer,
      send,
    };
  }

  function togglePlayground() {
    if (playground) return closePlayground();
    if (form) closeForm();
    playground = makePlayground({
      holders: head.holders,
      profiles,
      announce,
      close: closePlayground,
      ask: (supposed) => link.act("suppose", supposed),
      async show(id) {
        if (!(await openIn(root, "feed", { id })))
          link.notice("No list of messages on this page shows this message.", "status");
      },
      grant(to, pattern) {
        closePlayground();
        toggleForm();
        form.to.value = to;
        form.what.value = OWN_PATTERN;
        form.text.value = pattern;
        form.advanced.open = true;
        showChoices();
        probe(0);
      },
    });
    place.replaceChildren(playground.node);
    setAttribute(supposer, "aria-expanded", "true");
    paint();
    playground.focus();
  }

  function closePlayground() {
    if (!playground) return;
    playground.end();
    playground = null;
    const focused = atHand(place);
    place.replaceChildren();
    setAttribute(supposer, "aria-expanded", "false");
    paint();
    if (focused) supposer.focus();
  }

  function toggleForm() {
    if (form) return closeForm();
    closePlayground();
    form = makeForm();
    place.replaceChildren(form.box);
    setTools();
    showChoices();
    compose(0);
    setAttribute(opener, "aria-expanded", "true");
    paint();
    form.to.focus();
    if (!looked) lookUp();
  }

  function closeForm() {
    clearTimeout(timer);
    form = null;
    probes += 1;
    const focused = atHand(place);
    place.replaceChildren();
    setAttribute(opener, "aria-expanded", "false");
    paint();
    if (focused) opener.focus();
  }

  function choose() {
    showChoices();
    if (form.what.value === OWN_PATTERN) {
      form.advanced.open = true;
      form.text.focus();
    } else compose(0);
  }

  // The parts of the sentence that the choice has a place for.
  function showChoices() {
    const calls = form.what.value === "tools/call",
      asks = METHOD_WORDS.some(([method]) => method === form.what.value);
    form.tools.hidden = !asks;
    form.tool.placeholder = calls ? "participant/tool, or any" : "participant/, or any";
    form.args.hidden = !calls;
    form.fixed.hidden = form.which.value === "any";
  }

  function compose(after) {
    showChoices();
    const chosen = form.what.value;
    if (chosen === OWN_PATTERN) return;
    const { pattern, fault } = chosen.startsWith("{")
      ? { pattern: JSON.parse(chosen) }
      : composePattern(
          chosen,
          form.tool.value,
          form.which.value === "any" ? "" : form.fixed.value,
          form.which.value === "only",
        );
    form.text.value = fault ? "" : JSON.stringify(pattern);
    probe(after);
    if (fault) form.answer.replaceChildren(make("div", { class: "mew-no", text: fault }));
  }

  async function lookUp() {
    const done = await link.act("tools", {});
    if (!done) return;
    looked = true;
    tools = done.value;
    if (form) setTools();
    announce(done.said);
  }

  function setTools() {
    form.known.replaceChildren(...optionsOf(suggestTools(tools, head.holders)));
  }

  function probe(after) {
    clearTimeout(timer);
    turnOff(form.send, true);
    form.probed = null;
    probes += 1;
    if (!form.to.value || !form.text.value.trim()) return;
    timer = setTimeout(showProbe, after);
  }

  async function showProbe() {
    const mine = probes,
      to = form.to.value,
      pattern = form.text.value;
    const slow = setTimeout(() => {
      if (mine === probes)
        form.answer.replaceChildren(make("span", { class: "mew-dim", text: "Searching the messages…" }));
    }, 400);
    const done = await link.act("probe", { to, pattern });
    clearTimeout(slow);
    if (mine !== probes || !form || !done) return;
    const probe = done.value,
      parts = [];
    if (probe.fault) parts.push(make("div", { class: "mew-no" }, make("bdi", { text: probe.fault })));
    else {
      parts.push(
        make(
          "div",
          { class: "mew-says" },
          make("bdi", {
            class: "mew-code",
            text: head.holders.find((holder) => holder[0] === to)?.[1] ?? "",
          }),
          " may then ",
          make("bdi", { text: probe.phrase }),
          ".",
        ),
      );
      if (probe.barred) parts.push(make("div", { class: "mew-no" }, make("bdi", { text: probe.barred })));
      for (const text of probe.warnings) parts.push(make("div", { class: "mew-no" }, make("bdi", { text })));
      for (const text of probe.lines) parts.push(make("div", {}, make("bdi", { text })));
      if (probe.examples.length)
        parts.push(
          make(
            "ul",
            { "aria-label": "Examples" },
            ...probe.examples.map(([at, kind, names, what]) =>
              make(
                "li",
                {},
                make("span", { class: "mew-dim", text: `${clockTime(at)} `, title: clockHover(at) }),
                make("bdi", { class: "mew-code", text: kind }),
                " to ",
                make("bdi", { class: "mew-code", text: names || "everybody" }),
                " ",
                make("bdi", { text: what }),
              ),
            ),
          ),
        );
      if (probe.smallest)
        parts.push(
          make(
            "div",
            {},
            "The smallest message that would newly be allowed: ",
            make("code", { dir: "ltr", text: probe.smallest }),
          ),
        );
      else if (probe.adds)
        parts.push(
          make("div", { class: "mew-dim", text: "No message was found that would newly be allowed." }),
        );
      announce([probe.barred, ...probe.lines].filter(Boolean).join(" "));
    }
    form.answer.replaceChildren(...parts);
    form.probed = probe.fault || probe.barred ? null : { to, pattern };
    turnOff(form.send, !form.probed, probe.barred ?? "");
  }

  async function sendGrant() {
    const chosen = form.probed;
    if (!chosen) return;
    const done = await link.act("grant", { ...chosen, ...readLimit(form.until.value) });
    if (!done) return;
    report(done.said, async () => {
      const undone = await link.act("revoke", { key: done.value.key });
      if (undone) report(undone.said);
    });
    if (form) closeForm();
  }

  function paint() {
    const mine = head.groups.find(([name]) => name === "mine")?.[1] ?? 0;
    header.setCounts([
      { text: head.space },
      { text: countOf(head.total, "permission"), hover: `${groupDigits(mine)} granted by you` },
    ]);
    empty.hidden = rows.size > 0 || group.value !== "mine" || form !== null || playground !== null;
    table.hidden = !rows.size;
    const shown = whose.value
      ? rows.size
      : group.value
        ? (head.groups.find(([name]) => name === group.value)?.[1] ?? 0)
        : head.total;
    less.hidden = rows.size >= shown;
    write(
      less,
      `${groupDigits(shown - rows.size)} more are not shown. Choose one participant to see its permissions.`,
    );
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
    playground?.end();
    link.end();
  };
}

export default { render };
