"""A kernel is killed and its space goes on: rights, pauses, tokens, port and history, and no id comes twice."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from mew_lab.errors import JournalError, MewError, Refused, ReplayMismatch
from mew_lab.gateway import hosted_space
from mew_lab.gateway.auth import read_token_file
from mew_lab.gateway.shares import JournalLimits, Shares
from mew_lab.gateway.space_file import read_space_file
from mew_lab.lab.host import Host
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.lab.resuming import Past
from mew_lab.log.kept_heads import heads_path, keep_head_of
from mew_lab.log.log import open_log
from mew_lab.log.prune import prune
from mew_lab.log.reading import read_journal
from mew_lab.log.replay import replay

ROOT = Path(__file__).resolve().parents[2]

KERNEL = """
import mew_lab, sys
lab = mew_lab.up("demo")
boss = lab.join("boss", can="admin")
for name in ("bot", "cora", "eve"):
    lab.join(name, can=[{"kind": "chat"}])
    lab.token_file(name)
lab.chat("what was said before")
boss.send("capability/grant", {"recipient": "bot", "capabilities": [{"kind": "mcp/request"}]})
boss.send("capability/revoke", {"recipient": "eve", "capabilities": [{"kind": "chat"}]})
boss.send("space/invite", {"participant_id": "dora"})
boss.send("space/invite", {"participant_id": "zoe"})
boss.send("space/kick", {"participant_id": "zoe"})
boss.send("participant/pause", {"reason": "wait"}, to="cora")
lab.join("prop", can="proposer").propose("bot/look", {"at": 1})
lab.chat("the last word")
print(lab.url, lab.host.journal.path, len(lab.proposals().rows), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Path]:
    """The folder, address and journal of a space whose kernel was killed."""
    folder = tmp_path_factory.mktemp("killed")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MEW_LAB_")}
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment | {"PYTHONPATH": str(ROOT)},
        text=True,
    ) as kernel:
        try:
            url, path, open_proposals = kernel.stdout.readline().split()
            assert open_proposals == "1"
        finally:
            kernel.send_signal(signal.SIGKILL)
    shutil.copytree(folder, folder.with_name(f"{folder.name}-as-it-was"))
    return folder, url, Path(path)


@pytest.fixture
def killed(session: tuple[Path, str, Path], monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """Address and journal of that space in the current folder, as the kill has left it."""
    folder, url, path = session
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name(f"{folder.name}-as-it-was"), folder)
    monkeypatch.chdir(folder)
    return url, path


def secret(name: str) -> str:
    return read_token_file(Path.cwd() / ".mew" / "tokens" / "demo" / f"{name}.token").reveal()


