"""A plan file with an exemption, at the time that a file says; the callers are those of HTTP Basic."""

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flask_notifications import Call, DeprecationMiddleware, load_plan
from flask_notifications.observers import basic_user

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

FOLDER = Path(os.environ["EXEMPT_FOLDER"])


def read_time() -> datetime:
    return datetime.fromisoformat((FOLDER / "now").read_text(encoding="ascii"))


def respond(_environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain"), ("Cache-Control", "public, max-age=60")])
    return [b"report"]


def note(call: Call) -> None:
    """Write who called in which phase, and the status."""
    with (FOLDER / "calls").open("a", encoding="utf-8") as file:
        file.write(f"{call.caller} {call.phase} {call.status}\n")


application = DeprecationMiddleware(
    respond, load_plan(FOLDER / "plan.toml"), clock=read_time, observers=[note], identify=basic_user
)
