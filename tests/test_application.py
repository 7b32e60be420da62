"""The door without Flask: its paths, what it answers to the others, and its arguments."""

import subprocess
import sys
from typing import Any

import pytest

from flask_notifications import NOTIFICATION_OPERATIONS, NotificationApp, Operation, notification_operations
from flask_notifications.testing import MemoryStorage
from tests.storages import ACCOUNT, BEARER, CURRENT_USER, OneSession, deprecated
from tests.wsgi import call, environ_of, run

GET, POST = NOTIFICATION_OPERATIONS
ALICE = ACCOUNT.format("alice")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/API/Notification/"),
        ("GET", "/API/Notification"),
        ("GET", "/api/notification/"),
        ("GET", "/aPi/NOTIFICATION"),
        ("HEAD", "/api/Notification"),
        ("POST", "/API/Notification/GetNotificationsForAccount/a/"),
        ("POST", "/api/notification/getnotificationsforaccount/a"),
    ],
)
@pytest.mark.parametrize("mount", ["", "/erp", "/a/b"])
def test_paths_are_matched_as_legacy_clients_spell_them(method: str, path: str, mount: str) -> None:
    answer = call(NotificationApp(OneSession()), method, path, SCRIPT_NAME=mount, **BEARER)
    assert answer.status == "200 OK"


@pytest.mark.parametrize("account_id", ["acc0", "A B", "Ünï-東京", "GetNotificationsForAccount", "a;b", "x" * 512])
def test_an_account_id_keeps_its_letter_case_and_its_bytes(account_id: str) -> None:
    storage = OneSession()
    path = f"/api/notification/getnotificationsforaccount/{account_id.encode().decode('latin-1')}"
    assert call(NotificationApp(storage), "POST", path, **BEARER).code == 200
    assert storage.calls[-1] == ("account_notifications", "alice", account_id)


def test_text_that_is_no_bytes_is_answered_like_any_other() -> None:
    """No server that keeps to PEP 3333 lets it through."""
    assert call(NotificationApp(OneSession()), "POST", ACCOUNT.format("\u20ac"), **BEARER).code == 200


def test_a_path_may_be_missing() -> None:
    """PEP 3333 lets a server leave out what is empty."""
    environ = environ_of("GET", "", **BEARER)
    del environ["PATH_INFO"]
    assert run(NotificationApp(OneSession(), operations=notification_operations("")), environ).code == 200


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "*",
        "/API",
        "/API/Notification//",
        "//API/Notification/",
        "/API//Notification",
        "/API/./Notification",
        "/API/Notification/..",
        "/API/Notification;x/",
        "/API/Notification/x",
        "/API/Notification/CurrentUser",
        "/API/Notification/GetNotificationsForAccount/",
        "/API/Notification/GetNotificationsForAccount//",
        "/API/Notification/GetNotificationsForAccount/./",
        "/API/Notification/GetNotificationsForAccount/a/b",
        "/API/Notification/GetNotificationsForAccount/a//",
        "/\xff/\x00",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "BREW"])
def test_another_path_is_not_found(method: str, path: str) -> None:
    storage = OneSession()
    answer = run(NotificationApp(storage), environ_of(method, path, **BEARER))
    assert answer.status == "404 Not Found"
    check_problem(answer, "not_found", head=method == "HEAD")
    assert answer.all("Allow") == []
    assert storage.calls == []


