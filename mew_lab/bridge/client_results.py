"""Makes what a gate answers to its client: results of participants, and sentences of its own, told apart.

A client must not take the words of a participant for those of the gate. So:

- members of `_meta` that begin with `mew-lab/` are the gate's alone; those of participants are left out;
- a text of a participant that reads like a sentence of the gate gets "Result of git/commit:" before it, wherever a
  content shows it. Both are compared as they read: without case, accents, look-alikes, punctuation and invisible
  characters;
- an entry or a result that the revision of MCP of the client does not allow costs itself alone.

Spec: §3.1.2; MCP "Tools", "Resources", "Prompts".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from mcp import types
from mcp.types.methods import serialize_server_result
from mcp.types.version import LATEST_HANDSHAKE_VERSION

from mew_lab.bridge.offers import PENDING_LINE, RESULT, offered_link, offered_meta
from mew_lab.protocol.coerce import member, text_of
from mew_lab.protocol.content import raw_text
from mew_lab.protocol.text import letters
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.peer_lists import METHODS

__all__ = [
    "LISTS",
    "as_offered",
    "known_members",
    "misfit",
    "reads_as_own",
    "refused",
    "result_misfit",
    "text_result",
    "without_own_words",
]

MAX_SHOWN = 300  # characters of a peer's words in one of our sentences
OPENING = 300  # letters of a text that are compared
MAX_READ = 64 * 1024  # characters in which a text must have so many letters; else it counts as hiding them
CHUNK = 2048
_TAG = re.compile(r"<[^<>]{0,200}>")
# The sentences of a gate, as letters: those that are its alone, and those about the call that they name.
_OWN = tuple(
    map(
        letters,
        (
            "waits for a person's approval",
            PENDING_LINE,
            "approved this call with other arguments",
            "so nobody was asked",
            f"call {RESULT} with",
        ),
    )
)
_OWN_ABOUT = [
    tuple(map(letters, sentence.split("…")))
    for sentence in (
        *("… waits", "… is running", "… was", "… has ended", "… failed", "… gave no result"),
        *("rejected …", "has approved …", "decided on …", "cancelled …", "so … was", "whether …"),
        *("withdrawal of …", "taken over …", "schema of …"),
    )
]
LISTS: Mapping[str, Any] = {
    "tools/list": types.ListToolsResult,
    "resources/list": types.ListResourcesResult,
    "resources/templates/list": types.ListResourceTemplatesResult,
    "prompts/list": types.ListPromptsResult,
}
_RESULTS: Mapping[str, Any] = {
    "tools/call": types.CallToolResult,
    "resources/read": types.ReadResourceResult,
    "prompts/get": types.GetPromptResult,
    "completion/complete": types.CompleteResult,
}
_RESULT_MEMBERS = (
    "completion",
    "content",
    "structuredContent",
    "isError",
    "contents",
    "messages",
    "description",
    "_meta",
)


def misfit(method: str, entry: Mapping[str, Any], version: str = LATEST_HANDSHAKE_VERSION) -> str:
    """Why an entry of a list cannot be sent to a client of that revision of MCP; empty where it can."""
    listed = METHODS.get(method, "tools")
    return _why(method, LISTS[method], {listed: [entry]}, version)


def known_members(result: Any) -> Any:
    """A result without the members that are the gate's own to send, such as `resultType`."""
    if not isinstance(result, dict):
        return result
    return {name: result[name] for name in _RESULT_MEMBERS if name in result}


def result_misfit(method: str, result: Any, version: str) -> str:
    """Why the result of a participant cannot be sent to a client of that revision; empty where it can."""
    return _why(method, _RESULTS[method], result, version)


def _why(method: str, model: Any, result: Any, version: str) -> str:
    try:
        plain = model.model_validate(result).model_dump(by_alias=True, mode="json", exclude_none=True)
        serialize_server_result(method, version, plain)
    except (ValueError, TypeError, RecursionError) as fault:
        lines = [line.strip() for line in str(fault).splitlines()] or [type(fault).__name__]
        # The model's own error has the place and a sentence in its next lines, for its first fault.
        shown = ": ".join(lines[1:3]).split(" [type=")[0] if len(lines) > 2 else lines[0]
        return one_line(shown, MAX_SHOWN)
    return ""


