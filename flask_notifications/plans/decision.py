"""Choose the operation that decides about a request: a closed one before a deprecated
one before a live one.

A request that some router takes for a closed operation must not pass.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from .announcement import Announcement, DeprecationHeaders
from .operations import Match
from .policy import CLOSED_PHASES, DeprecationPolicy, Exemption, Phase


class Decision(NamedTuple):
    """What is decided about a request of a deprecated operation.

    ``mount`` is where the application is mounted, percent-encoded, and ``successor``
    has its parameters filled in.
    """

    match: Match
    phase: Phase
    at: datetime
    caller: str | None
    exemption: Exemption | None
    mount: str
    successor: str | None
    headers: DeprecationHeaders
    announcement: Announcement


def decide(
    matches: Iterable[Match],
    policies: Mapping[str, DeprecationPolicy | None],
    at: datetime,
    caller: str | None = None,
) -> tuple[Match, DeprecationPolicy | None, Phase | None]:
    """Return the match that decides about a request, with the policy and the phase of
    its operation; a live operation has neither.

    :param matches: those of ``OperationTable.find``, one or more, the likeliest first.
    :param policies: the policy of each operation by its name, ``None`` of live ones.
    :param at: an aware datetime.
    :param caller: the label of the caller, which may be exempt.
    """
    live, deprecated = [], []
    for match in matches:
        policy = policies[match.operation.name]
        if policy is None:
            live.append((match, None, None))
            continue
        phase = policy.phase(at, caller)
        if phase in CLOSED_PHASES:
            return match, policy, phase
        deprecated.append((match, policy, phase))
    return (deprecated or live)[0]
