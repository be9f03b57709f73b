"""What gradient steps on one matrix weigh, and how the weights look."""

from tasks.weighting_schemes.task import WeightingSchemes

__all__ = ["WeightingSchemes"]
