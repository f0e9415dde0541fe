"""The benchmark of the product runs every part and prints its rows, with counts too small to say anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("bench_product.py")


def rows(*parts: str) -> list[tuple[str, str]]:
    """What the benchmark prints: the name of each row and the rest of its line."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", *parts],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    assert done.stderr == ""
    return [(line[:44].rstrip(), line[44:]) for line in done.stdout.splitlines()]


MANY = {
    "1 → 20, relay": "",
    "1 → 20, relay, packed": "",
    "1 → 20, mew-lab serve": "≤ 0.8 ×; beyond: 0.6 ×",
    "1 → 20, without the peers' files": "",
    "1 → 20, a plain install": "",
    "1 → 20, mew_lab.up()": "",
    "1 → 20, mew-lab serve, packed": "",
    "1 → 200, relay": "",
    "1 → 200, mew-lab serve": "≤ 0.8 ×; beyond: 0.6 ×",
}
ONE = {
    "1 → 1, relay": "",
    "1 → 1, relay, packed": "",
    "1 → 1, mew-lab serve": "≤ 2.5 ×; beyond: 1.9 ×",
    "1 → 1, without the peers' files": "",
    "1 → 1, a plain install": "",
    "1 → 1, mew_lab.up()": "",
    "1 → 1, mew-lab serve, packed": "",
    "ping-pong, relay": "",
    "ping-pong, mew-lab serve": "≤ 2.0 ×; beyond: 1.5 ×",
    "ping-pong, without the peers' files": "",
    "ping-pong, a plain install": "",
    "ping-pong, mew_lab.up()": "",
}
TOKENS = {"1 → 1, relay": "", "1 → 1, 2 known tokens": "", "1 → 1, 300 known tokens": ""}


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("part", "expected"), [("many", MANY), ("one", ONE), ("tokens", TOKENS)])
def test_the_benchmark_prints_what_ships_beside_the_relay_and_its_marks(
    part: str, expected: dict[str, str]
) -> None:
    found = rows(part)
    assert [what for what, _ in found] == list(expected)
    marks = {what: row.rpartition("  ")[2] for what, row in found if what.endswith("mew-lab serve")}
    assert marks == {what: mark for what, mark in expected.items() if what.endswith("mew-lab serve")}
    assert all(" ×" in row for what, row in found if "relay" not in what)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_benchmark_looks_into_a_kernel_and_at_memory() -> None:
    assert [what for what, _ in rows("kernel", "memory")] == [
        "in a kernel, 3 seats and a bridge",
        "wait of a cell while nothing passes",
        "wait of a cell while 1,000 messages/s pass",
        "call of a tool in the kernel",
        "start to first welcome",
        "resident at the start",
        "after 200 messages, 20 receivers",
    ]
