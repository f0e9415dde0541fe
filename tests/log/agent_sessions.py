"""Session files of coding agents, made from a seed in the forms that Claude Code 2.1 and Codex 0.171 write.

Every line stands for one thing that happened; `Story` counts what a reader must find in it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

BEGAN = datetime(2026, 11, 3, 9, 0, tzinfo=UTC)
SESSION = "5b7c1d2e-0000-4000-8000-00000000c0de"
REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
)


class Story:
    """The lines of one session. `kinds` counts the messages that a reader must find, `kept` the other lines."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.kinds: Counter[str] = Counter()
        self.kept = 0
        self.now = BEGAN
        self.n = 0

    def tick(self, seconds: float = 1.0) -> str:
        self.now += timedelta(seconds=seconds)
        return self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def add(self, members: Mapping[str, Any], *kinds: str) -> None:
        """One line, and the kinds of the messages that it holds; a line without any is kept."""
        self.lines.append(json.dumps(members, ensure_ascii=False, separators=(",", ":")))
        self.kinds.update(kinds)
        self.kept += not kinds

    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text())
        return path


class ClaudeStory(Story):
    """A session of Claude Code, or of a sub-agent of it."""

    def __init__(self, seed: int = 0, *, agent: str = "", session: str = SESSION) -> None:
        super().__init__(seed)
        self.agent, self.session = agent, session
        self.before: str | None = None

    def line(self, kind: str, *kinds: str, seconds: float = 1.0, **members: Any) -> None:
        self.n += 1
        uuid = f"{self.agent or 'main'}-{self.n}"
        head = {"parentUuid": self.before, "isSidechain": bool(self.agent), "type": kind}
        if self.agent:
            head["agentId"] = self.agent
        tail = {
            "uuid": uuid, "timestamp": self.tick(seconds), "userType": "external", "cwd": "/home/ann/garden",
            "sessionId": self.session, "version": "2.1.332", "gitBranch": "main",
        }  # fmt: skip
        self.add({**head, **members, **tail}, *kinds)
        self.before = uuid

    def note(self, kind: str, **members: Any) -> None:
        """A line that is no message, and has no time."""
        self.add({"type": kind, **members, "sessionId": self.session})

    def prompt(self, text: str) -> None:
        self.line("user", "chat", message={"role": "user", "content": text})

    def answer(
        self, *blocks: Mapping[str, Any], kinds: tuple[str, ...], ends: bool = False, tokens: int = 7
    ) -> None:
        usage = {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100}
        message = {
            "id": f"msg_{self.n}", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
            "content": list(blocks), "stop_reason": "end_turn" if ends else "tool_use",
            "usage": {**usage, "output_tokens": tokens},
        }  # fmt: skip
        self.line("assistant", *kinds, "participant/status", message=message)

    def say(self, text: str, *, ends: bool = True) -> None:
        self.answer({"type": "text", "text": text}, kinds=("chat",), ends=ends)

    def think(self, text: str, *, first: bool = False) -> None:
        kinds = ("reasoning/start",) * first + ("reasoning/thought",)
        self.answer({"type": "thinking", "thinking": text, "signature": "c2ln"}, kinds=kinds)

    def call(self, id: str, name: str, arguments: Mapping[str, Any], *, kind: str = "mcp/request") -> None:
        block = {"type": "tool_use", "id": id, "name": name, "input": arguments}
        self.answer(block, kinds=(kind,))

    def result(
        self, id: str, content: Any, *kinds: str, failed: bool = False, seconds: float = 1.0, **members: Any
    ) -> None:
        block = {"type": "tool_result", "tool_use_id": id, "content": content}
        if failed:
            block["is_error"] = True
        self.line(
            "user", *(kinds or ("mcp/response",)), seconds=seconds,
            message={"role": "user", "content": [block]}, **members,
        )  # fmt: skip


