"""Functions on header lists merge and remove headers, and change no list in place."""

import re
import string
from collections.abc import Callable

import pytest

from flask_notifications.headers import (
    TOKEN,
    HeaderList,
    keep_private,
    merge_members,
    remove_headers,
    values_of,
    vary_on,
)
from flask_notifications.validation import check_uri

TYPE = ("Content-Type", "text/plain")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([TYPE], [TYPE, ("Vary", "Authorization")], id="no Vary"),
        pytest.param([("Vary", "")], [("Vary", "Authorization")], id="an empty Vary"),
        pytest.param([("Vary", "Accept")], [("Vary", "Accept, Authorization")], id="another member"),
        pytest.param([("Vary", "Accept, ")], [("Vary", "Accept, Authorization")], id="a comma at the end"),
        pytest.param([("Vary", "Accept,Origin ,")], [("Vary", "Accept, Origin, Authorization")], id="a loose list"),
        pytest.param([("Vary", "authorization")], [("Vary", "authorization")], id="there already, in lower case"),
        pytest.param([("vary", "Accept")], [("vary", "Accept, Authorization")], id="a name in lower case stays"),
        pytest.param([("Vary", "X-Authorization")], [("Vary", "X-Authorization, Authorization")], id="a longer member"),
        pytest.param([("Vary", "*")], [("Vary", "*")], id="anything"),
        pytest.param([("Vary", "Accept, *")], [("Vary", "Accept, *")], id="anything, in a list"),
        pytest.param([("Vary", "A"), ("VARY", "*")], [("Vary", "A"), ("VARY", "*")], id="anything, on a second line"),
        pytest.param(
            [("Vary", "A"), TYPE, ("Vary", "B")], [("Vary", "A, B, Authorization"), TYPE], id="two lines become one"
        ),
    ],
)
def test_authorization_is_merged_into_vary(headers: HeaderList, expected: HeaderList) -> None:
    assert vary_on(headers, "Authorization") == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], ["private"], id="none"),
        pytest.param(["no-store"], ["no-store"], id="no-store is enough"),
        pytest.param(["No-Store, max-age=0"], ["No-Store, max-age=0"], id="in any case"),
        pytest.param(["private"], ["private"], id="private"),
        pytest.param(["public"], ["private"], id="public"),
        pytest.param(["PUBLIC , S-MaxAge=60"], ["private"], id="public in any case"),
        pytest.param(["public, no-store"], ["no-store"], id="public beside no-store"),
        pytest.param(["public, s-maxage=600, max-age=60"], ["max-age=60, private"], id="directives for shared caches"),
        pytest.param(['s-maxage="600", max-age=60'], ["max-age=60, private"], id="a quoted number"),
        pytest.param(
            ["max-age=60, must-revalidate"], ["max-age=60, must-revalidate, private"], id="other directives are kept"
        ),
        pytest.param(['private="Set-Cookie", max-age=1'], ["max-age=1, private"], id="private for one header only"),
        pytest.param(
            ['no-cache="a, public, b"'], ['no-cache="a, public, b", private'], id="a quoted list is one value"
        ),
        pytest.param([r'x="\", public", public'], [r'x="\", public", private'], id="a quoted quote"),
        pytest.param(["max-age=60", "public"], ["max-age=60, private"], id="two lines become one"),
        pytest.param(["public", "no-store"], ["no-store"], id="no-store on the second line"),
        pytest.param(["public-ish"], ["public-ish, private"], id="a longer name"),
        pytest.param(["max-age=60 public"], ["max-age=60, private"], id="no comma between"),
        pytest.param(["x="], ["x=, private"], id="an empty value"),
        pytest.param(['x=""'], ['x="", private'], id="an empty quoted string"),
        pytest.param([",, public;,"], ["private"], id="garbage"),
        pytest.param(['x="public, no-store'], None, id="a quoted string that is never closed"),
    ],
)
def test_no_shared_cache_may_store_the_response(values: list[str], expected: list[str] | None) -> None:
    headers = keep_private([TYPE, *(("Cache-Control", value) for value in values)])
    assert headers[0] == TYPE
    merged = [value for _name, value in headers[1:]]
    if expected is None:  # the value is malformed, but shared caches may not store the response
        assert {"private", "no-store"} & {part.strip() for part in merged[0].split(",")}
        assert "public" not in merged[0]
    else:
        assert merged == expected


