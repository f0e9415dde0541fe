"""Writes a log as OpenTelemetry spans, and reads such a file back.

The tree is that of `log.follow`. Each request and each proposal is a span, and so is each message without a parent or
with children; every other message is an event of its parent's span. A request's span ends with its first response, a
proposal's with the decision. Ids of traces and spans follow from the log, so that a second export has the same. Where a
message carries a trace context in `params._meta.traceparent`, its tree is in that trace: the root has the context as its
parent, any other message a link to it.

Attributes are those of the semantic conventions `SEMANTIC_CONVENTIONS` for MCP and GenAI, and `mew.*` where they have
none. Content is left out unless it is asked for: then each message has its line of the journal as `mew.record`, tool
calls their arguments and results, and the file gives the same records back. Without content the file gives envelopes
without payloads. Records without a message (joins, notes, verdicts on frames) are in no export.

Spec: OTLP 1.8, OTLP/HTTP with JSON; W3C Trace Context; MCP `params._meta`.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit

from mew_lab.errors import JournalError
from mew_lab.ledger.entry import Entry
from mew_lab.log.line import write_line
from mew_lab.log.numbering import NumberedEntry
from mew_lab.log.otlp_reading import EPOCH
from mew_lab.log.redaction import mask_record, secrets_mask
from mew_lab.protocol.address import Address
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.intake import unknown_outcome
from mew_lab.protocol.likely_secrets import SecretMask
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.transport.scratch import written_beside

__all__ = ["SEMANTIC_CONVENTIONS", "SavedTraces", "TracedLog", "export_otlp", "requests_of"]

SEMANTIC_CONVENTIONS: Final = "1.40.0"
SCHEMA: Final = f"https://opentelemetry.io/schemas/{SEMANTIC_CONVENTIONS}"
BATCH: Final = 1024 * 1024  # characters of one request or line; OTLP receivers usually take 4 MiB
TIMEOUT: Final = 30.0  # seconds
INTERNAL, CLIENT = 1, 3
ERROR = 2
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?"
)


class SavedTraces(NamedTuple):
    """An export: where it went, the number of spans and of messages in them, and sentences on what is not in it."""

    to: str
    spans: int
    messages: int
    left_out: str

    def __str__(self) -> str:
        spans = count_of(self.spans, "span")
        return (
            f"Exported {count_of(self.messages, 'message')} in {spans} to {self.to}. {self.left_out}".rstrip()
        )


class TracedLog(NamedTuple):
    """What an export is made of: `calls` are the rows of the frames of requests and proposals, and `messages` is the
    number of all messages of the log."""

    space: str
    vantage: str
    messages: int
    entries: list[NumberedEntry]
    parents: dict[int, int]
    calls: Sequence[Mapping[Any, Any]]


class _Context(NamedTuple):
    """The trace context of a message."""

    trace: str
    span: str


def export_otlp(
    source: TracedLog,
    to: str | os.PathLike[str],
    *,
    content: bool = False,
    headers: Mapping[str, str] | None = None,
    secrets: str = "mask",
) -> SavedTraces:
    """Sends the log to an OTLP receiver (`http://…`), or writes it to a file, readable by its owner alone.

    Likely secrets are masked unless `secrets` is `keep`; the resource then says so.

    Raises:
        ConfigError: `secrets` is another word.
        JournalError: when the receiver does not take it, or the file cannot be written.
    """
    mask = secrets_mask(secrets)
    if mask is not None:
        source = source._replace(
            entries=[_masked(entry, mask) for entry in source.entries],
            calls=[SecretMask().value(dict(row)) for row in source.calls],
        )
    requests = requests_of(
        _SpanBuilder(source, content=content, masked=content and bool(mask and mask.found))
    )
    target = os.fspath(to)
    is_address = "://" in target
    spans = _post(target, requests, dict(headers or {})) if is_address else _save(Path(target), requests)
    left_out = [] if content else ["Contents of messages are not in it."]
    if content and mask and mask.found:
        left_out.append(f"{mask}.")
    if (more := source.messages - len(source.entries)) > 0:
        left_out.append(f"{count_of(more, 'older message')} not in it.")
    return SavedTraces(target, spans, len(source.entries), " ".join(left_out))


def requests_of(builder: _SpanBuilder) -> Iterator[tuple[str, int]]:
    """The requests of an export as JSON texts of about `BATCH` characters at most, and the number of spans in each."""
    batch, size = list[str](), 0
    for span in builder.spans():
        text = json.dumps(span, separators=(",", ":"))
        if batch and size + len(text) > BATCH:
            yield builder.request(batch), len(batch)
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield builder.request(batch), len(batch)


def _masked(entry: NumberedEntry, mask: SecretMask) -> NumberedEntry:
    record = mask_record(entry.record, mask)
    return entry if record is entry.record else NumberedEntry(record, entry.seq, entry.place, entry.sign)


class _SpanBuilder:
    def __init__(self, source: TracedLog, *, content: bool, masked: bool = False) -> None:
        entries, parents = source.entries, source.parents
        self._masked = masked
        self._content = content
        self._space = source.space
        self._vantage = source.vantage
        self._entries = {entry.seq: entry for entry in entries}
        self._children: dict[int, list[int]] = {}
        self._roots: dict[int, int] = {}
        contexts: dict[int, _Context | None] = {}  # of the tree of each root
        for entry in entries:
            parent = parents.get(entry.seq)
            root = self._roots[entry.seq] = entry.seq if parent is None else self._roots[parent]
            if parent is not None:
                self._children.setdefault(parent, []).append(entry.seq)
            context = _context_of(entry)
            if context is not None and contexts.get(root) is None:
                contexts[root] = context
        self._parents = parents
        self._contexts = contexts
        self._calls = {row["id"]: row for row in source.calls}

    def request(self, spans: list[str]) -> str:
        """The JSON text of an `ExportTraceServiceRequest` with these spans."""
        resource = {
            "attributes": _attributes(
                {
                    "service.name": "mew",
                    "mew.space": self._space,
                    "mew.vantage": self._vantage,
                    **({"mew.masked": True} if self._masked else {}),
                }
            )
        }
        head = json.dumps({"resource": resource, "schemaUrl": SCHEMA}, separators=(",", ":"))
        scope = '{"name":"mew_lab.log"}'
        scoped = f'{{"scope":{scope},"schemaUrl":"{SCHEMA}","spans":[{",".join(spans)}]}}'
        return f'{{"resourceSpans":[{head[:-1]},"scopeSpans":[{scoped}]}}]}}'

    def spans(self) -> Iterator[dict[str, Any]]:
        """The spans in the order of their messages."""
        for entry in self._entries.values():
            if self._is_span(entry):
                yield self._span(entry)

    def _is_span(self, entry: Entry) -> bool:
        return (
            entry.seq not in self._parents
            or entry.seq in self._children
            or entry.kind in ("mcp/request", "mcp/proposal")
        )

    def _ids(self, entry: Entry) -> _Context:
        root = self._entries[self._roots[entry.seq]]
        context = self._contexts.get(root.seq)
        trace = context.trace if context else _digest(f"trace {self._name(root)}", 32)
        return _Context(trace, _digest(f"span {self._name(entry)}", 16))

    def _name(self, entry: Entry) -> str:
        return "\0".join((self._space, str(entry.seq), entry.id, str(entry.t)))

    def _span(self, entry: NumberedEntry) -> dict[str, Any]:
        ids, parent = self._ids(entry), self._parents.get(entry.seq)
        own = _context_of(entry)
        children = [self._entries[number] for number in self._children.get(entry.seq, ())]
        call = self._calls.get(entry.id, {}) if entry.kind in ("mcp/request", "mcp/proposal") else {}
        answers = [child for child in children if child.kind == "mcp/response"]
        settled = (child for child in answers if not unknown_outcome(child.payload))
        answer = next(settled, answers[0] if answers else None)
        span: dict[str, Any] = {"traceId": ids.trace, "spanId": ids.span}
        if parent is not None:
            span["parentSpanId"] = self._ids(self._entries[parent]).span
        elif own is not None and own.trace == ids.trace:
            span["parentSpanId"] = own.span
        if own is not None and parent is not None:
            span["links"] = [{"traceId": own.trace, "spanId": own.span}]
        ends = _end_of(entry, call, answer)
        target = _target_of(entry)
        first = (_method_of(entry) if entry.kind == "mcp/request" else "") or entry.kind or "unreadable"
        span |= {
            "name": f"{first} {target}".strip(),
            "kind": CLIENT if entry.kind == "mcp/request" else INTERNAL,
            "startTimeUnixNano": _nanoseconds(entry.record.now),
            "endTimeUnixNano": _nanoseconds(ends),
            "attributes": _attributes({**self._facts(entry), **self._call_facts(entry, call, answer)}),
            "events": [
                {
                    "timeUnixNano": _nanoseconds(child.record.now),
                    "name": child.kind or "unreadable",
                    "attributes": _attributes(self._facts(child)),
                }
                for child in children
                if not self._is_span(child)
            ],
        }
        error = _error_of(answer) or (entry.code or "refused" if entry.refused else "")
        if error:
            span["status"] = {"code": ERROR}
            span["attributes"] += _attributes({"error.type": error})
        return span

    def _facts(self, entry: NumberedEntry) -> dict[str, Any]:
        """What is known of any message; `mew.record` only where content is asked for."""
        facts: dict[str, Any] = {
            "mew.seq": entry.seq,
            "mew.event": entry.record.event,
            "mew.id": entry.id,
            "mew.kind": entry.kind,
            "mew.from": entry.sender,
            "mew.to": list(entry.to),
            "mew.correlation_id": list(entry.correlation_id),
            "mew.context": entry.context,
            "mew.verdict": entry.verdict,
            "mew.code": entry.code,
            "mew.permission.pattern": entry.pattern if self._content else "",
            "mew.permission.grant": entry.record.grant,
            "mew.participant": entry.record.participant,
        }
        if self._content:
            facts["mew.record"] = write_line(entry.record).decode().rstrip("\n")
        return {key: value for key, value in facts.items() if value not in ("", [])}

    def _call_facts(
        self, entry: NumberedEntry, call: Mapping[Any, Any], answer: Entry | None
    ) -> dict[str, Any]:
        if entry.kind not in ("mcp/request", "mcp/proposal"):
            return {}
        payload = entry.payload
        params = payload.get("params")
        params = params if isinstance(params, Mapping) else {}
        method, name = _method_of(entry), _target_of(entry)
        facts: dict[str, Any] = {"mcp.method.name": method, "mew.call.state": call.get("state", "")}
        if method == "tools/call":
            facts |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
            if self._content:
                facts["gen_ai.tool.call.arguments"] = compact(params.get("arguments"))
                if answer is not None:
                    facts["gen_ai.tool.call.result"] = compact(answer.payload.get("result"))
        elif method == "prompts/get":
            facts["gen_ai.prompt.name"] = name
        elif method.startswith("resources/") and isinstance(uri := params.get("uri"), str) and self._content:
            facts["mcp.resource.uri"] = uri
        key = payload.get("id")
        if type(key) in (str, int):
            facts["jsonrpc.request.id"] = str(key)
        if entry.record.via == "stdio":
            facts["network.transport"] = "pipe"
        error = answer.payload.get("error") if answer is not None else None
        if isinstance(error, Mapping) and type(error.get("code")) is int:
            facts["rpc.response.status_code"] = str(error["code"])
        if entry.kind == "mcp/proposal":
            facts |= {
                "mew.decision.by": call.get("decided_by", ""),
                "mew.decision.policy": call.get("policy", ""),
                "mew.decision.edited": call.get("edited"),
                "mew.decision.option": call.get("option", ""),
                "mew.decision.reason": call.get("reason", "") if self._content else "",
                "mew.decision.request": call.get("request", ""),
                "mew.decision.latency": call.get("latency"),
            }
        return {key: value for key, value in facts.items() if _is_known(value)}


def _is_known(value: object) -> bool:
    if type(value) is float:
        return value == value
    return type(value) in (int, bool) or (type(value) is str and value != "")


def _digest(text: str, size: int) -> str:
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:size]
    return digest if digest.strip("0") else "1" * size  # no id of OTLP is all zeros


def _context_of(entry: Entry) -> _Context | None:
    """The trace context that a request or proposal carries in `params._meta`."""
    params = entry.payload.get("params") if entry.kind in ("mcp/request", "mcp/proposal") else None
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    text = meta.get("traceparent") if isinstance(meta, Mapping) else None
    if not isinstance(text, str):
        return None
    match = _TRACEPARENT.fullmatch(text)
    if match is None or (text.startswith("00") and len(text) != 55):
        return None
    return _Context(match[1], match[2])


def _method_of(entry: Entry) -> str:
    method = entry.payload.get("method")
    return one_line(method, 200) if isinstance(method, str) else ""


def _target_of(entry: Entry) -> str:
    params = entry.payload.get("params")
    name = params.get("name") if isinstance(params, Mapping) else None
    wanted = _method_of(entry) in ("tools/call", "prompts/get")
    return one_line(name, 200) if wanted and isinstance(name, str) else ""


def _error_of(answer: Entry | None) -> str:
    """The `error.type` of an answer; empty where it has none."""
    if answer is None:
        return ""
    if unknown_outcome(answer.payload):
        return ""  # no failure: `mew.call.state` tells
    error, result = answer.payload.get("error"), answer.payload.get("result")
    if isinstance(error, Mapping):
        return str(error["code"]) if type(error.get("code")) is int else "_OTHER"
    return "tool_error" if isinstance(result, Mapping) and result.get("isError") is True else ""


def _end_of(entry: NumberedEntry, call: Mapping[Any, Any], answer: Entry | None) -> datetime:
    """The time of the first response, or of the decision; the message's own where there is none."""
    now = entry.record.now
    if isinstance(answer, NumberedEntry):
        return max(now, answer.record.now)
    latency = call.get("latency")
    if type(latency) is float and 0 < latency < 10**9:
        return now + timedelta(seconds=latency)
    return now


