"""How the pages are built: `make docs`."""

project = "Flask-Notifications"
copyright = "2026, the Flask-Notifications maintainers"  # noqa: A001 - the name that Sphinx reads
extensions = ["myst_parser", "sphinx.ext.autodoc", "pallets_sphinx_themes"]
html_theme = "flask"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = False
