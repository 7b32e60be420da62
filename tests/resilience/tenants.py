"""The application of ``tests.servers``, mounted once per tenant: the path before ``/API`` becomes the mount point."""

from typing import TYPE_CHECKING

from tests.servers import app

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIEnvironment

TENANTS = "/at"


def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> "Iterable[bytes]":
    """Mount the application at the path that the client sends, as applications with a path per tenant do."""
    tenant, slash, rest = environ["PATH_INFO"].partition("/API/")
    if slash and tenant.startswith(f"{TENANTS}/"):
        environ["SCRIPT_NAME"], environ["PATH_INFO"] = tenant.removeprefix(TENANTS), f"/API/{rest}"
    return app.application(environ, start_response)
