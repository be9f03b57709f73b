"""Language modelling on tiny stories (Memory Mosaics, section 7)."""

from tasks.babistories.task import BabiStories

__all__ = ["BabiStories"]
