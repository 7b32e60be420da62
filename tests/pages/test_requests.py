"""The example requests before and after a migration, with curl and with Python."""

import pytest

from flask_notifications import Operation
from flask_notifications.pages.requests import describe_move

BASE = "https://api.example.com"


@pytest.mark.parametrize(
    ("operation", "before", "after"),
    [
        pytest.param(
            Operation("a", "GET", "/a/{id}", "/v2/a/{id}"), f"curl {BASE}/a/ID", f"curl {BASE}/v2/a/ID", id="parameter"
        ),
        pytest.param(
            Operation("a", "HEAD", "/a", "https://b.example/a"),
            f"curl --head {BASE}/a",
            "curl --head https://b.example/a",
            id="head, and another address",
        ),
        pytest.param(
            Operation("a", "POST", "/a/{user.name}", "//b.example/x"),
            f"curl -X POST {BASE}/a/USER_NAME",
            "curl -X POST https://b.example/x",
            id="without a scheme",
        ),
        pytest.param(Operation("a", "GET", "/a/b", "c"), f"curl {BASE}/a/b", f"curl {BASE}/a/c", id="relative"),
        pytest.param(Operation("a", "GET", "/a", None), f"curl {BASE}/a", None, id="no successor"),
        pytest.param(Operation("a", "GET", "/a", "urn:isbn:1"), f"curl {BASE}/a", None, id="no URL"),
        pytest.param(Operation("a", "GET", "/a", "javascript:alert(1)"), f"curl {BASE}/a", None, id="a script"),
        pytest.param(
            Operation("a", "GET", "/it's/{الرقم}", None),
            f"""curl '{BASE}/it'"'"'s/VALUE'""",
            None,
            id="a quote and letters",
        ),
        pytest.param(
            Operation("account", "POST", "/a/{id}", "/Account", unify_session=True),
            f"curl -X POST '{BASE}/a/ID?sessionId=SESSION_ID'",
            f"curl -H 'Authorization: Bearer SESSION_ID' \\\n  '{BASE}/Account?accountId=ID'",
            id="an account of this library",
        ),
        pytest.param(
            Operation("account", "POST", "/a", "/Account", unify_session=True),
            f"curl -X POST '{BASE}/a?sessionId=SESSION_ID'",
            f"curl -X POST -H 'Authorization: Bearer SESSION_ID' \\\n  {BASE}/Account",
            id="an account of another library",
        ),
        pytest.param(
            Operation("a", "GET", "/a", "/b?c=[1]"),
            f"curl {BASE}/a",
            f"curl '{BASE}/b?c=%5B1%5D'",
            id="brackets",
        ),
    ],
)
def test_the_example_with_curl(operation: Operation, before: str, after: str | None) -> None:
    move = describe_move(operation, BASE)
    assert move.before.in_curl() == before
    assert (None if move.after is None else move.after.in_curl()) == after


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("GET", 'get(\n    "'),
        ("PATCH", 'patch(\n    "'),
        ("PURGE", 'request(\n    "PURGE",\n    "'),
        ("TRACE", 'request(\n    "TRACE",\n    "'),
    ],
)
def test_the_example_with_python(method: str, call: str) -> None:
    code = describe_move(Operation("a", method, "/a"), BASE).before.in_python()
    assert f'requests.{call}{BASE}/a",\n    timeout=30,\n)' in code
    compile(code, "example", "exec")
