"""Formulas for PyTorch's FLOP counter where it has none: linear systems, distances, attention.

A multiplication and an addition are two. Golub and Van Loan, Matrix Computations (4th edition,
2013): sections 3.1 (triangular systems), 3.2 (LU) and 4.2 (Cholesky), leading terms.
"""

from __future__ import annotations

import math
from typing import Any

import torch


def solving(size: int, columns: int, batch: int = 1) -> int:
    """LU factorisation, 2/3 n³, and two triangular systems for each column, 2 n²."""
    return batch * (2 * size**3 // 3 + 2 * size**2 * columns)


def cholesky(size: int, batch: int = 1) -> int:
    """Cholesky factorisation, n³/3."""
    return batch * size**3 // 3


def triangular(size: int, columns: int, batch: int = 1) -> int:
    """One triangular system for each column, n²."""
    return batch * size**2 * columns


def formulas() -> dict[Any, Any]:
    """Operator -> its FLOPs as a function of shapes, for ``FlopCounterMode(custom_mapping=…)``."""
    from torch.utils.flop_counter import sdpa_flop_count

    def solved(a: Any, b: Any, *_: Any, left: bool = True, **__: Any) -> int:
        # Of the shapes alone: the counter hands over sizes, not tensors.
        return solving(a[-1], *_columns(a, b, left))

    def triangle(a: Any, b: Any, *_: Any, left: bool = True, **__: Any) -> int:
        return triangular(a[-1], *_columns(a, b, left))

    def factor(a: Any, *_: Any, **__: Any) -> int:
        return cholesky(a[-1], math.prod(a[:-2]))

    def by_factor(b: Any, a: Any, *_: Any, **__: Any) -> int:
        return 2 * triangular(a[-1], *_columns(a, b, left=True))

    def attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
        return int(sdpa_flop_count(query, key, value))

    def distances(x: Any, y: Any, *_: Any, **__: Any) -> int:
        return 2 * math.prod(x) * y[-2]  # the matrix product that they are at heart

    operators: Any = torch.ops.aten
    return {
        operators._linalg_solve_ex: solved,
        operators.linalg_solve_triangular: triangle,
        operators.linalg_cholesky_ex: factor,
        operators.cholesky_solve: by_factor,
        operators._scaled_dot_product_flash_attention_for_cpu: attention,
        operators._cdist_forward: distances,
    }


def _columns(a: Any, b: Any, left: bool) -> tuple[int, int]:
    """Columns (rows for X A = B) of the right-hand side, and how many systems."""
    # b of one dimension less than a is one right-hand side for each system.
    if len(b) == len(a) - 1:
        return 1, math.prod(a[:-2])
    return (b[-1] if left else b[-2]), math.prod(a[:-2])
