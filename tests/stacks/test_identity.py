"""Whoever asks, and however a framework reads a request: all hosts see the same session, or none of them."""

import json
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import pytest

from flask_notifications import DeprecationMiddleware
from tests.stacks.hosts import HOSTS, OPERATIONS, POLICY, Witness, host
from tests.wsgi import Answer, between_validators, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

VECTORS = [
    vector
    for vector in json.loads((Path(__file__).parents[1] / "vectors" / "sessions.json").read_bytes())
    if vector["kind"] == "extract"
]
# WebOb separates pairs at ";" too, so Pyramid sees a parameter where the rules see a part of another one's value.
SEMICOLONS = "a=1;sessionId="

every_host = pytest.mark.parametrize("name", HOSTS)


def guarded(app: "WSGIApplication", **options: Any) -> "WSGIApplication":
    """Return an application under the middleware, a validator on either side."""
    return between_validators(partial(DeprecationMiddleware, policy=POLICY, operations=OPERATIONS, **options), app)


def environ_for(vector: dict[str, Any]) -> "WSGIEnvironment":
    body = BytesIO(vector.get("body", "").encode("latin-1"))
    environ = environ_of(**{**vector["environ"], "wsgi.input": body})
    if "QUERY_STRING" not in vector["environ"]:
        del environ["QUERY_STRING"]
    return environ


def left_of(vector: dict[str, Any]) -> str | None:
    """Return a vector's query without the session, all other bytes as they came."""
    query: str | None = vector["environ"].get("QUERY_STRING")
    if query is None:
        return None
    return "&".join(pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]).lower() != "sessionid")


def outcome_of(answer: Answer) -> dict[str, Any]:
    """Return what came of a request, in the words of the vectors."""
    if answer.code != 200:
        challenge = answer.one("WWW-Authenticate")
        return {
            "outcome": "error",
            "status": answer.code,
            "error": challenge.partition('error="')[2].rstrip('"') or None,
        }
    if answer.json["session"] is None:
        return {"outcome": "none"}
    value, source = answer.json["session"]
    return {"outcome": "session", "session_id": value, "source": source}


def fits(outcome: dict[str, Any], expected: dict[str, Any]) -> bool:
    if outcome["outcome"] != expected["outcome"]:
        return False
    if outcome["outcome"] == "error":
        code = None if "no_error_attr" in expected else expected.get("error", outcome["error"])
        return outcome["status"] in expected["status"] and outcome["error"] == code
    return all(outcome[key] == expected[key] for key in outcome)


@every_host
@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["id"]) for vector in VECTORS])
@pytest.mark.filterwarnings("ignore:QUERY_STRING is not in the WSGI environment")
def test_a_request_is_the_same_session_to_every_host(name: str, vector: dict[str, Any]) -> None:
    witness, environ = Witness(host(name)), environ_for(vector)
    answer = run(guarded(witness, require_session=vector["mode"] == "required"), environ)
    outcome = outcome_of(answer)
    assert any(fits(outcome, each) for each in [vector["expect"], *vector.get("accept", [])]), outcome
    assert not any(fits(outcome, each) for each in vector.get("never", []))
    assert len(witness.environs) == (outcome["outcome"] != "error")
    # In the server's own environ, which it logs from, and when the request is refused as well.
    assert environ.get("QUERY_STRING") == left_of(vector)
    if outcome["outcome"] != "error":
        see_what_is_left(name, vector, answer.json)


def see_what_is_left(name: str, vector: dict[str, Any], seen: dict[str, Any]) -> None:
    """Look at what the host is left to read for itself: nothing that contradicts the session."""
    came = vector["environ"]
    header = came.get("HTTP_AUTHORIZATION")
    assert seen["query"] == left_of(vector)
    assert seen["authorization"] == (header or (f"Bearer {seen['session'][0]}" if seen["session"] else None))
    assert seen["body"] == vector.get("body", "")
    shows = "sessionid" in {key.lower() for key, _value in seen["parameters"]}
    assert shows == (name == "pyramid" and SEMICOLONS in came.get("QUERY_STRING", ""))


@every_host
def test_other_parameters_arrive_as_they_came(name: str) -> None:
    others = ["", "a=1", "a=2", "A=%41+b", "b", "c=", "session=x", "xsessionId=y", "e=%C3%A9", "u=http://x/?a%26b", ""]
    query = "&".join([*others[:4], "sessionId=abc", *others[4:]])
    witness = Witness(host(name))
    seen = run(guarded(witness), environ_of("GET", "/p", query)).json
    assert witness.environs[0]["QUERY_STRING"] == seen["query"] == "&".join(others)
    assert seen["parameters"] == run(host(name), environ_of("GET", "/p", "&".join(others))).json["parameters"]
    assert ["e", "é"] in seen["parameters"]


def test_bytes_of_no_encoding_stay_in_the_query() -> None:
    # Not every framework reads such a query, so only the middleware is asked for its bytes.
    witness = Witness(host("bare"))
    run(guarded(witness), environ_of("GET", "/p", "\xff=%FF%zz&sessionId=abc&\xe9%00;x"))
    assert witness.environs[0]["QUERY_STRING"].encode("latin-1") == b"\xff=%FF%zz&\xe9%00;x"


@every_host
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_body_arrives_unread(name: str, method: str) -> None:
    body = BytesIO(b"sessionId=of-the-body&x=1")
    read: list[int] = []

    def before_the_host(environ: Any, start_response: Any) -> Any:
        read.append(body.tell())
        assert environ["wsgi.input"] is body
        return host(name)(environ, start_response)

    extra = {
        "wsgi.input": body,
        "CONTENT_LENGTH": str(len(body.getvalue())),
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
    }
    environ = environ_of(method, "/p", "sessionId=abc", **extra)
    seen = run(DeprecationMiddleware(before_the_host, POLICY, operations=OPERATIONS), environ).json
    assert read == [0]
    assert seen["session"] == ["abc", "query"]
    assert seen["body"].encode() == body.getvalue()


def test_the_body_of_a_refused_request_stays_unread() -> None:
    body = BytesIO(b"x=1")
    extra = {"wsgi.input": body, "CONTENT_LENGTH": "3"}
    assert run(guarded(host("bare")), environ_of("POST", "/p", "sessionId=a&sessionId=a", **extra)).code == 400
    assert body.tell() == 0


@every_host
def test_a_header_of_another_scheme_is_the_hosts_own(name: str) -> None:
    # A proxy's password in front of a legacy client: the framework reads the one, session_of the other.
    environ = environ_of("GET", "/p", "sessionId=abc", HTTP_AUTHORIZATION="Basic dTpw")
    seen = run(guarded(host(name)), environ).json
    assert seen["authorization"] == "Basic dTpw"
    assert seen["session"] == ["abc", "query"]
