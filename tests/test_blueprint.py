"""The blueprint: its paths, its arguments, its successors, its effects on the
application around it, and its hooks.
"""

import json
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, BinaryIO
from unittest.mock import Mock

import flask
import orjson
import pytest
from packaging.version import Version
from werkzeug.routing import PathConverter

from flask_notifications import (
    AccessDenied,
    StorageUnavailable,
    create_blueprint,
    notification_operations,
)
from tests.middleware import wrap
from tests.storages import (
    ACCOUNT,
    BEARER,
    CURRENT_USER,
    SESSION_ID,
    OneSession,
    flask_app,
    raising,
)
from tests.wsgi import Response, call

ALICE = ACCOUNT.format("alice")
ALONE_AND_INSIDE = pytest.mark.parametrize(
    "around", [lambda app: app, wrap], ids=["alone", "middleware"]
)


def get(app: Any, path: str = CURRENT_USER, query: str = "", **extra: Any) -> Response:
    return call(app, "GET", path, query, **{**BEARER, **extra})


def post(app: Any, path: str = ALICE, **extra: Any) -> Response:
    return call(app, "POST", path, **{**BEARER, **extra})


BELOW = ACCOUNT.removesuffix("{}/")
# Before Werkzeug 3.0.2, a route could not forbid it.
MERGED = 404 if Version(version("werkzeug")) >= Version("3.0.2") else 308
SPELLINGS = [
    (200, "GET", ["/API/Notification", "/API/Notification/"]),
    (404, "GET", ["//API/Notification/"]),
    (MERGED, "GET", ["/API/Notification//", "/API//Notification/"]),
    (405, "GET", [ALICE]),
    (200, "POST", [f"{BELOW}a/", f"{BELOW}a b;c=d"]),
    (404, "POST", [f"{BELOW}/", f"{BELOW}a/b", f"{BELOW}./", f"{BELOW}../"]),
    (405, "POST", ["/API/Notification/"]),
]

make_blueprint = partial(create_blueprint, OneSession(), successors=True)
# Settings for all routes of an application.
SWITCHES: dict[str, Callable[[flask.Flask], object]] = {
    "none": lambda _app: None,
    "both off": lambda app: vars(app.url_map).update(
        strict_slashes=False, merge_slashes=False
    ),
    "another default converter": lambda app: app.url_map.converters.update(
        default=PathConverter
    ),
}


@pytest.mark.parametrize("switch", SWITCHES)
@ALONE_AND_INSIDE
def test_paths_are_exact_but_for_one_trailing_slash(switch: str, around: Any) -> None:
    app = flask.Flask("app")
    SWITCHES[switch](app)
    app.register_blueprint(make_blueprint(), url_defaults={"tenant": "acme"})
    for code, method, paths in SPELLINGS:
        for path in paths:
            assert call(around(app), method, path, **BEARER).code == code, path
    for path in ("/API/Notification/CurrentUser", "/API/Notification/Account"):
        for end, code in (("", 200), ("/", 200), ("/x", 404)):
            assert get(app, path + end, "accountId=a").code == code, path


def nest(blueprint: flask.Blueprint) -> flask.Blueprint:
    parent = flask.Blueprint("parent", "app", url_prefix="/erp")
    parent.register_blueprint(blueprint)
    return parent


# How the blueprint is registered, and the prefix that a plan needs.
REGISTRATIONS: dict[str, Callable[[flask.Flask], None]] = {
    "/API/Notification": lambda app: app.register_blueprint(make_blueprint()),
    "/a-b_c.d~e": lambda app: app.register_blueprint(
        make_blueprint(url_prefix="/a-b_c.d~e//")
    ),
    "/": lambda app: app.register_blueprint(make_blueprint(), url_prefix="/"),
    "/t/{tenant}/alerts": lambda app: app.register_blueprint(
        make_blueprint(), url_prefix="/t/<any('acme', 'eu'):tenant>/alerts/"
    ),
    "/erp/API/Notification": lambda app: app.register_blueprint(nest(make_blueprint())),
}


