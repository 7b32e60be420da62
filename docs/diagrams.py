"""Draw the diagrams of the documentation: `python docs/diagrams.py` writes docs/_diagrams/*.svg.

They are put into the pages as they are, so that they take their colours from the page, in light and in dark mode.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent / "_diagrams"
HEAD = """<div class="diagram"><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
aria-label="{label}">
<defs><marker id="{name}-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0 8 4 0 8z" class="tip"/></marker></defs>
"""
FOOT = "</svg></div>\n"


def text(x: int, y: int, words: str, kind: str = "") -> str:
    """Return words at a place."""
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>\n'


def box(x: int, y: int, width: int, height: int, *lines: str, kind: str = "") -> str:
    """Draw a box with a title and lines below it."""
    first = y + height // 2 + 5 - 10 * (len(lines) - 1)
    middle = x + width // 2
    words = [text(middle, first + 20 * index, line, "note" if index else "") for index, line in enumerate(lines)]
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" class="{kind}"/>\n' + "".join(words)


def arrow(name: str, *points: tuple[int, int]) -> str:
    """Return an arrow along some points."""
    way = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline points="{way}" marker-end="url(#{name}-head)"/>\n'


def draw_request() -> str:
    """Draw how a request travels: past the middleware, through it, or not at all."""
    name = "request"
    label = (
        "A request reaches the server and then the middleware. A request that matches no operation goes to your "
        "application untouched. A matched request goes to your application, and its response gets the Deprecation, "
        "Sunset and Link headers. During a brownout and after an enforced sunset the middleware responds with 410 "
        "itself. Observers get one Call for each matched request."
    )
    return "".join(
        [
            HEAD.format(name=name, width=440, height=420, label=label),
            box(120, 10, 200, 48, "Client"),
            arrow(name, (170, 60), (170, 116)),
            text(120, 94, "request", "note"),
            arrow(name, (270, 118), (270, 62)),
            text(325, 94, "response", "note"),
            box(20, 120, 400, 130, kind="own"),
            text(220, 148, "DeprecationMiddleware"),
            text(220, 178, "no match: passes untouched", "note"),
            text(220, 203, "match: the response gets the headers", "note"),
            text(220, 228, "closed: responds 410 itself", "note"),
            arrow(name, (90, 252), (90, 326)),
            text(50, 294, "request", "note"),
            arrow(name, (170, 328), (170, 254)),
            text(218, 294, "response", "note"),
            box(20, 330, 220, 80, "Your application", "Flask, Django, any WSGI"),
            arrow(name, (350, 252), (350, 326)),
            text(385, 294, "one Call", "note"),
            box(280, 330, 140, 80, "Observers", "who still calls", kind="quiet"),
            FOOT,
        ]
    )


class Step(NamedTuple):
    """A point of the timeline."""

    date: str
    name: str
    effect: str
    is_closed: bool = False


STEPS = (
    Step("deployment", "Announced", "200, with the dates in the headers"),
    Step("1 Jan 2026", "Deprecated", "200, with the dates in the headers"),
    Step("4 May 2027", "Brownout, 15 minutes", "410 with Retry-After, then 200 again", is_closed=True),
    Step("1 Jun 2027", "Brownout, one day", "410 with Retry-After, then 200 again", is_closed=True),
    Step("1 Jul 2027", "Sunset, if enforced", "410 for good", is_closed=True),
)


def draw_timeline() -> str:
    """Draw the timeline of a retirement, with what a request gets at each time."""
    label = "A timeline. " + " ".join(f"{step.date}: {step.name}. {step.effect}." for step in STEPS)
    height = 70 * len(STEPS)
    return "".join([HEAD.format(name="timeline", width=440, height=height, label=label), *_timeline(), FOOT])


def _timeline() -> Iterator[str]:
    last = 70 * len(STEPS) - 40
    yield f'<line x1="130" y1="30" x2="130" y2="{last}" class="works"/>\n'
    for index, step in enumerate(STEPS):
        y = 30 + 70 * index
        yield f'<circle cx="130" cy="{y}" r="9" class="{"closed" if step.is_closed else "point"}"/>\n'
        yield text(108, y + 5, step.date, "note end")
        yield text(155, y + 5, step.name, "start")
        yield text(155, y + 27, step.effect, "note start")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "request.svg").write_text(draw_request(), encoding="utf-8")
    (FOLDER / "timeline.svg").write_text(draw_timeline(), encoding="utf-8")
