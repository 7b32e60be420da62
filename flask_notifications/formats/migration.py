"""What callers need to know: an operation's end, its replacement, and examples."""

import shlex
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from flask_notifications.plans.announcement import DeprecationHeaders
from flask_notifications.plans.operations import ANY_METHOD, REST, Operation
from flask_notifications.plans.policy import (
    CLOSED_PHASES,
    DeprecationPolicy,
    Phase,
    Window,
)
from flask_notifications.wording import full_date, long_date, moment, period, relative

from .requests import EXAMPLE_URL, Request, describe_requests


class Migration:
    """What all callers of a deprecated operation, or a single one, need to know.

    ``before`` is an example of a request to it, and ``after`` of one to the successor,
    or ``None`` if that has no URL. ``placeholders`` are the words in them to replace.
    ``sentences`` have no markup, ``headers`` are those of the operation's responses,
    and ``search`` is the path up to its first parameter, quoted for a POSIX shell, to
    find the calls in source code.

    :param now: the time that the sentences refer to.
    :param caller: the label of the caller; by default all callers are meant.
    :param base_url: the URL of the application; by default a placeholder.
    :param sources: how the caller sends its session: ``header``, ``query`` or ``None``.
    """

    def __init__(
        self,
        operation: Operation,
        policy: DeprecationPolicy,
        now: datetime,
        *,
        caller: str | None = None,
        base_url: str | None = None,
        sources: Collection[str | None] = (),
    ) -> None:
        # This caller need not be told to move its session into the header.
        sends_header = "header" in sources and "query" not in sources
        self.operation: Operation = operation
        self.policy: DeprecationPolicy = policy
        self.phase: Phase = policy.phase(now, caller)
        self.next_window: Window | None = _find_next_brownout(policy, caller, now)
        self.before: Request
        self.after: Request | None
        self.placeholders: list[str]
        self.before, self.after, self.placeholders = describe_requests(
            operation, base_url or EXAMPLE_URL, in_header=sends_header
        )
        self.sentences: list[str] = [
            *_say_scope(operation),
            _say_end(policy, caller, now),
            *_say_brownout(policy, caller, now, self.next_window),
            *_say_successor(operation, self.after, sends_header=sends_header),
        ]
        self.headers: list[tuple[str, str]] = DeprecationHeaders(policy).render(
            operation.successor, ""
        )
        path = operation.path.removesuffix(f"/{REST}").partition("{")[0]
        self.search: str = shlex.quote(path.removesuffix("/") or "/")


def say_placeholders(
    migrations: Iterable[Migration], base_url: str | None = None
) -> str:
    """Return a sentence about the placeholders in the examples; empty without any."""
    names = []
    if base_url is None:
        names.append(EXAMPLE_URL)
    for migration in migrations:
        names += migration.placeholders
    if not names:
        return ""
    listed = ", ".join(dict.fromkeys(names))
    return f"In the examples, put your own values in place of {listed}."


def _say_scope(operation: Operation) -> Iterator[str]:
    """Explain the method ``*`` and a final ``/**``, which callers do not know."""
    base = operation.path.removesuffix(f"/{REST}")
    below = ""
    if base != operation.path:
        below = " and to paths below it"
    if operation.method == ANY_METHOD:
        yield f"It means requests to {base or '/'}{below}, with any method."
    elif below:
        yield f"It means {operation.method} requests to {base or '/'}{below}."


def _say_end(policy: DeprecationPolicy, caller: str | None, now: datetime) -> str:
    exemption = policy.exemption(caller, now)
    end = policy.sunset_of(exemption)
    more = ""
    if exemption is not None:
        more = f" An exemption lets you through until {full_date(exemption.until)}."
    if end is None:
        return f"It has no date yet on which it ends.{more}"
    if end <= now and policy.enforce_sunset:
        return f"It ended on {long_date(end)}. Every request gets 410 Gone."
    if end <= now:
        return f"Its sunset was on {long_date(end)}. It may stop working at any time."
    after = "it may stop working at any time"
    if policy.enforce_sunset:
        after = "every request gets 410 Gone"
    time = f"{long_date(end)}, {relative(end, now)}"
    return f"It ends on {time}. From then on, {after}.{more}"


def _say_brownout(
    policy: DeprecationPolicy,
    caller: str | None,
    now: datetime,
    following: Window | None,
) -> Iterator[str]:
    running = policy.brownout(now)
    if running is not None and policy.phase(now, caller) is Phase.BROWNOUT:
        yield (
            f"A brownout is running until {moment(running.end)}. "
            "Requests get 410 Gone until then."
        )
    if following is not None:
        yield (
            f"The next brownout is {period(*following)}, "
            f"{relative(following.start, now)}. Requests get 410 Gone during "
            "that time, so that forgotten calls are noticed."
        )
    elif caller is not None and policy.phase(now, caller) not in CLOSED_PHASES:
        yield "No brownout is planned for you."


def _find_next_brownout(
    policy: DeprecationPolicy, caller: str | None, now: datetime
) -> Window | None:
    """Return the next brownout of a caller.

    If its exemption ends during a window, the brownout begins then.
    """
    exemption = policy.exemption(caller, now)
    earliest = now
    if exemption is not None:
        earliest = exemption.until
    # From the last window that has begun by then, which may still be open.
    for window in policy.windows[max(0, policy.count_begun(earliest) - 1) :]:
        start = max(window.start, earliest)
        is_ahead = window.end > start > now
        if is_ahead and policy.phase(start, caller) is Phase.BROWNOUT:
            return Window(start, window.end)
    return None


def _say_successor(
    operation: Operation, after: Request | None, *, sends_header: bool
) -> Iterator[str]:
    if operation.successor is None:
        yield "It has no successor. Remove the call, or ask for a replacement."
    elif after is None:
        yield f"Call {operation.successor} instead."
    elif operation.unify_session and not sends_header:
        yield (
            "Move the session ID from the URL into the Authorization header, "
            "because URLs are logged."
        )
    is_read = operation.method in {"GET", "HEAD"}
    if after is not None and after.method == operation.method and not is_read:
        yield (
            f"The example keeps the method {operation.method}. "
            "Check that the successor does too."
        )
