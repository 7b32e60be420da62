"""Around any application: which requests are claimed, what their answers announce, and what stays untouched."""

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from flask_notifications import (
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    SessionCredential,
    Statuses,
    Use,
    session_of,
)
from tests.wsgi import Answer, call, environ_of, plain_app, run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

SESSION = "flask_notifications.session"
ORIGINAL_PATH = "flask_notifications.original_path"
UNDER_WAY = "flask_notifications.claim"

DEPRECATED_AT = datetime(2026, 1, 1, tzinfo=UTC)
SUNSET_AT = datetime(2027, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
POLICY = DeprecationPolicy(
    deprecated_at=DEPRECATED_AT,
    sunset_at=SUNSET_AT,
    documentation="https://example.com/retire",
    sunset_documentation="https://example.com/policy",
)
ANNOUNCED = [
    ("Deprecation", "@1767225600"),
    ("Sunset", "Fri, 01 Jan 2027 00:00:00 GMT"),
    ("Link", '</API/Notification/CurrentUser>; rel="successor-version"'),
    ("Link", '<https://example.com/retire>; rel="deprecation"; type="text/html"'),
    ("Link", '<https://example.com/policy>; rel="sunset"; type="text/html"'),
]
BARE = DeprecationPolicy(deprecated_at=DEPRECATED_AT)
PATH = "/API/Notification/"


class Spy:
    """An application that keeps what it is called with, and always answers the same."""

    def __init__(self, status: str = "200 OK", headers: Iterable[tuple[str, str]] = (), body: Any = (b"ok",)) -> None:
        self.status, self.headers, self.body = status, [("Content-Type", "text/plain"), *headers], body
        self.calls: list[tuple[WSGIEnvironment, StartResponse]] = []
        self.seen: dict[str, Any] = {}

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        self.calls.append((environ, start_response))
        self.seen = dict(environ)
        start_response(self.status, self.headers)
        return self.body


def middleware(app: "WSGIApplication | None" = None, policy: DeprecationPolicy = POLICY, **options: Any) -> Any:
    return DeprecationMiddleware(plain_app() if app is None else app, policy, **{"clock": lambda: NOW, **options})


def answer_of(
    status: str = "200 OK", headers: Iterable[tuple[str, str]] = (), query: str = "", **options: Any
) -> Answer:
    return call(middleware(plain_app(status, headers), **options), "GET", PATH, query)


# Which requests are claimed.

CLAIMED = [
    ("GET", "/API/Notification/"),
    ("GET", "/API/Notification"),
    ("GET", "/api/notification"),
    ("HEAD", "/aPI/NOTIFICATION/"),
    ("POST", "/API/Notification/GetNotificationsForAccount/x/"),
    ("POST", "/api/notification/getnotificationsforaccount/a b;c=\xff"),
]
UNCLAIMED = [
    ("POST", "/API/Notification/"),
    ("PUT", "/API/Notification/"),
    ("DELETE", "/API/Notification"),
    ("OPTIONS", "/API/Notification/"),
    ("OPTIONS", "/API/Notification/GetNotificationsForAccount/x/"),
    ("get", "/API/Notification/"),
    ("GET", "/API/Notification/4f2c"),
    ("GET", "/API/Notification/CurrentUser"),
    ("POST", "/API/Notification/query"),
    ("GET", "/API/Notification//"),
    ("GET", "/API//Notification"),
    ("GET", "//API/Notification/"),
    ("GET", "/API/./Notification/"),
    ("GET", "/API/x/../Notification/"),
    ("GET", "/API/Notification;v=1/"),
    ("GET", "/API/NotificationX/"),
    ("GET", "/API/Notification2"),
    ("GET", "/v1/API/Notification/"),
    ("GET", "/API/Notification/GetNotificationsForAccount/x/"),
    ("POST", "/API/Notification/GetNotificationsForAccount/"),
    ("POST", "/API/Notification/GetNotificationsForAccount//"),
    ("POST", "/API/Notification/GetNotificationsForAccount/../"),
    ("POST", "/API/Notification/GetNotificationsForAccount/x/y"),
    ("GET", ""),
    ("GET", "/"),
    ("OPTIONS", "*"),
]
EXTRAS = {
    "QUERY_STRING": "a=1&sessionId=secret&sessionid=again",
    "RAW_URI": "/x?sessionId=secret",
    "REQUEST_URI": "/x?sessionId=secret",
    "HTTP_REFERER": "http://x/?sessionId=secret",
    "HTTP_USER_AGENT": "x",
}


@pytest.mark.parametrize(("method", "path"), CLAIMED)
@pytest.mark.parametrize("mount", ["", "/erp"])
def test_a_request_of_an_operation_is_claimed(method: str, path: str, mount: str) -> None:
    spy = Spy()
    environ = environ_of(method, path, SCRIPT_NAME=mount)
    assert run(middleware(spy), environ).one("Deprecation") == "@1767225600"
    assert spy.calls[0][0] is environ
    assert spy.seen[UNDER_WAY] == ("current_user" if method in {"GET", "HEAD"} else "account")
    assert UNDER_WAY not in environ
    assert environ[ORIGINAL_PATH] == path
    assert environ["PATH_INFO"].startswith("/API/Notification/")
    assert environ["PATH_INFO"].endswith("/")
    assert environ["SCRIPT_NAME"] == mount


def test_a_parameter_keeps_its_bytes_and_its_letter_case() -> None:
    spy = Spy()
    call(middleware(spy), "POST", "/api/NOTIFICATION/getnotificationsforaccount/A b;C=\xff%2F")
    assert spy.seen["PATH_INFO"] == "/API/Notification/GetNotificationsForAccount/A b;C=\xff%2F/"


@pytest.mark.parametrize(("method", "path"), UNCLAIMED)
@pytest.mark.parametrize("mount", ["", "/API/Notification"])
def test_every_other_request_passes_untouched(method: str, path: str, mount: str) -> None:
    headers = [("Deprecation", "?1"), ("Vary", "x"), ("Access-Control-Allow-Origin", "*"), ("Set-Cookie", "a=1")]
    spy = Spy(headers=headers)
    answers: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, fields: list[tuple[str, str]], _exc_info: Any = None) -> Callable[[bytes], object]:
        answers.append((status, fields))
        return lambda _data: None

    uses: list[Use] = []
    environ = {**environ_of(method, path, SCRIPT_NAME=mount), **EXTRAS}
    before = dict(environ)
    body = middleware(spy, observers=[uses.append], require_session=True)(environ, start_response)
    assert body is spy.body
    assert spy.calls == [(environ, start_response)]
    assert spy.calls[0][0] is environ
    assert environ == before == spy.seen
    assert list(environ) == list(before)
    assert answers == [(spy.status, spy.headers)]
    assert answers[0][1] is spy.headers
    assert uses == []


