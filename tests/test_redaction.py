"""Session IDs are masked in the raw keys of an environ and in log records."""

import logging
from functools import partial
from typing import Any

import pytest

from flask_notifications import SessionLogFilter
from flask_notifications.sessions.redaction import (
    redact_environ,
    redact_string,
    redact_uri,
)
from tests.growth import grows_linearly
from tests.storages import raise_and_catch, raising

TARGETS = ["RAW_URI", "REQUEST_URI", "UNENCODED_URL", "HTTP_REFERER"]
TARGETS += ["REDIRECT_QUERY_STRING", "REDIRECT_URL", "REDIRECT_REDIRECT_URL"]
TARGETS += ["HTTP_X_ORIGINAL_URI", "HTTP_X_REWRITE_URL", "HTTP_X_FORWARDED_URI"]
TARGETS += ["HTTP_X_ORIGINAL_URL", "HTTP_X_ENVOY_ORIGINAL_PATH"]


def test_every_key_for_a_target_is_masked_and_no_other() -> None:
    others = {"HTTP_COOKIE": "a=1; sessionId=KEEP", "QUERY_STRING": "sessionId=KEEP"}
    environ = dict.fromkeys(TARGETS, "/p?sessionId=S3CRET") | others
    redact_environ(environ, "", "")
    assert environ == dict.fromkeys(TARGETS, "/p?sessionId=REDACTED") | others


@pytest.mark.parametrize(
    ("uri", "left"),
    [
        ("/p?a=1&SESSIONID=S3;S3&b#c", "/p?a=1&SESSIONID=REDACTED&b#c"),
        ("/p?a=1;sessionId=S3", "/p?a=1;sessionId=REDACTED"),
        ("/p?s%65ssion%49D=S3%2B", "/p?s%65ssion%49D=REDACTED"),
        ("/p?a=1%26sessionId=S3&b=2", "/p?a=1%26sessionId=REDACTED&b=2"),
        ("/p?n=%253FsessionId%253DS3%2526b", "/p?n=%253FsessionId%253DREDACTED"),
        ("/p?sessionId=S3%26b=2", "/p?sessionId=REDACTED%26b=2"),
        ("/p?sessionId=S3 \"x'", "/p?sessionId=REDACTED"),
        ("/?mysessionId=K&my%73essionId=K", "/?mysessionId=K&my%73essionId=K"),
    ],
)
def test_the_value_is_redacted_in_uris(uri: str, left: str) -> None:
    assert redact_uri(uri) == left


def filter_record(msg: object, *args: object, **extra: Any) -> logging.LogRecord:
    record = logging.LogRecord(
        "gunicorn.access", logging.INFO, "", 0, msg, args, extra.get("exc_info")
    )
    assert SessionLogFilter().filter(record)
    return record


LINES_WITH_A_SESSION = [
    '"GET /p?sessionId=S3CRET HTTP/1.1" 200',
    "'/p?n=%3FsessionId%3DS3CRET', x",
    "Authorization: Bearer S3CRET",
    "Invalid header: b'Authorization Bearer S3CRET'",
]


@pytest.mark.parametrize("line", LINES_WITH_A_SESSION)
def test_the_value_is_masked_in_a_line_and_every_other_byte_stays(line: str) -> None:
    left = line.replace("S3CRET", "REDACTED")
    assert filter_record(line).getMessage() == left
    assert filter_record("%s", line).getMessage() == left
    assert filter_record("%(line)s", {"line": line}).getMessage() == left


@pytest.mark.parametrize("line", ["Seen: bearer x", "?mysessionId=x&sessionId \xff"])
def test_a_line_without_a_session_stays_as_it_is(line: str) -> None:
    assert filter_record(line).getMessage() == line


URI = "/p?a=1&sessionId=S3CRET&b=2"
MASKED = "/p?a=1&sessionId=REDACTED&b=2"


class Atoms(dict[str, str]):
    """As in gunicorn's access log, a name that is missing has a value."""

    def __missing__(self, name: str) -> str:
        return "-"


def test_a_mapping_of_arguments_keeps_its_kind_and_its_other_values() -> None:
    atoms = Atoms(r=f"GET {URI}", s="200")
    atoms |= {"{authorization}i": "Bearer S3CRET", "sessionId": "S3CRET"}
    before = dict(atoms)
    record = filter_record("%(r)s %(s)s %({x}i)s", atoms)
    assert record.getMessage() == f"GET {MASKED} 200 -"
    assert record.args == {
        "r": f"GET {MASKED}",
        "s": "200",
        "{authorization}i": "Bearer REDACTED",
        "sessionId": "REDACTED",
    }
    assert atoms == before  # the application's own


