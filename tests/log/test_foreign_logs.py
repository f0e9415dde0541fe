"""All verbs and charts give the same answers in each form of a coding agent's log, and bad input loses nothing silently."""

from __future__ import annotations

import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import JournalError
from mew_lab.log import unpacked
from mew_lab.log.log import Log, open_log
from mew_lab.space.events import Record

from .agent_sessions import claude_story, codex_story, damaged, sub_agent
from .foreign_logs import (
    ANSWER,
    CALLS,
    FORMS,
    PROMPT,
    SECONDS,
    inspect_log,
    members_of,
    otlp_lines,
    spans,
    zipped,
)


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(form: str, folder: Path) -> tuple[Log, Path]:
    path = FORMS[form](folder)
    return open_log(path), path


def test_each_form_has_the_same_calls_prompts_and_answers(form: str, tmp_path: Path) -> None:
    log, path = opened(form, tmp_path)
    assert (log.vantage, log.faults) == ("agent", ())
    calls = log.tool_calls()
    assert calls["tool"].tolist() == [tool for _, tool, _, _ in CALLS]
    assert calls["state"].tolist() == ["failed" if failed else "answered" for *_, failed in CALLS]
    if form != "codex old":  # which has no times
        assert calls["latency"].tolist() == [
            pytest.approx(SECONDS + 0.5 if form.startswith("ins") else SECONDS)
        ] * 4 or (form.startswith("ins") and calls["latency"].tolist() == [pytest.approx(SECONDS)] * 4)
    said = [message["payload"]["text"] for message in log if message["kind"] == "chat"]
    assert said == [PROMPT, ANSWER]
    arguments = [m["payload"]["params"]["arguments"] for m in log if m["kind"] == "mcp/request"]
    assert arguments == [{"bed": bed} for _, _, bed, _ in CALLS]
    answers = [m["payload"]["result"]["content"][0]["text"] for m in log if m["kind"] == "mcp/response"]
    assert answers == ["no spade", "no spade", "no spade", "wet"]
    asked = calls["asked"].isna().tolist()
    assert asked == [not form.startswith("inspect")] * 4  # only there the file has decisions
    assert log.proposals()["decided_by"].tolist() == ["anna"] * 4 * form.startswith("inspect")
    assert set(log.verdicts()["verdict"]) <= {""}
    assert [*path.parent.iterdir()] == [path]


def test_all_verbs_work_on_each_form(form: str, tmp_path: Path) -> None:
    log, _ = opened(form, tmp_path)
    assert "repeated-failure" in {one.rule for one in log.diagnose()}
    followed = log.follow("c4")
    assert "peas" in followed.to_markdown() and "wet" in followed.to_markdown()
    assert len(log.filter('kind == "mcp/request" and tool == "dig"').df) == 3
    assert PROMPT in log.select().to_markdown()
    for name in ("rate", "latency", "talk", "decisions", "tokens", "usage", "cost"):
        assert getattr(log.charts, name)().svg().startswith("<svg")
    if form not in ("codex old",):
        assert "No tokens" not in str(log.charts.usage())
    log.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "dig" in page and "no spade" in page
    assert log.at(len([*log.records])).notes
    assert "no chain" in str(log.verify()) or "unchained" in str(log.verify())
    assert len(log.select("c4").to_jsonl().splitlines()) == 1
    copy = tmp_path / "copy.jsonl"
    log.save(copy)
    assert [*open_log(copy)] == [*log]


def test_each_part_of_an_evaluation_log_is_kept(tmp_path: Path) -> None:
    whole = inspect_log(samples=3)
    whole["samples"][1]["events"].insert(
        2, {"event": "hologram", "timestamp": "2026-11-03T09:00:00Z", "n": float("nan")}
    )
    path = tmp_path / "log.json"
    path.write_text(json.dumps(whole, indent=2))
    log = open_log(path)
    kept = [json.loads(one.received) for one in log.records if one.received is not None]
    events = [one["data"] for one in kept if one["inspect"] == "event"]
    expected = [event for sample in whole["samples"] for event in sample["events"]]
    assert json.dumps(events) == json.dumps(expected)
    assert [one["data"]["id"] for one in kept if one["inspect"] == "sample"] == ["a0", "a1", "a2"]
    assert len(kept) == 1 + 3 + len(expected)
    assert log.faults == (
        "log.json: 1 line of types that are not known here, kept as they are: hologram (1)",
    )
    calls = log.tool_calls()
    assert Counter(calls["agent"]) == {f"sample-a{n}-1": 4 for n in range(3)}
    assert len(set(calls["id"])) == 12  # though each sample numbers its calls anew
    assert calls["latency"].notna().all()


