"""A server that ends by itself is started again, up to a limit."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from mew_lab.errors import MewError, OutcomeUnknown, ToolFailed
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Site, alive, until

FULL = Path(__file__).parent / "full_server.py"


def told(human: MEWParticipant) -> list[str]:
    """Collects the sentences of the bridge from now on."""
    sentences: list[str] = []

    def note(one: Envelope) -> None:
        params = one.payload.get("params")
        if isinstance(params, dict) and params.get("logger") == "mew_lab":
            sentences.append(params["data"])

    human.client.on_message(note)
    return sentences


async def test_a_server_that_crashes_is_started_again_and_the_participant_stays(site: Site) -> None:
    bridge = await site.odd(restarts=3)
    human = await site.seat("human")
    sentences, first = told(human), bridge.pid
    waiting = human.call("git/sleep")
    answering = bridge.participant.request_server
    await until(lambda: len(answering) == 1)
    os.kill(bridge.pid, signal.SIGKILL)
    with pytest.raises(OutcomeUnknown, match="git was ended by signal 9"):
        await waiting
    await until(lambda: sentences)
    assert sentences == ["the MCP server of participant git was ended by signal 9; it was started again"]
    assert (await human.call("git/odd")).text == "as it came"
    assert bridge.pid != first and not alive(first) and alive(bridge.pid)
    assert "git" in human.client.participants and not site.ended


async def test_one_that_ends_again_and_again_leaves_with_a_sentence(site: Site) -> None:
    bridge = await site.odd(restarts=2)
    human = await site.seat("human")
    sentences = told(human)
    for times in (1, 2):
        with pytest.raises(OutcomeUnknown, match="exit 3"):
            await human.call("git/die", {"time": times})  # an equal call would be a repeat
        await until(lambda: len(sentences) == times)  # noqa: B023
    with pytest.raises(OutcomeUnknown, match="exit 3"):
        await human.call("git/die")
    await until(lambda: site.ended)
    assert "it ended 3 times within a minute, so it is not started again" in site.ended[0]
    assert "git" not in human.client.participants and not alive(bridge.pid)


async def test_one_that_does_not_start_again_leaves_with_the_reason(site: Site, tmp_path: Path) -> None:
    await site.odd("once", str(tmp_path / "flag"), restarts=2)
    human = await site.seat("human")
    with pytest.raises(OutcomeUnknown, match="exit 4"):
        await human.call("git/end")
    await until(lambda: site.ended)
    assert "it ended (exit 1): not again; it ended 3 times within a minute" in site.ended[0]
    await until(lambda: "git" not in human.client.participants)


async def test_a_call_during_the_start_is_an_error_and_stop_ends_everything(
    site: Site, tmp_path: Path
) -> None:
    bridge = await site.odd("once", str(tmp_path / "flag"), restarts=9)
    human = await site.seat("human")
    with pytest.raises(OutcomeUnknown):
        await human.call("git/end")

    async def refused() -> bool:
        try:
            await human.call("git/odd")
        except ToolFailed as fault:
            return "is being started again; ask again later" in str(fault)
        return False

    async with asyncio.timeout(20):
        while not await refused():
            pass
    await bridge.stop()
    with pytest.raises(MewError):
        await human.call("git/odd")
    assert not alive(bridge.pid) and not site.ended


async def test_subscriptions_outlive_the_server(site: Site) -> None:
    bridge = await site.bridge(["python", str(FULL), "legacy"], restarts=1)
    human = await site.seat("human")
    updates: list[Envelope] = []
    human.client.on_message(
        lambda one: (
            updates.append(one) if one.payload.get("method") == "notifications/resources/updated" else None
        )
    )
    await human.mcp_request("git", {"method": "resources/subscribe", "params": {"uri": "full://note"}})
    sentences = told(human)
    os.kill(bridge.pid, signal.SIGKILL)
    await until(lambda: sentences)
    await human.call("git/write", {"text": "after"})
    await until(lambda: updates)
    assert updates[0].to == ("human",)
