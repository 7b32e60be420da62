"""The storage protocol that your application implements, and its exceptions.

Knows no status code, no member of a record and no database.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeGuard, TypeVar

from flask_notifications.validation import is_number, require

# What ``encode`` can express as a JSON object (a mapping, a dataclass, ...), or one
# JSON object as bytes.
Record = Any

Caller = TypeVar("Caller")

# Seconds: a year.
_MAX_RETRY_AFTER = 31_536_000


class NotificationStorage(Protocol[Caller]):
    """Read notification records for the two operations.

    A ``Caller`` holds the facts that the storage needs about a user; the library passes
    it back unchanged. The methods are called in the order of a request,
    ``resolve_session`` first, from any thread, and by many threads concurrently. Their
    iterables are read to the end before anything is sent. One that has a ``close()`` is
    closed exactly once, on success and on failure. Except for ``resolve_session``, a
    method may be a generator function.

    Each method may raise ``AccessDenied``, ``AccountNotFound`` and
    ``StorageUnavailable``, when it is called or while its result is read. Any other
    exception is logged and becomes a response with status 500. So does a result that is
    only promised: a coroutine, a future, or anything else that must be awaited.
    """

    def resolve_session(self, session_id: str) -> Caller | None:
        """Return the caller of a session, or ``None`` if it is unknown or has ended.

        Only ``None`` means "unknown": ``0`` or an empty string is a caller. A generator
        is refused.

        :param session_id: an RFC 6750 b64token of at most 4096 characters.
        """

    def current_user_notifications(self, caller: Caller) -> Iterable[Record]:
        """Return the records of the caller in your order, or an empty iterable.

        :param caller: the result of ``resolve_session``.
        """

    def account_notifications(
        self, caller: Caller, account_id: str
    ) -> Iterable[Record]:
        """Return the records of an account in your order, or an empty iterable.

        :param caller: the result of ``resolve_session``.
        :param account_id: 1 to 512 characters without control characters, as the client
            spelled it.
        :raises AccessDenied: the caller may not see the account. Check this before you
            look whether the account exists; otherwise the 404 reveals which accounts
            there are.
        :raises AccountNotFound: there is no such account.
        """


class TransactionalStorage(NotificationStorage[Caller], Protocol):
    """Read notification records within a unit of work, such as one transaction.

    The method is looked up on the class of the storage, so a storage that wraps another
    must define it itself.
    """

    def unit_of_work(self) -> AbstractContextManager[NotificationStorage[Caller]]:
        """Return a context manager that yields the storage to use for one request.

        It is entered before ``resolve_session``, and exited after the records have been
        read and closed, before anything is sent. It must yield a storage: a copy of
        this one that is bound to a connection, or ``self``. It is exited with the
        exception if there was one, and must not suppress it.
        """


class StorageError(Exception):
    """The base class of the exceptions that a storage raises on purpose."""


class AccessDenied(StorageError):
    """The caller may not see the account."""


class AccountNotFound(StorageError):
    """There is no such account, and the caller may know that."""


class StorageUnavailable(StorageError):
    """The storage is out of reach for now.

    :param args: values to keep in the exception; they are neither sent nor logged.
    :param retry_after: the seconds after which a client may try again, from 0 to
        31,536,000 (a year); by default the storage cannot say, and clients are asked to
        wait for 30 seconds.
    :raises ValueError: ``retry_after`` is something else.
    """

    retry_after: float | None = None

    def __init__(self, *args: object, retry_after: float | None = None) -> None:
        super().__init__(*args)
        require(
            retry_after is None or is_number(retry_after, 0, _MAX_RETRY_AFTER),
            "retry_after",
            f"a number of seconds from 0 to {_MAX_RETRY_AFTER:,}",
            retry_after,
        )
        self.retry_after = retry_after


def is_transactional(storage: object) -> TypeGuard[TransactionalStorage[Any]]:
    """Return whether the class of a storage has a ``unit_of_work``.

    The instance is not asked, because a mock object has every attribute.
    """
    return hasattr(type(storage), "unit_of_work")
