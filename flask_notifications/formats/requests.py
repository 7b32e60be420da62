"""The request for an operation and the one for its successor, ready to copy, for curl."""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode, urljoin

from flask_notifications.plans.announcement import resolve_below
from flask_notifications.plans.conditions import example_values
from flask_notifications.plans.operations import (
    ACCOUNT,
    ANY_METHOD,
    PARAMETER,
    REST,
    Operation,
)
from flask_notifications.plans.plan import is_notification_operation

from .rendering import is_link

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9]+")
# Kept unencoded: percent signs, and the characters of a URI (RFC 3986 section 2). Curl
# would expand brackets.
_URI_CHARACTERS = "%:/?#@!$&'()*+,;=-._~"

# The placeholder for the rest of a path.
_REST_PARAMETER = "{rest-of-path}"

# What each example has where your own value belongs.
SESSION_ID = "SESSION_ID"

# The address in the examples where none is given, which the page asks readers to
# replace (RFC 2606 section 3).
EXAMPLE_URL = "https://api.example.com"

# A backslash at the end of a line, and the beginning of the next one.
_CONTINUE = " \\\n  "


class Request(NamedTuple):
    """One request: a method, a URL and headers."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]]

    def in_curl(self, *options: str) -> str:
        """Return a command for a POSIX shell, with more options of curl."""
        method = {"GET": [], "HEAD": ["--head"]}.get(self.method, ["-X", self.method])
        headers = [
            word for name, value in self.headers for word in ("-H", f"{name}: {value}")
        ]
        command = shlex.join(["curl", *options, *method, *headers])
        return f"{command}{_CONTINUE if headers else ' '}{shlex.quote(self.url)}"


def describe_requests(
    operation: Operation, base_url: str, *, in_header: bool = False
) -> tuple[Request, Request | None, list[str]]:
    """Return the request of an operation, that of a successor at a URL, and the
    placeholders in them, in capitals.

    :param in_header: whether the request of the operation has its session in the
        header, and not in the query.
    """
    has_session = operation.unify_session
    method = "GET" if operation.method == ANY_METHOD else operation.method
    query = example_values(operation.query, _placeholder(""))
    credential: list[tuple[str, str]] = []
    if has_session:
        credential.append(("Authorization", f"Bearer {SESSION_ID}"))
        for name in list(query):
            if name.lower() == "sessionid":
                del query[name]
        if not in_header:
            query["sessionId"] = SESSION_ID
    headers = list(example_values(operation.headers, _placeholder("")).items())
    if in_header:
        headers += credential
    before = Request(
        method,
        f"{base_url}{_fill_in(operation.path)}{'?' * bool(query)}{urlencode(query)}",
        headers,
    )
    names = [
        _placeholder(name)
        for name in PARAMETER.findall(operation.path.replace(REST, _REST_PARAMETER))
    ]
    placeholders = [*names, *([SESSION_ID] if has_session else [])]
    target = operation.successor
    if target is None or not is_link(PARAMETER.sub("", target) or "/"):
        return before, None, placeholders
    if (
        operation.name == ACCOUNT
        and is_notification_operation(operation)
        and target.endswith("/Account")
    ):
        method, target = (
            "GET",
            f"{target}?accountId={{{PARAMETER.findall(operation.path)[0]}}}",
        )
    successor = urljoin(before.url, resolve_below(_fill_in(target), base_url))
    return before, Request(method, successor, credential), placeholders


def _fill_in(template: str) -> str:
    named = PARAMETER.sub(
        lambda match: _placeholder(match[1]), template.replace(REST, _REST_PARAMETER)
    )
    return quote(named, safe=_URI_CHARACTERS)


def _placeholder(parameter: str) -> str:
    return _NOT_IN_A_NAME.sub("_", parameter).strip("_").upper() or "VALUE"
