"""Every sentence that a person reads says one word for one thing; see `glossary.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .glossary import EXCEPTIONS, PARTS, TERMS

PACKAGE = Path(__file__).parents[1] / "mew_lab"
SENTENCE = re.compile(r"[A-Za-z’']{2,}[,;:.]? +[A-Za-z“\"'{]|[a-z]{2,}\s*$")
RIVALS = [(term.word, re.compile(rf"\b(?:{term.rivals})\b", re.IGNORECASE)) for term in TERMS if term.rivals]


def python_strings(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module with their lines; docstrings are for developers and left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


# A comment, a regular expression where a value may begin, or a string; what is found first at a place counts.
_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?<=[(,=:!&|?{;\[])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+/[a-z]*"""
    r"""|"((?:\\.|[^"\\\n])*)"|'((?:\\.|[^'\\\n])*)'|`((?:\\.|[^`\\])*)`""",
    re.DOTALL,
)


def script_strings(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module of JavaScript with their lines; what stands within `${}` is left out."""
    text = path.read_text(encoding="utf-8")
    for match in _TOKENS.finditer(text):
        if (found := next((group for group in match.groups() if group is not None), None)) is not None:
            yield text.count("\n", 0, match.start()) + 1, re.sub(r"\$\{[^{}]*\}", "…", found)


def sentences(part: str) -> Iterator[tuple[str, str]]:
    """The place and the text of each string of a room that has several words."""
    folder = PACKAGE / part
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.js")]):
        read = python_strings if path.suffix == ".py" else script_strings
        for line, text in read(path):
            if " " in text.strip() and SENTENCE.search(text) and not looks_like_style(text):
                yield f"{path.relative_to(PACKAGE)}:{line}", text


def looks_like_style(text: str) -> bool:
    """Whether a text is CSS, or a list of its classes."""
    return ("{" in text and "}" in text and ":" in text and ";" in text) or bool(
        re.fullmatch(r"[\w -]*mew-[\w -]*", text)
    )


def rivals_in(part: str) -> list[str]:
    return [
        f"{place}: {match[0]!r} where {word!r} is meant: {' '.join(text.split())[:160]}"
        for place, text in sentences(part)
        if not any(known in text for known in EXCEPTIONS)
        for word, pattern in RIVALS
        if (match := pattern.search(text))
    ]


@pytest.mark.parametrize("part", PARTS)
def test_no_sentence_of_a_room_uses_another_word(part: str) -> None:
    assert rivals_in(part) == []


def test_each_exception_is_still_needed() -> None:
    said = [text for part in ("lab", "notebook", "cli", "views") for _, text in sentences(part)]
    assert {known for known in EXCEPTIONS if not any(known in text for text in said)} == set()


def test_the_page_of_words_is_complete_and_each_meaning_is_a_sentence() -> None:
    assert [term.word for term in TERMS] == [
        "space", "participant", "message", "request", "proposal", "approve", "reject", "permission",
    ]  # fmt: skip
    for term in TERMS:
        assert term.meaning[0].isupper() and term.meaning.endswith(".")
        assert not re.search(rf"\b(?:{term.rivals})\b", term.word) if term.rivals else True


def test_a_rival_is_found_in_python_and_in_javascript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.test_glossary.PACKAGE", tmp_path)
    room = tmp_path / "room"
    room.mkdir()
    (room / "a.py").write_text(
        '"""All members, in a docstring."""\nx = f"{1} members are here"\ny = {"members": 1}\n'
    )
    (room / "b.js").write_text(
        "// the members of a comment\nconst a = /['\"] members of/;\nmake(`It was fulfilled by ${name}`);\n"
        "const url = 'grants'; say(\"No grant is in force\"); at('mew-members is-here');\n"
    )
    found = rivals_in("room")
    assert [line.partition(" where")[0] for line in found] == [
        "room/a.py:2: 'members'",
        "room/b.js:3: 'fulfilled'",
        "room/b.js:4: 'No grant'",
    ]
