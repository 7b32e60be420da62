"""While a real database fails, clients get the whole array or a clean error, and the service recovers by itself."""

import os
import re
import signal
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from tests.resilience.database_app import POOL, documents_of, prepare, session_of
from tests.resilience.postgresql import IMMEDIATE, Cluster, postgresql
from tests.resilience.proxy import BLACK_HOLE, PASS, RESET, End, Failure, Proxy
from tests.resilience.service import DOCUMENTATION, Service, application_on, no_connection_left, target_of
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

SUCCESSORS = [f'</API/Notification/{name}>; rel="successor-version"' for name in ("CurrentUser", "Account")]


def account_of(account_id: str) -> str:
    return f"/API/Notification/GetNotificationsForAccount/{account_id}/?sessionId={session_of('admin')}"


def assert_announced(response: Response) -> None:
    """Check the headers that every response has, whatever happened to the database."""
    assert response.one("Deprecation") == "@1767225600"
    assert response.one("Sunset") == "Thu, 01 Jul 2027 00:00:00 GMT"
    successor, documentation = response.all("Link")
    assert successor in SUCCESSORS
    assert documentation == DOCUMENTATION
    assert response.one("Cache-Control") == "no-store"
    assert int(response.one("Content-Length")) == len(response.body)


def assert_whole(response: Response, login: str) -> None:
    """Check that a response holds all of a user's notifications, and nothing else."""
    assert response.code == 200, response
    assert response.body == f"[{','.join(documents_of(login))}]".encode()
    assert_announced(response)


def assert_failed(response: Response, status: int, code: str) -> None:
    """Check that a response is a clean error without any byte of an array."""
    assert (response.code, response.one("Content-Type")) == (status, "application/problem+json"), response
    assert response.json.keys() == {"type", "title", "status", "detail", "code"}
    assert response.json["code"] == code
    assert_announced(response)


def assert_unavailable(response: Response) -> None:
    """Check that a response asks the client to retry later."""
    assert_failed(response, 503, "storage_unavailable")
    assert response.one("Retry-After") == "30"


def assert_no_secrets(log: str) -> None:
    """Check that a log contains no session ID, no statement and no stored data."""
    assert "5e55-4000" not in log
    assert "SELECT" not in log
    assert "tttt" not in log


@contextmanager
def assert_logged(server: Server, *kinds: str) -> Iterator[None]:
    """Check that one new line of the log names the kind of failure, and that the log contains no secrets."""
    line = re.compile(".*".join(map(re.escape, kinds)))
    before = len(line.findall(server.written()))
    yield
    eventually(lambda: len(line.findall(server.written())) > before)
    assert_no_secrets(server.written())


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
def threaded(cluster: Cluster, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    program = gunicorn("gthread", THREADS)
    with application_on(cluster.url(proxy.port), program, tmp_path_factory.mktemp("threaded")) as server:
        yield Service(server, proxy, cluster)


@pytest.fixture
def service(threaded: Service) -> Iterator[Service]:
    """Yield a service for a test to break, and check that it recovers by itself."""
    yield threaded
    assert_recovered(threaded)


def assert_recovered(service: Service) -> None:
    """Check that the next requests get complete responses, and that the earlier ones left nothing open."""
    for login in ("alice", "large"):
        assert_whole(service.ask(login), login)
    eventually(lambda: not service.cluster.busy_backends())
    eventually(lambda: not service.server.open_spools())
    assert_no_secrets(service.server.written())


@contextmanager
def pool_exhausted(service: Service) -> Iterator[None]:
    with ExitStack() as others:
        for _ in range(POOL):
            others.enter_context(service.asking("slow"))
        eventually(lambda: len(service.cluster.waiting_backends("PgSleep")) == POOL)
        yield


@contextmanager
def locked(service: Service) -> Iterator[None]:
    with service.cluster.connect() as other, other.transaction():
        other.execute("LOCK TABLE stored")
        yield


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        pytest.param(lambda service: service.cluster.stopped(), "psycopg.OperationalError", id="stopped"),
        pytest.param(
            lambda service: service.new_connections(BLACK_HOLE),
            "psycopg.errors.ConnectionTimeout",
            id="accepts and never responds",
        ),
        pytest.param(
            lambda service: service.new_connections(Failure(rate=20)),
            "psycopg.errors.ConnectionTimeout",
            id="byte by byte",
        ),
        pytest.param(no_connection_left, "psycopg.OperationalError", id="out of connections"),
        pytest.param(pool_exhausted, "sqlalchemy.exc.TimeoutError", id="pool exhausted"),
        pytest.param(locked, "psycopg.errors.QueryCanceled", id="table locked"),
    ],
)
def test_an_unavailable_database_is_a_503_until_it_is_back(
    service: Service, broken: Callable[[Service], AbstractContextManager[None]], kind: str
) -> None:
    with broken(service), assert_logged(service.server, "storage_unavailable: ", kind):
        assert_unavailable(service.ask("alice"))


