"""Who is calling: labels that identify returns to the entry points and the middleware,
and exemptions.
"""

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock
from wsgiref.types import WSGIEnvironment

import pytest
from werkzeug.local import LocalProxy

from flask_notifications import (
    AccessDenied,
    Brownout,
    Call,
    DeprecationMiddleware,
    DeprecationPolicy,
    Exemption,
    NotificationApp,
    Operation,
    notification_operations,
)
from flask_notifications.observers import basic_user
from tests.middleware import PATH, Spy
from tests.storages import (
    ACCOUNT,
    BEARER,
    CURRENT_USER,
    ENTRY_POINTS,
    SESSION_ID,
    OneSession,
    OneUnit,
    raising,
)
from tests.test_config import make_member
from tests.wsgi import Response, call, environ_of, plain_app, run

KEY = "flask_notifications.caller"


def send_get(identify: Any, storage: Any = None, **extra: Any) -> Response:
    app = NotificationApp(storage or OneSession(), identify=identify)
    return run(app, environ_of("GET", CURRENT_USER, **BEARER | extra))


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", CURRENT_USER), ("POST", ACCOUNT.format("a"))]
)
def test_a_caller_is_labelled_once_per_request(
    entry_point: Any, method: str, path: str
) -> None:
    identify = Mock(return_value="team of alice")
    app = entry_point(OneSession(), identify=identify)
    response = run(app, environ_of(method, path, **BEARER))
    assert (response.code, response.environ[KEY]) == (200, "team of alice")
    identify.assert_called_once_with("alice")


@pytest.mark.parametrize(
    ("failure", "code"), [(AccessDenied(), 403), (ValueError(), 500)], ids=repr
)
@pytest.mark.parametrize("storage", [OneSession, OneUnit])
def test_the_label_is_set_on_error_responses(
    failure: Exception, code: int, storage: Callable[..., Any]
) -> None:
    response = send_get(str.upper, storage(raising(failure)))
    assert (response.code, response.environ[KEY]) == (code, "ALICE")


def test_without_a_known_caller_there_is_no_label() -> None:
    identify = Mock()
    for header in ("", "Bearer", "Bearer unknown"):
        assert KEY not in send_get(identify, HTTP_AUTHORIZATION=header).environ
    identify.assert_not_called()


@pytest.mark.parametrize("label", ["x" * 65, 7, f"of {SESSION_ID}"], ids=ascii)
def test_any_other_label_of_an_entry_point_is_dropped(label: Any) -> None:
    response = send_get(lambda _caller: label)
    assert response.code == 200
    assert KEY not in response.environ


def test_a_label_of_the_application_is_kept_unless_identify_returns_one() -> None:
    for identify, label in (
        (None, "existing"),
        (lambda _caller: None, "existing"),
        (str.upper, "ALICE"),
    ):
        assert send_get(identify, **{KEY: "existing"}).environ[KEY] == label


async def identify_asynchronously(_caller: object) -> str:
    return "later"


@pytest.mark.parametrize("identify", [identify_asynchronously, "acme"], ids=type)
def test_an_identify_that_cannot_label_a_caller_is_refused(identify: Any) -> None:
    for entry_point in ENTRY_POINTS.values():
        with pytest.raises(ValueError, match=r"^identify must be an ordinary function"):
            entry_point(OneSession(), identify=identify)
    with pytest.raises(ValueError, match=r"^identify must be an ordinary function"):
        wrap(identify=identify)


SUNSET = "Fri, 01 Jan 2027 00:00:00 GMT"
LATER = "Mon, 01 Mar 2027 00:00:00 GMT"
HOUR, TICK = timedelta(hours=1), timedelta(microseconds=1)


def date(year: int, month: int, day: int = 1) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


