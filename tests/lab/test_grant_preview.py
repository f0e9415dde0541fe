"""Grants that are offered with a proposal: the narrowest pattern, what is confirmed, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import ConnectionLost, MewError, NoReply
from mew_lab.lab.decisions.alike import AlikeCalls
from mew_lab.lab.decisions.grant_preview import (
    EITHER,
    JUDGED_HERE,
    NOTHING_ELSE,
    OPEN_BESIDE,
    OPEN_WITHIN,
    OPEN_WORLD,
    GrantOffer,
    GrantOffers,
    literal,
    narrowest,
    remarks_of_values,
)
from mew_lab.lab.decisions.limited_grants import ENDS_HERE, LimitedGrants
from mew_lab.lab.invitations import invite
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.protocol.difference import differences
from mew_lab.protocol.permit import CapabilitySet, permit
from mew_lab.space import membership

from ..conftest import examples
from .looking import call, eventually, sent

Adding = Callable[[int, int], Any]


def offer(lab: Lab, offers: GrantOffers, id: str, **how: Any) -> GrantOffer:
    return lab.loop.submit(offers.offer(id, **({"values": True, "limit": "1 use"} | how))).result(10)


def card(lab: Lab, id: str) -> Any:
    """The card, which a view has shown."""
    found = lab.decisions.card(id)
    lab.decisions.record_shown(id, view="v", digest=found.digest)
    return found


def take(lab: Lab, offers: GrantOffers, id: str, *, digest: str, offer: str) -> str:
    """A click in the view that shows it."""
    taken = offers.take(id, digest=digest, offer=offer, click=lab.decisions.click("v"))
    return lab.loop.submit(taken).result(10)


@pytest.mark.threat(14, 22)
@pytest.mark.req("P-7.3-2")
def test_threat_22_the_proposal_is_approved_and_exactly_what_was_shown_is_granted(
    lab: Lab, adding: Adding
) -> None:
    offers = GrantOffers(lab, lab.granting)
    bot = lab.join("bot", can="proposer")
    for _ in range(2):
        bot.call("notebook/add", {"a": 1, "b": 5})
    pending = bot.call("notebook/add", {"a": 1, "b": 2})
    narrow = offer(lab, offers, pending.id)
    assert narrow.pattern == {
        "kind": "mcp/request",
        "to": "notebook",
        "payload": {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}},
        "x-closed": True,
    }
    assert (narrow.to, narrow.matches.count, narrow.remarks) == ("bot", 1, (NOTHING_ELSE,))
    wide = offer(lab, offers, pending.id, values=False, limit="10 min")
    assert wide.matches.count == 3 and "arguments" not in json.dumps(wide.pattern)
    assert wide.digest != narrow.digest
    said = str(take(lab, offers, pending.id, digest=card(lab, pending.id).digest, offer=narrow.digest))
    assert pending.result(10).structured == {"result": 3}
    [grant] = sent(lab, "capability/grant")
    assert grant["payload"]["capabilities"] == [narrow.pattern] and grant["payload"]["recipient"] == "bot"
    assert said.endswith(f"granted to bot (1 use), grant {grant['id']}")
    [given] = lab.granting.given
    assert (given.id, given.uses, given.ends) == (grant["id"], 1, None)


@pytest.mark.threat(14)
def test_threat_14_nothing_is_approved_or_granted_for_what_was_not_shown(lab: Lab, adding: Adding) -> None:
    offers = GrantOffers(lab, lab.granting)
    bot = lab.join("bot", can="proposer")
    first, second = (bot.call("notebook/add", {"a": n, "b": 2}) for n in (1, 2))
    shown = offer(lab, offers, first.id)
    for id, digest, key in (
        (first.id, card(lab, first.id).digest, "0" * 64),
        (second.id, card(lab, second.id).digest, shown.digest),
        (first.id, card(lab, second.id).digest, shown.digest),
    ):
        with pytest.raises(MewError):
            take(lab, offers, id, digest=digest, offer=key)
    assert sent(lab, "capability/grant") == [] == sent(lab, "mcp/request")


def test_a_grant_that_is_refused_is_told_and_the_approval_stands(tmp_path: Path) -> None:
    text = "space: {id: desk, owner: human}\nparticipants: {human: {capabilities: [{kind: mcp/*}, {kind: chat}]}}\n"
    (tmp_path / "space.yaml").write_text(text)
    lab = up(str(tmp_path / "space.yaml"))

    @lab.tool
    def add(a: int, b: int) -> int:
        "Sum of two numbers."
        return a + b

    offers = GrantOffers(lab, lab.granting)
    pending = lab.join("bot", can="proposer").call("notebook/add", {"a": 1, "b": 2})
    shown = offer(lab, offers, pending.id)
    with pytest.raises(MewError, match=r"Approved: .*; but nothing was granted to bot: .*capability/grant"):
        take(lab, offers, pending.id, digest=card(lab, pending.id).digest, offer=shown.digest)
    assert pending.result(10).structured == {"result": 3} and lab.granting.given == ()


def test_what_cannot_be_offered_is_refused_with_the_reason(lab: Lab, adding: Adding) -> None:
    offers = GrantOffers(lab, lab.granting)
    bot = lab.join("bot", can="proposer")
    listed = bot.propose("notebook/add", {"a": [1], "b": 2})
    with pytest.raises(MewError, match="a is a list"):
        offer(lab, offers, listed.id)
    with pytest.raises(MewError, match="no limit 'for ever'"):
        offer(lab, offers, listed.id, limit="for ever")
    with pytest.raises(MewError, match="no such proposal"):
        offer(lab, offers, "p-9")
    anybody = bot.send(
        "mcp/proposal", {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}
    )
    with pytest.raises(MewError, match="choose who runs it first"):
        offer(lab, offers, anybody.id)
    assert offer(lab, offers, anybody.id, target=("notebook",)).pattern["to"] == "notebook"


def test_every_limit_that_is_offered_can_be_granted() -> None:
    from mew_lab.lab.decisions.grant_preview import LIMITS

    lab = up()
    lab.join("bot", can="proposer")
    for minutes, uses in LIMITS.values():
        work = lab.granting.grant("bot", [{"kind": "chat"}], minutes=minutes, uses=uses)
        assert lab.loop.submit(work).result(10)


@pytest.mark.ruling("R25")
@pytest.mark.threat(38)
def test_an_offer_says_when_it_ends_only_with_this_notebook(
    lab: Lab, adding: Adding, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = lab.join("bot", can="proposer")
    pending = bot.call("notebook/add", {"a": 1, "b": 2})
    offers = GrantOffers(lab, lab.granting)
    assert ENDS_HERE not in offer(lab, offers, pending.id).remarks
    monkeypatch.setattr(LimitedGrants, "kept", False)
    assert ENDS_HERE in offer(lab, offers, pending.id).remarks
    assert ENDS_HERE not in offer(lab, offers, pending.id, limit="no end").remarks


@pytest.fixture
def plain_lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab in a space whose gateway does not know closed capabilities."""
    monkeypatch.setattr(membership, "PATTERNS", ())
    return up()


