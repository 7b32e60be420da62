"""The library's one logger.

Logging never raises, so that it never changes a response.
"""

import logging
from collections import deque
from contextlib import suppress
from traceback import format_exception, walk_tb

_logger = logging.getLogger("flask_notifications")

# Only the last frames of a traceback are logged: an endless recursion has a thousand.
_FRAMES = 20
# The longest chain of causes in a description.
_CAUSES = 10


def log_error(message: str, *values: object, stacklevel: int = 1) -> None:
    """Log an error, as ``logging`` does.

    Ignore exceptions that a handler, a filter or a value raises.
    """
    with suppress(Exception):
        _logger.error(message, *values, stacklevel=stacklevel + 1)


def log_warning(message: str, *values: object, stacklevel: int = 1) -> None:
    """Log a warning, as ``log_error`` logs an error."""
    with suppress(Exception):
        _logger.warning(message, *values, stacklevel=stacklevel + 1)


def log_exception(
    error: BaseException, message: str, *values: object, stacklevel: int = 1
) -> None:
    """Log an error with the traceback of an exception, but without its causes."""
    log_error(
        f"{message}: %s",
        *values,
        format_traceback(error, chain=False),
        stacklevel=stacklevel + 1,
    )


def format_traceback(error: BaseException, *, chain: bool = True) -> str:
    """Return the traceback of an exception, or its type if formatting fails.

    Python 3.15 needs a free file descriptor to format one.
    """
    try:
        return "".join(format_exception(error, chain=chain))
    except Exception:  # noqa: BLE001 - logging must not fail
        return f"{type(error).__module__}.{type(error).__qualname__}"


def describe_exception(error: BaseException) -> str:
    """Return the types of an exception and its causes, and where they were raised.

    Their strings are left out, because they may hold a session ID.
    """
    # By id(), because an exception may be among its own causes.
    chain: dict[int, BaseException] = {}
    link: BaseException | None = error
    while link is not None and id(link) not in chain and len(chain) < _CAUSES:
        chain[id(link)] = link
        cause = link.__cause__  # may be false: an exception may be empty
        if cause is None and not link.__suppress_context__:
            cause = link.__context__
        link = cause
    return "; caused by ".join(map(_describe_one, chain.values()))


def _describe_one(error: BaseException) -> str:
    # Without the traceback module: it opens source files, and there may be no file
    # descriptor left.
    frames = deque(walk_tb(error.__traceback__), maxlen=_FRAMES)
    places = (
        f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
        for frame, line in frames
    )
    return f"{type(error).__module__}.{type(error).__qualname__} ({', '.join(places)})"
