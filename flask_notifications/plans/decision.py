"""Choose the operation that decides about a request.

A closed one is chosen before a deprecated one, and that before a live one, because a
request that some router takes for a closed operation must not pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from .announcement import Announcement
from .operations import Match
from .policy import CLOSED_PHASES, DeprecationPolicy, Phase


# Not frozen, because that would add a tenth to the instructions of a request.
@dataclass(slots=True)
class Decision:
    """What is decided about a request of a deprecated operation.

    ``method`` and ``path`` are those that the application gets; the path includes the
    mount point.
    """

    match: Match
    phase: Phase
    at: datetime
    caller: str | None
    announcement: Announcement
    method: str
    path: str


def decide(
    matches: Sequence[Match],
    policies: Mapping[str, DeprecationPolicy | None],
    at: datetime,
    caller: str | None = None,
) -> tuple[Match, DeprecationPolicy | None, Phase | None]:
    """Return the match that decides about a request, and its policy and phase.

    A live operation has neither policy nor phase.

    :param matches: what ``OperationTable.find`` returns, at least one match.
    :param policies: the policies by the names of operations, ``None`` for a live one.
    :param at: an aware datetime.
    :param caller: the label of the caller, which may be exempt.
    """
    decision: tuple[Match, DeprecationPolicy | None, Phase | None]
    decision = matches[0], None, None
    for match in matches:
        policy = policies[match.operation.name]
        if policy is None:
            continue
        phase = policy.phase(at, caller)
        if phase in CLOSED_PHASES:
            return match, policy, phase
        if decision[1] is None:
            decision = match, policy, phase
    return decision
