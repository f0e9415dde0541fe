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
from typing import Any, NamedTuple

from mew_lab.agent.quotes import leaves, read_features, read_query
from mew_lab.ledger.calls import CallIndex, Request
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.steps import Steps, finish
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


class _Text(NamedTuple):
    """A text that was read: what it is called in a hint, and its number among all messages."""

    label: str
    number: int


_Part = dict[int, _Text]  # a feature -> the first text in which it stands


class _Speaker:
    """The texts of one participant, in parts that are dropped as a whole, oldest first."""

    __slots__ = ("lost", "parts")

    def __init__(self) -> None:
        self.parts: deque[_Part] = deque([{}])
        self.lost = False

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))

    def add(self, features: set[int], text: _Text) -> None:
        """Adds the features; known ones take no further room, however often they occur."""
        known = set().union(*(features & part.keys() for part in self.parts))
        new = features - known
        if len(self.parts[-1]) + len(new) > A_GENERATION and self.parts[-1]:
            self.parts.append({})
        self.parts[-1].update(dict.fromkeys(new, text))

    def find(self, wanted: set[int], *, until: int) -> Iterator[tuple[int, str]]:
        """Yields the wanted features that stand in texts up to that number, each with its label."""
        for part in self.parts:
            for feature in wanted & part.keys():
                text = part[feature]
                if text.number <= until:
                    yield feature, text.label

    def forget(self) -> None:
        """Drops the oldest part."""
        self.parts.popleft()
        self.lost = True
        if not self.parts:
            self.parts.append({})


