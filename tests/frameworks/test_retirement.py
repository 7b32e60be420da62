"""Operations of all frameworks are retired the same way, and a session ID in a request is not touched."""

import json
import os
import runpy
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib import import_module
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from wsgiref.util import FileWrapper

import pytest

from flask_notifications import Brownout, DeprecationMiddleware, DeprecationPolicy, Operation, Use
from tests.frameworks.applications import (
    APPLICATIONS,
    METHODS,
    PAGES,
    PARTS,
    PRODUCED,
    TARGET,
    Witness,
    application_of,
    library,
)
from tests.wsgi import Response, between_validators, call, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

WINDOW = Brownout(datetime(2026, 9, 1, 8, tzinfo=UTC), datetime(2026, 9, 1, 10, tzinfo=UTC))
POLICY, KEPT = (
    DeprecationPolicy(
        deprecated_at=datetime(2026, 3, 1, tzinfo=UTC),
        sunset_at=datetime(2026, 12, 1, tzinfo=UTC),
        documentation="/docs/reports",
        sunset_documentation="https://example.com/policy",
        brownouts=[WINDOW],
        enforce_sunset=enforced,
    )
    for enforced in (True, False)
)
OPERATIONS = (
    *(Operation(f"report-{method}", method, "/reports/{id}", "/v2/reports") for method in METHODS),
    Operation("items", "GET", "/reports/items/", "/v2/reports"),  # spelled as in the routers
)
ANNOUNCED = [
    ("Deprecation", "@1772323200"),
    ("Sunset", "Tue, 01 Dec 2026 00:00:00 GMT"),
    ("Link", '</v2/reports>; rel="successor-version"'),
    ("Link", '</docs/reports>; rel="deprecation"; type="text/html"'),
    ("Link", '<https://example.com/policy>; rel="sunset"; type="text/html"'),
]


class Moment(NamedTuple):
    """A time, and the policy that applies at that time."""

    at: datetime
    policy: DeprecationPolicy = POLICY


TICK = timedelta(microseconds=1)
OPEN = {
    "announced": Moment(POLICY.deprecated_at - TICK),
    "deprecated": Moment(POLICY.deprecated_at),
    "just before the brownout": Moment(WINDOW.start - TICK),
    "after the brownout": Moment(WINDOW.end),
    "long past a sunset that is not enforced": Moment(datetime(2040, 1, 1, tzinfo=UTC), KEPT),
}
CLOSED = {
    "brownout": Moment(WINDOW.end - timedelta(seconds=90.5)),
    "sunset": Moment(datetime(2026, 12, 1, tzinfo=UTC)),
}
DEPRECATED = OPEN["deprecated"]

PROPAGATES_A_CRASH = {"bare", "pyramid"}

# Parts of a request that a notification operation would have read, moved or masked.
SECRET = "s3cret"  # noqa: S105 - not a real one
QUERY = f"a=1&sessionId={SECRET}"
WITH_SESSION = {
    "HTTP_AUTHORIZATION": "Basic dTpw",
    "HTTP_REFERER": f"http://api.example/start?{QUERY}",
    "RAW_URI": f"/reports/x?{QUERY}",
    "REQUEST_URI": f"/reports/x?{QUERY}",
}

every_application = pytest.mark.parametrize("name", APPLICATIONS)
every_page = pytest.mark.parametrize("page", PAGES)
every_closed_moment = pytest.mark.parametrize("code", CLOSED)


def retire(app: "WSGIApplication", moment: Moment = DEPRECATED, **options: Any) -> "WSGIApplication":
    def wrap(app: "WSGIApplication") -> "WSGIApplication":
        arguments = {"operations": OPERATIONS, "clock": lambda: moment.at, **options}
        return DeprecationMiddleware(app, moment.policy, **arguments)

    return between_validators(wrap, app)


def page_environ() -> "WSGIEnvironment":
    """Return the environ keys that the pages need; the page ``moved`` redirects to a matched one."""
    return {
        PRODUCED: [],
        TARGET: "/reports/cookies",
        "wsgi.errors": StringIO(),
        "wsgi.file_wrapper": FileWrapper,
        **WITH_SESSION,
    }


