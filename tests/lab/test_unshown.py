"""A proposal that no person can be shown is rejected once, with a sentence, whoever looks on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.server import Server
from mew_lab.lab.decisions import unshown
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.lab.loop import the_loop
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.client import MEWClient

from .looking import eventually, sent

UNSHOWN = [
    {"method": "tools/call", "params": []},
    {"method": "tools/call", "params": "x"},
    {"params": {"name": "t"}},
    {"method": 7},
    {"method": ""},
    {"method": " \n"},
    {},
]


class Stranger:
    """A participant that sends what no SDK would."""

    def __init__(self, url: str, space: str, token: str) -> None:
        self._client = MEWClient(url, space=space, token=token)
        the_loop().run(self._client.connect(), timeout=10, doing="joining")

    def send(self, kind: str, payload: dict[str, Any], **members: Any) -> None:
        draft = {"kind": kind, "payload": payload, **members}
        the_loop().run(self._client.send(draft), timeout=10, doing="sending")

    def propose(self, payload: dict[str, Any], id: str) -> None:
        self.send("mcp/proposal", payload, id=id, to=["human"])


def stranger(lab: Lab, name: str = "bot", profile: str = "proposer") -> Stranger:
    lab.enrol(name, profile)
    return Stranger(lab.url, lab.space, lab.token_file(name).read_text().strip())


@pytest.fixture
def another(lab: Lab) -> Callable[..., Lab]:
    """Opens a lab of another person over a socket."""

    def join(name: str, profile: str = "human") -> Lab:
        lab.enrol(name, profile)
        return connect(lab.url, space=lab.space, token_file=lab.token_file(name), name=name)

    return join


def rejections(lab: Lab) -> list[dict[str, Any]]:
    return sent(lab, "mcp/reject")


@pytest.mark.parametrize("payload", UNSHOWN)
def test_what_nobody_can_be_shown_is_rejected_with_a_sentence(lab: Lab, payload: dict[str, Any]) -> None:
    stranger(lab).propose(payload, "p-1")
    [rejected] = eventually(lambda: rejections(lab))
    assert (rejected["correlation_id"], rejected["to"]) == (["p-1"], ["bot"])
    assert rejected["payload"]["reason"].startswith("invalid: it cannot be shown to a person")
    assert "propose it again" in rejected["payload"]["reason"]
    assert list(lab.proposals()) == [] and not lab.decisions.unshown.waiting


def test_of_several_labs_one_rejects_it(
    lab: Lab, another: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unshown, "STEP", 3600.0)  # the later ones wait until the first has answered
    labs = [lab, *map(another, ("zoe", "ada", "ben"))]
    bot = stranger(lab)
    bot.propose(UNSHOWN[0], "p-1")
    [rejected] = eventually(lambda: rejections(lab))
    assert (rejected["from"], rejected["correlation_id"]) == ("ada", ["p-1"])
    eventually(lambda: not any(one.decisions.unshown.waiting for one in labs))


def test_where_the_first_is_no_lab_the_next_one_rejects_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unshown, "STEP", 0.05)
    stranger(lab, "ada", "human")
    stranger(lab).propose(UNSHOWN[0], "p-1")
    [rejected] = eventually(lambda: rejections(lab))
    assert rejected["from"] == "human"


def test_a_lab_that_may_not_reject_tells_its_person_once_for_each_proposer() -> None:
    gateway = Gateway()
    gateway.add_space(SpaceConfig(name="demo"))
    server = Server(gateway)
    port = the_loop().run(server.start(), timeout=10, doing="listening")
    url = f"ws://127.0.0.1:{port}"
    for name in ("guest", "bot"):
        gateway.enrol("demo", name, PROFILES["proposer"])
    guest = connect(url, space="demo", token=gateway.tokens.mint("demo", "guest"))
    bot = Stranger(url, "demo", gateway.tokens.mint("demo", "bot"))
    for n in range(3):
        bot.propose(UNSHOWN[0], f"p-{n}")
        eventually(lambda: guest.faults and not guest.decisions.unshown.waiting)
    [fault] = guest.faults
    assert fault.startswith("bot proposed p-0, which cannot be shown, and it is not confirmed that")
    assert "this participant may not send mcp/reject" in fault and "payload.params" in fault
    guest.down()
    the_loop().run(server.stop(), timeout=10, doing="stopping")


def test_a_flood_is_rejected_in_few_messages_that_count_what_they_do_not_name(lab: Lab) -> None:
    count = 300
    bot = stranger(lab)
    for n in range(count):
        bot.propose(UNSHOWN[0], f"p-{n}")

    def counted() -> int:
        told = rejections(lab)
        unnamed = [re.search(r"; (\d+) further", one["payload"]["reason"]) for one in told]
        return sum(len(one["correlation_id"]) for one in told) + sum(int(m[1]) for m in unnamed if m)

    eventually(lambda: counted() == count)
    told = rejections(lab)
    named = [id for one in told for id in one["correlation_id"]]
    assert len(named) == len(set(named)) and all(len(one["correlation_id"]) <= 100 for one in told)
    assert len(told) <= count / 10


@pytest.mark.parametrize("by", ["its proposer", "a stranger"])
def test_only_the_proposer_takes_it_back(lab: Lab, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    monkeypatch.setattr(unshown, "STEP", 3600.0)
    stranger(lab, "ada", "human")  # the lab leaves it to this one
    bot, other = stranger(lab), stranger(lab, "eve", "human")
    bot.propose(UNSHOWN[0], "p-1")
    eventually(lambda: lab.decisions.unshown.waiting)
    (bot if by == "its proposer" else other).send("mcp/withdraw", {}, correlation_id=["p-1"])
    eventually(lambda: sent(lab, "mcp/withdraw"))
    lab.loop.call(lambda: None)
    assert lab.decisions.unshown.waiting == (() if by == "its proposer" else ("p-1",))
