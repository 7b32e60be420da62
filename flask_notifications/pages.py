"""Pages for people: the migration guide for callers, the usage report for operators.

Each is one HTML document without scripts that loads nothing. This module knows plans
and reports, but no requests.
"""

from .formats.guide import render_guide
from .formats.usage import render_usage

__all__ = ["render_guide", "render_usage"]
