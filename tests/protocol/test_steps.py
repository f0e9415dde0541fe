"""Work in steps gives what it gives in one piece, and pauses on the way."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from mew_lab.protocol.steps import Steps, find_steps, finish

from ..conftest import examples
from .large_values import TEXTS

pytestmark = [pytest.mark.threat(54), pytest.mark.threat(37)]


@given(most=some.integers(0, 50))
def test_what_is_finished_took_all_its_steps_and_has_its_result(most: int) -> None:
    taken: list[int] = []

    def count() -> Steps[int]:
        for n in range(most):
            taken.append(n)
            yield
        return most

    assert finish(count()) == most == len(taken)


def test_a_search_of_a_long_text_pauses_between_its_parts() -> None:
    found = list(find_steps(re.compile("x"), "x" + " " * 200_000 + "x"))
    assert found.count(None) >= 20 and len(found) - found.count(None) == 2
    assert None not in find_steps(re.compile("x"), "x" * 1_000)


# As the shapes of risks are: with looks around a match, classes of runs, and the ends of a text.
SHAPES = [
    r"(?<![a-z0-9])https?://[^\s]{1,200}",
    r"(?:^|[\s;])rm\s{1,9}-\w+(?=\s|$)",
    r"(?<!\s)\s{60,}+",
    r"[A-Za-z0-9+/]{120,}+={0,2}",
    r"\A\s{0,9}\.\s",
    r"a\Z",
    r"word (?!word)",
    r"\x00",
    r"a[^ab]{0,3500}b|a",
    r"a.{0,4100}\Z|x",
]


@given(text=TEXTS, shape=some.sampled_from(SHAPES))
@example(text=" " * 7_990 + "a" * 5_000 + "; " * 5_000, shape=SHAPES[3])  # it ends in the next part but one
@example(text=" " * 11_980 + "; rm -x" + "y" * 9_000, shape=SHAPES[1])
# One that ends beyond what is searched, and one that the end of what is searched seems to end.
@example(text=" " * 11_000 + "a" + " " * 3_000 + "b" + " " * 5_000, shape=SHAPES[8])
@example(text=" " * 7_999 + "a" + " " * 1_000 + "x" + " " * 5_000, shape=SHAPES[9])
@pytest.mark.timeout(240)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.drawn
def test_a_search_in_steps_finds_what_a_search_in_one_piece_finds(text: str, shape: str) -> None:
    pattern = re.compile(shape)
    whole = [hit.span() for hit in pattern.finditer(text)]
    assert [hit.span() for hit in find_steps(pattern, text) if hit is not None] == whole
