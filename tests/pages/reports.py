"""Plans and usage reports, from one caller on one day to two hundred callers on four
hundred days.
"""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from flask_notifications import (
    Brownout,
    DeprecationPolicy,
    Operation,
    notification_operations,
)
from flask_notifications.usage import (
    CallerUsage,
    DayUsage,
    OperationUsage,
    Reason,
    UsageReport,
    Verdict,
)

NOW = datetime(2026, 11, 22, 17, tzinfo=UTC)
DAY = timedelta(days=1)

Names = Callable[[int], tuple[str | None, str | None]]


def utc(*numbers: int) -> datetime:
    return datetime(*numbers, tzinfo=UTC)  # type: ignore[arg-type,misc]


def brownout(start: datetime, minutes: int = 30) -> Brownout:
    return Brownout(start, start + timedelta(minutes=minutes))


def policy(
    sunset_at: datetime | None = datetime(2027, 7, 1, tzinfo=UTC),
    *brownouts: Brownout,
    **options: Any,
) -> DeprecationPolicy:
    options = {
        "deprecated_at": utc(2026, 1, 1),
        "documentation": "https://example.com/retire",
        **options,
    }
    return DeprecationPolicy(sunset_at=sunset_at, brownouts=brownouts, **options)


BROWNOUTS = (
    brownout(utc(2026, 9, 8, 9), 15),
    brownout(utc(2026, 10, 6, 9), 120),
    brownout(utc(2026, 11, 3), 1440),
    brownout(utc(2026, 12, 1), 2880),
)
NOTIFICATION_PLAN = dict.fromkeys(
    notification_operations(), policy(utc(2027, 1, 11), *BROWNOUTS)
)

# As long as a label may be; letters from right to left; ideographs; and mark-up.
STRANGE = (
    "x" * 64,
    "خدمة التقارير الشهرية للحسابات",
    "报告导出服务" * 10,
    "<script>alert(1)</script>&\"'",
    "(other)",
)


def ordinary_names(number: int) -> tuple[str, str]:
    return f"service-{number}", f"python-requests/2.{number}"


def strange_names(number: int) -> tuple[str | None, str | None]:
    label = f"{STRANGE[number % 5][:60]}{number}" if number % 7 else None
    return label, STRANGE[number % 4][:64] if number % 6 else None


def caller(
    name: str | None,
    client: str | None,
    days: Sequence[DayUsage],
    *,
    source: str | None = "query",
    ignored: bool = False,
    stopped_on: date | None = None,
    first: time = time(8),
    last: time = time(16),
) -> CallerUsage:
    """Return a caller with the sums of its days."""
    packed: list[int] = []
    for day in days:
        packed += [(day.day - date(1970, 1, 1)).days, *day[1:]]
    return CallerUsage(
        caller=name,
        client=client,
        source=source,
        answered=sum(day.answered for day in days),
        refused=sum(day.refused for day in days),
        failed=sum(day.failed for day in days),
        closed=sum(day.closed for day in days),
        first_at=datetime.combine(days[0].day, first, UTC),
        last_at=datetime.combine(days[-1].day, last, UTC),
        ignored=ignored,
        stopped_on=stopped_on,
        packed_days=packed,
    )


def operation_usage(
    name: str,
    callers: Sequence[CallerUsage],
    covered: dict[date, float],
    *,
    verdict: Verdict | None = None,
    reasons: tuple[Reason, ...] = (),
) -> OperationUsage:
    """Return the usage of an operation with the sums of its callers."""
    counted = [each for each in callers if not each.ignored]
    return OperationUsage(
        name=name,
        verdict=verdict or (Verdict.IN_USE if counted else Verdict.SAFE),
        reasons=reasons,
        answered=sum(each.answered for each in counted),
        refused=sum(each.refused for each in counted),
        failed=sum(each.failed for each in counted),
        closed=sum(each.closed for each in counted),
        ignored=sum(each.calls for each in callers if each.ignored),
        first_at=min((each.first_at for each in counted), default=None),
        last_at=max((each.last_at for each in counted), default=None),
        coverage=sum(covered.values()) / (24 * len(covered) or 1),
        covered_hours=sum(covered.values()),
        longest_gap_hours=0,
        hosts=1,
        host_count=1,
        window_hours=24 * len(covered),
        callers=tuple(callers),
        covered=covered,
    )


def report(
    *operations: OperationUsage, days: int = 30, until: datetime = NOW
) -> UsageReport:
    since = datetime.combine(until.date(), time(), UTC) - days * DAY
    return UsageReport(
        as_of=until, since=since, until=until, days=days, operations=operations
    )


def coverage(days: int, *, gap: range = range(0)) -> dict[date, float]:
    """Return full coverage of some days until today, except for a gap."""
    first = NOW.date() - days * DAY
    return {
        first + number * DAY: 0 if number in gap else 24 for number in range(days + 1)
    }


def busy_operation(
    name: str, *, callers: int, days: int, names: Names = ordinary_names
) -> OperationUsage:
    """Return an operation with random calls, the same each time; every seventh caller
    is ignored.
    """
    chance = random.Random(f"{name} {callers} {days}")  # noqa: S311 - the same each time
    first = NOW.date() - days * DAY
    made = []
    for number in range(callers):
        weight = 1 + 5000 // (number + 1)
        rows = [
            DayUsage(
                first + day * DAY,
                1 + chance.randrange(weight),
                chance.randrange(2),
                chance.randrange(3),
                chance.randrange(2),
            )
            for day in range(number % 9, days + 1, 1 + number % 4)
        ]
        sources = (None, "header", "query")
        made.append(
            caller(
                *names(number),
                rows,
                source=sources[number % 3],
                ignored=number % 7 == 6,
            )
        )
    made.sort(key=lambda each: -each.calls)
    reasons = (Reason("calls", "many calls, the last on 22 November"),)
    return operation_usage(name, made, coverage(days, gap=range(4, 6)), reasons=reasons)


def strange_plan() -> dict[Operation, DeprecationPolicy | None]:
    """Return a plan of many operations with long and foreign names, and with many
    brownouts.
    """
    paths = (
        "/%E6%8A%A5%E5%91%8A/{}",
        "/" + "long-segment-of-a-path/" * 5 + "{}/{{account-id}}",
        "/تقرير/{}/{{الرقم}}",
    )
    successors = (None, "/v2/accounts/{account-id}", "javascript:alert(1)")
    windows = [brownout(utc(2026, 4, 1, 9) + 7 * number * DAY) for number in range(45)]
    plan: dict[Operation, DeprecationPolicy | None] = {
        Operation(
            f"{STRANGE[number % 4]}{number}",
            ("GET", "DELETE", "PURGE")[number % 3],
            paths[number % 3].format(number),
            successors[number % 3],
        ): policy(
            utc(2026 + number % 3, 12, 1 + number),
            *windows,
            enforce_sunset=number % 2 == 0,
            sunset_documentation="javascript:alert(2)",
        )
        for number in range(12)
    }
    plan[Operation("live", "GET", "/live")] = None
    return plan