def test_an_environ_without_optional_keys_is_claimed_too() -> None:
    environ = environ_of(path=PATH)
    del environ["QUERY_STRING"], environ["SCRIPT_NAME"]
    before = set(environ)
    answer = run(middleware(observers=[lambda _use: None]), environ)
    assert answer.fields[-5:] == ANNOUNCED
    assert set(environ) - before == {ORIGINAL_PATH}


def test_an_environ_without_a_path_is_one_of_the_root() -> None:
    spy = Spy()
    environ = environ_of(path="")
    del environ["PATH_INFO"]
    run(middleware(spy, operations=[Operation("root", "GET", "/")]), environ)
    assert (spy.seen[ORIGINAL_PATH], spy.seen["PATH_INFO"]) == ("", "/")


def test_a_server_gets_no_argument_that_the_application_did_not_give() -> None:
    given: list[tuple[Any, ...]] = []

    def start_response(*arguments: Any) -> Any:
        given.append(arguments)

    middleware()(environ_of(path=PATH), start_response)
    assert [len(arguments) for arguments in given] == [2]


def test_the_application_sees_the_session_in_one_place() -> None:
    spy = Spy()
    environ = environ_of(path="/api/notification", query="a=%20&SessionID=s3cret&b=1&&c", RAW_URI="/x?SessionID=s3cret")
    run(middleware(spy), environ)
    credential = spy.seen[SESSION]
    assert isinstance(credential, SessionCredential)
    assert (credential.value, credential.source) == ("s3cret", "query")
    assert session_of(environ) is credential
    assert spy.seen["QUERY_STRING"] == "a=%20&b=1&&c"
    assert spy.seen["HTTP_AUTHORIZATION"] == "Bearer s3cret"
    assert spy.seen["RAW_URI"] == "/x?SessionID=REDACTED"


@pytest.mark.parametrize("query", ["sessionId=a&sessionId=b", "sessionId=", "sessionId=%22"])
@pytest.mark.parametrize(
    "policy",
    [POLICY, DeprecationPolicy(deprecated_at=DEPRECATED_AT, sunset_at=NOW, enforce_sunset=True)],
    ids=["refused", "sunset"],
)
def test_the_environ_is_cleaned_when_the_application_never_runs(query: str, policy: DeprecationPolicy) -> None:
    spy = Spy()
    environ = {**environ_of(path=PATH), **EXTRAS, "QUERY_STRING": f"a=1&{query}", SESSION: "forged"}
    assert run(middleware(spy, policy), environ).code >= 400
    assert spy.calls == []
    assert SESSION not in environ
    assert environ["QUERY_STRING"] == "a=1"
    assert "secret" not in f"{environ['RAW_URI']}{environ['REQUEST_URI']}{environ['HTTP_REFERER']}"


# What is announced.


