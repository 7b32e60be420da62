"""The verdict: in use, unknown or safe, with every reason for a doubt, and the form of
the report.
"""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text, update

from flask_notifications import Call, Operation
from flask_notifications.plans.policy import Phase
from flask_notifications.usage import (
    PROBE,
    OperationUsage,
    StoreUnavailable,
    UsageRecorder,
    read_usage,
)
from flask_notifications.usage.coverage import combine
from flask_notifications.usage.store import recorders, usage
from tests.test_deprecation import OtherDatetime
from tests.usage.databases import EXPORT, NOON, POLICY, REPORT, Past, execute, use

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = datetime(2026, 5, 1, tzinfo=UTC)  # 30 complete days before NOON
Spans = list[tuple[datetime, datetime]]


def read_operation(database: str, **options: Any) -> OperationUsage:
    defaults: dict[str, Any] = {"until": NOON, "operations": [REPORT]}
    (usage,) = read_usage(database, **defaults | options).operations
    return usage


def covered(database: str, *calls: Call) -> Past:
    """Record that a process listened in the whole window, and calls."""
    past = Past(database)
    past.cover(START, NOON)
    for call in calls:
        past.recorder(call)
    past.write()
    return past


def test_names_are_compared_byte_by_byte_and_kept_as_they_are(database: str) -> None:
    """Databases fold letters, white space at the end and accents, or refuse characters
    beyond ASCII.
    """
    names = [
        "team-a",
        "TEAM-A",
        "team-a ",
        "têam-a",
        "Команда",
        'a"b\\c',
        "😀",
        "\\u0041",
        "A",
    ]
    covered(
        database,
        *(use("job/1", name) for name in names),
        *(use(name) for name in names),
    )
    callers = read_operation(database).callers
    assert {each.caller for each in callers} == {*names, None}
    assert {each.client for each in callers} == {*names, "job/1"}
    assert {each.calls for each in callers} == {1}
    assert all(
        name.isascii()
        for row in execute(database, select(usage.c.caller, usage.c.client))
        for name in row
    )


PAUSE, HALF = START + DAY, NOON - 49 * HOUR
NOTHING = "nothing was recorded for this operation in the window"
COVERAGE: dict[str, tuple[Spans, dict[str, Any], list[str]]] = {
    "everything": ([(START, NOON)], {}, []),
    "a deployment without a pause": ([(START, HALF), (HALF, NOON)], {}, []),
    "a gap that is allowed": ([(START, PAUSE), (PAUSE + 6 * HOUR, NOON)], {}, []),
    "a gap that is too long": (
        [(START, PAUSE), (PAUSE + 7 * HOUR, NOON)],
        {},
        [
            "nothing was recorded for 7 hours, from 2 May 2026, 00:00 UTC",
            "the last 28 days are complete: --days 28",
        ],
    ),
    "a gap before the last day": (
        [(START, NOON - 60 * HOUR), (NOON - 53 * HOUR, NOON)],
        {},
        [
            "nothing was recorded for 7 hours, from 29 May 2026, 00:00 UTC",
            "the last 1 day is complete: --days 1",
        ],
    ),
    "too little": (
        [(START, NOON - DAY), (NOON - DAY + 6 * HOUR, NOON)],
        {"min_coverage": 0.995},
        ["only 99.1 % of the window is covered, not 99.5 %"],
    ),
    "an hour a day": (
        [(START + number * DAY, START + number * DAY + HOUR) for number in range(31)],
        {"allow_gap": 24},
        [
            "only 4.2 % of the window is covered, not 99 %",
            "nothing was recorded after 31 May 2026, 01:00 UTC",
        ],
    ),
    "nothing for two hours": (
        [(START, NOON - 2 * HOUR)],
        {},
        ["nothing was recorded after 31 May 2026, 10:00 UTC"],
    ),
    "only before the window": ([(START - 2 * DAY, START - DAY)], {}, [NOTHING]),
    "only after the window": (
        [(START, NOON)],
        {"until": START - DAY, "days": 1},
        [NOTHING],
    ),
}


