"""The recorder: when counts are written, and that none is lost or counted twice,
whatever happens.
"""

import _thread
import fcntl
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, PropertyMock

import pytest
from sqlalchemy import (
    Connection,
    Engine,
    StaticPool,
    create_engine,
    delete,
    event,
    insert,
    select,
    text,
    update,
)

from flask_notifications import Call, Operation
from flask_notifications.usage import (
    OTHER,
    UsageRecorder,
    collect_spool,
    metadata,
    read_usage,
)
from flask_notifications.usage import ledger as ledgers
from flask_notifications.usage import recorder as recorder_module
from flask_notifications.usage import store as store_module
from flask_notifications.usage.ledger import Ledger
from flask_notifications.usage.spool import Seen, _report_once, collect
from flask_notifications.usage.store import UsageStore, plans, recorders, state, usage
from flask_notifications.usage.times import to_microseconds
from tests.servers.process import eventually
from tests.usage.databases import (
    NOON,
    POLICY,
    REPORT,
    Past,
    counted,
    execute,
    in_child,
    use,
)

DAY = timedelta(days=1)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture(autouse=True)
def close_recorders(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let every test begin without reports, and close its recorders before its database
    and its engine go.
    """
    for name in {"database", "engine"}.intersection(request.fixturenames):
        request.getfixturevalue(name)
    _report_once.cache_clear()
    yield
    recorder_module._call_each(UsageRecorder.close)


def record(database: str | Engine, **options: Any) -> UsageRecorder:
    """Return a recorder that listens, and writes only what is new."""
    defaults: dict[str, Any] = {"flush_interval": 3600, "spool": None}
    recorder = UsageRecorder(database, **defaults | options)
    recorder.listen({REPORT: POLICY})
    return recorder


def sleepy(database: str | Engine, **options: Any) -> UsageRecorder:
    """Return a recorder that writes only when it is told to."""
    recorder = record(database, **options)
    wake = recorder._wake
    recorder._wake = lambda: wake() if recorder._is_closing else None  # type: ignore[method-assign]
    return recorder


def written(database: str | Engine, **options: Any) -> UsageRecorder:
    """Return a recorder that has written a call, and writes only when it is told to."""
    recorder = sleepy(database, **options)
    recorder(now())
    assert recorder.flush()
    return recorder


def ledger_of(recorder: UsageRecorder) -> Ledger:
    assert recorder._ledger is not None
    return recorder._ledger


def now(client: str | None = "job/1", caller: str | None = None) -> Call:
    return use(client, caller, at=datetime.now(UTC))


def calls(database: str | Engine) -> dict[tuple[str | None, str | None], int]:
    """Return the calls of each pair in the store; none while there are no tables."""
    return {
        (caller, client): number
        for (_operation, caller, client), number in counted(database).items()
    }


def total(database: str | Engine) -> int:
    return sum(calls(database).values())


def rows(database: str | Engine, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the rows of all recorders, in the order in which these began."""
    query = select(*(recorders.c[name] for name in columns)).order_by(
        recorders.c.began_at, recorders.c.heard_at
    )
    return execute(database, query)


# When counts are written


def test_a_new_pair_is_written_within_a_second(database: str) -> None:
    recorder = record(database)
    recorder.request_passed()
    assert recorder.flush()  # creates the tables
    for number in range(3):
        start = time.monotonic()
        recorder(now(f"job/{number}"))
        eventually(lambda: total(database) == number + 1)  # noqa: B023 - called at once
        assert time.monotonic() - start < 8


def test_repeats_are_written_after_the_interval(file: str) -> None:
    recorder = record(file, flush_interval=0.5)
    recorder(now())
    eventually(lambda: total(file) == 1)
    for _ in range(5):
        recorder(now())
    eventually(lambda: total(file) == 6)


def test_an_unmatched_request_is_enough_for_a_sign_of_life(
    database: str, engine: Engine
) -> None:
    metadata.create_all(engine)
    recorder = record(database, service="shop", host="web-1")
    assert recorder.awaits_request
    recorder.request_passed()
    assert not recorder.awaits_request
    eventually(
        lambda: (
            rows(database, "service", "host", "process", "ended")
            == [("shop", "web-1", os.getpid(), 0)]
        )
    )
    recorder.close()
    assert rows(database, "ended", "lost", "merged") == [(1, 0, 0)]
    assert calls(database) == {}


def test_nothing_is_written_without_a_request(file: str, tmp_path: Path) -> None:
    recorder = record(file)
    assert recorder.flush()
    recorder.close()
    assert not (tmp_path / "usage.sqlite3").exists()


def test_a_call_while_a_recorder_is_closed_is_written_without_another_call(
    file: str,
) -> None:
    engine = create_engine(file)
    recorder = record(engine)
    recorder(now("job/1"))
    eventually(lambda: total(file) == 1)
    recorder(now("job/1"))
    event.listen(
        engine, "commit", lambda _connection: recorder(now("job/2")), once=True
    )
    recorder.close()
    eventually(lambda: calls(file) == {(None, "job/1"): 2, (None, "job/2"): 1})


def test_a_call_while_the_thread_ends_is_the_last_one_of_its_row(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = written(file)
    monkeypatch.setattr(
        recorder, "_finished", Mock(acquire=lambda **_: recorder(now()))
    )
    recorder.close()
    assert (total(file), rows(file, "ended")) == (2, [(1,)])


def test_a_process_that_counts_while_it_ends_is_not_said_to_have_ended(
    file: str,
) -> None:
    engine = create_engine(file)
    recorder = sleepy(engine)
    recorder(now())
    event.listen(engine, "commit", lambda _connection: recorder(now()), once=True)
    recorder._end()
    assert (total(file), sorted(rows(file, "ended"))) == (2, [(0,), (1,)])
    recorder._end()
    assert rows(file, "ended") == [(1,), (1,)]


def test_what_a_signal_handler_interrupts_is_written_later(
    file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = written(file, spool=spool)
    interrupted = []

    def interrupt() -> int:
        recorder.close()
        interrupted.append(recorder.flush())
        return ledgers.uptime()

    at = datetime.now(UTC).timestamp()
    recorder(replace(now(), at=Mock(timestamp=lambda: interrupt() and at)))
    monkeypatch.setattr(store_module, "uptime", interrupt)
    assert recorder.flush()
    assert interrupted == [False, False]
    assert total(file) == 2


def test_a_signal_handler_that_raises_leaves_nothing_behind_that_keeps_counts_from_being_written(
    file: str,
) -> None:
    class Interrupted(set[int]):
        def add(self, thread: int) -> None:
            super().add(thread)
            raise SystemExit  # as a handler may do as soon as the method has returned

    recorder = written(file)
    recorder._busy = Interrupted()
    for count_or_write in (lambda: recorder(now()), recorder._write_all):
        with pytest.raises(SystemExit):
            count_or_write()
        assert not recorder._is_interrupted()
    recorder._busy = set()


def test_counts_that_another_thread_is_about_to_write_are_not_lost(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = written(file)

    def write_while_another_thread_closes() -> bool:
        is_written = UsageRecorder._write_all(recorder)
        recorder(now())
        recorder._ended.append(ledger_of(recorder))
        recorder._ledger = None
        return is_written

    with monkeypatch.context() as patch:
        patch.setattr(recorder, "_write_all", write_while_another_thread_closes)
        recorder.close()
    recorder.close()
    assert total(file) == 2


def test_a_new_day_has_a_ledger_of_its_own(file: str, spool: Path) -> None:
    past = Past(file)
    recorder = past.start(NOON - 3 * DAY, spool=spool)
    for number in range(4):
        past.now = NOON - (3 - number) * DAY
        recorder(use(at=past.now))
        recorder._look_around()
        assert recorder.flush()
    assert rows(file, "ended") == [(1,), (1,), (1,), (0,)]
    assert len(list(spool.glob("*.spool"))) == 1
    recorder.close()
    (operation,) = read_usage(file, until=NOON, days=2, operations=[REPORT]).operations
    assert [day.calls for day in operation.callers[0].days] == [1, 1, 1]
    assert operation.coverage == 1
    assert list(spool.glob("*.spool")) == []


def test_no_flush_of_another_thread_ends_a_ledger_while_the_thread_looks_at_it(
    file: str, spool: Path
) -> None:
    recorder = written(file, spool=spool)
    ledger, lock = ledger_of(recorder), recorder._lock

    def end_ledger() -> None:
        if lock.acquire(blocking=False):
            ledger.file.close()  # type: ignore[union-attr]
            lock.release()

    def tell_time() -> int:
        other = threading.Thread(target=end_ledger)
        other.start()
        other.join()
        return ledgers.uptime()

    recorder._tell_time = tell_time  # type: ignore[method-assign]
    recorder._look_around()
    assert ledger.heard


def test_a_recorder_that_is_closed_at_midnight_stays_closed(file: str) -> None:
    recorder = sleepy(file)
    recorder.request_passed()
    recorder.request_passed()
    ledger = ledger_of(recorder)
    recorder.close()
    assert recorder._turn(ledger, to_microseconds(datetime.now(UTC) + DAY))
    assert recorder._ledger is None


@pytest.mark.parametrize(
    ("keys", "named"), [(20_000, 200), (3, 3)], ids=["of an operation", "of a process"]
)
def test_any_number_of_clients_takes_little_memory_and_is_counted(
    keys: int, named: int, file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "_KEYS", keys)
    recorder, call = record(file, spool=spool), now()
    for number in range(20_000):
        recorder(replace(call, client=f"job/{number % 10_000}"))
    assert len(ledger_of(recorder).entries) == named + 1
    recorder.close()
    assert (total(file), calls(file)[OTHER, OTHER]) == (20_000, 20_000 - 2 * named)


def test_a_label_that_is_too_long_becomes_other(database: str) -> None:
    recorder = record(database, host="\U0001f600" * 64)
    for label in ("x" * 65, "", "y" * 64, "\U0001f600" * 64):
        recorder(now("job", label))
    recorder.close()
    assert calls(database) == {
        (OTHER, OTHER): 2,
        ("y" * 64, "job"): 1,
        ("\U0001f600" * 64, "job"): 1,
    }


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_two_processes_may_write_the_rules_of_a_plan_at_the_same_time(
    database: str, engine: Engine
) -> None:
    first = record(database)
    first.request_passed()
    assert first.flush()
    (row,) = execute(database, select(plans.c.digest, plans.c.operations))
    execute(database, delete(plans))

    @event.listens_for(engine, "before_cursor_execute")
    def write_first(
        _connection: Any, _cursor: Any, statement: str, *_rest: Any
    ) -> None:
        if "INSERT INTO flask_notifications_plan" in statement:
            execute(database, insert(plans).values(row))

    written(engine)
    assert execute(database, select(plans.c.digest, plans.c.operations)) == [row]
    assert total(database) == 1


# Forks and kills


def test_a_child_of_a_fork_during_a_write_can_write_and_no_fork_waits_long(
    database: str,
) -> None:
    recorder = record(database)
    longest = 0.0
    for number in range(20):
        recorder(now(f"job/{number}"))  # wakes the thread
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            recorder(now("child"))
            os._exit(0 if recorder.flush() else 1)
        longest = max(longest, time.monotonic() - start)
        assert os.waitpid(child, 0)[1] == 0
    recorder.close()
    assert (calls(database)[None, "child"], total(database)) == (20, 40)
    assert longest < 5


def test_a_fork_that_did_not_wait_leaves_writes_alone(
    file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "_LAST_WAIT", 0)
    with ExitStack() as stack:
        busy = [sleepy(file, spool=spool) for _ in range(4)]
        for recorder in busy:
            stack.enter_context(recorder._writing)
        start = time.monotonic()
        recorder_module._before_fork()
        assert time.monotonic() - start < 1
        busy.append(sleepy(file))  # by another thread during the fork
        stack.enter_context(busy[-1]._writing)
        for recorder in busy:
            recorder._after_fork_in_parent()
            recorder._release()
            recorder._look_around()
            assert not recorder._write_all()
            assert recorder._writing.locked()


def test_no_process_is_forked_while_a_spool_is_imported(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = sleepy(file)
    collect_while: list[bool] = []
    monkeypatch.setattr(
        recorder_module,
        "collect",
        lambda *_: collect_while.append(recorder._writing.locked()),
    )
    recorder._look_around()
    assert collect_while == [True]


def test_the_next_process_brings_in_what_a_killed_one_has_counted(
    database: str, spool: Path
) -> None:
    def work() -> None:
        recorder = record(database, spool=spool)
        for number in range(500):
            recorder(now(f"job/{number % 3}"))

    in_child(work)
    assert len(list(spool.glob("*.spool"))) == 1
    recorder = record(database, spool=spool)
    recorder.request_passed()
    eventually(lambda: total(database) == 500)
    eventually(lambda: len(list(spool.glob("*.spool"))) == 1)
    assert sorted(rows(database, "ended")) == [(0,), (1,)]


def test_the_rules_of_a_large_plan_are_in_a_spool(file: str, spool: Path) -> None:
    def work() -> None:
        recorder = sleepy(file, spool=spool)
        recorder.listen(
            {
                Operation(f"operation-{number}", "GET", f"/{number}"): POLICY
                for number in range(2000)
            }
        )
        recorder(now())

    in_child(work)
    assert collect_spool(spool, file) == 1
    ((operations,),) = execute(file, select(plans.c.operations))
    assert len(json.loads(operations)) == 2001


def test_a_child_leaves_the_spool_of_its_parent_alone(
    file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_uwsgi(monkeypatch)  # without a thread
    recorder = record(file, spool=spool)
    recorder(now())
    (path,) = spool.glob("*.spool")
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        assert not ledgers.open_file(path)[1]
        recorder_module._after_fork_in_child()  # in this process, where coverage is measured
        eventually(
            lambda: ledgers.open_file(path)[1]
        )  # the child may not have closed the file yet
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_fork_that_python_does_not_notice_begins_anew(file: str) -> None:
    recorder = record(file)
    recorder._process, recorder._began = 1, 0
    recorder(now())
    assert recorder._process == os.getpid()
    assert recorder._began > 0


def database_in_memory() -> Engine:
    return create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )


@pytest.mark.parametrize(
    "open_database", [str, create_engine, lambda _url: database_in_memory()]
)
def test_a_child_replaces_the_pool_unless_it_has_the_database(
    open_database: Any, file: str
) -> None:
    recorder = record(open_database(file))
    engine = recorder._store.engine
    pool = engine.pool
    recorder._after_fork_in_child()  # in this process, where coverage is measured
    assert (recorder._store.engine is engine) is (open_database is not str)
    assert (recorder._store.engine.pool is pool) is isinstance(pool, StaticPool)
    engine.dispose()


def test_a_child_begins_anew_if_a_file_was_being_closed_during_the_fork(
    file: str, spool: Path
) -> None:
    recorder = written(file, spool=spool)
    other, _is_alone = ledgers.open_file(spool, os.O_RDONLY)
    os.close(other._descriptor)
    recorder_module._after_fork_in_child()
    assert recorder._ledger is None


@pytest.mark.parametrize("begins", [False, True])
def test_a_database_in_memory_is_written_and_read_with_its_engine(begins: bool) -> None:
    engine = database_in_memory()
    if begins:  # as SQLAlchemy recommends for SQLite
        event.listen(
            engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN")
        )
    recorder = record(engine)
    recorder(now())
    recorder.close()
    assert [total(engine), total(engine)] == [
        1,
        1,
    ]  # reading leaves the engine open, too
    engine.dispose()


# The spool


def killed(file: str, spool: Path, *, flush: bool = False) -> Path:
    """Let a process count a call and be killed, and return the file that it leaves."""

    def work() -> None:
        recorder = written(file, spool=spool) if flush else sleepy(file, spool=spool)
        recorder(now())

    in_child(work)
    (path,) = spool.glob("*.spool")
    return path


def change_head(path: Path, number: int, value: int) -> None:
    with path.open("r+b") as head:
        head.seek(8 * number)
        head.write(value.to_bytes(8, "little"))


@pytest.mark.parametrize("flush", [True, False])
def test_a_broken_spool_is_counted_covers_nothing_and_ends_no_loss(
    flush: bool, file: str, spool: Path
) -> None:
    change_head(killed(file, spool, flush=flush), ledgers._WHOLE, 0)
    known = rows(file, "began_at", "heard_at") if flush else []
    assert collect_spool(spool, file) == 1
    assert total(file) == 1 + flush
    assert rows(file, "ended") == [(0,)]
    assert rows(file, "began_at", "heard_at") == (
        known or rows(file, "began_at", "began_at")
    )


@pytest.mark.parametrize("machine", ["this", "", "another"])
@pytest.mark.parametrize(
    "boots", [("before", "later"), ("", "")], ids=["known", "unknown"]
)
def test_a_spool_that_may_be_from_before_a_restart_ends_no_loss(
    boots: tuple[str, str],
    machine: str,
    file: str,
    spool: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flask_notifications.usage.recorder.boot", lambda: boots[0])
    monkeypatch.setattr("flask_notifications.usage.recorder.machine", lambda: "this")
    killed(file, spool)
    monkeypatch.setattr(ledgers, "boot", lambda: boots[1])
    monkeypatch.setattr(ledgers, "machine", lambda: machine)
    metadata.create_all(create_engine(file))
    assert collect_spool(spool, file) == (machine == "this")
    assert rows(file, "ended") == [(0,)] * (machine == "this")


def test_a_foreign_spool_is_reported(
    file: str, spool: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = killed(file, spool)
    other = f"sqlite:///{tmp_path}/other.sqlite3"
    metadata.create_all(create_engine(other))
    for _ in range(2):
        assert collect_spool(spool, other) == 0
    assert caplog.text.count("has calls for another database") == 1
    change_head(path, ledgers._STORE, 5)
    _report_once.cache_clear()
    metadata.create_all(create_engine(file))
    assert collect_spool(spool, file) == 0
    assert (path.exists(), total(file)) == (True, 0)


@pytest.mark.parametrize(
    "content", [b"", b"something else", bytes(1 << 16)], ids=["empty", "short", "zeros"]
)
def test_no_other_file_is_touched(
    content: bytes, file: str, spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool.mkdir()
    (spool / "x.spool").write_bytes(content)
    metadata.create_all(create_engine(file))
    for _ in range(2):
        assert collect_spool(spool, file) == 0
    assert (
        caplog.text.count(
            "x.spool cannot be read: it is not the file of a recorder of this version"
        )
        == 1
    )
    assert (spool / "x.spool").read_bytes() == content


def test_what_cannot_be_opened_does_not_keep_others_from_being_imported(
    file: str,
    spool: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path, gone, folder = killed(file, spool), spool / "gone.spool", spool / "0.spool"
    folder.mkdir()
    monkeypatch.setattr(Path, "glob", lambda *_: [path, gone, folder])
    assert collect_spool(spool, file) == 1
    assert ("0.spool cannot be opened" in caplog.text, "gone" in caplog.text) == (
        True,
        False,
    )


def test_a_spool_is_imported_in_another_folder(
    tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = UsageStore("sqlite:///usage.sqlite3", create_tables=True)
    killed("sqlite:///usage.sqlite3", spool)
    monkeypatch.chdir("/")
    assert collect(spool, store, Seen()) == 1


def test_a_copy_of_a_spool_is_imported_besides(
    file: str, spool: Path, tmp_path: Path
) -> None:
    killed(file, spool)
    copy = shutil.copytree(spool, tmp_path / "copy")
    assert [collect_spool(each, file) for each in (spool, copy)] == [1, 1]
    assert total(file) == 2


def test_counts_are_in_memory_once_the_disk_is_full(
    file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = record(file, spool=spool)
    recorder(now("first"))
    monkeypatch.setattr(os, "pwrite", lambda *_args: 5)
    for number in range(190):
        recorder(now("x" * 64, f"{number}" + "\U0001f600" * 60))
    assert not ledger_of(recorder).is_whole
    recorder.close()
    assert total(file) == 191


REFUSALS: dict[str, tuple[Callable[[pytest.MonkeyPatch, Path], object], str]] = {
    "a full disk": (
        lambda patch, _: patch.setattr(os, "pwrite", lambda *_: 5),
        "counted in memory only: OSError",
    ),
    "no folder": (lambda _, spool: spool.touch(), "without a spool: "),
    "no locks, as on Windows": (
        lambda patch, _: patch.setattr(ledgers, "fcntl", None),
        "this system has no flock",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_where_a_spool_is_impossible_counts_are_in_memory_and_the_reason_is_reported_once(
    refusal: Any,
    file: str,
    spool: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refuse, reason = refusal
    refuse(monkeypatch, spool)
    recorder = record(file, spool=spool)
    recorder(now())
    recorder.close()
    assert caplog.text.count(reason) == 1
    assert (total(file), list(spool.glob("*.spool"))) == (1, [])


def test_where_all_other_folders_are_read_only_calls_are_counted(
    file: str,
    spool: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(
        "tempfile.gettempdir",
        Mock(side_effect=FileNotFoundError("no temporary folder")),
    )
    for folder in (spool, "auto"):
        assert "without a spool" not in caplog.text
        recorder = record(file, spool=folder)
        recorder(now())
        recorder.close()
    assert (total(file), caplog.text.count("without a spool: no temporary folder")) == (
        2,
        1,
    )


@pytest.mark.parametrize(
    "make",
    [lambda path: path.mkdir(mode=0o755), lambda path: path.symlink_to("/tmp")],  # noqa: S108
)
def test_the_automatic_folder_is_private_and_one_that_is_not_is_not_used(
    make: Any,
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = record(file, spool="auto")
    first(now())
    (folder,) = tmp_path.glob("flask_notifications-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.glob("*.spool")] == [0o600]
    first.close()
    folder.rename(tmp_path / "away")
    make(folder)
    second = record(file, spool="auto")
    second(now())
    second.close()
    assert caplog.text.count("without a spool, because") == 1
    assert total(file) == 2


@pytest.mark.parametrize("identity", [ledgers.boot, ledgers.machine])
def test_a_machine_may_have_no_id(
    identity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "Path", lambda path: Path(f"/nowhere{path}"))
    assert identity.__wrapped__() == ""


def test_where_a_file_system_has_no_locks_no_file_stays_open(
    file: str, spool: Path, monkeypatch: Any
) -> None:
    spool.mkdir()
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError))
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(OSError):  # noqa: PT011
        collect_spool(spool, file)
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_one_process_brings_in_a_spool_at_a_time(file: str, spool: Path) -> None:
    killed(file, spool)
    lock, _is_alone = ledgers.open_file(spool, os.O_RDONLY)
    assert collect_spool(spool, file) == 0
    lock.close()
    assert collect_spool(spool, file) == 1
    assert os.listdir(spool) == []  # noqa: PTH208 - nothing that another user of the folder could not open


# Servers without threads


def run_in_uwsgi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "uwsgi", SimpleNamespace(opt={"http-socket": b":0"})
    )


@pytest.fixture
def silent(file: str, spool: Path, monkeypatch: pytest.MonkeyPatch) -> UsageRecorder:
    """Return a recorder of a process without threads, with a call that nobody has
    written.
    """
    run_in_uwsgi(monkeypatch)
    recorder = record(file, spool=spool)
    recorder(now())
    return recorder


def test_others_write_for_a_process_without_threads(
    file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = record(file, spool=spool, host="with-threads")
    other(now("other"))
    before = threading.active_count()
    run_in_uwsgi(monkeypatch)
    silent = record(file, spool=spool, host="without-threads")
    silent(now("silent"))
    silent(now("silent"))
    assert threading.active_count() == before
    eventually(lambda: calls(file) == {(None, "silent"): 2, (None, "other"): 1})
    assert sorted(rows(file, "host", "ended")) == [
        ("with-threads", 0),
        ("without-threads", 0),
    ]
    silent(now("silent"))
    eventually(lambda: total(file) == 4)
    store, seen = UsageStore(file, create_tables=False), Seen()
    assert [collect(spool, store, seen) for _ in range(2)] == [1, 0]
    silent.close()
    assert sorted(rows(file, "host", "ended")) == [
        ("with-threads", 0),
        ("without-threads", 1),
    ]


@pytest.mark.parametrize(("boot", "is_covered"), [("another", False), ("", True)])
def test_an_uptime_of_another_machine_covers_nothing(
    boot: str, is_covered: bool, file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_uwsgi(monkeypatch)
    monkeypatch.setattr(
        "flask_notifications.usage.recorder.machine", lambda: "a copied image"
    )
    silent = record(file, spool=spool)
    silent(now())
    monkeypatch.setattr(ledgers, "boot", lambda: boot)
    monkeypatch.setattr(ledgers, "machine", lambda: "a copied image")
    assert collect_spool(spool, file) == 1
    assert (rows(file, "began_at") < rows(file, "heard_at")) == is_covered


def test_others_write_only_what_has_changed(
    silent: UsageRecorder, file: str, spool: Path, monkeypatch: Any
) -> None:
    write = Mock(wraps=store_module._write_entries)
    monkeypatch.setattr(store_module, "_write_entries", write)
    store, seen = UsageStore(file, create_tables=True), Seen()
    for client in ("job/2", "job/1"):
        silent(now(client))
        assert collect(spool, store, seen) == 1
    assert [len(each.args[2]) for each in write.call_args_list] == [2, 1]
    assert calls(file) == {(None, "job/1"): 2, (None, "job/2"): 1}
    assert silent.flush()
    silent.close()
    assert (collect(spool, store, seen), seen) == (0, {})


def test_the_last_counts_stay_if_a_process_ends_while_others_write_for_it(
    silent: UsageRecorder, file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = UsageStore._sign

    def sign_after_its_end(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(UsageStore, "_sign", sign)
        silent(now())
        silent.close()
        sign(*arguments, **options)

    assert silent.flush()
    silent(now())
    monkeypatch.setattr(UsageStore, "_sign", sign_after_its_end)
    assert collect_spool(spool, file) == 1
    assert total(file) == 3
    assert rows(file, "ended") == [(1,)]


def test_a_process_without_threads_survives_a_failover(
    silent: UsageRecorder, file: str, spool: Path
) -> None:
    assert collect_spool(spool, file) == 1
    execute(file, delete(recorders))
    execute(file, delete(usage))
    assert collect_spool(spool, file) == 1
    assert total(file) == 1
    silent.close()
    assert rows(file, "ended") == [(1,)]
    assert total(file) == 1


def test_without_threads_a_full_disk_means_silence(
    silent: UsageRecorder, file: str, spool: Path
) -> None:
    """Others do not see the counts that it has in memory only."""
    assert collect_spool(spool, file) == 1
    heard = rows(file, "heard_at")
    ledger_of(silent).head[ledgers._WHOLE] = 0
    assert collect_spool(spool, file) == 1
    assert rows(file, "heard_at") == heard
    silent.close()
    ((last, ended),) = rows(file, "heard_at", "ended")
    assert (last > heard[0][0], ended) == (True, 1)


def test_others_cannot_read_the_own_clock_of_a_process(
    file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_uwsgi(monkeypatch)
    times = [NOON, NOON + timedelta(hours=1)]
    silent = record(file, spool=spool, clock=lambda: times[0])
    silent(now())
    assert collect_spool(spool, file) == 1
    began, later = map(to_microseconds, times)
    assert rows(file, "began_at", "heard_at") == [(began, began)]
    del times[0]
    assert silent.flush()
    assert rows(file, "began_at", "heard_at") == [(began, later)]


@pytest.mark.parametrize("option", ["threads", "enable-threads"])
def test_uwsgi_with_threads_has_a_thread(
    option: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(opt={option: b"1"}))
    recorder = record(file)
    recorder(now())
    eventually(lambda: total(file) == 1)


def test_a_process_that_gets_no_thread_asks_again_at_its_next_call(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(
            threading.Thread,
            "start",
            Mock(side_effect=RuntimeError("can't start new thread")),
        )
        recorder = record(file)
        recorder(now())
    assert total(file) == 0
    recorder(now())
    eventually(lambda: total(file) == 2)


def test_under_gevent_a_thread_of_the_system_writes(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_original = Mock(side_effect=lambda _module, name: getattr(_thread, name))
    monkeypatch.setitem(
        sys.modules, "gevent.monkey", SimpleNamespace(get_original=get_original)
    )
    recorder = record(file)
    recorder(now())
    eventually(lambda: total(file) == 1)
    recorder.close()
    assert {"RLock", "allocate_lock", "start_new_thread"} <= {
        asked.args[1] for asked in get_original.call_args_list
    }


def test_a_call_during_the_first_call_is_counted(
    file: str, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under gevent, which may switch to another greenlet while an error is logged."""
    spool.touch()
    recorder = record(file, spool=spool)
    others = [now("job/2")]
    log = Mock(side_effect=lambda *_: recorder(others.pop()) if others else None)
    monkeypatch.setattr("flask_notifications.usage.spool.log_error", log)
    recorder(now())
    recorder.close()
    assert calls(file) == {(None, "job/1"): 1, (None, "job/2"): 1}


# A database that cannot be written


@pytest.mark.parametrize("is_closed", [False, True])
def test_no_call_is_lost_if_the_database_is_away(
    is_closed: bool, file: str, tmp_path: Path, caplog: Any
) -> None:
    path = tmp_path / "usage.sqlite3"
    path.mkdir()
    recorder = record(file)
    for number in range(5):
        recorder(now(f"job/{number}"))
        assert not recorder.flush()
    assert caplog.text.count("while the database cannot be written") == 1
    if is_closed:
        recorder.close()
    path.rmdir()
    recorder.request_passed()
    assert recorder.flush()
    assert total(file) == 5


def test_the_number_of_lost_calls_is_left_in_the_row(database: str) -> None:
    recorder = written(database)
    execute(database, text("DROP TABLE flask_notifications_usage"))
    execute(database, text("CREATE TABLE flask_notifications_usage (day INTEGER)"))
    last = replace(now(), at=datetime.now(UTC) + timedelta(minutes=1))
    recorder(last)
    recorder.close()
    # The total of its pair, and the time of its last call, or the loss would be in the
    # window of no report.
    assert rows(database, "lost", "ended", "heard_at") == [
        (2, 0, to_microseconds(last.at))
    ]


@pytest.mark.parametrize("with_spool", [True, False], ids=["with a spool", "without"])
def test_without_a_spool_the_calls_of_a_process_that_ends_while_the_database_is_away_are_lost_and_logged(
    with_spool: bool,
    file: str,
    tmp_path: Path,
    spool: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "usage.sqlite3").mkdir()
    recorder = record(file, spool=spool if with_spool else None)
    for _ in range(3):
        recorder(now())
    recorder.close()
    said = "3 calls are lost if this process ends, because the database cannot be written and there is no spool"
    assert (said in caplog.text, "lost" in caplog.text) == (not with_spool,) * 2
    (tmp_path / "usage.sqlite3").rmdir()
    next_one = record(file, spool=spool)
    next_one.request_passed()
    eventually(lambda: total(file) == 3 * with_spool)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_write_whose_commit_is_not_confirmed_counts_once(
    engine: Engine, is_committed: bool
) -> None:
    recorder = record(engine)
    recorder(now())
    assert recorder.flush()
    failing = [True]

    @event.listens_for(engine, "commit")
    def fail(connection: Connection) -> None:
        if failing.pop() if failing else False:
            if is_committed:
                connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]
            message = "the connection is gone"
            raise RuntimeError(message)

    recorder(now("job/2"))
    recorder(now())
    eventually(lambda: not failing)
    assert recorder.flush()
    assert calls(engine) == {(None, "job/1"): 2, (None, "job/2"): 1}
    assert len(rows(engine, "id")) == 1


@pytest.mark.parametrize(
    "change",
    [delete(recorders), update(recorders).values(stamp=1)],
    ids=["failover", "clone"],
)
def test_a_changed_row_makes_recorders_begin_anew(
    database: str, change: Any, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = written(database)
    before = rows(database, "id", "heard_at")
    execute(database, delete(usage))
    execute(database, change)
    recorder(now())
    assert recorder.flush()
    after = rows(database, "id", "began_at")
    assert after[-1][0] != before[0][0]
    assert after[-1][1] >= before[0][1]  # what was between is not covered
    assert total(database) == 2
    assert "begins anew" in caplog.text


def test_calls_may_be_counted_while_a_recorder_begins_anew() -> None:
    ledger = Ledger(ledgers.Origin(), 0)
    ledger.entries[0, "report", None, "job/1", None] = entry = Mock()
    type(entry).written = PropertyMock(
        side_effect=lambda _numbers: ledger.count(use("job/2"))
    )
    ledger.renew()
    assert [client for _day, _name, _caller, client, _source in ledger.entries] == [
        "job/1",
        "job/2",
    ]


def test_a_clone_of_a_machine_writes_another_stamp() -> None:
    assert (
        ledgers.Ledger(ledgers.Origin(), 0).attempt()
        != ledgers.Ledger(ledgers.Origin(), 0).attempt()
    )


def test_tables_that_are_dropped_are_created_again(file: str) -> None:
    recorder = written(file)
    engine = create_engine(file)
    metadata.drop_all(engine)
    recorder(now())
    assert not recorder.flush()
    assert recorder.flush()
    assert total(file) == 2
    engine.dispose()


def test_a_write_that_fails_on_an_engine_with_autocommit_leaves_nothing_behind(
    database: str, engine: Engine
) -> None:
    recorder = written(engine)
    stamp = execute(database, select(recorders.c.stamp))
    execute(database, text("ALTER TABLE flask_notifications_usage RENAME TO away"))
    recorder(now())
    assert not recorder.flush()
    assert execute(database, select(recorders.c.stamp)) == stamp


# Merging and retention


def stored_rows(database: str) -> list[tuple[Any, ...]]:
    return sorted(
        execute(database, select(usage.c.day, usage.c.recorder, usage.c.answered))
    )


def test_rows_of_past_days_are_merged_once_their_recorders_end(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_notifications.usage.store._MERGED_AT_ONCE", 2)
    monkeypatch.setattr(
        recorder_module, "_start_thread", lambda _run: False
    )  # it would see a new day
    past = Past(database)
    for _ in range(3):
        recorder = past.start(NOON - 2 * DAY)
        recorder(use(at=past.now))
        recorder.close()
    lost = past.start(NOON - 2 * DAY)
    lost(use(at=past.now))
    assert lost.flush()
    assert len(stored_rows(database)) == 4
    for number in range(2):  # the second one has nothing to do
        past.now = NOON - DAY + timedelta(hours=number)
        past.cover(past.now, past.now)
    merged = stored_rows(database)
    assert sorted(row[2] for row in merged) == [1, 3]
    assert {row[1] for row in merged if row[2] == 3} == {"="}
    recorder = past.start(NOON - 2 * DAY)
    recorder(use(at=past.now - DAY))
    recorder.close()
    past.cover(NOON, NOON)
    assert {row[2] for row in stored_rows(database) if row[1] == "="} >= {3}
    (operation,) = read_usage(database, until=NOON, operations=[REPORT]).operations
    assert operation.answered == 5


def test_expired_rows_are_deleted_by_the_clock_of_the_database(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_notifications.usage.store._DELETED_AT_ONCE", 2)
    if database.startswith(
        "mysql"
    ):  # which may refuse statements whose condition is on no key
        database += "?init_command=SET sql_safe_updates = 1"
    past = Past(database)
    for number in range(6):
        past.call(NOON - (5 - number) * DAY)
    past.write()
    past.cover(NOON + DAY, NOON + DAY, retention_days=3)
    assert len(stored_rows(database)) == 3
    kept_from = execute(database, select(state.c.kept_from))
    assert kept_from == [((NOON + DAY - datetime(1970, 1, 1, tzinfo=UTC)).days - 3,)]


def test_a_clock_that_jumps_ahead_deletes_nothing_at_once(file: str) -> None:
    past = Past(file)
    past.call(NOON - 5 * DAY)
    past.write()
    execute(file, update(state).values(cleaned_at=5))
    recorder = record(file, retention_days=1)
    recorder(now())
    assert recorder.flush()
    recorder.close()
    assert len(stored_rows(file)) == 2


def test_failed_cleanup_is_logged(
    file: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = record(file)
    monkeypatch.setattr(recorder._store, "clean", Mock(side_effect=RuntimeError("no")))
    recorder(now())
    recorder.close()
    assert "cannot be deleted: RuntimeError: no" in caplog.text
    assert total(file) == 1


# Clocks


@pytest.mark.parametrize(
    "act",
    [UsageRecorder.flush, UsageRecorder._look_around],
    ids=["written", "between writes"],
)
def test_the_largest_difference_of_the_clock_is_kept(
    act: Any, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = written(file)
    recorder._look_around()
    right = time.time_ns()
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: right - 2 * 3600 * 10**9)
        act(recorder)
    recorder._look_around()
    assert recorder.flush()
    assert rows(file, "skew")[0][0] // 10**6 in range(7190, 7210)


@pytest.mark.parametrize("away", [-3 * DAY, 3 * DAY])
def test_a_call_outside_of_the_life_of_its_process_shows_that_a_clock_was_off(
    file: str, away: timedelta
) -> None:
    recorder = record(file)
    recorder(use(at=datetime.now(UTC) + away))
    recorder.close()
    assert rows(file, "skew")[0][0] > 2 * 86_400 * 10**6


@pytest.mark.parametrize("has_thread", [1, 0])
def test_only_a_thread_knows_when_a_killed_process_was_alive_last(
    has_thread: int, file: str, spool: Path
) -> None:
    path = killed(file, spool)
    change_head(path, ledgers._HAS_THREAD, has_thread)
    change_head(path, ledgers._HEARD, ledgers.uptime() - 600 * 10**6)
    assert collect_spool(spool, file) == 1
    assert (rows(file, "skew")[0][0] > 500 * 10**6) is bool(has_thread)


# Arguments


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("report", "observers must be a recorder for each"),
        ("x" * 767 + " ", "name must be"),
    ],
)
def test_another_operation_of_a_name_and_too_long_a_name_are_refused(
    name: str, message: str, file: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        record(file).listen({Operation(name, "GET", "/other"): POLICY})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(
            ("database", value)
            for value in ("sqlite://", "sqlite:///:memory:", "no", 5)
        ),
        *(
            ("database", value)
            for value in (
                "postgresql+asyncpg://x@y/z",
                "postgresql://x:secret@y:port/z",
            )
        ),
        *(
            ("flush_interval", value)
            for value in (0, -1, "1", True, float("nan"), 31_536_001)
        ),
        *(("retention_days", value) for value in (0, 1.5, True, 36_501)),
        ("create_tables", "no"),
        *(("clock", value) for value in (5, lambda: 5)),
        *(("spool", value) for value in ("", 5, "a\0")),
        *(("service", value) for value in (None, "é", "x" * 65, "a\n", "a ")),
        *(("host", value) for value in ("", 5, "x" * 65)),
    ],
)
def test_a_wrong_argument_is_named(file: str, argument: str, value: object) -> None:
    options: dict[str, Any] = {"database": file, argument: value}
    with pytest.raises(ValueError, match=f"^{argument} must be") as raised:
        UsageRecorder(**options)
    assert "secret" not in str(raised.value)


def test_another_kind_of_folder_is_refused(file: str) -> None:
    with pytest.raises(ValueError, match=r"^folder must be"):
        collect_spool("", file)
