"""The resources and prompts of the participants, beside their tools: listed on request, read and filled by a person.

An MCP server offers, besides tools, resources (`resources/list`), templates of resources (`resources/templates/list`)
and prompts (`prompts/list`). `OfferCatalog` requests these lists when a person opens them, of the participants that
answered the request for their tools. Where this participant may only propose, a person proposes each list; the answer
arrives after the approval. `ToolRuns` follows each read and each filled prompt as a call.

Only the loop's thread changes it; a value that other threads read is replaced, never changed. Bounds: 2000 offers,
2000 characters of an address, 20 pages of a list, 10 seconds for an answer.

Spec: §3.1, §3.2, §4.1; MCP 2025-06-18 (resources, prompts).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from mew_lab.errors import MewError, NoReply, ToolFailed
from mew_lab.protocol.describe import reword_refusal
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.group import run_all
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import METHOD_NOT_FOUND
from mew_lab.views.tools.runs import ToolRun, ToolRuns

__all__ = [
    "TABS",
    "Offer",
    "OfferCatalog",
    "OfferKind",
    "OfferList",
    "OfferOwner",
    "Tab",
    "expand_template",
    "find_offers",
]

Tab = Literal["resources", "prompts"]
OfferKind = Literal["resource", "template", "prompt"]
TABS: tuple[Tab, ...] = ("resources", "prompts")
# The methods that list a tab: what one entry is, the member with the entries, and the method.
_LISTS: Mapping[Tab, tuple[tuple[OfferKind, str, str], ...]] = {
    "resources": (
        ("resource", "resources", "resources/list"),
        ("template", "resourceTemplates", "resources/templates/list"),
    ),
    "prompts": (("prompt", "prompts", "prompts/list"),),
}
_METHODS: Mapping[OfferKind, str] = {
    "resource": "resources/read",
    "template": "resources/read",
    "prompt": "prompts/get",
}
MAX_OFFERS = 2000
MAX_ADDRESS = 2000  # characters
MAX_PAGES = 20
MAX_ARGUMENTS = 100
PATIENCE = 10.0  # seconds for one answer


class Offer(NamedTuple):
    """One resource, template or prompt. `address` is its URI, its URI template, or the name of the prompt; `schema` is a
    JSON Schema of its arguments, which are all texts."""

    what: OfferKind
    participant: str
    address: str
    name: str
    about: str
    mime: str
    size: int | None
    schema: Mapping[str, Any]

    @property
    def target(self) -> str:
        """Its name for a person: the participant and the address."""
        return f"{self.participant}/{self.address}"


class OfferOwner(NamedTuple):
    """A participant and its list: asking, ready, none, failed, propose (it may only be proposed) or forbidden."""

    name: str
    state: str
    offers: int = 0
    error: str = ""


class OfferList(NamedTuple):
    """The offers of one tab, by participant. `asked` is whether a person has opened it."""

    version: int = 0
    asked: bool = False
    offers: tuple[Offer, ...] = ()
    people: tuple[OfferOwner, ...] = ()


class OfferCatalog:
    """The resources and prompts that one participant may use; `me` reads and fills them."""

    def __init__(self, me: MEWParticipant, runs: ToolRuns, *, on_change: Callable[[], None]) -> None:
        self.me = me
        self.listed: Mapping[Tab, OfferList] = {tab: OfferList() for tab in TABS}
        self._runs = runs
        self._on_change = on_change
        self._found: dict[tuple[Tab, str], dict[OfferKind, tuple[Offer, ...]]] = {}
        self._states: dict[tuple[Tab, str], OfferOwner] = {}

    # --- any thread ---

    def offer(self, what: str, target: str) -> Offer:
        """That offer; raises a MewError when it is not known."""
        for tab in TABS:
            for offer in self.listed[tab].offers:
                if offer.what == what and offer.target == target:
                    return offer
        raise MewError(f"{one_line(target, 120)} is no longer known: its participant left or withdrew it.")

    def permission(self, participant: str, method: str, params: Mapping[str, Any]) -> tuple[bool, bool, str]:
        """Whether this participant may request, and may propose, a method; and the nearest capability. Spec: §4.1."""
        permit, payload = self.me.client.capabilities.permit, {"method": method, "params": dict(params)}
        request = permit("mcp/request", (participant,), {"jsonrpc": "2.0", "id": 1, **payload})
        proposal = permit("mcp/proposal", (participant,), payload)
        return request.allowed, proposal.allowed, "" if request.allowed else reword_refusal(request.nearest)

    def params(self, offer: Offer, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The params of the request that reads or fills an offer.

        Raises:
            MewError: the arguments do not fit.
        """
        texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
        if len(texts) < len(arguments):
            raise MewError(f"Cannot use {one_line(offer.target, 120)}: its arguments are texts.")
        if offer.what == "prompt":
            return {"name": offer.address, "arguments": texts}
        if offer.what == "template":
            return {"uri": texts["uri"] if "uri" in texts else expand_template(offer.address, texts)}
        return {"uri": offer.address}

    # --- on the loop ---

    async def ask(self, tab: Tab, names: Sequence[str]) -> str:
        """Requests the lists of a tab from these participants, where that is permitted; returns a sentence."""
        here = [name for name in names if name in self.me.client.participants]
        for key in [
            key for key in self._states if key[0] == tab and key[1] not in self.me.client.participants
        ]:
            self._states.pop(key)
            self._found.pop(key, None)
        await run_all(self._ask_one(tab, name) for name in here)
        listed = self._publish(tab)
        number, owners = len(listed.offers), sum(owner.offers > 0 for owner in listed.people)
        what = tab if number != 1 else tab[:-1]
        return f"{number} {what} of {owners} participant{'' if owners == 1 else 's'}"

    def propose_list(self, tab: Tab, participant: str) -> list[ToolRun]:
        """Proposes the lists of a tab of one participant; each arrives when a person approves it. Spec: §3.2."""
        self._runs.check_room(f"propose to list the {tab} of {one_line(participant, 80)}")
        made = []
        for what, member, method in _LISTS[tab]:
            call = self.me.correlations.call(
                (participant,),
                {"method": method, "params": {}},
                what=f"{participant}/{method}",
                timeout=None,
                kind="mcp/proposal",
            )

            def take(raw: Any, what: OfferKind = what, member: str = member) -> None:
                self._take(tab, participant, what, _entries(raw, member))
                self._publish(tab)

            target = f"{participant}/{method}"
            made.append(
                self._runs.follow(call, target=target, text="{}", what="list", method=method, then=take)
            )
        return made

    async def start(
        self, what: str, target: str, arguments: Mapping[str, Any], *, text: str, propose: bool
    ) -> ToolRun:
        """Reads a resource or fills a prompt, by a request or a proposal.

        Raises:
            MewError: the offer is not known, its arguments do not fit, or no permission allows it; nothing was sent.
        """
        action = f"{'propose to use' if propose else 'use'} {one_line(target, 120)}"
        self._runs.check_room(action)
        offer = self.offer(what, target)
        method, params = _METHODS[offer.what], self.params(offer, arguments)
        may_request, may_propose, nearest = self.permission(offer.participant, method, params)
        if not (may_propose if propose else may_request):
            raise MewError(f"Cannot {action}: {nearest or 'no permission allows it'}")
        call = self.me.correlations.call(
            (offer.participant,),
            {"method": method, "params": params},
            what=target,
            timeout=None,
            kind="mcp/proposal" if propose else "mcp/request",
        )
        return self._runs.follow(call, target=target, text=text, what=offer.what, method=method)

    # --- internal ---

    async def _ask_one(self, tab: Tab, participant: str) -> None:
        key = (tab, participant)
        mays = [self.permission(participant, method, {}) for _, _, method in _LISTS[tab]]
        if not all(may[0] for may in mays):
            state = "propose" if all(may[1] or may[0] for may in mays) else "forbidden"
            why = next(may[2] for may in mays if not may[0])
            self._states[key] = OfferOwner(participant, state, self._count(key), one_line(why, 300))
            return
        self._states[key] = OfferOwner(participant, "asking", self._count(key))
        self._publish(tab)
        error = ""
        for what, member, method in _LISTS[tab]:
            try:
                self._take(tab, participant, what, await self._pages(participant, method, member))
            except ToolFailed as fault:
                # A server without resources answers that it has no such method.
                if fault.code != METHOD_NOT_FOUND and "not found" not in str(fault).lower():
                    error = error or one_line(str(fault), 300)
                else:
                    self._take(tab, participant, what, [])
            except (NoReply, MewError) as fault:
                error = one_line(str(fault), 300)
                break
        count = self._count(key)
        state = "ready" if count else "failed" if error else "none"
        self._states[key] = OfferOwner(participant, state, count, error)

    async def _pages(self, participant: str, method: str, member: str) -> list[Mapping[str, Any]]:
        entries: list[Mapping[str, Any]] = []
        params: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            call = self.me.correlations.call(
                (participant,),
                {"method": method, "params": params},
                what=f"{participant}/{method}",
                timeout=PATIENCE,
                kind="mcp/request",
            )
            page = await call.outcome()
            entries += _entries(page, member)
            cursor = page.get("nextCursor") if isinstance(page, Mapping) else None
            if not isinstance(cursor, str) or not cursor or len(entries) >= MAX_OFFERS:
                break
            params = {"cursor": cursor}
        return entries

    def _take(
        self, tab: Tab, participant: str, what: OfferKind, entries: Sequence[Mapping[str, Any]]
    ) -> None:
        offers = [_offer(what, participant, entry) for entry in entries[:MAX_OFFERS]]
        key = (tab, participant)
        held = self._found.setdefault(key, {})
        held[what] = tuple(offer for offer in offers if offer is not None)
        self._states[key] = OfferOwner(participant, "ready" if self._count(key) else "none", self._count(key))

    def _count(self, key: tuple[Tab, str]) -> int:
        return sum(map(len, self._found.get(key, {}).values()))

    def _publish(self, tab: Tab) -> OfferList:
        owners = tuple(sorted(owner for (of, _), owner in self._states.items() if of == tab))
        found = sorted((key for key in self._found if key[0] == tab), key=lambda key: key[1])
        offers = tuple(offer for key in found for group in self._found[key].values() for offer in group)[
            :MAX_OFFERS
        ]
        listed = OfferList(self.listed[tab].version + 1, True, offers, owners)
        self.listed = {**self.listed, tab: listed}
        self._on_change()
        return listed


