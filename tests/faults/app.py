"""The application under fault: what its storage does is the name of who asks, or of the account that is asked for.

``oserror-at-21``: it raises an ``OSError`` in the place of record 21. Instead of a number, ``session``, ``call`` and
``close`` stand for being asked who the caller is, for being asked for the records, and for their end.
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

# Standard error shows who logged something, and how grave it is.
logging.basicConfig(format="%(name)s %(levelname)s %(message)s", level=logging.INFO, force=True)
_logger = logging.getLogger("storage")

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount"
# Where the same operations are served in one process, each from a storage of its own.
DOORS = {"blueprint": "", "nested-blueprint": "/nested", "application": "/plain"}

# Bytes; COUNT records take more.
SPOOL_THRESHOLD = 65_536
COUNT = 300
RECORD = b'{"name":"%s"}' % (b"n" * 1_000)
WHOLE = b"[" + b",".join([RECORD] * COUNT) + b"]"

# More than the buffers of all connections between a server and its client take, and hardly less when it is compressed.
LARGE_RECORDS = [b'{"name":"%s"}' % random.Random(n).randbytes(5_000).hex().encode() for n in range(10)] * 200  # noqa: S311
LARGE = b"[" + b",".join(LARGE_RECORDS) + b"]"

GATE = "gate"

# A text that no answer and no log line may hold.
SECRET = "hunter2 from the statement"  # noqa: S105 - that is the point


def _recurse() -> BaseException:
    return _recurse()


FAULTS: dict[str, Callable[[], BaseException]] = {
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


def _deep() -> object:
    record: object = {}
    for _level in range(100_000):
        record = {"in": record}
    return record


def _wait() -> bytes:
    """Return a record when the gate is open."""
    _logger.info("waits")
    while not Path(os.environ["TMPDIR"], GATE).exists():
        time.sleep(0.01)
    return RECORD


def open_gate(folder: Path) -> None:
    """Let go on what waits in the server of a folder; the gate is a file where temporary files are."""
    (folder / "tmp" / GATE).touch()


VALUES: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "number": lambda: 7,
    "text": lambda: "text",
    "array": lambda: [{}],
    "half-an-object": lambda: b'{"half":',
    "not-a-number": lambda: {"value": float("nan")},
    "decimal": lambda: {"value": Decimal("1.5")},
    "large-integer": lambda: {"value": 2**64},
    "lone-surrogate": lambda: {"value": "\ud800"},
    "key-that-is-no-text": lambda: {7: "value"},
    "deep": _deep,
    "wait": _wait,
}


class Place(NamedTuple):
    """What happens, and where."""

    what: str
    where: str

    @classmethod
    def of(cls, name: str) -> "Place":
        what, _, where = name.partition("-at-")
        return cls(what, where)

    def reach(self) -> Any:
        """Do what happens here: raise it, or return it."""
        if self.what in FAULTS:
            fault = FAULTS[self.what]()
            raise fault
        return VALUES[self.what]()


class Records:
    """Records that tell when they are opened and closed."""

    _numbers = itertools.count()

    def __init__(self, records: Iterator[object], name: str) -> None:
        self._records, self._place = records, Place.of(name)
        self._number = f"{os.getpid()}.{next(self._numbers)}"
        _logger.info("opened %s", self._number)

    def __iter__(self) -> Iterator[object]:
        return self._records

    def close(self) -> None:
        _logger.info("closed %s", self._number)
        if self._place.where == "close":
            self._place.reach()


def unreleased(log: str) -> list[str]:
    """Return the records that have been opened and not closed exactly once, by the log of a server."""
    events = re.findall(r"^storage INFO (opened|closed) (\S+)$", log, re.MULTILINE)
    closed = Counter(number for event, number in events if event == "closed")
    return [number for event, number in events if event == "opened" and closed[number] != 1]


class Storage:
    """Do what the caller, or the account that is asked for, is the name of."""

    def __init__(self, name: str) -> None:
        self._name = name

    def resolve_session(self, session_id: str) -> Any:
        place = Place.of(session_id)
        return place.reach() if place.where == "session" else session_id

    def current_user_notifications(self, caller: str) -> Any:
        return self.account_notifications(caller, caller)

    def account_notifications(self, caller: str, account_id: str) -> Any:
        place = Place.of(account_id)
        return place.reach() if place.where == "call" else Records(self._records(caller, account_id), account_id)

    def _records(self, caller: str, account: str) -> Iterator[object]:
        if account == "large":
            return iter(LARGE_RECORDS)
        kind, _, number = account.partition("-")
        if kind == "bytes":
            return _bytes(int(number))
        if kind == "user":
            return _slowly(self._name, caller, account, int(number))
        return _with(Place.of(account))


def _bytes(length: int) -> Iterator[object]:
    """Yield a record whose array has a length, in bytes."""
    yield b'{"":"%s"}' % (b"n" * (length - len('[{"":""}]')))


def _with(place: Place) -> Iterator[object]:
    """Yield records, and what happens in the place of one of them, or behind the last."""
    for index in range(COUNT + 1):
        if place.where == str(index):
            yield place.reach()
        elif index < COUNT:
            yield RECORD


def _slowly(storage: str, caller: str, account: str, number: int) -> Iterator[object]:
    """Yield the records of a user, the more the higher its number, now and then after a while."""
    for record in records_of(storage, caller, account, number):
        if random.random() < 0.002:  # noqa: S311 - no secret
            time.sleep(random.random() * 0.01)  # noqa: S311 - no secret
        yield record


def records_of(storage: str, caller: str, account: str, number: int) -> Iterator[bytes]:
    """Return the records that the caller may get from the account of a user; those of high numbers are spooled."""
    record = f'{{"storage":"{storage}","caller":"{caller}","account":"{account}"}}'.encode()
    return itertools.repeat(record, number * 20)


DOCUMENTATION = "https://example.com/retire"
POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC), documentation=DOCUMENTATION)
OPERATIONS = notification_operations()
NESTED_OPERATIONS = notification_operations(f"{DOORS['nested-blueprint']}/API/Notification")

host = flask.Flask(__name__)
host.register_blueprint(create_blueprint(Storage("blueprint"), spool_threshold=SPOOL_THRESHOLD))
parent = flask.Blueprint("parent", __name__, url_prefix=DOORS["nested-blueprint"])
parent.register_blueprint(create_blueprint(Storage("nested-blueprint"), spool_threshold=SPOOL_THRESHOLD))
host.register_blueprint(parent)


@host.get("/ready")
def ready() -> str:
    """Answer without a storage."""
    return "ready"


application: "WSGIApplication" = DispatcherMiddleware(
    DeprecationMiddleware(host, POLICY, operations=[*OPERATIONS, *NESTED_OPERATIONS]),
    {
        DOORS["application"]: DeprecationMiddleware(
            NotificationApp(Storage("application"), spool_threshold=SPOOL_THRESHOLD), POLICY
        )
    },
)