WINDOW = Brownout(date(2026, 11), date(2026, 11, 2))
UNTIL = date(2027, 3)
ACME = Exemption("acme", UNTIL, "contract until March")
CLOSING = DeprecationPolicy(
    deprecated_at=date(2026, 1),
    sunset_at=date(2027, 1),
    brownouts=[WINDOW],
    enforce_sunset=True,
    exemptions=[ACME, Exemption("brief", WINDOW.start + HOUR, "for an hour")],
)
REPORT = Operation("report", "GET", "/reports/{id}", "/v2/reports/{id}")


def wrap(
    app: Any = None, at: datetime = WINDOW.start, plan: Any = None, **options: Any
) -> DeprecationMiddleware:
    options = {
        "clock": lambda: at,
        "identify": lambda environ: environ.get("HTTP_X_CALLER"),
        **options,
    }
    return DeprecationMiddleware(
        plain_app() if app is None else app, plan or {REPORT: CLOSING}, **options
    )


NO_LABELS: list[Any] = [
    "",
    " ",
    "\u3164",
    "\u2800 ",
    "\u0301",
    "x" * 65,
    "a\nb",
    "\u2028",
]
NO_LABELS += ["\ud800", "\u200b", 7, b"acme", ["acme"], "of s3cret-id"]


# Without backslashes, which pytest would escape anew at each collection.
NAMES = [ascii(label).replace("\\", "") for label in NO_LABELS]


@pytest.mark.parametrize("label", NO_LABELS, ids=NAMES)
def test_any_other_label_is_dropped(label: Any) -> None:
    calls: list[Call] = []
    spy = Spy()
    june = date(2026, 6)
    app = wrap(spy, june, identify=lambda _environ: label, observers=[calls.append])
    assert call(app, "GET", "/reports/7", "sessionId=s3cret-id").code == 200
    assert KEY not in spy.seen
    assert calls[0].caller is None


