"""A plugin for pytest that puts the middleware around an application while the
application's own tests run.

It is loaded into the process that runs those tests. ``MIDDLEWARE_AROUND`` is the class
of the application, such as ``flask:Flask``; without it, nothing is wrapped. ``REPORT``
is the file for the results.
"""

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

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

outcomes: dict[str, list[str]] = {}  # by the test's ID: one for each of its phases
requests: list[str] = []
calls: list[Call] = []


def pytest_configure() -> None:
    """Put the middleware around every instance of the class, and count what passes."""
    name = os.environ.get("MIDDLEWARE_AROUND")
    if not name:
        return
    applications: Any = resolve_name(name)
    call = applications.__call__

    def call_retired(
        self: Any, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        requests.append(environ["PATH_INFO"])
        app = partial(call, self)
        retired = DeprecationMiddleware(app, PLAN, observers=[calls.append])
        return retired(environ, start_response)

    applications.__call__ = call_retired


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    outcomes.setdefault(report.nodeid, []).append(report.outcome)


def pytest_sessionfinish() -> None:
    result = {"outcomes": outcomes, "requests": len(requests), "matched": len(calls)}
    Path(os.environ["REPORT"]).write_text(json.dumps(result))
