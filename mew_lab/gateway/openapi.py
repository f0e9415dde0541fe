"""Describes the HTTP routes in OpenAPI 3.1, as data.

`tests/gateway/test_openapi.py` compares it with the routes.

Spec: §5.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.gateway.ring import MAX_ENVELOPES
from mew_lab.protocol.envelope import PROTOCOL
from mew_lab.space.events import NOTE_BYTES
from mew_lab.space.reports import ALL_DESPITE, HOW, RECEIPT, RESOLUTION
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


def _responses(answers: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """These answers, and those that every request may get."""
    common = {
        403: _response(
            "the token is not that of this participant or space, or Origin is not configured", "Error"
        ),
        421: _response("Host does not name this gateway", "Error"),
    }
    return {str(status): answer for status, answer in sorted({**common, **answers}.items())}


TOKEN: dict[str, Any] = {"security": [{"token": []}]}
NO_TOKEN = {401: _response("no token in the Authorization header", "Error")}
BAD_REQUEST = _response("the request is not understood", "Error")
TOO_FAST = _response("too many messages in too short a time", "Error")
SPACE = {
    "name": "space",
    "in": "query",
    "description": "the space; optional where the token belongs to one space only",
    "schema": TEXT,
}
PARTICIPANT = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "the participant that the token belongs to, by its name or a current runtime id",
    "schema": TEXT,
}
SINCE = {
    "name": "since",
    "in": "query",
    "description": "only what the gateway received strictly later; without it, all that it still keeps",
    "schema": MOMENT,
}
LIMIT = {
    "name": "limit",
    "in": "query",
    "description": "the maximum number of messages in one answer, the oldest first",
    "schema": {"type": "integer", "minimum": 1, "maximum": MAX_ENVELOPES},
}
REQUEST = {
    "name": "request",
    "in": "query",
    "required": True,
    "description": "the id of the request",
    "schema": TEXT,
}
TARGETS = {
    "name": "to",
    "in": "query",
    "required": True,
    "description": "a target of that request; all of them are named, this participant among them",
    "schema": TEXTS,
}
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

HOW_DECIDED = {"enum": list(HOW), "description": "typed means: by a person"}
SHOWN: dict[str, dict[str, Any]] = {
    "by": {**TEXT, "description": "human, or who or which policy decided in the sender's name"},
    "digest": {
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
        "description": "the SHA-256 of what was shown",
    },
    "typed": {**TEXT, "description": "the characters of the digest that were typed, or yes"},
    "policy": _object({}, name=TEXT, text=TEXT),
}

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
    "Receipt": {
        **_object(
            {
                "about": {"const": RECEIPT},
                "proposal": MEMBERS["id"],
                "request": {**MEMBERS["id"], "description": "the sender's own request, accepted before"},
                "decision": {"const": "approve"},
                "how": HOW_DECIDED,
            },
            **SHOWN,
            edited={"type": "boolean"},
            to={**TEXTS, "description": "the chosen targets, where the proposal names none"},
            despite={
                "enum": list(ALL_DESPITE),
                "description": "what it disregarded on purpose: a rejection, that the call may run twice",
            },
        ),
        "description": "the sender's account of a decision of its own; it never counts as seen on a screen",
    },
    "Rejection": {
        **_object(
            {
                "about": {"const": RECEIPT},
                "proposal": {**MEMBERS["id"], "description": "of another participant, accepted before"},
                "decision": {"const": "reject"},
                "how": HOW_DECIDED,
            },
            **SHOWN,
        ),
        "description": "the sender's account of a rejection of its own",
    },
    "Resolution": {
        **_object(
            {
                "about": {"const": RESOLUTION},
                "request": MEMBERS["id"],
                "to": {**TEXTS, "description": "the targets of that request"},
                "happened": {"type": "boolean", "description": "whether the call took effect"},
            },
            note={**TEXT, "description": "what was found out, and how"},
        ),
        "description": "what a participant found out about a call whose outcome was unknown",
    },
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
            "get": {
                "summary": "whether the gateway runs",
                "responses": _responses({200: _response("the gateway runs", "Health")}),
            }
        },
        "/openapi.json": {
            "get": {
                "summary": "this description",
                "responses": _responses(
                    {
                        200: {
                            "description": "this description",
                            "content": {"application/json": {"schema": {"type": "object"}}},
                        }
                    }
                ),
            }
        },
        "/participants": {
            "get": {
                **TOKEN,
                "summary": "the enrolled participants of the space, and whether each is connected",
                "parameters": [SPACE],
                "responses": _responses(
                    {**NO_TOKEN, 200: _response("all enrolled participants", "Participants")}
                ),
            }
        },
        "/participants/{id}/messages": {
            "parameters": [PARTICIPANT, SPACE],
            "post": {
                **TOKEN,
                "summary": "sends a message, as over the WebSocket",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": _schema("Partial")}},
                },
                "responses": _responses(
                    {
                        **NO_TOKEN,
                        200: _response("the message was accepted; the reply of the gateway", "Outcome"),
                        400: _response(
                            "the message is no envelope, or the gateway cannot carry it out",
                            "Error",
                            "Envelope",
                        ),
                        403: _response("the sender may not send the message", "Error", "Envelope"),
                        404: _response("the target does not exist", "Error", "Envelope"),
                        408: _response("the body did not arrive in time", "Error"),
                        409: _response(
                            "the id of the message, or the invited participant, exists already",
                            "Error",
                            "Outcome",
                            "Envelope",
                        ),
                        413: _response("the message is too large", "Error"),
                        415: _response("Content-Type is not application/json", "Error"),
                        429: TOO_FAST,
                        503: _response("the gateway cannot write its journal", "Error"),
                    }
                ),
            },
            "get": {
                **TOKEN,
                "summary": "recently delivered envelopes that the participant may see",
                "parameters": [SINCE, LIMIT],
                "responses": _responses(
                    {
                        **NO_TOKEN,
                        200: _response("the exact envelopes, in order", "Messages"),
                        400: BAD_REQUEST,
                        410: _response("some of the requested messages are no longer kept", "Error"),
                        429: TOO_FAST,
                    }
                ),
            },
        },
        "/participants/{id}/notes": {
            "parameters": [PARTICIPANT, SPACE],
            "post": {
                **TOKEN,
                "summary": "reports a decision, or what became of a call; it is recorded and delivered to nobody",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {"anyOf": list(map(_schema, ("Receipt", "Rejection", "Resolution")))},
                        }
                    },
                },
                "responses": _responses(
                    {
                        **NO_TOKEN,
                        200: _response("the note was recorded", "Outcome"),
                        400: BAD_REQUEST,
                        403: _response(
                            "the token is not that of this participant or space, or the note is about a request of "
                            "another, or about a call of a target to which it may send no request",
                            "Error",
                        ),
                        408: _response("the body did not arrive in time", "Error"),
                        413: _response(f"the note has over {NOTE_BYTES} bytes", "Error"),
                        415: _response("Content-Type is not application/json", "Error"),
                        429: TOO_FAST,
                        503: _response("the gateway cannot write its journal", "Error"),
                    }
                ),
            },
            "get": {
                **TOKEN,
                "summary": "what was reported of a call to the participant; null where nothing was",
                "parameters": [REQUEST, TARGETS],
                "responses": _responses(
                    {
                        **NO_TOKEN,
                        200: _response("the newest report for all targets of that request", "Found"),
                        400: BAD_REQUEST,
                        429: TOO_FAST,
                    }
                ),
            },
        },
    },
    "components": {
        "schemas": SCHEMAS,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    },
}
