"""One test for a row of the threat table, named after its number: what somebody would try, and what comes of it.

Each is short; the rooms' own tests go further.
"""

from __future__ import annotations

import asyncio
import json
import re
import stat
import timeit
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mew_lab.errors import ConfigError, MewError, NotAdmitted
from mew_lab.gateway.auth import mint, write_token_file
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.lab.decisions.cards import ARMING
from mew_lab.log.journal import Journal, journal_path
from mew_lab.notebook import display
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import HANDLES, KINDS, is_reserved
from mew_lab.protocol.permit import Capability, permit
from mew_lab.protocol.token import forget
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.space.core import Space
from mew_lab.space.events import Close, Deliver, Effect, FrameReceived, Joined, Left, Received, Record, Relay
from mew_lab.space.state import SpaceLimits
from mew_lab.transport.link import HandshakeRefused, Link
from mew_lab.views.approvals.widget import ApprovalsView
from mew_lab.views.feed.widget import FeedView

from .browser.seat import Rows_, Seat
from .gateway.conftest import CHAT, UPGRADE, House, Open, closed_with, house, open_house, raw_request, take
from .report_requirements import RULINGS, THREATS, read_report
from .views.pages import Page, picture

__all__ = ["house", "open_house"]  # fixtures

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ALL = [{"kind": "*"}]
CHATS = [{"kind": "chat"}]


def a_space(limits: SpaceLimits | None = None, **capabilities: list[dict[str, Any]]) -> Space:
    """A space of these participants, each on one connection of its own name."""
    more = {} if limits is None else {"limits": limits}
    space = Space("demo", epoch=7, participants=capabilities, **more)
    for name in capabilities:
        space.step(Joined(name, name, name, "memory"), NOW)
    return space


def said(space: Space, sender: str, **members: Any) -> tuple[Effect, ...]:
    return space.step(Received(json.dumps(members), sender), NOW)


def verdict(effects: tuple[Effect, ...]) -> tuple[str, str]:
    first = next(one for one in effects if isinstance(one, Record))
    return first.verdict, first.code


def heard(effects: tuple[Effect, ...], connection: str) -> list[str]:
    """The kinds that a connection was told."""
    return [
        one.envelope.kind for one in effects if isinstance(one, Deliver) and connection in one.connections
    ]


HOSTILE = {
    "100 000 brackets": "[" * 100_000,
    "100 000 objects": '{"a":' * 100_000,
    "an integer of 100 000 digits": '{"kind":"chat","payload":{"n":%s}}' % ("9" * 100_000),
    "NaN": '{"kind":"chat","payload":{"n":NaN}}',
    "a key twice": '{"kind":"chat","payload":{},"payload":{}}',
    "a lone surrogate": '{"kind":"chat","payload":{"text":"\\ud800"}}',
    "a byte-order mark": '\ufeff{"kind":"chat"}',
}


@pytest.mark.threat(8)
async def test_threat_08_hostile_json_is_one_error_to_its_sender_and_the_gateway_stays_up(
    house: House,
) -> None:
    anna, bert = await house.join("anna"), await house.join("bert")
    await take(anna, "system/presence")
    for name, text in HOSTILE.items():
        await anna.send(text)
        error = await take(anna)
        code = "invalid_number" if "int" in name else "invalid_json"
        assert (error["kind"], error["payload"]["code"]) == ("system/error", code), name
    await anna.send(json.dumps(CHAT))
    assert (await take(anna))["kind"] == "chat"
    assert (await take(bert))["kind"] == "chat"  # and nothing before it


@pytest.mark.threat(9)
async def test_threat_09_who_floods_stalls_or_asks_for_much_is_bounded(open_house: Open) -> None:
    house = await open_house(
        limits={"burst": 200, "messages_per_second": 400.0},
        space={"message_bytes": 10_000, "queue_bytes": 64 * 1024},
    )
    anna, bert = await house.join("anna"), await house.join("bert")
    await take(anna, "system/presence")
    started = asyncio.get_running_loop().time()
    for n in range(400):
        await anna.send(json.dumps({"kind": "chat", "payload": {"text": str(n)}}))
    for n in range(400):  # it is read later, and all of it arrives
        assert (await take(bert, "chat"))["payload"]["text"] == str(n)
    assert asyncio.get_running_loop().time() - started >= 0.45
    await bert.send("x" * 40_001)  # more than four times the limit
    assert (await closed_with(bert))[0] == 1009
    lazy = attach(house.gateway, "demo", "cora")
    large = json.dumps({"kind": "chat", "payload": {"text": "x" * 9_000}})
    for _ in range(10):
        house.gateway.post("demo", "bert", large)
    assert (await closed_with(lazy))[0] == 1008
    space = a_space(SpaceLimits()._replace(streams=1), anna=ALL)
    asked = [verdict(said(space, "anna", kind="stream/request", payload={})) for _ in range(2)]
    assert asked == [("accepted", ""), ("refused", "limit_exceeded")]


