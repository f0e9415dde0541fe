"""A log shows that each request for a proposal was decided before it was sent, or names those that were not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli import main
from mew_lab.log.frames import FrameMaker
from mew_lab.log.journal import Journal
from mew_lab.log.kept_heads import KeptHead, heads_path, keep_head
from mew_lab.log.log import open_log
from mew_lab.log.receipts import check_consents, read_receipt
from mew_lab.space.events import Enrolled, Event, Joined, Left, Noted, Received, Record

from .stage import START, Stage, keep, observed, says

CALL = {
    "method": "tools/call",
    "params": {"name": "write_file", "arguments": {"path": "/tmp/a", "text": "x"}},
}
OTHER_TOOL = {"method": "tools/call", "params": {"name": "remove", "arguments": {}}}
OTHER = {
    "method": "tools/call",
    "params": {"name": "write_file", "arguments": {"path": "/etc/passwd", "text": "x"}},
}


def digest_of(id: str, payload: dict[str, Any], to: tuple[str, ...] = ("fs",)) -> str:
    """The SHA-256 of what a person is shown: keys sorted, compact JSON, UTF-8 (§3.2.1)."""
    members = {"id": id, "from": "bot", "to": list(to), "payload": payload}
    text = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def stage() -> Stage:
    return Stage(owner="ada").play(
        Enrolled("ada", ({"kind": "*"},)),
        Enrolled("eve", ({"kind": "mcp/*"},)),
        Enrolled("bot", ({"kind": "chat"}, {"kind": "mcp/proposal"})),
        Enrolled("fs", ({"kind": "mcp/response"},)),
        *(Joined(f"c-{name}", name, name, "memory") for name in ("ada", "eve", "bot", "fs")),
    )


def proposes(
    id: str = "p-1", payload: dict[str, Any] | None = None, to: tuple[str, ...] = ("fs",)
) -> Received:
    return Received(says("mcp/proposal", id, payload or CALL, to=list(to)), "c-bot")


def decides(proposal: str = "p-1", request: str = "q-1", by: str = "ada", **changes: Any) -> Noted:
    note: dict[str, Any] = {
        "proposal": proposal,
        "decision": "approve",
        "by": "human",
        "digest": digest_of(proposal, CALL),
    }
    note |= {"on_screen": 2300, "request": request, "edited": False}
    note |= changes
    return Noted("decided", by, json.dumps({key: value for key, value in note.items() if value is not None}))


def sends(
    request: str = "q-1",
    payload: dict[str, Any] | None = None,
    about: str = "p-1",
    by: str = "ada",
    to: tuple[str, ...] = ("fs",),
) -> Received:
    body = {"jsonrpc": "2.0", "id": request, **(payload or CALL)}
    return Received(says("mcp/request", request, body, to=list(to), correlation_id=[about]), f"c-{by}")


def test_a_request_that_was_approved_as_it_was_shown_has_its_receipt() -> None:
    played = stage().play(proposes(), decides(), sends())
    found = check_consents(played.records)
    assert (found.requests, found.receipts, found.without, found.unused) == (1, 1, (), ())
    [one] = found.consented
    assert (one.id, one.sender, one.proposal) == ("q-1", "ada", "p-1")
    receipt = one.receipt
    assert receipt is not None
    assert (receipt.decider, receipt.note.digest, receipt.note.on_screen) == (
        "ada",
        digest_of("p-1", CALL),
        2300,
    )
    assert receipt.record.now == played.records[-2].now
    assert str(one).endswith(': request "q-1" of ada for "p-1": decided by ada')
    assert str(found).splitlines() == [
        "1 request in this log",
        "1 for proposals, each approved before it was sent, and sent as it was approved:",
        "  1 by ada: 1 by a click, on screen 2.3 to 2.3 s",
    ]


@pytest.mark.parametrize("on_screen", [0, 2300, 2300.0, 1e300, -1, True, "2300", None])
@pytest.mark.parametrize("typed", ["a1b2", True, "", None])
@pytest.mark.parametrize("policy", [{"name": "reads"}, {}, "reads", None])
def test_what_verify_and_the_frame_of_decisions_read_from_a_note_is_the_same(
    on_screen: object, typed: object, policy: object
) -> None:
    played = stage().play(proposes(), decides(on_screen=on_screen, typed=typed, policy=policy), sends())
    found = check_consents(played.records)
    frame = FrameMaker().frame("decisions", lambda done: played.records[done:])
    [how] = frame[frame["proposal"] == "p-1"]["how"]
    assert [one.receipt.note.how for one in found.consented if one.receipt] == ([how] if how else [])
    assert len(found.without) == (not how)


def test_an_edit_has_the_digest_of_what_was_sent() -> None:
    note = decides(digest=digest_of("p-1", OTHER), edited=True)
    found = check_consents(stage().play(proposes(), note, sends(payload=OTHER)).records)
    assert [one.id for one in found.consented] == ["q-1"]
    assert "1 by ada: 1 by a click, on screen 2.3 to 2.3 s, 1 edited" in str(found)


def test_a_target_that_the_person_chose_stands_in_the_receipt() -> None:
    note = decides(digest=digest_of("p-1", CALL, ()), to=["fs"])
    played = stage().play(proposes(to=()), note, sends())
    assert check_consents(played.records).without == ()
    others = stage().play(proposes(to=()), note, sends(to=("eve",)))
    [one] = check_consents(others.records).without
    assert one.why == "it was sent to others than those that were shown"


def test_a_policy_and_a_typed_approval_are_receipts_too() -> None:
    policy = decides(on_screen=None, policy={"name": "tests", "text": "approves all"})
    policy = policy._replace(detail=policy.detail.replace('"human"', '"policy tests"'))
    typed = decides("p-2", "q-2", digest=digest_of("p-2", CALL), on_screen=None, typed="abcdef12")
    played = stage().play(proposes(), policy, sends(), proposes("p-2"), typed, sends("q-2", about="p-2"))
    found = check_consents(played.records)
    assert [one.id for one in found.consented] == ["q-1", "q-2"]
    assert "1 by policy tests of ada: 1 by the policy" in str(found)
    assert "1 by ada: 1 typed" in str(found)
    [first, second] = [read_receipt(one) for one in played.records if one.event == "decided"]
    assert first is not None and second is not None
    assert (first.note.how, first.note.on_screen, second.note.how) == ("policy", None, "typed")


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([proposes(), sends()], "it has no receipt"),
        ([proposes(), sends(), decides()], "it has no receipt"),
        ([decides(), proposes(), sends()], "it has no receipt"),
        ([proposes(), decides(), sends("q-9")], 'another request was approved, "q-1"'),
        ([proposes(), decides(decision="reject", request=None), sends()], "ada rejected it"),
        ([proposes(), decides(), sends(by="eve")], "ada decided it, and eve sent it"),
        ([proposes(), decides(), sends(payload=OTHER)], "what was sent is not what was shown: its digest is "),
        ([proposes(), decides(edited=True), sends()], "its receipt says that it was edited"),
        (
            [proposes(), decides(digest=digest_of("p-1", OTHER)), sends(payload=OTHER)],
            "its receipt does not say that it was edited",
        ),
        ([proposes(), decides(on_screen=None), sends()], "its receipt does not say how it was shown"),
        (
            [proposes(), decides(), sends(payload={**CALL, "more": 1})],
            "what was sent is not what was shown: it differs beside the params",
        ),
        ([proposes(to=()), decides(digest=digest_of("p-1", CALL, ()), to=["fs"]), sends(to=("eve",))], "it was sent to others than"),
    ],
)  # fmt: skip
def test_a_request_without_a_receipt_that_fits_is_named(events: list[Any], why: str) -> None:
    found = check_consents(stage().play(*events).records)
    assert (found.requests, found.consented) == (1, ())
    [one] = found.without
    assert one.proposal == "p-1"
    assert one.why.startswith(why)
    assert str(one) in str(found)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"payload": {"method": "tools/list"}}, "it has another method"),
        ({"payload": {**CALL, "params": {"name": "delete", "arguments": {}}}}, "it names another tool"),
        ({"to": ("eve",)}, "it has other addressees"),
        ({"to": ()}, "it is addressed to nobody"),
    ],
)  # fmt: skip
def test_another_call_than_the_proposed_one_is_listed_as_such_even_with_a_receipt(
    request_: dict[str, Any], why: str
) -> None:
    found = check_consents(stage().play(proposes(), decides(), sends(**request_)).records)
    assert (found.requests, found.consented, found.without) == (1, (), ())
    [one] = found.other_calls
    assert (one.id, one.proposal, one.why) == ("q-1", "p-1", why)
    assert "1 for a proposal, but another call than the proposed one:" in str(found)


def test_a_call_by_the_right_of_its_sender_is_counted_apart() -> None:
    own = Received(says("mcp/request", "q-5", CALL, to=["fs"]), "c-ada")
    unknown = sends("q-6", about="p-77")
    refused = sends("q-7", by="bot")
    found = check_consents(stage().play(proposes(), own, unknown, refused, sends("q-8", by="eve")).records)
    assert (found.requests, found.own_right, found.consented) == (3, {"ada": 2}, ())
    assert [one.id for one in found.without] == ["q-8"]
    assert "2 by the sender's own right: ada 2" in str(found)


def test_a_log_that_begins_later_does_not_take_a_request_for_one_by_own_right() -> None:
    played = stage().play(
        sends("q-6", about="p-77"), Received(says("mcp/request", "q-7", CALL, to=["fs"]), "c-ada")
    )
    later = [record for record in played.records if record.seq > 4]
    participants = check_consents(played.records, complete=False)
    opened = played.records[0]
    branch = opened._replace(
        detail=json.dumps({**json.loads(opened.detail), "branched": {"journal": "i.jsonl"}})
    )
    branched = check_consents([branch, *played.records[1:]])
    for found in (check_consents(later), participants, branched):
        assert (found.requests, found.own_right) == (2, {"ada": 1})
        assert [(one.id, one.proposal) for one in found.unknown] == [("q-6", "p-77")]
        assert "1 that may be for proposals that are not recorded in this log:" in str(found)
    assert check_consents(played.records).unknown == ()


def test_an_approval_whose_request_was_not_relayed_is_told() -> None:
    found = check_consents(stage().play(proposes(), decides()).records)
    assert [one.note.request for one in found.unused] == ["q-1"]
    assert str(found).endswith('1 approval whose request was not relayed: "q-1"')


def test_one_receipt_serves_one_request_alone() -> None:
    again = stage().play(proposes(), decides(), sends())
    again.play(Joined("c2", "ada", "ada-2", "memory"), sends())  # ada joined anew: she may use her ids again
    found = check_consents(again.records)
    assert (found.requests, len(found.consented)) == (2, 1)
    assert [one.why for one in found.without] == ["its receipt covers an earlier request with this id"]


def test_a_proposal_beyond_those_that_are_held_is_never_taken_for_none() -> None:
    many = [proposes(f"p-{n}") for n in range(4)]
    found = check_consents(stage().play(*many, decides("p-0"), sends(about="p-0")).records, limit=2)
    [one] = found.without
    assert one.why.startswith("its proposal is too far back")


def test_runs_of_a_space_in_one_log_know_nothing_of_each_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        keep(stage().play(proposes(), decides(), sends()).records, tmp_path / name / "j.jsonl")
    keep(stage().play(sends()).records, tmp_path / "c" / "j.jsonl")
    keep(stage().play(proposes(), decides(request="q-9")).records, tmp_path / "d" / "j.jsonl")
    keep(stage().play(sends("q-9")).records, tmp_path / "e" / "j.jsonl")
    found = open_log(tmp_path).verify()
    assert (len(found.consents.consented), found.consents.own_right) == (2, {"ada": 2})
    assert [one.note.request for one in found.consents.unused] == ["q-9"]


def test_a_proposal_under_the_id_of_an_earlier_one_has_receipts_of_its_own() -> None:
    played = stage().play(
        proposes(), decides(), sends(), Left("c-bot", ""), Joined("c2", "bot", "bot", "memory")
    )
    again = Received(says("mcp/proposal", "p-1", CALL, to=["fs"]), "c2")
    played.play(again, Joined("c3", "ada", "ada-2", "memory"), sends())
    found = check_consents(played.records)
    assert [one.id for one in found.consented] == ["q-1"]
    assert [one.why for one in found.without] == ["it has no receipt"]


@pytest.mark.parametrize(
    "detail",
    ["", "[]", "{", "null", '{"proposal":1}', '{"proposal":"p-1","to":7,"on_screen":true,"edited":"yes","policy":[]}', "[" * 3000],
)  # fmt: skip
def test_a_damaged_note_is_no_receipt(detail: str) -> None:
    played = stage().play(proposes(), Noted("decided", "ada", detail), sends())
    assert len(check_consents(played.records).without) == 1


# --- with the chain ---


def written(folder: Path) -> tuple[Path, Path]:
    """A journal in which all is in order, and a file with the head that was kept of its end."""
    played = stage().play(
        proposes(),
        Received(says("chat", "m-1", {"text": "hi"}), "c-bot"),
        Received("{broken", "c-bot"),
        Received(says("mcp/request", "q-0", CALL, to=["fs"]), "c-bot"),
        Received(
            says("capability/grant", "g-1", {"recipient": "bot", "capabilities": [{"kind": "chat/*"}]}),
            "c-ada",
        ),
        decides(),
        sends(),
        Received(says("mcp/response", "s-1", {"result": {}}, to=["ada"], correlation_id=["q-1"]), "c-fs"),
        Received(says("chat", "m-2", {"text": "done"}), "c-bot"),
    )
    path = keep(played.records, folder / "j.jsonl")
    journal = Journal.resume(path)
    head = KeptHead(played.now, journal.head.seq, journal.head.chain.decode())
    journal.close()
    keep_head(folder / "heads", 7, head, journal.path)
    return path, folder / "heads"


Lines = list[bytes]


def line_with(lines: Lines, *parts: bytes) -> int:
    return next(at for at, line in enumerate(lines) if all(part in line for part in parts))


def edit(old: bytes, new: bytes, *where: bytes) -> Callable[[Lines], tuple[Lines, int]]:
    def change(lines: Lines) -> tuple[Lines, int]:
        at = line_with(lines, old, *where)
        return [*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]], at

    return change


def renumber(lines: Lines, by: int) -> Lines:
    done = []
    for line in lines:
        head, rest = line.split(b",", 1)
        done.append(b'{"seq":%d,' % (int(head[len(b'{"seq":') :]) + by) + rest)
    return done


def drop(lines: Lines) -> tuple[Lines, int]:
    at = line_with(lines, b'"m-1"')
    return [*lines[:at], *renumber(lines[at + 1 :], -1)], at


def swap(lines: Lines) -> tuple[Lines, int]:
    at = line_with(lines, b'"m-1"')
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]], at


def repeat(lines: Lines) -> tuple[Lines, int]:
    at = line_with(lines, b'"m-1"')
    return [*lines[: at + 1], lines[at], *lines[at + 1 :]], at + 1


def insert(line: Callable[[Lines], bytes]) -> Callable[[Lines], tuple[Lines, int]]:
    def change(lines: Lines) -> tuple[Lines, int]:
        at = line_with(lines, b'"event":"decided"')
        return [*lines[:at], line(lines), *renumber(lines[at:], 1)], at

    return change


TAMPERINGS: dict[str, Callable[[Lines], tuple[Lines, int]]] = {
    "a refusal becomes accepted": edit(b'"verdict":"refused"', b'"verdict":"accepted"'),
    "an accepted message becomes refused": edit(b'"verdict":"accepted"', b'"verdict":"refused"', b'"m-1"'),
    "another reason of a refusal": edit(b'"code":"capability_violation"', b'"code":"paused"'),
    "another capability": edit(b'{\\"kind\\":\\"chat\\"}', b'{\\"kind\\":\\"chat/*\\"}', b'"m-2"'),
    "another grant": edit(b'"g-1"', b'"g-2"'),
    "another participant": edit(b'"participant":"bot"', b'"participant":"eve"', b'"m-1"'),
    "another connection": edit(b'"connection":"c-bot"', b'"connection":"c-eve"', b'"m-1"'),
    "another way in": edit(b'"via":"memory"', b'"via":"http"', b'"m-1"'),
    "another runtime id": edit(b'"detail":"bot"', b'"detail":"b0t"', b'"joined"'),
    "another time": edit(b'"now":"2026', b'"now":"2027', b'"m-1"'),
    "other rights of who was enrolled": edit(b'\\"mcp/proposal\\"', b'\\"mcp/*\\"', b'"enrolled"'),
    "another text of a chat": edit(b"done", b"dOne"),
    "other arguments of an accepted proposal": edit(b"/tmp/a", b"/tmp/b", b"mcp/proposal"),
    "other arguments of the request": edit(b"/tmp/a", b"/tmp/b", b'"q-1"'),
    "another text of what the gateway said": edit(b'"participants"', b'"partecipants"'),
    "another digest in the decision": edit(digest_of("p-1", CALL)[:12].encode(), b"0" * 12),
    "another person in the decision": edit(b'"participant":"ada"', b'"participant":"eve"', b'"decided"'),
    "longer on screen": edit(b"2300", b"9300", b'"decided"'),
    "another event": edit(b'"event":"decided"', b'"event":"program"'),
    "a line left out": drop,
    "two lines swapped": swap,
    "a line twice": repeat,
    "a forged approval, the rest numbered anew": insert(
        lambda lines: lines[line_with(lines, b'"q-1"', b'"received"')].replace(b'"q-1"', b'"q-2"')
    ),
    "a decision put in": insert(
        lambda lines: lines[line_with(lines, b'"decided"')].replace(b'q-1', b'q-2')
    ),
}  # fmt: skip


@pytest.mark.threat(44)
@pytest.mark.parametrize("name", TAMPERINGS)
def test_each_tampering_is_found_with_and_without_the_kept_head(name: str, tmp_path: Path) -> None:
    path, heads = written(tmp_path)
    whole = open_log(path).verify(heads=heads)
    assert whole.ok, str(whole)
    assert open_log(path).verify().ok
    lines = path.read_bytes().splitlines(keepends=True)
    changed, at = TAMPERINGS[name](lines)
    assert changed != lines
    path.write_bytes(b"".join(changed))
    for kept in (heads, None):
        found = open_log(path).verify(heads=kept)
        [integrity] = found.integrity
        assert integrity.flaw is not None and integrity.flaw.line == at + 1
        assert not found.ok and not found.intact
        assert f"line {at + 1} of j.jsonl is not vouched for" in str(found)
        vouched = max((line["seq"] for line in map(json.loads, lines[:at])), default=0)
        assert f"rests on a journal that was changed, and nothing vouches for it behind #{vouched}" in str(
            found
        )


def rewrite(lines: Lines) -> Lines:
    """The whole journal with a chain of its own, as whoever knows how it is made can make it."""
    chain, done = b"0" * 64, []
    for line in lines:
        body = line[: line.index(b',"chain":"')]
        chain = sha256(chain + body).hexdigest().encode()
        done.append(body + b',"chain":"' + chain + b'"}\n')
    return done


@pytest.mark.threat(44)
@pytest.mark.parametrize("tampering", ["cut", "rewritten"])
def test_a_cut_tail_and_a_whole_rewrite_are_found_with_the_kept_head_alone(
    tampering: str, tmp_path: Path
) -> None:
    path, heads = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = lines[:-1] if tampering == "cut" else rewrite(drop(lines)[0])
    path.write_bytes(b"".join(changed))
    found = open_log(path).verify()
    assert found.ok
    assert "a journal that was cut or rewritten would look the same" in str(found)
    assert not open_log(path).verify(heads=heads).intact


def test_a_log_without_a_chain_says_so(tmp_path: Path) -> None:
    played = stage().play(proposes(), sends())
    log = observed(played.records, space="demo")
    found = log.verify()
    assert (found.integrity, found.intact, found.consented, found.status()) == ((), False, False, 3)
    assert str(found).startswith(
        "no chain: nothing vouches for this log\n1 request in this log\n1 for proposals, and nobody decided that"
    )
    log.save(tmp_path / "saved.jsonl")
    saved = open_log(tmp_path / "saved.jsonl").verify()
    assert not saved.intact
    assert "saved.jsonl is unchained" in str(saved)


def test_a_line_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    with path.open("ab") as file:
        file.write(b"garbage\n")
    found = open_log(path).verify()
    last = len(path.read_bytes().splitlines())
    assert found.faults == (f"j.jsonl: 1 line could not be read: line {last} is not a whole record",)
    assert not found.ok


def test_the_command_reports_and_its_exit_code_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, heads = written(tmp_path)
    assert main(["verify", str(path), "--heads", str(heads)]) == 0
    printed = capsys.readouterr().out
    assert "1 kept head found" in printed
    assert "1 for proposals, each approved before it was sent, and sent as it was approved:" in printed
    undecided = keep(stage().play(proposes(), sends()).records, tmp_path / "k.jsonl")
    with pytest.raises(SystemExit) as status:
        main(["verify", str(undecided)])
    assert status.value.code == 3
    assert 'request "q-1" of ada for "p-1": it has no receipt' in capsys.readouterr().out
    path.write_bytes(path.read_bytes().replace(b"done", b"dOne"))
    with pytest.raises(SystemExit) as status:
        main(["verify", str(path)])
    assert status.value.code == 1


@pytest.mark.parametrize("words", [("verify",), ("verify", "--unchained-ok"), ("journal", "verify")])
@pytest.mark.parametrize(
    ("name", "heads", "why"),
    [
        ("none.jsonl", "", "No such file"),
        ("folder", "", ""),
        ("text.jsonl", "", "is not a journal"),
        ("torn.parquet", "", "Cannot read"),
        ("j.jsonl", "none", "There is no file of heads"),
        ("j.jsonl", "folder", "Cannot read the heads"),
    ],
)
def test_what_cannot_be_read_is_not_verifiable_and_no_flaw(
    words: Sequence[str],
    name: str,
    heads: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.jsonl").write_text("hello\n")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1" + bytes(50))
    assert main([*words, name, *(["--heads", heads] if heads else [])]) == 2
    out, err = capsys.readouterr()
    assert not out and len(err.splitlines()) == 1
    assert err.startswith(f"mew-lab {words[0]}: ") and why in err and name in err.replace(heads or "-", name)


@pytest.mark.parametrize(
    ("records", "status", "unchained_ok", "words"),
    [
        (None, 0, 0, "vouches for them"),
        (-1, 2, 0, "so nothing vouches for them; the journal went on: a head was kept behind #28"),
        (10, 1, 1, "does not follow from the lines"),
    ],
)
def test_a_saved_copy_ends_as_the_kept_heads_tell(
    records: int | None,
    status: int,
    unchained_ok: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`records`: whole, without its last line, or without one in the middle, though it reaches the kept head."""
    monkeypatch.chdir(tmp_path)
    path, heads = written(tmp_path)
    open_log(path).save("saved.jsonl")
    lines = lines_of(Path("saved.jsonl"))
    if records is not None:
        del lines[records]
    Path("saved.jsonl").write_bytes(b"".join(lines))
    for more, expected in ((), status), (("--unchained-ok",), unchained_ok):
        with contextlib.ExitStack() as stack:
            if expected:
                ended = stack.enter_context(pytest.raises(SystemExit))
            main(["verify", "saved.jsonl", "--heads", str(heads), *more])
        if expected:
            assert ended.value.code == expected
        printed = capsys.readouterr()
        assert words in printed.out
        assert ("add --unchained-ok" in printed.err) is (expected == 2)


