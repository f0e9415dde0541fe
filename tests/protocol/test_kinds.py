"""The table of kinds is the specification's list."""

from __future__ import annotations

import pytest

from mew_lab.protocol.kinds import ACTED_ON, HANDLES, KINDS, RESERVED, is_reserved
from mew_lab.space.core import RULES

# The list of §3, word for word.
SPECIFIED = """
mcp/request mcp/response mcp/proposal mcp/withdraw mcp/reject
reasoning/start reasoning/thought reasoning/conclusion reasoning/cancel
capability/grant capability/revoke capability/grant-ack space/invite space/invite-ack space/kick
participant/pause participant/resume participant/status participant/request-status participant/forget
participant/compact participant/compact-done participant/clear participant/restart participant/shutdown
stream/request stream/open stream/close stream/grant-write stream/revoke-write stream/transfer-ownership
stream/write-granted stream/write-revoked stream/ownership-transferred
chat chat/acknowledge chat/cancel system/presence system/welcome system/error
""".split()


@pytest.mark.req("P-3-8", "P-3.9.3-1", "P-3.1-1")
def test_the_forty_kinds_are_known() -> None:
    assert len(SPECIFIED) == 40
    assert set(KINDS) == set(SPECIFIED)


def test_every_kind_has_a_payload_model() -> None:
    for kind, row in KINDS.items():
        assert row.model(kind).model_config["extra"] == "allow"


def test_the_kinds_acted_on_are_those_that_have_a_rule() -> None:
    assert set(RULES) == ACTED_ON


def test_handles_are_those_of_the_ruling() -> None:
    assert set(HANDLES) == {
        "capability/grant",
        "mcp/proposal",
        "mcp/request",
        "reasoning/start",
        "stream/request",
        "space/invite",
    }


@pytest.mark.req("P-4.1-7", "P-4.1-9")
def test_the_gateways_own_kinds_are_reserved() -> None:
    assert {
        "space/invite-ack",
        "stream/write-granted",
        "stream/write-revoked",
        "stream/ownership-transferred",
        "system/presence",
        "system/welcome",
        "system/error",
    } == RESERVED
    assert is_reserved("system/register") and is_reserved("system/anything/new") and is_reserved("system")
    assert not is_reserved("stream/open") and not is_reserved("systematic")
