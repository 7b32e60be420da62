"""No log of a real server shows a session ID, whatever the request and its outcome."""

import socket
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest

from tests.servers.process import (
    GUNICORN_FILTER,
    PROGRAMS,
    UWSGI_DRAIN,
    Program,
    gunicorn,
    program_name,
    request_of,
    serving,
    uwsgi,
)

HOST = "https://api.example"


class Case(NamedTuple):
    """A request, and the string that only its session ID contains."""

    secret: str
    method: str
    target: str
    headers: tuple[str, ...] = ()


CASES = {
    "query": Case("alice-0001", "GET", "/API/Notification/?sessionId=alice-0001&case=query"),
    "query-of-a-post": Case(
        "admin-0003", "POST", "/API/Notification/GetNotificationsForAccount/bob/?sessionId=admin-0003&case=post"
    ),
    "header": Case("bob-0002", "GET", "/API/Notification/?case=header", ("Authorization: Bearer bob-0002",)),
    "header-and-query": Case(
        "c0de01", "GET", "/API/Notification/?sessionId=c0de01&case=both", ("Authorization: Bearer c0de01",)
    ),
    "key-in-odd-case": Case("c0de02", "GET", "/api/notification?case=odd&SESSIONid=c0de02"),
    "percent-encoded-key": Case("c0de03", "GET", "/API/Notification/?%73ession%49d=c0de03&case=key"),
    "percent-encoded-value": Case("c0de04", "GET", "/API/Notification/?sessionId=%61c0de04%2B&case=value"),
    "refused-as-repeated": Case("c0de05", "GET", "/API/Notification/?sessionId=c0de05&sessionid=c0de05&case=twice"),
    "refused-as-different": Case(
        "c0de06", "GET", "/API/Notification/?sessionId=c0de06-a&case=differ", ("Authorization: Bearer c0de06-b",)
    ),
    "refused-as-malformed": Case("c0de07", "GET", "/API/Notification/?sessionId=%22c0de07%22%20c0de07&case=malformed"),
    "refused-for-its-quotes": Case("c0de08", "GET", '/API/Notification/?sessionId="c0de08"&case=quotes'),
    "absolute-target": Case("c0de09", "GET", "http://api.example/API/Notification/?sessionId=c0de09&case=absolute"),
    "fragment": Case("c0de10", "GET", "/API/Notification/?case=fragment#sessionId=c0de10"),
    "unmatched": Case("c0de11", "GET", "/API/Notification/7?sessionId=c0de11&case=unmatched"),
    "unmatched-with-an-encoded-key": Case("c0de12", "GET", "/API/Notification/7?%53essionid=c0de12&case=unmatched-key"),
    "unmatched-with-quotes": Case("c0de13", "GET", '/API/Notification/7?sessionId="c0de13"&case=unmatched-quotes'),
    "unknown-method": Case("c0de14", "PURGE", "/API/Notification/?sessionId=c0de14&case=purge"),
    "view-fails": Case("c0de15", "GET", "/broken?sessionId=c0de15&case=broken"),
    "application-fails": Case("c0de16", "GET", "/crash?case=crash&sessionId=c0de16"),
    "application-fails-on-an-encoded-key": Case("c0de17", "GET", "/crash?%73essionID=c0de17&case=crash-key"),
    "application-fails-on-a-header": Case("c0de19", "GET", "/crash?case=crash-head", ("Authorization: Bearer c0de19",)),
    "application-fails-while-it-is-read": Case("c0de20", "GET", "/cut?sessionId=c0de20&case=cut"),
    "encoded-question-mark": Case("c0de27", "GET", "/API/Notification/%3FsessionId=c0de27&case=encoded-mark"),
    "encoded-ampersand": Case("c0de28", "GET", "/API/Notification/7?a=1%26sessionId=c0de28&case=encoded-ampersand"),
    "encoded-new-line": Case("c0de29", "GET", "/API/Notification/%0asessionId=c0de29&case=encoded-line"),
    "encoded-uri": Case("c0de30", "GET", "/API/Notification/7?next=%2F%3Fsessionid%3dc0de30&case=encoded-uri"),
    "encoded-twice": Case("c0de31", "GET", "/API/Notification/7?a=%253FsessionId%253Dc0de31&case=encoded-twice"),
    "referer-with-an-encoded-uri": Case(
        "c0de32", "GET", "/API/Notification/7", (f"Referer: {HOST}/?next=%3FsessionId%3Dc0de32&case=referer-encoded",)
    ),
    "application-fails-unmatched": Case("c0de21", "GET", "/unmatched/crash?sessionId=c0de21&case=crash-unmatched"),
    "referer": Case(
        "c0de22",
        "GET",
        "/API/Notification/",
        (f"Referer: {HOST}/API/Notification/?sessionId=c0de22&case=referer",),
    ),
    "referer-of-an-unmatched-request": Case(
        "c0de23",
        "GET",
        "/API/Notification/7",
        (f"Referer: {HOST}/api/notification?SessionID=c0de23&case=referer-live",),
    ),
    "referer-of-a-crash": Case(
        "c0de24", "GET", "/crash", (f"Referer: {HOST}/API/Notification/?sessionId=c0de24&case=referer-crash",)
    ),
}
# Invalid and abandoned requests, which each server reports in its own way.
NOT_HTTP = b"GET /API/Notification/?sessionId=c0de25\x00 HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n"
WITHOUT_VERSION = b"GET /API/Notification/?sessionId=c0de26&x=\r\n\r\n"
LEFT = "/API/Notification/?sessionId=large-0004&case=left"

