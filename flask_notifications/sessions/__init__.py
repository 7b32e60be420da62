"""Find the session of a request, and keep its ID out of logs and URLs.

Begin with ``credential``, which finds the session. ``redaction`` masks session IDs in
the environ and in logs, and ``redirects`` keeps the session of a redirected request.
"""

from .credential import SessionCredential, SessionRefused, session_of
from .redaction import SessionLogFilter

__all__ = ["SessionCredential", "SessionLogFilter", "SessionRefused", "session_of"]
