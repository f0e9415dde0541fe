"""A grant for some minutes or uses outlives its end where the kernel is killed and the space goes on from its journal.

Promised: the gateway keeps the end of a grant, and applies it after a resume too.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from attempts import SCRATCH, reached, until, verdict

import mew_lab
from mew_lab.errors import MewError

FIRST = """
import mew_lab, os, signal
lab = mew_lab.up("demo", journal="j.jsonl")
lab.join("bot", can="proposer"); lab.join("shell", can="tool")
def grant(method, **end):
    pattern = {"kind": "mcp/request", "to": "shell", "payload": {"method": method}}
    lab.loop.run(lab.granting.grant("bot", [pattern], **end), timeout=10, doing="granting")
grant("tools/call", minutes=0.02)
grant("x/once", uses=1)
grant("x/hour", minutes=60)
os.kill(os.getpid(), signal.SIGKILL)
"""


def main() -> None:
    first = subprocess.run([sys.executable, "-c", FIRST], cwd=SCRATCH, capture_output=True, text=True)
    reached(f"the kernel was killed: {first.stderr[-300:]}", first.returncode == -signal.SIGKILL)
    over = (SCRATCH / "j.jsonl").stat().st_mtime + 1.2  # the grant of 0.02 minutes was written before that
    until("its time is over", lambda: time.time() > over)
    lab = mew_lab.up(resume="j.jsonl")
    bot = lab.join("bot", can="proposer")
    lab.join("shell", can="tool")

    def held() -> list[str]:
        return [one["payload"]["method"] for one in bot.capabilities if one["kind"] == "mcp/request"]

    until("a grant whose time is over is told to its holder", lambda: "tools/call" not in held())

    def sent(method: str) -> bool:
        try:
            bot.send("mcp/request", {"method": method, "params": {"name": "rm"}}, to="shell")
        except MewError:
            return False
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            told = [
                one
                for one in lab.log
                if one.get("kind") == "mcp/request" and one["payload"]["method"] == method
            ]
            if told:
                return True
            time.sleep(0.05)
        return False

    reached("a grant of an hour stands after the resume", sent("x/hour"))
    verdict("a grant for 1.2 s is over after it", not sent("tools/call"))
    reached("a grant of one use that was not used stands after the resume", sent("x/once"))
    end = time.monotonic() + 10
    while "x/once" in held() and time.monotonic() < end:
        time.sleep(0.01)
    verdict("a grant of one use is over after one", "x/once" not in held(), f"bot holds {held()}")
    lab.down()


main()
