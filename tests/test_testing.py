"""The test kit for hosts, tried on storages that are right and on storages that are wrong."""

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import pytest

from flask_notifications import AccessDenied, AccountNotFound, NotificationStorage, StorageError, StorageUnavailable
from flask_notifications.testing import MemoryStorage, StorageContract


def memory() -> MemoryStorage:
    return MemoryStorage(
        sessions={"a1": "alice", "b2": "bob", "c3": "carol"},
        notifications={"alice": [{"id": 1}, {"id": 2}], "bob": [b'{"id":3}'], "carol": []},
        administrators=["carol"],
    )


class Facts(StorageContract):
    __test__ = False
    session_id, other_session_id = "a1", "b2"
    administrator_session_id: ClassVar[str | None] = "c3"
    account_id, other_account_id = "alice", "bob"

    def make_storage(self) -> NotificationStorage[Any]:
        return memory()


class Unreachable(MemoryStorage):
    def resolve_session(self, session_id: str) -> str | None:
        raise StorageUnavailable(session_id[:0])


class TestMemoryStorage(Facts):
    __test__ = True

    def make_unreachable_storage(self) -> NotificationStorage[Any]:
        return Unreachable(sessions={}, notifications={})


class TestMemoryStorageWithoutAdministrators(Facts):
    __test__ = True
    administrator_session_id = None


class Wrong:
    """A storage like the one in memory; each of its children breaks one promise."""

    def __init__(self) -> None:
        self.right = memory()

    def resolve_session(self, session_id: str) -> str | None:
        return self.right.resolve_session(session_id)

    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        return self.right.current_user_notifications(caller)

    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        return self.right.account_notifications(caller, account_id)


class TakesAnySession(Wrong):
    def resolve_session(self, session_id: str) -> str | None:
        return super().resolve_session(session_id) or "alice"


class KnowsNobody(Wrong):
    def resolve_session(self, session_id: str) -> str | None:
        return None if session_id else "alice"


class RaisesForAnUnknownSession(Wrong):
    def resolve_session(self, session_id: str) -> str | None:
        return {"a1": "alice", "b2": "bob", "c3": "carol"}[session_id]


class ForgetsTheCaller(Wrong):
    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        return super().current_user_notifications("alice" if caller else caller)


class RemembersTheLastCaller(Wrong):
    def resolve_session(self, session_id: str) -> str | None:
        self.last = super().resolve_session(session_id)
        return self.last

    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        return super().current_user_notifications(self.last or caller)


class AnswersEmptyToStrangers(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        try:
            return super().account_notifications(caller, account_id)
        except AccessDenied:
            return []


class ShowsOnesOwnInstead(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        return super().account_notifications(caller, account_id if caller == "carol" else caller)


class LooksForTheAccountFirst(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        if account_id not in {"alice", "bob", "carol"}:
            raise AccountNotFound
        return super().account_notifications(caller, account_id)


class TakesUnknownAccountsForEmpty(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        try:
            return super().account_notifications(caller, account_id)
        except AccountNotFound:
            return []


class DeniesEvenAdministrators(Wrong):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        if caller != account_id:
            raise AccessDenied
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
            raise RuntimeError
        self.broken = True
        yield from super().current_user_notifications(caller)
        self.broken = False


class SwallowsFaults(Wrong):
    def unit_of_work(self) -> Any:
        return suppress(Exception)


class AnswersEmptyInAUnit(Wrong):
    @contextmanager
    def unit_of_work(self) -> Iterator[None]:
        whole, self.right = self.right, MemoryStorage(sessions={"a1": "alice"}, notifications={})
        try:
            yield
        finally:
            self.right = whole


class BreaksAfterAFailure(Wrong):
    @contextmanager
    def unit_of_work(self) -> Iterator[None]:
        try:
            yield
        except AccessDenied:
            self.right = MemoryStorage(sessions={}, notifications={})
            raise


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (TakesAnySession, "test_an_unknown_session_is_none"),
        (KnowsNobody, "test_a_session_leads_to_a_caller"),
        (RaisesForAnUnknownSession, "test_an_unknown_session_is_none"),
        (ForgetsTheCaller, "test_callers_see_their_own_notifications"),
        (RemembersTheLastCaller, "test_callers_see_their_own_notifications"),
        (AnswersEmptyToStrangers, "test_a_plain_caller_is_denied_a_foreign_account"),
        (ShowsOnesOwnInstead, "test_a_plain_caller_is_denied_a_foreign_account"),
        (LooksForTheAccountFirst, "test_a_plain_caller_does_not_learn_which_accounts_exist"),
        (TakesUnknownAccountsForEmpty, "test_an_administrator_is_told_of_an_unknown_account"),
        (DeniesEvenAdministrators, "test_an_administrator_sees_a_foreign_account"),
        (CannotBeReadTwice, "test_a_session_leads_to_a_caller"),
        (BreaksWhenLeftUnread, "test_records_can_be_left_unread"),
        (SwallowsFaults, "test_a_unit_of_work_changes_no_answer"),
        (AnswersEmptyInAUnit, "test_a_unit_of_work_changes_no_answer"),
        (BreaksAfterAFailure, "test_a_unit_of_work_changes_no_answer"),
    ],
)
def test_a_wrong_storage_fails_for_the_right_reason(wrong: type[Wrong], caught_by: str) -> None:
    class Tried(Facts):
        def make_storage(self) -> NotificationStorage[Any]:
            return wrong()

    with pytest.raises((AssertionError, StorageError, KeyError, RuntimeError)):
        getattr(Tried(), caught_by)()


def test_a_storage_that_hands_on_whatever_it_is_asked_for_needs_no_unit_of_work() -> None:
    class HandsOn:
        def __init__(self) -> None:
            self.right = memory()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.right, name)

    class Tried(Facts):
        def make_storage(self) -> Any:
            return HandsOn()

    Tried().test_a_unit_of_work_changes_no_answer()


def test_threads_that_share_a_callers_rows_are_caught() -> None:
    class SharesOneIterator(Wrong):
        """Hands the rows of whoever asked last to everybody; with the interleaving made certain."""

        def __init__(self) -> None:
            super().__init__()
            self.asked = 0

        def current_user_notifications(self, caller: str) -> Iterable[Any]:
            self.asked += 1
            return super().current_user_notifications("bob" if self.asked > 2 else caller)

    class Tried(Facts):
        def make_storage(self) -> NotificationStorage[Any]:
            return SharesOneIterator()

    with pytest.raises(AssertionError):
        Tried().test_threads_do_not_mix()


def test_a_storage_that_hides_its_outage_is_caught() -> None:
    class Tried(Facts):
        def make_unreachable_storage(self) -> NotificationStorage[Any]:
            return memory()

    with pytest.raises(AssertionError, match="StorageUnavailable expected"):
        Tried().test_a_storage_out_of_reach_says_so()


def test_a_contract_without_a_storage_says_so() -> None:
    with pytest.raises(NotImplementedError):
        StorageContract().make_storage()


def test_the_kit_needs_no_test_framework() -> None:
    assert "import pytest" not in inspect.getsource(inspect.getmodule(StorageContract))  # type: ignore[arg-type]
