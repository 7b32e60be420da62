"""The network that fails when it is told to, between a real client and a real server."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread

import pytest

from tests.faults.proxy import BLACK_HOLE, PASS, RESET, End, Fault, Proxy
from tests.servers.process import PATIENCE, eventually, free_port

MESSAGE = bytes(range(256)) * 4


class Echo:
    """A server that answers with all that it is told, and keeps it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.told = b""
        self.left = 0

    def serve(self) -> None:
        """Serve one connection after the other, until the listener is shut down."""
        while True:
            try:
                connection, _client = self._listener.accept()
            except OSError:
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while message := connection.recv(1 << 16):
                self.told += message
                connection.sendall(message)
        self.left += 1

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    thread = Thread(target=echo.serve)
    thread.start()
    yield echo
    echo.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.port) as proxy:
        yield proxy


@contextmanager
def connected(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE) as client:
        yield client


def received(client: socket.socket, size: int) -> bytes:
    """Return so many bytes, or fewer when there is an end before."""
    data = b""
    while len(data) < size and (chunk := client.recv(size - len(data))):
        data += chunk
    return data


def asked(client: socket.socket) -> bytes:
    """Return the answer to a message."""
    client.sendall(MESSAGE)
    return received(client, len(MESSAGE))


def test_it_forwards_both_ways_and_counts_what_came_back(proxy: Proxy, echo: Echo) -> None:
    with connected(proxy) as client:
        assert asked(client) == MESSAGE
    eventually(lambda: echo.left)
    assert (echo.told, proxy.passed) == (MESSAGE, len(MESSAGE))


def test_a_client_that_has_said_everything_still_gets_the_whole_answer(proxy: Proxy) -> None:
    message = b"m" * 3_000_000
    with connected(proxy) as client, ThreadPoolExecutor() as pool:
        sent = pool.submit(client.sendall, message)
        sent.add_done_callback(lambda _sent: client.shutdown(socket.SHUT_WR))
        assert received(client, 1 << 30) == message


def test_it_closes_where_nobody_listens() -> None:
    with Proxy(free_port()) as proxy, connected(proxy) as client:
        assert client.recv(1) == b""


ENDS = [
    pytest.param(End.CUT, b"", id="cut"),
    pytest.param(End.HALF_CLOSE, b"", id="half-close"),
    pytest.param(End.RESET, ConnectionResetError, id="reset"),
    pytest.param(End.SILENCE, TimeoutError, id="silence"),
]


def ending(client: socket.socket) -> object:
    """Return how a connection ends for its client: with no more bytes, or the kind of error."""
    client.settimeout(0.5)
    try:
        return client.recv(1)
    except OSError as fault:
        return type(fault)


@pytest.mark.parametrize(("end", "seen"), ENDS)
@pytest.mark.parametrize("limit", [1, 300])
def test_a_new_connection_ends_after_so_many_bytes(proxy: Proxy, end: End, seen: object, limit: int) -> None:
    proxy.fault = Fault(limit=limit, end=end)
    with connected(proxy) as client:
        client.sendall(MESSAGE)
        assert (received(client, limit), ending(client)) == (MESSAGE[:limit], seen)


@pytest.mark.parametrize(("end", "seen"), ENDS)
def test_an_idle_connection_ends_at_once(proxy: Proxy, echo: Echo, end: End, seen: object) -> None:
    with connected(proxy) as client:
        asked(client)
        proxy.fault = Fault(limit=0, end=end)
        assert ending(client) == seen
    eventually(lambda: echo.left)  # whatever the client saw, the upstream is told at last


@pytest.mark.parametrize(("end", "seen"), ENDS)
def test_an_open_connection_ends_so_many_bytes_later(proxy: Proxy, end: End, seen: object) -> None:
    with connected(proxy) as client:
        asked(client)
        proxy.fault = Fault(limit=3, end=end)
        client.sendall(b"hello")
        assert (received(client, 3), ending(client)) == (b"hel", seen)


@pytest.mark.parametrize(
    ("end", "got"),
    [pytest.param(End.HALF_CLOSE, b"more", id="half-close"), pytest.param(End.SILENCE, b"", id="silence")],
)
def test_after_the_end_the_client_is_still_heard_or_not(proxy: Proxy, echo: Echo, end: End, got: bytes) -> None:
    with connected(proxy) as client:
        asked(client)
        proxy.fault = Fault(limit=0, end=end)
        client.sendall(b"more")
    eventually(lambda: echo.left)
    assert echo.told == MESSAGE + got


@pytest.mark.parametrize("fault", [RESET, BLACK_HOLE], ids=["reset", "black hole"])
def test_a_fault_that_is_over_spares_new_connections(proxy: Proxy, fault: Fault) -> None:
    with connected(proxy) as lost, proxy.failing(fault):
        ending(lost)
    assert proxy.fault is PASS
    with connected(proxy) as client:
        assert asked(client) == MESSAGE


def test_a_connection_that_lost_bytes_never_heals(proxy: Proxy) -> None:
    with connected(proxy) as client:
        asked(client)
        with proxy.failing(BLACK_HOLE):
            client.sendall(b"swallowed")
        client.sendall(b"and what follows too")
        assert ending(client) is TimeoutError


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [pytest.param(Fault(latency=0.2), 0.2, id="latency"), pytest.param(Fault(rate=5_000), 0.2, id="rate")],
)
def test_bytes_come_late_and_whole(proxy: Proxy, fault: Fault, seconds: float) -> None:
    proxy.fault = fault
    began = time.monotonic()
    with connected(proxy) as client:
        assert asked(client) == MESSAGE
    assert time.monotonic() - began > seconds * 0.9


def test_bytes_come_one_by_one(proxy: Proxy) -> None:
    proxy.fault = Fault(rate=20)
    with connected(proxy) as client:
        client.sendall(MESSAGE)
        assert [len(client.recv(100)) for _ in range(3)] == [1, 1, 1]
        proxy.fault = PASS  # open connections too
        assert received(client, len(MESSAGE) - 3) == MESSAGE[3:]


def test_leaving_closes_what_is_open(echo: Echo) -> None:
    with ExitStack() as clients:
        with Proxy(echo.port) as proxy:
            client = clients.enter_context(connected(proxy))
            asked(client)
        assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port))
        eventually(lambda: echo.left)
