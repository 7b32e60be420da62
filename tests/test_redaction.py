"""Session IDs are masked in the raw keys of an environ and in log records; logging
never raises.
"""

import logging
import traceback
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flask_notifications import SessionLogFilter, log
from flask_notifications.log import format_traceback, log_error, log_exception
from flask_notifications.sessions.redaction import (
    redact_environ,
    redact_string,
    redact_uri,
)
from tests.frameworks.applications import library
from tests.growth import grows_linearly
from tests.storages import raise_and_catch, raising


@pytest.mark.parametrize(
    "key",
    [
        *(
            "RAW_URI",
            "REQUEST_URI",
            "UNENCODED_URL",
            "REDIRECT_QUERY_STRING",
            "REDIRECT_URL",
            "HTTP_REFERER",
        ),
        *(
            "HTTP_X_ORIGINAL_URI",
            "HTTP_X_ORIGINAL_URL",
            "HTTP_X_REWRITE_URL",
            "HTTP_X_FORWARDED_URI",
        ),
        *(
            "REDIRECT_URI",
            "REDIRECT_REDIRECT_URL",
            "HTTP_X_MS_ORIGINAL_URL",
            "HTTP_X_ORIGINAL_QUERY_STRING",
        ),
        *(
            "HTTP_X_FORWARDED_PATH",
            "HTTP_X_ENVOY_ORIGINAL_PATH",
            "HTTP_X_WAWS_UNENCODED_URL",
            "SCRIPT_URI",
        ),
    ],
)
def test_every_key_for_a_target_is_masked_and_no_other(key: str) -> None:
    cookie = {"HTTP_COOKIE": "a=1; sessionId=KEEP", "QUERY_STRING": "sessionId=KEEP"}
    environ = {key: "/p?sessionId=S3CRET", **cookie}
    redact_environ(environ)
    assert environ == {key: "/p?sessionId=REDACTED", **cookie}


@pytest.mark.parametrize(
    ("uri", "left"),
    [
        pytest.param(
            "/p?sessionId=S3CRET;S3CRET", "/p?sessionId=REDACTED", id="; in the value"
        ),
        pytest.param(
            "/p?a=1%26sessionId=S3CRET&b=2",
            "/p?a=1%26sessionId=REDACTED&b=2",
            id="after an encoded &",
        ),
        pytest.param(
            "/?n=%252F%253FsessionId%253DS3%2526b",
            "/?n=%252F%253FsessionId%253DREDACTED",
            id="twice",
        ),
        pytest.param(
            "/p?sessionId=S3CRET%26S3CRET",
            "/p?sessionId=REDACTED",
            id="an encoded & in the value",
        ),
        pytest.param(
            "/p?sessionId=S3CRET%26b=2",
            "/p?sessionId=REDACTED%26b=2",
            id="an encoded &, then a pair",
        ),
        pytest.param(
            "/p?sessionId[=S3&sessionId[0]=S3",
            "/p?sessionId[=REDACTED&sessionId[0]=REDACTED",
            id="[]",
        ),
        pytest.param(
            r"/p?sessionId\x3dS3CRET",
            r"/p?sessionId\x3dREDACTED",
            id="an escape of Python",
        ),
        pytest.param(
            "/?mysessionId=K&my-sessionId=K&my%73essionId=K&%sessionId=K&sessionId",
            None,
            id="nothing",
        ),
    ],
)
def test_the_value_is_redacted_in_uris(uri: str, left: str | None) -> None:
    assert redact_uri(uri) == (uri if left is None else left)


def filter_record(msg: object, *args: object, **extra: Any) -> logging.LogRecord:
    record = logging.LogRecord(
        "gunicorn.access", logging.INFO, "", 0, msg, args, extra.pop("exc_info", None)
    )
    vars(record).update(extra)
    assert SessionLogFilter().filter(record)
    return record


