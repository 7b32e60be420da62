"""OpenAPI documents: from yours to a plan, and a plan into yours.

``reader`` makes the plan, ``writer`` marks the document, and both read it through
``document``. A document is a mapping, as parsers of JSON and YAML return it, so these
modules need only the standard library. The command line reads files with ``files``,
which needs the extra ``openapi``. Nothing here serves a route or validates a request.
"""

from .reader import plan_from_openapi
from .writer import deprecate

__all__ = ["deprecate", "plan_from_openapi"]
