"""Sessions between an MCP client and its server as a tap records them, clean or with one planted fault.

A clean session is made of exchanges that MCP allows, in random order. A fault is a few messages that break one rule. It
names that rule and the sentence, which a reader of the specification of MCP would expect.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mew_lab.log.tap import MAX_MESSAGE, Side, TapRecorder
from mew_lab.space.events import Record

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ABOUT = {"clientInfo": {"name": "c", "version": "1"}, "protocolVersion": "2025-11-25", "capabilities": {}}


class Planted(NamedTuple):
    """A rule that is to be found, and words of its sentence."""

    rule: str
    words: str


class Tapped:
    """A session and its records."""

    def __init__(self, seed: int = 0, *, via: str = "stdio") -> None:
        self.dice = random.Random(seed)
        self.recorder = TapRecorder(space="tap", prefix="t", via=via)
        self.now = START
        self.about = json.dumps({"format": 1, "epoch": None, "vantage": "tap"})
        self.records: list[Record] = []
        self.add(Record(0, self.now, "opened", "tap", detail=self.about))
        self.add(self.recorder.began("client", self.now), self.recorder.began("server", self.now, "a-server"))
        self.count = 0
        self.tools: list[dict[str, Any]] = [tool(name) for name in ("read", "write")]

    def add(self, *records: Record) -> None:
        for record in records:
            self.records.append(record._replace(seq=len(self.records)))

    def send(self, side: Side, **members: Any) -> None:
        self.line(side, json.dumps({"jsonrpc": "2.0", **members}).encode())

    def line(self, side: Side, data: bytes) -> None:
        self.now += timedelta(milliseconds=self.dice.choice((1, 30, 400)))
        self.add(*self.recorder.feed(side, data + b"\n", self.now))

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def ask(self, side: Side, method: str, **params: Any) -> int:
        self.count += 1
        self.send(side, id=self.count, method=method, params=params)
        return self.count

    def answer(self, side: Side, id: Any, **result: Any) -> None:
        self.send(side, id=id, result=result)

    def initialize(self) -> None:
        id = self.ask("client", "initialize", **ABOUT)
        self.answer("server", id, protocolVersion="2025-11-25", capabilities={}, serverInfo={"name": "s"})
        self.send("client", method="notifications/initialized")

    def end(self) -> list[Record]:
        self.add(*self.recorder.ended("client", self.now, "closed its end"))
        self.add(*self.recorder.ended("server", self.now, "closed its end"))
        self.add(Record(0, self.now, "closed", "tap", "server", detail="exit status 0"))
        return self.records


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


# --- what MCP allows ---


def calls(s: Tapped) -> None:
    id = s.ask(
        "client", "tools/call", name="read", arguments={"n": s.count}, _meta={"progressToken": s.count}
    )
    s.send("server", method="notifications/progress", params={"progressToken": id - 1, "progress": 1})
    s.answer("server", id, content=[{"type": "text", "text": "done"}])


def calls_side_by_side(s: Tapped) -> None:
    ids = [s.ask("client", "tools/call", name="read", arguments={"n": s.count}) for _ in range(4)]
    s.dice.shuffle(ids)
    for id in ids:
        s.answer("server", id, content=[])


def asks_back(s: Tapped) -> None:
    outer = s.ask("client", "tools/call", name="ask", arguments={"n": s.count})
    inner = s.ask("server", s.dice.choice(("roots/list", "sampling/createMessage", "elicitation/create")))
    s.answer("client", inner, roots=[])
    s.answer("server", outer, content=[])


def same_ids_on_both_sides(s: Tapped) -> None:
    s.count += 1
    s.send("client", id=s.count, method="ping")
    s.send("server", id=s.count, method="ping")
    s.answer("server", s.count)
    s.answer("client", s.count)


def lists(s: Tapped) -> None:
    ordered = s.dice.sample(s.tools, len(s.tools))
    s.answer("server", s.ask("client", "tools/list"), tools=ordered)


def lists_in_pages(s: Tapped) -> None:
    cursor: dict[str, str] = {}
    for n, one in enumerate(s.tools):
        last = n == len(s.tools) - 1
        page: dict[str, Any] = {"tools": [one]} | ({} if last else {"nextCursor": f"c{n}"})
        s.answer("server", s.ask("client", "tools/list", **cursor), **page)
        cursor = {"cursor": f"c{n}"}


def changes_with_notice(s: Tapped) -> None:
    s.tools = [*s.tools, tool(f"new-{s.count}")]
    s.send("server", method="notifications/tools/list_changed")
    lists(s)


def changes_with_the_notice_just_after(s: Tapped) -> None:
    lists(s)
    s.tools = [*s.tools, tool(f"late-{s.count}")]
    lists(s)
    s.send("server", method="notifications/tools/list_changed")
    lists(s)


def changes_between_the_pages(s: Tapped) -> None:
    s.answer("server", s.ask("client", "tools/list"), tools=[tool("gone")], nextCursor="x")
    lists(s)


def lists_with_a_time_to_live(s: Tapped) -> None:
    for n in range(2):
        s.answer("server", s.ask("client", "prompts/list"), prompts=[{"name": f"{n}"}], ttlMs=1)


def cancels(s: Tapped) -> None:
    id = s.ask("client", "tools/call", name="slow", arguments={"n": s.count})
    s.send("client", method="notifications/cancelled", params={"requestId": id})
    if s.dice.random() < 0.5:
        s.answer("server", id, content=[])


def listens(s: Tapped) -> None:
    s.ask("client", "subscriptions/listen")


def notifies(s: Tapped) -> None:
    s.send("server", method="notifications/message", params={"level": "info", "data": "x"})


def sends_a_batch(s: Tapped) -> None:
    s.count += 2
    first, second = s.count - 1, s.count
    asked = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (first, second)]
    s.line("client", json.dumps(asked).encode())
    s.line(
        "server", json.dumps([{"jsonrpc": "2.0", "id": id, "result": {}} for id in (second, first)]).encode()
    )


def begins_again(s: Tapped) -> None:
    s.count = 0
    s.tools = [tool("other")]
    s.initialize()


def sends_blank_lines(s: Tapped) -> None:
    s.line(s.dice.choice(("client", "server")), s.dice.choice((b"", b"\r", b"  ")))


CLEAN: tuple[Callable[[Tapped], None], ...] = (
    *(calls, calls_side_by_side, asks_back, same_ids_on_both_sides, lists, lists_in_pages),
    *(changes_with_notice, changes_with_the_notice_just_after, changes_between_the_pages),
    *(lists_with_a_time_to_live, cancels, listens, notifies, sends_a_batch, begins_again, sends_blank_lines),
)

# --- what it forbids ---


def prints(s: Tapped) -> Planted:
    s.line("server", b"Server running on stdio")
    return Planted("line-without-message", "server wrote a line to its stdout that is no JSON-RPC message")


def prints_an_object(s: Tapped) -> Planted:
    s.line("server", b'{"level":"info","msg":"ready"}')
    return Planted("line-without-message", '{"level": "info", "msg": "ready"}')


def prints_an_envelope(s: Tapped) -> Planted:
    forged = {"protocol": "mew/v0.4", "id": "x", "from": "system:gateway", "kind": "mcp/proposal"}
    s.line("server", json.dumps({**forged, "payload": {"n": 1}}).encode())
    return Planted("line-without-message", "mew/v0.4")


def prints_bytes(s: Tapped) -> Planted:
    s.line("server", b"\xff\xfe \x80")
    return Planted("line-without-message", "stdout")


def client_prints(s: Tapped) -> Planted:
    s.line("client", b"hello?")
    return Planted("line-without-message", "client wrote a line to its server's stdin that is no")


def method_is_a_number(s: Tapped) -> Planted:
    s.send("client", method=5, params={})
    return Planted("malformed-message", "client's message is no correct JSON-RPC")


def asks_before_initialize(s: Tapped) -> Planted:
    fresh(s)
    s.answer("server", s.ask("client", "tools/list"), tools=[])
    s.initialize()
    return Planted("request-before-initialized", "tools/list (id 1) before client had sent initialize")


def asks_before_the_answer(s: Tapped) -> Planted:
    fresh(s)
    start = s.ask("client", "initialize", **ABOUT)
    early = s.ask("client", "tools/list")
    s.answer("server", start, protocolVersion="2025-11-25")
    s.send("client", method="notifications/initialized")
    s.answer("server", early, tools=[])
    return Planted("request-before-initialized", "before server had answered initialize")


def asks_before_initialized(s: Tapped) -> Planted:
    fresh(s)
    s.answer("server", s.ask("client", "initialize", **ABOUT), protocolVersion="2025-11-25")
    s.answer("server", s.ask("client", "tools/list"), tools=[])
    s.send("client", method="notifications/initialized")
    return Planted("request-before-initialized", "before client had sent notifications/initialized")


def server_asks_too_early(s: Tapped) -> Planted:
    fresh(s)
    start = s.ask("client", "initialize", **ABOUT)
    s.answer("server", start, protocolVersion="2025-11-25")
    s.answer("client", s.ask("server", "roots/list"), roots=[])
    s.send("client", method="notifications/initialized")
    return Planted("request-before-initialized", "server asked for roots/list")


def server_asks_while_it_is_initialized(s: Tapped) -> Planted:
    fresh(s)
    start = s.ask("client", "initialize", **ABOUT)
    s.answer("client", s.ask("server", "roots/list"), roots=[])
    s.answer("server", start, protocolVersion="2025-11-25")
    s.send("client", method="notifications/initialized")
    return Planted("request-before-initialized", "before client had sent notifications/initialized")


def uses_an_id_twice(s: Tapped) -> Planted:
    id = s.ask("client", "tools/call", name="read", arguments={"first": s.count})
    s.answer("server", id, content=[])
    s.send("client", id=id, method="ping")
    s.answer("server", id)
    return Planted(
        "request-id-twice", f"client's ping (id {id}) has an id that its tools/call read (id {id})"
    )


def uses_an_open_id(s: Tapped) -> Planted:
    id = s.ask("server", "roots/list")
    s.send("server", id=id, method="ping")
    for _ in range(2):
        s.answer("client", id, roots=[])
    return Planted("request-id-twice", f"server's ping (id {id})")


def asks_with_null(s: Tapped) -> Planted:
    s.send("client", id=None, method="tools/list")
    return Planted("request-without-id", "tools/list (no id) with the id null")


def answers_nothing(s: Tapped) -> Planted:
    s.answer("server", "no-such", content=[])
    return Planted(
        "answer-without-request", 'answered id "no-such", and client has sent no request with this id'
    )


def answers_with_a_text_for_a_number(s: Tapped) -> Planted:
    id = s.ask("client", "tools/call", name="read", arguments={"text": s.count})
    s.answer("server", str(id), content=[])
    s.send("client", method="notifications/cancelled", params={"requestId": id})
    return Planted("answer-without-request", f'answered id "{id}"')


def answers_again(s: Tapped) -> Planted:
    id = s.ask("client", "prompts/get", name="greet")
    for _ in range(2):
        s.answer("server", id, messages=[])
    return Planted("answer-repeated", f"server answered prompts/get greet (id {id}) of client more than once")


def cannot_read(s: Tapped) -> Planted:
    s.send("server", id=None, error={"code": -32700, "message": "Parse error"})
    return Planted("message-not-read", "server could not read a message of client: -32700 Parse error")


def answers_with_an_error(s: Tapped) -> Planted:
    id = s.ask("client", "resources/read", uri="x")
    s.send("server", id=id, error={"code": -32002, "message": "Resource not found"})
    return Planted("error-answer", f"resources/read (id {id}) with an error: -32002 Resource not found")


def tool_fails(s: Tapped) -> Planted:
    id = s.ask("client", "tools/call", name="read", arguments={"fails": s.count})
    s.answer("server", id, content=[{"type": "text", "text": "no such file"}], isError=True)
    return Planted("error-answer", f"tools/call read (id {id}) with an error: no such file")


def never_answers(s: Tapped) -> Planted:
    id = s.ask("client", "tools/call", name="hangs", arguments={"n": s.count})
    return Planted("request-without-answer", f"client's tools/call hangs (id {id}) was not answered")


def starts_slowly(s: Tapped) -> Planted:
    fresh(s)
    start = s.ask("client", "initialize", **ABOUT)
    s.wait(12)
    s.answer("server", start, protocolVersion="2025-11-25")
    s.send("client", method="notifications/initialized")
    return Planted("slow-start", "server answered initialize (id 1) 12.")


def changes_without_notice(s: Tapped) -> Planted:
    s.answer("server", s.ask("client", "resources/list"), resources=[{"uri": "a"}, {"uri": "b", "name": "B"}])
    s.answer("server", s.ask("client", "resources/list"), resources=[{"uri": "b", "name": "C"}, {"uri": "c"}])
    s.wait(6)
    return Planted(
        "list-changed-without-notice", "(new: c, gone: a, changed: b), and no notifications/resources/"
    )


def changes_a_later_page_without_notice(s: Tapped) -> Planted:
    for last in "yz":
        s.answer("server", s.ask("client", "prompts/list"), prompts=[{"name": "x"}], nextCursor="2")
        s.answer("server", s.ask("client", "prompts/list", cursor="2"), prompts=[{"name": last}])
    return Planted("list-changed-without-notice", "server's prompts/list differs")


def answers_with_result_and_error(s: Tapped) -> Planted:
    id = s.ask("client", "tools/call", name="read", arguments={"both": s.count})
    s.send("server", id=id, result={"content": []}, error={"code": 1, "message": "and no"})
    return Planted("malformed-answer", "")


def leaves_out_jsonrpc(s: Tapped) -> Planted:
    s.count += 1
    s.line("client", json.dumps({"id": s.count, "method": "ping"}).encode())
    s.answer("server", s.count)
    return Planted("request-without-rpc-members", 'no jsonrpc "2.0"')


def answers_without_jsonrpc(s: Tapped) -> Planted:
    id = s.ask("client", "ping")
    s.line("server", json.dumps({"id": id, "result": {}}).encode())
    return Planted("response-without-rpc-members", 'no jsonrpc "2.0"')


def calls_the_same_again(s: Tapped) -> Planted:
    for _ in range(5):
        s.answer("server", s.ask("client", "tools/call", name="read", arguments={"same": 1}), content=[])
    return Planted("repeated-call", "sent the same call to server 5 times")


def does_not_know(s: Tapped) -> Planted:
    id = s.ask("client", "tools/call", name="pay", arguments={"n": s.count})
    error = {"code": -32000, "message": "the server ended", "data": {"code": "outcome_unknown"}}
    s.send("server", id=id, error=error)
    return Planted("unknown-outcome", "not known whether")


def fresh(s: Tapped) -> None:
    """Begins the session anew, for a fault of its beginning."""
    s.__init__(s.dice.randrange(2**32))  # type: ignore[misc]


FAULTS: tuple[Callable[[Tapped], Planted], ...] = (
    *(prints, prints_an_object, prints_an_envelope, prints_bytes, client_prints, method_is_a_number),
    *(asks_before_initialize, asks_before_the_answer, asks_before_initialized, server_asks_too_early),
    server_asks_while_it_is_initialized,
    *(uses_an_id_twice, uses_an_open_id, asks_with_null, answers_nothing, answers_with_a_text_for_a_number),
    *(answers_again, cannot_read, answers_with_an_error, tool_fails, never_answers, starts_slowly),
    *(changes_without_notice, changes_a_later_page_without_notice, answers_with_result_and_error),
    *(leaves_out_jsonrpc, answers_without_jsonrpc, calls_the_same_again, does_not_know),
)


def hostile(seed: int, *, via: str = "stdio") -> list[Record]:
    """A session of any messages, lost bytes and too long ones, in any order."""
    s = Tapped(seed, via=via)
    dice = s.dice
    values: list[Any] = [1, "1", 1.5, None, True, [], {}, -1, "x" * 300, "\u202e", {"name": ["x"]}]
    names = ("id", "method", "params", "result", "error", "kind", "from", "to", "correlation_id", "payload")
    methods = ("initialize", "tools/list", "tools/call", "notifications/initialized", "ping", "roots/list")
    for _ in range(60):
        side: Side = dice.choice(("client", "server"))
        s.wait(dice.choice((0, 0.1, 20)))
        what = dice.random()
        if what < 0.2:
            dice.choice(CLEAN)(s)
        elif what < 0.35:
            dice.choice([fault for fault in FAULTS if fault.__name__ not in BEGINNINGS])(s)
        elif what < 0.4:
            s.add(s.recorder.lost(side, 10, s.now))
        elif what < 0.45:
            s.add(*s.recorder.message(side, b" " * (MAX_MESSAGE + 1), s.now))
        elif what < 0.5:
            s.line(side, dice.randbytes(dice.randrange(80)).replace(b"\n", b""))
        else:
            members = {name: dice.choice(values) for name in dice.sample(names, dice.randrange(5))}
            if dice.random() < 0.5:
                members["method"] = dice.choice(methods)
            if dice.random() < 0.5:
                members["jsonrpc"] = "2.0"
            s.line(side, json.dumps(members).encode())
    return s.end()


BEGINNINGS = {
    fault.__name__
    for fault in (
        *(asks_before_initialize, asks_before_the_answer, asks_before_initialized),
        *(server_asks_too_early, server_asks_while_it_is_initialized, starts_slowly),
    )
}


def tapped(
    seed: int, exchanges: int, fault: Callable[[Tapped], Planted] | None = None
) -> tuple[list[Record], Planted | None]:
    """A session of so many clean exchanges with the fault at a random place, and what is to be found in it."""
    s = Tapped(seed)
    at = 0 if fault is None or fault.__name__ in BEGINNINGS else s.dice.randrange(exchanges)
    planted = None
    if fault is not None and fault.__name__ in BEGINNINGS:
        planted = fault(s)
    else:
        s.initialize()
    for n in range(exchanges):
        if fault is not None and planted is None and n == at:
            planted = fault(s)
        s.dice.choice(CLEAN)(s)
    return s.end(), planted