@pytest.mark.parametrize(
    ("line", "left"),
    [
        pytest.param(
            '"GET /p?sessionId=S3CRET HTTP/1.1" 200',
            '"GET /p?sessionId=REDACTED HTTP/1.1" 200',
            id="line",
        ),
        pytest.param(
            "/p?sessionId%5b0%5d=S3CRET 200",
            "/p?sessionId%5b0%5d=REDACTED 200",
            id="[0], encoded",
        ),
        pytest.param(
            r"'/p?\nsessionId=S3CRET'",
            r"'/p?\nsessionId=REDACTED'",
            id="a line feed as in repr",
        ),
        pytest.param(
            r"\U0001f600sessionId=S3CRET",
            r"\U0001f600sessionId=REDACTED",
            id="an escape of eight digits",
        ),
        pytest.param(
            r'"/p?a\u0026sessionId\u003dS3CRET"',
            r'"/p?a\u0026sessionId\u003dREDACTED"',
            id="as in JSON",
        ),
        pytest.param(
            "q=\x1b[1;35msessionId=S3CRET",
            "q=\x1b[1;35msessionId=REDACTED",
            id="after a colour",
        ),
        pytest.param(
            "sessionId=\x1b[1mS3\x1b[1;35msessionId=S3",
            "sessionId=REDACTED\x1b[1;35msessionId=REDACTED",
            id="colours",
        ),
        pytest.param(
            "sessionId=\x1b[1m\x1b[35mS3==\x1b[0m 1",
            "sessionId=REDACTED 1",
            id="a colour, and padding",
        ),
        pytest.param(
            "\x1b[36msessionId\x1b[m=S3",
            "\x1b[36msessionId\x1b[m=REDACTED",
            id="before the =",
        ),
        pytest.param(
            r"'\x1b[1msessionId=S3'",
            r"'\x1b[1msessionId=REDACTED'",
            id="a colour as in repr",
        ),
        pytest.param(
            "Authorization: Bearer S3CRET",
            "Authorization: Bearer REDACTED",
            id="a header",
        ),
        pytest.param("Seen: bearer KEEP", None, id="another header"),
        pytest.param(
            "/p?mysessionId=KEEP&sessionIdx=KEEP&q=sessionId %d \xff",
            None,
            id="nothing to mask",
        ),
    ],
)
def test_the_value_is_masked_in_a_log_line_and_every_other_byte_stays(
    line: str, left: str | None
) -> None:
    expected = line if left is None else left
    for record in (
        filter_record(line),
        filter_record("%s", line),
        filter_record("%(line)s", {"line": line}),
    ):
        assert record.getMessage() == expected


@pytest.mark.parametrize("sign", ['"', "'", "<", ">", "\\"])
@pytest.mark.parametrize(
    "end", [" x", ".x", ",x", ":x", ";x", ")x", "]x", "}x", ">x", ""]
)
def test_a_quote_or_bracket_at_the_end_of_a_quotation_ends_a_value(
    sign: str, end: str
) -> None:
    assert (
        filter_record(f"sessionId=S3CRET{sign}{end}").getMessage()
        == f"sessionId=REDACTED{sign}{end}"
    )
    assert (
        filter_record(f"sessionId=S3{sign}CRET{sign}{end}").getMessage()
        == f"sessionId=REDACTED{sign}{end}"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("sessionId=%s", "REDACTED"), "sessionId=REDACTED", id="masked already"
        ),
        pytest.param(
            ("%s: %s %s", "sessionId", "is", "missing"),
            "sessionId: is missing",
            id="a name, but no pair",
        ),
        (
            ("%s %d%%", "?a=%41%s&sessionId=S3CRET&b=%(x)s", 100),
            "?a=%41%s&sessionId=REDACTED&b=%(x)s 100%",
        ),
    ],
)
def test_a_template_is_filled_in_as_logging_does(
    arguments: tuple[str, object], message: str
) -> None:
    assert filter_record(*arguments).getMessage() == message


def test_a_message_that_does_not_format_is_left_to_logging() -> None:
    record = filter_record("%d %d", "/p?sessionId=S3CRET")
    assert (record.msg, record.args) == ("%d %d", ("/p?sessionId=REDACTED",))
    with pytest.raises(TypeError):
        record.getMessage()


def test_a_line_of_source_code_in_a_traceback_is_masked() -> None:
    with pytest.raises(LookupError) as caught:
        raise LookupError  # ?sessionId=S3CRET
    record = filter_record("failed", exc_info=(caught.type, caught.value, caught.tb))
    lines = logging.Formatter().format(record).split("\n")
    assert (lines[-1], "    raise LookupError  # ?sessionId=REDACTED" in lines) == (
        "LookupError",
        True,
    )