def test_another_call_than_the_proposed_one_has_the_exit_code_of_one_without_a_receipt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = keep(stage().play(proposes(), decides(), sends(to=("eve",))).records, tmp_path / "j.jsonl")
    with pytest.raises(SystemExit) as status:
        main(["verify", str(other)])
    assert status.value.code == 3
    assert 'request "q-1" of ada for "p-1": it has other addressees' in capsys.readouterr().out


# --- decided in another process, and the exit status ---


def far(name: str, connection: str = "c-far") -> Joined:
    """The participant joins from another process."""
    return Joined(connection, name, f"{name}-far", "websocket")


def sent_far(request: str, about: str = "p-1", payload: dict[str, Any] | None = None) -> Received:
    return sends(request, payload, about, "far")


def reports(proposal: str = "p-1", request: str = "q-1", by: str = "ada", **changes: Any) -> Noted:
    note: dict[str, Any] = {
        "about": "receipt",
        "proposal": proposal,
        "decision": "approve",
        "request": request,
    }
    note |= {"by": "human", "how": "typed", "digest": digest_of(proposal, CALL), "edited": False} | changes
    return Noted("reported", by, json.dumps({key: value for key, value in note.items() if value is not None}))


@pytest.mark.ruling("R42")
def test_a_decision_in_another_process_is_told_by_whom_and_not_what_was_shown(tmp_path: Path) -> None:
    played = stage().play(far("ada"), proposes(), sent_far("q-1"))
    path = keep(played.records, tmp_path / "j.jsonl")
    found = open_log(path).verify()
    assert [(one.id, one.sender) for one in found.consents.elsewhere] == [("q-1", "ada")]
    assert (found.consents.without, found.status(), found.ok) == ((), 0, True)
    assert str(found).endswith(
        "1 for proposals, decided elsewhere: by whom is known, and not what was shown:\n  1 by ada"
    )


