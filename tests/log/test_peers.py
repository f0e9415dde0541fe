"""The TypeScript gateway's log files: one record an envelope, tokens gone, nothing told twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.log.peers import WINDOW, merge_decisions
from mew_lab.log.reading import read_journal
from mew_lab.space.events import Record

STAMP = "2026-11-21T20:22:12.121Z"
TOKEN = "secret-token-of-echo-agent"


def chat(name: str | None = "m-1", sender: str = "bot", **more: Any) -> dict[str, Any]:
    members = {"protocol": "mew/v0.4", "id": name, "ts": STAMP, "from": sender, "kind": "chat", **more}
    return {key: value for key, value in members.items() if value is not None}


def line(event: str, envelope: Any, participant: str = "bot", **metadata: Any) -> str:
    members: dict[str, Any] = {"timestamp": STAMP, "event": event}
    if isinstance(envelope, dict) and "id" in envelope:
        members["id"] = envelope["id"]
    members["envelope"] = envelope
    members |= {"participant": participant, "space_id": "s"}
    members |= {"direction": "outbound" if event == "delivered" else "inbound", "transport": "websocket"}
    if metadata:
        members["metadata"] = metadata
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False)


def history(folder: Path, *lines: str) -> list[Record]:
    path = folder / "envelope-history.jsonl"
    path.write_text("".join(one + "\n" for one in lines))
    return list(read_journal(path))


def test_the_deliveries_of_one_envelope_are_one_record(tmp_path: Path) -> None:
    one = chat(payload={"text": "hi"})
    lines = [line("received", one), *(line("delivered", one, to, source_participant="bot") for to in "abc")]
    (record,) = history(tmp_path, *lines)
    assert (record.seq, record.event, record.verdict, record.participant) == (
        1,
        "received",
        "accepted",
        "bot",
    )
    assert (record.space, record.via, record.to) == ("s", "websocket", ("a", "b", "c"))
    assert record.now.isoformat() == "2026-11-21T20:22:12.121000+00:00"
    assert record.raw == json.dumps(one, separators=(",", ":"))
    assert record.received is None


def test_the_text_is_the_one_that_stands_in_the_line(tmp_path: Path) -> None:
    raw = '{ "kind":"chat","id":"m-1", "n":1.10,"t":"\\u00e9 ,\\"envelope\\":{}" ,"from":"bot"}'
    text = line("received", {"id": "m-1"}).replace('{"id":"m-1"}', raw)
    (record,) = history(tmp_path, text)
    assert record.raw == raw


def test_a_line_that_is_not_compact_is_read_all_the_same(tmp_path: Path) -> None:
    spaced = json.dumps(json.loads(line("received", chat(payload={"text": "a b"}))))
    (record,) = history(tmp_path, spaced)
    assert json.loads(record.raw or "") == chat(payload={"text": "a b"})


def test_what_was_completed_keeps_both_texts(tmp_path: Path) -> None:
    partial = chat(None, payload={})
    del partial["protocol"]
    (record,) = history(
        tmp_path, line("received", partial), line("delivered", chat("given-1", payload={}), "a")
    )
    assert json.loads(record.raw or "")["id"] == "given-1"
    assert json.loads(record.received or "") == partial
    assert record.verdict == "accepted"


def test_a_message_of_another_kind_is_not_what_was_completed(tmp_path: Path) -> None:
    records = history(
        tmp_path, line("received", chat(None)), line("delivered", {**chat("x"), "kind": "stream/open"}, "a")
    )
    assert [record.verdict for record in records] == ["", "accepted"]


def test_the_gateways_own_messages_are_sent_to_their_receivers(tmp_path: Path) -> None:
    one = chat("presence-1", "system:gateway")
    (record,) = history(tmp_path, line("delivered", one, "a"), line("delivered", one, "b"))
    assert (record.event, record.verdict, record.to) == ("sent", "sent", ("a", "b"))
    assert record.participant == "system:gateway"


def test_one_id_with_two_texts_is_two_envelopes(tmp_path: Path) -> None:
    welcomes = [chat("welcome-1", "system:gateway", to=[who]) for who in ("a", "b")]
    records = history(tmp_path, *(line("delivered", one, one["to"][0]) for one in welcomes))
    assert [record.to for record in records] == [("a",), ("b",)]


def test_an_id_received_twice_is_two_envelopes(tmp_path: Path) -> None:
    one = chat()
    lines = [line("received", one), line("delivered", one, "a")] * 2
    assert [record.verdict for record in history(tmp_path, *lines)] == ["accepted", "accepted"]


def test_what_was_never_delivered_has_no_verdict(tmp_path: Path) -> None:
    (record,) = history(tmp_path, line("received", chat()))
    assert record.verdict == ""


@pytest.mark.parametrize("known", [True, False])
def test_a_rejected_envelope_is_refused_once(tmp_path: Path, known: bool) -> None:
    rejected = line("rejected", chat(), reason="capability_violation")
    (record,) = history(tmp_path, *([line("received", chat())] if known else []), rejected)
    assert (record.event, record.verdict, record.code) == ("received", "refused", "capability_violation")
    assert record.raw


def test_an_error_tells_which_envelope_was_refused(tmp_path: Path) -> None:
    error = chat("error-1", "system:gateway", to=["bot"], correlation_id=["m-1"])
    records = history(
        tmp_path,
        line("received", chat()),
        line("delivered", error, "bot", reason="capability_violation", source_envelope="m-1"),
    )
    assert [record.verdict for record in records] == ["refused", "sent"]
    assert records[0].code == "capability_violation"


@pytest.mark.threat(1)
@pytest.mark.parametrize(
    "envelope",
    [
        {"type": "join", "space": "s", "token": TOKEN, "participantId": "echo"},
        {"kind": "system/join", "payload": {"space": "s", "token": TOKEN, "participantId": "echo"}},
    ],
)
def test_a_join_is_told_without_its_text(tmp_path: Path, envelope: dict[str, Any]) -> None:
    (record,) = history(tmp_path, line("received", envelope, "echo-agent"))
    assert (record.event, record.participant, record.detail) == ("joined", "echo-agent", "echo")
    assert record.raw is None
    assert TOKEN not in repr(record)


@pytest.mark.threat(1)
def test_the_token_of_an_invite_is_masked(tmp_path: Path) -> None:
    ack = chat("a-1", "system:gateway", payload={"token": TOKEN, "participant_id": "new"})
    (record,) = history(tmp_path, line("delivered", ack, "inviter"))
    assert TOKEN not in repr(record)
    assert json.loads(record.raw or "")["payload"] == {"token": "tok_…gent", "participant_id": "new"}
    assert json.loads(record.raw or "")["id"] == "a-1"


@pytest.mark.threat(1)
def test_a_short_token_shows_nothing_of_itself(tmp_path: Path) -> None:
    (record,) = history(tmp_path, line("received", chat(token="hunter2")))
    assert "hunter2" not in repr(record)
    assert "ter2" not in repr(record)


def test_deliveries_are_looked_for_over_a_window_only(tmp_path: Path) -> None:
    others = [line("received", chat(f"o-{n}")) for n in range(WINDOW + 1)]
    near = history(tmp_path, line("received", chat()), *others[: WINDOW - 1], line("delivered", chat(), "a"))
    assert near[0].verdict == "accepted"
    far = history(tmp_path, line("received", chat()), *others, line("delivered", chat(), "a"))
    assert (far[0].verdict, far[-1].verdict) == ("", "accepted")
    assert len(far) == len(near) + 3


@pytest.mark.threat(32)
@pytest.mark.parametrize(
    "broken",
    [
        "x",
        "{}",
        '{"timestamp":5,"event":"received","envelope":{}}',
        '{"timestamp":"never","event":"received","envelope":{}}',
        line("received", 7),
        line("received", None),
        '{"timestamp":"2026-11-21T20:22:12Z","event":"received","envelope":{"token":"x","kind":"\\ud800"}}',
        '{"timestamp":"2026-11-21T20:22:12Z","event":"received","envelope":'
        + '{"a":' * 5000
        + "1"
        + "}" * 5001,
    ],
)
def test_a_broken_line_is_reported_in_its_place(tmp_path: Path, broken: str) -> None:
    records = history(tmp_path, line("received", chat("m-1")), broken, line("received", chat("m-2")))
    assert [record.event for record in records] == ["received", "unreadable", "received"]
    assert records[1].detail == "line 2 is not a whole record"


@pytest.mark.threat(32)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.builds(
            line,
            st.sampled_from(["received", "delivered", "rejected", "other"]),
            st.dictionaries(
                st.sampled_from(["id", "from", "kind", "payload", "token", "type", "to"]),
                st.recursive(
                    st.none()
                    | st.integers()
                    | st.sampled_from(["m-1", "bot", "join", "system/join", "gateway"]),
                    lambda inner: (
                        st.lists(inner, max_size=2)
                        | st.dictionaries(st.sampled_from(["token", "participantId"]), inner)
                    ),
                ),
            ),
            st.sampled_from(["bot", "a", ""]),
            source_envelope=st.none() | st.integers() | st.just("m-1"),
        ),
        max_size=6,
    )
)
def test_no_members_of_any_type_raise(tmp_path: Path, lines: list[str]) -> None:
    records = history(tmp_path, line("received", chat()), *lines)
    assert len(records) <= len(lines) + 1


def check(name: str, result: str, participant: str = "bot", **more: Any) -> str:
    members = {
        "timestamp": STAMP,
        "event": "capability_check",
        "envelope_id": name,
        "participant": participant,
    }
    members |= {"space_id": "s", "result": result, "required_capability": "chat"}
    return json.dumps({**members, **more, "metadata": {"source": "websocket", "transport": "websocket"}})


def decisions(folder: Path, *lines: str) -> list[Record]:
    path = folder / "capability-decisions.jsonl"
    path.write_text("".join(one + "\n" for one in lines))
    return list(read_journal(path))


def test_a_decision_says_what_allowed_it(tmp_path: Path) -> None:
    allowed, denied, broken = decisions(
        tmp_path,
        check("m-1", "allowed", matched_capability={"kind": "chat"}, matched_source="static"),
        check("m-2", "denied"),
        "[]",
    )
    assert (allowed.event, allowed.verdict, allowed.pattern) == ("checked", "accepted", '{"kind":"chat"}')
    assert json.loads(allowed.detail) == {
        "envelope_id": "m-1",
        "required_capability": "chat",
        "matched_source": "static",
        "source": "websocket",
        "transport": "websocket",
    }
    assert (denied.verdict, denied.code, denied.pattern) == ("refused", "capability_violation", "")
    assert (broken.event, broken.detail) == ("unreadable", "line 3 is not a whole record")


def test_history_and_decisions_together_tell_each_thing_once(tmp_path: Path) -> None:
    told = history(
        tmp_path,
        line("received", chat("m-1")),
        line("rejected", chat("m-2"), reason="capability_violation"),
        line("received", chat("m-4")),
    )
    made = decisions(
        tmp_path,
        check("m-1", "allowed", matched_capability={"kind": "chat"}),
        check("m-2", "denied").replace("12.121Z", "12.999Z"),
        check("m-3", "denied").replace("12.121Z", "13.000Z"),
        "broken",
    )
    merged = list(merge_decisions(told, made))
    assert [(one.event, one.verdict, one.raw is not None) for one in merged] == [
        ("received", "accepted", True),
        ("received", "refused", True),
        ("received", "", True),
        ("received", "refused", False),
    ]
    assert merged[0].pattern == '{"kind":"chat"}'
    assert json.loads(merged[3].detail)["envelope_id"] == "m-3"


def test_a_refusal_stands_where_it_happened(tmp_path: Path) -> None:
    later = line("received", chat("m-9")).replace("12.121Z", "14.000Z")
    told = history(tmp_path, line("received", chat("m-1")), later)
    made = decisions(tmp_path, check("m-3", "denied").replace("12.121Z", "13.000Z"))
    assert [one.verdict for one in merge_decisions(told, made)] == ["", "refused", ""]


@pytest.mark.trap("T-27")
def test_every_recorded_session_is_read_whole(shared: Path) -> None:
    sessions = sorted((shared / "captures").iterdir())
    assert len(sessions) == 10
    for session in sessions:
        lines = (session / "envelope-history.jsonl").read_text().splitlines()
        texts: dict[str, dict[str, str]] = {"received": {}, "delivered": {}}
        for text in lines:
            members = json.loads(text)
            if "id" in members["envelope"]:
                exact = json.dumps(members["envelope"], separators=(",", ":"), ensure_ascii=False)
                texts[members["event"]][members["id"]] = exact
        expected = Counter({**texts["received"], **texts["delivered"]}.values())
        reading = read_journal(session / "envelope-history.jsonl")
        records = list(reading)
        assert (reading.torn, reading.unreadable) == (False, 0)
        assert Counter(one.raw for one in records if one.raw is not None) == expected
        joins = [text for text in lines if '"type":"join"' in text]
        assert len([one for one in records if one.event == "joined"]) == len(joins)
        secrets = [json.loads(text)["envelope"]["token"] for text in joins]
        assert not [one for one in records for secret in secrets if secret in repr(one)]