FOREIGN = ["bert", "Anna", "anna ", "аnna", "anna\u200b", "system:gateway", "gateway", ""]


@pytest.mark.threat(10)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not is_reserved(kind)])
def test_threat_10_from_is_the_gateways_to_know_whatever_the_kind(kind: str) -> None:
    space = a_space(anna=ALL, bert=ALL)
    for who in FOREIGN:
        effects = said(space, "anna", kind=kind, **{"from": who})
        assert verdict(effects) == ("refused", "identity_mismatch")
        assert heard(effects, "anna") == ["system/error"] and heard(effects, "bert") == []
    effects = said(space, "anna", kind="chat")
    (sent,) = (one.envelope for one in effects if isinstance(one, Deliver))
    assert (sent.sender, json.loads(sent.raw)["from"]) == ("anna", "anna")


@pytest.mark.threat(11)
def test_threat_11_who_may_send_everything_still_cannot_speak_as_the_gateway() -> None:
    space = a_space(anna=ALL, bert=ALL)
    reserved = [kind for kind in KINDS if is_reserved(kind)]
    for kind in [*reserved, "system/register", "system/heartbeat", "system/anything", "system"]:
        effects = said(space, "anna", kind=kind, payload={})
        assert verdict(effects) == ("refused", "reserved_kind"), kind
        assert heard(effects, "bert") == []
    own_id = next(one.envelope.id for one in said(space, "anna", kind="nothing") if isinstance(one, Deliver))
    assert own_id.startswith("gw-")
    forged = said(space, "anna", kind="chat", id=own_id.rpartition("-")[0] + "-999")
    assert verdict(forged) == ("refused", "reserved_id")
    for name in (
        "gateway",
        "Gateway",
        "system",
        "SYSTEM",
        "system:gateway",
        "bert",
        "BERT",
        "bеrt",
        "bert\u200b",
    ):
        effects = space.step(Joined("new", "anna", name, "websocket"), NOW)
        assert any(isinstance(one, Close) and one.code == 4409 for one in effects), name


@pytest.mark.threat(12)
def test_threat_12_a_session_that_is_played_again_takes_no_name_a_second_time() -> None:
    space = a_space(anna=ALL, bert=ALL)
    payloads: dict[str, dict[str, Any]] = {
        "capability/grant": {"recipient": "bert", "capabilities": CHATS},
        "space/invite": {"participant_id": "dan"},
    }
    session = [
        {"id": f"m-{at}", "kind": kind, "payload": payloads.get(kind, {})}
        for at, kind in enumerate(sorted(HANDLES))
    ]
    assert {verdict(said(space, "anna", **one)) for one in session} == {("accepted", "")}
    for who in ("anna", "bert"):
        for one in session:
            effects = said(space, who, **one)
            assert verdict(effects) == ("refused", "duplicate_id"), one
            assert heard(effects, "anna" if who == "bert" else "bert") == []
    space.step(Joined("anna-2", "anna", "anna-2", "memory"), NOW)  # a new admission, and still
    for kind in payloads:
        (one,) = (one for one in session if one["kind"] == kind)
        assert verdict(said(space, "anna-2", **one)) == ("refused", "duplicate_id")


