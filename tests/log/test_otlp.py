"""A log as OpenTelemetry spans: a receiver reads the tree that `log.follow` shows; a file opens as a log again."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import mew_lab
from mew_lab.errors import JournalError
from mew_lab.log.log import Log, open_log
from mew_lab.space.events import Record

from .hostile import hostile_journal
from .stage import hostile, observed

# OpenTelemetry's own definitions read what is sent, where they are installed (pip install opentelemetry-proto).
json_format = pytest.importorskip("google.protobuf.json_format")
definitions = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

START = datetime(2026, 1, 1, tzinfo=UTC)
GARDEN = Path(mew_lab.__file__).parent / "data" / "garden.jsonl"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLS = ("mcp/request", "mcp/proposal")
# The names of version 1.40 that an export without content uses.
CONVENTIONS = {
    "error.type",
    "gen_ai.operation.name",
    "gen_ai.prompt.name",
    "gen_ai.tool.name",
    "jsonrpc.request.id",
    "mcp.method.name",
    "network.transport",
    "rpc.response.status_code",
}
CONTEXT = f"00-{TRACE}-{SPAN}-01"


def record(n: int, id: str, *about: str, verdict: str = "accepted", **members: Any) -> Record:
    said: dict[str, Any] = {"id": id, "from": "bot", "kind": "chat", "to": [], "payload": {}} | members
    if about:
        said["correlation_id"] = list(about)
    when = START + timedelta(seconds=n)
    return Record(n, when, "received", "demo", said["from"], verdict=verdict, raw=json.dumps(said))


def log_of(*records: Record) -> Log:
    return observed(records, space="demo")


def call(name: str = "weather", **meta: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": {"day": "secret day"}}
    return {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": params | ({"_meta": meta} if meta else {}),
    }


class Receiver:
    """An OTLP receiver on this machine; it reads the JSON with the definitions of OpenTelemetry."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.answer, self.status = b"{}", 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.headers.append({"path": self.path, **dict(self.headers)})
                self.send_response(receiver.status)
                self.end_headers()
                self.wfile.write(receiver.answer)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def spans(self) -> list[Any]:
        return [span for body in self.bodies for span in spans_in(body)]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def spans_in(body: bytes) -> list[Any]:
    # OTLP writes ids in hexadecimal, where the general JSON form of protobuf has base64.
    def recode(span: dict[str, Any]) -> dict[str, Any]:
        for part in (span, *span.get("links", ())):
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in part:
                    part[key] = base64.b64encode(bytes.fromhex(part[key])).decode()
        return span

    said = json.loads(body)
    for resource in said["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            scope["spans"] = [recode(span) for span in scope["spans"]]
    request = json_format.ParseDict(said, definitions.ExportTraceServiceRequest())
    return [
        span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans
    ]


def facts(part: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in part.attributes}


def tree_of(spans: list[Any]) -> dict[int, int]:
    """The number of the parent of each message, from spans alone."""
    numbers = {(span.trace_id, span.span_id): facts(span)["mew.seq"] for span in spans}
    assert len(numbers) == len(spans)
    parents = {}
    for span in spans:
        if (parent := numbers.get((span.trace_id, span.parent_span_id))) is not None:
            parents[facts(span)["mew.seq"]] = parent
        for event in span.events:
            parents[facts(event)["mew.seq"]] = facts(span)["mew.seq"]
    return parents


def test_a_receiver_reads_the_tree_that_follow_shows(receiver: Receiver) -> None:
    log = open_log(GARDEN)
    done = log.export_otlp(receiver.url, headers={"Authorization": "Bearer x"})
    assert (done.messages, done.spans) == (len(log), len(receiver.spans))
    assert receiver.headers[0]["path"] == "/v1/traces"
    assert receiver.headers[0]["Content-Type"] == "application/json"
    assert receiver.headers[0]["Authorization"] == "Bearer x"
    followed = dict[int, int]()
    for id in log.df.id:
        followed |= log.follow(id, most=1000).parents
    assert tree_of(receiver.spans) == followed
    assert len(followed) > 20
    requests = log.df[log.df.kind == "mcp/request"].seq.tolist()
    assert {facts(span)["mew.seq"] for span in receiver.spans} >= set(requests)


def assert_receiver_reads_the_tree_of(log: Log, receiver: Receiver) -> None:
    """Each message once, requests and proposals as spans, and every parent that `follow` shows."""
    done = log.export_otlp(receiver.url)
    spans = receiver.spans
    assert (done.messages, done.spans) == (len(log), len(spans))
    numbers = [facts(part)["mew.seq"] for span in spans for part in (span, *span.events)]
    kinds = log.df.kind.tolist()
    assert len(set(numbers)) == len(numbers) == len(kinds)
    calls = {facts(span)["mew.seq"] for span in spans if facts(span).get("mew.kind") in CALLS}
    assert len(calls) == sum(kind in CALLS for kind in kinds)
    followed = dict[int, int]()
    for number in numbers:
        followed |= log.follow(number, most=10_000).parents
    assert tree_of(spans) == followed
    names = {key for span in spans for part in (span, *span.events) for key in facts(part)}
    assert {name for name in names if not name.startswith("mew.")} <= CONVENTIONS
    in_traces = {(span.trace_id, span.span_id) for span in spans}
    for span in spans:
        assert span.end_time_unix_nano >= span.start_time_unix_nano > 0
        assert len(span.trace_id) == 16 and len(span.span_id) == 8
        if facts(span)["mew.seq"] in followed:
            assert (span.trace_id, span.parent_span_id) in in_traces


def test_a_receiver_reads_the_tree_of_each_capture(shared: Path, receiver: Receiver) -> None:
    for capture in sorted((shared / "captures").iterdir()):
        receiver.bodies.clear()
        assert_receiver_reads_the_tree_of(open_log(capture), receiver)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(6))
