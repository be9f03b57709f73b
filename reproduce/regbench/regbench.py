"""What figure 9 and table 3 share: sweeps on RegBench, their records by model and size, published
numbers.

Orderings are judged at every preset. Levels are judged on the published languages only: how much
can be learned at all depends on the length of strings and on the size of automata.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from bench.config.groups import PRESETS, contenders, default_models
from bench.records.schema import RunRecord
from reproduce.claims.grammar import Number, Ready, Records, Rule, Runs, each, setting, where
from reproduce.experiment import Sweep, any_of
from reproduce.plotting import models

PAPER = "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394)"
MOSAIC = "memory_mosaic"
# What the paper calls a model, where its label here is another. Published numbers stand beside the
# model as its code was released and beside the repaired one, which says what is repaired.
PUBLISHED_LABELS = {
    "gpt2": "Transformer",
    "s4d": "S4",
    "s4d_as_released": "S4",
    "rwkv4_as_released": "RWKV",
}
AS_RELEASED = " (as released)"
METRICS = {"accuracy": "accuracy", "tvd": "total variation distance"}
# What a level is compared on; both ends of the ranges are included.
PUBLISHED_LANGUAGES = {
    "states": [4, 12],
    "alphabet": [4, 18],
    "out_degree": [1, 3],
    "strings": [10, 19],
    "string_length": [1, 49],
}
VARIED = ("tasks.training_automata", "tasks.variant", "tasks.protocol")
WORST = {"accuracy": 0.0, "tvd": 1.0}
# Where the steps of a preset are too few for every contender to stop improving.
LONGER = {("laptop", size): 800 for size in (100, 500, 1000, 2500)}
# For who has not stopped improving after these; on new automata for the Mosaic and the one rival
# that is near it, over every rate that the others tried there.
MORE_STEPS: Mapping[tuple[str, int, str], Mapping[str, int]] = {
    ("laptop", 100, "iid"): {
        MOSAIC: 2400,
        **dict.fromkeys(("hyena", "linear_transformer", "rwkv4"), 1600),
    },
    ("laptop", 100, "held_out"): {MOSAIC: 7200, "conv_attention": 2400},
}
RATES = (7.4e-05, 0.00022, 0.00067, 0.002, 0.006, 0.018, 0.054, 0.16)
# Data seeds of those that take more steps on new automata, which three did not tell apart.
MORE_SEEDS = {("laptop", 100): 9}
# Of a training that is longer still: the rate that 2,400 steps chose over all seeds, and its
# neighbours.
NEAR_RATES: Mapping[int, Sequence[float]] = {7200: (0.16, 0.48, 1.4)}
VALIDATIONS = 16  # of a training that takes more steps than the others


def cell(preset: str, size: int, variant: str, steps: int | None = None) -> dict[str, Any]:
    """The settings at one training size; for more ``steps`` than it has by itself where they are
    given, with as many validations."""
    settings: dict[str, Any] = {"tasks.training_automata": size, "tasks.variant": variant}
    if variant == "iid":  # as many sequences as table 3 has
        settings |= {"tasks.validation_size": 100, "tasks.test_size": 100}
    if steps is not None:
        settings |= {"training.steps": steps, "training.validate_every": steps // VALIDATIONS}
    elif (preset, size) in LONGER:
        settings["training.steps"] = LONGER[preset, size]
    if preset == "paper":  # the best of all epochs is kept, whatever their length
        settings["training.validate_every"] = -(-size // 32)
    return settings


def new_automata(
    preset: str, size: int, part: str = "regbench", apart: Collection[str] = ()
) -> list[Sweep]:
    """The sweeps at one training size on automata that were held out: of those that take part, but
    for some that are swept ``apart``, and of each that takes more steps."""
    longer = MORE_STEPS.get((preset, size, "held_out"), {})
    others = all_but({*longer, *apart}, preset, part)
    planned = [Sweep("regbench", others, cell(preset, size, "held_out"))]
    for model, steps in longer.items():
        if model in default_models(part, preset):
            settings = cell(preset, size, "held_out", steps) | over(NEAR_RATES.get(steps, RATES))
            if (preset, size) in MORE_SEEDS:
                settings["sweep.data_seeds"] = MORE_SEEDS[preset, size]
            planned.append(Sweep("regbench", [model], settings))
    return planned


def all_but(left_out: Collection[str], preset: str, part: str = "regbench") -> Sequence[str]:
    """Whom a sweep is of where some of those that take part are not in it; nobody is named where
    these are all that a sweep has by itself."""
    left = [name for name in default_models(part, preset) if name not in left_out]
    return () if left == default_models("regbench", preset) else left


def over(rates: Sequence[float]) -> dict[str, Any]:
    """A sweep that tries each of these learning rates."""
    return {"sweep.search_space": {"training.lr": list(rates)}, "sweep.n_trials": len(rates)}


def models_at(preset: str) -> tuple[str, ...]:
    """The contenders of a preset, the Memory Mosaic first."""
    return (MOSAIC, *(name for name in contenders("regbench", preset) if name != MOSAIC))


def models_of(records: Records) -> tuple[str, ...]:
    """The contenders at the preset of these records."""
    return models_at(records[0].preset if records else PRESETS[0])


def label(model: str) -> str:
    """What a model is called in a figure."""
    return models.label(model)


def published_label(model: str) -> str:
    """What the paper calls it."""
    name = models.own_label(model).removesuffix(AS_RELEASED)
    return PUBLISHED_LABELS.get(model, name)


def every_baseline(rule: Callable[[str], Rule], text: str, **numbers: float) -> Rule:
    """The rule holds for every contender but the Memory Mosaic."""

    def rules(records: Records) -> Iterator[Rule]:
        return map(rule, models_of(records)[1:])

    return each(rules, text, **numbers)


def select(records: Records, variants: Sequence[str]) -> list[RunRecord]:
    """Finals of the contenders under the fair protocol, and the predictors without training."""

    def belongs(record: RunRecord) -> bool:
        contends = record.role == "final" and record.model in models_at(record.preset)
        compares = record.role == "baseline" or contends
        protocol = setting(record, "tasks.protocol")
        fair = record.task == "regbench" and compares and protocol == "fair"
        return fair and variant_of(record) in variants

    return with_planned_steps(any_of(belongs)(records))


def with_planned_steps(records: Records) -> list[RunRecord]:
    """Of the rows of a model at one size, those that took the steps which the figures plan for it,
    where there are any. Longer trainings, at one budget for all, stand in a table of their own. All
    rows count where every model was given other steps by hand, but not the shorter training of one
    that needs a longer one."""
    planned = {
        _row(record) for record in records if setting(record, "training.steps") == _steps_of(record)
    }
    chosen = []
    for record in records:
        steps = setting(record, "training.steps")
        place = (record.preset, size_of(record))
        longer = record.model in MORE_STEPS.get((*place, variant_of(record)), {})
        too_short = longer and steps == LONGER.get(place)
        as_planned = _row(record) not in planned or steps == _steps_of(record)
        if record.role == "baseline" or (as_planned and not too_short):
            chosen.append(record)
    return chosen


def _row(record: RunRecord) -> tuple[str, int, str]:
    return record.model, size_of(record), variant_of(record)


def _steps_of(record: RunRecord) -> int | None:
    """The steps that the figures plan for a model at a size; None where the preset has them."""
    place = (record.preset, size_of(record))
    longer = MORE_STEPS.get((*place, variant_of(record)), {})
    return longer.get(record.model, LONGER.get(place))


def variant(record: RunRecord) -> tuple[int, str]:
    """What tells the settings of a model apart in a figure."""
    return size_of(record), variant_of(record)


def size_of(record: RunRecord) -> int:
    """N, the number of training automata."""
    return int(record.config["tasks"]["training_automata"])


def variant_of(record: RunRecord) -> str:
    """ "held_out" automata, or "iid" with those of the training set."""
    return str(record.config["tasks"]["variant"])


def runs(model: str, size: int, variant: str = "held_out", called: str = "") -> Runs:
    """The finals of one model at one training size."""
    settings = {"tasks.training_automata": size, "tasks.variant": variant}
    return Runs(called or label(model), "regbench", model, settings)


def rows(size: int, *variants: str) -> Callable[[Records], list[Runs]]:
    """The rows of all contenders at one training size, which only count where they are tuned."""
    return lambda records: [
        runs(model, size, variant) for variant in variants for model in models_of(records)
    ]


def number(metric: str) -> Number:
    """A metric of the test split."""
    return Number(metric, metric)


def on_published_languages(topic: str) -> Ready:
    """Ready where the languages are the published ones: levels depend on their size."""
    wanted = {f"tasks.{key}": value for key, value in PUBLISHED_LANGUAGES.items()}
    return where(
        lambda records: all(list(setting(r, k)) == v for r in records for k, v in wanted.items()),
        topic,
        "this preset has smaller languages than the published ones, so levels differ",
        "laptop",
    )
