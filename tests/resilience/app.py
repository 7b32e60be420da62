"""An application whose storage fails on request: the name of the caller, or of the account, says how and when.

``oserror-at-21`` raises an ``OSError`` in place of record 21. Instead of a number, ``session``, ``call`` and ``close``
mean the look-up of the caller, the call for the records, and the release of the records.
"""

import errno
import itertools
import logging
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_notifications import (
    DeprecationMiddleware,
    DeprecationPolicy,
    NotificationApp,
    StorageUnavailable,
    create_blueprint,
    notification_operations,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Standard error shows the logger and the level of each message.
logging.basicConfig(format="%(name)s %(levelname)s %(message)s", level=logging.INFO, force=True)
_logger = logging.getLogger("storage")

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount"
# The prefixes at which one process serves the same operations, each from its own storage.
ENTRY_POINTS = {"blueprint": "", "nested-blueprint": "/nested", "application": "/plain"}

# Bytes; COUNT records take more.
SPOOL_THRESHOLD = 65_536
COUNT = 300
RECORD = b'{"name":"%s"}' % (b"n" * 1_000)
WHOLE = b"[" + b",".join([RECORD] * COUNT) + b"]"

# Larger than the buffers of all connections between a server and its client, and hardly smaller when compressed.
LARGE_RECORDS = [b'{"name":"%s"}' % random.Random(n).randbytes(5_000).hex().encode() for n in range(10)] * 200  # noqa: S311
LARGE = b"[" + b",".join(LARGE_RECORDS) + b"]"

GATE = "gate"

# A string that no response and no log line may contain.
SECRET = "hunter2 from the statement"  # noqa: S105 - that is the point


def _recurse() -> BaseException:
    return _recurse()


FAILURES: dict[str, Callable[[], BaseException]] = {
    "unavailable": partial(StorageUnavailable, SECRET, retry_after=6.2),
    "bug": partial(KeyError, SECRET),
    "oserror": partial(OSError, errno.ENOSPC, SECRET),
    "broken-pipe": partial(BrokenPipeError, errno.EPIPE, SECRET),
    "connection-reset": partial(ConnectionResetError, errno.ECONNRESET, SECRET),
    "not-connected": partial(OSError, errno.ENOTCONN, SECRET),
    "memory": partial(MemoryError, SECRET),
    "recursion": _recurse,
    "group": partial(ExceptionGroup, SECRET, [BrokenPipeError(SECRET)]),
    "exit": partial(SystemExit, 3),
    "interrupt": KeyboardInterrupt,
}


def _nest_deeply() -> object:
    record: object = {}
    for _level in range(100_000):
        record = {"in": record}
    return record


def _wait() -> bytes:
    """Wait until the gate is open, and return a record."""
    _logger.info("waits")
    while not Path(os.environ["TMPDIR"], GATE).exists():
        time.sleep(0.01)
    return RECORD


def open_gate(folder: Path) -> None:
    """Release the requests that wait in a server; the gate is a file among its temporary files."""
    (folder / "tmp" / GATE).touch()


VALUES: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "number": lambda: 7,
    "string": lambda: "string",
    "array": lambda: [{}],
    "half-an-object": lambda: b'{"half":',
    "not-a-number": lambda: {"value": float("nan")},
    "decimal": lambda: {"value": Decimal("1.5")},
    "large-integer": lambda: {"value": 2**64},
    "lone-surrogate": lambda: {"value": "\ud800"},
    "key-that-is-not-a-string": lambda: {7: "value"},
    "deep": _nest_deeply,
    "wait": _wait,
}


class Behaviour(NamedTuple):
    """What a storage does, and at which stage."""

    action: str
    stage: str

    @classmethod
    def of(cls, name: str) -> "Behaviour":
        action, _, stage = name.partition("-at-")
        return cls(action, stage)

    def perform(self) -> Any:
        """Raise the exception, or return the value, that the action names."""
        if self.action in FAILURES:
            failure = FAILURES[self.action]()
            raise failure
        return VALUES[self.action]()


