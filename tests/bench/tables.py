"""Tables of seeds by items: how they are drawn, and what is known of their items."""

import numpy as np

from core.statistics import Items


def chances(generator, p, count, common):
    """That an item is answered right; ``common``: items are easy or hard for all seeds."""
    return generator.beta(4 * p, 4 * (1 - p), count) if common else np.full(count, p)


def answers(generator, of_items, seeds, spread=0.0):
    """Right and wrong answers of seeds to items; ``spread``: of the seeds' own ability."""
    own = 1 + spread * generator.standard_normal((seeds, 1))
    return (generator.random((seeds, len(of_items))) < own * of_items).astype(float)


def items_in(table, drawn=""):
    """Items by the textbook's two-way analysis of variance without repeats, in numpy."""
    seeds, count = table.shape
    columns = table.mean(0)
    residual = table - table.mean(1, keepdims=True) - columns + table.mean()
    shared = (residual**2).sum() / ((seeds - 1) * (count - 1)) / table.size
    return Items(count, columns.var(ddof=1) / count, shared, values=tuple(columns), drawn=drawn)


def seeds_in(table):
    return table.mean(1).tolist()
