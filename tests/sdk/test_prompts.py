"""Prompts and resource templates of a ToolBox."""

from __future__ import annotations

import random
import time
from typing import Any
from urllib.parse import quote

import pytest

from mew_lab.errors import ConfigError
from mew_lab.sdk.tools import RpcError, ToolBox


async def ask(box: ToolBox, method: str, **params: Any) -> dict[str, Any]:
    return await box.answer(method, params)


async def test_a_prompt_is_listed_with_its_arguments_and_filled_in() -> None:
    box, changes = ToolBox(), list[str]()
    box.changed.add(changes.append)

    @box.prompt
    def greet(name: str, tone: str = "kind") -> str:
        """A greeting."""
        return f"Greet {name} in a {tone} way."

    assert changes == ["prompts"]
    assert (await ask(box, "prompts/list"))["prompts"] == [
        {
            "name": "greet",
            "description": "A greeting.",
            "arguments": [{"name": "name", "required": True}, {"name": "tone", "required": False}],
        }
    ]
    got = await ask(box, "prompts/get", name="greet", arguments={"name": "Ann"})
    assert got == {
        "description": "A greeting.",
        "messages": [{"role": "user", "content": {"type": "text", "text": "Greet Ann in a kind way."}}],
    }
    assert (await ask(box, "initialize"))["capabilities"]["prompts"] == {}


async def test_a_prompt_may_give_messages() -> None:
    box = ToolBox()
    messages = [{"role": "assistant", "content": {"type": "text", "text": "Yes"}}]

    @box.prompt
    async def chat() -> list[Any]:
        return messages

    assert await ask(box, "prompts/get", name="chat") == {"messages": messages}


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"name": "other"}, "Unknown prompt: other. Prompts here: greet"),
        ({"name": ["greet"]}, "Unknown prompt"),
        ({"name": "greet"}, "Invalid arguments for greet"),
        ({"name": "greet", "arguments": {"name": 3}}, "Invalid arguments for greet"),
        ({"name": "greet", "arguments": []}, "Invalid arguments for greet"),
    ],
)
async def test_what_is_no_use_of_a_prompt_is_an_error_of_the_request(
    params: dict[str, Any], sentence: str
) -> None:
    box = ToolBox()

    @box.prompt
    def greet(name: str) -> str:
        return name

    with pytest.raises(RpcError, match=sentence) as caught:
        await ask(box, "prompts/get", **params)
    assert caught.value.code == -32602


async def test_a_template_serves_all_uris_of_its_form_and_no_others() -> None:
    """Any text of a variable comes back, and a URI that was not made from the template is not found."""
    box, draw = ToolBox(), random.Random(17)

    @box.resource("notes://{day}/on/{name}.txt")
    def note(day: str, name: str) -> str:
        """A note."""
        return f"{day}|{name}"

    [listed] = (await ask(box, "resources/templates/list"))["resourceTemplates"]
    assert listed == {
        "uriTemplate": "notes://{day}/on/{name}.txt",
        "name": "notes://{day}/on/{name}.txt",
        "mimeType": "text/plain",
        "description": "A note.",
    }
    assert (await ask(box, "resources/list"))["resources"] == []
    for _ in range(300):
        day, name = ("".join(draw.choices("aé/%{} .", k=draw.randint(1, 6))) for _ in "ab")
        uri = f"notes://{quote(day, safe='')}/on/{quote(name, safe='')}.txt"
        [content] = (await ask(box, "resources/read", uri=uri))["contents"]
        assert content == {"uri": uri, "mimeType": "text/plain", "text": f"{day}|{name}"}
    for uri in (
        "notes:///on/x.txt",
        "notes://a/on/b/c.txt",
        "notes://a/on/b.txt/",
        "xnotes://a/on/b.txt",
        "",
    ):
        with pytest.raises(RpcError, match="Resource not found"):
            await ask(box, "resources/read", uri=uri)


async def test_an_exact_resource_wins_over_a_template() -> None:
    box = ToolBox()
    box.add_resource("notes://{name}", lambda name: name)
    box.add_resource("notes://today", "exact")
    assert (await ask(box, "resources/read", uri="notes://today"))["contents"][0]["text"] == "exact"


@pytest.mark.parametrize("uri", ["x://{a}{b}", "x://{a}-{b}", "x://{a}/{a}", "x://{", "x://{1}", "x://{+a}"])
def test_a_template_that_is_not_valid_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="is no resource template"):
        ToolBox().add_resource(uri, lambda **_: "")


def test_a_template_with_a_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a function of its variables"):
        ToolBox().add_resource("x://{a}", "text")


async def test_a_hostile_uri_takes_no_more_time_than_its_length() -> None:
    box = ToolBox()
    box.add_resource("/".join(f"{{v{at}}}x" for at in range(12)), lambda **_: "")

    async def cost(length: int) -> float:
        start = time.process_time()
        for _ in range(20):
            with pytest.raises(RpcError):
                await ask(box, "resources/read", uri="x" * length + "y")
        return time.process_time() - start

    await cost(1000)
    assert await cost(40_000) < 400 * max(await cost(1000), 1e-4)
