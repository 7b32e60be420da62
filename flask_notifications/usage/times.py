"""Times as the store keeps them: microseconds and days since 1970, in UTC."""

from datetime import UTC, date, datetime, timedelta

from flask_notifications.wording import moment

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
# A recorder that has not written for this time is overdue: it writes every 30 seconds,
# and may be a minute late.
OVERDUE = 90 * SECOND
# The difference from the database's clock above which a recorder covers nothing.
CLOCK_LIMIT = 300 * SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_microseconds(at: datetime) -> int:
    """Convert an aware datetime to microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def to_datetime(microseconds: int) -> datetime:
    """Convert microseconds since 1970 to an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def to_date(day: int) -> date:
    """Convert the number of a day since 1970 to a date."""
    return date.fromordinal(_EPOCH.toordinal() + day)


def describe_moment(microseconds: int) -> str:
    """Describe a time for people, to the minute."""
    return moment(to_datetime(microseconds).replace(second=0, microsecond=0))


def list_units(start: int, end: int, unit: int) -> range:
    """Return the numbers, since 1970, of the days or hours that an interval touches."""
    return range(start // unit, (end - 1) // unit + 1)


def start_of_window(end: int, days: int) -> int:
    """Return the midnight ``days`` days before the day of ``end``."""
    return (end // DAY - days) * DAY
