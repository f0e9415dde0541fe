"""A space's folder has a name that every system takes, and no two spaces share one."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.protocol.filename import folder_name, is_plain, is_space_id

ODD = [
    "a/b",
    "a\\b",
    "..",
    ".",
    "{{NAME}}",
    "CON",
    "nul.txt",
    "com1",
    "dot.",
    "-rf",
    "ü",
    "two words",
    "C:",
    "a" * 65,
]


@pytest.mark.threat(27)
@pytest.mark.ruling("R27")
@pytest.mark.parametrize("space", ODD)
def test_what_cannot_be_a_file_name_gives_another_and_is_a_space_id_all_the_same(space: str) -> None:
    assert is_space_id(space)
    assert not is_plain(space)
    assert set(folder_name(space)) <= set(string.ascii_lowercase + string.digits + "_-")
    assert len(folder_name(space)) < 64


@pytest.mark.ruling("R27")
@pytest.mark.parametrize("space", ["demo", "Demo", "a.b-c_d", "7", "x" * 64, "space-" + "0" * 32])
def test_a_plain_name_stays(space: str) -> None:
    assert folder_name(space) == space


@pytest.mark.ruling("R27")
def test_a_plain_name_that_differs_in_case_alone_from_one_that_is_there_gets_another() -> None:
    assert folder_name("demo", among=["Demo"]) not in ("demo", "Demo")
    assert folder_name("demo", among=["Demo", "demo"]) == "demo"
    assert folder_name("Demo", among=["other"]) == "Demo"


@pytest.mark.ruling("R27")
@pytest.mark.parametrize("text", ["", "a\nb", "a\x1b[31m", "a\x00", "\x9b", "\u2028", "x" * 129, "\ud800"])
def test_nothing_empty_long_or_with_control_characters_is_a_space_id(text: str) -> None:
    assert not is_space_id(text)


@pytest.mark.threat(27)
@pytest.mark.ruling("R27")
@given(st.lists(st.text(min_size=1, max_size=128), min_size=2, max_size=6, unique=True))
def test_no_two_spaces_share_a_folder_even_where_case_does_not_count(spaces: list[str]) -> None:
    folders: list[str] = []
    for space in spaces:
        name = folder_name(space, among=folders)
        assert name.casefold() not in {one.casefold() for one in folders if one != name}
        assert name not in folders or name == space
        folders.append(name)
    assert len({one.casefold() for one in folders}) == len(spaces)
