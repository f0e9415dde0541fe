"""One call of a tool, from its arguments to its result, with the model's real client and a real space."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import pytest

from mew_lab.agent.model import Message, Reply, Usage
from mew_lab.errors import ConfigError, ModelFailed, ToolFailed
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.results import ToolResult
from mew_lab.sdk.tools import ToolBox
from mew_lab.tools_agent.executor import CONTEXT, UnknownTool

from ..agent.conftest import PROPOSER, Script, until, wants
from ..agent.llm_server import Answer, ChatServer, called, chunk, refused, streamed, text_answer
from .conftest import ASK, Site, described, model_at

FLAGS = {
    "open": {"type": "stdio", "command": "x", "serverToolDefaults": {"permissionRequired": False}},
    "shut": {"type": "stdio", "command": "x"},
}


def look(place: str) -> str:
    """Looks somewhere."""
    return f"seen {place}"


# --- prompt and answer -------------------------------------------------------------------------------------------


@pytest.mark.req("T-9")
@pytest.mark.threat(34)
async def test_the_filled_prompt_reaches_the_model_unchanged_and_its_text_is_the_result(site: Site) -> None:
    async with ChatServer([text_answer("In the ", "shed.")]) as server:
        desk = await site.desk(model_at(server), described(system_prompt="You run a desk."))
        what = " where {name}\n\n\tis  @ref:secret /help %mew "
        done = await desk.executor.execute("ask", {"what": what})
    assert done.result["content"] == [{"type": "text", "text": "In the shed."}]
    assert done.result["isError"] is False
    system, user = server.bodies[0]["messages"]
    assert system["content"].startswith("You run a desk.")
    assert user == {"role": "user", "content": f"Please find out: {what}"}


@pytest.mark.req("T-7", "T-9")
async def test_tools_are_called_without_approval_over_turns_and_their_results_go_back(site: Site) -> None:
    await site.tool("eye", look)
    script = [
        called(
            ("c1", "eye_look", '{"place": "shed"}'),
            ("c2", "eye_look", '{"place": "cellar"}'),
            text="Looking.",
        ),
        called(("c3", "eye_look", '{"place": "garden"}'), text="Once more."),
        text_answer("Found."),
    ]
    async with ChatServer(script) as server:
        desk = await site.desk(model_at(server))
        done = await desk.executor.execute("ask", {"what": "the spade"})
    assert (done.text, done.is_error) == ("Found.", False)
    assert done.turns == ("Looking.", "Once more.", "Found.")
    assert done.result["_meta"]["mew-lab/turns"] == list(done.turns)
    assert [record.observation for record in done.calls] == ["seen shed", "seen cellar", "seen garden"]
    observations = [
        message["content"] for message in server.bodies[2]["messages"] if message["role"] == "tool"
    ]
    assert observations == ["seen shed", "seen cellar", "seen garden"]
    assert site.sent("mcp/proposal") == []
    requests = [
        envelope
        for envelope in site.sent("mcp/request", sender="desk")
        if envelope.payload["method"] == "tools/call"
    ]
    assert {tuple(envelope.correlation_id) for envelope in requests} == {(done.context,)}


async def test_a_session_fits_its_prompts_into_the_context_that_the_server_tells(site: Site) -> None:
    def read(place: str) -> str:
        return "word " * 3000

    await site.tool("eye", read)
    models = Answer(
        [b'{"data": [{"id": "m", "max_model_len": 1024}]}'], headers={"Content-Type": "application/json"}
    )
    script = [called(("c1", "eye_read", '{"place": "shed"}')), text_answer("Found.")]
    async with ChatServer(script, models=models) as server:
        desk = await site.desk(model_at(server))
        done = await desk.executor.execute("ask", {"what": "x"})
    assert done.text == "Found."
    content = server.bodies[1]["messages"][-1]["content"]
    assert "characters left out" in content and len(content) < 4 * 1024


@pytest.mark.req("T-9")
async def test_all_texts_are_the_result_where_that_is_wanted(site: Site) -> None:
    await site.tool("eye", look)
    model = Script(wants("eye/look", {"place": "a"}, why="First."), Reply("Second."))
    desk = await site.desk(model, texts="all")
    assert (await desk.executor.execute("ask", {"what": "x"})).text == "First.\n\nSecond."


# --- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.req("T-10")
async def test_arguments_that_do_not_fit_are_told_in_one_result_before_any_prompt(site: Site) -> None:
    model = Script()
    desk = await site.desk(model)
    done = await desk.executor.execute("ask", {"what": 3, "name": [], "else": 1})
    assert done.is_error
    assert "arguments.what" in done.text and "arguments.name" in done.text and "arguments.else" in done.text
    assert (await desk.executor.execute("ask")).is_error
    assert model.asked == []


async def test_an_unknown_tool_is_named_with_those_that_there_are(site: Site) -> None:
    desk = await site.desk(Script())
    with pytest.raises(UnknownTool, match="Unknown tool: nothing"):
        await desk.executor.execute("nothing", {})


# --- which tools a session has -----------------------------------------------------------------------------------


@pytest.mark.req("T-6")
@pytest.mark.parametrize(
    ("permission", "expected"),
    [
        ("always", []),
        ("never", ["free/look", "open/look", "shut/look"]),
        ("tool", ["free/look", "open/look"]),
    ],
)
async def test_only_tools_that_need_no_permission_are_offered(
    site: Site, permission: str, expected: list[str]
) -> None:
    for name in ("open", "shut", "free"):
        await site.tool(name, look)
    model = Script()
    agent = described(servers=FLAGS, toolPermission=permission)
    desk = await site.desk(model, agent)
    assert not (await desk.executor.execute("ask", {"what": "x"})).is_error
    assert model.offered == [expected]


@pytest.mark.req("T-6")
async def test_a_tool_that_is_not_offered_is_refused_when_called_and_the_session_goes_on(site: Site) -> None:
    await site.tool("shut", look)
    model = Script(wants("shut/look", {"place": "a"}), Reply("I could not."))
    desk = await site.desk(model, described(servers=FLAGS, toolPermission="tool"))
    done = await desk.executor.execute("ask", {"what": "x"})
    assert done.text == "I could not." and done.calls[0][1].startswith("Error: ")
    assert not [
        envelope
        for envelope in site.sent("mcp/request", sender="desk")
        if envelope.payload["method"] == "tools/call"
    ]


async def test_a_tool_whose_arguments_are_not_permitted_is_refused_and_never_proposed(site: Site) -> None:
    await site.tool("eye", look)
    fits = {"method": "tools/call", "params": {"name": "look"}}
    narrow = {
        "kind": "mcp/request",
        "payload": {**fits, "params": {"name": "look", "arguments": {"place": "a*"}}},
    }
    model = Script(wants("eye/look", {"place": "b"}))
    desk = await site.desk(model, can=[*PROPOSER, narrow])
    assert desk.executor.gate("eye/look", {"place": "abc"}) == ""
    assert "not permitted" in desk.executor.gate("eye/look", {"place": "b"})
    await desk.executor.execute("ask", {"what": "x"})
    assert site.sent("mcp/proposal") == []


async def test_only_where_it_is_said_so_are_tools_proposed_and_people_waited_for(site: Site) -> None:
    await site.tool("eye", look)
    human = await site.seat("human")
    model = Script()
    quiet = await site.desk(model, can=PROPOSER)
    await quiet.executor.execute("ask", {"what": "x"})
    assert model.offered == [[]]
    model = Script(wants("eye/look", {"place": "shed"}), Reply("Seen."))
    open_ = await site.desk(model, name="asker", can=PROPOSER, propose=True)
    running = asyncio.create_task(open_.executor.execute("ask", {"what": "x"}))
    proposal = await site.proposal("asker", human)
    await human.approve(proposal.id)
    done = await running
    assert (done.text, done.calls[0][1]) == ("Seen.", "seen shed")


async def test_a_right_that_is_taken_away_within_a_call_is_an_error_to_the_model(site: Site) -> None:
    await site.tool("eye", look)
    human = await site.seat("human")

    async def revoked() -> Reply:
        await human.sender.say(
            "capability/revoke", {"recipient": "desk", "capabilities": [{"kind": "mcp/request"}]}, to="desk"
        )
        await until(lambda: not desk.participant.can_send("mcp/request", {"method": "tools/call"}, "eye"))
        return wants("eye/look", {"place": "a"})

    model = Script(revoked, Reply("I may no longer."))
    desk = await site.desk(model)
    done = await desk.executor.execute("ask", {"what": "x"})
    assert done.text == "I may no longer." and "not permitted" in done.calls[0][1]


# --- sessions ----------------------------------------------------------------------------------------------------


@pytest.mark.req("T-8")
async def test_two_calls_at_once_have_contexts_of_their_own_and_see_nothing_of_each_other(site: Site) -> None:
    both = asyncio.Event()
    asked: list[list[Message]] = []

    class Slow(Script):
        async def reply(self, messages: Any, **how: Any) -> Reply:
            asked.append(list(messages))
            if len(asked) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), 10)
            return Reply(f"about {messages[-1].content}")

    desk = await site.desk(Slow())
    first, second = await asyncio.gather(
        *(desk.executor.execute("ask", {"what": what}) for what in ("apples", "pears"))
    )
    three = await desk.executor.execute("ask", {"what": "plums"})
    assert len({first.context, second.context, three.context} - {""}) == 3
    assert (first.text, second.text) == ("about Please find out: apples", "about Please find out: pears")
    for messages, own in zip(asked, ("apples", "pears", "plums"), strict=True):
        text = " ".join(message.content for message in messages)
        assert [fruit for fruit in ("apples", "pears", "plums") if fruit in text] == [own]
    begun = {envelope.id for envelope in site.sent("reasoning/start")}
    assert begun == {first.context, second.context, three.context}


@pytest.mark.req("T-8")
async def test_without_the_right_to_reason_aloud_a_session_has_a_context_all_the_same(site: Site) -> None:
    desk = await site.desk(Script(), can=[{"kind": "mcp/*"}])
    contexts = {(await desk.executor.execute("ask", {"what": "x"})).context for _ in range(2)}
    assert len(contexts - {""}) == 2


async def test_no_session_is_left_after_an_answer_a_failure_a_deadline_and_a_call_that_was_taken_back(
    site: Site,
) -> None:
    async def never() -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    model = Script(Reply("a"), ModelFailed("no", model="m"), never)
    desk = await site.desk(model, deadline=0.3)
    results = [await desk.executor.execute("ask", {"what": "x"}) for _ in range(3)]
    assert [result.is_error for result in results] == [False, True, True]
    assert "longer than 0.3 s" in results[2].text
    asked = Script(never)
    patient = await site.desk(asked, name="patient")
    running = asyncio.create_task(patient.executor.execute("ask", {"what": "x"}))
    await until(lambda: asked.asked)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert desk.executor.sessions == patient.executor.sessions == {}
    assert len(site.sent("reasoning/cancel")) == 3


async def test_more_calls_than_are_allowed_at_once_wait_in_order_and_further_ones_are_refused(
    site: Site,
) -> None:
    release, most, now, order = asyncio.Event(), 0, 0, []

    class Counting(Script):
        async def reply(self, messages: Any, **how: Any) -> Reply:
            nonlocal most, now
            now, order[len(order) :] = now + 1, [messages[-1].content[-1]]
            most = max(most, now)
            await release.wait()
            now -= 1
            return Reply("done")

    desk = await site.desk(Counting(), max_concurrent=2, max_waiting=3)
    calls = [asyncio.create_task(desk.executor.execute("ask", {"what": str(n)})) for n in range(6)]
    done = await calls[5]
    assert done.is_error and "later" in done.text
    await until(lambda: now == 2)
    release.set()
    assert [result.text for result in await asyncio.gather(*calls[:5])] == ["done"] * 5
    assert (most, order) == (2, list("01234"))


# --- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.req("T-10")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ([refused(500, "the server is ill")], ["I cannot answer now", "500"]),
        ([text_answer(""), text_answer(""), text_answer("")], ["led nowhere"]),
        ([streamed(chunk({"content": "It is in"}), chunk({}, "length"))], ["cut off", "It is in"]),
        (
            [called(("c", "eye_look", '{"place": "a"}'), text="Let me look."), refused(500, "ill")],
            ["500", "Said before: Let me look."],
        ),
    ],
    ids=["error 500", "empty", "truncated", "error after a tool"],
)
async def test_what_a_model_fails_at_is_an_error_result_that_says_what(
    site: Site, script: list[Any], words: list[str]
) -> None:
    await site.tool("eye", look)
    async with ChatServer(script) as server:
        desk = await site.desk(model_at(server))
        done = await desk.executor.execute("ask", {"what": "x"})
    assert done.result["isError"] is True and done.text.startswith("ask: ")
    for word in words:
        assert word in done.text
    assert done.text.count("cut off") == words.count("cut off")


@pytest.mark.req("T-10")
async def test_malformed_arguments_and_a_failing_tool_are_errors_to_the_model_that_may_still_answer(
    site: Site,
) -> None:
    def look(place: str) -> str:
        raise RuntimeError(f"no light in {place}")

    await site.tool("eye", look)
    script = [
        called(("c1", "eye_look", '{"place": ')),
        called(("c2", "eye_look", '{"place": "shed"}')),
        called(("c3", "nobody_runs", "{}")),
        text_answer("It is dark."),
    ]
    async with ChatServer(script) as server:
        desk = await site.desk(model_at(server))
        done = await desk.executor.execute("ask", {"what": "x"})
    assert (done.text, done.is_error) == ("It is dark.", False)
    observations = [
        message["content"] for message in server.bodies[3]["messages"] if message["role"] == "tool"
    ]
    assert len(observations) == 3 and all(observation.startswith("Error: ") for observation in observations)
    assert "no light in shed" in observations[1]


@pytest.mark.req("T-10")
async def test_the_turns_are_used_up_only_when_one_more_would_be_needed(site: Site) -> None:
    await site.tool("eye", look)

    def step(n: int) -> Reply:
        return wants("eye/look", {"place": str(n)})

    fits = await site.desk(Script(step(1), step(2), Reply("Found.")), described(maxChatTurns=3))
    assert (await fits.executor.execute("ask", {"what": "x"})).text == "Found."
    model = Script(step(1), step(2), step(3))
    short = await site.desk(model, described(maxChatTurns=3), name="short")
    done = await short.executor.execute("ask", {"what": "x"})
    assert done.is_error and "none in 3 turns" in done.text and done.text.endswith("Said before: because")
    assert len(model.asked) == 3
    desk = await site.desk(Script(Reply("At once.")), described(maxChatTurns=1), name="one")
    assert (await desk.executor.execute("ask", {"what": "x"})).text == "At once."


async def test_an_answer_that_a_filter_stopped_is_an_error_with_what_came_of_it(site: Site) -> None:
    desk = await site.desk(Script(Reply("Once upon", filtered=True)))
    done = await desk.executor.execute("ask", {"what": "x"})
    assert done.is_error and done.text.startswith(
        "ask: Once upon\n(This answer is not whole: the content filter"
    )


async def test_a_picture_of_a_tool_is_named_to_the_model(site: Site) -> None:
    def draw() -> ToolResult:
        return ToolResult({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]})

    await site.tool("pen", draw)
    desk = await site.desk(Script(wants("pen/draw"), Reply("Drawn.")))
    done = await desk.executor.execute("ask", {"what": "x"})
    (record,) = done.calls
    assert (
        record.observation == "[no image/png, though sent as one, 1 byte]"
        and record.result.content[0]["data"] == "AA=="
    )


async def test_a_session_that_goes_in_circles_is_not_said_to_be_out_of_turns(site: Site) -> None:
    await site.tool("eye", look)
    model = Script(*[wants("eye/look", {"place": "a"})] * 4, Reply("I know nothing."))
    desk = await site.desk(model, described(maxChatTurns=5))
    done = await desk.executor.execute("ask", {"what": "x"})
    assert done.is_error and "4 times" in done.text and "turns" not in done.text
    assert len(model.asked) == 5


async def test_an_execution_has_what_a_test_view_shows(site: Site) -> None:
    await site.tool("eye", look)
    replies = [wants("eye/look", {"place": "a"}), Reply("Seen.", usage=Usage(7, 2))]
    replies[0] = dataclasses.replace(replies[0], usage=Usage(3, 1))
    desk = await site.desk(Script(*replies))
    steps: list[str] = []
    done = await desk.executor.execute("ask", {"what": "x"}, on_step=steps.append)
    (record,) = done.calls
    (sent,) = [
        envelope
        for envelope in site.sent("mcp/request", sender="desk")
        if envelope.payload["method"] == "tools/call"
    ]
    assert (record.call.name, record.id, record.observation) == ("eye/look", sent.id, "seen a")
    assert 0 <= record.seconds <= done.seconds
    assert (done.model, done.usage, done.prompt) == ("script", (10, 3), "Please find out: x")
    assert steps == ["because"]


async def test_the_calls_of_a_session_and_their_answers_carry_its_context(site: Site) -> None:
    await site.tool("eye", look)
    desk = await site.desk(Script(wants("eye/look", {"place": "a"}), Reply("Seen.")))
    done = await desk.executor.execute("ask", {"what": "x"})
    sent = [
        envelope
        for envelope in site.sent("mcp/request", sender="desk")
        if envelope.payload["method"] == "tools/call"
    ]
    answers = [
        envelope
        for envelope in site.sent("mcp/response", sender="eye")
        if tuple(envelope.correlation_id) == (sent[0].id,)
    ]
    assert [envelope.context for envelope in (*sent, *answers)] == [done.context] * 2


async def test_a_tool_may_have_settings_of_its_own(site: Site) -> None:
    await site.tool("eye", look)
    tool = {**ASK, "settings": {"maxChatTurns": "1", "maxOutputTokens": 77, "temperature": 0.25}}
    script = [called(("c1", "eye_look", '{"place": "a"}')), text_answer("Seen.")]
    async with ChatServer(script) as server:
        desk = await site.desk(
            model_at(server), described(tool, {**ASK, "name": "other"}, maxChatTurns=9, temperature=1)
        )
        first = await desk.executor.execute("ask", {"what": "x"})
        await desk.executor.execute("other", {"what": "x"})
    assert first.is_error and "1 turns" in first.text
    assert (server.bodies[0]["max_tokens"], server.bodies[0]["temperature"]) == (77, 0.25)
    assert "max_tokens" not in server.bodies[1]


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"settings": {"maxChatTurns": 0}}, "settings.maxChatTurns"),
        ({"settings": 3}, "settings"),
        ({"callers": "human"}, "callers"),
        ({"callers": ["human", 3]}, "callers[1]"),
        ({"callers": [{"id": "bot", "paylod": {}}]}, "callers[0].paylod"),
        ({"callers": [{"payload": {}}]}, "callers[0].id"),
        ({"callers": [{"id": "bot", "payload": []}]}, "callers[0].payload"),
        (
            {"callers": [{"id": "bot", "payload": {"params": {"name": "/[/"}}}]},
            "callers[0].payload.params.name",
        ),
    ],
)
def test_faults_in_the_settings_and_callers_of_a_tool_have_their_place(
    more: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        described({**ASK, **more})
    assert caught.value.key == f"metadata.tools[0].{key}"


async def test_the_result_is_plain_json_of_mcp(site: Site) -> None:
    desk = await site.desk(Script(Reply("yes")))
    done = await desk.executor.execute("ask", {"what": "x"})
    assert json.loads(json.dumps(done.result)) == {
        "content": [{"type": "text", "text": "yes"}],
        "isError": False,
        "_meta": {
            "mew-lab/context": done.context,
            "mew-lab/tool": {"version": "1.0.0", "hash": desk.agent.tools[0].digest},
        },
    }


@pytest.mark.parametrize(
    ("settings", "rule", "offered"),
    [
        ({"toolPermission": "never"}, None, True),
        ({"toolPermission": "always"}, None, False),
        ({"toolPermission": "tool"}, None, False),
        ({"toolPermission": "tool"}, {"permissionRequired": False}, True),
        ({"toolPermission": "tool"}, {"permissionRequired": False, "include": "manual"}, False),
    ],
)
async def test_the_resources_of_a_server_are_read_where_its_tools_may_be_called(
    site: Site, settings: dict[str, Any], rule: dict[str, Any] | None, offered: bool
) -> None:
    box = ToolBox(name="odd")
    box.add_resource("note://one", "Water the beans.")
    await site.seat("odd", "tool", tools=box)
    server = {"command": "x"} | ({"serverToolDefaults": rule} if rule else {})
    model = Script(wants("read_resource", {"participant": "odd", "uri": "note://one"}), Reply("done"))
    desk = await site.desk(model, described(servers={"odd": server}, **settings))
    done = await desk.call("ask", {"what": "x"})
    assert model.offered[0] == (["read_resource"] if offered else [])
    assert done.calls[0].observation == (
        "Water the beans." if offered else "Error: there is no tool read_resource. Tools here: none"
    )
    assert (desk.executor.gate("read_resource", {"participant": "odd", "uri": "note://one"}) == "") == offered


@pytest.mark.parametrize("permission", ["tool", "always"])
async def test_an_interactive_session_proposes_what_needs_a_permission_and_requests_the_rest(
    site: Site, permission: str
) -> None:
    human = await site.seat("human", "human")
    await site.tool("odd", lambda: "kept", name="keep")
    await site.tool("free", lambda: "read", name="read")
    model = Script(wants("odd/keep"), wants("free/read"), Reply("done"))
    desk = await site.desk(
        model, described(servers={"odd": {"command": "x"}}, toolPermission=permission), interactive=True
    )
    human.on_mcp_proposal(lambda proposal: human.approve(proposal.id))
    done = await desk.call("ask", {"what": "x"})
    assert model.offered[0] == ["free/read", "odd/keep"]
    assert [record.observation for record in done.calls] == ["kept", "read"]
    proposed = [proposal.payload["params"]["name"] for proposal in site.sent("mcp/proposal")]
    assert proposed == (["keep"] if permission == "tool" else ["keep", "read"])


async def test_a_rejected_call_of_an_interactive_session_is_an_observation(site: Site) -> None:
    human = await site.seat("human", "human")
    await site.tool("odd", lambda: "kept", name="keep")
    model = Script(wants("odd/keep"), Reply("Then not."))
    desk = await site.desk(
        model, described(servers={"odd": {"command": "x"}}, toolPermission="tool"), interactive=True
    )
    human.on_mcp_proposal(lambda proposal: human.reject(proposal.id, "too early"))
    done = await desk.call("ask", {"what": "x"})
    assert done.text == "Then not." and "too early" in done.calls[0].observation


# --- calls that go on, versions, needs, history -------------------------------------------------------------------


async def test_a_call_goes_on_with_the_conversation_of_an_earlier_one_of_the_same_caller_only(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    human, other = await site.seat("human", "human"), await site.seat("other", "human")
    model = Script(Reply("A spade."), Reply("In the shed."), Reply("On its hook."))
    await site.desk(model, can=[{"kind": "*"}])

    async def call(participant: MEWParticipant, what: str, context: str = "") -> Any:
        meta = {"_meta": {CONTEXT: context}} if context else {}
        params = {"name": "ask", "arguments": {"what": what}, **meta}
        return (await participant.mcp_request("desk", {"method": "tools/call", "params": params})).raw

    first = (await call(human, "one"))["_meta"][CONTEXT]
    second = (await call(human, "two", first))["_meta"][CONTEXT]
    said = [(message.role, message.content) for message in model.asked[1][1:]]
    assert said == [
        ("user", "Please find out: one"), ("assistant", "A spade."), ("user", "Please find out: two"),
    ]  # fmt: skip
    assert first != second
    for participant, context in ((other, first), (human, "nobody's")):
        with pytest.raises(ToolFailed, match=r"no session .* that this caller can continue"):
            await call(participant, "x", context)
    await call(human, "three", second)
    assert [message.content for message in model.asked[2][1:]][::2] == [
        f"Please find out: {what}" for what in ("one", "two", "three")
    ]
    monkeypatch.setattr("mew_lab.tools_agent.executor.CONTINUES_WITHIN", -1.0)
    third = (await call(human, "four"))["_meta"][CONTEXT]
    with pytest.raises(ToolFailed, match="no session"):
        await call(human, "x", third)
    assert len(model.asked) == 4


def test_the_hash_of_a_tool_changes_with_all_that_decides_on_a_call() -> None:
    base = described(ASK).tools[0].digest
    changes: list[dict[str, Any]] = [
        {"description": "x"}, {"prompt": "x {what}"}, {"parameters": {}}, {"settings": {"maxChatTurns": 3}},
        {"needs": ["a/b"]},
    ]  # fmt: skip
    assert described(dict(reversed(ASK.items()))).tools[0].digest == base
    assert len({base, *(described({**ASK, **change}).tools[0].digest for change in changes)}) == 6


async def test_a_tool_is_not_called_while_what_it_needs_is_missing(site: Site) -> None:
    model = Script(Reply("done"))
    desk = await site.desk(model, described({**ASK, "needs": ["eye/look"]}))
    done = await desk.call("ask", {"what": "x"})
    assert done.is_error and "it needs eye/look, which nobody offers now" in done.text and model.asked == []
    await site.tool("eye", look)
    await until(lambda: desk.participant.discovery.get_available_tools())
    assert (await desk.call("ask", {"what": "x"})).text == "done"


async def test_each_call_stands_in_the_history_refused_ones_too(site: Site) -> None:
    human = await site.seat("human", "human")
    desk = await site.desk(Script(Reply("done")))
    await human.call("desk/ask", {"what": "x"})
    await desk.call("ask", {"what": 3})
    told = [(done.caller, done.arguments, done.is_error) for done in desk.executor.history]
    assert told == [("human", {"what": "x"}, False), ("", {"what": 3}, True)]


# --- results as data ---------------------------------------------------------------------------------------------

COUNT = {
    **ASK,
    "outputSchema": {
        "type": "object",
        "properties": {"count": {"type": "integer", "minimum": 0}},
        "required": ["count"],
    },
}


@pytest.mark.parametrize("answer", ['{"count": 3}', 'Here it is:\n```json\n{"count":3}\n```'])
async def test_a_tool_with_an_output_schema_returns_data_with_its_json_as_text(
    site: Site, answer: str
) -> None:
    model = Script(Reply(answer))
    desk = await site.desk(model, described(COUNT))
    (listed,) = (await desk.answer("tools/list", {}))["tools"]
    assert listed["outputSchema"] == COUNT["outputSchema"]
    result = await desk.answer("tools/call", {"name": "ask", "arguments": {"what": "x"}})
    assert result["structuredContent"] == {"count": 3} and result["isError"] is False
    assert [json.loads(block["text"]) for block in result["content"]] == [{"count": 3}]
    (asked,) = model.asked
    assert json.dumps(COUNT["outputSchema"]) in asked[0].content


async def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_its_faults(site: Site) -> None:
    model = Script(Reply('{"count": -1}'), Reply('{"count": 1}'))
    desk = await site.desk(model, described(COUNT))
    done = await desk.executor.execute("ask", {"what": "x"})
    assert (done.is_error, done.structured) == (False, {"count": 1})
    first, second = model.asked
    assert second[: len(first)] == first
    assert [(message.role) for message in second[len(first) :]] == ["assistant", "user"]
    assert "result.count" in second[-1].content


@pytest.mark.parametrize(
    ("answers", "reason"),
    [(('{"count": "two"}',) * 3, "result.count"), (("None.", "Not one.", '{"count": 1}'), "no JSON object")],
)
async def test_a_second_answer_that_does_not_fit_is_an_error_without_data(
    site: Site, answers: tuple[str, ...], reason: str
) -> None:
    model = Script(*map(Reply, answers))
    desk = await site.desk(model, described(COUNT))
    result = (await desk.executor.execute("ask", {"what": "x"})).result
    assert result["isError"] and "structuredContent" not in result
    text = result["content"][0]["text"]
    assert reason in text and answers[1] in text and len(model.asked) == 2


async def test_a_number_that_json_has_not_is_no_result(site: Site) -> None:
    ratio = {**ASK, "outputSchema": {"type": "object", "properties": {"ratio": {"type": "number"}}}}
    desk = await site.desk(Script(*[Reply('{"ratio": NaN}')] * 2), described(ratio))
    assert (await desk.executor.execute("ask", {"what": "x"})).is_error


async def test_the_second_answer_counts_as_a_turn(site: Site) -> None:
    model = Script(Reply("None."), Reply('{"count": 1}'))
    desk = await site.desk(model, described(COUNT, maxChatTurns=1))
    done = await desk.executor.execute("ask", {"what": "x"})
    assert done.is_error and len(model.asked) == 1


async def test_a_tool_is_called_between_two_answers_and_the_data_are_of_the_last(site: Site) -> None:
    await site.tool("eye", look)
    model = Script(Reply("None."), wants("eye/look", {"place": "shed"}), Reply('{"count": 0}'))
    desk = await site.desk(model, described(COUNT))
    done = await desk.executor.execute("ask", {"what": "x"})
    assert done.structured == {"count": 0} and [record.observation for record in done.calls] == ["seen shed"]
