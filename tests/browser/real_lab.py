"""Drives a real JupyterLab. Of mew_lab it knows only how a kernel that was used becomes as good as new.

`Page` is a tab in headless Chromium, `Notebook` one open notebook in it. Whatever a test does to a button it
does with the mouse (`Notebook.click`) or the keyboard; cells are run through JupyterLab's own commands. Every
wait has a deadline; nothing sleeps.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab_server import DEADLINE, LabServer, wait_until
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Error,
    Locator,
    Playwright,
    ViewportSize,
    sync_playwright,
)
from playwright.sync_api import Page as Tab
from playwright.sync_api import TimeoutError as WaitedTooLong

SHOTS = Path(__file__).resolve().parent / "shots"

# Whether the node, or something in it, is what lies at that point.
UNDER = "(node, [x, y]) => node.contains(document.elementFromPoint(x, y))"
# Keeps what a kernel began with, on its shell, whose names a test takes for its own.
REMEMBER = """
def _remember():
    import os, sys
    get_ipython().began_with = os.getcwd(), dict(os.environ), list(sys.path)
_remember()
del _remember
"""
# Ends what a test left in its kernel: the spaces and views, the extension, every widget and every name, and what it has
# changed of the folder, the environment and the places of modules; modules from there are forgotten.
CLEAN = """
def _clean():
    import os, sys
    from ipywidgets import Widget
    shell = get_ipython()
    if "mew_lab.lab.labs" in sys.modules: sys.modules["mew_lab.lab.labs"].close_all()
    if "mew_lab.views.views" in sys.modules: sys.modules["mew_lab.views.views"].close_views()
    if "mew_lab" in shell.extension_manager.loaded: shell.extension_manager.unload_extension("mew_lab")
    Widget.close_all()
    folder, environment, path = shell.began_with
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    added = set(sys.path) - set(path)
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if os.path.dirname(getattr(module, "__file__", None) or "") in added: del sys.modules[name]
    shell.reset(new_session=True)
