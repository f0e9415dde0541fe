// A form from the plan of a JSON Schema (mew_lab/views/tools/schema_form.py). It gives JSON text, exact to the digit, or null
// while a field is not well-formed. Python validates the text, and `show(faults)` shows the errors.
// A field without a value is absent, which differs from empty. Typing adds it, clearing removes it, the “Send” box does both.
// A default is offered and never filled in. With `watch(node, name)` the form is one that somebody asks to be filled in: each
// of its texts is given to `watch`, which returns the node to be shown, and all choices stand in sight.
// `reveal(faults)` marks every required field without a value, also those that nobody touched, and focuses the first.
// Parts are built when they are opened, so that a recursive schema costs nothing.

import { make } from "./elements.js";
import { JSON_NUMBER, JsonNumber, readJson, writeJson } from "./json.js";

const ABSENT = Symbol("absent");
const BAD = Symbol("bad");
const MOST_ROWS = 200;
const LONG_CHOICE = 40; // characters of a choice that a box may cut
let formCount = 0;

// Whether a field of this plan can hold the value; a value that no field can hold is shown as JSON.
export function formHolds(plan, value) {
  switch (plan.kind) {
    case "string":
      return typeof value === "string";
    case "number":
    case "integer":
      return value instanceof JsonNumber;
    case "boolean":
      return typeof value === "boolean";
    case "null":
      return value === null;
    case "constant":
      return writeJson(readJson(plan.value)) === writeJson(value);
    case "choice":
      return plan.options.some(([, text]) => writeJson(readJson(text)) === writeJson(value));
    case "array":
    case "tuple":
      return Array.isArray(value) && value.length <= MOST_ROWS;
    case "object":
      return value instanceof Map && value.size <= MOST_ROWS;
    case "variants":
      return plan.variants.some((variant) => formHolds(variant, value));
    default:
      return true;
  }
}

// Of several forms that could hold an object, the one that names most of its members.
export function formFitting(plan, value) {
  let best = -1,
    most = -1;
  plan.variants.forEach((variant, n) => {
    if (!formHolds(variant, value)) return;
    let score = variant.kind === "json" ? 0 : 1;
    if (variant.kind === "object" && value instanceof Map)
      for (const member of variant.members)
        if (value.has(member.key)) score += formHolds(member, value.get(member.key)) ? 2 : -4;
    if (score > most) [best, most] = [n, score];
  });
  return best;
}

// Whether a field of this plan has a value that nobody gave: a fixed one. Such a form is not chosen for a person.
export function formSettlesItself(plan) {
  if (plan.kind === "constant" || plan.kind === "null") return true;
  return (
    plan.kind === "object" && plan.members.some((member) => member.required && formSettlesItself(member))
  );
}

export function formKindWord(plan) {
  if (plan.kind === "array")
    return plan.items
      ? `list of ${plan.items.kind === "json" ? "anything" : formKindWord(plan.items)}`
      : "list";
  return (
    {
      json: "JSON",
      variants: "one of several",
      tuple: "list",
      choice: "choice",
      constant: "fixed",
      string: plan.format || "text",
      integer: "whole number",
    }[plan.kind] ?? plan.kind
  );
}

