"""An editor's person talks with an agent of the space, and decides what waits for that person: one press, one decision."""

from __future__ import annotations

import asyncio
import functools
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Decision, Policy
from mew_lab.lab.decisions.text import card_lines
from mew_lab.lab.editor import MAX_TEXT, EditorChoice, EditorSessions, choices_of
from mew_lab.lab.lab import Lab
from mew_lab.ledger.options import read_arguments
from mew_lab.sdk.tools import RpcError

from .asking import FOUR, ask, seat_agent
from .looking import approve, call, eventually, propose, sent
from .test_lab_rules import files
from .test_owned_rules import Ruled

Adding = Callable[[int, int], Any]
FULL = Path(__file__).parent.parent / "bridge" / "full_server.py"
RLO, ESC = "\u202e", "\x1b"


class Panel:
    """The panel of an editor: what it shows, and the questions, which a test answers by `press`."""

    def __init__(self, lab: Lab, agent: str = "coder") -> None:
        self.lab = lab
        self.updates: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any], Sequence[EditorChoice], asyncio.Future[Any]]] = []
        self.withdrawn: list[asyncio.Event] = []  # of questions and forms, in their order
        self.shows_forms = True
        self.forms: list[tuple[str, str, Mapping[str, Any], asyncio.Future[Any]]] = []
        self.sessions = EditorSessions(lab, agent, self, on_proposal=lab.on_proposal)
        lab.loop.call(self.sessions.open)

    def update(self, session: str, update: Mapping[str, Any]) -> None:
        json.dumps(update)
        self.updates.append((session, dict(update)))

    async def ask(
        self,
        session: str,
        tool_call: Mapping[str, Any],
        options: Sequence[EditorChoice],
        withdrawn: asyncio.Event,
    ) -> str | None:
        answer = asyncio.get_running_loop().create_future()
        self.withdrawn.append(withdrawn)
        self.asked.append((session, dict(tool_call), options, answer))
        chosen: str | None = await answer
        return chosen

    async def fill_in(
        self, session: str, message: str, schema: Mapping[str, Any], withdrawn: asyncio.Event
    ) -> Any:
        self.withdrawn.append(withdrawn)
        self.forms.append((session, message, schema, asyncio.get_running_loop().create_future()))
        return await self.forms[-1][3]

    # --- the person ---

    def fill(self, answer: Any, *, of: int) -> tuple[str, Mapping[str, Any]]:
        """Answers the newest form; returns its message and its fields."""
        _, message, schema, waiting = eventually(lambda: self.forms if len(self.forms) >= of else [])[-1]
        self.lab.loop.call(lambda: waiting.set_result(answer))
        return message, schema["properties"]

    def begin(self) -> str:
        return self.lab.loop.call(self.sessions.begin_session)

    def prompt(self, session: str, text: str) -> Any:
        return self.lab.loop.submit(self.sessions.prompt(session, text))

    def question(
        self, number: int = -1, *, of: int = 1
    ) -> tuple[str, dict[str, Any], Sequence[EditorChoice], Any]:
        eventually(lambda: len(self.asked) >= of)
        return self.asked[number]

    def press(self, chosen: str | None, number: int = -1) -> None:
        answer = self.asked[number][3]
        self.lab.loop.call(lambda: answer.set_result(chosen))

    # --- the screen ---

    def rows(self) -> dict[str, dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}
        for _, update in self.updates:
            if "toolCallId" in update:
                rows.setdefault(update["toolCallId"], {}).update(update)
        return rows

    def row(self, id: str) -> dict[str, Any]:
        return next((row for name, row in self.rows().items() if name.endswith(id)), {})

    def told(self, id: str) -> str:
        """What the row says below its card."""
        content = self.row(id).get("content", [])
        return str(content[-1]["content"]["text"]) if len(content) > 1 else ""

    def chunks(self, kind: str, session: str = "") -> list[str]:
        return [
            update["content"]["text"]
            for where, update in self.updates
            if update["sessionUpdate"] == kind and session in ("", where)
        ]


@pytest.fixture
def panel(lab: Lab, adding: Adding) -> Iterator[Panel]:
    made = Panel(lab)
    made.begin()
    yield made
    if not lab.closed:
        lab.loop.run(made.sessions.close(), timeout=10, doing="closing")


def text_of(row: Mapping[str, Any]) -> str:
    return str(row["content"][0]["content"]["text"])


