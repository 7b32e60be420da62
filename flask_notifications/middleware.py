"""Around any WSGI application: match the operations, unify the session, announce the
retirement.

Changes the environ of a matched request, wraps ``start_response`` and calls observers.
Knows no framework, no storage and no byte of a body. Standard library only: after
``pip install --no-deps Flask-Notifications`` this module works with a plan in Python
(``load_plan`` needs marshmallow).
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from .dates import Clock, utc_now
from .deferred import is_asynchronous, is_deferring
from .headers import HeaderList, ResponseHeaders
from .log import log_exception
from .observers import (
    Call,
    Observer,
    RequestWatcher,
    check_identify,
    client_of,
    find_label,
)
from .plans.announcement import DeprecationHeaders
from .plans.operations import NOT_REACHED, Match, Operation, OperationTable
from .plans.plan import Plan, check_plan, table_of
from .plans.policy import CLOSED_PHASES, DeprecationPolicy, Phase
from .problems import Problems, Statuses, retry_after
from .responses import PlainResponse, send_response
from .sessions.credential import (
    CALLER,
    SESSION,
    SessionCredential,
    SessionRefused,
    SessionResult,
    as_received,
    list_session_ids,
    session_pairs,
    unify_session,
)
from .sessions.redirects import origin_of, restore_session
from .validation import check_base_url, clean_label, require

# From the environ of a request to the label of its caller.
Identify = Callable[[dict[str, Any]], str | None]

ORIGINAL_PATH = "flask_notifications.original_path"

# Headers that only this middleware sends (RFC 9745, RFC 8594); two lines of either are
# invalid.
_DATES = frozenset({"deprecation", "sunset"})
_ANNOUNCED = _DATES | {"link"}
# Headers that a page of another origin may read if it may read the response at all
# (Fetch, CORS-exposed header names).
_EXPOSED_HEADERS = ("Deprecation", "Sunset", "Link")


class DeprecationMiddleware:
    """Announce the retirement of operations on every response to them.

    A request matches an operation if some router may take it for the operation; every
    other request passes untouched. Every response to a matched request carries
    ``Deprecation`` (RFC 9745), ``Sunset`` (RFC 8594) and ``Link`` (RFC 8288), the same
    bytes each time. During a brownout and after an enforced sunset the middleware
    responds with 410 itself. Your application sees the request unchanged, unless the
    operation has ``rewrite_path`` or ``unify_session``.

    Install it outermost, so that nothing else sees a session ID in the URL. Applying it
    twice changes no response: two middlewares each match, report and close for
    themselves.

    :param app: a WSGI application (PEP 3333).
    :param plan: a mapping from each operation to its policy. ``None`` marks a live
        operation inside a retired one; its requests pass untouched. One policy for
        several operations is ``dict.fromkeys(operations, policy)``.
    :param require_session: whether a request without a session gets 401, for operations
        with ``unify_session``, by default not.
    :param statuses: other status codes for four errors, by default none.
    :param realm: the protection space in challenges (RFC 9110 section 11.5), by default
        ``"notifications"``.
    :param base_url: an absolute URL that makes link targets absolute, by default none.
    :param clock: returns the time as an aware datetime; a naive one counts as local
        time. Called once per matched request; when it fails, the error is logged and
        the system's time counts. By default the system's time.
    :param observers: each is called with a ``Call`` once per matched request, before
        the first byte of the response. Its failure is logged and affects nothing else.
        By default there are none.
    :param identify: a function from a copy of the WSGI environ, as it came, to the
        label of the caller, or to ``None``. It is called once per matched request,
        before the application, and does not read the body. When it fails, the error is
        logged and the caller has no label. Exemptions need it; by default only the
        application labels callers. Not checked: that the caller is who it says it is.
    :raises ValueError: an argument does not fit; the message names it.
    :raises RuntimeError: at the first request, if ``app.wsgi_app`` was replaced by
        middlewares around ``app`` itself.
    """

    def __init__(
        self,
        app: WSGIApplication,
        plan: Plan,
        *,
        require_session: bool = False,
        statuses: Statuses = Statuses(),  # noqa: B008 - frozen
        realm: str = "notifications",
        base_url: str | None = None,
        clock: Clock = utc_now,
        observers: Iterable[Observer] = (),
        identify: Identify | None = None,
    ) -> None:
        require(callable(app), "app", "a WSGI application", app)
        require(
            not is_asynchronous(app),
            "app",
            "a WSGI application (this one is asynchronous)",
            app,
        )
        check_base_url(base_url)
        is_clock = callable(clock) and not is_deferring(clock)
        require(
            is_clock,
            "clock",
            "an ordinary function that returns an aware datetime",
            clock,
        )
        require(
            isinstance(require_session, bool),
            "require_session",
            "True or False",
            require_session,
        )
        self._app = app
        check_plan(plan)
        self._table = table_of(plan)
        self._retirements = {
            operation.name: _Retirement(operation, own, base_url or "")
            for operation, own in plan.items()
            if own is not None
        }
        unifies = any(operation.unify_session for operation in plan)
        require(
            unifies or not require_session,
            "require_session",
            "False without unify_session",
            require_session,
        )
        _check_identify(identify, plan)
        self._identify = identify
        self._problems = Problems(statuses=statuses, realm=realm)
        self._require_session = require_session
        self._clock = clock
        self._observers = _check_observers(observers)
        self._watchers: list[Any] = [
            each for each in self._observers if isinstance(each, RequestWatcher)
        ]
        for watcher in self._watchers:
            watcher.listen(plan)
        self._is_new = True

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Pass a request to the application, and announce the retirement if it matches
        (PEP 3333).
        """
        if self._is_new:
            self._is_new = _refuse_loop(self._app, self)
        for watcher in self._watchers:
            if watcher.awaits_request:
                _notify(watcher.request_passed)
        # No variable keeps what was received: monitoring tools report those of each
        # frame when an application raises.
        found = self._table.find(
            environ["REQUEST_METHOD"],
            environ.get("PATH_INFO", ""),
            as_received(environ) if SESSION in environ else environ,
        )
        if found and (exchange := self._choose(found, environ)) is not None:
            return self._serve(exchange, environ, start_response)
        return self._app(environ, start_response)

    def _choose(
        self, found: list[Match], environ: WSGIEnvironment
    ) -> "_Exchange | None":
        """Return the exchange for a closed operation, or else for the first retired
        one; ``None`` for live ones.

        A request that some router takes for a closed operation must not pass.
        """
        first = now = caller = None
        for match in found:
            retirement = self._retirements.get(match.operation.name)
            if retirement is None:
                continue
            if now is None:
                now = self._now()
                if self._identify is not None:
                    caller = clean_label(
                        find_label(self._identify, environ.copy()),
                        list_session_ids(environ),
                    )
            exchange = _Exchange(match, retirement, now, caller)
            if exchange.is_closed:
                return exchange
            first = first or exchange
        return first

    def _serve(
        self,
        exchange: "_Exchange",
        environ: WSGIEnvironment,
        start_response: StartResponse,
    ) -> Iterable[bytes]:
        exchange.begin(environ, start_response, self._table, self._observers)
        if exchange.is_closed:
            response = self._refuse_closed(exchange)
        elif isinstance(exchange.session, SessionRefused):
            response = self._problems.refuse(exchange.session)
        elif self._require_session and exchange.unifies and exchange.session is None:
            response = self._problems.respond("session_missing")
        else:
            return exchange.run(self._app)
        return exchange.run(partial(send_response, response))

    def _refuse_closed(self, exchange: "_Exchange") -> PlainResponse:
        headers, policy = exchange.retirement.headers, exchange.retirement.policy
        links = {
            "successor": exchange.match.successor,
            "documentation": policy.documentation,
        }
        members = {
            name: None if uri is None else headers.resolve(uri, exchange.mount)
            for name, uri in links.items()
        }
        brownout = policy.brownout(exchange.at)
        if brownout is None or exchange.phase is Phase.SUNSET:
            return self._problems.respond(
                "sunset", members={**members, "sunset": policy.sunset_at}
            )
        wait = retry_after((brownout.end - exchange.at).total_seconds())
        return self._problems.respond(
            "brownout", extra=[wait], members={**members, "brownout_ends": brownout.end}
        )

    def _now(self) -> datetime:
        try:
            return self._clock().astimezone(UTC)
        except Exception as error:  # noqa: BLE001 - a clock that fails must not fail the request
            log_exception(error, "clock %r failed", self._clock)
            return utc_now()


