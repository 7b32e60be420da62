"""A WSGI middleware that announces the retirement of operations, and closes them.

Changes the environ of a matched request, wraps ``start_response`` and calls observers.
Knows no framework, no storage and no byte of a body. Standard library only: after
``pip install --no-deps Flask-Notifications`` this module works with a plan in Python
(``load_plan`` needs marshmallow).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import quote
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from .dates import Clock, utc_now
from .deferred import is_asynchronous
from .headers import HeaderList, ResponseHeaders
from .log import format_traceback, log_error, log_exception
from .notice import SERVED, describe
from .observers import (
    Call,
    Observer,
    RequestWatcher,
    ask_label,
    check_identify,
    client_of,
    require_function,
)
from .plans.announcement import Announcement, DeprecationHeaders
from .plans.decision import Decision, decide
from .plans.operations import NOT_REACHED, Match
from .plans.plan import Plan, check_plan, table_of
from .plans.policy import CLOSED_PHASES, Phase
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

# Returns ``False`` to keep operations open.
Closing = Callable[[], object]

# A message of the log with its values, before it is written.
_Failure = tuple[object, ...]

ORIGINAL_PATH = "flask_notifications.original_path"

# Headers that a page of another origin may read if it may read the response at all
# (Fetch, CORS-exposed header names).
_EXPOSED_HEADERS = ("Deprecation", "Sunset", "Link")
# Headers of an application that an announcement changes.
_EDITED = frozenset({"deprecation", "sunset", "link", "access-control-allow-origin"})
# Headers that let a shared cache store what Cache-Control keeps private (RFC 9213).
_SHARED_CACHES = frozenset({"cdn-cache-control", "surrogate-control"})


class DeprecationMiddleware:
    """Announce the retirement of operations on every response to them.

    A request matches an operation if some router may take it for the operation; every
    other request passes untouched. Every response to a matched request carries
    ``Deprecation`` (RFC 9745), ``Sunset`` (RFC 8594) and ``Link`` (RFC 8288). These
    depend only on parameters, mount point and exemption. During a brownout and after an
    enforced sunset the middleware responds with 410 itself. Your application sees the
    request unchanged, unless the operation has ``rewrite_path`` or ``unify_session``.

    Install it outermost, so that nothing else sees a session ID in the URL. Nesting two
    changes no response; each one matches, reports and closes on its own.

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
        its iterable is returned to the server, if its status is known then. A failure
        is logged and affects nothing else. By default there are none.
    :param identify: a function from a copy of the WSGI environ, as it came, to the
        label of the caller, or to ``None``. It is called once per matched request,
        before the application, and does not read the body. When it fails, the error is
        logged and the caller has no label. Exemptions need it. By default only the
        application labels callers. Nothing verifies that a caller is who it says it
        is.
    :param closing: a switch that keeps operations open: a function without arguments,
        called once per request that would get 410. If it returns exactly ``False``, the
        request passes in the phase ``deprecated``. Its failure is logged, and the plan
        counts. By default there is none.
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
        closing: Closing | None = None,
    ) -> None:
        require(callable(app), "app", "a WSGI application", app)
        expected = "a WSGI application (this one is asynchronous)"
        require(not is_asynchronous(app), "app", expected, app)
        check_base_url(base_url)
        expected = "an ordinary function that returns an aware datetime"
        require_function("clock", clock, expected)
        check_plan(plan)
        is_boolean = isinstance(require_session, bool)
        require(is_boolean, "require_session", "True or False", require_session)
        unifies = any(operation.unify_session for operation in plan)
        expected = "False without unify_session"
        require(unifies or not require_session, "require_session", expected, True)
        _check_identify(identify, plan)
        if closing is not None:
            expected = "an ordinary function without arguments"
            require_function("closing", closing, expected)
        self._app = app
        self._plan = plan
        self._table = table_of(plan)
        self._policies = {operation.name: policy for operation, policy in plan.items()}
        self._problems = Problems(statuses=statuses, realm=realm)
        # The announcement of each deprecated operation, by its name, for the usual
        # request: no mount point, no path parameters, no exemption.
        self._announcements: dict[str, Announcement] = {}
        for operation, policy in plan.items():
            if policy is not None:
                headers = DeprecationHeaders(policy, base_url=base_url or "")
                announcement = headers.announce(operation.successor, "")
                self._announcements[operation.name] = announcement
        self._identify = identify
        self._closing = closing
        self._require_session = require_session
        self._clock = clock
        self._observers = _check_observers(observers)
        self._watchers: list[Any] = []
        for observer in self._observers:
            if isinstance(observer, RequestWatcher):
                self._watchers.append(observer)
                observer.listen(plan)
        self._is_checked = False

    @property
    def plan(self) -> Plan:
        """The plan that the middleware was given."""
        return self._plan

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Pass a request to the application, and announce the retirement if it matches.

        Called by the server (PEP 3333).
        """
        if not self._is_checked:
            _refuse_loop(self._app, self)
            self._is_checked = True
        for watcher in self._watchers:
            if watcher.awaits_request:
                _notify(watcher.request_passed)
        # If an outer middleware has moved the session, match what the client sent. That
        # copy holds the session ID, so keep it out of local variables: monitoring tools
        # report those of every frame when an application raises.
        matches = self._table.find(
            environ["REQUEST_METHOD"],
            environ.get("PATH_INFO", ""),
            as_received(environ) if SESSION in environ else environ,
        )
        for match in matches:
            if match.operation.name in self._announcements:
                break
        else:  # no match, or only live operations
            return self._app(environ, start_response)
        failures: list[_Failure] = []
        decision = self._decide(matches, environ, failures)
        # Building the exchange changes the environ: the session ID leaves the query.
        exchange = _Exchange(decision, environ, start_response, self._observers)
        # Log only now: a log handler may report local variables, and until here the
        # query in the environ held the session ID.
        for failure in failures:
            log_error(*failure)  # type: ignore[arg-type]
        if decision.phase in CLOSED_PHASES:
            response = self._refuse_closed(decision)
        elif isinstance(exchange.session, SessionRefused):
            response = self._problems.refuse(exchange.session)
        elif self._require_session and exchange.unifies and exchange.session is None:
            response = self._problems.respond("session_missing")
        else:
            return exchange.run(self._app)
        return exchange.run(partial(send_response, response))

    def _decide(
        self,
        matches: list[Match],
        environ: WSGIEnvironment,
        failures: list[_Failure],
    ) -> Decision:
        """Decide who calls, which operation and phase apply, and what announces them.

        Errors of the clock, ``identify`` and ``closing`` are added to ``failures``;
        ``__call__`` logs them once the session ID has left the environ.
        """
        caller = exemption = None
        try:
            at = self._clock().astimezone(UTC)
        except Exception as error:  # noqa: BLE001 - a clock that fails must not fail the request
            at = utc_now()
            traceback = format_traceback(error, chain=False)
            failures.append(("clock %r failed: %s", self._clock, traceback))
        if self._identify is not None:
            caller = self._identify_caller(environ, failures)
        match, policy, phase = decide(matches, self._policies, at, caller)
        # At least one match is deprecated, and ``decide`` prefers it to live ones.
        assert policy is not None and phase is not None  # noqa: S101, PT018
        if phase in CLOSED_PHASES and self._is_kept_open(failures):
            phase = Phase.DEPRECATED
        if caller is not None:
            exemption = policy.exemption(caller, at)
        announcement = self._announcements[match.operation.name]
        mount, path = environ.get("SCRIPT_NAME", ""), environ.get("PATH_INFO", "")
        is_usual = not mount and exemption is None
        if match.parameters or not is_usual:
            successor = match.successor
            if not is_usual or successor != announcement.successor:
                announcement = announcement.headers.announce(
                    successor, _encode_mount(mount), exemption
                )
        # The decision records the path that the application gets.
        if match.operation.rewrite_path and not match.is_lookalike:
            path = match.path
        method = environ["REQUEST_METHOD"]
        return Decision(match, phase, at, caller, announcement, method, mount + path)

    def _identify_caller(
        self, environ: WSGIEnvironment, failures: list[_Failure]
    ) -> str | None:
        label, failure = ask_label(self._identify, environ.copy())  # type: ignore[arg-type]
        if failure is not None:
            failures.append(("identify: %s", failure))
        return clean_label(label, list_session_ids(environ))

    def _is_kept_open(self, failures: list[_Failure]) -> bool:
        """Return whether the switch says that nothing closes now."""
        if self._closing is None:
            return False
        try:
            return self._closing() is False
        except Exception as error:  # noqa: BLE001 - the plan counts
            traceback = format_traceback(error, chain=False)
            failures.append(("closing %r failed: %s", self._closing, traceback))
            return False

    def _refuse_closed(self, decision: Decision) -> PlainResponse:
        notice, policy = describe(decision), decision.announcement.headers.policy
        members: dict[str, str | datetime | None] = {
            "successor": notice.successor,
            "documentation": notice.documentation,
        }
        brownout = policy.brownout(decision.at)
        if brownout is None or decision.phase is Phase.SUNSET:
            members["sunset"] = policy.sunset_at
            return self._problems.respond("sunset", members=members)
        members["brownout_ends"] = brownout.end
        wait = retry_after((brownout.end - decision.at).total_seconds())
        return self._problems.respond("brownout", extra=[wait], members=members)


class _Label(str):
    """A caller's label that a middleware, not the application, put in the environ.

    A label from the application overrides ``identify``. One from a nested middleware
    must not, and this type tells them apart.
    """

    __slots__ = ()


class _Exchange:
    """A matched request and its response, between server and application (PEP 3333).

    Constructing it changes the environ: the label, and what ``rewrite_path`` and
    ``unify_session`` ask for. ``session`` is what the request carries, if the operation
    ``unifies`` sessions.
    """

    session: SessionResult = None
    # From each ``sessionId=…`` pair that was in the query to the digest now in its
    # place.
    _digests: Mapping[str, str] = MappingProxyType({})
    _has_url_session = False
    _status: str | None = None
    _has_returned = False
    _is_settled = False

    def __init__(
        self,
        decision: Decision,
        environ: WSGIEnvironment,
        start_response: StartResponse,
        observers: tuple[Observer, ...],
    ) -> None:
        match, operation = decision.match, decision.match.operation
        self._decision = decision
        self._environ = environ
        self._user_agent: str = environ.get("HTTP_USER_AGENT", "")
        self._start_response = start_response
        self._observers = observers
        self.unifies = operation.unify_session and not match.is_lookalike
        if decision.caller is not None:
            environ[CALLER] = _Label(decision.caller)
        if operation.rewrite_path and not match.is_lookalike:
            environ.setdefault(ORIGINAL_PATH, environ.get("PATH_INFO", ""))
            environ["PATH_INFO"] = match.path
        if self.unifies:
            self._unify_session(environ)
        elif operation.unify_session:  # a lookalike, whose session is not moved
            query = environ.get("QUERY_STRING", "")
            self._has_url_session = bool(session_pairs(query))
        # ``notice_of`` reads it, and the blueprint, which warns if it is missing.
        environ[SERVED] = decision

    def _unify_session(self, environ: WSGIEnvironment) -> None:
        self.session, self._digests = unify_session(environ)
        if self._digests:
            self._has_url_session = True
            # Read it now, because the application may change its environ.
            self._origin = origin_of(environ)

    def run(self, app: WSGIApplication) -> Iterable[bytes]:
        """Call an application, and return its own iterable.

        A server cannot use sendfile for a wrapped one. It is wrapped only if there are
        observers and the response has not started yet.
        """
        try:
            body = app(self._environ, self.start)
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
        """Start the response for the application, as PEP 3333 says."""
        edited = headers
        if self._reached_operation(status):
            edited = self._announce(headers)
        if exc_info is None:
            write = self._start_response(status, edited)
        else:
            write = self._start_response(status, edited, exc_info)
        self._status = status
        if self._has_returned:
            self.settle(status)
        return write

    def _reached_operation(self, status: str | None) -> bool:
        """Return whether the application took the request for the operation.

        A 404 or 405 to a lookalike shows that it did not.
        """
        is_lookalike = self._decision.match.is_lookalike
        return not is_lookalike or _status_code(status) not in NOT_REACHED

    def settle(self, status: str | None) -> None:
        """Report the call to the observers, once.

        ``run`` and ``start`` call it as soon as there are both a status and an
        iterable.
        """
        if self._is_settled or not self._observers:
            return
        self._is_settled = True
        if not self._reached_operation(status):
            return
        decision = self._decision
        # Session IDs that the caller's label and the client's name must not contain.
        source = None
        if isinstance(self.session, SessionCredential):
            source, session_ids = self.session.source, [self.session.value]
        else:
            session_ids = list_session_ids(self._environ, self._digests)
        caller = decision.caller
        label = self._environ.get(CALLER)
        if label is not None and not isinstance(label, _Label):
            caller = clean_label(label, session_ids) or caller
        call = Call(
            decision.match.operation.name,
            decision.method,
            _status_code(status),
            decision.phase,
            source,
            client_of(self._user_agent, session_ids),
            decision.at,
            caller,
        )
        for observer in self._observers:
            _notify(observer, call)

    def _announce(self, lines: HeaderList) -> HeaderList:
        """Return the response's headers with the announcement, as a new list."""
        decision, match = self._decision, self._decision.match
        announcement = decision.announcement
        if match.operation.unify_session or match.vary or announcement.exemption:
            return self._edit(lines)
        for name, _value in lines:
            if name.lower() in _EDITED:
                return self._edit(lines)
        # Most responses need no edits; skipping them saves a tenth of the instructions.
        return [*lines, *announcement.lines]

    def _edit(self, lines: HeaderList) -> HeaderList:
        """Return the headers with the announcement, where others have to change.

        That is for caches, for pages of other origins and for sessions in the URL.
        """
        headers, decision = ResponseHeaders(lines), self._decision
        announcement, names = decision.announcement, headers.names
        # The session that chooses the response may be in this header.
        if decision.match.operation.unify_session:
            headers.merge("Vary", ("Authorization",), unless="*")
        if decision.match.vary:
            headers.merge("Vary", decision.match.vary, unless="*")
        if "access-control-allow-origin" in names:
            headers.merge("Access-Control-Expose-Headers", _EXPOSED_HEADERS)
        if self._digests and "location" in names:
            headers.edit("location", self._restore_session)
        if self._has_url_session and "referrer-policy" not in names:
            headers.append("Referrer-Policy", "no-referrer")  # RFC 6750 section 2.3
        if self._has_url_session or announcement.exemption is not None:
            headers.keep_private()
        # Callers with and without an exemption share a URL, so no cache may store it.
        if announcement.exemption is not None:
            headers.remove(_SHARED_CACHES)
        return headers.announce(announcement.dates, announcement.links)

    def _restore_session(self, location: str) -> str:
        # A request with more than one pair was refused.
        ((pair, digest),) = self._digests.items()
        return restore_session(location, self._origin, pair, digest)


