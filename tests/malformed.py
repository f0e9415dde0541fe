"""Messages that a gateway must refuse, and the code that each refusal bears: data, and nothing else.

The codes come from the rulings: R7 for what is no strict JSON, R5 for the shape of an envelope, R4 for its
protocol, R2 for who speaks, R6 for ids, R10 for reserved kinds, R11 – R16 for the kinds on which a gateway acts.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

LIMIT = 20_000
"""Bytes of the longest message, in the space that the table is for."""


READER = {
    "kind": "mcp/request",
    "to": "bert",
    "payload": {"method": "tools/call", "params": {"name": "read_*"}},
}
"""What cora may do beside to chat."""


class Row(NamedTuple):
    """One message. `by` anna, who may send every kind, or cora, who may only chat and read files of bert's.

    `error` is `payload.error`, `code` the `payload.code` beside it where there is one; `status` what HTTP answers.
    """

    name: str
    data: str | bytes
    error: str
    code: str = ""
    status: int = 400
    by: str = "anna"


def no_json(name: str, data: str | bytes) -> Row:
    return Row(name, data, "invalid_request", "invalid_json")


def no_number(name: str, number: str) -> Row:
    return Row(name, f'{{"kind":"chat","payload":{{"n":{number}}}}}', "invalid_request", "invalid_number")


def no_envelope(name: str, data: str) -> Row:
    return Row(name, data, "invalid_request", "invalid_envelope")


def envelope(kind: Any, payload: Any = None, **members: Any) -> str:
    said = {**members, "kind": kind}
    return json.dumps({**said, "payload": payload} if payload is not None else said, ensure_ascii=False)


def refused(name: str, error: str, kind: str, payload: Any = None, status: int = 400, **members: Any) -> Row:
    return Row(f"{kind}: {name}", envelope(kind, payload, **members), error, status=status)


def lacking(name: str, kind: str, payload: Any = None, **members: Any) -> Row:
    return Row(
        f"cora: {name}", envelope(kind, payload, **members), "capability_violation", status=403, by="cora"
    )


CHAT = '{"kind":"chat","payload":{"text":"hi"}}'
MANY = {"kind": "chat"}

NO_JSON = [
    no_json("nothing", ""),
    no_json("blanks", " \t\r\n "),
    no_json("a word", "hello"),
    no_json("a brace", "{"),
    no_json("a closing brace", "}"),
    no_json("an open string", '{"kind":"chat'),
    no_json("an open object", '{"kind":"chat"'),
    no_json("a missing value", '{"kind":}'),
    no_json("a missing colon", '{"kind" "chat"}'),
    no_json("a trailing comma", '{"kind":"chat",}'),
    no_json("a comma first", '{,"kind":"chat"}'),
    no_json("single quotes", "{'kind':'chat'}"),
    no_json("a bare key", '{kind:"chat"}'),
    no_json("a comment", '{"kind":"chat"} // hello'),
    no_json("a comment within", '{"kind":/* hello */"chat"}'),
    no_json("two objects", CHAT + CHAT),
    no_json("two objects and a space", f"{CHAT} {CHAT}"),
    no_json("a list of two envelopes", f"[{CHAT},{CHAT}]"),
    no_json("two lines", CHAT + "\n" + CHAT),
    no_json("a byte-order mark", "\ufeff" + CHAT),
    no_json("a null byte after", CHAT + "\0"),
    no_json("a null byte within", '{"kind":"ch\0at"}'),
    no_json("a line break in a string", '{"kind":"chat","payload":{"text":"a\nb"}}'),
    no_json("a tab in a string", '{"kind":"chat","payload":{"text":"a\tb"}}'),
    no_json("an unknown escape", '{"kind":"chat","payload":{"text":"\\x41"}}'),
    no_json("half an escape", '{"kind":"chat","payload":{"text":"\\u12"}}'),
    no_json("a key twice", '{"kind":"chat","kind":"chat"}'),
    no_json("a key twice, written differently", '{"kind":"chat","\\u006bind":"chat"}'),
    no_json("from twice", '{"from":"anna","kind":"chat","from":"bert"}'),
    no_json("a key twice in the payload", '{"kind":"chat","payload":{"a":1,"a":2}}'),
    no_json("a key twice in a list in the payload", '{"kind":"chat","payload":{"a":[{"b":1,"b":1}]}}'),
    no_json("NaN", '{"kind":"chat","payload":{"n":NaN}}'),
    no_json("Infinity", '{"kind":"chat","payload":{"n":Infinity}}'),
    no_json("minus Infinity", '{"kind":"chat","payload":{"n":-Infinity}}'),
    no_number("a number over a double", "1e309"),
    no_number("a number under a double", "-1e309"),
    no_number("an integer of 400 digits", "9" * 400),
    no_number("an integer of 2^64", "18446744073709551616"),
    no_number("an integer below -2^63", "-9223372036854775809"),
    no_number("an integer of 5000 digits", "9" * 5000),
    no_json("NaN beside the payload", '{"kind":"chat","x":NaN}'),
    Row(
        "a number over a double beside the payload",
        '{"kind":"chat","x":1e999}',
        "invalid_request",
        "invalid_number",
    ),
    no_json("a lone surrogate beside the payload", '{"kind":"chat","x":"\\ud800"}'),
    no_json("a leading zero", '{"kind":"chat","payload":{"n":01}}'),
    no_json("a leading plus", '{"kind":"chat","payload":{"n":+1}}'),
    no_json("hexadecimal", '{"kind":"chat","payload":{"n":0x10}}'),
    no_json("a bare fraction", '{"kind":"chat","payload":{"n":.5}}'),
    no_json("a capital True", '{"kind":"chat","payload":{"n":True}}'),
    no_json("undefined", '{"kind":"chat","payload":{"n":undefined}}'),
    no_json("a lone high surrogate", '{"kind":"chat","payload":{"text":"\\ud800"}}'),
    no_json("a lone low surrogate", '{"kind":"chat","payload":{"text":"\\udc00 x"}}'),
    no_json("surrogates in the wrong order", '{"kind":"chat","payload":{"text":"\\udc00\\ud800"}}'),
    no_json("a lone surrogate as a key", '{"kind":"chat","payload":{"\\ud83d":1}}'),
    no_json("65 levels of lists", '{"kind":"chat","payload":{"a":' + "[" * 63 + "]" * 63 + "}}"),
    no_json("65 levels of objects", '{"kind":"chat","payload":' + '{"a":' * 64 + "1" + "}" * 65),
    no_json("thousands of open brackets", "[" * 9_000),
    no_json("thousands of open braces", '{"a":' * 3_000),
    no_json("a list", "[]"),
    no_json("a list of an envelope", f"[{CHAT}]"),
    no_json("a string", '"chat"'),
    no_json("a number", "7"),
    no_json("true", "true"),
    no_json("null", "null"),
    no_json("XML", "<message kind='chat'/>"),
    no_json("an HTTP request", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
]

NO_ENVELOPE = [
    no_envelope("an empty object", "{}"),
    no_envelope("no kind", '{"payload":{}}'),
    no_envelope("kind null", '{"kind":null}'),
    no_envelope("kind a number", '{"kind":7}'),
    no_envelope("kind true", '{"kind":true}'),
    no_envelope("kind a list", '{"kind":["chat"]}'),
    no_envelope("kind an object", '{"kind":{"a":1}}'),
    no_envelope("kind empty", '{"kind":""}'),
    no_envelope("Kind in capitals", '{"Kind":"chat"}'),
    no_envelope("a type instead of a kind", '{"type":"chat","payload":{}}'),
    no_envelope("id empty", '{"kind":"chat","id":""}'),
    no_envelope("id null", '{"kind":"chat","id":null}'),
    no_envelope("id a number", '{"kind":"chat","id":1}'),
    no_envelope("id a list", '{"kind":"chat","id":["a"]}'),
    no_envelope("id an object", '{"kind":"chat","id":{"a":1}}'),
    no_envelope("id of 257 characters", envelope("chat", id="x" * 257)),
    no_envelope("id with a line break", '{"kind":"chat","id":"a\\nb"}'),
    no_envelope("id with a null byte", '{"kind":"chat","id":"a\\u0000"}'),
    no_envelope("id with an escape sequence", '{"kind":"chat","id":"\\u001b[2J"}'),
    no_envelope("ts a number", '{"kind":"chat","ts":1767225600}'),
    no_envelope("ts null", '{"kind":"chat","ts":null}'),
    no_envelope("ts an object", '{"kind":"chat","ts":{}}'),
    no_envelope("from a number", '{"kind":"chat","from":7}'),
    no_envelope("from null", '{"kind":"chat","from":null}'),
    no_envelope("from a list", '{"kind":"chat","from":["anna"]}'),
    no_envelope("to a string", '{"kind":"chat","to":"bert"}'),
    no_envelope("to an object", '{"kind":"chat","to":{"id":"bert"}}'),
    no_envelope("to a list of numbers", '{"kind":"chat","to":[1]}'),
    no_envelope("to a list with null", '{"kind":"chat","to":["bert",null]}'),
    no_envelope("to a list of lists", '{"kind":"chat","to":[["bert"]]}'),
    no_envelope("correlation_id a number", '{"kind":"chat","correlation_id":7}'),
    no_envelope("correlation_id an object", '{"kind":"chat","correlation_id":{}}'),
    no_envelope("correlation_id a list of numbers", '{"kind":"chat","correlation_id":[1]}'),
    no_envelope("correlation_id true", '{"kind":"chat","correlation_id":true}'),
    no_envelope("context a number", '{"kind":"chat","context":7}'),
    no_envelope("context a list", '{"kind":"chat","context":["a"]}'),
    no_envelope("payload null", '{"kind":"chat","payload":null}'),
    no_envelope("payload a string", '{"kind":"chat","payload":"hi"}'),
    no_envelope("payload a list", '{"kind":"chat","payload":[]}'),
    no_envelope("payload a number", '{"kind":"chat","payload":0}'),
    no_envelope("payload false", '{"kind":"chat","payload":false}'),
]

OTHER_PROTOCOLS = [
    Row(f"protocol {value!r}", envelope("chat", protocol=value), "unsupported_protocol")
    for value in (
        "mew/v0.3",
        "mew/v0.5",
        "mew/v1.0",
        "mew/v0.40",
        "mew/v9",
        "MEW/v0.4",
        "MEW/V0.4",
        "mew/v0.4 ",
        "",
        None,
        4,
        ["mew/v0.4"],
        {"v": 4},
    )
]

WHO_SPEAKS = [
    Row(f"from {who!r}", envelope("chat", **{"from": who}), "identity_mismatch", status=403)
    for who in ("bert", "Anna", "anna ", "", "аnna", "anna\u200b", "system:gateway", "gateway", "nobody")
]

RESERVED = [
    Row(f"reserved: {kind}", envelope(kind, {}), "invalid_request", "reserved_kind")
    for kind in (
        "system/welcome",
        "system/error",
        "system/presence",
        "system/register",
        "system/heartbeat",
        "system/",
        "system",
        "system/a/b",
        "space/invite-ack",
        "stream/write-granted",
        "stream/write-revoked",
        "stream/ownership-transferred",
    )
]

NOT_HELD = [
    lacking("a kind of which it holds nothing", "space/kick", {"participant_id": "bert"}),
    lacking("a kind below one that it holds", "chat/acknowledge", {}),
    lacking("a kind that only looks like one it holds", "chat ", {}),
    lacking("a kind in capitals", "CHAT", {}),
    lacking("a kind with a null byte", "chat\0", {}),
    lacking("a pattern as a kind", "*", {}),
    lacking("a regular expression as a kind", "/.*/", {}),
    lacking("a kind of 10 000 characters", "a/" * 5_000, {}),
    lacking("a request to somebody else", "mcp/request", {"method": "tools/call"}, to=["anna"]),
    lacking("a request to all", "mcp/request", {"method": "tools/call", "params": {"name": "read_x"}}),
    lacking(
        "a request to one more than it may",
        "mcp/request",
        {"method": "tools/call", "params": {"name": "read_x"}},
        to=["bert", "anna"],
    ),
    lacking("a request without params", "mcp/request", {"method": "tools/call"}, to=["bert"]),
    lacking(
        "another tool", "mcp/request", {"method": "tools/call", "params": {"name": "write_x"}}, to=["bert"]
    ),
    lacking(
        "a list in the tool's place",
        "mcp/request",
        {"method": "tools/call", "params": {"name": ["read_x"]}},
        to=["bert"],
    ),
    lacking("a capability about itself", "capability/grant", {"recipient": "cora", "capabilities": [MANY]}),
]

TOO_LARGE = [
    Row(
        "one byte too many", envelope("chat", {"text": "x" * (LIMIT + 1 - 39)}), "", "message_too_large", 413
    ),
    Row("too many bytes of few characters", envelope("chat", {"text": "ä" * (LIMIT // 2)}), "", "", 413),
    Row("twice the limit", "x" * (2 * LIMIT), "", "message_too_large", 413),
]
TOO_LARGE = [row._replace(error="invalid_request", code="message_too_large") for row in TOO_LARGE]

RULES = [
    refused("no recipient", "invalid_request", "capability/grant", {"capabilities": [MANY]}),
    refused("no capabilities", "invalid_request", "capability/grant", {"recipient": "bert"}),
    refused("an empty list", "invalid_request", "capability/grant", {"recipient": "bert", "capabilities": []}),
    refused("no list", "invalid_request", "capability/grant", {"recipient": "bert", "capabilities": MANY}),
    refused("a number for a name", "invalid_request", "capability/grant", {"recipient": 7, "capabilities": [MANY]}),
    refused("no name", "invalid_request", "capability/grant", {"recipient": "", "capabilities": [MANY]}),
    refused("a misspelt key of a payload", "invalid_capability", "capability/grant", {"recipient": "cora", "capabilities": [{"kind": "chat", "payload": 7}]}),
    refused(
        "to nobody", "participant_not_found", "capability/grant", {"recipient": "zoe", "capabilities": [MANY]}, 404
    ),
    refused(
        "a misspelt key",
        "invalid_capability",
        "capability/grant",
        {"recipient": "bert", "capabilities": [{"kind": "mcp/request", "paylod": {"method": "tools/list"}}]},
    ),
    refused(
        "a capability without a kind",
        "invalid_capability",
        "capability/grant",
        {"recipient": "bert", "capabilities": [{"payload": {}}]},
    ),
    refused(
        "a string for a capability", "invalid_capability", "capability/grant", {"recipient": "bert", "capabilities": ["chat"]}
    ),
    refused(
        "a broken regular expression",
        "invalid_capability",
        "capability/grant",
        {"recipient": "bert", "capabilities": [{"kind": "/(/"}]},
    ),
    refused(
        "an expression of 300 characters",
        "invalid_capability",
        "capability/grant",
        {"recipient": "bert", "capabilities": [{"kind": f"/{'a' * 300}/"}]},
    ),
    refused("neither id nor patterns", "invalid_request", "capability/revoke", {"recipient": "cora"}),
    refused("nothing", "invalid_request", "capability/revoke", {}),
    refused("patterns of nobody", "invalid_request", "capability/revoke", {"capabilities": [MANY]}),
    refused("no list", "invalid_request", "capability/revoke", {"recipient": "cora", "capabilities": "chat"}),
    refused("a misspelt key", "invalid_capability", "capability/revoke", {"recipient": "cora", "capabilities": [{"knd": "chat"}]}),
    refused("of nobody", "participant_not_found", "capability/revoke", {"recipient": "zoe", "capabilities": [MANY]}, 404),
    refused("a grant of nobody", "participant_not_found", "capability/revoke", {"recipient": "zoe", "grant_id": "g1"}, 404),
    refused("a number for a grant", "invalid_request", "capability/revoke", {"grant_id": 7}),
    refused("an unknown grant", "grant_not_found", "capability/revoke", {"grant_id": "none"}, 404),
    refused("the owner's right", "owner_protected", "capability/revoke", {"recipient": "bert", "capabilities": [MANY]}, 403),
    refused("no name", "invalid_request", "space/invite", {}),
    refused("no payload", "invalid_request", "space/invite"),
    refused("a name with a slash", "invalid_request", "space/invite", {"participant_id": "a/b"}),
    refused("a name that climbs", "invalid_request", "space/invite", {"participant_id": "../x"}),
    refused("the folder above", "invalid_request", "space/invite", {"participant_id": ".."}),
    refused("the gateway's name", "invalid_request", "space/invite", {"participant_id": "gateway"}),
    refused("the gateway's name in a capital", "invalid_request", "space/invite", {"participant_id": "Gateway"}),
    refused("a name of the system", "invalid_request", "space/invite", {"participant_id": "system:x"}),
    refused("no list", "invalid_request", "space/invite", {"participant_id": "dan", "initial_capabilities": MANY}),
    refused("a name of 65 characters", "invalid_request", "space/invite", {"participant_id": "x" * 65}),
    refused("a number for a name", "invalid_request", "space/invite", {"participant_id": 7}),
    refused("a misspelt right", "invalid_capability", "space/invite", {"participant_id": "dan", "initial_capabilities": [{"knd": "chat"}]}),
    refused("no name", "invalid_request", "space/kick", {}),
    refused("nobody of that name", "participant_not_found", "space/kick", {"participant_id": "zoe"}, 404),
    refused("the owner", "owner_protected", "space/kick", {"participant_id": "bert"}, 403),
    refused("to all", "invalid_request", "participant/pause", {}),
    refused("to an empty list", "invalid_request", "participant/pause", {}, to=[]),
    refused("to nobody", "participant_not_found", "participant/pause", {}, 404, to=["zoe"]),
    refused("for no time", "invalid_request", "participant/pause", {"timeout_seconds": 0}, to=["cora"]),
    refused("for less than no time", "invalid_request", "participant/pause", {"timeout_seconds": -1}, to=["cora"]),
    refused("for a word", "invalid_request", "participant/pause", {"timeout_seconds": "soon"}, to=["cora"]),
    refused("for true", "invalid_request", "participant/pause", {"timeout_seconds": True}, to=["cora"]),
    refused("for a list", "invalid_request", "participant/pause", {"timeout_seconds": [60]}, to=["cora"]),
    refused("for an object", "invalid_request", "participant/pause", {"timeout_seconds": {}}, to=["cora"]),
    refused("to all", "invalid_request", "participant/resume", {}),
    refused("to an empty list", "invalid_request", "participant/resume", {}, to=[]),
    refused("to nobody", "participant_not_found", "participant/resume", {}, 404, to=["zoe"]),
    refused("to all", "invalid_request", "participant/shutdown", {}),
    refused("to an empty list", "invalid_request", "participant/shutdown", {}, to=[]),
    refused("to nobody", "participant_not_found", "participant/shutdown", {}, 404, to=["zoe"]),
    refused("a target that is not here", "target_not_found", "stream/request", {"direction": "upload", "target": ["zoe"]}),
    refused("a stream that is not", "stream_not_found", "stream/grant-write", {"stream_id": "stream-99", "participant_id": "cora"}, 404),
    refused("somebody else's stream", "unauthorized", "stream/grant-write", {"stream_id": "stream-1", "participant_id": "cora"}, 403),
    refused("a stream that is not", "stream_not_found", "stream/revoke-write", {"stream_id": "stream-99", "participant_id": "cora"}, 404),
    refused("somebody else's stream", "unauthorized", "stream/revoke-write", {"stream_id": "stream-1", "participant_id": "cora"}, 403),
    refused("a stream that is not", "stream_not_found", "stream/transfer-ownership", {"stream_id": "stream-99", "new_owner": "anna"}, 404),
    refused("somebody else's stream", "unauthorized", "stream/transfer-ownership", {"stream_id": "stream-1", "new_owner": "anna"}, 403),
    refused("somebody else's stream", "unauthorized", "stream/close", {"stream_id": "stream-1"}, 403),
    refused("an open that names an active stream", "unauthorized", "stream/open", {"stream_id": "stream-1"}, 403),
]  # fmt: skip

# Stream data, which comes by WebSocket alone. Refusals of it are told at most ten times a second.
FRAMES = [
    Row("a frame of no stream", "#stream-99#data", "unauthorized_stream_write"),
    Row("a binary frame of no stream", b"#stream-99#data", "unauthorized_stream_write"),
    Row("a frame of somebody else's stream", "#stream-1#data", "unauthorized_stream_write"),
    Row("a frame without a second mark", "#stream-1", "unauthorized_stream_write"),
    Row("a frame without a stream", "##data", "unauthorized_stream_write"),
    Row("a mark alone", b"#", "unauthorized_stream_write"),
    Row("a frame with bytes for a name", b"#\xff\xfe#data", "unauthorized_stream_write"),
]
NO_FRAMES = [
    Row("no frame: bytes", b"\x00\x01\x02", "invalid_request", "invalid_frame"),
    Row("no frame: an envelope in a binary message", CHAT.encode(), "invalid_request", "invalid_frame"),
    Row("no frame: an empty binary message", b"", "invalid_request", "invalid_frame"),
]

OVER_HTTP_ALONE = [
    no_json("bytes that are no UTF-8", b'{"kind":"chat","payload":{"text":"\xff"}}'),
    no_json("UTF-16", CHAT.encode("utf-16")),
    no_json("overlong UTF-8", b'{"kind":"chat\xc0\xaf"}'),
    no_json("a surrogate in UTF-8", b'{"kind":"chat","payload":{"text":"\xed\xa0\x80"}}'),
]

ROWS = [*NO_JSON, *NO_ENVELOPE, *OTHER_PROTOCOLS, *WHO_SPEAKS, *RESERVED, *NOT_HELD, *TOO_LARGE, *RULES]
