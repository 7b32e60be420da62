"""Run nginx as a real process, as a proxy for one of our servers."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.process import Server, free_port, running
from tests.services import service_or_skip

CONF = """
daemon off; {user} worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log info;
events {{ worker_connections 64; }}
http {{
    {log}
    proxy_cache_path {folder}/cache keys_zone=responses:1m;
    proxy_temp_path {folder}/proxy; client_body_temp_path {folder}/body; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://127.0.0.1:{upstream}; {site}; }}
    }}
}}
"""


@contextmanager
def proxying(site: str, upstream: int, folder: Path, log: str | None = None) -> Iterator[Server]:
    """Run nginx as a proxy for the server on port ``upstream`` of this machine, and stop it on exit.

    ``site`` holds the directives of its only location, besides ``proxy_pass``. nginx writes only to ``folder``.
    ``log`` holds the directives of its access log; by default, that is the one of nginx.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    service_or_skip("nginx", program is not None)
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""  # otherwise its worker could not enter the folder
    log = f"access_log {folder}/access.log;" if log is None else log
    conf = CONF.format(folder=folder, port=port, upstream=upstream, site=site, user=user, log=log)
    (folder / "nginx.conf").write_text(conf, encoding="utf-8")
    command = [str(program), "-p", str(folder), "-c", "nginx.conf", "-e", str(folder / "error.log")]
    with running(command, folder, port) as server:
        yield server