@pytest.mark.ruling("R34")
@pytest.mark.threat(22)
def test_where_the_gateway_ignores_closed_alike_calls_are_approved_in_this_lab(plain_lab: Lab) -> None:
    lab = plain_lab

    @lab.tool
    def add(a: int, b: int, force: bool = False) -> int:
        "Sum of two numbers."
        return a + b

    offers, bot = GrantOffers(lab, lab.granting), lab.join("bot", can="proposer")
    first = bot.call("notebook/add", {"a": 1, "b": 2})
    made = offer(lab, offers, first.id, limit="10 uses")
    assert made.here and made.pattern["x-closed"] is True and not made.ask
    assert NOTHING_ELSE in made.remarks and JUDGED_HERE in made.remarks and ENDS_HERE not in made.remarks
    allowed = take(lab, offers, first.id, digest=card(lab, first.id).digest, offer=made.digest)
    assert first.result(10).structured == {"result": 3}
    assert "alike calls of bot are approved in this lab (10 uses)" in str(allowed)
    assert "Alike calls of bot are approved in this lab" in lab.decisions.banner()
    for _ in range(2):
        assert bot.call("notebook/add", {"a": 1, "b": 2}).result(10).structured == {"result": 3}
    [rule] = lab.decisions.alike.standing
    assert rule.left == 8
    others = [
        bot.call("notebook/add", arguments)
        for arguments in ({"a": 1, "b": 2, "force": True}, {"a": 1, "b": 3}, {"a": 1})
    ]
    cat = lab.join("cat", can="proposer").call("notebook/add", {"a": 1, "b": 2})
    assert {one.id for one in lab.decisions.pending()} == {one.id for one in (*others, cat)}
    notes = [json.loads(one.detail) for one in lab.log.held if one.event == "decided"]
    assert [one["by"] for one in notes] == ["human", *["policy alike calls (alike-1)"] * 2]
    assert all(one["digest"] for one in notes)
    assert not any("x-closed" in (one.raw or "") for one in lab.log.held)
    assert "no longer approved here" in str(lab.undo())
    last = bot.call("notebook/add", {"a": 1, "b": 2})
    assert last.id in {one.id for one in lab.decisions.pending()} and not lab.decisions.banner()


