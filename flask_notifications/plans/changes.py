"""The effects of a changed plan on callers: broken promises, and facts for a reviewer."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from urllib.parse import unquote

from flask_notifications.deprecation import Brownout, DeprecationPolicy, Exemption
from flask_notifications.operations import Operation, OperationTable, template_shape
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


_Found = tuple[str, str]
_RetiredOperation = tuple[Operation, DeprecationPolicy]


def compare_plans(old: Plan, new: Plan, *, at: datetime, min_notice: timedelta = timedelta()) -> list[Change]:
    """Return the effects on callers of the change from one plan to another, in the order of the new plan.

    Callers know methods, paths and conditions, so the name of an operation does not count. The requests of an operation
    that the other plan lacks may be those of another one, such as a subtree.

    :param old: the plan that callers know.
    :param new: the plan that is proposed.
    :param at: the present, an aware datetime. What is over then is not promised any more.
    :param min_notice: the time that there has to be before the start of a new brownout and before a new sunset, which
        is none by default. A sunset that is postponed is not new.
    :raises ValueError: one of them is not a plan.
    """
    check_plan(old)
    check_plan(new)
    notice = _Notice(at, min_notice)
    before, after = _Requests(old), _Requests(new)
    changes: list[Change] = []
    for operation, policy in new.items():
        if policy is not None:
            found = _list_changes(before.find(operation), (operation, policy), notice)
            changes += [Change(operation.name, *each) for each in found]
    for operation, policy in old.items():
        if template_shape(operation) not in after.shapes:
            found = _list_losses(operation, policy, after, notice)
            changes += [Change(operation.name, *each) for each in found]
    return changes


class _Notice(NamedTuple):
    at: datetime
    least: timedelta

    def check(self, what: str, date: datetime) -> Iterator[_Found]:
        """Yield an error if there is too little time before a new date."""
        left = date - self.at
        if left < self.least and self.least:
            words = f"in {duration(left)}" if left > timedelta() else "over"
            yield "notice-too-short", f"{what} of {moment(date)} is {words}, not in {count(self.least.days, 'day')}"


class _Requests:
    """Find the treatment that a plan gives to the requests of an operation of another plan.

    ``shapes`` are the operations by the requests that they get.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.shapes = {template_shape(operation): operation for operation in plan}
        self._table = table_of(plan) if plan else None

    def match(self, operation: Operation) -> Operation | None:
        """Return the operation that has the requests of another plan's operation."""
        found = self.shapes.get(template_shape(operation))
        if found is None and self._table is not None:
            match = self._table.match(*_request(operation))
            found = None if match is None else match.operation
        return found

    def find(self, operation: Operation) -> _RetiredOperation | None:
        """Return the retired operation that has the requests, with its policy."""
        found = self.match(operation)
        policy = None if found is None else self._plan[found]
        return None if found is None or policy is None else (found, policy)


def _list_changes(former: _RetiredOperation | None, retired: _RetiredOperation, notice: _Notice) -> Iterator[_Found]:
    """Yield the changes for the callers of a retired operation."""
    operation, policy = retired
    known: datetime | None = None
    windows: Sequence[Brownout] = ()
    if former is None:
        yield "operation-added", f"{operation.method} {operation.path} is retired now"
    else:
        old, former_policy = former
        known, windows = former_policy.sunset_at, former_policy.brownouts
        yield from _list_policy_changes(former_policy, policy, notice)
        if _successor(old, old) != _successor(operation, old):
            successors = f"{operation.successor or 'none'}, and was {old.successor or 'none'}"
            yield "successor-changed", f"the successor is {successors}"
    sunset = policy.sunset_at
    # A sunset that is postponed has been announced for long.
    if sunset is not None and (known is None or sunset < known or known <= notice.at < sunset):
        yield from notice.check("the sunset", sunset)
    for window in policy.brownouts:
        if window not in windows and window.end > notice.at:
            yield from notice.check("the brownout", window.start)


def _list_policy_changes(old: DeprecationPolicy, new: DeprecationPolicy, notice: _Notice) -> Iterator[_Found]:
    if old.sunset_at is not None and new.sunset_at is not None and new.sunset_at < old.sunset_at:
        yield "sunset-earlier", f"the sunset is {moment(new.sunset_at)}, and was {moment(old.sunset_at)}"
    if new.enforce_sunset and not old.enforce_sunset:
        yield "enforcement-added", "the sunset is enforced: responds 410 afterwards"
    for window in new.brownouts:
        if window not in old.brownouts:
            yield "brownout-added", f"responds 410 from {period(window.start, window.end)}"
    yield from _list_lost_exemptions(old, new.exemptions, notice)


def _list_lost_exemptions(old: DeprecationPolicy, exemptions: Sequence[Exemption], notice: _Notice) -> Iterator[_Found]:
    remaining = {each.caller: each.until for each in exemptions}
    for each in old.exemptions:
        until = remaining.get(each.caller)
        if each.until > notice.at and (until is None or until < each.until):
            now = "is removed" if until is None else f"ends {moment(until)}"
            message = f"the exemption of {each.caller} {now}, and was promised until {moment(each.until)}"
            yield "exemption-removed", message


def _successor(operation: Operation, requested: Operation) -> str | None:
    """Return the successor that an operation sends for the path of another one, whatever its parameters are named."""
    match = OperationTable([operation]).match(*_request(requested))
    return operation.successor if match is None else match.successor


def _list_losses(
    operation: Operation, policy: DeprecationPolicy | None, new: _Requests, notice: _Notice
) -> Iterator[_Found]:
    """Yield the changes for the callers of an operation that is not in the new plan."""
    found = new.find(operation)
    subject = f"{operation.method} {operation.path}"
    if policy is None:
        if found is not None:
            yield "operation-added", f"{subject} is not listed as live any more, and is retired with {found[0].name}"
    elif found is not None:
        yield from _list_changes((operation, policy), found, notice)
    elif new.match(operation) is None:
        if policy.sunset_at is None or policy.sunset_at > notice.at:
            end = "a sunset" if policy.sunset_at is None else f"its sunset, {moment(policy.sunset_at)}"
            yield "operation-removed", f"{subject} is removed before {end}; write live = true if it keeps working"
        yield from _list_lost_exemptions(policy, (), notice)


def _request(operation: Operation) -> tuple[str, str]:
    """Return the method and the path of a request for an operation; one for a subtree is far below it."""
    path = operation.path + "/**" * 9 if operation.path.endswith("/**") else operation.path
    return operation.method, unquote(path, "latin-1")
