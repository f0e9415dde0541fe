"""Reads the records of a file with OTLP-JSON: one request a line, of mew_lab's own export or of another program.

A span or event with `mew.record` gives that record back. One with only the facts about a message gives an envelope
without a payload. A file of spans about models and tools (`gen_ai.*`) is read by genai_spans.py; spans of other programs
beside those of an export are reported, and not read. The records come in the order of the log, so the whole file is read
first.

Spec: OTLP 1.8, JSON encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mew_lab.log.entries import PAYLOAD, lacking, lacks
from mew_lab.log.genai_spans import ForeignSpan, GenAiSession, is_genai
from mew_lab.log.json_text import read_json, write_json
from mew_lab.log.line import read_line, read_members
from mew_lab.log.peers import PeerLine
from mew_lab.protocol.envelope import PROTOCOL, compact
from mew_lab.protocol.text import timestamp
from mew_lab.space.events import Record

__all__ = ["EPOCH", "lay_out_spans", "read_otlp"]

ANOTHER: Final = "spans or events of another program"

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
EPOCH: Final = datetime.fromtimestamp(0, UTC)
_LATEST = 250_000_000_000 * 10**9  # nanoseconds; a datetime ends some centuries later


def read_otlp(lines: Iterable[PeerLine]) -> Iterator[Record]:
    """The records in the lines, sorted by their place in the log; after them those of what could not be read."""
    found: list[tuple[int, Record]] = []
    unreadable: list[Record] = []
    opened: Record | None = None
    spans, kept = list[ForeignSpan](), list[tuple[int, bytes, int]]()
    for line in lines:
        members = read_members(line.data) if line.data is not None else None
        if members is None:
            unreadable.append(line.unreadable(EPOCH))
            continue
        foreign, before = 0, len(spans)
        for resource, span, scope in _spans(members):
            if "mew.seq" not in (of_span := _facts(span.get("attributes"))) and "mew.record" not in of_span:
                began, ended = _time(span.get("startTimeUnixNano")), _time(span.get("endTimeUnixNano"))
                spans.append(ForeignSpan(of_span, resource, span, scope, began, max(began, ended)))
            for facts, time in _messages(span):
                record = _record(facts, time, resource)
                if record is None:
                    foreign += 1
                    continue
                if opened is None:
                    opened = _opened(resource, record)
                found.append((facts.get("mew.seq", 0), record))
        if line.data is not None:
            kept.append((line.number, line.data, len(spans) - before))
        if foreign:
            detail = f"line {line.number} has {foreign} {ANOTHER}"
            unreadable.append(Record(0, EPOCH, "unreadable", detail=detail))
    if opened is None and any(is_genai(span.facts) for span in spans):
        yield from GenAiSession(spans).read_spans(kept)
        yield from (one for one in unreadable if not one.detail.endswith(ANOTHER))
        return
    if opened is not None:
        yield opened
    for _, record in sorted(found, key=lambda pair: pair[0]):
        yield record
    yield from unreadable


def lay_out_spans(data: bytes) -> Iterator[bytes]:
    """The lines of a file that is one request over several lines: one for each span, and for what has none.

    Raises:
        ValueError: it is no JSON.
    """
    members = read_json(data)
    if type(members) is not dict or type(members.get("resourceSpans")) is not list:
        raise ValueError("it is no request with spans")
    for of_resource in members["resourceSpans"]:
        for part in _split(of_resource, "scopeSpans", "spans"):
            yield write_json({**members, "resourceSpans": [part]}) + b"\n"


def _split(whole: Any, name: str, *below: str) -> Iterator[Any]:
    """An object as one for each part of the list that it has under a name, down to the last of the names."""
    parts = whole.get(name) if type(whole) is dict else None
    if type(parts) is not list or not parts:
        yield whole
        return
    for part in parts:
        for one in _split(part, *below) if below else (part,):
            yield {**whole, name: [one]}


def _spans(members: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Mapping[str, Any], str]]:
    for of_resource in _objects(members.get("resourceSpans")):
        resource = of_resource.get("resource")
        facts = _facts(resource.get("attributes")) if isinstance(resource, dict) else {}
        for of_scope in _objects(of_resource.get("scopeSpans")):
            scope = of_scope.get("scope")
            name = scope.get("name") if isinstance(scope, dict) else None
            for span in _objects(of_scope.get("spans")):
                yield facts, span, name if isinstance(name, str) else ""


def _messages(span: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], datetime]]:
    yield _facts(span.get("attributes")), _time(span.get("startTimeUnixNano"))
    for event in _objects(span.get("events")):
        yield _facts(event.get("attributes")), _time(event.get("timeUnixNano"))


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _facts(attributes: object) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for attribute in _objects(attributes):
        key, value = attribute.get("key"), _value(attribute.get("value"))
        if isinstance(key, str) and value is not None:
            facts[key] = value
    seq = facts.get("mew.seq")
    if seq is not None and type(seq) is not int:
        del facts["mew.seq"]
    return facts


def _value(value: object) -> Any:
    if not isinstance(value, dict):
        return None
    if isinstance(text := value.get("stringValue"), str):
        return text
    if (number := value.get("intValue")) is not None:
        # JSON has it as a text or as a number; all else is none, also what no 64 bits hold.
        if type(number) is not int and not (isinstance(number, str) and _INTEGER.fullmatch(number)):
            return None
        return int(number) if -(2**63) <= int(number) < 2**63 else None
    if type(flag := value.get("boolValue")) is bool:
        return flag
    array = value.get("arrayValue")
    if isinstance(array, dict):
        return [
            one for part in _objects(array.get("values")) if isinstance(one := part.get("stringValue"), str)
        ]
    return None


def _time(value: object) -> datetime:
    text = str(value)
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 24 else 0
    return EPOCH + timedelta(microseconds=number // 1000) if number < _LATEST else EPOCH


def _record(facts: Mapping[str, Any], time: datetime, resource: Mapping[str, Any]) -> Record | None:
    line = facts.get("mew.record")
    if isinstance(line, str):
        return read_line(line.encode("utf-8", "surrogatepass"))
    if "mew.seq" not in facts:
        return None
    envelope: dict[str, Any] = {"protocol": PROTOCOL, "id": facts.get("mew.id"), "ts": timestamp(time)}
    envelope |= {key: facts.get(f"mew.{key}") for key in ("from", "to", "kind", "correlation_id", "context")}
    raw = compact({key: value for key, value in envelope.items() if value is not None} | {"payload": {}})
    record = Record(
        facts["mew.seq"],
        time,
        _text(facts, "mew.event"),
        _text(resource, "mew.space"),
        _text(facts, "mew.participant"),
        verdict=_text(facts, "mew.verdict"),
        code=_text(facts, "mew.code"),
        raw=raw,
        grant=_text(facts, "mew.permission.grant"),
    )
    return lacking(record, PAYLOAD)


def _text(facts: Mapping[str, Any], key: str) -> str:
    value = facts.get(key)
    return value if isinstance(value, str) else ""


def _opened(resource: Mapping[str, Any], first: Record) -> Record:
    vantage = _text(resource, "mew.vantage") or "participant"
    about: dict[str, Any] = {"format": 1, "epoch": None, "vantage": vantage, "from": "otlp"}
    if resource.get("mew.masked") is True:
        about["masked"] = True
    detail = compact(about | ({"contents": False} if lacks(first, PAYLOAD) else {}))
    return Record(0, first.now, "opened", _text(resource, "mew.space"), detail=detail)
