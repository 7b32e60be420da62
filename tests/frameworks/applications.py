"""Six small WSGI applications with the same pages: one for each of five frameworks, and one without a framework.

``/{page}`` and ``/{area}/items/`` report what the application sees. Every other page of an area is one kind of
response. ``OPERATIONS`` match the area ``old`` but not ``new``. The area ``reports`` is for operations of the tests.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from wsgiref.util import FileWrapper

import flask
from werkzeug.debug import DebuggedApplication

from flask_notifications import DeprecationPolicy, Operation, session_of
from tests.services import service_or_skip

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
AREAS = ("old", "new", "reports")

# The status of each page, which is the same in every application. Only the crash differs.
PAGES = {
    "items/": 200,
    "cookies": 200,
    "file": 200,
    "stream": 200,
    "moved": 302,
    "unchanged": 304,
    "gone": 404,
    "nowhere": 404,
    "form": 405,
    "handled": 500,
}
POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC), sunset_at=datetime(2027, 1, 1, tzinfo=UTC), documentation="/docs"
)
OPERATIONS = (
    *(Operation(f"page-{method}", method, "/{page}", rewrite_path=True, unify_session=True) for method in METHODS),
    Operation("items", "GET", "/old/items/", "/new/items/", rewrite_path=True, unify_session=True),
    *(
        Operation(f"old-{method}", method, "/old/{page}", "/new/items/", rewrite_path=True, unify_session=True)
        for method in METHODS
    ),
)

# The content of the page ``file``, and the parts of the page ``stream``.
TEXT = Path(__file__).read_bytes()
PARTS = (b"first", b"second")

# Environ keys of the tests: the list to which ``stream`` appends its parts, and the target of the page ``moved``.
PRODUCED = "tests.produced"
TARGET = "tests.target"


class Handled(Exception):
    """An exception for which each application has an error handler."""


class Witness:
    """Record each environ that the middleware passes to an application, and each iterable that it returns."""

    def __init__(self, app: "WSGIApplication") -> None:
        self._app = app
        self.environs: list[WSGIEnvironment] = []
        self.bodies: list[Iterable[bytes]] = []

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        self.environs.append(dict(environ))
        self.bodies.append(self._app(environ, start_response))
        return self.bodies[-1]


def library(name: str) -> Any:
    """Import and return a module of another framework; skip the test if it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other packages warn at import, and we cannot change that
        try:
            return import_module(name)
        except ModuleNotFoundError as missing:
            service_or_skip(str(missing.name), present=False)
            raise


def application_of(name: str, *, debug: bool = False) -> "WSGIApplication":
    """Return the application of a framework, or the one of the name ``bare``."""
    return APPLICATIONS[name](debug)


def report(
    environ: "WSGIEnvironment", authorization: str | None, parameters: Iterable[tuple[str, str]], body: bytes
) -> dict[str, Any]:
    """Return what an application sees: the session and the raw query, and the rest as its framework parses it."""
    session = session_of(environ)
    return {
        "session": session and [session.value, session.source],
        "authorization": authorization or None,
        "parameters": [list(pair) for pair in parameters],
        "query": environ.get("QUERY_STRING"),
        "body": body.decode("latin-1"),
    }


def crash() -> None:
    message = "on purpose"
    raise RuntimeError(message)


def stream_parts(environ: "WSGIEnvironment") -> Iterator[bytes]:
    for part in PARTS:
        environ[PRODUCED].append(part)
        yield part


def redirect_target(environ: "WSGIEnvironment") -> str:
    """Return the target of ``moved``, with the query of the request appended as routers do."""
    query = environ.get("QUERY_STRING", "")
    return f"{environ[TARGET]}?{query}" if query else str(environ[TARGET])


@cache
def bare_application(_debug: bool) -> "WSGIApplication":
    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        status, headers, body = _bare_page(environ)
        start_response(status, headers)
        return body

    return app


