"""What holds for every view: what it sends and takes, from whom, and what it leaves behind. Each has a real space."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from pages import Page, bundle, bustle, settle

from mew_lab.lab.lab import Lab
from mew_lab.views.ui.acts import STALE, ActingView
from mew_lab.views.ui.messages import members_of
from mew_lab.views.views import PARTS

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil\u200b\x1b[31m"
HIDDEN = frozenset("\u202e\u200b\x1b")
VIEWS = [*PARTS, "moments"]
SILENT = (
    "moments",
    "rules",
    "workshop",
)  # they tell of a place in the log, of what was decided, and of a file
AT_MOST = 25  # messages a second
# One value of each type that JSON has.
VALUES: tuple[Any, ...] = ("x", 1, 1.5, True, None, ["x"], [1], [{}], {"x": 1})


def show(lab: Lab, name: str) -> Any:
    return getattr(lab.log.view if name == "moments" else lab.view, name)


@pytest.fixture(params=VIEWS)
def view(request: pytest.FixtureRequest, lab: Lab) -> Any:
    """A view of a space in which the person is alone."""
    return show(lab, request.param)


@pytest.fixture(params=[name for name in VIEWS if name not in SILENT])
def telling(request: pytest.FixtureRequest, lab: Lab) -> Any:
    """A view that tells what happens in the space."""
    return show(lab, request.param)


def seen(sent: Any) -> Any:
    """What a view sends without the keys of its rows, which a page sends back and never shows."""
    if isinstance(sent, dict):
        return {name: seen(value) for name, value in sent.items() if name not in ("key", "after", "gone")}
    return [seen(item) for item in sent] if isinstance(sent, list | tuple) else sent


def accepts(form: Any, value: Any) -> bool:
    """Whether a member of that type may have a value, as JSON has types: a whole number is no truth value."""
    parts = get_args(form)
    origin = get_origin(form)
    if origin in (Union, UnionType):
        return any(accepts(part, value) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is not None and origin is not dict and "Mapping" not in str(origin):
        return isinstance(value, list) and all(accepts(parts[0], item) for item in value)
    names = {
        str: (str,),
        int: (int,),
        float: (int, float),
        bool: (bool,),
        NoneType: (NoneType,),
        Any: (object,),
    }
    return type(value) in names.get(form, (dict,)) or form is Any


def wrong_members(take: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Messages with one thing wrong: a member of another type, one that is missing, one that nobody declared."""
    members = members_of(take)
    good = {
        name: next(value for value in VALUES if accepts(member.form, value))
        for name, member in members.items()
        if not member.optional and any(accepts(member.form, value) for value in VALUES)
    }
    yield good | {"undeclared": 1}
    for name, member in members.items():
        yield from (good | {name: value} for value in VALUES if not accepts(member.form, value))
        if not member.optional:
            yield {other: value for other, value in good.items() if other != name}


def test_a_page_gets_a_snapshot_and_a_second_one_takes_nothing_from_the_first(
    telling: Any, lab: Lab, browser: Callable[[Any], Page]
) -> None:
    page = browser(telling)
    first = page.appear("v1")
    assert (first["view"], first["over"]) == ("v1", "") and "settings" in first
    settle(page)
    before = len(page.items)
    bustle(lab, "hello")
    page.appear("v2")
    settle(page)
    told = {item["t"] for item in page.items[before:]} - {"snapshot"}
    assert told, "the first page hears what has happened, though the second asked for all of it"
    whole = page.appear("v3")
    again = page.appear("v1")
    moving = {"view", "now", "seconds", "minutes"}
    assert {name for name in whole if whole[name] != again[name]} <= moving, (
        "after a loss a page gets what a new one gets"
    )


def test_whatever_comes_a_view_sends_few_messages(
    telling: Any, lab: Lab, browser: Callable[[Any], Page]
) -> None:
    page = browser(telling)
    page.appear()
    bot = lab.join("bot", can="admin")

    async def flood() -> None:
        for n in range(400):
            await bot.participant.sender.say("chat", {"text": str(n)})
            await bot.participant.sender.say("reasoning/thought", {"message": str(n)}, context="r")

    lab.loop.run(flood(), timeout=60, doing="flooding")
    settle(page)
    # Told from the numbers, for a busy machine may bring two messages near each other.
    gaps = [later - earlier for earlier, later in pairwise(page.moments)]
    assert not gaps or sum(gap < 0.8 / AT_MOST for gap in gaps) <= len(gaps) / 4
    assert len(page.batches) <= 2 + AT_MOST * (page.moments[-1] - page.moments[0] + 1)


@pytest.mark.threat(3, 4, 17)
def test_whatever_peers_write_leaves_the_kernel_as_visible_text(
    view: Any, lab: Lab, browser: Callable[[Any], Page]
) -> None:
    page = browser(view)
    page.appear()
    bustle(lab, HOSTILE)
    settle(page)
    page.appear("v2")
    stored = bundle(view)
    assert not HIDDEN & set(json.dumps(seen(page.batches), ensure_ascii=False))
    assert not HIDDEN & set(stored["text/html"] + stored["text/plain"])
    assert "<img src=x" not in stored["text/html"]
    assert not view.faults


@pytest.mark.threat(5)
def test_a_saved_notebook_holds_a_picture_and_nothing_that_acts(
    view: Any, lab: Lab, browser: Callable[[Any], Page]
) -> None:
    page = browser(view)
    nonce = page.appear().get("nonce", "no nonce")
    bustle(lab, "hello")
    settle(page)
    stored = bundle(view)
    assert stored["text/plain"] == repr(view) and "<button" not in stored["text/html"]
    assert nonce not in json.dumps([stored, view.widget.get_state()], default=str)


@pytest.mark.threat(5)
def test_only_what_is_declared_is_taken_and_only_from_a_page_of_this_kernel(
    view: Any, lab: Lab, browser: Callable[[Any], Page]
) -> None:
    page = browser(view)
    page.appear()
    settle(page)
    records = len(lab.log)
    acts = (view.acts if isinstance(view, ActingView) else {}).items()
    # All are begun before the first is awaited: a view answers a few times a second.
    begun = [(page.begin(name, nonce="0" * 32), STALE, {}) for name, _ in acts] + [
        (page.begin(name, **given), f"malformed request ({name})", given)
        for name, act in acts
        for given in wrong_members(act)
    ]
    for job, said, given in begun:
        [told] = page.until(lambda job=job: page.ended(job))
        assert told["t"] == "failed" and said in told["said"], given
    for kind, take in view.messages.items():
        for given in wrong_members(take):
            page.send({"t": kind} | given)
    for message in (
        [],
        None,
        "text",
        {},
        {"t": []},
        {"t": "act"},
        {"t": "snapshot", "view": 7},
        {"t": "ping"},
    ):
        page.send(message)
    assert len(lab.log) == records and not view.faults
    assert page.appear("v9")["view"] == "v9"


def test_a_closed_view_follows_nothing_and_sends_nothing(
    telling: Any, lab: Lab, browser: Callable[[Any], Page]
) -> None:
    page = browser(telling)
    page.appear()
    settle(page)
    telling.close()
    telling.close()
    sent = len(page.batches)
    bustle(lab, "hello")
    lab.loop.call(lambda: None)
    time.sleep(3 * telling.interval)
    assert len(page.batches) == sent and not telling.faults
