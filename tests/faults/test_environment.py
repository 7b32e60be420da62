"""Wherever and however Python runs, and whatever else in the process fails: the same answers, byte for byte."""

import gc
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flask
import pytest

from flask_notifications import DeprecationMiddleware
from tests.faults.answers import answers
from tests.services import service_or_skip
from tests.storages import BEARER, CURRENT_USER, DOORS, POLICY, OneSession, Source, flask_app, raising
from tests.wsgi import call, plain_app

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

ROOT = Path(__file__).parents[2]
ASK = ["-m", "tests.faults.answers"]
# As a server does that loads an application again, and leaves what somebody still holds of the first.
LOADED_TWICE = """
import sys
from tests.faults import answers as first

for name in [name for name in sys.modules if name.startswith(("flask_notifications", "tests."))]:
    del sys.modules[name]
from tests.faults import answers as second

assert first.DeprecationMiddleware is not second.DeprecationMiddleware
second.applications = first.applications
second.main()
"""


@pytest.fixture(scope="module")
def expected() -> str:
    return ascii(answers())


def printed(arguments: list[str], **environ: str) -> str:
    """Return what an interpreter of its own prints, which has nothing to complain of."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        pytest.param(["-O"], {}, id="without assertions"),
        pytest.param([], {"PYTHONOPTIMIZE": "2"}, id="without docstrings"),
        pytest.param(["-X", "dev", "-W", "error"], {}, id="warnings are errors, those of unclosed files too"),
        pytest.param(["-bb"], {}, id="bytes taken for text are errors"),
        pytest.param(["-X", "utf8=0"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, id="ASCII is all there is"),
        pytest.param([], {"PYTHONHASHSEED": "0"}, id="hashes without a seed"),
        pytest.param([], {"PYTHONHASHSEED": "1"}, id="hashes with another seed"),
        pytest.param([], {"TZ": "America/New_York"}, id="west of Greenwich, with two hours alike"),
        pytest.param([], {"TZ": "Asia/Kathmandu"}, id="east of Greenwich, by 45 minutes"),
        pytest.param([], {"TZ": "XYZ-24:59:59"}, id="a zone that nobody has"),
        pytest.param([], {"SOURCE_DATE_EPOCH": "0"}, id="dates of builds in 1970"),
    ],
)
def test_the_answers_are_the_same(expected: str, flags: list[str], environ: dict[str, str]) -> None:
    assert printed([*flags, *ASK], **environ) == expected


def test_the_answers_are_the_same_where_i_and_capital_i_are_different_letters(expected: str, tmp_path: Path) -> None:
    service_or_skip("localedef", shutil.which("localedef") is not None)
    command = ["localedef", "-i", "tr_TR", "-f", "UTF-8", str(tmp_path / "tr_TR.UTF-8")]
    made = subprocess.run(command, capture_output=True, check=False)
    service_or_skip("the source of a Turkish locale", made.returncode == 0)
    assert printed(ASK, LC_ALL="tr_TR.UTF-8", LOCPATH=str(tmp_path)) == expected


def test_the_answers_are_the_same_when_modules_are_loaded_again_around_an_application(expected: str) -> None:
    assert printed(["-c", LOADED_TWICE]) == expected


# Logging that fails.


class Raising(logging.Handler):
    """A handler that lets out what goes wrong in it."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError(record.msg)


