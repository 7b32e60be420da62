"""No log of a real server or proxy shows a session ID, whatever the request and its
outcome.
"""

import re
import socket
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from flask_notifications.usage import read_usage
from tests.middleware import PLAN
from tests.servers.apache import running_apache
from tests.servers.app import LARGE
from tests.servers.nginx import proxying
from tests.servers.process import (
    GUNICORN_FILTER,
    ROOT,
    Program,
    Server,
    every_server,
    free_port,
    gunicorn,
    request_of,
    running_with,
    server_fixture,
    serving,
)
from tests.services import program_or_skip

LIST = "/API/Notification/"
REFERER = "Referer: https://api.example"
# What comes after "GET", with * in place of an ID that ends in the number of the
# request, and a header.
REQUESTS = [
    (f"{LIST}?sessionId=alice-0001&case=query", ""),
    (f"{LIST}?case=header", "Authorization: Bearer bob-0002"),
    ("/api/notification?case=odd&SESSIONid=*", ""),
    (f"{LIST}?%73ession%49d=*&case=key", ""),
    (f"{LIST}?sessionId=*&sessionid=*&case=twice", ""),
    (f"{LIST}?sessionId=*-a&case=differ", "Authorization: Bearer *-b"),
    (f"{LIST}7?sessionId=*&case=unmatched", ""),
    (f"{LIST}7?%53essionid=*&case=unmatched-key", ""),
    ("/broken?sessionId=*&case=broken", ""),
    ("/crash?sessionId=*&case=crash", ""),
    ("/cut?sessionId=*&case=cut", ""),
    ("/unmatched/crash?sessionId=*&case=crash-unmatched", ""),
    (f"{LIST}%3FsessionId=*&case=encoded-mark", ""),
    (f"{LIST}7?next=%2F%3Fsessionid%3d*&case=encoded-uri", ""),
    (LIST, f"{REFERER}{LIST}?sessionId=*"),
    (f"{LIST}7", f"{REFERER}/api/notification?SessionID=*"),
]
# Query pairs beside the session, which stay in the log.
MARKERS = [
    target.rpartition("&")[2] for target, _header in REQUESTS if "&case=" in target
]
# Invalid and abandoned requests, which each server reports in its own way.
NOT_HTTP = b"GET /API/Notification/?sessionId=c0deAA\x00 HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n"
WITHOUT_VERSION = b"GET /API/Notification/?sessionId=c0deBB&x=\r\n\r\n"
LEFT = f"{LIST}?sessionId=large-0004&case=left"
SECRET = re.compile(r"alice-0001|bob-0002|large-0004|c0de(?:\d\d|AA|BB)")


def send_all(server: Server, *skipped: str) -> None:
    """Send all requests to a server, except those whose targets begin with a string
    that is given.
    """
    for number, (target, header) in enumerate(REQUESTS):
        if not target.startswith(skipped):
            request = request_of("GET", target, *filter(None, [header]))
            server.exchange(request.replace(b"*", b"c0de%02d" % number))
    server.exchange(NOT_HTTP)
    server.exchange(WITHOUT_VERSION)
    with server.slow_reader(LEFT) as connection:
        assert connection.recv(12).endswith(b"200")
    # Without a reset, which servers report in another way.
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(request_of("GET", LEFT))
    server.ask("GET", "/news")


def log_of(program: Program, folder: Path, *skipped: str) -> str:
    """Return everything that a server wrote until it stopped."""
    with serving(program, folder) as server:
        send_all(server, *skipped)
    return server.written()


def shown(log: str) -> list[str]:
    return [line for line in log.splitlines() if SECRET.search(line)]


