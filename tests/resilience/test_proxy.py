"""The proxy that injects failures, between a real client and a real server."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread

import pytest

from tests.resilience.proxy import BLACK_HOLE, PASS, RESET, End, Failure, Proxy
from tests.servers.process import PATIENCE, eventually, free_port

MESSAGE = bytes(range(256)) * 4


class Echo:
    """A server that sends back all that it receives, and keeps it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.received = b""
        self.ended = 0

    def serve(self) -> None:
        """Serve one connection after the other, until the listener is shut down."""
        while True:
            try:
                connection, _client = self._listener.accept()
            except OSError:
                return
            with connection:
                self._echo(connection)

    def _echo(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while message := connection.recv(1 << 16):
                self.received += message
                connection.sendall(message)
        self.ended += 1

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


def read(client: socket.socket, size: int) -> bytes:
    """Return ``size`` bytes, or fewer if the connection ends earlier."""
    data = b""
    while len(data) < size and (chunk := client.recv(size - len(data))):
        data += chunk
    return data


def exchange(client: socket.socket) -> bytes:
    """Send the message, and return the response."""
    client.sendall(MESSAGE)
    return read(client, len(MESSAGE))


def test_the_proxy_forwards_both_ways_and_counts_the_bytes_to_the_client(proxy: Proxy, echo: Echo) -> None:
    with connected(proxy) as client:
        assert exchange(client) == MESSAGE
    eventually(lambda: echo.ended)
    assert (echo.received, proxy.passed) == (MESSAGE, len(MESSAGE))


def test_a_client_that_half_closes_still_gets_the_whole_response(proxy: Proxy) -> None:
    message = b"m" * 3_000_000
    with connected(proxy) as client, ThreadPoolExecutor() as pool:
        sent = pool.submit(client.sendall, message)
        sent.add_done_callback(lambda _sent: client.shutdown(socket.SHUT_WR))
        assert read(client, 1 << 30) == message


def test_a_connection_is_closed_if_no_upstream_listens() -> None:
    with Proxy(free_port()) as proxy, connected(proxy) as client:
        assert client.recv(1) == b""


ENDS = [
    pytest.param(End.CUT, b"", id="cut"),
    pytest.param(End.HALF_CLOSE, b"", id="half-close"),
    pytest.param(End.RESET, ConnectionResetError, id="reset"),
    pytest.param(End.SILENCE, TimeoutError, id="silence"),
]


def read_end(client: socket.socket) -> object:
    """Return how the client sees the connection end: no bytes, or the class of the error."""
    client.settimeout(0.5)
    try:
        return client.recv(1)
    except OSError as error:
        return type(error)


@pytest.mark.parametrize(("end", "seen"), ENDS)
@pytest.mark.parametrize("limit", [1, 300])
def test_a_new_connection_ends_at_its_byte_limit(proxy: Proxy, end: End, seen: object, limit: int) -> None:
    proxy.failure = Failure(limit=limit, end=end)
    with connected(proxy) as client:
        client.sendall(MESSAGE)
        assert (read(client, limit), read_end(client)) == (MESSAGE[:limit], seen)


@pytest.mark.parametrize(("end", "seen"), ENDS)
def test_an_idle_connection_ends_at_once(proxy: Proxy, echo: Echo, end: End, seen: object) -> None:
    with connected(proxy) as client:
        exchange(client)
        proxy.failure = Failure(limit=0, end=end)
        assert read_end(client) == seen
    eventually(lambda: echo.ended)  # whatever the client saw, the upstream notices in the end


@pytest.mark.parametrize(("end", "seen"), ENDS)
def test_a_byte_limit_on_an_open_connection_counts_from_now_on(proxy: Proxy, end: End, seen: object) -> None:
    with connected(proxy) as client:
        exchange(client)
        proxy.failure = Failure(limit=3, end=end)
        client.sendall(b"hello")
        assert (read(client, 3), read_end(client)) == (b"hel", seen)


@pytest.mark.parametrize(
    ("end", "got"),
    [pytest.param(End.HALF_CLOSE, b"more", id="half-close"), pytest.param(End.SILENCE, b"", id="silence")],
)
def test_after_its_end_only_a_half_closed_connection_forwards_requests(
    proxy: Proxy, echo: Echo, end: End, got: bytes
) -> None:
    with connected(proxy) as client:
        exchange(client)
        proxy.failure = Failure(limit=0, end=end)
        client.sendall(b"more")
    eventually(lambda: echo.ended)
    assert echo.received == MESSAGE + got


@pytest.mark.parametrize("failure", [RESET, BLACK_HOLE], ids=["reset", "black hole"])
def test_a_failure_that_is_over_does_not_affect_new_connections(proxy: Proxy, failure: Failure) -> None:
    with connected(proxy) as lost, proxy.failing(failure):
        read_end(lost)
    assert proxy.failure is PASS
    with connected(proxy) as client:
        assert exchange(client) == MESSAGE


def test_a_connection_that_lost_bytes_never_recovers(proxy: Proxy) -> None:
    with connected(proxy) as client:
        exchange(client)
        with proxy.failing(BLACK_HOLE):
            client.sendall(b"swallowed")
        client.sendall(b"and what follows too")
        assert read_end(client) is TimeoutError


@pytest.mark.parametrize(
    ("failure", "seconds"),
    [pytest.param(Failure(latency=0.2), 0.2, id="latency"), pytest.param(Failure(rate=5_000), 0.2, id="rate")],
)
def test_latency_and_a_limited_rate_delay_bytes_and_lose_none(proxy: Proxy, failure: Failure, seconds: float) -> None:
    proxy.failure = failure
    began = time.monotonic()
    with connected(proxy) as client:
        assert exchange(client) == MESSAGE
    assert time.monotonic() - began > seconds * 0.9


def test_a_very_low_rate_delivers_bytes_one_by_one(proxy: Proxy) -> None:
    proxy.failure = Failure(rate=20)
    with connected(proxy) as client:
        client.sendall(MESSAGE)
        assert [len(client.recv(100)) for _ in range(3)] == [1, 1, 1]
        proxy.failure = PASS  # affects open connections too
        assert read(client, len(MESSAGE) - 3) == MESSAGE[3:]


def test_stopping_the_proxy_closes_its_connections(echo: Echo) -> None:
    with ExitStack() as clients:
        with Proxy(echo.port) as proxy:
            client = clients.enter_context(connected(proxy))
            exchange(client)
        assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port))
        eventually(lambda: echo.ended)
