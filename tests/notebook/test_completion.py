"""Tab behind %mew, asked of IPython's own completer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import mew_lab
from mew_lab.lab.lab import NAMES
from mew_lab.lab.listing import Listing
from mew_lab.notebook.commands import COMMANDS
from mew_lab.views.views import PARTS
from tests.log.filter_table import record

LIMITS = (
    *("--result-bytes", "--results-bytes", "--results-seconds"),
    *("--share-review", "--quorum", "--decider", "--notify", "--notify-content", "--notify-secret"),
)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    one = SimpleNamespace(
        seats={"human": None, "bot": None},
        who=lambda: Listing("", ("participant",), [("human (you)",), ("bot",), ("git",)]),
        known_tools=lambda: [
            (
                "git/git_log",
                {"inputSchema": {"properties": {"repo_path": {}, "max_count": {}, "bad name": {}}}},
            ),
            ("git/git_status", {}),
        ],
        proposals=lambda: Listing("", ("id",), [("p-1",), ("p-2",)]),
        log=SimpleNamespace(held=[record(1, {"from": "bot", "kind": "chat"}), record(2, {"from": "bo ris"})]),
    )
    monkeypatch.setattr("mew_lab.lab.labs.current", lambda: one)
    return one


def completed(shell: InteractiveShell, text: str) -> set[str]:
    """The whole lines that Tab at the end of `text` offers, as a front end would build them."""
    with provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    return {text[: one.start] + one.text + text[one.end :] for one in found}


@pytest.mark.trap("T-20")
@pytest.mark.parametrize("before", ["%mew ", "x = %mew ", "%%mew "])
def test_a_tab_offers_the_sub_commands_and_nothing_else(loaded: InteractiveShell, before: str) -> None:
    assert completed(loaded, before) == {before + name for name in COMMANDS}


@pytest.mark.trap("T-20")
@pytest.mark.parametrize("before", ["%mew ", "x = %mew ", "some.thing[1] = %mew "])
def test_a_tab_completes_a_sub_command(loaded: InteractiveShell, before: str) -> None:
    assert completed(loaded, f"{before}appro") == {f"{before}approve", f"{before}approvals"}


@pytest.mark.trap("T-20")
def test_a_tab_behind_dashes_offers_the_options(loaded: InteractiveShell) -> None:
    flags = {"--space", "--token-env", "--token-file", "--as", "--name", *LIMITS}
    assert completed(loaded, "%mew connect --") == {f"%mew connect {flag}" for flag in flags}
    assert completed(loaded, "%mew connect ws://x --token-f") == {"%mew connect ws://x --token-file"}


def test_an_option_that_was_given_or_excluded_is_not_offered_again(loaded: InteractiveShell) -> None:
    rest = "%mew connect ws://x --token-env T --as me "
    assert completed(loaded, rest) == {f"{rest}{flag}" for flag in ("--space", "--name", *LIMITS)}


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%mew tools ", {"human", "bot", "git"}),
        ("%mew call ", {"git/git_log", "git/git_status"}),
        ("%mew call git/git_l", {"git/git_log"}),
        ("%mew call git/git_log --as ", {"human", "bot"}),
        ("%mew call git/git_log ", {"repo_path=", "max_count=", "--as"}),
        ("%mew call git/git_log repo_path=. m", {"max_count="}),
        ("%mew call git/git_status ", {"--as"}),
        ("%mew call git/nosuch x", set()),
        ("%mew approve ", {"p-1", "p-2"}),
        ("%mew approve p-1 --to g", {"git"}),
        ("%mew chat --to b", {"bot"}),
        ("%mew join bot2 --can ", {"human", "proposer", "agent", "tool", "observer", "admin"}),
        ("%mew help rej", {"reject"}),
        ("%%agent helper --model ", {"offline"}),
        ("%mew agent helper --can prop", {"proposer"}),
        ("%mew send mcp/w", {"mcp/withdraw"}),
    ],
)
def test_a_tab_offers_names_of_the_space(loaded: InteractiveShell, text: str, found: set[str]) -> None:
    before = text[: text.rindex(" ") + 1]
    assert completed(loaded, text) == {before + one for one in found}


def test_without_a_lab_there_are_no_names_and_no_error(
    loaded: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed(loaded, "%mew approve p-") == set()
    assert capsys.readouterr().err == ""


def test_a_path_is_completed_by_files_alone(loaded: InteractiveShell, tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "space.yaml").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "two words").touch()
    assert completed(loaded, "%mew save sess") == {"%mew save session.jsonl"}
    assert completed(loaded, "%mew save ") == {
        f"%mew save {name}" for name in ("session.jsonl", "data/", "ipython/")
    }
    assert completed(loaded, "%mew up data/") == {"%mew up data/space.yaml"}
    assert completed(loaded, "%mew bridge git -- python data/s") == {
        "%mew bridge git -- python data/space.yaml"
    }


NOTHING_OPEN = SimpleNamespace(
    seats={"human": None},
    who=lambda: Listing("", ("participant",), [("human (you)",)]),
    known_tools=list,
    proposals=lambda: Listing("", ("id",), []),
    agents=lambda: Listing("", ("agent",), []),
)


@pytest.mark.parametrize("jedi", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        "approve ",
        "reject ",
        "bridge ",
        "join ",
        "call ",
        "agent ",
        "chat hello wor",
        "nosuch ",
        "send nosuch",
    ],
)
def test_a_tab_where_there_is_no_name_offers_nothing_at_all(
    loaded: InteractiveShell, monkeypatch: pytest.MonkeyPatch, line: str, jedi: bool
) -> None:
    monkeypatch.setattr("mew_lab.lab.labs.current", lambda: NOTHING_OPEN)
    loaded.Completer.use_jedi = jedi
    assert completed(loaded, f"%mew {line}") == set()


def test_a_type_in_the_list_is_one_word_that_does_not_break(loaded: InteractiveShell) -> None:
    with provisionalcompleter():
        types = {one.type for one in loaded.Completer.completions("%mew ", 5)}
    assert types == {"command"}


@pytest.mark.parametrize("jedi", [False, True])
def test_a_tab_behind_the_view_offers_its_parts(loaded: InteractiveShell, jedi: bool) -> None:
    loaded.Completer.use_jedi = jedi
    lab = loaded.user_ns["lab"] = mew_lab.up()
    try:
        offered = completed(loaded, "lab.view.") - {"lab.view.made", "lab.view.close", "lab.view.card"}
        assert offered == {f"lab.view.{part}" for part in PARTS}
        assert completed(loaded, "lab.view.appr") == {"lab.view.approvals"}
        assert "lab.log.df" in completed(loaded, "lab.log.")
        assert completed(loaded, "lab.") == {f"lab.{name}" for name in NAMES.split()}
    finally:
        lab.down()


def test_kinds_that_only_the_gateway_sends_are_not_offered(loaded: InteractiveShell) -> None:
    assert completed(loaded, "%mew send system/") == set()


def test_other_lines_complete_as_before(shell: InteractiveShell) -> None:
    lines = ["impor", "%lsm", "mewling = 1; mewl", "%timeit mew"]
    before = [completed(shell, line) for line in lines]
    mew_lab.load_ipython_extension(shell)
    assert [completed(shell, line) - {f"{line[:-3]}%mew", f"{line[:-3]}%%mew"} for line in lines] == before


@pytest.mark.trap("T-16")
def test_unloading_takes_the_matcher_out(shell: InteractiveShell) -> None:
    before = list(shell.Completer.custom_matchers)
    mew_lab.load_ipython_extension(shell)
    assert len(shell.Completer.custom_matchers) == len(before) + 1
    mew_lab.unload_ipython_extension(shell)
    assert shell.Completer.custom_matchers == before


def test_a_filter_of_the_log_is_completed_with_fields_and_values(
    loaded: InteractiveShell, lab: SimpleNamespace
) -> None:
    assert completed(loaded, "%mew log ki") == {"%mew log kind"}
    assert completed(loaded, "%mew log kind == chat and from == b") == {
        "%mew log kind == chat and from == bot",
        '%mew log kind == chat and from == "bo ris"',
    }
    assert completed(loaded, "%mew log from in (b") == {"%mew log from in (bot", '%mew log from in ("bo ris"'}
    assert completed(loaded, "%mew log latency ") >= {"%mew log latency >", "%mew log latency exists"}
