"""Masking session IDs in URIs, in the raw keys of an environ and in log records.

Knows how a session pair is spelled, and nothing of who is calling. Standard library
only.
"""

import logging
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from itertools import product
from operator import is_
from typing import Any
from wsgiref.types import WSGIEnvironment

from flask_notifications.log import format_traceback

MASK = "REDACTED"

# Where servers and proxies keep the target of a request, or of the page before it.
_TARGETS = {
    *(
        "RAW_URI",
        "REQUEST_URI",
        "HTTP_REFERER",
        "UNENCODED_URL",
        "SCRIPT_URI",
        "SCRIPT_URL",
    ),
    *("REDIRECT_URI", "HTTP_X_WAWS_UNENCODED_URL", "HTTP_X_AUTH_REQUEST_REDIRECT"),
}
# Apache adds the prefix at each internal redirect.
_APACHE = (
    ["REDIRECT_", "REDIRECT_REDIRECT_"],
    ["QUERY_STRING", "REQUEST_URI", "SCRIPT_URI", "SCRIPT_URL", "URL"],
)
_PROXIES = [
    "ORIGINAL",
    "ENVOY_ORIGINAL",
    "MS_ORIGINAL",
    "FORWARDED",
    "REAL",
    "REPLACED",
    "REQUEST",
    "REWRITE",
]
_PARTS = ["_URI", "_URL", "_PATH", "_QUERY", "_QUERY_STRING", "_REQUEST_URI"]
_TARGETS.update(
    map("".join, [*product(*_APACHE), *product(["HTTP_X_"], _PROXIES, _PARTS)])
)

# Repeated groups are atomic, because Python before 3.11.5 goes on where the last
# repetition has failed (gh-106052).

# Before two hexadecimal digits: "%", which may itself be encoded any number of times,
# and escapes of Python and JSON.
_ESCAPE = r"(?:%(?>25)*+|\\(?:x|u00))"


def _spell(word: str) -> str:
    """Return a pattern for a word with each character plain or escaped."""
    return "".join(
        f"(?:{char}|{_ESCAPE}(?:{ord(char):02x}|{ord(char.upper()):02x}))"
        for char in word
    )


# What some parsers take for the same key: "sessionId[]", "user[sessionId]" and
# "sessionId+". Limits keep work linear.
_AFTER = rf"(?>\+|\[\w{{0,20}}\]?|\]|{_ESCAPE}(?:20|2b|5b\w{{0,20}}|5d)){{0,4}}+"
_EQUALS = _spell("=")
_COLOUR = r"(?:\x1b|\\x1b|\\u001b)\[[\d;]*+m"
# A pair begins after anything that is not part of a word, such as a delimiter, which
# may be escaped.
_START = rf"(?:(?<![\w%-])|{_ESCAPE}[0-9a-f]{{2}}|\\(?:u[0-9a-f]{{4}}|U[0-9a-f]{{8}}|[abfnrtv])|{_COLOUR})"
_PAIR = rf"{_START}{_spell('sessionid')}{_AFTER}(?:{_COLOUR})?{_EQUALS}"
# A value ends at a ";", at an escaped "&" and at the code of a colour only where
# another pair follows. It may have a colour of its own, and end in "=".
_NEXT_PAIR = rf"(?:;|{_ESCAPE}26|{_COLOUR})[^&#;=%\\\s\x1b]*+{_EQUALS}"
# A closing quote ends a value if white space, punctuation or the end of the string
# follows.
_UNQUOTE = r"""["'<>\\](?:[\s.,:;)\]}>]|\Z)"""
# Only before the characters that may end a value is more than one character looked at.
_VALUE_IN_URI = rf"(?>{_COLOUR})*+(?>[^&#;%\\\x1b]++|(?!{_NEXT_PAIR})[;%\\\x1b])*+"
_VALUE_IN_LOG = rf"(?>{_COLOUR})*+(?>[^&#\s;%\\\"'<>\x1b]++|(?!{_NEXT_PAIR}|{_UNQUOTE})[;%\\\"'<>\x1b])*+"
# Servers quote a whole header line when it is malformed; gunicorn's log format names
# headers "{authorization}i".
_HEADER = r"authorization(?:\}[ieo])?\W{1,8}(?:b\W)?bearer\ +"

_FLAGS = re.IGNORECASE | re.ASCII
_IN_URI = re.compile(f"({_PAIR}){_VALUE_IN_URI}", _FLAGS)
_IN_LOG = re.compile(f"({_PAIR}|{_HEADER}){_VALUE_IN_LOG}", _FLAGS)
# The name of a session ID or of such a header, in a mapping or among the attributes of
# a record.
_NAME = re.compile(
    rf"{_spell('sessionid')}{_AFTER}|\{{?(?:http_)?authorization(?:\}}[ieo])?", _FLAGS
)

