"""A TCP proxy that injects failures between a client and an upstream server on this
machine.
"""

import asyncio
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from threading import Thread
from typing import Literal, Self

# The bytes of one read, and the seconds between two pieces of a chunk whose rate is
# limited.
_CHUNK, _TICK = 65_536, 0.05


# How the client sees a connection end: FIN, RST, or no byte arrives, in either
# direction.
End = Literal["cut", "reset", "silence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How the proxy treats the bytes from the upstream.

    At most ``rate`` bytes pass per second. A connection ends, as ``end`` says, when
    ``limit`` bytes have passed; with a limit of 0, at once.
    """

    rate: float = inf
    limit: float = inf
    end: End = "cut"


PASS = Failure()
RESET = Failure(limit=0, end="reset")
BLACK_HOLE = Failure(limit=0, end="silence")


class Link:
    """A connection of a client and its own connection to the upstream."""

    def __init__(
        self,
        client: asyncio.StreamWriter,
        upstream: asyncio.StreamWriter,
        failure: Failure,
    ) -> None:
        self.client, self.upstream, self.is_open = client, upstream, True
        for writer in (client, upstream):
            writer.transport.set_write_buffer_limits(
                0
            )  # drained bytes are sent, so a reset does not drop them
        self.begin(failure)

    def begin(self, failure: Failure) -> None:
        """Apply a failure from now on, unless bytes were lost already: no later byte
        would make sense.
        """
        if self.is_open:
            self.failure, self.left = failure, failure.limit
            if self.left == 0:
                self.end(failure.end)

    def end(self, end: End) -> None:
        self.is_open = False
        for writer in (self.client, self.upstream):
            if end == "cut":
                writer.close()
            elif end == "reset":
                with suppress(OSError):  # the socket is closed already
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, linger
                    )
                writer.transport.abort()


class Proxy:
    """Forward connections to a port of this machine.

    The proxy listens on ``port`` while it is entered. ``passed`` counts the bytes
    forwarded from the upstream.
    """

    def __init__(self, upstream: int) -> None:
        self._upstream, self._failure, self._links = upstream, PASS, set[Link]()
        self.port = self.passed = 0

    def __enter__(self) -> Self:
        listening: Future[int] = Future()
        self._thread = Thread(
            target=lambda: asyncio.run(self._listen(listening)), daemon=True
        )
        self._thread.start()
        self.port = listening.result()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def fail(self, failure: Failure) -> None:
        """Apply a failure to open and new connections."""
        asyncio.run_coroutine_threadsafe(self._change(failure), self._loop).result()

    @contextmanager
    def failing(self, failure: Failure) -> Iterator[None]:
        """Apply a failure, and remove it on exit."""
        self.fail(failure)
        try:
            yield
        finally:
            self.fail(PASS)

    async def _listen(self, listening: "Future[int]") -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        listening.set_result(server.sockets[0].getsockname()[1])
        await self._stopped.wait()
        server.close()  # and the end of the loop cancels the open connections

    async def _change(self, failure: Failure) -> None:
        self._failure = failure
        for link in self._links:
            link.begin(failure)

    async def _accept(
        self, requests: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        with suppress(
            OSError, asyncio.CancelledError
        ):  # the upstream does not listen, or the proxy stops
            responses, upstream = await asyncio.open_connection(
                "127.0.0.1", self._upstream
            )
            link = Link(client, upstream, self._failure)
            self._links.add(link)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._forward_requests(requests, link))
                    tasks.create_task(self._forward_responses(responses, link))
            except* OSError:  # one end has disconnected, so the other must notice
                link.end("reset")
            finally:
                self._links.remove(link)
                upstream.close()
        client.close()

    async def _forward_requests(
        self, requests: asyncio.StreamReader, link: Link
    ) -> None:
        while chunk := await requests.read(_CHUNK):
            if link.is_open:
                link.upstream.write(chunk)
                await link.upstream.drain()
        link.upstream.write_eof()

    async def _forward_responses(
        self, responses: asyncio.StreamReader, link: Link
    ) -> None:
        while chunk := await responses.read(_CHUNK):
            while chunk and link.is_open:
                rate = link.failure.rate
                size = int(min(len(chunk), link.left, max(1, rate * _TICK)))
                link.left -= size
                link.client.write(chunk[:size])
                await link.client.drain()
                self.passed += size
                if link.left == 0 and link.is_open:
                    link.end(link.failure.end)
                await asyncio.sleep(size / rate)
                chunk = chunk[size:]
        if link.is_open:
            link.client.write_eof()
