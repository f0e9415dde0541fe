"""Which behaviour of the upper rooms stands behind which rows, and how is it taken away?  Data of `removal_plugin.py`.

`removals.py` asks this of the gateway. The rows here bind the participant, the agent, the SDK or the UI. Most of them
say what goes over the wire, so most removals work there, at `MEWClient`, whatever code above it does the work: a
kind is not sent, a member is left out of it, a kind is not heard. The others name a class and method, or a function
of a module, by its path, one line each: code that moves changes that path and nothing else.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from mew_lab.agent.attention import Attention
from mew_lab.agent.context_window import Freed
from mew_lab.agent.prompts import DEFAULT
from mew_lab.ledger.entry import Entry
from mew_lab.protocol import permit
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.json_schema import Validation
from mew_lab.protocol.payloads import MODELS
from mew_lab.protocol.payloads.mcp import REASON_CODES
from mew_lab.protocol.payloads.payload import Payload
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.signature import Bound

Remove = Callable[[pytest.MonkeyPatch], None]


class Removal(NamedTuple):
    """`rows` are shown by tests that must go red once `remove` has taken a behaviour away; `what` names it."""

    rows: str
    what: str
    remove: Remove


# --- what is not said, and not heard ----------------------------------------------------------------------------


def _says(envelope: Envelope | Mapping[str, Any], kind: str, payload: Mapping[str, Any]) -> bool:
    members = envelope.members if isinstance(envelope, Envelope) else envelope
    said = members.get("payload")
    said = said if isinstance(said, Mapping) else {}
    return kind in ("*", members.get("kind")) and all(
        said.get(key) == value for key, value in payload.items()
    )


def mute(kind: str, **payload: Any) -> Remove:
    """Nobody sends this kind; where `payload` is given, nobody sends it with these members."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        send, post = MEWClient.send, MEWClient.post

        async def not_sent(self: MEWClient, draft: Any) -> Envelope:
            return self.complete(draft) if _says(draft, kind, payload) else await send(self, draft)

        def not_posted(self: MEWClient, draft: Any) -> Envelope:
            return self.complete(draft) if _says(draft, kind, payload) else post(self, draft)

        patch.setattr(MEWClient, "send", not_sent)
        patch.setattr(MEWClient, "post", not_posted)

    return remove


Which = Callable[[Envelope], bool]
Change = Callable[[dict[str, Any]], None]


def _told(handler: Callable[[Envelope], Any], envelope: Envelope, which: Which, change: Change | None) -> Any:
    if not which(envelope):
        return handler(envelope)
    if change is None:
        return ()
    members = json.loads(envelope.raw) if envelope.raw else dict(envelope.members)
    change(members)
    return handler(Envelope.from_members(members, raw=json.dumps(members)))


def heard(which: Which, change: Change | None = None) -> Remove:
    """Such messages are heard otherwise: `change` is given the members of each. Without it they are not heard."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        on_message = MEWClient.on_message

        def filtered(self: MEWClient, handler: Callable[[Envelope], Any]) -> Callable[[], None]:
            return on_message(self, lambda one: _told(handler, one, which, change))

        patch.setattr(MEWClient, "on_message", filtered)

    return remove


def deaf(kind: str, **payload: Any) -> Remove:
    """Nobody hears this kind; `payload` as for `mute`."""
    return heard(lambda one: _says(one, kind, payload))


def observed(path: str, which: Which, change: Change | None = None) -> Remove:
    """The same for one part that has an `observe(envelope)`."""

    def make(before: Any) -> Any:
        return lambda self, envelope: _told(lambda one: before(self, one), envelope, which, change)

    return replaced(f"{path}.observe", make)


def noted(which: Which, change: Change | None = None) -> Remove:
    """The same for the ledger of calls, which is told of entries."""

    def make(before: Any) -> Any:
        def observe(self: Any, entry: Entry) -> Any:
            if entry.refused or entry.malformed:
                return before(self, entry)

            def told(envelope: Envelope) -> Any:
                return before(self, Entry.of(envelope, entry.seq, malformed=False))

            return _told(told, entry.envelope, which, change)

        return observe

    return replaced("mew_lab.ledger.calls:CallLedger.observe", make)


def unnoted(kind: str) -> Remove:
    """The ledger of calls does not hear of this kind."""
    return noted(lambda envelope: envelope.kind == kind)


def blind(path: str, kind: str) -> Remove:
    """One part does not hear this kind."""
    return observed(path, lambda one: one.kind == kind)


def written(kind: str, change: Callable[[dict[str, Any]], None], **payload: Any) -> Remove:
    """This kind is sent otherwise: `change` is given the members of each such message."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        complete = MEWClient.complete

        def completed(self: MEWClient, draft: Any) -> Envelope:
            envelope = complete(self, draft)
            if not _says(envelope, kind, payload):
                return envelope
            members = json.loads(envelope.raw)
            change(members)
            return Envelope.of(members)

        patch.setattr(MEWClient, "complete", completed)

    return remove


def lacking(kind: str, *path: str, **payload: Any) -> Remove:
    """This kind is sent without one member; `path` leads to it."""

    def change(members: dict[str, Any]) -> None:
        for key in path[:-1]:
            members = members.get(key, {})
        members.pop(path[-1], None)

    return written(kind, change, **payload)


def saying(kind: str, *path: str, value: Any, **payload: Any) -> Remove:
    """This kind is sent with another value at `path`."""

    def change(members: dict[str, Any]) -> None:
        for key in path[:-1]:
            members = members.setdefault(key, {})
        members[path[-1]] = value

    return written(kind, change, **payload)


# --- what is not done -------------------------------------------------------------------------------------------


def _place(path: str) -> tuple[Any, str]:
    """`module:Class.method` or `module:function`: where it stands, and under which name."""
    module, _, names = path.partition(":")
    place: Any = importlib.import_module(module)
    *outer, name = names.split(".")
    for one in outer:
        place = getattr(place, one)
    return place, name


