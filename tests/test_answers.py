"""Every public answer to a yes-no question has the truth value of its answer, so that `if answer:` means what it says."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import mew_lab
from mew_lab.log.verification import Verification
from mew_lab.protocol.covers import Coverage
from mew_lab.protocol.permit import Verdict
from mew_lab.space.events import Enrolled, Joined, Received

from .log.stage import Stage, keep

ROOT = Path(mew_lab.__file__).parent
YES_NO = ("allowed", "ok", "answer", "intact", "valid", "fits")
"""The members by which an answer says yes or no."""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of the package, and the public methods and properties of its public classes."""
    for name in mew_lab.__all__:
        thing = getattr(mew_lab, name)
        if inspect.isfunction(thing):
            yield name, thing
        for key, member in inspect.getmembers_static(thing) if inspect.isclass(thing) else ():
            function = member.fget if isinstance(member, property) else member
            function = getattr(function, "__func__", function)
            if not key.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{key}", function


def homes() -> dict[str, str]:
    """The module of each class of the package; each name stands once."""
    return {
        node.name: ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        for path in ROOT.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }


def says(kind: type, member: str) -> bool:
    """Whether a member of a class is a yes or a no."""
    value = inspect.getattr_static(kind, member, None)
    if isinstance(value, property) and value.fget is not None:
        return value.fget.__annotations__.get("return") == "bool"
    return str(getattr(kind, "__annotations__", {}).get(member, "")).startswith(("bool", "OneOf["))


def answers() -> dict[type, str]:
    """The classes of answers, each with the name of a function that returns it."""
    found: dict[type, str] = {}
    known = homes()
    for name, function in functions():
        returned = re.findall(r"\w+", str(function.__annotations__.get("return", "")))
        for word in known.keys() & set(returned):
            kind = getattr(import_module(known[word]), word)
            if any(says(kind, member) for member in YES_NO):
                found.setdefault(kind, name)
    return found


def test_each_answer_has_a_truth_value_of_its_own() -> None:
    found = answers()
    assert {Verdict, Coverage, Verification} <= found.keys()
    assert {name for kind, name in found.items() if "__bool__" not in vars(kind)} == set()


@pytest.mark.parametrize("kind", ["chat", "mcp/request"])
def test_a_permit_is_true_where_it_permits(kind: str) -> None:
    verdict = mew_lab.permit([{"kind": "chat"}], kind)
    assert bool(verdict) is verdict.allowed is (kind == "chat")


@pytest.mark.parametrize("wanted", ["chat", "mcp/request"])
def test_covers_is_true_where_it_covers(wanted: str) -> None:
    coverage = mew_lab.covers({"kind": "chat"}, {"kind": wanted})
    assert bool(coverage) is (coverage.answer == "yes") is (wanted == "chat")


@pytest.mark.parametrize("harm", [False, True])
def test_a_verification_is_true_where_it_finds_no_flaw(harm: bool, tmp_path: Path) -> None:
    stage = Stage().play(
        Enrolled("anna", ({"kind": "chat"},)),
        Joined("c1", "anna", "anna", "memory"),
        Received('{"id":"m1","kind":"chat","payload":{"text":"hello"}}', "c1"),
    )
    path = keep(stage.records, tmp_path / "j.jsonl")
    if harm:
        path.write_bytes(path.read_bytes().replace(b"hello", b"hallo"))
    verification = mew_lab.open_log(path).verify()
    assert bool(verification) is verification.ok is (not harm)
