"""The door for Flask: where its paths are, what it shares with its host, and what it never touches."""

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from wsgiref.util import FileWrapper

import flask
import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_notifications import (
    AccessDenied,
    DeprecationMiddleware,
    DeprecationPolicy,
    create_blueprint,
    notification_operations,
)
from flask_notifications.testing import MemoryStorage
from tests.storages import ACCOUNT, BEARER, CURRENT_USER, SESSION_ID, OneSession, deprecated, flask_app, raising
from tests.wsgi import Answer, call, environ_of, run

POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
ALICE = ACCOUNT.format("alice")


def get(app: Any, path: str = CURRENT_USER, query: str = "", **extra: Any) -> Answer:
    return call(app, "GET", path, query, **{**BEARER, **extra})


def post(app: Any, path: str = ALICE, **extra: Any) -> Answer:
    return call(app, "POST", path, **{**BEARER, **extra})


def redirects(answer: Answer) -> bool:
    return 300 <= answer.code < 400 or bool(answer.all("Location"))


# Paths.

# How an application is mounted, with the SCRIPT_NAME of the server and the path of the mount point.
MOUNTS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "as it comes": (lambda app: app, "", ""),
    "below a SCRIPT_NAME": (lambda app: app, "/erp", ""),
    "below a dispatcher": (lambda app: DispatcherMiddleware(flask.Flask("root"), {"/x": app}), "", "/x"),
}
SPELLINGS = [
    pytest.param("GET", "/API/Notification", 200, id="without a slash"),
    pytest.param("GET", "/API/Notification/", 200, id="with a slash"),
    pytest.param("HEAD", "/API/Notification", 200, id="HEAD"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a", 200, id="account without a slash"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a/", 200, id="account with a slash"),
    pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a b;c=d", 200, id="account with anything"),
    pytest.param("GET", "/API/Notification//", 404, id="two slashes at the end"),
    pytest.param("GET", "/API//Notification/", 404, id="two slashes inside"),
    pytest.param("GET", "//API/Notification/", 404, id="two slashes in front"),
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


@pytest.mark.parametrize(("method", "path", "code"), SPELLINGS)
@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize("wrap", [lambda app: app, deprecated], ids=["alone", "middleware"])
def test_paths_are_exact_but_for_one_slash_and_never_redirect(
    method: str, path: str, code: int, mount: str, wrap: Callable[[Any], Any]
) -> None:
    place, script_name, below = MOUNTS[mount]
    app = place(wrap(flask_app(OneSession())))
    answer = call(app, method, below + path, SCRIPT_NAME=script_name, **BEARER)
    assert not redirects(answer)
    assert answer.code == code


@pytest.mark.parametrize("path", ["API/Notification/", "API/Notification"])
def test_a_path_without_a_slash_in_front_is_none(path: str) -> None:
    """Werkzeug takes it for the same; no server that keeps to PEP 3333 lets it through."""
    storage = OneSession()
    assert run(flask_app(storage), environ_of("GET", path, **BEARER)).code == 404
    assert storage.calls == []


@pytest.mark.parametrize("path", ["/api/notification/", "/Api/Notification", "/API/NOTIFICATION/"])
def test_letter_case_is_the_middlewares_business(path: str) -> None:
    app = flask_app(OneSession())
    assert get(app, path).code == 404
    assert get(deprecated(app), path).code == 200


@pytest.mark.parametrize("prefix", ["/v1/alerts", "/v1/alerts/", "/a-b_c.d~e"])
def test_a_prefix_of_the_hosts_own(prefix: str) -> None:
    app = flask_app(OneSession(), url_prefix=prefix)
    below = prefix.rstrip("/")
    for path in (below, f"{below}/"):
        assert get(app, path).code == 200
        assert post(app, f"{path.rstrip('/')}/GetNotificationsForAccount/a").code == 200
    assert get(app).code == 404


def test_a_prefix_given_at_registration_wins() -> None:
    app = flask.Flask("host")
    app.register_blueprint(create_blueprint(OneSession(), successors=True), url_prefix="/v2/Notes")
    assert get(app, "/v2/Notes").code == get(app, "/v2/Notes/").code == 200
    assert post(app, "/v2/Notes/GetNotificationsForAccount/a").code == 200
    assert get(app, "/v2/Notes/CurrentUser").code == 200
    assert get(app).code == 404


def test_a_nested_blueprint() -> None:
    parent = flask.Blueprint("parent", "host", url_prefix="/erp")
    parent.register_blueprint(create_blueprint(OneSession()))
    app = flask.Flask("host")
    app.register_blueprint(parent)
    for path in ("/erp/API/Notification", "/erp/API/Notification/"):
        assert get(app, path).code == 200
    assert post(app, f"/erp{ALICE}").code == 200
    assert get(app, "/erp//API/Notification").code == 404


def test_registered_twice_under_two_names() -> None:
    blueprint, app = create_blueprint(OneSession()), flask.Flask("host")
    app.register_blueprint(blueprint)
    app.register_blueprint(blueprint, name="older", url_prefix="/old/Notification")
    assert get(app).wire == get(app, "/old/Notification/").wire
    assert post(app).wire == post(app, ALICE.replace("/API", "/old")).wire
    with app.test_request_context():
        assert flask.url_for("notifications.current_user") in {"/API/Notification", "/API/Notification/"}
        assert flask.url_for("older.account", id="a").rstrip("/") == "/old/Notification/GetNotificationsForAccount/a"


def test_two_blueprints_in_one_application() -> None:
    app = flask.Flask("host")
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
def test_the_middleware_goes_inside_or_outside(place: str) -> None:
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
def test_an_account_id_arrives_as_it_was_sent(account_id: str, slash: str, wrap: Callable[[Any], Any]) -> None:
    storage = OneSession()
    path = ACCOUNT.rstrip("/").format(account_id.encode().decode("latin-1")) + slash
    assert post(wrap(flask_app(storage)), path).code == 200
    assert storage.calls[-1] == ("account_notifications", "alice", account_id)


@pytest.mark.parametrize(
    "segment", ["\x00", "a\n", "\na", "\r", "\t", "\x1f", "\x7f", "\xc2\x85", "\xff", "\xc3", "x" * 513], ids=ascii
)
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("wrap", [lambda app: app, deprecated], ids=["alone", "middleware"])
def test_an_account_id_that_is_none_is_refused(segment: str, slash: str, wrap: Callable[[Any], Any]) -> None:
    storage = OneSession()
    answer = post(wrap(flask_app(storage)), ACCOUNT.rstrip("/").format(segment) + slash)
    assert (answer.code, answer.json["code"]) == (400, "invalid_account_id")
    assert storage.calls == []


# The host.


def host(storage: OneSession | None = None) -> flask.Flask:
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
def test_live_operations_under_the_prefix_reach_the_host(method: str, path: str, wrap: Callable[[Any], Any]) -> None:
    answer = call(wrap(host()), method, f"/API/Notification{path}", "sessionId=x")
    assert answer.json["live"] == method
    assert answer.all("Deprecation") == []
    assert get(wrap(host())).body == post(wrap(host())).body == b"[]"


def test_the_hosts_error_handlers_are_for_its_own_pages() -> None:
    app = host(OneSession(raising(AccessDenied())))

    @app.errorhandler(403)
    @app.errorhandler(404)
    @app.errorhandler(Exception)
    def handle(_fault: Exception) -> tuple[str, int]:
        return "the host's", 418

    assert get(app, "/elsewhere").code == 418
    assert post(app).json["code"] == "access_denied"
    assert get(flask_app(OneSession(raising(ValueError())))).json["code"] == "storage_error"


def test_the_hosts_hooks_run_and_can_decorate() -> None:
    app, steps = host(), list[str]()

    @app.before_request
    def before() -> None:
        steps.append(f"before {flask.request.endpoint}")

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        steps.append("after")
        response.headers["X-Host"] = "1"
        return response

    @app.teardown_request
    def teardown(fault: BaseException | None) -> None:
        steps.append(f"teardown {fault}")

    assert get(app).one("X-Host") == "1"
    assert steps == ["before notifications.current_user", "after", "teardown None"]


def test_what_a_host_changes_is_corrected_as_flask_corrects_its_own() -> None:
    app = flask_app(OneSession())

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        if flask.request.args.get("to"):
            response.headers["Location"] = flask.request.args["to"]
        else:
            response.status_code = 304
        return response

    assert get(app, query="to=/caf%C3%A9").one("Location") == "/caf%C3%A9"
    assert get(app).all("Content-Type") == []


@pytest.mark.parametrize("body", [b'["instead"]', b"{}"], ids=["longer", "as long"])
def test_another_body_of_the_host_is_sent_with_its_own_length(body: bytes) -> None:
    app = flask_app(OneSession())

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        response.set_data(body)
        return response

    answer = get(app)
    assert (answer.body, answer.all("Content-Length")) == (body, [str(len(body))])


def set_status(response: flask.Response) -> None:
    response.status = "299 Fine"


def set_code(response: flask.Response) -> None:
    response.status_code = 299


def set_header(response: flask.Response) -> None:
    response.headers["X-Host"] = "1"


def set_cookie(response: flask.Response) -> None:
    response.set_cookie("seen", "1")


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (set_status, lambda answer: answer.status == "299 Fine"),
        (set_code, lambda answer: answer.code == 299),
        (set_header, lambda answer: answer.one("X-Host") == "1"),
        (set_cookie, lambda answer: answer.one("Set-Cookie") == "seen=1; Path=/"),
    ],
)
def test_one_change_of_the_host_leaves_all_else_as_it_was(
    change: Callable[[Any], None], changed: Callable[[Answer], bool]
) -> None:
    plain, app = get(flask_app(OneSession(lambda: [{"n": 1}]))), flask_app(OneSession(lambda: [{"n": 1}]))

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        change(response)
        return response

    answer = get(app)
    assert changed(answer)
    assert set(plain.fields) <= set(answer.fields)
    assert answer.body == plain.body


