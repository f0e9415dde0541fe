"""`AgentSeat` lets synchronous code start, stop, configure and inspect an agent of this process.

`seat.agent` is the agent itself, with its awaitable methods. Models are created on the caller's thread: their libraries
take long to load, and the loop must not wait for them.
"""

from __future__ import annotations

from typing import Any

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.options import AgentOptions
from mew_lab.errors import MewError
from mew_lab.lab.listing import Listing, Note
from mew_lab.lab.seat import Seat
from mew_lab.lab.session import Session
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments

__all__ = ["AgentSeat", "as_agent_seat", "list_agents"]

SHOWN = 200  # characters of a system prompt in a listing


@explains_arguments
class AgentSeat(Seat):
    """An agent of this process. `agent` is its MEWAgent, `participant` its connection to the space."""

    def __init__(self, session: Session, agent: MEWAgent, *, name: str) -> None:
        super().__init__(
            session, agent.participant, name=name, what=f"agent: {one_line(agent.model.name, 60)}"
        )
        self.agent = agent

    @property
    def options(self) -> AgentOptions:
        """The options that are in force."""
        return self.agent.options

    def obeys(self, name: str) -> bool:
        """Whether it works on what a participant asks it in chat, as its own settings say."""
        return self.agent.askers.obeyed(name)

    def configure(self, **options: Any) -> Note:
        """Changes options, such as `system_prompt`; requests already in progress keep the old ones.

        Raises:
            ConfigError: An option is unknown or its value is not valid; nothing is changed then.
        """
        self._loop.call(lambda: self.agent.configure(**options))
        return Note(f"{self.name}: {', '.join(options)} set")

    def start(self) -> Note:
        """Joins the space again after `stop`."""
        self._loop.run(self.agent.start(), timeout=self.lab.timeout, doing=f"starting {self.name!r}")
        return Note(f"{self.name} is {self.participant.client.state}")

    def stop(self) -> Note:
        """Ends its work and leaves the space; `start` joins again."""
        self._loop.run(self.agent.stop(), timeout=self.lab.timeout, doing=f"stopping {self.name!r}")
        return Note(f"{self.name} has stopped")

    def cancel(self, reason: str = "cancelled") -> Note:
        """Stops its work and withdraws its open calls; it stays in the space."""
        doing = f"cancelling the work of {self.name!r}"
        done, busy = self._loop.run(self.agent.cancel_all(reason), timeout=self.lab.timeout, doing=doing)
        return Note(
            f"{self.name}: {count_of(done, 'request')} cancelled{f', {busy} still ending' if busy else ''}"
        )

    def status(self) -> Listing:
        """The agent's state, model, current work, tools, memory and capabilities."""
        return self._loop.call(lambda: status(self))

    def __repr__(self) -> str:
        return f"<AgentSeat {self.name} in {self.lab.name}: {self.participant.client.state}, {self.agent.model.name}>"


def status(seat: AgentSeat) -> Listing:
    """The state of one agent as a listing, one fact a row."""
    agent, options = seat.agent, seat.options
    rows: list[tuple[Any, ...]] = [(key.replace("_", " "), value) for key, value in agent.status().items()]
    rows += [
        ("may", "call tools" if seat.participant.can_send("mcp/request", CALL, "*") else "propose calls"),
        ("reasoning", options.reasoning_format if options.reasoning_enabled else "not shown"),
        ("system prompt", one_line(options.system_prompt or "(default)", SHOWN)),
    ]
    rows += [("works on", one_line(run.request, SHOWN)) for run in agent.runs.values()]
    return Listing(f"{seat.name}: agent", ("what", "is"), rows)


CALL = {"method": "tools/call"}


def as_agent_seat(seat: Seat) -> AgentSeat:
    """Returns `seat` itself when it is the seat of an agent.

    Raises:
        MewError: It is the seat of another kind of participant.
    """
    if not isinstance(seat, AgentSeat):
        raise MewError(
            f"{seat.name[:80]!r} is seated here, but as {seat.what}; lab.agent(NAME) seats an agent"
        )
    return seat


def list_agents(session: Session) -> Listing:
    """The agents of this process as a listing."""
    agents = [seat for seat in session.seats.values() if isinstance(seat, AgentSeat)]
    rows = []
    for seat in agents:
        now = seat.agent.status()
        rows.append(
            (
                seat.name,
                now["state"],
                now["model"],
                now["working_on"],
                now["tools"],
                now["messages_in_context"],
            )
        )
    return Listing(
        f"{session.space}: agents",
        ("agent", "state", "model", "works on", "tools", "messages"),
        rows,
        empty="No agents yet. Start one with %mew agent NAME, or lab.agent(NAME).",
    )