def unfenced(text: str) -> str:
    """The lines within the fence of a Markdown code block; fails where a line within closes it."""
    first, *lines, last = text.split("\n")
    fence = first.removesuffix("text")
    assert re.fullmatch("`{3,}", fence) and last == fence
    assert fence not in "\n".join(lines)  # some readers close it wherever it stands
    return "\n".join(lines)


def ids(choices: Sequence[EditorChoice]) -> list[str]:
    return [one.id for one in choices]


# --- a question ------------------------------------------------------------------------------------------------------


def test_a_question_is_the_text_card_of_a_terminal_whole(panel: Panel) -> None:
    card = propose(panel.lab, call(a=1, b="\n".join(f"line {n}" for n in range(60))))
    _, row, options, _ = panel.question()
    assert unfenced(text_of(row)) == "\n".join(card_lines(card))
    assert "line 59" in text_of(row) and row["status"] == "pending"
    assert [(one.name, one.kind) for one in options] == [
        ("Approve once", "allow_once"),
        ("Reject", "reject_once"),
    ]
    panel.press("approve")
    eventually(lambda: panel.row(card.id)["status"] == "failed")  # the tool adds no texts
    [note] = [record for record in panel.lab.log.held if record.event == "decided"]
    about = json.loads(note.detail)
    assert (about["how"], about["digest"], about["by"]) == ("editor", card.digest, "human")
    assert "on_screen" not in about and "typed" not in about
    assert panel.lab.log.verify().ok and "1 in an editor" in str(panel.lab.log.verify().consents)


@pytest.mark.ruling("R29")
@pytest.mark.parametrize("seed", range(40))
def test_hostile_text_neither_leaves_its_fence_nor_hides(lab: Lab, adding: Adding, seed: int) -> None:
    dice = random.Random(seed)
    parts = [
        "```",
        "`" * dice.randint(3, 40),
        RLO,
        f"{ESC}[2J",
        "</text>",
        "\n",
        "\r",
        "\u2028",
        "<script>",
        "[x](y)",
        "#",
        " ",
    ]
    hostile = "".join(dice.choices(parts, k=dice.randint(1, 30)))
    panel = Panel(lab)
    panel.begin()
    card = propose(lab, call(a=hostile, **{hostile[:20] or "b": 1}))
    _, row, _, _ = panel.question()
    text = unfenced(text_of(row))
    assert text == "\n".join(card_lines(card))
    for hidden in (RLO, ESC, "\r", "\u2028"):
        assert hidden not in json.dumps(row, ensure_ascii=False)
    assert "\n" not in row["title"]
    lab.loop.run(panel.sessions.close(), timeout=10, doing="closing")


@pytest.mark.ruling("R29")
def test_what_an_editor_was_not_given_whole_is_not_approved_from_one(lab: Lab, adding: Adding) -> None:
    card = propose(lab, call(a=1, b=2))
    done = lab.decisions.carry_out(card.id, digest=card.digest, decision="approve", in_editor=True)
    with pytest.raises(MewError, match="the editor was not given all of it"):
        lab.loop.run(done, timeout=10, doing="approving")
    assert sent(lab, "mcp/request") == []


def test_a_warning_comes_first(panel: Panel) -> None:
    card = propose(panel.lab, call(a="rm -rf / # http://evil.test/x", b=1))
    assert card.warnings
    _, row, _, _ = panel.question()
    assert row["title"].startswith(f"Warning: {card.warnings[0][:40]}")
    assert all(f"! {warning}" in text_of(row) for warning in card.warnings)


@pytest.mark.parametrize("value", ["x" * (MAX_TEXT + 1), "\n".join("y" * 300)], ids=["characters", "lines"])
def test_a_card_that_is_too_long_offers_only_to_reject_it_and_to_decide_it_in_mew_lab(
    panel: Panel, value: str
) -> None:
    card = propose(panel.lab, call(a=value, b=1))
    _, row, options, _ = panel.question()
    assert ids(options) == ["reject", "leave"] and {one.kind for one in options} == {"reject_once"}
    assert len(text_of(row)) < MAX_TEXT + 1000 and "too long for an editor" in text_of(row)
    panel.press("approve")  # which it does not offer
    eventually(lambda: "Nothing was decided here" in panel.told(card.id))
    assert panel.lab.decisions.card(card.id).state == "open" and sent(panel.lab, "mcp/request") == []


