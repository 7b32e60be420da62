"""The verdict on one operation: in the time that was recorded nobody called, and that
time is enough. Built from rows, without a database.
"""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flask_notifications.usage import OTHER, PROBE, OperationUsage
from flask_notifications.usage.callers import CallTable
from flask_notifications.usage.coverage import RecorderRow, Service
from flask_notifications.usage.fingerprints import fingerprints
from flask_notifications.usage.options import Options
from flask_notifications.usage.reading import Snapshot, list_operations
from flask_notifications.usage.times import DAY as WHOLE_DAY
from flask_notifications.usage.times import to_microseconds
from flask_notifications.usage.verdict import Judge
from tests.usage.databases import POLICY, REPORT

HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
NOON = datetime(2026, 5, 31, 12, tzinfo=UTC)
START = datetime(2026, 5, 1, tzinfo=UTC)  # 30 complete days before NOON
FUTURE = NOON + 2 * DAY

# The rules of the operation in each plan.
PLANS = {
    "new": fingerprints({REPORT: POLICY}),
    "old": {"report": "others"},
    "bank": {"transfer": "rules"},
    "without": {},
}


def recorder(
    since: datetime,
    until: datetime,
    *,
    host: str = "web-1",
    service: str = "",
    plan: str = "new",
    ended: bool = True,
    gone_at: datetime | None = None,
    skew: timedelta = timedelta(0),
) -> RecorderRow:
    return RecorderRow(
        service=service,
        host=host,
        process=12,
        plan=plan,
        began_at=to_microseconds(since),
        heard_at=to_microseconds(until),
        skew=skew // timedelta(microseconds=1),
        ended=int(ended),
        gone_at=0 if gone_at is None else to_microseconds(gone_at),
        own_clock=0,
    )


def lost(since: datetime, until: datetime, **values: Any) -> RecorderRow:
    return recorder(since, until, ended=False, **values)


WHOLE = recorder(START, NOON)


# The numbers of a day, from the first call on.
Numbers = tuple[int, ...]
# Calls by caller and client.
Made = dict[tuple[str | None, str | None], list[Numbers]]


def calls(
    at: datetime, answered: int = 0, refused: int = 0, failed: int = 0, closed: int = 0
) -> list[Numbers]:
    time = to_microseconds(at)
    return [(time, time, answered, refused, failed, closed)]