@pytest.mark.ruling("R42")
@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({}, "typed by a person"),
        ({"how": "script", "digest": None}, "by a script"),
        ({"how": "click"}, "by a click"),
        ({"how": "click", "despite": ["rejected", "x", 7]}, "by a click, 1 despite=rejected"),
    ],
)  # fmt: skip
def test_a_reported_receipt_counts_as_the_account_of_its_sender_and_never_as_seen_on_screen(
    changes: dict[str, Any], how: str
) -> None:
    played = stage().play(far("ada"), proposes(), sent_far("q-1"), reports(on_screen=5000, **changes))
    found = check_consents(played.records)
    [one] = found.reported
    assert one.receipt is not None and one.receipt.note.on_screen is None
    assert (found.consented, found.elsewhere, found.without, found.requests) == ((), (), (), 1)
    assert str(found).splitlines()[1:] == [
        "1 for proposals, with receipts that the deciders reported themselves:",
        f"  1 by ada: 1 {how}",
    ]
    assert str(one).endswith("decided by ada, as it reported")
    frame = FrameMaker().frame("decisions", lambda done: played.records[done:])
    row = frame[frame["proposal"] == "p-1"].iloc[0]
    assert (row["how"], row["receipt"]) == (one.receipt.note.how, "reported")
    assert frame["on_screen"].isna().all()


