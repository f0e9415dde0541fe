"""Every verb in a real kernel: typed as `%mew …` and as Python, blocking and awaited, right and wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from mew_lab.errors import NoSuchName
from mew_lab.lab.lab import Lab
from mew_lab.lab.participant_verbs import ParticipantVerbs
from mew_lab.notebook.commands import COMMANDS, method_of

from .kernels import Kernel

START = """
%load_ext mew_lab
%mew up --no-journal
def seat(name):
    return lab.join(name, can="agent")
async def reason(name):
    return lab.seats[name].send("reasoning/start", {"message": "hm"})
"""
numbers = count(1)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel with a space; each test seats a participant of its own."""
    made = Kernel(tmp_path_factory.mktemp("verbs"), environment={}, attended=True)
    made.passes(START)
    yield made
    made.close()


@pytest.fixture
def name(notebook: Kernel) -> str:
    """An agent that is in the space."""
    name = f"coder{next(numbers)}"
    notebook.passes(f"_ = seat({name!r})")
    return name


# For each verb of a participant: what is done before, its command, its method, and what is told.
VERBS: list[tuple[str, str, str, str]] = [
    ("", "pause NAME --minutes 5 lunch", "pause(minutes=5, reason='lunch')", r"NAME is paused until .*\d\d:\d\d"),
    ("lab.of('NAME').pause()", "resume NAME", "resume()", "NAME may send again"),
    ("", "status NAME", "status()", r"messages in context\s+0"),
    ("", "compact NAME", "compact()", "NAME had nothing to compact"),
    ("", "forget NAME --entries 3 --sure", "forget(3, sure=True)", "NAME was asked to forget the oldest 3: it says that it has forgotten them"),
    ("", "clear NAME --sure", "clear(sure=True)", "it says that it has erased its context"),
    ("", "restart NAME --sure", "restart(sure=True)", "it says that it has restarted"),
    ("", "shutdown NAME --sure", "shutdown(sure=True)", "NAME was asked to shut down: it has left"),
    ("", "kick NAME --sure", "kick(sure=True)", "NAME was removed, and its tokens are invalid"),
    ("", 'grant NAME --minutes 5 {"kind": "participant/pause"}', "grant({'kind': 'participant/pause'}, minutes=5)", "NAME may now pause participants for 5 min"),
    ("lab.of('NAME').grant({'kind': 'participant/pause'})", "revoke NAME --sure", "revoke(sure=True)", "The permission of NAME is revoked: pause participants"),
    ("await reason('NAME')", "cancel-reasoning NAME late", "cancel_reasoning(reason='late')", r"The reasoning of NAME was cancelled \(late\)"),
]  # fmt: skip


def test_a_verb_of_a_participant_that_is_written_as_one_of_the_lab_says_where_it_is() -> None:
    for verb in {name for name in vars(ParticipantVerbs) if not name.startswith("_")} - {*dir(Lab)}:
        with pytest.raises(NoSuchName, match=rf"lab\.of\(NAME\)\.{verb}$"):
            getattr(Lab, verb)


def test_every_verb_of_a_participant_is_tried() -> None:
    tried = {call.partition("(")[0] for _, _, call, _ in VERBS}
    assert tried == {each for each in vars(ParticipantVerbs) if not each.startswith("_")}
    typed = {name for name in COMMANDS if method_of(name).startswith("lab.of(NAME)")}
    assert {line.split()[0] for _, line, _, _ in VERBS} == typed | {"status"}


@pytest.mark.parametrize("how", ["%mew", "blocking", "await"])
@pytest.mark.parametrize("verb", VERBS, ids=[call.partition("(")[0] for _, _, call, _ in VERBS])
def test_a_verb_of_a_participant_is_typed_called_and_awaited(
    notebook: Kernel, name: str, verb: tuple[str, str, str, str], how: str
) -> None:
    before, line, call, told = (part.replace("NAME", name) for part in verb)
    notebook.passes(before)
    cell = {"%mew": f"%mew {line}", "blocking": f"lab.of('{name}').{call}"}
    said = notebook.passes(cell.get(how, f"await lab.of('{name}').{call}"))
    assert re.search(told, said), said


