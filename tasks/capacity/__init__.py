"""Capacity: how many associations a memory recalls, by its width and its size."""

from tasks.capacity.task import Capacity

__all__ = ["Capacity"]
