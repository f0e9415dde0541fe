"""Does the suite judge others fairly?  Gateways that differ from ours where the specification allows it, and pass.

Each is ours with one thing done in another way, that no sentence of the specification forbids. A row has the same
result alone as among all others, here and with our own gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli.conform import conform
from mew_lab.conformance.profile import fresh
from mew_lab.conformance.rows import ROWS
from mew_lab.conformance.suite import FAILED, NOT_OFFERED, PASSED, UNSEEN, Result, decides
from mew_lab.conformance.wire import GatewayAddress, HttpAnswer
from mew_lab.gateway.gateway import Gateway
from mew_lab.protocol.envelope import Draft, Envelope
from mew_lab.space import controls, core
from mew_lab.space.events import HttpReply, Joined
from mew_lab.space.refusal import Refusal
from mew_lab.space.rights import Rights
from mew_lab.space.turn import Turn

from .conftest import Ours, Serve

Patch = pytest.MonkeyPatch


def forgets_grants_at_a_new_connection(patch: Patch) -> None:
    join = core.join

    def forgetful(turn: Turn, event: Joined) -> None:
        member = turn.state.members.get(event.participant)
        if member is not None and member.admissions:
            turn.give(member, Rights([one for one in turn.rights(member).held if not one.grant]))
        join(turn, event)

    patch.setattr(core, "join", forgetful)


def spells_numbers_otherwise(patch: Patch) -> None:
    completed = core.complete

    def respelt(*draft: Any, **how: Any) -> Envelope:
        envelope = completed(*draft, **how)
        return Envelope(envelope.members, raw=envelope.raw.replace("1e2", "100.0").replace(":1.0", ":1"))

    patch.setattr(core, "complete", respelt)


def lists_everything_in_another_order(patch: Patch) -> None:
    say = Turn.say

    def reversed_(self: Turn, kind: str, payload: dict[str, Any], **how: Any) -> Envelope:
        if kind == "system/welcome":
            you = {**payload["you"], "capabilities": payload["you"]["capabilities"][::-1]}
            lists = {key: payload[key][::-1] for key in ("participants", "active_streams")}
            payload = {**lists, "you": you}
        return say(self, kind, payload, **how)

    patch.setattr(Turn, "say", reversed_)


def takes_complete_messages_alone(patch: Patch) -> None:
    completed = core.complete

    def strict(draft: Draft, **how: Any) -> Envelope:
        partial = not draft.members.keys() >= {"protocol", "id", "ts", "from", "kind"}
        if partial or isinstance(draft.members.get("correlation_id"), str):
            raise Refusal("invalid_envelope", "this gateway completes nothing")
        return completed(draft, **how)

    patch.setattr(core, "complete", strict)


def wants_a_payload_and_a_chats_text(patch: Patch) -> None:
    completed = core.complete

    def strict(draft: Draft, **how: Any) -> Envelope:
        payload = draft.members.get("payload")
        if payload is None or (draft.members["kind"] == "chat" and "text" not in payload):
            raise Refusal("invalid_envelope", "this gateway looks at payloads")
        return completed(draft, **how)

    patch.setattr(core, "complete", strict)


def takes_posts_of_who_is_connected_alone(patch: Patch) -> None:
    post = Gateway.post

    def strict(self: Gateway, space: str, name: str, text: str | bytes) -> HttpReply:
        if not self.runtime_ids(space, self.logical(space, name)):
            return HttpReply(409, {"error": "not_connected", "message": "connect first"})
        return post(self, space, name, text)

    patch.setattr(Gateway, "post", strict)


def tells_no_loss_of_write_access(patch: Patch) -> None:
    say = Turn.say

    def quiet(self: Turn, kind: str, payload: dict[str, Any], **how: Any) -> Envelope:
        if payload.get("reason") == "disconnected":
            return self.compose(kind, payload)  # made, and neither recorded nor delivered
        return say(self, kind, payload, **how)

    patch.setattr(Turn, "say", quiet)


def lets_everybody_see_welcomes_and_errors(patch: Patch) -> None:
    """`to` addresses and hides nothing; §3.8.1 asks receivers to ignore the welcomes of others."""
    say = Turn.say

    def aloud(self: Turn, kind: str, payload: dict[str, Any], **how: Any) -> Envelope:
        if kind in ("system/welcome", "system/error") and how.get("privately"):
            mine = list(how["privately"])
            there = [self.state.connections[name] for name in self.audience if name in self.state.connections]
            how["privately"] = [*mine, *(one for one in there if one not in mine)]
        return say(self, kind, payload, **how)

    patch.setattr(Turn, "say", aloud)


def gives_nothing_by_birth(patch: Patch) -> None:
    begin = core.Space.__init__

    def bare(self: core.Space, *name: Any, **how: Any) -> None:
        begin(self, *name, **{**how, "baseline": ()})

    patch.setattr(core.Space, "__init__", bare)


def offers_nothing_that_is_optional(patch: Patch) -> None:
    async def answer_404(address: GatewayAddress, *about: Any, **how: Any) -> HttpAnswer:
        return HttpAnswer(404, "", None)

    patch.setattr(GatewayAddress, "request", answer_404)
    held_back = controls.held_back

    def soft(*about: Any) -> Refusal | None:
        refusal = held_back(*about)
        return refusal if refusal and refusal.code == "shut_down" else None

    patch.setattr(controls, "held_back", soft)


DIFFERENT: tuple[Callable[[Patch], None], ...] = (
    forgets_grants_at_a_new_connection,
    spells_numbers_otherwise,
    lists_everything_in_another_order,
    takes_complete_messages_alone,
    wants_a_payload_and_a_chats_text,
    takes_posts_of_who_is_connected_alone,
    tells_no_loss_of_write_access,
    lets_everybody_see_welcomes_and_errors,
    gives_nothing_by_birth,
    offers_nothing_that_is_optional,
)
# Which rulings of ours each differs from, and which freedoms it makes use of.
SEEN = {
    forgets_grants_at_a_new_connection: {"C-10"},
    spells_numbers_otherwise: {"C-16"},
    takes_complete_messages_alone: {"C-14", "C-16"},
    wants_a_payload_and_a_chats_text: {"C-17", "C-20", "P-4.2-7"},
    lets_everybody_see_welcomes_and_errors: {"C-2"},
    gives_nothing_by_birth: {"C-10", "C-12"},
    offers_nothing_that_is_optional: {"P-3.9.1-3"},
}


async def judged(ours: Ours) -> dict[str, Result]:
    results = await ours.play()
    assert {id: one.detail for id, one in results.items() if decides(one)} == {}
    return results


@pytest.mark.slow
@pytest.mark.parametrize("differ", DIFFERENT, ids=lambda one: one.__name__)
async def test_a_gateway_that_may_differ_fails_no_row(
    differ: Callable[[Patch], None], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    differ(monkeypatch)
    results = await judged(await serve())
    seen = {id for id, one in results.items() if one.result in (FAILED, NOT_OFFERED)}
    assert seen == SEEN.get(differ, set())


@pytest.mark.slow
async def test_a_gateway_that_differs_in_all_of_this_exits_with_0(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for differ in DIFFERENT:
        if differ is not lets_everybody_see_welcomes_and_errors:  # it takes its time; alone it is tried above
            differ(monkeypatch)
    ours = await serve(second=False)
    ours.profile = ours.profile._replace(second=fresh(second=True).second)  # with tokens of a space it lacks
    said: list[str] = []
    how: dict[str, Any] = {"tokens": ours.tokens_file(tmp_path), "say": said.append, "progress": len}
    assert await asyncio.to_thread(conform, ours.url, **how) == 0, "\n".join(said)
    assert ", 0 failed, " in said[0]
    rulings = said.index(next(one for one in said if "rulings of this project, which bind no other" in one))
    assert {one.split()[1] for one in said[rulings:] if one.startswith("differs: ")} >= {"C-14", "C-16"}
    assert not [one for one in said[:rulings] if one.startswith(("FAILED", "differs"))]


async def test_a_gateway_that_serves_one_space_alone_is_not_judged_by_two(serve: Serve) -> None:
    ours = await serve(second=False)
    ours.profile = ours.profile._replace(second=fresh(second=True).second)
    results = await ours.play("P-3.6-*", "P-2.2-3")
    assert {one.result for one in results.values()} == {UNSEEN}
    assert all("serves no second space" in one.detail for one in results.values())


async def alone(row: str) -> str:
    """The result of one row on a gateway that nothing else has been tried on."""
    ours = Ours(second=True)
    await ours.server.start()
    try:
        return (await ours.play(row))[row].result
    finally:
        await ours.server.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("different", [False, True], ids=["ours", "another"])
async def test_a_row_has_the_same_result_alone_as_among_all(
    different: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for differ in DIFFERENT if different else ():
        if differ is not offers_nothing_that_is_optional:
            differ(monkeypatch)
    ours = Ours(second=True)
    await ours.server.start()
    try:
        together = {id: one.result for id, one in (await ours.play()).items()}
    finally:
        await ours.server.stop()
    differing = {row.id: one for row in ROWS if (one := await alone(row.id)) != together[row.id]}
    assert differing == {}
    assert PASSED in together.values()
