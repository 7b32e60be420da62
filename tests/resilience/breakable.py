"""A service that tests can break: a server, its database, and the network between them."""

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from tests.resilience.database_app import APPLICATION, session_of
from tests.resilience.postgresql import Cluster
from tests.resilience.proxy import RESET, Failure, Proxy
from tests.servers.process import Program, Server, eventually, serving
from tests.wsgi import Response

# No log may contain a session ID, a statement, a stored value, or a traceback through
# the library.
FORBIDDEN = re.compile(
    r"5e55-4000|SELECT|FROM notifications|tttt"
    r"|Traceback \(most recent call last\):\n(?:\s.*\n)*?\s.*flask_notifications/"
)


def find_leaks(log: str) -> list[str]:
    """Return the forbidden parts of a log."""
    return [match[0] for match in FORBIDDEN.finditer(log)]


@dataclass(frozen=True)
class Service:
    """A server, its database, and the network between them."""

    server: Server
    proxy: Proxy
    cluster: Cluster

    def ask(self, login: str) -> Response:
        """Request the notifications of a user."""
        return self.server.ask(
            "GET", f"/API/Notification/?sessionId={session_of(login)}"
        )

    @contextmanager
    def asking(self, login: str) -> "Iterator[Future[Response]]":
        """Request the notifications of a user in the background, and yield the future
        response.
        """
        with ThreadPoolExecutor() as client:
            yield client.submit(self.ask, login)

    @contextmanager
    def reading(self, login: str = "large") -> "Iterator[Future[Response]]":
        """Request many notifications, and yield when the database has sent some of the
        rows but not all.
        """
        passed = self.proxy.passed
        with self.asking(login) as response, self.proxy.failing(Failure(rate=100_000)):
            eventually(lambda: self.proxy.passed > passed + 50_000)
            yield response

    @contextmanager
    def new_connections(self, failure: Failure) -> Iterator[None]:
        """Make each request open a new connection, which suffers the failure."""
        self.proxy.fail(RESET)
        with self.proxy.failing(failure):
            yield

    @contextmanager
    def no_connection_left(self) -> Iterator[None]:
        self.cluster.terminate()
        with ExitStack() as others:
            with suppress(psycopg.OperationalError):
                while True:
                    others.enter_context(self.cluster.connect("shop"))
            yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self.cluster.connect() as admin, admin.transaction():
            admin.execute("LOCK TABLE notifications")
            yield


def application_on(
    url: str, program: Program, folder: Path
) -> AbstractContextManager[Server]:
    """Run the application with a database, yield its server, and stop it on exit."""
    return serving(
        replace(program, application=APPLICATION), folder, "env", f"DATABASE_URL={url}"
    )
