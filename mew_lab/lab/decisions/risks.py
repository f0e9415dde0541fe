"""Finds risky shapes of text in a proposal, such as paths, addresses, commands and disguised characters; pure.

It finds shapes and does not understand the text: a value without a warning is not therefore safe. The work is linear in
the length of the text and bounded; a last line states when the bound was reached.

Spec: §7.1, threats 16, 17.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from mew_lab.agent.quotes import fold, leaves
from mew_lab.protocol.visible import middle, one_line, visible

__all__ = ["UNLOOKED", "alike", "risks", "risks_of_title", "stated_risks"]

MAX_RISKS = 20
MAX_LOOKED_AT = 10_000  # texts, lists and objects
MAX_CHARACTERS = 200_000  # of all texts together
UNLOOKED = "too long to be checked in full: there may be other risks"

MAX_NAMES = 10_000  # that are compared
MAX_ALIKE = 5

LONG_NAME = 64  # characters
SHOWN_TO = 3  # addressees that a title names
SHOWN = 80

# Commands whose names do not begin sentences.
_COMMANDS = (
    "rm|rmdir|sudo|su|sh|bash|zsh|dash|ksh|fish|curl|wget|nc|ncat|netcat|chmod|chown|chgrp|mkfs|dd|scp|ssh|rsync|telnet|"
    "python\\d?|perl|ruby|node|php|pwsh|powershell|cmd|eval|exec|xargs|tee|sed|awk|grep|base64|openssl|gpg|tar|unzip|"
    "crontab|systemctl|launchctl|useradd|usermod|passwd|whoami|uname|printenv|docker|kubectl|npm|npx|pip|git|echo|cat|"
    "mv|cp|ln|ls|kill|pkill|killall|mshta|rundll32|regsvr32|certutil|bitsadmin|schtasks|wmic|iex"
)
_BEFORE = r"(?:^|[\s\"'=:,;(\[{<>|&`])"  # the characters before a path

# Each pattern has bounded repeats and begins where a run begins, so that no text takes more than its length.
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"(?i)(?<![a-z0-9+.-])(?:[a-z][a-z0-9+.-]{0,20}+://|"
            r"(?:https?|ftp|wss?|file|data|javascript|vbscript|mailto|tel|sms|jar|blob|magnet|view-source):)[^\s\"'<>]{1,200}"
        ),
        "address",
    ),
    (re.compile(r"(?:^|[\s\"'=(,])(//[\w.-]{1,80}+(?:[/:][^\s\"']{0,80})?)"), "address"),
    (
        re.compile(r"(?:^|[\s\"'=:,/\\])(\.\.(?:[/\\][^\s\"']{0,80}|(?=$|[\s\"',;:)])))"),
        "path that leaves its folder",
    ),
    (re.compile(r"(?i)%(?:25){0,3}(?:2e%(?:25){0,3}2e|2f|5c|00)[^\s\"']{0,80}"), "path in disguise"),
    (
        re.compile(
            _BEFORE
            + r"((?:/(?:etc|root|home|var|usr|proc|dev|tmp|bin|sbin|boot|opt|srv|sys|mnt|media|run|lib|"
            r"Users|Library|Applications|private|Volumes|System)(?![\w-])|~[\w-]{0,40}+)(?:/[^\s\"']{0,80})?)"
        ),
        "absolute path",
    ),
    (
        re.compile(
            r"(?<![A-Za-z0-9])[A-Za-z]:\\[^\s\"']{0,80}|(?<![A-Za-z0-9])[A-Za-z]:/(?!/)[^\s\"']{1,80}"
        ),
        "absolute path",
    ),
    (re.compile(_BEFORE + r"(\\\\[\w.?$-]{1,80}+\\[^\s\"']{0,80})"), "path on another computer"),
    (
        re.compile(
            r"\$(?:env:)?[A-Z_][A-Z0-9_]{1,40}\b(?:[/\\][^\s\"']{0,60})?|\$env:\w{1,40}|\$\{[^}\n]{1,60}\}|"
            r"%[A-Za-z_][A-Za-z0-9_()]{2,40}%(?:[/\\][^\s\"']{0,60})?"
        ),
        "shell variable",
    ),
    (
        re.compile(
            r"(?i)(?:^|[\s\"'`;&|(=/\\])((?:"
            r"(?:sudo|curl|wget|chmod|chown|mkfs(?:\.\w{1,8})?|mshta|rundll32|regsvr32|certutil|bitsadmin|schtasks|crontab)(?=\s)|"
            r"rm\s{1,9}-\w+|dd\s{1,9}if=|nc\s{1,9}-|"
            r"(?:ba|z|da|k|c|tc|fi)?sh(?:\.exe)?\s{1,9}(?:-\w{1,9}\s{1,9}){0,3}-\w{0,8}c(?=\s|$)|"
            r"(?:python[\d.]{0,4}|perl|ruby|node|php|deno|lua)(?:\.exe)?\s{1,9}(?:-\w{1,9}\s{1,9}){0,3}(?:-[cer]|eval)(?=\s|$)|"
            r"(?:powershell|pwsh)(?:\.exe)?\s{1,9}[-/]\w{1,20}|cmd(?:\.exe)?\s{1,9}/[ck](?=\s|$)|"
            r"invoke-(?:expression|webrequest|command)|start-process|reg(?:\.exe)?\s{1,9}add|net(?:\.exe)?\s{1,9}user|"
            r"base64\s{1,9}(?:-d|-D|--decode)|eval\s{1,9}[\"'$`(]|xargs\s{1,9}\S|iex\s{1,9}[(\w]|osascript\s{1,9}-|find\s[^\n]{0,60}-exec|ssh\s{1,9}\S{1,60}@|scp\s{1,9}\S)[^\n]{0,60})"
        ),
        "shell command",
    ),
    (
        re.compile(
            r"\$\([^)\n]{0,60}\)?|`[^`\n]{1,60}`|[<>]\([^)\n]{1,60}|(?:&&|\|\|)\s{0,9}\S[^\n]{0,40}|"
            r"(?<=[\s\d])>{1,2}\s{0,9}[~/$][\w./~$-]{1,60}|"
            r"[;\n|&]\s{0,9}+(?=[a-z])(?:"
            + _COMMANDS
            + r")(?:\.exe)?(?=\s{1,9}[-/~$.\w\"'|>&]|\s{0,9}(?:$|[;|&<>)]))[^\n]{0,40}|"
            r";\s{0,9}+[\w./~-]{1,40}+(?=\s{1,9}-{1,2}\w|\s{1,9}[\w.]{0,40}[/~$*]|\s{0,9}(?:$|[;|<>]))[^\n]{0,40}"
        ),
        "shell syntax",
    ),
    (
        re.compile(
            r"(?:^|[\s;&|(])env\s{1,9}(?:-\S{1,20}\s{1,9}){0,3}(?:\w{1,40}+=\S{0,60}+\s{1,9}){1,5}\S[^\n]{0,40}|"
            r"[;\n|&]\s{0,9}+(?:\.|source)\s{1,9}\S{0,40}[./~$][^\n]{0,40}|\A\s{0,9}\.\s{1,9}[./~$\w]\S{0,60}|"
            r"\A\s{0,9}(?:eval|source)\s{1,9}\S{1,60}\s{0,9}\Z|"
            r"<<<|<<[-~]?(?:['\"\\][A-Za-z_]|[A-Z_]{2})[\w'\"]{0,20}|"
            r"(?<![\w.-])(?:ba|z|da|k|c|tc|fi)?sh\s{0,9}<[^\n]{0,40}|(?<!\\)\\\r?\n[^\n]{0,40}"
        ),
        "shell script",
    ),
    (
        re.compile(
            r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]\d)(?::\d{1,5}+)?(?:/[^\s\"']{0,60})?|\[[0-9a-fA-F:.]{3,40}\](?=[:/])"
        ),
        "address of a computer",
    ),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{120,}+={0,2}"), "long base64-like text"),
    (
        re.compile(
            r"(?<![^\s\"'=(])[\u2010-\u2013\u2212\ufe58\ufe63\uff0d](?=[A-Za-z])|[\uff0f\uff3c\uff0e\uff5c\uff04\u2044\u2215\u2216\u29f8\u2024\u2025\ufe68]"
        ),
        "punctuation in disguise",
    ),
    (re.compile(r"\x00"), "null byte"),
    (re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"), "control character"),
    (re.compile(r"(?<!\s)\s{60,}+"), "long white space"),
    (
        re.compile(
            r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3,}|"
            r"[\u0334-\u0338\u0489\u20d2-\u20e3]"
        ),
        "marks over letters",
    ),
)
# The characters that a text must contain before the pattern is tried: most texts contain none.
_NEEDLES = {
    "address": (":", "//"),
    "path that leaves its folder": ("..",),
    "path in disguise": ("%",),
    "absolute path": ("/", "~", ":\\"),
    "path on another computer": ("\\\\",),
    "shell variable": ("$", "%"),
    "shell script": ("env", ". ", "eval", "source", "<<", "sh", "\\"),
    "address of a computer": (".", "["),
    "shell syntax": ("$(", "`", "&", "|", ";", "\n", ">", "<("),
    "null byte": ("\0",),
}
_BLANK = frozenset({"null byte", "control character", "long white space"})


def risks(arguments: Mapping[str, Any], *, folders: Sequence[str] = ()) -> tuple[str, ...]:
    """The risky parts of the arguments, one line each, however deep or long they lie.

    The path of something in one of the `folders` is no absolute path to be remarked on. It stops after 20 lines, 10 000
    texts, lists and objects, or 200 000 characters, and a last line says so.
    """
    lines: dict[str, None] = {}
    left = MAX_CHARACTERS
    for _, place, text in leaves(arguments, most=MAX_LOOKED_AT, numbers=False):
        if text is None or left <= 0 or len(lines) >= MAX_RISKS:
            return (*tuple(lines)[:MAX_RISKS], UNLOOKED)
        lines.update(dict.fromkeys(_in_text(text[:left], middle(place, 40), folders)))
        left -= len(text) + 1
    return (*tuple(lines)[:MAX_RISKS], *((UNLOOKED,) if left < -1 or len(lines) > MAX_RISKS else ()))


def risks_of_title(*, tool: str, method: str, to: Sequence[str], proposer: str = "") -> tuple[str, ...]:
    """The risky parts of the names in a proposal: of its tool, its method, and the participants."""
    risky: dict[str, None] = {}
    for what, name in (
        ("the tool's name", tool),
        ("the method's name", method),
        ("the proposer's name", proposer),
    ):
        risky.update(dict.fromkeys(_in_name(name, what)))
    for name in to[:MAX_RISKS]:
        risky.update(dict.fromkeys(_in_name(name, "an addressee's name")))
    lines = tuple(risky)[:MAX_RISKS]
    if len(set(to)) > SHOWN_TO:
        lines = (
            f"many addressees: it goes to {len(set(to)):,} participants, and the title names {SHOWN_TO} of them",
            *lines,
        )
    return lines


def alike(names: Iterable[str], what: str, *, among: Iterable[str] = ()) -> tuple[str, ...]:
    """One line for each of the names that looks like another of them, or like a name in `among`."""
    known: dict[str, str] = {}
    for name in among:
        known.setdefault(_read(name), name)
    lines = []
    for name in islice(dict.fromkeys(names), MAX_NAMES):
        other = known.setdefault(_read(name), name)
        if other != name:
            lines.append(f"names that read alike: {what} {_spelt(name)} beside {_spelt(other)}")
    return tuple(lines[:MAX_ALIKE])


def _read(name: str) -> str:
    """A name without the differences that a reader misses: case, accents, look-alikes, white space."""
    return "".join(fold(name[:2000]).split())


def _spelt(name: str) -> str:
    """A name as JSON in ASCII, in which different names always look different."""
    return middle(json.dumps(name), 60)


def stated_risks(annotations: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The risk that the tool's own annotations state, at any of its addressees; at most one line."""
    if any(hints.get("destructiveHint") is True for hints in annotations):
        return ("destroys: the tool says so itself (annotations)",)
    if any(hints.get("readOnlyHint") is False for hints in annotations):
        return ("writes: the tool is not read-only (annotations)",)
    return ()


