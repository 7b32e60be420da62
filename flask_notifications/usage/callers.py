"""The calls of callers, collected by name and added up for a report."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from flask_notifications.wording import iso

from .counts import Name
from .logs import SOURCE
from .options import Options
from .times import DAY, to_date, to_datetime

# Days without a call after which a caller may count as stopped.
_SILENT = 2

_JSON_KEYS = (
    *("caller", "client", "source", "answered", "refused", "failed", "closed"),
    *("first_at", "last_at", "stopped_on", "ignored"),
)

Key: TypeAlias = tuple[str, str | None, str | None, str | None, bool]
"""A name, and whether its calls are ignored."""


class DayUsage(NamedTuple):
    """Count the calls of one UTC day."""

    day: date  #: The day.
    answered: int  #: Responses below 400.
    refused: int  #: Responses with 401 or 403.
    failed: int  #: Other responses of 400 and above, and applications that raised.
    closed: int  #: The middleware's own 410s.

    @property
    def calls(self) -> int:
        """Return the number of calls, whatever their status."""
        return sum(self[1:])


def unpack_days(packed: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the seven integers of each day, as in ``CallerUsage.packed_days``."""
    for place in range(0, len(packed), 7):
        yield packed[place : place + 7]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerUsage:
    """Count the calls of one caller with one client and one source of the session ID.

    ``caller`` is the label that the application chose, ``client`` the first product of
    ``User-Agent``, ``source`` ``"header"``, ``"query"`` or ``"log"``; each is ``None``
    where there was none. Caller and client are both ``"(other)"`` for calls beyond the
    number of pairs that are kept by name. The counts are those of ``DayUsage``.
    ``ignored`` calls do not count as use; other calls of the same caller have a row of
    their own. ``stopped_on`` is the day of the last call if the caller has now been
    silent for longer than ever before in the window; without a label, the client is
    taken for the caller.
    ``packed_days`` has seven integers for each day: its number since 1970, the first
    and the last call in microseconds since 1970, and the four counts.
    """

    caller: str | None
    client: str | None
    source: str | None
    answered: int
    refused: int
    failed: int
    closed: int
    first_at: datetime
    last_at: datetime
    stopped_on: date | None = None
    ignored: bool
    packed_days: Sequence[int] = field(repr=False)

    @property
    def days(self) -> tuple[DayUsage, ...]:
        """Return the calls by UTC day, without the days that have none."""
        days = []
        for day, _first_at, _last_at, *counts in unpack_days(self.packed_days):
            if any(counts):
                days.append(DayUsage(to_date(day), *counts))
        return tuple(sorted(days))

    @property
    def calls(self) -> int:
        """Return the number of calls, whatever their status."""
        return self.answered + self.refused + self.failed + self.closed

    @property
    def is_logged(self) -> bool:
        """Return whether the calls are from logs; the record may have them, too."""
        return self.source == SOURCE

    def to_dict(self) -> dict[str, Any]:
        """Return the calls as ``json.dumps`` takes them."""
        return to_plain(self, _JSON_KEYS)


def to_plain(result: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the named attributes of a result as ``json.dumps`` takes them."""
    plain = {}
    for name in names:
        value = getattr(result, name)
        if isinstance(value, datetime):
            value = iso(value)
        elif isinstance(value, date):
            value = value.isoformat()
        plain[name] = value
    return plain


class CallTable:
    """Collect calls by name; ignored ones are kept apart.

    ``days`` are packed like ``CallerUsage.packed_days``, because a report may have
    millions of them.
    """

    def __init__(self, options: Options) -> None:
        self.days: defaultdict[Key, array[int]] = defaultdict(partial(array, "q"))
        self._options = options

    def add(self, name: Name, day: int, numbers: Sequence[int]) -> None:
        """Add the numbers of a name on a day.

        With ``ignore_refused``, refused calls without a label become ignored ones.
        """
        _operation, caller, client, _source = name
        is_ignored = self._options.ignores(caller, client)
        first_at, last_at, answered, refused, failed, closed = numbers
        if self._options.ignore_refused and caller is None and not is_ignored:
            if refused:
                refused_only = (day, first_at, last_at, 0, refused, 0, 0)
                self.days[*name, True].extend(refused_only)
            numbers = (first_at, last_at, answered, 0, failed, closed)
            if refused and not any(numbers[2:]):
                return
        self.days[*name, is_ignored].extend((day, *numbers))


def list_rows(table: CallTable, until: int) -> defaultdict[str, list[CallerUsage]]:
    """Return the rows of each operation; those with the most calls come first.

    :param until: the end of the window.
    """
    groups: defaultdict[Key, list[array[int]]] = defaultdict(list)
    for key, packed in table.days.items():
        groups[_group(key)].append(packed)
    stops = {}
    for group, members in groups.items():
        days: set[int] = set()
        for packed in members:
            days.update(packed[::7])  # every seventh integer is a day
        stops[group] = find_stop(days, until // DAY)
    rows: defaultdict[str, list[CallerUsage]] = defaultdict(list)
    for key, packed in table.days.items():
        operation, caller, client, source, is_ignored = key
        row = CallerUsage(
            caller=caller,
            client=client,
            source=source,
            answered=sum(packed[3::7]),
            refused=sum(packed[4::7]),
            failed=sum(packed[5::7]),
            closed=sum(packed[6::7]),
            first_at=to_datetime(min(packed[1::7])),
            last_at=to_datetime(max(packed[2::7])),
            stopped_on=stops[_group(key)],
            ignored=is_ignored,
            packed_days=packed,
        )
        rows[operation].append(row)
    for listed in rows.values():
        listed.sort(key=lambda row: -row.calls)
    return rows


def _group(key: Key) -> Key:
    """Return the key of the calls that decide together whether a caller has stopped.

    All clients of a labelled caller do; without a label, each client is on its own.
    """
    operation, caller, client, _source, is_ignored = key
    return operation, caller, None if caller else client, None, is_ignored


def find_stop(days: Iterable[int], until: int) -> date | None:
    """Return the last day with a call if the caller seems to have stopped since.

    It has if it has been silent for at least two days, and for longer than ever before.
    A caller that called on one day only has no habit to compare with.

    :param days: the days with calls, by their number since 1970.
    :param until: the day on which the window ends, by its number since 1970.
    """
    called = sorted(days)
    silence = until - called[-1]
    breaks = [after - before for before, after in pairwise(called)]
    if silence < _SILENT or silence <= max(breaks, default=silence):
        return None
    return to_date(called[-1])
