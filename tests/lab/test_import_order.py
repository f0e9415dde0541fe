"""Which module of the package is imported first changes nothing: each can be, and a lab finds its views after any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "mew_lab"
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.name != "__main__.py"  # runs the command line
    # An adapter needs the framework of its own extra; test_tool_approvals runs each in an environment that has it.
    and (path.parent.name != "frameworks" or path.name == "__init__.py")
)

# A process that has loaded no module of the package forks once for each: what one import loads, no other one sees. Third
# parties are loaded before, so that each child pays for our modules alone.
EACH_ALONE = """
import contextlib, importlib, os, sys
for library in ("pydantic", "pandas", "openai", "mcp", "starlette", "uvicorn", "anywidget", "IPython", "ipykernel"):
    with contextlib.suppress(ImportError):
        importlib.import_module(library)
assert not [name for name in sys.modules if name.partition(".")[0] == "mew_lab"]
for name in sys.stdin.read().split():
    if (child := os.fork()) == 0:
        try:
            importlib.import_module(name)
        except BaseException as fault:
            print(f"{name}: {type(fault).__name__}: {fault}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a fork is what makes each import the first one")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", [0, 1])
def test_each_module_can_be_the_first_one_that_is_imported(part: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EACH_ALONE],
        input="\n".join(MODULES[part::2]),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "done\n", done.stdout + done.stderr


FIRST = (
    "mew_lab.lab.labs",
    "mew_lab.lab.pending",
    "mew_lab.views.views",
    "mew_lab.views.panel.widget",
    "mew_lab.notebook.waiting",
)

VIEW_OF_A_LAB = """
import importlib, sys
importlib.import_module(sys.argv[1])
from mew_lab.lab.labs import up
lab = up(port=None, journal=None)
print(lab.view)
assert lab.view is lab.view and lab.view.roster is lab.view.roster
lab.down()
"""


@pytest.mark.sampled
@pytest.mark.parametrize("first", FIRST)
def test_a_lab_has_its_views_whatever_was_imported_first(first: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VIEW_OF_A_LAB, first], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("lab.view: approvals, chat, feed")


WAIT_IN_A_SCRIPT = """
import sys
from mew_lab.lab.labs import up
lab = up(port=None, journal=None)
lab.join("helper", can="tool")
pending = lab.join("bot", can="proposer").propose("helper/add", a=1)
try:
    pending.result(0.1)
except Exception as fault:
    print(type(fault).__name__)
lab.down()
print(*sorted(name for name in sys.modules if name.startswith(("IPython", "mew_lab.notebook", "mew_lab.views"))))
"""


def test_a_script_waits_without_asking_a_room_above() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAIT_IN_A_SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "NoReply\n\n"
