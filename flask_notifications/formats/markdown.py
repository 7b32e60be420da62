"""A usage report as Markdown, for a pull request or a wiki; the first line is the verdict."""

import re
from typing import TYPE_CHECKING

from flask_notifications.plans import Plan
from flask_notifications.wording import escape

from .callers import summarise
from .text import TITLES, format_verdict, group_operations, list_cells

if TYPE_CHECKING:
    from flask_notifications.usage import UsageReport

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&])")
# What GitHub and GitLab take for a mention, a reference or an address, although it is escaped.
_REFERENCE = re.compile(r"[@#!$%~&](?=\w)|:(?=//)")


def format_usage(report: "UsageReport", plan: Plan | None = None) -> str:
    """Return a report for a pull request or a wiki."""
    blocks = [escape_markdown(format_verdict(report))]
    for operation, groups in group_operations(report, plan):
        blocks.append(f"## {escape_markdown(operation.name)}: {operation.verdict}")
        blocks += [f"- {escape_markdown(reason)}" for reason in (*operation.reasons, operation.coverage_text)]
        if groups:
            rows = [TITLES, ["---"] * len(TITLES), *(map(escape_markdown, list_cells(each)) for each in groups)]
            blocks += [f"{summarise(groups)}:", "\n".join(f"| {' | '.join(row)} |" for row in rows)]
    return "\n\n".join(blocks)


def escape_markdown(string: str) -> str:
    """Return a string with the characters of Markdown escaped, because clients choose their names."""
    return _REFERENCE.sub(r"\g<0>&#8203;", _MARKDOWN.sub(r"\\\1", escape(string)))
