"""Make requests to an application in this process, as a server would but without a network: WSGI and ASGI alike."""

import asyncio
import atexit
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from benchmarks.work import PATH
from tests.wsgi import Response, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

Repeat = Callable[[int], object]
"""Make a number of requests, one after the other, and read each response to its end."""

# What a browser sends and gunicorn adds.
_HEADERS = {
    "HTTP_ACCEPT": "application/json",
    "HTTP_ACCEPT_ENCODING": "gzip, deflate",
    "HTTP_ACCEPT_LANGUAGE": "en",
    "HTTP_USER_AGENT": "client/1.0",
    "REMOTE_ADDR": "127.0.0.1",
    "REMOTE_PORT": "50000",
    "SERVER_SOFTWARE": "gunicorn",
}


def environ_with(session_id: str | None = None, path: str = PATH, **extra: Any) -> "WSGIEnvironment":
    """Return the environ of a ``GET`` whose session ID is in the header."""
    session = {} if session_id is None else {"HTTP_AUTHORIZATION": f"Bearer {session_id}"}
    return environ_of(path=path) | {"RAW_URI": path} | _HEADERS | session | extra


class WsgiClient:
    """Call a WSGI application."""

    def __init__(self, application: "WSGIApplication", path: str = PATH) -> None:
        self._application = application
        self._path = path

    def response(self, session_id: str | None) -> Response:
        """Return the whole response."""
        return run(self._application, environ_with(session_id, self._path))

    def length(self, session_id: str) -> int:
        """Return the length of a response's body without keeping the body."""
        return _read(self._application, environ_with(session_id, self._path))

    def repeat(self, session_id: str | None) -> Repeat:
        """Return a function that makes the same request repeatedly."""
        return repeat_request(self._application, environ_with(session_id, self._path))


def repeat_request(application: "WSGIApplication", environ: "WSGIEnvironment") -> Repeat:
    """Return a function that calls an application repeatedly, each time with a new copy of the environ."""

    def repeat(count: int) -> None:
        for _ in range(count):
            _read(application, environ.copy())

    return repeat


def _read(application: "WSGIApplication", environ: "WSGIEnvironment") -> int:
    """Read a response to its end without keeping it, and return the length of its body."""
    body = application(environ, _start_response)
    try:
        return sum(map(len, body))
    finally:
        if hasattr(body, "close"):
            body.close()


def _start_response(
    _status: str, _headers: Iterable[tuple[str, str]], _exc_info: Any = None
) -> Callable[[bytes], object]:
    return len  # no application here calls ``write``


class AsgiClient:
    """Call an ASGI application, with all requests of a batch in one run of one event loop."""

    def __init__(self, application: Any, path: str = PATH) -> None:
        self._application = application
        self._path = path
        self._loop = asyncio.new_event_loop()
        atexit.register(self._loop.close)

    def response(self, session_id: str | None) -> Response:
        """Return the whole response."""
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        self._loop.run_until_complete(self._application(self._scope(session_id), _receive, send))
        start, *chunks = sent
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        return Response(str(start["status"]), headers, b"".join(chunk.get("body", b"") for chunk in chunks))

    def length(self, session_id: str) -> int:
        """Return the length of a response's body without keeping the body."""
        length = 0

        async def send(message: dict[str, Any]) -> None:
            nonlocal length
            length += len(message.get("body", b""))

        self._loop.run_until_complete(self._application(self._scope(session_id), _receive, send))
        return length

    def repeat(self, session_id: str | None) -> Repeat:
        """Return a function that makes the same request repeatedly."""
        application, scope = self._application, self._scope(session_id)

        async def requests(count: int) -> None:
            for _ in range(count):
                await application(scope.copy(), _receive, _send)

        return lambda count: self._loop.run_until_complete(requests(count))

    def _scope(self, session_id: str | None) -> dict[str, Any]:
        environ = environ_with(session_id, self._path)
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [
                (name[5:].lower().replace("_", "-").encode(), value.encode())
                for name, value in environ.items()
                if name.startswith("HTTP_")
            ],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 80),
            "state": {},
        }


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(_message: dict[str, Any]) -> None:
    pass


Client = WsgiClient | AsgiClient


def client_of(application: Any, path: str = PATH) -> Client:
    """Return a WSGI or an ASGI client for an application, depending on its interface."""
    kind = AsgiClient if inspect.iscoroutinefunction(type(application).__call__) else WsgiClient
    return kind(application, path)