# How many levels of containers are masked item by item; deeper ones are masked as a
# whole.
_DEPTH = 40


def redact_environ(environ: WSGIEnvironment) -> None:
    """Mask the value of every session pair in the targets of a request, in place."""
    for key in _TARGETS.intersection(environ):
        environ[key] = redact_uri(environ[key])


def redact_uri(uri: str) -> str:
    """Return a URI with the value of every session pair masked, even where only some
    parsers find a pair.
    """
    return _mask(_IN_URI, uri)


def redact_string(string: str) -> str:
    """Return a string, such as a log line, with the value of every session pair in it
    masked.
    """
    return _mask(_IN_LOG, string)


def _mask(pattern: re.Pattern[str], string: str) -> str:
    # Most of the hundred strings in a record of gunicorn's access log hold nothing, and
    # the patterns are slow.
    lower = string.lower()
    may_match = (
        "%" in string or "\\" in string or "sessionid" in lower or "bearer" in lower
    )
    return pattern.sub(lambda match: match[1] + MASK, string) if may_match else string


class SessionLogFilter(logging.Filter):
    """Mask session IDs in log records, such as those that servers write from their own
    copy of a request.

    Put it on each logger by name (``gunicorn.access``, ``gunicorn.error``,
    ``werkzeug``) or on a handler: a filter on a parent logger does not see the records
    of its children. It masks the value of each session pair, what follows
    ``Authorization: Bearer``, and each value with the name of one of them, in the
    message, the arguments, the exception with its causes, and every other attribute of
    a record. It drops no record. What it changes keeps its type, so that any formatter
    can use the record; only an object that is a session ID or whose string shows one is
    replaced by the masked string, and some exceptions by one whose type has the same
    name. Not masked: a session ID that nothing marks as one, and the local variables
    that some tools read from a traceback.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record in place; always ``True``."""
        if (
            type(record.msg) is dict and record.msg.get("exc_info") is True
        ):  # structlog looks it up later
            handled = sys.exception()
            if (replaced := _redact(handled)) is not handled:
                record.msg = {**record.msg, "exc_info": replaced}
        attributes = vars(record)
        for name, value in list(attributes.items()):
            if name != "msg" or not record.args:
                attributes[name] = _redact(value, _is_secret_name(name))
        _redact_message(record)
        kind, error, trace = (
            record.exc_info
            if isinstance(record.exc_info, tuple)
            else (None, None, None)
        )
        if isinstance(error, BaseException):
            if type(error) is not kind:
                record.exc_info = (type(error), error, trace)
            if not record.exc_text:  # its lines of source code may show a session ID
                traceback = format_traceback(error).rstrip("\n")
                masked = redact_string(traceback)
                record.exc_text = masked if masked != traceback else None
        return True


def _redact_message(record: logging.LogRecord) -> None:
    """Mask values that only the formatted message shows, such as one whose key is in
    the template.
    """
    template = _show(str, record.msg)
    # Empty if the record does not format, which logging itself reports with the
    # template and the arguments.
    message = _show(type(record).getMessage, record)
    # Formatting takes a pair of the template apart where its key is encoded, as "%73s"
    # is.
    is_split = any(pair[1] not in message for pair in _IN_LOG.finditer(template))
    masked = redact_string(template if is_split or not message else message)
    if masked == (message or template) or (
        isinstance(record.msg, Mapping) and not record.args
    ):
        return
    record.msg, record.args = masked, _redact(record.args, True)
    if message and record.args:
        # The new template consumes each positional argument, and shows no character of
        # it.
        consumed = "%.0s" * len(record.args) if isinstance(record.args, tuple) else ""
        record.msg = consumed + masked.replace("%", "%%")
        if (
            _show(type(record).getMessage, record) != masked
        ):  # a template of another kind
            record.msg, record.args = masked, ()


def _is_secret_name(name: object) -> bool:
    """Return whether a value of this name is a session ID, or a header with one."""
    name = name.decode("latin-1") if isinstance(name, bytes) else name
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _redact(value: Any, is_secret: bool = False, parents: tuple[int, ...] = ()) -> Any:
    """Return a value with every session ID in it masked, or the same object if it holds
    no session ID.

    ``is_secret`` is whether its name says that it is one as a whole. ``parents`` are
    the ``id()`` of the containers around it, of which it may be one again.
    """
    with suppress(
        Exception
    ):  # values are your application's, and their methods may raise anything
        if isinstance(value, bytes):
            masked = _redact(value.decode("latin-1"), is_secret).encode("latin-1")
            return value if masked == value else masked
        if isinstance(value, str):
            masked = MASK if is_secret else redact_string(value)
            return value if masked == value else masked
        if isinstance(value, BaseException) and not is_secret:
            return _redact_exception(value)
        is_container = isinstance(value, Mapping | tuple | list | set | frozenset)
        if is_container and len(parents) < _DEPTH and id(value) not in parents:
            return _redact_members(value, is_secret, (*parents, id(value)))
    return _redact_object(value, is_secret)


