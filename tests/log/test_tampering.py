"""Every kind of tampering, at random places of hostile journals: found with the kept head, and without it where the chain
shows it. Whoever knows how the chain is made can make it anew; then only a head that was kept elsewhere tells.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from mew_lab.log.integrity import verify_chain
from mew_lab.log.kept_heads import KeptHead, keep_head
from mew_lab.log.line import read_line, write_line
from mew_lab.log.log import open_log
from mew_lab.space.events import Record

from .consent_sessions import play
from .sessions import session
from .stage import keep

pytestmark = pytest.mark.threat(44)

JOURNALS = 5
PLACES = 3  # of each kind in each journal
EPOCH = 7  # of a Stage
CHAIN = len(b',"chain":"') + 64 + len(b'"}\n')

Lines = list[bytes]
Change = Callable[[Lines, int], Lines]
"""The lines of a journal after somebody tampered with the one at that place, its stored chains left as they are."""


class Tampering(NamedTuple):
    """A kind of tampering: the records at which it can be done, the change, and where the first flaw is then."""

    fits: Callable[[Record], bool]
    change: Change
    behind: int = 0


# --- changes of one record ---


def body_of(line: bytes) -> bytes:
    return line[:-CHAIN]


def with_record(line: bytes, record: Record) -> bytes:
    return write_line(record)[:-2] + line[-CHAIN:]


def edits(change: Callable[[Record], Record]) -> Change:
    def edited(lines: Lines, at: int) -> Lines:
        record = read_line(lines[at])
        assert record is not None
        return [*lines[:at], with_record(lines[at], change(record)), *lines[at + 1 :]]

    return edited


def renumbered(lines: Lines, by: int) -> Lines:
    records = [read_line(line) for line in lines]
    return [
        with_record(line, record._replace(seq=record.seq + by))
        for line, record in zip(lines, records, strict=True)
        if record is not None
    ]


def drops(lines: Lines, at: int) -> Lines:
    return [*lines[:at], *renumbered(lines[at + 1 :], -1)]


def swaps(lines: Lines, at: int) -> Lines:
    [first, second] = renumbered([lines[at]], 1) + renumbered([lines[at + 1]], -1)
    return [*lines[:at], second, first, *lines[at + 2 :]]


def inserts(line: Callable[[bytes], bytes]) -> Change:
    """Puts a line in before that place, with the chain that is right there, and numbers the others anew."""

    def inserted(lines: Lines, at: int) -> Lines:
        new = chained([line(lines[at])], lines[at - 1][-67:-3])
        return [*lines[:at], *new, *renumbered(lines[at:], 1)]

    return inserted


def another_id(line: bytes) -> bytes:
    record = read_line(line)
    assert record is not None and record.raw is not None
    return with_record(line, record._replace(raw=json.dumps(json.loads(record.raw) | {"id": "forged"})))


def noted(detail: dict[str, object]) -> Callable[[bytes], bytes]:
    def note(line: bytes) -> bytes:
        record = read_line(line)
        assert record is not None
        return with_record(
            line, Record(record.seq, record.now, "decided", "demo", "ada", detail=json.dumps(detail))
        )

    return note


def chained(lines: Sequence[bytes], before: bytes) -> Lines:
    """The lines with a chain in order, as whoever knows how it is made can make it."""
    done = []
    for line in lines:
        before = sha256(before + body_of(line)).hexdigest().encode()
        done.append(body_of(line) + b',"chain":"' + before + b'"}\n')
    return done


# --- which records ---


def is_message(verdict: str, kind: str = "") -> Callable[[Record], bool]:
    def fits(record: Record) -> bool:
        text = record.raw or ""
        return record.verdict == verdict and bool(text) and (not kind or f'"{kind}"' in text)

    return fits


def is_event(*events: str) -> Callable[[Record], bool]:
    return lambda record: record.event in events


def is_receipt(record: Record) -> bool:
    return record.event == "decided" and '"digest"' in record.detail


def in_receipt(name: str, value: object) -> Callable[[Record], Record]:
    return lambda record: record._replace(detail=json.dumps(json.loads(record.detail) | {name: value}))


def turned(record: Record) -> Record:
    decision = "reject" if '"approve"' in record.detail else "approve"
    return in_receipt("decision", decision)(record)


def in_text(old: str, new: str) -> Callable[[Record], Record]:
    return lambda record: record._replace(raw=(record.raw or "").replace(old, new, 1))


def holds(text: str, verdict: str) -> Callable[[Record], bool]:
    return lambda record: record.verdict == verdict and text in (record.raw or "")


APPROVED = {"proposal": "p-1", "decision": "approve", "by": "human", "typed": "x", "request": "forged"}

KINDS: dict[str, Tampering] = {
    "a refusal becomes an acceptance": Tampering(
        is_message("refused"), edits(lambda one: one._replace(verdict="accepted", code=""))
    ),
    "an acceptance becomes a refusal": Tampering(
        is_message("accepted"), edits(lambda one: one._replace(verdict="refused", code="paused"))
    ),
    "another reason of a refusal": Tampering(
        lambda one: bool(one.code), edits(lambda one: one._replace(code="paused_"))
    ),
    "another capability that let it pass": Tampering(
        lambda one: bool(one.pattern), edits(lambda one: one._replace(pattern='{"kind":"**"}'))
    ),
    "another grant that let it pass": Tampering(
        lambda one: bool(one.pattern), edits(lambda one: one._replace(grant="g-forged"))
    ),
    "another participant": Tampering(
        is_message("accepted"), edits(lambda one: one._replace(participant="zoe"))
    ),
    "another connection": Tampering(
        is_message("accepted"), edits(lambda one: one._replace(connection="c-zoe"))
    ),
    "another runtime id": Tampering(is_event("joined"), edits(lambda one: one._replace(detail="zoe"))),
    "another transport": Tampering(is_message("accepted"), edits(lambda one: one._replace(via="carrier"))),
    "another event": Tampering(is_event("left"), edits(lambda one: one._replace(event="joined"))),
    "other rights of an enrolled participant": Tampering(
        is_event("enrolled"), edits(lambda one: one._replace(detail='[{"kind":"**"}]'))
    ),
    "another reason of a leave": Tampering(is_event("left"), edits(lambda one: one._replace(detail="slow"))),
    "another size of a frame": Tampering(
        is_event("frame"), edits(lambda one: one._replace(detail=one.detail[:-1] + ',"size":9}'))
    ),
    "a time later by a microsecond": Tampering(
        lambda one: one.now.microsecond < 999_999,
        edits(lambda one: one._replace(now=one.now.replace(microsecond=one.now.microsecond + 1))),
    ),
    "another text of a chat": Tampering(holds('"text":', "accepted"), edits(in_text('"text":', '"text" :'))),
    "another text of what the gateway said": Tampering(
        holds('"participants"', "sent"), edits(in_text('"participants"', '"partecipants"'))
    ),
    "another text of a refused message": Tampering(
        holds('"kind"', "refused"), edits(in_text('"kind"', '"knid"'))
    ),
    "other receivers of what the gateway said": Tampering(
        lambda one: one.verdict == "sent", edits(lambda one: one._replace(to=(*one.to, "c-zoe")))
    ),
    "other arguments of an accepted proposal": Tampering(
        lambda one: is_message("accepted", "mcp/proposal")(one) and '"arguments": {"n": ' in (one.raw or ""),
        edits(in_text('"arguments": {"n": ', '"arguments": {"n": 9')),
    ),
    "another digest in a receipt": Tampering(is_receipt, edits(in_receipt("digest", "0" * 64))),
    "another request in a receipt": Tampering(is_receipt, edits(in_receipt("request", "q-zoe"))),
    "longer on screen in a receipt": Tampering(is_receipt, edits(in_receipt("on_screen", 60_000))),
    "another person in a receipt": Tampering(is_receipt, edits(lambda one: one._replace(participant="zoe"))),
    "another decision in a receipt": Tampering(is_receipt, edits(turned)),
    "a receipt left out, the rest numbered anew": Tampering(is_receipt, drops),
    "a line left out": Tampering(lambda one: True, lambda lines, at: [*lines[:at], *lines[at + 1 :]]),
    "a line left out, the rest numbered anew": Tampering(lambda one: True, drops),
    "two lines swapped": Tampering(
        lambda one: True, lambda lines, at: [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
    ),
    "two lines swapped and numbered anew": Tampering(lambda one: True, swaps),
    "a line twice": Tampering(lambda one: True, lambda lines, at: [*lines[: at + 1], *lines[at:]], 1),
    "a request forged, the rest numbered anew": Tampering(
        is_message("accepted", "mcp/request"), inserts(another_id), 1
    ),
    "a decision put in, the rest numbered anew": Tampering(lambda one: True, inserts(noted(APPROVED)), 1),
}


# --- the journals ---


class Kept(NamedTuple):
    """A journal's lines and records, and the head of its end."""

    lines: tuple[bytes, ...]
    records: tuple[Record, ...]
    head: KeptHead


