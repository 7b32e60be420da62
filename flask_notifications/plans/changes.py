"""The effects of a changed plan on callers, such as broken promises."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from flask_notifications.wording import count, moment, period

from .conditions import environ_key, example_values
from .operations import PARAMETER, REST, Operation, decode_path, match_operation
from .plan import Plan, table_of
from .policy import DeprecationPolicy, Window

Level = Literal["error", "warning", "info"]

# An error is a promise to callers that the change breaks, a warning an effect that they
# notice.
LEVELS: Mapping[str, Level] = {
    "sunset-earlier": "error",
    "notice-too-short": "error",
    "operation-removed": "error",
    "live-removed": "error",
    "exemption-removed": "error",
    "enforcement-added": "warning",
    "brownout-added": "warning",
    "successor-changed": "warning",
    "session-changed": "warning",
    "operation-added": "info",
}


class Change(NamedTuple):
    """One effect on the callers of an operation.

    ``operation`` is its name in the new plan, or in the old one if it is removed.
    """

    operation: str
    code: str
    level: Level
    message: str


# An operation with its policy; a live one has none.
_Entry = tuple[Operation, DeprecationPolicy | None]
# A code and a message.
_Effect = tuple[str, str]

# A value that no condition lists, as a WSGI string.
_OTHER_VALUE = "\xff"
# A path far below a subtree. No literal of a template matches a segment of it.
_BELOW = f"/{REST}" * 10


def compare_plans(
    old: Plan, new: Plan, *, at: datetime, min_notice: timedelta = timedelta()
) -> list[Change]:
    """Return the effects on callers of a changed plan, in the order of the new plan.

    Callers know methods, paths and conditions, so the name of an operation does not
    count. Its counterpart in the other plan is the operation of the same shape, or else
    the one that matches its path with the first value that each condition lists.

    :param at: the present, an aware datetime. Promises that have ended by then do not
        count.
    :param min_notice: the least time before a new date from which an operation responds
        with 410; by default none, but such a date may not be in the past. A postponed
        sunset is not new.
    """
    counterparts_of, counterparts_in = _Counterparts(old), _Counterparts(new)
    # The operation to report, by the pair of the old and the new entry.
    pairs: dict[tuple[_Entry | None, _Entry | None], Operation] = {}
    for entry in new.items():
        pairs.setdefault((counterparts_of.find(*entry), entry), entry[0])
    for entry in old.items():
        pairs.setdefault((entry, counterparts_in.find(*entry)), entry[0])
    changes = []
    for (former, latter), subject in pairs.items():
        for code, message in _list_effects(subject, former, latter, at, min_notice):
            changes.append(Change(subject.name, code, LEVELS[code], message))
    return changes


def list_new_records(old: Plan, new: Plan) -> list[str]:
    """Return the names of deprecated operations whose callers are counted anew.

    Their name, method, path or conditions are not those of the old plan.
    """
    old_rules = {_rules_of(operation) for operation in old}
    names = []
    for operation, policy in new.items():
        if policy is not None and _rules_of(operation) not in old_rules:
            names.append(operation.name)
    return names


def _rules_of(operation: Operation) -> tuple[object, ...]:
    return operation.name, operation.path, operation.template.shape


class _Counterparts:
    """Find the operation of one plan that takes the place of one of another plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._table = table_of(plan)
        self._operations: dict[tuple[object, ...], Operation] = {}
        for operation, policy in plan.items():
            for key in _list_keys(operation, policy):
                self._operations.setdefault(key, operation)

    def find(
        self, operation: Operation, policy: DeprecationPolicy | None
    ) -> _Entry | None:
        for key in _list_keys(operation, policy):
            if key in self._operations:
                return self._entry(self._operations[key])
        query = example_values(operation.query, _OTHER_VALUE)
        environ = {"QUERY_STRING": urlencode(query, encoding="latin-1")}
        headers = example_values(operation.headers, _OTHER_VALUE)
        environ |= {environ_key(name): value for name, value in headers.items()}
        match = self._table.match(operation.method, _path_of(operation), environ)
        return None if match is None else self._entry(match.operation)

    def _entry(self, operation: Operation) -> _Entry:
        return operation, self._plan[operation]


def _list_keys(
    operation: Operation, policy: DeprecationPolicy | None
) -> list[tuple[object, ...]]:
    """Return what an operation shares with its counterpart, the best key first.

    Both have the same shape and spelling, but perhaps another final slash. Those of
    deprecated operations may also differ in letter case.
    """
    shape = operation.template.shape
    alike = shape
    if shape.has_slash:
        alike = shape._replace(has_slash=False)
    spelling = PARAMETER.sub("{}", operation.path).rstrip("/")
    if policy is None:
        return [("same", shape, spelling), ("alike", alike, spelling)]
    return [
        ("same", shape, spelling),
        ("same", shape),
        ("alike", alike, spelling),
        ("alike", alike),
    ]


