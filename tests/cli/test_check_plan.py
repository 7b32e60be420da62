"""The command ``check --plan`` reports each difference between production and the plan."""

import json
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from operator import methodcaller
from pathlib import Path
from typing import Any
from urllib.parse import quote
from wsgiref.types import WSGIApplication

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_notifications import DeprecationMiddleware, load_plan
from tests.cli.commands import Outcome, run
from tests.cli.servers import Canned, canned_server, serving
from tests.wsgi import plain_app

FUTURE, PAST = "2999-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
OPERATIONS: list[dict[str, Any]] = [
    {
        "name": "report",
        "method": "GET",
        "path": "/reports/{id}",
        "successor": "/v2/reports/{id}",
    },
    {"name": "order", "method": "POST", "path": "/orders"},
    {"name": "latest", "method": "GET", "path": "/reports/latest", "live": True},
]
PLAN: dict[str, Any] = {
    "deprecated_at": PAST,
    "sunset_at": FUTURE,
    "documentation": "/docs",
    "operations": OPERATIONS,
}
BROWNOUT = {"brownouts": [{"start": PAST, "end": FUTURE}]}
CLOSED = {"sunset_at": "2026-02-01T00:00:00Z", "enforce_sunset": True}
SEVERAL = [
    {"name": name, "method": method, "path": f"/{name}"}
    for name, method in (("a", "*"), ("b", "GET"), ("c", "GET"))
]
GONE = plain_app("410 Gone", [("Cache-Control", "no-store")])


def check(tmp_path: Path, *arguments: str, **changes: object) -> Outcome:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(PLAN | changes), encoding="utf-8")
    return run("check", "--plan", file, "--format", "json", *arguments)


def differences(outcome: Outcome) -> list[str]:
    """Check that all errors are about the plan, and return their messages."""
    messages = []
    for finding in json.loads(outcome.out)["findings"]:
        if finding["level"] == "error":
            assert finding["code"] == "plan-differs"
            messages.append(finding["message"])
    assert outcome.code == (3 if messages else 0)
    return messages


def retired(
    application: WSGIApplication | None = None, **changes: object
) -> WSGIApplication:
    """Return an application, by default a plain one, behind the plan with some changes."""
    return DeprecationMiddleware(application or plain_app(), load_plan(PLAN | changes))


@pytest.fixture(scope="module")
def production() -> Iterator[str]:
    with serving(retired()) as url:
        yield url


def test_production_that_runs_the_plan_has_no_differences(
    production: str, tmp_path: Path
) -> None:
    for path in ("/REPORTS/a%20b/?page=2", "/reports/caf%C3%A9", "/reports/latest"):
        assert differences(check(tmp_path, production + path)) == []


@pytest.mark.parametrize(
    ("application", "base_url"), [(plain_app(), "https://api.example"), (GONE, None)]
)
def test_neither_a_base_url_nor_a_410_of_the_application_is_a_difference(
    application: WSGIApplication, base_url: str | None, tmp_path: Path
) -> None:
    app = DeprecationMiddleware(application, load_plan(PLAN), base_url=base_url)
    with serving(app) as url:
        assert differences(check(tmp_path, f"{url}/reports/7", "--no-links")) == []


def test_without_a_url_every_simple_operation_of_the_plan_is_checked(
    production: str, tmp_path: Path
) -> None:
    operations = [
        *OPERATIONS,
        {"name": "export", "method": "GET", "path": "/%65xport/%C3%A9"},
        {"name": "old", "method": "GET", "path": "/old", "query": {"v": "1"}},
        {"name": "v1", "method": "GET", "path": "/v1/**"},
    ]
    arguments = ("--base-url", f"{production}/", "--no-links")
    outcome = check(tmp_path, *arguments, operations=operations)
    live, export = json.loads(outcome.out)
    assert (live["url"], live["findings"]) == (f"{production}/reports/latest", [])
    assert export["url"] == f"{production}/%65xport/%C3%A9"
    assert [finding["code"] for finding in export["findings"]].count("plan-differs")
    assert outcome.code == 3
    as_text = run("check", "--plan", tmp_path / "plan.json", *arguments)
    assert as_text.out.count("GET http") == 2
    passed_over = "4 of 6 operations not checked, because each needs a URL of its own: report, order, old, v1\n"
    assert outcome.err == passed_over


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_progress_of_several_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with canned_server() as server:
        monkeypatch.setattr("tests.cli.commands.StringIO", Terminal)
        several = check(tmp_path, "--base-url", server.url, operations=SEVERAL)
        assert "Checking" in several.err
        assert "Checking" not in check(tmp_path, f"{server.url}/a").err
        monkeypatch.setattr(
            "tests.cli.commands.redirect_stderr", lambda _err: redirect_stderr(None)
        )  # it is closed
        closed = check(tmp_path, "--base-url", server.url, operations=SEVERAL)
        assert closed == (3, several.out, "")


