"""No test sleeps a fixed time: it waits for a condition, with a deadline. What has to last a while says why beside it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
NAMES = {"sleep", "pause", "wait_for_timeout"}  # `pause` of a page, not of what is paused
# Less than the former is how often a condition is looked at; nobody waits for the latter: it stands for "never".
LOOK, NEVER = 0.05, 60.0
REASON = re.compile(r"# .*\w{3}")
# How many each room still has, where nothing beside them says why. They get fewer; a new one is a fault.
LEFT = {"agent": 1, "bridge": 7, "gateway": 1, "lab": 2}


def constants(tree: ast.Module) -> dict[str, float]:
    """The numbers that a module names."""
    return {
        target.id: float(node.value.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, int | float)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def name_of(node: ast.AST | None) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def fixed_sleeps(path: Path) -> Iterator[int]:
    """The lines where a module sleeps so many seconds, in no loop that looks at a condition, and without a reason."""
    text = path.read_text(encoding="utf-8")
    if not any(f"{name}(" in text for name in NAMES):  # most modules; to parse all takes long
        return iter(())
    tree, lines = ast.parse(text), text.split("\n")
    named = constants(tree)

    def seconds(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return float(node.value)
        return named.get(node.id, 0.0) if isinstance(node, ast.Name) else 0.0

    def walk(node: ast.AST, *, looks: bool) -> Iterator[int]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call) and child.args and not looks:
                name, owner = name_of(child.func), name_of(getattr(child.func, "value", None))
                unit = 0.001 if name == "wait_for_timeout" else 1.0
                known = name in NAMES and (name != "pause" or owner in ("", "page"))
                if known and LOOK < seconds(child.args[0]) * unit < NEVER:
                    beside = lines[child.lineno - 1], lines[child.lineno - 2]
                    if not any(REASON.search(line) for line in beside):
                        yield child.lineno
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from walk(child, looks=isinstance(child, ast.While) or (looks and not function))

    return walk(tree, looks=False)


def test_nothing_sleeps_a_fixed_time_without_a_reason_beside_it() -> None:
    found = [
        f"{path.relative_to(HERE).as_posix()}:{line}"
        for path in sorted(HERE.rglob("*.py"))
        if not path.relative_to(HERE)
        .parts[0]
        .startswith(".")  # kernels of other versions, installed by tests
        for line in fixed_sleeps(path)
    ]
    rooms = Counter(place.split("/")[0] for place in found)
    assert {room for room, count in rooms.items() if count > LEFT.get(room, 0)} == set(), "\n".join(found)


def test_a_fixed_sleep_is_found_and_no_other(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import time\nLONG = 2\n"
        "def a():\n    time.sleep(0.5)\n    time.sleep(LONG)\n    time.sleep(0.05)\n    time.sleep(3600)\n"
        "def b():\n    while not done():\n        time.sleep(0.2)\n    for _ in range(9):\n        page.pause(0.3)\n"
        "def c():\n    # A press takes as long.\n    time.sleep(0.5)\n    time.sleep(0.5)  # nothing is to happen\n"
        "def d():\n    while True:\n        def e(): tab.wait_for_timeout(300)\n"
    )
    assert list(fixed_sleeps(module)) == [4, 5, 12, 19]
