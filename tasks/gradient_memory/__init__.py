"""One gradient step writes an associative memory."""

from tasks.gradient_memory.task import GradientMemory

__all__ = ["GradientMemory"]
