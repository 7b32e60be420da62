"""Break the core rooms in every way that a table knows, and see the tests go red: `make mutants`.

The command ends with 1 when a mistake is caught by no test and `survivors.toml` does not explain it, and when that list
explains one that cannot be made, or is caught.
"""

import ast
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.mutation import trial
from tests.mutation.mistakes import broken

# The tests that each room is to be caught by, its own first.
TESTS = {
    "operations": ("operations",),
    "sessions": ("sessions", "middleware"),
    "deprecation": ("deprecation", "middleware", "config"),
    "fields": ("fields", "middleware"),
    "problems": ("problems", "service", "middleware"),
    "replies": ("replies", "service", "application"),
    "redirects": ("redirects", "middleware"),
    "records": ("records", "service"),
    "service": ("service", "doors"),
    "middleware": ("middleware", "redirects", "conformance"),
    "application": ("application", "doors"),
    "blueprint": ("blueprint", "doors"),
    "storage": ("storage", "service"),
    "log": ("service", "middleware"),
    "config": ("config",),
    "sql": ("sql",),
}
SURVIVORS = Path(__file__).with_name("survivors.toml")


def explained() -> dict[str, list[str]]:
    """Return the names of the mistakes, by room, that no test is to catch."""
    names: dict[str, list[str]] = {room: [] for room in TESTS}
    for entry in tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))["survivor"]:
        names[entry["room"]] += entry["mistakes"]
    return names


def parsed(room: str) -> ast.Module:
    """Return a room's syntax tree."""
    return ast.parse((trial.ROOT / f"flask_notifications/{room}.py").read_text(encoding="utf-8"))


def main() -> int:
    """Try every mistake in the rooms that are named, or in all, and say which ones survive."""
    chosen = sys.argv[1:] or list(TESTS)
    if not set(chosen) <= set(TESTS):
        sys.exit(f"the rooms are {' '.join(TESTS)}")
    trial.prepare()
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        complaints = [complaint for room in chosen for complaint in _complaints(room)]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


def _complaints(room: str) -> Iterator[str]:
    began = time.monotonic()
    tree = parsed(room)
    tests = [f"tests/test_{name}.py" for name in TESTS[room]]
    if os.waitpid(trial.begin(room, tree, tests), 0)[1] != 0:
        yield f"{room}: the tests fail without a mistake"
        return
    caught = dict(_trials(room, tree, tests))
    seconds = time.monotonic() - began
    missed = len(caught) - sum(caught.values())
    print(f"{room}: {len(caught)} mistakes, {missed} not caught, {seconds:.0f} s", flush=True)
    yield from (f"{room}: {complaint}" for complaint in judged(caught, explained()[room]))


def judged(caught: Mapping[str, bool], known: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong when these mistakes were caught, or not, and those are known to survive."""
    yield from (f"no test catches  {name}" for name in caught if not caught[name] and name not in known)
    yield from (f"now a test catches  {name}" for name in known if caught.get(name))
    yield from (f"there is no such mistake  {name}" for name in known if name not in caught)


def _trials(room: str, tree: ast.Module, tests: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Try each mistake, as many at once as there are processors; yield its name, and whether a test caught it."""
    running: dict[int, str] = {}
    for name in broken(tree):
        if len(running) == (os.cpu_count() or 1):
            yield _next(running)
        running[trial.begin(room, tree, tests)] = name
    while running:
        yield _next(running)


def _next(running: dict[int, str]) -> tuple[str, bool]:
    process, status = os.wait()
    return running.pop(process), status != 0


if __name__ == "__main__":
    sys.exit(main())
