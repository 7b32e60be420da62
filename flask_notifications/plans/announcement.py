"""The headers that announce the retirement of an operation, and their link targets.

Knows nothing of requests, of the environ or of responses.
"""

import email.utils
from calendar import timegm
from typing import NamedTuple
from urllib.parse import urlsplit

from flask_notifications.headers import HeaderList

from .policy import DeprecationPolicy, Exemption


class Announcement(NamedTuple):
    """The headers that announce the retirement of an operation to a caller.

    ``dates`` are header lines, ``links`` the values of ``Link``, and ``lines`` both,
    for a response without links of its own. The other fields are what they depend on.
    """

    headers: "DeprecationHeaders"
    successor: str | None
    mount: str
    exemption: Exemption | None
    dates: HeaderList
    links: list[str]
    lines: HeaderList


class DeprecationHeaders:
    """The headers that announce the retirement of operations with one policy.

    Their bytes never change: ``Deprecation`` (RFC 9745) and ``Sunset`` (RFC 8594), then
    one ``Link`` (RFC 8288) for the successor (RFC 5829), the documentation and the
    policy of the sunset, as far as there are any. The links share one line, because
    some clients keep only one line of a name. A target that begins with a single ``/``
    is below the path at which the application is mounted, and ``base_url`` precedes
    that path. For a caller with an exemption, the sunset is the end of that exemption,
    if it is later.
    """

    def __init__(self, policy: DeprecationPolicy, *, base_url: str = "") -> None:
        self.policy = policy
        self._base_url = base_url.rstrip("/")
        self._dates: dict[Exemption | None, HeaderList] = {}
        for exemption in (None, *policy.exemptions):
            self._dates[exemption] = _list_dates(policy, exemption)
        self._pages = []
        for relation, uri in (
            ("deprecation", policy.documentation),
            ("sunset", policy.sunset_documentation),
        ):
            if uri is not None:
                self._pages.append((uri, f'rel="{relation}"{_media_type(uri)}'))

    def announce(
        self, successor: str | None, mount: str, exemption: Exemption | None = None
    ) -> Announcement:
        """Return the announcement to a caller.

        :param mount: the path at which the application is mounted, percent-encoded;
            empty at the root.
        """
        # Clients search for this spelling: the relation first, in quotation marks.
        links = []
        if successor is not None:
            target = self.resolve(successor, mount)
            links.append(f'<{target}>; rel="successor-version"')
        for uri, attributes in self._pages:
            links.append(f"<{self.resolve(uri, mount)}>; {attributes}")
        dates = self._dates[exemption]
        lines = dates
        if links:
            lines = [*dates, ("Link", ", ".join(links))]
        return Announcement(self, successor, mount, exemption, dates, links, lines)

    def render(
        self, successor: str | None, mount: str, exemption: Exemption | None = None
    ) -> HeaderList:
        """Return the header lines of the announcement."""
        return self.announce(successor, mount, exemption).lines

    def resolve(self, uri: str, mount: str) -> str:
        """Return the target of a link to a URI reference."""
        return resolve_below(uri, f"{self._base_url}{mount}")


def _list_dates(policy: DeprecationPolicy, exemption: Exemption | None) -> HeaderList:
    seconds = timegm(policy.deprecated_at.utctimetuple())
    dates = [("Deprecation", f"@{seconds}")]
    sunset_at = policy.sunset_of(exemption)
    if sunset_at is not None:
        # RFC 9110 section 5.6.7: an IMF-fixdate ends in GMT, and is in English in every
        # locale.
        dates.append(("Sunset", email.utils.format_datetime(sunset_at, usegmt=True)))
    return dates


def resolve_below(uri: str, base: str) -> str:
    """Return a URI reference, below a base if it is a path of this application."""
    return f"{base}{uri}" if is_path(uri) else uri


def is_path(uri: str) -> bool:
    """Return whether a URI reference is a path of this application.

    It is if it begins with a single slash.
    """
    return uri.startswith("/") and not uri.startswith("//")


def _media_type(uri: str) -> str:
    """Return the ``type`` of a link (RFC 8288 section 3.4.1) if it looks like HTML."""
    name = urlsplit(uri).path.rpartition("/")[2]
    is_page = "." not in name or name.endswith(".html")
    return '; type="text/html"' if is_page else ""
