"""Connections of the usage record have limits, through the engine of an application,
too, and work behind PgBouncer.
"""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from flask_notifications.usage import UsageRecorder, read_usage
from flask_notifications.usage.connections import begin, open_engine
from flask_notifications.usage.store import UsageStore
from tests.resilience.postgresql import drop_privileges, postgresql
from tests.servers.process import eventually, free_port
from tests.services import program_or_skip
from tests.usage.databases import POLICY, REPORT, use

# What a connection says of its limits, and what a recorder sets.
LIMITS = {
    "sqlite": ("PRAGMA busy_timeout", "2000"),
    "postgresql": (
        "SELECT current_setting('lock_timeout') || current_setting('statement_timeout')",
        "2s4s",
    ),
    "mariadb": (
        "SELECT concat_ws(' ', @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@max_statement_time)",
        "2 2 4.000000",
    ),
}
PGBOUNCER = """
[databases]
postgres = host=127.0.0.1 port={server} dbname=postgres user=shop
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


def ask(engine: Engine, query: str) -> str:
    with engine.connect() as connection:
        return str(connection.scalar(text(query)))


def test_only_our_own_locks_and_statements_are_limited(
    kind: str, database: str, engine: Engine
) -> None:
    query, expected = LIMITS[kind]
    default = ask(engine, query)
    assert default != expected
    for source in (database, engine):
        opened = open_engine(source)
        with begin(opened) as (connection, now):
            assert str(connection.scalar(text(query))) == expected
            assert abs(now / 1e6 - time.time()) < 60
        assert ask(engine, query) == default
        opened.dispose()


def test_a_connection_that_is_released_logs_nothing(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = UsageStore(database, create_tables=True)
    with begin(store.engine):
        pass
    with caplog.at_level("INFO"):
        store.release()
    assert [record.getMessage() for record in caplog.records] == []


def test_connecting_is_limited_but_not_for_the_application(
    kind: str, database: str, engine: Engine
) -> None:
    name, value = ("timeout", 2.0) if kind == "sqlite" else ("connect_timeout", 3)
    made: list[dict[str, Any]] = []
    store = UsageStore(database, create_tables=True)
    event.listen(store.engine, "do_connect", lambda *args: made.append(dict(args[3])))
    with begin(store.engine):
        pass
    assert {options.get(name) for options in made} == {value}
    store.release()
    for source in (database, open_engine(engine)):
        opened = open_engine(source)
        made = []
        event.listen(
            opened, "do_connect", lambda *args, made=made: made.append(dict(args[3]))
        )
        with begin(opened), opened.connect():
            assert made[0][name] == value
        assert [name in options for options in made] == [True, False][: len(made)]
        opened.dispose()


def test_the_pool_of_an_application_keeps_its_only_connection(database: str) -> None:
    engine = create_engine(database, pool_size=1, max_overflow=0, pool_timeout=0.5)
    with begin(open_engine(engine)):
        assert ask(engine, "SELECT 1") == "1"
    engine.dispose()


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_limit_of_the_url_is_kept(database: str) -> None:
    engine = open_engine(f"{database}&connect_timeout=7")
    made: list[dict[str, Any]] = []
    event.listen(engine, "do_connect", lambda *args: made.append(args[3]))
    with begin(engine):
        assert int(made[0]["connect_timeout"]) == 7
    engine.dispose()


@contextmanager
def pgbouncer(server: int) -> Iterator[int]:
    program, port = program_or_skip("pgbouncer"), free_port()
    with tempfile.TemporaryDirectory(
        prefix="pgbouncer-"
    ) as name:  # which only its own user may enter
        folder = Path(name)
        user = drop_privileges(folder)
        (folder / "ini").write_text(
            PGBOUNCER.format(server=server, port=port), encoding="ascii"
        )
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, str(folder / "ini")], stdout=log, stderr=log, **user
            )
        try:
            eventually(
                lambda: "process up" in (folder / "log").read_text(encoding="ascii")
            )
            yield port
        finally:
            process.terminate()
            process.wait()


def test_psycopg_works_behind_pgbouncer_in_transaction_mode(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with postgresql() as cluster, pgbouncer(cluster.port) as port:
        engines = [
            create_engine(cluster.url(port)),
            create_engine(cluster.url(port), isolation_level="AUTOCOMMIT"),
        ]
        databases: list[str | Engine] = [*engines, cluster.url(port), cluster.url(port)]
        recorders = [UsageRecorder(url, flush_interval=3600) for url in databases]
        for recorder in recorders:
            recorder.listen({REPORT: POLICY})
        # Psycopg prepares a statement that it executes for the sixth time, and
        # PgBouncer lends the next connection.
        for number in range(8):
            for recorder in recorders:
                recorder(use(at=datetime.now(UTC)))
            assert [recorder.flush() for recorder in recorders] == [True] * 4, number
        for recorder in recorders:
            recorder.close()
        for engine in engines:
            with engine.connect() as connection:
                assert connection.connection.dbapi_connection.prepare_threshold == 5  # type: ignore[union-attr]
            engine.dispose()
        (operation,) = read_usage(cluster.url()).operations
        assert operation.calls == 32
    assert "Prepared" not in caplog.text


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_process_without_anything_to_write_leaves_its_connection_to_others(
    database: str, engine: Engine
) -> None:
    recorder = UsageRecorder(
        f"{database}&application_name=idle-test", flush_interval=3600
    )
    recorder.listen({REPORT: POLICY})
    recorder(use(at=datetime.now(UTC)))
    connections = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idle-test'"
    )
    eventually(lambda: ask(engine, connections) == "1")
    eventually(lambda: ask(engine, connections) == "0")
    recorder(use("job/2", at=datetime.now(UTC)))
    recorder.close()
    eventually(lambda: ask(engine, connections) == "0")


class CockroachDB(PGDialect_psycopg):
    name = "cockroachdb"
    supports_statement_cache = True


def test_a_dialect_that_was_never_tried_is_refused() -> None:
    registry.register("cockroachdb.psycopg", __name__, "CockroachDB")
    with pytest.raises(ValueError, match=r"^database must be SQLite, PostgreSQL"):
        UsageRecorder("cockroachdb+psycopg://root@127.0.0.1:26257/shop")


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_commit_that_waits_for_a_missing_standby_is_given_up_and_cancelled(
    driver: str,
) -> None:
    with postgresql() as cluster:
        url = cluster.url().replace("+psycopg:", f"+{driver}:")
        recorder = UsageRecorder(url, flush_interval=3600)
        recorder.listen({REPORT: POLICY})
        recorder(use(at=datetime.now(UTC)))
        eventually(recorder.flush)
        cluster.ask("ALTER SYSTEM SET synchronous_standby_names = 'missing'")
        cluster.ask("SELECT pg_reload_conf()")
        recorder(use(at=datetime.now(UTC)))
        start = time.monotonic()
        assert not recorder.flush()
        assert time.monotonic() - start < 15
        assert cluster.busy_backends() == []
        cluster.ask("ALTER SYSTEM RESET synchronous_standby_names")
        cluster.ask("SELECT pg_reload_conf()")
        eventually(recorder.flush)
        recorder.close()
        (operation,) = read_usage(url).operations
        assert operation.calls == 2
