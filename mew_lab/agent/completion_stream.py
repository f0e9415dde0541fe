"""Reads the answer of a chat completions server, piece by piece, into one reply; pure.

Bytes go into a `CompletionReader`, which distinguishes an event stream from one JSON text. It passes each chunk to a
`ReplyAssembly`, which collects text, reasoning, calls and usage. At the end there is a `Reply`, or a
`CompletionFailure` with the reason.

The typed stream of the `openai` package is not used. Of 17 faulty answers that were tried (a page of HTML, one JSON text
without events, a stream that breaks off, an event of 40 MB, members of other types …), version 3.54 passes 13 on as
good ones, because its objects are not validated. So each check below would stay, and those for a page and a break move
into a wrapper. It would save the 40 lines that split events, and would need as many to bound them and to count the
comments that a slow server sends. The client of the package still makes the connection and sends the request.

The server is untrusted: each member is checked before it is used, an invalid member is ignored, and everything is
bounded.

Spec: SDK "LLM Tool Preparation", "Layer 3".
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mew_lab.agent.completion_errors import CompletionFailure, Redaction, failure_of_error
from mew_lab.agent.model import Reply, ToolCall, Usage
from mew_lab.agent.reply_text import TextCall, split_calls, split_reasoning
from mew_lab.protocol.coerce import json_of, list_of, member, text_of
from mew_lab.protocol.text import ToolNames, mend_surrogates
from mew_lab.protocol.visible import one_line

__all__ = [
    "MAX_CALLS",
    "MAX_LINE",
    "MAX_TEXT",
    "CompletionReader",
    "EventStreamParser",
    "ReplyAssembly",
    "TooLong",
    "failure_of_break",
    "parse_arguments",
]

MAX_TEXT = 1 << 20  # characters of text, reasoning and arguments together
MAX_CALLS = 128
MAX_LINE = 8 << 20  # bytes: a mebibyte of arguments, each character escaped
_LISTED = 10  # tools that are listed to a model that called an unknown one
_ID = 128


class TooLong(ValueError):
    """The answer of a server exceeds a bound."""


class EventStreamParser:
    """Turns the bytes of an event stream, cut anywhere, into the data of its events."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[str] = []
        self._held = 0

    def feed(self, data: bytes) -> Iterator[str]:
        """The data of the events that these bytes complete."""
        if b"\n" in data:
            *lines, rest = (bytes(self._rest) + data).split(b"\n")
            self._rest = bytearray(rest)
            for line in lines:
                yield from self._feed_line(line)
        else:
            self._rest += data
        if len(self._rest) + self._held > MAX_LINE:
            raise TooLong(f"one event has more than {MAX_LINE} bytes")

    def end(self) -> Iterator[str]:
        """The rest, where a server ends without the empty line."""
        rest, self._rest = bytes(self._rest), bytearray()
        yield from self._feed_line(rest)
        yield from self._feed_line(b"")

    def _feed_line(self, line: bytes) -> Iterator[str]:
        text = line.removesuffix(b"\r").decode("utf-8", "replace")
        if text.startswith("data:"):
            self._data.append(text.removeprefix("data:").removeprefix(" "))
            self._held += len(line) + 1
        elif not text and self._data:
            data, self._data, self._held = "\n".join(self._data), [], 0
            yield data


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ReplyAssembly:
    """A reply while it arrives. `finished` is the server's reason for its end, `text_length` the characters so far."""

    def __init__(
        self,
        names: ToolNames,
        *,
        offered: Collection[str],
        redaction: Redaction,
        new_id: Callable[[], str],
        on_text: Callable[[str], None] | None = None,
        text_calls: bool = False,
    ) -> None:
        self._names = names
        self._text_calls = text_calls
        self._offered = offered
        self._redaction = redaction
        self._new_id = new_id
        self._on_text = on_text
        self._whole = codecs.getincrementaldecoder("utf-16-le")("replace")  # joins the halves of a pair
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._usage: Usage | None = None
        self._size = 0
        self.text_length = 0
        self.emitted = False
        self.finished = ""
        self.begun = False

    def add(self, chunk: dict[str, Any]) -> None:
        """Adds one chunk, or a whole completion.

        Raises:
            TooLong: the reply exceeds a bound.
        """
        self._usage = _usage(chunk.get("usage")) or self._usage
        for choice in list_of(chunk.get("choices")):
            if not isinstance(choice, dict) or choice.get("index") not in (0, None):
                continue
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                self.begun = True
                self._add_message(delta)
            if isinstance(reason := choice.get("finish_reason"), str):
                self.begun, self.finished = True, self.finished or reason

    def reply(self) -> Reply:
        """The whole reply. A call that cannot be made is in it, with its fault."""
        self._emit_text("", last=True)
        taken: set[str] = set()
        thought, text = split_reasoning("".join(self._text))
        reasoning = self._redaction.text(mend_surrogates("".join(self._reasoning)))
        calls = [self._read_call(call, taken) for call in self._calls]
        if self._text_calls and self._offered and not calls:
            text, written = split_calls(text)
            calls = [self._read_text_call(call) for call in written]
        return Reply(
            text=text,
            reasoning="\n".join(filter(None, (reasoning, thought))),
            tool_calls=tuple(calls),
            usage=self._usage,
            cut=self.finished == "length",
            filtered=self.finished == "content_filter",
        )

    def _add_message(self, delta: dict[str, Any]) -> None:
        if text := _text(delta.get("content")) or _text(delta.get("refusal")):
            self._count(text)
            self._emit_text(text)
        if reasoning := _text(delta.get("reasoning_content")) or _text(delta.get("reasoning")):
            self._count(reasoning)
            self._reasoning.append(reasoning)
        for place, part in enumerate(list_of(delta.get("tool_calls"))):
            if isinstance(part, dict):
                self._add_call(part, place)

    def _emit_text(self, text: str, *, last: bool = False) -> None:
        whole = self._whole.decode(text.encode("utf-16-le", "surrogatepass"), last)
        piece = self._redaction.piece(whole, last=last)
        if not piece:
            return
        self._text.append(piece)
        self.text_length += len(piece)
        if self._on_text is not None:
            self.emitted = True
            self._on_text(piece)

    def _add_call(self, part: dict[str, Any], place: int) -> None:
        index, id = part.get("index"), text_of(part.get("id"))
        key = index if isinstance(index, int) else place
        call = self._at.get(key)
        if call is None or (id and call.id and id != call.id):  # some servers give each call the index 0
            if len(self._calls) == MAX_CALLS:
                raise TooLong(f"it has more than {MAX_CALLS} tool calls")
            call = self._at[key] = _Call()
            self._calls.append(call)
        call.id = call.id or id
        function = part.get("function")
        if not isinstance(function, dict):
            return
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and not call.name:  # some repeat it in every chunk
            self._count(name)
            call.name = name
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            self._count(text)
            call.arguments.append(text)

    def _count(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_TEXT:
            raise TooLong(f"it has more than {MAX_TEXT} characters")

    def _read_call(self, call: _Call, taken: set[str]) -> ToolCall:
        id = self._redaction.text(mend_surrogates(call.id))
        if not id or len(id) > _ID or id in taken:
            id = self._new_id()
        taken.add(id)
        name = self._names.name.get(call.name, call.name)
        if name not in self._offered:
            return ToolCall(
                id, self._redaction.text(mend_surrogates(name)), {}, fault=self._describe_unknown()
            )
        value = parse_arguments("".join(call.arguments))
        if isinstance(value, str):
            cut = "; the reply ended at its greatest length" if self.finished == "length" else ""
            return ToolCall(id, name, {}, fault=self._redaction.text(value + cut))
        try:
            return ToolCall(id, name, self._redaction.value(value))
        except RecursionError:
            return ToolCall(id, name, {}, fault="the arguments are nested too deeply")

    def _read_text_call(self, call: TextCall) -> ToolCall:
        name = self._names.name.get(call.name, call.name)
        arguments = parse_arguments(json.dumps(call.arguments))
        fault = "" if isinstance(arguments, dict) else arguments
        if not call.name:
            name, fault = "tool_call", 'the call is no JSON object with a "name" and "arguments"'
        elif name not in self._offered:
            fault = self._describe_unknown()
        known = arguments if isinstance(arguments, dict) and not fault else {}
        return ToolCall(self._new_id(), name, known, fault=fault, text=call.text)

    def _describe_unknown(self) -> str:
        known = sorted(self._offered)
        more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        return f"no such tool; there are: {', '.join(known[:_LISTED]) or 'none'}{more}"


def parse_arguments(text: str) -> dict[str, Any] | str:
    """The arguments in the text of a model, or a sentence about their fault.

    An empty text counts as `{}`. Small models write the object as a JSON string, which counts as that object.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = json.loads(value, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "the arguments hold half a character"
    except (ValueError, RecursionError) as err:
        return f"the arguments are not JSON: {one_line(str(err), 120)}"
    if value is None:
        return {}
    if not isinstance(value, dict):
        return "the arguments must be a JSON object"
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _text(value: Any) -> str:
    """A text, or the texts of its parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return text_of(value)


def _usage(value: Any) -> Usage | None:
    read, written = member(value, "prompt_tokens"), member(value, "completion_tokens")
    if type(read) is int and type(written) is int and min(read, written) >= 0:
        return Usage(read, written)
    return None


class CompletionReader:
    """Reads one answer: events, or one JSON text. `over` is whether it needs no more bytes."""

    def __init__(self, assembly: ReplyAssembly, redaction: Redaction, *, whole: bool) -> None:
        self._assembly = assembly
        self._redaction = redaction
        self._whole = bytearray() if whole else None
        self._events = EventStreamParser()
        self._head = b""
        self.over = False
        self.failure: CompletionFailure | None = None

    def feed(self, piece: bytes | None) -> None:
        """Takes the next bytes; None at the end."""
        try:
            if piece is None:
                self._end()
            elif self._whole is None:
                self._head = self._head or piece[:200]
                self._feed_events(self._events.feed(piece))
            else:
                self._whole += piece
                if len(self._whole) > MAX_LINE:
                    raise TooLong(f"it has more than {MAX_LINE} bytes")
        except TooLong as err:
            self._fail(CompletionFailure(f"its answer was cut: {err}"))

    def _end(self) -> None:
        self.over = True
        if self._whole is None:
            self._feed_events(self._events.end(), last=True)
        else:
            self._add_chunk(bytes(self._whole).decode("utf-8", "replace"))
        if self.failure is not None or self._assembly.finished:
            return
        if self._assembly.begun and self._whole is None:
            self._fail(failure_of_break(self._assembly))
        elif not self._assembly.begun:
            self._fail(self._describe_nonsense(self._head or bytes(self._whole or b"")))

    def _feed_events(self, events: Iterable[str], *, last: bool = False) -> None:
        for data in events:
            if self.over and not last:
                return
            if data.startswith("[DONE]"):
                self.over = True
                if not self._assembly.begun:
                    self._fail(self._describe_nonsense(self._head))
            else:
                self._add_chunk(data, cut=last)

    def _add_chunk(self, data: str, *, cut: bool = False) -> None:
        """Adds the chunk of one event. With `cut` it may be a part of an event, and is ignored if it is not JSON."""
        chunk = json_of(data)
        if chunk is None and cut:
            return
        if not isinstance(chunk, dict):
            self._fail(self._describe_nonsense(data[:200].encode("utf-8", "replace")))
        elif chunk.get("error"):
            self._fail(failure_of_error(chunk["error"], redaction=self._redaction))
        else:
            self._assembly.add(chunk)

    def _describe_nonsense(self, head: bytes) -> CompletionFailure:
        if not head.strip():
            return CompletionFailure(
                "its answer was empty",
                "Its server may have failed while it answered: see its log.",
                empty=True,
            )
        begins = one_line(self._redaction.complaint(head.decode("utf-8", "replace")), 80)
        return CompletionFailure(
            f"its answer is no chat completion: {begins!r}",
            "Check base_url=: most servers want it to end in /v1.",
        )

    def _fail(self, failure: CompletionFailure) -> None:
        self.over = True
        self.failure = self.failure or failure


def failure_of_break(assembly: ReplyAssembly) -> CompletionFailure:
    return CompletionFailure(
        f"the stream broke off after {assembly.text_length} characters", "Try again.", broken=True
    )
