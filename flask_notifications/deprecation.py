"""The checked, frozen policy of a retirement: its phases at a given time, and the header lines that announce it.

Knows nothing of requests, of the environ, or of the answer that its lines decorate.
"""

import email.utils
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any, final

from .fields import check_uri

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)
_SECOND = timedelta(seconds=1)

# A fault in configuration: the attribute, and a sentence that names it, what was given and what was expected.
Fault = tuple[str, str]


class Phase(StrEnum):
    """Name how far the retirement of an operation has come."""

    ANNOUNCED = "announced"
    DEPRECATED = "deprecated"
    BROWNOUT = "brownout"
    SUNSET = "sunset"


@dataclass(frozen=True, slots=True)
class Brownout:
    """Plan a time in which the operation answers 410, so that callers notice.

    The window is half-open: ``start`` belongs to it, ``end`` does not. Both are aware datetimes, kept in UTC, ``end``
    after ``start``; anything else raises ``ValueError`` naming the attribute.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        _raise_first(window_faults({"start": self.start, "end": self.end}))
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeprecationPolicy:
    """Say since when an operation is deprecated, and what is to come.

    ``deprecated_at`` and ``sunset_at`` are aware datetimes, not before 1970, kept in UTC and announced in whole seconds
    (RFC 9745 section 2.1, RFC 8594 section 3); the sunset is not before the deprecation. ``documentation`` and
    ``sunset_documentation`` are URI references of pages for people; one that begins with a single ``/`` stands below
    the application. ``brownouts`` do not overlap and come in any order. With ``enforce_sunset=True`` the operation
    answers 410 from ``sunset_at`` on; without it, it keeps working.

    Raises ``ValueError`` naming the attribute and its value. Not checked: that any date is in the future. A policy is
    its attributes, and no class to inherit from.
    """

    deprecated_at: datetime
    sunset_at: datetime | None = None
    documentation: str | None = None
    sunset_documentation: str | None = None
    brownouts: Sequence[Brownout] = ()
    enforce_sunset: bool = False

    def __post_init__(self) -> None:
        _raise_first(policy_faults({name: getattr(self, name) for name in self.__slots__}))
        object.__setattr__(self, "brownouts", tuple(sorted(self.brownouts, key=_start)))
        object.__setattr__(self, "deprecated_at", self.deprecated_at.astimezone(UTC))
        if self.sunset_at is not None:
            object.__setattr__(self, "sunset_at", self.sunset_at.astimezone(UTC))

    @property
    def closes(self) -> bool:
        """Whether there is a time at which the operation answers 410."""
        return bool(self.brownouts) or self.enforce_sunset

    def phase(self, at: datetime) -> Phase:
        """Return the phase at an aware datetime: an enforced sunset first, then a brownout, then the deprecation."""
        if self.enforce_sunset and self.sunset_at is not None and at >= self.sunset_at:
            return Phase.SUNSET
        if self.brownouts and self.brownout(at) is not None:
            return Phase.BROWNOUT
        return Phase.DEPRECATED if at >= self.deprecated_at else Phase.ANNOUNCED

    def brownout(self, at: datetime) -> Brownout | None:
        """Return the brownout that an aware datetime lies in, or ``None``."""
        return next((window for window in self.brownouts if window.start <= at < window.end), None)


class Announcement:
    """The header lines that announce the retirement of one operation: the same bytes at all times.

    ``Deprecation`` (RFC 9745) and ``Sunset`` (RFC 8594), then one ``Link`` (RFC 8288) line each for the successor
    (RFC 5829), the documentation and the policy of the sunset, as far as there are any. A target that begins with a
    single ``/`` stands below the place where the application is mounted, and ``base_url`` in front of that.
    """

    __slots__ = ("_base_url", "_links", "_steady", "_successor", "_unmounted")

    def __init__(self, policy: DeprecationPolicy, successor: str | None, *, base_url: str = "") -> None:
        self._base_url = base_url.rstrip("/")
        self._successor = successor
        self._steady = [("Deprecation", f"@{_seconds(policy.deprecated_at)}")]
        if policy.sunset_at is not None:
            # RFC 9110 section 5.6.7: an IMF-fixdate ends in GMT and is in English, whatever the locale.
            date = email.utils.format_datetime(policy.sunset_at, usegmt=True)
            self._steady.append(("Sunset", date))
        self._links = [
            (successor, 'rel="successor-version"'),
            (policy.documentation, 'rel="deprecation"; type="text/html"'),
            (policy.sunset_documentation, 'rel="sunset"; type="text/html"'),
        ]
        self._unmounted = self._lines("")

    def lines(self, mount: str) -> list[tuple[str, str]]:
        """Return the lines for an application at ``mount``, a percent-encoded path, empty at the root."""
        return self._lines(mount) if mount else self._unmounted

    def successor(self, mount: str) -> str | None:
        """Return the successor as its ``Link`` names it, or ``None``."""
        return None if self._successor is None else self._target(self._successor, mount)

    def _lines(self, mount: str) -> list[tuple[str, str]]:
        links = [(self._target(uri, mount), attributes) for uri, attributes in self._links if uri is not None]
        # Clients look for exactly this spelling: the relation first, quoted, one to a line.
        return [*self._steady, *(("Link", f"<{target}>; {attributes}") for target, attributes in links)]

    def _target(self, uri: str, mount: str) -> str:
        below = uri.startswith("/") and not uri.startswith("//")
        return f"{self._base_url}{mount}{uri}" if below else uri


def window_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield everything that is wrong with a brownout's values; one that is missing is not looked at."""
    dates = {name: values[name] for name in ("start", "end") if name in values}
    faults = [fault for name, value in dates.items() for fault in _date_faults(name, value)]
    yield from faults
    # Two times of one zone compare by its clock, which shows some hours twice.
    if not faults and len(dates) > 1 and dates["end"].astimezone(UTC) <= dates["start"].astimezone(UTC):
        yield "end", "end ({end}) must be after start ({start})".format(**dates)


