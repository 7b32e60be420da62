"""The checked, frozen policy of a retirement: its phases at a given time, and the header lines that announce it.

Knows nothing of requests, of the environ or of responses.
"""

import email.utils
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import Any, final
from urllib.parse import urlsplit

from .headers import HeaderList
from .validation import check_uri, clean_label

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)
_SECOND = timedelta(seconds=1)

# An error in configuration: the attribute, and a sentence with its name, the given and the expected value.
ConfigurationError = tuple[str, str]


class Phase(StrEnum):
    """The phase of the retirement of an operation."""

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
    :param end: an aware datetime after ``start``, kept in UTC; it does not belong to the window.
    :raises ValueError: an argument is something else; the message names it.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        _raise_first(self, brownout_errors)
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))


@dataclass(frozen=True, slots=True)
class Exemption:
    """Let one caller through brownouts and an enforced sunset, until a date.

    Not checked: that the date is in the future, or that any caller has this label.

    :param caller: the label that the middleware's ``identify`` gives the caller: 1 to 64 printable characters.
    :param until: an aware datetime, not before 1970, kept in UTC; the exemption has ended then.
    :param reason: why, for the people who read the plan.
    :raises ValueError: an argument is something else; the message names it.
    """

    caller: str
    until: datetime
    reason: str

    def __post_init__(self) -> None:
        _raise_first(self, exemption_errors)
        object.__setattr__(self, "until", self.until.astimezone(UTC))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeprecationPolicy:
    """Define when operations are deprecated and when they end.

    Not checked: that any date is in the future. Do not inherit from this class.

    :param deprecated_at: an aware datetime, not before 1970, kept in UTC and announced in whole seconds (RFC 9745
        section 2.1).
    :param sunset_at: an aware datetime, not before ``deprecated_at``, kept in UTC and announced in whole seconds (RFC
        8594 section 3), or ``None``, the default.
    :param documentation: the URI reference of a page for people, by default none. One that begins with a single ``/``
        is below the path at which your application is mounted.
    :param sunset_documentation: the same, for a page about your policy on sunsets.
    :param brownouts: windows in any order that do not overlap; by default none.
    :param enforce_sunset: whether the operation responds with 410 from ``sunset_at`` on; by default it keeps working.
    :param exemptions: callers that brownouts and an enforced sunset let through until a date, each once; by default
        none. They need a middleware with ``identify``.
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
        _raise_first(self, policy_errors)
        object.__setattr__(self, "exemptions", tuple(self.exemptions))
        object.__setattr__(self, "brownouts", tuple(sorted(self.brownouts, key=attrgetter("start"))))
        object.__setattr__(self, "deprecated_at", self.deprecated_at.astimezone(UTC))
        if self.sunset_at is not None:
            object.__setattr__(self, "sunset_at", self.sunset_at.astimezone(UTC))

    @property
    def closes(self) -> bool:
        """Whether there is a time at which the operation responds with 410."""
        return bool(self.brownouts) or self.enforce_sunset

    def phase(self, at: datetime, caller: str | None = None) -> Phase:
        """Return the phase at an aware datetime: an enforced sunset first, then a brownout, then the deprecation.

        :param at: any aware datetime.
        :param caller: the label of a caller; for one that is exempt then, nothing is closed. By default, nobody is.
        """
        is_over = self.enforce_sunset and self.sunset_at is not None and at >= self.sunset_at
        if is_over or (self.brownouts and self.brownout(at) is not None):
            is_exempt = self.exemption(caller, at) is not None
            return Phase.DEPRECATED if is_exempt else Phase.SUNSET if is_over else Phase.BROWNOUT
        return Phase.DEPRECATED if at >= self.deprecated_at else Phase.ANNOUNCED

    def sunset_of(self, exemption: Exemption | None) -> datetime | None:
        """Return the sunset for a caller with an exemption: the later date, if there is any sunset."""
        if exemption is None or self.sunset_at is None:
            return self.sunset_at
        return max(self.sunset_at, exemption.until)

    def exemption(self, caller: str | None, at: datetime) -> Exemption | None:
        """Return the exemption of the caller with a label that lasts at an aware datetime, or ``None``."""
        return next((each for each in self.exemptions if each.caller == caller and at < each.until), None)

    def brownout(self, at: datetime) -> Brownout | None:
        """Return the brownout that an aware datetime lies in, or ``None``."""
        return next((window for window in self.brownouts if window.start <= at < window.end), None)


class DeprecationHeaders:
    """The headers that announce the retirement of operations with one policy: the same bytes at all times.

    ``Deprecation`` (RFC 9745) and ``Sunset`` (RFC 8594), then one ``Link`` (RFC 8288) line each for the successor
    (RFC 5829), the documentation and the policy of the sunset, as far as there are any. A target that begins with a
    single ``/`` is below the path at which the application is mounted, and ``base_url`` precedes that path. A caller
    with an ``exemption`` is told the date on which that ends, if it is later than the sunset.
    """

    def __init__(self, policy: DeprecationPolicy, *, base_url: str = "", exemption: Exemption | None = None) -> None:
        self._base_url = base_url.rstrip("/")
        self._dates = [("Deprecation", f"@{_seconds(policy.deprecated_at)}")]
        sunset_at = policy.sunset_of(exemption)
        if sunset_at is not None:
            # RFC 9110 section 5.6.7: an IMF-fixdate ends in GMT and is in English, whatever the locale.
            self._dates.append(("Sunset", email.utils.format_datetime(sunset_at, usegmt=True)))
        self._pages = [
            (policy.documentation, f'rel="deprecation"{_media_type(policy.documentation)}'),
            (policy.sunset_documentation, f'rel="sunset"{_media_type(policy.sunset_documentation)}'),
        ]

    def render(self, successor: str | None, mount: str) -> HeaderList:
        """Return the headers.

        :param successor: the URI reference of the operation's successor, or ``None``.
        :param mount: the path at which the application is mounted, percent-encoded; empty at the root.
        """
        targets = [(successor, 'rel="successor-version"'), *self._pages]
        # Clients look for exactly this spelling: the relation first, quoted, one link in a line.
        links = [("Link", f"<{self.resolve(uri, mount)}>; {rest}") for uri, rest in targets if uri is not None]
        return [*self._dates, *links]

    def resolve(self, uri: str, mount: str) -> str:
        """Return the target of a link to a URI reference."""
        return resolve_below(uri, f"{self._base_url}{mount}")


def resolve_below(uri: str, base: str) -> str:
    """Return a URI reference, with a base before it if it is a path of this application."""
    return f"{base}{uri}" if is_path(uri) else uri


def is_path(uri: str) -> bool:
    """Return whether a URI reference is a path of this application: it begins with a single slash."""
    return uri.startswith("/") and not uri.startswith("//")


def _media_type(uri: str | None) -> str:
    """Return the ``type`` of a link to a page (RFC 8288 section 3.4.1), if its path looks like one in HTML."""
    name = urlsplit(uri or "").path.rpartition("/")[2]
    return '; type="text/html"' if "." not in name or name.endswith(".html") else ""


def brownout_errors(values: Mapping[str, Any]) -> Iterator[ConfigurationError]:
    """Yield everything that is wrong with a brownout's values. Missing values are not checked."""
    start, end = values.get("start", _EPOCH), values.get("end", _END)
    errors = [*_date_errors("start", start), *_date_errors("end", end)]
    yield from errors
    # Two times of one zone compare by its clock, which shows some hours twice.
    if not errors and end.astimezone(UTC) <= start.astimezone(UTC):
        yield "end", f"end ({end}) must be after start ({start})"


