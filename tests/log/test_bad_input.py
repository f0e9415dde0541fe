"""Every verb of a log on every kind of bad file: a sentence, or an answer with the right columns, and nothing lost unsaid."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import re
import shutil
import time
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pandas as pd
import pytest
import zstandard

from mew_lab.cli import main
from mew_lab.errors import MewError
from mew_lab.log.export import export_as_peers
from mew_lab.log.journal import Journal
from mew_lab.log.kept_heads import KeptHead, keep_head
from mew_lab.log.log import Log, open_log
from mew_lab.log.moment import Moment
from mew_lab.log.prune import Pruned, prune
from mew_lab.log.replay import Replayed, replay
from mew_lab.space.events import Record

from ..user_rights import bound_by_modes
from .consent_sessions import play as decisions
from .fuzz import mutated
from .planted import FAULTS, converse
from .stage import hostile, keep
from .test_frames import NAMES as FRAMES

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


def damaged(after: bytes) -> Callable[[Path], bytes]:
    """A session with a byte of its middle changed, the first behind this text."""

    def make(folder: Path) -> bytes:
        data = bytearray(session(folder))
        data[data.index(after, len(data) // 2) + len(after)] ^= 0x20
        return bytes(data)

    return make


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
    "a changed letter": Bad(damaged(b'"participant":"')),
    "a changed quote": Bad(damaged(b'"participant":'), "", 1, "1 line could not be read: line "),
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


# --- no text of a participant moves a terminal ---

UGLY_NAME = "\x1b[31m\x07\u202e\nsecond.jsonl"
UGLY = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\r\n\x00"

OWN_WORDS = {
    "protocol",
    "kind",
    "ts",
    "now",
    "event",
    "verdict",
    "via",
    "method",
    "decision",
    "how",
    "timestamp",
}


def disfigured(value: Any, name: str = "") -> Any:
    """The value with control characters behind each text in it that a participant may choose, also in JSON within it."""
    if isinstance(value, dict):
        return {key: disfigured(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [disfigured(inner, name) for inner in value]
    if not isinstance(value, str) or name in OWN_WORDS or not value:
        return value
    if value[0] in "{[":
        with contextlib.suppress(ValueError):
            return json.dumps(disfigured(json.loads(value)))
    return value + UGLY


def reachable(value: object, depth: int = 4) -> Iterator[object]:
    """A result and the results in it."""
    yield value
    inner: list[object] = list(value) if isinstance(value, list | tuple) else []
    for name in getattr(type(value), "__annotations__", {}):
        inner.append(getattr(value, name, None))
    for one in inner if depth else []:
        if isinstance(one, list | tuple) or type(one).__module__.startswith("mew_lab."):
            yield from reachable(one, depth - 1)


CALLED: dict[str, Callable[[Log], Any]] = {
    "at": lambda log: [log.at(seq) for seq in (3, 20, 60)],
    "audit": lambda log: [log.audit(id) for id in log.df.id[::7]],
    "charts": lambda log: [log.charts.rate(), log.charts.talk(), log.charts.latency(), log.charts.decisions(), log.charts.rules()],
    "back_test": lambda log: [log.back_test([]), log.what_if(rules=[f"When {json.dumps(UGLY, ensure_ascii=False)} asks a to run b with nothing: approve"])],
    "decided_calls": lambda log: log.decided_calls(),
    "history_of": lambda log: [log.history_of(one.proposal) for one in log.decided_calls()],
    "learn_rules": lambda log: [*log.learn_rules(unverified=True), log.what_if(rules="learned")],
    "diagnose": lambda log: [log.diagnose(), *log.diagnose(), *log.diagnose().lines()],
    "filter": lambda log: log.filter("kind == chat"),
    "follow": lambda log: [log.follow(id) for id in log.df.id[::9]],
    "select": lambda log: log.select(),
    "table": lambda log: str(log.table(events=True)),
    "tool_calls": lambda log: log.tool_calls(),
    "tree": lambda log: log.tree(),
    "verify": lambda log: log.verify(),
    "view": lambda log: None,
    "what_if": lambda log: [log.what_if(capabilities={"bot" + UGLY: [{"kind": "chat"}]}, exact=True)],
    "df": lambda log: [log.df, log.df["from"], log.df[log.df.kind == "chat"], log.df.set_index("from").kind],
    "counts": lambda log: [log.df["from"].value_counts(), log.df[["from"]].value_counts(), log.df.groupby("from").size()],
    "head": lambda log: log.head(),
    **{name: lambda log, name=name: getattr(log, name)() for name in FRAMES},
    **dict.fromkeys(("frame", "index", "source", "records", "live", "pass_over", "observe", "save"), lambda log: None),
    **dict.fromkeys(("export_otlp", "to_parquet", "report", "held", "held_after"), lambda log: None),
}  # fmt: skip


@pytest.mark.threat(47)
@pytest.mark.parametrize("played", ["decided", "planted"])
def test_the_text_of_no_result_has_a_control_character(played: str, tmp_path: Path) -> None:
    records = decisions(5, 60).stage.records if played == "decided" else converse(5, 60, *FAULTS)[0]
    path = keep(records, tmp_path / f"log{UGLY_NAME}")
    lines = [json.loads(text) for text in path.read_bytes().splitlines()]
    path.write_text("".join(json.dumps(disfigured(one)) + "\n" for one in lines) + "no record\n{")
    log = open_log(path)
    assert UGLY in "".join(log.df["from"].astype(str))
    public = [*(name for name in dir(Log) if not name.startswith("_")), "counts"]
    results: list[object] = [log]
    for name in public:
        call = CALLED.get(name, lambda log, name=name: getattr(log, name))
        assert name in CALLED or not callable(getattr(log, name)), f"call {name} in CALLED, too"
        try:
            results.append(call(log))
        except MewError as fault:
            results.append(fault)
    seen, found = set(), dict[str, str]()
    for result in results:
        for one in reachable(result):
            own = type(one).__module__.startswith("mew_lab.") or isinstance(one, MewError | pd.Series)
            table = [one.to_string()] if isinstance(one, pd.DataFrame | pd.Series) else []
            for text in (str(one), repr(one), *table) if own else ():
                wrong = {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
                if wrong:
                    found.setdefault(type(one).__name__, text[:300])
            seen.add(type(one).__name__)
    assert not found
    assert {"Audit", "Diagnosis", "Verification", "Consents"} <= seen, seen


@pytest.mark.threat(47)
def test_the_name_of_a_file_brings_no_control_character_into_a_sentence(tmp_path: Path) -> None:
    """Whoever sends a file has chosen its name."""
    folder = tmp_path / UGLY_NAME
    folder.mkdir()
    chained = keep(hostile(5, 40).records, folder / f"log{UGLY_NAME}").read_bytes()
    contents: list[bytes | Path] = [chained, chained.replace(b"demo", b"dem0", 9), chained[:-40] + b"\n"]
    for nth, kind in enumerate(KINDS.values()):
        (tmp_path / str(nth)).mkdir()
        contents.append(kind.make(tmp_path / str(nth)))
    sentences = list[str]()

    def note(goes: Pruned) -> bool:
        sentences.append(str(goes))
        return False

    for nth, content in enumerate(contents):
        path = folder / f"{nth}{UGLY_NAME}"
        if isinstance(content, bytes):
            path.write_bytes(content)
        verbs: list[Callable[[], object]] = [
            lambda path=path: "\n".join(open_log(path).faults),
            lambda path=path: open_log(path).verify(),
            lambda path=path: open_log(path).at(10**6),
            lambda path=path: open_log(path).save(path.with_suffix(".copy")),
            lambda path=path: prune(path, keep=0, agree=note),
            lambda path=path: replay(path),
            lambda path=path: Journal.resume(path).close(),
            lambda path=path: export_as_peers(path, tmp_path / "none"),
        ]
        for verb in verbs:
            try:
                result = verb()
                if not isinstance(result, Path | Replayed | Moment):
                    sentences += str(result).split("\n")
            except MewError as fault:
                sentences.append(str(fault))
    assert len(sentences) > 200
    for sentence in sentences:
        assert sentence.isprintable() and not sentence.startswith("second"), sentence


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
        assert (
            status == (2 if "verify" in command else 1)
            and len(lines) == 1
            and lines[0].startswith("mew-lab ")
            and not said
        )
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


# --- each reader under a fuzzer: a MewError is the only way out ---


class Fuzzed(NamedTuple):
    """A reader: the name of its file, and whether it has lines of JSON."""

    name: str
    lines: bool = True


NOTES = {
    "pruned": '{"seq":3,"files":1,"records":3,"snapshot":"' + "7" * 64 + '"}',
    "reported": '{"proposal":"p-1","decision":"approve","request":"q-1","how":"click","to":["fs"]}',
    "resolved": '{"request":"q-1","to":["fs"],"happened":true,"note":"x"}',
    "limited": '{"messages":3}',
}
CORPUS = Path(__file__).parent / "corpus"
READERS = {
    "journal": Fuzzed("log.jsonl"),
    "journal with references": Fuzzed("references.jsonl"),
    "history": Fuzzed("envelope-history.jsonl"),
    "decisions": Fuzzed("capability-decisions.jsonl"),
    "otlp": Fuzzed("spans.jsonl"),
    "parquet": Fuzzed("log.parquet", lines=False),
    "heads": Fuzzed("journal.heads", lines=False),
}
PARQUET_TYPES = (
    *(
        "BIGINT",
        "HUGEINT",
        "UBIGINT",
        "DOUBLE",
        "BOOLEAN",
        "VARCHAR",
        "BLOB",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "TIMESTAMPTZ",
    ),
    *(
        "TIMESTAMP_NS",
        "TIMESTAMP_S",
        "INTERVAL",
        "DECIMAL(38,10)",
        "UUID",
        "VARCHAR[]",
        "BIGINT[][]",
        "STRUCT(a VARCHAR)",
    ),
)
PARQUET_VALUES = (
    *(
        "NULL",
        "0",
        "-1",
        "9223372036854775807",
        "1e300",
        "'x'",
        "''",
        "'infinity'",
        "'-infinity'",
        "'29400-01-01'",
        "true",
    ),
    *(
        "'4000-01-01 (BC)'",
        "'9999-12-31 23:59:59.999999'",
        "['a', NULL]",
        "[[1]]",
        "{'a': 'b'}",
        "'\\x00\\xFF'",
    ),
)


def odd_parquet(path: Path, dice: random.Random) -> None:
    """A Parquet file with the columns of a log, of which one or two have another type or value."""
    usual = {
        "seq": "1",
        "time": "TIMESTAMPTZ '2026-11-21 22:40:01Z'",
        "event": "'received'",
        "verdict": "'accepted'",
    }
    usual |= {
        "raw": """'{"kind":"chat","id":"x","from":"bot"}'""",
        "receivers": "['a']",
        "record": "NULL",
        "grant": "''",
    }
    for _ in range(dice.randint(1, 2)):
        usual[dice.choice(list(usual))] = (
            f"TRY_CAST({dice.choice(PARQUET_VALUES)} AS {dice.choice(PARQUET_TYPES)})"
        )
    columns = ", ".join(f'{value} AS "{name}"' for name, value in usual.items())
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {columns} FROM range({dice.choice([0, 1, 3])})) TO '{path}' (FORMAT parquet)"
        )


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A sound file for each reader, all of one session."""
    folder = tmp_path_factory.mktemp("sound")
    path = keep(hostile(5, 15).records, folder / "log.jsonl")
    (folder / "peers").mkdir()
    export_as_peers(path, folder / "peers")
    last = list(open_log(path).records)[-1]
    journal = Journal.resume(path)
    for event, detail in NOTES.items():
        journal.append([Record(journal.head.seq + 1, last.now, event, "demo", "anna", detail=detail)])
    journal.close()
    log = open_log(path)
    log.to_parquet(folder / "log.parquet")
    log.export_otlp(folder / "spans.jsonl")
    shutil.copyfile(path, folder / "references.jsonl")
    journal = Journal.resume(folder / "references.jsonl")
    for n in range(4):
        raw = json.dumps(
            {"id": f"large-{n}", "kind": "mcp/response", "payload": {"id": n, "result": ["a" * 66_000]}}
        )
        journal.append(
            [last._replace(seq=journal.head.seq + 1, event="received", verdict="accepted", raw=raw)]
        )
    journal.close()
    assert (folder / "references.jsonl").read_bytes().count(b"same-as") == 3
    chain = path.read_bytes()[-67:-3].decode()
    epoch = json.loads(next(iter(log.records)).detail)["epoch"]
    keep_head(folder / "journal.heads", epoch, KeptHead(list(log.records)[-1].now, len(log), chain), path)
    found = {file.name: file.read_bytes() for file in folder.rglob("*.*") if file.is_file()}
    return {name: found[reader.name] for name, reader in READERS.items()}