def ask(app: "WSGIApplication", path: str, method: str = "GET", query: str = QUERY, **extra: Any) -> Response:
    return call(app, method, path, query, **{**page_environ(), **extra})


def without_date(response: Response) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return the status, the headers and the body of a response, without the ``Date`` that some applications add."""
    return response.status, [header for header in response.headers if header[0].lower() != "date"], response.body


def with_announcement(response: Response) -> tuple[str, list[tuple[str, str]], bytes]:
    status, headers, body = without_date(response)
    return status, [*headers, *ANNOUNCED], body


# While the operation works.


@every_application
@every_page
def test_a_response_is_unchanged_but_for_the_announcement_in_every_open_phase(name: str, page: str) -> None:
    plain = ask(application_of(name), f"/reports/{page}")
    assert plain.code == PAGES[page]
    for moment in OPEN.values():
        assert without_date(ask(retire(application_of(name), moment), f"/reports/{page}")) == with_announcement(plain)


@every_application
@every_page
def test_a_response_to_head_announces_too(name: str, page: str) -> None:
    response = ask(retire(application_of(name)), f"/reports/{page}", "HEAD")
    assert without_date(response) == with_announcement(ask(application_of(name), f"/reports/{page}", "HEAD"))


@every_application
def test_a_redirect_of_a_router_that_requires_a_slash_announces_too(name: str) -> None:
    # "/reports/{id}" matches the path without a slash too, and the routers redirect that.
    reports = [Operation("report", "GET", "/reports/{id}", "/v2/reports")]
    response, plain = (
        ask(retire(application_of(name), operations=reports), "/reports/items"),
        ask(application_of(name), "/reports/items"),
    )
    assert response.code in {301, 307, 308}
    assert response.one("Location").partition("?")[2] == QUERY
    assert without_date(response) == with_announcement(plain)


@every_application
def test_a_response_to_a_crash_announces_unless_the_framework_propagates_it(name: str) -> None:
    uses: list[Use] = []
    app = retire(application_of(name), observers=[uses.append])
    if name in PROPAGATES_A_CRASH:
        with pytest.raises(RuntimeError, match="on purpose"):
            ask(app, "/reports/crash")
    else:
        response = ask(app, "/reports/crash")
        assert response.code == 500
        assert without_date(response) == with_announcement(ask(application_of(name), "/reports/crash"))
    assert [use.status for use in uses] == [None if name in PROPAGATES_A_CRASH else 500]


@every_application
@pytest.mark.parametrize("method", METHODS)
def test_the_application_gets_the_body_with_any_method(name: str, method: str) -> None:
    # The applications accept every method for a page at the root.
    operations = [Operation("report", method, "/{id}", "/v2/reports")]

    def send(app: "WSGIApplication") -> Response:
        body = f"sessionId={SECRET}".encode()
        form: dict[str, Any] = {"CONTENT_TYPE": "application/x-www-form-urlencoded", "wsgi.input": BytesIO(body)}
        return ask(app, "/q3", method, CONTENT_LENGTH=str(len(body)), **form)

    response = send(retire(application_of(name), operations=operations))
    assert response.json["body"] == f"sessionId={SECRET}"
    assert without_date(response) == with_announcement(send(application_of(name)))


@every_application
@pytest.mark.parametrize("page", ["items/", "stream", "file", "unchanged", "gone"])
def test_the_server_gets_the_applications_own_iterable(name: str, page: str) -> None:
    witness, environ = Witness(application_of(name)), environ_of("GET", f"/reports/{page}", QUERY, **page_environ())
    app = DeprecationMiddleware(witness, POLICY, operations=OPERATIONS)
    body: Any = app(environ, lambda *_arguments: lambda _data: None)
    assert body is witness.bodies[0]
    assert isinstance(body, FileWrapper) == (page == "file")
    if page == "stream":
        assert next(iter(body)) == PARTS[0]
        assert environ[PRODUCED] == [PARTS[0]]
    if hasattr(body, "close"):
        body.close()


# What the application sees.


@every_application
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/reports/cookies", id="as it is spelled"),
        pytest.param("/REPORTS/cookies/", id="in capitals and with a slash"),
        pytest.param("/Reports/Q3;v=\xc3\xa4 %", id="with a parameter of other bytes"),
    ],
)
@pytest.mark.parametrize(
    ("query", "authorization"),
    [
        pytest.param(QUERY, "Basic dTpw", id="one session"),
        pytest.param(f"{QUERY}&SESSIONID=other", f"Bearer {SECRET}", id="contradictory sessions"),
        pytest.param("&sessionId=%00&&", "Bearer", id="broken sessions"),
    ],
)
def test_the_application_sees_the_request_unchanged(name: str, path: str, query: str, authorization: str) -> None:
    witness = Witness(application_of(name))
    environ = environ_of("GET", path, query, **{**page_environ(), "HTTP_AUTHORIZATION": authorization})
    before = dict(environ)
    run(DeprecationMiddleware(witness, POLICY, operations=OPERATIONS), environ)
    (seen,) = witness.environs
    assert seen == {**before, "flask_notifications.operation": seen["flask_notifications.operation"]}
    # The server logs from its own environ, so that is unchanged too.
    assert {key: environ[key] for key in WITH_SESSION} == {key: before[key] for key in WITH_SESSION}
    assert environ["QUERY_STRING"] == query


@every_application
def test_headers_about_caching_are_unchanged(name: str) -> None:
    for query, authorization in ((QUERY, ""), ("", f"Bearer {SECRET}"), (f"{QUERY}&sessionId=x", "Bearer")):
        response = ask(retire(application_of(name)), "/reports/file", query=query, HTTP_AUTHORIZATION=authorization)
        plain = ask(application_of(name), "/reports/file", query=query, HTTP_AUTHORIZATION=authorization)
        for header in ("Vary", "Cache-Control", "Referrer-Policy", "WWW-Authenticate"):
            assert response.all(header) == plain.all(header)


# While the operation is closed.


@every_application
@every_closed_moment
@pytest.mark.parametrize("method", METHODS)
def test_a_refused_request_never_reaches_the_application(name: str, code: str, method: str) -> None:
    witness = Witness(application_of(name))
    app = retire(witness, CLOSED[code])
    responses = [ask(app, f"/reports/{page}", method) for page in (*PAGES, "crash", "Q3/")]
    responses.append(ask(app, "/REPORTS/q3", method, f"{QUERY}&sessionId=other", HTTP_AUTHORIZATION="Bearer"))
    assert witness.environs == []
    assert all(response.wire == responses[0].wire for response in responses)
    check_closed(responses[0], code)


def check_closed(response: Response, code: str) -> None:
    assert response.status == "410 Gone"
    assert response.headers[-len(ANNOUNCED) :] == ANNOUNCED
    assert response.all("Retry-After") == {"brownout": ["91"], "sunset": []}[code]  # rounded up
    assert response.all("Cache-Control") == ["no-store"]
    assert response.one("Content-Type") == "application/problem+json"
    assert response.one("Content-Length") == str(len(response.body))
    assert (response.json["status"], response.json["code"], response.json["successor"]) == (410, code, "/v2/reports")
    assert response.all("WWW-Authenticate") == response.all("Referrer-Policy") == []
    assert SECRET not in repr(response.wire)


@every_application
@every_closed_moment
def test_head_gets_the_same_410_without_a_body(name: str, code: str) -> None:
    witness = Witness(application_of(name))
    app = retire(witness, CLOSED[code])
    whole, head = ask(app, "/reports/items/"), ask(app, "/reports/items/", "HEAD")
    assert (head.status, head.headers, head.body) == (whole.status, whole.headers, b"")
    assert witness.environs == []


@every_application
@every_closed_moment
def test_requests_to_other_paths_are_unchanged(name: str, code: str) -> None:
    at, policy = CLOSED[code]
    witness = Witness(application_of(name))
    app = DeprecationMiddleware(witness, policy, operations=OPERATIONS, clock=lambda: at)
    for path in (*(f"/new/{page}" for page in PAGES), "/q3", "/reports/", "/reports/a/b", "/reportsX/cookies"):
        environ = environ_of("GET", path, QUERY, **page_environ())
        before = dict(environ)
        assert without_date(run(app, environ)) == without_date(ask(application_of(name), path))
        assert witness.environs.pop() == before
        assert witness.environs == []


@every_application
@every_closed_moment
@pytest.mark.parametrize("gone", ["POST", "PUT", "PATCH", "DELETE"])
def test_one_method_is_switched_off_and_the_others_keep_working(name: str, code: str, gone: str) -> None:
    app = retire(application_of(name), CLOSED[code], operations=[Operation("report", gone, "/{id}")])
    for method in METHODS:
        response, plain = ask(app, "/q3", method), ask(application_of(name), "/q3", method)
        assert response.code == (410 if method == gone else 200)
        assert (without_date(response) == without_date(plain)) == (method != gone)


@every_application
def test_an_operation_changes_its_phase_with_the_clock_alone(name: str) -> None:
    moments = [OPEN["announced"], DEPRECATED, CLOSED["brownout"], OPEN["after the brownout"], CLOSED["sunset"]]
    clock, uses, witness = iter(moments), list[Use](), Witness(application_of(name))
    app = retire(witness, clock=lambda: next(clock).at, observers=[uses.append])
    responses = [ask(app, "/reports/cookies") for _moment in moments]
    assert [response.code for response in responses] == [200, 200, 410, 200, 410]
    assert [use.phase for use in uses] == ["announced", "deprecated", "brownout", "deprecated", "sunset"]
    assert {(use.operation, use.source) for use in uses} == {("report-GET", None)}
    assert all(response.headers[-len(ANNOUNCED) :] == ANNOUNCED for response in responses)
    assert len(witness.environs) == 3


@every_application
def test_two_middlewares_around_one_application_act_independently(name: str) -> None:
    later = DeprecationPolicy(deprecated_at=datetime(2030, 1, 1, tzinfo=UTC))
    gone = [Operation("cookies", "GET", "/reports/cookies")]
    inner = DeprecationMiddleware(application_of(name), later, operations=OPERATIONS)
    app = retire(inner, CLOSED["sunset"], operations=gone)
    assert ask(app, "/reports/cookies").code == 410
    response = ask(app, "/reports/file")
    assert (response.code, response.all("Deprecation"), response.all("Sunset")) == (200, ["@1893456000"], [])
    assert ask(app, "/new/file").all("Deprecation") == []


# A Django project in its own process, because a process has only one configuration of Django.

# What `startproject` writes, and the lines that retire an operation.
WSGI_PY = """
import json
import os
from pathlib import Path

