"""The effects of a changed plan on callers: broken promises, and facts for a reviewer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, product, zip_longest
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from flask_notifications.wording import count, moment, period

from .conditions import ABSENT, PRESENT, environ_key
from .operations import (
    PARAMETER,
    REST,
    Operation,
    OperationTable,
    decode_path,
    template_shape,
)
from .overlaps import Overlaps
from .plan import Plan, table_of
from .policy import Brownout, DeprecationPolicy, Exemption

Level = Literal["error", "warning", "info"]

# An error is a promise to callers that the change breaks, a warning an effect that they
# notice.
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
    """Describe one effect on the callers of an operation, by its name in the plan that
    retires it.
    """

    operation: str
    code: str
    level: Level
    message: str


# A value that no condition lists, because it is not UTF-8.
_OTHER_VALUE = "\udcff"
# Of the values that several conditions list, because their number is a product; and of
# all requests that are tried.
_COMBINATIONS, _REQUESTS = 100, 100_000
# The rest of a path that is far below a subtree.
_BELOW = f"/{REST}" * 10

_Found = tuple[str, str]
# The method, the path and the environ of a request.
_Request = tuple[str, str, tuple[tuple[str, str], ...]]
# The operation that has a request, and its policy: none if the operation is live, or
# nothing has the request.
_Treatment = tuple[Operation | None, DeprecationPolicy | None]


def compare_plans(
    old: Plan, new: Plan, *, at: datetime, min_notice: timedelta = timedelta()
) -> list[Change]:
    """Return the effects on callers of the change from one plan to another, in the
    order of the new plan.

    Callers know methods, paths and conditions, so the name of an operation does not
    count. Both plans are asked which operation gets the same requests: some of each
    operation, with the values that conditions list, and of each two that share
    requests. At most 100 combinations of values for two operations are tried, and
    100,000 requests.

    :param at: the present, an aware datetime. What is over then is not promised any
        more.
    :param min_notice: the time that there has to be before the start of a new brownout
        and before a new sunset, which is none by default. A sunset that is postponed is
        not new.
    """
    before, after = table_of(old), table_of(new)
    # The operation that is reported, by the treatments of its requests before and after
    # the change.
    reported: dict[tuple[_Treatment, _Treatment], Operation] = {}
    requests: dict[_Request, Operation] = {}
    for request, operation in islice(_list_requests(old, new), _REQUESTS):
        requests.setdefault(request, operation)
    for request, operation in requests.items():
        reported.setdefault(
            (_treat(request, old, before), _treat(request, new, after)), operation
        )
    changes = (
        Change(operation.name, code, LEVELS[code], message)
        for treatments, operation in reported.items()
        for code, message in _list_changes(operation, *treatments, at, min_notice)
    )
    return list(dict.fromkeys(changes))


def _list_short_notices(
    old: DeprecationPolicy | None,
    new: DeprecationPolicy,
    at: datetime,
    least: timedelta,
) -> Iterator[_Found]:
    known, sunset = old and old.sunset_at, new.sunset_at
    dates = [
        ("the brownout", each.start)
        for each in _list_new_brownouts(old, new)
        if each.end > at
    ]
    # A sunset that is postponed has been announced for long.
    if sunset is not None and (known is None or sunset < known or known <= at < sunset):
        dates.insert(0, ("the sunset", sunset))
    for what, date in dates:
        if date - at < least and least:
            yield (
                "notice-too-short",
                f"{what} of {moment(date)} gives less than {count(least.days, 'day')} of notice",
            )


def _list_new_brownouts(
    old: DeprecationPolicy | None, new: DeprecationPolicy
) -> list[Brownout]:
    """Return the brownouts that are not within one that callers know; to cut one short
    breaks no promise.
    """
    known = () if old is None else old.brownouts
    return [
        each
        for each in new.brownouts
        if not any(own.start <= each.start and each.end <= own.end for own in known)
    ]


def _treat(request: _Request, plan: Plan, table: OperationTable) -> _Treatment:
    method, path, environ = request
    match = table.match(method, path, dict(environ))
    return (None, None) if match is None else (match.operation, plan[match.operation])


def _list_changes(
    operation: Operation,
    former: _Treatment,
    treatment: _Treatment,
    at: datetime,
    least: timedelta,
) -> Iterator[_Found]:
    """Yield the changes for the callers whose requests of an operation of one of the
    plans are treated so.
    """
    (old, former_policy), (new, policy) = former, treatment
    subject = f"{operation.method} {operation.path}"
    if new and policy:
        if old and former_policy:
            yield from _list_policy_changes(former_policy, policy, at)
            if _successor(old, old) != _successor(new, old):
                successors = (
                    f"{new.successor or 'none'}, and was {old.successor or 'none'}"
                )
                yield "successor-changed", f"the successor is {successors}"
        else:
            yield (
                "operation-added",
                f"{subject} is retired now{'' if new is operation else f' with {new.name}'}",
            )
        yield from _list_short_notices(former_policy, policy, at, least)
    elif former_policy and new is None:
        sunset = former_policy.sunset_at
        if sunset is None or sunset > at:
            end = "a sunset" if sunset is None else f"its sunset, {moment(sunset)}"
            yield (
                "operation-removed",
                f"{subject} is removed before {end}; write live = true if it keeps working",
            )
        yield from _list_lost_exemptions(former_policy, (), at)


def _list_policy_changes(
    old: DeprecationPolicy, new: DeprecationPolicy, at: datetime
) -> Iterator[_Found]:
    if (
        old.sunset_at is not None
        and new.sunset_at is not None
        and new.sunset_at < old.sunset_at
    ):
        yield (
            "sunset-earlier",
            f"the sunset is {moment(new.sunset_at)}, and was {moment(old.sunset_at)}",
        )
    if new.enforce_sunset and not old.enforce_sunset:
        yield "enforcement-added", "the sunset is enforced: responds 410 afterwards"
    for window in _list_new_brownouts(old, new):
        yield "brownout-added", f"responds 410 from {period(window.start, window.end)}"
    yield from _list_lost_exemptions(old, new.exemptions, at)


def _list_lost_exemptions(
    old: DeprecationPolicy, exemptions: Sequence[Exemption], at: datetime
) -> Iterator[_Found]:
    remaining = {each.caller: each.until for each in exemptions}
    for each in old.exemptions:
        until = remaining.get(each.caller)
        if each.until > at and (until is None or until < each.until):
            now = "is removed" if until is None else f"ends {moment(until)}"
            message = f"the exemption of {each.caller} {now}, and was promised until {moment(each.until)}"
            yield "exemption-removed", message


def _successor(operation: Operation, requested: Operation) -> str | None:
    """Return the successor that an operation sends for the path of another one,
    whatever its parameters are named.
    """
    unconditional = replace(operation, query=None, headers=None)
    match = OperationTable([unconditional]).match(
        operation.method, _list_paths(requested, requested)[0]
    )
    return operation.successor if match is None else match.successor


def _list_requests(old: Plan, new: Plan) -> Iterator[tuple[_Request, Operation]]:
    """Yield requests of each operation, and then requests that it shares with others.

    Those of an operation of both plans may change hands only by conditions, or if the
    other one is of one plan alone.
    """
    kinds = (
        {(template_shape(each), policy is None) for each, policy in plan.items()}
        for plan in (old, new)
    )
    kept = set.intersection(*kinds)
    listed = {**new, **old}  # those of both plans once
    all_others = Overlaps(listed)
    conditional = Overlaps(each for each in listed if each.query or each.headers)
    for operation in listed:
        avoided = [
            other
            for other in conditional.find(template_shape(operation))
            if other is not operation
        ]
        yield from _list_common(operation, operation)
        if avoided:
            yield from _list_common(operation, operation, avoided)
    for operation, policy in listed.items():
        shape = template_shape(operation)
        for other in (
            conditional if (shape, policy is None) in kept else all_others
        ).find(shape):
            yield from _list_common(operation, other)


def _list_common(
    operation: Operation, other: Operation, avoided: Sequence[Operation] = ()
) -> Iterator[tuple[_Request, Operation]]:
    """Yield requests that two operations share, or of one, with values that conditions
    of others do not list.
    """
    methods, environs = (
        sorted({operation.method, other.method}),
        _list_environs((operation, other), avoided),
    )
    for request in product(methods, _list_paths(operation, other), environs):
        yield request, operation


def _list_paths(operation: Operation, other: Operation) -> list[str]:
    """Return paths that match both operations: one far below two subtrees, and the
    shortest.
    """
    segments = (
        each.path.removesuffix(f"/{REST}").removesuffix("/").split("/")
        for each in (operation, other)
    )
    pairs = zip_longest(*segments, fillvalue="{_}")
    path = decode_path(
        "/".join(theirs if PARAMETER.fullmatch(own) else own for own, theirs in pairs)
    )
    is_below = all(each.path.endswith(f"/{REST}") for each in (operation, other))
    return [*([f"{path}{_BELOW}"] if is_below else []), path, f"{path}/"]


def _list_environs(
    operations: Sequence[Operation], avoided: Sequence[Operation]
) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield environs with combinations of the values that conditions list, of no value
    and of another one.
    """
    values: dict[tuple[str, str], list[str]] = {}
    for operation, kind in product(operations, ("query", "headers")):
        for name, own in (getattr(operation, kind) or {}).items():
            listed = values.setdefault((kind, name.lower()), [ABSENT, PRESENT])
            listed[:0] = [own] if isinstance(own, str) else own
    for operation, kind in product(avoided, ("query", "headers")):
        for name in getattr(operation, kind) or ():
            values.setdefault((kind, name.lower()), [PRESENT])
    choices = [dict.fromkeys(listed) for listed in values.values()]
    for chosen in islice(product(*choices), _COMBINATIONS):
        sent: dict[str, dict[str, str]] = {"query": {}, "headers": {}}
        for (kind, name), value in zip(values, chosen, strict=True):
            sent[kind][name] = _OTHER_VALUE if value == PRESENT else value
        query = urlencode(sent["query"], errors="surrogateescape")
        yield (
            ("QUERY_STRING", query),
            *((environ_key(name), value) for name, value in sent["headers"].items()),
        )
