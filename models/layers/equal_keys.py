"""Equal keys found exactly, in a batch of tables with rows of their own number.

Tables of a batch differ in their number of rows, so they are padded: a mask or a count of 0 marks
rows that are not there.
"""

from __future__ import annotations

import torch
from torch import Tensor

BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def groups(keys: Tensor, there: Tensor) -> Tensor:
    """Which rows of a table are equal.

    Args:
        keys: (*batch, rows, size), any float type.
        there: bool (*batch, rows), False for padding, which equals no row that is there.

    Returns:
        int64 (*batch, rows): the same number for equal rows of the same table, else different
        ones, all below the number of rows of the whole batch.
    """
    rows, size = keys.shape[-2:]
    bits = (keys.detach() + 0.0).contiguous().view(BITS[keys.element_size()])  # -0.0 equals 0.0
    flat = bits.reshape(-1, size).long()
    table = torch.arange(len(flat), device=keys.device) // rows
    # Table and padding come first, so that rows of other tables, or not there, differ.
    marked = torch.cat((table[:, None], there.reshape(-1, 1), flat), 1)
    _, inverse = torch.unique(marked, dim=0, return_inverse=True)
    return inverse.reshape(there.shape)


def first(group: Tensor) -> Tensor:
    """bool (*batch, rows): whether no earlier row has the same number (of ``groups``)."""
    return _extreme(group, "amin")


def latest(group: Tensor) -> Tensor:
    """bool (*batch, rows): whether no later row has the same number (of ``groups``)."""
    return _extreme(group, "amax")


def _extreme(group: Tensor, which: str) -> Tensor:
    position = torch.arange(group.shape[-1], device=group.device).expand_as(group)
    # Groups are numbered over the whole batch: one flat table holds the answers of all of them.
    extremes = torch.zeros_like(group).flatten()
    extremes.scatter_reduce_(0, group.flatten(), position.flatten(), which, include_self=False)
    return extremes[group] == position


def packed(kept: Tensor) -> tuple[Tensor, Tensor]:
    """Where the kept rows lie, in order and without gaps.

    Args:
        kept: bool (*batch, rows).

    Returns:
        int64 index (*batch, most) into rows, with ``most`` the largest number kept of any table,
        and bool (*batch, most): False for padding.
    """
    number = kept.sum(-1, keepdim=True)
    most = int(number.max())
    # A stable sort of 0 before 1: the rows that are kept come first, in their order.
    index = torch.argsort((~kept).to(torch.uint8), dim=-1, stable=True)[..., :most]
    return index, torch.arange(most, device=kept.device) < number


def rows_of(table: Tensor, index: Tensor) -> Tensor:
    """(*batch, rows, size) and (*batch, chosen) -> (*batch, chosen, size)."""
    return table.gather(-2, index[..., None].expand(*index.shape, table.shape[-1]))
