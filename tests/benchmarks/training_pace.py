"""How long does a training take somebody who reads nothing, and somebody who reads?  Two trees beside each other.

    python tests/benchmarks/training_pace.py TREE_BEFORE TREE_AFTER [--proposals N] [--seed N]

In each tree a lab plants the same proposals, and its approvals view stands in a Chromium. The blind clicker expands and
scrolls what it must and presses Approve as soon as it is armed, wherever it stands. The attentive one reads each card, at 20
characters a second of what the card before did not have and for at most 12 s, rejects the planted ones and approves the
others. Marks: the blind one takes at least 2 × as long as before, the attentive one at most 1.1 ×.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
BROWSER = HERE.parents[1] / "browser"
READING, MOST = 20, 12.0  # characters a second; seconds
LIMIT = 300.0  # seconds for one training
OPEN = "li.mew-card:not([hidden]):not(.mew-past):not(.mew-brief)"
TEXT = """card => [...card.querySelectorAll('.mew-says, .mew-name, .mew-text, .mew-warning')].filter(n => n.checkVisibility())
  .flatMap(n => n.textContent.split('\\n'))"""
# Expands what is cut, goes on to what was not in sight yet, and brings the buttons into sight where nothing is left.
FORWARD = """card => {
  for (const open of card.querySelectorAll('button.mew-open')) if (open.checkVisibility()) return void open.click();
  for (const next of card.querySelectorAll('button.mew-next')) if (next.getAttribute('aria-disabled') !== 'true') return void next.click();
  const hint = card.querySelector('.mew-hint')?.textContent ?? '';
  const parts = /parts|rows|review all/.test(hint);
  (parts ? card : card.querySelector('button.mew-approve, button.mew-approve-all'))?.scrollIntoView({ block: parts ? 'start' : 'nearest' });
}"""


class Clicker:
    """One person before one approvals view."""

    def __init__(self, page: Any, lab: Any, training: Any) -> None:
        self.page, self.lab, self.training = page, lab, training
        self.read: set[str] = set()

    def blind(self) -> None:
        armed = self.page.tab.locator(
            f"{OPEN} button:is(.mew-approve, .mew-approve-all)[aria-disabled='false']:visible"
        )
        if armed.count():
            self._press(armed.first)
            return
        card = self.page.tab.locator(OPEN)
        if card.count():
            card.first.evaluate(FORWARD)
        self.page.pause(0.1)  # a person looks again

    def attentive(self) -> None:
        table = self.page.tab.locator("li.mew-group button.mew-unfold:visible")
        if table.count():
            self._press(table.first)
            return
        card = self.page.tab.locator(OPEN).first
        if not card.count():
            self.page.pause(0.05)
            return
        title = card.locator(".mew-digest").first.get_attribute("title").split()[-1]
        (proposal,) = [one.id for one in self.lab.decisions.pending() if one.digest == title]
        opened = card.locator("button.mew-open:visible")
        while opened.count():
            opened.first.evaluate("button => button.click()")
            self.page.pause(0.1)  # a person looks again
        lines = set(card.evaluate(TEXT))
        new = sum(map(len, lines - self.read))
        self.read = lines
        until = time.monotonic() + min(MOST, new / READING)
        while time.monotonic() < until:
            card.evaluate(FORWARD)
            self.page.pause(min(0.25, max(0.01, until - time.monotonic())))
        bad = bool(self.training.planted[proposal].family)
        button = card.locator("button.mew-reject" if bad else "button.mew-approve")
        reason = self.page.tab.locator(".mew-chips").get_by_role("button", name="Unsafe")
        while self.lab.decisions.card(proposal).is_open:
            if reason.count():
                self._press(reason)
            elif self.lab.decisions.card(proposal).state == "deciding" or not button.count():
                self.page.pause(0.05)
            elif button.get_attribute("aria-disabled") == "false":
                self._press(button)
            else:
                card.evaluate(FORWARD)
                self.page.pause(0.05)
            if time.monotonic() > until + 30:
                raise TimeoutError(f"{proposal} was not decided within 30 s after it was read")

    def _press(self, button: Any) -> None:
        box = button.bounding_box()
        if box is None:
            return
        self.page.tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.page.pause(0.1)  # a person looks again


def measure(how: str, proposals: int, seed: int) -> dict[str, Any]:
    """Decides one training in the tree that is imported here."""
    sys.path.insert(0, str(BROWSER))
    from bare import Bare
    from playwright.sync_api import sync_playwright
    from real_lab import find_chromium

    import mew_lab
    from mew_lab.lab.training import Training

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        lab = mew_lab.up("pace", journal=None, port=None)
        page = Bare(browser.new_context(), lab.view.approvals, width=1000, height=800)
        training = Training(lab)
        training.plant(proposals, seed=seed)
        page.until(lambda: len(lab.decisions.pending()) == proposals, "the proposals")
        clicker = Clicker(page, lab, training)
        began = time.monotonic()
        while lab.decisions.pending():
            if time.monotonic() - began > LIMIT:
                raise TimeoutError(f"the training was not decided in {LIMIT:.0f} s")
            getattr(clicker, how)()
        seconds = time.monotonic() - began
        note = str(training.score()).splitlines()[-1]
        page.close()
        lab.down()
        browser.close()
    return {"seconds": seconds, "note": note}


def run(tree: Path, how: str, proposals: int, seed: int) -> dict[str, Any]:
    """Measures in a process that imports the package of that tree."""
    command = [
        sys.executable,
        str(HERE),
        "--measure",
        how,
        "--proposals",
        str(proposals),
        "--seed",
        str(seed),
    ]
    env = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(
        command, env=env, cwd=tree, capture_output=True, text=True, timeout=LIMIT + 60, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{tree}, {how}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--measure", choices=("blind", "attentive"))
    parser.add_argument("--proposals", type=int, default=8)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.proposals, args.seed)))
        return
    if len(args.trees) != 2:
        parser.error("name two trees: before and after")
    for how, mark in (("blind", "≥ 2 ×"), ("attentive", "≤ 1.1 ×")):
        before, after = (run(tree.resolve(), how, args.proposals, args.seed) for tree in args.trees)
        ratio = after["seconds"] / before["seconds"]
        print(f"{how:<12}{before['seconds']:8.1f} s →{after['seconds']:8.1f} s   {ratio:.2f} × (mark {mark})")
        print(f"{'':<12}{before['note']} → {after['note']}", flush=True)


if __name__ == "__main__":
    main()
