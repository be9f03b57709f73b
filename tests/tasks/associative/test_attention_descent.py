"""Large steps in the simplified transformer against one step and margins by hand."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from models.associative.two_layer_attention import TwoLayerAttention
from tasks.attention_descent import AttentionDescent, Known, margins
from tasks.measurement import Diverged
from tests.closeness import assert_near

SMALL: dict[str, Any] = {"length": 24, "evaluated": 8, "batch": 8, "steps": 2}


def build(*sizes: Any, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return TwoLayerAttention(*sizes, width=16)


def test_margins_are_right_minus_best_wrong() -> None:
    scores, right = torch.randn(20, 5), torch.randint(5, (20,))
    expected = []
    for values, k in zip(scores.tolist(), right.tolist(), strict=True):
        expected.append(values[k] - max(v for place, v in enumerate(values) if place != k))
    assert_near(margins(scores, right).tolist(), expected, dtype=torch.float32)


@pytest.mark.parametrize("trained", ["output_2", "all"])
def test_a_step_is_that_of_plain_descent_on_what_is_known(trained: str) -> None:
    settings = SMALL | {"steps": 1, "output_lrs": [], "lrs": []}
    settings["output_lrs" if trained == "output_2" else "lrs"] = [3.0]
    task = AttentionDescent(**settings)
    found = task.measure(build, "test", 0, "cpu", lambda *_: None)

    model: Any = build(task.bigram.sampler.table.vocabulary, 24)
    asked = task.bigram.splits["test"]
    drawn = task.bigram.training_sequences(0, 0, 8)

    def loss(sequences: Any) -> torch.Tensor:
        logits = model(torch.tensor(sequences.inputs))
        chosen = [
            functional.cross_entropy(
                logits[row, place], torch.tensor(sequences.targets[row, place])
            )
            for row, place in zip(*(sequences.occurrences() >= 2).nonzero(), strict=True)
        ]
        return torch.stack(chosen).mean()

    losses = [loss(asked).item()]
    loss(drawn).backward()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if trained in (name, "all"):
                parameter -= 3.0 * parameter.grad
    losses.append(loss(asked).item())
    # Sums over 65 tokens, 24 positions and widths of 16, in two layers, forwards and backwards.
    found_losses = found.curves[f"loss/{trained},lr=3"]["y"]
    assert_near(found_losses, losses, terms=1000, condition=3, dtype=torch.float32)


def test_known_are_later_occurrences_alone() -> None:
    sequences = AttentionDescent(**SMALL).bigram.splits["test"]
    known = Known.of(sequences, "cpu").known
    assert known.tolist() == (sequences.occurrences() > 1).tolist()
    assert known.any()


def test_a_run_that_is_lost_is_named_and_the_others_stay() -> None:
    settings = SMALL | {"output_lrs": [1.0], "lrs": [1e38]}
    found = AttentionDescent(**settings).measure(build, "test", 0, "cpu", lambda *_: None)
    assert found.metrics["diverged/all,lr=1e+38"] >= 1
    assert len(found.curves["loss/output_2,lr=1"]["y"]) == 3
    with pytest.raises(Diverged, match=r"lower tasks\.lrs"):
        AttentionDescent(**(settings | {"output_lrs": []})).measure(
            build, "test", 0, "cpu", lambda *_: None
        )


@pytest.mark.parametrize(
    "change", [{"steps": 0}, {"lrs": [], "output_lrs": []}, {"lrs": [-1.0]}, {"length": 1}]
)
def test_mistakes_get_a_sentence(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tasks\.|too small"):
        AttentionDescent(**(SMALL | change))
