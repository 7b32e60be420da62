"""Django with a view that uses orjson, and with Django REST framework's serializers."""

from typing import Any

import django
import orjson
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from benchmarks.work import ANNOUNCEMENT, PATH, RECORDS_OF, SESSIONS

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"],
    SECRET_KEY="not a secret",
    USE_TZ=True,
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        "UNAUTHENTICATED_USER": None,
    },
)
django.setup()

from rest_framework import serializers  # needs the settings
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView


def _user(request: HttpRequest | Request) -> int | None:
    session_id = request.GET.get("sessionId")
    if session_id is None:
        session_id = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return SESSIONS.get(session_id)


def view(request: HttpRequest) -> HttpResponse:
    """Return the records of the session's user."""
    user = _user(request)
    if user is None:
        return HttpResponse(status=401, headers=ANNOUNCEMENT)
    body = orjson.dumps(RECORDS_OF[user])
    return HttpResponse(body, content_type="application/json", headers=ANNOUNCEMENT)


class Condition(serializers.Serializer):
    """When a notification is sent."""

    measure = serializers.CharField()
    operator = serializers.CharField()
    value = serializers.IntegerField()
    currency = serializers.CharField()


class Notification(serializers.Serializer):
    """A record."""

    id = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    schedule = serializers.CharField()
    recipients = serializers.ListField(child=serializers.CharField())
    condition = Condition()
    createdOn = serializers.CharField()
    comment = serializers.CharField()


class Notifications(APIView):
    """The records of a session's user."""

    def get(self, request: Request, **_parameters: Any) -> Response:
        """Return the records."""
        user = _user(request)
        if user is None:
            raise NotAuthenticated
        return Response(Notification(RECORDS_OF[user], many=True).data, headers=ANNOUNCEMENT)


urlpatterns = [path(PATH.lstrip("/"), view), path("rest" + PATH, Notifications.as_view())]
application = get_wsgi_application()
