"""Recognise functions and values that only promise a result: coroutines, generators and futures.

Such a value is never false and never ``None``. As the result of a check, it would let every caller in.
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
def _is_awaitable(kind: type) -> bool:
    is_result = all(hasattr(kind, name) for name in _RESULT_METHODS)
    return is_result or issubclass(kind, Awaitable | AsyncGenerator | Future)


@lru_cache(maxsize=256)
def _is_deferred(kind: Any) -> bool:
    return issubclass(kind, Generator) or _is_awaitable(kind)


def is_asynchronous(function: object) -> bool:
    """Return whether a function visibly returns something to await.

    :param function: a function, a method, a ``functools.partial`` or an object with ``__call__``.
    """
    return any(iscoroutinefunction(each) or isasyncgenfunction(each) for each in _list_called(function))


def is_deferring(function: object) -> bool:
    """Return whether a function visibly returns a generator or something to await.

    :param function: a function, a method, a ``functools.partial`` or an object with ``__call__``.
    """
    return is_asynchronous(function) or any(map(isgeneratorfunction, _list_called(function)))


def refuse_awaitable(value: Value, function: str) -> Value:
    """Return a value, unless it is a coroutine, a future or something else to wait for.

    :param value: the result of a function.
    :param function: the name of that function, for the message.
    :raises TypeError: the value is something to wait for; a coroutine is closed.
    """
    kind: Any = value.__class__  # that of a proxy, such as Flask-Login's current_user, is the proxied class
    if _is_awaitable(kind):
        _refuse(value, function)
    return value


def refuse_deferred(value: Value, function: str) -> Value:
    """Return a value, unless it is a generator or something to wait for.

    :param value: the result of a function.
    :param function: the name of that function, for the message.
    :raises TypeError: the value only promises a result; a coroutine or a generator is closed.
    """
    kind: Any = value.__class__
    if _is_deferred(kind):
        _refuse(value, function)
    return value


def _refuse(value: object, function: str) -> None:
    if isinstance(value, Coroutine | Generator):
        value.close()  # otherwise Python warns that a coroutine was never awaited
    message = f"{function} must return its result, not an object of type {type(value).__qualname__} that promises one"
    raise TypeError(message)


def _list_called(function: object) -> tuple[object, object]:
    """Return the functions that a call may run: the function itself and its class's ``__call__``."""
    while isinstance(function, partial):
        function = function.func
    return function, type(function).__call__ if callable(function) else None
