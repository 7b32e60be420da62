"""The middleware passes sessions to the application, can require them, and keeps them private."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_notifications import (
    DeprecationPolicy,
    Operation,
    SessionCredential,
    Statuses,
    session_of,
)
from tests.middleware import DEPRECATED_AT, DIGEST, LEAKING_ENVIRON, NOW, PATH, POLICY, SESSION, Spy, response_of, wrap
from tests.wsgi import call, environ_of, plain_app, run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


def test_the_application_sees_the_session_in_one_place() -> None:
    spy = Spy()
    environ = environ_of(path="/api/notification", query="a=%20&SessionID=s3cret&b=1&&c", RAW_URI="/x?SessionID=s3cret")
    run(wrap(spy), environ)
    credential = spy.seen[SESSION]
    assert isinstance(credential, SessionCredential)
    assert (credential.value, credential.source) == ("s3cret", "query")
    assert session_of(environ) is credential
    assert re.fullmatch(rf"a=%20&{DIGEST}&b=1&&c", spy.seen["QUERY_STRING"])
    assert spy.seen["HTTP_AUTHORIZATION"] == "Bearer s3cret"
    assert spy.seen["RAW_URI"] == "/x?SessionID=REDACTED"


@pytest.mark.parametrize("query", ["sessionId=a&sessionId=b", "sessionId=", "sessionId=%22"])
@pytest.mark.parametrize(
    "policy",
    [POLICY, DeprecationPolicy(deprecated_at=DEPRECATED_AT, sunset_at=NOW, enforce_sunset=True)],
    ids=["refused", "sunset"],
)
def test_sessions_are_masked_in_the_environ_of_a_refused_request(query: str, policy: DeprecationPolicy) -> None:
    spy = Spy()
    environ = {**environ_of(path=PATH), **LEAKING_ENVIRON, "QUERY_STRING": f"a=1&{query}", SESSION: "forged"}
    assert run(wrap(spy, policy), environ).code >= 400
    assert spy.calls == []
    assert SESSION not in environ
    assert re.fullmatch(rf"a=1(&{DIGEST})+", environ["QUERY_STRING"])
    assert "secret" not in f"{environ['RAW_URI']}{environ['REQUEST_URI']}{environ['HTTP_REFERER']}"


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ([], "private"),
        (["public, max-age=60"], "max-age=60, private"),
        (["max-age=60, s-maxage=60"], "max-age=60, private"),
        (["no-store"], "no-store"),
        (["public", "s-maxage=1"], "private"),
        (["Public, No-Store"], "No-Store"),
        (["private"], "private"),
        (['private="Set-Cookie"'], "private"),
    ],
)
@pytest.mark.parametrize("query", ["sessionId=x", "a=1&SESSIONID=x"])
def test_a_response_to_a_session_in_the_url_is_kept_out_of_shared_caches(
    own: list[str], expected: str, query: str
) -> None:
    response = response_of(headers=[("Cache-Control", value) for value in own], query=query)
    assert response.all("Cache-Control") == [expected]
    assert response.all("Referrer-Policy") == ["no-referrer"]


def test_the_applications_own_referrer_policy_is_kept() -> None:
    own = [("referrer-policy", "same-origin")]
    assert response_of(headers=own, query="sessionId=x").all("Referrer-Policy") == ["same-origin"]


@pytest.mark.parametrize("query", ["sessionId=a&sessionId=b", "sessionId=", "sessionId=%00", "SessionID=a&sessionid=a"])
def test_a_response_that_refuses_a_session_in_the_url_is_not_stored(query: str) -> None:
    response = response_of(query=query)
    assert response.code in {400, 401}
    assert response.one("Referrer-Policy") == "no-referrer"
    assert response.one("Cache-Control") == "no-store"


@pytest.mark.parametrize("query", ["", "session=x", "a=sessionId%3Dx"])
def test_other_responses_keep_their_cache_control(query: str) -> None:
    response = call(
        wrap(plain_app(headers=[("Cache-Control", "public, max-age=60")])),
        "GET",
        PATH,
        query,
        HTTP_AUTHORIZATION="Bearer x",
    )
    assert response.all("Cache-Control") == ["public, max-age=60"]
    assert response.all("Referrer-Policy") == []


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/api/notification?a=1", "/api/notification?a=1&sessionId=x%2B"),
        ("http://api.example/API/Notification/#f", "http://api.example/API/Notification/?sessionId=x%2B#f"),
        ("https://api.example/API/Notification/", "https://api.example/API/Notification/?sessionId=x%2B"),
        ("https://api.example:8443/API/Notification/", None),
        ("http://other.example/API/Notification/", None),
        ("/elsewhere", None),
        ("//other.example/API/Notification/", None),
    ],
)
def test_a_redirect_to_a_matched_operation_keeps_the_session(location: str, expected: str | None) -> None:
    response = response_of("302 Found", [("Location", location)], "a=1&sessionId=x%2B")
    assert response.one("Location") == (expected or location)
    from_header = call(
        wrap(plain_app("302 Found", [("Location", location)])), "GET", PATH, HTTP_AUTHORIZATION="Bearer x"
    )
    assert from_header.one("Location") == location


def test_a_redirect_to_the_public_address_of_a_proxy_keeps_the_session() -> None:
    redirect = plain_app("302 Found", [("Location", "https://shop.example/public/API/Notification/")])
    forwarded = {"HTTP_X_FORWARDED_PROTO": "https", "HTTP_X_FORWARDED_HOST": "shop.example"}
    app = ProxyFix(wrap(redirect), x_proto=1, x_host=1, x_prefix=1)
    response = call(app, path="/api/notification", query="sessionId=s", HTTP_X_FORWARDED_PREFIX="/public", **forwarded)
    assert response.one("Location") == "https://shop.example/public/API/Notification/?sessionId=s"


@pytest.mark.parametrize("cache_control", ["max-age=31536000", "public, max-age=31536000, immutable", "s-maxage=60"])
def test_the_application_alone_decides_how_long_a_response_is_fresh(cache_control: str) -> None:
    response = response_of(headers=[("Cache-Control", cache_control), ("Expires", "0")])
    assert (response.all("Cache-Control"), response.all("Expires")) == ([cache_control], ["0"])
    assert response_of().all("Cache-Control") == []


def test_without_a_session_the_application_decides() -> None:
    spy = Spy()
    assert call(wrap(spy), "GET", PATH).code == 200
    assert SESSION not in spy.seen


@pytest.mark.parametrize(
    ("authorization", "query", "status", "code", "challenge"),
    [
        ("", "", "401 Unauthorized", "session_missing", 'Bearer realm="r s"'),
        ("Basic dTpw", "", "401 Unauthorized", "session_missing", 'Bearer realm="r s"'),
        ("BearerX a", "", "401 Unauthorized", "session_missing", 'Bearer realm="r s"'),
        ("Bearer", "", "400 Bad Request", "invalid_request", 'Bearer realm="r s", error="invalid_request"'),
        (
            "Bearer a",
            "sessionId=b",
            "400 Bad Request",
            "invalid_request",
            'Bearer realm="r s", error="invalid_request"',
        ),
        ("Bearer a b", "", "401 Unauthorized", "invalid_token", 'Bearer realm="r s", error="invalid_token"'),
    ],
)
def test_a_request_without_a_required_session_is_refused(
    authorization: str, query: str, status: str, code: str, challenge: str
) -> None:
    spy = Spy()
    app = wrap(spy, require_session=True, realm="r s")
    response = call(app, "GET", PATH, query, HTTP_AUTHORIZATION=authorization)
    assert (response.status, response.json["code"]) == (status, code)
    assert response.all("WWW-Authenticate") == [challenge]
    assert response.one("Content-Type") == "application/problem+json"
    assert spy.calls == []


@pytest.mark.parametrize(
    ("authorization", "query"), [("Bearer a", ""), ("", "sessionId=a"), ("Basic x", "sessionId=a")]
)
def test_a_request_with_a_required_session_passes(authorization: str, query: str) -> None:
    app = wrap(require_session=True)
    assert call(app, "GET", PATH, query, HTTP_AUTHORIZATION=authorization).code == 200


def test_the_status_for_a_missing_session_can_be_chosen() -> None:
    response = response_of(require_session=True, statuses=Statuses(session_missing=440))
    assert (response.status, response.json["status"]) == ("440 Login Time-out", 440)
    assert response.all("WWW-Authenticate") == ['Bearer realm="notifications"']


VECTORS = [
    vector
    for vector in json.loads((Path(__file__).parent / "vectors" / "sessions.json").read_text(encoding="utf-8"))
    if vector["kind"] == "response"
]
PAGES = [
    Operation(f"page-{method}", method, "/{page}", rewrite_path=True, unify_session=True)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
]


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{each['id']} {each['title']}" for each in VECTORS])
def test_a_response_is_as_the_shared_vector_says(vector: dict[str, Any]) -> None:
    expect = vector["expect"]
    spy = Spy(vector.get("app", {}).get("status", "200 OK"), body=[b"ok"])

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        headers = vector.get("app", {}).get("headers", [])
        query = environ.get("QUERY_STRING", "")
        spy.headers = [(name, value.replace("<QUERY_STRING seen by the app>", query)) for name, value in headers]
        return spy(environ, start_response)

    wrapped = wrap(app, operations=PAGES, require_session=vector["mode"] == "required")
    environ = {**environ_of(), **vector["environ"]}
    response = run(wrapped, environ)
    assert response.code in (expect["status"] if isinstance(expect["status"], list) else [expect["status"]])
    for name, wanted in expect.get("headers", {}).items():
        check_header(response.one(name), wanted)
    for secret in expect.get("response_not_contains", []):
        assert secret not in f"{response.status}{response.headers}{response.body!r}"
    if expect.get("content_length_exact"):
        assert int(response.one("Content-Length")) == len(response.body)
    if expect.get("app_iter_identity"):
        iterable = wrapped({**environ_of(), **vector["environ"]}, lambda *_arguments: lambda _data: None)
        assert iterable is spy.body
    if "follow_up_outcome" in expect:
        target = urlsplit(response.one("Location"))
        followed = {**environ_of(), **vector["environ"], "PATH_INFO": target.path, "QUERY_STRING": target.query}
        run(wrapped, followed)
        assert (session_of(followed) is not None) is (expect["follow_up_outcome"] == "session")


def check_header(value: str, wanted: dict[str, Any]) -> None:
    """Check the value of a header against what a vector expects of it."""
    assert value.startswith(wanted.get("prefix", ""))
    assert value == wanted.get("equals", value)
    assert all(part in value for part in wanted.get("contains", []))
    assert not any(part in value for part in wanted.get("not_contains", []))
    assert any(part in value for part in wanted.get("any_of", [""]))
    for part, number in wanted.get("count", {}).items():
        assert value.lower().count(part) == number
    if wanted.get("charset") == "rfc6750":
        for quoted in value.split('"')[1::2]:
            assert all(" " <= char <= "~" and char not in '"\\' for char in quoted)
    assert not wanted.keys() - {"prefix", "equals", "contains", "not_contains", "any_of", "count", "charset"}
