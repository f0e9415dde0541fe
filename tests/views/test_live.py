from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pages import Page, bundle

from mew_lab.views.ui import live, notebook_host
from mew_lab.views.ui.front_end import front_end
from mew_lab.views.ui.live import LiveView
from mew_lab.views.ui.notebook_host import can_click_while_waiting, free_the_comm
from mew_lab.views.ui.preferences import preferences
from mew_lab.views.views import LOG_PARTS, PARTS


class Counter(LiveView):
    """Shows nothing; sends numbers."""

    title = "counter"

    def __init__(self, **settings: Any) -> None:
        self.latest: dict[int, int] = {}
        super().__init__(**settings)

    def _snapshot(self, start: int) -> dict[str, Any]:
        return {"latest": dict(self.latest), "start": start}

    def _messages(self) -> Mapping[str, Callable[..., None]]:
        return {"nonsense": self._fail}

    def _fail(self) -> None:
        raise ValueError("cannot handle nonsense")

    def _static_html(self) -> str:
        return "<b>picture</b>"

    def _static_text(self) -> str:
        return "Counter: \u202eno trick"


def writers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "mew_lab-counter"}


@pytest.mark.trap("T-19")
def test_four_producers_are_sent_by_one_writer_in_few_messages(browser: Callable[..., Any]) -> None:
    view = Counter()
    page = browser(view)
    page.appear()
    sent_before = len(page.batches)
    stop = time.monotonic() + 2

    def produce(name: int) -> int:
        n = 0
        while time.monotonic() < stop:
            n += 1
            view.latest[name] = n
            view.post({"t": "number", "name": name, "n": n})
        return n

    threads = [threading.Thread(target=produce, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    page.until(lambda: {i["name"]: i["n"] for i in page.of("number")} == view.latest)
    assert list(view.faults) == []
    assert len(page.threads) == 1
    for name in range(4):
        numbers = [item["n"] for item in page.of("number") if item["name"] == name]
        assert numbers == list(range(1, view.latest[name] + 1))
    # At most one message in an interval: 20 a second, and one more at either end.
    assert len(page.batches) - sent_before <= 2 / view.interval + 3
    gaps = [b - a for a, b in zip(page.moments, page.moments[1:], strict=False)]
    assert min(gaps) > view.interval * 0.8


def test_nothing_is_sent_before_a_view_has_asked_and_after_it_said_farewell(
    browser: Callable[..., Any],
) -> None:
    before = writers()
    view = Counter()
    page = browser(view)
    view.post({"t": "number", "n": 1})
    assert writers() <= before
    page.appear()
    page.send({"t": "bye", "view": "v1"})
    assert not view.has_view
    sent = len(page.batches)
    view.post({"t": "number", "n": 2})
    page.appear("v2")
    assert len(page.batches) == sent + 1


def test_each_message_has_the_next_number_and_the_quiet_after_the_last_one_says_it_again(
    browser: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "FIRST_REMINDER", 0.3)
    monkeypatch.setattr(live, "LAST_REMINDER", 0.7)
    view = Counter()
    page = browser(view)
    page.appear()
    for n in range(3):
        view.post({"t": "number", "n": n})
        page.until(lambda n=n: any(item["n"] == n for item in page.of("number")))
    page.until(lambda: len(page.batches) == 6)
    assert [(batch["no"], len(batch["items"])) for batch in page.batches] == [
        (1, 1), (2, 1), (3, 1), (4, 1), (4, 0), (4, 0)
    ]  # fmt: skip
    pauses = [b - a for a, b in zip(page.moments[3:], page.moments[4:], strict=False)]
    assert pauses[0] >= 0.3 and pauses[1] >= 0.6
    # Then it rests, until there is something new.
    view.post({"t": "number", "n": 3})
    page.until(lambda: len(page.batches) == 7)
    assert page.batches[6]["no"] == 5


def test_a_writer_that_failed_leaves_a_number_out_and_says_so_at_once(browser: Callable[..., Any]) -> None:
    class Failing(Counter):
        fails = False

        def _news(self) -> list[dict[str, Any]]:
            if self.fails:
                self.fails = False
                raise ValueError("no news")
            return []

    view = Failing()
    page = browser(view)
    page.appear()
    view.fails = True
    view.wake()
    page.until(lambda: len(page.batches) == 2)
    # Number 2 was never sent: who holds 1 misses it, and asks.
    assert page.batches[1] == {"t": "batch", "no": 2, "items": []}
    assert [str(fault) for fault in view.faults] == ["no news"]
    page.appear()
    assert page.batches[2]["no"] == 3


def test_what_cannot_be_sent_leaves_its_number_out(browser: Callable[..., Any]) -> None:
    view = Counter()
    page = browser(view)
    page.appear()
    page.refuses = RuntimeError("too much at once")
    view.post({"t": "number", "n": 1})
    page.until(lambda: len(page.batches) == 2)
    assert page.batches[1]["items"] == [] and page.batches[1]["no"] > 1
    assert [str(fault) for fault in view.faults] == ["too much at once"]


def test_each_outlet_has_its_own_pages_numbers_and_faults(browser: Callable[..., Any]) -> None:
    view = Counter()
    first, second = browser(view), Page(view)
    first.appear("a")
    second.appear("b")
    first.appear("a2")
    # What is for one page goes to its outlet alone.
    assert {item["view"] for item in first.items} == {"a", "a2"}
    assert {item["view"] for item in second.items} == {"b"}
    assert [batch["no"] for batch in second.batches if batch["items"]] == [1]
    first.refuses = RuntimeError("too much at once")
    view.post({"t": "number", "n": 1})
    second.until(lambda: second.of("number"))
    first.until(lambda: first.batches[-1]["items"] == [])
    assert [batch["no"] for batch in second.batches if batch["items"]] == [1, 2]
    assert first.batches[-1]["no"] == 3 and not first.of("number")
    view.detach(second.outlet)
    sent = len(second.batches)
    second.send({"t": "snapshot", "view": "b"})
    view.post({"t": "number", "n": 2})
    first.until(lambda: first.of("number"))
    assert len(second.batches) == sent and view.has_view
    first.send({"t": "bye", "view": "a"})
    first.send({"t": "bye", "view": "a2"})
    assert not view.has_view


def test_a_notebook_is_an_outlet_by_the_comm_of_its_widget() -> None:
    view, taken, sent = Counter(), [], threading.Event()
    widget = view.widget
    widget.send = lambda content, buffers=None: (taken.append(content), sent.set())
    data = {"method": "custom", "content": {"t": "snapshot", "view": "v", "from": 3}}
    widget.comm.handle_msg({"content": {"data": data}, "buffers": []})
    assert sent.wait(20)
    assert [(item["t"], item["start"]) for item in taken[0]["items"]] == [("snapshot", 3)]
    view.close()
    assert widget.comm is None


def test_each_view_gets_the_snapshot_from_where_it_stands(browser: Callable[..., Any]) -> None:
    page = browser(Counter(clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)))
    assert page.appear("a", 7) == {
        "t": "snapshot",
        "view": "a",
        "latest": {},
        "start": 7,
        "over": "",
        "resume": "",
        "beat": False,
        "now": 1767225600.0,
        "settings": preferences.read(),
    }
    assert page.appear("b", -3)["start"] == 0


@pytest.mark.trap("T-8")
def test_what_a_handler_raises_is_kept_and_not_printed(
    browser: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    view = Counter()
    page = browser(view)
    page.send({"t": "nonsense"})
    page.send("not even a dict")
    assert [str(fault) for fault in view.faults] == ["cannot handle nonsense"]
    assert capsys.readouterr() == ("", "")


def test_a_view_that_answers_a_ping_is_known_to_be_alive(browser: Callable[..., Any]) -> None:
    view = Counter()
    page = browser(view)
    assert view.last_ping is None
    before = time.monotonic()
    page.send({"t": "ping", "view": "v1"})
    assert view.last_ping is not None and before <= view.last_ping <= time.monotonic()


def test_closing_ends_the_writer(browser: Callable[..., Any]) -> None:
    before = writers()
    view = Counter()
    browser(view).appear()
    (writer,) = writers() - before
    view.close()
    assert not writer.is_alive()


@pytest.mark.trap("T-25")
def test_without_threads_the_caller_sends(
    browser: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    view = Counter()
    page = browser(view)
    page.send({"t": "snapshot", "view": "v", "from": 0})
    view.post({"t": "number", "n": 1})
    assert [item["t"] for item in page.items] == ["snapshot", "number"]
    assert page.threads == {threading.get_ident()}


@pytest.mark.trap("T-15")
def test_a_saved_notebook_holds_a_picture_and_a_line_that_can_be_read_aloud() -> None:
    data = bundle(Counter())
    assert data["text/html"].endswith("<b>picture</b></div>")
    assert re.search(
        r"Snapshot of \d{4}-\d\d-\d\d \d\d:\d\d · run the notebook from the top for the live view<",
        data["text/html"],
    )
    assert data["text/plain"] == "Counter: \\u202eno trick"
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_front_end_without_widgets_can_ask_for_pictures_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEW_LAB_RENDER", "html")
    data = bundle(Counter())
    assert set(data) == {"text/html", "text/plain"}


@pytest.mark.trap("T-15")
@pytest.mark.parametrize(("asks", "live"), [(True, True), (False, False)])
def test_a_run_without_a_human_keeps_the_picture_alone(
    monkeypatch: pytest.MonkeyPatch, asks: bool, live: bool
) -> None:
    class Kernel:
        def get_parent(self, channel: str) -> dict[str, Any]:
            return {"content": {"allow_stdin": asks}}

    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=Kernel()))
    data = bundle(Counter())
    assert {"text/html", "text/plain"} <= set(data)
    assert ("application/vnd.jupyter.widget-view+json" in data) is live


@pytest.mark.trap("T-2")
def test_the_private_method_that_the_routing_needs_is_where_it_was() -> None:
    """A canary: when this fails, read ipykernel's comm and shell_channel_thread_main again (blocking
    waits)."""
    import ipykernel

    if ipykernel.version_info[:2] < (7, 4):
        pytest.skip(f"ipykernel {ipykernel.__version__} routes by the front end's word alone")
    from ipykernel.comm.comm import BaseComm

    comm = BaseComm.__new__(BaseComm)
    assert free_the_comm(comm)
    assert comm._reply_subshell_for({"content": {"id": "x"}}, "subshell-1") == "subshell-1"


def test_a_comm_without_that_method_is_left_alone() -> None:
    class Comm:
        pass

    assert not free_the_comm(Comm())


@pytest.mark.trap("T-1", "T-2")
@pytest.mark.parametrize(
    ("version", "subshells", "seen", "routable", "expected"),
    [
        ((6, 31, 0), False, set(), False, (False, False)),
        ((7, 0, 1), True, set(), False, (True, True)),
        ((7, 3, 0), True, {"subshell"}, False, (True, True)),
        ((7, 3, 0), True, {"main"}, False, (False, False)),
        ((7, 4, 0), True, {"subshell"}, True, (True, True)),
        ((7, 4, 0), True, {"main"}, True, (True, False)),
        ((7, 4, 0), False, set(), True, (True, False)),
        ((7, 9, 0), True, {"subshell"}, False, (True, False)),
    ],
)
def test_the_probe_knows_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, ...],
    subshells: bool,
    seen: set[str],
    routable: bool,
    expected: tuple[bool, bool],
) -> None:
    from ipykernel.comm.comm import BaseComm

    kernel = SimpleNamespace(_supports_kernel_subshells=subshells)
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=kernel))
    monkeypatch.setattr("importlib.metadata.version", lambda name: ".".join(map(str, version)))
    if routable:
        monkeypatch.setattr(BaseComm, "_reply_subshell_for", lambda *about: None, raising=False)
    else:
        monkeypatch.delattr(BaseComm, "_reply_subshell_for", raising=False)
    monkeypatch.setattr(notebook_host, "message_threads", seen)
    probe = can_click_while_waiting()
    assert (probe.awaiting, probe.blocking) == expected
    assert bool(probe.advice) == (expected != (True, True))


