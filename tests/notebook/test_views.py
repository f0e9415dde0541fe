"""The views of a lab: made at first use, one of each."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mew_lab.notebook import views
from mew_lab.notebook.views import PARTS, Views, close_views


class Widget:
    """A widget that counts its ends."""

    def __init__(self, source: object, **_: object) -> None:
        self.source = source
        self.ends = 0

    def close(self) -> None:
        self.ends += 1


@pytest.fixture
def of_a_lab(monkeypatch: pytest.MonkeyPatch) -> Views:
    monkeypatch.setattr("mew_lab.notebook.widgets.approvals.ApprovalsView", Widget)
    monkeypatch.setattr("mew_lab.notebook.widgets.feed.FeedView", Widget)
    return Views(SimpleNamespace(decisions="decisions", rows="rows"))  # type: ignore[arg-type]


def test_each_view_gets_its_seam_and_is_made_once(of_a_lab: Views) -> None:
    assert of_a_lab.made("approvals") is None
    assert of_a_lab.approvals.source == "decisions"
    assert of_a_lab.feed.source == "rows"
    assert of_a_lab.approvals is of_a_lab.approvals
    assert of_a_lab.made("approvals") is of_a_lab.approvals


@pytest.mark.trap("T-16")
def test_closing_ends_every_view_once(of_a_lab: Views) -> None:
    feed = of_a_lab.feed
    close_views()
    close_views()
    assert feed.ends == 1
    assert of_a_lab.made("feed") is None


def test_a_lab_that_is_gone_is_not_kept(of_a_lab: Views) -> None:
    before = len(views._all)
    one = Views(SimpleNamespace())  # type: ignore[arg-type]
    assert len(views._all) == before + 1
    del one
    assert len(views._all) == before


def test_a_part_that_there_is_not_names_those_that_there_are(of_a_lab: Views) -> None:
    with pytest.raises(AttributeError, match=r"no 'rooster'; its parts are approvals, "):
        _ = of_a_lab.rooster
    assert set(PARTS) <= set(dir(of_a_lab))