def test_a_statement_that_takes_too_long_is_a_503(service: Service) -> None:
    with assert_logged(service.server, "storage_unavailable: ", "psycopg.errors.QueryCanceled"):
        assert_unavailable(service.ask("slow"))


def test_other_requests_are_served_while_one_waits_for_a_lock(service: Service) -> None:
    with locked(service), service.asking("alice") as response:
        eventually(lambda: service.cluster.waiting_backends("relation"))
        assert_failed(service.server.ask("GET", target_of("nobody")), 401, "session_invalid")
        assert not response.done()


def test_a_database_may_start_after_the_application(tmp_path: Path, cluster: Cluster) -> None:
    with ExitStack() as outage:
        outage.enter_context(cluster.stopped())
        with application_on(cluster.url(), gunicorn("gthread"), tmp_path) as server:
            with assert_logged(server, "storage_unavailable: ", "psycopg.OperationalError"):
                assert_unavailable(server.ask("GET", target_of("alice")))
            outage.close()
            assert_whole(server.ask("GET", target_of("alice")), "alice")


def restart(service: Service) -> None:
    with service.cluster.stopped(IMMEDIATE):
        pass


def break_network(failure: Failure) -> Callable[[Service], None]:
    """Return a function that makes the network of a service fail at once."""

    def apply(service: Service) -> None:
        service.proxy.failure = failure

    return apply


@pytest.mark.parametrize(
    "break_it",
    [
        pytest.param(lambda service: service.cluster.terminate(), id="backend terminated"),
        pytest.param(restart, id="stopped at once and started again"),
        pytest.param(break_network(RESET), id="reset"),
        pytest.param(break_network(Failure(limit=0, end=End.CUT)), id="cut"),
        pytest.param(break_network(Failure(limit=0, end=End.HALF_CLOSE)), id="half-closed"),
    ],
)
def test_a_database_that_fails_between_two_rows_is_a_503(service: Service, break_it: Callable[[Service], None]) -> None:
    with assert_logged(service.server, "storage_unavailable: ", "psycopg."), service.reading() as response:
        break_it(service)
    assert_unavailable(response.result())


def test_a_backend_terminated_during_a_statement_is_a_503(service: Service) -> None:
    with assert_logged(service.server, "storage_unavailable: ", "psycopg."):
        with service.asking("slow") as response:
            eventually(lambda: service.cluster.waiting_backends("PgSleep"))
            service.cluster.terminate()
        assert_unavailable(response.result())


def test_a_suspended_backend_blocks_its_own_request_only(service: Service) -> None:
    """Only a proxy's read timeout ends such a request while the backend is suspended."""
    with service.reading() as response:
        (backend,) = service.cluster.busy_backends()
        os.kill(backend, signal.SIGSTOP)
        try:
            service.proxy.failure = PASS
            for _ in range(2 * POOL):
                assert_whole(service.ask("alice"), "alice")
            assert not response.done()
        finally:
            os.kill(backend, signal.SIGCONT)
    if response.result().code == 200:
        assert_whole(response.result(), "large")
    else:
        assert_unavailable(response.result())


@pytest.fixture(scope="module")
def stages(threaded: Service) -> dict[str, tuple[int, int]]:
    """Return the start and end of each stage of a request on a new connection, in bytes from the database."""

    def count_bytes(request: Callable[[], object]) -> int:
        before = threaded.proxy.passed
        with threaded.new_connections(PASS):
            request()
        return threaded.proxy.passed - before

    def shake_hands() -> None:
        psycopg.connect(threaded.cluster.url(threaded.proxy.port).replace("+psycopg", "")).close()

    threaded.ask("alice")  # on its first connection, SQLAlchemy asks for the version of the server
    handshake = count_bytes(shake_hands)
    session = count_bytes(lambda: threaded.ask("admin"))  # this user has no rows
    rows = count_bytes(lambda: threaded.ask("large"))
    assert 0 < handshake < session < rows
    return {"handshake": (0, handshake), "session": (handshake, session), "rows": (session, rows)}


