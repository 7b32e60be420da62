"""Check a live URL strictly: headers, dates, links and differences from a plan, each
with its remedy and RFC.
"""

import email.utils
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from flask_notifications.dates import parse_deprecation, parse_sunset
from flask_notifications.headers import members_of
from flask_notifications.plans.plan import Plan
from flask_notifications.plans.policy import Phase

from .comparison import (
    RELATIONS,
    Candidate,
    find_candidates,
    list_differences,
    quote_values,
)
from .fetching import Fetcher, LiveResponse, OutOfTime, Unreachable
from .links import Link, own_links, read_links

# The level of each code, and the end of its message: the remedy, and the section that
# demands it.
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
        "Send 'Cache-Control: no-store' (RFC 9110 section 15.5.11, RFC 9111 section 5.2.2.5).",
    ),
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
_CHECKED = ("Deprecation", "Sunset", "Link")
_MAX_TARGETS = 20
# Characters of a message: those at its beginning, and those at its end, where the
# advice is.
_BEGIN, _END = 800, 200


class Finding(NamedTuple):
    """Something that a check found: a code that stays the same in all versions, and a
    message for people.

    ``level`` is ``error``, ``warning`` or ``info``.
    """

    code: str
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The outcome of a check.

    ``url`` is the URL as it was given, ``final_url`` the one after redirects, both
    without credentials; ``status`` and ``headers`` (``Deprecation``, ``Sunset`` and
    ``Link`` only) are of the last response. Errors are the first findings.
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
        """Return a mapping for JSON, the same in all versions but for further members."""
        return {
            "schema": 1,
            **asdict(self),
            "findings": [each._asdict() for each in self.findings],
        }


def check_url(
    fetcher: Fetcher,
    url: str,
    *,
    method: str = "GET",
    plan: Plan | None = None,
    calls_links: bool = True,
) -> CheckReport:
    """Call an absolute URL, and check its announcement and the differences from a plan,
    if there is one.

    The URL is called with the method, and with ``HEAD`` too if that is ``GET``; every
    link is called once with ``GET``, but no more than 20, those of the retirement
    first. Redirects that announce nothing are followed. Not checked: the body, and
    whether a date is in the future.

    :raises Unreachable: the URL has no response; the message says why.
    """
    now = datetime.now(UTC)
    try:
        response = fetcher.follow(method, url)
    except Unreachable as error:
        message = f"{fetcher.mask(url)} is not reachable: {fetcher.mask(str(error))}"
        raise Unreachable(_shorten(message)) from error
    links, invalid = read_links(response.values("Link"))
    own = own_links(links, response.url)
    candidates = (
        []
        if plan is None
        else find_candidates(plan, method, response, fetcher.headers, now)
    )
    # A live operation need not announce anything.
    is_live = candidates and candidates[0].phase is None
    findings = [] if is_live else [*_check_presence(response, own)]
    findings += _check_dates(response)
    findings += [
        _find("link-invalid", f"Link {value!r} is invalid: {error}")
        for value, error in invalid
    ]
    findings += [*_check_cors(response), *_check_gone(response, candidates)]
    if method == "GET":
        differences = _compare_head(fetcher, response)
        findings += [
            _find("head-differs", f"HEAD and GET differ: {each}.")
            for each in differences
        ]
    if calls_links:
        findings += _check_targets(fetcher, response.url, links)
    if plan is not None:
        remedy = (
            "Change the plan, or deploy it."
            if candidates
            else "Call another URL, or add it to the plan."
        )
        found = list_differences(plan, method, response, own, candidates)
        findings += [
            Finding("plan-differs", "error", f"{each}. {remedy}") for each in found
        ]
    announced = [
        (name, fetcher.mask(value))
        for name in _CHECKED
        for value in response.values(name)
    ]
    masked = [
        each._replace(message=_shorten(fetcher.mask(each.message))) for each in findings
    ]
    masked.sort(key=lambda finding: ("error", "warning", "info").index(finding.level))
    return CheckReport(
        fetcher.mask(url),
        fetcher.mask(response.url),
        response.status,
        announced,
        masked,
    )


def _shorten(message: str) -> str:
    return (
        message
        if len(message) <= _BEGIN + _END
        else f"{message[:_BEGIN]} … {message[-_END:]}"
    )


def _find(code: str, problem: str) -> Finding:
    level, end = _CODES[code]
    return Finding(code, level, f"{problem} {end}")


