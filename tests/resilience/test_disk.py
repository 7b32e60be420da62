"""On real servers without disk space or file descriptors, only responses that need a temporary file are a 503."""

import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.resilience.app import LARGE, LIST, WHOLE, find_unreleased, open_gate
from tests.servers.process import (
    PATIENCE,
    PROGRAMS,
    Program,
    Server,
    eventually,
    gunicorn,
    program_name,
    request_of,
    serving,
)
from tests.services import service_or_skip
from tests.wsgi import Response

APPLICATION = "tests.resilience.app:application"
FAILING = [replace(program, application=APPLICATION) for program in PROGRAMS]
# The servers that log a connection that they cannot accept.
REPORTING = [program for program in FAILING if program.name not in {"uwsgi", "werkzeug"}]

MIB = 1_048_576
# A private disk for temporary files with space for one large response; it is unmounted with the server.
SMALL_DISK = [
    *("unshare", "--map-root-user", "--mount"),
    *("sh", "-c", 'mount -t tmpfs -o size=30m none "$TMPDIR" && exec "$@"', "sh"),
]


def after(command: str) -> list[str]:
    """Return the beginning of a command line that runs a shell command before the rest."""
    return ["sh", "-c", f'{command}; exec "$@"', "sh"]


def ask(server: Server, session: str) -> Response:
    return server.ask("GET", LIST, f"Authorization: Bearer {session}")


def check_no_space(server: Server, response: Response) -> None:
    """Check that a response reports the missing space, and that the storage has been released."""
    assert (response.code, response.json["code"]) == (503, "spool_unavailable")
    assert response.one("Content-Length") == str(len(response.body))
    assert (response.one("Deprecation"), response.one("Cache-Control")) == ("@1767225600", "no-store")
    log = server.written()
    assert "flask_notifications ERROR spool_unavailable: " in log
    assert find_unreleased(log) == []


@pytest.fixture(scope="module", params=FAILING, ids=program_name)
def limited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a server that cannot write files larger than one MiB."""
    program: Program = request.param
    with serving(program, tmp_path_factory.mktemp(program.name), *after("ulimit -f 2048")) as server:
        yield server


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(60_000, id="in-memory"),
        pytest.param(70_000, id="in-a-file"),
        pytest.param(MIB, id="in-the-largest-file"),
    ],
)
def test_a_response_within_the_file_size_limit_is_complete(limited: Server, size: int) -> None:
    response = ask(limited, f"bytes-{size}")
    assert (response.code, len(response.body), response.json[0][""].strip("n")) == (200, size, "")


@pytest.mark.parametrize(
    "session",
    [
        pytest.param(f"bytes-{MIB + 1}", id="one-byte-too-large"),
        pytest.param(f"bytes-{2 * MIB}", id="one-record-that-is-much-too-large"),
        pytest.param("large", id="many-records"),
    ],
)
def test_a_response_above_the_file_size_limit_is_a_503_and_leaves_no_file(limited: Server, session: str) -> None:
    check_no_space(limited, ask(limited, session))
    eventually(lambda: not limited.open_spools())
    assert ask(limited, "whole").body == WHOLE


def remove(folder: Path) -> None:
    folder.rmdir()


def replace_by_a_file(folder: Path) -> None:
    folder.rmdir()
    folder.touch()


def restore(folder: Path) -> None:
    folder.unlink(missing_ok=True)
    folder.mkdir()


@pytest.mark.parametrize("program", FAILING, ids=program_name)
def test_only_large_responses_fail_while_the_temporary_directory_is_missing(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path) as server:
        assert ask(server, "whole").body == WHOLE
        for change in (remove, replace_by_a_file):
            change(tmp_path / "tmp")
            check_no_space(server, ask(server, "whole"))
            assert ask(server, "bytes-60000").code == 200
            restore(tmp_path / "tmp")
            assert ask(server, "whole").body == WHOLE
        assert list((tmp_path / "tmp").iterdir()) == []


def test_responses_that_do_not_fit_fail_while_the_disk_is_full(tmp_path: Path) -> None:
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    possible = subprocess.run([*SMALL_DISK, "true"], env=environ, check=False, capture_output=True).returncode == 0
    service_or_skip("unshare, and a file system of our own", possible)
    program = replace(gunicorn("gthread", "threads = 4"), application=APPLICATION)
    with serving(program, tmp_path, *SMALL_DISK) as server:
        free = free_bytes(server, tmp_path)
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as reader:
            reader.sendall(request_of("GET", LIST, "Authorization: Bearer large"))
            assert reader.recv(12) == b"HTTP/1.1 200"
            free_while_sending = free_bytes(server, tmp_path)
            assert free - free_while_sending > len(LARGE) * 0.99
            for _time in range(3):
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


@contextmanager
def without_descriptors(server: Server) -> Iterator[None]:
    """Stop the serving process, which is the last one, from opening any file but the standard streams."""
    process = int(server._processes()[-1].name)
    limits = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # some servers replace such a worker
            resource.prlimit(process, resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("program", FAILING, ids=program_name)
def test_without_file_descriptors_a_large_response_is_a_503(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path) as server, ThreadPoolExecutor() as pool:
        waiting = pool.submit(ask, server, "wait-at-0")
        eventually(lambda: "storage INFO waits" in server.written())
        with without_descriptors(server):
            open_gate(tmp_path)
            check_no_space(server, waiting.result(PATIENCE))
        assert ask(server, "whole").body == WHOLE
        eventually(lambda: not server.open_spools())


@pytest.mark.parametrize("program", REPORTING, ids=program_name)
def test_a_server_that_could_not_accept_connections_serves_again(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path) as server:
        with without_descriptors(server), socket.create_connection(("127.0.0.1", server.port)) as refused:
            refused.sendall(request_of("GET", LIST, "Authorization: Bearer large"))
            eventually(lambda: "Too many open files" in server.written())
        eventually(lambda: serves(server))
        eventually(lambda: not server.open_spools() and not find_unreleased(server.written()))


def serves(server: Server) -> bool:
    with suppress(OSError):
        return ask(server, "whole").body == WHOLE
    return False


def test_logs_that_cannot_be_written_change_no_response(tmp_path: Path) -> None:
    program = replace(gunicorn("gthread", "accesslog = '/dev/full'"), application=APPLICATION)
    with serving(program, tmp_path, *after("exec 2>/dev/full")) as server:
        for _time in range(3):
            assert ask(server, "whole").body == WHOLE
            assert ask(server, "bug-at-280").json["code"] == "storage_error"
            assert ask(server, "deep-at-280").json["code"] == "unserialisable_record"
            eventually(lambda: not server.open_spools())
