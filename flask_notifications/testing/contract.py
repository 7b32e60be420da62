"""The tests that any storage must pass."""

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import islice
from typing import Any, ClassVar

from flask_notifications.serving.storage import (
    AccessDenied,
    AccountNotFound,
    NotificationStorage,
    Record,
    StorageError,
    StorageUnavailable,
    is_transactional,
)

Steps = Generator[bool, None, None]


class StorageContract:
    """Prove that a storage keeps the promises of ``NotificationStorage``.

    Inherit it in a test class, define ``make_storage`` and the facts below about the
    data that it holds, and let the test runner find the ``test_`` methods. They compare
    records with ``==``, so the same record must be equal each time it is read.

    >>> class TestMemoryStorage(StorageContract): ...     session_id, other_session_id,
    administrator_session_id = "a1", "b2", "c3" ...     account_id, other_account_id =
    "alice", "bob" ... ...     def make_storage(self): ...         return MemoryStorage(
    ...             sessions={"a1": "alice", "b2": "bob", "c3": "carol"}, ...
    notifications={"alice": [{"id": 1}], "bob": [{"id": 2}], "carol": []}, ...
    administrators=["carol"], ...         ) >>>
    TestMemoryStorage().test_a_plain_caller_is_denied_a_foreign_account()
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
        """Return a storage whose database is out of reach, or ``None`` if there is no
        such thing.
        """
        return None

    def test_a_session_leads_to_a_caller(self) -> None:
        """A known session resolves, again and again, to a caller with notifications."""
        storage = self.make_storage()
        first, second = [_current_user(storage, self.session_id) for _ in range(2)]
        assert first, "the user of session_id must have a notification"
        assert first == second, (
            "a session must lead to the same notifications each time"
        )

    def test_an_unknown_session_is_none(self) -> None:
        """An unknown ID of any form resolves to ``None``, without an exception."""
        storage = self.make_storage()
        for session_id in (self.unknown_session_id, "A", "~" * 4096, "..", "null"):
            with _unit_of_work(storage) as bound:
                assert bound.resolve_session(session_id) is None, (
                    f"{session_id[:40]!r} must be unknown"
                )

    def test_callers_see_their_own_notifications(self) -> None:
        """Two sessions never mix, in any order of calls."""
        with _unit_of_work(self.make_storage()) as storage:
            callers = [
                _resolve_caller(storage, each)
                for each in (self.session_id, self.other_session_id)
            ]
            mine, theirs = [
                _read_whole(storage.current_user_notifications(caller))
                for caller in callers
            ]
            assert mine != theirs, (
                "session_id and other_session_id must have different notifications"
            )
            again = _read_whole(storage.current_user_notifications(callers[0]))
            assert again == mine, (
                "a caller must see the same notifications after another caller's"
            )

    def test_callers_see_their_own_account(self) -> None:
        """The account operation shows the caller's own account."""
        records = _account(self.make_storage(), self.session_id, self.account_id)
        assert records, "account_id must have a notification"

    def test_a_plain_caller_is_denied_a_foreign_account(self) -> None:
        """A foreign account is ``AccessDenied``, and not an empty result."""
        _fails(
            AccessDenied,
            _account,
            self.make_storage(),
            self.session_id,
            self.other_account_id,
        )

    def test_a_plain_caller_does_not_learn_which_accounts_exist(self) -> None:
        """An unknown account is ``AccessDenied`` as well, because a 404 would show
        which accounts exist.
        """
        _fails(
            AccessDenied,
            _account,
            self.make_storage(),
            self.session_id,
            self.unknown_account_id,
        )

    def test_an_administrator_sees_a_foreign_account(self) -> None:
        """A caller who may see every account gets the same notifications as the
        account's user.
        """
        if self.administrator_session_id is not None:
            storage = self.make_storage()
            theirs = _account(storage, self.other_session_id, self.other_account_id)
            seen = _account(
                storage, self.administrator_session_id, self.other_account_id
            )
            assert seen == theirs, (
                "an administrator must see the notifications that the user sees"
            )

    def test_an_administrator_is_told_of_an_unknown_account(self) -> None:
        """A caller who may see every account gets ``AccountNotFound`` for one that is
        not there.
        """
        if self.administrator_session_id is not None:
            storage = self.make_storage()
            _fails(
                AccountNotFound,
                _account,
                storage,
                self.administrator_session_id,
                self.unknown_account_id,
            )

    def test_records_can_be_left_unread(self) -> None:
        """Closing after the first record, or before it, harms no later call."""
        with _unit_of_work(self.make_storage()) as storage:
            caller = _resolve_caller(storage, self.session_id)
            whole = _read_whole(storage.current_user_notifications(caller))
            for count in (0, 1):
                with _closing(storage.current_user_notifications(caller)) as records:
                    list(islice(records, count))
            again = _read_whole(storage.current_user_notifications(caller))
            assert again == whole, (
                "records that were left unread must not change what is read later"
            )

    def test_a_unit_of_work_changes_no_response(self) -> None:
        """A unit of work, if the storage has any, knows every session, and one that
        fails changes nothing.
        """
        storage = self.make_storage()
        mine, theirs = [
            _current_user(storage, each)
            for each in (self.session_id, self.other_session_id)
        ]
        assert mine != theirs, (
            "a unit of work must know the session that it is asked for"
        )

        def failing() -> None:
            with _unit_of_work(storage) as bound:
                assert _read_current_user(bound, self.session_id) == mine
                assert _read_current_user(bound, self.other_session_id) == theirs
                raise AccessDenied

        _fails(AccessDenied, failing)
        assert _current_user(storage, self.session_id) == mine, (
            "a unit of work that failed must change nothing"
        )

    def test_threads_do_not_mix(self) -> None:
        """Two threads with two sessions, at the same time, get the rows of their own
        session only.
        """
        storage = self.make_storage()
        sessions = [self.session_id, self.other_session_id]
        alone = [_current_user(storage, session_id) for session_id in sessions]
        with ThreadPoolExecutor(max_workers=2) as threads:
            rounds = list(
                threads.map(
                    lambda session_id: _current_user(storage, session_id), sessions * 50
                )
            )
        assert rounds == alone * 50, (
            "threads must get the notifications of their own session"
        )

    def test_threads_that_take_turns_do_not_mix(self) -> None:
        """Two threads get the rows of their own session only, even if each reads one
        record in turn.
        """
        storage = self.make_storage()
        sessions = [self.session_id, self.other_session_id]
        found: list[list[Record]] = [[], []]
        steps = [
            _read_in_steps(storage, *each) for each in zip(sessions, found, strict=True)
        ]
        with (
            ThreadPoolExecutor(max_workers=1) as one,
            ThreadPoolExecutor(max_workers=1) as other,
        ):
            turns = everybody = list(zip((one, other), steps, strict=True))
            try:
                while turns:
                    turns = [
                        (thread, step)
                        for thread, step in turns
                        if thread.submit(next, step, False).result()
                    ]
            finally:
                for thread, step in everybody:
                    thread.submit(step.close).result()
        alone = [_current_user(storage, session_id) for session_id in sessions]
        assert found == alone, "threads must get the notifications of their own session"

    def test_a_storage_out_of_reach_says_so(self) -> None:
        """The first call raises ``StorageUnavailable``, and no exception of the driver."""
        storage = self.make_unreachable_storage()
        if storage is not None:
            _fails(StorageUnavailable, _current_user, storage, self.session_id)


