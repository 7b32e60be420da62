"""A unit of work includes every call of a storage, and ends before the response."""

import contextlib
from typing import Any, BinaryIO
from unittest.mock import MagicMock

import pytest

from flask_notifications import AccessDenied, SessionCredential
from tests.service_calls import (
    CREDENTIAL,
    FAILURES,
    ServiceCall,
    both_operations,
    call_account,
    call_current_user,
    make_service,
    status_and_code,
    with_method,
)
from tests.storages import OneSession, OneUnit, Source, raising, rows


@pytest.mark.parametrize("threshold", [1_000_000, 0])
@both_operations
def test_a_unit_of_work_includes_the_session_and_the_records(call: ServiceCall, threshold: int) -> None:
    source = Source([{"n": 1}])
    storage = OneUnit(lambda: source)
    response = call(make_service(storage, threshold))
    assert response.status == "200 OK"
    assert [name for name, *_arguments in storage.calls][:2] == ["enter", "resolve_session"]
    assert storage.calls[-1] == ("exit", None)
    assert source.closed == 1
    assert len(storage.calls) == 4
    response.close()


@pytest.mark.parametrize(("failure", "expected"), FAILURES)
@both_operations
def test_a_unit_of_work_receives_the_exception_and_changes_no_response(
    call: ServiceCall, failure: Exception, expected: tuple[str, str]
) -> None:
    for storage in (OneUnit(raising(failure)), OneUnit(rows(failure, 300)), OneUnit(rows(), opening=failure)):
        assert status_and_code(call(make_service(storage))) == expected
        assert storage.calls.count(("enter",)) == 1
        assert storage.calls[-1] in {("exit", type(failure)), ("exit", RuntimeError), ("enter",)}


def test_a_unit_of_work_ends_for_an_unknown_session_too() -> None:
    storage = OneUnit()
    assert (
        status_and_code(make_service(storage).current_user(SessionCredential("unknown", "header")))[1]
        == "session_invalid"
    )
    assert storage.calls == [("enter",), ("resolve_session", "unknown"), ("exit", None)]


def test_no_unit_of_work_begins_if_the_storage_is_not_called() -> None:
    storage = OneUnit()
    assert status_and_code(make_service(storage).current_user(None))[1] == "session_missing"
    assert status_and_code(make_service(storage).account(CREDENTIAL, b""))[1] == "invalid_account_id"
    assert storage.calls == []


@pytest.mark.parametrize(("failure", "expected"), FAILURES)
@both_operations
def test_a_unit_of_work_that_fails_at_its_end_is_an_error_and_leaves_no_file(
    call: ServiceCall, failure: Exception, expected: tuple[str, str], spooled: list[BinaryIO]
) -> None:
    assert status_and_code(call(make_service(OneUnit(rows(count=1), closing=failure), threshold=0))) == expected
    assert [file.closed for file in spooled] == [True]


def test_a_unit_of_work_that_ends_the_process_at_its_end_leaves_no_file(spooled: list[BinaryIO]) -> None:
    with pytest.raises(SystemExit):
        call_current_user(make_service(OneUnit(rows(count=1), closing=SystemExit(3)), threshold=0))
    assert [file.closed for file in spooled] == [True]


def test_a_unit_of_work_that_swallows_an_exception_is_a_storage_error() -> None:
    storage = OneUnit(raising(AccessDenied()), swallows=True)
    assert status_and_code(call_account(make_service(storage))) == ("500 Internal Server Error", "storage_error")


def test_a_storage_that_invents_every_attribute_has_no_unit_of_work() -> None:
    storage = MagicMock(**{"resolve_session.return_value": 7, "current_user_notifications.return_value": [{"n": 1}]})
    assert call_current_user(make_service(storage)).body == b'[{"n":1}]'
    storage.current_user_notifications.assert_called_once_with(7)
    storage.unit_of_work.assert_not_called()


def test_a_unit_of_work_yields_the_storage_to_use() -> None:
    bound = OneSession(lambda: [{"n": 1}])

    class Unbound(OneSession):
        def unit_of_work(self) -> Any:
            return contextlib.nullcontext(bound)

    unbound = Unbound()
    for call in (call_current_user, call_account):
        assert call(make_service(unbound)).body == b'[{"n":1}]'
    assert unbound.calls == []
    assert len(bound.calls) == 4


def test_a_unit_of_work_that_yields_no_storage_is_an_error() -> None:
    storage = with_method("unit_of_work", contextlib.nullcontext)
    assert status_and_code(call_current_user(make_service(storage))) == ("500 Internal Server Error", "storage_error")
    assert storage.calls == []
