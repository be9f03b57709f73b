"""Passes of a model with every generator seeded, and what two of them are compared by."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.training.seeding import seed_generators

SEQUENCES = 2  # of a batch that are looked at
# Standard deviation of what is added to the parameters: what a gate that starts at 0 keeps from the
# outputs is seen as well.
DISTURBANCE = 0.05
STATE, OUTPUTS = "state ", "outputs"  # names of what is observed


def disturb(model: nn.Module, seed: int, device: torch.device) -> None:
    """Move every trained parameter a little, by draws from ``seed``."""
    seed_generators(seed, device)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad and parameter.is_floating_point():
                parameter.add_(DISTURBANCE * torch.randn_like(parameter))


def training_pass(model: nn.Module, inputs: Tensor, seed: int, device: torch.device) -> Tensor:
    """The outputs in training mode; a model may write into its inputs, so it gets a copy."""
    seed_generators(seed, device)
    outputs: Tensor = model.train()(inputs.clone())
    return outputs


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Copies of the tensors of a state dict, by name."""
    return {f"{STATE}{name}": value.detach().clone() for name, value in model.state_dict().items()}


def disturbed_outputs(model: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """The outputs of a new model in training, its parameters moved a little, by their name."""
    disturb(model, 0, inputs.device)
    outputs = training_pass(model, inputs[:SEQUENCES], 0, inputs.device)
    return {OUTPUTS: outputs.detach().contiguous().clone()}