def test_arguments_without_a_session_stay_as_they_are() -> None:
    assert filter_record("%s: %d", "sessionId", 3).args == ("sessionId", 3)
    atoms = {"r": "GET /p", "D": 5}
    assert filter_record("%(r)s", atoms).args is atoms


@pytest.mark.parametrize(
    ("template", "args", "message"),
    [
        ("%s %d%%", (URI, 100), f"{MASKED} 100%"),
        ("?sessionId=%s %d", ("S3CRET", 200), "?sessionId=REDACTED 200"),
        ("%s", ([URI.encode()],), f"[b'{MASKED}']"),
        ("%s", (ValueError(URI),), MASKED),
    ],
)
def test_arguments_that_hold_a_session_are_merged_into_the_message(
    template: str, args: tuple[Any, ...], message: str
) -> None:
    record = filter_record(template, *args)
    assert record.getMessage() == message
    assert record.args == ()


def test_a_record_that_does_not_format_shows_no_session() -> None:
    record = filter_record("%d %d", URI)
    assert record.getMessage() == f"%d %d ('{MASKED}',)"
    record = filter_record("%d %d", "x")  # logging itself reports it
    assert (record.msg, record.args) == ("%d %d", ("x",))


def test_the_traceback_of_an_exception_that_holds_a_session_is_all_that_stays() -> None:
    caught = raise_and_catch(ValueError("no page"), raise_and_catch(LookupError(URI)))
    info = (type(caught), caught, caught.__traceback__)
    record = filter_record("failed", exc_info=info)
    lines = logging.Formatter().format(record).splitlines()
    assert record.exc_info is None
    assert f"LookupError: {MASKED}" in lines
    assert lines[-1] == "ValueError: no page"
    assert "S3CRET" not in "".join(lines)


def test_an_exception_without_a_session_stays() -> None:
    caught = raise_and_catch(ValueError("no page"))
    info = (type(caught), caught, caught.__traceback__)
    record = filter_record("failed", exc_info=info)
    assert record.exc_info is info
    assert record.exc_text is None
    assert filter_record("", exc_info=(None, None, None)).exc_text is None


def test_a_traceback_that_a_formatter_has_cached_is_masked() -> None:
    record = logging.makeLogRecord({"msg": "failed", "exc_text": f"Error: {URI}"})
    assert SessionLogFilter().filter(record)
    assert record.exc_text == f"Error: {MASKED}"


class Broken:
    __str__ = __repr__ = raising(LookupError())


def test_values_whose_methods_fail_do_not_make_the_filter_raise() -> None:
    filter_record("request", Broken())
    filter_record(Broken())
    assert filter_record("%s %d", Broken(), URI).args


DELIMITERS = ["?", "&", "#", ";", "\n", " ", '"', "/", "(", "\xe9", "%3F", "%3f", "%26"]
DELIMITERS += ["%23", "%3B", "%0A", "%253F", "%25253f", "%20"]


@pytest.mark.parametrize(
    "key", ["sessionId", "SESSIONid", "s%65ssion%49D", "%2573essionId"]
)
@pytest.mark.parametrize("equals", ["=", "%3D", "%253d"])
def test_any_spelling_is_masked_and_what_is_masked_stays(key: str, equals: str) -> None:
    for delimiter in DELIMITERS:
        for redact in (redact_string, redact_uri):
            once = redact(f"/p{delimiter}{key}{equals}S3CRET.~+/-_=&b=2")
            assert "S3CRET" not in once
            assert redact(once) == once


def make_access_record(unit: str, size: int) -> logging.LogRecord:
    atoms = {"r": f"GET /p?{unit * size} HTTP/1.1"}
    for number in range(size):
        atoms[f"{{x-{number}}}i"] = URI
    return logging.LogRecord("x", logging.INFO, "", 0, "%(r)s", (atoms,), None)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["%25", "%26a", " ", "&sessionId=", "%26sessionId="])
def test_the_work_on_a_record_grows_linearly(unit: str) -> None:
    assert grows_linearly(SessionLogFilter().filter, partial(make_access_record, unit))
