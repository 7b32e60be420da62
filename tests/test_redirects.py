"""A redirect to a matched operation keeps its session, and a redirect loop is logged and not cached."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flask_notifications import NOTIFICATION_OPERATIONS, DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.operations import OperationTable
from flask_notifications.redirects import RequestTarget
from flask_notifications.sessions import digest_pair
from tests.growth import grows_linearly
from tests.wsgi import call, environ_of, plain_app, run

POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
PAIR = "sessionId=S3CRET"
DIGEST = digest_pair(PAIR)
TABLE = OperationTable(NOTIFICATION_OPERATIONS)
ACCOUNT = "/API/Notification/GetNotificationsForAccount/acc/"


def redirect_to(
    location: str,
    *,
    status: str = "302 Found",
    method: str = "GET",
    path: str = "/API/Notification",
    query: str = PAIR,
    options: dict[str, Any] | None = None,
    **extra: Any,
) -> str:
    """Return the ``Location`` that the middleware sends for the ``Location`` of an application."""
    app = DeprecationMiddleware(plain_app(status, [("Location", location)]), POLICY, **(options or {}))
    return call(app, method, path, query, **extra).one("Location")


@pytest.mark.parametrize(
    ("location", "left"),
    [
        pytest.param("/API/Notification/", f"/API/Notification/?{PAIR}", id="absolute path"),
        pytest.param("/api/notification", f"/api/notification?{PAIR}", id="in a legacy spelling"),
        pytest.param("/API/Notific%61tion/", f"/API/Notific%61tion/?{PAIR}", id="percent-encoded"),
        pytest.param("http://api.example/API/Notification/", f"http://api.example/API/Notification/?{PAIR}", id="URL"),
        pytest.param("HTTP://API.Example/API/Notification/", f"HTTP://API.Example/API/Notification/?{PAIR}", id="case"),
        pytest.param(
            "http://api.example:80/API/Notification", f"http://api.example:80/API/Notification?{PAIR}", id="port"
        ),
        pytest.param(
            "http://api.example:/API/Notification", f"http://api.example:/API/Notification?{PAIR}", id="no port"
        ),
        pytest.param(
            "https://api.example/API/Notification/", f"https://api.example/API/Notification/?{PAIR}", id="up to https"
        ),
        pytest.param(
            "https://api.example:443/API/Notification/",
            f"https://api.example:443/API/Notification/?{PAIR}",
            id="up to https, with its port",
        ),
        pytest.param("//api.example/API/Notification/", f"//api.example/API/Notification/?{PAIR}", id="without scheme"),
        pytest.param("Notification/", f"Notification/?{PAIR}", id="relative"),
        pytest.param("../API/./Notification/", f"../API/./Notification/?{PAIR}", id="relative with dots"),
        pytest.param("?page=2", f"?page=2&{PAIR}", id="query alone"),
        pytest.param("/API/Notification/??", f"/API/Notification/??&{PAIR}", id="a query that is a question mark"),
        pytest.param("/API/Notification/?", f"/API/Notification/?{PAIR}", id="empty query"),
        pytest.param("/API/Notification/?a=1", f"/API/Notification/?a=1&{PAIR}", id="other pairs"),
        pytest.param("/API/Notification/?a=1&", f"/API/Notification/?a=1&{PAIR}", id="other pairs and a trailing &"),
        pytest.param("/API/Notification/#top", f"/API/Notification/?{PAIR}#top", id="before a fragment"),
        pytest.param("/API/Notification/?a#b?c#d", f"/API/Notification/?a&{PAIR}#b?c#d", id="before the first #"),
        pytest.param(
            "/API/Notification/#sessionId=x", f"/API/Notification/?{PAIR}#sessionId=x", id="a fragment is no query"
        ),
        pytest.param(
            "/API/Notification/?mysessionId=x", f"/API/Notification/?mysessionId=x&{PAIR}", id="a similar key"
        ),
        pytest.param("?at=8:15", f"?at=8:15&{PAIR}", id="a : in a query ends no scheme"),
        pytest.param("Notification#8:15", f"Notification?{PAIR}#8:15", id="a : in a fragment ends no scheme"),
        pytest.param("/API/Notification/?a//b", f"/API/Notification/?a//b&{PAIR}", id="// in a query"),
        pytest.param("/API/Notification/#a//b", f"/API/Notification/?{PAIR}#a//b", id="// in a fragment"),
    ],
)
def test_a_redirect_to_an_operation_carries_the_pair(location: str, left: str) -> None:
    assert redirect_to(location) == left


@pytest.mark.parametrize(
    "location",
    [
        pytest.param("http://evil.example/API/Notification/", id="another host"),
        pytest.param("//evil.example/API/Notification/", id="another host, same scheme"),
        pytest.param("http://api.example.evil.example/API/Notification/", id="a longer host"),
        pytest.param("http://www.api.example/API/Notification/", id="a subdomain"),
        pytest.param("http://api.example./API/Notification/", id="a host with a dot at the end"),
        pytest.param("https://api.example:8443/API/Notification/", id="https on a port of its own"),
        pytest.param("https://api.example:80/API/Notification/", id="another scheme on the same port"),
        pytest.param("http://api.example:8080/API/Notification/", id="another port"),
        pytest.param("http://api.example:443/API/Notification/", id="the port of another scheme"),
        pytest.param("http://api.example:0/API/Notification/", id="port 0 is no default port"),
        pytest.param("http://api.example:99999/API/Notification/", id="no such port"),
        pytest.param("http://api.example:x/API/Notification/", id="no port number"),
        pytest.param("http://user@api.example/API/Notification/", id="user information"),
        pytest.param("http://@api.example/API/Notification/", id="empty user information"),
        pytest.param("http://api.example@evil.example/API/Notification/", id="our host as user information"),
        pytest.param("http://api.example:80@evil.example/API/Notification/", id="a port that is a password"),
        pytest.param("http://api.example%2eevil.example/API/Notification/", id="an encoded dot"),
        # Clients find a host after any number of slashes, and disagree about a scheme without slashes.
        pytest.param("///API/Notification/", id="three slashes"),
        pytest.param("////api.example/API/Notification/", id="four slashes"),
        pytest.param("//?a=1", id="no host, a query"),
        pytest.param("//#top", id="no host, a fragment"),
        pytest.param("http:///API/Notification/", id="scheme and three slashes"),
        pytest.param("http:/API/Notification/", id="scheme and one slash"),
        pytest.param("http:Notification/", id="scheme and no slash"),
        pytest.param("\\\\evil.example/API/Notification/", id="backslashes"),
        pytest.param("/\\evil.example/API/Notification/", id="slash and backslash"),
        pytest.param("http://api.example\\@evil.example/API/Notification/", id="backslash in the host"),
        # Parts that urljoin drops and no client drops.
        pytest.param("/API/Notification/;", id="an empty parameter of a segment"),
        pytest.param("/API/Notification;", id="an empty parameter of the last segment"),
        pytest.param(".//", id="an empty segment"),
        pytest.param("x//..", id="an empty segment that is climbed out of"),
        pytest.param("mailto:api@example", id="mail"),
        pytest.param("javascript:'/API/Notification/'", id="script"),
        pytest.param("http://[::1/API/Notification/", id="a bracket that is not closed"),
        pytest.param("http://", id="nothing but a scheme"),
        pytest.param("/API/Notification /", id="a space"),
        pytest.param("/API/Notification/?q=\xe9", id="not ASCII"),
        pytest.param("/", id="another path"),
        pytest.param("/login?next=/API/Notification/", id="an operation in a query"),
        pytest.param("/API/Notification/CurrentUser", id="the successor"),
        pytest.param("/API/Notification/x", id="a live neighbour"),
        pytest.param("/API/NotificationX/", id="a longer path"),
        pytest.param("/API//Notification/", id="// in the path"),
        pytest.param("http://api.example//API/Notification/", id="// after the host"),
        pytest.param("/API/Notification;x/", id="; in the path"),
        pytest.param("/API/%2e%2e/API/Notification/", id="encoded dot segments"),
        pytest.param("http://api.example/API/../Notification/", id="dot segments that lead away"),
        pytest.param(ACCOUNT, id="an operation of another method"),
        pytest.param("", id="empty: the same URL with its query"),
        pytest.param("#top", id="a fragment alone: the same URL with its query"),
        pytest.param("/API/Notification/?sessionId=S3CRET", id="the pair is present"),
        pytest.param("/API/Notification/?a=1&sessionId=S3CRET#top", id="the pair is present, before a fragment"),
        pytest.param("/API/Notification/?SESSIONID=S3CRET", id="the pair is present, in another case"),
        pytest.param("/API/Notification/?session%49d=S3CRET", id="the pair is present, encoded"),
        pytest.param("/API/Notification/?sessionId=0THER", id="another session"),
        pytest.param("/API/Notification/?sessionId", id="a key without a value"),
    ],
)
def test_every_other_location_stays_unchanged(location: str) -> None:
    assert redirect_to(location) == location


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "303 See Other", "307 T", "308 P"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_every_status_of_a_redirect_carries_the_pair(status: str, method: str) -> None:
    assert redirect_to("/API/Notification/", status=status, method=method) == f"/API/Notification/?{PAIR}"


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "401 Unauthorized", "503 Unavailable"])
def test_a_location_that_no_client_follows_stays_unchanged(status: str) -> None:
    assert redirect_to("/API/Notification/", status=status) == "/API/Notification/"


@pytest.mark.parametrize(
    ("status", "location", "has_pair"),
    [
        pytest.param("303 See Other", "/API/Notification/", True, id="303 becomes GET: matched"),
        pytest.param("303 See Other", ACCOUNT, False, id="303 becomes GET: not matched"),
        pytest.param("302 Found", "/API/Notification/", True, id="302 becomes GET in practice"),
        pytest.param("307 Temporary Redirect", ACCOUNT, True, id="307 stays POST: matched"),
        pytest.param("308 Permanent Redirect", ACCOUNT.lower(), True, id="308 stays POST: matched"),
        pytest.param("307 Temporary Redirect", "/API/Notification/", False, id="307 stays POST: not matched"),
        pytest.param(
            "307 Temporary Redirect", ACCOUNT.replace("acc/", "a&"), True, id="an & in a path begins no query"
        ),
        pytest.param("307 Temporary Redirect", ACCOUNT.replace("acc", "a:b"), True, id="a : in a path ends no scheme"),
    ],
)
def test_the_method_after_the_redirect_decides_about_the_match(status: str, location: str, has_pair: bool) -> None:
    left = redirect_to(location, status=status, method="POST", path=ACCOUNT)
    assert left == (f"{location}?{PAIR}" if has_pair else location)


@pytest.mark.parametrize(
    ("mount", "location", "has_pair"),
    [
        pytest.param("/shop", "/shop/API/Notification/", True, id="below the mount point"),
        pytest.param("/shop", "http://api.example/shop/api/notification", True, id="below the mount point, absolute"),
        pytest.param("/shop", "Notification/", True, id="relative"),
        pytest.param("/shop", "/API/Notification/", False, id="beside the mount point"),
        pytest.param("/shop", "/shopping/API/Notification/", False, id="a longer mount point"),
        pytest.param("/shop", "/shop", False, id="the mount point itself"),
        pytest.param("/caf\xc3\xa9", "/caf%C3%A9/API/Notification/", True, id="not ASCII"),
        pytest.param("/caf\xc3\xa9", "Notification/", True, id="not ASCII, relative"),
        pytest.param("/\u20ac", "/API/Notification/", False, id="no WSGI string"),
        pytest.param("/a b", "/a%20b/API/Notification/", True, id="with a space"),
        pytest.param("/shop/", "/shop/API/Notification/", True, id="with a slash at its end"),
    ],
)
def test_only_a_redirect_below_the_mount_point_carries_the_pair(mount: str, location: str, has_pair: bool) -> None:
    left = redirect_to(location, SCRIPT_NAME=mount)
    assert left == (f"{location}?{PAIR}" if has_pair else location)


@pytest.mark.parametrize(
    ("extra", "location", "has_pair"),
    [
        pytest.param(
            {"HTTP_HOST": "api.example:80"}, "http://api.example/API/Notification/", True, id="Host with port 80"
        ),
        pytest.param({"HTTP_HOST": "api.example:8000"}, "http://api.example:8000/API/Notification/", True, id="port"),
        pytest.param({"HTTP_HOST": "api.example:8000"}, "http://api.example/API/Notification/", False, id="port lost"),
        pytest.param({"HTTP_HOST": "[::1]:8000"}, "http://[::1]:8000/API/Notification/", True, id="IPv6"),
        pytest.param({"HTTP_HOST": "api.example:x"}, "http://api.example/API/Notification/", False, id="broken Host"),
        pytest.param({"HTTP_HOST": ""}, "http://api.example:80/API/Notification/", True, id="empty Host: SERVER_NAME"),
        pytest.param(
            {"HTTP_HOST": "www.example"}, "http://api.example/API/Notification/", False, id="Host wins over SERVER_NAME"
        ),
        pytest.param({"wsgi.url_scheme": "https"}, "https://api.example:443/API/Notification/", True, id="https"),
        pytest.param({"wsgi.url_scheme": "https"}, "https://api.example:80/API/Notification/", False, id="https on 80"),
        pytest.param({"wsgi.url_scheme": "https"}, "http://api.example/API/Notification/", False, id="down to http"),
    ],
)
def test_only_a_redirect_to_the_origin_of_the_request_carries_the_pair(
    extra: dict[str, Any], location: str, has_pair: bool
) -> None:
    assert redirect_to(location, **extra) == (f"{location}?{PAIR}" if has_pair else location)


def test_the_pair_is_restored_unchanged() -> None:
    pair = "SESSION%49d=S%33CRET%3d"
    assert redirect_to("/API/Notification/?b=%7e", query=f"a=1&{pair}&c") == f"/API/Notification/?b=%7e&{pair}"


def test_the_pair_beside_an_equal_header_is_restored_too() -> None:
    left = redirect_to("/API/Notification/", HTTP_AUTHORIZATION="Bearer S3CRET")
    assert left == f"/API/Notification/?{PAIR}"


def test_a_session_in_the_header_is_never_written_into_a_url() -> None:
    assert redirect_to("/API/Notification/", query="a=1", HTTP_AUTHORIZATION="Bearer S3CRET") == "/API/Notification/"


def test_an_operation_that_does_not_unify_the_session_gets_no_pair() -> None:
    operations = [*NOTIFICATION_OPERATIONS, Operation("report", "GET", "/report")]
    assert redirect_to("/report", options={"operations": operations}) == "/report"
    assert redirect_to("/API/Notification/", path="/report", options={"operations": operations}) == "/API/Notification/"


@pytest.mark.parametrize(
    ("location", "left"),
    [
        pytest.param(f"/API/Notification/?{DIGEST}", f"/API/Notification/?{PAIR}", id="alone"),
        pytest.param(f"/API/Notification/?{DIGEST}&b=2", f"/API/Notification/?{PAIR}&b=2", id="first"),
        pytest.param(f"/API/Notification/?a=1&{DIGEST}", f"/API/Notification/?a=1&{PAIR}", id="last"),
        pytest.param(f"/API/Notification/?a=1&{DIGEST}#top", f"/API/Notification/?a=1&{PAIR}#top", id="before a #"),
        pytest.param(f"?a=%7e&{DIGEST}&b", f"?a=%7e&{PAIR}&b", id="in between, other bytes stay"),
        pytest.param(
            f"https://api.example/api/notification?{DIGEST}",
            f"https://api.example/api/notification?{PAIR}",
            id="up to https",
        ),
        pytest.param(f"/API/Notification/?{DIGEST}&{DIGEST}", f"/API/Notification/?{PAIR}", id="twice"),
        pytest.param(f"/API/Notification/?{DIGEST}&{PAIR}", f"/API/Notification/?{PAIR}", id="beside the pair"),
        pytest.param(
            f"/API/Notification/?next=%3F{DIGEST.replace('=', '%3D')}",
            f"/API/Notification/?next=&{PAIR}",
            id="inside another value",
        ),
        pytest.param(
            f"/API/Notification/?next=%2Fx%3F{DIGEST}&{DIGEST}",
            f"/API/Notification/?next=%2Fx&{PAIR}",
            id="inside another value and alone",
        ),
        pytest.param(
            f"/API/Notification/?{DIGEST.replace('=', '%3D')}", f"/API/Notification/?{PAIR}", id="as a key, encoded"
        ),
        pytest.param(f"/API/Notification/#{DIGEST}", f"/API/Notification/?{PAIR}#", id="in a fragment"),
    ],
)
def test_the_pair_replaces_the_digest_that_a_router_copied(location: str, left: str) -> None:
    assert redirect_to(location) == left


@pytest.mark.parametrize(
    ("location", "left"),
    [
        pytest.param("/login?{}", "/login", id="alone"),
        pytest.param("/login?{}&b=2", "/login?b=2", id="first"),
        pytest.param("/login?a=1&{}", "/login?a=1", id="last"),
        pytest.param("/login?a=1&{}&b=2#top", "/login?a=1&b=2#top", id="in between"),
        pytest.param("/login#{}", "/login#", id="in a fragment"),
        pytest.param("https://sso.example/?{}", "https://sso.example/", id="another host"),
        pytest.param(
            "https://api.example:8443/API/Notification/?{}",
            "https://api.example:8443/API/Notification/",
            id="another port",
        ),
        pytest.param("/login?next=%2Fx%3F{}%26b%3D2", "/login?next=%2Fx%3Fb%3D2", id="percent-encoded"),
        pytest.param("/login?next=%2fx%3fa%3d1%26{}", "/login?next=%2fx%3fa%3d1", id="percent-encoded in lower case"),
        pytest.param("/login?next=%252Fx%253F{}", "/login?next=%252Fx", id="percent-encoded twice"),
        pytest.param("/login?next=%2Fx%3F{}&lang=de", "/login?next=%2Fx&lang=de", id="at the end of another value"),
        pytest.param("/login?next=%2Fx%3F{}#top", "/login?next=%2Fx#top", id="encoded, before a fragment"),
        pytest.param(
            "/login?next=%2Fx%3Fgo%3D%252Fy%253F{}%26b&c", "/login?next=%2Fx%3Fgo%3D%252Fy%26b&c", id="at three depths"
        ),
        pytest.param("/login?next=%2Fx%3Fa%26{}&b", "/login?next=%2Fx%3Fa&b", id="the last of another value"),
        pytest.param("/login?{0}&{0}&b", "/login?b", id="twice, first"),
        pytest.param("/login?a&{0}&{0}", "/login?a", id="twice, last"),
        pytest.param("not a URL ?{}", "not a URL ", id="no URL"),
    ],
)
@pytest.mark.parametrize("equals", ["=", "%3D", "%253d"])
def test_the_digest_is_removed_from_every_other_location(location: str, left: str, equals: str) -> None:
    assert redirect_to(location.format(DIGEST.replace("=", equals))) == left


@pytest.mark.parametrize("status", ["201 Created", "302 Found"])
def test_the_digest_is_removed_from_the_location_of_any_status(status: str) -> None:
    assert redirect_to(f"/login?{DIGEST}", status=status) == "/login"


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *["&", "?", "#", "/", "a", "%25", "%2526", "%3F", "flask_notifications.session"],
        pytest.param(DIGEST, id="digest"),
        pytest.param(f"&{DIGEST}", id="separated digest"),
    ],
)
def test_work_on_a_location_grows_linearly_with_its_length(unit: str) -> None:
    app_of = {
        size: DeprecationMiddleware(plain_app("302 Found", [("Location", f"/x?{unit * size}")]), POLICY)
        for size in (2**power for power in range(4, 19))
    }

    def redirect(size: int) -> None:
        run(app_of[size], environ_of("GET", "/API/Notification/", PAIR))

    assert grows_linearly(redirect, lambda size: size)


# Loops.

DEMO = Operation("demo", "GET", "/demo/", rewrite_path=True)
USER = Operation("user", "GET", "/users/{id}/", rewrite_path=True)


REMOVE = Operation("remove", "DELETE", "/things/{id}", unify_session=True)
READ = Operation("read", "GET", "/things", unify_session=True)


@pytest.mark.parametrize(
    ("status", "location", "has_pair"),
    [
        pytest.param("301 Moved Permanently", "/things/7/", True, id="301 stays DELETE with most clients"),
        pytest.param("302 Found", "/things/7/", True, id="302 stays DELETE with some clients"),
        pytest.param("302 Found", "/things", True, id="302 becomes GET with other clients"),
        pytest.param("303 See Other", "/things", True, id="303 becomes GET: matched"),
        pytest.param("303 See Other", "/things/7/", False, id="303 becomes GET: not matched"),
        pytest.param("308 Permanent Redirect", "/things/7/", True, id="308 stays DELETE: matched"),
        pytest.param("308 Permanent Redirect", "/things", False, id="308 stays DELETE: not matched"),
    ],
)
@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
@pytest.mark.parametrize("method", ["DELETE", "delete"])
def test_other_methods_are_repeated_or_become_get(method: str, status: str, location: str, has_pair: bool) -> None:
    options = {"operations": [REMOVE, READ]}
    left = redirect_to(location, status=status, method=method, path="/things/7", options=options)
    assert left == (f"{location}?{PAIR}" if has_pair else location)


def redirect_from(path: str, location: str, status: str = "308 Permanent Redirect", method: str = "GET") -> list[str]:
    """Return the values of ``Cache-Control`` of a redirect."""
    app = DeprecationMiddleware(
        plain_app(status, [("Location", location), ("Cache-Control", "max-age=60")]), POLICY, operations=[DEMO, USER]
    )
    return call(app, method, path).all("Cache-Control")


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "303 See Other", "307 T", "308 P"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_redirect_of_a_rewritten_request_to_its_operation_is_logged_and_not_cached(
    status: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert redirect_from("/demo", "http://api.example/demo", status, method) == ["no-store"]
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "flask_notifications")
    assert "'/demo/'" in record.getMessage()
    assert "'/demo'" in record.getMessage()


def test_the_error_about_a_loop_has_no_value_of_a_parameter(caplog: pytest.LogCaptureFixture) -> None:
    assert redirect_from("/USERS/s3cret", "/Users/s3cret") == ["no-store"]
    assert "'/Users/{id}'" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("path", "location"),
    [
        pytest.param("/demo/", "/demo", id="a request that was not rewritten"),
        pytest.param("/demo", "/demo/", id="the rewritten path, as after a log-in"),
        pytest.param("/demo", "/elsewhere", id="another path"),
        pytest.param("/demo", "http://other.example/demo", id="another host"),
        pytest.param("/users/7", "/users/8", id="another parameter"),
        pytest.param("/users/7", "/demo", id="another operation"),
    ],
)
def test_every_other_redirect_is_no_loop(path: str, location: str, caplog: pytest.LogCaptureFixture) -> None:
    assert redirect_from(path, location) == ["max-age=60"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("query", "location", "is_loop"),
    [
        pytest.param("", "?page=1", False, id="a query that is added"),
        pytest.param("page=1", "/demo", False, id="a query that is taken away"),
        pytest.param("page=1", "/demo?page=2", False, id="a query that is changed"),
        pytest.param("", "https://api.example/demo", False, id="up to https"),
        pytest.param("page=1;2", "/demo?page=1;2", True, id="the same query"),
        pytest.param("page=1", "http://api.example/demo?page=1&#top", True, id="the same URL with a fragment"),
        pytest.param(PAIR, "/demo", True, id="a session that the redirect lacks"),
        pytest.param(f"a&{PAIR}", f"/demo?{DIGEST}&a", True, id="a session in another place"),
    ],
)
def test_a_redirect_to_another_url_of_the_operation_is_no_loop(query: str, location: str, is_loop: bool) -> None:
    demo = Operation("demo", "GET", "/demo/", rewrite_path=True, unify_session=True)
    app = DeprecationMiddleware(plain_app("302 Found", [("Location", location)]), POLICY, operations=[demo])
    assert ("no-store" in call(app, "GET", "/demo", query).all("Cache-Control")) is is_loop


def test_a_put_that_most_clients_repeat_loops(caplog: pytest.LogCaptureFixture) -> None:
    operations = [Operation("make", "PUT", "/demo/", rewrite_path=True)]
    app = DeprecationMiddleware(plain_app("301 Moved", [("Location", "/demo")]), POLICY, operations=operations)
    assert call(app, "PUT", "/demo").all("Cache-Control") == ["no-store"]
    assert len(caplog.records) == 1


def test_a_post_that_a_client_repeats_as_a_get_is_no_loop(caplog: pytest.LogCaptureFixture) -> None:
    operations = [Operation("make", "POST", "/demo/", rewrite_path=True)]
    app = DeprecationMiddleware(plain_app("301 Moved", [("Location", "/demo")]), POLICY, operations=operations)
    assert not call(app, "POST", "/demo").all("Cache-Control")
    assert not caplog.records


def test_no_other_header_than_location_carries_the_pair() -> None:
    headers = [("LOCATION", "/API/Notification/"), ("Content-Location", "/API/Notification/"), ("Link", "<x>; rel=y")]
    response = call(DeprecationMiddleware(plain_app("302 Found", headers), POLICY), "GET", "/API/Notification", PAIR)
    assert response.one("Location") == f"/API/Notification/?{PAIR}"
    assert response.one("Content-Location") == "/API/Notification/"
    assert response.all("Link")[0] == "<x>; rel=y"


def test_a_redirect_of_head_may_match_an_operation_of_head_or_of_get() -> None:
    operations = [
        Operation("look", "HEAD", "/look", rewrite_path=True, unify_session=True),
        Operation("read", "GET", "/read", rewrite_path=True, unify_session=True),
    ]
    for location, left in (("/look", f"/look?{PAIR}"), ("/read", f"/read?{PAIR}")):
        assert redirect_to(location, method="HEAD", path="/look", options={"operations": operations}) == left
    assert redirect_to("/look", path="/read", options={"operations": operations}) == "/look"


# Templates of parameters alone match any path, so that only the origin decides.
EVERYTHING = {
    "operations": [
        Operation(
            f"op{depth}",
            "GET",
            "".join(f"/{{a{number}}}" for number in range(depth)),
            rewrite_path=True,
            unify_session=True,
        )
        for depth in range(1, 6)
    ]
}
LOCATIONS = st.lists(
    st.sampled_from(
        [
            "http:",
            "https:",
            "\\",
            "//",
            "/",
            "api.example",
            "evil.example",
            ":80",
            ":8080",
            "@",
            "?",
            "#",
            "&",
            ";",
            "..",
            "%2e",
            "a",
        ]
    )
    | st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=3),
    max_size=8,
).map("".join)


@pytest.mark.parametrize(
    "location",
    [
        pytest.param(":a", id="a : without a scheme"),
        pytest.param(".//", id="an empty segment"),
        pytest.param("x//..", id="an empty segment that is climbed out of"),
    ],
)
def test_a_location_that_clients_resolve_in_different_ways_stays_unchanged(location: str) -> None:
    assert redirect_to(location, options=EVERYTHING) == location


# The host in a location as the least strict clients parse it; a host must follow a scheme.
AUTHORITY = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?[/\\]{2,}([^/\\?#]*)|[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@given(LOCATIONS)
@example("/a&")
@example("///evil.example/a")
@example("/\\evil.example/a")
@example("http://api.example\\@evil.example/a")
def test_any_location_stays_unchanged_or_carries_the_pair_to_our_host(location: str) -> None:
    left = redirect_to(location, options=EVERYTHING)
    if left != location:
        before, hash_sign, fragment = left.partition("#")
        assert PAIR in before.partition("?")[2].split("&")
        stripped = before.removesuffix(PAIR)
        assert location in {f"{stripped}{hash_sign}{fragment}", f"{stripped[:-1]}{hash_sign}{fragment}"}
        host = AUTHORITY.match(left)
        assert host is None or host[1] in {"api.example", "api.example:", "api.example:80"}


@pytest.mark.parametrize(
    "location",
    ["//\t/API/Notification/", "http://\t/API/Notification/", "/API/Notifi\tcation/", "/API/Notification/\n"],
)
def test_a_location_with_a_control_character_is_not_followed(location: str) -> None:
    """Clients drop a tab and may then find a host. The validator refuses such headers, so this calls the function."""
    assert follow(location) is None


def test_a_mount_point_that_is_a_slash_is_the_root() -> None:
    """PEP 3333 forbids this ``SCRIPT_NAME``, but some servers send it."""
    assert follow("/API/Notification/", SCRIPT_NAME="/") == "current_user"


def test_a_mount_point_may_be_missing() -> None:
    """PEP 3333 allows servers to leave out empty keys."""
    environ = environ_of("GET", "/API/Notification/")
    del environ["SCRIPT_NAME"]
    assert RequestTarget.of(environ, "/API/Notification/").follow("/API/Notification/", "302 Found", TABLE) is not None


def follow(location: str, **extra: Any) -> str | None:
    """Return the name of the operation that matches a redirect, or ``None``."""
    target = RequestTarget.of(environ_of(**extra), "/API/Notification/")
    redirect = target.follow(location, "302 Found", TABLE)
    return redirect and redirect.match.operation.name
