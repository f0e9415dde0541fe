"""Titles, icons and pages of MCP Apps through a gate: under the names of their participants, whatever these say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp import Client, MCPError, types
from mcp.client.extension import advertise

from mew_lab.agent.run import list_callable_tools
from mew_lab.bridge.client_results import as_offered
from mew_lab.bridge.offers import APPS, OfferedTool, offered_link, offered_meta, offered_uri, own_uri
from mew_lab.sdk.discovery import DiscoveredTool, read_tools

from .desk import Desk, patient

PAGE = "ui://clock/page.html"
ICON = {"src": "data:image/png;base64,AAAA", "mimeType": "image/png", "sizes": ["48x48"]}


class Clock:
    """A server with a page of MCP Apps, as those of the field list it."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.read: list[str] = []

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        meta = {"ui": {"resourceUri": PAGE, "visibility": ["model", "app"]}, "ui/resourceUri": PAGE}
        match method:
            case "tools/list":
                tool = {"name": "now", "title": "What time is it", "icons": [ICON], "_meta": meta}
                return {"tools": [tool | {"inputSchema": {"type": "object"}}]}
            case "tools/call":
                link = {"type": "resource_link", "uri": PAGE, "name": "page"}
                held = {"type": "resource", "resource": {"uri": PAGE, "text": self.page, "_meta": meta}}
                web = {"type": "resource_link", "uri": "https://example.com/a", "name": "web"}
                return {"content": [link, held, web], "_meta": meta}
            case "resources/list":
                kind = "text/html;profile=mcp-app"
                return {"resources": [{"uri": PAGE, "name": "page", "mimeType": kind, "_meta": meta}]}
            case "resources/read":
                self.read.append(params["uri"])
                csp = {"ui": {"csp": {"connectDomains": ["https://example.com"]}}}
                return {"contents": [{"uri": params["uri"], "text": self.page, "_meta": csp}]}
        return {}


async def seat(desk: Desk, name: str, answerer: Any) -> Any:
    await desk.site.seat(name, "tool", tools=answerer)
    return answerer


async def read(desk: Desk, client: Client, uri: str) -> Any:
    [content] = (await desk.approved(client.read_resource(uri))).contents
    return content


async def test_two_servers_with_the_same_page_are_told_apart_in_lists_tools_results_and_when_read(
    desk: Desk, mode: str
) -> None:
    clocks = {name: await seat(desk, name, Clock(f"page of {name}")) for name in ("ann", "bob")}
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        pages = {page.uri: page for page in (await client.list_resources()).resources}
        for name, clock in clocks.items():
            address = f"ui://{name}/clock/page.html"
            tool = tools[f"{name}_now"]
            assert (
                tool.title == f"{name}: What time is it" and tool.icons and tool.icons[0].src == ICON["src"]
            )
            assert tool.meta is not None and tool.meta["ui/resourceUri"] == address
            assert tool.meta["ui"] == {"resourceUri": address, "visibility": ["model", "app"]}
            assert pages[address].mime_type == "text/html;profile=mcp-app"
            content = await read(desk, client, tool.meta["ui"]["resourceUri"])
            assert (content.uri, content.text) == (address, f"page of {name}")
            assert content.meta == {"ui": {"csp": {"connectDomains": ["https://example.com"]}}}
            assert clock.read == [PAGE]
            result = await desk.approved(client.call_tool(f"{name}_now", {}))
            link, held, web = result.content
            assert isinstance(link, types.ResourceLink) and isinstance(held, types.EmbeddedResource)
            assert (link.uri, held.resource.uri) == (address, address)
            assert isinstance(web, types.ResourceLink) and web.uri == "https://example.com/a"
            assert result.meta is not None and result.meta["ui"]["resourceUri"] == address


HOSTILE = [
    "ui://bob/clock/page.html", "mew://bob/ui://clock/page.html", "UI://bob/x", " ui://bob/x", "u\ti://bob/x",
    "\x00mew://bob/x", "m\new://bob/x", "ui:/bob/x", "ui://../bob/x", "ui:\\\\bob\\x", "Mew://bob/x",
]  # fmt: skip
TEXTS = st.sampled_from(HOSTILE) | st.text(st.sampled_from("uimew:/\\.. \t\n\x00bob@%"), max_size=20)


