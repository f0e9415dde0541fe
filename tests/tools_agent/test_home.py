"""An agent of tools on its own: its servers, its model, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mew_lab.agent.completions import CompletionsModel
from mew_lab.agent.model import Reply
from mew_lab.bridge.mcp import McpBridge
from mew_lab.errors import ConfigError, MewError
from mew_lab.tools_agent.definition import AgentDefinition
from mew_lab.tools_agent.home import Home, model_for

from ..agent.conftest import Script, until, wants
from ..agent.llm_server import ChatServer, refused, text_answer
from ..bridge.conftest import alive
from ..bridge.test_remote import HEADERS, SECRET, answering, served
from .conftest import ASK, described

ODD = str(Path(__file__).resolve().parents[1] / "bridge" / "odd_server.py")


def odd(mode: str = "good", **more: Any) -> dict[str, Any]:
    return {"type": "stdio", "command": "python", "args": [ODD, mode], **more}


async def test_the_servers_of_the_file_run_with_their_variables_and_folder_and_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALF", "b")
    monkeypatch.setenv("NOT_NAMED", "x")
    (tmp_path / "work").mkdir()
    servers = {"My server_1": odd(env={"WHOLE": "a${HALF}c"}, cwd="work")}
    model = Script(wants("My-server-1/env"), Reply("seen"))
    async with Home(described(servers=servers), model=model, folder=tmp_path) as home:
        done = await home.agent.executor.execute("ask", {"what": "x"})
        seen = json.loads(done.calls[0][1])
        assert seen["env"]["WHOLE"] == "abc" and "NOT_NAMED" not in seen["env"]
        assert seen["cwd"] == str(tmp_path / "work")
        assert alive(seen["pid"])
    await until(lambda: not alive(seen["pid"]))
    assert not model.closed  # it was given, so it is somebody else's to close


async def test_a_server_that_dies_is_an_error_to_the_model_and_the_agent_goes_on() -> None:
    model = Script(wants("odd/die"), Reply("It is gone."), Reply("Nothing here."))
    async with Home(described(servers={"odd": odd()}), model=model) as home:
        first = await home.agent.executor.execute("ask", {"what": "x"})
        assert first.text == "It is gone." and first.calls[0][1].startswith("Outcome unknown: ")
        assert not (await home.agent.executor.execute("ask", {"what": "x"})).is_error
    assert model.offered[-1] == []


async def test_a_server_that_does_not_start_is_named_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bridges: list[McpBridge] = []

    def make_bridge(*about: Any, **how: Any) -> McpBridge:
        bridges.append(McpBridge(*about, **how))
        return bridges[-1]

    monkeypatch.setattr("mew_lab.tools_agent.home.McpBridge", make_bridge)
    home = Home(described(servers={"good": odd(), "bad": odd("exit")}), model=Script())
    with pytest.raises(MewError, match=r"bad.*No module named 'nope'"):
        await home.__aenter__()
    assert [bridge.name for bridge in bridges] == ["good", "bad"]
    assert not alive(bridges[0].pid)


async def test_servers_of_a_type_that_is_not_started_are_left_out() -> None:
    home = Home(described(servers={"inner": {"type": "internal"}, "odd": odd()}), model=Script())
    assert list(home.agent.agent.servers) == ["odd"]


@pytest.mark.threat(1)
@pytest.mark.parametrize(("kind", "transport"), [("streamable-http", "http"), ("sse", "sse"), (None, "http")])
@pytest.mark.slow
async def test_a_server_at_a_url_is_used_as_a_program_is_and_its_header_is_shown_nowhere(
    kind: str | None, transport: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MEW_TEST_SECRET", SECRET)
    async with served(transport) as (url, _):
        far = {"url": url, "headers": HEADERS} | ({"type": kind} if kind else {})
        model = Script(wants("far/add", {"a": 2, "b": 3}), Reply("Five."))
        agent = described(servers={"far": far})
        async with Home(agent, model=model) as home:
            done = await home.agent.executor.execute("ask", {"what": "x"})
            moved = described(servers={"far": {**far, "headers": {"X-Other": "1"}}})
            assert home.replace(moved) == ["mcpServers.far"]
    assert (done.text, done.calls[0].observation) == ("Five.", "5")
    assert SECRET not in caplog.text + repr(agent) + repr(home.agent)


@pytest.mark.parametrize(
    ("far", "sentence"),
    [
        (
            {"url": "https://host/x", "headers": {"A": "${NOT_SET_HERE}"}},
            r"mcpServers\.far\.headers\.A asks for",
        ),
        ({"url": "https://${NOT_SET_HERE}/x"}, r"mcpServers\.far\.url asks for the variable NOT_SET_HERE"),
        ({"url": "${A_HOST}/x"}, r"mcpServers\.far\.url: 'ftp://host/x' is no URL"),
    ],
)
def test_an_address_whose_variables_do_not_fit_is_told_with_its_place(
    far: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_HOST", "ftp://host")
    with pytest.raises(ConfigError, match=sentence):
        Home(described(servers={"far": far}), model=Script())


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (b"302 Found\r\nLocation: http://127.0.0.2:1/", "not followed"),
        (b"500 Oops\r\nContent-Type: text/plain", "HTTP 500"),
    ],
)
async def test_a_server_at_a_url_that_redirects_or_fails_is_named_in_one_line(
    head: bytes, sentence: str
) -> None:
    async with answering(head) as url:
        home = Home(described(servers={"far": {"url": url}}), model=Script())
        with pytest.raises(MewError, match=sentence) as caught:
            await home.__aenter__()
    assert "'far'" in str(caught.value) and "in-the-query" not in str(caught.value)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["streamable-http", "sse"])
@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"])
async def test_a_server_at_a_url_that_never_answers_ends_the_start_with_a_sentence(
    kind: str, begin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.tools_agent.home.McpBridge", partial(McpBridge, start_timeout=2.0))
    taken: list[asyncio.StreamWriter] = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(begin)
        await reader.read()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        home = Home(described(servers={"far": {"url": url, "type": kind}}), model=Script())
        with pytest.raises(MewError, match=r"'far'.*did not answer `initialize` within 2 s"):
            await asyncio.wait_for(home.__aenter__(), 10)
        for writer in taken:
            writer.close()
    assert taken


@pytest.mark.parametrize("mode", ["lists_text", "lists_oddly"])
async def test_a_server_whose_list_of_tools_is_malformed_does_not_end_the_agent(mode: str) -> None:
    home = Home(described(servers={"odd": odd(mode)}), model=Script())
    async with home:
        assert home.agent.initialized()["serverInfo"]["name"]


async def test_another_definition_keeps_the_servers_that_run_and_names_what_needs_a_restart() -> None:
    servers = {"kept": odd(), "moved": odd()}
    async with Home(described(servers=servers), model=Script()) as home:
        rule = {"serverToolDefaults": {"permissionRequired": False}}
        wanted = {"kept": odd() | rule, "moved": odd("other"), "new": odd()}
        later = home.replace(described({**ASK, "name": "tell"}, servers=wanted, toolPermission="tool"))
        assert later == ["mcpServers.moved", "mcpServers.new"]
        assert [tool.name for tool in home.agent.agent.tools] == ["tell"]
        assert home.agent.executor.gate("kept/env", None) == "" and home.agent.executor.gate(
            "moved/env", None
        )
        assert home.replace(described(servers=servers, model="m")) == ["settings of the model"]


async def test_another_model_than_that_of_the_file_may_be_named() -> None:
    agent = described(model="unknown:m")
    assert model_for(agent.with_model("offline")).name.startswith("offline")
    assert agent.with_model(None) is agent


def test_a_variable_that_is_not_set_is_told_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"mcpServers\.odd\.env\.KEY asks for the variable NOT_SET_HERE"):
        Home(described(servers={"odd": odd(env={"KEY": "${NOT_SET_HERE}"})}), model=Script())


async def test_names_that_meet_in_the_space_are_told_apart() -> None:
    servers = {"a b": odd(), "a_b": odd(), "Desk": odd(), "system": odd()}
    home = Home(described(servers=servers), model=Script())
    assert list(home.agent.agent.servers) == ["a-b", "a-b-2", "Desk-2", "system-2"]


@pytest.mark.parametrize(
    ("word", "how", "name"),
    [
        ("offline", {}, "offline"),
        ("openai:gpt-x", {"api_key": "k" * 20}, "gpt-x"),
        ("gpt-x", {"api_key": "k" * 20}, "gpt-x"),
        ("llama:8b", {"base_url": "http://127.0.0.1:1/v1"}, "llama:8b"),
        ("mine:small", {"base_url": "http://127.0.0.1:1/v1"}, "small"),
    ],
)
def test_the_model_is_what_the_settings_say(
    word: str, how: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    agent = described(model=word)
    made = model_for(
        AgentDefinition("A", settings=agent.settings, document={"providers": {"mine": {}}}), **how
    )
    assert name in made.name
    assert isinstance(made, CompletionsModel) == (word != "offline")


async def test_the_settings_are_wishes_that_a_server_may_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = described(model="m", maxOutputTokens="1000", temperature=0.5, topP="0.9")
    script = [text_answer("a"), refused(400, "Unsupported parameter: 'max_tokens'"), text_answer("b")]
    async with ChatServer(script) as server:
        model = model_for(agent, base_url=server.url)
        async with Home(agent, model=model) as home:
            for text in "ab":
                assert (await home.agent.executor.execute("ask", {"what": "x"})).text == text
        await model.aclose()
    keys = ("max_tokens", "temperature", "top_p")
    sent = [tuple(body.get(key) for key in keys) for body in server.bodies]
    assert sent == [(1000, 0.5, 0.9), (1000, 0.5, 0.9), (None, None, None)]


@pytest.mark.parametrize(
    ("word", "how"), [("other:m", {}), ("offline", {"base_url": "http://127.0.0.1:1/v1"})]
)
def test_a_model_that_cannot_be_had_is_told(word: str, how: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"settings\.model"):
        model_for(described(model=word), **how)
