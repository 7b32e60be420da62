"""A Django application whose cache is keyed by URL; the installed Django may be an older one.

As a program, it sends requests of two users through the middleware and prints the responses. The first argument is the
kind of cache: ``site``, ``page`` or ``vary``. The second is the place of the session: ``query`` or ``header``.
"""

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.cache import cache_page
from django.views.decorators.vary import vary_on_headers
from werkzeug.test import Client

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation, session_of

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
OPERATIONS = [Operation("rows", "GET", "/rows/", unify_session=True)]

SITE_CACHE = [
    "django.middleware.cache.UpdateCacheMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.cache.FetchFromCacheMiddleware",
]


def rows(request: HttpRequest) -> JsonResponse:
    session = session_of(request.META)
    return JsonResponse([session and session.value], safe=False)


def application(kind: str) -> "WSGIApplication":
    """Return an application with a cache of the whole site or of one view."""
    settings.configure(
        ALLOWED_HOSTS=["*"],
        MIDDLEWARE=SITE_CACHE if kind == "site" else [],
        ROOT_URLCONF=type("Routes", (), {"urlpatterns": []}),
    )
    view: Any = {
        "site": rows,
        "page": cache_page(60)(rows),
        "vary": cache_page(60)(vary_on_headers("Authorization")(rows)),
    }[kind]
    settings.ROOT_URLCONF.urlpatterns.append(path("rows/", view))
    wsgi: WSGIApplication = get_wsgi_application()
    return wsgi


if __name__ == "__main__":
    kind, source = sys.argv[1:]
    client = Client(DeprecationMiddleware(application(kind), POLICY, operations=OPERATIONS))
    calls = [
        client.get(f"/rows/?sessionId={user}")
        if source == "query"
        else client.get("/rows/", headers={"Authorization": f"Bearer {user}"})
        for user in ("alice", "bob", "alice", "bob")
    ]
    result = {"version": django.__version__, "rows": [call.get_json() for call in calls]}
    sys.stdout.write(json.dumps(result))
