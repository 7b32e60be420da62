"""Routers redirect with the query that they see, without a session; legacy clients follow and must arrive with one."""

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes, urljoin, urlsplit

import pytest

from flask_notifications import DeprecationMiddleware, Operation
from tests.stacks.hosts import HOSTS, OPERATIONS, POLICY, TARGET, Witness, host
from tests.wsgi import Answer, between_validators, call, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SESSION_ID = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
QUERY = f"a=1&SessionID=%34{SESSION_ID[1:]}&b=%20"
PAIR = f"SessionID=%34{SESSION_ID[1:]}"

# A path spelled as the routers do not spell it: they want a slash at the end of their "items".
UNSPELLED = [Operation("page", "GET", "/old/{page}")]

every_host = pytest.mark.parametrize("name", HOSTS)


def guarded(app: "WSGIApplication") -> "WSGIApplication":
    return between_validators(partial(DeprecationMiddleware, policy=POLICY, operations=OPERATIONS), app)


def follow(app: "WSGIApplication", answer: Answer) -> Answer:
    """Ask for the target of a redirect, as a client does that sends no header of its own."""
    environ = answer.environ
    url = urlsplit(urljoin(f"http://api.example{environ['PATH_INFO']}", answer.one("Location")))
    assert (url.hostname, url.port or 80) == ("api.example", 80)
    return run(app, environ_of("GET", unquote_to_bytes(url.path).decode("latin-1"), url.query, **{TARGET: "/"}))


@pytest.mark.parametrize(
    ("name", "status"),
    [("bare", 308), ("bottle", 308), ("django", 301), ("falcon", 308), ("flask", 308), ("pyramid", 307)],
)
def test_a_slash_redirect_keeps_the_session(name: str, status: int) -> None:
    witness = Witness(host(name))
    app = DeprecationMiddleware(witness, POLICY, operations=UNSPELLED)
    answer = run(app, environ_of("GET", "/old/items", QUERY))
    assert answer.code == status
    assert urlsplit(answer.one("Location")).path == "/old/items/"
    assert urlsplit(answer.one("Location")).query == f"a=1&b=%20&{PAIR}"
    follow(app, answer)
    first, second = (environ["flask_notifications.session"] for environ in witness.environs)
    assert first.value == second.value == SESSION_ID
    assert second.source == "query"


@every_host
@pytest.mark.parametrize("path", ["/old/items", "/old/items/", "/OLD/Items"])
def test_an_operation_spelled_as_the_router_spells_it_is_not_redirected(name: str, path: str) -> None:
    answer = call(guarded(host(name)), "GET", path, QUERY)
    assert answer.code == 200
    assert answer.json["session"] == [SESSION_ID, "query"]


@every_host
@pytest.mark.parametrize("origin", ["", "http://api.example", "http://API.example:80"])
def test_a_followed_redirect_authenticates(name: str, origin: str) -> None:
    app = guarded(host(name))
    answer = call(app, "GET", "/old/moved", QUERY, **{TARGET: f"{origin}/old/items/"})
    assert answer.code in {302, 303}
    assert answer.one("Location").endswith(f"/old/items/?a=1&b=%20&{PAIR}")
    followed = follow(app, answer)
    assert followed.code == 200
    assert followed.json["session"] == [SESSION_ID, "query"]


@every_host
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("https://other.example/old/items/", id="another host"),
        pytest.param("https://api.example/old/items/", id="another scheme"),
        pytest.param("http://api.example:8080/old/items/", id="another port"),
        pytest.param("//other.example/old/items/", id="another host, the same scheme"),
        pytest.param("http://api.example.other.example/old/items/", id="a host with ours in front"),
        pytest.param("http://api.example@other.example/old/items/", id="our host as a user"),
        pytest.param("/new/items/", id="an unclaimed path"),
        pytest.param("/old/items/extra/", id="below a claimed path"),
        pytest.param("/", id="the root"),
    ],
)
def test_a_redirect_to_strangers_leaks_nothing(name: str, target: str) -> None:
    answer = call(guarded(host(name)), "GET", "/old/moved", QUERY, **{TARGET: target})
    plain = call(host(name), "GET", "/old/moved", "a=1&b=%20", **{TARGET: target})
    assert answer.code in {302, 303}
    assert answer.one("Location") == plain.one("Location")
    assert answer.body == plain.body
    assert SESSION_ID[1:] not in repr(answer.wire)


@every_host
def test_a_session_of_the_header_stays_out_of_the_target(name: str) -> None:
    header = {"HTTP_AUTHORIZATION": f"Bearer {SESSION_ID}", TARGET: "/old/items/"}
    answer = call(guarded(host(name)), "GET", "/old/moved", "a=1", **header)
    assert answer.one("Location").endswith("/old/items/?a=1")
    assert SESSION_ID not in repr(answer.wire)
