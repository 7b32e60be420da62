"""For the host's own tests: a storage in memory, the tests that any storage must pass, and the announcement's check.

Plain asserts, no test framework: ``StorageContract`` runs under pytest and under anything else that calls its methods.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeVar

from .deprecation import Announcement, DeprecationPolicy
from .operations import Operation
from .storage import (
    AccessDenied,
    AccountNotFound,
    NotificationStorage,
    Record,
    StorageError,
    StorageUnavailable,
    has_unit_of_work,
)

Raised = TypeVar("Raised", bound=StorageError)


class MemoryStorage:
    """Hold sessions and notifications in memory, for tests and first tries; nothing outlives the process.

    ``sessions`` maps a session ID to the account ID of its user, ``notifications`` an account ID to its records (every
    account has an entry, if an empty one), and ``administrators`` are the accounts that may see every other one.
    """

    def __init__(
        self,
        *,
        sessions: Mapping[str, str],
        notifications: Mapping[str, Iterable[Record]],
        administrators: Collection[str] = (),
    ) -> None:
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


def parse_deprecation(value: str) -> datetime:
    """Return the date of a ``Deprecation`` field, strictly: a structured-field date (RFC 9745 section 2.1, RFC 9651).

    Raises ``AssertionError`` for anything else, such as ``true``, an HTTP-date, or two lines in one. Parameters, which
    RFC 9745 defines none of, are not accepted.
    """
    match = _STRUCTURED_DATE.fullmatch(value.strip(" "))
    assert match, f"Deprecation must be '@' and whole seconds since 1970, not {value!r}"
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(match[1]))
    except OverflowError as fault:
        message = f"Deprecation must be a date before the year 10000, not {value!r}"
        raise AssertionError(message) from fault


def parse_sunset(value: str) -> datetime:
    """Return the date of a ``Sunset`` field, strictly: an IMF-fixdate with the right weekday (RFC 9110 section 5.6.7).

    Raises ``AssertionError`` for the obsolete forms of an HTTP-date too, which no sender may use.
    """
    match = _IMF_FIXDATE.fullmatch(value)
    assert match, f"Sunset must be like 'Fri, 01 Jan 2027 00:00:00 GMT', not {value!r}"
    weekday, day, month, year, hour, minute, second = match.groups()
    try:
        numbers = (int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second))
        date = datetime(*numbers, tzinfo=UTC)
    except ValueError as fault:
        message = f"Sunset must be a date of the calendar, not {value!r}"
        raise AssertionError(message) from fault
    assert _WEEKDAYS[date.weekday()] == weekday, f"Sunset must name a {_WEEKDAYS[date.weekday()]}, not {value!r}"
    return date


def assert_deprecated(
    response: Any, policy: DeprecationPolicy, operation: Operation, *, base_url: str = "", mount: str = ""
) -> None:
    """Assert that a response announces the retirement of an operation, whole and once.

    Takes the responses of Werkzeug (and so Flask), requests, httpx and Django. ``base_url`` is that of the middleware,
    ``mount`` the path, percent-encoded, at which the application is mounted. Raises ``AssertionError`` that says what
    differs. Not checked: status, body, and ``Link`` lines of the application's own.
    """
    announced = Announcement(policy, operation.successor, base_url=base_url).lines(mount)
    expected = {name: [value for key, value in announced if key == name] for name in ("Deprecation", "Sunset", "Link")}
    for name, parse in (("Deprecation", parse_deprecation), ("Sunset", parse_sunset)):
        found = _field_lines(response, name)
        assert len(found) == len(expected[name]), f"{name}: {expected[name]} expected, not {found}"
        for value, due in zip(found, expected[name], strict=True):
            assert parse(value) == parse(due), f"{name}: {due!r} expected, not {value!r}"
    # Some clients give several lines as one, with commas between them (RFC 9110 section 5.3).
    links, due = ", ".join(_field_lines(response, "Link")), ", ".join(expected["Link"])
    assert links.endswith(due), f"Link: {due!r} expected at the end, not {links!r}"
    assert not due or links.count(due) == 1, f"Link: {due!r} expected once, not {links!r}"


def _field_lines(response: Any, name: str) -> list[str]:
    """Return the lines of a field as the response of some framework or client holds them."""
    headers = response.headers
    for method in ("getlist", "get_list"):  # Werkzeug, httpx
        if hasattr(headers, method):
            return list(getattr(headers, method)(name))
    value = headers.get(name)  # requests, Django
    return [] if value is None else [value]


# RFC 9651 section 3.3.7: sf-date = "@" sf-integer, of at most 15 digits.
_STRUCTURED_DATE = re.compile(r"@(-?\d{1,15})", re.ASCII)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# RFC 9110 section 5.6.7: IMF-fixdate = day-name "," SP date1 SP time-of-day SP GMT
_IMF_FIXDATE = re.compile(
    rf"({'|'.join(_WEEKDAYS)}), (\d\d) ({'|'.join(_MONTHS)}) (\d{{4}}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII
)


class StorageContract:
    """Prove that a storage keeps what ``NotificationStorage`` promises.

    Inherit it in a test class, give ``make_storage`` and the facts below about the data that it holds, and let the test
    runner find the ``test_`` methods.

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
        """Return a storage whose database does not answer, or ``None`` where there is no such thing."""
        return None

    def test_a_session_leads_to_a_caller(self) -> None:
        """A known session resolves, again and again, to a caller with notifications."""
        storage = self.make_storage()
        assert storage.resolve_session(self.session_id) is not None
        assert _current_user(storage, self.session_id) == _current_user(storage, self.session_id) != []

    def test_an_unknown_session_is_none(self) -> None:
        """``None`` and no exception, for an ID that nobody has, of any form."""
        storage = self.make_storage()
        for session_id in (self.unknown_session_id, "A", "~" * 4096, "..", "null"):
            assert storage.resolve_session(session_id) is None, f"{session_id[:40]!r} must be unknown"

    def test_callers_see_their_own_notifications(self) -> None:
        """Two sessions never mix, whatever the order of calls."""
        storage = self.make_storage()
        callers = [storage.resolve_session(each) for each in (self.session_id, self.other_session_id)]
        mine, theirs = [_read(storage.current_user_notifications(caller)) for caller in callers]
        assert mine != theirs
        assert _read(storage.current_user_notifications(callers[0])) == mine

    def test_callers_see_their_own_account(self) -> None:
        """The account operation shows the caller's own account."""
        assert _account(self.make_storage(), self.session_id, self.account_id) != []

    def test_a_plain_caller_is_denied_a_foreign_account(self) -> None:
        """A foreign account is ``AccessDenied``, and not an empty answer."""
        storage = self.make_storage()
        _fails(AccessDenied, lambda: _account(storage, self.session_id, self.other_account_id))

    def test_a_plain_caller_does_not_learn_which_accounts_exist(self) -> None:
        """An unknown account is ``AccessDenied`` as well: a 404 would tell it from one that is there."""
        storage = self.make_storage()
        _fails(AccessDenied, lambda: _account(storage, self.session_id, self.unknown_account_id))

    def test_an_administrator_sees_a_foreign_account(self) -> None:
        """Who may see every account sees what its own user sees."""
        if self.administrator_session_id is not None:
            storage = self.make_storage()
            theirs = _account(storage, self.other_session_id, self.other_account_id)
            assert _account(storage, self.administrator_session_id, self.other_account_id) == theirs

    def test_an_administrator_is_told_of_an_unknown_account(self) -> None:
        """Who may see every account gets ``AccountNotFound`` for one that is not there."""
        storage, session_id = self.make_storage(), self.administrator_session_id
        if session_id is not None:
            _fails(AccountNotFound, lambda: _account(storage, session_id, self.unknown_account_id))

    def test_records_can_be_left_unread(self) -> None:
        """Closing after the first record, or before it, harms no later call."""
        storage = self.make_storage()
        caller = storage.resolve_session(self.session_id)
        whole = _read(storage.current_user_notifications(caller))
        for count in (0, 1):
            records = storage.current_user_notifications(caller)
            for _record, _number in zip(records, range(count), strict=False):
                pass
            _close(records)
        assert _read(storage.current_user_notifications(caller)) == whole

    def test_a_unit_of_work_changes_no_answer(self) -> None:
        """Inside of one, where the storage has it, and after one that failed, callers see what they see without."""
        storage: Any = self.make_storage()
        whole = _current_user(storage, self.session_id)
        unit_of_work = storage.unit_of_work if has_unit_of_work(storage) else nullcontext

        def failing() -> None:
            with unit_of_work():
                assert _current_user(storage, self.session_id) == whole
                raise AccessDenied

        _fails(AccessDenied, failing)
        assert _current_user(storage, self.session_id) == whole

    def test_threads_do_not_mix(self) -> None:
        """Two threads with two sessions, at the same time, get the rows of their own session only."""
        storage = self.make_storage()
        sessions = [self.session_id, self.other_session_id]
        alone = [_current_user(storage, session_id) for session_id in sessions]
        with ThreadPoolExecutor(max_workers=2) as threads:
            rounds = list(threads.map(lambda session_id: _current_user(storage, session_id), sessions * 50))
        assert rounds == alone * 50

    def test_a_storage_out_of_reach_says_so(self) -> None:
        """Whatever call comes first raises ``StorageUnavailable``, and nothing of the driver's own."""
        storage = self.make_unreachable_storage()
        if storage is not None:
            _fails(StorageUnavailable, lambda: storage.resolve_session(self.session_id))


def _current_user(storage: NotificationStorage[Any], session_id: str) -> list[Record]:
    return _read(storage.current_user_notifications(storage.resolve_session(session_id)))


def _account(storage: NotificationStorage[Any], session_id: str, account_id: str) -> list[Record]:
    return _read(storage.account_notifications(storage.resolve_session(session_id), account_id))


def _read(records: Iterable[Record]) -> list[Record]:
    """Read records to the end and close them, as the library does."""
    try:
        return list(records)
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
