"""Responses of every kind and framework are passed on unchanged, with the announcement added."""

import runpy
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.util import FileWrapper

import pytest

from flask_notifications import DeprecationMiddleware
from tests.frameworks.applications import (
    APPLICATIONS,
    OPERATIONS,
    PAGES,
    PARTS,
    POLICY,
    PRODUCED,
    TARGET,
    Witness,
    application_of,
)
from tests.wsgi import Response, between_validators, call, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

SESSION_ID = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
ANNOUNCED = [
    ("Deprecation", "@1767225600"),
    ("Sunset", "Fri, 01 Jan 2027 00:00:00 GMT"),
    ("Link", '</new/items/>; rel="successor-version"'),
    ("Link", '</docs>; rel="deprecation"; type="text/html"'),
]

# The others propagate an exception to the server.
RESPONDS_TO_A_CRASH = ["bottle", "django", "falcon", "flask"]
HAS_A_DEBUG_MODE = ["bottle", "django", "flask"]

every_application = pytest.mark.parametrize("name", APPLICATIONS)
every_page = pytest.mark.parametrize("page", PAGES)


class Sendfile(FileWrapper):
    """A file wrapper that a server sends in its own way, but only if it gets this very object."""


def middleware(app: "WSGIApplication") -> "WSGIApplication":
    return DeprecationMiddleware(app, POLICY, operations=OPERATIONS)


def guarded(app: "WSGIApplication") -> "WSGIApplication":
    return between_validators(middleware, app)


def ask(app: "WSGIApplication", path: str, method: str = "GET", query: str = "", **extra: Any) -> Response:
    return call(app, method, path, query, **{**page_environ(), **extra})


def page_environ() -> "WSGIEnvironment":
    """Return the environ keys that the pages of the applications need."""
    return {PRODUCED: [], TARGET: "/new/cookies", "wsgi.errors": StringIO(), "wsgi.file_wrapper": Sendfile}


def start_response(_status: str, _headers: object, _exc_info: object = None) -> Callable[[bytes], object]:
    """Ignore a response, and return a ``write`` that ignores its data."""
    return lambda _data: None


def close(body: object) -> None:
    if hasattr(body, "close"):
        body.close()


def headers_without(response: Response, *names: str) -> list[tuple[str, str]]:
    """Return the headers of a response, except ``Date`` and those with the given names in lower case."""
    return [header for header in response.headers if header[0].lower() not in {"date", *names}]


def vary(response: Response) -> set[str]:
    return {member.strip() for value in response.all("Vary") for member in value.split(",")}


def check_announced(response: Response, plain: Response) -> None:
    """Check that the announcement is last, ``Vary`` is merged, and the rest is as without the middleware."""
    assert (response.status, response.body) == (plain.status, plain.body)
    assert response.headers[-len(ANNOUNCED) :] == ANNOUNCED
    assert headers_without(response, "vary")[: -len(ANNOUNCED)] == headers_without(plain, "vary")
    assert vary(response) == vary(plain) | {"Authorization"}


@every_application
@every_page
def test_every_response_announces_and_is_otherwise_unchanged(name: str, page: str) -> None:
    response = ask(guarded(application_of(name)), f"/old/{page}")
    assert response.code == PAGES[page]
    check_announced(response, ask(application_of(name), f"/old/{page}"))


@every_application
@pytest.mark.parametrize("page", ["items/", "cookies", "nowhere", "form"])
def test_head_announces_what_get_announces(name: str, page: str) -> None:
    response = ask(guarded(application_of(name)), f"/old/{page}", "HEAD")
    check_announced(response, ask(application_of(name), f"/old/{page}", "HEAD"))


@pytest.mark.parametrize("name", RESPONDS_TO_A_CRASH)
def test_a_response_to_a_crash_announces(name: str) -> None:
    response = ask(guarded(application_of(name)), "/old/crash")
    assert response.code == 500
    check_announced(response, ask(application_of(name), "/old/crash"))


@pytest.mark.parametrize("name", sorted(APPLICATIONS.keys() - set(RESPONDS_TO_A_CRASH)))
def test_an_exception_that_a_framework_propagates_reaches_the_server(name: str) -> None:
    with pytest.raises(RuntimeError, match="on purpose"):
        ask(guarded(application_of(name)), "/old/crash")


@pytest.mark.parametrize("name", HAS_A_DEBUG_MODE)
@pytest.mark.parametrize("page", ["crash", "gone", "nowhere", "handled"])
def test_a_debug_page_announces_and_shows_no_session(name: str, page: str) -> None:
    query = f"a=1&sessionId={SESSION_ID}"
    addresses = {"REQUEST_URI": f"/old/{page}?{query}", "RAW_URI": f"/old/{page}?{query}", "HTTP_REFERER": f"/?{query}"}
    app, errors = application_of(name, debug=True), StringIO()
    response = ask(guarded(app), f"/old/{page}", "GET", query, **addresses, **{"wsgi.errors": errors})
    plain = ask(app, f"/old/{page}", "GET", query, **addresses)
    assert response.status == plain.status
    assert response.headers[-len(ANNOUNCED) :] == ANNOUNCED
    assert dict(plain.headers).keys() <= dict(response.headers).keys()
    assert SESSION_ID not in f"{response.headers}{response.body!r}{errors.getvalue()}"
    if name == "django" and page != "handled":  # the one that shows all of a request
        assert SESSION_ID.encode() in plain.body


