"""A person answers what a bridged server asks: by code, by a click, not at all; and the journal has the answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mew_lab.agent.models import ScriptedModel
from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions import questions
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.decisions.questions import Question
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.sdk.tools import RpcError

from ..failing import How, failing
from .looking import approve, eventually

FULL = Path(__file__).parent.parent / "bridge" / "full_server.py"
HEADLESS = "MEW_LAB_DECIDE"


def bridged(lab: Lab, era: str = "legacy", **options: Any) -> None:
    lab.bridge("shop", [sys.executable, str(FULL), era], **options)


def asked(lab: Lab) -> Question:
    return eventually(lambda: lab.asked.pending())[0]  # type: ignore[no-any-return]


def notes(lab: Lab) -> list[dict[str, Any]]:
    return [json.loads(one.detail) for one in lab.log.held if one.event == "answered"]


@pytest.mark.ruling("R29")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_form_is_answered_in_code_once_its_text_was_shown(lab: Lab, era: str) -> None:
    bridged(lab, era)
    bot = lab.join("bot")
    pending = bot.call("shop/order", what="pears")
    approve(lab, pending.id)
    question = asked(lab)
    with pytest.raises(NotApproved, match="Not answered yet: this is what is asked") as refused:
        lab.answer(question.id[:12], {"size": 3})
    text = str(refused.value)
    assert "How many pears?" in text and 'your call: order({"what":"pears"})' in text
    assert "goes to the server shop, and every participant of the space sees it" in text
    with pytest.raises(MewError, match="nothing was sent, because size must be"):
        lab.answer(question.id, {"size": 30})
    assert str(lab.answer(question, {"size": 3})) == "Answered: The server shop asks you"
    assert str(pending.result(20)) == "accept 3 "
    [note] = notes(lab)
    assert (note["question"], note["action"], note["by"]) == (question.id, "accept", "human")
    assert note["digest"] == question.digest and len(note["answer"]) == 64
    assert [one.state for one in lab.asked.decided()] == ["accepted"]
    with pytest.raises(MewError, match="is not open any more"):
        lab.answer(question, {"size": 4})
    assert lab.log.verify().ok


@pytest.mark.ruling("R29")
def test_a_click_answers_what_its_own_view_has_shown(lab: Lab) -> None:
    bridged(lab)
    pending = lab.call("shop/sign_in")
    question = asked(lab)
    assert (
        question.kind == "url" and question.asked is not None and question.asked.host == "login.example.org"
    )
    press = lab.asked.gate.click("v1")
    with pytest.raises(NotApproved, match="has not shown it yet"):
        lab.asked.decide(question.id, digest=question.digest, action="accept", click=press).result(10)
    lab.asked.gate.record_shown(question, view="v1", digest=question.digest)
    press = lab.asked.gate.click("v1")
    with pytest.raises(NotApproved, match="what was shown is not what is asked"):
        lab.asked.decide(question.id, digest="0" * 64, action="accept", click=press).result(10)
    lab.asked.decide(question.id, digest=question.digest, action="accept", click=press).result(10)
    assert str(pending.result(20)) == "accept"
    assert notes(lab)[0]["on_screen"] >= 0


def test_a_call_that_a_policy_decided_is_asked_of_the_owner_and_without_a_person_of_nobody(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridged(lab)
    bot = lab.join("bot")
    lab.decide = Policy.approve()
    pending = bot.call("shop/order", what="figs")
    question = asked(lab)
    lab.answer(question, action="decline")
    assert str(pending.result(20)) == "decline"
    monkeypatch.setenv(HEADLESS, "approve")
    assert str(bot.call("shop/order", what="figs").result(20)) == "decline"
    assert lab.asked.pending() == []


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["refused", "swallowed", "cut off"])
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_an_answer_that_does_not_arrive_is_not_called_confirmed(
    how: How, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = failing(monkeypatch)
    monkeypatch.setattr(questions, "CONFIRMED_WITHIN", 0.2)
    lab = up()
    bridged(lab)
    pending = lab.join("bot").call("shop/order", what="pears")
    approve(lab, pending.id)
    question = asked(lab)
    str(lab.questions())
    fails["mcp/response"] = how
    said = str(lab.answer(question, {"size": 3} if action == "accept" else None, action=action))
    assert said.endswith("; the gateway has not confirmed the answer")
    fails.clear()


def test_sampling_shows_the_whole_prompt_and_the_model_replies_after_approval(lab: Lab) -> None:
    bridged(lab, sampling=ScriptedModel([{"say": "A short text."}]))
    pending = lab.call("shop/summarise", text="line one\nline two " + "x" * 3000)
    question = asked(lab)
    text = str(lab.questions())
    assert "line two " + "x" * 3000 in text and "Be brief." in text and "system:" in text
    lab.answer(question)
    assert str(pending.result(20)).endswith("A short text.")
    assert eventually(lambda: "replied" in lab.asked.decided()[-1].outcome)
    pending = lab.call("shop/summarise", text="again")
    lab.answer(asked(lab), action="decline")
    with pytest.raises(MewError, match="rejected"):
        pending.result(20)


@pytest.mark.parametrize(
    "content",
    [[], {"type": "text", "text": ""}, {"type": "image", "data": "aGk="}, [{"type": "audio"}]],
    ids=str,
)
def test_a_prompt_that_has_no_text_or_more_than_text_is_not_shown_and_not_sent(content: object) -> None:
    with pytest.raises(RpcError, match="Invalid params: "):
        questions.read_prompt({"messages": [{"role": "user", "content": content}]})


def test_without_permission_there_is_no_sampling_and_a_cancelled_call_takes_its_question_back(
    lab: Lab,
) -> None:
    bridged(lab)
    with pytest.raises(MewError):
        lab.call("shop/summarise", text="x").result(20)
    assert lab.asked.pending() == [] and str(lab.questions()).startswith("No server asks anything")
    pending = lab.call("shop/order", what="figs")
    asked(lab)
    pending.withdraw()
    assert eventually(lambda: lab.asked.pending() == [])
    [ended] = lab.asked.decided()
    assert (ended.state, ended.outcome) == ("ended", "shop does not wait for an answer any more")


def test_a_server_that_leaves_takes_its_question_with_it(lab: Lab) -> None:
    bridged(lab)
    lab.call("shop/order", what="figs")
    asked(lab)
    lab.leave("shop")
    assert eventually(lambda: lab.asked.pending() == [])


def test_roots_are_those_that_the_owner_names(lab: Lab, tmp_path: Path) -> None:
    bridged(lab, roots=[tmp_path])
    assert str(lab.call("shop/folders").result(20)) == tmp_path.as_uri()
    assert str(lab.set_roots("shop", [])) == "shop has 0 roots now"
    assert str(lab.call("shop/folders").result(20)) == ""
    with pytest.raises(MewError, match="was not bridged here"):
        lab.set_roots("human", [])


def test_a_participant_that_asks_without_a_call_of_this_person_is_refused(lab: Lab) -> None:
    form = {
        "type": "object",
        "properties": {"password": {"type": "string", "description": "as in ; rm -rf /"}},
    }
    mallory = lab.join("mallory", [{"kind": "mcp/request"}])
    request = {
        "method": "elicitation/create",
        "params": {"message": "Your PIN_code?", "requestedSchema": form},
    }

    async def ask() -> Any:
        return await mallory.participant.mcp_request("human", request)

    with pytest.raises(MewError, match="has not decided the call that this question belongs to"):
        mallory.run(ask())
    request["params"]["_meta"] = {"mew_lab/asked-as": "owner"}  # type: ignore[index]
    mallory.send("mcp/request", {"jsonrpc": "2.0", "id": 1, **request}, to="human")
    question = asked(lab)
    assert question.warnings[0] == "no decision of yours has led to this question"
    assert question.warnings[1].startswith("password looks like a secret")
    assert question.warnings[2].startswith("the question asks for a secret")
    assert any("shell command in the field password" in warning for warning in question.warnings)