@pytest.mark.parametrize(
    "status",
    [
        "200 OK",
        "204 No Content",
        "206 Partial Content",
        "301 Moved Permanently",
        "304 Not Modified",
        "400 Bad Request",
        "401 Unauthorized",
        "404 Not Found",
        "405 Method Not Allowed",
        "410 Gone",
        "500 Internal Server Error",
        "503 Service Unavailable",
        "599 Own",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_every_status_is_announced_with_the_same_bytes(status: str, method: str) -> None:
    own = [("X-Own", "1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("ETag", '"x"')]
    answer = run(middleware(plain_app(status, own, b"")), environ_of(method, PATH))
    assert answer.status == status
    assert answer.fields == [("Content-Type", "text/plain"), *own, ("Vary", "Authorization"), *ANNOUNCED]


@pytest.mark.parametrize(
    "options",
    [
        {"require_session": True},
        {
            "policy": DeprecationPolicy(
                deprecated_at=DEPRECATED_AT,
                sunset_at=SUNSET_AT,
                documentation="https://example.com/retire",
                sunset_documentation="https://example.com/policy",
                brownouts=[Brownout(NOW, SUNSET_AT)],
            )
        },
    ],
    ids=["401", "410"],
)
def test_the_middlewares_own_answers_are_announced(options: dict[str, Any]) -> None:
    answer = answer_of(**options)
    assert answer.code in {401, 410}
    assert answer.fields[-5:] == ANNOUNCED


def test_each_operation_announces_its_own_successor() -> None:
    answer = call(middleware(), "POST", "/API/Notification/GetNotificationsForAccount/x")
    assert answer.all("Link")[0] == '</API/Notification/Account>; rel="successor-version"'


def test_what_the_policy_does_not_know_is_not_announced() -> None:
    operations = [Operation("x", "GET", PATH)]
    assert answer_of(policy=BARE, operations=operations).fields[-1] == ("Deprecation", "@1767225600")


def test_the_applications_own_links_stay_in_front() -> None:
    own = [("Link", '</a>; rel="next", </b>; rel="deprecation"'), ("X-A", "1"), ("link", "<c>;rel=sunset")]
    answer = answer_of(headers=own)
    assert answer.fields == [("Content-Type", "text/plain"), *own, ("Vary", "Authorization"), *ANNOUNCED]


@pytest.mark.parametrize("policy", [POLICY, BARE], ids=["with a sunset", "without"])
def test_the_applications_own_deprecation_and_sunset_are_replaced(policy: DeprecationPolicy) -> None:
    own = [("Deprecation", "@1"), ("DEPRECATION", "true"), ("sunset", "never"), ("Sunset", "soon")]
    answer = answer_of(headers=own, policy=policy)
    assert answer.all("Deprecation") == ["@1767225600"]
    assert answer.all("Sunset") == (["Fri, 01 Jan 2027 00:00:00 GMT"] if policy is POLICY else [])


@pytest.mark.parametrize("now", [datetime(1970, 1, 1, tzinfo=UTC), NOW, datetime(2030, 1, 1, tzinfo=UTC)], ids=str)
def test_the_lines_do_not_depend_on_the_time(now: datetime) -> None:
    """A deprecation to come is announced too, and a sunset that has passed without being enforced."""
    answer = answer_of(clock=lambda: now)
    assert answer.code == 200
    assert answer.fields[-5:] == ANNOUNCED


TARGETS = [
    # SCRIPT_NAME, base_url, target, in the Link
    ("", None, "/new", "/new"),
    ("/erp", None, "/new", "/erp/new"),
    ("/", None, "/new", "/new"),
    ("/erp/", None, "/new", "/erp/new"),
    ("/a/b", None, "/new?x=1#y", "/a/b/new?x=1#y"),
    ("erp", None, "/new", "/erp/new"),
    ("//host", None, "/new", "/host/new"),
    ('/\xc3\xa9 <>"\\\r\n;,', None, "/new", "/%C3%A9%20%3C%3E%22%5C%0D%0A%3B%2C/new"),
    ("/a%2Fb", None, "/new", "/a%252Fb/new"),
    ("/erp", None, "//host/new", "//host/new"),
    ("/erp", None, "https://host/new", "https://host/new"),
    ("/erp", None, "new", "new"),
    ("/erp", None, "?new", "?new"),
    ("", "https://api.example", "/new", "https://api.example/new"),
    ("", "https://api.example/", "/new", "https://api.example/new"),
    ("/erp", "https://api.example:8443/root", "/new", "https://api.example:8443/root/erp/new"),
    ("/erp", "http://[::1]", "/new", "http://[::1]/erp/new"),
    ("/erp", "http://api.example:1", "/new", "http://api.example:1/erp/new"),
    ("/erp", "https://api.example", "//host/new", "//host/new"),
    ("/erp", "https://api.example", "https://host/new", "https://host/new"),
    ("/erp", "https://api.example", "new", "new"),
]


@pytest.mark.parametrize(("mount", "base_url", "target", "placed"), TARGETS)
def test_a_target_with_one_slash_in_front_stands_below_the_application(
    mount: str, base_url: str | None, target: str, placed: str
) -> None:
    policy = DeprecationPolicy(deprecated_at=DEPRECATED_AT, documentation=target, sunset_documentation=target)
    operations = [Operation("x", "GET", PATH, successor=target)]
    app = middleware(None, policy, operations=operations, base_url=base_url)
    answer = run(app, environ_of(path=PATH, SCRIPT_NAME=mount))
    assert answer.all("Link") == [
        f'<{placed}>; rel="successor-version"',
        f'<{placed}>; rel="deprecation"; type="text/html"',
        f'<{placed}>; rel="sunset"; type="text/html"',
    ]


EXPOSE = "Access-Control-Expose-Headers"


@pytest.mark.parametrize(
    ("came", "exposed"),
    [
        ([], ["Deprecation, Sunset, Link"]),
        (["ETag"], ["ETag, Deprecation, Sunset, Link"]),
        (["ETag, link"], ["ETag, link, Deprecation, Sunset"]),
        (["DEPRECATION,Sunset , Link"], ["DEPRECATION, Sunset, Link"]),
        (["*"], ["*, Deprecation, Sunset, Link"]),
        ([""], ["Deprecation, Sunset, Link"]),
        (["ETag", "X-A"], ["ETag, X-A, Deprecation, Sunset, Link"]),
    ],
)
@pytest.mark.parametrize("origin", ["*", "https://page.example"])
def test_a_page_that_may_read_the_answer_may_read_the_announcement(
    came: list[str], exposed: list[str], origin: str
) -> None:
    own = [("access-control-allow-origin", origin), *((EXPOSE, value) for value in came)]
    assert answer_of(headers=own).all(EXPOSE) == exposed


def test_no_cors_field_is_invented() -> None:
    assert not [name for name, _value in answer_of().fields if name.startswith("Access-Control")]
    assert answer_of(headers=[(EXPOSE, "ETag")]).all(EXPOSE) == ["ETag"]


@pytest.mark.parametrize(
    ("came", "vary"),
    [
        ([], ["Authorization"]),
        (["Accept"], ["Accept, Authorization"]),
        (["authorization"], ["authorization"]),
        (["Accept", "Cookie"], ["Accept, Cookie, Authorization"]),
        (["*"], ["*"]),
    ],
)
def test_vary_names_the_header_of_the_session(came: list[str], vary: list[str]) -> None:
    assert answer_of(headers=[("Vary", value) for value in came]).all("Vary") == vary


@pytest.mark.parametrize(
    ("came", "left"),
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
def test_an_answer_to_a_session_in_the_url_is_kept_out_of_shared_caches(came: list[str], left: str, query: str) -> None:
    answer = answer_of(headers=[("Cache-Control", value) for value in came], query=query)
    assert answer.all("Cache-Control") == [left]
    assert answer.all("Referrer-Policy") == ["no-referrer"]


def test_the_applications_own_referrer_policy_stays() -> None:
    own = [("referrer-policy", "same-origin")]
    assert answer_of(headers=own, query="sessionId=x").all("Referrer-Policy") == ["same-origin"]


@pytest.mark.parametrize("query", ["sessionId=a&sessionId=b", "sessionId=", "sessionId=%00", "SessionID=a&sessionid=a"])
def test_a_refused_session_in_the_url_is_kept_out_too(query: str) -> None:
    answer = answer_of(query=query)
    assert answer.code in {400, 401}
    assert answer.one("Referrer-Policy") == "no-referrer"
    assert answer.one("Cache-Control") == "no-store"


@pytest.mark.parametrize("query", ["", "session=x", "a=sessionId%3Dx"])
def test_other_answers_keep_their_cache_control(query: str) -> None:
    answer = call(
        middleware(plain_app(headers=[("Cache-Control", "public, max-age=60")])),
        "GET",
        PATH,
        query,
        HTTP_AUTHORIZATION="Bearer x",
    )
    assert answer.all("Cache-Control") == ["public, max-age=60"]
    assert answer.all("Referrer-Policy") == []


@pytest.mark.parametrize(
    ("location", "left"),
    [
        ("/api/notification?a=1", "/api/notification?a=1&sessionId=x%2B"),
        ("http://api.example/API/Notification/#f", "http://api.example/API/Notification/?sessionId=x%2B#f"),
        ("https://api.example/API/Notification/", None),
        ("http://other.example/API/Notification/", None),
        ("/elsewhere", None),
        ("//other.example/API/Notification/", None),
    ],
)
def test_a_redirect_back_to_a_claimed_operation_keeps_the_session(location: str, left: str | None) -> None:
    answer = answer_of("302 Found", [("Location", location)], "a=1&sessionId=x%2B")
    assert answer.one("Location") == (left or location)
    header_borne = call(
        middleware(plain_app("302 Found", [("Location", location)])), "GET", PATH, HTTP_AUTHORIZATION="Bearer x"
    )
    assert header_borne.one("Location") == location


# Nothing else changes.


def test_the_iterable_is_handed_back_as_the_same_object() -> None:
    for body in ([b"a", b"b"], (b"",), iter([b"a"]), (part for part in [b"a"]), object()):
        spy = Spy(body=body)
        assert middleware(spy)(environ_of(path=PATH), lambda *_arguments: lambda _data: None) is body


def test_the_applications_own_list_of_fields_is_not_changed() -> None:
    spy = Spy(headers=[("Deprecation", "?1"), ("Vary", "Accept"), ("Access-Control-Allow-Origin", "*")])
    before = list(spy.headers)
    for _time in range(2):
        answer = call(middleware(spy), "GET", PATH, "sessionId=x")
        assert answer.all("Deprecation") == ["@1767225600"]
    assert spy.headers == before


def test_one_answer_does_not_leak_into_the_next() -> None:
    app = middleware(plain_app(headers=[("Access-Control-Allow-Origin", "*")]))
    first = call(app, "GET", PATH, SCRIPT_NAME="/one")
    other = call(app, "GET", PATH, "sessionId=x", SCRIPT_NAME="/two")
    assert first.all("Link")[0] == '</one/API/Notification/CurrentUser>; rel="successor-version"'
    assert other.all("Link")[0] == '</two/API/Notification/CurrentUser>; rel="successor-version"'
    assert call(app, "GET", PATH, SCRIPT_NAME="/one").wire == first.wire
    assert len(call(app, "GET", PATH).all("Link")) == 3


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("query", ["", "a=1&sessionId=x", "sessionId=x&sessionId=y"])
def test_applied_again_it_changes_nothing_and_tells_observers_once(times: int, query: str) -> None:
    uses: list[Use] = []
    headers = [("Access-Control-Allow-Origin", "*"), ("Link", "<a>; rel=next"), ("Location", PATH)]
    once = again = middleware(plain_app("302 Found", headers), observers=[uses.append])
    for _time in range(times - 1):
        again = middleware(again, observers=[uses.append])
    expected = call(once, "GET", PATH, query)
    assert len(uses) == 1
    uses.clear()
    assert call(again, "GET", PATH, query).wire == expected.wire
    assert len(uses) == 1
    assert call(again, "POST", PATH).all("Deprecation") == []


def test_applied_again_the_outermost_policy_counts() -> None:
    inner = middleware(policy=BARE)
    assert call(middleware(inner), "GET", PATH).fields[-5:] == ANNOUNCED


def test_another_middleware_inside_claims_what_the_outer_one_leaves() -> None:
    inner = middleware(policy=BARE, operations=[Operation("x", "GET", "/x")])
    app = middleware(inner)
    assert call(app, "GET", "/X").fields[-1] == ("Deprecation", "@1767225600")
    assert call(app, "GET", PATH).fields[-5:] == ANNOUNCED


def test_an_environ_used_again_is_claimed_again() -> None:
    """Test clients and dispatchers do so."""
    uses: list[Use] = []
    app, environ = middleware(observers=[uses.append]), environ_of(path=PATH)
    assert run(app, environ).fields == run(app, environ).fields
    assert len(uses) == 2


def test_without_the_session_nothing_of_it_happens() -> None:
    spy = Spy(headers=[("Location", PATH)], status="302 Found")
    environ = {**environ_of(path="/api/notification"), **EXTRAS}
    before = dict(environ)
    answer = run(middleware(spy, extract_session=False), environ)
    assert answer.fields == [*spy.headers, *ANNOUNCED]
    assert {key for key in spy.seen if spy.seen[key] != before.get(key)} >= {"PATH_INFO", ORIGINAL_PATH}
    for key in (*EXTRAS, "QUERY_STRING"):
        assert spy.seen[key] == before[key]
    assert SESSION not in spy.seen
    assert "HTTP_AUTHORIZATION" not in spy.seen


# Phases.

WINDOW = Brownout(datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 6, 1, 1, tzinfo=UTC))
# Its start lies after the sunset: no brownout is left then.
LATE = Brownout(SUNSET_AT + timedelta(days=1), SUNSET_AT + timedelta(days=2))
PHASED = DeprecationPolicy(
    deprecated_at=DEPRECATED_AT,
    sunset_at=SUNSET_AT,
    brownouts=[WINDOW, LATE],
    enforce_sunset=True,
    documentation="/docs",
)
TICK = timedelta(microseconds=1)
PHASES = [
    (DEPRECATED_AT - TICK, "announced", None),
    (DEPRECATED_AT, "deprecated", None),
    (WINDOW.start - TICK, "deprecated", None),
    (WINDOW.start, "brownout", "3600"),
    (WINDOW.start + TICK, "brownout", "3600"),
    (WINDOW.start + timedelta(seconds=1), "brownout", "3599"),
    (WINDOW.end - timedelta(seconds=1.5), "brownout", "2"),
    (WINDOW.end - TICK, "brownout", "1"),
    (WINDOW.end, "deprecated", None),
    (SUNSET_AT - TICK, "deprecated", None),
    (SUNSET_AT, "sunset", None),
    (LATE.start, "sunset", None),
    (SUNSET_AT + timedelta(days=9999), "sunset", None),
]


@pytest.mark.parametrize(("now", "phase", "wait"), PHASES)
@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-11)), timezone(timedelta(hours=5, minutes=30))])
@pytest.mark.parametrize("extract", [True, False])
def test_the_clock_tells_the_phase(now: datetime, phase: str, wait: str | None, zone: timezone, extract: bool) -> None:
    uses: list[Use] = []
    spy = Spy()
    app = middleware(spy, PHASED, clock=lambda: now.astimezone(zone), observers=[uses.append], extract_session=extract)
    answer = call(app, "GET", PATH, "sessionId=a&sessionId=b" if phase in {"brownout", "sunset"} else "")
    open_for_use = phase in {"announced", "deprecated"}
    assert (answer.status, len(spy.calls)) == (("200 OK", 1) if open_for_use else ("410 Gone", 0))
    assert (uses[0].phase, uses[0].status, uses[0].at, uses[0].at.tzinfo) == (phase, answer.code, now, UTC)
    if not open_for_use:
        assert answer.all("Retry-After") == ([wait] if wait else [])
        assert answer.one("Cache-Control") == "no-store"
        assert answer.one("Content-Length") == str(len(answer.body))
        assert answer.one("Vary") == "Authorization"
        body = answer.json
        assert body.pop("detail").endswith(".")
        assert body == {
            "type": "about:blank",
            "title": "Gone",
            "status": 410,
            "code": phase,
            "successor": "/API/Notification/CurrentUser",
        }


