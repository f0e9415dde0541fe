"""Heads of the journal's chain are kept beside the tokens, and tell what a chain alone cannot."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from mew_lab.cli import main
from mew_lab.errors import HeadsDiffer, JournalError, MewError
from mew_lab.lab.heads import HeadKeeper
from mew_lab.lab.labs import up
from mew_lab.lab.resuming import Past
from mew_lab.log.integrity import verify_chain
from mew_lab.log.journal import Journal
from mew_lab.log.kept_heads import KeptHead, heads_path, keep_head, keep_head_of, kept_heads
from mew_lab.log.line import NO_CHAIN
from mew_lab.log.log import open_log
from mew_lab.log.prune import prune
from mew_lab.space.events import Noted, Record

from ..waiting import until

pytestmark = pytest.mark.threat(44)


def a_session(messages: int = 5) -> tuple[Path, str]:
    """The journal of a lab that was up and is down, and the head that its owner was welcomed with."""
    lab = up("demo", port=None)
    journal = lab.host.journal.path if lab.host is not None and lab.host.journal is not None else None
    assert journal is not None
    for n in range(messages):
        lab.chat(f"message {n}")
    welcome = next(one for one in lab.log if one["kind"] == "system/welcome")
    lab.down()
    return journal, str(welcome["payload"]["journal_head"])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_lab_keeps_heads_that_a_verification_finds_again(tmp_path: Path) -> None:
    journal, welcomed = a_session()
    file = heads_path(tmp_path, "demo")
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent == tmp_path / ".mew" / "tokens" / "demo"
    heads = kept_heads(journal)
    found = verify_chain(journal, heads)
    assert found.flaw is None and found.kept == len(heads) >= 2
    assert found.behind == 0, "the last head is that of the end"
    assert welcomed in journal.read_text()


def test_a_status_shows_eight_digits(tmp_path: Path) -> None:
    lab = up("demo", port=None)
    rows = dict(lab.status().rows)
    assert rows["journal head"] == lab.host.journal.head.chain[:8].decode()
    lab.down()


def test_replay_and_audit_name_what_nothing_vouches_for(capsys: pytest.CaptureFixture[str]) -> None:
    journal, _ = a_session()
    assert main(["replay", str(journal)]) == 0
    assert "lines in one chain" in capsys.readouterr().out
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines, 1) if b"message 3" in line)
    journal.write_bytes(whole.replace(b"message 3", b"message 9"))
    for words in (
        ["replay", str(journal)],
        ["audit", str(journal), "5"],
        ["journal", "verify", str(journal)],
    ):
        with pytest.raises(SystemExit) as status:
            main(words)
        assert status.value.code == 1
        assert f"line {at} of {journal.name} is not vouched for" in capsys.readouterr().out
    journal.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(SystemExit):
        main(["journal", "verify", str(journal)])
    assert "the end of the journal is missing" in capsys.readouterr().out


def test_the_heads_of_another_place_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal, _ = a_session()
    file = heads_path(tmp_path, "demo").rename(tmp_path / "copy")
    assert main(["journal", "verify", str(journal)]) == 0
    assert "no head was kept elsewhere" in capsys.readouterr().out
    assert main(["journal", "verify", str(journal), "--heads", str(file)]) == 0
    assert "kept heads found" in capsys.readouterr().out
    assert main(["journal", "verify", str(journal), "--heads", "none"]) == 2


async def test_a_head_is_kept_each_while_and_only_when_it_changed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo", epoch=7)
    keeper = HeadKeeper(journal, tmp_path, every=0.01, fault=pytest.fail)
    from mew_lab.space.core import Space

    space = Space("demo", epoch=7)
    file = heads_path(tmp_path, "demo")

    def append() -> None:
        from datetime import UTC, datetime

        journal.append(
            [one for one in space.step(Noted("x", "", ""), datetime.now(UTC)) if hasattr(one, "seq")]
        )

    append()
    keeper.start()
    assert len(file.read_text().splitlines()) == 1
    await asyncio.sleep(0.05)
    assert len(file.read_text().splitlines()) == 1
    append()
    await until(lambda: len(file.read_text().splitlines()) == 2)
    append()
    keeper.stop()
    assert [len(line.split(" ")) for line in file.read_text().splitlines()] == [5, 5, 5]
    assert verify_chain(journal.path, kept_heads(journal.path, file)).kept == 3


async def test_a_file_that_cannot_be_written_is_told_once_and_hinders_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo", epoch=7)
    file = heads_path(tmp_path, "demo")
    file.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("")
    file.symlink_to(tmp_path / "elsewhere")
    faults: list[str] = []
    keeper = HeadKeeper(journal, tmp_path, fault=faults.append)
    keeper.start()
    keeper.keep()
    keeper.stop()
    assert len(faults) == 1 and "not kept" in faults[0]
    assert (tmp_path / "elsewhere").read_text() == ""


async def test_half_a_line_is_taken_away_and_a_readable_file_closed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo", epoch=7)
    file = heads_path(tmp_path, "demo")
    file.parent.mkdir(parents=True)
    file.write_text(f"2026-11-22T00:00:00+00:00 {7:016x} 0 {'0' * 64}\n2026-11-2")
    file.chmod(0o644)
    HeadKeeper(journal, tmp_path, fault=pytest.fail).keep()
    assert len(file.read_text().splitlines()) == 2 and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.ruling("R31")
def test_a_lab_goes_on_from_a_pruned_journal(tmp_path: Path) -> None:
    lab = up("demo")
    lab.host.journal.rotate_at = 4000
    lab.enrol("bot", "proposer")
    lab.join("boss", can="admin")
    lab.send("capability/grant", {"recipient": "bot", "capabilities": [{"kind": "chat"}]}, as_id="boss")
    for n in range(20):
        lab.chat(f"message {n} " + "a" * 200)
    journal, url = lab.host.journal.paths[0], lab.url
    state = {name: member.rights.texts for name, member in lab.host.core.state.members.items()}  # type: ignore[union-attr]
    lab.down()
    done = prune(journal, agree=lambda goes: True, heads=kept_heads(journal))
    assert done is not None and done.head is not None
    with pytest.raises(
        JournalError, match="it is a snapshot, and heads of this journal were kept, but none after it"
    ):
        Past(journal)
    keep_head_of(journal, None, done.head)
    assert len(list(journal.parent.glob("*.jsonl"))) == 2
    past = Past(journal)
    assert str(past.port) in url and past.is_enrolled("bot", past_of("proposer"))
    past.journal.close()
    again = up(resume=journal)
    try:
        assert again.url == url
        now = {name: member.rights.texts for name, member in again.host.core.state.members.items()}
        assert now == state
        again.chat("after")
    finally:
        again.down()
    assert verify_chain(journal, kept_heads(journal)).flaw is None
    assert main(["replay", str(journal)]) == 0


# --- journals that somebody else wrote, who cannot write beside the tokens ---

Lines = list[bytes]


def chained(lines: Lines, before: bytes = NO_CHAIN) -> Lines:
    """The lines with a chain in order, also where a line tells a head, as whoever knows how it is made can make it."""
    done, anew = [], dict[bytes, bytes]()
    for line in lines:
        body, _, old = line.rstrip(b"}\n").rpartition(b',"chain":"')
        body = re.sub(rb"\b[0-9a-f]{64}\b", lambda head: anew.get(head[0], head[0]), body)
        before = anew[old.rstrip(b'"')] = sha256(before + body).hexdigest().encode()
        done.append(body + b',"chain":"' + before + b'"}\n')
    return done


def cut(lines: Lines) -> Lines:
    """The lines before the right is taken back."""
    return lines[: next((n for n, line in enumerate(lines) if b"capability/revoke" in line), None)]


def altered(old: bytes, new: bytes) -> Callable[[Lines], Lines]:
    """All lines up to that one, with another text throughout, and a chain that is in order."""

    def alter(lines: Lines) -> Lines:
        assert re.search(old, b"".join(lines))
        return chained([re.sub(old, new, line) for line in cut(lines)])

    return alter


def unchained(lines: Lines) -> Lines:
    return [line[: line.rindex(b',"chain":"')] + b"}\n" for line in lines]


def another_run(lines: Lines) -> Lines:
    found = re.search(rb'\\"epoch\\":([0-9]+)', lines[0])
    lines = [line.replace(b"%016x" % int(found[1]), b"%016x" % 12345) for line in lines]
    return altered(rb'epoch\\":[0-9]+', rb'epoch\\":12345')(lines)


def of_the_past(lines: Lines) -> Lines:
    return altered(b"20[0-9]{2}(-[0-9]{2}-[0-9]{2}T)", rb"2019\1")(another_run(lines))


KEPT_ONES = "no head was kept of"
UNCHAINED = "lines? before the chain (is|are) unchained"
FORGERIES: dict[str, tuple[Callable[[Lines], Lines], int, str]] = {
    "cut": (cut, 1, "the end of the journal is missing"),
    "of another run": (another_run, 2, KEPT_ONES),
    "a text as epoch": (altered(rb'epoch\\":([0-9]+)', rb'epoch\\":\\"\1\\"'), 2, KEPT_ONES),
    "a float as epoch": (altered(rb'epoch\\":([0-9]+)', rb'epoch\\":\1.0'), 2, KEPT_ONES),
    "without an epoch": (altered(rb'\\"epoch\\":[0-9]+,', b""), 2, KEPT_ONES),
    "of another space": (altered(b'"space":"demo"', b'"space":"omed"'), 1, "is not in the chain"),
    "of no space": (altered(b'"space":"demo"', b'"space":""'), 1, "is not in the chain"),
    "of another space and run": (
        lambda lines: altered(b'"space":"demo"', b'"space":"omed"')(another_run(lines)),
        2,
        KEPT_ONES,
    ),
    "seen by a tap": (
        lambda lines: altered(rb'\\"vantage\\":\\"gateway', rb'\\"vantage\\":\\"tap')(another_run(lines)),
        2,
        KEPT_ONES,
    ),
    "of another run whose last line is dated back": (
        lambda lines: chained([*another_run(lines)[:-1], re.sub(rb'"now":"20..', b'"now":"2001', another_run(lines)[-1])]),
        2,
        KEPT_ONES,
    ),
    "without its first line": (lambda lines: chained(cut(lines)[1:]), 2, "does not open a journal"),
    "another event in front": (lambda lines: chained([lines[5], *cut(lines)]), 2, "does not open a journal"),
    "unchained lines in front": (lambda lines: [*unchained(another_run(lines))[:3], *lines], 2, UNCHAINED),
    "an unchained first line in front": (lambda lines: [*unchained(another_run(lines))[:1], *lines], 2, UNCHAINED),
    "of another run and unchained": (lambda lines: unchained(another_run(lines)), 2, KEPT_ONES),
    "unchained and cut": (lambda lines: unchained(cut(lines)), 2, "the journal went on"),
    "that begins with a blank line": (lambda lines: [b"\n", *lines], 1, ""),
}  # fmt: skip


@pytest.fixture
def revoked(tmp_path: Path) -> tuple[Path, Lines]:
    """The journal of a session in which a right was given and taken back, and its lines."""
    lab = up("demo", port=None)
    assert lab.host is not None and lab.host.journal is not None
    lab.enrol("bot", "proposer")
    lab.join("boss", can="admin")
    for kind in ("grant", "revoke"):
        rights = {"recipient": "bot", "capabilities": [{"kind": "chat"}]}
        lab.send(f"capability/{kind}", rights, as_id="boss")
    journal = lab.host.journal.path
    lab.down()
    return journal, journal.read_bytes().splitlines(keepends=True)


@pytest.mark.threat(45)
@pytest.mark.parametrize(
    "place",
    [
        "where it was",
        "beside it",
        "of another space",
        "in the lab's folder",
        "packed",
        "in a .mew within .mew",
    ],
)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_whatever_a_forged_journal_says_of_itself_the_kept_heads_are_found(
    forgery: str, place: str, revoked: tuple[Path, Lines], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal, lines = revoked
    forge, status, told = FORGERIES[forgery]
    target = {
        "where it was": journal,
        "beside it": journal.with_name("20200101T000000_000000Z.jsonl"),
        "of another space": tmp_path / ".mew" / "other" / journal.name,
        "in the lab's folder": tmp_path / "log.jsonl",
        "packed": journal.with_name("packed.jsonl.gz"),
        "in a .mew within .mew": journal.parent / ".mew" / "demo" / journal.name,
    }[place]
    target.parent.mkdir(parents=True, exist_ok=True)
    if place == "in a .mew within .mew":  # where its forger keeps heads as well
        last = forge(lines)[-1]
        own = target.parents[1] / "tokens" / "demo" / "journal.heads"
        keep_head(own, 12345, KeptHead(datetime.now(UTC), len(lines), last[-67:-3].decode()), target)
    target.write_bytes((gzip.compress if place == "packed" else bytes)(b"".join(forge(lines))))
    try:
        found = open_log(target).verify()
    except MewError as fault:
        assert not told, fault
        return
    assert (found.status(), found.ok) == (status, status == 0), str(found)
    assert re.search(told, str(found))
    if place == "packed":
        return
    with contextlib.suppress(SystemExit):
        main(["journal", "verify", str(target)])
    assert re.search(told, capsys.readouterr().out)
    before = heads_path(tmp_path, "demo").read_bytes()
    with pytest.raises(MewError) as refused:
        Past(target)
    if told and "does not open" not in told and "tap" not in forgery:
        assert isinstance(refused.value, HeadsDiffer), refused.value
        assert re.search(told, " ".join(refused.value.missing))
    assert heads_path(tmp_path, "demo").read_bytes() == before


@pytest.mark.threat(45)
def test_a_run_that_calls_itself_older_than_the_first_kept_head_is_remarked_upon(
    revoked: tuple[Path, Lines],
) -> None:
    journal, lines = revoked
    journal.write_bytes(b"".join(of_the_past(lines)))
    found = open_log(journal).verify()
    assert found.ok and "ends before the first head was kept here" in str(found)
    lab = up(resume=journal, port=None)
    assert any("by its own account" in fault for fault in lab.faults)
    lab.down()


@pytest.mark.threat(45)
def test_a_journal_of_others_is_not_suspected_for_the_name_of_its_space(
    revoked: tuple[Path, Lines], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A lab here kept heads of its own space `demo`, and the journal that came from elsewhere has that name, too."""
    _, lines = revoked
    theirs = tmp_path_factory.mktemp("theirs") / "journal.jsonl"
    theirs.write_bytes(b"".join(another_run(lines)))
    found = open_log(theirs).verify()
    assert found.ok and "no head was kept elsewhere" in str(found)
    up(resume=theirs, port=None).down()
    assert open_log(theirs).verify().integrity[0].kept
    lines = another_run(theirs.read_bytes().splitlines(keepends=True))
    for forged in lines, altered(b'"space":"demo"', b'"space":"omed"')(lines):
        theirs.write_bytes(b"".join(altered(b"12345", b"54321")(forged)))
        found = open_log(theirs).verify()
        assert found.status() == 2 and re.search(KEPT_ONES, str(found)), str(found)
        with pytest.raises(HeadsDiffer):
            up(resume=theirs, port=None)


