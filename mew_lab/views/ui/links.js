// Links from one part to another: a part registers what it can show, and another part asks for it. Parts are separate
// modules in the page, so they meet at the elements: `mewOpen` on the section of a part, `mewReveal` on that of a panel.

/**
 * What another part is asked to show. Each part reads what it knows: a message by `id` or by `seq`, or a `context`; in the
 * cards, the `first` open one; in the messages, a `filter`, or the time from `since` to `until` (seconds since 1970).
 * @typedef {{ id?: string, seq?: number, context?: string, first?: boolean, filter?: string, since?: number, until?: number }} Target
 */
/** @typedef {HTMLElement & { mewPart?: string, mewOpen?: (target: Target) => boolean | Promise<boolean>, mewReveal?: (part: string) => unknown }} Place the section of a part or of a panel */

// `show(target)` returns whether the part has the target, or a promise of it. Returns the function that ends the offer.
/** @type {(root: Place, part: string, show: (target: Target) => boolean | Promise<boolean>) => () => void} */
export function onOpen(root, part, show) {
  root.mewPart = part;
  root.mewOpen = show;
  return () => {
    delete root.mewOpen;
  };
}

// Shows `target` in `part`: first in the panel around `root`, else in any view of the page; returns whether one had it.
/** @type {(root: HTMLElement, part: string, target: Target) => Promise<boolean>} */
export async function openIn(root, part, target) {
  const panel = /** @type {Place | null} */ (root.closest(".mew-panel"));
  await panel?.mewReveal?.(part);
  for (const scope of panel ? [panel, document] : [document]) {
    for (const section of /** @type {NodeListOf<Place>} */ (scope.querySelectorAll(`.mew-${part}`))) {
      if (section.mewPart !== part || !(await section.mewOpen?.(target))) continue;
      section.scrollIntoView({ block: "nearest" });
      return true;
    }
  }
  return false;
}
