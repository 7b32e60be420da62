"""Parts of a plan that are valid, but probably mistakes."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from flask_notifications.wording import count, duration, moment

from .operations import Operation
from .plan import Plan
from .policy import DeprecationPolicy

# Callers need so much time to hear of a deprecation before the first brownout, and
# clients that retry do not notice a brownout that is shorter than this.
_LEAST_NOTICE, _LEAST_LENGTH = timedelta(days=14), timedelta(minutes=5)
# Headers in which clients spell a version in more ways than a live operation matches.
_MEDIA_TYPES = frozenset({"accept", "content-type"})


def plan_warnings(plan: Plan, *, at: datetime) -> list[str]:
    """Return one sentence for each valid part of a plan that is probably a mistake.

    Only your application knows whether a path is misspelled, so
    ``flask_notifications.testing.assert_plan_reaches`` finds that.
    """
    deprecated: dict[Operation, DeprecationPolicy] = {}
    warnings: list[str] = []
    for operation, policy in plan.items():
        if policy is None:
            mistakes = _find_media_types(operation)
        else:
            deprecated[operation] = policy
            mistakes = _find_wrong_dates(policy, at)
        for mistake in mistakes:
            warnings.append(f"{operation.name}: {mistake}")
    if not deprecated:
        return ["no operation of the plan is deprecated"]
    return [*warnings, *_find_partial_enforcement(deprecated)]


def _find_media_types(live: Operation) -> Iterator[str]:
    for header in live.headers or ():
        if header.lower() in _MEDIA_TYPES:
            yield (
                f"clients spell {header} in many ways; put the condition on the"
                " deprecated operation instead"
            )


def _find_wrong_dates(policy: DeprecationPolicy, at: datetime) -> Iterator[str]:
    for brownout in policy.brownouts:
        length = brownout.end - brownout.start
        if length < _LEAST_LENGTH:
            yield (
                f"the brownout of {moment(brownout.start)} lasts {duration(length)};"
                f" retries survive less than {duration(_LEAST_LENGTH)}"
            )
    if policy.windows:
        start = policy.windows[0].start
        if start - policy.deprecated_at < _LEAST_NOTICE:
            yield (
                f"the first brownout, of {moment(start)}, is less than"
                f" {duration(_LEAST_NOTICE)} after deprecated_at"
            )
    sunset_at = policy.sunset_at
    if sunset_at is not None and sunset_at <= at and not policy.enforce_sunset:
        yield (
            f"the sunset of {moment(sunset_at)} has passed and is not enforced, so it"
            " keeps working"
        )


def _find_partial_enforcement(
    deprecated: Mapping[Operation, DeprecationPolicy],
) -> Iterator[str]:
    """Yield the operations that enforce a sunset, unlike others with the same dates.

    Perhaps somebody appended the key to a file for all operations. In TOML, it belongs
    to the last one only.
    """
    groups: dict[object, tuple[list[str], list[str]]] = {}
    for operation, policy in deprecated.items():
        if policy.sunset_at is not None:
            dates = (policy.deprecated_at, policy.sunset_at)
            working, closed = groups.setdefault(dates, ([], []))
            names = closed if policy.enforce_sunset else working
            names.append(operation.name)
    for working, closed in groups.values():
        if working and closed:
            others = count(len(working), "operation")
            yield (
                f"{', '.join(closed)}: enforce_sunset is set here, and not in {others}"
                " with the same dates; in TOML, a key that applies to all must precede"
                " the first [[operations]]"
            )
