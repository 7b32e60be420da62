"""Parts of a plan that are valid, but probably mistakes."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from http import HTTPMethod
from urllib.parse import unquote, urlsplit

from flask_notifications.wording import count, duration, moment

from .announcement import is_path
from .conditions import list_unmet
from .operations import ANY_METHOD, Operation, template_shape
from .overlaps import Group, Overlaps
from .plan import Plan, table_of
from .policy import DeprecationPolicy

_Deprecated = Mapping[Operation, DeprecationPolicy]

# Callers need time to hear of a deprecation before the first brownout; clients that
# retry do not notice one that is shorter than this.
_NOTICE, _SHORTEST = timedelta(days=14), timedelta(minutes=5)
# Headers in which clients send a version in more spellings than a live operation
# matches.
_MEDIA_TYPES = frozenset({"accept", "content-type"})


def plan_warnings(plan: Plan, *, at: datetime) -> list[str]:
    """Return one sentence for each part of a plan that is valid, but probably a
    mistake.

    It cannot find what only the application knows, such as a misspelled path:
    ``flask_notifications.testing.assert_plan_reaches`` finds that.
    """
    deprecated = {
        operation: policy for operation, policy in plan.items() if policy is not None
    }
    if not deprecated:
        return ["no operation of the plan is deprecated"]
    warnings: list[str] = []
    for operation in plan:
        warnings += _name(operation, _find_unmet(operation))
    warnings += _live_warnings(plan, deprecated)
    warnings += _link_warnings(plan, deprecated)
    # Many operations may share a policy.
    mistakes: dict[DeprecationPolicy, list[str]] = {}
    for operation, policy in deprecated.items():
        if policy not in mistakes:
            mistakes[policy] = [
                *_find_wrong_brownouts(policy),
                *_find_wrong_sunset(policy, at),
                *_find_wrong_exemptions(policy, at),
            ]
        warnings += _name(operation, mistakes[policy])
    return [*warnings, *_enforcement_warnings(deprecated)]


def _name(operation: Operation, mistakes: Iterable[str]) -> Iterator[str]:
    for mistake in mistakes:
        yield f"{operation.name}: {mistake}"


def _find_unmet(operation: Operation) -> Iterator[str]:
    if operation.method not in {*HTTPMethod.__members__, ANY_METHOD}:
        yield f"{operation.method} is not an HTTP method (RFC 9110 section 9); is it misspelled?"
    for name, value in list_unmet(operation.headers):
        yield f"no request has {value!r} as one member of the header {name}; list several members"


def _live_warnings(plan: Plan, deprecated: _Deprecated) -> Iterator[str]:
    overlaps = Overlaps(deprecated)
    for operation in plan:
        if operation in deprecated:
            continue
        for header in operation.headers or ():
            if header.lower() in _MEDIA_TYPES:
                yield f"{operation.name}: clients spell {header} in many ways; put the condition on the deprecated operation instead"
        shape = template_shape(operation)
        groups = filter(Group.of(shape).has_method_of, overlaps.groups)
        if not any(overlaps.find(shape, groups)):
            yield f"{operation.name}: no deprecated operation matches its paths, so live = true has no effect"


def _link_warnings(plan: Plan, deprecated: _Deprecated) -> Iterator[str]:
    table = table_of(plan)
    for operation, policy in deprecated.items():
        links = {
            "successor": operation.successor,
            "documentation": policy.documentation,
            "sunset_documentation": policy.sunset_documentation,
        }
        for key, uri in links.items():
            if uri is None or not is_path(uri):
                continue
            target = urlsplit(uri)
            path = unquote(target.path, "latin-1")
            match = table.match("GET", path, {"QUERY_STRING": target.query})
            if match is not None and match.operation in deprecated:
                yield f"{operation.name}: {key} {uri} is a path of the deprecated operation {match.operation.name}"


def _find_wrong_brownouts(policy: DeprecationPolicy) -> Iterator[str]:
    for brownout in policy.brownouts:
        window = f"the brownout of {moment(brownout.start)}"
        length = brownout.end - brownout.start
        if brownout.start < policy.deprecated_at:
            yield f"{window} is before deprecated_at"
        if length < _SHORTEST:
            yield f"{window} lasts {duration(length)}; retries survive less than {duration(_SHORTEST)}"
    if policy.windows:
        start = policy.windows[0].start
        if timedelta() <= start - policy.deprecated_at < _NOTICE:
            yield f"the first brownout, of {moment(start)}, is less than {duration(_NOTICE)} after deprecated_at"


def _find_wrong_sunset(policy: DeprecationPolicy, at: datetime) -> Iterator[str]:
    sunset_at = policy.sunset_at
    if sunset_at is None:
        return
    if policy.enforce_sunset:
        if policy.windows and policy.windows[-1].end > sunset_at:
            start = policy.windows[-1].start
            yield f"the brownout of {moment(start)} is not over at the enforced sunset"
    elif sunset_at <= at:
        yield f"the sunset of {moment(sunset_at)} has passed and is not enforced, so it keeps working"


def _find_wrong_exemptions(policy: DeprecationPolicy, at: datetime) -> Iterator[str]:
    closings = [window.start for window in policy.windows[:1]]
    if policy.enforce_sunset and policy.sunset_at is not None:
        closings.append(policy.sunset_at)
    for exemption in policy.exemptions:
        until = moment(exemption.until)
        if exemption.until <= at:
            yield f"the exemption of {exemption.caller!r} ended on {until}"
        elif not closings or min(closings) >= exemption.until:
            yield f"the exemption of {exemption.caller!r} has no effect, because the operation works until {until} for everybody"


def _enforcement_warnings(deprecated: _Deprecated) -> Iterator[str]:
    """Yield operations that differ from others with the same dates in their enforcement.

    A key that is appended to a file belongs to its last table.
    """
    groups: dict[object, tuple[list[str], list[str]]] = {}
    for operation, policy in deprecated.items():
        if policy.sunset_at is not None:
            dates = (policy.deprecated_at, policy.sunset_at)
            group = groups.setdefault(dates, ([], []))
            group[policy.enforce_sunset].append(operation.name)
    for working, closed in groups.values():
        if working and closed:
            others = count(len(working), "operation")
            yield f"{', '.join(closed)}: enforce_sunset is set here, and not in {others} with the same dates; in TOML, a key that applies to all must precede the first [[operations]]"
