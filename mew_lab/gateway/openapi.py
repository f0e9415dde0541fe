"""Describes the HTTP routes in OpenAPI 3.1, as data.

`tests/gateway/test_openapi.py` compares it with the routes.

Spec: §5.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.gateway.ring import MAX_ENVELOPES, MAX_WAIT
from mew_lab.protocol.envelope import PROTOCOL
from mew_lab.space.events import NOTE_BYTES
from mew_lab.space.reports import NOTES
from mew_lab.version import VERSION

__all__ = ["DESCRIPTION"]

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
TEXTS_OR_NONE = {"type": ["array", "null"], "items": TEXT}
MOMENT = {"type": "string", "format": "date-time"}
PATTERNS = {"type": "array", "items": {"type": "object"}}


def _object(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


def _schema(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _response(description: str, *schemas: str) -> dict[str, Any]:
    schema = _schema(schemas[0]) if len(schemas) == 1 else {"anyOf": [_schema(name) for name in schemas]}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _operation(summary: str, answers: Mapping[int, str | dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A method of a path with its answers, a text for an error; those by Host and Origin every request may get."""
    common = {
        403: "the token is not that of this participant or space, or Origin is not configured",
        421: "Host does not name this gateway",
    }
    responses = {
        str(status): _response(answer, "Error") if isinstance(answer, str) else answer
        for status, answer in sorted({**common, **answers}.items())
    }
    return {**more, "summary": summary, "responses": responses}