@pytest.mark.threat(19)
@given(some.lists(some.sampled_from(["chat", "revoke", "grant", "kick", "bert"]), min_size=1, max_size=30))
def test_threat_19_nothing_passes_on_a_right_after_it_was_taken(deeds: list[str]) -> None:
    space = a_space(anna=[], bert=CHATS, owner=ALL)
    holds, there, grants = False, True, 0
    for deed in deeds:
        if deed == "grant" and there:
            grants += 1
            payload = {"recipient": "anna", "capabilities": CHATS}
            said(space, "owner", id=f"g-{grants}", kind="capability/grant", payload=payload)
            holds = True
        elif deed == "revoke" and there:
            said(
                space, "owner", kind="capability/revoke", payload={"recipient": "anna", "capabilities": CHATS}
            )
            holds = False
        elif deed == "kick" and there:
            said(space, "owner", kind="space/kick", payload={"participant_id": "anna"})
            holds = there = False
        elif deed == "bert":
            assert "chat" in heard(said(space, "bert", kind="chat"), "owner")
        elif deed == "chat":
            assert ("chat" in heard(said(space, "anna", kind="chat"), "bert")) is (holds and there)


@pytest.mark.threat(19)
async def test_threat_19_what_a_kicked_participant_has_on_its_way_is_dropped(house: House) -> None:
    house.gateway.enrol("demo", "bert", ALL)
    anna, bert = await house.join("anna"), await house.join("bert")

    async def flood(link: Link) -> None:
        for _ in range(300):
            await link.send(json.dumps(CHAT))

    talking = asyncio.create_task(flood(anna))
    await take(bert, "chat")
    await bert.send(json.dumps({"kind": "space/kick", "payload": {"participant_id": "anna"}}))
    assert (await closed_with(anna))[0] == 4403
    await asyncio.wait({talking})
    talking.exception()  # it lost its link, early or late
    await bert.send(json.dumps({"kind": "chat", "payload": {"text": "last"}}))
    while (await take(bert, "chat"))["payload"]["text"] != "last":
        pass
    kick = next(at for at, one in enumerate(house.records) if one.raw and '"space/kick"' in one.raw)
    assert [
        one for one in house.records[kick:] if one.participant == "anna" and one.event == "received"
    ] == []
    assert (await house.post("anna", CHAT)).status_code == 403  # its token is void


@pytest.mark.threat(24)
@pytest.mark.parametrize(
    "origin", ["https://evil.test", "http://127.0.0.1:{port}", "http://localhost", "null", "file://"]
)
async def test_threat_24_a_page_that_opens_a_websocket_gets_403_before_any_frame(
    house: House, origin: str
) -> None:
    """The bytes that a browser sends: a page cannot add a token, and cannot leave its Origin out."""
    page = origin.format(port=house.server.port)
    status, body = await raw_request(
        house,
        f"GET /ws?space=demo HTTP/1.1\nHost: {house.at}\nOrigin: {page}\nUser-Agent: Mozilla/5.0\n{UPGRADE}\n",
    )
    assert (status, json.loads(body)["error"]) == (403, "origin_not_allowed")
    with pytest.raises(HandshakeRefused) as refused:  # not even with a token
        await house.open("/ws", {**house.bearer("anna"), "Origin": page})
    assert refused.value.status == 403
    assert [one for one in house.records if one.event == "joined"] == []


@pytest.mark.threat(25)
@pytest.mark.parametrize(
    "path", ["/health", "/openapi.json", "/participants", "/participants/anna/messages", "/ws"]
)
async def test_threat_25_a_name_that_was_rebound_to_us_is_misdirected(house: House, path: str) -> None:
    for host in (
        "evil.test",
        f"evil.test:{house.server.port}",
        f"127.0.0.1.evil.test:{house.server.port}",
        "",
    ):
        response = await house.http("GET", path, headers={**house.bearer("anna"), "Host": host})
        assert response.status_code == 421, host
    form = {**house.bearer("anna"), "Content-Type": "text/plain"}
    posted = await house.http("POST", "/participants/anna/messages", content=json.dumps(CHAT), headers=form)
    assert posted.status_code == 415


