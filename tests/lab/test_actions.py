"""What the human has others do is a message of the specification; what may not be done is said beforehand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from mew_lab.errors import CapabilityViolation, MewError, NoReply
from mew_lab.lab.actions import ACTIONS, Agents, ParticipantActions
from mew_lab.lab.decisions.cards import Click
from mew_lab.lab.decisions.grant_preview import GrantOffers
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up
from mew_lab.lab.standing import ParticipantStanding, find_kept, standings
from mew_lab.protocol.permit import Capability
from mew_lab.sdk.controls import Compacted

from ..failing import HOWS, How, failing
from .looking import eventually

Do = Callable[..., str]


@pytest.fixture
def do(lab: Lab) -> Do:
    lab.join("agent", can="agent")
    steering = ParticipantActions(lab)

    def do(deed: str, target: str = "agent", **given: Any) -> str:
        return lab.loop.submit(steering.perform(deed, target, given)).result(20)

    return do


def sent(lab: Lab, kind: str) -> dict[str, Any]:
    """The last message of that kind that was accepted: whom it was for, and its payload."""
    found = [one for one in lab.log if one.get("kind") == kind]
    assert found, f"nobody sent {kind}"
    return {"to": found[-1].get("to"), "payload": found[-1].get("payload")}


@pytest.mark.parametrize(
    ("deed", "given", "kind", "payload"),
    [
        ("pause", {"timeout_seconds": 60, "reason": "lunch"}, "participant/pause", {"timeout_seconds": 60.0, "reason": "lunch"}),
        ("pause", {}, "participant/pause", {}),
        ("resume", {"reason": "back"}, "participant/resume", {"reason": "back"}),
        ("forget", {"direction": "newest", "entries": 3}, "participant/forget", {"direction": "newest", "entries": 3}),
        ("forget", {}, "participant/forget", {"direction": "oldest"}),
        ("clear", {"reason": "new task"}, "participant/clear", {"reason": "new task"}),
        ("restart", {}, "participant/restart", {}),
        ("shutdown", {"reason": "done"}, "participant/shutdown", {"reason": "done"}),
    ],
)  # fmt: skip
def test_each_deed_is_its_message(
    lab: Lab, do: Do, deed: str, given: dict[str, Any], kind: str, payload: dict[str, Any]
) -> None:
    assert "agent" in do(deed, **given)
    assert sent(lab, kind) == {"to": ["agent"], "payload": payload}


def test_a_status_is_told_in_a_sentence(lab: Lab, do: Do) -> None:
    lab.seats["agent"].participant.telemetry.set_context_usage(tokens=120, messages=4)
    assert do("status") == "agent: 4 messages in context, 120 tokens"


def test_a_compaction_says_what_it_freed(lab: Lab, do: Do) -> None:
    controls = lab.seats["agent"].participant.controls
    lab.loop.call(lambda: controls.on_compact(lambda reason, target: Compacted(900, 12)))
    assert do("compact", target_tokens=4000) == "agent has freed 900 tokens and 12 messages"
    assert sent(lab, "participant/compact")["payload"] == {"target_tokens": 4000}


def test_a_removal_needs_the_capability_and_voids_the_tokens(lab: Lab, do: Do) -> None:
    lab.enrol("human", can="human")
    with pytest.raises(CapabilityViolation):
        do("kick")
    lab.enrol("human", can="admin")
    assert do("kick", reason="spam") == "agent was removed, and its tokens are invalid"
    assert sent(lab, "space/kick")["payload"] == {"participant_id": "agent", "reason": "spam"}


@pytest.mark.parametrize(
    ("deed", "given"),
    [
        ("pause", {"timeout_seconds": 0}),
        ("pause", {"timeout_seconds": -1}),
        ("pause", {"timeout_seconds": "60"}),
        ("pause", {"timeout_seconds": True}),
        ("pause", {"timeout_seconds": float("nan")}),
        ("pause", {"reason": ["x"]}),
        ("pause", {"reason": "x" * 301}),
        ("forget", {"entries": 1.5}),
        ("forget", {"direction": "middle"}),
        ("dance", {}),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_sent(
    lab: Lab, do: Do, deed: str, given: dict[str, Any]
) -> None:
    before = len(lab.log)
    with pytest.raises(MewError):
        do(deed, **given)
    assert len(lab.log) == before


def test_nobody_answers_for_who_has_left(lab: Lab, do: Do) -> None:
    lab.leave("agent")
    with pytest.raises(NoReply):
        do("status")


def find_obstacle(lab: Lab, name: str) -> dict[str, str]:
    def ask() -> dict[str, str]:
        steering = ParticipantActions(lab)
        one = next(one for one in standings(lab) if one.name == name)
        return {deed: why for deed in ACTIONS if (why := steering.find_obstacle(deed, one))}

    return lab.loop.call(ask)


def test_what_may_not_be_done_is_known_beforehand_with_the_reason(lab: Lab, do: Do) -> None:
    assert set(find_obstacle(lab, "agent")) == {"resume"}
    assert set(find_obstacle(lab, "human")) == set(ACTIONS)
    lab.enrol("human", can="human")
    eventually(lambda: set(find_obstacle(lab, "agent")) == {"resume", "kick"})
    assert find_obstacle(lab, "agent")["kick"] == ("You don't have permission to remove agent (space/kick).")
    lab.enrol("human", can="admin")
    eventually(lambda: set(find_obstacle(lab, "agent")) == {"resume"})
    do("pause")
    assert set(find_obstacle(lab, "agent")) == set()
    lab.leave("agent")
    assert set(find_obstacle(lab, "agent")) == {
        "status", "forget", "compact", "clear", "restart", "cancel_reasoning",
    }  # fmt: skip


def test_reasoning_that_goes_on_is_cancelled_and_else_nothing_is_sent(lab: Lab, do: Do) -> None:
    begun = lab.seats["agent"].send("reasoning/start", {"message": "Hm"})
    assert do("cancel_reasoning", reason="enough") == "The reasoning of agent was cancelled (enough)."
    cancel = next(one for one in lab.log if one["kind"] == "reasoning/cancel")
    assert (cancel["to"], cancel["context"], cancel["payload"]) == (["agent"], begun.id, {"reason": "enough"})
    with pytest.raises(MewError, match="none goes on, so nothing was sent"):
        do("cancel_reasoning")


def test_who_owns_the_space_cannot_be_removed(lab: Lab) -> None:
    owner = ParticipantStanding("boss", ("boss",), (), (), owner=True)
    assert "owns this space" in lab.loop.call(lambda: ParticipantActions(lab).find_obstacle("kick", owner))


def test_after_the_end_nothing_may_be_done(lab: Lab) -> None:
    steering = ParticipantActions(lab)
    lab.down()
    assert (
        steering.find_obstacle("pause", ParticipantStanding("agent", ("agent",), (), ()))
        == "You are not connected to the space."
    )


def test_the_owner_removes_participants_by_default_and_a_visitor_does_not(lab: Lab) -> None:
    """Over the port of the gateway: the far lab joins by WebSocket, and its connection ends."""
    lab.join("agent", can="agent")
    lab.enrol("visitor", can="human")
    far = connect(lab.url, space=lab.space, token_file=lab.token_file("visitor"), name="far")

    def find(session: Lab, name: str) -> str:
        return session.loop.call(
            lambda: ParticipantActions(session).find_obstacle(
                "kick", ParticipantStanding(name, (name,), (), (), certain=False)
            )
        )

    assert far.loop.call(ParticipantActions(far).may_remove) is False
    assert find(far, "agent") == "You don't have permission to remove agent (space/kick)."
    assert lab.loop.call(ParticipantActions(lab).may_remove) is True
    assert find(lab, "visitor") == ""
    lab.loop.submit(ParticipantActions(lab).perform("kick", "visitor", {})).result(20)
    eventually(lambda: far.me.participant.client.state != "ready")


@pytest.mark.threat(20)
@pytest.mark.parametrize(
    "pattern",
    [
        {"kind": "space/kick"},
        {"kind": ["space/invite", "space/kick"]},
        {"kind": ["chat", "space/invite"]},
        {"kind": "space/kick", "payload": {"participant_id": "agent"}},
    ],
)
def test_the_owner_keeps_inviting_and_removing_to_itself(lab: Lab, pattern: dict[str, Any]) -> None:
    def find() -> str:
        return find_kept(lab.me.participant.client.capabilities, Capability.of(pattern))

    assert find().startswith("You may not grant this: only the owner")
    assert find_kept(lab.me.participant.client.capabilities, Capability.of({"kind": "chat"})) == ""
    lab.enrol("human", can="admin")
    eventually(lambda: find() == "")


def agents(lab: Lab) -> Agents:
    return lab.loop.call(ParticipantActions(lab).agents)


def test_pause_all_pauses_agents_and_neither_tools_nor_people(lab: Lab) -> None:
    for name, can in (
        ("a", "agent"),
        ("b", "proposer"),
        ("git", "tool"),
        ("eye", "observer"),
        ("boss", "human"),
    ):
        lab.join(name, can=can)
    assert agents(lab) == (("a", "b"), ())
    lab.loop.submit(lab.seats["boss"].participant.controls.pause("b")).result(20)
    eventually(lambda: agents(lab) == (("a",), ()))
    lab.join("c", can="agent")
    assert str(lab.pause_all("lunch")) == "2 agents paused: a, c"
    assert sent(lab, "participant/pause")["payload"] == {"reason": "lunch"}
    assert agents(lab) == ((), ("a", "c"))
    assert str(lab.pause_all()) == "No agent is running, so nothing was paused"
    assert str(lab.resume_all()) == "2 agents resumed: a, c"
    assert agents(lab) == (("a", "c"), ())  # the pause by another one stays
    assert str(lab.resume_all()) == "No agent is paused by you, so nothing was resumed"


def test_a_visitor_pauses_the_agents_of_a_space_elsewhere(lab: Lab) -> None:
    lab.join("a", can="agent")
    lab.join("git", can="tool")
    lab.enrol("visitor", can="human")
    far = connect(lab.url, space=lab.space, token_file=lab.token_file("visitor"), name="far")
    assert agents(far) == (("a",), ())
    assert str(far.pause_all()) == "1 agent paused: a"
    eventually(lambda: agents(far) == ((), ("a",)))
    assert str(far.resume_all()) == "1 agent resumed: a"


def test_a_pause_of_all_that_is_refused_says_of_whom(lab: Lab) -> None:
    lab.join("a", can="agent")
    lab.enrol("human", can=[{"kind": "chat"}, {"kind": "participant/pause", "to": "nobody"}])
    with pytest.raises(MewError, match=r"Cannot pause 1 of 1 agent \(0 done\)\. a: "):
        lab.pause_all()


# --- each effect is made to fail, and the sentence is read ---


def act(name: str, **options: Any) -> Callable[[Lab], str]:
    def perform(lab: Lab) -> str:
        work = ParticipantActions(lab).perform(name, "agent", options)
        return lab.loop.run(work, timeout=lab.timeout, doing=f"the {name}")

    return perform


def propose(lab: Lab) -> Any:
    id = lab.seats["agent"].call("notebook/add", {"a": 1, "b": 2}).id
    [proposal] = eventually(lambda: [one for one in lab.proposals() if one.id == id])
    return proposal


def seen(lab: Lab, id: str, digest: str) -> Click:
    lab.decisions.record_shown(id, view="v", digest=digest)
    return lab.decisions.click("v")


def approve_edited(lab: Lab) -> str:
    id = propose(lab).id
    changes: list[dict[str, Any]] = [{"index": 1, "json": "40"}]
    edit = lab.loop.call(lambda: lab.decisions.editing.review(id, changes))
    decided = lab.decisions.decide(
        id, digest=edit.digest, decision="approve", click=seen(lab, id, edit.digest)
    )
    return decided.result(30)


def undo(lab: Lab) -> str:
    lab.loop.submit(lab.granting.grant("agent", [{"kind": "chat"}])).result(20)
    return str(lab.undo())


def allow(lab: Lab) -> str:
    id, offers = propose(lab).id, GrantOffers(lab, lab.granting)
    shown = lab.loop.submit(offers.offer(id, values=True, limit="1 use", opened=True, aware=True)).result(20)
    digest = lab.decisions.card(id).digest
    taken = offers.take(id, digest=digest, offer=shown.digest, click=seen(lab, id, digest))
    return str(lab.loop.submit(taken).result(30))


class Verb(NamedTuple):
    """A verb, the kind of its message, what it says where that has its effect, and what it may say only then.

    `enforced`: only of a gateway of ours is it known that it carries out the message.
    """

    act: Callable[[Lab], str]
    kind: str
    done: str
    claim: str
    enforced: bool = False


VERBS = {
    "pause": Verb(act("pause"), "participant/pause", "agent is paused until it is resumed", "is paused", True),
    "pause for a time": Verb(act("pause", timeout_seconds=9), "participant/pause", "agent is paused until ", "is paused", True),
    "resume": Verb(act("resume"), "participant/resume", "agent may send again", "may send", True),
    "pause all": Verb(lambda lab: str(lab.pause_all()), "participant/pause", "1 agent paused: agent", "agent paused", True),
    "forget": Verb(act("forget"), "participant/forget", "agent was asked to forget", "was asked"),
    "clear": Verb(act("clear"), "participant/clear", "agent was asked to erase", "was asked"),
    "restart": Verb(act("restart"), "participant/restart", "agent was asked to restart", "was asked"),
    "shutdown": Verb(act("shutdown"), "participant/shutdown", "agent was asked to shut down", "was asked"),
    "remove": Verb(act("kick"), "space/kick", "agent was removed, and its tokens are invalid", "removed|invalid", True),
    "approve": Verb(lambda lab: str(lab.approve(propose(lab))), "mcp/request", "Approved: ", "^Approved"),
    "approve an edit": Verb(approve_edited, "chat", "Approved: ", "edited; the changes were sent"),
    "allow": Verb(allow, "capability/grant", "Approved: ", "; granted to"),
    "reject": Verb(lambda lab: str(lab.reject(propose(lab))), "mcp/reject", "Rejected ", "^Rejected"),
    "withdraw": Verb(lambda lab: str(lab.withdraw(propose(lab).id)), "mcp/withdraw", "agent has withdrawn ", "has withdrawn"),
    "undo": Verb(undo, "capability/revoke", "the permission that agent got at ", "is revoked"),
}  # fmt: skip
AGENT = ({"kind": "mcp/proposal"}, {"kind": "mcp/withdraw"}, {"kind": "participant/status"})


def seat_agent(lab: Lab) -> None:
    @lab.tool
    def add(a: int, b: int) -> int:
        return a + b

    lab.enrol("human", can="admin")
    lab.join("agent", can=AGENT)
    eventually(lambda: agents(lab).running)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_says_what_it_did(lab: Lab, name: str) -> None:
    seat_agent(lab)
    said = VERBS[name].act(lab)
    assert said.startswith(VERBS[name].done) and re.search(VERBS[name].claim, said)


@pytest.mark.sampled
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_whose_effect_fails_does_not_say_that_it_has_one(
    name: str, how: How, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails, verb = failing(monkeypatch), VERBS[name]
    lab = up()
    seat_agent(lab)
    lab.timeout, fails[verb.kind] = 0.5 if how == "swallowed" else 20.0, how
    try:
        said = verb.act(lab)
    except MewError as fault:
        said = str(fault)
        assert how != "relayed"
    if how == "relayed" and not verb.enforced:
        assert re.search(verb.claim, said)
    else:
        assert said and not re.search(verb.claim, said)
    if how in ("swallowed", "cut off"):
        assert not re.search("nothing was|was not|could not", said)