@pytest.mark.parametrize(
    "failure",
    [ValueError("s3cret-id"), "promise"],
    ids=["raises", "promises"],
)
def test_an_identify_that_fails_is_logged_without_its_message(
    failure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def identify(_environ: WSGIEnvironment) -> Any:
        if failure == "promise":
            return identify_asynchronously("acme")
        raise failure

    app = wrap(identify=identify)
    assert call(app, "GET", "/reports/7", "sessionId=s3cret-id").code == 410
    (record,) = caplog.records
    assert record.getMessage().startswith("identify: builtins.")
    assert "s3cret-id" not in caplog.text


def test_an_identify_of_an_entry_point_that_fails_is_logged_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    response = send_get(raising(ValueError(SESSION_ID)))
    assert response.code == 200
    assert KEY not in response.environ
    (record,) = caplog.records
    assert record.getMessage().startswith("identify: builtins.ValueError")
    assert SESSION_ID not in caplog.text


def test_a_credential_of_another_scheme_is_no_session_id() -> None:
    calls: list[Call] = []

    def identify(environ: WSGIEnvironment) -> str:
        return str(environ["HTTP_AUTHORIZATION"]).removeprefix("ApiKey ")

    app = wrap(identify=identify, observers=[calls.append])
    key = {"HTTP_AUTHORIZATION": "ApiKey acme", "HTTP_USER_AGENT": "acme-client/1"}
    assert call(app, "GET", "/reports/7", **key).code == 200
    assert (calls[0].caller, calls[0].client) == ("acme", "acme-client/1")


def test_an_exemption_needs_identify() -> None:
    expected = r"^identify must be a function, because \['report'\] has exemptions"
    with pytest.raises(ValueError, match=expected):
        wrap(identify=None)


@pytest.mark.parametrize(
    ("replaced", "counted"),
    [("x" * 64, "x" * 64), ("x" * 65, "acme"), ("of s3cret-id", "acme")],
)
def test_the_application_may_replace_the_label_but_not_the_exemption(
    replaced: str, counted: str
) -> None:
    calls: list[Call] = []
    seen: list[str] = []

    def app(environ: WSGIEnvironment, start_response: Any) -> Any:
        seen.append(environ[KEY])
        body = plain_app()(environ, start_response)
        environ[KEY] = replaced
        return body

    wrapped = wrap(app, observers=[calls.append])
    query = "sessionId=s3cret-id"
    response = call(wrapped, "GET", "/reports/7", query, HTTP_X_CALLER="acme")
    assert (response.code, response.one("Sunset")) == (200, LATER)
    assert seen == ["acme"]
    assert (calls[0].caller, calls[0].phase) == (counted, "deprecated")


@pytest.mark.parametrize(
    "label", ["acme", make_member("acme")], ids=["a string", "an Enum"]
)
def test_a_label_outlives_the_proxy_that_held_it(label: str) -> None:
    held, calls = [label], list[Call]()
    for identify in (
        lambda _environ: LocalProxy(lambda: held[0]),
        lambda _environ: label,
    ):
        call(wrap(identify=identify, observers=[calls.append]), "GET", "/reports/7")
    held.clear()
    assert (calls[0].caller, calls[1].caller) == ("acme", "acme")


def test_identify_gets_a_copy_of_the_environ_of_matched_requests_only() -> None:
    asked: list[str] = []

    def identify(environ: WSGIEnvironment) -> str:
        asked.append(environ["PATH_INFO"])
        # As Request classes of frameworks do.
        environ["PATH_INFO"] = environ["new"] = "/changed"
        return "acme"

    spy = Spy()
    for path in ("/live", "/reports/7"):
        call(wrap(spy, identify=identify), "GET", path)
        assert (spy.seen["PATH_INFO"], "new" in spy.seen) == (path, False)
    assert asked == ["/reports/7"]


def test_a_label_of_the_application_exempts_nobody() -> None:
    spy = Spy()
    assert call(wrap(spy), "GET", "/reports/7", **{KEY: "acme"}).code == 410
    assert not spy.calls


@pytest.mark.parametrize("inner", ["inner", None])
@pytest.mark.parametrize("outer", ["outer", None])
def test_two_middlewares_identify_for_themselves(
    outer: str | None, inner: str | None
) -> None:
    calls: list[Call] = []
    june = date(2026, 6)
    options: Any = {"at": june, "observers": [calls.append]}
    app = wrap(identify=lambda _environ: inner, **options)
    app = wrap(app, identify=lambda _environ: outer, **options)
    call(app, "GET", "/reports/7")
    assert {seen.caller for seen in calls} == {outer, inner}


# The time, the caller, and the response: its phase, its Sunset and its Cache-Control.
EXEMPTIONS: dict[str, tuple[datetime, str, str, str, list[str]]] = {
    "before all": (date(2025, 12), "acme", "announced", LATER, ["private"]),
    "in a brownout": (WINDOW.start, "acme", "deprecated", LATER, ["private"]),
    "its last moment": (UNTIL - TICK, "acme", "deprecated", LATER, ["private"]),
    "its end": (UNTIL, "acme", "sunset", SUNSET, ["no-store"]),
    "one that ends early": (WINDOW.start, "brief", "deprecated", SUNSET, ["private"]),
    "in lower case": (WINDOW.start, "Acme", "brownout", SUNSET, ["no-store"]),
    "another caller": (date(2026, 10), "other", "deprecated", SUNSET, []),
}


@pytest.mark.parametrize("case", EXEMPTIONS)
def test_a_caller_is_let_through_until_a_date(case: str) -> None:
    at, caller, phase, sunset, caching = EXEMPTIONS[case]
    calls: list[Call] = []
    app = wrap(at=at, observers=[calls.append])
    response = call(app, "GET", "/reports/7", HTTP_X_CALLER=caller)
    assert (response.code == 410) == (phase in {"brownout", "sunset"})
    assert response.one("Sunset") == sunset
    assert response.all("Cache-Control") == caching
    assert (calls[0].phase, calls[0].caller) == (phase, caller)


def test_a_lookalike_of_an_exempt_caller_reaches_the_application() -> None:
    spy = Spy()
    assert call(wrap(spy), "GET", "//reports/7", HTTP_X_CALLER="acme").code == 200
    assert call(wrap(spy), "GET", "//reports/7").code == 410
    assert len(spy.calls) == 1


def test_without_a_sunset_an_exemption_announces_none() -> None:
    policy = DeprecationPolicy(
        deprecated_at=date(2026, 1), brownouts=[WINDOW], exemptions=[ACME]
    )
    app = wrap(plan={REPORT: policy})
    response = call(app, "GET", "/reports/7", HTTP_X_CALLER="acme")
    assert (response.code, response.all("Sunset")) == (200, [])


def test_an_exempt_caller_of_the_two_operations_still_needs_a_session() -> None:
    plan = dict.fromkeys(notification_operations(), CLOSING)
    app = wrap(plan=plan, require_session=True)
    response = call(app, "GET", PATH, HTTP_X_CALLER="acme")
    assert (response.code, response.one("Cache-Control")) == (401, "no-store")
    response = call(app, "GET", PATH, "sessionId=s", HTTP_X_CALLER="acme")
    assert (response.code, response.one("Sunset")) == (200, LATER)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("caller", ""),
        ("caller", None),
        ("until", datetime(2027, 3, 1)),  # noqa: DTZ001 - the mistake
        ("until", "2027-03-01"),
        ("reason", " \n"),
        ("reason", None),
    ],
)
def test_an_exemption_is_checked_when_it_is_built(name: str, value: Any) -> None:
    values = {"caller": "acme", "until": UNTIL, "reason": "why", name: value}
    with pytest.raises(ValueError, match=f"^{name} must"):
        Exemption(**values)


