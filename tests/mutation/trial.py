"""One mistake on trial: a fork of this process runs the tests against the broken room.

The broken room is never written to disk, and what pytest and the library need is imported once, before the fork.
"""

import ast
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).parents[2]

# What the library and its tests import, so that no fork has to.
_NEEDED = ("flask.testing", "hypothesis.strategies", "marshmallow", "orjson", "sqlalchemy", "werkzeug.test", "sybil")
_OPTIONS = ("-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider")
_EXAMPLES = 30
# Seconds of processor time, seconds in all, and bytes: a mistake that takes more is caught.
_WORK = 60
_PATIENCE = 300
_MEMORY = 3 << 30


def prepare() -> None:
    """Import what every trial needs, except what is on trial."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in _NEEDED:
        importlib.import_module(name)
    vars(hypothesis)["settings"] = _FewExamples
    # The same examples each time, and the first that fails is enough.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, phases=phases)
    hypothesis.settings.load_profile("mutants")
    gc.freeze()


class _FewExamples(hypothesis.settings):
    """Let a property have few examples, whatever its test asks for."""

    def __init__(self, *args: Any, max_examples: int = _EXAMPLES, **fields: Any) -> None:
        super().__init__(*args, max_examples=min(max_examples, _EXAMPLES), **fields)


def begin(room: str, tree: ast.Module, tests: Sequence[str]) -> int:
    """Run the tests in another process, in which a room is what the tree says; return its ID."""
    process = os.fork()
    if process == 0:
        os._exit(_passed_to_pytest(room, tree, tests))
    return process


def _passed_to_pytest(room: str, tree: ast.Module, tests: Sequence[str]) -> int:
    _limit()
    sys.meta_path.insert(0, _Finder(f"flask_notifications.{room}", ast.fix_missing_locations(tree)))
    options = [*_OPTIONS, f"--basetemp={tempfile.mkdtemp()}/tests"]
    try:  # one file after the other: most mistakes are caught by the first, and the others need not be read
        return int(any(pytest.main([*options, str(ROOT / test)]) for test in tests))
    except BaseException:  # noqa: BLE001 - a mistake that ends the tests is caught
        return 1


def _limit() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    signal.alarm(_PATIENCE)
    resource.setrlimit(resource.RLIMIT_CPU, (_WORK, _WORK))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class _Finder(importlib.abc.MetaPathFinder):
    """Find one module broken, wherever it is imported."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self._name = name
        self._tree = tree

    def find_spec(self, name: str, _path: object, _target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Return the broken module's specification, and leave all others to others."""
        if name != self._name:
            return None
        place = str(ROOT / f"{name.replace('.', '/')}.py")
        return importlib.util.spec_from_file_location(name, place, loader=_Loader(name, place, self._tree))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, place: str, tree: ast.Module) -> None:
        super().__init__(name, place)
        self._tree = tree

    def get_code(self, _name: str) -> types.CodeType:
        return compile(self._tree, self.path, "exec")
