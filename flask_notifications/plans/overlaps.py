"""Operations that may take the same requests."""

from collections.abc import Collection, Iterable, Iterator
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
        length, others = len(self.places), len(other.places)
        return length == others or (
            self.is_subtree if length < others else other.is_subtree
        )

    def covers(self, other: "Group") -> bool:
        """Return whether the parameters are at all places of those of another group
        that it meets.
        """
        length = max(len(self.places), len(other.places))
        own, theirs = (
            each.places + (True,) * (length - len(each.places))
            for each in (self, other)
        )
        return all(wide or not narrow for wide, narrow in zip(own, theirs, strict=True))

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
        for other in self.groups if among is None else among:
            if group.meets(other):
                pairs = enumerate(zip(shape.segments, other.places, strict=False))
                common = tuple(
                    place
                    for place, (own, is_wide) in pairs
                    if own is not None and not is_wide
                )
                yield from self._index(other, common).get(
                    tuple(shape.segments[place] for place in common), ()
                )

    def _index(
        self, group: Group, common: tuple[int, ...]
    ) -> dict[Segments, list[Operation]]:
        if (group, common) not in self._indexes:
            index = self._indexes[group, common] = {}
            for each, segments in self.groups[group].items():
                index.setdefault(tuple(segments[place] for place in common), []).append(
                    each
                )
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
        for segments in (
            [shape.segments]
            if shape.has_slash is None
            else _resolve_parameters(shape.segments)
        ):
            for other in overlaps.find(shape._replace(segments=segments)):
                rivals[operation.name].add(other)
                rivals[other.name].add(operation)
    return {
        operation.name: rivals[operation.name] - {operation} for operation in operations
    }


def _resolve_parameters(segments: Segments) -> set[Segments]:
    """Return the segments that remain where parameters are dot segments, which some
    routers resolve.
    """
    resolved: set[Segments] = {()}
    for own in segments:
        kept = {(*before, own) for before in resolved}
        resolved = (
            kept
            if own is not None
            else kept | resolved | {before[:-1] for before in resolved}
        )
    return resolved
