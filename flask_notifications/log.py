"""The library's one logger, which never changes an answer. Knows nothing of what it is told."""

import contextlib
import logging

_logger = logging.getLogger("flask_notifications")


def log_error(message: str, *values: object) -> None:
    """Log an error; a handler, a filter or a value that fails meanwhile is the host's own, and no reason to fail."""
    with contextlib.suppress(Exception):
        _logger.error(message, *values)
