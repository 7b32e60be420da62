"""nginx as a real process, in front of a server of ours."""

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
    access_log {folder}/access.log;
    proxy_cache_path {folder}/cache keys_zone=answers:1m;
    proxy_temp_path {folder}/proxy; client_body_temp_path {folder}/body; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://127.0.0.1:{upstream}; {site}; }}
    }}
}}
"""


@contextmanager
def proxying(site: str, upstream: int, folder: Path) -> Iterator[Server]:
    """Run nginx, until it is no longer needed, in front of the server on the port ``upstream`` of this machine.

    ``site`` are the directives of its only location, besides ``proxy_pass``; all that it writes is in ``folder``.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    service_or_skip("nginx", program is not None)
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""  # or its worker could not enter the folder
    conf = CONF.format(folder=folder, port=port, upstream=upstream, site=site, user=user)
    (folder / "nginx.conf").write_text(conf, encoding="utf-8")
    command = [str(program), "-p", str(folder), "-c", "nginx.conf", "-e", str(folder / "error.log")]
    with running(command, folder, port) as server:
        yield server
