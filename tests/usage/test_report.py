"""The verdict of a usage report: use, proof by coverage, and unknown cases."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Phase
from flask_notifications.usage import (
    CANARY,
    OTHER,
    OperationUsage,
    StoreUnavailable,
    UsageRecorder,
    Verdict,
    read_usage,
)
from tests.usage.databases import DATABASES, EXPORT, NOON, REPORT, Past, empty_database, use
from tests.wsgi import call, plain_app

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MIDNIGHT = datetime(2026, 5, 31, tzinfo=UTC)
START = MIDNIGHT - 30 * DAY


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_database(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/usage.sqlite3"


def read_operation(database: str, **options: Any) -> OperationUsage:
    (operation,) = read_usage(database, until=NOON, **options).operations
    return operation


def cover_every_hour(database: str) -> Past:
    """Return a past in which every hour is covered, from the day before the window to its end."""
    past = Past(database)
    past.cover(START - DAY, NOON)
    return past


@pytest.mark.parametrize(
    ("call", "counts"),
    [
        pytest.param(use(status=200), (1, 0, 0), id="a success"),
        pytest.param(use(status=304), (1, 0, 0), id="a response below 400"),
        pytest.param(use(status=400), (0, 1, 0), id="a refusal"),
        pytest.param(use(status=503), (0, 1, 0), id="an error"),
        pytest.param(use(status=410), (0, 1, 0), id="the application's own 410"),
        pytest.param(use(status=None), (0, 1, 0), id="an application that raised"),
        pytest.param(use(status=410, phase=Phase.BROWNOUT), (0, 0, 1), id="a brownout"),
        pytest.param(use(status=410, phase=Phase.SUNSET), (0, 0, 1), id="a sunset"),
    ],
)
def test_every_call_counts_as_use_whatever_its_status(file: str, call: Any, counts: tuple[int, int, int]) -> None:
    past = cover_every_hour(file)
    past.call(NOON - DAY, call)
    past.write()
    usage = read_operation(file)
    assert (usage.answered, usage.failed, usage.closed) == counts
    assert usage.verdict == "in use"
    assert usage.reasons == ("1 call, the last on 30 May 2026",)


def test_calls_are_kept_by_caller_client_and_source(database: str) -> None:
    past = cover_every_hour(database)
    past.call(NOON - 2 * DAY, use("job/1", "alice", source="header"), use("job/1", "alice", source="query"))
    past.call(NOON - DAY, use("job/1", "alice", source="header"), use("job/1", "bob"), use(None, None, status=500))
    past.write()
    usage = read_operation(database)
    assert [(each.caller, each.client, each.source, each.calls) for each in usage.callers] == [
        ("alice", "job/1", "header", 2),
        (None, None, None, 1),
        ("alice", "job/1", "query", 1),
        ("bob", "job/1", None, 1),
    ]
    alice = usage.callers[0]
    assert (alice.first_at, alice.last_at) == (NOON - 2 * DAY, NOON - DAY)
    assert [(each.day, each.answered) for each in alice.days] == [(date(2026, 5, 29), 1), (date(2026, 5, 30), 1)]
    assert (usage.answered, usage.failed, usage.first_at, usage.last_at) == (4, 1, NOON - 2 * DAY, NOON - DAY)


COVERAGE = [
    ("every hour", [(START - DAY, NOON)], "safe", []),
    ("from the first minute of the window", [(START, NOON)], "safe", []),
    ("not yet in the present hour", [(START, NOON - HOUR)], "safe", []),
    ("a gap that is allowed", [(START, START + DAY), (START + 2 * DAY, NOON)], "safe", []),
    ("a gap across the beginning", [(START - HOUR, START), (START + DAY, NOON)], "safe", []),
    (
        "a gap that is too long",
        [(START, START + DAY), (START + 2 * DAY + HOUR, NOON)],
        "unknown",
        ["nothing was recorded for 25 hours, from 2 May 2026, 00:00 UTC"],
    ),
    (
        "a gap until now",
        [(START, NOON - 30 * HOUR)],
        "unknown",
        ["nothing was recorded for 30 hours, from 30 May 2026, 06:00 UTC"],
    ),
    (
        "a beginning within the window",
        [(START + HOUR, NOON)],
        "unknown",
        ["recorded only since 1 May 2026, 01:00 UTC; the window begins on 1 May 2026"],
    ),
    (
        "a late beginning and a gap",
        [(START + 2 * DAY, START + 3 * DAY), (START + 5 * DAY, NOON)],
        "unknown",
        [
            "recorded only since 3 May 2026, 00:00 UTC; the window begins on 1 May 2026",
            "nothing was recorded for 48 hours, from 4 May 2026, 00:00 UTC",
        ],
    ),
    (
        "only after the window",
        [(NOON + DAY, NOON + 2 * DAY)],
        "unknown",
        ["nothing was recorded for this operation before the end of the window"],
    ),
    (
        "only before the window",
        [(START - 2 * DAY, START)],
        "unknown",
        ["nothing was recorded in the window"],
    ),
]


@pytest.mark.parametrize(
    ("spans", "verdict", "reasons"), [each[1:] for each in COVERAGE], ids=[each[0] for each in COVERAGE]
)
def test_an_operation_without_calls_is_safe_only_if_its_coverage_is_complete(
    file: str, spans: list[tuple[datetime, datetime]], verdict: str, reasons: list[str]
) -> None:
    past = Past(file)
    for since, until in spans:
        past.cover(since, until)
    past.write()
    usage = read_operation(file)
    assert (usage.verdict, list(usage.reasons)) == (verdict, reasons)


def test_coverage_is_counted_in_hours(database: str) -> None:
    past = Past(database)
    past.cover(START - DAY, START + 3 * HOUR)
    past.cover(START + 5 * HOUR, NOON - 2 * HOUR)
    past.write()
    usage = read_operation(database)
    assert usage.longest_gap_hours == 2
    assert usage.covered_hours == 30 * 24 + 12 - 4
    assert usage.covered[START.date()] == 22
    assert usage.covered[MIDNIGHT.date()] == 10
    assert list(usage.covered) == [START.date() + number * DAY for number in range(31)]


@pytest.mark.parametrize(
    ("until", "hours"),
    [
        pytest.param(NOON, 12, id="on the hour"),
        pytest.param(NOON + timedelta(minutes=1), 13, id="within an hour"),
        pytest.param(MIDNIGHT, 0, id="midnight"),
    ],
)
def test_hours_outside_of_the_window_are_not_counted(file: str, until: datetime, hours: int) -> None:
    past = Past(file)
    past.cover(START - 2 * DAY, MIDNIGHT + 2 * DAY)
    past.write()
    (usage,) = read_usage(file, until=until, days=2).operations
    assert usage.covered_hours == 48 + hours
    assert list(usage.covered.values()) == [24, 24, hours]


def test_thousands_of_calls_are_written_with_a_comma(file: str) -> None:
    past = Past(file)
    past.call(NOON, *[use()] * 1234)
    past.write()
    assert read_operation(file).reasons == ("1,234 calls, the last on 31 May 2026",)


def test_a_call_covers_its_own_hour(file: str) -> None:
    past = Past(file)
    for hours in (1, 3, 2):
        past.call(NOON - hours * HOUR)
    past.write()
    assert read_operation(file).covered[MIDNIGHT.date()] == 3


@pytest.mark.parametrize(("allow_gap", "verdict"), [(0, "unknown"), (4.5, "unknown"), (5, "safe"), (1e9, "safe")])
def test_the_gap_that_is_allowed_is_in_hours(file: str, allow_gap: float, verdict: str) -> None:
    past = Past(file)
    past.cover(START, NOON - 10 * HOUR)
    past.cover(NOON - 5 * HOUR, NOON)
    past.write()
    assert read_operation(file, allow_gap=allow_gap).verdict == verdict


def test_a_window_without_any_record_proves_nothing_however_long_a_gap_may_be(file: str) -> None:
    past = Past(file)
    past.cover(START, START + HOUR)
    past.write()
    (usage,) = read_usage(file, days=1, until=MIDNIGHT + timedelta(minutes=59), allow_gap=1e9).operations
    assert (usage.verdict, usage.reasons) == ("unknown", ("nothing was recorded in the window",))
    assert usage.covered_hours == 0


def test_ignored_callers_and_clients_are_reported_but_do_not_count_as_use(file: str) -> None:
    past = cover_every_hour(file)
    past.call(NOON, use("probe/2", "alice"), use("probe/2", "alice"), use("job/1", "tests"), use("probe/2"))
    past.write()
    usage = read_operation(file, ignore_clients=["probe/2"], ignore_callers=["tests"])
    assert usage.verdict == Verdict.SAFE
    assert (usage.answered, usage.ignored, usage.first_at, usage.last_at) == (0, 4, None, None)
    assert usage.reasons == (
        "ignored, but still calling: alice with probe/2 (2 calls), probe/2 (1 call), tests with job/1 (1 call)",
    )
    assert read_operation(file, ignore_clients=["probe"]).verdict == Verdict.IN_USE
    assert read_operation(file, ignore_clients=["probe/2"]).answered == 1


def test_calls_beyond_the_limit_cannot_be_ignored(file: str) -> None:
    past = cover_every_hour(file)
    past.call(NOON, *(use(f"job/{number}") for number in range(201)))
    past.write()
    ignored = [f"job/{number}" for number in range(201)] + [OTHER]
    usage = read_operation(file, ignore_clients=ignored, ignore_callers=[OTHER])
    assert (usage.verdict, usage.answered, usage.ignored) == ("in use", 1, 200)


@pytest.mark.parametrize("client", [CANARY, f"{CANARY}/1.2"])
def test_a_canary_does_not_count_as_use(file: str, client: str) -> None:
    past = cover_every_hour(file)
    past.call(NOON, use(client))
    past.write()
    usage = read_operation(file)
    assert (usage.verdict, usage.answered, usage.ignored, usage.reasons) == ("safe", 0, 1, ())
    assert usage.callers[0].ignored


@pytest.mark.parametrize(
    ("missing", "reasons"),
    [
        ([], []),
        ([30], []),
        ([3], [f"no call of {CANARY} was recorded on 4 May 2026"]),
        ([0, 3], [f"no call of {CANARY} was recorded on 1 May 2026 and 1 other day"]),
        (range(31), [f"no call of {CANARY} was recorded on 1 May 2026 and 29 other days"]),
    ],
    ids=["none", "today's", "one", "two", "all"],
)
def test_each_complete_day_needs_a_canary_if_one_is_required(file: str, missing: list[int], reasons: list[str]) -> None:
    past = cover_every_hour(file)
    for number in set(range(31)) - set(missing):
        past.call(START + number * DAY, use(CANARY, status=500))
    past.write()
    usage = read_operation(file, require_canary=True)
    assert (usage.verdict, list(usage.reasons)) == ("unknown" if reasons else "safe", reasons)
    assert read_operation(file).verdict == "safe"


@pytest.mark.parametrize(
    ("at", "in_window"),
    [(START - HOUR, False), (START, True), (NOON, True), (NOON + HOUR, False), (NOON + DAY, False)],
    ids=["the hour before", "the first moment", "the last moment", "later today", "tomorrow"],
)
def test_the_window_has_complete_days_and_today_so_far(file: str, at: datetime, in_window: bool) -> None:
    past = cover_every_hour(file)
    past.call(at)
    past.write()
    assert read_operation(file).verdict == ("in use" if in_window else "safe")


@pytest.mark.parametrize(
    ("until", "last"),
    [
        (date(2026, 5, 30), MIDNIGHT),
        (NOON, NOON),
        (NOON.astimezone(timezone(timedelta(hours=14))), NOON),
    ],
    ids=["a date is included", "a time", "a time elsewhere"],
)
def test_the_window_ends_at_the_given_time(file: str, until: date, last: datetime) -> None:
    cover_every_hour(file).write()
    report = read_usage(file, days=2, until=until)
    assert (report.since, report.until, report.days) == (MIDNIGHT - 2 * DAY, last, 2)


def test_a_window_that_ends_with_a_date_has_nothing_of_the_next_day(file: str) -> None:
    past = cover_every_hour(file)
    past.call(MIDNIGHT)
    past.write()
    (usage,) = read_usage(file, days=2, until=date(2026, 5, 30)).operations
    assert (usage.verdict, usage.callers) == ("safe", ())
    assert list(usage.covered) == [MIDNIGHT.date() - 2 * DAY, MIDNIGHT.date() - DAY]


@pytest.mark.parametrize(
    ("at", "verdict"), [(MIDNIGHT - 2 * DAY, "unknown"), (MIDNIGHT - DAY, "safe"), (MIDNIGHT, "unknown")]
)
def test_a_window_that_ends_with_a_date_needs_a_canary_on_that_day(file: str, at: datetime, verdict: str) -> None:
    past = cover_every_hour(file)
    past.call(at, use(CANARY))
    past.write()
    assert read_usage(file, days=1, until=date(2026, 5, 30), require_canary=True).verdict == verdict


def test_the_window_ends_now_by_default(file: str) -> None:
    cover_every_hour(file).write()
    assert abs(read_usage(file).until - datetime.now(UTC)) < timedelta(minutes=1)


def test_all_operations_of_the_store_are_reported_by_default(database: str) -> None:
    past = Past(database)
    past.cover(START, NOON, EXPORT)
    past.call(NOON)
    past.write()
    report = read_usage(database, until=NOON)
    assert [(each.name, each.verdict) for each in report.operations] == [("export", "safe"), ("report", "in use")]
    named = read_usage(database, until=NOON, operations=["other", REPORT, "report", EXPORT])
    assert [(each.name, each.verdict) for each in named.operations] == [
        ("other", "unknown"),
        ("report", "in use"),
        ("export", "safe"),
    ]


@pytest.mark.parametrize(
    ("operations", "verdict"),
    [(None, "in use"), (["export", "other"], "unknown"), (["export"], "safe"), (["export", "report"], "in use")],
)
def test_the_verdict_on_all_is_the_worst(file: str, operations: list[str] | None, verdict: str) -> None:
    past = Past(file)
    past.cover(START, NOON, EXPORT)
    past.call(NOON)
    past.write()
    assert read_usage(file, until=NOON, operations=operations).verdict == verdict


def test_an_empty_store_proves_nothing(file: str) -> None:
    past = Past(file)
    past.call(NOON)
    past.write()
    with sqlite3.connect(file.removeprefix("sqlite:///")) as connection:
        connection.execute("DELETE FROM flask_notifications_coverage")
        connection.execute("DELETE FROM flask_notifications_usage")
    connection.close()
    assert read_usage(file).verdict == "unknown"


def test_the_report_is_json(file: str) -> None:
    past = Past(file)
    past.cover(START, NOON, REPORT)
    past.call(NOON - DAY, use("job/1", "alice", source="query"))
    past.call(NOON, use("job/1", "alice", source="query", status=None))
    past.call(NOON, use(None, status=410, phase=Phase.SUNSET))
    past.write()
    report = read_usage(file, until=NOON, days=29, ignore_callers=["alice"], operations=["report", "other"])
    assert json.loads(json.dumps(report.to_dict())) == {
        "schema": 1,
        "from": "2026-05-02T00:00:00Z",
        "until": "2026-05-31T12:00:00Z",
        "days": 29,
        "operations": [
            {
                "name": "report",
                "verdict": "in use",
                "reasons": [
                    "1 call, the last on 31 May 2026",
                    "ignored, but still calling: alice with job/1 (2 calls)",
                ],
                "answered": 0,
                "failed": 0,
                "closed": 1,
                "ignored": 2,
                "first_at": "2026-05-31T12:00:00Z",
                "last_at": "2026-05-31T12:00:00Z",
                "covered_hours": 29 * 24 + 12,
                "longest_gap_hours": 0,
                "callers": [
                    {
                        "caller": "alice",
                        "client": "job/1",
                        "source": "query",
                        "answered": 1,
                        "failed": 1,
                        "closed": 0,
                        "first_at": "2026-05-30T12:00:00Z",
                        "last_at": "2026-05-31T12:00:00Z",
                        "ignored": True,
                    },
                    {
                        "caller": None,
                        "client": None,
                        "source": None,
                        "answered": 0,
                        "failed": 0,
                        "closed": 1,
                        "first_at": "2026-05-31T12:00:00Z",
                        "last_at": "2026-05-31T12:00:00Z",
                        "ignored": False,
                    },
                ],
            },
            {
                "name": "other",
                "verdict": "unknown",
                "reasons": ["nothing was recorded for this operation before the end of the window"],
                "answered": 0,
                "failed": 0,
                "closed": 0,
                "ignored": 0,
                "first_at": None,
                "last_at": None,
                "covered_hours": 0,
                "longest_gap_hours": 29 * 24 + 12,
                "callers": [],
            },
        ],
    }


def test_an_engine_is_read_and_stays_open(file: str) -> None:
    cover_every_hour(file).write()
    engine = create_engine(file)
    connection = engine.connect()
    assert read_usage(engine, until=NOON).verdict == "safe"
    assert engine.pool.checkedout() == 1  # type: ignore[attr-defined]
    connection.close()
    engine.dispose()


def test_a_database_in_memory_can_be_read_with_an_engine() -> None:
    engine = create_engine("sqlite://")
    with pytest.raises(StoreUnavailable, match="no table"):
        read_usage(engine)
    engine.dispose()


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no file"):
        read_usage(f"sqlite:///{tmp_path}/missing.sqlite3")
    assert not list(tmp_path.iterdir())


def test_a_file_without_tables_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite3").touch()
    with pytest.raises(StoreUnavailable, match="no table flask_notifications_usage and no table"):
        read_usage(f"sqlite:///{tmp_path}/empty.sqlite3")


def test_a_file_that_is_not_a_database_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "other.sqlite3").write_bytes(b"something else" * 1000)
    with pytest.raises(StoreUnavailable, match="not a database"):
        read_usage(f"sqlite:///file:{tmp_path}/other.sqlite3?uri=true")


@pytest.mark.parametrize(
    "row",
    [
        "coverage VALUES ('o', 'zzz', '', 1, 1)",
        "coverage VALUES ('o', '2026-05-30', '', NULL, 1)",
        "coverage VALUES ('o', '2026-05-30', '', 'x', 1)",
        "coverage VALUES (NULL, '2026-05-30', '', 1, 1)",
        "usage VALUES ('2026-05-30', 'o', 'c', 'c', '', '2026-05-30 00:00:00', '2026-05-30 00:00:00', 1, 1, NULL)",
        "usage VALUES ('2026-05-30', 'o', NULL, 'c', '', '2026-05-30 00:00:00', '2026-05-30 00:00:00', 1, 1, 1)",
        "usage VALUES ('2026-05-30', 'o', 'c', 'c', '', '2026-05-30 0', '2026-05-30 0', 1, 1, 1)",
    ],
    ids=["a day", "no hours", "hours", "no operation", "no count", "no caller", "a time"],
)
def test_tables_with_foreign_content_are_no_store(row: str, file: str) -> None:
    with closing(sqlite3.connect(file.removeprefix("sqlite:///"))) as other, other:
        other.execute("CREATE TABLE flask_notifications_coverage(operation, day, recorder, hours, batches)")
        columns = "day, operation, caller, client, source, first_at, last_at, answered, failed, closed"
        other.execute(f"CREATE TABLE flask_notifications_usage({columns})")
        other.execute(f"INSERT INTO flask_notifications_{row}")
    with pytest.raises(StoreUnavailable, match="cannot be read: ValueError: "):
        read_usage(file, until=NOON)


def test_a_server_that_does_not_respond_is_no_store() -> None:
    with pytest.raises(StoreUnavailable, match="OperationalError") as raised:
        read_usage("postgresql+psycopg://shop:secret@127.0.0.1:1/usage")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("days", 0),
        ("days", 3651),
        ("days", 1.5),
        ("days", True),
        ("until", "2026-05-01"),
        ("until", datetime(2026, 5, 1)),  # noqa: DTZ001 - the mistake that is tested
        ("operations", "report"),
        ("operations", []),
        ("operations", 5),
        ("until", date.min),
        ("until", date.max),
        ("until", datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))),
        ("operations", [""]),
        ("operations", [1]),
        ("ignore_clients", "job/1"),
        ("ignore_clients", [""]),
        ("ignore_clients", None),
        ("ignore_callers", [None]),
        ("ignore_callers", 5),
        ("ignore_callers", iter(["tests"])),
        ("allow_gap", -1),
        ("allow_gap", float("nan")),
        ("allow_gap", True),
        ("allow_gap", "1"),
        ("require_canary", "no"),
    ],
)
def test_a_wrong_argument_is_named(file: str, argument: str, value: object) -> None:
    options: dict[str, Any] = {argument: value}
    with pytest.raises(ValueError, match=f"^{argument} must be"):
        read_usage(file, **options)


@pytest.mark.parametrize(
    "database",
    [
        "mysql+pymysql://root@127.0.0.1/test",
        "postgresql+asyncpg://x@y/z",
        "sqlite://",
        "sqlite:///:memory:",
        "nonsense",
        "nothing://x",
        5,
        None,
        "postgresql://x:secret@y:port/z",
    ],
)
def test_another_kind_of_database_is_refused(database: Any) -> None:
    with pytest.raises(ValueError, match=r"^database must be") as raised:
        read_usage(database)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("path", ["/other", "/report"])
@pytest.mark.parametrize("flushes", [True, False], ids=["each hour is written", "only the end writes"])
def test_every_hour_with_a_request_is_covered_when_the_clock_moves_hour_by_hour(
    flushes: bool, path: str, file: str
) -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    recorder = UsageRecorder(file, flush_interval=3600, clock=lambda: now)
    app = DeprecationMiddleware(plain_app(), {REPORT: DeprecationPolicy(deprecated_at=START)}, observers=[recorder])
    try:
        for _hour in range(48):
            assert call(app, "GET", path, HTTP_USER_AGENT=CANARY).code == 200
            assert not flushes or recorder.flush()
            now += HOUR
    finally:
        recorder.close()
    (usage,) = read_usage(file, days=1, until=datetime(2026, 5, 2, 23, 59, tzinfo=UTC)).operations
    assert (usage.verdict, usage.longest_gap_hours) == ("safe", 0)