from django.core.wsgi import get_wsgi_application
from flask_notifications import DeprecationMiddleware, Operation, load_policy

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
operations = [Operation("report", "GET", "/reports/{id}/", successor="/v2/reports/")]
policy = load_policy(json.loads(Path(__file__).with_name("retirement.json").read_text(encoding="utf-8")))
application = DeprecationMiddleware(get_wsgi_application(), policy, operations=operations)
"""

YEARS = [("Deprecation", "@1577836800"), ("Sunset", "Fri, 01 Jan 2021 00:00:00 GMT")]
LINKS = [
    ("Link", '</v2/reports/>; rel="successor-version"'),
    ("Link", '</retirement>; rel="deprecation"; type="text/html"'),
]
DATES = {"deprecated_at": "2020-01-01T00:00:00Z", "sunset_at": "2021-01-01T00:00:00Z", "documentation": "/retirement"}
LONG = [{"start": "2020-01-01T00:00:00Z", "end": "9999-01-01T00:00:00Z"}]
PAST = [{"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"}]
FUTURE = {"deprecated_at": "9999-01-01T00:00:00Z", "documentation": "/retirement"}

# The same project with different configurations: the headers that it sends, and the code of its 410.
STAGES: dict[str, tuple[dict[str, Any], list[tuple[str, str]], str | None]] = {
    "announced": (FUTURE, [("Deprecation", "@253370764800"), *LINKS], None),
    "deprecated": (DATES, [*YEARS, *LINKS], None),
    "in a brownout": ({**DATES, "brownouts": LONG}, [*YEARS, *LINKS], "brownout"),
    "after a brownout": ({**DATES, "brownouts": PAST}, [*YEARS, *LINKS], None),
    "switched off": ({**DATES, "enforce_sunset": True}, [*YEARS, *LINKS], "sunset"),
    "switched on again": ({**DATES, "enforce_sunset": False}, [*YEARS, *LINKS], None),
}
# Method, path and query; then the status while the view works.
REQUESTS = {
    "report": ("GET", "/reports/q3/", QUERY, 200),
    "in another spelling": ("GET", "/Reports/q3", QUERY, 404),  # no route of Django, but announced
    "head": ("HEAD", "/reports/q3/", "", 200),
    "no such report": ("GET", "/reports/none/", "", 404),
}
NEIGHBOURS = {
    "another method": ("POST", "/reports/q3/", QUERY, 200),
    "without a report": ("GET", "/reports/", "", 404),
    "notifications": ("GET", "/api/notification/", QUERY, 404),  # not retired here, and Django distinguishes case
    "notifications as spelled": ("GET", "/API/Notification/", QUERY, 200),
}


@pytest.mark.slow
@pytest.mark.parametrize(("configuration", "lines", "code"), STAGES.values(), ids=STAGES)
def test_a_django_project_retires_a_view_by_configuration(
    configuration: dict[str, Any], lines: list[tuple[str, str]], code: str | None, tmp_path: Path
) -> None:
    library("django")
    (tmp_path / "retirement.json").write_text(json.dumps(configuration), encoding="utf-8")
    (tmp_path / "wsgi.py").write_text(WSGI_PY, encoding="utf-8")
    seen = run_project(tmp_path / "wsgi.py")
    for request, (_method, _path, _query, status) in REQUESTS.items():
        response = seen["responses"][request]
        assert response["status"] == (410 if code else status), request
        assert response["headers"][-len(lines) :] == [list(line) for line in lines], request
    for request, (_method, _path, _query, status) in NEIGHBOURS.items():
        assert seen["responses"][request]["status"] == status
        assert not {"Deprecation", "Sunset", "Link"} & dict(seen["responses"][request]["headers"]).keys()
    check_views(seen, code)


def check_views(seen: dict[str, Any], code: str | None) -> None:
    """Check the calls of the view, and that it got the query unchanged."""
    report = seen["responses"]["report"]["body"]
    if code:
        assert json.loads(report)["code"] == code
    else:
        assert report == f"report q3 for {QUERY}"
    calls = ["POST q3"] if code else ["GET q3", "HEAD q3", "GET none", "POST q3"]
    assert seen["calls"] == calls
    assert json.loads(seen["responses"]["notifications as spelled"]["body"]) == [{"session": True}]


def run_project(wsgi_py: Path) -> dict[str, Any]:
    """Run the project in its own process and return its responses and the calls of its view."""
    root = Path(__file__).parents[2]
    paths = os.pathsep.join(
        [str(root / "tests" / "frameworks" / "django_project"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    environ = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    child = subprocess.run(
        [sys.executable, "-m", "tests.frameworks.test_retirement", str(wsgi_py)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**environ, "PYTHONPATH": paths},
    )
    assert child.returncode == 0, child.stderr
    result: dict[str, Any] = json.loads(child.stdout)
    return result


# The functions below run in the project's own process.


def visit(wsgi_py: str) -> dict[str, Any]:
    calls: list[str] = []
    urls: Any = import_module("mysite.urls")
    urls.urlpatterns.append(library("django.urls").path("reports/<slug:report>/", report_view(calls)))
    application = runpy.run_path(wsgi_py)["application"]
    responses = {}
    for request, (method, path, query, _status) in {**REQUESTS, **NEIGHBOURS}.items():
        response = call(application, method, path, query, **WITH_SESSION, **{"wsgi.errors": StringIO()})
        responses[request] = {"status": response.code, "headers": response.headers, "body": response.body.decode()}
    return {"responses": responses, "calls": calls}


def report_view(calls: list[str]) -> Any:
    http = library("django.http")

    def view(request: Any, report: str) -> Any:
        calls.append(f"{request.method} {report}")
        if report == "none":
            raise http.Http404
        return http.HttpResponse(f"report {report} for {request.META['QUERY_STRING']}")

    return view


if __name__ == "__main__":
    print(json.dumps(visit(sys.argv[1])))  # noqa: T201 - the parent reads it
