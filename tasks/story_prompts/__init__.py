"""The 24 prompts of Eldan and Li (Memory Mosaics, Tables 4 and 5)."""

from tasks.story_prompts.task import StoryPrompts

__all__ = ["StoryPrompts"]