@pytest.mark.parametrize("name", HAS_A_DEBUG_MODE)
def test_debug_mode_does_show_a_debug_page(name: str) -> None:
    # Otherwise the test above would prove nothing.
    assert b"on purpose" in ask(guarded(application_of(name, debug=True)), "/old/crash").body
    assert b"on purpose" not in ask(guarded(application_of(name)), "/old/crash").body


@every_application
def test_a_session_in_the_query_changes_only_headers_about_caching_and_referrers(name: str) -> None:
    response = ask(guarded(application_of(name)), "/old/file", query=f"sessionId={SESSION_ID}")
    plain = ask(application_of(name), "/old/file")
    added = ["vary", "cache-control", "referrer-policy"]
    assert headers_without(response, *added)[: -len(ANNOUNCED)] == headers_without(plain, *added)
    assert "private" in response.one("Cache-Control")
    assert response.one("Referrer-Policy") == "no-referrer"
    assert response.body == plain.body


@every_application
def test_both_cookies_are_in_the_response(name: str) -> None:
    cookies = ask(guarded(application_of(name)), "/old/cookies").all("Set-Cookie")
    assert [cookie.strip()[:3] for cookie in cookies] == ["a=1", "b=2"]


@every_application
def test_a_stream_is_passed_on_while_it_is_generated(name: str) -> None:
    environ = environ_of("GET", "/old/stream", "", **page_environ())
    body = middleware(application_of(name))(environ, start_response)
    assert next(iter(body)) == PARTS[0]
    assert environ[PRODUCED] == [PARTS[0]]
    close(body)


@every_application
@pytest.mark.parametrize("page", ["items/", "stream", "file", "unchanged", "gone"])
def test_the_middleware_returns_the_applications_own_iterable(name: str, page: str) -> None:
    witness = Witness(application_of(name))
    body = middleware(witness)(environ_of("GET", f"/old/{page}", "", **page_environ()), start_response)
    assert body is witness.bodies[0]
    assert (type(body) is Sendfile) == (page == "file")
    close(body)


@every_application
@every_page
def test_an_unmatched_request_and_its_response_are_unchanged(name: str, page: str) -> None:
    query = f"a=1&sessionId={SESSION_ID}&sessionId={SESSION_ID}"
    addresses = {"RAW_URI": f"/new/{page}?{query}", "HTTP_REFERER": f"/old/x?{query}", "HTTP_AUTHORIZATION": "Bearer x"}
    if page == "items/":  # calls session_of, which refuses two sessions
        query, addresses = "a=1", {"HTTP_AUTHORIZATION": "Bearer x"}
    witness, environ = (
        Witness(application_of(name)),
        environ_of("GET", f"/new/{page}", query, **addresses, **page_environ()),
    )
    received = dict(environ)
    response = run(middleware(witness), environ)
    plain = ask(application_of(name), f"/new/{page}", query=query, **addresses)
    assert witness.environs == [received]
    assert (response.status, headers_without(response), response.body) == (
        plain.status,
        headers_without(plain),
        plain.body,
    )
    assert not {"Deprecation", "Sunset", "Link"} & dict(response.headers).keys()


@pytest.mark.parametrize("name", ["django", "falcon", "flask"])
def test_a_preflight_request_to_a_matched_path_is_not_matched(name: str) -> None:
    response, plain = (
        ask(app, "/old/cookies", "OPTIONS") for app in (guarded(application_of(name)), application_of(name))
    )
    assert response.wire == plain.wire


def test_three_lines_in_wsgi_py_retire_an_operation_of_django(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    application_of("django")  # configures Django's settings
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "project.settings")
    wsgi_py = tmp_path / "wsgi.py"
    wsgi_py.write_text(
        "import os\n"
        "from django.core.wsgi import get_wsgi_application\n"
        "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'project.settings')\n"
        "application = get_wsgi_application()\n"
        # startproject writes the lines above; the next ones are added:
        "from flask_notifications import DeprecationMiddleware, Operation, load_policy\n"
        "OLD = Operation('x', 'GET', '/old/items/', rewrite_path=True, unify_session=True)\n"
        "policy = load_policy({'deprecated_at': '2026-01-01T00:00:00Z', 'documentation': '/docs'})\n"
        "application = DeprecationMiddleware(application, policy, operations=[OLD])\n"
    )
    application = runpy.run_path(str(wsgi_py))["application"]
    response = ask(application, "/Old/Items", query=f"sessionId={SESSION_ID}")
    assert (response.code, response.json["session"]) == (200, [SESSION_ID, "query"])
    assert response.one("Deprecation") == "@1767225600"
    assert response.one("Link") == '</docs>; rel="deprecation"; type="text/html"'
    assert ask(application, "/old/cookies").all("Deprecation") == []
