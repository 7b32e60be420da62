"""Send requests to a live URL within a time limit.

Credentials are sent only to the origin of the URL, and never shown. The standard
library is enough, because ``urllib.request`` keeps repeated headers apart and supports
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

# The usage report knows this client as a probe: its calls prove that calls are
# recorded, and do not count as use.
USER_AGENT = "flask-notifications-check"

# The seconds that one request may take, and all requests of a check together.
TIME_LIMIT, TOTAL_LIMIT = 10.0, 60.0
_MAX_REDIRECTS = 5
# The longest target of a redirect that is followed, in characters: every recipient
# should accept so many (RFC 9110 section 4.1).
_MAX_TARGET = 8_000
# The bytes of a body that are read.
_MAX_BODY = 65_536
# The least characters of a header's value, or of a word in it, that is masked.
_SECRET_LENGTH = 4
# Headers that contain no credentials. Masking their values, such as "json", would make
# messages unreadable.
_PUBLIC = (
    "accept",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "cache-control",
    "content-type",
    "host",
    "origin",
    "pragma",
    "user-agent",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-requested-with",
)

# The separators that join repeated headers, where that is not a comma.
_SEPARATORS = {"Cookie": "; ", "User-Agent": " "}


class Unreachable(Exception):
    """A URL does not respond; the message says why."""


class OutOfTime(Unreachable):
    """A URL was not called, because the time for all calls is over."""


class LiveResponse(NamedTuple):
    """A response as it was received: header lines in their order, and not joined.

    ``code`` is the member of that name in the body of a 410, as this library sends it
    (RFC 9457 section 3.2), and ``None`` for any other response.
    """

    url: str
    status: int
    headers: HeaderList
    code: Any = None

    def values(self, name: str) -> list[str]:
        """Return the values of the header lines with this name, in any letter case."""
        return values_of(self.headers, name.lower())


class Fetcher:
    """Send requests, with your headers only to the origin of a URL.

    The time for all requests begins when this object is made.

    :param url: the URL whose origin gets the headers.
    :param headers: names and values, by default none. A ``User-Agent`` is sent after
        our own product.
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
        # Returns why the target of a link is dead, or None. Cached, so that a target
        # of many links is called once.
        self.find_problem: Callable[[str], str | None] = cache(self._find_problem)

    def fetch(self, method: str, url: str) -> LiveResponse:
        """Send a request without a body, and return the response, whatever its status.

        Redirects are not followed.

        :raises OutOfTime: the time for all requests is over.
        :raises Unreachable: no response arrived in time, or it is not HTTP.
        """
        self._check_time()
        headers = self._headers
        if _origin_of(url) != self._home:
            headers = {"User-Agent": headers["User-Agent"]}
        request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - http and https only
        received: list[LiveResponse | Exception] = []
        thread = Thread(target=self._send, args=(request, received), daemon=True)
        thread.start()
        # In a thread, because the timeout of a socket starts anew with each byte.
        seconds = max(0.0, min(TIME_LIMIT, self._end - monotonic()))
        thread.join(seconds)
        if not received:
            received.append(TimeoutError(f"no response within {seconds:g} seconds"))
        outcome = received[-1]  # of a 410, the one with its code
        if isinstance(outcome, Exception):
            self._check_time()  # a request that ended with the total time was cut off
            raise Unreachable(_reason_of(outcome)) from outcome
        return outcome

    def _check_time(self) -> None:
        if monotonic() >= self._end:
            message = f"the check had taken {TOTAL_LIMIT:g} seconds"
            raise OutOfTime(message)

    def follow(self, method: str, url: str) -> LiveResponse:
        """Send a request, and follow redirects that announce nothing themselves.

        A redirect is not followed if it would change the method, or if its target does
        not respond.
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
        """Mask the credentials in our headers, and session IDs in queries."""
        return redact_uri(self._secrets.sub(MASK, text))

    def _send(
        self, request: urllib.request.Request, outcomes: list[LiveResponse | Exception]
    ) -> None:
        """Append the response or the exception to a list.

        Of a 410, append the response before its body is read, and once more with the
        code. If the body never ends, the first one counts.
        """
        try:
            with self._opener.open(request, timeout=TIME_LIMIT) as received:
                # RFC 9110 section 5.5: white space around a value is not part of it.
                headers = [
                    (name, value.strip(" \t"))
                    for name, value in received.headers.items()
                ]
                response = LiveResponse(request.full_url, received.status, headers)
                outcomes.append(response)
                if response.status == HTTPStatus.GONE:
                    outcomes.append(
                        response._replace(
                            code=json.loads(received.read(_MAX_BODY)).get("code")
                        )
                    )
        except Exception as error:  # noqa: BLE001 - the server decides how the standard library fails
            if not outcomes:
                outcomes.append(error)


class _AsReceived(urllib.request.HTTPErrorProcessor):
    """Return every response, without following redirects or raising errors."""

    def http_response(
        self,
        request: urllib.request.Request,  # noqa: ARG002
        response: HTTPResponse,
    ) -> Any:
        return response

    https_response = http_response


def _redirect_target(method: str, response: LiveResponse) -> str | None:
    # RFC 9110 section 15.4: after 301, 302 and 303, clients may change the method of
    # requests other than GET and HEAD.
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
    """Join repeated headers (RFC 9110 section 5.3); urllib would keep only the last."""
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.title()
        if key in joined:
            joined[key] += _SEPARATORS.get(key, ", ") + value
        else:
            joined[key] = value
    return joined


def _pattern_of(values: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern of all secrets: header values and the words in them.

    Messages show them as they are, percent-encoded, or as ``repr`` does.
    """
    spellings = set()
    for value in values:
        for word in (value, *re.split(r'[\s,;=<>"]+', value)):
            if len(word) >= _SECRET_LENGTH:
                # The double quote makes repr() escape a single quote.
                shown = repr(f'"{word}')[2:-1]
                spellings |= {word, quote(word, safe=""), shown}
    longest_first = sorted(spellings, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)", re.IGNORECASE)


def _reason_of(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, OSError) and reason.strerror is not None:
        return reason.strerror
    if type(reason) is BadStatusLine:  # not its subclass for a closed connection
        return f"the response is not HTTP: {str(reason).strip()!r}"
    return str(reason).strip() or type(reason).__name__
