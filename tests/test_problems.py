"""From a fault to the answer that tells of it."""

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from flask_notifications import SessionRefused, Statuses
from flask_notifications.problems import Problems, retry_after
from flask_notifications.replies import Reply

PROBLEMS = Problems(statuses=Statuses(), realm="shop")
GUARDS = [("Cache-Control", "no-store"), ("Vary", "Authorization"), ("X-Content-Type-Options", "nosniff")]


def body(reply: Reply) -> dict[str, Any]:
    assert isinstance(reply.body, bytes)
    document = json.loads(reply.body)
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
def test_each_fault_has_its_answer(code: str, status: str, challenge: str | None) -> None:
    reply = PROBLEMS.reply(code)
    document = body(reply)
    assert reply.status == status
    assert list(document) == ["type", "title", "status", "detail", "code"]
    assert (document["type"], document["title"]) == ("about:blank", status[4:])
    assert (document["status"], document["code"]) == (int(status[:3]), code)
    assert document["detail"].endswith(".")
    described = [("Content-Type", "application/problem+json"), ("Content-Length", str(len(reply.body)))]  # type: ignore[arg-type] # bytes, as seen above
    assert list(reply.fields) == [*described, *GUARDS, *([("WWW-Authenticate", challenge)] if challenge else [])]


@pytest.mark.parametrize(
    ("status", "code", "line"),
    [(400, "invalid_request", "400 Bad Request"), (401, "invalid_token", "401 Unauthorized")],
)
def test_a_refused_session_has_the_answer_that_it_names(status: int, code: str, line: str) -> None:
    reply = PROBLEMS.refusal(SessionRefused(status, code, "Say it once."))
    assert reply.status == line
    assert dict(reply.fields)["WWW-Authenticate"] == f'Bearer realm="shop", error="{code}"'
    assert body(reply) == {
        "type": "about:blank",
        "title": line[4:],
        "status": status,
        "detail": "Say it once.",
        "code": code,
    }


def test_a_successor_and_fields_of_its_own_go_with_a_fault() -> None:
    reply = PROBLEMS.reply("brownout", extra=[("Retry-After", "5")], successor="/v2")
    assert body(reply)["successor"] == "/v2"
    assert reply.fields[-1] == ("Retry-After", "5")


STATUSES = {"session_missing": 440, "session_invalid": 499, "access_denied": 405, "account_not_found": 410}


@pytest.mark.parametrize("code", STATUSES)
def test_four_statuses_can_be_replaced_and_nothing_else_changes(code: str) -> None:
    usual, own = PROBLEMS.reply(code), Problems(statuses=Statuses(**STATUSES), realm="shop").reply(code)
    assert own.status.startswith(f"{STATUSES[code]} ")
    assert body(own)["status"] == STATUSES[code]
    assert body(own)["title"] == own.status[4:]
    assert {**body(own), "status": 0, "title": ""} == {**body(usual), "status": 0, "title": ""}
    assert [name for name, _value in own.fields] == [name for name, _value in usual.fields]
    for other in {"invalid_account_id", "sunset", *STATUSES} - {code}:
        alone = Problems(statuses=Statuses(**{code: STATUSES[code]}), realm="shop")
        assert alone.reply(other) == PROBLEMS.reply(other)


def test_a_refused_session_keeps_its_status() -> None:
    problems = Problems(statuses=Statuses(session_missing=440, session_invalid=440), realm="shop")
    assert problems.refusal(SessionRefused(401, "invalid_token", "No.")).status == "401 Unauthorized"


@pytest.mark.parametrize("name", STATUSES)
@pytest.mark.parametrize("value", [399, 600, 200, 0, -404, None, "404", 404.0, True], ids=repr)
def test_what_is_no_status_of_an_error_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        Statuses(**{name: value})


@pytest.mark.parametrize("value", [400, 599])
def test_every_status_of_an_error_will_do(value: int) -> None:
    assert Statuses(access_denied=value).access_denied == value


@pytest.mark.parametrize("realm", ["shop", "", "a b", "!#[]~", "notifications@example.com; v=1, x='y'"])
def test_a_realm_may_hold_what_a_challenge_may(realm: str) -> None:
    reply = Problems(statuses=Statuses(), realm=realm).reply("session_missing")
    assert dict(reply.fields)["WWW-Authenticate"] == f'Bearer realm="{realm}"'


@pytest.mark.parametrize("realm", ['a"b', "a\\b", "a\nb", "a\n", "\x00", "\x7f", "\t", "caf\xe9", "\u20ac", None, b"a"])
def test_a_realm_outside_of_rfc_6750_is_refused(realm: Any) -> None:
    with pytest.raises(ValueError, match=r"^realm\b"):
        Problems(statuses=Statuses(), realm=realm)


def test_statuses_are_given_by_name_and_never_change() -> None:
    statuses = Statuses(access_denied=404)
    with pytest.raises(FrozenInstanceError):
        statuses.access_denied = 403  # type: ignore[misc] # the mistake that is tested
    with pytest.raises(TypeError):
        Statuses(440)  # type: ignore[call-arg] # the mistake that is tested


def test_statuses_are_statuses() -> None:
    with pytest.raises(ValueError, match=r"^statuses\b"):
        Problems(statuses={"session_missing": 440}, realm="")  # type: ignore[arg-type] # the mistake that is tested


@pytest.mark.parametrize(
    ("seconds", "value"),
    [(0, "0"), (0.000001, "1"), (1, "1"), (1.0, "1"), (2.5, "3"), (30, "30"), (86400.000001, "86401")],
)
def test_a_waiting_time_is_told_in_whole_seconds_rounded_up(seconds: float, value: str) -> None:
    assert retry_after(seconds) == ("Retry-After", value)
