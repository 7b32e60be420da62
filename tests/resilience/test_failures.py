"""An exit, a full disk and a client that disconnects leave no part of an array and
nothing open.
"""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import BinaryIO

import pytest

from flask_notifications import NotificationApp
from tests.resilience.app import (
    APPLICATION,
    LARGE,
    LIST,
    WHOLE,
    assert_no_record,
    find_unreleased,
)
from tests.servers.nginx import proxying
from tests.servers.process import (
    PATIENCE,
    Server,
    eventually,
    every_server,
    gunicorn,
    program_named,
    server_fixture,
    serving,
)
from tests.services import service_or_skip
from tests.storages import BEARER, OneSession, Source
from tests.wsgi import Response, call

MIB = 1_048_576


server = server_fixture(every_server("gunicorn-gthread", application=APPLICATION))


def ask(server: Server, session: str) -> Response:
    return server.ask("GET", LIST, f"Authorization: Bearer {session}")


@pytest.mark.world
@pytest.mark.parametrize(
    ("name", "exit_code"), [("gunicorn-sync", None), ("gunicorn-gthread", 3)]
)
def test_an_exit_has_no_response_or_open_file(
    name: str, exit_code: int | None, tmp_path: Path
) -> None:
    with serving(program_named(name, APPLICATION), tmp_path) as server:
        assert_no_record(ask(server, "exit"))
        assert find_unreleased(server.written()) == []
        if exit_code is None:
            eventually(lambda: server.is_ready() and not server.open_spools())
        else:
            assert server.exit_code() == exit_code


@pytest.mark.parametrize("length", [MIB + 1, 20 * MIB])
def test_a_response_above_the_file_size_limit_is_a_503_and_leaves_no_file(
    length: int, spooled: list[BinaryIO]
) -> None:
    source = Source([b'{"":"%s"}' % (b"n" * length)])
    app = NotificationApp(OneSession(lambda: source), spool_threshold=0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, limits[1]))
    try:
        response = call(app, "GET", LIST, **BEARER)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (response.code, response.json["code"]) == (503, "spool_unavailable")
    assert source.closed == 1
    assert [file.closed for file in spooled] == [True]


# A private disk for temporary files, without space for a large response; it is
# unmounted with the server.
MOUNT = 'mount -t tmpfs -o size=10m none "$TMPDIR" && exec "$@"'
SMALL_DISK = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"]


def test_responses_that_do_not_fit_fail_while_the_disk_is_full(tmp_path: Path) -> None:
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    tried = subprocess.run([*SMALL_DISK, "true"], env=environ, check=False)
    service_or_skip("unshare, and a file system of our own", tried.returncode == 0)
    program = gunicorn("gthread", application=APPLICATION)
    with serving(program, tmp_path, *SMALL_DISK) as server:
        refused = ask(server, "large")
        assert (refused.code, refused.json["code"]) == (503, "spool_unavailable")
        assert find_unreleased(server.written()) == []
        assert ask(server, "whole").body == WHOLE
        eventually(lambda: not server.open_spools())


@contextmanager
def without_errors(server: Server) -> Iterator[None]:
    """Check that what a client does is no error in the log, and that everything is
    released.
    """
    before = server.written().count("flask_notifications ERROR")
    yield
    assert ask(server, "whole").body == WHOLE
    eventually(
        lambda: not server.open_spools() and not find_unreleased(server.written())
    )
    assert server.written().count("flask_notifications ERROR") == before


# Bytes of the body that a client reads before it disconnects.
@pytest.mark.parametrize("wanted", [None, len(LARGE) // 2])
def test_a_disconnect_leaves_no_file_and_no_error(
    server: Server, wanted: int | None
) -> None:
    http = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    with without_errors(server), closing(http) as connection:
        connection.request("GET", LIST, headers={"Authorization": "Bearer large"})
        if wanted is not None:
            assert connection.getresponse().read(wanted) == LARGE[:wanted]


def test_a_reset_leaves_no_file_and_no_error(server: Server) -> None:
    with (
        without_errors(server),
        server.slow_reader(f"{LIST}?sessionId=large") as connection,
    ):
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_behind_a_buffering_proxy_stalled_readers_block_nobody(tmp_path: Path) -> None:
    threads = 3
    program = gunicorn("gthread", f"threads = {threads}", APPLICATION)
    with (
        serving(program, tmp_path) as server,
        proxying("proxy_buffering on", server.port, tmp_path / "nginx") as proxy,
        ExitStack() as readers,
    ):
        for _reader in range(threads):
            connection = readers.enter_context(
                proxy.slow_reader(f"{LIST}?sessionId=large")
            )
            assert connection.recv(12) == b"HTTP/1.1 200"
        with without_errors(server):
            for _time in range(threads):
                ask(proxy, "whole")
        assert connection.recv(1) != b""  # they are still there