@pytest.mark.parametrize("verb", ["forget", "clear", "restart", "shutdown", "kick", "revoke"])
def test_what_loses_something_is_typed_twice(notebook: Kernel, name: str, verb: str) -> None:
    notebook.passes(f"_ = lab.of('{name}').grant({{'kind': 'participant/pause'}})")
    first = notebook.passes(f"%mew {verb} {name}")
    assert first.rstrip().endswith("Nothing was sent yet. Repeat it to do it.")
    second = notebook.passes(f"lab.of('{name}').{verb}()")
    assert "Nothing was sent" not in second and name in second


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ("%mew pause codr99", "UsageError|NoSuchParticipant: .*nobody here is called 'codr99'"),
        ("lab.of('NAME').pause(5)", r"MewError: Cannot call pause\(\) so: it takes nothing by place"),
        ("lab.of('NAME').pause(seconds=5)", "did you mean 'minutes', which is in minutes"),
        ("lab.of('NAME').status('tokens')", "takes nothing by place, and fields, timeout by name"),
        ("await lab.of('NAME').paus()", "did you mean 'pause'"),
        ("%mew pause NAME --minutes soon", "invalid float value"),
        ("%mew kickk NAME", "did you mean 'kick'"),
        ("%mew resume NAME", "It is not paused"),
    ],
)
def test_a_mistake_is_one_line_and_no_traceback(notebook: Kernel, name: str, cell: str, error: str) -> None:
    ran = notebook.run(cell.replace("NAME", name))
    told = ran.error or ran.text
    assert re.search(error, told), told
    assert "Traceback" not in told and len(told.strip().splitlines()) == 1


@pytest.mark.threat(1)
def test_threat_01_an_invitation_shows_a_file_and_no_token(notebook: Kernel) -> None:
    said = notebook.passes("%mew invite ann --can observer to look")
    [file] = re.findall(r"--token-file (\S+)", said)
    secret = Path(file).read_text().strip()
    assert len(secret) > 20 and secret not in said
    assert secret not in notebook.passes("print(lab.log.df.to_string()); lab.of('ann').status()")
    again = notebook.run("lab.invite('ann')")
    assert "known in this space already" in again.error + again.text
    enrolled = notebook.passes("%mew enrol ben --can observer")
    assert "--token-file" in enrolled
    notebook.passes("%mew kick ann --sure")


def test_chat_is_acknowledged_and_cancelled(notebook: Kernel, name: str) -> None:
    notebook.passes("_ = lab.acknowledge()")
    notebook.passes(f"sent = lab.seats['{name}'].chat('one')")
    waits = "import time\nend = time.monotonic() + 20\nwhile not lab.me.participant.chats.pending and time.monotonic() < end: time.sleep(0.01)"
    notebook.passes(waits)
    assert f"Acknowledged to {name} (read)." in notebook.passes("%mew acknowledge $sent.id --status read")
    notebook.passes(f"sent = lab.seats['{name}'].chat('two')\n{waits}")
    assert "1 message acknowledged (received)." in notebook.passes("await lab.acknowledge()")
    notebook.passes("sent = lab.chat('never mind')")
    assert "is cancelled for everybody" in notebook.passes("%mew cancel $sent.id")


def test_a_stream_is_opened_written_read_shared_and_closed(notebook: Kernel, name: str) -> None:
    assert "<LabStream stream-" in notebook.passes("s = %mew stream open --description numbers\ns")
    assert "numbers" in notebook.passes("%mew stream list")
    notebook.passes(f"theirs = lab.seats['{name}'].stream(s.id)")
    assert f"{name} may write" in notebook.passes(f"%mew stream grant $s.id {name}")
    assert "3 bytes sent" in notebook.passes("%mew stream write $s.id one")
    assert "b'one'" in notebook.passes("theirs.read()")
    assert "b'two'" in notebook.passes("s.write('two'); await theirs.read()")
    assert "may no longer write" in notebook.passes(f"%mew stream revoke $s.id {name}")
    none = notebook.run("%mew stream read $s.id --timeout 0.2")
    assert "No frame of" in none.error + none.text
    read = "s.write('a'); s.write('b'); s.close()\n[data async for data in theirs]"
    assert "[b'a', b'b']" in notebook.passes(read)
    assert f"{name} owns" in notebook.passes(f"t = %mew stream open\n%mew stream transfer $t.id {name}")
    assert "is closed (complete)" in notebook.passes("u = %mew stream open\n%mew stream close $u.id")


def test_everybody_is_paused_and_a_seat_leaves(notebook: Kernel, name: str) -> None:
    assert re.search(r"\d+ agents? paused: ", notebook.passes("%mew pause-all lunch"))
    assert "paused by human" in notebook.passes(f"lab.of('{name}')")
    assert re.search(r"\d+ agents? resumed: ", notebook.passes("%mew resume-all"))
    assert f"{name} has left" in notebook.passes(f"%mew leave {name}")


def test_a_result_is_loaded_again(notebook: Kernel) -> None:
    notebook.passes("@lab.tool\ndef add(a: int, b: int) -> int:\n    return a + b")
    notebook.passes("p = lab.call('notebook/add', a=1, b=2)\np.result()")
    assert "3" in notebook.passes("%mew load $p.id")


def test_an_async_tool_of_a_seat_awaits_a_verb_on_the_loop(notebook: Kernel, name: str) -> None:
    notebook.passes(
        "desk = lab.join('desk', can='tool')\n@desk.tool\nasync def look(who: str) -> str:\n"
        "    return str(await lab.of(who).pause(minutes=1)) + str(await lab.streams())"
    )
    said = notebook.passes(f"p = lab.call('desk/look', who='{name}')\nprint(await p)")
    assert f"{name} is paused until" in said and "open streams" in said
