"""Which value of a text does a parameter want?  `pick` and `numbers`: one text, one parameter; pure.

Which texts are asked, and in which order, is not known here (`filling`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set

from mew_lab.agent.offline import zones
from mew_lab.agent.offline.finding import Found, Picked, Text
from mew_lab.agent.offline.phrases import called, expression, languages, money, place, wording
from mew_lab.agent.offline.vocabulary import plain, stem, stemmed
from mew_lab.agent.offline.wants import Want, stems_of_name

__all__ = ["labelled", "left", "numbers", "pick"]


_PATHLIKE = re.compile(r"[~.\w /\\:-]{0,400}(?:[/\\][^/\\\n]{0,100}|\.\w{1,5})")
_FOLDERS = stemmed("directory folder dir repo repository")
_FILES = stemmed("file files filename")
_TAKEN_FROM = re.compile(r"\b(?:subtract|take|deduct)\b.*\bfrom\b", re.IGNORECASE)
_TO_WORDS = {"to", "into", "towards", "until", "before", "till", "by"}
_FROM_WORDS = {"from", "of", "since", "after"}


def labelled(wanted: Want, text: str) -> Picked | None:
    """What stands after the parameter's own word: "branch called x", "ticket 17", "count=3"; None for nothing."""
    value = r"\s*(\"[^\"\n]{0,2000}\"|“[^”\n]{0,2000}”|`[^`\n]{0,2000}`|'[^'\n]{0,2000}'(?!\w)|[\w#./~^@+-]+)"
    found = re.search(rf"(?<!\w){re.escape(wanted.key[:80])}\s*[=:]{value}", text) if wanted.key else None
    if found:
        return Picked(_bare(found[1]), frozenset({found.start(1)}))
    for word in re.finditer(r"[^\W\d_]+", text):
        if stem(word[0]) not in wanted.labels:
            continue
        after = re.compile(rf"\s*(called|named|is|=|:|number|no\.|to|by|of)?{value}").match(text, word.end())
        if not after or after[1] == "of" or plain(after[2].strip(".")):
            continue
        if after[2][0] in "\"“`'" or after[1] or re.search(r"[\d#_./~^-]", after[2].rstrip(".")):
            return Picked(_bare(after[2]), frozenset({after.start(2)}))
    return None


def _bare(value: str) -> str:
    return value[1:-1] if value[0] in "\"“`'" and len(value) > 1 else value.rstrip(".,").lstrip("#")


def numbers(wanted: Want, text: Text) -> Iterator[Picked]:
    """The numbers that a parameter may take, in their order; a percentage as a share unless percent is asked for."""
    found = [one for one in text.values if one.number is not None]
    if len(found) > 1 and _TAKEN_FROM.search(text.text, 0, 1000):
        found.reverse()
    percent = re.search(
        r"%|\bpercent|\bpct\b", f"{wanted.key} {wanted.about}".replace("_", " "), re.IGNORECASE
    )
    if percent:
        found.sort(key=lambda one: one.kind != "percent")
    for one in found:
        value = one.number
        if one.kind == "percent" and not percent and value is not None:
            value = float(f"{value / 100:.12g}")
        yield Picked(value, frozenset({one.start}))


def pick(wanted: Want, text: Text, used: Set[int], *, role: str, loose: bool = False) -> Picked | None:
    """The value of a role in a text, the taken ones left out.

    Args:
        loose: take also what only might be meant; for a parameter that must be given.
    """
    if role == "zone":
        return _best(wanted, text, used, list(_zones(text, wanted)))
    if role == "expression":
        return expression(text)
    if role == "language":
        code = re.search(r"\bcode|iso", wanted.about, re.IGNORECASE) is not None
        return _best(wanted, text, used, list(languages(text, code)))
    if role == "currency":
        return _best(wanted, text, used, list(money(text)))
    if role == "place":
        return place(text, used)
    if role == "text":
        return wording(wanted, text, used, loose=loose)
    if role == "name":
        return called(wanted, text, used) if loose else None
    kinds = _KINDS.get(role)
    if kinds is None:
        return None
    found = [(one, _shaped(role, one, wanted)) for one in text.values if one.kind in kinds]
    return _best(wanted, text, used, [(one, said) for one, said in found if said is not None], loose)