class _Retirement:
    """The policy of one operation, and its headers: ``usual`` at the root, unless
    parameters change the successor.
    """

    def __init__(
        self, operation: Operation, policy: DeprecationPolicy, base_url: str
    ) -> None:
        self.policy = policy
        self.headers = DeprecationHeaders(policy, base_url=base_url)
        self.usual = self.headers.render(operation.successor, "")


class _Label(str):
    """A label that a middleware has set in the environ, and not the application:
    another middleware ignores it.
    """

    __slots__ = ()


class _Exchange:
    """A request that may reach a retired operation and its response, between server and
    application (PEP 3333).
    """

    session: SessionResult = None
    unifies = False
    _has_url_session = False
    _has_returned = False
    _status: str | None = None

    def __init__(
        self, match: Match, retirement: _Retirement, at: datetime, caller: str | None
    ) -> None:
        self.match = match
        self.retirement = retirement
        self.at = at
        self.caller = caller
        self.phase = retirement.policy.phase(at, caller)
        self.is_closed = self.phase in CLOSED_PHASES
        self.exemption = (
            None if caller is None else retirement.policy.exemption(caller, at)
        )

    def begin(
        self,
        environ: WSGIEnvironment,
        start_response: StartResponse,
        table: OperationTable,
        observers: tuple[Observer, ...],
    ) -> None:
        """Change the environ as the operation asks for it."""
        match, operation = self.match, self.match.operation
        self.environ = environ
        self._method: str = environ["REQUEST_METHOD"]
        self._user_agent: str = environ.get("HTTP_USER_AGENT", "")
        self._start_response = start_response
        self._table = table
        self._observers = observers
        self.mount = _mount(environ)
        self._announcement = self.retirement.usual
        if (
            self.mount
            or match.successor != operation.successor
            or self.exemption is not None
        ):
            self._announcement = self.retirement.headers.render(
                match.successor, self.mount, self.exemption
            )
        self._digests: dict[str, str] = {}
        if self.caller is not None:
            environ[CALLER] = _Label(self.caller)
        if match.is_lookalike:  # only the application knows how it reads it
            self._has_url_session = operation.unify_session and bool(
                session_pairs(environ.get("QUERY_STRING", ""))
            )
            return
        path = environ.get("PATH_INFO", "")
        if operation.rewrite_path and (
            match.path != path or ORIGINAL_PATH not in environ
        ):
            environ[ORIGINAL_PATH] = path
            environ["PATH_INFO"] = match.path
        if operation.unify_session:
            self.unifies = True
            self.session, self._digests = unify_session(environ)
            self._has_url_session = bool(self._digests)
        if self._digests:  # before an application changes its environ
            self._origin = origin_of(environ)

    def run(self, app: WSGIApplication) -> Iterable[bytes]:
        """Call an application and return its own iterable: a server loses sendfile and
        ``close()`` if it is wrapped.

        Only for observers, the iterable of an application that has not started its
        response yet is wrapped.
        """
        try:
            body = app(self.environ, self.start)
        except BaseException:
            self.settle(None)
            raise
        self._has_returned = True
        if not self._observers:
            return body
        if self._status is None:
            return _Unstarted(body, self)
        try:
            self.settle(self._status)
        except BaseException:  # an observer that ends the process
            _close_iterable(body)
            raise
        return body

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], object]:
        edited = headers if self._is_missed(status) else self._edit(headers)
        arguments = (status, edited) if exc_info is None else (status, edited, exc_info)
        write = self._start_response(*arguments)
        self._status = status
        if self._has_returned:
            self.settle(status)
        return write

    def settle(self, status: str | None) -> None:
        """Report the request, once: when its status is known and the iterable has been
        returned.
        """
        observers, self._observers = self._observers, ()
        if observers and not self._is_missed(status):
            call = self._make_call(status)
            for observer in observers:
                _notify(observer, call)

    def _make_call(self, status: str | None) -> Call:
        session = self.session
        if isinstance(session, SessionCredential):
            source, session_ids = session.source, [session.value]
        else:
            source, session_ids = None, list_session_ids(self.environ, self._digests)
        label = self.environ.get(CALLER)
        own = None if isinstance(label, _Label) else clean_label(label, session_ids)
        return Call(
            operation=self.match.operation.name,
            method=self._method,
            status=_status_code(status),
            phase=self.phase,
            source=source,
            client=client_of(self._user_agent, session_ids),
            at=self.at,
            caller=own or self.caller,
        )

    def _is_missed(self, status: str | None) -> bool:
        """Return whether the request for a lookalike was for another operation after
        all.
        """
        return self.match.is_lookalike and _status_code(status) in NOT_REACHED

    def _edit(self, own: HeaderList) -> HeaderList:
        """Return the headers of the response, a new list; ``own`` are the
        application's.
        """
        headers = ResponseHeaders(own)
        names = headers.names
        if self.match.operation.unify_session:
            headers.merge("Vary", ("Authorization",), unless="*")
        if self.match.vary:
            headers.merge("Vary", self.match.vary, unless="*")
        if "access-control-allow-origin" in names:
            headers.merge("Access-Control-Expose-Headers", _EXPOSED_HEADERS)
        if "location" in names and self._digests:
            headers.edit("location", self._restore_session)
        if self._has_url_session and "referrer-policy" not in names:
            headers.put("Referrer-Policy", "no-referrer")  # RFC 6750 section 2.3
        if self._has_url_session or self.exemption is not None:
            headers.keep_private()
        if _ANNOUNCED.isdisjoint(names):
            return headers.lines + self._announcement
        # An application's own dates, and the lines that another middleware has
        # announced already, are left out.
        known = {(name.lower(), value) for name, value in self._announcement}
        lines = zip(names, headers.lines, strict=True)
        kept = [
            line
            for name, line in lines
            if name not in _DATES and (name, line[1]) not in known
        ]
        return kept + self._announcement

    def _restore_session(self, location: str) -> str:
        # A request with more than one pair was refused.
        ((pair, digest),) = self._digests.items()
        return restore_session(location, self._origin, pair, digest)


