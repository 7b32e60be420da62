"""A storage, a disk or a client that fails at any moment is a clean error on real servers, and leaves nothing open."""

import os
import re
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.resilience.app import APPLICATION, COUNT, LARGE, LIST, RECORD, WHOLE, find_unreleased, open_gate
from tests.servers.nginx import proxying
from tests.servers.process import (
    PATIENCE,
    PROGRAMS,
    Program,
    Server,
    eventually,
    every_server,
    gunicorn,
    request_of,
    response_of,
    serving,
)
from tests.services import service_or_skip
from tests.storages import SECRET
from tests.wsgi import Response

FAILING = every_server("gunicorn-gthread", application=APPLICATION)
MIB = 1_048_576

# At the look-up of the caller, at the call for records, at the first record, at two early ones, at one above the spool
# threshold, at the last one, and after it.
STAGES = ["session", "call", "0", "1", "21", "256", f"{COUNT - 1}", f"{COUNT}"]
# What the storage does, the status and the code of the response, and the class in the log.
FAILURES = {
    "unavailable": (503, "storage_unavailable", "StorageUnavailable"),
    "bug": (500, "storage_error", "KeyError"),
    "pipe": (500, "storage_error", "BrokenPipeError"),
}
COMMON_HEADERS = {
    "Content-Type": "application/problem+json",
    "Cache-Control": "no-store",
    "Vary": "Authorization",
    "X-Content-Type-Options": "nosniff",
    "Deprecation": "@1767225600",
    "Sunset": "Fri, 01 Jan 2027 00:00:00 GMT",
    "Link": f'<{LIST}CurrentUser>; rel="successor-version"',
}


@pytest.fixture(scope="module", params=FAILING)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory.mktemp(request.param.name)) as server:
        yield server


def bearer(session: str) -> str:
    return f"Authorization: Bearer {session}"


def ask(server: Server, session: str) -> Response:
    return server.ask("GET", LIST, bearer(session))


def check_error(response: Response, status: int, code: str) -> None:
    """Check that a response is a complete error with the headers of every other response."""
    assert (response.code, response.json["status"], response.json["code"]) == (status, status, code)
    assert {name: response.one(name) for name in COMMON_HEADERS} == COMMON_HEADERS
    assert response.one("Content-Length") == str(len(response.body))
    assert SECRET not in f"{response.headers}{response.body!r}"


def check_released(server: Server) -> None:
    """Check that nothing is left open; the storage is released before the response is sent."""
    assert find_unreleased(server.written()) == []
    assert SECRET not in server.written()
    eventually(lambda: not server.open_spools())
    assert ask(server, "whole").body == WHOLE


def count_logged(server: Server, code: str, kind: str) -> int:
    """Return how often the library has logged an exception of the storage with this code."""
    return len(re.findall(rf"^flask_notifications ERROR {code}\b.*\b{kind} \(", server.written(), re.MULTILINE))


@pytest.mark.parametrize("failure", FAILURES)
def test_a_storage_failure_is_the_same_clean_error_at_every_stage(server: Server, failure: str) -> None:
    status, code, kind = FAILURES[failure]
    before = count_logged(server, code, kind)
    responses = [ask(server, f"{failure}-at-{stage}") for stage in STAGES]
    for response in responses:
        check_error(response, status, code)
        assert response.all("Retry-After") == (["7"] if failure == "unavailable" else [])
    assert len({response.body for response in responses}) == 1
    assert count_logged(server, code, kind) - before == len(STAGES)
    check_released(server)


@pytest.mark.world
@pytest.mark.parametrize(
    ("name", "failure", "exit_code"),
    [
        ("gunicorn-sync", "exit", None),
        pytest.param("gunicorn-gthread", "exit", 3, id="gunicorn-gthread-ends-with-its-worker"),
        ("gunicorn-gthread", "interrupt", None),
        ("gunicorn-gevent", "exit", None),
        pytest.param("uwsgi", "exit", 3, id="uwsgi-without-a-master-ends"),
        ("werkzeug", "exit", None),
    ],
)
def test_an_exit_has_no_response_or_open_file(name: str, failure: str, exit_code: int | None, tmp_path: Path) -> None:
    (program,) = (replace(each, application=APPLICATION) for each in PROGRAMS if each.name == name)
    with serving(program, tmp_path) as server:
        received = server.exchange(request_of("GET", LIST, bearer(f"{failure}-at-280")))
        # Some servers send a response of their own.
        assert received == b"" or (response_of(received).code, RECORD in received) == (500, False)
        assert find_unreleased(server.written()) == []
        if exit_code is None:
            eventually(lambda: server.is_ready() and not server.open_spools())
        else:
            assert server.exit_code() == exit_code


# A private disk for temporary files with space for one large response; it is unmounted with the server.
MOUNT = 'mount -t tmpfs -o size=30m none "$TMPDIR" && exec "$@"'
SMALL_DISK = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"]


