"""The storage contract of the test kit passes with right storages and fails with wrong ones."""

import inspect
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import pytest

from flask_notifications import AccessDenied, AccountNotFound, NotificationStorage, StorageError, StorageUnavailable
from flask_notifications.testing import MemoryStorage, StorageContract


def make_memory_storage() -> MemoryStorage:
    return MemoryStorage(
        sessions={"a1": "alice", "b2": "bob", "c3": "carol"},
        notifications={"alice": [{"id": 1}, {"id": 2}], "bob": [b'{"id":3}'], "carol": []},
        administrators=["carol"],
    )


class Contract(StorageContract):
    __test__ = False
    session_id, other_session_id = "a1", "b2"
    administrator_session_id: ClassVar[str | None] = "c3"
    account_id, other_account_id = "alice", "bob"

    def make_storage(self) -> NotificationStorage[Any]:
        return make_memory_storage()


class Unreachable(MemoryStorage):
    def resolve_session(self, session_id: str) -> str | None:
        raise StorageUnavailable(session_id[:0])


class TestMemoryStorage(Contract):
    __test__ = True

    def make_unreachable_storage(self) -> NotificationStorage[Any]:
        return Unreachable(sessions={}, notifications={})


class TestMemoryStorageWithoutAdministrators(Contract):
    __test__ = True
    administrator_session_id = None


class Wrong:
    """A storage like the one in memory; each subclass breaks one promise."""

    def __init__(self) -> None:
        self.right = make_memory_storage()

    def resolve_session(self, session_id: str) -> str | None:
        return self.right.resolve_session(session_id)

    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        return self.right.current_user_notifications(caller)

    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        return self.right.account_notifications(caller, account_id)


class AcceptsEverySession(Wrong):
    def resolve_session(self, session_id: str) -> str | None:
        return super().resolve_session(session_id) or "alice"


class KnowsNoSession(Wrong):
    def resolve_session(self, session_id: str) -> str | None:
        return None if session_id else "alice"


class RaisesForAnUnknownSession(Wrong):
    def resolve_session(self, session_id: str) -> str | None:
        return {"a1": "alice", "b2": "bob", "c3": "carol"}[session_id]


class IgnoresTheCaller(Wrong):
    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        return super().current_user_notifications("alice" if caller else caller)


class SharesTheLastCaller(Wrong):
    def resolve_session(self, session_id: str) -> str | None:
        self.last = super().resolve_session(session_id)
        return self.last

    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        return super().current_user_notifications(self.last or caller)


class MixesCallersThatTakeTurns(Wrong):
    def current_user_notifications(self, caller: str) -> Iterator[Any]:
        self.last = caller
        for record in super().current_user_notifications(caller):
            if self.last == caller:
                yield record


class SharesOneCursor(Wrong):
    def current_user_notifications(self, caller: str) -> Iterator[Any]:
        self.cursor = iter(super().current_user_notifications(caller))
        while (record := next(self.cursor, None)) is not None:
            yield record


