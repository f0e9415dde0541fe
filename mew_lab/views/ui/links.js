// Links from one part to another: a part registers what it can show, and another part asks for it. Parts are separate
// modules in the page, so they meet at the elements: `mewOpen` on the section of a part, `mewReveal` on that of a panel.

// `show(target)` returns whether the part has the target, or a promise of it. Returns the function that ends the offer.
export function onOpen(root, part, show) {
  root.mewPart = part;
  root.mewOpen = show;
  return () => { delete root.mewOpen; };
}

// Shows `target` in `part`: first in the panel around `root`, else in any view of the page; returns whether one had it.
export async function openIn(root, part, target) {
  const panel = root.closest(".mew-panel");
  await panel?.mewReveal?.(part);
  for (const scope of panel ? [panel, document] : [document]) {
    for (const section of scope.querySelectorAll(`.mew-${part}`)) {
      if (section.mewPart !== part || !(await section.mewOpen?.(target))) continue;
      section.scrollIntoView({ block: "nearest" });
      return true;
    }
  }
  return false;
}