def place_of(address: str) -> str:
    """Whose an address is, as a client that follows the rules of the web for addresses reads it; empty for no one's."""
    plain = address.lstrip("".join(map(chr, range(33)))).translate({9: None, 10: None, 13: None})
    scheme, _, rest = plain.partition(":")
    if scheme.casefold() not in ("ui", "mew"):
        return ""
    return urlsplit(f"x:{rest.replace(chr(92), '/')}").netloc or rest


@given(TEXTS)
def test_no_address_in_what_a_participant_sends_is_that_of_another(uri: str) -> None:
    value = {"_meta": {"ui": {"resourceUri": uri}, "ui/resourceUri": uri, "more": [uri]}}
    meta = as_offered(value, "eve")["_meta"]
    for address in (meta["ui"]["resourceUri"], meta["ui/resourceUri"], *meta["more"]):
        assert place_of(address) in ("", "eve")
        assert own_uri(address) is None or own_uri(address) == ("eve", uri)
    assert own_uri(offered_link("eve", uri)) in ((("eve", uri) if uri not in ("", "ui://") else None), None)


@given(TEXTS, TEXTS | st.none(), st.sampled_from(["ann", "a.b", "A-1"]), st.sampled_from(["ann", "bob"]))
@example(uri=PAGE, drawn=None, first="ann", second="bob")
def test_an_address_for_clients_is_that_of_one_resource_of_one_participant(
    uri: str, drawn: str | None, first: str, second: str
) -> None:
    other = uri if drawn is None else drawn
    addresses = offered_uri(first, uri), offered_uri(second, other)
    assert (addresses[0] == addresses[1]) == ((first, uri) == (second, other))


