"""The verdict from access logs: what is a call in them, what is covered, and what makes
them doubtful.
"""

import gzip
import json
import lzma
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO, StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_notifications import load_plan
from flask_notifications.plans.operations import OperationTable
from flask_notifications.usage import OperationUsage, read_usage
from flask_notifications.usage.logs import _compile_filter
from tests.cli.commands import run
from tests.usage.databases import EXPORT, NOON, REPORT, Past, use

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = NOON - 30 * DAY - 12 * HOUR
PLAN: dict[str, Any] = {
    "deprecated_at": "2026-01-01T00:00:00Z",
    "operations": [
        {"name": "report", "method": "GET", "path": "/reports/{id}"},
        {"name": "latest", "method": "GET", "path": "/reports/latest", "live": True},
    ],
}
CONDITION: dict[str, Any] = {"name": "old", "method": "GET", "path": "/hg"}


def line(
    target: str,
    at: datetime = NOON - DAY,
    *,
    method: str = "GET",
    status: Any = 200,
    **values: str,
) -> str:
    user, agent = values.get("user", "-"), values.get("agent", "job/1 (linux)")
    request = values.get("request", f"{method} {target} HTTP/1.1")
    return f'10.0.0.7 - {user} [{at:%d/%b/%Y:%H:%M:%S +0000}] "{request}" {status} 12 "-" "{agent}"'


def quiet(since: datetime = START, until: datetime = NOON) -> list[str]:
    """Return a line for every half hour that is no call."""
    return [
        line("/quiet", since + number * HOUR / 2)
        for number in range(int((until - since) / HOUR * 2) + 1)
    ]


def read(
    *lines: str,
    plan: dict[str, Any] = PLAN,
    database: str | None = None,
    **options: Any,
) -> OperationUsage:
    stream = BytesIO("\n".join(lines).encode("latin-1"))
    report = read_usage(
        database, logs=[stream], plan=load_plan(plan), **({"until": NOON} | options)
    )
    return report.operations[0]


def with_operation(**keys: Any) -> dict[str, Any]:
    return PLAN | {"operations": [CONDITION | keys]}


CALLS: dict[str, tuple[str, tuple[int, int, int]]] = {
    "an answer": (line("/reports/7"), (1, 0, 0)),
    "a failure": (line("/reports/7", status=500), (0, 1, 0)),
    "without a status": (line("/reports/7", status="-"), (0, 1, 0)),
    "a 410 of the application": (line("/reports/7", status=410), (0, 1, 0)),
    "another letter case and a slash": (line("/REPORTS/7/?a=b"), (1, 0, 0)),
    "percent-encoded": (line("/%72eports/7"), (1, 0, 0)),
    "a lookalike": (line("//reports/7"), (1, 0, 0)),
    "a lookalike that the application does not know": (
        line("//reports/7", status=404),
        (0, 0, 0),
    ),
    "a HEAD": (line("/reports/7", method="HEAD"), (1, 0, 0)),
    "the absolute form": (line("http://example.com/reports/7"), (1, 0, 0)),
    "the absolute form without a host": (line("http:/reports/7"), (1, 0, 0)),
    "escaped by a server": (line("/reports/a\\x22b"), (1, 0, 0)),
    "a backslash that no server wrote": (line("/reports/a\\x2fb"), (1, 0, 0)),
    "a backslash that no encoder of JSON wrote": (
        line("/reports/a\\u002fb"),
        (1, 0, 0),
    ),
    "escaped by HAProxy": (line("/reports/#C3#A9"), (1, 0, 0)),
    "with a fragment": (line("/reports/7/#42"), (1, 0, 0)),
    "with more white space than there should be": (
        line("", request="GET  /reports/7/  http/1.1\t "),
        (1, 0, 0),
    ),
    "with a space": (line("/reports/a b"), (1, 0, 0)),
    "a method in lower case": (line("/reports/7", method="get"), (1, 0, 0)),
    "another method": (line("/reports/7", method="POST"), (0, 0, 0)),
    "a live operation": (line("/reports/latest"), (0, 0, 0)),
    "another path": (line("/reportsx/7"), (0, 0, 0)),
    "in the query only": (line("/quiet?next=/reports/7"), (0, 0, 0)),
    "after the window": (line("/reports/7", NOON + HOUR), (0, 0, 0)),
    "before the window": (line("/reports/7", START - HOUR), (0, 0, 0)),
    "no request at all": (line("", request="-", status=400), (0, 0, 0)),
    "another protocol": (line("", request="\\x16\\x03\\x01", status=400), (0, 0, 0)),
    "an empty line": ("  ", (0, 0, 0)),
    "from a Unix socket, without a host": (
        line("/reports/7").removeprefix("10.0.0.7"),
        (1, 0, 0),
    ),
}