@cache
def journal(seed: int, folder: Path) -> Kept:
    """People decide on proposals, honestly and not; then strangers come, quarrel and go."""
    played = play(seed, 25)
    for event in session(played.stage.space, seed, 120):
        played.stage.play(event)
    path = keep(played.stage.records, folder / f"{seed}.jsonl")
    lines = tuple(path.read_bytes().splitlines(keepends=True))
    last = played.stage.records[-1]
    head = KeptHead(last.now, last.seq, lines[-1][-67:-3].decode())
    return Kept(lines, tuple(played.stage.records), head)


def places(kept: Kept, kind: str, seed: int) -> Iterator[int]:
    """Random places where it can be done and changes something: never the first or the last two lines."""
    fitting = [
        at for at, one in enumerate(kept.records) if 0 < at < len(kept.records) - 2 and KINDS[kind].fits(one)
    ]
    random.Random(seed).shuffle(fitting)
    found = 0
    for at in fitting:
        if found < PLACES and KINDS[kind].change([*kept.lines], at) != [*kept.lines]:
            found += 1
            yield at


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journals")


class Result(NamedTuple):
    """How often a kind was tried, and found: with the kept head, without; and so when the chain was made anew."""

    tried: int
    with_head: int
    without: int
    rewritten_with_head: int
    rewritten_without: int


