"""No spelling of a request reaches a closed view beside a live one, whatever a real
server makes of it.
"""

from datetime import UTC, datetime

import flask

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from tests.servers.process import Server, every_server, server_fixture

SUNSET = datetime(2026, 1, 1, tzinfo=UTC)
CLOSED = DeprecationPolicy(deprecated_at=SUNSET, sunset_at=SUNSET, enforce_sunset=True)
PLAN = {
    Operation("query", "*", "/query/**"): CLOSED,
    Operation("query 2", "*", "/query/**", query={"version": "2"}): None,
    Operation("header", "*", "/header/**"): CLOSED,
    Operation("header 2", "*", "/header/**", headers={"X-Version": "2"}): None,
    Operation("media", "*", "/media/**"): CLOSED,
    Operation("media 2", "*", "/media/**", headers={"Accept": "a/v2"}): None,
    Operation("path", "*", "/path/**"): CLOSED,
    Operation("path 2", "*", "/path/status/**"): None,
}
flask_app = flask.Flask(__name__, static_folder=None)


@flask_app.route("/", defaults={"path": ""})
@flask_app.route("/<path:path>")
def respond(path: str) -> str:
    """Serve every request, as an old view does that reads versions in its own way."""
    return f"the view of {path}"


application = DeprecationMiddleware(flask_app, PLAN)

LIVE = [
    ("/query/x?version=2",),
    ("/query/x?a=b&version=2",),
    ("/header/x", "X-Version: 2"),
    ("/header/x", "x-version: 2"),
    ("/media/x", "Accept: a/v2"),
    ("/path/status/x",),
]
BYPASSES = [
    ("/query/x?VERSION=2",),
    ("/query/x?version=2&version=1",),
    ("/query/x?version=%32",),
    ("/query/x?version=2+",),
    ("/query/x?version=2;",),
    ("/query/x?version=2%00",),
    ("/header/x", "X-Version: 2;"),
    ("/header/x", "X-Version: 2, 1"),
    ("/header/x", "X-Version: 2", "X-Version: 1"),
    ("/header/x", "X-Version: 1", "X-Version: 2"),
    ("/media/x", "Accept: a/v2;q=0"),
    ("/media/x", "Accept: a/v2, */*"),
    ("/media/x", "Accept: a/v1", "Accept: a/v2"),
    ("/path/status/../x",),
    ("/path/status/%2e%2e/x",),
    ("/path/status//x",),
    ("/path/STATUS/x",),
    ("//path/x",),
]


server = server_fixture(
    every_server(
        "gunicorn-gthread",
        "uwsgi",
        "waitress",
        application="tests.servers.test_bypasses:application",
    )
)


def test_requests_for_live_versions_pass(server: Server) -> None:
    statuses = {request: server.ask("GET", *request).code for request in LIVE}
    assert statuses == dict.fromkeys(LIVE, 200)


def test_no_other_spelling_reaches_a_closed_view(server: Server) -> None:
    # A server may refuse a request itself, or resolve a path before.
    for request in BYPASSES:
        response = server.ask("GET", *request)
        assert response.code in {400, 410}, request
        if response.code == 410:
            assert response.all("Deprecation"), request