def judge(
    *rows: RecorderRow,
    made: Made | None = None,
    is_matched: bool = True,
    kept_from: datetime | None = None,
    now: datetime = NOON,
    **arguments: Any,
) -> OperationUsage:
    defaults: dict[str, Any] = {"until": NOON, "plan": {REPORT: POLICY}}
    options = Options(**defaults | arguments)
    window = options.find_window(0)
    by_service: defaultdict[str, list[RecorderRow]] = defaultdict(list)
    for row in rows:
        by_service[row.service].append(row)
    services = []
    for alike in by_service.values():
        service = Service(
            alike,
            PLANS,
            until=window.until,
            now=to_microseconds(now),
            gone_after=options.gone_after,
        )
        services.append(service)
    table = CallTable(options)
    for (caller, client), days in (made or {}).items():
        for numbers in days:
            name = ("report", caller, client, None)
            table.add(name, numbers[0] // WHOLE_DAY, numbers)
    snapshot = Snapshot(
        now=to_microseconds(now),
        window=window,
        names=options.names or list_operations(services, window.since),
        table=table,
        kept_from=0 if kept_from is None else to_microseconds(kept_from),
        services=services,
        unmatched=[] if is_matched else ["report"],
    )
    (usage,) = Judge(snapshot, options).judge_all()
    return usage


def codes(usage: OperationUsage) -> list[str]:
    return [reason.code for reason in usage.reasons]


def message(usage: OperationUsage, code: str) -> str:
    (found,) = [reason.message for reason in usage.reasons if reason.code == code]
    return found


# Coverage.

AT = START + 10 * DAY
GAPS: dict[str, tuple[list[RecorderRow], dict[str, Any], float]] = {
    "a deployment without a pause": ([recorder(START, AT), recorder(AT, NOON)], {}, 0),
    "a pause": ([recorder(START, AT), recorder(AT + 3 * HOUR, NOON)], {}, 3),
    "the clock was off by a minute": (
        [recorder(START, AT, skew=MINUTE), recorder(AT, NOON, skew=MINUTE)],
        {},
        2 / 60,
    ),
    "a clock that is off by six minutes": (
        [recorder(START, NOON, skew=6 * MINUTE)],
        {},
        732,
    ),
    "such a clock beside a right one": (
        [WHOLE, recorder(START, NOON, skew=6 * MINUTE)],
        {},
        0,
    ),
    "killed beside a sibling that declares it gone": (
        [WHOLE, lost(START, AT, gone_at=AT + 2 * MINUTE)],
        {},
        2 / 60,
    ),
    "killed a minute off by its clock": (
        [WHOLE, lost(START, AT, gone_at=AT + 2 * MINUTE, skew=MINUTE)],
        {},
        3 / 60,
    ),
    "declared gone in the window, heard before": (
        [WHOLE, lost(START - DAY, START - HOUR, gone_at=START + HOUR)],
        {},
        1,
    ),
    "lost, and nobody knows when it ended": ([WHOLE, lost(START, AT)], {}, 492),
    "a host that vanished": (
        [WHOLE, lost(START, AT, host="pod-7")],
        {"gone_after": 0.1},
        0.1,
    ),
    "two processes of a host that vanished": (
        [
            WHOLE,
            lost(START, AT - HOUR / 2, host="pod-7"),
            lost(START, AT, host="pod-7"),
        ],
        {"gone_after": 0.5},
        1,
    ),
    "another process of its host is heard": (
        [WHOLE, lost(START, AT)],
        {"gone_after": 0.1},
        492,
    ),
    "a host that vanished before the window": (
        [WHOLE, lost(START - 9 * DAY, START - 8 * DAY, host="pod-7")],
        {"gone_after": 1},
        0,
    ),
    "a process with other rules": (
        [WHOLE, recorder(AT, AT + HOUR, plan="old")],
        {},
        1,
    ),
    "a process with other rules, and a clock that is off": (
        [WHOLE, recorder(AT, AT + HOUR, plan="old", skew=6 * MINUTE)],
        {},
        1 + 10 / 60,
    ),
    "a process without the operation": (
        [WHOLE, recorder(AT, AT + HOUR, plan="without")],
        {},
        1,
    ),
    "a living process, heard 20 seconds ago": (
        [lost(START, NOON - MINUTE / 3)],
        {},
        1 / 180,
    ),
    "heard after the time of the database, which was set back": (
        [WHOLE, lost(START, NOON - HOUR)],
        {"now": NOON - 2 * HOUR},
        1,
    ),
    "rows before the window were deleted": ([WHOLE], {"kept_from": START + DAY}, 24),
    "no recorder": ([], {}, 732),
    "a service that does not know the operation": (
        [WHOLE, recorder(START, AT, service="bank", plan="without")],
        {},
        0,
    ),
    "a service that ended in the window": (
        [WHOLE, recorder(START, AT, service="bank")],
        {},
        492,
    ),
    "a service that ended before the window": (
        [WHOLE, recorder(START - DAY, START - HOUR, service="bank")],
        {},
        0,
    ),
    "a service that may still live": (
        [WHOLE, lost(START - DAY, START - HOUR, service="bank")],
        {},
        732,
    ),
}


@pytest.mark.parametrize(("rows", "options", "gap"), GAPS.values(), ids=GAPS)
def test_what_covers_time_and_what_uncovers_it(
    rows: list[RecorderRow], options: dict[str, Any], gap: float
) -> None:
    usage = judge(*rows, **options)
    assert usage.longest_gap_hours == pytest.approx(gap, abs=0.001)


def test_coverage_is_never_rounded_up() -> None:
    usage = judge(recorder(START, NOON - timedelta(microseconds=1)))
    assert (usage.verdict, usage.coverage) == ("safe", 0.999999)
    assert judge(WHOLE).coverage == 1


def test_the_coverage_is_described() -> None:
    hosts = [
        recorder(START, NOON, host="web-2"),
        recorder(START + DAY, NOON, host="web-3"),
    ]
    gone = lost(AT - DAY, AT, gone_at=AT + 20 * MINUTE)
    usage = judge(WHOLE, *hosts, gone)
    assert usage.notes == [
        "covered 100 % of 732 hours by 3 hosts, never fewer than 2, longest gap 20 minutes",
        "1 recorder ended without a goodbye, the last on web-1 (process 12) after 11 May 2026, 00:00 UTC",
    ]
    assert judge(WHOLE).notes == ["covered 100 % of 732 hours by 1 host, without a gap"]
    assert judge().notes == ["covered 0 % of 732 hours, longest gap 30 days"]


LOST: dict[str, tuple[RecorderRow, dict[str, Any], bool]] = {
    "heard a minute ago": (lost(START, NOON - MINUTE), {}, False),
    "heard a minute ago, with a clock that is off by two": (
        lost(START, NOON - MINUTE, skew=2 * MINUTE),
        {},
        False,
    ),
    "heard two minutes ago": (lost(START, NOON - 2 * MINUTE), {}, True),
    "taken for switched off within a minute": (
        lost(START, AT),
        {"gone_after": 0.01},
        True,
    ),
    "declared gone": (lost(START, AT, gone_at=AT + 2 * MINUTE), {}, True),
    "heard after the window": (lost(START, NOON + HOUR), {"now": NOON + DAY}, False),
    "heard a minute ago, and the window ends in the future": (
        lost(START, NOON - MINUTE),
        {"until": FUTURE},
        False,
    ),
    "ended": (WHOLE, {}, False),
}


@pytest.mark.parametrize(("row", "options", "is_lost"), LOST.values(), ids=LOST)
def test_a_recorder_that_is_overdue_has_ended_without_a_goodbye(
    row: RecorderRow, options: dict[str, Any], is_lost: bool
) -> None:
    (*_coverage, note) = judge(row, **options).notes
    assert ("1 recorder ended without a goodbye" in note) == is_lost


def test_the_covered_hours_of_each_day() -> None:
    usage = judge(recorder(START, AT), recorder(AT + 30 * HOUR, NOON))
    hours = list(usage.covered.values())
    assert hours == [24.0] * 10 + [0, 18] + [24.0] * 18 + [12]
    assert usage.covered_hours == 732 - 30


# The verdict.

EVERY_DAY = [calls(START + number * DAY, 1)[0] for number in range(30)]
RECORDS: dict[str, tuple[list[RecorderRow], dict[str, Any], list[str]]] = {
    "a gap at the end that is allowed": ([recorder(START, NOON - 6 * HOUR)], {}, []),
    "a gap at the end that is not": ([recorder(START, NOON - 7 * HOUR)], {}, ["gap"]),
    "many gaps": (
        [recorder(START + day * DAY, START + day * DAY + HOUR) for day in range(31)],
        {"allow_gap": 24},
        ["coverage"],
    ),
    "such gaps that are allowed": (
        [recorder(START + day * DAY, START + day * DAY + HOUR) for day in range(31)],
        {"allow_gap": 24, "min_coverage": 0.04},
        [],
    ),
    "a lost host": (
        [WHOLE, lost(START, NOON - 7 * HOUR, host="pod-7")],
        {},
        ["gap", "host-lost"],
    ),
    "a lost host, of little importance": (
        [WHOLE, lost(START, NOON - HOUR, host="pod-7")],
        {},
        [],
    ),
    "a young record": ([recorder(AT, NOON)], {}, ["coverage", "gap", "young"]),
    "rows were deleted, and other rules are in production": (
        [recorder(START, NOON, plan="old")],
        {"kept_from": AT},
        ["coverage", "gap", "young", "rules"],
    ),
    "a rollback to other rules": (
        [WHOLE, recorder(AT, AT + 8 * HOUR, plan="old")],
        {},
        ["coverage", "gap", "rules"],
    ),
    "no recorder": ([], {}, ["no-operation"]),
    "only a recorder that had ended before the window": (
        [lost(START - 9 * DAY, START - 8 * DAY)],
        {"gone_after": 1, "min_coverage": 0, "allow_gap": 1000},
        ["no-operation"],
    ),
    "rows of two services were deleted": (
        [WHOLE, recorder(START, NOON, service="bank")],
        {"kept_from": AT},
        ["coverage", "gap", "young"],
    ),
    "a service that has ended": (
        [WHOLE, recorder(START, NOON - 8 * HOUR, service="bank")],
        {},
        ["coverage", "gap", "gap"],
    ),
}
# Of an operation that was covered in the whole window.
CALLS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nobody called": ({}, []),
    "rows were deleted": ({"kept_from": AT}, ["coverage", "gap", "young"]),
    "no request was ever matched": ({"is_matched": False}, ["never-matched"]),
    "a window in the future": ({"until": FUTURE}, ["future", "coverage", "gap"]),
    "a clock of the reader that is ahead by half a minute": (
        {"until": NOON + MINUTE / 2},
        [],
    ),
    "enough hosts": ({"hosts": 1}, []),
    "too few hosts": ({"hosts": 2}, ["hosts"]),
    "a probe a day": (
        {
            "require_probe": True,
            "made": {(None, PROBE): EVERY_DAY, ("a", "c"): calls(AT, 1)},
            "ignore_callers": ["a"],
        },
        [],
    ),
    "a single probe": (
        {"require_probe": True, "made": {(None, f"{PROBE}/9"): calls(AT, 1)}},
        ["probe"],
    ),
    "probes that failed": (
        {
            "require_probe": True,
            "days": 1,
            "made": {(None, PROBE): calls(NOON - DAY, failed=1, closed=1)},
        },
        ["probe"],
    ),
    "a probe that was refused": (
        {
            "require_probe": True,
            "days": 1,
            "made": {(None, PROBE): calls(NOON - DAY, refused=1)},
        },
        [],
    ),
    "a call": ({"made": {("a", "c"): calls(AT, 1)}}, ["calls"]),
    "a call that failed": ({"made": {("a", "c"): calls(AT, 0, 0, 1)}}, ["calls"]),
    "a call that got 410": ({"made": {("a", "c"): calls(AT, 0, 0, 0, 1)}}, ["calls"]),
    "a refused call": ({"made": {(None, "c"): calls(AT, 0, 1)}}, ["calls"]),
    "an ignored client": (
        {"made": {("a", "c"): calls(AT, 1)}, "ignore_clients": ["c"]},
        [],
    ),
    "an ignored caller": (
        {"made": {("a", "c"): calls(AT, 1)}, "ignore_callers": ["a"]},
        [],
    ),
    "calls beyond the limit cannot be ignored": (
        {"made": {(OTHER, OTHER): calls(AT, 1)}, "ignore_callers": [OTHER]},
        ["calls"],
    ),
    "ignored refused calls": (
        {"made": {(None, "c"): calls(AT, 0, 1)}, "ignore_refused": True},
        [],
    ),
    "a refused call with a label": (
        {"made": {("a", "c"): calls(AT, 0, 1)}, "ignore_refused": True},
        ["calls"],
    ),
    "calls of others": ({"made": {("a", "c"): calls(AT, 1)}, "caller": "b"}, []),
    "a call without a label, which may be of this caller": (
        {"made": {(None, "c"): calls(AT, 1)}, "caller": "b"},
        ["calls"],
    ),
}


