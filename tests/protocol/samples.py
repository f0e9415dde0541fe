"""Random patterns, and messages made for them: from small alphabets, so that about as much matches as does not.

Knows the pattern language from the ruling (R11) and from nothing in mew_lab. Everything comes out of one seed.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from typing import Any

LETTERS = "ab"
TEXTS = ["", "a", "b", "/", "ab", "ba", "a/b", "aa", "a/a/b", "abab", "c", "é", "*", "b/", "/a"]
NAMES = ["a", "b", "ab", "a/b", "k"]
NUMBERS = [0, 1, 1.0, 0.5, True, False, None, 2**53, float(2**53)]
KEY_GLOBS = ["*", "a*", "?", "a**", "?b"]

EXPRESSIONS: dict[str, Callable[[random.Random], str]] = {
    "/a+/": lambda r: "a" * r.randint(1, 4),
    "/(a|b)*/": lambda r: words(r, LETTERS, 4),
    "/a?b/": lambda r: r.choice(["b", "ab"]),
    "/[^\\/]*/": lambda r: words(r, "abc", 3),
    "/.*/": lambda r: words(r, "ab/", 4),
    "/b\\/a/": lambda r: "b/a",
    "/[ab]{2}\\/?/": lambda r: r.choice(["ab", "aa/", "ba"]),
}

PATHS: dict[str, Callable[[random.Random, Any], dict[str, Any]]] = {
    "$.a": lambda r, v: {"a": v},
    "$..a": lambda r, v: {r.choice(NAMES): [{"a": v}]},
    "$..*": lambda r, v: {r.choice(NAMES): r.choice([v, [v], {"b": v}])},
    "$.*": lambda r, v: {r.choice(NAMES): v},
    "$['a','b']": lambda r, v: {r.choice(["a", "b"]): v},
    "$[*][0]": lambda r, v: {r.choice(NAMES): [v, "c"]},
    "$.k[-1:]": lambda r, v: {"k": ["c", v]},
    "$[?@.b == 1].a": lambda r, v: {r.choice(NAMES): {"a": v, "b": r.choice([1, 1.0])}},
}


def seeded() -> random.Random:
    """Dice with a seed that is printed; MEW_LAB_SEED throws them again."""
    seed = int(os.environ.get("MEW_LAB_SEED") or random.SystemRandom().randrange(2**32))
    print(f"MEW_LAB_SEED={seed}")
    return random.Random(seed)


def times(count: int) -> int:
    """How often to try: a tenth where every line is traced, because there it is the branches that count."""
    return count if sys.gettrace() is None else count // 10


def words(r: random.Random, letters: str, most: int) -> str:
    return "".join(r.choice(letters) for _ in range(r.randint(0, most)))


# Patterns


def plain_word(r: random.Random) -> str:
    """A literal or a glob."""
    text = "".join(r.choice("aab/**??") if r.random() < 0.6 else "**" for _ in range(r.randint(0, 4)))
    text = text if r.random() < 0.7 else words(r, "ab/", 4)
    return "a" + text if len(text) > 2 and text[0] == text[-1] == "/" else text


def word(r: random.Random, *, decided: bool = False) -> str:
    """A string pattern; `decided` leaves out negations and expressions."""
    chance = 1.0 if decided else r.random()
    if chance < 0.1:
        return r.choice([*EXPRESSIONS])
    if chance < 0.25:
        return "!" + (plain_word(r) or "a")
    return plain_word(r)


def pattern(r: random.Random, depth: int = 2, *, decided: bool = False) -> Any:
    """A pattern for any place in a payload."""
    chance = r.random()
    if depth and chance < 0.3:
        return members(r, depth - 1, decided=decided)
    if depth and chance < 0.4:
        return [pattern(r, depth - 1, decided=decided) for _ in range(r.randint(0, 3))]
    return r.choice(NUMBERS) if chance < 0.55 else word(r, decided=decided)


def members(r: random.Random, depth: int, *, decided: bool = False) -> dict[str, Any]:
    def key() -> str:
        chance = 1.0 if decided else r.random()
        if chance < 0.08:
            return r.choice(KEY_GLOBS)
        if chance < 0.12:
            return "**"
        return r.choice([*PATHS]) if chance < 0.2 else r.choice(NAMES)

    return {key(): pattern(r, depth, decided=decided) for _ in range(r.randint(0, 3))}


def some_words(r: random.Random, *, decided: bool = False) -> Any:
    """A pattern for `kind` or `to`."""
    one = [word(r, decided=decided) or "a" for _ in range(r.choice([1, 1, 1, 2, 3]))]
    return one if len(one) > 1 or r.random() < 0.1 else one[0]


def capability(r: random.Random, *, decided: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": some_words(r, decided=decided)}
    if r.random() < 0.7:
        made["payload"] = members(r, 2, decided=decided)
    if r.random() < 0.3:
        made["to"] = some_words(r, decided=decided)
    return made


# Patterns that are likely to match more


def wider(r: random.Random, one: Any) -> Any:
    """A pattern that matches what `one` matches, probably, and more."""
    if r.random() < 0.3:
        return one
    if isinstance(one, dict):
        kept = {
            key: part if key[:1] in "$*" else wider(r, part) for key, part in one.items() if r.random() < 0.8
        }
        return r.choice([kept, kept, kept, {}, [kept, "a"], [{"zz": "b"}, kept]])
    if isinstance(one, list):
        made = [wider(r, part) for part in one]
        r.shuffle(made)
        return r.choice([made, [*made, word(r) or "a"], [made, "b"]])
    if isinstance(one, str):
        return wider_word(r, one)
    return r.choice([one, [one, "a"], [2, one]])


def wider_word(r: random.Random, one: str) -> Any:
    if one.startswith("!") or one in EXPRESSIONS:
        return r.choice([one, "*", "**", [one, "a"], ["b", one]])
    at = r.randint(0, len(one))
    cut = r.randint(at, len(one))
    made = [
        "*",
        one[:at] + "*" + one[cut:],
        one[:at] + "**" + one[cut:],
        one[:at] + "?" + one[at + 1 :],
        one.replace("*", "**"),
        one.replace("?", "*"),
        [one, "b*"],
        ["a", one, one + "**"],
        "!c" + one,
        "!" + one[:at] + "c",
        r.choice([*EXPRESSIONS]),
    ]
    chosen = r.choice(made)
    if isinstance(chosen, str) and len(chosen) > 2 and chosen[0] == chosen[-1] == "/":
        return "*"
    return chosen or "a"


def wider_words(r: random.Random, one: Any) -> Any:
    """The same for `kind` and `to`, where lists are not nested and no string is empty."""

    def flat(made: Any) -> list[str]:
        return [part for some in made for part in flat(some)] if isinstance(made, list) else [made]

    made = wider(r, one)
    return [part or "*" for part in flat(made)] if isinstance(made, list) else made or "*"


def wider_capability(r: random.Random, one: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": wider_words(r, one["kind"])}
    if "payload" in one and r.random() < 0.8:
        payload = wider(r, one["payload"])
        made["payload"] = payload if isinstance(payload, dict) else {}
    if "to" in one and r.random() < 0.7:
        made["to"] = wider_words(r, one["to"])
    return made


# Values and messages


def text_for(r: random.Random, one: str, *, kind: bool = False) -> str:
    """A string that a string pattern probably matches."""
    if one in EXPRESSIONS:
        return EXPRESSIONS[one](r)
    if one.startswith("!"):
        return (
            r.choice(TEXTS)
            if r.random() < 0.5
            else text_for(r, one[1:], kind=kind) + r.choice(["c", "/", "a"])
        )
    if one == "*":
        return r.choice(TEXTS)
    if kind and one.endswith("/*"):
        one += "*"
    made, at = "", 0
    while at < len(one):
        if one.startswith("**", at):
            made, at = made + words(r, "ab/", 3), at + 2
            continue
        made += words(r, "abc", 2) if one[at] == "*" else r.choice("abc") if one[at] == "?" else one[at]
        at += 1
    return made


def value(r: random.Random, depth: int = 2) -> Any:
    """Any value."""
    chance = r.random()
    if depth and chance < 0.2:
        return {r.choice(NAMES): value(r, depth - 1) for _ in range(r.randint(0, 3))}
    if depth and chance < 0.3:
        return [value(r, depth - 1) for _ in range(r.randint(0, 3))]
    return r.choice(NUMBERS) if chance < 0.5 else r.choice(TEXTS)


def value_for(r: random.Random, one: Any) -> Any:
    """A value that a pattern probably matches."""
    if isinstance(one, list):
        return value_for(r, r.choice(one)) if one else value(r)
    if isinstance(one, dict):
        return object_for(r, one)
    if isinstance(one, str):
        return text_for(r, one)
    return float(one) if type(one) is int and r.random() < 0.3 else one


def object_for(r: random.Random, one: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, part in one.items():
        found = value_for(r, part)
        if key in PATHS:
            made = PATHS[key](r, found) | made
        elif key == "**":
            made = PATHS["$..*"](r, found) | made
        elif "*" in key or "?" in key:
            made = {text_for(r, key): found} | made
        else:
            made[key] = found
    if r.random() < 0.4:
        made = {r.choice([*NAMES, "zz"]): value(r)} | made
    return made


def message_for(r: random.Random, one: dict[str, Any]) -> tuple[str, list[str], dict[str, Any]]:
    """Kind, addressees and payload of a message that a capability probably permits."""

    def any_of(patterns: Any) -> str:
        return r.choice(patterns) if isinstance(patterns, list) else patterns

    to = [text_for(r, any_of(one["to"])) for _ in range(r.randint(1, 3))] if "to" in one else None
    return (
        text_for(r, any_of(one["kind"]), kind=True),
        [r.choice(TEXTS) for _ in range(r.choice([0, 0, 1, 2]))] if to is None else to,
        object_for(r, one.get("payload", {})),
    )
