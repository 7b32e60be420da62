"""How the pages are built: `make docs`."""

from importlib import metadata
from typing import Any

from docutils import nodes
from sphinx import addnodes

REPOSITORY = "https://github.com/flask-notifications/flask-notifications"

project = "Flask-Notifications"
copyright = "2026, the Flask-Notifications maintainers"  # noqa: A001 - the name that Sphinx reads
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click", "sphinx_copybutton"]
exclude_patterns = ["_build", "_diagrams"]

html_theme = "furo"
version = metadata.version("Flask-Notifications")
html_title = f"Flask-Notifications {version}"
html_baseurl = "https://flask-notifications.readthedocs.io/en/stable/"
html_static_path = ["_static"]
html_css_files = ["own.css"]
html_theme_options = {
    "source_repository": REPOSITORY,
    "source_branch": "main",
    "source_directory": "docs/",
    "top_of_page_buttons": [],
    "footer_icons": [
        {"name": "Repository", "url": REPOSITORY, "html": "Repository"},
    ],
    "light_css_variables": {
        "color-brand-primary": "#0f5e7a",
        "color-brand-content": "#0f5e7a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6cc5e3",
        "color-brand-content": "#6cc5e3",
    },
}
html_show_sphinx = False
smartquotes = False
pygments_dark_style = "github-dark"
highlight_language = "text"
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"

autodoc_default_options = {"members": True, "imported-members": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
python_use_unqualified_type_names = True
add_module_names = False

myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]  # pictures for the light and the dark mode

# Every reference must resolve, except to names of other packages: their documentation
# is not at hand offline.
nitpicky = True
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(collections|contextlib|datetime|flask|logging|marshmallow|opentelemetry|os|prometheus_client|sqlalchemy|typing|wsgiref)\..*",
    ),
    (
        "py:class",
        r"(flask_notifications\.serving\.records\.)?Schema",
    ),  # the part of marshmallow's that is called
    ("py:class", "Plan"),
    ("py:class", "flask_notifications.plans.policy.Window"),
    ("py:class", "flask_notifications.serving.storage.Caller"),  # a type variable
]


def skip_member(
    _app: Any, _kind: str, name: str, member: object, *_others: object
) -> bool | None:
    """Leave out what the page says elsewhere.

    Attributes of named tuples are parameters, and two storages define the methods of
    the protocol.
    """
    is_alias = str(member.__doc__).startswith("Alias for field")
    owner = getattr(member, "__qualname__", "").partition(".")[0]
    is_repeated = owner in {"MemoryStorage", "SQLAlchemyStorage"} and owner != name
    is_test = name.startswith("test_")  # of StorageContract
    return True if is_alias or is_repeated or is_test else None


def fold_objects(_app: Any, document: nodes.document, page: str) -> None:
    """Fold the objects of the Python page, so that it fits a few screens.

    The first paragraph of each stays visible.
    """
    if page != "python":
        return
    start = "<details><summary>Details</summary>"
    for described in document.findall(addnodes.desc):
        content = described[-1]
        if len(content) > 1 and not isinstance(described.parent, addnodes.desc_content):
            content.insert(1, nodes.raw("", start, format="html"))
            content.append(nodes.raw("", "</details>", format="html"))


def setup(app: Any) -> None:
    """Register the functions above with Sphinx."""
    app.connect("autodoc-skip-member", skip_member)
    app.connect("doctree-resolved", fold_objects)
