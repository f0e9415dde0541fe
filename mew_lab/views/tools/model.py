"""The state behind the Tools view: the tools that are known, and whether this participant may use them.

It keeps what `discovery` learns about each participant, judges arguments before they are sent, and hands its calls to
`ToolRuns`, which follows them. It changes on the loop's thread alone; whatever other threads read is replaced, never
changed. It never calls by itself and knows no form.

`find_tools` ranks the tools that a few words may mean, best first. Every word must stand somewhere: in the tool's name,
its participant, the names of its arguments, its description. Where it stands decides the rank; ties go by participant
and name, so that nothing moves without a reason.

Bounds: 5000 tools, 1000 participants.

Spec: §3.1, §3.2, §4.1, SDK "Tool Discovery and State Management".
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.calls import CallLedger, Change
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.json_schema import Validator, Violation
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.discovery import DiscoveredTool
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.views.tools.runs import ToolRun, ToolRuns

__all__ = ["Permission", "ToolCatalog", "ToolCheck", "ToolList", "ToolOwner", "find_tools", "read_arguments"]

if TYPE_CHECKING:  # loading them takes a second, and few have prompts to show
    from mew_lab.tools_agent.definition import AgentDefinition, ToolDefinition


MAX_TOOLS = 5000
MAX_VALIDATORS = 20
_SOON, _LATER = 0.1, 1.0  # seconds

_STATES: Mapping[str, str] = {
    "not_started": "unknown",
    "in_progress": "asking",
    "completed": "ready",
    "failed": "failed",
    "no_tools": "none",
}
_TELLING = ("system/presence", "system/welcome", "capability/grant", "capability/revoke")


class ToolOwner(NamedTuple):
    """How far one participant's tools are known: unknown, asking, ready, failed (an older list may stand) or none."""

    name: str
    state: str
    tools: int
    error: str


@dataclass(frozen=True, slots=True)
class ToolList:
    """All tools that are known, participant by participant. `version` grows with each change; `left_out` is how many
    are too many."""

    version: int = 0
    tools: tuple[DiscoveredTool, ...] = ()
    people: tuple[ToolOwner, ...] = ()
    left_out: int = 0


class Permission(NamedTuple):
    """Whether one may call and whether one may propose; `why` says what comes nearest where one may not call."""

    call: bool
    propose: bool
    why: str


class ToolCheck(NamedTuple):
    """What is wrong with arguments, what could not be checked, what may be done with them, and the filled prompt if
    there is one."""

    faults: tuple[Violation, ...]
    notes: tuple[str, ...]
    may: Permission
    preview: str = ""


