"""Cells that wait for a human, in real kernels: refused at once where nobody could answer, interruptible elsewhere."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.errors import CannotWait
from mew_lab.lab.decisions.policies import Policy
from mew_lab.notebook import waiting
from mew_lab.views.ui.notebook_host import ClickProbe

from .kernels import Kernel

START = """
%load_ext mew_lab
%mew up
@lab.tool
def add(a: int, b: int) -> int:
    "Sum of two numbers."
    return a + b
bot = lab.join("bot", can="proposer")
"""


@pytest.mark.trap("T-6")
@pytest.mark.parametrize("wait", ["await p", "p.result()"])
def test_without_anybody_in_front_a_wait_is_refused_at_once(kernel: Callable[..., Kernel], wait: str) -> None:
    one = kernel(attended=False)
    one.passes(START)
    one.passes('p = bot.call("notebook/add", a=1, b=2)')
    ran = one.run(wait)
    assert ran.error.startswith("CannotWait: This notebook runs without a person")
    assert "MEW_LAB_DECIDE" in ran.error
    assert "lab.decide" in ran.error
    assert "\n" not in ran.error, "one line, no traceback"
    assert ran.seconds < 2.0
    assert "open" in one.passes("p.state"), "a refusal to wait decides nothing"


@pytest.mark.trap("T-6")
def test_with_a_policy_from_the_environment_a_headless_run_passes(kernel: Callable[..., Kernel]) -> None:
    one = kernel(attended=False, MEW_LAB_DECIDE="approve")
    one.passes(START)
    assert one.passes('p = bot.call("notebook/add", a=1, b=2)\nr = await p\nprint(r)') == "3\n"
    assert "policy approve" in one.passes("%mew status")


@pytest.mark.trap("T-6")
def test_a_policy_that_denies_ends_the_wait_with_its_reason(kernel: Callable[..., Kernel]) -> None:
    one = kernel(attended=False, MEW_LAB_DECIDE="deny")
    one.passes(START)
    ran = one.run('await bot.call("notebook/add", a=1, b=2)')
    assert ran.error == "ProposalRejected: Proposal rejected by human: policy"


@pytest.mark.trap("T-5")
@pytest.mark.parametrize("wait", ["await p", "p.result(60)"])
def test_interrupting_a_wait_leaves_the_proposal_to_be_approved(
    kernel: Callable[..., Kernel], wait: str
) -> None:
    one = kernel(attended=True)
    one.passes(START)
    one.passes('p = bot.call("notebook/add", a=1, b=2)')
    if wait.startswith("p."):
        # A blocking wait is allowed where clicks are handled beside it; this test's front end has no subshell.
        one.passes("from mew_lab.notebook import waiting\nwaiting.before_wait = lambda *_: None")
    sent = one.send(f"print('waiting', flush=True)\n{wait}")
    while one.client.get_iopub_msg(timeout=30)["msg_type"] != "stream":
        pass
    one.manager.interrupt_kernel()
    ran = one.ended(sent)
    assert "KeyboardInterrupt" in ran.error or "CancelledError" in ran.error
    assert "'open'" in one.passes("p.state")
    refusal = one.run("%mew approve {p.id}").error
    assert refusal.startswith("NotApproved: Not approved yet: this is what would be sent.")
    one.passes("%mew approve {p.id}")
    assert one.passes("r = await p\nprint(r)") == "3\n"


SLOW = (
    START
    + """
import asyncio
git = lab.join("git", can="tool")
async def push(params):
    from mew_lab.sdk.progress import progress_relay
    await progress_relay(git.participant)(2, 4, "down\\u202eloading")
    await asyncio.sleep(params["arguments"]["seconds"])
    return {"content": [{"type": "text", "text": "pushed"}]}
