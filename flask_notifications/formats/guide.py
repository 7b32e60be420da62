"""The migration guide for callers: when operations end, and what replaces them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from flask_notifications.dates import to_utc, utc_now
from flask_notifications.plans.announcement import resolve_below
from flask_notifications.plans.operations import Operation
from flask_notifications.plans.plan import Plan, deprecated_operations
from flask_notifications.plans.policy import DeprecationPolicy, Phase, Window
from flask_notifications.validation import check_base_url, require
from flask_notifications.wording import recurrence

from .axis import FIRST, LAST, Axis, pad
from .migration import Migration, say_placeholders
from .plot import list_brownouts
from .rendering import check_title, render

# The most brownouts of an operation that are drawn separately.
_BARS = 100


# The operations with the same policy.
_Groups = Mapping[DeprecationPolicy, Sequence[Operation]]


class _Row(NamedTuple):
    """The current, next or last window of a brownout, and how often it repeats."""

    start: datetime
    end: datetime
    repeats: str


def render_guide(
    plan: Plan,
    *,
    at: datetime | None = None,
    title: str | None = None,
    contact: str | None = None,
    base_url: str | None = None,
) -> str:
    """Return the migration guide of a plan as an HTML document.

    Publish it at the URL of ``documentation``, to which ``rel="deprecation"`` links.
    The document has no scripts and loads nothing. It works with
    ``Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'``.

    :param plan: the operations and their policies. Live operations, whose policy is
        ``None``, are left out, and so are exemptions.
    :param at: the time that the page describes as now, an aware datetime; by default
        the current time.
    :param title: the heading; by default it counts or names the deprecated operations.
    :param contact: whom to ask, in a few words: a name, an e-mail address, a channel.
        An http(s) URL or an e-mail address becomes a link. By default nobody.
    :param base_url: the absolute URL at which callers reach your application, for the
        examples and for links that begin with ``/``; by default the examples have a
        placeholder. The headers of responses are shown without it, as a middleware
        without ``base_url`` sends them.
    :raises ValueError: an argument is invalid; the message names it.
    """
    now = utc_now() if at is None else at
    require(
        isinstance(now, datetime) and now.utcoffset() is not None,
        "at",
        "an aware datetime",
        at,
    )
    require(FIRST <= now <= LAST, "at", "in the years 1 to 9999 in UTC", at)
    now = to_utc(now)
    check_title(title)
    require(contact is None or isinstance(contact, str), "contact", "a string", contact)
    check_base_url(base_url)
    base_url = None if base_url is None else base_url.rstrip("/")
    groups: defaultdict[DeprecationPolicy, list[Operation]] = defaultdict(list)
    migrations = []
    for operation, planned in deprecated_operations(plan).items():
        policy = replace(planned, exemptions=())  # the guide is public
        groups[policy].append(operation)
        migrations.append(Migration(operation, policy, now, base_url=base_url))
    dates = [now]
    sunsets = []
    pages: dict[str, None] = {}
    for policy in groups:
        dates.append(policy.deprecated_at)
        for window in list_brownouts(policy, FIRST, LAST):
            dates += window
        if policy.sunset_at is not None:
            dates.append(policy.sunset_at)
            sunsets.append(policy.sunset_at)
        if policy.sunset_documentation is not None:
            pages[resolve_below(policy.sunset_documentation, base_url or "")] = None
    axis = pad(min(dates), max(dates))
    return render(
        "guide.html",
        now=now,
        title=title,
        contact=contact,
        migrations=migrations,
        hint=say_placeholders(migrations, base_url),
        sunsets=sorted(sunsets),
        axis=axis,
        lanes=_draw_lanes(groups, axis),
        windows=_list_windows(groups, now),
        policy_pages=list(pages),
    )


def _draw_lanes(groups: _Groups, axis: Axis) -> list[dict[str, Any]]:
    """Return the lines of the timeline, one for all operations with the same policy."""
    lanes = []
    for policy, operations in groups.items():
        lanes.append(
            {
                "policy": policy,
                "operations": operations,
                "marks": axis.marks(policy),
                "bars": _list_bars(policy),
            }
        )
    return lanes


def _list_bars(policy: DeprecationPolicy) -> list[Window]:
    """Return the brownouts to draw; too many are one bar from the first to the last."""
    windows = list_brownouts(policy, FIRST, LAST)
    if len(windows) > _BARS:
        return [Window(windows[0].start, windows[-1].end)]
    return windows


def _list_windows(groups: _Groups, now: datetime) -> dict[_Row, list[Operation]]:
    """Return a row for each brownout, with its operations, sorted by time."""
    rows: defaultdict[_Row, list[Operation]] = defaultdict(list)
    for policy, operations in groups.items():
        for brownout in policy.brownouts:
            windows = [
                window
                for window in brownout.list_windows(policy.sunset_at)
                if policy.phase(window.start) is Phase.BROWNOUT
            ]
            if windows:
                ahead = [window for window in windows if window.end > now]
                shown = ahead[0] if ahead else windows[-1]
                repeats = ""
                if brownout.every is not None and len(windows) > 1:
                    last = windows[-1].start
                    repeats = recurrence(brownout.every, len(windows), last)
                rows[_Row(*shown, repeats)] += operations
    return dict(sorted(rows.items()))
