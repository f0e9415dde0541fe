"""One story of a gardener's agent, written in each form in which a log of a coding agent can be opened.

It is asked once, calls `dig` in vain three times, then `water` with success, and answers. Each call takes two seconds.
The forms are those that Claude Code 2.1, Codex 0.171, OpenTelemetry's instrumentations and inspect_ai 0.3 write.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from .agent_sessions import BEGAN, ClaudeStory, CodexStory

PROMPT, ANSWER = "water the peas", "The peas are watered."
CALLS = (("c1", "dig", "rock 1", True), ("c2", "dig", "rock 2", True), ("c3", "dig", "rock 3", True), ("c4", "water", "peas", False))  # fmt: skip
SECONDS = 2.0


def claude(folder: Path) -> Path:
    story = ClaudeStory()
    story.prompt(PROMPT)
    for id, tool, bed, failed in CALLS:
        story.call(id, tool, {"bed": bed})
        story.result(id, "no spade" if failed else "wet", failed=failed, seconds=SECONDS)
    story.say(ANSWER)
    return story.write(folder / "s.jsonl")


def codex(form: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        story = CodexStory(form=form)
        story.prompt(PROMPT)
        for id, tool, bed, failed in CALLS:
            story.call(id, tool, {"bed": bed})
            output = "no spade" if failed else "wet"
            story.result(id, {"content": output, "success": not failed}, seconds=SECONDS)
            story.tokens(1000)
        story.say(ANSWER)
        return story.write(folder / "rollout.jsonl")

    return write


def _nano(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1_000_000) * 1000)


def _attributes(facts: dict[str, Any]) -> list[dict[str, Any]]:
    def value(one: Any) -> dict[str, Any]:
        return {"intValue": str(one)} if type(one) is int else {"stringValue": one}

    return [{"key": key, "value": value(one)} for key, one in facts.items()]


def spans() -> list[dict[str, Any]]:
    """The spans in the order of their ends, as exporters have them."""
    trace, now, made = "4c78f8177122fdac89d4c623cc0d8ea9", BEGAN, list[dict[str, Any]]()

    def add(name: str, facts: dict[str, Any], began: datetime, ended: datetime, **more: Any) -> None:
        number = f"{len(made) + 1:016x}"
        head = {"traceId": trace, "spanId": number, "parentSpanId": "00000000000000ff", "name": name}
        times = {"startTimeUnixNano": _nano(began), "endTimeUnixNano": _nano(ended)}
        made.append({**head, "kind": 3, **times, "attributes": _attributes(facts), "status": {}, **more})

    def turns(role: str, text: str) -> str:
        return json.dumps(
            [{"role": role, "parts": [{"type": "text", "content": text}], "finish_reason": "stop"}]
        )

    model = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-6-mini", "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 7, "gen_ai.input.messages": turns("user", PROMPT),
    }  # fmt: skip
    add("chat gpt-6-mini", model, now, now + timedelta(seconds=1))
    for id, tool, bed, failed in CALLS:
        now += timedelta(seconds=SECONDS + 1)
        facts = {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": id,
            "gen_ai.tool.call.arguments": json.dumps({"bed": bed}),
        }  # fmt: skip
        facts |= {"error.type": "tool_error"} if failed else {"gen_ai.tool.call.result": "wet"}
        status = {"code": 2, "message": "no spade"} if failed else {}
        add(f"execute_tool {tool}", facts, now, now + timedelta(seconds=SECONDS), status=status)
    now += timedelta(seconds=SECONDS + 1)
    add("GET", {"http.request.method": "GET"}, now, now)
    add(
        "chat gpt-6-mini",
        {**model, "gen_ai.output.messages": turns("assistant", ANSWER)},
        now,
        now + timedelta(seconds=1),
    )
    add(
        "invoke_agent gardener",
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "gardener"},
        BEGAN,
        now + timedelta(seconds=2),
    )
    made[-1] |= {"spanId": "00000000000000ff", "parentSpanId": ""}
    return made


def _request(some: list[dict[str, Any]]) -> dict[str, Any]:
    resource = {"attributes": _attributes({"service.name": "garden", "telemetry.sdk.name": "opentelemetry"})}
    return {
        "resourceSpans": [
            {"resource": resource, "scopeSpans": [{"scope": {"name": "garden"}, "spans": some}]}
        ]
    }


def otlp_lines(folder: Path) -> Path:
    path = folder / "spans.jsonl"
    path.write_text("".join(json.dumps(_request([span])) + "\n" for span in spans()))
    return path


def otlp_indented(folder: Path) -> Path:
    path = folder / "spans.json"
    path.write_text(json.dumps(_request(spans()), indent=2))
    return path


def inspect_log(samples: int = 1) -> dict[str, Any]:
    """A log with an approval of each call; the calls of each sample have the same ids."""
    made = []
    for number in range(samples):
        now, events = BEGAN + timedelta(minutes=number), list[dict[str, Any]]()

        def add(kind: str, seconds: float = 0.5, **members: Any) -> str:
            nonlocal now
            now += timedelta(seconds=seconds)
            events.append({"event": kind, "timestamp": now.isoformat(), "uuid": f"e{len(events)}", **members})  # noqa: B023
            return now.isoformat()

        def model(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
            message = {"role": "assistant", "content": text, "tool_calls": calls, "id": "m"}
            usage = {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14}
            output = {
                "model": "mockllm/model",
                "choices": [{"message": message, "stop_reason": "stop"}],
                "usage": usage,
            }
            return {"model": "mockllm/model", "input": [], "output": output, "completed": now.isoformat()}  # noqa: B023

        add("span_begin", id="s", name="init")
        add("sample_init", sample={"input": PROMPT, "target": "done", "id": "a"}, state={})
        for id, tool, bed, failed in CALLS:
            call = {"id": id, "function": tool, "arguments": {"bed": bed}, "type": "function"}
            add("model", **model("", [call]))
            began = now + timedelta(seconds=1)
            add("approval", 1.5, call=call, approver="anna", decision="approve", explanation="fine")
            ended = now + timedelta(seconds=SECONDS)
            error = {"error": {"type": "unknown", "message": "no spade"}} if failed else {}
            result = "" if failed else "attachment://0af1"
            events.append({
                "event": "tool", "timestamp": began.isoformat(), "uuid": f"t{id}", "completed": ended.isoformat(),
                **call, "type": "function", "result": result, "events": [], **error,
            })  # fmt: skip
            now = ended
        add("model", **model(ANSWER, []))
        add("score", score={"value": "C"})
        made.append(
            {
                "id": f"a{number}",
                "epoch": 1,
                "input": PROMPT,
                "messages": [],
                "attachments": {"0af1": "wet"},
                "events": events,
            }
        )
    about = {"task": "garden", "created": BEGAN.isoformat(), "model": "mockllm/model"}
    return {"version": 2, "status": "success", "eval": about, "plan": {}, "stats": {}, "samples": made}


def inspect_json(folder: Path) -> Path:
    path = folder / "log.json"
    path.write_text(json.dumps(inspect_log(), indent=2))
    return path


def members_of(log: dict[str, Any]) -> dict[str, bytes]:
    header = {name: value for name, value in log.items() if name != "samples"}
    found = {"_journal/start.json": json.dumps({"version": 2}).encode()}
    for sample in log["samples"]:
        found[f"samples/{sample['id']}_epoch_1.json"] = json.dumps(sample).encode()
    return {**found, "summaries.json": b"[]", "header.json": json.dumps(header).encode()}


def inspect_eval(folder: Path) -> Path:
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members_of(inspect_log()).items():
            archive.writestr(name, data)
    return path


def zipped(members: dict[str, tuple[bytes, bytes, int]]) -> bytes:
    """A ZIP of members as they are packed: their data, the packed data and the number of the way."""
    file, central = io.BytesIO(), b""
    for name, (data, packed, way) in members.items():
        facts = struct.pack("<HHHHHIII", 20, 0, way, 0, 0, zlib.crc32(data), len(packed), len(data))
        sizes = struct.pack("<HH", len(name), 0)
        central += (
            b"PK\x01\x02\x14\x00"
            + facts
            + sizes
            + b"\0" * 10
            + struct.pack("<I", file.tell())
            + name.encode()
        )
        file.write(b"PK\x03\x04" + facts + sizes + name.encode() + packed)
    at, count = file.tell(), len(members)
    file.write(central + b"PK\x05\x06\0\0\0\0" + struct.pack("<HHIIH", count, count, len(central), at, 0))
    return file.getvalue()


def inspect_zstd(folder: Path) -> Path:
    import zstandard

    path = folder / "log.eval"
    pack = zstandard.ZstdCompressor().compress
    path.write_bytes(
        zipped({name: (data, pack(data), 93) for name, data in members_of(inspect_log()).items()})
    )
    return path


FORMS: dict[str, Callable[[Path], Path]] = {
    "claude": claude,
    "codex": codex("paginated"),
    "codex events": codex("events"),
    "codex old": codex("old"),
    "otlp": otlp_lines,
    "otlp indented": otlp_indented,
    "inspect": inspect_json,
    "inspect eval": inspect_eval,
    "inspect zstd": inspect_zstd,
}
