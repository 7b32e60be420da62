"""What a notice says about the end of an operation, about brownouts and about what to
call instead.
"""

from dataclasses import replace

import pytest

from flask_notifications import (
    DeprecationPolicy,
    Exemption,
    Operation,
    notification_operations,
)
from flask_notifications.formats.migration import Migration
from flask_notifications.formats.notice import describe_notice
from flask_notifications.usage import CallerUsage, DayUsage
from tests.pages.reports import (
    NOW,
    brownout,
    caller,
    coverage,
    operation_usage,
    policy,
    report,
    utc,
)

TODAY = DayUsage(NOW.date(), 1, 0, 0, 0)
CALLED = caller("acme", "job/1", [TODAY])
REPORT = Operation("report", "GET", "/reports/{id}", "/v2/reports/{id}")
NEXT = "The next brownout is 1 Dec 2026, 09:00 to 09:30 UTC, in 9 days."
NONE = "No brownout is planned for you."
MIDDLE = "The next brownout is 2 Dec 2026, 00:00 to 12 Dec 2026, 00:00 UTC, in 9 days."


def migration_of(
    policy: DeprecationPolicy, operation: Operation, called: CallerUsage = CALLED
) -> Migration:
    """Return what a notice says to a caller about an operation."""
    usage = operation_usage(operation.name, [called], coverage(30))
    notice = describe_notice(report(usage), {operation: policy}, "acme")
    assert notice is not None
    (migration,) = notice.migrations
    return migration


def sentences(policy: DeprecationPolicy, operation: Operation = REPORT) -> list[str]:
    """Return what a notice says about an operation, without the line about its calls."""
    return list(migration_of(policy, operation).sentences[1:])


def until(policy: DeprecationPolicy, *date: int) -> DeprecationPolicy:
    return replace(policy, exemptions=[Exemption("acme", utc(*date), "why")])


PLANNED = brownout(utc(2026, 12, 1, 9))
OPEN = policy(utc(2027, 1, 1), PLANNED)
ENFORCED = policy(utc(2027, 1, 1), PLANNED, enforce_sunset=True)
RUNNING = policy(utc(2027, 1, 1), brownout(NOW))
LONG = policy(utc(2027, 1, 1), brownout(utc(2026, 11, 22), 20 * 1440))
LATE = policy(utc(2026, 11, 1))
OVER = policy(utc(2026, 11, 1), enforce_sunset=True)


NOVEMBER, JANUARY = "Sunday, 1 November 2026", "Friday, 1 January 2027"
ENDS = {
    "no date": (policy(None), "It has no date yet on which it ends.", NONE),
    "not enforced": (OPEN, "From then on, it may stop working at any time.", NEXT),
    "enforced": (
        ENFORCED,
        f"It ends on {JANUARY}, in 39 days. From then on, every request gets 410 Gone.",
        NEXT,
    ),
    "over, not enforced": (
        LATE,
        f"Its sunset was on {NOVEMBER}. It may stop working at any time.",
        NONE,
    ),
    "over": (OVER, f"It ended on {NOVEMBER}. Every request gets 410 Gone.", None),
    "over, but exempt": (
        until(OVER, 2026, 12, 9),
        "It ends on Wednesday, 9 December 2026, in 16 days.",
        NONE,
    ),
    "in the last brownout": (
        RUNNING,
        f"It ends on {JANUARY}",
        "A brownout is running until 22 Nov 2026, 17:30 UTC.",
    ),
    "exempt no more": (until(OVER, 2026, 11, 2), f"It ended on {NOVEMBER}.", None),
    "exempt until then": (until(ENFORCED, 2026, 11, 30), f"It ends on {JANUARY}", NEXT),
    "exempt until the middle of a brownout": (
        until(LONG, 2026, 12, 2),
        f"It ends on {JANUARY}",
        MIDDLE,
    ),
    "exempt": (
        until(ENFORCED, 2026, 12, 9),
        "An exemption lets you through until 9 December 2026.",
        NONE,
    ),
}