def _in_name(name: str, what: str) -> Iterator[str]:
    if len(name) > LONG_NAME:
        yield f"long name: {what} has {len(name):,} characters"
        name = name[:2000]
    if not name.isascii():
        reads = unicodedata.normalize("NFKC", name)
        reads = f" (reads {one_line(reads, 40)})" if reads != name else ""
        yield f"not plain letters in {what}: {one_line(name, 60)}{reads}"
    yield from _in_text(name, what)


def _is_inside(path: str, folders: Sequence[str]) -> bool:
    """Whether a text is the plain path of one of the folders or of something in it, which is not hidden."""
    for folder in folders:
        rest = path.removeprefix(folder)
        if folder.startswith("/") and (path == folder or (rest != path and _PLAIN_PATH.fullmatch(rest))):
            return True
    return False


_PLAIN_PATH = re.compile(
    r"(?:/(?!\.)[\w .@+=,-]{1,200}+){1,50}/?"
)  # no hidden name among them, so no `..` either


def _in_text(text: str, name: str, folders: Sequence[str] = ()) -> Iterator[str]:
    is_inside = bool(folders) and _is_inside(text, folders)
    for pattern, word in _SHAPES:
        if is_inside and word == "absolute path":
            continue
        needles = _NEEDLES.get(word)
        if needles and not any(needle in text for needle in needles):
            continue
        if hit := pattern.search(text):
            if word in _BLANK:
                size = f": {len(hit[0])} characters" if word == "long white space" else f": {visible(hit[0])}"
                yield f"{word} in {name}{size}"
                continue
            shown = (hit.group(1) if hit.re.groups and hit.group(1) else hit.group(0)).strip()
            yield f"{word} in {name}: {one_line(shown, SHOWN)}"
    plain = text.replace("\n", "").replace("\t", "")
    if visible(plain) != plain:
        yield f"characters that cannot be seen in {name}"
    if not text.isascii():
        yield from _disguises(text, name)


