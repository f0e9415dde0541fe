"""The page that the modules of these tests share: nothing of one is there for the next, and what has ended is replaced."""

from __future__ import annotations

import pytest
from lab_server import LabServer
from real_lab import Page, SharedBrowser

LEAVE = """async path => {
  localStorage.setItem('left', '1'); sessionStorage.setItem('left', '1');
  document.head.append(Object.assign(document.createElement('style'), { id: 'left' }));
  await jupyterapp.commands.execute('docmanager:open', { path });
}"""
LEFT = """() => [localStorage.length, sessionStorage.length, document.querySelectorAll('style#left').length,
  [...jupyterapp.shell.widgets('main')].filter(widget => widget.context).length]"""


def test_what_a_module_left_is_taken_away_and_what_cannot_be_is_noticed(
    page: Page, lab_server: LabServer
) -> None:
    (lab_server.root / "left.txt").write_text("left")
    page.tab.evaluate(LEAVE, "left.txt")
    storage, session, styles, documents = page.tab.evaluate(LEFT)
    assert storage >= 1 and session >= 1 and styles == 1 and documents == 1
    assert page.tidy()
    assert page.tab.evaluate(LEFT) == [0, 0, 0, 0]
    page.tab.evaluate("() => { window.mewLeft = 1; }")
    assert not page.tidy()
    page.tab.evaluate("() => { delete window.mewLeft; }")
    assert page.tidy()


@pytest.mark.slow
def test_a_browser_that_has_ended_is_started_anew(
    page: Page, shared_browser: SharedBrowser, executable: str, lab_server: LabServer
) -> None:
    assert shared_browser.page(executable, lab_server) is page
    browser = page.tab.context.browser
    assert browser is not None
    browser.close()
    assert not page.usable
    another = shared_browser.page(executable, lab_server)
    assert another is not page and another.usable
    assert another.tab.evaluate("() => Boolean(window.jupyterapp)")