# Middlewares that are looked through, one around the other, for one that calls itself.
_MIDDLEWARES = 20
_WRAPS_ITSELF = (
    "the application would call itself forever: write app.wsgi_app = DeprecationMiddleware(app.wsgi_app, plan), "
    "not app.wsgi_app = DeprecationMiddleware(app, plan)"
)


class _Unstarted:
    """The iterable of an application that starts its response while it is iterated;
    reports one that never does.
    """

    def __init__(self, body: Iterable[bytes], exchange: _Exchange) -> None:
        self._body = body
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._body:  # noqa: UP028 - "yield from" would close the iterable once more
                yield chunk
        finally:
            self._exchange.settle(None)

    def close(self) -> None:
        try:
            _close_iterable(self._body)
        finally:
            self._exchange.settle(None)


def _refuse_loop(app: Any, middleware: DeprecationMiddleware) -> bool:
    """Raise ``RuntimeError`` if an application calls the middleware around it;
    ``wsgi_app`` is set after both exist.
    """
    for _each in range(_MIDDLEWARES):
        # The attributes of Flask, of Werkzeug's middlewares, and of this one.
        app = next(
            filter(
                None, (getattr(app, name, None) for name in ("wsgi_app", "app", "_app"))
            ),
            None,
        )
        if app is middleware:
            raise RuntimeError(_WRAPS_ITSELF)
    return False


