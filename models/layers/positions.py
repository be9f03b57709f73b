"""A learned table of positions, added to the embedded inputs."""

from __future__ import annotations

from torch import Tensor, nn


def add_positions(embedded: Tensor, table: nn.Embedding | None, start: int) -> Tensor:
    """Embeddings (batch, time, width) plus the rows of a learned table (positions, width) from
    ``start`` on; without a table as they are.

    Raises:
        ValueError: a position is past the table.
    """
    if table is None:
        return embedded
    end = start + embedded.shape[1]
    if end > table.num_embeddings:
        raise ValueError(
            f"position {end} is past the table of {table.num_embeddings} learned positions; raise "
            "maximum_length in the specification of the task, or choose positions without a table, "
            "such as positions=none"
        )
    return embedded + table.weight[start:end]
