"""The settings of gunicorn for the example, with a reason for each."""

import logging
import os
import socket
import sys
from typing import Any

from example_app import create_app
from example_app.database import SESSIONS
from flask_notifications import SessionLogFilter

_host = os.environ.get("HOST") or "127.0.0.1"
if ":" in _host:  # IPv6
    _host = f"[{_host}]"
bind = f"{_host}:{os.environ.get('PORT') or '8000'}"

# The address in the examples of the migration guide.
if "EXAMPLE_BASE_URL" not in os.environ:
    raw_env = [f"EXAMPLE_BASE_URL=http://{bind}"]

# Threads: a request waits for the database most of its time. A sync worker would also
# be killed by ``timeout`` while a slow client takes a large response.
worker_class = "gthread"
# Two processes, so that one can be replaced while the other responds.
workers = 2
# No more concurrent requests than the connection pool has connections: five, and ten
# more when it is busy.
threads = 8
# Seconds without a sign of life before a worker is replaced. Statements end after
# fifteen on PostgreSQL.
timeout = 30
# Seconds for requests under way when the server stops.
graceful_timeout = 30
# Workers are renewed now and then, at different times, so that nothing can pile up in
# one.
max_requests = 10_000
max_requests_jitter = 1_000

# Not preloaded: each worker creates the application after the fork, and with it a
# connection pool of its own.
preload_app = False

# No control socket in the home directory, because an example needs none.
control_socket_disable = True

# The access log on standard output. Its request line comes from the environ, where the
# session ID is masked already; the filter covers what gunicorn logs from its own copy
# of a request that matches no operation, or that crashes.
accesslog = "-"
for _logger in ("gunicorn.access", "gunicorn.error"):
    logging.getLogger(_logger).addFilter(SessionLogFilter())


def on_starting(server: Any) -> None:
    """Create the database once, before the workers could do it at the same time."""
    for address in server.address:
        if isinstance(address, tuple):  # and not the path of a socket
            _check_is_free(*address[:2])
    create_app()


def _check_is_free(host: str, port: int) -> None:
    """Say what to do if another program listens; gunicorn would try for five seconds."""
    if "GUNICORN_FD" in os.environ:  # this gunicorn replaces the one that listens
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        sys.exit(
            f"{host} port {port} cannot be used ({error.strerror}). "
            f"Choose another port: make run PORT={port + 1}"
        )


def when_ready(_server: Any) -> None:
    """Print some commands to try."""
    alice, account = SESSIONS["alice"], "acc00000-0000-4000-8000-00000000000a"
    administrator = SESSIONS["admin"]
    print(  # noqa: T201
        f"Try, in another terminal:\n\n"
        f"curl -i 'http://{bind}/API/Notification/?sessionId={alice}'\n"
        f"curl -i -H 'Authorization: Bearer {alice}' http://{bind}/api/notification\n"
        f"curl -i -X POST 'http://{bind}/API/Notification/GetNotificationsForAccount/{account}/?sessionId={alice}'\n"
        f"curl -i -H 'Authorization: Bearer {alice}' http://{bind}/API/Notification/CurrentUser\n"
        f"curl -i http://{bind}/docs/retirement\n"
        f"curl -i -H 'Authorization: Bearer {administrator}' 'http://{bind}/usage?days=90'\n",
        flush=True,
    )
