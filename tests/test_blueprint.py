"""The blueprint: its paths, its arguments, its successors, and its effects on the application around it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import flask
import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.routing import PathConverter

from flask_notifications import (
    DeprecationMiddleware,
    DeprecationPolicy,
    create_blueprint,
    notification_operations,
)
from flask_notifications.testing import MemoryStorage
from tests.storages import ACCOUNT, BEARER, CURRENT_USER, SESSION_ID, OneSession, deprecated, flask_app, raising
from tests.wsgi import Response, call, environ_of, run

POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
ALICE = ACCOUNT.format("alice")


def get(app: Any, path: str = CURRENT_USER, query: str = "", **extra: Any) -> Response:
    return call(app, "GET", path, query, **{**BEARER, **extra})


def post(app: Any, path: str = ALICE, **extra: Any) -> Response:
    return call(app, "POST", path, **{**BEARER, **extra})


def is_redirect(response: Response) -> bool:
    return 300 <= response.code < 400 or bool(response.all("Location"))


# Paths.

# How an application is mounted, with the SCRIPT_NAME of the server and the path of the mount point.
MOUNTS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "at the root": (lambda app: app, "", ""),
    "below a SCRIPT_NAME": (lambda app: app, "/erp", ""),
    "below a dispatcher": (lambda app: DispatcherMiddleware(flask.Flask("root"), {"/x": app}), "", "/x"),
}
SPELLINGS = [
    pytest.param("GET", "/API/Notification", 200, id="without a slash"),
    pytest.param("GET", "/API/Notification/", 200, id="with a slash"),
    pytest.param("HEAD", "/API/Notification", 200, id="HEAD"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a", 200, id="account without a slash"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a/", 200, id="account with a slash"),
    pytest.param(
        "POST", "/API/Notification/GetNotificationsForAccount/a b;c=d", 200, id="account with a space and signs"
    ),
    pytest.param("GET", "/API/Notification//", 404, id="two slashes at the end"),
    pytest.param("GET", "/API//Notification/", 404, id="two slashes inside"),
    pytest.param("GET", "//API/Notification/", 404, id="two slashes at the start"),
    pytest.param("GET", "/API/Notification/./", 404, id="dot segment"),
    pytest.param("GET", "/API/Notification;x/", 404, id="path parameter"),
    pytest.param("GET", "/API/NotificationX", 404, id="longer"),
    pytest.param("GET", "/API", 404, id="shorter"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a//", 404, id="account and two slashes"),
    pytest.param("POST", "/API/Notification//GetNotificationsForAccount/a/", 404, id="two slashes, account"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount//", 404, id="empty account"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/", 404, id="no account"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a/b", 404, id="two segments"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/.", 404, id="dot for an account"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/../", 404, id="dots for an account"),
    pytest.param("GET", "/API/Notification/GetNotificationsForAccount/a/", 405, id="GET of an account"),
    pytest.param("POST", "/API/Notification/", 405, id="POST to the current user"),
    pytest.param("DELETE", "/API/Notification", 405, id="DELETE"),
]


@cache
def make_mounted_app(mount: str, wrap: Callable[[Any], Any]) -> Any:
    mount_app, _script_name, _below = MOUNTS[mount]
    return mount_app(wrap(flask_app(OneSession())))


@pytest.mark.parametrize(("method", "path", "code"), SPELLINGS)
@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize("wrap", [lambda app: app, deprecated], ids=["alone", "middleware"])
def test_paths_are_exact_except_for_one_trailing_slash_and_never_redirect(
    method: str, path: str, code: int, mount: str, wrap: Callable[[Any], Any]
) -> None:
    _mount_app, script_name, below = MOUNTS[mount]
    response = call(make_mounted_app(mount, wrap), method, below + path, SCRIPT_NAME=script_name, **BEARER)
    assert not is_redirect(response)
    assert response.code == code


# Settings for all routes of an application, and ways to register the blueprint.
SWITCHES: dict[str, Callable[[flask.Flask], None]] = {
    "strict_slashes off": lambda app: setattr(app.url_map, "strict_slashes", False),
    "merge_slashes off": lambda app: setattr(app.url_map, "merge_slashes", False),
    "both off": lambda app: vars(app.url_map).update(strict_slashes=False, merge_slashes=False),
    "redirect_defaults off": lambda app: setattr(app.url_map, "redirect_defaults", False),
    "another default converter": lambda app: app.url_map.converters.update(default=PathConverter),
    "a server name": lambda app: app.config.update(SERVER_NAME="api.example"),
    "no automatic OPTIONS": lambda app: app.config.update(PROVIDE_AUTOMATIC_OPTIONS=False),
}
REGISTRATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "with URL defaults": {"url_defaults": {"tenant": "acme"}},
}


@pytest.mark.parametrize("registration", REGISTRATIONS)
@pytest.mark.parametrize("switch", SWITCHES)
def test_paths_are_exact_whatever_an_application_sets_for_its_own_routes(switch: str, registration: str) -> None:
    app = flask.Flask("app")
    SWITCHES[switch](app)
    app.register_blueprint(create_blueprint(OneSession(), successors=True), **REGISTRATIONS[registration])
    for spelling in SPELLINGS:
        method, path, code = spelling.values
        response = call(app, str(method), str(path), **BEARER)
        assert (response.code, is_redirect(response)) == (code, False), f"{method} {path}"
    for path in ("/API/Notification/CurrentUser", "/API/Notification/Account"):
        assert [get(app, path + end, "accountId=a").code for end in ("", "/", "//", "/x")] == [200, 200, 404, 404]


@pytest.mark.parametrize("path", [CURRENT_USER, CURRENT_USER.rstrip("/"), ALICE, ALICE.rstrip("/")])
@pytest.mark.parametrize("automatic", [True, False])
def test_options_gets_the_response_of_flask_without_records(path: str, automatic: bool) -> None:
    storage = OneSession(lambda: [{"n": 1}])
    app = flask.Flask("app")
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = automatic
    if "PROVIDE_AUTOMATIC_OPTIONS" not in flask.Flask.default_config:  # Flask before 3.1
        automatic = True
    app.register_blueprint(create_blueprint(storage))
    response = call(app, "OPTIONS", path, **BEARER)
    assert response.code == (200 if automatic else 405)
    assert set(response.one("Allow").split(", ")) >= (
        {"POST"} if path.startswith(ALICE.rstrip("/")) else {"GET", "HEAD"}
    )
    assert b'"n"' not in response.body
    assert storage.calls == []


def test_a_subdomain_applies_to_all_of_the_routes() -> None:
    app = flask.Flask("app", subdomain_matching=True)
    app.config["SERVER_NAME"] = "example"
    app.register_blueprint(create_blueprint(OneSession()), subdomain="api")
    for path, code in ((CURRENT_USER, 200), (CURRENT_USER.rstrip("/"), 200), (f"{CURRENT_USER}/", 404)):
        assert get(app, path).code == code
        assert get(app, path, HTTP_HOST="other.example").code == 404


def test_no_route_is_served_by_an_application_with_host_matching() -> None:
    """Each rule of such an application needs a host, and the routes of a blueprint have none."""
    app = flask.Flask("app", host_matching=True, static_host="static.example")
    app.register_blueprint(create_blueprint(OneSession()))
    assert get(app).code == 404


@pytest.mark.parametrize("path", ["API/Notification/", "API/Notification"])
def test_a_path_without_a_slash_at_its_start_is_not_found(path: str) -> None:
    """Werkzeug alone would match it, but a server that follows PEP 3333 never sends such a path."""
    storage = OneSession()
    assert run(flask_app(storage), environ_of("GET", path, **BEARER)).code == 404
    assert storage.calls == []


@pytest.mark.parametrize("path", ["/api/notification/", "/Api/Notification", "/API/NOTIFICATION/"])
def test_letter_case_is_handled_by_the_middleware(path: str) -> None:
    app = flask_app(OneSession())
    assert get(app, path).code == 404
    assert get(deprecated(app), path).code == 200


@pytest.mark.parametrize("prefix", ["/v1/alerts", "/v1/alerts/", "/a-b_c.d~e"])
def test_the_routes_are_served_below_another_prefix(prefix: str) -> None:
    app = flask_app(OneSession(), url_prefix=prefix)
    below = prefix.rstrip("/")
    for path in (below, f"{below}/"):
        assert get(app, path).code == 200
        assert post(app, f"{path.rstrip('/')}/GetNotificationsForAccount/a").code == 200
    assert get(app).code == 404


@pytest.mark.parametrize("prefix", ["/v2/Notes", "/v2/Notes/"])
def test_a_prefix_given_at_registration_wins(prefix: str) -> None:
    app = flask.Flask("app")
    app.register_blueprint(create_blueprint(OneSession(), successors=True), url_prefix=prefix)
    assert get(app, "/v2/Notes").code == get(app, "/v2/Notes/").code == 200
    assert post(app, "/v2/Notes/GetNotificationsForAccount/a").code == 200
    assert get(app, "/v2/Notes/CurrentUser").code == 200
    assert get(app).code == 404


def test_the_blueprint_may_be_registered_at_the_root() -> None:
    app = flask.Flask("app")
    app.register_blueprint(create_blueprint(OneSession(), successors=True), url_prefix="/")
    assert get(app, "/").code == get(app, "/CurrentUser").code == 200


def test_the_blueprint_can_be_nested() -> None:
    parent = flask.Blueprint("parent", "app", url_prefix="/erp")
    parent.register_blueprint(create_blueprint(OneSession()))
    app = flask.Flask("app")
    app.register_blueprint(parent)
    for path in ("/erp/API/Notification", "/erp/API/Notification/"):
        assert get(app, path).code == 200
    assert post(app, f"/erp{ALICE}").code == 200
    assert get(app, "/erp//API/Notification").code == 404


def test_the_blueprint_can_be_registered_twice_under_two_names() -> None:
    blueprint, app = create_blueprint(OneSession()), flask.Flask("app")
    app.register_blueprint(blueprint)
    app.register_blueprint(blueprint, name="older", url_prefix="/old/Notification")
    assert get(app).wire == get(app, "/old/Notification/").wire
    assert post(app).wire == post(app, ALICE.replace("/API", "/old")).wire
    with app.test_request_context():
        assert flask.url_for("notifications.current_user") in {"/API/Notification", "/API/Notification/"}
        assert flask.url_for("older.account", id="a").rstrip("/") == "/old/Notification/GetNotificationsForAccount/a"


def test_two_blueprints_in_one_application_have_their_own_storages() -> None:
    app = flask.Flask("app")
    for number in (1, 2):
        storage = OneSession(lambda number=number: [{"n": number}])  # type: ignore[misc]
        app.register_blueprint(create_blueprint(storage, name=f"n{number}", url_prefix=f"/v{number}"))
    assert [get(app, "/v1").json, get(app, "/v2").json] == [[{"n": 1}], [{"n": 2}]]


def test_two_applications_share_nothing() -> None:
    def create_app(user: str) -> flask.Flask:
        storage = MemoryStorage(sessions={f"session-{user}": user}, notifications={user: [{"of": user}]})
        return flask_app(storage)

    alice, bob = create_app("alice"), create_app("bob")
    for app, user, other in ((alice, "alice", "bob"), (bob, "bob", "alice")):
        assert get(app, HTTP_AUTHORIZATION=f"Bearer session-{user}").json == [{"of": user}]
        assert get(app, HTTP_AUTHORIZATION=f"Bearer session-{other}").json["code"] == "session_invalid"


def test_the_middleware_needs_the_operations_of_another_prefix() -> None:
    app = flask_app(OneSession(), url_prefix="/v1/Notes")
    unaware = DeprecationMiddleware(app, POLICY)
    aware = DeprecationMiddleware(app, POLICY, operations=notification_operations("/v1/Notes"))
    assert get(unaware, "/v1/Notes/").all("Deprecation") == []
    assert get(aware, "/V1/notes").all("Link") == ['</v1/Notes/CurrentUser>; rel="successor-version"']


@pytest.mark.parametrize("place", ["inside", "outside", "both"])
def test_the_middleware_can_wrap_wsgi_app_or_the_application_or_both(place: str) -> None:
    app: Any = flask_app(OneSession())
    expected = deprecated(flask_app(OneSession()))
    if place != "outside":
        app.wsgi_app = deprecated(app.wsgi_app)
    if place != "inside":
        app = deprecated(app)
    for query in ("", f"a=1&sessionId={SESSION_ID}", f"SESSIONID={SESSION_ID}&sessionId=x"):
        for path in (CURRENT_USER, "/api/notification"):
            assert call(app, "GET", path, query).wire == call(expected, "GET", path, query).wire
    assert get(app, "/elsewhere").code == 404


# Account IDs.


@pytest.mark.parametrize(
    "account_id", ["acc0", "A B", "Ünï-東京", "\u2028", "a;b=c", "a%2Fb", "+", "x" * 512, "é" * 512, "..a", "…"]
)
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("wrap", [lambda app: app, deprecated], ids=["alone", "middleware"])
def test_an_account_id_reaches_the_storage_as_it_was_sent(
    account_id: str, slash: str, wrap: Callable[[Any], Any]
) -> None:
    storage = OneSession()
    path = ACCOUNT.rstrip("/").format(account_id.encode().decode("latin-1")) + slash
    assert post(wrap(flask_app(storage)), path).code == 200
    assert storage.calls[-1] == ("account_notifications", "alice", account_id)


@pytest.mark.parametrize(
    "segment", ["\x00", "a\n", "\na", "\r", "\t", "\x1f", "\x7f", "\xc2\x85", "\xff", "\xc3", "x" * 513], ids=ascii
)
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("wrap", [lambda app: app, deprecated], ids=["alone", "middleware"])
def test_an_invalid_account_id_is_refused(segment: str, slash: str, wrap: Callable[[Any], Any]) -> None:
    storage = OneSession()
    response = post(wrap(flask_app(storage)), ACCOUNT.rstrip("/").format(segment) + slash)
    assert (response.code, response.json["code"]) == (400, "invalid_account_id")
    assert storage.calls == []


# The application.


def live_app(storage: OneSession | None = None) -> flask.Flask:
    """Return an application that has live operations under the same prefix."""
    app = flask_app(OneSession() if storage is None else storage)

    def live(**parameters: str) -> Any:
        return {"live": flask.request.method, **parameters}

    for path, methods in (
        ("/", ["POST", "PUT"]),
        ("/query", ["POST"]),
        ("/run/", ["POST"]),
        ("/CurrentUser", ["GET"]),
        ("/Account", ["GET"]),
        ("/<id>", ["GET", "PUT", "DELETE"]),
    ):
        app.add_url_rule(f"/API/Notification{path}", path, live, methods=methods)
    return app


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("PUT", "/"),
        ("POST", "/query"),
        ("POST", "/run/"),
        ("GET", "/CurrentUser"),
        ("GET", "/Account"),
        ("GET", "/4f2c"),
        ("DELETE", "/4f2c"),
        ("GET", "/GetNotificationsForAccount"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda app: app, deprecated], ids=["alone", "middleware"])
def test_live_operations_under_the_prefix_reach_the_application(
    method: str, path: str, wrap: Callable[[Any], Any]
) -> None:
    response = call(wrap(live_app()), method, f"/API/Notification{path}", "sessionId=x")
    assert response.json["live"] == method
    assert response.all("Deprecation") == []
    assert get(wrap(live_app())).body == post(wrap(live_app())).body == b"[]"


def test_the_request_context_is_not_changed() -> None:
    app = live_app()
    app.secret_key = "s"  # noqa: S105 - a key for a test
    seen: list[tuple[dict[str, Any], bool, bool]] = []

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        form = "form" in vars(flask.request) or "_cached_data" in vars(flask.request)
        seen.append((dict(vars(flask.g)), flask.session.modified, form))
        return response

    for response in (get(app), post(app), post(app, HTTP_AUTHORIZATION="")):
        assert response.one("Vary").startswith("Authorization")
        assert response.all("Set-Cookie") == []
    assert seen == [({}, False, False)] * 3


def test_no_cookie_session_is_opened() -> None:
    app = live_app()
    app.secret_key = "s"  # noqa: S105 - a key for a test
    app.config["SESSION_REFRESH_EACH_REQUEST"] = True
    for response in (get(app), post(app), post(app, HTTP_AUTHORIZATION=""), get(app, HTTP_COOKIE="session=x")):
        assert response.one("Vary") == "Authorization"
        assert response.all("Set-Cookie") == []


def test_the_application_gains_nothing_but_routes() -> None:
    bare, app = flask.Flask("app"), flask_app(OneSession())
    for registry in ("error_handler_spec", "before_request_funcs", "after_request_funcs", "teardown_request_funcs"):
        assert dict(getattr(app, registry)) == dict(getattr(bare, registry))
    assert (app.config, app.extensions, app.jinja_env.globals.keys()) == (
        bare.config,
        bare.extensions,
        bare.jinja_env.globals.keys(),
    )
    rules = {(rule.rule, rule.endpoint) for rule in app.url_map.iter_rules()}
    assert rules - {(rule.rule, rule.endpoint) for rule in bare.url_map.iter_rules()} == {
        ("/API/Notification", "notifications.current_user"),
        ("/API/Notification/", "notifications.current_user"),
        ("/API/Notification/GetNotificationsForAccount/<string:id>", "notifications.account"),
        ("/API/Notification/GetNotificationsForAccount/<string:id>/", "notifications.account"),
    }


def test_an_error_in_debug_mode_gets_its_problem_response_too() -> None:
    app = flask_app(OneSession(raising(ValueError("on purpose"))))
    app.debug = app.testing = True
    assert get(app).json["code"] == "storage_error"


# The successors.


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_successors_send_the_same_responses(slash: str) -> None:
    storage = OneSession(lambda: [{"n": 1}])
    app = flask_app(storage, successors=True)
    assert get(app, f"/API/Notification/CurrentUser{slash}").wire == get(app).wire
    assert get(app, f"/API/Notification/Account{slash}", "accountId=%C3%A9%20a").wire == get(app).wire
    assert storage.calls[-3] == ("account_notifications", "alice", "é a")
    assert get(app, "/API/Notification/CurrentUser//").code == 404


def test_there_are_no_successors_by_default() -> None:
    app = flask_app(OneSession())
    assert get(app, "/API/Notification/CurrentUser").code == 404
    assert get(app, "/API/Notification/Account").code == 404


def test_the_successors_are_not_deprecated() -> None:
    app = deprecated(flask_app(OneSession(), successors=True))
    for path in ("/API/Notification/CurrentUser", "/API/Notification/Account"):
        response = get(app, path, "accountId=a")
        assert response.code == 200
        assert response.all("Deprecation") == response.all("Link") == []
        assert call(app, "POST", path).code == 405


SUCCESSOR_SESSIONS = [
    pytest.param({}, f"sessionId={SESSION_ID}", (401, "session_missing"), id="query alone"),
    pytest.param(BEARER, "sessionId=another", (200, None), id="a query does not contradict the header"),
    pytest.param(BEARER, "sessionId=a&sessionId=b", (200, None), id="a repeated query does not contradict either"),
    pytest.param({}, "", (401, "session_missing"), id="none"),
    pytest.param({"HTTP_AUTHORIZATION": "Basic dTpw"}, f"sessionId={SESSION_ID}", (401, "session_missing"), id="Basic"),
    pytest.param({"HTTP_AUTHORIZATION": "Bearer"}, "", (400, "invalid_request"), id="no token"),
    pytest.param({"HTTP_AUTHORIZATION": "Bearer a b"}, "", (401, "invalid_token"), id="malformed"),
    pytest.param({"HTTP_AUTHORIZATION": "Bearer x"}, "", (401, "session_invalid"), id="unknown"),
]


@pytest.mark.parametrize(("headers", "query", "expected"), SUCCESSOR_SESSIONS)
@pytest.mark.parametrize("path", ["/API/Notification/CurrentUser", "/API/Notification/Account"])
@pytest.mark.parametrize("wrap", [lambda app: app, deprecated], ids=["alone", "middleware"])
def test_the_successors_read_the_session_from_the_header_only(
    headers: dict[str, str], query: str, expected: tuple[int, str | None], path: str, wrap: Callable[[Any], Any]
) -> None:
    response = call(wrap(flask_app(OneSession(), successors=True)), "GET", path, f"accountId=a&{query}", **headers)
    code = response.json["code"] if response.code != 200 else None
    assert (response.code, code) == expected


@pytest.mark.parametrize(
    "query",
    [
        "",
        "accountId",
        "accountId=",
        "accountId=a&accountId=a",
        "accountId=a&accountId=b",
        "accountId=&accountId=a",
        "accountID=a",
        "id=a",
        "accountId=%00",
        "accountId=a%0A",
        "accountId=%C2%80",
        "accountId=%ff",
        "accountId=\xff",
        f"accountId={'x' * 513}",
    ],
)
def test_the_account_successor_needs_one_account_id(query: str) -> None:
    storage = OneSession()
    response = get(flask_app(storage, successors=True), "/API/Notification/Account", query)
    assert (response.code, response.json["code"]) == (400, "invalid_account_id")
    assert storage.calls == []


@pytest.mark.parametrize(
    ("query", "account_id"),
    [
        ("x=1&accountId=a", "a"),
        ("accountId=a+b%2Bc", "a b+c"),
        ("account%49d=a", "a"),
        ("accountId=a=b;c", "a=b;c"),
        ("accountId=\xc3\xa9", "é"),
        ("accountId=%252F", "%2F"),
    ],
)
def test_the_account_successor_decodes_its_parameter_once(query: str, account_id: str) -> None:
    storage = OneSession()
    assert get(flask_app(storage, successors=True), "/API/Notification/Account", query).code == 200
    assert storage.calls[-1] == ("account_notifications", "alice", account_id)


# Arguments.


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("storage", MemoryStorage),
        ("storage", object()),
        ("name", ""),
        ("name", "a.b"),
        ("name", 3),
        ("successors", "yes"),
        ("url_prefix", ""),
        ("url_prefix", "/"),
        ("url_prefix", "API/Notification"),
        ("url_prefix", None),
        ("schema", object()),
        ("encode", "json"),
        ("statuses", 440),
        ("spool_threshold", -1),
        ("spool_threshold", "8 MiB"),
        ("realm", 'a"'),
    ],
)
def test_an_invalid_argument_is_refused_by_name(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"storage": OneSession(), argument: value}
    with pytest.raises(ValueError, match=argument):
        create_blueprint(arguments.pop("storage"), **arguments)


@pytest.mark.parametrize(
    "prefix", ["/a b", "/a//b", "/../a", "/a\n", "/{a", "/{a}", "/a%20b", "/a?b", "/a#b", "//a", "/Ünï"]
)
def test_a_prefix_that_no_request_matches_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="url_prefix"):
        create_blueprint(OneSession(), url_prefix=prefix)


def test_only_the_storage_is_positional() -> None:
    with pytest.raises(TypeError):
        create_blueprint(OneSession(), "name")  # type: ignore[call-arg]


def test_the_storage_may_return_a_generator() -> None:
    def records() -> Iterator[Any]:
        yield {"n": 1}

    assert get(flask_app(OneSession(records))).json == [{"n": 1}]


@pytest.mark.parametrize("path", ["", "GetNotificationsForAccount/alice/", "CurrentUser", "Account?accountId=alice"])
def test_a_prefix_at_registration_may_have_parameters(path: str) -> None:
    app = flask.Flask("app")
    app.register_blueprint(create_blueprint(OneSession(), successors=True), url_prefix="/<tenant>/N")
    below, _, query = path.partition("?")
    method = "POST" if path.startswith("Get") else "GET"
    assert call(app, method, f"/acme/N/{below}", query, **BEARER).json == []