def _check_presence(response: LiveResponse, own: Sequence[Link]) -> Iterator[Finding]:
    if not response.values("Deprecation"):
        remedy = "Send the date of the deprecation, as in 'Deprecation: @1767225600'"
        yield _find("deprecation-missing", f"There is no Deprecation header. {remedy}")
    relations = {relation for link in own for relation in link.relations}
    for relation, code in (
        ("successor-version", "successor-missing"),
        ("deprecation", "documentation-missing"),
    ):
        if relation not in relations:
            yield _find(code, f'No Link has rel="{relation}".')


def _check_dates(response: LiveResponse) -> Iterator[Finding]:
    yield from _check_date(response, "Deprecation", parse_deprecation)
    yield from _check_date(response, "Sunset", parse_sunset)
    with suppress(IndexError, ValueError):
        deprecation, sunset = (
            response.values("Deprecation")[0],
            response.values("Sunset")[0],
        )
        if parse_sunset(sunset) < parse_deprecation(deprecation):
            yield _find(
                "sunset-before-deprecation",
                f"Sunset {sunset!r} is before Deprecation {deprecation!r}.",
            )


def _check_date(
    response: LiveResponse, name: str, parse: Callable[[str], datetime]
) -> Iterator[Finding]:
    values = response.values(name)
    if len(values) > 1:
        problem = f"There are {len(values)} {name} headers, which together are one invalid value."
        yield _find(f"{name.lower()}-repeated", problem)
    for value in values:
        try:
            parse(value)
        except ValueError as error:
            yield _find(f"{name.lower()}-invalid", f"{error}{_suggest(name, value)}")


def _suggest(name: str, value: str) -> str:
    """Return the right form of a date in another format, where that is clear."""
    for read in (
        parse_deprecation,
        datetime.fromisoformat,
        email.utils.parsedate_to_datetime,
        _parse_seconds,
    ):
        with suppress(ValueError, TypeError, OverflowError, OSError):
            date = read(value)
            date = (
                date.replace(tzinfo=UTC)
                if date.tzinfo is None
                else date.astimezone(UTC)
            )
            right = (
                f"@{int(date.timestamp())}"
                if name == "Deprecation"
                else email.utils.format_datetime(date, True)
            )
            return f". If that date is meant, send {right!r}"
    return ""


def _parse_seconds(value: str) -> datetime:
    return datetime.fromtimestamp(float(value), UTC)


def _check_gone(
    response: LiveResponse, candidates: Sequence[Candidate]
) -> Iterator[Finding]:
    if response.status != 410:
        return
    if "no-store" not in _members(response, "Cache-Control"):
        yield _find(
            "gone-cacheable", "Caches may keep this 410 after a brownout is over."
        )
    phases = [response.code, *(each.phase for each in candidates)]
    if Phase.BROWNOUT in phases and not response.values("Retry-After"):
        yield _find(
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
        problem = f"Scripts of other origins may read the response, but not {', '.join(hidden)}."
        yield _find("cors-not-exposed", problem)


def _compare_head(fetcher: Fetcher, response: LiveResponse) -> Iterator[str]:
    """Yield the differences of the response to ``HEAD`` from the one to ``GET``."""
    try:
        head = fetcher.fetch("HEAD", response.url)
    except Unreachable as error:
        yield f"HEAD has no response: {error}"
        return
    if head.status != response.status:
        yield f"the status of HEAD is {head.status}, that of GET {response.status}"
    for name in _CHECKED:
        if head.values(name) != response.values(name):
            of_head, of_get = (
                quote_values(each.values(name)) or "missing"
                for each in (head, response)
            )
            yield f"{name} of HEAD is {of_head}, of GET {of_get}"


def _check_targets(
    fetcher: Fetcher, url: str, links: Sequence[Link]
) -> Iterator[Finding]:
    """Yield the links whose targets do not respond, of the first 20 after those of the
    retirement.
    """
    ranked = sorted(links, key=lambda link: set(link.relations).isdisjoint(RELATIONS))
    shown = {
        urljoin(url, link.target).partition("#")[0]: link.target for link in ranked
    }
    targets = [
        target for target in shown if urlsplit(target).scheme in {"http", "https"}
    ][:_MAX_TARGETS]
    for place, target in enumerate(targets):
        try:
            problem = fetcher.find_problem(target)
        except OutOfTime as error:
            message = f"{len(targets) - place} links were not called, because {error}."
            yield Finding("link-unreachable", "error", message)
            return
        if problem is not None:
            yield _find(
                "link-unreachable",
                f"The link to {shown[target]} leads nowhere: {problem}.",
            )
