"""Writes the page of the reference that lists the frames of a log, from the table of their columns.

    python tests/notebooks/make_reference.py
"""

from __future__ import annotations

from pathlib import Path

import nbformat

from mew_lab.log.frame_columns import FRAMES, describe_frames

PAGE = Path(__file__).resolve().parents[2] / "notebooks" / "reference" / "log.ipynb"
INTRO = """# The log

`lab.log`, or `mew_lab.open_log(path)` for a file or a folder. `log.df` has a row for each message.

The frames say what became of the messages. `log.requests()` and the others are read in one pass; `print(log.frames)` lists
them, and `print(log.frames["requests"])` shows the columns of one. `log.frame(name, columns)` takes columns of your own.
`int64` and `bool` columns always have a value; `Int64`, `boolean`, numbers and times are missing where it is not known.
`object` columns hold text, `""` where there is none, or tuples. A log that was saved by a participant carries
`frame.attrs["unseen"]`: what it cannot show.

`log.charts` draws `rate()`, `latency()`, `decisions()`, `tokens()` and `talk()`."""


def page() -> str:
    """The page as the text of its file."""
    parts = [INTRO, *describe_frames().split("\n\n**")]
    texts = [parts[0], parts[1], *(f"**{part}" for part in parts[2:])]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text) for text in texts])
    for n, cell in enumerate(book.cells, 1):
        cell["id"] = f"log-{n:02}"
    book.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert len(book.cells) == len(FRAMES) + 1
    return str(nbformat.writes(book)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
