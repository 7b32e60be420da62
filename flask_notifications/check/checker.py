"""Check a live URL strictly: headers, dates, links, and differences from a plan.

Each finding says how to remedy it, and which section of which RFC demands that.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from flask_notifications.dates import parse_deprecation, parse_sunset
from flask_notifications.headers import members_of
from flask_notifications.plans.policy import Phase

from .comparison import (
    RELATIONS,
    Candidate,
    PlanComparison,
    quote_values,
)
from .fetching import Fetcher, LiveResponse, OutOfTime, Unreachable
from .links import Link, read_links, select_links

# The level of each code, and the end of its message: the remedy, and the section of
# the standard, if any.
_CODES = {
    "deprecation-missing": ("error", "(RFC 9745 section 2)."),
    "deprecation-invalid": ("error", "(RFC 9745 section 2.1)."),
    "deprecation-repeated": ("error", "Send one (RFC 9745 section 2.1)."),
    "sunset-invalid": ("error", "(RFC 8594 section 3)."),
    "sunset-repeated": ("error", "Send one (RFC 8594 section 3)."),
    "sunset-before-deprecation": ("error", "Send a later Sunset (RFC 9745 section 4)."),
    "link-invalid": ("error", "(RFC 8288 section 3)."),
    "link-unreachable": (
        "error",
        "Link to something that responds (RFC 8288 section 3.1).",
    ),
    "gone-cacheable": (
        "error",
        (
            "Send 'Cache-Control: no-store' "
            "(RFC 9110 section 15.5.11, RFC 9111 section 5.2.2.5)."
        ),
    ),
    "plan-differs": ("error", "Change the plan, deploy it, or call another URL."),
    "cors-not-exposed": (
        "warning",
        "Add them to Access-Control-Expose-Headers (Fetch standard, CORS protocol).",
    ),
    "head-differs": ("warning", "Send the same (RFC 9110 section 9.3.2)."),
    "successor-missing": (
        "info",
        "Link to what replaces the operation, if anything does (RFC 5829 section 3.3).",
    ),
    "documentation-missing": (
        "info",
        "Link to a page that tells people what to change (RFC 9745 section 3).",
    ),
    "gone-without-retry-after": (
        "info",
        "Send the seconds to its end (RFC 9110 section 10.2.3).",
    ),
}
_LEVELS = ("error", "warning", "info")
_CHECKED = ("Deprecation", "Sunset", "Link")
# The most links that are called.
_MAX_TARGETS = 20
# The characters that remain of a long message, at its beginning and at its end. The
# advice is at the end.
_BEGIN, _END = 800, 200


class Finding(NamedTuple):
    """Something that a check found.

    ``code`` stays the same in all versions, ``level`` is ``error``, ``warning`` or
    ``info``, and ``message`` is for people.
    """

    code: str
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The outcome of a check.

    ``url`` is the URL that was passed, ``final_url`` the one after redirects, both
    without credentials. ``status`` and ``headers`` (only ``Deprecation``, ``Sunset``
    and ``Link``) are those of the last response. Among ``findings``, errors come first.
    """

    url: str
    final_url: str
    status: int
    headers: list[tuple[str, str]]
    findings: list[Finding]

    @property
    def has_errors(self) -> bool:
        """Whether a finding is an error."""
        return any(finding.level == "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return a mapping for JSON; later versions only add members."""
        findings = [finding._asdict() for finding in self.findings]
        return {"schema": 1, **asdict(self), "findings": findings}


def check_url(
    fetcher: Fetcher,
    url: str,
    *,
    method: str = "GET",
    comparison: PlanComparison | None = None,
    calls_links: bool = True,
) -> CheckReport:
    """Call an absolute URL, check its announcement, and compare it with a plan.

    The URL is also called with ``HEAD`` if the method is ``GET``. At most 20 links are
    called once with ``GET``, those about the deprecation first. Redirects that announce
    nothing are followed. Not checked: the body, and whether a date is in the future.

    :param fetcher: sends the requests, and limits their time.
    :param url: the URL, with http or https.
    :param method: the HTTP method, by default ``GET``.
    :param comparison: the comparison with a plan; by default none.
    :param calls_links: whether the links are called, by default yes.
    :raises Unreachable: the URL does not respond; the message says why.
    """
    now = datetime.now(UTC)
    try:
        response = fetcher.follow(method, url)
    except Unreachable as error:
        message = f"{fetcher.mask(url)} is not reachable: {fetcher.mask(str(error))}"
        raise Unreachable(_shorten(message)) from error
    links, invalid = read_links(response.values("Link"))
    links_of_url = select_links(links, response.url)
    candidates = []
    if comparison is not None:
        headers = fetcher.headers
        candidates = comparison.find_candidates(method, response, headers, now)
    findings: list[Finding] = []
    # A live operation need not announce anything.
    if not candidates or candidates[0].phase is not None:
        findings += _check_presence(response, links_of_url)
    findings += _check_dates(response)
    for value, reason in invalid:
        findings.append(
            _make_finding("link-invalid", f"Link {value!r} is invalid: {reason}")
        )
    findings += _check_cors(response)
    findings += _check_gone(response, candidates)
    if method == "GET":
        findings += _compare_head(fetcher, response)
    if calls_links:
        findings += _check_targets(fetcher, response.url, links)
    if comparison is not None:
        for difference in comparison.list_differences(
            method, response, links_of_url, candidates
        ):
            findings.append(_make_finding("plan-differs", f"{difference}."))
    findings.sort(key=lambda finding: _LEVELS.index(finding.level))
    announced: list[tuple[str, str]] = []
    for name in _CHECKED:
        values = response.values(name)
        announced.extend((name, fetcher.mask(value)) for value in values)
    return CheckReport(
        fetcher.mask(url),
        fetcher.mask(response.url),
        response.status,
        announced,
        [
            finding._replace(message=_shorten(fetcher.mask(finding.message)))
            for finding in findings
        ],
    )


def _shorten(message: str) -> str:
    if len(message) <= _BEGIN + _END:
        return message
    return f"{message[:_BEGIN]} … {message[-_END:]}"


def _make_finding(code: str, problem: str) -> Finding:
    level, end = _CODES[code]
    return Finding(code, level, f"{problem} {end}")


def _check_presence(response: LiveResponse, links: Sequence[Link]) -> Iterator[Finding]:
    if not response.values("Deprecation"):
        remedy = "Send the date of the deprecation, as in 'Deprecation: @1767225600'"
        yield _make_finding(
            "deprecation-missing", f"There is no Deprecation header. {remedy}"
        )
    for relation, code in (
        ("successor-version", "successor-missing"),
        ("deprecation", "documentation-missing"),
    ):
        if not any(relation in link.relations for link in links):
            yield _make_finding(code, f'No Link has rel="{relation}".')


def _check_dates(response: LiveResponse) -> Iterator[Finding]:
    yield from _check_date(response, "Deprecation", parse_deprecation)
    yield from _check_date(response, "Sunset", parse_sunset)
    with suppress(IndexError, ValueError):
        deprecation = response.values("Deprecation")[0]
        sunset = response.values("Sunset")[0]
        if parse_sunset(sunset) < parse_deprecation(deprecation):
            yield _make_finding(
                "sunset-before-deprecation",
                f"Sunset {sunset!r} is before Deprecation {deprecation!r}.",
            )


def _check_date(
    response: LiveResponse, name: str, parse: Callable[[str], datetime]
) -> Iterator[Finding]:
    values = response.values(name)
    if len(values) > 1:
        problem = (
            f"There are {len(values)} {name} headers, "
            "which together are one invalid value."
        )
        yield _make_finding(f"{name.lower()}-repeated", problem)
    for value in values:
        try:
            parse(value)
        except ValueError as error:
            yield _make_finding(f"{name.lower()}-invalid", f"{error}")


def _check_gone(
    response: LiveResponse, candidates: Sequence[Candidate]
) -> Iterator[Finding]:
    if response.status != 410:
        return
    if "no-store" not in _members(response, "Cache-Control"):
        yield _make_finding(
            "gone-cacheable", "Caches may keep this 410 after a brownout is over."
        )
    phases = [candidate.phase for candidate in candidates]
    phases.append(response.code)
    if Phase.BROWNOUT in phases and not response.values("Retry-After"):
        yield _make_finding(
            "gone-without-retry-after", "This 410 of a brownout has no Retry-After."
        )


def _members(response: LiveResponse, name: str) -> set[str]:
    return {member.lower() for member in members_of(response.values(name))}


def _check_cors(response: LiveResponse) -> Iterator[Finding]:
    exposed = _members(response, "Access-Control-Expose-Headers")
    is_wildcard = "*" in exposed and "true" not in _members(
        response, "Access-Control-Allow-Credentials"
    )
    hidden = [
        name
        for name in _CHECKED
        if response.values(name) and name.lower() not in exposed
    ]
    if response.values("Access-Control-Allow-Origin") and hidden and not is_wildcard:
        problem = (
            "Scripts of other origins may read the response, "
            f"but not {', '.join(hidden)}."
        )
        yield _make_finding("cors-not-exposed", problem)


def _compare_head(fetcher: Fetcher, response: LiveResponse) -> Iterator[Finding]:
    """Yield a finding for each difference between the responses to HEAD and GET."""
    try:
        head = fetcher.fetch("HEAD", response.url)
    except Unreachable as error:
        yield _make_finding("head-differs", f"HEAD has no response: {error}.")
        return
    of_head = {"The status": [str(head.status)]}
    of_get = {"The status": [str(response.status)]}
    for name in _CHECKED:
        of_head[name] = head.values(name)
        of_get[name] = response.values(name)
    for name, values in of_get.items():
        if of_head[name] != values:
            difference = (
                f"{name} of HEAD is {quote_values(of_head[name]) or 'missing'}, "
                f"of GET {quote_values(values) or 'missing'}."
            )
            yield _make_finding("head-differs", difference)


def _check_targets(
    fetcher: Fetcher, url: str, links: Sequence[Link]
) -> Iterator[Finding]:
    """Call at most 20 links, those about the deprecation first, and yield dead ones."""
    ranked = sorted(links, key=lambda link: set(link.relations).isdisjoint(RELATIONS))
    # The absolute URL of each target, and the target as it was sent, for messages.
    targets: dict[str, str] = {}
    for link in ranked:
        target = urljoin(url, link.target).partition("#")[0]
        is_callable = urlsplit(target).scheme in {"http", "https"}
        if is_callable and (target in targets or len(targets) < _MAX_TARGETS):
            targets[target] = link.target
    for place, target in enumerate(targets):
        try:
            problem = fetcher.find_problem(target)
        except OutOfTime as error:
            message = f"{len(targets) - place} links were not called, because {error}."
            yield Finding("link-unreachable", "error", message)
            return
        if problem is not None:
            yield _make_finding(
                "link-unreachable",
                f"The link to {targets[target]} leads nowhere: {problem}.",
            )
