"""Operations that may take the same requests."""

from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from .operations import ANY_METHOD, Operation, Shape, template_shape

# The segments of a template; a parameter is ``None``.
Segments = tuple[str | None, ...]


class Group(NamedTuple):
    """What operations have in common: the method, and which segments are parameters."""

    method: str
    places: tuple[bool, ...]
    is_subtree: bool

    @classmethod
    def of(cls, shape: Shape) -> "Group":
        """Return the group of an operation with a shape."""
        places = tuple(segment is None for segment in shape.segments)
        return cls(shape.method, places, shape.has_slash is None)

    def meets(self, other: "Group") -> bool:
        """Return whether templates may match the same path, as far as their lengths
        decide that.
        """
        if len(self.places) == len(other.places):
            return True
        shorter = min(self, other, key=lambda group: len(group.places))
        return shorter.is_subtree

    def covers(self, other: "Group") -> bool:
        """Return whether the parameters are at all places of those of another group
        that it meets.
        """
        # What follows a subtree may be anything, as a parameter.
        pairs = zip_longest(self.places, other.places, fillvalue=True)
        return all(is_wide or not is_narrow for is_wide, is_narrow in pairs)

    def has_method_of(self, other: "Group") -> bool:
        """Return whether some request has a method of both."""
        methods = {self.method, other.method}
        is_any = ANY_METHOD in methods and "OPTIONS" not in methods
        return is_any or len(methods) == 1 or methods == {"GET", "HEAD"}


class Overlaps:
    """Find the operations that match a path which another operation matches too, in any
    letter case.

    A search takes as long as the groups and the results are many, not the operations.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.groups: dict[Group, dict[Operation, Segments]] = {}
        for operation in operations:
            shape = template_shape(operation)
            self.groups.setdefault(Group.of(shape), {})[operation] = shape.segments
        # The operations of a group by their literals at some places.
        self._indexes: dict[
            tuple[Group, tuple[int, ...]], dict[Segments, list[Operation]]
        ] = {}

    def find(
        self, shape: Shape, among: Iterable[Group] | None = None
    ) -> Iterator[Operation]:
        """Yield each operation that matches a path of a template too; by default of all
        groups.
        """
        group = Group.of(shape)
        for candidate in self.groups if among is None else among:
            if not group.meets(candidate):
                continue
            # The places where both have a literal, which must be the same.
            places = []
            literals = []
            pairs = zip(shape.segments, candidate.places, strict=False)
            for place, (literal, is_parameter) in enumerate(pairs):
                if literal is not None and not is_parameter:
                    places.append(place)
                    literals.append(literal)
            index = self._index(candidate, tuple(places))
            yield from index.get(tuple(literals), ())

    def _index(
        self, group: Group, common: tuple[int, ...]
    ) -> dict[Segments, list[Operation]]:
        if (group, common) not in self._indexes:
            index = self._indexes[group, common] = {}
            for operation, segments in self.groups[group].items():
                literals = tuple(segments[place] for place in common)
                index.setdefault(literals, []).append(operation)
        return self._indexes[group, common]


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
                rivals[operation.name].add(rival)
                rivals[rival.name].add(operation)
    for operation in operations:
        rivals[operation.name].discard(operation)
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
