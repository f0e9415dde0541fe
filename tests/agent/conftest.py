"""A space of this process, participants and agents in it, and a model that says what it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.model import Message, Reply, ToolCall, ToolSpec
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import ToolBox
from mew_lab.transport.link import Link

from ..room import Rights, Room
from ..waiting import until

# What an agent is given in these tests: it proposes, shows its reasoning, and may open a stream.
PROPOSER = [
    *PROFILES["proposer"],
    {"kind": "reasoning/*"},
    {"kind": "stream/request"},
    {"kind": "stream/close"},
    {"kind": "chat/*"},
    {"kind": "participant/*"},
    {"kind": "mcp/request", "payload": {"method": "tools/list"}},
]
CALLER = [*PROPOSER, {"kind": "mcp/request"}]


class Script:
    """A model that gives these replies in turn, then says "done"; what it was asked stands in `asked`."""

    name = "script"

    def __init__(
        self, *replies: Reply | Exception | Callable[[], Any], max_tokens: int | None = None
    ) -> None:
        self.max_tokens = max_tokens
        self.replies = list(replies)
        self.asked: list[list[Message]] = []
        self.offered: list[list[str]] = []
        self.schemas: list[Mapping[str, Any] | None] = []
        self.closed = False

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        self.asked.append(list(messages))
        self.offered.append([tool.name for tool in tools])
        self.schemas.append(schema)
        reply = self.replies.pop(0) if self.replies else Reply("done")
        if callable(reply):
            reply = await reply()
        if isinstance(reply, Exception):
            raise reply
        if on_text is not None:
            for piece in reply.text.split():
                on_text(piece)
        return reply

    async def aclose(self) -> None:
        self.closed = True


def wants(name: str, arguments: Mapping[str, Any] | None = None, *, why: str = "because") -> Reply:
    """A reply that asks for one call."""
    return Reply(why, tool_calls=(ToolCall("", name, dict(arguments or {})),))


class Site(Room):
    """A gateway with one space, its records, and who was seated."""

    def __init__(self) -> None:
        super().__init__()
        self.agents: list[MEWAgent] = []

    def client(self, name: str, can: Rights = None, **options: Any) -> MEWClient:
        return super().client(name, can, **{"reconnect_delay": 0.01, "max_reconnect_attempts": 3, **options})

    async def seat(
        self, name: str, can: Rights = ({"kind": "*"},), *, tools: Any = None, **options: Any
    ) -> MEWParticipant:
        return await super().seat(name, can, tools=tools or ToolBox(name=name), **options)

    async def agent(
        self,
        name: str,
        model: Any,
        *,
        can: Rights = CALLER,
        runtime_id: str | None = None,
        kind: type[MEWAgent] = MEWAgent,
        wrap: Callable[[Link], Link] = lambda link: link,
        **options: Any,
    ) -> MEWAgent:
        """An agent that has joined and knows the tools; `wrap` may stand between it and each of its links."""
        client = self.client(name, can, connect_link=self.link(name, runtime_id=runtime_id, wrap=wrap))
        agent = kind(MEWParticipant(client, tools=ToolBox(name=name)), model=model, **options)
        self.agents.append(agent)
        await agent.start()
        await agent.participant.discovery.wait_for_pending_discoveries(5.0)
        return agent

    async def first(self, kind: str, sender: str = "") -> Envelope:
        """The first message of a kind, once it is there."""
        envelopes = await until(
            lambda: self.sent(kind, sender=sender), what=f"{kind} of {sender or 'anybody'}"
        )
        return envelopes[0]

    async def proposal(self, sender: str, to: MEWParticipant, number: int = 1) -> Envelope:
        """The n-th proposal of somebody, once `to` has it before them."""
        proposals = await until(
            lambda: len(all := self.sent("mcp/proposal", sender=sender)) >= number and all
        )
        await until(lambda: to.proposals.get(proposals[number - 1].id))
        return proposals[number - 1]

    async def answer(self, sender: str, number: int = 1) -> Envelope:
        """The n-th chat of somebody."""
        chats = await until(
            lambda: len(chats := self.sent("chat", sender=sender)) >= number and chats,
            what=f"{number} chats of {sender}",
        )
        return chats[number - 1]  # type: ignore[no-any-return]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    for agent in made.agents:
        await agent.stop()
    await made.close()
