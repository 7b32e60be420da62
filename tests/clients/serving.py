"""The host on a real server, as its clients reach it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import Server, gunicorn, running

APPLICATION = "tests.clients.host:application"

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount/alice/"

# What the host's policy comes down to.
DEPRECATION = "@1767225600"
SUNSET = "Thu, 01 Jul 2027 00:00:00 GMT"
DOCUMENTATION = "https://api.example.com/docs/retirement"
POLICY = "https://example.com/policy"
# By the method, which is enough to tell the two operations apart.
SUCCESSORS = {
    "GET": "https://api.example.com/API/Notification/CurrentUser",
    "HEAD": "https://api.example.com/API/Notification/CurrentUser",
    "POST": "https://api.example.com/API/Notification/Account",
}


@dataclass(frozen=True)
class Site:
    """The host's address, and what its server has seen."""

    server: Server

    def url(self, target: str) -> str:
        return f"http://127.0.0.1:{self.server.port}{target}"

    def seen(self, marker: str) -> list[str]:
        """Return the lines of the access log about requests whose target holds ``marker``."""
        # The one thread logs a request before it takes the next one.
        self.server.ask("GET", "/news")
        return [line for line in self.server.written().splitlines() if marker in line and " HTTP/1.1" in line]


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    """Run gunicorn until it is no longer needed; browsers hold connections open that would keep a sync worker busy."""
    *options, _application = gunicorn("gthread").command(folder)
    with running([*options, "--threads=1", APPLICATION], folder) as server:
        yield Site(server)