SECRETS = {name: case.secret for name, case in CASES.items()} | {
    "not-http": "c0de25",
    "without-a-version": "c0de26",
    "client-leaves": "large-0004",
}
# Query pairs beside the session, which stay in the log.
MARKERS = [case.target.rpartition("&")[2] for case in CASES.values() if "&case=" in case.target]

# The other places where gunicorn.conf.py may install the filter.
IN_LOGCONFIG_DICT = """
_logger = {"level": "DEBUG", "filters": ["session"], "propagate": False}
logconfig_dict = {
    "filters": {"session": {"()": "flask_notifications.SessionLogFilter"}},
    "loggers": {
        "gunicorn.access": _logger | {"handlers": ["console"]},
        "gunicorn.error": _logger | {"handlers": ["error_console"]},
    },
}
"""
IN_THE_WORKER = """
import logging
from flask_notifications import SessionLogFilter

def post_worker_init(worker):
    for name in ("gunicorn.access", "gunicorn.error"):
        logging.getLogger(name).addFilter(SessionLogFilter())
"""
PRELOADED = f"preload_app = True{GUNICORN_FILTER}"


CRASHES = ("/crash", "/cut", "/unmatched/crash")


class Log(NamedTuple):
    program: Program
    text: str


def log_of(program: Program, folder: Path) -> Log:
    """Send all these requests to a server, and return everything that it wrote until it stopped."""
    with serving(program, folder) as server:
        for case in CASES.values():
            if program.name == "tornado" and case.target.startswith(CRASHES):
                continue  # Tornado leaves such a request without a response
            server.exchange(request_of(case.method, case.target, *case.headers))
        server.exchange(NOT_HTTP)
        server.exchange(WITHOUT_VERSION)
        with server.slow_reader(LEFT) as connection:
            assert connection.recv(12).endswith(b"200")
        # Without a reset, which servers report in another way.
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(request_of("GET", LEFT))
        server.ask("GET", "/news")
    return Log(program, server.written())


@pytest.fixture(scope="module", params=PROGRAMS, ids=program_name)
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return log_of(request.param, tmp_path_factory.mktemp(request.param.name))


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_log_shows_the_session(log: Log, secret: str) -> None:
    assert [line for line in log.text.splitlines() if secret in line] == []


def test_the_rest_of_a_target_stays_in_the_log(log: Log) -> None:
    """Only some servers log targets; waitress has no access log, and uWSGI is configured to leave them out."""
    assert [marker for marker in MARKERS if marker in log.text] == (MARKERS if log.program.logs_targets else [])


def test_a_crash_is_still_logged(log: Log) -> None:
    # Five requests make the application fail before its response, and one during it. Flask reports one more.
    assert log.text.count("RuntimeError: the application failed") == 6
    assert log.text.count("RuntimeError: the view failed") == 1


@pytest.mark.parametrize(
    "conf",
    [
        pytest.param(IN_LOGCONFIG_DICT, id="in-logconfig_dict"),
        pytest.param(IN_THE_WORKER, id="in-post_worker_init"),
        pytest.param(PRELOADED, id="before-the-application-is-preloaded"),
    ],
)
def test_no_log_of_gunicorn_shows_a_session_wherever_the_filter_is_installed(conf: str, tmp_path: Path) -> None:
    text = log_of(gunicorn("gthread", conf), tmp_path).text
    assert [line for line in text.splitlines() for secret in SECRETS.values() if secret in line] == []
    assert [marker for marker in MARKERS if marker not in text] == []


def test_no_log_of_uwsgi_shows_a_session_if_lines_with_sessions_are_dropped(tmp_path: Path) -> None:
    text = log_of(uwsgi(UWSGI_DRAIN), tmp_path).text
    assert [line for line in text.splitlines() for secret in SECRETS.values() if secret in line] == []
    assert " GET /API/Notification/?case=header " in text


