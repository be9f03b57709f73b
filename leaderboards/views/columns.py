"""How the columns of sortable tables are written, in the app and in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leaderboards.render import count, quantity

COMPACT, SEPARATED = "compact", "localized"  # 1.2 M, and 1,200,000
FORMATS: Mapping[str, str] = {
    **dict.fromkeys(("score", "low", "high"), "%.4f"),
    **dict.fromkeys(("value", "board", "again"), "%.6f"),
    **dict.fromkeys(("difference", "mean difference", "largest difference"), "%.2g"),
    "p": "%.2g",
    **dict.fromkeys(("training FLOPs", "state bytes"), COMPACT),
    **dict.fromkeys(("parameters", "steps", "peak memory"), SEPARATED),
    "seconds": "%.1f",
}
LINKS = ("record", "table", "open")
MISSING = "–"


def columns(lines: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> list[str]:
    """The columns of a table: those in ``first`` that it has, then all others."""
    names: dict[str, None] = {}
    for line in lines:
        names |= dict.fromkeys(line)
    return [*(key for key in first if key in names), *(key for key in names if key not in first)]


def cell_text(column: str, value: Any) -> str:
    """A cell as a reader sees it."""
    if value is None:
        return MISSING
    if not isinstance(value, int | float):
        return str(value)
    form = FORMATS.get(column, "%.6g" if isinstance(value, float) else "%d")
    if form == COMPACT:
        return quantity(value)
    return count(round(value)) if form == SEPARATED else form % value
