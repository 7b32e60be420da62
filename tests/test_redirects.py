"""A redirect to a matched operation keeps its session, and a redirect loop is logged and not cached."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation, notification_operations
from flask_notifications.operations import OperationTable
from flask_notifications.redirects import RequestTarget
from flask_notifications.sessions import digest_pair
from tests.growth import grows_linearly
from tests.wsgi import call, environ_of, plain_app, run

POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
PAIR = "sessionId=S3CRET"
DIGEST = digest_pair(PAIR)
TABLE = OperationTable(notification_operations())
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
    """Return the ``Location`` that the middleware sends for the ``Location`` of an application."""
    app = DeprecationMiddleware(plain_app(status, [("Location", location)]), dict.fromkeys(operations, POLICY))
    return call(app, method, path, query, **extra).one("Location")


@pytest.mark.parametrize(
    ("location", "left"),
    [
        pytest.param(
            "http://api.example:80/API/Notification", f"http://api.example:80/API/Notification?{PAIR}", id="port"
        ),
        pytest.param("Notification/", f"Notification/?{PAIR}", id="relative"),
        pytest.param("?page=2", f"?page=2&{PAIR}", id="query alone"),
        pytest.param("/API/Notification/#sessionId=x", f"/API/Notification/?{PAIR}#sessionId=x", id="in a fragment"),
        pytest.param("?at=8:15", f"?at=8:15&{PAIR}", id="a : in a query ends no scheme"),
        pytest.param("/API/Notification/?a//b", f"/API/Notification/?a//b&{PAIR}", id="// in a query"),
    ],
)
def test_a_redirect_to_an_operation_carries_the_pair(location: str, left: str) -> None:
    assert redirect_to(location) == left


@pytest.mark.parametrize(
    "location",
    [
        pytest.param("http://user@api.example/API/Notification/", id="user information"),
        pytest.param("http://api.example:80@evil.example/API/Notification/", id="a port that is a password"),
        # Clients find a host after any number of slashes, and disagree about a scheme without slashes.
        pytest.param("///API/Notification/", id="three slashes"),
        pytest.param("http:/API/Notification/", id="scheme and one slash"),
        pytest.param("http://api.example\\@evil.example/API/Notification/", id="backslash in the host"),
        pytest.param("/API/Notification/;", id="an empty parameter of a segment, which urljoin drops"),
        pytest.param("http://[::1/API/Notification/", id="a bracket that is not closed"),
        pytest.param("/API/Notification/x", id="a live neighbour"),
        pytest.param("http://api.example/API/../Notification/", id="dot segments that lead away"),
        pytest.param("", id="empty: the same URL with its query"),
        pytest.param("/API/Notification/?sessionId=S3CRET", id="the pair is present"),
        pytest.param("/API/Notification/?sessionId=0THER", id="another session"),
    ],
)
def test_every_other_location_stays_unchanged(location: str) -> None:
    assert redirect_to(location) == location


@pytest.mark.parametrize(
    ("status", "location", "has_pair"),
    [
        pytest.param("303 See Other", ACCOUNT, False, id="303 becomes GET: not matched"),
        pytest.param("302 Found", "/API/Notification/", True, id="302 becomes GET in practice"),
        pytest.param("307 Temporary Redirect", ACCOUNT.replace("acc/", "a&"), True, id="an & in a path"),
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
        pytest.param("/shop", "/shop", False, id="the mount point itself"),
        pytest.param("/caf\xc3\xa9", "Notification/", True, id="not ASCII, relative"),
        pytest.param("/\u20ac", "/API/Notification/", False, id="no WSGI string"),
        pytest.param("/shop/", "/shop/API/Notification/", True, id="with a slash at its end"),
    ],
)
def test_only_a_redirect_below_the_mount_point_carries_the_pair(mount: str, location: str, has_pair: bool) -> None:
    left = redirect_to(location, SCRIPT_NAME=mount)
    assert left == (f"{location}?{PAIR}" if has_pair else location)


@pytest.mark.parametrize(
    ("extra", "location", "has_pair"),
    [
        pytest.param({"HTTP_HOST": "api.example:80"}, "http://api.example/API/Notification/", True, id="Host with 80"),
        pytest.param({"HTTP_HOST": "[::1]:8000"}, "http://[::1]:8000/API/Notification/", True, id="IPv6"),
        pytest.param({"HTTP_HOST": ""}, "http://api.example:80/API/Notification/", True, id="empty Host: SERVER_NAME"),
        pytest.param({"HTTP_HOST": "www.example"}, "http://api.example/API/Notification/", False, id="Host wins"),
        pytest.param({"wsgi.url_scheme": "https"}, "http://api.example/API/Notification/", False, id="down to http"),
    ],
)
def test_only_a_redirect_to_the_origin_of_the_request_carries_the_pair(
    extra: dict[str, Any], location: str, has_pair: bool
) -> None:
    assert redirect_to(location, **extra) == (f"{location}?{PAIR}" if has_pair else location)


def test_a_session_in_the_header_is_never_written_into_a_url() -> None:
    assert redirect_to("/API/Notification/", query="a=1", HTTP_AUTHORIZATION="Bearer S3CRET") == "/API/Notification/"


@pytest.mark.parametrize(
    ("location", "left"),
    [
        pytest.param(f"?a=%7e&{DIGEST}&b", f"?a=%7e&{PAIR}&b", id="in between, other bytes stay"),
        pytest.param(f"/API/Notification/?{DIGEST}&{PAIR}", f"/API/Notification/?{PAIR}", id="beside the pair"),
        pytest.param(
            f"/API/Notification/?next=%3F{DIGEST.replace('=', '%3D')}",
            f"/API/Notification/?next=&{PAIR}",
            id="inside another value",
        ),
        pytest.param(f"/API/Notification/?{DIGEST.replace('=', '%3D')}", f"/API/Notification/?{PAIR}", id="encoded"),
        pytest.param(f"/API/Notification/#{DIGEST}", f"/API/Notification/?{PAIR}#", id="in a fragment"),
    ],
)
def test_the_pair_replaces_the_digest_that_a_router_copied(location: str, left: str) -> None:
    assert redirect_to(location) == left


@pytest.mark.parametrize(
    ("location", "left"),
    [
        pytest.param("/login#{}", "/login#", id="in a fragment"),
        pytest.param(
            "https://api.example:8443/API/Notification/?{}",
            "https://api.example:8443/API/Notification/",
            id="another port",
        ),
        pytest.param("/login?next=%2Fx%3Fgo%3D%252Fy%253F{}%26b&c", "/login?next=%2Fx%3Fgo%3D%252Fy%26b&c", id="deep"),
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
        size: DeprecationMiddleware(
            plain_app("302 Found", [("Location", f"/x?{unit * size}")]),
            dict.fromkeys(notification_operations(), POLICY),
        )
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
        pytest.param("302 Found", "/things/7/", True, id="302 stays DELETE with some clients"),
        pytest.param("302 Found", "/things", True, id="302 becomes GET with other clients"),
        pytest.param("303 See Other", "/things/7/", False, id="303 becomes GET: not matched"),
        pytest.param("308 Permanent Redirect", "/things/7/", True, id="308 stays DELETE: matched"),
        pytest.param("308 Permanent Redirect", "/things", False, id="308 stays DELETE: not matched"),
    ],
)
@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
@pytest.mark.parametrize("method", ["DELETE", "delete"])
def test_other_methods_are_repeated_or_become_get(method: str, status: str, location: str, has_pair: bool) -> None:
    left = redirect_to(location, status=status, method=method, path="/things/7", operations=[REMOVE, READ])
    assert left == (f"{location}?{PAIR}" if has_pair else location)


def redirect_from(path: str, location: str, status: str = "308 Permanent Redirect", method: str = "GET") -> list[str]:
    app = DeprecationMiddleware(
        plain_app(status, [("Location", location), ("Cache-Control", "max-age=60")]),
        dict.fromkeys([DEMO, USER], POLICY),
    )
    return call(app, method, path).all("Cache-Control")


@pytest.mark.parametrize(("path", "location", "shown"), [("/V1/s3", "/v1/s3", "/v1/**"), ("/V1", "/v1", "/v1")])
def test_the_error_about_a_loop_below_a_path_has_nothing_of_the_rest(
    path: str, location: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    version = Operation("version", "*", "/V1/**", rewrite_path=True)
    app = DeprecationMiddleware(plain_app("308 Permanent Redirect", [("Location", location)]), {version: POLICY})
    assert call(app, "GET", path.lower()).all("Cache-Control") == ["no-store"]
    assert f"to '{shown}'" in caplog.text
    assert "s3" not in caplog.text


def test_a_redirect_to_an_operation_that_the_session_in_the_query_chooses_keeps_it() -> None:
    carrier = Operation("carrier", "GET", "/things/**", query={"sessionId": "*"}, unify_session=True)
    assert redirect_to("/things/7/", path="/things/7", operations=[carrier]) == f"/things/7/?{PAIR}"


@pytest.mark.parametrize(
    ("path", "location"),
    [
        pytest.param("/demo/", "/demo", id="a request that was not rewritten"),
        pytest.param("/demo", "/demo/", id="the rewritten path, as after a log-in"),
        pytest.param("/users/7", "/users/8", id="another parameter"),
    ],
)
def test_every_other_redirect_is_no_loop(path: str, location: str, caplog: pytest.LogCaptureFixture) -> None:
    assert redirect_from(path, location) == ["max-age=60"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("query", "location", "is_loop"),
    [
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
    app = DeprecationMiddleware(plain_app("302 Found", [("Location", location)]), dict.fromkeys([demo], POLICY))
    assert ("no-store" in call(app, "GET", "/demo", query).all("Cache-Control")) is is_loop


def test_a_put_that_most_clients_repeat_loops(caplog: pytest.LogCaptureFixture) -> None:
    operations = [Operation("make", "PUT", "/demo/", rewrite_path=True)]
    app = DeprecationMiddleware(plain_app("301 Moved", [("Location", "/demo")]), dict.fromkeys(operations, POLICY))
    assert call(app, "PUT", "/demo").all("Cache-Control") == ["no-store"]
    assert len(caplog.records) == 1


def test_a_redirect_of_head_may_match_an_operation_of_head_or_of_get() -> None:
    operations = [
        Operation("look", "HEAD", "/look", rewrite_path=True, unify_session=True),
        Operation("read", "GET", "/read", rewrite_path=True, unify_session=True),
    ]
    for location, left in (("/look", f"/look?{PAIR}"), ("/read", f"/read?{PAIR}")):
        assert redirect_to(location, method="HEAD", path="/look", operations=operations) == left
    assert redirect_to("/look", path="/read", operations=operations) == "/look"


# Templates of parameters alone match any path, so that only the origin decides.
EVERYTHING = [
    Operation(
        f"op{depth}",
        "GET",
        "".join(f"/{{a{number}}}" for number in range(depth)),
        rewrite_path=True,
        unify_session=True,
    )
    for depth in range(1, 6)
]
LOCATIONS = st.lists(
    st.sampled_from(
        [
            *("http:", "https:", "\\", "//", "/", "api.example", "evil.example", ":80", ":8080", "@", "?", "#", "&"),
            *(";", "..", "%2e", "a"),
        ]
    )
    | st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=3),
    max_size=8,
).map("".join)


# The host in a location as the least strict clients parse it; a host must follow a scheme.
AUTHORITY = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?[/\\]{2,}([^/\\?#]*)|[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@given(LOCATIONS)
@example("/a&")
@example("///evil.example/a")
@example("/\\evil.example/a")
@example("http://api.example\\@evil.example/a")
def test_any_location_stays_unchanged_or_carries_the_pair_to_our_host(location: str) -> None:
    left = redirect_to(location, operations=EVERYTHING)
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


def follow(location: str, **extra: Any) -> str | None:
    target = RequestTarget.of(environ_of(**extra), "/API/Notification/")
    redirect = target.follow(location, "302 Found", TABLE)
    return redirect and redirect.match.operation.name
