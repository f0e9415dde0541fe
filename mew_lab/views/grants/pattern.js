// Makes the pattern of a permission from the choices of the sentence "Allow … to … with … for …".

import { JsonNumber, readJson } from "../ui/json.js";

export const METHOD_WORDS = [
  ["tools/call", "call tool"],
  ["tools/list", "list tools"],
  ["resources/read", "read resources"],
  ["resources/list", "list resources"],
  ["prompts/get", "get prompts"],
  ["prompts/list", "list prompts"],
];
export const LIMITS = [
  ["u1", "1 use"],
  ["u10", "10 uses"],
  ["m30", "30 min"],
  ["m60", "1 hour"],
  ["session", "this session"],
  ["", "until revoked"],
];

// `tool` is `participant/tool`, `participant/*`, a tool of any participant, or empty for any tool. `fixed` is a JSON object
// of arguments, or empty for any. `only` closes the pattern: no other arguments, where `fixed` is empty none at all. Returns
// `{ pattern }` or `{ fault }`, a sentence.
export function composePattern(method, tool = "", fixed = "", only = false) {
  const payload = { method },
    name = tool.trim(),
    cut = name.indexOf("/");
  const owner = cut > 0 ? name.slice(0, cut) : "",
    wanted = cut > 0 ? name.slice(cut + 1) : name;
  if (method === "tools/call") {
    const params = {};
    if (wanted && wanted !== "*") params.name = wanted;
    if (fixed.trim()) {
      let values, exact;
      try {
        [values, exact] = [JSON.parse(fixed), readJson(fixed)];
      } catch (error) {
        return { fault: 'The arguments are not JSON. Write an object, such as {"repo_path": "."}.' };
      }
      if (values === null || typeof values !== "object" || Array.isArray(values))
        return { fault: 'The arguments must be an object, such as {"repo_path": "."}.' };
      const inexact = findInexact(exact);
      if (inexact)
        return {
          fault: `The number ${inexact} has too many digits for this form. Write the pattern under “Advanced”.`,
        };
      if (Object.keys(values).length) params.arguments = values;
    }
    if (only && !params.name) return { fault: "Pick one tool: only its arguments can be limited to these." };
    if (Object.keys(params).length) payload.params = params;
  }
  const closed = only && method === "tools/call" ? { "x-closed": true } : {};
  return {
    pattern: { kind: "mcp/request", payload, ...(owner && owner !== "*" ? { to: owner } : {}), ...closed },
  };
}

// The first number that the page would change, as it is written; empty where there is none.
function findInexact(value) {
  if (value instanceof JsonNumber) {
    const [, digits, rest] = /^-?(\d+)(.*)$/.exec(value.text);
    const exact = rest
      ? Number.isFinite(Number(value.text)) && (digits + rest).replace(/e.*/i, "").length <= 16
      : Number.isSafeInteger(Number(digits));
    return exact ? "" : value.text;
  }
  const inside = value instanceof Map ? [...value.values()] : Array.isArray(value) ? value : [];
  return inside.map(findInexact).find(Boolean) ?? "";
}

// What may be written as the tool, each with a description: the known tools, and each participant for any of its tools.
/** @type {(tools: [owner: string, name: string, shown: string][], holders: [name: string, shown: string][]) => [value: string, shown: string][]} */
export function suggestTools(tools, holders) {
  return [
    ...tools.map(([owner, name, shown]) => /** @type {[string, string]} */ ([`${owner}/${name}`, shown])),
    ...holders.map(([name, shown]) => /** @type {[string, string]} */ ([`${name}/`, `any of ${shown}`])),
  ];
}

// The limits of a grant as its act takes them.
export function readLimit(value) {
  const amount = Number(value.slice(1));
  return {
    minutes: value[0] === "m" ? amount : null,
    uses: value[0] === "u" ? amount : null,
    session: value === "session",
  };
}
