"""Responses are the same, byte for byte, under other Python options and environments and after other failures."""

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
from tests.resilience.responses import responses
from tests.services import service_or_skip
from tests.storages import BEARER, CURRENT_USER, ENTRY_POINTS, POLICY, OneSession, Source, flask_app, raising
from tests.wsgi import call, plain_app

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

ROOT = Path(__file__).parents[2]
ASK = ["-m", "tests.resilience.responses"]
# As in a server that imports an application again while the first one is still in use.
LOADED_TWICE = """
import sys
from tests.resilience import responses as first

for name in [name for name in sys.modules if name.startswith(("flask_notifications", "tests."))]:
    del sys.modules[name]
from tests.resilience import responses as second

assert first.DeprecationMiddleware is not second.DeprecationMiddleware
second.applications = first.applications
second.main()
"""


@pytest.fixture(scope="module")
def expected() -> str:
    return ascii(responses())


def run_python(arguments: list[str], **environ: str) -> str:
    """Return the standard output of a new interpreter, which must succeed without a warning."""
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
        pytest.param(["-X", "dev", "-W", "error"], {}, id="warnings are errors, also for unclosed files"),
        pytest.param(["-bb"], {}, id="mixing bytes and strings is an error"),
        pytest.param(["-X", "utf8=0"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, id="ASCII only"),
        pytest.param([], {"PYTHONHASHSEED": "0"}, id="hashes without randomization"),
        pytest.param([], {"PYTHONHASHSEED": "1"}, id="hashes with another seed"),
        pytest.param([], {"TZ": "America/New_York"}, id="west of Greenwich, with a repeated hour"),
        pytest.param([], {"TZ": "Asia/Kathmandu"}, id="east of Greenwich, by 45 minutes"),
        pytest.param([], {"TZ": "XYZ-24:59:59"}, id="a zone that does not exist"),
        pytest.param([], {"SOURCE_DATE_EPOCH": "0"}, id="builds dated 1970"),
    ],
)
def test_responses_do_not_depend_on_python_options_or_the_environment(
    expected: str, flags: list[str], environ: dict[str, str]
) -> None:
    assert run_python([*flags, *ASK], **environ) == expected


def test_responses_are_the_same_in_a_turkish_locale(expected: str, tmp_path: Path) -> None:
    service_or_skip("localedef", shutil.which("localedef") is not None)
    command = ["localedef", "-i", "tr_TR", "-f", "UTF-8", str(tmp_path / "tr_TR.UTF-8")]
    made = subprocess.run(command, capture_output=True, check=False)
    service_or_skip("the source of a Turkish locale", made.returncode == 0)
    assert run_python(ASK, LC_ALL="tr_TR.UTF-8", LOCPATH=str(tmp_path)) == expected


def test_responses_are_the_same_after_the_modules_are_imported_again(expected: str) -> None:
    assert run_python(["-c", LOADED_TWICE]) == expected


# Logging that fails.


class RaisingHandler(logging.Handler):
    """A handler that raises instead of reporting its error."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError(record.msg)


class RaisingFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise OSError(record.msg)


def disable(logger: logging.Logger) -> None:
    logger.disabled = True


def add_raising_handler(logger: logging.Logger) -> None:
    logger.addHandler(RaisingHandler())


def add_raising_filter(logger: logging.Logger) -> None:
    logger.addFilter(RaisingFilter())


@pytest.fixture(params=[disable, add_raising_handler, add_raising_filter])
def break_logging(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Yield a function that makes the library's logging fail, and repair it on exit."""
    logger = logging.getLogger("flask_notifications")
    before = logger.disabled, logger.handlers[:], logger.filters[:]
    yield lambda: request.param(logger)
    logger.disabled, logger.handlers[:], logger.filters[:] = before


FAILURES: dict[str, Callable[[], Any]] = {
    "the storage fails": raising(OSError()),
    "a record cannot be expressed": lambda: [{"n": object()}],
    "the storage fails when it is released": lambda: Source([{"n": 1}], closing=OSError()),
}


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_that_cannot_be_logged_gets_the_usual_response(
    break_logging: Callable[[], None], failure: str, entry_point: str
) -> None:
    app = ENTRY_POINTS[entry_point](OneSession(FAILURES[failure]))
    usual = call(app, path=CURRENT_USER, **BEARER).wire
    break_logging()
    assert call(app, path=CURRENT_USER, **BEARER).wire == usual


