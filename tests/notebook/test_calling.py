"""What waits calls the person of a shell whose page shows no view, or that has no page."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import close_all, up
from mew_lab.views.ui.notebook_host import NotebookCaller

from ..lab.looking import call, eventually, propose


@pytest.fixture
def lab(loaded: InteractiveShell) -> Any:
    yield up(journal=None)
    close_all()


def lines_of(loaded: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    loaded.run_cell("pass")
    return capsys.readouterr().out


def test_a_shell_without_a_page_tells_once_what_waits(
    loaded: InteractiveShell, lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    propose(lab, call("first"))
    assert lines_of(loaded, capsys) == "", "a shell that some program embeds"
    monkeypatch.setattr(loaded, "simple_prompt", True, raising=False)  # as that of a terminal has it
    assert lines_of(loaded, capsys).startswith("1 request in demo waits for you: ")
    for one in lab.decisions.pending():
        lab.reject(one.id)
    assert lines_of(loaded, capsys) == ""
    propose(lab, call("pay\x1b[2J", iban="DE00"))
    told = lines_of(loaded, capsys)
    assert told == "1 request in demo waits for you: print(lab.proposals()), print(lab.questions())\n"
    assert lines_of(loaded, capsys) == "", "once"
    second = propose(lab, call("other"))
    assert lines_of(loaded, capsys).startswith("2 requests in demo wait for you: ")
    lab.reject(second.id)
    assert lines_of(loaded, capsys) == ""
    propose(lab, call("third"))
    assert lines_of(loaded, capsys).startswith("2 requests in demo wait for you: ")


@pytest.fixture
def in_kernel(loaded: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[Any]]:
    """Makes the shell that of a kernel, with or without a person at it; gives the callers that are made."""

    def make(attended: bool) -> list[Any]:
        made: list[Any] = []
        parent = {"header": {"msg_id": "x"}, "content": {"allow_stdin": attended}}
        monkeypatch.setattr(loaded, "kernel", SimpleNamespace(get_parent=lambda _: parent), raising=False)
        begin = NotebookCaller.__init__

        def init(self: Any, **traits: Any) -> None:
            begin(self, **traits)
            made.append(self)

        monkeypatch.setattr(NotebookCaller, "__init__", init)
        return made

    return make


def test_a_page_is_told_how_much_waits_and_nothing_of_it(
    loaded: InteractiveShell,
    lab: Lab,
    in_kernel: Callable[[bool], list[Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = in_kernel(True)
    first = propose(lab, call("secret-tool", iban="DE00"))
    assert lines_of(loaded, capsys) == ""
    loaded.run_cell("None")
    [caller] = made
    eventually(lambda: caller.waiting == 1)
    cards = [propose(lab, call("more", n=n)) for n in range(3)]
    eventually(lambda: caller.waiting == 4)
    state = {name: value for name, value in caller.get_state().items() if name not in ("_esm", "_css")}
    assert "secret-tool" not in repr(state) and "DE00" not in repr(state) and state["space"] == "demo"
    for card in (first, *cards):
        lab.reject(card.id)
    eventually(lambda: caller.waiting == 0)
    lab.down()
    assert caller.comm is None, "a lab that is down calls nobody"


def test_nobody_is_called_where_nobody_is(
    loaded: InteractiveShell, lab: Lab, in_kernel: Callable[[bool], list[Any]]
) -> None:
    made = in_kernel(False)
    loaded.run_cell("pass")
    assert made == []