def test_a_clock_without_a_zone_shows_local_time() -> None:
    uses: list[Use] = []
    app = middleware(clock=lambda: NOW.astimezone().replace(tzinfo=None), observers=[uses.append])
    assert call(app, "GET", PATH).code == 200
    assert (uses[0].at, uses[0].at.tzinfo) == (NOW, UTC)


def test_a_sunset_that_is_not_enforced_changes_nothing() -> None:
    assert answer_of(clock=lambda: SUNSET_AT + timedelta(days=1)).code == 200


def test_the_clock_is_asked_at_each_request() -> None:
    times = iter([WINDOW.start - TICK, WINDOW.start, WINDOW.end])
    app = middleware(None, PHASED, clock=lambda: next(times))
    assert [call(app, "GET", PATH).code for _time in range(3)] == [200, 410, 200]


@pytest.mark.parametrize(
    ("policy", "observers", "asked"),
    [
        pytest.param(DeprecationPolicy(deprecated_at=NOW, sunset_at=SUNSET_AT), [], 0, id="never closed"),
        pytest.param(DeprecationPolicy(deprecated_at=NOW, brownouts=[WINDOW]), [], 1, id="a brownout"),
        pytest.param(
            DeprecationPolicy(deprecated_at=NOW, sunset_at=SUNSET_AT, enforce_sunset=True),
            [],
            1,
            id="an enforced sunset",
        ),
        pytest.param(DeprecationPolicy(deprecated_at=NOW), [len], 1, id="an observer"),
    ],
)
def test_the_clock_is_asked_once_where_the_time_makes_a_difference(
    policy: DeprecationPolicy, observers: list[Any], asked: int
) -> None:
    times: list[datetime] = []

    def clock() -> datetime:
        times.append(WINDOW.end)
        return WINDOW.end

    assert answer_of(policy=policy, clock=clock, observers=observers).code == 200
    assert len(times) == asked


