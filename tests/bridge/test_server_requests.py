"""What a server asks reaches the person who decided its call, in both eras of MCP, and nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.server_requests import ASKING
from mew_lab.errors import ConfigError, NoReply, ToolFailed
from mew_lab.protocol.elicitation import ASKED_AS, CREATE_MESSAGE, ELICIT
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.tools import METHOD_NOT_FOUND, RpcError

from .conftest import Site, until

FULL, ASKING_SERVER = (Path(__file__).parent / name for name in ("full_server.py", "asking_server.py"))
CAN = [*PROFILES["tool"], *ASKING[ELICIT], *ASKING[CREATE_MESSAGE]]
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
Answer = Callable[[Mapping[str, Any]], Any]


class Person:
    """A participant that keeps what it is asked and answers as it is told; `answer` may wait."""

    def __init__(self, me: MEWParticipant, answer: Any) -> None:
        self.asked: list[tuple[Envelope, Mapping[str, Any]]] = []
        self.ended = 0
        self.answer = answer
        for method in (ELICIT, CREATE_MESSAGE):
            me.register_method(method, self._take)

    async def _take(self, params: Mapping[str, Any]) -> dict[str, Any]:
        request = ASKED.get()
        assert request is not None
        self.asked.append((request, params))
        try:
            result = self.answer(params) if callable(self.answer) else self.answer
            if asyncio.iscoroutine(result):
                result = await result
        finally:
            self.ended += 1
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[no-any-return]


async def never(params: Mapping[str, Any]) -> None:
    await asyncio.Event().wait()


async def bridged(site: Site, era: str = "legacy", **options: Any) -> McpBridge:
    return await site.bridge(["python", str(FULL), era], can=CAN, owner="owner", **options)


async def asking(site: Site, mode: str = "") -> McpBridge:
    return await site.bridge(["python", str(ASKING_SERVER), mode], can=CAN, owner="owner")


def warnings(site: Site, me: MEWParticipant) -> list[str]:
    texts: list[str] = []

    def take(envelope: Envelope) -> None:
        if envelope.payload.get("method") == "notifications/message":
            texts.append(str(envelope.payload["params"]["data"]))

    me.client.on_message(take)
    return texts


@ERAS
async def test_who_approved_a_call_is_asked_and_the_call_goes_on_with_the_answer(
    site: Site, era: str
) -> None:
    await bridged(site, era)
    human, owner, bot = await site.seat("human"), await site.seat("owner"), await site.seat("bot", "proposer")
    person, other = (
        Person(human, {"action": "accept", "content": {"size": 3, "note": "soon"}}),
        Person(owner, None),
    )
    call = bot.call("git/order", {"what": "pears"})
    await until(lambda: human.proposals.open())
    request = await human.approve(call.id)
    assert (await call).text == "accept 3 soon"
    [(question, params)] = person.asked
    assert other.asked == []
    assert (question.sender, question.to, question.correlation_id) == ("git", ("human",), (request.id,))
    assert question.payload["method"] == ELICIT and params["message"] == "How many pears?"
    assert params["requestedSchema"]["properties"]["size"]["maximum"] == 9
    assert params["_meta"] == {ASKED_AS: "decider"}


@ERAS
async def test_what_a_person_answers_reaches_the_server_as_far_as_it_fits(site: Site, era: str) -> None:
    await bridged(site, era)
    human = await site.seat("human")
    said = warnings(site, human)
    for action in ("decline", "cancel"):
        Person(human, {"action": action, "content": {"size": 3}})
        told = (await human.call("git/order", {"what": "pears"})).text
        assert told == action if era == "legacy" else action in told
    person = Person(human, {"action": "accept", "content": {"secret": "x"}})
    assert (await human.call("git/sign_in")).text == "accept"  # an answer to an address has no values
    [(_, params)] = person.asked
    assert (params["mode"], params["url"]) == ("url", "https://login.example.org/start?id=7")
    assert "requestState" not in json.dumps(dict(params))
    for content in ({"size": 10}, {"size": 1, "more": 2}, {}, [1], None):
        Person(human, {"action": "accept", "content": content})
        assert "cancel" in (await human.call("git/order", {"what": "pears"})).text
    await until(lambda: said)
    assert "the answer of human does not fit: size must be" in said[0]


@ERAS
async def test_where_no_person_decided_the_owner_is_asked_and_without_one_a_sentence_says_so(
    site: Site, era: str
) -> None:
    await bridged(site, era)
    agent = await site.seat("agent", "human")
    said = warnings(site, agent)
    text = (await asyncio.wait_for(agent.call("git/order", {"what": "figs"}).outcome(), 20)).text
    assert "decline" in text
    assert (await until(lambda: said))[0].startswith(
        "A question of the MCP server (elicitation/create) was not answered: Nobody can answer"
    )
    person = Person(await site.seat("owner"), {"action": "accept", "content": {"size": 1}})
    assert (await agent.call("git/order", {"what": "figs"})).text == "accept 1 "
    [(question, params)] = person.asked
    assert question.to == ("owner",) and params["_meta"] == {ASKED_AS: "owner"}


async def test_a_person_who_leaves_it_to_the_owner_is_not_asked_again_in_another_role(site: Site) -> None:
    await site.bridge(["python", str(FULL), "legacy"], can=CAN, owner="human")
    human = await site.seat("human")
    roles: list[str] = []

    def answer(params: Mapping[str, Any]) -> Any:
        roles.append(params["_meta"][ASKED_AS])
        return RpcError(METHOD_NOT_FOUND, "a policy decided") if len(roles) == 1 else {"action": "decline"}

    Person(human, answer)
    assert (await human.call("git/order", {"what": "figs"})).text == "decline"
    assert roles == ["decider", "owner"]


@ERAS
async def test_sampling_and_roots_are_offered_only_where_they_are_allowed(
    site: Site, era: str, tmp_path: Path
) -> None:
    await bridged(site, era)
    human, owner = await site.seat("human"), await site.seat("owner")
    person = Person(owner, {"role": "assistant", "content": {"type": "text", "text": "short"}, "model": "m"})
    for name, arguments in (("summarise", {"text": "long"}), ("folders", {})):
        with pytest.raises(ToolFailed):
            await human.call(f"git/{name}", arguments)
    assert person.asked == []
    await site.bridges[0].stop()
    await bridged(site, era, sampling=True, roots=[tmp_path])
    assert (await human.call("git/summarise", {"text": "long"})).text == "m: short"
    [(question, params)] = person.asked
    assert question.to == ("owner",) and params["systemPrompt"] == "Be brief."
    assert (await human.call("git/folders")).text == tmp_path.as_uri()
    await site.bridges[1].set_roots([tmp_path, "file:///srv/x"])
    assert (await human.call("git/folders")).text == f"{tmp_path.as_uri()} file:///srv/x"
    assert len(person.asked) == 1
    person.answer = RpcError(-1, "no")
    with pytest.raises(ToolFailed):
        await human.call("git/summarise", {"text": "long"})


async def test_a_folder_that_is_not_there_is_no_root(site: Site) -> None:
    with pytest.raises(ConfigError, match="cannot be a root: there is no such folder"):
        await bridged(site, roots=["/nowhere/at/all"])
    bridge = await bridged(site)
    with pytest.raises(ConfigError, match="git was bridged without roots"):
        await bridge.set_roots([])


@pytest.mark.sampled
@ERAS
@pytest.mark.parametrize("end", ["caller", "person", "server"])
async def test_a_question_ends_with_its_call_its_person_or_its_server(site: Site, era: str, end: str) -> None:
    bridge = await bridged(site, era)
    human, owner, agent = (
        await site.seat("human"),
        await site.seat("owner"),
        await site.seat("agent", "human"),
    )
    person = Person(owner, never)
    call = agent.call("git/order", {"what": "pears"})
    await until(lambda: person.asked)
    if end == "caller":
        await call.withdraw("never mind")
    elif end == "person":
        await owner.stop()
        assert "cancel" in (await asyncio.wait_for(call.outcome(), 20)).text
    else:
        await bridge.stop()
        with pytest.raises((ToolFailed, NoReply)):
            await asyncio.wait_for(call.outcome(), 20)
    await until(lambda: person.ended == 1)
    if end != "server":
        assert (await human.call("git/add", {"a": 1, "b": 1})).text == "2"


# --- servers that lie, flood and hang ---


async def test_a_question_without_a_call_is_declined_and_asked_of_nobody(site: Site) -> None:
    await asking(site, "unasked")
    human = await site.seat("human")
    person = Person(human, never)
    assert json.loads((await human.call("git/seen")).text) == [{"action": "decline"}]
    assert person.asked == []


async def test_a_question_during_the_calls_of_two_persons_goes_to_the_owner(site: Site) -> None:
    await asking(site)
    ann, ben, owner = (
        await site.seat("ann", "human"),
        await site.seat("ben", "human"),
        await site.seat("owner"),
    )
    persons = [Person(ann, never), Person(ben, never)]
    person = Person(owner, {"action": "accept", "content": {"size": 2}})
    first = ann.call("git/wait")
    bridge = site.bridges[0].participant
    await until(lambda: len(bridge.request_server) == 1)
    second = ben.call("git/ask", {"times": 1})
    assert json.loads((await second).text) == [{"action": "accept", "content": {"size": 2}}]
    assert [one.asked for one in persons] == [[], []]
    [(question, _)] = person.asked
    assert set(question.correlation_id) == {first.id, second.id}
    await first.withdraw()


async def test_a_thousand_questions_at_once_are_bounded_and_the_space_goes_on(site: Site) -> None:
    await asking(site)
    human = await site.seat("human")
    said = warnings(site, human)
    answers = asyncio.Event()

    async def answer(params: Mapping[str, Any]) -> dict[str, Any]:
        await answers.wait()
        return {"action": "accept", "content": {"size": 2}}

    person = Person(human, answer)
    call = human.call("git/ask", {"times": 1000})
    await until(lambda: len(person.asked) == 8)
    assert (await human.list_tools("git"))[0]["name"] == "ask"
    answers.set()
    told = json.loads((await asyncio.wait_for(call.outcome(), 60)).text)
    assert len(told) == 1000 and len(person.asked) <= 20
    assert sum(one.get("action") == "accept" for one in told) == len(person.asked)
    assert all(one.get("action") in ("accept", "decline") for one in told)
    await until(lambda: said)
    assert len(said) < 200


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}},
        {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(51)}},
        {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 70_000}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$" * 900}}},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"$ref": "#"}]},
    ],
    ids=["reference", "nested", "many", "large", "pattern", "empty", "recursive"],
)
async def test_a_hostile_schema_is_refused_before_it_is_shown(site: Site, schema: dict[str, Any]) -> None:
    await asking(site)
    human = await site.seat("human")
    person = Person(human, {"action": "accept", "content": {}})
    [answer] = json.loads((await human.call("git/ask", {"times": 1, "schema": schema})).text)
    assert answer["code"] == -32602 and person.asked == []
    assert len(json.dumps(answer)) < 1000


async def test_a_server_that_answers_its_call_before_its_question_takes_the_question_back(site: Site) -> None:
    await asking(site)
    human = await site.seat("human")
    person = Person(human, never)
    assert (await human.call("git/ask_and_go")).text == "gone"
    await until(lambda: person.ended == len(person.asked) == 1)


async def test_a_server_that_answers_twice_or_hangs_after_the_answer_loses_nothing(site: Site) -> None:
    await asking(site)
    human = await site.seat("human")
    Person(human, {"action": "accept", "content": {"size": 2}})
    assert (await human.call("git/twice")).text == "once"
    hanging = human.call("git/hang", timeout=0.5)
    with pytest.raises(NoReply):
        await hanging
    assert (await human.call("git/twice")).text == "once"


async def test_without_the_capability_nobody_is_asked_and_the_server_is_told(site: Site) -> None:
    await site.bridge(["python", str(FULL), "legacy"], can="tool", owner="owner")
    human = await site.seat("human")
    person = Person(human, never)
    assert (await human.call("git/order", {"what": "pears"})).text == "decline"
    assert person.asked == []
