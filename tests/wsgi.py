"""Call a WSGI application as a strict server would, and return its whole response."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from io import StringIO
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator


@dataclass
class Response:
    """A response; its headers are a list, because their order and number count."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes
    environ: WSGIEnvironment = field(repr=False, default_factory=dict)

    @property
    def code(self) -> int:
        return int(self.status[:3])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def one(self, name: str) -> str:
        (value,) = self.all(name)
        return value

    @property
    def wire(self) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return everything that a client can see."""
        return self.status, self.headers, self.body


def environ_of(
    method: str = "GET", path: str = "/", query: str = "", **extra: Any
) -> WSGIEnvironment:
    """Return the environ of a request; ``path`` and ``query`` are WSGI strings."""
    host = {
        "SERVER_NAME": "api.example",
        "HTTP_HOST": "api.example",
        "SERVER_PROTOCOL": "HTTP/1.1",
    }
    target = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
    }
    environ = {**target, **host, "wsgi.errors": _Errors(), **extra}
    setup_testing_defaults(environ)
    return environ


class _Errors(StringIO):
    """``wsgi.errors``, to which nothing may be written: the validator reports unclosed
    iterables here.
    """

    def write(self, text: str) -> int:
        raise AssertionError(text)


def call(
    app: WSGIApplication,
    method: str = "GET",
    path: str = "/",
    query: str = "",
    **extra: Any,
) -> Response:
    """Call an application under ``wsgiref.validate``, read its body to the end and
    close it.
    """
    return run(validator(app), environ_of(method, path, query, **extra))


def run(app: WSGIApplication, environ: WSGIEnvironment) -> Response:
    """Call an application with an environ as it is, read its body to the end and close
    it.
    """
    started: list[tuple[str, list[tuple[str, str]]]] = []
    written: list[bytes] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], object]:
        assert not started or exc_info is not None
        started.append((status, headers))
        return written.append

    body = app(environ, start_response)
    try:
        written.extend(body)
    finally:
        if hasattr(body, "close"):
            body.close()
    status, headers = started[-1]
    for name, value in headers:
        assert f"{name}{value}".isprintable(), (name, value)
        value.encode("latin-1")
    return Response(status, headers, b"".join(written), environ)


def between_validators(
    wrap: Callable[[WSGIApplication], WSGIApplication], app: WSGIApplication
) -> WSGIApplication:
    """Put a middleware between two validators, one towards the server and one towards
    the application.
    """
    return validator(wrap(validator(app)))


def plain_app(
    status: str = "200 OK", headers: Iterable[tuple[str, str]] = (), body: bytes = b"ok"
) -> WSGIApplication:
    """Return an application whose response is always the same."""

    def app(_environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        start_response(status, [("Content-Type", "text/plain"), *headers])
        return [body]

    return app
