"""Connexion keeps a reference to the application, so that a middleware around
``app.wsgi_app`` is never called.
"""

from typing import Any

import pytest

from flask_notifications import (
    DeprecationMiddleware,
    create_blueprint,
    notification_operations,
)
from tests.frameworks.applications import library
from tests.middleware import DATE_ONLY
from tests.storages import OneSession

pytestmark = pytest.mark.world

PLAN = dict.fromkeys(notification_operations(), DATE_ONLY)
PATH = "/API/Notification/?sessionId=s3cret"


def connexion_app() -> Any:
    app = library("connexion").FlaskApp("shop")
    app.app.register_blueprint(create_blueprint(OneSession()))
    return app


def test_connexion_needs_the_middleware_in_its_own_list() -> None:
    app = connexion_app()
    app.add_wsgi_middleware(DeprecationMiddleware, plan=PLAN)
    assert app.test_client().get(PATH).headers["Deprecation"] == "@1767225600"


def test_connexion_ignores_another_wsgi_app_and_the_blueprint_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = connexion_app()
    app.app.wsgi_app = DeprecationMiddleware(app.app.wsgi_app, PLAN)
    assert "Deprecation" not in app.test_client().get(PATH).headers
    assert "notifications.current_user announces nothing" in caplog.text
