"""From a fault to the answer that tells of it: status, code, title and body (RFC 9457).

Knows no framework, no traceback, no request: what an answer says depends on the fault alone.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from .fields import expect
from .replies import Reply, compose, phrase
from .sessions import SessionRefused

# RFC 6750 section 3: what a quoted attribute of a challenge may hold.
_CHALLENGE_TEXT = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]*")

# Code, status, and what is told to the client.
_FAULTS = {
    "session_missing": (401, "The request carries no session; send it as Authorization: Bearer."),
    "session_invalid": (401, "The session is unknown or has ended; log on again."),
    "invalid_account_id": (
        400,
        "The account ID is missing, not UTF-8, longer than 512 characters or has a control character.",
    ),
    "access_denied": (403, "The session may not see this account."),
    "account_not_found": (404, "There is no such account."),
    "storage_unavailable": (503, "The notifications are out of reach at the moment; try again later."),
    "storage_error": (500, "The notifications could not be read."),
    "unserialisable_record": (500, "A notification could not be expressed as a JSON object."),
    "spool_unavailable": (503, "The answer could not be stored before it was sent; try again later."),
    "brownout": (410, "This operation is obsolete and switched off for a limited time; move to its successor."),
    "sunset": (410, "This operation has been retired; use its successor."),
    "not_found": (404, "There is no such operation."),
    "method_not_allowed": (405, "The operation does not answer to this method."),
}
# The error codes of RFC 6750 section 3.1; with the empty one, the challenge stands without a code.
_CHALLENGES = {"session_missing": "", "session_invalid": "invalid_token"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """Replace the status codes of four answers, for old clients that know other numbers (440 and 410, say).

    Each is a whole number from 400 to 599; anything else raises ``ValueError`` naming the attribute.
    """

    session_missing: int = 401
    session_invalid: int = 401
    access_denied: int = 403
    account_not_found: int = 404

    def __post_init__(self) -> None:
        for name in self.__slots__:
            status = getattr(self, name)
            expect(type(status) is int and 400 <= status <= 599, name, "a status code from 400 to 599", status)


def status_codes(statuses: Statuses) -> dict[str, int]:
    """Return the status code of every fault, by the fault's own code."""
    return {code: getattr(statuses, code, status) for code, (status, _detail) in _FAULTS.items()}


class Problems:
    """Answer each fault with one JSON object, ``application/problem+json``.

    Raises ``ValueError`` when ``realm`` is outside of the character set of RFC 6750 section 3.
    """

    __slots__ = ("_bearer", "_ready", "_statuses")

    def __init__(self, *, statuses: Statuses, realm: str) -> None:
        expect(isinstance(statuses, Statuses), "statuses", "a Statuses", statuses)
        expect(
            isinstance(realm, str) and _CHALLENGE_TEXT.fullmatch(realm),
            "realm",
            'printable ASCII without " and \\',
            realm,
        )
        self._bearer = f'Bearer realm="{realm}"'
        self._statuses = status_codes(statuses)
        # What needs nothing of the request but its fault.
        self._ready = {code: self._compose(code, (), None) for code in _FAULTS}

    def reply(self, code: str, *, extra: Sequence[tuple[str, str]] = (), successor: str | None = None) -> Reply:
        """Return the answer to the fault named by ``code``, with ``extra`` fields, and a successor if there is one."""
        return self._compose(code, extra, successor) if extra or successor is not None else self._ready[code]

    def _compose(self, code: str, extra: Iterable[tuple[str, str]], successor: str | None) -> Reply:
        detail = _FAULTS[code][1]
        challenge = [self._challenge(_CHALLENGES[code])] if code in _CHALLENGES else []
        return _problem(self._statuses[code], code, detail, [*challenge, *extra], successor)

    def refusal(self, refused: SessionRefused) -> Reply:
        """Return the answer to a session that was refused."""
        return _problem(refused.status, refused.code, refused.detail, [self._challenge(refused.code)])

    def _challenge(self, error: str) -> tuple[str, str]:
        """Return the challenge of RFC 6750 section 3; a request without a session gets it without an error code."""
        return "WWW-Authenticate", f'{self._bearer}, error="{error}"' if error else self._bearer


def retry_after(seconds: float) -> tuple[str, str]:
    """Return the ``Retry-After`` field (RFC 9110 section 10.2.3): whole seconds, rounded up."""
    return "Retry-After", str(ceil(seconds))


def _problem(status: int, code: str, detail: str, extra: list[tuple[str, str]], successor: str | None = None) -> Reply:
    document = {"type": "about:blank", "title": phrase(status), "status": status, "detail": detail, "code": code}
    if successor is not None:
        document["successor"] = successor
    body = json.dumps(document).encode("ascii")
    return compose(status, "application/problem+json", body, len(body), extra)
