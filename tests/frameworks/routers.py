"""The same three views behind every router that the tests know: ``/old_task``,
``/reports/{id}`` and ``/archive/``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from wsgiref.types import WSGIApplication

import flask

from tests.frameworks.applications import django_application, library

# What each view sends.
VIEW = "a view"
PATHS = ("/old_task", "/reports/{id}", "/archive/")
_RULES = [path.replace("{id}", "<id>") for path in PATHS]


def _view(*_arguments: Any, **_parameters: Any) -> str:
    return VIEW


def flask_router(*, strict: bool) -> WSGIApplication:
    app = flask.Flask("app")
    app.url_map.strict_slashes = app.url_map.merge_slashes = strict
    for rule in _RULES:
        app.add_url_rule(rule, rule, _view)
    return app


def django_router(*, append_slash: bool) -> WSGIApplication:
    app, urls = django_application(), library("django.urls")
    http, override_settings = (
        library("django.http"),
        library("django.test.utils").override_settings,
    )
    paths = [
        urls.path(rule[1:], lambda _request, **_parameters: http.HttpResponse(VIEW))
        for rule in _RULES
    ]
    routes = type("Routes", (), {"urlpatterns": paths})

    def router(environ: Any, start_response: Any) -> Any:
        with override_settings(ROOT_URLCONF=routes, APPEND_SLASH=append_slash):
            return app(environ, start_response)

    return router


def falcon_router(*, strips_slash: bool) -> Any:
    falcon = library("falcon")

    class View:
        def on_get(self, _request: Any, response: Any, **_parameters: str) -> None:
            response.text = VIEW

    app = falcon.App()
    app.req_options.strip_url_path_trailing_slash = strips_slash
    for path in PATHS:
        app.add_route(path, View())
    return app


def pyramid_router() -> Any:
    with library("pyramid.config").Configurator() as config:
        for path in PATHS:
            config.add_route(path, path)
            config.add_view(_pyramid_view(), route_name=path)
        config.add_notfound_view(
            lambda _request: library("pyramid.httpexceptions").HTTPNotFound(),
            append_slash=True,
        )
        return config.make_wsgi_app()


def _pyramid_view() -> Callable[..., Any]:
    responses, exceptions = (
        library("pyramid.response"),
        library("pyramid.httpexceptions"),
    )
    # Traversal calls a view with whatever follows its name.
    return lambda _context, request: (
        exceptions.HTTPNotFound() if request.subpath else responses.Response(VIEW)
    )


class _Page:
    """A resource without others below it."""


class _Reports(dict[str, Any]):
    """A resource with pages of any name."""

    def __missing__(self, name: str) -> _Page:
        return _Page()


def pyramid_traversal() -> Any:
    root: dict[str, Any] = {"reports": _Reports(), "archive": _Page()}

    with library("pyramid.config").Configurator(
        root_factory=lambda _request: root
    ) as config:
        config.add_view(_pyramid_view(), name="old_task", context=dict)
        config.add_view(_pyramid_view(), context=_Page)
        return config.make_wsgi_app()


def bottle_router() -> Any:
    app = library("bottle").Bottle()
    for rule in _RULES:
        app.route(rule, "GET", _view)
    return app


def cherrypy_router() -> Any:
    cherrypy = library("cherrypy")
    cherrypy.config.update({"log.screen": False})
    root = _controller(object, cherrypy.expose, "default")
    return cherrypy.Application(root, "")


def _controller(base: Any, expose: Callable[..., Any], default: str) -> Any:
    """Return a tree of objects whose methods are views, and are called with the
    segments after their own.
    """

    def page(most: int = 0) -> Any:
        return expose(lambda _self, *segments: VIEW if len(segments) <= most else "")

    reports = type("Reports", (base,), {default: page(1)})
    archive = type("Archive", (base,), {"index": page()})
    return type(
        "Root",
        (base,),
        {"old_task": page(), "reports": reports(), "archive": archive()},
    )()


def morepath_router() -> Any:
    morepath = library("morepath")

    class App(morepath.App):  # type: ignore[name-defined, misc]
        pass

    class OldTask: ...

    class Archive: ...

    class Report:
        def __init__(self, id: str) -> None:  # noqa: A002 - the name of the parameter
            pass

    for path, model in (
        ("/old_task", OldTask),
        ("/reports/{id}", Report),
        ("/archive", Archive),
    ):
        App.path(path=path)(model)
        App.view(model=model)(_view)
    App.commit()
    return App()


def turbogears_router() -> Any:
    tg = library("tg")
    root = _controller(tg.TGController, lambda view: tg.expose()(view), "_default")  # noqa: PLW0108 - one for each view
    configuration = tg.MinimalApplicationConfigurator()
    configuration.update_blueprint({"root_controller": root})
    return configuration.make_wsgi_app()


ROUTERS: dict[str, Callable[[], WSGIApplication]] = {
    "Flask": partial(flask_router, strict=True),
    "Flask, without strict_slashes and merge_slashes": partial(
        flask_router, strict=False
    ),
    "Django": partial(django_router, append_slash=False),
    "Django, APPEND_SLASH": partial(django_router, append_slash=True),
    "Falcon": partial(falcon_router, strips_slash=False),
    "Falcon, strip_url_path_trailing_slash": partial(falcon_router, strips_slash=True),
    "Pyramid": pyramid_router,
    "Pyramid, traversal": pyramid_traversal,
    "Bottle": bottle_router,
    "CherryPy": cherrypy_router,
    "Morepath": morepath_router,
    "TurboGears": turbogears_router,
}