def policy_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield everything that is wrong with a policy's values; one that is missing is not looked at."""
    yield from _schedule_faults({name: values[name] for name in ("deprecated_at", "sunset_at") if name in values})
    for name in ("documentation", "sunset_documentation"):
        if values.get(name) is not None:
            yield from _uri_faults(name, values[name])
    yield from _brownout_faults(values.get("brownouts", ()))
    yield from _enforcement_faults(values)


def _raise_first(faults: Iterator[Fault]) -> None:
    for _name, sentence in faults:
        raise ValueError(sentence)


def _schedule_faults(dates: dict[str, Any]) -> Iterator[Fault]:
    if "sunset_at" in dates and dates["sunset_at"] is None:
        del dates["sunset_at"]
    faults = [fault for name, value in dates.items() for fault in _date_faults(name, value)]
    yield from faults
    if not faults and len(dates) > 1 and _seconds(dates["sunset_at"]) < _seconds(dates["deprecated_at"]):
        yield "sunset_at", "sunset_at ({sunset_at}) must not be before deprecated_at ({deprecated_at})".format(**dates)


def _date_faults(name: str, value: Any) -> Iterator[Fault]:
    if not isinstance(value, datetime):
        yield name, f"{name} must be a datetime, not {value!r}"
    elif value.utcoffset() is None:
        yield name, f"{name} must be an aware datetime, with a UTC offset, not {value!r}"
    elif value < _EPOCH:
        yield name, f"{name} must not be before 1970, not {value}"
    elif value > _END:
        yield name, f"{name} must not be after the year 9999 in UTC, not {value}"


def _uri_faults(name: str, value: Any) -> Iterator[Fault]:
    try:
        check_uri(name, value)
    except ValueError as fault:
        yield name, str(fault)


def _brownout_faults(brownouts: Any) -> Iterator[Fault]:
    if not isinstance(brownouts, list | tuple) or not all(isinstance(window, Brownout) for window in brownouts):
        yield "brownouts", f"brownouts must be a list or tuple of Brownout, not {brownouts!r}"
    else:
        for first, second in pairwise(sorted(brownouts, key=_start)):
            if second.start < first.end:
                yield "brownouts", f"brownouts must not overlap: {first} and {second}"


def _enforcement_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    enforced = values.get("enforce_sunset", False)
    if not isinstance(enforced, bool):
        yield "enforce_sunset", f"enforce_sunset must be True or False, not {enforced!r}"
    elif enforced and values.get("sunset_at", _END) is None:
        yield "enforce_sunset", "enforce_sunset=True needs a sunset_at, not None"


def _start(window: Brownout) -> datetime:
    return window.start


def _seconds(date: datetime) -> int:
    # Whole numbers throughout: a float of seconds rounds up the last microseconds of far years.
    return (date - _EPOCH) // _SECOND
