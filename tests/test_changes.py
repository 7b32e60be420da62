"""What a change of a plan does to callers, each with its code, and only that."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flask_notifications import load_plan
from flask_notifications.plans.changes import compare_plans
from tests.test_config import operation

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def brownout(day: str, end: str = "10:00") -> dict[str, Any]:
    return {"brownouts": [{"start": f"2026-{day}T09:00Z", "end": f"2026-{day}T{end}Z"}]}


def exempt(until: str) -> dict[str, Any]:
    return {
        "exemptions": [
            {"caller": "acme", "until": f"{until}T00:00:00Z", "reason": "contract"}
        ]
    }


SUNSET = {"sunset_at": "2027-01-01T00:00:00Z"}
EARLIER = {"sunset_at": "2026-12-31T23:59:59Z"}
SOON = {"sunset_at": "2026-06-20T00:00:00Z"}
LATER = {"sunset_at": "2026-06-21T00:00:00Z"}
PAST = {"sunset_at": "2026-05-01T00:00:00Z"}
ENFORCED = SUNSET | {"enforce_sunset": True}
REPORT, OLD, NEW = operation(), operation("old", "/old"), operation("new", "/new")
REPORT_N = operation(path="/reports/{n}", successor="/v2/{n}")
QUERY = operation("query", "/query")
ME, USERS = operation("me", "/users/me", live=True), operation("user", "/users/{id}")
MINE = ME | {"live": False}
CAFE, CAFE_OLD = (
    OLD | SUNSET | {"path": "/caf\u00e9/**"},
    NEW | EARLIER | {"path": "/caf\u00e9/old"},
)
ANY_ME = OLD | SUNSET | {"path": "/{version}/me"}


def query(*values: str, name: str = "query", **more: Any) -> dict[str, Any]:
    """Return an operation for some values of the parameter ``v``."""
    return operation(name, "/query", query={"v": [*values]}, **more)


def many(*more: str) -> dict[str, Any]:
    return {"query": {name: [*"0123456789", *more] for name in "abcdefghij"}}


W: dict[str, Any] = {"headers": {"W": ["1", ""]}}
OTHERS = [
    query("2", "", name="old", method="*"),
    NEW | W | {"path": "/query", "method": "*"},
]
CASES: dict[str, tuple[list[Any], list[Any], list[str]]] = {
    "more combinations of values than are tried": (
        [REPORT | many()],
        [REPORT | many("10")],
        ["operation-added"],
    ),
    "nothing": ([REPORT | SUNSET], [REPORT | SUNSET], []),
    "another name": ([REPORT | SUNSET], [REPORT | SUNSET | {"name": "other"}], []),
    "other parameter names": ([REPORT | {"successor": "/v2/{id}"}], [REPORT_N], []),
    "an earlier sunset": ([REPORT | SUNSET], [REPORT | EARLIER], ["sunset-earlier"]),
    "a sunset that is soon, and later than before": (
        [REPORT | SOON],
        [REPORT | LATER],
        [],
    ),
    "a sunset again": ([REPORT | PAST], [REPORT | SOON], ["notice-too-short"]),
    "a first sunset that is soon": ([REPORT], [REPORT | SOON], ["notice-too-short"]),
    "a first sunset that is over": ([REPORT], [REPORT | PAST], ["notice-too-short"]),
    "enforcement": ([REPORT | SUNSET], [REPORT | ENFORCED], ["enforcement-added"]),
    "a brownout": ([REPORT], [REPORT | brownout("07-01")], ["brownout-added"]),
    "a brownout that is soon": (
        [REPORT],
        [REPORT | brownout("06-10")],
        ["brownout-added", "notice-too-short"],
    ),
    "a brownout that is over": (
        [REPORT],
        [REPORT | brownout("05-10")],
        ["brownout-added"],
    ),
    "a longer brownout": (
        [REPORT | brownout("07-01")],
        [REPORT | brownout("07-01", "10:01")],
        ["brownout-added"],
    ),
    "a shorter brownout": (
        [REPORT | brownout("06-10")],
        [REPORT | brownout("06-10", "09:20")],
        [],
    ),
    "another successor": (
        [REPORT | {"successor": "/a"}],
        [REPORT | {"successor": "/b"}],
        ["successor-changed"],
    ),
    "another operation": ([REPORT], [REPORT, NEW], ["operation-added"]),
    "removed without a sunset": ([REPORT, OLD], [REPORT], ["operation-removed"]),
    "removed after its sunset": ([REPORT, OLD | PAST], [REPORT], []),
    "live again": ([REPORT | SUNSET, USERS], [REPORT | {"live": True}, USERS], []),
    "another path of the same name": (
        [REPORT],
        [REPORT | {"path": "/x"}],
        ["operation-added", "operation-removed"],
    ),
    "a live part is retired": ([USERS, ME], [USERS, MINE], ["operation-added"]),
    "a live part of nothing is not listed any more": ([REPORT, ME], [REPORT], []),
    "a part that another takes, which ends earlier": (
        [USERS, MINE | SUNSET],
        [USERS | EARLIER],
        ["sunset-earlier"],
    ),
    "a part in letters that are not ASCII, which ends earlier": (
        [CAFE],
        [CAFE, CAFE_OLD],
        ["sunset-earlier"],
    ),
    "a part that a new operation of any method takes": (
        [USERS | SUNSET],
        [USERS | SUNSET, MINE | EARLIER | {"method": "*"}],
        ["operation-added", "sunset-earlier"],
    ),
    "a new literal to the left": (
        [ANY_ME],
        [ANY_ME, USERS | EARLIER],
        ["operation-added", "sunset-earlier"],
    ),
    "a path with a slash that a new subtree takes": (
        [OLD | SUNSET],
        [OLD | SUNSET, NEW | EARLIER | {"path": "/old/**"}],
        ["sunset-earlier", "operation-added"],
    ),
    "a live part for any method is not listed any more": (
        [USERS, ME | {"method": "*"}],
        [USERS],
        ["operation-added"],
    ),
    "no exemption any more": (
        [REPORT | exempt("2027-03-01")],
        [REPORT],
        ["exemption-removed"],
    ),
    "a shorter exemption": (
        [REPORT | exempt("2027-03-01")],
        [REPORT | exempt("2027-02-28")],
        ["exemption-removed"],
    ),
    "removed in an exemption": (
        [REPORT, OLD | PAST | exempt("2027-03-01")],
        [REPORT],
        ["exemption-removed"],
    ),
    "an exemption that is over is removed": (
        [REPORT | exempt("2026-05-01")],
        [REPORT],
        [],
    ),
    "another value of a condition": (
        [query("1")],
        [query("1", "2")],
        ["operation-added"],
    ),
    "any value of a condition, and an earlier sunset": (
        [QUERY | SUNSET | {"headers": {"V": "1"}}],
        [QUERY | EARLIER | {"headers": {"V": "*"}}],
        ["operation-added", "sunset-earlier"],
    ),
    "no condition any more": ([query("\u00e9")], [QUERY], ["operation-added"]),
    "one value of a condition less": (
        [query("1", "2")],
        [query("1")],
        ["operation-removed"],
    ),
    "a condition instead of none": ([QUERY], [query("*")], ["operation-removed"]),
    "a condition that requests without a value meet": (
        [QUERY],
        [QUERY | W],
        ["operation-removed"],
    ),
    "removed for requests that meet the conditions of no other": (
        [QUERY, *OTHERS],
        OTHERS,
        ["operation-removed"],
    ),
    "conditions that are met by every request": (
        [QUERY | SUNSET],
        [query("") | SUNSET, query("*", name="old") | EARLIER],
        ["sunset-earlier"],
    ),
    "two operations for the values of a condition, of which one ends earlier": (
        [query("1", "2") | SUNSET],
        [query("1", name="old") | SUNSET, query("2", name="new") | EARLIER],
        ["sunset-earlier"],
    ),
    "another value of a condition is live": (
        [query("1", "2")],
        [query("1"), query("2", name="old", live=True)],
        [],
    ),
}


@pytest.mark.parametrize(("old", "new", "codes"), CASES.values(), ids=CASES)
def test_each_change_for_callers_has_its_code(
    old: list[Any], new: list[Any], codes: list[str]
) -> None:
    before, after = (
        load_plan({"deprecated_at": "2026-01-01T00:00:00Z", "operations": each})
        for each in (old, new)
    )
    changes = compare_plans(before, after, at=NOW, min_notice=timedelta(days=30))
    assert [change.code for change in changes] == codes
    without_notice = [change.code for change in compare_plans(before, after, at=NOW)]
    assert without_notice == [code for code in codes if code != "notice-too-short"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (SOON, "the sunset of 20 Jun 2026, 00:00 UTC"),
        ({"sunset_at": "2026-06-01T21:30:00Z"}, "the sunset of 1 Jun 2026, 21:30 UTC"),
        (PAST, "the sunset of 1 May 2026, 00:00 UTC"),
        (brownout("06-01"), "the brownout of 1 Jun 2026, 09:00 UTC"),
    ],
)
def test_a_notice_that_is_too_short_is_compared_with_the_required_days(
    change: dict[str, Any], said: str
) -> None:
    before, after = (
        load_plan({"deprecated_at": "2026-01-01T00:00:00Z", "operations": [each]})
        for each in (REPORT, REPORT | change)
    )
    at = datetime(2026, 6, 1, 9, 30, tzinfo=UTC)
    changes = compare_plans(before, after, at=at, min_notice=timedelta(days=30))
    assert changes[-1].message == f"{said} gives less than 30 days of notice"


def test_requests_of_operations_of_both_plans_are_tried_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "flask_notifications.plans.changes._REQUESTS", 8
    )  # two paths for each of the four operations
    entries = [operation(f"old {number}", f"/old/{number}") for number in range(4)]
    before, after = (
        load_plan({"deprecated_at": "2026-01-01T00:00:00Z", "operations": each})
        for each in (entries, entries[:3])
    )
    assert [change.code for change in compare_plans(before, after, at=NOW)] == [
        "operation-removed"
    ]