def _nanoseconds(moment: datetime) -> str:
    since = moment - EPOCH
    return str(max(0, (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000))


def _attributes(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in facts.items()]


def _value(value: Any) -> dict[str, Any]:
    if type(value) is bool:
        return {"boolValue": value}
    if type(value) is int:
        return {"intValue": str(value)}
    if type(value) is float:
        return {"doubleValue": value}
    if type(value) is list:
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    # A lone surrogate is no text for other readers of JSON.
    return {"stringValue": str(value).encode("utf-8", "backslashreplace").decode()}


# --- sending and saving ---


def _post(endpoint: str, requests: Iterable[tuple[str, int]], headers: dict[str, str]) -> int:
    address = Address(endpoint)
    try:
        parts = address.parts
    except ValueError:  # brackets that are not closed
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise JournalError(f"Cannot export to {address}: name an address such as http://localhost:4318.")
    if secret := address.find_secret():
        raise JournalError(
            f"Cannot export to {address}: it has {secret}, which does not belong into an address. Give headers=, such "
            "as Authorization."
        )
    url = endpoint if parts.path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"
    spans = 0
    for text, count in requests:
        request = urllib.request.Request(
            url, text.encode(), {**headers, "Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                said = answer.read(1 << 20)
        except (OSError, ValueError, HTTPException) as fault:
            # An error of urllib wraps another one, except that of a status, whose text names it.
            reason = fault if isinstance(fault, HTTPError) else getattr(fault, "reason", None) or fault
            raise JournalError(
                f"Cannot export to {url}: {one_line(str(reason), 200)}; {count_of(spans, 'span')} arrived before. "
                "Start the receiver, or name its address."
            ) from None
        rejected, why = _rejected(said)
        if rejected:
            raise JournalError(
                f"The receiver at {url} rejected {count_of(rejected, 'span')}: {one_line(why, 200)}. "
                f"{count_of(spans, 'span')} arrived before."
            )
        spans += count
    return spans


def _rejected(answer: bytes) -> tuple[int, str]:
    """The number of spans that a receiver says it rejected, and why."""
    try:
        partial = json.loads(answer or b"{}")["partialSuccess"]
        return int(partial.get("rejectedSpans", 0)), str(partial.get("errorMessage", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0, ""


def _save(path: Path, requests: Iterable[tuple[str, int]]) -> int:
    spans = 0
    try:
        with written_beside(path) as file:
            for text, count in requests:
                file.write(text.encode() + b"\n")
                spans += count
    except OSError as fault:
        raise JournalError(
            f"Cannot export the log to {path}: {fault.strerror}. Name a file in a folder that can be written to.",
            path=str(path),
        ) from None
    return spans
