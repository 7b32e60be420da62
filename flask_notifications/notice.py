"""The announcement of a matched request, for the application.

It may repeat the announcement in a body, because agents and SDKs do not read headers.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from wsgiref.types import WSGIEnvironment

from .plans.decision import Decision
from .plans.policy import Phase
from .validation import require

# The environ key of the decision about a matched request.
SERVED = "flask_notifications.served"


class Notice(NamedTuple):
    """Tell an application what the headers of its response will announce.

    :param operation: the operation's name.
    :param phase: the phase of the operation for this caller.
    :param deprecated_at: the date in ``Deprecation``, in UTC.
    :param sunset_at: the date in ``Sunset``, in UTC, or ``None``.
    :param successor: the target of the link to the successor, or ``None``.
    :param documentation: the target of the link to the documentation, or ``None``.
    """

    operation: str
    phase: Phase
    deprecated_at: datetime
    sunset_at: datetime | None
    successor: str | None
    documentation: str | None


def notice_of(environ: WSGIEnvironment) -> Notice | None:
    """Return the notice of a matched request, or ``None`` if there is none.

    It is set before your application is called. Of two middlewares, the inner one sets
    it.

    :param environ: the WSGI environ (``request.environ`` in Flask, ``request.META`` in
        Django). The notice of a copy with another method or path is ``None``.
    :raises ValueError: the argument is no environ, such as the request itself.
    """
    # The message shows the type only, because the repr of a request has its URL.
    require(
        isinstance(environ, Mapping),
        "environ",
        "a WSGI environ, such as request.environ",
        type(environ),
    )
    decision = environ.get(SERVED)
    if not isinstance(decision, Decision):
        return None
    # Joined, because mounting an application within another moves a part of the path
    # from one to the other.
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    if (decision.method, decision.path) != (environ.get("REQUEST_METHOD"), path):
        return None
    return describe(decision)


def describe(decision: Decision) -> Notice:
    """Return the notice of a matched request."""
    announcement = decision.announcement
    headers, policy = announcement.headers, announcement.headers.policy
    successor, documentation = announcement.successor, policy.documentation
    if successor is not None:
        successor = headers.resolve(successor, announcement.mount)
    if documentation is not None:
        documentation = headers.resolve(documentation, announcement.mount)
    return Notice(
        decision.match.operation.name,
        decision.phase,
        policy.deprecated_at,
        policy.sunset_of(announcement.exemption),
        successor,
        documentation,
    )