class Records:
    """Records that log when they are opened and closed."""

    _numbers = itertools.count()

    def __init__(self, records: Iterator[object], name: str) -> None:
        self._records, self._behaviour = records, Behaviour.of(name)
        self._number = f"{os.getpid()}.{next(self._numbers)}"
        _logger.info("opened %s", self._number)

    def __iter__(self) -> Iterator[object]:
        return self._records

    def close(self) -> None:
        _logger.info("closed %s", self._number)
        if self._behaviour.stage == "close":
            self._behaviour.perform()


def find_unreleased(log: str) -> list[str]:
    """Return the numbers of the records that a server's log shows as opened but not as closed exactly once."""
    events = re.findall(r"^storage INFO (opened|closed) (\S+)$", log, re.MULTILINE)
    closed = Counter(number for event, number in events if event == "closed")
    return [number for event, number in events if event == "opened" and closed[number] != 1]


class Storage:
    """A storage that does what the name of the caller, or of the requested account, says."""

    def __init__(self, name: str) -> None:
        self._name = name

    def resolve_session(self, session_id: str) -> Any:
        behaviour = Behaviour.of(session_id)
        return behaviour.perform() if behaviour.stage == "session" else session_id

    def current_user_notifications(self, caller: str) -> Any:
        return self.account_notifications(caller, caller)

    def account_notifications(self, caller: str, account_id: str) -> Any:
        behaviour = Behaviour.of(account_id)
        if behaviour.stage == "call":
            return behaviour.perform()
        return Records(self._records(caller, account_id), account_id)

    def _records(self, caller: str, account: str) -> Iterator[object]:
        if account == "large":
            return iter(LARGE_RECORDS)
        kind, _, number = account.partition("-")
        if kind == "bytes":
            return _record_of_length(int(number))
        if kind == "user":
            return _delay_records(self._name, caller, account, int(number))
        return _records_with(Behaviour.of(account))


def _record_of_length(length: int) -> Iterator[object]:
    """Yield one record whose array is ``length`` bytes long."""
    yield b'{"":"%s"}' % (b"n" * (length - len('[{"":""}]')))


def _records_with(behaviour: Behaviour) -> Iterator[object]:
    """Yield records, and perform the behaviour in place of one of them or after the last."""
    for index in range(COUNT + 1):
        if behaviour.stage == str(index):
            yield behaviour.perform()
        elif index < COUNT:
            yield RECORD


def _delay_records(storage: str, caller: str, account: str, number: int) -> Iterator[object]:
    """Yield the records of a user, with occasional pauses."""
    for record in records_of(storage, caller, account, number):
        if random.random() < 0.002:  # noqa: S311 - no secret
            time.sleep(random.random() * 0.01)  # noqa: S311 - no secret
        yield record


def records_of(storage: str, caller: str, account: str, number: int) -> Iterator[bytes]:
    """Return the records of a user's account; a higher number has more records, and the highest are spooled."""
    record = f'{{"storage":"{storage}","caller":"{caller}","account":"{account}"}}'.encode()
    return itertools.repeat(record, number * 20)


DOCUMENTATION = "https://example.com/retire"
POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC), documentation=DOCUMENTATION)
OPERATIONS = notification_operations()
NESTED_OPERATIONS = notification_operations(f"{ENTRY_POINTS['nested-blueprint']}/API/Notification")

flask_app = flask.Flask(__name__)
flask_app.register_blueprint(create_blueprint(Storage("blueprint"), spool_threshold=SPOOL_THRESHOLD))
parent = flask.Blueprint("parent", __name__, url_prefix=ENTRY_POINTS["nested-blueprint"])
parent.register_blueprint(create_blueprint(Storage("nested-blueprint"), spool_threshold=SPOOL_THRESHOLD))
flask_app.register_blueprint(parent)


@flask_app.get("/ready")
def ready() -> str:
    """Respond without the storage."""
    return "ready"


application: "WSGIApplication" = DispatcherMiddleware(
    DeprecationMiddleware(flask_app, POLICY, operations=[*OPERATIONS, *NESTED_OPERATIONS]),
    {
        ENTRY_POINTS["application"]: DeprecationMiddleware(
            NotificationApp(Storage("application"), spool_threshold=SPOOL_THRESHOLD), POLICY
        )
    },
)
