"""Plays the lessons for `pytest --nbval notebooks/`: without a person, and in a folder of their own.

A cell that waits for a person goes on, because MEW_LAB_DECIDE approves what is proposed. Outputs are compared but for
what tests/notebooks/sanitize.cfg says may differ. Options that you give, and a MEW_LAB_DECIDE that you set, stand.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER: pytest.StashKey[str] = pytest.StashKey()
# nbval starts a kernel in the folder of its notebook: there it would find, and leave, the space of a reader.
STARTUP = "import os, tempfile\nos.chdir(tempfile.mkdtemp(dir={folder!r}))\ndel os, tempfile\n"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if not (getattr(option, "nbval", False) or getattr(option, "nbval_lax", False)):
        return
    option.nbval_sanitize_with = option.nbval_sanitize_with or str(
        ROOT / "tests" / "notebooks" / "sanitize.cfg"
    )
    option.timeout = option.timeout or 300  # seconds of a cell, on a busy machine too
    option.nbval_current_env = option.nbval_current_env or not option.nbval_kernel_name
    folder = config.stash[FOLDER] = tempfile.mkdtemp(prefix="mew-lab-lessons-")
    startup = Path(folder, "ipython", "profile_default", "startup", "folder.py")
    startup.parent.mkdir(parents=True)
    startup.write_text(STARTUP.format(folder=folder), encoding="utf-8")
    decide = os.environ.get("MEW_LAB_DECIDE", "approve")
    for name in [name for name in os.environ if name.startswith("MEW_LAB_")]:
        del os.environ[name]
    os.environ |= {
        "IPYTHONDIR": str(Path(folder, "ipython")),
        **{
            name: str(Path(folder, name))
            for name in ("JUPYTER_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        },
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONHASHSEED": "0",
        "MEW_LAB_DECIDE": decide,
        "MEW_LAB_SEED": "1",
    }


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(FOLDER, None):
        shutil.rmtree(folder, ignore_errors=True)
