"""A process that serves a client over stdio ends with it, also where the client does not read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

LARGE = Path(__file__).parent / "large_surface.py"


@contextmanager
def unread(last_answers: float) -> Iterator[tuple[Any, bytes]]:
    """A process that is writing a list of tools, which nobody reads, and what was read of it."""
    pipe = subprocess.PIPE
    words = [sys.executable, str(LARGE), str(last_answers)]
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            for message in (
                {"id": 1, "method": "initialize", "params": about},
                {"method": "notifications/initialized"},
                {"id": 2, "method": "tools/list"},
            ):
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            assert b'"serverInfo"' in process.stdout.readline()
            yield process, process.stdout.read(20)
        finally:
            process.kill()


@pytest.mark.parametrize("how", ["stdin closed", "terminated", "both", "stdout closed"])
@pytest.mark.slow
def test_a_process_ends_with_its_client_that_reads_no_more(how: str) -> None:
    with unread(0.2 if how == "stdin closed" else 60.0) as (process, _):
        if how in ("stdin closed", "both"):
            process.stdin.close()
        if how in ("terminated", "both"):
            process.terminate()
        if how == "stdout closed":
            process.stdout.close()
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == b""


def test_a_client_that_has_closed_stdin_gets_the_answer_that_is_being_written() -> None:
    with unread(60.0) as (process, begin):
        process.stdin.close()
        answer = json.loads(begin + b"".join(iter(lambda: process.stdout.read(1 << 16), b"")))
        assert (answer["id"], len(answer["result"]["tools"])) == (2, 1000)
        assert process.wait(timeout=20) == 0
