"""The session pair goes back on a redirect to ourselves, and to nobody else."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flask_notifications import NOTIFICATION_OPERATIONS, DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.operations import OperationTable
from flask_notifications.redirects import WayBack, way_back
from flask_notifications.sessions import Session, SessionCredential, SessionRefused
from tests.wsgi import call, environ_of, plain_app

POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
PAIR = "sessionId=S3CRET"
CREDENTIAL = SessionCredential("s", "query", pair=PAIR)
TABLE = OperationTable(NOTIFICATION_OPERATIONS)
ACCOUNT = "/API/Notification/GetNotificationsForAccount/acc/"


def redirected(
    location: str,
    *,
    status: str = "302 Found",
    method: str = "GET",
    path: str = "/API/Notification",
    query: str = PAIR,
    options: dict[str, Any] | None = None,
    **extra: Any,
) -> str:
    """Return the ``Location`` that leaves the middleware when the application redirects there."""
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
        pytest.param("//api.example/API/Notification/", f"//api.example/API/Notification/?{PAIR}", id="without scheme"),
        pytest.param("Notification/", f"Notification/?{PAIR}", id="relative"),
        pytest.param("../API/./Notification/", f"../API/./Notification/?{PAIR}", id="relative with dots"),
        pytest.param("?page=2", f"?page=2&{PAIR}", id="query alone"),
        pytest.param("/API/Notification/??", f"/API/Notification/??&{PAIR}", id="a query that is a question mark"),
        pytest.param("/API/Notification/?", f"/API/Notification/?{PAIR}", id="empty query"),
        pytest.param("/API/Notification/?a=1", f"/API/Notification/?a=1&{PAIR}", id="other pairs"),
        pytest.param("/API/Notification/?a=1&", f"/API/Notification/?a=1&{PAIR}", id="other pairs, loose"),
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
def test_the_pair_is_put_back_on_the_way_to_ourselves(location: str, left: str) -> None:
    assert redirected(location) == left


@pytest.mark.parametrize(
    "location",
    [
        pytest.param("http://evil.example/API/Notification/", id="another host"),
        pytest.param("//evil.example/API/Notification/", id="another host, same scheme"),
        pytest.param("http://api.example.evil.example/API/Notification/", id="a longer host"),
        pytest.param("http://www.api.example/API/Notification/", id="a subdomain"),
        pytest.param("http://api.example./API/Notification/", id="a host with a dot at the end"),
        pytest.param("https://api.example/API/Notification/", id="another scheme"),
        pytest.param("https://api.example:80/API/Notification/", id="another scheme on the same port"),
        pytest.param("http://api.example:8080/API/Notification/", id="another port"),
        pytest.param("http://api.example:443/API/Notification/", id="the port of another scheme"),
        pytest.param("http://api.example:0/API/Notification/", id="port 0 is no default port"),
        pytest.param("http://api.example:99999/API/Notification/", id="no such port"),
        pytest.param("http://api.example:x/API/Notification/", id="no port number"),
        pytest.param("http://user@api.example/API/Notification/", id="user information"),
        pytest.param("http://@api.example/API/Notification/", id="empty user information"),
        pytest.param("http://api.example@evil.example/API/Notification/", id="a host that looks like ours"),
        pytest.param("http://api.example:80@evil.example/API/Notification/", id="a port that is a password"),
        pytest.param("http://api.example%2eevil.example/API/Notification/", id="an encoded dot"),
        # Clients take what follows any number of slashes for a host, and a scheme without slashes for this and that.
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
        # What urljoin drops and no client does.
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
        pytest.param("/", id="an unclaimed path"),
        pytest.param("/login?next=/API/Notification/", id="ourselves in a query"),
        pytest.param("/API/Notification/CurrentUser", id="the successor"),
        pytest.param("/API/Notification/x", id="a live neighbour"),
        pytest.param("/API/NotificationX/", id="a longer path"),
        pytest.param("/API//Notification/", id="// in the path"),
        pytest.param("http://api.example//API/Notification/", id="// after the host"),
        pytest.param("/API/Notification;x/", id="; in the path"),
        pytest.param("/API/%2e%2e/API/Notification/", id="encoded dot segments"),
        pytest.param("http://api.example/API/../Notification/", id="dot segments that lead away"),
        pytest.param(ACCOUNT, id="claimed with another method"),
        pytest.param("", id="empty: the same page, with the query that the client has"),
        pytest.param("#top", id="a fragment alone: the same"),
        pytest.param("/API/Notification/?sessionId=S3CRET", id="the pair is there"),
        pytest.param("/API/Notification/?a=1&sessionId=S3CRET#top", id="the pair is there, before a fragment"),
        pytest.param("/API/Notification/?SESSIONID=S3CRET", id="the pair is there, in another case"),
        pytest.param("/API/Notification/?session%49d=S3CRET", id="the pair is there, encoded"),
        pytest.param("/API/Notification/?sessionId=0THER", id="another session"),
        pytest.param("/API/Notification/?sessionId", id="a key without a value"),
    ],
)
def test_every_other_location_leaves_as_it_came(location: str) -> None:
    assert redirected(location) == location


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "303 See Other", "307 T", "308 P"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_every_redirect_that_clients_follow_counts(status: str, method: str) -> None:
    assert redirected("/API/Notification/", status=status, method=method) == f"/API/Notification/?{PAIR}"


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "401 Unauthorized", "503 Unavailable"])
def test_a_location_that_nobody_follows_leaves_as_it_came(status: str) -> None:
    assert redirected("/API/Notification/", status=status) == "/API/Notification/"


@pytest.mark.parametrize(
    ("status", "location", "restored"),
    [
        pytest.param("303 See Other", "/API/Notification/", True, id="303 becomes GET: claimed"),
        pytest.param("303 See Other", ACCOUNT, False, id="303 becomes GET: not claimed"),
        pytest.param("302 Found", "/API/Notification/", True, id="302 becomes GET in practice"),
        pytest.param("307 Temporary Redirect", ACCOUNT, True, id="307 stays POST: claimed"),
        pytest.param("308 Permanent Redirect", ACCOUNT.lower(), True, id="308 stays POST: claimed"),
        pytest.param("307 Temporary Redirect", "/API/Notification/", False, id="307 stays POST: not claimed"),
        pytest.param(
            "307 Temporary Redirect", ACCOUNT.replace("acc/", "a&"), True, id="an & in a path begins no query"
        ),
        pytest.param("307 Temporary Redirect", ACCOUNT.replace("acc", "a:b"), True, id="a : in a path ends no scheme"),
    ],
)
def test_the_method_after_the_redirect_counts(status: str, location: str, restored: bool) -> None:
    left = redirected(location, status=status, method="POST", path=ACCOUNT)
    assert left == (f"{location}?{PAIR}" if restored else location)


@pytest.mark.parametrize(
    ("mount", "location", "restored"),
    [
        pytest.param("/shop", "/shop/API/Notification/", True, id="below the mount point"),
        pytest.param("/shop", "http://api.example/shop/api/notification", True, id="below the mount point, absolute"),
        pytest.param("/shop", "Notification/", True, id="relative"),
        pytest.param("/shop", "/API/Notification/", False, id="beside the mount point"),
        pytest.param("/shop", "/shopping/API/Notification/", False, id="a longer mount point"),
        pytest.param("/shop", "/shop", False, id="the mount point itself"),
        pytest.param("/caf\xc3\xa9", "/caf%C3%A9/API/Notification/", True, id="not ASCII"),
        pytest.param("/caf\xc3\xa9", "Notification/", True, id="not ASCII, relative"),
        pytest.param("/\u20ac", "/API/Notification/", False, id="no bytes at all"),
        pytest.param("/a b", "/a%20b/API/Notification/", True, id="with a space"),
        pytest.param("/shop/", "/shop/API/Notification/", True, id="with a slash at its end"),
    ],
)
def test_the_mount_point_counts(mount: str, location: str, restored: bool) -> None:
    left = redirected(location, SCRIPT_NAME=mount)
    assert left == (f"{location}?{PAIR}" if restored else location)


@pytest.mark.parametrize(
    ("extra", "location", "restored"),
    [
        pytest.param({"HTTP_HOST": "api.example:80"}, "http://api.example/API/Notification/", True, id="Host names 80"),
        pytest.param({"HTTP_HOST": "api.example:8000"}, "http://api.example:8000/API/Notification/", True, id="port"),
        pytest.param({"HTTP_HOST": "api.example:8000"}, "http://api.example/API/Notification/", False, id="port lost"),
        pytest.param({"HTTP_HOST": "[::1]:8000"}, "http://[::1]:8000/API/Notification/", True, id="IPv6"),
        pytest.param({"HTTP_HOST": "api.example:x"}, "http://api.example/API/Notification/", False, id="broken Host"),
        pytest.param({"HTTP_HOST": ""}, "http://api.example:80/API/Notification/", True, id="empty Host: SERVER_NAME"),
        pytest.param({"HTTP_HOST": "www.example"}, "http://api.example/API/Notification/", False, id="Host goes first"),
        pytest.param({"wsgi.url_scheme": "https"}, "https://api.example:443/API/Notification/", True, id="https"),
        pytest.param({"wsgi.url_scheme": "https"}, "https://api.example:80/API/Notification/", False, id="https on 80"),
        pytest.param({"wsgi.url_scheme": "https"}, "http://api.example/API/Notification/", False, id="down to http"),
    ],
)
def test_the_origin_is_that_of_the_request(extra: dict[str, Any], location: str, restored: bool) -> None:
    assert redirected(location, **extra) == (f"{location}?{PAIR}" if restored else location)


def test_the_pair_goes_back_as_it_came() -> None:
    pair = "SESSION%49d=S%33CRET%3d"
    assert redirected("/API/Notification/?b=%7e", query=f"a=1&{pair}&c") == f"/API/Notification/?b=%7e&{pair}"


def test_a_query_that_goes_with_an_equal_header_is_put_back_too() -> None:
    left = redirected("/API/Notification/", HTTP_AUTHORIZATION="Bearer S3CRET")
    assert left == f"/API/Notification/?{PAIR}"


def test_a_session_in_the_header_never_comes_into_a_url() -> None:
    assert redirected("/API/Notification/", query="a=1", HTTP_AUTHORIZATION="Bearer S3CRET") == "/API/Notification/"


def test_without_extraction_nothing_is_put_back() -> None:
    assert redirected("/API/Notification/", options={"extract_session": False}) == "/API/Notification/"


def test_every_location_is_looked_at_by_itself() -> None:
    fields = [("LOCATION", "/API/Notification/"), ("Content-Location", "/API/Notification/"), ("Link", "<x>; rel=y")]
    answer = call(DeprecationMiddleware(plain_app("302 Found", fields), POLICY), "GET", "/API/Notification", PAIR)
    assert answer.one("Location") == f"/API/Notification/?{PAIR}"
    assert answer.one("Content-Location") == "/API/Notification/"
    assert answer.all("Link")[0] == "<x>; rel=y"


def test_a_head_that_is_an_operation_of_its_own_stays_one() -> None:
    operations = [Operation("look", "HEAD", "/look"), Operation("read", "GET", "/read")]
    for location, left in (("/look", f"/look?{PAIR}"), ("/read", f"/read?{PAIR}")):
        assert redirected(location, method="HEAD", path="/look", options={"operations": operations}) == left
    assert redirected("/look", path="/read", options={"operations": operations}) == "/look"


# Operations with nothing but parameters claim paths of all kinds: the origin alone decides.
EVERYTHING = {"operations": [Operation(f"op{depth}", "GET", "/{a}" * depth) for depth in range(1, 6)]}
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
def test_what_readers_resolve_in_different_ways_leaves_as_it_came_wherever_it_leads(location: str) -> None:
    assert redirected(location, options=EVERYTHING) == location


# Where the least strict of clients see a host; after a scheme there must be one.
HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?[/\\]{2,}([^/\\?#]*)|[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@settings(deadline=None, max_examples=500)
@given(LOCATIONS)
@example("/a&")
@example("///evil.example/a")
@example("/\\evil.example/a")
@example("http://api.example\\@evil.example/a")
def test_any_location_leaves_as_it_came_or_with_the_pair_to_our_own_host(location: str) -> None:
    left = redirected(location, options=EVERYTHING)
    if left != location:
        before, hash_sign, fragment = left.partition("#")
        assert PAIR in before.partition("?")[2].split("&")
        stripped = before.removesuffix(PAIR)
        assert location in {f"{stripped}{hash_sign}{fragment}", f"{stripped[:-1]}{hash_sign}{fragment}"}
        host = HOST.match(left)
        assert host is None or host[1] in {"api.example", "api.example:", "api.example:80"}


@pytest.mark.parametrize(
    "location",
    ["//\t/API/Notification/", "http://\t/API/Notification/", "/API/Notifi\tcation/", "/API/Notification/\n"],
)
def test_a_control_character_makes_a_location_doubtful(location: str) -> None:
    """Clients drop a tab, and then read a host where there was none; validators would not let it come this far."""
    assert way(SCRIPT_NAME="").restore(location, "302 Found") == location


def test_a_mount_point_that_is_a_slash_is_none() -> None:
    """PEP 3333 knows no such ``SCRIPT_NAME``, and some servers send it."""
    assert way(SCRIPT_NAME="/").restore("/API/Notification/", "302 Found") == f"/API/Notification/?{PAIR}"


def test_a_mount_point_may_be_missing() -> None:
    """PEP 3333 lets a server leave out what is empty."""
    environ = environ_of("GET", "/API/Notification/")
    del environ["SCRIPT_NAME"]
    found = way_back(environ, "/API/Notification/", CREDENTIAL, TABLE)
    assert found is not None
    assert found.restore("/API/Notification/", "302 Found") == f"/API/Notification/?{PAIR}"


@pytest.mark.parametrize(
    "session",
    [
        pytest.param(None, id="none"),
        pytest.param(SessionRefused(400, "invalid_request", "ambiguous"), id="refused"),
        pytest.param(SessionCredential("s", "header"), id="from the header"),
    ],
)
def test_a_session_that_no_query_named_needs_no_way_back(session: Session) -> None:
    assert way_back(environ_of("GET", "/API/Notification/"), "/API/Notification/", session, TABLE) is None


def test_a_way_back_does_not_show_its_pair() -> None:
    assert "S3CRET" not in repr(way())


def way(**extra: Any) -> WayBack:
    environ = environ_of("GET", "/API/Notification/", **extra)
    found = way_back(environ, "/API/Notification/", CREDENTIAL, TABLE)
    assert found is not None
    return found
