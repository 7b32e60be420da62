"""What a report reads from a database: the recorders, the calls and the matched
requests of a window. The rules of the verdict are in ``test_verdict``.
"""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, select, text, update

from flask_notifications import Call, Operation
from flask_notifications.plans.policy import Phase
from flask_notifications.usage import (
    PROBE,
    OperationUsage,
    StoreUnavailable,
    UsageRecorder,
    metadata,
    read_usage,
)
from flask_notifications.usage.coverage import find_gaps, join
from flask_notifications.usage.options import Options
from flask_notifications.usage.report import read_report
from flask_notifications.usage.store import recorders, usage
from tests.test_deprecation import OtherDatetime
from tests.usage.databases import EXPORT, NOON, POLICY, REPORT, Past, execute, use

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = datetime(2026, 5, 1, tzinfo=UTC)  # 30 complete days before NOON


def read_operation(database: str, **options: Any) -> OperationUsage:
    defaults: dict[str, Any] = {"until": NOON, "operations": [REPORT]}
    (usage,) = read_usage(database, **defaults | options).operations
    return usage


def codes(usage: OperationUsage) -> list[str]:
    return [reason.code for reason in usage.reasons]


def covered(database: str, *calls: Call) -> Past:
    """Record that a process listened in the whole window, and calls."""
    past = Past(database)
    past.cover(START, NOON)
    for call in calls:
        past.recorder(call)
    past.write()
    return past


def start_with(past: Past, at: datetime, plan: Any, *, database: str) -> UsageRecorder:
    """Return a recorder that listens for the operations of a plan since a time."""
    past.now = at
    recorder = UsageRecorder(database, host="old", clock=lambda: past.now)
    recorder.listen(plan)
    recorder.request_passed()
    assert recorder.flush()
    return recorder


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


def test_a_covered_window_without_a_call_is_safe(database: str) -> None:
    covered(database, use(PROBE))
    usage = read_operation(database)
    assert (usage.verdict, usage.coverage, usage.ignored) == ("safe", 1, 1)
    covered(database, use())
    assert read_operation(database).verdict == "in use"


def test_services_are_apart_and_each_that_knows_an_operation_has_to_cover_it(
    file: str,
) -> None:
    past = Past(file)
    past.cover(START, NOON, service="shop")
    past.cover(START, NOON, EXPORT, service="warehouse")
    for service, client in (("shop", PROBE), ("old shop", "job/1")):
        past.cover(NOON - HOUR, NOON - DAY / 2, service=service)
        recorder = past.start(NOON - DAY / 2, service=service)
        recorder(use(client, at=NOON - DAY))
        recorder.close()
    assert read_operation(file, service="shop").verdict == "safe"
    assert read_operation(file, service="shop").ignored == 1
    assert read_operation(file, service="old shop").verdict == "in use"
    assert read_operation(file, service="warehouse").reasons[0].code == "no-operation"
    usage = read_operation(file, ignore_clients=["job/1"])
    assert codes(usage) == ["coverage", "gap", "young", "gap"]
    assert "'old shop' was not heard after" in usage.reasons[-1].message


OTHER_PLANS: dict[str, dict[Operation, Any]] = {
    "without the operation": {EXPORT: POLICY},
    "with another path of it": {Operation("report", "GET", "/reports"): POLICY},
    "with a condition on it": {
        Operation("report", "GET", "/report", query={"version": ["1", "2"]}): POLICY
    },
    "with a live part of it": {
        REPORT: POLICY,
        Operation("live", "GET", "/{page}"): None,
    },
}


@pytest.mark.parametrize("plan", OTHER_PLANS.values(), ids=OTHER_PLANS)
def test_a_process_with_other_rules_uncovers_its_life(file: str, plan: Any) -> None:
    past = covered(file, use(PROBE))
    other = start_with(past, NOON - 10 * HOUR, plan, database=file)
    past.now += HOUR / 4
    other.close()
    usage = read_operation(file, plan={REPORT: POLICY})
    assert (usage.verdict, usage.longest_gap_hours) == ("safe", 0.25)
    assert "rules" in codes(read_operation(file, plan={REPORT: POLICY}, allow_gap=0))


