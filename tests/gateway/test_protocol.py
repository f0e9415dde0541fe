"""The short way of messages in one piece: whatever comes, and however it is cut, the library's rules hold unchanged."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from mew_lab.gateway.protocol import DirectProtocol

from ..conftest import examples
from .conftest import CHAT, House, take

MOST = 200  # bytes of a message here
REQUEST = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> None:
        return None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Entry(NamedTuple):
    """What became of some bytes: messages and the end in their order, what was answered, whether it was closed."""

    events: list[Any]
    answered: bytes
    closed: bool


async def hear(
    kind: type[WebSocketsSansIOProtocol], parts: list[bytes], *, refuse_every: int = 0
) -> tuple[Entry, int]:
    """Hands the parts to a protocol of this kind, one after the other; and how many messages it offered to take."""
    accepted, over = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        accepted.set()
        await over.wait()

    config = Config(
        app, ws_max_size=MOST, ws_ping_interval=None, ws_per_message_deflate=False, log_config=None
    )
    config.load()
    wire = Wire()
    protocol = kind(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(wire)  # type: ignore[arg-type]
    protocol.data_received(REQUEST)
    await accepted.wait()
    events: list[Any] = []
    offered: list[str | bytes] = []

    def taken(message: str | bytes) -> bool:
        offered.append(message)
        if refuse_every and len(offered) % refuse_every == 0:
            return False
        events.append(message)
        return True

    if isinstance(protocol, DirectProtocol):
        protocol.take, protocol.taken = taken, lambda: None
    for part in parts:
        if wire.closed:
            break
        protocol.data_received(part)
        while not protocol.queue.empty():
            event: Any = protocol.queue.get_nowait()
            events.append(event.get("text", event.get("bytes", event)))
    found = Entry(events, wire.written, wire.closed)
    over.set()
    await asyncio.gather(*protocol.tasks)
    return found, len(offered)


def frame(first: int, payload: bytes, *, masked: bool = True, form: int = 0, mask: bytes = b"mask") -> bytes:
    """A client's frame; `form` 126 or 127 writes the length longer than it need be."""
    size = len(payload)
    form = form or (size if size < 126 else 126)
    length = {126: 2, 127: 8}.get(form, 0)
    head = bytes((first, (0x80 if masked else 0) | form)) + (size.to_bytes(length) if length else b"")
    if not masked:
        return head + payload
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


words = st.text(max_size=20).map(str.encode)
sized = st.one_of(words, st.binary(max_size=20), st.integers(100, MOST + 20).map(lambda size: b"x" * size))
closes = st.one_of(
    st.just(b""), st.sampled_from([999, 1000, 1005, 1012, 4000]).map(lambda code: code.to_bytes(2) + b"bye")
)
ordinary = st.builds(frame, st.sampled_from([0x81, 0x82]), words, mask=st.binary(min_size=4, max_size=4))
other = st.one_of(
    st.builds(frame, st.sampled_from([0x81, 0x82, 0x01, 0x02, 0x00, 0x80, 0x00, 0x80]), sized),
    st.builds(frame, st.sampled_from([0x89, 0x8A]), words),
    st.builds(frame, st.just(0x88), closes),
    st.builds(frame, st.sampled_from([0x81, 0x82, 0x89]), words, form=st.sampled_from([126, 127])),
)
wrong = st.one_of(
    st.builds(frame, st.integers(0, 255), sized, masked=st.booleans()),
    st.just(b"\x81\xff" + (1 << 63).to_bytes(8) + b"mask"),
    st.binary(min_size=1, max_size=8),
)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """The bytes of a client, most of them well formed, cut anywhere."""
    faulty = draw(st.booleans())
    kinds = [ordinary, ordinary, other, other, wrong] if faulty else [ordinary, other]
    data = b"".join(draw(st.lists(st.one_of(kinds), min_size=1, max_size=12)))
    if faulty:  # a fault may be told as soon as it is seen, or when its frame is whole
        data += 3 * frame(0x81, b"x" * MOST)
    else:
        data = data[: max(1, len(data) - draw(st.integers(0, 20)))]
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=10)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


@pytest.mark.threat(8)
@settings(max_examples=examples(300), deadline=None)
@given(streams(), st.integers(0, 3))
@example([frame(0x81, b"hi", masked=False) + b"mask"], 0)
@example([frame(0x81, b"\xc0\xaf") + frame(0x81, b"hi")], 0)
@example([frame(0xC1, b"hi")], 0)
@example([frame(0x91, b"hi")], 0)
@example([frame(0x01, b"hi") + frame(0x89, b"") + frame(0x81, b"hi")], 0)
@example([frame(0x01, b"hi") + frame(0x89, b"") + frame(0x80, b"ho") + frame(0x81, b"hi")], 2)
def test_whatever_comes_is_heard_answered_and_closed_as_the_library_does(
    parts: list[bytes], refuse_every: int
) -> None:
    async def both() -> tuple[Entry, Entry]:
        ours, _ = await hear(DirectProtocol, parts, refuse_every=refuse_every)
        # A byte at a time: of messages that come together with a fault, the library tells nothing.
        library, _ = await hear(WebSocketsSansIOProtocol, [bytes((byte,)) for byte in b"".join(parts)])
        return ours, library

    ours, library = asyncio.run(both())
    assert ours == library


