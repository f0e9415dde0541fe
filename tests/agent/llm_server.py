"""A server of chat completions for tests: real HTTP on a real port, each answer written by the test.

    async with ChatServer([said("It is ", "22 °C."), refused(429, retry_after="0.1")]) as server:
        model = CompletionsModel("any", base_url=server.url)

It knows nothing of the code under test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

__all__ = [
    "Answer",
    "ChatServer",
    "Request",
    "called",
    "chunk",
    "refused",
    "streamed",
    "text_answer",
    "whole",
]


class Request(NamedTuple):
    """One request as it came."""

    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Any


@dataclass(frozen=True)
class Answer:
    """One answer. `cut` breaks the connection off after the pieces; `waits` holds it after them until the peer goes;
    `drips` sends the pieces over and over, with so many seconds between them."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    cut: bool = False
    waits: bool = False
    drips: float = 0.0


def chunk(delta: Mapping[str, Any], finish: str | None = None, **members: Any) -> dict[str, Any]:
    """One chunk as the API documents it."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **members,
    }


def event(data: Any) -> bytes:
    return f"data: {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}\n\n".encode()


def streamed(
    *chunks: Mapping[str, Any], done: bool = True, size: int | None = None, **members: Any
) -> Answer:
    """These chunks as events; with `size` the bytes are cut into pieces of that many."""
    pieces = [event(chunk) for chunk in chunks] + ([event("[DONE]")] if done else [])
    if size is not None:
        text = b"".join(pieces)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return Answer(pieces, **members)


def text_answer(*texts: str, usage: tuple[int, int] | None = None, **members: Any) -> Answer:
    """A streamed text."""
    chunks = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": text}) for text in texts)]
    chunks.append(chunk({}, "stop"))
    if usage is not None:
        counted = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
        chunks.append({**chunk({}), "choices": [], "usage": counted})
    return streamed(*chunks, **members)


def called(*calls: tuple[str, str, str], text: str | None = None, **members: Any) -> Answer:
    """Streamed tool calls, each (id, name, arguments as text), the arguments in two fragments, after a text."""
    chunks = [chunk({"role": "assistant", "content": text})]
    for index, (id, name, arguments) in enumerate(calls):
        begin = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        chunks.append(chunk({"tool_calls": [begin]}))
        middle = len(arguments) // 2
        for part in (arguments[:middle], arguments[middle:]):
            chunks.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}))
    return streamed(*chunks, chunk({}, "tool_calls"), **members)


def whole(message: Mapping[str, Any], finish: str = "stop", **members: Any) -> Answer:
    """One JSON text, from a server that knows no streams."""
    body = {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **members}
    return Answer([json.dumps(body).encode()], headers={"Content-Type": "application/json"})


def refused(status: int, message: str = "no", *, code: str | None = None, **headers: str) -> Answer:
    """An error as the API words it; `retry_after="1"` becomes a header."""
    body = {"error": {"message": message, "type": "some_error", "param": None, "code": code}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(
        [json.dumps(body).encode()], status=status, headers={"Content-Type": "application/json", **named}
    )


class ChatServer:
    """Answers each request with the next answer of the script; an answer may be made from its request."""

    def __init__(
        self, script: Sequence[Answer | Callable[[Request], Answer]], *, models: Answer | None = None
    ) -> None:
        self.script = list(script)
        self.models = models or refused(404, "no such path")  # what GET /v1/models gives
        self.listings = 0  # how often it was asked for; `requests` are all others
        self.requests: list[Request] = []
        self.connections = 0
        self.gone = asyncio.Event()  # a peer went while its answer waited
        self.waiting = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.requests]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer(reader, writer):
                    pass
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(head[0].split(" ")[1], headers, json.loads(body) if body else None)
        if request.path == "/v1/models":
            self.listings += 1
            return await self._say(self.models, reader, writer)
        self.requests.append(request)
        scripted = self.script.pop(0) if self.script else refused(500, "the script is over")
        return await self._say(
            scripted if isinstance(scripted, Answer) else scripted(request), reader, writer
        )

    async def _say(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        lines = [f"HTTP/1.1 {answer.status} X", "Transfer-Encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        for piece in answer.pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        while answer.drips:
            for piece in answer.pieces:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            await asyncio.sleep(answer.drips)
        if answer.waits:
            self.waiting.set()
            await reader.read()
            self.gone.set()
            return False
        if answer.cut:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True
