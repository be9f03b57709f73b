"""A page of what would decide each claim that is open or not asked."""

from __future__ import annotations

from collections.abc import Sequence

from core.escaping import markdown_code
from reproduce.drawing.tables import markdown
from reproduce.planning.console import in_hours
from reproduce.planning.cost import RATES
from reproduce.planning.experiments import DecidingRuns

COMMAND = "python -m reproduce evidence preset={preset} dry_run=true page={path}"


def page_of(experiments: Sequence[DecidingRuns], preset: str, path: str) -> str:
    """Markdown: a row for each claim, with the command that would decide it and its cost.

    Args:
        path: the file's own, as the command names it.
    """
    command = markdown_code(COMMAND.format(preset=preset, path=path))
    rows = []
    for experiment in experiments:
        decides = ", ".join(filter(None, (_command(experiment), experiment.closed))) or "no plan"
        cost = "" if experiment.cost is None else in_hours(experiment.cost, experiment.on_gpu)
        rows.append([experiment.figure, experiment.claim, experiment.verdict, decides, cost])
    return (
        f"# What would decide each open claim\n\nAt preset `{preset}`, by the committed records. "
        f"Made by {command}.\n\nA command makes the runs that the claim's figure misses; whether "
        "these decide the claim is not known before. FOLDER is where the files of a corpus lie on "
        f"your machine.\n{RATES}\n\n"
        + markdown(["figure", "claim", "verdict", "what would decide it", "cost"], rows)
    )


def _command(experiment: DecidingRuns) -> str:
    return markdown_code(f"python -m reproduce {experiment.words}") if experiment.words else ""