@contextmanager
def _unit_of_work(
    storage: NotificationStorage[Any],
) -> Iterator[NotificationStorage[Any]]:
    """Begin a unit of work, where the storage has one, as each request does; check that
    it yields a storage.
    """
    with (
        storage.unit_of_work()
        if is_transactional(storage)
        else nullcontext(storage) as bound
    ):
        assert hasattr(bound, "resolve_session"), (
            f"unit_of_work must yield the storage to use, not {bound!r}"
        )
        yield bound


def _resolve_caller(storage: NotificationStorage[Any], session_id: str) -> Any:
    caller = storage.resolve_session(session_id)
    assert caller is not None, f"the storage must know the session {session_id!r}"
    return caller


def _current_user(storage: NotificationStorage[Any], session_id: str) -> list[Record]:
    with _unit_of_work(storage) as bound:
        return _read_current_user(bound, session_id)


def _read_current_user(
    storage: NotificationStorage[Any], session_id: str
) -> list[Record]:
    return _read_whole(
        storage.current_user_notifications(_resolve_caller(storage, session_id))
    )


def _read_in_steps(
    storage: NotificationStorage[Any], session_id: str, found: list[Record]
) -> Steps:
    """Read the notifications of a session into a list, and stop after each step: it
    yields ``True``.
    """
    with _unit_of_work(storage) as bound:
        caller = _resolve_caller(bound, session_id)
        yield True
        with _closing(bound.current_user_notifications(caller)) as records:
            for record in records:
                found.append(record)
                yield True


def _account(
    storage: NotificationStorage[Any], session_id: str, account_id: str
) -> list[Record]:
    with _unit_of_work(storage) as bound:
        return _read_whole(
            bound.account_notifications(_resolve_caller(bound, session_id), account_id)
        )


def _read_whole(records: Iterable[Record]) -> list[Record]:
    """Read records to the end and close them, as the library does."""
    with _closing(records):
        return list(records)


def _closing(records: Any) -> AbstractContextManager[Any]:
    return (
        closing(records)
        if callable(getattr(records, "close", None))
        else nullcontext(records)
    )


def _fails(
    expected: type[StorageError], call: Callable[..., object], *arguments: object
) -> None:
    try:
        outcome = call(*arguments)
    except expected:
        return
    except StorageError as other:
        outcome = other
    message = f"{expected.__name__} expected, not {outcome!r}"
    raise AssertionError(message)
