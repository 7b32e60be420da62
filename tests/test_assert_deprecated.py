"""``assert_deprecated`` with the responses of four libraries, and the parsers of the two date headers."""

from datetime import UTC, datetime
from typing import Any

import django.http
import flask
import httpx
import pytest
import requests
import werkzeug

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.deprecation import DeprecationHeaders
from flask_notifications.testing import assert_deprecated, parse_deprecation, parse_sunset

POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2027, 7, 1, tzinfo=UTC),
    documentation="https://example.com/retire",
)
REPORT = Operation("report", "GET", "/report", successor="/v2/report")
ANNOUNCED = DeprecationHeaders(POLICY).render(REPORT.successor, "")

Headers = list[tuple[str, str]]


def join_values(headers: Headers) -> dict[str, str]:
    """Return the headers as in libraries with one value per name."""
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def werkzeug_response(headers: Headers) -> Any:
    return werkzeug.Response(headers=headers)


def requests_response(headers: Headers) -> Any:
    response = requests.Response()
    response.headers.update(join_values(headers))
    return response


def httpx_response(headers: Headers) -> Any:
    return httpx.Response(200, headers=headers)


def django_response(headers: Headers) -> Any:
    return django.http.HttpResponseBase(headers=join_values(headers), content_type="text/plain", charset="utf-8")


@pytest.fixture(params=[werkzeug_response, requests_response, httpx_response, django_response])
def response_of(request: pytest.FixtureRequest) -> Any:
    return request.param


def without(name: str) -> Headers:
    """Return the announced headers except those with a name."""
    return [header for header in ANNOUNCED if header[0] != name]


def test_the_headers_of_the_middleware_pass(response_of: Any) -> None:
    assert_deprecated(response_of(ANNOUNCED), POLICY, REPORT)


def test_the_applications_own_links_are_ignored(response_of: Any) -> None:
    assert_deprecated(response_of([("Link", '</next>; rel="next"'), *ANNOUNCED]), POLICY, REPORT)


def test_a_response_of_a_flask_client_passes_with_its_mount_and_base_url() -> None:
    app = flask.Flask("app")
    app.add_url_rule("/report", "report", lambda: "ok")
    app.wsgi_app = DeprecationMiddleware(  # type: ignore[method-assign]
        app.wsgi_app, POLICY, operations=[REPORT], base_url="https://api.example"
    )
    response = app.test_client().get("/report", environ_overrides={"SCRIPT_NAME": "/a b"})
    assert_deprecated(response, POLICY, REPORT, base_url="https://api.example", mount="/a%20b")


@pytest.mark.parametrize(
    ("headers", "differs"),
    [
        pytest.param([], "Deprecation", id="nothing"),
        pytest.param(without("Deprecation"), "Deprecation", id="no deprecation"),
        pytest.param(without("Sunset"), "Sunset", id="no sunset"),
        pytest.param(without("Link"), "Link", id="no links"),
        pytest.param([*ANNOUNCED, ("Deprecation", "@1767225600")], "Deprecation", id="deprecation twice"),
        pytest.param([*without("Deprecation"), ("Deprecation", "true")], "Deprecation", id="an old draft's true"),
        pytest.param([*without("Deprecation"), ("Deprecation", "@1767225601")], "Deprecation", id="another second"),
        pytest.param([*without("Sunset"), ("Sunset", "Fri, 01 Jul 2027 00:00:00 GMT")], "Sunset", id="wrong weekday"),
        pytest.param([*without("Sunset"), ("Sunset", "Fri, 02 Jul 2027 00:00:00 GMT")], "Sunset", id="another day"),
        pytest.param([*ANNOUNCED, *[header for header in ANNOUNCED if header[0] == "Link"]], "Link", id="links twice"),
        pytest.param(ANNOUNCED[:-1], "Link", id="a link missing"),
    ],
)
def test_the_error_names_the_header_that_differs(response_of: Any, headers: Headers, differs: str) -> None:
    with pytest.raises(AssertionError, match=differs):
        assert_deprecated(response_of(headers), POLICY, REPORT)


def test_a_plan_may_be_passed_for_the_policy(response_of: Any) -> None:
    live = Operation("live", "GET", "/report/live")
    plan = {REPORT: POLICY, live: None}
    assert_deprecated(response_of(ANNOUNCED), plan, REPORT)
    assert_deprecated(response_of([]), plan, live)
    with pytest.raises(AssertionError, match="Deprecation"):
        assert_deprecated(response_of(ANNOUNCED), plan, live)


def test_an_operation_that_the_plan_lacks_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^operation must be an operation of the plan"):
        assert_deprecated(werkzeug_response([]), {}, REPORT)


def test_a_sunset_that_the_policy_does_not_have_is_an_error(response_of: Any) -> None:
    policy = DeprecationPolicy(deprecated_at=POLICY.deprecated_at, documentation=POLICY.documentation)
    with pytest.raises(AssertionError, match="Sunset"):
        assert_deprecated(response_of(ANNOUNCED), policy, REPORT)


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
def test_anything_else_is_not_a_structured_field_date(value: str) -> None:
    with pytest.raises(ValueError, match="Deprecation"):
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
def test_anything_else_is_not_an_imf_fixdate(value: str) -> None:
    with pytest.raises(ValueError, match="Sunset"):
        parse_sunset(value)
