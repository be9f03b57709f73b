"""Feature learning: a step is that of autograd, and the norms are those of its features."""

from typing import Any

import pytest
import torch

from core.progress import silent
from models.memories.outer_product import OuterProduct
from tasks.feature_learning import FeatureLearning


def build(*sizes: Any, seed: int = 0) -> OuterProduct:
    return OuterProduct(*sizes)


@pytest.mark.parametrize(("scaling", "rate"), [("maximal", 6.0), ("tangent", 6.0 / 16)])
def test_the_step_is_that_of_autograd(scaling: Any, rate: float) -> None:
    task = FeatureLearning(widths=[8, 16], pairs=6, scaling=scaling, trials=3)
    found = task.measure(build, "test", 4, "cpu", silent)
    start, inputs, outputs = task.draw(16, "test", 4)
    norms: dict[str, list[float]] = {"start": [], "update": [], "alignment": []}
    for w0, u, v in zip(start, inputs, outputs, strict=True):
        weights = w0.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy((u @ weights.T) @ v.T, torch.arange(6))
        loss.backward()
        assert weights.grad is not None
        moved = u @ (-rate * weights.grad).T
        norms["start"].append((u @ w0.T).norm(dim=-1).mean().item())
        norms["update"].append(moved.norm(dim=-1).mean().item())
        cosines = torch.nn.functional.cosine_similarity(moved, v, dim=-1)
        norms["alignment"].append(cosines.mean().item())
    for name, expected in norms.items():
        assert found.arrays[f"{name}/d=16"] == pytest.approx(expected, rel=1e-4)
        assert found.metrics[f"{name}/d=16"] == pytest.approx(sum(expected) / 3, rel=1e-4)
        assert found.curves[name]["x"] == [8.0, 16.0]
    ratio = found.metrics["update/d=16"] / found.metrics["start/d=16"]
    assert found.metrics["ratio"] == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"widths": [16, 8]}, r"tasks.widths is \[16, 8\], expected rising numbers"),
        ({"pairs": 1}, "give at least 2 pairs"),
        ({"scaling": "none"}, "give maximal or tangent"),
    ],
)
def test_bad_numbers_get_a_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FeatureLearning(**settings)
