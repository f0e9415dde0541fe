"""What leaves, how, and what becomes of a reader that does not read."""

from __future__ import annotations

import asyncio

import pytest
from websockets.frames import Frame as ReferenceFrame
from websockets.frames import Opcode

from mew_lab.gateway.coalescer import WriteCoalescer
from mew_lab.gateway.delivery import CHUNK, PROMPT_BYTES, DeliveryQueue, Frame, MemoryPeer
from mew_lab.transport.link import LinkClosed
from mew_lab.transport.memory import pair

from .conftest import until
from .fakes import FakeProtocol, FakeServer, turn


@pytest.fixture
async def protocol() -> FakeProtocol:
    return FakeProtocol()


# --- frames ---


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 70000])
def test_a_frame_is_what_rfc_6455_says_for_every_length(size: int) -> None:
    text, data = "x" * size, bytes(size)
    assert Frame(text).wire == ReferenceFrame(Opcode.TEXT, text.encode()).serialize(mask=False)
    assert Frame(data=data).wire == ReferenceFrame(Opcode.BINARY, data).serialize(mask=False)


def test_a_frame_counts_bytes_and_not_characters() -> None:
    assert Frame("€" * 42).wire == b"\x81\x7e\x00\x7e" + "€".encode() * 42


def test_a_frame_is_encoded_once_for_all_its_receivers() -> None:
    frame = Frame("to everybody")
    assert frame.wire is frame.wire


# --- WebSocket ---


