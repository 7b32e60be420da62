"""The server that the clients call, and its announcements."""

from tests.servers.process import gunicorn

# With a thread, because the open connections of browsers would block a sync worker.
PROGRAM = gunicorn("gthread", application="tests.clients.app:application")

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount/alice/"

# The headers of the application's policy.
DEPRECATION = "@1767225600"
SUNSET = "Thu, 01 Jul 2027 00:00:00 GMT"
DOCUMENTATION = "https://api.example.com/docs/retirement"
POLICY = "https://example.com/policy"
SUCCESSOR = "https://api.example.com/API/Notification/CurrentUser"
