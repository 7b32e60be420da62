"""What the host supplies: the storage protocol, and the errors that a storage may raise.

Knows no status code, no field of a record and no database.
"""

from collections.abc import Iterable
from typing import Any, Protocol, TypeGuard, TypeVar

# What ``encode`` can express as a JSON object (a mapping, a dataclass, ...), or the text of one JSON object as bytes.
Record = Any

Caller = TypeVar("Caller")

# Seconds: a year.
LONGEST_WAIT = 31_536_000


class NotificationStorage(Protocol[Caller]):
    """Read notification records for the two operations.

    A ``Caller`` is whatever the storage wants to know again of a session's user; the library hands it back untouched.
    The methods are called in the order of a request, ``resolve_session`` first, from any thread, and by many
    threads at once. Their iterables are read to the end before anything is sent; one that has a ``close()`` is closed
    exactly once, on success and on failure. A method may be a generator function.

    A storage that holds something for the time of a request, such as one connection, may also have a method
    ``unit_of_work()``, found on its class. It returns a context manager, which is entered before ``resolve_session``
    and left when the records are read and closed, with the exception if there was one, which it must let pass.

    Each method may raise ``AccessDenied``, ``AccountNotFound`` and ``StorageUnavailable``, when it is called or while
    it is read. Any other exception is answered as a failure of the storage, and logged.
    """

    def resolve_session(self, session_id: str) -> Caller | None:
        """Return the caller of a session, or ``None`` when the session is unknown or has ended.

        ``session_id`` is an RFC 6750 b64token of at most 4096 characters. Only ``None`` means "unknown": a caller that
        is false, ``0`` say, is a caller.
        """

    def current_user_notifications(self, caller: Caller) -> Iterable[Record]:
        """Return the records of the caller, in the host's order; none: an empty iterable."""

    def account_notifications(self, caller: Caller, account_id: str) -> Iterable[Record]:
        """Return the records of an account, in the host's order; none: an empty iterable.

        ``account_id`` is 1 to 512 characters without control characters, in the caller's own spelling. Raises
        ``AccessDenied`` before it looks whether the account exists: otherwise the 404 tells which accounts there are.
        """


class StorageError(Exception):
    """The base of what a storage raises to say why it does not answer."""


class AccessDenied(StorageError):
    """The caller may not see the account."""


class AccountNotFound(StorageError):
    """There is no such account, and the caller may know that."""


class StorageUnavailable(StorageError):
    """The storage is out of reach for now.

    ``retry_after`` is the time after which a client may try again, in seconds, at most a year; ``None`` when the
    storage cannot tell. Anything else raises ``ValueError``.
    """

    retry_after: float | None = None

    def __init__(self, *args: object, retry_after: float | None = None) -> None:
        super().__init__(*args)
        if retry_after is not None and not is_wait(retry_after):
            message = f"retry_after must be a number of seconds from 0 to {LONGEST_WAIT}, not {retry_after!r}"
            raise ValueError(message)
        self.retry_after = retry_after


def is_wait(seconds: Any) -> TypeGuard[float]:
    """Tell whether a client can be told to wait for so many seconds; ``None``, NaN and texts are no number of them."""
    try:
        return bool(0 <= seconds <= LONGEST_WAIT)
    except (TypeError, ArithmeticError):
        return False


def has_unit_of_work(storage: object) -> bool:
    """Tell whether a storage has ``unit_of_work``, which not every one has.

    It is looked for on the class, as Python does with its own protocols: an object that makes up whatever attribute it
    is asked for has none.
    """
    return hasattr(type(storage), "unit_of_work")
