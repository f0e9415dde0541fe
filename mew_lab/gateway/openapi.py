"""The OpenAPI 3.1 description of the HTTP routes: data, and nothing else.

`tests/gateway/test_openapi.py` holds the routes to it.

Spec: §5.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.gateway.ring import MAX_ENVELOPES
from mew_lab.protocol.envelope import PROTOCOL
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


def _said(description: str, *schemas: str) -> dict[str, Any]:
    schema = _schema(schemas[0]) if len(schemas) == 1 else {"anyOf": [_schema(name) for name in schemas]}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _answers(answers: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """These, and those that every request may get."""
    at_the_door = {
        403: _said("the token is nobody's here, or Origin is not configured", "Error"),
        421: _said("Host does not name this gateway", "Error"),
    }
    return {str(status): answer for status, answer in sorted({**at_the_door, **answers}.items())}


TOKEN: dict[str, Any] = {"security": [{"token": []}]}
NO_TOKEN = {401: _said("no token in the Authorization header", "Error")}
BAD_REQUEST = _said("the request is not understood", "Error")
TOO_FAST = _said("too many messages in too short a time", "Error")
SPACE = {
    "name": "space",
    "in": "query",
    "description": "the space; may be left out where the token belongs to one space only",
    "schema": TEXT,
}
PARTICIPANT = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "the participant whose token it is, by its name or a runtime id that it has now",
    "schema": TEXT,
}
SINCE = {
    "name": "since",
    "in": "query",
    "description": "gives what the gateway received strictly later; all that it still has where this is left out",
    "schema": MOMENT,
}
LIMIT = {
    "name": "limit",
    "in": "query",
    "description": "the most messages in one answer, the oldest first",
    "schema": {"type": "integer", "minimum": 1, "maximum": MAX_ENVELOPES},
}
MEMBERS = {
    "protocol": {"const": PROTOCOL},
    "id": {"type": "string", "minLength": 1, "maxLength": 256},
    "ts": {**TEXT, "description": "the sender's word, RFC 3339; the gateway goes by its own clock"},
    "from": TEXT,
    "to": TEXTS_OR_NONE,
    "kind": {"type": "string", "minLength": 1},
    "correlation_id": {"type": ["array", "string", "null"], "items": TEXT},
    "context": {"type": ["string", "null"]},
    "payload": {"type": "object"},
}

SCHEMAS = {
    "Error": _object({"error": TEXT}, code=TEXT, message=TEXT),
    "Partial": {
        **_object({"kind": MEMBERS["kind"]}, **MEMBERS),
        "description": "an envelope; what is missing of protocol, id, ts and from is filled in",
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
            "next": {**MOMENT, "description": "what to ask from for what follows"},
            "more": {"type": "boolean", "description": "whether some of what follows is there already"},
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
                "responses": _answers({200: _said("it does", "Health")}),
            }
        },
        "/openapi.json": {
            "get": {
                "summary": "this description",
                "responses": _answers(
                    {
                        200: {
                            "description": "it",
                            "content": {"application/json": {"schema": {"type": "object"}}},
                        }
                    }
                ),
            }
        },
        "/participants": {
            "get": {
                **TOKEN,
                "summary": "who may be in the space, and who is",
                "parameters": [SPACE],
                "responses": _answers({**NO_TOKEN, 200: _said("all of them", "Participants")}),
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
                "responses": _answers(
                    {
                        **NO_TOKEN,
                        200: _said("it is accepted, and what came of it", "Outcome"),
                        400: _said("it is no envelope, or cannot be done", "Error", "Envelope"),
                        403: _said("the sender may not", "Error", "Envelope"),
                        404: _said("what it names is not there", "Error", "Envelope"),
                        408: _said("the body did not come", "Error"),
                        409: _said(
                            "its id, or whom it invites, is known already", "Error", "Outcome", "Envelope"
                        ),
                        413: _said("it is too large", "Error"),
                        415: _said("it is not said to be application/json", "Error"),
                        429: TOO_FAST,
                        503: _said("the gateway cannot write its journal", "Error"),
                    }
                ),
            },
            "get": {
                **TOKEN,
                "summary": "what went out lately and may be seen by the participant",
                "parameters": [SINCE, LIMIT],
                "responses": _answers(
                    {
                        **NO_TOKEN,
                        200: _said("exact envelopes, in their order", "Messages"),
                        400: BAD_REQUEST,
                        410: _said("some of what was asked for is not kept any more", "Error"),
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
