"""Recognise values that only promise a result: coroutines, generators and futures.

Such a value is never false and never ``None``. As the result of a check, it would let
every caller in.
"""

from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator
from concurrent.futures import Future
from functools import lru_cache, partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, TypeVar

Value = TypeVar("Value")

# The methods that results of multiprocessing, gevent and Celery have in common.
_RESULT_METHODS = ("ready", "successful", "get")


@lru_cache(maxsize=256)
def _is_deferred(kind: Any, may_generate: bool) -> bool:
    is_result = all(hasattr(kind, name) for name in _RESULT_METHODS)
    is_generator = issubclass(kind, Generator) and not may_generate
    return (
        is_result
        or is_generator
        or issubclass(kind, Awaitable | AsyncGenerator | Future)
    )


def is_asynchronous(function: object) -> bool:
    """Return whether a function visibly returns something to await."""
    for candidate in _list_callables(function):
        if iscoroutinefunction(candidate) or isasyncgenfunction(candidate):
            return True
    return False


def is_deferring(function: object) -> bool:
    """Return whether a function visibly returns a generator or something to await."""
    return is_asynchronous(function) or any(
        map(isgeneratorfunction, _list_callables(function))
    )


def refuse_deferred(
    value: Value, function: str, *, may_generate: bool = False
) -> Value:
    """Return the result of a function, or raise ``TypeError`` if it only promises one.

    :param function: the name of the function, for the message.
    :param may_generate: whether a generator is accepted as a result.
    """
    # Not type(): the ``__class__`` of a proxy, such as Flask-Login's current_user, is
    # the class of its object.
    kind: Any = value.__class__
    if _is_deferred(kind, may_generate):
        if isinstance(value, Coroutine | Generator):
            value.close()  # otherwise Python warns that a coroutine was never awaited
        kind = type(value).__qualname__
        message = (
            f"{function} must return its result, "
            f"not an object of type {kind} that promises one"
        )
        raise TypeError(message)
    return value


def _list_callables(function: Any) -> list[object]:
    """Return the function inside partials, and the ``__call__`` of its class.

    A call runs the function itself or, if it is an instance with ``__call__``, that.
    """
    while isinstance(function, partial):
        function = function.func
    return [function, type(function).__call__]
