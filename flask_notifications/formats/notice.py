"""A notice for one caller: its calls, the end of each operation and the replacement. It names no other caller."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from flask_notifications.deprecation import DeprecationPolicy, Phase
from flask_notifications.operations import Operation
from flask_notifications.plans import Plan, retired_operations
from flask_notifications.wording import count, format_days, full_date, long_date, moment, period, relative

from .rendering import render
from .requests import EXAMPLE_URL, Move, describe_move

if TYPE_CHECKING:
    from flask_notifications.usage.results import CallerUsage, UsageReport


class Change(NamedTuple):
    """An operation that the caller calls: sentences about it, and the requests before and after."""

    operation: Operation
    sentences: Sequence[str]
    documentation: str | None
    move: Move


class Notice(NamedTuple):
    """What is to be said to one caller, in sentences without markup."""

    title: str
    sentences: Sequence[str]
    changes: Sequence[Change]


def describe_notice(report: "UsageReport", plan: Plan, caller: str, last_at: datetime) -> Notice:
    """Return the notice for a caller.

    :param report: the usage of the operations of the plan; rows of other callers are left out.
    :param plan: the operations and their policies.
    :param caller: the label of the caller.
    :param last_at: the time of its last call of any of the operations, which may be before the report begins.
    """
    retired = {operation.name: (operation, policy) for operation, policy in retired_operations(plan).items()}
    changes = [
        _describe_change(*retired[usage.name], rows, caller, report)
        for usage in report.operations
        if (rows := [each for each in usage.callers if each.caller == caller])
    ]
    if not changes:
        covered = min(report.operations, key=lambda each: each.coverage).coverage_text
        silence = f"No call of yours was recorded from {format_days(report.since, report.until)} ({covered})."
        return Notice(f"{caller}: no calls", (silence, f"The last one was on {full_date(last_at)}."), ())
    subject = "an operation that you call is" if len(changes) == 1 else f"{len(changes)} operations that you call are"
    names = list(dict.fromkeys(name for each in changes for name in each.move.placeholders))
    values = f", and your own values in place of {' and '.join(names)}" if names else ""
    hint = f"In the examples, put the address that you call in place of {EXAMPLE_URL}{values}."
    return Notice(f"{caller}: {subject} being retired", (hint,), changes)


def render_notice(notice: Notice) -> str:
    """Return a notice as an HTML document, which has no scripts and loads nothing."""
    return render("notice.html", notice=notice)


def _describe_change(
    operation: Operation, policy: DeprecationPolicy, rows: Sequence["CallerUsage"], caller: str, report: "UsageReport"
) -> Change:
    move = describe_move(operation, EXAMPLE_URL)
    sentences = [
        _say_calls(rows, report),
        _say_end(policy, caller, report.until),
        *_say_brownout(policy, caller, report.until),
        *_say_successor(operation, move),
    ]
    return Change(operation, sentences, policy.documentation, move)


def _say_calls(rows: Sequence["CallerUsage"], report: "UsageReport") -> str:
    calls, failed, closed = (sum(getattr(each, name) for each in rows) for name in ("calls", "failed", "closed"))
    last = max(each.last_at for each in rows)
    clients = list(dict.fromkeys(each.client for each in rows if each.client is not None))
    using = f", with {', '.join(clients)}" if clients else ""
    window = format_days(report.since, report.until)
    outcome = f" {count(failed, 'call')} failed, and {count(closed, 'call')} got 410 Gone." if failed or closed else ""
    return f"You called it {count(calls, 'time')} from {window}, the last time on {full_date(last)}{using}.{outcome}"


def _say_end(policy: DeprecationPolicy, caller: str, now: datetime) -> str:
    exemption = policy.exemption(caller, now)
    end = policy.sunset_of(exemption)
    more = "" if exemption is None else f" An exemption lets you through until {full_date(exemption.until)}."
    if end is None:
        return f"It has no date yet on which it ends.{more}"
    if end <= now and policy.enforce_sunset:
        return f"It ended on {long_date(end)}. Every request gets 410 Gone."
    if end <= now:
        return f"Its sunset was on {long_date(end)}. It may stop working at any time."
    after = "every request gets 410 Gone" if policy.enforce_sunset else "it may stop working at any time"
    return f"It ends on {long_date(end)}, {relative(end, now)}. From then on, {after}.{more}"


def _say_brownout(policy: DeprecationPolicy, caller: str, now: datetime) -> Iterator[str]:
    running = policy.brownout(now)
    if running is not None and policy.phase(now, caller) is Phase.BROWNOUT:
        yield f"A brownout is running until {moment(running.end)}. Requests get 410 Gone until then."
    coming = (each for each in policy.brownouts if each.start > now)
    following = next((each for each in coming if policy.phase(each.start, caller) is Phase.BROWNOUT), None)
    if following is not None:
        yield (
            f"The next brownout is {period(following.start, following.end)}, {relative(following.start, now)}. "
            "Requests get 410 Gone during that time, so that forgotten calls are noticed."
        )
    elif policy.phase(now, caller) is not Phase.SUNSET:
        yield "No brownout is planned for you."


def _say_successor(operation: Operation, move: Move) -> Iterator[str]:
    if operation.successor is None:
        yield "It has no successor. Remove the call, or ask for a replacement."
    elif move.after is None:
        yield f"Call {operation.successor} instead."
    elif operation.unify_session:
        yield "Move the session ID from the URL into the Authorization header."