export function schemaForm(plan, { changed: onChange, watch = null }) {
  formCount += 1;
  const prefix = `mew-form-${formCount}-${Math.random().toString(36).slice(2, 8)}`;
  let ids = 0;
  const id = () => `${prefix}-${(ids += 1)}`;
  // While it reads: the fields that are not well-formed, and whether the rest is wanted without them.
  let unread = [],
    partly = false;

  const seen = (node, name) => watch?.(node, name) ?? node;
  let offers = [];
  function changed() {
    offers = offers.filter((offer) => offer.node.isConnected);
    for (const offer of offers) offer.tell();
    onChange();
  }

  // What the schema proposes as a value. It is sent when somebody takes it, by the button or in words of her own.
  function offerOf(field, label, { take, isFilled }) {
    const words = make("span"),
      value = make("code", { class: "mew-fixed", text: field.offered });
    const use = make("button", {
      class: "mew-small mew-use",
      text: "Use it",
      "aria-label": `Use the tool's default for ${label}`,
      onclick: () => {
        take(readJson(field.default));
        changed();
      },
    });
    const offer = {
      node: make(
        "div",
        { class: "mew-about mew-offered" },
        words,
        seen(value, `the default of ${label}`),
        " ",
        use,
      ),
      tell() {
        words.textContent = isFilled() ? "The tool's default: " : "Not sent; the tool's default: ";
      },
    };
    offer.tell();
    offers.push(offer);
    return offer.node;
  }

  // The frame around each control: its name, whether it is required, its description, its errors.
  function frame(field, control, { label, group = false, tick = null, name = null }) {
    const about = make("span", { class: "mew-about-text", id: id(), dir: "auto" });
    about.textContent = [
      field.about,
      field.limits,
      field.hint ? `such as ${field.hint}` : "",
      field.more ? `also: ${field.more}` : "",
    ]
      .filter(Boolean)
      .join(" · ");
    const note = field.note ? make("span", { class: "mew-note-text", text: field.note }) : null;
    const fault = make("div", { class: "mew-fault", id: id(), hidden: true });
    const title =
      name ??
      make(group ? "span" : "label", { class: "mew-name mew-code", dir: "ltr", id: id(), text: label });
    const line = make("div", { class: "mew-name-line" });
    // An item of a list has a number of ours, which changes.
    line.append(field.key === undefined ? title : seen(title, label));
    if (field.title)
      line.append(seen(make("bdi", { class: "mew-dim", text: field.title }), `the title of ${label}`));
    line.append(
      seen(make("span", { class: "mew-kind-word", text: formKindWord(field) }), `the kind of ${label}`),
    );
    if (field.required && field.key !== undefined)
      line.append(make("span", { class: "mew-required", text: "required" }));
    if (tick) line.append(tick);
    const node = make("div", { class: `mew-field mew-field-${field.kind}` }, line, control);
    if (about.textContent) node.append(make("div", { class: "mew-about" }, seen(about, `about ${label}`)));
    if (note)
      node.append(make("div", { class: "mew-about mew-note-line" }, seen(note, `the note on ${label}`)));
    node.append(fault);
    const described = [about.textContent ? about.id : "", fault.id].filter(Boolean).join(" ");
    function describe(target) {
      target.setAttribute("aria-describedby", described);
      if (group) {
        target.setAttribute("role", "group");
        target.setAttribute("aria-labelledby", title.id);
      } else if (title.tagName === "LABEL") {
        target.id ||= id();
        title.htmlFor = target.id;
      }
      if (field.required && !group) target.setAttribute("aria-required", "true");
    }
    let near = "",
      far = "";
    function say() {
      const text = near || far;
      if (fault.textContent !== text) fault.textContent = text;
      fault.hidden = !text;
      if (text && !group) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    }
    return {
      node,
      line,
      title,
      describe,
      near(text) {
        near = text;
        say();
      },
      far(text) {
        far = text;
        say();
      },
      rename(text) {
        title.textContent = text;
      },
    };
  }

  // The box of an argument that may be left out. `tick` is the box itself, `node` the box with its word.
  function tickBox(label, on, word = "Send", title = "Whether this argument is sent") {
    const tick = make("input", {
      type: "checkbox",
      class: "mew-give",
      "aria-label": `${word} ${label}`,
      onchange: on,
    });
    return { tick, node: make("label", { class: "mew-give-label", title }, tick, word) };
  }

  // `path` leads to a field, `shown` is the same to be read.
  const sentence = (faults, label = "") =>
    faults
      .map((fault) => {
        const name = fault.shown.join(" › ");
        return fault.said === "is required"
          ? `“${name || label}” is required`
          : [name, fault.said].filter(Boolean).join(" ");
      })
      .join("; ");
  // While `reveal` runs: all faults are shown, and the first field that is marked gets the focus.
  let revealing = null;
  const mark = (faults, touched, focus) => {
    const shown = touched || revealing ? faults : faults.filter((fault) => fault.said !== "is required");
    if (
      revealing &&
      !revealing.focus &&
      shown.some((fault) => fault.said === "is required" && !fault.path.length)
    )
      revealing.focus = focus;
    return shown;
  };
  const below = (faults, key) =>
    faults
      .filter((fault) => fault.path[0] === key)
      .map((fault) => ({ path: fault.path.slice(1), shown: fault.shown.slice(1), said: fault.said }));

  // A field of any kind. `label` names it; a `settled` field always has a value, such as an item of a list.
  function build(field, label, settled = field.required) {
    const makers = {
      string: text,
      number: text,
      integer: text,
      json: text,
      boolean: choice,
      choice: watch ? choiceInSight : choice,
      constant: constantField,
      null: constantField,
      array: rows,
      tuple: rows,
      object: members,
      variants: variantField,
    };
    let shown = null,
      raw = false;
    const place = make("div", { class: "mew-place" });
    function use(plan_, asJson) {
      raw = asJson;
      shown = makers[plan_.kind](plan_, label, settled);
      place.replaceChildren(shown.node);
    }
    use(field, false);
    // A value that the field cannot hold is not lost: it is shown as JSON.
    function set(value) {
      if (value !== ABSENT && !formHolds(field, value)) {
        use(
          { ...field, kind: "json", note: "The value does not fit this field, so it is shown as JSON." },
          true,
        );
      } else if (raw) use(field, false);
      shown.set(value);
    }
    const offered =
      field.default !== undefined
        ? offerOf(field, label, { take: set, isFilled: () => shown.isFilled() })
        : null;
    return {
      node: offered ? make("div", {}, place, offered) : place,
      get: () => shown.get(),
      set,
      show: (faults) => shown.show(faults),
      focus: () => shown.focus(),
      rename(text_) {
        label = text_;
        shown.rename(text_);
      },
      touched: () => shown.touched?.() ?? true,
    };
  }

  // Strings, numbers and JSON: a text box whose text is read.
  function text(field, label, settled) {
    const many = field.lines || field.kind === "json";
    const box =
      field.kind === "number" || field.kind === "integer"
        ? make("input", {
            type: "text",
            inputmode: "decimal",
            autocomplete: "off",
            spellcheck: "false",
            dir: "ltr",
          })
        : make("textarea", {
            rows: many ? 4 : 1,
            autocomplete: "off",
            spellcheck: "false",
            dir: "ltr",
            class: many ? "mew-many" : "mew-single",
          });
    if (field.kind === "json") box.classList.add("mew-code");
    if (field.format && !many) box.classList.add("mew-formatted");
    if (field.sample) box.placeholder = field.sample;
    let choices = false,
      value = "",
      touched = false;
    // An item of a list exists because its row does; elsewhere the tick says that an empty text is meant.
    const optional = (field.kind === "string" && field.key !== undefined) || !settled;
    const give = optional
      ? tickBox(
          label,
          () => {
            choices = tick.checked;
            touched = true;
            update();
            if (choices) box.focus();
            changed();
          },
          ...(field.required ? ["Send empty", "Whether the empty text is sent"] : []),
        )
      : null;
    const tick = give?.tick;
    const parts = frame(field, box, { label, tick: give?.node });
    parts.describe(box);
    box.addEventListener("input", () => {
      value = box.value;
      choices = value !== "";
      touched = true;
      update();
      changed();
    });
    box.addEventListener("blur", () => {
      if (!touched) {
        touched = true;
        changed();
      }
    });
    // The Enter key adds no line here, but a pasted text keeps all of its lines.
    if (!many && box.tagName === "TEXTAREA")
      box.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey) event.preventDefault();
      });
    function update() {
      if (tick) tick.checked = choices;
      // A required text is sent as soon as there is one; only the empty one has to be meant.
      if (tick && field.required) give.node.hidden = value !== "";
      if (box.tagName === "TEXTAREA" && !many) box.rows = Math.min(12, value.split("\n").length);
      parts.near("");
      read();
    }
    function read() {
      if (field.kind === "string") return choices || !optional ? value : ABSENT;
      if (!choices && value === "" && !settled) return ABSENT;
      const written = value.trim();
      if (written === "" && field.key !== undefined)
        return choices && tick ? bad("Write a value, or clear “Send”.") : ABSENT;
      if (field.kind === "json") {
        try {
          return readJson(written);
        } catch (error) {
          return bad(`This is not JSON: ${error.message}. A text needs double quotes.`);
        }
      }
      return JSON_NUMBER.test(written)
        ? new JsonNumber(written)
        : bad(`Write a number, such as ${field.kind === "integer" ? "3" : "0.5"}; this is not one.`);
    }
    function bad(why) {
      if (touched) parts.near(why);
      unread.push(label);
      return BAD;
    }
    function set(next) {
      choices = next !== ABSENT;
      value = !choices
        ? ""
        : field.kind === "string"
          ? next
          : next instanceof JsonNumber
            ? next.text
            : writeJson(next, "  ");
      box.value = value;
      touched = touched || choices;
      update();
    }
    return {
      node: parts.node,
      set,
      rename: parts.rename,
      isFilled: () => choices || value !== "",
      get: read,
      show(faults) {
        parts.far(sentence(mark(faults, touched, box), label));
      },
      focus: () => box.focus(),
    };
  }

  // A choice of few values: true and false, or the values of an enum.
  function choice(field, label) {
    const options =
      field.kind === "boolean"
        ? [
            ["true", "true"],
            ["false", "false"],
          ]
        : field.options;
    const box = make(
      "select",
      {},
      make("option", { value: "", text: field.required ? "choose…" : "not given" }),
    );
    options.forEach(([shown, , value], n) =>
      box.append(make("option", { value: n, text: value === undefined ? shown : `${shown} (${value})` })),
    );
    const parts = frame(field, box, { label });
    parts.describe(box);
    const whole = make("div", { class: "mew-about mew-chosen", hidden: true });
    box.after(whole);
    // A box cuts a long choice, so what is chosen stands below it.
    function say() {
      const text_ = box.selectedOptions[0]?.textContent ?? "";
      whole.textContent = text_;
      whole.hidden = box.value === "" || text_.length <= LONG_CHOICE;
    }
    return choiceOf(field, label, options, parts, {
      at: () => (box.value === "" ? -1 : Number(box.value)),
      pick(n) {
        box.value = n < 0 ? "" : String(n);
        say();
      },
      listen(run) {
        box.addEventListener("change", () => {
          say();
          run();
        });
      },
      first: box,
    });
  }

  // All choices as a list, each of them whole.
  function choiceInSight(field, label) {
    const { options } = field,
      name = id(),
      box = make("div", { class: "mew-radios" });
    const radio = (n, ...texts) => {
      const input = make("input", { type: "radio", name, value: n });
      box.append(make("label", { class: "mew-radio" }, input, make("span", {}, ...texts)));
      return input;
    };
    const inputs = options.map(([shown, , value], n) =>
      radio(
        n,
        seen(make("bdi", { text: shown }), `a choice of ${label}`),
        ...(value === undefined
          ? []
          : [" ", seen(make("code", { class: "mew-fixed", text: value }), `a choice of ${label}`)]),
      ),
    );
    const none =
      field.key !== undefined && !field.required
        ? radio(-1, make("span", { class: "mew-dim", text: "not given" }))
        : null;
    if (none) none.checked = true;
    const parts = frame(field, box, { label, group: true });
    parts.describe(box);
    return choiceOf(field, label, options, parts, {
      at: () => inputs.findIndex((input) => input.checked),
      pick(n) {
        for (const input of inputs) input.checked = false;
        const chosen = n < 0 ? none : inputs[n];
        if (chosen) chosen.checked = true;
      },
      listen(run) {
        box.addEventListener("change", run);
      },
      first: inputs[0],
    });
  }

  // What both have: `at()` is the number of the chosen option, -1 for none.
  function choiceOf(field, label, options, parts, { at, pick, listen, first }) {
    let touched = false;
    listen(() => {
      touched = true;
      changed();
    });
    return {
      node: parts.node,
      rename: parts.rename,
      isFilled: () => at() >= 0,
      set(value) {
        const wanted = value === ABSENT ? null : writeJson(value);
        pick(options.findIndex(([, text_]) => writeJson(readJson(text_)) === wanted));
      },
      get() {
        // An item of a list cannot be left out.
        const missing = at() < 0 && field.key === undefined;
        parts.near(missing ? "Choose a value." : "");
        if (missing) unread.push(label);
        return missing ? BAD : at() < 0 ? ABSENT : readJson(options[at()][1]);
      },
      show: (faults) => parts.far(sentence(mark(faults, touched, first), label)),
      focus: () => first?.focus(),
    };
  }

  // A constant value: it is included or not.
  function constantField(field, label, settled) {
    const value = field.kind === "null" ? null : readJson(field.value);
    const give = settled ? null : tickBox(label, () => changed()),
      tick = give?.tick;
    const parts = frame(
      field,
      seen(
        make("code", { class: "mew-fixed", text: field.kind === "null" ? "null" : field.shown }),
        `the fixed value of ${label}`,
      ),
      { label, tick: give?.node, group: true },
    );
    return {
      node: parts.node,
      rename: parts.rename,
      set(next) {
        if (tick) tick.checked = next !== ABSENT;
      },
      isFilled: () => settled || tick.checked,
      get: () => (settled || tick.checked ? value : ABSENT),
      show: (faults) => parts.far(sentence(faults, label)),
      focus: () => tick?.focus(),
    };
  }

  // A field that holds other fields; these are built when it is included.
  function containerField(field, label, settled, { fill, set, get, show, touched = null }) {
    const inner = make("div", { class: "mew-inner" });
    let open = false;
    const give = settled
        ? null
        : tickBox(label, () => {
            include(tick.checked);
            changed();
          }),
      tick = give?.tick;
    const parts = frame(field, inner, { label, tick: give?.node, group: true });
    parts.describe(inner);
    function include(on) {
      if (tick) tick.checked = on;
      if (on === open) return;
      open = on;
      inner.hidden = !on;
      if (on) fill(inner);
      else inner.replaceChildren();
    }
    inner.hidden = true;
    if (settled) include(true);
    return {
      node: parts.node,
      rename: parts.rename,
      isFilled: () => open,
      get: () => (open ? get() : ABSENT),
      set(value) {
        include(settled || value !== ABSENT);
        if (open && value !== ABSENT) set(value);
      },
      show(faults) {
        const own = faults.filter((fault) => !fault.path.length),
          rest = faults.filter((fault) => fault.path.length);
        const left = open ? show(rest) : rest;
        parts.far(
          sentence(
            mark(
              [...own, ...left],
              touched ? touched() : open,
              tick ?? inner.querySelector("button, input, textarea, select"),
            ),
            label,
          ),
        );
      },
      focus: () => (tick ?? inner.querySelector("button, input, textarea, select"))?.focus(),
    };
  }

  function rows(field, label, settled) {
    const list = make("ol", { class: "mew-items", role: "list" });
    let items = [];
    const fixedParts = field.parts ?? [];
    const add = field.items
      ? make("button", {
          class: "mew-add",
          text: "Add an item",
          onclick: () => {
            append(field.items).field.focus();
            changed();
          },
        })
      : null;
    function append(plan_) {
      const n = items.length;
      const own = n < fixedParts.length;
      const item = { field: build(plan_, own ? plan_.label : `item ${n + 1}`, true), own };
      item.node = make("li", { class: "mew-item" }, item.field.node);
      if (!own) {
        item.up = make("button", { class: "mew-small", text: "↑", onclick: () => move(item, -1) });
        item.down = make("button", { class: "mew-small", text: "↓", onclick: () => move(item, 1) });
        item.off = make("button", { class: "mew-small", text: "Remove", onclick: () => remove(item) });
        item.node.append(make("div", { class: "mew-item-buttons" }, item.up, item.down, item.off));
      }
      items.push(item);
      list.append(item.node);
      renumber();
      return item;
    }
    function renumber() {
      items.forEach((item, n) => {
        if (item.own) return;
        item.field.rename(`item ${n + 1}`);
        item.up.setAttribute("aria-label", `Move item ${n + 1} of ${label} up`);
        item.down.setAttribute("aria-label", `Move item ${n + 1} of ${label} down`);
        item.off.setAttribute("aria-label", `Remove item ${n + 1} of ${label}`);
        item.up.disabled = n <= fixedParts.length;
        item.down.disabled = n === items.length - 1;
      });
      if (add) add.disabled = items.length >= MOST_ROWS;
    }
    function move(item, by) {
      const n = items.indexOf(item);
      items.splice(n, 1);
      items.splice(n + by, 0, item);
      list.replaceChildren(...items.map((item) => item.node));
      renumber();
      const button = by < 0 ? item.up : item.down;
      (button.disabled ? (by < 0 ? item.down : item.up) : button).focus();
      changed();
    }
    function remove(item) {
      items = items.filter((entry) => entry !== item);
      item.node.remove();
      renumber();
      add.focus();
      changed();
    }
    function clear() {
      items = [];
      list.replaceChildren();
    }
    return containerField(field, label, settled, {
      fill(inner) {
        clear();
        inner.append(list);
        if (add) {
          add.setAttribute("aria-label", `Add an item to ${label}`);
          inner.append(add);
        }
        fixedParts.forEach((part) => append(part));
      },
      set(values) {
        clear();
        values.forEach((value, n) =>
          append(
            fixedParts[n] ??
              field.items ?? { kind: "json", label: "item", about: "", limits: "", required: true },
          ).field.set(value),
        );
        for (let n = values.length; n < fixedParts.length; n += 1) append(fixedParts[n]);
      },
      get() {
        const values = items.map((item) => item.field.get());
        while (values.length && values[values.length - 1] === ABSENT) values.pop();
        return values.some((value) => value === BAD || value === ABSENT) ? BAD : values;
      },
      show(faults) {
        items.forEach((item, n) => item.field.show(below(faults, n)));
        return faults.filter((fault) => !(fault.path[0] < items.length));
      },
    });
  }

  function members(field, label, settled, top = false) {
    let known = [],
      others = [];
    const list = make("div", { class: "mew-members" }),
      more = make("div", { class: "mew-others" });
    const add = field.other
      ? make("button", {
          class: "mew-add",
          text: "Add a member",
          onclick: () => {
            append("", field.other).name.focus();
            changed();
          },
        })
      : null;
    function append(key, plan_) {
      const name = make("input", {
        type: "text",
        class: "mew-code",
        value: key,
        placeholder: "name",
        dir: "ltr",
        "aria-label": `Name of another member of ${label}`,
        oninput: () => {
          other.key = name.value;
          changed();
        },
      });
      // A box of one line shows no line ends: the name stays as it was until somebody writes another one.
      const other = { key, name, field: build({ ...plan_, key: undefined, required: true }, "value", true) };
      const fault = make("div", { class: "mew-fault", hidden: true });
      other.say = (text_) => {
        fault.textContent = text_;
        fault.hidden = !text_;
      };
      other.node = make(
        "div",
        { class: "mew-other" },
        make(
          "div",
          { class: "mew-other-name" },
          name,
          make("button", {
            class: "mew-small",
            text: "Remove",
            "aria-label": `Remove a member of ${label}`,
            onclick: () => {
              others = others.filter((entry) => entry !== other);
              other.node.remove();
              add?.focus();
              changed();
            },
          }),
        ),
        other.field.node,
        fault,
      );
      others.push(other);
      more.append(other.node);
      return other;
    }
    const parts = {
      fill(inner) {
        known = field.members.map((member) => ({ key: member.key, field: build(member, member.label) }));
        others = [];
        more.replaceChildren();
        list.replaceChildren(...known.map((member) => member.field.node));
        inner.append(list, more);
        if (add) {
          add.setAttribute("aria-label", `Add a member to ${label}`);
          inner.append(add);
        }
      },
      set(value) {
        const names = new Set(known.map((member) => member.key));
        for (const member of known) member.field.set(value.has(member.key) ? value.get(member.key) : ABSENT);
        others = [];
        more.replaceChildren();
        for (const [key, member] of value)
          if (!names.has(key))
            append(
              key,
              field.other ?? { kind: "json", label: "value", about: "", limits: "", required: true },
            ).field.set(member);
      },
      get() {
        const value = new Map();
        let bad = false;
        for (const member of known) {
          const result = member.field.get();
          if (result === BAD) bad = true;
          else if (result !== ABSENT) value.set(member.key, result);
        }
        const taken = new Set(known.map((member) => member.key));
        for (const other of others) {
          const result = other.field.get(),
            { key } = other;
          const why = taken.has(key) ? "This name is used already." : "";
          other.say(why);
          taken.add(key);
          if (why) unread.push(label);
          if (why || result === BAD || result === ABSENT) bad = true;
          else value.set(key, result);
        }
        return bad && !partly ? BAD : value;
      },
      show(faults) {
        for (const member of known) member.field.show(below(faults, member.key));
        for (const other of others) other.field.show(below(faults, other.key));
        const here = new Set([...known.map((member) => member.key), ...others.map((other) => other.key)]);
        return faults.filter((fault) => !here.has(fault.path[0]));
      },
    };
    return top ? parts : containerField(field, label, settled, parts);
  }

  function variantField(field, label, settled) {
    const select = make("select", {
      "aria-label": `Which form ${label} has`,
      onchange: () => {
        pick(Number(select.value));
        changed();
      },
    });
    const isOpen = formSettlesItself(field.variants[0]);
    if (isOpen) select.append(make("option", { value: -1, text: "choose…" }));
    field.variants.forEach((variant, n) => select.append(make("option", { value: n, text: variant.label })));
    const inner = make("div");
    let chosen = null;
    function pick(n) {
      select.value = String(n);
      chosen = null;
      if (n < 0) return inner.replaceChildren();
      chosen = build(
        { ...field.variants[n], key: field.key, required: false },
        field.variants[n].label,
        true,
      );
      inner.replaceChildren(chosen.node);
    }
    return containerField(field, label, settled, {
      fill(into) {
        into.append(select, inner);
        pick(isOpen ? -1 : 0);
      },
      set(value) {
        pick(Math.max(0, formFitting(field, value)));
        chosen.set(value);
      },
      get() {
        if (!chosen && settled && field.key !== undefined) return ABSENT;
        const result = chosen ? chosen.get() : BAD;
        if (!chosen || (result === ABSENT && !settled)) unread.push(label);
        return result === ABSENT && !settled ? BAD : result;
      },
      show(faults) {
        chosen?.show(faults);
        return chosen ? [] : faults;
      },
      touched: () => !isOpen || chosen !== null,
    });
  }

  // The whole: the members of an object without a frame around them, or the same as JSON.
  const body = make("div", { class: "mew-form-body" }),
    fault = make("div", { class: "mew-fault", hidden: true });
  const whole = plan.kind === "object" ? members(plan, "the arguments", true, true) : null;
  const single = whole ? null : build(plan, "arguments", true);
  const box = make("textarea", {
    class: "mew-code mew-many",
    rows: 8,
    spellcheck: "false",
    dir: "ltr",
    "aria-label": "Arguments as JSON",
    oninput: () => changed(),
  });
  const flip = make("button", {
    class: "mew-flip",
    text: "Edit as JSON",
    "aria-pressed": "false",
    onclick: () => switchView(!asJson),
  });
  const nothing = make("div", { class: "mew-dim mew-nothing", text: "This tool takes no arguments." });
  let asJson = false,
    far = "";
  const node = make("div", { class: "mew-form" }, body, fault, make("div", { class: "mew-form-foot" }, flip));
  if (whole) whole.fill(body);
  else body.append(single.node);
  // As JSON, a form that is asked would have values that were not in sight.
  flip.hidden = watch !== null;
  if (plan.note) body.append(make("div", { class: "mew-about", text: plan.note }));
  if (whole && !plan.members.length && !plan.other) body.append(nothing);

  function value(withoutBad = false) {
    unread = [];
    partly = withoutBad;
    const result = whole ? whole.get() : single.get();
    partly = false;
    return result;
  }
  function say(text_) {
    fault.textContent = text_;
    fault.hidden = !text_;
  }
  function fill(next) {
    if (!whole) return single.set(next);
    if (!(next instanceof Map)) throw new Error("the arguments of a tool must be an object: {…}");
    whole.set(next);
  }
  function switchView(on) {
    if (on) {
      const now = value();
      box.value = writeJson(now === BAD || now === ABSENT ? new Map() : now, "  ");
      if (now === BAD) return say("A field is not well-formed: correct it first.");
      body.replaceWith(box);
      box.focus();
    } else {
      try {
        fill(readJson(box.value));
      } catch (error) {
        return say(`This JSON does not fit the form: ${error.message}.`);
      }
      box.replaceWith(body);
    }
    asJson = on;
    say("");
    flip.textContent = on ? "Edit as form" : "Edit as JSON";
    flip.setAttribute("aria-pressed", String(on));
    changed();
  }

  return {
    node,
    get asJson() {
      return asJson;
    },
    text() {
      if (asJson) {
        try {
          if (!(readJson(box.value) instanceof Map) && whole)
            throw new Error("the arguments of a tool must be an object: {…}");
        } catch (error) {
          say(`This is not JSON: ${error.message}.`);
          return null;
        }
        say(far);
        return box.value;
      }
      const now = value();
      return now === BAD || now === ABSENT ? null : writeJson(now);
    },
    set(text_) {
      if (asJson) box.value = writeJson(readJson(text_), "  ");
      else fill(readJson(text_));
      changed();
    },
    // The well-formed part, for validation; and the names of the other fields.
    part() {
      const now = asJson ? ABSENT : value(true);
      return { text: now === BAD || now === ABSENT ? null : writeJson(now), unread };
    },
    show(faults) {
      far = "";
      if (asJson) far = sentence(faults);
      else if (whole)
        far = sentence([
          ...faults.filter((fault) => !fault.path.length),
          ...whole.show(faults.filter((fault) => fault.path.length)),
        ]);
      else single.show(faults);
      say(far);
    },
    reveal(faults) {
      revealing = { focus: null };
      this.show(faults);
      const first = revealing.focus;
      revealing = null;
      (first ?? body.querySelector("[aria-invalid='true']"))?.focus();
    },
    focus() {
      (asJson ? box : body.querySelector("textarea, input, select, button"))?.focus();
    },
  };
}
