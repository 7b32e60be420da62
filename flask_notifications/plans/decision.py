"""Choose the operation that decides about a request: a closed one before a deprecated
one before a live one.

A request that some router takes for a closed operation must not pass.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from .operations import Match
from .policy import CLOSED_PHASES, DeprecationPolicy, Phase


class Decision(NamedTuple):
    """The match that decides, and the policy and the phase of its operation.

    A live operation has neither.
    """

    match: Match
    policy: DeprecationPolicy | None
    phase: Phase | None


def decide(
    matches: Iterable[Match],
    policies: Mapping[str, DeprecationPolicy | None],
    at: datetime,
    caller: str | None = None,
) -> Decision:
    """Return the decision about a request that matches one or more operations.

    :param matches: those of ``OperationTable.find``, the likeliest first.
    :param policies: the policy of each operation by its name, ``None`` of live ones.
    :param at: an aware datetime.
    :param caller: the label of the caller, which may be exempt.
    """
    decisions = []
    for match in matches:
        policy, phase = policies[match.operation.name], None
        if policy is not None:
            phase = policy.phase(at, caller)
        decision = Decision(match, policy, phase)
        if phase in CLOSED_PHASES:
            return decision
        decisions.append(decision)
    for decision in decisions:
        if decision.phase is not None:
            return decision
    return decisions[0]