def test_the_usual_clock_is_the_time() -> None:
    uses: list[Use] = []
    before = datetime.now(UTC)
    call(DeprecationMiddleware(plain_app(), POLICY, observers=[uses.append]), "GET", PATH)
    assert before <= uses[0].at <= datetime.now(UTC)
    assert uses[0].at.tzinfo is UTC


def test_the_successor_in_the_body_is_the_target_of_the_link() -> None:
    app = middleware(None, PHASED, clock=lambda: SUNSET_AT, base_url="https://api.example/")
    answer = call(app, "POST", "/API/Notification/GetNotificationsForAccount/x", SCRIPT_NAME="/\xc3\xa9")
    assert answer.json["successor"] == "https://api.example/%C3%A9/API/Notification/Account"
    assert answer.all("Link")[0] == f'<{answer.json["successor"]}>; rel="successor-version"'


def test_without_a_successor_the_body_names_none() -> None:
    answer = answer_of(policy=PHASED, clock=lambda: SUNSET_AT, operations=[Operation("x", "GET", PATH)])
    assert "successor" not in answer.json


def test_head_in_a_brownout_has_no_body() -> None:
    app = middleware(None, PHASED, clock=lambda: WINDOW.start)
    whole, head = call(app, "GET", PATH), call(app, "HEAD", PATH)
    assert (head.status, head.fields, head.body) == (whole.status, whole.fields, b"")


