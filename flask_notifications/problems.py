"""Turn an error into its response: status, code, title and body (RFC 9457).

A response depends on the error alone, so this module knows no framework, no traceback
and no request.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import ceil
from types import MappingProxyType

from .responses import VARY, PlainResponse, build_response, reason_phrase
from .sessions.credential import SessionRefused
from .validation import is_number, make_plain, require
from .wording import iso

# Extension members of a body (RFC 9457 section 3.2). Members that are ``None`` are left
# out.
Members = Mapping[str, str | datetime | None]

# RFC 6750 section 3: the characters of a quoted attribute of a challenge.
_QUOTABLE = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]*")

# The status of each code, and the detail for the client.
_PROBLEMS = {
    "session_missing": (
        401,
        "The request carries no session; send it as Authorization: Bearer.",
    ),
    "session_invalid": (401, "The session is unknown or has ended; log on again."),
    "invalid_account_id": (
        400,
        (
            "The account ID is missing, not UTF-8, longer than 512 characters "
            "or has a control character."
        ),
    ),
    "access_denied": (403, "The session may not see this account."),
    "account_not_found": (404, "There is no such account."),
    "storage_unavailable": (
        503,
        "The notifications are out of reach at the moment; try again later.",
    ),
    "storage_error": (500, "The notifications could not be read."),
    "unserialisable_record": (
        500,
        "A notification could not be expressed as a JSON object.",
    ),
    "spool_unavailable": (
        503,
        "The response could not be stored before it was sent; try again later.",
    ),
    "brownout": (
        410,
        "This operation is obsolete, and it is switched off for a limited time.",
    ),
    "sunset": (410, "This operation has been retired and switched off."),
    "not_found": (404, "There is no such operation."),
    "method_not_allowed": (405, "The operation does not support this method."),
}
# The codes of closed operations, whose responses do not depend on the session.
_CLOSED = frozenset({"brownout", "sunset"})
# The error code in the challenge (RFC 6750 section 3.1), or "" for a challenge without
# one.
_CHALLENGES = {"session_missing": "", "session_invalid": "invalid_token"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """Replace the status codes of four errors.

    Old clients may depend on other numbers, such as 440 and 410.

    :param session_missing: from 400 to 599, by default 401.
    :param session_invalid: from 400 to 599, by default 401.
    :param access_denied: from 400 to 599, by default 403.
    :param account_not_found: from 400 to 599, by default 404.
    :raises ValueError: a number is out of range; the message names the attribute.
    """

    session_missing: int = 401
    session_invalid: int = 401
    access_denied: int = 403
    account_not_found: int = 404

    def __post_init__(self) -> None:
        for name in self.__slots__:
            status = getattr(self, name)
            require(
                is_number(status, 400, 599, is_whole=True),
                name,
                "a status code from 400 to 599",
                status,
            )
            object.__setattr__(self, name, int(status))  # may be an HTTPStatus


class Problems:
    """Build the response to each error: a JSON object, ``application/problem+json``.

    :param statuses: the status codes that you have replaced.
    :param realm: the realm of challenges (RFC 9110 section 11.5).
    """

    __slots__ = ("_bearer", "_statuses")

    def __init__(self, *, statuses: Statuses, realm: str) -> None:
        require(isinstance(statuses, Statuses), "statuses", "a Statuses", statuses)
        require(
            isinstance(realm, str) and _QUOTABLE.fullmatch(realm),
            "realm",
            'printable ASCII without " and \\',
            realm,
        )
        self._bearer = f'Bearer realm="{make_plain(realm)}"'
        self._statuses = {
            code: getattr(statuses, code, status)
            for code, (status, _detail) in _PROBLEMS.items()
        }

    def respond(
        self,
        code: str,
        *,
        extra: Sequence[tuple[str, str]] = (),
        members: Members = MappingProxyType({}),
    ) -> PlainResponse:
        """Return the response to an error.

        :param code: the code of the problem.
        :param extra: further headers.
        :param members: extension members of the body.
        """
        headers = []
        if code not in _CLOSED:
            headers.append(VARY)
        if code in _CHALLENGES:
            headers.append(self._challenge(_CHALLENGES[code]))
        headers.extend(extra)
        _status, detail = _PROBLEMS[code]
        return _problem(self._statuses[code], code, detail, headers, members)

    def refuse(self, refused: SessionRefused) -> PlainResponse:
        """Return the response to a request whose session was refused."""
        return _problem(
            refused.status,
            refused.code,
            refused.detail,
            [VARY, self._challenge(refused.code)],
            {},
        )

    def _challenge(self, error: str) -> tuple[str, str]:
        """Return the challenge (RFC 6750 section 3), with the error code if any."""
        challenge = self._bearer
        if error:
            challenge = f'{challenge}, error="{error}"'
        return "WWW-Authenticate", challenge


def retry_after(seconds: float) -> tuple[str, str]:
    """Return the ``Retry-After`` header (RFC 9110 section 10.2.3)."""
    return "Retry-After", str(ceil(seconds))


def _problem(
    status: int, code: str, detail: str, extra: list[tuple[str, str]], members: Members
) -> PlainResponse:
    body = _encode(status, code, detail, tuple(members.items()))
    return build_response(
        f"{status} {reason_phrase(status)}",
        "application/problem+json",
        body,
        len(body),
        extra,
    )


# Cached, because all requests for a closed operation get the same body, and encoding it
# is half of the work of a 410.
@lru_cache(maxsize=64)
def _encode(
    status: int,
    code: str,
    detail: str,
    members: tuple[tuple[str, str | datetime | None], ...],
) -> bytes:
    document = {
        "type": "about:blank",
        "title": reason_phrase(status),
        "status": status,
        "detail": detail,
        "code": code,
    }
    document |= {name: value for name, value in members if value is not None}
    return json.dumps(document, default=iso).encode("ascii")
