"""On real servers without room or descriptors: what cannot be spooled is a 503, and everything else goes on."""

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

from tests.faults.app import LARGE, LIST, WHOLE, open_gate, unreleased
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
from tests.wsgi import Answer

APPLICATION = "tests.faults.app:application"
FAULTY = [replace(program, application=APPLICATION) for program in PROGRAMS]
# Those whose log says so, when they cannot accept a connection.
TELLING = [program for program in FAULTY if program.name not in {"uwsgi", "werkzeug"}]

MIB = 1_048_576
# A disk for temporary files that nobody else sees, with room for one large answer; it ends with the server.
SMALL_DISK = [
    *("unshare", "--map-root-user", "--mount"),
    *("sh", "-c", 'mount -t tmpfs -o size=30m none "$TMPDIR" && exec "$@"', "sh"),
]


def after(act: str) -> list[str]:
    """Return the command that runs another one, in a shell that has done something before."""
    return ["sh", "-c", f'{act}; exec "$@"', "sh"]


def ask(server: Server, session: str) -> Answer:
    return server.ask("GET", LIST, f"Authorization: Bearer {session}")


def check_no_room(server: Server, answer: Answer) -> None:
    """Check that an answer says that it could not be stored, and that the storage has been released."""
    assert (answer.code, answer.json["code"]) == (503, "spool_unavailable")
    assert answer.one("Content-Length") == str(len(answer.body))
    assert (answer.one("Deprecation"), answer.one("Cache-Control")) == ("@1767225600", "no-store")
    log = server.written()
    assert "flask_notifications ERROR spool_unavailable: " in log
    assert unreleased(log) == []


@pytest.fixture(scope="module", params=FAULTY, ids=program_name)
def limited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Lend a server that can write no file of more than one MiB."""
    program: Program = request.param
    with serving(program, tmp_path_factory.mktemp(program.name), *after("ulimit -f 2048")) as lent:
        yield lent


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(60_000, id="in-memory"),
        pytest.param(70_000, id="in-a-file"),
        pytest.param(MIB, id="in-the-largest-file"),
    ],
)
def test_an_answer_for_which_there_is_room_is_whole(limited: Server, size: int) -> None:
    answer = ask(limited, f"bytes-{size}")
    assert (answer.code, len(answer.body), answer.json[0][""].strip("n")) == (200, size, "")


@pytest.mark.parametrize(
    "session",
    [
        pytest.param(f"bytes-{MIB + 1}", id="one-byte-too-large"),
        pytest.param(f"bytes-{2 * MIB}", id="one-record-that-is-much-too-large"),
        pytest.param("large", id="many-records"),
    ],
)
def test_an_answer_for_which_there_is_no_room_leaves_nothing(limited: Server, session: str) -> None:
    check_no_room(limited, ask(limited, session))
    eventually(lambda: not limited.open_spools())
    assert ask(limited, "whole").body == WHOLE


def vanish(folder: Path) -> None:
    folder.rmdir()


def become_a_file(folder: Path) -> None:
    folder.rmdir()
    folder.touch()


def come_back(folder: Path) -> None:
    folder.unlink(missing_ok=True)
    folder.mkdir()


@pytest.mark.parametrize("program", FAULTY, ids=program_name)
def test_a_directory_that_is_gone_stops_large_answers_until_it_is_back(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path) as server:
        assert ask(server, "whole").body == WHOLE
        for change in (vanish, become_a_file):
            change(tmp_path / "tmp")
            check_no_room(server, ask(server, "whole"))
            assert ask(server, "bytes-60000").code == 200
            come_back(tmp_path / "tmp")
            assert ask(server, "whole").body == WHOLE
        assert list((tmp_path / "tmp").iterdir()) == []


def test_a_full_disk_stops_large_answers_until_there_is_room(tmp_path: Path) -> None:
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    possible = subprocess.run([*SMALL_DISK, "true"], env=environ, check=False, capture_output=True).returncode == 0
    service_or_skip("unshare, and a file system of our own", possible)
    program = replace(gunicorn("gthread", "threads = 4"), application=APPLICATION)
    with serving(program, tmp_path, *SMALL_DISK) as server:
        room = free_bytes(server, tmp_path)
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as reader:
            reader.sendall(request_of("GET", LIST, "Authorization: Bearer large"))
            assert reader.recv(12) == b"HTTP/1.1 200"
            taken = free_bytes(server, tmp_path)
            assert room - taken > len(LARGE) * 0.99
            for _time in range(3):
                check_no_room(server, ask(server, "large"))
            assert ask(server, "whole").body == WHOLE
            eventually(lambda: free_bytes(server, tmp_path) == taken)
            # What took the room is none the worse for it.
            assert b"".join(iter(lambda: reader.recv(MIB), b"")).endswith(b"\r\n\r\n" + LARGE)
        eventually(lambda: free_bytes(server, tmp_path) == room)
        assert ask(server, "large").body == LARGE


def free_bytes(server: Server, folder: Path) -> int:
    """Return how much room there is for temporary files, on the disk that only the server sees."""
    disk = os.statvfs(Path(f"/proc/{server.workers()[0]}/root{folder}", "tmp"))
    return disk.f_bfree * disk.f_frsize


@contextmanager
def without_descriptors(server: Server) -> Iterator[None]:
    """Let the process that serves, the last one, open nothing more; it has the standard streams."""
    process = int(server._processes()[-1].name)
    limits = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # some servers replace such a worker
            resource.prlimit(process, resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("program", FAULTY, ids=program_name)
def test_without_descriptors_a_large_answer_has_to_wait(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path) as server, ThreadPoolExecutor() as pool:
        waiting = pool.submit(ask, server, "wait-at-0")
        eventually(lambda: "storage INFO waits" in server.written())
        with without_descriptors(server):
            open_gate(tmp_path)
            check_no_room(server, waiting.result(PATIENCE))
        assert ask(server, "whole").body == WHOLE
        eventually(lambda: not server.open_spools())


@pytest.mark.parametrize("program", TELLING, ids=program_name)
def test_a_server_that_could_not_accept_connections_serves_again(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path) as server:
        with without_descriptors(server), socket.create_connection(("127.0.0.1", server.port)) as refused:
            refused.sendall(request_of("GET", LIST, "Authorization: Bearer large"))
            eventually(lambda: "Too many open files" in server.written())
        eventually(lambda: serves(server))
        eventually(lambda: not server.open_spools() and not unreleased(server.written()))


def serves(server: Server) -> bool:
    with suppress(OSError):
        return ask(server, "whole").body == WHOLE
    return False


def test_logs_that_cannot_be_written_change_no_answer(tmp_path: Path) -> None:
    program = replace(gunicorn("gthread", "accesslog = '/dev/full'"), application=APPLICATION)
    with serving(program, tmp_path, *after("exec 2>/dev/full")) as server:
        for _time in range(3):
            assert ask(server, "whole").body == WHOLE
            assert ask(server, "bug-at-280").json["code"] == "storage_error"
            assert ask(server, "deep-at-280").json["code"] == "unserialisable_record"
            eventually(lambda: not server.open_spools())
