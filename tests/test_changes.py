"""What a change of a plan does to callers, each with its code, and only that."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flask_notifications import load_plan
from flask_notifications.plans.changes import LEVELS, compare_plans

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def operation(path: str = "/reports/{id}", name: str = "report", **keys: Any) -> dict[str, Any]:
    return {"name": name, "method": "GET", "path": path} | keys


def brownout(start: str, end: str) -> dict[str, Any]:
    return {"brownouts": [{"start": f"2026-{start}Z", "end": f"2026-{end}Z"}]}


def exempt(until: str, caller: str = "acme") -> dict[str, Any]:
    return {"exemptions": [{"caller": caller, "until": f"{until}T00:00:00Z", "reason": "contract"}]}


SUNSET = {"sunset_at": "2027-01-01T00:00:00Z"}
EARLIER = {"sunset_at": "2026-12-31T23:59:59Z"}
SOON = {"sunset_at": "2026-06-20T00:00:00Z"}
PAST = {"sunset_at": "2026-05-01T00:00:00Z"}
MORNING = brownout("07-01T09:00", "07-01T10:00")
ME, USERS = operation("/users/me", "me", live=True), operation("/users/{id}", "user")

CASES: dict[str, tuple[list[Any], list[Any], list[str]]] = {
    "nothing": ([operation(**SUNSET)], [operation(**SUNSET)], []),
    "another name": ([operation(**SUNSET)], [operation(name="other", **SUNSET)], []),
    "other parameter names": ([operation(successor="/v2/{id}")], [operation("/reports/{n}", successor="/v2/{n}")], []),
    "an earlier sunset": ([operation(**SUNSET)], [operation(**EARLIER)], ["sunset-earlier"]),
    "a later sunset": ([operation(**EARLIER)], [operation(**SUNSET)], []),
    "a sunset that is soon, and later than before": (
        [operation(**SOON)],
        [operation(sunset_at="2026-06-21T00:00:00Z")],
        [],
    ),
    "a sunset again": ([operation(**PAST)], [operation(**SOON)], ["notice-too-short"]),
    "a first sunset that is soon": ([operation()], [operation(**SOON)], ["notice-too-short"]),
    "a first sunset that is over": ([operation()], [operation(**PAST)], ["notice-too-short"]),
    "enforcement": ([operation(**SUNSET)], [operation(**SUNSET, enforce_sunset=True)], ["enforcement-added"]),
    "a brownout": ([operation()], [operation(**MORNING)], ["brownout-added"]),
    "a brownout that is soon": (
        [operation()],
        [operation(**brownout("06-10T09:00", "06-10T10:00"))],
        ["brownout-added", "notice-too-short"],
    ),
    "a brownout that is over": (
        [operation()],
        [operation(**brownout("05-10T09:00", "05-10T10:00"))],
        ["brownout-added"],
    ),
    "another successor": ([operation(successor="/a")], [operation(successor="/b")], ["successor-changed"]),
    "another operation": ([operation()], [operation(), operation("/new", "new")], ["operation-added"]),
    "another operation that ends soon": (
        [operation()],
        [operation(), operation("/new", "new", **SOON)],
        ["operation-added", "notice-too-short"],
    ),
    "removed without a sunset": ([operation(), operation("/old", "old")], [operation()], ["operation-removed"]),
    "removed after its sunset": ([operation(), operation("/old", "old", **PAST)], [operation()], []),
    "live again": ([operation(**SUNSET), USERS], [operation(live=True), USERS], []),
    "another path of the same name": (
        [operation(**SUNSET)],
        [operation("/other", **SUNSET)],
        ["operation-added", "operation-removed"],
    ),
    "a live part is retired": ([USERS, ME], [USERS, ME | {"live": False}], ["operation-added"]),
    "a live part is not listed any more": ([USERS, ME], [USERS], ["operation-added"]),
    "a live part of nothing is not listed any more": ([operation(), ME], [operation()], []),
    "a part that another operation takes, which ends earlier": (
        [USERS, operation("/users/me", "me", **SUNSET)],
        [USERS | EARLIER],
        ["sunset-earlier"],
    ),
    "no exemption any more": ([operation(**exempt("2027-03-01"))], [operation()], ["exemption-removed"]),
    "a shorter exemption": (
        [operation(**exempt("2027-03-01"))],
        [operation(**exempt("2027-02-28"))],
        ["exemption-removed"],
    ),
    "an exemption that is over is removed": ([operation(**exempt("2026-05-01"))], [operation()], []),
}


@pytest.mark.parametrize(("old", "new", "codes"), CASES.values(), ids=CASES)
def test_each_change_for_callers_has_its_code(old: list[Any], new: list[Any], codes: list[str]) -> None:
    before, after = (load_plan({"deprecated_at": "2026-01-01T00:00:00Z", "operations": each}) for each in (old, new))
    changes = compare_plans(before, after, at=NOW, min_notice=timedelta(days=30))
    assert [change.code for change in changes] == codes
    without_notice = [change.code for change in compare_plans(before, after, at=NOW)]
    assert without_notice == [code for code in codes if code != "notice-too-short"]


def test_only_broken_promises_are_errors() -> None:
    errors = {code for code, level in LEVELS.items() if level == "error"}
    assert errors == {"sunset-earlier", "notice-too-short", "operation-removed", "exemption-removed"}