# --- words of the gate and of participants ---


def without_own_words(result: Any, what: str, *, is_tool: bool) -> Any:
    """A result of a participant without what only the gate may say of the call `what`."""
    if not isinstance(result, dict):
        return result
    plain: dict[str, Any] = as_offered(result, what.partition("/")[0])
    content = plain.get("content")
    if is_tool and isinstance(content, list):
        if not isinstance(plain.get("structuredContent", {}), dict):  # only the latest revision allows it
            content.append({"type": "text", "text": raw_text(plain.pop("structuredContent"))[0]})
        for at, path in _find_own(content, what):
            content[at] = _marked(content[at], path, what)
    return plain


def _find_own(content: list[Any], what: str) -> list[tuple[int, tuple[str, ...]]]:
    """The places in a content whose texts read like sentences of the gate, each once."""
    own: list[tuple[int, tuple[str, ...]]] = []
    for count, path in enumerate(_SHOWN, 1):
        texts = [(at, _text_at(block, path)) for at, block in enumerate(content)]
        own += [(at, path) for at, text in texts if text and reads_as_own(text, what)]
        if any(text for _, text in texts):
            # A sentence may be spread over several texts, of which a client need not show those of the later places.
            shown = [
                (at, one)
                for at, block in enumerate(content)
                for one in _SHOWN[:count]
                if _text_at(block, one)
            ]
            if reads_as_own("".join(_text_at(content[at], one) for at, one in shown), what):
                own.append(shown[0])
    return list(dict.fromkeys(own))


# Where a block of content has text that a client shows: text, a resource, a link to one.
_SHOWN = (("text",), ("resource", "text"), ("title",), ("name",), ("description",))


def _text_at(block: Any, path: tuple[str, ...]) -> str:
    """The text at that place of a block; empty where there is none."""
    return text_of(member(block, *path))


def as_offered(value: Any, participant: str) -> Any:
    """A value of a participant for clients; what a tool returns as its data stays as it is.

    It has no members of the gate in any `_meta`, and its links and pages have the addresses at which clients read them.
    """
    if isinstance(value, list):
        return [as_offered(item, participant) for item in value]
    if not isinstance(value, dict):
        return value
    offered = {
        name: (
            offered_meta(participant, member)
            if name == "_meta" and isinstance(member, dict)
            else member
            if name == "structuredContent"
            else as_offered(member, participant)
        )
        for name, member in value.items()
    }
    kind = str(offered.get("type"))
    linked = {"resource": offered.get("resource"), "resource_link": offered}.get(kind)
    if isinstance(linked, dict) and isinstance(uri := linked.get("uri"), str):
        linked["uri"] = offered_link(participant, uri)
    return offered


def _marked(block: dict[str, Any], path: tuple[str, ...], what: str) -> dict[str, Any]:
    name, *inner = path
    if inner:
        return {**block, name: _marked(block[name], tuple(inner), what)}
    return {**block, name: f"Result of {one_line(what, MAX_SHOWN)}:\n{block[name]}"}


def reads_as_own(text: str, what: str) -> bool:
    """Whether a text begins like a sentence of the gate about the call `what`."""
    about = letters(what)
    own = [*_OWN, *(f"{before}{about}{after}" for before, after in _OWN_ABOUT)]
    head = text[:MAX_READ]
    readings = [head]
    if "<" in head or "&" in head:  # as a page shows it
        readings.append(unescape(_TAG.sub("", head)))
    for reading in readings:
        opening = ""
        for at in range(0, len(reading), CHUNK):
            opening += letters(reading[at : at + CHUNK])
            if len(opening) >= OPENING:
                break
        is_hidden = len(opening) < OPENING and len(text) > MAX_READ
        if is_hidden or any(words in opening[:OPENING] for words in own):
            return True
    return False


def text_result(
    text: str, *, is_error: bool = False, meta: dict[str, Any] | None = None
) -> types.CallToolResult:
    """A sentence of the gate as a result."""
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, is_error=is_error, _meta=meta)


def refused(sentence: str) -> types.CallToolResult:
    """A sentence of the gate that says why a call has no result."""
    return text_result(sentence, is_error=True)
