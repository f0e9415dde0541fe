"""Parses a large JSON text in steps, so that a loop can serve others in between.

`json.loads` keeps the lock of the interpreter until it is done, which takes seconds for a text of many values, in a
thread too. Here a text is read window by window: the whole members of a list or an object that lie in a window are
parsed at once, and one that is longer than a window is entered. The value is that of `json.loads`.
"""

from __future__ import annotations

import gc
import json
import re
from codecs import utf_8_decode
from typing import Any

from mew_lab.protocol.steps import Steps

__all__ = ["parse_steps"]

WINDOW = 16 * 1024  # bytes: at most some milliseconds, whatever they hold
MAX_DEPTH = 900  # lists and objects that are entered; about what `json.loads` takes
_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT_SPACE = re.compile(r"[ \t\r\n]*")
_BEHIND_NUMBERS = frozenset(",]} \t\r\n")
_CHARACTERS = re.compile(rb'(?:[^"\\\x00-\x1f]+|\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))*')
_read_value = json.JSONDecoder().raw_decode


def parse_steps(data: bytes | bytearray) -> Steps[Any]:
    """The value of a JSON text in UTF-8.

    Raises:
        ValueError: it is no JSON, or no UTF-8.
        RecursionError: it is nested too deeply.
    """
    if len(data) <= WINDOW:
        return json.loads(data.decode())
    try:
        return (yield from _Reader(data).read())
    finally:
        gc.unfreeze()


class _Reader:
    """Reads one text. `_at` is the place that was reached."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self._at = 0

    def read(self) -> Steps[Any]:
        top: list[Any] = []
        entered: list[list[Any] | dict[str, Any]] = [top]
        key = ""
        yield from self._skip_space()
        while True:
            sign = self._sign()
            if sign in (b"[", b"{"):
                value: list[Any] | dict[str, Any] = [] if sign == b"[" else {}
                _put(entered[-1], key, value)
                entered.append(value)
                if len(entered) > MAX_DEPTH:
                    raise RecursionError("it is nested too deeply")
                self._at += 1
                yield from self._skip_space()
                is_member: bool | None = self._sign() != _end_of(value)
            else:
                _put(
                    entered[-1], key, (yield from self._read_string()) if sign == b'"' else self._read_short()
                )
                is_member = False
            while True:
                yield from self._skip_space()
                if is_member:
                    if (is_member := self._read_window(entered[-1])) is None:
                        break  # a member that does not end in its window
                    yield
                    gc.freeze()  # what has come is no garbage, and no collection walks it again and again
                    continue
                if len(entered) == 1:
                    if self._at < len(self._data):
                        raise self._fault("more than a value")
                    return top[0]
                if self._sign() == _end_of(entered[-1]):
                    entered.pop()
                    self._at += 1
                    continue
                self._expect(b",")
                is_member = True
            if isinstance(entered[-1], dict):
                key = yield from self._read_string()
                yield from self._skip_space()
                self._expect(b":")
                yield from self._skip_space()

    def _read_window(self, container: list[Any] | dict[str, Any]) -> bool | None:
        """Reads the members of a container that end in the window.

        Returns:
            Whether another member follows, and None where the first one does not end in the window.
        """
        text, _ = utf_8_decode(self._data[self._at : self._at + WINDOW], "strict", False)
        place = read = 0
        is_alone = True
        while True:
            try:
                key, begin = _read_key(text, place) if isinstance(container, dict) else ("", place)
                value, end = _read_value(text, begin)
            except (ValueError, IndexError):
                break  # cut by the window, or no JSON, which is told when it is read alone
            if isinstance(value, int | float) and text[end : end + 1] not in _BEHIND_NUMBERS:
                break  # more of it may follow
            _put(container, key, value)
            read = end
            place = _TEXT_SPACE.match(text, end).end()  # type: ignore[union-attr]
            if text[place : place + 1] != ",":
                self._at += len(text[:read].encode())
                return False
            place = _TEXT_SPACE.match(text, place + 1).end()  # type: ignore[union-attr]
            if is_alone:
                is_alone, place = False, _read_many(container, text, place)
            read = place
        self._at += len(text[:read].encode())
        return True if read else None

    def _read_string(self) -> Steps[str]:
        self._expect(b'"')
        pieces: list[str] = []
        while self._sign() != b'"':
            found = _CHARACTERS.match(self._data, self._at, self._at + 4 * WINDOW)
            end = found.end()  # type: ignore[union-attr]
            while end < len(self._data) and self._data[end] & 0xC0 == 0x80:
                end -= 1  # in the middle of a character
            piece = self._data[self._at : end].decode()
            if end <= self._at:
                raise self._fault("no character of a string")
            self._at = end
            piece = json.loads(f'"{piece}"') if "\\" in piece else piece
            if pieces and "\ud800" <= pieces[-1][-1] < "\udc00" <= piece[0] < "\ue000":
                pair = (pieces[-1][-1] + piece[0]).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
                pieces[-1], piece = pieces[-1][:-1] + pair, piece[1:]
            if piece:
                pieces.append(piece)
            yield
        self._at += 1
        return "".join(pieces)

    def _read_short(self) -> Any:
        """A number or a word."""
        text = self._data[self._at : self._at + WINDOW].decode("utf-8", "replace")
        value, end = _read_value(text)
        if end == WINDOW:
            raise self._fault(f"a number of more than {WINDOW} digits")
        self._at += end
        return value

    def _skip_space(self) -> Steps[None]:
        while (end := _SPACE.match(self._data, self._at, self._at + 4 * WINDOW).end()) > self._at:  # type: ignore[union-attr]
            self._at = end
            yield

    def _sign(self) -> bytes | bytearray:
        return self._data[self._at : self._at + 1]

    def _expect(self, sign: bytes) -> None:
        if self._sign() != sign:
            raise self._fault(f"no {sign.decode()}")
        self._at += 1

    def _fault(self, what: str) -> ValueError:
        return ValueError(f"{what} at byte {self._at}")


def _read_key(text: str, place: int) -> tuple[str, int]:
    """The name of the member of an object, and where its value begins."""
    key, end = _read_value(text, place)
    colon = _TEXT_SPACE.match(text, end).end()  # type: ignore[union-attr]
    if not isinstance(key, str) or text[colon] != ":":
        raise ValueError("no name")
    return key, _TEXT_SPACE.match(text, colon + 1).end()  # type: ignore[union-attr]


def _read_many(container: list[Any] | dict[str, Any], text: str, place: int) -> int:
    """Reads members up to a comma near the end of a window, where one there is between two of them.

    Returns:
        Where the next member begins.
    """
    signs = "{}" if isinstance(container, dict) else "[]"
    for cut in sorted(
        {text.rfind(sign, place) + len(sign) - 1 for sign in ("],", "},", '",', ",")}, reverse=True
    ):
        if cut <= place:
            break
        try:
            many = json.loads(f"{signs[0]}{text[place:cut]}{signs[1]}")
        except ValueError:
            continue
        container.update(many) if isinstance(container, dict) else container.extend(many)
        return _TEXT_SPACE.match(text, cut + 1).end()  # type: ignore[union-attr]
    return place


def _put(container: list[Any] | dict[str, Any], key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container.append(value)


def _end_of(container: list[Any] | dict[str, Any]) -> bytes:
    return b"}" if isinstance(container, dict) else b"]"
