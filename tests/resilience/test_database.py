"""While a real database fails, clients get the whole array or a clean error, and the
service recovers by itself.
"""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.resilience.breakable import Service, application_on, find_leaks
from tests.resilience.database_app import POOL, documents_of, prepare, session_of
from tests.resilience.postgresql import IMMEDIATE, Cluster, postgresql
from tests.resilience.proxy import BLACK_HOLE, PASS, RESET, Failure, Proxy
from tests.servers.process import GUNICORN_FILTER, Server, eventually, gunicorn
from tests.wsgi import Response

# More threads than the pool has connections, so that some must wait for one.
THREADS = f"{GUNICORN_FILTER}\nthreads = {POOL + 3}"

# Make each row of one user slow, and rename the table of the rows.
SLOW_ROWS = """
ALTER TABLE notifications RENAME TO stored;
CREATE VIEW notifications AS SELECT
    owner, position, written_at, CASE owner WHEN 'slow' THEN pg_sleep(0.1)::text || document ELSE document END document
FROM stored
"""

SUCCESSORS = [
    f'</API/Notification/{name}>; rel="successor-version"'
    for name in ("CurrentUser", "Account")
]


def assert_announced(response: Response) -> None:
    """Check the headers that every response has, whatever happened to the database."""
    assert response.one("Deprecation") == "@1767225600"
    assert response.one("Sunset") == "Fri, 01 Jan 2027 00:00:00 GMT"
    assert response.one("Link").partition(", ")[0] in SUCCESSORS
    assert response.one("Cache-Control") == "no-store"
    assert int(response.one("Content-Length")) == len(response.body)


def assert_whole(response: Response, login: str) -> None:
    """Check that a response holds all of a user's notifications, and nothing else."""
    assert response.code == 200, response
    assert response.body == f"[{','.join(documents_of(login))}]".encode()
    assert_announced(response)


def assert_failed(
    response: Response, status: int = 503, code: str = "storage_unavailable"
) -> None:
    """Check that a response is a clean error without any byte of an array; by default,
    that it asks for a retry.
    """
    assert (response.code, response.one("Content-Type")) == (
        status,
        "application/problem+json",
    ), response
    assert response.json.keys() == {"type", "title", "status", "detail", "code"}
    assert response.json["code"] == code
    assert response.all("Retry-After") == (["30"] if status == 503 else [])
    assert_announced(response)


@contextmanager
def assert_logged(server: Server, *kinds: str) -> Iterator[None]:
    """Check that one new line of the log names the kind of failure, and that the log
    contains no secrets.
    """
    line = re.compile(".*".join(map(re.escape, kinds)))
    before = len(line.findall(server.written()))
    yield
    eventually(lambda: len(line.findall(server.written())) > before)
    assert find_leaks(server.written()) == []


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with postgresql() as cluster:
        prepare(cluster.url())
        with cluster.connect("shop") as connection:
            connection.execute(SLOW_ROWS.encode())
        yield cluster


@pytest.fixture(scope="module")
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with Proxy(cluster.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def threaded(
    cluster: Cluster, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    program = gunicorn("gthread", THREADS)
    with application_on(
        cluster.url(proxy.port), program, tmp_path_factory.mktemp("threaded")
    ) as server:
        yield Service(server, proxy, cluster)


@pytest.fixture
def service(threaded: Service) -> Iterator[Service]:
    """Yield a service for a test to break, and check that it recovers by itself, and
    has left nothing open.
    """
    yield threaded
    for login in ("alice", "large"):
        assert_whole(threaded.ask(login), login)
    eventually(lambda: not threaded.cluster.busy_backends())
    eventually(lambda: not threaded.server.open_spools())
    assert find_leaks(threaded.server.written()) == []


@contextmanager
def pool_exhausted(service: Service) -> Iterator[None]:
    with ExitStack() as others:
        for _ in range(POOL):
            others.enter_context(service.asking("slow"))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        eventually(lambda: service.cluster.ask(waiting) == [POOL])
        yield


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        pytest.param(
            lambda service: service.cluster.stopped(),
            "psycopg.OperationalError",
            id="stopped",
        ),
        pytest.param(
            lambda service: service.new_connections(BLACK_HOLE),
            "ConnectionTimeout",
            id="never responds",
        ),
        pytest.param(
            Service.no_connection_left,
            "psycopg.OperationalError",
            id="out of connections",
        ),
        pytest.param(
            pool_exhausted, "sqlalchemy.exc.TimeoutError", id="pool exhausted"
        ),
        pytest.param(Service.locked, "psycopg.errors.QueryCanceled", id="table locked"),
    ],
)
def test_an_unavailable_database_is_a_503_until_it_is_back(
    service: Service, broken: Any, kind: str
) -> None:
    with broken(service), assert_logged(service.server, "storage_unavailable: ", kind):
        assert_failed(service.ask("alice"))


def restart(service: Service) -> None:
    with service.cluster.stopped(IMMEDIATE):
        pass


@pytest.mark.parametrize(
    "break_it",
    [
        restart,
        lambda service: service.proxy.fail(RESET),
        lambda service: service.cluster.terminate(),
    ],
)
def test_a_database_that_fails_between_two_rows_is_a_503(
    service: Service, break_it: Callable[[Service], None]
) -> None:
    with (
        assert_logged(service.server, "storage_unavailable: ", "psycopg."),
        service.reading() as response,
    ):
        break_it(service)
    assert_failed(response.result())


def test_a_suspended_backend_blocks_its_own_request_only(service: Service) -> None:
    """Only a proxy's read timeout ends such a request while the backend is suspended."""
    with service.reading() as response:
        (backend,) = service.cluster.busy_backends()
        os.kill(backend, signal.SIGSTOP)
        try:
            service.proxy.fail(PASS)
            for _ in range(2 * POOL):
                assert_whole(service.ask("alice"), "alice")
            assert not response.done()
        finally:
            os.kill(backend, signal.SIGCONT)
    if response.result().code == 200:
        assert_whole(response.result(), "large")
    else:
        assert_failed(response.result())


@pytest.mark.parametrize("limit", [1, 200, 600, 1_050_000])
def test_a_network_that_fails_is_a_503(service: Service, limit: int) -> None:
    """It fails while the driver connects, looks for the session, and reads the rows,
    after so many bytes.
    """
    with service.new_connections(Failure(limit=limit)):
        assert_failed(service.ask("large"))


def test_a_date_that_python_cannot_express_is_a_500_and_no_skipped_row(
    service: Service,
) -> None:
    target = f"/API/Notification/GetNotificationsForAccount/bob/?sessionId={session_of('admin')}"
    update = "UPDATE stored SET written_at = '{}' WHERE owner = 'bob' AND position = 1"
    service.cluster.ask(update.format("infinity"))
    try:
        with assert_logged(service.server, "storage_error: ", "psycopg.DataError"):
            response = service.server.ask("POST", target)
        assert_failed(response, 500, "storage_error")
    finally:
        service.cluster.ask(update.format("now"))
