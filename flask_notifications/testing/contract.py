"""Tests that every storage must pass."""

import json
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import islice
from typing import Any, ClassVar, cast

import orjson

from flask_notifications.serving.records import ArrayWriter, Schema
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
NewContext = Callable[[], AbstractContextManager[Any]]


class StorageContract:
    """Test that a storage keeps the promises of ``NotificationStorage``.

    Inherit from it in a test class, define ``make_storage`` and the attributes below,
    and let the test runner collect the ``test_`` methods. They compare the JSON that is
    served, so records need no ``__eq__``.

    A storage that needs an application context pushes it in its ``unit_of_work``, or
    the test class has a fixture that does. Each thread gets its own context.
    """

    session_id: ClassVar[str]
    """A session whose user has notifications and may see only their own account."""
    account_id: ClassVar[str]
    """The account of that user."""
    other_session_id: ClassVar[str]
    """A session of another user, with other notifications."""
    other_account_id: ClassVar[str]
    """The account of that other user."""
    administrator_session_id: ClassVar[str | None] = None
    """A session that may see every account, or ``None`` if no caller may."""
    unknown_session_id: ClassVar[str] = "00000000-0000-4000-8000-00000000dead"
    unknown_account_id: ClassVar[str] = "00000000-0000-4000-8000-00000000beef"
    schema: ClassVar[Schema | type[Schema] | None] = None
    """The schema that you give to ``create_blueprint``."""

    def make_storage(self) -> NotificationStorage[Any]:
        """Return the storage to test, with the data that the attributes describe."""
        raise NotImplementedError

    def make_unreachable_storage(self) -> NotificationStorage[Any] | None:
        """Return a storage whose database is down, or ``None`` to skip its test."""
        return None

    def test_a_session_leads_to_a_caller(self) -> None:
        """A known session resolves, again and again, to a caller with notifications."""
        storage = self.make_storage()
        first = self._current_user(storage, self.session_id)
        second = self._current_user(storage, self.session_id)
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
            caller = _resolve_caller(storage, self.session_id)
            other_caller = _resolve_caller(storage, self.other_session_id)
            mine = self._serve(storage.current_user_notifications(caller))
            theirs = self._serve(storage.current_user_notifications(other_caller))
            assert mine != theirs, (
                "session_id and other_session_id must have different notifications"
            )
            again = self._serve(storage.current_user_notifications(caller))
            assert again == mine, (
                "a caller must see the same notifications after another caller's"
            )

    def test_callers_see_their_own_account(self) -> None:
        """The account operation shows the caller's own account."""
        records = self._account(self.make_storage(), self.session_id, self.account_id)
        assert records, "account_id must have a notification"

    def test_a_plain_caller_is_denied_a_foreign_account(self) -> None:
        """A foreign account is ``AccessDenied``, and not an empty result."""
        _assert_raises(
            AccessDenied,
            self._account,
            self.make_storage(),
            self.session_id,
            self.other_account_id,
        )

    def test_a_plain_caller_does_not_learn_which_accounts_exist(self) -> None:
        """An unknown account is ``AccessDenied`` too: a 404 would show which exist."""
        _assert_raises(
            AccessDenied,
            self._account,
            self.make_storage(),
            self.session_id,
            self.unknown_account_id,
        )

    def test_an_administrator_sees_a_foreign_account(self) -> None:
        """An administrator gets the same notifications as the account's user."""
        if self.administrator_session_id is not None:
            storage = self.make_storage()
            theirs = self._account(
                storage, self.other_session_id, self.other_account_id
            )
            seen = self._account(
                storage, self.administrator_session_id, self.other_account_id
            )
            assert seen == theirs, (
                "an administrator must see the notifications that the user sees"
            )

    def test_an_administrator_is_told_of_an_unknown_account(self) -> None:
        """An administrator gets ``AccountNotFound`` for an unknown account."""
        if self.administrator_session_id is not None:
            storage = self.make_storage()
            _assert_raises(
                AccountNotFound,
                self._account,
                storage,
                self.administrator_session_id,
                self.unknown_account_id,
            )

    def test_records_can_be_left_unread(self) -> None:
        """Closing before or after the first record does not affect later calls."""
        with _unit_of_work(self.make_storage()) as storage:
            caller = _resolve_caller(storage, self.session_id)
            whole = self._serve(storage.current_user_notifications(caller))
            for count in (0, 1):
                with _closing(storage.current_user_notifications(caller)) as records:
                    list(islice(records, count))
            again = self._serve(storage.current_user_notifications(caller))
            assert again == whole, (
                "records that were left unread must not change what is read later"
            )

    def test_a_unit_of_work_changes_no_response(self) -> None:
        """A unit of work, if any, knows every session; a failed one changes nothing."""
        storage = self.make_storage()
        mine = self._current_user(storage, self.session_id)
        theirs = self._current_user(storage, self.other_session_id)
        assert mine != theirs, (
            "a unit of work must know the session that it is asked for"
        )

        def failing() -> None:
            with _unit_of_work(storage) as bound:
                assert self._read_current_user(bound, self.session_id) == mine
                assert self._read_current_user(bound, self.other_session_id) == theirs
                raise AccessDenied

        _assert_raises(AccessDenied, failing)
        assert self._current_user(storage, self.session_id) == mine, (
            "a unit of work that failed must change nothing"
        )

    def test_threads_do_not_mix(self) -> None:
        """Two concurrent threads with two sessions get only their own records."""
        storage = self.make_storage()
        new_context = _application_context()

        def serve(session_id: str) -> list[Any]:
            with new_context():
                return self._current_user(storage, session_id)

        sessions = [self.session_id, self.other_session_id]
        alone = [serve(self.session_id), serve(self.other_session_id)]
        with ThreadPoolExecutor(max_workers=2) as threads:
            rounds = list(threads.map(serve, sessions * 50))
        assert rounds == alone * 50, (
            "threads must get the notifications of their own session"
        )

    def test_threads_that_take_turns_do_not_mix(self) -> None:
        """Two threads get only their own records, even if they alternate."""
        storage = self.make_storage()
        new_context = _application_context()
        turns = []
        with (
            ThreadPoolExecutor(max_workers=1) as first,
            ThreadPoolExecutor(max_workers=1) as second,
        ):
            try:
                for thread, session_id in (
                    (first, self.session_id),
                    (second, self.other_session_id),
                ):
                    records: list[Any] = []
                    steps = self._read_in_steps(
                        storage, session_id, records, new_context
                    )
                    turns.append((thread, session_id, records, steps))
                # Let each thread read one record in turn.
                is_reading = True
                while is_reading:
                    is_reading = False
                    for thread, _session_id, _records, steps in turns:
                        is_reading |= thread.submit(next, steps, False).result()
            finally:
                for thread, _session_id, _records, steps in turns:
                    thread.submit(steps.close).result()
        for _thread, session_id, records, _steps in turns:
            assert records == self._current_user(storage, session_id), (
                "threads must get the notifications of their own session"
            )

    def test_a_storage_out_of_reach_says_so(self) -> None:
        """The first call raises ``StorageUnavailable``, not the driver's exception."""
        storage = self.make_unreachable_storage()
        if storage is not None:
            _assert_raises(
                StorageUnavailable, self._current_user, storage, self.session_id
            )

    def _current_user(
        self, storage: NotificationStorage[Any], session_id: str
    ) -> list[Any]:
        with _unit_of_work(storage) as bound:
            return self._read_current_user(bound, session_id)

    def _read_current_user(
        self, storage: NotificationStorage[Any], session_id: str
    ) -> list[Any]:
        caller = _resolve_caller(storage, session_id)
        return self._serve(storage.current_user_notifications(caller))

    def _account(
        self, storage: NotificationStorage[Any], session_id: str, account_id: str
    ) -> list[Any]:
        with _unit_of_work(storage) as bound:
            caller = _resolve_caller(bound, session_id)
            return self._serve(bound.account_notifications(caller, account_id))

    def _read_in_steps(
        self,
        storage: NotificationStorage[Any],
        session_id: str,
        served: list[Any],
        new_context: NewContext,
    ) -> Steps:
        """Read the notifications of a session, and yield after each step."""
        with new_context(), _unit_of_work(storage) as bound:
            caller = _resolve_caller(bound, session_id)
            yield True
            with _closing(bound.current_user_notifications(caller)) as records:
                for record in records:
                    served += self._serve([record])
                    yield True

    def _serve(self, records: Iterable[Record]) -> list[Any]:
        """Serve records, which are read to the end and closed; return the array."""
        writer = ArrayWriter(
            encode=_encode, schema=self.schema, spool_threshold=sys.maxsize
        )
        with _closing(records):
            array, _length = writer.write(records)
        served: list[Any] = json.loads(cast("bytes", array))
        return served


