"""A redirect to a matched operation keeps its session, and a redirect loop is logged
and not cached.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flask_notifications import (
    DeprecationMiddleware,
    Operation,
    notification_operations,
)
from flask_notifications.plans.operations import OperationTable
from flask_notifications.sessions.credential import digest_of
from flask_notifications.sessions.redirects import follow, restore_pair
from tests.growth import grows_linearly
from tests.middleware import POLICY
from tests.wsgi import call, environ_of, plain_app

PAIR = "sessionId=S3CRET"
DIGEST = digest_of("S3CRET")
ENCODED = DIGEST.replace("=", "%3D")
TABLE = OperationTable(notification_operations())
SECURE = "https://api.example/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount/acc/"


def redirect_to(
    location: str,
    *,
    status: str = "302 Found",
    method: str = "GET",
    path: str = "/API/Notification",
    query: str = PAIR,
    operations: Sequence[Operation] = notification_operations(),
    **extra: Any,
) -> str:
    """Return the ``Location`` that the middleware sends for the ``Location`` of an
    application.
    """
    headers = [("Location", location), ("Content-Location", location)]
    app = DeprecationMiddleware(
        plain_app(status, headers), dict.fromkeys(operations, POLICY)
    )
    response = call(app, method, path, query, **extra)
    assert response.one("Content-Location") == location
    return response.one("Location")


@pytest.mark.parametrize(
    ("location", "left"),
    [
        (
            "http://API.example:80/API/Notification",
            f"http://API.example:80/API/Notification?{PAIR}",
        ),
        pytest.param("Notification/", f"Notification/?{PAIR}", id="relative"),
        pytest.param("?page=2", f"?page=2&{PAIR}", id="query alone"),
        pytest.param(
            "/API/Notification/#sessionId=x",
            f"/API/Notification/?{PAIR}#sessionId=x",
            id="in a fragment",
        ),
        pytest.param(
            "?at=8:15", f"?at=8:15&{PAIR}", id="a : in a query ends no scheme"
        ),
        pytest.param(
            "/API/Notification/?a//b",
            f"/API/Notification/?a//b&{PAIR}",
            id="// in a query",
        ),
        # In place of the digest, which routers copy.
        pytest.param(
            f"?a=%7e&{DIGEST}&b", f"?a=%7e&{PAIR}&b", id="in between, other bytes stay"
        ),
        pytest.param(
            f"/API/Notification/?{DIGEST}&{PAIR}",
            f"/API/Notification/?{PAIR}",
            id="beside the pair",
        ),
        pytest.param(
            f"/API/Notification/?next=%3F{ENCODED}",
            f"/API/Notification/?next=&{PAIR}",
            id="inside a value",
        ),
        pytest.param(
            f"/API/Notification/?{ENCODED}", f"/API/Notification/?{PAIR}", id="encoded"
        ),
        pytest.param(
            f"/API/Notification/#{DIGEST}",
            f"/API/Notification/?{PAIR}#",
            id="in a fragment, a digest",
        ),
        pytest.param(
            f"{SECURE}?{DIGEST}&a=1", f"{SECURE}?{PAIR}&a=1", id="up to https"
        ),
    ],
)
def test_a_redirect_to_an_operation_carries_the_pair(location: str, left: str) -> None:
    assert redirect_to(location) == left


@pytest.mark.parametrize(
    "location",
    [
        pytest.param(
            "http://user@api.example/API/Notification/", id="user information"
        ),
        pytest.param(
            "http://api.example:80@evil.example/API/Notification/",
            id="a port that is a password",
        ),
        # Clients disagree about a scheme without slashes.
        pytest.param("http:/API/Notification/", id="scheme and one slash"),
        pytest.param(
            "/API/Notification/;",
            id="an empty parameter of a segment, which urljoin drops",
        ),
        pytest.param(
            "http://[::1/API/Notification/", id="a bracket that is not closed"
        ),
        pytest.param("/API/Notification/x", id="a live neighbour"),
        pytest.param(
            "http://api.example/API/../Notification/", id="dot segments that lead away"
        ),
        pytest.param("", id="empty: the same URL with its query"),
        pytest.param("/API/Notification/?sessionId=S3CRET", id="the pair is present"),
        pytest.param("/API/Notification/?sessionId=0THER", id="another session"),
    ],
)
def test_every_other_location_stays_unchanged(location: str) -> None:
    assert redirect_to(location) == location


@pytest.mark.parametrize("segment", ["%2e", ".%2E", "%2e.", "%2e%2e"])
def test_browsers_leave_an_operation_by_dot_segments_that_are_encoded(
    segment: str,
) -> None:
    version = Operation("version", "GET", "/v1/**", unify_session=True)
    for location in (f"/v1/{segment}/x", f"{segment}/x", f"/v1/{segment}"):
        assert redirect_to(location, path="/v1/y", operations=[version]) == location
    assert (
        redirect_to(f"/v1/x{segment}", path="/v1/y", operations=[version])
        == f"/v1/x{segment}?{PAIR}"
    )


OPERATIONS = [
    *notification_operations(),
    Operation("remove", "DELETE", "/things/{id}", unify_session=True),
    Operation("read", "GET", "/things", unify_session=True),
    Operation("look", "HEAD", "/look", unify_session=True),
]


@pytest.mark.parametrize(
    ("method", "status", "location", "has_pair"),
    [
        pytest.param(
            "POST", "303 See Other", ACCOUNT, False, id="303 becomes GET: not matched"
        ),
        pytest.param(
            "POST",
            "302 Found",
            "/API/Notification/",
            True,
            id="302 becomes GET in practice",
        ),
        pytest.param("POST", "302 Found", ACCOUNT, False, id="302 does not stay POST"),
        pytest.param(
            "POST",
            "307 Temporary Redirect",
            ACCOUNT.replace("acc/", "a&"),
            True,
            id="an & in a path",
        ),
        pytest.param(
            "POST",
            "307 Temporary Redirect",
            ACCOUNT.replace("acc", "a:b"),
            True,
            id=": ends no scheme",
        ),
        pytest.param(
            "delete",
            "302 Found",
            "/things/7/",
            True,
            id="302 stays DELETE with some clients",
        ),
        pytest.param(
            "DELETE",
            "302 Found",
            "/things",
            True,
            id="302 becomes GET with other clients",
        ),
        pytest.param(
            "DELETE",
            "308 Permanent Redirect",
            "/things/7/",
            True,
            id="308 stays DELETE: matched",
        ),
        pytest.param("HEAD", "302 Found", "/look", True, id="HEAD stays HEAD"),
        pytest.param(
            "HEAD",
            "302 Found",
            "/things",
            True,
            id="HEAD may match an operation of GET",
        ),
        pytest.param("GET", "302 Found", "/look", False, id="GET does not become HEAD"),
    ],
)
@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
def test_the_method_after_a_redirect_decides(
    method: str, status: str, location: str, has_pair: bool
) -> None:
    path = {"POST": ACCOUNT, "HEAD": "/look", "GET": "/things"}.get(method, "/things/7")
    left = redirect_to(
        location, status=status, method=method, path=path, operations=OPERATIONS
    )
    assert left == (f"{location}?{PAIR}" if has_pair else location)


@pytest.mark.parametrize(
    ("extra", "location", "has_pair"),
    [
        pytest.param(
            {"HTTP_HOST": "api.example:80"},
            "http://api.example/API/Notification/",
            True,
            id="Host with 80",
        ),
        pytest.param(
            {"HTTP_HOST": ""},
            "http://api.example:80/API/Notification/",
            True,
            id="empty Host: SERVER_NAME",
        ),
        pytest.param(
            {"HTTP_HOST": "www.example"},
            "http://api.example/API/Notification/",
            False,
            id="Host wins",
        ),
        pytest.param(
            {"wsgi.url_scheme": "https"},
            "http://api.example/API/Notification/",
            False,
            id="down to http",
        ),
        pytest.param(
            {"SCRIPT_NAME": "/shop"},
            "/shop/API/Notification/",
            True,
            id="below the mount point",
        ),
        pytest.param(
            {"SCRIPT_NAME": "/shop"}, "/shop", False, id="the mount point itself"
        ),
        pytest.param(
            {"SCRIPT_NAME": "/caf\xc3\xa9"},
            "Notification/",
            True,
            id="not ASCII, relative",
        ),
        pytest.param(
            {"SCRIPT_NAME": "/\u20ac"}, "/API/Notification/", False, id="no WSGI string"
        ),
    ],
)
def test_only_the_same_origin_and_mount_point_get_the_pair(
    extra: Any, location: str, has_pair: bool
) -> None:
    assert redirect_to(location, **extra) == (
        f"{location}?{PAIR}" if has_pair else location
    )


def test_a_session_in_the_header_is_never_written_into_a_url() -> None:
    assert (
        redirect_to(
            "/API/Notification/", query="a=1", HTTP_AUTHORIZATION="Bearer S3CRET"
        )
        == "/API/Notification/"
    )


@pytest.mark.parametrize(
    ("location", "left"),
    [
        pytest.param("/login#{}", "/login#", id="in a fragment"),
        (
            "https://api.example:8443/API/Notification/?{}",
            "https://api.example:8443/API/Notification/",
        ),
        pytest.param(
            "/login?next=%2Fx%3Fgo%3D%252Fy%253F{}%26b&c",
            "/login?next=%2Fx%3Fgo%3D%252Fy%26b&c",
            id="deep",
        ),
        pytest.param("not a URL ?{}", "not a URL ", id="no URL"),
    ],
)
@pytest.mark.parametrize("equals", ["=", "%3D", "%253d"])
@pytest.mark.parametrize("status", ["201 Created", "302 Found"])
def test_the_digest_is_removed_from_every_other_location(
    location: str, left: str, equals: str, status: str
) -> None:
    assert (
        redirect_to(location.format(DIGEST.replace("=", equals)), status=status) == left
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [*"&?#/a", "%25", "%2526", "%3F", DIGEST[:-17], DIGEST, f"&{DIGEST}"],
    ids=len,
)
def test_work_on_a_location_grows_linearly_with_its_length(unit: str) -> None:
    assert grows_linearly(
        partial(restore_pair, pair=PAIR, digest=DIGEST),
        lambda size: f"/x?{unit * size}",
    )
    assert grows_linearly(follow_here, lambda size: f"/API/Notification/?{unit * size}")


@pytest.mark.parametrize(
    ("path", "location", "shown"),
    [("/V1/s3", "/v1/s3", "/v1/**"), ("/V1", "/v1", "/v1")],
)
def test_no_rest_of_a_path_is_logged(
    path: str, location: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    version = Operation("version", "*", "/V1/**", rewrite_path=True)
    app = DeprecationMiddleware(
        plain_app("308 Permanent Redirect", [("Location", location)]), {version: POLICY}
    )
    assert call(app, "GET", path.lower()).all("Cache-Control") == ["no-store"]
    assert len(caplog.records) == 1
    assert "operation 'version': the application redirects '/V1/**'" in caplog.text
    assert f"to '{shown}'" in caplog.text
    assert "s3" not in caplog.text


@pytest.mark.parametrize(
    "conditions",
    [{"query": {"sessionId": "*"}}, {"headers": {"Authorization": ""}}],
    ids=[
        "in the query",
        "not in the header, which the middleware has set and the client does not send",
    ],
)
def test_a_redirect_to_an_operation_with_a_condition_on_the_session_keeps_it(
    conditions: Any,
) -> None:
    carrier = Operation(
        "carrier", "GET", "/things/**", **conditions, unify_session=True
    )
    assert (
        redirect_to("/things/7/", path="/things/7", operations=[carrier])
        == f"/things/7/?{PAIR}"
    )


@pytest.mark.parametrize(
    ("path", "query", "location", "is_loop"),
    [
        pytest.param(
            "/demo/", "", "/demo", False, id="a request that was not rewritten"
        ),
        pytest.param(
            "/demo", "", "/demo/", False, id="the rewritten path, as after a log-in"
        ),
        pytest.param(
            "/demo", "page=1", "/demo?page=2", False, id="a query that is changed"
        ),
        pytest.param("/demo", "", "https://api.example/demo", False, id="up to https"),
        pytest.param("/demo", "page=1;2", "/demo?page=1;2", True, id="the same query"),
        pytest.param(
            "/demo",
            "page=1",
            "http://api.example/demo?page=1&#top",
            True,
            id="with a fragment",
        ),
        pytest.param(
            "/demo", PAIR, "/demo", True, id="a session that the redirect lacks"
        ),
        pytest.param(
            "/demo",
            f"a&{PAIR}",
            f"/demo?{DIGEST}&a",
            True,
            id="a session in another place",
        ),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_only_the_rewritten_url_is_a_loop(
    method: str, path: str, query: str, location: str, is_loop: bool
) -> None:
    """Most clients repeat a PUT."""
    operations = [
        Operation("demo", method, "/demo/", rewrite_path=True, unify_session=True),
        Operation("user", method, "/users/{id}/", rewrite_path=True),
    ]
    headers = [("Location", location), ("Cache-Control", "max-age=60")]
    app = DeprecationMiddleware(
        plain_app("301 Moved Permanently", headers), dict.fromkeys(operations, POLICY)
    )
    assert (
        call(app, method, path, query).one("Cache-Control") == "no-store"
    ) is is_loop


# It matches any path, so that only the origin decides.
EVERYTHING = [
    Operation("everything", "GET", "/**", rewrite_path=True, unify_session=True)
]
LOCATIONS = st.lists(
    st.sampled_from(
        [
            *(
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
            ),
            *(";", "..", "%2e", "a"),
        ]
    )
    | st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=3),
    max_size=8,
).map("".join)


# The host in a location as the least strict clients parse it; a host must follow a
# scheme.
AUTHORITY = re.compile(
    r"(?:[a-z][a-z0-9+.-]*:)?[/\\]{2,}([^/\\?#]*)|[a-z][a-z0-9+.-]*:", re.IGNORECASE
)


@given(LOCATIONS)
@example("/a&")
@example("///evil.example/a")
@example("/\\evil.example/a")
@example("http://api.example\\@evil.example/a")
def test_any_location_stays_unchanged_or_carries_the_pair_to_our_host(
    location: str,
) -> None:
    left = redirect_to(location, operations=EVERYTHING)
    if left != location:
        before, hash_sign, fragment = left.partition("#")
        assert PAIR in before.partition("?")[2].split("&")
        stripped = before.removesuffix(PAIR)
        assert location in {
            f"{stripped}{hash_sign}{fragment}",
            f"{stripped[:-1]}{hash_sign}{fragment}",
        }
        host = AUTHORITY.match(left)
        assert host is None or host[1] in {
            "api.example",
            "api.example:",
            "api.example:80",
        }


@pytest.mark.parametrize(
    "location",
    [
        "//\t/API/Notification/",
        "http://\t/API/Notification/",
        "/API/Notifi\tcation/",
        "/API/Notification/\n",
    ],
)
def test_a_location_with_a_control_character_is_not_followed(location: str) -> None:
    """Clients drop a tab and may then find a host.

    The validator refuses such headers, so this calls the function.
    """
    assert follow_here(location) is None


def follow_here(location: str) -> object:
    return follow(environ_of("GET", "/API/Notification/"), location, "302 Found", TABLE)
