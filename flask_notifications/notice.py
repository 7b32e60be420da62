"""The announcement of a matched request for its application, which may repeat it in a
body: agents and SDKs do not read headers.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from wsgiref.types import WSGIEnvironment

from .plans.decision import Decision
from .plans.policy import Phase
from .validation import require

SERVED = "flask_notifications.served"


class Notice(NamedTuple):
    """Tell an application what the headers of its response will announce.

    :param operation: the operation's name.
    :param phase: the phase of the operation for this caller.
    :param deprecated_at: since when it is deprecated, in UTC.
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


class Served(NamedTuple):
    """A matched request as the application gets it, and what was decided about it.

    It is in the environ of the request, and holds no environ itself.
    """

    method: str
    script_name: str
    path_info: str
    decision: Decision

    def __deepcopy__(self, _memo: dict[int, Any]) -> "Served":
        return self


def notice_of(environ: WSGIEnvironment) -> Notice | None:
    """Return the notice of a matched request, or ``None`` if there is none.

    It is there before your application runs and while it does. Of two middlewares, the
    inner one counts.

    :param environ: the WSGI environ (``request.environ`` in Flask, ``request.META`` in
        Django). The notice of a copy with another method or path is ``None``.
    :raises ValueError: the argument is no environ, such as the request itself.
    """
    # By its type: a request shows its URL.
    require(
        isinstance(environ, Mapping),
        "environ",
        "a WSGI environ, such as request.environ",
        type(environ),
    )
    served = environ.get(SERVED)
    if not isinstance(served, Served):
        return None
    # The border between both moves where an application is mounted in another.
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    is_same_path = path == served.script_name + served.path_info
    if served.method != environ.get("REQUEST_METHOD") or not is_same_path:
        return None
    return describe(served.decision)


def describe(decision: Decision) -> Notice:
    """Return the notice of a matched request."""
    headers, policy = decision.headers, decision.headers.policy
    successor, documentation = decision.successor, policy.documentation
    if successor is not None:
        successor = headers.resolve(successor, decision.mount)
    if documentation is not None:
        documentation = headers.resolve(documentation, decision.mount)
    return Notice(
        decision.match.operation.name,
        decision.phase,
        policy.deprecated_at,
        policy.sunset_of(decision.exemption),
        successor,
        documentation,
    )
