"""Dates, durations and numbers for people, in English and in UTC, with any locale."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
]

# Names that are listed before the others are counted.
_NAMED = 5
_SECOND = timedelta(seconds=1)
_UNITS = (
    ("year", timedelta(days=365.25)),
    ("month", timedelta(days=365.25 / 12)),
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
)


def short_date(at: datetime) -> str:
    """Return a date such as ``1 Jul 2027``."""
    return f"{at.day} {_MONTHS[at.month - 1][:3]} {at.year}"


def full_date(day: date) -> str:
    """Return a date such as ``1 July 2027``."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def long_date(at: datetime) -> str:
    """Return a date such as ``Thursday, 1 July 2027``."""
    return f"{_WEEKDAYS[at.weekday()]}, {full_date(at)}"


def moment(at: datetime) -> str:
    """Return a date and time such as ``1 Jul 2027, 09:00 UTC``; no seconds if 0."""
    time = f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"
    return f"{short_date(at)}, {time} UTC"


def period(start: datetime, end: datetime) -> str:
    """Return a period such as ``4 May 2027, 09:00 to 11:00 UTC``."""
    first = moment(start).removesuffix(" UTC")
    last = moment(end).removeprefix(f"{short_date(start)}, ")
    return f"{first} to {last}"


def format_days(since: datetime, until: datetime) -> str:
    """Return days such as ``6 January to 5 February 2026``, without ``until``."""
    last = until - timedelta(microseconds=1)
    first = full_date(since).removesuffix(f" {last.year}")
    return f"{first} to {full_date(last)}"


def duration(length: timedelta) -> str:
    """Return a rounded duration such as ``15 minutes``; at least a second.

    The unit is the largest one that fits twice.
    """
    name, unit = "second", _SECOND
    for longer, size in reversed(_UNITS):
        if length >= 2 * size:
            name, unit = longer, size
    return count(max(1, round(length / unit)), name)


def recurrence(every: timedelta, number: int, last: datetime) -> str:
    """Return words such as ``every 7 days, 12 times, the last on 4 May 2027``."""
    times = count(number, "time")
    return f"every {duration(every)}, {times}, the last on {short_date(last)}"


def relative(at: datetime, now: datetime) -> str:
    """Return a distance such as ``in 3 months``, ``2 days ago`` or ``now``."""
    if abs(at - now) < _SECOND:
        return "now"
    return f"in {duration(at - now)}" if at > now else f"{duration(now - at)} ago"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 call`` or ``2,000 calls``."""
    plural = "" if number == 1 else "s"
    return f"{number:,} {noun}{plural}"


def enumerate_names(names: Iterable[str]) -> str:
    """Return the first five names, without repetition, and the number of the others."""
    distinct = list(dict.fromkeys(names))
    text = ", ".join(distinct[:_NAMED])
    if distinct[_NAMED:]:
        text += f" and {count(len(distinct) - _NAMED, 'other')}"
    return text


def iso(at: datetime) -> str:
    """Return a time for programs, such as ``2027-07-01T09:00:00Z``; no fractions."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def escape(line: str) -> str:
    r"""Return a line with escapes such as ``\n`` in place of unprintable characters.

    Plans and responses may contain control characters, and a terminal obeys them.
    """
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else repr(character)[1:-1]
        for character in line
    )
