"""Reads evaluation logs of inspect_ai: `.json` files of one object, and `.eval` files, which are ZIP archives of such.

A log is laid out anew before it is read, one line for each part, so that nothing is held whole for long: the header,
then each sample without its events, then each event of it. All members are kept; only spaces and the order of parts
change.

Each sample is a participant of its own, `sample-<id>-<epoch>`. An approval that the file records is a decision of its
approver. Long texts stand once in a sample and are named by its events; they are put back into the messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from mew_lab.log.json_text import read_json, write_json
from mew_lab.log.session_records import (
    HUMAN,
    MAX_TYPE,
    CallDecision,
    SessionFacts,
    SessionRecords,
    look_at_head,
    object_of,
    text_of,
)
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.text import parse_timestamp
from mew_lab.protocol.visible import one_line

__all__ = ["INSPECT", "InspectSession", "is_inspect_head", "is_inspect_line", "lay_out", "look_at_inspect"]

INSPECT: Final = "inspect"
MAX_CALLS: Final = 200_000
MAX_ATTACHMENTS: Final = 64 * 1024 * 1024  # characters of long texts of one sample that are put back
DEEPEST: Final = 40  # values within values in which such texts are looked for
_HEAD = re.compile(rb'\s*\{\s*"version":\s*\d+,\s*"status":\s*"')
# Numbers that the fast reader refuses or changes.
_ODD = re.compile(rb"\bNaN\b|\bInfinity\b|[0-9]{19}")
_SAMPLE = re.compile(r"samples/.+\.json\Z")
_ATTACHED: Final = "attachment://"
_EVENTS = """
    anchor approval branch checkpoint compaction error info input interrupt logger sample_init sample_limit sandbox
    score score_edit span_begin span_end state step store subtask