def test_a_host_with_a_response_class_of_its_own_gets_one() -> None:
    class Own(flask.Response):
        """What a host may have for all its views."""

    plain, app = get(flask_app(OneSession(lambda: [{"n": 1}]))), flask_app(OneSession(lambda: [{"n": 1}]))
    app.response_class = Own
    kinds: list[type] = []

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        kinds.append(type(response))
        return response

    answer = get(app)
    assert (answer.status, answer.fields, answer.body) == (plain.status, plain.fields, plain.body)
    assert kinds == [Own]


@pytest.mark.parametrize("threshold", [1_000_000, 0], ids=["in memory", "in a file"])
def test_an_answer_that_was_sent_can_still_be_looked_at(threshold: int) -> None:
    app, seen = flask_app(OneSession(lambda: [{"n": 1}]), spool_threshold=threshold), list[Any]()

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        flask.g.response = response
        return response

    @app.teardown_request
    def teardown(_fault: BaseException | None) -> None:
        response = flask.g.response
        seen.extend([response.status_code, response.headers["Content-Length"], repr(response)])

    assert get(app).body == b'[{"n":1}]'
    assert seen == [200, "9", "<_Answer streamed [200 OK]>" if threshold == 0 else "<_Answer 9 bytes [200 OK]>"]


@pytest.mark.parametrize("look", [str, id], ids=["looked at", "untouched"])
def test_an_answer_can_be_sent_again(look: Callable[[object], object]) -> None:
    app, kept = flask_app(OneSession(lambda: [{"n": 1}])), list[flask.Response]()
    app.before_request(lambda: kept[0] if kept else None)

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        kept[:] = [response]
        return response

    first = get(app)
    look(kept[0])
    again = get(app)
    assert (again.status, again.fields, again.body) == (first.status, first.fields, first.body)


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda response: pickle.loads(pickle.dumps(response))],  # noqa: S301 - our own
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_of_an_answer_is_one_of_a_response(copied: Callable[[flask.Response], flask.Response]) -> None:
    app = flask_app(OneSession(lambda: [{"n": 1}]))
    plain = get(flask_app(OneSession(lambda: [{"n": 1}])))

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        other = copied(response)
        assert SESSION_ID not in f"{vars(other)}{vars(response)}"
        assert (other.headers is response.headers) is (copied is copy.copy)
        return other

    answer = get(app)
    assert (answer.status, answer.fields, answer.body) == (plain.status, plain.fields, plain.body)


