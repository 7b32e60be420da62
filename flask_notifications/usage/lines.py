"""Parse a line of an access log: its format, its request and its time.

Knows neither plans nor files. Lines, targets and users are WSGI strings: bytes that
were decoded as ISO 8859-1.
"""

import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from flask_notifications.headers import TOKEN
from flask_notifications.observers import decode_user
from flask_notifications.sessions.redaction import redact_string
from flask_notifications.validation import require
from flask_notifications.wording import escape

from .times import SECOND, to_microseconds

_NEEDED = {"time", "target"}
_FIELDS = {*_NEEDED, "method", "status", "agent", "user"}
_JSON = "json:"
# Parsed times that are cached, because neighbouring lines often have the same time.
_TIMES = 10_000
# Characters of a line that an explanation shows.
_SHOWN_LENGTH = 60

# A string in quotation marks, with the escapes of servers.
_QUOTED = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
_TIME_IN_BRACKETS = r'\[(?P<time>[^][" ][^]["]*+)\]'
# The Common and the Combined format from the time on. What precedes the time depends on
# the server, the proxy and the log collector, and more may follow. Werkzeug writes the
# escape sequences of colours before a request, even into files.
_COMMON = (
    rf'{_TIME_IN_BRACKETS}[^"[]*+"(?:\x1b\[\d+m)*'
    r'(?:(?P<method>[^\s"\\]++) (?P<target>[^\s"\\]++)(?: [^\s"\\]*+)?+'
    rf'|(?P<request>{_QUOTED}))" '
    rf'(?P<status>\d{{1,3}}|-)(?: \S++ "{_QUOTED}" "(?P<agent>{_QUOTED})")?'
)
_COMMON_PARTS = (
    ("no time in brackets", _TIME_IN_BRACKETS),
    ("no request in quotation marks", rf'{_TIME_IN_BRACKETS}[^"[]*+"{_QUOTED}"'),
)
# The client's host and identity (RFC 1413), then the user, in a line without a prefix.
_HOST_AND_IDENTITY = re.compile(r"\S+ \S*[^\s:] (\S+)")
_ADDRESS = re.compile(r"[\d.]+(?::\d+)?|\[?[\da-fA-F]*:[\da-fA-F:.]*\]?(?::\d+)?")
# A request line. Some clients and servers write other protocols or none, and more white
# space.
_REQUEST = re.compile(
    rf"\s*+({TOKEN})\s++(\S.*?)(?:\s++(?:-|(?:[A-Za-z]++/)?\d[\w.]*+))?\s*+",
    re.DOTALL,
)
# The escapes of nginx and Apache for quotation marks, backslashes and anything but
# printable ASCII, and those of JSON for any character. Other backslashes were sent by
# the client.
_ESCAPED = re.compile(
    r"\\x(?P<byte>[0189A-Fa-f][0-9A-Fa-f]|22|5[Cc]|7[Ff])"
    r'|(?P<json>(?:\\u[0-9A-Fa-f]{4})+)|\\(?P<character>["\\/])'
)
# The escape that nginx writes, even in JSON unless its format has ``escape=json``.
_ESCAPED_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})")

# Always English, unlike those of ``strptime``, which depend on the locale.
_MONTHS = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
# The Common format, and that of C's ``ctime``; all others are in ISO 8601.
_NAMED_MONTHS = (
    re.compile(
        r"(?P<day>\d\d?)/(?P<month>\w{3})/(?P<year>\d{4})[: ](?P<clock>\d\d:.+)"
    ),
    re.compile(
        r"(?:\w{3} )?(?P<month>\w{3}) {1,2}(?P<day>\d\d?) "
        r"(?P<clock>\S+) (?P<year>\d{4})"
    ),
)
_UTC = re.compile(r" ?(?:z|UTC|GMT)\Z")
_SPACE_BEFORE_OFFSET = re.compile(r" (?=[+-]\d)")
_NUMBER = re.compile(r"\d{9,}(?:\.\d*)?|\d(?:\.\d+)?[Ee]\+?\d\d?")


Parts: TypeAlias = tuple[str | None, str | None, str | None, Any]
"""The parts that every line is read for: the time, the method and the target; and the
record from which ``details`` reads the others.
"""


class Details(NamedTuple):
    """The parts that only a call is read for.

    A status is ``None`` if the log has no statuses, and empty if there was no response.
    """

    status: str | None
    user: str | None
    agent: str | None


