"""Four small WSGI applications with the same pages: one for each of three frameworks, and one without a framework.

``/{area}/items/`` and ``/{page}`` report what the application sees. ``OPERATIONS`` match the area ``old``, not ``new``.
"""

import json
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from wsgiref.util import FileWrapper

import flask

from flask_notifications import DeprecationPolicy, Operation, session_of
from tests.services import service_or_skip

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
AREAS = ("old", "new")
# The status of each page, which is the same in every application. Only the crash differs.
PAGES = {"items/": 200, "cookies": 200, "file": 200, "stream": 200, "moved": 302, "nowhere": 404}
POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC), sunset_at=datetime(2027, 1, 1, tzinfo=UTC), documentation="/docs"
)
OPERATIONS = (
    *(Operation(f"page-{method}", method, "/{page}", rewrite_path=True, unify_session=True) for method in METHODS),
    Operation("items", "GET", "/old/items/", "/new/items/", rewrite_path=True, unify_session=True),
    Operation("old", "GET", "/old/{page}", "/new/items/", rewrite_path=True, unify_session=True),
)
# The parts of the page ``stream``, and the environ key with the target of the page ``moved``.
PARTS = (b"first", b"second")
TARGET = "tests.target"


def library(name: str) -> Any:
    """Import and return a module of another framework; skip the test if it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other packages warn at import, and we cannot change that
        try:
            return import_module(name)
        except ModuleNotFoundError as missing:
            service_or_skip(str(missing.name), present=False)
            raise


def application_of(name: str) -> "WSGIApplication":
    """Return the application of a framework, or the one of the name ``bare``."""
    return APPLICATIONS[name]()


def report(environ: "WSGIEnvironment", authorization: str | None, body: bytes) -> dict[str, Any]:
    """Return what an application sees: the session and the raw query, and the rest as its framework parses it."""
    session = session_of(environ)
    return {
        "session": session and [session.value, session.source],
        "authorization": authorization or None,
        "query": environ.get("QUERY_STRING"),
        "body": body.decode("latin-1"),
    }


def crash() -> None:
    message = "on purpose"
    raise RuntimeError(message)


def open_file() -> BinaryIO:
    """Return a file that the server, or the framework, closes."""
    return Path(__file__).open("rb")


def add_cookies(response: Any) -> Any:
    """Return a response of any framework with two cookies."""
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


def redirect_target(environ: "WSGIEnvironment") -> str:
    """Return the target of ``moved``, with the query of the request appended as routers do."""
    query = environ.get("QUERY_STRING", "")
    return f"{environ[TARGET]}?{query}" if query else str(environ[TARGET])


@cache
def bare_application() -> "WSGIApplication":
    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        area, _, page = environ["PATH_INFO"][1:].partition("/")
        plain = [("Content-Type", "text/plain")]
        if not page or page == "items/":
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(report(environ, environ.get("HTTP_AUTHORIZATION"), body)).encode()]
        if page == "crash":
            crash()
        if page == "file":
            start_response("200 OK", plain)
            wrapper: Iterable[bytes] = environ.get("wsgi.file_wrapper", FileWrapper)(open_file())
            return wrapper
        if page == "items":
            target = f"/{area}/items/?{environ.get('QUERY_STRING', '')}"
            start_response("308 Permanent Redirect", [*plain, ("Location", target)])
            return []
        if page == "moved":
            start_response("302 Found", [*plain, ("Location", redirect_target(environ))])
            return []
        if page == "cookies":
            start_response("200 OK", [*plain, ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
            return [b"ok"]
        start_response("200 OK" if page == "stream" else "404 Not Found", plain)
        return iter(PARTS) if page == "stream" else [b"none"]

    return app


@cache
def flask_application() -> "WSGIApplication":
    app = flask.Flask("app")

    def show(**_parameters: str) -> dict[str, Any]:
        request = flask.request
        return report(request.environ, request.headers.get("Authorization"), request.get_data())

    app.add_url_rule("/<page>", view_func=show, methods=METHODS)
    pages: dict[str, Callable[[], Any]] = {
        "items/": show,
        "cookies": lambda: add_cookies(flask.Response("ok")),
        "crash": crash,
        "file": lambda: flask.send_file(__file__, etag=False),
        "moved": lambda: flask.redirect(redirect_target(flask.request.environ)),
        "stream": lambda: flask.Response(iter(PARTS)),
    }
    for area in AREAS:
        for page, view in pages.items():
            app.add_url_rule(f"/{area}/{page}", f"{area}-{page}", view)
    return app


@cache
def django_application() -> "WSGIApplication":
    settings, urls, http = library("django.conf").settings, library("django.urls"), library("django.http")

    def show(request: Any, **_parameters: str) -> Any:
        return http.JsonResponse(report(request.environ, request.headers.get("Authorization"), request.body))

    views: dict[str, Callable[..., Any]] = {
        "items/": show,
        "cookies": lambda _request: add_cookies(http.HttpResponse("ok")),
        "crash": lambda _request: crash(),
        "file": lambda _request: http.FileResponse(open_file(), content_type="text/plain"),
        "moved": lambda request: http.HttpResponseRedirect(redirect_target(request.environ)),
        "stream": lambda _request: http.StreamingHttpResponse(iter(PARTS)),
    }
    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            LOGGING_CONFIG=None,
            MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
            ROOT_URLCONF=type("Routes", (), {}),
            SECRET_KEY="signs nothing",  # noqa: S106 - no secret
        )
        settings.ROOT_URLCONF.urlpatterns = [
            urls.path("<page>", show),
            *(urls.path(f"{area}/{page}", view) for area in AREAS for page, view in views.items()),
        ]
    app: WSGIApplication = library("django.core.wsgi").get_wsgi_application()
    return app


@cache
def pyramid_application() -> "WSGIApplication":
    library("pyramid")
    exceptions, responses = library("pyramid.httpexceptions"), library("pyramid.response")

    def show(request: Any) -> Any:
        return responses.Response(json=report(request.environ, request.headers.get("Authorization"), request.body))

    pages: dict[str, Callable[[Any], Any]] = {
        "items/": show,
        "cookies": lambda _request: add_cookies(responses.Response("ok")),
        "crash": lambda _request: crash(),
        "file": lambda request: responses.FileResponse(__file__, request),
        "moved": lambda request: exceptions.HTTPFound(redirect_target(request.environ)),
        "stream": lambda _request: responses.Response(app_iter=iter(PARTS)),
    }
    with library("pyramid.config").Configurator() as config:
        config.add_notfound_view(lambda _request: exceptions.HTTPNotFound(), append_slash=True)
        for area in AREAS:
            for page, view in pages.items():
                config.add_route(f"{area}-{page}", f"/{area}/{page}")
                config.add_view(view, route_name=f"{area}-{page}")
        config.add_route("page", "/{page}")
        config.add_view(show, route_name="page")
        app: WSGIApplication = config.make_wsgi_app()
    return app


APPLICATIONS: dict[str, Callable[[], "WSGIApplication"]] = {
    "bare": bare_application,
    "django": django_application,
    "flask": flask_application,
    "pyramid": pyramid_application,
}
