"""Operations that may take the same requests."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest

from .operations import ANY_METHOD, Node, Operation, Shape

# The segments of a template, with ``None`` for a parameter.
Segments = tuple[str | None, ...]


def share_method(shape: Shape, other: Shape) -> bool:
    """Return whether two operations have a method in common.

    ``*`` is every method but ``OPTIONS``, and ``GET`` includes ``HEAD``.
    """
    methods = {shape.method, other.method}
    is_any = ANY_METHOD in methods and "OPTIONS" not in methods
    return is_any or len(methods) == 1 or methods == {"GET", "HEAD"}


def is_more_specific(shape: Shape, other: Shape) -> bool:
    """Return whether a template is more specific than another that overlaps with it.

    It is if it has literals where the other has parameters, and nowhere the reverse.
    """
    is_specific = False
    # A subtree that ends matches any further segment, as a parameter does.
    for segment, wide in zip_longest(shape.segments, other.segments):
        if segment is None and wide is not None:
            return False
        is_specific = is_specific or (segment is not None and wide is None)
    return is_specific


class Overlaps:
    """Find the operations that share a path with another one, in any letter case."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        # Trees of the operations with this number of segments, and of all subtrees.
        self._trees: defaultdict[int | None, Node] = defaultdict(Node)
        for operation in operations:
            shape = operation.template.shape
            length = None if shape.has_slash is None else len(shape.segments)
            self._trees[length].add(operation)

    def find(self, shape: Shape) -> Iterator[Operation]:
        """Yield each operation that matches some path of a template."""
        for length, tree in self._trees.items():
            # A subtree has paths of any number of segments.
            if length in {None, len(shape.segments)} or shape.has_slash is None:
                yield from self._find_in(tree, shape)

    def _find_in(self, tree: Node, shape: Shape) -> Iterator[Operation]:
        nodes = [tree]
        # Subtrees that end above the template contain it.
        for segment in shape.segments:
            following = []
            for node in nodes:
                yield from node.subtrees
                following += _follow(node, segment)
            nodes = following
        # Operations end where the template does, or anywhere below if it is a subtree.
        while nodes:
            following = []
            for node in nodes:
                yield from node.subtrees + node.operations
                if shape.has_slash is None:
                    following += _follow(node, None)
            nodes = following


def _follow(node: Node, segment: str | None) -> list[Node]:
    """Return the next places in the tree that a segment of a template may lead to."""
    if segment is None:
        return list(node.following.values())
    keys = (segment, None)
    return [node.following[key] for key in keys if key in node.following]


def find_rivals(operations: Collection[Operation]) -> dict[str, set[Operation]]:
    """Return, by its name, the operations that routers may confuse an operation with.

    Letter case, slashes and parameters are considered, and dot segments as values of
    parameters. Not considered are methods, conditions, and dot segments below ``/**``,
    which may lead anywhere.
    """
    overlaps = Overlaps(operations)
    rivals: dict[str, set[Operation]] = {
        operation.name: set() for operation in operations
    }
    for operation in operations:
        shape = operation.template.shape
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
    """Return every result of resolving parameters that are dot segments, or not."""
    resolved: set[Segments] = {()}
    for segment in segments:
        longer = {(*before, segment) for before in resolved}
        if segment is None:  # "." adds no segment, and ".." removes one
            longer |= resolved
            longer |= {before[:-1] for before in resolved}
        resolved = longer
    return resolved
