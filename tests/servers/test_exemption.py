"""On gunicorn, one caller is let through from the announcement until its exemption ends; nobody else is."""

from base64 import b64encode
from pathlib import Path

import pytest

from tests.servers.process import gunicorn, serving

PLAN = """
deprecated_at = 2026-01-01T00:00:00Z
sunset_at = 2027-01-01T00:00:00Z
enforce_sunset = true
brownouts = [{ start = 2026-11-03T09:00:00Z, end = 2026-11-03T10:00:00Z }]
exemptions = [{ caller = "warehouse", until = 2027-03-01T00:00:00Z, reason = "contract until March" }]

[[operations]]
name = "report"
method = "GET"
path = "/reports/{id}"
"""
JANUARY, MARCH = "Fri, 01 Jan 2027 00:00:00 GMT", "Mon, 01 Mar 2027 00:00:00 GMT"
OURS, FOR_ALL, REFUSED = "max-age=60, private", "public, max-age=60", "no-store"
# A time; the phase, the status and the Cache-Control of everybody, and the same of the warehouse.
STORY = [
    ("2025-12-31T23:59:59", ("announced", 200, FOR_ALL), ("announced", 200, OURS)),
    ("2026-01-01T00:00:00", ("deprecated", 200, FOR_ALL), ("deprecated", 200, OURS)),
    ("2026-11-03T09:00:00", ("brownout", 410, REFUSED), ("deprecated", 200, OURS)),
    ("2026-11-03T10:00:00", ("deprecated", 200, FOR_ALL), ("deprecated", 200, OURS)),
    ("2027-01-01T00:00:00", ("sunset", 410, REFUSED), ("deprecated", 200, OURS)),
    ("2027-02-28T23:59:59", ("sunset", 410, REFUSED), ("deprecated", 200, OURS)),
    ("2027-03-01T00:00:00", ("sunset", 410, REFUSED), ("sunset", 410, REFUSED)),
]


def test_an_exemption_from_the_announcement_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXEMPT_FOLDER", str(tmp_path))
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    program = gunicorn("sync", application="tests.servers.exempt:application")
    expected = []
    with serving(program, tmp_path / "server") as server:
        for time, *outcomes in STORY:
            (tmp_path / "now").write_text(f"{time}+00:00", encoding="ascii")
            for caller, (phase, status, cache) in zip(("other", "warehouse"), outcomes, strict=True):
                credentials = b64encode(f"{caller}:s3cret".encode()).decode()
                response = server.ask("GET", "/reports/7", f"Authorization: Basic {credentials}")
                assert (response.code, response.one("Cache-Control")) == (status, cache), (time, caller)
                is_exempt = caller == "warehouse" and time < "2027-03"
                assert response.one("Sunset") == (MARCH if is_exempt else JANUARY)
                expected.append(f"{caller} {phase} {status}")
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines() == expected
