"""The example application: who may see what, on both databases, and its page."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from example_app import create_app
from example_app.database import open_engine, prepare
from flask_notifications import DeprecationMiddleware, load_policy
from tests.services import postgresql_schema
from tests.wsgi import call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed.wsgi import WSGIApplication

ALICE, BOB = "a11ce000-0000-4000-8000-000000000001", "b0b00000-0000-4000-8000-000000000002"
ADMIN, EXPIRED = "ad000000-0000-4000-8000-000000000003", "ca401000-0000-4000-8000-000000000004"
ACCOUNT = "acc00000-0000-4000-8000-00000000000{}"
FOR_ACCOUNT = "/API/Notification/GetNotificationsForAccount/{}/"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def application(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[WSGIApplication]":
    if request.param == "sqlite":
        with served(f"sqlite:///{tmp_path_factory.mktemp('example')}/example.sqlite3") as application:
            yield application
    else:
        with postgresql_schema() as url, served(url) as application:
            yield application


@contextmanager
def served(database_url: str | None = None) -> "Iterator[WSGIApplication]":
    app = create_app(database_url)
    yield DeprecationMiddleware(app, load_policy(app.config.get_namespace("NOTIFICATIONS_")))
    app.extensions["engine"].dispose()


@pytest.mark.parametrize(
    ("session", "status", "records"),
    [(ALICE, 200, 3), (BOB, 200, 0), (ADMIN, 200, 1), (ALICE.upper(), 200, 3), (EXPIRED, 401, 0), ("unknown", 401, 0)],
    ids=["alice", "bob", "admin", "alice in upper case", "an expired session", "an unknown session"],
)
def test_callers_see_their_own_notifications(
    application: "WSGIApplication", session: str, status: int, records: int
) -> None:
    answer = call(application, "GET", "/api/notification", f"sessionId={session}")
    assert answer.code == status
    assert status != 200 or len(answer.json) == records
    assert answer.one("Deprecation") == "@1767225600"
    assert answer.one("Sunset") == "Thu, 01 Jul 2027 00:00:00 GMT"
    assert answer.all("Link") == [
        '</API/Notification/CurrentUser>; rel="successor-version"',
        '</docs/retirement>; rel="deprecation"; type="text/html"',
    ]


@pytest.mark.parametrize(
    ("session", "account", "status"),
    [
        pytest.param(ALICE, ACCOUNT.format("a"), 200, id="alice, her own"),
        pytest.param(ALICE, ACCOUNT.format("A").upper(), 200, id="alice, her own in upper case"),
        pytest.param(BOB, ACCOUNT.format("b"), 200, id="bob, his own"),
        pytest.param(BOB, ACCOUNT.format("a"), 403, id="bob, alice's"),
        pytest.param(BOB, ACCOUNT.format("0"), 403, id="bob, an unknown one"),
        pytest.param(ADMIN, ACCOUNT.format("a"), 200, id="admin, alice's"),
        pytest.param(ADMIN, ACCOUNT.format("0"), 404, id="admin, an unknown one"),
        pytest.param(ADMIN, "no guid", 404, id="admin, no GUID"),
    ],
)
def test_accounts_are_seen_by_those_who_may(
    application: "WSGIApplication", session: str, account: str, status: int
) -> None:
    assert call(application, "POST", FOR_ACCOUNT.format(account), f"sessionId={session}").code == status


@pytest.mark.parametrize(
    ("path", "query"),
    [("/API/Notification/CurrentUser", ""), ("/API/Notification/Account", f"accountId={ACCOUNT.format('a')}")],
)
def test_the_announced_successors_answer_without_an_announcement(
    application: "WSGIApplication", path: str, query: str
) -> None:
    answer = call(application, "GET", path, query, HTTP_AUTHORIZATION=f"Bearer {ALICE}")
    assert (answer.code, len(answer.json), answer.all("Deprecation")) == (200, 3, [])


def test_the_documented_page_is_there_for_people(application: "WSGIApplication") -> None:
    answer = call(application, "GET", "/docs/retirement")
    assert answer.one("Content-Type").startswith("text/html")
    assert b"2027-07-01" in answer.body
    assert call(application, "GET", "/").one("Location") == "/docs/retirement"


def test_preparing_twice_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/example.sqlite3"
    with served(url) as application:
        first = call(application, "GET", "/API/Notification/", f"sessionId={ALICE}").body
        prepare(open_engine(url))
        assert call(application, "GET", "/API/Notification/", f"sessionId={ALICE}").body == first


def test_the_environment_replaces_a_date_of_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_NOTIFICATIONS_SUNSET_AT", "2026-02-01T00:00:00Z")
    monkeypatch.setenv("EXAMPLE_NOTIFICATIONS_ENFORCE_SUNSET", "true")
    with served(f"sqlite:///{tmp_path}/example.sqlite3") as application:
        answer = call(application, "GET", "/API/Notification/")
    assert (answer.code, answer.json["code"]) == (410, "sunset")
    assert answer.one("Sunset") == "Sun, 01 Feb 2026 00:00:00 GMT"


def test_without_a_url_the_database_is_a_file_in_the_instance_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr("flask.Flask.auto_find_instance_path", lambda _app: str(tmp_path / "instance"))
    with served():
        pass
    assert (tmp_path / "instance" / "example.sqlite3").is_file()
