"""A plugin for pytest that puts the middleware around an application while the
application's own tests run.

It is loaded into the process that runs those tests. ``MIDDLEWARE_AROUND`` is the name
of an application in ``WRAP``; without it, nothing is wrapped. ``REPORT`` is the file
for the results.
"""

import json
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest

from flask_notifications import (
    Call,
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
)

OPERATIONS = [Operation("any", "*", "/**"), Operation("preflight", "OPTIONS", "/**")]
POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC), documentation="/docs"
)
PLAN = dict.fromkeys(OPERATIONS, POLICY)

SEEN = "tests.seen"  # in the environ during a request

outcomes: dict[str, list[str]] = {}  # by the test's ID: one for each of its phases
requests: list[str] = []
calls: list[Call] = []
announced: list[str] = []


def retire(application: WSGIApplication) -> WSGIApplication:
    """Return the application with the middleware around it, and count what passes
    through it.
    """
    middleware = DeprecationMiddleware(application, PLAN, observers=[calls.append])

    def count(
        environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        def start(
            status: str, headers: list[tuple[str, str]], *exc_info: Any
        ) -> Callable[[bytes], object]:
            announced.extend(value for name, value in headers if name == "Deprecation")
            return start_response(status, headers, *exc_info)

        if (
            SEEN in environ
        ):  # and counted by the middleware around the application that this one is mounted in
            return DeprecationMiddleware(application, PLAN)(environ, start_response)
        environ[SEEN] = True
        requests.append(environ["PATH_INFO"])
        try:
            return middleware(environ, start)
        finally:
            del environ[SEEN]  # some tests use an environ twice

    return count


def wrap_calls(module: str, name: str) -> None:
    """Put the middleware around every instance of a class of applications."""
    applications = getattr(import_module(module), name)
    call = applications.__call__

    def call_retired(
        self: Any, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        return retire(partial(call, self))(environ, start_response)

    applications.__call__ = call_retired


def wrap_webtest() -> None:
    """Put the middleware around each application that WebTest calls, between two of its
    validators.
    """
    caller: Any = import_module("webtest.app")
    validate = caller.lint.middleware
    caller.lint = SimpleNamespace(
        middleware=lambda application: validate(retire(validate(application)))
    )


WRAP: dict[str, Callable[[], None]] = {
    "bottle": partial(wrap_calls, "bottle", "Bottle"),
    "ihatemoney": partial(wrap_calls, "flask", "Flask"),
    "webtest": wrap_webtest,
}


def pytest_configure() -> None:
    if name := os.environ.get("MIDDLEWARE_AROUND"):
        WRAP[name]()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    outcomes.setdefault(report.nodeid, []).append(report.outcome)


def pytest_sessionfinish() -> None:
    started = sum(call.status is not None for call in calls)
    result = {"outcomes": outcomes, "requests": len(requests), "matched": len(calls)}
    result |= {"started": started, "announced": announced}
    Path(os.environ["REPORT"]).write_text(json.dumps(result))
