"""Any operation of any host is retired the same way; what looks like a session in a request stays the host's."""

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
from tests.stacks.hosts import HOSTS, METHODS, PAGES, PARTS, PRODUCED, TARGET, Witness, host, library
from tests.wsgi import Answer, between_validators, call, environ_of, run

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
    Operation("items", "GET", "/reports/items/", "/v2/reports"),  # spelled as the hosts' routers spell it
)
ANNOUNCED = [
    ("Deprecation", "@1772323200"),
    ("Sunset", "Tue, 01 Dec 2026 00:00:00 GMT"),
    ("Link", '</v2/reports>; rel="successor-version"'),
    ("Link", '</docs/reports>; rel="deprecation"; type="text/html"'),
    ("Link", '<https://example.com/policy>; rel="sunset"; type="text/html"'),
]


class Moment(NamedTuple):
    """What the clock shows, and the policy that is in force then."""

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

LETS_A_CRASH_THROUGH = {"bare", "pyramid"}

# What a notification operation would have read, moved or hidden.
SECRET = "s3cret"  # noqa: S105 - looks like one, that is all
QUERY = f"a=1&sessionId={SECRET}"
LUGGAGE = {
    "HTTP_AUTHORIZATION": "Basic dTpw",
    "HTTP_REFERER": f"http://api.example/start?{QUERY}",
    "RAW_URI": f"/reports/x?{QUERY}",
    "REQUEST_URI": f"/reports/x?{QUERY}",
}

every_host = pytest.mark.parametrize("name", HOSTS)
every_page = pytest.mark.parametrize("page", PAGES)
every_closed_moment = pytest.mark.parametrize("code", CLOSED)


def retired(app: "WSGIApplication", moment: Moment = DEPRECATED, **options: Any) -> "WSGIApplication":
    def wrap(app: "WSGIApplication") -> "WSGIApplication":
        arguments = {"operations": OPERATIONS, "extract_session": False, "clock": lambda: moment.at, **options}
        return DeprecationMiddleware(app, moment.policy, **arguments)

    return between_validators(wrap, app)


def means() -> "WSGIEnvironment":
    """Return what the hosts' pages need of an environ; the page ``moved`` has moved to a claimed one."""
    return {
        PRODUCED: [],
        TARGET: "/reports/cookies",
        "wsgi.errors": StringIO(),
        "wsgi.file_wrapper": FileWrapper,
        **LUGGAGE,
    }


def ask(app: "WSGIApplication", path: str, method: str = "GET", query: str = QUERY, **extra: Any) -> Answer:
    return call(app, method, path, query, **{**means(), **extra})


