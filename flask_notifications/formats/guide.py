"""The migration guide: the end of each operation and its replacement, drawn from a
plan.
"""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from typing import Any

from flask_notifications.dates import to_utc, utc_now
from flask_notifications.plans.announcement import resolve_below
from flask_notifications.plans.operations import Operation
from flask_notifications.plans.plan import Plan, deprecated_operations, schedule
from flask_notifications.plans.policy import Brownout, DeprecationPolicy, Phase
from flask_notifications.validation import check_base_url, require
from flask_notifications.wording import short_date

from .axis import FIRST, LAST, Axis, arrange_labels, pad
from .migration import Migration, say_placeholders
from .plot import list_brownouts
from .rendering import check_title, render


def render_guide(
    plan: Plan,
    *,
    at: datetime | None = None,
    title: str | None = None,
    contact: str | None = None,
    base_url: str | None = None,
) -> str:
    """Return the migration guide of a plan as an HTML document: the page that
    ``rel="deprecation"`` links to.

    The document has no scripts and loads nothing. It works with
    ``Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'``.

    :param plan: the operations and their policies; those with ``None`` are live and
        left out, and so are exemptions.
    :param at: the time that the page describes as now, an aware datetime; ``None`` is
        now.
    :param title: the heading; by default it counts or names the retired operations.
    :param contact: whom to ask, in a few words: a name, an e-mail address, a channel.
        An http(s) URL becomes a link.
    :param base_url: the absolute URL at which callers reach your application, for the
        examples and for links that begin with ``/``; ``None`` shows a placeholder. The
        headers of responses are shown without it, as a middleware without ``base_url``
        sends them.
    :raises ValueError: naming the argument that does not fit.
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
    policies = {
        # For everybody: without exemptions, and without brownouts that do not happen.
        operation: replace(
            policy, exemptions=(), brownouts=list_brownouts(policy, FIRST, LAST)
        )
        for operation, policy in deprecated_operations(plan).items()
    }
    base_url = None if base_url is None else base_url.rstrip("/")
    migrations = [Migration(*each, now, base_url=base_url) for each in policies.items()]
    events = [event for policy in policies.values() for event in schedule(policy)]
    dates = [
        now,
        *(
            date
            for event in events
            for date in (event.start, event.end)
            if date is not None
        ),
    ]
    axis = pad(min(dates), max(dates))
    pages = (each.sunset_documentation for each in policies.values())
    return render(
        "guide.html",
        now=now,
        title=title,
        contact=contact,
        migrations=migrations,
        hint=say_placeholders(migrations, base_url),
        sunsets=sorted(
            policy.sunset_at
            for policy in policies.values()
            if policy.sunset_at is not None
        ),
        axis=axis,
        lanes=_draw_lanes(policies, axis),
        windows=_list_windows(policies),
        policy_pages=list(
            dict.fromkeys(
                resolve_below(page, base_url or "")
                for page in pages
                if page is not None
            )
        ),
    )


def _draw_lanes(
    policies: dict[Operation, DeprecationPolicy], axis: Axis
) -> list[dict[str, Any]]:
    """Return the lines of the timeline, one for all operations with the same policy."""
    groups: defaultdict[DeprecationPolicy, list[Operation]] = defaultdict(list)
    for operation, policy in policies.items():
        groups[policy].append(operation)
    lanes = []
    for policy, operations in groups.items():
        dates = [
            (event.phase, event.start)
            for event in schedule(policy)
            if event.phase is not Phase.BROWNOUT
        ]
        labels = arrange_labels(
            (f"{phase.title()} {short_date(at)}", phase, axis.place(at))
            for phase, at in dates
        )
        lanes.append({"policy": policy, "operations": operations, "labels": labels})
    return lanes


def _list_windows(
    policies: dict[Operation, DeprecationPolicy],
) -> dict[Brownout, list[Operation]]:
    operations: defaultdict[Brownout, list[Operation]] = defaultdict(list)
    for operation, policy in policies.items():
        for window in policy.brownouts:
            operations[window].append(operation)
    return dict(
        sorted(operations.items(), key=lambda item: (item[0].start, item[0].end))
    )
