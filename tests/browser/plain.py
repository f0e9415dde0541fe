"""Cells without JupyterLab: they run in this process, and what they show stands on one plain page of a real Chromium.

It is for what a person reads, presses, focuses or scrolls in a view, and costs neither a server nor a kernel. A `Plain` has the
methods of a `Notebook`, and each of its cells runs to its end before anything else happens: a cell that waits for a press, the
keys of a notebook, its file, its reload and another kernel need JupyterLab.
"""

from __future__ import annotations

import atexit
import json
from collections import deque
from collections.abc import Sequence
from typing import Any

from bare import DARK
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from IPython.utils.capture import capture_output
from ipywidgets import Widget
from ipywidgets.widgets.widget import _instances
from lab_server import DEADLINE
from playwright.sync_api import BrowserContext
from real_lab import Notebook, Page
from traitlets.config import Config

import mew_lab
from mew_lab.lab.labs import close_all
from mew_lab.views.ui.preferences import preferences_path
from mew_lab.views.views import close_views

ADDRESS = "http://localhost/"  # a page that may use the clipboard; nothing is asked for there
# The page asks for what the views say, so that each wait of Playwright, too, lets it come.
RUNTIME = """
const mewViews = {};
const mewShow = async (id, el) => {
  if (!mewViews[id]) {
    const { esm, css, parts } = JSON.parse(await mewGet(id));
    document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
    mewViews[id] = { parts, heard: new Set(), module: import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" }))) };
  }
  const { parts, heard, module } = mewViews[id];
  const model = { on: (_, run) => heard.add(run), off: (_, run) => heard.delete(run), get: () => parts, widget_manager: {},
    send: (message) => { mewSay(id, JSON.stringify(message)); } };
  const host = { getWidget: async (ref) => ({ render: ({ el }) => mewShow(ref.split(":")[1], el) }) };
  await (await module).default.render({ model, el, host, signal: new AbortController().signal });
};
const mewPull = async () => {
  for (const [id, text] of JSON.parse(await mewTake())) for (const run of [...mewViews[id]?.heard ?? []]) run(JSON.parse(text));
  setTimeout(mewPull, 20);
};
mewPull();
"""
# Puts what a cell has given in the place of what it gave before.
OUTPUT = """async ([index, outputs]) => {
  const area = document.querySelectorAll(".jp-OutputArea")[index];
  area.replaceChildren();
  for (const [kind, text] of outputs) {
    const box = area.appendChild(document.createElement(kind === "text" ? "pre" : "div"));
    if (kind === "view") await mewShow(text, box);
    else if (kind === "html") box.innerHTML = text;
    else box.textContent = text;
  }
}"""
VIEW = "application/vnd.jupyter.widget-view+json"


class PlainPage(Page):
    """The tab of a `Plain`."""

    def __init__(self, window: BrowserContext) -> None:
        super().__init__(window.new_page(), None)  # type: ignore[arg-type]

    def theme(self, name: str) -> None:
        self.tab.evaluate(
            """([light, dark]) => { const { body } = document; body.dataset.jpThemeLight = light;
                 body.style.cssText = `${light ? "" : dark} margin: 0;
                 background: var(--jp-layout-color1, #fff); color: var(--jp-ui-font-color1, #212121)`; }""",
            [name == "light", DARK],
        )


class Plain(Notebook):
    """The cells of a notebook, and their page."""

    def __init__(self, window: BrowserContext, cells: Sequence[str]) -> None:
        page = PlainPage(window)
        super().__init__(page, "")
        self.cells = list(cells)
        self._said: dict[int, str] = {}
        self._queue: deque[tuple[str, str]] = deque()
        self._views: set[Any] = set()
        body = "<div class=jp-Cell><div class=jp-OutputArea></div></div>" * len(cells)
        html = f"<!doctype html><title>cells</title><body><div class=jp-Notebook>{body}</div>"
        self.tab.route(ADDRESS, lambda route: route.fulfill(content_type="text/html", body=html))
        self.tab.goto(ADDRESS)
        page.theme("light")
        for name, function in (("mewGet", self._get), ("mewSay", self._hear), ("mewTake", self._take)):
            self.tab.expose_function(name, function)
        self.tab.add_script_tag(content=RUNTIME)
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        self.shell: Any = InteractiveShell.instance(config=config)
        self.shell.display_trap.hook = lambda value: None if value is None else display(value)

    def _get(self, id: str) -> str:
        view: Any = _instances[id]
        self._views.add(view)
        view.send = lambda content, buffers=None: self._queue.append((id, json.dumps(content)))
        state = view.get_state()
        return json.dumps({"esm": state["_esm"], "css": state["_css"], "parts": state["parts"]})

    def _hear(self, id: str, message: str) -> None:
        [view] = [view for view in self._views if view.model_id == id]
        data = {"method": "custom", "content": json.loads(message)}
        view.comm.handle_msg({"content": {"data": data}, "buffers": []})

    def _take(self) -> str:
        taken = [self._queue.popleft() for _ in range(len(self._queue))]
        return json.dumps(taken)

    def open(self) -> Plain:
        return self

    def run(self, index: int, *, wait: bool = True, deadline: float = DEADLINE) -> Plain:
        assert wait, "nothing is pressed while such a cell runs"
        with capture_output() as given:
            # A semicolon at the end keeps the value of a cell from being shown.
            quiet = self.cells[index].rstrip().endswith(";")
            self.shell.run_cell(self.cells[index] + ("\nNone" if quiet else ""))
        outputs = [("text", given.stdout)] if given.stdout else []
        plain = [given.stdout]
        for output in given.outputs:
            if VIEW in output.data:
                outputs.append(("view", output.data[VIEW]["model_id"]))
            elif "text/html" in output.data:
                outputs.append(("html", output.data["text/html"]))
            else:
                outputs.append(("text", output.data.get("text/plain", "")))
            plain.append(output.data.get("text/plain", ""))
        self._said[index] = "\n".join(filter(None, plain))
        self.tab.evaluate(OUTPUT, [index, outputs])
        return self

    def run_all(self, *, deadline: float = DEADLINE) -> Plain:
        for index in range(len(self.cells)):
            self.run(index)
        return self

    def write(self, index: int, source: str) -> None:
        self.cells[index] = source

    def execute(self, code: str) -> None:
        with capture_output() as given:
            done = self.shell.run_cell(code)
        assert done.success, given.stdout

    def text(self, index: int) -> str:
        return self._said.get(index, "")

    def close(self) -> None:
        self.tab.close()
        close_views()  # while the loop of the labs is there, on which the workshop ends its servers
        close_all()
        if "mew_lab" in self.shell.extension_manager.loaded:
            mew_lab.unload_ipython_extension(self.shell)
        Widget.close_all()
        InteractiveShell.clear_instance()
        atexit.unregister(self.shell.atexit_operations)
        preferences_path().unlink(missing_ok=True)  # what a test has set is not set for the next one
