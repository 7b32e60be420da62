"""Storages whose behaviour a test chooses, and the entry points that serve them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar
from wsgiref.types import WSGIApplication

import flask

from flask_notifications import NotificationApp, create_blueprint
from tests.middleware import wrap

Error = TypeVar("Error", bound=BaseException)

SESSION_ID = "5e551011-0000-4000-8000-0000000000aa"
BEARER = {"HTTP_AUTHORIZATION": f"Bearer {SESSION_ID}"}

CURRENT_USER = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount/{}/"

# A string that no response and no log line may have; the exceptions of storages have
# it.
SECRET = "hunter2 from the statement"  # noqa: S105 - no password


class Source:
    """Records that must be closed; the iteration may fail after the last of them."""

    def __init__(
        self,
        records: Iterable[Any] = (),
        *,
        failure: BaseException | None = None,
        closing: BaseException | None = None,
    ) -> None:
        self._records, self._failure, self._closing = records, failure, closing
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        for record in self._records:
            assert not self.closed
            yield record
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self.closed += 1
        if self._closing is not None:
            raise self._closing


class OneSession:
    """A storage with one session that returns ``records()`` and keeps its calls."""

    def __init__(
        self, records: Callable[[], Any] = tuple, *, caller: object = "alice"
    ) -> None:
        self._records, self._caller = records, caller
        self.calls: list[tuple[object, ...]] = []

    def resolve_session(self, session_id: str) -> Any:
        self.calls.append(("resolve_session", session_id))
        return self._caller if session_id == SESSION_ID else None

    def current_user_notifications(self, caller: Any) -> Any:
        self.calls.append(("current_user_notifications", caller))
        return self._records()

    def account_notifications(self, caller: Any, account_id: str) -> Any:
        self.calls.append(("account_notifications", caller, account_id))
        return self._records()


class OneUnit(OneSession):
    """A storage with a unit of work, whose beginning and end are among its calls;
    either may fail.
    """

    def __init__(
        self,
        records: Callable[[], Any] = tuple,
        *,
        opening: BaseException | None = None,
        closing: BaseException | None = None,
        swallows: bool = False,
    ) -> None:
        super().__init__(records)
        self._opening, self._closing, self._swallows = opening, closing, swallows

    def unit_of_work(self) -> "OneUnit":
        return self

    def __enter__(self) -> Self:
        self.calls.append(("enter",))
        if self._opening is not None:
            raise self._opening
        return self

    def __exit__(self, kind: type[BaseException] | None, *_failure: object) -> bool:
        self.calls.append(("exit", kind))
        if self._closing is not None:
            raise self._closing
        return self._swallows


def raising(failure: BaseException) -> Callable[..., Any]:
    """Return a function that raises an exception, for a storage that fails when it is
    called.
    """

    def call(*_arguments: object) -> Any:
        raise failure

    return call


def raise_and_catch(error: Error, cause: BaseException | None = None) -> Error:
    """Return an exception after it was raised, with its traceback and its cause."""
    try:
        raise error from cause
    except type(error):
        return error


def rows(
    failure: BaseException | None = None, count: int = 0
) -> Callable[[], Iterator[Any]]:
    """Return a generator function: some records, and then an exception if one is given."""

    def generate() -> Iterator[Any]:
        yield from ({"n": number} for number in range(count))
        if failure is not None:
            raise failure

    return generate


def flask_app(storage: Any, **options: Any) -> flask.Flask:
    app = flask.Flask("app")
    app.register_blueprint(create_blueprint(storage, **options))
    return app


ENTRY_POINTS: dict[str, Callable[..., WSGIApplication]] = {
    "blueprint": flask_app,
    "application": NotificationApp,
    "blueprint, middleware": lambda storage, **options: wrap(
        flask_app(storage, **options)
    ),
    "application, middleware": lambda storage, **options: wrap(
        NotificationApp(storage, **options)
    ),
}
