"""A session, an operation and a storage in; a reply out.

The heart, which knows no framework and nothing of WSGI or of deprecation. Every call to the host's storage is made
here, and every failure of it becomes an answer here.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from inspect import isasyncgenfunction, iscoroutinefunction
from traceback import extract_tb
from typing import Generic

from .log import log_error
from .problems import Problems, Statuses, retry_after
from .records import ArrayWriter, Encode, Schema, SpoolUnavailable, UnserialisableRecord
from .replies import Reply, compose
from .sessions import Session, SessionCredential, SessionRefused
from .storage import (
    AccessDenied,
    AccountNotFound,
    Caller,
    NotificationStorage,
    Record,
    StorageUnavailable,
    has_unit_of_work,
    is_wait,
)

# Seconds that a client is told to wait when the storage does not name any.
_RETRY_AFTER = 30

# Characters.
_MAX_ACCOUNT_ID = 512
# Unicode's category Cc.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

# Logged of a traceback, from its end: a recursion without an end has a thousand.
_FRAMES = 20

_METHODS = ("resolve_session", "current_user_notifications", "account_notifications")
# A method that not every storage has.
_UNIT = "unit_of_work"

Read = Callable[[Caller], Iterable[Record]]
UnitOfWork = Callable[[], AbstractContextManager[object]]


class NotificationService(Generic[Caller]):
    """Answer the two operations from a storage.

    Raises ``ValueError`` naming the argument that does not fit: a storage class instead of an instance, a storage that
    lacks a method or has a coroutine for one, and what ``ArrayWriter``, ``Statuses`` and ``Problems`` refuse.
    """

    __slots__ = ("_problems", "_storage", "_unit_of_work", "_writer")

    def __init__(
        self,
        storage: NotificationStorage[Caller],
        *,
        schema: Schema | None,
        encode: Encode,
        statuses: Statuses,
        spool_threshold: int,
        realm: str,
    ) -> None:
        _check_storage(storage)
        self._storage = storage
        self._unit_of_work: UnitOfWork | None = getattr(storage, _UNIT) if has_unit_of_work(storage) else None
        self._writer = ArrayWriter(encode=encode, schema=schema, spool_threshold=spool_threshold)
        self._problems = Problems(statuses=statuses, realm=realm)

    def current_user(self, session: Session) -> Reply:
        """Answer with the notifications of the session's user."""
        if not isinstance(session, SessionCredential):
            return self._refusal(session)
        return self._answer(session, self._storage.current_user_notifications)

    def account(self, session: Session, account_id: bytes) -> Reply:
        """Answer with the notifications of an account; ``account_id`` is what the client sent, percent-decoded."""
        if not isinstance(session, SessionCredential):
            return self._refusal(session)
        text = _account_id(account_id)
        if text is None:
            return self._problems.reply("invalid_account_id")
        return self._answer(session, lambda caller: self._storage.account_notifications(caller, text))

    def _refusal(self, session: SessionRefused | None) -> Reply:
        return self._problems.reply("session_missing") if session is None else self._problems.refusal(session)

    def _answer(self, session: SessionCredential, read: Read[Caller]) -> Reply:
        try:
            if self._unit_of_work is None:
                return self._read(session, read)
            return self._read_in_one_unit(self._unit_of_work(), session, read)
        except Exception as fault:  # noqa: BLE001 - whatever a storage raises is an answer, never a crash
            return self._failure(fault)

    def _read_in_one_unit(
        self, unit: AbstractContextManager[object], session: SessionCredential, read: Read[Caller]
    ) -> Reply:
        reply = None
        try:
            with unit:
                reply = self._read(session, read)
        except BaseException:
            if reply is not None:
                reply.close()
            raise
        if reply is None:
            message = "unit_of_work must let exceptions pass"
            raise TypeError(message)
        return reply

    def _read(self, session: SessionCredential, read: Read[Caller]) -> Reply:
        caller = self._storage.resolve_session(session.value)
        if caller is None:
            return self._problems.reply("session_invalid")
        return self._array(read(_awaited_by_nobody(caller)))

    def _array(self, records: Iterable[Record]) -> Reply:
        """Answer with the whole array; the records are closed before anybody can send it."""
        reply = None
        try:
            try:
                body, length = self._writer.write(records)
                reply = compose(200, "application/json", body, length)
            finally:
                _close(records)
        except BaseException:
            if reply is not None:
                reply.close()
            raise
        return reply

    def _failure(self, fault: Exception) -> Reply:
        if isinstance(fault, AccessDenied):
            return self._problems.reply("access_denied")
        if isinstance(fault, AccountNotFound):
            return self._problems.reply("account_not_found")
        if isinstance(fault, StorageUnavailable):
            _log("storage_unavailable", fault)
            return self._problems.reply("storage_unavailable", extra=[retry_after(_wait(fault))])
        code = _CODES.get(type(fault), "storage_error")
        _log(code, fault)
        return self._problems.reply(code)


_CODES: dict[type[Exception], str] = {
    UnserialisableRecord: "unserialisable_record",
    SpoolUnavailable: "spool_unavailable",
}


def _check_storage(storage: object) -> None:
    if isinstance(storage, type):
        message = f"storage must be an instance, not the class {storage.__qualname__}"
        raise ValueError(message)
    for name in (*_METHODS, _UNIT) if has_unit_of_work(storage) else _METHODS:
        method = getattr(storage, name, None)
        if not callable(method) or iscoroutinefunction(method) or isasyncgenfunction(method):
            message = f"storage must have a method {name} that is not asynchronous: {type(storage).__qualname__}"
            raise ValueError(message)


def _wait(fault: StorageUnavailable) -> float:
    """Return the seconds that a storage names, unless they are no time: a kind of its own may have set anything."""
    return fault.retry_after if is_wait(fault.retry_after) else _RETRY_AFTER


def _awaited_by_nobody(caller: Caller) -> Caller:
    """Return a caller, unless it is a promise of one: any session would be taken for valid."""
    if hasattr(type(caller), "__await__"):
        message = "resolve_session must return a caller, not something to await"
        raise TypeError(message)
    return caller


def _account_id(sent: bytes) -> str | None:
    """Return the account ID as text, or ``None`` when no storage should be asked for it."""
    try:
        text = sent.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if 0 < len(text) <= _MAX_ACCOUNT_ID and not _CONTROL.search(text) else None


def _close(records: object) -> None:
    """Close the records once; a failure is logged, since the array is whole, or another fault is on its way."""
    close = getattr(records, "close", None)
    if callable(close):
        try:
            close()
        except Exception as fault:  # noqa: BLE001 - see above
            _log("storage_error", fault)


def _log(code: str, fault: Exception) -> None:
    """Log where a fault came from, and what kind it is: its text may hold the session ID or a statement's values."""
    index = f" at record {fault.index}" if isinstance(fault, UnserialisableRecord) else ""
    log_error("%s%s: %s", code, index, "; caused by ".join(map(_described, _chain(fault))))


def _chain(fault: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while fault is not None and id(fault) not in seen:  # a fault may be among its own causes
        seen.add(id(fault))
        yield fault
        fault = fault.__cause__ or (None if fault.__suppress_context__ else fault.__context__)


def _described(fault: BaseException) -> str:
    frames = extract_tb(fault.__traceback__, limit=-_FRAMES)
    places = (f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
    return f"{type(fault).__module__}.{type(fault).__qualname__} ({', '.join(places)})"
