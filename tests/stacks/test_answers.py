"""Whatever a host answers, and by whatever means: it goes out as it was, and with the announcement."""

import runpy
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.util import FileWrapper

import pytest

from flask_notifications import DeprecationMiddleware
from tests.stacks.hosts import HOSTS, OPERATIONS, PAGES, PARTS, POLICY, PRODUCED, TARGET, Witness, host
from tests.wsgi import Answer, between_validators, call, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

SESSION_ID = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
ANNOUNCED = [
    ("Deprecation", "@1767225600"),
    ("Sunset", "Fri, 01 Jan 2027 00:00:00 GMT"),
    ("Link", '</new/items/>; rel="successor-version"'),
    ("Link", '</docs>; rel="deprecation"; type="text/html"'),
]

# The others let an exception through to the server.
ANSWERS_A_CRASH = ["bottle", "django", "falcon", "flask"]
HAS_A_DEBUG_MODE = ["bottle", "django", "flask"]

every_host = pytest.mark.parametrize("name", HOSTS)
every_page = pytest.mark.parametrize("page", PAGES)


class Sendfile(FileWrapper):
    """What a server sends in a way of its own, as long as it gets this very object."""


def middleware(app: "WSGIApplication") -> "WSGIApplication":
    return DeprecationMiddleware(app, POLICY, operations=OPERATIONS)


def guarded(app: "WSGIApplication") -> "WSGIApplication":
    return between_validators(middleware, app)


def ask(app: "WSGIApplication", path: str, method: str = "GET", query: str = "", **extra: Any) -> Answer:
    return call(app, method, path, query, **{**means(), **extra})


def means() -> "WSGIEnvironment":
    """Return what the hosts' pages need of an environ."""
    return {PRODUCED: [], TARGET: "/new/cookies", "wsgi.errors": StringIO(), "wsgi.file_wrapper": Sendfile}


def begin(_status: str, _headers: object, _exc_info: object = None) -> Callable[[bytes], object]:
    """Start a response that nobody reads."""
    return lambda _data: None


def close(body: object) -> None:
    if hasattr(body, "close"):
        body.close()


def own(answer: Answer, *names: str) -> list[tuple[str, str]]:
    """Return an answer's fields without those of these names, and without the time of day."""
    return [field for field in answer.fields if field[0].lower() not in {"date", *names}]


def vary(answer: Answer) -> set[str]:
    return {member.strip() for value in answer.all("Vary") for member in value.split(",")}


def check_announced(answer: Answer, plain: Answer) -> None:
    """See the announcement at the end, ``Vary`` merged, and all the rest as it is without the middleware."""
    assert (answer.status, answer.body) == (plain.status, plain.body)
    assert answer.fields[-len(ANNOUNCED) :] == ANNOUNCED
    assert own(answer, "vary")[: -len(ANNOUNCED)] == own(plain, "vary")
    assert vary(answer) == vary(plain) | {"Authorization"}


@every_host
@every_page
def test_every_answer_announces_and_is_otherwise_the_hosts_own(name: str, page: str) -> None:
    answer = ask(guarded(host(name)), f"/old/{page}")
    assert answer.code == PAGES[page]
    check_announced(answer, ask(host(name), f"/old/{page}"))


@every_host
@pytest.mark.parametrize("page", ["items/", "cookies", "nowhere", "form"])
def test_head_announces_what_get_announces(name: str, page: str) -> None:
    answer = ask(guarded(host(name)), f"/old/{page}", "HEAD")
    check_announced(answer, ask(host(name), f"/old/{page}", "HEAD"))


@pytest.mark.parametrize("name", ANSWERS_A_CRASH)
def test_an_answer_to_a_crash_announces(name: str) -> None:
    answer = ask(guarded(host(name)), "/old/crash")
    assert answer.code == 500
    check_announced(answer, ask(host(name), "/old/crash"))


@pytest.mark.parametrize("name", sorted(HOSTS.keys() - set(ANSWERS_A_CRASH)))
def test_a_crash_goes_on_to_the_server_where_the_host_lets_it(name: str) -> None:
    with pytest.raises(RuntimeError, match="on purpose"):
        ask(guarded(host(name)), "/old/crash")


@pytest.mark.parametrize("name", HAS_A_DEBUG_MODE)
@pytest.mark.parametrize("page", ["crash", "gone", "nowhere", "handled"])
def test_a_debug_page_announces_and_shows_no_session(name: str, page: str) -> None:
    query = f"a=1&sessionId={SESSION_ID}"
    addresses = {"REQUEST_URI": f"/old/{page}?{query}", "RAW_URI": f"/old/{page}?{query}", "HTTP_REFERER": f"/?{query}"}
    app, errors = host(name, debug=True), StringIO()
    answer = ask(guarded(app), f"/old/{page}", "GET", query, **addresses, **{"wsgi.errors": errors})
    plain = ask(app, f"/old/{page}", "GET", query, **addresses)
    assert answer.status == plain.status
    assert answer.fields[-len(ANNOUNCED) :] == ANNOUNCED
    assert dict(plain.fields).keys() <= dict(answer.fields).keys()
    assert SESSION_ID not in f"{answer.fields}{answer.body!r}{errors.getvalue()}"
    if name == "django" and page != "handled":  # the one that shows all of a request
        assert SESSION_ID.encode() in plain.body


