"""The pages that the browser and the validator check, by name."""

from collections.abc import Callable
from functools import cache

from flask_notifications import Operation
from flask_notifications.pages import render_guide, render_usage
from flask_notifications.usage import Verdict
from tests.pages import reports
from tests.pages.reports import NOTIFICATION_PLAN, NOW, brownout, policy, utc

REPORT = Operation("report", "GET", "/reports/{id}", successor="/v2/reports/{id}")


@cache
def render(name: str) -> str:
    """Return a page as HTML."""
    return DOCUMENTS[name]()


def _two_operations() -> str:
    return render_guide(NOTIFICATION_PLAN, at=NOW, contact="api@example.com", base_url="https://api.example.org/v1")


def _switched_off() -> str:
    return render_guide({REPORT: policy(utc(2026, 10, 1), enforce_sunset=True)}, at=NOW)


def _in_a_brownout() -> str:
    return render_guide({REPORT: policy(None, brownout(utc(2026, 11, 22, 16), 90))}, at=NOW)


def _strange_guide() -> str:
    contact = f"https://example.com/{'z' * 90}"
    return render_guide(reports.strange_plan(), at=NOW, title=" ".join(reports.STRANGE), contact=contact)


def _no_calls() -> str:
    return render_usage(reports.report(reports.operation_usage("reports", [], reports.coverage(30))))


def _one_caller() -> str:
    return render_usage(reports.report(reports.busy_operation("current_user", callers=1, days=30)))


def _three_verdicts() -> str:
    busy = reports.busy_operation("current_user", callers=7, days=182)
    unknown = reports.operation_usage(
        "account",
        [],
        reports.coverage(182, gap=range(90, 95)),
        verdict=Verdict.UNKNOWN,
        reasons=("a gap of 120 hours",),
    )
    quiet = reports.operation_usage("reports", [], reports.coverage(182))
    return render_usage(reports.report(busy, unknown, quiet, days=182), plan=NOTIFICATION_PLAN)


def _strange_usage() -> str:
    busy = reports.busy_operation("current_user", callers=200, days=400, names=reports.strange_names)
    quiet = reports.operation_usage(" ".join(reports.STRANGE), [], reports.coverage(400))
    plan = NOTIFICATION_PLAN | reports.strange_plan()
    return render_usage(reports.report(busy, quiet, days=400), plan=plan, title=reports.STRANGE[2])


DOCUMENTS: dict[str, Callable[[], str]] = {
    "guide, nothing retired": lambda: render_guide({REPORT: None}, at=NOW),
    "guide, two operations": _two_operations,
    "guide, switched off": _switched_off,
    "guide, in a brownout": _in_a_brownout,
    "guide, many strange names": _strange_guide,
    "usage, nothing recorded": lambda: render_usage(reports.report()),
    "usage, no calls": _no_calls,
    "usage, one caller": _one_caller,
    "usage, three verdicts": _three_verdicts,
    "usage, many strange names": _strange_usage,
}
