"""A real IPython shell in this process, with and without the extension."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import mew_lab

from .kernels import Kernel


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """An InteractiveShell that is the one get_ipython() gives, without history and without colours."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    one = InteractiveShell.instance(config=config)
    one.Completer.use_jedi = False
    yield one
    mew_lab.unload_ipython_extension(one)
    InteractiveShell.clear_instance()
    atexit.unregister(
        one.atexit_operations
    )  # else each shell collects all garbage once more when the tests end


@pytest.fixture
def loaded(shell: InteractiveShell) -> InteractiveShell:
    """The same with `%load_ext mew_lab` done."""
    mew_lab.load_ipython_extension(shell)
    return shell


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    made: list[Kernel] = []

    def make(*, attended: bool, **environment: str) -> Kernel:
        made.append(Kernel(tmp_path, environment=environment, attended=attended))
        return made[-1]

    yield make
    for one in made:
        one.close()
