"""Servers of both eras of MCP behind a bridge: those with `initialize`, and those with `server/discover` alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import PROFILES

from .conftest import Site, alive, until

FULL = Path(__file__).parent / "full_server.py"
MODERN = ("resultType", "ttlMs", "cacheScope", "io.modelcontextprotocol")


@pytest.mark.parametrize("era", ["legacy", "modern", "answering", "both"])
async def test_a_server_of_either_era_is_a_participant_like_any_other(site: Site, era: str) -> None:
    await site.bridge(["python", str(FULL), era], can=PROFILES["tool"])
    human = await site.seat("human")
    messages: list[Envelope] = []
    human.client.on_message(messages.append)

    async def ask(method: str, **params: Any) -> dict[str, Any]:
        return await human.mcp_request("git", {"method": method, "params": params})  # type: ignore[no-any-return]

    opened = await ask("initialize")
    assert opened["protocolVersion"] == "2025-11-25" and opened["instructions"] == "Ask me anything."
    assert opened["serverInfo"]["name"] == "full" and opened["serverInfo"]["version"] == "2"
    assert [tool["name"] for tool in await human.list_tools("git")][:3] == ["add", "steps", "hold"]
    assert (await human.call("git/add", {"a": 2, "b": 3})).raw == {
        "content": [{"type": "text", "text": "5"}],
        "structuredContent": {"result": 5},
        "isError": False,
    }
    assert (
        await human.call("git/shows_pages")
    ).text == "true"  # else a server lists the tools that need none
    assert (await ask("resources/read", uri="full://notes/two"))["contents"] == [
        {"uri": "full://notes/two", "mimeType": "text/plain", "text": "the note two"}
    ]
    [template] = (await ask("resources/templates/list"))["resourceTemplates"]
    assert template["uriTemplate"] == "full://notes/{name}"
    [message] = (await ask("prompts/get", name="greet", arguments={"name": "Ann"}))["messages"]
    assert message == {"role": "user", "content": {"type": "text", "text": "Greet Ann."}}
    ref, argument = {"type": "ref/prompt", "name": "greet"}, {"name": "name", "value": "An"}
    answer = await ask("completion/complete", ref=ref, argument=argument)
    assert answer["completion"]["values"] == ["An!"]
    declared = opened["capabilities"]
    assert "completions" in declared and declared["resources"]["subscribe"] is True
    assert (await human.call("git/grow")).text == "grown"
    await until(lambda: any(_method(one) == "notifications/tools/list_changed" for one in messages))
    assert "added" in {tool["name"] for tool in await human.list_tools("git")}
    for one in messages:
        assert not [word for word in MODERN if word in json.dumps(dict(one.payload))], one


async def test_a_server_that_refuses_both_ways_to_open_a_session_is_not_said_to_have_ended(
    site: Site,
) -> None:
    sentence = (
        r"it refused `initialize` \(-32601: I do not know initialize\) and refused "
        r"`server/discover` \(-32601: I do not know server/discover\)$"
    )
    with pytest.raises(MewError, match=sentence):
        await site.odd("refusing")
    await until(lambda: not alive(site.bridges[0].pid))


async def test_a_server_of_a_revision_that_is_not_known_is_refused_by_name(site: Site) -> None:
    with pytest.raises(MewError, match=r"answered `initialize` with an invalid result: .*2199-01-01"):
        await site.odd("newer")


async def test_what_a_server_declares_is_cut_to_what_is_passed_on(site: Site) -> None:
    await site.odd("boasting")
    human = await site.seat("human")
    opened = await human.mcp_request("git", {"method": "initialize"})
    assert opened["capabilities"] == {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}


async def test_content_of_a_type_that_nobody_knows_is_passed_on(site: Site) -> None:
    await site.odd()
    human = await site.seat("human")
    result = await human.call("git/future")
    assert result.raw == {
        "content": [{"type": "hologram", "size": [1, None]}, 7],
        "structuredContent": "no object",
    }


def _method(envelope: Envelope) -> Any:
    return envelope.payload.get("method")


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("rights", [PROFILES["tool"], [{"kind": "mcp/response"}]])
async def test_the_tools_that_a_bridge_knows_are_those_that_its_server_has_now(
    site: Site, era: str, rights: list[dict[str, Any]]
) -> None:
    bridge = await site.bridge(["python", str(FULL), era], can=rights)
    human = await site.seat("human")
    known = lambda: [tool.name for tool in bridge.listed.tools]  # noqa: E731
    before = known()
    await human.call("git/grow")
    await until(lambda: known() == [*before, "added"])
    assert bridge.hints_of("added") == {"readOnlyHint": True}
    await human.call("git/grow", {"name": "quiet", "says": False})
    listed = [tool["name"] for tool in await human.list_tools("git")]
    assert listed == known() == [*before, "added", "quiet"]


async def test_a_page_that_is_asked_for_takes_no_tool_away(site: Site) -> None:
    bridge = await site.odd()
    human = await site.seat("human")
    whole = bridge.listed
    assert len(whole.tools) == 5  # two pages
    for cursor in ({}, {"cursor": "3"}, {"cursor": "3"}, {}, {}):
        await human.mcp_request("git", {"method": "tools/list", "params": cursor})
        assert bridge.listed == whole