def tamper(kind: str, folder: Path, path: Path) -> Result:
    tried, found = 0, [0, 0, 0, 0]
    for seed in range(JOURNALS):
        kept = journal(seed, folder)
        for at in places(kept, kind, seed):
            tried += 1
            changed = KINDS[kind].change([*kept.lines], at)
            path.write_bytes(b"".join(changed))
            first = at + 1 + KINDS[kind].behind
            for nth, heads in enumerate(((kept.head,), ())):
                flaw = verify_chain(path, heads).flaw
                assert flaw is None or flaw.line == first, (kind, seed, at, flaw)
                found[nth] += flaw is not None
            path.write_bytes(b"".join(chained(changed, b"0" * 64)))
            for nth, heads in enumerate(((kept.head,), ()), 2):
                found[nth] += verify_chain(path, heads).flaw is not None
    return Result(tried, *found)


def cut(folder: Path, path: Path) -> Result:
    """The end cut off at any place. Nothing is left to make a chain anew for, so the last two are the same."""
    tried, found = 0, [0, 0]
    for seed in range(JOURNALS):
        kept = journal(seed, folder)
        for _ in range(PLACES):
            tried += 1
            path.write_bytes(
                b"".join(kept.lines[: random.Random(seed + tried).randrange(2, len(kept.lines))])
            )
            for nth, heads in enumerate(((kept.head,), ())):
                found[nth] += verify_chain(path, heads).flaw is not None
    return Result(tried, *found, *found)


@pytest.mark.slow
def test_each_kind_at_random_places_of_hostile_journals(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.jsonl"
    results = {kind: tamper(kind, folder, path) for kind in KINDS}
    tail = cut(folder, path)
    with capsys.disabled():
        print(f"\n{'':44}        as it is           chain made anew")
        print(f"{'found of those tried':44} tried  head  no head    head  no head")
        for kind, one in (*results.items(), ("the end cut off", tail)):
            print(f"{kind:44} {one[0]:5} {one[1]:5} {one[2]:8} {one[3]:7} {one[4]:8}")
    for kind, one in results.items():
        assert one.tried >= JOURNALS, kind
        assert one.with_head == one.without == one.rewritten_with_head == one.tried, kind
        assert one.rewritten_without == 0, kind
    assert (tail.with_head, tail.without) == (tail.tried, 0)


def test_the_journals_are_in_order_and_hold_every_kind_of_record(folder: Path, tmp_path: Path) -> None:
    for seed in range(JOURNALS):
        kept = journal(seed, folder)
        assert len(kept.records) > 300
        assert verify_chain(folder / f"{seed}.jsonl", [kept.head]).flaw is None


def test_what_a_log_says_of_its_requests_is_worth_no_more_than_its_chain(
    folder: Path, tmp_path: Path
) -> None:
    """An edited receipt and a forged decision change what the consents are; the flaw stands before them."""
    for seed in range(JOURNALS):
        kept = journal(seed, folder)
        path, heads = tmp_path / f"{seed}.jsonl", tmp_path / f"{seed}.heads"
        keep_head(heads, EPOCH, kept.head, path)
        at = next(n for n, one in enumerate(kept.records) if is_receipt(one))
        for anew in (False, True):
            changed = KINDS["a receipt left out, the rest numbered anew"].change([*kept.lines], at)
            path.write_bytes(b"".join(chained(changed, b"0" * 64) if anew else changed))
            found = open_log(path).verify(heads=heads)
            assert not found.intact
            assert "rests on a journal that was changed, and nothing vouches for it behind #" in str(found)
