"""Would the tests notice if the space were wrong?  Makes it wrong in one place at a time, and runs them.

    python tests/mutate.py                 20 mutants of mew_lab/space/, drawn by a seed that is printed
    python tests/mutate.py --seed 7        the same ones again
    python tests/mutate.py --list          every place that could be changed, and how

A mutant is one change in one syntax tree: a comparison turned round, a condition negated, `and` for `or`, a `not`
dropped, a statement left out, another constant, nothing returned. What a reader alone would notice is left alone:
docstrings, sentences of refusals, annotations, how much of a foreign text a sentence quotes.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROOM = "mew_lab/space"
# What a run in a copy of the tree needs beside the package.
COPIED = (
    "mew_lab",
    "tests/space",
    "tests/protocol",
    "tests/conversations",
    *(
        f"tests/{path.name}"
        for path in Path(__file__).parent.glob("*.py")
        if not path.name.startswith("test_")
    ),
    "pyproject.toml",
)
SECONDS = 240  # a mutant that is not done by then hangs, and is caught

_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_WORD = re.compile(r"[a-z0-9_/:.*<>-]{2,}", re.ASCII)  # kinds, keys, codes: no sentence
_UNTOUCHED = {"__all__", "__slots__"}


class Mutant(NamedTuple):
    """One change: where, what, and the text of the module with it."""

    module: str
    line: int
    what: str
    source: str


class _Changer(ast.NodeTransformer):
    """Counts the places that can be changed, and changes the one whose number it was given."""

    def __init__(self, target: int = -1) -> None:
        self.target = target
        self.places: list[tuple[int, str]] = []

    def _here(self, node: ast.AST, what: str) -> bool:
        self.places.append((getattr(node, "lineno", 0), what))
        return len(self.places) - 1 == self.target

    # --- what is left alone ---

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [self.visit(one) if one else None for one in node.args.kw_defaults]
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if any(isinstance(one, ast.Name) and one.id in _UNTOUCHED for one in node.targets):
            return node
        node.value = self.visit(node.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_Slice(self, node: ast.Slice) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Of a `Refusal(code, sentence, …)` the sentence is left alone."""
        sentence = node.args[1:2] if isinstance(node.func, ast.Name) and node.func.id == "Refusal" else []
        node.func = self.visit(node.func)
        node.args = [one if one in sentence else self.visit(one) for one in node.args]
        node.keywords = [one if one.arg == "message" else self.visit(one) for one in node.keywords]
        return node

    # --- what is changed ---

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        kind = type(node.ops[0])
        flipped = self._here(node, "comparison turned round") and _FLIPPED[kind]
        moved = kind in _BOUNDARY and self._here(node, "boundary moved") and _BOUNDARY[kind]
        self.generic_visit(node)
        if flipped or moved:
            node.ops = [(flipped or moved)(), *node.ops[1:]]  # type: ignore[operator]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        here = self._here(node, "and/or exchanged")
        self.generic_visit(node)
        if here:
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        here = isinstance(node.op, ast.Not) and self._here(node, "not dropped")
        self.generic_visit(node)
        return node.operand if here else node

    def _condition(self, test: ast.expr) -> ast.expr:
        """Comparisons and negations have changes of their own."""
        mine = not isinstance(test, (ast.Compare, ast.UnaryOp))
        here = mine and self._here(test, "condition negated")
        visited: ast.expr = self.visit(test)
        return ast.UnaryOp(ast.Not(), visited) if here else visited

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node
        node.test = self._condition(node.test)
        node.body = [self.visit(one) for one in node.body]
        node.orelse = [self.visit(one) for one in node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._condition(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.iter = self.visit(node.iter)
        node.ifs = [self._condition(one) for one in node.ifs]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if isinstance(value, bool):
            return ast.Constant(not value) if self._here(node, f"{value} -> {not value}") else node
        if isinstance(value, int):
            return ast.Constant(value + 1) if self._here(node, f"{value} -> {value + 1}") else node
        if isinstance(value, str) and _WORD.fullmatch(value):
            return ast.Constant(f"{value}x") if self._here(node, f"{value!r} -> {value + 'x'!r}") else node
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return node
        here = self._here(node, "returns nothing")
        node.value = self.visit(node.value)
        return ast.Return(ast.Constant(None)) if here else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self._droppable(node)

    def _droppable(self, node: ast.AST) -> ast.AST:
        here = self._here(node, "left out")
        self.generic_visit(node)
        return ast.Pass() if here else node

    visit_Raise = visit_Delete = visit_AugAssign = visit_Continue = visit_Break = _droppable


def places(source: str) -> list[tuple[int, str]]:
    """(line, change) of every change that can be made to a module."""
    changer = _Changer()
    changer.visit(ast.parse(source))
    return changer.places


def changed(source: str, number: int) -> str:
    """The module with one of these changes."""
    tree = _Changer(number).visit(ast.parse(source))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def drawn(count: int, *, seed: int, room: Path = ROOT / ROOM) -> list[Mutant]:
    """So many mutants of a room, each change as likely as any other."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(room.glob("*.py"))}
    every = [(name, n) for name, text in texts.items() for n in range(len(places(text)))]
    mutants = []
    for name, n in random.Random(seed).sample(every, count):
        line, what = places(texts[name])[n]
        mutants.append(Mutant(name, line, what, changed(texts[name], n)))
    return mutants


class Copy:
    """A copy of the tree in which the space can be made wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            origin, place = ROOT / name, folder / name
            if origin.is_dir():
                shutil.copytree(origin, place, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            else:
                shutil.copy(origin, place)

    def passes(self, mutant: Mutant | None = None) -> bool:
        """Whether the tests of the space pass in the copy, with this mutant in it."""
        if mutant is None:
            return self._run()
        path = self.folder / ROOM / mutant.module
        kept = path.read_text(encoding="utf-8")
        path.write_text(mutant.source, encoding="utf-8")
        try:
            return self._run()
        finally:
            path.write_text(kept, encoding="utf-8")

    def _run(self) -> bool:
        machine = "tests/space/test_state_machine.py"
        quick = ["tests/space", f"--ignore={machine}"]
        return all(self._pytest(which) for which in (quick, [machine]))

    def _pytest(self, which: list[str]) -> bool:
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-x", "--hypothesis-profile=all"]
        command += [f"--rootdir={self.folder}", *which]
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode not in (
            0,
            1,
            2,
            3,
        ):  # 2: a module cannot even be imported; 4 and 5: our own mistake
            raise RuntimeError(f"pytest {' '.join(which)} could not run:\n{done.stdout}{done.stderr}")
        return done.returncode == 0


def main(arguments: list[str]) -> int:
    """Prints a line for each mutant; 1 when more than two of twenty survive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=None, help="draws the same mutants again")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--list", action="store_true", help="every place that could be changed")
    options = parser.parse_args(arguments)
    if options.list:
        for path in sorted((ROOT / ROOM).glob("*.py")):
            for line, what in places(path.read_text(encoding="utf-8")):
                print(f"{path.name}:{line}: {what}")
        return 0
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}")
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for mutant in drawn(options.count, seed=seed):
            lives = copy.passes(mutant)
            survivors += lives
            verdict = "SURVIVES" if lives else "caught  "
            print(f"{verdict} {mutant.module}:{mutant.line}: {mutant.what}", flush=True)
    print(f"{options.count - survivors} of {options.count} caught")
    return 1 if survivors > options.count // 10 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
