"""Turn a session, an operation and a storage into a response.

This is the core. It knows no framework, and nothing of WSGI or of deprecation. Every
method of your storage is called here, and every failure of it becomes a response here.
"""

import re
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NoReturn

from flask_notifications.deferred import is_asynchronous, is_deferring, refuse_deferred
from flask_notifications.log import describe_exception, log_error
from flask_notifications.observers import ask_label, check_identify
from flask_notifications.problems import Problems, retry_after
from flask_notifications.responses import VARY, PlainResponse, build_response
from flask_notifications.sessions.credential import (
    CALLER,
    SessionCredential,
    SessionRefused,
    SessionResult,
)
from flask_notifications.validation import clean_label, require

from .records import ArrayWriter, SpoolUnavailable, UnserialisableRecord
from .storage import (
    AccessDenied,
    AccountNotFound,
    Caller,
    NotificationStorage,
    Record,
    StorageError,
    StorageUnavailable,
    is_transactional,
)

# Seconds that a client is asked to wait if the storage does not say how long.
_RETRY_AFTER = 30

# Characters.
_MAX_ACCOUNT_ID = 512
# Unicode's category Cc.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


Read = Callable[[NotificationStorage[Caller], Caller], Iterable[Record]]
UnitOfWork = Callable[[], AbstractContextManager[NotificationStorage[Caller]]]
# A function of the application from a caller to a label.
Identify = Callable[[Caller], str | None]
# Values of one request that modules share: its environ.
Context = MutableMapping[str, Any]


class NotificationService(Generic[Caller]):
    """Build the responses of the two operations from a storage."""

    __slots__ = ("_identify", "_is_debugging", "_problems", "_unit_of_work", "_writer")

    def __init__(
        self,
        storage: NotificationStorage[Caller],
        *,
        writer: ArrayWriter,
        problems: Problems,
        identify: Identify[Caller] | None = None,
        is_debugging: Callable[[], bool] = bool,
    ) -> None:
        _check_storage(storage)
        check_identify(identify, "a caller")
        self._identify = identify
        self._is_debugging = is_debugging
        self._unit_of_work: UnitOfWork[Caller] = lambda: nullcontext(storage)
        if is_transactional(storage):
            self._unit_of_work = storage.unit_of_work
        self._writer = writer
        self._problems = problems

    def current_user(self, session: SessionResult, context: Context) -> PlainResponse:
        """Return the notifications of the session's user, and label the caller.

        :param context: where the label is put, for observers.
        """
        if not isinstance(session, SessionCredential):
            return self._refuse(session)
        return self._respond(
            session,
            context,
            lambda storage, caller: storage.current_user_notifications(caller),
        )

    def account(
        self, session: SessionResult, account_id: bytes, context: Context
    ) -> PlainResponse:
        """Return the notifications of an account, and label the caller.

        :param account_id: percent-decoded, as the bytes of a string in UTF-8.
        :param context: where the label is put, for observers.
        """
        if not isinstance(session, SessionCredential):
            return self._refuse(session)
        account = _decode_account_id(account_id)
        if account is None:
            return self._problems.respond("invalid_account_id")
        return self._respond(
            session,
            context,
            lambda storage, caller: storage.account_notifications(caller, account),
        )

    def _refuse(self, session: SessionRefused | None) -> PlainResponse:
        if session is None:
            return self._problems.respond("session_missing")
        return self._problems.refuse(session)

    def _respond(
        self, session: SessionCredential, context: Context, read: Read[Caller]
    ) -> PlainResponse:
        try:
            return self._read(session, context, read)
        except Exception as error:  # noqa: BLE001 - every exception of a storage becomes a response, never a crash
            if not isinstance(error, _EXPECTED) and self._is_debugging():
                _raise_mistake(error)
            response, description = self._respond_to_failure(error)
        _log(description)  # after ``except``, which holds the exception
        return response

    def _read(
        self, session: SessionCredential, context: Context, read: Read[Caller]
    ) -> PlainResponse:
        """Return the response with the complete array, or the refusal of the session.

        The unit of work ends before the response can be sent.
        """
        response = None
        try:
            with refuse_deferred(self._unit_of_work(), "unit_of_work") as storage:
                caller = refuse_deferred(
                    storage.resolve_session(session.value), "resolve_session"
                )
                if caller is None:
                    return self._problems.respond("session_invalid")
                self._label(caller, session, context)
                records = refuse_deferred(
                    read(storage, caller), "a storage", may_generate=True
                )
                try:
                    body, length = self._writer.write(records)
                    response = build_response(
                        "200 OK", "application/json", body, length, [VARY]
                    )
                finally:
                    _close_records(records)
        except BaseException:  # also while the records or the unit of work are closed
            if response is not None:
                response.close()
            raise
        if response is None:
            message = "unit_of_work must not suppress exceptions"
            raise TypeError(message)
        return response

    def _label(
        self, caller: Caller, session: SessionCredential, context: Context
    ) -> None:
        """Let ``identify`` label the caller for observers."""
        if self._identify is not None:
            result, failure = ask_label(self._identify, caller)
            if failure is not None:
                log_error("identify: %s", failure)
            label = clean_label(result, [session.value])
            if label is not None:
                context[CALLER] = label

    def _respond_to_failure(self, error: Exception) -> tuple[PlainResponse, str | None]:
        """Return the response to an exception, and what to log about it or ``None``."""
        code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
        if isinstance(error, AccessDenied | AccountNotFound):
            return self._problems.respond(code), None
        extra = []
        if isinstance(error, StorageUnavailable):
            seconds = error.retry_after
            extra.append(retry_after(_RETRY_AFTER if seconds is None else seconds))
        response = self._problems.respond(code, extra=extra)
        return response, _describe_failure(code, error)


