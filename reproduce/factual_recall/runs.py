"""The runs of factual recall by part of the task, and what their records say."""

from __future__ import annotations

from collections.abc import Sequence

from bench.records.schema import RunRecord
from ground.statistics import LEVEL
from judging.grammar import Records, Runs, setting
from judging.observations import latest
from judging.regression import Proportion, fit_proportion
from reproduce.reproduction import Plan

TASK = "factual_recall"
DIAGRAM, SEARCH, PHASES = "phase_diagram", "facts_by_parameters", "phases"
# Plateaus and what one head alone recalls differ much between seeds: three leave wide intervals.
SEEDS = {"smoke": 2, "laptop": 8, "gpu": 3, "paper": 5}
# Few seeds cannot show what holds in every seed, and a run of the phases takes seconds.
PHASE_SEEDS = SEEDS | {"gpu": 6, "paper": 6}

DIAGRAMS, LEARNED = (
    Runs(label, TASK, settings={"tasks.part": part})
    for label, part in (("the diagram", DIAGRAM), ("the phases", PHASES))
)
LARGE = DIAGRAMS.but("the diagram of 32 × 32 facts", {"tasks.subjects": 32, "tasks.relations": 32})
SMALL = DIAGRAMS.but(
    "the diagram of 8 × 8 facts with one head and an MLP of width 64",
    {"tasks.subjects": 8},
    choose=lambda r: 1 in setting(r, "tasks.heads") and 64 in setting(r, "tasks.mlp_widths"),
)
# As published, S = R and D = 8; the variants are other tasks.
SEARCHES = Runs(
    "the search",
    TASK,
    settings={"tasks.part": SEARCH, "tasks.subject_power": 1, "tasks.search_choices": 8},
)


def plan(preset: str, seeds: int | None) -> Plan:
    """The diagram and the phases with several seeds, the search with one."""
    planned = [
        (f"tasks={TASK}", f"models={model}", f"tasks.part={part}", f"seed={seed}")
        for model, part, count in (
            ("fact_transformer", DIAGRAM, SEEDS[preset]),
            ("one_hot_attention", PHASES, PHASE_SEEDS[preset]),
            ("fact_transformer", SEARCH, int(preset != "smoke")),
        )
        for seed in range(seeds or count if count else 0)
    ]
    return Plan(runs=tuple(planned))


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """All runs of the task, the last made of each setting."""
    runs = [record for record in records if record.task == TASK]
    return latest(runs, key=lambda r: (r.model, r.role, r.seed, r.label, variant(r)))


def variant(record: RunRecord) -> str:
    """The part of the task and its settings."""
    return repr(sorted(record.config["tasks"].items()))


def searches(records: Records, steps: int = 0) -> list[RunRecord]:
    """The searches whose trainings had so many steps."""
    return [r for r in filter(SEARCHES.has, records) if setting(r, "tasks.steps", 0) >= steps]


def fit_of(runs: Records, level: float = LEVEL) -> Proportion | None:
    """Facts for each parameter over the sizes of all runs; None where nothing was measured."""
    parameters, facts = (
        [value for run in runs for value in run.arrays.get(name, [])]
        for name in ("parameters", "facts")
    )
    return fit_proportion(parameters, facts, level) if parameters else None


def described(fit: Proportion, runs: Records) -> str:
    """Such as "0.103, 95% interval 0.092 to 0.115 (6 searches, 1 seed)"."""
    found = sum(len(run.arrays.get("parameters", [])) for run in runs)
    seeds = len({run.seed for run in runs})
    return f"{fit} ({found} searches, {seeds} seed{'s' if seeds > 1 else ''})"