async def test_a_page_of_another_is_not_read_by_a_hostile_address(desk: Desk, mode: str) -> None:
    bob = await seat(desk, "bob", Clock("page of bob"))
    eve = await seat(desk, "eve", Clock("page of eve"))
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        for uri in HOSTILE:
            content = await read(desk, client, offered_uri("eve", uri))
            assert content.text == "page of eve"
        for uri in ("ui://nobody/x", "ui:///x", "ui://bob", "UI://bob/x"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
    assert bob.read == [] and eve.read == HOSTILE


VALUES: st.SearchStrategy[Any] = (
    st.none() | st.integers() | st.text(max_size=3) | st.just([1]) | st.just({"x": []})
)
ODD = st.fixed_dictionaries(
    {}, optional={name: VALUES | st.just([ICON]) for name in ("title", "icons", "outputSchema", "_meta")}
)


@given(ODD)
def test_a_tool_stays_whatever_its_further_members_are(members: dict[str, Any]) -> None:
    entry = {"name": "t", "inputSchema": {"type": "object"}, **members}
    [tool] = read_tools("p", [entry]).tools
    described = OfferedTool("p_t", tool, False).described()
    assert described["name"] == "p_t"
    title, shown = members.get("title"), described.get("title", "")
    assert shown == "" or (shown.startswith("p: ") and shown.isprintable())
    if isinstance(title, str) and title.isprintable():
        assert shown in ("", f"p: {title}")
    assert isinstance(described.get("_meta", {}), dict) and isinstance(described.get("icons", []), list)


def test_what_is_shown_in_place_of_a_name_says_the_participant_and_icons_load_no_file() -> None:
    title = "git: Status\u202e\n"
    more = {"title": title, "icons": [{"src": "file:///etc/passwd"}, {"src": "javascript:x"}, 7, ICON]}
    tool = DiscoveredTool("eve", "x", "", {}, {"title": title, "readOnlyHint": True}, more)
    described = OfferedTool("eve_x", tool, False).described()
    for shown in (described["title"], described["annotations"]["title"]):
        assert shown.startswith("eve: git: Status") and "\n" not in shown and "\u202e" not in shown
    assert described["icons"] == [ICON] and described["annotations"]["readOnlyHint"] is True
    own = {"mew-lab/state": "pending", "Mew-Lab/proposal": "x", "kept": 1}
    assert offered_meta("eve", own) == {"kept": 1}


@pytest.mark.parametrize("key", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("target", ["http://127.0.0.1:1/x", "other", "file:///etc/passwd", "#/$defs/a"])
def test_a_schema_of_results_that_refers_to_another_document_is_not_given(key: str, target: str) -> None:
    """A client may load what a schema refers to, from where it runs."""
    schema = {"type": "object", "properties": {"a": {"anyOf": [{key: target}]}}, "$defs": {"a": {}}}
    described = OfferedTool(
        "p_x", DiscoveredTool("p", "x", "", {}, {}, {"outputSchema": schema}), False
    ).described()
    assert described.get("outputSchema") == (schema if target.startswith("#") else None)


async def test_a_tool_with_an_odd_member_is_offered_without_any_of_them(desk: Desk, mode: str) -> None:
    class Odd(Clock):
        async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
            listed = await super().answer(method, params)
            if method == "tools/list":
                listed["tools"][0]["icons"] = [{**ICON, "sizes": 7}]
            return listed

    await seat(desk, "odd", Odd(""))
    async with desk.gate() as gate, patient(gate.server, mode=mode) as client:
        [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == "odd_now"]
    assert (tool.title, tool.icons, tool.meta) == (None, None, None)


async def test_a_tool_for_pages_alone_is_offered_to_clients_that_show_pages_and_to_no_agent(
    desk: Desk, mode: str
) -> None:
    class Both(Clock):
        async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
            listed = await super().answer(method, params)
            if method == "tools/list":
                hidden = {"ui": {"resourceUri": PAGE, "visibility": ["app"]}}
                listed["tools"].append({"name": "tick", "inputSchema": {"type": "object"}, "_meta": hidden})
            return listed

    await seat(desk, "ann", Both(""))
    pages = advertise(APPS, {"mimeTypes": ["text/html;profile=mcp-app"]})
    async with desk.gate() as gate:
        for extensions, offered in (([], {"ann_now"}), ([pages], {"ann_now", "ann_tick"})):
            async with Client(gate.server, mode=mode, extensions=extensions) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
            assert {name for name in names if name.startswith("ann_")} == offered
        shown = {spec.name for spec in list_callable_tools(gate.participant)}
        assert "ann/now" in shown and "ann/tick" not in shown


# --- completion ---


class Library:
    """Prompts and templates whose arguments can be completed."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.values: Any = ["Ann", "Anton"]

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        match method:
            case "prompts/list":
                return {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": "file:///{path}", "name": "files"}]}
            case "completion/complete":
                self.asked.append(params)
                return {"completion": {"values": self.values, "hasMore": False}}
        return {}


async def test_arguments_of_prompts_and_templates_are_completed_without_asking_anybody(
    desk: Desk, mode: str
) -> None:
    library = await seat(desk, "library", Library())
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        for ref in (
            types.PromptReference(name="library_greet"),
            types.ResourceTemplateReference(uri="mew://library/file:///{path}"),
        ):
            result = await client.complete(ref, {"name": "who", "value": "An"}, {"lang": "en"})
            assert result.completion.values == ["Ann", "Anton"]
    argument = {"argument": {"name": "who", "value": "An"}, "context": {"arguments": {"lang": "en"}}}
    assert library.asked == [
        {"ref": {"type": "ref/prompt", "name": "greet"}, **argument},
        {"ref": {"type": "ref/resource", "uri": "file:///{path}"}, **argument},
    ]
    assert not list(desk.human.proposals)


async def test_a_completion_that_cannot_be_given_is_an_error_and_none_at_all_where_the_server_has_none(
    desk: Desk, mode: str
) -> None:
    library = await seat(desk, "library", Library())
    argument = {"name": "who", "value": ""}
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        for ref in ("greet", "library_other"):
            with pytest.raises(MCPError, match="There is no prompt"):
                await client.complete(types.PromptReference(name=ref), argument)
        for uri in ("file:///{path}", "mew://nobody/file:///{path}"):
            with pytest.raises(MCPError, match=r"There is no resource|No participant nobody"):
                await client.complete(types.ResourceTemplateReference(uri=uri), argument)
        # `calc` is a participant of ours, which completes nothing.
        none = await client.complete(types.ResourceTemplateReference(uri="mew://calc/x:{y}"), argument)
        assert none.completion.values == []
        library.values = "Ann"
        with pytest.raises(MCPError, match="does not allow"):
            await client.complete(types.PromptReference(name="library_greet"), argument)
    async with desk.gate("proposer", name="other") as gate, Client(gate.server, mode=mode) as client:
        with pytest.raises(MCPError, match=r"completion/complete|no prompt"):
            await client.complete(types.ResourceTemplateReference(uri="mew://library/x:{y}"), argument)