def test_a_token_is_made_of_letters_digits_and_fifteen_signs() -> None:
    """These are the characters of RFC 9110 section 5.6.2."""
    allowed = {*string.ascii_letters, *string.digits, *"!#$%&'*+-.^_`|~"}
    assert {char for char in map(chr, range(256)) if re.fullmatch(TOKEN, char)} == allowed


def test_members_are_merged_once_whatever_their_case() -> None:
    names = ("Deprecation", "Sunset", "Link")
    assert merge_members([], "Expose", names) == [("Expose", "Deprecation, Sunset, Link")]
    assert merge_members([("expose", "link, ETag")], "Expose", names) == [("expose", "link, ETag, Deprecation, Sunset")]
    assert merge_members([("Expose", "*")], "Expose", names) == [("Expose", "*, Deprecation, Sunset, Link")]
    once = merge_members([("Expose", "ETag")], "Expose", names)
    assert merge_members(once, "Expose", names) == once


def test_headers_are_found_and_removed_whatever_the_case_of_their_name() -> None:
    headers = [("SUNSET", "x"), TYPE, ("sunset", "y"), ("X-Sunset", "z")]
    assert remove_headers(headers, {"sunset"}) == [TYPE, ("X-Sunset", "z")]
    assert values_of(headers, "sunset") == ["x", "y"]
    assert values_of([TYPE], "sunset") == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda headers: vary_on(headers, "Authorization"), id="vary_on"),
        pytest.param(keep_private, id="keep_private"),
        pytest.param(lambda headers: merge_members(headers, "Vary", ["B"]), id="merge_members"),
        pytest.param(lambda headers: remove_headers(headers, {"vary"}), id="remove_headers"),
    ],
)
def test_no_list_is_changed_in_place(change: Callable[[HeaderList], HeaderList]) -> None:
    headers = [("Vary", "A"), TYPE, ("Cache-Control", "public")]
    before = list(headers)
    assert change(headers) != before
    assert headers == before


@pytest.mark.parametrize(
    "uri",
    [
        "/a",
        "//host/a",
        "a",
        "?a=b",
        "#a",
        "https://example.com/a?b=c&d=%20#e",
        "urn:x:y",
        "/{id}",
        "/~a!$'()*+,;=:@[]|^`",
    ],
)
def test_a_uri_that_is_valid_in_a_header_is_accepted(uri: str) -> None:
    check_uri("documentation", uri)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param(" ", id="space"),
        pytest.param("/a b", id="space inside"),
        pytest.param("/a ", id="space at the end"),
        pytest.param("/a\n", id="newline"),
        pytest.param("/a\r\nSet-Cookie: x=y", id="another header"),
        pytest.param("/a\x00", id="NUL"),
        pytest.param("/a\x7f", id="DEL"),
        pytest.param("/a>; rel=x, </b", id="another link"),
        pytest.param("/<a", id="<"),
        pytest.param("/a>", id=">"),
        pytest.param('/"a"', id="quotes"),
        pytest.param("/a\\b", id="backslash"),
        pytest.param("/caf\xe9", id="latin-1"),
        pytest.param("/\u20ac", id="beyond latin-1"),
        pytest.param(b"/a", id="bytes"),
        pytest.param(None, id="None"),
        pytest.param(1, id="a number"),
    ],
)
def test_a_value_that_is_invalid_in_a_header_is_refused_by_name(value: object) -> None:
    with pytest.raises(ValueError, match=r"^documentation\b"):
        check_uri("documentation", value)