@pytest.mark.ruling("R34")
@pytest.mark.threat(22)
@pytest.mark.parametrize(
    "fault", [NoReply("no word of it", after_s=1.0, waiting_for="add"), ConnectionLost("it broke")]
)
def test_a_rule_for_alike_calls_counts_an_approval_that_may_have_gone_out(
    plain_lab: Lab, monkeypatch: pytest.MonkeyPatch, fault: MewError
) -> None:
    lab, ran = plain_lab, list[int]()

    @lab.tool
    def add(a: int) -> int:
        "Counts its calls."
        ran.append(a)
        return a

    offers, bot = GrantOffers(lab, lab.granting), lab.join("bot", can="proposer")
    first = bot.call("notebook/add", {"a": 1})
    made = offer(lab, offers, first.id, limit="10 uses")
    take(lab, offers, first.id, digest=card(lab, first.id).digest, offer=made.digest)
    first.result(10)
    [rule] = lab.decisions.alike.standing
    lab.decisions.alike.count(rule, 9)  # one use is left
    send_accepted = lab.me.participant.send_accepted

    async def send(draft: Any, **options: Any) -> Any:
        await send_accepted(draft, **options)
        raise fault

    monkeypatch.setattr(lab.me.participant, "send_accepted", send)
    calls = [bot.call("notebook/add", {"a": 1}) for _ in range(4)]
    calls[0].result(10)
    waiting = {call.id for call in calls[1:]}
    eventually(lambda: waiting == {one.id for one in lab.decisions.pending() if one.state == "open"})
    assert (len(ran), rule.left, lab.decisions.alike.standing) == (2, 0, ())


@pytest.mark.ruling("R34")
@pytest.mark.threat(22)
def test_there_the_open_grant_is_given_only_after_a_second_press_that_says_so(plain_lab: Lab) -> None:
    lab = plain_lab

    @lab.tool
    def add(a: int, b: int) -> int:
        "Sum of two numbers."
        return a + b

    offers, bot = GrantOffers(lab, lab.granting), lab.join("bot", can="proposer")
    pending = bot.call("notebook/add", {"a": 1, "b": 2})
    asking = offer(lab, offers, pending.id, opened=True)
    assert asking.ask == "This gateway ignores 'nothing else'" and OPEN_WORLD in asking.remarks
    digest = card(lab, pending.id).digest
    with pytest.raises(MewError, match="offer is not known"):
        take(lab, offers, pending.id, digest=digest, offer=asking.digest)
    aware = offer(lab, offers, pending.id, opened=True, aware=True)
    assert not aware.ask and "x-closed" not in aware.pattern
    assert take(lab, offers, pending.id, digest=digest, offer=aware.digest)
    [grant] = sent(lab, "capability/grant")
    assert grant["payload"]["capabilities"] == [aware.pattern]


@pytest.mark.ruling("R34")
def test_no_verb_sends_a_closed_capability_to_a_gateway_that_ignores_it(plain_lab: Lab) -> None:
    lab = plain_lab
    lab.join("bot", can="proposer")
    closed = narrowest(("notebook",), call(a=1), values=True, closed=True)
    with pytest.raises(MewError, match="ignores x-closed"):
        lab.loop.submit(lab.granting.grant("bot", [closed])).result(10)
    with pytest.raises(MewError, match="ignores x-closed"):
        lab.loop.submit(invite(lab.me.participant, "eve", [closed])).result(10)
    assert sent(lab, "capability/grant") == [] and sent(lab, "space/invite") == []


