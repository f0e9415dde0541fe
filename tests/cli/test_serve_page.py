"""A space that is served with a page, on which its person decides in a browser."""

from __future__ import annotations

import asyncio
import http.client
import json
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets

from mew_lab.bridge.config_consents import AdmittedServer
from mew_lab.cli import main
from mew_lab.cli.serve import PageOptions, Service, serve, serve_again, serve_files
from mew_lab.errors import ConfigError, ConnectionLost
from mew_lab.gateway.auth import read_token_file
from mew_lab.gateway.space_file import read_space_file
from mew_lab.lab.config_bridges import ConfigBridges
from mew_lab.lab.decisions import cards
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.reviews import REVIEW
from mew_lab.sdk.tools import ToolBox
from mew_lab.views.page.control import ask_page

from ..waiting import until

SAVING = Path(__file__).parents[1] / "bridge" / "saving_server.py"
pytestmark = [pytest.mark.ruling("R38")]
SPACE = "space:\n  id: red\nparticipants:\n  ann: {type: local, capabilities: [{kind: '*'}], tokens: [a-long-token-for-ann]}\n"


@asynccontextmanager
async def served(folder: Path, how: str = "new", **changes: Any) -> AsyncIterator[list[str]]:
    """What a space with a page has printed; it is down afterwards."""
    said: list[str] = []
    ended, told = asyncio.Event(), asyncio.Event()

    def say(text: str) -> None:
        said.append(text)
        if "/ui#" in text:
            told.set()

    enrolled = [("bot", "proposer"), ("tools", "tool")]
    service = Service("127.0.0.1", 0, say, ended, enrolled, ui=PageOptions())._replace(**changes)
    if how == "new":
        work = serve("demo", service, owner="human", folder=folder)
    elif how == "file":
        (folder / "space.yaml").write_text(SPACE)
        work = serve_files([read_space_file(folder / "space.yaml")], service, person="human")
    else:
        work = serve_again(next((folder / ".mew" / "demo").glob("*.jsonl")), service)
    running = asyncio.create_task(work)
    telling = asyncio.create_task(told.wait())
    try:
        await asyncio.wait({running, telling}, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        if running.done():
            running.result()
        assert told.is_set(), said
        yield said
    finally:
        telling.cancel()
        ended.set()
        await running


def link_of(said: list[str]) -> tuple[str, int, str]:
    """The origin of the page, its port, and the code of its link."""
    [line] = [line for line in said if "/ui#" in line]
    address, _, code = line.rpartition(" ")[2].partition("/ui#")
    return address, int(address.rpartition(":")[2]), code


def sign_in(origin: str, code: str) -> str:
    connection = http.client.HTTPConnection(origin.removeprefix("http://"), timeout=20)
    headers = {"origin": origin, "content-type": "application/json"}
    connection.request("POST", "/ui/session", json.dumps({"code": code}), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return str(json.loads(text)["session"]) if answer.status == 200 else ""


async def first_card(origin: str, session: str) -> dict[str, Any]:
    """The first open card that the page gets."""
    address = origin.replace("http", "ws") + "/ui/ws"
    async with asyncio.timeout(30), websockets.connect(address, origin=origin) as ws:  # type: ignore[arg-type]
        await ws.send(json.dumps({"session": session}))
        snapshot = {"t": "snapshot", "view": "v", "from": 0}
        await ws.send(json.dumps({"part": "approvals", "message": snapshot}))
        async for text in ws:
            for item in json.loads(text).get("message", {}).get("items", ()):
                for card in [*item.get("cards", ()), *([item["card"]] if "card" in item else [])]:
                    if card["state"] == "open":
                        return dict(card)
    raise AssertionError("the socket has ended")


async def approve(origin: str, session: str) -> list[str]:
    """Approves the open card on the page, as its browser does; returns its warnings."""
    address = origin.replace("http", "ws") + "/ui/ws"
    async with asyncio.timeout(30), websockets.connect(address, origin=origin) as ws:  # type: ignore[arg-type]

        async def say(**message: Any) -> None:
            await ws.send(json.dumps({"part": "approvals", "message": message}))

        await ws.send(json.dumps({"session": session}))
        await say(t="snapshot", view="v", **{"from": 0})
        nonce, shown, warnings = "", "", list[str]()
        async for text in ws:
            for item in json.loads(text).get("message", {}).get("items", ()):
                nonce = item.get("nonce", nonce)
                for card in [*item.get("cards", ()), *([item["card"]] if "card" in item else [])]:
                    if card["state"] == "open" and not shown:
                        shown, warnings = card["id"], [one["text"] for one in card["warnings"]]
                        await say(t="seen", view="v", id=shown, digest=card["digest"])
                if item["t"] == "shown":
                    decision = {
                        "id": item["id"],
                        "digest": item["digest"],
                        "decision": "approve",
                        "nonce": nonce,
                    }
                    await say(t="decide", view="v", **decision)
                if item.get("card", {}).get("state") == "done":
                    return warnings
    raise AssertionError("the socket has ended")


@pytest.mark.parametrize("how", ["new", "file"])
async def test_a_person_decides_on_the_page_of_a_served_space(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "ARMING", 0.0)
    monkeypatch.setattr(cards, "MOST_READING", 0.0)
    async with served(tmp_path, how) as said:
        space, _, url = said[0].removeprefix("space ").partition(" at ")
        tokens = tmp_path / ".mew" / "tokens" / space
        box = ToolBox(name="tools")

        @box.add
        def double(n: int) -> int:
            """Doubles a number."""
            return 2 * n

        origin, _, code = link_of(said)
        async with (
            MEWParticipant(
                gateway=url, space=space, token=read_token_file(tokens / "tools.token"), tools=box
            ),
            MEWParticipant(gateway=url, space=space, token=read_token_file(tokens / "bot.token")) as bot,
        ):
            [journal] = (tmp_path / ".mew" / space).glob("*.jsonl")
            await until(
                lambda: "inputSchema" in journal.read_text(),
                what="the list of the tools, which the lab asks for",
            )
            call = bot.call("tools/double", {"n": 21})
            session = await asyncio.to_thread(sign_in, origin, code)
            assert session and await asyncio.to_thread(sign_in, origin, code) == "", (
                "a link is for one browser"
            )
            assert await approve(origin, session) == []
            assert (await asyncio.wait_for(call, 20)).text == "42"
    text = journal.read_text()
    assert "on_screen" in text and code not in text and session not in text
    assert (tokens / "human.token").exists(), "the tokens of a served space outlive it"
    assert main(["verify", str(journal)]) == 0


async def test_another_shell_gets_links_and_ends_the_sessions(tmp_path: Path) -> None:
    async with served(tmp_path) as said:
        origin, port, code = link_of(said)
        [kept] = (tmp_path / ".mew" / "pages").rglob("*.token")
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and kept.read_text().startswith(f"{port}.")
        another = await asyncio.to_thread(ask_page, tmp_path, "demo", "link")
        assert another.url.startswith(f"{origin}/ui#") and another.url in another.said
        assert await asyncio.to_thread(sign_in, origin, another.url.partition("#")[2])
        ended = await asyncio.to_thread(ask_page, tmp_path, "demo", "end")
        assert (ended.said, ended.url) == ("Ended 1 session of the page of demo; every link is void", "")
        assert await asyncio.to_thread(sign_in, origin, code) == ""
        secret = kept.read_text()
    assert not kept.exists()
    with pytest.raises(ConfigError, match="No page of the space 'demo' is served from"):
        ask_page(tmp_path, "demo", "link")
    kept.write_text(secret)  # as after a kill
    kept.chmod(0o600)
    with pytest.raises(ConnectionLost, match="does not answer; was its process ended"):
        ask_page(tmp_path, "demo", "end")


async def test_a_space_is_resumed_with_a_page(tmp_path: Path) -> None:
    async with served(tmp_path) as said:
        first = link_of(said)
    async with served(tmp_path, "again") as said:
        second = link_of(said)
        assert second[2] != first[2] and await asyncio.to_thread(sign_in, second[0], second[2])


@pytest.mark.ruling("R39")
async def test_the_person_of_a_page_shares_her_reviews_and_waits_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "ARMING", 0.0)
    monkeypatch.setattr(cards, "MOST_READING", 0.0)
    person = {"share_review": True, "quorum": 2, "deciders": ["human", "ann"]}
    enrolled = [("bot", "proposer"), ("tools", "tool"), ("ann", "human")]
    async with served(tmp_path, ui=PageOptions(person=person), enrolled=enrolled) as said:
        space, _, url = said[0].removeprefix("space ").partition(" at ")
        tokens = tmp_path / ".mew" / "tokens" / space
        box = ToolBox(name="tools")

        @box.add
        def double(n: int) -> int:
            """Doubles a number."""
            return 2 * n

        def member(name: str, **more: Any) -> MEWParticipant:
            return MEWParticipant(
                gateway=url, space=space, token=read_token_file(tokens / f"{name}.token"), **more
            )

        origin, _, code = link_of(said)
        async with member("tools", tools=box), member("bot") as bot, member("ann") as ann:
            call = bot.call("tools/double", {"n": 21})
            session = await asyncio.to_thread(sign_in, origin, code)
            pressed = asyncio.create_task(approve(origin, session))
            mine = await until(lambda: ann.reviews.approvals(call.id).get("human"))
            assert not call.done
            ann.telemetry.tell(None, **{REVIEW: {"open": [], "yes": {call.id: mine}}})
            assert (await asyncio.wait_for(call, 20)).text == "42"
            await pressed


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.slow
async def test_the_page_knows_the_files_of_the_servers_that_its_process_has_started(
    tmp_path: Path, marked: bool
) -> None:
    folder = tmp_path / "work" / "garden"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text("beans\n")
    writes = {"writes": {"save": ("path", "content")}} if marked else {}
    server = AdmittedServer("notes", [sys.executable, str(SAVING)], {"cwd": folder, **writes})
    told: list[str] = []
    bridges = ConfigBridges({"notes": server}, say=told.append)
    async with served(tmp_path, bridges=bridges) as said:
        space, _, url = said[0].removeprefix("space ").partition(" at ")
        token = read_token_file(tmp_path / ".mew" / "tokens" / space / "bot.token")
        origin, _, code = link_of(said)
        await until(lambda: any("notes: an MCP server with" in line for line in told))
        async with MEWParticipant(gateway=url, space=space, token=token) as bot:
            bot.propose("notes/save", {"path": "plan.txt", "content": "peas\n"})
            session = await asyncio.to_thread(sign_in, origin, code)
            card = await first_card(origin, session)
    assert card.get("file") == ({"path": "plan.txt", "why": "", "stated": ""} if marked else None)


async def test_several_spaces_have_no_page(tmp_path: Path) -> None:
    files = []
    for name in ("red", "blue"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "space.yaml").write_text(SPACE.replace("red", name))
        files.append(read_space_file(tmp_path / name / "space.yaml"))
    service = Service("127.0.0.1", 0, print, asyncio.Event(), ui=PageOptions())
    with pytest.raises(ConfigError, match="--ui is for one space, and 2 files are given"):
        await serve_files(files, service)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ui-port", "8765"], "add --ui, or leave them out"),
        (["--ui-origin", "https://a"], "add --ui, or leave them out"),
        (["--ui", "--ui-origin", "http://a"], "an origin is https:// and the name of your proxy"),
        (["--ui-end"], "No page of the space 'demo' is served from"),
        (["--ui-link", "--space", "other"], "No page of the space 'other' is served from"),
        (["--ui-end", "--resume", "x.jsonl"], "Name one space"),
    ],
)
def test_what_cannot_be_done_is_told(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", *words]) == 1
    assert said in capsys.readouterr().err
