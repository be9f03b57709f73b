"""Where attention looks, and what attention alone recalls, on constructed records."""

import math
from collections.abc import Callable

import numpy as np

from bench.records.schema import Curve, RunRecord
from reproduce.bigram import attention_scores, bigram
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.factual_recall import attention_alone, factual_recall
from reproduce.gradient_descent import optimisation, transformer_descent
from tests.reproduce.associative.constructed import measured, planned, verdicts
from tests.reproduce.drawing.rendering import rendered


def heads(first: float, second: float, role: str = "single") -> list[RunRecord]:
    records = []
    for run in planned(attention_scores.EXPERIMENT):
        scatter = 0.004 * (run.seed - 22)
        metrics = {
            "accuracy": 0.95,
            "first_layer_on_previous": first + scatter,
            "second_layer_after_trigger": second + scatter,
        }
        twin = run.with_({"tasks.steps": 1}) if role == "control" else run
        curves = {name: Curve(x=[0.0, 400.0], y=[0.1, y]) for name, y in metrics.items()}
        record = measured(twin, metrics, curves=curves)
        records.append(record.model_copy(update={"role": role}))
    return records


def test_both_layers_are_judged_beside_the_untrained_model() -> None:
    experiment = attention_scores.EXPERIMENT
    untrained = heads(0.02, 0.02, "control")

    def judged(runs: list[RunRecord]) -> list[str]:
        records = [*experiment.select(runs), *untrained]
        return [claim.judge(records).finding.verdict for claim in experiment.claims]

    assert judged(heads(0.97, 0.96)) == [REPRODUCED] * 4
    assert judged(heads(0.6, 0.96)) == [CONTRADICTED, REPRODUCED] * 2
    assert rendered(experiment.draw(experiment.select(heads(0.97, 0.96))))
    assert bigram.EXPERIMENT.select(heads(0.97, 0.96)) == []


def recalls(needed: Callable[[float, float], float], disturbed: float = 0.0) -> list[RunRecord]:
    """Accuracies that rise with width / needed(R + D, S); noise and length take ``disturbed``."""
    records = []
    for run in planned(attention_alone.EXPERIMENT):
        tasks = run.resolved()["tasks"]
        width = needed(tasks["relations"] + tasks["choices"], tasks["subjects"])
        steepness = 4 + 0.1 * run.seed
        level = 1 / (1 + math.exp(-steepness * math.log(tasks["width"] / width) - 2))
        if (tasks["noise"], tasks["length"]) != (16, 16):
            level = max(level - disturbed, 0.0)
        arrays = {"accuracy": [[min(level, 1.0)]], "heads": [8], "mlp_widths": [0]}
        records.append(measured(run, {"accuracy": level}, arrays))
    return records


def test_the_width_that_is_needed_and_what_noise_takes() -> None:
    experiment = attention_alone.EXPERIMENT
    published = recalls(lambda answers, subjects: 0.55 * answers)
    assert [*verdicts(experiment, published).values()] == [REPRODUCED] * 2
    assert rendered(experiment.draw(experiment.select(published)))
    root = recalls(lambda answers, subjects: 1.5 * answers**0.5)
    assert verdicts(experiment, root)["width by relations and answers"] == CONTRADICTED
    both = recalls(lambda answers, subjects: 0.55 * answers * (subjects / 8) ** 0.1)
    assert verdicts(experiment, both)["width by relations and answers"] == REPRODUCED
    fragile = recalls(lambda answers, subjects: 0.55 * answers, disturbed=0.4)
    assert verdicts(experiment, fragile)["noise is negligible"] == CONTRADICTED
    # A width that changes nothing cannot show that noise does not.
    wide = recalls(lambda answers, subjects: 0.05 * answers)
    assert verdicts(experiment, wide)["noise is negligible"] == UNDECIDED
    assert set(verdicts(experiment, []).values()) == {NOT_ASKED}


def test_the_width_is_read_between_two_that_were_tried() -> None:
    records = recalls(lambda answers, subjects: 0.55 * answers)
    needed = attention_alone.widths_by_seed(attention_alone.by_relations(), records)
    for seed, by_size in needed.items():
        truth = 0.55 * np.array([*by_size]) * math.exp((math.log(9) - 2) / (4 + 0.1 * seed))
        assert np.allclose([*by_size.values()], truth, rtol=0.1)
    assert len(needed) == 3


def test_the_figure_of_both_layers_has_none_of_these_runs() -> None:
    records = recalls(lambda answers, subjects: 8.0)
    assert factual_recall.EXPERIMENT.select(records) == []
    assert len(attention_alone.EXPERIMENT.select(records)) == len(records)


def descents(rising: int, sooner: int, too_large: int, role: str = "single") -> list[RunRecord]:
    """The loss rises more often with larger steps, or not; steps to know with 100 and with 200."""
    records = []
    for run in planned(transformer_descent.EXPERIMENT):
        metrics, curves = {"accuracy": 0.4}, {}
        steps = 1 if role == "control" else 50
        for trained, lrs in (("output_2", (20, 50, 100, 200)), ("all", (2, 5, 10, 20))):
            for place, lr in enumerate(lrs):
                often = 25 + 4 * place * rising + run.seed % 3
                known = {20: 20, 50: 12, 100: sooner, 200: too_large}.get(lr, 20) + run.seed % 2
                margins = [2.0 * (step >= known) for step in range(steps + 1)]
                x = [float(step) for step in range(steps + 1)]
                metrics[f"increases/{trained},lr={lr}"] = float(min(often, steps))
                curves[f"memory_margin/{trained},lr={lr}"] = Curve(x=x, y=margins)
                curves[f"loss/{trained},lr={lr}"] = Curve(x=x, y=[1.0] * len(x))
        twin = run.with_({"tasks.steps": 1}) if role == "control" else run
        record = measured(twin, metrics, curves=curves)
        records.append(record.model_copy(update={"role": role}))
    return records


def test_steps_that_oscillate_and_know_sooner() -> None:
    experiment, untrained = transformer_descent.EXPERIMENT, descents(1, 5, 60, "control")

    def judged(runs: list[RunRecord]) -> list[str]:
        records = [*experiment.select(runs), *untrained]
        return [claim.judge(records).finding.verdict for claim in experiment.claims]

    assert judged(descents(1, 5, 60)) == [REPRODUCED] * 2
    assert judged(descents(-1, 30, 60)) == [CONTRADICTED] * 2
    # Where every larger step is sooner, nothing is said of steps that oscillate.
    assert judged(descents(1, 5, 4))[1] == UNDECIDED
    assert rendered(experiment.draw(experiment.select(descents(1, 5, 60))))
    assert optimisation.EXPERIMENT.select(descents(1, 5, 60)) == []