# A session is required, or not.


def test_without_a_session_the_application_decides() -> None:
    spy = Spy()
    assert call(middleware(spy), "GET", PATH).code == 200
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
def test_a_required_session_that_is_not_there(
    authorization: str, query: str, status: str, code: str, challenge: str
) -> None:
    spy = Spy()
    app = middleware(spy, require_session=True, realm="r s")
    answer = call(app, "GET", PATH, query, HTTP_AUTHORIZATION=authorization)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.all("WWW-Authenticate") == [challenge]
    assert answer.one("Content-Type") == "application/problem+json"
    assert spy.calls == []


@pytest.mark.parametrize(
    ("authorization", "query"), [("Bearer a", ""), ("", "sessionId=a"), ("Basic x", "sessionId=a")]
)
def test_a_required_session_that_is_there(authorization: str, query: str) -> None:
    app = middleware(require_session=True)
    assert call(app, "GET", PATH, query, HTTP_AUTHORIZATION=authorization).code == 200


def test_the_number_for_a_missing_session_is_the_hosts() -> None:
    answer = answer_of(require_session=True, statuses=Statuses(session_missing=440))
    assert (answer.status, answer.json["status"]) == ("440 Login Time-out", 440)
    assert answer.all("WWW-Authenticate") == ['Bearer realm="notifications"']


# Observers.


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "expected"),
    [
        ("GET", PATH, "", {}, ("current_user", "GET", 418, "deprecated", None, None)),
        ("HEAD", "/api/notification", "sessionId=s", {}, ("current_user", "HEAD", 418, "deprecated", "query", None)),
        (
            "POST",
            "/API/Notification/GetNotificationsForAccount/x",
            "",
            {"HTTP_AUTHORIZATION": "Bearer s", "HTTP_USER_AGENT": "erp-client/7.1 (x; y) python/3"},
            ("account", "POST", 418, "deprecated", "header", "erp-client/7.1"),
        ),
        ("GET", PATH, "sessionId=s&sessionId=s", {}, ("current_user", "GET", 400, "deprecated", None, None)),
        ("GET", PATH, "", {"HTTP_USER_AGENT": "curl"}, ("current_user", "GET", 418, "deprecated", None, "curl")),
        ("GET", PATH, "", {"HTTP_USER_AGENT": ""}, ("current_user", "GET", 418, "deprecated", None, None)),
        ("GET", PATH, "", {"HTTP_USER_AGENT": "(x) y/1"}, ("current_user", "GET", 418, "deprecated", None, None)),
        ("GET", PATH, "", {"HTTP_USER_AGENT": "\xe9\xe9/1"}, ("current_user", "GET", 418, "deprecated", None, None)),
        ("GET", PATH, "", {"HTTP_USER_AGENT": "a/b/c d"}, ("current_user", "GET", 418, "deprecated", None, "a/b")),
    ],
)
def test_an_observer_is_told_of_each_claimed_request(
    method: str, path: str, query: str, headers: dict[str, str], expected: tuple[object, ...]
) -> None:
    uses: list[Use] = []
    call(middleware(plain_app("418 Teapot"), observers=[uses.append]), method, path, query, **headers)
    (use,) = uses
    assert (use.operation, use.method, use.status, use.phase, use.source, use.client) == expected
    assert use.at == NOW
    assert "'s'" not in repr(use)