@pytest.mark.parametrize(
    ("spans", "options", "reasons"), COVERAGE.values(), ids=COVERAGE
)
def test_without_calls_only_complete_coverage_is_safe(
    file: str, spans: Spans, options: Any, reasons: Any
) -> None:
    past = Past(file)
    for since, until in spans:
        past.cover(since, until)
    usage = read_operation(file, **options)
    assert (usage.verdict, list(usage.reasons)) == (
        "unknown" if reasons else "safe",
        reasons,
    )


@pytest.mark.parametrize(
    ("heard", "gap", "days"),
    [
        (START + 10 * DAY + 20 * HOUR, 4, 19),
        (NOON - 12 * HOUR - timedelta(minutes=10), 1, None),
    ],
)
def test_a_recorder_that_is_not_heard_again_uncovers_the_rest_of_its_day_and_an_hour_at_least(
    heard: datetime, gap: int, days: int | None, database: str
) -> None:
    past = covered(database)
    killed = past.start(heard - 20 * HOUR, host="web-7")
    killed.request_passed()
    past.now = heard
    assert killed.flush()
    usage = read_operation(database)
    assert (usage.verdict, usage.longest_gap_hours) == ("unknown", gap)
    assert usage.reasons[0].startswith("web-7 (process ")
    assert (
        f"was not heard again after {heard:%-d} May 2026, {heard:%H:%M} UTC"
        in usage.reasons[0]
    )
    assert usage.reasons[1:] == (
        (f"the last {days} days are complete: --days {days}",) if days else ()
    )
    past.now = NOON
    killed.close()
    assert read_operation(database).verdict == "safe"


OTHER_PLANS: dict[str, dict[Operation, Any]] = {
    "without the operation": {EXPORT: POLICY},
    "with another path of it": {Operation("report", "GET", "/reports"): POLICY},
    "with a live part of it": {
        REPORT: POLICY,
        Operation("live", "GET", "/{page}"): None,
    },
}


@pytest.mark.parametrize("plan", OTHER_PLANS.values(), ids=OTHER_PLANS)
def test_a_process_with_another_plan_uncovers_its_life_and_is_a_doubt_however_short_it_is(
    file: str, plan: Any
) -> None:
    past = covered(file)
    past.now = NOON - 10 * HOUR
    other = UsageRecorder(file, host="old", clock=lambda: past.now)
    other.listen(plan)
    other.request_passed()
    assert other.flush()
    past.now += HOUR / 4
    other.close()
    usage = read_operation(file, plan={REPORT: POLICY})
    assert (usage.verdict, usage.longest_gap_hours) == ("unknown", 0.25)
    assert any("the recorder of old (process " in reason for reason in usage.reasons)


def test_only_the_rules_of_the_plan_that_is_given_are_covered(file: str) -> None:
    covered(file)
    usage = read_operation(
        file, plan={Operation("report", "GET", "/reports"): POLICY}, operations=None
    )
    assert (usage.verdict, usage.coverage) == ("unknown", 0)
    assert "another plan is in production" in usage.reasons[0]


def test_services_are_apart_and_each_that_knows_an_operation_has_to_cover_it(
    file: str,
) -> None:
    past = Past(file)
    past.cover(START, NOON, service="shop")
    past.cover(START, NOON, EXPORT, service="warehouse")
    assert read_operation(file).verdict == "safe"
    past.cover(START, NOON - DAY, service="old shop")
    assert read_operation(file).verdict == "unknown"
    assert read_operation(file, service="shop").verdict == "safe"
    past.cover(NOON, NOON, service="shop")
    recorder = past.start(NOON, service="old shop")
    recorder(use())
    recorder.close()
    assert read_operation(file, service="shop").calls == 0
    assert read_operation(file, service="old shop").calls == 1
    assert read_operation(file).calls == 1


def test_the_number_of_hosts_in_each_hour_may_be_required(file: str) -> None:
    past = Past(file)
    past.cover(START, NOON, host="one")
    past.cover(START, NOON - 3 * HOUR, host="two")
    past.cover(NOON - 2 * HOUR, NOON, host="two")
    usage = read_operation(file, hosts=2)
    assert (usage.verdict, usage.reasons[0]) == (
        "unknown",
        "in some hour 1 host recorded, not 2",
    )
    assert read_operation(file, hosts=1).verdict == "safe"
    assert (
        read_operation(file).coverage_text
        == "covered 100 % of 732 hours by 1 host, without a gap"
    )
    usage = read_operation(file, until=NOON + 4 * HOUR)
    assert usage.coverage_text == "covered 99.4 % of 736 hours, longest gap 4 hours"


