"""A service that can be broken: a server, and the network and the database behind it."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest

from tests.faults.database_app import APPLICATION, session_of
from tests.faults.postgresql import Cluster
from tests.faults.proxy import RESET, Fault, Proxy
from tests.servers.process import Program, Server, eventually, serving
from tests.wsgi import Answer

DOCUMENTATION = '<https://example.com/retire>; rel="deprecation"; type="text/html"'


@dataclass(frozen=True)
class Service:
    """A server, and the network and the database behind it."""

    server: Server
    proxy: Proxy
    cluster: Cluster

    def ask(self, login: str) -> Answer:
        """Ask for the notifications of a user."""
        return self.server.ask("GET", target_of(login))

    @contextmanager
    def asking(self, login: str) -> "Iterator[Future[Answer]]":
        """Ask for the notifications of a user, while something else is done."""
        with ThreadPoolExecutor() as client:
            yield client.submit(self.ask, login)

    @contextmanager
    def reading(self, login: str = "large") -> "Iterator[Future[Answer]]":
        """Ask for many notifications, of which some have come from the database, and others not, for a while."""
        passed = self.proxy.passed
        with self.asking(login) as answer, self.proxy.failing(Fault(rate=100_000)):
            eventually(lambda: self.proxy.passed > passed + 50_000)
            yield answer

    @contextmanager
    def new_connections(self, fault: Fault) -> Iterator[None]:
        """Need a new connection for each request, which suffers a fault."""
        self.proxy.fault = RESET
        with self.proxy.failing(fault):
            yield


def target_of(login: str) -> str:
    return f"/API/Notification/?sessionId={session_of(login)}"


@contextmanager
def application_on(url: str, program: Program, folder: Path) -> Iterator[Server]:
    """Run the application on a database."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DATABASE_URL", url)
        with serving(replace(program, application=APPLICATION), folder) as server:
            yield server


@contextmanager
def no_connection_left(service: Service) -> Iterator[None]:
    service.cluster.terminate()
    with ExitStack() as others:
        with suppress(psycopg.OperationalError):
            while True:
                others.enter_context(service.cluster.connect("shop"))
        yield
