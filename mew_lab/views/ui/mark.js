// Words that a reader searches for, and their places in a text.

import { make } from "./elements.js";

// The words of a search, in lower case.
/** @type {(text: string) => string[]} */
export function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

// Writes the text into the node, with the places of the words marked, which are in lower case.
/** @type {<N extends HTMLElement>(node: N, text: string, words: string[]) => N} */
export function markText(node, text, words) {
  const lower = words.length ? text.toLowerCase() : "",
    parts = [];
  let at = 0;
  // A letter whose small form is longer would shift the places.
  while (lower.length === text.length && at < text.length) {
    const places = words.map((word) => lower.indexOf(word, at)),
      first = Math.min(...places.filter((place) => place >= 0));
    if (first === Infinity) break;
    const end = first + words[places.indexOf(first)].length;
    parts.push(text.slice(at, first), make("mark", { text: text.slice(first, end) }));
    at = end;
  }
  if (parts.length)
    node.replaceChildren(...parts.filter(Boolean), ...(at < text.length ? [text.slice(at)] : []));
  else node.textContent = text;
  return node;
}