def exemption_errors(values: Mapping[str, Any]) -> Iterator[ConfigurationError]:
    """Yield everything that is wrong with an exemption's values. Missing values are not checked."""
    caller, reason = values.get("caller", "?"), values.get("reason", "?")
    if clean_label(caller) is None:
        yield "caller", f"caller must be a label of 1 to 64 printable characters, not {caller!r}"
    yield from _date_errors("until", values.get("until", _END))
    if not isinstance(reason, str) or not reason.strip():
        yield "reason", f"reason must be a string that says why, not {reason!r}"


def policy_errors(values: Mapping[str, Any]) -> Iterator[ConfigurationError]:
    """Yield everything that is wrong with a policy's values. Missing values are not checked."""
    deprecated_at, sunset_at = values.get("deprecated_at", _EPOCH), values.get("sunset_at", _END)
    last = _END if sunset_at is None else sunset_at
    errors = [*_date_errors("deprecated_at", deprecated_at), *_date_errors("sunset_at", last)]
    yield from errors
    if not errors and _seconds(last) < _seconds(deprecated_at):
        yield "sunset_at", f"sunset_at ({last}) must not be before deprecated_at ({deprecated_at})"
    for name in ("documentation", "sunset_documentation"):
        try:
            check_uri(name, "/" if values.get(name) is None else values[name])
        except ValueError as error:
            yield name, str(error)
    enforced = values.get("enforce_sunset", False)
    if not isinstance(enforced, bool):
        yield "enforce_sunset", f"enforce_sunset must be True or False, not {enforced!r}"
    elif enforced and sunset_at is None:
        yield "enforce_sunset", "enforce_sunset=True needs a sunset_at, not None"
    parts = {"brownouts": (Brownout, _find_overlaps), "exemptions": (Exemption, _find_repetitions)}
    for name, (kind, find) in parts.items():
        given = values.get(name, ())
        if isinstance(given, list | tuple) and all(isinstance(each, kind) for each in given):
            yield from ((name, sentence) for sentence in find(given))
        else:
            yield name, f"{name} must be a list or tuple of {kind.__name__}, not {given!r}"


def _raise_first(given: Any, find_errors: Callable[[Mapping[str, Any]], Iterator[ConfigurationError]]) -> None:
    for _name, sentence in find_errors({name: getattr(given, name) for name in given.__slots__}):
        raise ValueError(sentence)


def _date_errors(name: str, value: Any) -> Iterator[ConfigurationError]:
    if not isinstance(value, datetime):
        yield name, f"{name} must be a datetime, not {value!r}"
    elif value.utcoffset() is None:
        yield name, f"{name} must be an aware datetime, with a UTC offset, not {value!r}"
    elif value < _EPOCH:
        yield name, f"{name} must not be before 1970, not {value}"
    elif value > _END:
        yield name, f"{name} must not be after the year 9999 in UTC, not {value}"


def _find_overlaps(brownouts: Sequence[Any]) -> Iterator[str]:
    windows = sorted(brownouts, key=attrgetter("start"))
    # Of those before a window, the one that ends last: a long one overlaps with all that it contains.
    for earlier, window in zip(accumulate(windows, partial(max, key=attrgetter("end"))), windows[1:], strict=False):
        if window.start < earlier.end:
            both = f"{earlier.start} to {earlier.end} and {window.start} to {window.end}"
            yield f"brownouts must not overlap: {both}"


def _find_repetitions(exemptions: Sequence[Any]) -> Iterator[str]:
    for caller, times in Counter(each.caller for each in exemptions).items():
        if times > 1:
            yield f"exemptions must name each caller once, not {caller!r} {times} times"


def _seconds(date: datetime) -> int:
    # Whole numbers throughout: a float of seconds rounds up the last microseconds of far years.
    return (date - _EPOCH) // _SECOND
