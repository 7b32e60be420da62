"""Mask session IDs in URIs, in the request targets of an environ and in log records.

Knows how a session pair is spelled, but not which session a request carries. Standard
library only.
"""

import logging
import re
from collections.abc import Callable, Container, Iterable
from copy import copy
from typing import Any
from wsgiref.types import WSGIEnvironment

from flask_notifications.log import format_traceback

MASK = "REDACTED"


def _target_keys() -> frozenset[str]:
    """Return the environ keys of request targets from servers and proxies."""
    keys = {
        "RAW_URI",
        "REQUEST_URI",
        "UNENCODED_URL",
        "SCRIPT_URI",
        "SCRIPT_URL",
        "REDIRECT_URI",
        "HTTP_REFERER",
        "HTTP_X_WAWS_UNENCODED_URL",
        "HTTP_X_AUTH_REQUEST_REDIRECT",
    }
    # Apache adds the prefix at each internal redirect.
    for prefix in ("REDIRECT_", "REDIRECT_REDIRECT_"):
        for name in ("QUERY_STRING", "REQUEST_URI", "SCRIPT_URI", "SCRIPT_URL", "URL"):
            keys.add(prefix + name)
    kinds = ["ORIGINAL", "ENVOY_ORIGINAL", "MS_ORIGINAL", "FORWARDED", "REAL"]
    kinds += ["REPLACED", "REQUEST", "REWRITE"]
    for kind in kinds:
        for part in ("URI", "URL", "PATH", "QUERY", "QUERY_STRING", "REQUEST_URI"):
            keys.add(f"HTTP_X_{kind}_{part}")
    return frozenset(keys)


_TARGETS = _target_keys()

# A percent sign that is itself encoded any number of times.
_PERCENT = "%(?:25)*"


def _spell(word: str) -> str:
    """Return a pattern for a word with each character plain or percent-encoded."""
    pattern = ""
    for char in word:
        pattern += f"(?:{char}|{_PERCENT}(?:{ord(char):x}|{ord(char.upper()):x}))"
    return pattern


# The start of a word: no letter precedes it, or an encoded delimiter does.
_START = rf"(?:(?<![\w%-])|{_PERCENT}[0-9a-f]{{2}})"
_PAIR = rf"{_START}{_spell('sessionid')}{_spell('=')}"
# Servers quote a whole header line when it is malformed; gunicorn's log format names
# headers "{authorization}i".
_HEADER = r"authorization(?:\}[ieo])?\W{1,8}(?:b\W)?bearer +"
# An encoded "&" ends a value where another pair follows.
_NEXT = rf"{_PERCENT}26[^&#%\s]*{_spell('=')}"
# Quotation marks end a value at the end of what they quote.
_UNQUOTE = r"""["'<>\\](?:[\s.,:;)\]}>]|\Z)"""

_FLAGS = re.IGNORECASE | re.ASCII
_IN_URI = re.compile(rf"({_PAIR})(?:[^&#%]|(?!{_NEXT})%)*", _FLAGS)
_IN_LOG = re.compile(
    rf"""({_PAIR}|{_HEADER})(?:[^&#\s%"'<>\\]|(?!{_NEXT}|{_UNQUOTE})[%"'<>\\])*""",
    _FLAGS,
)


def redact_environ(environ: WSGIEnvironment, query: str, masked: str) -> None:
    """Mask the value of every session pair in the targets of a request, in place.

    :param query: the query of the request, as it was received.
    :param masked: what ``redact_query`` returns for it.
    """
    for key in _TARGETS.intersection(environ):
        path, mark, received = environ[key].partition("?")
        if mark and received == query and redact_uri(path) == path:
            # Most targets end with this query. Masking it only once saves a quarter of
            # the instructions of a request.
            environ[key] = f"{path}?{masked}"
        else:
            environ[key] = redact_uri(environ[key])


def redact_query(members: Iterable[str], pairs: Container[str]) -> str:
    """Return the members of a query with the value of every session pair masked.

    :param pairs: the members that are session pairs.
    """
    masked = []
    for member in members:
        name, equals, _value = member.partition("=")
        if equals and member in pairs:
            masked.append(f"{name}={MASK}")
        else:
            masked.append(redact_uri(member))
    return "&".join(masked)


def redact_uri(uri: str) -> str:
    """Return a URI with the value of every session pair masked."""
    return _mask(_IN_URI, uri)


def redact_string(string: str) -> str:
    """Return a log line with the value of every session pair masked."""
    return _mask(_IN_LOG, string)


def _mask(pattern: re.Pattern[str], string: str) -> str:
    # A record of gunicorn's access log has a hundred strings, most of them without a
    # session. Searching all with the pattern takes a tenth of a request's CPU time.
    lower = string.lower()
    if "%" in string or "sessionid" in lower or "bearer" in lower:
        return pattern.sub(rf"\1{MASK}", string)
    return string


class SessionLogFilter(logging.Filter):
    """Mask session IDs in log records, also in those of servers.

    Put it on each logger by name (``gunicorn.access``, ``gunicorn.error``,
    ``werkzeug``) or on a handler: a filter on a parent logger does not see the records
    of its children. It masks the value of each session pair, and what follows
    ``Authorization: Bearer``, in the message, in the traceback, and in the strings of
    arguments that are a mapping. Other arguments that show a session are merged into
    the message. An exception that shows one is replaced by its masked traceback, in
    ``exc_text``. No record is dropped.

    Not masked: a session ID that nothing marks as one, other attributes of a record,
    and the local variables that some tools read from a traceback.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record in place, and return ``True``."""
        if isinstance(record.args, dict):
            record.args = _redact_items(record.args)
            arguments = ""
        else:
            arguments = _show(repr, record.args)
        message = _show(type(record).getMessage, record)
        if not message:  # logging prints message and arguments that do not fit
            message = _show(lambda record: f"{record.msg} {record.args}", record)
        masked = redact_string(message)
        if masked != message or redact_string(arguments) != arguments:
            record.msg = masked
            record.args = ()
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            traceback = format_traceback(record.exc_info[1]).rstrip("\n")
            if redact_string(traceback) != traceback:
                record.exc_info = None
                record.exc_text = record.exc_text or traceback
        if record.exc_text:
            record.exc_text = redact_string(record.exc_text)
        return True


def _show(convert: Callable[[Any], str], value: object) -> str:
    """Return a value as a string, or an empty string if that fails."""
    try:
        return convert(value)
    except Exception:  # noqa: BLE001 - the values are your application's
        return ""


def _redact_items(arguments: dict[Any, Any]) -> dict[Any, Any]:
    """Return a mapping with its strings masked, also that of a key ``sessionId``."""
    changed = {}
    for name, value in arguments.items():
        if isinstance(value, str):
            label = f"{name}="
            masked = redact_string(label + value).removeprefix(label)
            if masked != value:
                changed[name] = masked
    if not changed:
        return arguments
    redacted = copy(arguments)
    redacted.update(changed)
    return redacted
