"""Send requests to a live URL with a limit of time, and keep credentials to its own
origin and out of messages.

Standard library only: ``urllib.request`` keeps repeated headers apart and knows
proxies.
"""

import json
import re
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from http.client import BadStatusLine, HTTPResponse
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.parse import quote, urljoin, urlsplit

from flask_notifications.headers import HeaderList, values_of
from flask_notifications.sessions.redaction import MASK, redact_uri

from .links import is_splittable

# The probe of the usage report: calls of this client prove that calls are recorded,
# and do not count as use.
USER_AGENT = "flask-notifications-check"

# Seconds until a response must have arrived, and until the last of all must.
TIME_LIMIT, TOTAL_LIMIT = 10.0, 60.0
_MAX_REDIRECTS = 5
# Characters that every recipient should accept (RFC 9110 section 4.1). A longer target
# is not followed.
_MAX_TARGET = 8_000
# Bytes: more of a body than this is not read.
_MAX_BODY = 65_536
# Characters: shorter values, and shorter words of a value, are not secret.
_SECRET_LENGTH = 4
# Headers without credentials: masking their values in a URL would make messages
# unreadable.
_PUBLIC = (
    *(
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "content-type",
        "host",
        "origin",
        "pragma",
    ),
    *("access-control-request-headers", "access-control-request-method", "user-agent"),
    *("x-forwarded-host", "x-forwarded-proto", "x-requested-with"),
)


# Between the values of a repeated header, where that is not a comma.
_SEPARATORS = {"Cookie": "; ", "User-Agent": " "}


class Unreachable(Exception):
    """A URL has no response; the message says why."""


class OutOfTime(Unreachable):
    """A URL was not called, because all calls together may take no longer."""


class LiveResponse(NamedTuple):
    """A response as it was received; header lines are in their order, and repeated ones
    apart.

    ``code`` is that of a 410 of this library (RFC 9457 section 3.2), and ``None`` for
    any other response.
    """

    url: str
    status: int
    headers: HeaderList
    code: Any = None

    def values(self, name: str) -> list[str]:
        """Return the values of the header lines with this name, in any letter case."""
        return values_of(self.headers, name.lower())


