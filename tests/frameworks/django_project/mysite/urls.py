"""A Django project with the two obsolete operations among its own views."""

from django.http import HttpRequest, JsonResponse
from django.urls import path

from flask_notifications import session_of


def notifications(request: HttpRequest) -> JsonResponse:
    session = session_of(request.META)
    return JsonResponse([{"session": session is not None}], safe=False)


urlpatterns = [path("API/Notification/", notifications)]