@pytest.mark.threat(45)
def test_an_earlier_run_in_the_place_of_a_later_one_is_not_verifiable_and_elsewhere_it_is(
    tmp_path: Path,
) -> None:
    """Each line of it is genuine, and a right that was revoked since would be back."""
    earlier, _ = a_session()
    later, _ = a_session()
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(earlier.read_bytes())
    for whole in (earlier, later, copy):
        assert open_log(whole).verify().ok, str(open_log(whole).verify())
    later.write_bytes(earlier.read_bytes())
    found = open_log(later).verify()
    assert found.status() == 2 and "may be an earlier journal that was put there" in str(found)
    with pytest.raises(HeadsDiffer, match="an earlier journal that was put there"):
        up(resume=later, port=None)
    # Where a person says so, it goes on, and is the latest run of that place from then on.
    up(resume=later, port=None, heads="ignore").down()
    assert open_log(later).verify().ok


@pytest.mark.threat(45)
def test_who_says_so_goes_on_from_a_journal_for_which_no_head_vouches(revoked: tuple[Path, Lines]) -> None:
    journal, lines = revoked
    for forge in (cut, another_run):
        journal.write_bytes(b"".join(forge(lines)))
        with pytest.raises(HeadsDiffer) as differ:
            up(resume=journal, port=None)
        assert len(differ.value.missing) == 1 and differ.value.missing[0] in str(differ.value)
        lab = up(resume=journal, port=None, heads="ignore")
        assert lab.space == "demo"
        lab.down()
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"event"', b'"Event"')
    journal.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match="line 4 of") as changed:
        up(resume=journal, port=None, heads="ignore")
    assert not isinstance(changed.value, HeadsDiffer)


