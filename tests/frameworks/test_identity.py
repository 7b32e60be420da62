"""The applications of all frameworks see the same session of a request, or none of them sees one."""

import json
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import pytest

from flask_notifications import DeprecationMiddleware
from flask_notifications.sessions import digest_pair
from tests.frameworks.applications import APPLICATIONS, OPERATIONS, POLICY, Witness, application_of
from tests.wsgi import Response, between_validators, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

VECTORS = [
    vector
    for vector in json.loads((Path(__file__).parents[1] / "vectors" / "sessions.json").read_bytes())
    if vector["kind"] == "extract"
]
# WebOb separates pairs at ";" too, so Pyramid sees a session ID in what is part of the value of another parameter.
SEMICOLONS = "a=1;sessionId="

every_application = pytest.mark.parametrize("name", APPLICATIONS)


def guarded(app: "WSGIApplication", **options: Any) -> "WSGIApplication":
    """Return the application inside the middleware, with a WSGI validator before and after it."""
    return between_validators(partial(DeprecationMiddleware, policy=POLICY, operations=OPERATIONS, **options), app)


def environ_for(vector: dict[str, Any]) -> "WSGIEnvironment":
    body = BytesIO(vector.get("body", "").encode("latin-1"))
    environ = environ_of(**{**vector["environ"], "wsgi.input": body})
    if "QUERY_STRING" not in vector["environ"]:
        del environ["QUERY_STRING"]
    return environ


def masked_query(vector: dict[str, Any]) -> str | None:
    """Return a vector's query with a digest instead of each session pair and all other bytes unchanged."""
    query: str | None = vector["environ"].get("QUERY_STRING")
    if query is None:
        return None
    return "&".join(
        digest_pair(pair) if unquote_plus(pair.partition("=")[0]).lower() == "sessionid" else pair
        for pair in query.split("&")
    )


def outcome_of(response: Response) -> dict[str, Any]:
    """Return the outcome of a request in the format of the vectors."""
    if response.code != 200:
        challenge = response.one("WWW-Authenticate")
        return {
            "outcome": "error",
            "status": response.code,
            "error": challenge.partition('error="')[2].rstrip('"') or None,
        }
    if response.json["session"] is None:
        return {"outcome": "none"}
    value, source = response.json["session"]
    return {"outcome": "session", "session_id": value, "source": source}


def fits(outcome: dict[str, Any], expected: dict[str, Any]) -> bool:
    if outcome["outcome"] != expected["outcome"]:
        return False
    if outcome["outcome"] == "error":
        code = None if "no_error_attr" in expected else expected.get("error", outcome["error"])
        return outcome["status"] in expected["status"] and outcome["error"] == code
    return all(outcome[key] == expected[key] for key in outcome)


@every_application
@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["id"]) for vector in VECTORS])
@pytest.mark.filterwarnings("ignore:QUERY_STRING is not in the WSGI environment")
def test_every_application_sees_the_same_session(name: str, vector: dict[str, Any]) -> None:
    witness, environ = Witness(application_of(name)), environ_for(vector)
    response = run(guarded(witness, require_session=vector["mode"] == "required"), environ)
    outcome = outcome_of(response)
    assert any(fits(outcome, each) for each in [vector["expect"], *vector.get("accept", [])]), outcome
    assert not any(fits(outcome, each) for each in vector.get("never", []))
    assert len(witness.environs) == (outcome["outcome"] != "error")
    # The server logs from its own environ, and it logs refused requests too.
    assert environ.get("QUERY_STRING") == masked_query(vector)
    if outcome["outcome"] != "error":
        check_what_the_application_reads(name, vector, response.json)


def check_what_the_application_reads(name: str, vector: dict[str, Any], seen: dict[str, Any]) -> None:
    """Check that nothing that the application reads for itself contradicts the session."""
    sent = vector["environ"]
    header = sent.get("HTTP_AUTHORIZATION")
    assert seen["query"] == masked_query(vector)
    assert seen["authorization"] == (header or (f"Bearer {seen['session'][0]}" if seen["session"] else None))
    assert seen["body"] == vector.get("body", "")
    has_session_parameter = "sessionid" in {key.lower() for key, _value in seen["parameters"]}
    assert has_session_parameter == (name == "pyramid" and SEMICOLONS in sent.get("QUERY_STRING", ""))


@every_application
def test_other_parameters_of_the_query_are_unchanged(name: str) -> None:
    others = ["", "a=1", "a=2", "A=%41+b", "b", "c=", "session=x", "xsessionId=y", "e=%C3%A9", "u=http://x/?a%26b", ""]
    query = "&".join([*others[:4], "sessionId=abc", *others[4:]])
    witness = Witness(application_of(name))
    seen = run(guarded(witness), environ_of("GET", "/p", query)).json
    masked = "&".join([*others[:4], digest_pair("sessionId=abc"), *others[4:]])
    assert witness.environs[0]["QUERY_STRING"] == seen["query"] == masked
    assert seen["parameters"] == run(application_of(name), environ_of("GET", "/p", masked)).json["parameters"]
    assert ["e", "é"] in seen["parameters"]


def test_bytes_that_are_not_utf_8_stay_in_the_query() -> None:
    # Not every framework can parse such a query, so this compares the bytes that the middleware passes on.
    witness = Witness(application_of("bare"))
    run(guarded(witness), environ_of("GET", "/p", "\xff=%FF%zz&sessionId=abc&\xe9%00;x"))
    masked = f"\xff=%FF%zz&{digest_pair('sessionId=abc')}&\xe9%00;x"
    assert witness.environs[0]["QUERY_STRING"] == masked


@every_application
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_the_middleware_does_not_read_the_body(name: str, method: str) -> None:
    body = BytesIO(b"sessionId=of-the-body&x=1")
    read: list[int] = []

    def before_the_application(environ: Any, start_response: Any) -> Any:
        read.append(body.tell())
        assert environ["wsgi.input"] is body
        return application_of(name)(environ, start_response)

    extra = {
        "wsgi.input": body,
        "CONTENT_LENGTH": str(len(body.getvalue())),
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
    }
    environ = environ_of(method, "/p", "sessionId=abc", **extra)
    seen = run(DeprecationMiddleware(before_the_application, POLICY, operations=OPERATIONS), environ).json
    assert read == [0]
    assert seen["session"] == ["abc", "query"]
    assert seen["body"].encode() == body.getvalue()


def test_the_body_of_a_refused_request_stays_unread() -> None:
    body = BytesIO(b"x=1")
    extra = {"wsgi.input": body, "CONTENT_LENGTH": "3"}
    assert (
        run(guarded(application_of("bare")), environ_of("POST", "/p", "sessionId=a&sessionId=a", **extra)).code == 400
    )
    assert body.tell() == 0


@every_application
def test_an_authorization_header_of_another_scheme_is_unchanged(name: str) -> None:
    # A proxy's password: the framework reads it, while session_of returns the session of the query.
    environ = environ_of("GET", "/p", "sessionId=abc", HTTP_AUTHORIZATION="Basic dTpw")
    seen = run(guarded(application_of(name)), environ).json
    assert seen["authorization"] == "Basic dTpw"
    assert seen["session"] == ["abc", "query"]
