"""Three small WSGI applications with the same pages, one for each framework.

``/{area}/items/`` and ``/{page}`` report what the application sees. ``OPERATIONS`` match the area ``old``, not ``new``.
"""

import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Any
from wsgiref.types import WSGIApplication, WSGIEnvironment

import flask

from flask_notifications import DeprecationPolicy, Operation, session_of
from tests.services import service_or_skip

AREAS = ("old", "new")
# The status of each page, which is the same in every application. Only the crash differs.
PAGES = {"items/": 200, "cookies": 200, "moved": 302, "nowhere": 404}
POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC), sunset_at=datetime(2027, 1, 1, tzinfo=UTC), documentation="/docs"
)
OPERATIONS = (
    Operation("page", "POST", "/{page}", rewrite_path=True, unify_session=True),
    Operation("items", "GET", "/old/items/", "/new/items/", rewrite_path=True, unify_session=True),
    Operation("old", "GET", "/old/{page}", "/new/items/", rewrite_path=True, unify_session=True),
)
# The environ key with the target of the page ``moved``.
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


def application_of(name: str) -> WSGIApplication:
    """Return the application of a framework."""
    return APPLICATIONS[name]()


def report(environ: WSGIEnvironment, authorization: str | None, body: bytes) -> dict[str, Any]:
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


def add_cookies(response: Any) -> Any:
    """Return a response of any framework with two cookies."""
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


def redirect_target(environ: WSGIEnvironment) -> str:
    """Return the target of ``moved``, with the query of the request appended as routers do."""
    query = environ.get("QUERY_STRING", "")
    return f"{environ[TARGET]}?{query}" if query else str(environ[TARGET])


@cache
def flask_application() -> WSGIApplication:
    app = flask.Flask("app")

    def show(**_parameters: str) -> dict[str, Any]:
        request = flask.request
        return report(request.environ, request.headers.get("Authorization"), request.get_data())

    app.add_url_rule("/<page>", view_func=show, methods=["POST"])
    pages: dict[str, Callable[[], Any]] = {
        "items/": show,
        "cookies": lambda: add_cookies(flask.Response("ok")),
        "crash": crash,
        "moved": lambda: flask.redirect(redirect_target(flask.request.environ)),
    }
    for area in AREAS:
        for page, view in pages.items():
            app.add_url_rule(f"/{area}/{page}", f"{area}-{page}", view)
    return app


@cache
def django_application() -> WSGIApplication:
    settings, urls, http = library("django.conf").settings, library("django.urls"), library("django.http")

    def show(request: Any, **_parameters: str) -> Any:
        return http.JsonResponse(report(request.environ, request.headers.get("Authorization"), request.body))

    views: dict[str, Callable[..., Any]] = {
        "items/": show,
        "cookies": lambda _request: add_cookies(http.HttpResponse("ok")),
        "crash": lambda _request: crash(),
        "moved": lambda request: http.HttpResponseRedirect(redirect_target(request.environ)),
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
def pyramid_application() -> WSGIApplication:
    library("pyramid")
    exceptions, responses = library("pyramid.httpexceptions"), library("pyramid.response")

    def show(request: Any) -> Any:
        return responses.Response(json=report(request.environ, request.headers.get("Authorization"), request.body))

    pages: dict[str, Callable[[Any], Any]] = {
        "items/": show,
        "cookies": lambda _request: add_cookies(responses.Response("ok")),
        "crash": lambda _request: crash(),
        "moved": lambda request: exceptions.HTTPFound(redirect_target(request.environ)),
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


APPLICATIONS: dict[str, Callable[[], WSGIApplication]] = {
    "django": django_application,
    "flask": flask_application,
    "pyramid": pyramid_application,
}