def test_a_traceback_that_another_formatter_has_cached_is_masked_too() -> None:
    record = filter_record(
        "",
        exc_info=(ValueError, ValueError(), None),
        exc_text="formatted ?sessionId=S3CRET",
    )
    assert record.exc_text == "formatted ?sessionId=REDACTED"


def make_structlog_formatter() -> Any:
    structlog = library("structlog")
    remove, render = (
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.JSONRenderer(),
    )
    processors = [
        structlog.stdlib.ExtraAdder(),
        structlog.processors.format_exc_info,
        remove,
        render,
    ]
    return structlog.stdlib.ProcessorFormatter(processors=processors)


FORMATTERS: dict[str, Callable[[], logging.Formatter]] = {
    "logging": logging.Formatter,
    "python-json-logger": lambda: library("pythonjsonlogger.json").JsonFormatter(
        "%(message)s %(args)s"
    ),
    "structlog": make_structlog_formatter,
}


def format_with(formatter: str, record: logging.LogRecord) -> str:
    """Return the output of a formatter, which may change its copy of the record."""
    return FORMATTERS[formatter]().format(copy(record))


class StrangeError(Exception):
    """An exception that has its own string, and cannot be rebuilt from its arguments
    and attributes.
    """

    __slots__ = ("uri",)

    def __init__(self, *, uri: str) -> None:
        self.uri = uri

    def __str__(self) -> str:
        return f"no {self.uri}"


@dataclass(frozen=True)
class FrozenError(Exception):
    uri: str


URI = "/p?a=1&sessionId=S3CRET&b=2"
MASKED = "/p?a=1&sessionId=REDACTED&b=2"


@pytest.mark.parametrize("formatter", FORMATTERS)
@pytest.mark.parametrize(
    ("msg", "args"),
    [
        pytest.param(
            "%(r)s %(s)s", ({"r": f"GET {URI} HTTP/1.1", "s": "200"},), id="a mapping"
        ),
        pytest.param(
            "%s %r",
            (URI.encode(), [URI, (URI, 1), {URI: URI}, {URI}, frozenset({URI})]),
            id="containers",
        ),
        pytest.param(
            "%s %s",
            ([("Authorization", "Bearer S3CRET")], {"sessionId": "S3CRET"}),
            id="names and values",
        ),
        pytest.param(
            "%s %s",
            ({"a": 1, "sessionId": ["S3CRET", "a S3CRET"]}, 1),
            id="a list of values",
        ),
        pytest.param(
            "%s",
            ({"sessionId": {"a": ValueError("S3CRET")}},),
            id="a name of an object",
        ),
        pytest.param(
            "%s",
            ({"exc_info": {"sessionId": "S3CRET"}},),
            id="a name in an exception's state",
        ),
        pytest.param(
            "%s %s",
            (["authorization", "Bearer S3CRET"], [(b"sessionid", b"S3CRET")]),
            id="pairs",
        ),
        pytest.param("%s", (urlsplit(URI),), id="a named tuple"),
        pytest.param(
            "?sessionId=%s %d", ("S3CRET", 200), id="the key is in the template"
        ),
        pytest.param(
            "?sessionId=%s %s %d",
            (b"S3CRET", None, 200),
            id="bytes, nothing and a number",
        ),
        pytest.param(
            "?sessionId=%(id)s %(status)d%%",
            ({"id": "S3CRET", "status": 200},),
            id="a template with names",
        ),
        pytest.param(
            {
                "event": "request",
                "uri": URI,
                "headers": {"Authorization": "Bearer S3CRET"},
            },
            (),
            id="a dict",
        ),
        pytest.param(
            {"flat": ["x", "authorization", "Bearer S3CRET", 1]},
            (),
            id="names and values in one list",
        ),
        pytest.param(
            "sessionId=%s %d",
            ("S3CRET",),
            id="a template that has the key and does not format",
        ),
        pytest.param(
            "sessionId=%(id)s %d",
            ({"id": "S3CRET"},),
            id="a template that has names and does not format",
        ),
    ],
)
def test_a_masked_record_keeps_its_types(
    msg: object, args: tuple[Any, ...], formatter: str
) -> None:
    before = logging.LogRecord("gunicorn.access", logging.INFO, "", 0, msg, args, None)
    record = filter_record(msg, *args)
    assert [type(value) for value in record.args or ()] == [
        type(value) for value in before.args or ()
    ]
    assert type(record.args) is type(before.args)
    assert isinstance(record.msg, dict) == isinstance(msg, dict)
    assert "S3CRET" not in f"{record.msg!s} {record.args!r} {vars(record)!r}"
    try:
        format_with(formatter, before)
    except (TypeError, ValueError):
        return
    line = format_with(formatter, record)
    assert "S3CRET" not in line
    assert "REDACTED" in line


