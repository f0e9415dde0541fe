"""A person at a terminal of her own: the screen that `mew-lab join` draws there, key by key."""

from __future__ import annotations

import io
import json
import math
import os
import re
import signal
import stat
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pexpect
import pyte
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from mew_lab.cli.prompt import HISTORY, LinePrompt
from mew_lab.cli.shell import say
from mew_lab.cli.slash_completion import Completions, Suggestion
from mew_lab.lab.lab import Lab

from ..waiting import eventually
from .test_cli import ENVIRONMENT

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX"), pytest.mark.timeout(120)]
CTRL = {"c": "\x03", "d": "\x04"}
PROMPT = re.compile(r"[\w.-]+(?: → [^>]*)?> ?(.*)")
TAB, UP, ENTER = "\t", "\x1b[A", "\r"


class Terminal:
    """`mew-lab join` in a pseudo-terminal, and the screen that it has drawn there."""

    def __init__(self, lab: Lab, name: str, folder: Path, *, columns: int = 100, **environment: str) -> None:
        words = [
            "join", lab.url, "--space", lab.space, "--token-file", str(lab.token_file(name)),
        ]  # fmt: skip
        self.state = folder / "state"
        terminal = {"TERM": "xterm-256color", "XDG_STATE_HOME": str(self.state)}
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "mew_lab.cli", *words],
            cwd=str(folder),
            env={"NO_COLOR": ""} | ENVIRONMENT | terminal | environment,
            dimensions=(30, columns),
            encoding="utf-8",
            timeout=None,
            # As in a terminal of a person; what runs in the background of a script ignores the signal.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.child.delayafterterminate = 5.0  # seconds that a busy machine may take to end it
        self.screen = pyte.HistoryScreen(columns, 30, history=2000)
        self.screen.write_process_input = self.child.send  # it asks where the cursor is
        self._stream = pyte.Stream(self.screen)
        self.raw = ""

    def read(self) -> None:
        """Draws what has come since."""
        while True:
            try:
                text = self.child.read_nonblocking(65536, timeout=0.02)
            except (pexpect.TIMEOUT, pexpect.EOF):
                return
            self.raw += text
            self._stream.feed(text)

    @property
    def lines(self) -> list[str]:
        """The rows of the screen, without the spaces at their ends."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def past(self) -> str:
        """All that was drawn: what has scrolled away, and the screen."""
        rows = [
            "".join(row[column].data for column in range(self.screen.columns)).rstrip()
            for row in self.screen.history.top
        ]
        return "\n".join([*rows, *self.lines])

    def until(self, holds: Callable[[], Any], *, within: float = 40.0) -> Any:
        """The first true value of `holds`; the screen is drawn on meanwhile."""
        end = time.monotonic() + within
        while True:
            self.read()
            if value := holds():
                return value
            assert time.monotonic() < end and self.child.isalive(), "\n".join(
                [self.past, repr(self.raw[-800:])]
            )

    def see(self, pattern: str) -> re.Match[str]:
        """Waits until the pattern stands on the screen, or has stood there."""
        found: re.Match[str] = self.until(lambda: re.search(pattern, self.past, re.MULTILINE))
        return found

    def type(self, text: str, *, enter: bool = True) -> None:
        self.child.send(text + (ENTER if enter else ""))

    def press(self, key: str, holds: Callable[[], Any]) -> None:
        """Presses a key, and again each second until `holds`: as a command ends, a key may be lost, and one presses again."""
        pressed = -math.inf

        def seen() -> Any:
            nonlocal pressed
            if not (value := holds()) and self.child.isalive() and time.monotonic() - pressed > 1:
                self.child.send(key)
                pressed = time.monotonic()
            return value

        eventually(lambda: self.read() or seen(), within=40)

    @property
    def typed(self) -> str:
        """What stands behind the prompt, on the last row that has one."""
        return next((found[1] for line in reversed(self.lines) if (found := PROMPT.match(line))), "")

    @property
    def status(self) -> str:
        """The line below: the last that is not empty."""
        return next((line for line in reversed(self.lines) if line), "")

    def ends(self) -> int:
        """Waits for the end of the program; its exit status."""

        def ended() -> bool:
            self.read()
            return not self.child.isalive()

        eventually(ended)
        return -(self.child.signalstatus or 0) or int(self.child.exitstatus or 0)


@pytest.fixture
def sit(lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Sits a person down at a terminal, with the rights of a human unless it says others."""
    running: list[Terminal] = []

    def start(name: str = "anna", *, can: Any = "human", ready: bool = True, **how: Any) -> Terminal:
        if name not in lab.seats:
            lab.enrol(name, can=can)
        running.append(Terminal(lab, name, tmp_path, **how))
        if ready:
            running[-1].see(f"^{name}>")
        return running[-1]

    yield start
    for terminal in running:
        terminal.child.close(force=True)