def test_the_advice_names_the_version_of_ipykernel(monkeypatch: pytest.MonkeyPatch) -> None:
    import ipykernel

    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=SimpleNamespace()))
    assert f"ipykernel {ipykernel.__version__}" in can_click_while_waiting().advice


def test_outside_a_kernel_nobody_can_click() -> None:
    assert can_click_while_waiting()[:2] == (False, False)


def test_the_front_end_uses_no_way_to_turn_text_into_markup() -> None:
    forbidden = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "srcdoc",
    )
    for part in (*PARTS, *LOG_PARTS):
        module, _ = front_end(part)
        assert [word for word in forbidden if word in module] == []


class Beating(Counter):
    beats = True


@pytest.mark.trap("T-13")
def test_a_view_with_beats_hears_from_its_kernel_each_second_while_its_page_is_there(
    browser: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "FIRST_REMINDER", 0.02)
    monkeypatch.setattr(live, "HEARD_FOR", 0.3)
    page = browser(Beating())
    assert page.appear()["beat"] == live.PING
    beats = lambda: [one for one in page.batches if not one["items"]]  # noqa: E731
    page.until(lambda: len(beats()) >= 5)
    # Who is not there any more is sent no more of them, but a few reminders, each after twice the time.
    page.view.last_ping = None
    page.until(lambda: len(page.moments) > 12 or time.monotonic() - page.moments[-1] > 0.5)
    before = len(beats())
    page.send({"t": "ping", "view": "v1"})
    page.until(lambda: len(beats()) > before + 3)
    (last,) = {batch["no"] for batch in page.batches if batch["items"]}
    assert {batch["no"] for batch in beats()} == {last}


