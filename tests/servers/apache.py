"""Run Apache as a real process."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tests.servers.process import Server, running_with
from tests.services import program_or_skip

# The braces are those of ``running_with``.
CONF = """
ServerName localhost
Listen 127.0.0.1:{port}
User www-data
Group www-data
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
"""
USUAL_MODULES = ("mpm_event", "authn_core", "authz_core")


def running_apache(
    site: str, modules: Sequence[str], folder: Path, **values: object
) -> AbstractContextManager[Server]:
    """Run Apache with further directives and modules, as ``running_with`` does."""
    loaded = ""
    for name in (*USUAL_MODULES, *modules):
        loaded += f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"
    command = [program_or_skip("apache2"), "-D", "FOREGROUND", "-f"]
    return running_with(loaded + CONF + site, command, folder, **values)
