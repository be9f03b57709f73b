"""What figures 14, 15 and 16 share: models of one block, by how they know positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bench.records.schema import RunRecord
from ground.statistics import COUNT, Kind
from judging.claims import Claim
from judging.grammar import Measured, Number, Runs, setting
from judging.observations import Read
from pictures.models import label
from pictures.panels import Picture
from reproduce.reproduction import Plan, Reproduction
from reproduce.stories import language
from reproduce.stories.language import GPT2, PAPER, SEEDS

SOURCE = f"{PAPER}, appendix D.4"

MOSAIC, LEARNED, ROPE, ALIBI = "memory_mosaic", "learned", "rope", "alibi"
POSITIONS = {LEARNED: "learned positions", ROPE: "RoPE", ALIBI: "ALiBi"}  # of a transformer
LABELS = {MOSAIC: label(MOSAIC)} | {k: f"{label(GPT2)}, {name}" for k, name in POSITIONS.items()}
# Small presets need more heads than they have by themselves, so that heads can be ranked; with so
# few tokens and one block, the smallest also needs more steps before a head looks anywhere.
SCALE = {
    "smoke": ("models.heads=8", "training.steps=1000"),
    "laptop": ("models.heads=8",),
}


def reproduction(
    title: str,
    source: str,
    kinds: Sequence[str],
    panels: Callable[[Sequence[RunRecord]], Picture],
    claims: Sequence[Claim],
) -> Reproduction:
    """A figure of one-block models of these kinds."""
    chosen = partial(plan, kinds), partial(select, kinds)
    varied = ("models.layers", "models.positions")
    return language.reproduction(
        title, source, *chosen, claims, panels, variant=kind_of, varied=varied
    )


def plan(kinds: Sequence[str], preset: str, seeds: int | None) -> Plan:
    """One-block models of these kinds, one run a seed."""
    models = {kind: (f"models={GPT2}", f"models.positions={kind}") for kind in POSITIONS}
    words = {MOSAIC: (f"models={MOSAIC}",), **models}
    scale = ("models.layers=1", *SCALE.get(preset, ()))
    each = ((words[kind], seed) for seed in range(seeds or SEEDS) for kind in kinds)
    return Plan(tuple(("tasks=attention", *model, *scale, f"seed={n}") for model, n in each))


def kind_of(record: RunRecord) -> str:
    """The positions of a transformer, or the name of a model that has none."""
    return str(setting(record, "models.positions", record.model))


def select(kinds: Sequence[str], records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs of one-block models of these kinds, measured on the same windows."""

    def belongs(record: RunRecord) -> bool:
        shallow = setting(record, "models.layers") == 1
        return record.task == "attention" and shallow and kind_of(record) in kinds

    own = filter(belongs, language.trained(records))
    return language.of_one_corpus(own, lambda record: record.provenance.data.get("windows"))


def of(kind: str) -> Runs:
    """The models of a kind."""
    return Runs(LABELS[kind], "attention", choose=lambda record: kind_of(record) == kind)


def results(records: Sequence[RunRecord], kind: str) -> list[RunRecord]:
    """The runs of a kind that have a result, by seed; the heads of the first are drawn."""
    return of(kind).finished(records)


def measured(
    kind: str, name: str, read: str | Read, of_kind: Kind = COUNT, diverged: float | None = None
) -> Measured:
    """A number of the models of a kind, mean over heads. Most are from 0 on, without an upper end,
    so that a run that gave none may have had any."""
    return Number(name, read, of_kind, diverged=diverged).of(of(kind), f"{LABELS[kind]}, {name}")
