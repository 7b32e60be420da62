"""A filter for PasteDeploy, which Pyramid, Zope and OpenStack's services are configured
with.
"""

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from wsgiref.types import WSGIApplication

from .middleware import DeprecationMiddleware
from .plans.files import load_plan


def retire(
    app: WSGIApplication,
    global_conf: Mapping[str, str],
    *,
    plan: str,
    usage: str = "",
    service: str = "",
    base_url: str | None = None,
    identify: str = "",
) -> DeprecationMiddleware:
    """Wrap an application in ``DeprecationMiddleware``, as ``use =
    egg:Flask-Notifications#retire`` of a filter.

    All values are strings from the file.

    :param app: the application of the pipeline.
    :param global_conf: ``[DEFAULT]``, with the folder of the file in ``here``.
    :param plan: the path to a plan file; a relative one begins in the folder of the
        file.
    :param usage: an SQLAlchemy URL for a ``UsageRecorder``; nothing is recorded without
        one.
    :param service: the name of your application among those that share the database of
        ``usage``.
    :param base_url: as of ``DeprecationMiddleware``.
    :param identify: the function for ``identify`` of ``DeprecationMiddleware``, as
        ``package.module:function``; by default there is none.
    :raises ValueError: a value does not fit, or the plan has errors.
    :raises OSError: the plan file cannot be read.
    :raises ImportError: the module of ``identify`` is missing; ``AttributeError`` if it
        has no such function.
    """
    observers = []
    if usage:
        from .usage import UsageRecorder  # noqa: PLC0415 - it needs an extra

        observers.append(UsageRecorder(usage, service=service))
    return DeprecationMiddleware(
        app,
        load_plan(Path(global_conf.get("here", ""), plan)),
        base_url=base_url,
        observers=observers,
        identify=resolve_name(identify) if identify else None,
    )
