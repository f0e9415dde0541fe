// Reads and writes JSON exactly: a number keeps its text, and a member may have any name, `__proto__` too.
// Objects are Maps, numbers are JsonNumber, the rest is what it is in JavaScript.

export class JsonNumber {
  constructor(text) {
    this.text = text;
  }
}

export const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const JSON_DEPTH = 60;

export function readJson(text) {
  const token =
    /\s*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\.)*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)(?![a-z]))/y;
  let at = 0;
  function next() {
    token.lastIndex = at;
    const match = token.exec(text);
    if (!match) {
      const rest = text.slice(at).trimStart();
      throw new Error(
        rest
          ? `no JSON at “${rest.slice(0, 20)}” (character ${text.length - rest.length + 1})`
          : "the JSON ends too early",
      );
    }
    at = token.lastIndex;
    return match;
  }
  function string(written) {
    try {
      return JSON.parse(written);
    } catch (error) {
      throw new Error(`no JSON string: ${written.slice(0, 20)}`);
    }
  }
  function value(match, depth) {
    if (depth > JSON_DEPTH) throw new Error(`nested more than ${JSON_DEPTH} levels deep`);
    const [, sign, text_, number, word] = match;
    if (text_ !== undefined) return string(text_);
    if (number !== undefined) return new JsonNumber(number);
    if (word !== undefined) return word === "null" ? null : word === "true";
    if (sign === "[") {
      const items = [];
      let part = next();
      if (part[1] === "]") return items;
      for (;;) {
        items.push(value(part, depth + 1));
        const after = next()[1];
        if (after === "]") return items;
        if (after !== ",") throw new Error("a comma is missing between two items of an array");
        part = next();
      }
    }
    if (sign === "{") {
      const members = new Map();
      let part = next();
      if (part[1] === "}") return members;
      for (;;) {
        if (part[2] === undefined) throw new Error("the name of a member needs double quotes");
        const name = string(part[2]);
        if (members.has(name)) throw new Error(`the name ${part[2].slice(0, 40)} is given twice`);
        if (next()[1] !== ":") throw new Error("a colon is missing between a name and its value");
        members.set(name, value(next(), depth + 1));
        const after = next()[1];
        if (after === "}") return members;
        if (after !== ",") throw new Error("a comma is missing between two members of an object");
        part = next();
      }
    }
    throw new Error(`a value was expected, not ${sign}`);
  }
  const whole = value(next(), 0);
  if (text.slice(at).trim())
    throw new Error(`more follows after the value: “${text.slice(at).trim().slice(0, 20)}”`);
  return whole;
}

// `indent` "" writes one line; else each level is indented by it.
export function writeJson(value, indent = "", before = "") {
  if (value instanceof JsonNumber) return value.text;
  const inside = before + indent,
    line = indent ? `\n${inside}` : "",
    end = indent ? `\n${before}` : "",
    comma = indent ? "," : ", ";
  if (Array.isArray(value)) {
    return value.length
      ? `[${line}${value.map((item) => writeJson(item, indent, inside)).join(comma + line)}${end}]`
      : "[]";
  }
  if (value instanceof Map) {
    const members = Array.from(
      value,
      ([name, item]) => `${JSON.stringify(name)}: ${writeJson(item, indent, inside)}`,
    );
    return members.length ? `{${line}${members.join(comma + line)}${end}}` : "{}";
  }
  return JSON.stringify(value);
}
