"""Hermite features, norms, learned maps, training of a memory, copies, parts of a Mosaic, needles
and three moons: claims on constructed records whose verdicts are known."""

from collections.abc import Callable
from typing import Any

import pytest

from bench.config.settings import Configuration
from bench.records.schema import Curve, RunRecord
from reproduce.capacity import hermite_construction
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED
from reproduce.delayed_copy import copy_by_position
from reproduce.experiment import Experiment
from reproduce.feature_learning import feature_learning
from reproduce.learned_maps import learned_maps
from reproduce.multi_query_recall import mosaic_variations
from reproduce.needle import needle
from reproduce.stories import one_block_more
from reproduce.test_time_memory import readme_training
from reproduce.three_moons import disentangling
from tests.reproduce.associative.constructed import measured, planned, verdicts
from tests.reproduce.drawing.rendering import rendered

EXPERIMENTS = (
    hermite_construction,
    feature_learning,
    learned_maps,
    readme_training,
    copy_by_position,
    mosaic_variations,
    needle,
    disentangling,
)


@pytest.mark.parametrize("module", [*EXPERIMENTS, one_block_more])
def test_without_records_nothing_is_said_and_the_figure_is_drawn(module: Any) -> None:
    assert not {REPRODUCED, CONTRADICTED} & set(verdicts(module.EXPERIMENT, []).values())
    rendered(module.EXPERIMENT.draw([]))


def judged(experiment: Experiment, records: list[RunRecord]) -> dict[str, str]:
    """Of each claim without its control, which untrained runs would have to fail."""
    selected = experiment.select(records)
    return {c.name: c.without_control(selected).verdict for c in experiment.claims}


def hermite(by_units: float, by_width: float, linear: float) -> list[RunRecord]:
    records = []
    for run in planned(hermite_construction.EXPERIMENT):
        models = run.resolved()["models"]
        slopes = (by_units, by_width) if models["degree"] == 2 else (linear, 2 - linear)
        widths, rows = hermite_construction.WIDTHS, []
        for width in widths:
            bend = 0.01 * run.seed
            number = models["width"] ** (slopes[0] + bend) * width ** (slopes[1] + bend)
            rows.append([number])
        arrays = {"widths": widths, "associations/0.5": rows, "filled/0.5": [[True]] * len(widths)}
        records.append(measured(run, {"associations": rows[0][0]}, arrays))
    return records


def test_hermite_features() -> None:
    experiment = hermite_construction.EXPERIMENT
    assert set(verdicts(experiment, hermite(1.0, 1.0, 0.4)).values()) == {REPRODUCED}
    assert rendered(experiment.draw(experiment.select(hermite(1.0, 1.0, 0.4))))
    # Where a linear layer does as well, the degree is not shown to matter.
    assert set(verdicts(experiment, hermite(1.0, 1.0, 1.0)).values()) == {UNDECIDED}
    assert set(verdicts(experiment, hermite(0.4, 1.6, 0.4)).values()) == {CONTRADICTED}


def norms(power: float) -> list[RunRecord]:
    """Updates of the maximal scaling by width; those of the other fall as 1 / √d."""
    records = []
    for run in planned(feature_learning.EXPERIMENT):
        tasks = run.resolved()["tasks"]
        exponent = power if tasks["scaling"] == "maximal" else -0.5
        arrays: dict[str, list[float]] = {}
        metrics: dict[str, float] = {}
        for d in tasks["widths"]:
            scatter = 1 + 0.001 * run.seed * d / 1024
            update = scatter**2 * (d / 1024) ** exponent * (1 if exponent > -0.5 else 0.03)
            arrays |= {f"start/d={d}": [scatter] * 4, f"update/d={d}": [update] * 4}
            metrics |= {f"alignment/d={d}": 0.97 - 0.001 * run.seed}
        metrics["ratio"] = arrays[f"update/d={tasks['widths'][-1]}"][0] / scatter
        records.append(measured(run, metrics, arrays))
    return records


