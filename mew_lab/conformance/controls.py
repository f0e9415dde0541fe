"""Checks that a gateway enforces pause, resume and shutdown.

Spec: §3.9.1, §3.9.2, §3.9.10; rulings on pauses.
"""

from __future__ import annotations

from mew_lab.conformance.session import CheckGroup, CheckSession
from mew_lab.conformance.wire import NotObserved

__all__ = ["checks"]

checks = CheckGroup()

# Kinds that pass while their sender is paused, and kinds that do not, though `worker` may send all of them.
PASSES = (
    "participant/status", "participant/compact-done", "chat/acknowledge", "chat/cancel", "reasoning/cancel",
    "mcp/withdraw", "mcp/reject", "capability/grant-ack", "participant/resume",
)  # fmt: skip
STOPPED = ("chat", "mcp/request", "mcp/proposal", "mcp/response", "reasoning/thought", "stream/request")


async def _control(session: CheckSession, kind: str, **payload: object) -> str:
    """Sends a control to worker from a new connection of admin; returns the code of a refusal."""
    admin = await session.join("admin", as_id=session.new_name("controller"))
    outcome = await admin.attempt(session.message(f"participant/{kind}", payload, to=["worker"]))
    await admin.leave()
    return outcome.code


@checks.shows("P-3.9.1-3")
async def check_a_pause_holds_until_it_is_lifted(session: CheckSession) -> None:
    worker, human = await session.join_all("worker", "human")
    session.on_close(lambda: _control(session, "resume"))
    refused = await _control(session, "pause", reason="conformance", timeout_seconds=600)
    session.report(not refused, f"admin's pause was refused ({refused})")
    await worker.settle()
    for kind in STOPPED:
        outcome = await session.expect_refusal(
            worker, session.message(kind, {"text": "x", "message": "x"}), human
        )
        session.report(outcome.refused_with("paused"), f"{kind} of a paused participant was not refused")
    for kind in PASSES:
        message = session.message(
            kind, {"messages_in_context": 0, "reason": "x"}, correlation_id=["m-1"], to=["human"]
        )
        outcome = await worker.attempt(message)
        arrived = not outcome.refused and await session.reaches(message["id"], human)
        session.report(arrived, f"{kind} of a paused participant did not pass ({outcome.code})")
    still = await worker.attempt(session.chat("did my own resume count?"))
    session.report(still.refused, "a paused participant lifted its own pause")
    answer = await session.post("worker", session.chat("by another way"))
    session.report(not answer.taken, "a message of a paused participant by HTTP was delivered")
    await worker.leave()
    worker = await session.join("worker")
    again = await worker.attempt(session.chat("after a new connection"))
    session.report(again.refused, "a pause ended with the connection of its target")
    await _control(session, "resume")
    await worker.settle()
    free = await worker.attempt(session.chat("resumed"))
    session.report(not free.refused, f"after a resume a message was refused ({free.code})")


@checks.shows("P-3.9.10-3")
async def check_a_shutdown_holds_until_it_joins_again(session: CheckSession) -> None:
    worker, human = await session.join_all("worker", "human")
    refused = await _control(session, "shutdown")
    session.report(not refused, f"admin's shutdown was refused ({refused})")
    try:
        await worker.settle()
        outcome = await session.expect_refusal(worker, session.chat("one more thing"), human)
        session.report(outcome.refused, "after its shutdown a participant could still chat")
        await worker.leave()
    except NotObserved:
        if worker.closed is None:
            raise
    worker = await session.join("worker")
    back = await worker.attempt(session.chat("back again"))
    session.report(not back.refused, f"after it had joined again a participant was refused ({back.code})")


@checks.shows("P-3.9.10-3")
async def check_a_shutdown_holds_by_http_too(session: CheckSession) -> None:
    worker = (await session.join_all("worker"))[0]
    before = await session.post("worker", session.chat("before"))
    if not before.taken:
        return session.cannot_tell("the gateway takes no message by HTTP")
    await _control(session, "shutdown")
    stopped = await session.post("worker", session.chat("after a shutdown"))
    session.report(not stopped.taken, "after its shutdown a message of a participant by HTTP was delivered")
    if worker.closed is None:
        await worker.leave()
    await session.join("worker")  # so that what follows finds it as it was
    return None
