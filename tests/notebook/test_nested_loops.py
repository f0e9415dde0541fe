"""A notebook whose cells call asyncio.run: what a cell is told, and the way that the reference describes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from .kernels import Kernel

ROOT = Path(__file__).resolve().parents[2]
HINT = "`import nest_asyncio2; nest_asyncio2.apply()`"
MAIN = "import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    return 'it ran'\n"
LAB = """
%load_ext mew_lab
%mew up
@lab.tool
def add(a: int, b: int) -> int:
    "Sum of two numbers."
    return a + b
bot = lab.join("bot", can="proposer")
"""
CALL = 'p = bot.call("notebook/add", a=1, b=2)\nprint(await p)'


def statements() -> str:
    """The statements that the reference gives for such a notebook."""
    page = ROOT / "notebooks" / "reference" / "views.ipynb"
    (text,) = (cell.source for cell in nbformat.read(page, 4).cells if "nest_asyncio2" in cell.source)
    (found,) = re.findall(r"`(import nest_asyncio2; [^`]*)`", text)
    assert f"`{found}`" == HINT
    return str(found)


def test_a_cell_that_calls_asyncio_run_keeps_its_traceback_and_is_told_once_what_to_write(
    kernel: Callable[..., Kernel],
) -> None:
    one = kernel(attended=False)
    one.passes("%load_ext mew_lab")
    first = one.run(MAIN + "asyncio.run(main())")
    assert (
        "RuntimeError" in first.error
        and "asyncio.run() cannot be called from a running event loop" in first.error
    )
    assert "asyncio.run(main())" in re.sub(r"\x1b\[[\d;]*m", "", first.error)  # the line of the cell
    told = [line for line in first.text.splitlines() if "nest_asyncio2" in line]
    assert len(told) == 1 and HINT in told[0] and "`await main()`" in told[0]
    again = one.run("asyncio.run(main())")
    assert "RuntimeError" in again.error and "nest_asyncio2" not in again.text


@pytest.mark.parametrize("early", [True, False], ids=["before the space", "after it"])
def test_asyncio_run_and_a_lab_both_work_once_it_is_applied(
    kernel: Callable[..., Kernel], early: bool
) -> None:
    one = kernel(attended=False, MEW_LAB_DECIDE="approve")
    if early:
        one.passes(statements())
    one.passes(LAB)
    if not early:
        assert one.passes(CALL) == "3\n"
        one.passes(statements())
    assert "it ran" in one.passes(MAIN + "asyncio.run(main())")
    assert one.passes(CALL) == "3\n"
    both = """
async def within():
    return await bot.call("notebook/add", a=20, b=3)
print(asyncio.run(within()), bot.call("notebook/add", a=1, b=1).result(timeout=30))
"""
    assert one.passes(both) == "23 2\n"
    assert "it ran" in one.passes("asyncio.run(main())")
    one.passes("%mew down")
    assert "nest_asyncio2" not in one.passes("print('quiet')")


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("RuntimeError('asyncio.run() cannot be called from a running event loop')", True),
        ("RuntimeError('Runner.run() cannot be called from a running event loop')", True),
        ("RuntimeError('of another kind')", False),
        ("RuntimeError('see: asyncio.run() cannot be called from a running event loop, said a peer')", False),
        ("ValueError('asyncio.run() cannot be called from a running event loop')", False),
    ],
)
def test_only_that_error_is_commented_on(
    loaded: InteractiveShell, capsys: pytest.CaptureFixture[str], raised: str, told: bool
) -> None:
    loaded.run_cell(f"raise {raised}")
    out, err = capsys.readouterr()
    assert raised.partition("(")[0] in out
    assert ("nest_asyncio2" in err) == told


def test_what_is_not_loaded_says_nothing(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%load_ext mew_lab")
    shell.run_cell("%unload_ext mew_lab")
    shell.run_cell("raise RuntimeError('asyncio.run() cannot be called from a running event loop')")
    assert "nest_asyncio2" not in "".join(capsys.readouterr())
