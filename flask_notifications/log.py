"""The library's one logger. Logging never raises, so that it never changes a response."""

import logging
from contextlib import suppress
from traceback import format_exception

_logger = logging.getLogger("flask_notifications")


def log_error(message: str, *values: object, stacklevel: int = 1) -> None:
    """Log an error. Ignore exceptions that a handler, a filter or a value raises.

    :param message: a template as ``logging`` has them.
    :param values: what the template shows.
    :param stacklevel: which function the record names: 1 (the default) for the caller, 2 for its caller.
    """
    with suppress(Exception):
        _logger.error(message, *values, stacklevel=stacklevel + 1)


def log_exception(error: BaseException, message: str, *values: object, stacklevel: int = 1) -> None:
    """Log an error with the traceback of an exception, without the exceptions that caused it.

    :param error: the exception.
    :param message: as in ``log_error``; ``values`` and ``stacklevel`` too.
    """
    log_error(f"{message}: %s", *values, format_traceback(error, chain=False), stacklevel=stacklevel + 1)


def format_traceback(error: BaseException, *, chain: bool = True) -> str:
    """Return the traceback of an exception; only the name of its type when the traceback cannot be formatted.

    Python 3.15 needs a free file descriptor for it.

    :param error: the exception.
    :param chain: whether its causes are included, as they are by default.
    """
    try:
        return "".join(format_exception(error, chain=chain))
    except Exception:  # noqa: BLE001 - logging must not fail
        return f"{type(error).__module__}.{type(error).__qualname__}"
