"""Points and lengths of time as people read them."""

from datetime import UTC, datetime, timedelta

# The units in which a length of time is shown, from the first one that fits at least twice; a month is 30.44 days.
_UNITS = (
    ("year", timedelta(days=365.25)),
    ("month", timedelta(days=30.4375)),
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
)


def format_time(time: datetime) -> str:
    """Return a time in UTC, as in ``2027-07-01 09:00 UTC``; with seconds where it has some."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S" if time.second else "%Y-%m-%d %H:%M") + " UTC"


def format_length(length: timedelta) -> str:
    """Return a length of time, rounded down, as in ``15 minutes`` or ``3 months``."""
    for name, unit in _UNITS:
        if length >= 2 * unit:
            return f"{length // unit} {name}s"
    seconds = int(length.total_seconds())
    return f"{seconds} second{'' if seconds == 1 else 's'}"


def format_distance(length: timedelta) -> str:
    """Return a distance from now, as in ``in 3 months``, ``2 days ago`` or ``now``."""
    if abs(length) < timedelta(seconds=1):
        return "now"
    return f"in {format_length(length)}" if length > timedelta() else f"{format_length(-length)} ago"
