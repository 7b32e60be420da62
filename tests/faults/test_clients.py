"""On real servers: clients that leave at any moment, or stop reading, take nothing with them but their own answer."""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.app import LARGE, LIST, WHOLE, open_gate, unreleased
from tests.servers.nginx import proxying
from tests.servers.process import PROGRAMS, Program, Server, eventually, gunicorn, program_name, request_of, serving

FAULTY = [replace(program, application="tests.faults.app:application") for program in PROGRAMS]

REQUEST = request_of("GET", LIST, "Authorization: Bearer large")
NEXT = "Authorization: Bearer whole"

# How much of the request a client sends, and how much of the answer's body it reads before it leaves.
MOMENTS = {
    "before-the-request": (b"", None),
    "in-the-request-line": (REQUEST[:7], None),
    "in-the-fields": (REQUEST[:60], None),
    "before-the-last-byte-of-the-request": (REQUEST[:-1], None),
    "before-the-answer": (REQUEST, None),
    "after-the-first-byte": (REQUEST, 1),
    "in-the-middle": (REQUEST, len(LARGE) // 2),
    "before-the-last-byte": (REQUEST, len(LARGE) - 1),
}


@pytest.fixture(scope="module", params=FAULTY, ids=program_name)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program: Program = request.param
    with serving(program, tmp_path_factory.mktemp(program.name)) as lent:
        yield lent


def visit(server: Server, sent: bytes, wanted: int | None, *, reset: bool) -> None:
    """Send so much, read so many bytes of the body of what comes back, and leave."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(sent)
        if wanted is not None:
            with connection.makefile("rb") as answer:
                assert answer.readline().split()[1] == b"200"
                while answer.readline() != b"\r\n":
                    pass
                assert answer.read(wanted) == LARGE[:wanted]


def check_nothing_is_left(server: Server) -> None:
    """Check that all is given back, that no failure is logged, and that the next client has its answer."""
    assert server.ask("GET", LIST, NEXT).body == WHOLE
    eventually(lambda: not server.open_spools() and not unreleased(server.written()))
    assert "flask_notifications ERROR" not in server.written()


@pytest.mark.parametrize("reset", [False, True], ids=["closing", "resetting"])
@pytest.mark.parametrize(("sent", "wanted"), MOMENTS.values(), ids=MOMENTS)
def test_a_client_that_leaves_takes_nothing_with_it(
    server: Server, sent: bytes, wanted: int | None, reset: bool
) -> None:
    visit(server, sent, wanted, reset=reset)
    check_nothing_is_left(server)


@pytest.mark.parametrize("program", FAULTY, ids=program_name)
def test_a_client_that_leaves_while_the_storage_is_read_costs_no_more_than_that(
    program: Program, tmp_path: Path
) -> None:
    with serving(program, tmp_path) as server:
        visit(server, request_of("GET", LIST, "Authorization: Bearer wait-at-280"), None, reset=True)
        eventually(server.open_spools)
        assert unreleased(server.written()) != []
        open_gate(tmp_path)
        eventually(lambda: not server.open_spools())
        check_nothing_is_left(server)


THREADS = 3
STALLING = replace(gunicorn("gthread", f"threads = {THREADS}"), application="tests.faults.app:application")


def test_readers_that_stall_on_every_thread_hold_no_record(tmp_path: Path) -> None:
    with serving(STALLING, tmp_path) as server:
        with ExitStack() as readers:
            for _reader in range(THREADS):
                readers.enter_context(server.slow_reader(f"{LIST}?sessionId=large"))
            eventually(lambda: len(server.open_spools()) == THREADS)
            eventually(lambda: server.written().count("storage INFO closed") == THREADS)
            assert unreleased(server.written()) == []
        check_nothing_is_left(server)


def test_behind_a_proxy_that_buffers_readers_that_stall_stop_nobody(tmp_path: Path) -> None:
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
