"""A language model that is asked with what a memory recalls: ``memory_in_the_loop``."""

from tasks.memory_in_the_loop.task import MemoryInTheLoop

__all__ = ["MemoryInTheLoop"]