@pytest.mark.parametrize(("rows", "options", "reasons"), RECORDS.values(), ids=RECORDS)
def test_the_coverage_decides_where_nobody_called(
    rows: list[RecorderRow], options: dict[str, Any], reasons: list[str]
) -> None:
    usage = judge(*rows, **options)
    assert codes(usage) == reasons
    assert usage.verdict == ("unknown" if reasons else "safe")


@pytest.mark.parametrize(("options", "reasons"), CALLS.values(), ids=CALLS)
def test_calls_and_options_decide_on_a_complete_record(
    options: dict[str, Any], reasons: list[str]
) -> None:
    usage = judge(WHOLE, **options)
    is_used = reasons == ["calls"] and "caller" not in options
    assert codes(usage) == reasons
    assert usage.verdict == ("in use" if is_used else "unknown" if reasons else "safe")


def test_the_reasons_say_what_to_do() -> None:
    """Which option would accept it, which window is complete, and when this one is."""
    advice = (
        "the largest complete window is --days 19; if nothing is missing after this "
        "window, 30 days will be complete on 11 June 2026"
    )
    usage = judge(recorder(START, AT), recorder(AT + 7 * HOUR, NOON))
    assert message(usage, "gap") == (
        "7 hours are not covered, from 11 May 2026, 00:00 UTC to 11 May 2026, 07:00 UTC: "
        f"--allow-gap 7 accepts that; {advice}"
    )
    usage = judge(recorder(START, AT), recorder(AT + 5 * HOUR, NOON), min_coverage=1)
    assert message(usage, "coverage") == (
        "only 99.3 % of the window is covered, not 100 %: --min-coverage 0.993 accepts "
        f"that; {advice}"
    )
    assert (
        judge(recorder(START, AT), recorder(AT + 7 * HOUR, NOON), days=19).verdict
        == "safe"
    )


