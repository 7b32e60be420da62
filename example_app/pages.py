"""The pages that people read: the migration guide for everybody, the usage report for
administrators.
"""

import flask
from sqlalchemy import Engine

from flask_notifications import (
    DeprecationPolicy,
    Operation,
    SessionRefused,
    Statuses,
    StorageUnavailable,
    session_of,
)
from flask_notifications.pages import render_guide, render_usage
from flask_notifications.problems import Problems
from flask_notifications.responses import PlainResponse
from flask_notifications.sql import SQLAlchemyStorage
from flask_notifications.usage import StoreUnavailable, UsageReport, read_usage

Plan = dict[Operation, DeprecationPolicy | None]

# The pages need their own styles, and nothing else.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
_MAX_DAYS = 400

# What a browser shows in place of the JSON of an error.
_HINT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in</title>
<h1>Sign in as an administrator</h1>
<p>A browser sends no session in a header. Save the page with
<code>curl -H 'Authorization: Bearer SESSION_ID' ADDRESS &gt; usage.html</code>, and open it.
<code>make run</code> prints this line with the session ID of the example's administrator.</p>
</html>
"""

# The same errors as those of the operations.
_PROBLEMS = Problems(statuses=Statuses(), realm="notifications")


def create_pages(
    plan: Plan,
    engine: Engine,
    storage: SQLAlchemyStorage,
    *,
    base_url: str | None = None,
) -> flask.Blueprint:
    """Create the blueprint of both pages."""
    pages = flask.Blueprint("pages", __name__)

    @pages.get("/docs/retirement")
    def retirement() -> flask.Response:
        contact = "api@example.com, or the channel #notifications"
        return _page(
            render_guide(plan, contact=contact, base_url=base_url),
            "public, max-age=300",
        )

    @pages.get("/usage")
    def usage() -> flask.Response:
        days = min(max(flask.request.args.get("days", 30, int), 1), _MAX_DAYS)
        try:
            refusal = _refuse(storage)
            if refusal is not None:
                response = _convert(refusal)
                if flask.request.accept_mimetypes.accept_html:  # a browser
                    response.content_type = "text/html; charset=utf-8"
                    response.set_data(_HINT)
                return response
            page = _page(render_usage(_read(engine, plan, days), plan=plan), "no-store")
        except (StorageUnavailable, StoreUnavailable):
            return _convert(_PROBLEMS.respond("storage_unavailable"))
        page.vary.add("Authorization")
        return page

    return pages


def _read(engine: Engine, plan: Plan, days: int) -> UsageReport:
    retired = [operation for operation, policy in plan.items() if policy is not None]
    return read_usage(engine, days=days, operations=retired)


def _refuse(storage: SQLAlchemyStorage) -> PlainResponse | None:
    """Return the error for a caller who is not an administrator with a session in the
    header, or ``None``.
    """
    try:
        session = session_of(flask.request.environ)
    except SessionRefused as refused:
        return _PROBLEMS.refuse(refused)
    if session is None or session.source != "header":
        return _PROBLEMS.respond("session_missing")
    caller = storage.resolve_session(session.value)
    if caller is None:
        return _PROBLEMS.respond("session_invalid")
    return None if caller.is_administrator else _PROBLEMS.respond("access_denied")


def _page(html: str, cache_control: str) -> flask.Response:
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": cache_control}
    return flask.Response(
        html, content_type="text/html; charset=utf-8", headers=headers
    )


def _convert(response: PlainResponse) -> flask.Response:
    return flask.Response(
        response.body, response.status, headers=list(response.headers)
    )
