"""A complete response, the response to each error, and how WSGI sends it."""

import json
from datetime import datetime, timedelta, timezone
from enum import Enum
from http import HTTPStatus
from io import BytesIO
from typing import Any
from wsgiref.util import FileWrapper

import pytest

from flask_notifications import Statuses
from flask_notifications.problems import Problems
from flask_notifications.responses import reason_phrase, wrap_file
from tests.test_config import make_member
from tests.wsgi import environ_of

PROBLEMS = Problems(statuses=Statuses(), realm="shop")
STATUSES = {
    "session_missing": 440,
    "session_invalid": 499,
    "access_denied": 405,
    "account_not_found": 410,
}


def test_an_error_may_have_additional_members_and_headers() -> None:
    east = timezone(timedelta(hours=2))
    members = {
        "successor": "/v2",
        "documentation": None,
        "sunset": datetime(2027, 7, 1, 2, tzinfo=east),
    }
    response = PROBLEMS.respond("sunset", extra=[("Retry-After", "5")], members=members)
    document = json.loads(response.body)  # type: ignore[arg-type] # bytes
    assert list(document)[5:] == ["successor", "sunset"]
    assert document["successor"] == "/v2"
    assert document["sunset"] == "2027-07-01T00:00:00Z"
    assert response.headers[-1] == ("Retry-After", "5")


@pytest.mark.parametrize(("code", "status"), STATUSES.items())
def test_four_statuses_can_be_replaced_and_nothing_else_changes(
    code: str, status: int
) -> None:
    problems = Problems(statuses=Statuses(**{code: status}), realm="shop")
    default = json.loads(PROBLEMS.respond(code).body)  # type: ignore[arg-type]
    replaced = json.loads(problems.respond(code).body)  # type: ignore[arg-type]
    assert replaced == default | {"status": status, "title": reason_phrase(status)}
    assert problems.respond(code).status == f"{status} {reason_phrase(status)}"
    for unchanged in {"invalid_account_id", "sunset", *STATUSES} - {code}:
        assert problems.respond(unchanged) == PROBLEMS.respond(unchanged)


class Refused(int, Enum):
    GONE = 410


@pytest.mark.parametrize("status", [HTTPStatus.GONE, Refused.GONE], ids=repr)
def test_members_of_an_enum_are_their_values(status: int) -> None:
    problems = Problems(
        statuses=Statuses(session_missing=status), realm=make_member("shop")
    )
    plain = Problems(statuses=Statuses(session_missing=410), realm="shop")
    assert problems.respond("session_missing") == plain.respond("session_missing")


@pytest.mark.parametrize("name", STATUSES)
@pytest.mark.parametrize("value", [399, 600, "404", True], ids=repr)
def test_a_value_that_is_no_status_of_an_error_is_refused_by_name(
    name: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        Statuses(**{name: value})


@pytest.mark.parametrize(
    "realm", ["", "a b", "!#[]~", "notifications@example.com; v=1, x='y'"]
)
def test_a_realm_may_have_every_character_of_a_challenge(realm: str) -> None:
    response = Problems(statuses=Statuses(), realm=realm).respond("session_missing")
    assert dict(response.headers)["WWW-Authenticate"] == f'Bearer realm="{realm}"'


@pytest.mark.parametrize(
    "realm",
    ['a"b', "a\\b", "a\n", "\x7f", "\t", "caf\xe9", "\u20ac", None, b"a"],
)
def test_a_realm_outside_of_rfc_6750_is_refused(realm: Any) -> None:
    with pytest.raises(ValueError, match=r"^realm\b"):
        Problems(statuses=Statuses(), realm=realm)


@pytest.mark.parametrize(
    ("status", "phrase"),
    [
        (410, "Gone"),
        (440, "Login Time-out"),
        (499, "Client Error"),
        (599, "Server Error"),
    ],
)
def test_every_status_has_a_phrase(status: int, phrase: str) -> None:
    assert reason_phrase(status) == phrase


@pytest.mark.parametrize(
    "extra", [{}, {"wsgi.file_wrapper": None}], ids=["absent", "None"]
)
def test_a_server_without_a_file_wrapper_gets_blocks(extra: dict[str, Any]) -> None:
    body = wrap_file(BytesIO(b"[{}]"), {**environ_of(), **extra})
    assert not isinstance(
        body, FileWrapper
    )  # fastwsgi mistakes every class of this name for Werkzeug's
    assert b"".join(body) == b"[{}]"
