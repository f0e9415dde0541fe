"""What a hostile peer writes: at least 200 ways by which text has become markup, script or a request somewhere.

Each payload, were it taken for markup, would open a dialog, set `window.mewTaken`, or ask 127.0.0.1:9 for something.
`listen` and `harmless` tell whether any of that happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from playwright.sync_api import Locator
from real_lab import Notebook

RUN = "alert(window.mewTaken=1)"
NOWHERE = "http://127.0.0.1:9"

# Elements that fire an event by themselves, or by a touch, each with that event.
_EVENTS = [
    ("img src=x", "onerror"), ("img src=x:x", "onerror"), ("image src=x", "onerror"), ("svg", "onload"),
    ("svg/onload=0", "onload"), ("body", "onload"), ("body", "onpageshow"), ("body", "onfocus"),
    ("iframe", "onload"), ("iframe srcdoc=x", "onload"), ("object data=x", "onerror"), ("embed src=x", "onerror"),
    ("video src=x", "onerror"), ("video", "oncanplay"), ("video><source src=x", "onerror"), ("audio src=x", "onerror"),
    ("audio autoplay src=x", "onerror"), ("input autofocus", "onfocus"), ("select autofocus", "onfocus"),
    ("textarea autofocus", "onfocus"), ("button autofocus", "onfocus"), ("keygen autofocus", "onfocus"),
    ("a id=x tabindex=1", "onfocus"), ("div contenteditable autofocus", "onfocus"), ("details open", "ontoggle"),
    ("marquee", "onstart"), ("marquee loop=1", "onfinish"), ("style", "onload"), ("link rel=stylesheet href=x", "onerror"),
    ("script src=x", "onerror"), ("frameset", "onload"), ("table background=x", "onload"), ("bgsound src=x", "onload"),
    ("meter value=2 min=0 max=10", "onmouseover"), ("div style=animation:x", "onanimationstart"),
    ("div style=transition:1s", "ontransitionend"), ("p", "onpointerenter"), ("p", "onmouseover"), ("p", "onwheel"),
    ("b", "oncopy"), ("form", "onsubmit"), ("form", "onreset"), ("input type=image src=x", "onerror"),
    ("dialog open", "onclose"), ("track src=x", "onerror"), ("math href=x", "onclick"), ("area", "onfocus"),
    ("svg><animate attributeName=x dur=1s", "onbegin"), ("svg><set attributeName=x", "onbegin"),
    ("svg><image href=x", "onerror"), ("svg><use href=x", "onload"), ("custom-element", "onclick"),
]  # fmt: skip

# How an attribute, a quote, a comment or another context is left behind before the element begins.
_OUT_OF = [
    '">',
    "'>",
    "-->",
    "</title>",
    "</style>",
    "</textarea>",
    "</script>",
    "]]>",
    "</noscript>",
    "`>",
    '\\">',
    "&quot;>",
]

_URLS = [
    f"javascript:{RUN}", f"JaVaScRiPt:{RUN}", f"java\tscript:{RUN}", f"java\nscript:{RUN}", f"\x01javascript:{RUN}",
    f" javascript:{RUN}", f"javascript&colon;{RUN}", f"&#106;avascript:{RUN}", f"&#x6A;avascript:{RUN}",
    f"javascript://%0a{RUN}", f"vbscript:{RUN}", f"data:text/html,<script>{RUN}</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==", f"data:image/svg+xml,<svg onload={RUN}>",
    f"blob:{NOWHERE}/x", f"{NOWHERE}/pixel.png", "//127.0.0.1:9/pixel.png", f"feed:javascript:{RUN}",
]  # fmt: skip
_TAKES_URL = [
    '<a href="{}">Approve</a>', '<img src="{}">', '<iframe src="{}"></iframe>', '<form action="{}"><button>Approve</button></form>',
    "[Approve]({})", "![pixel]({})", '<svg><a xlink:href="{}"><text>x</text></a></svg>', "<{}>",
]  # fmt: skip

_WHOLE = [
    f"<script>{RUN}</script>", f"<ScRiPt>{RUN}</sCrIpT>", f"<script\n>{RUN}</script\n>", f"<<script>{RUN};//<</script>",
    f"<script/x>{RUN}</script>", f"<scr<script>ipt>{RUN}</scr</script>ipt>", f"<script type=module>{RUN}</script>",
    f"<script src={NOWHERE}/x.js></script>", f"\x00<script>{RUN}</script>", f"<svg><script>{RUN}</script></svg>",
    f"<svg><script href={NOWHERE}/x.js></script></svg>", f"<template><script>{RUN}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>", f"<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror={RUN}&gt;'>",
    f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={RUN}>", f"<svg></p><style><a id='</style><img src=1 onerror={RUN}>'>",
    f"<svg><foreignObject><body onload={RUN}></foreignObject></svg>", f"<listing>&lt;img src=x onerror={RUN}&gt;</listing>",
    f"<xmp><img src=x onerror={RUN}></xmp>", f"<plaintext><img src=x onerror={RUN}>", f"<select><noembed></select><script>{RUN}</script>",
    f"<a href=x style='x:expression({RUN})'>x</a>", f"<style>@import '{NOWHERE}/x.css';</style>", f"<style>*{{background:url({NOWHERE}/x)}}</style>",
    f"<div style=background:url({NOWHERE}/y)>x</div>", f"<base href={NOWHERE}/>", f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>",
    f"<meta http-equiv=refresh content='0;url={NOWHERE}'>", f"<link rel=prefetch href={NOWHERE}/z>", f"<link rel=stylesheet href={NOWHERE}/s.css>",
    f"<object data='data:text/html,<script>{RUN}</script>'></object>", f"<embed src='{NOWHERE}/e'>", f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<?xml version='1.0'?><x:script xmlns:x='http://www.w3.org/1999/xhtml'>{RUN}</x:script>", f"<!--><img src=x onerror={RUN}>-->", f"<![CDATA[<img src=x onerror={RUN}>]]>",
    f"&lt;img src=x onerror={RUN}&gt;", f"&#60;img src=x onerror={RUN}&#62;", f"\\u003cimg src=x onerror={RUN}\\u003e", f"\\x3cimg src=x onerror={RUN}\\x3e",
    f"%3Cimg%20src=x%20onerror={RUN}%3E", f"+ADw-script+AD4-{RUN}+ADw-/script+AD4-", f"\uff1cscript\uff1e{RUN}\uff1c/script\uff1e", f"javascript:/*--></title></style></textarea></script></xmp><svg/onload='+/\"/+/onmouseover=1/+/[*/[]/+{RUN}//'>",
    f"';{RUN};//", f'";{RUN};//', f"`;{RUN};//", f"${{{RUN}}}", f"{{{{constructor.constructor('{RUN}')()}}}}", f"{{{{{RUN}}}}}", f"<%= {RUN} %>", f"#{{{RUN}}}", f"$({RUN})", f"\\({RUN}\\)", f"$$\\href{{javascript:{RUN}}}{{x}}$$",
    f"</script><script>{RUN}</script>", f"*/{RUN}/*", f"\u2028{RUN}\u2029//", "__proto__", "constructor", "toString", "hasOwnProperty",
    '<button class="mew-approve" aria-disabled="false">Approve</button>', '<button data-commandlinker-command="notebook:run-all-cells">Run</button>',
    "<div class='jp-Notebook'>", "IPY_MODEL_0000", "<input type=checkbox checked>", f"<p id=x tabindex=0 accesskey=a onclick={RUN}>", "<h1>system:gateway</h1>",
    "a\u202eb\u2066c", "a\u200bb\u200dc\ufeffd", "x\U000e0041\U000e0042y", "\x1b[31mred\x1b[0m\x1b]8;;http://127.0.0.1:9\x07link", "first\rsecond", "a\x00b\x07c\x7fd", "p\u0430ypal", "a\u0300" * 60, "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
]  # fmt: skip

PAYLOADS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            *(f"<{element} {event}={RUN}>" for element, event in _EVENTS),
            *(f"{out}<img src=x onerror={RUN}>" for out in _OUT_OF),
            *(f"{out}<svg onload={RUN}>" for out in _OUT_OF),
            *(shape.format(url) for url in _URLS for shape in _TAKES_URL),
            *_WHOLE,
        ]
    )
)

_ADDRESSES = ("href", "src", "action", "formaction", "srcdoc", "xlink:href", "data", "background")

# The names of all elements below the root, and of their attributes those that could run or load something.
_FOUND = """(root, addresses) => {
  const names = new Set(), handlers = [], loads = [];
  for (const node of root.querySelectorAll('*')) {
    const name = node.tagName.toLowerCase();
    names.add(name);
    for (const one of node.attributes) {
      if (one.name.startsWith('on')) handlers.push(`<${name} ${one.name}>`);
      if (addresses.includes(one.name) && one.value) loads.push([name, one.name, one.value]);
    }
  }
  return { names: [...names], handlers, loads };
}"""


def listen(book: Notebook) -> list[str]:
    """The addresses that the page asks for from now on."""
    asked: list[str] = []
    book.tab.on("request", lambda request: asked.append(request.url))
    return asked


def harmless(book: Notebook, root: Locator, *, allowed: Iterable[str], asked: list[str]) -> None:
    """Nothing of what was shown below `root` ran, loaded, or became an element other than `allowed`."""
    found = root.evaluate(_FOUND, list(_ADDRESSES))
    assert found["names"], "the view shows nothing"
    strange = set(found["names"]) - set(allowed)
    assert not strange, f"elements that a view has no use for: {strange}"
    assert not found["handlers"], f"elements with handlers: {found['handlers']}"
    for name, key, address in found["loads"]:
        assert address.startswith(("blob:", "https:", "http:", "mailto:")), f"<{name} {key}={address!r}>"
    assert [url for url in asked if "127.0.0.1:9/" in url or url.endswith("127.0.0.1:9")] == []
    assert book.tab.evaluate("window.mewTaken ?? null") is None
    assert book.page.dialogs == []


def as_python() -> str:
    """A line of code that gives a kernel the payloads, as `PAYLOADS`."""
    return f"import json; PAYLOADS = json.loads({json.dumps(list(PAYLOADS))!r})"
