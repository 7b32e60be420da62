"""A finished answer as plain values, and how WSGI sends one.

Knows neither what an answer says nor why. Standard library only: the middleware's own answers go out here too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import IO, TYPE_CHECKING
from wsgiref.util import FileWrapper

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# Bytes read from a file and written to the client at a time.
BLOCK = 131_072

# What every answer carries: no cache keeps it (RFC 9111 section 5.2.2.5), and none mixes up two callers' answers
# (RFC 9110 section 12.5.5); no browser takes it for something else than its type (Fetch, "nosniff").
_GUARDS = (("Cache-Control", "no-store"), ("Vary", "Authorization"), ("X-Content-Type-Options", "nosniff"))

# With a status that legacy clients know and that no registry names.
_PHRASES = {status.value: status.phrase for status in HTTPStatus} | {440: "Login Time-out"}
_STATUS_LINES = {status: f"{status} {phrase}" for status, phrase in _PHRASES.items()}


@dataclass(slots=True)  # not frozen: one is made at each request, which would take three times as long
class Reply:
    """Hold an answer: a status line, its header fields, and a body that is there as a whole.

    The body is bytes, or an open binary file from its start to its end, which whoever sends the reply closes.
    """

    status: str
    fields: tuple[tuple[str, str], ...]
    body: bytes | IO[bytes]

    def close(self) -> None:
        """Release the body's file, if it has one."""
        if not isinstance(self.body, bytes):
            self.body.close()


def compose(
    status: int, media_type: str, body: bytes | IO[bytes], length: int, extra: Iterable[tuple[str, str]] = ()
) -> Reply:
    """Return a reply with the fields that all our answers carry, its exact length in bytes and some ``extra`` ones."""
    fields = (("Content-Type", media_type), ("Content-Length", str(length)), *_GUARDS, *extra)
    return Reply(_STATUS_LINES.get(status) or f"{status} {phrase(status)}", fields, body)


def phrase(status: int) -> str:
    """Return the reason phrase of a status code, a made-up but fitting one for codes that no registry names."""
    return _PHRASES.get(status) or ("Client Error" if status < 500 else "Server Error")


def body_of(reply: Reply, environ: "WSGIEnvironment") -> Iterable[bytes]:
    """Return the reply's body as what the server sends best; closing it releases the file.

    A file goes to the server's own ``wsgi.file_wrapper`` (PEP 3333, "Optional Platform-Specific File Handling"); the
    object that comes from there must reach the server as it is, or a server that could use sendfile does not.
    """
    if isinstance(reply.body, bytes):
        return (reply.body,)
    wrapper: type[FileWrapper] = environ.get("wsgi.file_wrapper", FileWrapper)
    return wrapper(reply.body, BLOCK)


def send(reply: Reply, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Send a reply as a WSGI application does; to ``HEAD`` without its body."""
    try:
        start_response(reply.status, list(reply.fields))
    except BaseException:
        reply.close()
        raise
    if environ["REQUEST_METHOD"] == "HEAD":
        reply.close()
        return ()
    return body_of(reply, environ)
