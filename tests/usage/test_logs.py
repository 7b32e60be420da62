"""Calls in access logs: which lines are calls, in which formats, and what they prove."""

import bz2
import gzip
import json
import lzma
import os
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_notifications import load_plan
from flask_notifications.plans.operations import OperationTable
from flask_notifications.usage import times
from flask_notifications.usage.counts import ANSWERED, FIRST_AT, LAST_AT
from flask_notifications.usage.logs import LogReading, read_logs
from flask_notifications.usage.times import to_microseconds

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TIME = "18/Nov/2026:12:00:00 +0000"
COMBINED = f'[{TIME}] "GET /reports/7 HTTP/1.1" 200 12 "-" "curl/8.5.0 (linux)"'
REPORT: dict[str, Any] = {"name": "report", "method": "GET", "path": "/reports/{id}"}
KINDS = ("answered", "refused", "failed", "closed")
LIVE = {"name": "latest", "method": "GET", "path": "/reports/latest", "live": True}


def plan_of(*operations: dict[str, Any]) -> Any:
    document = {"deprecated_at": "2026-01-01T00:00:00Z", "operations": operations}
    return load_plan(document)


PLAN = plan_of(REPORT, LIVE)


def line(
    target: str = "/reports/7",
    *,
    method: str = "GET",
    status: object = 200,
    user: str = "-",
    agent: str = "curl/8.5.0",
    time: str = TIME,
) -> str:
    request = f"{method} {target} HTTP/1.1"
    return f'203.0.113.9 - {user} [{time}] "{request}" {status} 12 "-" "{agent}"'


def read(*lines: str, plan: Any = PLAN, **options: Any) -> LogReading:
    stream = BytesIO("\n".join(lines).encode("latin-1"))
    return read_streams(stream, plan=plan, **options)


def read_streams(*logs: Any, plan: Any = PLAN, **options: Any) -> LogReading:
    since, until = to_microseconds(NOON - DAY), to_microseconds(NOON + DAY)
    return read_logs(logs, plan, since, until, **options)


def names(reading: LogReading) -> list[str]:
    return [change.name[0] for change in reading.calls]


def callers(reading: LogReading) -> list[tuple[str | None, str | None]]:
    return [change.name[1:3] for change in reading.calls]


def kinds(reading: LogReading) -> dict[str, int]:
    """Return how many calls of each kind there are, without the kinds of none."""
    totals: Counter[str] = Counter()
    for change in reading.calls:
        counts = zip(KINDS, change.numbers[ANSWERED:], strict=True)
        totals.update(dict(counts))
    return dict(+totals)


CALLS: dict[str, tuple[str, dict[str, int]]] = {
    "answered": (line(), {"answered": 1}),
    "redirected": (line(status=304), {"answered": 1}),
    "refused": (line(status=401), {"refused": 1}),
    "forbidden": (line(status=403), {"refused": 1}),
    "failed": (line(status=500), {"failed": 1}),
    "without a response": (line(status="-"), {"failed": 1}),
    "aborted": (line(status="000"), {"failed": 1}),
    "a 410 of the application": (line(status=410), {"failed": 1}),
    "a HEAD": (line(method="HEAD"), {"answered": 1}),
    "a method in lower case": (line(method="get"), {"answered": 1}),
    "another letter case and a slash": (line("/REPORTS/7/?a=b"), {"answered": 1}),
    "percent-encoded": (line("/%72eports/7"), {"answered": 1}),
    "a lookalike": (line("//reports/7"), {"answered": 1}),
    "a lookalike that was not found": (line("//reports/7", status=404), {}),
    "a lookalike that was not allowed": (line("/./reports/7", status=405), {}),
    "with a fragment": (line("/reports/7#42"), {"answered": 1}),
    "absolute": (line("https://shop.example:443/reports/7"), {"answered": 1}),
    "absolute without a host": (line("http:/reports/7"), {"answered": 1}),
    "after a host": (line("shop.example/reports/7"), {"answered": 1}),
    "after a host and a port": (line("web:8080/reports/7"), {"answered": 1}),
    "after an address": (line("[::1]:80/reports/7"), {"answered": 1}),
    "after the name of a container": (line("web/reports/7"), {"answered": 1}),
    "without its first slash": (line("reports/7"), {"answered": 1}),
    "with escapes of nginx": (line(r"/reports/\xC3\xB6\x22"), {"answered": 1}),
    "with escapes of JSON": (line(r"\/reports\/\u00f6"), {"answered": 1}),
    "with a backslash of the client": (line(r"/reports/a\x2fb"), {"answered": 1}),
    "another method": (line(method="POST"), {}),
    "a live operation": (line("/reports/latest"), {}),
    "another path": (line("/reportsx/7"), {}),
    "in the query only": (line("/quiet?next=/reports/7"), {}),
    "a route in place of a path": (line("/{proxy+}"), {}),
    "before the window": (line(time="17/Nov/2026:11:59:59 +0000"), {}),
    "after the window": (line(time="19/Nov/2026:12:00:01 +0000"), {}),
    "a probe": (line(agent="flask-notifications-check/1.0"), {}),
}


