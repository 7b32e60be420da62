"""The headers of a response are merged and replaced, and no list is changed in place."""

import re
import string
from collections.abc import Callable
from operator import methodcaller

import pytest

from flask_notifications.headers import TOKEN, HeaderList, ResponseHeaders

TYPE = ("Content-Type", "text/plain")


def edit(
    headers: HeaderList, change: Callable[[ResponseHeaders], object]
) -> HeaderList:
    edited = ResponseHeaders(headers)
    change(edited)
    assert edited.names == [name.lower() for name, _value in edited.lines]
    return edited.lines


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([TYPE], [TYPE, ("Vary", "Authorization")], id="no Vary"),
        pytest.param(
            [("Vary", "Accept")],
            [("Vary", "Accept, Authorization")],
            id="another member",
        ),
        pytest.param(
            [("Vary", "Accept,Origin ,")],
            [("Vary", "Accept, Origin, Authorization")],
            id="a loose list",
        ),
        pytest.param(
            [("Vary", "authorization")],
            [("Vary", "authorization")],
            id="there already, in lower case",
        ),
        pytest.param(
            [("Vary", "X-Authorization")],
            [("Vary", "X-Authorization, Authorization")],
            id="a longer member",
        ),
        pytest.param(
            [("Vary", "Accept, *")], [("Vary", "Accept, *")], id="anything, in a list"
        ),
        pytest.param(
            [TYPE, ("Vary", "A"), ("VARY", "*")],
            [TYPE, ("Vary", "A, *")],
            id="anything, on a second line",
        ),
        pytest.param(
            [("Vary", "A"), TYPE, ("Vary", "B")],
            [("Vary", "A, B, Authorization"), TYPE],
            id="two lines",
        ),
    ],
)
def test_authorization_is_merged_into_vary(
    headers: HeaderList, expected: HeaderList
) -> None:
    assert (
        edit(headers, methodcaller("merge", "Vary", ["Authorization"], unless="*"))
        == expected
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], ["private"], id="none"),
        pytest.param(["public", "no-store"], ["no-store"], id="public beside no-store"),
        pytest.param(
            ["Public, s-maxage=600, max-age=60"],
            ["max-age=60, private"],
            id="directives for shared caches",
        ),
        pytest.param(
            ['private="Set-Cookie", max-age=1'],
            ["max-age=1, private"],
            id="private for one header only",
        ),
        pytest.param(
            [r'x="\", public", public'],
            [r'x="\", public", private'],
            id="a quoted quote",
        ),
        pytest.param(["public-ish"], ["public-ish, private"], id="a longer name"),
        pytest.param(
            ["max-age=60 public"], ["max-age=60, private"], id="no comma between"
        ),
        pytest.param([",, public;,"], ["private"], id="garbage"),
        pytest.param(
            ['x="public, no-store'],
            ["x=, no-store"],
            id="a quoted string that is never closed",
        ),
    ],
)
def test_no_shared_cache_may_store_the_response(
    values: list[str], expected: list[str]
) -> None:
    headers = edit(
        [TYPE, *(("Cache-Control", value) for value in values)],
        ResponseHeaders.keep_private,
    )
    assert headers == [TYPE, *(("Cache-Control", value) for value in expected)]


def test_a_token_is_made_of_letters_digits_and_fifteen_signs() -> None:
    """These are the characters of RFC 9110 section 5.6.2."""
    allowed = {*string.ascii_letters, *string.digits, *"!#$%&'*+-.^_`|~"}
    assert {
        char for char in map(chr, range(256)) if re.fullmatch(TOKEN, char)
    } == allowed