def _entries(page: Any, member: str) -> list[Mapping[str, Any]]:
    entries = page.get(member) if isinstance(page, Mapping) else None
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _offer(what: OfferKind, participant: str, entry: Mapping[str, Any]) -> Offer | None:
    """An entry of a list as an offer; None where it has no address that could be requested."""
    address = entry.get({"resource": "uri", "template": "uriTemplate", "prompt": "name"}[what])
    if not isinstance(address, str) or not 0 < len(address) <= MAX_ADDRESS:
        return None
    name = entry.get("title") or entry.get("name")
    size = entry.get("size")
    return Offer(
        what=what,
        participant=participant,
        address=address,
        name=name if isinstance(name, str) and name else address,
        about=_text(entry.get("description")),
        mime=_text(entry.get("mimeType"))[:100],
        size=size if type(size) is int and 0 <= size < 2**53 else None,
        schema=_schema(what, address, entry.get("arguments")),
    )


def _text(value: Any) -> str:
    return value[:5000] if isinstance(value, str) else ""


_VARIABLE = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"\+?[A-Za-z0-9_.]+")


def _schema(what: OfferKind, address: str, arguments: Any) -> dict[str, Any]:
    """The JSON Schema of the arguments of an offer."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    if what == "template":
        variables = _VARIABLE.findall(address)
        if not all(_NAME.fullmatch(variable) for variable in variables):
            # A form of RFC 6570 that is not expanded here: a person writes the whole address.
            address_of = {"type": "string", "description": f"an address of the form {address}"}
            return {"type": "object", "properties": {"uri": address_of}, "required": ["uri"]}
        names = [variable.removeprefix("+") for variable in variables]
        properties, required = {name: {"type": "string"} for name in names}, [*dict.fromkeys(names)]
    elif what == "prompt" and isinstance(arguments, list):
        for argument in arguments[:MAX_ARGUMENTS]:
            name = argument.get("name") if isinstance(argument, Mapping) else None
            if isinstance(name, str) and name:
                properties[name] = {"type": "string", "description": _text(argument.get("description"))}
                if argument.get("required") is True and name not in required:
                    required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def expand_template(template: str, values: Mapping[str, str]) -> str:
    """A URI template with its variables filled in, percent-encoded; `{+name}` keeps reserved characters.

    Raises:
        MewError: a variable has no value.

    Spec: RFC 6570, levels 1 and 2 without fragments.
    """

    def fill(match: re.Match[str]) -> str:
        name = match[1].removeprefix("+")
        if name not in values:
            raise MewError(f"Cannot fill in {one_line(template, 120)}: “{one_line(name, 60)}” is required")
        return quote(values[name], safe="-._~" + (":/?#[]@!$&'()*+,;=" if match[1].startswith("+") else ""))

    return _VARIABLE.sub(fill, template)


def find_offers(offers: Sequence[Offer], words: Sequence[str]) -> list[Offer]:
    """The offers in which each word occurs: in the name, the address, the participant or the description."""
    return [
        offer
        for offer in offers
        if all(
            any(
                word in part.lower()
                for part in (offer.name, offer.address, offer.participant, offer.about, offer.mime)
            )
            for word in words
        )
    ]
