"""Finds arguments of a proposal that quote tools or other participants rather than the human. Decides nothing.

The result of a tool may hold an instruction of a third party. An argument that quotes such a text, and no text of the
human, gets a hint on its card. The texts are those that the human's own seat received; the proposer's own statements do
not count, nor does what it sent itself before anybody else said it: a tool repeats what it is given. The texts of all
answers count: text, structured content, resources, errors, titles and descriptions of tools. So do chat, reasoning and
stated reasons of every participant but the human and the proposer. A hint may be missing: paraphrases, translations,
unknown encodings, arguments of others' requests, schemas of tools and streams are not recognised. The names of
parameters are no quotes, for each call of a tool has them.

All sources share one budget. Where it is used up, the largest source loses its oldest part first, and each card says
from then on that not everything could be compared. `agent.quotes` defines the compared features.

Spec: §7.1, threat 29.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

from mew_lab.agent.quotes import features_of, leaves, query_of
from mew_lab.ledger.calls import CallIndex, Request
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import MAX_NAME, count_of, cut, cut_names
from mew_lab.protocol.visible import middle, one_line

__all__ = ["HINT", "Sources"]

HINT = "hint (it may miss others)"  # how each line begins

MAX_FEATURES = 250_000  # of all sources together: about 25 MB
A_GENERATION = 8_000  # features that are forgotten together
MAX_SAID = 60_000  # features of the human's own words
MAX_SOURCES = 200  # beyond these, the others share one
MAX_TEXT = 100_000  # characters of one message
MAX_LEAVES = 20_000  # texts, numbers, lists and objects of one message, or of the arguments
MAX_ASKED = 60_000  # characters of the arguments
MAX_HINTS = 20
MAX_TOOL = 128
SHOWN_TO = 3
NAMED = 3  # sources in the line about the budget
UNREAD = f"{HINT}: the arguments are too long to be compared in full"

# What others write for people to read, besides chat: where it stands, and how.
_SPOKEN = {
    "reasoning/start": ("message", "thought aloud"),
    "reasoning/thought": ("message", "thought aloud"),
    "reasoning/conclusion": ("message", "thought aloud"),
    "mcp/reject": ("reason", "gave as a reason"),
    "mcp/withdraw": ("reason", "gave as a reason"),
}

_Part = dict[int, str]  # a feature -> where it stands, in words


class _Speaker:
    """The texts of one participant, in parts that are dropped as a whole, oldest first."""

    __slots__ = ("lost", "parts")

    def __init__(self) -> None:
        self.parts: deque[_Part] = deque([{}])
        self.lost = False

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))

    def add(self, features: set[int], label: str) -> None:
        """Adds the features; known ones take no further room, however often they occur."""
        known = set().union(*(features & part.keys() for part in self.parts))
        new = features - known
        if len(self.parts[-1]) + len(new) > A_GENERATION and self.parts[-1]:
            self.parts.append({})
        self.parts[-1].update(dict.fromkeys(new, label))

    def forget(self) -> None:
        """Drops the oldest part."""
        self.parts.popleft()
        self.lost = True
        if not self.parts:
            self.parts.append({})


class Sources:
    """The recent texts of tools and people.

    `requests` are those of the ledger, which has observed a message before it comes here.
    """

    def __init__(self, requests: CallIndex[Request]) -> None:
        self._requests = requests
        self._said_by: dict[tuple[str, str], _Speaker] = {}
        self._mine = _Speaker()
        self._first_sent: BoundedDict[str, _Speaker] = BoundedDict(MAX_SOURCES, refresh=True)
        self._size = 0

    @property
    def size(self) -> int:
        """The number of kept features, without the human's own."""
        return self._size

    def observe(self, envelope: Envelope, *, me: str) -> None:
        """Records one message of the space; `me` is the human who decides."""
        payload = envelope.payload
        if envelope.kind == "mcp/response":
            self._answer(envelope)
        elif envelope.kind in ("mcp/proposal", "mcp/request"):
            self._note_sent(envelope, me=me)
        elif envelope.kind in _SPOKEN and envelope.sender != me:
            member, how = _SPOKEN[envelope.kind]
            if isinstance(text := payload.get(member), str):
                who = one_line(envelope.sender, 80)
                self._keep(("chat", envelope.sender), text, f"what {who} {how}", prose=True)
        elif envelope.kind == "chat" and isinstance(text := payload.get("text"), str):
            if envelope.sender != me:
                who = one_line(envelope.sender, 80)
                self._keep(("chat", envelope.sender), text, f"what {who} said in chat", prose=True)
            elif self._find_request(envelope) is None:
                # Chat about a request is written here, and holds the words of whoever proposed it.
                _add_own(self._mine, features_of(text[:MAX_TEXT], every=True))

    def _note_sent(self, envelope: Envelope, *, me: str) -> None:
        """Keeps what a participant sends in a call and nobody else has said so far."""
        sender = envelope.sender
        if sender == me and envelope.correlation_id:
            return  # it carries out what another participant wants
        query = query_of(envelope.payload.get("params"), most=MAX_LEAVES, characters=MAX_ASKED)
        features = set(query.places)
        for key, source in self._said_by.items():
            if key != ("chat", sender):
                for part in source.parts:
                    features -= part.keys()
        if sender == me:
            _add_own(self._mine, features)
        elif len(sender) <= MAX_NAME:
            _add_own(self._first_sent.setdefault(sender, _Speaker()), features)

    def _find_request(self, envelope: Envelope) -> Request | None:
        """The first known request that a message is about."""
        known = (self._requests.get(id) for id in envelope.correlation_id)
        return next((request for request in known if request is not None), None)

    def _answer(self, envelope: Envelope) -> None:
        """Keeps an answer, also of a participant that was not asked: somebody may have read it all the same."""
        request = self._find_request(envelope)
        what = _words_of(request) if request else one_line(envelope.sender, 80)
        payload = envelope.payload
        body = payload.get("error") if payload.get("error") is not None else payload.get("result")
        prose = request is not None and request.method == "tools/list"
        texts, whole = _texts_of(_prose(body) if prose else body)
        source = ("answers", envelope.sender)
        self._keep(source, texts, f"what {what} returned", prose=prose, whole=whole)

    def _keep(
        self, key: tuple[str, str], text: str, label: str, *, prose: bool = False, whole: bool = True
    ) -> None:
        key = (key[0], key[1] if len(key[1]) <= MAX_NAME else "")
        if key not in self._said_by and len(self._said_by) >= MAX_SOURCES:
            key = (key[0], "")
        source = self._said_by.setdefault(key, _Speaker())
        before = source.size
        source.add(features_of(text[:MAX_TEXT], alone=not prose), label)
        source.lost = source.lost or not whole or len(text) > MAX_TEXT
        self._size += source.size - before
        while self._size > MAX_FEATURES:
            largest = max(self._said_by.values(), key=lambda speaker: speaker.size)
            self._size -= len(largest.parts[0])
            largest.forget()

    def quoted_in(self, arguments: Any, *, by: str = "") -> tuple[str, ...]:
        """One line for each argument that may quote another participant and not the human; `by` is the proposer.

        A last line names the sources that could not be compared in full.
        """
        query = query_of(arguments, most=MAX_LEAVES, characters=MAX_ASKED, plain_names=False)
        wanted = query.places.keys()
        own = (self._mine, *([self._first_sent[by]] if by in self._first_sent else []))
        mine = set().union(*(wanted & part.keys() for speaker in own for part in speaker.parts))
        hits: Counter[tuple[str, str]] = Counter()
        for key, source in self._said_by.items():
            if key == ("chat", by):
                continue
            for part in source.parts:
                hits.update(
                    (query.places[feature], part[feature]) for feature in (wanted & part.keys()) - mine
                )
        labels = {
            place: label for (place, label), _ in sorted(hits.items(), key=lambda hit: (hit[1], hit[0]))
        }
        order = {place: n for n, place in enumerate(dict.fromkeys(query.places.values()))}
        places = sorted(labels, key=order.__getitem__)
        lines = [
            f"{HINT}: {middle(place, 120)} quotes {labels[place]}, not your words"
            for place in places[:MAX_HINTS]
        ]
        if len(places) > MAX_HINTS:
            lines.append(
                f"{HINT}: other participants are quoted in {count_of(len(places) - MAX_HINTS, 'more argument')}"
            )
        if not query.whole:
            lines.append(UNREAD)
        return (*lines, *self._lost_sources())

    def _lost_sources(self) -> Iterator[str]:
        """The line that names the sources of which some texts were dropped."""
        lost = list(
            dict.fromkeys(
                one_line(who or "others", 40) for (_, who), source in self._said_by.items() if source.lost
            )
        )
        if lost:
            more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
            names = ", ".join(lost[:NAMED])
            yield f"{HINT}: not all that tools and others answered could be looked at ({names}{more})"


