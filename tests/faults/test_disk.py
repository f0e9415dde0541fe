"""A full disk: what cannot be written down is refused, what was delivered is written down, and it goes on after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mew_lab.log.reading import read_journal
from mew_lab.transport.link import LinkClosed
from mew_lab.transport.websocket import connect

from .conftest import Ear, Serve, chat, until


def refused(ear: Ear) -> list[str]:
    return [
        one["correlation_id"][0]
        for one in ear.hear("system/error")
        if one["payload"]["error"] == "journal_unavailable"
    ]


@pytest.mark.threat(9)
async def test_on_a_full_disk_nothing_is_lost_and_nothing_goes_out_unwritten(serve: Serve) -> None:
    served = await serve("ada", "bob")
    ada, bob = await served.join("ada"), await served.join("bob")
    ada.say(*(chat(n, sender="ada") for n in range(20)))
    await until(lambda: len(bob.hear("chat")) == 20)
    room = 1500  # bytes, for some of the next messages and not for all
    served.limit_files(served.journal.stat().st_size + room)
    ada.say(*(chat(n, sender="ada") for n in range(20, 60)))
    await until(lambda: len(ada.hear("chat")) + len(refused(ada)) == 60)
    assert 0 < len(refused(ada)) < 40
    served.limit_files(None)
    ada.say(chat(60, sender="ada"))
    await until(lambda: bob.hear("chat")[-1]["payload"]["n"] == 60)
    delivered = [one["id"] for one in bob.hear("chat")]
    assert sorted([*delivered, *refused(ada)]) == sorted(f"ada-{n}" for n in range(61))
    complaint = await served.end()
    assert "Traceback" not in complaint and "journal" in complaint
    assert journaled(served.journal) == delivered
    assert [one["id"] for one in ada.hear("chat")] == delivered


@pytest.mark.threat(9)
async def test_on_a_full_disk_nobody_comes_in_and_who_leaves_is_written_down_later(serve: Serve) -> None:
    served = await serve("ada", "bob", "cyd")
    ada, bob = await served.join("ada"), await served.join("bob")
    served.limit_files(served.journal.stat().st_size)
    link = await connect(f"ws://127.0.0.1:{served.port}/ws", headers=served.bearer("cyd"))
    with pytest.raises(LinkClosed) as closed:
        await link.receive()
    assert closed.value.code == 1013  # try again later
    bob.transport.abort()
    await bob.gone.wait()
    ada.say(chat(1, sender="ada"))
    await until(lambda: refused(ada))  # the gateway has gone on since it could see that bob is gone
    served.limit_files(None)
    ada.say(chat(2, sender="ada"))
    await until(lambda: ada.hear("chat") and len(ada.hear("system/presence")) == 2)
    assert [one["payload"]["event"] for one in ada.hear("system/presence")] == ["join", "leave"]
    assert [one["payload"]["n"] for one in ada.hear("chat")] == [2]
    await served.end()
    events = [record.event for record in read_journal(served.journal)]
    assert events.count("joined") == 2 and "left" in events


def journaled(path: Path) -> list[str]:
    """The ids of the messages that the journal says were delivered; fails for a line that cannot be read."""
    reading = read_journal(path)
    ids = [
        json.loads(record.raw)["id"]
        for record in reading
        if record.raw and (record.event, record.verdict) == ("received", "accepted")
    ]
    assert (reading.torn, reading.unreadable) == (False, 0)
    return ids
