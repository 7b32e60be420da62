"""Servers that send exactly what a test sets: wrong headers, redirects, half a
response, or nothing.
"""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Queue
from socket import socket
from socketserver import BaseRequestHandler, BaseServer, TCPServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.datastructures import EnvironHeaders
from werkzeug.serving import make_server

from flask_notifications.responses import reason_phrase

Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class Canned:
    """A response: its status, its headers, and its body.

    With the status 0 the connection is closed without one.
    """

    status: int = 200
    headers: Headers = field(default_factory=list)
    body: bytes = b""


@dataclass
class CannedServer:
    """An application with one response for each method and path, and 404 for others; it
    records the requests.
    """

    url: str = ""
    responses: dict[tuple[str, str], Canned] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    received: list[dict[str, str]] = field(default_factory=list)
    bodies: "Queue[bytes]" = field(default_factory=Queue)

    def respond(
        self,
        path: str,
        response: Canned,
        *,
        method: str = "GET",
        head: Canned | None = None,
    ) -> str:
        """Set the response of a path, for ``HEAD`` too, and return the URL."""
        self.responses[method, path] = response
        self.responses["HEAD", path] = head or response
        return f"{self.url}{path}"

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> list[bytes]:
        request = environ["REQUEST_METHOD"], environ["REQUEST_URI"]
        self.requests.append(request)
        self.received.append(
            {name.lower(): value for name, value in EnvironHeaders(environ)}
        )
        if length := environ.get("CONTENT_LENGTH"):
            self.bodies.put(environ["wsgi.input"].read(int(length)))
        canned = self.responses.get(request, Canned(404))
        if canned.status == 0:
            raise ConnectionError
        headers = [*canned.headers, ("Content-Length", str(len(canned.body)))]
        start_response(f"{canned.status} {reason_phrase(canned.status)}", headers)
        return [] if request[0] == "HEAD" else [canned.body]


@contextmanager
def canned_server(
    context: ssl.SSLContext | None = None, name: str = "127.0.0.1"
) -> Iterator[CannedServer]:
    """Run a server on a free port, over TLS if there is a context, and yield it;
    ``name`` is the host of its URL.
    """
    canned = CannedServer()
    with serving(canned, context, name) as canned.url:
        yield canned


@contextmanager
def serving(
    application: WSGIApplication,
    context: ssl.SSLContext | None = None,
    name: str = "127.0.0.1",
) -> Iterator[str]:
    """Serve an application on a free port, over TLS if there is a context, and yield
    its URL.
    """
    server = make_server(
        "127.0.0.1", 0, application, threaded=True, ssl_context=context
    )
    with _running(server):
        yield f"{'http' if context is None else 'https'}://{name}:{server.server_port}"


@contextmanager
def raw_server(respond: Callable[[socket, threading.Event], None]) -> Iterator[str]:
    """Run a server that passes each connection to a function, and yield its URL; the
    event is set at the end.
    """
    over = threading.Event()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            respond(self.request, over)

    server = TCPServer(("127.0.0.1", 0), Handler)
    with _running(server):
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/old"
        finally:
            over.set()


@contextmanager
def _running(server: BaseServer) -> Iterator[None]:
    with server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def send_nothing(_connection: socket, over: threading.Event) -> None:
    """Send nothing, and keep the connection open."""
    over.wait(60)


def drip(connection: socket, over: threading.Event) -> None:
    """Send a header without end, byte by byte, so that no single read takes long."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not over.wait(0.05):
        connection.sendall(b"x")


def send(data: bytes) -> Callable[[socket, threading.Event], None]:
    """Return a function that sends some bytes and closes the connection."""
    return lambda connection, _over: connection.sendall(data)
