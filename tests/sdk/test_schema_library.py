"""What jsonschema checks is the same, and what takes a second is not loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("rfc3987_syntax")

CHECKS = """
from mew_lab.sdk.schema_library import jsonschema
checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
"""
JUDGED = "print([checker.conforms(one, 'iri') for one in ('http://bücher.example/ü', 'no iri at all')])"
LOADED = "import sys; print('lark' in sys.modules, 'rfc3987_syntax' in sys.modules)"


def said(code: str) -> list[str]:
    """What a fresh interpreter prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_the_grammars_are_loaded_with_the_first_value_that_needs_them() -> None:
    code = f"{CHECKS}\n{LOADED}\njsonschema.Draft202012Validator.check_schema({{}})\n{LOADED}\n{JUDGED}\n{LOADED}"
    assert said(code) == ["False False", "False False", "[True, False]", "True True"]


def test_a_function_that_becomes_a_tool_does_not_wait_for_them() -> None:
    code = f"""
from mew_lab.sdk.signature import Signature
def add(a: int, b: int) -> int: return a + b
Signature(add, name="add")
{LOADED}
"""
    assert said(code) == ["False False"]


def test_what_is_loaded_already_or_is_not_there_is_left_alone() -> None:
    assert said(f"import rfc3987_syntax as before\n{CHECKS}\nimport rfc3987_syntax\nprint(before is rfc3987_syntax)") == ["True"]  # fmt: skip
    # Without the package jsonschema knows no such format, and says nothing against any text.
    absent = f"import sys; sys.modules['rfc3987_syntax'] = None\n{CHECKS}\nprint('iri' in checker.checkers)"
    assert said(absent) == ["False"]
