"""A redirect within the host of the request keeps its session."""

from functools import partial
from typing import Any

import pytest

from flask_notifications.sessions.credential import digest_of
from flask_notifications.sessions.redirects import origin_of, restore_session
from tests.growth import grows_linearly
from tests.middleware import PATH, wrap
from tests.wsgi import call, environ_of, plain_app

PAIR = "sessionId=S3CRET"
DIGEST = digest_of("S3CRET")


def redirect_to(location: str, *, query: str = PAIR, **extra: Any) -> str:
    """Return the ``Location`` that a client gets; ``{}`` becomes the digest's pair."""
    location = location.format(DIGEST)
    headers = [("Location", location), ("Content-Location", location)]
    response = call(wrap(plain_app("302 Found", headers)), "GET", PATH, query, **extra)
    assert response.one("Content-Location") == location
    return response.one("Location")


@pytest.mark.parametrize(
    "location",
    [
        "/login?a=%7e&{}&b=//x",
        pytest.param("Notification?{}", id="relative"),
        pytest.param("?{}", id="the query alone"),
        pytest.param("?at=8:15&{}#top", id="before a fragment"),
        pytest.param("http://API.example:80/x?{}", id="the host in another case"),
        pytest.param("//api.example/x?{}", id="the scheme of the request"),
        pytest.param("https://api.example/x?{}", id="up to https"),
    ],
)
def test_a_target_on_the_same_host_gets_the_session_in_place_of_the_digest(
    location: str,
) -> None:
    assert redirect_to(location) == location.format(PAIR)


@pytest.mark.parametrize(
    ("location", "left"),
    [
        ("https://evil.example/x?{}&a=1", "https://evil.example/x?a=1"),
        ("http://api.example:8080/x?{}", "http://api.example:8080/x"),
        ("https://api.example:80/x?{}&a", "https://api.example:80/x?{pair}&a"),
        ("http://user@api.example/?a&{}", "http://user@api.example/?a"),
        ("http://api.example:80@evil.example/?{}", None),
        ("///evil.example/?{}", None),
        ("http:/x?{}", None),
        ("/\\evil.example/?{}", None),
        (" //evil.example/?{}", None),
        ("http://[::1/?{}", None),
        ("http://api.example:port/?{}", None),
    ],
)
def test_a_target_elsewhere_loses_the_digest(location: str, left: str | None) -> None:
    if left is None:
        left = location.removesuffix("?{}")
    assert redirect_to(location) == left.format(pair=PAIR)


@pytest.mark.parametrize(
    "location", ["/\t/evil.example/?", "/x\n?", "\x00//evil.example/?", "/\x7f?"]
)
def test_a_target_with_a_control_character_loses_the_digest(location: str) -> None:
    """The validator refuses such headers, so this calls the function."""
    left = restore_session(location + DIGEST, origin_of(environ_of()), PAIR, DIGEST)
    assert left == location.removesuffix("?")


@pytest.mark.parametrize(
    ("location", "left"),
    [
        ("/x?{}&a&{}", f"/x?{PAIR}&a"),
        ("/x?{}#{}", f"/x?{PAIR}#"),
        ("/login?a;{}", "/login?a;"),
        pytest.param("/x?{}=", "/x?=", id="not a whole member"),
        pytest.param("/login?next=%2Fx%3F{}%26b&c", "/login?next=%2Fx%3Fb&c"),
        pytest.param("/login?next=%2Fx%3Fa%26{}&c", "/login?next=%2Fx%3Fa&c"),
        pytest.param("/a?go=%252Fy%253F{}%26b", "/a?go=%252Fy%26b", id="two levels"),
    ],
)
def test_the_digest_is_removed_everywhere_else(location: str, left: str) -> None:
    if location.count("{}") == 2:
        location = location.replace("{}", "{0}")
    assert redirect_to(location) == left


def test_an_encoded_digest_is_removed() -> None:
    assert redirect_to("/x?a&" + DIGEST.replace("=", "%253d")) == "/x?a"


@pytest.mark.parametrize(
    ("extra", "location", "is_kept"),
    [
        ({"HTTP_HOST": "api.example:8080"}, "http://api.example:8080/?{}", True),
        ({"HTTP_HOST": "api.example:8080"}, "https://api.example/?{}", False),
        ({"HTTP_HOST": ""}, "http://api.example:80/?{}", True),
        ({"HTTP_HOST": "api.example:x"}, "http://api.example/?{}", False),
        ({"wsgi.url_scheme": "https"}, "https://api.example:443/?{}", True),
        ({"wsgi.url_scheme": "https"}, "http://api.example/?{}", False),
        ({"HTTP_X_FORWARDED_PROTO": "HTTPS"}, "http://api.example/?{}", False),
        ({"HTTP_X_FORWARDED_PROTO": "http, https"}, "http://api.example/?{}", False),
        ({"HTTP_X_FORWARDED_PROTO": "https"}, "https://api.example/?{}", True),
        ({"HTTP_X_FORWARDED_PROTO": "https"}, "/?{}", True),
        ({"HTTP_FORWARDED": 'for=x;Proto="https"'}, "http://api.example/?{}", False),
        ({"HTTP_FORWARDED": "host=https;proto=http"}, "http://api.example/?{}", True),
    ],
)
def test_the_origin_is_that_of_the_request_as_it_was_received(
    extra: dict[str, Any], location: str, is_kept: bool
) -> None:
    left = location.format(PAIR) if is_kept else location.removesuffix("?{}")
    assert redirect_to(location, **extra) == left


def test_an_application_that_changes_its_host_changes_no_origin() -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        environ["HTTP_HOST"] = "evil.example"
        target = f"http://evil.example/?{environ['QUERY_STRING']}"
        headers = [("Content-Type", "text/plain"), ("Location", target)]
        start_response("302 Found", headers)
        return []

    assert call(wrap(app), "GET", PATH, PAIR).one("Location") == "http://evil.example/"


@pytest.mark.parametrize("location", ["", "?sessionId=x", "/x?&&"])
def test_a_target_without_the_digest_stays_as_it_is(location: str) -> None:
    assert redirect_to(location) == location


def test_a_session_in_the_header_is_never_written_into_a_url() -> None:
    left = redirect_to("/x?a=1", query="a=1", HTTP_AUTHORIZATION="Bearer S3CRET")
    assert left == "/x?a=1"


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["&", "%25", DIGEST, f"&{DIGEST}"], ids=len)
def test_work_on_a_location_grows_linearly_with_its_length(unit: str) -> None:
    restore = partial(
        restore_session, origin=origin_of(environ_of()), pair=PAIR, digest=DIGEST
    )
    assert grows_linearly(restore, lambda size: f"/x?{unit * size}")
