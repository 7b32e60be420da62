"""What a change of a plan does to callers, each with its code, and only that."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flask_notifications import load_plan
from flask_notifications.plans.changes import compare_plans
from tests.growth import grows_linearly
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


def repeat(day: str, until: str) -> dict[str, Any]:
    """Return a brownout of an hour a week."""
    window: dict[str, Any] = brownout(day)["brownouts"][0]
    return {
        "brownouts": [window | {"every_hours": 168, "until": f"2026-{until}T00:00Z"}]
    }


SUNSET = {"sunset_at": "2027-01-01T00:00:00Z"}
EARLIER = {"sunset_at": "2026-12-31T23:59:59Z"}
SOON = {"sunset_at": "2026-06-20T00:00:00Z"}
LATER = {"sunset_at": "2026-06-21T00:00:00Z"}
PAST = {"sunset_at": "2026-05-01T00:00:00Z"}
CLOSES = {"enforce_sunset": True}
REPORT, OLD, NEW = operation(), operation("old", "/old"), operation("new", "/new")
REPORT_N = operation(path="/Reports/{n}/", successor="/v2/{n}")
ME, USERS = operation("me", "/users/me", live=True), operation("user", "/users/{id}")
MINE = ME | {"live": False}
OLD_SLASH = OLD | {"name": "old/", "path": "/old/"}
ME_SLASH = ME | {"name": "me/", "path": "/users/me/"}
V1 = operation("v1", "/v1/**", method="*", successor="/v2/**")
V1_USER = operation("user", "/v1/users/{id}", method="*", successor="/v2/users/{id}")
HEALTH = operation("health", "/v1/health/**", method="*", live=True)


def query(*values: str, name: str = "query", **more: Any) -> dict[str, Any]:
    """Return an operation for some values of the parameter ``v``."""
    return operation(name, "/query", query={"v": [*values]}, **more)


# Operations before and after, and the codes with a notice of 30 days.
CASES: dict[str, tuple[list[Any], list[Any], list[str]]] = {
    "nothing": ([REPORT | SUNSET], [REPORT | SUNSET], []),
    "another name": ([REPORT | SUNSET], [REPORT | SUNSET | {"name": "other"}], []),
    "other parameters, letters and slash": (
        [REPORT | {"successor": "/v2/{id}"}],
        [REPORT_N],
        [],
    ),
    "nothing, of operations that differ in their slash": (
        [OLD | PAST | CLOSES, OLD_SLASH | SUNSET, ME_SLASH, MINE],
        [OLD | PAST | CLOSES, OLD_SLASH | SUNSET, ME_SLASH, MINE],
        [],
    ),
    "another order of values": ([query("1", "2")], [query("2", "1")], []),
    "an earlier sunset": ([REPORT | SUNSET], [REPORT | EARLIER], ["sunset-earlier"]),
    "an earlier sunset of an operation with another spelling": (
        [REPORT | SUNSET],
        [REPORT_N | EARLIER],
        ["sunset-earlier", "successor-changed"],
    ),
    "a later sunset that is soon": (
        [REPORT | SOON | CLOSES],
        [REPORT | LATER | CLOSES],
        [],
    ),
    "closed again": (
        [REPORT | PAST | CLOSES],
        [REPORT | SOON | CLOSES],
        ["notice-too-short"],
    ),
    "a first sunset that is soon": ([REPORT], [REPORT | SOON], []),
    "a first sunset that is soon and enforced": (
        [REPORT],
        [REPORT | SOON | CLOSES],
        ["enforcement-added", "notice-too-short"],
    ),
    "enforcement after the sunset": (
        [REPORT | PAST],
        [REPORT | PAST | CLOSES],
        ["enforcement-added", "already past"],
    ),
    "enforcement in time": (
        [REPORT | SUNSET],
        [REPORT | SUNSET | CLOSES],
        ["enforcement-added"],
    ),
    "a brownout": ([REPORT], [REPORT | brownout("07-01")], ["brownout-added"]),
    "a brownout that is soon": (
        [REPORT],
        [REPORT | brownout("06-10")],
        ["brownout-added", "notice-too-short"],
    ),
    "a brownout in the past": (
        [REPORT],
        [REPORT | brownout("05-10")],
        ["brownout-added", "already past"],
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
    "one brownout that repeats": (
        [REPORT | brownout("06-10")],
        [REPORT | repeat("06-10", "06-20")],
        ["brownout-added", "notice-too-short"],
    ),
    "one window of many": (
        [REPORT | repeat("06-10", "09-20")],
        [REPORT | brownout("07-08")],
        [],
    ),
    "another successor": (
        [REPORT | {"successor": "/a"}],
        [REPORT | {"successor": "/b"}],
        ["successor-changed"],
    ),
    "another path and another session for the application": (
        [REPORT],
        [REPORT | {"unify_session": True, "rewrite_path": True}],
        ["session-changed", "session-changed"],
    ),
    "another operation": ([REPORT], [REPORT, NEW], ["operation-added"]),
    "another operation that closes soon": (
        [REPORT],
        [REPORT, NEW | SOON | CLOSES],
        ["operation-added", "notice-too-short"],
    ),
    "another live operation": ([REPORT], [REPORT, ME], []),
    "removed without a sunset": ([REPORT, OLD], [REPORT], ["operation-removed"]),
    "removed after its sunset": ([REPORT, OLD | PAST], [REPORT], []),
    "made live": ([REPORT | SUNSET, USERS], [REPORT | {"live": True}, USERS], []),
    "another path of the same name": (
        [REPORT],
        [REPORT | {"path": "/x"}],
        ["operation-added", "operation-removed"],
    ),
    "a live operation is deprecated": ([USERS, ME], [USERS, MINE], ["live-removed"]),
    "a live operation is not listed any more": ([USERS, ME], [USERS], ["live-removed"]),
    "a live operation of nothing is not listed any more": ([REPORT, ME], [REPORT], []),
    "a live operation in other letters": (
        [REPORT, ME],
        [REPORT, ME | {"path": "/users/Me"}],
        [],
    ),
    "a part of a live subtree is deprecated, and closed": (
        [V1, HEALTH],
        [V1, HEALTH, NEW | PAST | CLOSES | {"path": "/v1/health/deep"}],
        ["live-removed", "already past"],
    ),
    "a live subtree is not listed any more": (
        [V1, HEALTH],
        [V1],
        ["live-removed"],
    ),
    "a subtree instead of its part": ([V1_USER], [V1], ["operation-added"]),
    "a part instead of its subtree": ([V1], [V1_USER], ["operation-removed"]),
    "a part that a subtree takes, which ends earlier": (
        [V1 | EARLIER, V1_USER | SUNSET],
        [V1 | EARLIER],
        ["sunset-earlier"],
    ),
    "a part of a subtree that ends earlier, with another successor": (
        [V1 | SUNSET],
        [V1 | SUNSET, V1_USER | EARLIER | {"successor": "/v3/{id}"}],
        ["sunset-earlier", "successor-changed"],
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
    "one value of a condition more": ([query("1")], [query("1", "2")], []),
    "other values of a condition": (
        [query("1")],
        [query("2")],
        ["operation-added", "operation-removed"],
    ),
    "a condition that another one includes, and that ends earlier": (
        [operation("q", "/query", headers={"V": "1"}) | SUNSET],
        [operation("q", "/query", headers={"V": "*"}) | EARLIER],
        ["operation-added", "sunset-earlier"],
    ),
}


@pytest.mark.parametrize(("old", "new", "codes"), CASES.values(), ids=CASES)
def test_each_change_for_callers_has_its_code(
    old: list[Any], new: list[Any], codes: list[str]
) -> None:
    before, after = (
        load_plan({"deprecated_at": "2026-01-01T00:00:00Z", "operations": operations})
        for operations in (old, new)
    )
    changes = compare_plans(before, after, at=NOW, min_notice=timedelta(days=30))
    assert [change.code for change in changes] == [
        "notice-too-short" if code == "already past" else code for code in codes
    ]
    # Without a least notice, only dates in the past are too early.
    without_notice = [change.code for change in compare_plans(before, after, at=NOW)]
    assert len(without_notice) == len(codes) - codes.count("notice-too-short")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            SOON | CLOSES,
            "the sunset of 20 Jun 2026, 00:00 UTC gives less than 30 days of notice",
        ),
        (PAST | CLOSES, "the sunset of 1 May 2026, 00:00 UTC is already past"),
        (
            brownout("06-02"),
            "the brownout of 2 Jun 2026, 09:00 UTC gives less than 30 days of notice",
        ),
    ],
)
def test_a_short_notice_says_which_date_is_too_early(
    change: dict[str, Any], words: str
) -> None:
    before, after = (
        load_plan({"deprecated_at": "2026-01-01T00:00:00Z", "operations": [table]})
        for table in (REPORT, REPORT | change)
    )
    changes = compare_plans(before, after, at=NOW, min_notice=timedelta(days=30))
    assert changes[-1].message == words


def test_new_windows_of_a_brownout_are_summed() -> None:
    before, after = (
        load_plan({"deprecated_at": "2026-01-01T00:00:00Z", "operations": [table]})
        for table in (REPORT, REPORT | repeat("07-01", "08-01"))
    )
    (change,) = compare_plans(before, after, at=NOW)
    assert change.message == (
        "responds 410 from 1 Jul 2026, 09:00 to 10:00 UTC, and in 4 later windows"
    )


@pytest.mark.slow
def test_the_work_on_a_comparison_grows_linearly() -> None:
    def make_plan(size: int) -> Any:
        operations = [
            operation(f"o{number}", f"/{number}/{{id}}", live=number % 2 == 0)
            for number in range(size)
        ]
        return load_plan(
            {"deprecated_at": "2026-01-01T00:00:00Z", "operations": operations}
        )

    def compare(plan: Any) -> None:
        compare_plans(plan, plan, at=NOW)

    assert grows_linearly(compare, make_plan)
