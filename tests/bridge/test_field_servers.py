"""Servers of the field as they come: all tools of each are listed and called, and none of the servers ends.

Some calls are of a table, and have a result. Then each tool is called with arguments that are made from its schema: it
answers, and be it with an error of its own, such as that there is no account or no network.

A table of what each server did is printed at the end, and is seen with `-s`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import compress, crc32

import pytest
from jsonschema import Draft202012Validator

from mew_lab.errors import OutcomeUnknown, ToolFailed
from mew_lab.lab.call_check import find_fault
from mew_lab.protocol.content import read_parts
from mew_lab.protocol.kept import ResultHead
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Site
from .made_arguments import PAGE, make_arguments
from .real_servers import NPM, PYPI, command_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
FILES = "{files}"  # in a word or an argument: the folder that the server may use
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
ANSWERED_WITHIN = 60.0  # seconds; a tool that waits for longer is cancelled, and its outcome unknown
KINDS = {"text", "image", "audio", "resource", "link", "structured"}


class FieldServer(NamedTuple):
    """A server: its words and variables, and calls in their order that it accepts and that change only its folder."""

    package: str
    words: Sequence[str] = ()
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    env: Mapping[str, str] = {}
    refuses: frozenset[str] = frozenset()  # tools whose calls the server itself answers with an error


class Outcomes(NamedTuple):
    """What became of one call of each tool: names of tools, with what was said of them."""

    answered: list[str]
    failed: list[str]  # by an error of the server
    refused: list[str]  # by us
    unknown: list[str]


async def call_each(human: MEWParticipant, tools: Sequence[Mapping[str, Any]], folder: Path) -> Outcomes:
    """Calls each tool with the required arguments of its schema, which a standard validator takes."""
    outcomes = Outcomes([], [], [], [])
    schemas = {str(tool["name"]): tool["inputSchema"] for tool in tools}
    # What others work on is not taken away before.
    for name in sorted(schemas, key=lambda name: re.search("close|delete|remove|stop", name) is not None):
        schema = schemas[name]
        arguments = make_arguments(name, schema, folder)
        assert not [*Draft202012Validator(schema).iter_errors(arguments)], (name, arguments)
        if fault := find_fault(f"it/{name}", arguments, tools):
            outcomes.refused.append(f"{name}: {fault}")
            continue
        try:
            async with asyncio.timeout(ANSWERED_WITHIN):
                await human.call(f"it/{name}", arguments)
        except ToolFailed as fault:
            is_ours = fault.code is not None and re.search("participant it|Not executed", str(fault))
            (outcomes.refused if is_ours else outcomes.failed).append(f"{name}: {fault}")
        except (OutcomeUnknown, TimeoutError) as fault:
            outcomes.unknown.append(f"{name}: {fault}")
        else:
            outcomes.answered.append(name)
    return outcomes


def file(name: str) -> dict[str, str]:
    return {"path": f"{FILES}/{name}"}


def cells(**more: Any) -> dict[str, Any]:
    return {**file("book.xlsx"), "sheet": "Sheet1", **more}


MEMORY = {"entityName": "a", "contents": ["grows"], "observations": ["grows"]}
RELATION = {"from": "a", "to": "a", "relationType": "is"}
REPOSITORY = {"repo_path": FILES}
SERVERS = [
    FieldServer(
        "@modelcontextprotocol/server-everything",
        ["stdio"],
        [
            ("echo", {"message": "hi"}),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ("get-env", {}),
            ("get-resource-links", {"count": 2}),
            ("get-resource-reference", {"resourceType": "Blob", "resourceId": 1}),
            ("get-resource-reference", {}),
            ("get-structured-content", {"location": "Chicago"}),
            ("get-sum", {"a": 1, "b": 2.5}),
            ("get-tiny-image", {}),
            ("gzip-file-as-resource", {"data": "data:text/plain,hello", "outputType": "resource"}),
            ("toggle-simulated-logging", {}),
            ("toggle-subscriber-updates", {}),
            ("trigger-long-running-operation", {"duration": 1, "steps": 2}),
        ],
    ),
    FieldServer(
        "@modelcontextprotocol/server-filesystem",
        [FILES],
        [
            ("list_allowed_directories", {}),
            ("create_directory", file("new")),
            ("write_file", {**file("new/note.txt"), "content": "one\ntwo"}),
            ("edit_file", {**file("new/note.txt"), "edits": [{"oldText": "one", "newText": "1"}]}),
            ("read_file", file("new/note.txt")),
            ("read_text_file", {**file("new/note.txt"), "head": 1}),
            ("read_multiple_files", {"paths": [f"{FILES}/new/note.txt", f"{FILES}/none"]}),
            ("read_media_file", file("dot.png")),
            ("read_media_file", file("tone.wav")),
            ("read_media_file", file("some.bin")),
            ("list_directory", {"path": FILES}),
            ("list_directory_with_sizes", {"path": FILES, "sortBy": "size"}),
            ("directory_tree", {"path": FILES}),
            ("search_files", {"path": FILES, "pattern": "**/*.txt"}),
            ("get_file_info", file("new/note.txt")),
            ("move_file", {"source": f"{FILES}/new/note.txt", "destination": f"{FILES}/moved.txt"}),
        ],
    ),
    FieldServer(
        "@modelcontextprotocol/server-memory",
        (),
        [
            (
                "create_entities",
                {"entities": [{"name": "a", "entityType": "plant", "observations": ["green"]}]},
            ),
            ("create_relations", {"relations": [RELATION]}),
            ("add_observations", {"observations": [MEMORY]}),
            ("read_graph", {}),
            ("search_nodes", {"query": "plant"}),
            ("open_nodes", {"names": ["a"]}),
            ("delete_observations", {"deletions": [MEMORY]}),
            ("delete_relations", {"relations": [RELATION]}),
            ("delete_entities", {"entityNames": ["a"]}),
        ],
        {"MEMORY_FILE_PATH": f"{FILES}/memory.jsonl"},
    ),
    FieldServer(
        "@modelcontextprotocol/server-sequential-thinking",
        (),
        [
            (
                "sequentialthinking",
                {"thought": "é", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
            )
        ],
    ),
    FieldServer(
        "@modelcontextprotocol/server-pdf",
        ["--stdio", f"{FILES}/page.pdf"],
        [("list_pdfs", {}), ("read_pdf_bytes", {"url": f"{FILES}/page.pdf"})],
    ),
    FieldServer("@modelcontextprotocol/server-video-resource", ["--stdio"], [("play_video", {})]),
    FieldServer(
        "@modelcontextprotocol/server-system-monitor",
        ["--stdio"],
        [("get-system-info", {}), ("poll-system-stats", {})],
    ),
    FieldServer(
        "@playwright/mcp",
        ["--headless", "--isolated", "--no-sandbox", "--executable-path", CHROMIUM, "--output-dir", FILES],
        [
            ("browser_navigate", {"url": PAGE}),
            ("browser_snapshot", {}),
            ("browser_take_screenshot", {}),
            ("browser_resize", {"width": 400, "height": 300}),
            ("browser_evaluate", {"function": "() => 1 + 1"}),
            ("browser_press_key", {"key": "Tab"}),
            ("browser_console_messages", {}),
            ("browser_network_requests", {}),
            ("browser_tabs", {"action": "list"}),
            ("browser_wait_for", {"time": 0.1}),
            ("browser_close", {}),
        ],
    ),
    FieldServer(
        "chrome-devtools-mcp",
        [
            "--headless",
            "--isolated",
            "--executablePath",
            CHROMIUM,
            "--chromeArg=--no-sandbox",
            "--no-usage-statistics",
        ],
        [
            ("new_page", {"url": PAGE}),
            ("list_pages", {}),
            ("take_snapshot", {"pageId": 2}),
            ("take_screenshot", {"pageId": 2}),
            ("evaluate_script", {"pageId": 2, "function": "() => 1 + 1"}),
            ("list_console_messages", {"pageId": 2}),
            ("list_network_requests", {"pageId": 2}),
            ("resize_page", {"pageId": 2, "width": 400, "height": 300}),
        ],
    ),
    FieldServer("@brave/brave-search-mcp-server", (), (), {"BRAVE_API_KEY": "none"}),
    FieldServer("@modelcontextprotocol/server-basic-vanillajs", ["--stdio"]),
    FieldServer("@softeria/ms-365-mcp-server", ["--org-mode"]),
    FieldServer("@upstash/context7-mcp"),
    FieldServer("mcp-server-kubernetes"),
    FieldServer("tavily-mcp", (), (), {"TAVILY_API_KEY": "none"}),
    FieldServer(
        "@zereight/mcp-gitlab",
        (),
        [("get_project", {"project_id": "1"})],
        {"GITLAB_PERSONAL_ACCESS_TOKEN": "none", "GITLAB_API_URL": "http://127.0.0.1:9/api/v4"},
        frozenset({"get_project"}),
    ),
    FieldServer("@notionhq/notion-mcp-server", (), (), {"NOTION_TOKEN": "none"}),
    FieldServer("mongodb-mcp-server", ["--telemetry", "disabled"], [("list-connections", {})]),
    FieldServer("@eslint/mcp", (), [("lint-files", {"filePaths": [f"{FILES}/some.js"]})]),
    FieldServer(
        "excel-mcp-server",
        ["stdio"],
        [
            ("create_workbook", file("book.xlsx")),
            ("describe_workbook", file("book.xlsx")),
            ("write_range", cells(at="A1", rows=[["n", "é"], [1, 2.5], [None, True]])),
            ("read_range", cells()),
            ("find_cells", {**file("book.xlsx"), "query": "é"}),
            ("describe_sheet", cells()),
        ],
    ),
    FieldServer("markitdown-mcp", (), [("convert_to_markdown", {"uri": "data:text/html,<h1>Hello</h1>"})]),
    FieldServer("mcp-server-fetch"),
    FieldServer(
        "mcp-server-git",
        ["--repository", FILES],
        [
            ("git_status", REPOSITORY),
            ("git_add", {**REPOSITORY, "files": ["dot.png"]}),
            ("git_diff_staged", REPOSITORY),
            ("git_diff_unstaged", {**REPOSITORY, "context_lines": 1}),
            ("git_commit", {**REPOSITORY, "message": "A dot"}),
            ("git_log", {**REPOSITORY, "max_count": 1}),
            ("git_show", {**REPOSITORY, "revision": "HEAD"}),
            ("git_create_branch", {**REPOSITORY, "branch_name": "other"}),
            ("git_checkout", {**REPOSITORY, "branch_name": "other"}),
            ("git_branch", {**REPOSITORY, "branch_type": "local"}),
            ("git_diff", {**REPOSITORY, "target": "HEAD"}),
            ("git_reset", REPOSITORY),
        ],
    ),
    FieldServer(
        "mcp-server-time",
        ["--local-timezone", "UTC"],
        [
            ("get_current_time", {"timezone": "Asia/Tokyo"}),
            ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
        ],
    ),
]
TOOLS = {"@softeria/ms-365-mcp-server": 344}  # as the server says; the others of the table have at least one


def filled(value: Any, folder: Path) -> Any:
    """A value of the table with the server's folder in it."""
    return json.loads(json.dumps(value).replace(FILES, str(folder)))