@pytest.mark.parametrize(("entry", "counts"), CALLS.values(), ids=CALLS)
def test_a_line_counts_as_the_middleware_would_count_its_request(
    entry: str, counts: tuple[int, int, int]
) -> None:
    usage = read(*quiet(), entry)
    verdict = "in use" if any(counts) else "safe"
    assert ((usage.answered, usage.failed, usage.closed), usage.verdict) == (
        counts,
        verdict,
    )


def test_a_410_in_a_brownout_is_our_own() -> None:
    window = {"start": NOON - 25 * HOUR, "end": NOON - 23 * HOUR}
    plan = with_operation(brownouts=[window], path="/hg/{id}")
    usage = read(
        line("/hg/7", status=410), line("/hg/7", NOON - 3 * HOUR, status=410), plan=plan
    )
    assert (usage.closed, usage.failed) == (1, 1)


def test_the_user_is_the_caller_and_nothing_else_of_a_line_is_kept() -> None:
    plan, secret = with_operation(unify_session=True), "s3cret-session"
    named, others = (
        line(f"/hg?sessionId={secret}", user="team a"),
        [line("/hg", agent=a) for a in (f"{secret}/1", "-")],
    )
    usage = read(named, *others, plan=plan)
    found = {(each.caller, each.client, each.source) for each in usage.callers}
    assert found == {
        ("team a", "job/1", "query"),
        (None, "s3cret-session/1", None),
        (None, None, None),
    }
    assert (
        read(line(f"//hg?sessionId={secret}"), plan=plan).callers[0].source is None
    )  # of a lookalike, none is read
    assert (
        read(line(f"/hg?sessionId={secret}", user=secret, agent=secret), plan=plan)
        .callers[0]
        .caller
        is None
    )


@pytest.mark.parametrize(
    ("host", "user", "caller"),
    [
        ("10.0.0.7", "J\u00fcrgen".encode().decode("latin-1"), "J\u00fcrgen"),
        ("10.0.0.7", r"J\xC3\xBCrgen", "J\u00fcrgen"),
        ("10.0.0.7", "J\u00fcrgen", "J\u00fcrgen"),
        ("10.0.0.7", r"AD\\anna \"A\"", r'AD\anna "A"'),
        ("10.0.0.7", r"AD\anna", r"AD\anna"),
        ("10.0.0.7", "-x", "-x"),
        ("", "acme", "acme"),
        ("-", "acme", "acme"),
        ("www.example.com:80 10.0.0.7", "acme", "acme"),
        ("www.example.com:80 10.0.0.7", "-", None),
        ("10.0.0.7, 10.0.0.8", "acme", "acme"),
    ],
)
def test_a_caller_is_read_as_utf_8_after_any_host(
    host: str, user: str, caller: str | None
) -> None:
    usage = read(line("/reports/7", user=user).replace("10.0.0.7", host))
    assert [each.caller for each in usage.callers] == [caller]


@pytest.mark.parametrize(
    "start",
    ["10.0.0.7 - acme - team", "10.0.0.7 - - acme", "10.0.0.7 ident acme", "10.0.0.7"],
)
def test_a_line_whose_user_is_ambiguous_cannot_be_read(start: str) -> None:
    usage = read(*quiet(), line("/reports/7").replace("10.0.0.7 - -", start))
    assert (usage.calls, usage.reasons[0]) == (0, MAY_BE_A_CALL)


