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
from tests.wsgi import Response, call, environ_of, run

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

# Settings for all routes of an application.
SWITCHES: dict[str, Callable[[flask.Flask], object]] = {
    "none": lambda _app: None,
    "strict_slashes off": lambda app: setattr(app.url_map, "strict_slashes", False),
    "merge_slashes off": lambda app: setattr(app.url_map, "merge_slashes", False),
    "both off": lambda app: vars(app.url_map).update(
        strict_slashes=False, merge_slashes=False
    ),
    "another default converter": lambda app: app.url_map.converters.update(
        default=PathConverter
    ),
}


@pytest.mark.parametrize(
    "registration",
    [{}, {"url_defaults": {"tenant": "acme"}}],
    ids=["plain", "with URL defaults"],
)
@pytest.mark.parametrize("switch", SWITCHES)
@ALONE_AND_INSIDE
def test_paths_are_exact_but_for_one_trailing_slash(
    switch: str, registration: Any, around: Any
) -> None:
    app = flask.Flask("app")
    SWITCHES[switch](app)
    app.register_blueprint(
        create_blueprint(OneSession(), successors=True), **registration
    )
    for code, method, paths in SPELLINGS:
        for path in paths:
            assert call(around(app), method, path, **BEARER).code == code, path
    for path in ("/API/Notification/CurrentUser", "/API/Notification/Account"):
        assert [
            get(app, path + end, "accountId=a").code for end in ("", "/", "/x")
        ] == [200, 200, 404]


@pytest.mark.parametrize(
    "path", [CURRENT_USER, CURRENT_USER.rstrip("/"), ALICE, ALICE.rstrip("/")]
)
@pytest.mark.parametrize("automatic", [True, False])
def test_options_gets_the_response_of_flask_without_records(
    path: str, automatic: bool
) -> None:
    storage = OneSession(lambda: [{"n": 1}])
    app = flask.Flask("app")
    if not automatic and "PROVIDE_AUTOMATIC_OPTIONS" not in app.config:
        pytest.skip("needs Flask 3.1, the first with this setting")
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = automatic
    app.register_blueprint(create_blueprint(storage))
    response = call(app, "OPTIONS", path, **BEARER)
    assert response.code == (200 if automatic else 405)
    methods = {"POST"} if path.startswith(ALICE.rstrip("/")) else {"GET", "HEAD"}
    assert set(response.one("Allow").split(", ")) >= methods
    assert b'"n"' not in response.body
    assert storage.calls == []


def nest(blueprint: flask.Blueprint) -> flask.Blueprint:
    parent = flask.Blueprint("parent", "app", url_prefix="/erp")
    parent.register_blueprint(blueprint)
    return parent


