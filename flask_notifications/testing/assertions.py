"""Checks of announcements and plans."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urlencode, urlsplit
from wsgiref.types import WSGIApplication

from flask_notifications.headers import values_of
from flask_notifications.plans.announcement import DeprecationHeaders
from flask_notifications.plans.conditions import environ_key, example_values
from flask_notifications.plans.operations import (
    ANY_METHOD,
    PARAMETER,
    REST,
    Operation,
    decode_path,
    fill_in,
)
from flask_notifications.plans.plan import Plan, check_plan, table_of
from flask_notifications.validation import check_base_url, require

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

_Outcome: TypeAlias = "TestResponse | Exception"


def assert_deprecated(
    response: Any,
    plan: Plan,
    operation: Operation,
    *,
    base_url: str | None = None,
    mount: str = "",
    parameters: Mapping[str, str] | None = None,
) -> None:
    """Assert that a response announces the retirement of an operation, whole and once.

    Not checked: status, body, and ``Link`` headers of your application's own.

    :param response: a response of Werkzeug (and so of Flask's test client), requests,
        httpx or Django.
    :param plan: the plan of the operation. Of an operation that is live in it, the
        response must not announce a date.
    :param operation: the operation that the request matches.
    :param base_url: that of the middleware, by default none.
    :param mount: the path at which the application is mounted, percent-encoded, by
        default the root.
    :param parameters: the values of the path's parameters, if the successor uses them,
        by default none.
    :raises AssertionError: the response differs; the message says how.
    :raises ValueError: an argument does not fit; the message names it.
    """
    _check_arguments(plan, mount, parameters=parameters)
    require(
        isinstance(operation, Operation) and operation in plan,
        "operation",
        "an operation of the plan",
        operation,
    )
    check_base_url(base_url)
    policy = plan[operation]
    successor = (
        None
        if operation.successor is None
        else _fill_in(operation.successor, parameters or {})
    )
    announced = (
        []
        if policy is None
        else DeprecationHeaders(policy, base_url=base_url or "").render(
            successor, mount
        )
    )
    sent = list(response.headers.items())
    for name in ("Deprecation", "Sunset"):
        found, expected = (
            values_of(headers, name.lower()) for headers in (sent, announced)
        )
        assert found == expected, f"{name}: {expected} expected, not {found}"
    # Some clients join several lines with commas (RFC 9110 section 5.3).
    links, due = (
        ", ".join(values_of(headers, "link")) for headers in (sent, announced)
    )
    assert links.endswith(due), f"Link: {due!r} expected at the end, not {links!r}"
    assert not due or links.count(due) == 1, (
        f"Link: {due!r} expected once, not {links!r}"
    )


def assert_plan_reaches(
    application: WSGIApplication,
    plan: Plan,
    *,
    parameters: Mapping[str, str] | None = None,
    mount: str = "",
    headers: Mapping[str, str] | None = None,
) -> None:
    """Assert that each operation of a plan reaches a view of your application, and that
    the plan matches its spellings.

    Each operation is called for real, at the path as the plan spells it. 404, 405, a
    redirect to another spelling of the path, and what a path without a view gets too,
    such as 400 for a host that is not allowed or an exception, mean that no view was
    reached. Every other response or exception means that one was. A retired operation
    is also called as some routers serve it besides (``/reports.json``, ``/old-report``
    for ``/old_report``, ``/@@old``, ``/oldx``, ``/old/x``, ``/en/old``), and as some applications read its
    method and its conditions besides: in other letter cases, with the parameters in a
    form or after a ``;``, without them, and with ``X-HTTP-Method-Override``, unless the plan lists such a
    request. ``*`` is called with ``GET``. Use a test database, because views may change
    it.

    Not checked: the conditions and ambiguous paths of views whose responses differ from
    call to call, as with the time in them, because equal responses show that one view
    was reached twice.

    :param application: your WSGI application, without ``DeprecationMiddleware``, which
        may respond itself.
    :param plan: the plan, with its live operations.
    :param parameters: a value for each parameter of the paths that needs one, by its
        name; by default ``1``. If views respond 404 to unknown values, use values that
        they find. ``**``, or a path that ends in it, is the name of what follows that
        path, such as ``{"/v1/**": "/reports"}``; by default nothing follows.
    :param mount: the path at which the application is mounted, percent-encoded, by
        default the root.
    :param headers: headers of each request, such as
        ``{"Authorization": "Bearer ..."}``, by default none.
    :raises AssertionError: operations reach no view, or other paths reach their views;
        the message lists them, each with the reason.
    :raises ValueError: an argument does not fit; the message names it.
    """
    _check_arguments(plan, mount, parameters=parameters, headers=headers)
    call, table, problems = (
        _make_caller(application, mount, headers or {}),
        table_of(plan),
        [],
    )
    for operation, policy in plan.items():
        own = _Request.of(operation, parameters or {})
        response, other = call(own), call(own._replace(path=_WITHOUT_A_VIEW))
        problem = _find_problem(f"{mount.rstrip('/')}{own.path}", response, other)
        if problem is not None:
            problems.append(
                f"no view is reached by {operation.name} ({own}): {problem}{_advise(operation, own)}"
            )
        elif policy is not None:
            for request, without, is_telling in (
                *_spell_otherwise(operation, own),
                *_read_otherwise(operation, own),
            ):
                found, beside = (
                    {match.operation for match in table.find(each.method, *each.target)}
                    for each in (request, request.beside)
                )
                if any(plan[each] is not None or each not in beside for each in found):
                    continue
                # A live operation that matches everything beside it may respond to
                # everything in the same way.
                another = without or (request.beside if found else None)
                different = other if another is None else call(another)
                if _is_answer(
                    call(request),
                    response,
                    different,
                    is_telling=is_telling and not found,
                ):
                    problems.append(
                        f"no retired operation matches {request}, which reaches a view as {own} does"
                    )
    assert not problems, "; ".join(problems)


def _check_arguments(plan: Plan, mount: str, **mappings: Any) -> None:
    check_plan(plan)
    require(isinstance(mount, str), "mount", "a path as a string", mount)
    for argument, given in mappings.items():
        # By its method, because the Headers of Werkzeug are no Mapping.
        fits = hasattr(given, "items") and all(
            isinstance(each, str) for item in given.items() for each in item
        )
        require(given is None or fits, argument, "a mapping of names to strings", given)


def _fill_in(template: str, values: Mapping[str, str]) -> str:
    """Return a path or a successor with values in place of its parameters."""
    return fill_in(
        template,
        {name: value.encode().decode("latin-1") for name, value in values.items()},
    )


class _Request(NamedTuple):
    """A request: the method, the path percent-encoded, the query, headers, and the
    parameters of a form.
    """

    method: str
    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    form: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, operation: Operation, parameters: Mapping[str, str]) -> "_Request":
        """Return a request that an operation matches, with a value for each parameter
        of its path.
        """
        values = dict.fromkeys(PARAMETER.findall(operation.path), "1") | {REST: ""}
        values |= {
            name: value
            for name, value in parameters.items()
            if not name.endswith(f"/{REST}")
        }
        rest = parameters.get(operation.path, values[REST])
        values[REST] = f"/{rest}" if rest and not rest.startswith("/") else rest
        query, headers = (
            example_values(each, "1") for each in (operation.query, operation.headers)
        )
        method = "GET" if operation.method == ANY_METHOD else operation.method
        return cls(
            method,
            _fill_in(operation.path, values),
            urlencode(query),
            tuple(headers.items()),
        )

    @property
    def beside(self) -> "_Request":
        """A request whose last segment is another one."""
        return self._replace(
            path=f"{self.path.rstrip('/').rpartition('/')[0]}/flask-notifications"
        )

    @property
    def target(self) -> tuple[str, dict[str, str]]:
        """The path, decoded, and the rest of the environ that conditions read."""
        environ = {environ_key(name): value for name, value in self.headers}
        return decode_path(urlsplit(self.path).path), {
            **environ,
            "QUERY_STRING": self.query,
        }

    def __str__(self) -> str:
        shown = f"{self.method} {self.path}{'?' if self.query else ''}{self.query}"
        details = ", ".join(
            filter(None, [*map(": ".join, self.headers), urlencode(self.form)])
        )
        return f"{shown} with {details}" if details else shown


def _make_caller(
    application: WSGIApplication, mount: str, headers: Mapping[str, str]
) -> Callable[[_Request], "_Outcome"]:
    from werkzeug.test import Client  # noqa: PLC0415 - the rest of the module needs no Werkzeug

    client = Client(application)

    def call(request: _Request) -> "_Outcome":
        try:
            return client.open(
                request.path,
                base_url=f"http://localhost{mount}",
                method=request.method,
                headers=[*headers.items(), *request.headers],
                query_string=request.query or None,
                data=dict(request.form) or None,
                buffered=True,
            )
        except Exception as error:  # noqa: BLE001 - a view that fails was reached
            return error

    return call


def _advise(operation: Operation, own: _Request) -> str:
    """Return the rest of a path to use if none was given."""
    is_bare = operation.path == f"{own.path.removesuffix('/')}/{REST}"
    return (
        f"; name a path below it, as in parameters={{{operation.path!r}: '/reports'}}"
        if is_bare
        else ""
    )


# A request; a request that another view responds to, or ``None`` for one that no view
# responds to; and whether any response of a view to the first request proves that the
# operation is reached.
_Other: TypeAlias = "tuple[_Request, _Request | None, bool]"


def _read_otherwise(operation: Operation, own: _Request) -> Iterator[_Other]:
    """Yield requests that some applications read as the same one, and the part that
    they read otherwise.
    """
    values = example_values(operation.query, "1")
    form = tuple(values.items())
    if form:
        names = {name.swapcase(): value for name, value in values.items()}
        swapped = {name: value.swapcase() for name, value in values.items()}
        for pairs in (names, swapped):
            yield own._replace(query=urlencode(pairs)), own._replace(query=""), False
        posted = own._replace(method="POST", query="")
        yield posted._replace(form=form), posted, False
        yield own._replace(query=f"x=1;{own.query}"), own._replace(query="x=1"), False
    for index, (name, value) in enumerate(own.headers):
        headers = list(own.headers)
        headers[index] = (name, value.swapcase())
        without = own._replace(headers=())
        yield own._replace(headers=tuple(headers)), without, False
    if form or own.headers:
        yield own._replace(query="", headers=()), None, False
    if operation.method not in {"POST", ANY_METHOD}:
        posted = own._replace(method="POST")
        yield (
            posted._replace(
                headers=(*own.headers, ("X-HTTP-Method-Override", own.method))
            ),
            posted,
            False,
        )


_WITHOUT_A_VIEW = "/flask-notifications/without-a-view"


def _find_problem(path: str, response: "_Outcome", other: "_Outcome") -> str | None:
    """Return why a request for a path reaches no view, or ``None``; ``other`` is what a
    path without a view gets.
    """
    is_same = _content_of(response) == _content_of(other)
    if isinstance(response, Exception):
        return f"it raises {response!r}, as {_WITHOUT_A_VIEW} does" if is_same else None
    if response.status_code in {404, 405}:
        return f"the status is {response.status_code}"
    target = urlsplit(response.location or "").path
    if (
        response.location
        and target != path
        and _fold_spelling(path) == _fold_spelling(target)
    ):
        return f"it redirects to the spelling {target}"
    return (
        f"the status is {response.status_code}, as for {_WITHOUT_A_VIEW}"
        if is_same
        else None
    )


# The first segments of pages in some languages.
_LOCALES = ("en", "de", "es", "fr", "it", "ja", "nl", "pt", "ru", "zh")


def _spell_otherwise(operation: Operation, own: _Request) -> Iterator[_Other]:
    """Yield what some routers take for a request."""
    path, stem = own.path, own.path.rstrip("/")
    above, _slash, last = stem.rpartition("/")
    if not stem:
        return
    # Format suffixes; CherryPy's and TurboGears' index and punctuation; views of
    # Pyramid, Zope and Morepath.
    spellings = {
        f"{stem}.json",
        f"{stem}/index",
        f"{above}/@@{last}",
        f"{above}/+{last}",
        f"{stem}/+",
        path.replace("_", "-"),
        path.replace("_", "."),
    }
    for spelling in sorted(spellings - {path}):
        yield own._replace(path=spelling), None, True
    # Patterns without an end; segments as arguments of a view. Another view may be
    # there as well.
    yield own._replace(path=f"{stem}x"), None, False
    yield own._replace(path=f"{stem}/x"), None, False
    # Parameters as arguments of a view, and Falcon's empty ones.
    for name in PARAMETER.findall(operation.path.rstrip("/").rpartition("/")[2]):
        query = f"{own.query}&{name}={last}".lstrip("&")
        yield own._replace(path=f"{above}/", query=query), None, False
    yield from _spell_in_languages(own)


def _spell_in_languages(own: _Request) -> Iterator[_Other]:
    """Yield the paths of a request in other languages."""
    path = own.path
    first, slash, rest = path[1:].partition("/")
    if first.lower() in _LOCALES:
        path = f"{slash}{rest}" or "/"
    # A view below any first segment is no translation.
    below_any = own._replace(path=f"/flask-notifications{path}")
    for locale in _LOCALES:
        translated = f"/{locale}{path}"
        if translated != own.path:
            yield own._replace(path=translated), below_any, True


def _is_answer(
    response: "_Outcome", own: "_Outcome", other: "_Outcome", *, is_telling: bool
) -> bool:
    """Return whether a view responds, and not the handler of paths without one."""
    shown, expected, without = map(_content_of, (response, own, other))
    is_telling = is_telling and _is_success(response) and not _is_success(other)
    return shown != without and (shown == expected or is_telling)


def _is_success(outcome: "_Outcome") -> bool:
    return not isinstance(outcome, Exception) and outcome.status_code < 300


def _content_of(outcome: "_Outcome") -> object:
    return (
        type(outcome)
        if isinstance(outcome, Exception)
        else (outcome.status_code, outcome.data)
    )


def _fold_spelling(path: str) -> str:
    """Return the part of a path that a router keeps when it redirects to its own
    spelling.
    """
    return re.sub("/+", "/", f"{unquote(path)}/").lower()
