"""Masking session IDs in URIs, in the raw keys of an environ and in log records.

Knows how a session pair is spelled, and nothing of who is calling. Standard library only.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from operator import is_
from typing import TYPE_CHECKING, Any

from .log import format_traceback

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

MASK = "REDACTED"

_RAW_KEYS = ("RAW_URI", "REQUEST_URI", "HTTP_REFERER")


def _spell(word: str, escape: str) -> str:
    """Return a pattern for a word with each character plain or escaped."""
    return "".join(f"(?:{char}|{escape}(?:{ord(char):02x}|{ord(char.upper()):02x}))" for char in word)


# The key in any letter case, each character plain or percent-encoded: all that form-decodes to "sessionId".
SESSION_KEY = _spell("sessionid", "%")

# Before two hexadecimal digits: "%", which may itself be encoded any number of times, and escapes of Python and JSON.
_ESCAPE = r"(?:%(?:25)*+|\\x|\\u00)"
_EQUALS = _spell("=", _ESCAPE)
# A pair begins after anything that is not part of a word, such as a delimiter, which may be escaped, or after the code
# of a colour.
_COLOUR = r"\x1b\[[\d;]*+m"
_BEFORE = rf"(?:(?<![\w%-])|{_ESCAPE}[0-9a-f]{{2}}|\\u[0-9a-f]{{4}}|\\U[0-9a-f]{{8}}|\\[abfnrtv]|{_COLOUR})"
_PAIR = rf"{_BEFORE}{_spell('sessionid', _ESCAPE)}{_EQUALS}"
# A value ends at a ";" and at an escaped "&" only where another pair follows.
_NEXT_PAIR = rf"(?:;|{_ESCAPE}26)[^&#;=%\\\s]*+{_EQUALS}"
# Servers quote a whole header line when it is malformed; gunicorn's log format names headers "{authorization}i".
_HEADER = r"authorization(?:\}[ieo])?\W{1,8}(?:b\W)?bearer\ +"
# A name whose value is a session ID or such a header, in a mapping or in the attributes of a record.
_NAME = re.compile(
    rf"{_spell('sessionid', _ESCAPE)}|\{{?(?:http_)?authorization(?:\}}[ieo])?", re.IGNORECASE | re.ASCII
)
# A closing quote ends a value if white space, punctuation or the end of the string follows.
_UNQUOTE = r"""["'<>\\](?:[\s.,:;)\]}>]|\Z)"""

_IN_URI = re.compile(rf"({_PAIR})(?:(?!{_NEXT_PAIR})[^&#])*+", re.IGNORECASE | re.ASCII)
_IN_LOG = re.compile(rf"({_PAIR}|{_HEADER})(?:(?!{_NEXT_PAIR}|{_UNQUOTE})[^&#\s])*+", re.IGNORECASE | re.ASCII)

# How many levels of containers are masked item by item; deeper ones are masked as a whole.
_DEPTH = 20


def redact_environ(environ: "WSGIEnvironment") -> None:
    """Mask the value of every session pair in the raw target and the Referer of a request, in place."""
    for key in _RAW_KEYS:
        if key in environ:
            environ[key] = redact_uri(environ[key])


def redact_uri(uri: str) -> str:
    """Return a URI with the value of every session pair masked, even where only some parsers find a pair."""
    return _IN_URI.sub(_mask_match, uri) if _may_name_session(uri) else uri


def redact_string(string: str) -> str:
    """Return a string, such as a log line, with the value of every session pair in it masked."""
    return _IN_LOG.sub(_mask_match, string) if _may_name_session(string) else string


def _may_name_session(string: str) -> bool:
    """Return whether a string may hold a session pair or a bearer token; most have no key that ends as theirs do.

    There are about a hundred strings in a record of gunicorn's access log. Without this check it takes 0.27 ms to mask
    such a record, instead of 0.17 ms.
    """
    lower = string.lower()
    return "d=" in lower or "4=" in lower or "3d" in lower or "bearer" in lower


def _mask_match(pair: re.Match[str]) -> str:
    return pair[1] + MASK


class SessionLogFilter(logging.Filter):
    """Mask session IDs in log records, such as those that servers write from their own copy of a request.

    Put it on each logger by name (``gunicorn.access``, ``gunicorn.error``, ``werkzeug``) or on a handler: a filter on
    a parent logger does not see the records of its children. It masks the value of each session pair, and what follows
    ``Authorization: Bearer``, in the message, the arguments, the exception with its causes, and every other attribute
    of a record. It drops no record. What it changes keeps its type, so that any formatter can use the record; only an
    object whose string shows a session ID is replaced by the masked string. Not masked: a session ID that nothing marks
    as one, and the local variables that some tools read from a traceback.
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
    """Mask what only the formatted message shows, such as a value whose key is in the template."""
    try:
        template, message = str(record.msg), record.getMessage()
    except Exception:  # noqa: BLE001 - logging itself reports such a record, with its template and its arguments
        _redact_unformatted(record)
        return
    masked = redact_string(message)
    if _has_split_pair(template, message):
        masked = redact_string(template)
    if masked == message:
        return
    if isinstance(record.msg, Mapping) and not record.args:
        record.msg = _replace_items(record.msg, {key: _redact_object(item) for key, item in record.msg.items()})
        return
    values = [found[0].removeprefix(found[1]) for found in _IN_LOG.finditer(message)]
    secrets = {*values, *(value.removeprefix("b").strip("'\"") for value in values)}  # as %r shows strings and bytes
    arguments = _map_arguments(record.args, lambda value: _mask_secret(value, secrets))
    # The new template is the masked message. It consumes each positional argument, and shows no character of it.
    consumed = "%.0s" * len(arguments) if isinstance(arguments, tuple) else ""
    record.msg, record.args = consumed + masked.replace("%", "%%") if arguments else masked, arguments
    with suppress(Exception):
        if record.getMessage() == masked:
            return
    record.msg, record.args = masked, ()  # a record whose template is of another kind


def _has_split_pair(template: str, message: str) -> bool:
    """Return whether formatting took a pair of the template apart, as ``%73s`` in an encoded key does."""
    return _may_name_session(template) and any(found[1] not in message for found in _IN_LOG.finditer(template))


def _redact_unformatted(record: logging.LogRecord) -> None:
    """Mask the template and, where it has a session pair, every string among the arguments."""
    template = _redact(record.msg)
    if template is not record.msg:
        record.msg = template
        record.args = _map_arguments(record.args, lambda value: MASK if isinstance(value, str) else value)


def _redact_source_lines(record: logging.LogRecord) -> None:
    """Mask the traceback as a whole where its lines of source code show a session ID."""
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if error is not None and not record.exc_text:
        traceback = format_traceback(error).rstrip("\n")
        masked = redact_string(traceback)
        record.exc_text = None if masked == traceback else masked


def _map_arguments(arguments: Any, function: Callable[[Any], object]) -> Any:
    """Return the arguments of a record, each replaced; ``None`` for what is neither a tuple nor a mapping."""
    if isinstance(arguments, tuple):
        return tuple(map(function, arguments))
    if isinstance(arguments, Mapping):
        return _replace_items(arguments, {key: function(item) for key, item in arguments.items()})
    return None


def _mask_secret(value: object, secrets: set[str]) -> object:
    """Return an argument, masked when one of its words is a secret."""
    if isinstance(value, int | float):  # a status code, most probably
        return value
    words = _to_string(value) if isinstance(value, str | bytes) else _show(str, value)
    if secrets.isdisjoint(words.split()):
        return value
    return _replace_string(value, MASK) if isinstance(value, str | bytes) else MASK


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
            items = {_redact(key, parents): _redact_item(key, item, parents) for key, item in value.items()}
            is_same = all(map(is_, items, value)) and all(map(is_, items.values(), value.values()))
            return value if is_same else _replace_items(value, items)
        case tuple() | list():
            return _replace_members(value, _redact_members(value, parents))
        case set() | frozenset():
            members = {_redact(member, parents) for member in value}
            return value if members == value else type(value)(members)
        case _:
            return _redact_object(value)


def _redact_item(key: object, value: Any, parents: tuple[int, ...] = ()) -> Any:
    """Return the value of a key: the two may be a session pair, or an ``Authorization`` header."""
    if key == "exc_info" and value is True:  # what structlog understands as the exception that is being handled
        handled = sys.exc_info()
        masked = _redact(handled, parents)
        return value if masked is handled else masked
    if isinstance(key, str | bytes) and isinstance(value, str | bytes) and _NAME.fullmatch(_to_string(key)):
        name = f"{_to_string(key)}="
        return _replace_string(value, redact_string(name + _to_string(value)).removeprefix(name))
    return _redact(value, parents)


def _redact_members(members: tuple[Any, ...] | list[Any], parents: tuple[int, ...]) -> list[Any]:
    if len(members) == 2:  # perhaps the name and the value of a header
        key, value = members
        return [_redact(key, parents), _redact_item(key, value, parents)]
    return [_redact(member, parents) for member in members]


def _replace_members(value: Any, members: list[Any]) -> Any:
    if all(map(is_, members, value)):
        return value
    if isinstance(value, tuple):
        return tuple.__new__(type(value), members)
    replaced = copy(value)
    replaced[:] = members
    return replaced


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
    return str.__new__(type(value), string) if isinstance(value, str) else type(value)(string.encode("latin-1"))


class _Shown(str):
    """The masked string of an object, with its masked representation."""

    __slots__ = ("representation",)
    representation: str

    def __repr__(self) -> str:
        return self.representation


def _redact_object(value: Any) -> Any:
    """Return an object, or its masked string when it shows a session ID."""
    string, representation = _show(str, value), _show(repr, value)
    masked, masked_representation = redact_string(string), redact_string(representation)
    if (masked, masked_representation) == (string, representation):
        return value
    shown = _Shown(masked)
    shown.representation = masked_representation
    return shown


def _show(how: Callable[[object], str], value: object) -> str:
    try:
        return how(value)
    except Exception:  # noqa: BLE001 - what cannot be shown shows nothing
        return ""


def _redact_exception(error: BaseException) -> BaseException:
    """Return an exception with its causes, contexts and members, copied when one of them shows a session ID."""
    errors = list(_walk(error))
    if not any(map(_shows_session, errors)):
        return error
    copies: dict[int, BaseException] = {}
    for each in errors:
        _copy_exception(each, copies)
    for each in errors:
        for name in ("__cause__", "__context__"):
            # As an exception may be a frozen dataclass.
            object.__setattr__(copies[id(each)], name, copies.get(id(getattr(each, name))))
        for name in ("__suppress_context__", "__traceback__"):
            object.__setattr__(copies[id(each)], name, getattr(each, name))
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


def _copy_exception(error: BaseException, copies: dict[int, BaseException]) -> BaseException:
    if id(error) not in copies:
        if isinstance(error, BaseExceptionGroup):
            members = [_copy_exception(member, copies) for member in error.exceptions]
            arguments: tuple[Any, ...] = (redact_string(error.message), members)
        else:
            arguments = tuple(map(_redact_attribute, error.args))
        copies[id(error)] = _copy_type(error, arguments) or _imitate_type(error, arguments)
    return copies[id(error)]


def _redact_attribute(value: Any) -> Any:
    # Not part by part: exceptions that hold exceptions, as their causes do too, would be visited again and again.
    return _redact(value) if isinstance(value, str | bytes) else _redact_object(value)


def _copy_type(error: BaseException, arguments: tuple[Any, ...]) -> BaseException | None:
    """Return a copy of an exception, or ``None`` if the copy's string differs from the masked string."""
    with suppress(Exception):
        copied = type(error).__new__(type(error), *arguments)
        vars(copied).update({name: _redact_attribute(value) for name, value in vars(error).items()}, **_notes(error))
        if [_show(how, copied) for how in (str, repr)] == [redact_string(_show(how, error)) for how in (str, repr)]:
            return copied
    return None


def _imitate_type(error: BaseException, arguments: tuple[Any, ...]) -> BaseException:
    """Return an exception whose type has the same name, and shows the masked string."""
    kinds = (ExceptionGroup, BaseExceptionGroup, Exception, BaseException)
    string, representation = (redact_string(_show(how, error)) for how in (str, repr))
    attributes = {
        "__module__": type(error).__module__,
        "__qualname__": type(error).__qualname__,
        "__str__": lambda _self: string,
        "__repr__": lambda _self: representation,
    }
    base = next(kind for kind in kinds if isinstance(error, kind))
    imitation: BaseException = type(type(error).__name__, (base,), attributes)(*arguments)
    vars(imitation).update(_notes(error))
    return imitation


def _notes(error: BaseException) -> dict[str, Any]:
    return {"__notes__": _redact(error.__notes__)} if hasattr(error, "__notes__") else {}
