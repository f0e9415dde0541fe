"""A gateway of whom everything is a lie: every payload in every string of every kind, all parts open, on three kernels.

The gateway is a real WebSocket server that sends what it likes, so ids, names, kinds and reasons are as hostile as texts.
What is ever put into the page is looked at when it is put there, also if it is gone a moment later. Each payload ends with
its number, by which is known which parts have shown it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus import _ADDRESSES, PAYLOADS, as_python, harmless, listen
from real_lab import Notebook

sys.path.insert(0, str(Path(__file__).parents[1] / "protocol"))

from test_payloads import EXAMPLES

# The page is the same for each kernel: that of the notebook takes all payloads, in two halves, each other one a quarter.
TURNS = [("here", slice(0, None, 2)), ("here", slice(1, None, 2))]
TURNS += [("7.3.0", slice(1, None, 4)), ("6.31.0", slice(2, None, 4))]
PARTS = ["approvals", "roster", "feed", "reasoning", "chat", "streams", "tools", "timeline", "grants"]
ALLOWED = (
    "section header kbd optgroup dl dt dd div span b strong em s p bdi ul ol li pre code blockquote hr br a table colgroup col thead tbody tr th td time "
    "button label select option datalist input textarea fieldset legend del ins mark details summary form svg g path line rect "
    "circle text title img canvas"
)

GATEWAY = f"""
import asyncio, json, threading, time, mew_lab
from websockets.sync.server import serve
{as_python()}
EXAMPLES = json.loads({json.dumps(json.dumps(EXAMPLES))})
wires, count = [], 0
ALL = [{{"kind": "*"}}]

def say(wire, kind, payload, **members):
    global count
    count += 1
    own = "system:gateway" if kind.startswith("system/") or kind in OWN else "eve"
    given = {{"protocol": "mew/v0.4", "id": f"g-{{count}}", "ts": "2026-01-01T00:00:00Z", "from": own, "to": ["agent" if kind.startswith("participant/") else "human"], "kind": kind, "payload": payload}}
    given |= members
    wire.send(json.dumps(given))
    return given["id"]

OWN = {{"stream/open", "stream/close", "stream/write-granted", "stream/write-revoked", "stream/ownership-transferred", "capability/grant-ack", "space/invite-ack"}}

def gateway(wire):
    wires.append(wire)
    people = [{{"id": one, "capabilities": ALL}} for one in ("eve", "agent")]
    say(wire, "system/welcome", {{"you": {{"id": "human", "capabilities": ALL}}, "participants": people, "active_streams": []}})
    for text in wire:
        asked = json.loads(text)
        method = asked.get("payload", {{}}).get("method") if asked.get("kind") == "mcp/request" else None
        if method == "tools/list":
            tools = []
            for bad in NOW:
                schema = {{"type": "object", "description": bad, "required": [bad], "properties": {{bad: {{"type": "string", "title": bad, "description": bad, "default": bad, "enum": [bad]}}}}}}
                tools += [{{"name": f"t{{count}}-{{len(tools)}}", "title": bad, "description": bad, "inputSchema": schema}}, {{"name": bad, "description": bad, "inputSchema": schema}}]
            say(wire, "mcp/response", {{"jsonrpc": "2.0", "id": asked["payload"].get("id"), "result": {{"tools": tools}}}}, correlation_id=[asked["id"]], **{{"from": asked["to"][0]}})

server = serve(gateway, "127.0.0.1", 0)
threading.Thread(target=server.serve_forever, daemon=True).start()
NOW = ["nothing yet"]

def strings(value, bad):
    "Copies of a JSON value, each with another of its strings (or names of members) replaced."
    if isinstance(value, str):
        yield bad
    elif isinstance(value, list):
        for n, one in enumerate(value):
            for other in strings(one, bad):
                yield value[:n] + [other] + value[n + 1:]
    elif isinstance(value, dict):
        yield value | {{bad: bad}}
        for name, one in value.items():
            for other in strings(one, bad):
                yield value | {{name: other}}