def _redact_members(value: Any, is_secret: bool, parents: tuple[int, ...]) -> Any:
    if isinstance(value, Mapping):
        items = {
            _redact(key, False, parents): _redact(
                item, is_secret or _is_secret_name(key), parents
            )
            for key, item in value.items()
        }
        is_same = all(map(is_, (*value, *value.values()), (*items, *items.values())))
        return value if is_same else _replace_items(value, items)
    secret = [is_secret] * len(value)
    if isinstance(value, tuple | list):  # a member may be the name of the next one
        for place, name in enumerate(value[:-1], 1):
            if _is_secret_name(name) and (
                len(value) == 2 or "bearer " in _show(str, value[place]).lower()
            ):
                secret[place] = True
    redacted = [
        _redact(member, each, parents)
        for member, each in zip(value, secret, strict=True)
    ]
    if all(map(is_, value, redacted)):
        return value
    return (
        tuple.__new__(type(value), redacted)
        if isinstance(value, tuple)
        else type(value)(redacted)
    )


def _replace_items(value: Any, items: dict[Any, Any]) -> Any:
    """Return a mapping of the same type with other items; a ``dict`` where that type
    cannot be changed.
    """
    with suppress(Exception):  # as mappings refuse changes in many ways
        replaced = copy(value)
        replaced.clear()
        replaced.update(items)
        return replaced
    return items


def _redact_object(value: Any, is_secret: bool = False) -> Any:
    """Return an object, or its masked string when it is a session ID or shows one."""
    if is_secret and not issubclass(
        type(value), int | float | None
    ):  # a status code, most probably
        return MASK
    for how in (str, repr):
        shown = _show(how, value)
        masked = redact_string(shown)
        if masked != shown:
            return masked
    return value


def _show(how: Callable[[Any], str], value: Any) -> str:
    try:
        return how(value)
    except Exception:  # noqa: BLE001 - an object that cannot be shown shows nothing
        return ""


def _redact_exception(error: BaseException) -> BaseException:
    """Return an exception, or an imitation with all that its traceback shows when a
    part of that shows a session ID.
    """
    errors: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    for each in waiting:  # which grows
        if each is not None and id(each) not in errors:
            errors[id(each)] = each
            members = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
            waiting += [each.__cause__, each.__context__, *members]
    parts = [
        part
        for each in errors.values()
        for part in (each, *each.args, *vars(each).values())
    ]
    if all(_redact_object(part) is part for part in parts):
        return error
    copies = {key: _imitate(each) for key, each in errors.items()}
    for key, each in errors.items():
        for name in (
            "__cause__",
            "__context__",
            "__suppress_context__",
            "__traceback__",
        ):
            state = getattr(each, name)
            # As an exception may be a frozen dataclass.
            object.__setattr__(copies[key], name, copies.get(id(state), state))
        if isinstance(each, BaseExceptionGroup):
            type(copies[key]).exceptions = tuple(  # type: ignore[attr-defined]
                copies[id(member)] for member in each.exceptions
            )
    return copies[id(error)]


def _imitate(error: BaseException) -> BaseException:
    """Return an exception that shows the masked string; its type is the same if it can
    be, or has the same name.
    """
    string, representation = shown = [
        redact_string(_show(how, error)) for how in (str, repr)
    ]
    kind, is_group = type(error), isinstance(error, BaseExceptionGroup)
    # Not part by part: exceptions that hold exceptions would be visited again and
    # again.
    state = {name: _redact_object(value) for name, value in vars(error).items()}
    if "__notes__" in state:
        state["__notes__"] = _redact(error.__notes__)
    with suppress(Exception):
        copied = kind.__new__(kind, *map(_redact_object, error.args))
        vars(copied).update(state)
        if not is_group and [_show(how, copied) for how in (str, repr)] == shown:
            return copied
    methods = {
        "__str__": lambda _self: string,
        "__repr__": lambda _self: representation,
    }
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    base, arguments = (
        (ExceptionGroup, (string, [Exception()]))
        if is_group
        else (Exception, (string,))
    )
    imitation: BaseException = type(kind.__name__, (base,), methods | names)(*arguments)
    vars(imitation).update(state)
    return imitation