def test_a_call_without_a_label_leaves_the_window_before_it_is_complete() -> None:
    usage = judge(WHOLE, made={(None, "c"): calls(AT, 1)}, caller="b")
    assert message(usage, "calls") == (
        "1 call without a label may be of this caller; the largest complete window is "
        "--days 19; if nothing is missing after this window, 30 days will be complete on "
        "11 June 2026"
    )


def test_other_long_gaps_are_counted() -> None:
    lives = [
        recorder(START, AT),
        recorder(AT + 7 * HOUR, AT + DAY),
        recorder(AT + 2 * DAY, NOON),
    ]
    assert " and 1 other long gap: " in message(judge(*lives), "gap")


def test_a_service_that_has_ended_adds_no_operations() -> None:
    before = (START - 9 * DAY, START - 8 * DAY)
    gone = lost(*before, service="bank", plan="bank")
    assert judge(WHOLE, gone, plan=None, gone_after=1).verdict == "safe"


def test_a_lost_host_is_named_with_the_way_out() -> None:
    rows = [
        lost(START, NOON - 7 * HOUR, host="pod-7"),
        lost(START, NOON - 8 * HOUR, host="pod-8"),
    ]
    assert message(judge(WHOLE, *rows), "host-lost").startswith(
        "pod-7 (process 12) and 1 other were not heard after 31 May 2026, 05:00 UTC: if "
        "its machine or pod was switched off, --gone-after 0.1 takes it for gone; "
    )
    usage = judge(WHOLE, *rows, gone_after=9)
    assert "--gone-after" not in message(usage, "host-lost")