def test_a_span_of_an_unknown_kind_is_counted_and_one_of_another_library_is_kept(tmp_path: Path) -> None:
    path = otlp_lines(tmp_path)
    some = spans()[0]
    some["attributes"] = [{"key": "gen_ai.operation.name", "value": {"stringValue": "dream"}}]
    with path.open("a") as file:
        file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [some]}]}]}) + "\nno JSON\n")
    log = open_log(path)
    lines = path.read_text().splitlines()
    assert [one.received for one in log.records if one.received] == lines[:-1]
    assert Counter(one.event for one in log.records)["unknown"] == 1
    assert [one.detail for one in log.records if one.event == "unknown"] == ["dream"]
    assert any("span of garden: GET" in one.detail for one in log.records)
    assert any("1 line could not be read" in fault for fault in log.faults)
    assert any("dream" in fault for fault in log.faults)


@pytest.mark.parametrize(
    ("form", "ends"),
    [
        *((form, 100) for form in ("claude", "codex", "otlp")),
        *(
            pytest.param(form, ends, marks=pytest.mark.slow)
            for form, ends in (("claude", 10**6), ("codex", 10**6), ("otlp", 1500))
        ),
    ],
)
def test_a_file_of_lines_that_ends_at_any_byte_loses_no_whole_line(
    form: str, ends: int, tmp_path: Path
) -> None:
    data = FORMS[form](tmp_path).read_bytes()
    path, step = tmp_path / "cut.jsonl", max(1, len(data) // ends)
    for end in [*range(1, min(ends, len(data))), *range(ends, len(data), step)]:
        path.write_bytes(data[:end])
        whole = data[:end].count(b"\n")
        try:
            log = open_log(path)
            records = [*log.records]
        except JournalError as fault:
            assert not whole, str(fault)
            continue
        kept = sum(one.received is not None for one in records)
        unread = sum(one.event == "unreadable" for one in records)
        rest = data[:end].rpartition(b"\n")[2]
        is_whole = bool(rest) and _is_json(rest)
        assert kept + unread == whole + is_whole, end
        assert bool(rest and not is_whole) == any("torn" in fault for fault in log.faults), end


def _is_json(data: bytes) -> bool:
    try:
        return type(json.loads(data)) is dict
    except ValueError:
        return False


def test_nothing_of_an_indented_request_is_lost(tmp_path: Path) -> None:
    empty = {"resource": {"attributes": []}, "scopeSpans": []}
    whole = {
        "resourceSpans": [empty, {"scopeSpans": [{"spans": spans()[:2]}, {"spans": []}, 7]}, "x"],
        "more": [1],
    }
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(whole, indent=2))
    kept = [json.loads(one.received)["resourceSpans"][0] for one in open_log(path).records if one.received]
    one, other = spans()[:2]
    parts = [{"scopeSpans": [part]} for part in ({"spans": [one]}, {"spans": [other]}, {"spans": []}, 7)]
    assert kept == [empty, *parts, "x"]


