"""What a task lets a model generate is examined as what it computes in one pass."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

import bench
from bench.examination.generation import WatchedGeneration
from bench.training.unfit import UnfitModel
from models.specification import SequenceSpecification
from tests.bench.examination.generating import (
    Forgets,
    RollsOut,
    SeesItsBatch,
    SeesWhatFollows,
    Steps,
    StepsInPlace,
    StepsWithNoise,
)

VECTORS = SequenceSpecification(maximum_length=24, input_channels=4, output_channels=4)
CONTEXTS = torch.arange(1, 21)
SEQUENCES = torch.randn(10, 24, 4, generator=torch.Generator().manual_seed(0))


def generated(model: Steps) -> Tensor:
    """What a task lets it generate: a few values after each context, from copies of its state."""
    if isinstance(model, RollsOut | SeesWhatFollows):
        return model.rollout(SEQUENCES[:, :20], CONTEXTS, 3, "frozen")
    state, outputs = None, []
    for context in CONTEXTS.tolist():
        output, state = model.step(SEQUENCES[:, context - 1], state)
        _, fork = model.step(output, copy.deepcopy(state))
        model.step(output, fork)
        outputs.append(output)
    return torch.stack(outputs, 1)


def watched(model: Steps) -> tuple[WatchedGeneration, Tensor]:
    generation = WatchedGeneration(model, VECTORS, seed=0)
    torch.manual_seed(1)
    with torch.no_grad(), generation.watching():
        return generation, generated(model)


def made(kind: type[Steps]) -> Steps:
    torch.manual_seed(0)
    return kind(VECTORS).eval()


def examined(kind: type[Steps]) -> None:
    watched(made(kind))[0].examine()


@pytest.mark.bitwise
@pytest.mark.parametrize("kind", [Steps, StepsInPlace, StepsWithNoise, RollsOut])
def test_what_is_watched_is_what_it_was(kind: type[Steps]) -> None:
    model = made(kind)
    torch.manual_seed(1)
    with torch.no_grad():
        expected = generated(model)
    assert torch.equal(watched(model)[1], expected)
    assert {"step", "rollout"}.isdisjoint(vars(model))


@pytest.mark.parametrize("kind", [Steps, StepsInPlace, StepsWithNoise, RollsOut])
def test_what_is_generated_from_the_past_passes(kind: type[Steps]) -> None:
    examined(kind)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Forgets, r"step gives another output than forward at position \d+ "),
        (SeesWhatFollows, r"sees the future as it generates: other inputs from position \d+ on"),
        (SeesItsBatch, "rollout predicts for a sequence depends on the other sequences of its b"),
    ],
)
def test_what_is_generated_otherwise_is_named(kind: type[Steps], sentence: str) -> None:
    with pytest.raises(UnfitModel, match=sentence) as caught:
        examined(kind)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("SeesWhatFollows", "sees the future as it generates"),
        ("LosesNumbers", "rollout gave no numbers (NaN or infinity) for "),
        ("Steps", None),
        ("RollsOut", None),
    ],
)
def test_a_run_whose_score_is_generated_is_examined(
    kind: str, sentence: str | None, tmp_path: Path
) -> None:
    few = {"training.steps": 2, "training.batch_size": 4, "training.warmup_steps": 1}
    model = f"tests.bench.examination.generating.{kind}"
    record = bench.run("three_moons", model, store=tmp_path, device="cpu", settings=few, quiet=True)
    assert record.outcome == ("ok" if sentence is None else "failed")
    if sentence is not None:
        assert sentence in str(record.cause)
        assert record.headline.value is None
