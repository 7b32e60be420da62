"""The library's own messages name where they come from, and logging never raises."""

import logging
import traceback
from typing import Any
from unittest.mock import Mock

import pytest

from flask_notifications import log
from flask_notifications.log import format_traceback, log_error, log_exception
from tests.storages import raise_and_catch


def report_error(stacklevel: int) -> None:
    log_error("failed: %s", "why", stacklevel=stacklevel)


def report_exception(stacklevel: int) -> None:
    error = raise_and_catch(ValueError("why"), LookupError("the cause"))
    log_exception(error, "failed %d times", 3, stacklevel=stacklevel)


@pytest.mark.parametrize("report", [report_error, report_exception])
def test_a_record_names_the_function_that_logged(
    report: Any, caplog: pytest.LogCaptureFixture
) -> None:
    report(1)
    report(2)
    record, for_the_caller = caplog.records
    assert (record.name, record.levelname, record.funcName) == (
        "flask_notifications",
        "ERROR",
        report.__name__,
    )
    assert for_the_caller.funcName == "test_a_record_names_the_function_that_logged"
    assert record.pathname == for_the_caller.pathname == __file__


def test_an_exception_is_logged_with_its_traceback_and_without_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report_exception(1)
    message = caplog.records[0].getMessage()
    assert message.startswith("failed 3 times: Traceback (most recent call last):\n")
    assert message.endswith("ValueError: why\n")
    assert "the cause" not in message


def test_a_broken_traceback_becomes_its_type(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        traceback.TracebackException,
        "__init__",
        Mock(side_effect=OSError(24, "Too many open files")),
    )
    assert format_traceback(ValueError("why")) == "builtins.ValueError"
    log_exception(ValueError("why"), "failed")
    assert caplog.messages == ["failed: builtins.ValueError"]


def test_a_filter_that_fails_does_not_make_logging_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logger = logging.Logger("flask_notifications")  # noqa: LOG001 - not shared with other tests
    logger.addFilter(
        Mock(spec=[], side_effect=LookupError)
    )  # a function, without a method "filter"
    monkeypatch.setattr(log, "_logger", logger)
    log_error("failed")
    log_exception(ValueError(), "failed")