def replaced(path: str, make: Callable[[Any], Any]) -> Remove:
    """What stands at `path`, everywhere where it was imported, becomes what `make` makes of it."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        place, name = _place(path)
        before = inspect.getattr_static(place, name)
        now = make(before)
        patch.setattr(place, name, now)
        for module in tuple(sys.modules.values()) if inspect.ismodule(place) else ():
            if module.__name__.startswith(("mew_lab", "test", "conftest")) and (
                vars(module).get(name) is before
            ):
                patch.setattr(module, name, now)

    return remove


def gone(path: str, gives: Any = None) -> Remove:
    """A function or method that does nothing, and gives `gives`."""

    def make(before: Any) -> Any:
        if isinstance(before, property):
            return property(lambda self: gives)
        if isinstance(before, (staticmethod, classmethod)):
            return staticmethod(lambda *about, **how: gives)
        if inspect.iscoroutinefunction(before):

            async def nothing(*about: Any, **how: Any) -> Any:
                return gives

            return nothing
        return lambda *about, **how: gives

    return replaced(path, make)


def both(*several: Remove) -> Remove:
    """Several at once, where one stands in for the other."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        for one in several:
            one(patch)

    return remove


def value(path: str, now: Any) -> Remove:
    """Another constant."""
    return replaced(path, lambda before: now)


def given(path: str, **changed: Any) -> Remove:
    """A function or method that is called with other arguments than it is given."""

    def make(before: Any) -> Any:
        if inspect.iscoroutinefunction(before):

            async def called(*about: Any, **how: Any) -> Any:
                return await before(*about, **{**how, **changed})

            return called
        return lambda *about, **how: before(*about, **{**how, **changed})

    return replaced(path, make)


def then(path: str, change: Callable[[Any], Any]) -> Remove:
    """A function or method whose result is another."""

    def make(before: Any) -> Any:
        if inspect.iscoroutinefunction(before):

            async def called(*about: Any, **how: Any) -> Any:
                return change(await before(*about, **how))

            return called
        return lambda *about, **how: change(before(*about, **how))

    return replaced(path, make)


SDK = "mew_lab.sdk"
CLIENT, ME = f"{SDK}.client:MEWClient", f"{SDK}.participant:MEWParticipant"
LEDGER, INDEX = "mew_lab.ledger.calls:CallLedger", "mew_lab.ledger.calls:CallIndex"
CHATS, TELEMETRY = f"{SDK}.chats:Chats", f"{SDK}.telemetry:Telemetry"
CONTROLS, DISCOVERY, ASK = (
    f"{SDK}.controls:Controls",
    f"{SDK}.discovery:Discovery",
    f"{SDK}.correlations:Correlations.call",
)
AGENT = "mew_lab.agent"
TOOLS = "mew_lab.tools_agent"

off: Callable[[], None] = lambda: None  # what a handler's registration gives  # noqa: E731


def insisting(path: str) -> Remove:
    """What is not known is no longer passed over."""

    def make(before: Any) -> Any:
        def found(self: Any, id: str) -> Any:
            known = before(self, id)
            if known is None:
                raise LookupError(id)
            return known

        return found

    return replaced(path, make)


def as_first(members: dict[str, Any]) -> None:
    """Of several ids in correlation_id only the first is read."""
    members["correlation_id"] = members["correlation_id"][:1]


def set_member(key: str, now: Any) -> Change:
    return lambda members: members.__setitem__(key, now)


def unchecked_payload(before: Any) -> Any:
    """Whatever a message holds passes for its payload."""

    def unchecked(envelope: Envelope) -> Any:
        known = MODELS.get(envelope.kind, Payload)
        return before(envelope)._replace(payload=known.model_construct(**envelope.payload), fault="")

    return unchecked


def proposed_withdraws(before: Any) -> Any:
    """Whoever withdraws a proposal counts as its proposer."""

    def observe(self: Any, entry: Entry) -> Any:
        for id in entry.correlation_id if entry.kind == "mcp/withdraw" else ():
            known = self.proposals.get(id)
            if known is not None:
                members = {**entry.members, "from": known.proposer}
                entry = Entry.of(Envelope.from_members(members, raw=json.dumps(members)), entry.seq)
        return before(self, entry)

    return observe


def remembered(before: Any) -> Any:
    """Everything is remembered as chat, what belongs to a context and welcomes too."""

    def hear(self: Any, envelope: Envelope) -> None:
        text = next(
            (str(envelope.payload[key]) for key in ("text", "message") if key in envelope.payload), ""
        )
        members = {"id": envelope.id, "from": envelope.sender, "kind": "chat"}
        members["payload"] = {"text": text or json.dumps(envelope.payload)}  # type: ignore[assignment]
        before(self, Envelope.from_members(members, raw=json.dumps(members)))

    return hear


def habits(**changed: Any) -> Remove:
    """Chat is judged by other habits."""

    def make(before: Any) -> Any:
        return lambda message, *, habits, **how: before(message, habits=habits._replace(**changed), **how)

    return replaced(f"{AGENT}.attention:judge", make)


def not_awaited(before: Any) -> Any:
    """A coroutine function that is begun and not waited for."""
    tasks = []

    async def begun(*about: Any, **how: Any) -> None:
        async def later() -> None:
            await asyncio.sleep(0.05)
            await before(*about, **how)

        tasks.append(asyncio.ensure_future(later()))

    return begun


async def yes(*about: Any, **how: Any) -> bool:
    return True


def failing(before: Any) -> Any:
    """What a tool raises is nobody's answer."""

    async def called(self: Any, params: Mapping[str, Any]) -> Any:
        result = await before(self, params)
        return {**result, "isError": False}

    return called


def unchecked(arguments: Mapping[str, Any]) -> Bound:
    return Bound((), dict(arguments))


def as_markdown(before: Any) -> Any:
    """Chat without a format is shown as Markdown."""

    def take(self: Any, heard: Any) -> Any:
        if heard.kind == "chat" and "format" not in heard.payload:
            heard = copy.copy(heard)
            heard.payload = {**heard.payload, "format": "markdown"}
        return before(self, heard)

    return take


def wanted(before: Any) -> Any:
    """Discovery is on from the beginning."""

    def made(self: Any, *about: Any, **how: Any) -> None:
        before(self, *about, **how)
        self._client.on_welcome(lambda _: self.enable_auto_discovery())

    return made


def forgets(members: dict[str, Any]) -> None:
    """It is an order to forget one message."""
    members.update(kind="participant/forget", payload={"direction": "oldest", "entries": 1})


def optional(before: Any) -> Any:
    """Nothing of a schema is required."""
    return lambda schema: before(
        {key: schema[key] for key in schema if key != "required"} if isinstance(schema, Mapping) else schema
    )


def strictly(before: Any) -> Any:
    """What is no message ends the reading."""

    def take(self: Any, message: str | bytes) -> None:
        if isinstance(message, str) and not message.startswith("#"):
            Envelope.from_members(json.loads(message), raw=message)
        before(self, message)

    return take