@pytest.mark.parametrize("formatter", FORMATTERS)
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError(f"no {URI}"), id="a built-in exception"),
        pytest.param(FileNotFoundError(2, "missing", URI), id="OSError"),
        pytest.param(
            SyntaxError("bad", ("page.py", 1, 2, URI)),
            id="SyntaxError, whose attributes a traceback shows",
        ),
        pytest.param(
            StrangeError(uri=URI), id="an exception with its own string, and slots"
        ),
        pytest.param(FrozenError(URI), id="a frozen dataclass"),
        pytest.param(
            ExceptionGroup(URI, [ValueError(URI), ExceptionGroup("x", [OSError(URI)])]),
            id="a group",
        ),
    ],
)
def test_an_exception_is_masked_for_every_formatter(
    error: BaseException, formatter: str
) -> None:
    vars(error)["__notes__"] = [f"note {URI}"]
    caught = raise_and_catch(error, raise_and_catch(LookupError(f"cause {URI}")))
    record = filter_record(
        "failed", exc_info=(type(caught), caught, caught.__traceback__)
    )
    assert "S3CRET" not in "".join(
        traceback.TracebackException(*vars(record)["exc_info"]).format()
    )
    line = format_with(formatter, record)
    assert "S3CRET" not in f"{line} {vars(record)}"
    for part in (
        type(error).__name__,
        f"note {MASKED}",
        f"LookupError: cause {MASKED}",
        "in raise_and_catch",
    ):
        assert part in line.replace("\\'", "'")
    assert "S3CRET" in "".join(
        traceback.format_exception(caught)
    )  # the original exception is not changed


def test_an_exception_without_a_session_is_not_copied() -> None:
    caught = raise_and_catch(
        ValueError("no page"), raise_and_catch(LookupError("cause"))
    )
    info = (type(caught), caught, caught.__traceback__)
    record = filter_record("failed %s", caught, exc_info=info)
    assert record.exc_info is info
    assert (record.args, record.exc_text) == ((caught,), None)


def test_a_masked_exception_keeps_its_type_attributes_traceback_cause_context_and_notes() -> (
    None
):
    caught = raise_and_catch(ValueError(URI), raise_and_catch(LookupError("cause")))
    caught.__context__ = raise_and_catch(OSError(URI))
    vars(caught).update(status=404, uri=URI)
    caught.add_note("note")
    record = filter_record("", exc_info=(ValueError, caught, caught.__traceback__))
    record_type, masked, trace = vars(record)["exc_info"]
    assert (record_type, type(masked), masked.__suppress_context__) == (
        ValueError,
        ValueError,
        True,
    )
    assert (masked.args, masked.status, masked.uri, masked.__notes__) == (
        (MASKED,),
        404,
        MASKED,
        ["note"],
    )
    assert masked.__traceback__ is trace is caught.__traceback__
    assert (
        repr((masked.__cause__, masked.__context__))
        == f"(LookupError('cause'), OSError('{MASKED}'))"
    )


def test_an_attribute_that_no_traceback_shows_is_masked() -> None:
    error = ValueError("no page")
    vars(error)["uri"] = URI
    assert (
        vars(filter_record("", exc_info=(ValueError, error, None)))["exc_info"][1].uri
        == MASKED
    )


def test_exceptions_that_refer_to_each_other_are_masked() -> None:
    first, second = ValueError(URI), LookupError("x")
    first.__cause__, second.__context__ = second, first
    second.args = (first,)
    vars(first)["itself"] = first
    masked = vars(filter_record("", exc_info=(ValueError, first, None)))["exc_info"][1]
    assert masked.__cause__.__context__ is masked
    assert (
        masked.__cause__.__suppress_context__ is False
    )  # so that a traceback shows its context
    assert "S3CRET" not in repr((masked, masked.__cause__))


