"""Linear regression in context, by sequence models and by memories written pair by pair."""

from tasks.in_context_regression.memories import MemoryRegression
from tasks.in_context_regression.task import InContextRegression

__all__ = ["InContextRegression", "MemoryRegression"]
