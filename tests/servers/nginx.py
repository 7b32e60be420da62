"""Run nginx as a real process, as a proxy for one of our servers."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from tests.servers.process import Server, running_with
from tests.services import program_or_skip

CONF = """
daemon off; {user} worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log info;
events {{ worker_connections 64; }}
http {{
    {log}
    proxy_cache_path {folder}/cache keys_zone=responses:1m;
    proxy_temp_path {folder}/proxy; client_body_temp_path {folder}/body; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port}{tls};
        location / {{ proxy_pass http://127.0.0.1:{upstream}; {site}; }}
    }}
}}
"""


def proxying(
    site: str, upstream: int, folder: Path, log: str | None = None, *, tls: str = ""
) -> AbstractContextManager[Server]:
    """Run nginx as a proxy for the server on port ``upstream`` of this machine, and
    stop it on exit.

    ``site`` holds the directives of its only location, besides ``proxy_pass``. nginx
    writes only to ``folder``. ``log`` holds the directives of its access log; by
    default, that is the one of nginx. ``tls`` holds those of its certificates; by
    default, it serves without TLS.
    """
    user = (
        "user root;" if os.geteuid() == 0 else ""
    )  # otherwise its worker could not enter the folder
    return running_with(
        CONF,
        [
            program_or_skip("nginx"),
            "-p",
            str(folder),
            "-e",
            f"{folder}/error.log",
            "-c",
        ],
        folder,
        user=user,
        log=f"access_log {folder}/access.log;" if log is None else log,
        tls=f" ssl; {tls}" if tls else "",
        upstream=upstream,
        site=site,
    )
