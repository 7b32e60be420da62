"""Parse the dates of headers and of people, and read the clock.

``Deprecation`` and ``Sunset`` are parsed strictly, because common parsers accept
invalid values. People write ISO 8601.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial

Clock = Callable[[], datetime]

# The time, aware, in UTC.
utc_now: Clock = partial(datetime.now, UTC)

# A date without a time.
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

# RFC 9651 section 3.3.7: sf-date = "@" sf-integer, of at most 15 digits.
_STRUCTURED_DATE = re.compile(r"@(-?\d{1,15})", re.ASCII)


def to_utc(time: datetime) -> datetime:
    """Return an aware datetime in UTC.

    An instance of a subclass, such as pendulum's, becomes a plain ``datetime``.
    """
    utc = time.astimezone(UTC)
    return datetime.combine(utc.date(), utc.time(), UTC)


def parse_time(value: str) -> datetime:
    """Parse a date, or a date and time with an offset, and return it in UTC.

    A date alone means midnight UTC.

    :raises ValueError: the value is neither.
    """
    with suppress(ValueError, OverflowError):
        # RFC 3339 section 5.6: T and Z may be in lower case.
        time = datetime.fromisoformat(
            f"{value}T00:00:00Z" if DATE.fullmatch(value) else value.upper()
        )
        if time.tzinfo is not None:
            return time.astimezone(UTC)
    message = f"{value!r} is neither like 2027-07-01 nor like 2027-07-01T09:00:00Z"
    raise ValueError(message)


def parse_deprecation(value: str) -> datetime:
    """Return the date of a ``Deprecation`` header.

    That is a structured-field date (RFC 9745 section 2.1, RFC 9651 section 3.3.7).

    :param value: the value of the header. Parameters are not accepted, because RFC 9745
        defines none.
    :raises ValueError: the value is something else, such as ``true``, an HTTP-date, or
        the joined values of two headers.
    """
    # By str(), because a missing header is often None.
    match = _STRUCTURED_DATE.fullmatch(str(value).strip(" "))
    with suppress(OverflowError):
        if match is not None:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(match[1]))
    message = (
        "Deprecation must be '@' and whole seconds since 1970, before the year 10000, "
        f"not {value!r}"
    )
    raise ValueError(message)


def parse_sunset(value: str) -> datetime:
    """Return the date of a ``Sunset`` header.

    That is an IMF-fixdate with the right weekday (RFC 9110 section 5.6.7).

    :param value: the value of the header.
    :raises ValueError: the value is something else, such as an obsolete form of an
        HTTP-date, which no sender may generate.
    """
    with suppress(Exception):  # the standard library's parser raises several types
        date = parsedate_to_datetime(value)
        if format_datetime(date, usegmt=True) == value:
            return date
    message = f"Sunset must be like 'Fri, 01 Jan 2027 00:00:00 GMT', not {value!r}"
    raise ValueError(message)