_clean()
"""
# What a page holds that a notebook could leave behind, besides documents.
STATE = """() => ({
  names: Object.getOwnPropertyNames(window).filter(name => !/^\\d+$/.test(name)),
  styles: [...document.querySelectorAll('style[id]')].map(style => style.id),
  body: [...document.body.children].map(node => node.id || node.tagName + ' ' + node.className),
})"""
# Takes away documents, style sheets of views and what was stored; gives back what else is there that was not.
TIDY = """async before => {
  for (const widget of [...jupyterapp.shell.widgets('main')]) {
    if (widget.context) widget.context.model.dirty = false;
    widget.dispose();
  }
  for (const style of document.querySelectorAll('style[id]')) if (!before.styles.includes(style.id)) style.remove();
  localStorage.clear(); sessionStorage.clear();
  for (const { name } of await indexedDB.databases()) indexedDB.deleteDatabase(name);
  document.activeElement?.blur();
  const left = STATE();
  // JupyterLab loads MathJax when a text has a formula, and tests axe-core; it forgets the menu of a toolbar that is gone.
  return [...left.names.filter(name => !before.names.includes(name) && !['ends', 'MathJax', 'axe'].includes(name)),
    ...left.body.filter(node => !before.body.includes(node) && !node.startsWith('JP-TOOLBAR '))];
}""".replace("STATE", f"({STATE})")
LOADING = 90_000  # milliseconds for JupyterLab itself, megabytes of script, on a busy machine; a view answers in less
VIEWPORT: ViewportSize = {"width": 1360, "height": 1000}
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    """The first Chromium on PATH, or None."""
    return next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. `.tab` is Playwright's page, for what is not here."""

    def __init__(self, tab: Tab, server: LabServer) -> None:
        self.tab = tab
        self.server = server
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.crashed = False
        self._before: Any = None  # the state of the page with JupyterLab and nothing opened
        tab.set_default_timeout(DEADLINE * 1000)
        tab.on("pageerror", lambda error: self.errors.append(str(error)))

        def on_dialog(dialog: Any) -> None:
            # JupyterLab asks before a page with unsaved changes is left; that one is ours.
            if dialog.type == "beforeunload":
                dialog.accept()
                return
            self.dialogs.append(dialog.message)
            dialog.dismiss()

        def on_crash(_: Any) -> None:
            self.crashed = True

        tab.on("dialog", on_dialog)
        tab.on("crash", on_crash)

    @property
    def usable(self) -> bool:
        """Whether the tab and its browser are there still."""
        browser = self.tab.context.browser
        return not self.crashed and not self.tab.is_closed() and bool(browser and browser.is_connected())

    def load(self, path: str = "") -> None:
        """Loads JupyterLab; `path` is the notebook that it opens at once, if any."""
        # A workspace of its own: nothing of another test is restored beside it.
        where = f"{self.server.url}/lab/workspaces/{secrets.token_hex(4)}"
        where += f"/tree/{path}" if path else ""
        self.tab.goto(f"{where}?token={self.server.token}&reset", wait_until="domcontentloaded")

    def load_empty(self) -> None:
        """Loads JupyterLab without a notebook, and remembers what the page holds, for `tidy`."""
        self.load()
        self.tab.wait_for_function("() => window.jupyterapp?.restored.then(() => true)", timeout=LOADING)
        self._before = self.tab.evaluate(STATE)

    def tidy(self) -> bool:
        """Makes the page as it was when JupyterLab had been loaded; False where it cannot be used any more."""
        if self._before is None or not self.usable:
            return False
        try:
            self.ended()
            self.theme("light")
            self.tab.context.clear_permissions()
            self.tab.set_viewport_size(VIEWPORT)
            self.tab.mouse.move(0, 0)
            return self.usable and not self.tab.evaluate(TIDY, self._before)
        except Error:
            return False

    def pause(self, seconds: float) -> None:
        """Lets the browser's events be handled for that long."""
        self.tab.wait_for_timeout(seconds * 1000)

    def until(self, probe: Callable[[], Any], what: str, *, deadline: float = DEADLINE) -> Any:
        """Waits for the first true value of `probe`."""
        return wait_until(probe, what, deadline=deadline, pause=self.pause)

    def theme(self, name: str) -> None:
        """Switches to `light` or `dark`; returns when the page can be pressed and measured again.

        JupyterLab covers the page while a theme loads, and takes the cover away after a fade. A second change within
        the fade makes it take the cover away twice, which is an error of the page that no view has made.
        """
        light = "true" if name == "light" else "false"
        title = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}[name]
        self.tab.evaluate(
            """([title, light]) => { if (document.body.dataset.jpThemeLight !== light)
                 jupyterapp.commands.execute('apputils:change-theme', {theme: title}); }""",
            [title, light],
        )
        self.tab.wait_for_function(
            "d => document.body.dataset.jpThemeLight === d && !document.getElementById('jupyterlab-splash')",
            arg=light,
        )

    def ended(self) -> None:
        """Waits until the kernels of closed notebooks have ended."""
        with contextlib.suppress(Exception):
            self.tab.evaluate(
                "async () => { await Promise.all(window.ends ?? []); window.ends = []; return null; }"
            )

    def shot(self, name: str, target: Locator | None = None) -> Path:
        """A picture of the target (or the tab) under shots/."""
        SHOTS.mkdir(exist_ok=True)
        path = SHOTS / f"{name}.png"
        (target or self.tab).screenshot(path=path)
        return path

    def shots(self, name: str, target: Locator | None = None) -> list[Path]:
        """The same in light and in dark."""
        paths = []
        for theme in ("light", "dark"):
            self.theme(theme)
            paths.append(self.shot(f"{name}-{theme}", target))
        self.theme("light")
        return paths