def _bare_page(environ: "WSGIEnvironment") -> tuple[str, list[tuple[str, str]], Iterable[bytes]]:
    area, _, page = environ["PATH_INFO"][1:].partition("/")
    if not page or page == "items/":
        query = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        seen = report(environ, environ.get("HTTP_AUTHORIZATION"), query, body)
        return "200 OK", [("Content-Type", "application/json")], [json.dumps(seen).encode()]
    plain = [("Content-Type", "text/plain")]
    if page == "crash":
        crash()
    if page == "file":
        return "200 OK", plain, environ.get("wsgi.file_wrapper", FileWrapper)(Path(__file__).open("rb"), 8192)
    if page == "items":
        query_string = environ.get("QUERY_STRING", "")
        return "308 Permanent Redirect", [*plain, ("Location", f"/{area}/items/?{query_string}")], []
    pages: dict[str, tuple[str, list[tuple[str, str]], Iterable[bytes]]] = {
        "cookies": ("200 OK", [*plain, ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], [b"ok"]),
        "form": ("405 Method Not Allowed", [*plain, ("Allow", "POST")], [b"no"]),
        "handled": ("500 Internal Server Error", plain, [b"handled"]),
        "moved": ("302 Found", [*plain, ("Location", redirect_target(environ) if page == "moved" else "")], []),
        "stream": ("200 OK", plain, stream_parts(environ)),
        "unchanged": ("304 Not Modified", [("ETag", '"1"')], []),
    }
    return pages.get(page, ("404 Not Found", plain, [b"none"]))


@cache
def flask_application(debug: bool) -> "WSGIApplication":
    app = flask.Flask("app")

    def show(**_parameters: str) -> dict[str, Any]:
        request = flask.request
        query = request.args.items(multi=True)
        return report(request.environ, request.headers.get("Authorization"), query, request.get_data())

    def cookies() -> flask.Response:
        response = flask.Response("ok")
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    def handle(_failure: Exception) -> tuple[str, int]:
        return "handled", 500

    app.register_error_handler(Handled, handle)
    app.add_url_rule("/<page>", view_func=show, methods=[*METHODS, "OPTIONS"], provide_automatic_options=False)
    pages: dict[str, Callable[[], Any]] = {
        "items/": show,
        "cookies": cookies,
        "crash": crash,
        "file": lambda: flask.send_file(__file__, etag=False),
        "gone": lambda: flask.abort(404),
        "handled": _raise_handled,
        "moved": lambda: flask.redirect(redirect_target(flask.request.environ)),
        "stream": lambda: flask.Response(stream_parts(flask.request.environ)),
        "unchanged": lambda: flask.Response(status=304, headers={"ETag": '"1"'}),
    }
    for area in AREAS:
        for page, view in pages.items():
            app.add_url_rule(f"/{area}/{page}", f"{area}-{page}", view)
        app.add_url_rule(f"/{area}/form", f"{area}-form", lambda: "ok", methods=["POST"])
    app.debug = debug
    return DebuggedApplication(app, evalex=False) if debug else app


def _raise_handled(*_arguments: Any) -> Any:
    raise Handled


@cache
def django_application(debug: bool) -> "WSGIApplication":
    settings, urls, views = library("django.conf").settings, library("django.urls"), _django_views()
    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            DATA_UPLOAD_MAX_NUMBER_FIELDS=None,  # one of the vectors has 2000 parameters
            LOGGING_CONFIG=None,
            MIDDLEWARE=["django.middleware.common.CommonMiddleware", f"{__name__}.django_handler"],
            ROOT_URLCONF=type("Routes", (), {}),
            SECRET_KEY="for the debug page, which signs nothing",  # noqa: S106 - no secret
        )
        settings.ROOT_URLCONF.urlpatterns = [
            urls.path("<page>", views["items/"]),
            *(urls.path(f"{area}/{page}", view) for area in AREAS for page, view in views.items()),
        ]
    application = library("django.core.wsgi").get_wsgi_application()
    override_settings = library("django.test.utils").override_settings

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        with override_settings(DEBUG=debug):
            body: Iterable[bytes] = application(environ, start_response)
        return body

    return app


