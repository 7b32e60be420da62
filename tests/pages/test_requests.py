"""The example requests before and after a migration, with curl and with Python."""

from typing import Any

import pytest

from flask_notifications import Operation
from flask_notifications.formats.requests import describe_move

BASE = "https://api.example.com"


def operation(path: str, successor: str | None = None, method: str = "GET", **options: Any) -> Operation:
    return Operation("account", method, path, successor, **options)


CONDITIONS: dict[str, Any] = {"query": {"cmd": ["", "x"], "v": "*"}, "headers": {"API-Version": ["1", ""]}}
MOVES = {
    "parameter": (operation("/a/{id}", "/v2/a/{id}"), f"{BASE}/a/ID", f"{BASE}/v2/a/ID"),
    "head, and another address": (
        operation("/a", "https://b.example/a", "HEAD"),
        f"--head {BASE}/a",
        "--head https://b.example/a",
    ),
    "without a scheme": (
        operation("/a/{user.name}", "//b.example/x", "POST"),
        f"-X POST {BASE}/a/USER_NAME",
        "-X POST https://b.example/x",
    ),
    "relative": (operation("/a/b", "c"), f"{BASE}/a/b", f"{BASE}/a/c"),
    "no successor": (operation("/a"), f"{BASE}/a", None),
    "no URL": (operation("/a", "urn:isbn:1"), f"{BASE}/a", None),
    "a script": (operation("/a", "javascript:alert(1)"), f"{BASE}/a", None),
    "a quote and letters": (operation("/it's/{الرقم}"), f"""'{BASE}/it'"'"'s/VALUE'""", None),
    "an account of this library": (
        operation("/a/{id}", "/Account", "POST", unify_session=True),
        f"-X POST '{BASE}/a/ID?sessionId=SESSION_ID'",
        f"-H 'Authorization: Bearer SESSION_ID' \\\n  '{BASE}/Account?accountId=ID'",
    ),
    "an account of another library": (
        operation("/a", "/Account", "POST", unify_session=True),
        f"-X POST '{BASE}/a?sessionId=SESSION_ID'",
        f"-X POST -H 'Authorization: Bearer SESSION_ID' \\\n  {BASE}/Account",
    ),
    "a version": (
        operation("/v1/{id}/**", "/v2/{id}/**", "*"),
        f"{BASE}/v1/ID/REST_OF_PATH",
        f"{BASE}/v2/ID/REST_OF_PATH",
    ),
    "conditions": (
        operation("/a", "/b", **CONDITIONS),
        f"-H 'API-Version: 1' \\\n  '{BASE}/a?cmd=x&v=VALUE'",
        f"{BASE}/b",
    ),
    "a carrier": (
        operation("/a", query={"sessionId": "*"}, unify_session=True),
        f"'{BASE}/a?sessionId=SESSION_ID'",
        None,
    ),
    "brackets": (operation("/a", "/b?c=[1]"), f"{BASE}/a", f"'{BASE}/b?c=%5B1%5D'"),
}


@pytest.mark.parametrize(("old", "before", "after"), MOVES.values(), ids=MOVES)
def test_the_example_with_curl(old: Operation, before: str, after: str | None) -> None:
    move = describe_move(old, BASE)
    assert move.before.in_curl() == f"curl {before}"
    assert (None if move.after is None else move.after.in_curl()) == (None if after is None else f"curl {after}")


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
