"""Runs the lessons and saves them with what they show, the same each time but for clocks and ports.

    python tests/notebooks/make_lessons.py [LESSON …]

Each lesson is run without a person, from a fixed seed, with every proposal approved. The picture of a view in it is the
one of the end of the space, with the cards that were decided. Nothing in the file tells where it was made.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PLACE = "/tmp/lesson"  # what stands in the file in place of the folder in which it was made
IGNORED = "nbval-ignore-output"


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


def stored_pictures(cell: Any) -> list[str]:
    """The pictures of views among the outputs of a cell."""
    texts = ["".join(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", [])]
    return [text for text in texts if 'class="mew-stored"' in text]


def run_lesson(lesson: Path, folder: Path) -> Any:
    """The lesson as it is after a run in this folder; its file stays as it is."""
    book = nbformat.read(lesson, 4)
    work, other = folder / "lesson", folder / "of"
    work.mkdir()
    client = NotebookClient(
        book, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(work)}}
    )
    client.execute(env=environment(other, MEW_LAB_DECIDE="approve", TMPDIR=str(work)))
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        if (
            cell.cell_type == "code"
            and stored_pictures(cell)
            and IGNORED not in cell.metadata.get("tags", [])
        ):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), IGNORED]
    book.metadata.language_info = {"name": "python"}
    book.metadata.pop("widgets", None)
    text = nbformat.writes(book)
    for place in {str(work), str(work.resolve())}:
        text = text.replace(place, PLACE)
    return nbformat.reads(text.replace(sys.executable, f"{PLACE}/.venv/bin/python"), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs the lessons and saves them with what they show.")
    parser.add_argument("lesson", nargs="*", type=Path, default=LESSONS)
    for lesson in parser.parse_args().lesson:
        with tempfile.TemporaryDirectory() as folder:
            book = run_lesson(lesson, Path(folder))
        nbformat.write(book, lesson)
        pictures = sum(len(stored_pictures(cell)) for cell in book.cells)
        print(f"{lesson.name}: {len(book.cells)} cells, {pictures} pictures of views")


if __name__ == "__main__":
    main()
