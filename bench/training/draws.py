"""What differs from a model alone when several are computed as one under ``torch.func.vmap``.

Each model draws its dropout from a generator of its own, so that it has the masks that it has
alone; any other draw is refused. Two operations that vmap does not know are computed in another
way: the layer of an LSTM, which has no batching rule, and hooks on gradients, which vmap hides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from bench.training.seeding import next_python_draws, seed_python_generators


class NotStackable(Exception):
    """These trainings cannot be computed as one; says why."""


@contextmanager
def no_python_draws() -> Iterator[None]:
    """Inside, models that differ in their seeds are computed as one.

    Raises:
        NotStackable: they drew from ``random`` or NumPy's global generator, which gives one number
            to all of them, where each has its own alone.
    """
    # Seeded twice: if nothing was drawn inside, the next numbers are the first again.
    seed_python_generators(0)
    first = next_python_draws()
    seed_python_generators(0)
    yield
    if next_python_draws() != first:
        raise NotStackable("a model draws from numpy.random or random")


@contextmanager
def unchanged_buffers(model: nn.Module) -> Iterator[None]:
    """Inside, ``model`` stands for several, with their parameters and its own buffers; these are
    afterwards as they were.

    Raises:
        NotStackable: they were changed, by one of the models or by all of them at once.
    """
    buffers = dict(model.named_buffers())
    before = {name: buffer.clone() for name, buffer in buffers.items()}
    changed = []
    try:
        yield
    finally:
        after = dict(model.named_buffers())
        for name, buffer in buffers.items():
            if after.get(name) is not buffer or not buffer.equal(before[name]):
                changed.append(name)
                buffer.copy_(before[name])
                module, _, own_name = name.rpartition(".")
                setattr(model.get_submodule(module), own_name, buffer)
    if changed:
        raise NotStackable(f"training changes {changed[0]}, which is no parameter")


class AsAlone(TorchFunctionMode):
    """Inside the vmapped function: what a model computes is what it computes alone.

    Args:
        place: the model's number, batched by vmap.
        generators: one of each model, seeded; None where all models draw the same, which vmap
            does with ``randomness="same"``.
    """

    def __init__(self, place: Tensor, generators: Sequence[torch.Generator] | None) -> None:
        super().__init__()
        self.place, self.generators = place, generators

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        rule = self._rules.get(func)
        return func(*args, **kwargs) if rule is None else rule(self, func, *args, **kwargs)

    def _draw(self, draw: Callable[[torch.Generator | None], Tensor]) -> Tensor:
        generators = self.generators
        if generators is None:
            return draw(None)
        # A Function with a rule for vmap: inside, a draw has one shape, outside one for all models.
        drawn: Tensor = _DrawForAll.apply(self.place, lambda: torch.stack([*map(draw, generators)]))
        return drawn

    def _integers(self, func: Any, *args: Any, **kwargs: Any) -> Tensor:
        return self._draw(lambda generator: func(*args, **kwargs, generator=generator))

    def _dropout(
        self, func: Any, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or not 0 < p < 1 or inplace or input.device.type != "cpu":
            return func(input, p, training, inplace)

        # The steps of PyTorch's own on a CPU, whose mask is drawn before it is scaled.
        def mask(generator: torch.Generator | None) -> Tensor:
            empty = torch.empty(input.shape, dtype=input.dtype, device=input.device)
            return empty.bernoulli_(1 - p, generator=generator).div_(1 - p)

        masks = self._draw(mask)
        return input * masks

    def _lstm(self, func: Any, *args: Any) -> Any:
        """One layer or several, in plain steps, (batch, time, channels) first or second."""
        inputs, states, weights, biases, layers, dropout, training, both_ways, batch_first = args
        if both_ways or (dropout and training) or not isinstance(states, (tuple, list)):
            raise NotStackable("an LSTM of this form has no plain form to stack")
        hidden = inputs.transpose(0, 1) if batch_first else inputs
        size = 4 if biases else 2
        outputs, cells = [], []
        for layer in range(layers):
            parameters = weights[layer * size : (layer + 1) * size]
            hidden, cell = _lstm_layer(hidden, states[0][layer], states[1][layer], *parameters)
            outputs.append(hidden[-1])
            cells.append(cell)
        hidden = hidden.transpose(0, 1) if batch_first else hidden
        return hidden, torch.stack(outputs), torch.stack(cells)

    def _requires_grad(self, func: Any, tensor: Tensor) -> bool:
        return bool(func(_values(tensor)[0]))

    def _register_hook(self, func: Any, tensor: Tensor, hook: Callable[[Tensor], Any]) -> Any:
        values, axis = _values(tensor)
        return func(values, hook if axis is None else vmap(hook, in_dims=axis, out_dims=axis))

    _rules: ClassVar[dict[Any, Callable[..., Any]]] = {
        torch.randint: _integers,
        functional.dropout: _dropout,
        torch.lstm: _lstm,
        Tensor.requires_grad.__get__: _requires_grad,  # type: ignore[attr-defined]
        Tensor.register_hook: _register_hook,
    }


def _values(tensor: Tensor) -> tuple[Tensor, int | None]:
    """The tensor of all models, and the axis of the models in it; of one that is the same for all,
    itself."""
    if not torch._C._functorch.is_batchedtensor(tensor):
        return tensor, None
    unwrapped = torch._C._functorch.get_unwrapped(tensor)
    return unwrapped, torch._C._functorch.maybe_get_bdim(tensor)


class _DrawForAll(torch.autograd.Function):
    """(number of the model, what draws for all models) -> what is drawn, one part for each."""

    @staticmethod
    def forward(place: Tensor, draw_all: Callable[[], Tensor]) -> Tensor:
        raise NotStackable("dropout is drawn for several models, but there is one")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """Nothing is kept: draws have no gradient."""

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, place: Tensor, draw_all: Callable[[], Tensor]
    ) -> tuple[Tensor, int]:
        return draw_all(), 0


def _lstm_layer(
    inputs: Tensor,
    output: Tensor,
    cell: Tensor,
    from_input: Tensor,
    from_output: Tensor,
    *biases: Tensor,
) -> tuple[Tensor, Tensor]:
    """Outputs (time, batch, cells) of inputs (time, batch, channels), and the last cells."""
    # Products with inputs for all positions at once; only those with the last output are in turn.
    driven = functional.linear(inputs, from_input)
    for bias in biases:
        driven = driven + bias
    outputs = []
    for drive in driven.unbind(0):
        gates = drive + output @ from_output.mT
        # torch's order: i, f, g, o.
        enter, forget, new, leave = gates.chunk(4, -1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        output = torch.sigmoid(leave) * torch.tanh(cell)
        outputs.append(output)
    return torch.stack(outputs), cell
