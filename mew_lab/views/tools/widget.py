"""The tools view: a person finds a tool, fills in its arguments, calls or proposes it, and reads the result.

Resources and prompts of the participants have tabs of their own; they are listed when a person opens such a tab.

The browser sends a tool's name, the arguments as JSON text and the requested action. This module validates the arguments
and checks the permission, and again when they are sent. A page of tools is sent when a view requests it, a result when a
person opens it. No argument and no result is synced state; only the saved picture lists the calls.

`mew_lab.views.tools.model` discovers the tools, `mew_lab.views.tools.offers` the resources and prompts,
`mew_lab.views.tools.runs` follows the calls, and `mew_lab.views.tools.schema_form` turns a schema into fields. The form
itself is ui/form.js.

Spec: §3.1, §3.2, §3.3.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mew_lab.errors import MewError
from mew_lab.lab.session import Session
from mew_lab.protocol.content import for_page, read_parts
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.sdk.discovery import DiscoveredTool
from mew_lab.sdk.kept_results import KeptAnswer
from mew_lab.sdk.rights import CapabilitiesChange
from mew_lab.views.tools.model import ToolCatalog, ToolCheck, ToolList, find_tools
from mew_lab.views.tools.offers import TABS, Offer, OfferList, Tab, find_offers
from mew_lab.views.tools.runs import ToolRun
from mew_lab.views.tools.schema_form import plan, summary
from mew_lab.views.ui.acts import Act, ActingView, ActResult, Submit
from mew_lab.views.ui.kept import KeptLoads, pack_kept
from mew_lab.views.ui.pictures import MOST_ROWS, picture
from mew_lab.views.ui.sent_rows import SentRows

if TYPE_CHECKING:
    from mew_lab.tools_agent.definition import AgentDefinition

__all__ = ["ToolsView", "view_of"]

PAGE = 100
PATIENCE = 1.5  # seconds that the first picture waits for the participants' answers
MAX_PEOPLE = 40
HAVE_ANSWERED = ("ready", "none")
MAX_SHOWN = 600  # characters of a description in the list
_Row = TypeVar("_Row")


def view_of(session: Session) -> ToolsView:
    """Makes the view of this space. It requests the tools of each participant when it is first shown."""
    catalog = ToolCatalog(
        session.me.participant,
        following=session.following,
        check_sending=session.decisions.gate.check_sending,
    )
    return ToolsView(
        catalog,
        submit=session.loop.submit,
        patience=0.0 if session.loop.threadless else PATIENCE,
        sign=session.log.sign,
    )


class ToolsView(ActingView):
    """The tools of one space. Show it as often as you like: each view has its own search and its own form.

    It requests the tools when it is first shown. That display takes up to `patience` seconds, so that the saved picture
    has the tools.
    """

    part = "tools"
    title = "tools"
    interval = 0.1

    def __init__(
        self,
        catalog: ToolCatalog,
        *,
        submit: Submit,
        patience: float = PATIENCE,
        sign: str = "#",
        **settings: Any,
    ) -> None:
        self._catalog = catalog
        self._sign = sign  # before the number of a message, as in `Log.sign`
        self._submit = submit
        self._patience = patience
        self._opened = False
        # Only the writer uses these two: the state that was last sent to the views.
        self._version = -1
        self._runs: SentRows[int, ToolRun] = SentRows()
        self._offers: Mapping[Tab, OfferList] = catalog.offers.listed
        self._has_other_rights = False
        self._loads = KeptLoads(catalog.me.results, post=self.post)
        super().__init__(submit=submit, **settings)
        self.on_close(catalog.me.rights.on_capabilities_changed(self._renew_rights))
        self.on_close(catalog.changed.add(self.wake))
        self.on_close(self._close_catalog)

    def _renew_rights(self, change: CapabilitiesChange) -> None:
        self._has_other_rights = True
        self.wake()

    def _close_catalog(self) -> None:
        with contextlib.suppress(Exception):  # without the loop nothing is left to close
            self._submit(self._catalog.close())

    def _open(self, patience: float) -> None:
        """Starts the discovery of tools, once."""
        if self._opened:
            return
        self._opened = True
        try:
            opening = self._submit(self._catalog.open(patience))
            if patience:
                opening.result(patience + 1.0)
        except Exception as fault:
            self.fault(fault)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        self._open(self._patience)
        return super()._repr_mimebundle_(**kwargs)

    def show_prompts(self, participant: str, agent: AgentDefinition) -> None:
        """Shows the filled prompt beside the form of each tool of this agent of tools from now on."""
        self._catalog.show_prompts(participant, agent)

    def badge(self) -> str:
        waiting = sum(run.waits for run in self._catalog.runs.all)
        tools = len(self._catalog.listed.tools)
        return f"{waiting} waiting" if waiting else f"{tools}" if tools else ""

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        self._open(0.0)
        # The state last sent to the other views is kept: their news are still to be sent.
        runs = [self._pack_run(run) for run in self._catalog.runs.all]
        offers = {tab: _pack_offers(listed) for tab, listed in self._catalog.offers.listed.items()}
        catalogue = _pack_catalogue(self._catalog.listed)
        return {
            "sign": self._sign,
            "runs": runs,
            "offers": offers,
            **catalogue,
        }

    def _news(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        catalogue = self._catalog.listed
        if catalogue.version != self._version:
            self._version = catalogue.version
            items.append({"t": "catalogue"} | _pack_catalogue(catalogue))
        offers = self._catalog.offers.listed
        for tab in TABS:
            if offers[tab] is not self._offers[tab]:
                items.append({"t": "offers", "tab": tab} | _pack_offers(offers[tab]))
        self._offers = offers
        # Taken before the rows are read: a change from now on counts again.
        renewed, self._has_other_rights = self._has_other_rights, False
        if renewed:
            items.append({"t": "rights"})
        runs = self._catalog.runs.all
        changed = {run.number for run, _ in self._runs.take({run.number: run for run in runs}).changed}
        items += [
            {"t": "run", "run": self._pack_run(run)}
            for run in runs
            if run.number in changed or (renewed and run.waits)
        ]
        return items

    def _pack_run(self, run: ToolRun) -> dict[str, Any]:
        return _pack_run(run) | {"stop": self._catalog.stop_word(run)}

    # Requests of the views.

    def _acts(self) -> Mapping[str, Act]:
        return {
            "find": self._find,
            "form": self._form,
            "check": self._check,
            "start": self._start,
            "stop": self._stop,
            "result": self._result,
            "again": self._again,
            "ask": self._request_lists,
            "propose-list": self._propose_list,
            "load": self._load,
            "stop_load": self._loads.stop,
        }

    async def _load(self, key: str, run: int) -> ActResult:
        return await self._loads.load(key, self._kept_of(run))

    def _kept_of(self, number: int) -> KeptAnswer | None:
        run = self._run_of(number)
        return None if run is None else KeptAnswer.find(self._catalog.me.ledger.calls, run.id)

    async def _request_lists(self, participant: str = "", tab: Tab | None = None) -> str:
        if tab is None:
            return await self._catalog.ask_again(participant)
        return await self._catalog.ask_offers(tab, participant)

    async def _propose_list(self, participant: str, tab: Tab) -> str:
        self._catalog.offers.propose_list(tab, participant)
        return (
            f"Proposed to list the {tab} of {one_line(participant, 80)}. The list appears after the approval."
        )

    def _find(self, query: str = "", start: int = 0, tab: Tab | None = None) -> ActResult:
        if tab is None:
            tools = find_tools(self._catalog.listed.tools, query)
            return _page(count_of(len(tools), "tool"), tools, start, self._row)
        offers = find_offers(self._catalog.offers.listed[tab].offers, query.lower().split())
        return _page(f"{len(offers)} {tab}", offers, start, self._offer_row)

    def _offer_row(self, offer: Offer) -> dict[str, Any]:
        may = self._catalog.offer_permission(offer)
        size = [count_of(offer.size, "byte")] if offer.size is not None else []
        return {
            "what": offer.what,
            "target": offer.target,
            "participant": visible(offer.participant),
            "name": one_line(offer.name, 200),
            "address": one_line(offer.address, 400) if offer.what != "prompt" else "",
            "about": one_line(" ".join(offer.about.split()), MAX_SHOWN),
            "arguments": [list(argument) for argument in summary(offer.schema)],
            "badges": ["template"] * (offer.what == "template")
            + [visible(offer.mime)] * bool(offer.mime)
            + size,
            "may": "call" if may.call else "propose" if may.propose else "neither",
        }

    def _row(self, tool: DiscoveredTool) -> dict[str, Any]:
        return {
            "what": "tool",
            "target": f"{tool.participant}/{tool.name}",
            "participant": visible(tool.participant),
            "name": visible(tool.name),
            "about": one_line(" ".join(tool.description.split()), MAX_SHOWN),
            "arguments": [list(argument) for argument in summary(tool.input_schema)],
            "badges": _badges(tool.annotations),
            "may": self._may(tool),
        }

    def _may(self, tool: DiscoveredTool) -> str:
        may = self._catalog.permission(tool, {})
        return "call" if may.call else "propose" if may.propose else "neither"

    def _form(self, tool: str, what: str = "tool") -> ActResult:
        if what != "tool":
            offer = self._catalog.offers.offer(what, tool)
            row, about, schema = self._offer_row(offer), offer.about, offer.schema
        else:
            found = self._catalog.require_tool(tool)
            row, about, schema = self._row(found), found.description, found.input_schema
        lines = "\n".join(map(visible, about.split("\n")))
        return ActResult("the form", row | {"about": lines, "plan": plan(schema)})

    def _check(self, tool: str, text: str, what: str = "tool") -> ActResult:
        catalog = self._catalog
        checked = catalog.check(tool, text) if what == "tool" else catalog.check_offer(what, tool, text)
        return ActResult("checked", _pack_check(checked))

    async def _start(
        self, tool: str, text: str, how: Literal["call", "propose"], what: str = "tool"
    ) -> ActResult:
        propose = how == "propose"
        if what == "tool":
            run = await self._catalog.start(tool, text, propose=propose)
        else:
            run = await self._catalog.start_offer(what, tool, text, propose=propose)
        return ActResult(
            f"{'Proposed' if propose else 'Requested'} {one_line(tool, 120)}.", {"run": run.number}
        )

    async def _stop(self, run: int) -> str:
        return await self._catalog.runs.stop(run)

    async def _result(self, run: int) -> ActResult:
        return self._read_result(run, self._kept_of(run))

    def _read_result(self, number: int, kept: KeptAnswer | None) -> ActResult:
        run, raw = self._run_of(number), self._catalog.runs.result(number)
        if raw is None or run is None:
            raise MewError("That result is no longer held in this view; lab.log.df has it.")
        empty = "The resource is empty." if run.method == "resources/read" else ""
        blocks = for_page(read_parts(raw, run.method), empty=empty)
        value = {"blocks": [block._asdict() for block in blocks], "kept": kept and pack_kept(kept)}
        return ActResult("the result", value)

    def _run_of(self, number: int) -> ToolRun | None:
        return next((run for run in self._catalog.runs.all if run.number == number), None)

    def _again(self, run: int) -> ActResult:
        held = self._run_of(run)
        if held is None or held.what == "list":
            raise MewError("That call is no longer held in this view; lab.log.df has it.")
        return ActResult("its arguments", {"what": held.what, "tool": held.target, "text": held.text})

    # Saved pictures.

    def _static_text(self) -> str:
        catalogue = self._catalog.listed
        names = ", ".join(f"{owner.name} {owner.tools}" for owner in catalogue.people if owner.tools)
        calls = len(self._catalog.runs.all)
        listed = f" ({names})" if names else ""
        return f"Tools: {len(catalogue.tools)} known{listed}, {count_of(calls, 'call')} made here"

    def _static_html(self) -> str:
        catalogue = self._catalog.listed
        shown = catalogue.tools[:MOST_ROWS]
        rows = [
            (
                tool.participant,
                tool.name,
                "\n".join(
                    f"{name}: {kind}{' (required)' if needed else ''}"
                    for name, kind, needed in summary(tool.input_schema)
                )
                or "none",
                one_line(" ".join(tool.description.split()), MAX_SHOWN),
                ", ".join(_badges(tool.annotations)),
            )
            for tool in shown
        ]
        silent = [owner for owner in catalogue.people if owner.state in ("unknown", "asking", "failed")][:10]
        calls = [
            f"Call {run.number}: {one_line(run.target, 120)} {one_line(run.text, 120)}: {_state(run)}"
            for run in self._catalog.runs.all
        ]
        hidden = len(catalogue.tools) - len(shown) + catalogue.left_out
        notes = [
            f"Not shown: {count_of(hidden, 'more tool')}; lab.tools() has all." if hidden else "",
            *(f"{owner.name}: {owner.state}{f', {owner.error}' if owner.error else ''}" for owner in silent),
            *calls,
        ]
        empty = "No participant lists a tool. lab.bridge(NAME, COMMAND) brings an MCP server, @lab.tool a function."
        title = f"Tools: {count_of(len(catalogue.tools), 'tool')}"
        columns = ("participant", "tool", "arguments", "description", "annotations")
        code = ("participant", "tool", "arguments")
        return picture(title, columns, rows, notes=notes, empty=empty, code=code)


def _page(said: str, rows: Sequence[_Row], start: int, pack: Callable[[_Row], dict[str, Any]]) -> ActResult:
    """A page of the rows that match a search."""
    shown = [pack(row) for row in rows[max(0, start) :][:PAGE]]
    return ActResult(said, {"total": len(rows), "start": start, "rows": shown})


def _badges(annotations: Mapping[str, Any]) -> list[str]:
    """The annotations of a tool as short labels; an absent annotation gives none."""
    labels = (
        ("readOnlyHint", True, "read-only"),
        ("readOnlyHint", False, "writes"),
        ("destructiveHint", True, "destructive"),
        ("idempotentHint", True, "idempotent"),
        ("openWorldHint", True, "open world"),
    )
    hints = [label for key, value, label in labels if annotations.get(key) is value]
    return [label for label in hints if not (label == "destructive" and "read-only" in hints)]


def _pack_catalogue(catalogue: ToolList) -> dict[str, Any]:
    people = [(owner.name, owner.state, owner.tools, owner.error) for owner in catalogue.people]
    return _pack_people(people) | {
        "version": catalogue.version,
        "total": len(catalogue.tools),
        "left_out": catalogue.left_out,
    }


def _pack_offers(listed: OfferList) -> dict[str, Any]:
    people = [(owner.name, owner.state, owner.offers, owner.error) for owner in listed.people]
    return _pack_people(people) | {
        "version": listed.version,
        "asked": listed.asked,
        "total": len(listed.offers),
    }


def _pack_people(people: list[tuple[str, str, int, str]]) -> dict[str, Any]:
    """The participants by name, state, number of entries and error: those whose lists are missing come first."""
    ordered = sorted(people, key=lambda person: person[1] in HAVE_ANSWERED)
    return {
        "ready": sum(count > 0 for _, _, count, _ in people),
        "people": [
            [name, visible(name), state, count, visible(error)]
            for name, state, count, error in ordered[:MAX_PEOPLE]
        ],
        "more_people": sum(state not in HAVE_ANSWERED for _, state, _, _ in ordered[MAX_PEOPLE:]),
    }


def _pack_check(checked: ToolCheck) -> dict[str, Any]:
    return {
        "faults": [
            {
                "path": list(fault.path),
                "shown": [visible(str(part)) for part in fault.path],
                "said": visible(fault.message),
            }
            for fault in checked.faults
        ],
        "notes": [visible(note) for note in checked.notes[:10]],
        "call": checked.may.call,
        "propose": checked.may.propose,
        "why": visible(checked.may.why),
        "preview": "\n".join(map(visible, checked.preview[:20_000].split("\n"))),
    }


def _state(run: ToolRun) -> str:
    """The state of a call as one line."""
    by = f" by {visible(run.by)}" if run.by else ""
    took = f" in {run.took:.2f} s" if run.took < 60 else f" in {run.took / 60:.1f} min"
    if run.waits:
        if run.kind == "mcp/request":
            return "running" if run.what == "tool" else "waiting for the answer"
        return f"approved{by}, waiting for the answer" if run.state == "fulfilled" else "waiting for approval"
    if run.state == "answered":
        return f"answered{took}{by}"
    if run.state in ("rejected", "withdrawn"):
        return f"{run.state}{by} after {took[4:]}"
    if run.state == "unknown":
        return f"sent; whether it took effect is not known (after {took[4:]})"
    if run.state == "running":
        return f"sent, and still without an answer after {took[4:]}"
    return f"failed after {took[4:]}"


def _pack_run(run: ToolRun) -> dict[str, Any]:
    return {
        "number": run.number,
        "id": run.id,
        "target": visible(run.target),
        "brief": one_line(run.text, 200),
        "proposed": run.kind == "mcp/proposal",
        "state": run.state,
        "waits": run.waits,
        "said": _state(run),
        "error": visible(run.error[:2000]),
        "began": run.began,
        "decided": run.decided,
        "seq": run.seq,
        "answer": run.answer_seq,
        "has_result": run.has_result,
        "what": run.what,
        "progress": list(run.progress) if run.waits and run.progress is not None else None,
    }
