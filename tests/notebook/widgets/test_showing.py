from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.notebook.widgets import showing
from mew_lab.notebook.widgets.showing import Showings
from mew_lab.workbench.cards import ARMING

FACES = st.tuples(
    st.sampled_from(["v1", "v2"]), st.sampled_from(["p", "q"]), st.integers(1, 2), st.sampled_from(["d", "e"])
)
Face = tuple[str, str, int, str]


@pytest.mark.ruling("R29")
@pytest.mark.threat(30)
@given(st.lists(st.tuples(FACES, st.floats(0, 1)), max_size=12), FACES)
def test_a_click_counts_when_that_view_has_shown_that_face_for_the_arming_time(
    told: list[tuple[Face, float]], clicked: Face
) -> None:
    now = 0.0
    showings = Showings(clock=lambda: now)
    first: dict[Face, float] = {}
    for face, pause in told:
        showings.begin(*face)
        first.setdefault(face, now)
        now += pause
    shown = clicked in first and now - first[clicked] >= ARMING
    assert (showings.refusal(*clicked) == "") == shown


def test_what_is_refused_is_told_why() -> None:
    now = 0.0
    showings = Showings(clock=lambda: now)
    assert "has not shown the whole card yet" in showings.refusal("v", "p", 1, "d")
    showings.begin("v", "p", 1, "d")
    now = 0.25
    assert "for 0.25 s, and 0.5 s are the least" in showings.refusal("v", "p", 1, "d")
    assert "did not say which view" in showings.refusal(None, "p", 1, "d")


def test_no_more_is_kept_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "MOST", 3)
    showings = Showings(clock=lambda: 0.0)
    for n in range(9):
        showings.begin("v", f"p-{n}", n, "d")
    assert len(showings._since) == 3
