"""The permission of an agent: a person chooses one of its options, and nothing else ever does so for her."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli.join import obey
from mew_lab.cli.slash_completion import complete_line
from mew_lab.errors import LocalProtocolError, MewError, NotApproved
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Policy, policy_from_environment
from mew_lab.lab.decisions.text import card_lines
from mew_lab.lab.known_names import known_names
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up
from mew_lab.ledger.calls import CallLedger
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.steps import finish
from mew_lab.sdk.decisions import draft_approval
from mew_lab.views.approvals.model import card_data, decision_words, permission_data
from mew_lab.views.approvals.stored import draw_cards

from .asking import FOUR, ask, seat_agent
from .looking import approve, call, click, eventually, sent

pytestmark = pytest.mark.ruling("R41")

ONCE, ALWAYS = {"id": "1", "name": "Yes", "kind": "allow_once"}, {"id": "2", "name": "Yes, always"}
RLO = "\u202e"


def decided(lab: Lab, id: str, *states: str) -> Card:
    """The card of that proposal once it is in one of these states."""
    return eventually(
        lambda: next((one for one in lab.decisions.decided() if one.id == id and one.state in states), None)
    )


def arguments(lab: Lab, kind: str, id: str) -> dict[str, Any]:
    [found] = [one for one in sent(lab, kind) if id in (one["id"], *one.get("correlation_id", ()))]
    return dict(found["payload"]["params"]["arguments"])


# --- what is chosen --------------------------------------------------------------------------------------------------


@pytest.mark.extension("permission_options")
@pytest.mark.parametrize("option", FOUR, ids=[one["kind"] for one in FOUR])
def test_a_choice_adds_exactly_the_option_and_is_no_edit(lab: Lab, option: dict[str, str]) -> None:
    told = seat_agent(lab)
    card = ask(lab, title="Write", rawInput={"path": "notes.txt"})
    lab.decisions.record_shown(card.id, view="v", digest=card.digest)
    press = lab.decisions.click("v")
    how = {"digest": card.digest, "decision": "approve", "option": option["id"]}
    note = lab.decisions.decide(card.id, click=press, **how).result(10)
    assert note == f"Chose “{option['name']}”: claude asks for permission: Write notes.txt?"
    done = decided(lab, card.id, "done")
    chosen = {**arguments(lab, "mcp/proposal", card.id), "option": option["id"]}
    assert arguments(lab, "mcp/request", card.id) == chosen and told == [option["id"]]
    assert (done.edited, done.choice.name, done.outcome) == (False, option["name"], f"told {option['id']}")
    assert decision_words(done, me="human").startswith(f"Chose “{option['name']}” by you after ")
    row = lab.log.decisions().iloc[-1]
    assert (row["option"], row["option_name"], row["edited"]) == (option["id"], option["name"], False)
    row = lab.log.proposals().iloc[-1]
    assert (row["option"], row["option_name"], row["changes"]) == (option["id"], option["name"], ())
    found = lab.log.verify()
    assert found.ok and len(found.consents.consented) == 1, str(found)
    assert found.consents.consented[0].receipt.note.option == (option["id"], option["name"])
    assert f"1 “{option['name']}”" in str(found.consents)
    assert "edited-approval" not in str(lab.log.diagnose())


def test_without_an_option_it_is_the_only_one_that_allows_it_once(lab: Lab) -> None:
    told = seat_agent(lab)
    approve(lab, ask(lab).id)
    eventually(lambda: told == ["once"])
    for options in (
        [
            {"id": "a", "name": "Allow", "kind": "allow_once"},
            {"id": "b", "name": "Allow", "kind": "allow_once"},
        ],
        [FOUR[0], FOUR[2]],
        [{"id": "x", "name": "Allow", "kind": "craft_once"}],
    ):
        card = ask(lab, options)
        with pytest.raises(
            NotApproved, match="does not offer exactly one option of the kind allow_once"
        ) as caught:
            approve(lab, card.id)
        assert caught.value.code == "option" and f"“{options[0]['name']}” ({options[0]['id']})" in str(
            caught.value
        )
    assert len(sent(lab, "mcp/request")) == 1 and len(lab.decisions.pending()) == 3


def test_two_options_of_one_kind_and_one_name_are_kept_apart(lab: Lab) -> None:
    told = seat_agent(lab)
    pair = [
        {"id": "here", "name": "Allow", "kind": "allow_once"},
        {"id": "there", "name": "Allow", "kind": "allow_once"},
    ]
    card = ask(lab, pair)
    with pytest.raises(
        NotApproved, match=r"'Allow' names several options: “Allow” \(here\), “Allow” \(there\)"
    ):
        approve(lab, card.id, option="Allow")
    data = card_data(card)["permission"]["options"]
    assert [(one["id"], one["about"]) for one in data] == [
        ("here", "allows it this once (id here)"),
        ("there", "allows it this once (id there)"),
    ]
    assert not any(one["isDefault"] for one in data)
    approve(lab, card.id, option="there")
    eventually(lambda: told == ["there"])


def test_a_name_that_is_the_id_of_another_option_chooses_neither(lab: Lab) -> None:
    seat_agent(lab)
    options = [
        {"id": "no", "name": "yes", "kind": "reject_once"},
        {"id": "yes", "name": "no", "kind": "allow_once"},
    ]
    card = ask(lab, options)
    for typed in ("yes", "no"):
        with pytest.raises(NotApproved, match="names several options"):
            approve(lab, card.id, option=typed)
    assert sent(lab, "mcp/request") == []


@pytest.mark.parametrize(
    ("options", "option", "told"),
    [
        (FOUR, "no", "it means the option “No, and tell it what to do”"),
        (FOUR[:2], "", "no option sent"),
        ((*FOUR, {"id": "no2", "name": "Not now", "kind": "reject_once"}), "", "no option sent"),
    ],
)
def test_a_rejection_means_the_only_option_that_refuses_it_once(
    lab: Lab, options: Any, option: str, told: str
) -> None:
    seat_agent(lab)
    card = ask(lab, options)
    assert card_data(card)["permission"]["rejection"] == told
    assert str(lab.reject(card.id, "not now")).endswith(f"; {told}")
    assert sent(lab, "mcp/request") == [] and len(sent(lab, "mcp/reject")) == 1
    done = decided(lab, card.id, "rejected")
    assert decision_words(done, me="human") == f"Rejected ({told}) by you"
    assert lab.log.decisions().iloc[-1]["option"] == option
    notes = [record.detail for record in lab.log.held if record.event == "decided"]
    assert ('"option"' in notes[-1]) is bool(option)


# --- what can not be chosen from ---------------------------------------------------------------------------------


def many(count: int) -> list[dict[str, str]]:
    return [
        {"id": f"o{n}", "name": f"Option {n}", "kind": "allow_once" if n == 0 else "x"} for n in range(count)
    ]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "it offers no options"),
        ("Allow", "its options are no list"),
        ({"id": "1"}, "its options are no list"),
        (many(200), "it offers 200 options, and at most 50 can be chosen from"),
        ([ONCE, {**ALWAYS, "id": "1"}], "options 1 and 2 have the same id, 1"),
        ([ONCE, {"name": "Yes"}], "option 2 has no id"),
        ([{**ONCE, "id": 5}], "option 1 has no id"),
        ([{**ONCE, "id": ""}], "option 1 has no id"),
        ([{**ONCE, "id": "i" * 129}], "the id of option 1 has more than 128 characters"),
        ([ONCE, {"id": "2", "name": "", "kind": "allow_once"}], "option 2 has no name"),
        ([ONCE, {"id": "2", "name": " \t", "kind": "allow_once"}], "option 2 has no name"),
        ([ONCE, {"id": "2", "name": ["Yes"], "kind": "allow_once"}], "option 2 has no name"),
        ([ONCE, None], "option 2 has no id"),
    ],
)
def test_what_cannot_be_chosen_from_in_one_way_is_not_approved_and_can_be_rejected(
    lab: Lab, options: Any, why: str
) -> None:
    told = seat_agent(lab)
    card = ask(lab, options)
    assert card.refusal == why and card_data(card)["permission"]["options"] == []
    for option in ("", "1", "o0"):
        with pytest.raises(NotApproved, match=f"cannot be approved, because {why}"):
            approve(lab, card.id, option=option)
    lab.decide = Policy.approve()
    lab.decide = None
    human = lab.me.participant
    with pytest.raises(LocalProtocolError, match=why):
        lab.loop.run(human.approve(card.id), timeout=10, doing="approving it")
    assert f"  ! cannot be approved: {why}" in card_lines(card)
    lab.reject(card.id)
    assert decided(lab, card.id, "rejected").choice is None
    assert told == [] and sent(lab, "mcp/request") == []


def test_an_option_that_the_agent_has_named_itself_is_none_that_a_person_chose(lab: Lab) -> None:
    told = seat_agent(lab)
    card = ask(lab, option="always")
    assert card.refusal.startswith("its proposer has named an option already")
    with pytest.raises(NotApproved):
        approve(lab, card.id)
    assert told == []


def test_an_option_that_is_not_in_the_list_is_refused_before_anything_is_sent(lab: Lab) -> None:
    seat_agent(lab)
    card = ask(lab)
    for option in ("Always", "once ", f"o{RLO}nce", "x" * 10_000):
        with pytest.raises(NotApproved, match="it offers no option with the id") as caught:
            approve(lab, card.id, option=option)
        assert len(str(caught.value)) < 1500 and RLO not in str(caught.value)
        with pytest.raises(NotApproved):
            click(lab, card.id, card.digest, option=option)
        with pytest.raises(LocalProtocolError, match="it offers no option with the id"):
            human = lab.me.participant
            lab.loop.run(human.approve(card.id, option=option), timeout=10, doing="approving it")
    assert sent(lab, "mcp/request") == [] and lab.decisions.pending()[0].state == "open"


@pytest.mark.threat(16, 17)
def test_hostile_names_are_shown_as_they_are_and_a_long_one_must_be_opened(lab: Lab) -> None:
    seat_agent(lab)
    hostile = [
        {"id": f"a{RLO}", "name": f"Reject{RLO}wollA\nAllow", "kind": "allow_once"},
        {"id": "b", "name": "A" * 10_000, "kind": "reject_once"},
        {"id": "c", "name": "Craft", "kind": 7},
        {"id": "d", "name": "Allow", "kind": f"craft{RLO}/x"},
    ]
    card = ask(lab, hostile, question=f"Write{RLO} it?\nYes")
    data = card_data(card)["permission"]
    shown = [(one["name"], one["tone"]) for one in data["options"]]
    assert shown[0] == ("Reject\\u202ewollA\\nAllow", "allow") and len(shown[1][0]) == 120
    assert [tone for _, tone in shown] == ["allow", "reject", "unknown", "unknown"]
    assert data["options"][2]["about"].startswith("a kind that is no text is not known here; claude alone")
    assert data["options"][3]["about"].startswith("the kind “craft\\u202e/x” is not known here; claude alone")
    assert RLO not in "".join(card_lines(card)) and "\\u202e" in card.request
    assert any("characters that cannot be seen in options" in warning for warning in card.warnings)
    # Not all of the names stands on the buttons: a click decides once the row with all of them was opened.
    with pytest.raises(NotApproved) as caught:
        click(lab, card.id, card.digest, option=hostile[0]["id"])
    assert caught.value.code == "not_opened"
    index = [pointer for pointer, _ in card.arguments].index("/payload/params/arguments/options")
    lab.decisions.record_opened(card.id, card.digest, index)
    assert click(lab, card.id, card.digest, option=hostile[0]["id"]).startswith("Chose “Reject\\u202ewollA")


@pytest.mark.parametrize("member", ["id", "name", "kind"])
@pytest.mark.parametrize("text", ["x" * 81, f"x{RLO}"])
def test_options_that_no_button_tells_whole_stay_a_value_to_be_read(lab: Lab, member: str, text: str) -> None:
    seat_agent(lab)
    card = ask(lab, [{**ONCE, member: text}, FOUR[2]])
    [row] = [row for row in card_data(card)["arguments"] if row["name"] == "options"]
    assert not row["routine"] and sum("options  " in line for line in card_lines(card)) == 1


def test_plain_options_and_a_short_question_are_told_once(lab: Lab) -> None:
    seat_agent(lab)
    card = ask(lab, [{"id": f"o{n}", "name": f"Option {n}", "kind": "allow_once"} for n in range(30)])
    rows = {row["name"]: row for row in card_data(card)["arguments"]}
    assert rows["options"]["routine"] and rows["question"]["routine"] and "folded" not in rows["options"]
    lines = card_lines(card, cut=True)
    assert sum("Option 17" in line for line in lines) == 1 and not any("cut" in line for line in lines)
    assert "claude asks by its own rules: what it does not ask about runs with your rights" in lines[-2]
    assert click(lab, card.id, card.digest, option="o17").startswith("Chose “Option 17”")


def test_it_is_never_edited_granted_grouped_or_approved_with_others(lab: Lab) -> None:
    from mew_lab.lab.decisions.grant_preview import GrantOffers

    seat_agent(lab)
    card = ask(lab)
    edit = lab.loop.call(
        lambda: lab.decisions.editing.review(card.id, [{"name": "option", "json": '"always"'}])
    )
    with pytest.raises(NotApproved, match="its arguments are not edited: choose one of its options"):
        click(lab, card.id, edit.digest)
    offers = GrantOffers(lab, lab.granting)
    for values in (True, False):
        with pytest.raises(MewError, match="choose one of its options"):
            lab.loop.run(offers.offer(card.id, values=values, limit="1 h"), timeout=10, doing="an offer")
    assert sent(lab, "mcp/request") == [] == sent(lab, "capability/grant")


def test_an_option_is_refused_where_there_is_none_to_choose(
    lab: Lab, adding: Callable[[int, int], Any]
) -> None:
    pending = lab.join("bot").call("notebook/add", a=1, b=2)
    eventually(lambda: [one for one in lab.decisions.pending() if one.is_read])
    with pytest.raises(NotApproved, match="it offers no option, and 'once' was chosen"):
        approve(lab, pending.id, option="once")
    # A call of that name to another participant, or without options, is a call as any other.
    for more in ({"to": ("notebook",)}, {"to": ("bot",)}):
        from .looking import propose

        card = propose(
            lab,
            call("permission", question="?", **({"options": list(FOUR)} if "notebook" in more["to"] else {})),
            **more,
        )
        assert card.permission is None and card.request == f"bot asks {more['to'][0]} to run permission"


# --- by code, by text ----------------------------------------------------------------------------------------------


def test_a_listing_and_the_whole_card_tell_the_options(lab: Lab) -> None:
    seat_agent(lab)
    ask(lab)
    entry = lab.proposals()[0]
    assert [one.id for one in entry.options] == ["always", "once", "no", "never"]
    assert str(entry).split("\n")[1:] == [
        "  options, in its words:",
        "    Always allow edits   [always]   from then on claude does the like by itself, and this space is no longer asked",
        "    Allow   [once]   allows it this once",
        "    No, and tell it what to do   [no]   refuses it this once",
        "    Never   [never]   from then on claude refuses the like by itself, and this space is no longer asked",
        "  a rejection: it means the option “No, and tell it what to do”",
        "  claude asks by its own rules: what it does not ask about runs with your rights",
        str(entry).split("\n")[-1],
    ]
    assert str(lab.approve(entry, option="Never")).startswith("Chose “Never”")


def test_a_typed_id_shows_the_card_and_says_how_an_option_is_named(lab: Lab) -> None:
    told = seat_agent(lab)
    card = ask(lab)
    with pytest.raises(NotApproved) as caught:
        lab.approve(card.id, option="always")
    assert str(caught.value).endswith(
        f"repeat the command with it: lab.approve('{card.id}', option='OPTION'), %mew approve {card.id} --option OPTION, "
        f"or /approve {card.id} OPTION in a terminal."
    )
    lab.approve(card.id, option="always")
    eventually(lambda: told == ["always"])


def test_a_terminal_takes_the_option_behind_the_id_and_completes_it(lab: Lab) -> None:
    told = seat_agent(lab)
    card = ask(lab)

    class Known:
        def names(self, source: str) -> Any:
            return [(text, about) for text, about in known_names(lab, source)]

        def schema(self, tool: str) -> object:
            return None

    offered = [one.text for one in complete_line(f"/approve {card.id[:4]} al", Known()).choices]
    assert offered == ["always"]
    for typed in ("Always allow edits", "always"):
        with pytest.raises(NotApproved, match="Not approved yet"):
            obey(lab, f"/approve {card.id} {typed}")
        assert obey(lab, f"/approve {card.id} {typed}").startswith("Chose “Always allow edits”")
        card = ask(lab)
    eventually(lambda: told == ["always", "always"])


# --- policies --------------------------------------------------------------------------------------------------------

KINDS = [
    "allow_once",
    "allow_always",
    "reject_once",
    "reject_always",
    "craft",
    "Allow_once",
    "allow_once ",
    "",
    3,
    None,
]
NAMES = ["Allow", "Allow always", "Reject", "Yes", "", " ", f"No{RLO}", "x" * 500, 7, None]


CARD = Card(
    id="p",
    seq=1,
    proposer="claude",
    to=("claude",),
    method="tools/call",
    tool="permission",
    arguments=(),
    digest="0",
    since=0.0,
)


def draw_options(drawn: random.Random) -> Any:
    """Options as any agent may offer them: more often well-formed than not."""
    if drawn.random() < 0.02:
        return drawn.choice([None, "allow_once", {}, [None], [[]], 5])
    return [
        {
            "id": drawn.choice([f"o{n}", f"o{n}", f"o{n}", "o0", "", n, "allow_once"])
            if drawn.random() < 0.2
            else f"o{n}",
            "name": drawn.choice(NAMES) if drawn.random() < 0.1 else drawn.choice(NAMES[:4]),
            "kind": drawn.choice(KINDS[:4] if drawn.random() < 0.7 else KINDS),
        }
        for n in range(drawn.choice([0, 1, 2, 3, 4, 5, 60] if drawn.random() < 0.1 else [1, 2, 3, 4, 5]))
    ]


def once_of(options: Any) -> str | None:
    """The id that R41 lets a missing option mean; None where it means none."""
    once = (
        [one for one in options if isinstance(one, dict) and one.get("kind") == "allow_once"]
        if isinstance(options, list)
        else []
    )
    return once[0]["id"] if len(once) == 1 else None


def test_of_ten_thousand_sets_of_options_a_missing_option_means_the_only_allow_once_or_nothing() -> None:
    drawn, chosen, ledger = random.Random(41), 0, CallLedger(me="human")
    for n in range(10_000):
        options = draw_options(drawn)
        members = {
            "protocol": "mew/v0.4",
            "id": f"p{n}",
            "ts": "2026-01-01T00:00:00Z",
            "from": "claude",
            "to": ["claude"],
            "kind": "mcp/proposal",
            "payload": call("permission", question="?", options=options),
        }
        envelope = Envelope.from_members(members, raw=compact(members))
        ledger.observe(Entry.of(envelope, n))
        permission = ledger.proposals.get(f"p{n}").permission
        default = permission.default
        assert permission.default is None or (default.kind, default.id) == ("allow_once", once_of(options))
        assert permission.rejection is None or permission.rejection.kind == "reject_once"
        # What the key of a card presses, and what stands out on it.
        shown = permission_data(replace(CARD, permission=permission))["options"]
        assert [one["id"] for one in shown if one["isDefault"]] == ([default.id] if default else [])
        assert all(
            (one["tone"] == "allow") is (own.kind == "allow_once")
            for one, own in zip(shown, permission.options, strict=bool(shown))
        )
        try:
            drafted = finish(
                draft_approval(
                    ledger.proposals, f"p{n}", me="human", digest=None, to=None, request_id=f"r{n}"
                )
            )
        except LocalProtocolError as refused:
            assert refused.code == "option" and default is None
        else:  # it is sent without an option, which the agent takes by R41
            assert drafted["payload"]["params"]["arguments"] == members["payload"]["params"]["arguments"]
            assert default is not None and default.id == once_of(options)
            chosen += 1
    assert 2_000 < chosen < 8_000


def judge_sets(monkeypatch: pytest.MonkeyPatch, count: int, seed: int) -> None:
    """Opens a lab with MEW_LAB_DECIDE=approve, and lets an agent ask with so many sets of options."""
    monkeypatch.setenv("MEW_LAB_DECIDE", "approve")
    lab = up()
    assert lab.decide is not None and policy_from_environment() is not None
    told, drawn, asked = seat_agent(lab), random.Random(seed), []
    for n in range(count):
        options = draw_options(drawn)
        asked.append(
            (
                lab.seats["claude"].send("mcp/proposal", call("permission", options=options), to="claude").id,
                options,
            )
        )
        if n % 50 == 49 or n == count - 1:
            eventually(lambda: not [one for one in lab.decisions.pending() if not one.is_read])
            eventually(
                lambda: all(
                    one.permission.default is None for one in lab.decisions.pending() if one.permission
                )
            )
            eventually(lambda: not [one for one in lab.decisions.decided() if one.state == "fulfilled"])
            for card in lab.decisions.pending():  # what no policy decides waits for a person
                lab.reject(card.id)
            eventually(lambda: not lab.decisions.pending())
    requests = {
        one["correlation_id"][0]: one for one in sent(lab, "mcp/request") if one.get("correlation_id")
    }
    for id, options in asked:
        if id in requests:
            assert requests[id]["payload"]["params"]["arguments"]["option"] == once_of(options)
    assert count / 10 < len(told) == len(requests) < count / 2
    lab.down()


@pytest.mark.trap("T-6")
def test_no_policy_chooses_anything_but_the_only_allow_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judge_sets(monkeypatch, 150, 7)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_of_ten_thousand_sets_of_options_no_policy_chooses_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for part in range(20):
        judge_sets(monkeypatch, 500, part)


# --- several people ------------------------------------------------------------------------------------------------


def race(lab: Lab, ben: Lab, drawn: random.Random) -> None:
    """Two people choose another option of one permission at the same time: one choice holds, and both know which."""
    card = ask(lab)
    other = eventually(lambda: (one := ben.decisions.queue.find(card.id)) and one.is_read and one)
    first, second = drawn.sample([one["id"] for one in FOUR], 2)

    def choose(one: Lab, its: Card, option: str) -> Any:
        one.decisions.record_shown(its.id, view="v", digest=its.digest)
        how = {"digest": its.digest, "decision": "approve", "option": option}
        return one.decisions.decide(its.id, click=one.decisions.click("v"), **how)

    pairs = [(lab, card, first), (ben, other, second)]
    drawn.shuffle(pairs)
    began = [choose(*pair) for pair in pairs]
    failed = [str(one.exception(10) or "") for one in began]
    mine, theirs = (
        eventually(
            lambda one=one: next(
                (c for c in one.decisions.decided() if c.id == card.id and c.state == "done"), None
            )
        )
        for one in (lab, ben)
    )
    assert mine.choice == theirs.choice and mine.by == theirs.by and mine.choice.id in (first, second)
    requests = [one for one in sent(lab, "mcp/request") if card.id in one.get("correlation_id", ())]
    assert requests[0]["payload"]["params"]["arguments"]["option"] == mine.choice.id
    losers = [text for text in failed if text]
    assert len(losers) == 1 and mine.choice.quoted in losers[0], (failed, mine.choice)


@pytest.mark.ruling("R32")
def test_the_first_choice_wins_and_the_loser_is_told_which(lab: Lab) -> None:
    told, ben = seat_agent(lab), join(lab, "ben")
    for n in range(25):
        race(lab, ben, random.Random(n))
    assert len(told) == 25


@pytest.mark.slow
@pytest.mark.ruling("R32")
@pytest.mark.timeout(1800)
def test_of_a_thousand_races_each_has_one_choice(lab: Lab) -> None:
    told, ben = seat_agent(lab), join(lab, "ben")
    for n in range(1_000):
        race(lab, ben, random.Random(n))
    assert len(told) == 1_000


def join(lab: Lab, name: str, **options: Any) -> Lab:
    lab.enrol(name, "human")
    return connect(lab.url, space=lab.space, token_file=lab.token_file(name), name=name, **options)


@pytest.mark.ruling("R39")
def test_a_yes_counts_for_the_same_option_alone(lab: Lab) -> None:
    told, deciders = seat_agent(lab), ["human", "ben"]
    lab.share_review = True
    lab.quorum = (2, deciders)
    ben = join(lab, "ben", share_review=True, quorum=2, deciders=deciders)

    def say_yes(one: Lab, option: str) -> str:
        its = eventually(lambda: (found := one.decisions.queue.find(card.id)) and found.is_read and found)
        return click(one, card.id, its.digest, option=option)

    card = ask(lab)
    assert say_yes(lab, "always").startswith("Your yes is shared, and nothing is sent before")
    for one, who in ((ben, "human"), (lab, "you")):
        words = f"{who} said yes to “Always allow edits”"
        eventually(
            lambda one=one, words=words: (its := one.decisions.queue.find(card.id)) and words in its.review
        )
    assert say_yes(ben, "once").startswith("Your yes is shared, and nothing is sent before")
    assert told == []
    with contextlib.suppress(MewError):  # the other lab may send it first
        say_yes(lab, "")  # the rule of the missing option: the only one that allows it once
    eventually(lambda: told == ["once"])


@pytest.mark.ruling("R39")
def test_an_executor_with_a_quorum_counts_a_yes_for_the_same_option_alone(lab: Lab) -> None:
    from mew_lab.sdk.quorum import Quorum

    told = seat_agent(lab)
    lab.share_review = True
    lab.seats["claude"].participant.quorum = Quorum.of(2, ["human", "ben"])
    ben = join(lab, "ben", share_review=True)
    card = ask(lab)

    def refused(one: Lab, times: int) -> Card:
        """The card of that lab, once the executor has refused it so often."""
        return eventually(
            lambda: (
                (found := one.decisions.queue.find(card.id))
                and (found.state, found.unmet, found.is_read) == ("open", times, True)
                and found
            )
        )

    for n, (one, option) in enumerate([(lab, "always"), (ben, "once")]):
        click(one, card.id, refused(one, n).digest, option=option)
        refused(lab, n + 1)
        refused(ben, n + 1)
    assert told == []
    click(lab, card.id, refused(lab, 2).digest, option="once")
    eventually(lambda: told == ["once"])


# --- what the agent states of files ------------------------------------------------------------------------------


DIFF = {
    "type": "diff",
    "path": "/w/notes.txt",
    "oldText": "one\ntwo\nthree\n",
    "newText": "one\n2\nthree\nfour\n",
}


def test_a_stated_change_of_a_file_is_shown_as_one_and_as_the_agents_own_word(lab: Lab) -> None:
    seat_agent(lab)
    card = ask(lab, content=[DIFF, {**DIFF, "path": f"/w/new{RLO}.txt", "oldText": None}])
    assert card.file.is_stated and card.file.path == "/w/notes.txt, /w/new\\u202e.txt"
    with pytest.raises(NotApproved) as caught:
        lab.approve(card.id, option="once")
    text = str(caught.value)
    assert "/w/notes.txt, as claude states it\n    one\n  - two\n  + 2\n    three\n  + four" in text
    assert "/w/new\\u202e.txt, as claude states it\n  + one\n  + 2" in text and RLO not in text
    card = lab.decisions.queue.find(card.id)
    assert card.writes == "writes /w/notes.txt, /w/new\\u202e.txt: +6 −1 lines, as claude states it"
    # A click needs a view that has shown it.
    with pytest.raises(NotApproved, match="has not shown yet what would change in the file"):
        click(lab, card.id, card.digest, option="once")
    lab.approve(card.id, option="once")


@pytest.mark.parametrize(
    "content",
    [
        "diff",
        [
            {"type": "diff", "path": 5, "newText": "x"},
            {"type": "diff", "path": "a"},
            None,
            {"type": "content"},
        ],
        [{"type": "diff", "path": "a", "newText": "x", "oldText": ["y"]}],
    ],
)
def test_what_is_no_diff_stays_a_value_to_be_read(lab: Lab, content: Any) -> None:
    seat_agent(lab)
    card = ask(lab, content=content)
    assert card.file is None and "content" in {
        row["name"] for row in card_data(card)["arguments"] if not row["routine"]
    }


@pytest.mark.parametrize(
    ("more", "is_whole"),
    [
        ({}, True),
        ({"extra": 1}, False),
        ({"_meta": {}}, False),
        ({"path": "/w/" + 200 * "n"}, False),
        ({"path": f"/w/{RLO}n"}, False),
    ],
)
def test_a_shown_change_stands_for_the_value_where_it_tells_all_of_it(
    lab: Lab, more: dict[str, Any], is_whole: bool
) -> None:
    seat_agent(lab)
    card = ask(lab, content=[{**DIFF, **more}])
    work = lab.decisions.compare_file(card.id, digest=card.digest, view="v")
    assert len(lab.loop.run(work, timeout=10, doing="comparing")) == 1
    covers = lab.decisions.queue.find(card.id).file.covers
    assert covers == (("/payload/params/arguments/content",) if is_whole else ())


def note_decision(lab: Lab, note: dict[str, Any]) -> None:
    """Writes a receipt into the journal, as a lab does before it sends."""
    text = json.dumps(note)
    assert lab.host is not None
    gateway = lab.host.gateway
    lab.loop.call(lambda: gateway.note(lab.space, "decided", participant="human", detail=text))


# --- what is kept of it --------------------------------------------------------------------------------------------


def test_a_stored_picture_and_a_report_show_the_options_and_the_choice(lab: Lab, tmp_path: Path) -> None:
    seat_agent(lab)
    card = ask(lab)
    picture = draw_cards([card], me="human")
    assert picture.count("claude asks for permission: Write notes.txt?") == 1
    for option in FOUR:
        assert f"{option['name']}: " in picture
    assert "and this space is no longer asked" in picture and "runs with your rights" in picture
    rejected = ask(lab, question="Delete it?")
    lab.reject(rejected.id)
    approve(lab, card.id, option="never")
    done = decided(lab, card.id, "done")
    told = ["rejected (it means the option “No, and tell it what to do”)", "“Never” chosen"]
    assert [row[3] for row in lab.history()] == told
    assert [
        entry.lines()[0].partition("?: ")[2].partition(" by ")[0] for entry in lab.proposals(all=True)
    ] == told
    assert "Chose “Never” by you" in draw_cards([done], me="human")
    lab.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert (
        "“Always allow edits”: from then on claude does the like by itself" in page and "Delete it?" in page
    )
    assert "<b>Chose</b>" in re.sub(r"<b [^>]*>", "<b>", page) and "“Never” by human" in page
    assert "by human: disagree (it means the option “No, and tell it what to do”)" in page
    assert ", edited" not in page


@pytest.mark.ruling("R42")
def test_a_choice_that_was_made_elsewhere_is_reported_with_its_option(lab: Lab) -> None:
    told, ben = seat_agent(lab), join(lab, "ben")
    for option in ("always", ""):
        card = ask(lab)
        its = eventually(lambda card=card: (one := ben.decisions.queue.find(card.id)) and one.is_read and one)
        click(ben, card.id, its.digest, option=option)
    refused = ask(lab)
    its = eventually(lambda: (one := ben.decisions.queue.find(refused.id)) and one.is_read and one)
    click(ben, refused.id, its.digest, "reject")
    eventually(lambda: len([one for one in lab.log.held if one.event == "reported"]) == 3)
    found = lab.log.verify().consents
    assert [one.receipt.note.option.id for one in found.reported] == told == ["always", "once"]
    rows = lab.log.decisions()
    assert list(rows["option"]) == ["always", "once", "no"] and list(rows["receipt"]) == ["reported"] * 3


@pytest.mark.parametrize(
    ("noted", "sent_option"), [("once", "always"), ("always", ""), ("", "always"), ("gone", "once")]
)
def test_a_receipt_that_names_another_option_than_what_was_sent_fits_nothing(
    lab: Lab, noted: str, sent_option: str
) -> None:
    seat_agent(lab)
    card, human = ask(lab), lab.me.participant
    note: dict[str, Any] = {"proposal": card.id, "decision": "approve", "by": "human", "digest": card.digest}
    note |= {"request": "r-1", "edited": False, "typed": "yes"}
    note |= {"option": {"id": noted, "name": "?"}} if noted else {}
    note_decision(lab, note)
    work = human.approve(card.id, request_id="r-1", option=sent_option, receipt=None)
    lab.loop.run(work, timeout=10, doing="approving it")
    [without] = lab.log.verify().consents.without
    assert "its receipt names" in without.why and "what was sent chooses" in without.why
    # The same with what is sent names it.
    other = ask(lab)
    note |= {"proposal": other.id, "digest": other.digest, "request": "r-2"}
    note["option"] = {"id": sent_option or "once", "name": "?"}
    note_decision(lab, note)
    work = human.approve(other.id, request_id="r-2", option=sent_option, receipt=None)
    lab.loop.run(work, timeout=10, doing="approving it")
    found = lab.log.verify().consents
    assert [one.id for one in found.consented] == ["r-2"] and [one.id for one in found.without] == ["r-1"]


def test_a_request_that_adds_more_than_an_option_of_the_list_is_an_edit(lab: Lab) -> None:
    seat_agent(lab)
    human = lab.me.participant
    for more, edited in (
        ({"option": "once"}, []),
        ({"option": "nowhere"}, ['params.arguments.option: absent → "nowhere"']),
        (
            {"option": "once", "question": "Delete it?"},
            ['params.arguments.question: "Write notes.txt?" → "Delete it?"'],
        ),
    ):
        card = ask(lab)
        proposal = human.proposals.get(card.id)
        arguments = {**proposal.payload["params"]["arguments"], **more}
        draft = {"kind": "mcp/request", "to": ["claude"], "correlation_id": [card.id]}
        draft["payload"] = call("permission", **arguments)
        lab.loop.run(human.send_accepted(draft), timeout=10, doing="going around the card")
        done = decided(lab, card.id, "done", "fulfilled")
        assert done.edited is bool(edited)
        row = lab.log.proposals().iloc[-1]
        assert [text.removeprefix("payload.") for text in row["changes"]] == edited
    assert str(lab.log.diagnose()).count("values changed") == 2


def test_a_stopped_lab_chooses_nothing(lab: Lab) -> None:
    told = seat_agent(lab)
    card = ask(lab)
    lab.stop()
    with pytest.raises(NotApproved, match="this lab was stopped"):
        click(lab, card.id, card.digest, option="once")
    assert told == []
