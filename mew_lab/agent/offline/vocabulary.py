"""What may an English word also mean?  Its stem, what else it may say, and whether it says anything at all; pure.

The table of meanings is general English, for a few everyday subjects. It knows no tool.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = [
    "CHANGING",
    "GENERIC",
    "ORDERING",
    "QUESTIONS",
    "STOP",
    "VERBS",
    "arithmetic",
    "meanings",
    "plain",
    "stem",
    "stemmed",
]

# Words of one line may stand for each other. A word may stand in several lines.
_MEANINGS = """
multiply multiplication product percent percentage tip factor twice double
adding plus sum total addition altogether
subtract minus subtraction less
divide quotient division half
calculate compute arithmetic evaluate expression math formula plus minus multiply divide percent adding sum subtract
difference diff compare change changed modified modify edit differ
log history last latest recent newest past previous
commit revision record
record commit
search find query lookup seek google
read open contents content view inside print
write save store
create make new raise begin
delete remove erase drop discard
move rename
copy duplicate
send post mail deliver dispatch notify
convert conversion turn transform
translate translation language
time clock hour oclock
now current currently present today
timezone zone
weather forecast temperature rain raining rainy sunny cold warm hot degree climate snow wind umbrella sky
city place town location
directory folder dir
file document entry
directory folder path file
repository repo
switch checkout
status state situation progress
ticket issue bug incident
close resolve finish complete
comment remark note
person user people member contact
count many number amount
mail email
list enumerate all
assignee assign
price cost stock quote
currency money exchange dollar euro yen pound franc usd eur gbp jpy chf
reminder remind appointment meeting event calendar
web internet online website page url
summary summarize summarise shorten
unstage reset
stage staging staged adding
"""


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The word without its ending, so that "converts" and "converting" meet; not always a word itself."""
    word = word.lower().replace("’", "'").removesuffix("'s")[:40]
    if len(word) > 4 and word.endswith(("ies", "ied")):
        word = word[:-3] + "y"
    elif len(word) > 4 and word.endswith(("sses", "ches", "shes", "xes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    elif len(word) > 6 and word.endswith("ee"):
        word = word[:-2]
    for ending in ("ing", "ed"):
        if (
            len(word) > len(ending) + 2
            and word.endswith(ending)
            and re.search("[aeiouy]", word[: -len(ending)])
        ):
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@lru_cache(maxsize=1)
def _table() -> dict[str, frozenset[int]]:
    table: dict[str, frozenset[int]] = {}
    for number, line in enumerate(_MEANINGS.split("\n")):
        for word in line.split():
            table[stem(word)] = table.get(stem(word), frozenset()) | {number}
    return table


def meanings(one: str) -> frozenset[int]:
    """Which lines of the table of meanings a stem stands in."""
    return _table().get(one, frozenset())


def arithmetic(one: str) -> bool:
    """Whether a stem may speak of calculating."""
    return not meanings(one).isdisjoint(meanings("arithmetic"))


def stemmed(words: str) -> frozenset[str]:
    """The stems of words with spaces between them."""
    return frozenset(stem(word) for word in words.split())


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


QUESTIONS = _words("what when who whom whose which how where why is are was were does did do has have will")
STOP = QUESTIONS | _words(
    "a an the of to in on at for from by with as into onto about and or but if then than so also too since until "
    "against between yet i you your we us our me my mine it its it's this that these those them they "
    "there here he she his her be been being am had would can could shall should may might must not no s "
    "t ll re ve m d e g some any many much just only very really want need like let know tell say give "
    "please kindly hi hello hey thanks thank ok okay use using used one ones result called named"
)
ORDERING = stemmed("last latest newest recent past previous first next new")
GENERIC = stemmed(
    "get fetch show list display return view see look print provide find retrieve obtain read give tell "
    "check make do open specific"
)
CHANGING = stemmed(
    "create write delete remove erase record commit save store switch checkout reset unstage stage adding "
    "send post update put set move rename copy close reopen assign edit modify change overwrite append "
    "insert drop discard kill stop start restart cancel book order buy pay schedule invite push merge "
    "revert apply install uninstall upload register subscribe publish execute run notify email mail file "
    "raise remind clear purge replace approve reject grant revoke "
    "kick resolve wipe destroy format terminate shutdown disable enable lock unlock deploy launch transfer "
    "deposit charge refund ban block submit trigger toggle"
)
VERBS = (
    GENERIC
    | CHANGING
    | stemmed(
        "search query calculate compute evaluate multiply divide subtract sum convert translate compare count "
        "summarize summarise describe explain open lookup weigh measure estimate turn inspect validate "
        "analyze analyse download sort filter work figure say let"
    )
)


def plain(word: str) -> bool:
    """Whether a word says nothing of its own: an article, a verb, a question word."""
    return word.lower() in STOP or stem(word) in VERBS