def _add_own(speaker: _Speaker, features: set[int]) -> None:
    speaker.add(features, "")
    while speaker.size > MAX_SAID and len(speaker.parts) > 1:
        speaker.forget()


def _words_of(request: Request) -> str:
    """Whom a request asked for what, in few characters."""
    what = request.tool if request.method == "tools/call" else request.method
    return one_line(f"{', '.join(cut_names(request.envelope.to, most=SHOWN_TO))}/{cut(what, MAX_TOOL)}", 120)


def _texts_of(body: Any) -> tuple[str, bool]:
    """The texts of an answer in order, names of members included, and whether they are complete."""
    pieces: list[str] = []
    size = 0
    for _, _, text in leaves(body, most=MAX_LEAVES):
        if text is None or size > MAX_TEXT:
            return "\n".join(pieces), False
        pieces.append(text)
        size += len(text) + 1
    return "\n".join(pieces), True


def _prose(listed: Any) -> list[str]:
    """The titles and descriptions of the tools in an answer to `tools/list`.

    What stands in a schema is no prose: generated titles repeat the names that each call has, and examples its values.
    """
    tools = listed.get("tools") if isinstance(listed, Mapping) else None
    sentences: list[str] = []
    for tool in tools if isinstance(tools, list) else ():
        entries = (tool, tool.get("annotations")) if isinstance(tool, Mapping) else ()
        for entry in entries:
            if isinstance(entry, Mapping):
                own = (entry.get("title"), entry.get("description"))
                sentences += [text for text in own if isinstance(text, str)]
    return sentences
