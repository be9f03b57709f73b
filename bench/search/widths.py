"""What lets a command find widths for budgets: PyTorch is imported when the first is asked for."""

from __future__ import annotations

from bench.config.budgets import Asked, use_finder
from bench.config.settings import Configuration


def find_widths() -> None:
    """Let ``models.parameters=N`` and ``models.state_bytes=N`` be met in this process."""
    use_finder(_find)


def _find(configuration: Configuration, asked: Asked) -> int:
    from bench.training.budget import width_for

    return width_for(configuration, asked)
