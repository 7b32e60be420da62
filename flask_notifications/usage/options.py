"""The arguments of ``read_usage``, checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from io import IOBase
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple

from flask_notifications.dates import to_utc
from flask_notifications.plans.operations import Operation
from flask_notifications.plans.plan import deprecated_operations
from flask_notifications.validation import clean_label, is_number, require

from .counts import OTHER, is_probe
from .fingerprints import fingerprints
from .logs import Log
from .times import start_of_window, to_microseconds

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan

_MAX_DAYS = 3650


class Window(NamedTuple):
    """The time of a report, in microseconds since 1970.

    Calls belong to it from ``since`` to ``last``, both included. ``until`` is its end
    for the coverage.
    """

    since: int
    until: int
    last: int


@dataclass(kw_only=True)
class Options:
    """What to report: the arguments of ``read_usage``, and what follows from them.

    ``caller`` limits the report to the caller with this label. ``names`` are those of
    the operations; ``None`` takes those of the recorders. ``rules`` are the
    fingerprints of the plan's operations; ``None`` takes those that were heard last.
    ``sunsets`` are the sunset dates in the plan, by the name of the operation.

    :raises ValueError: an argument does not fit; the message names it.
    """

    plan: "Plan | None" = None
    days: int = 30
    until: datetime | date | None = None
    operations: Iterable[str | Operation] | None = None
    ignore_clients: Iterable[str] = ()
    ignore_callers: Iterable[str] = ()
    ignore_refused: bool = False
    min_coverage: float = 0.99
    allow_gap: float = 6
    gone_after: float | None = None
    service: str | None = None
    hosts: int | None = None
    require_probe: bool = False
    caller: str | None = None
    logs: Iterable[Log] = ()
    log_format: str | None = None
    log_prefix: str | None = None

    rules: Mapping[str, str] | None = field(init=False, default=None)
    names: Sequence[str] | None = field(init=False, default=None)
    sunsets: dict[str, datetime | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        is_hours = is_number(self.gone_after, 0, _MAX_DAYS * 24)
        is_list = isinstance(self.logs, Iterable)
        is_file = isinstance(self.logs, str | bytes | IOBase)
        checks = {
            "days": (
                is_number(self.days, 1, _MAX_DAYS, is_whole=True),
                f"a whole number from 1 to {_MAX_DAYS}",
            ),
            "min_coverage": (
                is_number(self.min_coverage, 0, 1),
                "a number from 0 to 1",
            ),
            "allow_gap": (
                is_number(self.allow_gap, 0, _MAX_DAYS * 24),
                "a number of hours, 0 or more",
            ),
            "gone_after": (
                self.gone_after is None or is_hours,
                "a number of hours, 0 or more",
            ),
            "hosts": (
                self.hosts is None or is_number(self.hosts, 1, is_whole=True),
                "a whole number, 1 or more",
            ),
            "caller": (self.caller is None or clean_label(self.caller), "a label"),
            "logs": (is_list and not is_file, "a list of paths or binary streams"),
            "plan": (
                self.plan is not None or not self.logs,
                "the plan to read logs with",
            ),
        }
        for argument, (fits, expected) in checks.items():
            require(fits, argument, expected, getattr(self, argument))
        self.ignored_clients: frozenset[str] = frozenset(
            _list_names("ignore_clients", self.ignore_clients)
        )
        self.ignored_callers: frozenset[str] = frozenset(
            _list_names("ignore_callers", self.ignore_callers)
        )
        if self.plan is not None:
            self.rules = fingerprints(self.plan)
            self.names = list(self.rules)
            for operation, policy in deprecated_operations(self.plan).items():
                self.sunsets[operation.name] = policy.sunset_at
        if self.operations is not None:
            self.names = _list_names("operations", self.operations)
            require(self.names, "operations", "a list of at least one", self.operations)
        self._end = _find_end(self.until)

    def find_window(self, now: int) -> Window:
        """Return the window, which ends now by default."""
        until, last = self._end or (now, maxsize)
        return Window(start_of_window(until, self.days), until, last)

    def rules_of(self, operation: str) -> str | None:
        """Return the rules of an operation, or ``None`` without a plan.

        They are empty if the plan does not have the operation: no recorder has these.
        """
        return None if self.rules is None else self.rules.get(operation, "")

    def ignores(self, caller: str | None, client: str | None) -> bool:
        """Return whether calls are ignored; those of ``(other)`` never are."""
        if client == OTHER:
            return False
        is_named = caller in self.ignored_callers or client in self.ignored_clients
        return is_named or is_probe(client)


def _list_names(argument: str, names: Iterable[str | Operation]) -> list[str]:
    """Return the names of operations, and names as they are, without duplicates."""
    is_list = isinstance(names, Iterable) and not isinstance(names, str | bytes)
    expected = "a list of strings that are not empty"
    require(is_list, argument, expected, names)
    listed: dict[str, None] = {}
    for item in names:
        name = item.name if isinstance(item, Operation) else item
        require(isinstance(name, str) and name, argument, expected, names)
        listed[name] = None
    return list(listed)


def _find_end(until: datetime | date | None) -> tuple[int, int] | None:
    """Return the end of a window and its last moment; a date is included whole."""
    if until is None:
        return None
    is_date = isinstance(until, date) and 1980 <= until.year <= 9998
    is_clear = not isinstance(until, datetime) or until.utcoffset() is not None
    expected = "an aware datetime or a date, in the years 1980 to 9998"
    require(is_date and is_clear, "until", expected, until)
    if isinstance(until, datetime):
        end = to_microseconds(to_utc(until))
        return end, end
    last = to_microseconds(datetime.combine(until, time.max, UTC))
    return last + 1, last