@pytest.mark.ruling("R42")
@pytest.mark.parametrize(
    ("events", "place"),
    [
        ([far("ada"), proposes(), sent_far("q-1"), reports(by="eve")], "elsewhere"),
        ([far("ada"), proposes(), sent_far("q-1"), reports(request="q-9")], "elsewhere"),
        ([far("ada"), proposes(), sent_far("q-1"), reports(proposal="p-9")], "elsewhere"),
        ([far("ada"), proposes(), reports(), sent_far("q-1")], "elsewhere"),
        ([far("ada"), proposes(), sent_far("q-1", payload=OTHER), reports()], "without"),
        ([far("ada"), proposes(), sent_far("q-1"), reports(edited=True)], "without"),
        # What this participant decided here was another request for the same proposal.
        ([far("ada"), proposes(), decides(), sends(), sent_far("q-2")], "without"),
        ([far("ada"), proposes(), decides(decision="reject", request=None), sent_far("q-1")], "without"),
        # A request that needed no proposal, or that is another call, has no decision to report.
        ([far("ada"), proposes(), sent_far("q-1", about="p-9"), reports()], ""),
        ([far("ada"), proposes(), sent_far("q-1", about="p-9"), reports(proposal="p-9")], ""),
        ([far("ada"), proposes(), sends("q-1", OTHER_TOOL, by="far"), reports()], "other_calls"),
        ([far("ada"), proposes(), sends("q-1", by="far", to=("eve",)), reports()], "other_calls"),
        # Its lab runs here, so its decisions leave receipts.
        ([proposes(), sends("q-1")], "without"),
        ([proposes(), sends("q-1"), reports()], "reported"),
        ([far("ada"), proposes(), decides(), sends(), sent_far("q-2"), reports(request="q-2")], "reported"),
    ],
)  # fmt: skip
def test_a_report_serves_the_request_of_its_own_sender_alone(events: list[Any], place: str) -> None:
    played = stage().play(*events)
    found = check_consents(played.records)
    lists = {name: getattr(found, name) for name in ("elsewhere", "reported", "without", "other_calls")}
    assert {name: len(requests) for name, requests in lists.items()} == {
        name: int(name == place) for name in lists
    }
    frame = FrameMaker().frame("decisions", lambda done: played.records[done:])
    told = {row["id"] for row in frame.to_dict("records") if row["receipt"] == "reported"}
    placed = {one.id for name in ("reported", "without") for one in lists[name]}
    assert {one.id for one in found.reported} <= told <= placed
    assert not [row for row in frame.to_dict("records") if row["how"] and not row["receipt"]]