def test_an_observer_failure_that_cannot_be_logged_changes_no_response(
    break_logging: Callable[[], None],
) -> None:
    app = DeprecationMiddleware(plain_app(), POLICY, observers=[lambda _use: raising(ValueError())()])
    break_logging()
    assert call(app, path=CURRENT_USER).wire == call(DeprecationMiddleware(plain_app(), POLICY), path=CURRENT_USER).wire


# Observers that fail.


class Unprintable(Exception):
    """An exception that cannot be converted to a string."""

    def __str__(self) -> str:
        raise self


class Unnamed:
    """An observer that fails and has no representation."""

    def __repr__(self) -> str:
        raise ValueError

    def __call__(self, _use: object) -> None:
        raise ValueError


@pytest.mark.parametrize(
    "observer",
    [
        pytest.param(raising(ValueError()), id="accepts no argument"),
        pytest.param(lambda _use: raising(ValueError())(), id="raises"),
        pytest.param(lambda _use: raising(Unprintable())(), id="raises an exception that cannot be printed"),
        pytest.param(lambda _use: raising(RecursionError())(), id="recurses"),
        pytest.param(lambda _use: raising(MemoryError())(), id="runs out of memory"),
        pytest.param(lambda use: setattr(use, "status", 500), id="changes its argument"),
        pytest.param(Unnamed(), id="has no representation"),
    ],
)
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_an_observer_that_fails_changes_no_response(observer: Callable[[Any], Any], entry_point: str) -> None:
    app = ENTRY_POINTS[entry_point](OneSession())
    usual, observed = (DeprecationMiddleware(app, POLICY, observers=each) for each in ([], [observer]))
    for query in ("", "sessionId=&sessionId="):
        assert call(observed, path=CURRENT_USER, query=query, **BEARER).wire == (
            call(usual, path=CURRENT_USER, query=query, **BEARER).wire
        )


@pytest.mark.parametrize("fatal", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_the_response_is_closed_when_an_observer_ends_the_process(fatal: type[BaseException]) -> None:
    body = Source([b"ok"])

    def app(_environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return body

    with pytest.raises(fatal):
        call(DeprecationMiddleware(app, POLICY, observers=[lambda _use: raising(fatal())()]), path=CURRENT_USER)
    assert body.closed == 1


# Hooks of the application that fail.


def add_failing_hook(app: flask.Flask) -> None:
    app.after_request(lambda _response: raising(ValueError())())


def connect_failing_receiver(app: flask.Flask) -> None:
    def fail(_sender: object, **_arguments: object) -> None:
        raise ValueError

    # The signal holds only weak references to its receivers.
    app.extensions["failing"] = fail
    flask.request_finished.connect(fail, app)


# Flask drops the first response, and Python closes its file.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning", "ignore:Exception ignored in")
@pytest.mark.parametrize("install", [add_failing_hook, connect_failing_receiver])
def test_a_500_of_a_failed_hook_has_the_deprecation_headers_and_leaves_no_file(
    install: Callable[[flask.Flask], None],
) -> None:
    inner = flask_app(OneSession(lambda: [{"n": 1}]), spool_threshold=1)
    inner.logger.disabled = True
    install(inner)
    app: WSGIApplication = DeprecationMiddleware(inner, POLICY)
    before = open_files()
    response = call(app, path=CURRENT_USER, **BEARER)
    assert (response.code, response.one("Deprecation")) == (500, "@1767225600")
    gc.collect()
    assert open_files() == before


def open_files() -> list[str]:
    """Return the targets of the open files that have been deleted."""
    service_or_skip("/proc", Path("/proc/self/fd").exists())
    files = map(os.path.realpath, Path("/proc/self/fd").iterdir())
    return sorted(file for file in files if file.endswith("(deleted)"))
