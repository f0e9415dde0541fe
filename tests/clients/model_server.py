"""A model for coding agents: it makes the calls that the prompt names, one after the other, and ends with a text.

A line of the prompt is `CALL tool {arguments}`; the tool is the offered one that ends so. A call that the gate answers as
pending is made again. It speaks Anthropic's messages and Gemini's `streamGenerateContent`, both streamed, and OpenAI's
responses and chat completions, streamed or not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..agent.llm_server import Answer, ChatServer, Request, called, event, text_answer, whole

LINE = re.compile(r"^CALL (\S+) (\{.*\})$", re.MULTILINE)
PENDING = re.compile(r"waits for a person's approval|is running\. Call it again|is no result yet")
MOST_REPEATS = 40  # of one call, so that no agent goes on for ever


class Given(NamedTuple):
    """One result of a tool as the model was given it."""

    text: str
    pictures: int = 0

    @property
    def is_pending(self) -> bool:
        return PENDING.search(self.text) is not None


class Turn(NamedTuple):
    """One request to the model: the names of the tools that it was offered, and all results until then."""

    tools: list[str]
    results: list[Given]


def given(content: Any) -> Given:
    """What a tool's result says, whichever API carries it: texts anywhere in it, and how many pictures."""
    texts: list[str] = []
    pictures = 0

    def walk(value: Any) -> None:
        nonlocal pictures
        if isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, Mapping):
            kind = str(value.get("type", ""))
            if "image" in kind or "inlineData" in value:
                pictures += 1
            else:
                for name, member in value.items():
                    if name not in ("type", "id", "call_id", "tool_use_id", "tool_call_id", "name", "role"):
                        walk(member)
        elif isinstance(value, str):
            texts.append(value)

    walk(content)
    return Given("\n".join(texts), pictures)


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


class Conversation(NamedTuple):
    """What one request holds, in the same words for every API."""

    tools: list[tuple[str, str]]  # namespace and name
    prompt: str
    results: list[Given]


def read(path: str, body: Mapping[str, Any]) -> Conversation:
    """The conversation of a request to one of the APIs."""
    if "/messages" in path:
        messages = body.get("messages", [])
        parts = [part for message in messages for part in _blocks(message)]
        results = [given(part.get("content")) for part in parts if part.get("type") == "tool_result"]
        texts = [part["text"] for part in parts if part.get("type") == "text"]
        tools = [("", str(tool["name"])) for tool in body.get("tools", [])]
    elif "/responses" in path:
        items = body["input"]
        items = items if isinstance(items, list) else [{"role": "user", "content": items}]
        results = [given(item["output"]) for item in items if item.get("type") == "function_call_output"]
        users = [item for item in items if item.get("role") == "user"]
        texts = [part.get("text", "") for item in users for part in _blocks(item)]
        tools = list(_flat(body.get("tools", [])))
    elif "/chat/completions" in path:
        messages = body["messages"]
        results = _with_pictures(messages)
        users = [message for message in messages if message["role"] == "user"]
        texts = [part.get("text", "") for message in users for part in _blocks(message)]
        tools = [("", str(tool["function"]["name"])) for tool in body.get("tools", [])]
    else:
        parts = [part for content in body["contents"] for part in content.get("parts", [])]
        texts = [part["text"] for part in parts if "text" in part]
        results = []
        for part in parts:
            if "functionResponse" in part:
                results.append(
                    given([part["functionResponse"].get("response"), part["functionResponse"].get("parts")])
                )
            elif "inlineData" in part and results:  # it stands beside the response
                results[-1] = results[-1]._replace(pictures=results[-1].pictures + 1)
        groups = [group.get("functionDeclarations", []) for group in body.get("tools", [])]
        tools = [("", str(tool["name"])) for group in groups for tool in group]
    plain = (text.strip('"').replace('\\"', '"') for text in texts)  # OpenCode puts it in quotation marks
    prompt = next((text for text in plain if LINE.search(text)), "")
    return Conversation(tools, prompt, results)


