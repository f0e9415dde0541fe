// Shows an opened row: the reason of its verdict, its causes and effects, its exact text and its layout.

import { choiceRow, doer, holdsFocus, make } from "../ui/elements.js";
import { family } from "../ui/families.js";
import { keptLine } from "../ui/kept.js";
import { countOf, groupDigits, seconds } from "../ui/text.js";
import { ANSWERS, CALL, CONTEXT, FROM, ID, KIND, SEVERITIES, TIME, WHAT, answersOf } from "./cells.js";

// `on.jump(seq)` goes to a row, `on.whole(seq)` requests the rest of the text, `on.shut()` closes the pane,
// `on.act(name, choices)` performs an act in Python, `on.open(part, target)` shows a message in another
// part, `on.kept(seq, kept)` returns the element of a result that is kept elsewhere, `on.stop(seq)` the button that cancels its call, where it runs, and `on.copied` is the place where it says what was copied.
export function detailPane(on) {
  const pane = make("div", {
    class: "mew-detail",
    role: "region",
    "aria-label": "The opened message",
    hidden: true,
  });
  let shown = null,
    tab = "pretty";

  // The parts that show this message, too.
  function elsewhere(row) {
    /** @type {[text: string, part: string, target: import("../ui/links.js").Target][]} */
    const targets = [];
    if (!row) return targets;
    targets.push(["Show in timeline", "timeline", { id: row[ID] }]);
    if (row[KIND] === "mcp/proposal") targets.push(["Show card", "approvals", { id: row[ID] }]);
    else if (row[CALL]?.[2]) targets.push(["Show card", "approvals", { id: on.idOf(row[ANSWERS]) }]);
    if (row[CONTEXT]) targets.push(["Show reasoning", "reasoning", { context: row[CONTEXT], id: row[ID] }]);
    else if (row[KIND].startsWith("reasoning/"))
      targets.push(["Show reasoning", "reasoning", { context: row[ID], id: row[ID] }]);
    return targets.filter(([, , target]) => target.id);
  }

  // Two tabs over one place; the arrows go from one to the other.
  function makeTabs(exact, pretty, first) {
    const list = make("div", { class: "mew-tabs", role: "tablist", "aria-label": "The text" });
    const tabs = [
      ["pretty", "Pretty", pretty],
      ["raw", "Raw", exact],
    ].map(([name, text, body]) => {
      const button = make("button", {
        role: "tab",
        class: "mew-tab",
        text,
        id: `${on.key}-${name}`,
        "aria-controls": `${on.key}-${name}-text`,
        onclick: () => {
          tab = name;
          choose(name);
        },
      });
      body.id = `${on.key}-${name}-text`;
      list.append(button);
      return { name, button, body };
    });
    const mark = choiceRow(list, "aria-selected");
    function choose(wanted) {
      for (const { name, button, body } of tabs) {
        if (name === wanted) mark(button);
        body.hidden = name !== wanted;
      }
    }
    choose(first);
    return list;
  }

  function steps(item) {
    const list = make("ol", { class: "mew-chain", "aria-label": "Causes and effects" });
    const own = item.row
      ? [item.seq, item.row[TIME], item.row[FROM], item.row[KIND], item.row[WHAT], item.of]
      : null;
    const all = [...item.causes, ...(own ? [own] : []), ...item.effects];
    const times = new Map(all.map(([seq, t]) => [seq, t]));
    for (const [seq, t, from, kind, what, of] of all) {
      const here = seq === item.seq,
        since = of.length ? t - times.get(of[0]) : null;
      const line = make("li", {
        class: `mew-is-${family(kind).name}`,
        "aria-current": here ? "true" : null,
        title: `${from}: ${what}`,
      });
      line.append(
        here
          ? make("b", { class: "mew-num", text: on.nameOf(seq) })
          : make("button", {
              class: "mew-link",
              "data-seq": seq,
              text: on.nameOf(seq),
              "aria-label": `Go to ${on.nameOf(seq)}, ${kind}`,
              onclick: () => on.jump(seq),
            }),
      );
      line.append(
        " ",
        make("bdi", { class: "mew-code", text: kind || "unreadable", title: family(kind).label }),
        " ",
        make("bdi", { class: "mew-by", text: from }),
      );
      if (since !== null && !Number.isNaN(since))
        line.append(make("span", { class: "mew-num mew-since", text: ` +${seconds(since)}` }));
      list.append(line);
    }
    return [list, all.length > 1 ? all.at(-1)[1] - all[0][1] : null];
  }

  // What the diagnosis finds about the message, the worst first.
  function findingsOf(item) {
    const list = make("ol", { class: "mew-findings", "aria-label": "Findings" });
    for (const [severity, sentence, requirement, rule] of [...item.findings].sort(
      (a, b) => SEVERITIES.indexOf(b[0]) - SEVERITIES.indexOf(a[0]),
    )) {
      const line = make(
        "li",
        { title: rule },
        make("span", { class: `mew-severity mew-at-${severity}`, text: severity }),
        " ",
        make("bdi", { class: "mew-found-sentence", text: sentence }),
      );
      if (requirement)
        line.append(
          " ",
          make("span", {
            class: "mew-small mew-code",
            text: requirement,
            title: "The requirement of the specification",
          }),
        );
      list.append(line);
    }
    return item.findings.length ? list : "";
  }

  function lengthText(item, length) {
    const parts = [];
    if (length !== null)
      parts.push(`${item.causes.length + item.effects.length + 1} messages in ${seconds(length)}`);
    if (item.left) parts.push(`${groupDigits(item.left)} more are not listed`);
    if (item.absent)
      parts.push(
        `${groupDigits(item.absent)} that it refers to ${item.absent === 1 ? "is" : "are"} no longer held`,
      );
    if (length === null && !item.absent) parts.push("It answers no message, and no message answers it.");
    return parts.join(" · ");
  }

  async function copy(name) {
    const done = await on.act(name, { seq: shown.seq });
    if (done) await on.copied.copy(done.value, done.said, pane);
  }

  function refresh(item) {
    const [list, length] = steps(item),
      story = pane.querySelector(".mew-story");
    const at = story.querySelector(":focus")?.getAttribute("data-seq");
    story.replaceChildren(
      findingsOf(item),
      list,
      make("div", { class: "mew-small", text: lengthText(item, length) }),
    );
    if (at) (list.querySelector(`[data-seq="${at}"]`) ?? textNode()).focus({ preventScroll: true });
  }

  function textNode() {
    return pane.querySelector(".mew-panes > :not([hidden])");
  }

  function stopOf(seq) {
    const button = on.stop(seq);
    return button ? [button] : [];
  }

  function draw(item) {
    const kind = item.row?.[KIND] ?? "";
    const bar = make(
      "div",
      { class: "mew-bar" },
      make("b", { class: "mew-which", text: on.nameOf(item.seq) }),
      make("span", { class: "mew-family", text: kind ? family(kind).label : "" }),
      make("bdi", { class: "mew-code", text: kind }),
      make("span", { class: "mew-gap" }),
      make("span", { class: "mew-stop-place" }, ...stopOf(item.seq)),
      ...elsewhere(item.row).map(([text, part, target]) =>
        make("button", { class: "mew-quiet", text, onclick: () => on.open(part, target) }),
      ),
      doer("Copy as JSON", () => copy("json")),
      doer("Copy as Python", () => copy("python")),
      make("button", { class: "mew-quiet", text: "Close", onclick: on.shut }),
    );
    const why = make("div", { class: "mew-why" }, make("span", { text: item.why }));
    if (item.pattern) why.append(" ", make("bdi", { class: "mew-code mew-pattern", text: item.pattern }));
    const exact = make("pre", {
      class: "mew-code mew-exact",
      dir: "ltr",
      tabindex: 0,
      "aria-label": "Exact text",
      text: item.text,
    });
    const pretty = make("pre", {
      class: "mew-code mew-pretty",
      dir: "ltr",
      tabindex: 0,
      "aria-label": "Laid out",
      text: item.pretty || "This text is no JSON.",
    });
    for (const body of [exact, pretty]) body.setAttribute("role", "tabpanel");
    const rest = item.more
      ? [
          make("button", {
            class: "mew-rest",
            text: `Show the rest, ${countOf(item.more, "character")}`,
            onclick: () => {
              tab = "raw";
              on.whole(item.seq);
            },
          }),
        ]
      : [];
    on.copied.clear();
    const kept = !item.kept ? [] : item.loads ? [on.kept(item.seq, item.kept)] : [keptLine(item.kept)];
    pane.replaceChildren(
      bar,
      why,
      ...kept,
      make("div", { class: "mew-story" }),
      make("div", { class: "mew-tabbar" }, makeTabs(exact, pretty, item.pretty ? tab : "raw"), ...rest),
      make("div", { class: "mew-panes" }, pretty, exact),
    );
    refresh(item);
  }

  return {
    node: pane,
    get open() {
      return !pane.hidden;
    },
    get seq() {
      return pane.hidden ? 0 : shown.seq;
    },
    // The call of the row has begun to run, or has ended.
    renewStop() {
      const place = pane.querySelector(".mew-stop-place"),
        here = holdsFocus(place);
      place?.replaceChildren(...stopOf(shown.seq));
      if (here) textNode().focus({ preventScroll: true });
    },
    // Whether a new row answers one of the rows that are shown.
    concerns: (row) =>
      !pane.hidden &&
      answersOf(row).some((number) => number === shown.seq || shown.effects.some(([seq]) => seq === number)),
    show(item) {
      // A text that is shown already is not replaced by a part of it.
      const same = shown && !pane.hidden && shown.seq === item.seq && shown.text.startsWith(item.text);
      const here = holdsFocus(pane);
      shown = same ? { ...item, text: shown.text, more: shown.more } : item;
      if (same) refresh(item);
      else draw(item);
      pane.hidden = false;
      if (here && !same) textNode().focus({ preventScroll: true });
    },
    shut() {
      on.copied.clear();
      pane.hidden = true;
      pane.replaceChildren();
    },
  };
}
