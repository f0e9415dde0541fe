"""Do the lessons run as they are saved?  Each is run again, headless, and every output compared with the saved one.

After a change that is meant, record the outputs anew with `python tests/notebooks/make_lessons.py`, and read the
difference. What may differ between two runs stands in sanitize.cfg. The picture of a view is stored when the space ends,
so it is compared by a test of its own.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter, MarkdownExporter
from nbconvert.preprocessors import ExecutePreprocessor

from mew_lab.bridge.acp_agents import AGENTS
from mew_lab.log.frame_columns import describe_frames

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BUDGET = 30.0  # seconds for all lessons once, on two cores
# The lessons that start a space; the others read a log.
SPACES = [path for path in LESSONS if "%mew up" in path.read_text(encoding="utf-8")]
# The second tier runs each lesson on its own; the first runs all of them together.
EACH = [pytest.param(path, marks=pytest.mark.slow) for path in SPACES]
# In the lesson of the gate an MCP client waits, and gets an answer without a person; in the others a cell waits.
GATE = ROOT / "notebooks" / "07-a-gate-for-mcp.ipynb"
WAITING = [SPACES[0], *(pytest.param(path, marks=pytest.mark.slow) for path in SPACES[1:] if path != GATE)]

pytestmark = pytest.mark.timeout(900)  # all lessons one after the other, beside other tests


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A lesson's environment: nobody's settings, a fixed seed, and this checkout first."""
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("MEW_LAB_", "JUPYTER", "IPYTHON", "GIT_"))
    }
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    mine = {
        "HOME": str(folder / "home"),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_PLATFORM_DIRS": "0",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTHONPATH": path,
        "PYTHONHASHSEED": "0",
        "MEW_LAB_SEED": "1",
    }
    for name in ("home", "ipython", "runtime", "config"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return kept | mine | more


def cells_of(book: Any, kind: str) -> list[Any]:
    return [cell for cell in book.cells if cell.cell_type == kind]


def stored_pictures(book: Any) -> list[str]:
    """The stored pictures of views, without what may differ between two runs."""
    rules = configparser.ConfigParser(interpolation=None)
    rules.read(HERE / "sanitize.cfg")
    pictures = []
    for output in (output for cell in cells_of(book, "code") for output in cell.outputs):
        text = "".join(output.get("data", {}).get("text/html", ""))
        if 'class="mew-stored"' not in text:
            continue
        for rule in rules.sections():
            text = re.sub(rules[rule]["regex"], rules[rule].get("replace") or "", text)
        pictures.append(text)
    return pictures


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def lesson(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_there_is_a_first_lesson() -> None:
    assert [path.name for path in LESSONS][:1] == ["01-first-space.ipynb"]


@pytest.mark.trap("T-21", "T-18")
@pytest.mark.req("P-9.1-1")
@pytest.mark.parametrize("zone", ["Asia/Kathmandu", pytest.param("America/St_Johns", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_lessons_give_what_they_show_in_any_time_zone(zone: str, tmp_path: Path) -> None:
    began = time.monotonic()
    folder = tmp_path / "lessons"
    folder.mkdir()
    for path in LESSONS:
        shutil.copy(path, folder)
    command = [
        *(sys.executable, "-m", "pytest", "-n0", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=60"),
        *("--nbval-sanitize-with", str(HERE / "sanitize.cfg"), "--rootdir", str(folder)),
        *("-c", os.devnull, "-p", "no:cacheprovider", "-q", str(folder)),
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(tmp_path / "of", TZ=zone, MEW_LAB_DECIDE="approve"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    cells = sum(len(cells_of(nbformat.read(path, 4), "code")) for path in LESSONS)
    assert f"{cells} passed" in done.stdout
    print(f"\nall lessons: {time.monotonic() - began:.1f} s (mark {BUDGET:.0f} s)")


@pytest.mark.slow
def test_nbval_runs_as_typed_and_leaves_nothing_in_the_checkout(tmp_path: Path) -> None:
    """`pytest --nbval notebooks/`, in a checkout where a reader's space of before lies beside the lessons."""
    tree = tmp_path / "checkout"
    shutil.copytree(
        ROOT / "notebooks", tree / "notebooks", ignore=shutil.ignore_patterns(".mew", "__pycache__")
    )
    (tree / "tests" / "notebooks").mkdir(parents=True)
    shutil.copy(HERE / "sanitize.cfg", tree / "tests" / "notebooks")
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / "mew_lab").symlink_to(ROOT / "mew_lab")
    notebooks = tree / "notebooks"
    (notebooks / ".mew").mkdir(mode=0o755)  # not the folder of a space: a lab that stood here would refuse it
    (notebooks / ".mew" / "tokens").write_text("not a folder")
    before = {path.name for path in notebooks.iterdir()}
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MEW_LAB_", "PYTHONPATH"))}
    done = subprocess.run(
        [Path(sys.executable).with_name("pytest"), "--nbval", "notebooks/"],
        cwd=tree,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    books = [*LESSONS, *(ROOT / "notebooks" / "reference").glob("*.ipynb")]
    cells = sum(len(cells_of(nbformat.read(path, 4), "code")) for path in books)
    assert f"{cells} passed" in done.stdout
    assert {path.name for path in notebooks.iterdir()} - {"__pycache__"} == before


@pytest.mark.parametrize("lesson", EACH, ids=lambda path: path.stem, indirect=True)
@pytest.mark.trap("T-15", "T-23")
@pytest.mark.threat(1, 5)
def test_an_executed_lesson_becomes_a_page_with_pictures_and_without_secrets(
    lesson: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = nbformat.read(lesson, 4)
    keep = "import pathlib, shutil; _ = [shutil.copy(one, 'seen-' + one.stem) for one in pathlib.Path('.mew/tokens').rglob('*.token')]"
    book.cells.insert(-1, nbformat.v4.new_code_cell(keep))
    for name, value in environment(tmp_path / "of", MEW_LAB_DECIDE="approve").items():
        monkeypatch.setenv(name, value)
    runner = ExecutePreprocessor(timeout=60, kernel_name="python3")
    runner.preprocess(book, {"metadata": {"path": str(tmp_path)}})

    now, saved = (stored_pictures(one) for one in (book, nbformat.read(lesson, 4)))
    if lesson == LESSONS[0]:
        assert now == saved
    else:  # agents in it: in which order some messages come is not the same each time
        called = [
            sorted(set(re.findall(r"wants to run </span><code>(.*?)</code>", "".join(one))))
            for one in (now, saved)
        ]
        assert called[0] == called[1] != []
    secrets = [path.read_text().strip() for path in tmp_path.glob("seen-*")]
    assert secrets and all(len(secret) > 20 for secret in secrets)
    html, _ = HTMLExporter().from_notebook_node(book)
    markdown, _ = MarkdownExporter().from_notebook_node(book)
    for page in (json.dumps(book), html, markdown):
        assert "object at 0x" not in page
        assert [secret for secret in secrets if secret in page] == []
    for page in (html, markdown):
        feed = re.findall(r"<table.*?</table>", page, re.DOTALL)
        rows = [table for table in feed if "mcp/proposal" in table and "mcp/response" in table]
        assert rows, "the feed is there as a table"
        assert re.search(r"Snapshot of \d{4}-\d\d-\d\d \d\d:\d\d UTC", page)


@pytest.mark.parametrize("lesson", WAITING, ids=lambda path: path.stem, indirect=True)
@pytest.mark.trap("T-6")
def test_a_headless_lesson_without_a_policy_ends_with_a_sentence(
    lesson: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = nbformat.read(lesson, 4)
    for name, value in environment(tmp_path / "of").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MEW_LAB_DECIDE", raising=False)
    runner = ExecutePreprocessor(timeout=60, kernel_name="python3")
    with pytest.raises(CellExecutionError) as caught:
        runner.preprocess(book, {"metadata": {"path": str(tmp_path)}})
    assert caught.value.ename == "CannotWait"
    assert "MEW_LAB_DECIDE" in caught.value.evalue
    assert "\n" not in caught.value.evalue


@pytest.mark.slow
def test_the_client_of_a_gate_gets_its_answers_without_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = nbformat.read(GATE, 4)
    for name, value in environment(tmp_path / "of").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MEW_LAB_DECIDE", raising=False)
    ExecutePreprocessor(timeout=60, kernel_name="python3").preprocess(
        book, {"metadata": {"path": str(tmp_path)}}
    )
    (first,) = (cell for cell in cells_of(book, "code") if "display(lab.view.approvals)" in cell.source)
    printed = "".join(output.get("text", "") for output in first.outputs)
    assert "waits for a person's approval" in printed and "no refusal" in printed


@pytest.mark.trap("T-23")
def test_a_saved_lesson_is_whole_and_tells_nothing_of_where_it_was_saved(lesson: Path) -> None:
    text = lesson.read_text(encoding="utf-8")
    book = nbformat.reads(text, 4)
    nbformat.validate(book)
    code = cells_of(book, "code")
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    assert "object at 0x" not in text
    assert "widgets" not in book.metadata  # live state would be preferred to the pictures, and needs a kernel
    assert set(book.metadata) == {"kernelspec", "language_info"}
    assert book.metadata.kernelspec.name == "python3"


def test_a_lesson_is_short_and_quiet(lesson: Path) -> None:
    book = nbformat.read(lesson, 4)
    assert len(book.cells) <= 40
    for cell in cells_of(book, "markdown"):
        assert len(cell.source.split()) <= 90, cell.source
        assert "!" not in cell.source
    assert max(len(cell.source.splitlines()) for cell in cells_of(book, "code")) <= 20


def test_the_first_click_comes_after_few_words_and_cells() -> None:
    cells = nbformat.read(LESSONS[0], 4).cells
    (first,) = [n for n, cell in enumerate(cells) if "lab.view.approvals" in cell.source]
    assert "await p" in cells[first].source  # so "Run all" stops at the card
    assert first + 1 <= 5
    assert sum(len(cell.source.split()) for cell in cells[: first + 1]) <= 150


def test_the_lessons_are_saved_with_real_pictures() -> None:
    pictures = {
        path.name: [
            "".join(output.data["text/html"])
            for cell in cells_of(nbformat.read(path, 4), "code")
            for output in cell.outputs
            if 'class="mew-stored"' in "".join(output.get("data", {}).get("text/html", ""))
        ]
        for path in SPACES
    }
    for name, stored in pictures.items():
        assert stored, name
        assert any("wants to run" in picture for picture in stored), name
        assert not [picture for picture in stored if "anywidget" in picture or " hidden>" in picture], name
    # The first card has nothing to be warned of.
    assert "⚠" not in pictures[LESSONS[0].name][0]


def test_a_lesson_that_reads_a_log_is_saved_with_its_charts() -> None:
    for path in set(LESSONS) - set(SPACES):
        outputs = [
            o.get("data", {}) for cell in cells_of(nbformat.read(path, 4), "code") for o in cell.outputs
        ]
        charts = ["".join(data["image/svg+xml"]) for data in outputs if "image/svg+xml" in data]
        assert len(charts) >= 2, path.name
        assert all("<script" not in chart and "prefers-color-scheme:dark" not in chart for chart in charts)
        both = ["".join(data["text/html"]) for data in outputs if "image/svg+xml" in data]
        assert all("mew-picture" in page for page in both), "as an image, for a page of either theme"


def test_the_reference_tells_of_every_known_coding_agent() -> None:
    page = nbformat.read(ROOT / "notebooks" / "reference" / "agents.ipynb", 4)
    [told] = [cell.source for cell in page.cells if cell.source.startswith("**Coding agents.**")]
    rows = [line for line in told.splitlines() if line.startswith("| `")]
    assert len(rows) == len(AGENTS)
    for row, (name, known) in zip(rows, AGENTS.items(), strict=True):
        package = known.install.split()[-1]
        asks = f"`{known.mode}`" if known.mode else f"set by {', '.join(known.env)}"
        assert row.startswith(f"| `{name}` | `{' '.join(known.command)}` of `{package}` | {asks} |"), row
        assert known.remark in row and row.count(" | ") == 6


def test_the_reference_lists_every_column_of_every_frame() -> None:
    """Written by `python tests/notebooks/make_reference.py`."""
    page = ROOT / "notebooks" / "reference" / "log.ipynb"
    texts = "\n\n".join(cell.source for cell in nbformat.read(page, 4).cells)
    assert describe_frames() in texts