@pytest.mark.parametrize(("entry", "expected"), CALLS.values(), ids=CALLS)
def test_a_line_counts_as_its_request_would(
    entry: str, expected: dict[str, int]
) -> None:
    reading = read(entry)
    assert (kinds(reading), reading.unreadable) == (expected, 0)


REQUESTS: dict[str, tuple[str, bool]] = {
    "without a protocol": ("GET /reports/7", True),
    "with half a protocol": ("GET /reports/7 1.1", True),
    "with an odd protocol": ("GET /reports/7 -", True),
    "with a space in the target": ("GET /reports/a b HTTP/1.1", True),
    "with more white space": ("GET  /reports/7  http/1.1 ", True),
    "none": ("-", False),
    "empty": ("", False),
    "of another protocol": (r"\x16\x03\x01", False),
}


@pytest.mark.parametrize(("request_line", "is_call"), REQUESTS.values(), ids=REQUESTS)
def test_request_lines_are_read_as_servers_write_them(
    request_line: str, is_call: bool
) -> None:
    reading = read(f'203.0.113.9 - - [{TIME}] "{request_line}" 400 0 "-" "-"')
    assert (bool(reading.calls), reading.lines, reading.unreadable) == (is_call, 1, 0)


JSON = "json:time=time,method=method,target=target,status=status,agent=agent,user=user"
REQUEST_KEY = "json:time=t,target=request,status=status,user=user,agent=agent"
ELASTIC = (
    "json:time=@timestamp,method=http.request.method,target=url.original,"
    "status=http.response.status_code"
)
EPOCH = int(NOON.timestamp())
PAGE = (Path(__file__).parents[2] / "docs" / "usage.md").read_text(encoding="utf-8")
# The formats of servers that have one of their own.
FORMATS = dict(re.findall(r"^\| ([^|\n]+) \| `(.*time.*)` \|$", PAGE, re.MULTILINE))


class Server(NamedTuple):
    """A line of a server, with its format, the caller and the client."""

    line: str
    log_format: str | None = None
    caller: str | None = None
    client: str | None = "curl/8.5.0"