async def test_messages_in_one_piece_are_taken_as_they_are_read() -> None:
    parts = [frame(0x81, b"one") + frame(0x82, b"#s#two"), frame(0x81, b"x" * 150)]
    heard, offered = await hear(DirectProtocol, parts)
    assert heard.events == ["one", b"#s#two", "x" * 150]
    assert offered == 3


async def test_what_stands_behind_a_message_that_has_to_wait_waits_too() -> None:
    pieces = frame(0x01, b"be") + frame(0x89, b"ping") + frame(0x80, b"gin")
    parts = [frame(0x81, b"one"), pieces + frame(0x81, b"two"), frame(0x81, b"three")]
    heard, offered = await hear(DirectProtocol, parts)
    assert heard.events == ["one", "begin", "two", "three"]
    assert heard.answered.endswith(b"\x8a\x04ping")
    assert offered == 2  # the second stood behind a message in pieces that nobody had taken yet


@pytest.mark.threat(8, 9)
async def test_a_message_in_pieces_that_gets_too_long_is_refused_before_its_last_piece_has_come() -> None:
    heard, _ = await hear(DirectProtocol, [frame(0x01, b"x" * 150), frame(0x00, b"x" * 51)[:2]])
    assert heard.closed
    assert (1009).to_bytes(2) in heard.answered


class Paused(Wire):
    """A transport that knows whether it is read."""

    reads, aborted = True, False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.threat(55)
@pytest.mark.parametrize(("piece", "answer"), [(frame(0x89, b""), b"\x8a\0"), (frame(0x8A, b""), b"")])
async def test_the_pings_of_one_read_are_handled_in_many_turns_none_while_it_is_held_and_not_without_end(
    piece: bytes, answer: bytes
) -> None:
    over = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await over.wait()

    config = Config(
        app, ws_max_size=MOST, ws_ping_interval=None, ws_per_message_deflate=False, log_config=None
    )
    config.load()
    wire, handled = Paused(), 0
    protocol = DirectProtocol(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(wire)  # type: ignore[arg-type]
    protocol.data_received(REQUEST)
    await asyncio.sleep(0.01)
    wire.written = b""

    def count(handle: Any) -> Any:
        def handle_and_count(*event: Any) -> None:
            nonlocal handled
            handled += 1
            handle(*event)

        return handle_and_count

    protocol.handle_ping = count(protocol.handle_ping)  # type: ignore[method-assign]
    protocol.handle_pong = count(protocol.handle_pong)  # type: ignore[method-assign]
    protocol.take, protocol.taken = lambda message: True, lambda: None
    protocol.counted = True  # as after the welcome
    protocol.data_received(piece * 900)
    assert 0 < handled <= 100
    assert not wire.reads
    await asyncio.sleep(0)
    protocol.held = True
    for _ in range(5):
        await asyncio.sleep(0)
    before = handled
    assert before <= 300
    protocol.data_received(piece * 7 + piece[:3])  # what the library read although it was not to
    await asyncio.sleep(0.01)
    assert handled == before
    protocol.held = False
    protocol.go_on()
    async with asyncio.timeout(10):
        while handled < 907:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert wire.reads
    assert wire.written == answer * 907
    protocol.data_received(piece[3:])
    assert handled == 908 and not wire.aborted
    protocol.data_received(piece * 10_000)
    async with asyncio.timeout(10):
        while not wire.aborted:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert handled < 2500  # while nobody sees whether its client is still there

    wire.aborted, protocol.counted, protocol.take = False, False, None
    protocol.data_received(piece * 100)
    await asyncio.sleep(0.01)
    assert wire.aborted  # nobody pings so often before the welcome
    over.set()
    await asyncio.gather(*protocol.tasks)


async def test_canary_what_an_admitted_connection_sends_goes_the_short_way(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When this fails, mew_lab.gateway.protocol needs a look; everything else must still pass, only slower."""
    anna = await house.join("anna")
    await anna.send(json.dumps(CHAT))
    await take(anna, "chat")
    long_way: list[Any] = []
    monkeypatch.setattr(WebSocketsSansIOProtocol, "handle_text", lambda self, event: long_way.append(event))
    for _ in range(3):
        await anna.send(json.dumps(CHAT))
        await take(anna, "chat")
    assert long_way == []
