"""The recorder: when counts are written, and that none is lost or counted twice,
whatever happens.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import (
    Connection,
    Engine,
    StaticPool,
    create_engine,
    delete,
    event,
    select,
    text,
    update,
)
from sqlalchemy.exc import DatabaseError, OperationalError

from flask_notifications import Operation
from flask_notifications.plans.policy import Phase
from flask_notifications.usage import OTHER, PROBE, UsageRecorder, metadata
from flask_notifications.usage.store import (
    merged_into,
    plans,
    recorders,
    state,
    usage,
)
from tests.servers.process import eventually
from tests.usage.databases import (
    EXPORT,
    NOON,
    POLICY,
    REPORT,
    Past,
    counted,
    execute,
    now,
    record,
    record_call,
    use,
)

DAY, MINUTE, SECOND = (
    timedelta(days=1),
    timedelta(minutes=1),
    timedelta(seconds=1),
)


@pytest.fixture(autouse=True)
def close_recorders(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Close the recorders of a test before its database and its engine go."""
    for name in {"database", "engine"}.intersection(request.fixturenames):
        request.getfixturevalue(name)
    made: list[UsageRecorder] = []
    begin = UsageRecorder.__init__

    def remember(recorder: UsageRecorder, *values: Any, **options: Any) -> None:
        begin(recorder, *values, **options)
        made.append(recorder)

    monkeypatch.setattr(UsageRecorder, "__init__", remember)
    yield
    for recorder in made:
        recorder.close()


def calls(database: str | Engine) -> dict[tuple[str | None, str | None], int]:
    """Return the calls of each pair in the store; none while there are no tables."""
    pairs = {}
    for (_operation, caller, client), number in counted(database).items():
        pairs[caller, client] = number
    return pairs


def total(database: str | Engine) -> int:
    """Return the number of calls in the store, on whatever day; 0 without a table."""
    kinds = (usage.c[kind] for kind in ("answered", "refused", "failed", "closed"))
    try:
        numbers = execute(database, select(*kinds))
    except DatabaseError:
        return 0
    return sum(map(sum, numbers))


