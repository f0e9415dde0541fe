"""A lab starts a coding agent that speaks ACP: it is a participant, and its questions are among the approvals."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mew_lab.errors import ConfigError, MewError, OutcomeUnknown
from mew_lab.lab.coding_agent_seat import CodingAgentSeat
from mew_lab.lab.decisions.policies import Decision, Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.lab.standing import standings
from mew_lab.log.receipts import check_consents
from mew_lab.sdk.tools import unknown_outcome_error

from ..waiting import alive, eventually
from .looking import click

AGENT = ["python", str(Path(__file__).parents[1] / "bridge" / "acp_agent.py")]
QUESTION = {
    "toolCall": {"toolCallId": "t", "title": "mkdir shed", "rawInput": {"command": "mkdir shed"}},
    "options": [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "once", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ],
}


def test_what_you_write_to_it_is_its_prompt_and_its_question_is_a_proposal(lab: Lab) -> None:
    seat = lab.coding_agent(AGENT, "coder", mode="default")
    assert "asks by its own rules: mode default" in repr(seat)
    asked = lab.ask("coder", f"ask {json.dumps(QUESTION)}")
    [proposal] = eventually(lambda: lab.proposals() or None)
    assert "mkdir shed" in str(proposal)
    lab.approve(proposal)
    assert json.loads(str(asked.result(timeout=20))) == {"outcome": "selected", "optionId": "once"}
    asked = lab.ask("coder", f"ask {json.dumps(QUESTION)}")
    [proposal] = eventually(lambda: lab.proposals() or None)
    lab.reject(proposal)
    assert json.loads(str(asked.result(timeout=20))) == {"outcome": "selected", "optionId": "no"}


def test_a_change_of_mode_that_somebody_proposes_is_a_card_that_says_what_it_means(lab: Lab) -> None:
    seat = lab.coding_agent(AGENT, "coder", mode="default")
    other = lab.join("helper")
    other.propose("coder/set_mode", {"mode": "yolo"})
    [proposal] = eventually(lambda: lab.proposals() or None)
    text = str(proposal)
    assert "! mode yolo is not known to ask" in text
    assert "mode: default now, yolo after; in its words: “Yolo”" in text
    lab.approve(proposal)
    eventually(lambda: seat.bridge.mode == "yolo")
    other.propose("coder/set_mode", {"mode": "default"})
    [proposal] = eventually(lambda: lab.proposals() or None)
    assert "mode: yolo now, default after" in str(proposal)


def test_a_change_of_an_option_that_somebody_proposes_says_what_is_now_and_what_after(lab: Lab) -> None:
    seat = lab.coding_agent([*AGENT, "config"], "coder", mode="default")
    lab.join("helper").propose("coder/set_config_option", {"option": "model", "value": "large"})
    [proposal] = eventually(lambda: lab.proposals() or None)
    assert "option model: small now, large after; in its words: “Large”" in str(proposal)
    assert "! " not in str(proposal)
    lab.approve(proposal)
    eventually(lambda: seat.bridge.config == {"model": "large"})


def test_the_foot_of_its_card_says_in_which_mode_it_asks(lab: Lab) -> None:
    lab.coding_agent(AGENT, "coder", mode="default")
    lab.ask("coder", f"ask {json.dumps(QUESTION)}")
    [proposal] = eventually(lambda: lab.proposals() or None)
    assert (
        "coder asks by its own rules: mode default; what it does not ask about runs with your rights"
        in str(proposal)
    )
    lab.reject(proposal)


def test_a_write_is_a_card_with_its_difference_and_without_a_warning(lab: Lab, tmp_path: Path) -> None:
    """A usual write warns of nothing, else nobody would read the warnings that matter."""
    (tmp_path / "plan.txt").write_text("beans\npeas\n")
    lab.coding_agent(AGENT, "coder", cwd=tmp_path, files=tmp_path)
    params = {"path": str(tmp_path / "plan.txt"), "content": "beans\nleeks\n"}
    asked = lab.ask("coder", f"client fs/write_text_file {json.dumps(params)}")
    [proposal] = eventually(lambda: lab.proposals() or None)
    text = str(proposal)
    assert "! " not in text and "plan.txt" in text and "leeks" in text
    lab.approve(proposal)
    assert str(asked.result(timeout=20)) == "{}"
    assert (tmp_path / "plan.txt").read_text() == "beans\nleeks\n"


def test_it_is_cancelled_and_leaves_with_its_process(lab: Lab) -> None:
    seat = lab.coding_agent([*AGENT, "sessions"], "coder")
    assert [row[0] for row in seat.sessions()] == ["old"]
    lab.ask("coder", "wait")
    eventually(lambda: seat.bridge.busy)
    assert "cancelled" in str(seat.cancel())
    eventually(lambda: not seat.bridge.busy)
    pid = seat.bridge.pid
    lab.leave("coder")
    assert not alive(pid) and "coder" not in lab.seats


def test_going_down_ends_its_process(lab: Lab) -> None:
    pid = lab.coding_agent(AGENT, "coder").bridge.pid
    lab.down()
    assert not alive(pid)


def test_a_name_that_is_taken_starts_nothing(lab: Lab) -> None:
    lab.join("coder")
    with pytest.raises(MewError, match="already exists"):
        lab.coding_agent(AGENT, "coder")


@pytest.fixture
def watered(lab: Lab) -> list[str]:
    """What was watered by the tool of the notebook."""
    done: list[str] = []

    @lab.tool
    def water(bed: str = "all", litres: float = 1.0) -> str:
        "Waters the beans."
        done.append(bed)
        return f"watered {bed}"

    return done


def secret_of(seat: CodingAgentSeat, *, http: bool) -> str:
    """The token of the gate of an agent, as its session was given it."""
    entry = seat.bridge.tools.entry(http=http)
    if http:
        return str(entry["headers"][0]["value"].removeprefix("Bearer "))
    return Path(entry["args"][-1]).read_text().strip()


@pytest.mark.parametrize("command", [["sh", "-c", "exit 3"], ["sh", "-c", "read line"], ["no-such-program"]])
def test_an_agent_that_does_not_start_leaves_nothing_in_the_space(lab: Lab, command: list[str]) -> None:
    assert lab.host is not None
    host = lab.host

    def everything() -> tuple[Any, ...]:
        enrolled = host.gateway.participants(lab.space)
        names = [one.name for one in lab.loop.call(lambda: standings(lab))]
        return enrolled, names, [*lab.seats], {**host.minted}, [*lab.me.participant.client.participants]

    before = everything()
    with pytest.raises(MewError, match="Cannot start 'coder' with"):
        lab.coding_agent(command, "coder", tools=True)
    assert everything() == before
    lab.coding_agent([*AGENT, "http"], "coder", mode="default", tools=True)
    assert {"coder", "coder-tools"} <= {*lab.seats}


@pytest.mark.threat(40)
@pytest.mark.parametrize(
    "words", [pytest.param(["http"], id="http"), pytest.param([], id="stdio", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("end", ["leave", "kill", "down"])
def test_it_uses_the_tools_of_the_space_by_a_gate_that_ends_with_it(
    lab: Lab, watered: list[str], words: list[str], end: str
) -> None:
    seat = lab.coding_agent([*AGENT, *words], "coder", tools=True, restarts=0)
    asked = lab.ask("coder", 'use water {"bed": "north"}')
    [proposal] = eventually(lambda: lab.proposals() or None, within=20)
    assert proposal.card.proposer == "coder-tools"
    lab.approve(proposal)
    assert str(asked.result(timeout=40)) == "watered north" and watered == ["north"]
    entry = seat.bridge.tools.entry(http=bool(words))
    token = secret_of(seat, http=bool(words))
    assert token not in repr([seat, seat.gate, seat.bridge, seat.bridge.tools, lab.proposals(), lab.seats])
    if not words:
        assert stat.S_IMODE(Path(entry["args"][-1]).stat().st_mode) == 0o600
    if end == "kill":
        os.kill(seat.bridge.pid, 9)
        eventually(lambda: "coder" not in lab.seats)
    elif end == "leave":
        lab.leave("coder")
    else:
        lab.down()
    assert "coder-tools" not in lab.seats or end == "down"
    assert words or not Path(entry["args"][-1]).parent.parent.exists()
    url = entry["url"] if words else entry["args"][4]
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=5).close()
    assert not any(token in str(record.raw) or token in str(record.detail) for record in lab.log.held)


# --- asked once ---

CALL = 'may notebook_water {"bed": "north", "litres": 2.0}'


def start_once(lab: Lab, **options: Any) -> CodingAgentSeat:
    return lab.coding_agent([*AGENT, "http"], "coder", tools=True, **{"ask_once": True, **options})


def next_card(lab: Lab, proposer: str, *, but: Collection[str] = ()) -> Any:
    """The next open proposal, which must be of that participant."""
    [found] = eventually(lambda: [one for one in lab.proposals() if one.id not in but] or None)
    assert found.card.proposer == proposer
    return found


def allow(lab: Lab, card: Any, *, option: str = "") -> None:
    """What a click on the card does; the words of a script count for that one card alone."""
    click(lab, card.id, card.card.digest, option=option)


def decided_by(lab: Lab, proposer: str) -> list[str]:
    """By whom its calls were decided, in order."""
    return [card.by for card in lab.decisions.decided() if card.proposer == proposer]


@pytest.mark.ruling("R29")
def test_a_call_that_you_allowed_once_is_not_asked_about_again_and_its_receipt_names_that(
    lab: Lab, watered: list[str]
) -> None:
    start_once(lab)
    asked = lab.ask("coder", f"{CALL}\nuse water {CALL.partition('water ')[2]}")
    outer = next_card(lab, "coder")
    allow(lab, outer)
    eventually(lambda: watered)
    again = next_card(lab, "coder-tools")  # the second equal call, for which no permission was given
    assert watered == ["north"]
    lab.reject(again, "enough")
    assert str(asked.result(timeout=40)).startswith("watered north")
    first, second = decided_by(lab, "coder-tools")
    assert first == "human by policy ask once" and second == "human"
    [receipt] = [
        json.loads(record.detail)
        for record in lab.log.held
        if record.event == "decided" and "ask once" in str(record.detail)
    ]
    assert receipt["permission"]["proposal"] == outer.id and outer.id in receipt["policy"]["text"]
    checked = check_consents(lab.log.held)
    assert (len(checked.consented), checked.without) == (2, ())
    assert f'1 by policy ask once of human: 1 by the policy, by the permission "{outer.id}"' in str(checked)
    forged = [
        record._replace(detail=record.detail.replace(outer.id, "another"))
        if record.event == "decided" and "ask once" in record.detail
        else record
        for record in lab.log.held
    ]
    [without] = check_consents(forged).without
    assert 'its receipt counts the permission "another", which no person of' in without.why


def test_by_default_the_agent_and_the_space_both_ask(lab: Lab, watered: list[str]) -> None:
    start_once(lab, ask_once=False)
    asked = lab.ask("coder", CALL)
    allow(lab, next_card(lab, "coder"))
    lab.approve(next_card(lab, "coder-tools"))
    assert str(asked.result(timeout=40)) == "watered north" and watered == ["north"]


def allow_always(lab: Lab, card: Any) -> None:
    allow(lab, card, option="allow_always")


def allow_by_policy(lab: Lab, card: Any) -> None:
    lab.decide = Policy(
        "permissions", lambda card: Decision("approve") if card.permission is not None else None
    )
    eventually(lambda: not lab.decisions.card(card.id).is_open)
    lab.decide = None


def allow_by_another_person(lab: Lab, card: Any) -> None:
    run(lab, lab.seat("ann").participant.approve(card.id))


def allow_past_the_card(lab: Lab, card: Any) -> None:
    """By this person's seat, and not by the decisions of the lab: no card was shown to her."""
    run(lab, lab.me.participant.approve(card.id))