def check_no_space(server: Server, response: Response) -> None:
    """Check that a response reports the missing space, and that the storage has been released."""
    check_error(response, 503, "spool_unavailable")
    assert "flask_notifications ERROR spool_unavailable: " in server.written()
    assert find_unreleased(server.written()) == []


@pytest.mark.parametrize("program", FAILING)
def test_a_response_above_the_file_size_limit_is_a_503_and_leaves_no_file(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path, "sh", "-c", 'ulimit -f 2048; exec "$@"', "sh") as server:
        for session in (f"bytes-{MIB + 1}", f"bytes-{2 * MIB}", "large"):
            check_no_space(server, ask(server, session))
        check_released(server)


def test_responses_that_do_not_fit_fail_while_the_disk_is_full(tmp_path: Path) -> None:
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    possible = subprocess.run([*SMALL_DISK, "true"], env=environ, check=False, capture_output=True).returncode == 0
    service_or_skip("unshare, and a file system of our own", possible)
    program = gunicorn("gthread", "threads = 4", APPLICATION)
    with serving(program, tmp_path, *SMALL_DISK) as server:
        free = free_bytes(server, tmp_path)
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as reader:
            reader.sendall(request_of("GET", LIST, bearer("large")))
            assert reader.recv(12) == b"HTTP/1.1 200"
            free_while_sending = free_bytes(server, tmp_path)
            assert free - free_while_sending > len(LARGE) * 0.99
            check_no_space(server, ask(server, "large"))
            assert ask(server, "whole").body == WHOLE
            eventually(lambda: free_bytes(server, tmp_path) == free_while_sending)
            # The response that uses the space is not affected.
            assert b"".join(iter(lambda: reader.recv(MIB), b"")).endswith(b"\r\n\r\n" + LARGE)
        eventually(lambda: free_bytes(server, tmp_path) == free)
        assert ask(server, "large").body == LARGE


def free_bytes(server: Server, folder: Path) -> int:
    """Return the free space for temporary files, in bytes, on the disk that only the server sees."""
    disk = os.statvfs(Path(f"/proc/{server.workers()[0]}/root{folder}", "tmp"))
    return disk.f_bfree * disk.f_frsize


REQUEST = request_of("GET", LIST, bearer("large"))
# How much of the request a client sends, and how many bytes of the body it reads before it disconnects.
MOMENTS = {
    "before-the-request": (b"", None),
    "in-the-headers": (REQUEST[:60], None),
    "before-the-response": (REQUEST, None),
    "in-the-middle": (REQUEST, len(LARGE) // 2),
    "before-the-last-byte": (REQUEST, len(LARGE) - 1),
}


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


def without_errors(server: Server, act: Callable[[], object]) -> None:
    """Act as a client, and check that no error is logged, and that everything is released."""
    before = server.written().count("flask_notifications ERROR")
    act()
    assert ask(server, "whole").body == WHOLE
    eventually(lambda: not server.open_spools() and not find_unreleased(server.written()))
    assert server.written().count("flask_notifications ERROR") == before


@pytest.mark.parametrize("reset", [False, True], ids=["closing", "resetting"])
@pytest.mark.parametrize(("sent", "wanted"), MOMENTS.values(), ids=MOMENTS)
def test_a_disconnect_leaves_no_file_and_no_error(server: Server, sent: bytes, wanted: int | None, reset: bool) -> None:
    without_errors(server, lambda: visit(server, sent, wanted, reset=reset))


@pytest.mark.parametrize("program", FAILING)
def test_a_client_that_disconnects_while_records_are_read_leaves_nothing_open(program: Program, tmp_path: Path) -> None:
    def leave(server: Server) -> None:
        visit(server, request_of("GET", LIST, bearer("wait-at-280")), None, reset=True)
        eventually(server.open_spools)
        assert find_unreleased(server.written()) != []
        open_gate(tmp_path)
        eventually(lambda: not server.open_spools())

    with serving(program, tmp_path) as server:
        without_errors(server, lambda: leave(server))


def test_behind_a_buffering_proxy_stalled_readers_block_nobody(tmp_path: Path) -> None:
    threads = 3
    program = gunicorn("gthread", f"threads = {threads}", APPLICATION)
    with (
        serving(program, tmp_path) as server,
        proxying("proxy_buffering on", server.port, tmp_path / "nginx") as proxy,
        ExitStack() as readers,
    ):
        for _reader in range(threads):
            connection = readers.enter_context(proxy.slow_reader(f"{LIST}?sessionId=large"))
            assert connection.recv(12) == b"HTTP/1.1 200"
        without_errors(server, lambda: [ask(proxy, "whole") for _time in range(threads)])
        assert connection.recv(1) != b""  # they are still there
