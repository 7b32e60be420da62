"""A TCP proxy that injects failures between a client and an upstream server on this
machine.
"""

import socket
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


class Link:
    """A connection of a client and its own connection to the upstream."""

    def __init__(self, client: socket.socket, upstream: socket.socket) -> None:
        self._sockets = client, upstream
        self._is_silent = False

    def begin(self, failure: Failure) -> None:
        """Apply a failure from now on, unless bytes were lost already: no later byte
        would make sense.
        """
        self._failure, self._left = failure, failure.limit
        if not self._left:
            self._end()

    def forward(self, proxy: "Proxy") -> None:
        """Forward what the upstream sends, until one end closes its connection."""
        client, upstream = self._sockets
        Thread(target=self._forward_requests, daemon=True).start()
        with suppress(OSError):
            while chunk := upstream.recv(_CHUNK):
                while chunk and not self._is_silent:
                    rate = max(1, self._failure.rate * _TICK)
                    size = int(min(len(chunk), self._left, rate))
                    self._left -= size
                    client.sendall(chunk[:size])
                    proxy.passed += size
                    if not self._left:
                        self._end()
                    if self._failure.rate < inf:
                        time.sleep(size / self._failure.rate)
                    chunk = chunk[size:]
        if not self._is_silent:
            self._reset()

    def _forward_requests(self) -> None:
        client, upstream = self._sockets
        with suppress(OSError):
            while chunk := client.recv(_CHUNK):
                if not self._is_silent:
                    upstream.sendall(chunk)
        self._reset()

    def _end(self) -> None:
        if self._failure.end == "silence":
            self._is_silent = True
        else:
            self._reset()

    def _reset(self) -> None:
        for connection in self._sockets:
            with suppress(OSError):  # closed already
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


class Proxy:
    """Forward connections to a port of this machine.

    The proxy listens on ``port`` while it is entered. ``passed`` counts the bytes
    forwarded from the upstream.
    """

    def __init__(self, upstream: int) -> None:
        self._upstream, self._failure, self._links = upstream, PASS, list[Link]()
        self.passed = 0

    def __enter__(self) -> Self:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.fail(RESET)

    def fail(self, failure: Failure) -> None:
        """Apply a failure to open and new connections."""
        self._failure = failure
        for link in self._links:
            link.begin(failure)

    @contextmanager
    def failing(self, failure: Failure) -> Iterator[None]:
        """Apply a failure, and remove it on exit."""
        self.fail(failure)
        try:
            yield
        finally:
            self.fail(PASS)

    def _listen(self) -> None:
        with suppress(OSError):  # the proxy stops
            while True:
                client, _address = self._server.accept()
                Thread(target=self._accept, args=[client], daemon=True).start()

    def _accept(self, client: socket.socket) -> None:
        try:
            upstream = socket.create_connection(("127.0.0.1", self._upstream))
        except OSError:  # it does not listen
            client.close()
            return
        link = Link(client, upstream)
        self._links.append(link)
        link.begin(self._failure)
        link.forward(self)
        self._links.remove(link)
