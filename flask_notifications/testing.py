"""For your own tests: a storage in memory, the tests that any storage must pass, and checks of announcements and plans.

Plain asserts, no test framework: ``StorageContract`` runs under pytest and under anything else that calls its methods.
"""

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import unquote, urlsplit

from .dates import parse_deprecation, parse_sunset
from .deprecation import DeprecationHeaders, DeprecationPolicy
from .operations import PARAMETER, Match, Operation
from .plans import Plan
from .storage import (
    AccessDenied,
    AccountNotFound,
    NotificationStorage,
    Record,
    StorageError,
    StorageUnavailable,
    TransactionalStorage,
    is_transactional,
)
from .validation import require

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from werkzeug.test import TestResponse

__all__ = [
    "MemoryStorage",
    "StorageContract",
    "assert_deprecated",
    "assert_plan_reaches",
    "parse_deprecation",
    "parse_sunset",
]

Steps = Generator[bool, None, None]
Raised = TypeVar("Raised", bound=StorageError)


class MemoryStorage:
    """Hold sessions and notifications in memory, for tests and first tries; nothing outlives the process.

    :param sessions: the account ID of each session's user, by session ID.
    :param notifications: the records of each account, by account ID. An account without records has an empty entry.
    :param administrators: the account IDs of the users that may see every account, by default none.
    """

    def __init__(
        self,
        *,
        sessions: Mapping[str, str],
        notifications: Mapping[str, Iterable[Record]],
        administrators: Collection[str] = (),
    ) -> None:
        require(isinstance(sessions, Mapping), "sessions", "a mapping of session IDs to account IDs", sessions)
        expected = "a mapping of account IDs to records"
        require(isinstance(notifications, Mapping), "notifications", expected, notifications)
        is_collection = isinstance(administrators, Collection) and not isinstance(administrators, str)
        require(is_collection, "administrators", "a collection of account IDs", administrators)
        self._sessions = dict(sessions)
        self._notifications = {account: tuple(records) for account, records in notifications.items()}
        self._administrators = frozenset(administrators)

    def resolve_session(self, session_id: str) -> str | None:
        """Return the account ID of a session's user, or ``None``."""
        return self._sessions.get(session_id)

    def current_user_notifications(self, caller: str) -> Iterable[Record]:
        """Return the records of the caller."""
        return self._notifications.get(caller, ())

    def account_notifications(self, caller: str, account_id: str) -> Iterable[Record]:
        """Return the records of an account, for its own user and for administrators."""
        if account_id != caller and caller not in self._administrators:
            raise AccessDenied
        if account_id not in self._notifications:
            raise AccountNotFound
        return self._notifications[account_id]


def assert_deprecated(
    response: Any,
    policy: DeprecationPolicy | Plan,
    operation: Operation,
    *,
    base_url: str | None = None,
    mount: str = "",
    parameters: Mapping[str, str] | None = None,
) -> None:
    """Assert that a response announces the retirement of an operation, whole and once.

    Not checked: status, body, and ``Link`` headers of your application's own.

    :param response: a response of Werkzeug (and so of Flask's test client), requests, httpx or Django.
    :param policy: the policy of the operation, or a plan that has it. Of an operation that is live in the plan, the
        response must not announce a date.
    :param operation: the operation that the request matches.
    :param base_url: that of the middleware, by default none.
    :param mount: the path at which the application is mounted, percent-encoded, by default the root.
    :param parameters: the values of the path's parameters, if the successor uses them, by default none.
    :raises AssertionError: the response differs; the message says how.
    """
    if isinstance(policy, DeprecationPolicy):
        own: DeprecationPolicy | None = policy
    else:
        require(operation in policy, "operation", "an operation of the plan", operation)
        own = policy[operation]
    successor = operation.successor
    if successor is not None:
        successor = Match(operation, "", dict(parameters or {})).fill_in(successor)
    announced = [] if own is None else DeprecationHeaders(own, base_url=base_url or "").render(successor, mount)
    expected = {name: [value for key, value in announced if key == name] for name in ("Deprecation", "Sunset", "Link")}
    for name, parse in (("Deprecation", parse_deprecation), ("Sunset", parse_sunset)):
        found = _header_lines(response, name)
        assert len(found) == len(expected[name]), f"{name}: {expected[name]} expected, not {found}"
        for value, due in zip(found, expected[name], strict=True):
            assert _parse(parse, value) == parse(due), f"{name}: {due!r} expected, not {value!r}"
    # Some clients join several lines with commas (RFC 9110 section 5.3).
    links, due = ", ".join(_header_lines(response, "Link")), ", ".join(expected["Link"])
    assert links.endswith(due), f"Link: {due!r} expected at the end, not {links!r}"
    assert not due or links.count(due) == 1, f"Link: {due!r} expected once, not {links!r}"


