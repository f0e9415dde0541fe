"""A model that takes pictures gets those in the answers of tools; any other gets their names."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.completions import CompletionsModel, takes_images
from mew_lab.agent.context_window import ContextWindow, Memory
from mew_lab.agent.model import Message, ReplySettings, ToolCall, estimate_prompt
from mew_lab.agent.models import with_settings
from mew_lab.agent.options import AgentOptions
from mew_lab.agent.prompts import step_messages
from mew_lab.agent.react import Observation, Thought
from mew_lab.agent.turn import read_turn
from mew_lab.errors import ConfigError
from mew_lab.protocol.content import CheckedPicture

from .conftest import CALLER, PROPOSER, Script, Site, until, wants
from .llm_server import Answer, ChatServer, refused, text_answer

PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 2, 3) + b"\x08\x06\0\0\0"
).decode()
RESULT = {
    "content": [{"type": "text", "text": "the bed"}, {"type": "image", "data": PNG, "mimeType": "image/png"}]
}
PICTURE = CheckedPicture("image/png", PNG)


class Camera:
    """Answers for a participant with one tool, which returns a picture."""

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        return {"tools": [{"name": "look"}]} if method == "tools/list" else RESULT


class SeeingScript(Script):
    images = True


@pytest.mark.parametrize("format", ["native", "scratchpad"])
async def test_a_model_that_takes_pictures_sees_them_after_the_answer_that_names_them(
    site: Site, format: str
) -> None:
    await site.seat("camera", "tool", tools=Camera())
    call = wants("camera/look")
    if format == "scratchpad":
        call = call.__class__(
            '{"reasoning": "", "action": "tool_call", "actionInput": {"tool": "camera/look"}}'
        )
    model = SeeingScript(call)
    agent = await site.agent("painter", model, can=CALLER, reasoning_format=format)
    await agent.ask("How is the bed?")
    *_, answer, shown = model.asked[-1]
    assert "the bed\n" in answer.content and "[image/png, 29 bytes: picture 1]" in answer.content
    assert shown == Message("user", "The pictures in the answer of camera/look.", pictures=(PICTURE,))
    assert PNG not in answer.content


async def test_a_model_that_takes_none_gets_their_names(site: Site) -> None:
    await site.seat("camera", "tool", tools=Camera())
    model = Script(wants("camera/look"))
    await (await site.agent("painter", model, can=CALLER)).ask("How is the bed?")
    assert model.asked[-1][-1].content == "the bed\n[image/png, 29 bytes]"
    assert not any(message.pictures for message in model.asked[-1])


async def test_an_overridden_step_passes_pictures_on_and_one_that_words_its_answer_anew_has_none(
    site: Site,
) -> None:
    class Painter(MEWAgent):
        words = ""

        async def act(self, action: str, action_input: Mapping[str, Any], *, run: Any) -> str:
            answer = await super().act(action, action_input, run=run)
            return answer + self.words if self.words else answer

    await site.seat("camera", "tool", tools=Camera())
    for words, count in (("", 1), (" (said)", 0)):
        model = SeeingScript(wants("camera/look"))
        participant = await site.seat(f"painter{count}", CALLER)
        async with Painter(participant, model=model, reasoning_enabled=False) as agent:
            agent.words = words
            await agent.ask("How is the bed?")
        assert sum(len(message.pictures) for message in model.asked[-1]) == count


SEEN = [
    Message("user", "Look."),
    Message("user", "The pictures in the answer of c/look.", pictures=(PICTURE,)),
]


async def test_a_picture_goes_out_as_an_image_url() -> None:
    async with ChatServer([text_answer("A bed.")]) as server:
        model = CompletionsModel("qwen2.5-vl", base_url=server.url)
        assert (await model.reply(SEEN)).text == "A bed."
        await model.aclose()
    assert server.bodies[0]["messages"][1]["content"] == [
        {"type": "text", "text": "The pictures in the answer of c/look."},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]


@pytest.mark.parametrize(
    "refusal",
    [
        refused(400, "invalid content type. image_url is only supported by certain models"),
        refused(500, "image input is not supported - hint: you may need to provide the mmproj"),
        refused(500, "('body', 'messages', 1, 'content'): Input should be a valid string"),
    ],
)
async def test_a_server_that_takes_no_pictures_is_asked_without_and_that_is_remembered(
    refusal: Answer,
) -> None:
    async with ChatServer([refusal, text_answer("a"), text_answer("b")]) as server:
        model = CompletionsModel("any", base_url=server.url, images=True)
        assert [(await model.reply(SEEN)).text for _ in "ab"] == ["a", "b"]
        await model.aclose()
    contents = [body["messages"][1]["content"] for body in server.bodies]
    assert [isinstance(content, list) for content in contents] == [True, False, False]
    assert contents[1].endswith("so they are not shown.")


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("gpt-4o-mini", True), ("gpt-3.5-turbo", False), ("o3", True), ("o3-mini", False), ("gpt-5", True),
        ("anthropic/claude-sonnet-4-5", True), ("gemini-2.5-flash", True), ("qwen2.5-vl:7b", True),
        ("qwen2.5:7b", False), ("llama3.2-vision", True), ("llama3.2", False), ("gemma3:4b", True),
        ("llava", True), ("deepseek-r1", False), ("evolve", False), ("revision-2", False), ("", False),
    ],
)  # fmt: skip
def test_the_name_of_a_model_says_whether_it_takes_pictures(name: str, takes: bool) -> None:
    assert takes_images(name) is takes


async def test_a_setting_wins_over_the_name() -> None:
    model = CompletionsModel("llava", base_url="http://127.0.0.1:1/v1")
    assert model.images is True
    assert with_settings(model, ReplySettings(images=False)).images is False  # type: ignore[attr-defined]
    assert with_settings(model, ReplySettings(temperature=0.5)).images is True  # type: ignore[attr-defined]
    assert AgentOptions.of({"images": False}).reply_settings.images is False
    with pytest.raises(ConfigError, match="images"):
        AgentOptions.of({"images": "yes"})


def thought(number: int, pictures: Sequence[CheckedPicture]) -> Thought:
    call = ToolCall(f"c{number}", "camera/look", {})
    return Thought("", (call,), (Observation.of(str(number), tuple(pictures)),))


def test_a_prompt_holds_the_newest_pictures_alone() -> None:
    thoughts = [thought(n, [CheckedPicture("image/png", f"{n}")]) for n in range(12)]
    messages = step_messages("Go", thoughts, id="x", tools=())
    assert [message.pictures[0].data for message in messages if message.pictures] == [
        str(n) for n in range(4, 12)
    ]
    large = [thought(n, [CheckedPicture("image/png", "A" * 3_000_000)]) for n in range(4)]
    assert sum(bool(message.pictures) for message in step_messages("Go", large, id="x", tools=())) == 2
    assert [call.observation for call in read_turn(messages).done] == [str(n) for n in range(12)]
    assert read_turn(messages).request == "Go"


def test_pictures_count_and_go_first_where_the_context_is_short() -> None:
    messages = [Message("user", "x" * 400, pictures=()), *SEEN[1:] * 3]
    assert estimate_prompt(messages) > 3_000
    window = ContextWindow(None, Memory(), max_tokens=2_000, stop_work=None)  # type: ignore[arg-type]
    assert window.shorten(messages) == messages[:2]


class Screenshots:
    """Answers for a participant whose one tool returns a picture that no message can hold, and a text."""

    def __init__(self, size: int, **more: Any) -> None:
        data = base64.b64encode(base64.b64decode(PNG) + bytes(size)).decode()
        shot = {"type": "image", "data": data, "mimeType": "image/png"}
        self.result = {"content": [{"type": "text", "text": "the page"}, shot], **more}

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        return {"tools": [{"name": "look"}]} if method == "tools/list" else self.result


@pytest.mark.ruling("R43")
@pytest.mark.parametrize("proposes", [False, True])
async def test_a_picture_that_was_too_large_for_a_message_is_loaded_for_the_model(
    site: Site, tmp_path: Path, proposes: bool
) -> None:
    """A screenshot of 3.7 MB, as browsers make them; a model without pictures gets its name and where it is kept."""
    camera = await site.seat("camera", "tool", tools=Screenshots(3_700_000), state=lambda: tmp_path)
    human = await site.seat("human", "human")
    for name, model in (
        ("seeing", SeeingScript(wants("camera/look"))),
        ("blind", Script(wants("camera/look"))),
    ):
        agent = await site.agent(name, model, can=PROPOSER if proposes else CALLER)
        asked = asyncio.ensure_future(agent.ask("How is the page?"))
        if proposes:
            proposal = await until(lambda: [one for one in human.proposals if one.state == "open"])
            await human.approve(proposal[0].id)
        async with asyncio.timeout(60):
            await asked
        observed = next(message.content for message in model.asked[-1] if "kept as" in message.content)
        assert "the page\n[image/png, 3.7 MB" in observed and len(observed) < 1000
        assert f"[the whole result, 4.9 MB, is kept as mew-result://{camera.client.id}/" in observed
        pictures = [picture for message in model.asked[-1] for picture in message.pictures]
        assert len(pictures) == (name == "seeing")
        assert all(picture.mime == "image/png" and len(picture.data) == 4_933_372 for picture in pictures)


@pytest.mark.ruling("R43")
async def test_a_result_that_a_model_cannot_get_is_named_with_the_reason(site: Site, tmp_path: Path) -> None:
    reasons = {
        "too large": (Screenshots(13_000_000), "not loaded, for it has more than 16777216 bytes"),
        "too many values": (
            Screenshots(0, structuredContent={"rows": [[]] * 700_000}),
            "more than 200000 values",
        ),
    }
    for n, (tools, why) in enumerate(reasons.values()):
        await site.seat(f"camera{n}", "tool", tools=tools, state=lambda: tmp_path)
        model = SeeingScript(wants(f"camera{n}/look"))
        agent = await site.agent(f"painter{n}", model, can=CALLER)
        async with asyncio.timeout(60):
            await agent.ask("How is the page?")
        observed = next(
            message.content for message in model.asked[-1] if "It was executed" in message.content
        )
        assert why in observed and "mew-result://" in observed
        assert not any(message.pictures for message in model.asked[-1])
