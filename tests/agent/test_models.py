"""One word, one model."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mew_lab.agent.completions import CompletionsModel
from mew_lab.agent.model import Message, Reply
from mew_lab.agent.models import model_of
from mew_lab.errors import ConfigError

from .llm_server import ChatServer, text_answer


class Parrot:
    name = "parrot"
    max_tokens = None

    async def reply(self, messages: Any, **_: Any) -> Reply:
        return Reply(messages[-1].content)

    async def aclose(self) -> None: ...


def test_a_model_is_what_it_is() -> None:
    parrot = Parrot()
    assert model_of(parrot) is parrot


async def test_any_other_word_is_a_model_behind_an_api() -> None:
    async with ChatServer([text_answer("22 °C")]) as server:
        model = model_of("m-1", base_url=server.url, api_key="sk-for-the-test-only")
        assert isinstance(model, CompletionsModel)
        assert (await model.reply([Message("user", "hi")])).text == "22 °C"
        await model.aclose()
    assert server.bodies[0]["model"] == "m-1"
    assert server.requests[0].headers["authorization"] == "Bearer sk-for-the-test-only"


@pytest.mark.parametrize("spec", [None, "offline"])
def test_no_word_and_offline_are_the_built_in_one(spec: str | None) -> None:
    offline = pytest.importorskip("mew_lab.agent.offline", exc_type=ImportError)
    assert isinstance(model_of(spec), offline.OfflineModel)


@pytest.mark.parametrize("spec", [None, "offline", Parrot()])
def test_a_server_without_the_name_of_its_model_is_refused(spec: Any) -> None:
    with pytest.raises(ConfigError, match="model=") as caught:
        model_of(spec, base_url="http://127.0.0.1:1/v1")
    assert caught.value.key == "model"


@pytest.mark.parametrize("spec", [5, object(), ["m-1"]])
def test_what_is_no_model_is_refused(spec: Any) -> None:
    with pytest.raises(ConfigError, match=f"is a {type(spec).__name__}"):
        model_of(spec)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a name"):
        model_of("", base_url="http://127.0.0.1:1/v1")


def test_a_ready_model_loads_no_adapter() -> None:
    script = (
        "import sys; from mew_lab.agent.models import model_of\n"
        "class M:\n async def reply(self): ...\n async def aclose(self): ...\n"
        "model_of(M()); assert not {'openai', 'mew_lab.agent.completions', 'mew_lab.agent.offline'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