def assert_plan_reaches(
    application: "WSGIApplication",
    plan: Plan | Iterable[Operation],
    *,
    parameters: Mapping[str, str] | None = None,
    mount: str = "",
    headers: Mapping[str, str] | None = None,
) -> None:
    """Assert that each operation of a plan reaches a view of your application.

    Each operation is called once, for real, at the path as the plan spells it. 404, 405, a redirect to another spelling
    of the path, and what a path without a view gets too, such as 400 for a host that is not allowed or an exception,
    mean that no view was reached. Every other response or exception means that one was. Use a test database, because
    views may change it.

    :param application: your WSGI application, without ``DeprecationMiddleware``, which may respond itself.
    :param plan: the plan, or its operations.
    :param parameters: a value for each parameter of the paths that needs one, by its name; by default ``1``. If views
        respond 404 to unknown values, use values that they find.
    :param mount: the path at which the application is mounted, percent-encoded, by default the root.
    :param headers: headers of each request, such as ``{"Authorization": "Bearer ..."}``, by default none.
    :raises AssertionError: operations reach no view; the message lists them, each with the reason.
    """
    from werkzeug.test import Client, EnvironBuilder  # noqa: PLC0415 - the rest of the module needs no Werkzeug

    client = Client(application)

    def call(method: str, path: str) -> "TestResponse | Exception":
        lines = list((headers or {}).items())
        request = EnvironBuilder(path, f"http://localhost{mount}", method=method, headers=lines)
        try:
            return client.open(request, buffered=True)
        except Exception as error:  # noqa: BLE001 - a view that fails was reached
            return error

    call_without_a_view = cache(lambda method: call(method, _WITHOUT_A_VIEW))
    problems = []
    for operation in plan:
        path = _fill_in_path(operation, parameters or {})
        response, other = call(operation.method, path), call_without_a_view(operation.method)
        problem = _find_problem(f"{mount.rstrip('/')}{path}", response, other)
        if problem is not None:
            problems.append(f"{operation.name} ({operation.method} {path}): {problem}")
    assert not problems, "no view is reached by " + "; ".join(problems)


_WITHOUT_A_VIEW = "/flask-notifications/without-a-view"


def _fill_in_path(operation: Operation, parameters: Mapping[str, str]) -> str:
    """Return the path of an operation, percent-encoded, with a value for each parameter."""
    values = dict.fromkeys(PARAMETER.findall(operation.path), "1")
    values |= {name: value.encode().decode("latin-1") for name, value in parameters.items()}
    return Match(operation, "", values).fill_in(operation.path)


def _find_problem(path: str, response: "TestResponse | Exception", other: "TestResponse | Exception") -> str | None:
    """Return why a request reaches no view, or ``None`` if it reaches one.

    :param path: the path of the request, percent-encoded.
    :param response: the response, or the exception that was raised instead.
    :param other: the same for a path without a view.
    """
    if isinstance(response, Exception):
        reason = f"it raises {response!r}, as {_WITHOUT_A_VIEW} does"
        return reason if type(response) is type(other) else None
    if response.status_code in {404, 405}:
        return f"the status is {response.status_code}"
    target = urlsplit(response.location or "").path
    if response.location and target != path and _spell(path) == _spell(target):
        return f"it redirects to the spelling {target}"
    if not isinstance(other, Exception) and (response.status_code, response.data) == (other.status_code, other.data):
        return f"the status is {response.status_code}, as for {_WITHOUT_A_VIEW}"
    return None


def _spell(path: str) -> str:
    """Return what does not change if a router redirects to its own spelling of a path."""
    return re.sub("/+", "/", f"{unquote(path)}/").lower()


def _parse(parse: Callable[[str], datetime], value: str) -> datetime:
    try:
        return parse(value)
    except ValueError as error:
        raise AssertionError(str(error)) from error


def _header_lines(response: Any, name: str) -> list[str]:
    """Return the lines of a header; frameworks and clients hold them in different ways."""
    headers = response.headers
    for method in ("getlist", "get_list"):  # Werkzeug, httpx
        if hasattr(headers, method):
            return list(getattr(headers, method)(name))
    value = headers.get(name)  # requests, Django
    return [] if value is None else [value]


