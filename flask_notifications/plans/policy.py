"""The checked, frozen policy of a retirement, and its phases at a given time.

Knows nothing of requests, of the environ or of responses.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple, final

from flask_notifications.dates import to_utc
from flask_notifications.validation import check_uri, clean_label, make_plain, require

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)
_HOUR = timedelta(hours=1)
# Of all brownouts of a policy together.
_MAX_WINDOWS = 10_000
_start_of = attrgetter("start")


class Phase(StrEnum):
    """The phase of the retirement of an operation."""

    ANNOUNCED = "announced"
    DEPRECATED = "deprecated"
    BROWNOUT = "brownout"
    SUNSET = "sunset"


# Looking up ``Phase.SUNSET`` would take as long as comparing two dates.
_ANNOUNCED, _DEPRECATED, _BROWNOUT, _SUNSET = Phase

# The phases in which the middleware itself responds, with 410.
CLOSED_PHASES = (_BROWNOUT, _SUNSET)


class Window(NamedTuple):
    """A period of a brownout, in UTC; ``end`` does not belong to it."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Brownout:
    """Plan one or more windows in which the operation responds with 410.

    They let callers notice the retirement before the sunset.

    :param start: an aware datetime, kept in UTC; it belongs to the window.
    :param end: an aware datetime after ``start``, kept in UTC; it does not belong to
        the window.
    :param every: the time from the start of one window to that of the next, in whole
        hours and no shorter than a window; by default there is only one window. In
        local time, windows move by an hour when daylight saving begins or ends.
    :param until: an aware datetime, not before ``start``, kept in UTC; windows that
        repeat start before it. By default it is the ``sunset_at`` of the policy.
    :raises ValueError: an argument is something else; the message names it.
    """

    start: datetime
    end: datetime
    _: KW_ONLY
    every: timedelta | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, check_date(name, getattr(self, name)))
        require(self.start < self.end, "end", f"after start ({self.start})", self.end)
        if self.every is not None:
            is_time = isinstance(self.every, timedelta)
            is_whole = is_time and self.every >= _HOUR and not self.every % _HOUR
            require(is_whole, "every", "a timedelta of whole hours", self.every)
            length = self.end - self.start
            expected = f"no shorter than the window ({length})"
            require(self.every >= length, "every", expected, str(self.every))
        if self.until is not None:
            object.__setattr__(self, "until", check_date("until", self.until))
            expected = "left out without every (every_hours in a file)"
            require(self.every is not None, "until", expected, self.until)
            expected = f"not before start ({self.start})"
            require(self.until >= self.start, "until", expected, self.until)

    def list_windows(self, sunset_at: datetime | None) -> list[Window]:
        """Return the windows, the earliest first, under a policy with this sunset.

        :raises ValueError: the number of windows has no limit or is more than 10,000,
            or the last one ends after the year 9999.
        """
        if self.every is None:
            return [Window(self.start, self.end)]
        until = sunset_at if self.until is None else self.until
        has_end = until is not None and until >= self.start
        expected = "windows that repeat until a time not before their start"
        require(has_end, "brownouts", f"{expected} (until or sunset_at)", until)
        # Rounded up, because each window starts before that time.
        number = -((self.start - (until or _END)) // self.every)
        expected = f"at most {_MAX_WINDOWS:,} windows"
        require(number <= _MAX_WINDOWS, "brownouts", expected, number)
        last = self.start + max(0, number - 1) * self.every
        length = self.end - self.start
        require(_END - last >= length, "brownouts", "over before the year 10000", last)
        starts = (self.start + place * self.every for place in range(number))
        return [Window(start, start + length) for start in starts]


@dataclass(frozen=True, slots=True)
class Exemption:
    """Let one caller through brownouts and an enforced sunset, until a date.

    Not checked: that the date is in the future, or that any caller has this label.

    :param caller: the label that the middleware's ``identify`` gives the caller: 1 to
        64 printable characters.
    :param until: an aware datetime, not before 1970, kept in UTC; the exemption has
        ended then.
    :param reason: why, for the people who read the plan.
    :raises ValueError: an argument is something else; the message names it.
    """

    caller: str
    until: datetime
    reason: str

    def __post_init__(self) -> None:
        for name in ("caller", "reason"):
            object.__setattr__(self, name, make_plain(getattr(self, name)))
        is_label = clean_label(self.caller) is not None
        expected = "a label of 1 to 64 printable characters"
        require(is_label, "caller", expected, self.caller)
        object.__setattr__(self, "until", check_date("until", self.until))
        is_reason = isinstance(self.reason, str) and self.reason.strip()
        require(is_reason, "reason", "a string that says why", self.reason)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeprecationPolicy:
    """Define when operations are deprecated and when they end.

    Not checked: that any date is in the future. Do not inherit from this class.

    :param deprecated_at: an aware datetime, not before 1970, kept in UTC and announced
        in whole seconds (RFC 9745 section 2.1).
    :param sunset_at: an aware datetime, not before ``deprecated_at``, kept in UTC and
        announced in whole seconds (RFC 8594 section 3), or ``None``, the default.
    :param documentation: the URI reference of a page for people, by default none. One
        that begins with a single ``/`` is below the path at which your application is
        mounted.
    :param sunset_documentation: the same, for a page about your policy on sunsets.
    :param brownouts: in any order; by default none. Their windows do not overlap, and
        are at most 10,000.
    :param enforce_sunset: whether the operation responds with 410 from ``sunset_at``
        on; by default it keeps working.
    :param exemptions: callers that brownouts and an enforced sunset let through until a
        date, each once; by default none. They need a middleware with ``identify``.
    :raises ValueError: an argument does not fit; the message names it and its value.
    """

    deprecated_at: datetime
    sunset_at: datetime | None = None
    documentation: str | None = None
    sunset_documentation: str | None = None
    brownouts: Sequence[Brownout] = ()
    enforce_sunset: bool = False
    exemptions: Sequence[Exemption] = ()
    # All windows of the brownouts, the earliest first.
    windows: Sequence[Window] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        deprecated_at = check_date("deprecated_at", self.deprecated_at)
        object.__setattr__(self, "deprecated_at", deprecated_at)
        if self.sunset_at is not None:
            sunset_at = check_date("sunset_at", self.sunset_at)
            object.__setattr__(self, "sunset_at", sunset_at)
            # Compared in whole seconds, as they are announced.
            is_after = _in_seconds(sunset_at) >= _in_seconds(deprecated_at)
            expected = f"at or after deprecated_at ({deprecated_at})"
            require(is_after, "sunset_at", expected, sunset_at)
        for name in ("documentation", "sunset_documentation"):
            uri = make_plain(getattr(self, name))
            object.__setattr__(self, name, uri)
            if uri is not None:
                check_uri(name, uri)
        is_enforced = self.enforce_sunset
        is_boolean = isinstance(is_enforced, bool)
        require(is_boolean, "enforce_sunset", "True or False", is_enforced)
        has_sunset = self.sunset_at is not None or not is_enforced
        require(has_sunset, "enforce_sunset", "False without a sunset_at", is_enforced)
        brownouts = _check_list("brownouts", Brownout, self.brownouts)
        brownouts = tuple(sorted(brownouts, key=_start_of))
        object.__setattr__(self, "brownouts", brownouts)
        object.__setattr__(self, "windows", _list_windows(brownouts, self.sunset_at))
        exemptions = _check_list("exemptions", Exemption, self.exemptions)
        times = Counter(exemption.caller for exemption in exemptions)
        repeated = [caller for caller, number in times.items() if number > 1]
        require(not repeated, "exemptions", "a list with each caller once", repeated)
        object.__setattr__(self, "exemptions", exemptions)

    def phase(self, at: datetime, caller: str | None = None) -> Phase:
        """Return the phase at a time.

        An enforced sunset precedes a brownout, and a brownout the deprecation.

        :param at: any aware datetime.
        :param caller: the label of a caller, for whom the operation is not closed if an
            exemption lasts at that time; by default no exemption applies.
        """
        sunset_at = self.sunset_at
        if self.enforce_sunset and sunset_at is not None and at >= sunset_at:
            phase = _SUNSET
        elif self.windows and self.brownout(at) is not None:
            phase = _BROWNOUT
        elif at >= self.deprecated_at:
            return _DEPRECATED
        else:
            return _ANNOUNCED
        is_exempt = self.exemption(caller, at) is not None
        return _DEPRECATED if is_exempt else phase

    def sunset_of(self, exemption: Exemption | None) -> datetime | None:
        """Return the sunset for a caller, or the end of the exemption if that is later.

        It is ``None`` if the policy has no sunset.
        """
        if exemption is None or self.sunset_at is None:
            return self.sunset_at
        return max(self.sunset_at, exemption.until)

    def exemption(self, caller: str | None, at: datetime) -> Exemption | None:
        """Return the exemption of a caller at an aware datetime, or ``None``.

        :param caller: the label of the caller.
        """
        for exemption in self.exemptions:
            if exemption.caller == caller and at < exemption.until:
                return exemption
        return None

    def brownout(self, at: datetime) -> Window | None:
        """Return the window of a brownout at an aware datetime, or ``None``."""
        place = self.count_begun(at) - 1
        if place >= 0 and at < self.windows[place].end:
            return self.windows[place]
        return None

    def count_begun(self, at: datetime) -> int:
        """Return how many windows have begun at an aware datetime."""
        return bisect_right(self.windows, at, key=_start_of)


def check_date(name: str, value: Any) -> datetime:
    """Return an aware datetime from 1970 on in UTC, or raise ``ValueError``."""
    require(isinstance(value, datetime), name, "a datetime", value)
    time: datetime = value
    is_aware = time.utcoffset() is not None
    require(is_aware, name, "an aware datetime, with a UTC offset", time)
    is_near = _EPOCH <= time <= _END
    require(is_near, name, "a time of the years 1970 to 9999 in UTC", time)
    return to_utc(time)


def _check_list(name: str, kind: type, values: Any) -> tuple[Any, ...]:
    is_list = isinstance(values, list | tuple) and all(
        isinstance(value, kind) for value in values
    )
    require(is_list, name, f"a list or tuple of {kind.__name__}", values)
    return tuple(values)


# Operations of a plan often share their brownouts.
@lru_cache(maxsize=8)
def _list_windows(
    brownouts: tuple[Brownout, ...], sunset_at: datetime | None
) -> tuple[Window, ...]:
    """Return all windows, the earliest first, or raise ``ValueError``."""
    windows: list[Window] = []
    for brownout in brownouts:
        windows += brownout.list_windows(sunset_at)
        expected = f"at most {_MAX_WINDOWS:,} windows"
        require(len(windows) <= _MAX_WINDOWS, "brownouts", expected, len(windows))
    windows.sort()
    overlaps = []
    for window, following in pairwise(windows):
        if following.start < window.end:
            overlaps.append(
                f"{window.start} to {window.end} and"
                f" {following.start} to {following.end}"
            )
    require(not overlaps, "brownouts", "windows that do not overlap", overlaps)
    return tuple(windows)


def _in_seconds(date: datetime) -> datetime:
    return date.replace(microsecond=0)
