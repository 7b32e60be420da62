"""The command ``check --plan`` reports each difference between production and the plan."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from flask_notifications import DeprecationMiddleware, load_plan
from tests.cli.commands import Outcome, run
from tests.cli.servers import Canned, canned_server
from tests.wsgi import plain_app

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

FUTURE, PAST = "2999-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
OPERATIONS: list[dict[str, Any]] = [
    {"name": "report", "method": "GET", "path": "/reports/{id}", "successor": "/v2/reports/{id}"},
    {"name": "order", "method": "POST", "path": "/orders"},
    {"name": "latest", "method": "GET", "path": "/reports/latest", "live": True},
]
PLAN: dict[str, Any] = {"deprecated_at": PAST, "sunset_at": FUTURE, "documentation": "/docs", "operations": OPERATIONS}
BROWNOUT = {"brownouts": [{"start": PAST, "end": FUTURE}]}
CLOSED = {"sunset_at": "2026-02-01T00:00:00Z", "enforce_sunset": True}


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def serving(application: "WSGIApplication") -> Iterator[str]:
    """Serve an application on a free port and yield its URL."""
    with make_server("127.0.0.1", 0, application, handler_class=_Quiet) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def mount_at(prefix: str, application: "WSGIApplication") -> "WSGIApplication":
    """Return an application that serves another one below a prefix, and 404 elsewhere."""

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith(prefix):
            return plain_app("404 Not Found")(environ, start_response)
        environ["SCRIPT_NAME"] += prefix
        environ["PATH_INFO"] = environ["PATH_INFO"].removeprefix(prefix)
        return application(environ, start_response)

    return app


def check(tmp_path: Path, url: str, *arguments: str, **changes: object) -> Outcome:
    """Check a URL against the plan with some changes, and return the outcome."""
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(PLAN | changes), encoding="utf-8")
    return run("check", url, "--plan", file, "--format", "json", *arguments)


def differences(outcome: Outcome) -> list[str]:
    """Check that all errors are about the plan, and return their messages."""
    found = json.loads(outcome.out)["findings"]
    messages = [finding["message"] for finding in found if finding["code"] == "plan-differs"]
    assert {finding["code"] for finding in found if finding["level"] == "error"} <= {"plan-differs"}
    assert outcome.code == (3 if messages else 0)
    return messages


@pytest.fixture(scope="module")
def production() -> Iterator[str]:
    """Yield the URL of production, which runs the plan."""
    with serving(DeprecationMiddleware(plain_app(), load_plan(PLAN))) as url:
        yield url


@pytest.mark.parametrize("path", ["/reports/7", "/REPORTS/a%20b/?page=2", "/reports/caf%C3%A9", "/reports/latest"])
def test_production_that_runs_the_plan_has_no_differences(production: str, path: str, tmp_path: Path) -> None:
    assert differences(check(tmp_path, production + path)) == []


def test_production_with_a_base_url_has_no_differences(tmp_path: Path) -> None:
    with (
        canned_server() as public,
        serving(DeprecationMiddleware(plain_app(), load_plan(PLAN), base_url=public.url)) as url,
    ):
        public.respond("/v2/reports/7", Canned())
        public.respond("/docs", Canned())
        assert differences(check(tmp_path, f"{url}/reports/7")) == []


@pytest.mark.parametrize("mount", ["/erp", "/erp v1/caf\u00c3\u00a9"])
def test_production_below_a_mount_point_has_no_differences(mount: str, tmp_path: Path) -> None:
    with serving(mount_at(mount, DeprecationMiddleware(plain_app(), load_plan(PLAN)))) as url:
        below = url + quote(mount, encoding="latin-1")
        assert differences(check(tmp_path, f"{below}/reports/7")) == []
        (difference,) = differences(check(tmp_path, f"{below}/reports/7", sunset_at=None))
        assert "Production sends Sunset " in difference


def test_a_successor_of_the_application_itself_is_no_difference(tmp_path: Path) -> None:
    app = plain_app("200 OK", [("Link", '</own>; rel="successor-version"')])
    with serving(DeprecationMiddleware(app, load_plan(PLAN))) as url:
        assert differences(check(tmp_path, f"{url}/reports/7")) == []
        changed = [OPERATIONS[0] | {"successor": "/v3/{id}"}]
        (difference,) = differences(check(tmp_path, f"{url}/reports/7", operations=changed))
        assert "'/own' and '/v2/reports/7' for report; the plan has '/v3/7'" in difference
        unplanned = [{key: value for key, value in OPERATIONS[0].items() if key != "successor"}]
        assert len(differences(check(tmp_path, f"{url}/reports/7", operations=unplanned))) == 1


LATER = datetime(2027, 1, 1, tzinfo=UTC).isoformat()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param(
            {"deprecated_at": LATER},
            "Production sends Deprecation '@1767225600' for report; the plan has '@1798761600'. ",
            id="date",
        ),
        pytest.param(
            {"sunset_at": LATER}, "for report; the plan has 'Fri, 01 Jan 2027 00:00:00 GMT'. ", id="another sunset"
        ),
        pytest.param(
            {"sunset_at": None},
            "Production sends Sunset 'Tue, 01 Jan 2999 00:00:00 GMT' for report; the plan has none. ",
            id="no sunset",
        ),
        pytest.param(
            {"documentation": "/page"},
            "Production sends Link rel=\"deprecation\" '/docs' for report; the plan has '/page'. ",
            id="page",
        ),
        pytest.param(
            {"documentation": None},
            "Production sends Link rel=\"deprecation\" '/docs' for report; the plan has none. ",
            id="no page",
        ),
        pytest.param(
            {"sunset_documentation": "/p"},
            "Production sends no Link rel=\"sunset\" for report; the plan has '/p'. ",
            id="one more page",
        ),
        pytest.param(
            {"operations": [OPERATIONS[0] | {"successor": "/v3/{id}"}]},
            "Production sends Link rel=\"successor-version\" '/v2/reports/7' for report; the plan has '/v3/7'. ",
            id="another successor",
        ),
        pytest.param(BROWNOUT, "The status of report is 200, but in the plan its phase is brownout", id="a brownout"),
    ],
)
def test_a_difference_from_the_plan_is_an_error(
    production: str, changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    (difference,) = differences(check(tmp_path, f"{production}/reports/7", **changes))
    assert words in difference
    assert difference[0].isupper()


@pytest.mark.parametrize(("running", "phase"), [(BROWNOUT, "brownout"), (CLOSED, "sunset")])
def test_a_closed_operation_in_production_fits_a_plan_that_closes_it(
    running: dict[str, object], phase: str, tmp_path: Path
) -> None:
    with serving(DeprecationMiddleware(plain_app(), load_plan(PLAN | running))) as url:
        assert differences(check(tmp_path, f"{url}/reports/7", **running)) == []
        wrong = differences(
            check(tmp_path, f"{url}/reports/7", **({} if phase == "brownout" else {"sunset_at": CLOSED["sunset_at"]}))
        )
        assert [f"410 with the code {phase}, but in the plan its phase is deprecated" in each for each in wrong] == [
            True
        ]


@pytest.mark.parametrize(("running", "planned"), [("brownout", "sunset"), ("sunset", "brownout")])
def test_a_brownout_does_not_fit_a_plan_that_has_a_sunset_nor_the_reverse(
    running: str, planned: str, tmp_path: Path
) -> None:
    sunset = {"sunset_at": CLOSED["sunset_at"]}
    changes = {"brownout": BROWNOUT | sunset, "sunset": CLOSED}
    with serving(DeprecationMiddleware(plain_app(), load_plan(PLAN | changes[running]))) as url:
        (difference,) = differences(check(tmp_path, f"{url}/reports/7", **changes[planned]))
    assert f"410 with the code {running}, but in the plan its phase is {planned}" in difference


def test_a_410_of_the_application_itself_is_no_difference(tmp_path: Path) -> None:
    gone = plain_app("410 Gone", [("Cache-Control", "no-store")])

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        return (gone if environ["PATH_INFO"] == "/reports/7" else plain_app())(environ, start_response)

    with serving(DeprecationMiddleware(app, load_plan(PLAN))) as url:
        assert differences(check(tmp_path, f"{url}/reports/7")) == []


def test_an_operation_that_is_live_in_the_plan_announces_nothing(production: str, tmp_path: Path) -> None:
    outcome = check(tmp_path, f"{production}/reports/latest")
    assert (outcome.code, json.loads(outcome.out)["findings"]) == (0, [])
    live = [OPERATIONS[0] | {"live": True}]
    sent = differences(check(tmp_path, f"{production}/reports/7", operations=live))
    assert ["is live in the plan" in each for each in sent] == [True, True]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/report/7", "No operation of the plan matches GET /report/7. "),
        ("/orders", "No operation of the plan matches GET /orders; the plan has POST for this path. "),
        ("", "No operation of the plan matches GET /. "),
    ],
    ids=["a misspelled path", "another method", "no path"],
)
def test_a_url_that_matches_no_operation_is_an_error(path: str, words: str, tmp_path: Path) -> None:
    with canned_server() as server:
        outcome = check(tmp_path, f"{server.url}{path}")
    found = {finding["code"]: finding["message"] for finding in json.loads(outcome.out)["findings"]}
    assert outcome.code == 3
    assert found["plan-differs"].startswith(words)
    assert "deprecation-missing" in found


def test_the_exit_code_for_a_plan_with_errors_is_1_and_no_request_is_sent(tmp_path: Path) -> None:
    with canned_server() as server:
        outcome = check(tmp_path, server.url, deprecated_at="soon", sunset=1)
        assert (outcome.code, outcome.out, server.requests) == (1, "", [])
    assert [line.partition(": ")[0] for line in outcome.err.splitlines()] == ["deprecated_at", "sunset"]