def test_each_reason_is_about_its_cause() -> None:
    usage = judge(recorder(AT, NOON))
    assert message(usage, "young").startswith(
        "in this window, nothing was recorded with these rules before 11 May 2026, "
        "00:00 UTC; the largest complete window is --days 20; "
    )
    usage = judge(WHOLE, kept_from=AT)
    assert "before 11 May 2026, 00:00 UTC" in message(usage, "young")
    usage = judge(WHOLE, recorder(AT, AT + 8 * HOUR, plan="old", host="web-9"))
    assert message(usage, "rules").startswith(
        "web-9 (process 12) was without these rules for the operation until 11 May 2026, "
        "08:00 UTC: "
    )
    usage = judge(WHOLE, lost(START, AT, service="bank"), gone_after=10)
    assert usage.reasons[-1].message.startswith(
        "the service 'bank' was not heard after 11 May 2026, 00:00 UTC: if it has ended"
    )
    usage = judge(WHOLE, hosts=2)
    assert message(usage, "hosts").startswith(
        "1 host recorded in some hour, not 2, first from 1 May 2026, 00:00 UTC: "
        "record on more, or lower --hosts; "
    )
    usage = judge(
        WHOLE, require_probe=True, days=3, made={(None, PROBE): calls(NOON - DAY, 1)}
    )
    assert message(usage, "probe").startswith(
        "no probe was recorded on 28 May 2026 and 1 other day: "
    )
    assert "the largest complete window is --days 1; " in message(usage, "probe")
    assert message(judge(WHOLE, is_matched=False), "never-matched").startswith(
        "no request was ever answered or refused under these rules: check its path, or "
        "call it once with `flask-notifications check`; `flask --app … retirement`"
    )


