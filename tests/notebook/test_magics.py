"""%mew in a real shell: one call of a Lab's method each, a value back, one line for a mistake."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell

import mew_lab
from mew_lab.errors import HeadsDiffer, MewError
from mew_lab.lab.notification import Notify
from mew_lab.notebook import magics
from mew_lab.notebook.commands import COMMANDS
from mew_lab.sdk.result_store import ResultLimits
from mew_lab.views.views import PARTS


class Recorder:
    """Stands where a Lab stands and remembers each call of a method, or each look at an attribute."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.seats: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "view":
            return Looks(self.calls)
        if name == "seat":
            return lambda who: Recorder._as(self, who)
        if name == "of":
            return lambda who: Recorder._of(self, who)
        if name == "rules":
            self.calls.append((name,))
            listed = Recorder()
            listed.calls = self.calls
            return listed
        if name == "log":
            self.calls.append((name,))
            return TheLog(self.calls)

        def method(*args: Any, **kw: Any) -> str:
            self.calls.append(
                (name, *args, {key: value for key, value in kw.items() if value not in (None, ())})
            )
            return f"what {name} gives"

        return method

    @staticmethod
    def _of(recorder: Recorder, who: str) -> Any:
        recorder.calls.append(("of", who))
        steered = Recorder()
        steered.calls = recorder.calls
        return steered

    @staticmethod
    def _as(recorder: Recorder, who: str | None) -> Any:
        if who is None:
            return recorder
        seat = Recorder()
        seat.calls = recorder.calls
        recorder.calls.append(("seat", who))
        return seat


class TheLog(str):
    """Stands where `lab.log` stands and remembers what is asked of it."""

    def __new__(cls, calls: list[tuple[Any, ...]]) -> TheLog:
        log = super().__new__(cls, "the log")
        log.calls = calls
        return log

    calls: list[tuple[Any, ...]]

    def filter(self, text: str) -> str:
        self.calls.append(("filter", text))
        return "what filter gives"

    def diagnose(self, severity: str) -> str:
        self.calls.append(("diagnose", severity))
        return "what diagnose gives"


class Looks:
    """Stands where `lab.view` stands and remembers each look at a part."""

    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> str:
        self._calls.append((name,))
        return f"the {name}"


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    one = Recorder()
    monkeypatch.setattr("mew_lab.lab.labs.current", lambda: one)
    return one


CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("down", ("down", {})),
    ("bridge-all", ("bridge_all", ".mcp.json", {"can": "tool"})),
    ("code claude", ("coding_agent", "claude", "claude", {"can": "agent"})),
    (
        "code claude --tools --ask-once",
        ("coding_agent", "claude", "claude", {"can": "agent", "tools": True, "ask_once": True}),
    ),
    (
        "code own --mode plan --turns 5 --env KEY -- python -m x",
        *[
            (
                "coding_agent",
                ["python", "-m", "x"],
                "own",
                {"mode": "plan", "turns": 5, "env": ("KEY",), "can": "agent"},
            )
        ],
    ),
    (
        "bridge-all a/mcp.json --only git --only fs --can agent --trust ab",
        ("bridge_all", "a/mcp.json", {"only": ("git", "fs"), "trust": ("ab",), "can": "agent"}),
    ),
    (
        "bridge git --env HOME -- python -m x",
        ("bridge", "git", ["python", "-m", "x"], {"env": ("HOME",), "can": "tool"}),
    ),
    (
        "bridge git --sampling offline --root a --root b -- python -m x",
        (
            *("bridge", "git", ["python", "-m", "x"]),
            {"can": "tool", "sampling": "offline", "roots": ("a", "b")},
        ),
    ),
    (
        "bridge git --result-bytes 5 --results-seconds 1.5 -- python -m x",
        (
            "bridge",
            "git",
            ["python", "-m", "x"],
            {"can": "tool", "results": ResultLimits(result=5, seconds=1.5)},
        ),
    ),
    (
        "bridge git --strict-unknown -- python -m x",
        ("bridge", "git", ["python", "-m", "x"], {"can": "tool", "strict_unknown": True}),
    ),
    (
        "bridge git --quorum 2 --decider ada --decider ben --writes save=path,text -- python -m x",
        (
            *("bridge", "git", ["python", "-m", "x"]),
            {
                "can": "tool",
                "quorum": 2,
                "deciders": ("ada", "ben"),
                "writes": {"save": ("path", "text")},
            },
        ),
    ),
    (
        "bridge-all --quorum 1 --decider ada --writes fs/save=path,text",
        (
            *("bridge_all", ".mcp.json"),
            {"can": "tool", "quorum": 1, "deciders": ("ada",), "writes": {"fs": {"save": ("path", "text")}}},
        ),
    ),
    ("questions", ("questions", {})),
    ("answer q-1 size=3", ("answer", "q-1", {"size": 3}, {"action": "accept"})),
    ("answer q-1 --decline", ("answer", "q-1", None, {"action": "decline"})),
    ("answer q-1 --cancel", ("answer", "q-1", None, {"action": "cancel"})),
    ("join bot --can observer", ("join", "bot", {"can": "observer"})),
    (
        "agent helper --model offline --can proposer Be brief.",
        (
            "agent",
            "helper",
            {"model": "offline", "can": "proposer", "system_prompt": "Be brief."},
        ),
    ),
    ("agent helper", ("agent", "helper", {"can": "agent"})),
    ("agents", ("agents", {})),
    ("ask bot What time is it?", ("ask", "What time is it?", "bot", {})),
    ("who", ("who", {})),
    ("tools git", ("tools", "git", {})),
    ("chat --to bot Hello there", ("chat", "Hello there", {"to": ("bot",)})),
    (
        'send mcp/withdraw --correlation p-1 --context c {"reason": "busy"}',
        ("send", "mcp/withdraw", {"reason": "busy"}, {"correlation_id": ("p-1",), "context": "c"}),
    ),
    ("call git/git_log max_count=3", ("call", "git/git_log", {"max_count": 3}, {})),
    ("propose git/git_log", ("propose", "git/git_log", None, {})),
    ("proposals --all", ("proposals", {"all": True})),
    ("proposals", ("proposals", {"all": False})),
    ("approve p-1", ("approve", "p-1", {})),
    ("approve p-1 --to git", ("approve", "p-1", {"to": ("git",)})),
    ("approve p-1 --option 'Allow once'", ("approve", "p-1", {"option": "Allow once"})),
    ("approve p-1 --digest 7c1e90ab", ("approve", "p-1", {"digest": "7c1e90ab"})),
    ("reject p-1 not now", ("reject", "p-1", {"reason": "not now"})),
    ("reject p-1", ("reject", "p-1", {})),
    ("withdraw p-1", ("withdraw", "p-1", {})),
    ("cancel p-1", ("cancel", "p-1", {})),
    ("stop", ("stop", {})),
    ("go", ("go", {})),
    ("resolve q-1 --happened", ("resolve", "q-1", {"happened": True})),
    (
        "resolve q-1 --not-happened the file is not there",
        ("resolve", "q-1", {"happened": False, "note": "the file is not there"}),
    ),
    ("undo", ("undo", {})),
    ("history", ("history", {})),
    *((name, (name,)) for name in PARTS if name != "rules"),
    *((f"view {name}", (name,)) for name in PARTS),
    ("log", ("log",)),
    ("save session.jsonl", ("save", "session.jsonl", {})),
    ("ui", ("serve_ui", {"port": 0})),
    ("ui --port 8765 --origin https://a", ("serve_ui", {"port": 8765, "origin": "https://a"})),
    ("ui end", ("end_ui", {})),
    ("report x.html", ("report", "x.html", {"overwrite": False})),
    ("report x.html --overwrite", ("report", "x.html", {"overwrite": True})),
    ("status", ("status", {})),
    ("invite ann", ("invite", "ann", None, {})),
    (
        "invite ann --can observer --timeout 3 to look",
        ("invite", "ann", "observer", {"timeout": 3.0, "reason": "to look"}),
    ),
    ("enrol ann", ("enrol", "ann", "agent", {})),
    ("leave bot", ("leave", "bot", {})),
    ("pause-all lunch", ("pause_all", {"reason": "lunch"})),
    ("resume-all", ("resume_all", {})),
    ("acknowledge", ("acknowledge", "", {"status": "received"})),
    (
        "acknowledge #4 --status read --as bot",
        ("acknowledge", "#4", {"status": "read", "as_id": "bot"}),
    ),
    ("load r-1 --timeout 9", ("load", "r-1", {"timeout": 9.0})),
    ("stream list", ("streams", {})),
    ("stream open", ("stream", {})),
    (
        "stream open --to bot --to eve --download --description all",
        ("stream", {"to": ("bot", "eve"), "direction": "download", "description": "all"}),
    ),
    ("stream take stream-1", ("stream", "stream-1", {})),
]