make_blueprint = partial(create_blueprint, OneSession(), successors=True)
# Paths, and how the blueprint comes to be served there.
PLACES: dict[str, Callable[[flask.Flask], None]] = {
    "/v1/alerts": lambda app: app.register_blueprint(
        make_blueprint(url_prefix="/v1/alerts")
    ),
    "/a-b_c.d~e": lambda app: app.register_blueprint(
        make_blueprint(url_prefix="/a-b_c.d~e//")
    ),
    "": lambda app: app.register_blueprint(make_blueprint(), url_prefix="/"),
    "/old": lambda app: app.register_blueprint(make_blueprint(), url_prefix="/old/"),
    "/acme/N": lambda app: app.register_blueprint(
        make_blueprint(), url_prefix="/<tenant>/N"
    ),
    "/erp/API/Notification": lambda app: app.register_blueprint(nest(make_blueprint())),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_routes_are_served_where_the_blueprint_is_registered(place: str) -> None:
    app = flask.Flask("app")
    PLACES[place](app)
    for end in ("", "/"):
        assert get(app, f"{place}{end}" or "/").json == []
        assert post(app, f"{place}/GetNotificationsForAccount/a{end}").json == []
    assert (
        get(app, f"{place}/CurrentUser").json
        == get(app, f"{place}/Account", "accountId=a").json
        == []
    )
    assert get(app).code == 404


# How the blueprint is registered, and the argument that the plan needs.
REGISTRATIONS: dict[str, Callable[[flask.Flask], None]] = {
    "/API/Notification": lambda app: app.register_blueprint(make_blueprint()),
    "/v1/alerts": PLACES["/v1/alerts"],
    "/old": PLACES["/old"],
    "/": lambda app: app.register_blueprint(make_blueprint(), url_prefix="/"),
    "/t/{tenant}/alerts": lambda app: app.register_blueprint(
        make_blueprint(), url_prefix="/t/<any('acme', 'eu'):tenant>/alerts"
    ),
    "/erp/API/Notification": PLACES["/erp/API/Notification"],
}


def list_logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return our messages, without those of threads that other tests have started."""
    records = caplog.records
    return [r.getMessage() for r in records if r.name == "flask_notifications"]


@pytest.mark.parametrize("prefix", REGISTRATIONS)
@pytest.mark.parametrize("misspelled", [None, "/API/Notifications"])
def test_an_operation_that_no_middleware_matches_is_logged_once(
    prefix: str, misspelled: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    app = flask.Flask("app")
    REGISTRATIONS[prefix](app)
    place = prefix.rstrip("/").format(tenant="acme")
    around = app
    if misspelled is not None:
        around = wrap(app, operations=notification_operations(misspelled))
    for _request in range(2):
        assert get(around, f"{place}/").code == 200
        assert get(around, f"{place}/CurrentUser").code == 200
        assert post(around, f"{place}/GetNotificationsForAccount/a").code == 200
    lines = list_logged(caplog)
    assert len(lines) == 2
    assert "notifications.current_user announces nothing" in lines[0]
    assert "notifications.account announces nothing" in lines[1]
    for line in lines:
        assert line.endswith(f'notification_operations("{prefix}")')
    caplog.clear()
    app = flask.Flask("app")
    REGISTRATIONS[prefix](app)
    matching = wrap(app, operations=notification_operations(prefix))
    assert get(matching, f"{place}/").all("Deprecation")
    assert post(matching, f"{place}/GetNotificationsForAccount/a").all("Deprecation")
    assert list_logged(caplog) == []


def test_each_registration_is_logged_but_none_in_tests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, blueprint = flask.Flask("app"), make_blueprint()
    app.register_blueprint(blueprint)
    app.register_blueprint(blueprint, name="second", url_prefix="/second")
    app.testing = True
    get(app)
    assert list_logged(caplog) == []
    app.testing = False
    get(app)
    get(app, "/second/")
    another = flask.Flask("another")
    another.register_blueprint(blueprint)
    get(another)
    assert len(list_logged(caplog)) == 3


LIVE = [("POST", "/"), ("POST", "/run/"), ("GET", "/CurrentUser"), ("GET", "/<id>")]


@pytest.mark.parametrize(
    ("method", "path"), [*LIVE, ("GET", "/GetNotificationsForAccount")]
)
@ALONE_AND_INSIDE
def test_live_operations_under_the_prefix_reach_the_application(
    method: str, path: str, around: Any
) -> None:
    app = flask_app(OneSession())
    for live_method, rule in LIVE:
        app.add_url_rule(
            f"/API/Notification{rule}",
            rule,
            lambda **_parameters: "live",
            methods=[live_method],
        )
    response = call(around(app), method, f"/API/Notification{path}", "sessionId=x")
    assert response.body == b"live"
    assert response.all("Deprecation") == []
    assert get(around(app)).body == post(around(app)).body == b"[]"


def test_the_application_gains_nothing_but_routes() -> None:
    bare, app = flask.Flask("app"), flask_app(OneSession())
    for registry in (
        "error_handler_spec",
        "before_request_funcs",
        "after_request_funcs",
        "teardown_request_funcs",
    ):
        assert dict(getattr(app, registry)) == dict(getattr(bare, registry))
    assert (app.config, app.extensions) == (bare.config, bare.extensions)
    assert app.jinja_env.globals.keys() == bare.jinja_env.globals.keys()
    rules = {(rule.rule, rule.endpoint) for rule in app.url_map.iter_rules()}
    assert rules - {
        (rule.rule, rule.endpoint) for rule in bare.url_map.iter_rules()
    } == {
        ("/API/Notification", "notifications.current_user"),
        ("/API/Notification/", "notifications.current_user"),
        (
            "/API/Notification/GetNotificationsForAccount/<string:id>",
            "notifications.account",
        ),
        (
            "/API/Notification/GetNotificationsForAccount/<string:id>/",
            "notifications.account",
        ),
    }


SUCCESSOR_SESSIONS = [
    pytest.param(
        {}, f"sessionId={SESSION_ID}", (401, "session_missing"), id="query alone"
    ),
    pytest.param(
        BEARER,
        "sessionId=another",
        (200, None),
        id="a query does not contradict the header",
    ),
    pytest.param(
        {"HTTP_AUTHORIZATION": "Bearer x"}, "", (401, "session_invalid"), id="unknown"
    ),
]


@pytest.mark.parametrize(("headers", "query", "expected"), SUCCESSOR_SESSIONS)
@pytest.mark.parametrize(
    "path", ["/API/Notification/CurrentUser", "/API/Notification/Account"]
)
@ALONE_AND_INSIDE
def test_the_successors_read_the_session_from_the_header_only(
    headers: dict[str, str],
    query: str,
    expected: tuple[int, str | None],
    path: str,
    around: Callable[[Any], Any],
) -> None:
    response = call(
        around(flask_app(OneSession(), successors=True)),
        "GET",
        path,
        f"accountId=a&{query}",
        **headers,
    )
    code = response.json["code"] if response.code != 200 else None
    assert (response.code, code) == expected


@pytest.mark.parametrize(
    ("query", "account_id"),
    [
        *(
            ("accountId=a+b%2Bc", "a b+c"),
            ("accountId=\xc3\xa9", "é"),
            ("accountId=%252F", "%2F"),
        ),
        *(
            (query, None)
            for query in (
                "",
                "accountId=a&accountId=b",
                "accountId=a&accountId=",
                "accountID=a",
            )
        ),
        *(
            (f"accountId={value}", None)
            for value in ("", "%00", "%ff", "\xff", "x" * 513)
        ),
    ],
)
def test_the_account_successor_needs_one_account_id_and_decodes_it_once(
    query: str, account_id: str | None
) -> None:
    storage = OneSession()
    response = get(
        flask_app(storage, successors=True), "/API/Notification/Account", query
    )
    if account_id is None:
        assert (response.code, response.json["code"], storage.calls) == (
            400,
            "invalid_account_id",
            [],
        )
    else:
        assert (response.code, storage.calls[-1]) == (
            200,
            ("account_notifications", "alice", account_id),
        )


@pytest.mark.parametrize(
    "path", ["/API/Notification/CurrentUser", "/API/Notification/Account"]
)
def test_the_successors_label_the_caller_and_send_a_file(path: str) -> None:
    app = flask_app(
        OneSession(lambda: RECORDS),
        successors=True,
        spool_threshold=100,
        identify=str.upper,
    )
    response = get(app, path, "accountId=a")
    assert (response.body, response.environ["flask_notifications.caller"]) == (
        ARRAY,
        "ALICE",
    )


PREFIXES = [
    *(
        "",
        "/",
        "API/Notification",
        "/a b",
        "/a//b",
        "/../a",
        "/a\n",
        "/{a",
        "/{a}",
        "/a%20b",
        "/a?b",
        "/a#b",
    ),
    *("//a", "/Ünï"),
]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("name", ""),
        *(("url_prefix", prefix) for prefix in PREFIXES),
    ],
)
def test_an_invalid_argument_is_refused_by_name(argument: str, value: Any) -> None:
    with pytest.raises(
        ValueError, match=rf"^'?{argument}\b"
    ):  # Flask refuses an empty name
        create_blueprint(OneSession(), **{argument: value})


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
    broken = flask_app(OneSession(raising(ValueError())))
    assert get(broken).json["code"] == "storage_error"


@pytest.mark.parametrize("status", [200, 204, 304])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_hook_may_edit_the_headers_of_a_file_and_its_status(
    method: str, status: int, spooled: list[BinaryIO]
) -> None:
    app = flask_app(OneSession(lambda: RECORDS), spool_threshold=100)

    @app.after_request
    def edit(response: flask.Response) -> flask.Response:
        assert response.direct_passthrough
        response.headers["X-Page"] = "1"
        response.status_code = status
        return response

    response = run(app, environ_of(method, CURRENT_USER, **BEARER))
    assert response.one("X-Page") == "1"
    assert response.body == (ARRAY if (method, status) == ("GET", 200) else b"")
    assert [file.closed for file in spooled] == [True]


def test_a_hook_may_read_and_replace_a_body_in_memory() -> None:
    app = flask_app(OneSession(lambda: RECORDS))

    @app.after_request
    def edit(response: flask.Response) -> flask.Response:
        assert not response.direct_passthrough
        response.set_data(response.get_data()[:-1] + b" ]")
        return response

    assert get(app).body == ARRAY[:-1] + b" ]"


FAILURES: list[tuple[Any, Any, type[Exception]]] = [
    (raising(LookupError("the table")), orjson.dumps, LookupError),
    (lambda: [{"n": 1}], lambda _batch: 1 / 0, ArithmeticError),
    (lambda: [{"n": 1}, {"n": object()}], orjson.dumps, TypeError),
    (lambda: [{"n": 1}, 2], orjson.dumps, TypeError),
]


@pytest.mark.parametrize("setting", ["testing", "debug"])
@pytest.mark.parametrize(("records", "encode", "expected"), FAILURES)
def test_a_mistake_propagates_while_an_application_is_tested_or_debugged(
    records: Any, encode: Any, expected: type[Exception], setting: str
) -> None:
    app = flask_app(OneSession(records), encode=encode)
    assert get(app).code == 500
    setattr(app, setting, True)
    with pytest.raises(expected) as caught:
        get(app)
    if records is not FAILURES[0][0]:
        (note,) = caught.value.__notes__
        assert note.startswith(("record 0 of type dict", "record 1 of type "))


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
