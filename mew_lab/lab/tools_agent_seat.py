"""`ToolsAgentSeat`: an agent file whose agent takes part in a space of this process, for synchronous code.

`seat.agent` is the agent itself. `run_tool` runs one call of an agent file as a served agent does; it needs no space.
`replay_call` runs a call of a log again.

Spec: tools-agent.md "Tool Test Interface", TA-63 to TA-66, TA-70.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mew_lab.agent.model import Model
from mew_lab.errors import ConfigError
from mew_lab.lab.listing import Listing, Note
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.seat import Seat
from mew_lab.lab.session import Session
from mew_lab.log.entries import entries_of
from mew_lab.log.log import Log
from mew_lab.protocol.profiles import PROFILES
from mew_lab.protocol.text import count_of
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.tools import RpcError
from mew_lab.tools_agent.agent_file import read_agent_file
from mew_lab.tools_agent.definition import AgentDefinition
from mew_lab.tools_agent.executor import Execution
from mew_lab.tools_agent.home import Home, redefine
from mew_lab.tools_agent.member import ToolsAgent
from mew_lab.tools_agent.replay import RecordedCall, read_call

__all__ = ["ToolReplay", "ToolTest", "ToolsAgentSeat", "replay_call", "run_tool", "session_capabilities"]

CALL_WITHIN = 330.0  # seconds: more than the deadline of a call
MAX_CELL = 2000  # characters


class ToolTest(Listing):
    """One call of a tool of an agent: a row for each tool that the model called; the final answer is the note.

    Attributes:
        execution: Everything: the prompt, the texts of the model, and each result as it came.
        answer: The final answer, or the error.
        remark: What is to be said beside it, such as what has changed since the call that is made again.
    """

    remark = ""

    def __init__(self, execution: Execution) -> None:
        rows = [
            (
                record.call.name,
                one_line(json.dumps(dict(record.call.arguments), ensure_ascii=False), MAX_CELL),
                round(1000 * record.seconds),
                one_line(record.observation, MAX_CELL),
                record.id,
            )
            for record in execution.calls
        ]
        tokens = "" if execution.usage is None else f", {count_of(sum(execution.usage), 'token')}"
        replies = "no model replied"
        if execution.turns:
            replies = f"{count_of(len(execution.turns), 'reply', 'replies')} of {execution.model}{tokens}"
        self.execution = execution
        self.answer = f"{'Error: ' if execution.is_error else ''}{execution.text}"
        super().__init__(
            f"{execution.tool}: {1000 * execution.seconds:.0f} ms, {replies}",
            ("tool", "arguments", "ms", "answer", "message"),
            rows,
            empty="No tool was called.",
            note=self.answer,
        )


class ToolReplay(ToolTest):
    """A call of a log that was made again. `recorded` is the call then; the remark tells what has changed since."""

    def __init__(self, recorded: RecordedCall, execution: Execution) -> None:
        super().__init__(execution)
        self.recorded = recorded
        self.title = f"{self.title}; again: the request {recorded.id} of {one_line(recorded.caller, 80)}"
        self.remark = recorded.compare(execution)
        self.note = f"{self.answer}\n{self.remark}"


@explains_arguments
class ToolsAgentSeat(Seat):
    """An agent of tools of this process. `agent` is the agent, `file` its file, `servers` the servers of the file."""

    def __init__(
        self,
        session: Session,
        agent: ToolsAgent,
        *,
        name: str,
        file: Path,
        model: Model,
        servers: tuple[str, ...],
        owns_model: bool,
    ) -> None:
        super().__init__(session, agent.participant, name=name, what=f"agent of tools: {model.name[:60]}")
        self.agent = agent
        self.file = file
        self.model = model
        self.servers = servers
        self._owns_model = owns_model

    def reload(self) -> Note:
        """Serves the file as it is now; the servers and the model stay those of the start.

        Raises:
            ConfigError: The file has faults, or cannot be served; the agent goes on as before.
        """
        definition = read_agent_file(self.file)

        def change() -> list[str]:
            changed, later = redefine(self.agent.agent, definition, self.name)
            self.agent.replace(changed)
            return later

        later = self._loop.call(change)
        effect = f"; {', '.join(later)} changed, which takes effect at the next start" if later else ""
        return Note(f"{self.name} serves {count_of(len(definition.tools), 'tool')} of {self.file}{effect}")

    def test(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **kw: Any) -> ToolTest:
        """Runs one call of a tool as a call of the space does, and returns its history and its answer. It blocks.

        Raises:
            ConfigError: The agent has no such tool.
        """
        work = _call(self.agent, tool, {**(arguments or {}), **kw})
        return ToolTest(self._loop.run(work, timeout=CALL_WITHIN, doing=f"testing {self.name}/{tool[:80]}"))

    def replay(self, request: str, *, log: Log | None = None) -> ToolReplay:
        """Makes a call of a log again, and tells whether its tool has changed since. It blocks.

        Args:
            request: The id of its request; `history` and the log have it.
            log: The log; default: that of this space.

        Raises:
            ConfigError: The log has no such call of this agent, or the agent no longer has the tool.

        Spec: TA-70.
        """
        recorded = read_call(entries_of((log or self.lab.log).records), request)
        if not {self.name, self.participant.client.id} & set(recorded.to):
            called = f"{', '.join(one_line(name, 80) for name in recorded.to)}/{one_line(recorded.tool, 80)}"
            raise ConfigError(
                f"{one_line(request, 80)} was a call of {called}, not of {self.name}", key="call"
            )
        return ToolReplay(recorded, self.test(recorded.tool, recorded.arguments).execution)

    def history(self) -> Listing:
        """The last calls of its tools, the oldest first: caller, arguments, time, tokens and result. Spec: TA-74.

        `pandas.DataFrame(seat.history())` is a table of them.
        """
        executions = self._loop.call(lambda: tuple(self.agent.executor.history))
        rows = [
            (
                done.caller,
                done.tool,
                mask(one_line(json.dumps(dict(done.arguments), ensure_ascii=False), MAX_CELL)),
                mask(one_line(done.prompt, MAX_CELL)),
                ", ".join(record.call.name for record in done.calls),
                round(1000 * done.seconds),
                None if done.usage is None else sum(done.usage),
                done.from_cache or ("error" if done.is_error else "answered"),
                one_line(done.text, MAX_CELL),
                done.context,
                done.request,
            )
            for done in executions
        ]
        columns = (
            "caller",
            "tool",
            "arguments",
            "prompt",
            "calls",
            "ms",
            "tokens",
            "state",
            "result",
            "context",
            "request",
        )
        return Listing(f"calls of {self.name}", columns, rows, empty="Nobody has called it.")

    async def aclose(self) -> None:
        """Ends the sessions and leaves the space; on the loop."""
        await self.agent.stop()
        if self._owns_model:
            await self.model.aclose()

    def __repr__(self) -> str:
        state = self.participant.client.state
        tools = ", ".join(tool.name for tool in self.agent.agent.tools)
        return f"<ToolsAgentSeat {self.name} in {self.lab.name}: {state}, tools {tools}, {self.model.name}>"


def session_capabilities(servers: tuple[str, ...]) -> list[dict[str, Any]]:
    """The capabilities of an agent of tools: those of an agent, and requests to the servers of its file."""
    request = {"kind": "mcp/request", "payload": {"method": "tools/call"}, "to": list(servers)}
    return [dict(pattern) for pattern in PROFILES["agent"]] + ([request] if servers else [])


def run_tool(
    loop: LoopThread,
    definition: AgentDefinition,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    folder: Path,
    **how: Any,
) -> ToolTest:
    """Runs one call in a private space with the servers of the file, as `mew-lab tools-agent serve` does; it blocks.

    Args:
        loop: the loop on which it runs.
        folder: the folder of the file.
        how: arguments of `Home`.

    Raises:
        MewError: a server does not start, the agent cannot be served, or it has no such tool.
    """

    async def run() -> Execution:
        async with Home(definition, folder=folder, **how) as home:
            return await _call(home.agent, tool, arguments)

    return ToolTest(loop.run(run(), timeout=CALL_WITHIN, doing=f"testing {tool[:80]}"))


def replay_call(
    loop: LoopThread, definition: AgentDefinition, log: Log, request: str, *, folder: Path, **how: Any
) -> ToolReplay:
    """Makes a call of a log again as `run_tool` does, and tells whether its tool has changed since.

    Raises:
        MewError: the log has no such call, or as `run_tool`.

    Spec: TA-70.
    """
    recorded = read_call(entries_of(log.records), request)
    done = run_tool(loop, definition, recorded.tool, recorded.arguments, folder=folder, **how)
    return ToolReplay(recorded, done.execution)


async def _call(agent: ToolsAgent, tool: str, arguments: Mapping[str, Any]) -> Execution:
    try:
        return await agent.call(tool, arguments, fresh=True)
    except RpcError as fault:
        raise ConfigError(fault.message, key="tool") from None