def rows(database: str | Engine, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the rows of all recorders, in the order in which these began."""
    query = select(*(recorders.c[name] for name in columns))
    return execute(database, query.order_by(recorders.c.began_at, recorders.c.heard_at))


def microseconds(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000


# When counts are written


def test_a_new_pair_or_kind_is_written_without_waiting_for_the_interval(
    database: str,
) -> None:
    recorder = record(database)
    recorder(now("job/1"))
    eventually(lambda: total(database) == 1)
    recorder(now("job/2"))
    eventually(lambda: total(database) == 2)
    for status in (403, 500):
        recorder(now("job/2")._replace(status=status))
    recorder(now("job/2")._replace(phase=Phase.SUNSET, status=410))
    eventually(lambda: total(database) == 5)


def test_repeated_calls_are_written_after_the_interval(file: str) -> None:
    recorder = record(file, flush_interval=0.5)
    recorder(now())
    eventually(lambda: total(file) == 1)
    for _ in range(5):
        recorder(now())
    eventually(lambda: total(file) == 6)


def test_responses_are_counted_by_their_kind(database: str) -> None:
    recorder = record(database)
    for status in (200, 304, 401, 403, 404, 410, 500, None):
        recorder(now()._replace(status=status))
    recorder(now()._replace(status=410, phase=Phase.BROWNOUT))
    eventually(recorder.flush)
    kinds = ("answered", "refused", "failed", "closed")
    (numbers,) = execute(database, select(*(usage.c[kind] for kind in kinds)))
    assert numbers == (2, 2, 4, 1)


def test_an_unmatched_request_is_enough_for_a_sign_of_life(
    database: str, engine: Engine
) -> None:
    metadata.create_all(engine)
    recorder = record(database, service="shop", host="web-1")
    assert recorder.awaits_request
    recorder.request_passed()
    assert not recorder.awaits_request
    expected = [("shop", "web-1", os.getpid(), 0)]
    eventually(
        lambda: rows(database, "service", "host", "process", "ended") == expected
    )
    recorder.close()
    assert rows(database, "ended", "gone_at", "merged") == [(1, 0, 0)]
    assert calls(database) == {}


def test_nothing_is_written_without_a_request(file: str, tmp_path: Path) -> None:
    recorder = record(file)
    eventually(recorder.flush)
    recorder.close()
    assert not (tmp_path / "usage.sqlite3").exists()


def test_a_call_after_the_end_begins_anew(file: str) -> None:
    recorder = record(file)
    recorder(now())
    recorder.close()
    assert recorder.awaits_request
    recorder(now())
    recorder.close()
    assert (total(file), rows(file, "ended")) == (2, [(1,), (1,)])


def test_a_call_during_the_last_write_is_counted(file: str) -> None:
    engine = create_engine(file)
    recorder = record(engine)
    recorder(now("job/1"))
    eventually(recorder.flush)
    event.listen(
        engine, "commit", lambda _connection: recorder(now("job/2")), once=True
    )
    recorder.close()
    eventually(lambda: calls(file) == {(None, "job/1"): 1, (None, "job/2"): 1})


@pytest.mark.parametrize("callers", [0, 150, 300])
def test_any_number_of_pairs_is_counted_and_those_with_a_caller_come_first(
    callers: int, file: str
) -> None:
    recorder = record(file)
    for number in range(1000):
        recorder(now(f"job/{number}"))
    for number in range(callers):
        recorder(now("job", f"team-{number}"))
    recorder(now(f"{PROBE}/2"))
    recorder.close()
    pairs = calls(file)
    assert total(file) == 1000 + callers + 1
    assert len(pairs) == 200 + 2
    assert pairs[OTHER, PROBE] == 1
    labels = [caller for caller, _client in pairs if caller not in {None, OTHER}]
    assert len(labels) == min(callers, 200)


def test_a_pair_is_counted_for_each_source(file: str) -> None:
    recorder = record(file)
    recorder(now())
    recorder(now()._replace(source="query"))
    recorder.close()
    counts = execute(file, select(usage.c.source, usage.c.answered))
    assert sorted(counts) == [("", 1), ("query", 1)]


def test_a_value_that_does_not_fit_becomes_other(database: str) -> None:
    recorder = record(database, host="\U0001f600" * 64)
    for label in ("x" * 65, "", "y" * 64, "\U0001f600" * 64, "\ud800\0"):
        recorder(now("job", label))
    recorder.close()
    assert calls(database) == {
        (OTHER, OTHER): 2,
        ("y" * 64, "job"): 1,
        ("\U0001f600" * 64, "job"): 1,
        ("\ud800\0", "job"): 1,
    }


def test_labels_compare_byte_by_byte(database: str) -> None:
    recorder = record(database)
    labels = ["team-a", "TEAM-A", "t\u00e9am-a", "team-a "]
    for label in labels:
        recorder(now("job", label))
    recorder.close()
    assert calls(database) == {(label, "job"): 1 for label in labels}


# Signs of life


def test_a_sign_of_life_is_overwritten_whatever_the_clock_says(database: str) -> None:
    past = Past(database)
    past.recorder.request_passed()
    for minutes in (10, 5):
        past.now = NOON + minutes * MINUTE
        assert past.recorder.flush()
    assert rows(database, "began_at", "heard_at") == [
        (microseconds(NOON), microseconds(NOON + 5 * MINUTE))
    ]


@pytest.mark.parametrize(
    ("names", "pause", "signs", "is_gone"),
    [
        ({}, 30, 4, True),
        ({"host": "web-2"}, 30, 4, False),
        ({"service": "blog"}, 30, 4, False),
        ({}, 50, 4, False),
        ({}, 30, 2, False),
    ],
    ids=["", "another host", "another service", "a break", "too soon"],
)
def test_a_recorder_declares_another_one_of_its_host_gone(
    names: dict[str, Any], pause: int, signs: int, is_gone: bool, database: str
) -> None:
    past = Past(database, host="web-1", service="shop")
    killed = past.start(NOON)
    killed(use(at=NOON))
    eventually(killed.flush)
    witness = past.start(NOON, **names)
    witness.request_passed()
    for number in range(signs + 1):
        past.now = NOON + number * pause * SECOND
        eventually(witness.flush)
    gone = [at for (at,) in rows(database, "gone_at") if at]
    assert gone == ([microseconds(NOON + 120 * SECOND)] if is_gone else [])
    # One that lives after all goes on under a new identity, which has all totals.
    killed(use(at=past.now))
    eventually(killed.flush)
    assert len(rows(database, "id")) == (3 if is_gone else 2)
    assert total(database) == (3 if is_gone else 2)


def test_a_recorder_touches_no_row_of_another_one_that_lives(file: str) -> None:
    """Otherwise they would wait for each other, and MariaDB would end one of them."""
    engine = create_engine(file)
    past = Past(engine)
    statements: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    for number in range(5):
        past.now = NOON + number * 30 * SECOND
        past.recorder.request_passed()
        assert past.recorder.flush()
    assert "UPDATE flask_notifications_recorder SET gone_at" not in "".join(statements)


@pytest.mark.parametrize(
    "change",
    [delete(recorders), update(recorders).values(stamp=1)],
    ids=["failover", "clone"],
)
def test_a_changed_row_makes_recorders_begin_anew(
    database: str, change: Any, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = record_call(database)
    before = rows(database, "id", "heard_at")
    execute(database, delete(usage))
    execute(database, change)
    recorder(now())
    eventually(recorder.flush)
    after = rows(database, "id", "began_at")
    assert after[-1][0] != before[0][0]
    assert after[-1][1] >= before[0][1]  # what was between is not covered
    assert total(database) == 2
    assert "begins anew" in caplog.text


def test_a_call_that_is_lost_in_the_recorder_begins_a_new_row(file: str) -> None:
    recorder = record_call(file)
    with pytest.raises(ZeroDivisionError):
        recorder(now()._replace(at=Mock(timestamp=lambda: 1 / 0)))
    recorder.close()
    assert rows(file, "ended") == [(0,), (1,)]
    assert total(file) == 2


def test_time_before_a_first_call_that_is_lost_is_not_covered(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = Past(file)
    past.now = NOON + MINUTE
    with monkeypatch.context() as patch:
        no_memory = Mock(side_effect=MemoryError)
        patch.setattr("flask_notifications.usage.recorder.Writer", no_memory)
        with pytest.raises(MemoryError):
            past.recorder(use(at=past.now))
    past.now = NOON + 2 * MINUTE
    past.recorder(use(at=past.now))
    past.recorder.close()
    last = microseconds(NOON + 2 * MINUTE)
    assert rows(file, "began_at", "heard_at", "ended") == [
        (microseconds(NOON), microseconds(NOON), 0),
        (last, last, 1),
    ]


def test_time_before_the_first_row_is_uncovered_if_a_call_is_lost_in_it(
    file: str,
) -> None:
    past = Past(file)
    past.recorder.request_passed()
    past.now = NOON + MINUTE
    with pytest.raises(ZeroDivisionError):
        past.recorder(use()._replace(at=Mock(timestamp=lambda: 1 / 0)))
    past.recorder.close()
    noon, later = microseconds(NOON), microseconds(NOON + MINUTE)
    assert rows(file, "began_at", "heard_at", "ended") == [
        (noon, noon, 0),
        (later, later, 1),
    ]


def test_a_clock_that_comes_to_differ_begins_a_new_row(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = record(file)
    recorder.request_passed()
    eventually(recorder.flush)
    right = microseconds(datetime.now(UTC)) * 1000
    with monkeypatch.context() as patch:
        patch.setattr("time.time_ns", lambda: right - 3600 * 10**9)
        eventually(recorder.flush)
    eventually(recorder.flush)
    skews = [round(skew / 1e9) for (skew,) in rows(file, "skew")]
    assert skews == [0, 4, 0]


@pytest.mark.parametrize("away", [-3 * DAY, 3 * DAY])
def test_a_call_outside_of_the_life_of_its_process_shows_that_a_clock_was_off(
    file: str, away: timedelta
) -> None:
    recorder = record(file)
    recorder(use(at=datetime.now(UTC) + away))
    recorder.close()
    assert rows(file, "skew")[0][0] > 2 * 86_400 * 10**6


def test_a_new_row_has_the_totals_of_yesterday_too(file: str) -> None:
    past = Past(file)
    for number in range(3):
        at = past.now = NOON + number * DAY
        past.recorder(use(at=at))
        assert past.recorder.flush()
    execute(file, delete(recorders))
    execute(file, delete(usage))
    past.recorder(use(at=past.now))
    assert past.recorder.flush()
    days = execute(file, select(usage.c.day, usage.c.answered).order_by(usage.c.day))
    first = microseconds(NOON + DAY) // (86_400 * 10**6)
    assert days == [(first, 1), (first + 1, 2)]


def test_a_call_of_a_day_that_is_dropped_is_counted_in_a_new_row(file: str) -> None:
    past = Past(file)
    for number in range(4):
        past.now = NOON + number * DAY
        past.recorder(use(at=past.now))
        assert past.recorder.flush()
    past.recorder(use(at=NOON))
    past.recorder.close()
    days = execute(file, select(usage.c.day, usage.c.answered).order_by(usage.c.day))
    assert len(rows(file, "id")) == 2
    assert [number for day, number in days if day == days[0][0]] == [1, 1]


# Forks, threads and signals


def test_a_child_of_a_fork_counts_and_writes_for_itself(database: str) -> None:
    recorder = record(database)
    for number in range(5):
        recorder(now(f"job/{number}"))  # wakes the thread
        child = os.fork()
        if child == 0:
            recorder(now("child"))
            os._exit(0 if recorder.flush() else 1)
        assert os.waitpid(child, 0)[1] == 0
    recorder.close()
    assert (calls(database)[None, "child"], total(database)) == (5, 10)


@pytest.mark.parametrize(
    "act", [UsageRecorder.request_passed, lambda recorder: recorder(now())]
)
def test_a_fork_that_python_does_not_notice_is_noticed_at_the_next_request(
    act: Any, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = record_call(file)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        assert not recorder.is_healthy()
        act(recorder)
        recorder(now())
        recorder.close()
    assert {process for (process,) in rows(file, "process")} == {1, os.getpid()}
    assert total(file) in {2, 3}


def test_a_recorder_begins_anew_once_after_a_fork(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = record(file)
    recorder(now())
    process = os.getpid()
    with monkeypatch.context() as patch:
        # Another thread has been faster.
        patch.setattr(os, "getpid", Mock(side_effect=[1, process]))
        recorder(now())
    recorder.close()
    assert total(file) == 2


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_an_engine_of_the_application_is_used_in_a_child_of_a_fork(
    file: str, is_in_memory: bool
) -> None:
    engine = create_engine(file)
    if is_in_memory:
        options = {"check_same_thread": False}
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args=options)
    recorder = record_call(engine)
    child = os.fork()
    if child == 0:
        recorder(now())
        os._exit(total(engine) if recorder.flush() else 9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_a_fork_does_not_wait_for_a_slow_write(file: str) -> None:
    engine = create_engine(file)
    recorder = record(engine)
    is_writing, may_end = threading.Event(), threading.Event()

    def wait(_connection: Connection) -> None:
        is_writing.set()
        may_end.wait(10)

    event.listen(engine, "commit", wait)
    recorder(now())
    assert is_writing.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    may_end.set()
    recorder.close()
    assert total(file) == 1


def run_in_uwsgi(
    monkeypatch: pytest.MonkeyPatch, worker: int, **options: bytes
) -> None:
    server = SimpleNamespace(opt=options, worker_id=lambda: worker)
    monkeypatch.setitem(sys.modules, "uwsgi", server)


def test_nothing_is_opened_in_the_master_of_uwsgi(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_uwsgi(monkeypatch, 0, threads=b"2")
    threads = threading.active_count()
    recorder = record(file)
    recorder.request_passed()
    recorder(now())
    assert recorder.awaits_request
    eventually(recorder.flush)
    assert threading.active_count() == threads
    assert not (tmp_path / "usage.sqlite3").exists()
    run_in_uwsgi(monkeypatch, 1, threads=b"2")
    recorder(now())
    eventually(lambda: total(file) == 1)


def test_a_server_without_threads_is_refused(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_uwsgi(monkeypatch, 1)
    with pytest.raises(ValueError, match="add the line `enable-threads = true`"):
        UsageRecorder(file)


def test_without_a_thread_to_spare_flush_and_the_end_write(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    none_to_spare = Mock(side_effect=RuntimeError("can't start new thread"))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_to_spare)
        recorder = record(file)
        recorder(now())
        eventually(recorder.flush)
        recorder(now())
        recorder.close()
    assert (total(file), rows(file, "ended")) == (2, [(1,)])


def test_a_signal_handler_may_flush_in_a_write_without_a_thread(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_notifications.usage.writer._PATIENCE", 0.01)
    none_to_spare = Mock(side_effect=RuntimeError("can't start new thread"))
    monkeypatch.setattr(threading.Thread, "start", none_to_spare)
    engine = create_engine(file)
    recorder = record(engine)
    recorder(now())
    flushed: list[bool] = []
    event.listen(engine, "commit", lambda _: flushed.append(recorder.flush()))
    assert recorder.flush()
    assert not any(flushed)
    assert total(file) == 1


def test_flush_says_when_a_write_takes_too_long(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_notifications.usage.writer._PATIENCE", 0.01)
    engine = create_engine(file)
    recorder = record(engine)
    may_end = threading.Event()
    event.listen(engine, "commit", lambda _connection: may_end.wait(10))
    recorder(now())
    assert not recorder.flush()
    may_end.set()
    eventually(recorder.flush)
    assert total(file) == 1


def test_under_gevent_a_thread_of_the_system_writes(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Mock(side_effect=lambda module, name: getattr(sys.modules[module], name))
    monkeypatch.setitem(
        sys.modules, "gevent.monkey", SimpleNamespace(get_original=asked)
    )
    recorder = record(file)
    recorder(now())
    eventually(lambda: total(file) == 1)
    recorder.close()
    originals = {call.args[1] for call in asked.call_args_list}
    assert originals == {"SimpleQueue", "allocate_lock", "start_new_thread"}


@pytest.mark.parametrize("act", [UsageRecorder.flush, UsageRecorder.close])
def test_a_signal_handler_may_flush_and_close_whatever_it_interrupts(
    act: Any, file: str
) -> None:
    recorder = record_call(file)

    def interrupt() -> float:
        act(recorder)
        return datetime.now(UTC).timestamp()

    recorder(now()._replace(at=Mock(timestamp=interrupt)))
    recorder.close()
    assert (total(file), rows(file, "ended")) == (2, [(1,)])


def test_a_handler_that_ends_the_process_during_a_write_loses_nothing(
    file: str,
) -> None:
    child = os.fork()
    if child == 0:
        recorder = record(file)
        signal.signal(signal.SIGALRM, lambda *_: sys.exit(0))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            for _ in range(10**9):
                recorder(now())
        finally:
            recorder.close()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert total(file) > 0
    assert rows(file, "ended")[-1] == (1,)


# A database that cannot be written


def test_no_call_is_lost_while_the_database_is_away(
    file: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "usage.sqlite3"
    path.mkdir()
    recorder = record(file)
    for number in range(5):
        recorder(now(f"job/{number}"))
        assert not recorder.flush()
    assert not recorder.is_healthy()
    assert caplog.text.count("because it cannot be written") == 1
    path.rmdir()
    eventually(recorder.flush)
    assert recorder.is_healthy()
    assert total(file) == 5


def test_an_outage_is_logged_at_once_and_every_hour(
    file: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "usage.sqlite3").mkdir()
    past = Past(file)
    past.recorder.request_passed()
    for minutes in (0, 59, 61, 119, 122):
        past.now = NOON + minutes * MINUTE
        assert not past.recorder.flush()
    assert caplog.text.count("because it cannot be written") == 3


def test_health_is_the_time_since_the_last_write(file: str) -> None:
    past = Past(file)
    past.recorder.request_passed()
    assert past.recorder.flush()
    past.now += 2 * MINUTE
    assert past.recorder.is_healthy()
    past.now += SECOND
    assert not past.recorder.is_healthy()
    assert past.recorder.is_healthy(seconds=121)
    with pytest.raises(ValueError, match=r"^seconds must be"):
        past.recorder.is_healthy(0)


def test_calls_that_cannot_be_written_at_the_end_are_logged(
    file: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = record_call(file)
    (tmp_path / "usage.sqlite3").unlink()
    (tmp_path / "usage.sqlite3").mkdir()
    for client in ("job/1", "job/1", "job/2"):
        recorder(now(client))
    recorder.close()
    assert "3 calls could not be written at the end of a process" in caplog.text


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_write_whose_commit_is_not_confirmed_counts_once(
    engine: Engine, is_committed: bool
) -> None:
    recorder = record_call(engine)
    failing = [True]

    @event.listens_for(engine, "commit")
    def fail(connection: Connection) -> None:
        if failing and failing.pop():
            if is_committed:
                connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]
            message = "the connection is gone"
            raise RuntimeError(message)

    recorder(now("job/2"))
    recorder(now())
    eventually(lambda: not failing)
    eventually(recorder.flush)
    assert calls(engine) == {(None, "job/1"): 2, (None, "job/2"): 1}
    assert len(rows(engine, "id")) == 1


def test_tables_that_are_dropped_are_created_again(file: str) -> None:
    recorder = record_call(file)
    engine = create_engine(file)
    metadata.drop_all(engine)
    engine.dispose()
    recorder(now())
    eventually(recorder.flush)
    assert total(file) == 2


def test_without_permission_to_create_tables_they_must_be_there(file: str) -> None:
    recorder = record(file, create_tables=False)
    recorder(now())
    assert not recorder.flush()
    engine = create_engine(file)
    metadata.create_all(engine)
    engine.dispose()
    eventually(recorder.flush)


class Conflict(Exception):
    """An error of a driver."""


def conflict(*values: object, **attributes: object) -> Conflict:
    error = Conflict(*values)
    vars(error).update(attributes)
    return error


CONFLICTS = {
    "psycopg": conflict(sqlstate="40001"),
    "psycopg2": conflict(pgcode="40P01"),
    "pg8000": conflict({"C": "40001"}),
    "pymysql": conflict(1213, "Deadlock found"),
    "mysqlconnector": conflict(errno=1180),
}


@pytest.mark.parametrize("error", CONFLICTS.values(), ids=CONFLICTS)
@pytest.mark.parametrize(("number", "is_written"), [(3, True), (4, False)])
def test_a_conflict_is_repeated_three_times_and_is_no_outage(
    error: Conflict,
    number: int,
    is_written: bool,
    file: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = create_engine(file)
    recorder = record(engine)
    recorder.request_passed()
    eventually(recorder.flush)
    left = [error] * number

    @event.listens_for(engine, "before_cursor_execute")
    def fail(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if left and "INSERT INTO flask_notifications_usage" in statement:
            raise OperationalError(statement, {}, left.pop())

    with caplog.at_level("ERROR"):
        recorder(now())
        eventually(lambda: not left)
        eventually(recorder.flush)
    assert ("cannot be written" not in caplog.text) is is_written
    assert total(file) == 1
    engine.dispose()


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_connection_that_ends_during_a_write_logs_one_line(
    engine: Engine, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = record(engine)
    recorder.request_passed()
    eventually(recorder.flush)

    @event.listens_for(engine, "before_cursor_execute")
    def end(connection: Connection, _c: Any, statement: str, *_rest: Any) -> None:
        if "INSERT INTO flask_notifications_usage" in statement and not caplog.records:
            driver: Any = connection.connection.dbapi_connection
            if kind == "mariadb":
                kill = f"KILL {driver.thread_id()}"
            else:
                kill = f"SELECT pg_terminate_backend({driver.info.backend_pid})"
            execute(engine.url.render_as_string(hide_password=False), text(kill))

    recorder(now())
    eventually(lambda: caplog.records)
    eventually(recorder.flush)
    assert len(caplog.records) == 1
    assert total(engine) == 1


# Merging and retention


def stored(database: str) -> list[tuple[Any, ...]]:
    return sorted(
        execute(database, select(usage.c.day, usage.c.recorder, usage.c.answered))
    )


def test_rows_of_past_days_are_merged_once_their_recorders_end(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_notifications.usage.store._MERGED_AT_ONCE", 2)
    past = Past(database, service="shop")
    for operations in ([REPORT], [REPORT], [REPORT], [REPORT, EXPORT]):
        recorder = past.start(NOON - 2 * DAY, *operations)
        recorder(use(at=past.now))
        recorder.close()
    alive = past.start(NOON - 2 * DAY)
    alive(use(at=past.now))
    assert alive.flush()
    past.cover(NOON - DAY, NOON - DAY)
    merged = {}
    for _day, recorder_id, answered in stored(database):
        merged[merged_into(recorder_id)] = answered
    digests = [plan for (plan,) in execute(database, select(plans.c.digest))]
    assert merged[None] == 1
    assert sorted(number for place, number in merged.items() if place is not None) == [
        1,
        3,
    ]
    assert {place[0] for place in merged if place is not None} == {"shop"}
    assert {place[1] for place in merged if place is not None} == set(digests)


def test_expired_rows_are_deleted_unless_their_recorder_neither_ended_nor_is_gone(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_notifications.usage.store._DELETED_AT_ONCE", 2)
    url = database
    if database.startswith("mysql"):
        # It may refuse statements whose condition is on no key.
        database += "?init_command=SET sql_safe_updates = 1"
    past = Past(database)
    for number in range(6):
        past.call(NOON - (5 - number) * DAY)
    for host in ("silent", "gone late"):
        silent = past.start(NOON - 20 * DAY, host=host)
        silent.request_passed()
        assert silent.flush()
    gone = update(recorders).where(recorders.c.host == "gone late")
    execute(url, gone.values(gone_at=microseconds(NOON - 2 * DAY)))
    past.cover(NOON - 20 * DAY, NOON - 20 * DAY)
    past.write()
    past.cover(NOON + DAY, NOON + DAY, retention_days=3)
    assert len(stored(database)) == 3
    day = (NOON + DAY - datetime(1970, 1, 1, tzinfo=UTC)).days - 3
    assert execute(database, select(state.c.kept_from)) == [(day,)]
    hosts = [host for host, ended in rows(database, "host", "ended") if not ended]
    assert sorted(hosts) == ["gone late", "silent"]


def test_a_clock_that_jumps_ahead_deletes_nothing_at_once(file: str) -> None:
    past = Past(file)
    past.call(NOON - 5 * DAY)
    past.write()
    execute(file, update(state).values(cleaned_at=5))
    record_call(file, retention_days=1)
    assert len(stored(file)) == 2


def test_an_error_while_rows_are_deleted_is_logged(
    file: str, caplog: pytest.LogCaptureFixture
) -> None:
    past = Past(file)
    past.recorder.request_passed()
    assert past.recorder.flush()
    execute(file, delete(state))
    past.now += 61 * MINUTE
    assert past.recorder.flush()
    assert "expired rows of usage cannot be deleted: NoResultFound" in caplog.text


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
    ("argument", "values"),
    [
        ("database", ["sqlite://", "sqlite:///:memory:", "no", 5]),
        ("database", ["postgresql+asyncpg://x@y/z", "postgresql://x:secret@y:port/z"]),
        ("flush_interval", [0, -1, "1", True, float("nan"), 31_536_001]),
        ("retention_days", [0, 1.5, True, 36_501]),
        ("create_tables", ["no"]),
        ("clock", [5, lambda: 5]),
        ("service", [None, "\u00e9", "x" * 65, "a\n", "a "]),
        ("host", ["", 5, "x" * 65, "localhost", "LOCALHOST"]),
    ],
)
def test_a_wrong_argument_is_named(
    file: str, argument: str, values: list[object]
) -> None:
    for value in values:
        options: dict[str, Any] = {"database": file, argument: value}
        with pytest.raises(ValueError, match=f"^{argument} must be") as raised:
            UsageRecorder(**options)
        assert "secret" not in str(raised.value)


def test_the_host_name_is_refused_if_it_is_no_name(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    with pytest.raises(ValueError, match=r"^host must be"):
        UsageRecorder(file)
