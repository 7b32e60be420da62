"""The example requests before and after a migration, with curl."""

from typing import Any

import pytest

from flask_notifications import Operation
from flask_notifications.formats.requests import describe_requests

BASE = "https://api.example.com"


def operation(
    path: str, successor: str | None = None, method: str = "GET", **options: Any
) -> Operation:
    return Operation("account", method, path, successor, **options)


CONDITIONS: dict[str, Any] = {
    "query": {"cmd": ["", "x"], "v": "*", "w": "", "x": "ab"},
    "headers": {"V": ["1", ""]},
}
BEARER = "-H 'Authorization: Bearer SESSION_ID'"
# The operation, and the requests before and after; @ is the address.
MOVES = {
    "parameter": (operation("/a/{id}", "/v2/a/{id}"), "@/a/ID", "@/v2/a/ID"),
    "head, elsewhere": (
        operation("/a", "https://b.com/a", "HEAD"),
        "--head @/a",
        "--head https://b.com/a",
    ),
    "without a scheme": (
        operation("/{a.b}", "//b.com/x", "PUT"),
        "-X PUT @/A_B",
        "-X PUT https://b.com/x",
    ),
    "relative": (operation("/a/b", "c"), "@/a/b", "@/a/c"),
    "no successor": (operation("/a"), "@/a", None),
    "no URL": (operation("/a", "urn:isbn:1"), "@/a", None),
    "a script": (operation("/a", "javascript:alert(1)"), "@/a", None),
    "a quote and letters": (operation("/it's/{الرقم}"), """'@/it'"'"'s/VALUE'""", None),
    "an account of this library": (
        operation("/a/{id}", "/Account", "POST", unify_session=True),
        "-X POST '@/a/ID?sessionId=SESSION_ID'",
        f"{BEARER} \\\n  '@/Account?accountId=ID'",
    ),
    "an account of another library": (
        operation("/a", "/Account", "POST", unify_session=True),
        "-X POST '@/a?sessionId=SESSION_ID'",
        f"-X POST {BEARER} \\\n  @/Account",
    ),
    "a version": (
        operation("/v1/{id}/**", "/v2/{id}/**", "*"),
        "@/v1/ID/REST_OF_PATH",
        "@/v2/ID/REST_OF_PATH",
    ),
    "conditions": (
        operation("/a", "/b", **CONDITIONS),
        "-H 'V: 1' \\\n  '@/a?cmd=x&v=VALUE&x=ab'",
        "@/b",
    ),
    "a carrier": (
        operation("/a", query={"sessionId": "*"}, unify_session=True),
        "'@/a?sessionId=SESSION_ID'",
        None,
    ),
    "another key beside the session": (
        operation("/a", query={"v": "1"}, unify_session=True),
        "'@/a?v=1&sessionId=SESSION_ID'",
        None,
    ),
    "brackets": (operation("/a", "/b?c=[1]"), "@/a", "'@/b?c=%5B1%5D'"),
}


@pytest.mark.parametrize(("old", "before", "after"), MOVES.values(), ids=MOVES)
def test_the_example_with_curl(old: Operation, before: str, after: str | None) -> None:
    old_request, new_request = describe_requests(old, BASE)[:2]
    assert old_request.in_curl().replace(BASE, "@") == f"curl {before}"
    if after is None:
        assert new_request is None
    else:
        assert new_request is not None
        assert new_request.in_curl().replace(BASE, "@") == f"curl {after}"
