"""Every verb of a log on every kind of bad file: a sentence, or an answer with the right columns, and nothing lost unsaid."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
import zstandard

from mew_lab.cli import main
from mew_lab.errors import MewError
from mew_lab.log.journal import Journal
from mew_lab.log.log import Log, open_log

from ..user_rights import bound_by_modes
from .stage import hostile, keep

HEAD = (
    '{"seq":%d,"now":"2026-11-21T22:41:01.123456Z","event":"received","space":"demo","participant":"bot",'
    '"connection":"c1","via":"memory","verdict":"accepted","code":"","pattern":"","detail":"","received":null,'
    '"envelope":%s}\n'
)


def line(seq: int, envelope: str = "") -> bytes:
    """A line of a journal with one message."""
    usual = {"protocol": "mew/v0.4", "id": f"x-{seq}", "ts": "2026-11-21T22:41:01Z", "from": "bot"}
    return (
        HEAD % (seq, envelope or json.dumps(usual | {"kind": "chat", "payload": {"text": "hi"}}))
    ).encode()


def session(folder: Path) -> bytes:
    """The journal of a session that can be replayed."""
    path = folder / "session" / "log.jsonl"
    path.parent.mkdir()
    return keep(hostile(5, 40).records, path).read_bytes()


def around(text: str) -> Callable[[Path], bytes]:
    """A journal of three messages, the second with this text."""
    return lambda _: line(1) + line(2, text) + line(3)


def damaged(folder: Path) -> bytes:
    """A session with a byte of its middle changed."""
    data = bytearray(session(folder))
    data[len(data) // 2] ^= 0x20
    return bytes(data)


class Bad(NamedTuple):
    """A kind of file: how it is made, and what a reader is told.

    `refused` is the sentence where there is no log in it. Else `left_out` is the number of its lines that are in no row,
    and `why` a part of the sentence that says so.
    """

    make: Callable[[Path], bytes | Path]
    refused: str = ""
    left_out: int = 0
    why: str = ""
    name: str = "log.jsonl"


def folder_named_as_a_file(folder: Path) -> Path:
    (folder / "log.jsonl").mkdir()
    return folder / "log.jsonl"


def link_to_itself(folder: Path) -> Path:
    (folder / "log.jsonl").symlink_to(folder / "log.jsonl")
    return folder / "log.jsonl"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "log.jsonl")
    return folder / "log.jsonl"


def unreadable(folder: Path) -> Path:
    path = folder / "log.jsonl"
    path.write_bytes(line(1))
    path.chmod(0)
    return path


def half_packed(pack: Callable[[bytes], bytes], kept: float) -> Callable[[Path], bytes]:
    def make(_: Path) -> bytes:
        lines = b"".join(
            line(n, json.dumps({"id": f"x-{n}", "from": "bot", "kind": "chat"})) for n in range(1500)
        )
        packed = pack(lines)
        return packed[: int(len(packed) * kept)]

    return make


NO_LOG = "is not a journal: its first line is"
DEEP = '{"id":"d","from":"bot","kind":"chat","payload":' + "[" * 100_000 + "]" * 100_000 + "}"
LONG = '{"id":"l","from":"bot","kind":"chat","payload":{"text":"' + "x" * (16 << 20) + '"}}'
NAN = '{"id":"n","from":"bot","kind":"chat","payload":{"x":NaN,"y":-Infinity}}'
TWICE = '{"id":"n","id":"m","kind":"chat","kind":"mcp/request","from":"bot","payload":{"a":1,"a":2}}'
LONE = '{"id":"\\ud800","from":"bot","kind":"chat","payload":{"text":"\\udfff"}}'
OUR_NAMES = json.dumps(
    {
        "id": "n",
        "from": "bot",
        "kind": "mcp/request",
        "to": ["fs"],
        "seq": 9,
        "verdict": "refused",
        "place": "x",
    }
    | {"number": 1, "__class__": "y", "mew_payload": 3, "event": "closed", "now": 5, "raw": "z", "chain": "0"}
    | {
        "payload": {
            "seq": 7,
            "method": "tools/call",
            "params": {"name": "f", "arguments": {"\x00": 1, "": 2}},
        }
    }
)
OTHER_VERSIONS = b'{"seq":3,"version":99,"now":"2027","event":"future"}\n{"event_id":1,"type":"message"}\n'

KINDS: dict[str, Bad] = {
    "no log": Bad(lambda _: b"hello\nworld\n" * 200, NO_LOG),
    "a page": Bad(lambda _: b"<!doctype html><html><body>not found</body></html>", NO_LOG),
    "other JSON lines": Bad(lambda _: b'{"a":1}\n{"b":2}\n', NO_LOG),
    "one JSON list": Bad(lambda _: json.dumps([{"seq": 1, "now": 2, "event": 3}]).encode(), NO_LOG),
    "binary": Bad(lambda _: random.Random(1).randbytes(100_000), NO_LOG),
    "zeros": Bad(lambda _: bytes(100_000), NO_LOG),
    "blank lines": Bad(lambda _: b"\n\n  \n", NO_LOG),
    "empty": Bad(lambda _: b""),
    "half a log": Bad(lambda folder: session(folder)[:-40], "", 1, "the last line is torn and was left out"),
    "half a line": Bad(lambda _: line(1)[:60], "", 1, "the last line is torn and was left out"),
    "a changed byte": Bad(damaged),
    "mixed versions": Bad(
        lambda _: line(1) + OTHER_VERSIONS + line(5), "", 2, "2 lines could not be read; the first: line 2"
    ),
    "100 000 deep": Bad(around(DEEP), "", 1, "1 line could not be read: line 2 is not a whole record"),
    "a line of 16 MiB": Bad(around(LONG), "", 1, "1 line could not be read: line 2 is too long"),
    "NaN": Bad(around(NAN), "", 1, "1 line could not be read: line 2 is not a whole record"),
    "names twice": Bad(around(TWICE)),
    "lone surrogates": Bad(around(LONE), "", 1, "1 line could not be read: line 2 is not a whole record"),
    "names of ours": Bad(around(OUR_NAMES)),
    "a folder": Bad(folder_named_as_a_file, "There is no journal in"),
    "missing": Bad(lambda folder: folder / "log.jsonl", "No such file or directory"),
    "a name that is too long": Bad(lambda folder: folder / ("x" * 300 + ".jsonl"), "File name too long"),
    "a name with a zero byte": Bad(lambda folder: folder / "a\x00b.jsonl", "embedded null byte"),
    "a link to itself": Bad(link_to_itself, "Too many levels of symbolic links"),
    "a pipe": Bad(pipe, "it is no regular file"),
    "no permission": Bad(unreadable, "Permission denied"),
    "half a gzip": Bad(half_packed(gzip.compress, 0.5), name="log.jsonl.gz", left_out=-1, why="end early or are damaged"),
    "half a zstd": Bad(
        half_packed(zstandard.compress, 0.5), name="log.jsonl.zst", left_out=-1, why="end early or are damaged"
    ),
    "a gzip of nothing": Bad(lambda _: gzip.compress(b""), name="log.jsonl.gz"),
    "a zstd without content": Bad(half_packed(zstandard.compress, 0.002), "Cannot unpack", name="log.jsonl.zst"),
    "a gzip of no log": Bad(lambda _: gzip.compress(b"hello\n"), NO_LOG, name="log.jsonl.gz"),
    "a broken Parquet": Bad(lambda _: b"PAR1" + b"\x00" * 90 + b"PAR1", "Cannot read", name="log.parquet"),
}  # fmt: skip

FRAMES = (
    *(
        "requests",
        "proposals",
        "decisions",
        "reasoning",
        "streams",
        "participants",
        "grants",
        "verdicts",
        "chat",
    ),
)
UNKNOWN = ("nobody", "", -1, 10**30, "#" + "9" * 400, "\ud800", "\x00")
RIGHTS = {"bert": [{"kind": "chat"}]}
VERBS: dict[str, Callable[[Log, Path], Any]] = {
    "len": lambda log, _: len(log),
    "iterate": lambda log, _: list(log),
    "slice": lambda log, _: log[-2:],
    "repr": lambda log, _: repr(log),
    "head": lambda log, _: log.head(),
    "table": lambda log, _: log.table(events=True),
    "frames": lambda log, _: repr(log.frames),
    "filter": lambda log, _: log.filter('kind ~ "mcp/*" and latency > 2s or diag.severity >= warn').df,
    "filter by text": lambda log, _: log.filter("hi payload.text == hi").df,
    "filter with a fault": lambda log, _: log.filter("kind ~ ((").df,
    "filter by no field": lambda log, _: log.filter("knd == chat").df,
    "filter by a number out of range": lambda log, _: log.filter("seq > 1e400").df,
    "follow all": lambda log, _: [log.follow(number).text for number in log.head().seq],
    "at all": lambda log, _: [repr(log.at(number)) for number in (0, 1, 5)],
    "diagnose": lambda log, _: repr(log.diagnose()),
    "diagnose at no severity": lambda log, _: log.diagnose("nonsense"),
    "verify": lambda log, _: str(log.verify()),
    "verify without heads": lambda log, folder: log.verify(heads=folder / "none"),
    "what if": lambda log, _: repr(log.what_if(capabilities=RIGHTS)),
    "what if, exactly": lambda log, _: repr(log.what_if(capabilities=RIGHTS, exact=True)),
    "what if of nobody": lambda log, _: log.what_if(capabilities={"nobody": [{"kind": "chat"}]}),
    "what if with a fault": lambda log, _: log.what_if(capabilities={"bert": [{"knd": "chat"}]}),
    **{
        f"chart {name}": lambda log, _, name=name: getattr(log.charts, name)()
        for name in ("rate", "latency", "talk", "tokens", "decisions")
    },
    "save": lambda log, folder: log.save(folder / "saved.jsonl"),
    "save to a folder": lambda log, folder: log.save(folder),
    "save to nowhere": lambda log, folder: log.save(folder / "no" / "x.jsonl"),
    "Parquet": lambda log, folder: log.to_parquet(folder / "saved.parquet"),
    "Parquet to a folder": lambda log, folder: log.to_parquet(folder),
    "spans": lambda log, folder: log.export_otlp(folder / "spans.json"),
    "copies": lambda log, _: [
        getattr(log.select(), f"to_{form}")() for form in ("jsonl", "markdown", "mermaid", "python")
    ],
    "filter by a lone surrogate": lambda log, _: log.filter('id == "\ud800" or "\udfff"').df,
    "audit": lambda log, _: [str(log.audit(id)) for id in log.head().id[:5]],
    **{
        f"{verb} {id!r:.12}": lambda log, _, verb=verb, id=id: getattr(log, verb)(id)
        for verb in ("follow", "audit", "select", "at")
        for id in UNKNOWN
        if verb != "at" or isinstance(id, int)
    },
}


@pytest.fixture
def bad(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Bad, Path]]:
    kind: Bad = KINDS[request.param]
    made = kind.make(tmp_path)
    if isinstance(made, bytes):
        path = tmp_path / kind.name
        path.write_bytes(made)
    else:
        path = made
    with bound_by_modes():
        yield kind, path


each_kind = pytest.mark.parametrize("bad", KINDS, indirect=True)


def assert_sentence(text: str) -> None:
    """One or two sentences for a person, or the lines of a filter with a caret."""
    assert 10 < len(text) < 700, text
    assert not re.search(r"Traceback|object at 0x|<class |/mew_lab-\w+/", text), text
    assert text.count("\n") <= 2, text


@pytest.mark.sampled
@each_kind
def test_every_verb_gives_an_answer_or_a_sentence(bad: tuple[Bad, Path], tmp_path: Path) -> None:
    kind, path = bad
    out = tmp_path / "out"
    out.mkdir()
    try:
        log = open_log(path)
    except MewError as fault:
        assert kind.refused and kind.refused in str(fault), fault
        assert_sentence(str(fault))
        return
    assert not kind.refused
    for name, verb in VERBS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ResourceWarning)
            try:
                verb(log, out)
            except MewError as fault:
                assert_sentence(str(fault))
            except IndexError as fault:  # of `log[…]`, as of a list
                assert name == "slice", fault


@pytest.mark.sampled
@each_kind
def test_every_frame_has_its_columns(bad: tuple[Bad, Path]) -> None:
    kind, path = bad
    if kind.refused:
        return
    log, empty = open_log(path), Log.live()
    frames: dict[str, tuple[pd.DataFrame, pd.DataFrame]] = {"df": (log.df, empty.df)}
    frames |= {name: (getattr(log, name)(), getattr(empty, name)()) for name in FRAMES}
    frames["filtered"] = (log.filter("id == nobody").df, empty.filter("id == nobody").df)
    for name, (frame, expected) in frames.items():
        assert list(frame.columns) == list(expected.columns), name
    assert len(log.filter("id == nobody").df) == 0


@pytest.mark.sampled
@each_kind
def test_every_line_is_a_record_or_counted_with_the_reason(bad: tuple[Bad, Path]) -> None:
    kind, path = bad
    if kind.refused:
        return
    log = open_log(path)
    rows = [record for record in log.records if record.event != "unreadable"]
    told = " ".join(log.faults)
    assert kind.why in told
    assert bool(told) == bool(kind.why) == bool(kind.left_out)
    assert len(log.df) == len(log) == len(open_log(path).df)
    assert " ".join(open_log(path, index=False).faults) == told
    if kind.left_out < 0:  # of what a packed file lost nobody knows the number
        return
    lines = (
        [text for text in path.read_bytes().split(b"\n") if text.strip()] if path.suffix == ".jsonl" else []
    )
    assert len(rows) + kind.left_out == len(lines)
    counted = re.search(r"(\d+) lines? could not be read", told)
    assert (int(counted[1]) if counted else 0) + ("torn" in told) == kind.left_out
    by_index = open_log(path)
    assert len(by_index.df) == len(log) and by_index.index.faults == log.faults


COMMANDS: dict[str, list[str]] = {
    "tail": ["tail", "FILE"],
    "tail --json": ["tail", "--json", "FILE"],
    "tail --filter": ["tail", "--filter", "latency > 1s or kind == chat", "FILE"],
    "audit": ["audit", "FILE", "x-1"],
    "verify": ["verify", "FILE"],
    "replay": ["replay", "FILE"],
    "diagnose": ["diagnose", "FILE"],
    "journal verify": ["journal", "verify", "FILE"],
    "export": ["export", "FILE", "--as", "peers", "--to", "OUT"],
    "tap": ["tap", "--journal", "FILE", "--", "true"],
}
MAY_UNPACK = ("verify", "diagnose", "audit", "replay")


@each_kind
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_with_a_status_and_a_sentence(
    command: str, bad: tuple[Bad, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kind, path = bad
    out = tmp_path / "out"
    out.mkdir()
    words = [{"FILE": str(path), "OUT": str(out)}.get(word, word) for word in COMMANDS[command]]
    try:
        status: Any = main(words)
    except SystemExit as end:
        status = end.code
    said, told = capfd.readouterr()
    assert "Traceback" not in told and "Traceback" not in said
    assert status in (None, 0, 1, 2, 3)
    lines = told.splitlines()
    assert len(lines) <= 2
    for one in lines:
        assert_sentence(one)
    if command == "tap" and kind is KINDS["missing"]:
        assert status in (None, 0) and path.is_file()  # a tap makes the file
    elif kind.refused or command == "tap":
        assert status == 1 and len(lines) == 1 and lines[0].startswith("mew-lab ") and not said
    elif status in (None, 0) and kind.left_out:
        # Who reads on after a fault is told what is missing.
        assert re.search(r"could not be read|torn|end early|packed", said + told), (said, told)
    elif status:
        assert said or told


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        ("kind ~ ((", "value is missing"),
        ("knd == chat", "did you mean kind?"),
        ("latency > soon", "latency"),
        ("(" * 5000, "at most 2000"),
        ("kind == " + "x" * 200_000, "characters"),
        ("from in (", "add )"),
        ("text ~ /(/", ""),
        ("seq = 1", "=="),
    ],
)
def test_a_filter_with_a_fault_is_the_same_sentence_everywhere(
    filter: str, wanted: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(line(1))
    with pytest.raises(MewError) as caught:
        open_log(path).filter(filter)
    with pytest.raises(MewError) as live:
        Log.live().filter(filter)
    assert str(live.value) == str(caught.value)
    assert wanted in str(caught.value) and len(str(caught.value)) < 1000
    assert main(["tail", "--filter", filter, str(path)]) == 1
    said, told = capfd.readouterr()
    assert not said and told.startswith("mew-lab tail: ") and "Traceback" not in told


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"A" * path.stat().st_size)


def append_garbage(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'garbage\n{"seq":')


CHANGES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "emptied": lambda path: os.truncate(path, 0),
    "shortened": shorten,
    "overwritten": overwrite,
    "replaced by a folder": lambda path: (path.unlink(), path.mkdir()),
    "appended to": append_garbage,
}


@pytest.mark.sampled
@pytest.mark.parametrize("used", [False, True], ids=["unread", "read"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_under_an_open_log_is_a_sentence_at_most(
    change: str, used: bool, tmp_path: Path
) -> None:
    path, out = tmp_path / "log.jsonl", tmp_path / "out"
    path.write_bytes(session(tmp_path))
    out.mkdir()
    log = open_log(path)
    frame = log.df if used else None
    CHANGES[change](path)
    for name, verb in VERBS.items():
        try:
            verb(log, out)
        except MewError as fault:
            assert_sentence(str(fault))
        except IndexError as fault:
            assert name == "slice", fault
    if frame is not None:
        try:
            list(frame.payload)
        except MewError as fault:
            assert_sentence(str(fault))


@pytest.mark.parametrize("way", ["the path", "a link", "a path with .."])
def test_no_export_and_no_live_log_overwrites_its_own_journal(way: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(session(tmp_path))
    before = path.read_bytes()
    target = {
        "the path": path,
        "a link": tmp_path / "link",
        "a path with ..": tmp_path / "session" / ".." / path.name,
    }
    (tmp_path / "link").symlink_to(path)
    log = open_log(path)
    journal = Journal(tmp_path / "live.jsonl")
    live = Log.live(journal=journal)
    targets = {name: str(one).replace(path.name, "live.jsonl") for name, one in target.items()}
    (tmp_path / "link-live").symlink_to(tmp_path / "live.jsonl")
    targets["a link"] = str(tmp_path / "link-live")
    for write, to in (
        (log.to_parquet, target[way]),
        (log.export_otlp, target[way]),
        (live.save, targets[way]),
    ):
        with pytest.raises(MewError, match=r"it is the journal of this log\. Name another file"):
            write(to)
        write(tmp_path / "other")
    journal.close()
    assert path.read_bytes() == before
