"""Processor instructions of one request, counted by valgrind's callgrind: the same number each time, on any day.

As a program, `python -m benchmarks.instructions`, it makes the requests that are counted.
"""

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import middleware
from benchmarks.candidates import CANDIDATES, checked
from benchmarks.parts import Part, Results, of_records
from benchmarks.rounds import Effort
from benchmarks.work import session_of
from tests.services import service_or_skip

ANSWER, ADDED = of_records(1), "middleware"

# Requests; the difference is what is counted, and what the first ones of all need is not.
_FEW, _MANY = 20, 220
# A function of the interpreter that nothing else calls in between. Whenever it is, callgrind ends a section.
_MARK = "Py_SetRecursionLimit"
_SECTIONS = 3  # for each case: what comes before, few requests, many


def measure(_effort: Effort) -> Results:
    """Return the instructions of a request to each candidate, and those that each middleware adds."""
    service_or_skip("valgrind", shutil.which("valgrind") is not None)
    cases = [*((ANSWER, name) for name in CANDIDATES), *((ADDED, name) for name in middleware.requests())]
    sections = _sections()[-_SECTIONS * len(cases) :]
    counted = {
        case: (many - few) / (_MANY - _FEW)
        for case, few, many in zip(cases, sections[1::_SECTIONS], sections[2::_SECTIONS], strict=True)
    }
    bare = counted.pop((ADDED, middleware.NOTHING))
    return {case: (count - bare if case[0] == ADDED else count,) for case, count in counted.items()}


def _sections() -> list[int]:
    """Return the instructions of each section of this module as a program."""
    with tempfile.TemporaryDirectory() as folder:
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/section", f"--dump-before={_MARK}"]
        environ = os.environ | {"PYTHONHASHSEED": "0"}
        subprocess.run([*tool, sys.executable, "-m", __name__], env=environ, check=True, capture_output=True)
        dumps = sorted(Path(folder).glob("section.*"), key=lambda path: int(path.suffix[1:]))
        return [int(re.findall(r"^totals: (\d+)$", dump.read_text(), re.MULTILINE)[0]) for dump in dumps]


def _mark() -> None:
    sys.setrecursionlimit(sys.getrecursionlimit())


def _make_requests() -> None:
    answering = [checked(name, 1).repeat(session_of(1)) for name in CANDIDATES]
    for repeat in (*answering, *middleware.repeats().values()):
        gc.collect()
        gc.freeze()
        for count in (_FEW, _MANY):
            _mark()
            repeat(count)
        _mark()


PART = Part(
    "instructions",
    "Processor instructions of one request: an answer of one record, and what each middleware adds. Counted by "
    f"callgrind as the difference of {_MANY} and {_FEW} requests.",
    (ANSWER, ADDED),
    (*CANDIDATES, *middleware.PART.rows),
    measure,
)

if __name__ == "__main__":
    _make_requests()