class Sources:
    """The recent texts of tools and people.

    `requests` are those of the ledger, which has observed a message before it comes here. Each message has a number, and
    what is compared with the texts up to a number gives the same whenever it is compared.
    """

    def __init__(self, requests: CallIndex[Request]) -> None:
        self._requests = requests
        self._said_by: dict[tuple[str, str], _Speaker] = {}
        self._mine = _Speaker()
        self._first_sent: BoundedDict[str, _Speaker] = BoundedDict(MAX_SOURCES, refresh=True)
        self._size = 0
        self.count = 0  # messages that were numbered

    @property
    def size(self) -> int:
        """The number of kept features, without the human's own."""
        return self._size

    def observe(self, envelope: Envelope, *, me: str) -> None:
        """Records one message of the space, in one piece; `me` is the human who decides."""
        finish(self.read(envelope, me=me))

    def read(self, envelope: Envelope, *, me: str) -> Steps[None]:
        """Records one message of the space, which has its number from now on."""
        self.count += 1
        number, payload = self.count, envelope.payload
        if envelope.kind == "mcp/response":
            return self._answer(envelope, number)
        if envelope.kind in ("mcp/proposal", "mcp/request"):
            return self._note_sent(envelope, number, me=me)
        if envelope.kind in _SPOKEN and envelope.sender != me:
            member, how = _SPOKEN[envelope.kind]
            if isinstance(text := payload.get(member), str):
                who = one_line(envelope.sender, 80)
                about = _Text(f"what {who} {how}", number)
                return self._keep(("chat", envelope.sender), text, about, prose=True)
        elif envelope.kind == "chat" and isinstance(text := payload.get("text"), str):
            if envelope.sender != me:
                who = one_line(envelope.sender, 80)
                about = _Text(f"what {who} said in chat", number)
                return self._keep(("chat", envelope.sender), text, about, prose=True)
            if self._find_request(envelope) is None:
                # Chat about a request is written here, and holds the words of whoever proposed it.
                return self._keep_own(text, number)
        return _nothing()

    def leave_unread(self, envelope: Envelope) -> None:
        """Drops a text of a participant that sends more than can be read; each card says so from then on."""
        # what it sends is only missing as its own words
        if envelope.kind not in ("mcp/request", "mcp/proposal"):
            kind = "answers" if envelope.kind == "mcp/response" else "chat"
            self._speaker((kind, envelope.sender)).lost = True

    def _keep_own(self, text: str, number: int) -> Steps[None]:
        _add_own(self._mine, (yield from read_features(text[:MAX_TEXT], every=True)), number)

    def _note_sent(self, envelope: Envelope, number: int, *, me: str) -> Steps[None]:
        """Keeps what a participant sends in a call and nobody else has said so far."""
        sender = envelope.sender
        if sender == me and envelope.correlation_id:
            return  # it carries out what another participant wants
        params = envelope.payload.get("params")
        query = yield from read_query(params, most=MAX_LEAVES, characters=MAX_ASKED)
        features = set(query.places)
        for key, source in self._said_by.items():
            if key != ("chat", sender):
                features -= {feature for feature, _ in source.find(features, until=number)}
        if sender == me:
            _add_own(self._mine, features, number)
        elif len(sender) <= MAX_NAME:
            _add_own(self._first_sent.setdefault(sender, _Speaker()), features, number)

    def _find_request(self, envelope: Envelope) -> Request | None:
        """The first known request that a message is about."""
        known = (self._requests.get(id) for id in envelope.correlation_id)
        return next((request for request in known if request is not None), None)

    def _answer(self, envelope: Envelope, number: int) -> Steps[None]:
        """Keeps an answer, also of a participant that was not asked: somebody may have read it all the same."""
        request = self._find_request(envelope)
        what = _words_of(request) if request else one_line(envelope.sender, 80)
        payload = envelope.payload
        body = payload.get("error") if payload.get("error") is not None else payload.get("result")
        prose = request is not None and request.method == "tools/list"
        source, about = ("answers", envelope.sender), _Text(f"what {what} returned", number)
        texts, whole = yield from _texts_of(_prose(body) if prose else body)
        yield from self._keep(source, texts, about, prose=prose, whole=whole)

    def _speaker(self, key: tuple[str, str]) -> _Speaker:
        key = (key[0], key[1] if len(key[1]) <= MAX_NAME else "")
        if key not in self._said_by and len(self._said_by) >= MAX_SOURCES:
            key = (key[0], "")
        return self._said_by.setdefault(key, _Speaker())

    def _keep(
        self, key: tuple[str, str], text: str, about: _Text, *, prose: bool = False, whole: bool = True
    ) -> Steps[None]:
        features = yield from read_features(text[:MAX_TEXT], alone=not prose)
        source = self._speaker(key)
        before = source.size
        source.add(features, about)
        source.lost = source.lost or not whole or len(text) > MAX_TEXT
        self._size += source.size - before
        while self._size > MAX_FEATURES:
            largest = max(self._said_by.values(), key=lambda speaker: speaker.size)
            self._size -= len(largest.parts[0])
            largest.forget()

    def quoted_in(self, arguments: Any, *, by: str = "") -> tuple[str, ...]:
        """The remarks on quotes in the arguments, in one piece; see `read_quotes`."""
        return finish(self.read_quotes(arguments, by=by))

    def read_quotes(
        self, arguments: Any, *, by: str = "", until: int | None = None
    ) -> Steps[tuple[str, ...]]:
        """One line for each argument that may quote another participant and not the human; `by` is the proposer.

        A last line names the sources that could not be compared in full. Texts after the message with the number
        `until` do not count.
        """
        until = self.count if until is None else until
        query = yield from read_query(arguments, most=MAX_LEAVES, characters=MAX_ASKED, plain_names=False)
        wanted = set(query.places)
        own = (self._mine, *([self._first_sent[by]] if by in self._first_sent else []))
        wanted -= {feature for speaker in own for feature, _ in speaker.find(wanted, until=until)}
        yield
        hits: Counter[tuple[str, str]] = Counter()
        for key, source in self._said_by.items():
            if key == ("chat", by):
                continue
            hits.update((query.places[feature], label) for feature, label in source.find(wanted, until=until))
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


def _nothing() -> Steps[None]:
    yield from ()


def _add_own(speaker: _Speaker, features: set[int], number: int) -> None:
    speaker.add(features, _Text("", number))
    while speaker.size > MAX_SAID and len(speaker.parts) > 1:
        speaker.forget()


def _words_of(request: Request) -> str:
    """Whom a request asked for what, in few characters."""
    what = request.tool if request.method == "tools/call" else request.method
    return one_line(f"{', '.join(cut_names(request.envelope.to, most=SHOWN_TO))}/{cut(what, MAX_TOOL)}", 120)


def _texts_of(body: Any) -> Steps[tuple[str, bool]]:
    """The texts of an answer in order, names of members included, and whether they are complete."""
    pieces: list[str] = []
    size = 0
    for _, _, text in leaves(body, most=MAX_LEAVES):
        if text == "":
            yield
            continue
        if text is None or size > MAX_TEXT:
            return "\n".join(pieces), False
        pieces.append(text)
        size += len(text) + 1
    return "\n".join(pieces), True


def _prose(listed: Any) -> list[str]:
    """The titles and descriptions of the tools in an answer to `tools/list`.

    What stands in a schema is no prose: generated titles repeat the names that each call has, and examples its values.
    Those of entries that `ToolReader` leaves out count as well, because a participant of another make may read them.
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
