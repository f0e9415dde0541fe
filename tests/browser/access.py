"""Checks that hold for every view: usable without a mouse, without colours, on a phone and on a wall.

Names, roles and contrast follow WCAG 2.2 AA: 4.5 to 1 for text, 3 to 1 for large text.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator
from real_lab import Notebook

_NAMES = """root => {
  const bad = [];
  const name = (n) => (n.getAttribute('aria-label') || (n.getAttribute('aria-labelledby') || '').split(' ').map(i => document.getElementById(i)?.textContent || '').join(' ')
    || [...(n.labels || [])].map(l => l.textContent).join(' ') || n.textContent || n.getAttribute('title') || n.getAttribute('placeholder') || '').trim();
  for (const n of root.querySelectorAll('button, a[href], input, select, textarea, [role=button], [role=tab], [role=treeitem], [role=menuitem], [role=grid], [role=tree], [role=dialog], svg[role=img], canvas'))
    if (n.getClientRects().length && n.getAttribute('aria-hidden') !== 'true' && !name(n)) bad.push('without a name: ' + n.outerHTML.slice(0, 120));
  for (const n of root.querySelectorAll('[tabindex]')) if (Number(n.getAttribute('tabindex')) > 0) bad.push('jumps the order: ' + n.outerHTML.slice(0, 120));
  for (const n of root.querySelectorAll('[aria-describedby], [aria-controls], [aria-activedescendant], [aria-labelledby]'))
    for (const key of ['aria-describedby', 'aria-labelledby']) for (const id of (n.getAttribute(key) || '').split(' ').filter(Boolean)) if (!document.getElementById(id)) bad.push(`${key} names nothing: ${id}`);
  for (const n of root.querySelectorAll('table')) if (!n.querySelector('th') && n.getAttribute('role') !== 'presentation') bad.push('a table without headings');
  if (!root.querySelector('[aria-live]')) bad.push('nothing is announced');
  if (!(root.getAttribute('aria-label') || root.querySelector('[aria-label]'))) bad.push('the view has no name');
  return bad;
}"""

_CONTRAST = """root => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const over = (top, under) => { const a = top[3] ?? 1; return [0, 1, 2].map(i => top[i] * a + under[i] * (1 - a)); };
  const light = (c) => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (n) => { const layers = []; for (; n; n = n.parentElement) { const c = rgb(getComputedStyle(n).backgroundColor); if (c.length && (c[3] ?? 1) > 0) { layers.push(c); if ((c[3] ?? 1) === 1) break; } }
    let c = [255, 255, 255]; for (const one of layers.reverse()) c = over(one, c); return c; };
  const bad = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, n = text.parentElement;
    if (!text.textContent.trim() || !n.getClientRects().length || n.closest('[aria-hidden=true], .mew-heard, [aria-disabled=true], :disabled, option, svg')) continue;
    const style = getComputedStyle(n); if (style.visibility === 'hidden' || Number(style.opacity) === 0) continue;
    const under = ground(n), ink = over(rgb(style.color), under);
    const [a, b] = [light(ink), light(under)], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.push(`${ratio.toFixed(2)}: ${text.textContent.trim().slice(0, 40)} (${style.color} on ${under.map(Math.round)}; ${n.className})`);
  }
  return [...new Set(bad)];
}"""


_WIDTH = """([root, width]) => { root.style.width = width ? width + 'px' : ''; return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
  const edge = root.getBoundingClientRect(); const out = [];
  for (const n of root.querySelectorAll('button, input, select, textarea, summary')) {
    if (!n.getClientRects().length || n.closest('[aria-hidden=true]')) continue;
    let held = false; for (let p = n.parentElement; p && p !== root; p = p.parentElement) { const o = getComputedStyle(p).overflowX; if (o === 'auto' || o === 'scroll' || o === 'hidden' || o === 'clip') { held = true; break; } }
    const box = n.getBoundingClientRect(); if (!held && (box.right > edge.right + 1 || box.left < edge.left - 1)) out.push(n.outerHTML.slice(0, 100));
  }
  done(out); }))); }"""


def accessible(
    book: Notebook, root: Locator, *, widths: tuple[int, ...] = (360, 1600), pictures: str = ""
) -> None:
    """Names, roles, announcements, contrast in both themes, and nothing to press outside the view at these widths.

    `pictures` names those that are taken on the way: of both themes, and of each narrow width.
    """
    faults: list[Any] = list(root.evaluate(_NAMES))
    for theme in ("dark", "light"):
        book.page.theme(theme)
        faults += [f"{theme} {one}" for one in root.evaluate(_CONTRAST)]
        if pictures:
            book.page.shot(f"{pictures}-{theme}", root)
    handle = root.element_handle()
    for width in widths:
        faults += [f"outside at {width} px: {one}" for one in book.tab.evaluate(_WIDTH, [handle, width])]
        if pictures and width < 1000:
            book.page.shot(f"{pictures}-{width}", root)
    book.tab.evaluate(_WIDTH, [handle, 0])
    assert faults == [], "\n".join(map(str, faults))


def focus_path(book: Notebook, root: Locator, *, most: int = 60) -> list[str]:
    """What Tab reaches inside the view, in order, as `tag name`; begins before its first stop."""
    root.evaluate(
        "r => { const s = document.createElement('span'); s.tabIndex = -1; s.id = 'mew-before'; r.before(s); s.focus(); }"
    )
    path: list[str] = []
    for _ in range(most):
        book.tab.keyboard.press("Tab")
        here = root.evaluate(
            """r => { const n = document.activeElement; if (!r.contains(n)) return null;
            return n.tagName.toLowerCase() + ' ' + (n.getAttribute('aria-label') || n.textContent || n.getAttribute('placeholder') || '').trim().slice(0, 60); }"""
        )
        if here is None:
            break
        path.append(here)
    root.evaluate("() => document.getElementById('mew-before')?.remove()")
    return path
