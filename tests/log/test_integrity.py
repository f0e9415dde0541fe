"""A journal that somebody has edited or cut is told from one that stands as it was written, and where."""

from __future__ import annotations

import itertools
import json
import os
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.errors import JournalError
from mew_lab.log.integrity import verify_chain
from mew_lab.log.journal import Journal
from mew_lab.log.kept_heads import KeptHead, read_heads
from mew_lab.log.line import write_line
from mew_lab.log.log import open_log
from mew_lab.log.prune import prune
from mew_lab.log.reading import read_journal
from mew_lab.log.replay import CAUSED, replay
from mew_lab.space.events import Enrolled, Event, Joined, Left, Noted, Received

from .stage import START, Stage, keep, says

pytestmark = pytest.mark.threat(44)
ANYTHING = ({"kind": "*"},)
WHOLE = {"protocol": "mew/v0.4", "ts": "2026-11-22T00:00:00Z", "from": "bot"}  # passed on byte for byte


class Kept(NamedTuple):
    """A journal of several files, the places of its lines in them, and the heads that were kept meanwhile."""

    path: Path
    heads: list[KeptHead]
    files: tuple[Path, ...]


def a_stage(random: Random, events: int) -> Stage:
    stage = Stage(epoch=random.getrandbits(64), owner="ada")
    stage.play(
        Enrolled("ada", ANYTHING),
        Enrolled("bot", ({"kind": "chat"}, {"kind": "mcp/proposal"})),
        Joined("c1", "ada", "ada", "memory"),
        Joined("c2", "bot", "bot", "websocket"),
    )
    for n in range(events):
        stage.play(an_event(random, n))
    return stage.play(
        Received(says("chat", "nfc", {"text": "caf\u00e9 \u212b"}, **WHOLE), "c2"),
        Received(
            says("mcp/proposal", "p-1", {"method": "tools/call", "params": {"path": "/tmp/a"}}, **WHOLE), "c2"
        ),
        Received(says("mcp/request", "r-1", {"method": "tools/call"}, correlation_id=["p-1"]), "c1"),
        Noted("decided", "ada", '{"proposal":"p-1","decision":"approve"}'),
        Received(says("chat", "m-last", {"text": "x"}), "c2"),
    )


def an_event(random: Random, n: int) -> Event:
    return random.choice(
        [
            Received(says("chat", f"m-{n}", {"text": "caf\u00e9" * random.randrange(30)}), "c2"),
            Received(says("mcp/request", f"q-{n}", {"x": "a" * random.choice([1, 9000])}), "c2"),
            Received("{broken", "c2"),
            Noted("program", "bot", "started"),
            Joined(f"c{n + 10}", "bot", f"bot-{n}", "websocket"),
            Left(f"c{n + 9}", "gone"),
            Enrolled(f"p{n}", ANYTHING),
        ]
    )


def write(folder: Path, seed: int = 1, *, events: int = 60, rotate_at: int = 12_000) -> Kept:
    random = Random(seed)
    stage = a_stage(random, events)
    journal = Journal(folder / "j.jsonl", rotate_at=rotate_at)
    heads = []
    batch: list[Any] = []
    for record, following in zip(stage.records, [*stage.records[1:], None], strict=True):
        batch.append(record)
        if following is not None and (following.event in CAUSED or random.random() < 0.4):
            continue  # all that one event leads to is written at once, as a gateway does
        journal.append(batch)
        batch = []
        if random.random() < 0.2:
            heads.append(KeptHead(record.now, *_told(journal)))
    heads.append(KeptHead(stage.now, *_told(journal)))
    journal.close()
    assert len(journal.paths) > 2
    return Kept(folder / "j.jsonl", heads, journal.paths)


def _told(journal: Journal) -> tuple[int, str]:
    return journal.head.seq, journal.head.chain.decode()


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def rechained(lines: list[bytes], before: str) -> list[bytes]:
    """The lines with a chain that is in order, as whoever knows how it is made can make it."""
    done = []
    for line in lines:
        body = line[: line.index(b',"chain":"')] if b',"chain":"' in line else line[:-2]
        before = sha256(before.encode() + body).hexdigest()
        done.append(body + b',"chain":"' + before.encode() + b'"}\n')
    return done