def test_only_the_rules_of_the_plan_count(file: str) -> None:
    covered(file, use(PROBE))
    plan = {Operation("report", "GET", "/reports"): POLICY}
    usage = read_operation(file, plan=plan, operations=None)
    assert (usage.verdict, usage.coverage) == ("unknown", 0)
    assert codes(usage) == ["coverage", "gap", "rules"]


def test_the_spelling_of_conditions_is_no_other_rule(file: str) -> None:
    past = Past(file)
    for values in ({"V": "1", "w": ["2", "1"]}, {"w": ["1", "2"], "v": ["1"]}):
        conditional = Operation("export", "GET", "/export", query=values)
        past.cover(START, NOON, conditional)
    plan = {conditional: POLICY}
    usage = read_operation(file, plan=plan, operations=None)
    assert "rules" not in codes(usage)


MATCHES: dict[str, tuple[list[Call], bool]] = {
    "nothing": ([], False),
    "a call in the window": ([use(at=NOON - DAY)], True),
    "a probe in the window": ([use(PROBE, at=NOON - DAY)], True),
    "a refused call": ([use(status=403, at=NOON - DAY)], True),
    "a call that failed": ([use(status=404, at=NOON - DAY)], False),
    "our own 410": ([use(status=410, phase=Phase.SUNSET, at=NOON - DAY)], False),
    "a call before the window": ([use(at=START - 100 * DAY)], True),
    "a call of another operation": ([use(operation="export", at=NOON - DAY)], False),
}


@pytest.mark.parametrize(("calls", "is_matched"), MATCHES.values(), ids=MATCHES)
def test_an_operation_that_no_request_has_matched_is_unknown(
    calls: list[Call], is_matched: bool, database: str
) -> None:
    past = Past(database)
    past.cover(START, NOON)
    past.now = START - 100 * DAY
    recorder = past.start(past.now)
    for call in calls:
        recorder(call)
    recorder.close()
    past.write()
    usage = read_operation(database, ignore_clients=["job/1"])
    assert ("never-matched" in codes(usage)) == (not is_matched)


def test_what_was_matched_under_other_rules_does_not_count(file: str) -> None:
    past = Past(file)
    plan = {Operation("report", "GET", "/reports"): POLICY}
    old = start_with(past, START - 9 * DAY, plan, database=file)
    old(use(at=past.now))
    old.close()
    past.cover(START, NOON)
    assert codes(read_operation(file)) == ["never-matched"]


def test_deleted_days_are_not_covered(file: str) -> None:
    past = Past(file)
    past.call(NOON, use(PROBE))
    past.write()
    past.cover(START - 10 * DAY, NOON, retention_days=20)
    assert codes(read_operation(file)) == ["coverage", "gap", "young"]
    assert read_operation(file, days=20).verdict == "safe"
    assert "young" in codes(read_operation(file, until=START + DAY, days=1))


def test_the_largest_clock_difference_shortens_coverage(file: str) -> None:
    covered(file, use(PROBE))
    execute(file, update(recorders).values(skew=60_000_000, own_clock=0))
    assert read_operation(file).longest_gap_hours == round(1 / 60, 3)


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


@pytest.mark.parametrize(
    ("client", "verdict"),
    [(PROBE, "safe"), (f"{PROBE}/9", "safe"), (f"{PROBE}er", "in use")],
)
def test_a_probe_does_not_count_as_use(file: str, client: str, verdict: str) -> None:
    covered(file, use(client))
    assert read_operation(file).verdict == verdict


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


def test_the_operations_that_were_recorded_last_are_reported_by_default(
    database: str,
) -> None:
    past = Past(database, EXPORT, REPORT)
    past.cover(START, NOON - DAY, Operation("renamed", "GET", "/old"))
    past.cover(NOON - DAY, NOON)
    past.cover(START, NOON, Operation("other", "GET", "/"), service="other")
    past.call(NOON, use(operation="unknown to the plan"))
    past.write()
    report = read_usage(database, until=NOON)
    assert [each.name for each in report.operations] == ["export", "other", "report"]