@pytest.mark.parametrize("output", ["text", "json"])
def test_one_check_of_several_urls_calls_a_link_once_and_ends_after_all_of_them(
    output: str, tmp_path: Path
) -> None:
    link = ("Link", '</docs>; rel="deprecation"')
    with canned_server() as server:
        server.respond("/a", Canned(200, [link]))
        server.respond("/b", Canned(0))
        server.respond("/c", Canned(200, [link]))
        arguments = ("--base-url", server.url, "--format", output)
        outcome = check(tmp_path, *arguments, operations=SEVERAL)
    assert server.requests.count(("GET", "/docs")) == 1
    reason = "Remote end closed connection without response"
    assert outcome.err == f"Error: {server.url}/b is not reachable: {reason}\n"
    assert (outcome.code, outcome.out.count("link-unreachable")) == (1, 2)


def test_several_urls_are_called_with_get_only(tmp_path: Path) -> None:
    outcome = check(tmp_path, "--base-url", "http://127.0.0.1", "--method", "DELETE")
    assert outcome.code == 2
    assert "with GET only" in outcome.err


@pytest.mark.parametrize("number", [2, 3], ids=["none", "only a live one"])
def test_a_plan_without_a_simple_deprecated_operation_is_an_error(
    number: int, tmp_path: Path
) -> None:
    arguments = ("--base-url", "http://127.0.0.1")
    outcome = check(tmp_path, *arguments, operations=OPERATIONS[:number])
    assert outcome.code == 1
    assert "the plan has no deprecated GET operation without" in outcome.err


@pytest.mark.parametrize(
    "caller", [(), ("--header", "X-Caller: acme")], ids=["anybody", "an exempt caller"]
)
def test_production_chooses_the_closed_operation_of_a_path(
    caller: tuple[str, ...], tmp_path: Path
) -> None:
    exemption = {"caller": "acme", "until": FUTURE, "reason": "a contract"}
    subtree = {"name": "v1", "method": "*", "path": "/v1/**"}
    reports = {"name": "reports", "method": "GET", "path": "/v1/reports/", **CLOSED}
    operations = [subtree, reports | {"exemptions": [exemption]}]
    plan = load_plan(PLAN | {"operations": operations})
    identify = methodcaller("get", "HTTP_X_CALLER")
    with serving(DeprecationMiddleware(plain_app(), plan, identify=identify)) as url:
        for path in ("/v1/reports/", "/V1/Reports", "/v1/./reports", "/v1/orders"):
            arguments = (url + path, "--no-links", *caller)
            outcome = check(tmp_path, *arguments, operations=operations)
            assert differences(outcome) == []


def test_a_path_without_a_view_is_no_operation_of_the_plan(tmp_path: Path) -> None:
    with serving(retired(plain_app("404 Not Found"))) as url:
        outcome = check(tmp_path, f"{url}/reports/./7", "--no-links")
    assert "No operation of the plan matches GET /reports/./7. " in outcome.out


@pytest.mark.parametrize("mount", ["/erp", "/erp v1/caf\u00c3\u00a9"])
def test_production_below_a_mount_point_has_no_differences(
    mount: str, tmp_path: Path
) -> None:
    app = DispatcherMiddleware(plain_app("404 Not Found"), {mount: retired()})
    with serving(app) as url:
        below = f"{url}{quote(mount, encoding='latin-1')}/reports/7"
        assert differences(check(tmp_path, below)) == []
        (difference,) = differences(check(tmp_path, below, sunset_at=None))
    assert "Production sends Sunset " in difference


def test_a_successor_of_the_application_itself_is_no_difference(tmp_path: Path) -> None:
    app = plain_app("200 OK", [("Link", '</own>; rel="successor-version"')])
    with serving(retired(app)) as url:
        target = f"{url}/reports/7"
        assert differences(check(tmp_path, target)) == []
        for successor, planned in (("/v3/{id}", "'/v3/7'"), (None, "none")):
            changed = [OPERATIONS[0] | {"successor": successor}]
            (difference,) = differences(check(tmp_path, target, operations=changed))
            assert (
                "rel=\"successor-version\" '/own' and '/v2/reports/7' for report; "
                f"the plan has {planned}"
            ) in difference


LATER = {"deprecated_at": "2027-01-01T00:00:00Z"}
DIFFERENCES: dict[str, tuple[dict[str, Any], str]] = {
    "date": (
        LATER,
        "sends Deprecation '@1767225600' for report; the plan has '@1798761600'. ",
    ),
    "no sunset": (
        {"sunset_at": None},
        "sends Sunset 'Tue, 01 Jan 2999 00:00:00 GMT' for report; the plan has none. ",
    ),
    "page": (
        {"documentation": "/page"},
        "sends Link rel=\"deprecation\" '/docs' for report; the plan has '/page'. ",
    ),
    "one more page": (
        {"sunset_documentation": "/p"},
        "no Link rel=\"sunset\" for report; the plan has '/p'. ",
    ),
    "a brownout": (
        BROWNOUT,
        "The status of report is 200, but in the plan its phase is brownout",
    ),
}


