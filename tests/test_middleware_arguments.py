"""The middleware refuses invalid arguments by name."""

from datetime import datetime
from functools import partial
from typing import Any

import pytest

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation, Use
from tests.middleware import DEPRECATED_AT, NOW, POLICY, wrap
from tests.wsgi import call, plain_app

PAGE = Operation("page", "GET", "/{page}", rewrite_path=True, unify_session=True)


async def asynchronous_app(_scope: Any, _receive: Any, _send: Any) -> None:
    pass


class AsynchronousApp:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        pass


async def tell_time_later() -> datetime:
    return NOW


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        pytest.param("app", None, id="no application"),
        pytest.param("app", "shop:app", id="an application by name"),
        pytest.param("policy", None, id="no policy"),
        pytest.param("policy", {"deprecated_at": DEPRECATED_AT}, id="a policy as a dict"),
        pytest.param("policy", DeprecationPolicy, id="the policy class"),
        pytest.param("operations", ["GET /"], id="operations as strings"),
        pytest.param("operations", PAGE, id="one operation"),
        pytest.param("operations", None, id="no operations"),
        pytest.param("operations", [PAGE, PAGE], id="an operation twice"),
        pytest.param(
            "operations",
            [Operation("a", "GET", "/a/{b}"), Operation("b", "get", "/A/{c}")],
            id="operations that differ in letter case and parameter names",
        ),
        pytest.param("app", asynchronous_app, id="an ASGI application"),
        pytest.param("app", partial(asynchronous_app, 1), id="an ASGI application, partly applied"),
        pytest.param("app", AsynchronousApp(), id="an ASGI application that is an object"),
        pytest.param("operations", [], id="an empty list of operations"),
        pytest.param("policy", {}, id="an empty plan"),
        pytest.param("policy", {"GET /": POLICY}, id="a plan without operations"),
        pytest.param("policy", {PAGE: "never"}, id="a plan without policies"),
        pytest.param("statuses", {"session_missing": 440}, id="statuses as a dict"),
        pytest.param("realm", 'a"b', id="quote in the realm"),
        pytest.param("realm", "a\nb", id="newline in the realm"),
        pytest.param("realm", None, id="no realm"),
        pytest.param("require_session", "yes", id="a string for a switch"),
        pytest.param("base_url", "", id="empty base URL"),
        pytest.param("base_url", "/erp", id="base URL without a host"),
        pytest.param("base_url", "//api.example", id="base URL without a scheme"),
        pytest.param("base_url", "ftp://api.example", id="base URL of another scheme"),
        pytest.param("base_url", "https://", id="base URL of a scheme"),
        pytest.param("base_url", "https://api.example?x=1", id="base URL with a query"),
        pytest.param("base_url", "https://api.example#x", id="base URL with a fragment"),
        pytest.param("base_url", "https://api.example/a b", id="space in the base URL"),
        pytest.param("base_url", "https://api.example\r\nX: y", id="lines in the base URL"),
        pytest.param("base_url", "https://[::1", id="broken address in the base URL"),
        pytest.param("base_url", "https://\xe4.example", id="base URL that is not ASCII"),
        pytest.param("base_url", 3, id="base URL that is no string"),
        pytest.param("base_url", "https://api.example/?", id="base URL with an empty query"),
        pytest.param("base_url", "https://api.example/#", id="base URL with an empty fragment"),
        pytest.param("base_url", "https://api.example:99999", id="base URL with no such port"),
        pytest.param("base_url", "https://api.example:port", id="base URL with no port number"),
        pytest.param("base_url", "https://api.example:0", id="base URL with port 0"),
        pytest.param("clock", NOW, id="a time instead of a clock"),
        pytest.param("clock", None, id="no clock"),
        pytest.param("clock", tell_time_later, id="a coroutine instead of a clock"),
        pytest.param("observers", [None], id="an observer that is None"),
        pytest.param("observers", print, id="one observer"),
        pytest.param("observers", None, id="no observers"),
    ],
)
def test_an_invalid_argument_is_refused_by_name(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"app": plain_app(), "policy": POLICY, argument: value}
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        DeprecationMiddleware(arguments.pop("app"), arguments.pop("policy"), **arguments)


def test_operations_and_observers_may_be_any_iterable() -> None:
    """An iterator that is not copied would be exhausted at the first request."""
    uses: list[Use] = []
    app = wrap(operations=iter([PAGE]), observers=iter([uses.append]))
    assert call(app, "GET", "/x").one("Deprecation") == "@1767225600"
    assert len(uses) == 1


def test_only_the_application_and_policy_are_positional() -> None:
    with pytest.raises(TypeError):
        DeprecationMiddleware(plain_app(), POLICY, [PAGE])  # type: ignore[call-arg]