def test_extra_attributes_are_masked_and_keep_their_type() -> None:
    show, hide = Mock(return_value=URI), Mock(return_value="page")
    page = type("Page", (), {"__str__": show, "__repr__": hide})()
    view = type("Page", (), {"__str__": hide, "__repr__": show})()
    extra = {
        "uri": URI,
        "page": page,
        "view": view,
        "sessionId": "S3CRET",
        "size": 3,
        "headers": {"Referer": URI},
    }
    record = filter_record("request", **extra)
    assert "S3CRET" not in f"{vars(record)} {vars(record)['page']}"
    masked = {
        "uri": MASKED,
        "sessionId": "REDACTED",
        "size": 3,
        "headers": {"Referer": MASKED},
    }
    assert vars(record).items() >= masked.items()
    assert extra["headers"] == {"Referer": URI}  # the original is not changed


def test_containers_that_contain_themselves_are_masked() -> None:
    ring: list[Any] = [URI]
    ring += [ring, ring]
    record = filter_record("%s", ring, tree={"ring": ring})
    assert "S3CRET" not in f"{record.getMessage()} {record.args} {vars(record)}"


class BraceRecord(logging.LogRecord):
    """A record with a template for ``str.format``."""

    def getMessage(self) -> str:  # noqa: N802 - overrides a method of logging
        return str(self.msg).format(*self.args or ())


def test_records_of_unusual_kinds_are_masked() -> None:
    record = filter_record("%(uri)s", MappingProxyType({"uri": URI}))
    assert (record.getMessage(), record.args) == (MASKED, {"uri": MASKED})
    with_list = logging.makeLogRecord({"msg": "sessionId=%s", "args": ["S3CRET"]})
    with_braces = BraceRecord(
        "x", logging.INFO, "", 0, "sessionId={} %", ("S3CRET",), None
    )
    for record, message in (
        (with_list, "sessionId=REDACTED']"),
        (with_braces, "sessionId=REDACTED %"),
    ):
        SessionLogFilter().filter(record)
        assert record.getMessage() == message
        assert "S3CRET" not in repr(vars(record))


def test_the_exception_that_structlog_will_look_up_is_masked() -> None:
    try:
        raise LookupError(URI)  # noqa: TRY301 - to get a traceback
    except LookupError:
        record = filter_record(
            {"event": "failed", "exc_info": True}, _logger=None, _name="x"
        )
        assert "S3CRET" not in format_with("structlog", record)
    try:
        raise LookupError  # noqa: TRY301 - to be the exception that is being handled
    except LookupError:
        assert filter_record({"event": "failed", "exc_info": True}).msg == {
            "event": "failed",
            "exc_info": True,
        }
    assert filter_record({"event": "failed", "exc_info": True}).msg == {
        "event": "failed",
        "exc_info": True,
    }


class Broken:
    def __str__(self) -> str:
        raise LookupError

    __repr__ = __str__


class BrokenString(Broken, str):
    __slots__ = ()


BROKEN_MAPPING = type("BrokenMapping", (dict,), {"items": raising(LookupError())})(a=1)


@pytest.mark.parametrize(
    "value",
    [Broken(), [Broken()], BrokenString(URI), BROKEN_MAPPING, 10**5000],
    ids=type,
)
def test_a_value_whose_methods_fail_does_not_make_the_filter_raise(
    value: object,
) -> None:
    record = filter_record("request", value, extra=value)
    assert record.msg == "request"
    filter_record(value)


def test_a_lazy_object_whose_class_cannot_be_found_does_not_make_the_filter_raise() -> (
    None
):
    lazy: object = type(
        "Lazy", (), {"__class__": property(Mock(side_effect=LookupError))}
    )()
    record = filter_record(lazy, user=lazy, sessionId=lazy)
    assert record.msg is vars(record)["user"] is lazy
    assert vars(record)["sessionId"] == "REDACTED"


