"""The mistakes that can be made in a regular expression: one token of it is another, or is missing."""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""\\x[0-9a-f]{2}|\\.                   # an escape
    | \[\^?\]?(?:\\.|[^\]\\])*\]             # a class
    | \(\?<?[:=!]                            # what opens a group
    | [*+?]\+?|\{\d+(?:,\d*)?\}              # how often
    | [A-Za-z]+(?![A-Za-z*+?{])              # a word
    | .""",
    re.DOTALL | re.VERBOSE,
)
_MEMBER = re.compile(r"(?:\\x[0-9a-f]{2}|\\.|.)(?:-(?:\\x[0-9a-f]{2}|\\.|[^\]]))?", re.DOTALL)
_OTHER = {
    "*": "+",
    "+": "*",
    "?": "",
    "*+": "++",
    "++": "*+",
    "(?=": "(?!",
    "(?!": "(?=",
    "(?<=": "(?<!",
    "(?<!": "(?<=",
}
# Without one of these there is no regular expression left, or the same one.
_KEPT = frozenset({"(", ")", "|", "(?:"})


def broken_patterns(pattern: str) -> Iterator[str]:
    """Yield a regular expression, or a piece of one, with each mistake in it."""
    found = list(_TOKEN.finditer(pattern))
    repeated = {token.start() for token in found if _is_quantifier(token[0])}
    for token in found:
        for other in _others(token[0], alone=token.end() not in repeated):
            yield pattern[: token.start()] + other + pattern[token.end() :]


def _others(token: str, *, alone: bool) -> Iterator[str]:
    if token in _OTHER:
        yield _OTHER[token]
    elif token[0] == "[" and len(token) > 1:
        yield from _broken_classes(token)
    elif _is_quantifier(token) or (alone and token not in _KEPT):
        yield ""


def _broken_classes(token: str) -> Iterator[str]:
    """Yield a class of characters turned into its opposite, and without each of its members."""
    opening = "[^" if token.startswith("[^") else "["
    members = _MEMBER.findall(token[len(opening) : -1])
    yield token.replace(opening, "[" if opening == "[^" else "[^", 1)
    if len(members) > 1:
        yield from (f"{opening}{''.join(members[:place] + members[place + 1 :])}]" for place in range(len(members)))


def _is_quantifier(token: str) -> bool:
    return token[0] in "*+?" or (token[0] == "{" and len(token) > 1)
