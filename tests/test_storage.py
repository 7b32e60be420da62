"""The protocol of a storage, and the exceptions that a storage may raise."""

import math
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from flask_notifications import AccessDenied, AccountNotFound, NotificationStorage, StorageError, StorageUnavailable
from flask_notifications.testing import MemoryStorage


@pytest.mark.parametrize("error", [AccessDenied, AccountNotFound, StorageUnavailable])
def test_every_error_of_a_storage_is_a_storage_error(error: type[StorageError]) -> None:
    assert issubclass(error, StorageError)
    assert not issubclass(StorageError, (LookupError, OSError))
    assert str(error("why")) == "why"
    assert error().args == ()


@pytest.mark.parametrize("seconds", [None, 0, 0.2, 30, 86400.5, 31_536_000])
def test_an_unavailable_storage_may_have_a_retry_after(seconds: float | None) -> None:
    assert StorageUnavailable("why", retry_after=seconds).retry_after == seconds
    assert StorageUnavailable("why").retry_after is None


@pytest.mark.parametrize(
    "seconds",
    [-1, -0.001, 31_536_000.5, math.inf, -math.inf, math.nan, "60", Decimal("NaN"), timedelta(seconds=5)],
    ids=repr,
)
def test_a_retry_after_that_is_not_a_number_of_seconds_up_to_a_year_is_refused(seconds: Any) -> None:
    with pytest.raises(ValueError, match=r"^retry_after\b"):
        StorageUnavailable(retry_after=seconds)


def test_a_storage_needs_to_inherit_nothing() -> None:
    storage: NotificationStorage[str] = MemoryStorage(sessions={"s": "alice"}, notifications={"alice": [{"id": 1}]})
    assert NotificationStorage not in type(storage).__mro__
    assert storage.resolve_session("s") == "alice"