def _encode(batch: list[Any]) -> bytes:
    # Your own ``encode`` decides about types that orjson refuses, such as Decimal.
    return orjson.dumps(batch, default=str)


@contextmanager
def _unit_of_work(
    storage: NotificationStorage[Any],
) -> Iterator[NotificationStorage[Any]]:
    """Begin a unit of work, as each request does, and check that it yields a storage.

    A storage without units of work is yielded itself.
    """
    unit: AbstractContextManager[Any] = nullcontext(storage)
    if is_transactional(storage):
        unit = storage.unit_of_work()
    with unit as bound:
        assert hasattr(bound, "resolve_session"), (
            f"unit_of_work must yield the storage to use, not {bound!r}"
        )
        yield bound


def _resolve_caller(storage: NotificationStorage[Any], session_id: str) -> Any:
    caller = storage.resolve_session(session_id)
    assert caller is not None, f"the storage must know the session {session_id!r}"
    return caller


def _application_context() -> NewContext:
    """Return a function that makes contexts of the test's Flask application, if any.

    Threads do not share a context, and each request has its own.
    """
    flask = sys.modules.get("flask")
    if flask is None or not flask.has_app_context():
        return nullcontext
    application = flask.current_app._get_current_object()
    new_context: NewContext = application.app_context
    return new_context


def _closing(records: Any) -> AbstractContextManager[Any]:
    if callable(getattr(records, "close", None)):
        return closing(records)
    return nullcontext(records)


def _assert_raises(
    expected: type[StorageError], call: Callable[..., object], *arguments: object
) -> None:
    try:
        outcome = call(*arguments)
    except expected:
        return
    except StorageError as error:
        outcome = error
    message = f"{expected.__name__} expected, not {outcome!r}"
    raise AssertionError(message)