git.participant.register_method("tools/call", push)
from mew_lab.views.ui import notebook_host
notebook_host.message_threads.add("main")  # a front end without subshells
"""
)


@pytest.mark.timeout(120)
def test_a_cell_that_blocks_shows_a_call_that_runs_as_a_line_and_how_it_ended(
    kernel: Callable[..., Kernel],
) -> None:
    one = kernel(attended=True)
    one.passes(SLOW)
    lines = one.passes('lab.call("git/push", seconds=3.5).result()').splitlines()
    told = [line for line in lines if line.startswith("git/push runs")]
    seconds = [int(line.partition("0:0")[2][0]) for line in told]
    assert len(told) >= 2 and seconds == sorted(set(seconds)), "each second of it"
    assert " · 2 of 4 · down\\u202eloading · interrupt the cell" in told[0]
    assert lines[-2:] in (["git/push ran, 0:03", "pushed"], ["git/push ran, 0:04", "pushed"])
    ran = one.run('lab.call("git/push", seconds=30).result(timeout=1.5)')
    assert ran.error.startswith("StillRunning")
    assert ran.text.splitlines()[-1] == "git/push is not waited for any more"


def test_a_cell_that_blocks_in_a_call_tells_its_seconds_and_how_it_is_cancelled(
    kernel: Callable[..., Kernel],
) -> None:
    one = kernel(attended=True)
    one.passes(START)
    one.passes(
        """import threading
from mew_lab.views.ui import notebook_host
notebook_host.message_threads.add("main")  # a front end without subshells has sent a message
end = threading.Event()
@lab.tool
def push() -> str:
    "Waits."
    end.wait()
    return "pushed"
"""
    )
    sent = one.send("p = lab.call('notebook/push')\np.result(60)")
    lines: list[str] = []
    while len(set(lines)) < 3:  # of different seconds
        message = one.client.get_iopub_msg(timeout=30)
        if message["msg_type"] in ("display_data", "update_display_data"):
            lines.append(message["content"]["data"].get("text/plain", ""))
    told = re.fullmatch(
        r"notebook/push runs, 0:\d\d · interrupt the cell to stop waiting, then (%mew cancel \w{4})",
        lines[-1],
    )
    assert told, lines
    one.manager.interrupt_kernel()
    assert "KeyboardInterrupt" in one.ended(sent).error
    assert "notebook was asked by human to stop" in one.passes(told[1])
    assert one.passes("end.set()\nprint(p.result(60))") == "pushed\n"


def test_a_cell_that_blocks_for_an_answer_tells_who_thinks_and_how_that_is_cancelled(
    kernel: Callable[..., Kernel],
) -> None:
    one = kernel(attended=True)
    one.passes(START)
    one.passes(
        """from mew_lab.views.ui import notebook_host
notebook_host.message_threads.add("main")  # a front end without subshells has sent a message
helper = lab.join("helper", can="agent")
async def answer(asked):
    me, about = helper.participant, [asked.id]
    async def stop(by): await me.chat("stopped", asked.sender, correlation_id=about)
    me.client.on_message(stop, kinds=("reasoning/cancel",))
    await me.send_accepted({"kind": "reasoning/start", "payload": {}, "correlation_id": about})
