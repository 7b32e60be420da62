"""Connections of the usage record have limits, through the engine of an application, too."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from flask_notifications.usage import UsageRecorder
from flask_notifications.usage.connections import begin, identify, open_engine
from flask_notifications.usage.store import UsageStore
from tests.servers.process import eventually
from tests.services import POSTGRESQL, program_or_skip
from tests.usage.databases import POLICY, REPORT, use

# What a connection says of its limits, and what a recorder sets.
LIMITS = {
    "sqlite": ("PRAGMA busy_timeout", "2000"),
    "postgresql": ("SELECT current_setting('lock_timeout') || current_setting('statement_timeout')", "2s8s"),
    "mariadb": (
        "SELECT concat_ws(' ', @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@max_statement_time)",
        "2 2 8.000000",
    ),
}


def ask(engine: Engine, query: str) -> str:
    with engine.connect() as connection:
        return str(connection.scalar(text(query)))


def test_only_our_own_locks_and_statements_are_limited(kind: str, database: str, engine: Engine) -> None:
    query, expected = LIMITS[kind]
    own = ask(engine, query)
    assert own != expected
    for each in (open_engine(database), open_engine(engine)):
        with begin(each) as (connection, now):
            assert str(connection.scalar(text(query))) == expected
            assert abs(now / 1e6 - time.time()) < 60
        assert ask(engine, query) == own
        each.dispose()


def test_connecting_is_limited_but_not_for_the_application(kind: str, database: str, engine: Engine) -> None:
    name, value = ("timeout", 2.0) if kind == "sqlite" else ("connect_timeout", 3)
    made: list[dict[str, Any]] = []
    store = UsageStore(database, create_tables=True)
    event.listen(store.engine, "do_connect", lambda *args: made.append(dict(args[3])))
    store.prepare()
    assert {options.get(name) for options in made} == {value}
    store.release()
    for each in (open_engine(database), open_engine(open_engine(engine))):
        made = []
        event.listen(each, "do_connect", lambda *args, made=made: made.append(dict(args[3])))
        with begin(each), each.connect():
            assert made[0][name] == value
        assert [name in options for options in made] == ([True, False] if len(made) == 2 else [True])
        each.dispose()


def test_a_limit_of_the_url_is_kept() -> None:
    program_or_skip("postgres")
    engine = open_engine(f"{POSTGRESQL}?connect_timeout=7")
    made: list[dict[str, Any]] = []
    event.listen(engine, "do_connect", lambda *args: made.append(args[3]))
    with begin(engine):
        assert int(made[0]["connect_timeout"]) == 7
    engine.dispose()


def test_the_place_of_a_database_identifies_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sockets = "postgresql+psycopg:///shop?host=/run/{}"
    assert identify(open_engine(sockets.format("one"))) != identify(open_engine(sockets.format("two")))
    relative = ["sqlite:///usage.sqlite3", "postgresql+psycopg://"]  # the second one with a creator of connections
    elsewhere = [identify(open_engine(url)) for url in relative]
    monkeypatch.chdir(tmp_path)
    here = [identify(open_engine(url)) for url in relative]
    assert set(here).isdisjoint(elsewhere)
    assert here[0] == identify(open_engine(f"sqlite:///{tmp_path}/usage.sqlite3"))


@pytest.mark.parametrize("kind", ["postgresql"])
def test_no_statement_of_ours_is_prepared_because_pgbouncer_may_lend_another_connection(engine: Engine) -> None:
    def threshold(connection: Connection) -> Any:
        return connection.connection.dbapi_connection.prepare_threshold  # type: ignore[union-attr] # of psycopg

    with begin(engine) as (connection, _now):
        assert threshold(connection) is None
    with engine.connect() as connection:
        assert threshold(connection) == 5


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_process_without_anything_to_write_leaves_its_connection_to_others(database: str, engine: Engine) -> None:
    recorder = UsageRecorder(f"{database}&application_name=idle-test", flush_interval=3600, spool=None)
    recorder.listen({REPORT: POLICY})
    recorder(use(at=datetime.now(UTC)))
    connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idle-test'"
    eventually(lambda: ask(engine, connections) == "1")
    eventually(lambda: ask(engine, connections) == "0")
    recorder(use("job/2", at=datetime.now(UTC)))
    recorder.close()
    eventually(lambda: ask(engine, connections) == "0")
