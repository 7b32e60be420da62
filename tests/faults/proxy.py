"""A network that fails when it is told to: a proxy between two ends on this machine."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from threading import Thread
from typing import Self

_HOST = "127.0.0.1"
# Bytes taken from one end at a time.
_CHUNK = 65_536
# Seconds between two pieces of a chunk whose rate is limited.
_TICK = 0.05


class End(Enum):
    """How a connection ends, as its client sees it."""

    CUT = auto()  # FIN, and nothing more is taken from either end
    HALF_CLOSE = auto()  # FIN, while what the client sends still reaches the upstream
    RESET = auto()  # RST
    SILENCE = auto()  # nothing ever comes, and what is sent is lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to the bytes that come from the upstream.

    Each chunk of them is ``latency`` seconds late, and no more than ``rate`` bytes pass in a second. A connection comes
    to its ``end`` when ``limit`` bytes have passed on it; with a limit of 0, at once.
    """

    latency: float = 0
    rate: float = inf
    limit: float = inf
    end: End = End.CUT


PASS = Fault()
RESET = Fault(limit=0, end=End.RESET)
BLACK_HOLE = Fault(limit=0, end=End.SILENCE)


class Link:
    """A connection of a client and its own connection to the upstream."""

    def __init__(self, client: asyncio.StreamWriter, upstream: asyncio.StreamWriter, fault: Fault) -> None:
        self.client, self.upstream = client, upstream
        self.takes_answers = self.takes_requests = True
        for writer in (client, upstream):
            writer.transport.set_write_buffer_limits(0)  # what is drained is sent, and a reset does not drop it
        self.begin(fault)

    def begin(self, fault: Fault) -> None:
        """Suffer a fault from now on."""
        self.fault, self.left = fault, fault.limit
        if self.left == 0:
            self.end()

    def end(self) -> None:
        """Come to the end, for good: bytes are lost, so that nothing that follows would make sense."""
        self.takes_answers = False
        self.takes_requests = self.takes_requests and self.fault.end is End.HALF_CLOSE
        match self.fault.end:
            case End.HALF_CLOSE:
                self.client.write_eof()
            case End.CUT:
                self.client.close()
                self.upstream.close()
            case End.RESET:
                self.abort()

    def abort(self) -> None:
        """Reset both connections."""
        for writer in (self.client, self.upstream):
            with suppress(OSError):  # of a socket that is closed already
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class Proxy:
    """Forward connections to a port of this machine; ``fault`` changes open ones and those to come, at once.

    It listens on ``port`` while it is entered. ``passed`` counts the bytes that came from the upstream and went on.
    """

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._fault = PASS
        self._links: set[Link] = set()
        self.port = 0
        self.passed = 0

    def __enter__(self) -> Self:
        listening: Future[int] = Future()
        self._thread = Thread(target=lambda: asyncio.run(self._listen(listening)), daemon=True)
        self._thread.start()
        self.port = listening.result()
        return self

    def __exit__(self, *_fault: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    @property
    def fault(self) -> Fault:
        """What happens now."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        asyncio.run_coroutine_threadsafe(self._change(fault), self._loop).result()

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        """Suffer a fault for a while."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = PASS

    async def _listen(self, listening: "Future[int]") -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, _HOST, 0)
        listening.set_result(server.sockets[0].getsockname()[1])
        await self._stopped.wait()
        server.close()  # and the end of the loop cancels what still passes through

    async def _change(self, fault: Fault) -> None:
        self._fault = fault
        for link in self._links:
            if link.takes_answers:
                link.begin(fault)

    async def _accept(self, requests: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):  # nobody listens there; or the proxy stops
            answers, upstream = await asyncio.open_connection(_HOST, self._upstream)
            link = Link(client, upstream, self._fault)
            self._links.add(link)
            try:
                await self._carry(link, requests, answers)
            finally:
                self._links.remove(link)
                upstream.close()
        client.close()

    async def _carry(self, link: Link, requests: asyncio.StreamReader, answers: asyncio.StreamReader) -> None:
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._forward(requests, link))
                ways.create_task(self._answer(answers, link))
        except* OSError:  # one end is gone, and the other is to notice
            link.abort()

    async def _forward(self, requests: asyncio.StreamReader, link: Link) -> None:
        while chunk := await requests.read(_CHUNK):
            if link.takes_requests:
                link.upstream.write(chunk)
                await link.upstream.drain()
        link.upstream.write_eof()

    async def _answer(self, answers: asyncio.StreamReader, link: Link) -> None:
        while chunk := await answers.read(_CHUNK):
            await asyncio.sleep(link.fault.latency)
            while chunk and link.takes_answers:
                rate = link.fault.rate
                size = int(min(len(chunk), link.left, max(1, rate * _TICK)))
                link.left -= size
                link.client.write(chunk[:size])
                await link.client.drain()
                self.passed += size
                if link.left == 0 and link.takes_answers:
                    link.end()
                await asyncio.sleep(size / rate)
                chunk = chunk[size:]
        if link.takes_answers:
            link.client.write_eof()
