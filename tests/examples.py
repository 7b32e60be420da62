"""Follow a page of the documentation as its readers do: save its files, run its servers
and its commands.

Sybil executes the blocks in Python. It calls ``follow`` after them, after all other
blocks, and after paragraphs that start a server. A block that cannot be followed fails,
unless ``ELSEWHERE`` has the test that does.
"""

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from unittest.mock import patch

from sybil import Document, Example, Region
from werkzeug.test import Client

from flask_notifications import load_plan
from tests.servers.process import ROOT, free_port, running
from tests.services import program_or_skip, service_or_skip

OF_PAGES = "tests/cli/test_documentation.py::"
# The beginnings of the blocks that tests of their own execute, and of those that nobody
# can, with the reason.
ELSEWHERE = {
    "python -m venv": "it installs a release from an index of packages",
    "make run ": "tests/test_make.py::test_make_run_recovers_from_an_environment_without_pip",
    "$ flask-notifications check https://shop.example/": f"{OF_PAGES}test_a_check_of_production_has_no_findings",
    "$ flask-notifications check https://api.example.com/": f"{OF_PAGES}test_a_check_prints_what_the_page_shows",
    "error: report: ": f"{OF_PAGES}test_a_comparison_prints_what_the_page_shows",
    "name: retirement": "tests/cli/test_plan.py::test_the_documented_line_stops_a_pull_request_that_breaks_a_promise",
    "retirement.toml: operations.0.": f"{OF_PAGES}test_the_errors_of_a_plan_are_those_of_the_page",
    "Deprecation: ": f"{OF_PAGES}test_the_headers_are_those_of_the_page",
    '{\n  "type": ': f"{OF_PAGES}test_a_problem_is_that_of_the_page",
    "groups:": "tests/test_metrics.py::test_promtool_accepts_the_alert_rules_and_they_fire_when_they_should",
    "from importlib": "tests/servers/test_recipes.py::test_the_user_of_a_session_of_django",
    **dict.fromkeys(
        ["location /API/", "map ", "http-request ", "{\n\tlog {"],
        "tests/servers/test_logs.py::test_the_documented_proxy_log_has_all_paths_and_no_session",
    ),
}
# A paragraph, a block with the paragraph before it, or a block.
STEP = re.compile(
    r"(?P<intro>(?:^(?!```)[^\n]+\n)+\n?)?(?:^```(?P<language>[^\n]*)\n(?P<source>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"`([\w/.]+\.(?:ini|py|toml)|Dockerfile)`")
SERVER = re.compile(
    r"`((?:flask --app \w+ run|gunicorn |uvicorn |uwsgi |waitress-serve )[^`]*)`"
)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
LINE = '192.0.2.1 - - [{:%d/%b/%Y:%H:%M:%S} +0000] "GET /reports/7 HTTP/1.1" 200 12 "-" "curl/8.5.0"\n'
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def parse(document: Document) -> Iterator[Region]:
    """Find what a reader does besides executing Python."""
    for step in STEP.finditer(document.text):
        intro, language, source = step.groups("")
        works = (
            FILE.search(intro)
            if language == "python"
            else source and not language.startswith("{")
        )
        if works or SERVER.search(intro):
            yield Region(step.end() - 1, step.end(), step, follow)


def is_slow(example: Example) -> bool:
    """Return whether an example starts a process."""
    step = example.parsed
    return isinstance(step, re.Match) and (
        step["language"] == "" or SERVER.search(step["intro"] or "") is not None
    )


def enter_an_empty_folder(namespace: dict[str, Any]) -> None:
    """Be where the readers of a page are."""
    stack = ExitStack()
    folder = stack.enter_context(TemporaryDirectory())
    stack.enter_context(chdir(folder))
    stack.enter_context(patch("tempfile.tempdir", folder))
    stack.enter_context(patch.dict(os.environ, TMPDIR=folder))
    stack.callback(
        lambda: namespace["recorder"].close() if "recorder" in namespace else None
    )
    namespace |= {"leave": stack.close, "servers": []}


def enter_after_the_quickstart(namespace: dict[str, Any]) -> None:
    """Be where readers are who have followed the README, and who have a document and
    two logs.
    """
    enter_an_empty_folder(namespace)
    for step in STEP.finditer((ROOT / "README.md").read_text(encoding="utf-8")):
        intro, language, source = step.groups("")
        if FILE.search(intro) and language:
            save(intro, language, source)
    Path("wsgi.py").write_text(
        "from shop import app as application\n", encoding="utf-8"
    )
    line = LINE.format(datetime.now(UTC))
    document = {"openapi": "3.1.0", "paths": {"/reports/{id}": {"get": {}}}}
    Path("openapi.json").write_text(json.dumps(document), encoding="utf-8")
    Path("access.log").write_text(line, encoding="utf-8")
    Path("access.log.1.gz").write_bytes(gzip.compress(line.encode()))


def save(intro: str, language: str, source: str) -> None:
    """Save a block in the file that the paragraph before it mentions, or else in that
    of the plan.
    """
    file = Path((FILE.findall(intro) or ["retirement.toml"])[-1])
    file.parent.mkdir(exist_ok=True)
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    if "eplace the last line" in intro:
        source = "".join([*old.splitlines(keepends=True)[:-1], source])
    elif "at the end of" in intro:
        source = old + source
    elif language == "toml" and "deprecated_at" not in source:
        # Keys that replace those of the plan.
        key = source.partition(" ")[0]
        source = re.sub(rf"^{key} = .*\n|\Z", source, old, count=1, flags=re.MULTILINE)
    file.write_text(source, encoding="utf-8")
    if language == "toml":
        load_plan(file)


def follow(example: Example) -> None:
    """Save a block or run its commands, while each server of its paragraph runs, or the
    last one of the page.
    """
    namespace, port = example.namespace, str(free_port())
    intro, language, source = example.parsed.groups("")
    if source.startswith(tuple(ELSEWHERE)):
        return
    commands: list[tuple[str, str]] = []
    servers = SERVER.findall(intro) or namespace["servers"] * (":8000/" in source)
    namespace["servers"] = servers[-1:] or namespace["servers"]
    source = source.replace(":8000", f":{port}").replace("\\\n", "")
    if language == "toml" or (language and FILE.search(intro)):
        save(intro, language, source)
    elif source:
        assert not language, (
            "no test executes this block: save it in a file, or add it to ELSEWHERE"
        )
        commands = COMMAND.findall(source) or [
            (line, "") for line in source.splitlines()
        ]
    if {"application", "recorder"} <= namespace.keys():
        Client(namespace["application"]).get("/reports/7")
        namespace["recorder"].flush()
    for server in servers or [None]:
        with serve(server.replace("8000", port), port) if server else nullcontext():
            for command, output in commands:
                run(command, output)


@contextmanager
def serve(command: str, port: str) -> Iterator[None]:
    """Run a server in the folder of the reader, and call it."""
    program = command.split(maxsplit=1)[0]
    service_or_skip(program, which(program, path=PATH) is not None)
    folder = Path.cwd()
    started = [
        *("env", "--unset=PYTHONPATH", f"--chdir={folder}"),
        f"HOME={folder}",  # of gunicorn's control socket
        f"PATH={PATH}",
        f"FLASK_RUN_PORT={port}",
        f"GUNICORN_CMD_ARGS=--bind=127.0.0.1:{port}",
        f"UVICORN_PORT={port}",
        *("sh", "-c", f"exec {command}"),
    ]
    with running(started, Path(mkdtemp(dir=folder)), int(port)) as server:
        path = "/reports/7"
        if "alerts" in command:
            path = "/API/Notification/?sessionId=s3cret"
        announced = server.ask("GET", path).all("Deprecation")
        assert announced == ["@1767225600"], server.written()
        yield


def run(command: str, output: str) -> None:
    """Run a command, and compare its output with that of the page, unless that is
    another reader's record.
    """
    if command.startswith(("curl", "jq")):
        program_or_skip(command.split(maxsplit=1)[0])
    environ = os.environ | {"PATH": PATH}
    done = subprocess.run(
        ["sh", "-c", command], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == (3 if " usage " in command else 0), (
        f"{command}: {done.stderr}"
    )  # 3: in use
    if command.startswith("curl"):  # servers add headers
        assert {*output.casefold().splitlines()} <= {
            *done.stdout.casefold().splitlines()
        }, done.stdout
    elif " check " in command:
        assert "0 errors, 0 warnings" in done.stdout, done.stdout
    elif output and " usage " not in command:
        assert done.stdout == output