def test_threads_that_look_at_one_answer_see_all_of_it() -> None:
    answers: list[flask.Response] = []
    app = flask_app(OneSession(lambda: [{"n": 1}]))

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        answers.append(response)
        return flask.Response()

    for _ in range(200):
        get(app)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as threads:
            codes = list(threads.map(lambda number: answers[number // 2].status_code, range(400)))
    finally:
        sys.setswitchinterval(interval)
    assert codes == [200] * 400


def delete_field(response: flask.Response) -> None:
    del response.headers["Cache-Control"]


def delete_callbacks(response: flask.Response) -> None:
    del response._on_close
    assert not hasattr(response, "_on_close")
    response._on_close = []


@pytest.mark.parametrize("change", [delete_field, delete_callbacks])
def test_what_a_host_deletes_is_gone(change: Callable[[flask.Response], None]) -> None:
    app = flask_app(OneSession(lambda: [{"n": 1}]))

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        change(response)
        return response

    answer = get(app)
    assert answer.body == b'[{"n":1}]'
    assert answer.all("Cache-Control") == ([] if change is delete_field else ["no-store"])


def test_what_no_response_has_an_answer_has_not() -> None:
    app = flask_app(OneSession())

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        with pytest.raises(AttributeError, match="'_Answer' object has no attribute 'colour'"):
            _ = response.colour  # type: ignore[attr-defined]
        assert response.is_json
        return response

    assert get(app).body == b"[]"


def test_a_large_answer_that_a_host_decorates_is_still_the_servers_to_send() -> None:
    app = flask_app(OneSession(lambda: [{"n": 1}]), spool_threshold=0)

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        response.headers["X-Host"] = "1"
        return response

    class Wrapper(FileWrapper):
        """What a server would hand to sendfile."""

    environ = {**environ_of("GET", CURRENT_USER, **BEARER), "wsgi.file_wrapper": Wrapper}
    body: Any = app(environ, lambda *_arguments: lambda _data: None)
    assert type(body) is Wrapper
    body.close()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_a_host_wants_done_at_the_end_is_done_once(method: str) -> None:
    app, done = flask_app(OneSession()), list[str]()

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        response.call_on_close(lambda: done.append("done"))
        return response

    assert call(app, method, CURRENT_USER, **BEARER).code == 200
    assert done == ["done"]


def test_a_host_that_refuses_first_is_heard() -> None:
    storage = OneSession()
    app = flask_app(storage)
    app.before_request(lambda: flask.abort(429))
    assert get(app).code == 429
    assert storage.calls == []


def test_nothing_of_the_request_context_is_touched() -> None:
    app = host()
    app.secret_key = "s"  # noqa: S105 - of a test
    seen: list[tuple[dict[str, Any], bool, bool]] = []

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        form = "form" in vars(flask.request) or "_cached_data" in vars(flask.request)
        seen.append((dict(vars(flask.g)), flask.session.modified, form))
        return response

    for answer in (get(app), post(app), post(app, HTTP_AUTHORIZATION="")):
        assert answer.one("Vary").startswith("Authorization")
        assert answer.all("Set-Cookie") == []
    assert seen == [({}, False, False)] * 3


def test_no_cookie_session_is_opened() -> None:
    app = host()
    app.secret_key = "s"  # noqa: S105 - of a test
    app.config["SESSION_REFRESH_EACH_REQUEST"] = True
    for answer in (get(app), post(app), post(app, HTTP_AUTHORIZATION=""), get(app, HTTP_COOKIE="session=x")):
        assert answer.one("Vary") == "Authorization"
        assert answer.all("Set-Cookie") == []


def test_the_application_gains_nothing_but_routes() -> None:
    bare, app = flask.Flask("host"), flask_app(OneSession())
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
        ("/API/Notification/GetNotificationsForAccount/<id>", "notifications.account"),
        ("/API/Notification/GetNotificationsForAccount/<id>/", "notifications.account"),
    }


def test_a_crash_in_debug_mode_is_answered_too() -> None:
    app = flask_app(OneSession(raising(ValueError("on purpose"))))
    app.debug = app.testing = True
    assert get(app).json["code"] == "storage_error"


# The successors.


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_successors_answer_the_same(slash: str) -> None:
    storage = OneSession(lambda: [{"n": 1}])
    app = flask_app(storage, successors=True)
    assert get(app, f"/API/Notification/CurrentUser{slash}").wire == get(app).wire
    assert get(app, f"/API/Notification/Account{slash}", "accountId=%C3%A9%20a").wire == get(app).wire
    assert storage.calls[-3] == ("account_notifications", "alice", "é a")
    assert get(app, "/API/Notification/CurrentUser//").code == 404


def test_there_are_no_successors_unless_asked_for() -> None:
    app = flask_app(OneSession())
    assert get(app, "/API/Notification/CurrentUser").code == 404
    assert get(app, "/API/Notification/Account").code == 404


def test_the_successors_are_not_deprecated() -> None:
    app = deprecated(flask_app(OneSession(), successors=True))
    for path in ("/API/Notification/CurrentUser", "/API/Notification/Account"):
        answer = get(app, path, "accountId=a")
        assert answer.code == 200
        assert answer.all("Deprecation") == answer.all("Link") == []
        assert call(app, "POST", path).code == 405


SUCCESSOR_SESSIONS = [
    pytest.param({}, f"sessionId={SESSION_ID}", (401, "session_missing"), id="query alone"),
    pytest.param(BEARER, "sessionId=another", (200, None), id="a query does not contradict"),
    pytest.param(BEARER, "sessionId=a&sessionId=b", (200, None), id="nor does a repeated one"),
    pytest.param({}, "", (401, "session_missing"), id="none"),
    pytest.param({"HTTP_AUTHORIZATION": "Basic dTpw"}, f"sessionId={SESSION_ID}", (401, "session_missing"), id="Basic"),
    pytest.param({"HTTP_AUTHORIZATION": "Bearer"}, "", (400, "invalid_request"), id="no token"),
    pytest.param({"HTTP_AUTHORIZATION": "Bearer a b"}, "", (401, "invalid_token"), id="malformed"),
    pytest.param({"HTTP_AUTHORIZATION": "Bearer x"}, "", (401, "session_invalid"), id="unknown"),
]


@pytest.mark.parametrize(("headers", "query", "expected"), SUCCESSOR_SESSIONS)
@pytest.mark.parametrize("path", ["/API/Notification/CurrentUser", "/API/Notification/Account"])
@pytest.mark.parametrize("wrap", [lambda app: app, deprecated], ids=["alone", "middleware"])
def test_the_successors_take_the_session_from_the_header_only(
    headers: dict[str, str], query: str, expected: tuple[int, str | None], path: str, wrap: Callable[[Any], Any]
) -> None:
    answer = call(wrap(flask_app(OneSession(), successors=True)), "GET", path, f"accountId=a&{query}", **headers)
    code = answer.json["code"] if answer.code != 200 else None
    assert (answer.code, code) == expected


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
    answer = get(flask_app(storage, successors=True), "/API/Notification/Account", query)
    assert (answer.code, answer.json["code"]) == (400, "invalid_account_id")
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
def test_an_argument_that_does_not_fit_is_named_at_once(argument: str, value: Any) -> None:
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


def test_records_come_from_a_generator_method() -> None:
    def records() -> Iterator[Any]:
        yield {"n": 1}

    assert get(flask_app(OneSession(records))).json == [{"n": 1}]


@pytest.mark.parametrize("path", ["", "GetNotificationsForAccount/alice/", "CurrentUser", "Account?accountId=alice"])
def test_a_prefix_at_registration_may_have_parameters_of_the_hosts_own(path: str) -> None:
    app = flask.Flask("host")
    app.register_blueprint(create_blueprint(OneSession(), successors=True), url_prefix="/<tenant>/N")
    below, _, query = path.partition("?")
    method = "POST" if path.startswith("Get") else "GET"
    assert call(app, method, f"/acme/N/{below}", query, **BEARER).json == []
