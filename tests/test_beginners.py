"""What a beginner tries, each against a real lab in a real IPython shell.

A try works, or it ends in one sentence of ours that says what was expected: no traceback, no warning of Python's.
"""

from __future__ import annotations

import atexit
import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import mew_lab
from mew_lab.errors import MewError
from mew_lab.lab.labs import close_all

pytestmark = pytest.mark.nightly

LAB = """
%mew up
@lab.tool
def git_log(repo_path: str, max_count: int = 3) -> str:
    "The log of a repository."
    return "one commit"
bot = lab.join("bot")
p = bot.call("notebook/git_log", repo_path=".")
"""

Try = Callable[[str], str]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("MEW_LAB_DECIDE", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mew_lab.lab.decisions.cards.ARMING", 0.0)  # a person takes longer than a test
    gc.freeze()  # `attempt` collects what its own cell leaves, and looks at nothing older
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    mew_lab.load_ipython_extension(shell)
    yield shell
    close_all()
    mew_lab.unload_ipython_extension(shell)
    InteractiveShell.clear_instance()
    atexit.unregister(shell.atexit_operations)
    gc.collect()


@pytest.fixture
def attempt(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Try:
    """Runs a cell; returns all that a person sees of it."""

    def run(cell: str) -> str:
        capsys.readouterr()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = shell.run_cell(cell)
            gc.collect()
        fault = result.error_in_exec
        assert fault is None or isinstance(fault, MewError | UsageError), f"{cell}: {fault!r}"
        seen = capsys.readouterr()
        text = f"{seen.out}{seen.err}"
        assert "Traceback" not in text and 'File "' not in text, text
        assert not [str(one.message) for one in warned if issubclass(one.category, RuntimeWarning)]
        return text

    return run


# The try, and what its answer says.
WITHOUT_LAB = [
    ("%mew pannel", "there is no sub-command 'pannel' (did you mean 'panel'?)"),
    ("%mew aprove", "did you mean 'approve'?"),
    ("%mew feed", "No space is up here; start one with %mew up"),
]
WITH_LAB: list[tuple[str, str]] = [
    ("%mew up", "A lab 'demo' is up already"),
    ("%mew up demo2 demo3", "%mew up: unexpected argument 'demo3'"),
    (
        "%mew bridge bot -- python -m x",
        "%mew bridge: a participant named 'bot' already exists. Use another name",
    ),
    ("%mew bridge git python -m no_such_module_at_all", "No module named no_such_module_at_all"),
    ("%mew bridge git -- nosuchprogram", "there is no program 'nosuchprogram' on PATH"),
    ("bot.send('mcp/request', {'method': 'tools/call'}, to='notebook')", "Use bot.call("),
    ("lab.join('b', 'propose')", "There is no profile 'propose' (did you mean 'proposer'?)"),
    ("p.result(timeout=0.1)", "decide first (%mew approve"),
    ("@lab.tool\ndef g(*args):\n    return 1", "g cannot be a tool: MCP gives arguments by name"),
    (
        "lab.call('git_log')",
        "'git_log' is not a full tool name. Use participant/tool, e.g. 'notebook/git_log'",
    ),
    ("lab.call('notebook/git_lgo')", "notebook has no tool 'git_lgo' (did you mean 'notebook/git_log'?)"),
    ("bot.call('notbook/git_log')", "nobody here is called 'notbook' (did you mean 'notebook'?)"),
    ("lab.call('notebook/git_log')", "repo_path is required; it takes repo_path, [max_count]"),
    ("lab.call('notebook/git_log', repo_path='.', max_count='x')", "max_count must be an integer"),
    ("lab.call('notebook/git_log', repo_pat='.')", "did you mean 'repo_path'?"),
    ("lab.agent('h', modle='x')", "An agent has no option 'modle' (did you mean 'model'?)"),
    ("lab.ask('nobody', 'hello')", "Cannot ask nobody as 'human': nobody here is called 'nobody'"),
    ("print(lab.chat('hi', to='bott'))", "note: nobody here is called 'bott' (did you mean 'bot'?)"),
    ("lab.send('chta', {'text': 'hi'})", "there is no kind 'chta' (did you mean 'chat'?)"),
    ("lab.approve(p)", "Not approved yet: this is what would be sent."),
    ("lab.approve(lab.call('notebook/git_log', repo_path='.'))", "nothing waits for a decision"),
    ("lab.approve(7)", "Cannot approve a int: it does not carry what was shown"),
    ("print(lab.proposals()[0].id == p.id)", "True"),
    ("lab.proposals()[1]", "There is no row 1: demo: proposals has 1 row"),
    ("print(lab.who()[0].participant, lab.who()[0].connected_as)", "human (you)"),
    ("lab.decide = 'approve'", "did you mean lab.decide = Policy.approve()?"),
    ("lab.decide = lambda card: True", "not a function. Give it a name: Policy('name', function)"),
    ("lab.bridge('git', 'python -m no_such_module_at_all')", "No module named no_such_module_at_all"),
    ("lab.bridge('git', 'python \"-m')", "No closing quotation"),
    ("lab.join('x', can=['mcp/request'])", """did you mean [{"kind": "mcp/request"}]?"""),
    ("lab.join('x', can={'kind': 'chat'})", """did you mean [{"kind": "chat"}]?"""),
    ("lab.join('bot')", "a participant named 'bot' already exists. Use another name, or lab.leave('bot')"),
    ("lab.leave('bott')", "did you mean 'bot'?"),
    ("bot.leave()\nbot.call('notebook/git_log', repo_path='.')", "'bot' has left the space; seat it again"),
    ("lab.feed", "the part of that name is lab.view.feed"),
    ("lab.pause('bot')", "the method of that name is lab.of(NAME).pause"),
    ("lab.view.feeed", "lab.view has no 'feeed' (did you mean 'feed'?)"),
    ("print(lab.log[0]['kind'], lab.log[-1]['kind'])", "system/welcome"),
    ("lab.log[100_000]", "There is no log[100000]: this log has"),
    ("from mew_lab.log import charts\ncharts.talk(lab.log.df)", "a chart draws a Log, such as lab.log"),
]
AFTER_DOWN = ["lab.who()", "lab.tools()", "lab.chat('hi')", "lab.call('notebook/git_log')", "lab.join_line()"]


@pytest.mark.parametrize(("cell", "says"), WITHOUT_LAB)
def test_a_try_without_a_space_is_answered(attempt: Try, cell: str, says: str) -> None:
    assert says in attempt(cell)


@pytest.mark.parametrize(("cell", "says"), WITH_LAB)
def test_a_try_is_answered_by_what_was_expected(attempt: Try, cell: str, says: str) -> None:
    attempt(LAB)
    assert says in attempt(cell)


@pytest.mark.parametrize("cell", AFTER_DOWN)
def test_a_try_after_down_says_that_the_lab_is_down(attempt: Try, cell: str) -> None:
    attempt(LAB)
    attempt("lab.down()")
    assert "the lab 'demo' is down; start one with mew_lab.up() or %mew up" in attempt(cell)


def test_what_is_refused_at_once_sends_nothing(attempt: Try, shell: InteractiveShell) -> None:
    attempt(LAB)
    lab: Any = shell.user_ns["lab"]

    def own() -> list[str]:
        return [message["kind"] for message in lab.log if message["from"] == "human"]

    before = own()
    for cell in (
        "lab.call('notebook/git_lgo')",
        "lab.call('notebook/git_log', repo_path=7)",
        "lab.ask('nobody', 'hi')",
        "lab.send('chta')",
        "lab.join('x', can=['chat'])",
    ):
        assert attempt(cell)
    assert own() == before


def test_a_pending_is_approved_after_its_card_was_shown(attempt: Try, shell: InteractiveShell) -> None:
    attempt(LAB)
    first = attempt("lab.approve(p)")
    assert "repo_path" in first and "To approve it, repeat the command" in first
    assert shell.user_ns["p"].state == "open"
    assert "Approved: bot asks notebook to run git_log" in attempt("print(lab.approve(p))")
    assert str(shell.user_ns["p"].result(10)) == "one commit"


def test_a_refused_policy_leaves_the_lab_as_it_was(attempt: Try, shell: InteractiveShell) -> None:
    attempt(LAB)
    attempt("lab.decide = 'approve'")
    assert shell.user_ns["lab"].decide is None and shell.user_ns["p"].state == "open"
    assert "who decides" in attempt("%mew status") and not shell.user_ns["lab"].faults


def test_options_alone_change_an_agent_that_is_seated(attempt: Try, shell: InteractiveShell) -> None:
    attempt(LAB)
    attempt("first = lab.agent('helper')")
    attempt("second = lab.agent('helper', system_prompt='Be brief.')")
    assert shell.user_ns["second"] is shell.user_ns["first"]
    assert shell.user_ns["second"].options.system_prompt == "Be brief."
    assert "a participant named 'helper' already exists" in attempt("lab.agent('helper', model='offline')")
