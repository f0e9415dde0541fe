"""Reads the rollouts of Codex: `rollout-<time>-<id>.jsonl`, one line of JSON for each item of a session.

A line is `{"timestamp", "type", "payload"}`; one of a migrated session has an `ordinal`, too. In the oldest form the
first line describes the session, and each other line is the payload alone, without a time. The same message may stand in
a file twice, as an item of the model and as an event of the agent: the item becomes the message, and the event is kept.

Codex records whether a command failed, and that a person rejected a call; who allowed one, it does not record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import IO, Any, Final

from mew_lab.log.line import read_members
from mew_lab.log.session_records import (
    HUMAN,
    MAX_TYPE,
    TOOLS,
    CallDecision,
    SessionFacts,
    SessionRecords,
    look_at_head,
    object_of,
    text_of,
)
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.visible import one_line

__all__ = ["CODEX", "CodexSession", "is_codex_line", "look_at_codex"]

CODEX: Final = "codex"
MAX_FAILED: Final = 20_000  # calls whose failure is known before their result
_ITEMS = """
    agent_message compaction compaction_summary context_compaction custom_tool_call
    custom_tool_call_output function_call function_call_output ghost_snapshot image_generation_call
    local_shell_call local_shell_call_output mcp_tool_call message reasoning tool_search_call
    tool_search_output web_search_call
"""
ITEMS: Final = frozenset(_ITEMS.split())
"""The types of the items of a model."""
_LINES = """
    compacted event_msg inter_agent_communication inter_agent_communication_metadata realtime_item
    response_item security_risk_score session_meta token_usage_record turn_context world_state
"""
LINES: Final = frozenset(_LINES.split())
"""The types of lines that are known."""
_EVENTS = """
    agent_message agent_reasoning agent_reasoning_raw_content agent_reasoning_section_break
    background_event collab_agent_spawn_end context_compacted dynamic_tool_call_request
    dynamic_tool_call_response entered_review_mode error exec_command_begin exec_command_end
    exited_review_mode item_completed item_started mcp_tool_call_begin mcp_tool_call_end
    patch_apply_begin patch_apply_end plan_update stream_error sub_agent_activity task_complete
    task_started thread_goal_updated thread_name_updated thread_rolled_back thread_settings_applied
    token_count turn_aborted turn_complete turn_diff turn_started undo_completed user_message
    view_image_tool_call warning web_search_begin web_search_end
