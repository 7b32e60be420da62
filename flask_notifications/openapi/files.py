"""Parse a file with an OpenAPI document in JSON or YAML (the extra ``openapi``).

Mistakes that do not concern a plan are ignored. So duplicate keys, unknown tags, and
values that do not fit their tags become errors only where the reader needs them.
"""

import json
from codecs import BOM_UTF8
from inspect import isgeneratorfunction
from typing import Any

import yaml

from .document import RepeatedKey

# The loader in C is ten times as fast, but not every build of PyYAML has it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_LEAST_MERGED = 1_000  # pairs


def parse_document(content: bytes) -> Any:
    """Parse the content of a file, as JSON if it begins with ``{``, or else as YAML.

    :raises ValueError: the syntax is wrong, or the document is nested too deeply.
    """
    content = content.removeprefix(BOM_UTF8)
    try:
        if content.lstrip().startswith(b"{"):
            return json.loads(content, object_pairs_hook=_make_mapping)
        return _DocumentLoader(content).get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def _make_mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            mapping = RepeatedKey(mapping)
            mapping.key = key
        mapping[key] = value
    return mapping


class _DocumentLoader(_Loader):  # type: ignore[misc]
    """Load YAML leniently, but limit the number of pairs that merge keys copy.

    Aliases need no limit, because they refer to one object in Python.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._flat: set[yaml.Node] = set()
        self._repeated: dict[yaml.Node, str] = {}
        self._most_merged = max(_LEAST_MERGED, len(content))

    def flatten_mapping(self, node: Any) -> None:
        """Put the pairs of merge keys into a mapping, and note a duplicate key."""
        if node in self._flat:
            return
        self._flat.add(node)
        keys = set()
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                is_list = isinstance(value, yaml.SequenceNode)
                for source in value.value if is_list else [value]:
                    if isinstance(source, yaml.MappingNode):
                        self._charge(source)
            elif isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys:
                    self._repeated[node] = key.value
                keys.add((key.tag, key.value))
        super().flatten_mapping(node)

    def _charge(self, source: Any) -> None:
        """Refuse a file in which merge keys copy more pairs than it has bytes."""
        self.flatten_mapping(source)
        self._most_merged -= len(source.value)
        if self._most_merged < 0:
            message = "merge keys copy more than the file has"
            raise yaml.constructor.ConstructorError(
                None, None, message, source.start_mark
            )

    def construct_yaml_map(self, node: Any) -> Any:
        """Construct a mapping, in two steps, because it may contain an alias of itself.

        PyYAML takes the yielded mapping for aliases, and then resumes this generator.
        """
        self.flatten_mapping(node)
        mapping: dict[Any, Any] = {}
        if node in self._repeated:
            mapping = RepeatedKey()
            mapping.key = self._repeated[node]
        yield mapping
        mapping.update(self.construct_mapping(node))

    def construct_leniently(self, node: Any) -> Any:
        """Construct a value, ignoring its tag if that is unknown or does not fit."""
        if isinstance(node, yaml.MappingNode):
            return self.construct_yaml_map(node)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_yaml_seq(node)
        construct: Any = yaml.SafeLoader.yaml_constructors.get(node.tag)
        # A scalar with the tag of a mapping, a sequence or a set.
        if isgeneratorfunction(construct):
            return node.value
        try:
            return construct(self, node)
        except (AttributeError, LookupError, TypeError, ValueError, yaml.YAMLError):
            return node.value


for _tag in yaml.SafeLoader.yaml_constructors:
    _DocumentLoader.add_constructor(_tag, _DocumentLoader.construct_leniently)
