"""A usage report as text, CSV and Markdown. The first line of text and Markdown is the verdict."""

import csv
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from io import StringIO
from typing import TYPE_CHECKING

import click

from flask_notifications.wording import full_date, iso

from .times import format_time

if TYPE_CHECKING:
    from flask_notifications.usage import CallerUsage, OperationUsage, UsageReport

_COLOURS = {"in use": "red", "unknown": "yellow", "safe": "green"}
_TITLES = ("caller", "client", "session in", "answered", "failed", "closed", "first call", "last call")
_CSV_TITLES = (
    *("operation", "verdict", "caller", "client", "source", "answered", "failed", "closed"),
    *("first_at", "last_at", "ignored"),
)
# Their full-width forms too, which East Asian spreadsheets accept.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&])")


def format_verdict(report: "UsageReport") -> str:
    """Return one line that says whether the operations may be switched off."""
    if not report.operations:
        return "Unknown: nothing has been recorded."
    names = {
        verdict: [each.name for each in report.operations if each.verdict == verdict]
        for verdict in ("in use", "unknown", "safe")
    }
    window = _format_days(report.since, report.until)
    if len(names["safe"]) == len(report.operations):
        return f"Safe to switch off: {', '.join(names['safe'])}. No call counted as use from {window}."
    said = [f"{verdict}: {', '.join(listed)}" for verdict, listed in names.items() if listed]
    summary = "Not safe to switch off" if names["in use"] else "Not known to be safe"
    return f"{summary}. From {window}, {'; '.join(said)}."


def _format_days(since: datetime, until: datetime) -> str:
    """Return the days of a window that ends before ``until``, as in ``6 January to 5 February 2026``."""
    last = until - timedelta(microseconds=1)
    first = full_date(since).removesuffix(f" {last.year}")
    return f"{first} to {full_date(last)}"


def format_text(report: "UsageReport") -> str:
    """Return a report for people who read it in a terminal."""
    blocks = [_format_operation(operation) for operation in report.operations]
    return "\n\n".join([format_verdict(report), *blocks])


def _format_operation(operation: "OperationUsage") -> str:
    title = (
        f"{click.style(operation.name, bold=True)}  {click.style(operation.verdict, fg=_COLOURS[operation.verdict])}"
    )
    reasons = [f"  {reason}" for reason in operation.reasons]
    rows = [_TITLES, *(_row(caller) for caller in operation.callers)]
    table = ["", *(f"  {line}" for line in _align(rows))] if operation.callers else []
    return "\n".join([title, *reasons, *table])


def _row(caller: "CallerUsage") -> tuple[str, ...]:
    """Return the cells of a caller, with a dash for each unknown value."""
    label = caller.caller or "-"
    return (
        f"{label} (ignored)" if caller.ignored else label,
        caller.client or "-",
        caller.source or "-",
        *map(str, (caller.answered, caller.failed, caller.closed)),
        format_time(caller.first_at.replace(second=0)),
        format_time(caller.last_at.replace(second=0)),
    )


def _align(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def format_markdown(report: "UsageReport") -> str:
    """Return a report for a pull request or a wiki."""
    blocks = [_escape(format_verdict(report))]
    for operation in report.operations:
        blocks.append(f"## {_escape(operation.name)}: {operation.verdict}")
        blocks += [f"- {_escape(reason)}" for reason in operation.reasons]
        if operation.callers:
            rows = [_TITLES, ["---"] * len(_TITLES), *(map(_escape, _row(caller)) for caller in operation.callers)]
            blocks.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(blocks)


def _escape(string: str) -> str:
    """Return a string with the characters of Markdown escaped, because clients choose their names."""
    return _MARKDOWN.sub(r"\\\1", string)


def format_csv(report: "UsageReport") -> str:
    """Return a row for each caller, and one for each operation without callers; times are ISO 8601 in UTC."""
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(_CSV_TITLES)
    for operation in report.operations:
        for caller in operation.callers or [None]:
            writer.writerow(map(_guard, _csv_row(operation, caller)))
    return written.getvalue().removesuffix("\n")


def _csv_row(operation: "OperationUsage", caller: "CallerUsage | None") -> list[str]:
    if caller is None:
        return [operation.name, operation.verdict, "", "", "", "0", "0", "0", "", "", ""]
    counts = (caller.answered, caller.failed, caller.closed)
    times = (iso(caller.first_at), iso(caller.last_at))
    labels = (caller.caller or "", caller.client or "", caller.source or "")
    return [operation.name, operation.verdict, *labels, *map(str, counts), *times, str(caller.ignored).lower()]


def _guard(cell: str) -> str:
    """Return a cell that no spreadsheet interprets as a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