class ToolCatalog:
    """The tools of one space as one participant may use them; `me` calls them.

    `previews` shows what a tool would be told with the arguments filled in: by `participant/tool`, a function of the
    arguments (any thread).
    """

    kinds = ("mcp/", "system/", "capability/")

    def __init__(
        self, me: MEWParticipant, *, following: EntryFeed, clock: Callable[[], float] = time.time
    ) -> None:
        self.me = me
        self.previews: dict[str, Callable[[Mapping[str, Any]], str]] = {}
        self.listed = ToolList()
        self._subscribers: Subscribers[()] = Subscribers()
        self.runs = ToolRuns(self._subscribers.tell, clock=clock)
        self._following = following
        self._validators: BoundedDict[str, tuple[Any, Validator]] = BoundedDict(MAX_VALIDATORS)
        self._ends: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def show_prompts(self, participant: str, agent: AgentDefinition) -> None:
        """From now on shows, for each tool of this agent of tools, the prompt that the arguments make. Spec: T-5."""
        shown = {f"{participant}/{tool.name}": _preview_of(tool) for tool in agent.tools}
        self.previews = {**self.previews, **shown}

    # --- on the loop ---

    async def open(self, patience: float = 0.0) -> None:
        """Begins to ask for tools, by itself from now on, and to follow the space.

        Args:
            patience: seconds that it waits for the answers, at most.
        """
        self._ends = [self.me.discovery.on_tools_changed(lambda change: self._refresh())]
        # Every call that is shown begins after this, and the tools are asked for.
        self._following.add(self, earlier=False)
        self.me.discovery.enable_auto_discovery()
        if patience:
            await self.me.discovery.wait_for_pending_discoveries(patience)
        self._refresh()

    async def close(self) -> None:
        """Follows nothing any more. Calls that wait go on without it."""
        self._following.remove(self)
        for end in self._ends:
            end()
        self.runs.close()
        if self._timer is not None:
            self._timer.cancel()
        self._subscribers.clear()

    def take(self, entry: Entry) -> None:
        """Takes note of one envelope of the space."""
        if entry.kind in _TELLING or (
            entry.kind == "mcp/request"
            and str(entry.payload.get("method")).startswith(("tools/", "notifications/tools"))
        ):
            self._refresh_after(_SOON)

    def take_changes(self, changes: tuple[Change, ...], calls: CallLedger) -> None:
        """Takes note of what became of calls of the space."""
        self.runs.take_changes(changes)

    async def ask_again(self, participant: str = "") -> str:
        """Asks one participant for its tools, or all of them; how many are known then, as a sentence."""
        names = [participant] if participant else [owner.name for owner in self.listed.people]
        known = set(self.me.client.participants)
        if participant and participant not in known:
            raise MewError(f"{one_line(participant, 80)} is not here, so it cannot be asked for its tools.")
        self._refresh_after(0)
        asked = [self.me.discovery.discover_tools(name) for name in names if name in known]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        self._refresh()
        failed = [answer for answer in answers if isinstance(answer, MewError)]
        if participant and failed:
            raise failed[0]
        answered = len(answers) - len(failed)
        return f"{answered} of {len(answers)} told their tools; {len(self.listed.tools)} tools are known."

    async def start(self, target: str, text: str, *, propose: bool) -> ToolRun:
        """Sends the call or the proposal of `participant/tool` with these arguments, JSON text.

        Raises:
            MewError: nothing was sent: the tool is not known any more, the arguments do not fit, or it is not
                permitted.

        Spec: §3.1, §3.2.
        """
        what = f"{'propose' if propose else 'call'} {one_line(target, 120)}"
        self.runs.check_room(what)
        tool = self._known(target)
        arguments = read_arguments(text)
        checked = self.check(target, text)
        if checked.faults:
            first = checked.faults[0]
            raise MewError(f"Cannot {what}: {_place(first.path)} {first.message}.")
        if not (checked.may.propose if propose else checked.may.call):
            raise MewError(f"Cannot {what}: {checked.may.why or 'no capability permits it'}")
        call = (self.me.propose if propose else self.me.call)(f"{tool.participant}/{tool.name}", arguments)
        return self.runs.follow(call, target=target, text=text)

    # --- any thread ---

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls back after each change, on the loop's thread; returns what ends it."""
        return self._subscribers.add(on_change)

    def tool(self, target: str) -> DiscoveredTool | None:
        """The tool `participant/name` if it is known."""
        return next((tool for tool in self.listed.tools if f"{tool.participant}/{tool.name}" == target), None)

    def permission(self, tool: DiscoveredTool, arguments: Mapping[str, Any]) -> Permission:
        """What may be done with these arguments. Spec: §4.1."""
        permit, to = self.me.client.capabilities.permit, (tool.participant,)
        asked = {"method": "tools/call", "params": {"name": tool.name, "arguments": dict(arguments)}}
        request = permit("mcp/request", to, {"jsonrpc": "2.0", "id": 1, **asked})
        proposal = permit("mcp/proposal", to, asked)
        return Permission(request.allowed, proposal.allowed, "" if request.allowed else request.nearest)

    def check(self, target: str, text: str) -> ToolCheck:
        """What a call of `participant/tool` with these arguments (JSON text) would run into. Sends nothing.

        Raises:
            MewError: the tool is not known, or the text is no JSON object.
        """
        tool = self._known(target)
        arguments = read_arguments(text)
        kept = self._validators.get(target)
        if kept is None or kept[0] is not tool.input_schema:
            kept = self._validators[target] = (tool.input_schema, Validator(tool.input_schema))
        validation = kept[1].validate(arguments)
        preview = ""
        if (shows := self.previews.get(target)) is not None:
            try:
                preview = shows(arguments)
            except Exception as fault:
                preview = f"cannot be shown: {type(fault).__name__}: {fault}"
        return ToolCheck(validation.violations, validation.notes, self.permission(tool, arguments), preview)

    def _known(self, target: str) -> DiscoveredTool:
        tool = self.tool(target)
        if tool is None:
            raise MewError(
                f"{one_line(target, 120)} is not known any more: its participant left or took it back."
            )
        return tool

    # --- inside ---

    def _refresh_after(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._refresh)

    def _refresh(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        discovery, old = self.me.discovery, self.listed
        everything = discovery.get_available_tools()
        tools = tuple(sorted(everything, key=lambda tool: (tool.participant, tool.name))[:MAX_TOOLS])
        counts: dict[str, int] = {}
        for tool in everything:
            counts[tool.participant] = counts.get(tool.participant, 0) + 1
        people = tuple(
            ToolOwner(name, _STATES[status.state], counts.get(name, 0), one_line(status.error, 300))
            for name, status in sorted(discovery.get_discovery_status().items())
        )
        new = ToolList(old.version, tools, people, len(everything) - len(tools))
        if new != old:
            self.listed = replace(new, version=old.version + 1)
            self._subscribers.tell()
        if discovery.has_discoveries_in_progress():
            self._refresh_after(_LATER)


def _preview_of(tool: ToolDefinition) -> Callable[[Mapping[str, Any]], str]:
    from mew_lab.tools_agent.template import fill_prompt

    return lambda arguments: fill_prompt(tool.prompt, arguments, tool=tool, preview=True)


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call from JSON text; numbers are as exact as they are written.

    Raises:
        MewError: it is no JSON object.
    """
    try:
        value = json.loads(text, parse_constant=_no_number, object_pairs_hook=_members)
    except (ValueError, RecursionError) as fault:
        raise MewError(f"The arguments are no JSON: {one_line(str(fault), 200)}") from None
    if not isinstance(value, dict):
        raise MewError("The arguments of a tool are a JSON object: {…}")
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for n, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:n]))
        raise ValueError(f"the name {one_line(twice, 60)} is given twice")
    return members


def _place(path: tuple[str | int, ...]) -> str:
    return one_line(
        "arguments" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path), 200
    )


MAX_QUERY = 200  # characters
MAX_WORDS = 8


def words_of(query: str) -> list[str]:
    """The words that are looked for, in lower case; at most 8, of the first 200 characters."""
    return query[:MAX_QUERY].lower().split()[:MAX_WORDS]


def find_tools(tools: Sequence[DiscoveredTool], query: str) -> list[DiscoveredTool]:
    """The tools that hold all words, best first; without a word all of them, as they come."""
    words = words_of(query)
    if not words:
        return list(tools)
    ranked = [(_rank(tool, words), tool) for tool in tools]
    fitting = [(rank, tool) for rank, tool in ranked if rank is not None]
    fitting.sort(key=lambda pair: (-pair[0], pair[1].participant, pair[1].name))
    return [tool for _, tool in fitting]


def _rank(tool: DiscoveredTool, words: Sequence[str]) -> int | None:
    name, participant = tool.name.lower(), tool.participant.lower()
    about = tool.description.lower()
    properties = tool.input_schema.get("properties")
    arguments = [str(key).lower() for key in properties] if isinstance(properties, Mapping) else []
    whole = 0
    for word in words:
        best = max(
            _in_name(word, name, participant),
            _in_words(word, participant, 30),
            _in_arguments(word, arguments),
        )
        if not best and word in about:
            best = 10
        if not best:
            return None
        whole += best
    return whole


def _in_name(word: str, name: str, participant: str) -> int:
    if word in (name, f"{participant}/{name}"):
        return 100
    return max(
        _in_words(word, name, 60), 50 if "/" in word and f"{participant}/{name}".startswith(word) else 0
    )


def _in_words(word: str, text: str, best: int) -> int:
    """`best` at the beginning, less at the beginning of a part, least inside."""
    if text.startswith(word):
        return best
    if any(f"{mark}{word}" in text for mark in "_-. "):
        return best - 10
    return best - 20 if word in text else 0


def _in_arguments(word: str, arguments: Sequence[str]) -> int:
    return max((_in_words(word, argument, 25) for argument in arguments), default=0)
