"""A file with an OpenAPI document in JSON or YAML (the extra ``openapi``).

What does not concern a plan may be anything. So a key that is there twice, a value that
does not fit its tag and an unknown tag become errors only where the reader needs them.
"""

import json
from codecs import BOM_UTF8
from collections import Counter
from typing import Any, NoReturn

import yaml

from .document import RepeatedKey

# The loader in C is ten times as fast, where PyYAML was built with it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_LEAST_MERGED = 1_000  # pairs


def parse_document(content: bytes) -> Any:
    """Return the document of a file, which is JSON if it begins with ``{``.

    :raises ValueError: it has another syntax, or is nested too deeply.
    """
    content = content.removeprefix(BOM_UTF8)
    try:
        if content.lstrip().startswith(b"{"):
            return json.loads(content, object_pairs_hook=_make_mapping)
        return _DocumentLoader(content).get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def _make_mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) == len(pairs):
        return mapping
    repeated = RepeatedKey(mapping)
    ((repeated.key, _times),) = Counter(key for key, _ in pairs).most_common(1)
    return repeated


def _refuse(message: str, node: Any) -> NoReturn:
    raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)


class _DocumentLoader(_Loader):  # type: ignore[misc]
    """Load YAML, with a limit for what merge keys copy.

    Aliases need none, because they are the same object in Python.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._flat: set[yaml.Node] = set()
        self._repeated: dict[yaml.Node, str] = {}
        self._most_merged = max(_LEAST_MERGED, len(content))

    def flatten_mapping(self, node: Any) -> None:
        """Put the pairs of merge keys into a mapping, before those that replace them."""
        if node in self._flat:
            return
        self._flat.add(node)
        merged: dict[Any, Any] = {}
        written: dict[Any, Any] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                merged |= self._merge(value)
                continue
            if not isinstance(key, yaml.ScalarNode):
                _refuse("keys must be strings", key)
            if (key.tag, key.value) in written:
                self._repeated[node] = key.value
            written[key.tag, key.value] = key, value
        node.value = list((merged | written).values())

    def _merge(self, value: Any) -> dict[Any, Any]:
        """Return the pairs of a mapping, or of several, of which the first wins."""
        pairs: dict[Any, Any] = {}
        sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for source in reversed(sources):
            if not isinstance(source, yaml.MappingNode):
                _refuse("merge keys need mappings", source)
            self.flatten_mapping(source)
            self._most_merged -= len(source.value)
            if self._most_merged < 0:
                _refuse("merge keys copy more than the file has", source)
            for key, member in source.value:
                pairs[key.tag, key.value] = key, member
        return pairs

    def construct_yaml_map(self, node: Any) -> Any:
        """Construct a mapping, which its aliases may have in it."""
        self.flatten_mapping(node)
        mapping: dict[Any, Any] = {}
        if node in self._repeated:
            mapping = RepeatedKey()
            mapping.key = self._repeated[node]
        yield mapping
        mapping.update(self.construct_mapping(node))

    def construct_leniently(self, node: Any) -> Any:
        """Construct a value without its tag if that is unknown or does not fit."""
        if isinstance(node, yaml.MappingNode):
            return self.construct_yaml_map(node)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_yaml_seq(node)
        construct: Any = yaml.SafeLoader.yaml_constructors.get(node.tag)
        try:
            return construct(self, node)
        except (AttributeError, LookupError, TypeError, ValueError, yaml.YAMLError):
            return node.value


_DocumentLoader.add_constructor(f"{_TAG}map", _DocumentLoader.construct_yaml_map)
for _name in ("binary", "bool", "float", "int", "timestamp"):
    _DocumentLoader.add_constructor(
        f"{_TAG}{_name}", _DocumentLoader.construct_leniently
    )
_DocumentLoader.add_constructor(None, _DocumentLoader.construct_leniently)
