"""Where the last position looks (Memory Mosaics, appendix D.4, Figures 14 to 16)."""

from tasks.attention.task import AttentionOfStories

__all__ = ["AttentionOfStories"]
