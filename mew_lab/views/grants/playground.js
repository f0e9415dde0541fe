// A form that supposes other permissions of a participant, and lists the messages so far that would have been allowed or
// denied instead. It gives no permission: "Grant…" opens the form that does.

import { make, onEscape, optionsOf, turnOff } from "../ui/elements.js";
import { PATTERN_HELP, clockHover, clockTime, countOf } from "../ui/text.js";

const OTHER_PATTERN = "a pattern besides";
const SUPPOSE_PAUSE = 300;

// `on.ask(choices)` asks the kernel, `on.show(id)` shows a message, `on.grant(to, pattern)` opens the form of a grant,
// `on.close()` closes this form, `on.announce(text)` is for screen readers.
/** @param {{ holders: [string, string][], profiles: string[], ask: (choices: object) => Promise<import("../ui/connection.js").Answer | null>,
 *   show: (id: string) => void, grant: (to: string, pattern: string) => void, close: () => void, announce: (text: string) => void }} on */
export function makePlayground(on) {
  const who = make(
    "select",
    { "aria-label": "Whose permissions", onchange: () => ask(0) },
    ...optionsOf([["", "participant"], ...on.holders]),
  );
  const what = make(
    "select",
    { "aria-label": "What it would hold", onchange: () => choose() },
    make(
      "optgroup",
      { label: "Instead of its configuration" },
      ...optionsOf(on.profiles.map((name) => [name, `the profile ${name}`])),
    ),
    ...optionsOf([[OTHER_PATTERN, OTHER_PATTERN]]),
  );
  const text = make("textarea", {
    rows: 2,
    class: "mew-code",
    "aria-label": "Supposed pattern as JSON",
    title: PATTERN_HELP,
    spellcheck: "false",
    dir: "ltr",
    placeholder: '{"kind": "mcp/request", "payload": {"method": "tools/call"}}',
    oninput: () => ask(SUPPOSE_PAUSE),
  });
  const grant = make("button", {
    text: "Grant…",
    title: "Opens the form that grants this pattern",
    onclick: () => on.grant(who.value, text.value),
  });
  const start = make("span", {
    class: "mew-dim",
    text: "Pick a participant to see which of its messages would have been allowed or denied.",
  });
  const answer = make("div", { class: "mew-answer", "aria-busy": "false" }, start);
  const node = make(
    "div",
    { class: "mew-ask mew-playground", role: "group", "aria-label": "What if" },
    make(
      "div",
      { class: "mew-sentence" },
      make("span", { class: "mew-piece" }, "What if ", who),
      make("span", { class: "mew-piece" }, " had held ", what),
    ),
    text,
    answer,
    make(
      "div",
      { class: "mew-line" },
      make("span", { class: "mew-dim", text: "Nothing is granted here." }),
      make("span", { class: "mew-gap" }),
      grant,
      make("button", { text: "Close", onclick: on.close }),
    ),
  );
  onEscape(node, on.close);
  let asked = 0,
    timer = null;
  choose();

  function choose() {
    const own = what.value === OTHER_PATTERN;
    text.hidden = grant.hidden = !own;
    ask(0);
  }

  function ask(after) {
    clearTimeout(timer);
    asked += 1;
    turnOff(grant, true);
    if (!who.value || (what.value === OTHER_PATTERN && !text.value.trim()))
      return void answer.replaceChildren(start);
    timer = setTimeout(send, after);
  }

  async function send() {
    const mine = asked,
      own = what.value === OTHER_PATTERN;
    answer.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => {
      if (mine === asked)
        answer.replaceChildren(make("span", { class: "mew-dim", text: "Judging the messages so far…" }));
    }, 400);
    const done = await on.ask({
      to: who.value,
      profile: own ? "" : what.value,
      pattern: own ? text.value : "",
    });
    clearTimeout(slow);
    if (mine !== asked || !done?.value) return;
    answer.setAttribute("aria-busy", "false");
    draw(done.value);
    turnOff(grant, done.value.fault);
  }

  function draw(told) {
    if (told.fault)
      return void answer.replaceChildren(make("div", { class: "mew-no" }, make("bdi", { text: told.fault })));
    const [allowed, denied] = told.counts;
    answer.replaceChildren(
      make("div", { class: "mew-says" }, make("bdi", { text: told.sentence })),
      make("div", { class: "mew-dim", text: told.about }),
      make(
        "div",
        { class: "mew-sides" },
        listOf("Allowed instead", told.allowed, allowed),
        listOf("Denied instead", told.denied, denied),
      ),
    );
    on.announce(told.sentence);
  }

  // One side: the messages, the newest last.
  function listOf(title, rows, count) {
    const side = make(
      "section",
      { class: "mew-side", "aria-label": title },
      make("h3", { text: `${title} (${count})` }),
    );
    if (!rows.length) side.append(make("div", { class: "mew-dim", text: "None" }));
    else
      side.append(
        make(
          "ol",
          { class: "mew-verdicts" },
          ...rows.map(([time, kind, id, code]) =>
            make(
              "li",
              {},
              make("span", {
                class: "mew-dim mew-num",
                text: `${clockTime(time)} `,
                title: clockHover(time),
              }),
              make("button", {
                class: "mew-to-message mew-code",
                text: kind || "unreadable",
                title: `Show message ${id}`,
                onclick: () => on.show(id),
              }),
              code ? make("span", { class: "mew-dim", text: ` ${code}` }) : "",
            ),
          ),
        ),
      );
    if (count > rows.length)
      side.append(
        make("div", {
          class: "mew-dim",
          text: `${countOf(count - rows.length, "earlier message")} not listed; lab.log.what_if(…) has all.`,
        }),
      );
    return side;
  }

  return { node, focus: () => who.focus(), end: () => clearTimeout(timer) };
}