def test_norms_of_features() -> None:
    experiment = feature_learning.EXPERIMENT
    assert set(verdicts(experiment, norms(0.0)).values()) == {REPRODUCED}
    assert [*verdicts(experiment, norms(-0.3)).values()] == [CONTRADICTED, REPRODUCED]


def chosen(
    experiment: Experiment, numbers: Callable[[Configuration, dict[str, Any]], dict[str, float]]
) -> list[RunRecord]:
    """A record of each planned run with the metrics that a function gives."""
    return [measured(run, numbers(run, run.resolved())) for run in planned(experiment)]


def test_learned_maps() -> None:
    experiment = learned_maps.EXPERIMENT
    apart = {"inner_loss": 2.0, "collapse": 0.01, "recall": 0.97}
    same = {"inner_loss": 0.01, "collapse": 0.99, "recall": 0.05}
    drawn = {"inner_loss": 1.0, "collapse": 0.45, "recall": 0.14}

    def of(inner: dict[str, float], outer: dict[str, float]) -> list[RunRecord]:
        numbers = {"inner": inner, "outer": outer, "none": drawn}

        def read(run: Configuration, config: dict[str, Any]) -> dict[str, float]:
            level = numbers[config["tasks"]["objective"]]
            return {name: value * (1 - 0.001 * run.seed) for name, value in level.items()}

        return chosen(experiment, read)

    assert set(verdicts(experiment, of(same, apart)).values()) == {REPRODUCED}
    # Values that stems find by an identity are no use of the memory.
    assert [*verdicts(experiment, of(same, same | {"recall": 0.97})).values()][1] == CONTRADICTED
    assert set(verdicts(experiment, of(apart, same)).values()) == {CONTRADICTED}


def test_training_of_the_readme_memory() -> None:
    experiment = readme_training.EXPERIMENT

    def read(run: Configuration, config: dict[str, Any]) -> dict[str, float]:
        models, capacities = config["models"], config["tasks"]["capacities"]
        if config["tasks"]["experiments"] == ["capacity"]:
            shares = {10_000: 0.3, 100: 0.9 if models["momentum"] else 0.4}
            return {f"capacity_recall_{n}": shares.get(n, 1.0) for n in capacities}
        adam = models["optimizer"] == "adam"
        recall = (1.0 if models["tokens"] else 0.2) if adam else 0.0
        return {"many_recall_50": recall, "many_50_diverged": 0.0 if adam else 1.0}

    found = judged(experiment, chosen(experiment, read))
    assert found.pop("ten thousand sequences fit by Adam") == CONTRADICTED
    assert found.pop("momentum and decay help with more data") in (REPRODUCED, UNDECIDED)
    assert set(found.values()) == {REPRODUCED}


@pytest.mark.parametrize(
    ("far", "expected"), [(0.2, {REPRODUCED}), (0.99, {REPRODUCED, CONTRADICTED})]
)
def test_copies_by_position(far: float, expected: set[str]) -> None:
    experiment = copy_by_position.EXPERIMENT

    def read(run: Configuration, config: dict[str, Any]) -> dict[str, float]:
        near, bare = config["tasks"]["delay"] == 1, config["models"].get("positions") == "none"
        level = 0.3 if bare else 1.0 if near or run.model == "gpt2" else far
        return {"accuracy": level - 0.002 * run.seed}

    assert set(verdicts(experiment, chosen(experiment, read)).values()) == expected


def test_parts_of_a_mosaic() -> None:
    experiment = mosaic_variations.EXPERIMENT

    def recalls(blind: float, plain: float) -> dict[str, str]:
        def read(run: Configuration, config: dict[str, Any]) -> dict[str, float]:
            models = config["models"]
            level = blind if models["values"] == "current" else 1.0
            return {"accuracy": min(level, plain if models["keys"] == "plain" else 1.0)}

        return verdicts(experiment, chosen(experiment, read))

    assert [*recalls(0.1, 1.0).values()] == [REPRODUCED, REPRODUCED]
    assert [*recalls(0.1, 0.7).values()] == [CONTRADICTED, REPRODUCED]
    assert [*recalls(1.0, 1.0).values()] == [UNDECIDED, CONTRADICTED]


