"""An output_log holds what its participant would receive, stays below its folder, and never costs the space anything."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mew_lab.gateway import sinks
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.gateway.outbox import Frame
from mew_lab.gateway.sinks import AppendedFile, LogSink, Sinks
from mew_lab.gateway.space_file import parse_space_file
from mew_lab.transport.link import Link

SPACE = """
space: {id: demo}
participants:
  anna: {capabilities: [{kind: "*"}]}
  eager: {capabilities: [{kind: chat}], output_log: logs/eager.jsonl, auto_connect: true}
  lazy: {capabilities: [{kind: chat}, {kind: stream/*}], output_log: lazy.jsonl}
"""


class Site:
    """A gateway with a space of a file, and its sinks."""

    def __init__(self, folder: Path, text: str = SPACE) -> None:
        self.folder = folder
        self.faults: list[str] = []
        file = parse_space_file(text, path=folder / "space.yaml", environ={})
        self.gateway = Gateway()
        self.gateway.add_space(file.config)
        self.sinks = Sinks(self.gateway, file, fault=self.faults.append)
        self.sinks.open()

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def kinds(self, name: str) -> list[Any]:
        return [one.get("kind") for one in self.lines(name)]

    def post(self, name: str, **message: Any) -> int:
        return self.gateway.post("demo", name, json.dumps(message)).status


@pytest.mark.req("P-3.8.1-1")
async def test_one_with_auto_connect_hears_from_the_start_and_its_welcome_first(tmp_path: Path) -> None:
    site = Site(tmp_path)
    anna = attach(site.gateway, "demo", "anna")
    await anna.send('{"kind":"chat","payload":{"text":"hello"}}')
    await heard(anna, "chat")
    welcome, presence, chat = site.lines("logs/eager.jsonl")
    assert (welcome["kind"], welcome["to"], welcome["payload"]["you"]["id"]) == (
        "system/welcome",
        ["eager"],
        "eager",
    )
    assert presence["payload"]["participant"]["id"] == "anna"
    assert (chat["from"], chat["payload"]) == ("anna", {"text": "hello"})
    assert site.lines("lazy.jsonl") == []
    assert {one["id"]: one["connected"] for one in site.gateway.participants("demo")}["lazy"] is False


async def heard(link: Link, kind: str) -> None:
    while json.loads(await link.receive())["kind"] != kind:
        pass


async def test_another_hears_from_its_first_http_message_on_that_one_included(tmp_path: Path) -> None:
    site = Site(tmp_path)
    anna = attach(site.gateway, "demo", "anna")
    await anna.send('{"kind":"stream/request","payload":{"direction":"upload"}}')
    await heard(anna, "stream/open")
    assert site.post("lazy", kind="chat", payload={"text": "now"}) == 200
    welcome, chat = site.lines("lazy.jsonl")
    assert [one["stream_id"] for one in welcome["payload"]["active_streams"]] == ["stream-1"]
    assert chat["payload"] == {"text": "now"}
    assert site.post("lazy", kind="chat", payload={"text": "again"}) == 200
    assert site.kinds("lazy.jsonl") == ["system/welcome", "chat", "chat"]


async def test_a_refused_message_is_told_in_the_log_of_its_sender_alone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.post("lazy", kind="mcp/request", payload={}) == 403
    assert site.kinds("lazy.jsonl") == ["system/welcome", "system/error"]
    assert "system/error" not in site.kinds("logs/eager.jsonl")


async def test_frames_are_lines_as_the_peers_write_them(tmp_path: Path) -> None:
    site = Site(tmp_path)
    anna = attach(site.gateway, "demo", "anna")
    await anna.send('{"kind":"stream/request","payload":{"direction":"upload"}}')
    await heard(anna, "stream/open")
    await anna.send("#stream-1#h\u00e9")
    await anna.send(b"#stream-1#\xff")
    await anna.send('{"kind":"chat","payload":{"text":"done"}}')
    while (said := await anna.receive()) and not (isinstance(said, str) and '"done"' in said):
        pass
    text, data = (one for one in (tmp_path / "logs/eager.jsonl").read_text().splitlines() if "Buffer" in one)
    assert (
        text
        == '{"type":"Buffer","data":'
        + json.dumps(list("#stream-1#h\u00e9".encode()), separators=(",", ":"))
        + "}"
    )
    assert json.loads(data)["data"] == list(b"#stream-1#\xff")


def test_each_message_is_one_compact_line(tmp_path: Path) -> None:
    lines: list[str] = []
    LogSink(lines.append).put(Frame('{\n  "kind": "chat",\n  "payload": {"text": "a\\nb \u00e9"}\n}'))
    assert lines == ['{"kind":"chat","payload":{"text":"a\\nb \u00e9"}}']


def test_a_closed_sink_writes_no_more() -> None:
    lines: list[str] = []
    sink = LogSink(lines.append)
    sink.close(4403, "kicked")
    sink.put(Frame('{"kind":"chat"}'))
    assert lines == []


async def test_a_kicked_participant_has_no_log_any_more(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.post("anna", kind="space/kick", payload={"participant_id": "eager"}) == 200
    count = len(site.lines("logs/eager.jsonl"))
    site.post("anna", kind="chat", payload={"text": "unheard"})
    assert len(site.lines("logs/eager.jsonl")) == count


async def test_a_sink_that_the_space_does_not_take_is_told_once_and_stays_empty(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.gateway.enrol("demo", "boss", [{"kind": "*"}])
    attach(site.gateway, "demo", "boss")
    assert site.post("boss", kind="space/kick", payload={"participant_id": "lazy"}) == 200
    for _ in range(2):
        assert site.post("lazy", kind="chat", payload={"text": "still here?"}) == 403
    assert site.lines("lazy.jsonl") == []
    (fault,) = site.faults
    assert fault.startswith("lazy: ") and fault.endswith("its output_log stays empty")


# --- files -------------------------------------------------------------------------------------------------------


def a_file(root: Path, name: str) -> tuple[AppendedFile, list[str]]:
    faults: list[str] = []
    return AppendedFile(root, name, fault=faults.append), faults


def test_the_file_and_its_folders_are_the_owners_alone(tmp_path: Path) -> None:
    file, faults = a_file(tmp_path, "a/b/log.jsonl")
    file.append("one")
    assert (tmp_path / "a/b/log.jsonl").read_text() == "one\n"
    assert stat.S_IMODE((tmp_path / "a/b/log.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert faults == []


def test_a_file_that_is_emptied_while_it_is_written_begins_anew(tmp_path: Path) -> None:
    file, _ = a_file(tmp_path, "log.jsonl")
    file.append("one")
    (tmp_path / "log.jsonl").write_text("")
    file.append("two")
    (tmp_path / "log.jsonl").unlink()
    file.append("three")
    assert (tmp_path / "log.jsonl").read_text() == "three\n"


@pytest.mark.threat(27)
@pytest.mark.parametrize("name", ["link/log", "log", "pipe", "folder"])
def test_nothing_is_written_through_a_link_into_a_pipe_or_elsewhere(tmp_path: Path, name: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "target").write_text("mine")
    (root / "link").symlink_to(outside)
    (root / "log").symlink_to(outside / "target")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    file, faults = a_file(root, name)
    file.append("line")
    file.append("line")
    assert [one.name for one in outside.iterdir()] == ["target"]
    assert (outside / "target").read_text() == "mine"
    assert file.lost == 2
    assert len(faults) == 1 and str(root / name) in faults[0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_once_and_counted_and_writing_goes_on_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, faults = a_file(tmp_path, "log")
    file.append("before")
    write = os.write
    monkeypatch.setattr(sinks.os, "write", lambda fd, data: write(fd, data[:3]))
    file.append("cut short")
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(sinks.os, "write", lambda fd, data: write(full, data))
    file.append("lost")
    monkeypatch.setattr(sinks.os, "write", write)
    os.close(full)
    file.append("after")
    assert (file.lost, len(faults)) == (2, 1)
    assert "left out until it can" in faults[0]
    assert (tmp_path / "log").read_text() == "before\ncut\nafter\n"


async def test_a_log_that_cannot_be_written_hurts_nobody(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("no folder")
    site = Site(tmp_path)
    assert site.post("anna", kind="chat", payload={"text": "goes on"}) == 200
    assert site.sinks.files["eager"].lost == 2
    assert len(site.faults) == 1 and site.faults[0].startswith("eager: ")


INVITER = """
space: {id: demo}
participants:
  ann: {capabilities: [{kind: "*"}], output_log: ann.jsonl, auto_connect: true}
  eve: {capabilities: [{kind: "*"}], output_log: eve.jsonl, auto_connect: true}
"""


@pytest.mark.req("P-3.6.6-1")
@pytest.mark.ruling("R28")
@pytest.mark.extension("answered_sinks")
@pytest.mark.threat(1)
def test_who_is_here_by_its_log_alone_gets_the_token_of_whom_it_invites_there_and_nobody_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "ann.jsonl").touch(mode=0o644)  # as a script of a peer makes it
    records: list[Any] = []
    site = Site(tmp_path, INVITER)
    site.gateway.observe = records.append
    assert site.post("ann", id="i-1", kind="space/invite", payload={"participant_id": "new"}) == 200
    (ack,) = (one for one in site.lines("ann.jsonl") if one["kind"] == "space/invite-ack")
    assert (ack["payload"]["status"], ack["correlation_id"], ack["to"]) == ("created", ["i-1"], ["ann"])
    assert site.gateway.tokens.whose("demo", ack["payload"]["token"]) == "new"
    assert stat.S_IMODE((tmp_path / "ann.jsonl").stat().st_mode) == 0o600
    assert "space/invite-ack" not in site.kinds("eve.jsonl")
    assert ack["payload"]["token"] not in repr(records) + (tmp_path / "eve.jsonl").read_text()


@pytest.mark.ruling("R28")
async def test_who_has_a_connection_gets_it_there_and_not_in_its_log(tmp_path: Path) -> None:
    site = Site(tmp_path, INVITER)
    attach(site.gateway, "demo", "ann")
    assert site.post("ann", id="i-1", kind="space/invite", payload={"participant_id": "new"}) == 200
    assert "space/invite-ack" not in site.kinds("ann.jsonl")