def test_an_empty_store_is_unknown(file: str) -> None:
    engine = create_engine(file)
    metadata.create_all(engine)
    engine.dispose()
    report = read_usage(file, until=NOON)
    assert (report.verdict, report.operations) == ("unknown", ())


def test_the_report_is_json(file: str) -> None:
    first = use("job/1", "alice", source="query", at=NOON - HOUR)
    covered(
        file,
        first._replace(status=None, at=NOON),
        first._replace(status=401),
        first,
        use(None, status=410, phase=Phase.SUNSET),
    )
    report = read_usage(
        file,
        until=NOON,
        ignore_callers=["alice"],
        plan={replace(REPORT): replace(POLICY, sunset_at=NOON + DAY)},
        operations=["report", "other"],
    )
    shown = json.loads(json.dumps(report.to_dict()))
    called, other = shown.pop("operations")
    earlier, today = "2026-05-31T11:00:00Z", "2026-05-31T12:00:00Z"
    window = {"from": "2026-05-01T00:00:00Z", "until": today, "days": 30}
    verdict = {"schema": 3, "verdict": "in use", "as_of": today}
    assert shown == verdict | window
    assert called.pop("callers")[0] == {
        "caller": "alice",
        "client": "job/1",
        "source": "query",
        "answered": 1,
        "refused": 1,
        "failed": 1,
        "closed": 0,
        "first_at": earlier,
        "last_at": today,
        "stopped_on": None,
        "ignored": True,
    }
    assert called == {
        "name": "report",
        "verdict": "in use",
        "reasons": [{"code": "calls", "message": "1 call, the last on 31 May 2026"}],
        "sunset_at": "2026-06-01T12:00:00Z",
        "answered": 0,
        "refused": 0,
        "failed": 0,
        "closed": 1,
        "ignored": 3,
        "first_at": today,
        "last_at": today,
        "coverage": 1,
        "covered_hours": 732,
        "longest_gap_hours": 0,
        "hosts": 1,
    }
    assert (other["verdict"], other["sunset_at"], other["first_at"]) == (
        "unknown",
        None,
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


def test_intervals_are_joined_and_have_gaps() -> None:
    intervals = [(40, 50), (0, 7), (5, 5), (7, 10), (20, 30), (22, 25)]
    assert join(intervals, 0, 60) == [(0, 10), (20, 30), (40, 50)]
    assert join(intervals, 5, 45) == [(5, 10), (20, 30), (40, 45)]
    assert find_gaps(intervals, 5, 60) == [(10, 20), (30, 40), (50, 60)]
    assert find_gaps(intervals, 22, 24) == []


# Databases that are no stores


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///{}/missing.sqlite3", "there is no file"),
        (
            "sqlite:///{}/empty.sqlite3",
            "no recorder has written here yet: there is no table flask_notifications_store",
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
        """INSERT INTO flask_notifications_usage
        SELECT day, operation, caller, client, source, '=', first_at, last_at, 9223372036854775807, refused, failed, closed
        FROM flask_notifications_usage""",
    ],
)
def test_tables_with_foreign_content_are_no_store(statement: str, file: str) -> None:
    covered(file, use())
    execute(file, text(statement))
    with pytest.raises(StoreUnavailable, match="cannot be read: "):
        read_usage(file, days=3650)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("days", value) for value in (0, 3651, 1.5)),
        *(("until", value) for value in ("2026-05-01", date.min, date.max)),
        ("until", datetime(2026, 5, 1)),  # noqa: DTZ001 - the mistake that is tested
        *(("operations", value) for value in ("report", [], [1])),
        *(("ignore_clients", value) for value in ("job/1", [""])),
        *(("ignore_callers", value) for value in ([None], 5)),
        *(("allow_gap", value) for value in (-1, "1")),
        *(("gone_after", value) for value in (-1, float("inf"))),
        *(("min_coverage", value) for value in (-0.1, 1.1)),
        *(("hosts", value) for value in (0, 1.5)),
        ("plan", 5),
    ],
)
def test_a_wrong_argument_is_named(file: str, argument: str, value: object) -> None:
    options: dict[str, Any] = {argument: value}
    with pytest.raises(ValueError, match=f"^{argument} must be"):
        read_usage(file, **options)