helper.participant.on_chat(answer)
"""
    )
    sent = one.send("p = lab.ask('helper', 'Add up.')\np.result(60)")
    told = None
    while told is None:
        message = one.client.get_iopub_msg(timeout=30)
        if message["msg_type"] in ("display_data", "update_display_data"):
            told = re.fullmatch(
                r"helper is thinking, 0:\d\d · interrupt the cell to stop waiting, then (%mew cancel-reasoning helper)",
                message["content"]["data"].get("text/plain", ""),
            )
    one.manager.interrupt_kernel()
    assert "KeyboardInterrupt" in one.ended(sent).error
    assert "The reasoning of helper was cancelled" in one.passes(told[1])
    assert "stopped" in one.passes("print(p.result(60))")


@pytest.mark.trap("T-5")
def test_a_restarted_kernel_leaves_no_busy_port(kernel: Callable[..., Kernel]) -> None:
    one = kernel(attended=True)
    one.passes(START)
    port = int(one.passes("print(lab.url.split(':')[2].split('/')[0])"))
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    one.manager.restart_kernel(now=True)
    one.client.wait_for_ready(timeout=60)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
    assert "space demo" in one.passes(START + "\nprint(repr(lab))")


@pytest.mark.trap("T-18")
def test_run_all_of_thirty_cells_that_mix_magics_and_awaits_finishes(kernel: Callable[..., Kernel]) -> None:
    one = kernel(attended=False, MEW_LAB_DECIDE="approve")
    cells = [START]
    for n in range(10):
        cells += [
            f"%mew chat number {n}",
            f"p = %mew call notebook/add --as bot a={n} b=1",
            "import asyncio\nawait asyncio.sleep(0)\nr = await p\nprint(r)",
        ]
    sent = [one.send(cell) for cell in cells]
    ran = [one.ended(each, within=60) for each in sent]
    assert [each.error for each in ran] == [""] * len(cells)
    assert [each.text for each in ran[3::3]] == [f"{n + 1}\n" for n in range(10)]
    assert [each.count for each in ran] == list(range(1, len(cells) + 1))


@pytest.mark.trap("T-8")
@pytest.mark.trap("T-9")
def test_what_happens_on_the_loop_prints_into_no_cell(kernel: Callable[..., Kernel]) -> None:
    one = kernel(attended=False, MEW_LAB_DECIDE="approve")
    one.passes(START)
    joining = "%mew connect {lab.url} --space demo --token-file {lab.token_file()} --as human-2 --name other"
    one.passes(f"here = lab\n{joining}\nc = lab.me.participant.client\nNone")
    one.passes("def broken(envelope):\n    raise ValueError('canary')\nc.on_message(broken)\nNone")
    one.passes("import logging\nlogging.getLogger('mew_lab.sdk').error('canary')")
    busy = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    cells = (
        f"p = bot.call('notebook/add', a=1, b=2)\n{busy}",
        busy,
        "here.seats['bot'].chat('x')\nNone",
        busy,
    )
    lines = [line for cell in cells for line in one.passes(cell).splitlines()]
    # The shell tells of errors in one line below a cell that ran meanwhile; the loop itself prints nothing.
    assert lines and all(
        line.startswith("human-2: canary") and line.endswith("(%mew faults)") for line in lines
    )
    assert len(lines) <= len(cells)
    assert "canary" in one.passes("%mew status")
    assert "human-2: canary" in one.passes("%mew faults")


# --- the same question, asked without a kernel ------------------------------------------------------------------


class View:
    """An approvals view that says what it is told to say."""

    has_view = True
    unheard: float | None = None

    displayed_in = "another cell"

    def __init__(self) -> None:
        self.waits: list[str] = []

    def waiting(self) -> View:
        return self

    def __enter__(self) -> None:
        self.waits.append("begin")

    def __exit__(self, *_: object) -> None:
        self.waits.append("end")

    def unheard_for(self) -> float | None:
        return self.unheard


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A proposal of `bot` in an attended kernel whose front end handles clicks while a cell runs."""
    view = View()
    client = SimpleNamespace(
        id="bot", participants={"bot": [], "git": [{"kind": "mcp/response"}]}, pattern_edition=4
    )
    proposal = SimpleNamespace(to=("git",), payload={"method": "tools/call"})
    participant = SimpleNamespace(client=client, proposals={"p-1": proposal})
    lab = SimpleNamespace(
        log=SimpleNamespace(vantage="gateway", held=[]),
        decisions=SimpleNamespace(
            policy=None,
            pending=lambda: one.cards,
            queue=SimpleNamespace(repeated=lambda to, payload: ""),
        ),
        asked=SimpleNamespace(pending=lambda: one.asked),
        loop=SimpleNamespace(call=lambda function: function()),
        seats={"bot": SimpleNamespace(participant=participant), "git": None},
        me=SimpleNamespace(
            participant=SimpleNamespace(ledger=SimpleNamespace(reasoning=SimpleNamespace(active=list)))
        ),
        view=SimpleNamespace(
            made=lambda name: view,
            card=lambda proposal: SimpleNamespace(
                store_picture=lambda: None, follow=lambda id: None, tell_story=lambda *_, **__: None
            ),
        ),
    )
    shell = SimpleNamespace(
        kernel=SimpleNamespace(get_parent=lambda channel: {"content": {"allow_stdin": True}})
    )
    pending = SimpleNamespace(
        kind="mcp/proposal", state="open", seat="bot", id="p-1", what="git/git_log", envelope=proposal
    )
    one = SimpleNamespace(
        asked=[],
        view=view,
        lab=lab,
        shell=shell,
        pending=pending,
        client=client,
        probe=ClickProbe(True, True, ""),
        cards=[],
    )
    monkeypatch.setattr("IPython.get_ipython", lambda: one.shell)
    monkeypatch.setattr("mew_lab.views.ui.notebook_host.can_click_while_waiting", lambda: one.probe)
    monkeypatch.setattr("mew_lab.lab.labs.labs", lambda: {"demo": one.lab})
    return one