@pytest.mark.parametrize(
    "program",
    [
        *every_server("gunicorn-gthread", "uwsgi", "waitress"),
        pytest.param(
            gunicorn("gthread", f"preload_app = True{GUNICORN_FILTER}"),
            id="with-preload_app",
        ),
    ],
)
def test_no_log_shows_the_session(program: Program, tmp_path: Path) -> None:
    log = log_of(program, tmp_path)
    assert shown(log) == []
    # Waitress has no access log, and uWSGI is configured to leave targets out.
    assert [marker for marker in MARKERS if marker in log] == (
        MARKERS if "gunicorn" in program.modules else []
    )
    # Two requests make the application fail before its response, and one during it.
    # Flask reports one more.
    assert log.count("RuntimeError: the application failed") == 3
    assert log.count("RuntimeError: the view failed") == 1


PREPARE = """
import logging
from flask_notifications import SessionLogFilter
from tests.servers.app import application

logging.basicConfig(level=logging.INFO)
for name in {loggers}:
    logging.getLogger(name).addFilter(SessionLogFilter())
port = {port}
print(f"http://127.0.0.1:{{port}}")
"""
WERKZEUG = """
from werkzeug.serving import run_simple

run_simple("127.0.0.1", port, application, threaded=True)
"""
UVICORN = """
import uvicorn
from a2wsgi import WSGIMiddleware

uvicorn.run(WSGIMiddleware(application), host="127.0.0.1", port=port)
"""
TORNADO = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
from tornado.httpserver import HTTPServer
from tornado.wsgi import WSGIContainer

async def main():
    HTTPServer(WSGIContainer(application, ThreadPoolExecutor())).listen(port, "127.0.0.1")
    await asyncio.Event().wait()

asyncio.run(main())
"""
AIOHTTP = """
from aiohttp import web
from aiohttp_wsgi import WSGIHandler

app = web.Application()
app.router.add_route("*", "/{path_info:.*}", WSGIHandler(application))
web.run_app(app, host="127.0.0.1", port=port, print=None)
"""
GEVENT = """
from gevent.pywsgi import WSGIServer

logger = logging.getLogger("gevent.pywsgi")
WSGIServer(("127.0.0.1", port), application, log=logger, error_log=logger).serve_forever()
"""
EVENTLET = """
import warnings
warnings.simplefilter("ignore")
import eventlet
import eventlet.wsgi

eventlet.wsgi.server(eventlet.listen(("127.0.0.1", port)), application, log=logging.getLogger("eventlet.wsgi"))
"""


# The modules that a server needs, its loggers, and its script.
SCRIPTS: dict[str, tuple[list[str], str]] = {
    "werkzeug": (["werkzeug"], WERKZEUG),
    "uvicorn a2wsgi": (["uvicorn.access", "uvicorn.error"], UVICORN),
    "tornado": (["tornado.access", "tornado.application", "tornado.general"], TORNADO),
    "aiohttp aiohttp_wsgi": (["aiohttp.access", "aiohttp.server"], AIOHTTP),
    "gevent": (["gevent.pywsgi"], GEVENT),
    "eventlet": (["eventlet.wsgi"], EVENTLET),
}
OF_THE_WORLD = [pytest.param(name, marks=pytest.mark.world) for name in SCRIPTS]


@pytest.mark.parametrize("modules", ["werkzeug", *OF_THE_WORLD[1:]])
def test_servers_with_logging_show_all_and_no_session(
    modules: str, tmp_path: Path
) -> None:
    loggers, script = SCRIPTS[modules]
    code = PREPARE.format(loggers=loggers, port=free_port()) + script
    program = Program(
        name=modules,
        modules=tuple(modules.split()),
        start=lambda *_unused: [sys.executable, "-c", code],
    )
    # Tornado leaves a request without a response if the application fails.
    skipped = ("/crash", "/cut", "/unmatched/crash") if modules == "tornado" else ()
    log = log_of(program, tmp_path, *skipped)
    assert shown(log) == []
    for marker in MARKERS:
        if not (skipped and marker.startswith(("case=crash", "case=cut"))):
            # Uvicorn encodes more characters than the client.
            assert marker in unquote(log)


HAPROXY = """
global
    log stdout format raw local0
