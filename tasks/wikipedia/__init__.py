"""Models of stories on encyclopedia text, by position (Memory Mosaics, section 7, Figure 8)."""

from tasks.wikipedia.task import Wikipedia

__all__ = ["Wikipedia"]
