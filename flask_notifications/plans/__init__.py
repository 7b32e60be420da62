"""What is retired, and when.

Begin with ``plan``: a plan maps each operation to its policy. ``operations`` finds the
operation of a request, with its ``conditions``, ``policy`` computes phases and headers,
and ``files`` reads and writes plans. ``overlaps``, ``mistakes`` and ``changes`` compare
operations, look for errors, and compare two plans.
"""

from .operations import Operation, notification_operations
from .plan import Event, Plan, next_event, schedule
from .policy import Brownout, DeprecationPolicy, Exemption, Phase

__all__ = [
    "Brownout",
    "DeprecationPolicy",
    "Event",
    "Exemption",
    "Operation",
    "Phase",
    "Plan",
    "next_event",
    "notification_operations",
    "schedule",
]
