"""Memorising while being used: the task ``test_time_memory``."""

from tasks.test_time_memory.task import TestTimeMemory

__all__ = ["TestTimeMemory"]