def test_a_wrong_database_or_caller_is_named() -> None:
    with pytest.raises(ValueError, match=r"^database must be"):
        read_usage(None)
    with pytest.raises(ValueError, match=r"^caller must be"):
        Options(caller=" ")


def test_whatever_a_driver_raises_is_an_outage(file: str) -> None:
    covered(file)
    engine = create_engine(file)

    def fail(*_arguments: object) -> None:
        message = "1047: not prepared"
        raise RuntimeError(message)

    event.listen(engine, "before_cursor_execute", fail)
    with pytest.raises(StoreUnavailable, match="RuntimeError: 1047: not prepared"):
        read_usage(engine)
    engine.dispose()


def test_the_last_call_of_a_caller(database: str) -> None:
    for service, at in (("shop", NOON), ("bank", NOON - 9 * DAY)):
        past = Past(database, REPORT, EXPORT, service=service)
        past.call(at - DAY, use(caller="M\u00fcller", operation="export"))
        past.call(at, use(caller="M\u00fcller"))
        past.write()
    expected: list[tuple[dict[str, Any], object]] = [
        ({"caller": "M\u00fcller", "plan": {REPORT: POLICY, EXPORT: POLICY}}, NOON),
        ({"caller": "M\u00fcller", "plan": {EXPORT: POLICY}}, NOON - DAY),
        ({"caller": "m\u00fcller", "plan": {REPORT: POLICY}}, None),
        ({}, None),
    ]
    for arguments, last_call in expected:
        options = Options(until=NOON, days=3, **arguments)
        assert read_report(database, options).last_call == last_call


LINE = b'1.1.1.1 - acme [31/May/2026:11:00:00 +0000] "GET %s HTTP/1.1" 200 2\n'


def test_calls_in_logs_are_of_the_operations_and_the_caller_of_the_report(
    file: str,
) -> None:
    covered(file, use(PROBE))
    plan = {REPORT: POLICY, EXPORT: POLICY}
    values: dict[str, Any] = {"plan": plan, "until": NOON, "operations": [EXPORT]}
    log = BytesIO(LINE % b"/report" + LINE % b"/export/5")
    (operation,) = read_usage(None, logs=[log], **values).operations
    assert (operation.name, operation.calls) == (EXPORT.name, 1)
    values |= {"operations": [REPORT], "caller": "other"}
    options = Options(logs=[BytesIO(LINE % b"/report")], **values)
    (operation,) = read_report(file, options).operations
    assert operation.verdict == "safe"


def test_calls_in_logs_that_are_ignored_prove_nothing() -> None:
    logs = [BytesIO(LINE % b"/report")]
    values: dict[str, Any] = {"plan": {REPORT: POLICY}, "until": NOON}
    report = read_usage(None, logs=logs, ignore_callers=["acme"], **values)
    (reason,) = report.operations[0].reasons
    assert reason.message == (
        "no call in the logs counts; a log cannot show that nobody calls"
    )


def test_refused_calls_in_logs_beside_a_record_may_be_ignored(file: str) -> None:
    covered(file, use(PROBE))
    refused = LINE.replace(b" 200 ", b" 403 ").replace(b"acme", b"-") % b"/report"
    values: dict[str, Any] = {"plan": {REPORT: POLICY}, "operations": None}
    for ignore_refused, verdict in ((True, "safe"), (False, "in use")):
        values |= {"ignore_refused": ignore_refused, "logs": [BytesIO(refused)]}
        assert read_operation(file, **values).verdict == verdict


def test_progress_is_told_by_day(file: str) -> None:
    covered(file, use(at=START), use(at=NOON))
    told = []
    options = Options(until=NOON)
    read_report(file, options, lambda done, total: told.append((done, total)))
    assert told == [(0, 31), (30, 31)]
