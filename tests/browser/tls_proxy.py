"""A TLS proxy as an owner may put before the page of a space: it passes bytes on, and can be cut off and put back."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Coroutine
from typing import Any

import trustme


class TlsProxy:
    """Listens on `localhost:port` with a certificate of its own authority, and leads to `target` where that is set."""

    def __init__(self) -> None:
        self.target = 0
        self.authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("localhost").configure_cert(context)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._open: set[asyncio.StreamWriter] = set()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context))
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def origin(self) -> str:
        return f"https://localhost:{self.port}"

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.target:
            writer.close()
            return
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.target)
        self._open |= {writer, inner_writer}

        async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await asyncio.gather(pipe(reader, inner_writer), pipe(inner_reader, writer))
        self._open -= {writer, inner_writer}

    def cut(self) -> None:
        """Ends every connection, and takes none until `target` is set again."""
        self.target = 0

        async def end() -> None:
            for writer in tuple(self._open):
                writer.transport.abort()

        self._run(end())

    def close(self) -> None:
        """Ends it."""
        self.cut()
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
