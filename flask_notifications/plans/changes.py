"""The effects of a changed plan on callers: broken promises, and facts for a reviewer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, product
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from flask_notifications.conditions import ABSENT, PRESENT, Values, environ_key
from flask_notifications.deprecation import DeprecationPolicy, Exemption
from flask_notifications.operations import Operation, OperationTable, decode_path, template_shape
from flask_notifications.plans import Plan, check_plan, table_of
from flask_notifications.wording import count, duration, moment, period

Level = Literal["error", "warning", "info"]

# An error is a promise to callers that the change breaks.
LEVELS: Mapping[str, Level] = {
    "sunset-earlier": "error",
    "notice-too-short": "error",
    "operation-removed": "error",
    "exemption-removed": "error",
    "enforcement-added": "warning",
    "brownout-added": "warning",
    "successor-changed": "warning",
    "operation-added": "info",
}


class Change(NamedTuple):
    """Describe one effect on the callers of an operation, by its name in the plan that retires it."""

    operation: str
    code: str
    message: str

    @property
    def level(self) -> Level:
        """Return ``"error"`` for a broken promise, ``"warning"`` for a noticeable effect, otherwise ``"info"``."""
        return LEVELS[self.code]

    def to_dict(self) -> dict[str, str]:
        """Return a mapping for JSON."""
        return {"operation": self.operation, "code": self.code, "level": self.level, "message": self.message}


# A value that no condition lists, because it is not UTF-8.
_OTHER_VALUE = "\udcff"
# Of the values that several conditions list, because their number is a product.
_COMBINATIONS = 100

_Found = tuple[str, str]
# The operation that has a request, and its policy: none if the operation is live, or nothing has the request.
_Treatment = tuple[Operation | None, DeprecationPolicy | None]


def compare_plans(old: Plan, new: Plan, *, at: datetime, min_notice: timedelta = timedelta()) -> list[Change]:
    """Return the effects on callers of the change from one plan to another, in the order of the new plan.

    Callers know methods, paths and conditions, so the name of an operation does not count. The requests of an operation
    that the other plan lacks may be those of another one, such as a subtree. They are tried with each combination of
    the values that conditions list, so an operation with fewer values is removed for the others.

    :param old: the plan that callers know.
    :param new: the plan that is proposed.
    :param at: the present, an aware datetime. What is over then is not promised any more.
    :param min_notice: the time that there has to be before the start of a new brownout and before a new sunset, which
        is none by default. A sunset that is postponed is not new.
    :raises ValueError: one of them is not a plan.
    """
    check_plan(old)
    check_plan(new)
    before, after = _Requests(old), _Requests(new)
    # The operation that is reported, by the treatments of its requests before and after the change.
    reported: dict[tuple[_Treatment, _Treatment], Operation] = {}
    for operation, policy in new.items():
        if policy is not None:
            reported |= {(former, (operation, policy)): operation for former in before.find(operation)}
    for operation, policy in old.items():
        if template_shape(operation) not in after.shapes:
            for treatment in after.find(operation):
                reported.setdefault(((operation, policy), treatment), operation)
    changes = (
        Change(operation.name, *each)
        for treatments, operation in reported.items()
        for each in _list_changes(operation, *treatments, at, min_notice)
    )
    return list(dict.fromkeys(changes))


def _list_short_notices(
    old: DeprecationPolicy | None, new: DeprecationPolicy, at: datetime, least: timedelta
) -> Iterator[_Found]:
    """Yield an error for each date of a policy that is new to callers and too soon."""
    known, sunset = old and old.sunset_at, new.sunset_at
    windows = [each for each in new.brownouts if each.end > at and (old is None or each not in old.brownouts)]
    dates = [("the brownout", window.start) for window in windows]
    # A sunset that is postponed has been announced for long.
    if sunset is not None and (known is None or sunset < known or known <= at < sunset):
        dates.insert(0, ("the sunset", sunset))
    for what, date in dates:
        left = date - at
        if left < least and least:
            words = f"in {duration(left)}" if left > timedelta() else "over"
            yield "notice-too-short", f"{what} of {moment(date)} is {words}, not in {count(least.days, 'day')}"


class _Requests:
    """Find the treatments that a plan gives to the requests of an operation of another plan.

    ``shapes`` are the operations by the requests that they get.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.shapes = {template_shape(operation): operation for operation in plan}
        self._table = table_of(plan) if plan else None

    def find(self, operation: Operation) -> list[_Treatment]:
        """Return the treatments of the requests of another plan's operation."""
        same = self.shapes.get(template_shape(operation))
        if same is not None:
            return [(same, self._plan[same])]
        found = [self._match(*each) for each in _list_requests(operation)]
        others = [each for each in found if each is not None]
        query = _extend(operation.query, [each.query for each in others])
        headers = _extend(operation.headers, [each.headers for each in others])
        extended = replace(operation, query=query, headers=headers)
        if extended != operation:
            return self.find(extended)
        return [(each, None if each is None else self._plan[each]) for each in found]

    def _match(self, method: str, path: str, environ: Mapping[str, str]) -> Operation | None:
        match = None if self._table is None else self._table.match(method, path, environ)
        return None if match is None else match.operation


