"""Half a year of traffic in seconds: a database with calls, a plan around today, and
both pages as files.

``python -m example_app.demo FOLDER`` makes them; ``make demo`` serves them too.
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from sqlalchemy import Engine

from flask_notifications import Call, DeprecationPolicy, Operation, Phase, load_plan
from flask_notifications.pages import render_guide, render_usage
from flask_notifications.usage import UsageRecorder, read_usage

from .database import open_engine, prepare
from .pages import Plan

_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_HISTORY = 182  # days of traffic
_SHOWN = 90  # days in the report
_DOWN, _DOWN_HOURS = (
    48,
    9,
)  # days from today until the night in which the server was down, and for how long

_PLAN = """\
# The plan of the demonstration, around the day on which it was made.
deprecated_at = {deprecated:%Y-%m-%dT%H:%M:%SZ}
sunset_at = {sunset:%Y-%m-%dT%H:%M:%SZ}
enforce_sunset = true
documentation = "/docs/retirement"
brownouts = [
{brownouts}
]
"""
# Days from today, and minutes; those on a weekend are moved to the Friday before, since
# most callers pause then.
_BROWNOUTS = ((-63, 15), (-35, 120), (-7, 600), (14, 1440))


@dataclass(frozen=True, slots=True)
class _Habit:
    """The calls of a caller: the operation by its place in the plan, the number on a
    day, the hours, the days, and the last day.
    """

    caller: str
    client: str
    operation: int = 0
    calls: int = 40
    hours: tuple[int, int] = (7, 19)
    weekdays: int = 5
    is_monthly: bool = False
    last_day: int = 0
    source: Literal["header", "query"] = "query"


_HABITS = (
    _Habit(
        "billing-sync",
        "python-requests/2.28.1",
        calls=96,
        hours=(0, 24),
        weekdays=7,
        last_day=-63,
    ),
    _Habit("mobile-app", "okhttp/4.9.3", calls=70, weekdays=7, last_day=-20),
    _Habit("intranet", "Mozilla/5.0", calls=45),
    _Habit("partner-eu", "Java/17.0.2", calls=38, last_day=-35),
    _Habit(
        "warehouse",
        "Apache-HttpClient/4.5.13",
        calls=24,
        hours=(5, 22),
        weekdays=6,
        source="header",
    ),
    _Habit("month-end-report", "curl/7.88.1", calls=3, hours=(9, 10), is_monthly=True),
    _Habit("support-scripts", "curl/8.5.0", calls=4, last_day=-7),
    _Habit(
        "billing-sync",
        "python-requests/2.28.1",
        1,
        calls=30,
        hours=(1, 4),
        weekdays=7,
        last_day=-118,
    ),
    _Habit("partner-eu", "Java/17.0.2", 1, calls=12, last_day=-97),
)


def make_demo(
    folder: Path, now: datetime, *, shown: datetime | None = None, operations: str = ""
) -> None:
    """Make the database, the plan and both pages in a folder, and replace existing
    ones.

    :param now: the time that the plan is made around, an aware datetime.
    :param shown: the time that the guide describes; by default the same.
    :param operations: the tables of other operations in TOML; by default the plan has
        the two notification operations.
    """
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / "example.sqlite3"
    database.unlink(missing_ok=True)
    (folder / "retirement.toml").write_text(
        _write_plan(now) + operations, encoding="utf-8"
    )
    plan = load_plan(folder / "retirement.toml")
    engine = open_engine(f"sqlite:///{database}")
    prepare(engine)
    _record(engine, plan, now)
    report = read_usage(engine, days=_SHOWN, until=now, operations=plan)
    engine.dispose()
    (folder / "usage.html").write_text(
        render_usage(report, plan=plan), encoding="utf-8"
    )
    guide = render_guide(
        plan,
        at=now if shown is None else shown,
        contact="api@example.com",
        base_url="https://api.example.com",
    )
    (folder / "guide.html").write_text(guide, encoding="utf-8")


# The time that the recorder sees.
_clock = [datetime.min.replace(tzinfo=UTC)]


def _write_plan(now: datetime) -> str:
    morning = now.replace(hour=9, minute=0, second=0, microsecond=0)
    windows = [
        (_avoid_weekend(morning + days * _DAY), timedelta(minutes=minutes))
        for days, minutes in _BROWNOUTS
    ]
    times = "%Y-%m-%dT%H:%M:%SZ"
    lines = [
        f"    {{ start = {start:{times}}, end = {start + length:{times}} }},"
        for start, length in windows
    ]
    midnight = morning.replace(hour=0)
    return _PLAN.format(
        deprecated=midnight - 80 * _DAY,
        sunset=midnight + 30 * _DAY,
        brownouts="\n".join(lines),
    )


def _avoid_weekend(at: datetime) -> datetime:
    return at - max(0, at.weekday() - 4) * _DAY


def _record(engine: Engine, plan: Plan, now: datetime) -> None:
    """Record the calls of all callers, as the middleware would have reported them; the
    server was down one night.
    """
    chance = random.Random(2026)  # noqa: S311 - the same traffic each time
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    down = midnight - _DOWN * _DAY
    recorders = [_start(engine, plan, midnight - _HISTORY * _DAY)]
    for number in range(-_HISTORY, 1):
        if number == -_DOWN:
            _stop(recorders.pop(), down)
            recorders.append(_start(engine, plan, down + _DOWN_HOURS * _HOUR))
        for place, (operation, policy) in enumerate(plan.items()):
            for habit in _HABITS:
                if habit.operation != place:
                    continue
                for at in _calls(habit, number, midnight + number * _DAY, chance):
                    if at <= now and not down <= at < down + _DOWN_HOURS * _HOUR:
                        recorders[0](_use(habit, operation, policy, at, chance))
    _stop(recorders.pop(), now)


def _start(engine: Engine, plan: Plan, at: datetime) -> UsageRecorder:
    """Return the recorder of a server that was started at a time."""
    _clock[0] = at
    recorder = UsageRecorder(
        engine,
        flush_interval=3600,
        create_tables=False,
        host="demo",
        clock=lambda: _clock[0],
    )
    recorder.listen(plan)
    recorder.request_passed()
    recorder.flush()
    return recorder


def _stop(recorder: UsageRecorder, at: datetime) -> None:
    _clock[0] = at
    recorder.close()


def _calls(
    habit: _Habit, number: int, midnight: datetime, chance: random.Random
) -> Iterator[datetime]:
    """Yield the times at which a caller calls on a day, which is given by its number
    from today.
    """
    is_due = (
        midnight.day == 1 if habit.is_monthly else midnight.weekday() < habit.weekdays
    )
    if number > habit.last_day or not is_due:
        return
    fading = min(1.0, (habit.last_day - number + 8) / 60) if habit.last_day else 1.0
    first, last = habit.hours
    for _ in range(max(1, round(habit.calls * fading * chance.uniform(0.7, 1.2)))):
        yield midnight + chance.uniform(first, last) * _HOUR


def _use(
    habit: _Habit,
    operation: Operation,
    policy: DeprecationPolicy | None,
    at: datetime,
    chance: random.Random,
) -> Call:
    phase = Phase.ANNOUNCED if policy is None else policy.phase(at)
    status = 410 if phase is Phase.BROWNOUT else 401 if chance.random() < 0.01 else 200
    # The middleware responds with 410 before the application runs, and a 401 has no
    # caller.
    caller = habit.caller if status == 200 else None
    return Call(
        operation.name,
        operation.method,
        status,
        phase,
        habit.source if operation.unify_session else None,
        habit.client,
        at,
        caller,
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    make_demo(target, datetime.now(UTC))
    print(f"Open in a browser: {target / 'usage.html'} and {target / 'guide.html'}")  # noqa: T201
