"""Around any WSGI application: claim the obsolete operations, unify the session, announce the retirement.

The environ goes in, ``start_response`` is wrapped, observers are told. Knows no framework, no storage and no byte of a
body. Standard library only.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from traceback import format_exception
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from .deprecation import Announcement, DeprecationPolicy, Phase
from .fields import TOKEN, Fields, check_uri, expect, keep_private, merge, vary_on, without
from .log import log_error
from .operations import NOTIFICATION_OPERATIONS, Claim, Operation, OperationTable
from .problems import Problems, Statuses, retry_after
from .redirects import WayBack, way_back
from .replies import Reply, send
from .sessions import Session, SessionCredential, SessionRefused, Source, claim_session

if TYPE_CHECKING:
    from _typeshed import OptExcInfo
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ORIGINAL_PATH = "flask_notifications.original_path"

# Set while a claimed request is on its way: a second middleware, inside of this one, leaves it alone.
_IN_FLIGHT = "flask_notifications.claim"

# RFC 9110 section 10.1.5: product = token ["/" product-version]
_PRODUCT = re.compile(rf"{TOKEN}(?:/{TOKEN})?")

# What only this middleware says (RFC 9745, RFC 8594); two lines of either are no valid header.
_ANNOUNCED = frozenset({"deprecation", "sunset"})
# What a page of another origin may read when it may read the answer at all (Fetch, CORS-exposed header names).
_EXPOSE = "Access-Control-Expose-Headers"
_EXPOSED = ("Deprecation", "Sunset", "Link")

# Names, as most applications spell them, that need no look here.
_LEFT_ALONE = frozenset(
    {"Content-Type", "Content-Length", "Cache-Control", "X-Content-Type-Options", "ETag", "Date", "Set-Cookie"}
)

_VARY = ("Vary", "Authorization")
_NO_REFERRER = ("Referrer-Policy", "no-referrer")

# The phases in which the application answers.
_OPEN = (Phase.DEPRECATED, Phase.ANNOUNCED)

Clock = Callable[[], datetime]

# The time, and the phase, of a request to which neither makes a difference.
_WHENEVER = (datetime.min.replace(tzinfo=UTC), Phase.DEPRECATED)

# From the fields of an answer, the lower-case names of those among them that matter here, and its status line.
Guard = Callable[[Fields, set[str], str], Fields]


@dataclass(frozen=True, slots=True)
class Use:
    """Tell an observer of one claimed request.

    ``operation`` is the operation's name, ``method`` the request's own (``HEAD`` is not ``GET``), ``status`` the status
    code, ``None`` when the application raised; ``phase`` that of the operation at that time; ``source`` where the
    session ID stood, ``None`` without a session; ``client`` the first product of ``User-Agent`` (RFC 9110 section
    10.1.5), or ``None``; ``at`` the time of the request, in UTC. It never holds a session ID, a path or a query.
    """

    operation: str
    method: str
    status: int | None
    phase: Phase
    source: Source | None
    client: str | None
    at: datetime


Observer = Callable[[Use], object]


# The time, aware, in UTC.
utc_now: Clock = partial(datetime.now, UTC)


class DeprecationMiddleware:
    """Announce the retirement of operations on whatever an application answers to them, and unify their session.

    A request that belongs to one of ``operations`` is claimed, every other one passes untouched. On a claimed request
    the environ is changed in place before the application runs: ``PATH_INFO`` gets the operation's own spelling, and
    unless ``extract_session`` is false the session ID is taken from where the client put it to where the application
    finds it, and out of what servers log. Every answer carries ``Deprecation`` (RFC 9745), ``Sunset`` (RFC 8594) and
    ``Link`` (RFC 8288) lines, the same bytes each time. During a brownout and after an enforced sunset the middleware
    answers 410 itself.

    ``require_session=True`` answers 401 to a request without a session; ``statuses`` and ``realm`` are those of such
    answers. ``base_url`` makes link targets that begin with ``/`` absolute. ``clock`` returns the time as an aware
    datetime; a naive one counts as local time. Each of ``observers`` is called with a ``Use`` once per claimed request,
    before the first byte of the answer; its failure is logged and touches nothing else.

    Applying it twice changes nothing: the outermost middleware that claims a request is the one that answers for it.
    Install it outermost, so that nothing else sees the session ID in the URL.

    Raises ``ValueError`` naming the argument that does not fit.
    """

    __slots__ = (
        "_announcements",
        "_app",
        "_beginning",
        "_clock",
        "_extract",
        "_guard",
        "_is_timed",
        "_observers",
        "_policy",
        "_problems",
        "_require",
        "_table",
    )

    def __init__(
        self,
        app: "WSGIApplication",
        policy: DeprecationPolicy,
        *,
        operations: Iterable[Operation] = NOTIFICATION_OPERATIONS,
        extract_session: bool = True,
        require_session: bool = False,
        statuses: Statuses = Statuses(),  # noqa: B008 - frozen
        realm: str = "notifications",
        base_url: str | None = None,
        clock: Clock = utc_now,
        observers: Iterable[Observer] = (),
    ) -> None:
        expect(callable(app), "app", "a WSGI application", app)
        expect(isinstance(policy, DeprecationPolicy), "policy", "a DeprecationPolicy", policy)
        expect(
            extract_session or not require_session,
            "require_session",
            "False without extract_session=True",
            require_session,
        )
        expect(base_url is None or _is_base_url(base_url), "base_url", "an absolute http(s) URL", base_url)
        expect(callable(clock), "clock", "a function that returns an aware datetime", clock)
        expect(isinstance(observers, Iterable), "observers", "a sequence of functions of a Use", observers)
        self._app = app
        self._policy = policy
        self._table = OperationTable(operations)
        self._beginning = self._table.beginning
        self._announcements = {
            each: Announcement(policy, each.successor, base_url=base_url or "") for each in self._table.operations
        }
        self._problems = Problems(statuses=statuses, realm=realm)
        self._extract = extract_session
        self._guard = _vary if extract_session else _untouched
        self._require = require_session
        self._clock = clock
        self._observers = tuple(observers)
        expect(all(map(callable, self._observers)), "observers", "a sequence of functions of a Use", observers)
        self._is_timed = policy.closes or bool(self._observers)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Pass a request on, or claim it (PEP 3333)."""
        path = environ.get("PATH_INFO", "")
        if not path.lower().startswith(self._beginning):  # as most are told
            return self._app(environ, start_response)
        claim = self._table.match(environ["REQUEST_METHOD"], path)
        if claim is None or _IN_FLIGHT in environ:
            return self._app(environ, start_response)
        return self._serve(claim, path, environ, start_response)

    def _serve(
        self, claim: Claim, path: str, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        environ[_IN_FLIGHT] = claim.operation.name
        environ[ORIGINAL_PATH] = path
        environ["PATH_INFO"] = claim.path
        session, in_query = claim_session(environ) if self._extract else (None, False)
        now, phase = self._moment() if self._is_timed else _WHENEVER
        announcement = self._announcements[claim.operation]
        mount = _mount(environ)
        exchange = _Exchange(
            environ,
            start_response,
            announcement.lines(mount),
            partial(_keep_private, way_back(environ, path, session, self._table)) if in_query else self._guard,
            self._report(claim, environ, session, phase, now) if self._observers else None,
        )
        if phase not in _OPEN:
            reply = self._closed(phase, now, announcement.successor(mount))
        elif isinstance(session, SessionRefused):
            reply = self._problems.refusal(session)
        elif self._require and session is None:
            reply = self._problems.reply("session_missing")
        else:
            return exchange.run(self._app)
        return exchange.run(partial(send, reply))

    def _moment(self) -> tuple[datetime, Phase]:
        now = self._clock().astimezone(UTC)
        return now, self._policy.phase(now)

    def _closed(self, phase: Phase, now: datetime, successor: str | None) -> Reply:
        """Return the answer to a request that the application does not get to see."""
        brownout = self._policy.brownout(now)
        if phase is Phase.SUNSET or brownout is None:
            return self._problems.reply("sunset", successor=successor)
        wait = retry_after((brownout.end - now).total_seconds())
        return self._problems.reply("brownout", extra=[wait], successor=successor)

    def _report(
        self, claim: Claim, environ: "WSGIEnvironment", session: Session, phase: Phase, now: datetime
    ) -> Callable[[int | None], None]:
        """Return a function that tells the observers of a request once its status is known."""
        use = partial(
            Use,
            operation=claim.operation.name,
            method=environ["REQUEST_METHOD"],
            phase=phase,
            source=session.source if isinstance(session, SessionCredential) else None,
            client=_client(environ),
            at=now,
        )
        return lambda status: self._tell(use(status=status))

    def _tell(self, use: Use) -> None:
        for observer in self._observers:
            try:
                observer(use)
            except Exception as fault:  # noqa: BLE001 - an observer's failure is its own
                # Without the context: that is the application's exception, whose text may hold anything.
                told = "".join(format_exception(fault, chain=False))
                log_error("observer %r failed: %s", observer, told)


class _Exchange:
    """One claimed request between the server and an application, as PEP 3333 lets them talk.

    ``announced`` are the fields that every answer gets; ``guard`` changes others so that a session stays its user's.
    """

    __slots__ = (
        "_announced",
        "_environ",
        "_guard",
        "_report",
        "_returned",
        "_start_response",
        "_status",
    )

    def __init__(
        self,
        environ: "WSGIEnvironment",
        start_response: "StartResponse",
        announced: Fields,
        guard: Guard,
        report: Callable[[int | None], None] | None,
    ) -> None:
        self._environ = environ
        self._start_response = start_response
        self._announced = announced
        self._guard = guard
        self._report = report
        self._returned = False
        self._status: str | None = None

    def run(self, app: "WSGIApplication") -> Iterable[bytes]:
        """Call an application and hand back its own iterable; whoever wraps it loses sendfile and ``close()``."""
        try:
            body = app(self._environ, self._start)
        except BaseException:
            self._settle(None)
            raise
        self._returned = True
        if self._status is not None:
            try:
                self._settle(self._status)
            except BaseException:  # an observer that ends the process
                _close(body)
                raise
        return body

    def _start(
        self, status: str, headers: list[tuple[str, str]], exc_info: "OptExcInfo | None" = None
    ) -> Callable[[bytes], object]:
        fields = self._decorated(status, headers)
        write = (
            self._start_response(status, fields) if exc_info is None else self._start_response(status, fields, exc_info)
        )
        self._status = status
        if self._returned:  # an application that starts its response while it is read
            self._settle(status)
        return write

    def _decorated(self, status: str, came: Fields) -> Fields:
        """Return the fields of an answer, a new list; ``came`` are the application's."""
        names: set[str] = set()
        for name, _value in came:
            if name not in _LEFT_ALONE:
                names.add(name.lower())
        fields = came if names.isdisjoint(_ANNOUNCED) else without(came, _ANNOUNCED)
        fields = [*self._guard(fields, names, status), *self._announced]
        return merge(fields, _EXPOSE, _EXPOSED) if "access-control-allow-origin" in names else fields

    def _settle(self, status: str | None) -> None:
        """Let go of the request, once: when its status is known and the iterable has been handed back."""
        self._environ.pop(_IN_FLIGHT, None)
        report, self._report = self._report, None
        if report is not None:
            code = status[:3] if status is not None else ""
            report(int(code) if code.isdecimal() else None)


def _untouched(fields: Fields, _names: set[str], _status: str) -> Fields:
    return fields


def _vary(fields: Fields, names: set[str], _status: str) -> Fields:
    """Return the fields of an answer that depends on the session, which the application finds in the header."""
    if _VARY in fields:
        return fields
    return vary_on(fields, "Authorization") if "vary" in names else [*fields, _VARY]


def _keep_private(way_back: WayBack | None, fields: Fields, names: set[str], status: str) -> Fields:
    """Return the fields of an answer whose URL holds a session ID: no shared cache, no Referer (RFC 6750 section 2.3).

    ``way_back`` leads a redirect back to the session when it was accepted.
    """
    fields = keep_private(_vary(fields, names, status))
    fields = fields if "referrer-policy" in names else [*fields, _NO_REFERRER]
    return fields if way_back is None or "location" not in names else way_back.restored(fields, status)


def _close(body: object) -> None:
    close = getattr(body, "close", None)
    if callable(close):
        close()


def _mount(environ: "WSGIEnvironment") -> str:
    """Return ``SCRIPT_NAME`` percent-encoded, with one slash in front: two would name a host (RFC 3986 section 4.2)."""
    name: str = environ.get("SCRIPT_NAME", "").strip("/")
    return "/" + quote(name, encoding="latin-1", errors="replace") if name else ""


def _client(environ: "WSGIEnvironment") -> str | None:
    product = _PRODUCT.match(environ.get("HTTP_USER_AGENT", ""))
    return product and product[0]


def _is_base_url(url: object) -> bool:
    check_uri("base_url", url)
    try:
        parts = urlsplit(str(url))
        names_a_host = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a broken address, or no port number
        return False
    return parts.scheme in {"http", "https"} and names_a_host and not set(str(url)) & {"?", "#"}
