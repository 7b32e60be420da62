"""A service of OpenStack announces and closes parts of its version, by the filter in its own PasteDeploy file."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.applications.test_suites import PROJECT, Suite, install
from tests.services import service_or_skip

BARBICAN = Suite("barbican==23.0.0", (), ("-e", str(PROJECT)), 0)
PLAN = """
deprecated_at = 2026-01-01T00:00:00Z

[[operations]]
name = "secrets"
method = "*"
path = "/v1/secrets/**"
successor = "/v2/secrets/**"

[[operations]]
name = "orders"
method = "*"
path = "/v1/orders/**"
sunset_at = 2026-02-01T00:00:00Z
enforce_sunset = true
"""
FILTER = """
[pipeline:main]
pipeline = retire api

[filter:retire]
use = egg:Flask-Notifications#retire
plan = retirement.toml

[composite:api]
"""
SCRIPT = """
import json, sys
from barbican.common import config
config.CONF([], project="barbican", default_config_files=["barbican.conf"])
from paste.deploy import loadapp
from webob import Request
app = loadapp(f"config:{sys.argv[1]}/api.ini")
user = {"X-Identity-Status": "Confirmed", "X-Roles": "member,reader", "X-User-Id": "u", "X-Project-Id": "p"}
for path in ("/v1/secrets?limit=1", "/v1/containers", "/v1/orders"):
    response = Request.blank(path, headers={"Accept": "application/json"} | user).get_response(app)
    print(json.dumps([response.status_int, response.headers.get("Deprecation"), response.headers.get("Link")]))
"""


@pytest.mark.world
def test_barbican_announces_and_closes(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("applications-barbican")
    service_or_skip("a registry of Python packages", install(BARBICAN, folder))
    pipelines = (folder / "venv/etc/barbican/barbican-api-paste.ini").read_text()
    for old, new in {
        "[composite:main]\n": FILTER,
        "/v1: barbican-api-keystone": "/v1: barbican_api",
        " unauthenticated-context ": " context ",  # the user is in the headers, as a proxy would send them
    }.items():
        assert old in pipelines
        pipelines = pipelines.replace(old, new)
    (tmp_path / "api.ini").write_text(pipelines)
    (tmp_path / "retirement.toml").write_text(PLAN)
    database = f"[DEFAULT]\nsql_connection = sqlite:///{tmp_path}/barbican.sqlite3\ndb_auto_create = true\n"
    (tmp_path / "barbican.conf").write_text(database)
    command = [str(folder / "venv/bin/python"), "-W", "ignore", "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")] == [
        [200, "@1767225600", '</v2/secrets>; rel="successor-version"'],
        [200, None, None],
        [410, "@1767225600", None],
    ]
