"""Follows one message: the whole exchange that it belongs to, and what can be made of that.

`chains.py` finds the related messages. A `FollowedExchange` puts them into a tree, in which the parent of a message is
the first earlier one of the exchange that it claims to be related to, and gives it as a frame, as text, as a sequence
diagram, and as text for elsewhere (`copying.py`). `ExchangeFinder` reads a log once and later only what is new; in a
large log of files `IndexedExchanges` reads only what is linked (`links.py`).

Spec: §3 (correlation_id, context), §3.5, §3.10.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from mew_lab.log.chains import Chains, Exchange
from mew_lab.log.copying import MOST_CHARACTERS, MessageSelection, markdown_of
from mew_lab.log.numbering import NumberedEntry, numbered
from mew_lab.log.redaction import shown_mask, told
from mew_lab.log.sequence import sequence
from mew_lab.log.table import to_frame
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

if TYPE_CHECKING:
    import pandas as pd

    from mew_lab.log.drawing import Drawing

__all__ = ["MOST_MESSAGES", "MOST_TEXT", "ExchangeFinder", "FollowedExchange", "followed"]

MOST_MESSAGES: Final = 200_000
MOST_TEXT: Final = 512 * 1024 * 1024  # characters
DEEPEST: Final = 20  # levels of indentation


class FollowedExchange(MessageSelection):
    """The messages related to one message, as a tree in the order received.

    `selected` is that message; `parents` maps the number of each message to that of the one that it follows from, and
    `left_out` counts more distant messages. `print` shows the tree, a notebook the diagram.
    """

    def __init__(self, exchange: Exchange, parents: dict[int, int]) -> None:
        super().__init__(())
        self._entries = tuple(step for step in exchange.steps if isinstance(step, NumberedEntry))
        self.exchange = exchange
        self.selected = exchange.selected
        self.parents = parents
        self.left_out = exchange.left_out

    @cached_property
    def depths(self) -> dict[int, int]:
        """The depth of each message by its number, 0 for one that follows from none."""
        found = dict[int, int]()
        for entry in self.entries:
            parent = self.parents.get(entry.seq)
            found[entry.seq] = 0 if parent is None else found[parent] + 1
        return found

    @property
    def frame(self) -> pd.DataFrame:
        """The messages with the columns of `log.df`, after `number`, `parent` (the number of that one) and `depth`."""
        frame = to_frame(entry.record for entry in self.entries)
        numbers = [entry.seq for entry in self.entries]
        frame["place"] = [entry.place for entry in self.entries]
        frame.insert(0, "number", numbers)
        frame.insert(1, "parent", [self.parents.get(number) for number in numbers])
        frame["parent"] = frame["parent"].astype("Int64")
        frame.insert(2, "depth", [self.depths[number] for number in numbers])
        return frame

    @property
    def diagram(self) -> Drawing:
        """The sequence diagram; `.svg()` is its SVG."""
        return sequence(self.exchange)

    @property
    def text(self) -> str:
        """The tree as lines, each message below the one that it follows from, indented."""
        began, lines, mask = self.exchange.steps[0].t, list[str](), shown_mask()
        for entry in self.entries:
            whom = ", ".join(entry.to[:12]) or "everybody"
            refused = f" ✗ refused: {entry.code}" if entry.refused else ""
            about = f"{entry.kind} {told(entry, mask)}".strip()
            said = (
                f"{entry.name} +{max(0.0, entry.t - began):.3f} s {entry.sender} → {whom}: {about}{refused}"
            )
            lines.append("  " * min(DEEPEST, self.depths[entry.seq]) + one_line(said, 200))
        if self.left_out:
            lines.append(f"{self.left_out} more related messages are not shown.")
        if mask is not None and mask.found:
            lines.append(f"{mask}.")
        return "\n".join(lines)

    def to_markdown(self, *, most: int = MOST_CHARACTERS, secrets: str = "mask") -> str:
        """Markdown for a reader or a language model, of about `most` characters at most, without likely secrets."""
        count = count_of(len(self.entries), "message")
        title = f"Exchange of {count} around {self.selected.name}"
        return markdown_of(
            self.entries,
            title=title,
            parents=self.parents,
            left_out=self.left_out,
            most=most,
            secrets=secrets,
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{self.exchange!r}\n{self.text}"

    def _repr_mimebundle_(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> dict[str, str]:
        return self.diagram._repr_mimebundle_(include, exclude)


class ExchangeFinder:
    """Finds exchanges in a log: the newest messages, at most `most`."""

    def __init__(self, *, most: int = MOST_MESSAGES, sign: str = "#") -> None:
        self._sign = sign
        self._chains = Chains(most=most, characters=MOST_TEXT)
        self._last = 0
        self.read = 0

    def tree(self) -> tuple[list[NumberedEntry], dict[int, int]]:
        """All messages held, in order, and the number of the parent of each that has one."""
        entries = [entry for entry in self._chains if isinstance(entry, NumberedEntry)]
        parents = {
            entry.seq: parent.seq for entry in entries if (parent := self._chains.parent(entry)) is not None
        }
        return entries, parents

    def add(self, records: Iterable[Record]) -> None:
        """Adds the next records of the log."""
        for record in records:
            self.read += 1
            for entry in numbered((record,), self._last, first=self.read, sign=self._sign):
                self._last = entry.seq
                self._chains.add(entry)

    def follow(self, which: str | int, *, most: int = 200) -> FollowedExchange:
        """The exchange of the message with an id or a number, of at most `most` messages, the nearest.

        Raises:
            JournalError: when there is no such message among those held.
        """
        return followed(self._chains, which, most)


def followed(chains: Chains, which: str | int, most: int) -> FollowedExchange:
    """The exchange of a message among those held, with its tree."""
    exchange = chains.exchange(which, most=most)
    here = {step.seq for step in exchange.steps}
    parents = {
        step.seq: parent.seq
        for step in exchange.steps
        if (parent := chains.parent(step)) is not None and parent.seq in here
    }
    return FollowedExchange(exchange, parents)
