"""The storage on Flask-SQLAlchemy of the documentation passes the contract."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flask_notifications import NotificationStorage
from flask_notifications.testing import StorageContract
from tests.resilience.postgresql import postgresql
from tests.servers.process import free_port
from tests.storages import CURRENT_USER
from tests.wsgi import call

PAGE = Path(__file__).parents[1] / "docs" / "storage.md"
(SOURCE,) = re.findall(
    r"^```python\n(import flask\nfrom flask_sqlalchemy.*?)^```$",
    PAGE.read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


def documented(url: str) -> dict[str, Any]:
    """Execute the block of the page with the URL of a database."""
    namespace: dict[str, Any] = {"__name__": "shop"}
    exec(SOURCE.replace('"sqlite:///shop.sqlite3"', repr(url)), namespace)  # noqa: S102
    return namespace


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("shop")
    namespace = documented(f"sqlite:///{folder}/shop.sqlite3")
    fill(namespace)
    return namespace


def fill(namespace: dict[str, Any]) -> None:
    db, user, alert = (namespace[name] for name in ("db", "User", "Alert"))
    with namespace["app"].app_context():
        db.create_all()
        for login, session_id in (("alice", "a1"), ("bob", "b2")):
            db.session.add(user(login=login, session_id=session_id))
            db.session.flush()
            for number in range(3):
                db.session.add(alert(owner=login, name=f"{login} {number}"))
        db.session.commit()


class TestDocumentedStorage(StorageContract):
    session_id = "a1"
    account_id = "alice"
    other_session_id = "b2"
    other_account_id = "bob"

    @pytest.fixture(autouse=True)
    def _use(self, shop: dict[str, Any]) -> None:
        type(self).schema = shop["AlertSchema"]
        self.shop = shop

    def make_storage(self) -> NotificationStorage[Any]:
        storage: NotificationStorage[Any] = self.shop["ShopStorage"]()
        return storage

    def make_unreachable_storage(self) -> NotificationStorage[Any] | None:
        url = f"postgresql+psycopg://127.0.0.1:{free_port()}/test"
        storage: NotificationStorage[Any] = documented(url)["ShopStorage"]()
        return storage


class TestStorageThatNeedsAContext(TestDocumentedStorage):
    """Without a unit of work, the context is that of a fixture."""

    @pytest.fixture(autouse=True)
    def _push(self, shop: dict[str, Any]) -> Iterator[None]:
        with shop["app"].app_context():
            yield

    def make_storage(self) -> NotificationStorage[Any]:
        storage = self.shop["ShopStorage"]
        methods = vars(storage).items()
        kept = {name: value for name, value in methods if name != "unit_of_work"}
        plain: NotificationStorage[Any] = type("Plain", (), kept)()
        return plain

    make_unreachable_storage = StorageContract.make_unreachable_storage


@pytest.mark.slow
def test_an_outage_of_postgresql_is_a_503() -> None:
    with postgresql() as cluster:
        namespace = documented(cluster.url())
        fill(namespace)
        app = namespace["app"]
        header = {"HTTP_AUTHORIZATION": "Bearer a1"}
        served = call(app, "GET", CURRENT_USER, **header)
        assert [record["name"] for record in served.json] == [
            "alice 0",
            "alice 1",
            "alice 2",
        ]
        with cluster.stopped():
            refused = call(app, "GET", CURRENT_USER, **header)
            assert refused.code == 503
            assert refused.json["code"] == "storage_unavailable"
        assert call(app, "GET", CURRENT_USER, **header).wire == served.wire
        with app.app_context():
            namespace["db"].engine.dispose()
