"""Around any WSGI application: match the operations, unify the session, announce the retirement.

Changes the environ of a matched request, wraps ``start_response`` and calls observers. Knows no framework, no storage
and no byte of a body. Standard library only.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable
from urllib.parse import quote

from .deferred import is_asynchronous, is_deferring
from .deprecation import CLOSED_PHASES, DeprecationHeaders, DeprecationPolicy, Phase
from .headers import TOKEN, HeaderList, forbid_storing, keep_private, merge_members, remove_headers, values_of, vary_on
from .log import log_error, log_exception
from .operations import NOTIFICATION_OPERATIONS, Match, Operation, OperationTable
from .plans import Plan, check_plan
from .problems import Problems, Statuses, retry_after
from .redirects import Redirect, RequestTarget, remove_digest, restore_pair
from .responses import PlainResponse, send_response
from .sessions import CALLER, SessionCredential, SessionRefused, SessionResult, Source, list_session_ids, unify_session
from .validation import check_base_url, clean_label, require

if TYPE_CHECKING:
    from _typeshed import OptExcInfo
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ORIGINAL_PATH = "flask_notifications.original_path"

# Set while a matched request is served: a second middleware, inside of this one, ignores the request.
_ACTIVE_OPERATION = "flask_notifications.operation"

# RFC 9110 section 10.1.5: product = token ["/" product-version]
_PRODUCT = re.compile(rf"{TOKEN}(?:/{TOKEN})?")
# Characters of a client's name that observers see: the rest is the client's to choose, and may be long.
_CLIENT_LENGTH = 64

# Headers that only this middleware sends (RFC 9745, RFC 8594); two lines of either are invalid.
_OWN_HEADERS = frozenset({"deprecation", "sunset"})
# Headers that a page of another origin may read if it may read the response at all (Fetch, CORS-exposed header names).
_EXPOSED_HEADERS = ("Deprecation", "Sunset", "Link")

# Equal to the public tuple and not the same object, so that `operations=` beside a plan shows.
_DEFAULT_OPERATIONS = (*NOTIFICATION_OPERATIONS,)

Clock = Callable[[], datetime]

# The time, aware, in UTC.
utc_now: Clock = partial(datetime.now, UTC)


@dataclass(frozen=True, slots=True)
class Use:
    """One matched request, as observers see it. It never holds a session ID, a path or a query.

    :param operation: the operation's name.
    :param method: the request's own method: ``HEAD`` is not ``GET``.
    :param status: the status code, or ``None`` when the application raised before it started its response.
    :param phase: the phase of the operation at that time.
    :param source: where the session ID was, ``None`` without a session.
    :param client: the first product of ``User-Agent`` (RFC 9110 section 10.1.5), at most 64 characters, or ``None``.
    :param at: the time of the request, in UTC.
    :param caller: the label that the application gave its caller, 1 to 64 printable characters, or ``None``.
    """

    operation: str
    method: str
    status: int | None
    phase: Phase
    source: Source | None
    client: str | None
    at: datetime
    caller: str | None = None


Observer = Callable[[Use], object]


@runtime_checkable
class RequestWatcher(Protocol):
    """The members of an observer that is also called for requests that match no operation."""

    awaits_request: bool

    def request_passed(self, operations: tuple[Operation, ...]) -> object:
        """Record that a request arrived; called when ``awaits_request`` is true."""


class DeprecationMiddleware:
    """Announce the retirement of operations on whatever an application responds to them.

    A request matches an operation by method and path; every other request passes untouched. Every response to a matched
    request carries ``Deprecation`` (RFC 9745), ``Sunset`` (RFC 8594) and ``Link`` (RFC 8288), the same bytes each time.
    During a brownout and after an enforced sunset the middleware responds with 410 itself, also to requests that a
    lenient router may take for the operation. Your application sees the request unchanged, unless the operation has
    ``rewrite_path`` or ``unify_session``.

    Install it outermost, so that nothing else sees a session ID in the URL. Applying it twice changes nothing: the
    outermost middleware that matches a request is the one that serves it.

    :param app: a WSGI application (PEP 3333).
    :param policy: the policy of all ``operations``, or a plan: a mapping from each operation to its policy. In a plan,
        ``None`` marks a live operation inside a retired one; its requests pass untouched.
    :param operations: the retired operations, by default the two notification operations; not beside a plan.
    :param require_session: whether a request without a session gets 401, for operations with ``unify_session``, by
        default not.
    :param statuses: other status codes for four errors, by default none.
    :param realm: the protection space in challenges (RFC 9110 section 11.5), by default ``"notifications"``.
    :param base_url: an absolute URL that makes link targets absolute, by default none.
    :param clock: returns the time as an aware datetime; a naive one counts as local time. Called once per matched
        request; when it fails, the error is logged and the system's time counts. By default the system's time.
    :param observers: each is called with a ``Use`` once per matched request, before the first byte of the response. Its
        failure is logged and affects nothing else. By default there are none.
    :raises ValueError: an argument does not fit; the message names it.
    """

    def __init__(
        self,
        app: "WSGIApplication",
        policy: DeprecationPolicy | Plan,
        *,
        operations: Iterable[Operation] = _DEFAULT_OPERATIONS,
        require_session: bool = False,
        statuses: Statuses = Statuses(),  # noqa: B008 - frozen
        realm: str = "notifications",
        base_url: str | None = None,
        clock: Clock = utc_now,
        observers: Iterable[Observer] = (),
    ) -> None:
        _check_application(app)
        check_base_url(base_url)
        is_clock = callable(clock) and not is_deferring(clock)
        require(is_clock, "clock", "an ordinary function that returns an aware datetime", clock)
        require(isinstance(require_session, bool), "require_session", "True or False", require_session)
        self._app = app
        self._table, plan = _read_plan(policy, operations)
        self._retirements = {
            operation: _Retirement.of(operation, own, base_url or "")
            for operation, own in plan.items()
            if own is not None
        }
        unifies = any(operation.unify_session for operation in self._retirements)
        require(unifies or not require_session, "require_session", "False without unify_session", require_session)
        self._may_close = any(retirement.policy.closes for retirement in self._retirements.values())
        self._problems = Problems(statuses=statuses, realm=realm)
        self._require_session = require_session
        self._clock = clock
        self._observers = _check_observers(observers)
        self._watchers = _find_watchers(self._observers)
        self._retired = tuple(self._retirements)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Pass a request to the application, and announce the retirement if it matches (PEP 3333)."""
        for watcher in self._watchers:
            if watcher.awaits_request:
                _notify(watcher.request_passed, self._retired)
        if _ACTIVE_OPERATION in environ:
            return self._app(environ, start_response)
        match = self._table.match(environ["REQUEST_METHOD"], environ.get("PATH_INFO", ""))
        if self._may_close:
            refusal = self._refuse_lookalike(match, environ)
            if refusal is not None:
                return send_response(refusal, environ, start_response)
        retirement = None if match is None else self._retirements.get(match.operation)
        if match is None or retirement is None:
            return self._app(environ, start_response)
        return self._serve(match, retirement, environ, start_response)

    def _serve(
        self, match: Match, retirement: "_Retirement", environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        now = self._now()
        phase = retirement.policy.phase(now)
        mount = _mount(environ)
        announcement = retirement.announce(match, mount)
        report = partial(self._report, phase, now) if self._observers else None
        exchange = _Exchange(match, environ, start_response, self._table, announcement=announcement, report=report)
        if phase in CLOSED_PHASES:
            response = self._refuse_closed(match, retirement, now, mount)
        elif isinstance(exchange.session, SessionRefused):
            response = self._problems.refuse(exchange.session)
        elif self._require_session and match.operation.unify_session and exchange.session is None:
            response = self._problems.respond("session_missing")
        else:
            return exchange.run(self._app)
        return exchange.run(partial(send_response, response))

    def _refuse_lookalike(self, match: Match | None, environ: "WSGIEnvironment") -> PlainResponse | None:
        """Return the response to a request that a lenient router may take for another operation, if that is closed."""
        lookalikes = self._table.match_lookalikes(environ["REQUEST_METHOD"], environ.get("PATH_INFO", ""))
        if not lookalikes:
            return None
        now = self._now()
        for other in lookalikes:
            retirement = self._retirements.get(other.operation)
            is_other = match is None or match.operation is not other.operation
            if is_other and retirement is not None and retirement.policy.phase(now) in CLOSED_PHASES:
                return self._refuse_closed(other, retirement, now, _mount(environ))
        return None

    def _refuse_closed(self, match: Match, retirement: "_Retirement", now: datetime, mount: str) -> PlainResponse:
        """Return the response to a request for a closed operation."""
        successor = _successor(match)
        target = None if successor is None else retirement.headers.resolve(successor, mount)
        brownout = retirement.policy.brownout(now)
        if brownout is None or retirement.policy.phase(now) is Phase.SUNSET:
            return self._problems.respond("sunset", successor=target)
        wait = retry_after((brownout.end - now).total_seconds())
        return self._problems.respond("brownout", extra=[wait], successor=target)

    def _now(self) -> datetime:
        try:
            return self._clock().astimezone(UTC)
        except Exception as error:  # noqa: BLE001 - a clock that fails must not fail the request
            log_exception(error, "clock %r failed", self._clock)
            return utc_now()

    def _report(self, phase: Phase, now: datetime, exchange: "_Exchange", status: int | None) -> None:
        """Call the observers of a request whose status is known."""
        session, environ = exchange.session, exchange.environ
        use = Use(
            operation=exchange.match.operation.name,
            method=exchange.method,
            status=status,
            phase=phase,
            source=session.source if isinstance(session, SessionCredential) else None,
            client=_client(exchange.user_agent),
            at=now,
            caller=_caller(environ, session),
        )
        for observer in self._observers:
            _notify(observer, use)


class _Retirement(NamedTuple):
    """The policy of one operation, and the headers that announce it."""

    policy: DeprecationPolicy
    headers: DeprecationHeaders
    # Those of an application at the root, and of an operation without parameters.
    usual: HeaderList

    @classmethod
    def of(cls, operation: Operation, policy: DeprecationPolicy, base_url: str) -> "_Retirement":
        headers = DeprecationHeaders(policy, base_url=base_url)
        return cls(policy, headers, headers.render(operation.successor, ""))

    def announce(self, match: Match, mount: str) -> HeaderList:
        """Return the headers that announce the retirement to the client of a request."""
        is_usual = not mount and not match.parameters
        return self.usual if is_usual else self.headers.render(_successor(match), mount)


_Report = Callable[["_Exchange", int | None], None]


class _Exchange:
    """One matched request and its response, between the server and an application (PEP 3333).

    :param announcement: the headers that the response gets.
    :param report: called once with the exchange and the status code, ``None`` if there is none.
    """

    def __init__(
        self,
        match: Match,
        environ: "WSGIEnvironment",
        start_response: "StartResponse",
        table: OperationTable,
        *,
        announcement: HeaderList,
        report: "_Report | None",
    ) -> None:
        self.match = match
        self.environ = environ
        self.session: SessionResult = None
        self.method: str = environ["REQUEST_METHOD"]
        self.user_agent: str = environ.get("HTTP_USER_AGENT", "")
        self._start_response = start_response
        self._table = table
        self._announcement = announcement
        self._report = report
        self._pairs: list[str] = []
        self._has_returned = False
        self._status: str | None = None
        path = environ.get("PATH_INFO", "")
        environ[_ACTIVE_OPERATION] = match.operation.name
        if match.operation.rewrite_path:
            environ[ORIGINAL_PATH] = path
            environ["PATH_INFO"] = match.path
        if match.operation.unify_session:
            self.session, self._pairs = unify_session(environ)
        self._is_rewritten = match.operation.rewrite_path and match.path != path
        # Where redirects are followed from; an application may change its environ later.
        self._target = RequestTarget.of(environ, path) if self._is_rewritten or self._pairs else None

    def run(self, app: "WSGIApplication") -> Iterable[bytes]:
        """Call an application and return its own iterable: a server loses sendfile and ``close()`` if it is wrapped.

        Only for observers, the iterable of an application that has not started its response yet is wrapped.
        """
        try:
            body = app(self.environ, self.start)
        except BaseException:
            self.settle(None)
            raise
        self._has_returned = True
        if self._status is None:
            return body if self._report is None else _Unstarted(body, self)
        try:
            self.settle(self._status)
        except BaseException:  # an observer that ends the process
            _close(body)
            raise
        return body

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: "OptExcInfo | None" = None
    ) -> Callable[[bytes], object]:
        """Start the response (PEP 3333)."""
        rest = () if exc_info is None else (exc_info,)
        write = self._start_response(status, self._edit(list(headers), status), *rest)
        self._status = status
        if self._has_returned:
            self.settle(status)
        return write

    def settle(self, status: str | None) -> None:
        """Report the request, once: when its status is known and the iterable has been returned."""
        self.environ.pop(_ACTIVE_OPERATION, None)
        report, self._report = self._report, None
        if report is not None:
            report(self, _status_code(status))

    def _edit(self, own: HeaderList, status: str) -> HeaderList:
        """Return the headers of the response, a new list; ``own`` are the application's."""
        names = [name.lower() for name, _value in own]
        headers = own if _OWN_HEADERS.isdisjoint(names) else remove_headers(own, _OWN_HEADERS)
        if self.match.operation.unify_session:
            headers = vary_on(headers, "Authorization")
        if self._target is not None:
            headers = self._edit_locations(headers, status, self._target)
        if self._pairs:
            headers = _protect(headers)
        headers = [*headers, *self._announcement]
        if "access-control-allow-origin" in names:
            headers = merge_members(headers, "Access-Control-Expose-Headers", _EXPOSED_HEADERS)
        return headers

    def _edit_locations(self, headers: HeaderList, status: str, target: RequestTarget) -> HeaderList:
        """Keep the session of a redirect to an operation, and do not let clients store a redirect that loops."""
        locations = values_of(headers, "location")
        redirects = {location: target.follow(location, status, self._table) for location in locations}
        if self._is_rewritten and any(map(self._loops, redirects.values())):
            headers = forbid_storing(headers)
        if not self._pairs:
            return headers
        return [
            (name, self._edit_location(value, redirects[value]) if name.lower() == "location" else value)
            for name, value in headers
        ]

    def _edit_location(self, location: str, redirect: Redirect | None) -> str:
        keeps_session = redirect is not None and redirect.match.operation.unify_session
        if keeps_session and isinstance(self.session, SessionCredential):
            return restore_pair(location, self._pairs[0])
        return remove_digest(location, self._pairs[0])

    def _loops(self, redirect: Redirect | None) -> bool:
        """Return whether a client that follows a redirect loops forever, and log it if so."""
        if redirect is None or not redirect.loops(self.match):
            return False
        log_error(_LOOP, self.match.operation.name, self.match.operation.path, redirect.spelling)
        return True


