"""A space that runs here: who owns it, whose tokens open it, what is left in its folder, and ids that follow a seed."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.cli import build_parser
from mew_lab.errors import ConfigError
from mew_lab.gateway.auth import read_token_file
from mew_lab.gateway.space_file import read_space_file
from mew_lab.lab.host import Host, join_line, make_generators
from mew_lab.lab.labs import labs, up
from mew_lab.lab.resuming import Past
from mew_lab.log.reading import read_journal
from mew_lab.protocol.filename import is_space_id
from mew_lab.sdk.client import MEWClient

from .looking import eventually

SPACE = """
space: {id: office, default_participant: boss}
participants:
  boss: {capabilities: [{kind: "*"}]}
  bot: {capabilities: [{kind: chat}], tokens: [bot-token-of-the-file]}
  deputy: {capabilities: [{kind: "*"}]}
"""


def a_file(folder: Path, text: str = SPACE) -> Path:
    path = folder / "space.yaml"
    path.write_text(text)
    return path


async def opened(folder: Path, text: str = SPACE, *, person: str | None = None) -> Host:
    file = read_space_file(a_file(folder, text), environ={})
    host = Host("office", folder=folder, journal=folder / "j.jsonl")
    await host.open_file(file, person=person)
    return host


def test_up_takes_a_file_and_seats_its_default_participant(tmp_path: Path) -> None:
    lab = up(a_file(tmp_path))
    assert (lab.name, lab.me.name, list(labs())) == ("office", "boss", ["office"])
    assert lab.url.startswith("ws://127.0.0.1:")
    assert lab.token_file("bot").read_text() != ""
    boss = lab.token_file()
    lab.down()
    assert boss.is_file()  # the file's own tokens last; what a lab mints for itself does not


@pytest.mark.parametrize("name", ["space.yaml", "./space.yaml"])
def test_up_takes_a_path_as_text_as_well_and_a_person_of_its_own(tmp_path: Path, name: str) -> None:
    a_file(tmp_path)
    lab = up(name, as_id="guest")
    assert lab.me.name == "guest"
    assert lab.me.participant.client.capabilities.permit("mcp/request", to=("x",), payload={}).allowed
    lab.down()


def test_every_fault_of_the_file_is_in_the_error_of_up(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has 2 faults") as caught:
        up(a_file(tmp_path, "space: {idd: x}"))
    assert caught.value.path == str(tmp_path / "space.yaml")
    assert labs() == {}


def test_up_runs_the_programs_of_the_file_and_down_ends_them(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(1000)\n")
    more = "  run: {command: python, args: [bot.py], auto_start: true}\n"
    lab = up(a_file(tmp_path, SPACE + more), timeout=30)
    told = [one.detail for one in read_journal(journal_of(tmp_path)) if one.event == "program"]
    assert told == [f"starting {sys.executable} bot.py"]
    lab.down()
    again = up(a_file(tmp_path, SPACE + more), auto_start=False, journal=tmp_path / "second.jsonl")
    again.down()
    assert "program" not in [one.event for one in read_journal(tmp_path / "second.jsonl")]


def journal_of(folder: Path) -> Path:
    (path,) = (folder / ".mew" / "office").glob("*.jsonl")
    return path


def test_what_goes_wrong_with_a_program_stands_in_the_status_of_the_lab(tmp_path: Path) -> None:
    lab = up(a_file(tmp_path, SPACE + "  run: {command: no-such-program, auto_start: true}\n"), timeout=30)

    assert eventually(lambda: lab.faults)[0].startswith(
        "run: cannot be started: no-such-program: No such file or directory"
    )


@pytest.mark.req("P-8.1-3")
async def test_each_token_of_the_file_is_the_participants(tmp_path: Path) -> None:
    host = await opened(tmp_path)
    try:
        assert host.gateway.tokens.participant_of("office", "bot-token-of-the-file") == "bot"
        assert host.gateway.tokens.participant_of("office", read_token_file(host.token_file("bot"))) == "bot"
        client = MEWClient(host.url, space="office", token=read_token_file(host.token_file("boss")))
        await client.connect()
        assert client.id == "boss"
        await client.disconnect()
    finally:
        await host.close()


@pytest.mark.parametrize(
    ("text", "person", "owner"),
    [
        (SPACE, None, set()),
        (SPACE, "boss", {"boss"}),
        (SPACE.replace("id: office", "id: office, owner: bot"), "boss", {"bot"}),
    ],
)
async def test_the_file_names_the_owner_else_it_is_who_runs_it(
    tmp_path: Path, text: str, person: str | None, owner: set[str]
) -> None:
    host = await opened(tmp_path, text, person=person)
    try:
        kept = set()
        for name in ("boss", "bot"):
            kick = {"kind": "space/kick", "payload": {"participant_id": name}}
            if host.gateway.post("office", "deputy", json.dumps(kick)).body.get("error") == "owner_protected":
                kept.add(name)
        assert kept == owner
    finally:
        await host.close()


async def test_a_person_that_cannot_be_named_so_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be a participant id"):
        await opened(tmp_path, person="a b")
    (tmp_path / "other").mkdir()
    with pytest.raises(
        ConfigError, match="'BOSS' cannot be enrolled: the name belongs to participant 'boss'"
    ):
        await opened(tmp_path / "other", person="BOSS")


async def test_hosts_origins_and_limits_of_the_file_are_the_ports(tmp_path: Path) -> None:
    settings = "id: office, hosts: [box.local], origins: ['http://localhost:8888'], limits: {grants: 0}"
    host = await opened(tmp_path, SPACE.replace("id: office", settings))
    try:
        port = int(host.url.split(":")[2].split("/")[0])
        asked = {"box.local": 200, "evil.test": 421}
        for name, status in asked.items():
            assert await status_of(port, f"Host: {name}") == status
        for page, status in {"http://localhost:8888": 200, "http://evil.test": 403}.items():
            assert await status_of(port, f"Host: localhost:{port}\r\nOrigin: {page}") == status
        payload = {"recipient": "bot", "capabilities": [{"kind": "chat/*"}]}
        grant = json.dumps({"kind": "capability/grant", "payload": payload})
        assert host.gateway.post("office", "boss", grant).body["error"] == "limit_exceeded"
    finally:
        await host.close()


async def status_of(port: int, headers: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /health HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ")[1])


@pytest.mark.parametrize(
    ("switches", "names"),
    [
        ("", {"envelope-history.jsonl", "capability-decisions.jsonl"}),
        ("gateway_logging: {envelope_history: {enabled: false}}", {"capability-decisions.jsonl"}),
        ("gateway_logging: {enabled: false}", set()),
        (
            "gateway_logging: {envelope_history: {enabled: false}, capability_decisions: {enabled: false}}",
            set(),
        ),
    ],
)
async def test_the_peers_logs_are_written_beside_ours_as_far_as_they_are_wanted(
    tmp_path: Path, switches: str, names: set[str]
) -> None:
    host = await opened(tmp_path, SPACE + switches)
    reply = host.gateway.post("office", "bot", '{"id":"m1","kind":"chat","payload":{"text":"hi"}}')
    await host.close()
    assert reply.status == 200
    logs = tmp_path / "logs"
    assert {path.name for path in logs.iterdir()} == names | {".peer-files"} if names else not logs.exists()
    for name in names:
        (record,) = read_journal(logs / name)
        assert (record.space, record.participant) == ("office", "bot")


@pytest.mark.parametrize(
    "switches", ["gateway_logging: {}", "gateway_logging: {envelope_history: {enabled: true}}"]
)
async def test_the_peers_logs_are_refused_where_there_is_no_journal_to_make_them_from(
    tmp_path: Path, switches: str
) -> None:
    file = read_space_file(a_file(tmp_path, SPACE + switches), environ={})
    host = Host("office", folder=tmp_path, journal=None, port=None)
    with pytest.raises(
        ConfigError, match=r"made from the journal.* give it a journal, or set gateway_logging"
    ) as caught:
        await host.open_file(file)
    assert (caught.value.key, caught.value.path) == ("gateway_logging", str(tmp_path / "space.yaml"))
    assert not (tmp_path / "logs").exists() and host.gateway.spaces == ()


async def test_nobody_asked_for_the_peers_logs_and_there_is_no_journal(tmp_path: Path) -> None:
    faults: list[str] = []
    for switches, told in (("", 1), ("gateway_logging: {enabled: false}", 0)):
        file = read_space_file(a_file(tmp_path, SPACE + switches), environ={})
        host = Host("office", folder=tmp_path, journal=None, port=None)
        await host.open_file(file, fault=faults.append)
        await host.close()
        assert len(faults) == told
        faults.clear()
    assert not (tmp_path / "logs").exists()


async def test_a_space_in_memory_says_that_its_programs_cannot_run(tmp_path: Path) -> None:
    text = SPACE + "  run: {command: x, auto_start: true}\n"
    file = read_space_file(a_file(tmp_path, text), environ={})
    host = Host("office", folder=tmp_path, journal=None, port=None)
    faults: list[str] = []
    await host.open_file(file, fault=lambda sentence: None)
    await host.start_programs(file, tell=faults.append, fault=faults.append)
    await host.close()
    assert faults == ["no program is started: this space is in memory only, where no program can reach it"]


@pytest.mark.ruling("R27")
@given(st.text(min_size=1, max_size=128).filter(is_space_id), st.sampled_from(["/tmp/x.token", "-x", "a b"]))
def test_a_join_line_is_read_as_it_was_meant_for_any_name_of_a_space(space: str, file: str) -> None:
    words = shlex.split(join_line("ws://127.0.0.1:1/ws", space=space, token_file=file))
    options = build_parser().parse_args(words[1:])
    assert (options.space, str(options.token_file)) == (space, str(Path(file)))


def test_a_seed_gives_the_same_times_and_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEW_LAB_SEED", "7")
    first, again, other = make_generators("bot"), make_generators("bot"), make_generators("git")
    assert [first.new_id(), first.new_id()] == [again.new_id(), again.new_id()]
    assert first.new_epoch() == again.new_epoch() != other.new_epoch()
    assert other.new_id() != make_generators("bot").new_id()
    times = [first.clock() for _ in range(3)]
    assert times == [again.clock() for _ in range(3)]
    assert times[2] - times[0] == timedelta(milliseconds=2)


def test_without_a_seed_nothing_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEW_LAB_SEED", raising=False)
    one = make_generators("bot")
    assert one.new_id() != one.new_id() and one.new_epoch() != make_generators("bot").new_epoch()
    assert abs(one.clock() - datetime.now(UTC)) < timedelta(minutes=1)


# --- remarks at the start ---


@pytest.mark.threat(1)
def test_a_lab_says_at_its_start_which_tokens_could_be_guessed(tmp_path: Path) -> None:
    text = "space: {id: desk}\nparticipants: {human: {}, bot: {tokens: [x]}, eve: {}}\n"
    (tmp_path / "space.yaml").write_text(text)
    (tmp_path / "tokens").mkdir()
    kept = tmp_path / "tokens" / "eve.token"
    kept.write_text("z9")
    kept.chmod(0o600)
    lab = up(str(tmp_path / "space.yaml"))
    assert len([text for text in lab.faults if "fewer than 16 characters" in text]) == 2
    assert "participants.bot.tokens[0]" in lab.faults[0] and "eve.token" in lab.faults[1]
    assert not any("z9" in text for text in lab.faults)


@pytest.mark.parametrize("year", [1999, 2126])
def test_a_clock_that_is_hardly_right_is_remarked(
    tmp_path: Path, year: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Host("desk", folder=tmp_path, journal=None)
    assert there.remarks() == []
    wrong = datetime(year, 11, 28, tzinfo=UTC)
    generators = make_generators("x")._replace(clock=lambda: wrong)
    monkeypatch.setattr("mew_lab.lab.host.make_generators", lambda owner: generators)
    [told] = Host("desk", folder=tmp_path, journal=None).remarks()
    assert told.startswith(f"the clock of this machine says {year}-11-28") and "Set the clock" in told


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=36_500)])
def test_a_journal_from_the_future_is_remarked_with_the_way_back(tmp_path: Path, ahead: timedelta) -> None:
    lab = up("office")
    path = journal_of(tmp_path)
    lab.down()
    now = datetime.now(UTC)
    past = Past(path)
    past.journal.close()
    past.since = now + ahead
    told = Host("office", folder=tmp_path, journal=None, past=past).remarks()
    assert len(told) == (1 if ahead.days else 0)
    assert not told or ("which this machine's clock has not reached" in told[0] and "resume=" in told[0])
