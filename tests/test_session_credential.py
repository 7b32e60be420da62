"""The credential that ``session_of`` returns, and the exception for a refused session: neither shows the session ID."""

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pprint import pformat
from typing import Any

import orjson
import pytest

from flask_notifications import SessionCredential, SessionRefused, session_of
from tests.session_requests import AMBIGUOUS, MALFORMED, SESSION, A, B, request, send


def test_session_of_returns_the_session_that_the_middleware_resolved() -> None:
    environ = request(f"sessionId={A}")
    app, _response = send(environ)
    assert session_of(environ) is app.session is environ[SESSION]


def test_session_of_does_not_change_the_environ() -> None:
    environ = request(f"a=1&sessionId={A}", RAW_URI=f"/p?sessionId={A}")
    before = dict(environ)
    assert session_of(environ) == SessionCredential(A, "query")
    assert environ == before


@pytest.mark.parametrize(
    "foreign",
    [A, {"value": A}, object(), None, ("A", "header")],
    ids=["a string", "a mapping", "an object", "None", "a tuple"],
)
def test_a_foreign_object_under_our_key_is_ignored(foreign: Any) -> None:
    assert session_of(request(**{SESSION: foreign})) is None
    assert session_of(request(f"sessionId={B}", **{SESSION: foreign})) == SessionCredential(B, "query")
    app, _response = send(request(**{SESSION: foreign}))
    assert SESSION not in app.seen[0]


def test_a_refusal_has_its_reason_and_never_the_session_id() -> None:
    for query, status, code in ((f"sessionId={A}&sessionId={A}", *AMBIGUOUS), (f"sessionId={A}%00", *MALFORMED)):
        with pytest.raises(SessionRefused) as caught:
            session_of(request(query))
        assert (caught.value.status, caught.value.code) == (status, code)
        assert str(caught.value)
        assert A not in f"{caught.value!r} {caught.value} {caught.value.args} {vars(caught.value)}"


@dataclass
class Holder:
    session: SessionCredential


def _fail(session: SessionCredential) -> None:
    raise LookupError(session)


def _show_in_a_traceback(session: SessionCredential) -> str:
    with pytest.raises(LookupError) as caught:
        _fail(session)
    return "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())


def _show_in_a_log(session: SessionCredential) -> str:
    return logging.LogRecord("app", logging.INFO, "", 0, "%s %r %.99s", (session, session, session), None).getMessage()


@pytest.mark.parametrize(
    "show",
    [
        pytest.param(repr, id="repr"),
        pytest.param(str, id="str"),
        pytest.param(format, id="format"),
        pytest.param("{0:>99} {0!r:>99} {0!s}".format, id="str.format"),
        pytest.param(lambda session: f"{session} {session!r} {session:<99} {session=}", id="f-string"),
        pytest.param(lambda session: "%s %r" % (session, session), id="percent"),  # noqa: UP031 - the point
        pytest.param(lambda session: str([session, {session: session}]), id="in a container"),
        pytest.param(lambda session: repr(Holder(session)), id="in a dataclass"),
        pytest.param(lambda session: pformat({"session": session}), id="pprint"),
        pytest.param(_show_in_a_traceback, id="in a traceback with local variables"),
        pytest.param(_show_in_a_log, id="in a log"),
    ],
)
def test_a_credential_never_shows_its_value(show: Callable[[SessionCredential], str]) -> None:
    shown = show(SessionCredential(A, "query"))
    assert A not in shown
    assert "SessionCredential" in shown
    assert "query" in shown


def test_a_credential_is_a_value_that_cannot_be_changed() -> None:
    session = SessionCredential(A, "header")
    assert session == SessionCredential(A, "header") != SessionCredential(B, "header")
    with pytest.raises(AttributeError):
        session.value = B  # type: ignore[misc] # the mistake that is tested
    assert not hasattr(session, "__dict__")


def test_a_credential_is_shown_without_its_value() -> None:
    assert repr(SessionCredential(A, "query")) == "SessionCredential(value=REDACTED, source='query')"


def test_a_refusal_shows_its_detail() -> None:
    assert str(SessionRefused(400, "invalid_request", "why")) == "why"


def test_a_json_encoder_refuses_a_credential() -> None:
    with pytest.raises(TypeError):
        orjson.dumps({"session": SessionCredential("s3cret", "query")})


def test_credentials_are_compared_and_hashed_by_value() -> None:
    credential = SessionCredential("s3cret", "query")
    assert {credential, SessionCredential("s3cret", "query")} == {credential}
    assert credential != SessionCredential("s3cret", "header")
    assert credential != "s3cret"
    with pytest.raises(AttributeError):
        credential.value = "another"  # type: ignore[misc]