def renumbered(lines: list[bytes], by: int) -> list[bytes]:
    done = []
    for line in lines:
        head, rest = line.split(b",", 1)
        done.append(b'{"seq":%d,' % (int(head[len(b'{"seq":') :]) + by) + rest)
    return done


# A kind of tampering takes the lines of a file and the place of one of them; it gives the lines that stand there
# afterwards, and by how many lines behind that place the first one that cannot be vouched for is.
Tampering = Callable[[list[bytes], int], tuple[list[bytes], int]]


def _edited(lines: list[bytes], at: int, old: bytes, new: bytes) -> tuple[list[bytes], int]:
    assert old in lines[at]
    return [*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]], 0


def _dropped(lines: list[bytes], at: int) -> tuple[list[bytes], int]:
    return [*lines[:at], *renumbered(lines[at + 1 :], -1)], 0


def _inserted(lines: list[bytes], at: int, line: bytes) -> tuple[list[bytes], int]:
    return [*lines[:at], line, *renumbered(lines[at:], 1)], 0


def _note() -> bytes:
    note = {
        "seq": 5,
        "now": "2026-11-21T22:40:02Z",
        "event": "decided",
        "space": "demo",
        "participant": "ada",
    }
    return json.dumps({**note, "detail": '{"decision":"approve"}'}).encode() + b"\n"


def _forged(lines: list[bytes], at: int) -> tuple[list[bytes], int]:
    return _inserted(lines, at, lines[at].replace(b'"space":"demo"', b'"space":"dem0"'))


TAMPERINGS: dict[str, Tampering] = {
    "a forged line, the rest numbered anew": _forged,
    "a line left out, the rest numbered anew": _dropped,
    "a line left out": lambda lines, at: ([*lines[:at], *lines[at + 1 :]], 0),
    "a decided note put in without a chain": lambda lines, at: _inserted(lines, at, _note()),
    "a decided note put in with a chain of its own": lambda lines, at: (
        [*lines[:at], *rechained([_note()], "0" * 64), *lines[at:]],
        0,
    ),
    "a decided note put in with the right chain": lambda lines, at: (
        [*lines[:at], *rechained([_note()], lines[at - 1][-67:-3].decode()), *lines[at:]],
        1,
    ),
    "two lines swapped": lambda lines, at: ([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]], 0),
    "a line twice": lambda lines, at: ([*lines[: at + 1], lines[at], *lines[at + 1 :]], 1),
    "another time": lambda lines, at: _edited(lines, at, b'"now":"2026', b'"now":"2027'),
    "another verdict": lambda lines, at: (
        _edited(lines, at, b'"verdict":"', b'"verdict":"x')
        if b'"verdict":"' in lines[at]
        else _dropped(lines, at)
    ),
    "another participant": lambda lines, at: _edited(lines, at, b'"participant":"', b'"participant":"x'),
    "a space more": lambda lines, at: _edited(lines, at, b',"event"', b', "event"'),
    "a space behind it": lambda lines, at: ([*lines[:at], lines[at][:-1] + b" \n", *lines[at + 1 :]], 0),
    "another line end": lambda lines, at: ([*lines[:at], lines[at][:-1] + b"\r\n", *lines[at + 1 :]], 0),
    "an empty line": lambda lines, at: ([*lines[:at], b"\n", *lines[at:]], 0),
    "written anew by another program": lambda lines, at: (
        [*lines[:at], json.dumps(json.loads(lines[at])).encode() + b"\n", *lines[at + 1 :]],
        0,
    ),
    "its members in another order": lambda lines, at: (
        [
            *lines[:at],
            json.dumps(dict(reversed(json.loads(lines[at]).items())), separators=(",", ":")).encode() + b"\n",
            *lines[at + 1 :],
        ],
        0,
    ),
    "another hash": lambda lines, at: (
        [*lines[:at], lines[at][:-4] + bytes([lines[at][-4] ^ 1]) + lines[at][-3:], *lines[at + 1 :]],
        0,
    ),
    "a hash in capitals": lambda lines, at: (
        [*lines[:at], lines[at][:-67] + lines[at][-67:-3].upper() + b'"}\n', *lines[at + 1 :]],
        0,
    ),
    "its hash taken off": lambda lines, at: ([*lines[:at], lines[at][:-77] + b"}\n", *lines[at + 1 :]], 0),
    "changed, and its own hash made anew": lambda lines, at: (
        [
            *lines[:at],
            *rechained(
                [lines[at].replace(b'"space":"demo"', b'"space":"dem0"')], lines[at - 1][-67:-3].decode()
            ),
            *lines[at + 1 :],
        ],
        1,
    ),
    "bytes that are no JSON": lambda lines, at: ([*lines[:at], b"garbage\n", *lines[at:]], 0),
    "the end of a line cut off": lambda lines, at: ([*lines[:at], lines[at][:40], *lines[at + 1 :]], 0),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_line_that_was_tampered_with_is_named(tmp_path: Path, name: str) -> None:
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        kept = write(folder, seed)
        assert verify_chain(kept.path, kept.heads).flaw is None
        random = Random(seed)
        file = random.choice(kept.files[:-1])
        whole = file.read_bytes()
        lines = lines_of(file)
        for at in random.sample(range(1, len(lines) - 2), 4):
            changed, behind = TAMPERINGS[name](lines, at)
            file.write_bytes(b"".join(changed))
            flaw = verify_chain(kept.path).flaw
            assert flaw is not None, (name, at)
            assert (flaw.path, flaw.line) == (file, at + 1 + behind), (name, flaw)
            assert file.name in str(flaw) and f"line {at + 1 + behind} " in str(flaw)
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"path": "/tmp/a"', b'"path": "/etc/shadow"'),
        (b"caf\\u00e9 \\u212b", b"cafe"),
        (b'decision\\":\\"approve', b'decision\\":\\"reject'),
    ],
)
def test_what_a_replay_cannot_see_the_chain_shows(tmp_path: Path, old: bytes, new: bytes) -> None:
    """Arguments of an accepted proposal and the note of a decision are input: a replay takes them as they stand."""
    kept = write(tmp_path)
    for file in kept.files:
        lines = lines_of(file)
        for at, line in enumerate(lines):
            if old in line:
                file.write_bytes(b"".join([*lines[:at], line.replace(old, new), *lines[at + 1 :]]))
                replay(kept.path)
                flaw = verify_chain(kept.path).flaw
                assert flaw is not None and (flaw.path, flaw.line) == (file, at + 1)
                return
    raise AssertionError("it stands nowhere in this journal")