def test_a_receiver_reads_the_tree_of_a_hostile_session(seed: int, receiver: Receiver) -> None:
    assert_receiver_reads_the_tree_of(log_of(*hostile(seed, 400).records), receiver)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(6))
def test_a_receiver_reads_the_tree_of_a_journal_with_lines_of_every_kind(
    seed: int, receiver: Receiver, tmp_path: Path
) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(hostile_journal(seed))
    assert_receiver_reads_the_tree_of(open_log(path), receiver)


def with_canaries(raw: str) -> str:
    """The message with another text for each text of its payload but for those that name what it is about."""
    try:
        members = json.loads(raw)
        assert type(members) is dict
    except (ValueError, RecursionError, AssertionError):
        return raw + "canary"

    def replace(value: Any) -> Any:
        if isinstance(value, str):
            return "canary"
        if isinstance(value, list):
            return [replace(one) for one in value]
        if isinstance(value, dict):
            return {
                key: part if key in ("method", "name", "stream_id") else replace(part)
                for key, part in value.items()
            } | {"canary": 1}
        return value

    return json.dumps(members | {"payload": replace(members.get("payload"))})


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_without_content_no_text_of_a_payload_leaves(seed: int, receiver: Receiver) -> None:
    records = [
        one if one.raw is None else one._replace(raw=with_canaries(one.raw))
        for one in hostile(seed, 300).records
    ]
    log = log_of(
        *records,
        record(900, "c", kind="mcp/request", payload=call() | {"params": {"name": "f", "canary": "canary"}}),
        record(
            901, "r", kind="mcp/request", payload={"method": "resources/read", "params": {"uri": "canary"}}
        ),
        record(902, "e", "c", kind="mcp/response", payload={"error": {"code": 5, "message": "canary"}}),
        record(903, "p", kind="mcp/proposal", payload=call() | {"params": {"name": "f", "canary": "canary"}}),
        record(904, "w", "p", kind="mcp/withdraw", payload={"reason": "canary"}),
    )
    log.export_otlp(receiver.url)
    assert b"canary" not in b"".join(receiver.bodies)
    receiver.bodies.clear()
    log.export_otlp(receiver.url, content=True)
    assert b"canary" in b"".join(receiver.bodies)


def test_a_request_is_a_span_below_its_proposal_with_the_names_of_the_conventions(receiver: Receiver) -> None:
    log_of(
        record(1, "p", kind="mcp/proposal", to=["git"], payload=call()),
        record(3, "f", "p", kind="mcp/request", to=["git"], payload=call(), **{"from": "anna"}),
        record(
            5,
            "a",
            "f",
            kind="mcp/response",
            to=["anna"],
            payload={"id": 7, "result": {"isError": True}},
            **{"from": "git"},
        ),
    ).export_otlp(f"{receiver.url}/v1/traces")
    proposal, request = receiver.spans
    assert request.trace_id == proposal.trace_id
    assert request.parent_span_id == proposal.span_id
    assert (proposal.name, proposal.kind) == ("mcp/proposal weather", 1)
    assert (request.name, request.kind) == ("tools/call weather", 3)
    began = int(START.timestamp()) * 10**9
    assert (request.start_time_unix_nano, request.end_time_unix_nano) == (
        began + 3 * 10**9,
        began + 5 * 10**9,
    )
    assert proposal.end_time_unix_nano == began + 3 * 10**9
    said = facts(request)
    assert said["mcp.method.name"] == "tools/call"
    assert said["gen_ai.operation.name"] == "execute_tool"
    assert said["gen_ai.tool.name"] == "weather"
    assert said["jsonrpc.request.id"] == "7"
    assert said["error.type"] == "tool_error"
    assert request.status.code == 2
    assert facts(proposal)["mew.decision.by"] == "anna"
    assert facts(proposal)["mew.decision.latency"] == 2.0
    assert [event.name for event in request.events] == ["mcp/response"]
    assert b"secret day" not in receiver.bodies[0]
    assert b"https://opentelemetry.io/schemas/1.40.0" in receiver.bodies[0]