@pytest.mark.parametrize("answer", [None, "", "allow", "always", "option-1", "leave"])
def test_an_answer_that_is_no_option_decides_nothing(panel: Panel, answer: str | None) -> None:
    card = propose(panel.lab, call(a=1, b=2))
    panel.question()
    panel.press(answer)
    eventually(lambda: "Decide it in mew-lab" in panel.told(card.id))
    assert panel.lab.decisions.card(card.id).state == "open" and len(panel.asked) == 1
    approve(panel.lab, card.id)
    eventually(lambda: panel.row(card.id)["status"] == "completed")


def test_an_answer_that_nobody_can_have_read_is_none(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.lab.decisions.cards.ARMING", 3600.0)
    card = propose(panel.lab, call(a=1, b=2))
    for n in range(1, 4):
        panel.question(of=n)
        panel.press("approve")
    eventually(
        lambda: "nobody reads it" in panel.told(card.id) and "Decide it in mew-lab" in panel.told(card.id)
    )
    assert len(panel.asked) == 3 and panel.lab.decisions.card(card.id).state == "open"


def test_a_rejection_is_sent(panel: Panel) -> None:
    card = propose(panel.lab, call(a=1, b=2))
    panel.question()
    panel.press("reject")
    eventually(lambda: panel.row(card.id).get("status") == "failed")
    assert "ejected" in panel.told(card.id)
    [rejection] = sent(panel.lab, "mcp/reject")
    assert rejection["correlation_id"] == [card.id]


def test_what_is_known_of_it_since_is_asked_about_anew(panel: Panel) -> None:
    lab = panel.lab
    card = propose(lab, call(a=1, b=2))
    panel.question()
    lab.loop.call(lambda: lab.decisions.queue.put(replace(card, misfits=("its tool has changed",))))
    panel.press("approve")
    _, row, _, _ = panel.question(of=2)
    assert "its tool has changed" in text_of(row) and sent(lab, "mcp/request") == []
    panel.press("approve")
    eventually(lambda: panel.row(card.id)["status"] == "completed")


# --- what the lab decides by itself ------------------------------------------------------------------------------------


def asked_about(panel: Panel) -> list[str]:
    """The proposals of all questions, in their order."""
    return [row["toolCallId"].split("-", 2)[2] for _, row, _, _ in panel.asked]


@pytest.mark.parametrize("seed", range(3))
def test_what_a_policy_decides_is_no_question_and_all_else_is_one(panel: Panel, seed: int) -> None:
    lab, dice = panel.lab, random.Random(seed)
    verdicts = [dice.choice(["approve", "reject", ""]) for _ in range(16)]
    verdicts = verdicts if seed else ["approve"] * 16

    def judge(card: Card) -> Decision | None:
        verdict = verdicts[int(dict(card.arguments)["/payload/params/arguments/a"])]
        return Decision(verdict) if verdict else None

    lab.decide = Policy("mixed", judge)
    cards = [propose(lab, call(a=n, b=n)) for n in range(16)]
    left = [card.id for card, verdict in zip(cards, verdicts, strict=True) if not verdict]
    for n, id in enumerate(left):
        panel.question(of=n + 1)
        lab.loop.call(functools.partial(panel.asked[n][3].set_result, "reject"))
        eventually(functools.partial(lambda id: not lab.decisions.card(id).is_open, id))
    eventually(lambda: all(card.state in ("done", "rejected") for card in map(find(lab), cards)))
    lab.decide = None
    last = propose(lab, call(a=1, b=2))
    panel.question(of=len(left) + 1)
    assert asked_about(panel) == [*left, last.id]


def find(lab: Lab) -> Callable[[Card], Card]:
    return lambda card: lab.decisions.card(card.id)


@pytest.mark.parametrize("approver", [False, True])
def test_what_a_rule_approves_is_no_question_and_what_it_leaves_is_one(approver: bool) -> None:
    ruled = Ruled()
    lab = ruled.lab
    panel = Panel(lab)
    panel.begin()
    ruled.adopt()
    if approver:
        lab.join("approver", rules_of="human")
    cards = [ruled.propose(f"docs/{n}.md") for n in range(9)]
    left = [card.id for card in cards if lab.loop.call(functools.partial(ruled.rules.is_review, card))]
    assert len(left) == 3  # one of each three waits for the person
    eventually(lambda: sum(ruled.now(card).is_open for card in cards) == 3 and len(panel.asked) == 3)
    outside = ruled.propose("elsewhere/x.md")
    panel.question(of=4)
    assert asked_about(panel) == [*left, outside.id]
    lab.loop.run(panel.sessions.close(), timeout=10, doing="closing")


def test_what_a_rule_could_not_decide_after_all_is_one_question(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    ruled = Ruled()
    panel = Panel(ruled.lab)
    panel.begin()
    ruled.adopt()
    [file] = files()
    file.unlink()
    file.mkdir()  # its uses cannot be counted
    cards = [ruled.propose(f"docs/{n}.md") for n in range(6)]
    eventually(lambda: len(panel.asked) == 6)
    assert sorted(asked_about(panel)) == sorted(card.id for card in cards)
    assert all(ruled.now(card).is_open for card in cards) and len(panel.asked) == 6
    ruled.lab.loop.run(panel.sessions.close(), timeout=10, doing="closing")


# --- what one press may not decide -----------------------------------------------------------------------------------


@pytest.mark.ruling("R32")
def test_what_somebody_has_rejected_is_not_approved_by_one_press(panel: Panel) -> None:
    lab = panel.lab
    ben = lab.join("ben", can="human")
    bot = lab.join("bot")
    id = bot.run(resilient(bot.participant))
    panel.question()
    ben.run(ben.participant.reject(id, "no"))
    eventually(lambda: lab.decisions.card(id).rejected)
    panel.press("approve")
    eventually(lambda: len(panel.asked) == 2)
    _, row, options, _ = panel.question(of=2)
    assert ids(options) == ["reject", "leave"] and "it was rejected before" in text_of(row)
    assert sent(lab, "mcp/request") == []


async def resilient(bot: Any) -> str:
    return str(bot.call("notebook/add", {"a": 3, "b": 4}, resilient=True).id)


@pytest.mark.ruling("R35")
def test_a_repeat_of_an_unknown_call_is_not_approved_by_one_press(panel: Panel) -> None:
    lab = panel.lab

    def answer(params: Any) -> Any:
        raise RpcError(-32001, "the server ended", data={"code": "outcome_unknown"})

    shop = lab.join("shop", can=[{"kind": "mcp/response"}])
    lab.loop.call(lambda: shop.participant.register_method("tools/call", answer))
    first = propose(lab, call("pay", euros=5), to=("shop",))
    panel.question()
    panel.press("approve")
    eventually(
        lambda: [one for one in lab.decisions.decided() if one.id == first.id and one.state == "unknown"]
    )
    again = propose(lab, call("pay", euros=5), to=("shop",))
    assert again.repeats
    _, row, options, _ = panel.question(of=2)
    assert ids(options) == ["reject", "leave"] and row["title"].startswith("Warning: ")
    assert "it may run a call twice" in text_of(row)


def test_one_that_names_no_target_is_decided_elsewhere(panel: Panel) -> None:
    propose(panel.lab, call(a=1, b=2), to=())
    _, row, options, _ = panel.question()
    assert ids(options) == ["reject", "leave"] and "it names no target" in text_of(row)


# --- the options of an agent -----------------------------------------------------------------------------------------


@pytest.mark.ruling("R41")
def test_the_options_of_an_agent_are_offered_in_its_words_and_order(panel: Panel) -> None:
    told = seat_agent(panel.lab)
    card = ask(panel.lab, FOUR[1:])
    _, row, options, _ = panel.question()
    assert [(one.name, one.kind) for one in options] == [(one["name"], one["kind"]) for one in FOUR[1:]]
    assert "from then on claude refuses the like by itself" in text_of(row)
    panel.press(options[1].id)
    eventually(lambda: told)
    assert told == ["no"]
    eventually(lambda: panel.row(card.id)["status"] == "completed")
    [note] = [json.loads(one.detail) for one in panel.lab.log.held if one.event == "decided"]
    assert (note["how"], note["option"]["id"]) == ("editor", "no")


@pytest.mark.ruling("R41")
def test_of_generated_options_none_of_an_unknown_kind_is_offered_and_no_lasting_one_first() -> None:
    dice = random.Random(41)
    kinds = ["allow_once", "allow_always", "reject_once", "reject_always", "allow_session", "", "ALLOW_ONCE"]
    base = Card(
        id="p", seq=1, proposer="a", to=("a",), method="tools/call", tool="permission", arguments=(), digest="d", since=0.0
    )  # fmt: skip
    for _ in range(10_000):
        offered = [
            {
                "id": f"i{n}",
                "name": dice.choice(["Yes", "approve", "reject", "leave", f"{RLO}x"]),
                "kind": dice.choice(kinds),
            }
            for n in range(dice.randint(1, 6))
        ]
        asked = read_arguments({"question": "?", "options": offered})
        choices = choices_of(replace(base, permission=asked), only_reject=False)
        assert choices[0].kind in ("allow_once", "reject_once")
        assert len(set(ids(choices))) == len(choices)
        chosen = [one for one in choices if one.option]
        by_id = {one["id"]: one["kind"] for one in offered}
        known = [one["id"] for one in offered if one["kind"] in kinds[:4]]
        assert [one.option for one in chosen] == known
        assert all(by_id[one.option] == one.kind and one.decision == "approve" for one in chosen)
        assert all(not one.decision and one.kind == "reject_once" for one in choices if not one.option)
        assert any(one.kind == "reject_once" for one in choices)  # a client that refuses by itself has one


# --- the first decision wins -----------------------------------------------------------------------------------------


def test_what_another_decides_first_is_told_and_a_late_answer_is_refused(panel: Panel) -> None:
    lab = panel.lab
    ben = lab.join("ben", can="human")
    card = propose(lab, call(a=1, b=2))
    panel.question()
    ben.run(ben.participant.approve(card.id))
    eventually(lambda: panel.row(card.id)["status"] == "completed")
    assert "approved by ben" in panel.told(card.id)
    assert panel.withdrawn[0].is_set()
    panel.press("approve")
    eventually(lambda: "this decision changed nothing" in panel.told(card.id))
    assert len(sent(lab, "mcp/request")) == 1


@pytest.mark.parametrize("answer", [None, "leave"])
def test_a_question_that_another_has_decided_is_withdrawn_and_its_row_stays_as_it_is(
    panel: Panel, answer: str | None
) -> None:
    lab = panel.lab
    ben = lab.join("ben", can="human")
    card = propose(lab, call(a="x" * MAX_TEXT, b=2))
    panel.question()
    assert not panel.withdrawn[0].is_set()
    ben.run(ben.participant.reject(card.id, "no"))
    eventually(lambda: "rejected by ben" in panel.told(card.id))
    assert panel.withdrawn[0].is_set()
    panel.press(answer)
    propose(lab, call(a=1, b=2))
    panel.question(of=2)
    assert "rejected by ben" in panel.told(card.id) and not panel.withdrawn[1].is_set()


@pytest.mark.slow
@pytest.mark.ruling("R32")
@pytest.mark.timeout(600)
def test_of_a_thousand_races_with_another_person_each_has_one_decision_and_the_loser_is_told(
    panel: Panel,
) -> None:
    lose_races(panel, 1000)


@pytest.mark.ruling("R32")
def test_of_races_with_another_person_each_has_one_decision_and_the_loser_is_told(panel: Panel) -> None:
    lose_races(panel, 40)


def lose_races(panel: Panel, count: int) -> None:
    """The editor's person approves while another one approves or rejects, in any order and as close as it goes."""
    lab, dice = panel.lab, random.Random(32)
    executed: Counter[int] = Counter()

    def count_up(n: int) -> int:
        executed[n] += 1
        return n

    lab.tool(count_up, seat=lab.join("counter", can="tool"))
    ben = lab.join("ben", can="human")
    won: Counter[str] = Counter()
    late = []  # proposals that ben approved too late without an error at once
    for n in range(count):
        card = propose(lab, call("count_up", n=n), to=("counter",))
        answer = panel.question(n, of=n + 1)[3]
        approves = dice.random() < 0.7
        lost = ben.run(
            decide(ben.participant, card.id, answer, approves, dice.random() < 0.5, dice.randint(0, 6))
        )
        done = eventually(functools.partial(find_decided, lab, card.id))
        won[done.by] += 1
        assert executed[n] == (done.state != "rejected"), done
        if done.by == "ben":
            eventually(functools.partial(tells, panel, card.id, "by ben"))
        elif approves and not lost:
            late.append(card.id)
    assert won["ben"] > count / 5 and won["human"] > count / 5 and won.total() == count, won
    told = {
        id
        for one in sent(lab, "mcp/response")
        if one["payload"].get("error", {}).get("data", {}).get("code") == "already_fulfilled"
        for id in one["correlation_id"]
    }
    requests = {one["id"]: one["correlation_id"] for one in sent(lab, "mcp/request") if one["from"] == "ben"}
    assert {id for request in told for id in requests.get(request, ())} >= {*late}


async def decide(
    ben: Any, id: str, answer: asyncio.Future[Any], approves: bool, first: bool, turns: int
) -> str:
    if first:
        answer.set_result("approve")
    for _ in range(turns):
        await asyncio.sleep(0)
    try:
        await (ben.approve(id) if approves else ben.reject(id))
    except MewError as fault:
        return str(fault)
    finally:
        if not first:
            answer.set_result("approve")
    return ""


def find_decided(lab: Lab, id: str) -> Card | None:
    over = (one for one in lab.decisions.decided() if one.id == id and one.state != "fulfilled")
    return next(over, None)


def tells(panel: Panel, id: str, text: str) -> bool:
    return text in panel.told(id)


# --- turns -----------------------------------------------------------------------------------------------------------


class Coder:
    """An agent that a test moves by hand."""

    def __init__(self, lab: Lab) -> None:
        self.seat = lab.join("coder", can="agent")
        self.asked: list[Any] = []
        lab.loop.call(lambda: self.seat.participant.on_chat(self.asked.append))

    def prompted(self, number: int = 0) -> Any:
        eventually(lambda: len(self.asked) > number)
        return self.asked[number]

    def answer(self, prompt: Any, text: str) -> None:
        self.seat.send("chat", {"text": text}, to=prompt.sender, correlation_id=prompt.id)


def test_two_sessions_do_not_mix_and_each_takes_one_prompt_at_a_time(panel: Panel) -> None:
    coder = Coder(panel.lab)
    one, two = panel.begin(), panel.begin()
    first, second = panel.prompt(one, "first"), panel.prompt(two, "second")
    prompts = sorted((coder.prompted(0), coder.prompted(1)), key=lambda prompt: str(prompt.payload["text"]))
    with pytest.raises(MewError, match="a turn goes on in this session"):
        panel.prompt(one, "third").result(10)
    start = coder.seat.send("reasoning/start", {"message": "for two"}, correlation_id=prompts[1].id)
    coder.seat.send("reasoning/thought", {"message": f"deep {ESC}[2J{RLO}"}, context=start.id)
    coder.answer(prompts[1], "of two")
    assert second.result(10) == "end_turn"
    coder.answer(prompts[0], "of one")
    assert first.result(10) == "end_turn"
    assert panel.chunks("agent_message_chunk", one) == ["of one\n\n"]
    assert panel.chunks("agent_message_chunk", two) == ["of two\n\n"]
    assert panel.chunks("agent_thought_chunk", one) == []
    thoughts = "".join(panel.chunks("agent_thought_chunk", two))
    assert thoughts.startswith("for two\n\ndeep ") and ESC not in thoughts and RLO not in thoughts
    assert len(coder.asked) == 2


def test_what_the_agent_says_to_others_is_not_shown(panel: Panel) -> None:
    lab, coder = panel.lab, Coder(panel.lab)
    ben = lab.join("ben", can="human")
    asked = ben.send("chat", {"text": "and mine?"}, to="coder")
    coder.prompted()
    coder.seat.send("chat", {"text": "secret of ben"}, to="ben", correlation_id=asked.id)
    start = coder.seat.send("reasoning/start", {"message": "about ben"}, correlation_id=asked.id)
    coder.seat.send("reasoning/thought", {"message": "ben again"}, context=start.id)
    ben.send("chat", {"text": "to all"})
    coder.seat.send("chat", {"text": "to you"}, to="human")
    eventually(lambda: panel.chunks("agent_message_chunk"))
    assert panel.chunks("agent_message_chunk") == ["to you\n\n"] and panel.chunks("agent_thought_chunk") == []


def test_a_cancel_is_sent_for_the_prompt_and_its_reasoning(panel: Panel) -> None:
    coder, session = Coder(panel.lab), panel.begin()
    turn = panel.prompt(session, "dig")
    prompt = coder.prompted()
    start = coder.seat.send("reasoning/start", {"message": "digging"}, correlation_id=prompt.id)
    eventually(lambda: panel.lab.me.participant.ledger.reasoning.get(start.id))
    panel.lab.loop.call(lambda: panel.sessions.cancel(session))
    panel.lab.loop.call(lambda: panel.sessions.cancel(session))
    assert turn.result(20) == "cancelled"
    [cancel] = sent(panel.lab, "chat/cancel")
    assert cancel["correlation_id"] == [prompt.id]
    [cancel] = sent(panel.lab, "reasoning/cancel")
    assert cancel["context"] == start.id
    again = panel.prompt(session, "and now?")
    coder.answer(coder.prompted(1), "now")
    assert again.result(10) == "end_turn"


def test_an_agent_that_is_away_or_leaves_is_named(panel: Panel) -> None:
    session = panel.begin()
    with pytest.raises(MewError, match="Not sent: nobody here is called 'coder'"):
        panel.prompt(session, "dig").result(10)
    with pytest.raises(MewError, match="holds no text"):
        panel.prompt(session, " \n").result(10)
    with pytest.raises(MewError, match="There is no session 'x'"):
        panel.prompt("x", "dig").result(10)
    coder = Coder(panel.lab)
    turn = panel.prompt(session, "dig")
    coder.prompted()
    panel.lab.leave("coder")
    assert turn.result(20) == "end_turn"
    assert panel.chunks("agent_message_chunk")[-1].startswith("coder has left demo. ")


def test_a_call_by_its_own_right_is_a_row(panel: Panel) -> None:
    coder, session = Coder(panel.lab), panel.begin()
    panel.lab.of("coder").grant(tool="notebook/add")
    turn = panel.prompt(session, "add")
    prompt = coder.prompted()
    eventually(lambda: coder.seat.participant.can_send("mcp/request", call(a=1, b=2), "notebook"))

    async def add() -> Any:
        return await coder.seat.participant.call("notebook/add", {"a": 1, "b": 2}, correlation_id=prompt.id)

    coder.seat.run(add())
    eventually(lambda: [row for row in panel.rows().values() if row["status"] == "completed"])
    [row] = panel.rows().values()
    assert row["title"] == "notebook/add" and unfenced(text_of(row)) == "3"
    coder.answer(prompt, "3")
    assert turn.result(10) == "end_turn"


def test_the_tool_calls_of_a_coding_agent_are_rows_and_its_plan_is_a_plan(panel: Panel) -> None:
    coder, session = Coder(panel.lab), panel.begin()
    turn = panel.prompt(session, "dig")
    prompt = coder.prompted()
    start = coder.seat.send("reasoning/start", {"message": "x"}, correlation_id=prompt.id)
    for status in ("pending", "odd", "completed"):
        step = {
            "id": "t1",
            "title": f"mkdir{RLO}",
            "kind": "strange",
            "status": status,
            "asked": False,
            "rawInput": {"c": "```"},
        }
        coder.seat.send("reasoning/thought", {"message": "mkdir", "tool_call": step}, context=start.id)
    coder.answer(prompt, "done")
    assert turn.result(10) == "end_turn"
    [row] = panel.rows().values()
    assert (row["status"], row["kind"]) == ("completed", "other")
    assert row["title"].endswith(", not asked") and RLO not in row["title"]
    assert unfenced(text_of(row)) == '{"c": "```"}'


# --- floods and ends -------------------------------------------------------------------------------------------------


def test_of_many_proposals_some_are_asked_about_at_once_and_all_in_their_order(panel: Panel) -> None:
    cards = [propose(panel.lab, call(a=n, b=n)) for n in range(20)]
    eventually(lambda: len(panel.asked) == 8)
    for n in range(20):
        panel.question(of=n + 1)
        assert cards[n].id in panel.asked[n][1]["toolCallId"]
        panel.press("reject", n)
    eventually(lambda: all(panel.row(card.id).get("status") == "failed" for card in cards))


def test_a_form_of_a_server_is_filled_in_in_the_editor(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.lab.decisions.cards.ARMING", 0.0)
    panel.lab.bridge("shop", [sys.executable, str(FULL), "legacy"])
    pending = panel.lab.call("shop/order", what="pears")
    message, fields = panel.fill({"action": "accept", "content": {"size": 30}}, of=1)
    assert "How many pears?" in unfenced(message) and "shop" in message
    assert "size" in fields and not any("default" in field for field in fields.values())
    panel.fill({"action": "accept", "content": {"size": 3}}, of=2)  # the first one did not fit
    assert str(pending.result(20)).startswith("accept 3")
    told = "".join(panel.chunks("agent_message_chunk"))
    assert "size must be" in told and "Answered: The server shop asks you" in told
    for n, odd in enumerate((None, {}, {"action": "order"}, {"action": 7, "content": [1]}), 3):
        pending = panel.lab.call("shop/order", what="figs")
        panel.fill(odd, of=n)
        assert str(pending.result(20)).startswith("cancel")


def test_a_question_of_a_server_that_ends_elsewhere_is_withdrawn_and_a_late_answer_goes_nowhere(
    panel: Panel,
) -> None:
    lab = panel.lab
    lab.bridge("shop", [sys.executable, str(FULL), "legacy"])
    ends: list[tuple[str, Callable[[Any], object], str]] = [
        (
            "form",
            lambda _: lab.answer(lab.questions()[0], {"size": 3, "note": ""}),
            "it was answered elsewhere",
        ),
        ("form", lambda _: lab.answer(lab.questions()[0], action="decline"), "it was declined elsewhere"),
        ("form", lambda call: call.withdraw(), "shop does not wait for an answer any more"),
        ("url", lambda _: lab.answer(lab.questions()[0]), "it was answered elsewhere"),
        ("url", lambda _: lab.answer(lab.questions()[0], action="cancel"), "it was dismissed elsewhere"),
        ("url", lambda call: call.withdraw(), "shop does not wait for an answer any more"),
        ("form", lambda _: lab.leave("shop"), "shop "),
    ]
    chunks = functools.partial(panel.chunks, "agent_message_chunk")
    for n, (kind, end, why) in enumerate(ends):
        call = lab.call("shop/order", what=f"pears {n}") if kind == "form" else lab.call("shop/sign_in")
        eventually(lambda n=n: len(panel.forms) + len(panel.asked) > n)  # type: ignore[misc]
        end(call)
        eventually(lambda n=n: len(chunks()) > 2 * n)  # type: ignore[misc]
        assert panel.withdrawn[n].is_set()
        assert chunks()[2 * n].startswith("Withdrawn: The server shop asks you"), chunks()
        assert f", and {why}" in chunks()[2 * n]
        if kind == "form":
            panel.fill({"action": "accept", "content": {"size": 7, "note": ""}}, of=1)
        else:
            status = "completed" if "answered" in why else "failed"
            assert [*panel.rows().values()][-1]["status"] == status
            panel.press("decline")
        eventually(lambda n=n: len(chunks()) > 2 * n + 1)  # type: ignore[misc]
        assert chunks()[2 * n + 1].startswith("Not sent, because it came too late")
        if "answered" in why:
            assert str(call.result(20)).startswith("accept 3" if kind == "form" else "accept")
    assert len(panel.forms) + len(panel.asked) == len(ends)
    told = [one["payload"]["result"]["action"] for one in sent(lab, "mcp/response") if one["from"] == "human"
            and "action" in one["payload"].get("result", {})]  # fmt: skip
    assert told == ["accept", "decline", "accept", "cancel"]


def test_an_address_of_a_server_is_accepted_or_declined_in_any_editor(panel: Panel) -> None:
    panel.shows_forms = False
    panel.lab.bridge("shop", [sys.executable, str(FULL), "legacy"])
    pending = panel.lab.call("shop/sign_in")
    _, row, choices, _ = panel.question()
    assert "login.example.org" in unfenced(text_of(row)) and ids(choices) == ["accept", "decline"]
    panel.press("decline")
    assert str(pending.result(20)) == "decline"


def test_a_form_that_the_editor_does_not_show_is_left_to_the_owner_and_said(panel: Panel) -> None:
    panel.shows_forms = False
    panel.lab.bridge("shop", [sys.executable, str(FULL), "legacy"])
    pending = panel.lab.call("shop/order", what="pears")
    pending.result(20)  # the owner is the same person, so nobody is left
    assert panel.forms == []
    assert "The server shop asks you. This editor does not show it" in "".join(
        panel.chunks("agent_message_chunk")
    )
    assert panel.lab.asked.pending() == []


def test_too_many_sessions_are_refused_and_one_that_ends_gives_its_questions_to_another(panel: Panel) -> None:
    ids = [panel.begin() for _ in range(49)]
    with pytest.raises(MewError, match="50 are open"):
        panel.begin()
    propose(panel.lab, call(a=1, b=2))
    where = panel.question()[0]
    panel.lab.loop.call(lambda: panel.sessions.end_session(where))
    eventually(lambda: len(panel.asked) == 2)
    assert panel.asked[1][0] in ids
    with pytest.raises(MewError, match="There is no session"):
        panel.lab.loop.call(lambda: panel.sessions.end_session(where))


def test_an_editor_that_ends_withdraws_and_cancels_nothing(panel: Panel) -> None:
    coder, session = Coder(panel.lab), panel.begin()
    panel.prompt(session, "dig")
    coder.prompted()
    card = propose(panel.lab, call(a=1, b=2))
    panel.question()
    panel.lab.loop.run(panel.sessions.close(), timeout=10, doing="closing")
    before = len(panel.updates)
    approve(panel.lab, card.id)
    eventually(
        lambda: [one for one in panel.lab.decisions.decided() if one.id == card.id and one.state == "done"]
    )
    kinds = {json.loads(record.raw).get("kind") for record in panel.lab.log.held if record.raw}
    assert not kinds & {"chat/cancel", "reasoning/cancel", "mcp/withdraw", "mcp/reject"}
    assert len(panel.updates) == before