def _parameter(name: str, where: str, about: str, schema: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": where, **more, "description": about, "schema": schema}


def _body(*schemas: str) -> dict[str, Any]:
    return {"required": True, "content": _response("", *schemas)["content"]}


TOKEN: dict[str, Any] = {"security": [{"token": []}]}
NO_TOKEN = {401: "no token in the Authorization header"}
COMMON = {**NO_TOKEN, 400: "the request is not understood", 429: "too many messages in too short a time"}
POSTED = {
    **COMMON,
    408: "the body did not arrive in time",
    415: "Content-Type is not application/json",
    503: "the gateway cannot write its journal",
}
SPACE = _parameter("space", "query", "the space; optional where the token belongs to one space only", TEXT)
PARTICIPANT = _parameter(
    "id",
    "path",
    "the participant that the token belongs to, by its name or a current runtime id",
    TEXT,
    required=True,
)
SINCE = _parameter(
    "since",
    "query",
    "only what the gateway received strictly later; without it, all that it still keeps",
    MOMENT,
)
LIMIT = _parameter(
    "limit",
    "query",
    "the maximum number of messages in one answer, the oldest first",
    {"type": "integer", "minimum": 1, "maximum": MAX_ENVELOPES},
)
WAIT = _parameter(
    "wait",
    "query",
    "the seconds that the answer may wait for a message, where there is none yet; without it, none",
    {"type": "number", "minimum": 0, "maximum": MAX_WAIT},
)
REQUEST = _parameter("request", "query", "the id of the request", TEXT, required=True)
TARGETS = _parameter(
    "to",
    "query",
    "a target of that request; all of them are named, this participant among them",
    TEXTS,
    required=True,
)
MEMBERS: dict[str, dict[str, Any]] = {
    "protocol": {"const": PROTOCOL},
    "id": {"type": "string", "minLength": 1, "maxLength": 256},
    "ts": {
        **TEXT,
        "description": "the time that the sender states, RFC 3339; the gateway uses its own clock",
    },
    "from": TEXT,
    "to": TEXTS_OR_NONE,
    "kind": {"type": "string", "minLength": 1},
    "correlation_id": {"type": ["array", "string", "null"], "items": TEXT},
    "context": {"type": ["string", "null"]},
    "payload": {"type": "object"},
}

NOTE_NAMES = ("Receipt", "Rejection", "Resolution")
SCHEMAS = {
    "Error": _object({"error": TEXT}, code=TEXT, message=TEXT),
    "Partial": {
        **_object({"kind": MEMBERS["kind"]}, **MEMBERS),
        "description": "an envelope; the gateway adds a missing protocol, id, ts or from",
        "examples": [{"kind": "chat", "payload": {"text": "Hello world"}}],
    },
    "Envelope": _object(
        {name: MEMBERS[name] for name in ("protocol", "id", "ts", "from", "kind")},
        **{name: MEMBERS[name] for name in ("to", "correlation_id", "context", "payload")},
    ),
    "Outcome": _object(
        {"status": TEXT},
        id=TEXT,
        timestamp=MOMENT,
        message=TEXT,
        participant_id=TEXT,
        token=TEXT,
        connection_url=TEXT,
        stream_id=TEXT,
        authorized_writers=TEXTS,
        previous_owner=TEXT,
        new_owner=TEXT,
    ),
    **dict(zip(NOTE_NAMES, NOTES.values(), strict=True)),
    "Found": _object(
        {
            "resolution": {
                "anyOf": [
                    {"type": "null"},
                    _object(
                        {
                            "request": MEMBERS["id"],
                            "happened": {"type": "boolean", "description": "whether the call took effect"},
                            "by": TEXT,
                            "note": TEXT,
                        }
                    ),
                ]
            }
        }
    ),
    "Health": _object(
        {
            "status": {"const": "ok"},
            "spaces": {"type": "integer"},
            "clients": {"type": "integer"},
            "uptime": {"type": "number", "description": "seconds"},
            "features": TEXTS,
            "run": {**TEXT, "description": "identifies this run of the gateway"},
        }
    ),
    "Participants": _object(
        {
            "participants": {
                "type": "array",
                "items": _object({"id": TEXT, "connected": {"type": "boolean"}, "capabilities": PATTERNS}),
            }
        }
    ),
    "Messages": _object(
        {
            "messages": {"type": "array", "items": _schema("Envelope")},
            "next": {**MOMENT, "description": "the value of since for the next page"},
            "more": {"type": "boolean", "description": "whether the next page has messages already"},
        }
    ),
}

DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "MEW gateway",
        "version": VERSION,
        "description": "The HTTP half of a gateway of the MEW Protocol v0.4. The other half is the WebSocket at /ws.",
    },
    "paths": {
        "/health": {
            "get": _operation("whether the gateway runs", {200: _response("the gateway runs", "Health")})
        },
        "/openapi.json": {
            "get": _operation(
                "this description",
                {
                    200: {
                        "description": "this description",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    }
                },
            )
        },
        "/participants": {
            "get": _operation(
                "the enrolled participants of the space, and whether each is connected",
                {**NO_TOKEN, 200: _response("all enrolled participants", "Participants")},
                **TOKEN,
                parameters=[SPACE],
            )
        },
        "/participants/{id}/messages": {
            "parameters": [PARTICIPANT, SPACE],
            "post": _operation(
                "sends a message, as over the WebSocket",
                {
                    **POSTED,
                    200: _response("the message was accepted; the reply of the gateway", "Outcome"),
                    400: _response(
                        "the message is no envelope, or the gateway cannot carry it out", "Error", "Envelope"
                    ),
                    403: _response("the sender may not send the message", "Error", "Envelope"),
                    404: _response("the target does not exist", "Error", "Envelope"),
                    409: _response(
                        "the id of the message, or the invited participant, exists already",
                        *("Error", "Outcome", "Envelope"),
                    ),
                    413: "the message is too large",
                },
                **TOKEN,
                requestBody=_body("Partial"),
            ),
            "get": _operation(
                "recently delivered envelopes that the participant may see",
                {
                    **COMMON,
                    200: _response("the exact envelopes, in order", "Messages"),
                    410: "some of the requested messages are no longer kept",
                },
                **TOKEN,
                parameters=[SINCE, LIMIT, WAIT],
            ),
        },
        "/participants/{id}/notes": {
            "parameters": [PARTICIPANT, SPACE],
            "post": _operation(
                "reports a decision, or what became of a call; it is recorded and delivered to nobody",
                {
                    **POSTED,
                    200: _response("the note was recorded", "Outcome"),
                    403: "the token is not that of this participant or space, or the note is about a request of "
                    "another, or about a call of a target to which it may send no request",
                    413: f"the note has over {NOTE_BYTES} bytes",
                },
                **TOKEN,
                requestBody=_body(*NOTE_NAMES),
            ),
            "get": _operation(
                "what was reported of a call to the participant; null where nothing was",
                {
                    **COMMON,
                    200: _response("the newest report for all targets of that request", "Found"),
                },
                **TOKEN,
                parameters=[REQUEST, TARGETS],
            ),
        },
    },
    "components": {
        "schemas": SCHEMAS,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    },
}
