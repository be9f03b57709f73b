"""What the memories of a small transformer hold while it learns the bigram task."""

from tasks.bigram_probes.task import BigramProbes

__all__ = ["BigramProbes"]
