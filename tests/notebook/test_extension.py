"""Loading, reloading, unloading: the shell is left as it was found."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from IPython.core.interactiveshell import InteractiveShell

import mew_lab


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
    shell.run_cell("%load_ext mew_lab")
    shell.run_cell("%reload_ext mew_lab")
    shell.run_cell("%mew help")
    shell.run_cell("%unload_ext mew_lab")
    after = state(shell)
    assert after == before


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


def test_every_public_name_is_there_and_there_are_at_most_25() -> None:
    assert len(mew_lab.__all__) <= 25
    assert all(getattr(mew_lab, name) is not None for name in mew_lab.__all__)
    assert set(mew_lab.__all__) <= set(dir(mew_lab))


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="mew_lab has no 'nonsense'"):
        mew_lab.nonsense  # noqa: B018