class Notebook:
    """One open notebook with its own kernel. Cells are counted from 0.

    `kernel` is the id of one that runs already; else one is started.
    """

    def __init__(self, page: Page, path: str, *, kernel: str | None = None) -> None:
        self.page = page
        self.tab = page.tab
        self.path = path
        self.kernel = kernel

    def open(self) -> Notebook:
        """Opens it, in the JupyterLab that the tab shows already if there is one; waits for its kernel."""
        if self.tab.evaluate("() => Boolean(window.jupyterapp)"):
            self.tab.evaluate(
                # A kernel may have been made known after the page was loaded.
                """async ([path, id]) => {
                     if (id === null) await jupyterapp.serviceManager.kernelspecs.refreshSpecs();
                     await jupyterapp.commands.execute('docmanager:open', id === null ? {path} : {path, kernel: {id}});
                     return 0; }""",
                [self.path, self.kernel],
            )
        else:
            self.page.load(self.path)
        self._wait_ready(("idle",))
        # The subshells of the notebook before ended with it; what their tasks print when they are destroyed
        # is no output of this one's cells.
        self.tab.evaluate(
            """code => jupyterapp.shell.currentWidget.sessionContext.session.kernel
                 .requestExecute({ code, silent: true }).done.then(() => null)""",
            REMEMBER if self.kernel is None else "__import__('gc').collect()",
        )
        return self

    def reload(self) -> None:
        """Loads the page anew; the kernel goes on, maybe busy."""
        self.page.load(self.path)
        self._wait_ready(("idle", "busy"))

    def _wait_ready(self, states: Sequence[str]) -> None:
        self.tab.wait_for_function(
            """([path, states]) => { const w = window.jupyterapp?.shell?.currentWidget;
                 const k = w?.sessionContext?.session?.kernel;
                 return w?.context?.path === path && w?.content?.widgets?.length > 0 && k
                     && states.includes(k.status); }""",
            arg=[self.path, list(states)],
            timeout=LOADING,
        )

    def in_cell(self, script: str, index: int) -> Any:
        return self.tab.evaluate(
            f"i => {{ const cell = jupyterapp.shell.currentWidget.content.widgets[i]; {script} }}", index
        )

    def run(self, index: int, *, wait: bool = True, deadline: float = DEADLINE) -> Notebook:
        """Runs one cell, like Shift+Enter; `wait=False` returns when the kernel has begun with it."""
        before = self.count(index)
        self.tab.evaluate(
            """i => { const w = jupyterapp.shell.currentWidget; w.content.deselectAll();
                      w.content.activeCellIndex = i;
                      jupyterapp.commands.execute('notebook:run-cell'); return null; }""",
            index,
        )
        if wait:
            self.wait(index, after=before, deadline=deadline)
        else:
            self.page.until(
                lambda: self._prompt(index) == "*" or self.count(index) != before, f"cell {index} to begin"
            )
        return self

    def write(self, index: int, source: str) -> None:
        """Gives a cell another source."""
        self.in_cell(f"cell.model.sharedModel.setSource({json.dumps(source)});", index)

    def execute(self, code: str) -> None:
        """Has the kernel run something that stands in no cell, so that the page's focus stays where it is."""
        status = self.tab.evaluate(
            """code => jupyterapp.shell.currentWidget.sessionContext.session.kernel
                 .requestExecute({ code }).done.then(reply => reply.content.status)""",
            code,
        )
        assert status == "ok", code

    def run_all(self, *, deadline: float = DEADLINE) -> Notebook:
        """Runs every cell from the top and waits for the last code cell."""
        last = self.in_cell(
            """const all = jupyterapp.shell.currentWidget.content.widgets;
               jupyterapp.commands.execute('notebook:run-all-cells');
               return all.map(c => c.model.type).lastIndexOf('code');""",
            0,
        )
        self.wait(last, deadline=deadline)
        return self

    def _prompt(self, index: int) -> str:
        return str(
            self.in_cell("return cell.prompt ?? cell.inputArea?.prompt?.executionCount ?? '';", index) or ""
        )

    def count(self, index: int) -> int | None:
        """The execution count of the cell; None while it has not run, or runs."""
        value = self.in_cell("return cell.model.executionCount;", index)
        return None if value is None else int(value)

    def running(self, index: int) -> bool:
        """Whether the cell is queued or runs now."""
        return bool(
            self.in_cell(
                "const prompt = cell.inputArea.promptNode.textContent;"
                "return cell.model.executionState === 'running' || prompt.includes('*');",
                index,
            )
        )

    def wait(self, index: int, *, after: int | None = None, deadline: float = DEADLINE) -> Notebook:
        """Waits until the cell has ended (`after`: with another count than that)."""
        self.page.until(
            lambda: self.count(index) not in (None, after) and not self.running(index),
            f"cell {index} to end",
            deadline=deadline,
        )
        return self

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """The cell's outputs as the notebook format has them."""
        return list(self.in_cell("return cell.model.outputs.toJSON();", index))

    def text(self, index: int) -> str:
        """The cell's outputs as plain text: streams, text/plain of results, name and message of errors."""
        parts = []
        for output in self.outputs(index):
            if output["output_type"] == "stream":
                parts.append("".join(output["text"]))
            elif output["output_type"] == "error":
                parts.append(f"{output['ename']}: {output['evalue']}")
            else:
                parts.append("".join(output["data"].get("text/plain", "")))
        return "\n".join(parts)

    def area(self, index: int) -> Locator:
        """The output area of the cell on the page."""
        return self.tab.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-OutputArea").first

    def view(self, index: int) -> Locator:
        """The view that a cell shows."""
        return self.area(index).locator("section.mew").first

    def centre(self, target: Locator) -> tuple[float, float]:
        """Where the mouse must go to hit the target, after it was scrolled into view."""

        def found() -> Any:
            try:
                target.scroll_into_view_if_needed()
                return target.bounding_box()
            except WaitedTooLong:
                raise
            except Error:  # the page has put another in its place meanwhile
                return None

        box = self.page.until(found, f"{target} to be on the page")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def click(self, target: Locator) -> float:
        """Clicks with the mouse at the target's centre; returns the moment (time.monotonic) of the press.

        What has moved on while the mouse went there is gone after, as a hand would.
        """
        for _ in range(50):
            x, y = self.centre(target)
            self.tab.mouse.move(x, y)
            with contextlib.suppress(Error):
                if target.evaluate(UNDER, [x, y]):
                    break
        pressed = time.monotonic()
        self.tab.mouse.click(x, y)
        return pressed

    def save(self) -> dict[str, Any]:
        """Saves in JupyterLab and returns the notebook file."""
        self.tab.evaluate(
            "async () => { await jupyterapp.commands.execute('docmanager:save'); return null; }"
        )
        return dict(json.loads((self.page.server.root / self.path).read_text()))

    def interrupt(self) -> None:
        """The stop button."""
        self.tab.evaluate(
            "async () => { await jupyterapp.commands.execute('notebook:interrupt-kernel'); return null; }"
        )

    def acknowledge_death(self) -> None:
        """Waits until JupyterLab says that the kernel died, and presses OK: before that nothing else can be used."""
        told = self.tab.locator(".jp-Dialog button.jp-mod-accept")
        self.page.until(told.count, "JupyterLab's own words")
        told.first.click()

    def hand_over(self) -> str | None:
        """Closes the document and keeps its kernel, cleaned, for another notebook; its id.

        None where the kernel is busy or does not answer soon: it is ended with the document, then.
        """
        kernel = None
        with contextlib.suppress(Exception):
            kernel = self.tab.evaluate(
                """async code => {
                     const w = jupyterapp.shell.currentWidget, kernel = w.sessionContext.session?.kernel;
                     if (kernel?.status !== 'idle') return null;
                     const late = new Promise(done => setTimeout(() => done(null), 10000));
                     const reply = await Promise.race([kernel.requestExecute({ code, silent: true }).done, late]);
                     if (reply?.content.status !== 'ok') return null;
                     w.context.model.dirty = false; w.dispose(); return kernel.id; }""",
                CLEAN,
            )
        if kernel is None:
            self.close()
        return kernel

    def close(self) -> None:
        """Sends the kernel its end, which `Page.ended` waits for, and closes the document without a question."""
        with contextlib.suppress(Exception):
            self.tab.evaluate(
                """() => { const w = jupyterapp.shell.currentWidget, id = w.sessionContext.session?.id;
                           const ends = window.ends ??= [];
                           if (id) ends.push(jupyterapp.serviceManager.sessions.shutdown(id).catch(() => {}));
                           w.context.model.dirty = false; w.dispose(); return null; }"""
            )


