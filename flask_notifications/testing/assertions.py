"""A check of plans."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlencode, urlsplit
from wsgiref.types import WSGIApplication

from flask_notifications.plans.conditions import environ_key, example_values
from flask_notifications.plans.operations import (
    ANY_METHOD,
    PARAMETER,
    REST,
    Operation,
    OperationTable,
    decode_path,
    fill_in,
)
from flask_notifications.plans.plan import Plan, check_plan, table_of
from flask_notifications.validation import require

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

_Outcome: TypeAlias = "TestResponse | Exception"


def assert_plan_reaches(
    application: WSGIApplication,
    plan: Plan,
    *,
    parameters: Mapping[str, str] | None = None,
    mount: str = "",
    headers: Mapping[str, str] | None = None,
) -> None:
    """Assert that a plan's operations, and no other requests, reach their views.

    Each operation is called for real, at the path as the plan spells it. No view was
    reached if the response is 404, 405, a redirect to another spelling of the path, or
    the same as for a path without a view, such as 400 for a host that is not allowed,
    or an exception. Every other response or exception shows that a view was reached.

    A deprecated operation is also called with requests that some routers and
    applications take for the same, unless the plan lists them: at other spellings of
    its path (``/reports.json``, ``/old-report`` for ``/old_report``, ``/@@old``,
    ``/oldx``, ``/old/x``, ``/en/old``); with parameters and headers in other letter
    cases, or without them; with the parameters in a form or after a ``;``; and with
    ``X-HTTP-Method-Override``. ``*`` is called with ``GET``. Use a test database,
    because views may change it.

    Not checked: the conditions and ambiguous paths of views whose responses differ from
    call to call, because they contain the time, for instance. Only equal responses show
    that the same view was reached twice.

    :param application: your WSGI application, without ``DeprecationMiddleware``, which
        may respond itself.
    :param plan: the plan, with its live operations.
    :param parameters: a value for each parameter of the paths that needs one, by its
        name; by default ``1``. If views respond 404 to unknown values, use values that
        they find. For the rest of a path, the name is ``**``, or the whole path of the
        operation, such as ``{"/v1/**": "/reports"}``; by default it is empty.
    :param mount: the path at which the application is mounted, percent-encoded, by
        default the root.
    :param headers: headers of each request, such as
        ``{"Authorization": "Bearer ..."}``, by default none.
    :raises AssertionError: operations reach no view, or other requests reach their
        views; the message lists them, each with the reason.
    :raises ValueError: an argument does not fit; the message names it.
    """
    check_plan(plan)
    require(isinstance(mount, str), "mount", "a path as a string", mount)
    _check_strings("parameters", parameters)
    _check_strings("headers", headers)
    call = _make_client(application, mount, headers or {})
    table = table_of(plan)
    problems = []
    for operation, policy in plan.items():
        request = _Request.of(operation, parameters or {})
        response = call(request)
        nowhere = call(request._replace(path=_WITHOUT_A_VIEW))
        path = f"{mount.rstrip('/')}{request.path}"
        problem = _find_problem(path, response, nowhere)
        if problem is not None:
            advice = _advise(operation, request)
            problems.append(
                f"no view is reached by {operation.name} ({request}): {problem}{advice}"
            )
        elif policy is not None:
            for variant in _list_variants(operation, request):
                neighbour = variant.request.neighbour
                matched = _match(table, variant.request)
                if _is_listed(matched, _match(table, neighbour), plan):
                    continue
                control = variant.control
                # A live operation matches the variant and its neighbour. Its view may
                # respond to both in the same way.
                if control is None and matched:
                    control = neighbour
                different = nowhere if control is None else call(control)
                is_telling = variant.is_telling and not matched
                if _is_same_view(
                    call(variant.request), response, different, is_telling=is_telling
                ):
                    problems.append(
                        f"no deprecated operation matches {variant.request}, "
                        f"which reaches a view as {request} does"
                    )
    assert not problems, "; ".join(problems)


def _check_strings(argument: str, mapping: Any) -> None:
    if mapping is None:
        return
    # By its method, because Werkzeug's Headers are not a Mapping.
    has_strings = hasattr(mapping, "items") and all(
        isinstance(word, str) for item in mapping.items() for word in item
    )
    require(has_strings, argument, "a mapping of names to strings", mapping)


class _Request(NamedTuple):
    """A request, with its path percent-encoded."""

    method: str
    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    form: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, operation: Operation, parameters: Mapping[str, str]) -> "_Request":
        """Return a request that an operation matches."""
        values = dict.fromkeys(PARAMETER.findall(operation.path), "1")
        values |= {REST: "", **parameters}
        # The rest of a path may have the whole path of the operation as its name.
        rest = parameters.get(operation.path, values[REST])
        if rest and not rest.startswith("/"):
            rest = f"/{rest}"
        values[REST] = rest
        method = "GET" if operation.method == ANY_METHOD else operation.method
        headers = example_values(operation.headers, "1")
        encoded = {}
        for name, value in values.items():  # as WSGI strings
            encoded[name] = value.encode().decode("latin-1")
        return cls(
            method,
            fill_in(operation.path, encoded),
            urlencode(example_values(operation.query, "1")),
            tuple(headers.items()),
        )

    @property
    def neighbour(self) -> "_Request":
        """The request with another last segment in its path."""
        above = self.path.rstrip("/").rpartition("/")[0]
        return self._replace(path=f"{above}/flask-notifications")

    @property
    def target(self) -> tuple[str, dict[str, str]]:
        """The path, decoded, and the rest of the environ that conditions read."""
        environ = {environ_key(name): value for name, value in self.headers}
        environ["QUERY_STRING"] = self.query
        return decode_path(urlsplit(self.path).path), environ

    def __str__(self) -> str:
        shown = f"{self.method} {self.path}"
        if self.query:
            shown += f"?{self.query}"
        details = [f"{name}: {value}" for name, value in self.headers]
        if self.form:
            details.append(urlencode(self.form))
        if details:
            shown += f" with {', '.join(details)}"
        return shown


class _Variant(NamedTuple):
    """A request that some applications take for the request of an operation.

    ``control`` is a similar request that nobody takes for it, or ``None`` for a path
    without a view. The variant reaches the operation's view if it gets the operation's
    response, and the control gets another one. ``is_telling`` is whether any success
    shows that too, because hardly an application has another view there.
    """

    request: _Request
    control: _Request | None
    is_telling: bool


def _make_client(
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


def _match(table: OperationTable, request: _Request) -> set[Operation]:
    matches = table.find(request.method, *request.target)
    return {match.operation for match in matches}


def _is_listed(
    matched: Collection[Operation], of_neighbour: Collection[Operation], plan: Plan
) -> bool:
    """Return whether the plan lists a request that matches these operations.

    A live operation that also matches the request's neighbour, such as ``/{name}``,
    does not count: it is not about this request.
    """
    for operation in matched:
        if plan[operation] is not None or operation not in of_neighbour:
            return True
    return False


def _advise(operation: Operation, request: _Request) -> str:
    """Return advice for an operation with ``**`` that was called without a rest."""
    if operation.path != f"{request.path.removesuffix('/')}/{REST}":
        return ""
    return (
        f"; name a path below it, as in parameters={{{operation.path!r}: '/reports'}}"
    )


def _list_variants(operation: Operation, request: _Request) -> Iterator[_Variant]:
    yield from _spell_otherwise(operation, request)
    yield from _read_otherwise(operation, request)


def _read_otherwise(operation: Operation, request: _Request) -> Iterator[_Variant]:
    """Yield requests whose method or conditions some applications read as the same."""
    values = example_values(operation.query, "1")
    form = tuple(values.items())
    posted = request._replace(method="POST")
    if form:
        control = request._replace(query="")
        names = {name.swapcase(): value for name, value in values.items()}
        swapped = {name: value.swapcase() for name, value in values.items()}
        for pairs in (names, swapped):
            variant = request._replace(query=urlencode(pairs))
            yield _Variant(variant, control, False)
        empty = posted._replace(query="")
        yield _Variant(empty._replace(form=form), empty, False)
        variant = request._replace(query=f"x=1;{request.query}")
        yield _Variant(variant, request._replace(query="x=1"), False)
    for index, (name, value) in enumerate(request.headers):
        headers = list(request.headers)
        headers[index] = (name, value.swapcase())
        variant = request._replace(headers=tuple(headers))
        yield _Variant(variant, request._replace(headers=()), False)
    if form or request.headers:
        yield _Variant(request._replace(query="", headers=()), None, False)
    if operation.method not in {"POST", ANY_METHOD}:
        override = ("X-HTTP-Method-Override", request.method)
        variant = posted._replace(headers=(*request.headers, override))
        yield _Variant(variant, posted, False)


_WITHOUT_A_VIEW = "/flask-notifications/without-a-view"


def _find_problem(path: str, response: "_Outcome", nowhere: "_Outcome") -> str | None:
    """Return the sign that a response is not from a view, or ``None``.

    ``nowhere`` is the response to a path without a view.
    """
    is_same = _content_of(response) == _content_of(nowhere)
    if isinstance(response, Exception):
        return f"it raises {response!r}, as {_WITHOUT_A_VIEW} does" if is_same else None
    status = f"the status is {response.status_code}"
    if response.status_code in {404, 405}:
        return status
    target = urlsplit(response.location or "").path
    if target not in {"", path} and _fold_spelling(path) == _fold_spelling(target):
        return f"it redirects to the spelling {target}"
    return f"{status}, as for {_WITHOUT_A_VIEW}" if is_same else None


# The first segments of pages in some languages.
_LOCALES = ("en", "de", "es", "fr", "it", "ja", "nl", "pt", "ru", "zh")


def _spell_otherwise(operation: Operation, request: _Request) -> Iterator[_Variant]:
    """Yield requests whose path some routers take for the path of a request."""
    path, stem = request.path, request.path.rstrip("/")
    above, _slash, last = stem.rpartition("/")
    if not stem:
        return
    # Format suffixes; CherryPy's and TurboGears' index and punctuation; views of
    # Pyramid, Zope and Morepath; letters that are not ASCII in another case.
    spellings = {
        f"{stem}.json",
        f"{stem}.view",
        f"{stem}/index",
        f"{above}/@@{last}",
        f"{above}/+{last}",
        f"{stem}/+",
        path.replace("_", "-"),
        path.replace("_", "."),
        quote(unquote(path).swapcase()),
    }
    for spelling in sorted(spellings - {path}):
        yield _Variant(request._replace(path=spelling), None, True)
    # Patterns without an end, and segments as arguments of a view. Another view may be
    # there too, so a success shows nothing.
    yield _Variant(request._replace(path=f"{stem}x"), None, False)
    yield _Variant(request._replace(path=f"{stem}/x"), None, False)
    # Parameters as arguments of a view, and Falcon's empty ones.
    for name in PARAMETER.findall(operation.path.rstrip("/").rpartition("/")[2]):
        query = f"{request.query}&{name}={last}".lstrip("&")
        yield _Variant(request._replace(path=f"{above}/", query=query), None, False)
    yield from _spell_in_languages(request)


def _spell_in_languages(request: _Request) -> Iterator[_Variant]:
    """Yield a request with the path of a page in each of some languages."""
    path = request.path
    first, slash, rest = path[1:].partition("/")
    if first.lower() in _LOCALES:
        path = f"{slash}{rest}" or "/"
    # A view that accepts any first segment is not a translation.
    below_any = request._replace(path=f"/flask-notifications{path}")
    for locale in _LOCALES:
        translated = f"/{locale}{path}"
        if translated != request.path:
            yield _Variant(request._replace(path=translated), below_any, True)


def _is_same_view(
    response: "_Outcome",
    expected: "_Outcome",
    different: "_Outcome",
    *,
    is_telling: bool,
) -> bool:
    """Return whether a response is from the view that sent the expected response.

    ``different`` is a response that is not from that view.
    """
    content = _content_of(response)
    if content == _content_of(different):
        return False
    is_success = _is_success(response) and not _is_success(different)
    return content == _content_of(expected) or (is_telling and is_success)


def _is_success(outcome: "_Outcome") -> bool:
    return not isinstance(outcome, Exception) and outcome.status_code < 300


def _content_of(outcome: "_Outcome") -> object:
    if isinstance(outcome, Exception):
        return type(outcome)
    return outcome.status_code, outcome.data


def _fold_spelling(path: str) -> str:
    """Return a path without the differences that routers correct by a redirect."""
    return re.sub("/+", "/", f"{unquote(path)}/").lower()