CONTROLS: list[tuple[str, tuple[Any, ...]]] = [
    ("pause coder", ("pause", {})),
    ("pause coder --minutes 5 out for lunch", ("pause", {"minutes": 5.0, "reason": "out for lunch"})),
    ("resume coder --timeout 2", ("resume", {"timeout": 2.0})),
    ("status coder", ("status", {})),
    ("status coder --timeout 3", ("status", {"timeout": 3.0})),
    ("forget coder", ("forget", {"direction": "oldest"})),
    (
        "forget coder --entries 3 --direction newest --sure",
        ("forget", {"entries": 3, "direction": "newest", "sure": True}),
    ),
    ("compact coder --tokens 400 too long", ("compact", {"tokens": 400, "reason": "too long"})),
    ("clear coder", ("clear", {})),
    ("restart coder --sure", ("restart", {"sure": True})),
    ("shutdown coder --sure done", ("shutdown", {"sure": True, "reason": "done"})),
    ("kick coder spam", ("kick", {"reason": "spam"})),
    ("cancel-reasoning coder", ("cancel_reasoning", None, {})),
    ("cancel-reasoning coder --id r-1 late", ("cancel_reasoning", "r-1", {"reason": "late"})),
    ('grant coder --minutes 5 {"kind": "chat"}', ("grant", {"kind": "chat"}, {"minutes": 5.0})),
    ("grant coder --can human --session", ("grant", "human", {"session": True})),
    (
        "grant coder --tool git/log --uses 2 --preview",
        ("grant", {"tool": "git/log", "uses": 2, "preview": True}),
    ),
    ("revoke coder", ("revoke", None, {})),
    ("revoke coder --grant g-1 --sure", ("revoke", "g-1", {"sure": True})),
    ('revoke coder {"kind": "chat"}', ("revoke", {"kind": "chat"}, {})),
]


@pytest.mark.parametrize(("line", "call"), CALLS, ids=[line for line, _ in CALLS])
def test_a_sub_command_is_one_call_and_gives_what_it_gives(
    loaded: InteractiveShell, lab: Recorder, line: str, call: tuple[Any, ...]
) -> None:
    result = loaded.run_cell(f"x = %mew {line}")
    assert result.success
    assert lab.calls == [call]
    assert loaded.user_ns["x"] == (f"the {call[0]}" if len(call) == 1 else f"what {call[0]} gives")


RULES: list[tuple[str, tuple[Any, ...]]] = [
    ("rules try 1", ("try_", "1", {})),
    ("rules adopt rule 3", ("adopt", "rule 3", {"sure": False})),
    (
        "rules adopt --sure When bot asks files to run read with nothing: approve",
        ("adopt", "When bot asks files to run read with nothing: approve", {"sure": True}),
    ),
    ("rules stop", ("stop", None, {})),
    ("rules stop 2", ("stop", "2", {})),
    ("rules look 2", ("look", "2", {})),
    ("rules show 2", ("show", "2", {})),
]


@pytest.mark.parametrize(("line", "call"), RULES, ids=[line for line, _ in RULES])
def test_a_verb_on_a_rule_is_a_method_of_the_listed_rules(
    loaded: InteractiveShell, lab: Recorder, line: str, call: tuple[Any, ...]
) -> None:
    assert loaded.run_cell(f"%mew {line}").success
    assert lab.calls == [("rules",), call]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rules try", "name the rule"),
        ("rules stop --sure 1", "only adopt takes --sure"),
    ],
)
def test_a_verb_on_no_rule_is_refused(loaded: InteractiveShell, lab: Recorder, line: str, words: str) -> None:
    assert words in str(loaded.run_cell(f"%mew {line}").error_in_exec)
    assert lab.calls == [("rules",)]


