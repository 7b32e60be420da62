"""The redirects of extensions from http to https keep a session that is in the query."""

from typing import TYPE_CHECKING

import flask
import pytest
from flask_talisman import Talisman
from werkzeug.test import Client

from flask_notifications import DeprecationMiddleware
from tests.frameworks.applications import POLICY, application_of, library

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed.wsgi import WSGIApplication

PATH = "/API/Notification/"


def flask_with_talisman() -> "WSGIApplication":
    app = flask.Flask("app")
    Talisman(app)
    return app


@pytest.fixture(params=["Talisman", "SECURE_SSL_REDIRECT"])
def client(request: pytest.FixtureRequest) -> "Iterator[Client]":
    """Yield a client of an application that redirects to https."""
    if request.param == "Talisman":
        yield Client(DeprecationMiddleware(flask_with_talisman(), POLICY))
        return
    application_of("django")  # configures Django's settings
    middleware = ["django.middleware.security.SecurityMiddleware"]
    override_settings = library("django.test.utils").override_settings
    with override_settings(SECURE_SSL_REDIRECT=True, MIDDLEWARE=middleware):
        wsgi = library("django.core.wsgi").get_wsgi_application()
        yield Client(DeprecationMiddleware(wsgi, POLICY))


@pytest.mark.parametrize("query", ["sessionId=s3cret", "a=1&SessionID=%733cret&b=%20", "a=1"])
def test_the_redirect_to_https_keeps_the_session(client: Client, query: str) -> None:
    response = client.get(f"{PATH}?{query}", base_url="http://api.example")
    assert response.status_code in {301, 302}
    base, _, kept = response.headers["Location"].partition("?")
    assert base == f"https://api.example{PATH}"
    assert sorted(kept.split("&")) == sorted(query.split("&"))


def test_a_redirect_from_another_port_drops_the_session(client: Client) -> None:
    response = client.get(f"{PATH}?a=1&sessionId=s3cret", base_url="http://api.example:8080")
    assert response.status_code in {301, 302}
    assert response.headers["Location"].partition("?")[2] == "a=1"


def test_a_redirect_of_an_unmatched_request_is_unchanged(client: Client) -> None:
    response = client.get("/reports/?sessionId=s3cret", base_url="http://api.example")
    assert response.headers["Location"] == "https://api.example/reports/?sessionId=s3cret"
