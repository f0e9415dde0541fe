"""A real IPython shell in this process, with and without the extension."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import mew_lab


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
