"""What observers of the middleware get: one ``Call`` for each matched request.

Standard library only.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable
from wsgiref.types import WSGIEnvironment

from .deferred import is_deferring, refuse_deferred
from .headers import TOKEN
from .log import describe_exception
from .plans.operations import Operation
from .plans.policy import DeprecationPolicy, Phase
from .sessions.credential import Source
from .validation import holds_session_id, require

# RFC 9110 section 10.1.5: product = token ["/" product-version]
_PRODUCT = re.compile(rf"{TOKEN}(?:/{TOKEN})?")
# Characters of a client's name that observers see. Clients choose it, and may choose a
# long one.
_CLIENT_LENGTH = 64


class Call(NamedTuple):
    """One matched request, as observers see it.

    It never holds a session ID, a path or a query.

    :param operation: the operation's name.
    :param method: the request's own method: ``HEAD`` is not ``GET``.
    :param status: the status code, or ``None`` when the application raised before it
        started its response.
    :param phase: the phase of the operation at that time.
    :param source: where the session ID was, ``None`` without a session.
    :param client: the first product of ``User-Agent`` (RFC 9110 section 10.1.5), at
        most 64 characters, or ``None``.
    :param at: the time of the request, in UTC.
    :param caller: the label of the caller, 1 to 64 printable characters, or ``None``.
        A label that the application sets before its response starts precedes that of
        the middleware's ``identify``.
    """

    operation: str
    method: str
    status: int | None
    phase: Phase
    source: Source | None
    client: str | None
    at: datetime
    caller: str | None = None


Observer = Callable[[Call], object]


@runtime_checkable
class RequestWatcher(Protocol):
    """An observer that knows the plan, and learns of the first request of its process.

    The middleware calls ``listen`` once, when it is built. It calls ``request_passed``
    at each request, matched or not, while ``awaits_request`` is true; the watcher sets
    it to false.
    """

    awaits_request: bool

    def listen(self, plan: Mapping[Operation, DeprecationPolicy | None]) -> object:
        """Learn which operations are deprecated."""

    def request_passed(self) -> object:
        """Record that a request arrived."""


def require_function(argument: str, function: object, expected: str) -> None:
    """Check that an argument is a function that is not asynchronous or a generator."""
    is_ordinary = callable(function) and not is_deferring(function)
    require(is_ordinary, argument, expected, function)


def check_identify(identify: object, source: str) -> None:
    """Check that ``identify`` is ``None`` or an ordinary function.

    :param source: what the function gets, for the message: "a caller", for example.
    """
    if identify is not None:
        expected = f"an ordinary function from {source} to a label"
        require_function("identify", identify, expected)


def ask_label(
    identify: Callable[[Any], Any], source: object
) -> tuple[object, str | None]:
    """Return the result of ``identify`` and a description of its failure, or ``None``.

    The description holds no session ID.
    """
    try:
        return refuse_deferred(identify(source), "identify"), None
    except Exception as error:  # noqa: BLE001 - a label is never worth an error response
        return None, describe_exception(error)


def client_of(user_agent: str, session_ids: Iterable[str]) -> str | None:
    """Return the name of a client, or ``None`` if it has none or may hold a session ID.

    :param session_ids: every session ID of the request.
    """
    product = _PRODUCT.match(user_agent)
    if product is None:
        return None
    # Observers would see a part of a session ID that begins in the name, even if it
    # ends after the product or after the characters that they see.
    word = user_agent.partition(" ")[0]
    for session_id in session_ids:
        seen = word[: _CLIENT_LENGTH + len(session_id)]
        if holds_session_id(seen, [session_id]):
            return None
    return product[0][:_CLIENT_LENGTH]


def basic_user(environ: WSGIEnvironment) -> str | None:
    """Return the user of ``Authorization: Basic`` (RFC 7617 section 2), or ``None``.

    Use it as the ``identify`` of the middleware. Not checked: the password. Anybody can
    send any name, unless a server before the middleware checks it.

    :param environ: the WSGI environ. The name is read as UTF-8, or as ISO 8859-1 where
        it is not.
    """
    header = environ.get("HTTP_AUTHORIZATION", "")
    scheme, _space, token = header.strip(" \t").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        credentials = b64decode(token.strip(" "), validate=True)
    except ValueError:
        return None
    name, colon, _password = credentials.partition(b":")
    return decode_user(name) if name and colon else None


def decode_user(name: bytes) -> str:
    """Return the name of a user, read as UTF-8, or as ISO 8859-1 where it is not."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("latin-1")
