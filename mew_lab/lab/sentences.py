"""Describes capabilities in plain English: one phrase for a pattern, one sentence for a list.

`phrase` states every condition of a pattern, and says `any` where there is none: a pattern that names no arguments, or
`{}`, allows all of them. The texts decide nothing, and no content of a pattern raises an error.

Spec: §4.1 (Capability Pattern Structure).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mew_lab.protocol.permit import CLOSED
from mew_lab.protocol.strings import is_expression, is_glob
from mew_lab.protocol.visible import one_line

__all__ = ["DEEDS", "phrase", "sentence"]

MOST = 400  # characters of a phrase
MOST_PATTERNS = 60  # patterns of a list that are described one by one
DEEPEST = 8
WORD = 60  # characters of one text of a pattern

# The strongest right first, so that a reader does not overlook it.
DEEDS: Mapping[str, str] = {
    "*": "send any message",
    "space/*": "invite and remove participants",
    "space/kick": "remove participants",
    "space/invite": "invite participants",
    "capability/*": "give and revoke permissions",
    "capability/grant": "give permissions",
    "capability/revoke": "revoke permissions",
    "participant/*": "steer participants (pause, clear, restart, shut down …)",
    "participant/shutdown": "shut participants down",
    "participant/restart": "restart participants",
    "participant/clear": "clear the context of participants",
    "participant/forget": "make participants forget",
    "participant/compact": "make participants compact",
    "participant/pause": "pause participants",
    "participant/resume": "resume participants",
    "mcp/*": "call any tool, propose, decide and answer",
    "mcp/request": "make any MCP request",
    "mcp/proposal": "propose MCP requests",
    "mcp/withdraw": "withdraw proposals",
    "mcp/reject": "reject proposals",
    "mcp/response": "answer MCP requests",
    "stream/*": "open, share and close streams",
    "stream/request": "open streams",
    "stream/open": "announce streams",
    "stream/close": "close streams",
    "stream/grant-write": "let others write to its streams",
    "stream/revoke-write": "stop others writing to its streams",
    "stream/transfer-ownership": "give its streams away",
    "chat": "chat",
    "chat/*": "acknowledge and cancel chats",
    "chat/acknowledge": "acknowledge chats",
    "chat/cancel": "cancel chats",
    "reasoning/*": "reason aloud",
    "reasoning/start": "begin reasoning",
    "reasoning/thought": "think aloud",
    "reasoning/conclusion": "conclude reasoning",
    "reasoning/cancel": "cancel reasoning",
    "participant/request-status": "request status",
    "participant/status": "report its status",
    "participant/compact-done": "report that it has compacted",
    "capability/grant-ack": "acknowledge grants",
}
_WEIGHT = {deed: n for n, deed in enumerate(DEEDS.values())}
# Kinds that are always granted together, described as one.
_TOGETHER: tuple[tuple[frozenset[str], str], ...] = (
    (
        frozenset({"reasoning/start", "reasoning/thought", "reasoning/conclusion", "reasoning/cancel"}),
        "reasoning/*",
    ),
    (frozenset({"chat/acknowledge", "chat/cancel"}), "chat/*"),
)
_METHODS = {
    "tools/list": "ask which tools there are",
    "resources/list": "ask which resources there are",
    "resources/templates/list": "ask which resource templates there are",
    "resources/read": "read resources",
    "prompts/list": "ask which prompts there are",
    "prompts/get": "get prompts",
    "completion/complete": "ask for completions of arguments",
    "notifications/*": "send notifications",
    "notifications/*/list_changed": "report that its tools or resources have changed",
    "notifications/progress": "report the progress of calls",
    "notifications/message": "send log messages",
    "notifications/resources/updated": "report updates of resources",
}


def sentence(patterns: Iterable[Mapping[str, Any]]) -> str:
    """The rights of a list of capabilities, such as `may make any MCP request; chat`; the strongest first."""
    held = list(patterns)
    weights: dict[str, int] = {}
    for pattern in held[:MOST_PATTERNS]:
        for deed, weight in _deeds(pattern):
            weights.setdefault(deed, weight)
    if not held:
        return "may send nothing"
    words = "; ".join(sorted(weights, key=lambda deed: weights[deed]))
    more = f"; and {len(held) - MOST_PATTERNS} more" if len(held) > MOST_PATTERNS else ""
    return f"may {words}{more}"


def phrase(pattern: Mapping[str, Any]) -> str:
    """One capability with every condition, in at most 400 characters."""
    words = [deed for deed, _ in _deeds(pattern)]
    return one_line("; ".join(words), MOST)


def _deeds(pattern: object) -> list[tuple[str, int]]:
    """(deed, weight) of one capability: several where it names several kinds and nothing else."""
    if not isinstance(pattern, Mapping):
        return [("send what cannot be read here", len(_WEIGHT))]
    kinds = _kinds(pattern.get("kind"))
    return [_narrow(kind, pattern) if _is_narrowed(pattern) else _deed(kind) for kind in kinds]


def _kinds(kind: object) -> list[str]:
    if isinstance(kind, str):
        return [kind]
    if not isinstance(kind, Sequence):
        return [_value(kind)]
    kinds = [pattern if isinstance(pattern, str) else _value(pattern) for pattern in kind][:MOST_PATTERNS]
    for together, name in _TOGETHER:
        if together <= set(kinds):
            first = min(kinds.index(kind) for kind in together)
            kinds[first] = name
            kinds = [kind for n, kind in enumerate(kinds) if n == first or kind not in together]
    return list(dict.fromkeys(kinds))


def _deed(kind: str) -> tuple[str, int]:
    deed = DEEDS.get("*" if kind == "**" else kind)
    if deed is not None:
        return deed, _WEIGHT[deed]
    if not _is_plain(kind):
        # counted as wide, because the expression is not analysed
        return f"send messages whose kind is {_text(kind)}", 0
    return f"send {one_line(kind, WORD)}", len(_WEIGHT)


def _is_narrowed(pattern: Mapping[str, Any]) -> bool:
    payload = pattern.get("payload")
    return "to" in pattern or (isinstance(payload, Mapping) and bool(payload))


def _narrow(kind: str, pattern: Mapping[str, Any]) -> tuple[str, int]:
    deed, weight = _deed(kind)
    payload = pattern.get("payload")
    rest: Mapping[str, Any] = payload if isinstance(payload, Mapping) else {}
    if kind in ("mcp/request", "mcp/proposal") and "method" in rest:
        method = rest["method"]
        deed = _operation(kind, method, rest.get("params"), closed=pattern.get(CLOSED) is True)
        if kind == "mcp/request" and all(name in _METHODS for name in _several(method)):
            weight = _WEIGHT[DEEDS["mcp/response"]]  # it only requests information
        rest = {key: value for key, value in rest.items() if key not in ("method", "params")}
    conditions = list(_conditions(rest, "payload", DEEPEST))
    where = f", where {_join(conditions, 'and')}" if conditions else ""
    to = f", only to {_value(pattern['to'])}" if "to" in pattern else ""
    return one_line(f"{deed}{where}{to}", MOST), weight


def _operation(kind: str, method: object, params: object, *, closed: bool) -> str:
    """An MCP request by its method, with the conditions on its parameters."""
    names = params if isinstance(params, Mapping) else {}
    if method == "tools/call":
        deed = f"call {_tool(names)}"
        arguments = names.get("arguments")
        others = {key: value for key, value in names.items() if key not in ("name", "arguments")}
        conditions = list(_conditions(others, "params", DEEPEST))
        if isinstance(arguments, Mapping) and arguments:
            conditions += list(_conditions(arguments, "", DEEPEST))
            others_too = "with no other arguments" if closed else "with any other arguments"
            deed += f" where {_join(conditions, 'and')}, {others_too}"
        else:
            deed += f" where {_join(conditions, 'and')}" if conditions else ""
            # What is no object of patterns, such as a list of them, is not told in words.
            none = closed and (arguments is None or isinstance(arguments, Mapping))
            deed += " with no arguments" if none else " with any arguments"
            if isinstance(arguments, Mapping) and not closed:
                deed += " ({} states no condition, so it allows all)"
    else:
        several = _several(method)
        if all(name in _METHODS for name in several):
            deed = _join([_METHODS[name] for name in several], "or")
        else:
            plain = len(several) == 1 and _is_plain(several[0])
            deed = f"make {'the request' if plain else 'requests'} {_value(method)}"
        conditions = list(_conditions(names, "params", DEEPEST))
        deed += f" where {_join(conditions, 'and')}" if conditions else ""
        deed += ", with nothing else in it" if closed else ""
    return deed if kind == "mcp/request" else f"propose to {deed}"


def _several(method: object) -> list[str]:
    """The methods that a pattern names; an empty name stands for an alternative that is no text."""
    listed = method if isinstance(method, Sequence) and not isinstance(method, str) and method else [method]
    return [name if isinstance(name, str) else "" for name in listed[:MOST_PATTERNS]]


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and not (is_glob(text) or is_expression(text) or text.startswith("!"))


def _tool(params: Mapping[str, Any]) -> str:
    name = params.get("name", "*")
    if name in ("*", "**"):
        return "any tool"
    if _is_plain(name):
        return f"the tool {one_line(str(name), WORD)}"
    return f"tools named {_value(name)}"


def _conditions(wanted: Mapping[str, Any], path: str, depth: int) -> Iterator[str]:
    for n, (key, value) in enumerate(wanted.items()):
        if n == 12:
            yield f"{len(wanted) - 12} more hold"
            return
        name = one_line(str(key), WORD)
        place = f"{path}.{name}" if path else name
        if isinstance(value, Mapping) and value and depth > 0:
            yield from _conditions(value, place, depth - 1)
        elif isinstance(value, Mapping):
            yield f"{place} is any object" if not value else f"{place} is as the pattern says"
        else:
            yield f"{place} is {_value(value)}"


def _value(pattern: object) -> str:
    if isinstance(pattern, str):
        return _text(pattern)
    if isinstance(pattern, Sequence):
        some = [
            _value(part) if not isinstance(part, Sequence) or isinstance(part, str) else "…"
            for part in pattern[:8]
        ]
        return _join([*some, *([f"{len(pattern) - 8} more"] if len(pattern) > 8 else [])], "or") or "nothing"
    if isinstance(pattern, Mapping):
        return "as the pattern says"
    return one_line(json.dumps(pattern, default=str), WORD)


def _text(pattern: str) -> str:
    if pattern in ("*", "**"):
        return "any text"
    if is_expression(pattern):
        return f"of the form {one_line(pattern, WORD)}"
    if pattern.startswith("!") and len(pattern) > 1:
        return f"anything but {_text(pattern[1:]).replace('like', 'what is like', 1)}"
    if is_glob(pattern):
        return f"like “{one_line(pattern, WORD)}”"
    return f"“{one_line(pattern, WORD)}”"


def _join(parts: Sequence[str], word: str) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}" if parts else ""
