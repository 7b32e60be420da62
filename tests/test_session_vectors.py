"""Vectors that are shared with other implementations: which session a request has, and where it can be seen."""

import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from flask_notifications import DeprecationMiddleware
from tests.session_requests import PAGES, POLICY, SESSION, Recorder, send
from tests.wsgi import Response, environ_of, run

VECTORS = json.loads((Path(__file__).parent / "vectors" / "sessions.json").read_text("utf-8"))


def vectors(kind: str) -> list[Any]:
    """Return the vectors of one kind as parameters of a test."""
    return [
        pytest.param(vector, id=f"{vector['id']} {vector['title']}") for vector in VECTORS if vector["kind"] == kind
    ]


def vector_environ(vector: dict[str, Any]) -> dict[str, Any]:
    """Return the environ that a vector describes."""
    environ = {**environ_of(), **vector["environ"], "wsgi.input": BytesIO(vector.get("body", "").encode())}
    if "QUERY_STRING" not in vector["environ"]:
        del environ["QUERY_STRING"]
    return environ


def describe(app: Recorder, response: Response) -> dict[str, Any]:
    """Return an outcome as the vectors express it."""
    if not app.seen:
        error = re.search(r'error="([^"]*)"', response.one("WWW-Authenticate"))
        return {"outcome": "error", "status": response.code, "error": error and error[1]}
    if app.session is None:
        return {"outcome": "none"}
    return {"outcome": "session", "session_id": app.session.value, "source": app.session.source}


def agrees(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    """Return whether an outcome is an expected one; members that a vector leaves out may have any value."""
    if expected["outcome"] != actual["outcome"]:
        return False
    if expected["outcome"] == "error":
        code = None if expected.get("no_error_attr") else expected.get("error", actual["error"])
        return actual["status"] in expected["status"] and actual["error"] == code
    return all(actual[key] == expected[key] for key in ("session_id", "source") if key in expected)


@pytest.mark.parametrize("vector", vectors("extract"))
def test_a_request_has_the_outcome_that_its_vector_expects(vector: dict[str, Any]) -> None:
    environ = vector_environ(vector)
    app, response = send(environ, require_session=vector["mode"] == "required")
    actual = describe(app, response)
    assert any(agrees(expected, actual) for expected in [vector["expect"], *vector.get("accept", [])]), actual
    assert not any(agrees(never, actual) for never in vector.get("never", [])), actual
    if vector["expect"].get("reaches_app"):
        assert app.seen
    if vector["expect"].get("body_untouched"):
        assert environ["wsgi.input"].read() == vector["body"].encode()


def assert_shows(environ: dict[str, Any], expected: dict[str, Any]) -> None:
    """Check the values of an environ against the rules of a vector."""
    for key, rule in expected.items():
        if key == "*str*":
            strings = [v for k, v in environ.items() if isinstance(v, str) and k not in rule.get("except", [])]
        elif key == "*own*":
            strings = [show(environ[SESSION]) for show in (repr, str)]
        else:
            strings = [environ[key]]
        for string in strings:
            assert rule.get("equals", string) == string
            assert all(part in string for part in rule.get("contains", []))
            assert not any(part in string for part in rule.get("not_contains", []))


@pytest.mark.parametrize("vector", vectors("leak"))
def test_an_environ_shows_only_what_its_vector_permits(vector: dict[str, Any]) -> None:
    environ = vector_environ(vector)
    app = Recorder()
    middleware = DeprecationMiddleware(app, POLICY, operations=PAGES)
    if vector["app"] == "nested":
        middleware = DeprecationMiddleware(middleware, POLICY, operations=PAGES)
    run(middleware, environ)
    expected = vector["expect"]
    assert_shows(environ, expected["environ_after"])
    if "seen_by_app" in expected:
        assert_shows(app.seen[0], expected["seen_by_app"])
    if "session_id_seen" in expected:
        assert app.session is not None
        assert app.session.value == expected["session_id_seen"]