REMOVALS: tuple[Removal, ...] = (
    # messages, and what they relate to
    Removal("P-3-3", "ids are made", lacking("*", "id")),
    Removal("P-3-5", "from is the sender's", saying("*", "from", value="somebody")),
    Removal("S-L1-3", "ts is added", lacking("*", "ts")),
    Removal("S1-L3-2", "the version is 0.4", value("mew_lab.protocol.envelope:PROTOCOL", "mew/v0.3")),
    Removal(
        "P-3-10 P-3.1.2-1 P-8.2-7", "a response names its request", lacking("mcp/response", "correlation_id")
    ),
    Removal(
        "P-3-11 P-3.2.1-3 S-L2-14 P-8.2-9 S-L3-20",
        "a fulfilment names its proposal",
        lacking("mcp/request", "correlation_id"),
    ),
    Removal("P-3-12 P-3.3.1-2", "a withdraw names its proposal", lacking("mcp/withdraw", "correlation_id")),
    Removal("P-3-13 P-3.3.2-2", "a reject names its proposal", lacking("mcp/reject", "correlation_id")),
    Removal(
        "P-3-15 P-3.4.1-1", "an acknowledgement names its chat", lacking("chat/acknowledge", "correlation_id")
    ),
    Removal(
        "P-3-16",
        "several related messages are read",
        noted(lambda one: len(one.correlation_id) > 1, as_first),
    ),
    Removal("P-3-18", "an answer carries the context", lacking("mcp/response", "context")),
    Removal(
        "P-3-20 P-3.5.6-3",
        "a context does not hide a message",
        heard(lambda one: one.context is not None and one.kind.startswith("mcp/")),
    ),
    Removal("P-2.2-4 P-4.3-6", "a book of proposals bears what it does not know", insisting(f"{INDEX}.get")),
    # MCP
    Removal(
        "P-2.1-4",
        "a result goes out as it is",
        written(
            "mcp/response", lambda members: members["payload"].setdefault("result", {}).update(added=True)
        ),
    ),
    Removal(
        "P-3.1-1",
        "the method stands in the payload",
        saying("mcp/request", "kind", value="mcp/request/tools"),
    ),
    Removal("P-3.1-2", "notifications are sent", gone(f"{ME}.notify")),
    Removal("P-3.1.1-1", "a request is JSON-RPC 2.0", lacking("mcp/request", "payload", "jsonrpc")),
    Removal(
        "P-3.1.2-2",
        "a response has the request's JSON-RPC id",
        saying("mcp/response", "payload", "id", value=-1),
    ),
    Removal("P-3.1.2-4", "a response goes to the requester", lacking("mcp/response", "to")),
    Removal("P-8.2-6 S-L2-1", "MCP requests are answered", gone(f"{SDK}.tools:ToolBox.answer", {})),
    # proposals
    Removal("P-3.2-1 S-L2-11 S-L3-19", "who may not request proposes", given(ASK, kind="mcp/request")),
    Removal("S-L2-10 S-L3-19 T-7", "who may request does", given(ASK, kind="mcp/proposal")),
    Removal("P-3.2-2", "a proposal has the request's params", lacking("mcp/proposal", "payload", "params")),
    Removal("S-L2-13", "a proposal names its target", lacking("mcp/proposal", "to")),
    Removal(
        "P-3.2-3",
        "a proposal is not executed",
        heard(lambda one: one.kind == "mcp/proposal", set_member("kind", "mcp/request")),
    ),
    Removal("P-3.2.1-1", "a proposal is fulfilled by a request", gone(f"{ME}.approve")),
    Removal(
        "P-3.2.1-2",
        "a proposal may correlate",
        noted(lambda one: one.kind == "mcp/proposal" and bool(one.correlation_id)),
    ),
    Removal(
        "P-3.2.1-5 P-3.2.1-7 S-L2-17 C-3",
        "the response to a fulfilment is followed",
        unnoted("mcp/response"),
    ),
    Removal("S-L2-15", "a fulfilment has the proposal's addressees", lacking("mcp/request", "to")),
    Removal(
        "S-L2-16",
        "a fulfilment has the proposal's payload",
        saying("mcp/request", "payload", "params", value={"name": "other"}),
    ),
    Removal(
        "P-3.3.1-1 S-L2-22",
        "a withdraw by others changes nothing",
        replaced(f"{LEDGER}.observe", proposed_withdraws),
    ),
    Removal(
        "S-L2-20 S-L2-21",
        "only the proposer withdraws",
        replaced(
            f"{SDK}.decisions:draft_withdrawal",
            lambda before: (
                lambda book, id, *, me, reason: before(book, id, me=book.get(id).proposer, reason=reason)
            ),
        ),
    ),
    Removal(
        "P-3.3.1-3",
        "a withdraw has a standard reason",
        saying("mcp/withdraw", "payload", "reason", value="because"),
    ),
    Removal(
        "P-3.3.2-3",
        "a reject has the reason given",
        saying("mcp/reject", "payload", "reason", value="because"),
    ),
    Removal("P-3.3.1-4 P-10.2-1", "a withdraw is taken note of", unnoted("mcp/withdraw")),
    Removal(
        "P-3.3.2-5 P-3.3.3-5 P-3.3.3-7 S-L2-24", "the first rejection ends a call", given(ASK, resilient=True)
    ),
    Removal("P-3.3.2-6", "a resilient call goes on", given(ASK, resilient=False)),
    Removal(
        "P-3.3.3-1 P-3.3.3-2",
        "any reason is taken",
        noted(lambda one: one.kind == "mcp/reject" and one.payload.get("reason") not in REASON_CODES),
    ),
    Removal("S-L2-23", "rejections are taken note of", unnoted("mcp/reject")),
    Removal(
        "P-3.3.3-3 P-3.3.3-6 P-3.5.1-6 S-L3-21",
        "an explanation names the reject",
        lacking("chat", "correlation_id"),
    ),
    Removal("P-3.3.3-4", "the reject is sent", mute("mcp/reject")),
    Removal("S-L2-18", "a call has a limit", given(ASK, timeout=None)),
    Removal("S-L2-26", "who gives up withdraws", mute("mcp/withdraw")),
    Removal("S-L2-19 C-22", "the first fulfilment wins", gone("mew_lab.ledger.calls:_too_late", "")),
    Removal(
        "S-L2-25",
        "the words of a rejection",
        replaced("mew_lab.errors:ProposalRejected.__str__", lambda before: lambda self: "no"),
    ),
    Removal("P-8.2-8", "proposals are recognised", unnoted("mcp/proposal")),
    Removal("P-2.1-3 P-9.4-2", "what humans decide is told", gone(f"{ME}.on_change", off)),
    Removal("P-9.4-1", "what humans say is told", gone(f"{ME}.on_chat", off)),
    # chat
    Removal("P-3.4-1", "chat has a text", lacking("chat", "payload", "text")),
    Removal("P-3.4-2", "chat may have a format", lacking("chat", "payload", "format")),
    Removal(
        "P-3.4-3", "no format means plain", replaced("mew_lab.views.chat.model:ChatModel.take", as_markdown)
    ),
    Removal("P-3.4-4 S-L3-21", "chat may be addressed", lacking("chat", "to")),
    Removal("P-3.4-5", "chat has nothing of MCP", saying("chat", "payload", "jsonrpc", value="2.0")),
    Removal("P-3.4.1-2", "an acknowledgement has a status", lacking("chat/acknowledge", "payload", "status")),
    Removal("P-3.4.1-4", "chats that wait are a queue", gone("mew_lab.ledger.chats:ChatLedger._on_chat", ())),
    Removal("P-3.4.1-5", "the queue is emptied by acknowledgements", gone(f"{CHATS}.acknowledge_all", [])),
    Removal("P-3.4.2-1", "a cancel names its chat", lacking("chat/cancel", "correlation_id")),
    Removal("P-3.4.2-2", "a cancel says why", lacking("chat/cancel", "payload", "reason")),
    Removal("P-3.4.2-3", "the queue is emptied by cancels", gone(f"{CHATS}.cancel_all", [])),
    Removal("S-L2-33", "chats are acknowledged", mute("chat/acknowledge")),
    # reasoning
    Removal("P-3.5.1-1 S-L3-16", "a start names what asked", lacking("reasoning/start", "correlation_id")),
    Removal(
        "P-3.5.1-2 P-3.5.3-1 S-L3-18",
        "a thought has the start's id as context",
        lacking("reasoning/thought", "context"),
    ),
    Removal(
        "P-3.5.1-3",
        "thoughts may be absent",
        replaced(
            f"{SDK}.trace:Trace.conclude",
            lambda before: lambda self, message: (self.thought(message), before(self, message))[1],
        ),
    ),
    Removal("P-3.5.1-4", "chat may carry the context", lacking("chat", "context")),
    Removal(
        "P-3.5.1-5",
        "a conclusion may be absent",
        replaced(
            f"{SDK}.trace:Trace.cancel", lambda before: lambda self, reason, **how: self.conclude(reason)
        ),
    ),
    Removal("P-3.5.1-7", "reasoning begins without a question", mute("reasoning/start")),
    Removal("P-3.5.2-1", "a start has a message", lacking("reasoning/start", "payload", "message")),
    Removal(
        "P-3.5.4-1", "a conclusion has the start's id as context", lacking("reasoning/conclusion", "context")
    ),
    Removal("P-3.5.5-1", "a cancel has the start's id as context", lacking("reasoning/cancel", "context")),
    Removal("P-3.5.5-2", "a cancel may name what asked", lacking("reasoning/cancel", "correlation_id")),
    Removal("P-3.5.5-3", "a cancel says why", lacking("reasoning/cancel", "payload", "reason")),
    Removal("P-3.5.5-4 S-L3-10", "a cancel is heard", deaf("reasoning/cancel")),
    Removal("P-3.5.5-5", "a person cancels", gone("mew_lab.views.reasoning.model:ReasoningModel.cancel", "")),
    Removal(
        "P-3-19 P-3.5.6-2 P-3.8.1-9",
        "others' contexts and welcomes are not remembered",
        replaced(f"{AGENT}.context_window:Memory.observe", remembered),
    ),
    # grants
    Removal("P-3.6.1-2", "a grant has a reason", lacking("capability/grant", "payload", "reason")),
    Removal(
        "P-3.6.1-10",
        "a grant is acknowledged once it is held",
        then(f"{SDK}.rights:_holds", lambda held: True),
    ),
    Removal(
        "P-3.6.2-4", "a revoke names the recipient", lacking("capability/revoke", "payload", "recipient")
    ),
    Removal("P-3.6.3-1", "a grant is acknowledged", mute("capability/grant-ack")),
    Removal("P-3.6.5-1", "an invitation names whom", lacking("space/invite", "payload", "participant_id")),
    # controls
    Removal("P-3.9-1 C-24", "a participant pauses another", mute("participant/pause")),
    Removal("P-3.9.1-1 S-L2-35", "while paused nothing goes out", gone(f"{CLIENT}.add_guard", off)),
    Removal(
        "P-3.9.1-2", "a pause may have a limit", lacking("participant/pause", "payload", "timeout_seconds")
    ),
    Removal("P-3.9.2-1", "a resume names the pause", lacking("participant/resume", "correlation_id")),
    Removal("P-3.9.2-2 S-L2-35", "a pause ends by itself", gone(f"{CONTROLS}._end_by_time")),
    Removal("P-3.9.2-3", "who resumes by itself says so", mute("participant/resume", reason="timeout")),
    Removal("P-3.9.3-2", "fields limit a status", lacking("participant/request-status", "payload", "fields")),
    Removal("P-3.9.3-3", "a question for the status is answered", gone(f"{TELEMETRY}._answer")),
    Removal(
        "P-3.9.4-1 P-3.9.4-7 S-L2-41",
        "a status is sent near the limit",
        mute("participant/status", status="near_limit"),
    ),
    Removal("P-3.9.4-2", "a status has max_tokens", lacking("participant/status", "payload", "max_tokens")),
    Removal(
        "P-3.9.4-3 S-L2-40",
        "a status has messages_in_context",
        then(
            f"{TELEMETRY}.build_status_payload",
            lambda payload: {key: payload[key] for key in payload if key != "messages_in_context"},
        ),
    ),
    Removal("P-3.9.4-4", "a status may have more metrics", gone(f"{TELEMETRY}.add_metric", off)),
    Removal("P-3.9.4-5", "a status goes to everybody", saying("participant/status", "to", value=["nobody"])),
    Removal("P-3.9.4-8", "a status names the question", lacking("participant/status", "correlation_id")),
    Removal("P-3.9.5-1", "forget says from which end", lacking("participant/forget", "payload", "direction")),
    Removal("P-3.9.5-2", "forget may say how much", lacking("participant/forget", "payload", "entries")),
    Removal("P-3.9.5-3", "a status follows a forget", mute("participant/status", status="forgotten")),
    Removal(
        "P-3.9.5-4 S-L3-12",
        "an agent makes room",
        gone(f"{AGENT}.context_window:ContextWindow.ensure_context_headroom"),
    ),
    Removal(
        "P-3.9.5-5 S-L2-42 S-L3-14 P-3.9.6-4",
        "a status follows a compaction",
        mute("participant/status", status="compacted"),
    ),
    Removal("P-3.9.6-1", "compact may have a reason", lacking("participant/compact", "payload", "reason")),
    Removal(
        "P-3.9.6-2", "compact may have a target", lacking("participant/compact", "payload", "target_tokens")
    ),
    Removal("P-3.9.6-3", "a compaction is done", gone(f"{CONTROLS}.on_compact", off)),
    Removal("P-3.9.6-4", "a status announces a compaction", mute("participant/status", status="compacting")),
    Removal("P-3.9.6-5", "nothing to compact is said", mute("participant/compact-done", skipped=True)),
    Removal(
        "P-3.9.7-1", "compact-done names the compact", lacking("participant/compact-done", "correlation_id")
    ),
    Removal(
        "P-3.9.7-2",
        "compact-done may say what it freed",
        lacking("participant/compact-done", "payload", "freed_tokens"),
    ),
    Removal(
        "P-3.9.7-3", "what was skipped is said", lacking("participant/compact-done", "payload", "skipped")
    ),
    Removal("P-3.9.7-4", "and why", lacking("participant/compact-done", "payload", "reason")),
    Removal("P-3.9.7-5", "compact-done is sent", mute("participant/compact-done")),
    Removal(
        "P-3.9.8-3",
        "a clear may lack its payload",
        heard(lambda one: one.kind == "participant/clear" and not one.payload),
    ),
    Removal("P-3.9.8-4", "a status follows a clear", mute("participant/status", status="cleared")),
    Removal("P-3.9.9-1", "a restart may have hints", saying("participant/restart", "payload", value={})),
    Removal(
        "P-3.9.9-2", "a restart ends what is open", gone(f"{SDK}.correlations:Correlations.withdraw_all")
    ),
    Removal(
        "P-3.9.10-1", "a shutdown may have a context", saying("participant/shutdown", "payload", value={})
    ),
    Removal("P-3.9.10-2 C-6", "a shutdown is acknowledged", mute("chat/acknowledge", status="shut_down")),
    Removal("P-3.9.10-4", "a shutdown is obeyed", gone(f"{CONTROLS}._shut_down")),
    Removal("S-L2-34", "chat counts", gone(f"{TELEMETRY}._count_chat")),
    Removal("S-L2-36", "a status follows a resume", mute("participant/status", status="active")),
    Removal("S-L2-37", "a report waits for the hook", replaced(f"{CONTROLS}._run", not_awaited)),
    Removal("S-L2-38", "the status of others is asked for", gone(f"{TELEMETRY}.request_participant_status")),
    Removal("S-L2-39 S-L2-42", "usage is counted", gone(f"{TELEMETRY}.record_context_usage")),
    # streams
    Removal("P-3.10.1-1", "a stream has a direction", lacking("stream/request", "payload", "direction")),
    Removal(
        "P-3.10.1-2", "a stream may have a size", lacking("stream/request", "payload", "expected_size_bytes")
    ),
    Removal(
        "P-3.10.1-3 P4-3.10.1-1",
        "nothing more is needed",
        saying("stream/request", "payload", "metadata", value={}),
    ),
    Removal("P-3.10.1-10", "a stream may name what it is for", lacking("stream/request", "correlation_id")),
    Removal("P-3.10.1-12 S-L3-7", "reasoning has a stream", mute("stream/request")),
    Removal(
        "P-3.10.1-13",
        "a stream may have a content type",
        lacking("stream/request", "payload", "content_type"),
    ),
    Removal("P-3.10.3-1 S-L1-10", "frames are sent", gone(f"{CLIENT}.send_stream_data")),
    Removal(
        "P-3.10.8-2",
        "where no writer is named the owner writes",
        then(
            "mew_lab.ledger.streams:described_streams",
            lambda streams: streams and [replace(one, writers=()) for one in streams],
        ),
    ),
    Removal("S-L1-8 S-L1-9", "frames are heard", gone(f"{CLIENT}.on_stream_data", off)),
    Removal("S-L1-11 S-L2-43", "stream/open is heard", deaf("stream/open")),
    Removal(
        "S-L2-44",
        "a closed stream is no longer known",
        blind("mew_lab.ledger.streams:StreamLedger", "stream/close"),
    ),
    Removal("S-L3-8", "thoughts go to the stream", gone(f"{SDK}.stream:Stream.write_json")),
    Removal("S-L3-11", "the stream is closed", gone(f"{SDK}.trace:Trace.close")),
    # what is not taken, and not sent
    Removal(
        "P-4.1-2",
        "nobody speaks as another",
        replaced(
            f"{CLIENT}.complete",
            lambda before: (
                lambda self, draft: before(
                    self, {**(draft.members if isinstance(draft, Envelope) else draft), "from": self.id}
                )
            ),
        ),
    ),
    Removal("P-4.1-7", "reserved kinds are not sent", gone("mew_lab.protocol.kinds:is_reserved", False)),
    Removal(
        "P-4.3-1 P-4.3-2 P-4.3-3 P-7.2-2 P-7.3-3 P-8.2-1 P-8.2-2 P-8.2-3 P-8.2-4",
        "what is malformed is dropped",
        replaced("mew_lab.protocol.intake:check_payload", unchecked_payload),
    ),
    Removal("P-4.3-4 P-7.2-3 P-8.2-5", "who misbehaves is counted", gone(f"{ME}.misbehaviour", Counter())),
    Removal("P-5.2-7", "an id of one's own is asked for", given(f"{CLIENT}.__init__", participant_id=None)),
    Removal(
        "P-5.2-8",
        "the welcome tells what one may",
        then("mew_lab.protocol.permit:read_capabilities", lambda both: (permit.CapabilitySet([]), [])),
    ),
    Removal("P-8.2-10", "the welcome is read", gone(f"{SDK}.client:read_welcome")),
    Removal("P-8.2-11", "presence is read", gone("mew_lab.ledger.members:MemberLedger._on_presence", ())),
    Removal(
        "P-8.2-12 S-SEC-3 S-L2-12",
        "what one may not is not sent",
        gone("mew_lab.protocol.violations:require"),
    ),
    Removal("S-L2-4 S-L2-7 S-L2-9", "can_send judges", gone(f"{ME}.can_send", True)),
    # the client
    Removal(
        "S-L1-1 S-L3-1",
        "options have both spellings",
        then(f"{SDK}.options:option_of", lambda name: "gateway"),
    ),
    Removal("S-L1-2", "connect joins", gone(f"{CLIENT}.connect")),
    Removal("S-L1-4 S-L1-6", "disconnected is told", gone(f"{CLIENT}.on_disconnected", off)),
    Removal("S-L1-5", "the state is told", gone(f"{CLIENT}.state", "disconnected")),
    Removal("S-L1-6", "reconnecting is told", gone(f"{CLIENT}.on_reconnecting", off)),
    Removal("S-L1-7", "a heartbeat is sent", given(f"{SDK}.connection:Endpoint.open", heartbeat=None)),
    Removal("S-ERR-1", "delays grow", value(f"{SDK}.connection:MAX_DELAY", 0.0)),
    Removal("S-ERR-2", "states are told", gone(f"{CLIENT}.on_state", off)),
    Removal(
        "S-ERR-3",
        "errors have codes",
        then(f"{SDK}.tools:RpcError.payload", lambda payload: {**payload, "code": 0}),
    ),
    Removal("S-ERR-4", "refusals are heard", deaf("system/error")),
    Removal(
        "S-ERR-5",
        "a tool's exception is a result",
        replaced(f"{SDK}.tools:ToolBox._call_tool", lambda before: failing(before)),
    ),
    Removal(
        "S-ERR-6 S-SEC-4",
        "arguments are checked",
        replaced(
            f"{SDK}.signature:Signature.bind", lambda before: lambda self, arguments: unchecked(arguments)
        ),
    ),
    Removal("S-CF-1", "the environment is read", value(f"{SDK}.settings:VARIABLES", {})),
    Removal("S-CF-2", "a file is read", gone(f"{SDK}.settings:_read_file", {})),
    # discovery
    Removal("S-L1-12", "who may respond is asked", gone(f"{SDK}.discovery:may_answer", False)),
    Removal("S-L1-13", "questions are spread", gone(f"{SDK}.scheduler:StartSpacing.next", 0.0)),
    Removal("S-L1-14", "who joins is asked", gone(f"{DISCOVERY}._note_presence")),
    Removal("S-L1-16 S-L2-31", "a fresh list will do", given(f"{DISCOVERY}.discover_tools", cached=False)),
    Removal("S-L1-17", "a list is asked for again", gone(f"{DISCOVERY}._after")),
    Removal(
        "S-L1-18 S-L1-19",
        "what failed is repeated",
        replaced(f"{DISCOVERY}._step", lambda before: lambda self, name, failures: before(self, name, 99)),
    ),
    Removal("S-L1-20", "the last failure is a warning", gone(f"{SDK}.discovery:logger.warning")),
    Removal(
        "S-L2-28 S-L2-32", "the state of a discovery is told", gone(f"{DISCOVERY}.get_discovery_status", {})
    ),
    Removal(
        "S-L2-29",
        "no tools is no failure",
        then(
            f"{DISCOVERY}.get_discovery_status",
            lambda known: {
                name: one._replace(state="no_tools") if one.state == "failed" else one
                for name, one in known.items()
            },
        ),
    ),
    Removal("S-L2-30", "nobody is asked unless wanted", replaced(f"{DISCOVERY}.__init__", wanted)),
    Removal(
        "S-L2-32", "discoveries can be waited for", gone(f"{DISCOVERY}.has_discoveries_in_progress", False)
    ),
    Removal("S1-L3-1 S-L2-3", "discovery is switched on", gone(f"{DISCOVERY}.enable_auto_discovery")),
    # a participant's tools and handlers
    Removal("S-L2-2", "resources are served", gone(f"{SDK}.tools:ToolBox.add_resource")),
    Removal("S-L2-3", "tools are registered", gone(f"{ME}.register_tool")),
    Removal("S-L2-5", "a handler can be taken back", then(f"{ME}.on_mcp_proposal", lambda end: off)),
    Removal("S-L2-6", "ready is told", gone(f"{ME}.on_ready", off)),
    Removal("S-L2-27", "a tool is added", gone(f"{SDK}.tools:ToolBox.add")),
    Removal(
        "S-L2-45 S-ERR-4",
        "a request has a limit of its own accord",
        given(f"{SDK}.correlations:Correlations.__init__", request_timeout=None),
    ),
    # the agent
    Removal("S-L3-2", "an agent offers tools", gone(f"{AGENT}.agent:MEWAgent.add_tool")),
    Removal(
        "S-L3-3 S-L3-4",
        "a tool is shown under whose it is",
        then(
            f"{AGENT}.run:list_callable_tools",
            lambda specs: [spec._replace(name=spec.name.partition("/")[2]) for spec in specs],
        ),
    ),
    Removal(
        "S-L3-13",
        "clear and forget reach the conversation",
        gone(f"{AGENT}.context_window:Memory._drop", Freed(0, 0)),
    ),
    Removal(
        "S-L3-15 S-L2-32",
        "discoveries are waited for",
        gone(f"{DISCOVERY}.wait_for_pending_discoveries", True),
    ),
    Removal(
        "S-L3-17 S-L3-22", "the loop has an end", given(f"{AGENT}.react:next_move", max_iterations=10**6)
    ),
    Removal(
        "S-L3-23", "an error is an observation", then(f"{AGENT}.run:Run.execute_tool_call", lambda said: "")
    ),
    Removal("S-L3-24", "the native format", given(f"{AGENT}.prompts:step_messages", format="scratchpad")),
    Removal("S-L3-25", "the scratchpad format", given(f"{AGENT}.prompts:step_messages", format="native")),
    Removal(
        "S-L3-26",
        "the last messages stand in the prompt",
        given(f"{AGENT}.context_window:Memory.before", length=0),
    ),
    Removal(
        "S-L3-27",
        "prompts can be replaced",
        replaced(
            f"{AGENT}.prompts:step_messages",
            lambda before: lambda *about, prompts, **how: before(*about, prompts=DEFAULT, **how),
        ),
    ),
    Removal(
        "S-L3-28",
        "any name is a tool's",
        then(
            f"{AGENT}.run:list_callable_tools",
            lambda specs: [spec for spec in specs if spec.name.startswith("git/")],
        ),
    ),
    Removal("S-L3-29", "reasoning can be off", given(f"{SDK}.trace:Trace.__init__", enabled=True)),
    Removal(
        "S-SEC-5",
        "agents may not do what is dangerous",
        value("mew_lab.protocol.profiles:PROFILES", defaultdict(lambda: [{"kind": "*"}])),
    ),
    Removal(
        "S-CH-1",
        "its own messages are ignored",
        replaced(
            f"{AGENT}.attention:judge",
            lambda before: (
                lambda message, *, me, **how: (
                    before(message, me=me, **how) if message.sender != me else Attention("respond", "")
                )
            ),
        ),
    ),
    Removal("S-CH-2", "answering can be off", habits(auto_respond=True)),
    Removal("S-CH-3", "what is addressed to it is answered", habits(respond_to_direct=False)),
    Removal("S-CH-4", "a mention is answered", gone(f"{AGENT}.attention:mentions", False)),
    Removal("S-CH-5", "a threshold counts", gone(f"{AGENT}.attention:Classification.above", True)),
    Removal(
        "S-CH-6",
        "defaults",
        value(f"{AGENT}.attention:Habits.__new__.__defaults__", (True, True, True, True, 0.9, 3)),
    ),
    Removal("S-CH-7", "answers a minute are limited", gone(f"{SDK}.askers:Rate.take", True)),
    Removal("S-CH-8", "answers to answers are counted", gone(f"{AGENT}.attention:AnswerDepths.depth", 0)),
    Removal("S-CH-9", "a model decides", gone(f"{AGENT}.attention:read_classification")),
    Removal(
        "S-CH-10", "one agent takes it", replaced(f"{AGENT}.attention:ChatTakers.take", lambda before: yes)
    ),
    # agents served as tools
    Removal(
        "T-1", "server info is the metadata", gone(f"{TOOLS}.definition:AgentDefinition.server_info", {})
    ),
    Removal("T-3", "a tool is described", gone(f"{TOOLS}.definition:ToolDefinition.described", {})),
    Removal(
        "T-4",
        "a template is filled",
        replaced(f"{TOOLS}.template:fill_prompt", lambda before: lambda template, *about, **how: template),
    ),
    Removal("T-5", "a preview keeps what is missing", given(f"{TOOLS}.template:fill_prompt", preview=False)),
    Removal("T-6", "a gate keeps tools back", gone(f"{TOOLS}.executor:Executor.gate", "")),
    Removal(
        "T-8",
        "a session has a context of its own",
        then(f"{TOOLS}.executor:Executor._run_session", lambda made: replace(made, context="one")),
    ),
    Removal(
        "T-9",
        "the text is the result",
        then(f"{TOOLS}.executor:Executor._run_session", lambda made: replace(made, text="")),
    ),
    Removal(
        "T-10",
        "errors are error results",
        then(f"{TOOLS}.executor:Executor.execute", lambda made: replace(made, is_error=False)),
    ),
    # what people see
    Removal("P-3.2.1-8", "a chain has many steps", given("mew_lab.log.chains:Chains.exchange", most=1)),
    Removal(
        "P-7.3-2", "a grant is offered", gone("mew_lab.lab.decisions.grant_preview:GrantOffers.take", "")
    ),
    Removal("P-7.3-4", "a decision is noted", gone("mew_lab.lab.lab:Lab._note")),
    Removal(
        "C-23", "an edited fulfilment is told", gone("mew_lab.lab.decisions.outcomes:Outcomes.describe", "")
    ),
    Removal("P-4.3-5", "what is no message does no harm", replaced(f"{CLIENT}._take", strictly)),
    Removal(
        "S-L3-9",
        "streams beside reasoning are noted",
        replaced(
            "mew_lab.views.reasoning.model:ReasoningModel._apply",
            lambda before: (
                lambda self, change, call: None if change.what == "streamed" else before(self, change, call)
            ),
        ),
    ),
    # the other clauses of rows that name several things
    Removal("S-L1-2", "disconnect leaves", gone(f"{CLIENT}.disconnect")),
    Removal("S-L1-2", "send sends", gone(f"{CLIENT}.send")),
    Removal("S-L1-4 S-L1-6", "connected is told", gone(f"{CLIENT}.on_connected", off)),
    Removal("S-L1-4 S-L1-6", "messages are told", gone(f"{CLIENT}.on_message", off)),
    Removal("S-L1-4 S-L1-6", "the welcome is told", gone(f"{CLIENT}.on_welcome", off)),
    Removal("S-L1-4 S-L1-6", "errors are told", gone(f"{CLIENT}.on_error", off)),
    Removal("S-L2-3", "resources are registered", gone(f"{ME}.register_resource")),
    Removal("S-L2-3", "tools are discovered", gone(f"{DISCOVERY}.discover_tools", [])),
    Removal("S-L2-3 S-L2-31", "tools that are known are told", gone(f"{DISCOVERY}.get_available_tools", [])),
    Removal("S-L2-4", "MCP requests are sent", gone(f"{ME}.mcp_request")),
    Removal("S-L2-4", "chat is sent", gone(f"{ME}.chat")),
    Removal(
        "S-L2-5", "a handler of requests can be taken back", then(f"{ME}.on_mcp_request", lambda end: off)
    ),
    Removal(
        "S-L2-5", "a handler of joins can be taken back", then(f"{ME}.on_participant_join", lambda end: off)
    ),
    Removal("S-L2-6", "a shutdown is told", gone(f"{ME}.on_shutdown", off)),
    Removal(
        "S-L2-28",
        "a failed discovery is told",
        then(
            f"{DISCOVERY}.get_discovery_status",
            lambda known: {
                name: one._replace(state="in_progress") if one.state == "failed" else one
                for name, one in known.items()
            },
        ),
    ),
    Removal(
        "S-L2-28",
        "a discovery that has not begun is told",
        then(
            f"{DISCOVERY}.get_discovery_status",
            lambda known: {name: one for name, one in known.items() if one.state != "not_started"},
        ),
    ),
    Removal(
        "S-L2-32", "who is not discovered is told", gone(f"{DISCOVERY}.get_undiscovered_participants", [])
    ),
    Removal("S-L2-33", "chats are cancelled", mute("chat/cancel")),
    Removal("S-L2-37", "forgetting calls a hook", gone(f"{CONTROLS}.on_forget", off)),
    Removal("S-L2-37", "clearing calls a hook", gone(f"{CONTROLS}.on_clear", off)),
    Removal("S-L2-37", "restarting calls a hook", gone(f"{CONTROLS}.on_restart", off)),
    Removal("S-L2-37", "shutting down calls a hook", gone(f"{CONTROLS}.on_shutdown", off)),
    Removal("S-L2-38", "the own status is reported", gone(f"{TELEMETRY}.report_status")),
    Removal("S-L2-44", "activity is noted", gone(f"{SDK}.stream:Stream.take")),
    Removal("S-L3-2", "an agent starts", gone(f"{AGENT}.agent:MEWAgent.start")),
    Removal("S-L3-2", "an agent stops", gone(f"{AGENT}.agent:MEWAgent.stop")),
    Removal("S-L3-2", "an agent offers resources", gone(f"{AGENT}.agent:MEWAgent.add_resource")),
    Removal("S-L3-21", "reasoning is concluded", mute("reasoning/conclusion")),
    Removal("P-3.1.1-1", "a request has a JSON-RPC id", lacking("mcp/request", "payload", "id")),
    Removal("P-3.1.1-1", "a request has params", lacking("mcp/request", "payload", "params")),
    Removal(
        "P-3.2-2",
        "a proposal has the request's method",
        saying("mcp/proposal", "payload", "method", value="tools/list"),
    ),
    Removal(
        "P-3.5.2-1 P-3.5.3-1", "a thought has a message", lacking("reasoning/thought", "payload", "message")
    ),
    Removal("P-3.5.4-1", "a conclusion has a message", lacking("reasoning/conclusion", "payload", "message")),
    Removal("P-3.6.1-2", "a grant names its recipient", lacking("capability/grant", "payload", "recipient")),
    Removal("P-3.6.3-1", "a grant-ack names the grant", lacking("capability/grant-ack", "correlation_id")),
    Removal("P-3.6.3-1", "a grant-ack has a status", lacking("capability/grant-ack", "payload", "status")),
    Removal(
        "P-3.6.5-1",
        "an invitation says what is given",
        lacking("space/invite", "payload", "initial_capabilities"),
    ),
    Removal("P-3.9.4-2", "a status has tokens", lacking("participant/status", "payload", "tokens")),
    Removal(
        "P-3.9.7-2",
        "compact-done says which messages it freed",
        lacking("participant/compact-done", "payload", "freed_messages"),
    ),
    Removal("P-3.9.9-2", "a restart closes streams", gone(f"{SDK}.streams:Streams.close_all")),
    Removal("P-3.10.1-13", "a stream may have a format", lacking("stream/request", "payload", "format")),
    Removal("S-L3-13", "clear ends reasoning", gone(f"{AGENT}.run:Run.stop")),
    Removal(
        "S-CH-6",
        "the window is 10",
        value(f"{AGENT}.attention:Habits.__new__.__defaults__", (True, True, True, True, 0.5, 3)),
    ),
    Removal(
        "T-1",
        "instructions are the description",
        then(
            f"{TOOLS}.member:ToolsAgent.initialized",
            lambda answer: {key: answer[key] for key in answer if key != "instructions"},
        ),
    ),
    Removal("T-2", "a tool lacks nothing", given(f"{TOOLS}.agent_file:_AgentReader.text", needed=False)),
    Removal(
        "P-3.9.8-1 P-3.9.8-2",
        "a clear is more than a forget",
        heard(lambda one: one.kind == "participant/clear", forgets),
    ),
    Removal(
        "S-L3-6",
        "a model's call goes to whose tool it is",
        then(f"{SDK}.sender:tool_call", lambda both: (("nobody",), both[1])),
    ),
    Removal("S-ERR-1", "attempts have an end", gone(f"{SDK}.connection:Connection._worth_another", True)),
    Removal(
        "S-CF-2",
        "variables are filled in",
        replaced("mew_lab.settings.environment:fill_variables", lambda before: lambda text, environ: text),
    ),
    Removal("S-CF-1", "the environment names a file", value(f"{SDK}.settings:AGENT", "NO_SUCH_VARIABLE")),
    Removal("S-L1-12", "who may not respond is not asked", gone(f"{SDK}.discovery:may_answer", True)),
    Removal("S-L2-4 S-L2-7", "what is permitted can be sent", gone(f"{ME}.can_send", False)),
    Removal(
        "P-3.5.4-1",
        "a conclusion ends the sequence",
        replaced(
            "mew_lab.views.reasoning.model:ReasoningModel._apply",
            lambda before: (
                lambda self, change, call: (
                    None if change.entry.kind == "reasoning/conclusion" else before(self, change, call)
                )
            ),
        ),
    ),
    Removal("C-3", "what does not fit is a claim", gone("mew_lab.ledger.calls:_misfit", "")),
    Removal("S-L2-16 C-22 C-23", "an edit is marked", gone("mew_lab.protocol.difference:differences", ())),
    Removal(
        "C-24",
        "only a capability lets one control another",
        both(
            gone("mew_lab.protocol.violations:require"),
            gone("mew_lab.space.core:Space._check_capability", permit.Verdict(True, 0)),
        ),
    ),
    Removal("P-3.4.1-4", "a person sees the queue", gone("mew_lab.views.chat.model:ChatModel.queue", [])),
    Removal(
        "P-3.4.1-5",
        "a person empties the queue",
        gone("mew_lab.views.chat.model:ChatModel.acknowledge_all", ""),
    ),
    Removal(
        "P-3.4.2-3", "a person calls messages off", gone("mew_lab.views.chat.model:ChatModel.cancel", "")
    ),
    Removal("S-L2-19", "a decision is made once", gone(f"{SDK}.decisions:_refuse_decided")),
    Removal(
        "T-11",
        "a form is made of the schema",
        gone("mew_lab.views.tools.schema_form:plan", {"members": [{"key": "it", "required": False}]}),
    ),
    Removal("T-11", "what is required is marked", replaced("mew_lab.views.tools.schema_form:plan", optional)),
    Removal(
        "T-11",
        "input is validated",
        gone("mew_lab.protocol.json_schema:Validator.validate", Validation((), ())),
    ),
    Removal("T-11", "the filled prompt is shown", gone("mew_lab.views.tools.model:ToolCatalog.show_prompts")),
    Removal("T-11", "the answer is shown", gone("mew_lab.views.tools.runs:ToolRuns.result")),
)

# Rows that no behaviour stands behind which could be taken away while the code runs, and why.
WITHOUT = {
    "S-G-1": "which classes there are",
    "S-G-2": "which modules import which",
    "S-G-3": "which modules import which",
    "S-G-4": "which modules import which",
    "S-G-5": "which modules import which",
    "S-TST-1": "how tests are made",
    "S-TST-2": "how tests are made",
    "S-SEC-6": "where a function runs that is called",
    "S-SEC-2": "something that is not done",
}
