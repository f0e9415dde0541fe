"""Reads the session files of Claude Code: one line of JSON for each message or note.

A session is `<session>.jsonl`. Its sub-agents have files of their own, `<session>/subagents/agent-<id>.jsonl`; of older
versions they stand beside it, as `agent-<id>.jsonl`, or in the same file as lines of a side chain. The files of the
sub-agents are read with the session, by time, each as a participant of its own name.

A line of a newer version says who allowed or denied a call (`permissionDecision`). Of an older one only the text of the
result tells a denial; it is believed of the agent's own tools alone, because any other tool writes its text itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from mew_lab.log.line import read_members
from mew_lab.log.session_records import (
    HUMAN,
    MAX_TYPE,
    SETTINGS,
    CallDecision,
    SessionFacts,
    SessionRecords,
    look_at_head,
    object_of,
    text_of,
)
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.visible import one_line

__all__ = ["CLAUDE", "ClaudeSession", "companions_of", "is_claude_line", "look_at_claude"]

CLAUDE: Final = "claude"
MAX_LINKS: Final = 200_000  # lines of side chains, by which the next ones are found
MAX_ABOUT: Final = 64 * 1024  # bytes of the file about a sub-agent
_KNOWN = """
    agent-color agent-name agent-setting ai-title api-request api-request-blob api-request-resumed
    api-request-shape artifact-autoreact-ledger assistant atis-latch attachment attribution-snapshot
    bridge-session content-replacement cost-state custom-title file-history-delta file-history-snapshot
    frame-link history-suppression host-row hybrid-organization insert-after-uuid last-prompt mode
    permission-mode pr-link progress queue-operation remove-by-uuid replace-by-uuid resume-head-vouch
    saved_hook_context summary system tag task-summary tools-used user worktree-state
"""
KNOWN: Final = frozenset(_KNOWN.split())
"""The types of lines that are known."""
QUESTIONS: Final = frozenset({"AskUserQuestion", "ExitPlanMode"})
"""The tools whose result is the answer of a person."""

# Texts that the agent itself puts in the place of a prompt.
_NOTES = re.compile(
    r"<(local-command-std(out|err)|local-command-caveat|bash-std(out|err)|system-reminder|task-notification|"
    r"user-prompt-submit-hook)\b"
)
_INTERRUPTED = "[Request interrupted by user"
_REFUSED_BY_USER = "The user doesn't want to proceed with this tool use"
_REASON = "the user said:\n"
_REFUSED_BY_SETTINGS = ("Permission to use ", "Claude requested permissions to ")
_NOT_DENIED = frozenset({"interrupted", "cancelled"})
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def is_claude_line(members: Mapping[str, Any]) -> bool:
    """Whether a line is of a session of Claude Code."""
    if not isinstance(members.get("type"), str):
        return False
    return (
        isinstance(members.get("sessionId"), str)
        or {"parentUuid", "uuid"} <= members.keys()
        or {"summary", "leafUuid"} <= members.keys()
        or {"messageId", "snapshot"} <= members.keys()
    )


def look_at_claude(path: Path, file: IO[bytes]) -> SessionFacts:
    """What the beginning of a session tells, and of a sub-agent the file beside it."""
    began, space = look_at_head(file)
    name, asked = "", ""
    if path.name.startswith("agent-"):
        about = _about_agent(path)
        name = _name_of(path.stem.removeprefix("agent-"), text_of(about, "agentType"))
        asked = text_of(about, "toolUseId")
    return SessionFacts(space, began, name, asked)


def _about_agent(path: Path) -> Mapping[str, Any]:
    try:
        with path.with_suffix(".meta.json").open("rb") as file:
            return read_members(file.read(MAX_ABOUT)) or {}
    except OSError:
        return {}


def _name_of(id: str, type: str) -> str:
    """The name of a sub-agent: its type, where that is known, and the beginning of its id."""
    kind = re.sub(r"[^A-Za-z0-9._-]", "-", type)[:40]
    return f"{kind or 'agent'}-{re.sub(r'[^A-Za-z0-9._-]', '-', id)[:12]}"


def companions_of(path: Path) -> tuple[Path, ...]:
    """The files of the sub-agents of a session."""
    if path.suffix != ".jsonl" or path.name.startswith("agent-"):
        return ()
    found = list[Path]()
    below = path.with_suffix("") / "subagents"
    try:
        found += below.glob("agent-*.jsonl")
        found += [one for one in path.parent.glob("agent-*.jsonl") if _session_of(one) == path.stem]
    except OSError:
        return ()
    return tuple(sorted(found))


@lru_cache(maxsize=256)
def _kept_as(kind: str, detail: str) -> str:
    return one_line(f"{kind}: {detail}" if detail else kind, 2 * MAX_TYPE)


@lru_cache(maxsize=10_000)
def _session_of(path: Path) -> str:
    """The session that the first line of a sub-agent's file names."""
    try:
        with path.open("rb") as file:
            return text_of(read_members(file.readline(1 << 20)) or {}, "sessionId")
    except OSError:
        return ""


_PARTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class _Usage(NamedTuple):
    """The usage of a message: each of its lines repeats it, and the last one has it whole."""

    agent: str
    message: str
    usage: Mapping[str, Any]
    model: str
    now: datetime
    stamp: str


class ClaudeSession(SessionRecords):
    """Reads the lines of one session file of Claude Code."""

    def __init__(self, facts: SessionFacts) -> None:
        super().__init__(CLAUDE, facts)
        self._chains: BoundedDict[str, str] = BoundedDict(
            MAX_LINKS
        )  # uuid of a line of a side chain -> sub-agent
        self._side_agents = 0
        self._usage: _Usage | None = None  # of the newest message of the agent

    def _take(self, members: dict[str, Any]) -> None:
        kind = members.get("type")
        if uuid := text_of(members, "uuid"):
            self._id = uuid
        if kind == "assistant":
            self._take_answer(members, self._agent_of(members, uuid))
        elif kind == "user":
            if self._usage is not None:
                self._tell_usage()
            self._take_input(members, self._agent_of(members, uuid))
        elif kind == "cost-state" and isinstance(cost := members.get("totalCostUSD"), int | float):
            self._tell_usage()
            self._status(self.agent, total_cost_usd=cost)

    def _keep(self, members: dict[str, Any]) -> None:
        kind = text_of(members, "type")
        inner = object_of(members.get("attachment"))
        detail = text_of(members, "subtype") or text_of(inner, "type")
        if kind in KNOWN:
            self._event("kept", _kept_as(kind, detail[:MAX_TYPE]))
        else:
            self._unknown(kind)

    def _end(self) -> None:
        self._text = None
        self._tell_usage()

    def _agent_of(self, members: dict[str, Any], uuid: str) -> str:
        """The agent whose turn a line belongs to."""
        if self.facts.name:
            return self.facts.name
        if members.get("isSidechain") is not True:
            return self.agent
        if id := text_of(members, "agentId"):
            return _name_of(id, "")
        name = self._chains.get(text_of(members, "parentUuid"))
        if name is None:
            self._side_agents += 1
            name = f"subagent-{self._side_agents}"
        self._chains[uuid] = name
        return name

    # --- lines of the agent ---

    def _take_answer(self, members: dict[str, Any], agent: str) -> None:
        message = object_of(members.get("message"))
        content = message.get("content")
        usage, id = message.get("usage"), text_of(message, "id")
        if self._usage is not None and (self._usage.agent, self._usage.message) != (agent, id):
            self._tell_usage()
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        ends = message.get("stop_reason") not in ("tool_use", "pause_turn", None)
        for block in blocks if type(blocks) is list else ():
            kind = text_of(block, "type") if type(block) is dict else ""
            if kind == "text":
                self._say(agent, self._asker_of(agent), text_of(block, "text"), ends=ends)
            elif kind == "thinking":
                self._think(agent, text_of(block, "thinking"))
            elif kind == "redacted_thinking":
                self._think(agent, "", redacted=True)
            elif kind in _CALLS:
                name = text_of(block, "name")
                if kind == "mcp_tool_use" and (server := text_of(block, "server_name")):
                    self._call(agent, text_of(block, "id"), name, block.get("input"), target=server)
                else:
                    self._call(agent, text_of(block, "id"), name, block.get("input"), asks=name in QUESTIONS)
            elif kind.endswith("_tool_result"):
                self._result(
                    agent,
                    text_of(block, "tool_use_id"),
                    _content(block.get("content")),
                    failed=_is_error(block),
                )
            else:
                self._unknown(f"a block {kind}")
        if isinstance(usage, dict):
            self._usage = _Usage(agent, id, usage, text_of(message, "model"), self._now, self._stamp)
        if isinstance(cost := members.get("costUSD"), int | float):
            self._status(agent, cost_usd=cost)

    def _tell_usage(self) -> None:
        """The usage of a message, which each of its lines repeats, once."""
        if self._usage is None:
            return
        agent, message, usage, model, now, stamp = self._usage
        self._usage = None
        metrics: dict[str, Any] = {"tokens": 0}
        for name in _PARTS:
            if type(value := usage.get(name)) is int:
                metrics["tokens"] += value
                metrics[name] = value
        if any(metrics.values()):
            if model:
                metrics["model"] = model
            # The line at hand is of what follows.
            at_hand = self._text, self._now, self._stamp
            self._text, self._now, self._stamp = None, now, stamp
            self._message(agent, "participant/status", metrics, id=f"{message or self._id}/usage")
            self._text, self._now, self._stamp = at_hand

    def _asker_of(self, agent: str) -> str:
        return HUMAN if agent == self.agent else self.agent

    # --- lines of whom the agent hears ---

    def _take_input(self, members: dict[str, Any], agent: str) -> None:
        content = object_of(members.get("message")).get("content")
        if members.get("isMeta") is True or members.get("isCompactSummary") is True:
            return
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts, pictures = list[str](), 0
        for block in blocks if type(blocks) is list else ():
            kind = text_of(block, "type") if type(block) is dict else ""
            if kind == "tool_result":
                self._take_result(members, block, agent)
            elif kind == "text":
                texts.append(text_of(block, "text"))
            elif kind in ("image", "document"):
                pictures += 1
            else:
                self._unknown(f"a block {kind}")
        text = "\n".join(texts)
        if text.startswith(_INTERRUPTED):
            self._interrupt(agent)
        elif (texts or pictures) and not _NOTES.match(text):
            about = self.facts.asked if agent == self.facts.name and agent not in self._prompts else ""
            self._prompt(self._asker_of(agent), agent, text, about=about, attachments=pictures)

    def _take_result(self, members: dict[str, Any], block: dict[str, Any], agent: str) -> None:
        content = _content(block.get("content"))
        id, failed = text_of(block, "tool_use_id"), _is_error(block)
        answers = object_of(members.get("toolUseResult")).get("answers")
        self._result(
            agent,
            id,
            content,
            failed=failed,
            decision=_decision(members, content, failed),
            answers=answers if type(answers) is dict else None,
            structured=object_of(members.get("mcpMeta")).get("structuredContent"),
        )


