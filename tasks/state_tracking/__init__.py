"""Word problems of finite groups: which element the product so far is, short and long."""

from tasks.state_tracking.task import StateTracking

__all__ = ["StateTracking"]
