"""Loading, reloading, unloading: the shell is left as it was found."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import mew_lab
from mew_lab.notebook import extension


def state(shell: InteractiveShell) -> dict[str, object]:
    """Whatever an extension could leave behind in a shell."""
    events = {name: list(callbacks) for name, callbacks in shell.events.callbacks.items()}
    manager = shell.magics_manager
    formatters = shell.display_formatter.formatters  # type: ignore[union-attr]
    return {
        "magics": {kind: dict(table) for kind, table in manager.magics.items()},
        "registry": dict(manager.registry),
        "configurables": list(shell.configurables),
        "matchers": list(shell.Completer.custom_matchers),
        "events": events,
        "transforms": list(shell.input_transformer_manager.cleanup_transforms),
        "hooks": {name: str(hook) for name, hook in vars(shell.hooks).items()},
        "types": {kind: set(one.type_printers) for kind, one in formatters.items()},
        "deferred": {kind: set(one.deferred_printers) for kind, one in formatters.items()},
        "names": {name for name in shell.user_ns if not name.startswith("_")},
        "errors": hasattr(mew_lab.errors.MewError, "_render_traceback_"),
        "custom errors": shell.CustomTB is None or shell.custom_exceptions,
    }


@pytest.mark.trap("T-16")
def test_unloading_leaves_the_shell_as_it_was(shell: InteractiveShell) -> None:
    for name in ("load_ext", "reload_ext", "unload_ext"):
        shell.find_line_magic(name)  # the shell loads its own magics when they are first used
    before = state(shell)
    shell.run_cell("%load_ext mew_lab")
    assert "mew" in shell.magics_manager.magics["line"]
    assert "agent" in shell.magics_manager.magics["cell"]
    shell.run_cell("%load_ext mew_lab")
    shell.run_cell("%reload_ext mew_lab")
    shell.run_cell("%mew help")
    shell.run_cell("%unload_ext mew_lab")
    after = state(shell)
    assert after == before


@pytest.mark.threat(17)
def test_what_a_peer_wrote_into_an_error_is_shown_and_neither_done_nor_hidden(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    mew_lab.load_ipython_extension(shell)
    raised = 'ProposalRejected(proposal="p", by="a\\x1b[2J\\u202eb", reason="first\\nsecond\\x07")'
    shell.run_cell(f"from mew_lab.errors import ProposalRejected\nraise {raised}")
    mew_lab.unload_ipython_extension(shell)
    said = capsys.readouterr().out
    assert said.rstrip("\n") == (
        "ProposalRejected: Proposal rejected by a\\u001b[2J\\u202eb: first\nsecond\\u0007"
    )


@pytest.mark.trap("T-16")
def test_a_cell_magic_of_the_users_own_comes_back(shell: InteractiveShell) -> None:
    def agent(line: str, cell: str) -> str:
        return f"mine: {cell.strip()}"

    shell.register_magic_function(agent, magic_kind="cell")
    shell.run_cell("%load_ext mew_lab")
    assert shell.find_cell_magic("agent") is not agent
    shell.run_cell("%unload_ext mew_lab")
    assert shell.run_cell("%%agent\nx").result == "mine: x"


@pytest.mark.parametrize(
    ("cell", "run"),
    [
        ("%mew ask bot What time is it?", "ask bot What time is it?"),
        ("x = %mew ask bot Why 'so'?  ", "ask bot Why 'so'?"),
        ("%mew chat How are you??", "chat How are you??"),
        ("%mew?", None),
        ("%mew help?", None),
        ("%%mew chat\n%mew ask bot Why?", None),
    ],
)
def test_a_question_on_a_line_is_said_and_not_looked_up(cell: str, run: str | None) -> None:
    lines = cell.splitlines(keepends=True)
    left = extension.questions(lines)
    if run is None:
        assert left == lines
    else:
        assert f"get_ipython().run_line_magic('mew', {run!r})\n" in left[0]
        assert left[0].startswith("x = " if cell.startswith("x") else "get_ipython()")


@pytest.mark.trap("T-16")
def test_loading_twice_is_loading_once(shell: InteractiveShell) -> None:
    mew_lab.load_ipython_extension(shell)
    once = state(shell)
    mew_lab.load_ipython_extension(shell)
    assert state(shell) == once


def test_a_magic_of_that_name_that_was_there_comes_back(shell: InteractiveShell) -> None:
    shell.register_magic_function(lambda line: "theirs", "line", "mew")
    mew_lab.load_ipython_extension(shell)
    mew_lab.unload_ipython_extension(shell)
    assert shell.run_line_magic("mew", "x") == "theirs"


def test_unloading_what_was_never_loaded_does_nothing(shell: InteractiveShell) -> None:
    before = state(shell)
    mew_lab.unload_ipython_extension(shell)
    assert state(shell) == before


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


HEAVY = "('pandas', 'numpy', 'openai', 'mcp', 'nest_asyncio', 'nest_asyncio2', 'uvicorn', 'starlette', 'jsonschema')"


@pytest.mark.trap("T-17")
def test_importing_brings_nothing_along() -> None:
    out = run(
        f"""
        import sys, threading
        import mew_lab
        print([name for name in {HEAVY} + ('IPython', 'asyncio', 'pydantic', 'yaml') if name in sys.modules])
        print(threading.active_count())
        """
    )
    assert out == "[]\n1\n"


@pytest.mark.trap("T-17")
def test_loading_starts_no_thread_opens_no_socket_and_patches_no_loop() -> None:
    out = run(
        f"""
        import asyncio, os, socket, sys, threading
        opened = []
        real = socket.socket.bind
        socket.socket.bind = lambda *args: (opened.append(args), real(*args))
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config
        config = Config()
        config.HistoryManager.enabled = False
        shell = InteractiveShell.instance(config=config)
        task, run, threads = asyncio.Task, asyncio.run, threading.active_count()
        files = set(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else None
        shell.run_cell('%load_ext mew_lab')
        shell.run_cell('%mew help')
        shell.run_cell('%mew up --help')
        assert 'mew' in shell.magics_manager.magics['line']
        print([name for name in {HEAVY} if name in sys.modules])
        print(asyncio.Task is task, asyncio.run is run, threading.active_count() - threads, opened)
        print(files is None or set(os.listdir('/proc/self/fd')) == files)
        """
    )
    assert out.splitlines()[-3:] == ["[]", "True True 0 []", "True"]


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="mew_lab has no 'nonsense'"):
        mew_lab.nonsense  # noqa: B018


# --- with a real space -------------------------------------------------------------------------------------------

DAY_ONE = """
%load_ext mew_lab
%mew up
@lab.tool
def add(a: int, b: int) -> int:
    "Sum of two numbers."
    return a + b
bot = %mew join bot
p = %mew call notebook/add --as bot a=1 b=2
cards = %mew approvals
table = %mew feed
while not lab.proposals(): pass
%mew approve {p.id} --digest {lab.proposals()[0].digest}
result = p.result(10)
"""


FILES = Path("/proc/self/fd")


def files() -> int:
    """How many file descriptors this process holds."""
    return len(list(FILES.iterdir()))


@pytest.mark.trap("T-16")
@pytest.mark.skipif(not FILES.is_dir(), reason="needs /proc to count file descriptors")
def test_unloading_ends_what_day_one_began(shell: InteractiveShell) -> None:
    def once() -> None:
        assert shell.run_cell(DAY_ONE).success
        assert str(shell.user_ns["result"]) == "3"
        port = int(shell.user_ns["lab"].url.split(":")[2].split("/")[0])
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        shell.run_cell("%unload_ext mew_lab")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)

    before = threading.active_count()
    once()  # the first time brings libraries, which keep descriptors of their own
    gc.collect()
    threads, open_files = threading.active_count(), files()
    once()
    gc.collect()
    assert threading.active_count() == threads == before
    assert files() == open_files
    assert mew_lab.labs() == {}


@pytest.mark.trap("T-16")
def test_reloading_ends_the_labs_and_the_magic_goes_on(shell: InteractiveShell) -> None:
    assert shell.run_cell(DAY_ONE).success
    shell.run_cell("%reload_ext mew_lab")
    assert mew_lab.labs() == {}
    assert shell.run_cell("%mew up").success
    assert list(mew_lab.labs()) == ["demo"]


@pytest.mark.trap("T-23")
@pytest.mark.threat(1)
def test_no_picture_of_anything_holds_a_token(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_cell(DAY_ONE).success
    lab = shell.user_ns["lab"]
    line = lab.join_line()
    token = lab.token_file().read_text().strip()
    values = [shell.user_ns[name] for name in ("lab", "bot", "p", "result", "cards", "table")]
    values += [lab.who(), lab.tools(), lab.status(), lab.history(), lab.proposals(all=True), lab.log, lab.me]
    values += [lab.chat("x"), lab.save("x.jsonl"), mew_lab.open_log("x.jsonl"), Exception(line)]
    pictures = [shell.display_formatter.format(value) for value in values]  # type: ignore[union-attr]
    pictures += [repr(vars(value)) for value in (lab, lab.me.participant.client, lab.host, lab.host.gateway)]
    shell.run_cell("lab.seats['bot'].participant.client.nothing")
    told = repr(pictures) + "".join(capsys.readouterr())
    assert len(token) > 20
    assert token not in told
    assert "cannot be shown" not in told
    assert "object at 0x" not in repr(pictures[: len(values)])


def test_every_value_of_day_one_has_html_and_text_that_can_be_read(shell: InteractiveShell) -> None:
    assert shell.run_cell(DAY_ONE).success
    expected = {
        "lab": ["demo", "ws://127.0.0.1", "human (you)", "mew-lab join", "--token-file"],
        "bot": ["bot", "demo", "mcp/proposal"],
        "p": ["mcp/proposal", "notebook/add", "answered", "human"],
        "result": ["3"],
        "cards": ["notebook", "add"],
    }
    for name, words in expected.items():
        data, _ = shell.display_formatter.format(shell.user_ns[name])  # type: ignore[union-attr]
        assert data["text/plain"], name
        for word in words:
            assert word in data["text/html"], f"{word} in the picture of {name}"


def test_a_lab_says_what_waits(shell: InteractiveShell) -> None:
    assert shell.run_cell(DAY_ONE).success
    shell.run_cell(
        "q = bot.call('notebook/add', a=1, b=2)\nwhile not lab.proposals(): pass\nx = %mew use demo"
    )
    data, _ = shell.display_formatter.format(shell.user_ns["x"])  # type: ignore[union-attr]
    assert "1 proposal to approve: %mew approvals" in data["text/plain"]
    assert "1 proposal to approve" in data["text/html"]
    shell.run_cell("gone = %mew down")
    assert "still pending" in str(shell.user_ns["gone"])


def test_a_lab_that_is_down_says_so_and_its_log_can_still_be_read(shell: InteractiveShell) -> None:
    assert shell.run_cell(DAY_ONE).success
    shell.run_cell("gone = %mew down")
    lab = shell.user_ns["lab"]
    assert "demo is down" in str(shell.user_ns["gone"])
    data, _ = shell.display_formatter.format(lab)  # type: ignore[union-attr]
    assert "this space has stopped" in data["text/plain"]
    assert "This space has stopped" in data["text/html"]
    assert len(lab.log.df) == len(lab.log)


def test_before_up_each_sub_command_says_how_to_begin(
    loaded: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in ("who", "tools", "approvals", "feed", "down", "call a/b", "approve x", "save x.jsonl"):
        assert not loaded.run_cell(f"%mew {line}").success
        out, err = capsys.readouterr()
        lines = (out + err).strip().splitlines()
        assert len(lines) == 1, lines
        assert "No space is up here" in lines[0]
        assert "%mew up" in lines[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%mew up", "A lab 'demo' is up already"),
        ("%mew up x --as system", "system"),
        ("%mew join human", "already exists"),
        ("%mew join x --can emperor", "There is no profile 'emperor'"),
        ("p = %mew call nobody/nothing\np.result(5)", "nobody"),
        ("%mew call add", "participant/tool"),
        ("%mew tools nobody", "nobody"),
        ("%mew approve nothing", "there is no proposal"),
        ("%mew withdraw nothing", "Cannot withdraw"),
        ("%mew resolve nothing --happened", "no call with this id is known here"),
        ("%mew resolve nothing", "say whether it happened"),
        ("%mew chat --as nobody hello", "nobody"),
        ("%mew use nowhere", "There is no lab 'nowhere'"),
        ("%mew bridge x -- /no/such/program", "/no/such/program"),
        ("%mew bridge x --env NO_SUCH_VARIABLE -- python", "NO_SUCH_VARIABLE"),
        ("%mew send system/error {}", "system/error"),
        ('%mew send chat {"text": NaN}', "NaN"),
        ("%mew save /no/such/folder/x.jsonl", "/no/such/folder"),
        ("%mew connect ws://127.0.0.1:1/ws --space s --token-env SOME_TOKEN", "127.0.0.1:1"),
        ("mew_lab.open_log('wrong.txt')", "wrong.txt is not a journal"),
    ],
)
def test_bad_input_is_one_line_and_the_space_goes_on(
    shell: InteractiveShell,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    words: str,
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "x" * 43)
    shell.run_cell("import mew_lab\nopen('wrong.txt', 'w').write('hello\\n')\n%load_ext mew_lab\nx = %mew up")
    capsys.readouterr()
    assert not shell.run_cell(line).success
    out, err = capsys.readouterr()
    lines = [one for one in (out + err).strip().splitlines() if not one.startswith("starting ")]
    assert len(lines) == 1, lines
    assert words in lines[0]
    assert shell.run_cell("%mew chat still here").success


WAITING = """
import mew_lab
lab = mew_lab.up()
@lab.tool
def add(a: int, b: int) -> int:
    "Sum of two numbers."
    return a + b
p = lab.join("bot", can="proposer").call("notebook/add", a=1, b=2)
while not lab.proposals(): pass
digits = lab.proposals()[0].digest[:8]
"""
APPROVE = "lab.approve(p.id, digest=digits)"


@pytest.mark.threat(36)
@pytest.mark.parametrize("load", ["%load_ext mew_lab", ""])
@pytest.mark.parametrize(
    "show",
    [
        "lab.proposals()",
        "lab.proposals()[0]",
        "[lab.proposals()[0]]",
        "print(lab.proposals())",
        "display(lab.proposals())",
    ],
)
def test_threat_36_what_a_cell_shows_counts_as_told(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], load: str, show: str
) -> None:
    assert shell.run_cell(load).success and shell.run_cell(WAITING).success
    try:
        shell.run_cell(show)
        assert shell.user_ns["digits"] in capsys.readouterr().out
        assert shell.run_cell(APPROVE).success
    finally:
        shell.user_ns["lab"].down()


@pytest.mark.threat(36)
@pytest.mark.parametrize("load", ["%load_ext mew_lab", ""])
@pytest.mark.parametrize(
    "make",
    [
        "made = repr(lab.proposals()) + repr(lab.proposals()[0])",
        "made = '%r %s' % (lab.proposals()[0], [lab.proposals()[0]])",
        "%xmode Verbose\ndef failing(listing, entry):\n    raise ValueError(len(listing))\nfailing(lab.proposals(), lab.proposals()[0])",
    ],
)
def test_threat_36_what_a_debugger_or_a_log_makes_of_it_does_not(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], load: str, make: str
) -> None:
    assert shell.run_cell(load).success and shell.run_cell(WAITING).success
    try:
        shell.run_cell(make)
        made = capsys.readouterr().out + str(shell.user_ns.get("made", ""))
        assert shell.user_ns["digits"] in made, "there it stood, for nobody"
        failed = shell.run_cell(APPROVE)
        assert isinstance(failed.error_in_exec, mew_lab.errors.NotApproved)
        assert failed.error_in_exec.code == "not_shown"
    finally:
        shell.user_ns["lab"].down()
