"""A plan as its operators read it: the phase of each operation, the next change, and probable mistakes.

A plan maps each operation to its policy, or to ``None`` where the operation is live and not retired.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from http import HTTPMethod
from itertools import combinations
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from .deprecation import DeprecationPolicy, Phase
from .operations import NOTIFICATION_OPERATIONS, Operation, OperationTable, template_shape
from .validation import require

Plan = Mapping[Operation, DeprecationPolicy | None]


def check_plan(argument: str, plan: Any, expected: str) -> None:
    """Check that a value is a plan, which may be empty.

    :param argument: the name of the argument.
    :param plan: what was given for it.
    :param expected: what the argument must be.
    :raises ValueError: the value is something else.
    """
    require(isinstance(plan, Mapping), argument, expected, plan)
    for operation, policy in plan.items():
        fits = isinstance(operation, Operation) and (policy is None or isinstance(policy, DeprecationPolicy))
        require(fits, argument, expected, {operation: policy})


def is_notification_operation(operation: Operation) -> bool:
    """Return whether an operation is one of the two of this library, at whatever path.

    :param operation: any operation. The name alone does not decide, because yours may have the same.
    """
    parameters = {each.name: each.path.count("{") for each in NOTIFICATION_OPERATIONS}
    return operation.unify_session and operation.path.count("{") == parameters.get(operation.name)


class Event(NamedTuple):
    """Something that a policy has scheduled: the phase, when it begins, and when it ends, if it does."""

    phase: Phase
    start: datetime
    end: datetime | None = None


def schedule(policy: DeprecationPolicy) -> list[Event]:
    """Return what a policy has scheduled, the earliest first.

    :param policy: its sunset is listed whether or not it is enforced.
    """
    events = [Event(Phase.BROWNOUT, window.start, window.end) for window in policy.brownouts]
    events.append(Event(Phase.DEPRECATED, policy.deprecated_at))
    if policy.sunset_at is not None:
        events.append(Event(Phase.SUNSET, policy.sunset_at))
    return sorted(events, key=lambda event: event.start)


def next_event(policy: DeprecationPolicy, at: datetime) -> Event | None:
    """Return the next change of phase, or ``None`` if no change is scheduled.

    :param policy: the policy of the operation.
    :param at: an aware datetime; the change is after it.
    """
    phase = policy.phase(at)
    times = {time for event in schedule(policy) for time in (event.start, event.end) if time is not None and time > at}
    changes = (Event(policy.phase(time), time) for time in sorted(times))
    return next((change for change in changes if change.phase is not phase), None)


def plan_warnings(plan: Plan) -> list[str]:
    """Return one sentence for each part of a plan that is valid, and probably not what was meant.

    It finds methods that HTTP does not have, templates that match the same paths although neither is more specific,
    live operations that no retired one would match, links that lead to a retired operation, and brownouts before the
    deprecation or after an enforced sunset. It cannot find what only the application knows, such as a misspelled path:
    ``flask_notifications.testing.assert_plan_reaches`` finds that.

    :param plan: the operations and their policies.
    """
    if not any(plan.values()):
        return ["no operation of the plan is retired"]
    finders = (_method_warnings, _overlap_warnings, _live_warnings, _link_warnings, _brownout_warnings)
    return [warning for find_warnings in finders for warning in find_warnings(plan)]


def _method_warnings(plan: Plan) -> Iterator[str]:
    for operation in plan:
        if operation.method not in HTTPMethod.__members__:
            yield f"{operation.name}: {operation.method} is not an HTTP method (RFC 9110 section 9); is it misspelled?"


# Those of a template; a parameter is ``None``.
_Segments = tuple[bytes | None, ...]


def _overlap(first: _Segments, second: _Segments) -> bool:
    """Whether a path can match both templates."""
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(None in pair or pair[0] == pair[1] for pair in pairs)


def _compete(first: _Segments, second: _Segments) -> bool:
    """Whether a path can match both templates, and neither of them is the more specific one."""
    return _overlap(first, second) and not (_is_more_specific(first, second) or _is_more_specific(second, first))


def _is_more_specific(first: _Segments, second: _Segments) -> bool:
    """Whether every parameter of the first template is a parameter of the second one too."""
    return all(theirs is None for own, theirs in zip(first, second, strict=True) if own is None)


def _overlap_warnings(plan: Plan) -> Iterator[str]:
    templates = [(template_shape(operation).segments, operation) for operation in plan if "{" in operation.path]
    for (first, one), (second, other) in combinations(templates, 2):
        if one.method == other.method and _compete(first, second):
            path = b"/".join(own or theirs or b"{}" for own, theirs in zip(first, second, strict=True))
            shown = path.decode("utf-8", "backslashreplace")
            yield f"{one.name} and {other.name} both match {one.method} /{shown}; the leftmost literal decides"


def _live_warnings(plan: Plan) -> Iterator[str]:
    retired = [template_shape(operation) for operation, policy in plan.items() if policy is not None]
    for live in [operation for operation, policy in plan.items() if policy is None]:
        segments = template_shape(live).segments
        if not any(_overlap(segments, each.segments) for each in retired if each.method == live.method):
            yield f"{live.name}: no retired operation matches its paths, so live = true has no effect"


def _link_warnings(plan: Plan) -> Iterator[str]:
    """Yield the links to pages or successors that would announce or refuse like the operation they belong to."""
    table = OperationTable(plan)
    for operation, policy in plan.items():
        for name, method, uri in _local_links(operation, policy):
            match = table.match(method, unquote(urlsplit(uri).path, "latin-1"))
            if match is not None and plan[match.operation] is not None:
                yield f"{operation.name}: {name} {uri} is a path of the retired operation {match.operation.name}"


def _local_links(operation: Operation, policy: DeprecationPolicy | None) -> Iterator[tuple[str, str, str]]:
    """Yield what a retired operation links to below its own application: the name, the method and the URI."""
    if policy is not None:
        pages = [(name, "GET", getattr(policy, name)) for name in ("documentation", "sunset_documentation")]
        for name, method, uri in [("successor", "GET", operation.successor), *pages]:
            if uri is not None and uri.startswith("/") and not uri.startswith("//"):
                yield name, method, uri


def _brownout_warnings(plan: Plan) -> Iterator[str]:
    windows = [
        (operation.name, policy, window)
        for operation, policy in plan.items()
        if policy is not None
        for window in policy.brownouts
    ]
    for name, policy, window in windows:
        if window.start < policy.deprecated_at:
            yield f"{name}: the brownout of {window.start} is before deprecated_at"
        if policy.enforce_sunset and policy.sunset_at is not None and window.end > policy.sunset_at:
            yield f"{name}: the brownout of {window.start} is not over at the enforced sunset"
