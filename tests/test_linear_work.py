"""The work on a request is linear in its size, for any content and every entry point."""

from functools import partial
from typing import Any

import pytest

from flask_notifications import NotificationApp
from flask_notifications.testing import MemoryStorage
from tests.growth import grows_linearly
from tests.middleware import CLOSED, wrap
from tests.storages import flask_app
from tests.wsgi import environ_of, run

pytestmark = pytest.mark.slow

STORAGE = MemoryStorage(
    sessions={"s3cret": "alice"}, notifications={"alice": [{"name": "Weekly sales"}]}
)
ACCOUNT = "/API/Notification/GetNotificationsForAccount/"


STACKS: dict[str, Any] = {
    "NotificationApp": NotificationApp(STORAGE),
    "the blueprint": flask_app(STORAGE),
    "the middleware around the blueprint": wrap(
        flask_app(STORAGE, successors=True), observers=[lambda _call: None]
    ),
    "the middleware around a closed operation": wrap(flask_app(STORAGE), CLOSED),
}
UNITS = [
    "a",
    "/",
    "%2F",
    "&sessionId=x",
    "&a=b;",
    ",Bearer ",
    '"\\',
    " ",
    "\xff",
    "\xc4\xb1",
    "=",
    "accountId=x&",
]
TARGETS = [
    ("GET", "/API/Notification/", "QUERY_STRING"),
    ("GET", "/API/Notification/", "HTTP_AUTHORIZATION"),
    ("GET", "/API/Notification/", "HTTP_USER_AGENT"),
    ("GET", "/API/Notification/", "HTTP_REFERER"),
    ("GET", "/API/Notification/", "RAW_URI"),
    ("POST", ACCOUNT, "PATH_INFO"),
    ("GET", "/API/Notification/Account", "QUERY_STRING"),
]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(("method", "path", "key"), TARGETS)
def test_work_on_a_request_grows_linearly_with_its_size(
    stack: str, method: str, path: str, key: str
) -> None:
    def make_environ(unit: str, size: int) -> dict[str, Any]:
        environ = environ_of(method, path, HTTP_AUTHORIZATION="Bearer s3cret")
        environ[key] = (path if key == "PATH_INFO" else "") + unit * size
        return environ

    slow = [
        unit
        for unit in UNITS
        if not grows_linearly(partial(run, STACKS[stack]), partial(make_environ, unit))
    ]
    assert slow == []


def test_work_on_many_session_ids_and_a_long_name_of_a_client_grows_linearly() -> None:
    def make_environ(size: int) -> dict[str, Any]:
        headers = {
            "HTTP_AUTHORIZATION": "Bearer" + " aaab" * size,
            "HTTP_USER_AGENT": "a" * size,
        }
        query = "&".join(f"sessionId={number}&&&&" for number in range(size))
        return environ_of("GET", "/API/Notification/", query, **headers)

    assert grows_linearly(
        partial(run, STACKS["the middleware around the blueprint"]), make_environ
    )
