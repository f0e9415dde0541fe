"""Would the tests of the space notice if it were wrong in one place?  Twenty places, drawn by a seed that is printed.

`python tests/mutate.py` does the same by hand; MEW_LAB_SEED gives the seed.
"""

from __future__ import annotations

import ast
import os
import runpy
import secrets
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

mutate = runpy.run_path(str(Path(__file__).with_name("mutate.py")))

MUTANTS = 20
CAUGHT = 18


def test_each_kind_of_change_changes_what_it_says_and_nothing_else() -> None:
    source = '''
def judge(one, some):
    """Says a word."""
    if one is None and not some:
        raise Refusal("a_code", "A sentence that nobody judges", key="a_key")
    some.append(3)
    return one if one.good else True
'''
    expected = [
        ("and/or exchanged", "if one is None or not some"),
        ("comparison turned round", "if one is not None and"),
        ("not dropped", "one is None and some:"),
        ("left out", "        pass\n    some"),
        ("'a_code' -> 'a_codex'", "Refusal('a_codex', 'A sentence that nobody judges', key='a_key')"),
        ("'a_key' -> 'a_keyx'", "key='a_keyx'"),
        ("left out", "    pass\n    return"),
        ("3 -> 4", "append(4)"),
        ("returns nothing", "    return None"),
        ("condition negated", "one if not one.good else True"),
        ("True -> False", "one if one.good else False"),
    ]
    condition, *rest = mutate["places"](source)
    assert condition[1] == "condition negated"
    assert [what for _, what in rest] == [what for what, _ in expected]
    for n, (_, text) in enumerate(expected, start=1):
        changed = mutate["changed"](source, n)
        assert text in changed and "Says a word." in changed
        assert changed != ast.unparse(ast.parse(source)) + "\n"


def test_every_drawn_mutant_differs_from_what_it_was_made_of() -> None:
    for mutant in mutate["drawn"](10, seed=1):
        original = (mutate["ROOT"] / mutate["ROOM"] / mutant.module).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(original)), mutant.what


@pytest.mark.timeout(3600)
def test_of_twenty_mutants_of_the_space_at_least_eighteen_are_caught(tmp_path: Path) -> None:
    seed = int(os.environ.get("MEW_LAB_SEED") or secrets.randbelow(2**32))
    print(f"\nMEW_LAB_SEED={seed}")
    copy = mutate["Copy"](tmp_path)
    assert copy.passes(), "without a mutant the tests pass, else red would say nothing"
    survivors = []
    for mutant in mutate["drawn"](MUTANTS, seed=seed):
        lives = copy.passes(mutant)
        print(
            f"{'SURVIVES' if lives else 'caught  '} {mutant.module}:{mutant.line}: {mutant.what}", flush=True
        )
        if lives:
            survivors.append(f"{mutant.module}:{mutant.line}: {mutant.what}")
    assert MUTANTS - len(survivors) >= CAUGHT, survivors