open_now = []
def batch(numbers):
    global NOW
    NOW = [f"{{PAYLOADS[n]}}§{{n}}§" for n in numbers]
    root = say(wires[-1], "chat", {{"text": "what follows"}})
    for n, bad in zip(numbers, NOW):
        one(wires[-1], n, bad)
        say(wires[-1], "chat", {{"text": bad, "format": "markdown"}}, correlation_id=[root], **{{"from": bad}})
    say(wires[-1], "mcp/request", {{"method": "notifications/tools/list_changed"}})
    end = time.monotonic() + 10
    while lab.rows.last_seq < count - 1 and time.monotonic() < end: time.sleep(0.01)
    lab.view.timeline.select(root)

def one(wire, n, bad):
    first = {{kind: say(wire, kind, payload) for kind, payload in EXAMPLES if kind in ("mcp/request", "mcp/proposal", "chat", "capability/grant", "space/invite")}}
    first["reasoning/start"] = say(wire, "reasoning/start", {{"message": bad}})
    first["stream/request"] = say(wire, "stream/request", {{"direction": "upload", "description": bad}})
    say(wire, "stream/open", {{"stream_id": f"s{{n}}" + bad, "description": bad}}, correlation_id=[first["stream/request"]])
    about = {{"mcp/response": "mcp/request", "mcp/reject": "mcp/proposal", "mcp/withdraw": "mcp/proposal", "chat/acknowledge": "chat", "chat/cancel": "chat",
             "capability/grant-ack": "capability/grant", "space/invite-ack": "space/invite"}}
    say(wire, "system/presence", {{"event": "join", "participant": {{"id": "eve" + bad, "capabilities": [{{"kind": bad}}, {{"kind": "chat", bad: bad}}]}}}})
    for kind, payload in EXAMPLES:
        if kind == "system/welcome":
            continue
        members = {{"correlation_id": [first[about[kind]]]}} if kind in about else {{}}
        if kind.startswith("reasoning/") and kind != "reasoning/start":
            members["context"] = first["reasoning/start"]
        for other in strings(payload, bad):
            id = say(wire, kind, other, **members)
            if kind == "mcp/proposal":
                open_now.append(id)
        for name, value in (("from", bad), ("from", "eve" + bad), ("to", [bad]), ("context", bad), ("id", bad), ("correlation_id", [bad])):
            say(wire, kind, payload, **members | {{name: value}})
    say(wire, bad, {{bad: bad}})

def calm():
    while open_now:
        say(wires[-1], "mcp/withdraw", {{"reason": "no_longer_needed"}}, correlation_id=[open_now.pop()])
    for bad in NOW:
        say(wires[-1], "system/presence", {{"event": "leave", "participant": {{"id": "eve" + bad}}}})