defaults
    mode http
    log global
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend proxy
    bind 127.0.0.1:{port}
    {log}
    default_backend origin
backend origin
    server origin 127.0.0.1:{upstream}
"""
CADDY = """
{log}
http://:{port} {{
    bind 127.0.0.1
    log
    reverse_proxy 127.0.0.1:{upstream}
}}
"""
APACHE = """
LogFormat "%h %l %u %t \\"%r\\" %>s %b \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
CustomLog {folder}/access.log combined
ProxyPass / http://127.0.0.1:{upstream}/ nocanon
"""
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def find_log(title: str) -> str:
    """Return the documented log format of a proxy."""
    _before, _title, rest = PAGE.partition(f"\n{title}")
    return rest.partition("```")[2].partition("\n")[2].partition("```")[0]


def run_nginx(log: str, upstream: int, folder: Path) -> AbstractContextManager[Server]:
    location = PAGE.partition("```nginx\nlocation")[2].partition("```")[0]
    site = f"location{location}proxy_http_version 1.1"
    site = site.replace(":8000", f":{upstream}")
    log = log.replace("/var/log/nginx/", f"{folder}/")
    return proxying(site, upstream, folder, log=log)


def run_haproxy(
    log: str, upstream: int, folder: Path
) -> AbstractContextManager[Server]:
    command = [program_or_skip("haproxy"), "-db", "-f"]
    log = log.replace("\n", "\n    ")
    return running_with(HAPROXY, command, folder, log=log, upstream=upstream)


def run_caddy(log: str, upstream: int, folder: Path) -> AbstractContextManager[Server]:
    log = log.replace("{\n", "{\nadmin off\nauto_https off\n", 1)
    # It keeps certificates and its last configuration in the home directory.
    command = ["env", f"HOME={folder}", program_or_skip("caddy")]
    command += ["run", "--adapter=caddyfile", "--config"]
    return running_with(CADDY, command, folder, log=log, upstream=upstream)


origin = server_fixture([gunicorn("gthread")])


@pytest.mark.parametrize(
    ("title", "run", "file"),
    [
        ("nginx", run_nginx, "access.log"),
        ("HAProxy", run_haproxy, "stdout.log"),
        ("Caddy", run_caddy, "stderr.log"),
    ],
)
def test_the_documented_proxy_log_has_all_paths_and_no_session(
    title: str, run: Any, file: str, origin: Server, tmp_path: Path
) -> None:
    with run(find_log(title), origin.port, tmp_path) as proxy:
        response = proxy.ask("GET", LIST, "Authorization: Bearer large-0004")
        assert response.body == LARGE
        assert response.all("Deprecation") == ["@1767225600"]
        send_all(proxy)
    log = (tmp_path / file).read_text(encoding="latin-1")
    assert shown(log) == []
    for target, _header in REQUESTS:
        assert re.split("[?%#]", target)[0] in log


def test_calls_are_counted_in_logs_that_servers_wrote(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("gunicorn", "nginx", "apache")]
    headers = ('User-Agent: job/1 (a "b")', "Authorization: Bearer bob-0002")
    with (
        serving(gunicorn("gthread"), folders[0]) as origin,
        run_nginx(find_log("nginx"), origin.port, folders[1]) as proxy,
        running_apache(
            APACHE, ("proxy", "proxy_http"), folders[2], upstream=proxy.port
        ) as front,
    ):
        for target in (LIST, f"{LIST}?sessionId=alice-0001", f"{LIST}7", '/"\\%00\xe9'):
            front.ask("GET", target, *headers)
    for folder in folders:
        log = folder / "access.log"
        report = read_usage(
            None, logs=[log], plan=PLAN, operations=["current_user"], log_prefix="/"
        )
        (usage,) = report.operations
        assert (usage.answered, usage.failed) == (1, 1), folder
        assert [caller.client for caller in usage.callers] == ["job/1"]
