"""What stands around every picture: the seeds and scale of its runs, and each run that failed.

Example: ``framed(picture, records, view, note="Corpus: ...")`` is the picture with "seeds 0–4 ·
measured here at preset smoke — not the paper's scale" below its title.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

from bench.config.groups import PRESETS
from bench.records.schema import RunRecord
from reproduce.claims.observations import how_it_ended
from reproduce.plotting.panels import Picture


@dataclass(frozen=True)
class View:
    """What a drawing must say about where its records come from."""

    preset: str
    overrides: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The preset and whatever was changed in it."""
        return " ".join([self.preset, *self.overrides])

    @property
    def folder(self) -> str:
        """A folder name; changed settings never overwrite those of the preset."""
        return re.sub(r"[^\w.,=+-]", "_", "+".join([self.preset, *self.overrides]))


def framed(picture: Picture, records: Sequence[RunRecord], view: View, note: str = "") -> Picture:
    """The picture with everything that its records say of themselves; what it says stays."""
    trained = [record for record in records if record.role != "baseline"]
    return replace(
        picture,
        subtitle=picture.subtitle or subtitle(trained, view),
        note=picture.note or note,
        foot=picture.foot or failures(trained),
    )


def subtitle(records: Sequence[RunRecord], view: View) -> str:
    """Such as "seeds 0–4 · measured here at preset smoke, not the paper's scale"."""
    seeds = sorted({record.seed for record in records})
    starts = max((record.config["training"].get("restarts", 1) for record in records), default=1)
    restarts = f" (best of {starts} starts by training loss)" if starts > 1 else ""
    # A single trial is no choice.
    trials = sorted({record.cost.tuning_trials for record in records} - {0, 1})
    spent = "–".join(str(number) for number in dict.fromkeys([*trials[:1], *trials[-1:]]))
    tuned = f" (each model tuned with {spent} trials on validation)" if trials else ""
    if trials and view.preset == PRESETS[0]:  # the words of the claims that it judges
        tuned = f" (each model at the best of {spent} trials; smoke tunes nothing)"
    scale = "" if view.preset == "paper" else " — not the paper's scale"
    preset = shorten(view.name, 60, placeholder=" …")  # the folder and the verdicts have it whole
    return f"{seed_names(seeds)}{restarts}{tuned} · measured here at preset {preset}{scale}"


def seed_names(seeds: Sequence[int]) -> str:
    """ "seed 3", "seeds 0–4", "seeds 0, 2, 5", "without training"."""
    if not seeds:
        return "without training"
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]}–{seeds[-1]}"
    return "seeds " + ", ".join(map(str, seeds))


def failures(records: Sequence[RunRecord], at_most: int = 6) -> list[str]:
    """One clause for each run without a result, with what tells its task's settings from those of
    the task's other runs, and how many more there are."""
    lost = [record for record in records if record.outcome != "ok"]
    clauses = []
    for record in lost[:at_most]:
        tasks = [other.config["tasks"] for other in records if other.task == record.task]
        details = []
        for key in sorted(set().union(*tasks) - {"data_seed"}):
            if any(task.get(key) != tasks[0].get(key) for task in tasks):
                details.append(f"{key}={record.config['tasks'].get(key)}")
        name = f"{record.label} ({', '.join(details)})" if details else record.label
        clause = f"{name} seed {record.seed} {how_it_ended(record)}"
        clauses.append(shorten(clause, 150, placeholder="…"))
    if len(lost) > at_most:
        clauses.append(f"and {len(lost) - at_most} more")
    return clauses
