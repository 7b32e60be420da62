"""Requests for an operation and its successor as commands of curl, ready to copy."""

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
# Not percent-encoded: percent signs, and the characters of a URI (RFC 3986 section 2)
# except brackets, which curl would expand.
_URI_CHARACTERS = "%:/?#@!$&'()*+,;=-._~"

# The placeholder for the rest of a path.
_REST_PARAMETER = "{rest-of-path}"

# The placeholder for a session ID.
SESSION_ID = "SESSION_ID"

# The placeholder for the URL of the application (RFC 2606 section 3).
EXAMPLE_URL = "https://api.example.com"

# Continues a shell command on an indented line.
_CONTINUE = " \\\n  "


class Request(NamedTuple):
    """One request: a method, a URL and headers."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]]

    def in_curl(self, *options: str) -> str:
        """Return a command for a POSIX shell, with additional options of curl."""
        words = ["curl", *options]
        if self.method == "HEAD":
            words.append("--head")
        elif self.method != "GET":
            words += ["-X", self.method]
        for name, value in self.headers:
            words += ["-H", f"{name}: {value}"]
        space = _CONTINUE if self.headers else " "
        return f"{shlex.join(words)}{space}{shlex.quote(self.url)}"


def describe_requests(
    operation: Operation, base_url: str, *, in_header: bool = False
) -> tuple[Request, Request | None, list[str]]:
    """Return example requests to an operation and its successor, and placeholders.

    The second request is ``None`` if the successor is not a URL. Placeholders are words
    in capitals.

    :param base_url: the URL of the application.
    :param in_header: whether the request to the operation has its session in the header
        rather than in the query, by default not.
    """
    method = "GET" if operation.method == ANY_METHOD else operation.method
    query = example_values(operation.query, _placeholder(""))
    headers = list(example_values(operation.headers, _placeholder("")).items())
    parameters = PARAMETER.findall(operation.path.replace(REST, _REST_PARAMETER))
    placeholders = list(map(_placeholder, parameters))
    credential: list[tuple[str, str]] = []
    if operation.unify_session:
        credential.append(("Authorization", f"Bearer {SESSION_ID}"))
        placeholders.append(SESSION_ID)
        for name in list(query):
            if name.lower() == "sessionid":
                del query[name]
        if not in_header:
            query["sessionId"] = SESSION_ID
    if in_header:
        headers += credential
    url = f"{base_url}{_fill_in(operation.path)}"
    if query:
        url += f"?{urlencode(query)}"
    before = Request(method, url, headers)
    target = operation.successor
    if target is None or not is_link(PARAMETER.sub("", target) or "/"):
        return before, None, placeholders
    # The notification operation for an account has its ID in the path, and the usual
    # successor takes it from the query.
    is_ours = operation.name == ACCOUNT and is_notification_operation(operation)
    if is_ours and target.endswith("/Account"):
        method = "GET"
        target += f"?accountId={{{parameters[0]}}}"
    successor = urljoin(url, resolve_below(_fill_in(target), base_url))
    return before, Request(method, successor, credential), placeholders


def _fill_in(template: str) -> str:
    named = PARAMETER.sub(
        lambda match: _placeholder(match[1]), template.replace(REST, _REST_PARAMETER)
    )
    return quote(named, safe=_URI_CHARACTERS)


def _placeholder(parameter: str) -> str:
    return _NOT_IN_A_NAME.sub("_", parameter).strip("_").upper() or "VALUE"
