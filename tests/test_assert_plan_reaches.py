"""``assert_plan_reaches``, which checks that each operation of a plan reaches a view of an application."""

import io
import re
from typing import TYPE_CHECKING, Any

import flask
import pytest

from flask_notifications import NOTIFICATION_OPERATIONS, Operation, create_blueprint, notification_operations
from flask_notifications.testing import MemoryStorage, assert_plan_reaches

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


@pytest.fixture
def app() -> flask.Flask:
    app = flask.Flask("shop")
    app.add_url_rule("/reports/<int:id>", "report", lambda **_values: "a report")
    app.add_url_rule(
        "/users/<name>/", "user", lambda name: "a user" if name in {"1", "a b \u20ac"} else flask.abort(404)
    )
    app.add_url_rule("/items/<uuid:id>", "item", lambda **_values: "an item", methods=["DELETE"])
    app.add_url_rule("/caf\u00e9", "coffee", lambda: "coffee")
    app.add_url_rule("/broken", "broken", lambda: str(1 / 0))
    app.add_url_rule("/moved", "moved", lambda: flask.redirect("/elsewhere"))
    app.add_url_rule("/paged", "paged", lambda: flask.redirect("/paged?page=1"))
    app.add_url_rule("/mine", "mine", lambda: "mine" if flask.request.authorization else flask.abort(404))
    return app


UUID = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("operation", "options"),
    [
        pytest.param(Operation("a", "GET", "/reports/{id}"), {}, id="a number"),
        pytest.param(Operation("a", "HEAD", "/reports/{id}"), {}, id="HEAD"),
        pytest.param(Operation("a", "GET", "/users/{user}/"), {"parameters": {"user": "a b \u20ac"}}, id="any string"),
        pytest.param(Operation("a", "DELETE", "/items/{id}"), {"parameters": {"id": UUID}}, id="a value that fits"),
        pytest.param(Operation("a", "GET", "/caf%C3%A9"), {}, id="a path that is percent-encoded"),
        pytest.param(Operation("a", "GET", "/broken"), {}, id="a view that fails"),
        pytest.param(Operation("a", "GET", "/moved"), {}, id="a view that redirects elsewhere"),
        pytest.param(Operation("a", "GET", "/paged"), {}, id="a view that redirects to itself"),
        pytest.param(
            Operation("a", "GET", "/mine"), {"headers": {"Authorization": "Bearer a"}}, id="a view that needs a header"
        ),
        pytest.param(Operation("a", "GET", "/reports/{id}"), {"mount": "/v1"}, id="a mounted application"),
    ],
)
def test_an_operation_with_a_view_passes(app: flask.Flask, operation: Operation, options: dict[str, Any]) -> None:
    assert_plan_reaches(app, {operation: None}, **options)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        pytest.param(
            Operation("a", "GET", "/report/{id}"), "a (GET /report/1): the status is 404", id="a misspelled path"
        ),
        pytest.param(
            Operation("a", "POST", "/reports/{id}"), "a (POST /reports/1): the status is 405", id="another method"
        ),
        pytest.param(
            Operation("a", "GET", "/v1/reports/{id}"),
            "(GET /v1/reports/1): the status is 404",
            id="another mount point",
        ),
        pytest.param(
            Operation("a", "GET", "/reports/{id}/"), "(GET /reports/1/): the status is 404", id="a slash too many"
        ),
        pytest.param(
            Operation("a", "GET", "/users/{user}"),
            "a (GET /users/1): it redirects to the spelling /users/1/",
            id="a slash too few",
        ),
        pytest.param(Operation("a", "DELETE", "/items/{id}"), "the status is 404", id="a value that does not fit"),
        pytest.param(Operation("a", "GET", "/mine"), "the status is 404", id="a view without its header"),
    ],
)
def test_an_operation_without_a_view_is_listed_with_the_reason(
    app: flask.Flask, operation: Operation, reason: str
) -> None:
    with pytest.raises(AssertionError, match=re.escape(reason)):
        assert_plan_reaches(app, {operation: None})


def test_a_view_whose_exception_reaches_the_server_passes(app: flask.Flask) -> None:
    app.testing = True
    assert_plan_reaches(app, [Operation("a", "GET", "/broken")])


async def asgi_app(_scope: object, _receive: object, _send: object) -> None:
    """Serve ASGI."""


def failing_app(_environ: object, _start_response: object) -> Any:
    raise RuntimeError


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    ("not_an_application", "reason"),
    [
        pytest.param(None, "it raises TypeError(", id="None"),
        pytest.param("shop:app", "it raises TypeError(", id="a string"),
        pytest.param(asgi_app, "it raises TypeError(", id="an ASGI application"),
        pytest.param(lambda: flask.Flask("shop"), "it raises TypeError(", id="a factory"),
        pytest.param(failing_app, "it raises RuntimeError(), as /flask-notifications/without-a-view does", id="fails"),
    ],
)
def test_an_application_that_always_fails_has_no_view(not_an_application: Any, reason: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(f"a (GET /reports/1): {reason}")):
        assert_plan_reaches(not_an_application, [Operation("a", "GET", "/reports/{id}")])


def test_every_operation_without_a_view_is_listed(app: flask.Flask) -> None:
    wrong = [Operation(name, "GET", f"/{name}") for name in ("one", "two")]
    with pytest.raises(AssertionError, match=r"one \(GET /one\): .*; two \(GET /two\): ") as caught:
        assert_plan_reaches(app, [Operation("report", "GET", "/reports/{id}"), *wrong])
    assert "report" not in str(caught.value)


def test_the_blueprint_serves_the_operations_at_its_own_prefix_only() -> None:
    app = flask.Flask("shop")
    app.register_blueprint(create_blueprint(MemoryStorage(sessions={}, notifications={}), url_prefix="/v1"))
    assert_plan_reaches(app, notification_operations("/v1"))
    with pytest.raises(AssertionError, match=r"current_user .* account "):
        assert_plan_reaches(app, NOTIFICATION_OPERATIONS)


@pytest.mark.parametrize("status", [200, 301, 400, 401])
def test_a_response_that_every_path_gets_is_no_view(app: flask.Flask, status: int) -> None:
    @app.before_request
    def respond() -> flask.Response:
        return flask.Response("the same", status, {"Location": f"https://localhost{flask.request.path}"})

    reason = f"a (GET /reports/1): the status is {status}, as for /flask-notifications/without-a-view"
    with pytest.raises(AssertionError, match=re.escape(reason)):
        assert_plan_reaches(app, [Operation("a", "GET", "/reports/{id}")])


def test_a_view_beside_a_route_for_every_path_passes(app: flask.Flask) -> None:
    app.add_url_rule("/<path:path>", "page", lambda path: f"the page {path}")
    assert_plan_reaches(app, [Operation("a", "GET", "/reports/{id}")])


def test_the_body_is_read_to_the_end_and_closed() -> None:
    bodies: list[io.BytesIO] = []

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        bodies.append(io.BytesIO(environ["PATH_INFO"].encode()))
        return bodies[-1]

    application: WSGIApplication = app
    assert_plan_reaches(application, [Operation("a", "GET", "/a")])
    assert [body.closed for body in bodies] == [True, True]
