"""The application of the servers, once for every tenant: what stands in front of ``/API`` becomes the mount point."""

from typing import TYPE_CHECKING

from tests.servers import app

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIEnvironment

TENANTS = "/at"


def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> "Iterable[bytes]":
    """Mount the application where the client says, as hosts with a path for each tenant do."""
    tenant, slash, rest = environ["PATH_INFO"].partition("/API/")
    if slash and tenant.startswith(f"{TENANTS}/"):
        environ["SCRIPT_NAME"], environ["PATH_INFO"] = tenant.removeprefix(TENANTS), f"/API/{rest}"
    return app.application(environ, start_response)