class PatternFormat:
    """Lines whose parts are the named groups of a regular expression."""

    def __init__(self, pattern: str) -> None:
        self._search = re.compile(pattern).search

    def split(self, line: str) -> Parts | None:
        """Return the parts of a line, or ``None`` if it does not have the format."""
        match = self._search(line)
        if match is None:
            return None
        record = match.groupdict("")
        return record["time"], record.get("method"), record["target"], record

    def details(self, record: Any) -> Details:
        """Return the details of a line, unescaped; a hyphen is an empty string."""
        user = _unescape(record.get("user", "")).encode("latin-1")
        return Details(
            _drop_hyphen(record.get("status")),
            _drop_hyphen(decode_user(user)),
            _drop_hyphen(_unescape(record.get("agent", ""))),
        )

    def decode(self, target: str) -> str:
        """Return a target without the escapes of the format."""
        return _unescape(target)

    def explain(self, line: str) -> str:
        """Say why a line cannot be split."""
        return f"the regular expression does not match {show(line)}"


class CommonFormat(PatternFormat):
    """Lines in the Common or the Combined format, perhaps after a prefix of syslog."""

    def __init__(self) -> None:
        super().__init__(_COMMON)

    def split(self, line: str) -> Parts | None:
        """Split a line; read only what is needed to see that most are no calls."""
        match = self._search(line)
        if match is None:
            return None
        time, method, target = match.group("time", "method", "target")
        return time, method, target or match["request"], match

    def details(self, record: re.Match[str]) -> Details:
        """Return the details of a line."""
        user = _find_user(record.string[: record.start()])
        return super().details(record.groupdict("") | {"user": user})

    def explain(self, line: str) -> str:
        """Say which part a line lacks."""
        for missing, pattern in _COMMON_PARTS:
            if re.search(pattern, line) is None:
                return f"{missing} in {show(line)}"
        return f"no status after the request in {show(line)}"


class JSONFormat:
    """Lines with one JSON object each, perhaps after a prefix.

    :param keys: the key of each part; dots separate the keys of nested objects.
    """

    def __init__(self, keys: dict[str, str]) -> None:
        self._keys = keys
        self._read = json.JSONDecoder(strict=False).raw_decode

    def split(self, line: str) -> Parts | None:
        """Return the parts of a line, or ``None`` if it has no JSON object."""
        record = self._parse(line)
        if record is None and "\\x" in line:
            record = self._parse(_ESCAPED_BYTE.sub(_to_json, line))
        if record is None:
            return None
        time, method, target = (
            self._find(record, field) for field in ("time", "method", "target")
        )
        return time, method, target, record

    def details(self, record: dict[str, Any]) -> Details:
        """Return the details of a line; a hyphen is an empty string."""
        details = [self._find(record, field) for field in Details._fields]
        return Details(*map(_drop_hyphen, details))

    def decode(self, target: str) -> str:
        """Return a target as a WSGI string: JSON has its characters, not its bytes."""
        if target.isascii():
            return target
        return target.encode("utf-8", "surrogatepass").decode("latin-1")

    def explain(self, line: str) -> str:
        """Say why a line cannot be split."""
        return f"no JSON object in {show(line)}"

    def _parse(self, line: str) -> Any:
        text = line.encode("latin-1").decode("utf-8", "surrogateescape")
        try:
            return self._read(text, text.index("{"))[0]
        except (ValueError, RecursionError):
            return None

    def _find(self, record: dict[str, Any], field: str) -> str | None:
        """Return a part as a string, the first if there are several values."""
        value = _look_up(record, self._keys.get(field, ""))
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        return None


LineFormat: TypeAlias = PatternFormat | JSONFormat


def compile_format(log_format: str | None) -> LineFormat:
    """Return the format that an argument describes, or raise ``ValueError``."""
    if log_format is None:
        return CommonFormat()
    expected = (
        "a regular expression with the named groups time and target, and perhaps "
        "method, status, agent and user, or json:FIELD=KEY,… with these fields"
    )
    require(isinstance(log_format, str), "log_format", expected, log_format)
    if log_format.startswith(_JSON):
        pairs = [item.partition("=") for item in log_format[len(_JSON) :].split(",")]
        keys = {field.strip(): key.strip() for field, _equals, key in pairs}
        fits = all(keys.values()) and len(keys) == len(pairs)
        fits = fits and _NEEDED <= keys.keys() <= _FIELDS
        require(fits, "log_format", expected, log_format)
        return JSONFormat(keys)
    try:
        names = re.compile(log_format).groupindex.keys()
    except (re.error, RecursionError, OverflowError) as error:
        message = f"log_format must be {expected}: {error}"
        raise ValueError(message) from error
    require(names >= _NEEDED, "log_format", expected, log_format)
    return PatternFormat(log_format)


