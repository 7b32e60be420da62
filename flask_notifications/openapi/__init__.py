"""OpenAPI: a document of your application to a plan, and a plan to a document (the
extra ``openapi``).

A document is a mapping, as parsers of JSON and YAML return it. Serves no route and
validates no request.
"""

from .reader import plan_from_openapi
from .writer import openapi_document

__all__ = ["openapi_document", "plan_from_openapi"]