def test_a_use_is_a_value() -> None:
    uses: list[Use] = []
    call(middleware(observers=[uses.append]), "GET", PATH)
    with pytest.raises(AttributeError):
        uses[0].status = 1  # type: ignore[misc]
    assert list(Use.__slots__) == [
        "operation",
        "method",
        "status",
        "phase",
        "source",
        "client",
        "at",
    ]


def test_a_failing_observer_touches_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    uses: list[Use] = []

    def fail(use: Use) -> None:
        raise ValueError(use)

    app = middleware(observers=[fail, uses.append, fail, uses.append])
    answer = call(app, "GET", PATH, "sessionId=s3cret")
    assert answer.wire == call(middleware(), "GET", PATH, "sessionId=s3cret").wire
    assert len(uses) == 2
    assert uses[0] is not None
    assert [(record.name, record.levelno) for record in caplog.records] == [("flask_notifications", logging.ERROR)] * 2
    assert "s3cret" not in caplog.text


def test_observers_are_told_before_the_body_is_read() -> None:
    uses: list[Use] = []

    def parts() -> Iterator[bytes]:
        assert len(uses) == 1
        yield b"a"

    assert call(middleware(Spy(body=parts()), observers=[uses.append]), "GET", PATH).body == b"a"
    assert len(uses) == 1


def test_observers_are_not_told_while_the_application_can_still_change_its_mind() -> None:
    uses: list[Use] = []

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        assert not uses
        try:
            raise ValueError  # noqa: TRY301 - PEP 3333 wants an exception that is being handled
        except ValueError:
            start_response("500 Oops", [("Content-Type", "text/plain")], sys.exc_info())
        assert not uses
        return [b"x"]

    assert call(middleware(app, observers=[uses.append]), "GET", PATH).code == 500
    assert [use.status for use in uses] == [500]


def test_observers_of_a_lazy_application_are_told_when_it_starts() -> None:
    uses: list[Use] = []

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        assert not uses
        start_response("202 Accepted", [("Content-Type", "text/plain")])
        assert len(uses) == 1
        yield b"a"
        yield b"b"

    assert call(middleware(app, observers=[uses.append]), "GET", PATH).body == b"ab"
    assert [use.status for use in uses] == [202]


@pytest.mark.parametrize("closable", [True, False])
def test_an_observer_that_ends_the_process_leaves_no_body_open(closable: bool) -> None:
    class Body(list[bytes]):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    def observer(_use: Use) -> None:
        raise SystemExit(3)

    body = Body([b"a"]) if closable else [b"a"]
    with pytest.raises(SystemExit):
        run(middleware(Spy(body=body), observers=[observer]), environ_of(path=PATH))
    assert not isinstance(body, Body) or body.closed == 1