def write_files(folder: Path) -> None:
    """The files that the calls read: a picture, a sound, a page, a script, and bytes of no kind."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    dot = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", compress(b"\0\0")) + chunk(b"IEND", b"")
    (folder / "dot.png").write_bytes(dot)
    samples = bytes(800)
    form = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    sound = b"WAVEfmt " + form + b"data" + struct.pack("<I", len(samples)) + samples
    (folder / "tone.wav").write_bytes(b"RIFF" + struct.pack("<I", len(sound)) + sound)
    (folder / "page.pdf").write_bytes(
        b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
    )
    (folder / "some.bin").write_bytes(bytes(range(256)))
    (folder / "some.js").write_text("let a = 1\n")
    (folder / "eslint.config.mjs").write_text("export default []\n")


@pytest.fixture(scope="module")
def table() -> Iterator[list[Sequence[object]]]:
    rows: list[Sequence[object]] = [
        (
            *("server", "version", "tools", "start ms", "calls", "kinds", "faults of it"),
            *(*Outcomes._fields, "not answered"),
        ),
    ]
    yield rows
    for row in rows:
        print(*row, sep=" | ")
    seen = {kind for row in rows[1:] for kind in str(row[5]).split()}
    if len(rows) > len(SERVERS):
        assert seen >= KINDS, f"no server gave {KINDS - seen}"


def kinds_of(raw: Any) -> set[str]:
    """The kinds of the parts of a result, as one place of the package reads them."""
    return {part.kind for part in read_parts(raw)}


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.package)
async def test_all_tools_are_listed_its_calls_are_answered_and_it_does_not_end(
    site: Site, server: FieldServer, repository: Path, table: list[Sequence[object]]
) -> None:
    if CHROMIUM in server.words and not CHROMIUM:
        pytest.skip("no Chromium on PATH")
    write_files(repository)
    words = filled([*server.words], repository)
    command = [*command_of(server.package), *words]
    began = time.monotonic()
    bridge = await site.bridge(
        command, name="it", env=filled(dict(server.env), repository), cwd=repository, start_timeout=300
    )
    started = time.monotonic() - began
    human = await site.seat("human")
    tools = await human.list_tools("it")
    assert (
        len(tools) == len(bridge.listed.tools) >= TOOLS.get(server.package, 1) and not bridge.listed.omitted
    )
    kinds: set[str] = set()
    faults: list[str] = []
    for tool, arguments in filled(server.calls, repository):
        assert find_fault(f"it/{tool}", arguments, tools) == "", "what the server accepts is not refused here"
        try:
            result = await human.call(f"it/{tool}", arguments)
        except ToolFailed as fault:
            assert tool in server.refuses, fault
            faults.append(tool)
        else:
            assert tool not in server.refuses, result
            raw = result.raw
            if (head := ResultHead.of(raw)) is not None:
                raw = await human.results.load(head, by="it")
            kinds |= kinds_of(raw)
            assert kinds, tool
    outcomes = await call_each(human, tools, repository)
    assert "it" in human.client.participants and not site.ended
    about = [server.package, {**NPM, **PYPI}[server.package], len(tools), round(1000 * started)]
    ends = [*map(len, outcomes), ", ".join(outcomes.unknown)]
    table.append([*about, len(server.calls), " ".join(sorted(kinds)), ", ".join(faults), *ends])
    assert not outcomes.refused, "what the server may accept is not refused here"