def said(lab: Lab) -> list[str]:
    return [one["payload"]["text"] for one in lab.log if one["kind"] == "chat"]


def test_a_message_of_another_stands_above_the_typed_line_which_stays_whole(lab: Lab, sit: Any) -> None:
    anna = sit()
    anna.type("half a sen", enter=False)
    anna.until(lambda: anna.typed == "half a sen")
    for number in range(5):
        lab.chat(f"word {number}")
        anna.see(f"chat +“word {number}”")
    assert anna.typed == "half a sen"
    anna.type("tence")
    eventually(lambda: "half a sentence" in said(lab))


def test_the_line_below_tells_who_is_there_and_what_waits(lab: Lab, adding: Any, sit: Any) -> None:
    anna = sit()
    anna.until(lambda: anna.status == "nothing waits · 3 here: you, human, notebook")
    bot = lab.join("bot")
    anna.until(lambda: anna.status == "nothing waits · 4 here: you, bot, human, notebook")
    pending = bot.call("notebook/add", a=1, b=2)
    waits = f"1 to approve: /approve {pending.id[:4]} · 4 here: you, bot, human, notebook"
    anna.until(lambda: anna.status == waits)
    anna.see(f"needs your approval: /approve {pending.id[:4]} ")
    anna.type("/approve")
    anna.see("Not approved yet: this is what would be sent")
    anna.type("/approve")
    anna.until(lambda: anna.status.startswith("nothing waits"))
    assert str(pending.result(20)) == "3"


def test_it_rings_once_for_what_waits(lab: Lab, adding: Any, sit: Any) -> None:
    anna = sit()
    bot = lab.join("bot")
    for number in (1, 2):
        bot.call("notebook/add", a=number, b=2)
        anna.see(r"add\. It needs your approval(?:.|\n)*" * number)
    anna.type("a line behind both")
    anna.see("chat +“a line behind both”")
    assert anna.raw.count("\a") == 1


def test_ctrl_c_clears_the_line_and_ctrl_d_quits_and_leaves_the_terminal_as_it_was(sit: Any) -> None:
    anna = sit()
    before = termios.tcgetattr(anna.child.child_fd)  # of a terminal that a program has made its own
    anna.type("never mind", enter=False)
    anna.until(lambda: anna.typed == "never mind")
    anna.type(CTRL["c"], enter=False)
    anna.until(lambda: anna.typed == "")
    anna.press(CTRL["d"], lambda: not anna.child.isalive())
    assert anna.ends() == 0
    after = termios.tcgetattr(anna.child.child_fd)
    assert not before[3] & termios.ECHO and after[3] & termios.ECHO and after[3] & termios.ICANON
    assert "Traceback" not in anna.past


def test_a_terminal_is_as_it_was_when_the_program_is_told_to_end(sit: Any) -> None:
    anna = sit()
    anna.child.kill(signal.SIGTERM)
    assert anna.ends() == 0
    assert termios.tcgetattr(anna.child.child_fd)[3] & termios.ECHO
    assert "Traceback" not in anna.past


