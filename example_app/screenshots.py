"""Pictures of both pages for the documentation: ``make screenshots``, with Chromium.

The same each time.
"""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from .demo import make_demo

_DOCS = Path(__file__).parents[1] / "docs"
_NOW = datetime(2026, 11, 20, 16, tzinfo=UTC)
# The operation of docs/retire.md, whose dates are those of the demonstration.
_OPERATION = """
[[operations]]
name = "report"
method = "GET"
path = "/reports/{id}"
successor = "/v2/reports/{id}"
"""
_BROWNOUTS_ONLY = """<style>
.page > header, .verdicts, .operation ~ .operation, footer, .operation > :not(#brownouts-1, #brownouts-1 ~ *)
{ display: none; }
</style></head>"""
# Each picture: the page, the day that it shows, the end of its head, the width and the
# height in pixels.
_PICTURES = {
    "guide": ("guide.html", _NOW, "</head>", 1120, 1150),
    "usage": ("usage.html", _NOW, "</head>", 1120, 1380),
    "brownouts": ("usage.html", _NOW, _BROWNOUTS_ONLY, 1120, 850),
    "sunset": ("guide.html", _NOW + timedelta(days=31), "</head>", 1120, 300),
}
# When a page is dark: in the second picture always.
_MEDIA = {"": "not all", "-dark": "all"}
_OPTIONS = (
    "--headless",
    "--no-sandbox",  # the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def take_screenshots() -> None:
    """Replace the pictures in the documentation."""
    program = which("chromium") or which("chromium-browser") or which("google-chrome")
    if program is None:
        sys.exit("Chromium is needed")
    with TemporaryDirectory() as folder:
        for picture, (page, day, head, width, height) in _PICTURES.items():
            make_demo(Path(folder), _NOW, shown=day, operations=_OPERATION)
            file = Path(folder, page)
            content = file.read_text(encoding="utf-8").replace("</head>", head)
            for suffix, media in _MEDIA.items():
                shown = content.replace(
                    "screen and (prefers-color-scheme: dark)", media
                )
                file.write_text(shown, encoding="utf-8")
                _take(program, file, _DOCS / f"{picture}{suffix}.png", width, height)


def _take(program: str, page: Path, picture: Path, width: int, height: int) -> None:
    """Save a picture of a page."""
    command = [
        program,
        *_OPTIONS,
        f"--user-data-dir={page.parent}/profile",
        f"--window-size={width},{height}",
        f"--screenshot={picture}",
        page.as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)  # noqa: S603 - the program is found above


if __name__ == "__main__":
    take_screenshots()