DELIMITERS = st.sampled_from(
    ["?", "&", "#", ";", "\n", " ", '"', "'", "/", ",", "(", "\xe9", "\x00"]
)
ENCODED = [
    "%3F",
    "%3f",
    "%26",
    "%23",
    "%3B",
    "%3b",
    "%0A",
    "%0a",
    "%253F",
    "%25253f",
    "%20",
    "%22",
]
VALUES = st.text("ABCxyz019-._~+/", max_size=8).map("S3CRET".__add__)


def spellings(string: str) -> st.SearchStrategy[str]:
    """Return spellings of a string: in any letter case, each character plain or encoded
    once or twice.
    """
    ways = [
        [
            way
            for each in (char, char.upper())
            for way in (each, *(f"{sign}{ord(each):02x}" for sign in ("%", "%25")))
        ]
        for char in string
    ]
    return st.tuples(
        *(st.sampled_from(way + [each.upper() for each in way]) for way in ways)
    ).map("".join)


PAIRS = st.tuples(
    DELIMITERS | st.sampled_from(ENCODED),
    spellings("sessionid"),
    spellings("="),
    VALUES,
).map("".join)
LINES = st.tuples(
    st.text(max_size=5),
    PAIRS,
    st.sampled_from(["", " x", "&b=2", "#top", '"', "%26c=3"]),
).map("".join)
NUMBERS = st.none() | st.booleans() | st.integers() | st.floats()
BYTES = LINES.map(lambda line: line.encode("utf-8", "replace"))
ERRORS = LINES.map(ValueError) | LINES.map(lambda line: OSError(2, line, line))


def containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    lists = st.lists(inner, max_size=3)
    return (
        lists
        | lists.map(tuple)
        | st.dictionaries(st.text(max_size=3) | LINES, inner, max_size=3)
    )


TREES = st.recursive(
    NUMBERS | st.text(max_size=5) | LINES | BYTES | ERRORS, containers, max_leaves=8
)
DIRECTIVES = st.sampled_from(
    ["%s", "%r", "%d", "%%", "%.3s", "%(a)s", "%5", " ", "=", "%a"]
)
TEMPLATES = st.lists(DIRECTIVES | LINES, max_size=5).map("".join)


@example("?sessionId=S3CRET&se%73sionId=S3CRET %s", [None, 1], None, None)
@example(["?se%73sionId=S3CRET"], [None], None, None)
@example({"": "'?sessionId=S3CRET'"}, [], None, None)
@given(
    TEMPLATES | TREES,
    st.lists(TREES, max_size=3) | st.dictionaries(st.just("a"), TREES),
    TREES,
    TREES,
)
def test_no_record_shows_a_session_or_loses_its_line(
    msg: object, args: Any, extra: object, error: object
) -> None:
    values = (args,) if isinstance(args, dict) else tuple(args)
    info = (
        (type(error), raise_and_catch(error), error.__traceback__)
        if isinstance(error, BaseException)
        else None
    )
    before = logging.LogRecord("x", logging.INFO, "", 0, msg, values, info)
    record = filter_record(msg, *values, more=extra, exc_info=info)
    assert (
        "S3CRET"
        not in f"{record.msg!s} {record.msg!r} {record.args!r} {vars(record)!r}"
    )
    assert type(record.args) is type(before.args)
    assert len(record.args or ()) == len(before.args or ())
    try:
        before.getMessage()
    except (KeyError, TypeError, ValueError):
        return  # arguments that do not fit the template
    once = record.getMessage()
    assert "S3CRET" not in once + logging.Formatter().format(copy(record))
    assert SessionLogFilter().filter(record)
    assert record.getMessage() == once


@given(st.lists(LINES | st.text(max_size=9), max_size=4).map("".join))
def test_a_masked_string_is_not_masked_again(string: str) -> None:
    for redact in (redact_string, redact_uri):
        once = redact(string)
        assert redact(once) == once
        assert "S3CRET" not in once


