"""Bigram: outputs that follow their trigger within one sequence, among ordinary bigrams."""

from tasks.bigram.task import Bigram

__all__ = ["Bigram"]