def basic(credential: bytes) -> str:
    return f"Basic {b64encode(credential).decode()}"


@pytest.mark.parametrize(
    ("header", "user"),
    [
        (basic(b"alice:").replace("Basic ", "bAsIc  "), "alice"),
        (basic(b"a:b:c"), "a"),
        (basic(b"M\xc3\xbcller:x"), "M\u00fcller"),
        (basic(b"M\xfcller:x"), "M\u00fcller"),
        (basic(b"alice"), None),
        (basic(b":s3cret-id"), None),
        (basic(b"alice:s3cret-id").replace("Basic", "Bearer"), None),
        ("Basic", None),
        ("Basic !YTpi", None),
        ("Basic YWxpY2U6eA", None),
        ("Basic \u00e9", None),
    ],
)
def test_the_user_of_http_basic(header: str, user: str | None) -> None:
    assert basic_user(environ_of(HTTP_AUTHORIZATION=header)) == user
    assert basic_user(environ_of()) is None


def test_no_shared_cache_stores_the_response_to_an_exempt_caller() -> None:
    headers = [("cdn-cache-control", "max-age=60"), ("Surrogate-Control", "max-age=60")]
    app = plain_app("200 OK", [*headers, ("Cache-Control", "public, max-age=5")])
    wrapped = wrap(app, date(2026, 2))
    response = call(wrapped, "GET", "/reports/7", HTTP_X_CALLER="acme")
    assert not response.all("CDN-Cache-Control") + response.all("Surrogate-Control")
    assert "private" in response.one("Cache-Control")
    response = call(wrapped, "GET", "/reports/7", HTTP_X_CALLER="other")
    assert response.headers[1:3] == headers
    assert response.one("Cache-Control") == "public, max-age=5"


@pytest.mark.parametrize("name", ["clock", "identify"])
def test_a_failure_is_logged_when_the_session_has_been_moved(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    environ = environ_of("GET", PATH, "sessionId=s3cret-id")
    queries = []

    def note(_record: object) -> bool:
        queries.append(environ["QUERY_STRING"])
        return True

    caplog.handler.addFilter(note)
    plan = dict.fromkeys(notification_operations(), CLOSING)
    failing: dict[str, Any] = {name: raising(LookupError())}
    run(wrap(plan=plan, **failing), environ)
    assert len(queries) == 1
    assert "s3cret" not in queries[0]
