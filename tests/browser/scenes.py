"""What several notebooks of the browser tests begin with: a tool that adds, and a bot that may ask for it; and how the
person in them reads a long text to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from playwright.sync_api import Locator

__all__ = ["ADDING", "BUSY", "PROPOSE", "armed", "choose", "dwell", "read_through", "rest"]

ADDING = """%load_ext mew_lab
import mew_lab
lab = mew_lab.up(journal=None)
@lab.tool
def add(a: int, b: int) -> int:
    "Sum of two numbers."
    return a + b
bot = lab.join("bot", can="proposer")
"""
PROPOSE = 'p = bot.call("notebook/add", {"a": 1, "b": 2})'


# A space with something in each part: cards with and without warnings, decided ones, a failed call, reasoning, a stream,
# chats, an agent whose context is nearly full, a permission that was given.
BUSY = """%load_ext mew_lab
import time
import mew_lab
lab = mew_lab.up(journal=None)
lab.view.streams
@lab.tool
def moisture(bed: str) -> float:
    "Soil moisture of a bed."
    return {"north": 0.31, "south": 0.42}[bed]
@lab.tool
def write_file(path: str, content: str) -> str:
    "Writes a file."
    return path
bot, helper, sensor = lab.join("bot"), lab.join("helper", can="agent"), lab.join("sensor", can="admin")
def finish(work): return lab.loop.run(work, timeout=20, doing="a scene")
def open_proposals(count):
    end = time.monotonic() + 20
    while len(lab.proposals()) != count:
        assert time.monotonic() < end, lab.proposals()
        time.sleep(0.01)
helper.chat("Good morning. Which bed shall I look after?", to="human")
question = lab.chat("The north bed, please: see https://example.org/beds for the plan.", to="helper")
first = helper.send("reasoning/start", {"message": "Looking after the north bed"}, correlation_id=question.id)
helper.send("reasoning/thought", {"message": "The sensor was read at 07:50: 18 per cent."}, context=first.id)
helper.send("participant/status", {"tokens": 7600, "max_tokens": 8000, "messages_in_context": 42, "status": "thinking"})
stream = finish(sensor.participant.streams.request_stream("upload", description="Temperature of the greenhouse", content_type="text/x-numbers"))
for n in range(20): finish(stream.write(f"{20 + n % 7}\\n"))
for bed, decide in (("north", lab.approve), ("east", lab.approve), ("west", lab.reject)):
    asked = bot.call("notebook/moisture", {"bed": bed})
    open_proposals(1)
    decide(lab.proposals()[0])
bot.call("notebook/moisture", {"bed": "south"})
bot.call("notebook/write_file", {"path": "/etc/passwd", "content": "\\n".join(f"line {n}: water the beans" for n in range(60))})
helper.propose("notebook/write_file", {"path": "beds.md", "content": "# Beds"})
open_proposals(3)
print("ready")
"""


def choose(around: Locator, text: str) -> None:
    """Presses an entry of the menu that is open there, as by a mouse."""
    around.get_by_role("menuitem", name=text).first.click()


class Waits(Protocol):
    """The page of a test."""

    def until(self, probe: Callable[[], Any], what: str) -> Any: ...


def armed(page: Waits, button: Locator) -> Locator:
    """The button, once it may be pressed: it is brought into sight, and before it the card around it."""
    button.evaluate("button => button.closest('li')?.scrollIntoView({ block: 'center' })")
    button.scroll_into_view_if_needed()
    page.until(lambda: button.get_attribute("aria-disabled") != "true", "the button to arm")
    return button


def dwell(pause: Callable[[float], None]) -> None:
    """Looks at what is in sight for as long as it takes to count as seen."""
    pause(0.3)  # a view looks ten times a second, and takes for seen what two looks have found


def rest(pause: Callable[[float], None]) -> None:
    """Lets what is in sight arm, if it does."""
    pause(0.9)  # it takes half a second from the look; what has not armed by then does not


def read_through(card: Locator, pause: Callable[[float], None]) -> None:
    """Goes on, in each long text of the card, to what was not in sight yet until all of it was."""
    for bar in card.locator(".mew-readbar").all():
        on = bar.locator("button.mew-next")
        for _ in range(400):
            if on.get_attribute("aria-disabled") == "true":
                break
            on.evaluate("button => button.click()")
            dwell(pause)
