// The order of the cards: open ones by warnings, then by age; decided ones by the time of the decision. Nothing moves under
// a person's hand: while the pointer or the focus is in the list, what stands down to there keeps its place.

const MOST_FULL = 3;
const MOST_WARNED = 12; // in full; a flood of them would make the page too long to be used

/** @typedef {{ warnings: number, seq: number, brief?: boolean }} Entry a card, or a table of cards */

// Entries are cards and tables of cards, each with `warnings` (a number) and `seq`.
/** @type {<E extends Entry>(entries: E[]) => E[]} */
export function sortEntries(entries) {
  return [...entries].sort((a, b) => b.warnings - a.warnings || a.seq - b.seq);
}

// The order in which the nodes are to stand. `now` are the nodes in the list, `wanted` all nodes in the order of `sortEntries`,
// `held` the last node that may not move, or null.
/** @type {<N>(now: N[], wanted: N[], held: N | null) => N[]} */
export function placeEntries(now, wanted, held) {
  const fixed = held ? now.slice(0, now.indexOf(held) + 1) : [];
  return [...fixed, ...wanted.filter((node) => !fixed.includes(node))];
}

// Which entries are shown in full: those with warnings, all of a few, else one, the first, and those that were opened before.
// The entries are in order. `brief` of one is undefined while it is new. `mayGrow(entry)` says whether showing it in full moves nothing that is held.
/** @type {<E extends Entry>(entries: E[], mayGrow?: (entry: E) => boolean) => Set<E>} */
export function chooseFull(entries, mayGrow = () => true) {
  const few = entries.length <= MOST_FULL;
  const full = new Set(
    entries.filter(
      (entry, n) =>
        entry.brief === false ||
        ((few || (entry.warnings && n < MOST_WARNED)) && (entry.brief === undefined || mayGrow(entry))),
    ),
  );
  if (!full.size && entries.length) full.add(entries.find(mayGrow) ?? entries[0]);
  return full;
}