_LOOP = (
    "operation %r: the application redirects %r, the path of the operation, to %r, so clients loop forever; "
    "spell the operation's path as the application does, or leave out rewrite_path"
)


class _Unstarted:
    """The iterable of an application that starts its response while it is iterated; reports one that never does."""

    def __init__(self, body: Iterable[bytes], exchange: _Exchange) -> None:
        self._body = body
        self._chunks: Iterator[bytes] = iter(())
        self._exchange = exchange
        self._is_new = True

    def __iter__(self) -> "_Unstarted":
        return self

    def __next__(self) -> bytes:
        try:
            if self._is_new:
                self._is_new, self._chunks = False, iter(self._body)
            return next(self._chunks)
        except BaseException:  # the end too
            self._exchange.settle(None)
            raise

    def close(self) -> None:
        """Close the application's iterable."""
        try:
            _close(self._body)
        finally:
            self._exchange.settle(None)


def _read_plan(
    policy: DeprecationPolicy | Plan, operations: Iterable[Operation]
) -> tuple[OperationTable, dict[Operation, DeprecationPolicy | None]]:
    """Return the operations and the policy of each; one policy for all is the plan with that policy for each."""
    if isinstance(policy, DeprecationPolicy):
        table = OperationTable(operations)
        return table, dict.fromkeys(table.operations, policy)
    expected = "a DeprecationPolicy, or a mapping from each Operation to one or None"
    check_plan("policy", policy, expected)
    require(policy, "policy", "a plan with at least one operation", policy)
    require(operations is _DEFAULT_OPERATIONS, "operations", "left out beside a plan", operations)
    return OperationTable(policy), dict(policy)


