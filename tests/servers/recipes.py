"""The functions of docs/callers.md that name a caller, and an operation that has ended for each of them.

Only ``warehouse`` is exempt, so it gets its own label as a response, and every other caller gets 410.
"""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Exemption, Operation

PAGE = (Path(__file__).parents[2] / "docs" / "callers.md").read_text(encoding="utf-8")
(DJANGO,) = re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RECIPES: dict[str, Any] = {}
for _block in re.findall(r"^```python\n(.*?)^```$", PAGE.partition("\n## Let one caller")[0], re.MULTILINE | re.DOTALL):
    exec(_block, RECIPES)  # noqa: S102 - as its reader does

POLICY = DeprecationPolicy(
    deprecated_at=datetime(2025, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2025, 7, 1, tzinfo=UTC),
    enforce_sunset=True,
    exemptions=[Exemption("warehouse", datetime(2999, 1, 1, tzinfo=UTC), "contract")],
)


def identify(environ: WSGIEnvironment) -> Any:
    """Name the caller with the recipe that is the path."""
    return RECIPES[environ["PATH_INFO"].removeprefix("/")](environ)


def respond(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
    """Respond with the label of the caller."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ.get("flask_notifications.caller", "nobody").encode()]


application = DeprecationMiddleware(
    respond,
    {Operation("by recipe", "GET", "/{recipe}"): POLICY, Operation("live", "GET", "/ready"): None},
    identify=identify,
)