@pytest.mark.threat(45)
def test_a_copy_that_goes_on_beside_its_journal_is_told_and_takes_nothing_from_it(
    revoked: tuple[Path, Lines], tmp_path: Path
) -> None:
    """Both are of one run, and one lab kept heads of both. The one with the latest head is the journal that counts."""
    journal, _ = revoked
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(journal.read_bytes())
    up(resume=copy, port=None).down()
    assert open_log(copy).verify().ok
    found = open_log(journal).verify()  # it may be what was put back after the space had moved
    assert found.status() == 1 and "of a journal at another place" in str(found), str(found)
    with pytest.raises(HeadsDiffer):
        up(resume=journal, port=None)
    lab = up(resume=journal, port=None, heads="ignore")
    lab.chat("here")
    lab.down()
    found = open_log(journal).verify()
    assert found.ok and "a copy of it went on at another place, where" in str(found), str(found)
    up(resume=journal, port=None).down()
    found = open_log(copy).verify()
    assert "is a copy, and the other one went on" in str(found) and found.status() == 1
    lines = journal.read_bytes().splitlines(keepends=True)
    for forged in cut(lines), chained(altered(b'"here"', b'"hare"')(lines)):
        journal.write_bytes(b"".join(forged))
        assert open_log(journal).verify().status() == 1


