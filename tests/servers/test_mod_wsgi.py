"""Apache loads the application from the script of ``WSGIScriptAlias``."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.servers.apache import running_apache
from tests.servers.process import ROOT
from tests.services import service_or_skip

MODULE = Path("/usr/lib/apache2/modules/mod_wsgi.so")
# Debian's Python runs it, so it imports only what needs nothing but the standard library.
SCRIPT = """
from datetime import UTC, datetime

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications import notification_operations, session_of

policy = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
closed = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2026, 1, 1, tzinfo=UTC),
    enforce_sunset=True,
)
plan = dict.fromkeys(notification_operations(), policy)
plan[Operation("report", "GET", "/reports/{id}")] = closed


def shop(environ, start_response):
    session = session_of(environ)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{session and session.value} {environ['REQUEST_URI']}".encode()]


application = DeprecationMiddleware(shop, plan)
"""
SITE = """
LogFormat "%h %l %u %t \\"%m %H\\" %>s %b" safe
CustomLog {folder}/access.log safe
WSGIDaemonProcess shop python-path={folder} threads=2
WSGIProcessGroup shop
WSGISocketPrefix {folder}/wsgi
WSGIScriptAlias /shop {folder}/shop.wsgi
WSGIPassAuthorization On
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that Apache's user can read."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(ROOT / "flask_notifications", folder / "flask_notifications")
        (folder / "shop.wsgi").write_text(SCRIPT, encoding="utf-8")
        yield folder


def test_mod_wsgi_announces_and_closes_below_its_alias(folder: Path) -> None:
    service_or_skip("mod_wsgi", MODULE.exists())
    with running_apache(SITE, ("wsgi",), folder) as server:
        path = "/shop/API/Notification/"
        header = server.ask("GET", path, "Authorization: Bearer alice-0001")
        assert f"alice-0001 {path}".encode() in header.body
        assert header.all("Deprecation") == ["@1767225600"]
        successor = '</shop/API/Notification/CurrentUser>; rel="successor-version"'
        assert header.all("Link") == [successor]

        query = server.ask("GET", f"{path}?sessionId=alice-0001")
        assert f"alice-0001 {path}?sessionId=REDACTED".encode() in query.body
        assert server.ask("GET", "/shop/reports/7").code == 410
        assert server.ask("GET", "/shop/news").all("Deprecation") == []
    assert "alice-0001" not in server.written()
