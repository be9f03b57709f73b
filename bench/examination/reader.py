"""How a model is asked for its outputs in an examination: one seed, one mode, one clean state."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bench.training.numerics import kept_settings, refuse_other_settings
from bench.training.saved_tensors import SavedTensors
from bench.training.seeding import seed_generators, state_of_python_generators
from bench.training.unfit import unfit
from core.seeding import derive_seed

LARGEST_OUTPUT = 2**24  # numbers of one pass: 64 MiB of float32


def offers_hidden(model: nn.Module) -> bool:
    """Whether the vectors before the output map can be had."""
    return hasattr(model, "hidden") and hasattr(model, "output_matrix")


class ModelReader:
    """Asks models for outputs (batch, time, channels), or for hidden vectors in their place.

    Attributes:
        seed: of what the models draw; each call starts from it.
        by_hidden: whether ``hidden`` is asked where ``forward`` would be.
        drew: whether the last call has drawn random numbers.
        left: the state in which the last call left each generator, by its name.
        wrote: whether any call has written into its inputs.
        changed: whether any call in training mode has changed parameters or buffers.
    """

    def __init__(self, seed: int, by_hidden: bool) -> None:
        self.seed, self.by_hidden = seed, by_hidden
        self.drew = self.wrote = self.changed = False
        self.left: dict[str, object] = {}
        # The inputs of calls before, so that those of the next one have another address.
        self._kept: deque[Tensor] = deque(maxlen=3)

    def of_another_seed(self, by_hidden: bool | None = None) -> ModelReader:
        """One that asks the same with other numbers."""
        return ModelReader(self.seed + 1, self.by_hidden if by_hidden is None else by_hidden)

    def read(self, model: nn.Module, inputs: Tensor, training: bool = False) -> Tensor:
        """Outputs in eval mode without gradients, or in training mode with them.

        In training mode parameters and buffers are then put back.
        """
        if not training:
            with torch.no_grad():
                return self.call(model.eval(), inputs)
        saved = SavedTensors(model)
        try:
            with torch.enable_grad():
                return self.call(model.train(), inputs).detach()
        finally:
            self.changed = self.changed or bool(saved.changed())
            saved.restore()

    def seed_draws(self, device: torch.device) -> None:
        """Let the next call draw what each call draws."""
        seed_generators(derive_seed(self.seed, "draws of an examination"), device)

    def call(self, model: nn.Module, inputs: Tensor, hidden: bool | None = None) -> Tensor:
        """Outputs in the mode that the model is in.

        Args:
            hidden: in place of ``by_hidden``.
        """
        inputs = as_parameters(inputs, model)
        self.seed_draws(inputs.device)
        by_hidden = self.by_hidden if hidden is None else hidden
        ask: Any = model.hidden if by_hidden else model
        kind = type(model)
        passed, before = inputs.clone(), random_state(inputs.device)
        self._kept.append(passed)
        with kept_settings() as changed:
            outputs = plain(ask(passed))
        refuse_other_settings(changed)
        if type(model) is not kind:
            raise unfit("another class")
        self.left = random_state(inputs.device)
        self.drew = before != self.left
        self.wrote = self.wrote or not torch.equal(passed, inputs)
        return outputs


def as_parameters(inputs: Tensor, model: nn.Module) -> Tensor:
    """Real inputs in the type of the parameters of a model; tokens as they are."""
    if not inputs.is_floating_point():
        return inputs
    return inputs.to(next((p.dtype for p in model.parameters()), inputs.dtype))


def in_steps(model: nn.Module, sequences: Sequence[Tensor]) -> list[tuple[Tensor, Any]]:
    """What ``step`` gives in eval mode, position by position; the sequences take turns.

    Args:
        sequences: inputs (batch, time) or (batch, time, channels), each with a state of its own.

    Returns:
        For each the outputs (batch, time, channels), and the state after the last position.
    """
    asked: Any = model.eval()
    outputs: list[list[Tensor]] = [[] for _ in sequences]
    states: list[Any] = [None] * len(sequences)
    with torch.no_grad():
        for position in range(sequences[0].shape[1]):
            for k, sequence in enumerate(sequences):
                sample = as_parameters(sequence[:, position], model).clone()
                output, states[k] = asked.step(sample, states[k])
                outputs[k].append(plain(output))
    return [(torch.stack(each, 1), state) for each, state in zip(outputs, states, strict=True)]


def plain(outputs: Any) -> Any:
    """A tensor as one of PyTorch's own class, since any other may answer comparisons itself."""
    if isinstance(outputs, Tensor) and type(outputs) is not Tensor:
        return outputs.as_subclass(Tensor)
    return outputs


def refuse_own_seeds(first: ModelReader, second: ModelReader) -> None:
    """Refuse a model that seeds a generator itself: two calls that began from different seeds have
    left it in one state.

    Raises:
        UnfitModel: it does.
    """
    for generator, state in first.left.items():
        if state == second.left[generator]:
            raise unfit("own seeds", generator=generator)


def random_state(device: torch.device) -> dict[str, object]:
    """The state of each generator that is seeded, by its name."""
    of_python, *of_numpy = state_of_python_generators()
    states = {
        "PyTorch's generator": torch.get_rng_state().numpy().tobytes(),
        "Python's random": of_python,
        "numpy.random": tuple(of_numpy),
    }
    if device.type == "cuda":
        states["PyTorch's generator of the GPU"] = (
            torch.cuda.get_rng_state(device).numpy().tobytes()
        )
    return states
