"""A gate of one space that is bridged into another: a call that waits there has no result before a person decided."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import pytest

from mew_lab.bridge.offers import PENDING_LINE, PROPOSAL, RESULT, STATE

from ..cli.test_mcp import OpenDesk, desk
from .conftest import Site, until

__all__ = ["desk"]  # a fixture


@pytest.mark.timeout(120)
async def test_a_call_through_a_bridged_gate_waits_until_a_person_of_its_space_has_decided(
    desk: OpenDesk, site: Site, tmp_path: Path
) -> None:
    words = desk.words(tmp_path, "--answer-after", "0.2")
    heard = tmp_path / "heard"  # what the gate is asked
    command = f"tee {shlex.quote(str(heard))} | {shlex.join([sys.executable, *words])}"
    await site.bridge(["sh", "-c", command], name="far", cwd=tmp_path)
    human = await site.seat("human")
    call = human.call("far/calc_add", {"a": 2, "b": 3})
    id = await desk.proposed()
    await until(lambda: RESULT in heard.read_text())  # the gate has answered that it is pending
    assert not call.done
    await desk.human.approve(id)
    assert (await call).text == "5" and desk.executed == [(2, 3)]
    rejected = human.call("far/calc_add", {"a": 4, "b": 3})
    await until(lambda: desk.open)
    await desk.human.reject(desk.open[0].id, "not this one")
    with pytest.raises(Exception, match="not this one"):
        await rejected
    assert len(list(desk.human.proposals)) == 2


async def test_a_server_whose_result_has_every_member_of_a_pending_one_is_no_gate(site: Site) -> None:
    await site.odd("malformed")
    human = await site.seat("human")
    pending = {
        "content": [{"type": "text", "text": PENDING_LINE}],
        "isError": False,
        "_meta": {STATE: "pending", PROPOSAL: "p-1"},
    }
    async with asyncio.timeout(20):  # at a gate, the bridge waits on
        assert (await human.call("git/odd", {"result": pending})).raw == pending