@pytest.mark.parametrize("end", [End.RESET, End.CUT, End.HALF_CLOSE], ids=["reset", "cut", "half-close"])
@pytest.mark.parametrize(
    ("stage", "share"),
    [("handshake", 0), ("handshake", 0.5), ("handshake", 1), ("session", 0.5), ("rows", 0.01), ("rows", 0.9999)],
)
def test_a_network_that_fails_at_any_stage_is_a_503(
    service: Service, stages: dict[str, tuple[int, int]], stage: str, share: float, end: End
) -> None:
    begin, until = stages[stage]
    with service.new_connections(Failure(limit=max(1, begin + int(share * (until - begin))), end=end)):
        assert_unavailable(service.ask("large"))


@pytest.mark.parametrize(
    "failure", [pytest.param(Failure(latency=0.02), id="late"), pytest.param(Failure(rate=4_000), id="in small pieces")]
)
def test_a_slow_network_delays_the_response_but_it_is_complete(service: Service, failure: Failure) -> None:
    with service.proxy.failing(failure):
        assert_whole(service.ask("alice"), "alice")


@contextmanager
def stored(cluster: Cluster, document: str | None, written_at: str) -> Iterator[None]:
    """Store an odd record between two valid ones, and delete all three on exit."""
    with cluster.connect() as admin:
        admin.execute("INSERT INTO sessions VALUES (%s, 'odd', false)", [session_of("odd")])
        valid = (documents_of("alice")[0], "2025-03-31T08:15:18Z")
        for position, record in enumerate([valid, (document, written_at), valid]):
            admin.execute("INSERT INTO stored VALUES ('odd', %s, %s, %s)", [position, *record])
        try:
            yield
        finally:
            admin.execute(b"DELETE FROM stored WHERE owner = 'odd'; DELETE FROM sessions WHERE login = 'odd'")


@pytest.mark.parametrize("written_at", ["infinity", "-infinity", "294276-12-31", "0044-03-15 BC"])
def test_a_date_that_python_cannot_express_is_a_500_and_no_skipped_row(service: Service, written_at: str) -> None:
    with (
        stored(service.cluster, "{}", written_at),
        assert_logged(service.server, "storage_error: ", "psycopg.DataError"),
    ):
        assert_failed(service.server.ask("POST", account_of("odd")), 500, "storage_error")


@pytest.mark.parametrize("document", ["[1]", "null", 'junk {"n": 1}', "", None])
def test_a_document_that_is_not_an_object_is_a_500_and_no_skipped_row(service: Service, document: str | None) -> None:
    with stored(service.cluster, document, "now"), assert_logged(service.server, "unserialisable_record at record 1: "):
        assert_failed(service.ask("odd"), 500, "unserialisable_record")


@pytest.mark.parametrize(
    ("session_id", "status", "code"),
    [
        pytest.param("%00", 401, "invalid_token", id="NUL"),
        pytest.param(f"{session_of('alice')}%00", 401, "invalid_token", id="known, then NUL"),
        pytest.param(quote("' OR '1'='1"), 401, "invalid_token", id="SQL"),
        pytest.param("alice--", 401, "session_invalid", id="SQL comment"),
        pytest.param(session_of("alice").upper(), 401, "session_invalid", id="other letter case"),
    ],
)
def test_odd_session_ids_belong_to_nobody(service: Service, session_id: str, status: int, code: str) -> None:
    response = service.server.ask("GET", f"/API/Notification/?sessionId={session_id}")
    assert_failed(response, status, code)


@pytest.mark.parametrize(("length", "code"), [(4_096, "session_invalid"), (4_097, "invalid_token")])
def test_very_long_session_ids_belong_to_nobody(service: Service, length: int, code: str) -> None:
    response = service.server.ask("GET", "/API/Notification/", f"Authorization: Bearer {'a' * length}")
    assert_failed(response, 401, code)


@pytest.mark.parametrize(
    ("account_id", "status", "code"),
    [
        pytest.param("%00", 400, "invalid_account_id", id="NUL"),
        pytest.param("alice%00", 400, "invalid_account_id", id="known, then NUL"),
        pytest.param("%FF", 400, "invalid_account_id", id="not UTF-8"),
        pytest.param("%ED%A0%80", 400, "invalid_account_id", id="surrogate"),
        pytest.param("a" * 513, 400, "invalid_account_id", id="too long"),
        pytest.param("a" * 512, 404, "account_not_found", id="long"),
        pytest.param(quote("alice' OR '1'='1"), 404, "account_not_found", id="SQL"),
        pytest.param(quote("alice'; DROP TABLE sessions; --", safe=""), 404, "account_not_found", id="statements"),
        pytest.param(quote("аlice"), 404, "account_not_found", id="look-alike"),  # noqa: RUF001 - Cyrillic
        pytest.param(quote("\U0010ffff%s:login"), 404, "account_not_found", id="placeholders"),
    ],
)
def test_odd_account_ids_match_no_account(service: Service, account_id: str, status: int, code: str) -> None:
    assert_failed(service.server.ask("POST", account_of(account_id)), status, code)


