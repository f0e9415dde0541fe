"""The session of a coding agent as a log: no line of it is lost, and what it does not know stays unknown."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import JournalError
from mew_lab.log import files
from mew_lab.log.log import Log, open_log
from mew_lab.log.usage import usage_of

from .agent_sessions import (
    REFUSED,
    ClaudeStory,
    CodexStory,
    Story,
    claude_story,
    codex_story,
    damaged,
    sub_agent,
)

MOST_TIMES = (
    4  # what decoding its JSON and visiting each value takes; the mark beside orjson is bench_log.py's
)
FORMS = ("paginated", "events", "old")


def stories() -> list[Story]:
    made: list[Story] = [claude_story(seed, turns=2) for seed in range(100)]
    return made + [codex_story(seed, turns=2, form=FORMS[seed % 3]) for seed in range(100)]


def kept_lines(log: Log) -> list[str]:
    return [record.received for record in log.records if record.received is not None]


def kinds_of(log: Log) -> Counter[str]:
    return Counter(message["kind"] for message in log)


def payloads(log: Log, kind: str) -> list[dict[str, Any]]:
    return [message["payload"] for message in log if message["kind"] == kind]


def test_each_line_of_a_session_is_kept_as_it_is_and_becomes_the_messages_that_it_holds(
    tmp_path: Path,
) -> None:
    for number, story in enumerate(stories()):
        log = open_log(story.write(tmp_path / f"{number}.jsonl"))
        assert kept_lines(log) == story.lines
        assert kinds_of(log) == story.kinds
        assert sum(record.event == "kept" for record in log.records) == story.kept
        assert log.faults == ()
        assert log.vantage == "agent"


def test_a_damaged_session_loses_no_line_and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    for how, story in enumerate(stories()):
        data, sentences = damaged(story, how)
        path = tmp_path / f"{how}.jsonl"
        path.write_bytes(data)
        log = open_log(path)
        whole = data[: data.rfind(b"\n") + 1].decode("utf-8", "surrogateescape").split("\n")[:-1]
        assert kept_lines(log) == whole, how
        assert len(log.faults) >= sentences, how
        assert sum(record.event == "unreadable" for record in log.records) == (2 if how % 5 == 1 else 0)


def test_a_line_of_an_unknown_type_is_kept_and_counted(tmp_path: Path) -> None:
    story = claude_story(1, turns=1)
    story.note("hologram", depth=1)
    story.note("hologram", depth=2)
    log = open_log(story.write(tmp_path / "s.jsonl"))
    assert log.faults == (
        "s.jsonl: 2 lines of types that are not known here, kept as they are: hologram (2)",
    )
    assert [json.loads(line)["depth"] for line in kept_lines(log)[-2:]] == [1, 2]


@pytest.mark.parametrize(
    "line", ['{"a":' * 200 + "1" + "}" * 200, '{"text":"\\ud83d"}', '{"n":' + "9" * 5000 + "}"]
)
def test_an_odd_line_is_kept_and_the_next_ones_are_read(tmp_path: Path, line: str) -> None:
    story = claude_story(1, turns=1)
    story.lines.insert(3, line)
    story.lines.insert(
        4, json.dumps({"type": "user", "sessionId": "s", "message": {"content": "cut \ud83d"}})
    )
    log = open_log(story.write(tmp_path / "s.jsonl"))
    assert kept_lines(log) == story.lines
    assert "cut ?" in [payload["text"] for payload in payloads(log, "chat")]


def denials() -> ClaudeStory:
    story = ClaudeStory()
    story.prompt("tidy up")
    story.call("t1", "Bash", {"command": "rm -r beds"}, kind="mcp/proposal")
    stated = {"decision": "reject", "source": "user_reject"}
    story.result(
        "t1", REFUSED + "not the beds", "mcp/reject", failed=True, seconds=9, permissionDecision=stated, toolDenialKind="user-rejected",
    )  # fmt: skip
    story.call("t2", "Write", {"file_path": "/home/ann/garden/n.txt", "content": "n"}, kind="mcp/proposal")
    stated = {"decision": "reject", "source": "config", "reasonCode": "unknown"}
    story.result("t2", "not granted yet", "mcp/reject", failed=True, permissionDecision=stated)
    story.call(
        "t3", "Bash", {"command": "rm bed"}, kind="mcp/proposal"
    )  # of an older version: the text alone
    story.result("t3", REFUSED + "no", "mcp/reject", failed=True)
    story.call("t4", "mcp__garden__cut", {"bed": "north"})  # a tool writes its text itself
    story.result("t4", REFUSED + "no", failed=True)
    story.call("t5", "Bash", {"command": "ls"}, kind="mcp/proposal")
    stated = {"decision": "accept", "source": "user_temporary"}
    story.result("t5", "beds", "mcp/request", "mcp/response", permissionDecision=stated)
    story.call("t6", "AskUserQuestion", {"questions": [{"question": "Which?"}]}, kind="mcp/proposal")
    story.result(
        "t6",
        "answered",
        "mcp/request",
        "mcp/response",
        seconds=30,
        toolUseResult={"answers": {"Which?": "north"}},
    )
    return story


def test_denials_and_answers_that_the_file_has_are_decisions_and_no_others(tmp_path: Path) -> None:
    story = denials()
    log = open_log(story.write(tmp_path / "s.jsonl"))
    assert kinds_of(log) == story.kinds
    rows = {row["proposal"]: row for row in log.decisions().to_dict("records") if row["proposal"]}
    assert {id: (row["decided_by"], row["outcome"]) for id, row in rows.items()} == {
        "t1": ("human", "rejected"),
        "t2": ("permissions", "rejected"),
        "t3": ("human", "rejected"),
        "t5": ("human", "answered"),
        "t6": ("human", "answered"),
    }
    assert rows["t1"]["reason"] == "not the beds"
    assert rows["t1"]["decision_latency"] == pytest.approx(9)
    # When it was allowed, no line says; when the question was answered, its line does.
    assert rows["t5"]["decision_latency"] != rows["t5"]["decision_latency"]
    assert rows["t5"]["latency"] != rows["t5"]["latency"]
    assert rows["t6"]["decision_latency"] == pytest.approx(30)
    assert "north" in str(rows["t6"]["changes"])
    [own] = [row for row in log.decisions().to_dict("records") if not row["proposal"]]
    assert (own["id"], own["outcome"], own["way"], own["source"], own["decided_by"]) == (
        "t4",
        "failed",
        "",
        "",
        "",
    )
    assert "what let a call pass" in log.decisions().attrs["unseen"]
    assert {row["verdict"] for row in log.df.to_dict("records")} == {""}


def test_a_call_goes_to_the_server_that_its_name_names_and_its_answer_has_time_and_error(
    tmp_path: Path,
) -> None:
    story = ClaudeStory()
    story.prompt("water")
    story.call("t1", "mcp__garden__water_bed", {"bed": "north"})
    story.result("t1", [{"type": "text", "text": "gone"}], failed=True, seconds=4)
    story.call("t2", "Read", {"file_path": "a"})
    log = open_log(story.write(tmp_path / "s.jsonl"))
    first, second = log.requests().to_dict("records")
    assert (first["to"], first["tool"], first["latency"]) == (("garden",), "water_bed", pytest.approx(4))
    assert first["failed"] is True
    assert (second["to"], second["state"]) == (("tools",), "waiting")
    exchange = [(entry.kind, entry.sender) for entry in log.follow("t1").entries]
    assert exchange[:3] == [("chat", "human"), ("mcp/request", "claude"), ("mcp/response", "garden")]


def test_a_sub_agent_is_a_participant_of_its_own_in_the_order_of_time(tmp_path: Path) -> None:
    path = sub_agent(tmp_path)
    log = open_log(path)
    name = "Explore-a4c8df8933b8"
    spoken = [(m["from"], m["to"], m["kind"]) for m in log if m["kind"] != "participant/status"]
    assert spoken == [
        ("human", ["claude"], "chat"),
        ("claude", ["tools"], "mcp/request"),
        ("claude", [name], "chat"),
        (name, ["tools"], "mcp/request"),
        ("tools", [name], "mcp/response"),
        (name, ["claude"], "chat"),
        ("tools", ["claude"], "mcp/response"),
        ("claude", ["human"], "chat"),
    ]
    assert next(m for m in log if m["to"] == [name])["correlation_id"] == ["t1"]
    assert [record.seq for record in log.records] == [*range(1, len([*log.records]) + 1)]
    assert {name, "claude", "human", "tools"} <= set(log.participants()["participant"])


def test_a_folder_of_sessions_is_one_log_with_a_column_for_the_session(tmp_path: Path) -> None:
    sub_agent(tmp_path / "one")
    claude_story(2, turns=1).write(tmp_path / "two.jsonl")
    codex_story(3, turns=1).write(tmp_path / "three" / "rollout-2026-11-03T09-00-00-x.jsonl")
    df = open_log(tmp_path).df
    assert sorted(set(df["session"])) == [1, 2, 3]
    assert len(set(df["file"])) == 3  # the file of the sub-agent is none of its own


def test_a_side_chain_of_an_older_version_is_a_sub_agent(tmp_path: Path) -> None:
    story = ClaudeStory()
    story.prompt("dig")
    before = story.before
    story.call("t1", "Task", {"prompt": "Dig."})
    for prompt in ("Dig.", "Rake."):
        story.before = None
        story.line("user", "chat", message={"role": "user", "content": prompt}, isSidechain=True)
        story.line(
            "assistant", "chat", isSidechain=True,
            message={"id": prompt, "content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"},
        )  # fmt: skip
    story.before = before
    log = open_log(story.write(tmp_path / "s.jsonl"))
    chats = [(m["from"], m["to"]) for m in log if m["kind"] == "chat"][1:]
    assert chats == [
        ("claude", ["subagent-1"]), ("subagent-1", ["claude"]),
        ("claude", ["subagent-2"]), ("subagent-2", ["claude"]),
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_rollout_tells_which_calls_failed_and_what_a_person_rejected(tmp_path: Path, form: str) -> None:
    story = CodexStory(form=form)
    story.prompt("tidy")
    story.call("c1", "exec_command", {"cmd": "false"})
    story.result("c1", "Process exited with code 1\nOutput:\n")
    story.call("c2", "exec_command", {"cmd": "echo Process exited with code 7"})
    story.result("c2", "Process exited with code 0\nOutput:\nProcess exited with code 7")
    story.call("c3", "exec_command", {"cmd": "rm -r beds"}, kind="mcp/proposal")
    story.result("c3", "exec command rejected by user", "mcp/reject")
    story.call("c4", "water", {"bed": "north"}, namespace="mcp__garden")
    story.result("c4", [{"type": "input_text", "text": "exec command rejected by user"}])
    log = open_log(story.write(tmp_path / "rollout-x.jsonl"))
    assert kinds_of(log) == story.kinds
    calls = {row["id"]: row for row in log.requests().to_dict("records")}
    assert {id: row["failed"] for id, row in calls.items()} == {"c1": True, "c2": False, "c4": False}
    assert (calls["c4"]["to"], calls["c4"]["tool"]) == (("garden",), "water")
    [rejected] = [row for row in log.decisions().to_dict("records") if row["outcome"] == "rejected"]
    assert (rejected["proposal"], rejected["decided_by"]) == ("c3", "human")


def test_tokens_and_price_are_told_once_for_each_message_that_has_them(tmp_path: Path) -> None:
    story = ClaudeStory()
    story.prompt("water")
    story.answer({"type": "text", "text": "a"}, kinds=("chat",), tokens=2)
    story.lines.append(
        story.lines[-1].replace('"text":"a"', '"text":"b"').replace('"output_tokens":2', '"output_tokens":9')
    )
    story.note("cost-state", totalCostUSD=0.25)
    log = open_log(story.write(tmp_path / "s.jsonl"))
    [usage, price] = payloads(log, "participant/status")
    assert (usage["tokens"], usage["output_tokens"], price) == (3 + 10 + 100 + 9, 9, {"total_cost_usd": 0.25})
    assert "122 tokens at last" in " ".join(log.charts.tokens().lines)


def used(log: Log) -> list[tuple[Any, ...]]:
    """The use of models by the frame: None for what is not recorded."""
    columns = ["from", "model", "input_tokens", "cached_tokens", "output_tokens", "cost", "total_cost"]
    frame = log.frame("telemetry")[columns].astype(object)
    return [
        tuple(None if one is None or one != one else one for one in row)
        for row in frame.where(frame.notna(), None).values.tolist()
    ]


def test_tokens_and_cost_are_in_the_frame_the_charts_and_the_report_and_nothing_is_invented(
    tmp_path: Path,
) -> None:
    story = ClaudeStory()
    story.prompt("water")
    story.say("a", ends=False)
    story.lines[-1] = story.lines[-1].replace('"type":"assistant"', '"costUSD":0.5,"type":"assistant"')
    story.say("b")
    log = open_log(story.write(tmp_path / "s.jsonl"))
    model = "claude-opus-5-5"
    assert sorted(used(log), key=str) == sorted(
        [("claude", model, 113, 100, 7, None, None)] * 2 + [("claude", "", None, None, None, 0.5, None)],
        key=str,
    )
    assert log.charts.usage().lines == (
        f"{model}: 226 tokens read, 200 of them from a cache, and 14 written",
    )
    assert log.charts.cost().lines == ("claude: 0.5000 USD",)
    log.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Tokens and cost" in page and model in page and "226" in page and "not recorded" in page
    rollout = CodexStory()
    rollout.line("turn_context", {"model": "gpt-6-codex"})
    rollout.tokens(1000)
    rollout.tokens(1500)
    log = open_log(rollout.write(tmp_path / "r.jsonl"))
    assert used(log) == [("codex", "gpt-6-codex", n, 0, 5, None, None) for n in (995, 1495)]
    assert log.charts.cost().lines == ("No cost is recorded; nothing is computed from prices.",)
    story = ClaudeStory()
    story.prompt("water")
    log = open_log(story.write(tmp_path / "e.jsonl"))
    assert log.charts.usage().lines == ("No tokens of an answer are recorded.",)
    log.report(tmp_path / "none.html")
    assert "Tokens and cost" not in (tmp_path / "none.html").read_text()


@pytest.mark.parametrize("value", [True, -1, 1.5, "7", None, [], {}, 1e400, float("nan"), 2**70])
def test_a_value_that_is_no_count_and_no_price_is_not_known(value: Any) -> None:
    names = (
        "input_tokens",
        "output_tokens",
        "cached_input_tokens",
        "cost_usd",
        "total_cost_usd",
        "cost",
        "model",
    )
    found = usage_of(dict.fromkeys(names, value))
    priced = value if value == 1.5 or value == 2**70 else None
    assert found == ("7" if value == "7" else "", None, None, None, priced, priced)


def test_all_verbs_work_on_a_session_and_nothing_is_written_beside_it(tmp_path: Path) -> None:
    path = claude_story(7).write(tmp_path / "in" / "s.jsonl")
    before = path.stat()
    log = open_log(path)
    requests = log.requests()
    id = requests["id"].iloc[0]
    assert (
        len(log.filter('kind == "mcp/request" and tool == "Bash"').df) == (requests["tool"] == "Bash").sum()
    )
    assert id in [entry.id for entry in log.follow(id).entries]
    assert id in log.select(id).to_markdown()
    assert log.at(len([*log.records])).notes
    assert "was recorded by" not in str(log.diagnose())
    assert repr(log).endswith("seen as an agent>")
    log.report(tmp_path / "page.html")
    copy = tmp_path / "copy.jsonl"
    log.save(copy)
    again = open_log(copy)
    assert kept_lines(again) == kept_lines(log)
    assert [*again] == [*log]
    assert again.vantage == "agent"
    assert [*path.parent.iterdir()] == [path]
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)


def test_a_session_that_grows_is_read_on_and_so_is_that_of_a_new_sub_agent(tmp_path: Path) -> None:
    story = claude_story(3, turns=2)
    path = story.write(tmp_path / f"{story.session}.jsonl")
    log = open_log(path)
    calls, messages = len(log.requests()), len(log)
    with path.open("a") as file:
        file.write('{"type":"user","mess')
    assert len(log) == messages
    assert any("torn" in fault for fault in log.faults)
    story.call("new", "Bash", {"command": "ls"})
    story.write(path)
    assert len(log.requests()) == calls + 1
    side = ClaudeStory(agent="abc")
    side.prompt("Dig.")
    side.say("It is dug.")
    side.write(tmp_path / story.session / "subagents" / "agent-abc.jsonl")
    assert "agent-abc" in set(log.participants()["participant"])


def test_a_large_session_is_answered_by_an_index_as_a_small_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = claude_story(5)
    story.note("hologram")
    story.lines.insert(2, "no JSON")
    path = story.write(tmp_path / "s.jsonl")
    small = open_log(path)
    expected = small.requests(), small.df, small.faults, len(small), small.filter("latency > 0s").df
    monkeypatch.setattr(files, "LARGE", 1000)
    large = open_log(path)
    assert large.requests().equals(expected[0])
    columns = [name for name in expected[1].columns if name != "payload"]
    assert large.df[columns].equals(expected[1][columns])
    assert sorted(large.faults) == sorted(expected[2])
    assert len(large) == expected[3]
    assert len(large.filter("latency > 0s").df) == len(expected[4])


def test_the_diagnosis_tells_loops_repeated_failures_and_what_was_denied_and_then_done(
    tmp_path: Path,
) -> None:
    story = denials()
    story.call("o1", "Bash", {"command": "echo n > /home/ann/garden/n.txt"})
    story.result("o1", "")
    for n in range(5):
        story.call(f"l{n}", "Grep", {"pattern": "bean"})
        story.result(f"l{n}", "boom", failed=True)
    found = open_log(story.write(tmp_path / "s.jsonl")).diagnose()
    assert {one.rule: one.id for one in found if one.rule in ("denied-then-otherwise", "repeated-call")} == {
        "denied-then-otherwise": "o1",
        "repeated-call": "l4",
    }
    assert found.counts["repeated-failure"] == 1
    assert set(found.counts) == {"denied-then-otherwise", "repeated-call", "repeated-failure"}


def test_an_ordinary_session_has_no_warning(tmp_path: Path) -> None:
    story = ClaudeStory()
    story.prompt("water")
    for n in range(4):
        story.call(f"t{n}", "Bash", {"command": f"ls {n}"})
        story.result(f"t{n}", "ok", failed=n == 2)
    story.call("w1", "Write", {"file_path": "/home/ann/n.txt"}, kind="mcp/proposal")
    story.result("w1", REFUSED + "no", "mcp/reject", failed=True)
    story.call("r1", "Read", {"file_path": "/home/ann/n.txt"})
    story.result("r1", "n")
    story.prompt("you may, with echo")  # the person allows it now
    story.call("b1", "Bash", {"command": "echo n > /home/ann/n.txt"})
    story.result("b1", "")
    story.say("done")
    assert open_log(story.write(tmp_path / "s.jsonl")).diagnose().counts == {}


def test_other_files_are_refused_as_before(tmp_path: Path) -> None:
    for text in (
        '{"type":"thing"}\n',
        '{"timestamp":"2026-01-01T00:00:00Z","payload":1}\n',
        '{"type":"message"}\n',
    ):
        path = tmp_path / "x.jsonl"
        path.write_text(text)
        with pytest.raises(JournalError, match="is not a journal"):
            open_log(path)


def test_reading_a_session_takes_a_few_times_what_its_json_takes(tmp_path: Path) -> None:
    orjson = pytest.importorskip("orjson")
    path = claude_story(1, 160, size=3).write(tmp_path / "s.jsonl")
    assert path.stat().st_size > 3_400_000

    def visit(value: Any) -> int:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return 1 + sum(map(visit, parts))

    def read_json() -> int:
        # Reading visits values in Python: beside the decoder alone, which is compiled, the ratio would be the machine's.
        with path.open("rb") as file:
            return sum(visit(orjson.loads(line)) for line in file)

    def measure(read: Any) -> float:
        began = time.process_time()
        read()
        return time.process_time() - began

    plain = min(measure(read_json) for _ in range(7))
    opened = min(measure(lambda: len(open_log(path))) for _ in range(7))
    assert opened <= MOST_TIMES * plain, f"{opened / plain:.1f} times"
