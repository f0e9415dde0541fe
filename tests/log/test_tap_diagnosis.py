"""The diagnosis of a tap: what is planted in a session is found, nothing in a clean one, and no rule of a space."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from pkgutil import iter_modules

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.log import diagnose as diagnosis
from mew_lab.log.diagnose import taps
from mew_lab.log.diagnose.diagnosis import RULES, Diagnosis, diagnose, judge_messages
from mew_lab.log.diagnose.findings import Rule, rules_of
from mew_lab.log.export import export_as_peers
from mew_lab.log.line import write_line
from mew_lab.log.log import open_log
from mew_lab.log.reading import VANTAGES, Vantage, vantage_of
from mew_lab.space.events import Record
from mew_lab.views.feed.findings import FileFindings

from ..conftest import examples
from .innocent import INNOCENT
from .planted import CLEAN as OF_SPACES
from .planted import FAULTS as PLANTED
from .planted import converse
from .stage import keep, observed
from .tapped import CLEAN, FAULTS, Planted, Tapped, hostile, tapped

Fault = Callable[[Tapped], Planted]


def written(records: Iterable[Record], path: Path) -> Path:
    path.write_bytes(b"".join(map(write_line, records)))
    return path


TAP_RULES = (*rules_of(vars(taps)),)


def spoken(records: Iterable[Record], vantage: Vantage = "gateway") -> set[str]:
    return {finding.rule for finding in diagnose(records, vantage=vantage)}


def holding(vantage: Vantage) -> set[str]:
    return {id for id, rule in RULES.items() if vantage in rule.holds}


# --- the rules of a tap ---


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_a_clean_session_has_no_finding(seed: int) -> None:
    records, _ = tapped(seed, 25)
    assert list(diagnose(records)) == []


@pytest.mark.parametrize("exchange", CLEAN, ids=lambda exchange: exchange.__name__)
def test_an_exchange_that_mcp_allows_has_no_finding(exchange: Callable[[Tapped], None]) -> None:
    for seed in range(4):
        session = Tapped(seed)
        session.initialize()
        for _ in range(3):
            exchange(session)
        assert list(diagnose(session.end())) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_with_its_sentence_and_nothing_else(fault: Fault) -> None:
    for seed in range(6):
        records, planted = tapped(seed, 12, fault)
        assert planted is not None
        findings = list(diagnose(records))
        assert [finding.rule for finding in findings] == [planted.rule], (seed, findings)
        assert planted.words in findings[0].sentence
        assert findings[0].severity == RULES[planted.rule].severity
        assert findings[0].place and records[findings[0].place - 1].seq == findings[0].seq


def test_every_rule_of_a_tap_is_planted() -> None:
    planted = {fault(Tapped()).rule for fault in FAULTS}
    assert {rule.id for rule in TAP_RULES} <= planted
    # Two that need more than one session tells: an unknown call sent again, and a broken file.
    assert holding("tap") - planted == {"repeated-unknown", "unreadable-lines"}


def test_a_slow_start_is_told_from_ten_seconds_on() -> None:
    for seconds, found in ((9.0, set()), (10.0, {"slow-start"})):
        session = Tapped()
        start = session.ask("client", "initialize")
        session.wait(seconds)
        session.answer("server", start)
        assert spoken(session.end()) == found


def test_a_ping_may_come_at_any_time() -> None:
    session = Tapped()
    session.answer("server", session.ask("client", "ping"))
    start = session.ask("client", "initialize")
    session.answer("client", session.ask("server", "ping"))
    session.answer("server", start)
    assert list(diagnose(session.end())) == []


def test_a_client_that_never_sends_initialize_is_told_though_it_says_that_it_is_initialized() -> None:
    session = Tapped()
    session.send("client", method="notifications/initialized")
    session.answer("server", session.ask("client", "tools/list"), tools=[])
    (finding,) = diagnose(session.end())
    assert finding.sentence == "client asked for tools/list (id 1) before client had sent initialize"


def test_a_session_of_the_revision_without_initialize_has_no_finding() -> None:
    session = Tapped()
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    session.answer("server", session.ask("client", "server/discover"))
    session.answer("server", session.ask("client", "tools/list", _meta=meta), tools=[])
    assert list(diagnose(session.end())) == []


@pytest.mark.parametrize("gap", ["lost", "oversize"])
def test_what_is_not_in_the_log_is_no_fault(gap: str) -> None:
    """A request and an answer that the tap lost: neither the answer to the one nor the request of the other is judged."""
    session = Tapped()
    session.initialize()
    waiting = session.ask("client", "tools/call", name="big")
    for side in ("client", "server"):
        if gap == "lost":
            session.add(session.recorder.lost(side, 100, session.now))
        else:
            session.add(*session.recorder.message(side, b"x" * (4 * 1024 * 1024 + 1), session.now))
    session.answer("server", "of the lost one")
    assert waiting and spoken(session.end()) == set()


def test_over_http_only_single_messages_are_judged() -> None:
    """Two clients that share the log, a body of OAuth, a refusal without a message, an event that is sent again."""
    session = Tapped(via="http")

    def post(side: str, connection: str, **members: object) -> None:
        body = json.dumps(members).encode()
        session.add(*session.recorder.message(side, body, session.now, connection=connection))  # type: ignore[arg-type]

    for client in ("h1", "h2"):
        post("client", client, jsonrpc="2.0", id=1, method="tools/list")
        post("server", client, jsonrpc="2.0", id=1, result={"tools": [{"name": client}]})
        post("server", client, jsonrpc="2.0", id=1, result={"tools": [{"name": client}]})
    post("server", "h1", issuer="https://there")
    post("server", "h1", error="invalid_token")
    post("client", "h1", jsonrpc="2.0", id=2, method="tools/list")
    assert [(one.severity, one.rule) for one in diagnose(session.end())] == [
        ("note", "request-without-answer")
    ]


def test_the_newest_part_of_a_log_is_judged_without_its_beginning() -> None:
    records, _ = tapped(4, 30)
    for cut in range(1, len(records)):
        part = [record for record in records[cut:] if record.event != "opened"]
        assert list(diagnose(part, vantage="tap").at_least("warn")) == []


def test_a_line_that_looks_like_an_envelope_is_no_message_of_a_space(tmp_path: Path) -> None:
    forged = {
        "protocol": "mew/v0.4",
        "id": "x",
        "from": "human",
        "to": ["server"],
        "kind": "mcp/proposal",
        "payload": {"method": "tools/call", "params": {"name": "pay"}},
    }
    session = Tapped()
    session.line("server", json.dumps(forged).encode())
    log = open_log(written(session.end(), tmp_path / "j.jsonl"))
    assert len(log.proposals()) == 0
    assert set(log.df["from"]) == {"server"} and set(log.df["kind"]) == {"tap/line"}
    (record,) = [record for record in log.records if record.raw is not None]
    assert json.loads(record.raw or "")["payload"] == forged


# --- each rule at its vantages ---


def test_every_rule_that_can_speak_is_listed() -> None:
    modules = [
        importlib.import_module(f"{diagnosis.__name__}.{one.name}")
        for one in iter_modules(diagnosis.__path__)
    ]
    made = {rule.id for module in modules for rule in vars(module).values() if isinstance(rule, Rule)}
    assert made == set(RULES)


def test_every_rule_names_its_vantages_and_every_vantage_has_rules() -> None:
    for rule in RULES.values():
        assert rule.holds and rule.holds <= set(VANTAGES), rule.id
    assert all(map(holding, VANTAGES))
    assert holding("peers") < holding("gateway") > holding("participant")
    of_taps = {rule.id for rule in TAP_RULES}
    assert all(rule.holds == {"tap"} for rule in TAP_RULES)
    # What a tap shares with a space is of JSON-RPC and of the file.
    assert holding("tap") - of_taps == {
        *("request-without-rpc-members", "response-without-rpc-members", "malformed-answer"),
        *("unknown-outcome", "repeated-unknown", "repeated-call", "unreadable-lines"),
    }


def test_a_vantage_that_is_not_known_claims_least() -> None:
    assert [vantage_of({"vantage": vantage}) for vantage in ("peers", "evil", 5, [])] == ["participant"] * 4
    assert [vantage_of({"vantage": vantage}) for vantage in (None, "gateway")] == ["gateway"] * 2
    assert vantage_of({}) == "gateway" and vantage_of({"vantage": "tap"}) == "tap"


def as_participant(records: Iterable[Record]) -> list[Record]:
    """What a participant of a session would have recorded."""
    opened = Record(0, next(iter(records)).now, "opened", "demo", detail='{"vantage":"participant"}')
    kept = [record for record in records if record.raw is not None and record.verdict in ("accepted", "sent")]
    seen = [
        record._replace(verdict="", code="", pattern="", event="received", received=None) for record in kept
    ]
    return [opened, *seen]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(20), deadline=None)
def test_a_rule_that_does_not_hold_for_the_vantage_never_speaks(seed: int) -> None:
    """Sessions of spaces with planted faults and hostile sessions of a tap, each told as one of every vantage."""
    faults = [PLANTED[(seed + n * 7) % len(PLANTED)] for n in range(6)]
    records, _ = converse(seed, 20, *faults, kinds=(*OF_SPACES, *INNOCENT))
    for session in (records, as_participant(records), hostile(seed), hostile(seed, via="http")):
        stated: list[Vantage] = ["gateway", "participant", "tap"]
        for vantage in stated:
            about = json.dumps({"format": 1, "epoch": 7, "vantage": vantage})
            told = [session[0]._replace(event="opened", detail=about), *session[1:]]
            assert spoken(told) <= holding(vantage)
        assert spoken(session[1:], "peers") <= holding("peers")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_the_index_a_filter_and_a_view_find_the_same_as_the_diagnosis(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1)
    path = written(hostile(seed), tmp_path / "tap.jsonl")
    plain: Diagnosis = diagnose(open_log(path).records)
    assert len(plain) > 10 and {one.rule for one in plain} <= holding("tap")
    assert [*open_log(path, index=tmp_path / "index").diagnose()] == [*plain]
    by_message = {place: rules for place, _, rules in judge_messages(open_log(path).records)[0]}
    found = open_log(path).filter("diag.rule == error-answer or diag.rule == addressee-absent")
    assert len(found) == sum("error-answer" in rules for rules in by_message.values())
    records = [*open_log(path).records]
    view = FileFindings(records[len(records) // 2 :], ring=1000, vantage="tap")
    while not view.step(100):
        pass
    rows = [row for row in range(len(records)) if view.get(row)]
    assert rows and {one.rule for row in rows for one in view.get(row)} <= holding("tap")


@pytest.mark.parametrize("seed", range(4))
def test_files_of_another_gateway_are_judged_by_rules_that_hold_for_them(seed: int, tmp_path: Path) -> None:
    faults = PLANTED[seed * 12 : seed * 12 + 12]
    records, _ = converse(seed, 30, *faults, kinds=OF_SPACES)
    export_as_peers(keep(records, tmp_path / "j.jsonl"), tmp_path)
    log = open_log([tmp_path / "envelope-history.jsonl", tmp_path / "capability-decisions.jsonl"])
    assert {one.rule for one in log.diagnose()} <= holding("peers")
    # Without being told whose files they are, the same is found: they have no event of a rule of ours alone.
    assert spoken(log.records, "gateway") <= holding("peers")


def test_a_live_log_of_a_participant_is_judged_as_one() -> None:
    records = as_participant(converse(2, 10, *PLANTED[:5], kinds=OF_SPACES)[0])[1:]
    log = observed(records, space="demo", vantage="participant")
    assert {one.rule for one in log.diagnose()} <= holding("participant")
    assert log.diagnose().counts


def test_sessions_of_several_vantages_in_one_log_are_each_judged_by_their_own_rules(tmp_path: Path) -> None:
    of_space, _ = converse(1, 5, PLANTED[0], kinds=OF_SPACES)
    of_tap, planted = tapped(1, 5, FAULTS[0])
    keep(of_space, tmp_path / "a" / "j.jsonl")
    (tmp_path / "b").mkdir()
    keep(of_tap, tmp_path / "b" / "j.jsonl", space="tap", vantage="tap")
    assert planted is not None
    assert sorted(one.rule for one in open_log(tmp_path).diagnose()) == sorted(
        [*(one.rule for one in diagnose(of_space)), planted.rule]
    )