def test_who_leaves_is_told_which_agents_stay_paused(lab: Lab, sit: Any) -> None:
    lab.join("coder", can="agent")
    anna = sit()
    anna.type("/stop")
    anna.see("agent coder: coder is paused until it is resumed")
    anna.press(CTRL["d"], lambda: not anna.child.isalive())
    anna.see("^still paused by you: coder; /resume NAME ends it")
    again = sit()
    again.type("/resume coder")
    again.see("coder may send again")
    again.press(CTRL["d"], lambda: not again.child.isalive())
    assert "still paused" not in again.past


def test_ctrl_c_ends_the_wait_for_a_command_and_not_the_program(lab: Lab, sit: Any) -> None:
    """`mute` lists no tools: the list is waited for."""
    lab.join("mute", can="tool").participant.request_server.hold(True)
    anna = sit()
    anna.type("/tools mute")
    anna.until(lambda: not PROMPT.match(anna.lines[anna.screen.cursor.y]))  # it waits
    anna.press(CTRL["c"], lambda: "Not waited for any longer" in anna.past)
    anna.type("still here")
    eventually(lambda: "still here" in said(lab))


def test_ctrl_d_while_a_command_runs_quits_when_it_has_ended(lab: Lab, sit: Any) -> None:
    lab.join("mute", can="tool").participant.request_server.hold(True)
    anna = sit()
    anna.type("/tools mute")
    anna.until(lambda: not PROMPT.match(anna.lines[anna.screen.cursor.y]))  # it waits
    anna.type(CTRL["d"], enter=False)
    assert anna.ends() == 0
    assert "no answer from mute" in anna.past and "Traceback" not in anna.past
    assert termios.tcgetattr(anna.child.child_fd)[6][termios.VEOF] == b"\x04"


def test_the_line_below_tells_that_the_connection_is_gone_though_nothing_is_printed(
    lab: Lab, sit: Any
) -> None:
    anna = sit()
    anna.until(lambda: anna.status == "nothing waits · 2 here: you, human")
    lab.down()
    anna.until(lambda: anna.status.startswith("connecting again · "))


def test_the_connection_that_is_lost_for_good_ends_the_typed_line(lab: Lab, sit: Any) -> None:
    anna = sit()
    anna.type("half", enter=False)
    anna.until(lambda: anna.typed == "half")
    lab.send("space/kick", {"participant_id": "anna"})
    assert anna.ends() == 1
    assert "mew-lab join: The connection to" in anna.past and "Traceback" not in anna.past


def test_lists_of_tools_are_asked_for_silently_and_shown_when_messages_are_shown_whole(
    lab: Lab, adding: Any, sit: Any
) -> None:
    anna = sit()

    def asked() -> int:
        return sum(one["kind"] == "mcp/response" and one["to"] == ["anna"] for one in lab.log)

    eventually(asked)
    anna.type("one line each")
    anna.see("chat +“one line each”")
    assert "tools/list" not in anna.past
    anna.type("/verbose on")
    anna.see("Each message is shown whole")
    anna.type("/tools notebook")
    anna.until(lambda: '"method":"tools/list"' in anna.past.replace("\n", "").replace(" ", ""))


# --- history -----------------------------------------------------------------------------------------------------


def test_lines_are_found_again_in_the_next_run_and_none_with_a_secret(lab: Lab, sit: Any) -> None:
    """The file is the user's alone."""
    secret = lab.token_file("human").read_text().strip()
    anna = sit()
    for line in (
        "first words",
        f"my token is {secret}",
        '{"kind": "chat", "payload": {"password": "x"}}',
        " spaced",
    ):
        anna.type(line)
    anna.type("/who")
    anna.see("may send")
    anna.press(CTRL["d"], lambda: not anna.child.isalive())
    assert anna.ends() == 0
    (file,) = anna.state.rglob(HISTORY)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [json.loads(line) for line in file.read_text().splitlines()] == ["first words", "/who"]
    again = sit()
    again.type(UP, enter=False)
    again.until(lambda: again.typed == "/who")
    again.type(UP, enter=False)
    again.until(lambda: again.typed == "first words")


