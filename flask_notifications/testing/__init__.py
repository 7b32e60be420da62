"""For your own tests: a storage in memory, tests for your storage, a check of plans.

They use plain asserts and no test framework, so ``StorageContract`` runs under pytest
and any other runner that calls its methods.
"""

from .assertions import assert_plan_reaches
from .contract import StorageContract
from .storage import MemoryStorage

__all__ = ["MemoryStorage", "StorageContract", "assert_plan_reaches"]
