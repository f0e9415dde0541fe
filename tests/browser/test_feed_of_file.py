"""The feed of a log from files in a real JupyterLab: filter, findings and detail, without what only a live feed can do."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from real_lab import Notebook
from test_feed_view import all_here, shown, view

OPEN = """
import json, mew_lab
from importlib.resources import files
log = mew_lab.open_log(files("mew_lab") / "data" / "garden.jsonl")
log.view.feed
"""
TOLD = """
df, found = log.df, log.diagnose().df
rows_of = dict(zip(df["place"].tolist(), df["seq"].tolist()))
bad = sorted({rows_of[p] for p, s in zip(found["place"], found["severity"]) if s in ("warn", "error") and p in rows_of})
asked = [row for row, kind, sender in zip(df["seq"].tolist(), df["kind"], df["from"]) if kind == "mcp/proposal" and sender == "helper"]
print(json.dumps([int(df["seq"].iloc[-1]), bad, asked, df.loc[df["seq"] == asked[0], "id"].iloc[0]]))
"""


@pytest.mark.slow
def test_a_file_is_filtered_and_read_like_a_live_log(plain: Callable[..., Notebook]) -> None:
    book = plain([OPEN, TOLD])
    book.run(0).run(1)
    last, bad, proposals, first = json.loads(book.text(1))
    all_here(book, 0, last)
    feed = view(book, 0)
    box = feed.get_by_label("Filter by text")

    box.fill("diag.severity >= warn")
    book.page.until(lambda: sorted(shown(book, 0)) == bad, "the findings")
    box.fill("kind == mcp/proposal and from == helper")
    book.page.until(lambda: shown(book, 0) == proposals, "the proposals")
    feed.locator(f"tr[data-seq='{proposals[0]}'] td.mew-what").click()
    book.page.until(lambda: first in feed.inner_text(), "the whole message")
    box.fill("knid == chat")
    book.page.until(lambda: "did you mean kind?" in feed.locator(".mew-reason").inner_text(), "the fault")

    # Nothing will arrive, and the file is there already.
    assert feed.get_by_role("button", name="Columns").is_visible()
    for name in ("Pause", "Save log"):
        assert feed.get_by_role("button", name=name).count() == 0
