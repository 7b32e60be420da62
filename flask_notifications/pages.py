"""Pages that people read: the migration guide for callers, and the usage report for
operators.

Each is one HTML document without scripts that loads nothing. Knows plans and reports,
and nothing of requests.
"""

from .formats.guide import render_guide
from .formats.usage import render_usage

__all__ = ["render_guide", "render_usage"]
