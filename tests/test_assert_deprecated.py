"""The check for hosts that an answer announces the retirement, on the responses of four libraries."""

from datetime import UTC, datetime
from typing import Any

import django.http
import flask
import httpx
import pytest
import requests
import werkzeug

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.deprecation import Announcement
from flask_notifications.testing import assert_deprecated, parse_deprecation, parse_sunset

POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2027, 7, 1, tzinfo=UTC),
    documentation="https://example.com/retire",
)
REPORT = Operation("report", "GET", "/report", successor="/v2/report")
LINES = Announcement(POLICY, REPORT.successor).lines("")

Lines = list[tuple[str, str]]


def joined(lines: Lines) -> dict[str, str]:
    """Return the fields as libraries hold them that know one value of a name."""
    fields: dict[str, str] = {}
    for name, value in lines:
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def of_werkzeug(lines: Lines) -> Any:
    return werkzeug.Response(headers=lines)


def of_requests(lines: Lines) -> Any:
    response = requests.Response()
    response.headers.update(joined(lines))
    return response


def of_httpx(lines: Lines) -> Any:
    return httpx.Response(200, headers=lines)


def of_django(lines: Lines) -> Any:
    return django.http.HttpResponseBase(headers=joined(lines), content_type="text/plain", charset="utf-8")


@pytest.fixture(params=[of_werkzeug, of_requests, of_httpx, of_django])
def response_of(request: pytest.FixtureRequest) -> Any:
    return request.param


def without(name: str) -> Lines:
    return [line for line in LINES if line[0] != name]


def test_what_the_middleware_sends_passes(response_of: Any) -> None:
    assert_deprecated(response_of(LINES), POLICY, REPORT)


def test_links_of_the_applications_own_are_none_of_its_business(response_of: Any) -> None:
    assert_deprecated(response_of([("Link", '</next>; rel="next"'), *LINES]), POLICY, REPORT)


def test_a_flask_client_under_the_middleware_passes_with_its_mount_and_base_url() -> None:
    app = flask.Flask("host")
    app.add_url_rule("/report", "report", lambda: "ok")
    app.wsgi_app = DeprecationMiddleware(  # type: ignore[method-assign]
        app.wsgi_app, POLICY, operations=[REPORT], base_url="https://api.example"
    )
    answer = app.test_client().get("/report", environ_overrides={"SCRIPT_NAME": "/a b"})
    assert_deprecated(answer, POLICY, REPORT, base_url="https://api.example", mount="/a%20b")


@pytest.mark.parametrize(
    ("lines", "differs"),
    [
        pytest.param([], "Deprecation", id="nothing"),
        pytest.param(without("Deprecation"), "Deprecation", id="no deprecation"),
        pytest.param(without("Sunset"), "Sunset", id="no sunset"),
        pytest.param(without("Link"), "Link", id="no links"),
        pytest.param([*LINES, ("Deprecation", "@1767225600")], "Deprecation", id="deprecation twice"),
        pytest.param([*without("Deprecation"), ("Deprecation", "true")], "Deprecation", id="an old draft's true"),
        pytest.param([*without("Deprecation"), ("Deprecation", "@1767225601")], "Deprecation", id="a second off"),
        pytest.param([*without("Sunset"), ("Sunset", "Fri, 01 Jul 2027 00:00:00 GMT")], "Sunset", id="wrong weekday"),
        pytest.param([*without("Sunset"), ("Sunset", "Fri, 02 Jul 2027 00:00:00 GMT")], "Sunset", id="another day"),
        pytest.param([*LINES, *[line for line in LINES if line[0] == "Link"]], "Link", id="links twice"),
        pytest.param([*LINES[:-1]], "Link", id="a link missing"),
    ],
)
def test_what_differs_is_said(response_of: Any, lines: Lines, differs: str) -> None:
    with pytest.raises(AssertionError, match=differs):
        assert_deprecated(response_of(lines), POLICY, REPORT)


def test_a_sunset_that_the_policy_does_not_have_is_too_much(response_of: Any) -> None:
    policy = DeprecationPolicy(deprecated_at=POLICY.deprecated_at, documentation=POLICY.documentation)
    with pytest.raises(AssertionError, match="Sunset"):
        assert_deprecated(response_of(LINES), policy, REPORT)


def test_an_operation_without_a_successor_or_pages_has_no_links(response_of: Any) -> None:
    policy = DeprecationPolicy(deprecated_at=POLICY.deprecated_at)
    assert_deprecated(response_of([("Deprecation", "@1767225600")]), policy, Operation("x", "GET", "/x"))


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("@0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("@-0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("@-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("@1688169599", datetime(2023, 6, 30, 23, 59, 59, tzinfo=UTC)),
        ("  @1688169599 ", datetime(2023, 6, 30, 23, 59, 59, tzinfo=UTC)),
        ("@-62135596800", datetime(1, 1, 1, tzinfo=UTC)),
        ("@253402300799", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_a_structured_field_date_is_read(value: str, date: datetime) -> None:
    assert parse_deprecation(value) == date


@pytest.mark.parametrize(
    "value",
    [
        "",
        "@",
        "@-",
        "@ 1",
        "@+1",
        "@1.5",
        "@1659578233.12",
        "@abc",
        "@1234567890123456",
        "@999999999999999",
        "1688169599",
        "true",
        "?1",
        '"@1"',
        "@1, @2",
        "@1;a",
        "@1\n",
        "@\u0661",
        "Sun, 30 Jun 2024 23:59:59 GMT",
    ],
)
def test_anything_else_is_no_structured_field_date(value: str) -> None:
    with pytest.raises(AssertionError, match="Deprecation"):
        parse_deprecation(value)


def test_an_imf_fixdate_is_read() -> None:
    assert parse_sunset("Wed, 11 Nov 2026 11:11:11 GMT") == datetime(2026, 11, 11, 11, 11, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "Sun, 30 Jun 2024 23:59:59 UTC",
        "Sat, 31 Dec 2018 23:59:59 GMT",
        "Wed, 1 Nov 2026 11:11:11 GMT",
        "Wed, 11 Nov 2026 11:11:11 +0000",
        "Wednesday, 11-Nov-26 11:11:11 GMT",
        "Wed Nov 11 11:11:11 2026",
        "Wed, 31 Nov 2026 11:11:11 GMT",
        "Wed, 11 Nov 2026 25:11:11 GMT",
        "2026-11-11T11:11:11Z",
        "wed, 11 nov 2026 11:11:11 gmt",
        "",
    ],
)
def test_anything_else_is_no_imf_fixdate(value: str) -> None:
    with pytest.raises(AssertionError, match="Sunset"):
        parse_sunset(value)
