"""Histories of proposals under policies of a person, made from a seed: six kinds, two of which no condition can express.

A policy says whether a call deserves a yes. The person of a simulation follows it, but for slips. Arguments are made so
that the policy does not decide on the argument that changes most: there is prose, and there are numbers, beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from mew_lab.rules.decided_calls import AskedCall

TOOL_HASH = "5" * 64
WORDS = (
    "please check the plan for the north bed and tell ada when all rows are wet before noon or after the rain because "
    "nobody has time to look at each pump today thanks and greetings from the shed"
).split()
FOLDERS = ["docs", "src", "notes", "tests", "build", "data", "plans", "mail"]
ENDINGS = [".md", ".txt", ".py", ".json", ".csv", ".sh"]
HOSTS = ["example.org", "example.com", "garden.example", "weather.example", "shop.example"]


class Policy(NamedTuple):
    """The policy of one history: its kind, how calls are made, and which of them deserve a yes."""

    kind: str
    tool: str
    hints: tuple[str, ...]
    make: Callable[[Random], dict[str, Any]]
    deserves: Callable[[Mapping[str, Any]], bool]


def prose(dice: Random, least: int = 3, most: int = 12) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(least, most)))


def _path(dice: Random, tops: list[str], below: dict[str, list[str]]) -> str:
    top = dice.choice(tops)
    inner = dice.choice(below[top])
    return f"{top}/{inner}{dice.choice(WORDS)}{dice.randrange(30)}{dice.choice(ENDINGS)}"


def _tree(dice: Random) -> tuple[list[str], dict[str, list[str]]]:
    tops = dice.sample(FOLDERS, 4)
    return tops, {top: ["", *(f"{word}/" for word in dice.sample(WORDS, 3))] for top in tops}


def by_folder(dice: Random) -> Policy:
    """Files below one or two folders; the tool may write."""
    tops, below = _tree(dice)
    allowed = tuple(f"{top}/" for top in tops[: dice.randint(1, 2)])
    weights = [3] * len(allowed) + [1] * (4 - len(allowed))

    def make(dice: Random) -> dict[str, Any]:
        top = dice.choices(tops, weights)[0]
        return {"path": _path(dice, [top], below), "content": prose(dice, 3, 30)}

    return Policy("folder", "write_file", ("writes data",), make, lambda a: a["path"].startswith(allowed))


def by_ending(dice: Random) -> Policy:
    """Files with one of two endings, wherever they are; the tool reads."""
    tops, below = _tree(dice)
    allowed = tuple(dice.sample(ENDINGS, 3))
    return Policy(
        "ending",
        "read_file",
        ("read-only",),
        lambda dice: {"path": _path(dice, tops, below), "lines": dice.choice([100, 200, 500])},
        lambda a: a["path"].endswith(allowed),
    )


def by_limit(dice: Random) -> Policy:
    """Amounts up to a limit, to one of some beds."""
    limit = dice.choice([20, 50, 200, 1000])
    beds = dice.sample(WORDS, 4)
    return Policy(
        "limit",
        "water",
        (),
        lambda dice: {"litres": max(1, round(limit * dice.random() ** 1.2 * 1.6)), "bed": dice.choice(beds)},
        lambda a: a["litres"] <= limit,
    )


def by_domain(dice: Random) -> Policy:
    """Addresses of some hosts."""
    allowed = tuple(dice.sample(HOSTS, 2))
    parts = ["", "api.", "www."]

    def make(dice: Random) -> dict[str, Any]:
        host = f"{dice.choice(parts)}{dice.choice([*allowed, *HOSTS])}"
        return {"url": f"https://{host}/{dice.choice(WORDS)}/{dice.randrange(500)}", "note": prose(dice)}

    return Policy("domain", "fetch", ("read-only",), make, lambda a: a["url"].split("/")[2].endswith(allowed))


def by_words(dice: Random) -> Policy:
    """Texts without certain words: no condition tells what a text says."""
    bad = set(dice.sample(WORDS, dice.choice([2, 4, 6])))
    names = ["ada", "bert", "cora"]
    return Policy(
        "words",
        "send_note",
        ("writes data",),
        lambda dice: {"to": dice.choice(names), "text": prose(dice, 2, 8)},
        lambda a: not bad & set(a["text"].split()),
    )


def by_relation(dice: Random) -> Policy:
    """Two arguments that agree: a condition looks at one of them alone."""
    names = [f"{word}{n}" for word in WORDS for n in range(2)]

    def make(dice: Random) -> dict[str, Any]:
        owner = dice.choice(names)
        bed = owner if dice.random() < 0.6 else dice.choice(names)
        return {"owner": owner, "path": f"beds/{bed}/{dice.choice(WORDS)}{dice.randrange(9)}.txt"}

    return Policy("relation", "edit_bed", (), make, lambda a: a["path"].split("/")[1] == a["owner"])


KINDS: Mapping[str, Callable[[Random], Policy]] = {
    "folder": by_folder,
    "ending": by_ending,
    "limit": by_limit,
    "domain": by_domain,
    "words": by_words,
    "relation": by_relation,
}
EXPRESSIBLE = ("folder", "ending", "limit", "domain")


class Proposed(NamedTuple):
    """One proposal of a history, its time in seconds, and whether it deserves a yes."""

    t: float
    call: AskedCall
    deserves: bool


def proposals(policy: Policy, dice: Random, *, every: float = 240.0) -> Iterator[Proposed]:
    """Proposals without end, `every` so many seconds on average."""
    t = 1.8e9
    while True:
        t += dice.expovariate(1 / every)
        arguments = policy.make(dice)
        call = AskedCall(
            proposer="coder",
            target="server",
            tool=policy.tool,
            arguments=arguments,
            tool_hash=TOOL_HASH,
            hints=policy.hints,
        )
        yield Proposed(t, call, policy.deserves(arguments))


class Changing(NamedTuple):
    """A history whose person changes her mind when `change` is called; `deserves` is what she thinks of a call now."""

    history: Iterator[Proposed]
    change: Callable[[], None]
    deserves: Callable[[AskedCall], bool]


def changing(seed: int, affected: int) -> Changing:
    """Files below some folders deserve a yes; a change forbids so many of these folders."""
    folders = Random(seed).sample(FOLDERS, 4)
    good = folders[: 1 + affected]

    def make(dice: Random) -> dict[str, Any]:
        return {
            "path": f"{dice.choice(folders)}/{dice.choice(WORDS)}{dice.randrange(40)}{dice.choice(ENDINGS)}"
        }

    policy = Policy("drift", "edit_file", (), make, lambda a: a["path"].split("/")[0] in good)
    return Changing(
        proposals(policy, Random(seed + 1)),
        lambda: good.__delitem__(slice(affected)),
        lambda call: policy.deserves(call.arguments),
    )


class Generator(NamedTuple):
    """A way to make histories: the kinds of its policies, and those of them that conditions on one argument express.

    `history(kind, seed)` gives proposals without end, and `changing(seed, affected)` those of a person who changes her
    mind on what that many rules cover.
    """

    kinds: tuple[str, ...]
    expressible: tuple[str, ...]
    history: Callable[[str, int], Iterator[Proposed]]
    changing: Callable[[int, int], Changing]

    def kind_of(self, seed: int) -> str:
        """The kind of the history with this seed: all kinds in turn."""
        return self.kinds[seed % len(self.kinds)]


FIRST = Generator(
    tuple(KINDS),
    EXPRESSIBLE,
    lambda kind, seed: proposals(KINDS[kind](Random(seed)), Random(seed + 1)),
    changing,
)
