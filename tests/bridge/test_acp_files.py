"""An agent that speaks ACP reads and writes the files of one folder, and of no other."""

from __future__ import annotations

import json
import os
import random
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge import acp_files
from mew_lab.bridge.acp import AcpBridge
from mew_lab.bridge.acp_files import AgentFiles, describe_write
from mew_lab.errors import ConfigError
from mew_lab.lab.decisions.old_files import read_stated
from mew_lab.sdk.tools import RpcError

from ..waiting import until
from .test_acp import Shed

READ, WRITE = "fs/read_text_file", "fs/write_text_file"
SECRET = "the orchid ledger"
MISSING = -32002


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    """A folder that is given, in a folder that is not."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "ledger.txt").write_text(SECRET)
    (tmp_path / "garden" / "beds").mkdir(parents=True)
    (tmp_path / "garden" / "plan.txt").write_text("beans\npeas\n")
    (tmp_path / "garden" / ".mew").mkdir()
    (tmp_path / "garden" / ".mew" / "human.token").write_text(SECRET)
    return tmp_path / "garden"


@pytest.fixture
async def shed(tmp_path: Path, garden: Path) -> AsyncIterator[Shed]:
    made = Shed(garden)
    yield made
    await made.close()


def client(method: str, path: object = "CWD/plan.txt", **more: Any) -> str:
    return f"client {method} {json.dumps({'path': path, **more})}"


def write(content: str, path: str = "CWD/plan.txt") -> str:
    return client(WRITE, path, content=content)


def read(files: AgentFiles, path: str, **lines: Any) -> str:
    return files.read_lines(files.find(path), lines.get("line"), lines.get("limit")).content


# --- which paths ---


def _is_refused(files: AgentFiles, path: str) -> str:
    with pytest.raises(RpcError) as fault:
        read(files, path)
    assert SECRET not in fault.value.message
    assert len(fault.value.message) < 1200 and fault.value.message.isprintable()
    return fault.value.message


def test_a_file_in_the_folder_is_read_by_its_absolute_path(garden: Path) -> None:
    assert read(AgentFiles(garden), f"{garden}/plan.txt") == "beans\npeas\n"
    assert read(AgentFiles(garden), f"{garden}/beds/../plan.txt") == "beans\npeas\n"


@pytest.mark.threat(27)
def test_what_a_link_leads_to_is_read_only_where_that_is_in_the_folder(garden: Path) -> None:
    (garden / "inside").symlink_to("plan.txt")
    (garden / "outside").symlink_to("../private/ledger.txt")
    (garden / "folder").symlink_to(garden.parent / "private")
    (garden / "loop").symlink_to("loop")
    (garden / "keys").symlink_to(".mew")
    files = AgentFiles(garden)
    assert read(files, f"{garden}/inside") == "beans\npeas\n"
    for path in ("outside", "folder/ledger.txt", "loop", "loop/x", "keys/human.token"):
        _is_refused(files, f"{garden}/{path}")


@pytest.mark.threat(27)
def test_of_generated_paths_none_leads_out_of_the_folder(garden: Path) -> None:
    """Against the disk itself: what is read is a file whose real path lies in the folder, and not in `.mew`."""
    (garden / "link").symlink_to("../private")
    (garden / "back").symlink_to("beds/..")
    (garden / "beds" / "ünï ☂").write_text("leeks")
    files, rng = AgentFiles(garden), random.Random(41)
    pieces = [
        "..", ".", "", "beds", "plan.txt", "PLAN.TXT", "link", "back", ".mew", ".MEW", "human.token", "private",
        "ledger.txt", "garden", "ünï ☂", "\0", "\n", "\x1b[2J", "~", "*", "a" * 300, "\\..\\", "%2e%2e", "\ud800",
        "\u202e", "C:", "-rf", str(garden), str(garden.parent / "private"), "proc", "self", "environ",
        ".mew/human.token", ".mew/human.token",
        *["plan.txt", ".", "beds", "ünï ☂", "back", ".."] * 8,
    ]  # fmt: skip
    outcomes = {"read": 0, "refused": 0}
    for _ in range(3000):
        start = rng.choice([f"{garden}/", f"{garden}/", f"{garden}", f"{garden.parent}/", "/", "", "~/"])
        path = (
            start
            + "/".join(rng.choices(pieces, k=rng.randint(0, 5)))
            + rng.choice(["", "", "/plan.txt", "/"])
        )
        try:
            text = read(files, path)
        except RpcError as fault:
            assert fault.message.isprintable() and SECRET not in fault.message
            outcomes["refused"] += 1
            continue
        real = Path(os.path.realpath(path))
        assert real.is_relative_to(garden) and ".mew" not in real.parts and text == real.read_text()
        outcomes["read"] += 1
    assert min(outcomes.values()) > 20, outcomes


def test_a_path_as_long_as_a_book_is_refused_in_a_line(garden: Path) -> None:
    _is_refused(AgentFiles(garden), f"{garden}/{'x/' * 100_000}x")


@pytest.mark.threat(27)
def test_what_is_no_regular_file_is_not_opened(garden: Path) -> None:
    os.mkfifo(garden / "pipe")
    files = AgentFiles(garden)
    assert "no regular file" in _is_refused(files, f"{garden}/pipe")  # it would wait for a writer
    assert "a folder" in _is_refused(files, f"{garden}/beds")
    (garden / "device").symlink_to("/dev/zero")
    _is_refused(files, f"{garden}/device")


@pytest.mark.parametrize(("size", "is_read"), [(10_000_000, True), (10_000_001, False)])
def test_a_file_of_ten_megabytes_is_the_largest_that_is_read(garden: Path, size: int, is_read: bool) -> None:
    with (garden / "large").open("wb") as file:
        file.truncate(size)
    if is_read:
        assert len(read(AgentFiles(garden), f"{garden}/large")) == size
    else:
        assert "10,000,000" in _is_refused(AgentFiles(garden), f"{garden}/large")


def test_a_file_that_is_no_text_is_refused(garden: Path) -> None:
    (garden / "picture").write_bytes(b"\x89PNG\xff")
    assert "no text" in _is_refused(AgentFiles(garden), f"{garden}/picture")


def test_a_missing_file_is_told_by_the_error_of_the_protocol(garden: Path) -> None:
    files = AgentFiles(garden)
    with pytest.raises(RpcError, match="Resource not found") as fault:
        read(files, f"{garden}/nothing")
    assert fault.value.code == MISSING
    # Outside, nobody learns what there is.
    with pytest.raises(RpcError) as outside:
        read(files, f"{garden.parent}/private/nothing")
    assert outside.value.code != MISSING


def test_a_line_and_a_limit_choose_lines_as_a_slice_of_them_does(garden: Path) -> None:
    rng = random.Random(3)
    files = AgentFiles(garden)
    for text in ("", "a", "a\n", "a\r\nb\x0bc\u2028d\ne", "\n\n\n", "".join(f"{n}\n" for n in range(50))):
        (garden / "lines").write_bytes(text.encode())
        lines = [f"{one}\n" for one in text.split("\n")[:-1]] + [one for one in [text.split("\n")[-1]] if one]
        for _ in range(50):
            line, limit = rng.choice([None, 0, 1, 2, 7, 10**12]), rng.choice([None, 0, 1, 3, 10**12])
            first = (line or 1) - 1
            expected = "".join(lines[first:][: len(lines) if limit is None else limit])
            assert read(files, f"{garden}/lines", line=line, limit=limit) == expected


@pytest.mark.parametrize("root", ["nothing", "plan.txt", "a\0b"])
def test_a_folder_that_is_none_is_told(garden: Path, root: str) -> None:
    with pytest.raises(ConfigError, match="files="):
        AgentFiles(garden / root)


def test_the_whole_disk_is_not_given() -> None:
    with pytest.raises(ConfigError, match="whole disk"):
        AgentFiles("/")


@pytest.mark.threat(27)
def test_a_folder_that_was_put_in_the_place_of_the_given_one_is_not_read(garden: Path) -> None:
    files = AgentFiles(garden)
    garden.rename(garden.parent / "old")
    (garden.parent / "private").rename(garden)
    _is_refused(files, f"{garden}/ledger.txt")


@pytest.fixture
def swapping(garden: Path) -> Iterator[Path]:
    """A name in the folder that another program makes a folder and a link to one outside, without end."""
    place, away, link = garden / "bed", garden / "away", garden / "link"
    place.mkdir()
    (place / "ledger.txt").write_text("inside")
    link.symlink_to("../private")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            place.rename(away)
            link.rename(place)
            place.rename(link)
            away.rename(place)

    thread = threading.Thread(target=swap)
    thread.start()
    yield place
    over.set()
    thread.join()


@pytest.mark.threat(27)
def test_a_link_that_is_put_in_the_way_after_the_look_leads_nowhere(garden: Path, swapping: Path) -> None:
    files = AgentFiles(garden)
    inside = 0
    for n in range(3000):
        path = f"{swapping}/ledger.txt"
        try:
            found = files.find(path)
            inside += 1
            assert read(files, path).startswith("inside")
            plan = files.plan_write(found, f"inside {n}")
            files.write(plan)
            files.write(files.plan_write(found, "inside"))
        except RpcError:
            continue
    assert inside > 100
    assert (garden.parent / "private" / "ledger.txt").read_text() == SECRET


# --- a write ---


def test_a_write_replaces_the_file_at_once_and_keeps_its_mode(garden: Path) -> None:
    files, path = AgentFiles(garden), garden / "plan.txt"
    path.chmod(0o640)
    with path.open() as before:
        files.write(files.plan_write(files.find(str(path)), "leeks\n"))
        assert before.read() == "beans\npeas\n"  # the old file is whole
    assert path.read_text() == "leeks\n" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(one.name for one in garden.iterdir()) == [".mew", "beds", "plan.txt"]


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_changed_since_the_look_is_not_written(garden: Path, there: bool) -> None:
    files, path = AgentFiles(garden), garden / ("plan.txt" if there else "new.txt")
    plan = files.plan_write(files.find(str(path)), "leeks\n")
    path.write_text("of somebody else\n")
    with pytest.raises(RpcError, match="after it was shown"):
        files.write(plan)
    assert path.read_text() == "of somebody else\n"
    path.unlink()
    if there:
        with pytest.raises(RpcError, match="was removed"):
            files.write(plan)
        assert not path.exists()


def test_what_a_write_shows_is_the_change_and_nothing_of_the_rest(garden: Path) -> None:
    """Applied to the old file, it gives the new one; a secret in a removed line is not shown."""
    rng, files, path = random.Random(5), AgentFiles(garden), garden / "code"
    for _ in range(300):
        old = [f"line {rng.randint(0, 9)}{rng.choice(['', ' x'])}\n" for _ in range(rng.randint(0, 40))]
        new = list(old)
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, len(new))
            new[at : at + rng.randint(0, 3)] = [f"new {rng.randint(0, 9)}\n"] * rng.randint(0, 2)
        if rng.random() < 0.3 and new:
            new[-1] = new[-1].removesuffix("\n")
        path.write_text("".join(old))
        plan = files.plan_write(files.find(str(path)), "".join(new))
        shown = describe_write(plan, garden)
        [change] = shown["content"]
        before, _, after = shown.get("unchanged", "0 lines before and 0 lines after").partition(" and ")
        first, last = int(before.split()[0]), int(after.split()[0])
        text = "".join(old)
        lines = text.splitlines(keepends=True)
        assert change["oldText"] == "".join(lines[first : len(lines) - last])
        assert "".join(lines[:first]) + change["newText"] + "".join(lines[len(lines) - last :]) == "".join(
            new
        )
    path.write_text("password = correct-horse-battery\nbeans\n")
    shown = describe_write(files.plan_write(files.find(str(path)), "beans\n"), garden)
    assert "correct-horse" not in json.dumps(shown)


# --- in a space ---


async def test_files_are_not_offered_unless_a_folder_is_given(shed: Shed) -> None:
    await shed.open()
    assert await shed.ask("fs") == "False False"
    assert json.loads(await shed.ask(client(READ)))["code"] == -32601
    await shed.add(name="gardener", files=shed.folder)
    assert await shed.ask("fs", name="gardener") == "True True"


def test_an_agent_that_writes_files_itself_all_the_same_is_given_no_folder(garden: Path) -> None:
    with pytest.raises(ConfigError, match="writes its files itself"):
        AcpBridge("coder", "opencode", files=garden)
    AcpBridge("coder", "gemini", files=garden)


async def test_a_read_is_on_record_without_its_content(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    answer = json.loads(await shed.ask(client(READ, line=2, limit=1)))
    assert answer == {"content": "peas\n"}
    [told] = [one.payload for one in shed.told("reasoning/thought") if "file_read" in one.payload]
    assert told["file_read"] == {"path": "plan.txt", "first_line": 2, "lines": 1, "bytes": 11}
    assert told["message"] == "Read plan.txt: lines 2 to 2, of 11 bytes"
    everything = [one for one in shed.sent("", sender="coder") if one.kind != "chat"]
    assert not any("peas" in str(one.payload) for one in everything)


async def test_a_path_that_leaves_the_folder_is_refused_in_a_sentence_and_the_space_goes_on(
    shed: Shed,
) -> None:
    await shed.open(files=shed.folder)
    for path in (
        "CWD/../private/ledger.txt",
        "CWD/.mew/human.token",
        "plan.txt",
        "/etc/passwd\u202e",
        7,
        None,
    ):
        answer = await shed.ask(client(READ, path))
        assert "error" in json.loads(answer) and SECRET not in answer
    assert json.loads(await shed.ask(client(READ, "CWD/none")))["code"] == MISSING
    told = [one.payload["message"] for one in shed.told("reasoning/thought")]
    assert any(one.startswith("Not read: ") and "is not in the folder" in one for one in told)
    assert all(one.isprintable() for one in told)
    assert json.loads(await shed.ask(client(READ)))["content"] == "beans\npeas\n"


async def test_a_write_is_a_question_with_its_difference_and_is_executed_after_it(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    asked = shed.human.ask(write("beans\nleeks\n"), "coder")
    card = await shed.card()
    arguments = card.payload["params"]["arguments"]
    assert card.to == ("coder",) and card.tool == "permission"
    assert arguments["question"] == "Write plan.txt inside garden/?"
    assert [(one["name"], one["kind"]) for one in arguments["options"]] == [
        ("Write", "allow_once"), ("Reject", "reject_once"),
    ]  # fmt: skip
    [change] = read_stated(card)
    assert (change.old, change.new, change.is_whole) == ("beans\npeas\n", "beans\nleeks\n", True)
    assert (shed.folder / "plan.txt").read_text() == "beans\npeas\n"
    await shed.human.approve(card.id)
    assert json.loads(str(await asked)) == {}
    assert (shed.folder / "plan.txt").read_text() == "beans\nleeks\n"
    [told] = [one.payload for one in shed.told("reasoning/thought") if "file_written" in one.payload]
    assert told["file_written"]["path"] == "plan.txt" and "as human decided" in told["message"]


async def test_a_write_that_is_rejected_is_not_executed(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    for decide in ("reject", "option"):
        asked = shed.human.ask(write("leeks\n", "CWD/new.txt"), "coder")
        card = await shed.card()
        assert card.payload["params"]["arguments"]["question"] == "Make new.txt inside garden/?"
        if decide == "reject":
            await shed.human.reject(card.id, "not there")
        else:
            await shed.human.approve(card.id, option="reject")
        answer = json.loads(str(await asked))
        assert "Not written: new.txt" in answer["error"] and answer["code"] != MISSING
        assert not (shed.folder / "new.txt").exists()


async def test_a_file_that_changes_under_its_card_is_not_written_and_both_are_told(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    asked = shed.human.ask(write("leeks\n"), "coder")
    card = await shed.card()
    (shed.folder / "plan.txt").write_text("of somebody else\n")
    await shed.human.approve(card.id)
    await until(lambda: shed.human.proposals.get(card.id).failed)
    assert "was changed after it was shown" in json.loads(str(await asked))["error"]
    assert (shed.folder / "plan.txt").read_text() == "of somebody else\n"
    again = shed.human.ask(write("leeks\n"), "coder")
    card = await shed.card()
    assert read_stated(card)[0].old == "of somebody else\n"
    await shed.human.approve(card.id)
    assert json.loads(str(await again)) == {}


async def test_a_write_of_a_cancelled_turn_is_withdrawn_and_nothing_is_read_after_it(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    chat = await shed.human.chat("\n".join([write("leeks\n"), client(READ)]), "coder")
    card = await shed.card()
    await shed.human.cancel_chat(chat.id)
    await until(lambda: shed.human.proposals.get(card.id).state == "withdrawn")
    await until(lambda: not shed.bridge.busy)
    outcomes = [json.loads(one) if isinstance(one, str) else one for one in shed.outcomes()]
    assert outcomes and all("error" in one for one in outcomes)
    assert (shed.folder / "plan.txt").read_text() == "beans\npeas\n"
    assert not any("file_read" in one.payload for one in shed.told("reasoning/thought"))


async def test_another_session_reads_nothing(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    answer = json.loads(await shed.ask(client(READ, sessionId="other")))
    assert "session" in answer["error"]


async def test_a_flood_of_requests_is_bounded_and_each_read_is_on_record(
    shed: Shed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_files, "MAX_READS", 50)
    await shed.open(files=shed.folder)
    flood = f"together 200 {READ} {json.dumps({'path': 'CWD/plan.txt'})}"
    told: dict[str, int] = json.loads(await shed.ask(flood))
    assert sum(told.values()) == 200 and told['{"content": "beans\\npeas\\n"}'] == 50
    reads = [one for one in shed.told("reasoning/thought") if "file_read" in one.payload]
    assert len(reads) == 50
    assert json.loads(await shed.ask(client(READ)))["content"]


async def test_of_many_writes_at_once_each_is_a_question_up_to_a_bound(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    asked = shed.human.ask(f"together 40 {WRITE} " + json.dumps({"path": "CWD/x", "content": "x"}), "coder")
    cards = await until(lambda: len(found := shed.human.proposals.open()) == 32 and list(found), what="cards")
    await shed.human.approve(cards[0].id)
    await until(lambda: (shed.folder / "x").exists())
    for card in cards[1:]:
        await shed.human.reject(card.id, "once is enough")
    told: dict[str, int] = json.loads(str(await asked))
    assert told["{}"] == 1 and sum(told.values()) == 40
    assert any("wait already" in one for one in told)


async def test_a_write_of_what_no_card_can_show_is_refused(shed: Shed) -> None:
    (shed.folder / "plan.txt").write_text("x" * 500_000)
    await shed.open(files=shed.folder)
    assert "too large to be shown" in json.loads(await shed.ask(write("beans\n")))["error"]
    for content in (7, None, "\ud800"):
        assert "error" in json.loads(await shed.ask(client(WRITE, content=content)))
    assert "no text" not in await shed.ask(client(READ, line=1, limit=0))


@pytest.mark.threat(28)
async def test_hostile_names_and_content_are_shown_by_their_escapes(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    name = "a\x1b]0;b\x07\u202egnp.txt"
    asked = shed.human.ask(write("\x1b[2J<script>\u202e\n", f"CWD/{name}"), "coder")
    card = await shed.card()
    assert card.payload["params"]["arguments"]["question"].isprintable()
    await shed.human.approve(card.id)
    await asked
    assert (shed.folder / name).read_text() == "\x1b[2J<script>\u202e\n"
    assert all(one.payload["message"].isprintable() for one in shed.told("reasoning/thought"))


async def test_two_requests_under_one_id_read_and_write_nothing(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    params = {"sessionId": "SESSION", "path": str(shed.folder / "plan.txt"), "content": "leeks\n"}
    line = json.dumps({"jsonrpc": "2.0", "id": 900, "method": WRITE, "params": params})
    await shed.ask(f"raw {line}\\n{line}", "say done")
    assert not shed.human.proposals.open()
    assert (shed.folder / "plan.txt").read_text() == "beans\npeas\n"


async def test_a_bridge_that_stops_withdraws_its_write(shed: Shed) -> None:
    await shed.open(files=shed.folder)
    await shed.human.chat(write("leeks\n"), "coder")
    card = await shed.card()
    await shed.bridge.stop()
    await until(lambda: shed.human.proposals.get(card.id).state == "withdrawn")
    assert (shed.folder / "plan.txt").read_text() == "beans\npeas\n"