def _check_application(app: Any) -> None:
    require(callable(app), "app", "a WSGI application", app)
    require(not is_asynchronous(app), "app", "a WSGI application (this one is asynchronous)", app)


def _check_observers(observers: Iterable[Observer]) -> tuple[Observer, ...]:
    expected = "a sequence of functions that take a Use"
    require(isinstance(observers, Iterable), "observers", expected, observers)
    functions = tuple(observers)
    require(all(map(callable, functions)), "observers", expected, functions)
    return functions


def _notify(observer: Callable[[Any], object], value: object) -> None:
    try:
        observer(value)
    except Exception as error:  # noqa: BLE001 - an observer's failure is its own
        # Without its context: that is the application's exception, whose message may hold anything.
        log_exception(error, "observer %r failed", observer)


def _find_watchers(observers: Iterable[object]) -> list[RequestWatcher]:
    return [observer for observer in observers if isinstance(observer, RequestWatcher)]


def _status_code(status: str | None) -> int | None:
    """Return the code of a status line, or ``None``; some applications send bytes, which some servers take."""
    try:
        return None if status is None else int(status[:3])
    except (TypeError, ValueError):
        return None


def _protect(headers: HeaderList) -> HeaderList:
    """Keep the session ID of a URL from shared caches and from referrers (RFC 6750 section 2.3)."""
    has_policy = bool(values_of(headers, "referrer-policy"))
    return keep_private(headers if has_policy else [*headers, ("Referrer-Policy", "no-referrer")])


def _close(body: object) -> None:
    close = getattr(body, "close", None)
    if callable(close):
        close()


def _successor(match: Match) -> str | None:
    successor = match.operation.successor
    return None if successor is None else match.fill_in(successor)


def _mount(environ: "WSGIEnvironment") -> str:
    """Return ``SCRIPT_NAME`` percent-encoded, with one leading slash: two would begin a host (RFC 3986 section 4.2)."""
    name: str = environ.get("SCRIPT_NAME", "").strip("/")
    return "/" + quote(name, encoding="latin-1", errors="replace") if name else ""


def _client(user_agent: str) -> str | None:
    product = _PRODUCT.match(user_agent)
    return None if product is None else product[0][:_CLIENT_LENGTH]


def _caller(environ: "WSGIEnvironment", session: SessionResult) -> str | None:
    """Return the label that the application gave its caller, unless it holds a session ID of the request."""
    label = environ.get(CALLER)
    session_ids = [] if label is None else list_session_ids(environ)
    if isinstance(session, SessionCredential):
        session_ids.append(session.value)
    return clean_label(label, session_ids)