def _django_views() -> dict[str, Callable[..., Any]]:
    http, post_only = library("django.http"), library("django.views.decorators.http").require_POST

    def show(request: Any, **_parameters: str) -> Any:
        query = [(name, value) for name, values in request.GET.lists() for value in values]
        return http.JsonResponse(report(request.environ, request.headers.get("Authorization"), query, request.body))

    def cookies(_request: Any) -> Any:
        response = http.HttpResponse("ok")
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    def gone(_request: Any) -> Any:
        raise http.Http404

    return {
        "items/": show,
        "cookies": cookies,
        "crash": lambda _request: crash(),
        "file": lambda _request: http.FileResponse(Path(__file__).open("rb"), content_type="text/plain"),
        "form": post_only(lambda _request: http.HttpResponse("ok")),
        "gone": gone,
        "handled": _raise_handled,
        "moved": lambda request: http.HttpResponseRedirect(redirect_target(request.environ)),
        "stream": lambda request: http.StreamingHttpResponse(stream_parts(request.environ)),
        "unchanged": lambda _request: http.HttpResponseNotModified(headers={"ETag": '"1"'}),
    }


def django_handler(get_response: Callable[[Any], Any]) -> Any:
    """Return a middleware with ``process_exception``, which is an error handler for Django."""

    class Handler:
        def __call__(self, request: Any) -> Any:
            return get_response(request)

        def process_exception(self, _request: Any, failure: Exception) -> Any:
            return library("django.http").HttpResponse("handled", status=500) if isinstance(failure, Handled) else None

    return Handler()


@cache
def pyramid_application(_debug: bool) -> "WSGIApplication":
    library("pyramid")
    exceptions, responses = library("pyramid.httpexceptions"), library("pyramid.response")

    def show(request: Any) -> Any:
        seen = report(request.environ, request.headers.get("Authorization"), request.GET.items(), request.body)
        return responses.Response(json=seen)

    def cookies(_request: Any) -> Any:
        response = responses.Response("ok")
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    def gone(_request: Any) -> Any:
        raise exceptions.HTTPNotFound

    pages: dict[str, Callable[[Any], Any]] = {
        "items/": show,
        "cookies": cookies,
        "crash": lambda _request: crash(),
        "file": lambda request: responses.FileResponse(__file__, request),
        "gone": gone,
        "handled": _raise_handled,
        "moved": lambda request: exceptions.HTTPFound(redirect_target(request.environ)),
        "stream": lambda request: responses.Response(app_iter=stream_parts(request.environ)),
        "unchanged": lambda _request: exceptions.HTTPNotModified(headers={"ETag": '"1"'}),
    }
    with library("pyramid.config").Configurator() as config:
        config.add_notfound_view(lambda _request: exceptions.HTTPNotFound(), append_slash=True)
        config.add_exception_view(lambda _request: responses.Response("handled", status=500), context=Handled)
        for area in AREAS:
            for page, view in pages.items():
                config.add_route(f"{area}-{page}", f"/{area}/{page}")
                config.add_view(view, route_name=f"{area}-{page}")
            config.add_route(f"{area}-form", f"/{area}/form")
            config.add_view(lambda _request: exceptions.HTTPMethodNotAllowed(), route_name=f"{area}-form")
        config.add_route("page", "/{page}")
        config.add_view(show, route_name="page")
        app: WSGIApplication = config.make_wsgi_app()
    return app


@cache
def falcon_application(_debug: bool) -> "WSGIApplication":
    falcon = library("falcon")
    responders = _falcon_responders(falcon)

    def handle(_request: Any, response: Any, _failure: Exception, _parameters: Any) -> None:
        response.status, response.text = 500, "handled"

    def resource(responder: Any, methods: Iterable[str]) -> Any:
        names = [f"on_{method.lower()}" for method in methods]
        return type("Resource", (), dict.fromkeys(names, staticmethod(responder)))()

    app = falcon.App()
    app.add_error_handler(Handled, handle)
    app.add_route("/{page}", resource(responders["items/"], [*METHODS, "OPTIONS"]))
    for area in AREAS:
        for page, responder in responders.items():
            app.add_route(f"/{area}/{page}", resource(responder, ["POST"] if page == "form" else ["GET", "HEAD"]))
    wsgi: WSGIApplication = app
    return wsgi