def add_rubbish(tokens: Path) -> None:
    with (tokens / "demo" / "journal.heads").open("ab") as file:
        file.write(b"\x1b[2J" * 30_000 + b"\n")


def link_to_nowhere(tokens: Path) -> None:
    (tokens / "demo" / "journal.heads").unlink()
    (tokens / "demo" / "journal.heads").symlink_to("nowhere")


def link_a_folder(tokens: Path) -> None:
    shutil.rmtree(tokens / "demo")
    (tokens / "demo").symlink_to("nowhere")


def link_all_tokens(tokens: Path) -> None:
    shutil.rmtree(tokens)
    tokens.symlink_to("nowhere")


def add_a_neighbour(tokens: Path) -> None:
    (tokens / "\x1b[2J\x9b\u202e" / "journal.heads").mkdir(parents=True)


def link_in_a_neighbour(tokens: Path) -> None:
    (tokens / "neighbour").mkdir()
    (tokens / "neighbour" / "journal.heads").symlink_to("nowhere")


def open_to_all(tokens: Path) -> None:
    tokens.chmod(0o777)


@pytest.mark.threat(45)
@pytest.mark.parametrize(
    "damage",
    [
        add_rubbish,
        link_to_nowhere,
        link_a_folder,
        link_all_tokens,
        add_a_neighbour,
        link_in_a_neighbour,
        open_to_all,
    ],
)
def test_heads_that_cannot_be_read_make_a_journal_not_verifiable_and_who_says_so_goes_on(
    revoked: tuple[Path, Lines], damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """That a head spoke against the journal cannot be excluded; so a damage is no way to be rid of one."""
    journal, lines = revoked
    damage(Path.cwd() / ".mew" / "tokens")
    journal.write_bytes(b"".join(cut(lines)))
    found = open_log(journal).verify()
    assert found.status() in (1, 2) and not found.ok, str(found)
    with pytest.raises(HeadsDiffer) as differ:
        up(resume=journal, port=None)
    with pytest.raises(SystemExit):
        main(["verify", str(journal)])
    printed = "".join(capsys.readouterr()) + str(found) + str(differ.value)
    assert re.search("cannot read the heads|is no time, run, record and head", printed), printed
    assert not set(printed) & set("\x1b\x9b\u202e"), printed
    journal.write_bytes(b"".join(lines))
    assert open_log(journal).verify().status() == 2
    up(resume=journal, port=None, heads="ignore").down()


@pytest.mark.threat(45)
def test_a_space_that_goes_on_from_a_moment_has_a_head_of_its_own_from_its_first_line(
    revoked: tuple[Path, Lines],
) -> None:
    journal, _ = revoked
    lab = up(resume=open_log(journal).at(9), port=None)
    path = lab.host.journal.path
    lab.down()
    found = open_log(path).verify()
    assert found.intact and found.integrity[0].kept > 1, str(found)


def past_of(profile: str) -> list[dict[str, object]]:
    from mew_lab.lab.host import capabilities_of

    return capabilities_of(profile)


@pytest.mark.ruling("R31")
def test_prune_asks_and_shows_what_goes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lab = up("demo", port=None)
    lab.host.journal.rotate_at = 3000
    for n in range(20):
        lab.chat(f"message {n} " + "a" * 200)
    journal = lab.host.journal.paths[0]
    assert main(["journal", "prune", str(journal), "--yes"]) == 1
    assert "another process is writing it" in capsys.readouterr().err
    lab.down()
    before = sorted(journal.parent.iterdir())
    assert main(["journal", "prune", str(journal)]) == 1
    told = capsys.readouterr()
    assert "give --yes" in told.err and journal.name in told.out and "KiB" in told.out
    assert sorted(journal.parent.iterdir()) == before
    assert main(["journal", "prune", str(journal), "--keep", "2", "--yes"]) == 0
    assert "Deleted " in capsys.readouterr().out
    assert len(sorted(journal.parent.glob("*.jsonl"))) == 3
    for keep in ("1", "0"):
        assert main(["journal", "verify", str(journal)]) == 0
        told = capsys.readouterr().out
        assert "the last of" in told and "0 lines before the end" in told
        assert main(["journal", "prune", str(journal), "--keep", keep, "--yes"]) == 0
        file = heads_path(tmp_path, "demo")
        assert f"Its head is kept in {file}" in capsys.readouterr().out
        assert file.stat().st_mode & 0o777 == 0o600
    assert main(["journal", "verify", str(journal)]) == 0
    assert "0 lines before the end" in capsys.readouterr().out
    for words in (["--keep", "-1"], ["--keep", "x"]):
        with pytest.raises(SystemExit) as status:
            main(["journal", "prune", str(journal), *words])
        assert status.value.code == 2


@pytest.mark.threat(27)
@pytest.mark.parametrize("link", ["tokens", "tokens/demo"])
def test_no_head_is_kept_where_a_link_in_mew_leads(tmp_path: Path, link: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / ".mew" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "elsewhere")
    journal = Journal(tmp_path / "j.jsonl", space="demo", epoch=1)
    journal.append([Record(1, datetime.now(UTC), "noted", "demo")])
    told: list[str] = []
    HeadKeeper(journal, tmp_path, fault=told.append).keep()
    journal.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert len(told) == 1 and "is a link or no folder" in told[0]