COVERAGE: dict[str, tuple[list[str], str]] = {
    "everything": (quiet(), ""),
    "in any order": (quiet()[::-1], ""),
    "nothing": ([], "nothing was recorded for this operation in the window"),
    "other days": (
        quiet(START - 9 * DAY, START - DAY),
        "nothing was recorded for this operation in the window",
    ),
    "a gap": (
        quiet(until=NOON - 3 * DAY) + quiet(NOON - 2 * DAY),
        "nothing was recorded for 24 hours, from 28 May",
    ),
    "an end before now": (
        quiet(until=NOON - 2 * HOUR),
        "nothing was recorded after 31 May 2026, 10:00 UTC",
    ),
}


@pytest.mark.parametrize(("lines", "reason"), COVERAGE.values(), ids=COVERAGE)
def test_the_time_without_long_gaps_between_lines_is_covered(
    lines: list[str], reason: str
) -> None:
    usage = read(*lines)
    assert usage.verdict == ("unknown" if reason else "safe")
    assert any(each.startswith(reason) for each in usage.reasons) or not reason
    assert (usage.coverage == 1) == (not reason)


@pytest.mark.parametrize("target", ["/quiet", "/reports/7"])
def test_a_line_later_than_now_makes_the_verdict_unknown(target: str) -> None:
    now = datetime.now(UTC)
    for until in (None, now):
        usage = read(
            *quiet(now - 31 * DAY, now), line(target, now + 2 * DAY), until=until
        )
        assert (usage.verdict, usage.coverage) == ("unknown", 1)
        assert usage.reasons[0].startswith("something was recorded later than now, on ")


def test_lines_may_be_written_while_logs_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "flask_notifications.usage.logs.monotonic", iter([0.0, 300.0]).__next__
    )
    now = datetime.now(UTC)
    assert (
        read(
            *quiet(now - 31 * DAY, now), line("/quiet", now + HOUR / 12), until=None
        ).verdict
        == "safe"
    )


def test_a_window_that_ends_in_the_future_proves_nothing() -> None:
    end = datetime.now(UTC) + 2 * DAY
    assert (
        "the window ends in the future"
        in read(*quiet(end - 32 * DAY, end), until=end).reasons
    )


def test_a_gap_is_more_than_an_hour_without_a_line() -> None:
    lines = quiet(until=NOON - 3 * HOUR) + quiet(NOON - 2 * HOUR)
    assert read(*lines).coverage == 1
    assert (
        read(
            *lines[:-5],
            *[line("/quiet", NOON - 2 * HOUR + timedelta(seconds=1)), *lines[-4:]],
        ).coverage
        < 1
    )


