"""Does the gateway hold to what a participant was told to stop?  Pause, resume, shutdown.

Spec: §3.9.1, §3.9.2, §3.9.10; rulings on pauses.
"""

from __future__ import annotations

from mew_lab.conformance.stage import Chapter, Stage
from mew_lab.conformance.wire import Unmet

__all__ = ["chapter"]

chapter = Chapter()

# What passes while its sender is paused, and what does not, though `worker` may send all of it.
PASSES = (
    "participant/status", "participant/compact-done", "chat/acknowledge", "chat/cancel", "reasoning/cancel",
    "mcp/withdraw", "mcp/reject", "capability/grant-ack", "participant/resume",
)  # fmt: skip
STOPPED = ("chat", "mcp/request", "mcp/proposal", "mcp/response", "reasoning/thought", "stream/request")


async def _control(stage: Stage, kind: str, **payload: object) -> str:
    """Sends a control to worker as an admin of its own connection; gives the code of a refusal."""
    admin = await stage.join("admin", as_id=stage.new_name("controller"))
    outcome = await admin.attempt(stage.message(f"participant/{kind}", payload, to=["worker"]))
    await admin.leave()
    return outcome.code


@chapter.shows("P-3.9.1-3")
async def a_pause_holds_until_it_is_lifted(stage: Stage) -> None:
    worker, human = await stage.seats("worker", "human")
    stage.later(lambda: _control(stage, "resume"))
    refused = await _control(stage, "pause", reason="conformance", timeout_seconds=600)
    stage.claim("P-3.9.1-3", not refused, f"admin's pause was refused ({refused})")
    await worker.settle()
    for kind in STOPPED:
        outcome = await stage.refuses(worker, stage.message(kind, {"text": "x", "message": "x"}), human)
        stage.claim(
            "P-3.9.1-3", outcome.refused_with("paused"), f"{kind} of a paused participant was not refused"
        )
    for kind in PASSES:
        message = stage.message(
            kind, {"messages_in_context": 0, "reason": "x"}, correlation_id=["m-1"], to=["human"]
        )
        outcome = await worker.attempt(message)
        arrived = not outcome.refused and await stage.reaches(message["id"], human)
        stage.claim("P-3.9.1-3", arrived, f"{kind} of a paused participant did not pass ({outcome.code})")
    still = await worker.attempt(stage.chat("did my own resume count?"))
    stage.claim("P-3.9.1-3", still.refused, "a paused participant lifted its own pause")
    answer = await stage.post("worker", stage.chat("by another way"))
    stage.claim("P-3.9.1-3", not answer.taken, "a paused participant was heard by HTTP")
    await worker.leave()
    worker = await stage.join("worker")
    again = await worker.attempt(stage.chat("after a new connection"))
    stage.claim("P-3.9.1-3", again.refused, "a pause ended with the connection of who was paused")
    await _control(stage, "resume")
    await worker.settle()
    free = await worker.attempt(stage.chat("resumed"))
    stage.claim("P-3.9.1-3", not free.refused, f"after a resume a message was refused ({free.code})")


@chapter.shows("P-3.9.10-3")
async def a_shutdown_holds_until_it_joins_again(stage: Stage) -> None:
    worker, human = await stage.seats("worker", "human")
    refused = await _control(stage, "shutdown")
    stage.claim("P-3.9.10-3", not refused, f"admin's shutdown was refused ({refused})")
    try:
        await worker.settle()
        outcome = await stage.refuses(worker, stage.chat("one more thing"), human)
        stage.claim("P-3.9.10-3", outcome.refused, "after its shutdown a participant could still chat")
        await worker.leave()
    except Unmet:
        if worker.closed is None:
            raise
    worker = await stage.join("worker")
    back = await worker.attempt(stage.chat("back again"))
    stage.claim(
        "P-3.9.10-3", not back.refused, f"after it had joined again a participant was refused ({back.code})"
    )


@chapter.shows("P-3.9.10-3")
async def a_shutdown_holds_by_http_too(stage: Stage) -> None:
    worker = (await stage.seats("worker"))[0]
    before = await stage.post("worker", stage.chat("before"))
    if not before.taken:
        return stage.cannot_tell("P-3.9.10-3", "the gateway takes no message by HTTP")
    await _control(stage, "shutdown")
    stopped = await stage.post("worker", stage.chat("after a shutdown"))
    stage.claim("P-3.9.10-3", not stopped.taken, "after its shutdown a participant was heard by HTTP")
    if worker.closed is None:
        await worker.leave()
    await stage.join("worker")  # so that what follows finds it as it was
    return None
