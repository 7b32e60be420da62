"""A small host for Flask-Notifications: its own tables, two obsolete operations, and a page that explains them."""

import os

import flask

from flask_notifications import create_blueprint, load_policy
from flask_notifications.openapi import openapi_document

from .database import open_engine, prepare
from .storage import create_storage

__all__ = ["create_app"]


def create_app(database_url: str | None = None) -> flask.Flask:
    """Create the host's application on a database, which is created and seeded where it is empty.

    ``database_url`` is an SQLAlchemy URL; without one ``DATABASE_URL`` counts, and then an SQLite file in the instance
    folder. The policy is configuration: ``EXAMPLE_NOTIFICATIONS_SUNSET_AT`` and the like in the environment replace it.
    """
    app = flask.Flask(__name__)
    app.config.from_object(f"{__name__}.settings")
    app.config.from_prefixed_env("EXAMPLE")
    engine = open_engine(database_url or os.environ.get("DATABASE_URL") or default_database(app))
    prepare(engine)
    app.extensions["engine"] = engine
    app.register_blueprint(create_blueprint(create_storage(engine), successors=True))
    app.add_url_rule("/", "home", lambda: flask.redirect(flask.url_for("retirement"), code=302))
    app.add_url_rule("/docs/retirement", "retirement", lambda: flask.render_template("retirement.html"))
    document = openapi_document(load_policy(app.config.get_namespace("NOTIFICATIONS_")))
    app.add_url_rule("/openapi.json", "openapi", lambda: document)
    return app


def default_database(app: flask.Flask) -> str:
    """Return the URL of an SQLite file in the application's instance folder, which is created."""
    folder = os.path.abspath(app.instance_path)  # noqa: PTH100
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    return f"sqlite:///{folder}/example.sqlite3"
