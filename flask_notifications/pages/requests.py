"""The request for an operation and the one for its successor, ready to copy, for curl and for Python."""

import json
import re
import shlex
from http import HTTPMethod
from typing import NamedTuple
from urllib.parse import quote, urlencode, urljoin

from flask_notifications.operations import ACCOUNT, PARAMETER, Operation
from flask_notifications.plans import is_notification_operation

from .rendering import is_link

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9]+")
# What is left as it is: percent signs, and what a URI may hold (RFC 3986 section 2). Curl would expand brackets.
_URI_CHARACTERS = "%:/?#@!$&'()*+,;=-._~"

# What each example has where your own value belongs.
SESSION_ID = "SESSION_ID"

# A backslash at the end of a line, and what the next one begins with.
_CONTINUE = " \\\n  "

_PYTHON = """\
import requests

response = requests.{call}(
    {arguments}
)
response.raise_for_status()"""


class Request(NamedTuple):
    """One request: a method, a URL, and the session ID in the query, in a header or nowhere (``None``)."""

    method: str
    url: str
    session: str | None

    def in_curl(self, *options: str) -> str:
        """Return a command for a POSIX shell, with more options of curl."""
        method = {"GET": [], "HEAD": ["--head"]}.get(self.method, ["-X", self.method])
        header = ["-H", f"Authorization: Bearer {SESSION_ID}"] if self.session == "header" else []
        command = shlex.join(["curl", *options, *method, *header])
        return f"{command}{_CONTINUE if header else ' '}{shlex.quote(self._url_with_session())}"

    def in_python(self) -> str:
        """Return a program that uses the library requests."""
        has_function = self.method in HTTPMethod.__members__ and self.method not in {"CONNECT", "TRACE"}
        arguments = [*([] if has_function else [json.dumps(self.method)]), json.dumps(self.url)]
        if self.session == "header":
            arguments.append(f'headers={{"Authorization": "Bearer {SESSION_ID}"}}')
        elif self.session == "query":
            arguments.append(f'params={{"sessionId": "{SESSION_ID}"}}')
        lines = ",\n    ".join([*arguments, "timeout=30,"])
        return _PYTHON.format(call=self.method.lower() if has_function else "request", arguments=lines)

    def _url_with_session(self) -> str:
        return f"{self.url}?{urlencode({'sessionId': SESSION_ID})}" if self.session == "query" else self.url


class Move(NamedTuple):
    """What a caller changes: the request before and, where there is a successor at a URL, the one after."""

    before: Request
    after: Request | None
    placeholders: tuple[str, ...]


def describe_move(operation: Operation, base_url: str) -> Move:
    """Return the requests of an operation and its successor, with names in capitals for the values of parameters."""
    has_session = operation.unify_session
    before = Request(operation.method, base_url + _fill_in(operation.path), "query" if has_session else None)
    names = [_placeholder(name) for name in PARAMETER.findall(operation.path)]
    placeholders = (*names, *([SESSION_ID] if has_session else []))
    target = operation.successor
    if target is None or not is_link(PARAMETER.sub("", target) or "/"):
        return Move(before, None, placeholders)
    method = operation.method
    if operation.name == ACCOUNT and is_notification_operation(operation) and target.endswith("/Account"):
        method, target = "GET", f"{target}?accountId={{{PARAMETER.findall(operation.path)[0]}}}"
    after = Request(method, _resolve(_fill_in(target), base_url, before.url), "header" if has_session else None)
    return Move(before, after, placeholders)


def _fill_in(template: str) -> str:
    """Return a template with names in capitals in place of its parameters."""
    return quote(PARAMETER.sub(lambda match: _placeholder(match[1]), template), safe=_URI_CHARACTERS)


def _placeholder(parameter: str) -> str:
    return _NOT_IN_A_NAME.sub("_", parameter).strip("_").upper() or "VALUE"


def _resolve(target: str, base_url: str, retired: str) -> str:
    """Return the absolute URL of a successor, given the URL of the retired operation."""
    return urljoin(retired, resolve_below(target, base_url))


def resolve_below(uri: str, base_url: str) -> str:
    """Return a URI reference with the base URL before it, if it begins with a single slash."""
    return f"{base_url}{uri}" if uri.startswith("/") and not uri.startswith("//") else uri
