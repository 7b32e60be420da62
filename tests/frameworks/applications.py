"""Three small WSGI applications with the same pages, one for each framework.

``items/`` responds with the session that the application sees.
"""

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any
from wsgiref.types import WSGIApplication, WSGIEnvironment

import flask

from flask_notifications import session_of
from tests.services import service_or_skip

# The status of each page, which is the same in every application. Only the crash
# differs.
PAGES = {"items/": 200, "cookies": 200, "moved": 302, "nowhere": 404}

View = Callable[[WSGIEnvironment], Any]


def library(name: str) -> Any:
    """Import and return a module of another framework; skip the test if it is not
    installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # other packages warn at import, and we cannot change that
        try:
            return import_module(name)
        except ModuleNotFoundError as missing:
            service_or_skip(str(missing.name), present=False)
            raise


def views(
    respond: Callable[[str], Any], redirect: Callable[[str], Any]
) -> dict[str, View]:
    """Return the view of each path, with a framework's own responses."""

    def show(environ: WSGIEnvironment) -> Any:
        session = session_of(environ)
        return respond("nobody" if session is None else session.value)

    def set_cookies(_environ: WSGIEnvironment) -> Any:
        response = respond("ok")
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    def crash(_environ: WSGIEnvironment) -> None:
        message = "on purpose"
        raise RuntimeError(message)

    def move(_environ: WSGIEnvironment) -> Any:
        return redirect("/old/cookies")

    pages = {"items/": show, "cookies": set_cookies, "crash": crash, "moved": move}
    return {f"old/{page}": view for page, view in pages.items()}


@cache
def flask_application() -> WSGIApplication:
    app = flask.Flask("app")
    for path, view in views(flask.Response, flask.redirect).items():
        app.add_url_rule(
            f"/{path}", path, lambda view=view: view(flask.request.environ)
        )
    return app


@cache
def django_application() -> Any:
    settings, urls, http = (
        library("django.conf").settings,
        library("django.urls"),
        library("django.http"),
    )
    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            LOGGING_CONFIG=None,
            MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
            ROOT_URLCONF=type("Routes", (), {}),
            SECRET_KEY="signs nothing",  # noqa: S106 - no secret
        )
        settings.ROOT_URLCONF.urlpatterns = [
            urls.path(path, lambda request, view=view: view(request.environ))
            for path, view in views(
                http.HttpResponse, http.HttpResponseRedirect
            ).items()
        ]
    return library("django.core.wsgi").get_wsgi_application()


@cache
def pyramid_application() -> Any:
    library("pyramid")
    exceptions, responses = (
        library("pyramid.httpexceptions"),
        library("pyramid.response"),
    )
    with library("pyramid.config").Configurator() as config:
        config.add_notfound_view(
            lambda _request: exceptions.HTTPNotFound(), append_slash=True
        )
        for path, view in views(responses.Response, exceptions.HTTPFound).items():
            config.add_route(path, f"/{path}")
            config.add_view(
                lambda request, view=view: view(request.environ), route_name=path
            )
        return config.make_wsgi_app()


APPLICATIONS: dict[str, Callable[[], WSGIApplication]] = {
    "django": django_application,
    "flask": flask_application,
    "pyramid": pyramid_application,
}
