"""The response to each error."""

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from flask_notifications import SessionRefused, Statuses
from flask_notifications.problems import Problems, retry_after
from flask_notifications.responses import PlainResponse

PROBLEMS = Problems(statuses=Statuses(), realm="shop")
COMMON_HEADERS = [("Cache-Control", "no-store"), ("Vary", "Authorization"), ("X-Content-Type-Options", "nosniff")]


def read_document(response: PlainResponse) -> dict[str, Any]:
    """Return the problem document of a response."""
    assert isinstance(response.body, bytes)
    document = json.loads(response.body)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    ("code", "status", "challenge"),
    [
        ("session_missing", "401 Unauthorized", 'Bearer realm="shop"'),
        ("session_invalid", "401 Unauthorized", 'Bearer realm="shop", error="invalid_token"'),
        ("invalid_account_id", "400 Bad Request", None),
        ("access_denied", "403 Forbidden", None),
        ("account_not_found", "404 Not Found", None),
        ("storage_unavailable", "503 Service Unavailable", None),
        ("storage_error", "500 Internal Server Error", None),
        ("unserialisable_record", "500 Internal Server Error", None),
        ("spool_unavailable", "503 Service Unavailable", None),
        ("brownout", "410 Gone", None),
        ("sunset", "410 Gone", None),
        ("not_found", "404 Not Found", None),
        ("method_not_allowed", "405 Method Not Allowed", None),
    ],
)
def test_each_error_has_its_response(code: str, status: str, challenge: str | None) -> None:
    response = PROBLEMS.respond(code)
    document = read_document(response)
    assert response.status == status
    assert list(document) == ["type", "title", "status", "detail", "code"]
    assert (document["type"], document["title"]) == ("about:blank", status[4:])
    assert (document["status"], document["code"]) == (int(status[:3]), code)
    assert document["detail"].endswith(".")
    described = [("Content-Type", "application/problem+json"), ("Content-Length", str(len(response.body)))]  # type: ignore[arg-type] # read_document checks it
    assert list(response.headers) == [
        *described,
        *COMMON_HEADERS,
        *([("WWW-Authenticate", challenge)] if challenge else []),
    ]


@pytest.mark.parametrize(
    ("status", "code", "line"),
    [(400, "invalid_request", "400 Bad Request"), (401, "invalid_token", "401 Unauthorized")],
)
def test_a_refused_session_gets_its_status_and_code(status: int, code: str, line: str) -> None:
    response = PROBLEMS.refuse(SessionRefused(status, code, "Say it once."))
    assert response.status == line
    assert dict(response.headers)["WWW-Authenticate"] == f'Bearer realm="shop", error="{code}"'
    assert read_document(response) == {
        "type": "about:blank",
        "title": line[4:],
        "status": status,
        "detail": "Say it once.",
        "code": code,
    }


def test_an_error_may_have_a_successor_and_additional_headers() -> None:
    response = PROBLEMS.respond("brownout", extra=[("Retry-After", "5")], successor="/v2")
    assert read_document(response)["successor"] == "/v2"
    assert response.headers[-1] == ("Retry-After", "5")


STATUSES = {"session_missing": 440, "session_invalid": 499, "access_denied": 405, "account_not_found": 410}


@pytest.mark.parametrize("code", STATUSES)
def test_four_statuses_can_be_replaced_and_nothing_else_changes(code: str) -> None:
    default, replaced = PROBLEMS.respond(code), Problems(statuses=Statuses(**STATUSES), realm="shop").respond(code)
    assert replaced.status.startswith(f"{STATUSES[code]} ")
    assert read_document(replaced)["status"] == STATUSES[code]
    assert read_document(replaced)["title"] == replaced.status[4:]
    assert {**read_document(replaced), "status": 0, "title": ""} == {**read_document(default), "status": 0, "title": ""}
    assert [name for name, _value in replaced.headers] == [name for name, _value in default.headers]
    for other in {"invalid_account_id", "sunset", *STATUSES} - {code}:
        alone = Problems(statuses=Statuses(**{code: STATUSES[code]}), realm="shop")
        assert alone.respond(other) == PROBLEMS.respond(other)


def test_a_refused_session_keeps_its_status() -> None:
    problems = Problems(statuses=Statuses(session_missing=440, session_invalid=440), realm="shop")
    assert problems.refuse(SessionRefused(401, "invalid_token", "No.")).status == "401 Unauthorized"


@pytest.mark.parametrize("name", STATUSES)
@pytest.mark.parametrize("value", [399, 600, 200, 0, -404, None, "404", 404.0, True], ids=repr)
def test_a_value_that_is_no_status_of_an_error_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        Statuses(**{name: value})


@pytest.mark.parametrize("value", [400, 599])
def test_every_status_of_an_error_is_accepted(value: int) -> None:
    assert Statuses(access_denied=value).access_denied == value


@pytest.mark.parametrize("realm", ["shop", "", "a b", "!#[]~", "notifications@example.com; v=1, x='y'"])
def test_a_realm_may_have_every_character_of_a_challenge(realm: str) -> None:
    response = Problems(statuses=Statuses(), realm=realm).respond("session_missing")
    assert dict(response.headers)["WWW-Authenticate"] == f'Bearer realm="{realm}"'


@pytest.mark.parametrize("realm", ['a"b', "a\\b", "a\nb", "a\n", "\x00", "\x7f", "\t", "caf\xe9", "\u20ac", None, b"a"])
def test_a_realm_outside_of_rfc_6750_is_refused(realm: Any) -> None:
    with pytest.raises(ValueError, match=r"^realm\b"):
        Problems(statuses=Statuses(), realm=realm)


def test_statuses_are_keyword_arguments_and_never_change() -> None:
    statuses = Statuses(access_denied=404)
    with pytest.raises(FrozenInstanceError):
        statuses.access_denied = 403  # type: ignore[misc] # the mistake that is tested
    with pytest.raises(TypeError):
        Statuses(440)  # type: ignore[call-arg] # the mistake that is tested


def test_statuses_in_a_dict_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^statuses\b"):
        Problems(statuses={"session_missing": 440}, realm="")  # type: ignore[arg-type] # the mistake that is tested


@pytest.mark.parametrize(
    ("seconds", "value"),
    [(0, "0"), (0.000001, "1"), (1, "1"), (1.0, "1"), (2.5, "3"), (30, "30"), (86400.000001, "86401")],
)
def test_retry_after_has_whole_seconds_rounded_up(seconds: float, value: str) -> None:
    assert retry_after(seconds) == ("Retry-After", value)
