"""Gradients by what comes in are those of autograd, also where only ``backward`` gives them."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bench.examination.gradients import gradients_of


class Checkpointed(nn.Module):
    """Two layers, the second of which is computed again in the backward pass."""

    def __init__(self, reentrant: bool, width: int = 6) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.embed, self.mix = nn.Embedding(7, width), nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        vectors = inputs if inputs.is_floating_point() else self.embed(inputs)
        again: Tensor = checkpoint(self.mix, vectors.cumsum(1).tanh(), use_reentrant=self.reentrant)
        return again


@pytest.mark.parametrize("tokens", [True, False])
def test_a_checkpoint_that_knows_backward_alone_is_asked_so(tokens: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(7, (2, 5), generator=generator)
    if not tokens:
        inputs = torch.randn(2, 5, 6, generator=generator)
    answers = []
    for reentrant in (False, True):
        torch.manual_seed(0)
        model = Checkpointed(reentrant)
        model.mix.bias.grad = torch.full((6,), 9.0)
        parameters = [*model.parameters()]
        answers.append(gradients_of(model, inputs, lambda o: o.cos(), parameters))
        assert torch.equal(model.mix.bias.grad, torch.full((6,), 9.0))
        assert model.mix.weight.grad is None
    (outputs, by_inputs, by_parameters), (again, *others) = answers
    torch.testing.assert_close(again, outputs)
    assert len(by_inputs) == 1
    torch.testing.assert_close(others[0], by_inputs)
    torch.testing.assert_close(others[1], by_parameters)
