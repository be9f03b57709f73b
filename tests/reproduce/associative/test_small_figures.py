"""Samples, noise, decay and notes: claims on constructed records whose verdicts are known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.records.schema import Curve, RunRecord
from reproduce.capacity import capacity_of_layers, noisy_queries, thresholded_capacity
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.limited_storage import limited_storage
from reproduce.memory_in_the_loop import memory_in_the_loop
from reproduce.samples_to_learn import samples_to_learn
from reproduce.test_time_memory import decay_near_capacity, stems_and_confidence
from tests.reproduce.associative.constructed import measured, planned, verdicts
from tests.reproduce.drawing.rendering import rendered

EXPERIMENTS = (
    capacity_of_layers,
    noisy_queries,
    thresholded_capacity,
    memory_in_the_loop,
    samples_to_learn,
    decay_near_capacity,
    limited_storage,
    stems_and_confidence,
)


@pytest.mark.parametrize("module", EXPERIMENTS)
def test_without_records_nothing_is_said_and_the_figure_is_drawn(module: Any) -> None:
    assert not {REPRODUCED, CONTRADICTED} & set(verdicts(module.EXPERIMENT, []).values())
    rendered(module.EXPERIMENT.draw([]))


def samples(few: Callable[[float], float], many: Callable[[float], float]) -> list[RunRecord]:
    records = []
    for run in planned(samples_to_learn.EXPERIMENT):
        metrics, curves = {"ratio": 1.0}, {}
        for n in run.resolved()["tasks"]["tokens"]:
            scatter = 1 + 0.02 * np.sin(run.seed + n)
            for layer, law in (("feed_forward", few), ("attention", many)):
                metrics[f"samples_to_half/{layer}/N={n}"] = law(n) * scatter
                curves[f"{layer}/N={n}"] = Curve(x=[1.0, 2.0], y=[0.1, 0.9])
        records.append(measured(run, metrics, curves=curves))
    return records


def test_samples_by_tokens() -> None:
    experiment = samples_to_learn.EXPERIMENT
    published = samples(lambda n: 8.0, lambda n: 3.0 * n)
    assert set(verdicts(experiment, published).values()) == {REPRODUCED}
    assert rendered(experiment.draw(experiment.select(published)))
    root = samples(lambda n: n**0.5, lambda n: n**0.5)
    assert set(verdicts(experiment, root).values()) == {CONTRADICTED}
    both = samples(lambda n: 3.0 * n, lambda n: 3.0 * n)
    assert [*verdicts(experiment, both).values()] == [CONTRADICTED, UNDECIDED]


def noise(held: dict[str, float], same: dict[str, float]) -> list[RunRecord]:
    records = []
    for run in planned(noisy_queries.EXPERIMENT):
        arrays: dict[str, Any] = {"held": [8] * 32}
        scatter = 0.02 * np.sin(np.arange(32) + run.seed)
        for load, levels in (("held", held), ("pairs", same)):
            for sigma in run.resolved()["tasks"]["noises"]:
                level = levels.get(run.model, 0.5) + scatter
                arrays[f"recall/{load}/noise={sigma:g}"] = level.tolist()
        records.append(measured(run, {"recall": 0.5}, arrays))
    return records


def test_noise_at_the_own_load_and_at_the_same() -> None:
    experiment = noisy_queries.EXPERIMENT
    tables = tuple(noisy_queries.TABLES)
    worse = {"outer_product": 0.7} | dict.fromkeys(tables, 0.3)
    alike = {"outer_product": 0.7} | dict.fromkeys(tables, 0.8)
    found = verdicts(experiment, noise(worse, alike))
    assert [*found.values()] == [CONTRADICTED] + [REPRODUCED] * 3
    assert [*verdicts(experiment, noise(worse, worse)).values()] == [REPRODUCED] + [UNDECIDED] * 3
    assert [*verdicts(experiment, noise(alike, alike)).values()] == [CONTRADICTED] * 4
    assert rendered(experiment.draw(experiment.select(noise(worse, alike))))


def decayed(newest: dict[tuple[int, bool], float]) -> list[RunRecord]:
    records = []
    for run in planned(decay_near_capacity.EXPERIMENT):
        config = run.resolved()
        key = config["tasks"]["counts"][-1], config["models"]["decay"] > 0
        level = newest[key] - 0.002 * run.seed
        metrics = {
            "recall": 0.5,
            "recall_newest_quarter_most": level,
            "recall_oldest_quarter_most": 0.0 if key == (512, True) else level / 2,
        }
        records.append(measured(run, metrics))
    return records


def test_decay_matters_where_much_is_written_alone() -> None:
    experiment, few = decay_near_capacity.EXPERIMENT, {(16, False): 1.0, (16, True): 1.0}
    helps = decayed(few | {(512, False): 0.4, (512, True): 0.8})
    assert [*verdicts(experiment, helps).values()] == [REPRODUCED]
    assert rendered(experiment.draw(experiment.select(helps)))
    assert [
        *verdicts(experiment, decayed(few | {(512, False): 0.4, (512, True): 0.4})).values()
    ] == [CONTRADICTED]
    always = {(16, False): 0.5, (16, True): 1.0, (512, False): 0.4, (512, True): 0.8}
    assert [*verdicts(experiment, decayed(always)).values()] == [CONTRADICTED]


def stems(halves: float, auroc: float, risk: float, calibration: float) -> list[RunRecord]:
    """These numbers of the network, and of tables and the delta rule what their controls ask."""
    records = []
    for run in planned(stems_and_confidence.EXPERIMENT):
        whole, half = (0.4, 0.3) if run.model == "delta_rule" else (1.0, 1.0)
        scores = (0.85, 0.3, 0.5) if run.model == "delta_rule" else (1.0, 0.154, 0.5)
        if run.model == "stored_in_weights":
            half, scores = halves, (auroc, risk, calibration)
        metrics = {"recall": 0.5}
        for length in (4, 8, 16):
            metrics[f"recall_length_{length}"] = whole
            metrics[f"recall_half_stem_{length}"] = half - 0.001 * (run.seed - 20)
        for name, score in zip(stems_and_confidence.SCORES, scores, strict=True):
            metrics[name] = abs(score - 0.001 * (run.seed - 20))
        records.append(measured(run, metrics))
    return records


def test_stems_and_confidence_of_a_network() -> None:
    experiment = stems_and_confidence.EXPERIMENT
    expected = stems(halves=0.6, auroc=0.99, risk=0.16, calibration=0.02)
    assert set(verdicts(experiment, expected).values()) == {REPRODUCED}
    assert rendered(experiment.draw(experiment.select(expected)))
    otherwise = stems(halves=1.0, auroc=0.6, risk=0.5, calibration=0.4)
    assert [*verdicts(experiment, otherwise).values()] == [REPRODUCED] * 2 + [CONTRADICTED] * 4


def returning(recalls: dict[str, float], compared: float) -> list[RunRecord]:
    """Recall by what is evicted, or by the hash."""
    records = []
    for run in planned(limited_storage.EXPERIMENT):
        models = run.resolved()["models"]
        word = models.get("evicts") or ("local" if models["local"] else "fine")
        recall = recalls[word] - 0.001 * run.seed
        share = (compared if word == "local" else 1.0) - 0.001 * run.seed
        curve = Curve(x=[1.0, 2.0], y=[1.0, recall])
        metrics = {"recall": recall, "compared": share}
        records.append(measured(run, metrics, curves={"recall_by_event": curve}))
    return records


def test_eviction_and_hashing() -> None:
    experiment = limited_storage.EXPERIMENT
    recalls = {"least_recent": 0.8, "oldest": 0.7, "never": 0.3, "local": 0.99, "fine": 0.1}
    expected = returning(recalls, 0.1)
    assert set(verdicts(experiment, expected).values()) == {REPRODUCED}
    assert rendered(experiment.draw(experiment.select(expected)))
    alike = returning(recalls | {"least_recent": 0.5, "oldest": 0.5, "local": 0.6}, 0.1)
    assert set(verdicts(experiment, alike).values()) == {CONTRADICTED}
    assert [*verdicts(experiment, returning(recalls, 0.9)).values()][-1] == CONTRADICTED
    unfair = returning(recalls | {"never": 0.8}, 0.1)  # the control passes too
    first = "a quarter of the storage serves most questions"
    assert verdicts(experiment, unfair)[first] == UNDECIDED


def loop(**shares: float) -> list[RunRecord]:
    right = {"accuracy_before": 0.0, "accuracy_after": 0.95, "accuracy_after_confidence": 0.9}
    usual = right | {
        "accuracy_unseen": 0.0,
        "used_seen": 0.99,
        "used_seen_confidence": 0.95,
        "used_unseen": 0.99,
        "used_unseen_confidence": 0.1,
    }
    records = []
    for run in planned(memory_in_the_loop.EXPERIMENT):
        scatter = 0.002 * run.seed
        metrics = {name: abs(level - scatter) for name, level in (usual | shares).items()}
        use = {"used_by_confidence": Curve(x=[0.0, 1.0], y=[0.0, 1.0])}
        records.append(measured(run, metrics, curves=use))
    return records


def test_notes_and_their_confidence() -> None:
    experiment = memory_in_the_loop.EXPERIMENT
    assert set(verdicts(experiment, loop()).values()) == {REPRODUCED}
    assert rendered(experiment.draw(experiment.select(loop())))
    ignored = loop(accuracy_after=0.01, used_unseen_confidence=0.98)
    assert set(verdicts(experiment, ignored).values()) == {CONTRADICTED}
    distrusts_all = loop(used_seen_confidence=0.1)
    assert [*verdicts(experiment, distrusts_all).values()] == [REPRODUCED, UNDECIDED]


def layers(exponent: float, of_rank: float, preset: str = "laptop") -> list[RunRecord]:
    records = []
    for run in planned(capacity_of_layers.EXPERIMENT, preset):
        models = run.resolved()["models"]
        m = models.get("rank") or models["expansion"] * 12
        law = of_rank if "rank" in models else exponent
        bend = 0.01 * (run.seed - 1)  # of the exponent
        n = 0.95 * 12 * 12 * (m / 12) ** (law + bend)
        weights = 24 * m
        metrics = {"associations": n, "weights/0.99/12": weights}
        arrays = {"widths": [12], "associations/0.99": [[n]], "filled/0.99": [[True]]}
        records.append(measured(run, metrics, arrays))
    return records


def test_layers_of_any_width() -> None:
    experiment = capacity_of_layers.EXPERIMENT
    by_preset: dict[str, dict[str, str]] = {}
    for preset in ("laptop", "gpu"):
        records = experiment.select(layers(1, 0.4, preset))
        by_preset[preset] = {
            claim.name: claim.without_control(records).verdict for claim in experiment.claims
        }
    assert set(by_preset["gpu"].values()) == {REPRODUCED}
    # A layer that stores too little may have been given up too early.
    assert by_preset["laptop"].pop("half as wide, 32 classes") == NOT_ASKED
    assert set(by_preset["laptop"].values()) == {REPRODUCED}
    assert rendered(experiment.draw(experiment.select(layers(1, 0.4))))
    judged = verdicts(experiment, layers(1, 0.4))
    assert judged["perceptrons of any width"] == judged["bits for each weight"] == REPRODUCED
    assert verdicts(experiment, layers(1, 1))["perceptrons of any width"] == UNDECIDED
    saturating = verdicts(experiment, layers(0.4, 0.4))
    assert saturating["perceptrons of any width"] == CONTRADICTED
    assert saturating["bits for each weight"] == CONTRADICTED
    assert saturating["four times as wide, 32 classes"] == CONTRADICTED


def thresholded(doublings: float, of_sum: float) -> list[RunRecord]:
    """N by width: a power of two for each dimension."""
    records = []
    for run in planned(thresholded_capacity.EXPERIMENT):
        slope = doublings if run.model == "thresholded" else of_sum
        rows = []
        for width in thresholded_capacity.WIDTHS:
            bends = [0.01 * (trial - run.seed) for trial in range(4)]
            rows.append([2 ** ((slope + bend) * width) for bend in bends])
        arrays = {
            "widths": thresholded_capacity.WIDTHS,
            "associations/0.9": rows,
            "filled/0.9": [[True] * 4] * len(rows),
        }
        records.append(measured(run, {"associations": rows[0][0]}, arrays))
    return records


def test_a_threshold_for_each_key() -> None:
    experiment = thresholded_capacity.EXPERIMENT
    published = thresholded(0.6, 0.2)
    assert [*verdicts(experiment, published).values()] == [REPRODUCED]
    assert rendered(experiment.draw(experiment.select(published)))
    assert [*verdicts(experiment, thresholded(0.6, 0.6)).values()] == [UNDECIDED]
    assert [*verdicts(experiment, thresholded(0.2, 0.2)).values()] == [CONTRADICTED]