def test_a_doubt_that_no_other_window_would_end_has_no_advice_about_windows() -> None:
    usage = judge(recorder(AT, NOON), is_matched=False)
    assert not any("--days" in reason.message for reason in usage.reasons)


def test_refused_calls_are_counted_apart_even_if_they_are_ignored() -> None:
    made: Made = {
        (None, "scanner"): calls(AT, 0, 5),
        (None, "curl"): calls(AT, 3, 2),
        ("team", "job"): calls(AT, 0, 1, 1),
        (None, PROBE): calls(AT, 1, 1),
    }
    usage = judge(WHOLE, made=made, ignore_refused=True)
    counts = (usage.answered, usage.refused, usage.failed, usage.closed, usage.ignored)
    assert counts == (3, 8, 1, 0, 9)
    assert usage.reasons[0].message == "5 calls, the last on 11 May 2026"
    ignored = [row.client for row in usage.callers if row.ignored]
    assert ignored == ["scanner", "curl", PROBE]
    assert usage.notes[1:] == [
        f"2 probes ({PROBE}) and 7 ignored calls of scanner, curl",
        "8 calls got 401 or 403",
    ]
    usage = judge(WHOLE, made=made)
    assert (usage.refused, usage.ignored) == (8, 2)


def test_the_last_call_is_one_that_counts() -> None:
    """A client that got 200 is only refused since."""
    days = calls(START, 1) + calls(AT, 1, 1) + calls(NOON, 0, 1)
    made: Made = {(None, "curl"): days}
    usage = judge(WHOLE, made=made, ignore_refused=True)
    assert usage.reasons[0].message == "2 calls, the last on 11 May 2026"
    assert (usage.answered, usage.refused, usage.ignored) == (2, 2, 2)
    assert (usage.first_at, usage.last_at) == (START, AT)


def test_ignored_calls_are_listed_with_their_labels() -> None:
    made: Made = {(f"team-{number}", "c"): calls(AT, 1) for number in range(7)}
    usage = judge(WHOLE, made=made, ignore_clients=["c"])
    assert usage.notes[1] == (
        "7 ignored calls of team-0, team-1, team-2, team-3, team-4 and 2 others"
    )


STOPS: dict[str, tuple[list[int], int | None]] = {
    "many days": ([25, 24, 22, 16], 16),
    "in a row": ([11, 10, 9], 9),
    "a single day, which is no habit": ([20], None),
    "silent before for longer": ([29, 10], None),
    "silent since yesterday": ([2, 1], None),
}


@pytest.mark.parametrize(("ago", "stopped"), STOPS.values(), ids=STOPS)
def test_a_caller_has_stopped_that_is_silent_for_longer_than_before(
    ago: list[int], stopped: int | None
) -> None:
    made = [calls(NOON - days * DAY, 1)[0] for days in ago]
    (row,) = judge(WHOLE, made={("a", "c"): made}).callers
    expected = None if stopped is None else (NOON - stopped * DAY).date()
    assert row.stopped_on == expected
    assert row.to_dict()["stopped_on"] == (expected and expected.isoformat())


def test_the_clients_of_a_label_stop_together() -> None:
    made: Made = {("a", "d"): calls(NOON - DAY, 1)}
    made["a", "c"] = calls(NOON - 20 * DAY, 1) + calls(NOON - 19 * DAY, 1)
    assert {row.stopped_on for row in judge(WHOLE, made=made).callers} == {None}
