"""The one safe YAML reader."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mew_lab.errors import ConfigError
from mew_lab.settings.documents import MAX_FILE, read_document, read_file, read_jsonc, read_yaml, write_yaml

from ..conftest import examples


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2026-11-21", "2026-11-21"),
        ("0777", 777),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e3", 1000.0),
        ("true", True),
        ("~", None),
        ("", None),
        ("'3'", "3"),
        ("[1, a]", [1, "a"]),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    found = read_yaml(text)
    assert found == value
    assert type(found) is type(value)


@given(some.text())
def test_any_text_of_json_is_read_as_json_means_it(text: str) -> None:
    assert read_yaml(json.dumps({"a": text})) == {"a": text}


def test_a_merge_key_is_merged() -> None:
    assert read_yaml("x: &b {q: 1}\ny: {<<: *b, z: 2}") == {"x": {"q": 1}, "y": {"q": 1, "z": 2}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2", "line 2, column 1: the key 'a' stands twice"),
        ("1: x", "a key must be text"),
        ("? [a]\n: b", "a key must be text"),
        ("!!str {a: b}: 1", "a key must be text"),
        ("a: &a [*a]", "an alias stands inside what it names"),
        ("- a\n---\n- b", "another document"),
        ("a: [1", "line 1"),
        ("a: 1e999", "too large"),
        (f"a: {'9' * 5000}", "cannot be read"),
        ("!!bool maybe", "does not fit its tag"),
        ("!!float x", "could not convert"),
        ("a: \x00", "unacceptable character"),
    ],
)
def test_what_json_could_not_say_is_refused_with_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, path="space.yaml")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.path == "space.yaml"


@pytest.mark.threat(8)
@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system [true]", "!!binary aGk=", "!!set {a}", "!x y"]
)
def test_no_tag_makes_anything_but_data(tag: str) -> None:
    with pytest.raises(ConfigError, match="tag"):
        read_yaml(f"a: {tag}")


@pytest.mark.threat(8)
def test_lists_of_numbers_stand_side_by_side_and_all_others_line_by_line() -> None:
    value = {"vector": [0.1, -2, 3e22], "words": ["1", "2"], "marks": [True, False], "none": []}
    text = write_yaml(value)
    assert text == "vector: [0.1, -2, 3.0e+22]\nwords:\n- '1'\n- '2'\nmarks:\n- true\n- false\nnone: []\n"
    assert read_yaml(text) == value


@pytest.mark.slow
def test_a_reader_may_allow_more_values() -> None:
    text = f"[{'1, ' * 100_001}]"
    with pytest.raises(ConfigError, match="more than 100000 values"):
        read_yaml(text)
    assert len(read_yaml(text, max_values=200_000)) == 100_001  # type: ignore[arg-type]


def test_a_reader_may_allow_a_larger_file(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"#" * (MAX_FILE + 1))
    assert len(read_file(file, what="agent file", limit=2 * MAX_FILE)) == MAX_FILE + 1
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        read_file(file, what="agent file")


def test_an_alias_bomb_is_refused_before_it_unfolds() -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
    bomb += "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
    with pytest.raises(ConfigError, match="aliases unfold to more than 100000 values"):
        read_yaml(bomb)


@pytest.mark.threat(8)
@pytest.mark.parametrize("depth", [65, 5000])
def test_deep_nesting_is_refused(depth: int) -> None:
    with pytest.raises(ConfigError, match="nested"):
        read_yaml("[" * depth + "]" * depth)


def test_nesting_of_64_levels_is_read() -> None:
    assert read_yaml("[" * 64 + "]" * 64) is not None


TEXTS = some.text(
    some.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=9
) | some.sampled_from(
    [
        "no",
        "on",
        "1e5",
        "0o7",
        "0777",
        "1_000",
        "12:30",
        "~",
        "",
        "null",
        "2001-01-01",
        "=",
        "<<",
        "a\n",
        "\n a",
        "a \nb",
        "---",
        "# a",
        "{x}",
    ]
)
VALUES = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: some.lists(inner) | some.dictionaries(TEXTS, inner),
    max_leaves=8,
)


@settings(max_examples=examples(60), deadline=None)
@given(some.dictionaries(TEXTS, VALUES, min_size=1))
def test_what_is_written_is_read_again_as_it_was(value: dict[str, object]) -> None:
    found = read_yaml(write_yaml(value))
    assert repr(found) == repr(value)


def test_text_of_several_lines_is_written_so_that_a_person_can_read_it() -> None:
    assert (
        write_yaml({"prompt": "Grüß {name}.\n  Be brief.\n"}) == "prompt: |\n  Grüß {name}.\n    Be brief.\n"
    )


def test_what_is_no_data_is_not_written() -> None:
    with pytest.raises(ConfigError, match="cannot be written as YAML"):
        write_yaml({"a": object()})


# --- documents of settings, and their files ---


@settings(max_examples=examples(60), deadline=None)
@given(some.dictionaries(TEXTS, VALUES, min_size=1))
def test_json_and_yaml_of_one_value_are_one_document(value: dict[str, object]) -> None:
    as_json = read_document(json.dumps(value, indent="\t"), path="a.json")
    assert repr(as_json) == repr(value) == repr(read_document(write_yaml(value), path="a.yaml"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "line 1, column 10: the key 'a' stands twice"),
        ('{"a": ' + "[" * 65 + "]" * 65 + "}", "nested more than 64 levels"),
        ('{"a": 1e999}', "line 1, column 7"),
        ('{"a": ', "line 1, column 7"),
    ],
)
def test_json_that_means_two_things_or_none_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_document(text, path="a.json")
    assert words in str(caught.value) and "a.json" in str(caught.value)


@pytest.mark.threat(26)
@pytest.mark.parametrize(
    "text", ["token: *canary", "token: !canary x", "token: &canary x\n b: y", "t: 1e9999"]
)
def test_no_value_of_a_file_of_settings_is_in_its_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml .*line \d, column \d") as caught:
        read_document(text, path="a.yaml")
    assert "canary" not in str(caught.value) and "1e9" not in str(caught.value)


def test_a_file_is_read_up_to_one_mebibyte_and_without_its_mark(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1" + b" " * (MAX_FILE - 7))
    text = read_file(file, what="agent file")
    assert text.startswith("a: 1") and read_document(text, path="a") == {"a": 1}


@pytest.mark.threat(8)
def test_what_cannot_be_read_is_told_with_its_kind_and_name(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"#" * (MAX_FILE + 1))
    (tmp_path / "latin").write_bytes(b"a: \xff")
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (
        ("large", "it is larger than 1 MiB"),
        ("latin", "it is not UTF-8 text"),
        ("pipe", "it is no regular file"),
        ("none", "there is no such file"),
        ("x" * 5000, "there is no such file"),
    ):
        with pytest.raises(ConfigError) as caught:
            read_file(tmp_path / name, what="agent file")
        assert str(caught.value).startswith(f"cannot read the agent file {str(tmp_path)[:200]}")
        assert str(caught.value).endswith(reason) and len(str(caught.value)) < 400
    with pytest.raises(ConfigError, match=r"no such file"):
        read_file("a\0b\n", what="agent file")


# --- JSON with comments ---


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            '{"a": 1, // one\n "b": "// no", /* two\n lines */ "c": [1, 2,],}',
            {"a": 1, "b": "// no", "c": [1, 2]},
        ),
        ('{"a": "x,}", "b": "\\"/*", "c": "\\\\"}', {"a": "x,}", "b": '"/*', "c": "\\"}),
        ("// c\n[\n]\n//", []),
        ("1", 1),
    ],
)
def test_comments_and_last_commas_are_passed_over(text: str, value: object) -> None:
    assert read_jsonc(text, path="f") == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, /* b */ "a": 2}', "the key 'a' stands twice in one mapping"),
        ('{\n/* x\n*/ "a": canary}', "line 3, column 9"),
        ("/* no end", "line 1, column 10: Expecting value"),
        ('{"a": "canary', "Unterminated string"),
        ('{"a": 1e999}', "too large"),
        ('{"a": NaN}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too many digits"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 80 + "]" * 80, "nested too deeply"),
    ],
)
def test_a_fault_of_such_a_text_has_its_place_and_no_value(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_jsonc(text, path="f")
    assert why in str(caught.value) and "canary" not in str(caught.value)


@given(
    some.recursive(
        some.none() | some.booleans() | some.integers() | some.text(),
        lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    )
)
def test_plain_json_keeps_its_meaning(value: object) -> None:
    assert read_jsonc(json.dumps(value), path="f") == value
    assert read_jsonc(json.dumps(value, ensure_ascii=False, indent=1), path="f") == value


@pytest.mark.parametrize("piece", ['\\"', "/*", "//", '"\\', ", ", '{"a":"'])
def test_a_megabyte_of_openings_takes_no_quadratic_time(piece: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError):
        read_jsonc(piece * (1024 * 1024 // len(piece)), path="f")
    assert time.process_time() - began < 10