# --- completion --------------------------------------------------------------------------------------------------


def test_tab_completes_a_command_a_name_and_the_arguments_by_their_schema(lab: Lab, sit: Any) -> None:
    @lab.tool
    def water(bed: Literal["north", "south"], deep: bool, note: str = "") -> str:
        "Waters a bed."
        return f"{bed} {deep}"

    anna = sit()
    eventually(lambda: any(one["from"] == "notebook" and one["to"] == ["anna"] for one in lab.log))

    def press(text: str, then: str) -> None:
        anna.type(text, enter=False)
        anna.until(lambda: anna.typed.endswith(text.strip()))
        anna.type(TAB, enter=False)
        anna.until(lambda: anna.typed == then)

    press("/cal", "/call")
    press("notebook/wa", "/call notebook/water")
    press(" ", "/call notebook/water {")
    press('"b', '/call notebook/water {"bed":')
    press('"n', '/call notebook/water {"bed": "north"')
    press(', "d', '/call notebook/water {"bed": "north", "deep":')
    press("t", '/call notebook/water {"bed": "north", "deep": true')
    anna.type("}")
    anna.see("mcp/request notebook/water")
    anna.see("north True")


def test_a_person_acts_on_others_and_messages_wait_in_the_line_below(lab: Lab, sit: Any) -> None:
    anna, coder = sit(can="admin"), lab.join("coder", can="human")
    coder.chat("are you there?")
    anna.until(lambda: "· 1 to /ack ·" in anna.status)
    anna.type("/ack coder read")
    anna.until(lambda: "to /ack" not in anna.status)
    started = coder.send("reasoning/start", {"message": "hm"}).id
    anna.until(lambda: "· coder reasons: /reason-cancel ·" in anna.status)
    anna.type("/reason-cancel")
    anna.until(lambda: "reasons" not in anna.status)
    assert [one["context"] for one in lab.log if one["kind"] == "reasoning/cancel"] == [started]
    anna.type("/pause coder 5m")
    anna.see("not '5m': 5m is 300; it is written")
    anna.type("/pause coder 600 too noisy")
    paused = eventually(lambda: coder.participant.controls.pause_state)
    assert paused.by == "anna" and paused.reason == "too noisy"
    anna.type("/target co", enter=False)
    anna.until(lambda: anna.typed == "/target co")
    anna.type(TAB, enter=False)
    anna.until(lambda: anna.typed == "/target coder")
    anna.type("")
    anna.until(lambda: "anna → coder>" in anna.lines[anna.screen.cursor.y])


# --- other terminals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_a_narrow_terminal_and_one_without_colours_hold(
    lab: Lab, sit: Any, environment: dict[str, str]
) -> None:
    anna = sit(columns=40, **environment)
    for name in ("gardener-of-the-north", "gardener-of-the-south"):
        lab.join(name)
    anna.until(lambda: anna.status == "nothing waits · 4 here: you, gardener-o…")
    lab.chat("a sentence that is a good deal longer than forty columns of a terminal")
    anna.until(lambda: "forty columns of a terminal" in anna.past.replace("\n", ""))
    anna.type("typed", enter=False)
    anna.until(lambda: anna.typed == "typed")
    assert bool(re.search(r"\x1b\[[0-9;]*[34]8;5|\x1b\[(?:[0-9]+;)*[349][0-7]m", anna.raw)) is not bool(
        environment
    )


def test_a_dumb_terminal_has_plain_lines(lab: Lab, sit: Any) -> None:
    anna = sit(ready=False, TERM="dumb")
    anna.see("You are anna in demo; /help lists the commands")
    anna.type("plain words")
    eventually(lambda: "plain words" in said(lab))
    assert (
        "\x1b" not in anna.raw.replace("\x1b[38;5;", "").replace("\x1b[0m", "") and "anna>" not in anna.past
    )


