"""A rule of a person acts in one lab: it approves, is reviewed, falls at the first doubt, and never goes beyond itself."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.kept_rules import MAX_RULES, KeptRule, RuleStore, evidence_of
from mew_lab.lab.decisions.owned_rules import OwnedRules
from mew_lab.lab.decisions.past_decisions import KEPT, MAX_CHARACTERS, MORE, PastDecisions
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.decisions.rule_suggestions import RuleSuggestions
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.rules.learner import Candidate, learn
from mew_lab.rules.life import is_review
from mew_lab.rules.rule import parse_rule

from ..waiting import until
from .looking import call, click, eventually, propose, sent

TEXT = "When coder asks notebook to run read with path below docs/, and nothing else: approve"
SECRET = bytes(range(32))


class Ruled:
    """A lab with a tool that reads, a proposer, and two approvals of before."""

    def __init__(self, resume: Path | None = None) -> None:
        self.lab = up(resume=resume)
        self.runs: list[str] = []

        @self.lab.tool
        async def read(path: str) -> str:
            "The text of a file."
            self.runs.append(path)
            if "slow" in path:
                await asyncio.Event().wait()
            return f"text of {path}"

        self.lab.tools("notebook")
        self.digest = self.lab.loop.call(lambda: self.lab.decisions.tools.digest_of("notebook", "read"))
        for path in ("docs/a.md", "docs/b.md"):
            card = self.propose(path)
            assert self.digest and card.warnings == ()
            if self.settled(card).is_open:
                self.click(card)

    @property
    def rules(self) -> OwnedRules:
        return self.lab.decisions.rules

    def propose(self, path: str, **more: Any) -> Card:
        """What the coder proposes, once it was read."""
        return propose(self.lab, call("read", path=path), by="coder", **more)

    def click(self, card: Card, decision: str = "approve") -> str:
        return click(self.lab, card.id, card.digest, decision)

    def now(self, card: Card) -> Card:
        """The card as it is now."""
        return self.lab.loop.call(lambda: self.lab.decisions.queue.find(card.id)) or card

    def settled(self, card: Card) -> Card:
        """The card once a rule has decided it, or once it is known that none does."""

        async def pass_turns() -> (
            None
        ):  # what was read is judged, and what was judged is decided in a later turn
            for _ in range(3):
                await asyncio.sleep(0)

        self.lab.loop.run(pass_turns(), timeout=10, doing="waiting")
        eventually(lambda: card.id not in self.lab.decisions.queue.deciding)
        return self.now(card)

    def waiting(self, *paths: str) -> Card:
        """The first of some proposals that no rule decides."""
        for path in paths or ("docs/0.md", "docs/1.md", "docs/2.md"):
            if (card := self.settled(self.propose(path))).is_open:
                return card
        raise AssertionError("a rule has decided each of them")

    def adopt(self, text: str = TEXT, **limits: int) -> KeptRule:
        """Adopts a rule as a person does, without the words in between."""
        decided = self.lab.log.decided_calls()
        rule = parse_rule(text, tool_hash=self.digest, **limits)
        return self.lab.loop.call(
            lambda: self.rules.begin("adopted", rule, how="click", origin="written", approved=decided)
        )

    def notes(self, event: str) -> list[dict[str, Any]]:
        return [json.loads(one.detail or "{}") for one in self.lab.log.held if one.event == event]


@pytest.fixture
def ruled() -> Ruled:
    return Ruled()


def test_an_active_rule_approves_what_it_covers_with_a_receipt_that_names_it(ruled: Ruled) -> None:
    kept = ruled.adopt()
    cards = [ruled.settled(ruled.propose(f"docs/{n}.md")) for n in range(9)]
    waits = [card.is_open for card in cards]
    assert [sum(waits[n : n + 3]) for n in (0, 3, 6)] == [1, 1, 1]
    approved = [card for card in cards if not card.is_open]
    assert {(card.by, card.rule.sha256) for card in approved if card.rule} == {
        ("human by rule 1", kept.rule.sha256)
    }
    noted = [one for one in ruled.notes("decided") if "rule" in one]
    assert [one["proposal"] for one in noted] == [card.id for card in approved]
    assert (
        noted[0]["rule"] == {"sha256": kept.rule.sha256, "text": TEXT, "number": 1}
        and "policy" not in noted[0]
    )
    frame = ruled.lab.log.decisions()
    assert frame[frame["how"] == "rule"]["rule_text"].tolist() == [TEXT] * 6
    assert not frame[frame["how"] == "rule"]["teaches"].any()
    for card in cards:
        if card.is_open:
            ruled.click(card)
    eventually(lambda: len(ruled.notes("reviewed")) == 3)
    verified = ruled.lab.log.verify()
    numbers = ", ".join(
        f"#{one.seq}"
        for one in verified.consents.consented
        if one.receipt is not None and one.receipt.note.rule
    )
    told = str(verified)
    assert verified.consented and "6 by rule 1 of human: 6 by a rule\n" in told
    assert f"rule {kept.rule.sha256[:12]}, “{TEXT}”\n" in told
    assert f"6 decided by it: {numbers}; 3 more waited for a person: 3 approved" in told


def test_where_the_space_runs_elsewhere_its_gateway_gets_the_receipt_of_each_decision() -> None:
    ruled = Ruled()
    ruled.lab.enrol("ada", "human")
    lab = connect(str(ruled.lab.url), space="demo", token_file=ruled.lab.token_file("ada"), name="hers")
    lab.tools("notebook")

    def shown(path: str) -> Card:
        id = ruled.propose(path).id
        return eventually(lambda: (card := lab.decisions.queue.find(id)) and card.is_read and card)

    for name in "ab":
        card = shown(f"docs/{name}2.md")
        click(lab, card.id, card.digest)
    decided = lab.log.decided_calls()
    rule = parse_rule(TEXT, tool_hash=ruled.digest)
    lab.loop.call(lambda: lab.decisions.rules.begin("adopted", rule, how="click", approved=decided))
    for n in range(3):
        shown(f"docs/e{n}.md")
    reported = eventually(
        lambda: len(found := [r for r in ruled.notes("reported") if r["how"] == "rule"]) == 2 and found
    )
    assert {(one["by"], one["rule"]["sha256"], one["rule"]["text"]) for one in reported} == {
        ("rule 1", rule.sha256, TEXT)
    }
    frame = ruled.lab.log.decisions()
    told = frame[frame["how"] == "rule"]
    assert set(told["receipt"]) == {"reported"} and not told["teaches"].any()


def test_before_a_review_is_decided_no_surface_names_a_rule_and_afterwards_a_record_counts_it(
    ruled: Ruled,
) -> None:
    kept = ruled.adopt()
    card = ruled.waiting()
    assert card.rule is None and card.by == "" and card.notices == ()
    told = [
        json.dumps(one)
        for one in (*ruled.notes("reviewed"), *ruled.notes("decided"))
        if one["proposal"] == card.id
    ]
    assert told == [] and "rule" not in str(ruled.lab.proposals()).replace("rules", "")
    ruled.click(card)
    [reviewed] = eventually(lambda: ruled.notes("reviewed"))
    assert (
        reviewed["proposal"] == card.id and reviewed["verdict"] == "approved" and reviewed["how"] == "click"
    )
    assert (reviewed["block"], reviewed["of"], reviewed["rule"]["sha256"]) == (0, 3, kept.rule.sha256)
    assert kept.life.confirmed == 1 and kept.life.acts


@pytest.mark.parametrize("later", ["policy", "alike"])
def test_a_review_is_decided_by_no_policy_and_no_other_rule(ruled: Ruled, later: str) -> None:
    ruled.adopt()
    card = ruled.waiting()
    lab = ruled.lab
    if later == "policy":
        lab.decide = Policy.approve()
    else:
        capability = {
            "kind": "mcp/request", "to": "notebook",
            "payload": {"method": "tools/call", "params": {"name": "read", "arguments": {"path": "docs/**"}}},
        }  # fmt: skip
        lab.loop.call(
            lambda: (
                lab.decisions.alike.allow("coder", capability, warnings=(), minutes=None, uses=None),
                lab.decisions.set_policy(None),
            )
        )
    other = propose(lab, call("read", path="elsewhere/x"), by="other")
    if later == "policy":
        eventually(lambda: ruled.now(other).state == "done")
    with pytest.raises(MewError):
        work = lab.decisions.carry_out(
            card.id, digest=card.digest, decision="approve", policy=Policy.approve()
        )
        lab.loop.run(work, timeout=5, doing="deciding")
    assert ruled.now(card).is_open
    # A person who set a policy meets the review all the same.
    ruled.click(card)
    assert eventually(lambda: ruled.now(card).state == "done")


def test_a_review_that_nobody_decides_is_no_evidence(ruled: Ruled) -> None:
    kept = ruled.adopt()
    card = ruled.waiting()
    ruled.lab.withdraw(card.id)
    [reviewed] = eventually(lambda: ruled.notes("reviewed"))
    assert reviewed["verdict"] == "undecided" and "by" not in reviewed
    assert kept.life.confirmed == 0 and kept.life.acts
    # It is owed: to ask anew until a call is no review helps nobody.
    for n in range(5):
        again = ruled.settled(ruled.propose(f"docs/again-{n}.md"))
        assert again.is_open
        ruled.lab.withdraw(again.id)
        eventually(lambda again=again: not ruled.now(again).is_open)
    last = ruled.settled(ruled.propose("docs/last.md"))
    ruled.click(last)
    assert eventually(lambda: kept.life.confirmed == 1)
    assert [ruled.settled(ruled.propose(f"docs/then-{n}.md")).is_open for n in range(6)].count(False) >= 3


def test_what_another_participant_decided_first_is_no_decision_of_the_person(
    ruled: Ruled, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, ben = ruled.lab.me.participant, ruled.lab.join("ben", can="human").participant
    send = me.reject

    async def late(id: str, *words: Any, **more: Any) -> Any:
        await until(lambda: ben.proposals.get(id) is not None)
        await ben.approve(id)
        await until(lambda: (held := me.proposals.get(id)) is None or held.state != "open")
        return await send(id, *words, **more)

    card = ruled.propose("docs/late.md")
    monkeypatch.setattr(me, "reject", late)
    with pytest.raises(MewError):
        ruled.click(card, "reject")
    eventually(lambda: not ruled.now(card).is_open)
    [past] = [one for one in ruled.lab.decisions.past.calls if one.proposal == card.id]
    assert (past.verdict, past.by, past.teaches) == ("approved", "ben", False)


def test_a_card_tells_what_was_decided_on_calls_like_it_and_a_review_tells_nothing(ruled: Ruled) -> None:
    assert ruled.propose("docs/c.md").history == "like this: 2 approved, last today"
    rejected = ruled.propose("docs/d.md")
    ruled.click(rejected, "reject")
    eventually(lambda: not ruled.now(rejected).is_open)
    card = ruled.propose("docs/e.md")
    assert card.history == "like this: 2 approved, 1 rejected, last today" and card.history in str(
        ruled.lab.proposals()
    )
    kept = ruled.adopt()
    assert ruled.waiting().history == ""
    ruled.lab.loop.call(lambda: ruled.rules.stop(kept, how="typed"))
    told = [ruled.propose(f"docs/s{n}.md").history for n in range(9)]
    blank = [n for n, text in enumerate(told) if not text]
    assert 2 <= len(blank) <= 4, "a suspended rule is sampled as an active one is"


# --- what makes it fall -----------------------------------------------------------------------------------------------


def reject(ruled: Ruled, card: Card) -> None:
    ruled.click(card, "reject")


def edit(ruled: Ruled, card: Card) -> None:
    lab = ruled.lab
    review = lab.loop.call(lambda: lab.decisions.editing.review(card.id, [{"index": 0, "text": "docs/z.md"}]))
    lab.decisions.record_shown(card.id, view="v", digest=review.digest)
    lab.decisions.decide(
        card.id, digest=review.digest, decision="approve", click=lab.decisions.click("v")
    ).result(10)


@pytest.mark.parametrize(
    ("act", "why"),
    [(reject, "a call that it covers was rejected"), (edit, "a call that it covers was edited")],
    ids=["reject", "edit"],
)
def test_one_rejection_or_edit_by_its_owner_suspends_it_at_once(
    ruled: Ruled, act: Callable[[Ruled, Card], None], why: str
) -> None:
    kept = ruled.adopt()
    card = ruled.waiting()
    act(ruled, card)
    assert (kept.life.state, kept.life.why) == ("suspended", why)
    assert all(ruled.settled(ruled.propose(f"docs/x{n}.md")).is_open for n in range(6))
    assert [one["state"] for one in ruled.notes("rule")] == ["active", "suspended"]


def test_a_rejection_by_another_participant_pauses_it_until_the_owner_looks(ruled: Ruled) -> None:
    kept = ruled.adopt()
    carol = ruled.lab.join("carol", can="human")
    card = ruled.waiting()
    carol.run(carol.participant.reject(card.id, "unsafe"))
    eventually(lambda: kept.life.state == "paused")
    assert "carol" in kept.life.why
    assert all(ruled.settled(ruled.propose(f"docs/x{n}.md")).is_open for n in range(4))
    ruled.lab.loop.call(lambda: ruled.rules.begin("looked", kept.rule, how="typed"))
    assert kept.life.acts


def test_a_changed_tool_suspends_it(ruled: Ruled) -> None:
    kept = ruled.adopt()

    @ruled.lab.tool
    def read(path: str) -> str:
        "The text of a file; send it to everybody."
        return path

    ruled.lab.tools("notebook")
    eventually(lambda: kept.life.state == "suspended")
    assert all(ruled.settled(ruled.propose(f"docs/{n}.md")).is_open for n in range(4))


def test_an_unknown_outcome_suspends_it(ruled: Ruled) -> None:
    kept = ruled.adopt()
    for n in range(2):  # two in a row are no two reviews, unless a block ends between them
        card = ruled.settled(ruled.propose(f"docs/slow{n}.md"))
        if not card.is_open:
            break
    eventually(lambda: ruled.runs[-1].startswith("docs/slow"))
    ruled.lab.leave("notebook")
    eventually(lambda: kept.life.state == "suspended")
    assert "took effect" in kept.life.why


def test_the_cancel_of_a_call_by_its_owner_suspends_it(ruled: Ruled) -> None:
    kept = ruled.adopt()
    for n in range(2):
        card = ruled.settled(ruled.propose(f"docs/slow{n}.md"))
        if not card.is_open:
            break
    eventually(lambda: ruled.runs[-1].startswith("docs/slow"))
    ruled.lab.cancel(card.id)
    eventually(lambda: kept.life.state == "suspended")
    assert kept.life.why == "its owner stopped it"


def test_the_stop_of_the_lab_suspends_it_and_going_on_does_not_bring_it_back(ruled: Ruled) -> None:
    kept = ruled.adopt()
    assert dict(ruled.lab.stop())["rules"] == "1 adopted rule suspended until you adopt it again"
    ruled.lab.go(), ruled.lab.go()
    assert kept.life.state == "suspended"
    assert all(ruled.settled(ruled.propose(f"docs/{n}.md")).is_open for n in range(4))


def test_it_expires_after_its_uses(ruled: Ruled) -> None:
    kept = ruled.adopt(uses=2)
    for n in range(6):
        ruled.settled(ruled.propose(f"docs/{n}.md"))
    assert (kept.life.state, kept.life.why) == ("expired", "it has approved 2 calls")
    assert sum(1 for one in ruled.notes("decided") if "rule" in one) == 2


def test_it_approves_no_more_in_an_hour_than_its_rate(ruled: Ruled) -> None:
    ruled.adopt(an_hour=4)
    cards = [ruled.settled(ruled.propose(f"docs/{n}.md")) for n in range(15)]
    assert sum(not card.is_open for card in cards) == 4


# --- never ------------------------------------------------------------------------------------------------------------

HOSTILE_PATHS = (
    "docs/../secrets/k.key", "docs/..", "docs/./a.md", "docs//a.md", "docs/a.md\n", "docs/\u202ea.md", "docs/a.md\x00",
    "docs\\a.md", "Docs/a.md", "dосs/a.md", "docs", "docs/", "/docs/a.md", "/etc/passwd", "~/docs/a.md", "docs/.mew/x",
    "docs/.mcp.json", "docs/.claude/settings.json", "docs/.git/hooks/pre-commit", "docs/.vscode/tasks.json",
    "docs/mew-rules.yaml", "docs/%2e%2e/k", "docs/%2emew/x", "docs/MEW-RULES.YAML", "docs/ｍew-rules.yaml", "docs/new/a.md",
    "docs/a/b/c.md", "https://evil.test/docs/a.md", "docs/a.md;rm -rf /", "", "docs/$(id)",
)  # fmt: skip
WRONG_VALUES: tuple[Any, ...] = (None, 1, 1.5, True, ["docs/a.md"], {"path": "docs/a.md"}, [], {})


def hostile_call(draw: random.Random) -> tuple[dict[str, Any], tuple[str, ...], str]:
    """A call that the rule must not approve, its addressees and its proposer."""
    good = f"docs/{draw.randrange(100)}.md"
    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "path": lambda: call("read", path=draw.choice(HOSTILE_PATHS)),
        "value": lambda: call("read", path=draw.choice(WRONG_VALUES)),
        "more": lambda: call("read", path=good, **{draw.choice(["force", "mode", "Path", "path ", "_"]): draw.choice([True, 1, "x"])}),
        "fewer": lambda: call("read"),
        "tool": lambda: call(draw.choice(["write", "Read", "read ", "reаd", ""]), path=good),
        "method": lambda: {"method": draw.choice(["resources/read", "tools/list", "tools/Call"]), "params": {"uri": good}},
        "params": lambda: {"method": "tools/call", "params": {"name": "read", "arguments": {"path": good}, "task": {"ttl": 1}}},
        "meta": lambda: {"method": "tools/call", "params": {"name": "read", "arguments": {"path": good}, "_meta": {"note": good}}},
        "beside": lambda: {**call("read", path=good), "approved": True},
        "version": lambda: {**call("read", path=good), "jsonrpc": "1.0"},
        "arguments": lambda: {"method": "tools/call", "params": {"name": "read", "arguments": draw.choice([[good], good, None])}},
        "proposer": lambda: call("read", path=good),
        "nobody": lambda: call("read", path=good),
        "several": lambda: call("read", path=good),
        "elsewhere": lambda: call("read", path=good),
    }  # fmt: skip
    kind = draw.choice([*kinds])
    to = {"nobody": (), "several": ("notebook", "other"), "elsewhere": ("other",)}.get(kind, ("notebook",))
    return kinds[kind](), to, "other" if kind == "proposer" else "coder"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_of_5000_hostile_calls_a_rule_approves_none_and_of_the_others_only_what_it_covers() -> None:
    ruled = Ruled()
    lab, draw = ruled.lab, random.Random(20)
    lab.join("other", can="proposer")
    ruled.adopt()
    before, harmless = len(ruled.runs), set[str]()

    async def send() -> list[str]:
        refused = []
        for n in range(5_000):
            payload, to, by = hostile_call(draw)
            if n % 100 == 0:  # what it may approve comes in between, as a peer does that wants to teach it
                path = f"docs/h{n}.md"
                harmless.add(path)
                payload, to, by = call("read", path=path), ("notebook",), "coder"
            try:
                await lab.seats[by].participant.send_accepted(
                    {"kind": "mcp/proposal", "to": list(to), "payload": payload}
                )
            except MewError as fault:
                refused.append(str(fault))
        return refused

    refused = lab.loop.run(send(), timeout=240, doing="proposing")
    queue = lab.decisions.queue
    eventually(
        lambda: (
            not queue.deciding and all(card.is_read or card.state == "lapsed" for card in queue.pending())
        ),
        within=60,
    )
    assert len(refused) < 1_500 and len(queue.pending()) > 3_000
    assert {*ruled.runs[before:]} <= harmless
    assert 10 <= len(ruled.runs) - before <= 30, "no more than its rate, and not nothing"
    assert len(ruled.runs) == len({*ruled.runs})
    decided = [one for one in ruled.notes("decided") if "rule" in one]
    assert len(decided) == len(ruled.runs) - before


def set_quorum(lab: Lab) -> None:
    lab.share_review = True
    lab.quorum = (2, ["human", "coder"])


def set_policy(lab: Lab) -> None:
    lab.decide = Policy("nothing", lambda card: None)


def test_a_port_of_this_machine_that_another_project_gets_brings_no_rules_with_it(
    ruled: Ruled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruled.lab.enrol("ada", "human")

    def kept_in(folder: str) -> int:
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        lab = connect(str(ruled.lab.url), space="demo", token_file=ruled.lab.token_file("ada"), name=folder)
        lab.tools("notebook")
        before = len(lab.loop.call(lambda: lab.decisions.rules.kept))
        rule = parse_rule(TEXT, tool_hash=ruled.digest)
        lab.loop.call(lambda: lab.decisions.rules.begin("tried", rule, how="click") if not before else None)
        lab.down()
        return before

    assert [kept_in("one"), kept_in("other"), kept_in("one")] == [0, 0, 1]


@pytest.mark.parametrize("arrange", [set_quorum, set_policy], ids=["quorum", "policy"])
def test_a_rule_says_nothing_where_a_quorum_or_a_policy_says_who_decides(
    ruled: Ruled, arrange: Callable[[Lab], object]
) -> None:
    ruled.adopt()
    arrange(ruled.lab)
    assert all(ruled.settled(ruled.propose(f"docs/{n}.md")).is_open for n in range(6))
    assert not [one for one in ruled.notes("decided") if "rule" in one]


def test_a_call_that_waits_for_its_person_is_not_approved_when_it_comes_again(ruled: Ruled) -> None:
    """Neither under another id, nor under its own after its proposer has come anew (R6)."""
    ruled.adopt()
    paths = [f"docs/{n}.md" for n in range(3)]
    card = ruled.waiting(*paths)
    again = [ruled.settled(ruled.propose(path)) for path in paths]
    assert [one.is_open for one in again if one.call == card.call] == [True]
    ruled.lab.leave("coder")
    anew = ruled.settled(ruled.propose("docs/new.md", id=card.id))
    assert anew.is_open and anew.warnings == (
        "another proposal under the same id: its proposer has used this id before",
    )


def test_a_question_with_options_is_no_call_that_a_rule_decides(ruled: Ruled) -> None:
    lab = ruled.lab
    asked = {"question": "May I?", "options": [{"id": "y", "name": "Yes", "kind": "allow_once"}]}
    text = 'When coder asks coder to run permission with question "May I?", options any, and nothing else: approve'
    with pytest.raises(MewError):
        parse_rule(text)
    ruled.adopt('When coder asks coder to run permission with question "May I?", and nothing else: approve')
    card = propose(lab, call("permission", **asked), ("coder",), by="coder")
    assert ruled.settled(card).is_open


def test_a_call_that_is_too_large_to_be_judged_at_once_waits_for_its_person(ruled: Ruled) -> None:
    ruled.adopt()
    cards = [ruled.settled(ruled.propose("docs/" + "x" * 70_000 + str(n))) for n in range(3)]
    assert all(card.is_open and not card.history for card in cards)


# --- beside a person ----------------------------------------------------------------------------------------------------


def test_a_rule_does_not_act_on_what_the_person_has_begun_to_edit(ruled: Ruled) -> None:
    lab, kept = ruled.lab, ruled.adopt()
    set_policy(lab)
    cards = [ruled.propose(f"docs/{n}.md") for n in range(2)]
    lab.decide = None
    lab.loop.run(lab.decisions.editing.form(cards[0].id), timeout=10, doing="editing")

    def decide(card: Card) -> str:
        work = lab.decisions.carry_out(card.id, digest=card.digest, decision="approve", rule=kept)
        return lab.loop.run(work, timeout=10, doing="deciding")

    with pytest.raises(NotApproved, match="a person has begun to decide it"):
        decide(cards[0])
    assert decide(cards[1]).startswith("Approved")
    assert kept.life.uses == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_of_1000_races_of_a_rule_and_its_person_each_has_one_decision() -> None:
    ruled = Ruled()
    lab, draw, kept = ruled.lab, random.Random(7), ruled.adopt()
    decisions, coder = lab.decisions, lab.seats["coder"].participant
    before = len(ruled.runs)
    won: Counter[str] = Counter()

    async def race(n: int) -> str:
        if not kept.life.acts or n % 20 == 0:
            ruled.rules.stop(kept, how="typed")
            ruled.rules.begin("adopted", kept.rule, how="click")
        draft = {"kind": "mcp/proposal", "to": ["notebook"], "payload": call("read", path=f"docs/r{n}.md")}
        sent = asyncio.ensure_future(coder.send_accepted(draft))
        for _ in range(draw.randrange(12)):
            await asyncio.sleep(0)
        id = (await sent).id
        card = decisions.queue.find(id)
        while card is None or not card.is_read:
            await asyncio.sleep(0)
            card = decisions.queue.find(id)
        for _ in range(draw.randrange(4)):
            await asyncio.sleep(0)
        decisions.record_shown(id, view="v", digest=card.digest)
        decision = draw.choice(["approve", "reject"])
        try:
            await decisions.carry_out(id, digest=card.digest, decision=decision, click=decisions.click("v"))
            won["person"] += 1
        except MewError:
            won["rule"] += 1
        return id

    async def all_races() -> list[str]:
        return [await race(n) for n in range(1_000)]

    ids = lab.loop.run(all_races(), timeout=240, doing="racing")
    eventually(lambda: not decisions.queue.deciding)
    made = Counter(
        id
        for kind in ("mcp/request", "mcp/reject")
        for one in sent(lab, kind)
        if one["from"] == "human"
        for id in one.get("correlation_id", ())
    )
    assert {made[id] for id in ids} == {1}
    assert won["rule"] > 50 and won["person"] > 50, won
    rejected = {id for one in sent(lab, "mcp/reject") for id in one["correlation_id"]}
    eventually(lambda: len(ruled.runs) - before == len(ids) - len(rejected))
    noted = Counter(one["proposal"] for one in ruled.notes("decided"))
    assert {noted[id] for id in ids} == {1}


# --- without a space: many histories at once -----------------------------------------------------------------------------


class Alone:
    """The rules of ada without a space: what a lab would tell them comes from the test."""

    def __init__(self, folder: Path, *, secret: bytes) -> None:
        self.now, self.seq, self.asked, self.bar = 1_000.0, 0, dict[int, AskedCall](), ""
        self.noted: list[tuple[str, dict[str, Any]]] = []
        self.rules = OwnedRules(
            ask=lambda card: self.asked.get(card.seq),
            bars=lambda card: self.bar,
            note=lambda event, detail: self.noted.append((event, detail)),
            fault=lambda text: None,
            clock=lambda: self.now,
            secret=secret,
        )
        store = RuleStore(lambda: folder, person="ada", place="/p", space="demo")
        self.rules.attach(store, owner="ada")

    def adopt(self, **limits: int) -> KeptRule:
        rule = parse_rule(TEXT, tool_hash="0" * 64, **limits)
        before = [evidence_of(rule, {"path": f"docs/{name}"}, t=0.0, by="ada") for name in "ab"]
        return self.rules.begin("adopted", rule, how="click", approved=before)

    def card(self, path: str = "docs/x.md", **more: Any) -> Card:
        """A card that was read now."""
        self.seq += 1
        about = {"proposer": "coder", "target": "notebook", "tool": "read", "tool_hash": "0" * 64}
        self.asked[self.seq] = AskedCall(**{**about, "arguments": {"path": path}, **more})
        return Card(
            id=f"p{self.seq}", seq=self.seq, proposer="coder", to=("notebook",), method="tools/call", tool="read",
            arguments=(), digest="d", since=self.now,
        )  # fmt: skip

    def end(self, card: Card, state: Any, by: str = "ada") -> None:
        self.rules.follow(replace(card, state=state, by=by))


@given(
    secret=st.binary(min_size=32, max_size=32),
    plan=st.lists(st.sampled_from(["call", "stop", "adopt", "other"]), max_size=60),
)
def test_the_same_calls_are_reviewed_whatever_the_rule_does_meanwhile(secret: bytes, plan: list[str]) -> None:
    """Which covered call waits depends on the secret and on how many came before, and on nothing else."""
    with TemporaryDirectory() as folder:
        lab = Alone(Path(folder), secret=secret)
        kept = lab.adopt(uses=200)
        chosen = []
        for act in plan:
            if act == "stop":
                lab.rules.stop(kept, how="typed")
            elif act == "adopt" and not kept.life.acts:
                lab.rules.begin("adopted", kept.rule, how="click")
            elif act == "other":
                assert lab.rules.judge(lab.card("src/x.md")) is None
            elif act == "call":
                card = lab.card()
                by = lab.rules.judge(card)
                chosen.append(lab.rules.is_review(card))
                assert (by is kept) == (kept.life.acts and not chosen[-1])
                lab.end(card, "done")
        assert chosen == [is_review(secret, kept.rule, n) for n in range(len(chosen))]
        for block in range(len(chosen) // 3):
            assert sum(chosen[3 * block : 3 * block + 3]) == 1
        recorded = [detail["block"] for event, detail in lab.noted if event == "reviewed"]
        assert len(recorded) == sum(chosen)


@given(
    secret=st.binary(min_size=32, max_size=32),
    acts=st.lists(
        st.sampled_from(
            ["approve", "reject", "edit", "foreign", "unknown", "tool", "lapse", "hour", "weeks"]
        ),
        max_size=40,
    ),
)
def test_whatever_happens_a_rule_acts_only_between_an_adoption_and_the_first_doubt(
    secret: bytes, acts: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        lab = Alone(Path(folder), secret=secret)
        kept, doubt, adopted = lab.adopt(uses=20, an_hour=5), False, lab.now
        times: list[float] = []
        for act in acts:
            card = lab.card()
            by = lab.rules.judge(card)
            if by is not None:
                assert not doubt and lab.now - adopted < 30 * 86_400 and len(times) < 20
                assert sum(lab.now - 3600 < t for t in times) < 5
                lab.rules.use(by, card)
                times.append(lab.now)
                if act == "unknown":
                    lab.end(card, "unknown")
                    doubt = True
                continue
            waits = card if act in ("approve", "reject", "edit", "foreign", "unknown", "lapse") else None
            if act in ("reject", "edit") and waits is not None:
                lab.rules.take_refusal(waits, "rejected" if act == "reject" else "edited")
                lab.end(waits, "rejected" if act == "reject" else "done")
            elif act == "approve" and waits is not None:
                lab.rules.take_approval(waits, how="click")
                lab.end(waits, "done")
            elif act == "foreign" and waits is not None:
                lab.rules.take_rejection(waits, "carol")
                lab.end(waits, "rejected", by="carol")
            elif waits is not None:
                lab.end(waits, "unknown" if act == "unknown" else "withdrawn")
            elif act == "tool":
                lab.rules.take_change("notebook", {"read"})
            lab.now += {"hour": 3_700.0, "weeks": 31 * 86_400.0}.get(act, 1.0)
            doubt = doubt or act in ("reject", "edit", "foreign", "unknown", "tool")
            assert kept.life.acts <= (not doubt)
        assert kept.life.uses == len(times)


def test_what_is_kept_can_be_read_again_however_much_there_was(tmp_path: Path) -> None:
    lab = Alone(tmp_path, secret=SECRET)
    first = lab.adopt()
    for n in range(MAX_RULES + 20):
        lab.now += 1
        text = f"When coder asks notebook to run tool-{n} with path below docs/, content a text of at most 60000 characters, and nothing else: approve"
        rule = parse_rule(text, tool_hash="0" * 64)
        long = [
            evidence_of(rule, {"path": f"docs/{k}/a", "content": "x" * 60_000}, t=0.0, by="ada")
            for k in range(3)
        ]
        lab.rules.stop(lab.rules.begin("adopted", rule, how="click", approved=long), how="click")
    kept = lab.rules.kept
    assert len(kept) == MAX_RULES and first in kept, "a rule that acts is not forgotten"
    lab.rules.close()
    again = Alone(tmp_path, secret=SECRET).rules
    assert again.elsewhere == ""
    assert [(one.number, one.rule, one.life) for one in again.kept] == [
        (one.number, one.rule, one.life) for one in kept
    ]


def test_where_all_rules_act_another_one_is_refused_and_they_stay(tmp_path: Path) -> None:
    lab = Alone(tmp_path, secret=SECRET)
    texts = [TEXT.replace("read", f"tool-{n}") for n in range(MAX_RULES + 1)]
    *most, last = [parse_rule(text, tool_hash="0" * 64) for text in texts]
    for rule in most:
        lab.rules.begin("adopted", rule, how="click")
    with pytest.raises(MewError, match="stop one first"):
        lab.rules.begin("adopted", last, how="click")
    assert len(lab.rules.kept) == MAX_RULES and all(one.life.acts for one in lab.rules.kept)


def test_the_same_sentence_with_another_rate_is_the_same_suggestion(tmp_path: Path) -> None:
    past, rules = PastDecisions(), Alone(tmp_path, secret=SECRET).rules
    suggested = RuleSuggestions(past, rules, run=asyncio.run, in_threads=False)

    def decide(n: int) -> Candidate | None:
        about: dict[str, Any] = {
            "proposer": "coder",
            "target": "notebook",
            "tool": "read",
            "tool_hash": "0" * 64,
        }
        path, t = {"path": f"docs/{n}.md"}, 1_000.0 + n
        past.add(
            one := DecidedCall(seq=n, t=t, **about, proposed=path, verdict="approved", by="ada", how="click")
        )
        suggested.note(one)
        return suggested.current

    found = [decide(n) for n in range(16)][-1]
    assert found is not None
    assert suggested.dismiss(found.rule.sha256).startswith("It is not suggested again")
    assert [decide(n) for n in range(16, 20)] == [None] * 4
    [now] = learn(past.calls)
    assert now.rule.text == found.rule.text and now.rule.sha256 != found.rule.sha256
    rules.begin("tried", found.rule, how="click", approved=past.calls)
    assert rules.has_like(now.rule)


@pytest.mark.parametrize("length", [10, 60_000])
def test_of_past_decisions_the_newest_are_remembered_in_bounds(length: int) -> None:
    past, rule = PastDecisions(), parse_rule(TEXT, tool_hash="0" * 64)
    for n in range(KEPT + 2 * MORE if length < 100 else 2 * MAX_CHARACTERS // length):
        one = evidence_of(rule, {"path": f"docs/{n}"}, t=float(n), by="ada")
        past.add(replace(one, proposed={"path": f"docs/{n}", "text": "x" * length}))
        assert past.calls[-1].t == n
        assert len(past.calls) <= KEPT + MORE and length * len(past.calls) <= MAX_CHARACTERS
    assert [one.t for one in past.calls] == [*range(n + 1 - len(past.calls), n + 1)]
    assert len(past.calls) >= min(KEPT, MAX_CHARACTERS // length // 2)


@pytest.mark.parametrize("gone", ["the rule was stopped", "a bar came up", "another call", "the lock"])
def test_what_changes_between_the_judgement_and_the_approval_holds(tmp_path: Path, gone: str) -> None:
    lab = Alone(tmp_path, secret=SECRET)
    kept = lab.adopt()
    card = next(card for _ in range(3) if lab.rules.judge(card := lab.card()) is kept)
    if gone == "the rule was stopped":
        lab.rules.stop(kept, how="typed")
    elif gone == "a bar came up":
        lab.bar = "a person has begun to decide it"
    elif gone == "another call":
        lab.asked[card.seq] = replace(lab.asked[card.seq], arguments={"path": "secrets/k"})
    else:
        lab.rules.close()
    with pytest.raises(NotApproved):
        lab.rules.use(kept, card)
    assert kept.life.uses == 0