lab = mew_lab.connect(f"ws://127.0.0.1:{{server.socket.getsockname()[1]}}/ws", space="demo", token="secret-of-nobody")
lab.view.feed.columns = ["seq", "from", "to", "kind", "what", "context", "verdict"]
"""
SHOW = f"""
import ipywidgets
ipywidgets.VBox([getattr(lab.view, name).widget for name in {PARTS}])
"""

WATCH = """([index, allowed, addresses, parts]) => {
  const root = document.querySelectorAll('.jp-Notebook .jp-Cell')[index].querySelector('.jp-OutputArea');
  const strange = window.mewStrange = new Set(), shown = window.mewShown = {};
  for (const part of parts) shown[part] = new Set();
  const texts = (part, text) => { for (const [, n] of (text ?? '').matchAll(/\\u00a7(\\d+)\\u00a7/g)) part?.add(Number(n)); };
  const look = (node, part) => {
    const name = node.tagName.toLowerCase();
    if (!allowed.includes(name)) strange.add(`<${name}>`);
    for (const one of node.attributes) {
      if (one.name.startsWith('on')) strange.add(`<${name} ${one.name}>`);
      if (addresses.includes(one.name) && one.value && !/^(blob:|https?:|mailto:|data:image)/.test(one.value)) strange.add(`<${name} ${one.name}=${one.value}>`);
      texts(part, one.value);
    }
  };
  const partOf = (node) => {
    const section = (node.nodeType === 1 ? node : node.parentElement)?.closest('section.mew');
    const name = parts.find((one) => section?.classList.contains(`mew-${one}`));
    return shown[name];
  };
  const all = (node) => {
    const part = partOf(node);
    texts(part, node.textContent);
    if (node.nodeType !== 1) return;
    look(node, part);
    for (const one of node.querySelectorAll('*')) look(one, part);
  };
  all(root);
  new MutationObserver((records) => {
    for (const record of records) {
      if (record.type === 'childList') record.addedNodes.forEach(all);
      else if (record.type === 'attributes') look(record.target, partOf(record.target));
      else texts(partOf(record.target), record.target.textContent);
    }
  }).observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
}"""
# Opens what is folded in each part, and a row, a tool and a stream: what stands there is looked at as well.
BATCH = """async ([numbers, parts, patience]) => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const exec = (code) => kernel.requestExecute({ code }).done;
  const all = (part) => numbers.every((n) => window.mewShown[part].has(n));
  const answer = await exec(`batch(${JSON.stringify(numbers)})`);
  const end = performance.now() + patience;
  while (performance.now() < end && !parts.every(all)) await new Promise((next) => setTimeout(next, 20));
  // The feed draws what is in its window alone: a page that paints seldom has gone past rows, to which we scroll back.
  const feed = document.querySelector('section.mew-feed .mew-scroller');
  for (let up = 1; up < 16 && !all('feed'); up++) {
    feed.scrollTop = feed.scrollHeight - (up + 1) * feed.clientHeight;
    await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
  }
  feed.scrollTop = feed.scrollHeight;
  for (const part of parts) {
    const folded = `:is([aria-expanded="false"], .mew-chips, .mew-may, .mew-tool, td.mew-what, summary)`;
    const found = [...document.querySelectorAll(`section.mew-${part} ${folded}`)].filter((one) => one.checkVisibility());
    for (const one of found.slice(-OPENED)) { one.click(); await new Promise((next) => setTimeout(next, 20)); }
  }
  await exec(`calm()`);
  return answer.content.status === 'ok' ? '' : `${answer.content.ename}: ${answer.content.evalue}`;
}""".replace("OPENED", "12")
AT_ONCE = 16
PATIENCE = 8000  # milliseconds for all parts to show a batch, on a slow machine


@pytest.mark.slow
@pytest.mark.threat(3, 4)
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("version", "turn"), TURNS, ids=["here", "here-2", "7.3.0", "6.31.0"])
def test_threat_03_every_payload_in_every_string_of_every_kind_in_every_part(
    notebook: Callable[..., Notebook], kernel_of: Callable[[str], str], version: str, turn: slice
) -> None:
    kernel = version if version == "here" else kernel_of(version)
    state = (
        "import json\nprint(json.dumps({name: len(getattr(lab.view, name).faults) for name in "
        + str(PARTS)
        + "}))\nlab.down();"
    )
    book = notebook([GATEWAY, SHOW, state], kernel=kernel)
    asked = listen(book)
    book.run(0).run(1)
    area = book.area(1)
    area.locator("section.mew").nth(len(PARTS) - 1).wait_for()
    area.locator("section.mew-feed .mew-scroller").evaluate(
        "s => { s.style.height = '12000px'; s.style.maxHeight = 'none'; }"
    )
    # Permissions begins with what this human granted: all of them are shown here.
    area.locator("section.mew-grants").get_by_label("Which permissions").select_option("")
    book.tab.evaluate(WATCH, [1, ALLOWED.split(), list(_ADDRESSES), PARTS])
    given = range(len(PAYLOADS))[turn]
    for n in range(0, len(given), AT_ONCE):
        said = book.tab.evaluate(BATCH, [[*given[n : n + AT_ONCE]], PARTS, PATIENCE])
        assert not said, f"payloads from {given[n]}: {said}"
        assert book.tab.evaluate("[...window.mewStrange]") == [], f"payloads from {given[n]}"
    shown = book.tab.evaluate(
        "Object.fromEntries(Object.entries(window.mewShown).map(([part, seen]) => [part, seen.size]))"
    )
    print(f"\nipykernel {version}: payloads that each part has shown, of {len(given)}: {shown}")
    assert book.tab.evaluate("[...window.mewStrange]") == []
    harmless(book, area, allowed=ALLOWED.split(), asked=asked)
    assert book.page.errors == []
    # Of hundreds of decided cards, a thousand here, 200 are kept, and those in tables that are still open.
    assert area.locator("li.mew-past").count() <= 600
    assert area.locator("section.mew-roster li.mew-row").count() <= 200
    assert min(shown.values()) >= 0.95 * len(given)
    book.run(2)
    assert set(json.loads(book.text(2)).values()) == {0}