# --- peers -------------------------------------------------------------------------------------------------------

HOSTILE = [
    "\x1b[2J\x1b[H", "\x1b]0;owned\x07", "\x1b[31mred", "\r\x1b[2Kmew-lab: approved", "\x9b2J", "\x1bP+q\x1b\\",
    "a\nanna> /approve 1234", "\u202eevil", "\x07\x08\x7f", "\x1b[6n", "\x1b[?1049h", "\u2028x", "👩\u200d👩", "\x00",
]  # fmt: skip


@pytest.mark.threat(17)
def test_no_sequence_of_a_peer_reaches_the_terminal(lab: Lab, sit: Any) -> None:
    """Not in a chat, a name of a tool, an argument, or a status line; the screen shows escapes in its place."""
    anna = sit()
    bot = lab.join("bot", can="human")
    for text in HOSTILE:
        bot.chat(text)
        bot.send(
            "mcp/proposal",
            {"method": "tools/call", "params": {"name": text, "arguments": {text: text}}},
            to="notebook",
        )
        bot.send("reasoning/start", {"message": text, "input": text})
    count = len(HOSTILE)
    anna.until(lambda: anna.status.startswith(f"{count} to approve"))
    anna.type("/proposals")
    anna.see("/approve ID shows the call")
    anna.type("/approve ", enter=False)
    anna.type(TAB, enter=False)
    anna.read()
    drawn = SEQUENCES.sub("", anna.raw)
    assert {c for c in drawn if not c.isprintable()} <= {"\n", "\r", "\a", "\b"}
    assert "owned" not in anna.screen.title
    assert anna.raw.count("\a") == 1  # ours, for what waits


PARTS = st.lists(st.sampled_from([*HOSTILE, "name", "界", " ", "\t"]) | st.text(max_size=10), max_size=6).map(
    "".join
)


@pytest.mark.threat(17)
@given(message=PARTS, status=PARTS, name=PARTS, about=PARTS, printed=PARTS)
@settings(
    max_examples=30,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_stands_in_the_prompt_the_status_or_a_completion_moves_no_cursor(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    message: str,
    status: str,
    name: str,
    about: str,
    printed: str,
) -> None:
    """The names and the texts there are of peers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    drawn = Drawn()
    output = Vt100_Output(drawn, lambda: Size(rows=20, columns=200), term="xterm")
    with create_pipe_input() as keys, create_app_session(input=keys, output=output):
        prompt = LinePrompt(
            complete=lambda line: Completions([Suggestion("a", about), Suggestion(f"b{name}", "MENU")], ""),
            status=lambda width: f"STATUS{status}",
            message=lambda: message,
            colour=False,
        )

        def press() -> None:
            keys.send_text(f"\x1b[1;1R{TAB}{TAB}")  # the first answers where the cursor is
            try:
                eventually(lambda: "MENU" in drawn.getvalue() and "STATUS" in drawn.getvalue(), within=10)
            finally:
                keys.send_text(f"{CTRL['c']}{ENTER}{CTRL['d']}")

        fingers = threading.Thread(target=press)
        fingers.start()
        for _ in prompt.lines():
            say(printed)
        fingers.join()
    assert "MENU" in drawn.getvalue() and "STATUS" in drawn.getvalue(), repr(drawn.getvalue())
    assert [c for c in SEQUENCES.sub("", drawn.getvalue()) if not (c.isprintable() or c in "\n\r\b")] == []


class Drawn(io.StringIO):
    """What was drawn on a terminal that tells where its cursor is."""

    def isatty(self) -> bool:
        return True


# The sequences that the prompt draws with, and the colours of a line of the feed.
SEQUENCES = re.compile(r"\x1b\[[0-9;]*[ABCDmJKH]|\x1b\[\?(?:1|7|12|25|2004|1000|1006|1015)[hl]|\x1b\[6n")
