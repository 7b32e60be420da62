"""The WSGI application without Flask: its paths, its responses to other requests, and its arguments."""

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
def test_paths_match_as_legacy_clients_spell_them(method: str, path: str, mount: str) -> None:
    response = call(NotificationApp(OneSession()), method, path, SCRIPT_NAME=mount, **BEARER)
    assert response.status == "200 OK"


@pytest.mark.parametrize("account_id", ["acc0", "A B", "Ünï-東京", "GetNotificationsForAccount", "a;b", "x" * 512])
def test_an_account_id_keeps_its_letter_case_and_its_bytes(account_id: str) -> None:
    storage = OneSession()
    path = f"/api/notification/getnotificationsforaccount/{account_id.encode().decode('latin-1')}"
    assert call(NotificationApp(storage), "POST", path, **BEARER).code == 200
    assert storage.calls[-1] == ("account_notifications", "alice", account_id)


def test_a_path_beyond_latin_1_is_a_path_like_any_other() -> None:
    """No server that follows PEP 3333 sends such a path."""
    assert call(NotificationApp(OneSession()), "POST", ACCOUNT.format("\u20ac"), **BEARER).code == 200


def test_path_info_may_be_missing() -> None:
    """PEP 3333 allows a server to omit an empty variable."""
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
def test_any_other_path_is_not_found(method: str, path: str) -> None:
    storage = OneSession()
    response = run(NotificationApp(storage), environ_of(method, path, **BEARER))
    assert response.status == "404 Not Found"
    check_problem(response, "not_found", head=method == "HEAD")
    assert response.all("Allow") == []
    assert storage.calls == []


@pytest.mark.parametrize(
    ("path", "allow", "methods"),
    [
        (CURRENT_USER, "GET, HEAD", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"]),
        ("/api/notification", "GET, HEAD", ["POST"]),
        (ALICE, "POST", ["GET", "HEAD", "PUT", "OPTIONS"]),
        (ALICE.rstrip("/").lower(), "POST", ["GET"]),
    ],
)
def test_any_other_method_is_not_allowed(path: str, allow: str, methods: list[str]) -> None:
    storage = OneSession()
    for method in methods:
        response = run(NotificationApp(storage), environ_of(method, path, **BEARER))
        assert response.status == "405 Method Not Allowed"
        assert response.one("Allow") == allow
        check_problem(response, "method_not_allowed", head=method == "HEAD")
    assert storage.calls == []


def check_problem(response: Any, code: str, *, head: bool) -> None:
    """Check that a response is a problem with a code, with a body unless it is a response to HEAD."""
    if head:
        assert response.body == b""
        assert int(response.one("Content-Length")) > 0
    else:
        assert response.one("Content-Length") == str(len(response.body))
        number, _, title = response.status.partition(" ")
        body = response.json
        assert (body["code"], body["status"], body["title"], body["type"]) == (code, int(number), title, "about:blank")
        assert body.keys() == {"type", "title", "status", "detail", "code"}
    assert response.one("Content-Type") == "application/problem+json"
    assert response.one("Cache-Control") == "no-store"
    assert response.one("X-Content-Type-Options") == "nosniff"


def test_the_middleware_announces_nothing_on_other_responses() -> None:
    app = deprecated(NotificationApp(OneSession()))
    for method, path in (("GET", "/other"), ("POST", CURRENT_USER), ("OPTIONS", CURRENT_USER)):
        assert call(app, method, path, **BEARER).all("Deprecation") == []


def test_an_environ_without_path_and_query_is_not_found() -> None:
    environ = environ_of()
    del environ["PATH_INFO"], environ["QUERY_STRING"]
    assert run(NotificationApp(OneSession()), environ).code == 404


# Operations of the application's own.


def test_operations_are_served_below_another_prefix() -> None:
    app = NotificationApp(OneSession(), operations=notification_operations("/v1"))
    assert call(app, "GET", "/V1", **BEARER).code == 200
    assert call(app, "POST", "/v1/getnotificationsforaccount/a", **BEARER).code == 200
    assert call(app, "GET", CURRENT_USER, **BEARER).code == 404


def test_operations_are_distinguished_by_their_names() -> None:
    storage = OneSession()
    operations = [Operation("account", "GET", "/of/{whom}/list"), Operation("current_user", "POST", "/mine")]
    app = NotificationApp(storage, operations=operations)
    assert call(app, "POST", "/MINE/", **BEARER).code == 200
    assert call(app, "HEAD", "/of/Bob/LIST", **BEARER).code == 200
    assert [call[0] for call in storage.calls[1::2]] == ["current_user_notifications", "account_notifications"]
    assert storage.calls[-1][-1] == "Bob"


def test_one_operation_can_be_served_alone() -> None:
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
        pytest.param([GET, GET], id="an operation twice"),
        pytest.param(
            [GET, Operation("current_user", "GET", "/api/NOTIFICATION/")], id="a path twice, in another letter case"
        ),
        pytest.param(
            [POST, Operation("account", "POST", f"{POST.path[:-5]}{{other}}/")],
            id="a path twice, with another parameter name",
        ),
        pytest.param(["GET /API/Notification/"], id="a string"),
        pytest.param([None], id="None"),
        pytest.param(
            (operation for operation in [Operation("query", "POST", "/q")]),
            id="an operation with another name, in a generator",
        ),
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
def test_an_invalid_argument_is_refused_by_name(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"storage": OneSession(), argument: value}
    with pytest.raises(ValueError, match=argument):
        NotificationApp(arguments.pop("storage"), **arguments)
