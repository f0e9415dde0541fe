"""A gate and a bridge under the official MCP conformance suite, in both eras: what they offer passes; a file has the rest.

A server with the tools, resources and prompts of the suite is bridged into a space. Its gate may only propose, and the
human approves each proposal, so every call of the suite waits for a decision.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.token import Token
from mew_lab.settings.documents import read_yaml

from ..bridge.conftest import Site, site
from ..bridge.desk import Desk

sys.path.insert(0, str(Path(__file__).parent / "mcp_conformance"))

from relay import relay
from suite import installed_suite, preview_of, run_suite

__all__ = ["site"]

HERE = Path(__file__).parent / "mcp_conformance"
TOKEN = "canary-of-a-conforming-gate-0123456789"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@asynccontextmanager
async def bridged_suite(site: Site) -> AsyncIterator[None]:
    """The server of the suite as the participant `suite`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", str(HERE / "suite_server.py")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(await process.stdout.readline())}/mcp"
        bridge = McpBridge("suite", url, start_timeout=60)
        site.bridges.append(bridge)
        await bridge.start(site.client("suite", "tool"))
        yield
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_a_gate_offers_passes_and_the_baseline_is_exact(
    site: Site, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, revision: str
) -> None:
    suite = preview_of(installed_suite(tmp_path_factory.getbasetemp()))
    desk = Desk(site)
    desk.human = await site.seat("human")
    approvals: list[asyncio.Task[Any]] = []

    def approve(envelope: Envelope) -> None:
        approvals.append(asyncio.create_task(desk.human.approve(envelope.id)))

    desk.human.on_mcp_proposal(approve)
    async with bridged_suite(site), desk.gate() as gate:
        async with (
            McpHttpServer(gate.server, token=Token(TOKEN)) as server,
            relay(server, token=TOKEN, name="suite") as url,
        ):
            words = [*suite, "server", "--url", url, "--requirements", revision, "--timeout", "120000"]
            checks = await asyncio.to_thread(run_suite, words, tmp_path / "results", timeout=800)
    # The folder of a scenario repeats its side.
    failed = {scenario.removeprefix("server-") for scenario, _, status in checks if status == "FAILURE"}
    passed = {
        scenario.removeprefix("server-") for scenario, _, status in checks if status == "SUCCESS"
    } - failed
    baseline = read_yaml((HERE / "baseline_gate.yml").read_text(encoding="utf-8"))
    assert isinstance(baseline, dict)
    assert failed == set(baseline[revision]), passed
    assert len(passed) >= 20 and len(approvals) >= 10


# Those of `auth/` are left out: a bridge sends the headers that its owner gives, and has no OAuth.
SCENARIOS = {
    "2025-11-25": ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
    ],
}


@pytest.mark.parametrize(
    ("revision", "scenario"), [(revision, name) for revision, names in SCENARIOS.items() for name in names]
)
def test_a_bridge_passes_as_a_client_all_that_concerns_it(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, revision: str, scenario: str
) -> None:
    suite = preview_of(installed_suite(tmp_path_factory.getbasetemp()))
    client = f"{sys.executable} -W ignore {HERE / 'bridge_client.py'}"
    words = [*suite, "client", "--spec-version", revision, "--scenario", scenario]
    words += ["--timeout", "180000", "--command", client]
    checks = run_suite(words, tmp_path / "results", timeout=240)
    statuses = [status for _, _, status in checks]
    assert "SUCCESS" in statuses and "FAILURE" not in statuses, checks
