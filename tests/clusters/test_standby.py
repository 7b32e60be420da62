"""The record of usage and a storage on PostgreSQL with a hot standby."""

import logging
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine

from flask_notifications import NotificationApp
from flask_notifications.usage import StoreUnavailable, UsageRecorder, read_usage
from tests.drivers.drivers import create_tables, storage_on
from tests.resilience.postgresql import IMMEDIATE, Cluster, postgresql, standby_of
from tests.servers.process import eventually
from tests.storages import CURRENT_USER
from tests.usage.databases import POLICY, REPORT, now, record_call
from tests.wsgi import call

Pair = tuple[Cluster, Cluster]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return a primary and its standby."""
    with postgresql() as primary, standby_of(primary) as standby:
        yield primary, standby


def find_primary(first: Cluster, second: Cluster) -> str:
    """Return a URL of the cluster that is the primary at the time."""
    hosts = f"host=127.0.0.1:{first.port}&host=127.0.0.1:{second.port}"
    attributes = "target_session_attrs=read-write"
    return f"postgresql+psycopg://shop@/postgres?{hosts}&{attributes}"


def count_calls(cluster: Cluster) -> int:
    """Return the number of calls that a server has; 0 before it has the tables."""
    try:
        report = read_usage(cluster.url())
    except StoreUnavailable:
        return 0
    return sum(usage.answered for usage in report.operations)


def test_a_standby_serves_reports_and_notifications(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    primary, standby = pair
    engine = create_engine(primary.url())
    create_tables(engine)
    engine.dispose()
    recorder = record_call(primary.url())
    recorder.close()
    eventually(lambda: count_calls(standby) == 1)
    replica = create_engine(standby.url())
    app = NotificationApp(storage_on(replica))
    assert call(app, "GET", CURRENT_USER, "sessionId=a1").code == 200
    replica.dispose()
    misplaced = UsageRecorder(standby.url())
    misplaced.listen({REPORT: POLICY})
    misplaced(now())
    assert not misplaced.flush()
    (message,) = caplog.messages
    assert "read-only transaction" in message
    with caplog.at_level(logging.CRITICAL):
        misplaced.close()


def test_no_call_is_lost_when_the_standby_takes_over(pair: Pair) -> None:
    primary, standby = pair
    recorder = record_call(find_primary(primary, standby))
    eventually(lambda: count_calls(standby) == 1)
    primary.stop(IMMEDIATE)
    recorder(now())
    standby.promote()
    eventually(recorder.flush)
    recorder.close()
    assert count_calls(standby) == 2
    primary.start()  # which the fixture stops


def test_a_standby_that_was_behind_gets_the_day_again(pair: Pair) -> None:
    primary, standby = pair
    recorder = record_call(find_primary(primary, standby))
    eventually(lambda: count_calls(standby) == 1)
    standby.stop()
    recorder(now())
    assert recorder.flush()
    primary.stop(IMMEDIATE)
    standby.start()
    standby.promote()
    recorder(now())
    eventually(recorder.flush)
    recorder.close()
    # One call of the old identity, and all three of the new one: never too few.
    assert count_calls(standby) == 4
    (report,) = read_usage(standby.url()).operations
    assert report.verdict == "in use"
    primary.start()
