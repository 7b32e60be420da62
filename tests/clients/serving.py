"""Run the application on a real server for its clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import Server, gunicorn, running

APPLICATION = "tests.clients.application:application"

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount/alice/"

# The headers of the application's policy.
DEPRECATION = "@1767225600"
SUNSET = "Thu, 01 Jul 2027 00:00:00 GMT"
DOCUMENTATION = "https://api.example.com/docs/retirement"
POLICY = "https://example.com/policy"
# By the method, which distinguishes the two operations.
SUCCESSORS = {
    "GET": "https://api.example.com/API/Notification/CurrentUser",
    "HEAD": "https://api.example.com/API/Notification/CurrentUser",
    "POST": "https://api.example.com/API/Notification/Account",
}


@dataclass(frozen=True)
class Site:
    """The address of the application, and the log of its server."""

    server: Server

    def url(self, target: str) -> str:
        return f"http://127.0.0.1:{self.server.port}{target}"

    def seen(self, marker: str) -> list[str]:
        """Return the lines of the access log whose request target contains ``marker``."""
        # The only thread logs a request before it handles the next one.
        self.server.ask("GET", "/news")
        return [line for line in self.server.written().splitlines() if marker in line and " HTTP/1.1" in line]


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    """Run gunicorn with a thread, because the open connections of browsers would block a sync worker."""
    *options, _application = gunicorn("gthread").command(folder)
    with running([*options, "--threads=1", APPLICATION], folder) as server:
        yield Site(server)
