"""What does a parameter want?  Kinds of value, by its name, title, description and format; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mew_lab.agent.offline.vocabulary import stem, stemmed
from mew_lab.agent.offline.wording import words

__all__ = ["Want", "stems_of_name", "want"]


# The first rows are told by the description as well as by the name; the rest by the name first.
_SPECIFIC = (
    ("zone", stemmed("timezone tz iana")),
    ("email", stemmed("email recipient")),
    ("url", stemmed("url uri href link")),
    ("expression", stemmed("expression formula equation arithmetic")),
    ("language", stemmed("language lang locale")),
    ("currency", stemmed("currency")),
)
_PLAINER = (
    ("pattern", stemmed("pattern glob regex wildcard")),
    ("count", stemmed("count limit max maximum top many results lines days hours depth")),
    ("text", stemmed("query message text content contents title body comment subject note question term keyword topic "
                     "prompt summary phrase description")),
    ("path", stemmed("path file files filename directory folder dir repo repository cwd workspace")),
    ("id", stemmed("id identifier hash sha uuid revision ref commit ticket issue key code number")),
    ("datetime", stemmed("date day timestamp since until deadline due when datetime")),
    ("time", stemmed("time hour clock hh")),
    ("place", stemmed("city place town location country region where station airport")),
    ("name", stemmed("name branch user assignee person owner label tag to target who participant")),
)  # fmt: skip
_FROM = stemmed("source src from origin original start begin since after old")
_TO = stemmed("target destination dest to end until before output into new")
_FORMATS = {
    "date-time": "datetime",
    "date": "datetime",
    "time": "time",
    "email": "email",
    "uri": "url",
    "url": "url",
}
_EMPTY_LABELS = stemmed("name id path type value text string number to from max min the count identifier")
_OPTION = re.compile(r"(?<!\w)'([A-Za-z][\w-]{0,30})'")


class Want(NamedTuple):
    """A parameter as words: what kinds of value it may want, best first, and which end of a pair it is."""

    key: str
    about: str
    roles: tuple[str, ...]
    end: str  # "from", "to" or ""
    labels: frozenset[str]
    options: tuple[str, ...] = ()


def want(key: str, schema: Mapping[str, Any]) -> Want:
    """What a parameter wants, as far as its definition says so."""
    title = schema.get("title") if isinstance(schema.get("title"), str) else ""
    about = schema.get("description") if isinstance(schema.get("description"), str) else ""
    about = str(about)[:600]
    # Time zones are one word here, as in most names of parameters.
    named = stems_of_name(f"{key[:80]} {str(title)[:80]}")
    said = stems_of_name(re.split(r"[.;(]\s", about, maxsplit=1)[0] or about)
    roles = [role for role, ones in _SPECIFIC if ones & {*named, *said}]
    shape = schema.get("format")
    if isinstance(shape, str) and shape in _FORMATS:
        roles.insert(0, _FORMATS[shape])
    roles += [role for role, ones in _PLAINER if ones & set(named)]
    roles += [role for role, ones in _PLAINER if ones & set(said)]
    end = ""
    for side in (set(named), set(said)):
        if not end:
            end = "from" if side & _FROM else "to" if side & _TO else ""
    examples = re.search(r"e\.g|such as|example|instance", about, re.IGNORECASE)
    options = () if examples else tuple(dict.fromkeys(_OPTION.findall(about)))
    # A name that says nothing leaves the saying to the description.
    speaks = any(ones & set(named) for _, ones in (*_SPECIFIC, *_PLAINER))
    labels = frozenset(one for one in (named if speaks else [*named, *said]) if len(one) > 1) - _EMPTY_LABELS
    return Want(key, about, tuple(dict.fromkeys(roles)), end, labels, options if len(options) > 1 else ())


def stems_of_name(name: str) -> list[str]:
    """The stems of all words of a name, small ones too."""
    text = re.sub(
        r"time[\s_-]*zone", "timezone", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name), flags=re.IGNORECASE
    )
    return [stem(word) for word in words(text)]
