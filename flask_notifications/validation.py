"""Checks of arguments: the form of valid values, not their use."""

import math
import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlsplit

# RFC 8288 section 3: a Link target has no controls, spaces, delimiters or non-ASCII
# characters.
_NOT_IN_A_URI = re.compile(r'[^\x21-\x7e]|[<>"\\]')

# RFC 3986 section 2.1.
_BROKEN_ENCODING = re.compile("%(?![0-9A-Fa-f]{2})")
# RFC 9110 section 4.2.4: the authority begins at //, and ends at the next delimiter.
_PASSWORD = re.compile(r"\A([^/?#]*//)[^/?#]*:[^/?#]*@")
# The beginning of a URI with an authority, and of any http(s) URI (RFC 9110 section
# 4.2.1).
_NEEDS_A_HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//|https?:", re.IGNORECASE)

# The longest label, the shortest session ID that is looked for in a label, and the
# longest value in a message, in characters.
_LABEL_LENGTH = 64
_HIDDEN_LENGTH = 8
_SHOWN_LENGTH = 1_000
# Letters that are drawn without ink: Hangul fillers and the empty Braille pattern.
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")


def require(condition: object, argument: str, expected: str, given: object) -> None:
    """Raise ``ValueError``, "argument must be expected, not given", or do nothing."""
    if not condition:
        message = f"{argument} must be {expected}, not {_show(given)}"
        raise ValueError(message)


def _show(value: object) -> str:
    """Return at most 1,000 characters of a value, or its type if it has no string."""
    show = str if isinstance(value, datetime) else repr
    try:
        shown = show(value)
    except Exception:  # noqa: BLE001 - the code of any class
        return f"a value of the type {type(value).__name__}"
    if len(shown) > _SHOWN_LENGTH:
        shown = f"{shown[:_SHOWN_LENGTH]}…"
    return shown


def make_plain(value: Any) -> Any:
    """Convert an instance of a subclass of ``str`` to a ``str``; return others as is.

    Subclasses behave differently: an f-string shows a member of a string ``Enum`` as
    ``Page.NEW``, and ``Markup`` escapes strings that are added to it.
    """
    if isinstance(value, str):
        return "".join(value)
    return value


def is_number(
    value: object, least: float, most: float = math.inf, *, is_whole: bool = False
) -> bool:
    """Return whether a value is a number in a range.

    A boolean is not a number here, and NaN is in no range.
    """
    is_kind = isinstance(value, int) or (isinstance(value, float) and not is_whole)
    return (
        is_kind
        and not isinstance(value, bool)
        and least <= cast("float", value) <= most
    )


def check_uri(argument: str, value: object) -> None:
    r"""Check that a value can be a URI reference in a header (RFC 8288 section 3).

    Checked: a string, not empty, of printable ASCII without spaces and ``<>"\``, whose
    percent-encoding is complete, and whose authority, if it has one, has a host and no
    password (RFC 9110 section 4.2). No error shows a password. Not checked: that the
    URI resolves, or that a server responds there.
    """
    require(isinstance(value, str) and value, argument, "a URI as a string", value)
    uri = make_plain(value)
    require(
        not _PASSWORD.search(uri),
        argument,
        "a URI without a password",
        _PASSWORD.sub(r"\1…@", uri),
    )
    require(
        not _NOT_IN_A_URI.search(uri),
        argument,
        'a URI of printable ASCII without spaces, <, >, " and \\',
        uri,
    )
    require(
        not _BROKEN_ENCODING.search(uri),
        argument,
        "a URI with two hexadecimal digits after each %",
        uri,
    )
    has_host = False
    with suppress(ValueError):  # urlsplit refuses a broken IPv6 address
        has_host = urlsplit(uri).hostname or not _NEEDS_A_HOST.match(uri)
    require(
        has_host, argument, "a URI with a host, such as 'https://example.com/new'", uri
    )


def check_base_url(base_url: object) -> None:
    """Check that a base URL is an absolute http(s) URL without a query, or ``None``."""
    if base_url is not None:
        check_uri("base_url", base_url)
        url = make_plain(base_url)
        fits = False
        with suppress(ValueError):  # the port is not a number
            fits = (
                urlsplit(url).scheme in {"http", "https"}
                and urlsplit(url).port != 0
                and not set(url) & {"?", "#"}
            )
        require(fits, "base_url", "an absolute http(s) URL without a query", base_url)


def clean_label(label: object, session_ids: Iterable[str] = ()) -> str | None:
    """Return a caller's label, or ``None`` if it is invalid or contains a session ID.

    A valid label is at most 64 printable characters, at least one of them visible.
    """
    if not isinstance(label, str) or len(label) > _LABEL_LENGTH:
        return None
    if not label.isprintable() or not any(map(_is_visible, label)):
        return None
    if holds_session_id(label, session_ids):
        return None
    plain: str = make_plain(label)  # a label may be a proxy that loses its string
    return plain


def _is_visible(character: str) -> bool:
    """Return whether a printable character has ink by itself: no space, no mark."""
    return character not in _BLANK and unicodedata.category(character)[0] not in "MZ"


def holds_session_id(string: str, session_ids: Iterable[str]) -> bool:
    """Return whether a string contains one of the session IDs.

    IDs of less than eight characters are ignored: labels may contain them by chance.
    """
    for session_id in session_ids:
        if len(session_id) >= _HIDDEN_LENGTH and session_id in string:
            return True
    return False
