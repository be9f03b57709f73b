"""Factual recall: a subject and a relation among noise, and the answer that they have."""

from tasks.factual_recall.task import FactualRecall

__all__ = ["FactualRecall"]
