"""Template folders: what they hold, and values that stay values whatever stands in them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.settings.documents import has_comments, read_document
from mew_lab.settings.space_templates import fill_places, find_places, read_space_template

TEMPLATE = """# The space {{NAME}}.
space:
  id: "{{NAME}}"
  name: {{NAME}}
  description: 'of {{NAME}} and {{OTHER}}'
participants:
  bot:
    args: ["--space", "{{NAME}}", {{OTHER}}]
    env:
      CONFIG: '{"prompt": {{NAME_JSON}}, "n": 1}'
      BLOCK: |
        first
        {{OTHER}}
    # Uncomment: {{OTHER}}
"""
HOSTILE = [
    '"\nparticipants: {evil: {command: sh}}\n#',
    "'",
    "it's",
    "a\nb",
    "#",
    ": ",
    "*anchor",
    "&a",
    "!!python/object:os.system",
    "]",
    "{{OTHER}}",
    "{{NAME}}",
    "{{NAME_JSON}}",
    "${HOME}",
    "\\",
    '\\"',
    "\u2028",
    "- x",
    "",
    " ",
    "null",
    "yes",
    "1e3",
    "{a: b}",
]
VALUES = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40),
    st.text("a\n\"'#:{}[]& \t", max_size=20),
)


def meant(name: str, other: str) -> dict[str, Any]:
    """What the template says with these values, written out by hand."""
    config = '{"prompt": ' + json.dumps(name, ensure_ascii=False) + ', "n": 1}'
    return {
        "space": {"id": name, "name": name, "description": f"of {name} and {other}"},
        "participants": {
            "bot": {
                "args": ["--space", name, other],
                "env": {"CONFIG": config, "BLOCK": f"first\n{other}\n"},
            }
        },
    }


@given(name=VALUES, other=VALUES)
@example(name="office", other="desk")
@example(name=HOSTILE[0], other=HOSTILE[0])
def test_a_value_stays_a_value_whatever_stands_in_it(name: str, other: str) -> None:
    filled = fill_places(TEMPLATE, {"NAME": name, "OTHER": other}, path="t")
    document = read_document(filled, path="t")
    expected = meant(name, other)
    assert isinstance(document, dict)
    for place, value in ((document["space"], "name"), (document["participants"]["bot"]["args"], 2)):
        # without quotation marks in the template, a word such as `1` or `yes` means what YAML says
        alone = place[value]
        text = name if value == "name" else other
        assert alone == text or (alone is None and text == "") or json.dumps(alone) == text
        place[value] = text
    assert document == expected


def test_with_harmless_values_the_comments_stay() -> None:
    filled = fill_places(TEMPLATE, {"NAME": "office", "OTHER": "desk"}, path="t")
    assert filled == TEMPLATE.replace("{{NAME_JSON}}", '"office"').replace("{{NAME}}", "office").replace(
        "{{OTHER}}", "desk"
    )
    assert has_comments(filled)
    apostrophe = fill_places("# kept\na: '{\"b\": {{X_JSON}}}'\n", {"X": "don't"}, path="t")
    assert apostrophe == "# kept\na: '{\"b\": \"don''t\"}'\n"


def test_a_place_without_a_variable_is_named() -> None:
    with pytest.raises(
        ConfigError, match="has places for NOBODY, NOTHING, which the template does not define"
    ):
        fill_places("a: {{NAME}} {{NOBODY}} {{NOTHING}} {{NOBODY}}", {"NAME": "x"}, path="t")
    assert find_places("{{A}} {{ B }} {{A}} {{C-D}} {{E_1}}") == ["A", "E_1"]


# --- folders ----------------------------------------------------------------------------------------------------------


def write(folder: Path, described: object = None, space: str = "space: {id: x}\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "space.yaml").write_text(space)
    if described is not None:
        text = described if isinstance(described, str) else json.dumps(described)
        (folder / "template.json").write_text(text)
    return folder


def test_a_folder_is_read_with_its_variables_and_its_programs(tmp_path: Path) -> None:
    listed = [
        {
            "name": "KEY",
            "env_sources": ["A_KEY", "B_KEY"],
            "sensitive": True,
            "required": False,
            "prompt": True,
        },
        {"name": "MODEL", "description": "the model", "default": "m-1", "prompt": True},
        {"name": "PORT", "default": 8080},
        {"name": "NEEDED"},
        {"name": "MUST", "default": "", "required": True},
    ]
    folder = write(tmp_path / "t", {"description": "of a test", "variables": listed})
    (folder / "agents" / "lib").mkdir(parents=True)
    (folder / "agents" / "a.js").write_text("run()")
    (folder / "agents" / "a.js").chmod(0o755)
    (folder / "agents" / "lib" / "b.js").write_text("help()")
    (folder / "README.md").write_text("not copied")
    found = read_space_template(folder)
    assert found.about == "of a test"
    by_name = {variable.name: variable for variable in found.variables}
    assert by_name["SPACE_NAME"].default == "${dirname}"
    assert by_name["KEY"][2:] == ("", ("A_KEY", "B_KEY"), True, True)
    assert by_name["MODEL"][1:] == ("the model", "m-1", (), True, False)
    assert by_name["PORT"].default == "8080"
    assert by_name["NEEDED"].default is None and by_name["MUST"].default is None
    assert {str(path): content for path, content in found.files.items()} == {
        "agents/a.js": (b"run()", True),
        "agents/lib/b.js": (b"help()", False),
    }


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ("[]", "must be a mapping"),
        ("{", "is not the JSON"),
        ({"variables": {}}, "variables must be a list"),
        ({"variables": ["A"]}, r"variables\[0\] must be a mapping with a name"),
        ({"variables": [{"name": "A"}, {"name": "a b"}]}, r"variables\[1\].name must be of letters"),
        ({"variables": [{"name": "A", "default": []}]}, r"variables\[0\] must have a text as default"),
        ({"variables": [{"name": "A", "env_sources": "B"}]}, r"variables\[0\] must have a text as default"),
        ({"variables": [{"name": "A"}] * 201}, "at most 200"),
    ],
)
def test_a_description_with_a_fault_is_a_sentence(tmp_path: Path, described: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_space_template(write(tmp_path / "t", described))


def test_what_is_no_template_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot read the space file of the template .*there is no such file"
    ):
        read_space_template(tmp_path)


@pytest.mark.threat(27)
@pytest.mark.parametrize("to_folder", [True, False])
@pytest.mark.parametrize("name", ["agents", "agents/a.js", "package.json"])
def test_a_link_in_a_template_is_not_followed(tmp_path: Path, name: str, to_folder: bool) -> None:
    (tmp_path / "secret").mkdir() if to_folder else (tmp_path / "secret").write_text("canary")
    folder = write(tmp_path / "t")
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match=f"{name} is not copied: it is a link"):
        read_space_template(folder)


def test_what_is_no_plain_file_or_too_large_is_not_copied(tmp_path: Path) -> None:
    folder = write(tmp_path / "t")
    (folder / "agents").mkdir()
    os.mkfifo(folder / "agents" / "pipe")
    with pytest.raises(ConfigError, match="pipe is not copied: it is a link or no plain file"):
        read_space_template(folder)
    (folder / "agents" / "pipe").unlink()
    (folder / "agents" / "large.js").write_bytes(b"x" * (1 << 20 | 1))
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        read_space_template(folder)
    (folder / "agents" / "large.js").unlink()
    for n in range(201):
        (folder / "agents" / f"{n}.js").touch()
    with pytest.raises(ConfigError, match="more than 200 files"):
        read_space_template(folder)
