"""Compare a response of production with a plan: which operation it belongs to, and how
it differs from its policy.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from flask_notifications.plans.announcement import DeprecationHeaders
from flask_notifications.plans.conditions import environ_key
from flask_notifications.plans.operations import (
    ANY_METHOD,
    NOT_REACHED,
    Match,
    Operation,
)
from flask_notifications.plans.plan import Plan, table_of
from flask_notifications.plans.policy import CLOSED_PHASES, Phase

from .fetching import LiveResponse
from .links import Link, parse_links

RELATIONS = ("successor-version", "deprecation", "sunset")
# Mount points that are tried. A redirect may lead to a path of thousands of slashes.
_MOUNTS = 16


class Candidate(NamedTuple):
    """An operation of a plan that a URL may belong to, its phase for a caller, and the
    headers that it then announces.

    A live operation has the phase ``None`` and no headers.
    """

    name: str
    phase: Phase | None
    headers: Sequence[tuple[str, str]]


def find_simple(plan: Plan) -> dict[Operation, str]:
    """Return the operations whose requests need nothing but a ``GET``, and their paths
    percent-encoded.
    """
    found = [
        each
        for each in plan
        if each.method in {"GET", ANY_METHOD} and not (each.query or each.headers)
    ]
    return {
        each: quote(each.path, safe="/%")
        for each in found
        if not set("{*") & set(each.path)
    }


def find_candidates(
    plan: Plan,
    method: str,
    response: LiveResponse,
    headers: Sequence[tuple[str, str]],
    at: datetime,
) -> list[Candidate]:
    """Return the operations of a request: first for an application at the root, then
    for each longer mount point.

    Headers of the request may be the credentials of a caller that is exempt, so such
    callers are the last candidates.
    """
    table, url = table_of(plan), urlsplit(response.url)
    path, environ = (
        url.path or "/",
        {environ_key(name): value for name, value in headers},
    )
    environ["QUERY_STRING"] = url.query
    found: list[tuple[list[Match], str]] = []
    mounts = (path[:place] for place, character in enumerate(path) if character == "/")
    for mount in islice(mounts, _MOUNTS):
        matches = table.find(
            method, unquote(path.removeprefix(mount), "latin-1"), environ
        )
        found.append(
            (
                [
                    each
                    for each in matches
                    if not each.is_lookalike or response.status not in NOT_REACHED
                ],
                mount,
            )
        )
    policies = (plan[match.operation] for matches, _mount in found for match in matches)
    exempt = (
        each.caller
        for policy in policies
        if policy is not None
        for each in policy.exemptions
    )
    callers = dict.fromkeys([None, *(exempt if headers else ())])
    candidates = (
        [_make_candidate(plan, match, mount, at, caller) for match in matches]
        for caller in callers
        for matches, mount in found
        if matches
    )
    # As a middleware chooses: a closed operation, or else the first retired one. Live
    # ones are the last.
    return [
        min(each, key=lambda own: (own.phase not in CLOSED_PHASES, own.phase is None))
        for each in candidates
    ]


def _make_candidate(
    plan: Plan, match: Match, mount: str, at: datetime, caller: str | None
) -> Candidate:
    name, policy = match.operation.name, plan[match.operation]
    if policy is None:
        return Candidate(name, None, ())
    headers = DeprecationHeaders(policy).render(
        match.successor, mount, policy.exemption(caller, at)
    )
    return Candidate(name, policy.phase(at, caller), headers)


def list_differences(
    plan: Plan,
    method: str,
    response: LiveResponse,
    links: Sequence[Link],
    candidates: Sequence[Candidate],
) -> list[str]:
    """Return how a response differs from the candidate that fits best, one sentence
    without a full stop for each.
    """
    if not candidates:
        return [_explain_mismatch(plan, method, urlsplit(response.url).path or "/")]
    return min(
        (list(_differences(candidate, response, links)) for candidate in candidates),
        key=len,
    )


def quote_values(values: Sequence[str]) -> str:
    """Return strings in quotation marks for a message, and an empty string if there are
    none.
    """
    return " and ".join(map(repr, values))


def _explain_mismatch(plan: Plan, method: str, path: str) -> str:
    methods = table_of(plan).methods(unquote(path, "latin-1"))
    shown = " and ".join(
        "any method" if each == ANY_METHOD else each for each in methods
    )
    demand = ", under conditions" if method in methods or ANY_METHOD in methods else ""
    others = f"; the plan has {shown} for this path{demand}" if methods else ""
    return f"No operation of the plan matches {method} {path}{others}"


def _differences(
    candidate: Candidate, response: LiveResponse, links: Sequence[Link]
) -> Iterator[str]:
    name, phase = candidate.name, candidate.phase
    if phase is None:
        sent = [
            header for header in ("Deprecation", "Sunset") if response.values(header)
        ]
        yield from (
            f"{header} is sent, but operation {name} is live in the plan"
            for header in sent
        )
        return
    for header in ("Deprecation", "Sunset"):
        planned = [value for key, value in candidate.headers if key == header]
        if response.values(header) != planned:
            yield _describe_difference(name, header, response.values(header), planned)
    yield from _link_differences(candidate, response.url, links)
    code = response.code
    if phase in CLOSED_PHASES and response.status != 410:
        yield f"The status of {name} is {response.status}, but in the plan its phase is {phase}, which is 410"
    if code in CLOSED_PHASES and code != phase:
        yield f"The status of {name} is 410 with the code {code}, but in the plan its phase is {phase}"


def _link_differences(
    candidate: Candidate, url: str, links: Sequence[Link]
) -> Iterator[str]:
    planned = [
        link
        for key, value in candidate.headers
        if key == "Link"
        for link in parse_links(value)
    ]
    for relation in RELATIONS:
        wanted = [link.target for link in planned if relation in link.relations]
        found = [link.target for link in links if relation in link.relations]
        # The application may have links of its own with the same relation; without one
        # in the plan, any is reported.
        fits = any(
            each in {target, _without_origin(url, target)}
            for target in found
            for each in wanted
        )
        if (wanted or found) and not fits:
            yield _describe_difference(
                candidate.name, f'Link rel="{relation}"', found, wanted
            )


def _describe_difference(
    name: str, header: str, sent: Sequence[str], planned: Sequence[str]
) -> str:
    found = f"{header} {quote_values(sent)}" if sent else f"no {header}"
    return f"Production sends {found} for {name}; the plan has {quote_values(planned) or 'none'}"


def _without_origin(url: str, target: str) -> str:
    """Return the target of a link as a plan writes it: the plan does not know the
    ``base_url`` of the middleware.
    """
    return urlsplit(urljoin(url, target))._replace(scheme="", netloc="").geturl()
