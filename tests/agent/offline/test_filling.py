"""Arguments from JSON Schema: each type, what is said and seen, and nothing made up."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.agent.offline.filling import Filled, fill
from mew_lab.agent.offline.finding import ANAPHOR, Text
from mew_lab.agent.offline.supplying import Sources


def filled(step: str, required: str = "", seen: str = "", **properties: Any) -> Filled:
    """Properties filled from a step; it points back at `seen` where it holds such a word."""
    back = bool(seen) and ANAPHOR.search(step) is not None
    sources = Sources(Text.of(step), (), (Text.of(seen),) if seen else (), back)
    return fill({"type": "object", "properties": properties, "required": required.split()}, sources)


def only(step: str, schema: dict[str, Any], *, key: str = "x", seen: str = "") -> Any:
    """What one required parameter is filled with; "missing" where nothing gives it."""
    given = filled(step, key, seen, **{key: schema})
    assert bool(given.missing) == (key not in given.arguments)
    return given.arguments.get(key, "missing")


STRING = {"type": "string"}
TARGET = {"type": "string", "description": "Target time zone"}


@pytest.mark.parametrize(
    ("step", "key", "schema", "wanted"),
    [
        ("set it to 7", "x", {"type": "integer"}, 7),
        ("a tip of 15%", "rate", {"type": "number"}, 0.15),
        ("a tip of 15%", "rate", {"type": "number", "description": "in percent"}, 15),
        ("pay $85.50", "x", {"type": "number"}, 85.5),
        ("pay 1,250 in all", "x", {"type": "number"}, 1250),
        ("take two of them", "x", {"type": "integer"}, 2),
        ("between 3 and 40", "x", {"type": "integer", "minimum": 10}, 40),
        ("3.5 of them", "x", {"type": "integer"}, "missing"),
        ("nothing", "x", {"type": "integer"}, "missing"),
        ("nothing", "x", {"type": "integer", "default": 4}, 4),
        ("nothing", "x", {"const": "fixed"}, "fixed"),
        ("nothing", "x", {"type": "null"}, None),
        ("turn it up, high please", "level", {"enum": ["low", "high"]}, "high"),
        ("nothing", "level", {"enum": ["low", "high"]}, "missing"),
        ("nothing", "level", {"enum": ["low", "all"]}, "all"),
        ("nothing", "recursive", {"type": "boolean"}, False),
        ("walk recursively", "recursive", {"type": "boolean"}, True),
        ("without hidden files", "include_hidden", {"type": "boolean"}, False),
        ('say "good day"', "message", STRING, "good day"),
        ("see https://example.org/a?b=1.", "link", {"type": "string", "format": "uri"}, "https://example.org/a?b=1"),
        ("for bot@example.org", "whom", {"type": "string", "format": "email"}, "bot@example.org"),
        ("look in ./src/lib", "folder", STRING, "./src/lib"),
        ("on 2026-03-02", "day", {"type": "string", "format": "date"}, "2026-03-02"),
        ("at 9:05 am", "time", {"type": "string", "description": "HH:MM"}, "09:05"),
        ("at half past", "time", {"type": "string", "description": "HH:MM"}, "missing"),
        ("there in Europe/Berlin", "tz", STRING, "Europe/Berlin"),
        ("from San Francisco", "timezone", STRING, "America/Los_Angeles"),
        ("nowhere", "timezone", {"type": "string", "description": "Use 'Etc/UTC' if no zone is given."}, "Etc/UTC"),
        ("weather in new york today", "city", STRING, "New York"),
        ("weather for Rio de Janeiro", "city", STRING, "Rio de Janeiro"),
        ("close #44", "ticket_id", STRING, "44"),
        ("show T-17 now", "ticket_id", STRING, "T-17"),
        ("compute 3 * (4 + 5)", "expression", STRING, "3 * (4 + 5)"),
        ("what is 15% of 85", "expression", STRING, "0.15 * 85"),
        ("the files a.txt and b/c.md", "files", {"type": "array", "items": STRING}, ["a.txt", "b/c.md"]),
        ("the sum of 1, 2 and 3.5", "values", {"type": "array", "items": {"type": "number"}}, [1, 2, 3.5]),
        ("nothing", "values", {"type": "array", "items": {"type": "number"}}, "missing"),
        ("take 5", "x", {"anyOf": [{"type": "null"}, {"type": "integer"}]}, 5),
        ("take 5", "x", {"type": ["null", "integer"]}, 5),
        ("into German", "language", {"type": "string", "description": "ISO 639-1 code"}, "de"),
    ],
)  # fmt: skip
def test_a_required_parameter_is_filled_by_its_schema(
    step: str, key: str, schema: dict[str, Any], wanted: Any
) -> None:
    value = only(step, schema, key=key)
    assert value == wanted and type(value) is type(wanted)


def test_a_value_is_given_once_and_a_pair_by_its_ends() -> None:
    given = filled("move b.txt to a.txt", "destination source", destination=STRING, source=STRING)
    assert given.arguments == {"destination": "a.txt", "source": "b.txt"}
    zones = {"source_zone": {"type": "string", "description": "IANA zone"}, "target_zone": TARGET}
    given = filled("convert 10:00 to Tokyo from Berlin", "source_zone target_zone", **zones)
    assert given.arguments == {"source_zone": "Europe/Berlin", "target_zone": "Asia/Tokyo"}


def test_an_optional_parameter_is_filled_only_where_the_step_speaks_of_it() -> None:
    optional = {"limit": {"type": "integer"}, "verbose": {"type": "boolean"}, "note": STRING, "path": STRING}
    assert filled("Show things", **optional).arguments == {}
    assert filled("Show the last 3 things in /srv, verbosely", **optional).arguments == {
        "limit": 3, "verbose": True, "path": "/srv",
    }  # fmt: skip


def test_a_nested_object_is_filled_and_what_it_lacks_is_named_by_its_path() -> None:
    place = {
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/name"}, "street": STRING, "days": {"type": "integer"}},
        "required": ["city", "days"],
    }
    schema = {"properties": {"place": place}, "required": ["place"], "$defs": {"name": STRING}}
    given = fill(schema, Sources(Text.of("Forecast in Oslo for 3 days")))
    assert given.arguments == {"place": {"city": "Oslo", "days": 3}} and given.missing == ()
    given = fill(schema, Sources(Text.of("Forecast in Oslo")))
    assert [key for key, _ in given.missing] == ["place.days"]


def test_what_was_seen_fills_what_the_step_points_at() -> None:
    record = '{"title": "x", "ticket": {"id": "T-31"}, "when": "2026-03-02T09:30:00+05:30", "price": 12.5}'
    assert only("close it", STRING, key="ticket_id", seen=record) == "T-31"
    assert only("double that", {"type": "number"}, key="price", seen=record) == 12.5
    assert (
        only("what time was that", {"type": "string", "description": "HH:MM"}, key="time", seen=record)
        == "09:30"
    )
    # India is the one zone of the table that is five and a half hours ahead of UTC.
    assert only("what time was that", STRING, key="source_timezone", seen=record) == "Asia/Kolkata"
    assert only("translate that", STRING, key="text", seen="Guten Tag") == "Guten Tag"
    assert only("translate this sky", STRING, key="text") == "missing"


def test_of_several_things_seen_the_ordinal_chooses() -> None:
    listed = '[{"id": "A-1"}, {"id": "A-2"}, {"id": "A-3"}]'
    for said, wanted in (("the first one", "A-1"), ("the second item", "A-2"), ("the last one", "A-3")):
        assert only(f"show {said}", STRING, key="item_id", seen=listed) == wanted


def test_of_two_numbers_the_one_that_is_pointed_at_keeps_its_place() -> None:
    number = {"type": "number"}
    assert filled("divide that by 2", "a b", "42", a=number, b=number).arguments == {"a": 42, "b": 2}
    assert filled("divide 2 by that", "a b", "42", a=number, b=number).arguments == {"a": 2, "b": 42}
    assert filled("subtract 5 from it", "a b", "42", a=number, b=number).arguments == {"a": 42, "b": 5}