async def test_what_is_put_in_one_turn_leaves_in_one_write(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    frames = [Frame(f"message {n}") for n in range(5)]
    for frame in frames:
        outbox.put(frame)
    assert protocol.transport.writes == []
    await turn()
    assert protocol.transport.writes == [b"".join(frame.wire for frame in frames)]
    assert protocol.sent == []


async def test_one_frame_alone_is_written_without_a_copy(protocol: FakeProtocol) -> None:
    outbox, frame = DeliveryQueue(protocol.send, coalescer=WriteCoalescer()), Frame("alone")
    outbox.put(frame)
    await turn()
    assert protocol.transport.writes[0] is frame.wire


async def test_much_at_once_leaves_in_pieces(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    frames = [Frame("x" * 50_000) for _ in range(20)]
    for frame in frames:
        outbox.put(frame)
    await turn()
    assert b"".join(protocol.transport.writes) == b"".join(frame.wire for frame in frames)
    assert max(map(len, protocol.transport.writes)) < CHUNK + 50_100


async def test_a_slow_reader_gets_everything_in_order_once_it_reads(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    protocol.transport.waiting = PROMPT_BYTES + 1
    protocol.writable.clear()
    for n in range(3):
        outbox.put(Frame(f"{n}"))
    await turn()
    outbox.put(Frame(data=b"#s#3"))
    await turn()
    assert (protocol.sent, protocol.transport.writes) == ([], [])
    protocol.writable.set()
    await until(lambda: len(protocol.sent) == 4)
    assert [one.get("text", one.get("bytes")) for one in protocol.sent] == ["0", "1", "2", b"#s#3"]


async def test_a_reader_that_caught_up_is_served_the_short_way_again(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    protocol.transport.waiting = PROMPT_BYTES + 1
    protocol.writable.clear()
    for n in range(3):
        outbox.put(Frame(f"{n}"))
    await turn()
    protocol.transport.waiting = 0
    protocol.writable.set()
    await until(lambda: protocol.transport.writes)
    assert [one["text"] for one in protocol.sent] == ["0"]
    assert protocol.transport.writes == [Frame("1").wire + Frame("2").wire]
    await turn()
    outbox.put(Frame("3"))
    await turn()
    assert protocol.transport.writes[-1] == Frame("3").wire


@pytest.mark.threat(9)
async def test_a_reader_whose_queue_is_full_is_cut_with_a_reason(protocol: FakeProtocol) -> None:
    reasons: list[str] = []
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer(), limit=1000, on_cut=reasons.append)
    protocol.transport.waiting = PROMPT_BYTES + 1
    protocol.writable.clear()
    for _ in range(10):
        outbox.put(Frame("x" * 98))  # 100 bytes on the wire
    await turn()
    assert not outbox.closing
    outbox.put(Frame("x"))
    assert outbox.closing
    assert reasons == []  # never while somebody is delivering
    await turn()
    assert reasons == ["slow reader: 1003 bytes waited unread"]
    protocol.writable.set()
    await outbox.wait_closed()
    assert protocol.sent[-1] == {"type": "websocket.close", "code": 1008, "reason": reasons[0]}


@pytest.mark.threat(9)
async def test_a_reader_that_takes_nothing_for_a_while_is_cut(protocol: FakeProtocol) -> None:
    reasons: list[str] = []
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer(), stall=0.01, on_cut=reasons.append)
    protocol.transport.waiting = PROMPT_BYTES + 1
    protocol.writable.clear()
    outbox.put(Frame("x"))
    await until(lambda: reasons)
    assert reasons == ["slow reader: took nothing for 0.01 s"]
    await outbox.wait_closed()
    assert protocol.transport.aborted  # it did not even take the goodbye


@pytest.mark.threat(9)
async def test_one_slow_reader_holds_no_other_up() -> None:
    slow, prompt = FakeProtocol(), FakeProtocol()
    slow.transport.waiting = PROMPT_BYTES + 1
    slow.writable.clear()
    burst = WriteCoalescer()
    outboxes = [DeliveryQueue(one.send, coalescer=burst, limit=5000) for one in (slow, prompt)]
    frames = [Frame(f"{n}" * 100) for n in range(9)] * 10
    for frame in frames:
        for outbox in outboxes:
            outbox.put(frame)
    await turn()
    assert outboxes[0].closing
    assert b"".join(prompt.transport.writes) == b"".join(frame.wire for frame in frames)


async def test_a_close_sends_what_is_queued_first(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    outbox.put(Frame("last words"))
    outbox.close(4403, "kicked")
    outbox.put(Frame("never"))
    await outbox.wait_closed()
    assert protocol.transport.writes == [Frame("last words").wire]
    assert protocol.sent == [{"type": "websocket.close", "code": 4403, "reason": "kicked"}]


async def test_a_close_that_drops_sends_nothing_more(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    outbox.put(Frame("never"))
    outbox.close(4403, "kicked", drop=True)
    await outbox.wait_closed()
    assert protocol.transport.writes == []
    assert protocol.sent == [{"type": "websocket.close", "code": 4403, "reason": "kicked"}]


async def test_closing_twice_is_harmless_and_the_first_reason_stands(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    outbox.close(4403, "first")
    outbox.close(1000, "second")
    await outbox.wait_closed()
    assert [one["code"] for one in protocol.sent] == [4403]


async def test_a_reason_is_cut_where_a_close_frame_ends(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    outbox.close(4401, "ä" * 100)
    await outbox.wait_closed()
    assert protocol.sent[0]["reason"] == "ä" * 61


async def test_a_reader_that_went_away_costs_nothing_and_raises_nothing(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    protocol.transport.closing = protocol.gone = True
    outbox.put(Frame("to nobody"))
    await until(lambda: outbox.closing)
    outbox.put(Frame("to nobody"))
    await outbox.wait_closed()
    assert protocol.transport.writes == []


async def test_nothing_is_sent_after_the_end(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    outbox.put(Frame("too late"))
    outbox.detach()
    outbox.close(1000, "")
    await turn()
    assert (protocol.transport.writes, protocol.sent) == ([], [])


async def test_a_server_whose_inside_is_unknown_is_served_the_long_way() -> None:
    server = FakeServer()
    outbox = DeliveryQueue(server.send, coalescer=WriteCoalescer())
    outbox.put(Frame("text"))
    outbox.put(Frame(data=b"bytes"))
    assert await outbox.alive(0.01)
    outbox.close(1000, "done")
    await outbox.wait_closed()
    assert server.sent == [
        {"type": "websocket.send", "text": "text"},
        {"type": "websocket.send", "bytes": b"bytes"},
        {"type": "websocket.close", "code": 1000, "reason": "done"},
    ]
    assert not await outbox.alive(0.01)


# --- memory ---


async def test_a_memory_peer_hands_over_the_message_itself() -> None:
    here, there = pair()
    peer, text = MemoryPeer(here), "as it is"
    peer.put(Frame(text))
    peer.put(Frame(data=b"bytes"))
    assert await there.receive() is text
    assert await there.receive() == b"bytes"
    assert await peer.alive(0)


@pytest.mark.threat(9)
async def test_a_memory_reader_that_does_not_read_is_cut_too() -> None:
    here, there = pair()
    reasons: list[str] = []
    peer = MemoryPeer(here, limit=100, on_cut=reasons.append)
    for _ in range(11):
        peer.put(Frame("x" * 10))
    assert reasons == []  # never while somebody is delivering
    await turn()
    assert reasons == ["slow reader: 110 bytes waited unread"]
    peer.put(Frame("never"))
    with pytest.raises(LinkClosed) as closed:
        await there.receive()
    assert (closed.value.code, closed.value.reason) == (1008, reasons[0])
    assert not await peer.alive(0)


async def test_a_memory_peer_that_closes_lets_the_rest_be_read_or_not() -> None:
    for drop in (False, True):
        here, there = pair()
        peer = MemoryPeer(here)
        peer.put(Frame("last words"))
        peer.close(4403, "kicked", drop=drop)
        if not drop:
            assert await there.receive() == "last words"
        with pytest.raises(LinkClosed) as closed:
            await there.receive()
        assert closed.value.code == 4403


@pytest.mark.parametrize("turns", range(6))
async def test_what_comes_while_the_long_way_ends_is_not_left_lying(turns: int) -> None:
    server = FakeServer()
    outbox = DeliveryQueue(server.send, coalescer=WriteCoalescer())
    outbox.put(Frame("first"))
    outbox.flush()
    for _ in range(turns):  # one of them is between the last send and the end of its task
        await asyncio.sleep(0)
    outbox.put(Frame("second"))
    outbox.flush()
    await until(lambda: len(server.sent) == 2)
    assert [one["text"] for one in server.sent] == ["first", "second"]
