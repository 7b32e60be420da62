"""The mistakes that somebody could make in a module, one after the other, on its syntax tree."""

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tests.mutation.patterns import broken_patterns

# Texts that are pieces of regular expressions; every other piece stands in a call of re.compile.
_PIECES = frozenset({"TOKEN", "_KEY"})
# Wording is for people: no test is to pin it down.
_SENTENCE = re.compile(r"\w\W? \w+\W? \w")
_WORD = re.compile(r"\w+|\W")
# Tokens around a mistake that are shown, so that it is found again.
_AROUND = 8

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_MISTAKEN = {
    "all": "any",
    "any": "all",
    "fullmatch": "match",
    "lower": "upper",
    "lstrip": "strip",
    "match": "search",
    "partition": "rpartition",
    "rpartition": "partition",
    "rstrip": "strip",
    "upper": "lower",
}
# What returns the same kind of value as it is called on.
_SHAPING = {"astimezone", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rstrip", "strip", "upper"}
_CODECS = {"latin-1": "utf-8", "utf-8": "latin-1", "replace": "strict"}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands: in a field of another one, or in a list that is such a field."""

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    scope: str
    statement: ast.stmt
    in_pattern: bool

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def broken(tree: ast.Module) -> Iterator[str]:
    """Break a module in each way: yield the mistake's name while the tree, which is changed in place, has it."""
    seen: Counter[str] = Counter()
    for place in list(_places(tree)):
        before = _text(place.statement)
        for other in _others(place):
            place.put(other)
            name = place.scope + _difference(before, _text(other if place.node is place.statement else place.statement))
            seen[name] += 1
            yield name if seen[name] == 1 else f"{name} ({seen[name]})"
        place.put(place.node)


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _difference(before: str, after: str) -> str:
    """Return what differs, between square brackets, and a little around it."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    start = _same(old, new)
    same = _same(old[start:][::-1], new[start:][::-1])
    end, new_end = len(old) - same, len(new) - same
    lead, trail = "".join(old[max(start - _AROUND, 0) : start]), "".join(old[end : end + _AROUND])
    return f"{lead}[{_short(old[start:end])} -> {_short(new[start:new_end])}]{trail}"


def _same(old: list[str], new: list[str]) -> int:
    return sum(1 for _pair in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _short(words: list[str]) -> str:
    return "".join(words if len(words) < 3 * _AROUND else [*words[: 2 * _AROUND], "..."])


def _places(tree: ast.Module) -> Iterator[_Place]:
    for number, statement in enumerate(tree.body):
        yield from _within(_Place(statement, tree, "body", number, "", statement, in_pattern=False))


def _within(place: _Place) -> Iterator[_Place]:
    """Yield a place and all within it, as far as it is more than types, documentation and memory layout."""
    node = place.node
    if _says_nothing(node):
        return
    yield place
    scope, pattern = place.scope, place.in_pattern or _is_pattern(node)
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        scope = f"{scope.removesuffix(': ')}.{node.name}: ".lstrip(".")
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "bases", "format_spec", "func" if pattern else ""}:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                statement = child if isinstance(child, ast.stmt) else place.statement
                yield from _within(_Place(child, node, field, index, scope, statement, in_pattern=pattern))


def _says_nothing(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assign(targets=[ast.Name(id="__slots__")]):
            return True
        case ast.keyword(arg="slots"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="message")]):
            return True
        case ast.Subscript(value=ast.Name(id=name)):  # Iterable[str], tuple[int, ...]
            return name[0].isupper() or name in {"dict", "list", "tuple", "type"}
    return False


def _is_pattern(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="compile")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in _PIECES
    return False


def _others(place: _Place) -> Iterator[ast.AST]:  # noqa: C901, PLR0912 - a table
    """Yield what could stand in a place by mistake."""
    match place.node:
        case ast.Constant(value=value) as node:
            for other in _constants(value, in_pattern=place.in_pattern):
                yield _with(node, value=other)
        case ast.Compare() as node:
            yield from _comparisons(node, decides=place.field == "test" or isinstance(place.parent, ast.comprehension))
        case ast.BoolOp(op, values):
            for number in range(len(values)):
                rest = values[:number] + values[number + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand) if place.field != "test":
            yield operand
        case ast.BinOp() as node:
            yield from _operations(node)
        case ast.If() | ast.IfExp() | ast.While() as node:
            yield _with(node, test=ast.Constant(False))
            if not isinstance(node, ast.While):
                yield _with(node, test=ast.Constant(True))
        case ast.comprehension(ifs=[_]) as node:
            yield _with(node, ifs=[])
            yield _with(node, ifs=[ast.Constant(False)])
        case ast.List() | ast.Set() | ast.Tuple(ctx=ast.Load()) | ast.Dict() as node:
            yield from _collections(node)
        case ast.Call() as node:
            yield from _calls(node)
        case ast.Attribute(ctx=ast.Load()) | ast.Name(ctx=ast.Load()) as node:
            yield from _names(node)
        case ast.ExceptHandler() as node:
            yield _with(node, type=ast.Tuple([], ast.Load()))
        case ast.stmt() as node:
            yield from _statements(node, place.parent)


def _with(node: ast.AST, **fields: object) -> Any:
    twin = copy.copy(node)
    for name, value in fields.items():
        setattr(twin, name, value)
    return twin


def _constants(value: object, *, in_pattern: bool) -> Iterator[object]:
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
            yield value - 1
        case str() if in_pattern:
            yield from broken_patterns(value)
        case bytes() if in_pattern:
            yield from (other.encode("latin-1") for other in broken_patterns(value.decode("latin-1")))
        case str() if value in _CODECS:
            yield _CODECS[value]
        case str() if not _SENTENCE.search(value):
            yield from _texts(value)
        case bytes():
            yield from (other.encode("latin-1") for other in _texts(value.decode("latin-1")))


def _texts(value: str) -> Iterator[str]:
    if len(value) > 1 and not any(map(str.isalnum, value)):
        yield from (value[:number] + value[number + 1 :] for number in range(len(value)))
    else:
        yield "" if value else "X"


def _comparisons(node: ast.Compare, *, decides: bool) -> Iterator[ast.Compare]:
    for table in (_BOUNDARY,) if decides else (_BOUNDARY, _OPPOSITE):
        for number, op in enumerate(node.ops):
            if type(op) in table:
                yield _with(node, ops=[*node.ops[:number], table[type(op)](), *node.ops[number + 1 :]])


def _operations(node: ast.BinOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.BitOr | ast.BitAnd):
        yield node.left
        yield node.right
    elif type(node.op) in _ARITHMETIC:
        yield _with(node, op=_ARITHMETIC[type(node.op)]())


def _collections(node: ast.List | ast.Set | ast.Tuple | ast.Dict) -> Iterator[ast.AST]:
    names = ["keys", "values"] if isinstance(node, ast.Dict) else ["elts"]
    lists = [getattr(node, name) for name in names]
    for number in range(len(lists[0])):
        yield _with(node, **{n: each[:number] + each[number + 1 :] for n, each in zip(names, lists, strict=True)})


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPING:
        yield node.func.value
    for keyword in node.keywords:
        if not _says_nothing(keyword):
            yield _with(node, keywords=[other for other in node.keywords if other is not keyword])
    if _is_pattern(node) and len(node.args) > 1:  # the flags
        yield _with(node, args=node.args[:-1])


def _names(node: ast.Attribute | ast.Name) -> Iterator[ast.AST]:
    match node:
        case ast.Attribute(attr=name) if name in _MISTAKEN:
            yield _with(node, attr=_MISTAKEN[name])
        case ast.Name(id=name) if name in _MISTAKEN:
            yield _with(node, id=_MISTAKEN[name])


def _statements(node: ast.stmt, parent: ast.AST) -> Iterator[ast.stmt]:
    """Yield what a statement is when it was forgotten; all that an ``if`` decides is the matter of its test."""
    alone = isinstance(parent, ast.If) and parent.body == [node]
    result = isinstance(parent, ast.FunctionDef) and isinstance(node, ast.Return)
    match node:
        case ast.Expr() | ast.Raise() | ast.Return() | ast.AugAssign() if not alone and not result:
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