SERVERS: dict[str, Server] = {
    "nginx": Server(f"203.0.113.9 - - {COMBINED}"),
    "nginx after proxies": Server(f'203.0.113.9, 10.0.0.7 - - {COMBINED} "-"'),
    "ingress-nginx": Server(
        f"203.0.113.9 - acme {COMBINED} 99 0.003 [shop-80] [] 10.0.0.7:80 12",
        caller="acme",
    ),
    "Apache": Server(
        f'::1 - acme [{TIME}] "GET /reports/7 HTTP/1.1" 200 12',
        caller="acme",
        client=None,
    ),
    "Apache with virtual hosts": Server(
        f"shop.example:443 203.0.113.9 - acme {COMBINED}", caller="acme"
    ),
    "Apache with an identity": Server(
        f"203.0.113.9 jane acme {COMBINED}", caller="acme"
    ),
    "lighttpd": Server(f"203.0.113.9 shop.example - {COMBINED}"),
    "gunicorn": Server(f" - acme {COMBINED}", caller="acme"),
    "gunicorn in the journal": Server(
        f"Nov 18 12:00:00 web1 gunicorn[12]: 203.0.113.9 - - {COMBINED}"
    ),
    "syslog of RFC 5424": Server(
        f"<134>1 2026-11-18T12:00:00Z web1 nginx 7 - - ::1 - acme {COMBINED}",
        caller="acme",
    ),
    "Heroku's dynos": Server(
        f"2026-11-18T12:00:00.1+00:00 app[web.1]: 10.0.0.7 - - {COMBINED}"
    ),
    "Kubernetes": Server(f"2026-11-18T12:00:00.1Z stdout F 10.0.0.7 - - {COMBINED}"),
    "docker compose": Server(f"web-1  | 10.0.0.7 - acme {COMBINED}", caller="acme"),
    "Hypercorn": Server(
        "[2026-11-18 12:00:00 +0000] [12] [INFO] 10.0.0.7:46538 - - "
        + COMBINED.replace("HTTP/1.1", "1.1")
    ),
    "Granian": Server(
        '[2026-11-18 12:00:00 +0000] 10.0.0.7 - "GET /reports/7 HTTP/1.1" 200 0.070',
        client=None,
    ),
    "gevent": Server(
        '10.0.0.7 - - [2026-11-18 12:00:00] "GET /reports/7 HTTP/1.1" 200 130 0.000305',
        client=None,
    ),
    "Cheroot": Server(
        "10.0.0.7 - - [18/Nov/2026:12:00:00] "
        '"GET /reports/7 HTTP/1.1" 200 11 "" "curl/8.5.0"'
    ),
    "waitress with TransLogger": Server(
        "10.0.0.7 - - [18/Nov/2026:13:00:00 +0100] "
        '"GET /reports/7 HTTP/1.1" 200 - "-" "curl/8.5.0"'
    ),
    "flask run": Server(
        '10.0.0.7 - - [18/Nov/2026 12:00:00] "GET /reports/7 HTTP/1.1" 200 -',
        client=None,
    ),
    "flask run, in colours": Server(
        "10.0.0.7 - - [18/Nov/2026 12:00:00] "
        '"\x1b[1m\x1b[35mGET /reports/7 HTTP/1.1\x1b[0m" 201 -',
        client=None,
    ),
    "runserver": Server(
        '[18/Nov/2026 12:00:00] "GET /reports/7 HTTP/1.1" 200 12', client=None
    ),
    "Traefik": Server(
        f'10.0.0.7 - acme {COMBINED} 1 "web@docker" "http://10.0.0.8" 3ms',
        caller="acme",
    ),
    "Envoy": Server(
        '[2026-11-18T12:00:00.000Z] "GET /reports/7 HTTP/1.1" 200 - 0 135 8 7 "-" '
        '"curl/8.5.0" "id" "shop.example" "10.0.0.8:80"',
        client=None,
    ),
    "HAProxy with our format": Server(
        "Nov 18 12:00:00 lb haproxy[7]: 203.0.113.9 [18/Nov/2026:12:00:00.000] "
        '"GET /reports/7 HTTP/1.1" 200 612 3 --',
        client=None,
    ),
    "HAProxy, `option httplog`": Server(
        "Nov 18 12:00:00 lb haproxy[7]: 10.0.0.7:33317 [18/Nov/2026:12:00:00.000] "
        "web web/s1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "
        '"GET /reports/7 HTTP/1.1"',
        client=None,
    ),
    "uWSGI": Server(
        "[pid: 12|app: 0|req: 1/1] 10.0.0.7 () {34 vars in 400 bytes} "
        "[Wed Nov 18 12:00:00 2026] GET /reports/7 => generated 612 bytes in 3 msecs "
        "(HTTP/1.1 200) 2 headers in 79 bytes (1 switches on core 0)",
        client=None,
    ),
    "AWS ALB": Server(
        "h2 2026-11-18T12:00:00.000000Z app/lb/1 10.0.0.7:2817 10.0.0.8:80 0.000 0.001 "
        '0.000 200 200 34 366 "GET https://shop.example:443/reports/7 HTTP/2.0" '
        '"curl/8.5.0" - -',
    ),
    "CloudFront": Server(
        "2026-11-18\t12:00:00\tFRA2\t612\t10.0.0.7\tGET\td1.example\t/reports/7\t200\t-"
        "\tcurl/8.5.0\t-",
    ),
    "IIS, with its default fields": Server(
        "2026-11-18 12:00:00 10.0.0.1 GET /reports/7 - 443 acme 10.0.0.7 curl/8.5.0 - "
        "200 0 0 15\r",
        caller="acme",
    ),
    "Heroku's router": Server(
        '2026-11-18T12:00:00.000000+00:00 heroku[router]: at=info method=GET path="'
        '/reports/7" host=shop.example fwd="10.0.0.7" dyno=web.1 status=200 bytes=12',
        client=None,
    ),
    "Docker's `json-file`": Server(
        json.dumps({"log": f"10.0.0.7 - - {COMBINED}\n", "stream": "stdout"}),
        client=None,
    ),
    "Caddy": Server(
        json.dumps(
            {
                "ts": EPOCH + 0.5,
                "request": {
                    "method": "GET",
                    "uri": "/reports/7",
                    "headers": {"User-Agent": ["curl/8.5.0"]},
                },
                "user_id": "",
                "status": 200,
            }
        ),
    ),
    "Traefik, JSON": Server(
        '{"ClientUsername":"-","DownstreamStatus":200,"RequestMethod":"GET",'
        '"RequestPath":"/reports/7","StartUTC":"2026-11-18T12:00:00.123456789Z",'
        '"request_User-Agent":"curl/8.5.0"}',
        client=None,
    ),
    "Cloudflare": Server(
        f'{{"EdgeStartTimestamp":{EPOCH}000000000,"ClientRequestMethod":"GET",'
        '"ClientRequestURI":"/reports/7","EdgeResponseStatus":200,'
        '"ClientRequestUserAgent":"curl/8.5.0"}',
    ),
    "Google Cloud": Server(
        '{"timestamp":"2026-11-18T12:00:00.123Z","httpRequest":{"requestMethod":"GET",'
        '"requestUrl":"https://shop.example/reports/7","status":200,'
        '"userAgent":"curl/8.5.0"}}',
    ),
    "nginx, JSON with `$request`": Server(
        f'{{"time":"{TIME}","remote_addr":"203.0.113.9","remote_user":"acme",'
        '"request":"GET /reports/7 HTTP/1.1","status":"200",'
        '"http_user_agent":"curl/8.5.0"}',
        caller="acme",
    ),
    "JSON with the request line": Server(
        f'web1 nginx: {{"t":"{TIME}","request":"GET /reports/7 HTTP/2.0",'
        '"status":"200","user":"J\\u00fcrgen","agent":"curl/8.5.0"},',
        log_format=REQUEST_KEY,
        caller="Jürgen",
    ),
    "JSON with dots in its keys": Server(
        '{"@timestamp":"2026-11-18T12:00:00Z","http.request.method":"GET",'
        '"url":{"original":"/reports/7"},"http.response":{"status_code":200}}',
        log_format=ELASTIC,
        client=None,
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_the_logs_of_servers_are_read(name: str) -> None:
    server = SERVERS[name]
    log_format = FORMATS.get(name, server.log_format)
    reading = read("#Software: IIS", server.line, "", log_format=log_format)
    (change,) = reading.calls
    assert change.day == to_microseconds(NOON) // times.DAY
    assert change.name == ("report", server.caller, server.client, "log")
    assert (kinds(reading), reading.first_unreadable) == ({"answered": 1}, "")


def test_the_page_lists_servers_whose_logs_are_read() -> None:
    assert FORMATS.keys() <= SERVERS.keys()
    (row,) = re.findall(r"^\| (nginx, Apache, .*) \| none \|$", PAGE, re.MULTILINE)
    assert set(row.replace("`", "").split(", ")) <= SERVERS.keys()


@pytest.mark.parametrize(
    ("status", "kind"),
    [("200 OK", "answered"), (200.0, "answered"), (401.2, "refused"), (0, "failed")],
)
def test_a_status_begins_with_three_digits(status: object, kind: str) -> None:
    entry = {"t": EPOCH, "request": "GET /reports/7", "status": status}
    assert kinds(read(json.dumps(entry), log_format=REQUEST_KEY)) == {kind: 1}


@pytest.mark.parametrize(
    "time",
    [
        "18/Nov/2026:13:30:00 +0130",
        "18/Nov/2026:12:00:00.250",
        "2026-11-18T12:00:00Z",
        "2026-11-18 12:00:00,250 +00:00",
        "2026-11-18 07:00:00.123456789-0500",
        "2026-11-18 13:00:00+01",
        "2026-11-18 12:00:00 UTC",
        "20261118T120000Z",
        "2026-11-18T12:00Z",
        "Wed Nov 18 12:00:00 2026",
        f"{EPOCH}",
        f"{EPOCH}.25",
        f"{EPOCH}250",
        f"{EPOCH}250000",
        f"{EPOCH}250000000",
        "1.795003200e+09",
    ],
)
def test_times_are_read_in_any_usual_form(time: str) -> None:
    (change,) = read(line(time=time)).calls
    assert change.numbers[FIRST_AT] // times.SECOND == EPOCH


def test_the_day_of_ctime_is_padded_with_a_space() -> None:
    log_format = r"(?P<time>\w+ \w+ +\d+ \S+ \d+) (?P<target>.+)"
    early = read_logs(
        [BytesIO(b"Sun Nov  8 12:00:00 2026 GET /reports/7")],
        PLAN,
        0,
        to_microseconds(NOON),
        log_format=log_format,
    )
    assert kinds(early) == {"answered": 1}  # without a status, nothing has failed


UNREADABLE: dict[str, tuple[str, str | None, str]] = {
    "no time": ("hello", None, "no time in brackets in 'hello'"),
    "no request": (
        f"[{TIME}] GET",
        None,
        f"no request in quotation marks in '[{TIME}]",
    ),
    "no status": (f'[{TIME}] "GET /x"', None, "no status after the request in '["),
    "an unknown time": (line(time="18.11.2026"), None, "the time is '18.11.2026'"),
    "no such day": (line(time="31/Nov/2026:12:00:00 +0000"), None, "the time is '31/"),
    "no such year": (line(time="18/Nov/0000:12:00:00 +0000"), None, "the time is '18/"),
    "a number beyond time": ("9" * 400, "(?P<time>.+)(?P<target>)", "the time is '999"),
    "an answered request that is none": (
        f'[{TIME}] "reports" 200',
        None,
        "the request is 'reports'",
    ),
    "another expression": (
        "?",
        "(?P<time>x)(?P<target>y)",
        "the regular expression does not match '?'",
    ),
    "no JSON": ("{", JSON, "no JSON object in '{'"),
    "a number as the request": (
        f'{{"time": {EPOCH}, "target": 7, "status": 200}}',
        JSON,
        "the request is '7'",
    ),
    "no key for the time": ('{"time": true}', JSON, "the time is missing"),
    "no key for the target": (
        f'{{"time": {EPOCH}, "status": 200}}',
        JSON,
        "the request is missing",
    ),
    "control characters": ("\x1b[2J\x07", None, r"in '\x1b[2J\x07'"),
    "a session ID": (
        "GET /?sessionId=s3cret-session",
        None,
        "in 'GET /?sessionId=REDACTED'",
    ),
    "a long line": ("x" * 99, None, f"in '{'x' * 60}…'"),
}


@pytest.mark.parametrize(
    ("entry", "log_format", "part"), UNREADABLE.values(), ids=UNREADABLE
)
def test_the_first_line_that_cannot_be_read_is_shown_with_the_part_that_does_not_fit(
    entry: str, log_format: str | None, part: str
) -> None:
    reading = read("", entry, entry, log_format=log_format)
    assert reading.first_unreadable.startswith("line 2 of a log: ")
    assert part in reading.first_unreadable
    assert reading.unreadable == 2
    assert reading.notes == [
        (
            "2 of 2 lines in the logs cannot be read, the first is "
            f"{reading.first_unreadable}"
        )
    ]


def test_times_without_an_offset_are_noted() -> None:
    reading = read(line(), line(time="18/Nov/2026 12:00:00"))
    assert reading.notes == [
        (
            "times without an offset were taken for UTC, the first is "
            "'18/Nov/2026 12:00:00' in a log"
        )
    ]


@pytest.mark.parametrize(
    ("user", "agent", "caller", "client"),
    [
        ("team a", "-", "team a", None),
        ("J\u00fcrgen".encode().decode("latin-1"), "job/1", "J\u00fcrgen", "job/1"),
        (r"J\xC3\xBCrgen", "job/1 (linux)", "J\u00fcrgen", "job/1"),
        ("J\u00fcrgen", "(none)", "J\u00fcrgen", None),
        (r"AD\\anna \"A\"", "job", r'AD\anna "A"', "job"),
        ("x" * 65, "job", None, "job"),
        ("10.0.0.7", "job", None, "job"),
        ('""', "job", None, "job"),
    ],
)
def test_the_user_is_the_caller_and_the_first_product_the_client(
    user: str, agent: str, caller: str | None, client: str | None
) -> None:
    assert callers(read(line(user=user, agent=agent))) == [(caller, client)]


def test_no_session_id_is_kept() -> None:
    secret = "s3cret-session"  # noqa: S105 - a session ID
    reading = read(
        line(f"/reports/7?sessionId={secret}", user=secret, agent=f"{secret}/1"),
        f'?"/?sessionId={secret}" 200',
    )
    assert callers(reading) == [(None, None)]
    assert secret not in f"{reading} {reading.calls}"


def test_a_410_is_closed_where_the_plan_had_closed_the_operation() -> None:
    hour = timedelta(hours=1)
    brownout = {"start": NOON - hour, "end": NOON + hour}
    exemption = {"caller": "acme", "until": NOON + DAY, "reason": "a contract"}
    operation = REPORT | {"brownouts": [brownout], "exemptions": [exemption]}
    plan = plan_of(operation)
    later = "18/Nov/2026:13:00:00 +0000"
    assert kinds(read(line(status=410), plan=plan)) == {"closed": 1}
    assert kinds(read(line(status=410, time=later), plan=plan)) == {"failed": 1}
    assert kinds(read(line(status=410, user="acme"), plan=plan)) == {"failed": 1}
    part = {"name": "part", "path": "/reports/{id}/{part}"}
    for both in (
        plan_of(operation, REPORT | part),
        plan_of(operation | part, REPORT),
        plan_of(REPORT, operation | part),
    ):
        closed = [key.name for key, policy in both.items() if policy.brownouts]
        assert names(read(line("/reports//7", status=410), plan=both)) == closed


CONDITIONS: dict[str, tuple[list[dict[str, Any]], str, list[str]]] = {
    "a query that fits": (
        [{"name": "old", "query": {"cmd": "heads"}}],
        "/hg?cmd=heads",
        ["old"],
    ),
    "a query that does not": (
        [{"name": "old", "query": {"cmd": "heads"}}],
        "/hg?cmd=lookup",
        [],
    ),
    "a header": ([{"name": "old", "headers": {"Version": "1"}}], "/hg", ["old"]),
    "a header beside a live operation": (
        [
            {"name": "live", "live": True},
            {"name": "old", "headers": {"Version": "1"}},
        ],
        "/hg",
        ["old"],
    ),
    "a header of a live operation": (
        [
            {"name": "live", "live": True, "headers": {"Version": "2"}},
            {"name": "old"},
        ],
        "/hg",
        ["old"],
    ),
    "several headers": (
        [
            {"name": "one", "headers": {"Version": "1"}},
            {"name": "two", "headers": {"Version": "2"}},
            {"name": "none"},
        ],
        "/hg",
        ["one", "two", "none"],
    ),
    "a header and a live path": (
        [
            {"name": "old", "path": "/{any}", "headers": {"Version": "1"}},
            {"name": "live", "live": True},
        ],
        "/hg",
        [],
    ),
}


@pytest.mark.parametrize(
    ("operations", "target", "expected"), CONDITIONS.values(), ids=CONDITIONS
)
def test_conditions_hold_as_far_as_a_log_shows_them(
    operations: list[dict[str, Any]], target: str, expected: list[str]
) -> None:
    common = {"method": "GET", "path": "/hg"}
    plan = plan_of(*(common | operation for operation in operations))
    assert names(read(line(target), plan=plan)) == expected


def test_a_fragment_may_follow_the_literal_that_decides() -> None:
    plan = plan_of({"name": "export", "method": "GET", "path": "/v1/export"})
    assert names(read(line("/v1/export#all"), plan=plan)) == ["export"]


@pytest.mark.parametrize(
    ("prefix", "target", "is_call"),
    [
        ("/api", "/api/reports/7", True),
        ("/api/", "/API/reports/7", True),
        ("/api", "//api/reports/7", True),
        ("/%C3%B6", "/%c3%b6/reports/7", True),
        ("/api", "/reports/7", False),
        ("/api", "/apis/reports/7", False),
        ("/", "/reports/7", True),
    ],
)
def test_a_prefix_is_the_mount_point_of_a_server_in_front(
    prefix: str, target: str, is_call: bool
) -> None:
    assert bool(read(line(target), log_prefix=prefix).calls) == is_call


def test_an_operation_of_parameters_or_letters_is_found_too() -> None:
    plan = plan_of(
        {"name": "any", "method": "*", "path": "/{tenant}/{page}"},
        {"name": "size", "method": "GET", "path": "/v1/größe/{id}"},
        {"name": "zero", "method": "GET", "path": "/0/{id}"},
    )
    assert names(read(line("/0/b"), plan=plan)) == ["zero"]
    assert names(read(line("/a/b", method="PUT"), plan=plan)) == ["any"]
    escaped = json.dumps({"t": EPOCH, "m": "GET", "p": "/v1/größe/7"})
    nginx = f'{{"t": {EPOCH}, "m": "GET", "p": "/v1/gr\\xC3\\xB6\\xC3\\x9Fe/\\x227"}}'
    keys = "json:time=t,method=m,target=p"
    for entry in (escaped, json.dumps(json.loads(escaped), ensure_ascii=False), nginx):
        latin = entry.encode().decode("latin-1")
        assert names(read(latin, plan=plan, log_format=keys)) == ["size"]


def test_a_name_beyond_the_limit_is_counted_and_pushes_no_caller_out() -> None:
    lines = [line(agent=f"job/{number}") for number in range(202)]
    reading = read(*lines, line(user="acme"), line(agent="job/1"))
    assert kinds(reading) == {"answered": 204}
    assert len(reading.calls) == 202
    assert {("(other)", "(other)"), ("acme", "curl/8.5.0")} <= set(callers(reading))


def test_calls_are_counted_by_day_with_their_first_and_last_time() -> None:
    times = [f"18/Nov/2026:{hour}:00:00 +0000" for hour in (13, 11, 12)]
    reading = read(*(line(time=time) for time in times), line("/live"))
    (change,) = reading.calls
    hour = timedelta(hours=1)
    assert change.numbers[FIRST_AT] == reading.first_at == to_microseconds(NOON - hour)
    assert change.numbers[LAST_AT] == reading.last_at == to_microseconds(NOON + hour)
    assert reading.lines == 4
    next_day = line(time="19/Nov/2026:00:00:00 +0000")
    assert len(read(line(), next_day).calls) == 2


@pytest.mark.parametrize(
    ("lines", "absence"),
    [
        ([line("/live")] * 1_200, "no line of 1,200 on 18 November matched; a log "),
        (
            [line("/live", time="17/Nov/2026:13:00:00 +0000"), line("/live")],
            "no line of 2 from 17 to 18 November matched; a log cannot show that ",
        ),
        (
            ["?", line(time="1/Jan/2026:00:00:00 +0000")],
            "no line of 2 in the logs is a request of the window",
        ),
    ],
)
def test_what_an_absence_of_calls_means_is_said(lines: list[str], absence: str) -> None:
    assert read(*lines).absence.startswith(absence)


def test_the_days_of_several_months_are_described_with_their_years() -> None:
    reading = LogReading(0, to_microseconds(NOON))
    for at in (NOON - 18 * DAY, NOON):
        reading.include(to_microseconds(at))
    assert "from 31 October 2026 to 18 November 2026" in reading.absence


COMPRESSED = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "nothing": bytes,
}
ENTRY = f"{line()}\n".encode()


@pytest.mark.parametrize("compress", COMPRESSED.values(), ids=COMPRESSED)
def test_compressed_logs_may_follow_each_other_in_a_stream(compress: Any) -> None:
    start = b"\xef\xbb\xbf" + ENTRY if compress is bytes else compress(ENTRY)
    for follower in (bz2.compress(ENTRY), gzip.compress(ENTRY) + bytes(512), ENTRY):
        reading = read_streams(BytesIO(start + follower))
        is_hidden = compress is bytes and follower is not ENTRY
        assert kinds(reading) == {"answered": 1 if is_hidden else 2}
        assert bool(reading.unreadable) == is_hidden


@pytest.mark.parametrize(
    "compress", list(COMPRESSED.values())[:3], ids=list(COMPRESSED)[:3]
)
def test_a_log_that_is_cut_off_or_damaged_is_read_as_far_as_possible(
    tmp_path: Path, compress: Any
) -> None:
    whole = compress(ENTRY * 9)
    (cut := tmp_path / "cut").write_bytes(compress(ENTRY) + whole[:-9])
    (damaged := tmp_path / "damaged").write_bytes(
        compress(ENTRY) + whole[:9] + b"?" * 99
    )
    for path in (cut, damaged):
        reading = read_streams(str(path))
        assert kinds(reading)["answered"] >= 1
        assert reading.unreadable == 1
        assert f"of {path}: " in reading.first_unreadable


class SlowStream(BytesIO):
    """A pipe with one byte at a time."""

    def read(self, _size: int | None = -1) -> bytes:
        return super().read(1)


@pytest.mark.parametrize("compress", COMPRESSED.values(), ids=COMPRESSED)
def test_a_pipe_may_be_slow(compress: Any) -> None:
    assert kinds(read_streams(SlowStream(compress(ENTRY * 2)))) == {"answered": 2}


def test_a_stream_that_does_not_wait_is_an_error() -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    with (
        os.fdopen(writer, "wb"),
        os.fdopen(reader, "rb", 0) as empty,
        pytest.raises(BlockingIOError, match="not wait"),
    ):
        read_streams(empty)


def test_a_very_long_line_is_cut() -> None:
    assert read("x" * 3_000_000, line()).unreadable > 2


def test_folders_and_wildcards_are_read_in_the_order_of_their_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, hour in {"a.log": 11, "b.log": 10, "sub/c.log": 9}.items():
        path = Path("logs", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        entry = line(time=f"18/Nov/2026:{hour:02}:00:00 +0000")
        path.write_text(f"{name}\n{entry}\n", encoding="utf-8")
    Path("logs/.hidden").write_text("hidden", encoding="utf-8")
    Path("logs/empty").touch()
    Path("logs/damaged").write_bytes(b"\x1f\x8b\x08\x00")
    folder = read_streams("logs")
    assert (kinds(folder), folder.unreadable) == ({"answered": 3}, 4)
    assert "of logs/sub/c.log: no time in brackets in 'sub/c" in folder.first_unreadable
    wildcard = read_streams("logs/*.log", Path("logs/a.log"), tmp_path / "logs" / "b*")
    assert kinds(wildcard) == {"answered": 2}
    assert "line 1 of logs/b.log" in wildcard.first_unreadable
    with pytest.raises(FileNotFoundError, match=r"there is no log 'logs/\*\.gz'"):
        read_streams("logs/*.gz")


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"log_format": "("}, "log_format"),
        ({"log_format": "(?P<time>.)"}, "log_format"),
        ({"log_format": "json:time=ts"}, "log_format"),
        ({"log_format": "json:time=ts,target="}, "log_format"),
        ({"log_format": "json:time=ts,target=uri,target=url"}, "log_format"),
        ({"log_format": "json:time=ts,target=uri,host=host"}, "log_format"),
        ({"log_format": 7}, "log_format"),
        ({"log_prefix": "api"}, "log_prefix"),
        ({"log_prefix": "/api?"}, "log_prefix"),
        ({"log_prefix": "/\udcff"}, "log_prefix"),
        ({"log_prefix": 7}, "log_prefix"),
    ],
)
def test_a_wrong_argument_is_named(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(ValueError, match=f"^{argument} must be "):
        read(**options)


PATHS = st.text(
    st.sampled_from("/.reportsREPORTSlatest7;%\u0131\u017f\\#:?v1"), max_size=24
) | st.sampled_from(["/v1/reports", "/reports", "/x/Reports/7", "/reports;x/7"])


@given(path=PATHS)
def test_no_request_that_the_middleware_would_match_is_passed_over(path: str) -> None:
    target = f"/{path.encode().decode('latin-1')}"
    reading = read(line(target.partition("#")[0]))
    expected = OperationTable(PLAN, live=[list(PLAN)[1]])
    sent = unquote(target.partition("#")[0].partition("?")[0], "latin-1")
    matches = expected.find("GET", sent)
    assert bool(reading.calls) == any(
        match.operation.name == "report" for match in matches
    )