UNITS = [
    *(
        '"',
        "\\",
        ";",
        ";a",
        "&",
        "=",
        "%",
        "%25",
        "25",
        "%3F",
        "%26",
        "%26a",
        "%26a%3D",
        "%73",
        " ",
        "\t",
        "a ",
        "s",
    ),
    *(
        "sessionId",
        "sessionId=",
        "&sessionId=",
        "sessionId[",
        ";sessionId=",
        "%3FsessionId%3D",
        "%26sessionId=",
        "%5b",
    ),
    *(
        "%2525",
        "\\x",
        "\\u00",
        ";=",
        "%26=",
        "s%26",
        "\x1b[",
        "\x1b[1;",
        "\xff",
        "\n",
        "bearer ",
        "authorization",
    ),
    *("authorization:", "authorization: bearer ", "\x1b[m", "\x1b[ma"),
]


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_the_work_of_masking_grows_linearly(unit: str) -> None:
    for start in ("", "?sessionId=", "%", "%25", "authorization: bearer "):
        for redact in (redact_string, redact_uri):
            assert grows_linearly(redact, lambda size, start=start: start + unit * size)  # type: ignore[misc]


def make_access_record(size: int) -> logging.LogRecord:
    uri = "/p?" + "&sessionId=x" * size
    atoms = {
        "r": f"GET {uri} HTTP/1.1",
        "f": uri,
        **{f"{{x-{number}}}i": uri[:50] for number in range(size)},
    }
    return logging.LogRecord(
        "gunicorn.access", logging.INFO, "", 0, '"%(r)s" "%(f)s"', (atoms,), None
    )


def make_record_of_pairs(size: int) -> logging.LogRecord:
    uri = "?" + "&".join(f"sessionId=x{number}" for number in range(size))
    return logging.LogRecord(
        "x", logging.INFO, "", 0, f"{uri} %s %s", (uri.replace("=", " "), uri), None
    )


def make_record_of_causes(size: int) -> logging.LogRecord:
    error: BaseException = ValueError(URI)
    for _cause in range(size):
        inner, error = error, LookupError(URI)
        error.__cause__ = error.__context__ = inner
    return logging.LogRecord(
        "x", logging.INFO, "", 0, "", (), (type(error), error, None)
    )


def test_a_value_in_nested_pairs_is_shown_a_few_times_only() -> None:
    show = Mock(return_value="x")
    value: object = type("Shown", (), {"__repr__": show})()
    for _level in range(15):
        value = ["", value]
    filter_record("%s", value)
    assert show.call_count < 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_record", [make_access_record, make_record_of_pairs, make_record_of_causes]
)
def test_the_work_on_a_record_grows_linearly(
    make_record: Callable[[int], logging.LogRecord],
) -> None:
    assert grows_linearly(SessionLogFilter().filter, make_record)


def report_error(stacklevel: int) -> None:
    log_error("failed: %s", "why", stacklevel=stacklevel)


def report_exception(stacklevel: int) -> None:
    error = raise_and_catch(ValueError("why"), LookupError("the cause"))
    log_exception(error, "failed %d times", 3, stacklevel=stacklevel)


@pytest.mark.parametrize("report", [report_error, report_exception])
def test_a_record_names_the_function_that_logged(
    report: Any, caplog: pytest.LogCaptureFixture
) -> None:
    report(1)
    report(2)
    record, for_the_caller = caplog.records
    assert (record.name, record.levelname, record.funcName) == (
        "flask_notifications",
        "ERROR",
        report.__name__,
    )
    assert for_the_caller.funcName == "test_a_record_names_the_function_that_logged"
    assert record.pathname == for_the_caller.pathname == __file__


def test_an_exception_is_logged_with_its_traceback_and_without_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report_exception(1)
    message = caplog.records[0].getMessage()
    assert message.startswith("failed 3 times: Traceback (most recent call last):\n")
    assert message.endswith("ValueError: why\n")
    assert "the cause" not in message


def test_a_broken_traceback_becomes_its_type(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        traceback.TracebackException,
        "__init__",
        Mock(side_effect=OSError(24, "Too many open files")),
    )
    assert format_traceback(ValueError("why")) == "builtins.ValueError"
    log_exception(ValueError("why"), "failed")
    assert caplog.messages == ["failed: builtins.ValueError"]


def test_a_filter_that_fails_does_not_make_logging_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logger = logging.Logger("flask_notifications")  # noqa: LOG001 - not shared with other tests
    logger.addFilter(
        Mock(spec=[], side_effect=LookupError)
    )  # a function, without a method "filter"
    monkeypatch.setattr(log, "_logger", logger)
    log_error("failed")
    log_exception(ValueError(), "failed")