ANY_LIVE = PLAN | {
    "operations": [
        *PLAN["operations"],
        {"name": "all", "method": "*", "path": "/**", "live": True},
    ]
}
EXPORTS = PLAN | {"operations": [CONDITION | {"path": "/hg%C9/{id}/export"}]}
NONE = "no line in the logs is below the prefix: see --log-prefix"
BELOW = "1 line in the logs would be calls below a prefix only: --log-prefix"
MANY = "more than 1 % of the lines in the logs cannot be read: see --log-format"
MAY_BE_A_CALL = "a line in the logs that cannot be read may be a call of it"
OTHER, CALLED = line("/quiet"), line("/reports/7")
TO_THE_SIZE = OTHER.partition('"-"')[0]
PART = r'\[(?P<time>[^]]+)\] "(?P<method>\w+) (?P<target>\S+) HTTP/1.1" (?P<status>\d+)'
DOUBTS: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "1 % cannot be read": (["?"] * 14, {}, ""),
    "more cannot be read": (["?"] * 15, {}, MANY),
    "one that may be a call": (["GET /%52eports/7"], {}, MAY_BE_A_CALL),
    "a time that cannot be read": (
        [line("/reports/7").replace("/May/", "/Mai/")],
        {},
        MAY_BE_A_CALL,
    ),
    "a day that is not in the calendar": (
        [line("/reports/7").replace("30/May/", "39/May/")],
        {},
        MAY_BE_A_CALL,
    ),
    "a request that may be a call": (
        [line("", request="\\x16 /reports/", status=400)],
        {},
        MAY_BE_A_CALL,
    ),
    "a request that a copy of a log cuts off": (
        [CALLED.partition("orts/7")[0]],
        {},
        MAY_BE_A_CALL,
    ),
    "another request that a copy of a log cuts off": (
        [OTHER.partition("iet ")[0]],
        {},
        "",
    ),
    "a request that is none, and is answered": (
        [line("", request="\\x16", status=200)],
        {},
        "",
    ),
    "a call after a size": ([f"{TO_THE_SIZE}{CALLED}"], {}, MAY_BE_A_CALL),
    "a call within an agent": ([f'{TO_THE_SIZE}"-" "job{CALLED}'], {}, MAY_BE_A_CALL),
    "a call without a line feed before it": ([OTHER + CALLED], {}, MAY_BE_A_CALL),
    "a call that is cut, and a line": (
        [CALLED.partition(" HTTP")[0] + OTHER],
        {},
        MAY_BE_A_CALL,
    ),
    "a call before the part that is read": (
        [CALLED.partition(" 200")[0] + OTHER],
        {"log_format": PART},
        MAY_BE_A_CALL,
    ),
    "compressed lines after others": (["\x1f\x8b\x08"], {}, MAY_BE_A_CALL),
    "compressed lines after one without a line feed": (
        [f"{OTHER}\x1f\x8b\x08"],
        {},
        MAY_BE_A_CALL,
    ),
    "a path that is cut": ([line("/reports%REDACTED")], {}, MAY_BE_A_CALL),
    "an absolute form that is cut": (
        [line("http://example.com/reports%REDACTED")],
        {"log_prefix": "/"},
        MAY_BE_A_CALL,
    ),
    "a path that is cut after a parameter": (
        [line("/HG\u00c9/7;REDACTED")],
        {"plan": EXPORTS},
        MAY_BE_A_CALL,
    ),
    "a path that is cut after two slashes": (
        [line("/HG\u00c9//7;REDACTED")],
        {"plan": EXPORTS},
        MAY_BE_A_CALL,
    ),
    "a path that is cut below a prefix": ([line("/api/reports/7%REDACTED")], {}, BELOW),
    "a path that is cut below a prefix, in its first segment": (
        [line("/api/reports%REDACTED")],
        {},
        BELOW,
    ),
    "a path that is cut elsewhere": (
        [line("/other%REDACTED"), line("/reports/7/a/b%REDACTED")],
        {},
        "",
    ),
    "more members": (
        [
            f'{OTHER} 0.004 "10.0.0.8, -" unix:/run/app.sock\r',
            f"{OTHER} [reports-80] <7>",
        ],
        {},
        "",
    ),
    "more members with the name of a segment": (
        [f'{OTHER} 17 "http://reports:80" unix:/run/reports.sock'],
        {},
        "",
    ),
    "below a prefix": ([line("/api/reports/7")], {}, BELOW),
    "below a prefix, and any path is live": (
        [line("/api/reports/7")],
        {"plan": ANY_LIVE},
        BELOW,
    ),
    "below a prefix, at the root": ([line("/api/reports/7")], {"log_prefix": "/"}, ""),
    "elsewhere than the prefix": (
        [line("/apis/reports/7"), line("http://h/API")],
        {"log_prefix": "/api"},
        "",
    ),
    "all elsewhere than the prefix": (
        [CALLED, line("/apis/reports/7")],
        {"log_prefix": "/api"},
        NONE,
    ),
}


@pytest.mark.parametrize(("lines", "options", "reason"), DOUBTS.values(), ids=DOUBTS)
def test_what_logs_do_not_show_makes_the_verdict_unknown(
    lines: list[str], options: Any, reason: str
) -> None:
    usage = read(*quiet()[:1475], *lines, **options)
    assert usage.verdict == ("unknown" if reason else "safe")
    assert (
        usage.reasons[0].startswith(reason)
        if reason
        else all("cannot be read" in each for each in usage.reasons)
    )