class ReturnsNothingInsteadOfDenying(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        try:
            return super().account_notifications(caller, account_id)
        except AccessDenied:
            return []


class ReturnsTheCallersOwnInsteadOfDenying(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        return super().account_notifications(caller, account_id if caller == "carol" else caller)


class RevealsWhichAccountsExist(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        if account_id not in {"alice", "bob", "carol"}:
            raise AccountNotFound
        return super().account_notifications(caller, account_id)


class ReturnsNothingForUnknownAccounts(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        try:
            return super().account_notifications(caller, account_id)
        except AccountNotFound:
            return []


class DeniesEvenAdministrators(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        if caller != account_id:
            raise AccessDenied(caller)
        return super().account_notifications(caller, account_id)


class CannotBeReadTwice(Wrong):
    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, Iterator[Any]] = {}

    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        return self.rows.setdefault(caller, iter(super().current_user_notifications(caller)))


class BreaksWhenLeftUnread(Wrong):
    broken = False

    def current_user_notifications(self, caller: str) -> Iterator[Any]:
        if self.broken:
            raise RuntimeError(caller)
        self.broken = True
        yield from super().current_user_notifications(caller)
        self.broken = False


class SwallowsExceptions(Wrong):
    @contextmanager
    def unit_of_work(self) -> Iterator[NotificationStorage[str]]:
        with suppress(Exception):
            yield self


class YieldsNothing(Wrong):
    @contextmanager
    def unit_of_work(self) -> Iterator[None]:
        yield


class ReturnsNothingInAUnit(Wrong):
    @contextmanager
    def unit_of_work(self) -> Iterator[NotificationStorage[str]]:
        yield MemoryStorage(sessions={"a1": "alice"}, notifications={})


class IsBoundToOneCaller(Wrong):
    @contextmanager
    def unit_of_work(self) -> Iterator[NotificationStorage[str]]:
        yield MemoryStorage(sessions={"a1": "alice", "b2": "alice"}, notifications={"alice": [{"id": 1}]})


class BreaksAfterAFailure(Wrong):
    @contextmanager
    def unit_of_work(self) -> Iterator[NotificationStorage[str]]:
        try:
            yield self
        except AccessDenied:
            self.right = MemoryStorage(sessions={}, notifications={})
            raise


@pytest.mark.parametrize(
    ("wrong", "caught_by", "message"),
    [
        (AcceptsEverySession, "test_an_unknown_session_is_none", "must be unknown"),
        (KnowsNoSession, "test_a_session_leads_to_a_caller", "must know the session 'a1'"),
        (RaisesForAnUnknownSession, "test_an_unknown_session_is_none", "-00000000dead"),
        (IgnoresTheCaller, "test_callers_see_their_own_notifications", "must have different notifications"),
        (SharesTheLastCaller, "test_callers_see_their_own_notifications", "must have different notifications"),
        (MixesCallersThatTakeTurns, "test_threads_that_take_turns_do_not_mix", "of their own session"),
        (SharesOneCursor, "test_threads_that_take_turns_do_not_mix", "of their own session"),
        (ReturnsNothingInsteadOfDenying, "test_a_plain_caller_is_denied_a_foreign_account", "not []"),
        (ReturnsTheCallersOwnInsteadOfDenying, "test_a_plain_caller_is_denied_a_foreign_account", "not [{'id': 1}, "),
        (RevealsWhichAccountsExist, "test_a_plain_caller_does_not_learn_which_accounts_exist", "not AccountNotFound"),
        (ReturnsNothingForUnknownAccounts, "test_an_administrator_is_told_of_an_unknown_account", "not []"),
        (DeniesEvenAdministrators, "test_an_administrator_sees_a_foreign_account", "carol"),
        (CannotBeReadTwice, "test_a_session_leads_to_a_caller", "must lead to the same notifications"),
        (BreaksWhenLeftUnread, "test_records_can_be_left_unread", "alice"),
        (SwallowsExceptions, "test_a_unit_of_work_changes_no_response", "not None"),
        (YieldsNothing, "test_a_unit_of_work_changes_no_response", "must yield the storage to use, not None"),
        (IsBoundToOneCaller, "test_a_unit_of_work_changes_no_response", "must know the session that it is asked for"),
        (ReturnsNothingInAUnit, "test_a_unit_of_work_changes_no_response", "must know the session 'b2'"),
        (BreaksAfterAFailure, "test_a_unit_of_work_changes_no_response", "must know the session 'a1'"),
    ],
)
def test_a_wrong_storage_fails_for_the_right_reason(wrong: type[Wrong], caught_by: str, message: str) -> None:
    class Checked(Contract):
        def make_storage(self) -> NotificationStorage[Any]:
            return wrong()

    with pytest.raises((AssertionError, StorageError, KeyError, RuntimeError), match=re.escape(message)):
        getattr(Checked(), caught_by)()


def test_a_storage_that_forwards_every_attribute_needs_no_unit_of_work() -> None:
    class Forwards:
        def __init__(self) -> None:
            self.right = make_memory_storage()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.right, name)

    class Checked(Contract):
        def make_storage(self) -> Any:
            return Forwards()

    Checked().test_a_unit_of_work_changes_no_response()


def test_a_storage_that_reads_only_within_a_unit_of_work_keeps_the_promises() -> None:
    class Bound(Wrong):
        @contextmanager
        def unit_of_work(self) -> Iterator[NotificationStorage[str]]:
            yield self.right

        def resolve_session(self, session_id: str) -> str | None:
            raise AssertionError(session_id)

    class Checked(Contract):
        def make_storage(self) -> NotificationStorage[Any]:
            return Bound()

    tests = [name for name in dir(Checked) if name.startswith("test_")]
    assert len(tests) > 10
    for name in tests:
        getattr(Checked(), name)()


def test_threads_that_share_a_callers_rows_are_caught() -> None:
    class SharesOneIterator(Wrong):
        """Return another caller's rows from the third call on, so that the outcome does not depend on timing."""

        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def current_user_notifications(self, caller: str) -> Iterable[Any]:
            self.calls += 1
            return super().current_user_notifications("bob" if self.calls > 2 else caller)

    class Checked(Contract):
        def make_storage(self) -> NotificationStorage[Any]:
            return SharesOneIterator()

    with pytest.raises(AssertionError):
        Checked().test_threads_do_not_mix()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"sessions": ["a1"], "notifications": {}}, "sessions"),
        ({"sessions": {}, "notifications": [1]}, "notifications"),
        ({"sessions": {}, "notifications": {}, "administrators": "carol"}, "administrators"),
        ({"sessions": {}, "notifications": {}, "administrators": None}, "administrators"),
    ],
)
def test_the_error_of_a_storage_in_memory_names_the_argument(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be "):
        MemoryStorage(**options)


def test_a_storage_that_hides_its_outage_is_caught() -> None:
    class Checked(Contract):
        def make_unreachable_storage(self) -> NotificationStorage[Any]:
            return make_memory_storage()

    with pytest.raises(AssertionError, match="StorageUnavailable expected"):
        Checked().test_a_storage_out_of_reach_says_so()


def test_a_contract_without_a_storage_raises_not_implemented() -> None:
    with pytest.raises(NotImplementedError):
        StorageContract().make_storage()


def test_the_kit_needs_no_test_framework() -> None:
    assert "import pytest" not in inspect.getsource(inspect.getmodule(StorageContract))  # type: ignore[arg-type]
