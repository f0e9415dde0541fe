"""All that read a list of tools take the same tools from it, and a list counts from whom it was asked."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.lab.decisions import pinned_tools
from mew_lab.lab.decisions.pinned_tools import FORGOTTEN, PinnedTools
from mew_lab.lab.lab import Lab
from mew_lab.ledger.calls import CallLedger
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.steps import finish
from mew_lab.sdk.client import MEWClient

from ..conftest import examples
from .looking import eventually, sent
from .mail import Mail, tool

pytestmark = pytest.mark.threat(52)


@pytest.fixture
def mail(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Mail:
    return Mail(lab, monkeypatch)


# --- in a lab ---


@pytest.mark.threat(41)
def test_a_list_with_content_beside_its_tools_is_a_list(mail: Mail) -> None:
    mail.lists(tool())
    grant = mail.grant()
    mail.approve()
    mail.lists(tool("DELETES everything"), content=[])
    assert "“DELETES everything”" in mail.why_ended(grant)
    assert "changed: mail/send has another description" in mail.remarks()[0]


@pytest.mark.threat(41)
@pytest.mark.parametrize(
    ("page", "said"),
    [
        ([tool(title="Deletes")], "title: “” → “Deletes”"),
        ([tool(outputSchema={"type": "object"})], "results: "),
        ([tool(_meta={"a": 1})], "_meta: "),
        ([tool(icons=[{"src": "x"}])], "all else: "),
        ([tool(), tool("DELETES")], "it is listed 2 times, before 1"),
        ([tool("DELETES"), tool()], "description: "),
        ([{"name": "other"}], "it is not listed any more"),
        ([], "it is not listed any more"),
        ([tool(inputSchema={"x": "y" * 140_000})], "it is not listed any more"),
    ],
)
def test_whatever_changes_in_a_list_ends_the_grants_for_the_tool(
    mail: Mail, page: list[Any], said: str
) -> None:
    mail.lists(tool())
    grant = mail.grant()
    mail.lists(*page, params={"_meta": {"progressToken": 7}})
    assert said in mail.why_ended(grant)
    if len(page) == 2:
        assert any(
            line.startswith("listed twice: mail describes mail/send 2 times") for line in mail.card().warnings
        )


@pytest.mark.threat(41)
def test_a_list_of_several_pages_is_one_list_and_an_unfinished_one_shows_changes_all_the_same(
    mail: Mail,
) -> None:
    mail.lists(tool(), nextCursor="2")
    mail.lists({"name": "other"}, cursor="2")
    send, other = mail.grant(), mail.grant("other")
    mail.lists(tool(), nextCursor="2")  # the same first page, and nobody asks for the next
    mail.lists(tool(), nextCursor="2")
    mail.lists({"name": "other"}, cursor="2")
    assert mail.stands(send) and mail.stands(other)
    mail.lists(tool(), nextCursor="2")
    mail.lists({"name": "another"}, cursor="2")
    assert mail.why_ended(other).endswith("it is not listed any more") and mail.stands(send)
    mail.lists(tool("DELETES"), nextCursor="2")
    assert "“DELETES”" in mail.why_ended(send)


@pytest.mark.threat(41)
def test_lists_that_nobody_asked_for_change_nothing(mail: Mail) -> None:
    """Of a stranger, of the participant itself, and in answer to what somebody else was asked, or for the second time."""
    lab = mail.lab
    liar = lab.join("liar", can="tool")
    mail.lists(tool())
    first = sent(lab, "mcp/response")[-1]["correlation_id"][0]
    to_liar = lab.send("mcp/request", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, to="liar").id
    call = {"method": "tools/call", "params": {"name": "send", "arguments": {}}}
    called = lab.send("mcp/request", {"jsonrpc": "2.0", "id": 1, **call}, to="mail").id
    grant = mail.grant()
    last = ""
    for seat, about in itertools.product((mail.seat, liar), ([], [first], [to_liar], [called], ["nothing"])):
        if seat is liar and about == [to_liar]:
            continue
        payload = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool("A lie")]}}
        draft: dict[str, Any] = {"kind": "mcp/response", "to": ["human"], "payload": payload}
        last = (
            lab.loop.submit(
                seat.participant.send_accepted({**draft, **({"correlation_id": about} if about else {})})
            )
            .result(10)
            .id
        )
    eventually(lambda: any(one.get("id") == last for one in sent(lab, "mcp/response")))
    assert mail.remarks() == [] and mail.stands(grant)


NAMES = st.sampled_from(["send", "read", "a/b", "", "x\u202ey", 7, "é", "e\u0301", " send", "list_all"])
SCHEMAS = st.sampled_from([{"type": "object"}, {"x": "y" * 140_000}, 7, [], {"properties": {"a": {}}}])
ENTRIES = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "description": st.sampled_from(["Sends.", "DELETES", 7, "d" * 5000]),
        "inputSchema": SCHEMAS,
        "title": st.sampled_from(["T", 7]),
        "_meta": st.sampled_from([{"a": 1}, {"a": True}, []]),
        "annotations": st.sampled_from(
            [{"readOnlyHint": True}, {"readOnlyHint": True, "destructiveHint": True}, 7]
        ),
    },
)
ENTRY = st.one_of(ENTRIES, ENTRIES, ENTRIES, st.sampled_from([None, 7, "send", [], {}]))
PAGE = st.fixed_dictionaries(
    {"tools": st.lists(ENTRY, max_size=4)},
    optional={
        "content": st.sampled_from([[], [{"type": "text", "text": "x"}]]),
        "isError": st.booleans(),
        "structuredContent": st.just({"tools": []}),
    },
)
PAGES = st.lists(PAGE, min_size=1, max_size=3)


@pytest.mark.drawn
def test_discovery_cards_listings_and_pins_take_the_same_tools_from_hostile_lists(mail: Mail) -> None:
    lab, pages = mail.lab, list[dict[str, Any]]()
    liar = lab.join("liar", can="tool")
    discovery = lab.me.participant.discovery

    async def answer(method: str, params: Any) -> dict[str, Any]:
        if method != "tools/list":
            return {"content": []}
        at = int((params or {}).get("cursor", "0"))
        more = {"nextCursor": str(at + 1)} if at + 1 < len(pages) else {}
        return {**pages[at], **more}

    mail.answer_with(answer)
    false = {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"tools": [tool("A lie", annotations={"readOnlyHint": True})]},
    }
    before: dict[str, Any] = {}
    grants = {name: mail.grant(name) for name in ("send", "read")}

    @settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
    @given(PAGES)
    def take(listed: list[dict[str, Any]]) -> None:
        pages[:] = listed
        liar.send("mcp/response", false, to="human")
        lab.loop.run(discovery.discover_tools("mail"), timeout=10, doing="asking")
        mail.seat.send("mcp/response", false, to="human")
        found = {one.name: one for one in discovery.get_available_tools() if one.participant == "mail"}
        entries = lab.loop.run(lab.me.participant.list_tools("mail"), timeout=10, doing="asking")
        assert [entry["name"] for entry in entries] == list(found)
        rows = [row[0] for row in lab.tools("mail").rows]
        assert rows == [f"mail/{name}" for name in found]
        read_only = [
            name
            for name, one in found.items()
            if one.annotations.get("readOnlyHint") is True and not one.annotations.get("destructiveHint")
        ]
        assert lab.loop.call(lambda: lab.decisions.tools.read_only_tools("mail")) == sorted(read_only)
        for name in ("send", "read"):
            card = mail.card(name)
            lab.reject(card.id)
            is_listed = not any(line.startswith("not listed") for line in card.warnings)
            assert is_listed == (name in found)
            if is_listed:
                assert card.about.removesuffix("…") in found[name].description
            # A grant ends with every change of what the list says of its tool.
            said = [entry for page in listed for entry in page["tools"] if isinstance(entry, dict)]
            now = repr([entry for entry in said if entry.get("name") == name]) if name in found else ""
            if before.get(name, "") and now != before[name]:
                assert mail.why_ended(grants[name])
                grants[name] = mail.grant(name)
            before[name] = now

    take()


# --- with nothing but the ledger ---


class Space:
    """A ledger and the pins that follow it, with participants that list what they are told to."""

    def __init__(self) -> None:
        self.calls = CallLedger()
        self.changes: list[tuple[str, dict[str, str]]] = []
        self.pins = PinnedTools(
            MEWClient(participant_id="human"),
            self.calls.requests,
            logical=lambda id: id.partition("~")[0],
            clock=lambda: 5.0,
        )
        self.pins.attach(
            local=lambda name: None, changed=lambda who, how: self.changes.append((who, dict(how)))
        )
        self._ids = itertools.count()

    def tell(self, sender: str, kind: str, payload: Any, to: str, about: str = "") -> str:
        id = f"e{next(self._ids)}"
        more = {"correlation_id": [about]} if about else {}
        members = {"id": id, "from": sender, "kind": kind, "to": [to], "payload": payload, **more}
        envelope = Envelope.of(members)
        list(self.calls.observe(Entry.of(envelope, int(id[1:]))))
        if (listed := self.pins.observe(envelope)) is not None:
            finish(listed)
        return id

    def lists(self, who: str, *tools: Any, by: str = "human", cursor: str = "", **more: Any) -> None:
        params = {"params": {"cursor": cursor}} if cursor else {}
        asked = self.tell(
            by, "mcp/request", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", **params}, who
        )
        result = {"tools": list(tools), **more}
        self.tell(who, "mcp/response", {"jsonrpc": "2.0", "id": 1, "result": result}, by, asked)

    def changed(self) -> dict[str, str]:
        """The changes since the last look: participant/tool, and how."""
        found = {f"{who}/{name}": text for who, how in self.changes for name, text in how.items()}
        self.changes.clear()
        return found


def many(n: int, count: int = 500) -> list[dict[str, Any]]:
    return [{"name": f"t{n}-{at}", "annotations": {"readOnlyHint": True}} for at in range(count)]


READS = tool(annotations={"readOnlyHint": True})


def test_lists_of_strangers_push_out_none_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_tools, "MAX_TOOLS", most := 2_000)
    space = Space()
    space.lists("mail", READS)
    for n in range(8):
        space.lists("liar", *many(n))
        for id in (f"liar~{n}", f"s{n}"):  # as many connections of one, and as many strangers
            space.lists(id, *many(n), by="liar")
    assert not any(name.startswith("mail/") for name in space.changed())
    assert space.pins.read_only_tools("mail") == ["send"]
    space.lists("mail", tool("DELETES", annotations={"readOnlyHint": True}))
    assert list(space.changed()) == ["mail/send"]
    ids = ["mail", "liar", *(id for n in range(8) for id in (f"liar~{n}", f"s{n}"))]
    assert sum(len(space.pins.read_only_tools(id)) for id in ids) <= most


def test_what_another_asks_for_takes_no_page_of_a_list_from_its_reader() -> None:
    space = Space()
    space.lists("mail", READS, nextCursor="2")
    space.lists("mail", {"name": "other"}, cursor="2")
    space.lists("mail", READS, nextCursor="2")
    for n in range(40):
        space.lists("mail", READS, nextCursor=f"c{n}", by="liar")
        space.lists("liar", READS, nextCursor=f"c{n}", by=f"s{n}")
    assert space.changed() == {}
    space.lists("mail", cursor="2")
    assert space.changed() == {"mail/other": pinned_tools.GONE}


def test_what_is_forgotten_of_a_participant_counts_as_changed() -> None:
    space = Space()
    space.lists("mail", READS)
    for n in range(4):  # pages without an end, so nothing is gone
        space.lists("mail", *many(n), nextCursor="more")
    assert space.changed()["mail/send"] == FORGOTTEN


def test_a_change_under_another_connection_is_one_of_the_participant() -> None:
    space = Space()
    space.lists("mail", READS)
    space.lists("mail~2", READS)
    assert space.changed() == {}
    space.lists("mail~2", tool("DELETES"))
    assert list(space.changed()) == ["mail/send"]
    pattern = {
        "kind": "mcp/request",
        "to": "mail",
        "payload": {"method": "tools/call", "params": {"name": "send"}},
    }
    assert (
        space.pins.changed_since(pattern, 4.0) == "mail/send" and space.pins.changed_since(pattern, 5.0) == ""
    )
    space.lists("mail", READS)
    space.lists("mail~2", tool("DELETES"))
    assert space.changed() == {}


def test_an_answer_to_two_requests_is_the_whole_list_of_one() -> None:
    space = Space()
    space.lists("mail", READS, {"name": "other"})
    payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    page = space.tell("liar", "mcp/request", {**payload, "params": {"cursor": "x"}}, "mail")
    whole = space.tell("human", "mcp/request", payload, "mail")
    id = "both"
    members = {
        "id": id,
        "from": "mail",
        "kind": "mcp/response",
        "to": ["human"],
        "correlation_id": [page, whole],
    }
    envelope = Envelope.of({**members, "payload": {"jsonrpc": "2.0", "id": 1, "result": {"tools": [READS]}}})
    list(space.calls.observe(Entry.of(envelope, 99)))
    listed = space.pins.observe(envelope)
    assert listed is not None
    finish(listed)
    assert space.changed() == {"mail/other": pinned_tools.GONE}