@pytest.mark.parametrize(
    ("other", "verdict"), [(b"\n", "safe"), (lzma.compress(CALLED.encode()), "unknown")]
)
def test_a_log_without_a_line_that_can_be_read_may_be_that_of_another_host(
    other: bytes, verdict: str
) -> None:
    logs = [BytesIO("\n".join(quiet()).encode()), BytesIO(other)]
    (usage,) = read_usage(None, logs=logs, plan=load_plan(PLAN), until=NOON).operations
    assert usage.verdict == verdict
    assert ("no line of one of the logs can be read" in usage.reasons) is (
        verdict == "unknown"
    )


@pytest.mark.parametrize("name", ["caf%C3%A9", "CAF\u00c3\u00a9", r"caf\xC3\xA9"])
@pytest.mark.parametrize("start", ["GET /", f"{OTHER}GET /"])
def test_a_line_that_cannot_be_read_may_be_a_call_in_letters_that_are_not_ascii(
    name: str, start: str
) -> None:
    assert (
        read(
            *quiet(), f"{start}{name}/7", plan=with_operation(path="/caf%C3%A9/{id}")
        ).reasons[0]
        == MAY_BE_A_CALL
    )


def test_without_coverage_the_doubts_about_logs_are_among_the_reasons() -> None:
    nothing = "nothing was recorded for this operation in the window"
    assert read("GET /reports/7").reasons[:3] == (nothing, MANY, MAY_BE_A_CALL)


def test_lines_that_cannot_be_read_are_shown_whatever_the_verdict() -> None:
    assert read(*quiet(), "?").reasons == (
        "1 line of 1,466 in the logs cannot be read",
    )
    assert (
        "1 line of 2 in the logs cannot be read"
        in read("?", line("/reports/7")).reasons
    )


READINGS: dict[str, tuple[str, str, str | None]] = {
    "below a prefix": ("/api/reports/7", "/reports/7", "/api/"),
    "in another letter case, with two slashes": (
        "/API//reports/7",
        "/reports/7",
        "/api/",
    ),
    "with dot segments": ("//api/x/../reports/7", "/reports/7", "/api/"),
    "with dot segments before the prefix": (
        "/api/../api/reports/7",
        "/reports/7",
        "/api/",
    ),
    "the prefix alone": ("/api", "/", "/api/"),
    "below a prefix with a letter": (
        "/caf%C3%A9/reports/7",
        "/reports/7",
        "/caf\u00e9",
    ),
    "below a prefix that is percent-encoded": (
        "/caf%C3%A9/reports/7",
        "/reports/7",
        "/caf%C3%A9",
    ),
    "a URI within the path": (
        "/fetch/http://a.example",
        "/fetch/{scheme}/{host}",
        None,
    ),
    "without its slash": ("reports/7", "/reports/{id}", None),
    "without its slash, below the root": ("reports/7", "/reports/{id}", "/"),
    "a query without a path": ("?a=b", "/", None),
    "a query without a path, below the root": ("?a=b", "/", "/"),
}


@pytest.mark.parametrize(("target", "path", "prefix"), READINGS.values(), ids=READINGS)
def test_a_target_is_a_call_of_the_path(
    target: str, path: str, prefix: str | None
) -> None:
    assert (
        read(line(target), plan=with_operation(path=path), log_prefix=prefix).answered
        == 1
    )


def test_an_error_of_a_path_that_one_reading_spells_as_an_operation_is_a_call() -> None:
    assert read(line("/api//reports/7", status=404), log_prefix="/api").failed == 1


@pytest.mark.parametrize(
    "target",
    ["/caf%C3%A9", "/CAF%C3%A9/", "/caf%C3%83%C2%A9", "/caf\u00c3\u0083\u00c2\u00a9/"],
)
def test_utf_8_that_a_server_encodes_once_or_twice_is_read(target: str) -> None:
    page = {"name": "page", "method": "GET", "path": "/{page}", "live": True}
    plan = PLAN | {"operations": [CONDITION | {"path": "/caf%C3%A9"}, page]}
    usage = read(
        line(target), line("/na%C3%AFve"), line("/caf%E9"), plan=plan, log_prefix="/"
    )
    assert usage.answered == 1