def _check_identify(identify: Identify | None, plan: Plan) -> None:
    check_identify(identify, "an environ")
    exempt = [
        operation.name
        for operation, policy in plan.items()
        if policy is not None and policy.exemptions
    ]
    is_usable = identify is not None or not exempt
    require(
        is_usable, "identify", f"a function, because {exempt} has exemptions", identify
    )


def _check_observers(observers: Iterable[Observer]) -> tuple[Observer, ...]:
    expected = "a sequence of ordinary functions that take a Call"
    require(isinstance(observers, Iterable), "observers", expected, observers)
    functions = tuple(observers)
    # A class or a generator function does nothing with a call, and nobody would notice.
    usable = all(
        callable(each) and not isinstance(each, type) and not is_deferring(each)
        for each in functions
    )
    require(usable, "observers", expected, functions)
    return functions


def _notify(observer: Callable[..., object], *values: object) -> None:
    try:
        observer(*values)
    except Exception as error:  # noqa: BLE001 - an observer's failure is its own
        # Without its context: that is the application's exception, whose message may
        # hold anything.
        log_exception(error, "observer %r failed", observer)


def _status_code(status: str | None) -> int | None:
    """Return the code of a status line, or ``None``; some applications send bytes,
    which some servers take.
    """
    try:
        return None if status is None else int(status[:3])
    except (TypeError, ValueError):
        return None


def _close_iterable(body: object) -> None:
    close = getattr(body, "close", None)
    if callable(close):
        close()


def _mount(environ: WSGIEnvironment) -> str:
    """Return ``SCRIPT_NAME`` percent-encoded, with one leading slash: two would begin a
    host (RFC 3986 section 4.2).
    """
    name: str = environ.get("SCRIPT_NAME", "").strip("/")
    return "/" + quote(name, encoding="latin-1", errors="replace") if name else ""
