"""The schedule of a plan, its next event, and warnings of probable mistakes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from flask_notifications import NOTIFICATION_OPERATIONS, Brownout, DeprecationPolicy, Operation, Phase
from flask_notifications.plans import Event, next_event, plan_warnings, schedule


def date(month: int, day: int = 1) -> datetime:
    return datetime(2026, month, day, tzinfo=UTC)


POLICY = DeprecationPolicy(deprecated_at=date(1))
ENFORCED = DeprecationPolicy(
    deprecated_at=date(2),
    brownouts=[Brownout(date(5), date(6)), Brownout(date(3), date(4)), Brownout(date(4), date(4, 2))],
    sunset_at=date(8),
    enforce_sunset=True,
)


def test_a_schedule_is_in_chronological_order() -> None:
    assert schedule(ENFORCED) == [
        Event(Phase.DEPRECATED, date(2)),
        Event(Phase.BROWNOUT, date(3), date(4)),
        Event(Phase.BROWNOUT, date(4), date(4, 2)),
        Event(Phase.BROWNOUT, date(5), date(6)),
        Event(Phase.SUNSET, date(8)),
    ]
    assert schedule(POLICY) == [Event(Phase.DEPRECATED, date(1))]


@pytest.mark.parametrize(
    ("at", "following"),
    [
        (date(1), Event(Phase.DEPRECATED, date(2))),
        (date(2), Event(Phase.BROWNOUT, date(3))),
        (date(3), Event(Phase.DEPRECATED, date(4, 2))),
        (date(4, 2), Event(Phase.BROWNOUT, date(5))),
        (date(6), Event(Phase.SUNSET, date(8))),
        (date(8), None),
    ],
    ids=["announced", "deprecated", "in two brownouts that touch", "between brownouts", "after the last", "sunset"],
)
def test_the_next_event_is_the_next_change_of_phase(at: datetime, following: Event | None) -> None:
    assert next_event(ENFORCED, at) == following


def test_a_sunset_that_is_not_enforced_changes_no_phase() -> None:
    policy = DeprecationPolicy(deprecated_at=date(1), sunset_at=date(8))
    assert schedule(policy)[-1] == Event(Phase.SUNSET, date(8))
    assert next_event(policy, date(1)) is None


def operation(path: str, *, name: str = "old", method: str = "GET", **more: Any) -> Operation:
    return Operation(name, method, path, **more)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(dict.fromkeys(NOTIFICATION_OPERATIONS, POLICY), id="the operations of this library"),
        pytest.param(
            {operation("/users/{id}"): POLICY, operation("/users/me", name="me"): None},
            id="a live one inside a retired one",
        ),
        pytest.param(
            {operation("/caf\xe9/{id}"): POLICY, operation("/caf%C3%A9/me", name="me"): None},
            id="a live one that spells a letter in another way",
        ),
        pytest.param(
            {operation("/a/{x}"): POLICY, operation("/{y}/b", name="b", method="POST"): POLICY},
            id="different methods",
        ),
        pytest.param({operation("/a/{x}/c"): POLICY, operation("/{y}/b", name="b"): POLICY}, id="different lengths"),
        pytest.param({operation("/a/{x}", successor="//new.example/a/1"): POLICY}, id="a successor on another server"),
        pytest.param({operation("/a/{x}", method="POST", successor="/a/1"): POLICY}, id="a successor with GET"),
        pytest.param(
            {operation("/a/{x}", successor="/a/new"): POLICY, operation("/A/New", name="new"): None},
            id="a live successor",
        ),
        pytest.param({operation("/a"): ENFORCED}, id="brownouts between the dates"),
    ],
)
def test_a_plan_that_makes_sense_has_no_warnings(plan: Any) -> None:
    assert plan_warnings(plan) == []


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param({operation("/a"): None}, ["no operation of the plan is retired"], id="nothing to retire"),
        pytest.param({operation("/a", method="GTE"): POLICY}, ["old: GTE", "RFC 9110"], id="a misspelled method"),
        pytest.param(
            {operation("/a/{x}", name="first"): POLICY, operation("/{y}/b", name="second"): POLICY},
            ["first", "second", "GET /a/b", "leftmost"],
            id="templates that shadow each other",
        ),
        pytest.param(
            {operation("/{y}/{z}/B", name="first"): POLICY, operation("/{x}/a/{z}", name="second"): None},
            ["first", "second", "GET /{}/a/b", "leftmost"],
            id="a live template that shadows a retired one",
        ),
        pytest.param(
            {operation("/users/{id}"): POLICY, operation("/user/me", name="me"): None},
            ["me: ", "no effect"],
            id="a live operation at another path",
        ),
        pytest.param(
            {operation("/users/{id}"): POLICY, operation("/users/me", name="me", method="PUT"): None},
            ["me: ", "no effect"],
            id="a live operation with another method",
        ),
        pytest.param(
            {operation("/users/{id}", successor="/users/me?v=2"): POLICY},
            ["old: successor /users/me?v=2", "operation old"],
            id="a successor that is retired",
        ),
        pytest.param(
            {operation("/a", successor="/b/7"): POLICY, operation("/b/{id}", name="b"): POLICY},
            ["old: successor /b/7", "operation b"],
            id="a successor that is retired too",
        ),
        pytest.param(
            {operation("/{page}"): DeprecationPolicy(deprecated_at=date(1), documentation="/retire")},
            ["old: documentation /retire", "operation old"],
            id="a page that is retired",
        ),
        pytest.param(
            {operation("/a"): DeprecationPolicy(deprecated_at=date(2), brownouts=[Brownout(date(1), date(3))])},
            ["old: ", "2026-01-01", "before deprecated_at"],
            id="a brownout before the deprecation",
        ),
        pytest.param(
            {
                operation("/a"): DeprecationPolicy(
                    deprecated_at=date(1),
                    brownouts=[Brownout(date(4), date(6))],
                    sunset_at=date(5),
                    enforce_sunset=True,
                )
            },
            ["old: ", "2026-04-01", "not over at the enforced sunset"],
            id="a brownout after the sunset",
        ),
    ],
)
def test_a_probable_mistake_is_a_warning(plan: Any, expected: list[str]) -> None:
    (warning,) = plan_warnings(plan)
    assert [part for part in expected if part not in warning] == []
