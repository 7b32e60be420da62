"""A small application: its own tables, the two obsolete operations, the guide and the
usage report.
"""

import json
import os
from pathlib import Path

import flask

from flask_notifications import create_blueprint, load_plan
from flask_notifications.openapi import deprecate

from .database import open_engine, prepare
from .pages import create_pages
from .storage import create_storage, label_caller

__all__ = ["create_app"]


def create_app(database_url: str | None = None) -> flask.Flask:
    """Create the application on a database, and fill the database if it is empty.

    ``database_url`` is an SQLAlchemy URL. Its default is ``DATABASE_URL``, then an
    SQLite file in the instance folder. The plan of the retirement is in
    ``retirement.toml``; ``EXAMPLE_PLAN`` in the environment is another file.
    ``EXAMPLE_BASE_URL`` is the address in the examples of the migration guide.
    """
    app = flask.Flask(__name__)
    app.config["PLAN"] = Path(__file__).with_name("retirement.toml")
    app.config["BASE_URL"] = None
    app.config.from_prefixed_env("EXAMPLE", loads=str)
    plan = load_plan(app.config["PLAN"])
    app.extensions["plan"] = plan
    engine = open_engine(
        database_url or os.environ.get("DATABASE_URL") or default_database(app)
    )
    prepare(engine)
    app.extensions["engine"] = engine
    storage = create_storage(engine)
    app.register_blueprint(
        create_blueprint(storage, successors=True, identify=label_caller)
    )
    app.register_blueprint(
        create_pages(plan, engine, storage, base_url=app.config["BASE_URL"])
    )
    app.add_url_rule(
        "/", "home", lambda: flask.redirect(flask.url_for("pages.retirement"), code=302)
    )
    file = Path(__file__).with_name("openapi.json")
    document = deprecate(json.loads(file.read_text(encoding="utf-8")), plan)
    app.add_url_rule("/openapi.json", "openapi", lambda: document)
    app.after_request(_forbid_sniffing)
    return app


def _forbid_sniffing(response: flask.Response) -> flask.Response:
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def default_database(app: flask.Flask) -> str:
    """Return the URL of an SQLite file in the application's instance folder, which only
    its owner can enter.
    """
    folder = Path(app.instance_path).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return f"sqlite:///{folder}/example.sqlite3"
