"""Make docs/compatibility.md from docs/compatibility.toml; with ``--check``, say only whether it is up to date."""

import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
DATA, PAGE = DOCS / "compatibility.toml", DOCS / "compatibility.md"
WORKS = {"yes": "works", "line": "needs a line", "no": "does not work"}

INTRODUCTION = """\
# What works

Each row was tried with the version that it names. Where a test shows it, the row names the test, and every run of the
tests tries it again. The other rows were tried by hand: small and large responses, `HEAD`, both operations. For
servers, the table also says what keeps session IDs out of their logs. For monitoring, everything that a tool sends or
stores was searched for them. Applications were sent the same requests with the middleware and without it.

<!-- Made by `python docs/compatibility.py` from docs/compatibility.toml. -->
"""


def check_row(name: str, row: dict[str, str]) -> None:
    """Refuse a row that says too little, or that names a test that is not there."""
    if not {"version", "works"} <= row.keys() <= {"version", "works", "set", "test"} or row["works"] not in WORKS:
        sys.exit(f"{name}: expected version, works ({', '.join(WORKS)}), and at most set and test")
    if row["works"] != "yes" and "set" not in row:
        sys.exit(f"{name}: expected what to set, or what happens")
    file, _, function = row.get("test", "").partition("::")
    if file and not (DOCS.parent / file).is_file():
        sys.exit(f"{name}: there is no {file}")
    if function and f"def {function}(" not in (DOCS.parent / file).read_text():
        sys.exit(f"{name}: there is no {function} in {file}")


def render_row(name: str, row: dict[str, str]) -> str:
    """Return a line of a table."""
    check_row(name, row)
    shown_by = f"`{row['test']}`" if "test" in row else "by hand"
    return f"| {name} | {row['version']} | {WORKS[row['works']]} | {row.get('set', '')} | {shown_by} |"


def render(tables: dict[str, dict[str, dict[str, str]]]) -> str:
    """Return the page."""
    lines = [INTRODUCTION]
    for title, rows in tables.items():
        lines += [f"## {title}", "", "| | version tried | | what to set | shown by |", "|---|---|---|---|---|"]
        lines += [render_row(name, row) for name, row in rows.items()]
        lines += [""]
    return "\n".join(lines)


if __name__ == "__main__":
    page = render(tomllib.loads(DATA.read_text()))
    if "--check" not in sys.argv:
        PAGE.write_text(page)
    elif PAGE.read_text() != page:
        sys.exit("docs/compatibility.md is not up to date: run `python docs/compatibility.py`")
