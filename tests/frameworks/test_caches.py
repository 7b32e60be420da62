"""A cache inside the application, with the URL as its key, keeps the responses of two users apart."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import flask
import pytest
from flask_caching import Cache
from werkzeug.test import Client

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation, session_of
from tests.services import service_or_skip

pytestmark = pytest.mark.slow

POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
OPERATIONS = [Operation("rows", "GET", "/rows/", unify_session=True)]
OWN_ROWS = [["alice"], ["bob"], ["alice"], ["bob"]]

# Django's last release that caches responses to requests with an Authorization header like all others.
OLD_DJANGO = "5.2.14"


def test_flask_caching_by_the_query_keeps_two_users_apart() -> None:
    app = flask.Flask("app")
    computed: list[str] = []

    @Cache(app, config={"CACHE_TYPE": "SimpleCache"}).cached(query_string=True)
    def rows() -> list[str]:
        session = session_of(flask.request.environ)
        assert session is not None
        computed.append(session.value)
        return [session.value]

    app.add_url_rule("/rows/", view_func=rows)
    client = Client(DeprecationMiddleware(app, POLICY, operations=OPERATIONS))
    responses = [client.get(f"/rows/?sessionId={user}") for user in ("alice", "bob", "alice", "bob")]
    assert [response.get_json() for response in responses] == OWN_ROWS
    assert computed == ["alice", "bob"]  # the cache works
    assert [response.headers["Deprecation"] for response in responses] == ["@1767225600"] * 4


def test_flask_caching_by_the_session_keeps_two_users_apart() -> None:
    app = flask.Flask("app")

    def session() -> str:
        credential = session_of(flask.request.environ)
        assert credential is not None
        return credential.value

    @Cache(app, config={"CACHE_TYPE": "SimpleCache"}).cached(make_cache_key=session)
    def rows() -> list[str]:
        return [session()]

    app.add_url_rule("/rows/", view_func=rows)
    client = Client(DeprecationMiddleware(app, POLICY, operations=OPERATIONS))
    headers = [{"Authorization": f"Bearer {user}"} for user in ("alice", "bob", "alice", "bob")]
    assert [client.get("/rows/", headers=each).get_json() for each in headers] == OWN_ROWS


@pytest.fixture(scope="session", params=["the installed one", OLD_DJANGO])
def django_path(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> str:
    """Return the folder of a release of Django, in pytest's cache, or an empty string for the installed one."""
    if request.param != OLD_DJANGO:
        return ""
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir(f"django-{OLD_DJANGO}")
    if not (folder / "django").exists():
        command = [sys.executable, "-m", "pip", "install", "--target", str(folder), f"django=={OLD_DJANGO}"]
        done = subprocess.run(command, capture_output=True, check=False)
        service_or_skip("a registry of Python packages", done.returncode == 0)
    return str(folder)


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        pytest.param("site", "query", id="the cache of the site"),
        pytest.param("page", "query", id="cache_page"),
        pytest.param("vary", "header", id="cache_page with vary_on_headers"),
    ],
)
def test_djangos_cache_by_url_keeps_two_users_apart(django_path: str, kind: str, source: str) -> None:
    project, program = str(Path(__file__).parents[2]), Path(__file__).with_name("django_caches.py")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (django_path, project)))}
    command = [sys.executable, str(program), kind, source]
    done = subprocess.run(command, env=environ, capture_output=True, check=True, text=True)
    result = json.loads(done.stdout)
    assert (result["version"] == OLD_DJANGO) == bool(django_path)
    assert result["rows"] == OWN_ROWS