class Choking(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise OSError(record.msg)


def disabled(logger: logging.Logger) -> None:
    logger.disabled = True


def raising_handler(logger: logging.Logger) -> None:
    logger.addHandler(Raising())


def raising_filter(logger: logging.Logger) -> None:
    logger.addFilter(Choking())


@pytest.fixture(params=[disabled, raising_handler, raising_filter])
def without_a_log(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Lend a function after which the log of the library is of no use."""
    logger = logging.getLogger("flask_notifications")
    before = logger.disabled, logger.handlers[:], logger.filters[:]
    yield lambda: request.param(logger)
    logger.disabled, logger.handlers[:], logger.filters[:] = before


FAULTS: dict[str, Callable[[], Any]] = {
    "the storage fails": raising(OSError()),
    "a record cannot be expressed": lambda: [{"n": object()}],
    "the storage fails when it is released": lambda: Source([{"n": 1}], closing=OSError()),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_answered_as_ever_when_it_cannot_be_logged(
    without_a_log: Callable[[], None], fault: str, door: str
) -> None:
    app = DOORS[door](OneSession(FAULTS[fault]))
    as_ever = call(app, path=CURRENT_USER, **BEARER).wire
    without_a_log()
    assert call(app, path=CURRENT_USER, **BEARER).wire == as_ever


def test_an_observer_that_fails_disturbs_nothing_when_that_cannot_be_logged(
    without_a_log: Callable[[], None],
) -> None:
    app = DeprecationMiddleware(plain_app(), POLICY, observers=[lambda _use: raising(ValueError())()])
    without_a_log()
    assert call(app, path=CURRENT_USER).wire == call(DeprecationMiddleware(plain_app(), POLICY), path=CURRENT_USER).wire


# Observers that fail.


class Mute(Exception):
    """A failure that cannot even be told."""

    def __str__(self) -> str:
        raise self


class Unnamed:
    """An observer that has no name and fails."""

    def __repr__(self) -> str:
        raise ValueError

    def __call__(self, _use: object) -> None:
        raise ValueError


@pytest.mark.parametrize(
    "observer",
    [
        pytest.param(raising(ValueError()), id="takes no use"),
        pytest.param(lambda _use: raising(ValueError())(), id="raises"),
        pytest.param(lambda _use: raising(Mute())(), id="raises what cannot be told"),
        pytest.param(lambda _use: raising(RecursionError())(), id="recurses"),
        pytest.param(lambda _use: raising(MemoryError())(), id="has no memory"),
        pytest.param(lambda use: setattr(use, "status", 500), id="changes what it is told"),
        pytest.param(Unnamed(), id="has no name"),
    ],
)
@pytest.mark.parametrize("door", DOORS)
def test_an_observer_that_fails_disturbs_nothing(observer: Callable[[Any], Any], door: str) -> None:
    app = DOORS[door](OneSession())
    as_ever, observed = (DeprecationMiddleware(app, POLICY, observers=each) for each in ([], [observer]))
    for query in ("", "sessionId=&sessionId="):
        assert call(observed, path=CURRENT_USER, query=query, **BEARER).wire == (
            call(as_ever, path=CURRENT_USER, query=query, **BEARER).wire
        )


@pytest.mark.parametrize("fatal", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_observer_that_ends_the_process_leaves_nothing_open(fatal: type[BaseException]) -> None:
    body = Source([b"ok"])

    def app(_environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return body

    with pytest.raises(fatal):
        call(DeprecationMiddleware(app, POLICY, observers=[lambda _use: raising(fatal())()]), path=CURRENT_USER)
    assert body.closed == 1


# Hooks of the host that fail.


def failing_hook(app: flask.Flask) -> None:
    app.after_request(lambda _response: raising(ValueError())())


def failing_receiver(app: flask.Flask) -> None:
    def fail(_sender: object, **_arguments: object) -> None:
        raise ValueError

    # The signal holds its receivers weakly.
    app.extensions["failing"] = fail
    flask.request_finished.connect(fail, app)


# Flask drops the answer that it had, and Python closes the file that goes with it.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning", "ignore:Exception ignored in")
@pytest.mark.parametrize("install", [failing_hook, failing_receiver])
def test_a_hook_that_fails_is_announced_and_leaves_no_file(install: Callable[[flask.Flask], None]) -> None:
    host = flask_app(OneSession(lambda: [{"n": 1}]), spool_threshold=1)
    host.logger.disabled = True
    install(host)
    app: WSGIApplication = DeprecationMiddleware(host, POLICY)
    before = open_files()
    answer = call(app, path=CURRENT_USER, **BEARER)
    assert (answer.code, answer.one("Deprecation")) == (500, "@1767225600")
    gc.collect()
    assert open_files() == before


def open_files() -> list[str]:
    """Return the targets of all that is open and has no name any more."""
    service_or_skip("/proc", Path("/proc/self/fd").exists())
    files = map(os.path.realpath, Path("/proc/self/fd").iterdir())
    return sorted(file for file in files if file.endswith("(deleted)"))
