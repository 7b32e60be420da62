"""Times as the store keeps them: microseconds since 1970, and days since then, in UTC."""

from datetime import UTC, date, datetime, timedelta

from flask_notifications.wording import moment

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
# A recorder is overdue by a minute when it was not heard for this time.
OVERDUE = 90 * SECOND
# The difference from the database's clock above which a recorder covers nothing.
CLOCK_LIMIT = 300 * SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_microseconds(at: datetime) -> int:
    """Return the microseconds of an aware datetime."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def to_datetime(microseconds: int) -> datetime:
    """Return an aware datetime."""
    return _EPOCH + timedelta(microseconds=microseconds)


def to_date(day: int) -> date:
    """Return the date of a day."""
    return date.fromordinal(_EPOCH.toordinal() + day)


def describe_moment(microseconds: int) -> str:
    """Return a time for people, to the minute."""
    return moment(to_datetime(microseconds).replace(second=0, microsecond=0))


def list_units(start: int, end: int, unit: int) -> range:
    """Return the days or hours since 1970 of which an interval has a part."""
    return range(start // unit, (end - 1) // unit + 1)


def start_of_window(end: int, days: int) -> int:
    """Return the beginning of the complete days before a time and of the day so far."""
    return (end // DAY - days) * DAY
