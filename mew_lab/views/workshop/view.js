// Edits an agent file: a list of its tools, and for the chosen one its texts, its parameters, its prompt and a test. The
// draft is in Python. A change is sent as soon as it is typed, and the answer shows what came of it. A field that is being
// typed in keeps its text; all others follow the draft.

import { connect } from "../ui/connection.js";
import {
  activeOf,
  announcer,
  doer,
  holdsFocus,
  isOff,
  keepKeys,
  make,
  newId,
  placeByKey,
  turnOff,
  write,
} from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { schemaForm } from "../ui/form.js";
import { makeHeader } from "../ui/header.js";
import { makeTable } from "../ui/tables.js";
import { countOf } from "../ui/text.js";
import { blockViewer } from "../ui/blocks.js";
import { paintTokens } from "./prompt.js";

const WAITING = 200;
const TYPES = ["string", "number", "integer", "boolean", "array", "object"];
const KEYS = [
  ["↑ ↓", "Previous or next tool"],
  ["Ctrl+Z", "Undo the last change"],
  ["Ctrl+Shift+Z", "Redo it"],
  ["Ctrl+S", "Save the file"],
];
const KEYWORD_WORDS = {
  title: "Title",
  enum: "Allowed values, one a line",
  default: "Default",
  examples: "Examples, one a line",
  minLength: "Least characters",
  maxLength: "Most characters",
  minimum: "Minimum",
  maximum: "Maximum",
  minItems: "Least items",
  maxItems: "Most items",
  uniqueItems: "Unique items (true or false)",
  additionalProperties: "Other members (JSON)",
  minProperties: "Least members",
  maxProperties: "Most members",
};
const MANY_LINES = ["enum", "examples"];

function faultLine([key, problem]) {
  return make(
    "li",
    { class: "mew-fault-line" },
    make("span", { class: "mew-code", text: key }),
    `: ${problem}`,
  );
}

