"""The commands and the first example of the README work."""

import re
import sys
from pathlib import Path

from tests.servers.process import ROOT, free_port, running

README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_first_example_runs_before_line_thirty() -> None:
    first = README.index("```python")
    assert README[: README.index("```", first + 3)].count("\n") < 30


def test_the_first_example_returns_the_printed_response(tmp_path: Path) -> None:
    (_, code), (_, session), *_ = FENCED.findall(README)
    (tmp_path / "shop.py").write_text(code, encoding="utf-8")
    (tmp_path / "gunicorn.conf.py").write_text("control_socket_disable = True", encoding="utf-8")
    port = free_port()
    gunicorn = [
        sys.executable,
        "-m",
        "gunicorn",
        f"--config={tmp_path}/gunicorn.conf.py",
        f"--chdir={tmp_path}",
        f"--bind=127.0.0.1:{port}",
    ]
    command, _, printed = session.partition("\n")
    target = command.partition("127.0.0.1:8000")[2].rstrip("'")
    with running([*gunicorn, "shop:application"], tmp_path, port) as server:
        response = server.ask("GET", target)
    status, *headers, _, body, _ = printed.split("\n")
    assert status == f"HTTP/1.1 {response.status}"
    assert set(headers) <= {f"{name}: {value}" for name, value in response.headers}
    assert response.body.decode() == body


def test_the_commands_of_the_readme_are_in_the_menu() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\S+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE), target
