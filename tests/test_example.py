"""The example application on both databases: access to notifications, its usage report
and its pages.
"""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from wsgiref.types import WSGIApplication

import pytest

from example_app import create_app
from example_app.demo import make_demo
from flask_notifications import DeprecationMiddleware
from flask_notifications.usage import UsageRecorder, read_usage
from tests.usage.databases import empty_database
from tests.wsgi import call

ALICE, BOB = (
    "a11ce000-0000-4000-8000-000000000001",
    "b0b00000-0000-4000-8000-000000000002",
)
ADMIN, EXPIRED = (
    "ad000000-0000-4000-8000-000000000003",
    "ca401000-0000-4000-8000-000000000004",
)
ACCOUNT = "acc00000-0000-4000-8000-00000000000{}"
FOR_ACCOUNT = "/API/Notification/GetNotificationsForAccount/{}/"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def application(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WSGIApplication]:
    with (
        empty_database(request.param, tmp_path_factory.mktemp("example")) as url,
        served(url) as application,
    ):
        yield application


@contextmanager
def served(database_url: str | None = None) -> Iterator[WSGIApplication]:
    app = create_app(database_url)
    yield DeprecationMiddleware(app, app.extensions["plan"])
    app.extensions["engine"].dispose()


CALLERS: dict[str, tuple[str, int, int]] = {
    "alice": (ALICE, 200, 3),
    "bob": (BOB, 200, 0),
    "admin": (ADMIN, 200, 1),
    "alice in upper case": (ALICE.upper(), 200, 3),
    "an expired session": (EXPIRED, 401, 5),  # members of the problem
}


@pytest.mark.parametrize(
    ("session", "status", "records"), CALLERS.values(), ids=CALLERS
)
def test_callers_see_their_own_notifications(
    application: Any, session: str, status: int, records: int
) -> None:
    response = call(application, "GET", "/api/notification", f"sessionId={session}")
    assert response.code == status
    assert len(response.json) == records


@pytest.mark.parametrize(
    ("session", "account", "status"),
    [
        (ALICE, ACCOUNT.format("a"), 200),
        (ALICE, ACCOUNT.format("A").upper(), 200),
        (BOB, ACCOUNT.format("b"), 200),
        (BOB, ACCOUNT.format("a"), 403),
        (BOB, ACCOUNT.format("0"), 403),
        (ADMIN, ACCOUNT.format("a"), 200),
        (ADMIN, ACCOUNT.format("0"), 404),
    ],
)
def test_only_callers_with_access_see_an_account(
    application: Any, session: str, account: str, status: int
) -> None:
    path, query = FOR_ACCOUNT.format(account), f"sessionId={session}"
    assert call(application, "POST", path, query).code == status


def test_the_announced_documentation_is_an_html_page(
    application: WSGIApplication,
) -> None:
    response = call(application, "GET", "/docs/retirement")
    assert response.one("Content-Type").startswith("text/html")
    assert b"2027-07-01" in response.body
    assert call(application, "GET", "/").one("Location") == "/docs/retirement"


REPORTS: dict[str, tuple[str | None, str, int, str]] = {
    "a session in the query": (None, f"sessionId={ADMIN}", 401, "session_missing"),
    "an unknown session": ("unknown", "", 401, "session_invalid"),
    "another user": (ALICE, "", 403, "access_denied"),
    "an administrator": (ADMIN, "", 200, "current_user"),
    "no number of days": (ADMIN, "days=none", 200, "current_user"),
}


@pytest.mark.parametrize(
    ("session", "query", "status", "word"), REPORTS.values(), ids=REPORTS
)
def test_only_an_administrator_sees_who_calls(
    application: WSGIApplication,
    session: str | None,
    query: str,
    status: int,
    word: str,
) -> None:
    headers = {} if session is None else {"HTTP_AUTHORIZATION": f"Bearer {session}"}
    response = call(application, "GET", "/usage", query, **headers)
    assert (response.code, word in response.body.decode()) == (status, True)
    assert response.one("Vary") == "Authorization"
    assert response.one("Cache-Control") == "no-store"


def test_a_browser_gets_a_hint_how_to_sign_in(application: WSGIApplication) -> None:
    accepted = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    response = call(application, "GET", "/usage", HTTP_ACCEPT=accepted)
    assert (response.code, response.one("Content-Length")) == (
        401,
        str(len(response.body)),
    )
    assert b"Sign in as an administrator" in response.body
    assert "Bearer" in response.one("WWW-Authenticate")


def test_calls_are_recorded_with_the_name_of_the_caller(tmp_path: Path) -> None:
    app = create_app(f"sqlite:///{tmp_path}/example.sqlite3")
    recorder = UsageRecorder(app.extensions["engine"], create_tables=False)
    plan, administrator = app.extensions["plan"], f"Bearer {ADMIN}"
    application = DeprecationMiddleware(app, plan, observers=[recorder])
    call(application, "GET", "/API/Notification/", f"sessionId={ALICE}")
    recorder.close()
    page = call(application, "GET", "/usage", HTTP_AUTHORIZATION=administrator)
    app.extensions["engine"].dispose()
    assert b"<bdi>alice</bdi>" in page.body


@pytest.mark.parametrize("day", [20, 22], ids=["Friday", "Sunday"])
def test_the_demonstration_has_half_a_year_of_calls(day: int, tmp_path: Path) -> None:
    now = datetime(2026, 11, day, 16, tzinfo=UTC)
    make_demo(tmp_path, now)
    database = f"sqlite:///{tmp_path}/example.sqlite3"
    _account, current_user = read_usage(database, days=180, until=now).operations
    assert sum(usage.closed for usage in current_user.callers) > 20
    assert current_user.longest_gap_hours == 9
    report = (tmp_path / "usage.html").read_text(encoding="utf-8")
    assert "What the brownouts changed" in report
    guide = (tmp_path / "guide.html").read_text(encoding="utf-8")
    assert "2 operations are being retired" in guide


def test_an_environment_variable_replaces_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.toml"
    file.write_text("deprecated_at = 2026-01-03T00:00:00Z", encoding="utf-8")
    monkeypatch.setenv("EXAMPLE_PLAN", str(file))
    with served(f"sqlite:///{tmp_path}/example.sqlite3") as application:
        response = call(application, "GET", "/API/Notification/")
    assert response.one("Deprecation") == "@1767398400"


def test_the_database_is_a_file_in_the_instance_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr(
        "flask.Flask.auto_find_instance_path", lambda _app: str(tmp_path / "instance")
    )
    (tmp_path / "instance").mkdir(mode=0o755)
    with served():
        folder = tmp_path / "instance"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        database = folder / "example.sqlite3"
        assert stat.S_IMODE(database.stat().st_mode) == 0o600
