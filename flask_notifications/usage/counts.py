"""The calls that one process has counted, in memory. Standard library only."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from flask_notifications.plans.policy import CLOSED_PHASES, Phase

from .times import DAY

# The client of a probe: a call by the command ``check``, which only shows that calls
# are recorded.
PROBE = "flask-notifications-check"
# The caller and the client of all calls beyond the limits. No client has this name,
# because a product in ``User-Agent`` has no parentheses.
OTHER = "(other)"
# Pairs of a caller and a client that are kept by name for each operation and day.
PAIRS = 200
# The most names that a process keeps, besides those with ``OTHER``; one day gets at
# most a third of them.
_NAMES = 60_000
# The most characters of a label and of a client; the store can keep any characters.
_LENGTH = 64

# The places of the numbers in a total.
FIRST_AT, LAST_AT, ANSWERED, REFUSED, FAILED, CLOSED = range(6)

Name: TypeAlias = tuple[str, str | None, str | None, str | None]
"""The name of an operation, a caller, a client and a source."""
Numbers: TypeAlias = tuple[int, ...]
"""The first and the last time in microseconds since 1970, and the four counts."""


class Total:
    """The numbers of a name on a day; ``written`` are those that the store has.

    ``written`` is ``None`` if the store may have none, or any earlier ones.
    """

    __slots__ = ("numbers", "written")

    def __init__(self, at: int) -> None:
        self.numbers: list[int] = [at, at, 0, 0, 0, 0]
        self.written: Numbers | None = None


class Change(NamedTuple):
    """A copy of the numbers of a total, to be written to the store."""

    day: int
    name: Name
    total: Total
    numbers: Numbers


@dataclass(slots=True)
class _Day:
    totals: dict[Name, Total] = field(default_factory=dict)
    # The pairs that are kept by name, by operation and by whether they have a caller.
    pairs: dict[tuple[str, bool], set[tuple[str | None, str | None]]] = field(
        default_factory=dict
    )


class Counts:
    """Count calls by UTC day and name. One thread may count while another one reads.

    :param limit: the most names that are kept, besides those with ``OTHER``.
    """

    def __init__(self, limit: int = _NAMES) -> None:
        self._limit = limit
        self._days: dict[int, _Day] = {}
        # False once a call may have been lost, or counted apart from others of its day.
        self.is_whole: bool = True
        self._dropped_before = 0

    def count(self, name: Name, at: int, kind: int) -> bool:
        """Count a call, and return whether it is the first of its kind.

        That is the first on its day with its name and its kind.

        :param at: the time of the call in microseconds since 1970.
        :param kind: ``ANSWERED``, ``REFUSED``, ``FAILED`` or ``CLOSED``.
        """
        number = at // DAY
        day = self._days.get(number)
        if day is None:
            day = self._begin_day(number)
        total = day.totals.get(name)
        if total is None:
            total = self._admit(day, name, at)
        numbers = total.numbers
        if at > numbers[LAST_AT]:
            numbers[LAST_AT] = at
        elif at < numbers[FIRST_AT]:
            numbers[FIRST_AT] = at
        # Last, because another thread may read the numbers meanwhile.
        numbers[kind] += 1
        return numbers[kind] == 1

    def _begin_day(self, number: int) -> _Day:
        if number < self._dropped_before:
            # The store may have calls of this day that are no longer here.
            self.is_whole = False
        return self._days.setdefault(number, _Day())

    def _admit(self, day: _Day, name: Name, at: int) -> Total:
        """Add a total for a name that the day does not have yet, and return it.

        Beyond the limits it is that of ``OTHER``. Pairs without a caller get only the
        places that pairs with a caller leave free, so nobody can push out labelled
        callers by inventing clients.
        """
        operation, caller, client, source = name
        pairs = day.pairs.setdefault((operation, caller is not None), set())
        if (caller, client) not in pairs:
            number = len(pairs)
            if caller is None:
                number += len(day.pairs.get((operation, True), ()))
            may_name = len(day.totals) < self._limit // max(3, len(self._days))
            if number < PAIRS and may_name and _fits(caller) and _fits(client):
                pairs.add((caller, client))
            else:
                name = (operation, *name_others(client), source)
        return day.totals.setdefault(name, Total(at))

    def changes(self) -> list[Change]:
        """Return the present numbers of all totals that the store may not have."""
        changes = []
        # ``copy`` is atomic; another thread counts calls meanwhile.
        for number, day in self._days.copy().items():
            for name, total in day.totals.copy().items():
                numbers = tuple(total.numbers)
                if numbers != total.written:
                    changes.append(Change(number, name, total, numbers))
        return changes

    def count_unwritten(self) -> int:
        """Return the number of calls that the store may not have."""
        calls = 0
        for change in self.changes():
            calls += sum(change.numbers[ANSWERED:])
            if change.total.written is not None:
                calls -= sum(change.total.written[ANSWERED:])
        return calls

    def confirm(self, changes: Iterable[Change]) -> None:
        """Note that the store has these changes."""
        for change in changes:
            change.total.written = change.numbers

    def forget_written(self) -> None:
        """Forget what the store has, so that all totals are written to a new row."""
        for day in self._days.copy().values():
            for total in day.totals.copy().values():
                total.written = None

    def drop_before(self, number: int) -> None:
        """Drop the days before one, but none that the store may not have.

        The caller ensures that no call is counted meanwhile.
        """
        old = [day for day in self._days if day < number]
        if old:
            unwritten = {change.day for change in self.changes()}
            for day in set(old) - unwritten:
                del self._days[day]
                self._dropped_before = number


def kind_of(status: int | None, phase: Phase | None) -> int:
    """Return the kind of a call by its status, and by the phase of its operation."""
    if phase in CLOSED_PHASES:
        return CLOSED
    if status is None:
        return FAILED
    if status < 400:
        return ANSWERED
    if status in {401, 403}:
        return REFUSED
    return FAILED


def _fits(label: str | None) -> bool:
    """Return whether the store can keep a label."""
    return label is None or 0 < len(label) <= _LENGTH


def is_probe(client: str | None) -> bool:
    """Return whether a client is that of probes, in any version."""
    return client is not None and client.partition("/")[0] == PROBE


def name_others(client: str | None) -> tuple[str, str]:
    """Return the caller and the client for a call that is not kept by name.

    Probes stay apart from other calls.
    """
    if is_probe(client):
        return OTHER, PROBE
    return OTHER, OTHER