def ask(scene: SimpleNamespace, *, blocking: bool = False) -> Any:
    return waiting.before_wait(scene.pending, blocking)


def test_a_wait_that_a_click_can_end_is_watched(scene: SimpleNamespace) -> None:
    ask(scene, blocking=True).end()
    assert scene.view.waits == ["begin", "end"]


def test_the_waiting_cell_shows_its_own_card_once_and_what_became_of_it(
    scene: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    card = SimpleNamespace(store_picture=lambda: shown.append("stored"), follow=lambda id: None)
    scene.lab.view.card = lambda proposal: shown.append(f"card of {proposal}") or card
    monkeypatch.setattr("IPython.display.display", lambda view: shown.append(view is card))
    scene.lab.view.made = lambda name: None  # no approvals view was made
    watch = ask(scene)
    watch.tick()
    assert shown == [], "there is no card of it, so another participant may decide it"
    scene.cards = [SimpleNamespace(id="p-1"), SimpleNamespace(id="p-2")]
    watch.tick()
    watch.tick()
    assert shown == ["card of p-1", True]
    watch.end()
    assert shown == ["card of p-1", True, "stored"]


def test_a_cell_that_shows_all_approvals_shows_no_card_besides(
    scene: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    monkeypatch.setattr("mew_lab.views.ui.notebook_host.is_displayed_here", lambda view: view is scene.view)
    scene.cards = [SimpleNamespace(id="p-1")]
    watch = ask(scene)
    watch.tick()
    watch.end()
    assert shown == []


@pytest.mark.trap("T-1")
@pytest.mark.parametrize("blocking", [False, True])
def test_a_kernel_that_handles_clicks_between_cells_only_is_told_what_to_do(
    scene: SimpleNamespace, blocking: bool
) -> None:
    scene.probe = ClickProbe(False, False, "install ipykernel 7.4")
    with pytest.raises(CannotWait, match=r"next cell.*install ipykernel 7\.4"):
        ask(scene, blocking=blocking)
    assert scene.view.waits == []


@pytest.mark.trap("T-2")
def test_a_blocking_wait_that_would_block_its_click_names_await(scene: SimpleNamespace) -> None:
    scene.probe = ClickProbe(True, False, "")
    with pytest.raises(CannotWait, match="write `await p` instead"):
        ask(scene, blocking=True)
    ask(scene, blocking=False).end()


def test_a_terminal_without_views_is_told_to_decide_first(scene: SimpleNamespace) -> None:
    scene.shell = SimpleNamespace()
    with pytest.raises(CannotWait, match="%mew approve p-1"):
        ask(scene)


def test_in_marimo_a_wait_for_a_click_is_refused_with_advice(
    scene: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(running_in_notebook=lambda: True))
    scene.shell = None
    with pytest.raises(CannotWait, match=r"marimo handles no click .* Decide first"):
        ask(scene)
    scene.pending.state = "fulfilled"
    assert ask(scene) is None, "what was decided ends by itself"


def refused(scene: SimpleNamespace) -> bool:
    scene.shell.kernel.get_parent = lambda channel: {"content": {"allow_stdin": False}}
    try:
        ask(scene)
    except CannotWait:
        return True
    return False


def test_headless_is_refused_unless_something_else_can_decide(scene: SimpleNamespace) -> None:
    assert refused(scene)
    scene.lab.decisions.policy = Policy.raising()
    assert refused(scene)
    scene.lab.decisions.policy = Policy.approve()
    assert not refused(scene)


def test_a_space_elsewhere_has_its_humans_elsewhere(scene: SimpleNamespace) -> None:
    scene.lab.log.vantage = "participant"
    assert not refused(scene)


def test_a_human_who_joined_from_elsewhere_may_decide(scene: SimpleNamespace) -> None:
    scene.client.participants["ann"] = [{"kind": "mcp/request", "payload": {"method": "resources/*"}}]
    assert refused(scene)
    scene.client.participants["ann"] = [{"kind": "mcp/request"}]
    assert not refused(scene)


@pytest.mark.parametrize(("kind", "state"), [("mcp/request", "open"), ("mcp/proposal", "fulfilled")])
def test_what_needs_no_human_is_waited_for_anywhere(scene: SimpleNamespace, kind: str, state: str) -> None:
    scene.pending.kind, scene.pending.state = kind, state
    assert not refused(scene)


def ticking(scene: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> Callable[..., None]:
    """Begins a wait and ticks at these seconds of it; what comes back ticks on."""
    times = [100.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: times[-1])
    watch = ask(scene)

    def on(*seconds: float) -> None:
        for second in seconds:
            times.append(100.0 + second)
            watch.tick()

    on(*seconds)
    return on


def test_a_view_that_is_not_heard_for_three_seconds_is_named_once(
    scene: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = ticking(scene, monkeypatch, 1.0, 2.0, 2.9)
    assert capsys.readouterr().out == ""
    watch(3.0, 4.0)
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "has arrived for 3 s" in said


@pytest.mark.parametrize(("has_view", "unheard"), [(True, 0.5), (False, None)])
def test_a_view_that_is_heard_or_not_shown_is_not_spoken_of(
    scene: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    has_view: bool,
    unheard: float | None,
) -> None:
    scene.view.has_view, scene.view.unheard = has_view, unheard
    ticking(scene, monkeypatch, 4.0, 10.0)
    assert capsys.readouterr().out == ""


# --- a wait for an answer in words, which turns into one for a decision ------------------------------------------


@pytest.fixture
def question(scene: SimpleNamespace) -> SimpleNamespace:
    """The scene of a question to an agent; `cards` are the proposals that wait by now, `said` the log."""
    scene.said = scene.lab.log.held
    say(scene, "p-1", "chat", sender="bot", to=["helper"])
    scene.pending.kind, scene.pending.done = "chat", True
    return scene


def say(scene: SimpleNamespace, id: str, kind: str, *, verdict: str = "accepted", **members: Any) -> None:
    """Somebody says something in the space."""
    said = {"id": id, "kind": kind, "from": members.pop("sender", "helper")} | members
    scene.said.append(SimpleNamespace(raw=json.dumps(said), verdict=verdict))


def proposed(scene: SimpleNamespace, id: str = "p-7", *, sender: str = "helper", **members: Any) -> Any:
    """A card, whose proposal correlates to the question if nothing else is said."""
    say(scene, id, "mcp/proposal", sender=sender, **({"correlation_id": ["p-1"]} | members))
    return SimpleNamespace(id=id, proposer=sender)


def test_a_question_is_waited_for_anywhere_until_something_is_proposed(question: SimpleNamespace) -> None:
    question.shell.kernel.get_parent = lambda channel: {"content": {"allow_stdin": False}}
    watch = ask(question)
    watch.tick()
    watch.tick()
    question.cards = [proposed(question)]
    with pytest.raises(
        CannotWait, match=r"the proposal p-7 of helper, for which the answer waits.*MEW_LAB_DECIDE"
    ):
        watch.tick()
    watch.end()
    assert question.view.waits == []


def test_a_proposal_on_the_way_to_an_answer_is_watched_once(question: SimpleNamespace) -> None:
    watch = ask(question)
    assert question.view.waits == []
    for card in ("p-7", "p-7", "p-8"):
        question.cards = [proposed(question, card)]
        watch.tick()
    assert question.view.waits == ["begin"]
    watch.end()
    assert question.view.waits == ["begin", "end"]


def other(scene: SimpleNamespace, how: str) -> Any:
    """A card of a proposal that has nothing to do with the question."""
    if how == "older":
        scene.said.insert(0, SimpleNamespace(raw='{"id": "p-6", "from": "helper"}', verdict="accepted"))
        return SimpleNamespace(id="p-6", proposer="helper")
    if how == "refused":  # what the gateway refused ties nothing
        say(scene, "r-1", "reasoning/start", correlation_id=["p-1"], verdict="refused")
        return proposed(scene, correlation_id=["r-1"])
    if how == "for somebody else":
        say(scene, "q-2", "chat", sender="ann", to=["helper"])
        say(scene, "r-1", "reasoning/start", correlation_id=["q-2"])
        return proposed(scene, context="r-1", correlation_id=[])
    return proposed(scene, sender="mallory")


@pytest.mark.parametrize("how", ["older", "refused", "for somebody else", "by somebody else"])
def test_a_proposal_that_was_not_made_for_the_question_ends_no_wait_for_its_answer(
    question: SimpleNamespace, how: str
) -> None:
    question.shell.kernel.get_parent = lambda channel: {"content": {"allow_stdin": False}}
    watch = ask(question)
    question.cards = [other(question, how)]
    watch.tick()
    watch.tick()
    # One that was made for it does, beside the other.
    say(question, "s-1", "reasoning/start", correlation_id=["p-1"])
    question.cards.append(proposed(question, "p-9", correlation_id=["s-1"]))
    with pytest.raises(CannotWait, match="the proposal p-9 of helper, for which the answer waits"):
        watch.tick()


@pytest.mark.parametrize("lost", [False, True])
def test_what_a_proposal_was_made_for_is_not_claimed_where_nothing_tells(
    question: SimpleNamespace, lost: bool
) -> None:
    question.shell.kernel.get_parent = lambda channel: {"content": {"allow_stdin": False}}
    watch = ask(question)
    question.cards = [proposed(question, correlation_id=[])]
    if lost:  # the log keeps the newest only
        del question.said[0]
    with pytest.raises(CannotWait, match="the proposal p-7 of helper, for which the answer may wait"):
        watch.tick()


@pytest.mark.trap("T-2")
def test_a_blocking_wait_for_an_answer_names_await_once_something_is_proposed(
    question: SimpleNamespace,
) -> None:
    question.probe = ClickProbe(True, False, "")
    watch = ask(question, blocking=True)
    watch.tick()
    question.cards = [proposed(question)]
    with pytest.raises(CannotWait, match="write `await p` instead"):
        watch.tick()


def test_a_terminal_is_told_how_to_decide_on_the_way_to_an_answer(question: SimpleNamespace) -> None:
    question.shell = SimpleNamespace()
    watch = ask(question)
    question.cards = [proposed(question)]
    with pytest.raises(CannotWait, match="%mew approve p-7"):
        watch.tick()


def test_a_policy_lets_a_question_be_waited_for(question: SimpleNamespace) -> None:
    question.shell.kernel.get_parent = lambda channel: {"content": {"allow_stdin": False}}
    question.lab.decisions.policy = Policy.approve()
    watch = ask(question)
    question.cards = [proposed(question)]
    watch.tick()
    watch.end()


@pytest.fixture
def shown(question: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the waiting cell shows of the story of a question: each card and each server's question, once."""
    seen: list[str] = []
    view = SimpleNamespace(
        store_picture=lambda: None,
        # The question itself is followed without a card.
        follow=lambda id: None if (id, question.pending.kind) == ("p-1", "chat") else seen.append(id),
        tell_story=lambda text, **how: None,
    )
    question.lab.view = SimpleNamespace(made=lambda name: None, card=lambda root: view)
    monkeypatch.setattr("IPython.display.display", lambda view: seen.append("the view"))
    return seen


def test_a_waiting_cell_goes_on_to_each_card_of_the_story_of_a_question(
    question: SimpleNamespace, shown: list[str]
) -> None:
    watch = ask(question)
    for cards in (["p-7"], [], ["p-8"], ["p-9", "p-10"]):  # one after another, then two at once
        question.cards = [proposed(question, card) for card in cards]
        watch.tick()
        watch.tick()
    assert shown == ["p-7", "the view", "p-8", "p-9", "p-10"]


def test_a_waiting_cell_follows_what_the_asked_participant_passed_on_and_no_claim_of_a_stranger(
    question: SimpleNamespace, shown: list[str]
) -> None:
    watch = ask(question)
    say(question, "c-2", "chat", to=["coder"], correlation_id=["p-1"])
    question.cards = [
        proposed(question, "p-7", sender="coder", correlation_id=["c-2"]),
        proposed(question, "p-8", sender="mallory", correlation_id=["c-2"]),
        proposed(question, "p-9", sender="mallory", correlation_id=["c-2", "p-1"]),
    ]
    watch.tick()
    assert shown == ["p-7", "the view"]


NAMES = st.sampled_from(["bot", "helper", "coder", "mallory"])


@given(
    st.lists(
        st.tuples(NAMES, st.lists(NAMES, max_size=3), st.lists(st.integers(-2, 12), max_size=3)), max_size=12
    )
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_of_any_talk_those_proposals_are_shown_to_which_an_unbroken_way_leads(
    question: SimpleNamespace, shown: list[str], talk: list[tuple[str, list[str], list[int]]]
) -> None:
    """A way is unbroken where each message comes from the sender or an addressee of the one that it names."""
    del question.said[1:]
    shown.clear()
    watch = ask(question)
    sender, to, names = {"p-1": "bot"}, {"p-1": ["helper"]}, {"p-1": list[str]()}
    for n, (by, addressees, named) in enumerate(talk):
        id = f"m-{n}"
        sender[id], to[id] = by, addressees
        names[id] = ["older" if name == -2 else "p-1" if name == -1 else f"m-{name}" for name in named]
        say(question, id, "mcp/proposal", sender=by, to=addressees, correlation_id=names[id])
    reached, more = set[str](), {"p-1"}
    while more:
        reached |= more
        more = {
            id
            for id in sender.keys() - reached
            for name in reached.intersection(names[id])
            if sender[id] in (sender[name], *to[name])
        }
    question.cards = [SimpleNamespace(id=id, proposer=by) for id, by in sender.items() if id != "p-1"]
    watch.tick()
    found = {id for id in shown if id != "the view"}
    assert found >= reached - {"p-1"}
    # What leads nowhere else may belong to the question, where the asked participant proposes it.
    assert {sender[id] for id in found - reached} <= {"helper"}


@pytest.mark.parametrize("kind", ["mcp/request", "mcp/proposal"])
def test_a_waiting_cell_shows_what_its_call_leads_to_again_and_again(
    question: SimpleNamespace, shown: list[str], kind: str
) -> None:
    """The target of the call proposes calls of its own, and a server asks twice about one of them."""
    question.pending.kind = kind
    question.said.clear()
    if kind == "mcp/request":
        say(question, "p-1", kind, sender="bot", to=["helper"])
        cause = "p-1"
    else:
        question.pending.state = "fulfilled"
        say(question, "p-1", kind, sender="bot", to=["helper"])
        say(question, "f-1", "mcp/request", sender="human", to=["helper"], correlation_id=["p-1"])
        cause = "f-1"
    watch = ask(question)
    watch.tick()
    assert shown == []
    question.cards = [
        proposed(question, "p-7", correlation_id=[cause]),
        proposed(question, "p-8", correlation_id=[]),  # it names nothing, so it may be about anything
    ]
    watch.tick()
    say(question, "f-7", "mcp/request", sender="human", to=["git"], correlation_id=["p-7"])
    question.cards = []
    for id in ("a-1", "a-2"):
        question.asked = [SimpleNamespace(id=id, server="git", about=("f-7", "p-7"))]
        watch.tick()
    assert shown == ["p-7", "the view", "f-7", "f-7"]


def test_where_others_may_decide_the_waiting_cell_shows_the_card_that_they_leave(
    question: SimpleNamespace, shown: list[str]
) -> None:
    question.pending.kind = "mcp/proposal"
    question.lab.decisions.policy = Policy("partly", lambda card: None)
    watch = ask(question)
    watch.tick()
    assert shown == []
    question.cards = [SimpleNamespace(id="p-1", proposer="bot")]
    watch.tick()
    assert shown == ["p-1", "the view"]


@pytest.mark.trap("T-6")
def test_an_agent_asked_where_nobody_decides_ends_the_wait_with_a_sentence(
    kernel: Callable[..., Kernel],
) -> None:
    one = kernel(attended=False)
    one.passes(START + '\nhelper = lab.agent("helper")')
    assert "offline model" in one.passes('print(await lab.ask("helper", "Who are you?"))')
    # What somebody else proposed has nothing to do with the answer.
    one.passes('reader, before = lab.join("reader"), bot.call("notebook/add", a=1, b=2)')
    assert one.run('lab.ask("reader", "Well?").result(1.5)').error.startswith("NoReply: Nobody answered chat")
    one.passes("before.withdraw()")
    ran = one.run('p = lab.ask("helper", "What is the sum of 2 and 3?")\nprint(await p)')
    assert ran.error.startswith("CannotWait: This notebook runs without a person"), ran
    assert "of helper, for which the answer waits" in ran.error and "\n" not in ran.error
    assert ran.seconds < 5.0
    assert one.passes("print(len(lab.proposals()))") == "1\n", "a refusal to wait decides nothing"
    one.passes("lab.approve(lab.proposals()[0])")
    assert "5" in one.passes("print(await p)")