@pytest.mark.parametrize(("changes", "words"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_difference_from_the_plan_is_an_error(
    production: str, changes: Any, words: str, tmp_path: Path
) -> None:
    (difference,) = differences(check(tmp_path, f"{production}/reports/7", **changes))
    assert words in difference


# Those of production, and of the plan, with the phases of both.
PHASES: dict[str, dict[str, Any]] = {
    "deprecated": {"sunset_at": CLOSED["sunset_at"]},
    "brownout": BROWNOUT | {"sunset_at": CLOSED["sunset_at"]},
    "sunset": CLOSED,
}


@pytest.mark.parametrize("running", ["brownout", "sunset"])
def test_a_410_fits_a_plan_that_closes_operations_in_the_same_way(
    running: str, tmp_path: Path
) -> None:
    with serving(retired(**PHASES[running])) as url:
        for planned, changes in PHASES.items():
            messages = differences(check(tmp_path, f"{url}/reports/7", **changes))
            if planned == running:
                assert messages == []
            else:
                (message,) = messages
                assert (
                    f"code {running}, but in the plan its phase is {planned}" in message
                )


@pytest.mark.parametrize("closed", [BROWNOUT, CLOSED], ids=["a brownout", "a sunset"])
def test_an_exempt_caller_with_credentials_gets_no_differences(
    production: str, closed: Any, tmp_path: Path
) -> None:
    late = {"caller": "late", "until": "2026-01-02T00:00:00Z", "reason": "over"}
    acme = {"caller": "acme", "until": "2999-06-01T00:00:00Z", "reason": "contract"}
    changes = closed | {"exemptions": [late, acme]}
    plan = load_plan(PLAN | changes)
    identify = methodcaller("get", "HTTP_X_CALLER")
    header = ("--header", "X-Caller: acme")
    with serving(DeprecationMiddleware(plain_app(), plan, identify=identify)) as url:
        for path in ("/reports/7", "/reports/latest"):
            assert differences(check(tmp_path, url + path, *header, **changes)) == []
    target = f"{production}/reports/7"
    earlier = {"deprecated_at": "2025-01-01T00:00:00Z"}
    (difference,) = differences(check(tmp_path, target, *header, **changes | earlier))[
        :1
    ]
    assert "sends Deprecation '@1767225600'" in difference
    assert differences(check(tmp_path, target, **changes))


def test_an_operation_that_is_live_in_the_plan_announces_nothing(
    production: str, tmp_path: Path
) -> None:
    live = [OPERATIONS[0] | {"live": True, "successor": None}]
    messages = differences(check(tmp_path, f"{production}/reports/7", operations=live))
    assert len(messages) == 2
    for message in messages:
        assert "is live in the plan" in message


def test_a_lookalike_of_a_deprecated_operation_is_not_the_live_one_beside_it(
    tmp_path: Path,
) -> None:
    operations = [
        {"name": "reports", "method": "GET", "path": "/reports/"},
        {"name": "live", "method": "GET", "path": "/reports/{id}", "live": True},
    ]
    with serving(retired(operations=operations)) as url:
        outcome = check(tmp_path, f"{url}/REPORTS/%20", operations=operations)
    assert differences(outcome) == []


@pytest.mark.parametrize(("changes", "count"), [(BROWNOUT, 1), (CLOSED, 0)])
def test_a_410_needs_retry_after_if_the_plan_has_a_brownout(
    changes: Any, count: int, tmp_path: Path
) -> None:
    with serving(GONE) as url:
        outcome = check(tmp_path, f"{url}/reports/7", **changes)
    assert outcome.out.count('"gone-without-retry-after"') == count


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/report/7", "GET /report/7. "),
        ("/orders", "GET /orders. "),
        ("", "GET /. "),
    ],
)
def test_a_url_that_matches_no_operation_is_an_error(
    production: str, path: str, words: str, tmp_path: Path
) -> None:
    outcome = check(tmp_path, f"{production}{path}")
    assert outcome.code == 3
    remedy = "Change the plan, deploy it, or call another URL."
    assert f"No operation of the plan matches {words}{remedy}" in outcome.out


def test_production_without_the_middleware_differs_in_every_header(
    tmp_path: Path,
) -> None:
    with serving(plain_app()) as url:
        outcome = check(tmp_path, f"{url}/reports/7")
    assert outcome.out.count('"plan-differs"') == 4


VERSION = {
    "name": "v1",
    "method": "*",
    "path": "/api/**",
    "query": {"shop": "1"},
    "headers": {"API-Version": "1"},
}


def test_the_query_and_the_headers_of_the_request_choose_the_operation(
    tmp_path: Path,
) -> None:
    with serving(retired(operations=[VERSION])) as url:
        target = f"{url}/api/x?shop=1"
        header = ("--header", "API-Version: 1")
        assert differences(check(tmp_path, target, *header, operations=[VERSION])) == []
        mismatch = check(tmp_path, target, operations=[VERSION])
    assert "No operation of the plan matches GET /api/x. " in mismatch.out
