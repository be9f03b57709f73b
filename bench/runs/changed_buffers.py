"""What training changes beside the parameters: a model may learn in buffers, which no optimiser
updates and no count of parameters holds."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from bench.training.saved_tensors import same_numbers


def changed_numbers(model: nn.Module, weights: Mapping[str, Tensor]) -> int:
    """How many numbers in the buffers of a model, and in what its ``get_extra_state`` gives, are
    others after its training: statistics, counters, averages of weights, tables that calls write
    into.

    Args:
        model: with the numbers that it was built with.
        weights: what its training left, as :func:`bench.training.storage.read_weights` reads it: a
            buffer with two names is there under one of them, and counts once.
    """
    total = 0
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for name, before in model.state_dict().items():
        after = weights.get(name)
        if after is None or name in parameters:
            continue
        if after.shape != before.shape:  # all of it was made by the training
            total += after.numel()
            continue
        total += int((~same_numbers(before.to(after), after)).sum())
    return total