def launch(playwright: Playwright, executable: str) -> Browser:
    """A headless Chromium with a fresh profile."""
    return playwright.chromium.launch(executable_path=executable, headless=True, args=CHROMIUM_ARGUMENTS)


def new_context(browser: Browser) -> BrowserContext:
    """A window wide enough for a feed and high enough for three cards."""
    return browser.new_context(viewport=VIEWPORT, device_scale_factor=1)


class SharedBrowser:
    """The Chromium of one process of tests, and in it the tab whose JupyterLab the modules use one after the other.

    A browser or a tab that has crashed is replaced when it is asked for next, and so is a tab that holds something of
    the module before which `Page.tidy` cannot take away. Playwright's sync API occupies the thread's event loop from the
    first `browser` to `close`.
    """

    def __init__(self) -> None:
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._page: Page | None = None
        self._window: BrowserContext | None = None

    def browser(self, executable: str) -> Browser:
        """The browser that runs, or a new one."""
        if self._playwright is None:
            self._playwright = sync_playwright().start()
        if self._browser is None or not self._browser.is_connected():
            self._browser = launch(self._playwright, executable)
        return self._browser

    def page(self, executable: str, server: LabServer) -> Page:
        """The tab that the modules share, in a context of its own."""
        if self._page is None or not self._page.usable:
            self._page = Page(new_context(self.browser(executable)).new_page(), server)
            self._page.load_empty()
        return self._page

    def window(self, executable: str) -> BrowserContext:
        """A context for pages that are not JupyterLab, the same for all tests of a module."""
        browser = self.browser(executable)
        if self._window is None or self._window.browser is not browser:
            self._window = new_context(browser)
        return self._window

    def tidy(self) -> None:
        """After a module: nothing of it is left for the next one."""
        if self._window is not None:
            with contextlib.suppress(Error):
                self._window.close()
            self._window = None
        if self._page is not None and not self._page.tidy():
            with contextlib.suppress(Error):
                self._page.tab.context.close()
            self._page = None

    def close(self) -> None:
        """Ends the browser, if there is one, and gives the event loop back."""
        self._page = self._window = None
        if self._browser is not None:
            with contextlib.suppress(Error):
                self._browser.close()
        if self._playwright is not None:
            self._playwright.stop()
        self._playwright = self._browser = None