def test_a_view_that_is_over_says_so_to_those_that_look_and_to_those_that_come(
    browser: Callable[..., Any],
) -> None:
    page = browser(Beating())
    assert page.appear()["over"] == ""
    page.view.end("It is over.")
    assert page.until(lambda: page.of("over")) == [{"t": "over", "text": "It is over."}]
    assert page.appear("later")["over"] == "It is over."


SHEETS = sorted(Path(live.__file__).parents[1].glob("*/*.css"))


@pytest.mark.parametrize(
    "sheet",
    # The page of its own is a host, and gives what a front end of Jupyter has.
    [one for one in SHEETS if one.stem not in ("elements", "stored_picture") and one.parent.name != "page"],
    ids=lambda one: f"{one.parent.name}-{one.stem}",
)
def test_a_view_s_style_sheet_means_its_own_view_alone(sheet: Path) -> None:
    # All sheets of a page mean all of its views: a rule for a class of any view changes the others that have one.
    # A shared element has names of its own, which its module gives and no view does.
    views = "approvals|chat|feed|grants|moments|panel|reasoning|roster|rules|streams|timeline|tools|workshop"
    text = re.sub(r"/\*.*?\*/", "", sheet.read_text("utf-8"), flags=re.DOTALL)
    # What sets variables alone changes nothing by itself.
    rules = [
        names
        for names, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text)
        if re.search(r"(^|;)\s*[a-z]", body)
    ]
    # A comma inside of `:is(…)` divides no selectors.
    selectors = [one.strip() for rule in rules for one in re.split(r",(?![^(]*\))", rule)]
    selectors = [one for one in selectors if one not in ("from", "to")]  # of a movement
    names = rf"({views})\b(?!-)"
    if sheet.parent.name == "ui":
        own = set(re.findall(r"mew-([\w-]+)", sheet.with_suffix(".js").read_text("utf-8")))
        others = [one for one in sheet.parents[1].glob("*/*.js") if one.parent.name != "ui"]
        taken = set(re.findall(r"[\"' ]mew-([\w-]+)", "\n".join(one.read_text("utf-8") for one in others)))
        names += "".join(rf"|{name}(?![\w-])" for name in sorted(own - taken))
    assert len(selectors) > 1
    assert [one for one in selectors if not re.search(rf"\.mew-({names})", one)] == []
