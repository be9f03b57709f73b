"""Associations learned by gradient steps on a stream of Zipf samples."""

from tasks.optimisation.task import Optimisation

__all__ = ["Optimisation"]