@pytest.mark.parametrize("fault", [ValueError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("started", [True, False])
def test_observers_are_told_when_the_application_raises(fault: BaseException, started: bool) -> None:
    uses: list[Use] = []

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        if started:
            start_response("200 OK", [("Content-Type", "text/plain")])
        raise fault

    environ = environ_of(path=PATH)
    for number in (1, 2):
        with pytest.raises(type(fault)) as caught:
            run(middleware(app, observers=[uses.append]), environ)
        assert caught.value is fault
        assert [use.status for use in uses] == [None] * number


# The shared vectors.

VECTORS = [
    vector
    for vector in json.loads((Path(__file__).parent / "vectors" / "sessions.json").read_text(encoding="utf-8"))
    if vector["kind"] == "response"
]
PAGES = [Operation(f"page-{method}", method, "/{page}") for method in ("GET", "POST", "PUT", "PATCH", "DELETE")]


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{each['id']} {each['title']}" for each in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    expect = vector["expect"]
    spy = Spy(vector.get("app", {}).get("status", "200 OK"), body=[b"ok"])

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        headers = vector.get("app", {}).get("headers", [])
        query = environ.get("QUERY_STRING", "")
        spy.headers = [(name, value.replace("<QUERY_STRING seen by the app>", query)) for name, value in headers]
        return spy(environ, start_response)

    wrapped = middleware(app, operations=PAGES, require_session=vector["mode"] == "required")
    environ = {**environ_of(), **vector["environ"]}
    answer = run(wrapped, environ)
    assert answer.code in (expect["status"] if isinstance(expect["status"], list) else [expect["status"]])
    for name, wanted in expect.get("headers", {}).items():
        check_field(answer.one(name), wanted)
    for text in expect.get("response_not_contains", []):
        assert text not in f"{answer.status}{answer.fields}{answer.body!r}"
    if expect.get("content_length_exact"):
        assert int(answer.one("Content-Length")) == len(answer.body)
    if expect.get("app_iter_identity"):
        again = wrapped({**environ_of(), **vector["environ"]}, lambda *_arguments: lambda _data: None)
        assert again is spy.body
    if "follow_up_outcome" in expect:
        target = urlsplit(answer.one("Location"))
        followed = {**environ_of(), **vector["environ"], "PATH_INFO": target.path, "QUERY_STRING": target.query}
        run(wrapped, followed)
        assert (session_of(followed) is not None) is (expect["follow_up_outcome"] == "session")


def check_field(value: str, wanted: dict[str, Any]) -> None:
    assert value.startswith(wanted.get("prefix", ""))
    assert value == wanted.get("equals", value)
    assert all(text in value for text in wanted.get("contains", []))
    assert not any(text in value for text in wanted.get("not_contains", []))
    assert any(text in value for text in wanted.get("any_of", [""]))
    for text, number in wanted.get("count", {}).items():
        assert value.lower().count(text) == number
    if wanted.get("charset") == "rfc6750":
        for quoted in value.split('"')[1::2]:
            assert all(" " <= char <= "~" and char not in '"\\' for char in quoted)
    assert not wanted.keys() - {"prefix", "equals", "contains", "not_contains", "any_of", "count", "charset"}


# Arguments.


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        pytest.param("app", None, id="no application"),
        pytest.param("app", "host:app", id="an application by name"),
        pytest.param("policy", None, id="no policy"),
        pytest.param("policy", {"deprecated_at": DEPRECATED_AT}, id="a policy in a dict"),
        pytest.param("policy", DeprecationPolicy, id="the policy class"),
        pytest.param("operations", ["GET /"], id="operations as text"),
        pytest.param("operations", PAGES[0], id="one operation"),
        pytest.param("operations", None, id="no operations"),
        pytest.param("operations", [PAGES[0], PAGES[0]], id="an operation twice"),
        pytest.param(
            "operations",
            [Operation("a", "GET", "/a/{b}"), Operation("b", "get", "/A/{c}/")],
            id="operations that differ in letter case and parameter names",
        ),
        pytest.param("require_session", True, id="a session that is required and not extracted"),
        pytest.param("statuses", {"session_missing": 440}, id="statuses in a dict"),
        pytest.param("realm", 'a"b', id="quote in the realm"),
        pytest.param("realm", "a\nb", id="newline in the realm"),
        pytest.param("realm", None, id="no realm"),
        pytest.param("base_url", "", id="empty base URL"),
        pytest.param("base_url", "/erp", id="base URL without a host"),
        pytest.param("base_url", "//api.example", id="base URL without a scheme"),
        pytest.param("base_url", "ftp://api.example", id="base URL of another scheme"),
        pytest.param("base_url", "https://", id="base URL of a scheme"),
        pytest.param("base_url", "https://api.example?x=1", id="base URL with a query"),
        pytest.param("base_url", "https://api.example#x", id="base URL with a fragment"),
        pytest.param("base_url", "https://api.example/a b", id="space in the base URL"),
        pytest.param("base_url", "https://api.example\r\nX: y", id="lines in the base URL"),
        pytest.param("base_url", "https://[::1", id="broken address in the base URL"),
        pytest.param("base_url", "https://\xe4.example", id="base URL that is not ASCII"),
        pytest.param("base_url", 3, id="base URL that is no text"),
        pytest.param("base_url", "https://api.example/?", id="base URL with an empty query"),
        pytest.param("base_url", "https://api.example/#", id="base URL with an empty fragment"),
        pytest.param("base_url", "https://api.example:99999", id="base URL with no such port"),
        pytest.param("base_url", "https://api.example:port", id="base URL with no port number"),
        pytest.param("base_url", "https://api.example:0", id="base URL with port 0"),
        pytest.param("clock", NOW, id="a time for a clock"),
        pytest.param("clock", None, id="no clock"),
        pytest.param("observers", [None], id="an observer that is none"),
        pytest.param("observers", print, id="one observer"),
        pytest.param("observers", None, id="no observers"),
    ],
)
def test_an_argument_that_does_not_fit_is_named_at_once(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"app": plain_app(), "policy": POLICY, argument: value}
    if argument == "require_session":
        arguments["extract_session"] = False
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        DeprecationMiddleware(arguments.pop("app"), arguments.pop("policy"), **arguments)


def test_operations_and_observers_come_from_any_iterable() -> None:
    """One that can be read only once would otherwise fail at the first request, or never tell anybody."""
    uses: list[Use] = []
    app = middleware(operations=iter(PAGES), observers=iter([uses.append]))
    assert call(app, "GET", "/x").one("Deprecation") == "@1767225600"
    assert len(uses) == 1


def test_only_application_and_policy_are_positional() -> None:
    with pytest.raises(TypeError):
        DeprecationMiddleware(plain_app(), POLICY, PAGES)  # type: ignore[call-arg]


def test_what_the_application_raised_is_in_no_log_of_a_failing_observer(caplog: pytest.LogCaptureFixture) -> None:
    def app(_environ: Any, _start_response: Any) -> Any:
        raise RuntimeError(SESSION_TEXT)

    def observer(_use: Use) -> None:
        message = "the observer's own"
        raise KeyError(message)

    with pytest.raises(RuntimeError):
        call(
            DeprecationMiddleware(app, POLICY, observers=[observer]),
            "GET",
            "/API/Notification/",
            f"sessionId={SESSION_TEXT}",
        )
    assert "the observer's own" in caplog.text
    assert SESSION_TEXT not in caplog.text


SESSION_TEXT = "5e551011-0000-4000-8000-0000000000aa"


def test_a_status_that_is_none_is_the_applications_own_mistake() -> None:
    uses: list[Use] = []

    def app(_environ: Any, start_response: Any) -> Any:
        start_response("fine", [])
        return []

    run(DeprecationMiddleware(app, POLICY, observers=[uses.append]), environ_of("GET", "/API/Notification/"))
    assert [use.status for use in uses] == [None]
