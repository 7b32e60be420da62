"""Recognise functions and values that only promise a result: coroutines, generators and futures.

Such a value is never false and never ``None``. As the result of a check, it would let every caller in.
"""

from abc import ABC
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator
from concurrent.futures import Future
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import TypeVar

Value = TypeVar("Value")


# The methods that results of multiprocessing, gevent and Celery have in common.
_RESULT_METHODS = ("ready", "successful", "get")


class _Awaitable(ABC):  # noqa: B024 - nothing inherits from it
    """The base class of everything to wait for; Python asks once per class, and remembers what it was told."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        is_result = all(hasattr(other, name) for name in _RESULT_METHODS)
        return is_result or issubclass(other, Awaitable | AsyncGenerator | Future)


class _Deferred(ABC):  # noqa: B024 - nothing inherits from it
    """The base class of generators and of everything to wait for."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return issubclass(other, Generator | _Awaitable)


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

    :param value: what a function returned.
    :param function: the name of that function, for the message.
    :raises TypeError: the value is something to wait for; a coroutine is closed.
    """
    if isinstance(value, _Awaitable):
        _refuse(value, function)
    return value


def refuse_deferred(value: Value, function: str) -> Value:
    """Return a value, unless it is a generator or something to wait for.

    :param value: what a function returned.
    :param function: the name of that function, for the message.
    :raises TypeError: the value only promises a result; a coroutine or a generator is closed.
    """
    if isinstance(value, _Deferred):
        _refuse(value, function)
    return value


def _refuse(value: object, function: str) -> None:
    if _is_proxy(value):
        return
    if isinstance(value, Coroutine | Generator):
        value.close()  # otherwise Python warns that a coroutine was never awaited
    message = f"{function} must return its result, not an object of type {type(value).__qualname__} that promises one"
    raise TypeError(message)


def _list_called(function: object) -> tuple[object, object]:
    """Return what may run when a function is called: itself and its class's ``__call__``."""
    while isinstance(function, partial):
        function = function.func
    return function, type(function).__call__ if callable(function) else None


def _is_proxy(value: object) -> bool:
    """Return whether a value, such as Flask-Login's ``current_user``, has a method to await it by its class only."""
    return isinstance(value, Awaitable) and not hasattr(value, "__await__")
