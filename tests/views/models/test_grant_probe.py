"""Before a grant is given it is known what it would change: in the log, in the pattern, and by the rule of grants."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.lab.decisions.grant_preview import TEXT_ALONE
from mew_lab.lab.decisions.grant_probe import TURN, Probe, probe, read_pattern
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.protocol.permit import permit
from mew_lab.space import membership
from mew_lab.space.events import Record

CALL: dict[str, Any] = {"kind": "mcp/request", "payload": {"method": "tools/call"}}


def ask(lab: Lab, pattern: Any, to: str = "agent", **more: Any) -> Probe:
    text = pattern if isinstance(pattern, str) else json.dumps(pattern)
    return lab.loop.submit(probe(lab, to, text, **more)).result(30)


def post(lab: Lab, name: str, kind: str, payload: dict[str, Any], to: tuple[str, ...] = ("git",)) -> None:
    """Sends without asking whether it may."""
    client = lab.seats[name].participant.client
    lab.loop.call(lambda: client.post({"kind": kind, "payload": payload, "to": list(to)}))


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


@pytest.fixture
def lab(lab: Lab) -> Lab:
    for name, can in (("agent", "agent"), ("helper", "proposer"), ("git", "tool")):
        lab.join(name, can=can)
    return lab


def held(lab: Lab, name: str) -> list[dict[str, Any]]:
    return list(lab.seats[name].capabilities)


@pytest.mark.threat(22)
def test_threat_22_it_counts_what_the_grantee_sent_and_may_not_send_now(lab: Lab) -> None:
    post(lab, "agent", "chat", {"text": "shall I?"})
    post(lab, "agent", "mcp/request", tool("git_log", repo="."))
    post(lab, "agent", "mcp/request", tool("git_push"))
    post(lab, "agent", "mcp/request", {"method": "tools/list"})
    post(lab, "helper", "mcp/request", tool("git_log"))
    result = ask(lab, CALL)
    assert (result.fresh, result.refused, result.already) == (2, 2, 0)
    assert [example.what for example in result.examples] == [
        "git_push()",
        'git_log(repo=".")',
    ]
    assert result.examples[0].to == ("git",)
    narrow = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "git_log"}}}
    assert ask(lab, narrow).fresh == 1


def test_a_proposal_that_could_have_been_a_request_is_told_apart(lab: Lab) -> None:
    post(lab, "agent", "mcp/proposal", tool("git_log"))
    result = ask(lab, CALL)
    assert (result.fresh, result.proposals) == (0, 1)
    assert result.examples[0].kind == "mcp/proposal"


def test_what_was_refused_comes_before_what_was_allowed_then(lab: Lab) -> None:
    grant = lab.loop.submit(lab.granting.grant("agent", [CALL])).result(20)
    post(lab, "agent", "mcp/request", tool("git_status"))
    lab.loop.submit(lab.granting.revoke(grant)).result(20)
    for _ in range(4):
        post(lab, "agent", "mcp/request", tool("git_log"))
    result = ask(lab, CALL)
    assert (result.fresh, result.refused) == (5, 4)
    assert [example.what for example in result.examples] == ["git_log()"] * 3


def test_a_pattern_that_adds_nothing_is_told_as_that(lab: Lab) -> None:
    post(lab, "agent", "chat", {"text": "hello"})
    result = ask(lab, {"kind": "chat", "payload": {"format": "plain"}})
    assert (result.adds, result.smallest, result.fresh) == (False, "", 0)
    assert ask(lab, {"kind": "chat"}).already >= 1


@pytest.mark.parametrize(
    "pattern",
    [
        CALL,
        {"kind": "mcp/request"},
        {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "git_*"}}},
        {"kind": "mcp/request", "payload": {"method": ["tools/list", "tools/call"]}, "to": "git"},
        {"kind": ["chat", "stream/open"]},
        {"kind": "participant/*"},
    ],
    ids=range(6),
)  # fmt: skip
def test_the_smallest_message_is_allowed_by_the_grant_and_not_before(
    lab: Lab, pattern: dict[str, Any]
) -> None:
    message = json.loads(ask(lab, pattern).smallest)
    kind, to, payload = message["kind"], message.get("to", []), message.get("payload", {})
    assert permit([pattern], kind, to=to, payload=payload).allowed
    assert not permit(held(lab, "agent"), kind, to=to, payload=payload).allowed
    assert permit([*held(lab, "agent"), pattern], kind, to=to, payload=payload).allowed


def test_what_one_does_not_hold_oneself_is_barred_before_it_is_sent(lab: Lab) -> None:
    before = len(lab.log)
    assert ask(lab, CALL).barred == ""
    barred = ask(lab, {"kind": "space/archive"}).barred
    assert barred.startswith("You may not grant this: you (human) do not hold it yourself")
    assert '{"kind":"space/archive"}' in barred
    assert ask(lab, {"kind": "space/kick"}).barred.startswith("You may not grant this: only the owner")
    assert len(lab.log) == before
    lab.enrol("human", can=[{"kind": "chat"}])
    assert ask(lab, {"kind": "chat"}).barred == (
        "You don't have permission to grant anything (capability/grant)."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "This is not JSON"),
        ("[]", "A permission is one object"),
        ('{"kind": "chat", "paylod": {}}', "paylod"),
        ("{}", "needs a kind"),
        ('{"kind": "/(/"}', "kind"),
        ("x" * 20_001, "more than 20000 characters"),
        ("[" * 5000, "This is not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(MewError, match=said):
        read_pattern(text)


def test_nobody_is_asked_about_who_is_unknown(lab: Lab) -> None:
    with pytest.raises(MewError, match="No participant of this space is called 'nobody'"):
        ask(lab, CALL, to="nobody")


def test_a_path_that_is_read_as_an_expression_is_warned_of(lab: Lab) -> None:
    pattern = {"kind": "chat", "payload": {"text": "/tmp/"}}
    assert "is a regular expression" in ask(lab, pattern).warnings[0]


def test_a_long_log_is_looked_through_without_holding_the_loop(lab: Lab) -> None:
    raw = json.dumps(
        {"id": "x", "from": "agent", "to": ["git"], "kind": "mcp/request", "payload": tool("git_log")}
    )
    now = datetime.now(UTC)
    record = Record(1, now, "received", lab.space, "agent", verdict="refused", raw=raw)

    def fill() -> None:
        for _ in range(30_000):
            lab.log.observe(record)

    lab.loop.call(fill, timeout=60)
    gaps: list[float] = []

    async def beat() -> Probe:
        asking = asyncio.ensure_future(probe(lab, "agent", json.dumps(CALL)))
        while not asking.done():
            began = time.perf_counter()
            await asyncio.sleep(0)
            gaps.append(time.perf_counter() - began)
        return asking.result()

    began = time.perf_counter()
    result = lab.loop.submit(beat()).result(60)
    print(
        f"\n30 000 envelopes in {time.perf_counter() - began:.2f} s, longest turn {max(gaps) * 1000:.1f} ms"
    )
    assert result.fresh == result.looked_at == 30_000 and result.refused == 30_000
    # Order, not figures: it took many turns, and half of them were short.
    assert len(gaps) > 20 and sorted(gaps)[len(gaps) // 2] < 10 * TURN


def test_a_question_that_is_not_wanted_any_more_ends_early(lab: Lab) -> None:
    raw = json.dumps({"id": "x", "from": "agent", "kind": "mcp/request", "payload": tool("git_log")})
    record = Record(1, datetime.now(UTC), "received", lab.space, "agent", verdict="refused", raw=raw)

    def fill() -> None:
        for _ in range(20_000):
            lab.log.observe(record)

    lab.loop.call(fill, timeout=60)
    assert ask(lab, CALL, wanted=lambda: False).looked_at < 20_000


@pytest.mark.ruling("R33", "R34")
@pytest.mark.threat(22)
def test_threat_22_paths_and_closed_arguments_are_counted_as_the_gateway_judges_them(lab: Lab) -> None:
    for arguments in (
        {"path": "src/a"},
        {"path": "src/../a"},
        {"path": "src/b", "force": True},
        {"path": "src/a\nb"},
    ):
        post(lab, "agent", "mcp/request", tool("write", **arguments))
    params = {"name": "write", "arguments": {"path": "src/**"}}
    pattern = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": params}}
    opened, closed = ask(lab, pattern), ask(lab, {**pattern, "x-closed": True})
    assert (opened.fresh, closed.fresh) == (2, 1)
    assert TEXT_ALONE in opened.warnings and TEXT_ALONE in closed.warnings
    assert "with no other arguments" in closed.phrase and not closed.barred
    assert TEXT_ALONE not in ask(lab, CALL).warnings
    lab.loop.submit(lab.granting.grant("agent", [{**pattern, "x-closed": True}])).result(20)
    more = ask(lab, pattern)
    assert more.adds and '"more1":true' in more.smallest
    assert not ask(lab, {**pattern, "x-closed": True}).adds


@pytest.mark.ruling("R34")
def test_where_the_gateway_ignores_closed_nobody_is_told_that_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "PATTERNS", ())
    lab = up()
    lab.join("agent", can="agent")
    params = {"name": "write", "arguments": {"path": "src/**"}}
    pattern = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": params}}
    assert "ignores x-closed" in ask(lab, {**pattern, "x-closed": True}).barred
    assert not ask(lab, pattern).barred


@pytest.mark.ruling("R34")
def test_what_is_nearly_a_closed_pattern_is_none() -> None:
    with pytest.raises(MewError, match="did you mean 'x-closed'"):
        read_pattern(json.dumps({**CALL, "x-close": True}))
