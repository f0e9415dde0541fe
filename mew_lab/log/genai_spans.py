"""Makes records of the spans that other programs write about language models and tools: `gen_ai.*` of OpenTelemetry.

Each line of the file is kept as it is by a record of its own. Of its spans, `invoke_agent` names the agent of the spans
below it; a span of a model becomes the messages that it holds, and a status with its tokens; `execute_tool`, or an MCP
call, becomes a request at its beginning and an answer at its end. Contents are there only where the program wrote them.
Spans that are of neither are counted by their scope. The messages come in the order of time.

Spec: OTLP 1.8; semantic conventions for GenAI, 1.36 and later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from mew_lab.log.json_text import read_json
from mew_lab.log.line import read_members
from mew_lab.log.session_records import (
    HUMAN,
    MAX_TYPE,
    SessionFacts,
    SessionRecords,
    object_of,
    text_of,
)
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import timestamp
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = ["GENAI", "ForeignSpan", "GenAiSession", "is_genai"]

GENAI: Final = "otlp"
AGENT: Final = "agent"  # where no span names one
DEEPEST: Final = 64  # spans above a span in which its agent is looked for
MODELS: Final = frozenset({"chat", "text_completion", "generate_content", "embeddings", "response"})
AGENTS: Final = frozenset({"invoke_agent", "create_agent", "invoke_workflow", "plan"})
_FAILED: Final = (2, "STATUS_CODE_ERROR")


class ForeignSpan(NamedTuple):
    """A span of another program: its facts, those of its resource, its times and what its status says."""

    facts: Mapping[str, Any]
    resource: Mapping[str, Any]
    members: Mapping[str, Any]
    scope: str
    began: datetime
    ended: datetime

    @property
    def id(self) -> str:
        return text_of(self.members, "spanId")

    @property
    def parent(self) -> str:
        return text_of(self.members, "parentSpanId")

    @property
    def operation(self) -> str:
        return _text(self.facts, "gen_ai.operation.name")

    @property
    def failed(self) -> bool:
        return object_of(self.members.get("status")).get("code") in _FAILED or "error.type" in self.facts


def is_genai(facts: Mapping[str, Any]) -> bool:
    """Whether a span speaks of a model, an agent or a tool."""
    return any(name.startswith("gen_ai.") for name in facts) or "mcp.method.name" in facts


class _Moment(NamedTuple):
    """The beginning or the end of a span; of two at once, the outer begins first and the inner ends first."""

    at: datetime
    order: int
    place: int
    span: ForeignSpan
    ends: bool


class GenAiSession(SessionRecords):
    """Makes the records of the spans of one file."""

    def __init__(self, spans: Sequence[ForeignSpan]) -> None:
        first = min(spans, key=lambda span: span.began)
        super().__init__(GENAI, SessionFacts(_text(first.resource, "service.name"), first.began))
        self._spans = {span.id: span for span in spans}
        self._all = spans
        self._said: set[tuple[str, str, str]] = set()  # of a trace: role and text, which later spans repeat

    def read_spans(self, lines: Sequence[tuple[int, bytes, int]]) -> Iterator[Record]:
        """The records, after one that says what this log is of; `lines` have their number, data and count of spans."""
        yield self._event("opened", compact({"format": 1, "epoch": None, "vantage": "agent", "from": GENAI}))
        self._records.clear()
        for number, data, spans in lines:
            self._text = data.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            self._event("kept", f"line {number}: {spans} spans")
        order = [
            _Moment(moment, place if not ends else -place, place, span, ends)
            for place, span in enumerate(sorted(self._all, key=lambda span: span.began))
            for moment, ends in ((span.began, False), (span.ended, True))
        ]
        for moment in sorted(order, key=lambda one: (one.at, one.ends, one.order)):
            self._now, self._stamp = moment.at, timestamp(moment.at)
            self._id, self._parts = f"{moment.span.id or moment.place}{'/end' if moment.ends else ''}", 0
            self._take_span(moment.span, ends=moment.ends)
        for agent in [*self._thoughts]:
            self._conclude(agent)
        yield from self._records

    def _take_span(self, span: ForeignSpan, *, ends: bool) -> None:
        method = _text(span.facts, "mcp.method.name")
        if span.operation == "execute_tool" or method == "tools/call":
            self._take_tool(span, ends=ends)
        elif span.operation in AGENTS or span.operation in MODELS:
            agent = self._agent_of(span)
            if not ends:
                self._take_turns(span, agent, "gen_ai.input.messages")
            else:
                self._take_turns(span, agent, "gen_ai.output.messages")
                self._take_usage(span, agent)
        elif not ends:
            name = one_line(span.operation or text_of(span.members, "name"), MAX_TYPE)
            if is_genai(span.facts):
                self._unknown(name)
            else:
                self._event(
                    "kept", one_line(f"span of {span.scope or 'another library'}: {name}", 2 * MAX_TYPE)
                )

    def _agent_of(self, span: ForeignSpan) -> str:
        """The agent that a span names, or the nearest above it that one names."""
        at: ForeignSpan | None = span
        for _ in range(DEEPEST):
            if at is None:
                break
            if name := _text(at.facts, "gen_ai.agent.name"):
                return one_line(name, MAX_TYPE)
            at = self._spans.get(at.parent)
        return AGENT

    def _take_tool(self, span: ForeignSpan, *, ends: bool) -> None:
        facts, agent = span.facts, self._agent_of(span)
        id = _text(facts, "gen_ai.tool.call.id") or span.id
        if not ends:
            arguments = _value(facts.get("gen_ai.tool.call.arguments"))
            if id in self._calls:  # a span of MCP within that of its tool
                return
            name = _text(facts, "gen_ai.tool.name") or text_of(span.members, "name")
            self._call(agent, id, name, {} if arguments is None else arguments)
        elif id in self._calls:
            result = _value(facts.get("gen_ai.tool.call.result"))
            text = result if isinstance(result, str) else "" if result is None else compact(result)
            error = object_of(span.members.get("status")).get("message")
            text = text or (error if isinstance(error, str) else "") or _text(facts, "error.type")
            content = [{"type": "text", "text": text}] if text else []
            self._result(agent, id, content, failed=span.failed)

    def _take_turns(self, span: ForeignSpan, agent: str, which: str) -> None:
        for turn in _turns(span, which):
            role, trace = text_of(turn, "role"), text_of(span.members, "traceId")
            parts = turn.get("parts")
            for part in parts if type(parts) is list else [{"type": "text", "content": turn.get("content")}]:
                kind, text = text_of(object_of(part), "type"), text_of(object_of(part), "content")
                if not text or (key := (trace, f"{role} {kind}", text)) in self._said:
                    continue
                if kind == "text" and role == "user":
                    self._said.add(key)
                    self._prompt(HUMAN, agent, text)
                elif kind == "text" and role == "assistant":
                    self._said.add(key)
                    self._say(agent, HUMAN, text, ends=text_of(turn, "finish_reason") == "stop")
                elif kind == "reasoning":
                    self._said.add(key)
                    self._think(agent, text)

    def _take_usage(self, span: ForeignSpan, agent: str) -> None:
        facts, parts = span.facts, dict[str, int]()
        names = {
            "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
            "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
            "cached_input_tokens": ("gen_ai.usage.cache_read.input_tokens",),
        }
        for own, theirs in names.items():
            for name in theirs:
                if own not in parts and type(value := facts.get(name)) is int:
                    parts[own] = value
        if parts and span.operation in MODELS:  # that of an agent is the sum of those below it
            model = _text(facts, "gen_ai.response.model") or _text(facts, "gen_ai.request.model")
            tokens = parts.get("input_tokens", 0) + parts.get("output_tokens", 0)
            self._status(agent, tokens=tokens, **parts, model=model or None)


def _turns(span: ForeignSpan, which: str) -> list[dict[str, Any]]:
    """The messages of a span, from its attribute or from one of its events."""
    found = _value(span.facts.get(which))
    events = span.members.get("events")
    for event in events if found is None and type(events) is list else ():
        for attribute in object_of(event).get("attributes") or ():
            if text_of(object_of(attribute), "key") == which:
                found = _value(text_of(object_of(object_of(attribute).get("value")), "stringValue"))
    return [turn for turn in found if type(turn) is dict] if type(found) is list else []


def _value(value: Any) -> Any:
    """What the JSON text of an attribute says; the text itself where it is none."""
    if not isinstance(value, str):
        return value
    if value[:1] not in ("{", "["):
        return value
    if (members := read_members(value)) is not None:
        return members
    try:
        return read_json(value)
    except ValueError:
        return value


def _text(facts: Mapping[str, Any], name: str) -> str:
    value = facts.get(name)
    return value if isinstance(value, str) else ""
