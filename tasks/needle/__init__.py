"""Phone books that are asked for a few numbers, read once or twice."""

from tasks.needle.task import Needle

__all__ = ["Needle"]
