"""The library's logger: a record names its caller, and logging never raises."""

import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from flask_notifications import log
from flask_notifications.log import format_traceback, log_error, log_exception
from tests.tracebacks import raise_and_catch


def report_error() -> None:
    log_error("failed: %s", "why")


def report_exception() -> None:
    log_exception(raise_and_catch(ValueError("why"), LookupError("the cause")), "failed %d times", 3)


def report_for_the_caller() -> None:
    log_error("failed: %s", "why", stacklevel=2)


@pytest.mark.parametrize(
    ("report", "caller"),
    [
        (report_error, "report_error"),
        (report_exception, "report_exception"),
        (report_for_the_caller, "test_a_record_names_the_function_that_logged"),
    ],
)
def test_a_record_names_the_function_that_logged(
    report: Callable[[], None], caller: str, caplog: pytest.LogCaptureFixture
) -> None:
    report()
    (record,) = caplog.records
    assert (record.name, record.levelname, record.funcName) == ("flask_notifications", "ERROR", caller)
    assert record.pathname == __file__


def test_an_exception_is_logged_with_its_traceback_and_without_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    report_exception()
    message = caplog.records[0].getMessage()
    assert message.startswith("failed 3 times: Traceback (most recent call last):\n")
    assert message.endswith("ValueError: why\n")
    assert "the cause" not in message


def test_a_traceback_that_cannot_be_formatted_is_replaced_by_the_name_of_the_type(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: Any, **_options: Any) -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(traceback.TracebackException, "__init__", fail)
    assert format_traceback(ValueError("why")) == "builtins.ValueError"
    log_exception(ValueError("why"), "failed")
    assert caplog.messages == ["failed: builtins.ValueError"]


def test_a_filter_that_fails_does_not_make_logging_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_record: logging.LogRecord) -> bool:
        raise LookupError

    logger = logging.Logger("flask_notifications")  # noqa: LOG001 - not shared with other tests
    logger.addFilter(fail)
    monkeypatch.setattr(log, "_logger", logger)
    log_error("failed")
    log_exception(ValueError(), "failed")
