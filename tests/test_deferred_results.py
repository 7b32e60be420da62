"""Methods of a storage that only promise a result, such as coroutines, are refused."""

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

from tests.service_calls import call_account, call_current_user, make_service, status_and_code, with_method


async def coroutine(*_arguments: object) -> Any:
    return "alice"


async def asynchronous_generator(*_arguments: object) -> Any:
    yield "alice"


def generator(*_arguments: object) -> Iterator[Any]:
    yield "alice"


class Promise:
    def __init__(self, *_arguments: object) -> None:
        pass

    def __await__(self) -> Iterator[None]:
        yield


class AsynchronousCall:
    async def __call__(self, *_arguments: object) -> Any:
        return "alice"


def finished_future(*_arguments: object) -> Any:
    future: Future[str] = Future()
    future.set_result("alice")
    return future


def asyncio_future(*_arguments: object) -> Any:
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    future.set_result([])
    loop.close()
    return future


def result_of_a_pool(*_arguments: object) -> Any:
    with ThreadPool(1) as pool:
        return pool.apply_async(lambda: "alice")


def greenlet(*_arguments: object) -> Any:
    return pytest.importorskip("gevent").spawn(lambda: "alice")


def hide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its kind cannot be recognised."""
    return lambda *arguments: function(*arguments)  # noqa: PLW0108 - that is its purpose


VISIBLE_PROMISES = [
    pytest.param(coroutine, id="coroutine function"),
    pytest.param(partial(partial(coroutine, 1), 2), id="partial of a coroutine function"),
    pytest.param(asynchronous_generator, id="asynchronous generator function"),
    pytest.param(AsynchronousCall(), id="object with an asynchronous __call__"),
    pytest.param(partial(AsynchronousCall(), 1), id="partial of an object with an asynchronous __call__"),
    pytest.param(AsynchronousCall().__call__, id="asynchronous method"),
]
# Promises that cannot be recognised before the call.
HIDDEN_PROMISES = [
    pytest.param(hide(coroutine), id="coroutine"),
    pytest.param(hide(asynchronous_generator), id="asynchronous generator"),
    pytest.param(Promise, id="awaitable"),
    pytest.param(finished_future, id="future"),
    pytest.param(asyncio_future, id="future of asyncio"),
    pytest.param(result_of_a_pool, id="result of a pool"),
    pytest.param(greenlet, id="greenlet"),
]
GENERATORS = [
    pytest.param(generator, id="generator function"),
    pytest.param(partial(generator, 1), id="partial of a generator function"),
]
METHODS = ["resolve_session", "current_user_notifications", "account_notifications", "unit_of_work"]
METHODS_WITHOUT_AN_ITERABLE = ["resolve_session", "unit_of_work"]


@pytest.mark.parametrize(
    ("method", "function"),
    [
        pytest.param(method, *function.values, id=f"{method}-{function.id}")
        for methods, functions in ((METHODS, VISIBLE_PROMISES), (METHODS_WITHOUT_AN_ITERABLE, GENERATORS))
        for method in methods
        for function in functions
    ],
)
def test_a_method_that_visibly_promises_its_result_is_refused(method: str, function: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=rf"^storage must have a method {method} that returns its result"):
        make_service(with_method(method, function))


@pytest.mark.parametrize("function", HIDDEN_PROMISES)
@pytest.mark.parametrize("method", METHODS)
def test_a_promised_result_is_a_500_without_records(method: str, function: Callable[..., Any]) -> None:
    call = call_account if method == "account_notifications" else call_current_user
    with warnings.catch_warnings(record=True) as left_behind:
        warnings.simplefilter("always")
        response = call(make_service(with_method(method, function)))
        gc.collect(1)  # young objects only, because a full collection is slow
    assert status_and_code(response) == ("500 Internal Server Error", "storage_error")
    assert left_behind == []


@pytest.mark.parametrize("method", METHODS_WITHOUT_AN_ITERABLE)
def test_a_generator_is_neither_a_caller_nor_a_unit_of_work(method: str) -> None:
    response = call_current_user(make_service(with_method(method, hide(generator))))
    assert status_and_code(response) == ("500 Internal Server Error", "storage_error")
