"""Describes an envelope in one line: one function a kind, in one table.

`describe` never raises: payloads come from peers, and a column of a table must not fail on them. A member that is
missing or has another type than the specification gives it is omitted or shown as JSON. The sentences are for display
only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from mew_lab.protocol.coerce import is_number, list_of, mapping_of, member, text_of
from mew_lab.protocol.content import MAX_SHOWN_PARTS, for_phrase, holds_content, read_parts
from mew_lab.protocol.intake import unknown_outcome
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line

__all__ = ["LIMIT", "SENTENCES", "describe", "reword_refusal"]

LIMIT = 120  # characters: a line of a table
Payload = Mapping[str, Any]


def describe(kind: str, payload: Any) -> str:
    """One line of at most 120 characters; characters that cannot be seen are escapes."""
    members = mapping_of(payload)
    sentence = SENTENCES.get(kind, _unknown)
    try:
        return one_line(sentence(members).strip(), LIMIT)
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError):
        # A shape that no sentence foresaw is still a message that somebody sent.
        return one_line(_unknown(members), LIMIT)


# What the gateway writes, and how a person reads it. Only the beginning of a reason is replaced: what follows may be
# the text of a peer.
_REWORDED = (
    (re.compile(r"\Ano capability (?=is held|for kind )"), "no permission "),
    (re.compile(r"\A(Participant \S{1,128}) lacks capability for "), r"\1 has no permission for "),
    (
        re.compile(r"\A((?:capability/\w+: )?(?:a|the payload of a)) capability (?=is |needs |has )"),
        r"\1 permission ",
    ),
    (
        re.compile(r"(has no key '[^']*'); a capability has (?=kind, payload, to, id)"),
        r"\1; a permission has ",
    ),
    (re.compile(r"\A(\d+) held capabilities allow "), r"\1 held permissions allow "),
    (re.compile(r"\Athe capabilities of all participants "), "the permissions of all participants "),
    (re.compile(r"\Aa capability of (?=\d)"), "a permission of "),
)


def reword_refusal(reason: str) -> str:
    """A reason of the gateway as a person reads it: the specification's "capability" is a permission on a screen.

    The wire and the journal keep the specification's word, so that peers and a replay find the text that they know.
    """
    for pattern, words in _REWORDED:
        reason = pattern.sub(words, reason, count=1)
    return reason


def _text(value: Any, limit: int = LIMIT) -> str:
    """A value as short text: strings as they are, the rest as JSON; one too long loses its end."""
    if value is None:
        return ""
    if isinstance(value, str):
        return one_line(value, limit)
    if isinstance(value, list | dict) and len(value) > 20:
        return f"{len(value)} items"
    return one_line(json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":")), limit)


def _argument(value: Any) -> str:
    if isinstance(value, list) and len(value) > 3:
        return f"{len(value)} items"
    return _text(value, 40)


def _because(payload: Payload) -> str:
    reason = payload.get("reason")
    return f" ({_text(reason, 80)})" if reason not in (None, "") else ""


def _patterns(value: Any) -> str:
    """Capabilities by their kinds."""
    if not isinstance(value, list):
        return ""
    kinds = [
        _text(item.get("kind"), 30) if isinstance(item, Mapping) else _text(item, 30) for item in value[:4]
    ]
    return ", ".join(kinds) + (f" and {len(value) - 4} more" if len(value) > 4 else "")


_MEMBER = re.compile(r"\{(\w+):?(\w*)\}")


def _say(template: str) -> Callable[[Payload], str]:
    """A sentence that names members one after the other: `{name}`, `{name:40}` cut to 40 characters."""

    def member(payload: Payload, name: str, form: str) -> str:
        if name == "because":
            return _because(payload)
        if name == "stream":
            return _stream(payload)
        value = payload.get(name)
        return _patterns(value) if form == "patterns" else _text(value, int(form or LIMIT))

    return lambda payload: _MEMBER.sub(lambda match: member(payload, match[1], match[2]), template)


def _unknown(payload: Payload) -> str:
    keys = ", ".join(one_line(str(key), 30) for key in list(payload)[:8])
    return f"fields {keys}" if keys else "no payload"


def _operation(payload: Payload) -> str:
    """`git_log(repo_path="..", max_count=3)` for a tool, `resources/read uri=…` for every other method."""
    method, params = payload.get("method"), payload.get("params")
    params = mapping_of(params)
    arguments = params.get("arguments")
    if method == "tools/call":
        known = mapping_of(arguments)
        listed = [f"{one_line(str(name), 30)}={_quoted(value)}" for name, value in list(known.items())[:12]]
        if len(known) > 12:
            listed.append("…")
        name = _text(params.get("name"), 60)
        return f"{name}({', '.join(listed)})" if name else " ".join(["a tool without a name", *listed])
    if method == "elicitation/create" and isinstance(params.get("message"), str):
        address = f" to open {_text(params.get('url'), 60)}" if params.get("mode") == "url" else ""
        return f"Asks{address}: “{_text(params['message'], 80)}”"
    if method == "sampling/createMessage" and (prompt := _last_text(params.get("messages"))):
        return f"Asks the model: “{_text(prompt, 80)}”"
    if method == "notifications/progress" and (progress := _progress(params)):
        return progress
    parts = [_text(method, 40) or "no method"]
    if "name" in params:
        parts.append(_text(params.get("name"), 60))
    if isinstance(arguments, Mapping):
        params = arguments
    parts += [
        f"{one_line(str(name), 30)}={_argument(value)}"
        for name, value in list(params.items())[:12]
        if name not in ("name", "arguments")
    ]
    return " ".join(parts)


def _progress(params: Mapping[str, Any]) -> str:
    """`Progress: 2 of 4 · downloading`; empty where there is no number."""
    done, total = _amount(params.get("progress")), _amount(params.get("total"))
    amount = f"{done} of {total}" if total else done
    return done and " · ".join(filter(None, (f"Progress: {amount}", _text(params.get("message"), 80))))


def _amount(value: Any) -> str:
    """A number in few digits; empty for anything else."""
    return f"{value:.6g}" if is_number(value) and abs(value) < 1e15 else ""


def _last_text(messages: Any) -> str:
    """The text of the last message of a request to a model; empty where it has none."""
    return text_of(member(messages[-1], "content", "text")) if isinstance(messages, list) and messages else ""


# What a person did with a question of a server.
_ANSWERS = {"accept": "Answered", "decline": "Declined", "cancel": "Dismissed"}


def _answer(result: Payload) -> str:
    values = list(mapping_of(result.get("content")).items())
    listed = ", ".join(f"{one_line(str(name), 30)}={_quoted(value)}" for name, value in values[:12])
    return _ANSWERS[result["action"]] + (f": {listed}" if listed else "")


def _quoted(value: Any) -> str:
    return f'"{_text(value, 40)}"' if isinstance(value, str) else _argument(value)


def _proposal(payload: Payload) -> str:
    return f"Wants to run {_operation(payload)}"


def _response(payload: Payload) -> str:
    error, result = payload.get("error"), payload.get("result")
    if unknown := unknown_outcome(payload):
        message = error.get("message") if isinstance(error, Mapping) else error
        return f"Outcome not known: {_text(message) if isinstance(message, str) else f'the answer {unknown}'}"
    if isinstance(error, Mapping):  # with a code: any other error leaves the outcome open
        return f"Error {_text(error.get('code'), 12)}: {_text(error.get('message'))}"
    if not isinstance(result, Mapping):
        return _text(result) or "No result"
    if str(result.get("action")) in _ANSWERS and set(result) <= {"action", "content", "_meta"}:
        return _answer(result)
    failed = "Failed: " if result.get("isError") is True else ""
    if method := holds_content(result):
        return failed + (for_phrase(read_parts(result, method, most=MAX_SHOWN_PARTS)) or "Empty result")
    for plural in ("tools", "resources", "prompts"):
        if isinstance(result.get(plural), list):
            names = [_text(item.get("name"), 24) for item in result[plural][:4] if isinstance(item, Mapping)]
            rest = "…" if len(result[plural]) > 4 else ""
            listed = f": {', '.join(names)}{rest}" if names else ""
            return f"{count_of(len(result[plural]), plural[:-1])}{listed}"
    return failed + _text(dict(result))


def _chat(payload: Payload) -> str:
    text = payload.get("text")
    return f"“{_text(text, LIMIT - 2)}”" if isinstance(text, str) else _unknown(payload)


def _reasoning_start(payload: Payload) -> str:
    message = _text(payload.get("message"))
    if not message:
        return "Begins to reason"
    # Agents of this package begin with the words themselves.
    return message if message.startswith("Working on") else f"Working on: {message}"


def _reasoning_conclusion(payload: Payload) -> str:
    message = _text(payload.get("message"))
    return f"Concluded: {message}" if message else "Concluded"


def _reasoning_thought(payload: Payload) -> str:
    return f"Thinking: {_text(payload.get('message')) or _unknown(payload)}"


def _revoke(payload: Payload) -> str:
    grant = payload.get("grant_id")
    what = (
        f"permission {_text(grant, 60)}"
        if grant not in (None, "")
        else _patterns(payload.get("capabilities"))
    )
    return f"Revokes {what} from {_text(payload.get('recipient'), 40)}{_because(payload)}"


def _invite(payload: Payload) -> str:
    given = payload.get("initial_capabilities")
    what = "" if given is None else f" with {_patterns(given) or 'nothing'}"  # else the gateway chooses
    return f"Invites {_text(payload.get('participant_id'), 64)}{what}{_because(payload)}"


def _welcome(payload: Payload) -> str:
    you = mapping_of(payload.get("you"))
    here = count_of(len(list_of(payload.get("participants"))), "other participant")
    return f"Welcome, {_text(you.get('id'), 64)}: {here}; may send {_patterns(you.get('capabilities')) or 'nothing'}"


def _presence(payload: Payload) -> str:
    who = payload.get("participant")
    name = _text(who.get("id"), 64) if isinstance(who, Mapping) else _text(who, 64)
    event = payload.get("event")
    words = {"join": "joined", "leave": "left", "invited": "was invited"}
    happened = words.get(event, "") if isinstance(event, str) else ""
    return f"{name} {happened or _text(event, 40)}{_because(payload)}"


def _error(payload: Payload) -> str:
    code = payload.get("code") if isinstance(payload.get("code"), str) else payload.get("error")
    attempted, message = payload.get("attempted_kind"), payload.get("message")
    tried = f" {_text(attempted, 40)}" if attempted else ""
    return f"{_text(code, 40) or 'error'}{tried}" + (
        f": {_text(reword_refusal(message) if isinstance(message, str) else message)}" if message else ""
    )


def _pause(payload: Payload) -> str:
    seconds = payload.get("timeout_seconds")
    until = f"for {_text(seconds, 12)} s" if seconds is not None else "until resumed"
    return f"Pause {until}{_because(payload)}"


def _request_status(payload: Payload) -> str:
    wanted = ", ".join(_text(field, 24) for field in list_of(payload.get("fields"))[:6])
    return f"Asks for the status {wanted}"


def _status(payload: Payload) -> str:
    tokens, most = payload.get("tokens"), payload.get("max_tokens")
    messages, latency = payload.get("messages_in_context"), payload.get("latency_ms")
    figures = [_text(payload.get("status"), 60)]
    if tokens is not None:
        limit = f"{_figure(tokens)} of " if most is not None else ""
        figures.append(limit + _measure(tokens if most is None else most, "token"))
    if messages is not None:
        figures.append(f"{_measure(messages, 'message')} in the context")
    if latency is not None:
        figures.append(f"{_figure(latency)} ms")
    return ", ".join(filter(None, figures)) or _unknown(payload)


def _figure(value: Any) -> str:
    """A number that a peer states, with all its digits; anything else in its place is short text."""
    return _text(value) if isinstance(value, int | float) else _text(value, 12)


def _measure(value: Any, noun: str) -> str:
    """A number that a peer states with its noun: `1 token`, `420 tokens`."""
    return f"{_figure(value)} {_noun(value, noun, noun + 's')}"


def _noun(value: Any, one: str, many: str) -> str:
    return one if value == 1 and value is not True else many


def _forget(payload: Payload) -> str:
    count = payload.get("entries")
    return f"Forget the {_text(payload.get('direction'), 20)} {_figure(count)} {_noun(count, 'entry', 'entries')}"


def _compact(payload: Payload) -> str:
    target = payload.get("target_tokens")
    limit = f" to {_measure(target, 'token')}" if target is not None else ""
    return f"Compact{limit}{_because(payload)}"


def _compact_done(payload: Payload) -> str:
    if payload.get("skipped") is True:
        return f"Compaction skipped{_because(payload)}"
    freed = [
        _measure(payload[key], noun)
        for key, noun in (("freed_tokens", "token"), ("freed_messages", "message"))
        if payload.get(key) not in (None, "")
    ]
    done = _text(payload.get("status"), 40).capitalize() or "Compacted"
    return f"{done}: {' and '.join(freed)} freed" if freed else done


def _stream(payload: Payload) -> str:
    return _text(payload.get("stream_id"), 40) or "a stream"


# What the sender of a request is about to do.
_DIRECTIONS = {"upload": "Asks to send a stream", "download": "Asks to receive a stream"}


def _stream_request(payload: Payload) -> str:
    direction, target, about = payload.get("direction"), payload.get("target"), payload.get("description")
    usual = _DIRECTIONS.get(direction) if isinstance(direction, str) else None
    asks = usual or f"Asks for a stream {_text(direction, 20)}".rstrip()
    names = [_text(name, 24) for name in list_of(target)[:4]]
    to = f" to {', '.join(names)}" if names else ""
    described = f": “{_text(about, 60)}”" if about else ""
    return f"{asks}{to}{described}{_form(payload, 'content_type', 'format', 'expected_size_bytes')}"


def _stream_open(payload: Payload) -> str:
    owner = payload.get("owner")
    whose = f" for {_text(owner, 64)}" if owner not in (None, "") else ""
    return f"Opened {_stream(payload)}{whose}{_form(payload, 'encoding')}"


def _form(payload: Payload, *keys: str) -> str:
    """What is known of the content of a stream, in parentheses."""
    known = [
        f"{_text(payload[key], 60)}{' bytes' if key == 'expected_size_bytes' else ''}"
        for key in keys
        if payload.get(key) not in (None, "")
    ]
    return f" ({', '.join(known)})" if known else ""


def _stream_writers(payload: Payload) -> str:
    writers = payload.get("authorized_writers")
    names = (
        ", ".join(_text(writer, 24) for writer in writers[:6]) if isinstance(writers, list) else "not given"
    )
    return f"Writers of {_stream(payload)}: {names}"


SENTENCES: dict[str, Callable[[Payload], str]] = {
    "mcp/request": _operation,
    "mcp/response": _response,
    "mcp/proposal": _proposal,
    "mcp/withdraw": _say("Withdrawn{because}"),
    "mcp/reject": _say("Rejected{because}"),
    "chat": _chat,
    "chat/acknowledge": _say("Acknowledged {status:40}"),
    "chat/cancel": _say("Needs no answer any more{because}"),
    "reasoning/start": _reasoning_start,
    "reasoning/thought": _reasoning_thought,
    "reasoning/conclusion": _reasoning_conclusion,
    "reasoning/cancel": _say("Stopped reasoning{because}"),
    "capability/grant": _say("Allows {recipient:40} {capabilities:patterns}{because}"),
    "capability/revoke": _revoke,
    "capability/grant-ack": _say("Permission {status:40}{because}"),
    "space/invite": _invite,
    "space/invite-ack": _say("Invitation of {participant_id:64}: {status:40}"),
    "space/kick": _say("Removes {participant_id:64}{because}"),
    "system/presence": _presence,
    "system/welcome": _welcome,
    "system/error": _error,
    "participant/pause": _pause,
    "participant/resume": _say("Resume{because}"),
    "participant/request-status": _request_status,
    "participant/status": _status,
    "participant/forget": _forget,
    "participant/compact": _compact,
    "participant/compact-done": _compact_done,
    "participant/clear": _say("Clear the context{because}"),
    "participant/restart": _say("Restart{because}"),
    "participant/shutdown": _say("Shut down{because}"),
    "stream/request": _stream_request,
    "stream/open": _stream_open,
    "stream/close": _say("{stream} closed{because}"),
    "stream/grant-write": _say("{participant_id:64} may write to {stream}{because}"),
    "stream/write-granted": _stream_writers,
    "stream/revoke-write": _say("{participant_id:64} may no longer write to {stream}{because}"),
    "stream/write-revoked": _stream_writers,
    "stream/transfer-ownership": _say("{stream} goes to {new_owner:64}{because}"),
    "stream/ownership-transferred": _say("{stream} now belongs to {new_owner:64}{because}"),
}