_KINDS: Mapping[str, tuple[str, ...]] = {
    "email": ("email",), "url": ("url",), "path": ("path", "quoted"), "id": ("id", "hash"), "pattern": ("glob",),
    "datetime": ("datetime", "date"), "time": ("time", "datetime"),
}  # fmt: skip


def _shaped(role: str, one: Found, wanted: Want) -> str | None:
    if role == "time":
        return one.text if one.kind == "time" else one.text[11:16]
    if role == "id":
        return one.text.lstrip("#")
    if one.kind == "quoted":
        return one.text if _PATHLIKE.fullmatch(one.text) else None
    return one.text


def left(wanted: Want, text: Text, used: Set[int], *, kinds: Sequence[str]) -> Picked | None:
    """What no other parameter took: the kinds in their order, and of each the one on the parameter's side."""
    for kind in kinds:
        found = [(one, one.text) for one in text.values if one.kind == kind]
        best = _best(wanted, text, used, found, True)
        if best:
            return best
    return None


def _best(
    wanted: Want, text: Text, used: Set[int], found: Sequence[tuple[Found, str]], loose: bool = False
) -> Picked | None:
    """The value that stands on the parameter's side of "from … to …"; else the first."""
    free = [(one, said) for one, said in found if one.start not in used]
    best, most = None, -1
    for one, said in free:
        points = _side(wanted, text, one, alone=len(free) == 1) + _folder_or_file(wanted, one)
        if one.kind in ("date", "datetime") and wanted.end and "datetime" in wanted.roles:
            right = {"between", *_FROM_WORDS} if wanted.end == "from" else {"and", *_TO_WORDS}
            points = 5 if one.before in right else 1 if loose else -1
        if points > most:
            best, most = Picked(said, frozenset({one.start})), points
    return best


def _side(wanted: Want, text: Text, one: Found, *, alone: bool) -> int:
    """How much a value's place speaks for its end of a pair; a zone beside a time is where that time is."""
    clock = one.kind != "time" and any(
        other.kind == "time" and 0 <= one.start - other.end <= 6 for other in text.values
    )
    if wanted.end == "from":
        aimed = one.before in _TO_WORDS or (one.before == "in" and alone and not clock)
        return 2 + 4 * clock + 2 * (one.before in _FROM_WORDS) - 9 * aimed
    if wanted.end == "to":
        return 2 + 3 * (one.before in _TO_WORDS) - 2 * (one.before in _FROM_WORDS) - 2 * clock
    return 2


def _folder_or_file(wanted: Want, one: Found) -> int:
    if one.kind != "path":
        return 0
    file = re.search(r"\.(?!git$)\w{1,6}$", one.text) is not None
    names = wanted.labels | set(stems_of_name(wanted.key))
    if names & _FOLDERS:
        return -9 if file else 1
    return 2 * file if names & _FILES else 0


def _zones(text: Text, wanted: Want) -> Iterator[tuple[Found, str]]:
    """Zones by their own names and by places; the offset of a time where nothing else says it."""
    seen = False
    for one in text.values:
        zone = zones.zone_of(one.text) if one.kind in ("zone", "name") else None
        for part in one.text.split(" ") if one.kind == "name" and zone is None else ():
            zone = zone or zones.zone_of(part)
        if zone:
            seen = True
            yield one, _utc(zone, wanted)
    for after in re.finditer(r"\b(in|for|at|to|from)\s+([a-z]+)(?:\s+([a-z]+))?(?:\s+([a-z]+))?", text.text):
        parts = [part for part in after.groups()[1:] if part]
        for size in (3, 2, 1):
            zone = zones.zone_of(" ".join(parts[:size])) if size <= len(parts) else None
            if zone:
                seen = True
                yield Found("name", zone, after.start(2), after.end(2), after[1]), _utc(zone, wanted)
                break
    for one in text.values if not seen else ():
        offset = re.search(r"(?:Z|[+-]\d\d:?\d\d)$", one.text) if one.kind == "datetime" else None
        zone = zones.zone_of_offset(offset[0]) if offset else None
        if zone:
            yield one, _utc(zone, wanted)


def _utc(zone: str, wanted: Want) -> str:
    return "UTC" if zone == "Etc/UTC" and "UTC" in wanted.about and "Etc/UTC" not in wanted.about else zone
