"""Clients of real servers that disconnect or stop reading at any moment affect nothing but their own response."""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.resilience.app import LARGE, LIST, WHOLE, find_unreleased, open_gate
from tests.servers.nginx import proxying
from tests.servers.process import PROGRAMS, Program, Server, eventually, gunicorn, program_name, request_of, serving

FAILING = [replace(program, application="tests.resilience.app:application") for program in PROGRAMS]

REQUEST = request_of("GET", LIST, "Authorization: Bearer large")
NEXT = "Authorization: Bearer whole"

# How much of the request a client sends, and how many bytes of the body it reads before it disconnects.
MOMENTS = {
    "before-the-request": (b"", None),
    "in-the-request-line": (REQUEST[:7], None),
    "in-the-headers": (REQUEST[:60], None),
    "before-the-last-byte-of-the-request": (REQUEST[:-1], None),
    "before-the-response": (REQUEST, None),
    "after-the-first-byte": (REQUEST, 1),
    "in-the-middle": (REQUEST, len(LARGE) // 2),
    "before-the-last-byte": (REQUEST, len(LARGE) - 1),
}


@pytest.fixture(scope="module", params=FAILING, ids=program_name)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program: Program = request.param
    with serving(program, tmp_path_factory.mktemp(program.name)) as server:
        yield server


def visit(server: Server, sent: bytes, wanted: int | None, *, reset: bool) -> None:
    """Send some bytes, read ``wanted`` bytes of the body of the response, and disconnect."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(sent)
        if wanted is not None:
            with connection.makefile("rb") as response:
                assert response.readline().split()[1] == b"200"
                while response.readline() != b"\r\n":
                    pass
                assert response.read(wanted) == LARGE[:wanted]


def check_nothing_is_left(server: Server) -> None:
    """Check that everything is released, that no error is logged, and that the next client gets its response."""
    assert server.ask("GET", LIST, NEXT).body == WHOLE
    eventually(lambda: not server.open_spools() and not find_unreleased(server.written()))
    assert "flask_notifications ERROR" not in server.written()


@pytest.mark.parametrize("reset", [False, True], ids=["closing", "resetting"])
@pytest.mark.parametrize(("sent", "wanted"), MOMENTS.values(), ids=MOMENTS)
def test_a_client_that_disconnects_leaves_nothing_open_and_logs_no_error(
    server: Server, sent: bytes, wanted: int | None, reset: bool
) -> None:
    visit(server, sent, wanted, reset=reset)
    check_nothing_is_left(server)


@pytest.mark.parametrize("program", FAILING, ids=program_name)
def test_a_client_that_disconnects_while_records_are_read_leaves_nothing_open(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path) as server:
        visit(server, request_of("GET", LIST, "Authorization: Bearer wait-at-280"), None, reset=True)
        eventually(server.open_spools)
        assert find_unreleased(server.written()) != []
        open_gate(tmp_path)
        eventually(lambda: not server.open_spools())
        check_nothing_is_left(server)


THREADS = 3
STALLING = replace(gunicorn("gthread", f"threads = {THREADS}"), application="tests.resilience.app:application")


def test_stalled_readers_on_every_thread_hold_no_records_open(tmp_path: Path) -> None:
    with serving(STALLING, tmp_path) as server:
        with ExitStack() as readers:
            for _reader in range(THREADS):
                readers.enter_context(server.slow_reader(f"{LIST}?sessionId=large"))
            eventually(lambda: len(server.open_spools()) == THREADS)
            eventually(lambda: server.written().count("storage INFO closed") == THREADS)
            assert find_unreleased(server.written()) == []
        check_nothing_is_left(server)


def test_behind_a_buffering_proxy_stalled_readers_block_nobody(tmp_path: Path) -> None:
    (tmp_path / "nginx").mkdir()
    with (
        serving(STALLING, tmp_path) as server,
        proxying("proxy_buffering on", server.port, tmp_path / "nginx") as proxy,
    ):
        with ExitStack() as readers:
            for _reader in range(THREADS):
                connection = readers.enter_context(proxy.slow_reader(f"{LIST}?sessionId=large"))
                assert connection.recv(12) == b"HTTP/1.1 200"
            assert [proxy.ask("GET", LIST, NEXT).body == WHOLE for _time in range(THREADS)] == [True] * THREADS
            assert connection.recv(1) != b""  # they are still there
        check_nothing_is_left(server)
