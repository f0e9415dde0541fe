// One branch for each sequence, in order of arrival, with its steps below it. A sequence that has ended and was in sight
// folds when the next one begins; nothing else moves by itself.

import { cancelButton } from "../ui/cancel.js";
import { connect } from "../ui/connection.js";
import {
  activeOf,
  announcer,
  holdsFocus,
  keepKeys,
  make,
  newId,
  placeByKey,
  setAttribute,
  ticker,
  write,
} from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { family } from "../ui/families.js";
import { follower } from "../ui/follower.js";
import { makeHeader } from "../ui/header.js";
import { markText, wordsOf } from "../ui/mark.js";
import { onOpen, openIn } from "../ui/links.js";
import { whyForm } from "../ui/reason_form.js";
import { clockHover, clockTime, countOf, groupDigits, timeSpan } from "../ui/text.js";
import { durationBar, stepSpan } from "./bars.js";

const SEEN_AFTER = 4;
const STATES = {
  proposed: ["●", "waiting for approval"],
  waiting: ["●", "running"],
  answered: ["✓", "answered"],
  failed: ["✕", "failed"],
  unknown: ["?", "not known whether it took effect"],
  resolved: ["✓", "resolved by a person"],
  rejected: ["✕", "rejected"],
  withdrawn: ["–", "withdrawn"],
  refused: ["✕", "refused"],
};
const PLAN = { "✓": "done", "✗": "failed", "◌": "not done" };
const ENDS = {
  active: ["●", "active"],
  concluded: ["✓", "concluded"],
  cancelled: ["✕", "cancelled"],
  left: ["–", "ended: its participant left"],
};
const SEARCHES_AFTER = 200;
const KEYS = [
  ["↑ ↓ Home End", "Move"],
  ["← →", "Collapse, expand"],
  ["Enter", "Collapse, expand, or show all of a text"],
  ["Tab", "To the buttons of the line"],
  ["M", "Show the message in Messages"],
  ["C", "Show the card of a proposal in Approvals"],
  ["/", "Search"],
  ["Enter / Shift+Enter", "Next and previous hit, in the search"],
];

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-reasoning", "aria-label": "Reasoning" });
  const header = makeHeader({ title: "Reasoning", keys: KEYS });
  const follow = make("button", { class: "mew-follow", hidden: true });
  const lost = make("div", { class: "mew-dim mew-lost", hidden: true });
  const empty = emptyState("Nothing yet. The steps of an agent appear here while it works. Ask one:", {
    code: 'lab.ask("helper", "…")',
  });
  const tree = make("div", {
    class: "mew-tree",
    role: "tree",
    "aria-label": "Sequences of reasoning",
    hidden: true,
  });
  const scroller = make("div", { class: "mew-thoughts" }, lost, empty, tree);
  const search = make("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": "Search reasoning",
    autocomplete: "off",
    spellcheck: "false",
  });
  const hitCount = make("span", { class: "mew-num mew-hit-count", role: "status" });
  const previous = make("button", {
    class: "mew-quiet",
    text: "‹",
    title: "Previous hit (Shift+Enter)",
    "aria-label": "Previous hit",
    hidden: true,
    onclick: () => goToHit(-1),
  });
  const next = make("button", {
    class: "mew-quiet",
    text: "›",
    title: "Next hit (Enter)",
    "aria-label": "Next hit",
    hidden: true,
    onclick: () => goToHit(1),
  });
  const expandAll = make("button", { class: "mew-quiet", text: "Expand all", onclick: () => foldAll(true) });
  const collapseAll = make("button", {
    class: "mew-quiet",
    text: "Collapse all",
    onclick: () => foldAll(false),
  });
  header.filter.append(search, hitCount, previous, next);
  header.actions.append(follow, expandAll, collapseAll);
  root.append(header.node, scroller);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);
  const tail = follower(scroller, follow);
  const branches = new Map();
  /** @type {Map<string, import("../ui/cancel.js").RunningData>} */
  const running = new Map(); // by the ids under which the steps have them
  let reasons = [],
    here = null,
    forgotten = 0;
  let hits = [],
    hitAt = -1,
    hitWords = [],
    hitNode = null,
    searching = null,
    searches = 0;

  const link = connect(adapter, root, {
    rests: true,
    from: () => 0,
    items: {
      snapshot(item) {
        reasons = item.reasons;
        const held = new Set(item.sequences.map((sequence) => sequence.key));
        setSequences(
          item.sequences,
          [...branches.keys()].filter((key) => !held.has(key)),
          item.forgotten,
          true,
        );
        setRunning(item.running);
        setSteps(item.steps);
        item.streams.forEach(setStream);
      },
      sequences: ({ sequences, gone, forgotten }) => setSequences(sequences, gone, forgotten, false),
      steps: ({ steps }) => setSteps(steps),
      running: ({ calls }) => setRunning(calls),
      streams: ({ streams }) => streams.forEach(setStream),
    },
    done: tidy,
  });

  const tickOften = ticker(tick, 500);
  const isActive = (branch) => branch.data.state === "active";

  // A line of the tree: its row is its accessible name, and the lines below it are its group.
  function makeItem(level, css) {
    const id = newId();
    const row = make("div", { class: "mew-row", id });
    const node = make(
      "div",
      {
        class: `mew-item ${css}`,
        role: "treeitem",
        "aria-level": level,
        "aria-labelledby": id,
        tabindex: -1,
      },
      row,
    );
    node.style.setProperty("--mew-level", String(level));
    return { node, row };
  }

  function makeParent(node, open) {
    const group = make("div", { role: "group", class: "mew-group" });
    const twist = make("span", { class: "mew-twist", "aria-hidden": "true", text: open ? "▾" : "▸" });
    node.append(group);
    node.setAttribute("aria-expanded", String(open));
    group.hidden = !open;
    return { group, twist };
  }

  function expand(node, open) {
    const group = node.querySelector(":scope > .mew-group");
    if (!group) return;
    node.setAttribute("aria-expanded", String(open));
    group.hidden = !open;
    node.querySelector(":scope > .mew-row .mew-twist").textContent = open ? "▾" : "▸";
    const branch = [...branches.values()].find((branch) => branch.node === node);
    if (open && branch) complete(branch);
    if (open && branch?.stale) showBars(branch);
    if (!open && here && node.contains(here) && here !== node) focusOn(node, false);
  }

  function setSequences(changed, dropped, count, first) {
    forgotten = count;
    const keys = new Set(dropped);
    for (const key of dropped) forget(key, keys);
    if (!first && changed.some((item) => !branches.has(item.key))) foldSeen();
    for (const item of changed) {
      const branch = branches.get(item.key);
      if (!branch) {
        begin(item, first);
        if (!first) {
          tail.arrived(1);
          announce(`${item.owner} begins to reason: ${item.text.slice(0, 120)}`);
        }
      } else {
        const was = branch.data;
        branch.data = item;
        if (was.state === "active" && item.state !== "active")
          announce(`The reasoning of ${item.owner}: ${describeEnd(item)}`);
      }
    }
    for (const item of changed) paint(branches.get(item.key));
  }

  // A sequence within a forgotten one may still be active: it moves to the place of the forgotten one.
  function forget(key, dropped) {
    const branch = branches.get(key);
    if (!branch) return;
    branches.delete(key);
    for (const other of branch.group.querySelector(".mew-sequence") ? branches.values() : []) {
      const above = other.node.parentNode.closest(".mew-sequence");
      if (above !== branch.node || dropped.has(other.data.key)) continue;
      const less =
        Number(other.node.getAttribute("aria-level")) - Number(branch.node.getAttribute("aria-level"));
      for (const node of [other.node, ...other.node.querySelectorAll('[role="treeitem"]')]) {
        const level = Number(node.getAttribute("aria-level")) - less;
        node.setAttribute("aria-level", String(level));
        node.style.setProperty("--mew-level", String(level));
      }
      const focused = holdsFocus(other.node) ? activeOf(root) : null;
      branch.node.before(other.node);
      if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
    }
    branch.node.remove();
  }

  function begin(sequence, first) {
    const above = branches.get(sequence.parent);
    const level = above ? Number(above.node.getAttribute("aria-level")) + 1 : 1;
    const { node, row } = makeItem(level, "mew-sequence");
    const branch = {
      data: sequence,
      node,
      row,
      steps: new Map(),
      groups: new Map(),
      missing: false,
      cancel: null,
    };
    branch.sign = make("span", { class: "mew-sign", "aria-hidden": "true" });
    branch.owner = make("bdi", { class: "mew-who", dir: "ltr", text: sequence.owner });
    branch.text = make("bdi", {
      class: "mew-what",
      dir: "ltr",
      text: sequence.text || "its start was not received",
    });
    branch.facts = make("span", { class: "mew-facts" });
    branch.time = make("span", {
      class: "mew-time mew-num",
      title: `Started ${clockTime(sequence.started)} · ${clockHover(sequence.started)} · context ${sequence.id}`,
    });
    branch.bar = makeBar();
    const { group, twist } = makeParent(node, !first || sequence.state === "active");
    branch.group = group;
    branch.dropped = make("div", { class: "mew-dim mew-note", hidden: true });
    branch.mirror = make("div", { class: "mew-mirror", hidden: true });
    group.append(branch.dropped);
    row.append(twist, branch.sign, branch.owner, branch.text, branch.facts, branch.bar.node, branch.time);
    if (sequence.more) row.append(wholeButton(branch, 0, row));
    if (sequence.message) row.append(make("span", { class: "mew-jumps" }, messageButton(sequence.message)));
    node.append(branch.mirror);
    branches.set(sequence.key, branch);
    if (above) insertInPlace(groupOf(above, sequence.path, sequence.place), node, sequence.place);
    else tree.append(node);
    if (!here) focusOn(node, false);
  }

  function describeEnd(sequence) {
    const by = sequence.by ? ` by ${sequence.by}` : "";
    return `${ENDS[sequence.state][1]}${by}${sequence.reason ? ` (${sequence.reason})` : ""}`;
  }

  function paint(branch) {
    if (!branch) return;
    const sequence = branch.data,
      active = isActive(branch);
    write(branch.sign, ENDS[sequence.state][0]);
    branch.node.className = `mew-item mew-sequence mew-state-${sequence.state}`;
    const facts = [
      active ? "" : describeEnd(sequence),
      countOf(sequence.thoughts, "thought"),
      sequence.calls ? countOf(sequence.calls, "call") : "",
      sequence.open ? `${sequence.open} waiting` : "",
      sequence.tokens === null ? "" : countOf(sequence.tokens, "token"),
    ];
    write(branch.facts, facts.filter(Boolean).join(" · "));
    showElapsed(branch);
    branch.stale = true;
    branch.dropped.hidden = sequence.dropped === 0;
    write(
      branch.dropped,
      `${countOf(sequence.dropped, "earlier step")} ${sequence.dropped === 1 ? "is" : "are"} no longer held in this view; lab.log.df has them.`,
    );
    for (const [n, step] of branch.steps) {
      if (n > sequence.dropped) break;
      if (!step.data.child && !step.data.into) step.node.remove();
      branch.steps.delete(n);
    }
    if (sequence.may && !branch.cancel) {
      branch.cancel = make("button", {
        class: "mew-stop",
        text: "Cancel…",
        tabindex: branch.node === here ? 0 : -1,
        "aria-label": `Cancel the reasoning of ${sequence.owner}`,
        "aria-expanded": "false",
        onclick: (event) => {
          event.stopPropagation();
          whyForm(
            branch.cancel,
            (branch.form ??= branch.node.insertBefore(
              make("div", { class: "mew-cancel-form", tabindex: -1 }),
              branch.group,
            )),
            reasons,
            "Cancel the reasoning",
            async (reason) => {
              const done = await link.act("cancel", { key: sequence.key, reason });
              if (done) announce(done.said);
              return Boolean(done);
            },
          );
        },
      });
      branch.row.append(branch.cancel);
    } else if (!sequence.may && branch.cancel) {
      const focused = [branch.cancel, branch.form].some((node) => holdsFocus(node));
      branch.cancel.remove();
      branch.form?.remove();
      branch.cancel = branch.form = null;
      if (focused) focusOn(branch.node);
    }
    if (branch.data.stream) showMirror(branch);
    if (open(branch.node) && held(branch) < sequence.steps - sequence.dropped) complete(branch);
  }

  function showElapsed(branch) {
    const { data: sequence } = branch;
    const ended = sequence.ended ?? link.now();
    write(branch.time, timeSpan(ended - sequence.started));
    const above = branches.get(sequence.parent)?.data;
    branch.bar.show(
      sequence.started,
      ended,
      above?.started ?? sequence.started,
      above ? (above.ended ?? link.now()) : ended,
    );
  }

  function makeBar() {
    const fill = make("span", { class: "mew-bar-fill" });
    const node = make("span", { class: "mew-bar", "aria-hidden": "true" }, fill);
    let drawn = "",
      told = "";
    return {
      node,
      show(start, end, from, to) {
        const { left, width } = durationBar(start, end, from, to);
        const place = `left: ${left.toFixed(1)}%; width: ${width.toFixed(1)}%`,
          time = timeSpan(end - start);
        if (place !== drawn) fill.style.cssText = drawn = place;
        if (time !== told) node.title = told = time;
      },
    };
  }

  function showBars(branch) {
    branch.stale = false;
    const from = branch.data.started,
      ended = branch.data.ended ?? link.now();
    let before = null;
    for (const step of branch.steps.values()) {
      if (step.bar) {
        const { start, end } = stepSpan(step.data, before, from, Math.min(link.now(), ended));
        step.bar.show(start, end, from, ended);
      }
      before = step.data.t;
    }
  }

  function messageButton(id) {
    return make("button", {
      class: "mew-quiet mew-jump",
      tabindex: -1,
      text: "Message",
      title: "Show this message in Messages (M)",
      onclick: (event) => {
        event.stopPropagation();
        jump("feed", id, "messages");
      },
    });
  }

  async function jump(part, id, name) {
    if (!(await openIn(root, part, { id })))
      announce(`No view of the ${name} in this page has it. %mew ${part} shows one.`);
  }

  const open = (node) => node.getAttribute("aria-expanded") === "true";
  const held = (branch) => branch.steps.size;

  // Requests the steps that were lost, or were not sent because the branch was folded.
  function complete(branch) {
    if (branch.asking || held(branch) >= branch.data.steps - branch.data.dropped) return;
    branch.asking = setTimeout(async () => {
      let after = branch.data.dropped;
      while (branch.steps.has(after + 1)) after += 1;
      const before = held(branch);
      const done =
        after < branch.data.steps && root.isConnected
          ? await link.act("steps", { key: branch.data.key, after })
          : null;
      branch.asking = null;
      if (!done) return;
      setSteps(done.value.steps);
      tidy();
      if (held(branch) > before) complete(branch);
    }, 300);
  }

  function setSteps(changed) {
    let other = 0;
    for (const item of changed) {
      const branch = branches.get(item.key);
      if (!branch || item.n <= branch.data.dropped) continue;
      const step = branch.steps.get(item.n);
      if (step) step.data = item;
      else if (!item.child && !item.into) {
        add(branch, item);
        other += 1;
      } else branch.steps.set(item.n, { data: item, node: branches.get(item.child)?.node ?? make("div") });
      const drawn = branch.steps.get(item.n);
      if (item.work && drawn.what) showWork(drawn);
      if (item.call) showState(drawn);
      branch.stale = true;
    }
    tail.arrived(other);
  }

  // The calls that run: the step of one has a button that cancels it, where this person may.
  function setRunning(calls) {
    const before = new Map(running);
    running.clear();
    for (const call of calls) if (call.cancel) for (const id of call.calls) running.set(id, call);
    for (const branch of branches.values())
      for (const step of branch.steps.values()) {
        const id = step.data.call?.id;
        if (step.told && before.get(id)?.id !== running.get(id)?.id) showState(step);
      }
  }

  function add(branch, data) {
    const group = groupOf(branch, data.path, data.n);
    const level = Number(group.parentNode.getAttribute("aria-level")) + 1;
    const { name: kindFamily } = family(data.kind);
    const short = data.kind.split("/").at(-1);
    const { node, row } = makeItem(
      level,
      `mew-step mew-is-${kindFamily} mew-kind-${/^[a-z-]+$/.test(short) ? short : "other"}`,
    );
    row.append(make("span", { class: "mew-dot", "aria-hidden": "true", title: data.kind }));
    if (data.kind !== "reasoning/thought") row.append(make("span", { class: "mew-word", text: short }));
    if (data.from !== branch.data.owner)
      row.append(make("bdi", { class: "mew-who", dir: "ltr", text: data.from }));
    if (data.to.length)
      row.append("to ", make("bdi", { class: "mew-code mew-whom", dir: "ltr", text: data.to.join(", ") }));
    const what = make("bdi", {
      class: `mew-what${data.call ? " mew-code" : ""}`,
      dir: "ltr",
      text: data.text,
    });
    row.append(what);
    const step = { data, node, row, branch, what };
    if (data.call) step.told = row.appendChild(make("span", { class: "mew-told" }));
    if (data.more) row.append(wholeButton(branch, data.n, row));
    const cost = [
      data.tokens === null ? "" : countOf(data.tokens, "token"),
      data.took === null ? "" : timeSpan(data.took),
    ]
      .filter(Boolean)
      .join(" · ");
    if (cost)
      row.append(
        make("span", { class: "mew-cost mew-num", title: "As its participant reports it", text: cost }),
      );
    step.bar = makeBar();
    row.append(
      step.bar.node,
      make("span", {
        class: "mew-time mew-num",
        title: `${clockTime(data.t)} · ${clockHover(data.t)}`,
        text: `+${timeSpan(data.t - branch.data.started)}`,
      }),
    );
    const jumps = make("span", { class: "mew-jumps" });
    if (data.id) row.append(jumps);
    if (data.id) jumps.append(messageButton(data.id));
    if (data.kind === "mcp/proposal" && data.id)
      jumps.append(
        make("button", {
          class: "mew-quiet mew-jump",
          tabindex: -1,
          text: "Card",
          title: "Show its card in Approvals (C)",
          onclick: (event) => {
            event.stopPropagation();
            jump("approvals", data.id, "cards");
          },
        }),
      );
    branch.stale = true;
    branch.steps.set(data.n, step);
    insertInPlace(group, node, data.n);
    if (branch.steps.size > 1) sortSteps(branch);
  }

  // Inserts a line by its number: a requested page fills the gap before the lines that are there.
  function insertInPlace(group, node, n) {
    node.dataset.n = n;
    const newest = Number(group.lastElementChild?.dataset.n ?? 0);
    const later = newest < n ? null : [...group.children].find((child) => Number(child.dataset.n ?? 0) > n);
    group.insertBefore(node, later ?? null);
  }

  function sortSteps(branch) {
    const numbers = [...branch.steps.keys()];
    if (numbers.at(-1) < numbers.at(-2)) branch.steps = new Map([...branch.steps].sort(([a], [b]) => a - b));
  }

  // The group of a part of the sequence; each part of the path has its own branch.
  function groupOf(branch, path, n) {
    let group = branch.group,
      at = "";
    for (const part of path) {
      at += `/${part}`;
      let entry = branch.groups.get(at);
      if (!entry) {
        const { node, row } = makeItem(Number(group.parentNode.getAttribute("aria-level")) + 1, "mew-part");
        const made = makeParent(node, true);
        row.append(
          made.twist,
          make("span", { class: "mew-dim", text: "in " }),
          make("bdi", { class: "mew-code", dir: "ltr", text: part }),
        );
        insertInPlace(group, node, n);
        branch.groups.set(at, made.group);
        entry = made.group;
      }
      group = entry;
    }
    return group;
  }

  // What a coding agent does: a tool call with the sign of its state, its plan as a list that ticks, or a warning.
  function showWork(step) {
    const { work, text } = step.data;
    const shown = work.text || text;
    if (step.what.textContent !== shown) write(step.what, shown);
    if (work.sign) {
      step.sign ??= step.row.insertBefore(make("span", { class: "mew-work", role: "img" }), step.what);
      step.sign.dataset.state = work.state;
      setAttribute(step.sign, "aria-label", work.state);
      write(step.sign, work.sign, work.state);
    }
    if (work.decision) {
      step.decision ??= step.row.insertBefore(
        make("bdi", { class: "mew-dim", dir: "ltr" }),
        step.what.nextSibling,
      );
      write(step.decision, work.decision);
    }
    if (work.warning && (work.sign || work.entries.length)) {
      step.warning ??= step.row.insertBefore(make("span", { class: "mew-unasked" }), step.what.nextSibling);
      write(step.warning, work.warning);
    }
    step.row.classList.toggle("mew-warns", Boolean(work.warning));
    if (work.entries.length) {
      step.plan ??= step.row.appendChild(make("ul", { class: "mew-plan" }));
      const left = work.left
        ? [make("li", { class: "mew-dim", text: `and ${countOf(work.left, "more entry")}` })]
        : [];
      step.plan.replaceChildren(
        ...work.entries.map(([sign, line]) =>
          make(
            "li",
            { "data-done": sign === "✓" },
            make("span", { class: "mew-work", role: "img", "aria-label": PLAN[sign], text: sign }),
            make("bdi", { dir: "ltr", text: line }),
          ),
        ),
        ...left,
      );
    }
  }

  function showState(step) {
    const { data } = step,
      call = data.call;
    const [sign, label] = STATES[call.state] ?? ["•", call.state];
    const by = call.by
      ? call.state === "rejected" || call.state === "refused"
        ? ` by ${call.by}`
        : ` · approved by ${call.by}`
      : "";
    const waits = call.ended === null;
    step.node.classList.toggle("mew-waits", waits);
    step.node.dataset.state = call.state;
    const state = make(
      "span",
      { class: `mew-fate mew-fate-${call.state}` },
      make("span", { "aria-hidden": "true", text: `${sign} ` }),
      label,
    );
    step.since = make("span", { class: "mew-num" });
    // The line of the step takes over the focus of a button that goes.
    if (holdsFocus(step.told)) focusOn(step.node);
    step.told.replaceChildren(state, " ", step.since, make("bdi", { dir: "ltr", text: by }));
    const runs = running.get(call.id);
    if (waits && runs) step.told.append(" ", stopButton(runs, step.node));
    if (call.result)
      step.told.append(make("bdi", { class: "mew-result", dir: "ltr", text: `: ${call.result}` }));
    for (const claim of call.claims)
      step.told.append(make("bdi", { class: "mew-claim", dir: "ltr", text: ` · without effect: ${claim}` }));
    write(step.since, waits ? `for ${timeSpan(link.now() - data.t)}` : `in ${timeSpan(call.ended - data.t)}`);
  }

  function stopButton(call, node) {
    const button = cancelButton(link, call, announce, { tabindex: node === here ? 0 : -1 });
    button.addEventListener("click", (event) => event.stopPropagation());
    return button;
  }

  function wholeButton(branch, n, row) {
    const button = make("button", {
      class: "mew-link mew-all",
      text: "▸ all",
      tabindex: -1,
      "aria-expanded": "false",
      "aria-label": "Show all of it",
      onclick: async (event) => {
        event.stopPropagation();
        const shown = row.parentNode.querySelector(":scope > .mew-whole");
        if (shown) {
          shown.remove();
          button.setAttribute("aria-expanded", "false");
          write(button, "▸ all");
          return;
        }
        const done = await link.act("whole", { key: branch.data.key, n });
        if (!done || row.parentNode.querySelector(":scope > .mew-whole")) return;
        row.after(
          make("pre", {
            class: "mew-whole mew-code",
            dir: "ltr",
            tabindex: 0,
            "aria-label": "All of it",
            text: done.value.text,
          }),
        );
        button.setAttribute("aria-expanded", "true");
        write(button, "▾ all");
        tail.hold();
      },
    });
    return button;
  }

  // --- the stream beside a sequence ---

  function showMirror(branch) {
    const { data: sequence, mirror } = branch;
    if (!branch.said) {
      branch.said = make("div", { class: "mew-live", dir: "ltr" });
      branch.saying = make("span");
      const all = make("button", {
        class: "mew-link mew-all",
        text: "▸ all",
        tabindex: -1,
        "aria-expanded": "false",
        "aria-label": "Show all held text of the stream",
        onclick: async () => {
          const done = branch.opened ? null : await link.act("stream", { key: sequence.key });
          if (!done && !branch.opened) return;
          branch.opened = !branch.opened;
          write(branch.said, branch.opened ? done.value.text : branch.latest);
          branch.said.classList.toggle("mew-opened", branch.opened);
          write(all, branch.opened ? "▾ newest" : "▸ all");
          all.setAttribute("aria-expanded", String(branch.opened));
          tail.hold();
        },
      });
      mirror.append(make("div", { class: "mew-row mew-dim" }, branch.saying, all), branch.said);
    }
    write(
      branch.saying,
      `${sequence.streaming ? "● live" : "ended"} on ${sequence.stream}${branch.total ? ` · ${countOf(branch.total, "character")}` : ""}`,
    );
    mirror.hidden = !branch.total || !open(branch.node);
  }

  function setStream(item) {
    const branch = branches.get(item.key);
    if (!branch) return;
    branch.total = item.total;
    branch.latest = item.text;
    showMirror(branch);
    if (!branch.opened) write(branch.said, item.text);
  }

  // --- changes without a press: folding, times ---

  function foldSeen() {
    for (const branch of branches.values()) {
      if (isActive(branch) || !branch.seen || branch.byHand || !open(branch.node)) continue;
      // Checked last, because it needs the layout of the page.
      const busy = holdsFocus(branch.node) || branch.node.matches(":hover");
      if (!busy) expand(branch.node, false);
    }
  }

  function tick() {
    if (!scroller.clientHeight) return;
    const view = scroller.getBoundingClientRect();
    const isInSight = (branch) => {
      const box = branch.node.getBoundingClientRect();
      return box.bottom > view.top && box.top < view.bottom;
    };
    // The layout is read before anything changes, for the page lays itself out at each reading after a change.
    const growing = [...branches.values()].filter(
      (branch) => isActive(branch) && branch.steps.size && open(branch.node) && isInSight(branch),
    );
    for (const branch of branches.values()) {
      if (
        !isActive(branch) &&
        !branch.seen &&
        !document.hidden &&
        link.now() - branch.data.ended > SEEN_AFTER
      )
        branch.seen = isInSight(branch);
    }
    // While a sequence is active, all of its bars shrink with its time.
    for (const branch of growing) showBars(branch);
    for (const branch of branches.values()) {
      if (isActive(branch)) showElapsed(branch);
      if (branch.data.open)
        for (const step of branch.steps.values())
          if (step.data.call?.ended === null) write(step.since, `for ${timeSpan(link.now() - step.data.t)}`);
    }
  }

  function tidy() {
    const all = [...branches.values()],
      active = all.filter(isActive);
    empty.hidden = all.length > 0;
    tree.hidden = all.length === 0;
    lost.hidden = forgotten === 0;
    write(
      lost,
      `${groupDigits(forgotten)} earlier sequences are no longer held in this view; lab.log.df has them.`,
    );
    const waiting = all.reduce((sum, branch) => sum + branch.data.open, 0),
      tokens = all.reduce((sum, branch) => sum + (branch.data.tokens ?? 0), 0);
    header.setCounts([
      { text: `${groupDigits(active.length)} active` },
      { text: `${groupDigits(all.length - active.length)} ended` },
      {
        text: waiting ? `${groupDigits(waiting)} waiting` : "",
        hover: "Calls without a decision or an answer",
        tone: "wait",
      },
      { text: tokens ? countOf(tokens, "token") : "", hover: "As the participants report them" },
    ]);
    for (const button of [expandAll, collapseAll]) button.hidden = !all.length;
    for (const branch of all) if (branch.stale && open(branch.node)) showBars(branch);
    root.dataset.active = String(active.length);
    root.dataset.steps = String(all.reduce((sum, branch) => sum + branch.steps.size, 0));
    for (const branch of all)
      if (branch.mirror.hidden === open(branch.node) && branch.total)
        branch.mirror.hidden = !open(branch.node);
    if (here && !here.isConnected) here = null;
    if (!here && all.length) focusOn(all.at(-1).node, false);
    tail.settle();
    tickOften(true);
  }

  // --- all at once, the search, and links from other parts ---

  function foldAll(wanted) {
    for (const branch of branches.values()) {
      branch.byHand = true;
      if (open(branch.node) !== wanted) expand(branch.node, wanted);
      if (wanted)
        for (const node of branch.group.querySelectorAll(":scope .mew-part"))
          if (!open(node)) expand(node, true);
    }
    tidy();
    tail.hold();
  }

  search.addEventListener("input", () => {
    clearTimeout(searching);
    searching = setTimeout(runSearch, SEARCHES_AFTER);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      if (hits.length && hitWords.join(" ") === wordsOf(search.value).join(" "))
        goToHit(event.shiftKey ? -1 : 1);
      else {
        clearTimeout(searching);
        runSearch();
      }
    } else if (event.key === "Escape" && search.value) {
      event.preventDefault();
      search.value = "";
      runSearch();
    }
  });

  async function runSearch() {
    searches += 1;
    const mine = searches,
      query = search.value;
    hitWords = wordsOf(query);
    const done = hitWords.length ? await link.act("search", { query }) : { value: { hits: [] } };
    if (!done || mine !== searches) return;
    hits = done.value.hits;
    hitAt = -1;
    for (const button of [previous, next]) button.hidden = !hits.length;
    write(hitCount, hitWords.length ? `${groupDigits(hits.length)} found` : "");
    if (hits.length) goToHit(1);
    else unmarkHit();
  }

  async function goToHit(by) {
    if (!hits.length) return;
    hitAt = (hitAt + by + hits.length) % hits.length;
    const at = hitAt,
      mine = searches;
    write(hitCount, `${groupDigits(at + 1)} of ${groupDigits(hits.length)}`);
    const node = await uncover(...hits[at]);
    if (node && mine === searches && at === hitAt) markHit(node);
  }

  function unmarkHit() {
    hitNode?.classList.remove("mew-hit");
    const text = hitNode?.querySelector(":scope > .mew-row > .mew-what");
    if (text) text.textContent = text.textContent.slice();
    hitNode = null;
  }

  function markHit(node) {
    unmarkHit();
    hitNode = node;
    node.classList.add("mew-hit");
    const text = node.querySelector(":scope > .mew-row > .mew-what");
    if (text) markText(text, text.textContent, hitWords);
    node.querySelector(":scope > .mew-row").scrollIntoView({ block: "nearest" });
    tail.hold();
  }

  // Opens all above the step `n` of a sequence, 0 for its start, and returns its line; null where it is no longer held.
  async function uncover(key, n) {
    const branch = branches.get(key);
    if (!branch) return null;
    if (n) {
      branch.byHand = true;
      expand(branch.node, true);
      for (let tries = 0; !branch.steps.has(n) && tries < 10; tries += 1) {
        let after = branch.data.dropped;
        while (branch.steps.has(after + 1)) after += 1;
        if (after >= n) break;
        const done = await link.act("steps", { key, after: Math.max(after, n - 100) });
        if (!done?.value.steps.length) break;
        setSteps(done.value.steps);
      }
      tidy();
    }
    const node = n ? branch.steps.get(n)?.node : branch.node;
    if (!node?.isConnected) return null;
    for (
      let above = node.parentNode.closest('[role="treeitem"]');
      above;
      above = above.parentNode.closest('[role="treeitem"]')
    )
      if (!open(above)) expand(above, true);
    return node;
  }

  const endLinks = onOpen(root, "reasoning", async ({ context = "", id = "" }) => {
    const done = await link.act("locate", { context, id });
    if (!done?.value) return false;
    const node = await uncover(...done.value);
    if (!node) return false;
    hitWords = [];
    markHit(node);
    focusOn(node);
    return true;
  });

  // --- the keyboard: one stop in the tree, arrows within it, Tab to the buttons of the line ---

  function focusOn(node, really = true) {
    if (here) {
      here.tabIndex = -1;
      for (const button of buttonsOf(here)) button.tabIndex = -1;
    }
    here = node;
    node.tabIndex = 0;
    for (const button of buttonsOf(node)) button.tabIndex = 0;
    if (really) node.focus({ preventScroll: true });
    if (really) node.querySelector(":scope > .mew-row").scrollIntoView({ block: "nearest" });
  }

  function buttonsOf(node) {
    return node.querySelectorAll(
      ":scope > .mew-row > button, :scope > .mew-row > :is(.mew-jumps, .mew-told) > button, :scope > .mew-mirror button",
    );
  }

  function visibleItems() {
    return [...tree.querySelectorAll('[role="treeitem"]')].filter((node) => node.getClientRects().length);
  }

  tree.addEventListener("click", (event) => {
    const row = event.target.closest(".mew-row");
    const node = row?.closest('[role="treeitem"]');
    if (!node || row.parentNode !== node || event.target.closest("button")) return;
    if (!getSelection().isCollapsed) return;
    focusOn(node);
    toggle(node);
  });

  function toggle(node) {
    if (!node.hasAttribute("aria-expanded")) return;
    expand(node, !open(node));
    const branch = [...branches.values()].find((branch) => branch.node === node);
    if (branch) branch.byHand = true;
    tidy();
    tail.hold();
  }

  tree.addEventListener("focusin", (event) => {
    const node = event.target.closest('[role="treeitem"]');
    if (node && node !== here) focusOn(node, false);
  });

  tree.addEventListener("keydown", (event) => {
    const node = event.target;
    if (event.key === "Escape" && node.closest("button, pre")) {
      event.preventDefault();
      return focusOn(node.closest('[role="treeitem"]'));
    }
    if (node.getAttribute("role") !== "treeitem" || event.ctrlKey || event.metaKey || event.altKey) return;
    const links = { m: "Message", c: "Card" }[event.key.toLowerCase()];
    if (links) {
      [...node.querySelectorAll(":scope > .mew-row > .mew-jumps > button")]
        .find((button) => button.textContent === links)
        ?.click();
      return event.preventDefault();
    }
    if (event.key === "/") {
      search.focus();
      return event.preventDefault();
    }
    const all = visibleItems(),
      at = all.indexOf(node),
      to = placeByKey(event, at, all.length),
      isParent = node.hasAttribute("aria-expanded");
    const above = node.parentNode.closest('[role="treeitem"]');
    if (to !== undefined) focusOn(all[to] ?? node);
    else if (event.key === "ArrowRight" && isParent && !open(node)) toggle(node);
    else if (event.key === "ArrowRight" && isParent) focusOn(all[at + 1] ?? node);
    else if (event.key === "ArrowLeft" && isParent && open(node)) toggle(node);
    else if (event.key === "ArrowLeft" && above) focusOn(above);
    else if ((event.key === "Enter" || event.key === " ") && isParent) toggle(node);
    else if (event.key === "Enter") node.querySelector(":scope > .mew-row > .mew-all")?.click();
    else if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    event.preventDefault();
  });

  return () => {
    tickOften(false);
    clearTimeout(searching);
    endLinks();
    tail.stop();
    link.end();
  };
}

export default { render };
