"""All pages in Chromium under a strict policy: self-contained, without errors,
accessible, and fit for a phone.
"""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from flask_notifications import Exemption, Operation
from flask_notifications.formats.notice import describe_notice, render_notice
from flask_notifications.pages import render_guide, render_usage
from flask_notifications.usage import DayUsage, Reason, Verdict
from tests.cli.servers import Canned, canned_server
from tests.pages import reports
from tests.pages.reports import (
    NOTIFICATION_PLAN,
    NOW,
    brownout,
    busy_operation,
    coverage,
    operation_usage,
    policy,
    utc,
)
from tests.services import chromium_or_skip, program_or_skip, service_or_skip

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
# Seconds that a program may take for all pages.
PATIENCE = 600
# The strictest policy that the pages support.
STRICT = "default-src 'none'; style-src 'unsafe-inline'"
HEADERS = [
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", STRICT),
]
REPORT = Operation("report", "GET", "/reports/{id}", successor="/v2/reports/{id}")


def strange_guide() -> str:
    contact = f"https://example.com/{'z' * 90}"
    return render_guide(
        reports.strange_plan(), at=NOW, title=" ".join(reports.STRANGE), contact=contact
    )


def three_verdicts() -> str:
    unknown = operation_usage(
        "account",
        [],
        coverage(182, gap=range(90, 95)),
        verdict=Verdict.UNKNOWN,
        reasons=(Reason("gap", "a gap of 120 hours"),),
    )
    busy = busy_operation("current_user", callers=30, days=182)
    safe = operation_usage("x", [], coverage(182))
    exemption = Exemption("service-1", utc(2027, 3, 1), "contract")
    plan = {}
    for operation, planned in NOTIFICATION_PLAN.items():
        plan[operation] = replace(planned, exemptions=[exemption])
    return render_usage(reports.report(busy, unknown, safe, days=182), plan=plan)


def strange_usage() -> str:
    busy = busy_operation(
        "current_user", callers=200, days=400, names=reports.strange_names
    )
    quiet = operation_usage(" ".join(reports.STRANGE), [], coverage(400))
    plan = NOTIFICATION_PLAN | reports.strange_plan()
    return render_usage(
        reports.report(busy, quiet, days=400), plan=plan, title=reports.STRANGE[2]
    )


def strange_notice() -> str:
    name = reports.STRANGE[3]
    day = DayUsage(NOW.date(), 1, 1, 1, 1)
    callers = [reports.caller(name, client, [day]) for client in reports.STRANGE]
    plan = {}
    usages = []
    for operation, planned in reports.strange_plan().items():
        if planned is not None:
            plan[operation] = planned
            usages.append(operation_usage(operation.name, callers, coverage(30)))
    notice = describe_notice(reports.report(*usages), plan, name)
    assert notice is not None
    return render_notice(notice)


def silent_notice() -> str:
    quiet = reports.report(operation_usage("current_user", [], coverage(30)))
    quiet = replace(quiet, last_call=NOW)
    notice = describe_notice(quiet, NOTIFICATION_PLAN, "service-1")
    assert notice is not None
    return render_notice(notice)


DOCUMENTS = {
    "guide, nothing retired": lambda: render_guide(
        {replace(REPORT, successor=None): None}, at=NOW
    ),
    "guide, two operations": lambda: render_guide(
        NOTIFICATION_PLAN, at=NOW, base_url="https://api.example.org/v1"
    ),
    "guide, in a brownout": lambda: render_guide(
        {REPORT: policy(None, brownout(utc(2026, 11, 22, 16), 90))}, at=NOW
    ),
    "guide, many strange names": strange_guide,
    "usage, nothing recorded": lambda: render_usage(reports.report()),
    "usage, three verdicts": three_verdicts,
    "usage, many strange names": strange_usage,
    "notice, no calls": silent_notice,
    "notice, many strange names": strange_notice,
}


@pytest.fixture(scope="session")
def tools(pytestconfig: pytest.Config) -> Path:
    """Return the folder with the packages of package-lock.json, which is kept in
    pytest's cache between runs.
    """
    program_or_skip("node")
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("pages")
    for path in [*HERE.glob("*.mjs"), *HERE.glob("*.json")]:
        shutil.copy(path, folder)
    # Without a network, npm must not retry for a minute.
    options = (
        "--ignore-scripts --no-audit --no-fund --prefer-offline "
        "--fetch-retry-mintimeout=500 --fetch-retry-maxtimeout=2000"
    )
    command = [program_or_skip("npm"), "install", *options.split()]
    installed = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    service_or_skip("a registry of npm packages", installed.returncode == 0)
    return folder


@pytest.fixture(scope="module")
def seen(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program, *options = chromium_or_skip()
    folder = str(tmp_path_factory.mktemp("browser"))
    with canned_server() as server:
        shown = {
            name: Canned(200, HEADERS, render().encode())
            for name, render in DOCUMENTS.items()
        }
        pages = {
            name: server.respond(f"/{quote(name)}", page)
            for name, page in shown.items()
        }
        done = subprocess.run(
            ["node", tools / "inspect.mjs"],
            input=json.dumps(
                {"executablePath": program, "args": options, "pages": pages}
            ),
            env=os.environ | {"HOME": folder, "TMPDIR": folder},
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 0, done.stderr
    return {
        name: {**page, "url": pages[name]}
        for name, page in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_page_loads_nothing_reports_nothing_and_is_accessible_in_every_mode(
    seen: dict[str, Any], name: str
) -> None:
    page = seen[name]
    assert (page["requests"], page["messages"], page["styled"]) == (
        [page["url"]],
        [],
        True,
    )
    assert page["modes"].keys() == {"wide", "narrow", "dark", "print"}
    assert [
        mode
        for mode in page["modes"].values()
        if mode != {"overflow": [], "violations": []}
    ] == []


def test_the_validator_of_the_w3c_finds_no_errors(tools: Path, tmp_path: Path) -> None:
    java = program_or_skip("java")
    for number, render in enumerate(DOCUMENTS.values()):
        (tmp_path / f"{number}.html").write_text(render(), encoding="utf-8")
    checker = tools / "node_modules" / "vnu-jar" / "build" / "dist" / "vnu.jar"
    command: list[str | Path] = [
        java,
        "-jar",
        checker,
        "--format",
        "gnu",
        *sorted(tmp_path.glob("*.html")),
    ]
    done = subprocess.run(
        command, capture_output=True, check=False, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
