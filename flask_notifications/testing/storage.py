"""A storage in memory."""

from collections.abc import Collection, Iterable, Mapping

from flask_notifications.serving.storage import AccessDenied, AccountNotFound, Record
from flask_notifications.validation import require


class MemoryStorage:
    """Hold sessions and notifications in memory, for tests and first tries.

    :param sessions: the account ID of each session's user, by session ID.
    :param notifications: the records of each account, by account ID. An account without
        records has an empty entry.
    :param administrators: the account IDs of the users who may see every account, by
        default none.
    :raises ValueError: ``administrators`` is a string.
    """

    def __init__(
        self,
        *,
        sessions: Mapping[str, str],
        notifications: Mapping[str, Iterable[Record]],
        administrators: Collection[str] = (),
    ) -> None:
        require(
            not isinstance(administrators, str),  # each letter would be an account ID
            "administrators",
            "a collection of account IDs",
            administrators,
        )
        self._sessions = dict(sessions)
        self._notifications = {
            account: tuple(records) for account, records in notifications.items()
        }
        self._administrators = frozenset(administrators)

    def resolve_session(self, session_id: str) -> str | None:
        """Return the account ID of a session's user, or ``None``."""
        return self._sessions.get(session_id)

    def current_user_notifications(self, caller: str) -> Iterable[Record]:
        """Return the records of the caller."""
        return self._notifications.get(caller, ())

    def account_notifications(self, caller: str, account_id: str) -> Iterable[Record]:
        """Return the records of an account, for its own user and for administrators."""
        if account_id != caller and caller not in self._administrators:
            raise AccessDenied
        if account_id not in self._notifications:
            raise AccountNotFound
        return self._notifications[account_id]
