"""The schedule of a plan, its next event, and warnings of probable mistakes."""

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest

from flask_notifications import (
    Brownout,
    DeprecationPolicy,
    Operation,
    Phase,
    notification_operations,
)
from flask_notifications.plans import Event, next_event, schedule
from flask_notifications.plans.mistakes import plan_warnings
from flask_notifications.plans.overlaps import find_rivals, share_method
from tests.growth import grows_linearly


def date(month: int, day: int = 1) -> datetime:
    return datetime(2026, month, day, tzinfo=UTC)


def policy(month: int = 1, **values: Any) -> DeprecationPolicy:
    return DeprecationPolicy(deprecated_at=date(month), **values)


POLICY = policy()
WINDOWS = [
    Brownout(date(5), date(6)),
    Brownout(date(3), date(4)),
    Brownout(date(4), date(4, 2)),
]
ENFORCED = policy(2, brownouts=WINDOWS, sunset_at=date(8), enforce_sunset=True)


def test_a_schedule_is_in_chronological_order() -> None:
    assert schedule(ENFORCED) == [
        Event(Phase.DEPRECATED, date(2)),
        Event(Phase.BROWNOUT, date(3), date(4)),
        Event(Phase.BROWNOUT, date(4), date(4, 2)),
        Event(Phase.BROWNOUT, date(5), date(6)),
        Event(Phase.SUNSET, date(8)),
    ]
    assert schedule(POLICY) == [Event(Phase.DEPRECATED, date(1))]


def test_windows_that_repeat_are_one_event() -> None:
    week = timedelta(days=7)
    first, end = date(5), date(5, 2)
    weekly = policy(brownouts=[Brownout(first, end, every=week)], sunset_at=date(6))
    event = Event(Phase.BROWNOUT, first, end, week, 5)
    assert schedule(weekly)[1] == event
    assert (event.last, schedule(weekly)[2].last) == (date(5, 29), date(6))
    for until, windows in ((first, []), (first + week, [Event(*event[:3])])):
        once = Brownout(first, end, every=week, until=until)
        assert schedule(policy(brownouts=[once]))[1:] == windows


@pytest.mark.parametrize(
    ("at", "phase", "start"),
    [
        (date(1), Phase.DEPRECATED, date(2)),
        (date(2), Phase.BROWNOUT, date(3)),
        (date(3), Phase.DEPRECATED, date(4, 2)),  # after two brownouts that touch
        (date(6), Phase.SUNSET, date(8)),
    ],
)
def test_the_next_event_is_the_next_change_of_phase(
    at: datetime, phase: Phase, start: datetime
) -> None:
    assert next_event(ENFORCED, at) == Event(phase, start)
    assert next_event(ENFORCED, date(8)) is None


WEEKLY = Brownout(date(2), date(2, 2), every=timedelta(days=7))


def operation(
    path: str, *, name: str = "old", method: str = "GET", **more: Any
) -> Operation:
    return Operation(name, method, path, **more)


SENSIBLE: dict[str, Any] = {
    "the two operations": dict.fromkeys(notification_operations(), POLICY),
    "a live part": {
        operation("/v1/**", method="*", successor="/v2/**"): POLICY,
        operation("/v1/health", name="health"): None,
    },
    "a sunset to come": {operation("/a"): policy(sunset_at=date(8, 2))},
    "a live version in a header": {
        operation("/a"): POLICY,
        operation("/a", name="new", headers={"V": "2"}): None,
    },
    "brownouts that repeat": {
        operation("/a"): policy(brownouts=[WEEKLY], sunset_at=date(10)),
    },
}


@pytest.mark.parametrize("plan", SENSIBLE.values(), ids=SENSIBLE)
def test_a_plan_that_makes_sense_has_no_warnings(plan: Any) -> None:
    assert plan_warnings(plan, at=date(8)) == []


