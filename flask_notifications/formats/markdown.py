"""A usage report or a notice as Markdown; the first line of a report is the verdict."""

import re
from typing import TYPE_CHECKING

from flask_notifications.plans.plan import Plan
from flask_notifications.wording import escape

from .callers import summarise
from .text import format_verdict, group_operations, list_cells, list_examples

if TYPE_CHECKING:
    from flask_notifications.usage import UsageReport

    from .notice import Notice

# The titles of the cells of a caller.
_TITLES = (
    "caller",
    "client",
    "session in",
    "answered",
    "failed",
    "closed",
    "last call",
    "state",
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&])")
# What GitHub and GitLab take for a mention, a reference or an address, although it is
# escaped.
_REFERENCE = re.compile(r"[@#!$%~&](?=\w)|:(?=//)|(?<=GH)\\-(?=\d)", re.IGNORECASE)


def format_usage(report: "UsageReport", plan: Plan | None = None) -> str:
    """Return a report for a pull request or a wiki."""
    blocks = [_escape_markdown(format_verdict(report))]
    for operation, groups in group_operations(report, plan):
        blocks.append(f"## {_escape_markdown(operation.name)}: {operation.verdict}")
        blocks += [
            f"- {_escape_markdown(reason)}"
            for reason in (*operation.reasons, operation.coverage_text)
        ]
        if groups:
            rows = [
                _TITLES,
                ["---"] * len(_TITLES),
                *(map(_escape_markdown, list_cells(each)) for each in groups),
            ]
            blocks += [
                f"{summarise(groups)}:",
                "\n".join(f"| {' | '.join(row)} |" for row in rows),
            ]
    return "\n\n".join(blocks)


def format_notice(notice: "Notice") -> str:
    """Return a notice to one caller, for an e-mail or an issue."""
    blocks = [
        f"# {_escape_markdown(notice.title)}",
        *map(_escape_markdown, notice.sentences),
    ]
    for each in notice.migrations:
        heading = _escape_markdown(f"{each.operation.method} {each.operation.path}")
        blocks += [f"## {heading}", *map(_escape_markdown, each.sentences)]
        blocks += (
            [f"More about it: {_link(each.policy.documentation)}"]
            if each.policy.documentation
            else []
        )
        # Indented, because no character ends such a block.
        blocks += list_examples(each)
    return "\n\n".join(blocks)


def _link(uri: str) -> str:
    """Return a URI as a link, or as words if it has no scheme, because ``</docs>``
    would be HTML.
    """
    return (
        f"<{uri}>" if uri.startswith(("https://", "http://")) else _escape_markdown(uri)
    )


def _escape_markdown(string: str) -> str:
    """Return a string with the characters of Markdown escaped, because clients choose
    their names.
    """
    return _REFERENCE.sub(r"\g<0>&#8203;", _MARKDOWN.sub(r"\\\1", escape(string)))
