"""Hold a complete response as plain values, and send it through WSGI.

Standard library only, because the middleware sends its own responses with this module.
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import IO, NamedTuple
from wsgiref.types import StartResponse, WSGIEnvironment

# Bytes that are read from a file and written to the client in one step.
BLOCK = 131_072

# The headers of every response: no cache stores it (RFC 9111 section 5.2.2.5), and no
# browser guesses another type (Fetch, "nosniff").
_COMMON_HEADERS = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
# The additional header of a response that depends on the session (RFC 9110 section
# 12.5.5).
VARY = ("Vary", "Authorization")

# The registered reason phrases, and that of 440, an unregistered status that legacy
# clients know.
_PHRASES = {440: "Login Time-out"}
_PHRASES.update((status.value, status.phrase) for status in HTTPStatus)


class PlainResponse(NamedTuple):
    """Hold a response: a status line, its headers, and its complete body.

    The body is bytes, or an open binary file at its start. The sender of the response
    closes the file.
    """

    status: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | IO[bytes]

    def close(self) -> None:
        """Close the body's file, if it has one."""
        if not isinstance(self.body, bytes):
            self.body.close()


class FileBody:
    """Read an open binary file in blocks, and close it."""

    __slots__ = ("_file",)

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        while block := self._file.read(BLOCK):
            yield block

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def build_response(
    status: str,
    media_type: str,
    body: bytes | IO[bytes],
    length: int,
    extra: Iterable[tuple[str, str]] = (),
) -> PlainResponse:
    """Return a response with the headers that all our responses have.

    :param length: the size of the body in bytes.
    :param extra: further headers.
    """
    headers = (
        ("Content-Type", media_type),
        ("Content-Length", str(length)),
        *_COMMON_HEADERS,
        *extra,
    )
    return PlainResponse(status, headers, body)


def reason_phrase(status: int) -> str:
    """Return the reason phrase of a status code, or a generic one if it has none."""
    if status in _PHRASES:
        return _PHRASES[status]
    return "Client Error" if status < 500 else "Server Error"


def wrap_file(file: IO[bytes], environ: WSGIEnvironment) -> Iterable[bytes]:
    """Return an iterable over a file, whose ``close`` closes the file.

    It is the server's ``wsgi.file_wrapper`` (PEP 3333, "Optional Platform-Specific File
    Handling") if there is one. Return it to the server unchanged, because a server uses
    sendfile only for its own wrapper. The fallback is not that of the standard library,
    because fastwsgi mistakes any class named ``FileWrapper`` for Werkzeug's.
    """
    wrapper = environ.get("wsgi.file_wrapper")
    if wrapper is None:  # some servers set it to None
        return FileBody(file)
    wrapped: Iterable[bytes] = wrapper(file, BLOCK)
    return wrapped


def send_response(
    response: PlainResponse, environ: WSGIEnvironment, start_response: StartResponse
) -> Iterable[bytes]:
    """Send a response as a WSGI application does, without its body for ``HEAD``."""
    try:
        start_response(response.status, list(response.headers))
    except BaseException:
        response.close()
        raise
    if environ["REQUEST_METHOD"].upper() == "HEAD":
        response.close()
        return ()
    if isinstance(response.body, bytes):
        return (response.body,)
    return wrap_file(response.body, environ)
