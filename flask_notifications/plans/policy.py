"""The checked, frozen policy of a retirement, and its phases at a given time.

Knows nothing of requests, of the environ or of responses.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import Any, final

from flask_notifications.dates import to_utc
from flask_notifications.validation import check_uri, clean_label, make_plain, require

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)
_SECOND = timedelta(seconds=1)


class Phase(StrEnum):
    """The phase of the retirement of an operation: ``announced``, ``deprecated``,
    ``brownout`` or ``sunset``.
    """

    ANNOUNCED = "announced"
    DEPRECATED = "deprecated"
    BROWNOUT = "brownout"
    SUNSET = "sunset"


# Those in which the middleware itself responds, with 410.
CLOSED_PHASES = (Phase.BROWNOUT, Phase.SUNSET)


@dataclass(frozen=True, slots=True)
class Brownout:
    """Plan a window in which the operation responds with 410, so that callers notice.

    :param start: an aware datetime, kept in UTC; it belongs to the window.
    :param end: an aware datetime after ``start``, kept in UTC; it does not belong to
        the window.
    :raises ValueError: an argument is something else; the message names it.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, _in_utc(name, getattr(self, name)))
        require(self.start < self.end, "end", f"after start ({self.start})", self.end)


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
        require(
            clean_label(self.caller) is not None,
            "caller",
            "a label of 1 to 64 printable characters",
            self.caller,
        )
        object.__setattr__(self, "until", _in_utc("until", self.until))
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
    :param brownouts: windows in any order that do not overlap; by default none.
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

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "deprecated_at", _in_utc("deprecated_at", self.deprecated_at)
        )
        if self.sunset_at is not None:
            object.__setattr__(self, "sunset_at", _in_utc("sunset_at", self.sunset_at))
            is_after = _seconds(self.sunset_at) >= _seconds(self.deprecated_at)
            require(
                is_after,
                "sunset_at",
                f"at or after deprecated_at ({self.deprecated_at})",
                self.sunset_at,
            )
        for name in ("documentation", "sunset_documentation"):
            object.__setattr__(self, name, make_plain(getattr(self, name)))
            if getattr(self, name) is not None:
                check_uri(name, getattr(self, name))
        require(
            isinstance(self.enforce_sunset, bool),
            "enforce_sunset",
            "True or False",
            self.enforce_sunset,
        )
        has_sunset = self.sunset_at is not None
        require(
            has_sunset or not self.enforce_sunset,
            "enforce_sunset",
            "False without a sunset_at",
            True,
        )
        windows = sorted(
            _check_list("brownouts", Brownout, self.brownouts), key=attrgetter("start")
        )
        overlaps = _find_overlaps(windows)
        require(not overlaps, "brownouts", "windows that do not overlap", overlaps)
        object.__setattr__(self, "brownouts", tuple(windows))
        exemptions = _check_list("exemptions", Exemption, self.exemptions)
        repeated = [
            caller
            for caller, times in Counter(each.caller for each in exemptions).items()
            if times > 1
        ]
        require(not repeated, "exemptions", "a list with each caller once", repeated)
        object.__setattr__(self, "exemptions", exemptions)

    @property
    def closes(self) -> bool:
        """Whether there is a time at which the operation responds with 410."""
        return bool(self.brownouts) or self.enforce_sunset

    def phase(self, at: datetime, caller: str | None = None) -> Phase:
        """Return the phase at an aware datetime: an enforced sunset first, then a
        brownout, then the deprecation.

        :param at: any aware datetime.
        :param caller: the label of a caller; for one that is exempt then, nothing is
            closed. By default, nobody is.
        """
        is_over = (
            self.enforce_sunset and self.sunset_at is not None and at >= self.sunset_at
        )
        if is_over or (self.brownouts and self.brownout(at) is not None):
            is_exempt = self.exemption(caller, at) is not None
            return (
                Phase.DEPRECATED
                if is_exempt
                else Phase.SUNSET
                if is_over
                else Phase.BROWNOUT
            )
        return Phase.DEPRECATED if at >= self.deprecated_at else Phase.ANNOUNCED

    def sunset_of(self, exemption: Exemption | None) -> datetime | None:
        """Return the sunset for a caller with an exemption: the later date, if there is
        any sunset.
        """
        if exemption is None or self.sunset_at is None:
            return self.sunset_at
        return max(self.sunset_at, exemption.until)

    def exemption(self, caller: str | None, at: datetime) -> Exemption | None:
        """Return the exemption of the caller with a label that lasts at an aware
        datetime, or ``None``.
        """
        return next(
            (
                each
                for each in self.exemptions
                if each.caller == caller and at < each.until
            ),
            None,
        )

    def brownout(self, at: datetime) -> Brownout | None:
        """Return the brownout that an aware datetime lies in, or ``None``."""
        return next(
            (window for window in self.brownouts if window.start <= at < window.end),
            None,
        )


def _in_utc(name: str, value: Any) -> datetime:
    """Return an aware datetime in UTC, or raise ``ValueError``."""
    require(isinstance(value, datetime), name, "a datetime", value)
    time: datetime = value
    require(
        time.utcoffset() is not None, name, "an aware datetime, with a UTC offset", time
    )
    require(
        _EPOCH <= time <= _END, name, "a time of the years 1970 to 9999 in UTC", time
    )
    return to_utc(time)


def _check_list(name: str, kind: type, given: Any) -> tuple[Any, ...]:
    is_list = isinstance(given, list | tuple) and all(
        isinstance(each, kind) for each in given
    )
    require(is_list, name, f"a list or tuple of {kind.__name__}", given)
    return tuple(given)


def _find_overlaps(windows: Sequence[Brownout]) -> list[str]:
    """Return each window, in the order of their starts, that begins before an earlier
    one has ended, with that one.
    """
    # Of those before a window, the one that ends last: a long one overlaps with all
    # that it contains.
    earlier = accumulate(windows, partial(max, key=attrgetter("end")))
    return [
        f"{longest.start} to {longest.end} and {window.start} to {window.end}"
        for longest, window in zip(earlier, windows[1:], strict=False)
        if window.start < longest.end
    ]


def _seconds(date: datetime) -> int:
    # Whole numbers throughout: a float of seconds rounds up the last microseconds of
    # far years.
    return (date - _EPOCH) // _SECOND