# The first class that fits an exception decides.
_CODES: dict[type[Exception], str] = {
    AccessDenied: "access_denied",
    AccountNotFound: "account_not_found",
    StorageUnavailable: "storage_unavailable",
    UnserialisableRecord: "unserialisable_record",
    SpoolUnavailable: "spool_unavailable",
    Exception: "storage_error",
}

# No mistakes in your code, so they become responses even while you debug.
_EXPECTED = (StorageError, SpoolUnavailable)


def _raise_mistake(error: Exception) -> NoReturn:
    """Raise the exception of a storage or of ``encode``, with the record as a note."""
    cause = error.__cause__
    if isinstance(error, UnserialisableRecord) and cause is not None:
        cause.add_note(str(error))
        raise cause from cause.__cause__  # without ours as its context
    raise error


def _check_storage(storage: object) -> None:
    require(
        not isinstance(storage, type), "storage", "an instance of a storage", storage
    )
    # By its name, what each method must not be: the two that return records may be
    # generator functions.
    refusals = {
        "resolve_session": is_deferring,
        "current_user_notifications": is_asynchronous,
        "account_notifications": is_asynchronous,
    }
    if is_transactional(storage):
        refusals["unit_of_work"] = is_deferring
    for name, is_refused in refusals.items():
        method = getattr(storage, name, None)
        require(
            callable(method),
            "storage",
            f"an instance with a method {name}",
            type(storage),
        )
        expected = (
            f"an instance with a method {name} that returns its result, not the promise"
            " of one"
        )
        require(not is_refused(method), "storage", expected, type(storage))


def _decode_account_id(encoded: bytes) -> str | None:
    """Return the account ID as a string, or ``None`` if it is invalid."""
    try:
        account_id = encoded.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not 0 < len(account_id) <= _MAX_ACCOUNT_ID or _CONTROL.search(account_id):
        return None
    return account_id


def _close_records(records: object) -> None:
    """Close the records, and log a failure.

    It changes no response: the array is complete, or another exception is on its way.
    """
    close = getattr(records, "close", None)
    if callable(close):
        description = None
        try:
            close()
        except Exception as error:  # noqa: BLE001 - it is logged
            description = _describe_failure("storage_error", error)
        _log(description)


def _log(description: str | None) -> None:
    """Log an exception once no local variable on the stack holds it any more.

    Some monitoring tools add local variables to each log record, and the string of an
    exception may hold the session ID or bound values.
    """
    if description is not None:
        log_error(description, stacklevel=2)


def _describe_failure(code: str, error: Exception) -> str:
    """Describe an exception by its type and where it was raised, without its string."""
    if isinstance(error, UnserialisableRecord):
        code = f"{code} at record {error.index}: {error}"
    return f"{code}: {describe_exception(error)}"