def posted(lab: Lab, name: str, message: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Status and body for a message posted with the token that `name` had before."""
    at = lab.url.replace("ws://", "http://").removesuffix("/ws")
    headers = {"Authorization": f"Bearer {secret(name)}"}
    with httpx.Client(trust_env=False) as client:
        answer = client.post(f"{at}/participants/{name}/messages", json=message, headers=headers)
    return answer.status_code, answer.json()


def said(lab: Lab) -> list[str]:
    return [one["payload"]["text"] for one in lab.log if one.get("kind") == "chat"]


CALL = {"kind": "mcp/request", "to": ["prop"], "payload": {"method": "tools/list"}}
CHAT = {"kind": "chat", "payload": {"text": "here again"}}


def test_a_space_whose_kernel_was_killed_goes_on_as_it_was(killed: tuple[str, Path]) -> None:
    url, path = killed
    lab = up(resume=path)
    assert (lab.space, lab.me.name) == ("demo", "human")
    assert lab.url == url, "whoever reconnects finds it where it was"
    assert said(lab) == ["what was said before", "the last word"]
    assert len(lab.proposals().rows) == 0, "an approval of before is not live any more"
    assert lab.me.participant.client.participants == {}, "nobody else is here yet"

    status, body = posted(lab, "bot", CALL)
    assert status == 200, body  # what it was granted it holds
    status, body = posted(lab, "cora", CHAT)
    assert (status, body["error"]) == (409, "paused")
    status, body = posted(lab, "eve", CHAT)
    assert (status, body["error"]) == (403, "capability_violation")
    status, body = posted(lab, "dora", CHAT)
    assert status == 200, body  # the invited have a token that outlived the kernel
    status, body = posted(lab, "zoe", CHAT)
    assert status == 403, "a token that was void stays void"

    lab.join("eve", can=[{"kind": "chat"}])  # the cell that seats her is run again
    with pytest.raises(Refused):
        lab.seats["eve"].chat("what was taken from me is not given back by that")
    lab.chat("and on it goes")
    lab.save("saved.jsonl")
    assert replay("saved.jsonl").space.state.owner == "human", "what is saved replays as well"
    lab.down()
    again = replay(path)
    assert again.unwritten == ()
    ids = Counter(
        json.loads(one.raw)["id"] for one in read_journal(path) if one.raw and one.verdict != "refused"
    )
    assert ids.most_common(1)[0][1] == 1
    places = [one.seq for one in read_journal(path)]
    assert places == list(range(len(places)))
    left = [one.detail for one in read_journal(path) if one.event == "left"]
    assert left.count("the gateway was started anew") == 6
    assert list(path.parent.iterdir()) == [path], "it is one journal"


def test_an_agent_of_before_remembers_the_conversation_and_a_new_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec: SDK "Persistence": the conversation that an agent kept comes back with it, less what it was told to forget."""
    monkeypatch.chdir(tmp_path)
    lab = up("demo")
    lab.agent("helper", model="offline")
    lab.chat("this is forgotten")
    lab.join("boss", can="admin").send("participant/clear", {}, to="helper")
    lab.chat("the beans are in the north bed")
    path = lab.host.journal.path
    lab.down()
    lab = up(resume=path)
    lab.chat("said before it is back")
    seats = [lab.agent(name, model="offline") for name in ("helper", "other")]
    kept = [[one.text for one in seat.agent.conversation_history] for seat in seats]
    assert kept[0][-2:] == ["the beans are in the north bed", "said before it is back"]
    assert "this is forgotten" not in kept[0] and kept[1] == []


def test_half_a_step_that_the_kill_has_left_is_completed(killed: tuple[str, Path]) -> None:
    _, path = killed
    lines = path.read_bytes().splitlines(keepends=True)
    joined = max(n for n, line in enumerate(lines) if b'"event":"joined"' in line)
    path.write_bytes(b"".join(lines[: joined + 1]) + lines[joined + 1][:30])
    lab = up(resume=path, port=None)
    last = [one for one in lab.log.records if one.event == "joined"][-2]
    assert last.participant == "prop"
    lab.down()
    assert replay(path).unwritten == ()


def test_a_port_that_somebody_else_has_by_now_is_not_waited_for(killed: tuple[str, Path]) -> None:
    url, path = killed
    with ExitStack() as stack:
        with suppress(OSError):  # then another process has it already
            port = int(url.rpartition(":")[2].removesuffix("/ws"))
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        lab = up(resume=path)
        assert lab.url not in ("", url)
        assert posted(lab, "bot", CALL)[0] == 200


def test_a_space_goes_on_only_once_and_only_from_its_own_journal(killed: tuple[str, Path]) -> None:
    _, path = killed
    lab = up(resume=path, port=None)
    with pytest.raises(MewError, match=r"another process is writing it|a lab 'demo' is up already"):
        up(resume=path)
    lab.down()
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b"what was said before" in line)
    forged = Path.cwd() / "forged.jsonl"
    forged.write_bytes(b"".join([*lines[:at], *lines[at + 1 :]]))
    with pytest.raises(JournalError, match=rf"line {at + 1} of forged.jsonl is not vouched for"):
        up(resume=forged)
    unchained = [
        re.sub(rb',"chain":"[0-9a-f]{64}"', b"", line)
        for line in forged.read_bytes().splitlines(keepends=True)
    ]
    forged.write_bytes(b"".join(unchained))
    with pytest.raises(JournalError, match="does not follow from the lines"):
        up(resume=forged)  # its heads were kept
    heads_path(Path.cwd(), "demo").unlink()
    with pytest.raises(ReplayMismatch):
        up(resume=forged)  # a journal of before there were chains is replayed in full
    with pytest.raises(JournalError):
        up(resume=Path.cwd() / "none.jsonl")
    Past(path).journal.close()  # nothing was left locked


