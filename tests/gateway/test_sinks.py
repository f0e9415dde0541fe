"""An output_log holds what its participant would receive, stays below its folder, and never costs the space anything."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mew_lab.gateway.delivery import Frame
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.gateway.sinks import LogSink, Sinks, SinkWriter
from mew_lab.gateway.space_file import parse_space_file
from mew_lab.transport.files import AppendedFile
from mew_lab.transport.link import Link

from ..waiting import until

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
        """What stands in a file when all that was delivered is written."""
        self.sinks.flush()
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
    site.sinks.flush()
    text, data = (one for one in (tmp_path / "logs/eager.jsonl").read_text().splitlines() if "Buffer" in one)
    assert (
        text
        == '{"type":"Buffer","data":'
        + json.dumps(list("#stream-1#h\u00e9".encode()), separators=(",", ":"))
        + "}"
    )
    assert json.loads(data)["data"] == list(b"#stream-1#\xff")


def test_each_message_is_one_compact_line(tmp_path: Path) -> None:
    file = AppendedFile(tmp_path, "log", fault=print)
    SinkWriter().put(file, Frame('{\n  "kind": "chat",\n  "payload": {"text": "a\\nb \u00e9"}\n}'))
    assert (tmp_path / "log").read_text() == '{"kind":"chat","payload":{"text":"a\\nb \u00e9"}}\n'


def test_a_closed_sink_writes_no_more() -> None:
    frames: list[Frame] = []
    sink = LogSink(frames.append)
    sink.close(4403, "kicked")
    sink.put(Frame('{"kind":"chat"}'))
    assert frames == []


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


# --- the writer --------------------------------------------------------------------------------------------------


async def test_a_delivery_writes_nothing_and_the_lines_come_by_themselves_soon_after(tmp_path: Path) -> None:
    site = Site(tmp_path)
    path = tmp_path / "logs" / "eager.jsonl"
    for n in range(50):
        assert site.post("anna", kind="chat", payload={"n": n}) == 200
    assert not path.exists()
    await until(lambda: path.exists() and path.read_text().count('"n":') >= 50)
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one["payload"]["n"] for one in told if one["kind"] == "chat"] == list(range(50))


async def test_many_messages_of_several_sinks_are_written_in_order_and_with_few_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    write = os.write

    def counted(fd: int, data: bytes) -> int:
        writes.append(len(data))
        return write(fd, data)

    monkeypatch.setattr(os, "write", counted)
    site = Site(
        tmp_path, SPACE.replace("output_log: lazy.jsonl", "output_log: lazy.jsonl, auto_connect: true")
    )
    for n in range(500):
        site.post("anna", kind="chat", payload={"n": n})
    for name in ("logs/eager.jsonl", "lazy.jsonl"):
        told = [one["payload"]["n"] for one in site.lines(name) if one["kind"] == "chat"]
        assert told == list(range(500))
    assert len(writes) <= 6


async def test_more_than_may_wait_is_left_out_counted_and_said(tmp_path: Path) -> None:
    faults: list[str] = []
    file = AppendedFile(tmp_path, "log", fault=faults.append)
    writer = SinkWriter(most=100)
    for n in range(5):
        writer.put(file, Frame(json.dumps({"n": n, "text": "x" * 20})))
    writer.flush()
    assert [json.loads(line)["n"] for line in (tmp_path / "log").read_text().splitlines()] == [0, 1]
    assert file.lost == 3
    assert faults == [
        f"{file.path} cannot be written: more than 100 bytes wait to be written; its lines are left out until it can",
        f"{file.path} is written again; 3 lines were left out",
    ]


async def test_what_waits_when_a_space_ends_is_written(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.post("anna", kind="chat", payload={"text": "last"})
    site.sinks.close()
    assert '"last"' in (tmp_path / "logs/eager.jsonl").read_text()


async def test_a_log_that_cannot_be_written_hurts_nobody(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("no folder")
    site = Site(tmp_path)
    assert site.post("anna", kind="chat", payload={"text": "goes on"}) == 200
    site.sinks.flush()
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
    assert site.gateway.tokens.participant_of("demo", ack["payload"]["token"]) == "new"
    assert stat.S_IMODE((tmp_path / "ann.jsonl").stat().st_mode) == 0o600
    assert "space/invite-ack" not in site.kinds("eve.jsonl")
    assert ack["payload"]["token"] not in repr(records) + (tmp_path / "eve.jsonl").read_text()


@pytest.mark.ruling("R28")
async def test_who_has_a_connection_gets_it_there_and_not_in_its_log(tmp_path: Path) -> None:
    site = Site(tmp_path, INVITER)
    attach(site.gateway, "demo", "ann")
    assert site.post("ann", id="i-1", kind="space/invite", payload={"participant_id": "new"}) == 200
    assert "space/invite-ack" not in site.kinds("ann.jsonl")
