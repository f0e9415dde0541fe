"""The state behind the tools view: the known tools, and whether this participant may use them.

It keeps the tools that `discovery` finds at each participant, and validates arguments before they are sent. `ToolRuns`
follows the calls. Only the loop's thread changes it; a value that other threads read is replaced, never changed. It
sends a call only when a person starts one.

`find_tools` ranks the tools that match a query, best first. Every word of the query must occur in the tool's name, its
participant, the names of its arguments or its description. The place of a word decides the rank; ties are ordered by
participant and name, so that the list stays stable.

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
from mew_lab.lab.decisions.running_calls import may_cancel
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.describe import reword_refusal
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.json_schema import Validator, Violation
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.discovery import DiscoveredTool
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.views.tools.offers import Offer, OfferCatalog, Tab
from mew_lab.views.tools.runs import RUN_ENDED, ToolRun, ToolRuns
from mew_lab.views.ui.debounce import Debounce

__all__ = ["Permission", "ToolCatalog", "ToolCheck", "ToolList", "ToolOwner", "find_tools", "read_arguments"]

if TYPE_CHECKING:  # imported late: that takes a second, and few views show prompts
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
    """A participant, and its tool list as unknown, asking, ready, failed (an older list may remain) or none."""

    name: str
    state: str
    tools: int
    error: str


@dataclass(frozen=True, slots=True)
class ToolList:
    """All known tools, by participant. `version` grows with each change; `left_out` counts those beyond the limit."""

    version: int = 0
    tools: tuple[DiscoveredTool, ...] = ()
    people: tuple[ToolOwner, ...] = ()
    left_out: int = 0


class Permission(NamedTuple):
    """Whether this participant may call, and may propose, a tool; `why` names the nearest capability if not."""

    call: bool
    propose: bool
    why: str


class ToolCheck(NamedTuple):
    """The result of a check of arguments: `faults` in them, `notes` on parts that could not be checked, the permission
    to send them, and the filled prompt if there is one."""

    faults: tuple[Violation, ...]
    notes: tuple[str, ...]
    may: Permission
    preview: str = ""


class ToolCatalog:
    """The tools of one space as one participant may use them; `me` calls them.

    `previews` has the functions that return the prompt of a tool filled with given arguments, by `participant/tool`.
    Any thread may call them.
    """

    kinds = ("mcp/", "system/", "capability/")

    def __init__(
        self,
        me: MEWParticipant,
        *,
        following: EntryFeed,
        check_sending: Callable[[str], None] = lambda doing: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.me = me
        self.previews: dict[str, Callable[[Mapping[str, Any]], str]] = {}
        self.listed = ToolList()
        self.changed: Subscribers[()] = Subscribers()
        self.runs = ToolRuns(self.changed.tell, clock=clock)
        self.offers = OfferCatalog(me, self.runs, on_change=self.changed.tell)
        self._following = following
        self._check_sending = check_sending
        self._validators: BoundedDict[str, tuple[Any, Validator]] = BoundedDict(MAX_VALIDATORS)
        self._ends: list[Callable[[], None]] = []
        self._soon = Debounce(self._refresh)

    def show_prompts(self, participant: str, agent: AgentDefinition) -> None:
        """Shows the filled prompt for each tool of this agent of tools from now on. Spec: T-5."""
        shown = {f"{participant}/{tool.name}": _preview_of(tool) for tool in agent.tools}
        self.previews = {**self.previews, **shown}

    # --- on the loop ---

    async def open(self, patience: float = 0.0) -> None:
        """Starts to discover tools and to follow the space.

        Args:
            patience: how long to wait for the answers, in seconds.
        """
        self._ends = [self.me.discovery.on_tools_changed(lambda change: self._refresh())]
        # Earlier entries are not needed: every call that is shown starts later, and the tools are requested.
        self._following.add(self, earlier=False)
        self.me.discovery.enable_auto_discovery()
        if patience:
            await self.me.discovery.wait_for_pending_discoveries(patience)
        self._refresh()

    async def close(self) -> None:
        """Stops following the space. Calls that wait continue."""
        self._following.remove(self)
        for end in self._ends:
            end()
        self.runs.close()
        self._soon.cancel()
        self.changed.clear()

    def take(self, entry: Entry) -> None:
        """Refreshes the list soon if one envelope of the space may change it."""
        if entry.kind in _TELLING or (
            entry.kind == "mcp/request"
            and str(entry.payload.get("method")).startswith(("tools/", "notifications/tools"))
        ):
            self._soon.within(_SOON)

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        """Updates the shown calls by changes of calls of the space."""
        self.runs.take_changes(changes)

    async def ask_again(self, participant: str = "") -> str:
        """Requests the tools of one participant, or of all; returns a sentence with the number of answers."""
        names = [participant] if participant else [owner.name for owner in self.listed.people]
        known = set(self.me.client.participants)
        if participant and participant not in known:
            raise MewError(
                f"Cannot request the tools of {one_line(participant, 80)}: it is not in the space."
            )
        self._soon.within(0)
        requests = [self.me.discovery.discover_tools(name) for name in names if name in known]
        answers = await asyncio.gather(*requests, return_exceptions=True)
        self._refresh()
        failed = [answer for answer in answers if isinstance(answer, MewError)]
        if participant and failed:
            raise failed[0]
        answered = len(answers) - len(failed)
        return f"{answered} of {len(answers)} listed their tools; known tools: {len(self.listed.tools)}."

    async def ask_offers(self, tab: Tab, participant: str = "") -> str:
        """Requests the resources or the prompts of one participant, or of all that answered for their tools."""
        answered = [owner.name for owner in self.listed.people if owner.state in ("ready", "none")]
        return await self.offers.ask(tab, [participant] if participant else answered)

    async def start_offer(self, what: str, target: str, text: str, *, propose: bool) -> ToolRun:
        """Reads a resource or fills a prompt with these arguments, a JSON text; raises as `start`."""
        action = f"{'propose to use' if propose else 'use'} {one_line(target, 120)}"
        if faults := self.check_offer(what, target, text).faults:
            raise MewError(f"Cannot {action}: {_format_path(faults[0].path)} {faults[0].message}.")
        return await self.offers.start(what, target, read_arguments(text), text=text, propose=propose)

    async def start(self, target: str, text: str, *, propose: bool) -> ToolRun:
        """Sends a call or a proposal of `participant/tool` with these arguments, a JSON text.

        Raises:
            MewError: the tool is no longer known, the arguments do not fit, or no permission allows it; nothing was
                sent.

        Spec: §3.1, §3.2.
        """
        action = f"{'propose' if propose else 'call'} {one_line(target, 120)}"
        self.runs.check_room(action)
        tool = self.require_tool(target)
        arguments = read_arguments(text)
        checked = self.check(target, text)
        if checked.faults:
            first = checked.faults[0]
            raise MewError(f"Cannot {action}: {_format_path(first.path)} {first.message}.")
        if not (checked.may.propose if propose else checked.may.call):
            raise MewError(f"Cannot {action}: {checked.may.why or 'no permission allows it'}")
        if propose:
            call = self.me.propose(f"{tool.participant}/{tool.name}", arguments)
            return self.runs.follow(call, target=target, text=text)
        self._check_sending(f"Cannot {action}")
        params = {"name": tool.name, "arguments": arguments}
        call = self.me.correlations.call(
            (tool.participant,),
            {"method": "tools/call", "params": params},
            what=target,
            timeout=None,
            kind="mcp/request",
            progress=True,
        )
        return self.runs.follow(call, target=target, text=text)

    # --- any thread ---

    def stop_word(self, run: ToolRun) -> str:
        """What this participant may do with a call that waits: `Withdraw`, `Cancel`, or nothing. Spec: R35, R36."""
        if not run.waits:
            return ""
        if run.kind == "mcp/proposal" and run.state != "fulfilled":
            draft = {"kind": "mcp/withdraw", "correlation_id": [run.id], "payload": {"reason": RUN_ENDED}}
            return "Withdraw" if self.me.can_send(draft) else ""
        request = self.runs.request_of(run)
        proposal = self.me.proposals.get(run.id)
        if proposal is not None and proposal.request is not None:
            request = proposal.request.envelope
        return "Cancel" if request is not None and may_cancel(self.me, request) else ""

    def tool(self, target: str) -> DiscoveredTool | None:
        """The tool `participant/name`; None when it is not known."""
        return next((tool for tool in self.listed.tools if f"{tool.participant}/{tool.name}" == target), None)

    def permission(self, tool: DiscoveredTool, arguments: Mapping[str, Any]) -> Permission:
        """Whether this participant may call, and may propose, a tool with these arguments. Spec: §4.1."""
        permit, to = self.me.client.capabilities.permit, (tool.participant,)
        call = {"method": "tools/call", "params": {"name": tool.name, "arguments": dict(arguments)}}
        request = permit("mcp/request", to, {"jsonrpc": "2.0", "id": 1, **call})
        proposal = permit("mcp/proposal", to, call)
        return Permission(
            request.allowed, proposal.allowed, "" if request.allowed else reword_refusal(request.nearest)
        )

    def check(self, target: str, text: str) -> ToolCheck:
        """Checks a call of `participant/tool` with these arguments (JSON text) without sending it.

        Raises:
            MewError: the tool is not known, or the text is not a JSON object.
        """
        tool = self.require_tool(target)
        arguments = read_arguments(text)
        kept = self._validators.get(target)
        if kept is None or kept[0] is not tool.input_schema:
            validator = Validator(tool.input_schema, of_peer=True)
            kept = self._validators[target] = (tool.input_schema, validator)
        validation = kept[1].validate(arguments)
        doubts = tuple(f"It may not fit, which the tool judges: {place}." for place in validation.doubts)
        preview = ""
        if (shows := self.previews.get(target)) is not None:
            try:
                preview = shows(arguments)
            except Exception as fault:
                preview = f"The prompt cannot be shown: {type(fault).__name__}: {fault}"
        notes = (*doubts, *validation.notes)
        return ToolCheck(validation.violations, notes, self.permission(tool, arguments), preview)

    def check_offer(self, what: str, target: str, text: str) -> ToolCheck:
        """Checks the arguments of a resource or a prompt without sending anything; raises as `check`."""
        offer, arguments = self.offers.offer(what, target), read_arguments(text)
        validation = Validator(offer.schema).validate(arguments)
        return ToolCheck(validation.violations, validation.notes, self.offer_permission(offer))

    def offer_permission(self, offer: Offer) -> Permission:
        """Whether this participant may request, and may propose, to read or fill it. Spec: §4.1."""
        if offer.what == "prompt":
            found = self.offers.permission(offer.participant, "prompts/get", {"name": offer.address})
        else:
            found = self.offers.permission(offer.participant, "resources/read", {"uri": offer.address})
        return Permission(*found)

    def require_tool(self, target: str) -> DiscoveredTool:
        """The tool `participant/name`; raises a MewError when it is not known."""
        tool = self.tool(target)
        if tool is None:
            raise MewError(
                f"{one_line(target, 120)} is no longer known: its participant left or withdrew it."
            )
        return tool

    # --- internal ---

    def _refresh(self) -> None:
        self._soon.cancel()
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
        if not _is_same(new, old):
            self.listed = replace(new, version=old.version + 1)
            self.changed.tell()
        if discovery.has_discoveries_in_progress():
            self._soon.within(_LATER)


def _is_same(new: ToolList, old: ToolList) -> bool:
    """Whether both list the same tools, as JSON has it: `true` is not 1."""
    if (new.people, new.left_out, len(new.tools)) != (old.people, old.left_out, len(old.tools)):
        return False
    for tool, known in zip(new.tools, old.tools, strict=True):
        texts = (tool.participant, tool.name, tool.description)
        if tool is not known and (
            texts != (known.participant, known.name, known.description)
            or not are_equal(tool.input_schema, known.input_schema)
            or not are_equal(tool.annotations, known.annotations)
        ):
            return False
    return True


def _preview_of(tool: ToolDefinition) -> Callable[[Mapping[str, Any]], str]:
    from mew_lab.tools_agent.template import fill_prompt

    return lambda arguments: fill_prompt(tool.prompt, arguments, tool=tool, preview=True)


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call from JSON text; large integers keep every digit.

    Raises:
        MewError: the text is not a JSON object.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_members)
    except (ValueError, RecursionError) as fault:
        raise MewError(f"The arguments are not valid JSON: {one_line(str(fault), 200)}") from None
    if not isinstance(value, dict):
        raise MewError("The arguments of a tool must be a JSON object: {…}")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for n, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:n]))
        raise ValueError(f"the name {one_line(twice, 60)} is given twice")
    return members


def _format_path(path: tuple[str | int, ...]) -> str:
    return one_line(
        "arguments" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path), 200
    )


def find_tools(tools: Sequence[DiscoveredTool], query: str) -> list[DiscoveredTool]:
    """The tools that match all words of the query, best first; for an empty query all tools in their order."""
    words = query.lower().split()
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
            _rank_in_name(word, name, participant),
            _rank_in_text(word, participant, 30),
            _rank_in_arguments(word, arguments),
        )
        if not best and word in about:
            best = 10
        if not best:
            return None
        whole += best
    return whole


def _rank_in_name(word: str, name: str, participant: str) -> int:
    if word in (name, f"{participant}/{name}"):
        return 100
    return max(
        _rank_in_text(word, name, 60), 50 if "/" in word and f"{participant}/{name}".startswith(word) else 0
    )


def _rank_in_text(word: str, text: str, best: int) -> int:
    """The rank of a word in a text: `best` at its start, 10 less at the start of a part, 20 less elsewhere, else 0."""
    if text.startswith(word):
        return best
    if any(f"{mark}{word}" in text for mark in "_-. "):
        return best - 10
    return best - 20 if word in text else 0


def _rank_in_arguments(word: str, arguments: Sequence[str]) -> int:
    return max((_rank_in_text(word, argument, 25) for argument in arguments), default=0)