def test_who_starts_it_again_under_another_name_is_enrolled(killed: tuple[str, Path]) -> None:
    lab = up(resume=killed[1], as_id="second", port=None)
    lab.chat("hello")
    assert lab.me.name == "second"
    assert open_log(killed[1]).audit(lab.rows.last_seq) is not None


SETTINGS = """
space:
  id: demo
  owner: anna
  hosts: [mew.example]
  origins: ["http://localhost:8888"]
  queue_bytes: 70000
  limits: {messages_per_second: 7, burst: 209, journal_bytes: 2000000, journal_floor: 1000}
participants:
  anna: {capabilities: [{kind: "*"}]}
"""


@pytest.mark.sampled
@pytest.mark.ruling("R23", "R31")
@pytest.mark.parametrize("pruned", [False, True])
async def test_the_limits_and_names_of_a_space_yaml_hold_after_a_resume(
    tmp_path: Path, pruned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[JournalLimits] = []

    def make_shares(given: JournalLimits, *about: Any) -> Shares:
        limits.append(given)
        return Shares(given, *about)

    monkeypatch.setattr(hosted_space, "Shares", make_shares)
    (tmp_path / "space.yaml").write_text(SETTINGS)
    file = read_space_file(tmp_path / "space.yaml")
    path = tmp_path / "j.jsonl"
    first = Host("demo", folder=tmp_path, journal=path)
    await first.open_file(file)
    await first.close()
    for again in range(2):  # what was resumed is resumed once more
        if pruned:
            done = prune(path, keep=0, agree=lambda _: True)
            assert done is not None and done.head is not None
            keep_head_of(path, None, done.head)
        past = Past(path)
        assert past.config().limits == file.config.limits, again
        limits.clear()
        host = Host("demo", folder=tmp_path, journal=None, past=past)
        await host.resume(person="anna")
        try:
            assert host.gateway.queue_bytes("demo") == 70_000
            assert limits[-1].total == 2_000_000
            address = f"http://127.0.0.1:{host.url.rpartition(':')[2].removesuffix('/ws')}"
            token = host.gateway.tokens.mint("demo", "anna")
            async with httpx.AsyncClient(trust_env=False) as client:
                answers, began = 0, time.monotonic()
                bearer = {"Authorization": f"Bearer {token.reveal()}"}
                whole = True
                while whole:  # many at once: one after another may be slower than what comes back each second
                    asked = (client.get(f"{address}/participants", headers=bearer) for _ in range(30))
                    given = [answer.status_code == 200 for answer in await asyncio.gather(*asked)]
                    answers, whole = answers + sum(given), all(given)
                assert 209 <= answers <= 209 + 7 * (time.monotonic() - began) + 1, "burst, and 7 a second"
                answer = await client.get(
                    f"{address}/health", headers={"Host": "mew.example", "Origin": "http://localhost:8888"}
                )
            assert answer.status_code == 200
        finally:
            await host.close()


def test_a_space_goes_on_from_a_moment_in_a_journal_of_its_own(killed: tuple[str, Path]) -> None:
    _, path = killed
    log = open_log(path)
    revoked = next(one.seq for one in log.records if "capability/revoke" in (one.raw or ""))
    before = path.read_bytes()
    lab = up(resume=log.at(revoked - 1), port=None)
    assert lab.host is not None and lab.host.journal is not None and lab.host.core is not None
    members = lab.host.core.state.members
    assert "dora" not in members, "she was invited later"
    assert '{"kind":"chat"}' in members["eve"].rights.texts, "what was revoked later is held"
    assert '{"kind":"mcp/request"}' in members["bot"].rights.texts, "what was granted before is held"
    lab.chat("another way")
    assert path.read_bytes() == before
    new = lab.host.journal.paths[0]
    assert new != path and new.parent == path.parent
    lab.down()
    assert replay(new).unwritten == ()
    again = up(resume=new, port=None)
    assert said(again) == ["another way"]


def test_a_moment_without_a_journal_is_no_place_to_go_on_from(tmp_path: Path) -> None:
    lab = up("memory", port=None, journal=None)
    lab.chat("hi")
    moment = lab.log.at(3)
    lab.down()
    with pytest.raises(JournalError, match="its log has no journal of a gateway"):
        up(resume=moment)
