// Paints a prompt behind the text that is typed: each piece by its kind. Together the pieces are the text.

import { make } from "../ui/elements.js";

const TOKEN_TITLES = {
  parameter: "a parameter",
  tool: "a text of the tool",
  unknown: "no parameter",
  escaped: "a brace",
  loose: "no name",
};

// `tokens` are pairs of a text and its kind: text, parameter, tool, unknown, escaped or loose.
/** @type {(place: HTMLElement, tokens: [string, string][]) => void} */
export function paintTokens(place, tokens) {
  place.replaceChildren(
    ...tokens.map(([text, kind]) =>
      kind in TOKEN_TITLES ? make("span", { class: `mew-token mew-token-${kind}`, text }) : text,
    ),
    "\n",
  );
}
