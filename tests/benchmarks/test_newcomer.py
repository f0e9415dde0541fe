"""What the newcomer's path counts, without a browser."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import newcomer


def test_what_stands_before_the_first_click_is_counted(tmp_path: Path) -> None:
    cells = [
        ("markdown", "# Two words"),
        ("code", "%load_ext mew_lab"),
        ("markdown", "Three more words."),
        ("code", "print(await p)"),
        ("markdown", "Not counted."),
        ("code", "await p"),
    ]
    lesson = tmp_path / "lesson.ipynb"
    lesson.write_text(json.dumps({"cells": [{"cell_type": kind, "source": [text]} for kind, text in cells]}))
    assert newcomer.read_lesson(lesson) == (6, 4, 2, 4, 3)


def test_the_first_lesson_is_read_within_ninety_seconds() -> None:
    root = Path(__file__).resolve().parents[2]
    before = newcomer.read_lesson(root / newcomer.LESSON)
    assert before.text / newcomer.WORDS_A_MINUTE * 60 <= 90
    assert before.text + before.code <= 150 and before.cells <= 5
    assert newcomer.read_front(root / "README.md") + before.text <= newcomer.MOST_WORDS
