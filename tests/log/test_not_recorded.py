"""What a log in another form does not hold is unknown there: its answers equal those of the journal, or say so.

Each generated session is kept as a journal, and written in every form that can be read back.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.log.export import export_as_peers
from mew_lab.log.line import write_line
from mew_lab.log.log import Log, open_log
from mew_lab.log.receipts import CheckedRequest
from mew_lab.space.events import Enrolled, Joined, Received, Record

from ..conftest import examples
from .consent_sessions import play
from .stage import Stage, hostile, keep, says

GIVEN = {"configuration": "own", "grant": "grant", "invitation": "grant", "given": "grant"}


def written(records: list[Record], folder: Path) -> tuple[Log, Iterator[tuple[str, Log]]]:
    """The journal of a session, and the logs that are read from each of its exports."""
    own = open_log(keep(records, folder / "j.jsonl"))

    def exports() -> Iterator[tuple[str, Log]]:
        peers = folder / "peers"
        peers.mkdir()
        export_as_peers(folder / "j.jsonl", peers)
        yield "peers", open_log(peers)
        open_log(peers).save(folder / "saved.jsonl")
        yield "peers, saved", open_log(folder / "saved.jsonl")
        open_log(peers).to_parquet(folder / "peers.parquet")
        yield "peers, in Parquet", open_log(folder / "peers.parquet")
        open_log(peers).export_otlp(folder / "peers.otlp", content=True)
        yield "peers, as spans", open_log(folder / "peers.otlp")
        yield "history alone", open_log(peers / "envelope-history.jsonl")
        own.to_parquet(folder / "own.parquet")
        yield "Parquet", open_log(folder / "own.parquet")
        own.df.drop(columns=["payload"]).to_parquet(folder / "df.parquet")
        yield "a frame", open_log(folder / "df.parquet")
        own.df.drop(columns=["payload", "grant"]).to_parquet(folder / "part.parquet")
        yield "a frame without grants", open_log(folder / "part.parquet")
        own.export_otlp(folder / "own.otlp", content=True)
        yield "spans", open_log(folder / "own.otlp")
        own.export_otlp(folder / "bare.otlp")
        yield "spans without contents", open_log(folder / "bare.otlp")

    return own, exports()


def rows(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    return frame.to_dict("records")


def check_right(form: str, row: dict[Any, Any], true: dict[Any, Any], way: str) -> None:
    """The permission in a row: that of the journal, or unknown where the row says that it is."""
    about = form, row["id"], row["source"], true["source"], row["grant"], true["grant"]
    assert row["source"] in ("", true["source"]) or (row["source"] == "given") == (way == "grant"), about
    assert row["grant"] == true["grant"] or (row["grant"] == "" and row["source"] in ("", "given")), about
    if "given_by" in row:
        assert row["given_by"] in ("", true["given_by"]), about
    assert row["pattern"] == "" or json.loads(row["pattern"]) == json.loads(true["pattern"]), about


def check_frames(form: str, log: Log, own: Log) -> None:
    decisions, true = rows(log.decisions()), rows(own.decisions())
    if form == "spans without contents":
        [finding] = log.diagnose()
        assert "the contents of its messages are not recorded" in finding.sentence
        assert not decisions and "not recorded" in log.decisions().attrs["unseen"]
        assert all(pd.isna(row["uses"]) for row in rows(log.grants()))
        return
    assert [row["id"] for row in decisions] == [row["id"] for row in true], form
    for row, truth in zip(decisions, true, strict=True):
        way = GIVEN.get(truth["source"], truth["way"])
        check_right(form, row, truth, way)
        assert row["way"] in ("", truth["way"]), (form, row["id"], row["way"], truth["way"])
        for column in ("proposal", "decided_by", "proposer", "outcome", "edited", "reason", "to", "tool"):
            assert repr(row[column]) == repr(truth[column]), (form, row["id"], column)
        assert row["how"] in ("", truth["how"])
    uses = {row["id"]: row["uses"] for row in rows(own.grants())}
    assert [row["id"] for row in rows(log.grants())] == list(uses), form
    for row in rows(log.grants()):
        assert pd.isna(row["uses"]) or row["uses"] == uses[row["id"]], (form, row["id"], row["uses"])
    for row, truth in zip(rows(log.requests()), rows(own.requests()), strict=True):
        check_right(form, row, truth, "grant" if truth["grant"] else "own" if truth["pattern"] else "")


def check_audits(form: str, log: Log, own: Log, ids: list[str]) -> None:
    for id in ids:
        answer, true = log.audit(id), own.audit(id)
        assert (answer.right is None) == (true.right is None), (form, id)
        if answer.right is None or true.right is None:
            continue
        text, right = str(answer), answer.right
        if right.unknown or not right.pattern:
            assert "not recorded" in text, (form, id)
        if not right.unknown:
            assert right.grant == true.right.grant, (form, id)
            assert ("(configured)" in text.splitlines()[2]) == (not true.right.grant), (form, id, text)
        for origin in answer.grants:
            match = [one for one in true.grants if one.id == origin.id]
            assert [one.giver for one in match] == [origin.giver], (form, id)


def check_consents(form: str, log: Log, own: Log) -> None:
    """The places of the requests: those of the journal, but what a receipt would tell, which is said to be missing."""
    found, true = log.verify().consents, own.verify().consents
    has_notes = form == "Parquet"

    def ids(*lists: tuple[CheckedRequest, ...]) -> Counter[str]:
        return Counter(one.id for requests in lists for one in requests)

    if has_notes:
        assert (str(found), found.receipts) == (str(true), true.receipts)
        return
    assert (found.requests, found.receipts, found.consented, found.without) == (true.requests, 0, (), ()), (
        form
    )
    assert not found.elsewhere or "by whom is known, and not what was shown" in str(found)
    decided = ids(true.consented, true.without, true.reported, true.elsewhere)
    if form == "spans without contents":
        assert decided + ids(true.other_calls) <= ids(found.unknown), form
        assert all(count <= true.own_right.get(name, 0) for name, count in found.own_right.items())
        return
    assert ids(found.elsewhere) == decided, form
    assert ids(found.other_calls) == ids(true.other_calls), form
    assert sum(found.own_right.values()) + len(found.unknown) == sum(true.own_right.values()) + len(
        true.unknown
    )
    assert not found.unknown or "not recorded" in str(found)
    given, unknown = sum(found.granted.values()), sum(found.unrecorded.values())
    assert given <= sum(true.granted.values()) <= given + unknown + len(found.unknown), form
    assert not unknown or "it is not recorded whether by a grant" in str(found)


def messages(records: list[Record]) -> list[str]:
    """The ids of accepted messages, those that several messages have aside."""
    ids = [json.loads(one.raw)["id"] for one in records if one.raw is not None and one.verdict == "accepted"]
    return sorted(id for id in set(ids) if ids.count(id) == 1)


@pytest.mark.drawn
@pytest.mark.timeout(240)
@pytest.mark.req("P-3.6.8-3")
@given(seed=st.integers(0, 2**32), honest=st.booleans())
@settings(
    max_examples=examples(2), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.slow
def test_each_answer_from_an_export_is_that_from_the_journal_or_says_that_it_is_not_recorded(
    seed: int, honest: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    records = (play(seed, 18).stage if honest else hostile(seed, 36)).records
    own, exports = written(records, tmp_path_factory.mktemp("session"))
    ids = messages(records)[:40:3]
    for form, log in exports:
        check_frames(form, log, own)
        check_audits(form, log, own, ids)
        check_consents(form, log, own)


CALL = {"kind": "mcp/request", "payload": {"method": "tools/call"}}


def grants(*more: Received) -> Stage:
    stage = Stage(owner="ann").play(Enrolled("ann", ({"kind": "*"},)), Enrolled("bob", ({"kind": "chat"},)))
    stage.play(Joined("c1", "ann", "ann", "memory"), Joined("c2", "bob", "bob", "memory"))
    return stage.play(grant("g-1"), *more)


def grant(id: str) -> Received:
    payload = {"recipient": "bob", "capabilities": [CALL], "reason": "for the build"}
    return Received(says("capability/grant", id, payload, to=["bob"]), "c1")


def call(id: str) -> Received:
    return Received(says("mcp/request", id, {"method": "tools/call"}, to=["ann"]), "c2")


def read_peers(stage: Stage, folder: Path) -> Log:
    (folder / "peers").mkdir()
    export_as_peers(keep(stage.records, folder / "j.jsonl"), folder / "peers")
    return open_log(folder / "peers")


def test_a_call_by_a_grant_is_explained_by_the_grant_that_stood_in_a_log_of_the_peers(tmp_path: Path) -> None:
    log = read_peers(grants(call("r-1")), tmp_path)
    [row] = rows(log.decisions())
    assert (row["way"], row["source"], row["grant"]) == ("grant", "grant", "g-1")
    assert (row["given_by"], row["given_for"]) == ("ann", "for the build")
    assert rows(log.grants())[0]["uses"] == 1
    text = str(log.audit("r-1"))
    assert 'bob held {"kind":"mcp/request","payload":{"method":"tools/call"}} (by grant "g-1")' in text
    assert 'grant "g-1": capability/grant from ann to bob' in text


def test_where_two_grants_fit_the_log_of_the_peers_does_not_choose_one(tmp_path: Path) -> None:
    log = read_peers(grants(grant("g-2"), call("r-1")), tmp_path)
    [row] = rows(log.decisions())
    assert (row["way"], row["source"], row["grant"], row["given_by"]) == ("grant", "given", "", "")
    assert all(pd.isna(one["uses"]) for one in rows(log.grants()))
    assert "(granted; by whom is not recorded)" in str(log.audit("r-1"))


def test_a_revoked_grant_explains_nothing_that_came_later(tmp_path: Path) -> None:
    revoke = Received(says("capability/revoke", "v-1", {"grant_id": "g-1"}, to=["bob"]), "c1")
    log = read_peers(grants(revoke, grant("g-2"), call("r-1")), tmp_path)
    assert [row["grant"] for row in rows(log.decisions())] == ["g-2"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_journal_from_before_records_named_grants_does_not_say_that_a_permission_was_configured(
    packed: bool, tmp_path: Path
) -> None:
    """The first line of such a journal had no settings of its space, and its lines no chain."""
    path, lines = tmp_path / "old.jsonl", list[bytes]()
    for record in grants(call("r-1")).records:
        if record.event == "opened":
            about = json.dumps({"format": 1, "epoch": 7, "vantage": "gateway"})
            record = record._replace(detail=about)
        lines.append(write_line(record._replace(grant="")))
    path.write_bytes(b"".join(lines))
    if packed:
        path = path.with_name("old.jsonl.gz")
        path.write_bytes(gzip.compress(b"".join(lines)))
    own = open_log(path)
    own.export_otlp(tmp_path / "own.otlp", content=True)
    own.to_parquet(tmp_path / "own.parquet")
    own.save(tmp_path / "saved.jsonl")
    for log in (own, *(open_log(tmp_path / name) for name in ("own.otlp", "own.parquet", "saved.jsonl"))):
        [row] = rows(log.decisions())
        assert (row["way"], row["source"], row["grant"]) == ("", "", "")
        text = str(log.audit("r-1"))
        assert "whether it was configured or granted is not recorded" in text and "configured)" not in text
        assert "of 1 it is not recorded whether by a grant" in str(log.verify())
        assert all(pd.isna(one["uses"]) for one in rows(log.grants()))


@pytest.mark.parametrize("source", ["dynamic", "static", None, "else"])
def test_a_check_without_a_grant_in_sight_is_told_as_far_as_it_goes(
    source: str | None, tmp_path: Path
) -> None:
    """The log begins behind the grant; `matched_source` is what the other gateway states."""
    read_peers(grants(call("r-1")), tmp_path)
    history = tmp_path / "peers" / "envelope-history.jsonl"
    history.write_text("".join(one for one in history.read_text().splitlines(True) if '"g-1"' not in one))
    checks = tmp_path / "peers" / "capability-decisions.jsonl"
    lines = [json.loads(line) for line in checks.read_text().splitlines()]
    for line in lines:
        if line["envelope_id"] == "r-1":
            line["matched_source"] = source
    checks.write_text("".join(json.dumps(line) + "\n" for line in lines))
    log = open_log(tmp_path / "peers")
    [row] = rows(log.decisions())
    ways = {"dynamic": ("grant", "given"), "static": ("own", "configuration")}
    assert (row["way"], row["source"]) == ways.get(source or "", ("", ""))
    words = {"dynamic": "(granted; by whom is not recorded)", "static": "(configured)"}
    unknown = "(whether it was configured or granted is not recorded)"
    assert words.get(source or "", unknown) in str(log.audit("r-1"))
