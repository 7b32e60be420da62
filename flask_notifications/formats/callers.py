"""The callers of an operation as a list of work.

Those that still call are first, then exempt ones, then those that have stopped.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from flask_notifications.plans.policy import DeprecationPolicy
from flask_notifications.wording import full_date

if TYPE_CHECKING:
    from flask_notifications.usage import CallerUsage, OperationUsage

# A caller that stops within this time after a brownout stopped because of it.
_EFFECT = timedelta(days=7)
# The most clients of a caller that are listed by name.
_CLIENTS = 2
# The state of the work on a caller, the most urgent first.
_WORK = ("still calling", "exempt", "stopped", "ignored")

# What the rows of a group share: the caller, the client if there is no caller, and
# whether they are ignored.
_Key: TypeAlias = tuple[str | None, str | None, bool]


class CallerGroup:
    """All calls with one label, or all calls of one client without a label.

    ``clients`` begin with those that call most, as in ``job/1, curl/8 and 3 more``,
    ``sources`` are strings such as ``header, query``, and ``counts`` are the numbers of
    answered, refused, failed and closed calls. ``work`` is ``still calling``,
    ``exempt``, ``stopped`` or ``ignored``, and ``state`` begins with it.
    """

    def __init__(
        self,
        rows: Sequence["CallerUsage"],
        policy: DeprecationPolicy | None,
        until: datetime,
    ) -> None:
        self.rows: Sequence[CallerUsage] = rows
        self.caller: str | None = rows[0].caller
        clients = []
        sources = set()
        for row in rows:
            if row.client is not None and row.client not in clients:
                clients.append(row.client)
            if row.source is not None:
                sources.add(row.source)
        self.clients: str = ", ".join(clients[:_CLIENTS])
        if clients[_CLIENTS:]:
            self.clients += f" and {len(clients) - _CLIENTS} more"
        self.sources: str = ", ".join(sorted(sources))
        counted = leave_out_logs(rows)
        self.counts: list[int] = []
        for kind in ("answered", "refused", "failed", "closed"):
            self.counts.append(sum(getattr(row, kind) for row in counted))
        self.calls: int = sum(self.counts)
        self.last_at: datetime = max(row.last_at for row in rows)
        self.state: str = _judge(rows[0], policy, until)
        self.work: str = next(work for work in _WORK if self.state.startswith(work))


def leave_out_logs(rows: Sequence["CallerUsage"]) -> Sequence["CallerUsage"]:
    """Return the rows to count: the recorded ones, or those of logs if there are none.

    A call in an access log has usually been recorded, too, and must not count twice.
    """
    return [row for row in rows if not row.is_logged] or rows


def group_callers(
    usage: "OperationUsage", policy: DeprecationPolicy | None, until: datetime
) -> list[CallerGroup]:
    """Return the callers of an operation, the most urgent work first."""
    rows: dict[_Key, list[CallerUsage]] = {}
    for row in usage.callers:
        client = row.client if row.caller is None else None
        rows.setdefault((row.caller, client, row.ignored), []).append(row)
    groups = [CallerGroup(alike, policy, until) for alike in rows.values()]
    groups.sort(key=_order_of)
    return groups


def _order_of(group: CallerGroup) -> tuple[int, bool, int]:
    return _WORK.index(group.work), group.caller is None, -group.calls


def list_largest(groups: Sequence[CallerGroup], number: int) -> list[CallerGroup]:
    """Return the ``number`` groups with the most calls, in their present order.

    Ignored ones are chosen last.
    """
    ranked = sorted(groups, key=lambda group: (group.work == "ignored", -group.calls))
    largest = set(ranked[:number])
    return [group for group in groups if group in largest]


def summarise(groups: Sequence[CallerGroup]) -> str:
    """Return words such as ``12 still calling, 1 exempt, 3 stopped``."""
    numbers = Counter(group.work for group in groups)
    return ", ".join(f"{numbers[work]:,} {work}" for work in _WORK if numbers[work])


def _judge(
    row: "CallerUsage", policy: DeprecationPolicy | None, until: datetime
) -> str:
    """Return the state of the work on the caller of a row, in words."""
    if row.ignored:
        return "ignored"
    if row.stopped_on is not None:
        state = f"stopped since {full_date(row.stopped_on)}"
        brownout = _find_brownout(row.stopped_on, policy)
        if brownout is not None:
            state += f", after the brownout of {full_date(brownout)}"
        return state
    if policy is not None:
        exemption = policy.exemption(row.caller, until)
        if exemption is not None:
            return f"exempt until {full_date(exemption.until)}"
    return "still calling"


def _find_brownout(
    stopped_on: date, policy: DeprecationPolicy | None
) -> datetime | None:
    """Return the start of the last brownout that may have made a caller stop."""
    start = None
    if policy is not None:
        for window in policy.windows:
            if stopped_on - _EFFECT <= window.start.date() <= stopped_on:
                start = window.start
    return start
