"""Each place where a person may write a pattern names the page that explains them, and that page says what is so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from mew_lab.cli import build_parser
from mew_lab.errors import MewError
from mew_lab.gateway.space_file import read_space_file
from mew_lab.lab.decisions.grant_probe import read_pattern
from mew_lab.lab.lab import Lab
from mew_lab.notebook.commands import COMMANDS, command_help
from mew_lab.protocol.profiles import SEE
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.tools_agent.agent_file import read_agent_file

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / SEE.partition(": ")[2]
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in PAGE.parent.glob("*.ipynb") if path != PAGE}
BAD = {"kind": "mcp/request", "paylod": {}}
# Fields for a pattern, each with the module that makes it.
FIELDS = {
    "Pattern as JSON": "grants/view.js",
    "Supposed pattern as JSON": "grants/playground.js",
    "permissions, a JSON list": "roster/view.js",
    "The permission that is given": "approvals/cards.js",
}


def write(folder: Path, text: str) -> Path:
    path = folder / "file.yaml"
    path.write_text(text, encoding="utf-8")
    return path


AGENT = """
metadata:
  name: a
  tools:
    - {name: t, description: d, prompt: p, parameters: {type: object}, callers: [{id: b, payload: {a: "/(/"}}]}
"""
WRITTEN: dict[str, Callable[[Lab, Path], Any]] = {
    "lab.join": lambda lab, folder: lab.join("x", can=[BAD]),
    "lab.enrol": lambda lab, folder: lab.enrol("x", can=[BAD]),
    "lab.granting": lambda lab, folder: lab.me.run(lab.granting.grant("bot", [BAD])),
    "log.what_if": lambda lab, folder: lab.log.what_if(more={"human": [BAD]}),
    "a view": lambda lab, folder: read_pattern(json.dumps(BAD)),
    "what a view gets that is no JSON": lambda lab, folder: read_pattern("{"),
    "what a view gets that is no object": lambda lab, folder: read_pattern("[]"),
    "a participant": lambda lab, folder: MEWParticipant(
        gateway="ws://localhost:1", space="s", token="t" * 20, capabilities=[BAD]
    ),
    "a space.yaml": lambda lab, folder: read_space_file(
        write(folder, f"space: {{id: s}}\nparticipants: {{x: {{capabilities: [{json.dumps(BAD)}]}}}}\n")
    ),
    "an agent file": lambda lab, folder: read_agent_file(write(folder, AGENT)),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    import mew_lab

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("lab"))
        lab = mew_lab.up(journal=None)
        yield lab
        lab.down()


@pytest.mark.parametrize("place", WRITTEN)
def test_an_error_about_a_pattern_names_the_page(place: str, lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(MewError) as caught:
        WRITTEN[place](lab, tmp_path)
    assert str(caught.value).count(SEE) == 1
    assert "?." not in str(caught.value) and ".. " not in str(caught.value)


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_for_a_pattern_names_the_page(field: str) -> None:
    words = (ROOT / "mew_lab/views/ui/text.js").read_text(encoding="utf-8")
    assert re.findall(r'PATTERN_HELP = "(.*)"', words) == [SEE]
    module = (ROOT / "mew_lab/views" / FIELDS[field]).read_text(encoding="utf-8")
    assert f'"{field}"' in module
    assert module.count("PATTERN_HELP") == 2  # imported, and shown


def test_there_is_no_other_field_for_a_pattern() -> None:
    found = set()
    for path in (ROOT / "mew_lab/views").rglob("*.js"):
        labels = re.findall(r'"aria-label": "([^"]*)"', path.read_text(encoding="utf-8"))
        found |= {
            (label, path.parent.name)
            for label in labels
            if re.search("pattern|permissions?, a JSON", label, re.I)
        }
    fields = {(field, FIELDS[field].partition("/")[0]) for field in FIELDS}
    assert found == {one for one in fields if one[0] != "The permission that is given"}


def test_the_help_on_each_command_that_takes_a_profile_names_the_page() -> None:
    takes = [
        name
        for name, command in COMMANDS.items()
        if any(option.names == "profile" for option in command.options)
    ]
    assert {"bridge", "join", "agent"} <= set(takes)
    for name in COMMANDS:
        assert (SEE in str(command_help(name))) == (name in takes), name
    serve = build_parser()._subparsers._group_actions[0].choices["serve"].format_help()  # type: ignore[union-attr, index]
    assert SEE in re.sub(r"\s+", " ", serve)


def test_each_page_that_tells_of_patterns_names_theirs() -> None:
    tells = {
        name
        for name, text in PAGES.items()
        if re.search("capabilities|pattern as in|pattern of messages", text)
    }
    assert tells >= {"spaces", "agents", "log", "protection"}
    for name in tells | {"views"}:
        assert "`patterns`" in PAGES[name], name
    assert f"({SEE.partition(': ')[2]})" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_cell_of_the_page_prints_what_is_saved() -> None:
    (cell,) = (cell for cell in nbformat.read(PAGE, 4).cells if cell.cell_type == "code")
    command = [sys.executable, "-c", cell.source]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == cell.outputs[0].text
    assert "Refused: " in cell.outputs[0].text


def test_each_row_of_the_page_matches_as_it_says() -> None:
    """The rows of its table by examples that stand in it, or follow from its words."""
    from mew_lab import permit

    def holds(pattern: Any, value: Any) -> bool:
        return bool(permit([{"kind": "k", "payload": {"a": pattern}}], "k", payload={"a": value}))

    (table,) = (
        cell.source for cell in nbformat.read(PAGE, 4).cells if "| written | matches |" in cell.source
    )
    rows = re.findall(r"^\| (.*?) \| .* \|$", table, re.M)[1:]
    examples: dict[str, list[tuple[Any, list[Any], list[Any]]]] = {
        "`tools/call`": [("tools/call", ["tools/call"], ["tools/list", "tools/call/"])],
        "`read_*`, `?`, `**`": [
            ("read_*", ["read_x"], ["read_a/b"]),
            ("?", ["a"], ["ab", "/"]),
            ("**", ["a/b"], [5]),
        ],
        "`*` alone": [("*", ["a/b", ""], [5])],
        "`!delete_*`": [("!delete_*", ["read"], ["delete_x", None])],
        "`/get_.*/`": [("/get_.*/", ["get_a"], ["forget_a"])],
        "`5`, `true`, `null`": [(5, [5, 5.0], ["5", True]), (True, [True], [1]), (None, [None], [0, ""])],
        '`{path: "src/*"}`': [({"path": "src/*"}, [{"path": "src/a", "b": 1}], [{}, {"path": "a"}])],
        "the keys `arg*`, `**`, `$.a.b`": [
            ({"arg*": "x"}, [{"arg1": "x", "arg2": "y"}], [{"b": "x"}]),
            ({"**": "x"}, [{"a": {"b": "x"}}], [{"a": "y"}]),
            ({"$.a.b": "x"}, [{"a": {"b": "x"}}], [{"b": "x"}]),
        ],
    }
    assert [row for row in rows if row != "---"] == list(examples)
    for cases in examples.values():
        for pattern, yes, no in cases:
            assert all(holds(pattern, value) for value in yes), pattern
            assert not any(holds(pattern, value) for value in no), pattern