@pytest.mark.threat(26)
async def test_threat_26_guessing_tells_nothing_and_tokens_are_for_their_owner_alone(
    house: House, tmp_path: Path
) -> None:
    right = house.tokens["anna"].reveal()
    guesses = [right[:-1], right + "x", right.upper(), right[::-1], "x" * 43, "", "x" * 4096]
    answers = set()
    for guess in guesses:
        headers = {"Authorization": f"Bearer {guess or 'x'}"}
        response = await house.http("GET", "/participants?space=demo", headers=headers)
        answers.add((response.status_code, response.content))
    nowhere = await house.http("GET", "/participants?space=nowhere", headers=house.bearer("anna"))
    assert answers == {(nowhere.status_code, nowhere.content)}
    tokens = [mint() for _ in range(1000)]
    for token in tokens:
        forget(token)  # a thousand known secrets slow down whatever masks after this
    secrets = {token.reveal() for token in tokens}
    assert len(secrets) == 1000 and min(map(len, secrets)) >= 43  # 256 bits in base64
    path = write_token_file(tmp_path / "tokens", "demo", "anna", mint())
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


NAMES = ["../x", "..", "a/b", "a\\b", "/etc/passwd", "a\0", "CON", "x" * 300, "", "a\n", ".", "~"]


def paths_for(name: str, folder: Path) -> Iterator[Path]:
    yield journal_path(folder, space=name, now=NOW)
    try:
        yield write_token_file(folder / "tokens", "demo", name, mint())
    except ConfigError:
        pass
    try:
        yield write_token_file(folder / "tokens", name, "anna", mint())
    except ConfigError:
        pass


