"""What other rights would have allowed or denied is what a space says that judges every message under them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mew_lab.errors import ConfigError, JournalError
from mew_lab.log.branching import begin_branch
from mew_lab.log.journal import Journal
from mew_lab.log.log import Log, open_log
from mew_lab.log.replay import CAUSED, SNAPSHOT, Player, event_of, replay
from mew_lab.log.what_if import WhatIf
from mew_lab.protocol.permit import Capability
from mew_lab.space.core import Space
from mew_lab.space.events import Enrolled, Joined, Received, Record, outline
from mew_lab.space.opening import reopen
from mew_lab.space.rights import Held, Rights

from .stage import Stage, branch_of, hostile, keep, observed, says

LESS: list[dict[str, Any]] = [{"kind": "chat"}, {"kind": "mcp/request", "payload": {"method": "tools/list"}}]
MORE: list[dict[str, Any]] = [{"kind": "capability/*"}, {"kind": "mcp/*"}, {"kind": "participant/status"}]
SUPPOSED: list[dict[str, list[dict[str, Any]]]] = [
    {"bert": MORE},
    {"anna": LESS},
    {"anna": [{"kind": "**", "to": ["anna", "b*"]}], "dan": MORE, "cora": []},
]


def live(records: list[Record]) -> Log:
    return observed(records, space="demo")


Verdicts = dict[int, tuple[str, str]]


def brute_force(records: list[Record], supposed: dict[str, list[dict[str, Any]]]) -> tuple[Verdicts, int]:
    """Each message planned by the space of a full replay, while its sender holds the other rights; none committed."""
    player = Player("whole")
    other: Verdicts = {}
    judged = 0
    for record in records:
        if record.event == "received" and record.participant in supposed:
            judged += 1
        if record.event == "received" and record.participant in supposed and outline(record) is None:
            space = player.space
            member = space.state.members[record.participant]
            before = member.rights
            given = [Held(Capability.of(pattern)) for pattern in supposed[member.name]]
            base = [Held(Capability.of({"kind": "mcp/response"}))]
            member.rights = Rights([*given, *base, *(right for right in before.held if right.grant)])
            turn = space.plan(event_of(record), record.now)
            member.rights = before
            made = next(effect for effect in turn.effects if type(effect) is Record)
            if made.verdict != record.verdict:
                other[record.seq] = (made.verdict, made.code)
        player.take(record)
    return other, judged


def told(found: WhatIf) -> Verdicts:
    return {row.seq: (row.would, row.would_code) for row in found.rows}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("supposed", SUPPOSED, ids=["more", "less", "several"])
def test_each_message_alone_is_judged_as_a_space_judges_it(
    seed: int, supposed: dict[str, list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = hostile(seed, 300)
    expected, judged = brute_force(stage.records, supposed)
    log = open_log(keep(stage.records, tmp_path / "j.jsonl", rotate_at=150_000))
    monkeypatch.setattr("mew_lab.log.files.LARGE", 0)
    indexed = open_log(keep(stage.records, tmp_path / "indexed.jsonl", rotate_at=150_000))
    assert indexed.index.path is not None
    for one in (log, indexed, live(stage.records)):
        found = one.what_if(capabilities=supposed)
        assert told(found) == expected
        assert found.judged == judged
    by_seq = {record.seq: record for record in stage.records}
    for row in found.rows:
        record = by_seq[row.seq]
        assert (row.was, row.was_code, row.time) == (record.verdict, record.code, record.now)


def test_the_others_have_rows_at_all(tmp_path: Path) -> None:
    allowed = denied = 0
    for seed in range(3):
        found = live(hostile(seed, 300).records).what_if(capabilities=SUPPOSED[2])
        allowed, denied = allowed + len(found.allowed), denied + len(found.denied)
    assert allowed > 5 and denied > 20


@pytest.mark.parametrize("seed", range(3))
def test_exact_is_a_replay_with_other_enrolments(seed: int) -> None:
    supposed: dict[str, list[dict[str, Any]]] = {"anna": LESS, "bert": MORE}
    stage = hostile(seed, 300)
    space: Space = reopen(stage.records[0])
    expected: Verdicts = {}
    for record in stage.records[1:]:
        if record.event in CAUSED or outline(record) is not None:
            continue
        event = event_of(record)
        if isinstance(event, Enrolled) and event.participant in supposed:
            event = event._replace(capabilities=tuple(supposed[event.participant]))
        effects = space.step(event, record.now)
        made = next((effect for effect in effects if type(effect) is Record), None)
        if record.event == "received":
            verdict = (made.verdict, made.code) if made is not None else ("refused", "absent")
            if verdict[0] != record.verdict:
                expected[record.seq] = verdict
    assert expected
    assert told(live(stage.records).what_if(capabilities=supposed, exact=True)) == expected


def opened(records: list[Record]) -> tuple[Space, list[Record]]:
    """The space with which a journal begins, and the records behind its opening and snapshot."""
    player, at = Player("whole"), 0
    while not at or records[at].event == SNAPSHOT:
        player.take(records[at])
        at += 1
    return player.space, records[at:]


def replayed_alike(records: list[Record], supposed: dict[str, list[dict[str, Any]]]) -> Verdicts:
    """Each message as a space decides it in which the participants came with the other rights."""
    space, behind = opened(records)
    base = Held(Capability.of({"kind": "mcp/response"}))
    given: set[str] = set()

    def give() -> None:
        for name in supposed.keys() & space.state.members.keys() - given:
            given.add(name)
            member = space.state.members[name]
            own = [Held(Capability.of(pattern)) for pattern in supposed[name]]
            member.rights = Rights([*own, base, *(right for right in member.rights.held if right.grant)])

    give()
    found: Verdicts = {}
    for record in behind:
        if record.event in CAUSED or record.event == "opened" or outline(record) is not None:
            continue
        event = event_of(record)
        if isinstance(event, Enrolled) and event.participant in supposed:
            event = event._replace(capabilities=tuple(supposed[event.participant]))
            given.add(event.participant)
        effects = space.step(event, record.now)
        give()
        made = next((effect for effect in effects if type(effect) is Record), None)
        if record.event == "received":
            verdict = (made.verdict, made.code) if made is not None else ("refused", "absent")
            if verdict[0] != record.verdict:
                found[record.seq] = verdict
    return found


EXACTLY = {"anna": LESS, "bert": MORE, "guest-1": MORE, "guest-2": MORE, "guest-3": [{"kind": "*"}]}


@pytest.mark.parametrize("seed", range(4))
def test_a_journal_that_branched_and_was_resumed_is_judged_from_its_snapshot_on(
    seed: int, tmp_path: Path
) -> None:
    stage = hostile(seed, 300)
    until = Random(seed).randrange(100, len(stage.records))
    log = open_log(branch_of(stage, tmp_path, seed=seed, until=until))
    records = list(log.records)
    names = {record.participant for record in records} | {"anna"}
    supposed = {name: rights for name, rights in EXACTLY.items() if name in names}
    exact = log.what_if(capabilities=supposed, exact=True)
    assert told(exact) == replayed_alike(records, supposed) != {}
    assert exact.snapshot and "from the snapshot on" in str(exact)
    for rights in SUPPOSED:
        known = {name: patterns for name, patterns in rights.items() if name in names}
        alone = log.what_if(capabilities=known)
        assert (told(alone), alone.judged) == brute_force(records, known)
        assert not alone.snapshot


@pytest.mark.parametrize("seed", range(3, 9))
def test_exact_is_what_a_space_decides_with_invited_guests_too(seed: int) -> None:
    records = hostile(seed, 400).records
    names = {record.participant for record in records}
    supposed = {name: rights for name, rights in EXACTLY.items() if name in names}
    found = live(records).what_if(capabilities=supposed, exact=True)
    assert told(found) == replayed_alike(records, supposed) != {}
    assert not found.snapshot


def test_a_guest_that_was_invited_holds_the_other_rights_too(stage: Stage) -> None:
    stage.play(
        Received(says("space/invite", "i-1", {"participant_id": "gus"}), "c-anna"),
        Joined("c-gus", "gus", "gus", "memory"),
        Received(says("mcp/request", "m-5", {"method": "tools/list"}), "c-gus"),
    )
    log, at = live(stage.records), seqs(stage)
    for exact in (False, True):
        assert told(log.what_if(more={"gus": [{"kind": "mcp/request"}]}, exact=exact)) == {
            at["m-5"]: ("accepted", "")
        }
    # Where the invitation itself is refused, the guest never comes, and is known all the same.
    supposed = {"anna": [{"kind": "chat"}], "gus": [{"kind": "mcp/request"}]}
    assert told(log.what_if(capabilities=supposed, exact=True)) == {
        at["g-1"]: ("refused", "capability_violation"),
        at["m-2"]: ("refused", "capability_violation"),
        at["i-1"]: ("refused", "capability_violation"),
    }


def test_a_grant_of_the_snapshot_is_one_of_the_log(stage: Stage, tmp_path: Path) -> None:
    path = keep(stage.records, tmp_path / "first.jsonl")
    begin_branch([path], seqs(stage)["g-1"] + 1, target=tmp_path / "b.jsonl", now=stage.now)
    space = replay(tmp_path / "b.jsonl").space
    journal = Journal.resume(tmp_path / "b.jsonl")
    message = says("mcp/request", "m-9", {"method": "tools/list"})
    made = space.step(Received(message, "c-bert"), stage.now + timedelta(seconds=1))
    journal.append([one for one in made if type(one) is Record])
    journal.close()
    log = open_log(tmp_path / "b.jsonl")
    for exact in (False, True):
        found = log.what_if(grants={"g-1": None}, exact=exact)
        assert [(row.id, row.was, row.would) for row in found.rows] == [("m-9", "accepted", "refused")]


@pytest.fixture
def stage() -> Stage:
    return Stage(owner="anna").play(
        Enrolled("anna", ({"kind": "*"},)),
        Enrolled("bert", ({"kind": "chat"},)),
        Enrolled("cora", ({"kind": "chat"},)),
        *(Joined(f"c-{name}", name, name, "memory") for name in ("anna", "bert", "cora")),
        Received(says("mcp/request", "m-1", {"method": "tools/list"}), "c-bert"),
        Received(
            says("capability/grant", "g-1", {"recipient": "bert", "capabilities": [{"kind": "mcp/*"}]}),
            "c-anna",
        ),
        Received(says("mcp/request", "m-2", {"method": "tools/list"}), "c-bert"),
        Received(says("chat", "m-3", {"text": "hi"}), "c-bert"),
        Received(says("chat", "m-4", {"text": "hi"}), "c-cora"),
    )


def seqs(stage: Stage) -> dict[str, int]:
    return {
        json.loads(one.raw)["id"]: one.seq for one in stage.records if one.event == "received" and one.raw
    }


def test_both_verdicts_stand_side_by_side(stage: Stage) -> None:
    found = live(stage.records).what_if(capabilities={"bert": [{"kind": "mcp/request"}], "cora": "observer"})
    at = seqs(stage)
    assert [(row.seq, *row[2:9]) for row in found.rows] == [
        (at["m-1"], "bert", "m-1", "mcp/request", "refused", "capability_violation", "accepted", ""),
        (at["m-3"], "bert", "m-3", "chat", "accepted", "", "refused", "capability_violation"),
        (at["m-4"], "cora", "m-4", "chat", "accepted", "", "refused", "capability_violation"),
    ]
    assert [row.pattern for row in found.rows] == [
        '{"kind":"mcp/request"}',
        '{"kind":"chat"}',
        '{"kind":"chat"}',
    ]
    frame = found.frame
    assert list(frame.columns) == list(found.rows[0]._fields)
    assert str(frame["time"].dtype) == "datetime64[us, UTC]"
    assert [len(found.allowed), len(found.denied), found.judged] == [1, 2, 4]
    assert str(found).startswith(
        "1 message would have been allowed, 2 messages denied, of 4 messages judged. First-order: "
    )
    assert "each message is judged alone" in str(found)


def test_a_grant_that_was_never_given(stage: Stage) -> None:
    log = live(stage.records)
    at = seqs(stage)
    assert told(log.what_if(grants={"g-1": None})) == {at["m-2"]: ("refused", "capability_violation")}
    assert told(log.what_if(grants={"g-1": [{"kind": "mcp/request"}]})) == {}
    narrow = [{"kind": "mcp/request", "payload": {"method": "tools/call"}}]
    for exact in (False, True):
        found = log.what_if(grants={"g-1": narrow}, exact=exact)
        assert told(found) == {at["m-2"]: ("refused", "capability_violation")}
        assert found.exact is exact


def test_capabilities_besides_its_own(stage: Stage) -> None:
    log = live(stage.records)
    for exact in (False, True):
        found = log.what_if(more={"bert": [{"kind": "mcp/request"}]}, exact=exact)
        assert told(found) == {seqs(stage)["m-1"]: ("accepted", "")}


def test_consequences_are_followed_by_exact_alone(stage: Stage) -> None:
    log, at = live(stage.records), seqs(stage)
    supposed = {"anna": [{"kind": "chat"}]}
    assert told(log.what_if(capabilities=supposed)) == {at["g-1"]: ("refused", "capability_violation")}
    assert told(log.what_if(capabilities=supposed, exact=True)) == {
        at["g-1"]: ("refused", "capability_violation"),
        at["m-2"]: ("refused", "capability_violation"),
    }


@pytest.mark.ruling("R30")
def test_a_message_of_which_only_the_beginning_is_kept_is_counted(stage: Stage) -> None:
    stage.play(Received(says("mcp/request", "long", {"method": "x" * 6000}), "c-cora"))
    for exact in (False, True):
        found = live(stage.records).what_if(capabilities={"cora": [{"kind": "*"}]}, exact=exact)
        assert (found.unknown, found.rows) == (1, ())
        assert "1 refused message not known, since only the beginning is kept" in str(found)


def test_an_id_that_was_taken_is_refused_all_the_same(stage: Stage) -> None:
    stage.play(Received(says("mcp/request", "m-2", {"method": "tools/list"}), "c-cora"))
    found = live(stage.records).what_if(more={"cora": [{"kind": "mcp/*"}]})
    assert found.rows == ()


def test_nothing_changed_is_an_empty_table(stage: Stage) -> None:
    found = live(stage.records).what_if(capabilities={"bert": [{"kind": "chat"}]})
    assert found.rows == () and len(found.frame) == 0
    assert "was_code" in found.frame.columns
    assert found._repr_html_().startswith("<div><p>0 messages would have been allowed")


@pytest.mark.parametrize(
    ("supposed", "why"),
    [
        ({}, "nothing is supposed"),
        ({"capabilities": {"bert": "boss"}}, "there is no profile 'boss'; use"),
        ({"capabilities": {"bert": [{"knd": "x"}]}}, "knd"),
        ({"capabilities": {"bert": {"kind": "x"}}}, "a list of objects with a kind"),
        ({"capabilities": {"dora": []}}, "no participant 'dora' is in this log; it has anna, bert, cora"),
        ({"grants": {"g-9": None}}, "no grant 'g-9' is in this log"),
        ({"capabilities": ["bert"]}, "capabilities is a dict, such as {'participant': "),
        ({"capabilities": "bert"}, "capabilities is a dict"),
        ({"more": {3: [{"kind": "chat"}]}}, "more is a dict"),
        ({"more": {"bert": None}}, "a list of objects with a kind"),
        ({"grants": {5: None}}, "grants is a dict, such as {'id of a grant': "),
    ],
)
def test_what_cannot_be_supposed_is_said(stage: Stage, supposed: dict[str, Any], why: str) -> None:
    for exact in (False, True):
        with pytest.raises(ConfigError, match=why):
            live(stage.records).what_if(**supposed, exact=exact)


def test_a_log_that_cannot_be_replayed_says_so(stage: Stage) -> None:
    for exact in (False, True):
        with pytest.raises(JournalError, match="does not begin with the opening of a space"):
            live(stage.records[1:]).what_if(capabilities={"bert": []}, exact=exact)
        with pytest.raises(JournalError, match="holds no record"):
            live([]).what_if(capabilities={"bert": []}, exact=exact)


def test_a_cell_shows_no_markup_of_a_peer(stage: Stage) -> None:
    stage.play(Received(says("<b>", "<i>", {}), "c-bert"))
    page = live(stage.records).what_if(capabilities={"bert": [{"kind": "*"}]})._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and "<i>" not in page


def test_a_random_set_of_rights_never_ends_in_an_error(tmp_path: Path) -> None:
    dice = Random(5)
    stage = hostile(7, 150)
    kinds = ["*", "chat", "mcp/*", "/mcp.*/", "!chat", ["chat", "stream/*"], "**"]
    for _ in range(12):
        supposed = {
            name: [
                {
                    "kind": dice.choice(kinds),
                    **({"to": dice.choice(["*", "anna"])} if dice.random() < 0.3 else {}),
                }
                for _ in range(dice.randint(0, 3))
            ]
            for name in dice.sample(["anna", "bert", "cora", "dan"], 2)
        }
        assert (
            told(live(stage.records).what_if(capabilities=supposed))
            == brute_force(stage.records, supposed)[0]
        )


@pytest.mark.ruling("R33", "R34")
@pytest.mark.threat(22)
@pytest.mark.parametrize("edition", [3, 4])
@pytest.mark.parametrize("exact", [False, True])
def test_other_rights_are_read_by_the_rules_of_the_log(edition: int, exact: bool) -> None:
    def write(id: str, **arguments: Any) -> Received:
        payload = {"method": "tools/call", "params": {"name": "write", "arguments": arguments}}
        return Received(says("mcp/request", id, payload), "c-bert")

    stage = Stage(owner="anna", edition=edition).play(
        Enrolled("anna", ({"kind": "*"},)),
        Enrolled("bert", ({"kind": "chat"},)),
        *(Joined(f"c-{name}", name, name, "memory") for name in ("anna", "bert")),
        write("m-1", path="src/a"),
        write("m-2", path="src/../a"),
        write("m-3", path="src/a", force=True),
        write("m-4", path="docs/a"),
    )
    params = {"name": "write", "arguments": {"path": "src/**"}}
    opened = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": params}}
    told = {
        closed: live(stage.records).what_if(more={"bert": [opened | {"x-closed": closed}]}, exact=exact)
        for closed in (False, True)
    }
    allowed = {closed: [row.id for row in found.allowed] for closed, found in told.items()}
    if edition == 3:
        assert allowed == {False: ["m-1", "m-2", "m-3"], True: ["m-1", "m-2", "m-3"]}
    else:
        assert allowed == {False: ["m-1", "m-3"], True: ["m-1"]}
    ignored = "The rules of this log (edition 3) ignore x-closed: other arguments counted as allowed."
    assert told[False].remark == "" and told[True].remark == (ignored if edition == 3 else "")
    assert (ignored in str(told[True])) is (edition == 3)