class Fetcher:
    """Send requests with the headers of the caller to the origin of a URL, and without
    them to all others.

    A ``User-Agent`` among the headers is sent after our own product. The time for all
    requests begins now.
    """

    def __init__(self, url: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.headers = headers
        self._home = _origin_of(url)
        self._end = monotonic() + TOTAL_LIMIT
        self._headers = _join_repeated([("User-Agent", USER_AGENT), *headers])
        self._opener = urllib.request.build_opener(_AsReceived)
        self._secrets = _pattern_of(
            [value for name, value in headers if name.lower() not in _PUBLIC]
        )
        # Why the target of a link does not respond; each is called once.
        self.find_problem: Callable[[str], str | None] = cache(self._find_problem)

    def fetch(self, method: str, url: str) -> LiveResponse:
        """Send a request without a body and return the response, whatever its status;
        redirects are not followed.

        :raises OutOfTime: the time for all requests is over.
        :raises Unreachable: no response arrived within the limit of time, or what
            arrived is not HTTP.
        """
        self._check_time()
        headers = self._headers
        if _origin_of(url) != self._home:
            headers = {"User-Agent": headers["User-Agent"]}
        request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - http and https only
        received: list[LiveResponse | Exception] = []
        thread = Thread(target=self._send, args=(request, received), daemon=True)
        thread.start()
        # Not by the timeouts of sockets alone, which start anew with each byte.
        seconds = max(0.0, min(TIME_LIMIT, self._end - monotonic()))
        thread.join(seconds)
        if not received:
            received.append(TimeoutError(f"no response within {seconds:g} seconds"))
        outcome = received[-1]
        if isinstance(outcome, Exception):
            self._check_time()
            raise Unreachable(_reason_of(outcome)) from outcome
        return outcome

    def _check_time(self) -> None:
        if monotonic() >= self._end:
            message = f"the check had taken {TOTAL_LIMIT:g} seconds"
            raise OutOfTime(message)

    def follow(self, method: str, url: str) -> LiveResponse:
        """Send a request, and follow redirects as long as they announce nothing
        themselves.

        A redirect that would change the method, or whose target has no response, is not
        followed.
        """
        response = self.fetch(method, url)
        with suppress(Unreachable):
            for _count in range(_MAX_REDIRECTS):
                target = _redirect_target(method, response)
                if target is None:
                    break
                response = self.fetch(method, target)
        return response

    def _find_problem(self, target: str) -> str | None:
        try:
            status = self.fetch("GET", target).status
        except OutOfTime:
            raise
        except Unreachable as error:
            return str(error)
        return (
            f"its status is {status}" if status in {404, 410} or status >= 500 else None
        )

    def mask(self, text: str) -> str:
        """Return a string without the credentials in our headers, and without session
        IDs of a query.
        """
        return redact_uri(self._secrets.sub(MASK, text))

    def _send(
        self, request: urllib.request.Request, found: list[LiveResponse | Exception]
    ) -> None:
        """Append the response and, if it is a 410 with a code, the same with that; or
        else the exception.
        """
        try:
            with self._opener.open(request, timeout=TIME_LIMIT) as received:
                # RFC 9110 section 5.5: white space around a value is not part of it.
                headers = [
                    (name, value.strip(" \t"))
                    for name, value in received.headers.items()
                ]
                response = LiveResponse(request.full_url, received.status, headers)
                found.append(response)
                if response.status == HTTPStatus.GONE:
                    found.append(
                        response._replace(
                            code=json.loads(received.read(_MAX_BODY)).get("code")
                        )
                    )
        except Exception as error:  # noqa: BLE001 - the server decides how the standard library fails
            if not found:
                found.append(error)


class _AsReceived(urllib.request.HTTPErrorProcessor):
    """Return every response as it is: redirects are not followed, and errors are not
    raised.
    """

    def http_response(
        self,
        request: urllib.request.Request,  # noqa: ARG002
        response: HTTPResponse,
    ) -> Any:
        return response

    https_response = http_response


def _redirect_target(method: str, response: LiveResponse) -> str | None:
    # RFC 9110 section 15.4: clients may change other methods than these after 301, 302
    # and 303.
    statuses = {301, 302, 303, 307, 308} if method in {"GET", "HEAD"} else {307, 308}
    locations = response.values("Location")
    if response.status not in statuses or response.values("Deprecation"):
        return None
    if (
        len(locations) != 1
        or len(locations[0]) > _MAX_TARGET
        or not is_splittable(locations[0])
    ):
        return None
    target = urljoin(response.url, locations[0])
    return target if urlsplit(target).scheme in {"http", "https"} else None


def _origin_of(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return (
        parts.scheme,
        parts.hostname,
        parts.port or {"http": 80, "https": 443}.get(parts.scheme),
    )


def _join_repeated(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return headers with repeated ones joined, because urllib keeps only the last (RFC
    9110 section 5.3).
    """
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.title()
        if key in joined:
            joined[key] += _SEPARATORS.get(key, ", ") + value
        else:
            joined[key] = value
    return joined


def _pattern_of(values: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern of header values and their words, as they are, percent-encoded,
    or as ``repr`` shows them.
    """
    spellings = set()
    for value in values:
        for word in (value, *re.split(r'[\s,;=<>"]+', value)):
            if len(word) >= _SECRET_LENGTH:
                shown = repr(f'"{word}')[2:-1]  # with an escape before a single quote
                spellings |= {word, quote(word, safe=""), shown}
    longest_first = sorted(spellings, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)", re.IGNORECASE)


def _reason_of(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, OSError) and reason.strerror is not None:
        return reason.strerror
    if type(reason) is BadStatusLine:  # and not that the connection was closed
        return f"the response is not HTTP: {str(reason).strip()!r}"
    return str(reason).strip() or type(reason).__name__
