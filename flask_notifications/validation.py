"""Checks of constructor arguments. Knows what a valid value looks like, and nothing of what it is for."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

# RFC 8288 section 3: a Link target has no controls, spaces, delimiters or non-ASCII characters.
_NOT_IN_A_URI = re.compile(r'[^\x21-\x7e]|[<>"\\]')

# Characters.
_LABEL_LENGTH = 64


def require(condition: object, argument: str, expected: str, given: object) -> None:
    """Raise ``ValueError`` unless a condition holds.

    :param condition: what must be true.
    :param argument: the name of the argument, as the caller spelled it.
    :param expected: what the argument must be, as in "argument must be ...".
    :param given: what it was instead.
    :raises ValueError: the condition does not hold; the message has all three.
    """
    if not condition:
        message = f"{argument} must be {expected}, not {given!r}"
        raise ValueError(message)


def check_uri(argument: str, value: object) -> None:
    r"""Check that a value can be a URI reference in a header (RFC 8288 section 3).

    Checked: a string, not empty, of printable ASCII without spaces and ``<>"\``.
    Not checked: that the URI resolves, or that a server responds there.

    :param argument: the name of the argument.
    :param value: what was given for it.
    :raises ValueError: the value is something else.
    """
    require(isinstance(value, str) and value, argument, "a URI as a string", value)
    valid = not _NOT_IN_A_URI.search(str(value))
    require(valid, argument, 'a URI of printable ASCII without spaces, <, >, " and \\', value)


def check_base_url(base_url: object) -> None:
    """Check that a base URL is an absolute http(s) URL without a query, or ``None``.

    :param base_url: what was given as the argument of this name.
    :raises ValueError: the value is something else.
    """
    if base_url is not None:
        check_uri("base_url", base_url)
        require(_is_base_url(str(base_url)), "base_url", "an absolute http(s) URL", base_url)


def _is_base_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_address = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a broken address, or no port number
        return False
    return parts.scheme in {"http", "https"} and has_address and not set(url) & {"?", "#"}


def clean_label(label: object, session_ids: Iterable[str]) -> str | None:
    """Return a caller's label if it is 1 to 64 printable characters without a session ID, otherwise ``None``."""
    if not isinstance(label, str) or not 1 <= len(label) <= _LABEL_LENGTH or not label.isprintable():
        return None
    return None if any(session_id in label for session_id in session_ids) else label