class _Unstarted:
    """Wrap the iterable of an application that has not started its response.

    Generators return before they call ``start_response``. If the response never
    starts, the call is reported without a status at the end.
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


# How many nested layers ``_refuse_loop`` looks through.
_MAX_LAYERS = 20
_WRAPS_ITSELF = (
    "the application would call itself forever: write app.wsgi_app = "
    "DeprecationMiddleware(app.wsgi_app, plan), not app.wsgi_app = "
    "DeprecationMiddleware(app, plan)"
)


def _refuse_loop(app: Any, middleware: DeprecationMiddleware) -> None:
    """Raise ``RuntimeError`` if the wrapped application calls the middleware again.

    ``__init__`` cannot check this: ``app.wsgi_app`` is assigned after it returns.
    """
    layer = app
    for _level in range(_MAX_LAYERS):
        layer = _find_inner(layer)
        if layer is None:
            return
        if layer is middleware:
            raise RuntimeError(_WRAPS_ITSELF)


def _find_inner(layer: Any) -> Any:
    """Return what a layer wraps, or ``None`` if it wraps nothing.

    The attributes are those of Flask, of Werkzeug's middlewares and of this one.
    """
    for name in ("wsgi_app", "app", "_app"):
        inner = getattr(layer, name, None)
        if inner is not None:
            return inner
    return None


def _check_identify(identify: Identify | None, plan: Plan) -> None:
    check_identify(identify, "an environ")
    exempt = []
    for operation, policy in plan.items():
        if policy is not None and policy.exemptions:
            exempt.append(operation.name)
    expected = f"a function, because {exempt} has exemptions"
    require(identify is not None or not exempt, "identify", expected, identify)


def _check_observers(observers: Iterable[Observer]) -> tuple[Observer, ...]:
    expected = "a sequence of ordinary functions that take a Call"
    require(isinstance(observers, Iterable), "observers", expected, observers)
    functions = tuple(observers)
    for function in functions:
        require_function("observers", function, expected)
        # Calling a class would only build an instance, and nobody would notice.
        require(not isinstance(function, type), "observers", expected, function)
    return functions


def _notify(observer: Callable[..., object], *values: object) -> None:
    try:
        observer(*values)
    except Exception as error:  # noqa: BLE001 - an observer's failure is its own
        # The log leaves out the exception's context: it is the application's own, whose
        # message may contain secrets.
        log_exception(error, "observer %r failed", observer)


def _status_code(status: str | None) -> int | None:
    """Return the code of a status line, or ``None``.

    Some applications send bytes, which some servers take.
    """
    try:
        return int(status[:3])  # type: ignore[index]
    except (TypeError, ValueError):
        return None


def _close_iterable(body: object) -> None:
    close = getattr(body, "close", None)
    if callable(close):
        close()


def _encode_mount(script_name: str) -> str:
    """Return ``SCRIPT_NAME`` percent-encoded, with one leading slash.

    Two would begin a host name (RFC 3986 section 4.2).
    """
    name = script_name.strip("/")
    if not name:
        return ""
    return "/" + quote(name, encoding="latin-1", errors="replace")