def timeless(answer: Answer) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return an answer as the client sees it, but for the time of day that some hosts put in."""
    return answer.status, [field for field in answer.fields if field[0].lower() != "date"], answer.body


def announced(answer: Answer) -> tuple[str, list[tuple[str, str]], bytes]:
    status, fields, body = timeless(answer)
    return status, [*fields, *ANNOUNCED], body


# While the operation works.


@every_host
@every_page
def test_an_answer_is_the_hosts_own_and_the_announcement_at_any_time(name: str, page: str) -> None:
    plain = ask(host(name), f"/reports/{page}")
    assert plain.code == PAGES[page]
    for moment in OPEN.values():
        assert timeless(ask(retired(host(name), moment), f"/reports/{page}")) == announced(plain)


@every_host
@every_page
def test_so_is_the_answer_to_head(name: str, page: str) -> None:
    answer = ask(retired(host(name)), f"/reports/{page}", "HEAD")
    assert timeless(answer) == announced(ask(host(name), f"/reports/{page}", "HEAD"))


@every_host
def test_so_is_the_redirect_of_a_router_that_wants_a_slash(name: str) -> None:
    # The way round by "{id}", which the routers know under another spelling only.
    reports = [Operation("report", "GET", "/reports/{id}", "/v2/reports")]
    answer, plain = ask(retired(host(name), operations=reports), "/reports/items"), ask(host(name), "/reports/items")
    assert answer.code in {301, 307, 308}
    assert answer.one("Location").partition("?")[2] == QUERY
    assert timeless(answer) == announced(plain)


@every_host
def test_so_is_the_answer_to_a_crash(name: str) -> None:
    uses: list[Use] = []
    app = retired(host(name), observers=[uses.append])
    if name in LETS_A_CRASH_THROUGH:
        with pytest.raises(RuntimeError, match="on purpose"):
            ask(app, "/reports/crash")
    else:
        answer = ask(app, "/reports/crash")
        assert answer.code == 500
        assert timeless(answer) == announced(ask(host(name), "/reports/crash"))
    assert [use.status for use in uses] == [None if name in LETS_A_CRASH_THROUGH else 500]


@every_host
@pytest.mark.parametrize("method", METHODS)
def test_a_body_arrives_with_any_method(name: str, method: str) -> None:
    # The hosts take every method for a page at the root.
    operations = [Operation("report", method, "/{id}", "/v2/reports")]

    def send(app: "WSGIApplication") -> Answer:
        body = f"sessionId={SECRET}".encode()
        form: dict[str, Any] = {"CONTENT_TYPE": "application/x-www-form-urlencoded", "wsgi.input": BytesIO(body)}
        return ask(app, "/q3", method, CONTENT_LENGTH=str(len(body)), **form)

    answer = send(retired(host(name), operations=operations))
    assert answer.json["body"] == f"sessionId={SECRET}"
    assert timeless(answer) == announced(send(host(name)))


@every_host
@pytest.mark.parametrize("page", ["items/", "stream", "file", "unchanged", "gone"])
def test_the_server_gets_the_hosts_own_iterable(name: str, page: str) -> None:
    witness, environ = Witness(host(name)), environ_of("GET", f"/reports/{page}", QUERY, **means())
    app = DeprecationMiddleware(witness, POLICY, operations=OPERATIONS, extract_session=False)
    body: Any = app(environ, lambda *_arguments: lambda _data: None)
    assert body is witness.bodies[0]
    assert isinstance(body, FileWrapper) == (page == "file")
    if page == "stream":
        assert next(iter(body)) == PARTS[0]
        assert environ[PRODUCED] == [PARTS[0]]
    if hasattr(body, "close"):
        body.close()


# What the host sees.


@every_host
@pytest.mark.parametrize(
    ("came", "canonical"),
    [
        pytest.param("/reports/cookies", "/reports/cookies", id="as it is spelled"),
        pytest.param("/REPORTS/cookies/", "/reports/cookies", id="in capitals and with a slash"),
        pytest.param("/Reports/Q3;v=\xc3\xa4 %", "/reports/Q3;v=\xc3\xa4 %", id="the parameter as it came"),
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
def test_only_the_path_is_rewritten(name: str, came: str, canonical: str, query: str, authorization: str) -> None:
    witness = Witness(host(name))
    environ = environ_of("GET", came, query, **{**means(), "HTTP_AUTHORIZATION": authorization})
    before = dict(environ)
    run(DeprecationMiddleware(witness, POLICY, operations=OPERATIONS, extract_session=False), environ)
    (seen,) = witness.environs
    ours = {key for key in seen if key.startswith("flask_notifications.")}
    assert seen["flask_notifications.original_path"] == came
    assert "flask_notifications.session" not in ours
    assert {key: value for key, value in seen.items() if key not in ours} == {**before, "PATH_INFO": canonical}
    # In the server's own environ, which it logs from, as well.
    assert {key: environ[key] for key in LUGGAGE} == {key: before[key] for key in LUGGAGE}
    assert environ["QUERY_STRING"] == query


@every_host
def test_an_answer_for_caches_stays_one(name: str) -> None:
    for query, authorization in ((QUERY, ""), ("", f"Bearer {SECRET}"), (f"{QUERY}&sessionId=x", "Bearer")):
        answer = ask(retired(host(name)), "/reports/file", query=query, HTTP_AUTHORIZATION=authorization)
        plain = ask(host(name), "/reports/file", query=query, HTTP_AUTHORIZATION=authorization)
        for field in ("Vary", "Cache-Control", "Referrer-Policy", "WWW-Authenticate"):
            assert answer.all(field) == plain.all(field)


# While it does not.


@every_host
@every_closed_moment
@pytest.mark.parametrize("method", METHODS)
def test_nothing_of_it_reaches_the_host(name: str, code: str, method: str) -> None:
    witness = Witness(host(name))
    app = retired(witness, CLOSED[code])
    answers = [ask(app, f"/reports/{page}", method) for page in (*PAGES, "crash", "Q3/")]
    answers.append(ask(app, "/REPORTS/q3", method, f"{QUERY}&sessionId=other", HTTP_AUTHORIZATION="Bearer"))
    assert witness.environs == []
    assert all(answer.wire == answers[0].wire for answer in answers)
    check_closed(answers[0], code)


def check_closed(answer: Answer, code: str) -> None:
    assert answer.status == "410 Gone"
    assert answer.fields[-len(ANNOUNCED) :] == ANNOUNCED
    assert answer.all("Retry-After") == {"brownout": ["91"], "sunset": []}[code]  # rounded up
    assert answer.all("Cache-Control") == ["no-store"]
    assert answer.one("Content-Type") == "application/problem+json"
    assert answer.one("Content-Length") == str(len(answer.body))
    assert (answer.json["status"], answer.json["code"], answer.json["successor"]) == (410, code, "/v2/reports")
    assert answer.all("WWW-Authenticate") == answer.all("Referrer-Policy") == []
    assert SECRET not in repr(answer.wire)


@every_host
@every_closed_moment
def test_head_is_told_the_same_without_a_body(name: str, code: str) -> None:
    witness = Witness(host(name))
    app = retired(witness, CLOSED[code])
    whole, head = ask(app, "/reports/items/"), ask(app, "/reports/items/", "HEAD")
    assert (head.status, head.fields, head.body) == (whole.status, whole.fields, b"")
    assert witness.environs == []


@every_host
@every_closed_moment
def test_a_neighbour_works_on_untouched(name: str, code: str) -> None:
    at, policy = CLOSED[code]
    witness = Witness(host(name))
    app = DeprecationMiddleware(witness, policy, operations=OPERATIONS, extract_session=False, clock=lambda: at)
    for path in (*(f"/new/{page}" for page in PAGES), "/q3", "/reports/", "/reports/a/b", "/reportsX/cookies"):
        environ = environ_of("GET", path, QUERY, **means())
        before = dict(environ)
        assert timeless(run(app, environ)) == timeless(ask(host(name), path))
        assert witness.environs.pop() == before
        assert witness.environs == []


@every_host
@every_closed_moment
@pytest.mark.parametrize("gone", ["POST", "PUT", "PATCH", "DELETE"])
def test_one_method_is_switched_off_and_the_others_work_on(name: str, code: str, gone: str) -> None:
    app = retired(host(name), CLOSED[code], operations=[Operation("report", gone, "/{id}")])
    for method in METHODS:
        answer, plain = ask(app, "/q3", method), ask(host(name), "/q3", method)
        assert answer.code == (410 if method == gone else 200)
        assert (timeless(answer) == timeless(plain)) == (method != gone)


@every_host
def test_time_alone_takes_it_through_its_phases(name: str) -> None:
    moments = [OPEN["announced"], DEPRECATED, CLOSED["brownout"], OPEN["after the brownout"], CLOSED["sunset"]]
    clock, uses, witness = iter(moments), list[Use](), Witness(host(name))
    app = retired(witness, clock=lambda: next(clock).at, observers=[uses.append])
    answers = [ask(app, "/Reports/cookies") for _moment in moments]
    assert [answer.code for answer in answers] == [200, 200, 410, 200, 410]
    assert [use.phase for use in uses] == ["announced", "deprecated", "brownout", "deprecated", "sunset"]
    assert {(use.operation, use.source) for use in uses} == {("report-GET", None)}
    assert all(answer.fields[-len(ANNOUNCED) :] == ANNOUNCED for answer in answers)
    assert len(witness.environs) == 3


@every_host
def test_two_retirements_of_one_host_keep_to_their_own(name: str) -> None:
    later = DeprecationPolicy(deprecated_at=datetime(2030, 1, 1, tzinfo=UTC))
    gone = [Operation("cookies", "GET", "/reports/cookies")]
    inner = DeprecationMiddleware(host(name), later, operations=OPERATIONS, extract_session=False)
    app = retired(inner, CLOSED["sunset"], operations=gone)
    assert ask(app, "/reports/cookies").code == 410
    answer = ask(app, "/reports/file")
    assert (answer.code, answer.all("Deprecation"), answer.all("Sunset")) == (200, ["@1893456000"], [])
    assert ask(app, "/new/file").all("Deprecation") == []


# A Django project, in a process of its own since there is one configuration of Django to a process.

# What `startproject` writes, and three lines more.
WSGI_PY = """
import json
import os
from pathlib import Path