function render({ adapter, el }) {
  const remarksId = newId();
  const root = make("section", { class: "mew mew-workshop", "aria-label": "Workshop" });
  const header = makeHeader({ title: "Workshop", keys: KEYS });
  const undo = doer("Undo", () => step("undo"), { class: "mew-undo" });
  const redo = doer("Redo", () => step("redo"), { class: "mew-redo" });
  const save = doer("Save", () => step("save"), { class: "mew-save mew-primary" });
  header.actions.append(undo, redo, save);
  const path = make("input", {
    type: "text",
    class: "mew-path",
    "aria-label": "Path of an agent file",
    placeholder: "Path of an agent file, such as words.yaml",
    spellcheck: "false",
    autocomplete: "off",
  });
  const open = doer("Open", () => openFile("open"));
  const fresh = doer("New file", () => openFile("new"));
  const files = make("div", { class: "mew-files" }, path, open, fresh);
  const faultList = make("ul", {
    class: "mew-file-faults",
    hidden: true,
    "aria-label": "Notes and faults of the file",
  });
  const empty = emptyState("No agent file is open. Type its path above, or in a cell:", {
    code: "%mew tools-agent edit words.yaml",
  });
  const list = make("ul", { class: "mew-tools-list", "aria-label": "Tools" });
  const add = doer("Add tool", addTool, { class: "mew-add-tool" });
  const pane = make("div", { class: "mew-pane" });
  const body = make(
    "div",
    { class: "mew-body", hidden: true },
    make("div", { class: "mew-left" }, list, add),
    pane,
  );
  root.append(header.node, files, faultList, empty, body);
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  let draft = {
    version: -1,
    file: "",
    tools: [],
    faults: [],
    notes: [],
    undo: "",
    redo: "",
    changed: false,
    name: "",
  };
  let chosen = 0,
    loads = 0;
  /** @type {any} */
  let ui = null;

  const viewer = blockViewer();

  const link = connect(adapter, root, { from: () => 0, items: { snapshot: take, draft: take } });

  // --- the file ---

  function take(item) {
    const other = item.file !== draft.file;
    const newer = other || item.version !== draft.version;
    draft = item;
    if (other) {
      chosen = 0;
      ui = null;
    }
    paintFile();
    if (newer || !ui) load();
  }

  function paintFile() {
    const isOpen = Boolean(draft.file);
    header.setCounts([
      { text: draft.name, hover: draft.file },
      { text: isOpen ? countOf(draft.tools.length, "tool") : "" },
      { text: draft.faults.length ? countOf(draft.faults.length, "fault") : "", tone: "bad" },
      { text: draft.changed ? "not saved" : "", tone: "wait" },
    ]);
    undo.hidden = redo.hidden = !isOpen;
    turnOff(undo, !draft.undo, draft.undo);
    turnOff(redo, !draft.redo, draft.redo);
    save.hidden = !isOpen;
    turnOff(save, !draft.changed);
    empty.hidden = isOpen;
    body.hidden = !isOpen;
    // The faults of the chosen tool stand in its pane.
    const others = draft.faults.filter(([key]) => !key.startsWith(`metadata.tools[${chosen}]`));
    faultList.hidden = !others.length && !draft.notes.length;
    faultList.replaceChildren(
      ...draft.notes.map((text) => make("li", { class: "mew-note-line", text })),
      ...others.map(faultLine),
    );
    paintList();
  }

  function paintList() {
    const focused = holdsFocus(list);
    list.replaceChildren(
      ...draft.tools.map((tool, n) => {
        const button = make("button", {
          class: "mew-tool",
          "aria-pressed": String(n === chosen),
          tabindex: n === chosen ? 0 : -1,
          onclick: () => choose(n),
        });
        const line = make(
          "span",
          { class: "mew-tool-line" },
          make("bdi", { class: "mew-tool-name mew-code", text: tool.name }),
        );
        if (tool.faults)
          line.append(make("span", { class: "mew-tag mew-tag-fault", text: countOf(tool.faults, "fault") }));
        const parameters = make("span", { class: "mew-tool-parameters mew-code" });
        tool.parameters.forEach(([name, kind, required], k) =>
          parameters.append(
            k ? ", " : "",
            make("bdi", { text: `${name}${required ? "*" : ""}` }),
            `: ${kind}`,
          ),
        );
        button.append(
          line,
          make("span", { class: "mew-tool-about", text: tool.description || "No description." }),
        );
        if (tool.parameters.length) button.append(parameters);
        return make("li", {}, button);
      }),
    );
    if (focused) list.querySelector("[aria-pressed='true']")?.focus();
  }

  list.addEventListener("keydown", (event) => {
    const to = placeByKey(event, chosen, draft.tools.length);
    if (to === undefined || to < 0 || to >= draft.tools.length) return;
    event.preventDefault();
    choose(to);
  });

  root.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const key = event.key.toLowerCase();
    const button = key === "s" ? save : key === "z" ? (event.shiftKey ? redo : undo) : null;
    if (!button || button.hidden) return;
    event.preventDefault();
    if (!isOff(button)) step(button === save ? "save" : button === undo ? "undo" : "redo");
  });

  async function openFile(how) {
    await flush();
    const done = await link.act(how, { file: path.value.trim() });
    if (done) announce(done.said);
  }

  async function step(name) {
    await flush();
    const done = await link.act(name);
    if (done) announce(done.said);
  }

  async function addTool() {
    await flush();
    const done = await link.act("edit", { op: "add-tool", tool: chosen });
    if (!done) return;
    announce(done.said);
    chosen = draft.tools.length;
    ui = null;
    await load();
    ui?.name.focus();
  }

  async function choose(number) {
    if (number === chosen && ui) return;
    await flush();
    chosen = number;
    ui = null;
    paintFile();
    await load();
  }

  // --- the chosen tool ---

  async function load() {
    loads += 1;
    const mine = loads;
    if (!draft.tools.length) {
      ui = null;
      pane.replaceChildren(
        emptyState("The file has no tool yet.", { action: { text: "Add tool", run: addTool } }),
      );
      return;
    }
    chosen = Math.min(chosen, draft.tools.length - 1);
    const done = await link.act("tool", { tool: chosen });
    if (!done || mine !== loads) return;
    if (!ui) buildPane();
    show(done.value);
  }

  // What is typed is sent after a pause, or when something else is done. `waiting` holds it until then.
  const waiting = new Map();

  function send(key, change) {
    clearTimeout(waiting.get(key)?.timer);
    waiting.set(key, { change, timer: setTimeout(() => sendNow(key), WAITING) });
  }

  async function sendNow(key) {
    const held = waiting.get(key);
    if (!held) return null;
    clearTimeout(held.timer);
    waiting.delete(key);
    return edit(held.change);
  }

  async function flush() {
    for (const key of [...waiting.keys()]) await sendNow(key);
  }

  // The refusal of a change is shown beside its field, else as a notice.
  async function edit(change, tell) {
    const at = change.key === undefined ? null : ui?.slots.get(slotOf(change));
    const done = await link.act(
      "edit",
      { tool: chosen, ...change },
      tell ?? (at ? (text) => at.say(text) : undefined),
    );
    if (done) {
      at?.say("");
      if (!["text", "keyword", "schema"].includes(change.op)) announce(done.said);
    }
    return done;
  }

  const slotOf = (change) => `${change.op} ${change.name ?? ""} ${change.key ?? ""}`;

  // A labelled field whose text is a part of the draft.
  function field(label, change, { lines = 0, code = false, place = "" } = {}) {
    const id = newId();
    const input = lines
      ? make("textarea", {
          id,
          rows: lines,
          spellcheck: code ? "false" : "true",
          class: code ? "mew-code" : "",
        })
      : make("input", {
          id,
          type: "text",
          spellcheck: "false",
          autocomplete: "off",
          class: code ? "mew-code" : "",
        });
    if (place) input.placeholder = place;
    const fault = make("div", { class: "mew-fault", id: `${id}-fault`, hidden: true });
    input.setAttribute("aria-describedby", fault.id);
    const key = slotOf(change);
    input.addEventListener("input", () => send(key, { ...change, text: input.value }));
    input.addEventListener("change", () => sendNow(key));
    const slot = {
      input,
      key,
      say(text) {
        write(fault, text);
        fault.hidden = !text;
        if (text) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      },
    };
    const node = make("div", { class: "mew-slot" }, make("label", { for: id, text: label }), input, fault);
    return { node, input, slot };
  }

  function put(input, text) {
    if (input.value === text || (waiting.size && activeOf(input) === input)) return;
    if (activeOf(input) === input && input.dataset.known === undefined) return;
    input.value = text;
  }

  function buildPane() {
    const slots = new Map();
    const use = (made) => {
      slots.set(made.slot.key, made.slot);
      return made;
    };
    const name = use(field("Name", { op: "text", key: "name" }, { code: true }));
    const about = use(
      field(
        "Description, for the clients that choose a tool",
        { op: "text", key: "description" },
        { lines: 2 },
      ),
    );
    const schema = use(
      field("The same as JSON Schema", { op: "schema", key: "parameters" }, { lines: 12, code: true }),
    );
    const output = use(
      field(
        "Results as JSON Schema; empty where a result is any text",
        { op: "schema", key: "outputSchema" },
        { lines: 3, code: true },
      ),
    );
    const prompt = use(
      field(
        "Prompt of a call",
        { op: "text", key: "prompt" },
        { lines: 6, code: true, place: "Tell me the time in {zone}." },
      ),
    );
    prompt.input.setAttribute(
      "aria-describedby",
      `${prompt.input.getAttribute("aria-describedby")} ${remarksId}`,
    );
    const twin = doer("Duplicate", async () => {
      await flush();
      const done = await link.act("edit", { op: "copy-tool", tool: chosen });
      if (done) {
        announce(done.said);
        chosen += 1;
        ui = null;
        await load();
      }
    });
    const remove = make("button", {
      class: "mew-remove mew-danger",
      text: "Delete",
      onclick: () => confirm(true),
    });
    const sure = make("div", {
      class: "mew-sure",
      role: "group",
      "aria-label": "Delete this tool?",
      hidden: true,
    });
    const faults = make("ul", { class: "mew-faults", "aria-label": "Faults of this tool", hidden: true });
    const rows = make("ol", { class: "mew-parameters" });
    const none = make("div", { class: "mew-dim", text: "This tool takes no parameters." });
    const more = doer("Add parameter", () => edit({ op: "add" }), { class: "mew-add" });
    const references = make("input", { type: "checkbox", checked: true });
    const painted = make("pre", { class: "mew-painted mew-code", "aria-hidden": "true" });
    const remarks = make("ul", {
      class: "mew-remarks",
      id: remarksId,
      "aria-label": "Remarks about the prompt",
    });
    const preview = make("pre", {
      class: "mew-preview mew-code",
      tabindex: 0,
      "aria-label": "The filled prompt",
    });
    const formPlace = make("div", { class: "mew-form-place" });
    const run = doer("Run", () => startRun(false), {
      class: "mew-run mew-primary",
      title: "Runs it as it is served: nobody is asked, and tools that need a permission are left out.",
    });
    const ask = doer("Run with approvals", () => startRun(true), {
      class: "mew-run-asking",
      title: "Runs it in this space: each call that needs a permission waits for you among the approvals.",
    });
    const stop = doer("Stop", () => link.act("stop"), { class: "mew-stop", hidden: true });
    const reason = make("span", { class: "mew-reason", role: "status" });
    const result = make("div", { class: "mew-result", role: "region", "aria-label": "Result of the test" });

    function confirm(on) {
      sure.hidden = !on;
      remove.hidden = on;
      if (on) sure.querySelector("button").focus();
      else remove.focus();
    }
    sure.append(
      "Delete this tool?",
      doer(
        "Delete it",
        async () => {
          await flush();
          const done = await link.act("edit", { op: "remove-tool", tool: chosen });
          if (done) {
            announce(done.said);
            chosen = Math.max(0, chosen - 1);
            ui = null;
            await load();
          }
        },
        { class: "mew-danger" },
      ),
      make("button", { text: "Keep it", onclick: () => confirm(false) }),
    );

    const part = (title, ...nodes) =>
      make(
        "section",
        { class: "mew-part", "aria-label": title },
        make("div", { class: "mew-subhead", role: "heading", "aria-level": 3, text: title }),
        ...nodes,
      );
    prompt.input.before(painted);
    const editor = make("div", { class: "mew-editor" }, painted, prompt.input);
    prompt.node.insertBefore(editor, prompt.node.lastChild);
    prompt.input.addEventListener("scroll", () => {
      painted.scrollTop = prompt.input.scrollTop;
      painted.scrollLeft = prompt.input.scrollLeft;
    });
    prompt.input.addEventListener("input", () => paintTokens(painted, [[prompt.input.value, "text"]]));
    pane.replaceChildren(
      make(
        "div",
        { class: "mew-pane-head" },
        name.node,
        make("div", { class: "mew-pane-actions" }, twin, remove, sure),
      ),
      about.node,
      faults,
      part(
        "Parameters",
        make(
          "div",
          { class: "mew-builder" },
          make(
            "div",
            { class: "mew-builder-rows" },
            none,
            rows,
            make(
              "div",
              { class: "mew-buttons" },
              more,
              make(
                "label",
                { class: "mew-tick" },
                references,
                "Renaming a parameter renames it in the prompt, too",
              ),
            ),
          ),
          schema.node,
        ),
      ),
      part(
        "Prompt",
        make(
          "div",
          { class: "mew-builder" },
          prompt.node,
          make(
            "div",
            {},
            make("div", { class: "mew-label", text: "With the values of the test, or samples" }),
            preview,
          ),
        ),
        remarks,
        output.node,
      ),
      part("Test", formPlace, make("div", { class: "mew-buttons" }, run, ask, stop, reason), result),
    );
    ui = {
      slots,
      name: name.input,
      about: about.input,
      schema: schema.input,
      output: output.input,
      prompt: prompt.input,
      faults,
      rows,
      none,
      references,
      painted,
      remarks,
      preview,
      formPlace,
      form: null,
      plan: "",
      runs: [run, ask],
      asking: false,
      stop,
      reason,
      result,
      shape: "",
      parts: [],
      text: null,
      checks: 0,
      running: false,
    };
  }

  function show(tool) {
    const mine = ui;
    mine.detail = tool;
    put(mine.name, tool.name);
    put(mine.about, tool.description);
    put(mine.prompt, tool.prompt);
    put(mine.schema, tool.schema);
    put(mine.output, tool.output);
    if (mine.schema.value === tool.schema) mine.slots.get("schema  parameters")?.say("");
    if (mine.output.value === tool.output) mine.slots.get("schema  outputSchema")?.say("");
    if (mine.prompt.value === tool.prompt) paintTokens(mine.painted, tool.tokens);
    mine.faults.hidden = !tool.faults.length;
    mine.faults.replaceChildren(...tool.faults.map(faultLine));
    mine.remarks.replaceChildren(...tool.remarks.map((text) => make("li", { text })));
    mine.remarks.hidden = !tool.remarks.length;
    showParameters(tool.parameters);
    const plan = JSON.stringify(tool.plan);
    if (plan !== mine.plan) {
      const before = mine.form?.text() ?? null;
      mine.plan = plan;
      mine.form = schemaForm(tool.plan, {
        changed: () => {
          if (mine === ui) checkSoon();
        },
      });
      mine.formPlace.replaceChildren(mine.form.node);
      try {
        mine.form.set(before ?? tool.samples);
      } catch (error) {
        mine.form.set("{}");
      }
    }
    checkSoon(0);
  }

  // --- the builder ---

  function showParameters(parameters) {
    const mine = ui;
    const shape = JSON.stringify(
      parameters.map((row) => [row.name, row.type, row.items, row.nested, Object.keys(row.members)]),
    );
    mine.none.hidden = parameters.length > 0;
    if (shape !== mine.shape) {
      const here = activeOf(root);
      const focused = mine.rows.contains(here) ? here?.dataset.at : null;
      const opened = mine.parts.map((part) => part.more.open);
      mine.shape = shape;
      for (const key of [...mine.slots.keys()]) if (key.startsWith("keyword ")) mine.slots.delete(key);
      mine.parts = parameters.map((row, n) => parameterRow(row, n, parameters.length));
      mine.parts.forEach((part, n) => {
        part.more.open = opened[n] ?? false;
      });
      mine.rows.replaceChildren(...mine.parts.map((part) => part.node));
      if (focused)
        /** @type {HTMLElement | null} */ (
          mine.rows.querySelector(`[data-at="${CSS.escape(focused)}"]`)
        )?.focus();
    }
    parameters.forEach((row, n) => mine.parts[n].update(row));
  }

  function parameterRow(row, n, count) {
    const at = (what) => ({ "data-at": `${n} ${what}` });
    const name = make("input", {
      type: "text",
      class: "mew-code mew-parameter-name",
      value: row.name,
      spellcheck: "false",
      autocomplete: "off",
      "aria-label": `Name of parameter ${n + 1}`,
      ...at("name"),
    });
    name.addEventListener("change", async () => {
      if (name.value === row.name) return;
      const done = await edit({
        op: "rename",
        name: row.name,
        text: name.value,
        references: ui.references.checked,
      });
      if (!done) name.value = row.name;
    });
    const kind = make(
      "select",
      { "aria-label": `Type of ${row.name}`, ...at("type") },
      ...[...(TYPES.includes(row.type) ? [] : [row.type || "?"]), ...TYPES].map((type) =>
        make("option", { value: type, text: type, selected: type === row.type }),
      ),
    );
    kind.addEventListener("change", () => edit({ op: "type", name: row.name, text: kind.value }));
    const tick = make("input", {
      type: "checkbox",
      ...at("required"),
      onchange: () => edit({ op: "required", name: row.name, on: tick.checked }),
    });
    const small = (text, label, run, off = false) => {
      const button = doer(text, run, {
        class: "mew-small mew-quiet",
        "aria-label": label,
        title: label,
        ...at(label),
      });
      if (off) button.setAttribute("aria-disabled", "true");
      return button;
    };
    const up = small("↑", `Move ${row.name} up`, () => edit({ op: "move", name: row.name, by: -1 }), n === 0);
    const down = small(
      "↓",
      `Move ${row.name} down`,
      () => edit({ op: "move", name: row.name, by: 1 }),
      n === count - 1,
    );
    const remove = small("✕", `Remove ${row.name}`, () => edit({ op: "remove", name: row.name }));
    const inputs = {};
    const keyword = (key, label, options = {}) => {
      const made = field(label, { op: "keyword", name: row.name, key }, options);
      made.input.dataset.at = `${n} ${key}`;
      ui.slots.set(made.slot.key, made.slot);
      inputs[key] = made.input;
      return made.node;
    };
    const about = keyword("description", "Description");
    const more = make(
      "details",
      { class: "mew-more" },
      make("summary", { text: "Values and limits", ...at("more") }),
    );
    const grid = make("div", { class: "mew-grid" });
    if (row.type === "array") {
      const items = make(
        "select",
        { "aria-label": `Type of the items of ${row.name}`, ...at("items") },
        ...[...(TYPES.includes(row.items) ? [] : [row.items || "?"]), ...TYPES].map((type) =>
          make("option", { value: type, text: type, selected: type === row.items }),
        ),
      );
      items.addEventListener("change", () =>
        edit({ op: "keyword", name: row.name, key: "items", text: items.value }, link.notice),
      );
      grid.append(
        make(
          "div",
          { class: "mew-slot" },
          make("span", { class: "mew-label", text: "Type of the items" }),
          items,
        ),
      );
    }
    for (const key of Object.keys(row.members))
      grid.append(
        keyword(key, KEYWORD_WORDS[key] ?? key, { code: true, lines: MANY_LINES.includes(key) ? 2 : 0 }),
      );
    more.append(grid);
    if (row.nested)
      more.append(make("div", { class: "mew-dim", text: "It has parts that only its JSON Schema shows." }));
    const node = make(
      "li",
      { class: "mew-parameter" },
      make(
        "div",
        { class: "mew-parameter-line" },
        name,
        kind,
        make("label", { class: "mew-tick" }, tick, "required"),
        make("span", { class: "mew-parameter-buttons" }, up, down, remove),
      ),
      about,
      more,
    );
    return {
      node,
      more,
      update(now) {
        if (activeOf(name) !== name) name.value = now.name;
        tick.checked = now.required;
        put(inputs.description, now.description);
        for (const [key, text] of Object.entries(now.members)) if (inputs[key]) put(inputs[key], text);
      },
    };
  }

  // --- the test ---

  let due = null;

  function checkSoon(after = WAITING) {
    clearTimeout(due);
    due = setTimeout(check, after);
  }

  async function check() {
    const mine = ui;
    if (!mine?.form) return;
    mine.checks += 1;
    const turn = mine.checks,
      text = mine.form.text(),
      part = text === null ? mine.form.part() : null;
    const json = text ?? part.text;
    if (json === null) return setReason(mine, "The arguments cannot be read yet.");
    const done = await link.act("preview", { tool: chosen, text: json });
    if (!done || mine !== ui || turn !== mine.checks) return;
    mine.form.show(done.value.faults);
    write(mine.preview, done.value.preview);
    mine.text = text !== null && !done.value.faults.length ? text : null;
    setReason(
      mine,
      mine.text !== null
        ? ""
        : done.value.faults.length
          ? `${countOf(done.value.faults.length, "argument")} to correct.`
          : "Not complete yet.",
    );
  }

  function setReason(mine, why) {
    write(
      mine.reason,
      !mine.running
        ? why
        : mine.asking
          ? "The test runs. What it proposes waits among the approvals."
          : "The test runs…",
    );
    for (const run of mine.runs) turnOff(run, Boolean(why) || mine.running);
  }

  async function startRun(asking) {
    const mine = ui,
      text = mine.text;
    if (text === null || mine.running) return;
    await flush();
    mine.running = true;
    mine.asking = asking;
    mine.stop.hidden = false;
    setReason(mine, "");
    const done = await link.act("run", { tool: chosen, text, interactive: asking }, (reason) =>
      showFailure(mine, reason),
    );
    mine.running = false;
    mine.stop.hidden = true;
    setTimeout(() => setReason(mine, ""));
    if (!done) return;
    announce(done.said);
    showResult(mine, done.value);
  }

  function showFailure(mine, reason) {
    mine.result.replaceChildren(make("div", { class: "mew-failure", role: "alert", text: reason }));
  }

  function showResult(mine, run) {
    const folded = (title, ...nodes) =>
      make("details", { class: "mew-more" }, make("summary", { text: title }), ...nodes);
    const pre = (text, label) =>
      make("pre", { class: "mew-block mew-code", tabindex: 0, "aria-label": label, text });
    const history = run.calls.map((call, n) =>
      make(
        "tr",
        {},
        make("td", { class: "mew-num", text: n + 1 }),
        make("th", { scope: "row", class: "mew-code", text: call.tool }),
        make("td", { class: "mew-code", text: call.arguments }),
        make("td", { class: "mew-num", text: call.ms }),
        make("td", { class: "mew-answer" }, call.answer, ...viewer.show(call.pictures)),
        make("td", { class: "mew-code mew-id", text: call.id }),
      ),
    );
    const table = makeTable(
      ["#", "Tool", "Arguments", "ms", "Answer", "Message"],
      make("tbody", {}, ...history),
      { class: "mew-history" },
    );
    mine.result.replaceChildren(
      make(
        "div",
        { class: "mew-result-head" },
        make("b", { text: run.error ? "Failed" : "Answer" }),
        make("span", { class: "mew-dim", text: run.stats.join(" · ") }),
        make("span", { class: "mew-dim mew-code", text: run.id }),
      ),
      make("div", {
        class: run.error ? "mew-answer-text mew-failure" : "mew-answer-text",
        dir: "auto",
        text: run.text,
      }),
      make("div", {
        class: "mew-label",
        text: run.calls.length ? `${countOf(run.calls.length, "call")} of tools` : "No tool was called.",
      }),
      ...(run.calls.length
        ? [
            make(
              "div",
              { class: "mew-scroll", tabindex: 0, role: "region", "aria-label": "Calls of tools" },
              table,
            ),
          ]
        : []),
      folded(
        `${countOf(run.turns.length, "text")} of the model`,
        ...run.turns.map((text, n) => pre(text, `Text ${n + 1}`)),
      ),
      folded("Prompt", pre(run.prompt, "The prompt of this test")),
    );
    mine.result.dataset.context = run.context;
  }

  return () => {
    clearTimeout(due);
    for (const { timer } of waiting.values()) clearTimeout(timer);
    viewer.end();
    link.end();
  };
}

export default { render };
