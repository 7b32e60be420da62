"""What a machine may not have: its tests are skipped by name, or fail if
``REQUIRE_SERVICES=1`` is set.
"""

import os
import subprocess
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from shutil import which

import pytest
from sqlalchemy import URL, NullPool, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

POSTGRESQL = "postgresql+psycopg://postgres@127.0.0.1:5432/test"
MARIADB = "mysql+pymysql://root@127.0.0.1:3306/test"


# Debian keeps some programs off the PATH.
_POSTGRESQL = map(str, Path("/usr/lib/postgresql").glob("*/bin"))
_PROGRAMS = os.pathsep.join(
    [os.environ["PATH"], "/usr/sbin", "/usr/local/sbin", *_POSTGRESQL]
)


# What a test may need, and the Debian package that has it.
PACKAGES = {
    "MariaDB": "mariadb-server",
    "PostgreSQL": "postgresql",
    "apache2": "apache2-bin",
    "caddy": "caddy",
    "chromium": "chromium",
    "curl": "curl",
    "galera-4": "galera-4",
    "git": "git",
    "haproxy": "haproxy",
    "java": "default-jre-headless",
    "jq": "jq",
    "mod_wsgi": "libapache2-mod-wsgi-py3",
    "nginx": "nginx-light",
    "node": "nodejs",
    "npm": "npm",
    "pg_ctl": "postgresql",
    "pgbouncer": "pgbouncer",
    "promtool": "prometheus",
    "rsync": "rsync",
}


def explain_skips(reasons: Iterable[str]) -> list[str]:
    """Return lines about what was missing, and how to get it.

    :param reasons: why tests were skipped, such as "nginx is missing".
    """
    names = sorted({reason.removesuffix(" is missing") for reason in reasons})
    packages = {PACKAGES[name] for name in names if name in PACKAGES}
    lines = [f"Skipped, because these are missing: {', '.join(names)}"]
    if packages:
        lines.append(f"On Debian: apt-get install {' '.join(sorted(packages))}")
    if {"PostgreSQL", "MariaDB"}.intersection(names):
        lines.append(f"They must need no password: {POSTGRESQL} and {MARIADB}")
    return lines


def service_or_skip(name: str, present: bool) -> None:
    """Skip the test if a service is missing, or fail it if all services are required."""
    if present:
        return
    if os.environ.get("REQUIRE_SERVICES") == "1":
        pytest.fail(f"{name} is required and missing")
    pytest.skip(f"{name} is missing")


def program_or_skip(*names: str) -> str:
    """Return the path of the first program that is installed; skip the test, or fail
    it, if none is.
    """
    programs = [path for name in names if (path := which(name, path=_PROGRAMS))]
    service_or_skip(names[0], bool(programs))
    return programs[0]


def chromium_or_skip() -> list[str]:
    """Return the command of a browser that contacts no other machine."""
    return [
        program_or_skip("chromium", "chromium-browser", "google-chrome"),
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--no-proxy-server",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]


def npm_program_or_skip(package: str, program: str) -> list[str]:
    """Return the command of a program in an npm package, which npm keeps between runs;
    skip the test, or fail it.
    """
    npm = program_or_skip("npm")
    retries = ["--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000"]
    command = [npm, "exec", "--yes", "--prefer-offline", *retries]
    command += [f"--package={package}", "--"]
    tried = subprocess.run(
        [*command, "node", "--version"], capture_output=True, check=False
    )
    service_or_skip(f"{package} of a registry of npm packages", tried.returncode == 0)
    return [*command, program]


@cache
def _is_reachable(url: str) -> bool:
    engine = create_engine(url, connect_args={"connect_timeout": 2}, poolclass=NullPool)
    with suppress(OperationalError), engine.connect():
        return True
    return False


@contextmanager
def postgresql_schema() -> Iterator[str]:
    """Provide the URL of a PostgreSQL database with a schema of its own, so that it
    looks empty.
    """
    # A failed test may still lock its tables.
    with _created(
        POSTGRESQL, "SCHEMA", "SET lock_timeout = '5s'; DROP SCHEMA {} CASCADE"
    ) as schema:
        yield f"{POSTGRESQL}?options=-csearch_path%3D{schema}"


@contextmanager
def new_database(server: str) -> Iterator[URL]:
    """Provide the URL of a new database on a server; some drivers cannot choose a
    schema when they connect.
    """
    force = (
        " WITH (FORCE)" if server == POSTGRESQL else ""
    )  # a test may still be connected
    with _created(server, "DATABASE", f"DROP DATABASE {{}}{force}") as name:
        yield make_url(server).set(database=name)


@contextmanager
def _created(server: str, kind: str, drop: str) -> Iterator[str]:
    """Create a schema or a database, yield its name, and drop it on exit."""
    service_or_skip(
        "MariaDB" if server == MARIADB else "PostgreSQL", _is_reachable(server)
    )
    name = f"test_{uuid.uuid4().hex}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE {kind} {name}"))
    try:
        yield name
    finally:
        with admin.connect() as connection:
            connection.execute(text(drop.format(name)))
        admin.dispose()
