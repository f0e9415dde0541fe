"""A kernel process of this interpreter, and what its cells leave."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]


class Ran(NamedTuple):
    """What one cell left behind."""

    error: str
    text: str
    seconds: float
    count: int = 0


class Kernel:
    """A kernel process of this interpreter. `attended` is whether its front end could ask a human."""

    def __init__(self, folder: Path, *, environment: dict[str, str], attended: bool) -> None:
        self.attended = attended
        self.manager = KernelManager(kernel_name="python3")
        self.manager.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MEW_LAB_")}
        environment = {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(folder / "ipython")} | environment
        self.manager.start_kernel(env=kept | environment, cwd=str(folder))
        self.client: BlockingKernelClient = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def send(self, code: str) -> str:
        """Starts a cell and returns at once."""
        return self.client.execute(code, allow_stdin=self.attended)

    def ended(self, sent: str, *, within: float = 30.0) -> Ran:
        """What the cell left, once it has ended."""
        text, error, count, start = "", "", 0, time.monotonic()
        while True:
            message = self.client.get_iopub_msg(timeout=within)
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                text += content["text"]
            elif message["msg_type"] in ("execute_result", "display_data", "update_display_data"):
                text += content["data"].get("text/plain", "") + "\n"
            elif message["msg_type"] == "execute_input":
                count = content["execution_count"]
            elif message["msg_type"] == "error":
                error = "\n".join(content["traceback"])
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return Ran(error, text, time.monotonic() - start, count)

    def run(self, code: str) -> Ran:
        """Runs a cell to its end."""
        return self.ended(self.send(code))

    def passes(self, code: str) -> str:
        """Runs a cell that must not fail and gives its text."""
        ran = self.run(code)
        assert ran.error == "", ran.error
        return ran.text

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