def test_a_hash_sign_may_begin_a_fragment_or_the_digits_of_a_byte() -> None:
    me = {"name": "me", "method": "GET", "path": "/users/me"}
    plan = {**PLAN, "operations": [me, CONDITION | {"path": "/users/{id}"}]}
    assert MAY_BE_A_CALL in read(*quiet(), line("/users/me#FA"), plan=plan).reasons


def test_white_space_in_a_request_is_read_in_linear_time() -> None:
    start = time.process_time()
    read(
        line("", request=f"GET{' ' * 2_000}\\x0a"),
        line("", request=f"GET /{' ' * 40_000}x"),
    )
    read(OTHER + "/A" + "\tA" * 40_000)
    assert time.process_time() - start < 5


def test_conditions_on_the_query_are_in_logs_and_those_on_headers_are_not() -> None:
    plan = with_operation(query={"cmd": "heads"})
    assert read(*quiet(), line("/hg?cmd=other"), plan=plan).verdict == "safe"
    assert read(*quiet(), line("/hg?cmd=heads"), plan=plan).verdict == "in use"
    assert (
        read(*quiet(), line("/hg"), plan=plan)
        .reasons[0]
        .startswith("no line in the logs has a query")
    )
    assert read(*quiet(), line("/hg?REDACTED"), plan=plan).reasons[0] == MAY_BE_A_CALL
    assert read(*quiet(), line("/hg?REDACTED")).verdict == "safe"
    for keys in (
        {"headers": {"API-Version": "1"}},
        {"headers": {"API-Version": ["1", ""]}},
    ):
        usage = read(*quiet(), line("/hg"), plan=with_operation(**keys))
        assert usage.verdict == "unknown"
        assert (
            usage.reasons[0]
            == "logs do not show the headers that decide which requests match"
        )
    for keys in ({"headers": {"API-Version": "2"}}, {"query": {"cmd": ""}}):
        live = CONDITION | {"name": "live", "live": True} | keys
        assert (
            read(
                *quiet(), line("/hg"), plan=PLAN | {"operations": [CONDITION, live]}
            ).verdict
            == "unknown"
        )


def test_any_line_that_cannot_be_read_may_be_a_call_of_an_operation_without_a_literal() -> (
    None
):
    assert (
        read(*quiet(), "?", plan=with_operation(path="/{any}"), log_prefix="/").verdict
        == "in use"
    )
    assert (
        "may be a call"
        in read("?", *quiet(), plan=with_operation(path="/{any}/{other}")).reasons[0]
    )


JSON_LINE = r'"t": "(?P<time>[^"]+)", "m": "(?P<method>\w+)", "u": "(?P<target>[^"]+)", "s": (?P<status>\d+)'


def read_json(
    target: str = "/reports/7", time: str = "2026-05-30T10:00:00Z", **options: Any
) -> OperationUsage:
    return read(
        f'{{"t": "{time}", "m": "GET", "u": "{target}", "s": 200}}',
        log_format=JSON_LINE,
        **options,
    )


@pytest.mark.parametrize(
    "time",
    [
        "2026-05-30T12:00+02:00",
        "2026-05-30T10:00:00.123Z",
        "30/May/2026:12:00:00 +0200",
    ],
)
def test_any_other_format_is_read_by_a_regular_expression(time: str) -> None:
    usage = read_json(time=time)
    assert (usage.answered, usage.last_at) == (1, datetime(2026, 5, 30, 10, tzinfo=UTC))


@pytest.mark.parametrize(
    "time",
    [
        "2026-05-30T12:00",
        "9999-12-31T23:59-01:00",
        "30/May/2026:12:00:xx +0200",
        "30/May",
    ],
)
def test_a_time_without_an_offset_cannot_be_read(time: str) -> None:
    usage = read_json(time=time)
    assert (usage.answered, usage.verdict) == (0, "unknown")


