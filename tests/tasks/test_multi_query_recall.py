"""Multi-query recall: sequences read by a loop, expected accuracies, and data apart from models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bench.runs.get_or_run import get_or_run
from bench.training.building import build_task
from tasks.multi_query_recall import MultiQueryRecall
from tasks.multi_query_recall.sequences import DISTANCE_EXPONENT, Recall, draw
from tests.closeness import assert_near
from tests.configurations import compose, make_plan

SMALL: dict[str, Any] = {"vocabulary": 64, "length": 32, "validation_size": 50, "test_size": 400}


def drawn(count: int = 30, seed: int = 0, **changes: Any) -> Recall:
    given = {"vocabulary": 40, "length": 32, "pairs": 4, "rewritten": 0, "random_filler": False}
    return draw(np.random.default_rng(seed), count, **{**given, **changes})


@settings(max_examples=40, deadline=None)
@given(
    pairs=st.integers(1, 6),
    share=st.floats(0, 1),
    spare=st.integers(0, 9),
    filler=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_table_filled_from_left_to_right_answers_every_query(
    pairs: int, share: float, spare: int, filler: bool, seed: int
) -> None:
    rewritten = int(share * pairs)
    writes = pairs + rewritten
    length = 2 * writes + 2 * pairs + spare
    found = drawn(5, seed, pairs=pairs, rewritten=rewritten, length=length, random_filler=filler)
    for inputs, targets, firsts in zip(
        found.inputs.tolist(), found.targets.tolist(), found.first_values.tolist(), strict=True
    ):
        latest: dict[int, int] = {}
        first: dict[int, int] = {}
        for key, value in zip(inputs[: 2 * writes : 2], inputs[1 : 2 * writes : 2], strict=True):
            assert 1 <= key < 20 <= value < 40
            latest[key] = value
            first.setdefault(key, value)
        assert len(set(inputs[1 : 2 * writes : 2])) == writes
        assert sum(first[key] != latest[key] for key in latest) == rewritten
        queries = [place for place, target in enumerate(targets) if target != -100]
        assert sorted(inputs[place] for place in queries) == sorted(latest)
        assert all(place >= 2 * writes and place % 2 == 0 for place in queries)
        assert all(targets[place] == latest[inputs[place]] for place in queries)
        assert all(firsts[place] == first[inputs[place]] for place in queries)
        others = set(range(2 * writes, length)) - set(queries)
        assert filler or all(inputs[place] == 0 for place in others)


def test_queries_follow_the_power_law_of_their_distance() -> None:
    """A single query: probability g^(a-1) / Σ g^(a-1), within four standard errors."""
    found = drawn(20_000, pairs=1, length=22)
    gaps = np.arange(1, 11)
    wanted = gaps ** (DISTANCE_EXPONENT - 1)
    wanted = wanted / wanted.sum()
    share = found.asked[:, 2::2].mean(0)
    assert (np.abs(share - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 20_000)).all()


def test_keys_and_values_are_uniform() -> None:
    found = drawn(20_000, pairs=2, vocabulary=12, length=8)
    for column, tokens in ((0, range(1, 6)), (2, range(1, 6)), (1, range(6, 12))):
        share = [(found.inputs[:, column] == token).mean() for token in tokens]
        assert share == pytest.approx([1 / len(tokens)] * len(tokens), abs=0.015)


class Reader(nn.Module):
    """Looks each key up in the inputs; of two writes the ``which``-th counts."""

    def __init__(self, which: int, vocabulary: int = 64) -> None:
        super().__init__()
        self.which, self.vocabulary = which, vocabulary

    def forward(self, inputs: Tensor) -> Tensor:
        scores = torch.zeros(*inputs.shape, self.vocabulary)
        for row, sequence in enumerate(inputs.tolist()):
            for place, token in enumerate(sequence):
                after = [
                    sequence[k + 1]
                    for k in range(0, place, 2)
                    if sequence[k] == token and sequence[k + 1] >= self.vocabulary // 2
                ]
                if after:
                    scores[row, place, after[self.which]] = 50.0
        return scores


def test_models_that_keep_the_first_or_the_latest_value_are_told_apart() -> None:
    task = MultiQueryRecall(**{**SMALL, "pairs": [4], "rewritten": 2})
    first = task.evaluate(Reader(0), "validation", "cpu").metrics
    latest = task.evaluate(Reader(-1), "validation", "cpu").metrics
    names = ("accuracy", "accuracy_rewritten", "accuracy_once", "stale_rate")
    assert [latest[name] for name in names] == [1, 1, 1, 0]
    assert [first[name] for name in names] == [0.5, 0, 1, 1]
    assert latest["loss"] == pytest.approx(0, abs=1e-6)
    assert first["loss"] == pytest.approx(25, rel=1e-3)
    assert task.baselines()["first value"]("validation").metrics["accuracy"] == 0.5


def test_baselines_are_the_expected_shares() -> None:
    task = MultiQueryRecall(**{**SMALL, "pairs": [2, 4], "evaluated_pairs": [2, 8]})
    found = {name: run("test").metrics for name, run in task.baselines().items()}
    assert found["uniform over values"]["accuracy"] == 1 / 32
    assert found["uniform over values"]["loss"] == pytest.approx(np.log(32))
    assert found["uniform over seen values"]["accuracy"] == pytest.approx((1 / 2 + 1 / 8) / 2)
    assert found["uniform over seen values"]["accuracy/8"] == 1 / 8
    assert found["latest value (oracle)"]["accuracy"] == 1
    answers = {n: np.full(s.inputs.shape, 40) for n, s in task.splits["test"].items()}
    constant = task._measured(answers, "test", None).metrics["accuracy"]
    assert constant == pytest.approx(1 / 32, abs=0.02)


def test_training_batches_have_the_numbers_of_pairs_that_are_asked_for() -> None:
    task = MultiQueryRecall(**{**SMALL, "pairs": [2, 8]})
    batches = [task.training_batch(0, step, 5) for step in range(20)]
    assert {int(batch.asked) // 5 for batch in batches} == {2, 8}
    loss = task.loss(torch.zeros(5, 32, 64), batches[0])
    assert_near(float(loss), np.log(64), terms=64 + 10, dtype=torch.float32)


@pytest.mark.parametrize("protocol", ["easy", "hard"])
def test_every_model_and_width_has_the_same_data(protocol: str) -> None:
    words = ["tasks=multi_query_recall", f"tasks.protocol={protocol}", "preset=laptop"]
    hashes = []
    for model in compose([*words, "models=lstm"]).sweep.models:
        for width in (32, 128):
            task = build_task(compose([*words, f"models={model}", f"models.width={width}"]))
            hashes.append(task.data_hashes())
    assert all(one == hashes[0] for one in hashes)
    shape = (64, 32, [4]) if protocol == "easy" else (128, 64, [8])
    assert isinstance(task, MultiQueryRecall)
    assert (task.vocabulary, task.length, task.pairs) == shape


@pytest.mark.parametrize(
    ("model", "steps", "accuracy"), [("memory_mosaic", 100, 1.0), ("conv_attention", 200, 0.99)]
)
def test_one_layer_learns_the_easy_cell(
    model: str, steps: int, accuracy: float, tmp_path: Path
) -> None:
    """Memory Mosaics (arXiv 2405.06394), section 4: values look one position ahead. Zoology (arXiv
    2312.04927): attention does it, once a convolution shows it neighbours."""
    words = ["tasks=multi_query_recall", f"models={model}", "preset=laptop", "device=cpu"]
    cell = ["tasks.protocol=easy", "models.layers=1", f"training.steps={steps}"]
    cell += ["tasks.validation_size=64", "tasks.test_size=128"]
    record = get_or_run(compose([*words, *cell, f"store={tmp_path}"]))
    assert record.metrics["test"]["accuracy"] >= accuracy


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"pairs": [9]}, "has no room for 9 writes and 9 queries"),
        ({"pairs": []}, "no list of numbers"),
        ({"pairs": [4], "rewritten": 5}, "give at most 4"),
        ({"pairs": [4], "vocabulary": 8}, "too few keys or values"),
    ],
)
def test_mistakes_get_a_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        MultiQueryRecall(**{**SMALL, **wrong})


@pytest.mark.parametrize("preset", ["gpu", "paper"])
def test_at_the_published_sizes_mixers_stand_alone(preset: str) -> None:
    plan = make_plan(["tasks=multi_query_recall", f"preset={preset}"])
    made = {one.configuration.model: one.configuration.models for one in plan.entries}
    persistent = {"memory_mosaic", "memory_mosaic_v2"}  # memories in the MLP's place
    assert {name for name, own in made.items() if own.get("mlp") is not False} == persistent