@pytest.mark.parametrize("name", HAS_A_DEBUG_MODE)
def test_a_debug_page_is_one_indeed(name: str) -> None:
    # Otherwise the test above would prove nothing.
    assert b"on purpose" in ask(guarded(host(name, debug=True)), "/old/crash").body
    assert b"on purpose" not in ask(guarded(host(name)), "/old/crash").body


@every_host
def test_a_query_borne_answer_differs_in_its_caching_only(name: str) -> None:
    answer = ask(guarded(host(name)), "/old/file", query=f"sessionId={SESSION_ID}")
    plain = ask(host(name), "/old/file")
    added = ["vary", "cache-control", "referrer-policy"]
    assert own(answer, *added)[: -len(ANNOUNCED)] == own(plain, *added)
    assert "private" in answer.one("Cache-Control")
    assert answer.one("Referrer-Policy") == "no-referrer"
    assert answer.body == plain.body


@every_host
def test_both_cookies_arrive(name: str) -> None:
    cookies = ask(guarded(host(name)), "/old/cookies").all("Set-Cookie")
    assert [cookie.strip()[:3] for cookie in cookies] == ["a=1", "b=2"]


@every_host
def test_a_stream_arrives_while_it_is_made(name: str) -> None:
    environ = environ_of("GET", "/old/stream", "", **means())
    body = middleware(host(name))(environ, begin)
    assert next(iter(body)) == PARTS[0]
    assert environ[PRODUCED] == [PARTS[0]]
    close(body)


@every_host
@pytest.mark.parametrize("page", ["items/", "stream", "file", "unchanged", "gone"])
def test_the_hosts_own_iterable_is_handed_back(name: str, page: str) -> None:
    witness = Witness(host(name))
    body = middleware(witness)(environ_of("GET", f"/old/{page}", "", **means()), begin)
    assert body is witness.bodies[0]
    assert (type(body) is Sendfile) == (page == "file")
    close(body)


@every_host
@every_page
def test_an_unclaimed_request_passes_untouched(name: str, page: str) -> None:
    query = f"a=1&sessionId={SESSION_ID}&sessionId={SESSION_ID}"
    addresses = {"RAW_URI": f"/new/{page}?{query}", "HTTP_REFERER": f"/old/x?{query}", "HTTP_AUTHORIZATION": "Bearer x"}
    if page == "items/":  # reports the session, which this request leaves open
        query, addresses = "a=1", {"HTTP_AUTHORIZATION": "Bearer x"}
    witness, environ = Witness(host(name)), environ_of("GET", f"/new/{page}", query, **addresses, **means())
    came = dict(environ)
    answer = run(middleware(witness), environ)
    plain = ask(host(name), f"/new/{page}", query=query, **addresses)
    assert witness.environs == [came]
    assert (answer.status, own(answer), answer.body) == (plain.status, own(plain), plain.body)
    assert not {"Deprecation", "Sunset", "Link"} & dict(answer.fields).keys()


@pytest.mark.parametrize("name", ["django", "falcon", "flask"])
def test_a_preflight_of_a_claimed_path_is_the_hosts_business(name: str) -> None:
    answer, plain = (ask(app, "/old/cookies", "OPTIONS") for app in (guarded(host(name)), host(name)))
    assert answer.wire == plain.wire


def test_django_takes_three_lines_in_its_wsgi_py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host("django")  # its settings, in place of a project's settings.py
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "project.settings")
    wsgi_py = tmp_path / "wsgi.py"
    wsgi_py.write_text(
        "import os\n"
        "from django.core.wsgi import get_wsgi_application\n"
        "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'project.settings')\n"
        "application = get_wsgi_application()\n"
        # As far as startproject wrote it; and now ours:
        "from flask_notifications import DeprecationMiddleware, Operation, load_policy\n"
        "policy = load_policy({'deprecated_at': '2026-01-01T00:00:00Z', 'documentation': '/docs'})\n"
        "application = DeprecationMiddleware(application, policy, operations=[Operation('x', 'GET', '/old/items/')])\n"
    )
    application = runpy.run_path(str(wsgi_py))["application"]
    answer = ask(application, "/Old/Items", query=f"sessionId={SESSION_ID}")
    assert (answer.code, answer.json["session"]) == (200, [SESSION_ID, "query"])
    assert answer.one("Deprecation") == "@1767225600"
    assert answer.one("Link") == '</docs>; rel="deprecation"; type="text/html"'
    assert ask(application, "/old/cookies").all("Deprecation") == []
