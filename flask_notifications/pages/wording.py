"""Dates, durations and numbers as people read them, in English and in UTC, whatever the locale is."""

from datetime import UTC, datetime, timedelta

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
# The longest duration that is written in a unit, and the unit.
_UNITS = (
    (100 * _MINUTE, _MINUTE, "minute"),
    (47 * _HOUR, _HOUR, "hour"),
    (60 * _DAY, _DAY, "day"),
    (700 * _DAY, 30.44 * _DAY, "month"),
    (timedelta.max, 365.25 * _DAY, "year"),
)


def month_name(at: datetime) -> str:
    """Return the first three letters of a month."""
    return _MONTHS[at.month - 1][:3]


def short_date(at: datetime) -> str:
    """Return a date such as ``1 Jul 2027``."""
    return f"{at.day} {month_name(at)} {at.year}"


def long_date(at: datetime) -> str:
    """Return a date such as ``Thursday, 1 July 2027``."""
    return f"{_WEEKDAYS[at.weekday()]}, {at.day} {_MONTHS[at.month - 1]} {at.year}"


def moment(at: datetime) -> str:
    """Return a date and a time such as ``1 Jul 2027, 09:00 UTC``; the seconds only if there are any."""
    time = f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"
    return f"{short_date(at)}, {time} UTC"


def period(start: datetime, end: datetime) -> str:
    """Return a period such as ``4 May 2027, 09:00 to 11:00 UTC``."""
    if start.date() == end.date():
        return f"{moment(start).removesuffix(' UTC')} to {moment(end).partition(', ')[2]}"
    return f"{moment(start).removesuffix(' UTC')} to {moment(end)}"


def duration(length: timedelta) -> str:
    """Return a duration in one unit, such as ``15 minutes``; less than a minute is one."""
    unit, name = next((unit, name) for limit, unit, name in _UNITS if length < limit)
    return count(max(1, round(length / unit)), name)


def relative(at: datetime, now: datetime) -> str:
    """Return how far a time is from now, such as ``in 3 months``."""
    return f"in {duration(at - now)}" if at > now else f"{duration(now - at)} ago"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 call`` or ``2,000 calls``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def iso(at: datetime) -> str:
    """Return the machine-readable form for ``<time datetime>``."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"