def read_all(reader: str, path: Path, beside: Path) -> None:
    """What a reader does with a file; whatever is wrong with it, a MewError says so."""
    if reader == "heads":
        with contextlib.suppress(MewError):
            str(open_log(beside).verify(heads=path))
        return
    try:
        log = open_log(path)
    except MewError as fault:
        assert_sentence(str(fault))
        return
    for verb in ("len", "iterate", "table", "filter", "diagnose", "verify", "frames"):
        try:
            VERBS[verb](log, beside)
        except MewError as fault:
            assert_sentence(str(fault))


SECONDS = [2.0, pytest.param(600.0, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]


@pytest.mark.threat(47)
@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_gives_an_answer_or_a_sentence_for_whatever_is_in_its_file(
    reader: str, seconds: float, sound: dict[str, bytes], tmp_path: Path
) -> None:
    beside = tmp_path / "beside.jsonl"
    beside.write_bytes(sound["journal"])
    path = tmp_path / READERS[reader].name
    end, number = time.monotonic() + seconds, 0
    while number < 3 or time.monotonic() < end:
        dice = random.Random(f"{reader} {number}")
        if reader == "parquet" and number % 2:
            odd_parquet(path, dice)
        else:
            path.write_bytes(mutated(sound[reader], dice, lines=READERS[reader].lines))
        try:
            read_all(reader, path, beside)
        except Exception as fault:
            raise AssertionError(f"example {number} of {reader}; keep {path} in {CORPUS}") from fault
        number += 1
    print(f"{number} examples of {reader} in {seconds:.0f} s")


@pytest.mark.threat(47)
@pytest.mark.parametrize("file", sorted(CORPUS.iterdir()), ids=lambda file: file.name)
def test_what_once_led_to_a_traceback_is_an_answer_or_a_sentence(
    file: Path, sound: dict[str, bytes], tmp_path: Path
) -> None:
    """The name of a kept file begins with that of its reader."""
    beside = tmp_path / "beside.jsonl"
    beside.write_bytes(sound["journal"])
    reader = file.name.partition(".")[0].partition("-")[0]
    path = tmp_path / READERS[reader].name
    path.write_bytes(file.read_bytes())
    read_all(reader, path, beside)


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
