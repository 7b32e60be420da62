"""Masking session IDs in URIs, in the raw keys of an environ and in log records.

Knows how a session pair is spelled, and nothing of who is calling. Standard library only.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any

from .log import format_traceback

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

MASK = "REDACTED"

# Where servers and proxies keep the target of a request, or of the page before it.
_TARGETS = frozenset(
    {
        *("RAW_URI", "REQUEST_URI", "HTTP_REFERER", "UNENCODED_URL", "SCRIPT_URI", "SCRIPT_URL"),
        *(f"REDIRECT_{name}" for name in ("QUERY_STRING", "REQUEST_URI", "SCRIPT_URI", "SCRIPT_URL", "URL")),
        *(
            f"HTTP_X_{header}_{part}"
            for header in ("ORIGINAL", "ENVOY_ORIGINAL", "FORWARDED", "REAL", "REPLACED", "REQUEST", "REWRITE")
            for part in ("URI", "URL", "PATH", "QUERY")
        ),
        *("HTTP_X_WAWS_UNENCODED_URL", "HTTP_X_AUTH_REQUEST_REDIRECT"),
    }
)


# Before two hexadecimal digits: "%", which may itself be encoded any number of times, and escapes of Python and JSON.
# Each is a first character, and the rest.
_ESCAPES = [("%", "(?:25)*+"), (r"\\", "(?:x|u00)")]
_ESCAPE = f"(?:{'|'.join(first + rest for first, rest in _ESCAPES)})"


def _spell(word: str) -> str:
    """Return a pattern for a word with each character plain or escaped."""
    return "".join(f"(?:{char}|{_ESCAPE}(?:{ord(char):02x}|{ord(char.upper()):02x}))" for char in word)


# What some parsers take for the same key: "sessionId[]", "user[sessionId]" and "sessionId+". Limits keep work linear.
_AFTER = rf"(?:\+|\[\w{{0,20}}\]?|\]|{_ESCAPE}(?:20|2b|5b\w{{0,20}}|5d)){{0,4}}+"
_EQUALS = _spell("=")
# A pair begins after anything that is not part of a word, such as a delimiter, which may be escaped, or after the code
# of a colour. `re` searches quickly for the first character of a pattern if its letter case is fixed, and lookbehinds
# recognise it.
_FIRST = r"(?-i:[sS%\\\x1b])"
_ESCAPED = f"(?:{'|'.join(f'(?<={first}){rest}' for first, rest in _ESCAPES)})"
_DELIMITER = rf"(?:{_ESCAPED}[0-9a-f]{{2}}|(?<=\\)(?:u[0-9a-f]{{4}}|U[0-9a-f]{{8}}|[abfnrtv])|(?<=\x1b)\[[\d;]*+m)"
_S = rf"(?:(?<![\w%-].)(?:(?<=s)|{_ESCAPED}(?:73|53))|{_DELIMITER}{_spell('s')})"
_PAIR = rf"{_FIRST}{_S}{_spell('essionid')}{_AFTER}{_EQUALS}"
# A value ends at a ";" and at an escaped "&" only where another pair follows.
_NEXT_PAIR = rf"(?:;|{_ESCAPE}26)[^&#;=%\\\s]*+{_EQUALS}"
# A closing quote ends a value if white space, punctuation or the end of the string follows.
_UNQUOTE = r"""["'<>\\](?:[\s.,:;)\]}>]|\Z)"""
# Only before the characters that may end a value is more than one character looked at.
_VALUE_IN_LOG = rf"(?:[^&#\s;%\\\"'<>]++|(?!{_NEXT_PAIR}|{_UNQUOTE})[;%\\\"'<>])*+"
# Servers quote a whole header line when it is malformed; gunicorn's log format names headers "{authorization}i".
_HEADER = r"(?-i:[aA])uthorization(?:\}[ieo])?\W{1,8}(?:b\W)?bearer\ +"

_IN_URI = re.compile(rf"({_PAIR})(?:[^&#;%\\]++|(?!{_NEXT_PAIR})[;%\\])*+", re.IGNORECASE | re.ASCII)
_IN_LOG = re.compile(f"({_PAIR}){_VALUE_IN_LOG}", re.IGNORECASE | re.ASCII)
_HEADER_IN_LOG = re.compile(f"({_HEADER}){_VALUE_IN_LOG}", re.IGNORECASE | re.ASCII)
# A name whose value is a session ID or such a header, in a mapping or in the attributes of a record.
_NAME = re.compile(
    rf"{_spell('sessionid')}{_AFTER}|\{{?(?:http_)?authorization(?:\}}[ieo])?", re.IGNORECASE | re.ASCII
)

# How many levels of containers are masked item by item; deeper ones are masked as a whole.
_DEPTH = 20


def redact_environ(environ: "WSGIEnvironment") -> None:
    """Mask the value of every session pair in the targets of a request, in place."""
    for key in _TARGETS.intersection(environ):
        environ[key] = redact_uri(environ[key])


def redact_uri(uri: str) -> str:
    """Return a URI with the value of every session pair masked, even where only some parsers find a pair."""
    # Most targets hold no pair, and the pattern is slow.
    return _IN_URI.sub(_mask_match, uri) if "=" in uri or "%" in uri or "\\" in uri else uri


def redact_string(string: str) -> str:
    """Return a string, such as a log line, with the value of every session pair in it masked."""
    # Most of the hundred strings in a record of gunicorn's access log hold none, and the patterns are slow.
    if "=" in string or "%" in string or "\\" in string:
        string = _IN_LOG.sub(_mask_match, string)
    return _HEADER_IN_LOG.sub(_mask_match, string) if "bearer" in string.lower() else string


def _mask_match(match: re.Match[str]) -> str:
    return match[1] + MASK


class SessionLogFilter(logging.Filter):
    """Mask session IDs in log records, such as those that servers write from their own copy of a request.

    Put it on each logger by name (``gunicorn.access``, ``gunicorn.error``, ``werkzeug``) or on a handler: a filter on
    a parent logger does not see the records of its children. It masks the value of each session pair, and what follows
    ``Authorization: Bearer``, in the message, the arguments, the exception with its causes, and every other attribute
    of a record. It drops no record. What it changes keeps its type, so that any formatter can use the record; only an
    object whose string shows a session ID is replaced by the masked string, and some exceptions by one whose type has
    the same name. Not masked: a session ID that nothing marks as one, and the local variables that some tools read from
    a traceback.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record in place; always ``True``."""
        attributes = vars(record)
        for name, value in list(attributes.items()):
            if name not in {"msg", "args"}:
                attributes[name] = _redact_item(name, value)
        if record.args:
            record.args = _redact(record.args)
        else:
            record.msg = _redact(record.msg)
        _redact_message(record)
        _redact_source_lines(record)
        return True


def _redact_message(record: logging.LogRecord) -> None:
    """Mask values that only the formatted message shows, such as one whose key is in the template."""
    template = message = masked = _show(str, record.msg)
    is_formatted = False
    with suppress(Exception):  # logging itself reports a record that does not format, with its template and arguments
        message = record.getMessage()
        is_formatted = True
        # Formatting takes a pair of the template apart where its key is encoded, as "%73s" is.
        is_split = any(pair[1] not in message for pair in _IN_LOG.finditer(template))
        masked = redact_string(template if is_split else message)
    if masked == message and redact_string(template) == template:
        return
    if isinstance(record.msg, Mapping) and not record.args:
        record.msg = _replace_items(record.msg, {key: _redact_object(item) for key, item in record.msg.items()})
    elif is_formatted:
        _replace_message(record, masked)
    else:
        record.msg, record.args = redact_string(template), _mask_arguments(record.args)


def _replace_message(record: logging.LogRecord, message: str) -> None:
    """Give a record another message, and keep the number and the order of its arguments."""
    arguments = _mask_arguments(record.args)
    # The new template consumes each positional argument, and shows no character of it.
    consumed = "%.0s" * len(arguments) if isinstance(arguments, tuple) else ""
    record.msg, record.args = consumed + message.replace("%", "%%") if arguments else message, arguments
    with suppress(Exception):
        if record.getMessage() == message:
            return
    record.msg, record.args = message, ()  # a record whose template is of another kind


def _mask_arguments(arguments: Any) -> Any:
    """Return the arguments of a record without any string; ``None`` for other types."""
    if isinstance(arguments, tuple):
        return tuple(map(_mask_argument, arguments))
    if isinstance(arguments, Mapping):
        return _replace_items(arguments, {key: _mask_argument(item) for key, item in arguments.items()})
    return None


def _mask_argument(value: object) -> object:
    if value is None or isinstance(value, int | float):  # a status code, most probably
        return value
    return MASK.encode() if isinstance(value, bytes) else MASK


def _redact_source_lines(record: logging.LogRecord) -> None:
    """Mask the traceback as a whole where its lines of source code show a session ID."""
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if error is not None and not record.exc_text:
        traceback = format_traceback(error).rstrip("\n")
        masked = redact_string(traceback)
        record.exc_text = None if masked == traceback else masked


def _redact(value: Any, parents: tuple[int, ...] = ()) -> Any:
    """Return a value with every session pair in it masked: the same object when there is none."""
    if isinstance(value, str | bytes):
        return _replace_string(value, redact_string(_to_string(value)))
    if len(parents) == _DEPTH or id(value) in parents:
        return _redact_object(value)
    try:
        return _redact_parts(value, (*parents, id(value)))
    except Exception:  # noqa: BLE001 - values are your application's, and their methods may raise anything
        return _redact_object(value)


def _redact_parts(value: Any, parents: tuple[int, ...]) -> Any:
    match value:
        case BaseException():
            return _redact_exception(value)
        case Mapping():
            pairs = list(value.items())
            redacted = [(_redact(key, parents), _redact_item(key, item, parents)) for key, item in pairs]
            is_same = all(map(is_, chain(*pairs), chain(*redacted)))
            return value if is_same else _replace_items(value, dict(redacted))
        case tuple() | list() | set() | frozenset():
            members = list(value)
            redacted = [_redact(member, parents) for member in members]
            if isinstance(value, tuple | list) and len(members) == 2:  # perhaps the name and the value of a header
                redacted[1] = _redact_item(members[0], members[1], parents)
            if all(map(is_, members, redacted)):
                return value
            return tuple.__new__(type(value), redacted) if isinstance(value, tuple) else type(value)(redacted)
        case _:
            return _redact_object(value)


def _redact_item(key: object, value: Any, parents: tuple[int, ...] = ()) -> Any:
    """Return the value of a key: the two may be a session pair, or an ``Authorization`` header."""
    if key == "exc_info" and value is True:  # for structlog, the exception that is being handled
        handled = sys.exc_info()
        masked = _redact(handled, parents)
        return value if masked is handled else masked
    if isinstance(key, str | bytes) and isinstance(value, str | bytes) and _NAME.fullmatch(_to_string(key)):
        name = f"{_to_string(key)}="
        return _replace_string(value, redact_string(name + _to_string(value)).removeprefix(name))
    return _redact(value, parents)


def _replace_items(value: Any, items: dict[Any, Any]) -> Any:
    """Return a mapping of the same type with other items; a ``dict`` where that type cannot be changed."""
    try:
        replaced = copy(value)
        replaced.clear()
        replaced.update(items)
    except Exception:  # noqa: BLE001 - as mappings refuse changes in many ways
        return items
    return replaced


def _to_string(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _replace_string(value: str | bytes, string: str) -> str | bytes:
    """Return a string as the type of the value, or the value itself if it represents the same string."""
    if string == _to_string(value):
        return value
    return string if isinstance(value, str) else string.encode("latin-1")


def _redact_object(value: Any) -> Any:
    """Return an object, or its masked string when it shows a session ID."""
    for how in (str, repr):
        shown = _show(how, value)
        masked = redact_string(shown)
        if masked != shown:
            return masked
    return value


def _show(how: Callable[[object], str], value: object) -> str:
    try:
        return how(value)
    except Exception:  # noqa: BLE001 - an object that cannot be shown shows nothing
        return ""


def _redact_exception(error: BaseException) -> BaseException:
    """Return an exception, or an imitation with all that its traceback shows when a part of that shows a session ID."""
    errors = list(_walk(error))
    if not any(map(_shows_session, errors)):
        return error
    copies = {id(each): _imitate(each) for each in errors}
    for each in errors:
        imitation = copies[id(each)]
        for name in ("__cause__", "__context__"):
            # As an exception may be a frozen dataclass.
            object.__setattr__(imitation, name, copies.get(id(getattr(each, name))))
        for name in ("__suppress_context__", "__traceback__"):
            object.__setattr__(imitation, name, getattr(each, name))
        if hasattr(each, "__notes__"):
            object.__setattr__(imitation, "__notes__", _redact(each.__notes__))
        if isinstance(each, BaseExceptionGroup):
            type(imitation).exceptions = tuple(copies[id(member)] for member in each.exceptions)  # type: ignore[attr-defined]
    return copies[id(error)]


def _walk(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and every other one that its traceback shows."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            members = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
            waiting += [each.__cause__, each.__context__, *members]


def _shows_session(error: BaseException) -> bool:
    return any(_redact_object(each) is not each for each in (error, *error.args, *vars(error).values()))


def _imitate(error: BaseException) -> BaseException:
    """Return an exception that shows the masked string; its type is the same if it can be, or has the same name."""
    string, representation = shown = [redact_string(_show(how, error)) for how in (str, repr)]
    with suppress(Exception):
        copied = type(error).__new__(type(error), *map(_redact_object, error.args))
        # Not part by part: exceptions that hold exceptions would be visited again and again.
        vars(copied).update({name: _redact_object(value) for name, value in vars(error).items()})
        if not isinstance(error, BaseExceptionGroup) and [_show(how, copied) for how in (str, repr)] == shown:
            return copied
    attributes = {
        "__module__": type(error).__module__,
        "__qualname__": type(error).__qualname__,
        "__str__": lambda _self: string,
        "__repr__": lambda _self: representation,
    }
    base = next(
        kind for kind in (ExceptionGroup, BaseExceptionGroup, Exception, BaseException) if isinstance(error, kind)
    )
    arguments = (string, [Exception()]) if isinstance(error, BaseExceptionGroup) else (string,)
    imitation: BaseException = type(type(error).__name__, (base,), attributes)(*arguments)
    return imitation