@pytest.mark.parametrize(("planned", "end", "window"), ENDS.values(), ids=ENDS)
def test_a_notice_says_when_an_operation_ends(
    planned: DeprecationPolicy, end: str, window: str | None
) -> None:
    first, *others = sentences(planned)
    assert end in first
    if window is None:
        assert others == []
    else:
        assert others[0].startswith(window)


@pytest.mark.parametrize(
    ("method", "path", "first"),
    [
        (
            "*",
            "/v1/**",
            "It means requests to /v1 and to paths below it, with any method.",
        ),
        ("GET", "/**", "It means GET requests to / and to paths below it."),
        ("*", "/old", "It means requests to /old, with any method."),
        ("GET", "/old", "It ends on Friday, 1 January 2027, in 39 days."),
    ],
)
def test_a_notice_says_what_the_signs_of_a_plan_mean(
    method: str, path: str, first: str
) -> None:
    assert sentences(OPEN, Operation("report", method, path))[0].startswith(first)


@pytest.mark.parametrize(
    ("operation", "last"),
    [
        (
            Operation("report", "GET", "/old"),
            "It has no successor. Remove the call, or ask for a replacement.",
        ),
        (Operation("report", "GET", "/old", "urn:new"), "Call urn:new instead."),
        (
            notification_operations()[0],
            "Move the session ID from the URL into the Authorization header, because URLs are logged.",
        ),
    ],
)
def test_a_notice_says_what_to_call_instead(operation: Operation, last: str) -> None:
    assert sentences(OPEN, operation)[-1] == last


@pytest.mark.parametrize(
    ("source", "is_told", "url"),
    [
        ("query", True, "/API/Notification/?sessionId=SESSION_ID"),
        ("header", False, "/API/Notification/"),
    ],
)
def test_a_notice_has_the_session_where_the_caller_sends_it(
    source: str, is_told: bool, url: str
) -> None:
    called = caller("acme", "job/1", [TODAY], source=source)
    migration = migration_of(OPEN, notification_operations()[0], called)
    assert ("Move the session ID" in migration.sentences[-1]) == is_told
    assert migration.before.url.endswith(url)
    credential = ("Authorization", "Bearer SESSION_ID")
    assert (credential in migration.before.headers) != is_told


def test_a_notice_counts_refused_calls_apart() -> None:
    called = caller("acme", None, [DayUsage(NOW.date(), 1, 2, 3, 4)])
    counts = "2 calls got 401 or 403, and 3 calls failed, and 4 calls got 410 Gone."
    assert migration_of(OPEN, REPORT, called).sentences[0].endswith(counts)


def test_a_notice_counts_calls_of_a_log_only_if_none_is_recorded() -> None:
    logged = caller("acme", "job/1", [TODAY], source="log")
    for called in ([CALLED, logged], [logged]):
        usage = operation_usage("report", called, coverage(30))
        notice = describe_notice(report(usage), {REPORT: OPEN}, "acme")
        assert notice is not None
        (migration,) = notice.migrations
        assert migration.sentences[0].startswith("You called it 1 time from ")


def test_a_notice_has_every_operation_that_the_caller_calls() -> None:
    export = Operation("export", "GET", "/export")
    callers = [CALLED, caller("zebra", None, [TODAY])]
    usages = []
    for operation in (REPORT, export):
        usages.append(operation_usage(operation.name, callers, coverage(30)))
    plan = {REPORT: OPEN, export: OPEN}
    notice = describe_notice(report(*usages), plan, "acme")
    assert notice is not None
    assert notice.title == "acme: 2 operations that you call are being retired"
    assert notice.sentences[0].endswith(
        " your own values in place of https://api.example.com, ID."
    )
    assert [migration.operation for migration in notice.migrations] == [REPORT, export]
    for migration in notice.migrations:
        assert migration.sentences[0].startswith(
            "You called it 1 time from 23 October "
        )
