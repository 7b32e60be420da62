"""The blueprint: its paths, its arguments, its successors, its effects on the
application around it, and its hooks.
"""

import json
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO
from wsgiref.util import FileWrapper

import flask
import pytest
from werkzeug.exceptions import HTTPException
from werkzeug.routing import PathConverter

from flask_notifications import AccessDenied, create_blueprint
from flask_notifications.serving.blueprint import _OPEN_BODY, _close_unsent_file
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
SPELLINGS = [
    (200, "GET", ["/API/Notification", "/API/Notification/"]),
    (404, "GET", ["/API/Notification//", "/API//Notification/", "//API/Notification/"]),
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
        responses = [call(around(app), method, path, **BEARER) for path in paths]
        assert [(each.code, each.all("Location")) for each in responses] == [
            (code, [])
        ] * len(paths)
    for path in ("/API/Notification/CurrentUser", "/API/Notification/Account"):
        assert [
            get(app, path + end, "accountId=a").code for end in ("", "/", "//", "/x")
        ] == [200, 200, 404, 404]


@pytest.mark.parametrize(
    "path", [CURRENT_USER, CURRENT_USER.rstrip("/"), ALICE, ALICE.rstrip("/")]
)
@pytest.mark.parametrize("automatic", [True, False])
def test_options_gets_the_response_of_flask_without_records(
    path: str, automatic: bool
) -> None:
    storage = OneSession(lambda: [{"n": 1}])
    app = flask.Flask("app")
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
        ("name", b"name"),
        ("successors", "yes"),
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
THRESHOLDS = pytest.mark.parametrize(
    "threshold", [1_000_000, 100], ids=["in memory", "in a file"]
)

Hook = Callable[[flask.Response], flask.Response | None]


def app_with(hook: Hook, threshold: int = 1_000_000, *later: Hook) -> flask.Flask:
    """Return an application with ``after_request`` functions, which Flask calls in the
    given order.
    """
    app = flask_app(OneSession(lambda: RECORDS), spool_threshold=threshold)
    for each in (hook, *later):
        # Flask calls the functions last to first.
        app.after_request_funcs.setdefault(None, []).insert(
            0,
            lambda response, each=each: (
                response if (changed := each(response)) is None else changed
            ),
        )
    return app


def test_error_handlers_of_the_application_handle_its_own_pages_only() -> None:
    app = flask_app(OneSession(raising(AccessDenied())))

    @app.errorhandler(403)
    @app.errorhandler(404)
    @app.errorhandler(Exception)
    def handle(_error: Exception) -> tuple[str, int]:
        return "the application's own", 418

    assert call(app, "GET", "/elsewhere").code == 418
    assert call(app, "POST", ALICE, **BEARER).json["code"] == "access_denied"
    assert (
        get(flask_app(OneSession(raising(ValueError())))).json["code"]
        == "storage_error"
    )


def read_data(response: flask.Response) -> None:
    assert response.get_data() == ARRAY


def read_blocks(response: flask.Response) -> None:
    assert b"".join(response.iter_encoded()) == ARRAY
    response.set_data(ARRAY)


def set_header(response: flask.Response) -> None:
    response.headers["X-Own"] = "1"


def pickle_response(response: flask.Response) -> flask.Response:
    response.freeze()
    loaded: flask.Response = pickle.loads(pickle.dumps(response))  # noqa: S301 - pickled here
    return loaded


def respond_with_a_stream(response: flask.Response) -> flask.Response:
    def read() -> Iterator[bytes]:
        yield from response.iter_encoded()

    return flask.Response(read(), headers=response.headers)


def respond_anew(_response: flask.Response) -> flask.Response:
    return flask.Response(ARRAY)


HOOKS: list[Hook] = [
    read_data,
    read_blocks,
    pickle_response,
    respond_with_a_stream,
    respond_anew,
]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "wrapper",
    [{}, {"wsgi.file_wrapper": FileWrapper}],
    ids=["no file wrapper", "file wrapper"],
)
@THRESHOLDS
def test_a_hook_may_read_the_body_or_return_another_response_with_it(
    hook: Hook,
    method: str,
    wrapper: dict[str, Any],
    threshold: int,
    spooled: list[BinaryIO],
) -> None:
    environ = environ_of(
        method, CURRENT_USER, **BEARER, **wrapper
    )  # it may live longer than the response
    response = run(app_with(hook, threshold), environ)
    assert (response.code, response.one("Content-Length")) == (200, str(len(ARRAY)))
    assert response.body == (b"" if method == "HEAD" else ARRAY)
    assert all(file.closed for file in spooled)


@pytest.mark.parametrize("status", [204, 304])
def test_a_file_is_not_sent_with_a_status_that_has_no_body(
    status: int, spooled: list[BinaryIO]
) -> None:
    app = app_with(lambda response: setattr(response, "status_code", status), 100)
    environ = {
        **environ_of("GET", CURRENT_USER, **BEARER),
        "wsgi.file_wrapper": FileWrapper,
    }
    assert run(app, environ).body == b""
    assert [file.closed for file in spooled] == [True]


def fail(_response: flask.Response) -> None:
    raise ValueError


def abort(_response: flask.Response) -> None:
    flask.abort(418)


@pytest.mark.parametrize("hook", [fail, abort], ids=lambda hook: hook.__name__)
@pytest.mark.parametrize(
    "first", [set_header, read_data], ids=lambda hook: hook.__name__
)
@pytest.mark.parametrize("propagate", [False, True])
def test_the_file_is_closed_if_a_hook_raises(
    hook: Hook, first: Any, propagate: bool, spooled: list[BinaryIO]
) -> None:
    app = app_with(first, 100, hook)
    app.config["PROPAGATE_EXCEPTIONS"] = propagate
    if propagate:
        with pytest.raises((ValueError, HTTPException)) as caught:
            get(app)
        # The traceback is kept, as in a debugger, and its frames refer to the response.
        assert caught.tb is not None
    else:
        assert get(app).code != 200
    assert [file.closed for file in spooled] == [True]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "wrapper",
    [{}, {"wsgi.file_wrapper": FileWrapper}],
    ids=["no file wrapper", "file wrapper"],
)
@THRESHOLDS
def test_a_call_on_close_function_is_called_once(
    method: str, wrapper: dict[str, Any], threshold: int
) -> None:
    done: list[str] = []

    def register(response: flask.Response) -> None:
        response.call_on_close(lambda: done.append("done"))

    app = app_with(register, threshold)
    response = call(app, method, CURRENT_USER, **BEARER, **wrapper)
    assert (response.code, len(response.body)) == (
        200,
        len(ARRAY) if method == "GET" else 0,
    )
    assert done == ["done"]


def test_a_file_that_is_gone_already_is_not_closed_again() -> None:
    app = flask.Flask("app")
    with app.test_request_context(environ_overrides={_OPEN_BODY: lambda: None}):
        _close_unsent_file(app, exception=ValueError())
