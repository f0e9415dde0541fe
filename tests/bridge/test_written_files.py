"""What a call would change in a file: which files are looked at, how lines are compared, and what is left out."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.secrets import hide_in_lines
from mew_lab.bridge.written_files import MAX_BYTES, MAX_LINES, FileDiff, FileWrite, compare_file, find_write
from mew_lab.errors import ConfigError

pytestmark = pytest.mark.threat(14, 28)


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    """A folder that was given to a server, beside one that was not."""
    (tmp_path / "garden" / "notes").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "ledger.txt").write_text("the orchid ledger\n")
    (tmp_path / "garden" / "plan.txt").write_text("beans\npeas\n")
    return tmp_path / "garden"


def write(garden: Path, path: str, content: str | None = "beans\nleeks\n", **more: Any) -> FileWrite:
    return FileWrite(path=path, content=content, roots=(garden,), base=garden, **more)


def edit(garden: Path, *edits: tuple[str, str]) -> FileDiff:
    return compare_file(write(garden, "plan.txt", None, edits=edits))


def test_a_file_is_compared_line_by_line_and_identified_by_its_hash(garden: Path) -> None:
    diff = compare_file(write(garden, "plan.txt"))
    assert diff.rows == ((" ", "beans"), ("-", "peas"), ("+", "leeks"))
    assert (diff.added, diff.removed, diff.why) == (1, 1, "")
    assert diff.place == "plan.txt inside garden/"
    assert diff.receipt == {
        "path": str(garden / "plan.txt"),
        "size": 11,
        "sha256": sha256(b"beans\npeas\n").hexdigest(),
    }
    (garden / "plan.txt").write_text("beans\npeas\n\n")
    assert compare_file(write(garden, "plan.txt")).stamp != diff.stamp


def _link(garden: Path) -> str:
    (garden / "plan2.txt").symlink_to(garden.parent / "private" / "ledger.txt")
    return "plan2.txt"


def _linked_folder(garden: Path) -> str:
    (garden / "more").symlink_to(garden.parent / "private")
    return "more/ledger.txt"


def _pipe(garden: Path) -> str:
    os.mkfifo(garden / "pipe")
    return "pipe"


def _long(garden: Path) -> str:
    (garden / "long.txt").write_bytes(b"orchid " * (MAX_BYTES // 7 + 1))
    return "long.txt"


def _many(garden: Path) -> str:
    (garden / "many.txt").write_text("orchid\n" * MAX_LINES)
    return "many.txt"


def _bytes(garden: Path) -> str:
    (garden / "latin.txt").write_bytes(b"orchid \xe9\n")
    return "latin.txt"


def _kept(garden: Path) -> str:
    (garden / ".mew").mkdir()
    (garden / ".mew" / "human.token").write_text("orchid")
    return ".mew/human.token"


def _respelt(garden: Path) -> str:
    (garden / "caf\u00e9.txt").write_text("orchid")
    return "cafe\u0301.txt"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (_link, "it is a link"),
        (_linked_folder, "there is a link on the way"),
        (_pipe, "it is no regular file"),
        (_long, "too long to be compared"),
        (_many, "5,000 lines, too many"),
        (_bytes, "no text in UTF-8"),
        (_kept, "what .mew holds is not shown"),
        (lambda garden: ".MEW/human.token", "what .mew holds is not shown"),
        (_respelt, "one that reads alike"),
        (lambda garden: "notes", "it is a folder"),
        (lambda garden: "notes/../plan.txt", "the path has “..”"),
        (lambda garden: str(garden.parent / "private" / "ledger.txt"), "in no folder that was given"),
        (lambda garden: f"{garden}-of-another/plan.txt", "in no folder that was given"),
        (lambda garden: str(garden), "the path is a folder"),
        (lambda garden: "~/plan.txt", "not a plain one"),
        (lambda garden: "plan.txt\0", "not a plain one"),
        (lambda garden: "x" * 300, "File name too long"),
        (lambda garden: "\ud800.txt", "the old content is not known here"),
    ],
)
def test_nothing_but_a_plain_text_below_the_given_folder_is_read(
    garden: Path, path: Callable[[Path], str], why: str
) -> None:
    diff = compare_file(write(garden, path(garden), "new"))
    assert why in diff.why and diff.rows == () and diff.added is None
    assert "orchid" not in repr(diff)


def test_a_given_folder_that_is_a_link_itself_is_the_folder_to_which_it_leads(garden: Path) -> None:
    here = garden.parent / "here"
    here.symlink_to(garden)
    assert compare_file(write(here, str(here / "plan.txt"))).added == 1
    assert compare_file(write(here, str(garden / "plan.txt"))).added == 1


def test_a_new_file_is_said_to_be_one(garden: Path) -> None:
    diff = compare_file(write(garden, "notes/new.txt", "a\nb"))
    assert diff.is_new and diff.added == 2 and diff.size is None and "no such file yet" in diff.why


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([("peas", "leeks")], [(" ", "beans"), ("-", "peas"), ("+", "leeks")]),
        ([("peas", "leeks"), ("leeks\n", "")], [(" ", "beans"), ("-", "peas")]),
        ([("onions", "leeks")], "edit 1 is not there exactly"),
        ([("beans", "peas"), ("peas", "leeks")], "edit 2 occurs more than once"),
        ([("e", "i")], "edit 1 occurs more than once"),
        ([("", "x")], "edit 1 is empty"),
        ([("  beans", "leeks")], "edit 1 is not there exactly"),
    ],
)
def test_an_edit_is_computed_only_where_its_old_text_stands_once(
    garden: Path, edits: list[tuple[str, str]], expected: str | list[tuple[str, str]]
) -> None:
    diff = edit(garden, *edits)
    if isinstance(expected, str):
        assert expected in diff.why and "result not computed" in diff.why and diff.rows == ()
    else:
        assert list(diff.rows) == expected


def test_the_difference_rebuilds_the_new_text_from_the_old_one(garden: Path) -> None:
    draw = random.Random(39)
    for _ in range(300):
        old, new = (
            [f"{draw.choice('abcdefgh')}{draw.randrange(9)}" for _ in range(draw.randrange(40))] for _ in "12"
        )
        if draw.random() < 0.5:
            new = [line for line in old if draw.random() < 0.9]
        (garden / "plan.txt").write_text("\n".join(old))
        diff = compare_file(write(garden, "plan.txt", "\n".join(new)))
        left, made = iter((garden / "plan.txt").read_text().split("\n")), []
        for sign, line in diff.rows:
            if sign == "+":
                made.append(line)
            elif sign == "…":
                count = int(line.split()[0]) if line.endswith(("equal line", "equal lines")) else 0
                made += [next(left) for _ in range(count)]
            else:
                same = next(left)
                assert same == line
                made += [same] if sign == " " else []
        if diff.rows:
            assert made == new or (new == [] and made == [])
        else:
            assert "\n".join(old) == "\n".join(new)


@pytest.mark.parametrize(
    "line",
    [
        lambda n: "x",
        lambda n: "xy"[n % 2],
        lambda n: str(n % 50),
        lambda n: str(-n),
        lambda n: "\t" * (n % 7),
    ],
)
def test_any_text_is_compared_in_bounded_time(garden: Path, line: Callable[[int], str]) -> None:
    (garden / "plan.txt").write_text("".join(f"{line(n)}\n" for n in range(MAX_LINES - 1)))
    new = "begin\n" + "".join(f"{line(n * 7)}\n" for n in range(MAX_LINES - 9)) + "end"
    began = time.monotonic()
    diff = compare_file(write(garden, "plan.txt", new))
    assert time.monotonic() - began < 5 and diff.added is not None


def test_secrets_in_the_old_file_are_masked_in_each_line_that_shows_it(garden: Path) -> None:
    (garden / "plan.txt").write_text(
        "api_key = 'abc123xyz'\npassword: orchid99\nurl=https://ada:orchid@example.org/\n"
        "-----BEGIN RSA PRIVATE KEY-----\norchid\n-----END RSA PRIVATE KEY-----\nAKIAABCDEFGHIJKLMNOP\nbeans\n"
    )
    diff = compare_file(write(garden, "plan.txt", (garden / "plan.txt").read_text().replace("beans", "peas")))
    shown = repr(compare_file(write(garden, "plan.txt", "peas\n")).rows) + repr(diff.rows)
    assert "orchid" not in shown and "abc123" not in shown and "AKIA" not in shown
    assert diff.rows[-1] == ("+", "peas")


@pytest.mark.parametrize(
    "line",
    ["token = parse(text)", "tokens: list[str]", "the password is asked for", "sha256:0123456789abcdef0123"],
)
def test_code_and_prose_are_not_masked(line: str) -> None:
    assert hide_in_lines([line]) == [line]


def test_the_tools_of_an_owner_and_those_of_known_servers_are_told_apart_from_others(garden: Path) -> None:
    bridge = McpBridge("notes", ["python", "-c", ""], cwd=garden, writes={"save": ("to", "text")})
    found = bridge.find_write("save", {"to": "plan.txt", "text": "beans\n"})
    assert found is not None and compare_file(found).removed == 1 and found.arguments == ("text",)
    assert bridge.find_write("save", {"to": 3, "text": "x"}) is None
    assert bridge.find_write("write_file", {"path": "plan.txt", "content": "x"}) is None
    elsewhere = find_write("write_file", {"path": "plan.txt", "content": "x"})
    assert elsewhere is not None and elsewhere.why == "the old content is not known here"
    assert compare_file(elsewhere).why == elsewhere.why
    assert find_write("edit_file", {"path": "a", "edits": [], "dryRun": True}) is None
    with pytest.raises(ConfigError, match="started here"):
        McpBridge("notes", "https://example.org/mcp", writes={"save": ("path", "content")})
    for wrong in ("path", ("path",), ("path", 3), ("", "content")):
        with pytest.raises(ConfigError, match="names of two arguments"):
            McpBridge("notes", ["python"], writes={"save": wrong})  # type: ignore[dict-item]


def test_a_relative_path_of_a_server_with_several_folders_is_of_none(garden: Path) -> None:
    assert "has no folder or several" in compare_file(replace(write(garden, "plan.txt"), base=None)).why
