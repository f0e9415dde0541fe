"""Questions to the journal of a session: who called what, how long it took, what failed, and whether it is whole."""

import tempfile
from pathlib import Path

import mew_lab

journal = Path(tempfile.mkdtemp()) / "session.jsonl"
lab = mew_lab.up("example", journal=journal)


@lab.tool(seat=lab.join("garden", can="tool"))
def water(bed: str, litres: int) -> str:
    """Waters a bed."""
    if litres > 20:
        raise ValueError("the tank is empty")
    return f"{bed} got {litres} litres"


for litres in (5, 10, 500):
    try:
        print(lab.call("garden/water", {"bed": "north", "litres": litres}).result(timeout=30))
    except mew_lab.errors.ToolFailed as fault:
        print(fault)
lab.down()

log = mew_lab.open_log(journal)  # a file of any size, also of another gateway
calls = log.requests().query("method == 'tools/call'")
print(calls[["from", "tool", "state", "failed", "error"]].to_string(index=False))
print(
    len(calls), "calls,", int(calls.failed.sum()), "failed, the slowest after", f"{calls.latency.max():.2f} s"
)
print(len(log.filter('kind ~ "mcp/*" and from == garden').df), "messages of the garden")
print(log.verify())