DAMAGE: dict[str, tuple[dict[str, object], str]] = {
    "a clock that was off": (
        {"skew": 61_000_000, "own_clock": 0},
        "the clock of a machine was off by 61 seconds",
    ),
    "a sign of life in the future": (
        {
            "heard_at": 253_402_214_400_000_000,
            "own_clock": 0,
        },  # whose hours do not fit in memory
        "something was recorded later than now, on 31 Dec 9999",
    ),
}


@pytest.mark.parametrize(("values", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_what_the_row_of_a_recorder_says_is_a_reason(
    file: str, values: dict[str, object], reason: str
) -> None:
    covered(file)
    execute(file, update(recorders).values(**values))
    usage = read_operation(file)
    assert usage.verdict == "unknown"
    assert any(each.startswith(reason) for each in usage.reasons)


def test_what_was_deleted_is_not_covered(file: str) -> None:
    past = Past(file)
    past.cover(START - 10 * DAY, NOON, retention_days=20)
    usage = read_operation(file)
    assert usage.verdict == "unknown"
    deleted = "what was recorded before 11 May 2026, 00:00 UTC was deleted"
    assert usage.reasons[0] == deleted
    assert read_operation(file, days=20).verdict == "safe"
    assert read_operation(file, until=START + DAY, days=1).reasons == (deleted,)


def test_ignored_callers_and_clients_are_reported_but_do_not_count_as_use(
    file: str,
) -> None:
    covered(file, use("probe/1"), use("job/1", "tests"), use("probe/1"))
    usage = read_operation(file, ignore_clients=["probe/1"], ignore_callers=["tests"])
    assert (usage.verdict, usage.ignored, usage.answered) == ("safe", 3, 0)
    assert [(each.ignored, each.calls) for each in usage.callers] == [
        (True, 2),
        (True, 1),
    ]


def test_invented_clients_push_out_no_named_callers_and_cannot_be_ignored_beyond_the_limit(
    database: str,
) -> None:
    invented = [use(f"job/{number}") for number in range(300)]
    covered(
        database, *invented, *(use("job", f"team-{number}") for number in range(150))
    )
    callers = read_operation(database).callers
    assert (
        len([each for each in callers if each.caller not in {None, "(other)"}]) == 150
    )
    assert (len(callers), sum(each.calls for each in callers)) == (201, 450)
    ignored = {
        "ignore_clients": {str(each.client) for each in callers},
        "ignore_callers": ["(other)"],
    }
    assert read_operation(database, **ignored).verdict == "in use"


def test_a_call_without_a_label_is_a_doubt_about_one_caller_as_long_as_the_window_contains_it(
    file: str,
) -> None:
    covered(file, use(at=NOON - 10 * DAY))
    unlabelled = "1 call without a label may be of this caller"
    assert read_operation(file, caller="acme").reasons == (
        unlabelled,
        "the last 9 days are complete: --days 9",
    )


@pytest.mark.parametrize(
    ("client", "verdict"),
    [(PROBE, "safe"), (f"{PROBE}/9", "safe"), (f"{PROBE}er", "in use")],
)
def test_a_canary_does_not_count_as_use(file: str, client: str, verdict: str) -> None:
    covered(file, use(client))
    assert read_operation(file).verdict == verdict


@pytest.mark.parametrize(
    ("missing", "reasons"),
    [
        ([], []),
        ([3], ["no call of flask-notifications-check was recorded on 4 May 2026"]),
        (
            [3, 29],
            [
                "no call of flask-notifications-check was recorded on 4 May 2026 and 1 other day"
            ],
        ),
    ],
)
def test_each_complete_day_needs_a_canary_if_one_is_required(
    file: str, missing: list[int], reasons: list[str]
) -> None:
    covered(
        file,
        *(use(PROBE, at=START + day * DAY) for day in set(range(30)) - set(missing)),
    )
    usage = read_operation(file, require_probe=True)
    assert list(usage.reasons[:1]) == reasons
    assert read_operation(file).verdict == "safe"


TICK = timedelta(microseconds=1)
MIDNIGHT = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("until", "at", "is_in_window"),
    [
        (NOON, START, True),
        (NOON, START - TICK, False),
        (NOON.astimezone(timezone(5 * HOUR)), NOON, True),
        (OtherDatetime.combine(NOON.date(), NOON.time(), UTC), NOON, True),
        (NOON, NOON + TICK, False),
        (date(2026, 5, 31), MIDNIGHT - TICK, True),
        (date(2026, 5, 31), MIDNIGHT, False),
    ],
)
def test_a_window_has_complete_days_and_today_so_far(
    file: str, until: date, at: datetime, is_in_window: bool
) -> None:
    past = Past(file)
    past.call(at)
    past.write()
    assert read_operation(file, until=until).calls == is_in_window


def test_the_window_goes_by_the_clock_of_the_database(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is ahead on the machine of the reader must not hide the first days."""
    covered(file, use(at=START))
    monkeypatch.setattr(
        "flask_notifications.usage.reading.read_clock",
        lambda _: int(NOON.timestamp()) * 10**6,
    )
    usage = read_operation(file, until=None)
    assert (usage.verdict, usage.calls, usage.coverage) == ("in use", 1, 1)


def test_all_operations_of_the_store_are_reported_by_default(database: str) -> None:
    past = Past(database, EXPORT, REPORT)
    past.cover(START, NOON)
    past.call(NOON, use(operation="unknown to the plan"))
    past.write()
    report = read_usage(database, until=NOON)
    assert [each.name for each in report.operations] == [
        "export",
        "report",
        "unknown to the plan",
    ]


def test_the_report_is_json(file: str) -> None:
    first = use("job/1", "alice", source="query", at=NOON - HOUR)
    covered(
        file,
        first._replace(status=None, at=NOON),
        first,
        use(None, status=410, phase=Phase.SUNSET),
    )
    report = read_usage(
        file, until=NOON, ignore_callers=["alice"], operations=["report", "other"]
    )
    shown = json.loads(json.dumps(report.to_dict()))
    called, other = shown.pop("operations")
    earlier, today = "2026-05-31T11:00:00Z", "2026-05-31T12:00:00Z"
    window = {"from": "2026-05-01T00:00:00Z", "until": today, "days": 30}
    assert shown == {"schema": 2, "verdict": "in use", **window}
    reasons = ["1 call, the last on 31 May 2026"]
    alice = {
        "caller": "alice",
        "client": "job/1",
        "source": "query",
        "answered": 1,
        "failed": 1,
        "closed": 0,
    }
    assert called.pop("callers")[0] == {
        **alice,
        "first_at": earlier,
        "last_at": today,
        "ignored": True,
    }
    counts = {
        "answered": 0,
        "failed": 0,
        "closed": 1,
        "ignored": 2,
        "first_at": today,
        "last_at": today,
    }
    covered_time = {
        "coverage": 1,
        "covered_hours": 732,
        "longest_gap_hours": 0,
        "hosts": 1,
    }
    assert called == {
        "name": "report",
        "verdict": "in use",
        "reasons": reasons,
        **counts,
        **covered_time,
    }
    assert (other["verdict"], other["coverage"], other["first_at"]) == (
        "unknown",
        0,
        None,
    )


def test_a_caller_has_its_calls_by_day(file: str) -> None:
    covered(file, *(use(at=START + day * DAY) for day in (1, 2, 4)))
    (caller,) = read_operation(file).callers
    assert [(each.day.day, each.calls) for each in caller.days] == [
        (2, 1),
        (3, 1),
        (5, 1),
    ]
    execute(
        file, update(usage).values(answered=0)
    )  # as of a process that was killed while it counted
    assert read_operation(file).callers[0].days == ()


def test_what_is_in_intervals_and_not_in_others() -> None:
    found = combine(
        [(40, 50), (0, 7), (5, 5), (7, 10), (20, 30)],
        without=[(45, 60), (2, 3), (5, 22)],
    )
    assert found == [(0, 2), (3, 5), (22, 30), (40, 45)]


# Databases that are no stores


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///{}/missing.sqlite3", "there is no file"),
        (
            "sqlite:///{}/empty.sqlite3",
            "no table flask_notifications_store and no table",
        ),
        ("sqlite:///file:{}/other.sqlite3?uri=true", "not a database"),
        ("postgresql+psycopg://shop:secret@127.0.0.1:1/usage", "OperationalError"),
    ],
)
def test_a_database_that_is_no_store(url: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite3").touch()
    (tmp_path / "other.sqlite3").write_bytes(b"something else" * 1000)
    with pytest.raises(StoreUnavailable, match=message) as raised:
        read_usage(url.format(tmp_path))
    assert "secret" not in str(raised.value)
    assert not (tmp_path / "missing.sqlite3").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE flask_notifications_recorder SET heard_at = 'x'",
        "UPDATE flask_notifications_recorder SET host = '\"'",
        "UPDATE flask_notifications_plan SET operations = '{'",
        "UPDATE flask_notifications_plan SET operations = '[1]'",
        "UPDATE flask_notifications_usage SET answered = 'x'",
        "UPDATE flask_notifications_usage SET caller = '\"'",
        "UPDATE flask_notifications_usage SET last_at = 9223372036854775807",
        "UPDATE flask_notifications_usage SET last_at = 9223372036854775807, day = 1, caller = 'acme'",
        "UPDATE flask_notifications_usage SET day = 9999999",  # in no calendar
        "UPDATE flask_notifications_usage SET day = 9999999999",
        """INSERT INTO flask_notifications_usage
        SELECT day, operation, caller, client, source, '=', first_at, last_at, 9223372036854775807, failed, closed
        FROM flask_notifications_usage""",
    ],
)
def test_tables_with_foreign_content_are_no_store(statement: str, file: str) -> None:
    covered(file, use())
    execute(file, text(statement))
    with pytest.raises(StoreUnavailable, match="cannot be read: "):
        read_usage(file, days=3650, caller="acme")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("days", value) for value in (0, 3651, 1.5, True)),
        ("until", "2026-05-01"),
        ("until", datetime(2026, 5, 1)),  # noqa: DTZ001 - the mistake that is tested
        *(
            ("until", value)
            for value in (
                date.min,
                date.max,
                datetime.min.replace(tzinfo=timezone(14 * HOUR)),
            )
        ),
        *(("operations", value) for value in ("report", [], 5, [""], [1])),
        *(("ignore_clients", value) for value in ("job/1", [""], None)),
        *(("ignore_callers", value) for value in ([None], 5, iter(["tests"]))),
        *(("allow_gap", value) for value in (-1, float("nan"), True, "1")),
        *(("min_coverage", value) for value in (-0.1, 1.1, True, "1")),
        *(("hosts", value) for value in (0, 1.5, True)),
        ("service", 5),
        ("caller", " "),
        ("plan", 5),
        ("require_probe", "no"),
    ],
)
def test_a_wrong_argument_is_named(file: str, argument: str, value: object) -> None:
    options: dict[str, Any] = {argument: value}
    with pytest.raises(ValueError, match=f"^{argument} must be"):
        read_usage(file, **options)


def test_the_last_call_of_a_caller(database: str) -> None:
    for service, at in (("shop", NOON), ("bank", NOON - 9 * DAY)):
        past = Past(database, REPORT, EXPORT, service=service)
        past.call(at - DAY, use(caller="M\u00fcller", operation="export"))
        past.call(at, use(caller="M\u00fcller"))
        past.write()
    export = {EXPORT: POLICY}
    found: list[tuple[dict[str, Any], object]] = [
        ({"caller": "M\u00fcller"}, NOON),
        ({"caller": "M\u00fcller", "plan": export}, NOON - DAY),
        ({"caller": "M\u00fcller", "operations": ["of another plan"]}, NOON),
        ({"caller": "M\u00fcller", "service": "bank"}, NOON - 9 * DAY),
        ({"caller": "m\u00fcller"}, None),
        ({}, None),
    ]
    for options, expected in found:
        assert read_usage(database, until=NOON, days=3, **options).last_call == expected
