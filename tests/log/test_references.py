"""A large value that a file of a journal has already is written as a reference; every reader finds it whole."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import JournalError
from mew_lab.log.export import export_as_peers
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.indexed import select_places
from mew_lab.log.integrity import verify_chain
from mew_lab.log.journal import Journal, read_journal
from mew_lab.log.kept_heads import KeptHead
from mew_lab.log.line import NO_CHAIN, chain_line, write_line
from mew_lab.log.log import Log, open_log
from mew_lab.log.prune import Pruned, prune
from mew_lab.log.reading import UnreadLine, list_files, split_lines
from mew_lab.log.references import MOST_USES, SMALLEST, WrittenValues, refers
from mew_lab.log.replay import replay
from mew_lab.log.resumption import resume_quickly
from mew_lab.log.tail import Tail
from mew_lab.space.events import Enrolled, Joined, Noted, Received, Record
from mew_lab.space.snapshot import snapshot

from ..conftest import examples, seeds
from .stage import START, Stage, keep

TOOLS = [{"name": f"tool-{n}", "description": "Reads a café's list. " * 4} for n in range(1000)]
OTHER = [
    {"name": f"other-{n}", "inputSchema": {"type": "object", "x": [n, "\\", '"', "}"]}} for n in range(1500)
]
PIN = "zebra-7"


def message(
    n: int, kind: str, payload: Any, *, sender: str = "bot", spaces: bool = False, **members: Any
) -> str:
    whole = {
        "protocol": "mew/v0.4",
        "id": f"m-{n}",
        "ts": "2026-11-21T22:40:01Z",
        "from": sender,
        "to": ["ada"],
        "kind": kind,
        **members,
        "payload": payload,
    }
    return json.dumps(whole, ensure_ascii=n % 2 == 0, separators=None if spaces else (",", ":"))


def listed(n: int, tools: Any = TOOLS, **members: Any) -> str:
    return message(n, "mcp/response", {"jsonrpc": "2.0", "id": 37 * n, "result": {"tools": tools}}, **members)


def record(seq: int, raw: str) -> Record:
    return Record(seq, START, "received", "demo", "bot", "c2", "memory", verdict="accepted", raw=raw)


def write(path: Path, *raws: str) -> list[bytes]:
    """The lines of a journal of messages, each of them written at once."""
    with closing(Journal(path, epoch=7)) as journal:
        for seq, raw in enumerate(raws, 1):
            journal.append([record(seq, raw)])
    return path.read_bytes().splitlines(keepends=True)[1:]


def digests(several: Iterable[Any]) -> list[str]:
    """The values by their digests, since a difference of great texts takes minutes to show."""
    return [sha256(repr(one).encode()).hexdigest()[:16] for one in several]


def texts(path: Path) -> list[str]:
    return digests(one.raw for one in read_journal(path) if one.event == "received")


# --- what stands in the file ---


def test_each_newcomer_costs_a_line_and_not_the_list_again(tmp_path: Path) -> None:
    raws = [listed(2 * n) for n in range(1, 21)]
    first, *others = write(tmp_path / "j.jsonl", *raws)
    assert len(first) > len(raws[0]) > SMALLEST and all(len(line) < 1000 for line in others)
    assert texts(tmp_path / "j.jsonl") == digests(raws)


def test_another_program_finds_the_value_by_what_stands_in_its_place(tmp_path: Path) -> None:
    first, second = (json.loads(line) for line in write(tmp_path / "j.jsonl", listed(2), listed(4)))
    assert list(second)[:3] == ["seq", "same", "now"] and list(second)[-2:] == ["envelope", "chain"]
    assert second["envelope"]["payload"]["id"] == 148 and second["envelope"]["from"] == "bot"
    named = second["envelope"]["payload"]["result"]["x-mew-lab-same-as"]
    value = json.dumps(first["envelope"]["payload"]["result"], separators=(",", ":")).encode()
    assert named == {"record": 1, "bytes": len(value), "sha256": sha256(value).hexdigest()}
    data = (tmp_path / "j.jsonl").read_bytes()
    line = data.rindex(b'{"seq":2,')
    earlier = line - second["same"]["back"]
    assert data[earlier:].startswith(b'{"seq":1,')
    assert data[earlier + second["same"]["from"] :].startswith(value)


@pytest.mark.parametrize(
    "several",
    [
        pytest.param([listed(2), listed(4)], id="result"),
        pytest.param([listed(1), listed(3)], id="not ASCII"),
        pytest.param([listed(2, spaces=True), listed(4, spaces=True)], id="spaces"),
        pytest.param([message(n, "chat", {"text": "a" * 70_000}) for n in (2, 4)], id="payload"),
        pytest.param([message(n, "chat", "\u2028é" * 70_000) for n in (2, 4)], id="no object"),
        pytest.param(
            [
                message(2, "mcp/proposal", {"method": "tools/call", "params": {"arguments": OTHER}}),
                message(
                    4,
                    "mcp/request",
                    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": OTHER}},
                ),
            ],
            id="params",
        ),
        pytest.param(
            [json.dumps({"payload": {"id": n, "result": OTHER}, "id": "x" * n}) for n in (1, 4)], id="first"
        ),
        pytest.param(
            [listed(n, **{"x-more": {"payload": {"result": OTHER[:9]}}}) for n in (2, 4)],
            id="a member before",
        ),
        pytest.param(
            [f'{{"payl\\u006fad" : {{"res\\u0075lt" :\t{json.dumps(OTHER)}}} }}'] * 2, id="escaped names"
        ),
        pytest.param([f'{{"payload":{{"result":1,"result":{json.dumps(OTHER)}}}}}'] * 2, id="a member twice"),
    ],
)
def test_a_value_is_referred_to_however_its_message_is_spelt(tmp_path: Path, several: list[str]) -> None:
    lines = write(tmp_path / "j.jsonl", *several)
    assert [refers(line) for line in lines] == [False, True]
    assert texts(tmp_path / "j.jsonl") == digests(several)


@pytest.mark.parametrize(
    "several",
    [
        pytest.param([listed(2), listed(4, [*TOOLS, {"name": "more"}])], id="more at the end"),
        pytest.param([listed(2, [*TOOLS, {"name": "more"}]), listed(4)], id="less"),
        pytest.param(
            [listed(2), listed(4, [*TOOLS[:-1], {**TOOLS[-1], "description": "x"}])], id="another end"
        ),
        pytest.param(
            [message(2, "chat", {"text": "a" * 70_000}), message(4, "chat", {"text": "a" * 70_001})],
            id="text",
        ),
        pytest.param([message(n, "chat", {"text": "a" * (SMALLEST - 12)}) for n in (2, 4)], id="small"),
        pytest.param(
            [message(2, "x", {"params": OTHER}), message(4, "x", {"result": OTHER})], id="another member"
        ),
        pytest.param(["{" + " " * 70_000 + "}"] * 2, id="no payload"),
        pytest.param([listed(n, **{"x-more": OTHER}) for n in (2, 4)], id="much before"),
        pytest.param(["\n" + listed(2)] * 2, id="a line break"),
    ],
)
def test_what_is_not_the_same_is_written(tmp_path: Path, several: list[str]) -> None:
    assert not any(map(refers, write(tmp_path / "j.jsonl", *several)))
    assert texts(tmp_path / "j.jsonl") == digests(several)


def test_a_text_that_looks_like_a_reference_is_a_text(tmp_path: Path) -> None:
    [_, short] = write(tmp_path / "a.jsonl", listed(2), listed(4))
    stub = json.loads(short)["envelope"]["payload"]["result"]
    raws = [
        listed(2),
        listed(4, **{"x-a": stub, "same": {"at": 1, "back": 2, "from": 3}}),
        message(6, "chat", stub),
    ]
    assert [refers(line) for line in write(tmp_path / "b.jsonl", *raws)] == [False, True, False]
    assert texts(tmp_path / "b.jsonl") == digests(raws)


def test_a_copy_is_used_so_often_and_then_written_again(tmp_path: Path) -> None:
    raws = [listed(2 * n) for n in range(1, 2 * MOST_USES + 4)]
    lines = write(tmp_path / "j.jsonl", *raws)
    assert [n for n, line in enumerate(lines) if not refers(line)] == [0, MOST_USES + 1, 2 * MOST_USES + 2]
    assert texts(tmp_path / "j.jsonl") == digests(raws)


def test_the_writer_knows_the_newest_values_of_this_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path, rotate_at=450_000)
    journal.append([record(1, listed(2)), record(2, listed(4))])  # of one batch, which is written in one
    journal.append([record(3, listed(6))])
    journal.close()
    journal = Journal.resume(path, rotate_at=450_000)
    for seq in range(4, 8):
        journal.append([record(seq, listed(2 * seq))])
    journal.close()
    found = [[refers(line) for line in one.read_bytes().splitlines()[1:]] for one in journal.paths]
    assert found == [[False, False, True, False], [False, True, True]]
    assert [text for one in journal.paths for text in texts(one)] == digests(
        listed(2 * n) for n in range(1, 8)
    )


def test_a_later_file_refers_to_nothing_in_an_earlier_one(tmp_path: Path) -> None:
    raws = [listed(2), listed(4), listed(1, OTHER), listed(1, [*OTHER, 1]), listed(6), listed(8)]
    with closing(Journal(tmp_path / "j.jsonl", rotate_at=400_000)) as journal:
        for seq, raw in enumerate(raws, 1):
            journal.append([record(seq, raw)])
    found = [[refers(line) for line in one.read_bytes().splitlines()[1:]] for one in journal.paths]
    assert found == [[False, True, False, False], [False, True]]
    assert [text for one in journal.paths for text in texts(one)] == digests(raws)


class _Full:
    """Stands for `os` in the journal: its next write takes a part."""

    def __init__(self) -> None:
        self.full = False

    def write(self, fd: int, data: bytes) -> int:
        import os

        return os.write(fd, data[:90_000] if self.full else data)

    def __getattr__(self, name: str) -> Any:
        import os

        return getattr(os, name)


@pytest.mark.parametrize("truncates", [True, False])
def test_nothing_refers_to_what_a_full_disk_did_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truncates: bool
) -> None:
    from mew_lab.log import journal as module

    disk = _Full()
    if not truncates:
        disk.ftruncate = lambda fd, size: (_ for _ in ()).throw(OSError(5, "no"))  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "os", disk)
    path = tmp_path / "j.jsonl"
    with closing(Journal(path)) as journal:
        journal.append([record(1, listed(1, OTHER))])
        disk.full = True
        with pytest.raises(JournalError):
            journal.append([record(2, listed(2))])
        disk.full = False
        for seq in range(2, 5):
            journal.append([record(seq, listed(2 * seq))])
        journal.append([record(5, listed(1, OTHER))])
    written = [listed(1, OTHER), *(listed(2 * seq) for seq in range(2, 5)), listed(1, OTHER)]
    assert texts(path) == digests(written)
    assert [refers(line) for line in path.read_bytes().splitlines()][-3:] == [True, True, True]


# --- every reader finds the same ---


def a_session(dice: Random, events: int) -> Stage:
    """A session in which large values are repeated, some of them changed."""
    stage = Stage(epoch=dice.getrandbits(64), owner="ada")
    stage.play(
        Enrolled("ada", ({"kind": "*"},)),
        Enrolled("bot", ({"kind": "*"},)),
        Joined("c1", "ada", "ada", "memory"),
        Joined("c2", "bot", "bot", "websocket"),
    )
    for n in range(events):
        large = dice.choice(
            [*[TOOLS] * 4, OTHER, OTHER, [{"name": f"{PIN}-{n}"}, *OTHER], [*TOOLS, {"name": PIN}]]
        )
        kind = dice.choice(
            ["mcp/response", "mcp/response", "mcp/proposal", "mcp/request", "chat", "small", "note"]
        )
        sender, connection = dice.choice([("ada", "c1"), ("bot", "c2")])
        call = {"method": "tools/call", "params": {"name": "f", "arguments": {"x": large}}}
        payload: Any = {
            "mcp/response": {"jsonrpc": "2.0", "id": dice.randrange(10**9), "result": {"tools": large}},
            "mcp/proposal": call,
            "mcp/request": {"jsonrpc": "2.0", "id": n, **call},
            "chat": {"text": "z" * 66_000, "format": "plain"},
        }.get(kind, {"text": f"hello {n}"})
        if kind == "note":
            stage.play(Noted("seen", "ada", json.dumps({"n": n})))
            continue
        about = {"correlation_id": [f"m-{dice.randrange(n + 1)}"]} if dice.random() < 0.5 else {}
        text = message(n, "chat" if kind == "small" else kind, payload, sender=sender, **about)
        if dice.random() < 0.1:  # completed, so that both texts are kept
            text = text.replace('"protocol":"mew/v0.4",', "", 1).replace('"protocol": "mew/v0.4", ', "", 1)
        stage.play(Received(text, connection))
    return stage


def write_with_kills(records: list[Record], path: Path, dice: Random, *, rotate_at: int) -> list[KeptHead]:
    """Keeps the records; the gateway is killed now and then, in the middle of a line too. Returns heads of the chain."""
    journal = Journal(path, rotate_at=rotate_at)
    heads = []
    for one in records:
        journal.append([one])
        if dice.random() < 0.06:
            journal.close()
            if dice.random() < 0.5 and one.event != "opened":
                last = journal.paths[-1]
                line = last.read_bytes().splitlines(keepends=True)[-1]
                with last.open("r+b") as file:
                    file.truncate(last.stat().st_size - dice.randrange(1, len(line) + 1))
                journal = Journal.resume(path, rotate_at=rotate_at)
                if journal.head.seq != one.seq:  # else only its line feed is missing
                    journal.append([one])
            else:
                journal = Journal.resume(path, rotate_at=rotate_at)
        heads.append(KeptHead(one.now, journal.head.seq, journal.head.chain.decode()))
    journal.close()
    return heads


def _tail(path: Path) -> list[Record]:
    with closing(Tail(path)) as tail:
        found: list[Record] = []
        while some := tail.read(100_000):
            found += some
    return [one for one in found if one.event != "opened"]


def _peers(path: Path) -> list[bytes]:
    made = export_as_peers(path, path.parent, force=True)
    return [made.history.read_bytes(), made.decisions.read_bytes()]


def _parquet(path: Path) -> list[Record]:
    target = path.parent / "log.parquet"
    open_log(path).to_parquet(target)
    return [one for one in open_log(target).records if one.event != "opened"]


def _save(path: Path) -> bytes:
    open_log(path).save(path.parent / "saved.jsonl")
    assert not any(map(refers, (path.parent / "saved.jsonl").read_bytes().splitlines()))
    return (path.parent / "saved.jsonl").read_bytes()


def _frames(log: Log) -> Iterator[str]:
    for frame in (log.df, log.requests(), log.proposals(), log.chat(), log.streams()):
        yield frame.drop(columns=["place"], errors="ignore").to_json(default_handler=str)


FILTERS = (
    f"text contains {PIN}",
    f'text ~ "*{PIN}*"',
    "kind == mcp/response and payload.result.tools[1].name == tool-1",
    "payload.params.name == f",
    f'payload.result.tools[0].name ~ "{PIN}*"',
    "size > 70000",
    "from == bot",
)


def _filters(log: Log, index: bool) -> Iterator[list[str]]:
    if index:
        _ = log.index
    for query in FILTERS:
        try:
            yield [str(row) for row in log.filter(query).df["id"]]
        except Exception as fault:
            yield [type(fault).__name__, str(fault)]


READERS: dict[str, Callable[[Path], Any]] = {
    "records": lambda path: [one for one in open_log(path).records if one.event != "opened"],
    "messages": lambda path: list(open_log(path)),
    "frames": lambda path: list(_frames(open_log(path))),
    "filters": lambda path: list(_filters(open_log(path), False)),
    "indexed": lambda path: list(_filters(open_log(path), True)),
    "diagnosis": lambda path: str(open_log(path).diagnose()),
    "jsonl": lambda path: open_log(path).select().to_jsonl(),
    "tail": _tail,
    "peers": _peers,
    "parquet": _parquet,
    "replay": lambda path: json.loads(snapshot(replay(path).space)),
    "faults": lambda path: open_log(path).faults,
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.slow
def test_every_reader_finds_what_it_finds_without_references(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)
    stage = a_session(dice, dice.randint(10, 40))
    rotate_at = [1_500_000, 10**9, 2_000_000, 1_000_000][seed % 4]
    path, whole = tmp_path / "with" / "j.jsonl", tmp_path / "without" / "j.jsonl"
    heads = write_with_kills(stage.records, path, dice, rotate_at=rotate_at)
    assert any(refers(line) for one in list_files(path) for line in one.read_bytes().splitlines())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WrittenValues, "shorten", lambda self, line, start, read: line)
        keep(stage.records, whole)
    for name, read in READERS.items():
        if name == "diagnosis" and len(list_files(path)) > 1:
            continue  # it tells less of a journal of several files, with or without references
        assert digests([read(path)]) == digests([read(whole)]), name
    found = verify_chain(path, heads)
    assert found.flaw is None and not found.torn
    quick = resume_quickly(list_files(path), name="j")
    assert quick is not None
    unshortened = resume_quickly([whole], name="j")
    assert unshortened is not None
    assert json.loads(snapshot(quick.replayed.space)) == json.loads(snapshot(unshortened.replayed.space))
    assert quick.used == unshortened.used
    ends = [one.seq for one in stage.records if one.seq]
    seq = dice.choice(ends)
    assert str(open_log(path).at(seq)) == str(open_log(whole).at(seq))
    assert str(open_log(path).audit(seq)) == str(open_log(whole).audit(seq))


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(0, 2**32))
def test_the_chain_is_that_of_the_whole_lines_so_a_copy_is_vouched_for(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    stage = a_session(Random(seed), 15)
    path = keep(stage.records, folder / "j.jsonl")
    chain = NO_CHAIN
    for one in read_journal(path):
        _, chain = chain_line(write_line(one), chain)
    found = verify_chain(path)
    assert (found.head, found.flaw) == (chain.decode(), None)
    _save(path)
    heads = [KeptHead(stage.now, stage.records[-1].seq, chain.decode())]
    copied = verify_chain(folder / "saved.jsonl", heads)
    assert (copied.flaw, copied.kept) == (None, 1)


@pytest.mark.parametrize("keeps", [0, 1, 2])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
def test_pruned_files_take_no_value_with_them(tmp_path: Path, seed: int, keeps: int) -> None:
    dice = Random(seed)
    stage = a_session(dice, 60)
    path = tmp_path / "j.jsonl"
    heads = write_with_kills(stage.records, path, dice, rotate_at=400_000)
    assert len(list_files(path)) > 3
    before = json.loads(snapshot(replay(path).space))

    def agree(goes: Pruned) -> bool:
        return True

    done = prune(
        path, keep=keeps, agree=agree, heads=tuple(heads), clock=lambda: datetime(2026, 11, 22, tzinfo=UTC)
    )
    assert done is not None and done.head is not None
    left = [one for one in open_log(path).records if one.seq]
    assert digests(left[:-1]) == digests(stage.records[len(stage.records) - len(left) + 1 :])
    after = json.loads(snapshot(replay(path).space))
    assert {key for key in before if before[key] != after[key]} == {"records"}
    assert verify_chain(path, [*heads, done.head]).flaw is None


def test_a_file_whose_last_line_is_a_reference_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    for torn in (0, 1):
        path.unlink(missing_ok=True)
        lines = write(path, listed(2), listed(4))
        assert refers(lines[-1])
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - torn)
        with closing(Journal.resume(path)) as journal:
            assert journal.head.seq == 2
            journal.append([record(3, listed(6))])
        assert texts(path) == digests([listed(2), listed(4), listed(6)])
        assert verify_chain(path).flaw is None


def test_what_is_followed_is_read_in_parts_of_the_size_that_is_asked_for(tmp_path: Path) -> None:
    raws = [listed(2 * n) for n in range(1, 30)]
    write(tmp_path / "j.jsonl", *raws)
    with closing(Tail(tmp_path / "j.jsonl")) as tail:
        parts = []
        while some := tail.read(200_000):
            parts.append([one.raw for one in some if one.raw])
    assert digests(raw for part in parts for raw in part) == digests(raws)
    assert max(sum(len(raw or "") for raw in part) for part in parts[1:]) < 200_000 + 2 * len(raws[0])


def test_a_filter_finds_the_lines_whose_value_stands_in_another(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write(
        path,
        listed(2),
        message(3, "chat", {"text": "tool-999"}),
        listed(4),
        message(6, "chat", {"text": "no"}),
    )
    index = open_log(path).index
    for text, found in (
        ("payload.result.tools[999].name == tool-999", [1, 3]),
        ("not payload.result.tools exists", [2, 4]),
        ("payload.result exists and tool-999", [1, 3]),
    ):
        places = select_places(index, parse_filter(text), events=False)
        assert [record.seq for record in index.records(places)] == found, text


# --- references that are none ---


LARGE_REFERENCE = (b"at", b"back", b"from", b"record", b"bytes")
CHANGES: dict[str, Callable[[bytes], bytes]] = {
    **{
        f"{name.decode()} {value.decode()}": lambda line, name=name, value=value: re.sub(  # type: ignore[misc]
            rb'("%b":)[0-9]+' % name, rb"\g<1>" + value, line, count=1
        )
        for name in LARGE_REFERENCE
        for value in (
            b"0",
            b"1",
            b"-1",
            b"9999999",
            b"99999999999999999999",
            b"1.0",
            b"01",
            b'"7"',
            b"null",
            b"4",
        )
        if (name, value) != (b"record", b"1")  # what it says
    },
    "digest": lambda line: re.sub(rb'"sha256":"..', b'"sha256":"zz', line),
    "another digest": lambda line: re.sub(rb'"sha256":"[0-9a-f]{64}', b'"sha256":"' + b"0" * 64, line),
    "another value": lambda line: line.replace(b"x-mew-lab-same-as", b"x-mew-lab-same-at"),
    "no place": lambda line: re.sub(rb',"same":\{[^}]*\}', b',"same":{}', line),
    "two": lambda line: re.sub(rb'("same":\{[^}]*\},)', rb"\1\1", line),
    "of another": lambda line: line.replace(b'"record":1', b'"record":2'),
    "elsewhere": lambda line: re.sub(rb'("seq":4),("same":\{[^}]*\})', rb'\1,"x":1,\2', line),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_reference_to_something_else_is_a_line_that_cannot_be_read_nor_verified(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "j.jsonl"
    lines = write(path, *(listed(2 * n) for n in range(1, 5)))
    changed = CHANGES[name](lines[3])
    assert changed != lines[3]
    path.write_bytes(path.read_bytes()[: -len(lines[3])] + changed)
    assert texts(path) == digests(listed(2 * n) for n in (1, 2, 3))
    log = open_log(path)
    [fault] = log.faults
    assert re.search(
        r"1 line could not be read: line 5 (refers to|has a reference|is not a whole record)", fault
    ), fault
    assert digests(log.df["raw"]) == digests(listed(2 * n) for n in (1, 2, 3))
    assert [one.event for one in log.index.records()].count("unreadable") == 1
    flaw = verify_chain(path).flaw
    assert flaw is not None and flaw.line == 5


def test_a_value_that_was_changed_breaks_the_chain_where_it_stands_and_is_told_where_it_is_used(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j.jsonl"
    write(path, *(listed(2 * n) for n in range(1, 4)))
    path.write_bytes(path.read_bytes().replace(b"tool-500", b"tool-50O"))
    flaw = verify_chain(path).flaw
    assert flaw is not None and flaw.line == 2
    assert [one.event for one in read_journal(path)] == ["opened", "received", "unreadable", "unreadable"]
    assert "line 3 refers to a value of record 1 whose SHA-256 is another one" in open_log(path).faults[0]


def bomb(path: Path, lines: int) -> None:
    """One value of a mebibyte, and so many lines that refer to it, whatever a writer of ours would do."""
    value = json.dumps(["a" * 2**20]).encode()
    start = b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"received","envelope":{"kind":"x","payload":'
    data = [start + value + b"}}\n"]
    end = len(data[0])
    for seq in range(2, lines + 2):
        line = (
            b'{"seq":%d,"same":{"at":22,"back":%d,"from":%d},"now":"2026-11-21T22:40:01Z","event":"received",'
            b'"envelope":{"kind":"x","payload":{"x-mew-lab-same-as":{"record":1,"bytes":%d,"sha256":"%b"}}}}\n'
            % (seq, end, len(start), len(value), sha256(value).hexdigest().encode())
        )
        data.append(line)
        end += len(line)
    path.write_bytes(b"".join(data))


def test_a_file_stands_for_32_times_its_bytes_at_most(tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl"
    bomb(path, 1000)
    with path.open("rb") as file:
        lines = list(split_lines(file))
    assert sum(map(len, lines)) < 34 * path.stat().st_size
    assert sum(isinstance(line, UnreadLine) for line in lines) > 950
    found = [one.event for one in read_journal(path)]
    log = open_log(path)
    assert [one.event for one in log.records] == found
    assert len(log.df) == found.count("received") < 45
    assert "32 times" in log.faults[0]


def test_a_message_of_many_members_is_written_about_as_fast_as_one_of_a_text() -> None:
    def seconds(payload: object, **members: object) -> float:
        body = json.dumps({"kind": "chat", **members, "payload": payload})
        line = (
            b'{"seq":1,"now":"2026-11-21T22:40:01.123456Z","event":"received","envelope":%b}\n'
            % body.encode()
        )
        times = []
        for _ in range(5):
            values, begun = WrittenValues(), process_time()
            assert values.shorten(line, 0, lambda start, size: b"") == line
            times.append(process_time() - begun)
        return min(times)

    most = 5 * seconds({"text": "x" * 900_000}) + 0.005
    assert seconds({f"k{n}": n for n in range(60_000)}) <= most
    assert seconds({"params": {}}, more=[[]] * 200_000) <= most
    assert seconds({"more": [[]] * 200_000, "params": {}}) <= most
