"""A plan as its operators read it: the phase of each operation, and the next change.

A plan maps each operation to its policy, or to ``None`` where the operation is live.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from flask_notifications.validation import require

from .conditions import list_spaced
from .operations import ACCOUNT, CURRENT_USER, Operation, OperationTable
from .policy import DeprecationPolicy, Phase

Plan = Mapping[Operation, DeprecationPolicy | None]

# How many parameters the paths of this library's two operations have.
_PARAMETERS = {CURRENT_USER: 0, ACCOUNT: 1}
# Arguments that a live operation cannot have, because its requests are not changed and
# its responses announce nothing.
_DEPRECATED_KEYS = ("successor", "rewrite_path", "unify_session")
_CONDITION_KEYS = ("query", "headers")


def check_plan(plan: Any) -> None:
    """Check that the argument ``plan`` is a plan, or raise ``ValueError``.

    It has at least one operation, no name twice, and no live operation with arguments
    of deprecated ones.
    """
    expected = (
        "a mapping from each Operation to a DeprecationPolicy or None, as load_plan"
        " returns it"
    )
    require(isinstance(plan, Mapping), "plan", expected, plan)
    require(plan, "plan", "a plan with at least one operation", plan)
    for operation, policy in plan.items():
        is_policy = policy is None or isinstance(policy, DeprecationPolicy)
        fits = isinstance(operation, Operation) and is_policy
        require(fits, "plan", expected, {operation: policy})
        if policy is None:
            keys = (*_DEPRECATED_KEYS, *_CONDITION_KEYS)
            arguments = {key: getattr(operation, key) for key in keys}
            errors = dict(find_live_errors(arguments))
            plain = f"without what the live operation {operation.name} cannot have"
            require(not errors, "plan", plain, errors)
    names = Counter(operation.name for operation in plan)
    repeated = [name for name, number in names.items() if number > 1]
    expected = "a plan whose operations have different names"
    require(not repeated, "plan", expected, repeated)


def find_live_errors(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the arguments that a live operation cannot have, each with a sentence."""
    for key in _DEPRECATED_KEYS:
        if arguments.get(key):
            yield key, f"{key} is for deprecated operations"
    for key in _CONDITION_KEYS:
        spaced = list_spaced(arguments.get(key))
        if spaced:
            expected = "free of spaces, which clients write in two ways"
            yield key, f"{key} of a live operation must be {expected}: {spaced}"


def deprecated_operations(plan: Any) -> dict[Operation, DeprecationPolicy]:
    """Return the deprecated operations of a plan with their policies.

    :raises ValueError: ``plan`` is not a plan.
    """
    check_plan(plan)
    return {
        operation: policy for operation, policy in plan.items() if policy is not None
    }


def is_notification_operation(operation: Operation) -> bool:
    """Return whether an operation is one of the two of this library, at any path.

    The name is not enough, because your own operation may have the same.
    """
    parameters = _PARAMETERS.get(operation.name)
    return operation.unify_session and operation.path.count("{") == parameters


def table_of(plan: Plan) -> OperationTable:
    """Return the table that finds the operations of a plan."""
    live = [operation for operation, policy in plan.items() if policy is None]
    return OperationTable(plan, live=live)


class Event(NamedTuple):
    """A phase that a policy schedules: when it starts, and when it ends, if it does.

    A brownout that repeats is one event with ``start`` and ``end`` of its first window.
    It has ``windows`` windows, and they start ``every`` apart.
    """

    phase: Phase
    start: datetime
    end: datetime | None = None
    every: timedelta | None = None
    windows: int = 1

    @property
    def last(self) -> datetime:
        """The start of the last window, or of an event that does not repeat."""
        if self.every is None:
            return self.start
        return self.start + (self.windows - 1) * self.every


def schedule(policy: DeprecationPolicy) -> list[Event]:
    """Return the events of a policy, the earliest first.

    The sunset is one of them, even if it is not enforced.
    """
    events = [Event(Phase.DEPRECATED, policy.deprecated_at)]
    for brownout in policy.brownouts:
        windows = brownout.list_windows(policy.sunset_at)
        every = brownout.every if len(windows) > 1 else None
        if windows:
            event = Event(Phase.BROWNOUT, *windows[0], every, len(windows))
            events.append(event)
    if policy.sunset_at is not None:
        events.append(Event(Phase.SUNSET, policy.sunset_at))
    return sorted(events, key=attrgetter("start"))


def next_event(policy: DeprecationPolicy, at: datetime) -> Event | None:
    """Return the next change of phase after a time, or ``None`` if there is none."""
    phase = policy.phase(at)
    times = [policy.deprecated_at, *chain.from_iterable(policy.windows)]
    if policy.sunset_at is not None:
        times.append(policy.sunset_at)
    for time in sorted(times):
        if time > at and policy.phase(time) is not phase:
            return Event(policy.phase(time), time)
    return None