def test_escapes_of_json_are_read_and_others_may_hide_a_call() -> None:
    assert read_json(r"\/reports\/7").answered == 1
    assert (
        read_json(
            r"/hg?a=b\u0026cmd=heads", plan=with_operation(query={"cmd": "heads"})
        ).answered
        == 1
    )
    other = read_json(r"/hg?cmd=\u00e9", plan=with_operation(query={"cmd": "\u00e9"}))
    assert (other.answered, MAY_BE_A_CALL in other.reasons) == (0, True)
    usage = read_json(r"/\ufffdreports/7")
    assert (usage.answered, MAY_BE_A_CALL in usage.reasons) == (0, True)
    assert MAY_BE_A_CALL not in read_json(r"/\ufffd").reasons


@pytest.mark.parametrize(
    ("entry", "failed", "is_readable"),
    [
        ("2026-05-30T12:00:00Z GET /reports/7", 1, True),
        ("2026-05-30T12:00:00Z - 408", 0, True),
        ("2026-05-30T12:00:00Z - 200", 0, False),
        ("2026-05-30T12:00:00Z - 400 /reports/7", 0, False),
        ("2026-05-30T12:00:00Z /reports/7 200", 0, False),
        ("- GET /reports/7 500", 0, False),
    ],
)
def test_a_line_of_another_format_may_lack_parts_of_it(
    entry: str, failed: int, is_readable: bool
) -> None:
    optional = r"(?:(?P<time>\S+Z)|-) (?:(?:(?P<method>[A-Z]+) )?(?P<target>/\S+)|-)(?: (?P<status>\d+))?"
    usage = read(entry, log_format=optional)
    assert (
        usage.failed,
        not any("cannot be read" in each for each in usage.reasons),
    ) == (failed, is_readable)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"log_format": "("}, "log_format"),
        ({"log_format": "(?P<time>.)"}, "log_format"),
        ({"log_format": 7}, "log_format"),
        ({"log_prefix": "api"}, "log_prefix"),
        ({"log_prefix": "/api?"}, "log_prefix"),
        ({"log_prefix": "/\udcff"}, "log_prefix"),
        ({"logs": []}, "database"),
        ({"logs": "access.log"}, "logs"),
        ({"logs": 7}, "logs"),
        ({"logs": [StringIO()]}, "logs"),
        ({"logs": [b"access.log"]}, "logs"),
        ({"plan": None}, "plan"),
    ],
)
def test_a_wrong_argument_is_named(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(ValueError, match=f"^{argument} must be "):
        read_usage(None, **({"logs": [BytesIO()], "plan": load_plan(PLAN)} | options))


def test_with_a_database_logs_count_for_the_time_before_the_first_recorder(
    file: str,
) -> None:
    middle = NOON - 10 * DAY
    past = Past(file, REPORT)
    past.cover(middle, NOON)
    past.call(NOON - HOUR, use("recorded/1"), use())
    past.write()
    plan = with_operation(name="report", path="/report")
    lines = [*quiet(), line("/report", middle - HOUR), line("/report", middle + HOUR)]
    for service in (None, ""):
        usage = read(*lines, plan=plan, database=file, service=service)
        assert [(each.client, each.calls) for each in usage.callers] == [
            ("job/1", 2),
            ("recorded/1", 1),
        ]
        assert (usage.first_at, usage.last_at) == (middle - HOUR, NOON - HOUR)
        assert (usage.coverage, read(plan=plan, database=file).coverage < 0.5) == (
            1,
            True,
        )
    past.cover(middle, NOON, EXPORT, service="warehouse")
    assert read(*lines, plan=plan, database=file).coverage == 1


def test_calls_that_only_the_logs_have_although_a_recorder_had_begun_make_the_verdict_unknown(
    file: str,
) -> None:
    plan = with_operation(name="report", path="/report")
    past = Past(file, REPORT)
    past.cover(START, NOON)
    past.call(NOON - HOUR, use("probe/1", "watchdog"))
    past.write()
    for agent, verdict in {"probe/1": "safe", "-": "safe", "job/1": "unknown"}.items():
        entry = line("/report", NOON - HOUR, agent=agent)
        assert (
            read(entry, plan=plan, database=file, ignore_callers=["watchdog"]).verdict
            == verdict
        )
    both = [line("/report", NOON - HOUR, agent=agent) for agent in ("probe/1", "-")]
    assert (
        read(*both, plan=plan, database=file, ignore_callers=["watchdog"]).verdict
        == "unknown"
    )


def test_a_log_that_is_cut_off_or_very_long_is_no_proof(tmp_path: Path) -> None:
    content = gzip.compress("\n".join([*quiet(), line("/reports/7")]).encode())
    plan = load_plan(PLAN)
    (whole := tmp_path / "access.log.1.gz").write_bytes(content)
    assert read_usage(None, logs=[whole], plan=plan, until=NOON).verdict == "in use"
    (broken := tmp_path / "access.log.2.gz").write_bytes(content[:-20])
    (damaged := tmp_path / "access.log.3.gz").write_bytes(content[:-8] + bytes(8))
    for log, name in (
        (broken, r"access\.log\.2\.gz"),
        (damaged, r"log\.3\.gz"),
        (BytesIO(content[:-20]), "a log"),
    ):
        with pytest.raises(OSError, match=f"{name} is not a complete gzip file"):
            read_usage(None, logs=[log], plan=plan)
    reader, writer = os.pipe2(os.O_NONBLOCK)
    with (
        os.fdopen(writer, "wb"),
        os.fdopen(reader, "rb", 0) as empty,
        pytest.raises(BlockingIOError, match="not wait"),
    ):
        read_usage(None, logs=[empty], plan=plan)
    assert (
        read("x" * 3_000_000).reasons[-1] == "3 lines of 3 in the logs cannot be read"
    )


PATHS = st.text(
    st.sampled_from("/.reportsREPORTSlatest7;%\u0131\u017f \\#:?v1"), max_size=24
) | st.sampled_from(["/v1/reports", "/reports", "/x/Reports/7", "/reports;x/7"])


@given(path=PATHS)
def test_no_part_of_a_path_that_is_passed_over_is_an_operation(path: str) -> None:
    plan = load_plan(PLAN)
    table, sent = (
        OperationTable(plan),
        path.encode().decode("latin-1").partition("?")[0],
    )
    if not _compile_filter(plan)(sent):
        assert not any(
            table.find("GET", sent[place:])
            for place, own in enumerate(sent)
            if own == "/" or not place
        )


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., list[Any]]:
    def write(*lines: str) -> list[Any]:
        (tmp_path / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
        (tmp_path / "access.log").write_text("\n".join(lines), encoding="utf-8")
        return [
            "--log",
            tmp_path / "access.log",
            "--plan",
            tmp_path / "plan.json",
            "--until",
            NOON.isoformat(),
        ]

    return write


def test_the_command_reads_each_log_once_and_shows_its_progress(
    files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = files(*quiet(), line("/reports/7", user="acme"))
    outcome = run("usage", *options, *options[:2])
    assert (outcome.code, outcome.err) == (3, "")
    assert run("usage", *options, "--caller", "acme").out.startswith(
        "acme: an operation that you call"
    )
    assert "1 call, the last on 30 May 2026" in outcome.out
    assert run("usage", *files(*quiet())).code == 0
    assert run("usage", *files(*quiet(), line("/x/reports/7"))).code == 4
    monkeypatch.setattr(
        sys.modules["flask_notifications.cli.usage"], "is_watched", lambda: True
    )
    assert run("usage", *options).err == "Reading logs\n"
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=BytesIO(line("/reports/7").encode()))
    )
    assert run("usage", "--log", "-", *options[2:]).code == 3


def test_wrong_arguments_of_the_command_are_named(
    files: Callable[..., list[Any]], tmp_path: Path
) -> None:
    options = files("?")
    assert "give a DATABASE, or access logs with --log" in run("usage").err
    assert "--log needs --plan" in run("usage", *options[:2]).err
    (tmp_path / "access.log").write_bytes(b"\x1f\x8b\x08")
    outcome = run("usage", *options)
    assert outcome.code == 1
    assert outcome.err.startswith(
        f"Error: {tmp_path / 'access.log'} is not a complete gzip file: "
    )
