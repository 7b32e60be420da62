"""For your own tests: a storage in memory, the tests that any storage must pass, and a
check of plans.

Plain asserts, no test framework: ``StorageContract`` runs under pytest and under
anything else that calls its methods.
"""

from .assertions import assert_plan_reaches
from .contract import StorageContract
from .storage import MemoryStorage

__all__ = ["MemoryStorage", "StorageContract", "assert_plan_reaches"]