@pytest.mark.parametrize("form", ["inspect", "inspect eval", "inspect zstd", "otlp indented"])
def test_a_log_in_one_piece_that_is_cut_or_changed_says_so(form: str, tmp_path: Path) -> None:
    path = FORMS[form](tmp_path)
    data = path.read_bytes()
    whole = [*open_log(path)]
    cut = tmp_path / f"cut{path.suffix}"
    for end in [*range(1, 20), *range(20, len(data), max(1, len(data) // 30))]:
        cut.write_bytes(data[:end])
        try:
            log = open_log(cut)
            assert log.faults or [*log] == whole, end
        except JournalError as fault:
            assert str(cut) in str(fault)
    for at in range(0, len(data), max(1, len(data) // 30)):
        cut.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            log = open_log(cut)
            log.tool_calls()
        except JournalError as fault:
            assert str(cut) in str(fault)


def test_a_bomb_in_an_archive_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members_of(inspect_log()).items():
            archive.writestr(name, data)
        archive.writestr("samples/zeros_epoch_1.json", b'"' + b"0" * 40_000_000 + b'"')
    monkeypatch.setattr(unpacked, "MOST_PIECE", 1_000_000)
    with pytest.raises(JournalError, match=r"samples/zeros_epoch_1\.json in it has more than"):
        open_log(path)
    monkeypatch.undo()
    with pytest.raises(JournalError, match="it gives more than 9 MiB"):
        open_log(path, most=10_000_000)
    # One member, named a thousand times.
    data = json.dumps(inspect_log()["samples"][0]).encode() + b" " * 100_000
    packed = zipped({"header.json": (b"{}", b"{}", 0), "samples/a_epoch_1.json": (data, data, 0)})
    central = packed.index(b"PK\x01\x02")
    entry = packed[packed.index(b"PK\x01\x02", central + 4) : packed.rindex(b"PK\x05\x06")]
    count = 1000
    end = packed[packed.rindex(b"PK\x05\x06") :]
    size = packed.rindex(b"PK\x05\x06") - central + len(entry) * count
    end = end[:8] + (count + 2).to_bytes(2, "little") * 2 + size.to_bytes(4, "little") + end[16:]
    path.write_bytes(packed[: packed.rindex(b"PK\x05\x06")] + entry * count + end)
    with pytest.raises(JournalError, match="members of it stand in one place"):
        open_log(path)
    spaces = b"{}" + b" " * 100_000_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", spaces)
    with pytest.raises(JournalError, match="its members give more than 200 times what they take"):
        open_log(path)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda data: data.replace(b"PK\x03\x04", b"PK\x03\x05"), "is not a journal|Cannot unpack"),
        (lambda data: data.replace((93).to_bytes(2, "little") + b"\0\0\0\0", (12).to_bytes(2, "little") + b"\0\0\0\0"), "not known here"),
        (lambda data: data.replace(b"PK\x01\x02\x14\0\x14\0\0\0", b"PK\x01\x02\x14\0\x14\0\x01\0"), "encrypted"),
    ],
)  # fmt: skip
def test_an_archive_that_cannot_be_read_is_told(damage: Any, match: str, tmp_path: Path) -> None:
    path = FORMS["inspect zstd"](tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(JournalError, match=match):
        open_log(path)


def lines_of(records: Iterable[Record]) -> Counter[str]:
    """What each record keeps of its file: the exact line, or that it could not be read."""
    kept = (one.received or ("unreadable" if one.event == "unreadable" else "") for one in records)
    return Counter(filter(None, kept))


def test_a_folder_of_files_of_all_forms_whole_cut_mixed_and_of_a_later_version_is_one_log_without_loss(
    tmp_path: Path,
) -> None:
    files: dict[Path, int] = {}  # with its lines; those of a log in one piece are not counted
    for n, (form, write) in enumerate(FORMS.items()):
        (tmp_path / str(n)).mkdir()
        path = write(tmp_path / str(n))
        files[path] = 0 if path.suffix != ".jsonl" else path.read_bytes().count(b"\n")
        assert bool(files[path]) == form.startswith(("claude", "codex", "otlp")) & (form != "otlp indented")
    path = sub_agent(tmp_path / "main")
    below = path.with_suffix("") / "subagents"
    files[path] = sum(one.read_bytes().count(b"\n") for one in (path, *below.glob("*.jsonl")))
    for how in range(5):
        for story in (claude_story(how, turns=2), codex_story(how, turns=2)):
            path = tmp_path / f"{type(story).__name__}-{how}.jsonl"
            path.write_bytes(damaged(story, how)[0])
            files[path] = path.read_bytes().count(b"\n")
    assert len(files) >= 20
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "again.jsonl").symlink_to(tmp_path / "pipe.jsonl")
    (tmp_path / "nowhere.jsonl").symlink_to(tmp_path / "not there")
    (tmp_path / "package.json").write_text('{"name": "garden"}')
    log, alone, faults = open_log(tmp_path), Counter[str](), 0
    for path, lines in files.items():
        one = open_log(path)
        kept = lines_of(one.records)
        assert not lines or kept.total() == lines, path
        alone += kept
        faults += len(one.faults)
    assert lines_of(log.records) == alone
    assert len(log.faults) >= faults > 0
    assert sorted(set(log.df["session"])) == [*range(1, len(files) + 1)]
    assert len(log.tool_calls()) >= len(CALLS) * len(FORMS)
    for name in ("pipe.jsonl", "again.jsonl", "nowhere.jsonl"):
        with pytest.raises(JournalError):
            open_log(tmp_path / name)


def test_two_sessions_in_one_file_and_missing_sub_agents_lose_no_line(tmp_path: Path) -> None:
    first, second = claude_story(3, turns=2), claude_story(4, turns=2)
    first.call("task", "Task", {"prompt": "dig", "subagent_type": "digger"})
    first.result("task", "dug")
    path = tmp_path / "s.jsonl"
    path.write_text(first.text() + second.text())
    log = open_log(path)
    assert [one.received for one in log.records if one.received] == first.lines + second.lines
    assert log.faults == ()


def test_a_file_that_changes_while_it_is_read_is_read_anew(tmp_path: Path) -> None:
    story = claude_story(5, turns=4)
    path = story.write(tmp_path / "s.jsonl")
    log = open_log(path)
    records = iter(log.records)
    next(records)
    path.write_text("\n".join(story.lines[:3]) + "\n")
    assert len(list(records)) > 0
    assert [one.received for one in log.records if one.received] == story.lines[:3]
    path.unlink()
    with pytest.raises(JournalError):
        open_log(path)