@pytest.mark.threat(27)
def test_threat_27_no_name_leads_out_of_its_folder(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    for name in NAMES:
        for path in paths_for(name, inside):
            assert path.resolve().is_relative_to(inside.resolve()), name
            assert len(path.name) < 256
    with pytest.raises(ValueError, match="cannot be a participant id"):
        a_space(**{"../x": ALL})
    space = a_space(anna=ALL)
    for name in NAMES:
        assert verdict(said(space, "anna", kind="space/invite", payload={"participant_id": name}))[0] in (
            "refused" if name != "CON" else "accepted",
        )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    link = tmp_path / "journal.jsonl"
    link.symlink_to(elsewhere)
    with pytest.raises(MewError):
        Journal(link)
    place = inside / "tokens" / "demo" / "anna.token"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.parent.chmod(0o700)
    place.parent.parent.chmod(0o700)
    place.symlink_to(elsewhere)
    write_token_file(inside / "tokens", "demo", "anna", mint())
    assert elsewhere.read_text() == "mine" and not place.is_symlink()


@pytest.mark.threat(27)
async def test_threat_27_no_name_on_the_wire_is_a_path(house: House) -> None:
    for name in ("../x", "..%2fx", "%2e%2e", "a%00b", "anna%2f..%2fbert"):
        response = await house.http("GET", f"/participants/{name}/messages", headers=house.bearer("anna"))
        assert response.status_code in (403, 404)
    for runtime_id in NAMES[:-3]:
        if runtime_id and runtime_id != "CON":
            with pytest.raises(NotAdmitted):
                attach(house.gateway, "demo", "anna", runtime_id=runtime_id)


@pytest.mark.threat(33)
async def test_threat_33_a_clock_that_lies_moves_nothing(house: House) -> None:
    bert = await house.join("bert")
    before = datetime.now(UTC)
    for years in (-10, 10, 0):
        ts = (before + timedelta(days=365 * years)).isoformat()
        answer = await house.post("anna", {**CHAT, "id": f"m{years}", "ts": ts})
        received = datetime.fromisoformat(answer.json()["timestamp"])
        assert abs(received - before) < timedelta(minutes=5)
        assert (await take(bert, "chat"))["ts"] == ts  # its own word stands, and counts for nothing
    chats = [one for one in house.records if one.event == "received"]
    assert [one.now for one in chats] == sorted(one.now for one in chats)
    asked = {"since": (before - timedelta(minutes=1)).isoformat()}
    response = await house.http(
        "GET", "/participants/bert/messages", headers=house.bearer("bert"), params=asked
    )
    ids = [one["id"] for one in response.json()["messages"] if one["kind"] == "chat"]
    assert ids == ["m-10", "m10", "m0"]


# --- what a peer's words can do in the notebook; what an approval rests on ---------------------------------------

MARKDOWN = [
    "[click](javascript:alert(1)) ![pixel](https://evil.test/p.png)",
    "<img src=https://evil.test/p.png onerror=alert(1)><script>alert(1)</script>",
    '<button onclick="alert(1)">Approve</button>',
    "[a]: javascript:alert(1)\n\n[a] <style>*{display:none}</style>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe><svg onload=alert(1)>",
]


class Markup(HTMLParser):
    """The tags, attribute names and text of a picture."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.threat(4)
@pytest.mark.parametrize("text", MARKDOWN)
def test_threat_04_markdown_of_a_peer_is_text_that_loads_and_runs_nothing(text: str) -> None:
    members = {"id": "m1", "from": "eve", "kind": "chat", "payload": {"text": text, "format": "markdown"}}
    rows = Rows_()
    rows.add("chat", text, raw=text, sender=text)
    feed = FeedView(rows)
    try:
        pictures = [str(display.envelope(Envelope.of(members))), picture(feed)]
    finally:
        feed.close()
    for html in pictures:
        shown = Markup(html)
        assert not shown.tags & {"a", "img", "script", "iframe", "svg", "button", "style", "link", "object"}
        assert not {
            one for one in shown.attributes if one.startswith("on") or one in ("src", "href", "srcdoc")
        }
        said = re.sub(r"\s", "", text).replace("\\n", "")
        assert said[:20] in re.sub(r"\\n|\s", "", shown.text).replace("\\", "")


@pytest.mark.threat(5)
def test_threat_05_a_saved_notebook_holds_no_button_and_its_messages_decide_nothing() -> None:
    seat = Seat()
    outcome = seat.propose("git_commit")
    saved, live = ApprovalsView(seat), ApprovalsView(seat)
    page = Page(live)
    page.appear()
    try:
        still = Markup(picture(saved))
        assert not still.tags & {"button", "input", "form", "script", "a"}
        assert "git_commit" in still.text
        card = seat.cards["proposal-1"]
        stale = {
            "t": "decide",
            "id": card.id,
            "digest": card.digest,
            "decision": "approve",
            "nonce": Page(saved).appear()["nonce"],
        }
        page.send(stale)
        notice = page.until(lambda: page.of("notice"))[0]["text"]
        assert "does not belong to the running kernel" in notice
        assert seat.fulfilled == [] and card.is_open and not outcome.done()
    finally:
        saved.close()
        live.close()


@pytest.mark.threat(6)
def test_threat_06_a_pattern_that_backtracks_for_ever_elsewhere_is_answered_at_once() -> None:
    bomb = {"kind": "chat", "payload": {"text": "/(a+)+$/"}}
    space = a_space(anna=[bomb])
    effects = said(space, "anna", kind="chat", payload={"text": "a" * 100_000 + "!"})
    assert verdict(effects) == ("refused", "capability_violation")
    assert verdict(said(space, "anna", kind="chat", payload={"text": "a" * 100_000})) == ("accepted", "")
    seconds = min(
        timeit.repeat(
            lambda: permit([bomb], "chat", payload={"text": "a" * 100_000 + "!"}), number=1, repeat=5
        )
    )
    print(f"\n(a+)+$ against 100 000 characters: {seconds * 1000:.1f} ms (mark 10 ms)")
    with pytest.raises(ConfigError):
        Capability.of({"kind": "chat", "payload": {"text": f"/{'a' * 300}/"}})


@pytest.mark.threat(7)
def test_threat_07_a_path_over_deep_and_wide_payloads_gives_up_and_denies() -> None:
    deep: dict[str, Any] = {"end": 1}
    for _ in range(55):
        deep = {"a": deep, "b": [{}, 1]}
    wide = {f"k{n}": {f"j{m}": [0] * 5 for m in range(30)} for n in range(60)}
    bombs = ["$..*..*", "$..*..*..*..*", "$..[?@..* == 1]..*"]
    for path in bombs:
        try:
            capability = [{"kind": "chat", "payload": {path: "never"}}]
            space = a_space(anna=capability)
        except ConfigError:
            continue  # refused where it is set
        for payload in (deep, wide):
            assert verdict(said(space, "anna", kind="chat", payload=payload))[0] == "refused"
    seconds = timeit.timeit(
        lambda: permit([{"kind": "chat", "payload": {"$..*..*": "never"}}], "chat", payload=wide), number=1
    )
    print(f"\n$..*..* against a wide payload: {seconds * 1000:.1f} ms (mark 10 ms)")


@pytest.mark.threat(13)
async def test_threat_13_an_answer_by_whom_nobody_asked_is_a_claim_and_the_call_waits_on() -> None:
    gateway = Gateway()
    gateway.add_space(SpaceConfig(name="demo"))

    async def seat(name: str) -> MEWParticipant:
        async def link() -> Link:
            return attach(gateway, "demo", name)

        gateway.enrol("demo", name, ALL)
        participant = MEWParticipant(MEWClient(space="demo", connect_link=link), tools=Silent())
        await participant.start()
        return participant

    seats = {name: await seat(name) for name in ("anna", "eve", "git")}
    call = seats["anna"].mcp_request("git", {"method": "x/y"})
    for name in ("eve", "git"):
        payload = {"jsonrpc": "2.0", "id": 1, "result": name}
        answer = {"kind": "mcp/response", "to": ["anna"], "correlation_id": [call.id], "payload": payload}
        await seats[name].send_accepted(answer)
    assert await asyncio.wait_for(call.outcome(), 5) == "git"
    for participant in seats.values():
        await participant.stop()
    gateway.close()


class Silent:
    """Answers nothing."""

    async def answer(self, method: str, params: object) -> dict[str, Any]:
        return await asyncio.get_running_loop().create_future()


@pytest.mark.threat(20)
def test_threat_20_nobody_gives_more_than_it_has_and_a_chain_falls_with_its_root() -> None:
    reads = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_*"}}}
    space = a_space(anna=ALL, bert=[{"kind": "capability/*"}], cora=[], dora=[])
    space.state.owner = "anna"

    def give(sender: str, id: str, to: str, capability: dict[str, Any]) -> tuple[str, str]:
        payload = {"recipient": to, "capabilities": [capability]}
        return verdict(said(space, sender, id=id, kind="capability/grant", payload=payload))

    assert give("anna", "g1", "bert", reads) == ("accepted", "")
    wider = [
        {"kind": "mcp/request"},
        {"kind": "mcp/*", "payload": reads["payload"]},
        {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "*"}}},
        {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "!write_*"}}},
        {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "/read_.*/"}}},
        {"kind": "mcp/request", "payload": {"method": "tools/call"}},
        {
            "kind": "mcp/request",
            "payload": {"method": ["tools/call", "tools/list"], "params": {"name": "read_a"}},
        },
    ]
    for n, capability in enumerate(wider):
        assert give("bert", f"w{n}", "cora", capability) == ("refused", "cannot_grant"), capability
    one = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_a"}}}
    assert give("bert", "g2", "cora", one) == ("accepted", "")
    call = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_a"}}}
    assert verdict(said(space, "cora", **call)) == ("accepted", "")
    said(space, "anna", kind="capability/revoke", payload={"grant_id": "g1"})
    assert verdict(said(space, "cora", **call)) == ("refused", "capability_violation")


@pytest.mark.threat(21)
@pytest.mark.parametrize(
    "value", [None, 7, True, [], ["tools/call"], {}, {"tools/call": "tools/call"}, "absent"]
)
@pytest.mark.parametrize("pattern", ["tools/call", "*", "**", "!x", "/.*/", ["tools/call", "!x"], {"a": "*"}])
def test_threat_21_what_is_absent_or_of_another_type_matches_no_pattern(pattern: Any, value: Any) -> None:
    space = a_space(anna=[{"kind": "mcp/request", "payload": {"method": pattern}}])
    payload = {} if value == "absent" else {"method": value}
    assert verdict(said(space, "anna", kind="mcp/request", payload=payload))[0] == "refused"


@pytest.mark.threat(21)
@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (1, True),
        (1, "1"),
        (0, False),
        (True, 1),
        (False, 0),
        (None, 0),
        (None, False),
        ("null", None),
        ({}, []),
    ],
)
def test_threat_21_values_that_are_alike_elsewhere_are_not_here(pattern: Any, value: Any) -> None:
    space = a_space(anna=[{"kind": "chat", "payload": {"n": pattern}}])
    assert verdict(said(space, "anna", kind="chat", payload={"n": value}))[0] == "refused"
    assert verdict(said(space, "anna", kind="chat", payload={}))[0] == "refused"


@pytest.mark.threat(22)
@pytest.mark.parametrize("word", ["always", "approve always", "Approve", "approve_all", True, ["approve"]])
def test_threat_22_a_click_decides_one_proposal_and_no_standing_rule_can_be_smuggled_in(word: Any) -> None:
    seat = Seat()
    seat.propose("git_commit", {})
    seat.propose("git_commit", {"message": "x"})
    view = ApprovalsView(seat)
    page = Page(view)
    try:
        card = seat.cards["proposal-1"]
        message = {
            "t": "decide",
            "id": card.id,
            "digest": card.digest,
            "nonce": page.appear()["nonce"],
            "view": "v1",
        }
        seat.now = 0.0
        seat.record_shown(card.id, view="v1", digest=card.digest)
        seat.now = ARMING
        page.send({**message, "decision": word})
        assert seat.fulfilled == [] and card.is_open
        page.send({**message, "decision": "approve"})
        assert seat.outcomes["proposal-1"].result(20) == "fulfilled"
        assert [one[0] for one in seat.fulfilled] == ["proposal-1"]
        assert seat.cards["proposal-2"].is_open  # the same tool with other arguments is another question
    finally:
        view.close()


@pytest.mark.threat(22)
def test_threat_22_a_grant_after_an_approval_is_no_wider_than_its_words() -> None:
    space = a_space(anna=ALL, bert=[])
    narrow = {"method": "tools/call", "params": {"name": "git_log", "arguments": {"repo": "."}}}
    payload = {"recipient": "bert", "capabilities": [{"kind": "mcp/request", "to": "git", "payload": narrow}]}
    said(space, "anna", id="g1", kind="capability/grant", payload=payload)

    def may(to: list[str] | None = None, **params: Any) -> bool:
        asked = {"method": "tools/call", "params": {"name": "git_log", "arguments": {"repo": "."}, **params}}
        address = {} if to is None else {"to": to}
        return verdict(said(space, "bert", kind="mcp/request", payload=asked, **address))[0] == "accepted"

    assert may(to=["git"])
    assert not may()  # a broadcast
    assert not may(to=["git", "files"])
    assert not may(to=["git"], name="git_push")
    assert not may(to=["git"], arguments={})
    assert not may(to=["git"], arguments={"repo": "/"})


FRAMES = [
    *(b"#stream-1#x", b"#stream-2#x", b"#stream-1##x", b"##stream-1#x"),
    *(b"#stream-1", b"#STREAM-1#x", b"#stream-01#x"),
]
DEEDS = ["write", "grant-write", "revoke-write", "transfer-ownership", "close", "leave"]


@pytest.mark.threat(23)
@given(deeds=some.lists(some.sampled_from(DEEDS), max_size=8))
def test_threat_23_only_who_may_write_now_is_heard_on_a_stream(deeds: list[str]) -> None:
    space = a_space(anna=ALL, bert=ALL, eve=ALL)
    said(space, "anna", id="q1", kind="stream/request", payload={"direction": "upload"})
    owner, granted, active, here = "anna", False, True, True

    def relayed(sender: str, data: bytes) -> bool:
        effects = space.step(FrameReceived(sender, data, False), NOW)
        return any(isinstance(one, Relay) for one in effects)

    for deed in deeds:
        if deed == "leave":
            space.step(Left("bert"), NOW)
            here, granted, active = False, False, active and owner != "bert"
        elif deed != "write" and active:
            payload = {"stream_id": "stream-1", "participant_id": "bert", "new_owner": "bert"}
            done = verdict(said(space, owner, kind=f"stream/{deed}", payload=payload))[0] == "accepted"
            granted = (granted or (done and deed == "grant-write")) and not (done and deed == "revoke-write")
            owner = "bert" if done and deed == "transfer-ownership" else owner
            active = not (done and deed == "close")
            assert done == (
                deed == "close"
                or (here and (deed, owner) != ("revoke-write", "bert"))
                or (not here and deed == "revoke-write")
            )
        writers = {owner, *(["bert"] if granted else [])} if active else set()
        for sender in ("anna", "bert", "eve", "not-joined-yet"):
            for data in FRAMES:
                good = data in (b"#stream-1#x", b"#stream-1##x")
                assert relayed(sender, data) == (good and sender in writers)


def test_every_threat_and_every_ruling_has_a_test() -> None:
    shown = read_report().shown
    assert [number for number in THREATS if ("threat", number) not in shown] == []
    assert [ruling for ruling in RULINGS if ("ruling", ruling) not in shown] == []
