"""Plans and usage reports, from one caller on one day to two hundred callers on four
hundred days.
"""

import random
from collections import Counter
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
    options.setdefault("deprecated_at", utc(2026, 1, 1))
    options.setdefault("documentation", "https://example.com/retire")
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
    sums = Counter[str]()
    packed: list[int] = []
    for day in days:
        counts = day._asdict()
        number = (counts.pop("day") - date(1970, 1, 1)).days
        packed += [number, 0, 0, *counts.values()]
        sums.update(counts)
    return CallerUsage(
        caller=name,
        client=client,
        source=source,
        **sums,
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
    counted = [row for row in callers if not row.ignored]
    sums = Counter[str]()
    for row in counted:
        for count in ("answered", "refused", "failed", "closed"):
            sums[count] += getattr(row, count)
    hours = sum(covered.values())
    window = 24 * len(covered)
    return OperationUsage(
        name=name,
        verdict=verdict or (Verdict.IN_USE if counted else Verdict.SAFE),
        reasons=reasons,
        answered=sums["answered"],
        refused=sums["refused"],
        failed=sums["failed"],
        closed=sums["closed"],
        ignored=sum(row.calls for row in callers if row.ignored),
        first_at=min((row.first_at for row in counted), default=None),
        last_at=max((row.last_at for row in counted), default=None),
        coverage=hours / (window or 1),
        covered_hours=hours,
        longest_gap_hours=0,
        hosts=1,
        host_count=1,
        window_hours=window,
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
    covered: dict[date, float] = {}
    for number in range(days + 1):
        covered[NOW.date() + (number - days) * DAY] = 0 if number in gap else 24
    return covered


def busy_operation(
    name: str, *, callers: int, days: int, names: Names = ordinary_names
) -> OperationUsage:
    """Return an operation with random calls, the same each time; every seventh caller
    is ignored.
    """
    chance = random.Random(f"{name} {callers} {days}")  # noqa: S311 - the same each time
    made = []
    for number in range(callers):
        rows = []
        for ago in range(days - number % 9, -1, -1 - number % 4):
            answered = 1 + chance.randrange(1 + 5000 // (number + 1))
            others = [chance.randrange(limit) for limit in (2, 3, 2)]
            rows.append(DayUsage(NOW.date() - ago * DAY, answered, *others))
        source = (None, "header", "query")[number % 3]
        made.append(
            caller(*names(number), rows, source=source, ignored=number % 7 == 6)
        )
    made.sort(key=lambda row: -row.calls)
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
    methods = ("GET", "DELETE", "PURGE")
    successors = (None, "/v2/accounts/{account-id}", "javascript:alert(1)")
    windows = [brownout(utc(2026, 4, 1, 9) + 7 * number * DAY) for number in range(45)]
    plan: dict[Operation, DeprecationPolicy | None] = {}
    for number in range(12):
        kind = number % 3
        path = paths[kind].format(number)
        name = f"{STRANGE[number % 4]}{number}"
        operation = Operation(name, methods[kind], path, successors[kind])
        plan[operation] = policy(
            utc(2026 + kind, 12, 1 + number),
            *windows,
            enforce_sunset=number % 2 == 0,
            sunset_documentation="javascript:alert(2)",
        )
    plan[Operation("live", "GET", "/live")] = None
    return plan
