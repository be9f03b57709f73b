"""Learned embeddings in two dimensions against steps of Adam and against fixed ones."""

from typing import Any

import pytest
import torch
from torch import nn

from models.associative.learnable import Learnable
from tasks.learned_embeddings import LearnedEmbeddings
from tasks.scaling_laws.errors import _misses
from tests.closeness import assert_near

SMALL: dict[str, Any] = {"classes": [10], "steps": 250, "trials": 3}


def test_the_first_step_of_adam_moves_every_entry_by_its_rate() -> None:
    built: list[Learnable] = []
    started: list[dict[str, torch.Tensor]] = []

    def build(*sizes: Any, seed: int = 0) -> nn.Module:
        built.append(Learnable(*sizes))
        started.append({name: p.detach().clone() for name, p in built[-1].named_parameters()})
        return built[-1]

    task = LearnedEmbeddings(**(SMALL | {"steps": 1}))
    task.measure(build, "test", 0, "cpu", lambda *_: None)
    for name, parameter in built[0].named_parameters():
        moved = (parameter.detach() - started[0][name]).abs()
        # A token that no sample shows stays, up to rounding: of its value, and of a gradient that
        # is 0 but for 1e-12, of which Adam makes 0.1 · 1e-12 / ε = 1e-5.
        seen = moved > 1e-5
        # Adam's ε = 1e-8 makes it a little less where a gradient is as small as 1e-6.
        torch.testing.assert_close(
            moved[seen], torch.full_like(moved[seen], 0.1), atol=1e-3, rtol=0.0
        )
        assert seen.any()


def test_two_learned_dimensions_hold_what_two_fixed_ones_cannot() -> None:
    task = LearnedEmbeddings(**SMALL)
    found = task.measure(lambda *s, seed=0: Learnable(*s), "test", 0, "cpu", lambda *_: None)
    assert found.metrics["error"] == found.metrics["error/M=10"] < 0.01
    # Counting all tokens in a matrix between random embeddings of the same size.
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(3, 100, 2, generator=generator, dtype=torch.float64)
    v = torch.randn(3, 10, 2, generator=generator, dtype=torch.float64)
    classes = torch.arange(100) % 10
    scores = u @ (u.mT * task.probabilities @ v[:, classes]) @ v.mT
    errors = _misses(scores[:, :, None], classes)[..., 0].double() @ task.probabilities
    assert errors.mean() > 0.2


def test_shares_are_those_of_the_law() -> None:
    task = LearnedEmbeddings(**SMALL)
    shares = task._shares("test", 0, 10, 200)
    assert shares.shape == (200, 3, 100)
    assert_near(shares.sum(-1), torch.ones(200, 3), terms=100)
    # What 200 draws for 3 trials leave to chance, not rounding.
    torch.testing.assert_close(shares.mean((0, 1)), task.probabilities.float(), atol=3e-3, rtol=0.0)
    assert not torch.equal(shares, task._shares("validation", 0, 10, 200))


@pytest.mark.parametrize(
    "change", [{"classes": []}, {"classes": [200]}, {"steps": 0}, {"lr": 0.0}, {"classes": [2, 2]}]
)
def test_mistakes_get_a_sentence(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tasks\."):
        LearnedEmbeddings(**(SMALL | change))
