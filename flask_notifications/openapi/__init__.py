"""OpenAPI documents: from yours to a plan, and a plan into yours.

``reader`` makes the plan, ``writer`` marks the document, and both see it through
``document``. A document is a mapping, as parsers of JSON and YAML return it. Needs the
standard library only; the command line reads files with ``files`` (the extra
``openapi``). Serves no route and validates no request.
"""

from .reader import plan_from_openapi
from .writer import deprecate

__all__ = ["deprecate", "plan_from_openapi"]
