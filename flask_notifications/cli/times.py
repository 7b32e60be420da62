"""Points in time as the command line shows them, which fit into columns."""

from datetime import UTC, datetime


def format_time(time: datetime) -> str:
    """Return a time in UTC, as in ``2027-07-01 09:00 UTC``; with seconds where it has some."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S" if time.second else "%Y-%m-%d %H:%M") + " UTC"