"""
EVENTS: Final = frozenset(_EVENTS.split())
"""The types of events that are known."""
QUESTIONS: Final = frozenset({"request_user_input"})

# What the agent itself puts in the place of a prompt, in versions that do not mark it.
_NOTES = re.compile(
    r"\s*(<(environment_context|user_instructions|turn_aborted|user_shell_command|subagent_notification|skill|"
    r"permissions instructions|collaboration_mode)\b|# AGENTS\.md instructions)"
)
_REJECTED: Final = ("exec command rejected by user", "patch rejected by user", "rejected by user")
_EXITED = re.compile(r"^Process exited with code (-?\d+)$", re.MULTILINE)
_SHELLS = frozenset({"exec_command", "shell", "write_stdin", "shell_command", "container.exec"})


def is_codex_line(members: Mapping[str, Any]) -> bool:
    """Whether a line is of a rollout of Codex."""
    kind = members.get("type")
    if {"timestamp", "payload"} <= members.keys():
        return isinstance(kind, str) and isinstance(members["payload"], dict)
    if isinstance(kind, str) and kind in ITEMS:
        return bool({"role", "call_id", "summary", "encrypted_content"} & members.keys())
    return {"id", "timestamp", "instructions"} <= members.keys() or "record_type" in members


def look_at_codex(file: IO[bytes]) -> SessionFacts:
    """What the beginning of a rollout tells."""
    began, space = look_at_head(file)
    return SessionFacts(space, began)


class CodexSession(SessionRecords):
    """Reads the lines of one rollout of Codex."""

    def __init__(self, facts: SessionFacts) -> None:
        super().__init__(CODEX, facts)
        self._failed: BoundedDict[str, bool] = BoundedDict(
            MAX_FAILED
        )  # by call, where it is known before the result
        self._names: BoundedDict[str, str] = BoundedDict(MAX_FAILED)
        self._model = ""  # of the turn

    def _take(self, members: dict[str, Any]) -> None:
        kind, payload = text_of(members, "type"), members.get("payload")
        if not isinstance(payload, dict):
            kind, payload = ("response_item", members) if kind in ITEMS else (kind, {})
        if kind == "response_item":
            if id := text_of(payload, "id"):
                self._id = id
            self._take_item(text_of(payload, "type"), payload)
        elif kind == "event_msg":
            self._take_event(text_of(payload, "type"), payload)
        elif kind == "turn_context":
            self._model = text_of(payload, "model")

    def _keep(self, members: dict[str, Any]) -> None:
        kind = text_of(members, "type")
        inner = text_of(object_of(members.get("payload")), "type")
        known = {"response_item": inner in ITEMS, "event_msg": inner in EVENTS}.get(
            kind, kind in LINES or kind in ITEMS
        )
        if not kind:
            kind, known = "session", "instructions" in members or "record_type" in members
        told = f"{kind}: {inner}" if inner else kind
        if known:
            self._event("kept", one_line(told, 2 * MAX_TYPE))
        else:
            self._unknown(told)

    # --- items of the model ---

    def _take_item(self, kind: str, item: dict[str, Any]) -> None:
        agent = self.agent
        match kind:
            case "message":
                self._take_message(item)
            case "reasoning":
                parts = [*_texts(item.get("summary")), *_texts(item.get("content"))]
                hidden = {} if parts else {"encrypted": True}
                self._think(agent, "\n\n".join(parts), **hidden)
            case "function_call":
                name, target = _named(text_of(item, "name"), text_of(item, "namespace"))
                arguments = text_of(item, "arguments")
                values = read_members(arguments)
                self._begin(item, name, arguments if values is None else values, target)
            case "custom_tool_call":
                name, target = _named(text_of(item, "name"), text_of(item, "namespace"))
                self._begin(item, name, item.get("input"), target)
            case "local_shell_call":
                self._begin(item, "shell", item.get("action"))
            case "web_search_call" | "image_generation_call":
                id = text_of(item, "id") or self._id
                given = {name: value for name, value in item.items() if name not in ("type", "id", "status")}
                self._call(agent, id, kind.removesuffix("_call"), given.get("action", given))
                if item.get("status") in ("completed", "failed"):
                    self._result(agent, id, [], failed=item["status"] == "failed")
            case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
                self._end_call(item)

    def _begin(self, item: dict[str, Any], name: str, arguments: object, target: str = "") -> None:
        id = text_of(item, "call_id") or text_of(item, "id")
        self._names[id] = name
        self._call(self.agent, id, name, arguments, target=target, asks=name in QUESTIONS)

    def _end_call(self, item: dict[str, Any]) -> None:
        id, output = text_of(item, "call_id"), item.get("output")
        name, failed = self._names.pop(id, ""), self._failed.pop(id, False)
        if isinstance(output, dict):
            failed = failed or output.get("success") is False
            output = output.get("content")
        text = output if isinstance(output, str) else ""
        content = [{"type": "text", "text": text}] if text else _content(output)
        if name in _SHELLS and (inner := read_members(text)) is not None and "output" in inner:
            code = object_of(inner.get("metadata")).get("exit_code", 0)
            failed = failed or code != 0
        elif name in _SHELLS and (exited := _EXITED.search(text)):
            failed = failed or exited[1] != "0"
        decision = CallDecision(HUMAN, text, told=True) if text in _REJECTED else None
        answers = object_of((read_members(text) or {}).get("answers")) if name in QUESTIONS else None
        self._result(self.agent, id, content, failed=failed, decision=decision, answers=answers)

    def _take_message(self, item: dict[str, Any]) -> None:
        role, texts = text_of(item, "role"), _texts(item.get("content"))
        text = "\n".join(texts)
        if role == "assistant":
            self._say(self.agent, HUMAN, text, ends=False)
        elif role == "user":
            about = object_of(item.get("internal_chat_message_metadata_passthrough")).get(
                "content_item_kinds"
            )
            by_user = "user.text" in about if isinstance(about, list) else not _NOTES.match(text)
            blocks = item.get("content")
            pictures = sum(_type(one) == "input_image" for one in blocks) if isinstance(blocks, list) else 0
            if by_user and (texts or pictures):
                self._prompt(HUMAN, self.agent, text, attachments=pictures)

    # --- events of the agent ---

    def _take_event(self, kind: str, event: dict[str, Any]) -> None:
        match kind:
            case "token_count":
                info = object_of(event.get("info"))
                last = object_of(info.get("last_token_usage"))
                names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
                parts = {name: value for name in names if type(value := last.get(name)) is int}
                if type(total := last.get("total_tokens")) is int:
                    window = info.get("model_context_window")
                    model = self._model or None
                    self._status(self.agent, tokens=total, max_tokens=window, **parts, model=model)
            case "task_complete" | "turn_complete":
                self._conclude(self.agent)
            case "turn_aborted":
                self._interrupt(self.agent)
            case "item_completed":
                item = object_of(event.get("item"))
                code = item.get("exit_code")
                if item.get("status") in ("failed", "declined") or (type(code) is int and code):
                    self._failed[text_of(item, "id")] = True
            case "exec_command_end":
                if type(code := event.get("exit_code")) is int and code:
                    self._failed[text_of(event, "call_id")] = True
            case "mcp_tool_call_end":
                result = object_of(event.get("result"))
                if "Err" in result or object_of(result.get("Ok")).get("isError") is True:
                    self._failed[text_of(event, "call_id")] = True
            case "patch_apply_end":
                if event.get("success") is False:
                    self._failed[text_of(event, "call_id")] = True


def _named(name: str, namespace: str) -> tuple[str, str]:
    """The name of a tool and the MCP server that has it; empty for a tool of the agent itself."""
    if namespace.startswith("mcp__"):
        return name, namespace.removeprefix("mcp__").rstrip("_") or TOOLS
    if namespace:
        return f"{namespace}.{name}", TOOLS
    server, between, tool = name.partition("__")
    if between and server and tool and server != "mcp":  # as older versions name it
        return tool, server
    return name, ""


def _type(block: object) -> str:
    return text_of(object_of(block), "type")


def _texts(blocks: object) -> list[str]:
    if isinstance(blocks, str):
        return [blocks]
    found = blocks if isinstance(blocks, list) else []
    return [text for one in found if (text := text_of(object_of(one), "text"))]


def _content(output: object) -> list[Any]:
    """The content of a result in MCP's form."""
    blocks = output if isinstance(output, list) else []
    return [
        {"type": "text", "text": text_of(one, "text")} if _type(one).endswith("_text") else one
        for one in blocks
    ]
