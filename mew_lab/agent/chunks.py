"""Adds up the chunks of a streamed chat completion: `Events` reads them, `Assembly` adds; pure.

What comes is a stranger's: each member is looked at before it is used, what makes no sense is passed over, and
there is a bound to everything. It knows no HTTP and asks nobody.

Spec: SDK "LLM Tool Preparation".
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from mew_lab.agent.model import Reply, ToolCall, Usage
from mew_lab.agent.names import Names
from mew_lab.agent.redaction import Redaction
from mew_lab.protocol.visible import one_line

__all__ = ["MAX_CALLS", "MAX_LINE", "MAX_TEXT", "Assembly", "Events", "TooLong", "arguments_of", "sound"]

MAX_TEXT = 1 << 20  # characters of text, reasoning and arguments together
MAX_CALLS = 128
MAX_LINE = 8 << 20  # bytes: a mebibyte of arguments, each character escaped
_LISTED = 10  # tools that are named to a model which asked for another
_ID = 128


class TooLong(ValueError):
    """A server sends more than anybody asked for."""


class Events:
    """Bytes of an event stream, cut anywhere, to the data of its events."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[str] = []
        self._held = 0

    def feed(self, data: bytes) -> Iterator[str]:
        """The events that these bytes complete."""
        if b"\n" in data:
            *lines, rest = (bytes(self._rest) + data).split(b"\n")
            self._rest = bytearray(rest)
            for line in lines:
                yield from self._line(line)
        else:
            self._rest += data
        if len(self._rest) + self._held > MAX_LINE:
            raise TooLong(f"one event has more than {MAX_LINE} bytes")

    def end(self) -> Iterator[str]:
        """What is left where a server ends without the empty line."""
        rest, self._rest = bytes(self._rest), bytearray()
        yield from self._line(rest)
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[str]:
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


class Assembly:
    """One reply in the making. `finished` once the server said why it ended; `text_length` is what came so far."""

    def __init__(
        self,
        names: Names,
        *,
        offered: Collection[str],
        redaction: Redaction,
        new_id: Callable[[], str],
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self._names = names
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
        self.told = False
        self.finished = ""
        self.begun = False

    def add(self, chunk: dict[str, Any]) -> None:
        """One chunk, or a whole completion.

        Raises:
            TooLong: the reply passed a bound.
        """
        self._usage = _usage(chunk.get("usage")) or self._usage
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if not isinstance(choice, dict) or choice.get("index") not in (0, None):
                continue
            said = choice.get("delta") or choice.get("message")
            if isinstance(said, dict):
                self.begun = True
                self._say(said)
            if isinstance(reason := choice.get("finish_reason"), str):
                self.begun, self.finished = True, self.finished or reason

    def reply(self) -> Reply:
        """What was said. A call that cannot be made is in it, with its fault."""
        self._told("", last=True)
        taken: set[str] = set()
        return Reply(
            text="".join(self._text),
            reasoning=self._redaction.text(sound("".join(self._reasoning))),
            tool_calls=tuple(self._called(call, taken) for call in self._calls),
            usage=self._usage,
            cut=self.finished == "length",
        )

    def _say(self, said: dict[str, Any]) -> None:
        if text := _text(said.get("content")) or _text(said.get("refusal")):
            self._grow(text)
            self._told(text)
        if reasoning := _text(said.get("reasoning_content")) or _text(said.get("reasoning")):
            self._grow(reasoning)
            self._reasoning.append(reasoning)
        calls = said.get("tool_calls")
        for place, given in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(given, dict):
                self._call(given, place)

    def _told(self, text: str, *, last: bool = False) -> None:
        sound = self._whole.decode(text.encode("utf-16-le", "surrogatepass"), last)
        piece = self._redaction.piece(sound, last=last)
        if not piece:
            return
        self._text.append(piece)
        self.text_length += len(piece)
        if self._on_text is not None:
            self.told = True
            self._on_text(piece)

    def _call(self, given: dict[str, Any], place: int) -> None:
        index, id = given.get("index"), given.get("id")
        id = id if isinstance(id, str) else ""
        key = index if isinstance(index, int) else place
        call = self._at.get(key)
        if call is None or (id and call.id and id != call.id):  # some servers give each call the index 0
            if len(self._calls) == MAX_CALLS:
                raise TooLong(f"it has more than {MAX_CALLS} tool calls")
            call = self._at[key] = _Call()
            self._calls.append(call)
        call.id = call.id or id
        function = given.get("function")
        if not isinstance(function, dict):
            return
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and not call.name:  # some repeat it in every chunk
            self._grow(name)
            call.name = name
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            self._grow(text)
            call.arguments.append(text)

    def _grow(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_TEXT:
            raise TooLong(f"it has more than {MAX_TEXT} characters")

    def _called(self, call: _Call, taken: set[str]) -> ToolCall:
        id = self._redaction.text(sound(call.id))
        if not id or len(id) > _ID or id in taken:
            id = self._new_id()
        taken.add(id)
        name = self._names.name.get(call.name, call.name)
        if name not in self._offered:
            return ToolCall(id, self._redaction.text(sound(name)), {}, fault=self._unknown())
        value = arguments_of("".join(call.arguments))
        if isinstance(value, str):
            cut = "; the reply ended at its greatest length" if self.finished == "length" else ""
            return ToolCall(id, name, {}, fault=self._redaction.text(value + cut))
        try:
            return ToolCall(id, name, self._redaction.value(value))
        except RecursionError:
            return ToolCall(id, name, {}, fault="the arguments are nested too deeply")

    def _unknown(self) -> str:
        known = sorted(self._offered)
        more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        return f"no such tool; there are: {', '.join(known[:_LISTED]) or 'none'}{more}"


def arguments_of(text: str) -> dict[str, Any] | str:
    """The arguments that a model wrote, or what is wrong with them. Nothing at all counts as `{}`."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_no_constant)
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


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _text(value: Any) -> str:
    """A text, or the texts of its parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def sound(text: str) -> str:
    """The text with halves of characters joined or replaced: it can be sent on."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    read, written = value.get("prompt_tokens"), value.get("completion_tokens")
    if type(read) is int and type(written) is int and min(read, written) >= 0:
        return Usage(read, written)
    return None