@pytest.mark.parametrize("prefix", REGISTRATIONS)
def test_an_operation_that_no_middleware_matches_is_logged_once(
    prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = flask.Flask("app")
    REGISTRATIONS[prefix](app)
    place = prefix.rstrip("/").format(tenant="acme")
    account = f"{place}/GetNotificationsForAccount/a"
    matching = wrap(app, operations=notification_operations(prefix))
    assert get(matching, f"{place}/").all("Deprecation")
    assert post(matching, account).all("Deprecation")
    assert get(app, f"{place}/CurrentUser").json == []
    assert get(app, f"{place}/Account", "accountId=a").json == []
    assert caplog.messages == []
    misspelled = wrap(app, operations=notification_operations("/API/Notifications"))
    for around, end in ((misspelled, ""), (app, "/")):
        assert get(around, f"{place}{end}" or "/").json == []
        assert post(around, f"{account}{end}").json == []
    first, second = caplog.messages
    assert "notifications.current_user announces nothing" in first
    assert first.endswith(f'notification_operations("{prefix}")')
    assert "notifications.account announces nothing" in second
    assert second.endswith(f'notification_operations("{prefix}")')


def test_each_registration_is_logged_but_none_in_tests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, blueprint = flask.Flask("app"), make_blueprint()
    app.register_blueprint(blueprint)
    app.register_blueprint(blueprint, name="second", url_prefix="/second")
    app.testing = True
    get(app)
    assert caplog.messages == []
    app.testing = False
    get(app)
    get(app, "/second/")
    assert len(caplog.messages) == 2


LIVE = [("POST", "/"), ("GET", "/CurrentUser"), ("GET", "/<id>")]


@ALONE_AND_INSIDE
def test_live_operations_under_the_prefix_reach_the_application(around: Any) -> None:
    app = flask_app(OneSession())
    for method, end in LIVE:
        rule = f"/API/Notification{end}"
        app.add_url_rule(rule, rule, lambda **_parameters: "live", methods=[method])
    for method, end in LIVE:
        response = call(around(app), method, f"/API/Notification{end}", "sessionId=x")
        assert response.body == b"live"
        assert response.all("Deprecation") == []
    assert get(around(app)).body == post(around(app)).body == b"[]"


@pytest.mark.parametrize("name", ["CurrentUser", "Account"])
def test_the_successors_read_the_session_from_the_header_only(name: str) -> None:
    app = flask_app(OneSession(), successors=True)
    path = f"/API/Notification/{name}"
    for around in (app, wrap(app)):
        in_the_query = call(around, "GET", path, f"accountId=a&sessionId={SESSION_ID}")
        assert in_the_query.json["code"] == "session_missing"
        assert get(around, path, "accountId=a&sessionId=another").json == []


def test_the_account_successor_decodes_the_account_id_once() -> None:
    storage = OneSession()
    app = flask_app(storage, successors=True)
    assert (
        get(app, "/API/Notification/Account", "accountId=a+\xc3\xa9%252F").code == 200
    )
    assert storage.calls[-1] == ("account_notifications", "alice", "a \u00e9%2F")


@pytest.mark.parametrize(
    "query",
    ["", "accountId=a&accountId=b", "accountID=a", "accountId=", "accountId=%ff"],
)
def test_the_account_successor_needs_one_account_id(query: str) -> None:
    storage = OneSession()
    app = flask_app(storage, successors=True)
    response = get(app, "/API/Notification/Account", query)
    assert (response.code, response.json["code"]) == (400, "invalid_account_id")
    assert storage.calls == []


@pytest.mark.parametrize("prefix", ["/", "API", "/a//b", "/a\n", "/{a}", "/a%20b"])
def test_an_invalid_prefix_is_refused_by_name(prefix: str) -> None:
    with pytest.raises(ValueError, match=r"^url_prefix\b"):
        create_blueprint(OneSession(), url_prefix=prefix)


RECORDS = [{"n": number} for number in range(1000)]
ARRAY = json.dumps(RECORDS, separators=(",", ":")).encode()


def test_error_handlers_of_the_application_handle_its_own_pages_only() -> None:
    app = flask_app(OneSession(raising(AccessDenied())))

    @app.errorhandler(403)
    @app.errorhandler(404)
    @app.errorhandler(Exception)
    def handle(_error: Exception) -> tuple[str, int]:
        return "the application's own", 418

    assert call(app, "GET", "/elsewhere").code == 418
    assert call(app, "POST", ALICE, **BEARER).json["code"] == "access_denied"


def test_a_hook_may_edit_the_headers_of_a_file_and_its_status(
    spooled: list[BinaryIO],
) -> None:
    app = flask_app(OneSession(lambda: RECORDS), spool_threshold=100)

    @app.after_request
    def edit(response: flask.Response) -> flask.Response:
        assert response.direct_passthrough
        response.headers["X-Page"] = "1"
        response.status_code = 304
        return response

    response = get(app)
    assert response.one("X-Page") == "1"
    assert (response.code, response.body) == (304, b"")
    (file,) = spooled
    assert file.closed


# Records, how to encode them, the exception, and how its note begins.
MISTAKES: list[tuple[Any, Any, type[Exception], str]] = [
    ([{"n": 1}], lambda _batch: 1 / 0, ArithmeticError, "record 0 of type dict"),
    ([{"n": 1}, 2], orjson.dumps, TypeError, "record 1 of type int"),
]


@pytest.mark.parametrize("setting", ["testing", "debug"])
@pytest.mark.parametrize(("records", "encode", "expected", "note"), MISTAKES)
def test_a_mistake_propagates_while_an_application_is_tested_or_debugged(
    records: Any, encode: Any, expected: type[Exception], note: str, setting: str
) -> None:
    storage = OneSession(lambda: records)
    app = flask_app(storage, encode=encode)
    setattr(app, setting, True)
    with pytest.raises(expected) as caught:
        get(app)
    assert caught.value.__notes__[0].startswith(note)
    storage.resolve_session = raising(LookupError("the table"))  # type: ignore[method-assign]
    with pytest.raises(LookupError, match=r"^'?the table"):
        get(app)


def test_what_is_no_mistake_is_a_response_in_tests_too() -> None:
    for error, code in ((AccessDenied(), 403), (StorageUnavailable(), 503)):
        app = flask_app(OneSession(raising(error)))
        app.testing = True
        assert get(app).code == code


def test_an_application_that_matches_hosts_is_refused() -> None:
    app = flask.Flask("app", host_matching=True, static_host="api.example")
    with pytest.raises(ValueError, match=r"^app must be .* without host_matching"):
        app.register_blueprint(create_blueprint(OneSession()))


def test_an_application_that_is_not_flask_is_refused() -> None:
    class Quart:
        """Its blueprints are registered as Flask's are."""

        url_map = flask.Flask("app").url_map

    state = Mock(app=Quart())
    (set_up, *_routes) = create_blueprint(OneSession()).deferred_functions
    with pytest.raises(ValueError, match=r"^app must be a Flask application"):
        set_up(state)