def test_the_query_of_a_disconnected_client_ends_with_the_statement_timeout(service: Service) -> None:
    with assert_logged(service.server, "storage_unavailable: ", "psycopg.errors.QueryCanceled"):
        with service.server.slow_reader(target_of("slow")):
            eventually(lambda: service.cluster.waiting_backends("PgSleep"))
        eventually(lambda: not service.cluster.busy_backends())


@pytest.mark.parametrize("worker", ["sync", "gevent"])
def test_a_database_that_fails_between_two_rows_is_a_503_with_other_workers(
    worker: str, tmp_path: Path, cluster: Cluster, proxy: Proxy
) -> None:
    with application_on(cluster.url(proxy.port), gunicorn(worker), tmp_path) as server:
        service = Service(server, proxy, cluster)
        with service.reading() as response:
            cluster.terminate()
        assert_unavailable(response.result())
        assert_recovered(service)


def test_greenlets_do_not_wait_for_each_others_statements(tmp_path: Path, cluster: Cluster, proxy: Proxy) -> None:
    with application_on(cluster.url(), gunicorn("gevent"), tmp_path) as server:
        service = Service(server, proxy, cluster)
        with service.asking("slow") as slow:
            eventually(lambda: cluster.waiting_backends("PgSleep"))
            assert_whole(service.ask("alice"), "alice")
            assert not slow.done()
        assert_unavailable(slow.result())


PRELOADED = f"""{GUNICORN_FILTER}
preload_app, workers, threads = True, 2, {POOL}

def when_ready(server):
    from tests.resilience.database_app import engine

    engine.connect().close()  # as in an application that queries its database at start ...
    engine.dispose()  # ... and disposes of the connection, which all workers would otherwise inherit
"""


@pytest.mark.parametrize("worker", ["gthread", "gevent"])
def test_preloaded_workers_never_mix_up_the_rows_of_callers(worker: str, tmp_path: Path, cluster: Cluster) -> None:
    with application_on(cluster.url(), gunicorn(worker, PRELOADED), tmp_path) as server:
        logins = ["alice", "bob", "admin"] * 20
        with ThreadPoolExecutor(2 * POOL) as clients:
            responses = clients.map(lambda login: server.ask("GET", target_of(login)), logins)
            for login, response in zip(logins, responses, strict=True):
                assert_whole(response, login)


@contextmanager
def locked_by_another_process(database: Path) -> Iterator[None]:
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def missing(database: Path) -> Iterator[None]:
    moved = database.rename(f"{database}.moved")
    try:
        yield
    finally:
        moved.rename(database)


@contextmanager
def overwritten(database: Path) -> Iterator[None]:
    content = database.read_bytes()
    database.write_bytes(b"this is no database " * (len(content) // 20))
    try:
        yield
    finally:
        database.write_bytes(content)


@pytest.mark.parametrize(
    ("broken", "in_use", "code", "kind"),
    [
        pytest.param(locked_by_another_process, False, "storage_unavailable", "sqlite3.OperationalError", id="locked"),
        pytest.param(missing, False, "storage_unavailable", "sqlite3.OperationalError", id="missing"),
        pytest.param(overwritten, False, "storage_error", "sqlite3.DatabaseError", id="not a database"),
        pytest.param(overwritten, True, "storage_error", "sqlite3.DatabaseError", id="overwritten while in use"),
    ],
)
def test_an_unreadable_database_file_is_an_error_until_it_is_readable(
    tmp_path: Path,
    broken: Callable[[Path], AbstractContextManager[None]],
    in_use: bool,
    code: str,
    kind: str,
) -> None:
    database = tmp_path / "database.sqlite3"
    prepare(f"sqlite:///{database}")
    # SQLite must not create a missing file, because connections to the new file would outlive the old one's return.
    url = f"sqlite:///file:{database}?mode=rw&uri=true"
    with application_on(url, gunicorn("gthread"), tmp_path) as server:
        if in_use:
            assert_whole(server.ask("GET", target_of("alice")), "alice")
        with broken(database), assert_logged(server, f"{code}: ", kind):
            assert_failed(server.ask("GET", target_of("alice")), 503 if code == "storage_unavailable" else 500, code)
        for login in ("alice", "large"):
            assert_whole(server.ask("GET", target_of(login)), login)
        assert not server.open_spools()