@pytest.mark.parametrize(("line", "call"), CONTROLS, ids=[line for line, _ in CONTROLS])
def test_what_acts_on_a_participant_is_one_call_of_that(
    loaded: InteractiveShell, lab: Recorder, line: str, call: tuple[Any, ...]
) -> None:
    assert loaded.run_cell(f"x = %mew {line}").success
    assert lab.calls == [("of", "coder"), call]
    assert loaded.user_ns["x"] == f"what {call[0]} gives"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pause", "the following arguments are required: NAME"),
        ("pause coder --minutes five", "invalid float value: 'five'"),
        ("pause coder --seconds 5", "there is no option '--seconds'"),
        ("pause coder 5", "'5' would be the reason; for a number write --minutes N"),
        ("pause coder 90 too noisy", "'90 too noisy' would be the reason"),
        ("pause coder 5m", "write --minutes N"),
        ("compact coder 2000", "write --tokens N"),
        ("invite ann observer", "'observer' would be the reason; for the profile write --can observer"),
        (
            'grant coder {"kind": "chat"} --minutes 5',
            "'--minutes 5' stands behind the object; write %mew grant NAME [",
        ),
        ("forget coder --direction last", "invalid choice: 'last'"),
        ("grant coder", "give a pattern, --can or --tool"),
        ('grant coder --can human {"kind": "chat"}', "give a pattern, --can or --tool"),
        ("grant coder chat", "the payload must be a JSON object, not 'chat'; write %mew grant NAME ["),
        ('revoke coder --grant g {"kind": "chat"}', "one of them"),
        ("kic coder", "did you mean 'kick'?"),
        ("rules 1", "invalid choice: '1'"),
        ("stream", "the following arguments are required: ACT"),
        ("stream wrote", "invalid choice"),
        ("stream write", "it needs the ID of an open stream"),
        ("stream write stream-1", "the text is missing"),
        ("stream grant stream-1", "the participant is missing"),
        ("stream open stream-1", "it takes no ID"),
        ("stream read stream-1 --to bot", "only open takes --to"),
        ("stream close stream-1 --timeout 3", "only read takes --timeout"),
        ("stream take stream-1 now", "'now' is too much"),
    ],
)
def test_a_wrong_word_is_one_line_with_the_right_one(
    loaded: InteractiveShell, lab: Recorder, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    ran = loaded.run_cell(f"%mew {line}")
    assert words in str(ran.error_in_exec)
    assert lab.calls == []


@pytest.mark.parametrize("behind", ["", " now!", " --now", " 'it", " coder --sure", "\neverything"])
def test_nothing_that_is_typed_behind_it_keeps_stop_from_stopping(
    loaded: InteractiveShell, lab: Recorder, behind: str
) -> None:
    assert loaded.run_cell(f"{'%' if behind[:1] == chr(10) else ''}%mew stop{behind}").success
    assert lab.calls == [("stop", {})]


@pytest.mark.parametrize(("line", "severity"), [("diagnose", "note"), ("diagnose warn", "warn")])
def test_the_diagnosis_of_the_log_is_returned(
    loaded: InteractiveShell, lab: Recorder, line: str, severity: str
) -> None:
    loaded.run_cell(f"x = %mew {line}")
    assert lab.calls == [("log",), ("diagnose", severity)]
    assert loaded.user_ns["x"] == "what diagnose gives"


def test_every_sub_command_has_a_rule_and_a_call_that_is_tested() -> None:
    assert set(magics.RULES) == set(COMMANDS)
    tested = {line.split()[0] for line, _ in [*CALLS, *CONTROLS, *RULES]}
    assert tested | {"up", "use", "connect", "help", "diagnose", "faults", "tools-agent"} == set(COMMANDS)


def test_a_seat_speaks_instead_of_you(loaded: InteractiveShell, lab: Recorder) -> None:
    loaded.run_cell("%mew call git/git_log --as bot")
    assert lab.calls == [("seat", "bot"), ("call", "git/git_log", None, {})]


@pytest.mark.parametrize(
    "text", ['kind ~ "mcp/*" and latency > 2s', '"two words"', 'kind =~ "^{a}$"', "-typo"]
)
def test_a_filter_of_the_log_is_passed_on_as_it_is_typed(
    loaded: InteractiveShell, lab: Recorder, text: str
) -> None:
    loaded.run_cell(f"x = %mew log {text}")
    assert lab.calls == [("log",), ("filter", text)]
    assert loaded.user_ns["x"] == "what filter gives"


@pytest.mark.trap("T-20")
def test_braces_of_a_json_body_survive(loaded: InteractiveShell, lab: Recorder) -> None:
    loaded.user_ns.update(text="no", n=1)
    loaded.run_cell('%%mew send chat --to bot\n{"text": "{n} $text", "more": {"a": [{}]}}')
    assert lab.calls == [("send", "chat", {"text": "{n} $text", "more": {"a": [{}]}}, {"to": ("bot",)})]


def test_a_yaml_body_is_read(loaded: InteractiveShell, lab: Recorder) -> None:
    loaded.run_cell("%%mew send chat\ntext: |\n  two\n  lines\nformat: no\n")
    assert lab.calls == [("send", "chat", {"text": "two\nlines\n", "format": "no"}, {})]


def test_variables_of_the_notebook_and_of_a_function_are_filled_in(
    loaded: InteractiveShell, lab: Recorder
) -> None:
    loaded.user_ns["repo"] = "/a b"
    loaded.run_cell("%mew bridge git -- python --repository $repo")
    loaded.run_cell("def f(where):\n    %mew tools $where\nf('git')")
    assert lab.calls == [
        ("bridge", "git", ["python", "--repository", "/a b"], {"can": "tool"}),
        ("tools", "git", {}),
    ]


@pytest.mark.threat(28)
def test_the_command_of_a_bridge_is_shown_before_it_starts(
    loaded: InteractiveShell,
    lab: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(
        Recorder, "bridge", lambda *args, **kw: shown.append(capsys.readouterr().out), raising=False
    )
    loaded.run_cell("%mew bridge git -- python -m 'a server' --x")
    assert shown == [f"starting {sys.executable} -m 'a server' --x in {Path.cwd()}\n"]


def test_a_question_in_quotes_is_no_question_to_the_shell(loaded: InteractiveShell, lab: Recorder) -> None:
    loaded.run_cell('%mew chat "Are you there?"')
    loaded.run_cell("%%mew chat\nAre you there?")
    assert lab.calls == [("chat", "Are you there?", {})] * 2


@pytest.mark.parametrize(
    "cell", ["%%agent helper\nBe brief.\nBe kind.", "%%mew agent helper\nBe brief.\nBe kind."]
)
def test_the_body_of_a_cell_is_the_system_prompt(loaded: InteractiveShell, lab: Recorder, cell: str) -> None:
    assert loaded.run_cell(cell).success
    assert lab.calls == [("agent", "helper", {"can": "agent", "system_prompt": "Be brief.\nBe kind."})]


@pytest.mark.threat(1)
def test_the_key_of_a_model_is_named_and_never_typed(
    loaded: InteractiveShell,
    lab: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SOME_KEY", "canary")
    loaded.run_cell("%mew agent helper --model gpt --base-url http://127.0.0.1:1/v1 --key-env SOME_KEY")
    model = {"model": "gpt", "base_url": "http://127.0.0.1:1/v1", "api_key": "canary"}
    assert lab.calls == [("agent", "helper", {**model, "can": "agent"})]
    out, err = capsys.readouterr()
    assert "canary" not in out + err
    assert "--key KEY" not in str(loaded.run_cell("%mew help agent").result)


@pytest.fixture
def up(loaded: InteractiveShell) -> Iterator[mew_lab.Lab]:
    """A real lab, as `lab` in the shell."""
    loaded.user_ns["lab"] = made = mew_lab.up("magics", journal=None, port=None)
    yield made
    made.down()


def told(shell: InteractiveShell, cell: str) -> Any:
    """What a cell gives."""
    ran = shell.run_cell(cell)
    assert ran.success, ran.error_in_exec or ran.error_before_exec
    return ran.result


def test_an_agent_file_is_made_tested_and_served(
    loaded: InteractiveShell, up: mew_lab.Lab, tmp_path: Path
) -> None:
    workshop = told(loaded, "%mew tools-agent new words.yaml")
    assert workshop is up.view.workshop and repr(workshop) == "Workshop: words.yaml, 1 tool"
    assert told(loaded, "%mew tools-agent edit words.yaml") is workshop
    run = told(loaded, "%mew tools-agent test words.yaml term=entropy")
    assert run.execution.prompt == "Explain entropy in at most three sentences.\n" and "words" not in up.seats
    seat = told(loaded, "%mew tools-agent serve words.yaml")
    assert seat is up.seats["words"]
    up.call("words/explain", term="entropy").result(timeout=30)
    request = seat.history()[-1].request
    again = told(loaded, f"%mew tools-agent replay words.yaml --call {request}")
    assert again.execution.prompt == run.execution.prompt and "The tool is the same as then" in again.note
    up.save("then.jsonl")
    saved = told(loaded, f"%mew tools-agent replay words.yaml --call {request} --log then.jsonl")
    assert saved.recorded == again.recorded
    missing = told(loaded, '%mew tools-agent test words.yaml --tool explain {"word": "x"}')
    assert missing.execution.is_error and "arguments" in missing.note


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tools-agent bake words.yaml", "invalid choice"),
        ("tools-agent test none.yaml", "no such file"),
        ("tools-agent serve words.yaml term=x", "only test takes arguments"),
        ("tools-agent replay words.yaml", "with --call ID"),
        ("tools-agent replay words.yaml --call none", "The log has no request none"),
        ("tools-agent test words.yaml --call x", "only replay takes --call"),
        ("tools-agent test words.yaml --key-env NOT_SET_HERE", "NOT_SET_HERE is not set"),
    ],
)
def test_what_tools_agent_cannot_do_is_one_sentence(
    loaded: InteractiveShell, up: mew_lab.Lab, line: str, words: str
) -> None:
    told(loaded, "%mew tools-agent new words.yaml")
    result = loaded.run_cell(f"%mew {line}")
    assert words in str(result.error_in_exec)


def test_an_agent_is_seated_asked_looked_at_and_steered(loaded: InteractiveShell, up: mew_lab.Lab) -> None:
    seat = told(loaded, "%mew agent helper")
    assert "offline" in repr(seat)
    answer = told(loaded, "%mew ask helper Who are you?")
    assert "offline model" in str(answer.result(timeout=30))
    assert told(loaded, "%%agent helper\nBe brief.").text == "helper: system_prompt set"
    assert dict(told(loaded, "%mew agent helper"))["system prompt"] == "Be brief."
    assert told(loaded, "%mew agent helper Be kind.").text == "helper: system_prompt set"
    assert seat.options.system_prompt == "Be kind."
    assert "cancelled" in told(loaded, "%mew agent helper --cancel").text
    assert "stopped" in told(loaded, "%mew agent helper --stop").text
    assert [row[:2] for row in told(loaded, "%mew agents")] == [("helper", "disconnected")]
    assert "ready" in told(loaded, "%mew agent helper --start").text


def test_an_agent_that_is_here_keeps_its_model_and_a_seat_is_no_agent(
    loaded: InteractiveShell, up: mew_lab.Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    told(loaded, "%mew agent helper")
    capsys.readouterr()
    loaded.run_cell("%mew agent helper --model gpt")
    assert "lab.leave('helper') first" in one_line(capsys)
    up.join("bot")
    loaded.run_cell("%mew agent bot")
    assert "'bot' is seated here, but as seat" in one_line(capsys)
    assert up.seat("helper").agent.model.name.startswith("offline")  # type: ignore[attr-defined]


@pytest.mark.threat(45)
@pytest.mark.parametrize(
    ("answer", "goes_on"), [("yes", True), (" Yes ", True), ("y", False), ("", False), (None, False)]
)
def test_up_goes_past_heads_that_differ_after_a_typed_yes_alone(
    answer: str | None,
    goes_on: bool,
    loaded: InteractiveShell,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given: list[Any] = []

    def up(name: str, *, heads: str = "check", **kw: Any) -> str:
        given.append(heads)
        if heads == "check":
            raise HeadsDiffer("Cannot go on: the end is missing.", missing=("the end is missing",))
        return "A lab"

    def ask(prompt: str) -> str:
        assert "yes" in prompt
        if answer is None:
            raise StdinNotImplementedError
        return answer

    monkeypatch.setattr(mew_lab, "up", up, raising=False)
    monkeypatch.setattr("builtins.input", ask)
    loaded.run_cell("%mew up --resume x.jsonl")
    assert given == ["check", *["ignore"][:goes_on]]
    assert (loaded.user_ns.get("lab") == "A lab") is goes_on
    printed = capsys.readouterr()
    assert "note: the end is missing" in printed.out
    assert ("Cannot go on: the end is missing." in printed.out + printed.err) is not goes_on


def test_up_puts_the_lab_into_the_namespace(
    loaded: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(mew_lab, "up", lambda *args, **kw: given.append((args, kw)) or "A lab", raising=False)
    loaded.run_cell("%mew up")
    loaded.run_cell("%mew up other --as me --port 1 --no-journal")
    loaded.run_cell("%mew up --journal x.jsonl")
    loaded.run_cell("%mew up --resume x.jsonl")
    loaded.run_cell("%mew up --results-bytes 7")
    loaded.run_cell("%mew up --share-review --quorum 1 --decider ada --notify https://example.org/hook")
    assert [kw.pop("results") for _, kw in given] == [None] * 4 + [ResultLimits(total=7), None]
    reviewing = {name: given[-1][1][name] for name in ("share_review", "quorum", "deciders", "notify")}
    hook = Notify.of("https://example.org/hook")
    assert reviewing == {"share_review": True, "quorum": 1, "deciders": ("ada",), "notify": hook}
    del given[-2:]
    assert given == [
        (("demo",), {"as_id": None, "journal": "auto", "port": 0, "auto_start": True, "resume": None}),
        (("other",), {"as_id": "me", "journal": None, "port": 1, "auto_start": True, "resume": None}),
        (("demo",), {"as_id": None, "journal": "x.jsonl", "port": 0, "auto_start": True, "resume": None}),
        (("demo",), {"as_id": None, "journal": "auto", "port": 0, "auto_start": True, "resume": "x.jsonl"}),
    ]
    assert loaded.user_ns["lab"] == "A lab"


@pytest.mark.threat(28)
def test_up_shows_the_programs_of_a_space_yaml_before_they_start(
    loaded: InteractiveShell,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("space.yaml").write_text(
        "space: {id: s}\nparticipants: {bot: {auto_start: true, command: ./bot, args: [a b]}}"
    )
    shown: list[str] = []
    given: list[Any] = []

    def up(*args: Any, **kw: Any) -> str:
        shown.append(capsys.readouterr().out)
        given.append((args, kw["auto_start"]))
        return "A lab"

    monkeypatch.setattr(mew_lab, "up", up, raising=False)
    loaded.run_cell("%mew up space.yaml")
    loaded.run_cell("%mew up space.yaml --no-auto-start")
    assert given == [(("space.yaml",), True), (("space.yaml",), False)]
    assert shown[0] == f"starting bot: ./bot 'a b' in {tmp_path}\n"
    assert "starting" not in shown[1]


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    given: list[dict[str, Any]] = []

    def connect(url: str | None, **kw: Any) -> str:
        given.append({"url": url, **{key: value for key, value in kw.items() if value is not None}})
        return "A lab"

    monkeypatch.setattr(mew_lab, "connect", connect, raising=False)
    return given


def test_connect_hands_on_where_the_token_stands(
    loaded: InteractiveShell, joined: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEW_TOKEN", "secret")
    loaded.run_cell("%mew connect ws://x --space s --token-env MEW_TOKEN --as me --name other")
    loaded.run_cell("%mew connect ws://x --space s --token-file t")
    assert joined == [
        {"url": "ws://x", "space": "s", "token_env": "MEW_TOKEN", "as_id": "me", "name": "other"},
        {"url": "ws://x", "space": "s", "token_file": "t"},
    ]


def test_connect_without_an_address_leaves_space_and_token_to_the_folder(
    loaded: InteractiveShell, joined: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda prompt: pytest.fail(prompt))
    loaded.run_cell("%mew connect --as me-2")
    assert joined == [{"url": None, "as_id": "me-2"}]


def test_connect_where_no_space_runs_is_one_line_that_says_what_would_help(
    loaded: InteractiveShell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEW_GATEWAY", raising=False)
    loaded.run_cell("%mew connect")
    said = one_line(capsys)
    assert said.startswith(
        f"ConfigError: No space runs in {tmp_path}, which has no .mew; start one with mew-lab up"
    )
    assert said.endswith("or by the variables MEW_GATEWAY, MEW_SPACE and MEW_TOKEN")


@pytest.mark.threat(1)
def test_connect_asks_for_the_token_without_echo(
    loaded: InteractiveShell, joined: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(getpass, "getpass", lambda prompt: asked.append(prompt) or " canary \n")
    loaded.run_cell("%mew connect ws://x --space s")
    assert joined == [{"url": "ws://x", "space": "s", "token": "canary"}]
    assert asked == ["Token for the space s: "]


@pytest.mark.parametrize("answer", ["", StdinNotImplementedError(), EOFError()])
def test_connect_without_an_answer_names_the_options(
    loaded: InteractiveShell,
    joined: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str | Exception,
) -> None:
    def ask(prompt: str) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(getpass, "getpass", ask)
    loaded.run_cell("%mew connect ws://x --space s")
    assert one_line(capsys) == (
        "UsageError: %mew connect: no token was entered; use --token-env NAME or --token-file PATH"
    )
    assert joined == []


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, which must be one line."""
    out, err = capsys.readouterr()
    lines = (out + err).strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.trap("T-20")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%mew upp", "did you mean 'up'?"),
        ("%mew connect ws://x", "needs the name of the space: --space S"),
        ("%mew connect --token-file t", "a token and no URL to send it to"),
        ("%mew bridge git", "the command of the server is missing"),
        ("%mew chat --to bot", "the text is missing"),
        ("%mew ask bot", "the question is missing"),
        ("%mew agent helper --stop", "there is no agent 'helper' in this kernel"),
        ("%mew agent helper --start --stop", "not allowed with argument --start"),
        ("%mew agent helper --key-env NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE is not set"),
        ("%%agent\nBe brief.", "required: NAME"),
        ("%%agent helper Be kind.\nBe brief.", "and a cell body; give one of them"),
        ("%mew connect ws://x --space s --token-env NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE is not set"),
        ("%%mew send chat\n{broken", "the body is not strict JSON"),
        ("%%mew who\nx", "takes no cell body"),
    ],
)
def test_a_mistake_is_one_line_without_a_traceback(
    loaded: InteractiveShell, lab: Recorder, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    result = loaded.run_cell(line)
    said = one_line(capsys)
    assert said.startswith("UsageError: ")
    assert words in said
    assert not result.success
    assert lab.calls == []


def test_an_error_of_this_package_is_one_line(
    loaded: InteractiveShell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing() -> None:
        raise MewError("No space is up here; start one with %mew up")

    monkeypatch.setattr("mew_lab.lab.labs.current", nothing)
    loaded.run_cell("%mew who")
    assert one_line(capsys) == "MewError: No space is up here; start one with %mew up"
    mew_lab.unload_ipython_extension(loaded)
    assert not hasattr(MewError, "_render_traceback_")


def test_a_file_that_is_not_there_is_one_line(
    loaded: InteractiveShell,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(mew_lab, "connect", lambda *a, token_file, **kw: open(token_file), raising=False)  # noqa: SIM115, PTH123
    loaded.run_cell("%mew connect ws://x --space s --token-file /no/such")
    assert one_line(capsys) == "UsageError: %mew connect: /no/such: No such file or directory"


@pytest.mark.trap("T-20")
def test_help_lists_every_sub_command_and_a_question_mark_shows_it(
    loaded: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded.run_cell("x = %mew help")
    overview = str(loaded.user_ns["x"])
    assert all(f"{name} " in overview for name in COMMANDS)
    assert loaded.object_inspect("%mew", detail_level=0)["docstring"] == overview


@pytest.mark.parametrize("line", ["help connect", "connect --help", "connect ws://x -h"])
def test_help_of_a_sub_command_names_its_options(loaded: InteractiveShell, line: str) -> None:
    loaded.run_cell(f"x = %mew {line}")
    data, _ = loaded.display_formatter.format(loaded.user_ns["x"])  # type: ignore[union-attr]
    assert "--token-file" in data["text/plain"]
    assert "--token-file" in data["text/html"]
    assert "--port" not in data["text/plain"]
