"""Processor instructions of one request, counted by valgrind's callgrind: the same number in each run.

As a program, `python -m benchmarks.instructions`, this module makes the requests that are counted.
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
from benchmarks.candidates import CANDIDATES, checked_client
from benchmarks.parts import Part, Results, of_records
from benchmarks.rounds import Effort
from benchmarks.work import session_of
from tests.services import service_or_skip

RESPONSE, ADDED = of_records(1), "middleware"

# Requests. The difference is counted, so that the cost of the first requests is left out.
_FEW, _MANY = 20, 220
# A function of the interpreter that nothing else calls in between. Callgrind ends a section at each call of it.
_SECTION_END = "Py_SetRecursionLimit"
_SECTIONS_PER_CASE = 3  # for each case: everything before, few requests, many requests


def measure(_effort: Effort) -> Results:
    """Return the instructions of a request to each candidate, and those that each middleware adds."""
    service_or_skip("valgrind", shutil.which("valgrind") is not None)
    cases = [*((RESPONSE, name) for name in CANDIDATES), *((ADDED, name) for name in middleware.requests())]
    sections = _count_sections()[-_SECTIONS_PER_CASE * len(cases) :]
    counted = {
        case: (many - few) / (_MANY - _FEW)
        for case, few, many in zip(cases, sections[1::_SECTIONS_PER_CASE], sections[2::_SECTIONS_PER_CASE], strict=True)
    }
    bare = counted.pop((ADDED, middleware.NOTHING))
    return {case: (count - bare if case[0] == ADDED else count,) for case, count in counted.items()}


def _count_sections() -> list[int]:
    """Run this module as a program, and return the instructions of each section."""
    with tempfile.TemporaryDirectory() as folder:
        tool = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={folder}/section",
            f"--dump-before={_SECTION_END}",
        ]
        environ = os.environ | {"PYTHONHASHSEED": "0"}
        subprocess.run([*tool, sys.executable, "-m", __name__], env=environ, check=True, capture_output=True)
        dumps = sorted(Path(folder).glob("section.*"), key=lambda path: int(path.suffix[1:]))
        return [int(re.findall(r"^totals: (\d+)$", dump.read_text(), re.MULTILINE)[0]) for dump in dumps]


def _end_section() -> None:
    sys.setrecursionlimit(sys.getrecursionlimit())


def _make_requests() -> None:
    candidates = [checked_client(name, 1).repeat(session_of(1)) for name in CANDIDATES]
    for repeat in (*candidates, *middleware.repeats().values()):
        gc.collect()
        gc.freeze()
        for count in (_FEW, _MANY):
            _end_section()
            repeat(count)
        _end_section()


PART = Part(
    "instructions",
    "Processor instructions of one request: a response of one record, and what each middleware adds. Counted by "
    f"callgrind as the difference of {_MANY} and {_FEW} requests.",
    (RESPONSE, ADDED),
    (*CANDIDATES, *middleware.PART.rows),
    measure,
)

if __name__ == "__main__":
    _make_requests()