class CodexStory(Story):
    """A rollout of Codex: `old` has no events and no times, and `paginated` numbers its lines."""

    def __init__(self, seed: int = 0, *, form: str = "paginated") -> None:
        super().__init__(seed)
        self.form = form
        if form == "old":
            self.add(
                {"id": SESSION, "timestamp": self.tick(), "instructions": None, "git": {"branch": "main"}}
            )
        else:
            self.line("session_meta", {"id": SESSION, "cwd": "/home/ann/garden", "cli_version": "0.171.0"})

    def line(self, kind: str, payload: Mapping[str, Any], *kinds: str, seconds: float = 1.0) -> None:
        if self.form == "old":
            if kind == "response_item":
                self.add(payload, *kinds)
            return
        ordinal = {"ordinal": len(self.lines)} if self.form == "paginated" else {}
        self.add({"timestamp": self.tick(seconds), **ordinal, "type": kind, "payload": payload}, *kinds)

    def prompt(self, text: str) -> None:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        self.line("response_item", item, "chat")
        if self.form == "paginated":
            said = {"type": "UserMessage", "id": "u", "content": [{"type": "text", "text": text}]}
            self.line("event_msg", {"type": "item_completed", "item": said})
        else:
            self.line("event_msg", {"type": "user_message", "message": text})

    def surroundings(self) -> None:
        text = "<environment_context>\n  <cwd>/home/ann/garden</cwd>\n</environment_context>"
        self.line(
            "response_item",
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        )

    def say(self, text: str) -> None:
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        self.line("event_msg", {"type": "agent_message", "message": text})
        self.line("response_item", item, "chat")

    def think(self, text: str, *, first: bool = False) -> None:
        item = {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": "x",
        }
        self.line("response_item", item, *("reasoning/start",) * first, "reasoning/thought")

    def call(
        self, id: str, name: str, arguments: Mapping[str, Any], *, kind: str = "mcp/request", **more: Any
    ) -> None:
        item = {
            "type": "function_call",
            "name": name,
            "arguments": json.dumps(arguments),
            "call_id": id,
            **more,
        }
        self.line("response_item", item, kind)

    def result(self, id: str, output: Any, *kinds: str, seconds: float = 1.0) -> None:
        item = {"type": "function_call_output", "call_id": id, "output": output}
        self.line("response_item", item, *(kinds or ("mcp/response",)), seconds=seconds)

    def tokens(self, total: int) -> None:
        last = {
            "input_tokens": total - 5,
            "cached_input_tokens": 0,
            "output_tokens": 5,
            "total_tokens": total,
        }
        info = {"last_token_usage": last, "total_token_usage": last, "model_context_window": 258_400}
        self.line("event_msg", {"type": "token_count", "info": info}, "participant/status")

    def end(self, *, thought: bool = False) -> None:
        self.line(
            "event_msg", {"type": "task_complete", "turn_id": "t"}, *("reasoning/conclusion",) * thought
        )


WORDS = "water the bed of peas and beans in north rose soil self.path return def import for each line 'quoted'".split()
ODD_WORDS = '"double" \\ back <b> 😀 höh \u2028 `tick` {brace} [1] null \x1b[31m \u202e'.split()


def words_of(pick: random.Random, most: int) -> str:
    """Some words; one text of ten has odd ones, too."""
    among = WORDS + ODD_WORDS if pick.random() < 0.1 else WORDS
    return " ".join(pick.choices(among, k=pick.randint(1, most)))


def claude_story(seed: int, turns: int = 6, *, size: int = 1) -> ClaudeStory:
    """A generated session: prompts, thoughts, calls with results long and short, notes."""
    story = ClaudeStory(seed)
    pick = story.random

    def words(most: int) -> str:
        return words_of(pick, most * size)

    for turn in range(turns):
        story.note("file-history-snapshot", messageId=f"m{turn}", snapshot={"n": turn})
        story.prompt(words(40))
        thinks = pick.random() < 0.5
        for n in range(pick.randint(1, 5)):
            id = f"toolu_{turn}_{n}"
            if thinks:
                story.think(words(60), first=n == 0)
            name = pick.choice(["Bash", "Read", "Edit", "mcp__garden__water"])
            story.call(id, name, {"command": words(20), "n": n})
            failed = pick.random() < 0.2
            content: Any = words(400)
            if pick.random() < 0.3:
                content = [{"type": "text", "text": content}]
            story.result(id, content, failed=failed, toolUseResult={"stdout": words(200), "stderr": ""})
        story.say(words(80))
        if thinks:
            story.kinds["reasoning/conclusion"] += 1
        story.line("system", subtype="turn_duration", durationMs=turn)
    return story


