"""Proxies as real processes, before a server of ours, with the log that the documentation shows or their own."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.servers.nginx import proxying
from tests.servers.process import ROOT, Server, free_port, running
from tests.services import service_or_skip

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
CADDY_DEFAULT = "{\n}\n"
NGINX_DEFAULT = "access_log /var/log/nginx/access.log;"


@contextmanager
def run_nginx(log: str, upstream: int, folder: Path) -> Iterator[Server]:
    """Run nginx with these directives about its access log."""
    log = log.replace("/var/log/nginx/", f"{folder}/")
    with proxying("proxy_http_version 1.1", upstream, folder, log=log) as server:
        yield server


@contextmanager
def run_haproxy(log: str, upstream: int, folder: Path) -> Iterator[Server]:
    """Run HAProxy with these lines in its frontend; it logs to standard output."""
    program = find_program("haproxy")
    port = free_port()
    conf = HAPROXY.format(log=log.replace("\n", "\n    "), port=port, upstream=upstream)
    (folder / "haproxy.cfg").write_text(conf, encoding="utf-8")
    with running([program, "-db", "-f", str(folder / "haproxy.cfg")], folder, port) as server:
        yield server


@contextmanager
def run_caddy(log: str, upstream: int, folder: Path) -> Iterator[Server]:
    """Run Caddy with these global options; it logs to standard error."""
    program = find_program("caddy")
    port = free_port()
    options = log.replace("{\n", "{\nadmin off\nauto_https off\n", 1)
    (folder / "Caddyfile").write_text(CADDY.format(log=options, port=port, upstream=upstream), encoding="utf-8")
    # It keeps certificates and its last configuration in the home directory.
    command = ["env", f"HOME={folder}", program, "run", "--config", str(folder / "Caddyfile")]
    with running(command, folder, port) as server:
        yield server


def find_program(name: str) -> str:
    """Return the path of a program, which Debian may have put where only root looks."""
    program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    service_or_skip(name, program is not None)
    return str(program)


def documented_log(title: str) -> str:
    """Return the first block of code below a line of docs/logs.md that begins with this title."""
    page = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
    found = re.search(rf"^{title}\b[^\n]*:\n\n```\w*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


class Proxy(NamedTuple):
    """A proxy: how it is run with the lines about its log, the file of the log, and the lines for its default log."""

    name: str
    run: Callable[[str, int, Path], AbstractContextManager[Server]]
    file: str
    default: str


PROXIES = [
    Proxy("nginx", run_nginx, "access.log", NGINX_DEFAULT),
    Proxy("HAProxy", run_haproxy, "stdout.log", "option httplog"),
    Proxy("Caddy", run_caddy, "stderr.log", CADDY_DEFAULT),
]
