"""Which tools of an answer are taken, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.protocol.visible import one_line
from mew_lab.sdk.discovery import DiscoveredTool, read_tools


def tool(name: Any = "add", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


@pytest.mark.req("S-L2-27")
def test_a_tool_is_read_with_what_it_says_of_itself() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number"}}}
    told = tool(description="Adds.", inputSchema=schema, annotations={"readOnlyHint": True})
    found = read_tools("calculator", [told])
    assert found.tools == (DiscoveredTool("calculator", "add", "Adds.", schema, {"readOnlyHint": True}),)
    assert (list(found.entries), found.omitted) == ([told], "")


@pytest.mark.req("S-L2-27")
def test_description_and_schema_are_optional() -> None:
    assert read_tools("c", [tool()]).tools == (DiscoveredTool("c", "add", "", {"type": "object"}, {}),)
    odd = tool(description=7, inputSchema="x", annotations=[])
    assert read_tools("c", [odd]).tools == read_tools("c", [tool()]).tools


@pytest.mark.threat(17)
@pytest.mark.parametrize(
    "name", ["", None, 7, "a/b", "a\nb", "a\u202eb", "\x1b[2J", " add", "a\u200b", "x" * 129, {"a": 1}]
)
def test_a_name_that_cannot_be_called_or_seen_is_left_out(name: Any) -> None:
    found = read_tools("c", [tool(name), tool()])
    assert [one.name for one in found.tools] == ["add"]
    assert found.omitted.startswith("tools left out: 1 without a name that can be called")
    if name and isinstance(name, str):
        assert f"(such as {one_line(name, 60)})" in found.omitted


def test_the_first_of_two_with_one_name_stays() -> None:
    found = read_tools("c", [tool(description="first"), tool(description="second")])
    assert [one.description for one in found.tools] == ["first"]
    assert found.omitted == "tools left out: 1 with the name of another (such as add)"


@pytest.mark.threat(9)
def test_at_most_500_are_taken() -> None:
    found = read_tools("c", [tool(f"t{n}") for n in range(100_000)])
    assert len(found.tools) == len(found.entries) == 500
    assert (
        found.omitted
        == "tools left out: 500 beyond 500 (such as t500), 99000 beyond the first 1000 of the list"
    )


@pytest.mark.threat(9)
def test_a_schema_of_more_than_128_kib_is_left_out_and_so_is_what_is_too_much_together() -> None:
    def of(size: int) -> dict[str, Any]:
        return {"x": "y" * (size - len('{"x":""}'))}

    found = read_tools("c", [tool("fits", inputSchema=of(131_072)), tool("not", inputSchema=of(131_073))])
    assert [one.name for one in found.tools] == ["fits"]
    assert found.omitted == "tools left out: 1 with a schema that is too large (such as not)"
    many = read_tools("c", [tool(f"t{n}", inputSchema=of(65_536)) for n in range(100)])
    assert (len(many.tools), many.omitted) == (61, "tools left out: 39 beyond 4000000 bytes (such as t61)")
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert read_tools("c", [tool(inputSchema=deep)]).tools == ()


def test_a_long_description_is_cut_and_large_annotations_are_dropped() -> None:
    assert (
        read_tools("c", [tool(description="d" * 4_000_000)]).omitted
        == "tools left out: 1 beyond 4000000 bytes (such as add)"
    )
    [one] = read_tools("c", [tool(description="d" * 5000, annotations={"a": "b" * 5000})]).tools
    assert (len(one.description), one.annotations) == (4096, {})


@pytest.mark.threat(9, 52)
def test_of_a_list_1000_entries_are_looked_at_and_the_rest_is_counted() -> None:
    found = read_tools("c", [tool()] * 100_000)
    assert (len(found.tools), found.written[0].times) == (1, 1000)
    assert (
        found.omitted
        == "tools left out: 999 with the name of another (such as add), 99000 beyond the first 1000 of the list"
    )