def test_a_rule_for_alike_calls_ends_by_time_by_uses_and_with_its_tool() -> None:
    now = 0.0
    alike = AlikeCalls(clock=lambda: now)
    pattern = narrowest(("git",), call(repo="."), values=True, closed=True)

    def find(**arguments: Any) -> Any:
        return alike.find("bot", ("git",), call(**arguments), warnings=["odd"])

    alike.allow("bot", pattern, warnings=["odd"], minutes=1, uses=None)
    assert find(repo=".") and not find(repo=".", force=True)
    assert not alike.find("bot", ("git",), call(repo="."), warnings=["odd", "its description has changed"])
    now = 60.0
    assert not find(repo=".") and alike.standing == ()
    alike.allow("bot", pattern, warnings=["odd"], minutes=None, uses=1)
    rule = find(repo=".")
    alike.count(rule, 1)
    alike.count(rule, -1)  # it was not sent
    assert find(repo=".") is rule
    alike.count(rule, 1)
    assert not find(repo=".")
    alike.allow("bot", pattern, warnings=["odd"], minutes=None, uses=None)
    alike.end_of_tools("git", ["git_push"])
    assert find(repo=".")
    alike.end_of_tools("git", ["add"])
    assert not find(repo=".")


def test_it_names_the_method_the_tool_and_the_target() -> None:
    assert narrowest(("git",), call(repo=".", n=3), values=False) == {
        "kind": "mcp/request",
        "to": "git",
        "payload": {"method": "tools/call", "params": {"name": "add"}},
    }


def test_with_the_values_each_argument_has_to_have_its_own() -> None:
    pattern = narrowest(("git",), call(repo=".", n=3, deep={"a": True, "b": None}), values=True)
    assert pattern["payload"]["params"]["arguments"] == {"repo": ".", "n": 3, "deep": {"a": True, "b": None}}
    held = [pattern]
    assert permit(
        held, "mcp/request", to=["git"], payload=call(repo=".", n=3, deep={"a": True, "b": None})
    ).allowed
    for other in (
        call(repo="..", n=3, deep={"a": True, "b": None}),
        call(repo=".", n=4, deep={"a": True, "b": None}),
        call(repo=".", n=3, deep={"a": True}),
        call(repo="."),
        call("git_push", repo=".", n=3, deep={"a": True, "b": None}),
    ):
        assert not permit(held, "mcp/request", to=["git"], payload=other).allowed
    assert not permit(held, "mcp/request", to=["files"], payload=call(repo=".", n=3)).allowed
    assert not permit(held, "mcp/request", payload=call(repo=".", n=3)).allowed


VALUES = st.recursive(
    st.text("a/.*?!\\\n$é", max_size=6) | st.integers(-3, 3) | st.booleans() | st.none() | st.floats(-2, 2),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=2),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "path", "name", "arguments"]), VALUES, max_size=3)


@pytest.mark.ruling("R34")
@pytest.mark.threat(22)
@settings(max_examples=examples(500), deadline=None)
@given(asked=ARGUMENTS, other=ARGUMENTS, more=st.sampled_from(["_meta", "x", "task"]))
def test_what_a_preview_names_is_what_it_permits(
    asked: dict[str, Any], other: dict[str, Any], more: str
) -> None:
    held = CapabilitySet([narrowest(("git",), call(**asked), values=True, closed=True)])
    assert held.permit("mcp/request", ("git",), {"jsonrpc": "2.0", "id": 7, **call(**asked)}).allowed
    same = not differences(asked, other)  # 1 and 1.0 are one number
    assert held.permit("mcp/request", ("git",), call(**other)).allowed is same
    for name in asked:
        assert not held.permit("mcp/request", ("git",), call(**{**asked, f"{name}2": 1})).allowed
        rest = {key: value for key, value in asked.items() if key != name}
        assert not held.permit("mcp/request", ("git",), call(**rest)).allowed
    widened = call(**asked)
    widened["params"][more] = {"force": True}
    assert not held.permit("mcp/request", ("git",), widened).allowed
    assert not held.permit("mcp/request", ("git",), {**call(**asked), more: 1}).allowed