@pytest.mark.parametrize(
    ("path", "allow", "methods"),
    [
        (CURRENT_USER, "GET, HEAD", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW", "get"]),
        ("/api/notification", "GET, HEAD", ["POST"]),
        (ALICE, "POST", ["GET", "HEAD", "PUT", "OPTIONS"]),
        (ALICE.rstrip("/").lower(), "POST", ["GET"]),
    ],
)
def test_another_method_is_not_allowed(path: str, allow: str, methods: list[str]) -> None:
    storage = OneSession()
    for method in methods:
        answer = run(NotificationApp(storage), environ_of(method, path, **BEARER))
        assert answer.status == "405 Method Not Allowed"
        assert answer.one("Allow") == allow
        check_problem(answer, "method_not_allowed", head=method == "HEAD")
    assert storage.calls == []


def check_problem(answer: Any, code: str, *, head: bool) -> None:
    if head:
        assert answer.body == b""
        assert int(answer.one("Content-Length")) > 0
    else:
        assert answer.one("Content-Length") == str(len(answer.body))
        number, _, title = answer.status.partition(" ")
        body = answer.json
        assert (body["code"], body["status"], body["title"], body["type"]) == (code, int(number), title, "about:blank")
        assert body.keys() == {"type", "title", "status", "detail", "code"}
    assert answer.one("Content-Type") == "application/problem+json"
    assert answer.one("Cache-Control") == "no-store"
    assert answer.one("X-Content-Type-Options") == "nosniff"


def test_the_middleware_announces_nothing_on_other_answers() -> None:
    app = deprecated(NotificationApp(OneSession()))
    for method, path in (("GET", "/other"), ("POST", CURRENT_USER), ("OPTIONS", CURRENT_USER)):
        assert call(app, method, path, **BEARER).all("Deprecation") == []


def test_an_environ_without_path_and_query_is_another_path() -> None:
    environ = environ_of()
    del environ["PATH_INFO"], environ["QUERY_STRING"]
    assert run(NotificationApp(OneSession()), environ).code == 404


# Operations of the host's own.


def test_operations_below_another_prefix() -> None:
    app = NotificationApp(OneSession(), operations=notification_operations("/v1"))
    assert call(app, "GET", "/V1", **BEARER).code == 200
    assert call(app, "POST", "/v1/getnotificationsforaccount/a", **BEARER).code == 200
    assert call(app, "GET", CURRENT_USER, **BEARER).code == 404


def test_operations_are_told_apart_by_their_names() -> None:
    storage = OneSession()
    operations = [Operation("account", "GET", "/of/{whom}/list"), Operation("current_user", "POST", "/mine")]
    app = NotificationApp(storage, operations=operations)
    assert call(app, "POST", "/MINE/", **BEARER).code == 200
    assert call(app, "HEAD", "/of/Bob/LIST", **BEARER).code == 200
    assert [call[0] for call in storage.calls[1::2]] == ["current_user_notifications", "account_notifications"]
    assert storage.calls[-1][-1] == "Bob"


def test_one_operation_alone() -> None:
    app = NotificationApp(OneSession(), operations=[GET])
    assert call(app, "GET", CURRENT_USER, **BEARER).code == 200
    assert call(app, "POST", ALICE, **BEARER).code == 404


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([GET, Operation("query", "POST", "/q")], id="a name that is neither"),
        pytest.param([Operation("account", "POST", "/a")], id="account without a parameter"),
        pytest.param([Operation("account", "POST", "/a/{b}/{c}")], id="account with two parameters"),
        pytest.param([Operation("current_user", "GET", "/a/{b}")], id="current user with a parameter"),
        pytest.param([GET, GET], id="one twice"),
        pytest.param([GET, Operation("current_user", "GET", "/api/NOTIFICATION")], id="in another letter case"),
        pytest.param(
            [POST, Operation("account", "POST", f"{POST.path[:-5]}{{other}}")], id="by another parameter name"
        ),
        pytest.param(["GET /API/Notification/"], id="text"),
        pytest.param([None], id="None"),
        pytest.param((operation for operation in [Operation("query", "POST", "/q")]), id="a wrong one in a generator"),
        pytest.param(GET, id="an operation that is no sequence"),
        pytest.param(None, id="no operations"),
    ],
)
def test_operations_that_cannot_be_served_are_refused(operations: Any) -> None:
    with pytest.raises(ValueError, match="operations"):
        NotificationApp(OneSession(), operations=operations)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("storage", MemoryStorage),
        ("storage", object()),
        ("schema", object()),
        ("encode", None),
        ("statuses", {}),
        ("spool_threshold", -1),
        ("realm", "\x7f"),
    ],
)
def test_an_argument_that_does_not_fit_is_named_at_once(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"storage": OneSession(), argument: value}
    with pytest.raises(ValueError, match=argument):
        NotificationApp(arguments.pop("storage"), **arguments)


def test_no_flask_is_imported() -> None:
    program = """
import sys
from flask_notifications import NotificationApp
from flask_notifications.testing import MemoryStorage
NotificationApp(MemoryStorage(sessions={}, notifications={}))
print([name for name in sys.modules if name.partition(".")[0] in {"flask", "werkzeug", "marshmallow"}])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