def _falcon_responders(falcon: Any) -> dict[str, Any]:
    def show(request: Any, response: Any, **_parameters: str) -> None:
        query = falcon.uri.parse_query_string(request.query_string, keep_blank=True, csv=False)
        pairs = [
            (name, each) for name, value in query.items() for each in ([value] if isinstance(value, str) else value)
        ]
        response.media = report(request.env, request.auth, pairs, request.bounded_stream.read())

    def cookies(_request: Any, response: Any) -> None:
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        response.text = "ok"

    def file(request: Any, response: Any) -> None:
        response.content_type = "text/plain"
        if request.method != "HEAD":  # Falcon would not close the stream then
            response.stream = Path(__file__).open("rb")  # noqa: SIM115 - Falcon closes

    def gone(_request: Any, _response: Any) -> None:
        raise falcon.HTTPNotFound

    def moved(request: Any, _response: Any) -> None:
        raise falcon.HTTPFound(redirect_target(request.env))

    def slash(request: Any, _response: Any) -> None:
        location = f"{request.path}/?{request.query_string}"
        raise falcon.HTTPPermanentRedirect(location)

    def stream(request: Any, response: Any) -> None:
        response.stream = stream_parts(request.env)

    def unchanged(_request: Any, response: Any) -> None:
        response.status, response.etag = 304, "1"

    return {
        "items/": show,
        "items": slash,
        "cookies": cookies,
        "crash": lambda _request, _response: crash(),
        "file": file,
        "form": lambda _request, _response: None,
        "gone": gone,
        "handled": _raise_handled,
        "moved": moved,
        "stream": stream,
        "unchanged": unchanged,
    }


@cache
def bottle_application(debug: bool) -> "WSGIApplication":
    bottle = library("bottle")
    application, request = bottle.Bottle(), bottle.request

    def show(**_parameters: str) -> Any:
        # FormsDict decodes strings as latin-1, or as UTF-8 on demand.
        query = request.query.decode().allitems()
        return report(request.environ, request.get_header("Authorization"), query, request.body.read())

    def cookies() -> str:
        bottle.response.set_cookie("a", "1")
        bottle.response.set_cookie("b", "2")
        return "ok"

    def raise_handled() -> Any:
        raise bottle.HTTPError(500, "handled", exception=Handled())

    pages: dict[str, Callable[..., Any]] = {
        "items/": show,
        "items": lambda: bottle.redirect(f"{request.path}/?{request.query_string}", 308),
        "cookies": cookies,
        "crash": crash,
        "file": lambda: bottle.static_file(Path(__file__).name, root=str(Path(__file__).parent)),
        "gone": lambda: bottle.abort(404),
        "handled": raise_handled,
        "moved": lambda: bottle.redirect(redirect_target(request.environ), 302),
        "stream": lambda: stream_parts(request.environ),
        "unchanged": lambda: bottle.HTTPResponse(status=304, ETag='"1"'),
    }
    for area in AREAS:
        for page, view in pages.items():
            application.route(f"/{area}/{page}", "GET", view)
        application.route(f"/{area}/form", "POST", lambda: "ok")
    application.route("/<page>", [*METHODS, "OPTIONS"], show)

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        bottle.debug(debug)
        try:
            body: Iterable[bytes] = application(environ, start_response)
        finally:
            bottle.debug(False)
        return body

    return app


APPLICATIONS: dict[str, Callable[[bool], "WSGIApplication"]] = {
    "bare": bare_application,
    "bottle": bottle_application,
    "django": django_application,
    "falcon": falcon_application,
    "flask": flask_application,
    "pyramid": pyramid_application,
}