def codex_story(seed: int, turns: int = 6, *, form: str = "paginated") -> CodexStory:
    """A generated rollout."""
    story = CodexStory(seed, form=form)
    pick = story.random

    def words(most: int) -> str:
        return words_of(pick, most)

    story.surroundings()
    for turn in range(turns):
        story.prompt(words(40))
        thinks = pick.random() < 0.5
        for n in range(pick.randint(1, 5)):
            id = f"call_{turn}_{n}"
            if thinks:
                story.think(words(60), first=n == 0)
            story.call(id, "exec_command", {"cmd": words(20)})
            story.result(id, f"Process exited with code {pick.choice([0, 0, 1])}\nOutput:\n{words(300)}")
            story.tokens(1000 + turn)
        story.say(words(80))
        story.end(thought=thinks and form != "old")
        if thinks and form == "old" and turn < turns - 1:
            story.kinds["reasoning/conclusion"] += 1  # with the next prompt
    return story


def damaged(story: Story, how: int) -> tuple[bytes, int]:
    """A file that was cut, mixed or written by a later version, and how many sentences on it there must be."""
    pick, lines = story.random, [line.encode() for line in story.lines]
    match how % 5:
        case 0:  # cut within its last line
            data = b"".join(line + b"\n" for line in lines)
            return data[: -pick.randint(2, 30)], 1
        case 1:  # a line that is no JSON, and one of invalid UTF-8
            lines.insert(pick.randint(1, len(lines)), b"Segmentation fault {")
            lines.insert(pick.randint(1, len(lines)), b'{"type":"user","text":"\xff\xfe"}')
        case 2:  # a later version: other lines, other blocks, other types of what is known
            lines.insert(1, b'{"type":"hologram","sessionId":"s","payload":[1]}')
            lines.insert(2, b'{"type":"user","sessionId":"s","message":{"content":[{"type":"scent"}]}}')
            lines.insert(3, b'{"type":["user"],"sessionId":7,"message":"text","timestamp":{}}')
        case 3:  # mixed with the other agent's
            other = codex_story(how) if isinstance(story, ClaudeStory) else claude_story(how)
            lines[1:1] = [line.encode() for line in other.lines[:3]]
            return b"".join(line + b"\n" for line in lines), 0 if isinstance(story, ClaudeStory) else 1
        case _:  # its beginning is gone
            del lines[: len(lines) // 2]
            return b"".join(line + b"\n" for line in lines), 0
    return b"".join(line + b"\n" for line in lines), 1


def sub_agent(folder: Path) -> Path:
    """A session with a sub-agent in a file of its own, as Claude Code 2.1 writes both."""
    main = ClaudeStory()
    main.prompt("dig and water")
    main.call("t1", "Agent", {"prompt": "Dig.", "subagent_type": "Explore"})
    side = ClaudeStory(agent="a4c8df8933b89568c")
    side.now = main.now
    side.prompt("Dig.")
    side.call("s1", "Bash", {"command": "dig"})
    side.result("s1", "dug")
    side.say("It is dug.")
    main.now = side.now
    main.result("t1", [{"type": "text", "text": "It is dug."}])
    main.say("All is done.")
    path = main.write(folder / f"{main.session}.jsonl")
    below = folder / main.session / "subagents"
    side.write(below / "agent-a4c8df8933b89568c.jsonl")
    about = {"agentType": "Explore", "toolUseId": "t1"}
    (below / "agent-a4c8df8933b89568c.meta.json").write_text(json.dumps(about))
    return path