def unchained(path: Path) -> Path:
    path.write_bytes(b"".join(line[: line.index(b',"chain":"')] + b"}\n" for line in lines_of(path)))
    return path


def lines_of(path: Path) -> Lines:
    return path.read_bytes().splitlines(keepends=True)


def half_chained(path: Path) -> Path:
    lines = lines_of(path)
    head = [line[: line.index(b',"chain":"')] + b"}\n" for line in lines[:3]]
    path.write_bytes(b"".join([*head, *rewrite(lines[3:])]))
    return path


def changed(path: Path) -> Path:
    path.write_bytes(path.read_bytes().replace(b'"q-1"', b'"q-0"'))
    return path


DECIDED, NOBODY = (proposes(), decides(), sends()), (proposes(), sends())


@pytest.mark.parametrize(
    ("events", "change", "heads", "status", "unchained_ok"),
    [
        (DECIDED, None, "", 0, 0),
        ((far("ada"), proposes(), sent_far("q-1")), None, "", 0, 0),
        ((far("ada"), proposes(), sent_far("q-1"), reports()), None, "", 0, 0),
        (DECIDED, changed, "", 1, 1),
        (NOBODY, changed, "", 1, 1),
        (NOBODY, None, "", 3, 3),
        (NOBODY, unchained, "", 3, 3),
        ((proposes(), decides(), sends(to=("eve",))), None, "", 3, 3),
        (DECIDED, unchained, "", 2, 0),
        (DECIDED, half_chained, "", 2, 0),
        (DECIDED, None, "before", 2, 0),
        (DECIDED, None, "later", 0, 0),
        (NOBODY, None, "before", 3, 3),
    ],
)  # fmt: skip
def test_the_exit_status_is_the_first_that_holds(
    events: Sequence[Event],
    change: Callable[[Path], Path] | None,
    heads: str,
    status: int,
    unchained_ok: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`before` and `later`: when the lab kept a head of another run, and none of this one."""
    monkeypatch.chdir(tmp_path)
    path = keep(stage().play(*events).records, tmp_path / "j.jsonl")
    if change is not None:
        change(path)
    if heads:
        when = START + timedelta(days=-1 if heads == "before" else 1)
        keep_head(heads_path(tmp_path, "demo"), 99, KeptHead(when, 5, "a" * 64), path)
    command = ["verify", str(path)]
    for more, expected in ((), status), (("--unchained-ok",), unchained_ok):
        try:
            found = main([*command, *more])
        except SystemExit as ended:
            found = ended.code if isinstance(ended.code, int) else -1
        assert found == expected, more
    verified = open_log(path).verify()
    assert verified.ok is (status == 0)


def test_heads_that_a_person_names_and_of_which_none_is_of_the_journal_are_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = keep(stage().play(*DECIDED).records, tmp_path / "j.jsonl")
    heads = tmp_path / "heads"
    for keep_one in (heads.touch, lambda: keep_head(heads, 99, KeptHead(START, 5, "a" * 64), path)):
        keep_one()
        for verb in (["verify"], ["journal", "verify"]):
            assert (
                main([*verb, str(path), "--heads", str(heads), *["--unchained-ok"][: verb == ["verify"]]])
                == 2
            )
            assert f"heads in {heads}: none of them is of this journal" in capsys.readouterr().err


def test_a_file_that_only_says_that_it_continues_another_is_verified(tmp_path: Path) -> None:
    first = keep(stage().play(*DECIDED).records, tmp_path / "j.jsonl")
    forged = tmp_path / "j-9.jsonl"
    lines = lines_of(first)
    lines[0] = lines[0].replace(b'{\\"', b'{\\"previous\\":\\"j.jsonl\\",\\"', 1)
    forged.write_bytes(b"".join(rewrite(lines)).replace(b'"q-1"', b'"q-0"'))
    found = open_log([first, forged]).verify()
    assert len(found.integrity) == 2 and found.status() == 1, str(found)


def test_what_peers_wrote_stays_on_its_line_and_hides_nothing(tmp_path: Path) -> None:
    hostile = "\u202eada\n2 by the sender's own right\x1b[31m"
    records = []
    for seq, (sender, kind, id, about) in enumerate(
        [
            (hostile, "mcp/request", "q-0", []),
            (hostile, "mcp/proposal", "p-1", []),
            ("eve", "mcp/request", hostile, ["p-1"]),
        ],
        1,
    ):
        raw = says(kind, id, CALL, to=["fs"], correlation_id=about, **{"from": sender})
        records.append(Record(seq, START, "received", participant=sender, verdict="accepted", raw=raw))
    note = {"proposal": "p-1", "decision": "approve", "by": hostile, "request": hostile, "digest": hostile}
    records.insert(2, Record(2, START, "decided", participant=hostile, detail=json.dumps(note)))
    found = check_consents(records)
    assert (found.own_right, len(found.without), len(found.unused)) == ({hostile: 1}, 1, 1)
    assert len(str(found).splitlines()) == 5
    assert not {"\u202e", "\x1b"} & set(str(found))


def test_a_journal_of_the_peers_has_no_receipts(tmp_path: Path) -> None:
    first = {
        "timestamp": START.isoformat(),
        "event": "received",
        "id": "p-1",
        "envelope": json.loads(
            says("mcp/proposal", "p-1", CALL, to=["fs"], protocol="mew/v0.4", **{"from": "bot"})
        ),
    }
    second = {
        "timestamp": START.isoformat(),
        "event": "received",
        "id": "q-1",
        "envelope": json.loads(
            says(
                "mcp/request",
                "q-1",
                CALL,
                to=["fs"],
                correlation_id=["p-1"],
                protocol="mew/v0.4",
                **{"from": "ada"},
            )
        ),
    }
    path = tmp_path / "envelope-history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (first, second)))
    found = open_log(path).verify()
    assert (found.integrity, [one.why for one in found.consents.elsewhere]) == ((), ["it has no receipt"])
    assert (found.status(), found.status(unchained_ok=True)) == (2, 0)


def test_records_of_a_log_are_read_once(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    records: list[Record] = list(open_log(path).records)
    assert check_consents(iter(records)) == check_consents(records)