def _decision(members: Mapping[str, Any], content: list[Any], failed: bool) -> CallDecision | None:
    """The decision on a call that the line of its result records; None where it records none."""
    if not failed and "permissionDecision" not in members and "toolDenialKind" not in members:
        return None  # as most are
    stated = object_of(members.get("permissionDecision"))
    source, kind = text_of(stated, "source"), members.get("toolDenialKind")
    text = text_of(object_of(content[0]), "text") if content else ""
    by = HUMAN if source.startswith("user_") else "hook" if source == "hook" else SETTINGS
    denied, told = stated.get("decision") == "reject", False
    if not stated and isinstance(kind, str) and kind not in _NOT_DENIED:
        denied, by = True, HUMAN if kind == "user-rejected" else SETTINGS
    elif not stated and kind is None and failed:
        denied = told = text.startswith((_REFUSED_BY_USER, *_REFUSED_BY_SETTINGS))
        by = HUMAN if text.startswith(_REFUSED_BY_USER) else SETTINGS
    if denied:
        reason = text_of(members, "userFeedback") or text.partition(_REASON)[2] or text
        return CallDecision(by, reason, told)
    return CallDecision(HUMAN, None) if stated.get("decision") == "accept" and by == HUMAN else None


def _is_error(block: Mapping[str, Any]) -> bool:
    return block.get("is_error") is True or text_of(object_of(block.get("content")), "type").endswith(
        "_error"
    )


def _content(content: object) -> list[Any]:
    """The content of a result in MCP's form."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, dict):
        return [content]
    return [_block(one) for one in content] if isinstance(content, list) else []


def _block(block: Any) -> Any:
    source = object_of(object_of(block).get("source"))
    if object_of(block).get("type") == "image" and source.get("type") == "base64":
        return {"type": "image", "data": source.get("data"), "mimeType": source.get("media_type")}
    return block
