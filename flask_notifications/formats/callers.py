"""The callers of an operation as a list of work: those that still call first, then
exempt and silent ones.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from flask_notifications.plans.policy import DeprecationPolicy
from flask_notifications.wording import full_date

if TYPE_CHECKING:
    from flask_notifications.usage.results import CallerUsage, OperationUsage

# Days without a call after which a caller may count as one that has stopped.
_SILENT = 2
# Days after a brownout on which a last call is taken for its effect.
_EFFECT = timedelta(days=7)
# Clients of a caller that are listed by name.
_CLIENTS = 2
# What remains to be done about a caller, the most first.
_WORK = ("still calling", "exempt", "stopped", "ignored")


class CallerGroup:
    """All calls with one label, or those of one client without a label, whose rows are
    alike in what decides the rest.

    ``clients`` are those with the most calls, such as ``job/1, curl/8 and 3 more``,
    ``sources`` are as in ``header, query``, and ``counts`` are the numbers of responses
    below 400, of failures, and of 410s of the middleware. ``stopped_on`` is the day of
    the last call of a caller that has been silent for longer than ever in the window.
    ``work`` is one of ``still calling``, ``exempt``, ``stopped`` and ``ignored``, with
    which ``state`` begins.
    """

    def __init__(
        self,
        rows: Sequence["CallerUsage"],
        policy: DeprecationPolicy | None,
        until: datetime,
    ) -> None:
        self.rows: Sequence[CallerUsage] = rows
        self.caller: str | None = rows[0].caller
        names = list(
            dict.fromkeys(each.client for each in rows if each.client is not None)
        )
        more = f" and {len(names) - _CLIENTS} more" if names[_CLIENTS:] else ""
        self.clients: str = f"{', '.join(names[:_CLIENTS])}{more}"
        self.sources: str = ", ".join(
            sorted({each.source for each in rows if each.source is not None})
        )
        self.counts: list[int] = [
            sum(getattr(each, name) for each in rows)
            for name in ("answered", "failed", "closed")
        ]
        self.last_at: datetime = max(each.last_at for each in rows)
        self.stopped_on: date | None = _stopped_on(
            rows, self.last_at.date(), until.date()
        )
        self.state: str = _judge(rows[0], policy, self.stopped_on, until)
        self.work: str = next(work for work in _WORK if self.state.startswith(work))


def group_callers(
    usage: "OperationUsage", policy: DeprecationPolicy | None, until: datetime
) -> list[CallerGroup]:
    """Return the callers of an operation, those about whom most remains to be done
    first.
    """
    rows: dict[tuple[str | None, str | None, bool], list[CallerUsage]] = {}
    for each in usage.callers:
        client = each.client if each.caller is None else None
        rows.setdefault((each.caller, client, each.ignored), []).append(each)
    groups = (CallerGroup(own, policy, until) for own in rows.values())
    return sorted(
        groups,
        key=lambda each: (
            _WORK.index(each.work),
            each.caller is None,
            -sum(each.counts),
        ),
    )


def summarise(groups: Sequence[CallerGroup]) -> str:
    """Return the remaining work in a few words, such as ``12 still calling, 1 exempt, 3
    stopped``.
    """
    numbers = Counter(each.work for each in groups)
    return ", ".join(f"{numbers[work]:,} {work}" for work in _WORK if numbers[work])


def _stopped_on(rows: Sequence["CallerUsage"], last: date, until: date) -> date | None:
    """Return the day of the last call, if the silence since then is longer than any
    before.
    """
    silence = (until - last).days
    if silence < _SILENT:
        return None
    days = sorted(set().union(*(each.day_numbers for each in rows)))
    pauses = [after - before for before, after in pairwise(days)]
    return last if pauses and silence > max(pauses) else None


def _judge(
    row: "CallerUsage",
    policy: DeprecationPolicy | None,
    stopped_on: date | None,
    until: datetime,
) -> str:
    exemption = None if policy is None else policy.exemption(row.caller, until)
    if row.ignored:
        return "ignored"
    if stopped_on is not None:
        windows = () if policy is None else policy.windows
        near = [
            each
            for each in windows
            if stopped_on - _EFFECT <= each.start.date() <= stopped_on
        ]
        after = f", after the brownout of {full_date(near[-1].start)}" if near else ""
        return f"stopped since {full_date(stopped_on)}{after}"
    if exemption is not None:
        return f"exempt until {full_date(exemption.until)}"
    return "still calling"
