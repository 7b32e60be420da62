"""No spelling of a path slips past: what a view answers is announced and observed while
open, and 410 while closed.
"""

import re
from collections.abc import Callable
from functools import cache
from io import StringIO
from itertools import product
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest

from flask_notifications import Call, DeprecationMiddleware, Operation
from flask_notifications.testing import assert_plan_reaches
from tests.frameworks.routers import PATHS, ROUTERS, VIEW
from tests.middleware import CLOSED, DATE_ONLY
from tests.wsgi import Response, environ_of, run

OPERATIONS = [Operation(path, "GET", path) for path in PATHS]

# Bytes as a server decodes them (PEP 3333): latin-1.
MUTATIONS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "with the other slash": lambda path: (
        path.removesuffix("/") if path.endswith("/") else f"{path}/"
    ),
    "in capitals": lambda path: path.encode("latin-1").upper().decode("latin-1"),
    "two slashes first": lambda path: f"/{path}",
    "two slashes everywhere": lambda path: path.replace("/", "//"),
    "two slashes last": lambda path: f"{path}//",
    "no slash first": lambda path: path.removeprefix("/"),
    "a dot segment last": lambda path: f"{path.rstrip('/')}/.",
    "dot segments": lambda path: path.replace("/", "/./"),
    "there and back": lambda path: f"/x/..{path}",
    "an empty segment and two dots": lambda path: f"{path}//..",
    "a space last": lambda path: f"{path} ",
    "a line feed last": lambda path: f"{path}\n",
    "an ideographic space last": lambda path: f"{path}\xe3\x80\x80",
    "a byte that is not UTF-8, last": lambda path: f"{path}\xff",
    "a byte that is not UTF-8, inside": lambda path: f"{path[:3]}\xff{path[3:]}",
    "a letter that folds": lambda path: path.replace("i", "\xc4\xb1").replace(
        "s", "\xc5\xbf"
    ),
    "another letter that folds": lambda path: path.replace("k", "\xe2\x84\xaa").replace(
        "i", "\xc4\xb0"
    ),
}


@cache
def requests() -> dict[tuple[str, str], str]:
    """Return requests by method and path: each path with one mutation or two, and what
    they are.
    """
    paths = [path.replace("{id}", "silk") for path in PATHS]
    spellings = {("get", path): "the method in lower case" for path in paths}
    for path, first, second in product(paths, MUTATIONS, MUTATIONS):
        mutated = MUTATIONS[second](MUTATIONS[first](path))
        spellings["GET", mutated] = f"{path}: {first}, then {second}"
    return spellings


def reaches(app: WSGIApplication, method: str, path: str) -> Response | None:
    """Return the response of a view, or of the middleware in place of it; ``None`` if
    the router has no such path.
    """
    try:
        response = run(app, environ_of(method, path, "", **{"wsgi.errors": StringIO()}))
    except Exception:  # noqa: BLE001 - as routers raise for bytes that are not UTF-8
        return None
    return response if response.body == VIEW.encode() or response.code == 410 else None


EVERY_ROUTER = pytest.mark.parametrize("name", ROUTERS)


@pytest.mark.slow
@EVERY_ROUTER
def test_no_mutated_path_slips_past(name: str) -> None:
    router, calls = ROUTERS[name](), list[Call]()
    announcing = DeprecationMiddleware(
        router, dict.fromkeys(OPERATIONS, DATE_ONLY), observers=[calls.append]
    )
    closed = DeprecationMiddleware(router, dict.fromkeys(OPERATIONS, CLOSED))
    number = 0
    for (method, path), description in requests().items():
        if reaches(router, method, path) is not None:
            number += 1
            calls.clear()
            response = reaches(announcing, method, path)
            assert response is not None, description
            assert response.all("Deprecation") == ["@1767225600"], description
            assert len(calls) == 1, description
            refusal = reaches(closed, method, path)
            assert refusal is not None, description
            assert refusal.code == 410, description
    assert number >= len(PATHS)


# What no reading can know.
MORE = {
    "CherryPy": "/old-task",
    "Falcon": "/reports/?id=1",
    "Morepath": "/old_task/+",
    "Pyramid, traversal": "/@@old_task",
    "TurboGears": "/old_task.json",
}


@EVERY_ROUTER
def test_other_paths_to_a_view_are_found(name: str) -> None:
    router, plan = ROUTERS[name](), dict.fromkeys(OPERATIONS[:2], DATE_ONLY)
    if name in MORE:
        message = f"no deprecated operation matches GET {MORE[name]}, "
        with pytest.raises(AssertionError, match=re.escape(message)):
            assert_plan_reaches(router, plan)
    else:
        assert_plan_reaches(router, plan)


def respond_where(serves: Callable[[str], bool]) -> WSGIApplication:
    """Return an application whose only view is where a function of the path says, and
    shows the first segment.
    """

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        path = environ["PATH_INFO"]
        is_view = serves(path)
        start_response("200 OK" if is_view else "404 Not Found", [])
        return [path[:4].encode()] if is_view else [b"nothing"]

    return app


@pytest.mark.parametrize(
    ("path", "spelling"),
    [("/old", "/de/old"), ("/en/old", "/fr/old"), ("/old", "/oldx")],
)
def test_a_hole_is_found(path: str, spelling: str) -> None:
    app = respond_where(lambda served: served in {path, spelling})
    with pytest.raises(AssertionError, match=f"matches GET {spelling}"):
        assert_plan_reaches(app, {Operation("old", "GET", path): DATE_ONLY})


def test_a_view_below_any_first_segment_is_no_translation() -> None:
    app = respond_where(lambda path: path.endswith("/old"))
    assert_plan_reaches(app, {Operation("old", "GET", "/old"): DATE_ONLY})
