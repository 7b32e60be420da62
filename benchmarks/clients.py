"""Make requests to an application in this process, as a server would but without a
network.
"""

from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import WSGIApplication, WSGIEnvironment

from benchmarks.measuring import Repeat
from benchmarks.work import PATH
from tests.wsgi import environ_of

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


def environ_with(
    session_id: str | None = None, path: str = PATH, **extra: Any
) -> WSGIEnvironment:
    """Return the environ of a ``GET`` whose session ID is in the header."""
    session = (
        {} if session_id is None else {"HTTP_AUTHORIZATION": f"Bearer {session_id}"}
    )
    return environ_of(path=path) | {"RAW_URI": path} | _HEADERS | session | extra


def repeat_request(application: WSGIApplication, environ: WSGIEnvironment) -> Repeat:
    """Return a function that calls an application repeatedly, each time with a new copy
    of the environ.
    """

    def repeat(count: int) -> None:
        for _ in range(count):
            body = application(environ.copy(), _start_response)
            for _part in body:
                pass
            if hasattr(body, "close"):
                body.close()

    return repeat


def _start_response(
    _status: str, _headers: Iterable[tuple[str, str]], _exc_info: Any = None
) -> Callable[[bytes], object]:
    return len  # no application here calls ``write``