def test_numbers_of_a_phone_book() -> None:
    experiment = needle.EXPERIMENT

    def numbers(attention: float, once: float, twice: float) -> dict[str, str]:
        def read(run: Configuration, config: dict[str, Any]) -> dict[str, float]:
            reread = config["tasks"]["protocol"] == "just_read_twice"
            level = attention if run.model == "conv_attention" else twice if reread else once
            return {"accuracy": level - 0.001 * run.seed}

        return judged(experiment, chosen(experiment, read))

    assert [*numbers(0.99, 0.3, 0.6).values()] == [REPRODUCED, REPRODUCED]
    assert [*numbers(0.99, 0.95, 0.95).values()] == [CONTRADICTED, CONTRADICTED]
    # Where nobody has learned, nothing is said of the others.
    assert [*numbers(0.1, 0.06, 0.06).values()] == [UNDECIDED, UNDECIDED]


def moons(good: set[str], repeating: float = 1.0) -> dict[str, str]:
    """Starts that disentangle: those with settings that are named, and no others."""
    experiment, records = disentangling.EXPERIMENT, []
    for run in planned(experiment):
        config = run.resolved()
        models, tasks = config["models"], config["tasks"]
        names = {*models["identity"], models["weights"], f"clip {tasks['error_clip']}"}
        # One start never does and another always: shares of all and of none have no spread.
        works = (names <= good and run.seed != 10) or run.seed == 11
        metrics = {"disentanglement": 0.95 if works else 0.6}
        arrays, curves = {}, {}
        needed = {50: 120.0, 100: 80.0}.get(config["training"]["steps"], 30.0) + run.seed
        for system in ("1.5,2,3", "0.5,2,3"):
            periods = [15.0, 20.0, 30.0]
            level = sum(map(disentangling.of_repeating, periods)) / 3
            level *= repeating + 0.001 * run.seed if models["heads"] == 1 else 0.1
            metrics[f"error_p3_to_lcm/{system}"] = level if works else 0.6
            keys_frozen = "key_extractor" in models["frozen"]
            metrics[f"error_after_lcm/{system}"] = (0.7 if keys_frozen else 0.1) + 0.001 * run.seed
            arrays[f"periods/{system}"] = [*periods, 60.0]
            curves[f"error/{system}"] = Curve(x=[10.0, needed, 160.0], y=[0.8, 0.4, 0.1])
        records.append(measured(run, metrics, arrays, curves))
    assert rendered(experiment.draw(experiment.select(records)))
    return judged(experiment, records)


def test_what_disentangles_three_moons() -> None:
    maps = {"key_extractor", "value_extractor", "output"}
    published = moons({"complex", "clip 0.5", *maps})
    assert set(published.values()) == {REPRODUCED}
    needless = moons({"complex", "real", "clip 0.5", "clip None", "output"}, repeating=0.5)
    assert [name for name, verdict in needless.items() if verdict == REPRODUCED] == [
        "both tricks make training reliable",
        "W_z the identity is reliable",
        "frozen values, trained keys",
        "training shortens the context",
    ]


def test_the_beginning_of_a_training() -> None:
    run = planned(needle.EXPERIMENT)[0]
    steps, losses = [float(n) for n in range(10)], [10.0, 8.0, 8.5, 7.0, 9.0] + [6.0] * 5
    curve = Curve(x=steps, y=losses)
    record = measured(run, {"accuracy": 1.0}, curves={"training_loss": curve})
    # Of ten steps the first fifth ends at 1.8.
    assert one_block_more.early_rise(record) == 0.0
    longer = Curve(x=[n / 2 for n in range(20)], y=losses + [5.0] * 10)
    record = measured(run, {"accuracy": 1.0}, curves={"training_loss": longer})
    assert one_block_more.early_rise(record) == 0.5
