"""The usage recorder: exact sums, limits, forks, and a database that is unavailable."""

import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, StaticPool, create_engine, event, text
from sqlalchemy.exc import OperationalError

from flask_notifications.usage import (
    CANARY,
    OTHER,
    OperationUsage,
    StoreUnavailable,
    UsageRecorder,
    metadata,
    read_usage,
)
from tests.resilience.proxy import End, Failure, Proxy
from tests.servers.process import ROOT, eventually
from tests.services import service_or_skip
from tests.usage.databases import DATABASES, EXPORT, NOON, REPORT, Past, empty_database, use

# Long enough that nothing but a new pair, flush() and close() writes.
NEVER = 3600


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_database(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/usage.sqlite3"


@pytest.fixture(autouse=True)
def close_recorders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the recorders of a test at its end."""
    made: list[UsageRecorder] = []
    build = UsageRecorder.__init__

    def remember(self: UsageRecorder, *args: Any, **options: Any) -> None:
        build(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(UsageRecorder, "__init__", remember)
    yield
    for recorder in made:
        recorder.close()


def stored(database: str | Engine, operation: str = REPORT.name) -> OperationUsage:
    (usage,) = read_usage(database, operations=[operation]).operations
    return usage


def calls(database: str | Engine) -> dict[tuple[str | None, str | None], int]:
    """Return the calls of each pair in the store; none while there are no tables."""
    try:
        callers = stored(database).callers
    except StoreUnavailable:
        return {}
    return {(each.caller, each.client): each.calls for each in callers}


def total(database: str | Engine) -> int:
    return sum(calls(database).values())


# Times of writing


def test_a_new_pair_is_written_within_a_second(database: str) -> None:
    recorder = UsageRecorder(database, flush_interval=NEVER)

    def is_soon(number: int) -> bool:
        began = time.monotonic()
        recorder(use("job/1"))
        recorder(use("job/1", f"alice-{number}"))
        written = {(None, "job/1"): number + 2, (f"alice-{number}", "job/1"): 1}
        eventually(lambda: written.items() <= calls(database).items())
        return time.monotonic() - began < 1

    recorder(use("job/1"))
    eventually(lambda: calls(database) == {(None, "job/1"): 1})
    # A busy machine may delay one of them.
    assert any(map(is_soon, range(5)))


def test_repeats_are_written_after_the_interval(file: str) -> None:
    recorder = UsageRecorder(file, flush_interval=0.2)
    recorder(use())
    eventually(lambda: total(file) == 1)
    for _ in range(9):
        recorder(use())
    eventually(lambda: total(file) == 10)


def test_the_clock_of_the_recorder_decides_the_day(file: str) -> None:
    past = Past(file)
    past.call(NOON - timedelta(hours=12, microseconds=1))
    past.call(NOON - timedelta(hours=12))
    past.write()
    (operation,) = read_usage(file, until=NOON).operations
    assert [(str(each.day), each.answered) for each in operation.callers[0].days] == [
        ("2026-05-30", 1),
        ("2026-05-31", 1),
    ]


def test_the_first_and_the_last_time_are_kept_in_any_order_of_calls(database: str) -> None:
    past = Past(database)
    for minutes in (5, 0, 9, 3):
        past.call(NOON - timedelta(minutes=minutes))
    assert past.recorder.flush()
    past.call(NOON - timedelta(minutes=11), use(), use())
    past.write()
    (operation,) = read_usage(database, until=NOON).operations
    assert (operation.first_at, operation.last_at) == (NOON - timedelta(minutes=11), NOON)
    assert operation.answered == 6


def test_a_request_is_awaited_once_an_interval(file: str) -> None:
    recorder = UsageRecorder(file, flush_interval=0.2)
    assert recorder.awaits_request
    recorder.request_passed((REPORT, EXPORT))
    assert not recorder.awaits_request
    eventually(lambda: recorder.awaits_request)
    assert recorder.flush()
    assert stored(file, EXPORT.name).covered_hours == 1


def test_a_request_is_awaited_more_often_than_a_long_interval(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flask_notifications.usage.recorder._ATTENTION", 0.05)
    recorder = UsageRecorder(file, flush_interval=NEVER)
    recorder.request_passed((REPORT,))
    eventually(lambda: recorder.awaits_request)


def test_flushing_nothing_writes_nothing(file: str, tmp_path: Path) -> None:
    recorder = UsageRecorder(file)
    assert recorder.flush()
    recorder.close()
    assert not list(tmp_path.iterdir())


def test_closing_writes_and_ends_the_thread_and_later_calls_are_written_at_once(file: str) -> None:
    recorder = UsageRecorder(file, flush_interval=NEVER)
    before = threading.active_count()
    recorder(use())
    assert threading.active_count() == before + 1
    recorder(use())
    recorder.close()
    assert threading.active_count() == before
    assert total(file) == 2
    assert recorder.awaits_request
    recorder(use("job/2"))
    assert total(file) == 3
    recorder(use("job/2"))
    recorder.close()
    assert total(file) == 4


# Limits


def test_200_pairs_of_an_operation_and_a_day_are_kept_by_any_number_of_processes(database: str) -> None:
    recorders = [UsageRecorder(database, flush_interval=NEVER) for _ in range(3)]
    for number in range(150):
        for place, recorder in enumerate(recorders):
            recorder(use(f"job/{place}-{number}", "alice"))
    with ThreadPoolExecutor() as pool:
        assert all(pool.map(UsageRecorder.flush, recorders))
    for recorder in recorders:
        recorder(use("job/new"))
        recorder(use(CANARY))
        recorder(use("job/1", operation=EXPORT.name))
        assert recorder.flush()
    kept = calls(database)
    assert kept.pop((OTHER, OTHER)) == 450 - 200 + 3
    assert kept.pop((OTHER, CANARY)) == 3
    assert list(kept.values()) == [1] * 200
    assert stored(database, EXPORT.name).answered == 3


def test_a_stored_pair_keeps_its_name_in_every_process(file: str) -> None:
    first, second = UsageRecorder(file, flush_interval=NEVER), UsageRecorder(file, flush_interval=NEVER)
    for number in range(300):
        first(use(f"job/{number}"))
    assert first.flush()
    second(use("job/7"))
    second(use("job/299"))
    assert second.flush()
    second(use("job/8", source="query"))
    assert second.flush()
    kept = calls(file)
    assert (kept[None, "job/7"], kept[None, "job/8"], kept[OTHER, OTHER]) == (2, 1, 101)


def test_the_limit_of_pairs_starts_again_each_day(file: str) -> None:
    past = Past(file)
    for day in (1, 0):
        past.call(NOON - timedelta(days=day), *(use(f"job/{number}") for number in range(201)))
        assert past.recorder.flush()
    (operation,) = read_usage(file, until=NOON).operations
    assert {each.client: each.calls for each in operation.callers} == {
        OTHER: 2,
        **{f"job/{number}": 2 for number in range(200)},
    }


def test_a_million_clients_take_little_memory_and_are_all_counted(file: str) -> None:
    service_or_skip("/proc", Path("/proc/self/statm").exists())
    recorder = UsageRecorder(file, flush_interval=0.2)
    recorder(use())
    sizes = []
    for client in range(999_999):
        recorder(use(f"client/{client}"))
        if client % 50_000 == 0:
            sizes.append(resident_megabytes())
    assert recorder.flush()
    assert max(sizes) - sizes[0] < 20
    assert total(file) == 1_000_000


def resident_megabytes() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_memory_is_bounded_while_the_database_is_unavailable(tmp_path: Path) -> None:
    recorder = UsageRecorder(f"sqlite:///{tmp_path}/missing/usage.sqlite3", flush_interval=NEVER)
    for client in range(300):
        for operation in range(300):
            recorder(use(f"client/{client}", operation=f"operation/{operation}"))
    (tmp_path / "missing").mkdir()
    assert recorder.flush()
    report = read_usage(f"sqlite:///{tmp_path}/missing/usage.sqlite3")
    pairs = [each for operation in report.operations for each in operation.callers]
    assert sum(each.calls for each in pairs) == 300 * 300
    assert len(pairs) <= 40_000 + 2 * 300


# Concurrency


def test_many_writers_count_exactly_without_an_error(database: str, caplog: pytest.LogCaptureFixture) -> None:
    recorders = [UsageRecorder(database, flush_interval=0.05) for _ in range(8)]

    def work(recorder: UsageRecorder) -> None:
        for number in range(500):
            recorder(use(f"job/{number % 40}", operation=f"operation/{number % 7}"))
            recorder.request_passed((REPORT, EXPORT))
            if number % 50 == 0:
                recorder.flush()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, recorders * 2))
    assert all(recorder.flush() for recorder in recorders)
    report = read_usage(database)
    assert sum(operation.answered for operation in report.operations) == 16 * 500
    assert caplog.messages == []


def test_a_batch_that_another_transaction_prevents_is_tried_again_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "usage.sqlite3"
    recorder = UsageRecorder(f"sqlite:///{file}?timeout=0", flush_interval=NEVER)
    recorder(use())
    assert recorder.flush()
    with closing(sqlite3.connect(file, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.2, other.rollback)
        end.start()
        recorder(use())
        assert recorder.flush()
        end.join()
    assert total(f"sqlite:///{file}") == 2
    assert caplog.messages == []


def test_processes_that_start_at_the_same_time_create_the_tables_once(database: str) -> None:
    program = (
        "import sys, time\n"
        "from tests.usage.databases import use\n"
        "from flask_notifications.usage import UsageRecorder\n"
        "recorder = UsageRecorder(sys.argv[1], flush_interval=3600)\n"
        "time.sleep(max(0, float(sys.argv[2]) - time.time()))\n"
        "recorder(use())\n"
    )
    start = str(time.time() + 3)
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen([sys.executable, "-c", program, database, start], env=environ, stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert errors == [b""] * 6
    assert total(database) == 6


# Forks


def test_a_child_counts_its_own_calls_only(database: str) -> None:
    recorder = UsageRecorder(database, flush_interval=NEVER)
    recorder(use())
    recorder(use())
    recorder.request_passed((REPORT,))
    child = os.fork()
    if child == 0:
        is_awaited = recorder.awaits_request
        recorder(use())
        recorder.close()
        os._exit(0 if is_awaited else 1)
    assert os.waitpid(child, 0)[1] == 0
    recorder.close()
    assert total(database) == 3


def test_a_child_does_not_share_the_connections_of_an_engine_with_its_parent(database: str) -> None:
    engine = create_engine(database)
    recorder = UsageRecorder(engine, flush_interval=NEVER)
    recorder(use())
    assert recorder.flush()
    assert engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    child = os.fork()
    if child == 0:
        shared = engine.pool.checkedin()  # type: ignore[attr-defined]
        recorder(use())
        os._exit(shared if recorder.flush() else 2)
    assert os.waitpid(child, 0)[1] == 0
    assert engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    recorder(use())
    recorder.close()
    assert total(engine) == 3
    engine.dispose()


def database_in_memory() -> Engine:
    return create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})


def test_a_child_keeps_its_copy_of_a_database_in_memory() -> None:
    engine = database_in_memory()
    recorder = UsageRecorder(engine, flush_interval=NEVER)
    recorder(use())
    assert recorder.flush()
    child = os.fork()
    if child == 0:
        recorder(use())
        os._exit(0 if recorder.flush() and total(engine) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    recorder.close()
    assert total(engine) == 1
    engine.dispose()


@pytest.mark.parametrize("is_in_memory", [False, True], ids=["a file", "in memory"])
def test_a_child_replaces_the_pool_unless_it_has_the_database(is_in_memory: bool, file: str) -> None:
    engine = database_in_memory() if is_in_memory else create_engine(file)
    recorder = UsageRecorder(engine, flush_interval=NEVER)
    pool = engine.pool
    recorder._after_fork_in_child()  # in this process, where coverage is measured
    assert (engine.pool is pool) is is_in_memory
    engine.dispose()


def test_a_child_of_a_fork_during_a_write_can_write(file: str) -> None:
    recorder = UsageRecorder(file, flush_interval=NEVER)
    children = []
    for number in range(40):
        recorder(use(f"job/{number}"))  # wakes the thread
        child = os.fork()
        if child == 0:
            recorder(use("child"))
            os._exit(0 if recorder.flush() else 1)
        children.append(child)
    assert {os.waitpid(child, 0)[1] for child in children} == {0}
    recorder.close()
    assert calls(file)[None, "child"] == 40
    assert total(file) == 80


def test_a_fork_before_the_first_call_changes_nothing(file: str) -> None:
    recorder = UsageRecorder(file, flush_interval=NEVER)
    child = os.fork()
    if child == 0:
        recorder(use())
        os._exit(0 if recorder.flush() else 1)
    assert os.waitpid(child, 0)[1] == 0
    recorder(use())
    recorder.close()
    assert total(file) == 2


def test_several_first_requests_start_one_thread(file: str) -> None:
    recorder = UsageRecorder(file, flush_interval=NEVER)
    before = threading.active_count()
    assert recorder._start_writer() is recorder._start_writer()
    assert threading.active_count() == before + 1


def hold_commits(file: str) -> tuple[Engine, threading.Event, threading.Event]:
    """Return an engine whose commits wait for the first event, and set the second one when they do."""
    engine = create_engine(file)
    gate, reached = threading.Event(), threading.Event()

    @event.listens_for(engine, "commit")
    def wait(_connection: Connection) -> None:
        reached.set()
        gate.wait(20)

    return engine, gate, reached


def test_a_fork_waits_for_a_write_only_for_a_limited_time(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flask_notifications.usage.recorder._FORK_WAIT", 0.1)
    engine, gate, reached = hold_commits(file)
    recorder = UsageRecorder(engine, flush_interval=NEVER)
    recorder(use())
    assert reached.wait(20)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    gate.set()
    recorder.close()
    assert total(engine) == 1
    engine.dispose()


# Servers without threads


def forbid_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)


def run_in_uwsgi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(opt={"http-socket": b":0"}))


@pytest.mark.parametrize("prepare", [forbid_threads, run_in_uwsgi])
def test_requests_write_the_counts_that_are_due_where_there_are_no_threads(
    prepare: Callable[[pytest.MonkeyPatch], None], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(monkeypatch)
    recorder = UsageRecorder(file, flush_interval=1)
    before = threading.active_count()
    recorder.request_passed((REPORT,))
    recorder(use())
    assert threading.active_count() == before
    assert total(file) == 1
    recorder(use())
    assert recorder.awaits_request
    assert total(file) == 1

    def is_written() -> bool:
        recorder.request_passed((REPORT,))
        return total(file) == 2

    eventually(is_written)


@pytest.mark.parametrize("option", ["threads", "enable-threads"])
def test_uwsgi_with_threads_has_a_thread(option: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(opt={option: True}))
    before = threading.active_count()
    UsageRecorder(file)(use())
    assert threading.active_count() == before + 1


# A database that is unavailable


class Outage:
    """A database that cannot be written until it is repaired."""

    def __init__(self, database: str | Engine, repair: Callable[[], object], options: dict[str, Any]) -> None:
        self.database = database
        self.repair = repair
        self.options = options


@pytest.fixture
def folder_missing(tmp_path: Path) -> Outage:
    return Outage(f"sqlite:///{tmp_path}/missing/usage.sqlite3", (tmp_path / "missing").mkdir, {})


@pytest.fixture
def read_only(tmp_path: Path) -> Outage:
    path = tmp_path / "usage.sqlite3"
    engine = create_engine(f"sqlite:///{path}")
    metadata.create_all(engine)
    engine.dispose()
    mode = {"PRAGMA": "query_only = 1"}
    return Outage(pragma_engine(path, mode), mode.clear, {})


@pytest.fixture
def disk_full(tmp_path: Path) -> Outage:
    path = tmp_path / "usage.sqlite3"
    engine = create_engine(f"sqlite:///{path}")
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE filler AS SELECT zeroblob(100000)"))
    engine.dispose()
    with sqlite3.connect(path) as other:
        (pages,) = other.execute("PRAGMA page_count").fetchone()
    other.close()
    mode = {"PRAGMA": f"max_page_count = {pages}"}
    return Outage(pragma_engine(path, mode), mode.clear, {})


def pragma_engine(path: Path, mode: dict[str, str]) -> Engine:
    """Return an engine whose connections begin with the pragma, as long as there is one."""
    engine = create_engine(f"sqlite:///{path}", pool_size=0, pool_reset_on_return=None)

    @event.listens_for(engine, "checkout")
    def limit(connection: Any, _record: object, _proxy: object) -> None:
        for value in mode.values() or ["query_only = 0", "max_page_count = 1000000"]:
            connection.execute(f"PRAGMA {value}")

    return engine


@pytest.fixture
def no_tables(tmp_path: Path) -> Outage:
    url = f"sqlite:///{tmp_path}/usage.sqlite3"
    return Outage(url, lambda: metadata.create_all(create_engine(url)), {"create_tables": False})


@pytest.fixture
def wrong_login(tmp_path: Path) -> Iterator[Outage]:
    with empty_database("postgresql", tmp_path) as url:
        role = f"usage_{os.getpid()}"
        admin = create_engine(url, isolation_level="AUTOCOMMIT")
        yield Outage(
            url.replace("//postgres@", f"//{role}:wrong@"),
            lambda: execute(admin, f"CREATE ROLE {role} LOGIN SUPERUSER"),
            {},
        )
        execute(admin, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
        admin.dispose()


def execute(engine: Engine, *statements: str) -> None:
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))


@pytest.fixture
def refused(tmp_path: Path) -> Iterator[Outage]:
    with empty_database("postgresql", tmp_path) as url, Proxy(5432) as proxy:
        proxy.failure = Failure(limit=0, end=End.RESET)
        yield Outage(url.replace(":5432/", f":{proxy.port}/"), lambda: setattr(proxy, "failure", Failure()), {})


@pytest.mark.parametrize("name", ["folder_missing", "read_only", "disk_full", "no_tables", "wrong_login", "refused"])
def test_no_call_is_lost_while_the_database_is_unavailable_and_one_error_is_logged(
    name: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    outage: Outage = request.getfixturevalue(name)
    recorder = UsageRecorder(outage.database, flush_interval=0.1, **outage.options)
    with caplog.at_level(logging.DEBUG, "flask_notifications"):
        for number in range(250):
            recorder(use(f"job/{number}"))
        for _ in range(3):
            assert not recorder.flush()
            recorder(use("job/1"))
        (message,) = caplog.messages
        assert message.startswith("usage is counted in memory while the database cannot be written: ")
        assert "wrong" not in message
        outage.repair()
        eventually(lambda: total(outage.database) == 253)
    assert len(caplog.messages) == 1


def test_each_outage_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "folder"
    recorder = UsageRecorder(f"sqlite:///{folder}/usage.sqlite3", flush_interval=NEVER)
    for number in (1, 2):
        recorder(use())
        assert not recorder.flush()
        assert len(caplog.messages) == number
        folder.mkdir()
        assert recorder.flush()
        (folder / "usage.sqlite3").unlink()
        folder.rmdir()


def test_tables_that_are_dropped_are_created_again(file: str) -> None:
    recorder = UsageRecorder(file, flush_interval=NEVER)
    recorder(use())
    assert recorder.flush()
    metadata.drop_all(create_engine(file))
    recorder(use())
    assert not recorder.flush()
    assert recorder.flush()
    assert total(file) == 1


@pytest.mark.parametrize("is_committed", [True, False], ids=["it was committed", "it was not committed"])
def test_a_batch_whose_commit_is_not_confirmed_counts_once(
    is_committed: bool, database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = UsageRecorder(database, flush_interval=NEVER)
    recorder(use())
    recorder.close()  # so that no thread writes
    dialect = recorder._store._engine.dialect
    commit = dialect.do_commit

    def lose_the_confirmation(connection: Any) -> None:
        monkeypatch.undo()
        if is_committed:
            commit(connection)
        statement = "COMMIT"
        raise OperationalError(statement, {}, ConnectionError("the network is down"))

    recorder(use())
    monkeypatch.setattr(dialect, "do_commit", lose_the_confirmation)
    assert not recorder.flush()
    assert total(database) == 1 + is_committed
    recorder(use())
    assert recorder.flush()
    assert total(database) == 3
    assert len(caplog.messages) == 1


def test_a_batch_that_fails_on_an_engine_with_autocommit_is_written_again_as_a_whole(database: str) -> None:
    engine = create_engine(database, isolation_level="AUTOCOMMIT")
    recorder = UsageRecorder(engine, flush_interval=NEVER)
    recorder(use())
    recorder.close()  # so that no thread writes

    @event.listens_for(engine, "before_cursor_execute")
    def fail(_connection: Connection, _cursor: object, statement: str, *_arguments: object) -> None:
        if statement.startswith("INSERT INTO flask_notifications_usage"):
            raise OperationalError(statement, {}, ConnectionError("the network is down"))

    recorder(use())
    assert not recorder.flush()
    event.remove(engine, "before_cursor_execute", fail)
    assert recorder.flush()
    assert total(database) == 2
    engine.dispose()


def test_closing_does_not_wait_for_a_database_that_hangs(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flask_notifications.usage.recorder._LAST_WAIT", 0.1)
    engine, gate, reached = hold_commits(file)
    recorder = UsageRecorder(engine, flush_interval=NEVER)
    recorder(use())
    assert reached.wait(20)
    recorder.close()
    recorder(use("job/2"))  # does not wait either
    assert not gate.is_set()
    gate.set()
    assert recorder.flush()
    assert total(engine) == 2
    engine.dispose()


# Retention


def test_rows_older_than_the_retention_are_deleted_in_steps(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flask_notifications.usage.store._DELETED", 3)
    past = Past(database, retention_days=10)
    for age in range(20, -1, -1):
        past.call(NOON - timedelta(days=age))
    assert past.recorder.flush()
    for minute in range(8):
        past.call(NOON + timedelta(minutes=minute))
        assert past.recorder.flush()
    past.write()
    (operation,) = read_usage(database, days=30, until=NOON + timedelta(hours=1)).operations
    assert operation.answered == 11 + 8
    assert sum(map(bool, operation.covered.values())) == 11


def test_rows_that_cannot_be_deleted_are_reported_once_a_day(
    file: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> bool:
        message = "permission denied"
        raise OSError(message)

    past = Past(file)
    monkeypatch.setattr(past.recorder._store, "delete_before", refuse)
    for _ in range(2):
        past.call(NOON)
        assert past.recorder.flush()
    assert caplog.messages == ["expired rows of usage cannot be deleted: OSError: permission denied"]
    past.call(NOON + timedelta(days=1))
    past.write()
    assert len(caplog.messages) == 2


def test_a_deletion_that_another_transaction_prevents_is_tried_again_with_the_next_batch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "usage.sqlite3"
    past = Past(f"sqlite:///{file}?timeout=0", retention_days=10)
    past.call(NOON - timedelta(days=20))
    assert past.recorder.flush()
    delete = past.recorder._store.delete_before

    def delete_beside_another(*arguments: Any) -> bool:
        monkeypatch.undo()
        with closing(sqlite3.connect(file)) as other:
            other.execute("BEGIN IMMEDIATE")
            return delete(*arguments)

    monkeypatch.setattr(past.recorder._store, "delete_before", delete_beside_another)
    answered = []
    for _ in range(2):
        past.call(NOON)
        assert past.recorder.flush()
        (operation,) = read_usage(f"sqlite:///{file}", days=30, until=NOON).operations
        answered.append(operation.answered)
    assert answered == [1 + 1, 2], "the old call is counted until its row is deleted"
    assert caplog.messages == []


# Engines and arguments


def test_an_engine_of_the_application_stays_open(database: str) -> None:
    engine = create_engine(database, isolation_level="AUTOCOMMIT" if database.startswith("postgresql") else None)
    recorder = UsageRecorder(engine, flush_interval=NEVER)
    recorder(use())
    recorder.close()
    assert engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM flask_notifications_usage")).scalar() == 1
    engine.dispose()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("flush_interval", 0),
        ("flush_interval", -1),
        ("flush_interval", float("inf")),
        ("flush_interval", float("nan")),
        ("flush_interval", True),
        ("flush_interval", "10"),
        ("flush_interval", 31_536_001),
        pytest.param("flush_interval", 10**400, id="flush_interval-huge"),
        ("retention_days", 0),
        ("retention_days", 1.5),
        ("retention_days", True),
        ("retention_days", 36_501),
        pytest.param("retention_days", 10**400, id="retention_days-huge"),
        ("create_tables", "no"),
        ("clock", None),
    ],
)
def test_a_wrong_argument_is_named(file: str, argument: str, value: object) -> None:
    options: dict[str, Any] = {argument: value}
    with pytest.raises(ValueError, match=f"^{argument} must be"):
        UsageRecorder(file, **options)


@pytest.mark.parametrize("database", ["mysql+pymysql://root@127.0.0.1/test", "sqlite://", "nonsense", None])
def test_another_kind_of_database_is_refused(database: Any) -> None:
    with pytest.raises(ValueError, match=r"^database must be"):
        UsageRecorder(database)
