"""A redirect of the application keeps the session, so that a client that follows it is still authenticated."""

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes, urljoin, urlsplit

import pytest

from flask_notifications import DeprecationMiddleware, Operation
from tests.frameworks.applications import APPLICATIONS, OPERATIONS, POLICY, TARGET, Witness, application_of
from tests.wsgi import Response, between_validators, call, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SESSION_ID = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
QUERY = f"a=1&SessionID=%34{SESSION_ID[1:]}&b=%20"

# The routers require a slash after "items", and this template does not add one.
WITHOUT_SLASH = [Operation("page", "GET", "/old/{page}", rewrite_path=True, unify_session=True)]

every_application = pytest.mark.parametrize("name", APPLICATIONS)


def guarded(app: "WSGIApplication") -> "WSGIApplication":
    return between_validators(partial(DeprecationMiddleware, policy=POLICY, operations=OPERATIONS), app)


def follow(app: "WSGIApplication", response: Response) -> Response:
    """Request the target of a redirect without any header, as an old client does, and return the response."""
    environ = response.environ
    url = urlsplit(urljoin(f"http://api.example{environ['PATH_INFO']}", response.one("Location")))
    assert (url.hostname, url.port or 80) == ("api.example", 80)
    return run(app, environ_of("GET", unquote_to_bytes(url.path).decode("latin-1"), url.query, **{TARGET: "/"}))


@pytest.mark.parametrize(
    ("name", "status"),
    [("bare", 308), ("bottle", 308), ("django", 301), ("falcon", 308), ("flask", 308), ("pyramid", 307)],
)
def test_a_slash_redirect_keeps_the_session(name: str, status: int) -> None:
    witness = Witness(application_of(name))
    app = DeprecationMiddleware(witness, POLICY, operations=WITHOUT_SLASH)
    response = run(app, environ_of("GET", "/old/items", QUERY))
    assert response.code == status
    assert urlsplit(response.one("Location")).path == "/old/items/"
    assert urlsplit(response.one("Location")).query == QUERY
    follow(app, response)
    first, second = (environ["flask_notifications.session"] for environ in witness.environs)
    assert first.value == second.value == SESSION_ID
    assert second.source == "query"


@every_application
@pytest.mark.parametrize("path", ["/old/items", "/old/items/", "/OLD/Items"])
def test_an_operation_spelled_as_the_router_spells_it_is_not_redirected(name: str, path: str) -> None:
    response = call(guarded(application_of(name)), "GET", path, QUERY)
    assert response.code == 200
    assert response.json["session"] == [SESSION_ID, "query"]


@every_application
@pytest.mark.parametrize("origin", ["", "http://api.example", "http://API.example:80"])
def test_a_client_that_follows_a_redirect_is_authenticated(name: str, origin: str) -> None:
    app = guarded(application_of(name))
    response = call(app, "GET", "/old/moved", QUERY, **{TARGET: f"{origin}/old/items/"})
    assert response.code in {302, 303}
    assert response.one("Location").endswith(f"/old/items/?{QUERY}")
    followed = follow(app, response)
    assert followed.code == 200
    assert followed.json["session"] == [SESSION_ID, "query"]


@every_application
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("https://other.example/old/items/", id="another host"),
        pytest.param("https://api.example:8443/old/items/", id="another scheme and port"),
        pytest.param("http://api.example:8080/old/items/", id="another port"),
        pytest.param("//other.example/old/items/", id="another host, the same scheme"),
        pytest.param("http://api.example.other.example/old/items/", id="a host that begins like ours"),
        pytest.param("http://api.example@other.example/old/items/", id="our host as a user"),
        pytest.param("/new/items/", id="another path"),
        pytest.param("/old/items/extra/", id="below a matched path"),
        pytest.param("/", id="the root"),
    ],
)
def test_a_redirect_to_any_other_target_carries_no_session_id(name: str, target: str) -> None:
    response = call(guarded(application_of(name)), "GET", "/old/moved", QUERY, **{TARGET: target})
    plain = call(application_of(name), "GET", "/old/moved", "a=1&b=%20", **{TARGET: target})
    assert response.code in {302, 303}
    assert response.one("Location") == plain.one("Location")
    assert SESSION_ID[1:] not in repr(response.wire)


@every_application
def test_a_session_in_the_header_is_not_added_to_the_target(name: str) -> None:
    header = {"HTTP_AUTHORIZATION": f"Bearer {SESSION_ID}", TARGET: "/old/items/"}
    response = call(guarded(application_of(name)), "GET", "/old/moved", "a=1", **header)
    assert response.one("Location").endswith("/old/items/?a=1")
    assert SESSION_ID not in repr(response.wire)