def _flat(tools: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Codex groups the tools of a server in a namespace."""
    for tool in tools:
        if tool.get("type") == "namespace":
            yield from ((str(tool["name"]), str(inner["name"])) for inner in tool["tools"])
        elif "name" in tool:
            yield "", str(tool["name"])


def _with_pictures(messages: Sequence[Mapping[str, Any]]) -> list[Given]:
    """Chat completions take no picture in the message of a tool: some clients send it in one of a user after it."""
    results: list[Given] = []
    for message in messages:
        if message["role"] == "tool":
            results.append(given(message["content"]))
        elif message["role"] == "user" and results:
            results[-1] = results[-1]._replace(
                pictures=results[-1].pictures + given(message["content"]).pictures
            )
    return results


def next_call(talk: Conversation) -> tuple[str, str, str] | str:
    """The call to make now, as namespace, name and arguments; a text where there is none."""
    calls, step, repeats = LINE.findall(talk.prompt), 0, 0
    for result in talk.results:
        repeats = repeats + 1 if result.is_pending and repeats < MOST_REPEATS else 0
        step += not repeats
    if step >= len(calls):
        return "all is done"
    name, arguments = calls[step]
    found = [tool for tool in talk.tools if tool[1].endswith(name)]
    return (*found[0], arguments) if found else f"{name} is not offered"


class ModelServer(ChatServer):
    """The model on a port of the loopback; `turns` are the requests that offered tools."""

    def __init__(self) -> None:
        super().__init__([self._reply])
        self.turns: list[Turn] = []
        self._made = 0

    @property
    def root(self) -> str:
        """The address without the version of an API."""
        return self.url.removesuffix("/v1")

    @property
    def results(self) -> list[Given]:
        """All results that the model was given in the end."""
        return max((turn.results for turn in self.turns), key=len, default=[])

    def _reply(self, request: Request) -> Answer:
        self.script.append(self._reply)
        path, body = request.path, request.body
        if "countTokens" in path or "count_tokens" in path:
            return _json({"totalTokens": 1, "input_tokens": 1})
        if not re.search(r"/messages|/responses|/chat/completions|[gG]enerateContent", path) or body is None:
            return Answer(status=404, cut=True)  # a HEAD has no body, so the connection ends with it
        talk = read(path, body)
        said: tuple[str, str, str] | str = "a title"
        if talk.tools and talk.prompt:
            names = [".".join(filter(None, tool)) for tool in talk.tools]
            self.turns.append(Turn(names, talk.results))
            said = next_call(talk)
        self._made += 1
        if "/messages" in path:
            return self._messages(said)
        if "/responses" in path:
            return self._responses(said, streams=bool(body.get("stream")))
        if "/chat/completions" in path:
            return self._completions(said, streams=bool(body.get("stream")))
        return self._gemini(said)

    def _messages(self, said: Any) -> Answer:
        head = {"id": f"msg_{self._made}", "type": "message", "role": "assistant", "model": "stand-in"}
        usage = {"input_tokens": 1, "output_tokens": 1}
        if isinstance(said, str):
            block: dict[str, Any] = {"type": "text", "text": said}
            begin, delta, why = {**block, "text": ""}, {"type": "text_delta", "text": said}, "end_turn"
        else:
            id, why = f"toolu_{self._made}", "tool_use"
            block = {"type": "tool_use", "id": id, "name": said[1], "input": json.loads(said[2])}
            begin, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": said[2]}
        message: dict[str, Any] = {
            **head,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return _events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": begin},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        )

    def _responses(self, said: Any, *, streams: bool) -> Answer:
        id = f"item_{self._made}"
        if isinstance(said, str):
            text = {"type": "output_text", "text": said, "annotations": []}
            item = {
                "type": "message",
                "id": id,
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        else:
            item = {"type": "function_call", "id": id, "call_id": f"call_{self._made}", "name": said[1]}
            item |= {
                "arguments": said[2],
                "status": "completed",
                **({"namespace": said[0]} if said[0] else {}),
            }
        details = {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details}
        response = {"id": f"resp_{self._made}", "object": "response", "created_at": 1, "model": "stand-in"}
        response |= {"output": [item], "status": "completed", "usage": usage}
        if not streams:
            return _json(response)
        begun = {**response, "output": [], "status": "in_progress", "usage": None}
        return _events(
            {"type": "response.created", "response": begun, "sequence_number": 0},
            {"type": "response.output_item.added", "output_index": 0, "item": item, "sequence_number": 1},
            {"type": "response.output_item.done", "output_index": 0, "item": item, "sequence_number": 2},
            {"type": "response.completed", "response": response, "sequence_number": 3},
        )

    def _completions(self, said: Any, *, streams: bool) -> Answer:
        if isinstance(said, str):
            return text_answer(said) if streams else whole({"role": "assistant", "content": said}, **_NAMED)
        if streams:
            return called((f"call_{self._made}", said[1], said[2]))
        function = {"name": said[1], "arguments": said[2]}
        call = {"id": f"call_{self._made}", "type": "function", "function": function}
        return whole({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls", **_NAMED)

    def _gemini(self, said: Any) -> Answer:
        part = {"text": said}
        if not isinstance(said, str):
            part = {"functionCall": {"name": said[1], "args": json.loads(said[2])}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        response = {"candidates": [candidate], "usageMetadata": usage}
        return Answer([event(response)])


_NAMED = {"object": "chat.completion", "created": 1, "model": "stand-in"}


def _json(value: Any) -> Answer:
    return Answer([json.dumps(value).encode()], headers={"Content-Type": "application/json"})


def _events(*events: Mapping[str, Any]) -> Answer:
    return Answer([f"event: {one['type']}\n".encode() + event(one) for one in events])
