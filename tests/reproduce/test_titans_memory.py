"""The reproduction of memories at test time: variants and claims as functions of records."""

from __future__ import annotations

from typing import Any

import pytest

from bench.claims import CONTRADICTED, REPRODUCED, UNDECIDED
from bench.config import compose
from reproduce.titans_memory import LOOKS, REPRODUCTION, VARIANTS, plan, variant_of
from tests.bench.records import make_record


def run(model: str, seed: int, metrics: dict[str, float], *words: str) -> Any:
    composed = compose(["tasks=test_time_memory", f"models={model}", *words])
    return make_record(
        task="test_time_memory",
        model=model,
        label=model,
        seed=seed,
        run_id=f"{model}-{'-'.join(words)}-{seed}",
        config=composed.resolved(),
        metrics={"validation": metrics, "test": metrics},
    )


def judged(records: list[Any], name: str) -> str:
    (claim,) = [claim for claim in REPRODUCTION.claims if claim.name == name]
    return claim.judge(records).finding.verdict


def seeds(model: str, *words: str, **metrics: float) -> list[Any]:
    """Three seeds with numbers that are almost the same."""
    return [run(model, s, {k: v + 0.001 * s for k, v in metrics.items()}, *words) for s in range(3)]


def test_every_variant_is_told_from_the_memory_as_it_comes() -> None:
    names = set()
    for words in plan("laptop", 1).runs:
        composed = compose(list(words))
        made = run(composed.model, 0, {}, *words[2:-1])
        names.add((composed.model, variant_of(made)))
    assert names == {(m, "") for m in LOOKS} | {(m, name) for name, (m, _) in VARIANTS.items()}


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.5, REPRODUCED), (0.9, CONTRADICTED), (0.751, UNDECIDED)]
)
def test_whether_sums_overwrite(share: float, verdict: str) -> None:
    models = ("outer_product", "kernel", "ridge")
    records = [r for model in models for r in seeds(model, overwrite_new=share)]
    assert judged(records, "sums cannot overwrite") == verdict


@pytest.mark.parametrize(("other", "verdict"), [(0.6, REPRODUCED), (0.1, CONTRADICTED)])
def test_whether_ridge_is_the_most_fragile(other: float, verdict: str) -> None:
    names = [name for name in LOOKS if name != "ridge"]
    records = seeds("ridge", recall_noise_1=0.2)
    records += [r for name in names for r in seeds(name, recall_noise_1=other)]
    assert judged(records, "ridge is the most fragile") == verdict


def test_momentum_replay_and_decay_compare_settings_of_one_memory() -> None:
    linear, weights = "neural_memory_linear", "stored_in_weights"
    rates = ("models.rate=0.5", "models.momentum=0.0")
    records = [
        *seeds(linear, recall=0.5),
        *seeds(linear, "models.momentum=0.9", recall=0.2),
        *seeds(linear, *rates, "models.decay=0.02", recall_oldest_quarter=0.0),
        *seeds(linear, *rates, recall_oldest_quarter=0.3),
        *seeds(weights, backward_transfer=0.0),
        *seeds(weights, "models.replay=0.0", backward_transfer=-0.8),
    ]
    for name in (
        "momentum and random writes",
        "forgetting trades old for new",
        "weights forget without replay",
    ):
        assert judged(records, name) == REPRODUCED
        assert judged([], name) == UNDECIDED
