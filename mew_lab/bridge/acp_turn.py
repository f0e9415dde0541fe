"""Shows what an ACP agent does in one turn: its thoughts, plan and tool calls as reasoning, its words as one chat.

A piece of a thought is kept until something else comes, so that a thought is one message. Of a tool call each state is
a message: `tool_call` in its payload has what the agent has told of it so far, and `asked` whether it asked for
permission; the proposal of that permission refers to such a message, by which its decision is joined to the call.
`plan` has the entries of a plan. What an agent sends without end is cut, and the rest is counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import line_of, list_of, mapping_of, text_of
from mew_lab.protocol.text import mend_surrogates
from mew_lab.protocol.token import mask
from mew_lab.sdk.trace import Trace

__all__ = ["TurnReport", "masked"]

MAX_TOLD = 1000  # messages of one turn; what comes after them is counted
MAX_TEXT = 1_000_000  # characters of its words, and of a thought
MAX_CALLS = 1000  # tool calls of which the state is remembered
MAX_MEMBERS = 64 * 1024  # characters of a tool call in a message
MAX_ENTRIES = 200  # of a plan
TITLE = 200  # characters of the title of a tool call in a sentence
ENDED = ("completed", "failed")  # states of a tool call
TOLD = ("title", "kind", "status", "rawInput", "content", "locations", "rawOutput")  # members of a tool call
LARGE = ("rawOutput", "content", "rawInput", "locations")  # of these, in the order in which they are left out


def masked(value: Any) -> Any:
    """A value of JSON without the secrets that this process knows."""
    text = json.dumps(value, ensure_ascii=False)
    clean = mask(text)
    return value if clean == text else json.loads(clean)


class _Pieces:
    """A text that comes in pieces; of a long one the beginning is kept, and the rest counted."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = self._left_out = 0

    def add(self, piece: str) -> None:
        kept = piece[: max(0, MAX_TEXT - self._size)]
        self._size += len(kept)
        self._left_out += len(piece) - len(kept)
        if kept:
            self._pieces.append(kept)

    def take(self) -> str:
        text = mend_surrogates("".join(self._pieces))
        if self._left_out:
            text += f"\n[{self._left_out} characters more are left out]"
        self._pieces, self._size, self._left_out = [], 0, 0
        return text


class TurnReport:
    """What was shown of one turn. `trace` is its reasoning."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.is_empty = True
        """Whether nothing came from the agent."""
        self._words = _Pieces()
        self._thought = _Pieces()
        self._calls: BoundedDict[str, dict[str, Any]] = BoundedDict(MAX_CALLS)
        self._asked: BoundedDict[str, None] = BoundedDict(MAX_CALLS)
        self._shown: BoundedDict[str, str] = BoundedDict(
            MAX_CALLS
        )  # tool call -> the newest message that told of it
        self._plan: object = None
        self._told = self._left_out = 0

    def take(self, update: Mapping[str, Any]) -> None:
        """Takes an update of the session; passes over those of other kinds."""
        kind = update.get("sessionUpdate")
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            self.is_empty = False
            piece = _text_of_block(update.get("content"))
            (self._words if kind == "agent_message_chunk" else self._thought).add(piece)
        elif kind in ("tool_call", "tool_call_update"):
            self.is_empty = False
            self._take_call(update)
        elif kind == "plan":
            self.is_empty = False
            self._take_plan(list_of(update.get("entries")))

    def call_of(self, id: str) -> Mapping[str, Any]:
        """What the agent has told of a tool call; empty for an unknown one."""
        return self._calls.get(id, {})

    def note_question(self, id: str, call: Mapping[str, Any]) -> tuple[str, ...]:
        """Records that the agent asked for permission of a tool call, and tells of the call where nothing has.

        Returns the id of the message that told of it, to which the question refers; none where none was sent.
        """
        if not id:
            return ()
        self._asked[id] = None
        if id not in self._shown:
            about = {name: call.get(name) for name in ("title", "kind")}
            self._take_call({**about, "toolCallId": id, "status": "pending"}, always=True)
        return (self._shown[id],) if id in self._shown else ()

    def tell(self, message: str, *, always: bool = False, **more: Any) -> str:
        """Sends a thought, unless there were too many; with `always` also then. Returns its id, empty for none."""
        self._flush()
        return self._send(message, always=always, **more)

    def take_words(self) -> str:
        """The words of the agent so far, which are not sent by this."""
        self._flush()
        if self._left_out:
            self.trace.thought(f"{self._left_out} messages of this turn are not shown")
            self._left_out = 0
        return self._words.take().strip()

    def _send(self, message: str, *, always: bool = False, **more: Any) -> str:
        self._told += 1
        if self._told > MAX_TOLD and not always:
            self._left_out += 1
            return ""
        return self.trace.thought(mask(mend_surrogates(message)), **masked(more))

    def _flush(self) -> None:
        if thought := self._thought.take().strip():
            self._send(thought)

    def _take_call(self, update: Mapping[str, Any], *, always: bool = False) -> None:
        id = text_of(update.get("toolCallId"), 256)
        call = self._calls.setdefault(id, {})
        before = call.get("status")
        call.update({name: update[name] for name in TOLD if update.get(name) not in (None, "", [], {})})
        status = line_of(call.get("status"), 20) or "pending"
        if status == before:
            return
        call["status"] = status
        asked = id in self._asked
        what = f"{line_of(call.get('kind'), 40) or 'tool'}: {line_of(call.get('title'), TITLE) or 'untitled'}"
        not_asked = ", not asked" if status in ENDED and not asked else ""
        shown = _fit_call({"id": id, **call, "asked": asked})
        if sent := self.tell(f"{what} [{status}{not_asked}]", always=always, tool_call=shown):
            self._shown[id] = sent

    def _take_plan(self, entries: list[Any]) -> None:
        plan = [
            {key: line_of(mapping_of(entry).get(key), 1000) for key in ("content", "status", "priority")}
            for entry in entries[:MAX_ENTRIES]
        ]
        if plan == self._plan:
            return
        self._plan = plan
        done = sum(entry["status"] == "completed" for entry in plan)
        more: dict[str, Any] = (
            {"entries_left_out": len(entries) - MAX_ENTRIES} if len(entries) > MAX_ENTRIES else {}
        )
        now = next((entry["content"] for entry in plan if entry["status"] == "in_progress"), "")
        self.tell(f"Plan: {done} of {len(entries)} done{f', now: {now}' if now else ''}", plan=plan, **more)


def _fit_call(call: dict[str, Any]) -> dict[str, Any]:
    """A tool call as a message can hold it; `left_out` names the members that were too large."""
    left_out: list[str] = []
    for name in LARGE:
        if len(json.dumps(call, ensure_ascii=False)) <= MAX_MEMBERS:
            break
        if call.pop(name, None) is not None:
            left_out.append(name)
    call["title"] = line_of(call.get("title"), 2000)
    call["kind"] = line_of(call.get("kind"), 40)
    return {**call, "left_out": left_out} if left_out else call


def _text_of_block(block: object) -> str:
    """The text of a block of content; what is no text is named."""
    found = mapping_of(block)
    if found.get("type") == "text":
        return text_of(found.get("text"))
    if found.get("type") == "resource_link":
        return f"[{line_of(found.get('name'), 80)}]({line_of(found.get('uri'), 500)})"
    return f"[{line_of(found.get('type'), 40) or 'unknown content'}]"
