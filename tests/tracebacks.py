"""Exceptions that have been raised."""

from typing import TypeVar

Error = TypeVar("Error", bound=BaseException)


def raise_and_catch(error: Error, cause: BaseException | None = None) -> Error:
    """Return an exception after it was raised, with its traceback and its cause."""
    try:
        raise error from cause
    except type(error):
        return error