# --- alphabets ---

_WORD = re.compile(r"\w+")
# Scripts that are written together, and mixed with Latin words.
_TOGETHER = frozenset(
    {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"}
)
# Styled letters, by the first word of their Unicode name.
_STYLED = frozenset(
    """
    FULLWIDTH HALFWIDTH MATHEMATICAL CIRCLED PARENTHESIZED SQUARED NEGATIVE DOUBLE-STRUCK SCRIPT BLACK-LETTER
    MODIFIER REGIONAL KELVIN ANGSTROM ROMAN OUTLINED
    """.split()  # noqa: SIM905 - words read better than a list
)
_UNITS = frozenset({"μs", "μm", "μg", "μl", "μL", "μF", "μA", "μV", "μW", "μSv", "kΩ", "MΩ", "mΩ"})
_ALIKE = frozenset("аеорсухіјѕԁһӏвнкмтАВЕЅІЈКМНОРСТХҮαορνικυτηΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոցհԱՏႽ")


@lru_cache(20_000)
def _script(c: str) -> str:
    """The alphabet of a letter; empty for anything else."""
    if not c.isalpha():
        return ""
    first = unicodedata.name(c, "").split(" ")[0]
    return {"MICRO": "", "FEMININE": "", "MASCULINE": "", "OHM": "GREEK"}.get(first, first)


@lru_cache(2_000)
def _digits(c: str) -> str:
    """The alphabet of a digit that is none of 0 to 9; empty for anything else."""
    if c.isascii() or unicodedata.category(c) != "Nd":
        return ""
    first = unicodedata.name(c, "").split(" ")[0]
    return {"ARABIC-INDIC": "ARABIC", "EXTENDED": "ARABIC"}.get(first, first)


def _scripts(text: Iterable[str]) -> set[str]:
    return {script for c in set(text) if (script := _script(c))}


def _disguises(text: str, name: str) -> Iterator[str]:
    """Describes letters and digits of one alphabet among those of another."""
    different = set(text)
    scripts = _scripts(different)
    east = bool(scripts & _TOGETHER)
    styled = {c for c in different if _is_styled(c) and not (east and "\uff00" <= c <= "\uffef")}
    if styled:
        word = next((word for word in re.findall(r"\S+", text) if not styled.isdisjoint(word)), "")
        reads = unicodedata.normalize("NFKC", word[:60])
        yield f"letters in disguise in {name}: {one_line(word, 60)} (reads {one_line(reads, 60)})"
    small = {c for c in different if _is_small(c) or (c in _DOTLESS and name.startswith("the name "))}
    if small:
        word = next((word for word in re.findall(r"\S+", text) if not small.isdisjoint(word)), "")
        yield f"letters in disguise in {name}: {one_line(word, 60)}"
    scripts -= _STYLED
    others = scripts - {"LATIN"} - _TOGETHER
    if len(scripts) > 1 and others and (mixed := _find_mixed(text, others)):
        yield f"mixed alphabets in {name}: {one_line(mixed, 60)}"
    strange = {c for c in different if (kind := _digits(c)) and kind not in scripts and kind not in _STYLED}
    if strange:
        word = next(word for word in re.findall(r"\S+", text) if not strange.isdisjoint(word))
        yield f"digits of another alphabet in {name}: {one_line(word, 40)}"
    if "LATIN" in scripts:
        back = {c for c in different if unicodedata.bidirectional(c) in ("R", "AL", "AN")}
        letters = sum(map(text.count, back)) if back else 0
        if letters and 2 * letters < sum(c.isalpha() for c in text):
            word = next(word for word in re.findall(r"\S+", text) if not back.isdisjoint(word))
            yield f"right-to-left letters in {name}: {one_line(word, 40)}"


_DOTLESS = frozenset("\u0131\u0237\u0251\u0261\u0269")  # ı ȷ ɑ ɡ ɩ: words hold them, names of members do not


@lru_cache(20_000)
def _is_small(c: str) -> bool:
    """Whether the character is a Latin small capital."""
    return not c.isascii() and unicodedata.name(c, "").startswith("LATIN LETTER SMALL CAPITAL")


@lru_cache(20_000)
def _is_styled(c: str) -> bool:
    """Whether the character is a styled form of a Latin letter or digit."""
    kind = "" if c.isascii() else unicodedata.name(c, "").split(" ")[0]
    reads = unicodedata.normalize("NFKC", c) if kind in _STYLED else ""
    letters = any("a" <= letter <= "z" for letter in reads.lower()) or kind == "REGIONAL"
    return letters or (kind in ("FULLWIDTH", "MATHEMATICAL") and reads.isdigit())


def _find_mixed(text: str, others: set[str]) -> str:
    """The first word of two alphabets, or the first word that only looks like the alphabet of the other words."""
    alike, real, latin = "", False, False
    for word in _WORD.findall(text):
        if word.isascii():
            latin = latin or (len(word) > 1 and word.isalpha())
            continue
        scripts = _scripts(word) - _STYLED
        if len(scripts) > 1 and scripts & others and word not in _UNITS:
            return str(word)
        if scripts & others:
            if _ALIKE.issuperset(c for c in word if c.isalpha()) and len(word) > 1:
                alike = alike or word
            else:
                real = True
        latin = latin or "LATIN" in scripts
    return alike if latin and not real else ""