def _path_of(operation: Operation) -> str:
    """Return a path that matches an operation, and others only by their parameters."""
    return decode_path(operation.path.replace(f"/{REST}", _BELOW))


def _list_effects(
    subject: Operation,
    former: _Entry | None,
    latter: _Entry | None,
    at: datetime,
    least: timedelta,
) -> Iterator[_Effect]:
    """Yield the effects of the change of an operation.

    :param subject: the operation to report, of the old plan or the new one.
    :param at: the present.
    :param least: the least notice.
    """
    request = f"{subject.method} {subject.path}"
    old, old_policy = former or (None, None)
    new, new_policy = latter or (None, None)
    if new is not None and new_policy is not None:
        if old is None:
            yield "operation-added", f"{request} is deprecated now"
        elif old_policy is None:
            how = "" if new is subject else f", as a part of {new.name}"
            yield "live-removed", f"{request} was live, and is deprecated now{how}"
        else:
            yield from _compare_policies(old_policy, new_policy)
            yield from _list_lost_exemptions(old_policy, new_policy, at)
            yield from _compare_operations(old, new, _path_of(subject))
        yield from _list_short_notices(old_policy, new_policy, at, least)
    elif new is None and old_policy is not None:
        sunset = old_policy.sunset_at
        if sunset is None or sunset > at:
            end = "a sunset" if sunset is None else f"its sunset, {moment(sunset)}"
            advice = "write live = true if it keeps working"
            yield "operation-removed", f"{request} is removed before {end}; {advice}"
        yield from _list_lost_exemptions(old_policy, None, at)


def _compare_operations(old: Operation, new: Operation, path: str) -> Iterator[_Effect]:
    """Yield what two operations do differently with a path that matches both."""
    if match_operation(old, path).successor != match_operation(new, path).successor:
        successors = f"{new.successor or 'none'}, and was {old.successor or 'none'}"
        yield "successor-changed", f"the successor is {successors}"
    for key in ("unify_session", "rewrite_path"):
        is_set = getattr(new, key)
        if is_set != getattr(old, key):
            state = "set" if is_set else "not set any more"
            yield "session-changed", f"{key} is {state}"


def _compare_policies(
    old: DeprecationPolicy, new: DeprecationPolicy
) -> Iterator[_Effect]:
    if old.sunset_at and new.sunset_at and new.sunset_at < old.sunset_at:
        dates = f"{moment(new.sunset_at)}, and was {moment(old.sunset_at)}"
        yield "sunset-earlier", f"the sunset is {dates}"
    if new.enforce_sunset and not old.enforce_sunset:
        yield "enforcement-added", "the sunset is enforced: responds 410 afterwards"
    for window, number in _list_new_windows(old, new):
        more = f", and in {count(number - 1, 'later window')}" if number > 1 else ""
        responds = f"responds 410 from {period(window.start, window.end)}{more}"
        yield "brownout-added", responds


def _list_new_windows(
    old: DeprecationPolicy | None, new: DeprecationPolicy
) -> list[tuple[Window, int]]:
    """Return the first new window of each brownout, and the number of its new windows.

    A window within an old one is not new, because it breaks no promise.
    """
    unknown = []
    for brownout in new.brownouts:
        windows = []
        for window in brownout.list_windows(new.sunset_at):
            former = None if old is None else old.brownout(window.start)
            if former is None or former.end < window.end:
                windows.append(window)
        if windows:
            unknown.append((windows[0], len(windows)))
    return unknown


def _list_short_notices(
    old: DeprecationPolicy | None,
    new: DeprecationPolicy,
    at: datetime,
    least: timedelta,
) -> Iterator[_Effect]:
    """Yield the new dates, from which an operation responds with 410, that are near."""
    dates = []
    if new.sunset_at is not None and new.enforce_sunset:
        former = old.sunset_at if old is not None and old.enforce_sunset else None
        # A postponed sunset is not new, unless the old one has passed.
        if former is None or new.sunset_at < former or former <= at < new.sunset_at:
            dates.append(("the sunset", new.sunset_at))
    for window, _number in _list_new_windows(old, new):
        dates.append(("the brownout", window.start))
    for event, date in dates:
        if date < at:
            yield "notice-too-short", f"{event} of {moment(date)} is already past"
        elif date - at < least:
            notice = f"less than {count(least.days, 'day')} of notice"
            yield "notice-too-short", f"{event} of {moment(date)} gives {notice}"


def _list_lost_exemptions(
    old: DeprecationPolicy, new: DeprecationPolicy | None, at: datetime
) -> Iterator[_Effect]:
    remaining = {}
    if new is not None:
        for exemption in new.exemptions:
            remaining[exemption.caller] = exemption.until
    for exemption in old.exemptions:
        until = remaining.get(exemption.caller)
        if exemption.until <= at or (until is not None and until >= exemption.until):
            continue
        now = "is removed" if until is None else f"ends {moment(until)}"
        message = (
            f"the exemption of {exemption.caller} {now}, and was promised until"
            f" {moment(exemption.until)}"
        )
        yield "exemption-removed", message
