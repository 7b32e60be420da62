"""Calls of the service, and the exceptions of storages with the responses to them."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from flask_notifications import (
    AccessDenied,
    AccountNotFound,
    SessionCredential,
    Statuses,
    StorageError,
    StorageUnavailable,
)
from flask_notifications.responses import PlainResponse
from flask_notifications.service import NotificationService
from tests.storages import SECRET, SESSION_ID, OneUnit

CREDENTIAL = SessionCredential(SESSION_ID, "header")

ServiceCall = Callable[["NotificationService[Any]"], PlainResponse]


def call_current_user(service: "NotificationService[Any]") -> PlainResponse:
    return service.current_user(CREDENTIAL)


def call_account(service: "NotificationService[Any]") -> PlainResponse:
    return service.account(CREDENTIAL, b"acc0")


both_operations = pytest.mark.parametrize("call", [call_current_user, call_account])


def make_service(storage: Any, threshold: int = 1_000_000) -> "NotificationService[Any]":
    return NotificationService(
        storage, schema=None, encode=orjson.dumps, statuses=Statuses(), spool_threshold=threshold, realm="r"
    )


def status_and_code(response: PlainResponse) -> tuple[str, str | None]:
    """Return a response's status line and the code in its body, and check that it has no secret."""
    assert isinstance(response.body, bytes)
    assert SECRET not in f"{response.headers}{response.body!r}"
    assert SESSION_ID not in f"{response.headers}{response.body!r}"
    body = orjson.loads(response.body)
    return response.status, body["code"] if isinstance(body, dict) else None


def with_method(name: str, function: Callable[..., Any]) -> Any:
    """Return a storage with a function in the place of one method."""
    return type("Storage", (OneUnit,), {name: staticmethod(function)})(lambda: [{"n": 1}])


class Down(StorageUnavailable):
    """A subclass of your application that does not call its parent's constructor."""

    def __init__(self, server: str) -> None:
        self.server = server


FAILURES = [
    pytest.param(AccessDenied(SECRET), ("403 Forbidden", "access_denied"), id="access denied"),
    pytest.param(AccountNotFound(SECRET), ("404 Not Found", "account_not_found"), id="account not found"),
    pytest.param(StorageUnavailable(SECRET), ("503 Service Unavailable", "storage_unavailable"), id="unavailable"),
    pytest.param(Down(SECRET), ("503 Service Unavailable", "storage_unavailable"), id="a subclass of unavailable"),
    pytest.param(StorageError(SECRET), ("500 Internal Server Error", "storage_error"), id="storage error"),
    pytest.param(KeyError(SECRET), ("500 Internal Server Error", "storage_error"), id="bug"),
    pytest.param(OSError(28, SECRET), ("500 Internal Server Error", "storage_error"), id="full disk of the storage"),
    pytest.param(BrokenPipeError(SECRET), ("500 Internal Server Error", "storage_error"), id="broken pipe"),
    pytest.param(StopIteration(SECRET), ("500 Internal Server Error", "storage_error"), id="StopIteration"),
    pytest.param(RecursionError(SECRET), ("500 Internal Server Error", "storage_error"), id="recursion"),
    pytest.param(MemoryError(SECRET), ("500 Internal Server Error", "storage_error"), id="memory"),
    pytest.param(
        ExceptionGroup(SECRET, [AccessDenied()]), ("500 Internal Server Error", "storage_error"), id="exception group"
    ),
]
