"""Operations that may take the same requests."""

from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest

from .operations import ANY_METHOD, Node, Operation, Shape, template_shape

# The segments of a template; a parameter is ``None``.
Segments = tuple[str | None, ...]


def share_method(shape: Shape, other: Shape) -> bool:
    """Return whether some request has the method of two operations."""
    methods = {shape.method, other.method}
    is_any = ANY_METHOD in methods and "OPTIONS" not in methods
    return is_any or len(methods) == 1 or methods == {"GET", "HEAD"}


def is_more_specific(shape: Shape, other: Shape) -> bool:
    """Return whether a template has literals where another one has parameters, and not
    the other way round, if some path matches both.
    """
    is_specific = False
    # What follows a subtree may be anything, as a parameter.
    for segment, wide in zip_longest(shape.segments, other.segments):
        if segment is None and wide is not None:
            return False
        is_specific = is_specific or (segment is not None and wide is None)
    return is_specific


class Overlaps:
    """Find the operations that match a path which another operation matches too, in any
    letter case.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = Node()
        for operation in operations:
            self._root.add(operation)

    def find(self, shape: Shape) -> Iterator[Operation]:
        """Yield each operation that matches a path of a template too."""
        nodes = [self._root]
        for segment in shape.segments:
            following = []
            for node in nodes:
                yield from node.subtrees
                following += _follow(node, segment)
            nodes = following
        while nodes:
            following = []
            for node in nodes:
                yield from node.subtrees + node.operations
                if shape.has_slash is None:
                    following += _follow(node, None)
            nodes = following


def _follow(node: Node, segment: str | None) -> list[Node]:
    """Return the places to which a segment of another template may lead."""
    if segment is None:
        return list(node.following.values())
    keys = (segment, None)
    return [node.following[key] for key in keys if key in node.following]


def find_rivals(operations: Collection[Operation]) -> dict[str, set[Operation]]:
    """Return the other operations that some router may take the requests of an
    operation for, by its name.

    Letter case, slashes and parameters are considered, and dot segments as values of
    parameters. Methods, conditions and dot segments below ``/**`` are not, which may
    lead anywhere.
    """
    overlaps = Overlaps(operations)
    rivals: dict[str, set[Operation]] = {
        operation.name: set() for operation in operations
    }
    for operation in operations:
        shape = template_shape(operation)
        readings = {shape.segments}
        if shape.has_slash is not None:
            readings = _resolve_parameters(shape.segments)
        for segments in readings:
            for rival in overlaps.find(shape._replace(segments=segments)):
                if rival is not operation:
                    rivals[operation.name].add(rival)
                    rivals[rival.name].add(operation)
    return rivals


def _resolve_parameters(segments: Segments) -> set[Segments]:
    """Return the segments that remain where parameters are dot segments, which some
    routers resolve.
    """
    resolved: set[Segments] = {()}
    for segment in segments:
        longer = {(*before, segment) for before in resolved}
        if segment is None:  # "." leaves what is before it, ".." takes a segment off
            longer |= resolved
            longer |= {before[:-1] for before in resolved}
        resolved = longer
    return resolved
