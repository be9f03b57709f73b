"""The six synthetic tasks of mechanistic architecture design (MAD)."""

from tasks.mad.task import Mad

__all__ = ["Mad"]