class StorageContract:
    """Prove that a storage keeps what ``NotificationStorage`` promises.

    Inherit it in a test class, define ``make_storage`` and the facts below about the data that it holds, and let the
    test runner find the ``test_`` methods. They compare records with ``==``, so the same record must be equal each time
    it is read.

    >>> class TestMemoryStorage(StorageContract):
    ...     session_id, other_session_id, administrator_session_id = "a1", "b2", "c3"
    ...     account_id, other_account_id = "alice", "bob"
    ...
    ...     def make_storage(self):
    ...         return MemoryStorage(
    ...             sessions={"a1": "alice", "b2": "bob", "c3": "carol"},
    ...             notifications={"alice": [{"id": 1}], "bob": [{"id": 2}], "carol": []},
    ...             administrators=["carol"],
    ...         )
    >>> TestMemoryStorage().test_a_plain_caller_is_denied_a_foreign_account()
    """

    session_id: ClassVar[str]
    """A session whose user has at least one notification and may see no account but their own."""
    account_id: ClassVar[str]
    """The account of that user."""
    other_session_id: ClassVar[str]
    """A session of another user, with other notifications."""
    other_account_id: ClassVar[str]
    """The account of that other user."""
    administrator_session_id: ClassVar[str | None] = None
    """A session that may see every account; ``None`` where no caller may."""
    unknown_session_id: ClassVar[str] = "00000000-0000-4000-8000-00000000dead"
    unknown_account_id: ClassVar[str] = "00000000-0000-4000-8000-00000000beef"

    def make_storage(self) -> NotificationStorage[Any]:
        """Return the storage to prove, with the data that the facts describe."""
        raise NotImplementedError

    def make_unreachable_storage(self) -> NotificationStorage[Any] | None:
        """Return a storage whose database is out of reach, or ``None`` if there is no such thing."""
        return None

    def test_a_session_leads_to_a_caller(self) -> None:
        """A known session resolves, again and again, to a caller with notifications."""
        storage = self.make_storage()
        first, second = [_current_user(storage, self.session_id) for _ in range(2)]
        assert first, "the user of session_id must have a notification"
        assert first == second, "a session must lead to the same notifications each time"

    def test_an_unknown_session_is_none(self) -> None:
        """An unknown ID of any form resolves to ``None``, without an exception."""
        storage = self.make_storage()
        for session_id in (self.unknown_session_id, "A", "~" * 4096, "..", "null"):
            with _unit_of_work(storage) as bound:
                assert bound.resolve_session(session_id) is None, f"{session_id[:40]!r} must be unknown"

    def test_callers_see_their_own_notifications(self) -> None:
        """Two sessions never mix, whatever the order of calls."""
        with _unit_of_work(self.make_storage()) as storage:
            callers = [_resolve(storage, each) for each in (self.session_id, self.other_session_id)]
            mine, theirs = [_read(storage.current_user_notifications(caller)) for caller in callers]
            assert mine != theirs, "session_id and other_session_id must have different notifications"
            again = _read(storage.current_user_notifications(callers[0]))
            assert again == mine, "a caller must see the same notifications after another caller's"

    def test_callers_see_their_own_account(self) -> None:
        """The account operation shows the caller's own account."""
        records = _account(self.make_storage(), self.session_id, self.account_id)
        assert records, "account_id must have a notification"

    def test_a_plain_caller_is_denied_a_foreign_account(self) -> None:
        """A foreign account is ``AccessDenied``, and not an empty result."""
        storage = self.make_storage()
        _fails(AccessDenied, lambda: _account(storage, self.session_id, self.other_account_id))

    def test_a_plain_caller_does_not_learn_which_accounts_exist(self) -> None:
        """An unknown account is ``AccessDenied`` as well, because a 404 would show which accounts exist."""
        storage = self.make_storage()
        _fails(AccessDenied, lambda: _account(storage, self.session_id, self.unknown_account_id))

    def test_an_administrator_sees_a_foreign_account(self) -> None:
        """A caller who may see every account gets the same notifications as the account's user."""
        if self.administrator_session_id is not None:
            storage = self.make_storage()
            theirs = _account(storage, self.other_session_id, self.other_account_id)
            seen = _account(storage, self.administrator_session_id, self.other_account_id)
            assert seen == theirs, "an administrator must see the notifications that the user sees"

    def test_an_administrator_is_told_of_an_unknown_account(self) -> None:
        """A caller who may see every account gets ``AccountNotFound`` for one that is not there."""
        storage, session_id = self.make_storage(), self.administrator_session_id
        if session_id is not None:
            _fails(AccountNotFound, lambda: _account(storage, session_id, self.unknown_account_id))

    def test_records_can_be_left_unread(self) -> None:
        """Closing after the first record, or before it, harms no later call."""
        with _unit_of_work(self.make_storage()) as storage:
            caller = _resolve(storage, self.session_id)
            whole = _read(storage.current_user_notifications(caller))
            for count in (0, 1):
                records = storage.current_user_notifications(caller)
                for _record, _number in zip(records, range(count), strict=False):
                    pass
                _close(records)
            again = _read(storage.current_user_notifications(caller))
            assert again == whole, "records that were left unread must not change what is read later"

    def test_a_unit_of_work_changes_no_response(self) -> None:
        """A unit of work, if the storage has any, knows every session, and one that fails changes nothing."""
        storage = self.make_storage()
        mine, theirs = [_current_user(storage, each) for each in (self.session_id, self.other_session_id)]
        assert mine != theirs, "a unit of work must know the session that it is asked for"

        def failing() -> None:
            with _unit_of_work(storage) as bound:
                assert _read_current_user(bound, self.session_id) == mine
                assert _read_current_user(bound, self.other_session_id) == theirs
                raise AccessDenied

        _fails(AccessDenied, failing)
        assert _current_user(storage, self.session_id) == mine, "a unit of work that failed must change nothing"

    def test_threads_do_not_mix(self) -> None:
        """Two threads with two sessions, at the same time, get the rows of their own session only."""
        storage = self.make_storage()
        sessions = [self.session_id, self.other_session_id]
        alone = [_current_user(storage, session_id) for session_id in sessions]
        with ThreadPoolExecutor(max_workers=2) as threads:
            rounds = list(threads.map(lambda session_id: _current_user(storage, session_id), sessions * 50))
        assert rounds == alone * 50, "threads must get the notifications of their own session"

    def test_threads_that_take_turns_do_not_mix(self) -> None:
        """Two threads get the rows of their own session only, even if each reads one record in turn."""
        storage = self.make_storage()
        sessions = [self.session_id, self.other_session_id]
        found: list[list[Record]] = [[], []]
        steps = [_read_in_steps(storage, *each) for each in zip(sessions, found, strict=True)]
        with ThreadPoolExecutor(max_workers=1) as one, ThreadPoolExecutor(max_workers=1) as other:
            turns = everybody = list(zip((one, other), steps, strict=True))
            try:
                while turns:
                    turns = [(thread, step) for thread, step in turns if thread.submit(next, step, False).result()]
            finally:
                for thread, step in everybody:
                    thread.submit(step.close).result()
        alone = [_current_user(storage, session_id) for session_id in sessions]
        assert found == alone, "threads must get the notifications of their own session"

    def test_a_storage_out_of_reach_says_so(self) -> None:
        """The first call raises ``StorageUnavailable``, and no exception of the driver."""
        storage = self.make_unreachable_storage()
        if storage is not None:
            _fails(StorageUnavailable, lambda: _current_user(storage, self.session_id))


