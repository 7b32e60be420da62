"""Parts of a plan that are valid, but probably mistakes."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from http import HTTPMethod
from urllib.parse import unquote, urlsplit

from flask_notifications.wording import moment

from .announcement import is_path
from .conditions import list_unmet
from .operations import ANY_METHOD, Operation, template_shape
from .overlaps import Group, Overlaps
from .plan import Plan, schedule, table_of
from .policy import CLOSED_PHASES, DeprecationPolicy

_Retired = Mapping[Operation, DeprecationPolicy]


def plan_warnings(plan: Plan, *, at: datetime) -> list[str]:
    """Return one sentence for each part of a plan that is valid, but probably a
    mistake.

    It cannot find what only the application knows, such as a misspelled path:
    ``flask_notifications.testing.assert_plan_reaches`` finds that.
    """
    retired = {
        operation: policy for operation, policy in plan.items() if policy is not None
    }
    if not retired:
        return ["no operation of the plan is retired"]
    return [
        *(f"{each.name}: {mistake}" for each in plan for mistake in _find_unmet(each)),
        *_live_warnings(plan, retired),
        *_link_warnings(plan, retired),
        *(
            f"{each.name}: {mistake}"
            for each, policy in retired.items()
            for mistake in _find_wrong_dates(policy, at)
        ),
    ]


def _find_unmet(operation: Operation) -> Iterator[str]:
    if operation.method not in {*HTTPMethod.__members__, ANY_METHOD}:
        yield f"{operation.method} is not an HTTP method (RFC 9110 section 9); is it misspelled?"
    for name, value in list_unmet(operation.headers):
        yield f"no request has {value!r} as one member of the header {name}; list several members"


def _live_warnings(plan: Plan, retired: _Retired) -> Iterator[str]:
    overlaps = Overlaps(retired)
    for operation in plan:
        if operation in retired:
            continue
        shape = template_shape(operation)
        groups = filter(Group.of(shape).has_method_of, overlaps.groups)
        if not any(overlaps.find(shape, groups)):
            yield f"{operation.name}: no retired operation matches its paths, so live = true has no effect"


def _link_warnings(plan: Plan, retired: _Retired) -> Iterator[str]:
    table = table_of(plan)
    for operation, policy in retired.items():
        pages = {
            name: getattr(policy, name)
            for name in ("documentation", "sunset_documentation")
        }
        for name, uri in {"successor": operation.successor, **pages}.items():
            if uri is None or not is_path(uri):
                continue
            target = urlsplit(uri)
            match = table.match(
                "GET", unquote(target.path, "latin-1"), {"QUERY_STRING": target.query}
            )
            if match is not None and match.operation in retired:
                yield f"{operation.name}: {name} {uri} is a path of the retired operation {match.operation.name}"


def _find_wrong_dates(policy: DeprecationPolicy, at: datetime) -> Iterator[str]:
    for window in policy.brownouts:
        if window.start < policy.deprecated_at:
            yield f"the brownout of {moment(window.start)} is before deprecated_at"
        if (
            policy.enforce_sunset
            and policy.sunset_at is not None
            and window.end > policy.sunset_at
        ):
            yield f"the brownout of {moment(window.start)} is not over at the enforced sunset"
    if (
        policy.sunset_at is not None
        and policy.sunset_at <= at
        and not policy.enforce_sunset
    ):
        yield f"the sunset of {moment(policy.sunset_at)} has passed and is not enforced, so it keeps working"
    closings = [
        event.start
        for event in schedule(policy)
        if policy.phase(event.start) in CLOSED_PHASES
    ]
    for each in policy.exemptions:
        if each.until <= at:
            yield f"the exemption of {each.caller!r} ended on {moment(each.until)}"
        elif all(closing >= each.until for closing in closings):
            everybody = (
                f"because the operation works until {moment(each.until)} for everybody"
            )
            yield f"the exemption of {each.caller!r} has no effect, {everybody}"