MISTAKES: dict[str, Any] = {
    "no operation of the plan is deprecated": {operation("/a"): None},
    "old: the first brownout, of 14 Jan 2026, 00:00 UTC, is less than 14 days after deprecated_at": {
        operation("/a"): policy(brownouts=[Brownout(date(1, 14), date(1, 15))])
    },
    "old: the brownout of 1 Apr 2026, 00:00 UTC lasts 4 minutes; retries survive less than 5 minutes": {
        operation("/a"): policy(
            brownouts=[Brownout(date(4), date(4) + timedelta(minutes=4))]
        )
    },
    "new: enforce_sunset is set here, and not in 1 operation with the same dates; in TOML, a key that applies to all must precede the first [[operations]]": {
        operation("/a"): policy(sunset_at=date(9)),
        operation("/b", name="new"): policy(sunset_at=date(9), enforce_sunset=True),
        operation("/c", name="other"): policy(sunset_at=date(10)),
    },
    "new: clients spell Accept in many ways; put the condition on the deprecated operation instead": {
        operation("/a"): POLICY,
        operation("/a", name="new", headers={"Accept": "v=2"}): None,
    },
    "old: the sunset of 1 Aug 2026, 00:00 UTC has passed and is not enforced, so it keeps working": {
        operation("/a"): policy(sunset_at=date(8))
    },
}


@pytest.mark.parametrize(("warning", "plan"), MISTAKES.items())
def test_a_probable_mistake_is_a_warning(warning: str, plan: Any) -> None:
    assert plan_warnings(plan, at=date(8)) == [warning]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/a/{}/{{x}}", "/{{x}}/{}/{{y}}", "/{}", "/{{x}}/{}/**"]
)
def test_the_search_for_rivals_grows_linearly(path: str) -> None:
    def make_operations(size: int) -> Any:
        return [
            operation(path.format(number), name=f"{number}") for number in range(size)
        ]

    assert grows_linearly(find_rivals, make_operations)


@pytest.mark.slow
def test_the_work_on_warnings_grows_linearly() -> None:
    def make_plan(size: int) -> Any:
        sunset = policy(sunset_at=date(9))
        enforced = policy(sunset_at=date(9), enforce_sunset=True)
        plan: dict[Operation, Any] = {}
        for number in range(size):
            plan[operation(f"/a/{number}", name=f"a{number}")] = sunset
            plan[operation(f"/b/{number}", name=f"b{number}")] = enforced
        return plan

    assert grows_linearly(partial(plan_warnings, at=date(8)), make_plan)


@pytest.mark.parametrize(
    ("method", "other", "is_shared"),
    [
        ("GET", "GET", True),
        ("GET", "HEAD", True),
        ("GET", "*", True),
        ("OPTIONS", "*", False),
        ("GET", "POST", False),
        ("HEAD", "POST", False),
    ],
)
def test_two_operations_may_share_a_method(
    method: str, other: str, is_shared: bool
) -> None:
    shapes = []
    for name in (method, other):
        shapes.append(Operation("report", name, "/reports").template.shape)
    assert share_method(*shapes) is is_shared
    assert share_method(*reversed(shapes)) is is_shared


LONG = "".join(f"/{{{name}}}" for name in "abcdefghijklmnopqrst") + "/z"
RIVALS = [
    ("/a/{x}", "/A/b/"),
    ("/a/{x}", "/{y}/c"),
    ("/a/{x}", "/a"),
    ("/x/{y}/export", "/export"),
    ("/x/{y}/export", "/x/export/"),
    ("/w/x/{y}/export", "/w/export"),
    ("/{x}/{y}/{z}", "/"),
    ("/a/**", "/A"),
    ("/a/**", "/{x}/b/**"),
    (LONG, "/z"),
]
STRANGERS = [
    ("/a/b", "/a/c"),
    ("/a/{x}", "/a/b/c"),
    ("/x/{y}/export", "/import"),
    ("/a/{x}/**", "/{y}"),
    ("/a/**", "/ab"),
]


@pytest.mark.parametrize(
    ("paths", "are_rivals"), [*product(RIVALS, [True]), *product(STRANGERS, [False])]
)
def test_operations_that_may_take_the_same_request_are_rivals(
    paths: tuple[str, str], are_rivals: bool
) -> None:
    first = operation(paths[0], name="1")
    second = operation(paths[1], name="2", method="POST")
    rivals = find_rivals([first, second, operation("/far/away/is/it", name="3")])
    expected: dict[str, set[Operation]] = {"1": set(), "2": set(), "3": set()}
    if are_rivals:
        expected |= {"1": {second}, "2": {first}}
    assert rivals == expected