def _unit_of_work(storage: NotificationStorage[Any]) -> AbstractContextManager[NotificationStorage[Any]]:
    """Begin a unit of work, where the storage has one, as each request does; check that it yields a storage."""
    return _yielding_a_storage(storage) if is_transactional(storage) else nullcontext(storage)


@contextmanager
def _yielding_a_storage(storage: TransactionalStorage[Any]) -> Iterator[NotificationStorage[Any]]:
    with storage.unit_of_work() as bound:
        assert hasattr(bound, "resolve_session"), f"unit_of_work must yield the storage to use, not {bound!r}"
        yield bound


def _resolve(storage: NotificationStorage[Any], session_id: str) -> Any:
    caller = storage.resolve_session(session_id)
    assert caller is not None, f"the storage must know the session {session_id!r}"
    return caller


def _current_user(storage: NotificationStorage[Any], session_id: str) -> list[Record]:
    with _unit_of_work(storage) as bound:
        return _read_current_user(bound, session_id)


def _read_current_user(storage: NotificationStorage[Any], session_id: str) -> list[Record]:
    return _read(storage.current_user_notifications(_resolve(storage, session_id)))


def _read_in_steps(storage: NotificationStorage[Any], session_id: str, found: list[Record]) -> Steps:
    """Read the notifications of a session into a list, and stop after each step: it yields ``True``."""
    with _unit_of_work(storage) as bound:
        caller = _resolve(bound, session_id)
        yield True
        with _closing(bound.current_user_notifications(caller)) as records:
            for record in records:
                found.append(record)
                yield True


def _account(storage: NotificationStorage[Any], session_id: str, account_id: str) -> list[Record]:
    with _unit_of_work(storage) as bound:
        return _read(bound.account_notifications(_resolve(bound, session_id), account_id))


def _read(records: Iterable[Record]) -> list[Record]:
    """Read records to the end and close them, as the library does."""
    with _closing(records):
        return list(records)


@contextmanager
def _closing(records: Iterable[Record]) -> Iterator[Iterable[Record]]:
    try:
        yield records
    finally:
        _close(records)


def _close(records: object) -> None:
    close = getattr(records, "close", None)
    if callable(close):
        close()


def _fails(expected: type[Raised], call: Callable[[], object]) -> None:
    try:
        outcome = call()
    except expected:
        return
    except StorageError as other:
        outcome = other
    message = f"{expected.__name__} expected, not {outcome!r}"
    raise AssertionError(message)