@pytest.mark.parametrize(
    ("payload", "params"),
    [
        (call(), {"name": "add"}),
        (call(opts={}), {"name": "add", "arguments": {"opts": {}}}),
        ({"method": "resources/read", "params": {"uri": "a://b"}}, {"uri": "a://b"}),
        (
            {"method": "tools/call", "params": {"name": "a", "_meta": {"progressToken": 1, "t": "x"}}},
            {"name": "a", "_meta": {"t": "x"}},
        ),
    ],
)
def test_a_closed_pattern_names_all_that_the_call_has(
    payload: dict[str, Any], params: dict[str, Any]
) -> None:
    pattern = narrowest((), payload, values=True, closed=True)
    assert pattern["payload"]["params"] == params
    assert permit([pattern], "mcp/request", payload=payload).allowed


@pytest.mark.threat(22)
@pytest.mark.parametrize(
    "text", ["*", "**", "a?c", "src/*.py", "!x", "/a+/", "/tmp/", "!", "//", "", "a*\n\u202e é[x]"]
)
def test_threat_22_text_that_reads_like_a_pattern_means_itself_alone(text: str) -> None:
    pattern = {"kind": "x", "payload": {"a": literal(text, "it")}}
    assert permit([pattern], "x", payload={"a": text}).allowed
    for other in ("abc", "src/m.py", "a", "y", "/tmp", "tmp", "*x"):
        assert other == text or not permit([pattern], "x", payload={"a": other}).allowed


@pytest.mark.threat(22)
def test_threat_22_a_tool_called_like_a_wildcard_grants_no_other_tool() -> None:
    pattern = narrowest(("git",), call("*"), values=False)
    assert permit([pattern], "mcp/request", to=["git"], payload=call("*")).allowed
    assert not permit([pattern], "mcp/request", to=["git"], payload=call("git_push")).allowed


@pytest.mark.threat(22)
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("to", [("fs", "*"), ("*",), ("!zz",), ("/.*/",), ("f*",), ("**", "?s")])
def test_threat_22_an_addressee_that_reads_like_a_pattern_means_itself_alone(
    to: tuple[str, ...], values: bool
) -> None:
    asked = call(path="a")
    held = [narrowest(to, asked, values=values)]
    assert permit(held, "mcp/request", to=list(to), payload=asked).allowed
    for other in (["git"], ["fs", "git"], ["zz"], ["files"], [*to, "git"]):
        assert not permit(held, "mcp/request", to=other, payload=asked).allowed


