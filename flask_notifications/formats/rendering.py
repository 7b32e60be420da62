"""Render templates to HTML.

All values are escaped, and only safe URLs become links.
"""

import re
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from flask_notifications import wording
from flask_notifications.validation import check_uri, require

_templates = Environment(
    loader=PackageLoader("flask_notifications.formats"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_DELIMITERS = re.compile("(?=[/?&])")
# Code in a sentence: a command in backticks, or an option, perhaps with a number.
_CODE = re.compile(r"(`[^`]+`|--[a-z]+(?:-[a-z]+)*(?: [0-9.]+)?)")
# Control characters, except tabs and line feeds, and surrogates.
_NOT_IN_HTML = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def is_link(uri: str | None) -> bool:
    """Return whether a URI reference is safe as a link: http, https or relative.

    Characters that might hide another scheme are not allowed.
    """
    try:
        check_uri("uri", uri)
        return urlsplit(str(uri)).scheme in {"", "http", "https"}
    except ValueError:
        return False


def check_title(title: object) -> None:
    """Check that a title is ``None`` or not blank, as a heading needs words."""
    require(
        title is None or (isinstance(title, str) and title.strip()),
        "title",
        "a string that is not empty",
        title,
    )


def breakable(target: str) -> Markup:
    """Return a path or URI in which lines may break, before its delimiters only."""
    return Markup("<wbr>").join(map(escape, _DELIMITERS.split(target)))


def prose(sentence: str) -> Markup:
    """Return a sentence with its commands and options as code without line breaks."""
    marked = Markup()
    for number, part in enumerate(_CODE.split(sentence)):
        if number % 2:  # split() returns prose and code in turn
            marked += Markup('<code class="nowrap">{}</code>').format(part.strip("`"))
        else:
            marked += part
    return marked


def render(template: str, **values: Any) -> str:
    """Render a template, with control characters and surrogates escaped."""
    document = _templates.get_template(template).render(**values)
    return _NOT_IN_HTML.sub(lambda found: wording.escape(found[0]), document)


_templates.tests["link"] = is_link
_templates.filters["breakable"] = breakable
_templates.filters["prose"] = prose
for _name in (
    "count",
    "duration",
    "iso",
    "long_date",
    "moment",
    "period",
    "relative",
    "short_date",
):
    _templates.filters[_name] = getattr(wording, _name)
