"""Which time zone does a word mean?  Names of the IANA database, its cities, a few others, and offsets.

It reads the zone database of the system or of the package `tzdata`; without one only the names that stand here
are known. It has no clock: an offset becomes a zone that has it always.
"""

from __future__ import annotations

import re
import zoneinfo
from functools import lru_cache

__all__ = ["NAME", "zone_of", "zone_of_offset"]

NAME = re.compile(
    r"\b(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)/[\w+/-]{2,40}"
)
_REGIONS = ("Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
_OTHERS = """
America/Los_Angeles san francisco|seattle|california|silicon valley|pst|pacific time|san diego
America/New_York washington|boston|miami|philadelphia|atlanta|nyc|eastern time|est
Asia/Kolkata mumbai|delhi|new delhi|bangalore|bengaluru|chennai|india|hyderabad
Asia/Shanghai beijing|china|shenzhen
Asia/Tokyo osaka|kyoto|japan
Europe/Berlin munich|hamburg|frankfurt|cologne|germany|stuttgart
Europe/Paris france|lyon|marseille
Europe/London england|united kingdom|manchester|edinburgh|scotland
Europe/Madrid spain|barcelona
Europe/Rome italy|milan|naples
Europe/Zurich switzerland|geneva|basel
America/Toronto ottawa|montreal
America/Sao_Paulo rio de janeiro|brasilia
Etc/UTC utc|gmt|greenwich|zulu
"""
_ODD_OFFSETS = {
    330: "Asia/Kolkata", 345: "Asia/Kathmandu", 270: "Asia/Kabul", 390: "Asia/Yangon", 210: "Asia/Tehran",
    570: "Australia/Darwin", 525: "Australia/Eucla",
}  # fmt: skip


@lru_cache(maxsize=1)
def _table() -> dict[str, str]:
    table: dict[str, str] = {}
    known = sorted(zoneinfo.available_timezones())
    for name in known:
        region, _, rest = name.partition("/")
        if rest and region in _REGIONS:
            table.setdefault(rest.rpartition("/")[2].replace("_", " ").lower(), name)
    for line in _OTHERS.strip().splitlines():
        zone, _, places = line.partition(" ")
        table.update(dict.fromkeys(places.split("|"), zone))
    return table


def zone_of(words: str) -> str | None:
    """The zone that a place or a zone's own name means; None: none is known."""
    if NAME.fullmatch(words):
        return words
    return _table().get(" ".join(words.lower().split()))


def zone_of_offset(offset: str) -> str | None:
    """A zone that is always this far from UTC: `Z`, `+02:00` or `-0530`; None where there is none."""
    if offset.upper() in ("Z", "UTC", "GMT"):
        return "Etc/UTC"
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", offset)
    if not found:
        return None
    minutes = (int(found[2]) * 60 + int(found[3])) * (-1 if found[1] == "-" else 1)
    if minutes == 0:
        return "Etc/UTC"
    hours, odd = divmod(minutes, 60)
    if odd:
        return _ODD_OFFSETS.get(minutes)
    # The database counts its Etc zones westward.
    return f"Etc/GMT{-hours:+d}" if -12 <= hours <= 14 else None
