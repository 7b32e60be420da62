"""From a plan into an OpenAPI document; needs the standard library only."""

import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

from flask_notifications.plans.announcement import is_path
from flask_notifications.plans.conditions import fold
from flask_notifications.plans.operations import (
    Operation,
    OperationTable,
    Shape,
    decode_path,
)
from flask_notifications.plans.plan import Plan, deprecated_operations
from flask_notifications.plans.policy import DeprecationPolicy
from flask_notifications.wording import iso

from .document import Declaration, Document

# The parameters in a path of the document. Numbers in braces replace them while the
# path is matched, and the successor is filled with these numbers, percent-encoded.
_VARIABLE = re.compile(r"\{[^{}]+\}|(?<=/)\*\*\Z")
_NUMBER = re.compile(r"%7B(\d+)%7D")
_HEADERS = {
    "Deprecation": "The date of the deprecation: @ and seconds since 1970 (RFC 9745).",
    "Sunset": "The date from which the operation may be gone, if any (RFC 8594).",
    "Link": "The successor, and pages for people (RFC 8288).",
}


def deprecate(document: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """Return a copy of an OpenAPI document in which a plan's operations are deprecated.

    They get ``deprecated: true``, ``x-sunset`` and ``x-successor`` as in the plan, and
    the headers ``Deprecation``, ``Sunset`` and ``Link`` in all responses. Where the
    plan has ``unify_session``, the parameter ``sessionId`` is deprecated, too. Parts
    that an operation shares with others by a reference are copied first.

    An operation of the document is deprecated if a deprecated operation of the plan
    takes its requests. Its path begins with the path of the server, and a subtree takes
    everything below it that is not live.

    A warning lists the operations of the plan that are left alone, because the document
    lacks them, or because their path also serves requests that are not deprecated: they
    have conditions, or are live on other servers.

    :param document: OpenAPI 3 or Swagger 2.0 as a mapping, as parsers of JSON and YAML
        return it.
    :param plan: the operations and their policies.
    :raises ValueError: an argument is something else.
    """
    writer = _Writer(Document(deepcopy(document)), plan)
    written = writer.write()
    if writer.left:
        message = (
            "left alone, because the document lacks them "
            "or their paths also serve what is not deprecated"
        )
        warnings.warn(f"{message}: {', '.join(writer.left)}", stacklevel=2)
    return written


class _Mark(NamedTuple):
    """The deprecation to write into an operation of the document."""

    operation: Operation
    policy: DeprecationPolicy
    successor: str | None


class _Writer:
    """Mark the operations of a document.

    ``left`` are the names of the plan's operations that were not found in it.
    """

    def __init__(self, document: Document, plan: Plan) -> None:
        policies = deprecated_operations(plan)
        self.left = {operation.name: None for operation in policies}
        self._document = document
        self._policies = {key.name: policy for key, policy in policies.items()}
        self._table = _find_whole_operations(plan)

    def write(self) -> dict[str, Any]:
        """Return the document with its operations marked."""
        written = dict(self._document.content)
        if isinstance(written.get("paths"), Mapping):
            written["paths"] = dict(written["paths"])
        for declarations in self._document.list_paths([]):
            marked: dict[str, Any] = {}
            additional: dict[str, Any] = {}
            for declaration in declarations:
                mark = self._find(declaration)
                if mark is not None:
                    fields = additional if declaration.is_additional else marked
                    fields[declaration.key] = self._describe(declaration, mark)
            if not marked and not additional:
                continue
            # All declarations of a path have the same item.
            item = declarations[0].item
            if additional:
                key = "additionalOperations"
                marked[key] = {**item[key], **additional}
            written["paths"][declarations[0].path] = {**item, **marked}
        return written

    def _find(self, declaration: Declaration) -> _Mark | None:
        """Return the mark of an operation if it is deprecated on all of its servers."""
        if declaration.is_misnamed:
            return None
        marks = []
        # Unreadable operations, such as one with a method of two words, are not marked.
        with suppress(ValueError):
            Operation("?", declaration.method, "/")
            for base in self._document.server_paths(declaration):
                mark = self._find_below(base, declaration)
                if mark is None:
                    return None
                marks.append(mark)
        for mark in marks:
            self.left.pop(mark.operation.name, None)
        return marks[0] if marks else None

    def _find_below(self, base: str, declaration: Declaration) -> _Mark | None:
        """Return the mark of an operation below the path of one of its servers."""
        path = declaration.content.get("x-path")
        if not isinstance(path, str):
            path = declaration.path
        variables: list[str] = []

        def number(match: re.Match[str]) -> str:
            variables.append(match[0])
            return f"{{{len(variables) - 1}}}"

        path = decode_path(_VARIABLE.sub(number, f"{base}{path}"))
        match = None
        if self._table is not None:
            match = self._table.match(declaration.method, path)
        if match is None:
            return None
        policy = self._policies.get(match.operation.name)
        if policy is None:
            return None
        successor = match.successor
        if successor is not None:
            successor = _NUMBER.sub(lambda found: variables[int(found[1])], successor)
            # Readers resolve it below the path of the server again.
            if successor.startswith(f"{base}/"):
                successor = successor.removeprefix(base)
            elif is_path(successor):
                successor = "../" * base.count("/") + successor.removeprefix("/")
        return _Mark(match.operation, policy, successor)

    def _describe(self, declaration: Declaration, mark: _Mark) -> dict[str, Any]:
        """Return an operation with its mark."""
        described = {**declaration.content, "deprecated": True}
        # Other dates or successors would contradict the plan.
        for key in ("x-deprecated-at", "x-sunset", "x-successor"):
            described.pop(key, None)
        if mark.policy.sunset_at is not None:
            # For midnight UTC the date alone, as people write it.
            sunset = iso(mark.policy.sunset_at)
            described["x-sunset"] = sunset.removesuffix("T00:00:00Z")
        if mark.successor is not None:
            described["x-successor"] = mark.successor
        responses = declaration.content.get("responses")
        if isinstance(responses, Mapping):
            described["responses"] = dict(responses)
            for status, response in responses.items():
                if not str(status).startswith("x-"):
                    described["responses"][status] = self._announce(response)
        if mark.operation.unify_session:
            parameters = self._deprecate_session(declaration)
            if parameters is not None:
                described["parameters"] = parameters
        return described

    def _announce(self, response: Any) -> Any:
        """Return a response with the three headers; an unreadable one unchanged."""
        content = self._read(response)
        if content is None:
            return response
        headers = self._read(content.get("headers"))
        if headers is None:
            return response
        described = dict(headers)
        names = {fold(str(name)) for name in headers}
        for name, description in _HEADERS.items():
            schema: dict[str, Any] = {"type": "string"}
            if not self._document.is_swagger:
                schema = {"schema": schema}
            if fold(name) not in names:
                described[name] = {"description": description, **schema}
        return {**content, "headers": described}

    def _deprecate_session(self, declaration: Declaration) -> list[Any] | None:
        """Return the parameters of an operation with ``sessionId`` deprecated.

        Return ``None`` if there is no such parameter. If it is a parameter of the path
        item, add it to the operation, whose parameters replace equal ones of the path
        item.
        """
        field = "x-deprecated" if self._document.is_swagger else "deprecated"
        session = None
        parameters: list[Any] = []
        for holder in (declaration.item, declaration.content):
            members = holder.get("parameters")
            parameters = []
            for value in members if isinstance(members, list) else ():
                parameter = self._read(value) or {}
                name = parameter.get("name")
                is_session = isinstance(name, str) and fold(name) == "sessionid"
                if is_session and parameter.get("in") == "query":
                    session = {**parameter, field: True}
                else:
                    parameters.append(value)
        return None if session is None else [*parameters, session]

    def _read(self, value: Any) -> Mapping[Any, Any] | None:
        """Return a mapping or the target of its reference; ``None`` if unreadable."""
        with suppress(ValueError):
            return self._document.follow("", value)
        return None


def _find_whole_operations(plan: Plan) -> OperationTable | None:
    """Return a table of the operations whose deprecation concerns all requests.

    OpenAPI cannot deprecate an operation under conditions. So a deprecated operation
    with conditions is left out, and a live one counts as live for all requests.
    """
    by_shape: dict[Shape, Operation] = {}
    live = []
    for operation, policy in plan.items():
        whole = replace(operation, query=None, headers=None)
        has_conditions = whole != operation
        if policy is None:
            live.append(whole)
        elif has_conditions:
            continue
        shape = whole.template.shape
        # A live operation with conditions replaces a deprecated one without.
        if has_conditions or shape not in by_shape:
            by_shape[shape] = whole
    return OperationTable(by_shape.values(), live=live) if by_shape else None