def test_an_error_has_its_code_and_what_nobody_answered_has_no_duration(receiver: Receiver) -> None:
    log_of(
        record(1, "r", kind="mcp/request", payload={"method": "tools/list", "id": 1}),
        record(2, "e", "r", kind="mcp/response", payload={"error": {"code": -32601, "message": "no"}}),
        record(3, "open", kind="mcp/request", payload={"method": "tools/list", "id": 2}),
    ).export_otlp(receiver.url)
    failed, unanswered = receiver.spans
    assert facts(failed)["rpc.response.status_code"] == facts(failed)["error.type"] == "-32601"
    assert unanswered.start_time_unix_nano == unanswered.end_time_unix_nano
    assert unanswered.status.code == 0


def test_the_trace_context_of_a_request_is_kept(receiver: Receiver) -> None:
    log_of(
        record(1, "r", kind="mcp/request", payload=call(traceparent=CONTEXT)),
        record(2, "p", kind="mcp/proposal", payload=call()),
        record(3, "f", "p", kind="mcp/request", payload=call(traceparent=CONTEXT)),
    ).export_otlp(receiver.url)
    alone, proposal, fulfilment = receiver.spans
    assert (alone.trace_id.hex(), alone.parent_span_id.hex()) == (TRACE, SPAN)
    assert proposal.trace_id.hex() == fulfilment.trace_id.hex() == TRACE
    assert proposal.parent_span_id == b""
    assert fulfilment.parent_span_id == proposal.span_id
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in fulfilment.links] == [(TRACE, SPAN)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "broken",
    [
        7,
        "",
        CONTEXT.upper(),
        f"ff{CONTEXT[2:]}",
        f"{CONTEXT}-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
    ],
)
def test_a_broken_trace_context_is_ignored(broken: Any, receiver: Receiver) -> None:
    log_of(record(1, "r", kind="mcp/request", payload=call(traceparent=broken))).export_otlp(receiver.url)
    (span,) = receiver.spans
    assert span.trace_id.hex() != TRACE and span.parent_span_id == b""


def test_ids_are_the_same_in_a_second_export_and_differ_between_messages_with_one_id(
    receiver: Receiver,
) -> None:
    log = log_of(record(1, "same"), record(2, "same"), record(3, ""))
    log.export_otlp(receiver.url)
    log.export_otlp(receiver.url)
    first, second = (spans_in(body) for body in receiver.bodies)
    assert first == second
    assert len({span.span_id for span in first}) == 3


def test_a_file_with_content_gives_the_same_messages_back(tmp_path: Path) -> None:
    log, path = open_log(GARDEN), tmp_path / "out.json"
    odd = Record(
        900, START, "received", "garden", "eve", verdict="refused", code="invalid", raw="no json \ud800\n"
    )
    live = log_of(*log.records, odd)
    assert "not in it" not in str(live.export_otlp(path, content=True))
    assert path.stat().st_mode & 0o777 == 0o600
    again = open_log(path)
    assert [one for one in again.records if one.raw is not None] == [
        one for one in live.records if one.raw is not None
    ]
    assert (again.vantage, again.space, again.faults) == ("gateway", "demo", ())


def test_a_file_without_content_gives_envelopes_without_payloads(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    log = open_log(GARDEN)
    assert "Contents of messages are not in it" in str(log.export_otlp(path))
    again = open_log(path)
    columns = ["seq", "time", "from", "to", "kind", "correlation_id", "context", "verdict", "code", "id"]
    assert again.df[columns].equals(log.df[columns])
    assert all(message["payload"] == {} for message in again)
    assert b"dry and sunny" not in path.read_bytes()


def test_spans_of_other_programs_and_broken_lines_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    log_of(record(1, "a")).export_otlp(path)
    foreign = {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "other"}, 7]}]}, None]}
    odd = [
        foreign,
        {"resourceSpans": 7},
        [],
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": 1}]}]}]}]},
    ]
    with path.open("a") as file:
        file.write("\n".join(["{broken", *map(json.dumps, odd)]) + "\n")
    again = open_log(path)
    assert [message["id"] for message in again] == ["a"]
    assert again.faults == (
        "out.json: 4 lines could not be read; the first: line 2 is not a whole record",
        "the contents of its messages are not recorded",
    )


def test_a_receiver_that_is_away_refuses_or_rejects_is_told(receiver: Receiver, tmp_path: Path) -> None:
    log = log_of(record(1, "a"))
    receiver.answer = b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}'
    with pytest.raises(JournalError, match="rejected 1 span: too old"):
        log.export_otlp(receiver.url)
    receiver.status = 503
    with pytest.raises(JournalError, match="503"):
        log.export_otlp(receiver.url)
    for address in ("http://127.0.0.1:9", "ftp://x", "http://", "http://[", "file:///etc/passwd"):
        with pytest.raises(JournalError, match="Cannot export"):
            log.export_otlp(address)
    with pytest.raises(JournalError, match="Cannot export the log to"):
        log.export_otlp(tmp_path / "no" / "folder.json")
