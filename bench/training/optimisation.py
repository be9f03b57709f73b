"""Optimiser and learning-rate schedule, as functions of the settings and the step alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bench.config.settings import TrainingSettings
from tasks.interface import Batch, Task


def learning_rate_at(settings: TrainingSettings, total_steps: int) -> Callable[[int], float]:
    """The learning rate of step t in 0 .. total_steps - 1.

    ``cosine`` is evaluated at the absolute step, warm-up included (the schedule of the RegBench
    code: a small drop where the warm-up ends); ``cosine_after_warmup`` starts at its end.
    ``linear`` goes straight from the peak to the minimum.
    """
    peak, low = settings.lr, settings.lr * settings.minimum_lr_fraction
    warmup = settings.warmup_steps
    if warmup is None:
        warmup = math.ceil(settings.warmup_fraction * total_steps)

    def rate(step: int) -> float:
        if step < warmup:
            # Step 0 has the initial rate itself, as in both released codes (0, and 1e-6 of
            # RegBench).
            return settings.initial_lr + (peak - settings.initial_lr) * step / warmup
        if settings.schedule == "constant":
            return peak
        # The released RegBench schedule does not subtract its warm-up.
        start = warmup if settings.schedule == "cosine_after_warmup" else 0
        progress = (step - start) / max(1, total_steps - start)
        if settings.schedule == "linear":
            return peak + (low - peak) * progress
        return low + 0.5 * (peak - low) * (1 + math.cos(math.pi * progress))

    if settings.bias_correction:
        return rate
    beta1, beta2 = settings.betas
    # PyTorch divides by both corrections; this factor takes them out again (up to epsilon).
    return lambda t: rate(t) * (1 - beta1 ** (t + 1)) / math.sqrt(1 - beta2 ** (t + 1))


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW with one group for each pair of (weight decay, cap on the learning rate).

    A model's optional ``parameter_options()`` names parameters with rules of their own, such as
    the kernels of state-space models: ``{"name": {"weight_decay": 0.0, "maximum_lr": 1e-3}}``.
    """
    options: dict[str, dict[str, float]] = getattr(model, "parameter_options", dict)()
    # A parameter that several modules share may be named there by any of its names.
    by_parameter = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name in options:
            by_parameter[parameter] = options[name]
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        rules = by_parameter.get(parameter, {})
        # Matrices decay, while biases, gains and scalars of heads do not, as in nanoGPT; "all" is
        # RegBench's rule.
        decays = settings.weight_decay_on == "all" or parameter.ndim >= 2
        decay = rules.get("weight_decay", settings.weight_decay if decays else 0.0)
        cap = rules.get("maximum_lr", math.inf)
        group = {"params": [], "weight_decay": decay, "maximum_lr": cap}
        groups.setdefault((decay, cap), group)["params"].append(parameter)
    on_gpu = any(p.is_cuda for p in model.parameters())
    rates: dict[str, Any] = {"lr": settings.lr, "betas": settings.betas, "eps": 1e-8}
    return torch.optim.AdamW([*groups.values()], **rates, fused=True if on_gpu else None)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group the rate, but not more than its own cap."""
    for group in optimizer.param_groups:
        group["lr"] = min(rate, group["maximum_lr"])


def plain_steps(
    model: nn.Module,
    task: Task,
    settings: TrainingSettings,
    total: int,
    seed: int,
    loss: Callable[[nn.Module, Batch], Tensor],
) -> Iterator[None]:
    """The training of ``total`` steps by a loop on one page, without an engine: to time it. Halts
    after each step, when the device has made it; goes on after the last at its learning rate."""
    device = next(model.parameters()).device
    optimizer, rate_at = build_optimizer(model, settings), learning_rate_at(settings, total)
    bfloat16 = settings.precision == "bfloat16"
    for step in itertools.count():
        batch = task.training_batch(seed, step, settings.batch_size).to(device)
        set_learning_rate(optimizer, rate_at(min(step, total - 1)))
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            value = loss(model, batch)
        optimizer.zero_grad()
        value.backward()
        if settings.gradient_clip:
            nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
        optimizer.step()
        value.item()  # a loop that does not look at its loss is no training
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        yield
