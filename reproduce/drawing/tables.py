"""Tables in Markdown, for reproductions whose original is one.

Example: ``markdown(["model", "loss"], [["GPT2", cell(mean_interval(losses))]])``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.statistics import Mean


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A head, a line below it, and the rows; ends with a line break."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def cell(mean: Mean) -> str:
    """A mean over seeds: "1.494 ± 0.003 (3 seeds)", and how many runs failed."""
    failed = f", {mean.failures} failed" if mean.failures else ""
    if mean.mean is None:
        return f"none{failed}"
    seeds = "one seed" if mean.seeds == 1 else f"{mean.seeds} seeds"
    if mean.interval is None:  # of one seed, or of seeds that all have this number
        return f"{mean.mean:.3f} ({seeds}{failed})"
    half = (mean.interval.high - mean.interval.low) / 2
    return f"{mean.mean:.3f} ± {half:.3f} ({seeds}{failed})"