@pytest.mark.threat(22)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "a pattern without arguments means any arguments"),
        ({"files": ["a"]}, "files is a list"),
        ({"opts": {}}, "opts is an empty object"),
        ({"a": {"b": [1]}}, "a.b is a list"),
        ({"*": 1}, "reads like a wildcard"),
        ({"$.x": 1}, "reads like a wildcard"),
        ({"x": "*" * 300}, "cannot be expressed by a pattern"),
    ],
)
def test_threat_22_what_no_pattern_can_say_is_not_offered(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(MewError, match="Cannot grant exactly this") as caught:
        narrowest(("git",), call(**arguments), values=True)
    assert says in str(caught.value)


@pytest.mark.threat(22)
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("params", [None, {}, {"name": 7}, {"name": ["add", "x"]}, {"name": ""}])
def test_threat_22_a_call_that_names_no_tool_grants_no_tool_at_all(
    params: dict[str, Any] | None, values: bool
) -> None:
    asked = {"method": "tools/call", "params": params and {**params, "arguments": {"a": 1}}}
    with pytest.raises(MewError, match="names no tool"):
        narrowest(("git",), asked, values=values)


VALUES = st.recursive(
    st.integers(-9, 9) | st.booleans() | st.text("ab/.", max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("ab"), inner, min_size=1, max_size=2),
    max_leaves=4,
)


def widened(payload: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The call with one more member in each place, and the remark that is due where that is allowed."""

    def more(value: dict[str, Any], *path: str) -> dict[str, Any]:
        return {**value, path[0]: more(value[path[0]], *path[1:])} if path else {**value, "added": "x"}

    def objects(value: Any, *path: str) -> Iterator[tuple[str, ...]]:
        if isinstance(value, dict):
            yield path
            for key, inner in value.items():
                yield from objects(inner, *path, key)

    yield OPEN_BESIDE, more(payload)
    yield OPEN_BESIDE, more(payload, "params")
    yield OPEN_BESIDE, {**payload, "params": {**payload["params"], "_meta": {"added": 1}}}
    for path in objects(payload["params"]["arguments"]):
        yield OPEN_WITHIN if path else OPEN_WORLD, more(payload, "params", "arguments", *path)


@pytest.mark.threat(22)
@pytest.mark.ruling("R34")
@given(st.dictionaries(st.sampled_from("ab"), VALUES, min_size=1, max_size=2), st.booleans())
def test_threat_22_each_member_that_an_exact_grant_leaves_free_has_its_remark(
    arguments: dict[str, Any], closed: bool
) -> None:
    payload = call(**arguments)
    held = CapabilitySet([narrowest(("git",), payload, values=True, closed=closed)])
    remarks = remarks_of_values(payload, closed=closed)
    assert held.permit("mcp/request", ("git",), payload)
    allowed = {remark for remark, more in widened(payload) if held.permit("mcp/request", ("git",), more)}
    assert allowed == set(remarks) & {OPEN_WORLD, OPEN_WITHIN, OPEN_BESIDE}
    assert (NOTHING_ELSE in remarks) == (not allowed) == closed


@pytest.mark.threat(22)
def test_threat_22_that_one_of_several_addressees_may_be_called_alone_is_remarked(lab: Lab) -> None:
    offers, bot = GrantOffers(lab, lab.granting), lab.join("bot", can="proposer")
    payload = call(a=1)
    id = bot.send("mcp/proposal", payload, to=["git", "web"]).id
    eventually(lambda: lab.me.participant.proposals.get(id))
    for values in (True, False):
        made = offer(lab, offers, id, values=values)
        assert EITHER in made.remarks and CapabilitySet([made.pattern]).permit(
            "mcp/request", ("web",), payload
        )


def test_a_method_without_a_tool_and_several_addressees() -> None:
    payload = {"method": "resources/list", "params": None}
    assert narrowest(("a", "b"), payload, values=False) == {
        "kind": "mcp/request",
        "to": ["a", "b"],
        "payload": {"method": "resources/list"},
    }


@pytest.mark.threat(20, 22)
def test_threat_22_read_only_tools_are_allowed_by_name_and_only_where_the_tool_is_listed_as_one(
    lab: Lab,
) -> None:
    from mew_lab.sdk.tools import ToolBox

    box = ToolBox(name="store")

    def read(key: str) -> str:
        "Reads."
        return key

    def count() -> int:
        "Counts."
        return 1

    def drop(key: str) -> str:
        "Drops."
        return key

    for function, hints in (
        (read, {"readOnlyHint": True}),
        (count, {"readOnlyHint": True}),
        (drop, {"destructiveHint": True}),
    ):
        box.add(function, annotations=hints)
    lab.loop.run(lab.local.join("store", "tool", what="a test", tools=box), timeout=10, doing="joining")
    offers, bot = GrantOffers(lab, lab.granting), lab.join("bot", can="proposer")
    reading, dropping = bot.call("store/read", {"key": "a"}), bot.call("store/drop", {"key": "a"})
    assert card(lab, reading.id).hints == ("read-only",) and card(lab, reading.id).about == "Reads."
    dropped = card(lab, dropping.id)  # what destroys is told once, as a warning
    assert dropped.hints == () and "destroys: the tool says so itself (annotations)" in dropped.warnings
    made = offer(lab, offers, reading.id, values=False, read_only=True, limit="this session")
    assert made.pattern == {
        "kind": "mcp/request",
        "to": "store",
        "payload": {"method": "tools/call", "params": {"name": ["count", "read"]}},
    }
    assert any("by the word of store alone" in remark for remark in made.remarks)
    assert any("when this lab goes down" in remark for remark in made.remarks)
    with pytest.raises(MewError, match="drop is not listed as one of them"):
        offer(lab, offers, dropping.id, values=False, read_only=True)
    take(lab, offers, reading.id, digest=card(lab, reading.id).digest, offer=made.digest)
    assert reading.result(10).text == "a"
    assert (
        bot.call("store/count").kind == "mcp/request"
        and bot.call("store/drop", {"key": "b"}).kind == "mcp/proposal"
    )
    # It ends with this lab, though the gateway would keep it for hours.
    lab.loop.run(lab.granting.close(), timeout=10, doing="closing")
    eventually(lambda: bot.call("store/count").kind == "mcp/proposal")