from django.core.wsgi import get_wsgi_application
from flask_notifications import DeprecationMiddleware, Operation, load_policy

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
operations = [Operation("report", "GET", "/reports/{id}/", successor="/v2/reports/")]
policy = load_policy(json.loads(Path(__file__).with_name("retirement.json").read_text(encoding="utf-8")))
application = DeprecationMiddleware(get_wsgi_application(), policy, operations=operations, extract_session=False)
"""

YEARS = [("Deprecation", "@1577836800"), ("Sunset", "Fri, 01 Jan 2021 00:00:00 GMT")]
LINKS = [
    ("Link", '</v2/reports/>; rel="successor-version"'),
    ("Link", '</retirement>; rel="deprecation"; type="text/html"'),
]
DATES = {"deprecated_at": "2020-01-01T00:00:00Z", "sunset_at": "2021-01-01T00:00:00Z", "documentation": "/retirement"}
LONG = [{"start": "2020-01-01T00:00:00Z", "end": "9999-01-01T00:00:00Z"}]
PAST = [{"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"}]
TO_COME = {"deprecated_at": "9999-01-01T00:00:00Z", "documentation": "/retirement"}

# Each is the same project with another configuration: what it announces, and the code of its 410.
STAGES: dict[str, tuple[dict[str, Any], list[tuple[str, str]], str | None]] = {
    "announced": (TO_COME, [("Deprecation", "@253370764800"), *LINKS], None),
    "deprecated": (DATES, [*YEARS, *LINKS], None),
    "in a brownout": ({**DATES, "brownouts": LONG}, [*YEARS, *LINKS], "brownout"),
    "after a brownout": ({**DATES, "brownouts": PAST}, [*YEARS, *LINKS], None),
    "switched off": ({**DATES, "enforce_sunset": True}, [*YEARS, *LINKS], "sunset"),
    "switched on again": ({**DATES, "enforce_sunset": False}, [*YEARS, *LINKS], None),
}
# Method, path and query; then the status while the view works.
REQUESTS = {
    "report": ("GET", "/reports/q3/", QUERY, 200),
    "in another spelling": ("GET", "/Reports/q3", QUERY, 200),
    "head": ("HEAD", "/reports/q3/", "", 200),
    "no such report": ("GET", "/reports/none/", "", 404),
}
NEIGHBOURS = {
    "another method": ("POST", "/reports/q3/", QUERY, 200),
    "without a report": ("GET", "/reports/", "", 404),
    "notifications": ("GET", "/api/notification/", QUERY, 404),  # which are not retired here: Django has cases
    "notifications as spelled": ("GET", "/API/Notification/", QUERY, 200),
}


@pytest.mark.parametrize(("configuration", "lines", "code"), STAGES.values(), ids=STAGES)
def test_a_django_project_retires_a_view_by_configuration(
    configuration: dict[str, Any], lines: list[tuple[str, str]], code: str | None, tmp_path: Path
) -> None:
    library("django")
    (tmp_path / "retirement.json").write_text(json.dumps(configuration), encoding="utf-8")
    (tmp_path / "wsgi.py").write_text(WSGI_PY, encoding="utf-8")
    seen = project(tmp_path / "wsgi.py")
    for request, (_method, _path, _query, status) in REQUESTS.items():
        answer = seen["answers"][request]
        assert answer["status"] == (410 if code else status), request
        assert answer["fields"][-len(lines) :] == [list(line) for line in lines], request
    for request, (_method, _path, _query, status) in NEIGHBOURS.items():
        assert seen["answers"][request]["status"] == status
        assert not {"Deprecation", "Sunset", "Link"} & dict(seen["answers"][request]["fields"]).keys()
    check_views(seen, code)


def check_views(seen: dict[str, Any], code: str | None) -> None:
    """See whether the view was called, and with the query that came."""
    report = seen["answers"]["report"]["body"]
    if code:
        assert json.loads(report)["code"] == code
    else:
        assert report == f"report q3 for {QUERY}"
    calls = ["POST q3"] if code else ["GET q3", "GET q3", "HEAD q3", "GET none", "POST q3"]
    assert seen["calls"] == calls
    assert json.loads(seen["answers"]["notifications as spelled"]["body"]) == [{"session": True}]


def project(wsgi_py: Path) -> dict[str, Any]:
    """Return what the project answers, and the calls of its view, from a process of its own."""
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root / "tests" / "sites"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    child = subprocess.run(
        [sys.executable, "-m", "tests.stacks.test_retirement", str(wsgi_py)],
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


# From here on: in the project's own process.


def visit(wsgi_py: str) -> dict[str, Any]:
    calls: list[str] = []
    urls: Any = import_module("mysite.urls")
    urls.urlpatterns.append(library("django.urls").path("reports/<slug:report>/", report_view(calls)))
    application = runpy.run_path(wsgi_py)["application"]
    answers = {}
    for request, (method, path, query, _status) in {**REQUESTS, **NEIGHBOURS}.items():
        answer = call(application, method, path, query, **LUGGAGE, **{"wsgi.errors": StringIO()})
        answers[request] = {"status": answer.code, "fields": answer.fields, "body": answer.body.decode()}
    return {"answers": answers, "calls": calls}


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
