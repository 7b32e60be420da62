"""Middlewares that a good engineer would write for the same work, without this library."""

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl, urlencode
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from benchmarks.work import ANNOUNCEMENT

Headers = list[tuple[str, str]]


class Announce:
    """Announce the end of one operation, by its method and its exact path."""

    def __init__(self, app: WSGIApplication, path: str) -> None:
        self._app = app
        self._operation = ("GET", path)

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Announce the end of the operation, and pass everything else."""
        if (environ["REQUEST_METHOD"], environ["PATH_INFO"]) != self._operation:
            return self._app(environ, start_response)

        def start(
            status: str, headers: Headers, exc_info: Any = None
        ) -> Callable[[bytes], object]:
            return start_response(status, self._announce(headers), exc_info)

        return self._app(self._prepare(environ), start)

    def _prepare(self, environ: WSGIEnvironment) -> WSGIEnvironment:
        return environ

    def _announce(self, headers: Headers) -> Headers:
        announced = []
        links = [ANNOUNCEMENT["Link"]]
        for name, value in headers:
            lower = name.lower()
            if lower == "link":
                links.insert(0, value)
            elif lower not in {"deprecation", "sunset"}:
                announced.append((name, value))
        announced.append(("Deprecation", ANNOUNCEMENT["Deprecation"]))
        announced.append(("Sunset", ANNOUNCEMENT["Sunset"]))
        announced.append(("Link", ", ".join(links)))
        return announced


class MoveSession(Announce):
    """Also move a session from the URL into the header, and keep it out of caches."""

    def _prepare(self, environ: WSGIEnvironment) -> WSGIEnvironment:
        rest = []
        for name, value in parse_qsl(environ["QUERY_STRING"], keep_blank_values=True):
            if name.lower() == "sessionid":
                environ.setdefault("HTTP_AUTHORIZATION", f"Bearer {value}")
                for key in ("RAW_URI", "REQUEST_URI", "HTTP_REFERER"):
                    if key in environ:
                        environ[key] = environ[key].replace(value, "REDACTED")
            else:
                rest.append((name, value))
        environ["QUERY_STRING"] = urlencode(rest)
        return environ

    def _announce(self, headers: Headers) -> Headers:
        announced = super()._announce(headers)
        vary = [value for name, value in announced if name.lower() == "vary"]
        announced = [pair for pair in announced if pair[0].lower() != "vary"]
        announced.append(("Vary", ", ".join([*vary, "Authorization"])))
        if not any(name.lower() == "cache-control" for name, _value in announced):
            announced.append(("Cache-Control", "private"))
        return announced
