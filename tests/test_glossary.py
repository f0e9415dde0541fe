"""Every sentence that a person reads says one word for one thing; see `glossary.py`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mew_lab.errors import ConfigError
from mew_lab.protocol.describe import describe, reword_refusal
from mew_lab.protocol.permit import Capability, CapabilitySet

from .glossary import DOCUMENTS, EXCEPTIONS, ON_THE_WIRE, PARTS, TERMS

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mew_lab"
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


def prose_of(text: str) -> str:
    """A text of Markdown without its code: fenced blocks, then what stands within backticks, then addresses of links."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "…", text))


def paragraphs(path: Path) -> Iterator[tuple[str, str]]:
    """The place and the prose of each paragraph of a document; of a notebook, of its texts and its comments in code."""
    if path.suffix != ".ipynb":
        for n, text in enumerate(prose_of(path.read_text(encoding="utf-8")).split("\n\n"), 1):
            yield f"{path.name}, paragraph {n}", text
        return
    for n, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        comments = "\n".join(re.findall(r"(?:^|\s)# (.*)", source))
        yield f"{path.name}, cell {n}", prose_of(source) if cell["cell_type"] == "markdown" else comments


def rivals_in_document(path: Path) -> list[str]:
    return [
        f"{place}: {match[0]!r} where {word!r} is meant: {' '.join(text.split())[:160]}"
        for place, text in paragraphs(path)
        for word, pattern in RIVALS
        if (match := pattern.search(text))
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_uses_another_word(document: str) -> None:
    paths = sorted(ROOT.glob(document))
    assert paths
    assert [found for path in paths for found in rivals_in_document(path)] == []


def test_a_rival_is_found_in_a_document_and_not_in_its_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("A `capability` is code.\n\n```yaml\ncapabilities: []\n```\n\nAn envelope is not.\n")
    book = tmp_path / "book.ipynb"
    cells = [
        {"cell_type": "markdown", "source": ["All\n", "members are here.\n"]},
        {"cell_type": "code", "source": ["members = 2  # the envelope of it\n"]},
    ]
    book.write_text(json.dumps({"cells": cells}))
    found = [*rivals_in_document(page), *rivals_in_document(book)]
    assert [line.partition(" where")[0] for line in found] == [
        "page.md, paragraph 3: 'envelope'",
        "book.ipynb, cell 0: 'members'",
        "book.ipynb, cell 1: 'envelope'",
    ]


@pytest.mark.parametrize("part", PARTS)
def test_no_sentence_of_a_room_uses_another_word(part: str) -> None:
    assert rivals_in(part) == []


# What an error of these rooms may begin with in lower case: a name of Python, of a program or of an option.
CODE_FIRST = ("lab.", "p.result()", "`await p`", "can=", "columns is", "git {", "mew-lab ")
OURS = (
    "MewError",
    "ConfigError",
    "UsageError",
    "LocalProtocolError",
    "CannotWait",
    "NoReply",
    "NoSuchName",
    "NotApproved",
)


def beginnings_of_errors(path: Path) -> Iterator[tuple[int, str]]:
    """The beginning of each sentence that a module raises as an error of ours, with `{}` for a value."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text: ast.AST = node.exc.args[0]
            while isinstance(text, ast.BinOp):
                text = text.left
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            sentence = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
            if ast.unparse(node.exc.func) in OURS and re.search(r"\w ", sentence):
                yield node.lineno, sentence


def errors_in_lower_case(folder: Path) -> list[str]:
    return [
        f"{path.name}:{line}: {sentence[:100]}"
        for path in sorted(folder.rglob("*.py"))
        for line, sentence in beginnings_of_errors(path)
        if sentence[0].islower() and not sentence.startswith(CODE_FIRST)
    ]


@pytest.mark.parametrize("room", ["lab", "notebook", "cli", "views"])
def test_an_error_begins_as_a_sentence(room: str) -> None:
    found = errors_in_lower_case(PACKAGE / room)
    # What follows a colon in another error.
    assert [line for line in found if "edits.py" not in line or "more than one value" not in line] == []


def test_an_error_in_lower_case_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "raise MewError(f'cannot do {1}')\nraise MewError('Cannot do it')\nraise MewError('lab.x is not there')\n"
        "raise ConfigError('a lab ' 'has no x')\nraise ValueError('some name')\nraise MewError(f'{1} is odd')\n"
    )
    found = errors_in_lower_case(tmp_path)
    assert [line.partition(": ")[0] for line in found] == ["a.py:1", "a.py:4"]


COUNTED = (
    "participant message request proposal permission agent tool use row line character byte token call step part match "
    "argument stream file target frame item sequence server restart field warning decision reply answer"
).split()
PLURAL = re.compile(rf"\A (?:more |earlier |past |open )?(?:{'|'.join(COUNTED)})e?s\b")
# The number is a limit, or of things that are never one.
ALWAYS_MANY = re.compile(
    r"\A(?:[A-Z_. ]+|self\._most|limit|n|len\(files\)|len\(set\(to\)\)|len\(hit\[0\]\)|len\(name\)|len\(value\)"
    r"|len\(raw\)|len\(text\)|len\(data\)|len\(line\)|len\(lines\)|len\(longest\)|sum\(map\(len, lines\)\)|size|uses|minutes|most)\Z"
)


def fixed_plurals(path: Path) -> list[str]:
    """Where a number stands before a plural that no `count_of` chose, so that one thing would be "1 things"."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant):
                    number = ast.unparse(value.value)
                    if PLURAL.match(str(text.value)) and not ALWAYS_MANY.match(number):
                        found.append(f"{path.name}:{node.lineno}: {number}{str(text.value)[:40]}")
    return found


@pytest.mark.parametrize("room", ["lab", "notebook", "cli", "views"])
def test_a_number_has_its_noun_in_singular_and_plural(room: str) -> None:
    assert [found for path in sorted((PACKAGE / room).rglob("*.py")) for found in fixed_plurals(path)] == []


def test_a_plural_that_one_thing_would_have_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "a = f'{len(rows)} more rows'\nb = f'{MOST} rows'\nc = f'{rows} of them'\n"
    )
    assert fixed_plurals(tmp_path / "a.py") == ["a.py:1: len(rows) more rows"]


@pytest.mark.parametrize("wire", ON_THE_WIRE)
def test_a_sentence_of_the_wire_reads_in_the_words_of_the_screen(wire: str) -> None:
    assert reword_refusal(wire) == ON_THE_WIRE[wire]
    error = {"error": "invalid_request", "message": wire}
    assert describe("system/error", error) == f"invalid_request: {ON_THE_WIRE[wire]}"
    assert reword_refusal(f"bot said: {wire}") == f"bot said: {wire}"  # within a text of somebody else


@pytest.mark.parametrize(
    "pattern", [["chat"], {}, {"kind": "chat", "payload": []}, {"kind": "chat", "zzz": 1}]
)
def test_what_is_wrong_with_a_permission_reads_in_the_words_of_the_screen(pattern: object) -> None:
    with pytest.raises(ConfigError) as fault:
        Capability.of(pattern)  # type: ignore[arg-type]
    nothing = CapabilitySet([]).permit("chat", [], {}).nearest
    for sentence in (str(fault.value), nothing):
        assert not any(rival.search(reword_refusal(sentence)) for _, rival in RIVALS)
        assert any(rival.search(sentence) for _, rival in RIVALS)


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