def test_without_the_filter_gunicorn_shows_sessions_of_unmatched_requests_and_crashes(
    tmp_path: Path,
) -> None:
    text = log_of(gunicorn("gthread", conf=""), tmp_path).text
    shown = {name for name, secret in SECRETS.items() if secret in text}
    # Only some versions of gunicorn report invalid requests.
    assert shown - {"not-http", "without-a-version"} == {
        "unmatched",
        "unmatched-with-an-encoded-key",
        "unmatched-with-quotes",
        "unknown-method",
        "application-fails",
        "application-fails-on-an-encoded-key",
        "application-fails-unmatched",
        "referer-of-an-unmatched-request",
        "referer-with-an-encoded-uri",
        "encoded-question-mark",
        "encoded-ampersand",
        "encoded-new-line",
        "encoded-uri",
        "encoded-twice",
    }


# ---- servers that use logging, each with the filter on its loggers

PREPARE = """
import logging
from flask_notifications import SessionLogFilter
from tests.servers.app import application

for name in {loggers}:
    logging.getLogger(name).addFilter(SessionLogFilter())
"""
UVICORN = """
import uvicorn
from a2wsgi import WSGIMiddleware

uvicorn.run(WSGIMiddleware(application), host="127.0.0.1", port=0)
"""
TORNADO = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.wsgi import WSGIContainer

logging.basicConfig(level=logging.INFO)

async def main():
    server = HTTPServer(WSGIContainer(application, ThreadPoolExecutor()))
    sockets = bind_sockets(0, "127.0.0.1")
    print("http://127.0.0.1:%d" % sockets[0].getsockname()[1])
    server.add_sockets(sockets)
    await asyncio.Event().wait()

asyncio.run(main())
"""
AIOHTTP = """
from aiohttp import web
from aiohttp_wsgi import WSGIHandler
import socket
import sys

logging.basicConfig(level=logging.INFO)
app = web.Application()
app.router.add_route("*", "/{path_info:.*}", WSGIHandler(application))
listener = socket.create_server(("127.0.0.1", 0))
print("http://127.0.0.1:%d" % listener.getsockname()[1])
web.run_app(app, sock=listener, print=None)
"""
GEVENT = """
from gevent.pywsgi import WSGIServer

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger("gevent.pywsgi")
server = WSGIServer(("127.0.0.1", 0), application, log=logger, error_log=logger)
server.init_socket()
print("http://127.0.0.1:%d" % server.server_port)
server.serve_forever()
"""
EVENTLET = """
import warnings
warnings.simplefilter("ignore")
import eventlet
import eventlet.wsgi

logging.basicConfig(level=logging.INFO)
listener = eventlet.listen(("127.0.0.1", 0))
print("http://127.0.0.1:%d" % listener.getsockname()[1])
eventlet.wsgi.server(listener, application, log=logging.getLogger("eventlet.wsgi"))
"""


def make_server(name: str, modules: tuple[str, ...], loggers: list[str], script: str) -> Program:
    code = PREPARE.format(loggers=loggers) + script
    return Program(name=name, modules=modules, start=lambda _folder, _application: [sys.executable, "-c", code])


def logging_servers(*, is_filtered: bool) -> list[Program]:
    table = [
        ("uvicorn", ("uvicorn", "a2wsgi"), ["uvicorn.access", "uvicorn.error"], UVICORN),
        ("tornado", ("tornado",), ["tornado.access", "tornado.application", "tornado.general"], TORNADO),
        ("aiohttp", ("aiohttp", "aiohttp_wsgi"), ["aiohttp.access", "aiohttp.server"], AIOHTTP),
        ("gevent", ("gevent",), ["gevent.pywsgi"], GEVENT),
        ("eventlet", ("eventlet",), ["eventlet.wsgi"], EVENTLET),
    ]
    return [make_server(name, modules, loggers * is_filtered, script) for name, modules, loggers, script in table]


@pytest.fixture(scope="module", params=logging_servers(is_filtered=True), ids=program_name)
def logging_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return log_of(request.param, tmp_path_factory.mktemp(request.param.name))


def test_a_server_that_uses_logging_shows_every_request_and_no_session(logging_log: Log) -> None:
    program, text = logging_log
    assert [line for line in text.splitlines() for secret in SECRETS.values() if secret in line] == []
    # Uvicorn encodes more characters than the client. Tornado did not get the requests that make the application fail.
    missing = [marker for marker in MARKERS if marker not in unquote(text)]
    assert all(program.name == "tornado" and marker.startswith(("case=crash", "case=cut")) for marker in missing)


@pytest.mark.parametrize("program", logging_servers(is_filtered=False), ids=program_name)
def test_without_the_filter_a_server_that_uses_logging_shows_sessions(program: Program, tmp_path: Path) -> None:
    text = log_of(program, tmp_path).text
    assert {"query", "unmatched", "encoded-question-mark"} <= {name for name, value in SECRETS.items() if value in text}
