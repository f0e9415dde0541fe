"""`CodingAgentSeat`: a coding agent that speaks ACP, as a participant of this process, for synchronous code."""

from __future__ import annotations

from mew_lab.bridge.acp import AcpBridge
from mew_lab.lab.listing import Listing, Note
from mew_lab.lab.seat import Seat
from mew_lab.lab.session import Session
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["CodingAgentSeat"]


@explains_arguments
class CodingAgentSeat(Seat):
    """A coding agent of this process. `bridge` runs it, `participant` is its connection to the space.

    `gate` is the participant by which it uses the tools of the space, and ends with it; None where it gets none.
    """

    def __init__(
        self,
        session: Session,
        participant: MEWParticipant,
        *,
        name: str,
        bridge: AcpBridge,
        gate: Seat | None = None,
    ) -> None:
        super().__init__(session, participant, name=name, what=f"coding agent: {bridge.command_line}")
        self.bridge = bridge
        self.gate = gate

    def obeys(self, name: str) -> bool:
        """Whether the chat of a participant is a prompt for it, as its own settings say."""
        return self.bridge.obeys(name)

    @property
    def session(self) -> str:
        """The id of its session, with which it can be started again."""
        return self.bridge.session

    def sessions(self) -> Listing:
        """The sessions that it keeps of its folder: id, title, time of the last change.

        Raises:
            MewError: It keeps no list, or did not give it.
        """
        doing = f"listing the sessions of {self.name!r}"
        found = self._loop.run(self.bridge.sessions(), timeout=self.lab.timeout, doing=doing)
        rows = [(one_line(one["id"], 80), one["title"], one["updated"]) for one in found]
        title = f"sessions of {self.name}"
        return Listing(
            title, ("session", "title", "updated"), rows, empty="it keeps no session of this folder"
        )

    @property
    def history(self) -> Listing:
        """What was said in its session before it was started here, at most 1,000 messages: who, and the text.

        It is of the agent's own record. Nothing of it was sent to the space, and no rule learns from it.
        """
        rows = list(self.bridge.history)
        empty = "its session begins here, or it has not replayed what was said before"
        return Listing(f"what was said to {self.name} before", ("who", "text"), rows, empty=empty)

    def cancel(self, reason: str = "cancelled") -> Note:
        """Cancels its turn and drops the prompts that wait; it stays in the space."""
        doing = f"cancelling the work of {self.name!r}"
        was_busy = self._loop.run(self.bridge.cancel(reason), timeout=self.lab.timeout, doing=doing)
        return Note(f"{self.name}: {'its turn is cancelled' if was_busy else 'it works on nothing'}")

    def __repr__(self) -> str:
        state = "at work" if self.bridge.busy else self.participant.client.state
        return f"<CodingAgentSeat {self.name} in {self.lab.name}: {state}, {one_line(self.bridge.rule, 200)}>"
