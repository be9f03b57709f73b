"""Several models of unequal width trained at once on the same sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from tasks.factual_recall.facts import Facts


def train(
    models: Sequence[nn.Module],
    lrs: Sequence[float],
    facts: Facts,
    generator: torch.Generator,
    *,
    batch_size: int,
    steps: int,
    check_every: int,
    success: float,
    any_is_enough: bool = False,
    report: Callable[[int], None] = lambda step: None,
) -> tuple[list[float], list[int]]:
    """AdamW without weight decay on fresh sequences, each model with its own step size.

    Tensors are padded with zeros to the largest: a head or hidden unit whose weights are all zero
    adds nothing and has no gradient, so each model learns as it would alone. A model stops at the
    check where it recalls ``success`` of 1024 fresh test sequences.

    Args:
        any_is_enough: stop all of them with the first.

    Returns:
        The best test accuracy of each model, and the step of its last check.
    """
    device = next(models[0].parameters()).device
    trained = [name for name, _ in models[0].named_parameters()]
    # Its forward pass serves all: it takes its shapes from the padded tensors.
    largest = max(models, key=lambda model: sum(p.numel() for p in model.parameters()))
    state = _stacked(models)
    lr = torch.tensor(lrs, device=device)
    moments = {
        name: (torch.zeros_like(state[name]), torch.zeros_like(state[name])) for name in trained
    }
    test = _drawn(facts, 1024, generator, device)
    best, last = [0.0] * len(models), [steps] * len(models)
    rows = list(range(len(models)))

    def logits(tensors: dict[str, Tensor], counts: Tensor) -> Tensor:
        def one(of_one: dict[str, Tensor]) -> Tensor:
            return functional_call(largest, of_one, (counts, facts.end))

        return vmap(one)(tensors)

    for step in range(1, steps + 1):
        counts, labels = _drawn(facts, batch_size, generator, device)
        for name in trained:
            state[name].requires_grad_()
        outputs = logits(state, counts)
        targets = labels.expand(len(rows), -1)
        # The sum over models of each one's mean: gradients are those of training alone.
        loss = (
            F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="sum") / batch_size
        )
        gradients = torch.autograd.grad(loss, [state[name] for name in trained])
        for name, gradient in zip(trained, gradients, strict=True):
            state[name] = _adam(state[name].detach(), gradient, moments[name], lr, step)
        if step % check_every and step != steps:
            continue
        with torch.no_grad():
            right = logits(state, test[0]).argmax(-1) == test[1]
        accuracies = right.double().mean(-1).tolist()
        for row, accuracy in zip(rows, accuracies, strict=True):
            best[row], last[row] = max(best[row], accuracy), step
        report(step)
        going = [place for place, row in enumerate(rows) if best[row] < success]
        if not going or (any_is_enough and len(going) < len(rows)):
            break
        # Models that are done leave the stack, and the rest goes on with its moments.
        if len(going) < len(rows):
            rows = [rows[place] for place in going]
            state = {name: tensor[going] for name, tensor in state.items()}
            moments = {name: (m[going], v[going]) for name, (m, v) in moments.items()}
            lr = lr[going]
    return best, last


def _drawn(
    facts: Facts, size: int, generator: torch.Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    counts, subject, relation = facts.sequences(size, generator)
    return counts.to(device), facts.answers[subject, relation].to(device)


def _stacked(models: Sequence[nn.Module]) -> dict[str, Tensor]:
    states = [dict(model.state_dict()) for model in models]
    stacked = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        shape = [max(sizes) for sizes in zip(*(t.shape for t in tensors), strict=True)]
        # Zeros where a smaller model has nothing.
        room = tensors[0].new_zeros(len(tensors), *shape)
        for place, tensor in enumerate(tensors):
            room[(place, *(slice(size) for size in tensor.shape))] = tensor
        stacked[name] = room
    return stacked


def _adam(
    x: Tensor, gradient: Tensor, moments: tuple[Tensor, Tensor], lr: Tensor, step: int
) -> Tensor:
    """AdamW of Loshchilov and Hutter with PyTorch's defaults, without decay."""
    first, second = moments
    first.lerp_(gradient, 0.1)
    second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    # In the order of PyTorch's AdamW: √(v̂) + ε, with m̂ scaled into the step size.
    scaled = (second / (1 - 0.999**step)).sqrt_().add_(1e-8)
    size = (lr / (1 - 0.9**step)).reshape(-1, *[1] * (x.ndim - 1))
    return x - size * first / scaled