def test_a_normalised_text_is_another_text(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    stage = Stage(epoch=1).play(Enrolled("ada", ANYTHING), Joined("c1", "ada", "ada", "memory"))
    raw = json.dumps({"id": "m", "kind": "chat", "payload": {"text": "caf\u00e9 \u212b"}}, ensure_ascii=False)
    journal.append(stage.play(Received(raw, "c1")).records)
    text = journal.path.read_text()
    assert verify_chain(journal.path).flaw is None and unicodedata.normalize("NFD", text) != text
    for form in ("NFC", "NFD"):
        journal.path.write_text(unicodedata.normalize(form, text))  # type: ignore[arg-type]
        flaw = verify_chain(journal.path).flaw
        assert flaw is not None and flaw.line == len(text.splitlines())


def test_a_tail_that_was_cut_is_seen_by_the_heads_alone(tmp_path: Path) -> None:
    kept = write(tmp_path)
    last = kept.files[-1]
    lines = lines_of(last)
    last.write_bytes(b"".join(lines[:-1]))
    assert verify_chain(kept.path).flaw is None
    flaw = verify_chain(kept.path, kept.heads).flaw
    assert flaw is not None and (flaw.path, flaw.line) == (last, len(lines)) and "the end" in flaw.why


def test_a_missing_file_in_the_middle_is_named(tmp_path: Path) -> None:
    kept = write(tmp_path)
    lines = lines_of(kept.files[0])
    kept.files[1].unlink()
    flaw = verify_chain(kept.path).flaw
    assert flaw is not None and (flaw.path, flaw.line) == (kept.files[0], len(lines) + 1)
    assert kept.files[2].name in flaw.why and "missing" in flaw.why


def test_missing_last_files_are_seen_by_the_heads_alone(tmp_path: Path) -> None:
    kept = write(tmp_path)
    for file in kept.files[2:]:
        file.unlink()
    assert verify_chain(kept.path).flaw is None
    flaw = verify_chain(kept.path, kept.heads).flaw
    assert flaw is not None and flaw.path == kept.files[1] and flaw.line == len(lines_of(kept.files[1])) + 1


def test_a_file_emptied_in_the_middle_is_named(tmp_path: Path) -> None:
    kept = write(tmp_path)
    kept.files[1].write_bytes(b"")
    flaw = verify_chain(kept.path, kept.heads).flaw
    assert flaw is not None and flaw.path == kept.files[0]


def test_an_emptied_journal_is_none(tmp_path: Path) -> None:
    kept = write(tmp_path)
    kept.path.write_bytes(b"")
    with pytest.raises(JournalError, match="is not a journal"):
        verify_chain(kept.path, kept.heads)


def test_a_chain_made_anew_as_a_whole_is_seen_by_the_heads_alone(tmp_path: Path) -> None:
    kept = write(tmp_path, events=10, rotate_at=6000)
    before = "0" * 64
    for nth, file in enumerate(kept.files):
        lines = lines_of(file)
        if nth == 1:
            lines[1] = lines[1].replace(b'"space":"demo"', b'"space":"dem0"')
        lines = rechained(lines, before)
        before = lines[-1][-67:-3].decode()
        file.write_bytes(b"".join(lines))
    assert verify_chain(kept.path).flaw is None
    flaw = verify_chain(kept.path, kept.heads).flaw
    assert flaw is not None and "rewritten" in flaw.why
    vouched = [one for one in kept.heads if one.chain.encode() in b"".join(map(Path.read_bytes, kept.files))]
    last = vouched[-1].seq if vouched else 0
    line = lines_of(flaw.path)[flaw.line - 1]
    assert json.loads(line)["seq"] > last


def test_files_of_two_runs_put_together_are_no_chain(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    one, other = write(tmp_path / "a", 1), write(tmp_path / "b", 2)
    one.files[1].write_bytes(other.files[1].read_bytes())
    flaw = verify_chain(one.path).flaw
    assert flaw is not None and (flaw.path, flaw.line) == (one.files[1], 1)
    one.path.write_bytes(one.path.read_bytes() + other.path.read_bytes())
    flaw = verify_chain(one.path).flaw
    assert flaw is not None and flaw.path == one.path


def unchained(lines: list[bytes]) -> list[bytes]:
    return [line[:-77] + b"}\n" for line in lines]


def test_records_without_a_chain_are_vouched_for_by_the_heads_alone(tmp_path: Path) -> None:
    kept = write(tmp_path, events=10, rotate_at=6000)
    for file in kept.files:
        file.write_bytes(b"".join(unchained(lines_of(file))))
    alone, found = verify_chain(kept.path), verify_chain(kept.path, kept.heads)
    assert str(alone) == "j.jsonl is unchained: its records carry no chain, so nothing vouches for them"
    assert (alone.intact, found.intact, found.flaw, found.kept) == (False, True, None, len(kept.heads))
    assert str(found).endswith("vouch for them")
    lines = lines_of(kept.files[-1])
    for name, change in TAMPERINGS.items():
        if "chain" in name or "hash" in name or name in ("another line end", "an empty line"):
            continue  # of a line that has a chain, or between lines
        at = len(lines) // 2
        kept.files[-1].write_bytes(b"".join(change(lines, at)[0]))
        changed = verify_chain(kept.path, kept.heads)
        assert not changed.intact and (changed.flaw is not None or changed.went_on), name


@pytest.mark.parametrize("form", ["saved.jsonl", "own.parquet"])
@pytest.mark.parametrize("keep", [None, 2, 0])
def test_a_saved_copy_is_vouched_for_as_far_as_a_head_was_kept(
    form: str, keep: int | None, tmp_path: Path
) -> None:
    """Also of a journal of several files, and of one that was pruned."""
    kept = write(tmp_path, events=30, rotate_at=8000)
    heads = kept.heads
    if keep is not None:
        pruned = prune(kept.path, keep=keep, agree=lambda _: True, heads=tuple(heads))
        assert pruned is not None and pruned.head is not None
        heads = [*heads, pruned.head]
    original = verify_chain(kept.path, heads)
    assert original.flaw is None and original.intact
    log = open_log(kept.path)
    (log.to_parquet if form.endswith("t") else log.save)(tmp_path / form)
    copy = open_log(tmp_path / form)
    assert copy.source is not None
    found = verify_chain(copy.source.paths[0], heads)
    assert (found.flaw, found.kept, found.behind) == (None, original.kept, original.behind)
    assert found.intact is (not original.behind)


# --- what is no tampering ---


def test_rotation_and_resumption_carry_the_chain_on(tmp_path: Path) -> None:
    stage = a_stage(Random(3), 40)
    path = tmp_path / "j.jsonl"
    journal = Journal(path, rotate_at=5000)
    for record in stage.records:
        journal.append([record])
        if record.seq % 7 == 3:
            head = journal.head
            journal.close()
            journal = Journal.resume(path, rotate_at=5000)
            assert journal.head == head
    journal.close()
    found = verify_chain(path)
    assert found.flaw is None and found.chained == len(stage.records) + len(journal.paths) - 1
    assert found.head.encode() == journal.head.chain


@pytest.mark.slow
def test_a_torn_tail_is_no_tampering_and_what_follows_goes_on_from_the_last_whole_line(
    tmp_path: Path,
) -> None:
    stage = a_stage(Random(5), 10)
    path = tmp_path / "j.jsonl"
    keep(stage.records, path)
    whole = path.read_bytes()
    end = whole.rfind(b"\n", 0, len(whole) - 1) + 1
    for cut in range(end, len(whole)):
        path.write_bytes(whole[:cut])
        found = verify_chain(path)
        assert found.flaw is None and found.torn == (end < cut < len(whole) - 1)
        again = Journal.resume(path)
        again.append([stage.records[-1]])
        again.close()
        assert verify_chain(path).flaw is None and not verify_chain(path).torn


def test_what_the_disk_did_not_take_leaves_the_chain_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = a_stage(Random(6), 20)
    journal = Journal(tmp_path / "j.jsonl", rotate_at=4000)
    take = os.write
    for nth, record in enumerate(stage.records):
        if nth % 3 == 1:
            monkeypatch.setattr(os, "write", lambda fd, data: take(fd, data[: len(data) // 2]))
            with pytest.raises(JournalError):
                journal.append([record])
            monkeypatch.setattr(os, "write", take)
        journal.append([record])
    assert verify_chain(journal.paths[0]).flaw is None and len(journal.paths) > 1


def test_an_old_journal_opens_replays_goes_on_and_is_said_to_be_unchained(tmp_path: Path) -> None:
    stage = a_stage(Random(7), 10)
    path = tmp_path / "old.jsonl"
    path.write_bytes(b"".join(write_line(one) for one in stage.records))
    old = verify_chain(path)
    assert old.flaw is None and not old.chained and "unchained" in str(old)
    events = replay(path).events
    journal = Journal.resume(path)
    journal.append(Stage(epoch=1).play(Noted("resumed", "", "")).records[1:])
    journal.close()
    found = verify_chain(path)
    assert found.flaw is None and (found.unchained, found.chained) == (len(stage.records), 1)
    assert "lines before the chain are unchained" in str(found)
    assert len(list(open_log(path).records)) == len(stage.records) + 1 and events


def test_what_readers_get_is_as_without_a_chain(tmp_path: Path) -> None:
    kept = write(tmp_path, events=5, rotate_at=4000)
    stage = a_stage(Random(1), 5)
    (tmp_path / "plain.jsonl").write_bytes(b"".join(write_line(one) for one in stage.records))
    plain = list(read_journal(tmp_path / "plain.jsonl"))
    mine = [one for one in open_log(kept.path).records if one.event != "opened"]
    assert [one._replace(seq=0, now=START, space="") for one in plain if one.event != "opened"] == [
        one._replace(seq=0, now=START, space="") for one in mine
    ]


def test_a_message_that_looks_like_a_chained_line_is_read_to_the_byte(tmp_path: Path) -> None:
    raw = '{"kind":"chat","id":"m","payload":{},"chain":"' + "0" * 64 + '"}'
    stage = Stage(epoch=1).play(Enrolled("ada", ANYTHING), Joined("c1", "ada", "ada", "memory"))
    stage.play(Received(raw, "c1"), Received('{"chain":"' + "0" * 64 + '"}', "c1"))
    stage.play(Noted("x", "ada", ',"chain":"' + "0" * 64 + '"}'))
    journal = Journal(tmp_path / "j.jsonl")
    journal.append(stage.records)
    assert verify_chain(journal.path).flaw is None
    raws = [one.raw for one in read_journal(journal.path)]
    assert [one.raw for one in stage.records][1:] == raws[1:]
    (tmp_path / "old.jsonl").write_bytes(b"".join(write_line(one) for one in stage.records))
    assert [one.raw for one in read_journal(tmp_path / "old.jsonl")][1:] == raws[1:]
    assert verify_chain(tmp_path / "old.jsonl").unchained == len(stage.records)


# --- the file of heads ---


def test_a_half_written_head_is_left_out(tmp_path: Path) -> None:
    file, doubts = tmp_path / "journal.heads", list[str]()
    now = datetime(2026, 11, 22, tzinfo=UTC)
    chain = "ab" * 32
    file.write_text(
        f"{now.isoformat()} {7:016x} 12 {chain}\n{now.isoformat()} {8:016x} 13 {chain} ab\n2026-11"
    )
    heads = [KeptHead(now, 12, chain, 7), KeptHead(now, 13, chain, 8, "ab")]
    assert list(read_heads(file, doubts)) == heads
    assert list(read_heads(tmp_path / "none", doubts)) == [] == doubts


HEAD = f"2026-11-22T00:00:00+00:00 {7:016x} 12 {'ab' * 32} cd\n"


@pytest.mark.threat(27)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.binary(max_size=300).map(lambda data: data.replace(b"\n", b"\0") + b"\n")
        | st.sampled_from(
            [
                "x\n",
                "\n",
                "2026-11-22T00:00:00Z 7 12 xyz\n",
                "2026 7 12\n",
                "é\n",
                "x" * 70_000 + "\n",
                HEAD.replace("2026-11-22", "0001-01-01").replace("+00", "+14"),
                HEAD.replace("12", "9" * 200),
            ]
        ).map(str.encode),
        max_size=6,
    )
)
def test_lines_that_are_no_heads_are_told_and_cost_no_other(tmp_path: Path, lines: list[bytes]) -> None:
    file, doubts = tmp_path / "journal.heads", list[str]()
    file.write_bytes(HEAD.encode().join([b"", *lines, b""]))
    heads = list(read_heads(file, doubts))
    assert len(heads) == len(lines) + 1
    assert len(doubts) == bool(lines) and all("is no time, run, record and head" in one for one in doubts)


@pytest.mark.threat(27)
@pytest.mark.slow
def test_a_file_of_heads_is_read_whole_however_long_it_is_and_rubbish_is_not(tmp_path: Path) -> None:
    file, doubts = tmp_path / "journal.heads", list[str]()
    with file.open("w") as there:
        there.writelines(itertools.repeat(HEAD * 1000, 600))
        assert there.tell() > 64 * 1024 * 1024
        there.truncate(1 << 40)  # the last line has a terabyte, and no byte of it is on the disk
    assert sum(1 for _ in read_heads(file, doubts)) == 600_000 and "a line is longer than" in doubts[0]
    file.write_text("x\n" * 5000)
    assert list(read_heads(file, doubts)) == [] and "999 more are none; the rest was not read" in doubts[1]


def test_a_file_of_heads_that_grows_while_it_is_read_is_read_as_far_as_it_was_there(tmp_path: Path) -> None:
    file, doubts, count = tmp_path / "journal.heads", list[str](), 0
    file.write_text(HEAD * 100)
    with file.open("a") as writer:
        for _ in read_heads(file, doubts):
            writer.write(HEAD * 100)
            writer.flush()
            count += 1
            assert count < 1000
    assert count == 100 and doubts == []


def test_a_pipe_or_a_folder_in_the_place_of_the_heads_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for is_named in (True, False):
        for file in (tmp_path / "pipe", tmp_path):
            doubts = list[str]()
            assert list(read_heads(file, doubts, is_named=is_named)) == []
            assert "no regular file" in doubts[0]
