"""Where the last position looks (Memory Mosaics, appendix E, Figures 14 to 16)."""

from tasks.attention.task import AttentionOfStories

__all__ = ["AttentionOfStories"]
