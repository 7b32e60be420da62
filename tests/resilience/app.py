"""An application whose users are named for what their records do: ``exit`` ends the
process in place of record 280.
"""

import itertools
import logging
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flask_notifications import DeprecationMiddleware
from tests.middleware import PLAN
from tests.storages import flask_app, raising
from tests.wsgi import Response

# Standard error shows the logger and the level of each message.
logging.basicConfig(
    format="%(name)s %(levelname)s %(message)s", level=logging.INFO, force=True
)
_logger = logging.getLogger("storage")

APPLICATION = "tests.resilience.app:application"
LIST = "/API/Notification/"

# Bytes; COUNT records take more.
SPOOL_THRESHOLD = 65_536
COUNT = 300
RECORD = b'{"name":"%s"}' % (b"n" * 1_000)
WHOLE = b"[" + b",".join([RECORD] * COUNT) + b"]"

# Larger than the buffers of all connections between a server and its client, and hardly
# smaller when compressed.
LARGE_RECORDS = [
    b'{"name":"%s"}' % random.Random(n).randbytes(5_000).hex().encode()  # noqa: S311
    for n in range(10)
] * 200
LARGE = b"[" + b",".join(LARGE_RECORDS) + b"]"

# Among the temporary files of a server, where it releases the requests that wait.
GATE = "gate"


def _wait() -> bytes:
    """Wait until the gate is open, and return a record."""
    _logger.info("waits")
    while not Path(os.environ["TMPDIR"], GATE).exists():
        time.sleep(0.01)
    return RECORD


ACTIONS: dict[str, Callable[[], Any]] = {
    "exit": raising(SystemExit(3)),
    "interrupt": raising(KeyboardInterrupt()),
    "wait": _wait,
}


class Records:
    """Records that log when they are opened and closed."""

    _numbers = itertools.count()

    def __init__(self, records: Iterator[object]) -> None:
        self._records = records
        self._number = f"{os.getpid()}.{next(self._numbers)}"
        _logger.info("opened %s", self._number)

    def __iter__(self) -> Iterator[object]:
        return self._records

    def close(self) -> None:
        _logger.info("closed %s", self._number)


def find_unreleased(log: str) -> list[str]:
    """Return the numbers of the records that a server's log shows as opened but not as
    closed exactly once.
    """
    opened = re.findall(r"^storage INFO opened (\S+)$", log, re.MULTILINE)
    return [number for number in opened if log.count(f" closed {number}\n") != 1]


def assert_no_record(response: Response) -> None:
    """Check that a server sent nothing, as some do, or an error of its own."""
    assert (response.status[:3], RECORD in response.body) in {
        ("", False),
        ("500", False),
    }


class Storage:
    """A storage whose sessions are the names of their users."""

    def resolve_session(self, session_id: str) -> str:
        return session_id

    def current_user_notifications(self, caller: str) -> Records:
        return Records(_records(caller))

    def account_notifications(self, caller: str, _account_id: str) -> Records:
        return self.current_user_notifications(caller)


def _records(caller: str) -> Iterator[object]:
    if caller == "large":
        yield from LARGE_RECORDS
    elif caller.startswith("user-"):
        for record in records_of(int(caller.removeprefix("user-"))):
            if random.random() < 0.002:  # noqa: S311 - no secret
                time.sleep(random.random() * 0.01)  # noqa: S311 - no secret
            yield record
    else:
        for number in range(COUNT):
            yield ACTIONS[caller]() if caller in ACTIONS and number == 280 else RECORD


def records_of(number: int) -> list[bytes]:
    """Return the records of a user; a higher number has more records, and the highest
    are spooled.
    """
    return [b'{"user":%d,"name":"%s"}' % (number, b"n" * 40)] * number * 20


application = DeprecationMiddleware(
    flask_app(Storage(), spool_threshold=SPOOL_THRESHOLD), PLAN
)
