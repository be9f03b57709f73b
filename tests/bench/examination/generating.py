"""Guests that generate: by ``step``, as ``forward`` does or not, and by a rollout of their own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification


class Steps(nn.Module):
    """Honest."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__()
        assert specification.input_channels is not None
        self.mixer = nn.GRU(specification.input_channels, 8, batch_first=True)
        self.out = nn.Linear(8, specification.output_size)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.out(self.mixer(inputs)[0])

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        vectors, state = self.mixer(inputs[:, None], state)
        return self.out(vectors)[:, 0], state


class StepsInPlace(Steps):
    """Writes its state in place."""

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        state = [None] if state is None else state
        output, state[0] = super().step(inputs, state[0])
        return output, state


class StepsWithNoise(Steps):
    """Draws as it is evaluated."""

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        output, state = super().step(inputs, state)
        return output + torch.randn_like(output), state

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        return outputs + torch.randn_like(outputs)


class RollsOut(Steps):
    """The same as by steps, but for what it sees of its batch."""

    def rollout(self, inputs: Tensor, contexts: Tensor, steps: int, rule: str) -> Tensor:
        predictions = []
        for context in contexts.tolist():
            vectors, state = self.mixer(inputs[:, :context])
            outputs = [self.out(vectors[:, -1])]
            for _ in range(steps - 1):
                output, state = self.step(outputs[-1], state)
                outputs.append(output)
            predictions.append(torch.stack(outputs, 1))
        return torch.stack(predictions, 1)


class Forgets(Steps):
    """Starts anew at each step."""

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        return super().step(inputs)


class SeesWhatFollows(Steps):
    """Repeats what it was given, up to the longest context."""

    def rollout(self, inputs: Tensor, contexts: Tensor, steps: int, rule: str) -> Tensor:
        known = functional.pad(inputs, (0, 0, 0, steps))
        return known[:, contexts[:, None] + torch.arange(steps)]


class LosesNumbers(RollsOut):
    """Has none from the second prediction on; ``forward`` and ``step`` have them."""

    def rollout(self, inputs: Tensor, contexts: Tensor, steps: int, rule: str) -> Tensor:
        predictions = super().rollout(inputs, contexts, steps, rule)
        predictions[:, :, 1:] = torch.nan
        return predictions


class SeesItsBatch(RollsOut):
    def rollout(self, inputs: Tensor, contexts: Tensor, steps: int, rule: str) -> Tensor:
        return super().rollout(inputs, contexts, steps, rule) + inputs[:, 0].mean()