"""
EVENTS: Final = frozenset(_EVENTS.split())
"""The types of events that are known and are no messages."""
PARTS: Final = frozenset({"header", "sample", "member"})


def is_inspect_head(head: bytes) -> bool:
    """Whether a file of one object with this beginning is a log of inspect_ai."""
    return _HEAD.match(head) is not None


def is_inspect_line(members: Mapping[str, Any]) -> bool:
    """Whether a line is of a log that was laid out."""
    return isinstance(members.get("inspect"), str) and "data" in members


def look_at_inspect(file: IO[bytes]) -> SessionFacts:
    """What the beginning of a log tells."""
    began, _ = look_at_head(file)
    return SessionFacts("", began)


def lay_out(data: bytes, name: str = "") -> Iterator[bytes]:
    """The lines of a log in one object, or of one member of an archive, by its name.

    Raises:
        ValueError: it is no JSON.
    """
    odd = _ODD.search(data) is not None
    try:
        value = json.loads(data) if odd else read_json(data)
    except ValueError:  # half of a surrogate pair, or no JSON at all
        odd, value = True, json.loads(data)
    write = _write_odd if odd else write_json
    for part in _parts(value, name):
        yield write(part) + b"\n"


def _write_odd(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _parts(value: Any, name: str) -> Iterator[dict[str, Any]]:
    if not name and type(value) is dict:
        samples = value.pop("samples", None)
        yield {"inspect": "header", "data": value}
        for sample in samples if type(samples) is list else ():
            yield from _sample_parts(sample)
    elif _SAMPLE.match(name):
        yield from _sample_parts(value)
    elif name == "header.json":
        yield {"inspect": "header", "data": value}
    else:
        yield {"inspect": "member", "name": name, "data": value}


def _sample_parts(sample: Any) -> Iterator[dict[str, Any]]:
    if type(sample) is not dict:
        yield {"inspect": "sample", "data": sample}
        return
    events = sample.pop("events", None)
    whose = {"id": sample.get("id"), "epoch": sample.get("epoch")}
    yield {"inspect": "sample", **whose, "data": sample}
    for event in events if type(events) is list else ():
        yield {"inspect": "event", **whose, "data": event}


class InspectSession(SessionRecords):
    """Reads the lines of one log of inspect_ai."""

    def __init__(self, facts: SessionFacts) -> None:
        super().__init__(INSPECT, facts)
        self._attachments: Mapping[str, Any] = {}
        self._decisions: dict[str, CallDecision] = {}
        self._callers: BoundedDict[str, str] = BoundedDict(MAX_CALLS)  # by id: the sample that took it first
        self._asked: set[str] = set()  # samples whose input is a prompt already

    def _take(self, members: dict[str, Any]) -> None:
        part, data = text_of(members, "inspect"), object_of(members.get("data"))
        if part == "header":
            about = object_of(data.get("eval"))
            self._date(about.get("created"))
            self._space = one_line(text_of(about, "task"), MAX_TYPE) or self._space
        elif part == "sample":
            self._begin_sample(data)
        elif part == "event":
            self._take_event(_name_of(members), text_of(data, "event"), data)

    def _keep(self, members: dict[str, Any]) -> None:
        part, data = text_of(members, "inspect"), object_of(members.get("data"))
        kind = text_of(data, "event")
        if part in PARTS or kind in EVENTS:
            self._event("kept", one_line(f"{part}: {kind}" if kind else part, 2 * MAX_TYPE))
        else:
            self._unknown(kind or part)

    def _date(self, stamp: object) -> None:
        if (moment := parse_timestamp(stamp)) is not None:
            self._now, self._stamp = moment, str(stamp)

    def _begin_sample(self, sample: dict[str, Any]) -> None:
        self._date(sample.get("started_at"))
        attached = object_of(sample.get("attachments"))
        size = sum(len(text) for text in attached.values() if isinstance(text, str))
        self._attachments = attached if size <= MAX_ATTACHMENTS else {}
        self._decisions.clear()

    def _take_event(self, agent: str, kind: str, event: dict[str, Any]) -> None:
        self._date(event.get("timestamp"))
        if uuid := text_of(event, "uuid"):
            self._id = uuid
        match kind:
            case "sample_init":
                self._take_input(agent, object_of(event.get("sample")).get("input"))
            case "model":
                self._take_answer(agent, event)
            case "approval":
                self._take_approval(event)
            case "tool":
                self._take_call(agent, event)

    def _take_input(self, agent: str, given: Any) -> None:
        turns = given if type(given) is list else [{"role": "user", "content": given}]
        for turn in turns:
            if text_of(object_of(turn), "role") == "user" and agent not in self._asked:
                self._asked.add(agent)
                self._prompt(HUMAN, agent, "\n".join(_texts(self._whole(turn.get("content")))))

    def _take_answer(self, agent: str, event: dict[str, Any]) -> None:
        output = object_of(event.get("output"))
        choices = output.get("choices")
        choice = object_of(choices[0] if type(choices) is list and choices else None)
        answer = object_of(choice.get("message"))
        content = self._whole(answer.get("content"))
        for block in content if type(content) is list else [{"type": "text", "text": content}]:
            block = object_of(block)
            if block.get("type") == "reasoning":
                hidden = {"encrypted": True} if block.get("redacted") is True else {}
                self._think(agent, text_of(block, "reasoning") or text_of(block, "summary"), **hidden)
            elif text := text_of(block, "text"):
                self._say(agent, HUMAN, text, ends=not answer.get("tool_calls"))
        usage, model = object_of(output.get("usage")), text_of(output, "model") or text_of(event, "model")
        names = {"input_tokens_cache_read": "cache_read_input_tokens"}
        names |= {"input_tokens_cache_write": "cache_creation_input_tokens"}
        names |= {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
        parts = {own: value for name, own in names.items() if type(value := usage.get(name)) is int}
        if parts:
            self._date(event.get("completed"))
            self._status(agent, tokens=sum(parts.values()), **parts, model=model or None)

    def _take_approval(self, event: dict[str, Any]) -> None:
        id = text_of(object_of(event.get("call")), "id")
        by = one_line(text_of(event, "approver"), MAX_TYPE)
        reason = {
            "reject": text_of(event, "explanation"),
            "terminate": text_of(event, "explanation"),
            "approve": None,
        }
        decision = event.get("decision")
        if id and by and decision in reason:
            self._decisions[id] = CallDecision(by, reason[decision], stamp=self._stamp)

    def _take_call(self, agent: str, event: dict[str, Any]) -> None:
        own = text_of(event, "id") or self._id
        # Models number their calls in each sample anew.
        id = own if self._callers.setdefault(own, agent) == agent else f"{own}/{agent}"
        self._call(agent, id, text_of(event, "function"), self._whole(event.get("arguments")))
        self._date(event.get("completed"))
        error, result = object_of(event.get("error")), self._whole(event.get("result"))
        texts = _texts(result) or ([text_of(error, "message")] if error else [])
        content = [{"type": "text", "text": text} for text in texts if text]
        if event.get("completed") is not None or error or event.get("pending") is not True:
            decision = self._decisions.pop(own, None)
            self._result(
                agent, id, content, failed=bool(error) or event.get("failed") is True, decision=decision
            )

    def _whole(self, value: Any, deep: int = 0) -> Any:
        """A value with its long texts, which stand in the sample."""
        if type(value) is str:
            if not value.startswith(_ATTACHED):
                return value
            found = self._attachments.get(value.removeprefix(_ATTACHED))
            return found if type(found) is str else value
        if deep < DEEPEST and type(value) is dict:
            return {key: self._whole(one, deep + 1) for key, one in value.items()}
        return (
            [self._whole(one, deep + 1) for one in value] if deep < DEEPEST and type(value) is list else value
        )


def _name_of(members: Mapping[str, Any]) -> str:
    """The participant that a sample is."""
    id = re.sub(r"[^A-Za-z0-9._-]", "-", str(members.get("id")))[:40]
    epoch = members.get("epoch")
    return f"sample-{id}-{epoch if type(epoch) is int else 1}"


def _texts(content: Any) -> list[str]:
    if type(content) is str:
        return [content] if content else []
    if type(content) is list:
        return [text for one in content if (text := text_of(object_of(one), "text"))]
    return [] if content is None else [str(content)]
