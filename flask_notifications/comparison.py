"""Compare a response of production with a plan: which operation it belongs to, and how it differs from its policy."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from .deprecation import CLOSED_PHASES, DeprecationHeaders, DeprecationPolicy
from .fetching import LiveResponse
from .links import own_links, parse_links
from .operations import Match, Operation, OperationTable
from .plans import Plan

_RELATIONS = ("successor-version", "deprecation", "sunset")


class Candidate(NamedTuple):
    """An operation of a plan that a URL may belong to, with its policy and the headers that it then announces.

    A live operation has the policy ``None`` and no headers.
    """

    operation: Operation
    policy: DeprecationPolicy | None
    headers: list[tuple[str, str]]


def find_candidates(plan: Plan, method: str, url: str) -> list[Candidate]:
    """Return what a URL may match: first for an application at the root, then for each longer mount point.

    :param plan: the operations and their policies.
    :param method: the HTTP method.
    :param url: an absolute URL.
    """
    table = OperationTable(plan)
    path = urlsplit(url).path or "/"
    mounts = [path[:place] for place, character in enumerate(path) if character == "/"]
    matches = [(mount, table.match(method, unquote(path.removeprefix(mount), "latin-1"))) for mount in mounts]
    return [_candidate(plan, match, mount) for mount, match in matches if match is not None]


def _candidate(plan: Plan, match: Match, mount: str) -> Candidate:
    policy, successor = plan[match.operation], match.operation.successor
    if policy is None:
        return Candidate(match.operation, policy, [])
    filled_in = None if successor is None else match.fill_in(successor)
    return Candidate(match.operation, policy, DeprecationHeaders(policy).render(filled_in, mount))


def list_differences(plan: Plan, method: str, response: LiveResponse, at: datetime) -> list[str]:
    """Return how a response differs from a plan, one sentence without a full stop for each difference.

    Where the URL may belong to several mount points, the one that fits best counts.

    :param plan: the operations and their policies.
    :param method: the HTTP method of the request.
    :param response: what production sent.
    :param at: when that was, an aware datetime.
    """
    candidates = find_candidates(plan, method, response.url)
    if not candidates:
        return [_explain_mismatch(plan, method, urlsplit(response.url).path or "/")]
    return min((list(_differences(candidate, response, at)) for candidate in candidates), key=len)


def quote_values(values: Sequence[str]) -> str:
    """Return strings in quotation marks for a message, and an empty string if there are none.

    :param values: the strings.
    """
    return " and ".join(map(repr, values))


def _explain_mismatch(plan: Plan, method: str, path: str) -> str:
    methods = OperationTable(plan).methods(unquote(path, "latin-1"))
    others = f"; the plan has {' and '.join(methods)} for this path" if methods else ""
    return f"No operation of the plan matches {method} {path}{others}"


def _differences(candidate: Candidate, response: LiveResponse, at: datetime) -> Iterator[str]:
    name = candidate.operation.name
    if candidate.policy is None:
        sent = [header for header in ("Deprecation", "Sunset") if response.values(header)]
        yield from (f"{header} is sent, but operation {name} is live in the plan" for header in sent)
        return
    for header in ("Deprecation", "Sunset"):
        planned = [value for key, value in candidate.headers if key == header]
        if response.values(header) != planned:
            yield _describe(name, header, response.values(header), planned)
    yield from _link_differences(candidate, response)
    yield from _phase_differences(name, candidate.policy, response, at)


def _link_differences(candidate: Candidate, response: LiveResponse) -> Iterator[str]:
    planned = [link for key, value in candidate.headers if key == "Link" for link in parse_links(value)]
    sent = own_links(response.values("Link"), response.url)
    for relation in _RELATIONS:
        wanted = [link.target for link in planned if relation in link.relations]
        found = [link.target for link in sent if relation in link.relations]
        targets = [_without_origin(response.url, target, wanted) for target in found]
        # The application may have links of its own with the same relation; without one in the plan, any is reported.
        is_different = any(target not in targets for target in wanted) if wanted else bool(found)
        if is_different:
            yield _describe(candidate.operation.name, f'Link rel="{relation}"', found, wanted)


def _describe(name: str, header: str, sent: Sequence[str], planned: Sequence[str]) -> str:
    found = f"{header} {quote_values(sent)}" if sent else f"no {header}"
    return f"Production sends {found} for {name}; the plan has {quote_values(planned) or 'none'}"


def _without_origin(url: str, target: str, wanted: Sequence[str]) -> str:
    """Return the target of a link as a plan writes it: the plan does not know the ``base_url`` of the middleware."""
    path = urlsplit(urljoin(url, target))._replace(scheme="", netloc="").geturl()
    return path if path in wanted else target


def _phase_differences(name: str, policy: DeprecationPolicy, response: LiveResponse, at: datetime) -> Iterator[str]:
    phase, code = policy.phase(at), _code(response)
    if phase in CLOSED_PHASES and response.status != 410:
        yield f"The status of {name} is {response.status}, but in the plan its phase is {phase}, which is 410"
    if code in CLOSED_PHASES and code != phase:
        yield f"The status of {name} is 410 with the code {code}, but in the plan its phase is {phase}"


def _code(response: LiveResponse) -> Any:
    """Return the ``code`` of a 410 of this library (RFC 9457 section 3.2), or ``None``."""
    with suppress(ValueError, AttributeError):
        return json.loads(response.body).get("code")
    return None
