"""Compare responses of production with a plan.

Find the operation that a response belongs to, and its differences from the policy.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from flask_notifications.plans.announcement import DeprecationHeaders
from flask_notifications.plans.conditions import environ_key
from flask_notifications.plans.decision import decide
from flask_notifications.plans.operations import (
    ANY_METHOD,
    NOT_REACHED,
    Match,
    Operation,
)
from flask_notifications.plans.plan import Plan, table_of
from flask_notifications.plans.policy import CLOSED_PHASES, DeprecationPolicy, Phase

from .fetching import LiveResponse
from .links import Link, parse_links

RELATIONS = ("successor-version", "deprecation", "sunset")
# The most mount points that are tried, because a redirect may lead to a path with
# thousands of slashes.
_MOUNTS = 16


class Candidate(NamedTuple):
    """An operation that a response may belong to.

    ``phase`` is its phase for a caller, and ``headers`` announce it to that caller. A
    live operation has the phase ``None`` and no headers.
    """

    name: str
    phase: Phase | None
    headers: Sequence[tuple[str, str]]


def find_simple_operations(plan: Plan) -> dict[Operation, str]:
    """Return the operations that a ``GET`` without parameters or conditions reaches.

    The values are their paths, percent-encoded.
    """
    simple = {}
    for operation in plan:
        is_get = operation.method in {"GET", ANY_METHOD}
        is_conditional = operation.query or operation.headers
        if is_get and not is_conditional and not set("{*") & set(operation.path):
            simple[operation] = quote(operation.path, safe="/%")
    return simple


class PlanComparison:
    """Compare responses with a plan, whose operations are indexed once.

    :raises ValueError: the plan is invalid, as in ``table_of``.
    """

    def __init__(self, plan: Plan) -> None:
        self._table = table_of(plan)
        self._policies: Mapping[str, DeprecationPolicy | None] = {
            operation.name: policy for operation, policy in plan.items()
        }

    def find_candidates(
        self,
        method: str,
        response: LiveResponse,
        headers: Sequence[tuple[str, str]],
        at: datetime,
    ) -> list[Candidate]:
        """Return the operations that a response may belong to, the likeliest first.

        We know neither the mount point nor the caller. So try the root and then longer
        mount points, first without a caller. If the request had headers, they may be
        the credentials of a caller with an exemption, so try those callers, too.
        """
        url = urlsplit(response.url)
        environ = {environ_key(name): value for name, value in headers}
        environ["QUERY_STRING"] = url.query
        matches_at: dict[str, list[Match]] = {}
        for mount, path in _split_mounts(url.path or "/"):
            matches = self._table.find(method, path, environ)
            # The application has no view for a lookalike that it refuses.
            if response.status in NOT_REACHED:
                matches = [match for match in matches if not match.is_lookalike]
            if matches:
                matches_at[mount] = matches
        callers: list[str | None] = [None]
        if headers:
            callers += self._list_exempt_callers(matches_at)
        candidates = []
        for caller in callers:
            for mount, matches in matches_at.items():
                candidates.append(self._make_candidate(matches, mount, at, caller))
        return candidates

    def _list_exempt_callers(
        self, matches_at: Mapping[str, Sequence[Match]]
    ) -> list[str]:
        callers: dict[str, None] = {}
        for matches in matches_at.values():
            for match in matches:
                policy = self._policies[match.operation.name]
                for exemption in policy.exemptions if policy is not None else ():
                    callers[exemption.caller] = None
        return list(callers)

    def _make_candidate(
        self, matches: Sequence[Match], mount: str, at: datetime, caller: str | None
    ) -> Candidate:
        match, policy, phase = decide(matches, self._policies, at, caller)
        if policy is None:
            return Candidate(match.operation.name, None, ())
        exemption = policy.exemption(caller, at)
        announced = DeprecationHeaders(policy).render(match.successor, mount, exemption)
        return Candidate(match.operation.name, phase, announced)

    def list_differences(
        self,
        method: str,
        response: LiveResponse,
        links: Sequence[Link],
        candidates: Sequence[Candidate],
    ) -> list[str]:
        """Return the differences of a response from the candidate that fits it best.

        Each is a sentence without its full stop.
        """
        if not candidates:
            path = urlsplit(response.url).path or "/"
            return [f"No operation of the plan matches {method} {path}"]
        differences = [
            list(_list_differences(candidate, response, links))
            for candidate in candidates
        ]
        return min(differences, key=len)


def quote_values(values: Sequence[str]) -> str:
    """Return strings in quotation marks for a message; empty if there are none."""
    return " and ".join(map(repr, values))


def _split_mounts(path: str) -> Iterator[tuple[str, str]]:
    """Yield each possible mount point of a path, and the decoded path below it.

    Shorter mount points are first, beginning with the root.
    """
    place = path.find("/")
    for _count in range(_MOUNTS):
        if place < 0:
            return
        yield path[:place], unquote(path[place:], "latin-1")
        place = path.find("/", place + 1)


def _list_differences(
    candidate: Candidate, response: LiveResponse, links: Sequence[Link]
) -> Iterator[str]:
    name, phase, headers = candidate
    for header in ("Deprecation", "Sunset"):
        received = response.values(header)
        planned = [value for key, value in headers if key == header]
        if received != planned and phase is None:
            yield f"{header} is sent, but operation {name} is live in the plan"
        elif received != planned:
            yield _describe_difference(name, header, received, planned)
    if phase is None:
        return
    yield from _list_link_differences(candidate, response.url, links)
    if phase in CLOSED_PHASES and response.status != 410:
        yield (
            f"The status of {name} is {response.status}, "
            f"but in the plan its phase is {phase}, which is 410"
        )
    code = response.code
    if code in CLOSED_PHASES and code != phase:
        yield (
            f"The status of {name} is 410 with the code {code}, "
            f"but in the plan its phase is {phase}"
        )


def _list_link_differences(
    candidate: Candidate, url: str, links: Sequence[Link]
) -> Iterator[str]:
    announced: list[Link] = []
    for header, value in candidate.headers:
        if header == "Link":
            announced += parse_links(value)
    for relation in RELATIONS:
        planned = _list_targets(announced, relation)
        received = _list_targets(links, relation)
        # The middleware's base_url, which the plan does not contain, may have made
        # paths absolute.
        forms = {_without_origin(url, target) for target in received}
        # One planned link is enough, because the application may send others with the
        # same relation. If the plan has none with it, any such link is a difference.
        if (planned or received) and not (forms | set(received)) & set(planned):
            header = f'Link rel="{relation}"'
            yield _describe_difference(candidate.name, header, received, planned)


def _list_targets(links: Sequence[Link], relation: str) -> list[str]:
    return [link.target for link in links if relation in link.relations]


def _describe_difference(
    name: str, header: str, received: Sequence[str], planned: Sequence[str]
) -> str:
    production = f"no {header}"
    if received:
        production = f"{header} {quote_values(received)}"
    expected = quote_values(planned) or "none"
    return f"Production sends {production} for {name}; the plan has {expected}"


def _without_origin(url: str, target: str) -> str:
    return urlsplit(urljoin(url, target))._replace(scheme="", netloc="").geturl()
