"""The address and the head of a kept result, and the request that only asks for one."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.protocol.kept import KEPT, ResultHead, ResultUri, is_result_uri, reads_result

ID, DIGEST = "0123456789abcdef" * 2, "a" * 64
URI = f"mew-result://git/{ID}"
HEAD = {"uri": URI, "size": 7, "sha256": DIGEST, "expires": "2026-01-01T00:00:00Z", "parts": 1}


def head(**more: Any) -> dict[str, Any]:
    return {"_meta": {KEPT: {**HEAD, **more}}}


@pytest.mark.ruling("R43")
def test_an_address_names_participant_id_and_part() -> None:
    assert ResultUri.read(URI) == ResultUri("git", ID) and str(ResultUri("git", ID)) == URI
    assert ResultUri.read(f"{URI}?part=3") == ResultUri("git", ID, 3)
    assert str(ResultUri("git", ID, 3)) == f"{URI}?part=3"
    for other in (f"{URI}?part=0", f"{URI}/x", f"mew-result://git/{ID[1:]}", "mew-result:///x", 7, None):
        assert ResultUri.read(other) is None
    assert is_result_uri("mew-result://x") and not is_result_uri("mew://git/x") and not is_result_uri(7)


@pytest.mark.ruling("R43")
def test_a_head_is_read_as_it_was_written_and_anything_else_is_a_whole_result() -> None:
    read = ResultHead.of(head(holds=["image/png, 34 kB", 7, "x" * 300, *"abcdef"]))
    assert read is not None and (read.uri, read.size, read.sha256, read.parts) == (
        ResultUri("git", ID),
        7,
        DIGEST,
        1,
    )
    assert read.holds == ("image/png, 34 kB", "x" * 200, "a", "b", "c", "d")
    assert ResultHead.of({"_meta": {KEPT: read.meta}}) == read
    plain = ResultHead.of(head(holds="x", expires=5))
    assert plain is not None and (plain.holds, plain.expires) == ((), "") and "holds" not in plain.meta
    for wrong in (
        *(None, {}, {"_meta": 1}, {"_meta": {KEPT: 1}}, head(uri="x"), head(sha256="x"), head(sha256=1)),
        *(head(size=-1), head(size=True), head(size="7"), head(parts=-1), head(parts=1.0)),
    ):
        assert ResultHead.of(wrong) is None


@pytest.mark.ruling("R43")
def test_a_request_for_a_result_says_nothing_else() -> None:
    payload = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": URI}}
    assert reads_result("mcp/request", payload, ["git"])
    for change in (
        *({"method": "tools/call"}, {"jsonrpc": "1.0"}, {"id": "x" * 65}, {"id": None}, {"more": 1}),
        *({"params": 1}, {"params": {"uri": URI, "more": 1}}, {"params": {"uri": "mew://git/x"}}),
    ):
        assert not reads_result("mcp/request", {**payload, **change}, ["git"])
    assert not reads_result("mcp/proposal", payload, ["git"])
    assert not reads_result("mcp/request", payload, ["git", "ann"])
    assert not reads_result("mcp/request", payload, ["git"], about=["m1"])
