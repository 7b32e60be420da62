"""A TCP proxy that injects failures between a client and an upstream server on this
machine.
"""

import socket
import socketserver
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from threading import Thread
from typing import Literal, Self

# The bytes of one read, and the seconds between two pieces if the rate is limited.
_CHUNK, _TICK = 65_536, 0.05

# How the client sees a connection end: RST, or no byte arrives, in either direction.
End = Literal["reset", "silence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How the proxy treats the bytes from the upstream.

    At most ``rate`` bytes pass per second. A connection ends, as ``end`` says, when
    ``limit`` bytes have passed; with a limit of 0, at once.
    """

    rate: float = inf
    limit: float = inf
    end: End = "reset"


PASS = Failure()
RESET = Failure(limit=0)
BLACK_HOLE = Failure(limit=0, end="silence")


class Link(socketserver.BaseRequestHandler):
    """A connection of a client and its own connection to the upstream."""

    request: socket.socket
    server: "Proxy"

    def handle(self) -> None:
        """Forward bytes, until one end closes its connection."""
        self._is_silent = False
        with suppress(OSError):  # the upstream does not listen, or an end has gone
            self._upstream = socket.create_connection(("127.0.0.1", self.server.target))
            self.server.links.append(self)
            self.begin(self.server.failure)
            Thread(target=self._forward_requests, daemon=True).start()
            while chunk := self._upstream.recv(_CHUNK):
                self._forward(chunk)
            if not self._is_silent:
                self._reset()

    def begin(self, failure: Failure) -> None:
        """Apply a failure from now on, unless bytes were lost already: no later byte
        would make sense.
        """
        self._failure, self._left = failure, failure.limit
        if not self._left:
            self._end()

    def _forward(self, chunk: bytes) -> None:
        while chunk and not self._is_silent:
            rate = self._failure.rate
            size = int(min(len(chunk), self._left, max(1, rate * _TICK)))
            self._left -= size
            self.request.sendall(chunk[:size])
            self.server.passed += size
            if not self._left:
                self._end()
            time.sleep(size / rate)
            chunk = chunk[size:]

    def _forward_requests(self) -> None:
        with suppress(OSError):
            while chunk := self.request.recv(_CHUNK):
                if not self._is_silent:
                    self._upstream.sendall(chunk)
        self._reset()

    def _end(self) -> None:
        self._is_silent = True
        if self._failure.end == "reset":
            self._reset()

    def _reset(self) -> None:
        linger = struct.pack("ii", 1, 0)
        for connection in (self.request, self._upstream):
            with suppress(OSError):  # closed already
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


class Proxy(socketserver.ThreadingTCPServer):
    """Forward connections to a port of this machine.

    ``passed`` counts the bytes forwarded from the upstream.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, upstream: int) -> None:
        super().__init__(("127.0.0.1", 0), Link)
        self.port: int = self.server_address[1]
        self.target, self.failure, self.links = upstream, PASS, list[Link]()
        self.passed = 0

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=[_TICK], daemon=True).start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self.shutdown()
        self.fail(RESET)
        self.server_close()

    def fail(self, failure: Failure) -> None:
        """Apply a failure to open and new connections."""
        self.failure = failure
        for link in self.links:
            link.begin(failure)

    @contextmanager
    def failing(self, failure: Failure) -> Iterator[None]:
        """Apply a failure, and remove it on exit."""
        self.fail(failure)
        try:
            yield
        finally:
            self.fail(PASS)
