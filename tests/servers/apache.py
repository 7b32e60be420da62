"""Run Apache as a real process, as a proxy for one of our servers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.process import Server, free_port, running
from tests.services import program_or_skip

MODULES = Path("/usr/lib/apache2/modules")
CONF = """
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authn_core_module {modules}/mod_authn_core.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
ServerName localhost
Listen 127.0.0.1:{port}
User www-data
Group www-data
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
LogFormat "%h %l %u %t \\"%r\\" %>s %b \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
CustomLog {folder}/access.log combined
ProxyPass / http://127.0.0.1:{upstream}/ nocanon
"""


@contextmanager
def apache(upstream: int, folder: Path) -> Iterator[Server]:
    """Run Apache as a proxy for the server on port ``upstream`` of this machine, and stop it on exit."""
    program = program_or_skip("apache2")
    port = free_port()
    conf = folder / "apache.conf"
    conf.write_text(CONF.format(modules=MODULES, port=port, folder=folder, upstream=upstream), encoding="utf-8")
    with running([program, "-D", "FOREGROUND", "-f", str(conf)], folder, port) as server:
        yield server