def split_request(request: str) -> tuple[str, str] | None:
    """Return the method and the target of a request line, or ``None`` if it is none."""
    match = _REQUEST.fullmatch(request)
    return None if match is None else (match[1], match[2])


@lru_cache(_TIMES)
def parse_log_time(time: str) -> tuple[int, bool] | None:
    """Return the microseconds since 1970, and whether the time has an offset from UTC.

    :param time: in the Common format, in ISO 8601, as a number of seconds,
        milliseconds, microseconds or nanoseconds since 1970, or as C's ``ctime`` writes
        it. Without an offset it is UTC.
    :returns: ``None`` for anything else.
    """
    text = time.strip(" \t[]")
    try:
        if _NUMBER.fullmatch(text):
            return _parse_number(text), True
        return _parse_date(text)
    except (ValueError, OverflowError):  # there is no such date
        return None


def _parse_number(number: str) -> int:
    """Return microseconds; the size of a number shows its unit."""
    value = float(number)
    for unit in (SECOND, 1_000, 1, 0.001):
        if value * unit < 1e17:  # before the year 5138
            return int(value * unit)
    raise OverflowError


def _parse_date(text: str) -> tuple[int, bool]:
    """Return what ``parse_log_time`` returns, for a date that is no number."""
    for pattern in _NAMED_MONTHS:
        match = pattern.fullmatch(text)
        if match is not None:
            month = _MONTHS.index(match["month"]) + 1
            text = f"{match['year']}-{month:02}-{match['day']:0>2}T{match['clock']}"
    at = datetime.fromisoformat(_SPACE_BEFORE_OFFSET.sub("", _UTC.sub("Z", text)))
    if at.tzinfo is None:
        return to_microseconds(at.replace(tzinfo=UTC)), False
    return to_microseconds(at), True


def show(text: str | None) -> str:
    """Quote the beginning of a line for people, without session IDs."""
    if text is None:
        return "missing"
    text = text.encode("latin-1", "replace").decode("utf-8", "replace")
    shown = escape(redact_string(text.strip()))
    if len(shown) > _SHOWN_LENGTH:
        shown = f"{shown[:_SHOWN_LENGTH]}…"
    return f"'{shown}'"


def _find_user(prefix: str) -> str:
    """Return the user in what precedes the time in the Common format, or ``""``."""
    _prefix, hyphen, user = prefix.rstrip().rpartition(" - ")
    if not hyphen:
        match = _HOST_AND_IDENTITY.fullmatch(prefix.rstrip())
        user = "" if match is None else match[1]
    # Apache writes an empty name as `""`; other formats have the client's address in
    # this place.
    if user in {"-", '""'} or _ADDRESS.fullmatch(user):
        return ""
    return user


def _drop_hyphen(value: str | None) -> str | None:
    """Return a value, which logs write as a hyphen if it is empty."""
    return "" if value == "-" else value


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_replace_escape, text) if "\\" in text else text


def _replace_escape(match: re.Match[str]) -> str:
    if match["byte"]:
        return chr(int(match["byte"], 16))
    if match["json"]:
        characters: str = json.loads(f'"{match["json"]}"')
        return characters.encode("utf-8", "surrogatepass").decode("latin-1")
    return match["character"]


def _to_json(match: re.Match[str]) -> str:
    """Return a byte that nginx escaped as JSON has it: ASCII escaped, others raw."""
    byte = int(match[1], 16)
    return chr(byte) if byte > 0x7F else rf"\u{byte:04x}"


def _look_up(record: Any, key: str) -> Any:
    """Look up a key such as ``request.uri`` in nested objects.

    A key of the log may itself contain dots.
    """
    if not isinstance(record, dict):
        return None
    if key in record:
        return record[key]
    for dot in re.finditer(r"\.", key):
        value = _look_up(record.get(key[: dot.start()]), key[dot.end() :])
        if value is not None:
            return value
    return None
