"""Everything that takes a plan refuses a broken one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from flask_notifications import DeprecationMiddleware, Operation
from flask_notifications.metrics import PrometheusObserver
from flask_notifications.openapi import deprecate
from flask_notifications.pages import render_guide
from flask_notifications.plans.files import dump_plan
from flask_notifications.testing import assert_plan_reaches
from tests.middleware import DATE_ONLY as POLICY
from tests.wsgi import plain_app

USER = Operation("user", "GET", "/users/{id}/", "/v2/users/{id}")
V1 = Operation("v1", "*", "/api/v1/**", "/api/v2/**")

CONSUMERS: list[Callable[[Any], object]] = [
    partial(DeprecationMiddleware, plain_app()),
    partial(assert_plan_reaches, plain_app()),
    dump_plan,
    partial(deprecate, {"openapi": "3.1.0"}),
    partial(PrometheusObserver, registry=CollectorRegistry()),
    render_guide,
]
BROKEN_PLANS = [
    (POLICY, "a mapping"),
    ([USER], "a mapping"),
    ({"/users": POLICY}, "a mapping"),
    ({USER: POLICY, V1: "2027"}, "a mapping"),
    (
        {USER: POLICY, Operation("user", "GET", "/other"): None},
        r"different names, not \['user'\]",
    ),
    (
        {USER: POLICY, Operation("a", "GET", "/a", "/b"): None},
        "the live operation a cannot have, .*successor is for deprecated",
    ),
    (
        {USER: POLICY, Operation("a", "GET", "/a", rewrite_path=True): None},
        "rewrite_path is for deprecated",
    ),
    (
        {USER: POLICY, Operation("a", "GET", "/a", unify_session=True): None},
        "unify_session is for deprecated",
    ),
]


@pytest.mark.parametrize("consume", CONSUMERS)
@pytest.mark.parametrize(("plan", "expected"), BROKEN_PLANS)
def test_everything_that_takes_a_plan_refuses_a_broken_one(
    consume: Any, plan: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=rf"^plan must be .*{expected}"):
        consume(plan)