def _list_changes(
    operation: Operation, former: _Treatment, treatment: _Treatment, at: datetime, least: timedelta
) -> Iterator[_Found]:
    """Yield the changes for the callers whose requests of an operation of one of the plans are treated so."""
    (old, former_policy), (new, policy) = former, treatment
    subject = f"{operation.method} {operation.path}"
    if new and policy:
        if old and former_policy:
            yield from _list_policy_changes(former_policy, policy, at)
            if _successor(old, old) != _successor(new, old):
                successors = f"{new.successor or 'none'}, and was {old.successor or 'none'}"
                yield "successor-changed", f"the successor is {successors}"
        else:
            yield "operation-added", f"{subject} is retired now{'' if new is operation else f' with {new.name}'}"
        yield from _list_short_notices(former_policy, policy, at, least)
    elif former_policy and new is None:
        sunset = former_policy.sunset_at
        if sunset is None or sunset > at:
            end = "a sunset" if sunset is None else f"its sunset, {moment(sunset)}"
            yield "operation-removed", f"{subject} is removed before {end}; write live = true if it keeps working"
        yield from _list_lost_exemptions(former_policy, (), at)


def _list_policy_changes(old: DeprecationPolicy, new: DeprecationPolicy, at: datetime) -> Iterator[_Found]:
    if old.sunset_at is not None and new.sunset_at is not None and new.sunset_at < old.sunset_at:
        yield "sunset-earlier", f"the sunset is {moment(new.sunset_at)}, and was {moment(old.sunset_at)}"
    if new.enforce_sunset and not old.enforce_sunset:
        yield "enforcement-added", "the sunset is enforced: responds 410 afterwards"
    for window in new.brownouts:
        if window not in old.brownouts:
            yield "brownout-added", f"responds 410 from {period(window.start, window.end)}"
    yield from _list_lost_exemptions(old, new.exemptions, at)


def _list_lost_exemptions(old: DeprecationPolicy, exemptions: Sequence[Exemption], at: datetime) -> Iterator[_Found]:
    remaining = {each.caller: each.until for each in exemptions}
    for each in old.exemptions:
        until = remaining.get(each.caller)
        if each.until > at and (until is None or until < each.until):
            now = "is removed" if until is None else f"ends {moment(until)}"
            message = f"the exemption of {each.caller} {now}, and was promised until {moment(each.until)}"
            yield "exemption-removed", message


def _successor(operation: Operation, requested: Operation) -> str | None:
    """Return the successor that an operation sends for the path of another one, whatever its parameters are named."""
    unconditional = replace(operation, query=None, headers=None)
    match = OperationTable([unconditional]).match(operation.method, _far_path(requested))
    return operation.successor if match is None else match.successor


def _extend(conditions: Values | None, others: Iterable[Values | None]) -> Values:
    """Return conditions that the same requests meet, and that list each name of others too."""
    names = {name.lower(): (ABSENT, PRESENT) for each in others for name in each or ()}
    return names | {name.lower(): values for name, values in (conditions or {}).items()}


def _list_requests(operation: Operation) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the method, the path and the environ of a request for each combination of values that conditions list."""
    for headers in _combine(operation.headers):
        environ = {environ_key(name): value for name, value in headers.items()}
        for query in _combine(operation.query):
            environ["QUERY_STRING"] = urlencode(query, errors="surrogateescape")
            yield operation.method, _far_path(operation), environ


def _combine(conditions: Values | None) -> Iterator[dict[str, str]]:
    """Return combinations of the values that fit, by name: the first ones of many."""
    pairs = [
        [(name, _OTHER_VALUE if each == PRESENT else each) for each in ([own] if isinstance(own, str) else own)]
        for name, own in (conditions or {}).items()
    ]
    return map(dict, islice(product(*pairs), _COMBINATIONS))


def _far_path(operation: Operation) -> str:
    """Return the path of a request for an operation; one for a subtree is far below it."""
    path = operation.path + "/**" * 9 if operation.path.endswith("/**") else operation.path
    return decode_path(path)