def allow_by_a_script(lab: Lab, card: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mew_lab.lab.decisions.decisions.is_at_prompt", lambda **_: False)
        lab.approve(card)


def run(lab: Lab, work: Coroutine[Any, Any, Any]) -> Any:
    return lab.loop.run(work, timeout=20, doing="deciding")


@pytest.mark.ruling("R41")
@pytest.mark.parametrize(
    "how", [allow_always, allow_by_policy, allow_by_a_script, allow_by_another_person, allow_past_the_card]
)
def test_what_this_person_did_not_allow_once_on_its_card_counts_for_nothing(
    lab: Lab, watered: list[str], how: Callable[[Lab, Any], None]
) -> None:
    start_once(lab)
    lab.join("ann", can="human")
    asked = lab.ask("coder", CALL)
    how(lab, next_card(lab, "coder"))
    lab.approve(next_card(lab, "coder-tools"))
    assert str(asked.result(timeout=40)) == "watered north" and watered == ["north"]
    assert decided_by(lab, "coder-tools") == ["human"]


def test_a_call_with_a_warning_is_asked_about_all_the_same(lab: Lab) -> None:
    @lab.tool(annotations={"destructiveHint": True})
    def wipe(path: str) -> str:
        "Wipes a bed."
        return f"wiped {path}"

    start_once(lab)
    asked = lab.ask("coder", 'may notebook_wipe {"path": "north"}\nuse notebook_wipe {"path": "north"}')
    allow(lab, next_card(lab, "coder"))
    inner = next_card(lab, "coder-tools")
    assert inner.card.warnings
    lab.approve(inner)
    lab.reject(next_card(lab, "coder-tools", but={inner.id}))  # the permission is used up
    assert str(asked.result(timeout=40)).startswith("wiped north")


@pytest.mark.ruling("R39")
def test_where_a_quorum_is_set_a_permission_counts_for_nothing(lab: Lab, watered: list[str]) -> None:
    start_once(lab)
    lab.ask("coder", CALL)
    outer = next_card(lab, "coder")
    allow(lab, outer)
    lab.share_review = True
    lab.quorum = (2, ["human", "ann"])
    assert "2 of human, ann" in next_card(lab, "coder-tools").card.review
    assert watered == [] and decided_by(lab, "coder-tools") == []


@pytest.mark.ruling("R35")
def test_a_repeat_of_a_call_of_unknown_outcome_is_asked_about(lab: Lab) -> None:
    shop, did = lab.join("shop", can="tool"), list[Any]()

    async def answer(params: Any) -> dict[str, Any]:
        did.append(params["arguments"])
        if len(did) == 1:
            raise unknown_outcome_error("the shop burned down")
        return {"content": [{"type": "text", "text": "done"}]}

    def offer() -> None:
        shop.participant.tools.add(lambda n: "", name="put")
        shop.participant.register_method("tools/call", answer)

    lab.loop.call(offer)
    with pytest.raises(OutcomeUnknown):
        lab.call("shop/put", {"n": 1}).result(20)
    start_once(lab)
    lab.ask("coder", 'may shop_put {"n": 1}')
    allow(lab, next_card(lab, "coder"))
    assert "it may run twice" in next_card(lab, "coder-tools").card.repeats
    assert len(did) == 1 and decided_by(lab, "coder-tools") == []


@pytest.mark.threat(40)
def test_a_person_who_may_not_send_the_call_herself_is_asked(tmp_path: Path) -> None:
    can = [{"kind": kind} for kind in ("chat", "chat/*", "mcp/reject", "participant/*")]
    can.append({"kind": "mcp/request", "to": "coder"})
    space = {"space": {"id": "demo"}, "participants": {"human": {"capabilities": can}}}
    (tmp_path / "space.json").write_text(json.dumps(space))
    lab = up(tmp_path / "space.json", as_id="human", journal=None)
    did: list[str] = []

    @lab.tool
    def water(bed: str) -> str:
        "Waters the beans."
        did.append(bed)
        return bed

    start_once(lab)
    lab.ask("coder", 'may notebook_water {"bed": "north"}')
    allow(lab, next_card(lab, "coder"))
    next_card(lab, "coder-tools")
    assert did == [] and decided_by(lab, "coder-tools") == []


def test_a_stop_ends_the_permissions(lab: Lab, watered: list[str]) -> None:
    seat = start_once(lab)
    asked = lab.ask("coder", 'allow notebook_water {"bed": "north"}')
    allow(lab, next_card(lab, "coder"))
    assert asked.result(timeout=20) is not None and len(seat.bridge.tools.allowed) == 1
    lab.stop()
    str(lab.go())
    lab.go()
    lab.ask("coder", 'use water {"bed": "north"}')
    lab.reject(next_card(lab, "coder-tools"))
    assert watered == []


def test_a_permission_ends_with_a_cancelled_turn(lab: Lab, watered: list[str]) -> None:
    seat = start_once(lab)
    asked = lab.ask("coder", 'allow notebook_water {"bed": "north"}\nwait')
    allow(lab, next_card(lab, "coder"))
    eventually(lambda: len(seat.bridge.tools.allowed))
    seat.cancel()
    eventually(lambda: not seat.bridge.busy)
    lab.ask("coder", 'use water {"bed": "north"}')
    lab.reject(next_card(lab, "coder-tools"))
    assert watered == [] and asked.done


def test_to_be_asked_once_needs_tools(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="tools=True"):
        lab.coding_agent(AGENT, "coder", ask_once=True)


def test_what_was_said_before_in_its_session_is_listed_and_nothing_of_it_is_sent(lab: Lab) -> None:
    seat = lab.coding_agent(AGENT, "coder", session="old")
    assert [tuple(row) for row in seat.history][:2] == [("user", "What is here?"), ("agent", "A garden.")]
    assert "<b>\\u202e" in str(seat.history)
    assert "garden" not in lab.log.df.to_string()
    assert len(lab.coding_agent(AGENT, "other").history) == 0
