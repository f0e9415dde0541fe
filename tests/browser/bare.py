"""A page that holds one view of this very process and nothing else, for what needs a browser and no JupyterLab.

The view's own module runs in a real Chromium; between it and the widget in Python stands what anywidget would be. A
`Bare` passes messages on while it waits (`until`), and can lose them (`deaf`). Nobody passes on the beats of the kernel
while a test does something else, so there are none unless it wants them (`beats`); else a page of a busy machine takes its
kernel for silent.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from lab_server import DEADLINE, wait_until
from playwright.sync_api import BrowserContext, Locator

DARK = (
    "--jp-layout-color1: #111; --jp-layout-color2: #333; --jp-ui-font-color0: #fff; --jp-ui-font-color1: #ddd;"
    "--jp-ui-font-color2: #a0a0a0; --jp-border-color1: #666; --jp-border-color2: #444;"
)
MODEL = """
window.mewModel = (send, kernel) => {
  const heard = new Set();
  return { heard, on: (name, run) => heard.add(run), off: (name, run) => heard.delete(run), send, get: () => null, widget_manager: { kernel } };
};
"""


class Bare:
    """One view in one tab. `sent` holds what the page said, `deaf` drops what the kernel says."""

    def __init__(
        self,
        window: BrowserContext,
        view: Any,
        *,
        width: int = 1000,
        height: int = 800,
        dark: bool = False,
        beats: bool = False,
    ) -> None:
        self.view = view
        view.beats = view.beats and beats
        self.deaf = False
        self.sent: list[dict[str, Any]] = []
        self._queue: deque[str] = deque()
        self._items: list[dict[str, Any]] = []
        self.tab = window.new_page()
        self.tab.set_default_timeout(DEADLINE * 1000)
        self.tab.set_viewport_size({"width": width, "height": height})
        self.errors: list[str] = []
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        view.widget.send = self._post
        self.tab.expose_function("mewSay", self._heard)
        style = f"<style>{view.widget.get_state()['_css']} body {{ margin: 0; {DARK if dark else ''} background: var(--jp-layout-color1, #fff) }}</style>"
        theme = "false" if dark else "true"
        self.tab.set_content(
            f"<!doctype html><html><head>{style}</head><body data-jp-theme-light={theme}><div id=out></div></body></html>"
        )
        self.tab.evaluate(MODEL)
        self.tab.add_script_tag(
            type="module",
            content=view.widget.get_state()["_esm"].replace("export default {", "window.mewModule = {"),
        )
        self.show()

    def show(self, place: str = "out") -> Locator:
        """Draws the view in the element of that id, anew where it stands there already; gives its section."""
        self.tab.wait_for_function("window.mewModule")
        self.tab.evaluate(
            """place => { const model = mewModel(message => { mewSay(JSON.stringify(message)); }, window.mewKernel);
                 (window.mewModels ??= []).push(model); window.mewModule.render({ model, el: document.getElementById(place) }); }""",
            place,
        )
        return self.tab.locator(f"#{place} section.mew")

    def _heard(self, text: str) -> None:
        message = json.loads(text)
        self.sent.append(message)
        if not self.deaf:
            data = {"method": "custom", "content": message}
            self.view.widget.comm.handle_msg({"content": {"data": data}, "buffers": []})

    def _post(self, content: dict[str, Any], buffers: Any = None) -> None:
        self._items.extend(content["items"])
        self._queue.append(json.dumps(content))

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Everything of that kind that the kernel has sent so far, whether or not the page heard it."""
        return [item for item in self._items if item["t"] == kind]

    @property
    def nonce(self) -> str:
        """What the page shows that it belongs to this kernel with."""
        return str(self.of("snapshot")[-1]["nonce"])

    def pump(self) -> None:
        """Gives the page what the kernel has said so far."""
        while self._queue:
            text = self._queue.popleft()
            if not self.deaf:
                self.tab.evaluate(
                    "text => { for (const model of mewModels) for (const run of [...model.heard]) run(JSON.parse(text)); }",
                    text,
                )

    def pause(self, seconds: float) -> None:
        """Lets messages and the browser's events pass for that long."""
        while seconds > 0:
            self.pump()
            self.tab.wait_for_timeout(min(seconds, 0.05) * 1000)
            seconds -= 0.05
        self.pump()

    def until(self, probe: Callable[[], Any], what: str) -> Any:
        """Waits for the first true value."""
        return wait_until(probe, what, deadline=DEADLINE, pause=lambda _: self.pause(0.05))

    def cards(self, place: str = "out") -> Locator:
        """The open cards."""
        return self.tab.locator(f"#{place} li.mew-card:not([hidden]):not(.mew-past)")

    def close(self) -> None:
        """Ends the tab and the view."""
        self.tab.close()
        self.view.close()
